/* SPDX-License-Identifier: MIT */
/*
 * token_test.c - delayed and interval tasks, tokens, the pumps, virtual time and seeds (T1-T6, S8,
 * S11).
 */
#include "sched_kit.h"

#include <kcoro/timer.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kc_sched_t *make_virtual(void)
{
    return make(0, KC_SCHED_VIRTUAL_TIME);
}

static long count(void)
{
    return kc_load_relaxed(&counter);
}

/* ---- T1: delayed
 * ----------------------------------------------------------------------------------- */

TEST(a_delayed_task_starts_once_at_its_time_and_not_before)
{
    kc_sched_t *s = make_virtual();
    kc_time_t t0 = kc_now();
    kc_token_t *token = NULL;

    CHECK_EQ(kc_schedule_delayed(s, KC_MS(10), KC_MAIN, count_one, NULL, &token), 0);
    CHECK_EQ(kc_sched_run_expired(s, t0 + KC_MS(10) - 1), 1);
    CHECK_EQ(count(), 0);
    CHECK(!kc_token_cancelled(token));
    CHECK_EQ(kc_sched_run_expired(s, t0 + KC_MS(10)), KC_FOREVER);
    CHECK_EQ(count(), 1);
    CHECK(kc_token_cancelled(token));
    CHECK(!kc_token_cancel(token));
    CHECK_EQ(kc_sched_run_expired(s, t0 + KC_SEC(100)), KC_FOREVER);
    CHECK_EQ(count(), 1);
    kc_token_release(token);
    end(s);
}

static int order[64], ordered;

static int note(void *arg)
{
    order[ordered++] = (int)(intptr_t)arg;
    return 0;
}

TEST(timed_tasks_start_in_order_of_due_time_then_of_submission)
{
    kc_sched_t *s = make_virtual();
    static const int delay[] = { 5, 3, 5, 1, 3, 0, 5 };
    static const int expected[] = { 5, 3, 1, 4, 0, 2, 6 };

    for (intptr_t i = 0; i < 7; i++)
        CHECK_EQ(kc_schedule_delayed(s, KC_MS(delay[i]), KC_MAIN, note, (void *)i, NULL), 0);
    kc_sched_run_expired(s, kc_now() + KC_MS(5));
    CHECK_EQ(ordered, 7);
    for (int i = 0; i < 7; i++)
        CHECK_EQ(order[i], expected[i]);
    end(s);
}

/* After ten milliseconds all but the last are due. */
TEST(an_interval_task_keeps_its_place_in_the_order_of_submission)
{
    kc_sched_t *s = make_virtual();
    static const int interval[] = { 10, 5, 10, 2 };
    static const int expected[] = { 0, 1, 2, 3, 9, 3, 3, 1, 3, 3, 0, 1, 2, 3, 8 };

    for (intptr_t i = 0; i < 4; i++)
        CHECK_EQ(kc_schedule_interval(s, KC_MS(interval[i]), KC_MAIN, note, (void *)i, NULL), 0);
    CHECK_EQ(kc_schedule_delayed(s, KC_MS(10), KC_MAIN, note, (void *)8, NULL), 0);
    CHECK_EQ(kc_schedule_delayed(s, 0, KC_MAIN, note, (void *)9, NULL), 0);
    for (int i = 0; i <= 10; i++)
        kc_sched_run_expired(s, KC_MS(i));
    CHECK_EQ(ordered, 15);
    for (int i = 0; i < 15; i++)
        CHECK_EQ(order[i], expected[i]);
    end(s);
}

TEST(without_workers_timed_tasks_of_workers_start_in_order)
{
    kc_sched_t *s = make_virtual();

    for (intptr_t i = 0; i < 7; i++)
        CHECK_EQ(kc_schedule_delayed(s, KC_MS(i / 3), KC_WORKER, note, (void *)i, NULL), 0);
    kc_sched_run_expired(s, kc_now() + KC_MS(5));
    CHECK_EQ(ordered, 7);
    for (int i = 0; i < 7; i++)
        CHECK_EQ(order[i], i);
    end(s);
}

static int note_and_count(void *arg)
{
    note(arg);
    return count_one(NULL);
}

static KC_ATOMIC(int) begun, told;

static int spins_until_told(void *arg)
{
    kc_store_release(&begun, 1);
    while (!kc_load_acquire(&told))
        sched_yield();
    return note_and_count(arg);
}

/* It is busy until all are due and told. */
TEST(timed_tasks_of_the_only_worker_start_in_order)
{
    kc_sched_t *s = make(1, 0);

    CHECK_EQ(kc_sched_submit(s, KC_WORKER, spins_until_told, (void *)0), 0);
    while (!kc_load_acquire(&begun))
        sched_yield();
    for (intptr_t i = 1; i < 50; i++)
        CHECK_EQ(kc_schedule_delayed(s, KC_MS(i / 20), KC_WORKER, note_and_count, (void *)i, NULL),
                 0);
    CHECK_EQ(kc_sched_run_expired(s, kc_now() + KC_MS(5)), KC_FOREVER);
    kc_store_release(&told, 1);
    while (count() < 50)
        sched_yield();
    end(s);
    for (int i = 0; i < 50; i++)
        CHECK_EQ(order[i], i);
}

TEST(bad_arguments_are_einval)
{
    kc_sched_t *s = make_virtual();
    kc_token_t *token = NULL;

    CHECK_EQ(kc_schedule_delayed(s, -1, KC_MAIN, count_one, NULL, &token), -EINVAL);
    CHECK_EQ(kc_schedule_delayed(NULL, 1, KC_MAIN, count_one, NULL, &token), -EINVAL);
    CHECK_EQ(kc_schedule_delayed(s, 1, KC_MAIN, NULL, NULL, &token), -EINVAL);
    CHECK_EQ(kc_schedule_delayed(s, 1, KC_WORKER_AT(0), count_one, NULL, &token), -EINVAL);
    CHECK_EQ(kc_schedule_interval(s, 0, KC_MAIN, count_one, NULL, &token), -EINVAL);
    CHECK_EQ(kc_schedule_interval(s, -5, KC_MAIN, count_one, NULL, &token), -EINVAL);
    CHECK_PTR(token, NULL);
    end(s);
}

/* ---- T2, T3: intervals
 * ------------------------------------------------------------------------------- */

TEST(an_interval_task_runs_at_once_then_on_a_fixed_grid)
{
    kc_sched_t *s = make_virtual();
    kc_time_t t0 = kc_now();
    kc_token_t *token = NULL;

    CHECK_EQ(kc_schedule_interval(s, KC_MS(10), KC_MAIN, count_one, NULL, &token), 0);
    CHECK_EQ(kc_sched_run_expired(s, t0), KC_MS(10));
    CHECK_EQ(count(), 1);
    CHECK_EQ(kc_sched_run_expired(s, t0 + KC_MS(13)), KC_MS(7)); /* late, but no drift */
    CHECK_EQ(count(), 2);
    CHECK_EQ(kc_sched_run_expired(s, t0 + KC_MS(19)), KC_MS(1));
    CHECK_EQ(count(), 2);
    CHECK_EQ(kc_sched_run_expired(s, t0 + KC_MS(65)), KC_MS(5)); /* missed ticks make one run */
    CHECK_EQ(count(), 3);
    CHECK(kc_token_cancel(token));
    CHECK(!kc_token_cancel(token));
    CHECK_EQ(kc_sched_run_expired(s, t0 + KC_SEC(1)), KC_FOREVER);
    CHECK_EQ(count(), 3);
    kc_token_release(token);
    end(s);
}

static KC_ATOMIC(int) inside, most;

static int slow_run(void *arg)
{
    int now_inside = kc_add_relaxed(&inside, 1) + 1;

    if (now_inside > kc_load_relaxed(&most))
        kc_store_relaxed(&most, now_inside);
    for (int i = 0; i < 20; i++)
        kc_yield();
    CHECK_EQ(kc_sleep(KC_US(300)), 0);
    kc_add_relaxed(&inside, -1);
    kc_add_relaxed(&counter, 1);
    return arg ? -EIO : 0;
}

TEST(two_runs_of_an_interval_task_never_overlap)
{
    static const int workers[] = { KC_NO_WORKERS, 1, 4 };

    for (int c = 0; c < 3; c++) {
        kc_sched_t *s = make(workers[c], 0);
        kc_token_t *token = NULL;
        kc_store_relaxed(&counter, 0);
        CHECK_EQ(kc_schedule_interval(s, KC_US(50), KC_WORKER, slow_run, "fails", &token), 0);
        while (count() < 5)
            CHECK_GE(kc_sched_run_expired(s, kc_now()), 0);
        kc_token_release(token);
        CHECK_EQ(kc_load_relaxed(&most), 1); /* and a run that fails does not stop it */
        end(s);
    }
}

TEST(run_expired_waits_for_interval_runs_on_workers)
{
    kc_sched_t *s = make(2, 0);

    for (int i = 1; i <= 5; i++) {
        kc_token_t *token = NULL;
        CHECK_EQ(kc_schedule_interval(s, KC_SEC(1000), KC_WORKER, slow_run, NULL, &token), 0);
        kc_sched_run_expired(s, kc_now());
        CHECK_EQ(count(), i);
        kc_token_release(token);
    }
    end(s);
}

/* ---- T4, T5: cancel, drop, detach
 * ------------------------------------------------------------------------ */

TEST(a_cancelled_or_dropped_token_prevents_the_run)
{
    kc_sched_t *s = make_virtual();
    kc_time_t t0 = kc_now();
    kc_token_t *a = NULL, *b = NULL, *c = NULL;

    CHECK_EQ(kc_schedule_delayed(s, KC_MS(1), KC_MAIN, count_one, NULL, &a), 0);
    CHECK_EQ(kc_schedule_delayed(s, KC_MS(1), KC_MAIN, count_one, NULL, &b), 0);
    CHECK_EQ(kc_schedule_delayed(s, KC_MS(1), KC_MAIN, count_one, NULL, &c), 0);
    CHECK(kc_token_cancel(a));
    CHECK(kc_token_cancelled(a));
    kc_token_release(b);
    kc_token_detach(c);
    kc_sched_run_expired(s, t0 + KC_SEC(1));
    CHECK_EQ(count(), 1); /* the detached one */
    kc_token_release(a);
    kc_token_release(NULL);
    kc_token_detach(NULL);
    end(s);
}

static kc_token_t *victim;

static int cancels_victim(void *arg)
{
    (void)arg;
    kc_add_relaxed(&counter, kc_token_cancel(victim) ? 100 : 1000);
    return 0;
}

TEST(a_run_that_is_queued_but_not_started_can_still_be_cancelled)
{
    kc_sched_t *s = make_virtual();

    CHECK_EQ(kc_schedule_delayed(s, 0, KC_MAIN, cancels_victim, NULL, NULL), 0);
    CHECK_EQ(kc_schedule_delayed(s, 0, KC_MAIN, count_one, NULL, &victim), 0);
    kc_sched_run_expired(s, kc_now()); /* both are due and queued; the first cancels the second */
    CHECK_EQ(count(), 100);
    kc_token_release(victim);
    end(s);
}

TEST(a_token_outlives_its_scheduler)
{
    kc_token_t *a = NULL, *b = NULL, *c = NULL;
    kc_sched_t *s = make(1, 0);

    CHECK_EQ(kc_schedule_delayed(s, KC_SEC(100), KC_MAIN, count_one, NULL, &a), 0);
    CHECK_EQ(kc_schedule_interval(s, KC_SEC(100), KC_WORKER, count_one, NULL, &b), 0);
    CHECK_EQ(kc_schedule_delayed(s, KC_SEC(100), KC_MAIN, count_one, NULL, &c), 0);
    CHECK(kc_token_cancel(c));
    end(s);
    CHECK(kc_token_cancelled(a));
    CHECK(kc_token_cancelled(b));
    CHECK(!kc_token_cancel(a));
    kc_token_release(a);
    kc_token_release(b);
    kc_token_detach(c);
    CHECK_EQ(count(), 0);
}

/* Threads make, cancel, drop and detach timed tasks while main pumps: of each delayed task's start
 * and its cancel exactly one happens. */
enum { THREADS = 4 };

/* How many timers each thread makes; KC_STRESS_TIMERS: how many in all. */
static long each(void)
{
    const char *all = getenv("KC_STRESS_TIMERS");

    return all ? atol(all) / THREADS : kc_test_rounds(500);
}

struct balance {
    kc_sched_t *s;
    long made, prevented, let_go;
    uint64_t random;
};

static KC_ATOMIC(int) threads_done;

static void *thread_storms(void *arg)
{
    struct balance *b = arg;

    for (long left = each(); left > 0; left--) {
        kc_token_t *token = NULL;
        kc_time_t delay = (kc_time_t)(kc_test_random(&b->random) % 300000);
        kc_affinity_t where = kc_test_random(&b->random) % 2 ? KC_MAIN : KC_WORKER;
        CHECK_EQ(kc_schedule_delayed(b->s, delay, where, count_one, NULL, &token), 0);
        b->made++;
        for (unsigned spin = kc_test_random(&b->random) % 3000; spin > 0; spin--)
            __asm__ volatile("");
        if (kc_test_random(&b->random) % 3 == 0) {
            kc_token_detach(token);
        } else {
            b->prevented += kc_token_cancel(token);
            kc_token_release(token);
        }
    }
    kc_add_relaxed(&threads_done, 1);
    kc_sched_stop(b->s);
    return NULL;
}

TEST_SLOW(a_storm_of_timers_from_many_threads_balances, 60000)
{
    static const int workers[] = { KC_NO_WORKERS, 2 };

    for (int c = 0; c < 2; c++) {
        struct balance b[THREADS] = { { 0 } };
        pthread_t thread[THREADS];
        kc_sched_t *s = make(workers[c], 0);
        long expected = 0;
        kc_store_relaxed(&counter, 0);
        kc_store_relaxed(&threads_done, 0);
        for (int i = 0; i < THREADS; i++) {
            b[i].s = s;
            b[i].random = kc_test_seed() + (uint64_t)i;
            CHECK_EQ(pthread_create(&thread[i], NULL, thread_storms, &b[i]), 0);
        }
        while (kc_load_relaxed(&threads_done) < THREADS)
            kc_sched_run_expired(s, kc_now());
        for (int i = 0; i < THREADS; i++) {
            pthread_join(thread[i], NULL);
            expected += b[i].made - b[i].prevented;
        }
        while (count() < expected)
            CHECK_GE(kc_sched_run_expired(s, kc_now()), 0);
        end(s);
        CHECK_EQ(count(), expected);
    }
}

/* ---- S8: the pumps
 * ------------------------------------------------------------------------------------------ */

static int yields_for_ever(void *arg)
{
    (void)arg;
    do
        kc_add_relaxed(&counter, 1);
    while (kc_yield() == 0);
    return 0;
}

TEST(a_task_that_keeps_yielding_stays_for_the_next_pump)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);

    CHECK_EQ(kc_sched_submit(s, KC_MAIN, yields_for_ever, NULL), 0);
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(i % 2 ? kc_sched_poll(s, kc_now()) : kc_sched_run_expired(s, kc_now()), 0);
        CHECK_EQ(count(), i);
    }
    end(s);
}

static int submits_more(void *arg)
{
    intptr_t left = (intptr_t)arg;

    kc_add_relaxed(&counter, 1);
    if (left > 0)
        CHECK_EQ(kc_sched_submit(kc_sched_current(), KC_MAIN, submits_more, (void *)(left - 1)),
                 0);
    return 0;
}

TEST(a_pump_runs_what_its_tasks_submit_and_returns_with_empty_queues)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);

    CHECK_EQ(kc_sched_run_expired(s, kc_now()), KC_FOREVER);
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, submits_more, (void *)10), 0);
    CHECK_EQ(kc_sched_run_expired(s, kc_now()), KC_FOREVER);
    CHECK_EQ(count(), 11);
    end(s);
}

TEST(a_poll_at_a_time_long_before_all_timers_is_for_ever)
{
    kc_sched_t *s = make_virtual();

    CHECK_EQ(kc_schedule_delayed(s, KC_SEC(1), KC_MAIN, count_one, NULL, NULL), 0);
    CHECK_EQ(kc_sched_poll(s, -KC_SEC(1)), KC_SEC(2));
    CHECK_EQ(kc_sched_poll(s, INT64_MIN), KC_FOREVER);
    CHECK_EQ(kc_sched_run_expired(s, KC_SEC(1) - KC_FOREVER), KC_FOREVER);
    CHECK_EQ(kc_sched_run_expired(s, KC_SEC(1) - KC_FOREVER + 1), KC_FOREVER - 1);
    CHECK_EQ(count(), 0);
    end(s);
}

TEST(a_smaller_now_than_before_starts_nothing_new)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);
    kc_time_t t0 = kc_now();

    CHECK_EQ(kc_schedule_delayed(s, KC_SEC(10), KC_MAIN, count_one, NULL, NULL), 0);
    kc_sched_run_expired(s, t0 + KC_SEC(5));
    kc_sched_run_expired(s, t0);
    CHECK_EQ(count(), 0);
    kc_sched_run_expired(s, t0 + KC_SEC(11)); /* any reference time will do */
    CHECK_EQ(count(), 1);
    end(s);
}

static void *thread_pumps(void *arg)
{
    CHECK_EQ(kc_sched_run_expired(arg, 0), -EPERM);
    CHECK_EQ(kc_sched_poll(arg, 0), -EPERM);
    CHECK_EQ(kc_sched_fd(arg), -EPERM);
    return NULL;
}

TEST(pumps_elsewhere_are_eperm)
{
    kc_sched_t *s = make(1, 0);
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, thread_pumps, s), 0);
    pthread_join(thread, NULL);
    end(s);
}

static int sleeps_then_counts(void *arg)
{
    CHECK_EQ(kc_sleep(KC_MS(2)), 0);
    return count_one(arg);
}

static int sleeps_then_says_so(void *arg)
{
    CHECK_EQ(kc_sleep(KC_MS(2)), 0);
    *(bool *)arg = true;
    return 0;
}

TEST(sleeping_on_the_creators_thread_pumps_its_scheduler)
{
    kc_sched_t *s = make(1, 0);
    bool slept = false;

    CHECK_EQ(kc_sched_submit(s, KC_MAIN, sleeps_then_says_so, &slept), 0);
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, yields_for_ever, NULL), 0);
    do { /* again where the machine was so busy that nobody had time to do much meanwhile */
        kc_time_t start = kc_now();
        CHECK_EQ(kc_sleep(KC_MS(10)), 0);
        CHECK_GE(kc_now() - start, KC_MS(10));
    } while (!slept || count() <= 1);
    end(s);
    s = make_virtual();
    kc_store_relaxed(&counter, 0);
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, sleeps_then_counts, NULL), 0);
    CHECK_EQ(kc_sleep(KC_SEC(1000)), 0);
    CHECK_EQ(count(), 1);
    end(s);
}

static bool readable(int fd, int ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    return poll(&p, 1, ms) > 0;
}

static void *thread_submits_later(void *arg)
{
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(kc_sched_submit(arg, KC_MAIN, count_one, NULL), 0);
        sched_yield();
    }
    return NULL;
}

TEST(the_descriptor_is_readable_when_main_has_work_or_a_timer_is_due)
{
    kc_sched_t *s = make(1, 0);
    int fd = kc_sched_fd(s);
    pthread_t thread;

    CHECK_GE(fd, 0);
    CHECK_EQ(kc_sched_fd(s), fd);
    CHECK(!readable(fd, 0));
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, sleeps_then_counts, NULL), 0);
    CHECK(readable(fd, -1));
    kc_time_t begin = kc_now(), left = kc_sched_poll(s, begin);
    bool late = kc_now() - begin >= KC_MS(2); /* a slow machine: the sleep may be over already */
    CHECK(late || (left > 0 && left <= KC_MS(2)));
    while (count() < 1) {
        CHECK(readable(fd, -1)); /* when the sleep is over */
        CHECK_GE(kc_sched_poll(s, kc_now()), 0);
    }
    CHECK(!readable(fd, 0));
    CHECK_EQ(kc_schedule_delayed(s, KC_MS(1), KC_MAIN, count_one, NULL, NULL), 0);
    CHECK_GE(kc_sched_poll(s, kc_now()), 0);
    while (count() < 2) {
        CHECK(readable(fd, -1));
        CHECK_GE(kc_sched_poll(s, kc_now()), 0);
    }
    CHECK_EQ(pthread_create(&thread, NULL, thread_submits_later, s), 0);
    while (count() < 102) {
        CHECK(readable(fd, -1));
        CHECK_GE(kc_sched_poll(s, kc_now()), 0);
    }
    pthread_join(thread, NULL);
    end(s);
}

/* ---- S11: virtual time and seeds
 * -------------------------------------------------------------------------------- */

static int sleeps_hours(void *arg)
{
    kc_time_t start = kc_now();

    for (int i = 0; i < 24; i++)
        CHECK_EQ(kc_sleep(KC_SEC(3600)), 0);
    CHECK_EQ(kc_now() - start, KC_SEC(24 * 3600));
    return count_one(arg);
}

TEST(virtual_hours_take_milliseconds)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME };
    kc_time_t start = kc_now();

    CHECK_EQ(kc_run(sleeps_hours, NULL, &opts), 0);
    CHECK_EQ(count(), 1);
    CHECK_LT(kc_now() - start, KC_SEC(3600)); /* less than one of its sleeps; see also the limit */
    opts.workers = 1;
    CHECK_EQ(kc_run(sleeps_hours, NULL, &opts), -EINVAL);
}

static int parks_for_ever(void *arg)
{
    (void)arg;
    kcoro_set_name(kcoro_current(), "waiter");
    kcoro_park();
    return 0;
}

TEST(a_deadlock_is_reported_and_returned)
{
    kc_sched_opts_t virtual = { .flags = KC_SCHED_VIRTUAL_TIME }, seeded = { .seed = 5 };

    CHECK_EQ(kc_run(parks_for_ever, NULL, &virtual), -EDEADLK);
    CHECK_EQ(kc_run(parks_for_ever, NULL, &seeded), -EDEADLK);
}

static int yields_and_notes(void *arg)
{
    for (int i = 0; i < 4; i++) {
        note(arg);
        kc_yield();
    }
    return 0;
}

static void seeded_run(uint64_t seed, int *out)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME, .seed = seed };
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    ordered = 0;
    for (intptr_t i = 0; i < 8; i++)
        CHECK_EQ(kc_sched_submit(s, KC_WORKER, yields_and_notes, (void *)i), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_EQ(ordered, 32);
    memcpy(out, order, 32 * sizeof *out);
    end(s);
}

TEST(a_seed_gives_one_order_and_another_seed_another)
{
    int a[32], b[32], c[32];

    seeded_run(1, a);
    seeded_run(1, b);
    seeded_run(2, c);
    CHECK_EQ(memcmp(a, b, sizeof a), 0);
    CHECK_NE(memcmp(a, c, sizeof a), 0);
}

enum { VERY_MANY = 4000 };
static int started;

static int is_not_too_early(void *arg)
{
    /* As far as a seed looks ahead. */
    CHECK_LT((intptr_t)arg, started++ + 1024);
    return 0;
}

TEST(with_a_seed_one_of_very_many_is_chosen_in_a_limited_number_of_steps)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME, .seed = 5 };
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    for (intptr_t i = 0; i < VERY_MANY; i++)
        CHECK_EQ(kc_sched_submit(s, KC_WORKER, is_not_too_early, (void *)i), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_EQ(started, VERY_MANY);
    end(s);
}

static int launches_some(void *arg)
{
    (void)arg;
    for (intptr_t i = 0; i < 40; i++) {
        CHECK_EQ(kc_launch(note, (void *)i), 0);
        if (i % 7 == 0)
            kc_yield();
    }
    return 0;
}

TEST(virtual_time_gives_the_same_order_whatever_ran_before)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME };
    int first[40];

    for (int i = 0; i < 4; i++) {
        ordered = 0;
        CHECK_EQ(kc_run(launches_some, NULL, &opts), 0);
        CHECK_EQ(ordered, 40);
        if (i == 0)
            memcpy(first, order, sizeof first);
        CHECK_EQ(memcmp(first, order, sizeof first), 0);
    }
}
