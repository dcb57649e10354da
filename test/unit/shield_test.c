/* SPDX-License-Identifier: MIT */
/*
 * shield_test.c - shields that open in a job that is cancelled already (J30).
 */
#include "job_kit.h"

/* In a job that is cancelled: nothing waits, and no shield opens but this one. */
static void is_cancelled_here(void)
{
    CHECK(kc_cancelled());
    CHECK_EQ(kc_sleep(1), -ECANCELED);
    CHECK_EQ(kc_launch(never, NULL), -ECANCELED);
    CHECK_EQ(kc_shield_begin(), -ECANCELED);
}

static int says_goodbye(void *arg)
{
    count_t n = 0;
    kc_scope_t scope;
    kc_call_t calls[] = { { .fn = counts, .arg = &n }, { .fn = counts, .arg = &n } };

    CHECK_EQ(waits(arg), -ECANCELED);
    is_cancelled_here();
    kc_shield_begin_nocancel();
    CHECK(!kc_cancelled());
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_cancel_reason(), -EPIPE);
    CHECK_EQ(kc_sleep(KC_US(1)), 0);
    CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    CHECK_EQ(kc_launch(counts, &n), 0);
    CHECK_EQ(kc_scope_end(&scope), 0);
    CHECK_EQ(kc_all(calls, 2, KC_SIG_NONE), 0);
    kc_job_t *j = launch(counts, &n, NULL);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    CHECK_EQ(get(&n), 4);
    kc_shield_end();
    is_cancelled_here();
    return -ECANCELED;
}

static void cancel_when_in(kc_fn_t fn)
{
    count_t in = 0;
    kc_job_t *j = launch(fn, &in, NULL);

    UNTIL(get(&in));
    CHECK(kc_job_cancel(j, -EPIPE));
    CHECK_EQ(kc_job_join(j), -EPIPE);
    ended(j, KC_JOB_CANCELLED, -EPIPE);
}

IN_A_JOB(a_shield_that_does_not_look_at_the_cancel_opens_in_a_job_that_is_cancelled)
{
    cancel_when_in(says_goodbye);
    return 0;
}

static int nests(void *arg)
{
    CHECK_EQ(waits(arg), -ECANCELED);
    kc_shield_begin_nocancel();
    CHECK_EQ(kc_shield_begin(), 0); /* a nested one succeeds although a cancel is waiting (J12) */
    kc_shield_begin_nocancel();
    CHECK_EQ(kc_yield(), 0);
    kc_shield_end();
    kc_shield_end();
    CHECK_EQ(kc_yield(), 0);
    kc_shield_end();
    is_cancelled_here();
    kc_shield_begin_nocancel(); /* and again */
    CHECK_EQ(kc_yield(), 0);
    kc_shield_end();
    is_cancelled_here();
    return -ECANCELED;
}

IN_A_JOB(a_nocancel_shield_nests_with_others_and_may_be_opened_again)
{
    cancel_when_in(nests);
    return 0;
}

static int leaves_a_child(void *arg)
{
    count_t in = 0;
    kc_scope_t scope;

    CHECK_EQ(waits(arg), -ECANCELED);
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0); /* born cancelled */
    is_cancelled_here();
    kc_shield_begin_nocancel();
    CHECK_EQ(kc_launch(waits, &in), 0);
    UNTIL(get(&in));
    CHECK_EQ(kc_sleep(KC_US(1)), 0);
    kc_shield_end();
    CHECK_EQ(kc_scope_end(&scope), -EPIPE); /* or it would not end */
    return -ECANCELED;
}

IN_A_JOB(a_job_that_was_launched_in_a_nocancel_shield_is_cancelled_at_its_end)
{
    cancel_when_in(leaves_a_child);
    return 0;
}

static int is_asked_inside(void *arg)
{
    kc_shield_begin_nocancel();
    add(arg);
    UNTIL(kc_cancel_reason() != 0);
    CHECK(!kc_cancelled());
    CHECK_EQ(kc_yield(), 0);
    kc_shield_end();
    is_cancelled_here();
    return -ECANCELED;
}

/* As kc_shield_begin does. */
IN_A_JOB(a_nocancel_shield_in_a_job_that_is_not_cancelled_holds_back_a_cancel)
{
    cancel_when_in(is_asked_inside);
    return 0;
}

static void undone(void *arg)
{
    add(arg);
}

struct unwound {
    count_t in, said, cleaned;
};

/* Not one that is unwound: its cleanups may open one, and so may what runs in an inner scope. */
static void says_so_in_a_cleanup(void *arg)
{
    struct unwound *u = arg;

    kc_shield_begin_nocancel();
    CHECK_EQ(kc_sleep(KC_US(1)), 0);
    add(&u->said);
    kc_shield_end();
    CHECK_EQ(kc_sleep(KC_US(1)), 0); /* the cleanup's own shield is open */
}

static int is_unwound(void *arg)
{
    struct unwound *u = arg;

    KC_CLEANUP(undone, &u->cleaned);
    CHECK_EQ(kc_defer(says_so_in_a_cleanup, u), 0);
    kc_shield_begin_nocancel();
    add(&u->in);
    UNTIL(kc_cancel_reason() != 0);
    CHECK_EQ(kc_sleep(KC_US(1)), 0); /* inside nothing is unwound */
    add(&u->said);
    kc_shield_end();
    (void)kc_yield();
    FAIL("it was not unwound");
}

IN_A_JOB(a_body_is_unwound_after_its_nocancel_shield)
{
    struct unwound u = { 0 };
    kc_job_t *j = launch(is_unwound, &u, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });

    UNTIL(get(&u.in));
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&u.said), 2);
    CHECK_EQ(get(&u.cleaned), 1);
    kc_job_release(j);
    return 0;
}

static int takes_its_time(void *arg)
{
    kc_time_t *over = arg;

    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    kc_shield_begin_nocancel();
    CHECK_EQ(kc_sleep(KC_MS(2)), 0);
    CHECK_EQ(kc_sleep(KC_SEC(1)), -ECANCELED);
    *over = kc_now();
    kc_shield_end();
    kc_shield_begin_nocancel(); /* opens, and holds nothing back */
    CHECK(kc_cancelled());
    CHECK_EQ(kc_sleep(KC_SEC(1)), -ECANCELED);
    CHECK_EQ(kc_launch(never, NULL), -ECANCELED);
    kc_shield_end();
    return -ECANCELED;
}

IN_VIRTUAL_TIME(a_nocancel_shield_is_bounded_by_the_grace)
{
    kc_time_t over = 0;
    kc_job_t *j = launch(takes_its_time, &over, &(kc_launch_opts_t){ .grace = KC_MS(5) });

    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    kc_time_t at = kc_now();
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(over - at, KC_MS(5));
    kc_job_release(j);
    return 0;
}

TEST_ABORTS(a_nocancel_shield_on_a_plain_thread_aborts,
            "kc_shield_begin_nocancel: there is no current job (rule J30,")
{
    kc_shield_begin_nocancel();
}

static int leaves_it_open(void *arg UNUSED)
{
    kc_shield_begin_nocancel();
    return 0;
}

TEST_ABORTS(a_body_that_ends_inside_a_nocancel_shield_aborts, "a shield is still open (rule J25,")
{
    run_named(leaves_it_open, "open");
}
