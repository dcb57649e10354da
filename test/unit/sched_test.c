/* SPDX-License-Identifier: MIT */
/*
 * sched_test.c - schedulers: submit, run, yield, hop, sleep, destroy, with 0 to 16 workers (S1-S7,
 * S9, S12, S13).
 */
#include "sched_kit.h"

#include <kcoro/timer.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- S1
 * ----------------------------------------------------------------------------------------- */

static int return_arg(void *arg)
{
    return *(int *)arg;
}

TEST(kc_run_returns_what_the_root_returned)
{
    int code = 7;

    CHECK_EQ(kc_run(return_arg, &code, NULL), 7);
    code = -EIO;
    CHECK_EQ(kc_run(return_arg, &code, NULL), -EIO);
    CHECK_EQ(kc_run(NULL, NULL, NULL), -EINVAL);
    CHECK_PTR(kc_sched_current(), NULL);
}

static int root_checks_thread(void *arg)
{
    CHECK(pthread_equal(*(pthread_t *)arg, pthread_self()));
    CHECK_EQ(kc_worker_index(), KC_MAIN);
    CHECK(kc_sched_current() != NULL);
    CHECK(kcoro_current() != NULL);
    return 0;
}

TEST(kc_run_runs_the_root_on_the_calling_thread)
{
    pthread_t me = pthread_self();

    CHECK_EQ(kc_run(root_checks_thread, &me, NULL), 0);
    CHECK_EQ(kc_worker_index(), -ENOENT);
}

static int root_spawns(void *arg)
{
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(kc_sched_submit(kc_sched_current(), KC_WORKER, count_one, arg), 0);
    return 0;
}

TEST(kc_run_pumps_until_all_tasks_have_ended)
{
    for (int i = 0; i < COUNTS; i++) {
        kc_sched_opts_t opts = { .workers = counts[i] };
        kc_store_relaxed(&counter, 0);
        CHECK_EQ(kc_run(root_spawns, NULL, &opts), 0);
        CHECK_EQ(kc_load_relaxed(&counter), 1000);
    }
}

static int root_runs_again(void *arg)
{
    *(int *)arg = kc_run(count_one, NULL, NULL);
    return 0;
}

TEST(kc_run_inside_a_coroutine_is_eperm)
{
    int rc = 0;

    CHECK_EQ(kc_run(root_runs_again, &rc, NULL), 0);
    CHECK_EQ(rc, -EPERM);
}

static void *thread_with_a_scheduler(void *arg)
{
    CHECK_EQ(kc_run(root_spawns, arg, NULL), 0);
    return NULL;
}

TEST(several_schedulers_live_in_one_process)
{
    enum { N = 4 };
    pthread_t thread[N];

    for (int i = 0; i < N; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, thread_with_a_scheduler, NULL), 0);
    for (int i = 0; i < N; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ(kc_load_relaxed(&counter), N * 1000);
}

TEST(bad_options_are_einval_and_leave_nothing)
{
    kc_sched_t *s = NULL;
    kc_sched_opts_t opts = { .workers = -2 };

    CHECK_EQ(kc_sched_create(NULL, NULL), -EINVAL);
    CHECK_EQ(kc_sched_create(&opts, &s), -EINVAL);
    opts = (kc_sched_opts_t){ .workers = KC_MAX_WORKERS + 1 };
    CHECK_EQ(kc_sched_create(&opts, &s), -EINVAL);
    opts = (kc_sched_opts_t){ .flags = 1u << 31 };
    CHECK_EQ(kc_sched_create(&opts, &s), -EINVAL);
    CHECK_PTR(s, NULL);
    s = make(1, 0);
    kc_sched_t *second = NULL;
    CHECK_EQ(kc_sched_create(NULL, &second), -EPERM); /* one main thread, one scheduler */
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- S3: where
 * ------------------------------------------------------------------------------------ */

struct place {
    int want, seen;
};

static int note_place(void *arg)
{
    struct place *p = arg;

    p->seen = kc_worker_index();
    kc_add_relaxed(&counter, 1);
    return 0;
}

TEST(affinity_is_honoured)
{
    for (int c = 1; c < COUNTS; c++) {
        enum { EACH = 20 };
        kc_sched_t *s = make(counts[c], 0);
        int places = counts[c] + 2;
        struct place *p = calloc((size_t)places * EACH, sizeof *p);
        for (int i = 0; i < places * EACH; i++) {
            kc_affinity_t where = i % places - 1;
            CHECK_EQ(kc_sched_submit(s, where, note_place, &p[i]), 0);
        }
        run(s);
        for (int i = 0; i < places * EACH; i++) {
            kc_affinity_t where = i % places - 1;
            if (where == KC_MAIN)
                CHECK_EQ(p[i].seen, KC_MAIN);
            else if (where == KC_WORKER)
                CHECK(p[i].seen >= 0 && p[i].seen < counts[c]);
            else
                CHECK_EQ(p[i].seen, where - KC_WORKER_AT(0));
        }
        free(p);
        CHECK_EQ(kc_sched_destroy(s), 0);
    }
}

TEST(an_affinity_that_does_not_exist_is_einval)
{
    kc_sched_t *s = make(2, 0);

    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(2), count_one, NULL), -EINVAL);
    CHECK_EQ(kc_sched_submit(s, -3, count_one, NULL), -EINVAL);
    CHECK_EQ(kc_sched_submit(s, KC_WORKER, NULL, NULL), -EINVAL);
    CHECK_EQ(kc_sched_submit(NULL, KC_WORKER, count_one, NULL), -EINVAL);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST(without_workers_worker_tasks_run_on_the_pumping_thread)
{
    struct place p = { 0, 99 };
    kc_sched_t *s = make(KC_NO_WORKERS, 0);

    CHECK_EQ(kc_sched_submit(s, KC_WORKER, note_place, &p), 0);
    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(0), note_place, &p), -EINVAL);
    run(s);
    CHECK_EQ(p.seen, KC_MAIN);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- S13: order
 * ------------------------------------------------------------------------------------ */

static int order[256], ordered;

static int note_order(void *arg)
{
    order[ordered++] = (int)(intptr_t)arg;
    return 0;
}

static void check_order(kc_affinity_t where, int workers)
{
    kc_sched_t *s = make(workers, 0);

    ordered = 0;
    for (intptr_t i = 0; i < 200; i++)
        CHECK_EQ(kc_sched_submit(s, where, note_order, (void *)i), 0);
    run(s);
    CHECK_EQ(ordered, 200);
    for (int i = 0; i < 200; i++)
        CHECK_EQ(order[i], i);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST(what_one_thread_submits_to_main_or_one_worker_starts_in_order)
{
    check_order(KC_MAIN, KC_NO_WORKERS);
    check_order(KC_MAIN, 2);
    check_order(KC_WORKER_AT(1), 2);
}

TEST(submit_many_is_all_or_none_and_in_order)
{
    kc_sched_t *s = make(1, 0);
    kc_call_t calls[100];

    for (intptr_t i = 0; i < 100; i++)
        calls[i] = (kc_call_t){ .fn = note_order, .arg = (void *)i };
    CHECK_EQ(kc_sched_submit_many(s, KC_MAIN, calls, 100), 0);
    calls[50].fn = NULL;
    CHECK_EQ(kc_sched_submit_many(s, KC_MAIN, calls, 100), -EINVAL);
    CHECK_EQ(kc_sched_submit_many(s, KC_MAIN, NULL, 0), 0);
    run(s);
    CHECK_EQ(ordered, 100);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(order[i], i);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- yield, park, hop
 * ------------------------------------------------------------------------------- */

static int yields(void *arg)
{
    int me = kc_worker_index();

    for (int i = 0; i < 100; i++) {
        CHECK_EQ(kc_yield(), 0);
        CHECK_EQ(kc_worker_index(), me); /* a started one stays on its thread (C4) */
        kcoro_yield();
    }
    return count_one(arg);
}

TEST(yielding_tasks_stay_on_their_thread)
{
    for (int c = 0; c < COUNTS; c++) {
        kc_sched_t *s = make(counts[c], KC_SCHED_MAIN_WORKS);
        kc_store_relaxed(&counter, 0);
        for (int i = 0; i < 50; i++)
            CHECK_EQ(kc_sched_submit(s, i % 2 ? KC_MAIN : KC_WORKER, yields, NULL), 0);
        run(s);
        CHECK_EQ(kc_load_relaxed(&counter), 50);
        CHECK_EQ(kc_sched_destroy(s), 0);
    }
}

TEST(yield_outside_tasks_does_nothing)
{
    CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(kc_hop(KC_MAIN), -EPERM);
}

static int hops(void *arg)
{
    int workers = kc_sched_workers(kc_sched_current());

    for (int i = 0; i < 20; i++) {
        CHECK_EQ(kc_hop(KC_MAIN), 0);
        CHECK_EQ(kc_worker_index(), KC_MAIN);
        CHECK_EQ(kc_hop(KC_MAIN), 0);
        CHECK_EQ(kc_hop(KC_WORKER_AT(i % workers)), 0);
        CHECK_EQ(kc_worker_index(), i % workers);
        CHECK_EQ(kc_hop(KC_WORKER), 0); /* there already */
        CHECK_EQ(kc_worker_index(), i % workers);
        CHECK_EQ(kc_hop(KC_MAIN), 0);
        CHECK_EQ(kc_hop(KC_WORKER), 0);
        CHECK_GE(kc_worker_index(), 0);
        CHECK_EQ(kc_hop(KC_WORKER_AT(workers)), -EINVAL);
    }
    return count_one(arg);
}

TEST(hop_continues_on_the_thread_that_was_asked_for)
{
    for (int c = 1; c < COUNTS; c++) {
        kc_sched_t *s = make(counts[c], 0);
        kc_store_relaxed(&counter, 0);
        for (int i = 0; i < 20; i++)
            CHECK_EQ(kc_sched_submit(s, i % 2 ? KC_MAIN : KC_WORKER, hops, NULL), 0);
        run(s);
        CHECK_EQ(kc_load_relaxed(&counter), 20);
        CHECK_EQ(kc_sched_destroy(s), 0);
    }
}

/* Pairs that wake each other, on whatever threads they are. */
struct pair {
    KC_ATOMIC(kcoro_t *) side[2];
    KC_ATOMIC(long) turns;
};

struct player {
    struct pair *pair;
    int side;
};

enum { TURNS = 200 };

static int plays(void *arg)
{
    struct player *p = arg;
    kcoro_t *other;

    kc_store_release(&p->pair->side[p->side], kcoro_retain(kcoro_current()));
    while (!(other = kc_load_acquire(&p->pair->side[!p->side])))
        kc_yield();
    for (int i = 0; i < TURNS; i++) {
        while (kc_load_acquire(&p->pair->turns) % 2 != p->side)
            kcoro_park();
        kc_store_release(&p->pair->turns, kc_load_relaxed(&p->pair->turns) + 1);
        kcoro_unpark(other);
    }
    kcoro_release(other);
    return count_one(NULL);
}

TEST(parked_tasks_are_woken_over_threads_and_no_wake_up_is_lost)
{
    enum { PAIRS = 20 };

    for (int c = 0; c < COUNTS; c++) {
        kc_sched_t *s = make(counts[c], KC_SCHED_MAIN_WORKS);
        static struct pair pair[PAIRS];
        static struct player player[2 * PAIRS];
        memset(pair, 0, sizeof pair);
        kc_store_relaxed(&counter, 0);
        for (int i = 0; i < 2 * PAIRS; i++) {
            player[i] = (struct player){ &pair[i / 2], i % 2 };
            CHECK_EQ(kc_sched_submit(s, i % 3 ? KC_WORKER : KC_MAIN, plays, &player[i]), 0);
        }
        run(s);
        CHECK_EQ(kc_load_relaxed(&counter), 2 * PAIRS);
        CHECK_EQ(kc_sched_destroy(s), 0);
    }
}

/* ---- C10
 * -------------------------------------------------------------------------------------------- */

static int resumes_itself(void *arg)
{
    (void)arg;
    kcoro_t *me = kcoro_current();

    CHECK_EQ(kcoro_resume(me), -EINVAL);
    CHECK_EQ(kcoro_yield_to(me), -EINVAL);
    return 0;
}

TEST(a_schedulers_coroutine_cannot_be_resumed_by_hand)
{
    CHECK_EQ(kc_run(resumes_itself, NULL, NULL), 0);
}

static void generator(void *arg)
{
    for (int i = 1; i <= 3; i++) {
        *(int *)arg = i;
        CHECK_EQ(kc_sleep(KC_US(100)), 0); /* the whole task waits, inside the generator */
        CHECK_EQ(kc_yield(), 0);
        kcoro_yield();
    }
}

static int uses_a_generator(void *arg)
{
    int value = 0;
    kcoro_t *co = kcoro_create(generator, &value, 0);

    (void)arg;
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(kcoro_resume(co), 0);
        CHECK_EQ(value, i);
    }
    CHECK_EQ(kc_hop(KC_MAIN), 0);
    kcoro_destroy(co);
    return 0;
}

TEST(a_waiting_call_inside_a_generator_suspends_the_whole_task)
{
    CHECK_EQ(kc_run(uses_a_generator, NULL, NULL), 0);
}

/* ---- T7: sleep
 * -------------------------------------------------------------------------------------- */

static int sleeps(void *arg)
{
    kc_time_t start = kc_now(), ns = (kc_time_t)(intptr_t)arg;

    CHECK_EQ(kc_sleep(ns), 0);
    CHECK_GE(kc_now() - start, ns);
    return count_one(NULL);
}

TEST(sleep_never_returns_early)
{
    for (int c = 0; c < COUNTS; c++) {
        kc_sched_t *s = make(counts[c], 0);
        kc_store_relaxed(&counter, 0);
        for (intptr_t i = 0; i < 100; i++)
            CHECK_EQ(kc_sched_submit(s, i % 2 ? KC_MAIN : KC_WORKER, sleeps,
                                     (void *)(i * 50000 % 2000000)),
                     0);
        run(s);
        CHECK_EQ(kc_load_relaxed(&counter), 100);
        CHECK_EQ(kc_sched_destroy(s), 0);
    }
    CHECK_EQ(kc_sleep(-1), -EINVAL);
    kc_time_t start = kc_now();
    CHECK_EQ(kc_sleep(KC_MS(1)), 0); /* a plain thread is blocked */
    CHECK_GE(kc_now() - start, KC_MS(1));
}

/* ---- S7: fairness --------------------------------------------------------------------------- */

static KC_ATOMIC(int) done;

static KC_ATOMIC(int) yielders;

static int yields_until_done(void *arg)
{
    (void)arg;
    kc_add_relaxed(&yielders, 1);
    while (!kc_load_relaxed(&done))
        kc_yield();
    return 0;
}

static int spawns_until_done(void *arg)
{
    if (!kc_load_relaxed(&done))
        CHECK_EQ(kc_sched_submit(kc_sched_current(), KC_WORKER, spawns_until_done, arg), 0);
    return 0;
}

static int sets_done(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_sleep(KC_US(200)), 0);
    kc_store_relaxed(&done, 1);
    return 0;
}

TEST(a_task_that_keeps_yielding_or_spawning_does_not_starve_the_others)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);

    for (int i = 0; i < 5; i++) {
        CHECK_EQ(kc_sched_submit(s, KC_MAIN, yields_until_done, NULL), 0);
        CHECK_EQ(kc_sched_submit(s, KC_WORKER, spawns_until_done, NULL), 0);
    }
    CHECK_EQ(kc_sched_submit(s, KC_WORKER, sets_done, NULL), 0);
    run(s);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static int sets_done_at_once(void *arg)
{
    (void)arg;
    kc_store_relaxed(&done, 1);
    return 0;
}

/* Beside another that keeps yielding: so there is always one that is ready. */
static int submits_and_yields(void *arg)
{
    int yields = 0;

    while (kc_load_relaxed(&yielders) == 0)
        CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(kc_sched_submit(kc_sched_current(), *(kc_affinity_t *)arg, sets_done_at_once, NULL),
             0);
    for (; !kc_load_relaxed(&done); yields++)
        CHECK_EQ(kc_yield(), 0);
    CHECK_LE(yields, 8);
    return 0;
}

TEST(a_task_starts_after_a_few_switches_though_others_are_ready_all_the_time)
{
    kc_affinity_t where[] = { KC_MAIN, KC_WORKER };

    for (int i = 0; i < 2; i++) {
        kc_sched_t *s = make(KC_NO_WORKERS, 0);
        kc_store_relaxed(&done, 0);
        kc_store_relaxed(&yielders, 0);
        CHECK_EQ(kc_sched_submit(s, KC_MAIN, submits_and_yields, &where[i]), 0);
        CHECK_EQ(kc_sched_submit(s, KC_MAIN, yields_until_done, NULL), 0);
        run(s);
        CHECK_EQ(kc_sched_destroy(s), 0);
    }
}

/* ---- S8: stop; S9: foreign threads ---------------------------------------------------------- */

static int stops(void *arg)
{
    (void)arg;
    kc_sched_stop(kc_sched_current());
    for (int i = 0; i < 10; i++)
        kc_yield();
    return count_one(NULL);
}

static kcoro_t *parked;

static int parks_until_done(void *arg)
{
    parked = kcoro_retain(kcoro_current());
    while (!kc_load_relaxed(&done))
        kcoro_park();
    kcoro_release(parked);
    return count_one(arg);
}

TEST(stop_ends_the_run_and_a_later_run_continues)
{
    kc_sched_t *s = make(1, 0);

    kc_sched_stop(s);
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, parks_until_done, NULL), 0);
    run(s); /* the next run ends at once */
    CHECK_EQ(kc_load_relaxed(&counter), 0);
    kc_store_relaxed(&done, 1);
    if (parked)
        CHECK_EQ(kcoro_unpark(parked), 0);
    run(s);
    CHECK_EQ(kc_load_relaxed(&counter), 1);
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, stops, NULL), 0);
    run(s);
    run(s);
    CHECK_EQ(kc_load_relaxed(&counter), 2);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

enum { FOREIGN = 4, EACH = 5000 };

static void *thread_submits(void *arg)
{
    kc_sched_t *s = arg;

    for (int i = 0; i < EACH; i++)
        CHECK_EQ(kc_sched_submit(s, i % 3 - 1 > 0 ? KC_WORKER_AT(0) : i % 3 - 1, count_one, NULL),
                 0);
    return NULL;
}

static int waits_for_all(void *arg)
{
    (void)arg;
    while (kc_load_relaxed(&counter) < (long)FOREIGN * EACH)
        CHECK_EQ(kc_sleep(KC_US(50)), 0);
    return 0;
}

TEST(foreign_threads_submit_and_nothing_is_lost_or_doubled)
{
    for (int c = 1; c < COUNTS; c++) {
        kc_sched_t *s = make(counts[c], KC_SCHED_MAIN_WORKS);
        pthread_t thread[FOREIGN];
        kc_store_relaxed(&counter, 0);
        CHECK_EQ(kc_sched_submit(s, KC_MAIN, waits_for_all, NULL), 0);
        for (int i = 0; i < FOREIGN; i++)
            CHECK_EQ(pthread_create(&thread[i], NULL, thread_submits, s), 0);
        run(s);
        for (int i = 0; i < FOREIGN; i++)
            pthread_join(thread[i], NULL);
        CHECK_EQ(kc_load_relaxed(&counter), (long)FOREIGN * EACH);
        CHECK_EQ(kc_sched_destroy(s), 0);
    }
}

static void *thread_runs(void *arg)
{
    CHECK_EQ(kc_sched_run(arg), -EPERM);
    CHECK_EQ(kc_sched_destroy(arg), -EPERM);
    return NULL;
}

static int destroys_own(void *arg)
{
    CHECK_EQ(kc_sched_destroy(arg), -EDEADLK);
    CHECK_EQ(kc_sched_run(arg), -EPERM);
    return count_one(NULL);
}

TEST(run_and_destroy_elsewhere_are_errors)
{
    kc_sched_t *s = make(1, 0);
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, thread_runs, s), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, destroys_own, s), 0);
    CHECK_EQ(kc_sched_submit(s, KC_WORKER, destroys_own, s), 0);
    run(s);
    CHECK_EQ(kc_load_relaxed(&counter), 2);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static kc_sched_t *pumped;

static void pumps_again(void *arg UNUSED)
{
    CHECK_EQ(kc_sched_run(pumped), -EPERM);
    CHECK_EQ(kc_sched_poll(pumped, kc_now()), -EPERM);
    CHECK_EQ(kc_sched_run_expired(pumped, kc_now()), -EPERM);
    CHECK_EQ(kc_sched_destroy(pumped), -EDEADLK);
    CHECK_GE(kc_sched_fd(pumped), 0);
    CHECK_EQ(count_one(NULL), 0);
}

static void handler_pumps_again(kc_sigset_t fired UNUSED, kc_signal_t *signal UNUSED, void *arg)
{
    pumps_again(arg);
}

/* On the thread's own stack, too: there a timeout rings when nothing is ready. */
TEST(a_handler_inside_a_pump_may_not_pump)
{
    kc_launch_opts_t opts = { .timeout = KC_SEC(1) };
    kc_job_t *group;
    kc_slot_t slot;

    opts.sched = pumped = make(KC_NO_WORKERS, KC_SCHED_VIRTUAL_TIME);
    CHECK_EQ(kc_group_create(&opts, &group), 0);
    CHECK_EQ(kc_slot_bind(&slot, kc_job_signal(group), KC_SIG_TERMINATE), 0);
    CHECK(kc_slot_on(&slot, KC_SIG_TERMINATE, handler_pumps_again, NULL));
    run(pumped);
    CHECK_EQ(kc_load_relaxed(&counter), 1);
    kc_slot_unbind(&slot);
    kc_job_release(group);
    end(pumped);
}

TEST(a_pump_inside_a_pump_is_an_error)
{
    kc_launch_opts_t opts = { .affinity = KC_MAIN, .dispose = pumps_again };
    kc_job_t *j;

    opts.sched = pumped = make(KC_NO_WORKERS, 0);
    CHECK_EQ(kc_launch_job(count_one, NULL, &opts, &j), 0);
    CHECK_EQ(kc_sched_submit(pumped, KC_MAIN, count_one, NULL), 0);
    kc_job_drop(j);
    run(pumped);
    CHECK_EQ(kc_load_relaxed(&counter), 2);
    CHECK_EQ(kc_sched_poll(pumped, kc_now()), KC_FOREVER);
    end(pumped);
}

/* ---- S5, S12 ------------------------------------------------------------------------------- */

static long root_visits;

static int notes_root_visits(void *arg)
{
    kcoro_t *root = kc__thread()->main_co;

    (void)arg;
    for (int i = 0; i < 1000; i++) {
        /* CALLING: it has not run since it switched to the first coroutine. */
        root_visits += kc_load_relaxed(&root->state) != KC_CORO_CALLING;
        kc_yield();
    }
    return 0;
}

TEST(what_suspends_switches_straight_to_the_next_and_the_threads_stack_is_not_visited)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);

    for (int i = 0; i < 3; i++)
        CHECK_EQ(kc_sched_submit(s, KC_MAIN, notes_root_visits, NULL), 0);
    run(s);
    CHECK_EQ(root_visits, 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST(a_task_that_has_not_started_owns_no_stack)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);
    size_t before = kc__stack_stats().made;

    for (int i = 0; i < 10000; i++)
        CHECK_EQ(kc_sched_submit(s, KC_MAIN, count_one, NULL), 0);
    CHECK_EQ(kc__stack_stats().made, before);
    CHECK_LE(sizeof(kc_task_t), 200);
    run(s);
    CHECK_EQ(kc_load_relaxed(&counter), 10000);
    CHECK_LE(kc__stack_stats().made, before + 64); /* one after the other, on warm stacks */
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* Stealing: one worker is given everything, the others take from it. It has more for each of them
 * than they can take at once, and none ends before both have one. */
static KC_ATOMIC(uint64_t) workers_seen;

static int busy(void *arg)
{
    (void)arg;
    uint64_t bit = (uint64_t)1 << kc_worker_index(), seen = kc_load_relaxed(&workers_seen);

    while (!(seen & bit) && !kc_cas_relaxed(&workers_seen, &seen, seen | bit))
        ;
    while (kc_load_relaxed(&workers_seen) != 3)
        sched_yield();
    return 0;
}

static int fills_own_deque(void *arg)
{
    for (int i = 0; i < 200; i++)
        CHECK_EQ(kc_sched_submit(kc_sched_current(), KC_WORKER, busy, arg), 0);
    return 0;
}

TEST(idle_workers_steal_what_has_not_started)
{
    kc_sched_t *s = make(2, 0);

    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(0), fills_own_deque, NULL), 0);
    run(s);
    CHECK_EQ(kc_load_relaxed(&workers_seen), 3);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- S2: idle ------------------------------------------------------------------------------- */

static long long cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

/*
 * Sleeps again until it has once used next to nothing: the workers fall asleep when they get to it,
 * and what the machine takes away while one of ours is on it counts as ours. Whoever polls or spins
 * uses much each time, and runs into the limit. That is why this one test takes 100 ms: less than 1
 * ms is noise, and workers that get up now and then use more than that only in a long sleep.
 */
static int naps(void *arg)
{
    long long little = kc_test_under_tsan() || kc_test_under_emulation() ? 20000000 : 1000000;
    long long used;

    (void)arg;
    do {
        long long before = cpu_ns();
        CHECK_EQ(kc_sleep(KC_MS(100)), 0);
        used = cpu_ns() - before;
    } while (used >= little);
    return 0;
}

TEST(an_idle_scheduler_uses_no_cpu)
{
    kc_sched_opts_t opts = { .workers = 4 };

    CHECK_EQ(kc_run(naps, NULL, &opts), 0);
}
