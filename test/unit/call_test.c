/* SPDX-License-Identifier: MIT */
/*
 * call_test.c - the options of a call that is one of several (A5).
 */
#include "collect_kit.h"

#include "base/os.h"

typedef int (*collect_t)(kc_call_t *calls, size_t n);

static int by_all(kc_call_t *calls, size_t n)
{
    return kc_all(calls, n, KC_SIG_NONE);
}

static int by_all_with_bits(kc_call_t *calls, size_t n)
{
    return kc_all(calls, n, (kc_sigset_t)1 << 20);
}

static int by_any(kc_call_t *calls, size_t n)
{
    return kc_any(calls, n, KC_SIG_NONE, NULL);
}

static int by_race(kc_call_t *calls, size_t n)
{
    return kc_race(calls, n, NULL);
}

static int by_first_ok(kc_call_t *calls, size_t n)
{
    return kc_first_ok(calls, n, NULL);
}

static int by_window(kc_call_t *calls, size_t n)
{
    return kc_all_window(calls, n, 1);
}

static const collect_t them[] = { by_all,    by_all_with_bits, kc_all_fail_fast,
                                  by_window, by_first_ok,      by_race,
                                  by_any };
enum { THEM = sizeof them / sizeof them[0] };

/* ---- what is refused ------------------------------------------------------------------------- */

static void refuses(const kc_launch_opts_t *bad)
{
    for (int i = 0; i < THEM; i++) {
        kc_call_t calls[] = { { .fn = never, .rc = 55 }, { .fn = never, .opts = bad, .rc = 55 } };
        CHECK_EQ(them[i](calls, 2), -EINVAL);
        CHECK_EQ(calls[0].rc, 55);
        CHECK_EQ(calls[1].rc, 55);
    }
}

IN_A_JOB(options_that_a_call_cannot_have_are_einval_and_no_fn_runs)
{
    kc_job_t *me = kc_job_current();

    refuses(&(kc_launch_opts_t){ .parent = me });
    refuses(&(kc_launch_opts_t){ .sched = kc_sched_current() });
    refuses(&(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });
    refuses(&(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });
    refuses(&(kc_launch_opts_t){ .flags = KC_JOB_ALONE });
    refuses(&(kc_launch_opts_t){ .flags = 1u << 31 });
    refuses(&(kc_launch_opts_t){ .timeout = -1 });
    refuses(&(kc_launch_opts_t){ .grace = -1 });
    refuses(&(kc_launch_opts_t){ .affinity = KC_WORKER_AT(99) });
    if (kc_sched_workers(kc_sched_current()) > 0)
        refuses(&(kc_launch_opts_t){ .flags = KC_JOB_NOW, .affinity = KC_WORKER_AT(0) });
    return 0;
}

/* ---- name, place, stack ---------------------------------------------------------------------- */

static int is_named(void *arg)
{
    CHECK_STR(kc_job_name(kc_job_current()), arg);
    return 0;
}

static int is_at(void *arg)
{
    CHECK_EQ(kc_worker_index(), (intptr_t)arg);
    return 0;
}

static int needs_much_stack(void *arg UNUSED)
{
    volatile char much[512 * 1024];

    for (size_t i = 0; i < sizeof much; i += 4096)
        much[i] = 1;
    return 0;
}

IN_A_JOB(a_call_may_have_a_name_a_place_and_a_stack)
{
    int last = kc_sched_workers(kc_sched_current()) - 1;
    kc_affinity_t at = last < 0 ? KC_MAIN : KC_WORKER_AT(last);
    kc_launch_opts_t named = { .name = "first" }, placed = { .affinity = at },
                     here = { .affinity = KC_HERE }, large = { .stack = 1 << 20 };

    for (int i = 0; i < THEM; i++) {
        kc_call_t calls[] = { { .fn = is_named, .arg = "first", .opts = &named },
                              { .fn = is_named, .arg = "" },
                              { .fn = is_at, .arg = CODE(last), .opts = &placed },
                              { .fn = is_at, .arg = CODE(KC_MAIN), .opts = &here },
                              { .fn = needs_much_stack, .opts = &large } };
        CHECK_EQ(kc_hop(KC_MAIN), 0);
        CHECK_EQ(them[i](calls, 5), 0);
    }
    return 0;
}

/* ---- time and signals ------------------------------------------------------------------------ */

IN_A_JOB(a_call_may_have_a_timeout)
{
    kc_launch_opts_t hasty = { .timeout = KC_MS(1) };

    for (int i = 0; i < THEM; i++) {
        kc_call_t calls[] = { { .fn = waits, .opts = &hasty } };
        CHECK_EQ(them[i](calls, 1), -ETIMEDOUT);
        CHECK_EQ(calls[0].rc, -ETIMEDOUT);
    }
    return 0;
}

/* Its shield ends with its grace. */
static int shields_for_ever(void *arg UNUSED)
{
    CHECK_EQ(kc_shield_begin(), 0);
    int rc = kc_sleep(KC_FOREVER);
    kc_shield_end();
    return rc;
}

IN_VIRTUAL_TIME(a_call_may_have_a_grace)
{
    kc_launch_opts_t impatient = { .timeout = KC_MS(1), .grace = KC_MS(1) };
    kc_call_t calls[] = { { .fn = shields_for_ever, .opts = &impatient } };

    CHECK_EQ(kc_all(calls, 1, KC_SIG_NONE), -ETIMEDOUT);
    return 0;
}

static int emits_terminate(void *arg)
{
    UNTIL(get(&in) == 1);
    kc_signal_emit(arg, KC_SIG_TERMINATE);
    return 0;
}

IN_A_JOB(a_call_may_obey_a_signal)
{
    kc_signal_t *signal = kc_signal_create(0);
    kc_launch_opts_t obeys = { .signal = signal };
    kc_call_t calls[] = { { .fn = waits, .arg = &in, .opts = &obeys },
                          { .fn = emits_terminate, .arg = signal } };

    start_afresh();
    CHECK_EQ(kc_all(calls, 2, KC_SIG_NONE), -ECANCELED);
    CHECK_EQ(calls[0].rc, -ECANCELED);
    CHECK_EQ(calls[1].rc, 0);
    calls[0].fn = never; /* it has fired */
    CHECK_EQ(kc_all(calls, 1, KC_SIG_NONE), -ECANCELED);
    kc_signal_release(signal);
    return 0;
}

/* ---- flags ----------------------------------------------------------------------------------- */

static count_t order;

static int starts_as(void *arg)
{
    CHECK_EQ(add(&order), (intptr_t)arg);
    kcoro_yield();
    return 0;
}

IN_A_JOB(calls_that_start_now_start_in_order_before_the_caller_waits)
{
    kc_launch_opts_t now = { .flags = KC_JOB_NOW };

    for (int i = 0; i < THEM; i++) {
        kc_call_t calls[] = { { .fn = starts_as, .arg = CODE(0), .opts = &now },
                              { .fn = starts_as, .arg = CODE(1), .opts = &now } };
        set(&order, 0);
        CHECK_EQ(them[i](calls, them[i] == by_any || them[i] == by_race || them[i] == by_first_ok
                                    ? 1
                                    : 2),
                 0);
    }
    return 0;
}

/* One that starts now and wins before the others are started. */
IN_A_JOB(one_that_starts_now_may_win_before_the_others_start)
{
    kc_launch_opts_t now = { .flags = KC_JOB_NOW }, here = { .affinity = KC_HERE };
    kc_call_t calls[] = { { .fn = returns, .arg = CODE(0), .opts = &now },
                          { .fn = never, .opts = &here } };
    size_t winner = 99;

    CHECK_EQ(kc_race(calls, 2, &winner), 0);
    CHECK_EQ(winner, 0);
    CHECK_EQ(calls[1].rc, -ECANCELED);
    CHECK_EQ(kc_first_ok(calls, 2, &winner), 0);
    CHECK_EQ(winner, 0);
    return 0;
}

static void is_cleaned_up(void *arg)
{
    add(arg);
}

static int is_unwound(void *arg)
{
    CHECK_EQ(kc_defer(is_cleaned_up, arg), 0);
    add(&in);
    (void)!kc_sleep(KC_FOREVER);
    FAIL("it was to be unwound");
}

IN_A_JOB(a_call_may_be_unwound)
{
    kc_launch_opts_t unwinds = { .flags = KC_JOB_UNWIND };
    kc_call_t calls[] = { { .fn = is_unwound, .arg = &heard, .opts = &unwinds },
                          { .fn = fails_after, .arg = CODE(1) } };

    start_afresh();
    CHECK_EQ(kc_all_fail_fast(calls, 2), -EIO);
    CHECK_EQ(calls[0].rc, -ECANCELED);
    CHECK_EQ(get(&heard), 1);
    return 0;
}

static int may_migrate(void *arg UNUSED)
{
    CHECK(kc__job_flags(kc_job_current()) & KC_JOB_MIGRATE);
    return kc_sleep(KC_US(10));
}

IN_A_JOB(a_call_may_migrate)
{
    kc_launch_opts_t migrates = { .flags = KC_JOB_MIGRATE };
    kc_call_t calls[] = { { .fn = may_migrate, .opts = &migrates },
                          { .fn = may_migrate, .opts = &migrates } };

    CHECK_EQ(kc_all(calls, 2, KC_SIG_NONE), 0);
    return 0;
}

/* ---- dispose --------------------------------------------------------------------------------- */

static count_t ran, disposed;

static void disposes(void *arg UNUSED)
{
    add(&disposed);
}

static int runs(void *arg)
{
    add(&ran);
    return (int)(intptr_t)arg;
}

static const kc_launch_opts_t owns = { .dispose = disposes };

static void afresh(void)
{
    start_afresh();
    set(&ran, 0);
    set(&disposed, 0);
}

IN_A_JOB(of_each_call_fn_or_dispose_is_called)
{
    for (int i = 0; i < THEM; i++) {
        kc_call_t calls[] = { { .fn = runs, .opts = &owns },
                              { .fn = runs, .arg = CODE(-EIO), .opts = &owns },
                              { .fn = runs, .opts = &owns } };
        afresh();
        (void)!them[i](calls, 3);
        UNTIL(get(&ran) + get(&disposed) == 3);
        CHECK_GE(get(&ran), 1);
    }
    return 0;
}

IN_A_JOB(a_call_that_never_starts_is_disposed_of)
{
    const kc_launch_opts_t here = { .affinity = KC_HERE, .dispose = disposes },
                           now = { .flags = KC_JOB_NOW, .dispose = disposes };
    kc_call_t calls[] = { { .fn = runs, .arg = CODE(-EIO), .opts = &now },
                          { .fn = never, .opts = &here },
                          { .fn = never, .opts = &here } };

    afresh();
    CHECK_EQ(kc_all_fail_fast(calls, 3), -EIO);
    CHECK_EQ(get(&ran), 1);
    CHECK_EQ(get(&disposed), 2);
    CHECK_EQ(calls[2].rc, -ECANCELED);
    return 0;
}

static int collects_in_a_cancelled_job(void *arg UNUSED)
{
    kc_call_t calls[] = { { .fn = never, .opts = &owns }, { .fn = never, .opts = &owns } };

    CHECK(kc_cancel_current(0));
    for (int i = 0; i < THEM; i++)
        CHECK_EQ(them[i](calls, 2), -ECANCELED);
    CHECK_EQ(get(&disposed), 0);
    return -ECANCELED;
}

IN_A_JOB(calls_that_are_refused_are_still_the_callers)
{
    kc_call_t calls[] = { { .fn = never, .opts = &owns }, { .fn = NULL, .opts = &owns } };

    afresh();
    for (int i = 0; i < THEM; i++)
        CHECK_EQ(them[i](calls, 2), -EINVAL);
    kc_job_t *j = launch(collects_in_a_cancelled_job, NULL, NULL);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    CHECK_EQ(get(&disposed), 0);
    return 0;
}

/* ---- no memory ------------------------------------------------------------------------------- */

static int fail_at, allocations;

static bool fails_now(const char *what UNUSED)
{
    return ++allocations == fail_at;
}

/* After -ENOMEM no fn ran, and none was disposed of; there is no memory for the k-th request. */
static void each_allocation_fails(collect_t collect, kc_signal_t *signal)
{
    const kc_launch_opts_t all = { .dispose = disposes,
                                   .name = "one",
                                   .timeout = KC_SEC(100),
                                   .grace = KC_SEC(1),
                                   .signal = signal };
    kc_call_t calls[] = { { .fn = runs, .opts = &all }, { .fn = runs, .opts = &all } };
    bool hit = true;
    int failed = 0;

    for (fail_at = 1; hit; fail_at++) {
        afresh();
        allocations = 0;
        kc__os_fault = fails_now;
        int rc = collect(calls, 2);
        kc__os_fault = NULL;
        hit = allocations >= fail_at;
        CHECK(rc == 0 || (rc == -ENOMEM && hit));
        UNTIL(get(&ran) + get(&disposed) == (rc == 0 ? 2 : 0));
        CHECK_EQ(kc_check(), 0);
        for (int i = 0; i < 10; i++)
            kcoro_yield(); /* all have ended */
        CHECK_EQ(get(&ran) + get(&disposed), rc == 0 ? 2 : 0);
        failed += rc != 0;
        CHECK_LT(fail_at, 200);
    }
    CHECK_GT(failed, 0);
}

static int fails_in_turn(void *arg UNUSED)
{
    kc_signal_t *signal = kc_signal_create(0);

    CHECK_EQ(kc_local_set(&gate, &gate), 0);
    for (int i = 0; i < THEM; i++)
        each_allocation_fails(them[i], signal);
    kc_signal_release(signal);
    return 0;
}

TEST(without_memory_for_options_no_fn_runs_and_the_arguments_are_still_the_callers)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };

    CHECK_EQ(kc_run(fails_in_turn, NULL, &opts), 0);
}
