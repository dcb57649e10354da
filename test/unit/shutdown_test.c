/* SPDX-License-Identifier: MIT */
/*
 * shutdown_test.c - kc_sched_destroy: whatever is queued, parked or sleeping, nothing leaks (S10).
 */
#include "sched_kit.h"

static KC_ATOMIC(long) due, cleaned;

static void cleanup(void *arg)
{
    (void)arg;
    kc_add_relaxed(&cleaned, 1);
}

static int waits_for_ever(void *arg)
{
    kc_add_relaxed(&due, 1);
    CHECK_EQ(kc_defer(cleanup, NULL), 0);
    switch ((intptr_t)arg % 3) {
    case 0:
        while (!kc_cancelled())
            kcoro_park();
        break;
    case 1:
        CHECK_EQ(kc_sleep(KC_SEC(3600)), -ECANCELED);
        break;
    default:
        while (kc_yield() == 0)
            ;
    }
    CHECK_EQ(kc_cancel_reason(), -ESHUTDOWN);
    return 0;
}

static int waits_a_little(void *arg)
{
    kc_time_t end = kc_now() + KC_MS(2);

    while (kc_now() < end)
        kc_yield();
    kc_sched_stop(arg);
    return 0;
}

TEST(destroy_frees_whatever_is_queued_parked_or_sleeping)
{
    for (int c = 0; c < COUNTS; c++) {
        kc_sched_t *s = make(counts[c], c % 2 ? KC_SCHED_MAIN_WORKS : 0);
        kc_store_relaxed(&due, 0);
        kc_store_relaxed(&cleaned, 0);
        for (intptr_t i = 0; i < 60; i++)
            CHECK_EQ(kc_sched_submit(s, i % 2 ? KC_MAIN : KC_WORKER, waits_for_ever, (void *)i),
                     0);
        CHECK_EQ(kc_sched_submit(s, KC_MAIN, waits_a_little, s), 0);
        run(s);
        for (intptr_t i = 0; i < 60; i++) /* these may start or not */
            CHECK_EQ(kc_sched_submit(s, i % 2 ? KC_MAIN : KC_WORKER, waits_for_ever, (void *)i),
                     0);
        CHECK_EQ(kc_sched_destroy(s), 0);
        CHECK_GT(kc_load_relaxed(&due), 0);
        CHECK_EQ(kc_load_relaxed(&cleaned), kc_load_relaxed(&due));
    }
    CHECK_EQ(kc_sched_destroy(NULL), 0);
}

static void cleanup_sleeps(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
}

static int parks_with_a_sleeping_cleanup(void *arg)
{
    CHECK_EQ(kc_defer(cleanup_sleeps, NULL), 0);
    kc_sched_stop(arg);
    kcoro_park();
    return 0;
}

TEST(a_cleanup_may_suspend_while_its_scheduler_ends)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);

    CHECK_EQ(kc_sched_submit(s, KC_MAIN, parks_with_a_sleeping_cleanup, s), 0);
    run(s);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static void cleanup_submits(void *arg)
{
    CHECK_EQ(kc_sched_submit(arg, KC_WORKER, count_one, NULL), -ESHUTDOWN);
    CHECK_EQ(kc_sched_submit(arg, KC_MAIN, count_one, NULL), -ESHUTDOWN);
}

static int parks_with_a_submitting_cleanup(void *arg)
{
    CHECK_EQ(kc_defer(cleanup_submits, arg), 0);
    kc_sched_stop(arg);
    kcoro_park();
    return 0;
}

TEST(what_cleanups_submit_while_the_scheduler_ends_is_refused)
{
    for (int c = 0; c < COUNTS; c++) {
        kc_sched_t *s = make(counts[c], 0);
        for (int i = 0; i < 5; i++)
            CHECK_EQ(
                kc_sched_submit(s, i ? KC_WORKER : KC_MAIN, parks_with_a_submitting_cleanup, s),
                0);
        run(s);
        CHECK_EQ(kc_sched_destroy(s), 0);
    }
    CHECK_EQ(kc_load_relaxed(&counter), 0);
}

/* A foreign thread wakes a task again and again while its scheduler ends: the wake-up and the end
 * meet in every order, and neither loses its way. */
static KC_ATOMIC(kcoro_t *) target;

static int parks_for_ever(void *arg)
{
    kc_store_release(&target, kcoro_retain(kcoro_current()));
    kc_sched_stop(arg);
    while (!kc_cancelled())
        kcoro_park();
    return 0;
}

static void *thread_unparks(void *arg)
{
    kcoro_t *co;

    (void)arg;
    while (!(co = kc_load_acquire(&target)))
        sched_yield();
    while (kcoro_unpark(co) == 0)
        ;
    kcoro_release(co);
    return NULL;
}

TEST(an_unpark_from_a_foreign_thread_may_race_with_destroy)
{
    for (int round = 0; round < 60; round++) {
        kc_sched_t *s = make(counts[round % 3], 0);
        pthread_t thread;

        kc_store_relaxed(&target, NULL);
        CHECK_EQ(pthread_create(&thread, NULL, thread_unparks, NULL), 0);
        CHECK_EQ(kc_sched_submit(s, round % 2 ? KC_MAIN : KC_WORKER, parks_for_ever, s), 0);
        run(s);
        CHECK_EQ(kc_sched_destroy(s), 0);
        pthread_join(thread, NULL);
    }
}

/* ---- jobs that no cancel of another reaches ------------------------------------------------- */

static int forbids_and_parks(void *arg)
{
    kc_forbid_signal();
    while (!kc_cancelled())
        kcoro_park();
    return count_one(arg);
}

TEST(destroy_ends_a_job_that_forbids_signals)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);

    CHECK_EQ(kc_sched_submit(s, KC_MAIN, forbids_and_parks, NULL), 0);
    CHECK_EQ(kc_sched_poll(s, kc_now()), KC_FOREVER);
    end(s);
    CHECK_EQ(kc_load_relaxed(&counter), 1);
}

/* ---- jobs that forbid signals, and were told of a cancel before ------------------------------ */

static KC_ATOMIC(int) waiting;

static int forbids_and_sleeps(void *arg)
{
    (void)arg;
    kc_forbid_signal();
    kc_add_relaxed(&waiting, 1);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), -ESHUTDOWN);
    return count_one(arg);
}

static int launches_one_that_forbids(void *arg)
{
    (void)arg;
    kc_forbid_signal();
    CHECK_EQ(kc_launch(forbids_and_sleeps, NULL), 0);
    return forbids_and_sleeps(NULL);
}

TEST(destroy_ends_jobs_that_forbid_signals_below_a_job_that_was_cancelled_before)
{
    for (int c = 0; c < COUNTS; c++) {
        kc_sched_t *s = make(counts[c], 0);
        kc_job_t *group = NULL;

        kc_store_relaxed(&waiting, 0);
        kc_store_relaxed(&counter, 0);
        CHECK_EQ(kc_group_create(&(kc_launch_opts_t){ .sched = s }, &group), 0);
        const kc_launch_opts_t opts = { .parent = group };
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(kc_launch_job(forbids_and_sleeps, NULL, &opts, NULL), 0);
            CHECK_EQ(kc_launch_job(launches_one_that_forbids, NULL, &opts, NULL), 0);
        }
        while (kc_load_relaxed(&waiting) < 9)
            CHECK_GE(kc_sched_poll(s, kc_now()), 0);
        CHECK(kc_job_cancel(group, 0));
        CHECK_EQ(kc_load_relaxed(&counter), 0);
        kc_job_release(group);
        CHECK_EQ(kc_sched_destroy(s), 0);
        CHECK_EQ(kc_load_relaxed(&counter), 9);
    }
}
