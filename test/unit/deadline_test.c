/* SPDX-License-Identifier: MIT */
/*
 * deadline_test.c - a deadline is kept by the thread that it is for (S15), whatever others compute.
 *
 * Those who compute do not look at a clock: they go on until what should happen meanwhile has
 * happened. So nothing here depends on how fast the machine is; where a deadline is not kept, a
 * test hangs.
 */
#include "job_kit.h"

static count_t over, busy;

/* Computes until it is over; its thread does nothing else. */
static int computes(void *arg UNUSED)
{
    add(&busy);
    while (!get(&over))
        ;
    return 0;
}

/* The same until j has ended, started or not, with this result. */
static void compute_until_ended(kc_job_t *j, int result)
{
    int rc;

    while (kc_job_result(j, &rc) == -EAGAIN)
        ;
    CHECK_EQ(rc, result);
    kc_job_release(j);
}

static int sleeps(void *arg)
{
    if (arg)
        add(arg);
    return kc_sleep(KC_FOREVER);
}

static kc_sched_t *two_workers(void)
{
    kc_sched_t *s = NULL;

    set(&over, 0);
    set(&busy, 0);
    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = 2 }, &s), 0);
    return s;
}

static void run_on(kc_sched_t *s, int worker, kc_fn_t fn, int ends)
{
    kc_job_t *j =
        launch(fn, NULL, &(kc_launch_opts_t){ .sched = s, .affinity = KC_WORKER_AT(worker) });

    CHECK_EQ(kc_job_join(j), ends);
    kc_job_release(j);
}

/* ---- timeouts ------------------------------------------------------------------------------- */

static int launches_and_computes(void *arg UNUSED)
{
    kc_launch_opts_t o = { .affinity = KC_WORKER_AT(1), .timeout = KC_MS(1) };

    compute_until_ended(launch(sleeps, NULL, &o), -ETIMEDOUT);
    return 0;
}

TEST(a_timeout_is_kept_though_its_launcher_computes)
{
    kc_sched_t *s = two_workers();

    run_on(s, 0, launches_and_computes, 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* The other worker has nothing to do, and takes it. */
static int launches_for_anybody_and_computes(void *arg UNUSED)
{
    kc_launch_opts_t o = { .timeout = KC_MS(1) };

    compute_until_ended(launch(sleeps, NULL, &o), -ETIMEDOUT);
    return 0;
}

TEST(a_timeout_of_a_job_that_another_worker_takes_is_kept_there)
{
    kc_sched_t *s = two_workers();

    run_on(s, 0, launches_for_anybody_and_computes, 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST(a_timeout_of_a_job_from_outside_is_kept_though_another_worker_computes)
{
    kc_sched_t *s = two_workers();
    kc_job_t *hog =
        launch(computes, NULL, &(kc_launch_opts_t){ .sched = s, .affinity = KC_WORKER_AT(0) });
    kc_launch_opts_t o = { .sched = s, .affinity = KC_WORKER_AT(1), .timeout = KC_MS(1) };

    UNTIL(get(&busy) == 1);
    kc_job_t *j = launch(sleeps, NULL, &o);
    CHECK_EQ(kc_job_join(j), -ETIMEDOUT);
    set(&over, 1);
    CHECK_EQ(kc_job_join(hog), 0);
    kc_job_release(j);
    kc_job_release(hog);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static int launches_a_group_and_computes(void *arg UNUSED)
{
    kc_job_t *g = group(&(kc_launch_opts_t){ .timeout = KC_MS(1) });
    kc_launch_opts_t o = { .parent = g, .affinity = KC_WORKER_AT(1 - kc_worker_index()) };

    int rc = kc_launch_job(sleeps, NULL, &o, NULL);
    CHECK(rc == 0 || rc == -ECANCELED || rc == -ESHUTDOWN); /* it may be over already */
    compute_until_ended(g, -ETIMEDOUT);
    return 0;
}

TEST(a_timeout_of_a_group_is_kept_though_its_launcher_computes)
{
    kc_sched_t *s = two_workers();

    for (int i = 0; i < 2; i++)
        run_on(s, i, launches_a_group_and_computes, 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* Main launches for a worker, and does something else than pump. */
static kc_job_t *left;

static int leaves_one_with_a_timeout(void *arg UNUSED)
{
    left =
        launch(sleeps, NULL,
               &(kc_launch_opts_t){
                   .flags = KC_JOB_DETACHED, .affinity = KC_WORKER_AT(0), .timeout = KC_MS(1) });
    return 0;
}

TEST(a_timeout_is_kept_though_main_which_has_launched_it_does_not_pump)
{
    kc_sched_t *s = two_workers();

    CHECK_EQ(kc_sched_submit(s, KC_MAIN, leaves_one_with_a_timeout, NULL), 0);
    CHECK_EQ(kc_sched_poll(s, kc_now()), KC_FOREVER);
    UNTIL(kc_job_state(left) == KC_JOB_CANCELLED);
    kc_job_release(left);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- with a hop ----------------------------------------------------------------------------- */

/* On another thread, while its first one computes. */
static void hop_and_sleep(void)
{
    kc_launch_opts_t o = { .flags = KC_JOB_DETACHED, .affinity = KC_WORKER_AT(0) };

    if (kc_hop(KC_WORKER_AT(1)) != 0)
        return; /* the time is over already */
    kc_job_t *hog = launch(computes, NULL, &o);
    UNTIL(get(&busy) == 1);
    CHECK_EQ(sleeps(NULL), -ECANCELED);
    set(&over, 1);
    UNTIL(kc_job_state(hog) == KC_JOB_COMPLETED);
    kc_job_release(hog);
}

static int hops(void *arg UNUSED)
{
    hop_and_sleep();
    return -ECANCELED;
}

TEST(a_timeout_goes_along_with_a_hop)
{
    kc_sched_t *s = two_workers();
    kc_launch_opts_t o = { .sched = s, .affinity = KC_WORKER_AT(0), .timeout = KC_MS(5) };
    kc_job_t *j = launch(hops, NULL, &o);

    CHECK_EQ(kc_job_join(j), -ETIMEDOUT);
    kc_job_release(j);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static int hops_in_a_scope(void *arg UNUSED)
{
    kc_scope_t scope;

    CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .timeout = KC_MS(5) }), 0);
    hop_and_sleep();
    CHECK_EQ(kc_scope_end(&scope), -ETIMEDOUT);
    return 0;
}

TEST(a_timeout_of_a_scope_goes_along_with_a_hop)
{
    kc_sched_t *s = two_workers();

    run_on(s, 0, hops_in_a_scope, 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- grace ---------------------------------------------------------------------------------- */

static int sleeps_under_a_shield(void *arg)
{
    CHECK_EQ(kc_shield_begin(), 0);
    int rc = sleeps(arg);
    kc_shield_end();
    return rc;
}

static int cancels_and_computes(void *arg UNUSED)
{
    count_t in = 0;
    kc_job_t *j = launch(sleeps_under_a_shield, &in,
                         &(kc_launch_opts_t){ .affinity = KC_WORKER_AT(1), .grace = KC_MS(1) });

    UNTIL(get(&in) == 1);
    CHECK(kc_job_cancel(j, -EPIPE));
    compute_until_ended(j, -EPIPE);
    return 0;
}

TEST(a_grace_is_over_though_the_canceller_computes)
{
    kc_sched_t *s = two_workers();

    run_on(s, 0, cancels_and_computes, 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- by time, not by turns ------------------------------------------------------------------ */

enum { TURNS = 12 };

static struct {
    kc_time_t began[TURNS]; /* the turns of one that computes for 1 ms in each */
    int turns;
    kc_time_t due;
} polite;

static int computes_and_yields(void *arg UNUSED)
{
    while (polite.turns < TURNS && !get(&over)) {
        kc_time_t end = (polite.began[polite.turns++] = kc_now()) + KC_MS(1);
        while (kc_now() < end)
            ;
        CHECK_EQ(kc_yield(), 0);
    }
    return 0;
}

/* Turns that began when it was due already: one that began in the moment when it became due, and
 * one that was ready before it when that turn had ended. No other. */
static void wakes(void)
{
    int late = 0;

    for (int i = 0; i < polite.turns; i++)
        late += polite.began[i] >= polite.due;
    set(&over, 1);
    CHECK_LE(late, 2);
    CHECK_LT(polite.turns, TURNS);
}

static int naps(void *timeout)
{
    for (int i = 0; i < 1000; i++) /* quick turns before do not hide that they are long now */
        CHECK_EQ(kc_yield(), 0);
    kc_job_t *j = launch(computes_and_yields, NULL, &(kc_launch_opts_t){ .affinity = KC_MAIN });
    polite.turns = 0;
    set(&over, 0);
    polite.due = kc_now() + KC_MS(3);
    if (!timeout)
        CHECK_EQ(kc_sleep_until(polite.due), 0);
    else
        CHECK_EQ(kc_with_deadline(polite.due, sleeps, NULL), -ETIMEDOUT);
    wakes();
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    return 0;
}

TEST(a_sleep_is_late_by_one_turn_at_most_however_long_turns_are)
{
    CHECK_EQ(kc_run(naps, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }), 0);
}

TEST(a_timeout_is_late_by_one_turn_at_most_however_long_turns_are)
{
    CHECK_EQ(kc_run(naps, CODE(1), &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }), 0);
}

static kc_time_t moment;
static int
    first; /* 1: of two the one that is due at the moment, 2: the one that is due after it */

static int sleeps_a_little_longer(void *arg UNUSED)
{
    CHECK_EQ(kc_sleep_until(moment + 1), 0);
    first = first ? first : 2;
    return 0;
}

static int has_a_deadline_and_another_sleeps_longer(void *arg UNUSED)
{
    moment = kc_now() + KC_MS(2);
    kc_job_t *j = launch(sleeps_a_little_longer, NULL, &(kc_launch_opts_t){ .affinity = KC_MAIN });
    first = 0;
    CHECK_EQ(kc_with_deadline(moment, sleeps, NULL), -ETIMEDOUT);
    first = first ? first : 1;
    CHECK_EQ(kc_job_join(j), 0);
    CHECK_EQ(first, 1);
    kc_job_release(j);
    return 0;
}

TEST(a_deadline_of_a_call_is_that_very_moment)
{
    CHECK_EQ(kc_run(has_a_deadline_and_another_sleeps_longer, NULL,
                    &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
             0);
}
