/* SPDX-License-Identifier: MIT */
/*
 * Who has failed, what is said about it, and who is told (J31, J36).
 */
#include "failure_kit.h"

#include <stdio.h>

/* ---- kc_job_culprit ------------------------------------------------------------------------- */

/* j has failed because of that one. */
static void blames(kc_job_t *j, uint64_t id, const char *name)
{
    char its_name[32] = "nothing";
    uint64_t its_id = 0;

    CHECK_EQ(kc_job_culprit(j, &its_id, its_name), 0);
    CHECK_EQ(its_id, id);
    CHECK_STR(its_name, name);
    CHECK_EQ(kc_job_culprit(j, NULL, NULL), 0);
}

static void blames_nobody(kc_job_t *j)
{
    char name[32] = "nothing";
    uint64_t id = 77;

    CHECK_EQ(kc_job_culprit(j, &id, name), -ENOENT);
    CHECK_EQ(id, 77);
    CHECK_STR(name, "nothing");
}

struct chain {
    int depth;
    uint64_t id; /* of the last one */
    const char *name;
    kc_job_t *job[5];
};

/* Each is the child of the one before, and the last one fails. */
static int goes_down(void *arg)
{
    struct chain *c = arg;
    int i = c->depth++;

    blames_nobody(kc_job_current());
    if (i == 4) {
        c->id = kc_job_id(kc_job_current());
        return -EIO;
    }
    kc_launch_opts_t o = { .name = i == 3 ? c->name : "between" };
    c->job[i + 1] = launch(goes_down, c, &o);
    int rc = kc_sleep(KC_FOREVER);
    return i == 2 ? 7 : rc; /* a failure that comes too late */
}

IN_A_JOB(the_culprit_is_the_same_all_the_way_up)
{
    static const char *const names[] = { NULL, "the one that fails",
                                         "31 bytes, as long as it may be." };

    for (int i = 0; i < 3; i++) {
        struct chain c = { .name = names[i] };
        c.job[0] = ran(goes_down, &c, NULL);
        for (int k = 0; k < 5; k++)
            blames(c.job[k], c.id, c.name ? c.name : "");
        for (int k = 0; k < 5; k++)
            kc_job_release(c.job[k]);
    }
    return 0;
}

IN_A_JOB(a_job_that_fails_by_itself_is_the_culprit)
{
    kc_job_t *j = ran(returns, CODE(-EIO), &(kc_launch_opts_t){ .name = "it" });
    blames(j, kc_job_id(j), "it");
    kc_job_release(j);
    j = ran(fails, CODE(-EIO), NULL);
    blames(j, kc_job_id(j), "");
    kc_job_release(j);
    kc_deferred_t *d;
    CHECK_EQ(kc_promise(&(kc_launch_opts_t){ .name = "broken" }, &d), 0);
    blames_nobody(kc_deferred_job(d));
    CHECK_EQ(kc_promise_complete(d, 7, NULL), 0);
    CHECK_EQ(kc_await(d, NULL), 7);
    blames(kc_deferred_job(d), kc_job_id(kc_deferred_job(d)), "broken");
    kc_deferred_release(d);
    return 0;
}

IN_A_JOB(a_job_that_has_not_failed_has_no_culprit)
{
    kc_job_t *j = ran(returns, CODE(0), NULL);
    blames_nobody(j);
    kc_job_release(j);
    j = ran(returns, CODE(-ECANCELED), NULL);
    blames_nobody(j);
    kc_job_release(j);
    j = ran(fails_when_cancelled, CODE(-EIO), &(kc_launch_opts_t){ .timeout = KC_US(10) });
    blames_nobody(j); /* what it says is that its time was over */
    kc_job_release(j);
    blames_nobody(kc_job_current());
    return 0;
}

IN_A_JOB(scopes_and_groups_know_the_culprit)
{
    kc_scope_t scope;

    CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .name = "scope" }), 0);
    kc_job_t *s = kc_job_retain(kc_scope_job(&scope));
    kc_job_t *j = launch(returns, CODE(-EIO), &(kc_launch_opts_t){ .name = "child" });
    CHECK_EQ(kc_scope_end(&scope), -EIO);
    blames(s, kc_job_id(j), "child");
    kc_job_release(s);
    kc_job_release(j);

    CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .name = "scope" }), 0);
    s = kc_job_retain(kc_scope_job(&scope));
    CHECK(kc_fail_current(3));
    CHECK_EQ(kc_scope_end(&scope), 3);
    blames(s, kc_job_id(s), "scope");
    kc_job_release(s);

    kc_job_t *g = group(&alone);
    j = launch(returns, CODE(-EIO), &(kc_launch_opts_t){ .parent = g, .name = "child" });
    CHECK_EQ(kc_job_join(g), -EIO);
    blames(g, kc_job_id(j), "child");
    kc_job_release(g);
    kc_job_release(j);
    return 0;
}

static int has_a_named_child_that_fails(void *arg)
{
    CHECK_EQ(kc_launch_job(returns, arg, &(kc_launch_opts_t){ .name = "child" }, NULL), 0);
    return kc_sleep(KC_FOREVER);
}

TEST(the_culprit_is_known_when_the_scheduler_is_gone_and_nothing_is_left_then)
{
    int before = jobs_there();

    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        kc_sched_t *s = NULL;
        char name[32];
        CHECK_EQ(kc_sched_create(&opts, &s), 0);
        kc_job_t *j = launch(has_a_named_child_that_fails, CODE(-EIO),
                             &(kc_launch_opts_t){ .sched = s, .name = "top" });
        CHECK_EQ(kc_job_join(j), -EIO);
        CHECK_EQ(kc_sched_destroy(s), 0);
        CHECK_EQ(kc_job_culprit(j, NULL, name), 0);
        CHECK_STR(name, "child");
        kc_job_release(j);
        CHECK_EQ(jobs_there(), before);
    }
}

/* ---- messages ------------------------------------------------------------------------------- */

static void says(kc_job_t *j, const char *text)
{
    char buf[256] = "", few[5] = "wxyz";
    int n = (int)strlen(text);

    CHECK_EQ(kc_job_message(j, buf, sizeof buf), n);
    CHECK_STR(buf, text);
    CHECK_EQ(kc_job_message(j, few, sizeof few), n);
    CHECK_EQ(strlen(few), n < 4 ? (size_t)n : 4);
    CHECK_EQ(strncmp(few, text, 4), 0);
    CHECK_EQ(kc_job_message(j, NULL, 0), n);
    CHECK_EQ(kc_job_message(j, NULL, 1), -EINVAL);
}

static void says_nothing(kc_job_t *j)
{
    char buf[8] = "as was";

    CHECK_EQ(kc_job_message(j, buf, sizeof buf), -ENOENT);
    CHECK_STR(buf, "as was");
}

static int says_why(void *arg)
{
    kc_set_message("first");
    says_nothing(kc_job_current());
    kc_set_message("%s: no route to %d hosts", "dial", 3);
    return (int)(intptr_t)arg;
}

static int has_something_to_say(void *arg)
{
    kc_set_message("above");
    CHECK_EQ(kc_launch(says_why, arg), 0);
    return kc_sleep(KC_FOREVER);
}

static int above_that(void *arg)
{
    CHECK_EQ(kc_launch(has_something_to_say, arg), 0);
    return kc_sleep(KC_FOREVER);
}

static int says_and_has_a_child_that_fails(void *arg)
{
    kc_set_message("it was I who asked");
    CHECK_EQ(kc_launch(returns, arg), 0);
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(a_message_goes_with_the_failure_to_every_job_that_ends_with_it)
{
    static const char *const text = "dial: no route to 3 hosts";
    kc_scope_t scope;

    kc_job_t *j = ran(says_why, CODE(-EIO), NULL);
    says(j, text);
    kc_job_release(j);
    j = ran(has_something_to_say, CODE(-EIO), NULL); /* it replaces what the parent said */
    says(j, text);
    kc_job_release(j);
    j = ran(above_that, CODE(9), NULL);
    says(j, text);
    kc_job_release(j);
    j = ran(says_and_has_a_child_that_fails, CODE(9), NULL); /* nothing replaces it */
    says(j, "it was I who asked");
    kc_job_release(j);

    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    kc_job_t *s = kc_job_retain(kc_scope_job(&scope));
    CHECK_EQ(kc_launch(above_that, CODE(9)), 0);
    CHECK_EQ(kc_scope_end(&scope), 9);
    says(s, text);
    kc_job_release(s);
    return 0;
}

static int says_and_sleeps(void *arg UNUSED)
{
    kc_set_message("in vain");
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(there_is_no_message_unless_the_job_ended_failed)
{
    kc_job_t *j = ran(says_why, CODE(0), NULL);
    says_nothing(j);
    kc_job_release(j);
    j = ran(says_why, CODE(-ECANCELED), NULL);
    says_nothing(j);
    kc_job_release(j);
    j = ran(says_and_sleeps, NULL, &(kc_launch_opts_t){ .timeout = KC_US(10) });
    CHECK_EQ(result_of(j), -ETIMEDOUT);
    says_nothing(j);
    kc_job_release(j);
    j = ran(returns, CODE(-EIO), NULL); /* which has none */
    says_nothing(j);
    kc_job_release(j);
    says_nothing(kc_job_current());
    return 0;
}

static int says_much(void *arg)
{
    kc_set_message("%0300d", 7);
    kc_set_message("%0*d", (int)(intptr_t)arg, 7);
    return 1;
}

IN_A_JOB(a_message_is_cut_after_127_bytes)
{
    char text[128];

    for (int n = 126; n < 400; n += n == 129 ? 200 : 1) {
        kc_job_t *j = ran(says_much, CODE(n), NULL);
        memset(text, '0', sizeof text);
        text[n < 127 ? n : 127] = 0;
        if (n < 128)
            text[n - 1] = '7';
        says(j, text);
        kc_job_release(j);
    }
    return 0;
}

static int says_in_a_scope(void *arg)
{
    kc_scope_t scope;

    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    kc_job_t *s = kc_job_retain(kc_scope_job(&scope));
    kc_set_message("in a scope");
    CHECK(kc_fail_current(-EIO));
    CHECK_EQ(kc_scope_end(&scope), -EIO);
    says(s, "in a scope");
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    CHECK_EQ(kc_scope_end(&scope), 0);
    kc_set_message("after it");
    says(s, "in a scope");
    kc_job_release(s);
    return (int)(intptr_t)arg;
}

IN_A_JOB(a_message_is_the_coroutines_own_and_a_scope_that_fails_keeps_it)
{
    kc_job_t *j = ran(says_in_a_scope, CODE(7), NULL);
    says(j, "after it");
    kc_job_release(j);
    j = ran(says_in_a_scope, CODE(0), NULL);
    says_nothing(j);
    kc_job_release(j);
    return 0;
}

TEST_ABORTS(kc_set_message_outside_jobs_aborts, "kc_set_message: there is no current job")
{
    kc_set_message("nobody");
}

static int says_and_waits(void *arg)
{
    kc_set_message("line 1\nline \"2\"");
    return waits(arg);
}

IN_A_JOB(a_dump_prints_messages_on_one_line)
{
    char *text = NULL;
    size_t size = 0;
    count_t in = 0;
    kc_job_t *j = launch(says_and_waits, &in, NULL);

    UNTIL(get(&in));
    FILE *to = open_memstream(&text, &size);
    CHECK(to != NULL);
    CHECK_EQ(kc_dump(kc_sched_current(), to), 0);
    CHECK_EQ(fclose(to), 0);
    if (!strstr(text, ", says \"line 1 line \"2\"\""))
        FAIL("%s", text);
    free(text);
    kc_job_drop(j);
    return 0;
}

/* ---- without memory ------------------------------------------------------------------------- */

static int fail_at, fault_calls;

static bool fail_all_from(const char *what UNUSED)
{
    return ++fault_calls >= fail_at;
}

static int fails_without_memory(void *arg UNUSED)
{
    kc_set_message("lost, or not");
    return -EIO;
}

static int runs_a_child_without_memory(void *arg UNUSED)
{
    kc_job_t *j = launch(fails_without_memory, NULL, NULL);

    fault_calls = 0;
    kc__os_fault = fail_all_from;
    CHECK_EQ(kc_job_join(j), -EIO);
    kc__os_fault = NULL;
    kc_job_release(j);
    return 0;
}

TEST(without_memory_a_failure_goes_up_and_only_its_culprit_is_not_known)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };
    bool all = false, none = false;
    int before = jobs_there();

    for (fail_at = 1; fail_at < 20; fail_at++) {
        kc_sched_t *s = NULL;
        char name[32], text[32];
        CHECK_EQ(kc_sched_create(&opts, &s), 0);
        kc_job_t *j = launch(runs_a_child_without_memory, NULL, &(kc_launch_opts_t){ .sched = s });
        CHECK_EQ(kc_job_join(j), -EIO);
        CHECK_EQ(kc_job_state(j), KC_JOB_FAILED);
        int who = kc_job_culprit(j, NULL, name), what = kc_job_message(j, text, sizeof text);
        CHECK(who == 0 || who == -ENOMEM);
        CHECK(what == 12 || what == -ENOENT);
        all |= who == 0 && what == 12;
        none |= who == -ENOMEM;
        kc_job_release(j);
        CHECK_EQ(kc_sched_destroy(s), 0);
        CHECK_EQ(jobs_there(), before);
    }
    CHECK(all && none);
}

/* ---- on_failure ----------------------------------------------------------------------------- */

struct heard {
    count_t times, after;
    int code[64];
    uint64_t id[64], culprit[64];
    kc_job_t *parent; /* which must not have heard of it before; NULL: that is not asked */
    count_t said;
};

static struct heard heard;

static void hears(kc_job_t *job, int code, void *arg)
{
    struct heard *h = arg;
    char text[128];
    int i = add(&h->times), rc = 12345;

    CHECK_LT(i, 64);
    CHECK_PTR(kc_job_current(), NULL);
    CHECK_PTR(kcoro_current(), NULL);
    CHECK_EQ(kc_job_result(job, NULL), -EAGAIN);
    CHECK(kc_job_state(job) != KC_JOB_FAILED);
    CHECK(kc_job_returned(job, &rc) == 0);
    h->code[i] = code;
    h->id[i] = kc_job_id(job);
    CHECK_EQ(kc_job_culprit(job, &h->culprit[i], text), 0);
    set(&h->said, kc_job_message(job, text, sizeof text) >= 0);
    if (h->parent)
        CHECK_EQ(kc_job_state(h->parent), KC_JOB_ACTIVE);
}

/* Runs fn in all kinds of schedulers, each with an empty book of what is heard. */
static void heard_in(kc_fn_t fn, int code)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        opts.on_failure = hears;
        opts.on_failure_arg = &heard;
        memset(&heard, 0, sizeof heard);
        CHECK_EQ(kc_run(fn, NULL, &opts), code);
    }
}

static int fails_of_each_kind(void *arg UNUSED)
{
    kc_scope_t scope;
    kc_deferred_t *d;

    kc_job_release(ran(returns, CODE(0), NULL));
    kc_job_release(ran(returns, CODE(-ECANCELED), NULL));
    kc_job_release(ran(fails_when_cancelled, CODE(1), &(kc_launch_opts_t){ .timeout = 1 }));
    CHECK_EQ(get(&heard.times), 0);

    kc_job_t *j = ran(returns, CODE(-EIO), NULL);
    CHECK_EQ(get(&heard.times), 1);
    CHECK_EQ(heard.code[0], -EIO);
    CHECK_EQ(heard.id[0], kc_job_id(j));
    CHECK_EQ(heard.culprit[0], kc_job_id(j));
    kc_job_release(j);

    CHECK_EQ(kc_promise(NULL, &d), 0); /* no coroutines */
    CHECK_EQ(kc_promise_complete(d, -EIO, NULL), 0);
    kc_deferred_release(d);
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    CHECK(kc_fail_current(-EIO));
    CHECK_EQ(kc_scope_end(&scope), -EIO);
    CHECK_EQ(get(&heard.times), 1);

    CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .flags = KC_JOB_SUPERVISOR }), 0);
    CHECK_EQ(kc_launch(returns, CODE(2)), 0);
    CHECK_EQ(kc_launch(fails, CODE(2)), 0);
    CHECK_EQ(kc_scope_end(&scope), 0);
    CHECK_EQ(get(&heard.times), 3);

    kc_job_t *g = group(&alone);
    j = launch(returns, CODE(4), &(kc_launch_opts_t){ .parent = g });
    CHECK_EQ(kc_job_join(g), 4);
    CHECK_EQ(get(&heard.times), 4);
    kc_job_release(g);
    kc_job_release(j);

    j = launch(returns, CODE(5), &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });
    CHECK_EQ(kc_job_join(j), 5);
    CHECK_EQ(get(&heard.times), 5);
    kc_job_release(j);
    CHECK_EQ(kc_sched_submit(kc_sched_current(), KC_WORKER, returns, CODE(6)), 0);
    UNTIL(get(&heard.times) == 6);

    kc_call_t calls[2] = { { .fn = returns, .arg = CODE(7) }, { .fn = returns, .arg = CODE(0) } };
    CHECK_EQ(kc_all(calls, 2, KC_SIG_NONE), 7);
    CHECK_EQ(get(&heard.times), 7);
    return 0;
}

TEST(on_failure_is_called_once_for_each_coroutine_that_fails)
{
    heard_in(fails_of_each_kind, 0);
}

static int is_a_parent(void *arg UNUSED)
{
    kc_job_t *me = kc_job_current();

    heard.parent = NULL;
    kc_job_t *j = launch(has_something_to_say, CODE(-EIO), NULL);
    CHECK_EQ(kc_job_join(j), -EIO);
    CHECK_EQ(get(&heard.times), 2); /* the child, then the one above; then I */
    CHECK(get(&heard.said));
    CHECK(heard.id[0] != heard.id[1]);
    CHECK_EQ(heard.id[1], kc_job_id(j));
    CHECK_EQ(heard.culprit[0], heard.id[0]);
    CHECK_EQ(heard.culprit[1], heard.id[0]);
    CHECK_EQ(kc_check(), -ECANCELED);
    kc_job_release(j);
    heard.after = (int)kc_job_id(me);
    return 0;
}

TEST(on_failure_is_called_for_each_job_above_with_the_same_culprit)
{
    heard_in(is_a_parent, -EIO);
    CHECK_EQ(get(&heard.times), 3);
    CHECK_EQ(heard.id[2], get(&heard.after));
    CHECK_EQ(heard.culprit[2], heard.id[0]);
}

static int hears_last(void *arg UNUSED)
{
    heard.parent = kc_job_current();
    kc_job_t *j = launch(returns, CODE(-EIO), NULL);
    CHECK_EQ(kc_job_join(j), -EIO);
    CHECK_EQ(get(&heard.times), 1);
    heard.parent = NULL;
    CHECK_EQ(kc_sleep(0), -ECANCELED);
    kc_job_release(j);
    return 0;
}

TEST(on_failure_is_called_before_anybody_else_sees_the_failure)
{
    heard_in(hears_last, -EIO);
}

static void waits_in_there(kc_job_t *job UNUSED, int code UNUSED, void *arg UNUSED)
{
    (void)!kc_sleep(1);
}

TEST_ABORTS(an_on_failure_that_waits_aborts, "kc_sleep")
{
    (void)!kc_run(returns, CODE(1),
                  &(kc_sched_opts_t){ .workers = KC_NO_WORKERS, .on_failure = waits_in_there });
}
