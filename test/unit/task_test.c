/* SPDX-License-Identifier: MIT */
/*
 * task_test.c - who owns the argument of a submitted or timed task (T8).
 */
#include "task_kit.h"

#include "base/os.h"

static kc_token_t *delayed(kc_sched_t *s, kc_time_t delay, kc_affinity_t where, kc_fn_t fn,
                           void *arg)
{
    kc_token_t *token = NULL;

    CHECK_EQ(kc_schedule_delayed_with(s, delay, where, fn, arg, &owns, &token), 0);
    CHECK(token != NULL);
    return token;
}

static kc_token_t *interval(kc_sched_t *s, kc_time_t every, kc_affinity_t where, kc_fn_t fn,
                            void *arg)
{
    kc_token_t *token = NULL;

    CHECK_EQ(kc_schedule_interval_with(s, every, where, fn, arg, &owns, &token), 0);
    CHECK(token != NULL);
    return token;
}

/* ---- submitted ----------------------------------------------------------------------------- */

OUTSIDE(a_submitted_task_that_runs_is_not_disposed_of, s)
{
    afresh();
    CHECK_EQ(kc_sched_submit_with(s, KC_WORKER, runs, &thing, &owns), 0);
    CHECK_EQ(kc_sched_submit_with(s, KC_MAIN, runs, &other, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    was(&thing, 1, 0);
    was(&other, 1, 0);
}

TEST(a_submitted_task_that_never_starts_is_disposed_of_before_destroy_returns)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_t *s = sched(i);
        afresh();
        CHECK_EQ(kc_sched_submit_with(s, KC_MAIN, runs, &thing, &owns), 0);
        destroy(s);
        was(&thing, 0, 1);
    }
}

OUTSIDE(the_jobs_of_tasks_have_their_names, s)
{
    kc_task_opts_t opts = { .name = "a name of which 31 bytes are kept, and no more" };
    char *name = "a name of which 31 bytes are ke";
    kc_token_t *token = NULL;

    afresh();
    CHECK_EQ(kc_sched_submit_with(s, KC_MAIN, tells_its_name, name, &opts), 0);
    CHECK_EQ(kc_sched_submit_with(s, KC_MAIN, tells_its_name, "", NULL), 0);
    CHECK_EQ(kc_schedule_delayed_with(s, 0, KC_MAIN, tells_its_name, name, &opts, NULL), 0);
    CHECK_EQ(kc_schedule_interval_with(s, 1, KC_MAIN, tells_its_name, name, &opts, &token), 0);
    kc_time_t now = kc_now(); /* by now they are due, however long that took */
    kc_sched_run_expired(s, now);
    kc_sched_run_expired(s, now + KC_MS(1));
    CHECK_EQ(get(&thing.ran), 5);
    kc_token_release(token);
}

/* ---- refused --------------------------------------------------------------------------------- */

OUTSIDE(a_task_that_is_refused_is_still_the_callers, s)
{
    kc_token_t *token = NULL;
    kc_affinity_t nowhere = KC_WORKER_AT(99);

    afresh();
    CHECK_EQ(kc_sched_submit_with(s, nowhere, runs, &thing, &owns), -EINVAL);
    CHECK_EQ(kc_sched_submit_with(s, KC_MAIN, NULL, &thing, &owns), -EINVAL);
    CHECK_EQ(kc_sched_submit_with(NULL, KC_MAIN, runs, &thing, &owns), -EINVAL);
    CHECK_EQ(kc_schedule_delayed_with(s, -1, KC_MAIN, runs, &thing, &owns, &token), -EINVAL);
    CHECK_EQ(kc_schedule_delayed_with(s, 0, nowhere, runs, &thing, &owns, &token), -EINVAL);
    CHECK_EQ(kc_schedule_delayed_with(NULL, 0, KC_MAIN, runs, &thing, &owns, &token), -EINVAL);
    CHECK_EQ(kc_schedule_interval_with(s, 0, KC_MAIN, runs, &thing, &owns, &token), -EINVAL);
    CHECK_EQ(kc_schedule_interval_with(s, 1, KC_MAIN, NULL, &thing, &owns, &token), -EINVAL);
    CHECK_PTR(token, NULL);
    was(&thing, 0, 0);
}

static int is_refused_at_the_end(void *arg)
{
    kc_sched_t *s = arg;
    kc_launch_opts_t opts = { .dispose = disposes };
    kc_call_t calls[] = { { .fn = runs, .arg = &thing, .opts = &opts },
                          { .fn = runs, .arg = &other, .opts = &opts } };

    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_sched_submit_with(s, KC_MAIN, runs, &thing, &owns), -ESHUTDOWN);
    CHECK_EQ(kc_sched_submit_many(s, KC_MAIN, calls, 2), -ESHUTDOWN);
    CHECK_EQ(kc_schedule_delayed_with(s, 0, KC_MAIN, runs, &thing, &owns, NULL), -ESHUTDOWN);
    CHECK_EQ(kc_schedule_interval_with(s, 1, KC_MAIN, runs, &thing, &owns, NULL), -ESHUTDOWN);
    was(&thing, 0, 0);
    was(&other, 0, 0);
    return 0;
}

static int stops(void *arg)
{
    kc_sched_stop(arg);
    return 0;
}

TEST(tasks_that_come_while_the_scheduler_ends_are_refused)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_t *s = sched(i);
        afresh();
        CHECK_EQ(kc_sched_submit(s, KC_MAIN, is_refused_at_the_end, s), 0);
        CHECK_EQ(kc_sched_submit(s, KC_MAIN, stops, s), 0);
        CHECK_EQ(kc_sched_run(s), 0);
        destroy(s);
        was(&thing, 0, 0);
    }
}

/* ---- delayed --------------------------------------------------------------------------------- */

OUTSIDE(the_argument_of_a_delayed_task_is_disposed_of_inside_the_call_that_cancels, s)
{
    afresh();
    kc_token_t *token = delayed(s, KC_SEC(100), KC_MAIN, runs, &thing);
    was(&thing, 0, 0);
    CHECK(kc_token_cancel(token));
    was(&thing, 0, 1);
    CHECK(!kc_token_cancel(token));
    kc_token_release(token);
    kc_token_release(delayed(s, KC_SEC(100), KC_WORKER, runs, &other));
    was(&thing, 0, 1);
    was(&other, 0, 1);
}

OUTSIDE(a_delayed_task_that_has_run_is_not_disposed_of, s)
{
    afresh();
    kc_token_t *token = delayed(s, KC_MS(1), KC_WORKER, runs, &thing);
    kc_time_t due = kc_now() + KC_MS(1);
    while (get(&thing.ran) == 0)
        kc_sched_run_expired(s, due);
    CHECK(!kc_token_cancel(token));
    kc_token_release(token);
    was(&thing, 1, 0);
}

TEST(what_is_pending_is_disposed_of_before_destroy_returns)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_t *s = sched(i);
        struct thing detached = { 0 };
        afresh();
        kc_token_t *a = delayed(s, KC_SEC(100), KC_MAIN, runs, &thing);
        kc_token_t *b = interval(s, KC_SEC(100), KC_WORKER, runs, &other);
        kc_token_detach(delayed(s, KC_SEC(100), KC_WORKER, runs, &detached));
        destroy(s);
        was(&thing, 0, 1);
        was(&other, 0, 1);
        was(&detached, 0, 1);
        CHECK(!kc_token_cancel(a));
        kc_token_release(a);
        kc_token_detach(b);
        was(&thing, 0, 1);
        was(&other, 0, 1);
    }
}

static kc_token_t *victim;
static struct thing *of_victim;

static int cancels_the_victim(void *arg UNUSED)
{
    bool cancelled = kc_token_cancel(victim);

    CHECK_EQ(get(&of_victim->disposed), cancelled);
    return 0;
}

TEST(a_delayed_task_that_is_queued_and_cancelled_is_disposed_of)
{
    for (int i = 0; i < 2; i++) {
        kc_sched_t *s = sched(0);
        afresh();
        of_victim = &thing;
        CHECK_EQ(kc_schedule_delayed(s, 0, KC_MAIN, cancels_the_victim, NULL, NULL), 0);
        victim = i == 0 ? delayed(s, 0, KC_MAIN, runs, &thing)
                        : interval(s, KC_SEC(1), KC_MAIN, runs, &thing);
        kc_sched_run_expired(s, kc_now());
        was(&thing, 0, 1);
        kc_token_release(victim);
        destroy(s);
        was(&thing, 0, 1);
    }
}

static count_t gate, inside;

static int computes_until_the_end(void *arg UNUSED)
{
    add(&inside);
    while (!kc_cancelled())
        ;
    return 0;
}

TEST(a_timed_task_that_is_queued_when_its_scheduler_ends_is_disposed_of)
{
    for (int i = 0; i < 2; i++) {
        kc_sched_t *s = sched(2);
        afresh();
        set(&inside, 0);
        CHECK_EQ(kc_sched_submit(s, KC_WORKER, computes_until_the_end, NULL), 0);
        UNTIL(get(&inside));
        kc_token_t *token = i == 0 ? delayed(s, 0, KC_WORKER, runs, &thing)
                                   : interval(s, KC_SEC(1), KC_WORKER, runs, &thing);
        kc_sched_poll(s, kc_now());
        was(&thing, 0, 0);
        destroy(s);
        was(&thing, 0, 1);
        kc_token_release(token);
        was(&thing, 0, 1);
    }
}

/* ---- interval -------------------------------------------------------------------------------- */

OUTSIDE(the_argument_of_an_interval_task_is_disposed_of_inside_the_call_that_cancels, s)
{
    kc_time_t now = kc_now();

    afresh();
    kc_token_t *token = interval(s, KC_SEC(1), KC_WORKER, runs, &thing);
    while (get(&thing.ran) < 2)
        kc_sched_run_expired(s, now += KC_SEC(1));
    was(&thing, get(&thing.ran), 0);
    CHECK(kc_token_cancel(token));
    CHECK_EQ(get(&thing.disposed), 1);
    kc_token_release(token);
    CHECK_EQ(get(&thing.disposed), 1);
}

/* Of an interval: its last run, and a child that goes on when that has returned. */
static int child_of_the_run(void *arg)
{
    while (!get(&gate))
        kc_yield();
    was(arg, 1, 0);
    return 0;
}

static int has_a_child(void *arg)
{
    runs(arg);
    CHECK_EQ(kc_launch(child_of_the_run, arg), 0);
    add(&inside);
    return 0;
}

static int opens_the_gate(void *arg UNUSED)
{
    set(&gate, 1);
    return 0;
}

OUTSIDE(a_run_in_flight_has_ended_with_its_children_before_the_argument_is_disposed_of, s)
{
    afresh();
    set(&gate, 0);
    set(&inside, 0);
    kc_token_t *token = interval(s, KC_SEC(1), KC_WORKER, has_a_child, &thing);
    for (kc_time_t now = kc_now(); !get(&inside);)
        kc_sched_poll(s, now);
    CHECK(kc_token_cancel(token));
    was(&thing, 1, 0);
    kc_token_release(token);
    was(&thing, 1, 0);
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, opens_the_gate, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0); /* until all has ended */
    was(&thing, 1, 1);
}

static void disposes_as_nobody(void *arg)
{
    CHECK_PTR(kc_job_current(), NULL);
    CHECK_PTR(kcoro_current(), NULL);
    disposes(arg);
}

static int cancels_itself(void *arg)
{
    runs(arg);
    CHECK(kc_token_cancel(victim));
    was(arg, 1, 0);
    return 0;
}

OUTSIDE(a_run_that_cancels_its_task_ends_before_the_argument_is_disposed_of_by_nobodys_body, s)
{
    kc_task_opts_t opts = { .dispose = disposes_as_nobody };

    afresh();
    CHECK_EQ(
        kc_schedule_interval_with(s, KC_SEC(1), KC_MAIN, cancels_itself, &thing, &opts, &victim),
        0);
    kc_sched_run_expired(s, kc_now());
    was(&thing, 1, 1);
    kc_token_release(victim);
}

static int waits_for_the_end(void *arg)
{
    runs(arg);
    add(&inside);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    was(arg, 1, 0);
    return 0;
}

TEST(an_interval_whose_run_is_in_flight_when_its_scheduler_ends_is_disposed_of_after_it)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_t *s = sched(i);
        afresh();
        set(&inside, 0);
        kc_token_detach(interval(s, KC_SEC(1), KC_WORKER, waits_for_the_end, &thing));
        for (kc_time_t now = kc_now(); !get(&inside);)
            kc_sched_poll(s, now);
        destroy(s);
        was(&thing, 1, 1);
    }
}

static kc_deferred_t *promise;

/* Ends when the promise, its child, is kept: by another job, whose body goes on then. */
static int has_a_promise(void *arg)
{
    runs(arg);
    CHECK_EQ(kc_promise(NULL, &promise), 0);
    CHECK(kc_token_cancel(victim));
    return 0;
}

static int keeps_the_promise(void *arg)
{
    kcoro_t *me = kcoro_current();

    was(arg, 1, 0);
    CHECK_EQ(kc_promise_complete(promise, 0, NULL), 0);
    was(arg, 1, 1);
    CHECK_PTR(kcoro_current(), me);
    kc_deferred_release(promise);
    return 0;
}

TEST(the_job_that_ends_the_last_run_of_an_interval_does_not_dispose_in_its_own_name)
{
    kc_task_opts_t opts = { .dispose = disposes_as_nobody };
    kc_sched_t *s = sched(0);

    afresh();
    CHECK_EQ(
        kc_schedule_interval_with(s, KC_SEC(1), KC_MAIN, has_a_promise, &thing, &opts, &victim),
        0);
    kc_sched_poll(s, kc_now());
    was(&thing, 1, 0);
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, keeps_the_promise, &thing), 0);
    kc_sched_run_expired(s, kc_now());
    was(&thing, 1, 1);
    kc_token_release(victim);
    destroy(s);
}

/* ---- what a dispose may do ------------------------------------------------------------------- */

static kc_lease_t lease;

static void gives_the_lease_up(void *arg)
{
    disposes(arg);
    kc_lease_release(&lease);
}

static int takes_a_lease(void *arg UNUSED)
{
    CHECK_EQ(kc_lease_take(kc_job_current(), &lease), 0);
    return 0;
}

TEST(a_scheduler_ends_though_a_pending_task_owns_what_holds_a_job_open)
{
    kc_task_opts_t opts = { .dispose = gives_the_lease_up };

    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_t *s = sched(i);
        afresh();
        CHECK_EQ(kc_sched_submit(s, KC_MAIN, takes_a_lease, NULL), 0);
        kc_sched_poll(s, kc_now());
        CHECK_EQ(kc_schedule_delayed_with(s, KC_SEC(100), KC_MAIN, runs, &thing, &opts, NULL), 0);
        destroy(s);
        was(&thing, 0, 1);
    }
}

static void cancels_another(void *arg)
{
    disposes(arg);
    kc_token_release(victim);
    victim = NULL;
}

TEST(a_dispose_may_cancel_other_tasks)
{
    kc_task_opts_t opts = { .dispose = cancels_another };

    for (int i = 0; i < 2; i++) {
        kc_sched_t *s = sched(0);
        kc_token_t *token = NULL;
        afresh();
        CHECK_EQ(kc_schedule_delayed_with(s, KC_SEC(1), KC_MAIN, runs, &thing, &opts, &token), 0);
        victim = delayed(s, KC_SEC(100), KC_MAIN, runs, &other);
        if (i == 0)
            kc_token_release(token);
        else
            kc_token_detach(token);
        destroy(s);
        was(&thing, 0, 1);
        was(&other, 0, 1);
    }
}

static void waits_in_dispose(void *arg UNUSED)
{
    (void)!kc_sleep(KC_MS(1));
}

static int drops_it(void *arg)
{
    kc_task_opts_t opts = { .dispose = waits_in_dispose };
    kc_token_t *token = NULL;

    CHECK_EQ(kc_schedule_delayed_with(kc_sched_current(), KC_SEC(100), KC_MAIN, runs, arg, &opts,
                                      &token),
             0);
    kc_token_release(token);
    return 0;
}

TEST_ABORTS(a_dispose_of_a_task_that_waits_aborts, "waits inside a handler or dispose")
{
    (void)!kc_run(drops_it, &thing, NULL);
}

/* ---- no memory ------------------------------------------------------------------------------- */

static int fail_at, allocations;

static bool fails_now(const char *what UNUSED)
{
    return ++allocations == fail_at;
}

static int schedules(kc_sched_t *s, int which)
{
    kc_launch_opts_t opts = { .dispose = disposes, .name = "owner", .timeout = KC_SEC(1) };
    kc_call_t calls[] = { { .fn = runs, .arg = &thing, .opts = &opts },
                          { .fn = runs, .arg = &other, .opts = &opts } };

    switch (which) {
    case 0:
        return kc_sched_submit_with(s, KC_MAIN, runs, &thing, &owns);
    case 1:
        return kc_schedule_delayed_with(s, KC_SEC(1), KC_MAIN, runs, &thing, &owns, NULL);
    case 2:
        return kc_schedule_interval_with(s, KC_SEC(1), KC_MAIN, runs, &thing, &owns, NULL);
    default:
        return kc_sched_submit_many(s, KC_MAIN, calls, 2);
    }
}

TEST(without_memory_a_task_is_refused_and_its_argument_is_still_the_callers)
{
    for (int which = 0; which < 4; which++) {
        int failed = 0;
        bool hit = true;
        for (fail_at = 1; hit; fail_at++) {
            kc_sched_t *s = sched(0);
            afresh();
            allocations = 0;
            kc__os_fault = fails_now;
            int rc = schedules(s, which);
            kc__os_fault = NULL;
            hit = allocations >= fail_at;
            CHECK(rc == 0 || (hit && rc == -ENOMEM));
            failed += rc != 0;
            destroy(s);
            was(&thing, 0, rc == 0);
            was(&other, 0, rc == 0 && which == 3);
            CHECK_LT(fail_at, 50);
        }
        CHECK_GT(failed, 0);
    }
}

/* ---- races ----------------------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 64 };

static struct thing things[THREADS][EACH];
static count_t made;

struct maker {
    kc_sched_t *s;
    uint64_t random;
    struct thing *thing;
    pthread_t thread;
};

static int runs_and_maybe_yields(void *arg)
{
    runs(arg);
    if ((uintptr_t)arg / sizeof(struct thing) % 3 == 0)
        kc_yield();
    return 0;
}

static kc_token_t *schedule_any(kc_sched_t *s, uint64_t *random, struct thing *t)
{
    kc_affinity_t where = kc_test_random(random) % 2 ? KC_MAIN : KC_WORKER;
    kc_time_t delay = (kc_time_t)(kc_test_random(random) % 20000);
    kc_token_t *token = NULL;

    switch (kc_test_random(random) % 4) {
    case 0:
        CHECK_EQ(kc_sched_submit_with(s, where, runs_and_maybe_yields, t, &owns), 0);
        return NULL;
    case 1:
        return interval(s, delay + 1000, where, runs_and_maybe_yields, t);
    default:
        token = delayed(s, delay, where, runs_and_maybe_yields, t);
    }
    return token;
}

/* Makes tasks of all kinds. Some are dropped at once, the others when the scheduler may be ending
 * or gone. */
static void *makes_and_drops(void *arg)
{
    struct maker *m = arg;
    kc_token_t *kept[EACH];
    int n = 0;

    for (int i = 0; i < EACH; i++) {
        kc_token_t *token = schedule_any(m->s, &m->random, &m->thing[i]);
        uint64_t what = kc_test_random(&m->random) % 4;
        if (what == 0)
            kc_token_detach(token);
        else if (what == 1)
            kc_token_release(token);
        else
            kept[n++] = token;
    }
    add(&made);
    for (int i = 0; i < n; i++) {
        if (kept[i] && kc_test_random(&m->random) % 2)
            kc_token_cancel(kept[i]);
        kc_token_release(kept[i]);
    }
    return NULL;
}

static void check_things(void)
{
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < EACH; k++) {
            int ran = get(&things[i][k].ran), disposed = get(&things[i][k].disposed);
            CHECK(disposed == 1 || (disposed == 0 && ran == 1));
        }
}

TEST_SLOW(cancels_starts_and_the_end_of_the_scheduler_race_and_each_argument_is_used_up_once,
          60000)
{
    static const int workers[] = { KC_NO_WORKERS, 1, 3 };

    for (long round = kc_test_rounds(12); round > 0 && kc_test_has_time(); round--) {
        struct maker maker[THREADS];
        kc_sched_opts_t opts = { .workers = workers[round % 3] };
        kc_sched_t *s = NULL;
        memset(things, 0, sizeof things);
        set(&made, 0);
        CHECK_EQ(kc_sched_create(&opts, &s), 0);
        for (int i = 0; i < THREADS; i++) {
            maker[i] = (struct maker){ s, kc_test_seed() + (uint64_t)(round * THREADS + i),
                                       things[i], 0 };
            CHECK_EQ(pthread_create(&maker[i].thread, NULL, makes_and_drops, &maker[i]), 0);
        }
        while (get(&made) < THREADS) /* then only calls on tokens follow */
            kc_sched_poll(s, kc_now());
        destroy(s);
        /* What a thread is just disposing of by a cancel was waited for. */
        check_things();
        for (int i = 0; i < THREADS; i++)
            pthread_join(maker[i].thread, NULL);
        check_things();
    }
}
