/* SPDX-License-Identifier: MIT */
/*
 * job_forbid_test.c - what a job that forbids signals calls goes on too: scopes whose body is its
 * own, when one of its children has failed (J24).
 */
#include "job_kit.h"

#include <kcoro/collect.h>

enum { FAILS_WITH = 7 };

struct family {
    count_t in, told; /* children that wait, and that were cancelled */
};

static int waits_as_sibling(void *arg)
{
    struct family *f = arg;

    add(&f->in);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    add(&f->told);
    return -ECANCELED;
}

/* A child of j, which is the job of the caller or of a scope around it, fails; a sibling is
 * cancelled for that. */
static void a_child_fails(struct family *f, kc_job_t *j)
{
    kc_launch_opts_t opts = { .parent = j };

    CHECK_EQ(kc_launch_job(waits_as_sibling, f, &opts, NULL), 0);
    UNTIL(get(&f->in) == 1);
    kc_job_t *child = launch(returns, CODE(FAILS_WITH), &opts);
    UNTIL(kc_job_state(child) == KC_JOB_FAILED && get(&f->told) == 1);
    kc_job_release(child);
}

static int naps(void *arg)
{
    CHECK(!kc_cancelled());
    CHECK_EQ(kc_sleep(KC_US(1)), 0);
    CHECK_EQ(kc_launch(counts, arg), 0);
    return 0;
}

static int sleeps_too_long(void *arg UNUSED)
{
    return kc_sleep(KC_FOREVER);
}

/* Everything that a scope does, in a job that takes no more children. */
static void check_scopes(void)
{
    count_t n = 0;
    kc_scope_t s;

    CHECK_EQ(kc_scope(naps, &n, NULL), 0);
    CHECK_EQ(kc_with_timeout(KC_SEC(3600), naps, &n), 0);
    CHECK_EQ(kc_with_timeout(KC_US(1), sleeps_too_long, NULL), -ETIMEDOUT);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_job_state(kc_scope_job(&s)), KC_JOB_ACTIVE);
    CHECK_EQ(kc_scope(naps, &n, NULL), 0);
    CHECK_EQ(kc_launch(returns, CODE(3)), 0);
    CHECK_EQ(kc_scope_end(&s), 3); /* its own children cancel it as ever */
    CHECK_EQ(get(&n), 3);
    CHECK_EQ(kc_launch(never, NULL), -ECANCELED);
    CHECK_EQ(kc_check(), 0);
}

static int opens_scopes_after(void *arg)
{
    kc_forbid_signal();
    a_child_fails(arg, kc_job_current());
    check_scopes();
    return 0;
}

IN_A_JOB(a_scope_in_a_job_that_forbids_signals_is_not_born_cancelled)
{
    struct family f = { 0 };
    kc_job_t *j = launch(opens_scopes_after, &f, &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });

    CHECK_EQ(kc_job_join(j), FAILS_WITH);
    ended(j, KC_JOB_FAILED, FAILS_WITH);
    return 0;
}

static int has_scopes_open(void *arg)
{
    kc_job_t *own = kc_job_current();
    kc_scope_t outer, inner;

    kc_forbid_signal();
    CHECK_EQ(kc_scope_begin(&outer, NULL), 0);
    CHECK_EQ(kc_scope_begin(&inner, NULL), 0);
    a_child_fails(arg, own);
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_sleep(KC_US(1)), 0);
    CHECK_EQ(kc_launch(returns, NULL), 0);
    CHECK_EQ(kc_scope_end(&inner), 0);
    CHECK_EQ(kc_scope_end(&outer), 0);
    check_scopes();
    return 0;
}

IN_A_JOB(an_open_scope_of_a_job_that_forbids_signals_continues_when_a_child_fails)
{
    struct family f = { 0 };
    kc_job_t *j = launch(has_scopes_open, &f, &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });

    CHECK_EQ(kc_job_join(j), FAILS_WITH);
    ended(j, KC_JOB_FAILED, FAILS_WITH);
    return 0;
}

static int opens_one_meanwhile(void *arg UNUSED)
{
    kc_scope_t s;

    kc_forbid_signal();
    CHECK_EQ(kc_launch(returns, CODE(FAILS_WITH)), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kc_scope_begin(&s, NULL), 0);
        CHECK_EQ(kc_check(), 0);
        CHECK_EQ(kc_launch(returns, NULL), 0);
        CHECK_EQ(kc_yield(), 0);
        CHECK_EQ(kc_scope_end(&s), 0);
    }
    return 0;
}

IN_A_JOB(a_scope_that_is_opened_while_a_child_fails_continues)
{
    for (long round = kc_test_rounds(20); round > 0; round--) {
        kc_job_t *j =
            launch(opens_one_meanwhile, NULL, &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });
        CHECK_EQ(kc_job_join(j), FAILS_WITH);
        kc_job_release(j);
    }
    return 0;
}

struct last {
    struct family f;
    count_t waits;
    bool open_before; /* the scope was there when the child failed */
};

static int waits_in_its_scope(void *arg)
{
    struct last *l = arg;
    kc_job_t *own = kc_job_current();
    kc_scope_t s;

    kc_forbid_signal();
    if (!l->open_before)
        a_child_fails(&l->f, own);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    if (l->open_before)
        a_child_fails(&l->f, own);
    set(&l->waits, 1);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), -ESHUTDOWN);
    return kc_scope_end(&s);
}

TEST(the_end_of_a_scheduler_reaches_the_scope_of_a_job_that_forbids_signals)
{
    for (int i = 0; i < 2 * KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i / 2);
        struct last l = { .open_before = i % 2 };
        kc_sched_t *s;
        CHECK_EQ(kc_sched_create(&opts, &s), 0);
        kc_job_t *j = launch(waits_in_its_scope, &l, &(kc_launch_opts_t){ .sched = s });
        while (!get(&l.waits))
            CHECK_EQ(kc_sleep(KC_US(50)), 0);
        CHECK_EQ(kc_sched_destroy(s), 0);
        ended(j, KC_JOB_FAILED, FAILS_WITH);
    }
}
