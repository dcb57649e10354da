/* SPDX-License-Identifier: MIT */
/*
 * place_test.c - the caller's own thread as a place (KC_HERE), and calls that are submitted with
 * options (A5).
 */
#include "task_kit.h"

/* ---- KC_HERE --------------------------------------------------------------------------------- */

static int index_of_launcher;

static int is_there(void *arg)
{
    CHECK_EQ(kc_worker_index(), index_of_launcher);
    add(arg);
    return 0;
}

static void all_run_here(kc_sched_t *s, count_t *n)
{
    kc_launch_opts_t here = { .affinity = KC_HERE };
    kc_call_t calls[] = { { .fn = is_there, .arg = n, .opts = &here },
                          { .fn = is_there, .arg = n } };

    index_of_launcher = kc_worker_index();
    CHECK_EQ(kc_launch_job(is_there, n, &here, NULL), 0);
    CHECK_EQ(kc_sched_submit(s, KC_HERE, is_there, n), 0);
    CHECK_EQ(kc_sched_submit_with(s, KC_HERE, is_there, n, &owns), 0);
    CHECK_EQ(kc_schedule_delayed(s, 0, KC_HERE, is_there, n, NULL), 0);
    calls[1].opts = NULL;
    CHECK_EQ(kc_sched_submit_many(s, KC_HERE, calls, 2), 0);
    here.flags = KC_JOB_NOW;
    CHECK_EQ(kc_launch_job(is_there, n, &here, NULL), 0);
    CHECK_EQ(kc_hop(KC_HERE), 0);
    CHECK_EQ(kc_worker_index(), index_of_launcher);
    UNTIL(get(n) == 7);
}

static int runs_all_here(void *arg)
{
    static count_t n;

    set(&n, 0);
    if (arg)
        CHECK_EQ(kc_hop(KC_WORKER), 0);
    all_run_here(kc_sched_current(), &n);
    return 0;
}

TEST(here_is_the_callers_own_thread)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        CHECK_EQ(kc_run(runs_all_here, NULL, &opts), 0);
        CHECK_EQ(kc_run(runs_all_here, &opts, &opts), 0);
    }
}

static int counts_at_main(void *arg)
{
    CHECK_EQ(kc_worker_index(), KC_MAIN);
    CHECK(pthread_equal(pthread_self(), kc_sched_main_thread(kc_sched_current())));
    add(arg);
    return 0;
}

OUTSIDE(here_on_the_creators_thread_is_main, s)
{
    kc_launch_opts_t here = { .affinity = KC_HERE, .sched = s };
    count_t n = 0;

    CHECK_EQ(kc_sched_submit(s, KC_HERE, counts_at_main, &n), 0);
    CHECK_EQ(kc_launch_job(counts_at_main, &n, &here, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_EQ(get(&n), 2);
}

static int finds_no_place(void *arg)
{
    kc_sched_t *s = arg;
    kc_launch_opts_t here = { .affinity = KC_HERE, .sched = s };
    kc_call_t call = { .fn = never, .opts = &here };
    kc_job_t *j = NULL;

    CHECK_EQ(kc_sched_submit(s, KC_HERE, never, NULL), -EINVAL);
    CHECK_EQ(kc_schedule_delayed(s, 0, KC_HERE, never, NULL, NULL), -EINVAL);
    CHECK_EQ(kc_schedule_interval(s, 1, KC_HERE, never, NULL, NULL), -EINVAL);
    CHECK_EQ(kc_launch_job(never, NULL, &here, NULL), -EINVAL);
    CHECK_EQ(kc_group_create(&here, &j), -EINVAL);
    here.sched = NULL;
    CHECK_EQ(kc_sched_submit_many(s, KC_MAIN, &call, 1), -EINVAL);
    CHECK_EQ(kc_sched_submit_many(s, KC_HERE, &call, 0), -EINVAL);
    return 0;
}

static int outside_any(void *arg)
{
    CHECK_EQ(kc_hop(KC_HERE), -EPERM);
    return finds_no_place(arg);
}

static void *in_another_scheduler(void *arg)
{
    CHECK_EQ(kc_run(finds_no_place, arg, NULL), 0);
    return NULL;
}

OUTSIDE(here_is_no_place_of_a_scheduler_whose_thread_the_caller_is_not, s)
{
    pthread_t t = thread_runs(outside_any, s);

    pthread_join(t, NULL);
    CHECK_EQ(pthread_create(&t, NULL, in_another_scheduler, s), 0);
    pthread_join(t, NULL);
}

OUTSIDE(a_scheduler_tells_the_thread_that_created_it, s)
{
    CHECK(pthread_equal(kc_sched_main_thread(s), pthread_self()));
}

/* ---- options of calls that are submitted ----------------------------------------------------- */

static int runs_at(void *arg)
{
    CHECK_EQ(kc_worker_index(), (intptr_t)arg);
    add(&thing.ran);
    return 0;
}

TEST(of_calls_that_are_submitted_each_may_have_a_place_and_a_name)
{
    kc_launch_opts_t at_main = { .affinity = KC_MAIN }, at_1 = { .affinity = KC_WORKER_AT(1) },
                     any = { .name = "named" };
    kc_call_t calls[] = { { .fn = runs_at, .arg = CODE(0) },
                          { .fn = runs_at, .arg = CODE(KC_MAIN), .opts = &at_main },
                          { .fn = runs_at, .arg = CODE(1), .opts = &at_1 },
                          { .fn = tells_its_name, .arg = "named", .opts = &any } };
    kc_sched_opts_t opts = { .workers = 2 };
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    CHECK_EQ(kc_sched_submit_many(s, KC_WORKER_AT(0), calls, 4), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_EQ(get(&thing.ran), 4);
    destroy(s);
}

TEST(calls_that_are_submitted_and_never_start_are_disposed_of)
{
    kc_launch_opts_t opts = { .dispose = disposes, .name = "mine" };
    kc_call_t calls[] = { { .fn = runs, .arg = &thing, .opts = &opts },
                          { .fn = runs, .arg = &other } };

    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_t *s = sched(i);
        afresh();
        CHECK_EQ(kc_sched_submit_many(s, KC_MAIN, calls, 2), 0);
        destroy(s);
        was(&thing, 0, 1);
        was(&other, 0, 0);
    }
}

static int takes_too_long(void *arg)
{
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), -ETIMEDOUT);
    add(arg);
    return -ECANCELED;
}

TEST(a_call_that_is_submitted_may_have_a_timeout)
{
    kc_launch_opts_t opts = { .timeout = KC_MS(1) };
    kc_call_t call = { .fn = takes_too_long, .arg = &thing.ran, .opts = &opts };
    kc_sched_t *s = sched(0);

    CHECK_EQ(kc_sched_submit_many(s, KC_MAIN, &call, 1), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_EQ(get(&thing.ran), 1);
    destroy(s);
}

OUTSIDE(options_that_a_submitted_call_cannot_have_are_einval, s)
{
    kc_job_t *j = NULL;
    CHECK_EQ(kc_group_create(&(kc_launch_opts_t){ .sched = s }, &j), 0);
    const kc_launch_opts_t bad[] = {
        { .parent = j },
        { .sched = s },
        { .flags = KC_JOB_SUPERVISOR },
        { .flags = KC_JOB_DETACHED },
        { .flags = KC_JOB_NOW },
        { .flags = 1u << 31 },
        { .timeout = -1 },
        { .grace = -1 },
        { .affinity = KC_WORKER_AT(99) },
    };

    afresh();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kc_call_t calls[] = { { .fn = runs, .arg = &thing }, { .fn = runs, .opts = &bad[i] } };
        CHECK_EQ(kc_sched_submit_many(s, KC_MAIN, calls, 2), -EINVAL);
    }
    CHECK_EQ(kc_group_close(j), 0);
    kc_job_release(j);
    CHECK_EQ(kc_sched_run(s), 0);
    was(&thing, 0, 0);
}
