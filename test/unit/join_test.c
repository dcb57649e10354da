/* SPDX-License-Identifier: MIT */
/*
 * join_test.c - joining and awaiting in a job that is cancelled (J6).
 */
#include "job_kit.h"

static const kc_launch_opts_t apart = { .flags = KC_JOB_DETACHED };

struct past {
    kc_job_t *failed, *cancelled;
    kc_deferred_t *value;
    count_t ready;
};

static int joins_what_has_ended(void *arg)
{
    struct past *past = arg;
    void *payload = NULL;

    set(&past->ready, 1);
    UNTIL(kc_cancelled());
    CHECK_EQ(kc_job_join(past->failed), -EIO);
    CHECK_EQ(kc_job_join_until(past->cancelled, 0), -EPIPE);
    CHECK_EQ(kc_await(past->value, &payload), 0);
    CHECK_PTR(payload, CODE(5));
    CHECK_EQ(kc_check(), -ECANCELED); /* that was no wait, and the cancel is still there */
    return -ECANCELED;
}

static int gives_five(void *arg UNUSED)
{
    kc_set_payload(CODE(5));
    return 0;
}

IN_A_JOB(a_job_that_has_ended_gives_its_result_in_a_cancelled_job)
{
    struct past past = { .failed = launch(returns, CODE(-EIO), &apart),
                         .cancelled = launch(waits, NULL, NULL) };

    CHECK_EQ(kc_async(gives_five, NULL, &past.value), 0);
    CHECK(kc_job_cancel(past.cancelled, -EPIPE));
    CHECK_EQ(kc_job_join(past.failed), -EIO);
    CHECK_EQ(kc_job_join(past.cancelled), -EPIPE);
    CHECK_EQ(kc_await(past.value, NULL), 0);
    kc_job_t *j = launch(joins_what_has_ended, &past, NULL);
    UNTIL(get(&past.ready));
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    kc_job_release(past.failed);
    kc_job_release(past.cancelled);
    kc_deferred_release(past.value);
    return 0;
}

/* ---- every kind of target, in every way, by everybody --------------------------------------- */

enum { TARGETS = 7 };

static struct target {
    kc_deferred_t *d;
    int rc;
    void *payload;
} target[TARGETS];

static void add_target(int i, kc_job_t *j, int rc, void *payload)
{
    CHECK_EQ(kc_job_join(j), rc);
    target[i] = (struct target){ (kc_deferred_t *)j, rc, payload };
}

static void make_targets(kc_sched_t *s)
{
    kc_launch_opts_t o = { .sched = s, .flags = KC_JOB_DETACHED };
    kc_deferred_t *d;

    add_target(0, launch(gives_five, NULL, &o), 0, CODE(5));
    add_target(1, launch(returns, CODE(-EIO), &o), -EIO, NULL);
    kc_job_t *j = launch(waits, NULL, &o);
    CHECK(kc_job_cancel(j, -EPIPE));
    add_target(2, j, -EPIPE, NULL);
    j = group(&o);
    CHECK_EQ(kc_group_close(j), 0);
    add_target(3, j, 0, NULL);
    CHECK_EQ(kc_promise(&o, &d), 0);
    CHECK_EQ(kc_promise_complete(d, -ENOENT, CODE(1)), 0);
    add_target(4, kc_deferred_job(d), -ENOENT, NULL);
    CHECK_EQ(kc_promise(&o, &d), 0);
    CHECK_EQ(kc_promise_complete(d, 0, CODE(6)), 0);
    add_target(5, kc_deferred_job(d), 0, CODE(6));
    o.timeout = 1;
    add_target(6, launch(waits, NULL, &o), -ETIMEDOUT, NULL);
}

static void release_targets(void)
{
    for (int i = 0; i < TARGETS; i++)
        kc_deferred_release(target[i].d);
}

/* Each call gives the result, and there is nothing to wait for. */
static int asks_in_every_way(void *arg)
{
    for (int i = 0; i < TARGETS; i++) {
        const struct target *t = &target[i];
        kc_job_t *j = kc_deferred_job(t->d);
        void *payload = &payload;
        CHECK_EQ(kc_job_join(j), t->rc);
        CHECK_EQ(kc_job_join_until(j, 0), t->rc);
        CHECK_EQ(kc_job_join_until(j, KC_FOREVER), t->rc);
        CHECK_EQ(kc_await(t->d, &payload), t->rc);
        CHECK_PTR(payload, t->payload);
        payload = &payload;
        CHECK_EQ(kc_deferred_get(t->d, &payload), t->rc);
        CHECK_PTR(payload, t->payload);
        CHECK_EQ(result_of(j), t->rc);
    }
    if (arg)
        add(arg);
    return 0;
}

static void asks_at_the_end(void *arg)
{
    (void)!asks_in_every_way(arg);
}

/* A body that is cancelled asks, so does a scope that is born cancelled, and the cleanups. */
static int asks_when_cancelled(void *arg)
{
    kc_scope_t scope;

    CHECK_EQ(kc_defer(asks_at_the_end, arg), 0);
    UNTIL(kc_cancelled());
    (void)!asks_in_every_way(arg);
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    (void)!asks_in_every_way(arg);
    CHECK_EQ(kc_scope_end(&scope), -EINTR);
    (void)!kc_check(); /* from here on one that is unwound does not go on */
    return -ECANCELED;
}

IN_A_JOB(whatever_has_ended_gives_its_result_in_every_way_to_a_cancelled_job)
{
    static const uint32_t flags[] = { 0, KC_JOB_UNWIND, KC_JOB_MIGRATE };

    make_targets(NULL);
    for (int i = 0; i < 3; i++) {
        count_t asked = 0;
        kc_job_t *j =
            launch(asks_when_cancelled, &asked, &(kc_launch_opts_t){ .flags = flags[i] });
        UNTIL(kc_load_relaxed(&j->task.word) & KC_WORD_STARTED);
        CHECK(kc_job_cancel(j, -EINTR));
        CHECK_EQ(kc_job_join(j), -EINTR);
        CHECK_EQ(get(&asked), 3);
        kc_job_release(j);
    }
    kc_scope_t scope;
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    CHECK(kc_cancel_current(-EINTR));
    (void)!asks_in_every_way(NULL);
    CHECK_EQ(kc_scope_end(&scope), -EINTR);
    release_targets();
    return 0;
}

OUTSIDE(whatever_has_ended_gives_its_result_to_plain_threads, s)
{
    make_targets(s);
    (void)!asks_in_every_way(NULL);
    pthread_t t = thread_runs(asks_in_every_way, NULL);
    CHECK_EQ(pthread_join(t, NULL), 0);
    release_targets();
}

TEST(whatever_has_ended_gives_its_result_when_the_scheduler_is_gone)
{
    kc_sched_opts_t opts = kit_opts(3);
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    make_targets(s);
    CHECK_EQ(kc_sched_destroy(s), 0);
    (void)!asks_in_every_way(NULL);
    pthread_t t = thread_runs(asks_in_every_way, NULL);
    CHECK_EQ(pthread_join(t, NULL), 0);
    release_targets();
}

/* The failure of the child cancels the one that awaits it, wherever that is meanwhile. */
static int awaits_one_that_fails(void *arg)
{
    kc_launch_opts_t there = { .affinity = kc_sched_workers(kc_sched_current()) > 1
                                               ? KC_WORKER_AT(1)
                                               : KC_WORKER };
    kc_deferred_t *d = NULL;

    int rc = kc_async_job(returns, CODE(77), &there, &d);
    CHECK_EQ(rc, 0);
    for (volatile intptr_t i = 0; i < (intptr_t)arg; i++)
        ;
    CHECK_EQ(kc_await(d, NULL), 77);
    kc_deferred_release(d);
    return 0;
}

IN_A_JOB(an_awaiter_gets_the_code_of_a_child_whose_failure_cancels_it_at_any_moment)
{
    for (intptr_t i = 0, n = kc_test_rounds(200); i < n; i++) {
        kc_job_t *j = launch(awaits_one_that_fails, CODE(i % 300), &apart);
        CHECK_EQ(kc_job_join(j), 77);
        kc_job_release(j);
    }
    return 0;
}
