/* SPDX-License-Identifier: MIT */
/*
 * sched_edge_test.c - where schedulers, generators, cleanups, pumps and failures meet.
 */
#include "base/os.h"
#include "job/job.h"
#include "sched_kit.h"

#include <kcoro/job.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static KC_ATOMIC(int) flag;

static int set_flag(void *arg)
{
    (void)arg;
    kc_store_release(&flag, 1);
    return 0;
}

static int yields_until_flag(void *arg)
{
    (void)arg;
    while (!kc_load_acquire(&flag))
        kc_yield();
    return 0;
}

/* ---- nobody starves (S7) ------------------------------------------------------------------- */

TEST(a_worker_that_is_always_busy_still_takes_what_foreign_threads_submit)
{
    kc_sched_t *s = make(1, 0);

    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(0), yields_until_flag, NULL), 0);
    CHECK_EQ(kc_sched_submit(s, KC_WORKER, set_flag, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    end(s);
}

static int resubmits_until_flag(void *arg)
{
    if (!kc_load_acquire(&flag))
        CHECK_EQ(kc_sched_submit(kc_sched_current(), KC_WORKER_AT(0), resubmits_until_flag, arg),
                 0);
    return 0;
}

static int submits_both(void *arg)
{
    CHECK_EQ(kc_sched_submit(kc_sched_current(), KC_WORKER, set_flag, NULL), 0);
    return resubmits_until_flag(arg);
}

TEST(tasks_that_must_start_here_do_not_starve_those_that_may_start_anywhere)
{
    kc_sched_t *s = make(1, 0);

    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(0), submits_both, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    end(s);
}

static int leaves_a_newer_one(void *arg)
{
    int *left = arg;

    if (kc_load_acquire(&flag))
        return 0;
    CHECK_GT((*left)--, 0);
    CHECK_EQ(kc_sched_submit(kc_sched_current(), KC_WORKER, leaves_a_newer_one, arg), 0);
    return 0;
}

TEST(the_oldest_task_starts_though_each_that_ends_leaves_a_newer_one)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);
    int left = 100;

    CHECK_EQ(kc_sched_submit(s, KC_WORKER, set_flag, NULL), 0);
    CHECK_EQ(kc_sched_submit(s, KC_WORKER, leaves_a_newer_one, &left), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_EQ(kc_load_relaxed(&flag), 1);
    end(s);
}

static int returns_at_once(void *arg)
{
    (void)arg;
    return 0;
}

/* Whatever the turn it begins with: each child takes as many as the one before. */
static int launches_now(void *arg)
{
    kc_launch_opts_t now = { .flags = KC_JOB_NOW };
    kc_scope_t s;

    for (int i = 0; i < *(int *)arg; i++)
        CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(kc_launch(set_flag, NULL), 0);
    for (int left = 100; !kc_load_acquire(&flag); left--) {
        CHECK_GT(left, 0);
        CHECK_EQ(kc_launch_job(returns_at_once, NULL, &now, NULL), 0);
    }
    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .timeout = KC_MS(1) }), 0);
    kc_time_t over = kc_now() + KC_MS(1);
    for (int left = 100; kc_launch_job(returns_at_once, NULL, &now, NULL) == 0;) {
        CHECK_GT(left, 0);
        left -= kc_now() >= over; /* so many more that begin when its time is over */
    }
    CHECK_EQ(kc_scope_end(&s), -ETIMEDOUT);
    return 0;
}

TEST(children_that_run_now_keep_neither_timers_nor_tasks_waiting)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };

    for (int shift = 0; shift < 4; shift++) {
        kc_store_release(&flag, 0);
        CHECK_EQ(kc_run(launches_now, &shift, &opts), 0);
    }
}

static int yields_once(void *arg)
{
    (void)arg;
    return kc_yield();
}

static int yields_then_sets_flag(void *arg)
{
    CHECK_EQ(kc_yield(), 0);
    return set_flag(arg);
}

static int launches_now_beside_one_that_is_ready(void *arg)
{
    const kc_fn_t *child = arg;
    kc_launch_opts_t now = { .flags = KC_JOB_NOW };

    CHECK_EQ(kc_launch_job(yields_then_sets_flag, NULL, &now, NULL), 0);
    for (int left = 2000; !kc_load_acquire(&flag); left--) {
        CHECK_GT(left, 0);
        CHECK_EQ(kc_launch_job(*child, NULL, &now, NULL), 0);
    }
    return 0;
}

TEST(children_that_run_now_do_not_keep_those_waiting_that_are_ready)
{
    static const kc_fn_t child[] = { returns_at_once, yields_once };

    for (size_t i = 0; i < sizeof child / sizeof child[0]; i++) {
        kc_store_release(&flag, 0);
        CHECK_EQ(kc_run(launches_now_beside_one_that_is_ready, (void *)(uintptr_t)&child[i],
                        &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
                 0);
    }
}

/* A worker that is woken for its own work must not count as one that looks for others'. */
static int waits_for_flag(void *arg)
{
    (void)arg;
    while (!kc_load_acquire(&flag))
        kc__relax();
    return 0;
}

TEST(work_for_anybody_is_found_while_another_worker_blocks)
{
    kc_sched_t *s = make(2, 0);

    for (int i = 0; i < 50; i++) {
        kc_store_release(&flag, 0);
        CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(0), waits_for_flag, NULL), 0);
        CHECK_EQ(kc_sched_submit(s, KC_WORKER, set_flag, NULL), 0);
        CHECK_EQ(kc_sched_run(s), 0);
    }
    end(s);
}

/* One whose turn had come, and that needs a stack of its own, was put back. */
static KC_ATOMIC(int) begun, free_to_go;

static int holds_its_worker(void *arg)
{
    kc_store_release((KC_ATOMIC(int) *)arg, 1);
    while (!kc_load_acquire(&free_to_go))
        kc__relax();
    return 0;
}

static int begins_on(void *arg)
{
    *(int *)arg = kc_worker_index();
    kc_store_release(&begun, 1);
    return 0;
}

static int does_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int computes_after_a_child(void *arg)
{
    kc_launch_opts_t named = { .name = "needs a stack of its own" };
    kc_deferred_t *d = NULL;

    CHECK_EQ(kc_launch_job(begins_on, arg, &named, NULL), 0);
    CHECK_EQ(kc_async(does_nothing, NULL, &d), 0);
    CHECK_EQ(kc_await(d, NULL), 0); /* it has ended here, and we go on at once */
    CHECK_EQ(kc_load_acquire(&begun), 0);
    kc_deferred_release(d);
    kc_store_release(&free_to_go, 1);
    while (!kc_load_acquire(&begun)) /* this worker never starts it */
        kc__relax();
    return 0;
}

TEST(what_any_worker_may_start_and_was_put_back_is_still_found_by_others)
{
    kc_sched_t *s = make(2, 0);
    int where = -1;

    kc_store_release(&flag, 0);
    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(1), holds_its_worker, &flag), 0);
    while (!kc_load_acquire(&flag))
        kc__relax();
    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(0), computes_after_a_child, &where), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_EQ(where, 1);
    end(s);
}

/* ---- tasks are not bare coroutines --------------------------------------------------------- */

static KC_ATOMIC(kcoro_t *) sleeper;

static int sleeps(void *arg)
{
    kc_store_release(&sleeper, kcoro_retain(kcoro_current()));
    CHECK_EQ(kc_sleep(KC_MS(5)), 0);
    CHECK_EQ(kc_worker_index(), KC_MAIN);
    return arg ? 1 : 0;
}

static void *thread_resumes(void *arg)
{
    kcoro_t *co;

    while (!(co = kc_load_acquire(&sleeper)))
        sched_yield();
    CHECK_EQ(kcoro_resume(co), -EINVAL); /* the first thing that this thread asks of the library */
    kcoro_release(co);
    return arg;
}

TEST(a_fresh_thread_cannot_resume_a_task)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, thread_resumes, NULL), 0);
    CHECK_EQ(kc_run(sleeps, NULL, NULL), 0);
    pthread_join(thread, NULL);
}

static kcoro_t *shared_generator;

static void generator_sleeps(void *arg)
{
    (void)arg;
    kc_time_t start = kc_now();
    CHECK_EQ(kc_sleep(KC_MS(5)), 0);
    CHECK_GE(kc_now() - start, KC_MS(5));
}

static int waits_in_generator(void *arg)
{
    (void)arg;
    shared_generator = kcoro_create(generator_sleeps, NULL, 0);
    CHECK_EQ(kcoro_resume(shared_generator), 0);
    CHECK_EQ(kcoro_state(shared_generator), KCORO_FINISHED);
    kcoro_destroy(shared_generator);
    return 0;
}

static int meddles(void *arg)
{
    (void)arg;
    CHECK_EQ(kcoro_state(shared_generator), KCORO_SUSPENDED);
    CHECK_EQ(kcoro_resume(shared_generator), -EINVAL);
    return 0;
}

TEST(a_generator_in_which_a_task_waits_cannot_be_resumed_by_another)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);

    CHECK_EQ(kc_sched_submit(s, KC_MAIN, waits_in_generator, NULL), 0);
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, meddles, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    end(s);
}

/* ---- the end (S10) ------------------------------------------------------------------------- */

static int destroyed;

static void destroy_generator(void *co)
{
    kcoro_destroy(co);
    destroyed++;
}

static void inner_generator(void *arg)
{
    (void)arg;
    kc_sched_stop(kc_sched_current());
    CHECK_EQ(kc_sleep(KC_SEC(1000)), -ECANCELED);
}

static void outer_generator(void *arg)
{
    kcoro_t *inner = kcoro_create(inner_generator, arg, 0);

    CHECK_EQ(kc_defer(destroy_generator, inner), 0);
    CHECK_EQ(kcoro_resume(inner), 0);
}

static int nests_generators(void *arg)
{
    kcoro_t *outer = kcoro_create(outer_generator, arg, 0);

    CHECK_EQ(kc_defer(destroy_generator, outer), 0);
    return kcoro_resume(outer);
}

TEST(destroy_ends_a_task_that_waits_inside_nested_generators)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);

    CHECK_EQ(kc_sched_submit(s, KC_MAIN, nests_generators, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    end(s);
    CHECK_EQ(destroyed, 2);
}

static KC_ATOMIC(int) started;

/* Under a shield it needs main, which has begun to destroy the scheduler. */
static int waits_for_main(void *arg)
{
    kc_job_t *on_main;

    CHECK_EQ(kc_shield_begin(), 0);
    kc_store_release(&started, 1);
    while (!kc_job_reason(kc_job_current()))
        sched_yield();
    CHECK_EQ(kc_launch_job(set_flag, arg, &(kc_launch_opts_t){ .affinity = KC_MAIN }, &on_main),
             0);
    CHECK_EQ(kc_job_join(on_main), 0);
    kc_job_release(on_main);
    kc_shield_end();
    return 0;
}

TEST(destroy_pumps_main_work_while_it_waits_for_workers)
{
    kc_sched_t *s = make(1, 0);

    CHECK_EQ(kc_sched_submit(s, KC_WORKER, waits_for_main, s), 0);
    while (!kc_load_acquire(&started))
        sched_yield();
    end(s);
    CHECK_EQ(kc_load_acquire(&flag), 1);
}

static void (*suspend_call)(void);

static void cleanup_suspends(void *arg)
{
    (void)arg;
    suspend_call();
}

static int parks_with_cleanup(void *arg)
{
    CHECK_EQ(kc_defer(cleanup_suspends, NULL), 0);
    kc_sched_stop(arg);
    kcoro_park();
    return 0;
}

static void end_with(void (*call)(void))
{
    kc_sched_t *s = make(1, 0);

    suspend_call = call;
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, parks_with_cleanup, s), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    end(s);
}

static void hop_to_worker(void)
{
    (void)!kc_hop(KC_WORKER);
}

static int suspended;

static void all_ways(void)
{
    kcoro_yield();
    CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    CHECK_EQ(kcoro_unpark(kcoro_current()), 0);
    kcoro_park();
    hop_to_worker();
    suspended++;
}

TEST(a_cleanup_may_suspend_while_the_scheduler_ends)
{
    end_with(all_ways);
    CHECK_EQ(suspended, 1);
}

/* ---- no memory ----------------------------------------------------------------------------- */

static KC_ATOMIC(int) faults;

static bool fail_maps(const char *what)
{
    return strcmp(what, "map") == 0 && kc_add_relaxed(&faults, 1) < 3;
}

TEST(a_task_that_found_no_memory_for_a_stack_is_tried_again)
{
    kc_sched_t *s = make(1, 0);

    kc__os_fault = fail_maps;
    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(0), set_flag, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    kc__os_fault = NULL;
    CHECK_EQ(kc_load_acquire(&flag), 1);
    CHECK_GE(kc_load_relaxed(&faults), 3);
    end(s);
}

static KC_ATOMIC(int) calls;
static int fail_at;

static bool fail_kth(const char *what)
{
    (void)what;
    return kc_add_relaxed(&calls, 1) + 1 == fail_at;
}

TEST(create_that_fails_for_want_of_memory_leaves_nothing_and_does_not_hang)
{
    kc_sched_t *s = NULL;
    kc_sched_opts_t opts = { .workers = 3 };
    int failed = 0, rc = -1;

    CHECK(kcoro_create_main() != NULL);
    kc__os_fault = fail_kth;
    for (fail_at = 1; rc != 0 && fail_at < 1000; fail_at++) {
        kc_store_relaxed(&calls, 0);
        rc = kc_sched_create(&opts, &s);
        CHECK(rc == 0 || rc == -ENOMEM);
        failed += rc != 0;
    }
    kc__os_fault = NULL;
    CHECK_EQ(rc, 0);
    CHECK_GT(failed, 5);
    end(s);
}

/* ---- the pumps (S1, S8) and timers (T2, T6) ------------------------------------------------ */

static int note_index(void *arg)
{
    *(int *)arg = kc_worker_index();
    kc_store_release(&flag, 1);
    return 0;
}

static int spawns_for_anybody(void *arg)
{
    return kc_sched_submit(kc_sched_current(), KC_WORKER, note_index, arg);
}

TEST(poll_and_run_expired_never_take_a_workers_task)
{
    kc_sched_t *s = make(1, KC_SCHED_MAIN_WORKS);

    for (int i = 0; i < 20; i++) {
        int seen = 99;
        kc_store_release(&flag, 0);
        CHECK_EQ(kc_sched_submit(s, KC_MAIN, spawns_for_anybody, &seen), 0);
        while (!kc_load_acquire(&flag))
            CHECK_GE(i % 2 ? kc_sched_poll(s, kc_now()) : kc_sched_run_expired(s, kc_now()), 0);
        CHECK_EQ(seen, 0);
    }
    end(s);
}

static KC_ATOMIC(int) busy;

static int is_busy_until_told(void *arg)
{
    (void)arg;
    kc_store_release(&busy, 1);
    while (!kc_load_acquire(&flag))
        sched_yield();
    return 0;
}

/* Who is stopped looks around every so often: by then it has not come to the end of these. */
static int leaves_much_to_workers(void *arg)
{
    kc_sched_t *s = kc_sched_current();

    while (!kc_load_acquire(&busy))
        sched_yield();
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(kc_sched_submit(s, KC_WORKER, count_one, arg), 0);
    kc_sched_stop(s);
    return 0;
}

TEST(what_is_left_to_busy_workers_is_no_work_for_a_pump)
{
    kc_sched_t *s = make(1, KC_SCHED_MAIN_WORKS);
    struct pollfd p = { .fd = kc_sched_fd(s), .events = POLLIN };

    kc_store_release(&flag, 0);
    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(0), is_busy_until_told, NULL), 0);
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, leaves_much_to_workers, NULL), 0);
    run(s);
    CHECK_LT(kc_load_relaxed(&counter), 1000);
    CHECK_EQ(kc_sched_poll(s, kc_now()), KC_FOREVER);
    CHECK_EQ(poll(&p, 1, 0), 0);
    kc_store_release(&flag, 1);
    run(s);
    CHECK_EQ(kc_load_relaxed(&counter), 1000);
    end(s);
}

static int naps(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_sleep(KC_SEC(5)), 0);
    return 0;
}

TEST(run_expired_in_virtual_time_waits_for_an_interval_run_that_sleeps)
{
    kc_sched_t *s = make(0, KC_SCHED_VIRTUAL_TIME);

    CHECK_EQ(kc_schedule_interval(s, KC_SEC(60), KC_MAIN, naps, NULL, NULL), 0);
    CHECK_GE(kc_sched_run_expired(s, kc_now()), 0);
    CHECK_EQ(kc_now(), KC_SEC(5));
    end(s);
}

TEST(run_expired_at_the_end_of_time_returns)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);

    CHECK_EQ(kc_schedule_interval(s, 1, KC_MAIN, set_flag, NULL, NULL), 0);
    CHECK_GE(kc_sched_run_expired(s, KC_FOREVER), 0);
    CHECK_EQ(kc_load_acquire(&flag), 1);
    end(s);
}

static int order[2], ordered;

static int note(void *arg)
{
    order[ordered++] = (int)(intptr_t)arg;
    return 0;
}

static void *thread_schedules(void *arg)
{
    CHECK_EQ(kc_schedule_delayed(arg, KC_MS(1), KC_MAIN, note, (void *)1, NULL), 0);
    return NULL;
}

TEST(timers_of_other_threads_keep_their_place_in_the_order_of_submission)
{
    kc_sched_t *s = make(0, KC_SCHED_VIRTUAL_TIME);
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, thread_schedules, s), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(kc_schedule_delayed(s, KC_MS(1), KC_MAIN, note, (void *)2, NULL), 0);
    kc_sched_run_expired(s, kc_now() + KC_MS(1));
    CHECK_EQ(ordered, 2);
    CHECK_EQ(order[0], 1);
    end(s);
}

TEST(the_descriptor_of_a_virtual_clock_tells_what_is_due_now)
{
    kc_sched_t *s = make(0, KC_SCHED_VIRTUAL_TIME);
    struct pollfd p = { .fd = kc_sched_fd(s), .events = POLLIN };

    CHECK_EQ(poll(&p, 1, 0), 0);
    CHECK_EQ(kc_schedule_delayed(s, 0, KC_MAIN, set_flag, NULL, NULL), 0);
    CHECK_EQ(poll(&p, 1, 5000), 1);
    kc_sched_poll(s, kc_now());
    CHECK_EQ(kc_load_acquire(&flag), 1);
    end(s);
}

TEST(an_argument_that_is_missing_is_einval)
{
    CHECK_EQ(kc_sched_run(NULL), -EINVAL);
    CHECK_EQ(kc_sched_fd(NULL), -EINVAL);
    CHECK_EQ(kc_sched_poll(NULL, 0), -EINVAL);
    CHECK_EQ(kc_sched_run_expired(NULL, 0), -EINVAL);
}

static int does_little(void *arg)
{
    (void)arg;
    return kc_yield();
}

/* The wait for interval runs ends also if the last one ends just before main goes to sleep. */
TEST_SLOW(run_expired_does_not_miss_the_end_of_the_last_interval_run, 60000)
{
    bool slow = kc_test_under_tsan() || kc_test_under_emulation();
    kc_sched_t *s = make(1, 0);

    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(0), yields_until_flag, NULL), 0);
    CHECK_EQ(kc_schedule_interval(s, 1, KC_WORKER_AT(0), does_little, NULL, NULL), 0);
    for (long left = kc_test_rounds(slow ? 50 : 1000); left > 0; left--)
        CHECK_GE(kc_sched_run_expired(s, kc_now()), 0);
    kc_store_release(&flag, 1);
    end(s);
}

/* ---- the memory of a burst ----------------------------------------------------------------- */

/* Resident pages of this process. */
static long resident(void)
{
    long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    CHECK(f != NULL);
    CHECK_EQ(fscanf(f, "%ld %ld", &all, &resident), 2);
    fclose(f);
    return resident;
}

static int waits_for_event(void *event)
{
    return kc_event_wait(event);
}

/* ---- order in memory ------------------------------------------------------------------------ */

enum { FAMILY = 1000, ROUNDS = 12 };

static struct {
    kcoro_t *co[FAMILY];
    size_t in;
} family;

static int stays(void *arg)
{
    (void)arg;
    family.co[family.in++] = kcoro_current();
    return kc_sleep(KC_FOREVER);
}

/* Of those that come one after the other, so many are not neighbours in memory. */
static size_t torn(const void *const *at, size_t n)
{
    size_t count = 0;

    for (size_t i = 1; i < n; i++) {
        ptrdiff_t far = (const char *)at[i] - (const char *)at[i - 1];
        count += far != KC_BLOCK_SIZE && far != -KC_BLOCK_SIZE;
    }
    return count;
}

static int families(void *arg)
{
    kc_job_t *job[FAMILY];

    (void)arg;
    for (int round = 0; round < ROUNDS; round++) {
        family.in = 0;
        for (size_t i = 0; i < FAMILY; i++)
            CHECK_EQ(kc_launch_job(stays, NULL, NULL, &job[i]), 0);
        while (family.in < FAMILY)
            CHECK_EQ(kc_yield(), 0);
        CHECK_LE(torn((const void *const *)job, FAMILY), FAMILY / 10);
        CHECK_LE(torn((const void *const *)family.co, FAMILY), FAMILY / 10);
        for (size_t i = FAMILY; i-- > 0;)
            kc_job_drop(job[i]);
        while (kc__job_current()->children)
            CHECK_EQ(kc_yield(), 0);
    }
    return 0;
}

TEST(neighbours_in_the_tree_stay_neighbours_in_memory_however_many_come_and_go)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };

    CHECK_EQ(kc_run(families, NULL, &opts), 0);
}

/* ---- memory --------------------------------------------------------------------------------- */

enum { MANY = 2000 };

static int burst(void *arg)
{
    kc_event_t event = KC_EVENT_INIT;
    kc_metrics_t before, now;
    kc_scope_t s;

    kc_metrics(kc_sched_current(), &before);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(kc_launch(waits_for_event, &event), 0);
    do {
        CHECK_EQ(kc_yield(), 0);
        kc_metrics(kc_sched_current(), &now);
    } while (now.spawns < before.spawns + MANY);
    *(long *)arg = resident();
    kc_event_set(&event);
    return kc_scope_end(&s);
}

TEST_SLOW(the_memory_of_a_burst_returns_while_a_worker_sleeps, 60000)
{
    kc_sched_t *s = make(1, 0);
    kc_job_t *j;
    long peak = 0;

    if (kc_test_under_asan() || kc_test_under_tsan() || kc_test_under_emulation())
        SKIP("resident memory is the tool's");
    long before = resident();
    CHECK_EQ(kc_launch_job(burst, &peak, &(kc_launch_opts_t){ .sched = s }, &j), 0);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    CHECK_GE(peak - before, MANY);
    /* The control blocks stay, 125 pages, and 320 warm stacks of one page or two. */
    while (resident() - before > MANY / 2)
        sched_yield();
    end(s);
}
