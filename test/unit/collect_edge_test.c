/* SPDX-License-Identifier: MIT */
/*
 * collect_edge_test.c - several calls at once: bad arguments, cancelled callers, unwinding, time,
 * no memory (A1-A4, J9, J17).
 */
#include "collect_kit.h"

#include "base/os.h"

/* ---- what none of them does --------------------------------------------------------------- */

typedef int (*collect_t)(kc_call_t *calls, size_t n);

static int do_all(kc_call_t *calls, size_t n)
{
    return kc_all(calls, n, KC_SIG_NONE);
}

static int do_all_with_bits(kc_call_t *calls, size_t n)
{
    return kc_all(calls, n, LOW | HIGH);
}

static int do_any(kc_call_t *calls, size_t n)
{
    return kc_any(calls, n, KC_SIG_NONE, NULL);
}

static int do_any_with_bits(kc_call_t *calls, size_t n)
{
    return kc_any(calls, n, LOW | KC_SIG_TERMINATE, NULL);
}

static int do_race(kc_call_t *calls, size_t n)
{
    return kc_race(calls, n, NULL);
}

static int do_first_ok(kc_call_t *calls, size_t n)
{
    return kc_first_ok(calls, n, NULL);
}

static int do_window(kc_call_t *calls, size_t n)
{
    return kc_all_window(calls, n, 1);
}

static int do_with_timeout(kc_call_t *calls, size_t n)
{
    return n == 0 ? 0 : kc_with_timeout(KC_SEC(100), calls ? calls[0].fn : NULL, calls);
}

static int do_with_deadline(kc_call_t *calls, size_t n)
{
    return n == 0 ? 0
                  : kc_with_deadline(kc_now() + KC_SEC(100), calls ? calls[0].fn : NULL, calls);
}

static const collect_t all_of_them[] = {
    do_all,      do_all_with_bits, kc_all_fail_fast, do_window,       do_race,
    do_first_ok, do_any,           do_any_with_bits, do_with_timeout, do_with_deadline,
};
enum { THEM = sizeof all_of_them / sizeof all_of_them[0] };

IN_A_JOB(bad_arguments_of_collect_calls_are_einval)
{
    size_t winner = 99;
    kc_call_t calls[] = { { .fn = never }, { .fn = NULL } };

    for (int i = 0; i < THEM; i++)
        CHECK_EQ(all_of_them[i](NULL, 2), -EINVAL);
    for (int i = 0; i < THEM - 2; i++)
        CHECK_EQ(all_of_them[i](calls, 2), -EINVAL);
    CHECK_EQ(kc_any(calls, 0, KC_SIG_NONE, &winner), -EINVAL);
    CHECK_EQ(kc_race(calls, 0, &winner), -EINVAL);
    CHECK_EQ(kc_first_ok(calls, 0, &winner), -EINVAL);
    CHECK_EQ(winner, 99);
    return 0;
}

OUTSIDE(outside_a_job_collect_calls_are_eperm, s)
{
    kc_call_t calls[] = { { .fn = never }, { .fn = never } };

    CHECK(s != NULL);
    for (int i = 0; i < THEM; i++)
        CHECK_EQ(all_of_them[i](calls, 2), -EPERM);
}

static int does_each_in_a_cancelled_job(void *arg UNUSED)
{
    kc_call_t calls[] = { { .fn = never, .rc = 55 }, { .fn = never, .rc = 55 } };

    CHECK(kc_cancel_current(0));
    for (int i = 0; i < THEM; i++)
        CHECK_EQ(all_of_them[i](calls, 2), -ECANCELED);
    CHECK_EQ(calls[0].rc, 55);
    return -ECANCELED;
}

IN_A_JOB(in_a_cancelled_job_collect_calls_do_nothing)
{
    kc_job_t *j = launch(does_each_in_a_cancelled_job, NULL, NULL);

    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    return 0;
}

static int collects_under_a_shield(void *arg UNUSED)
{
    kc_call_t calls[] = { { .fn = gives }, { .fn = gives } };

    CHECK_EQ(kc_shield_begin(), 0);
    CHECK(kc_cancel_current(0));
    for (int i = 0; i < THEM; i++)
        CHECK_EQ(all_of_them[i](calls, 2), 0);
    kc_shield_end();
    CHECK_EQ(kc_check(), -ECANCELED);
    return -ECANCELED;
}

IN_A_JOB(under_a_shield_collect_calls_work_in_a_cancelled_job)
{
    kc_job_t *j = launch(collects_under_a_shield, NULL, NULL);

    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    return 0;
}

/* ---- the caller is cancelled while it waits ----------------------------------------------- */

static kc_call_t shared[3];
static int shared_rc;

static int collects_those_who_linger(void *arg)
{
    collect_t collect = *(collect_t *)arg;
    bool any = collect == do_any || collect == do_any_with_bits;
    int rc = collect(shared, 3);

    CHECK_EQ(rc, -ECANCELED);
    CHECK_EQ(get(&out), any ? 0 : get(&in)); /* all that had begun have ended, or none */
    for (int i = 0; i < 3; i++)
        CHECK_EQ(shared[i].rc, any ? 55 : shared_rc);
    CHECK_EQ(kc_check(), -ECANCELED);
    set(&gate, 1);
    return rc;
}

static void cancel_while_waiting(int i, int reason)
{
    bool any = all_of_them[i] == do_any || all_of_them[i] == do_any_with_bits;
    int begun = all_of_them[i] == do_window ? 1 : 3;
    collect_t collect = all_of_them[i];

    start_afresh();
    shared_rc = reason ? reason : -ECANCELED;
    for (int k = 0; k < 3; k++)
        shared[k] = (kc_call_t){ .fn = lingers, .rc = 55 };
    kc_job_t *j = launch(collects_those_who_linger, &collect, NULL);
    UNTIL(get(&in) == begun);
    CHECK(kc_job_cancel(j, reason));
    if (!any)
        set(&gate, 1);
    CHECK_EQ(kc_job_join(j), shared_rc);
    CHECK_EQ(get(&out), begun);
    kc_job_release(j);
}

IN_A_JOB(a_cancel_of_the_caller_reaches_the_calls_which_are_waited_for_but_by_any)
{
    for (int i = 0; i < THEM - 2; i++)
        cancel_while_waiting(i, 0);
    return 0;
}

IN_A_JOB(whatever_the_reason_a_collect_call_of_a_cancelled_caller_is_ecanceled)
{
    for (int i = 0; i < THEM - 2; i++)
        cancel_while_waiting(i, -EPIPE);
    return 0;
}

static void is_unwound(void *arg)
{
    add(arg);
}

static int collects_and_is_unwound(void *arg)
{
    kc_call_t calls[] = { { .fn = lingers }, { .fn = lingers } };

    CHECK_EQ(kc_defer(is_unwound, &heard), 0);
    (void)!(*(collect_t *)arg)(calls, 2);
    FAIL("it was to be unwound");
}

static void unwind_while_waiting(collect_t collect)
{
    start_afresh();
    kc_job_t *j =
        launch(collects_and_is_unwound, &collect, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });
    UNTIL(get(&in) == 2);
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(get(&heard), 0); /* the cleanups of a body come after its children */
    set(&gate, 1);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&out), 2);
    CHECK_EQ(get(&heard), 1);
    kc_job_release(j);
}

IN_A_JOB(a_caller_that_is_unwound_waits_for_the_calls_first)
{
    unwind_while_waiting(do_all);
    unwind_while_waiting(do_all_with_bits);
    unwind_while_waiting(kc_all_fail_fast);
    unwind_while_waiting(do_race);
    unwind_while_waiting(do_first_ok);
    unwind_while_waiting(do_any);
    return 0;
}

/* ---- all wait for ever ---------------------------------------------------------------------- */

static int parks_for_ever(void *arg UNUSED)
{
    kcoro_park();
    return -ECANCELED;
}

static int collects_those_who_park(void *arg)
{
    kc_call_t calls[] = { { .fn = parks_for_ever }, { .fn = parks_for_ever } };

    return (*(const collect_t *)arg)(calls, 2);
}

TEST(a_deadlock_inside_a_collect_call_is_found)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME };

    for (int i = 0; i < THEM - 2; i++)
        CHECK_EQ(kc_run(collects_those_who_park, (void *)&all_of_them[i], &opts), -EDEADLK);
}

/* ---- by time ------------------------------------------------------------------------------ */

static kcoro_t *caller;

static int on_the_same_stack(void *arg)
{
    CHECK_PTR(kcoro_current(), caller);
    return (int)(intptr_t)arg;
}

IN_A_JOB(with_timeout_runs_fn_on_the_callers_stack_and_returns_its_code)
{
    static const int codes[] = { 0, 7, -EIO };

    caller = kcoro_current();
    for (int i = 0; i < 3; i++) {
        void *code = CODE(codes[i]);
        CHECK_EQ(kc_with_timeout(KC_SEC(100), on_the_same_stack, code), codes[i]);
        CHECK_EQ(kc_with_timeout(KC_FOREVER, on_the_same_stack, code), codes[i]);
        CHECK_EQ(kc_with_deadline(kc_now() + KC_SEC(100), on_the_same_stack, code), codes[i]);
        CHECK_EQ(kc_with_deadline(KC_FOREVER, on_the_same_stack, code), codes[i]);
        CHECK_EQ(kc_check(), 0);
    }
    return 0;
}

IN_A_JOB(what_is_due_already_is_not_called)
{
    static const kc_time_t past[] = { 0, -1, -KC_FOREVER, INT64_MIN };

    for (int i = 0; i < 4; i++) {
        CHECK_EQ(kc_with_timeout(past[i], never, NULL), -ETIMEDOUT);
        CHECK_EQ(kc_with_deadline(past[i], never, NULL), -ETIMEDOUT);
    }
    CHECK_EQ(kc_with_deadline(kc_now(), never, NULL), -ETIMEDOUT);
    return 0;
}

static bool launched;

/* What it returns does not count: its time was over, and its child was stopped. */
static int is_too_late(void *arg)
{
    int rc = kc_launch(lingers, NULL);

    CHECK(rc == 0 || rc == -ECANCELED); /* its time may be over already */
    launched = rc == 0;
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), -ETIMEDOUT);
    set(&gate, 1);
    return (int)(intptr_t)arg;
}

IN_A_JOB(a_timeout_is_reported_after_the_body_and_its_children_have_ended)
{
    static const int codes[] = { -ECANCELED, 0, -EIO, 9 };

    for (int i = 0; i < 4; i++) {
        kc_time_t before = kc_now();
        start_afresh();
        int rc = kc_with_timeout(KC_MS(1), is_too_late, CODE(codes[i]));
        CHECK_EQ(rc, codes[i] == 0 && !launched ? 0 : -ETIMEDOUT); /* 0: all was done (A3) */
        CHECK_GE(kc_now(), before + KC_MS(1));
        CHECK_EQ(get(&out), get(&in)); /* the child may not have started */
        start_afresh();
        rc = kc_with_deadline(kc_now() + KC_MS(1), is_too_late, CODE(codes[i]));
        CHECK_EQ(rc, codes[i] == 0 && !launched ? 0 : -ETIMEDOUT);
        CHECK_EQ(get(&out), get(&in));
        CHECK_EQ(kc_check(), 0); /* the caller is not cancelled */
    }
    return 0;
}

static int inner_with_a_longer_time(void *arg UNUSED)
{
    CHECK_EQ(kc_with_timeout(KC_SEC(100), waits, NULL), -ECANCELED);
    CHECK_EQ(kc_check(), -ECANCELED);
    return -ECANCELED;
}

static int inner_with_a_shorter_time(void *arg UNUSED)
{
    CHECK_EQ(kc_with_timeout(KC_MS(1), waits, NULL), -ETIMEDOUT);
    return kc_check();
}

IN_A_JOB(of_two_timeouts_the_one_that_is_over_is_reported_by_its_owner)
{
    CHECK_EQ(kc_with_timeout(KC_MS(1), inner_with_a_longer_time, NULL), -ETIMEDOUT);
    CHECK_EQ(kc_with_timeout(KC_SEC(100), inner_with_a_shorter_time, NULL), 0);
    return 0;
}

static int is_cancelled_from_outside(void *arg)
{
    CHECK_EQ(kc_with_timeout(KC_SEC(100), waits, arg), -ECANCELED);
    return -ECANCELED;
}

IN_A_JOB(an_outer_cancel_makes_with_timeout_ecanceled)
{
    start_afresh();
    kc_job_t *j = launch(is_cancelled_from_outside, &in, NULL);
    UNTIL(get(&in) == 1);
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    start_afresh();
    j = launch(is_cancelled_from_outside, &in, NULL);
    UNTIL(get(&in) == 1);
    CHECK(kc_job_cancel(j, -EPIPE)); /* A3 does not ask for the reason */
    CHECK_EQ(kc_job_join(j), -EPIPE);
    kc_job_release(j);
    return 0;
}

/* ---- no memory ---------------------------------------------------------------------------- */

static long fail_at, fail_last, allocations;

static bool fails_now(const char *what UNUSED)
{
    long now = ++allocations;

    return now >= fail_at && now <= fail_last;
}

static int counts_in(void *arg UNUSED)
{
    add(&in);
    return 0;
}

/* The k-th allocation fails, or it and the nine after it. A start waits for memory. */
static void each_allocation_fails(collect_t collect, int in_a_row)
{
    kc_call_t calls[] = { { .fn = counts_in }, { .fn = counts_in }, { .fn = counts_in } };
    bool hit = true;
    int failed = 0;

    for (fail_at = 1; hit; fail_at++) {
        int before = jobs_there();
        start_afresh();
        fail_last = fail_at + in_a_row - 1;
        allocations = 0;
        kc__os_fault = fails_now;
        int rc = collect(calls, 3);
        kc__os_fault = NULL;
        hit = allocations >= fail_at;
        UNTIL(jobs_there() == before);
        CHECK(rc == 0 || (rc == -ENOMEM && hit));
        CHECK(rc == 0 ? get(&in) >= 1 : get(&in) == 0);
        CHECK_EQ(kc_check(), 0);
        failed += rc != 0;
        CHECK_LT(fail_at, 200);
    }
    CHECK_GT(failed, 0);
}

static int fails_in_turn(void *arg UNUSED)
{
    CHECK_EQ(kc_local_set(&gate, &gate), 0); /* so that calls need room for it */
    for (int i = 0; i < THEM; i++) {
        each_allocation_fails(all_of_them[i], 1);
        each_allocation_fails(all_of_them[i], 10);
    }
    return 0;
}

TEST(without_memory_a_collect_call_is_enomem_and_no_fn_ran)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };

    CHECK_EQ(kc_run(fails_in_turn, NULL, &opts), 0);
}
