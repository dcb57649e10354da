/* SPDX-License-Identifier: MIT */
/*
 * cycle_race_test.c - E4 in real time: cycles that always close, and those that never do.
 */
#include "base/atomic.h"
#include "cycle_kit.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>

/* ---- real time ------------------------------------------------------------------------------ */

static KC_ATOMIC(int) met, real_deadlocks, real_others;

/* Waits until both have a lock, however long that takes. */
static int meet_and_lock(kc_mutex_t *first, kc_mutex_t *second)
{
    int rc = kc_mutex_lock(first);

    CHECK_EQ(rc, 0);
    kc_add_relaxed(&met, 1);
    while (kc_load_relaxed(&met) < 2)
        CHECK_EQ(kc_yield(), 0);
    rc = kc_mutex_lock(second);
    if (rc == 0)
        kc_mutex_unlock(second);
    kc_mutex_unlock(first);
    kc_add_relaxed(rc == -EDEADLK ? &real_deadlocks : &real_others, rc != 0);
    return 0;
}

static int meets_ab(void *arg)
{
    (void)arg;
    return meet_and_lock(&a, &b);
}

static int meets_ba(void *arg)
{
    (void)arg;
    return meet_and_lock(&b, &a);
}

static int two_that_meet(void *arg)
{
    (void)arg;
    launch(meets_ab, NULL, "ab", NULL);
    launch(meets_ba, NULL, "ba", NULL);
    return 0;
}

TEST(with_the_flag_each_cycle_in_real_time_is_found_once)
{
    static const int workers[] = { KC_NO_WORKERS, 1, 2, 4 };

    for (unsigned w = 0; w < sizeof workers / sizeof *workers; w++)
        for (long i = 0, rounds = kc_test_rounds(5); i < rounds && kc_test_has_time(); i++) {
            kc_store_relaxed(&met, 0);
            kc_store_relaxed(&real_deadlocks, 0);
            CHECK_EQ(run(two_that_meet, NULL, workers[w], KC_SCHED_FIND_DEADLOCKS), 0);
            CHECK_EQ(kc_load_relaxed(&real_deadlocks), 1);
            CHECK_EQ(kc_load_relaxed(&real_others), 0);
            CHECK_EQ(reports(), 1);
            CHECK_EQ(lines_with("kcoro: deadlock: job "), 2);
        }
}

static int meet_and_lock_firmly(kc_mutex_t *first, kc_mutex_t *second)
{
    kc_mutex_lock_nocancel(first);
    kc_add_relaxed(&met, 1);
    while (kc_load_relaxed(&met) < 2)
        CHECK_EQ(kc_yield(), 0);
    kc_mutex_lock_nocancel(second);
    return 0;
}

static int firm_ab(void *arg)
{
    (void)arg;
    return meet_and_lock_firmly(&a, &b);
}

static int firm_ba(void *arg)
{
    (void)arg;
    return meet_and_lock_firmly(&b, &a);
}

static int two_firm(void *arg)
{
    (void)arg;
    launch(firm_ab, NULL, "ab", NULL);
    launch(firm_ba, NULL, "ba", NULL);
    return 0;
}

TEST_ABORTS(a_cycle_in_real_time_aborts_where_the_call_cannot_return,
            "a deadlock, which this call cannot return (rule E4, docs/rules.md), in job ")
{
    (void)!kc_run(two_firm, NULL,
                  &(kc_sched_opts_t){ .workers = 2, .flags = KC_SCHED_FIND_DEADLOCKS });
}

enum { LOCKS = 5, MANY = 24, TURNS = 40 };

static kc_mutex_t locks[LOCKS];
static kc_rwlock_t shared;

/* In one order always: no deadlock, however they meet. */
static int locks_in_order(void *arg)
{
    uint64_t seed = (uintptr_t)arg * 0x9e3779b97f4a7c15u + kc_test_seed();
    long turns = kc_test_rounds(TURNS);

    for (long i = 0; i < turns && kc_test_has_time(); i++) {
        int first = (int)(kc_test_random(&seed) % LOCKS), second = first + 1;
        bool write = kc_test_random(&seed) % 4 == 0;
        CHECK_EQ(write ? kc_rwlock_wrlock(&shared) : kc_rwlock_rdlock(&shared), 0);
        CHECK_EQ(kc_mutex_lock(&locks[first]), 0);
        if (second < LOCKS)
            CHECK_EQ(kc_mutex_lock(&locks[second]), 0);
        CHECK_EQ(kc_yield(), 0);
        if (second < LOCKS)
            kc_mutex_unlock(&locks[second]);
        kc_mutex_unlock(&locks[first]);
        if (write)
            kc_rwlock_wrunlock(&shared);
        else
            kc_rwlock_rdunlock(&shared);
    }
    return 0;
}

/* Joins one who locks, and ends its scopes while others lock. */
static int joins_and_ends(void *arg)
{
    kc_scope_t s;
    kc_job_t *j;

    for (uintptr_t i = 0; i < 3; i++) {
        CHECK_EQ(kc_scope_begin(&s, NULL), 0);
        launch(locks_in_order, (void *)((uintptr_t)arg + i), "inner", &j);
        launch(locks_in_order, (void *)((uintptr_t)arg + i + 100), "inner", NULL);
        CHECK_EQ(kc_job_join(j), 0);
        kc_job_release(j);
        CHECK_EQ(kc_scope_end(&s), 0);
    }
    return 0;
}

static int many_that_never_deadlock(void *arg)
{
    (void)arg;
    for (uintptr_t i = 0; i < MANY; i++)
        launch(i % 4 ? locks_in_order : joins_and_ends, (void *)i, "many", NULL);
    return 0;
}

TEST_SLOW(jobs_that_lock_in_one_order_are_never_reported, 120000)
{
    CHECK_EQ(run(many_that_never_deadlock, NULL, 4, KC_SCHED_FIND_DEADLOCKS), 0);
    CHECK_STR(report, "");
    CHECK_EQ(run(many_that_never_deadlock, NULL, 0, KC_SCHED_VIRTUAL_TIME), 0);
    CHECK_STR(report, "");
}
