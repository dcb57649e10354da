/* SPDX-License-Identifier: MIT */
/*
 * yield_test.c - kc_yield lets others run, started or not (S7).
 */
#include "job_kit.h"

static int counts_its_start(void *arg)
{
    add(arg);
    return 0;
}

/* Yields until one more has started; how often. */
static int yields_until(count_t *started, int n)
{
    int yields = 0;

    for (; get(started) < n; yields++)
        CHECK_EQ(kc_yield(), 0);
    return yields;
}

static int yields_for_tasks(void *arg UNUSED)
{
    kc_affinity_t places[] = { KC_WORKER, KC_MAIN };
    count_t started = 0;
    int n = 0;

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        for (int before = 0; before < 5; before++) { /* whatever turn it is */
            kc_launch_opts_t o = { .affinity = places[i] };
            CHECK_EQ(kc_launch_job(counts_its_start, &started, &o, NULL), 0);
            CHECK_LE(yields_until(&started, ++n), 2);
            for (int k = 0; k < before; k++)
                CHECK_EQ(kc_yield(), 0);
        }
    }
    CHECK_EQ(kc_sched_submit(kc_sched_current(), KC_WORKER, counts_its_start, &started), 0);
    CHECK_LE(yields_until(&started, ++n), 2);
    return 0;
}

TEST(at_the_second_yield_a_task_starts_that_has_not_started)
{
    kc_sched_opts_t alone = { .workers = KC_NO_WORKERS };
    kc_sched_opts_t simulated = { .flags = KC_SCHED_VIRTUAL_TIME };

    CHECK_EQ(kc_run(yields_for_tasks, NULL, &alone), 0);
    CHECK_EQ(kc_run(yields_for_tasks, NULL, &simulated), 0);
}

struct yields {
    count_t started, more, over;
};

static int keeps_yielding(void *arg)
{
    struct yields *y = arg;

    add(&y->more);
    while (!get(&y->over))
        CHECK_EQ(kc_yield(), 0);
    return 0;
}

/* Beside others that yield too: among all of them, each second yield of one starts a task. */
static int yields_beside_others(void *arg UNUSED)
{
    struct yields y = { 0 };
    kc_scope_t scope;

    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(kc_launch(keeps_yielding, &y), 0);
    UNTIL(get(&y.more) == 3);
    for (int i = 0; i < 50; i++)
        CHECK_EQ(kc_launch(counts_its_start, &y.started), 0);
    CHECK_LE(yields_until(&y.started, 50), 100);
    set(&y.over, 1);
    CHECK_EQ(kc_scope_end(&scope), 0);
    return 0;
}

TEST(beside_others_that_yield_tasks_start_as_soon)
{
    CHECK_EQ(kc_run(yields_beside_others, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
             0);
}

static int yields_at_once(void *arg UNUSED)
{
    CHECK_EQ(kc_yield(), 0);
    return 0;
}

static int launches_one_that_yields(void *arg UNUSED)
{
    for (int before = 0; before < 4; before++) {
        count_t started = 0;
        kc_scope_t scope;
        CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
        CHECK_EQ(kc_launch(counts_its_start, &started), 0);
        kc_launch_opts_t now = { .flags = KC_JOB_NOW };
        CHECK_EQ(kc_launch_job(yields_at_once, NULL, &now, NULL), 0);
        CHECK_EQ(get(&started), 0); /* it has come back here first (J20) */
        CHECK_EQ(kc_scope_end(&scope), 0);
        for (int k = 0; k < before; k++)
            CHECK_EQ(kc_yield(), 0);
    }
    return 0;
}

TEST(a_child_that_runs_now_and_yields_goes_back_to_its_launcher_first)
{
    kc_sched_opts_t alone = { .workers = KC_NO_WORKERS };

    CHECK_EQ(kc_run(launches_one_that_yields, NULL, &alone), 0);
}

/* ---- in a job that is cancelled -------------------------------------------------------------- */

static int takes_turns(void *arg)
{
    struct yields *y = arg;

    while (!get(&y->over)) {
        add(&y->more);
        CHECK_EQ(kc_yield(), 0);
    }
    return 0;
}

/* Beside one other on its thread: each yield gives that one a turn. */
static int yields_when_cancelled(void *arg)
{
    struct yields *y = arg;

    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    set(&y->more, 0);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(kc_yield(), -ECANCELED);
    CHECK_GE(get(&y->more), 99);
    set(&y->started, 1);
    return -ECANCELED;
}

static int has_one_that_yields_when_cancelled(void *arg UNUSED)
{
    kc_launch_opts_t here = { .affinity = KC_MAIN };
    struct yields y = { 0 };
    kc_job_t *j = launch(yields_when_cancelled, &y, &here),
             *other = launch(takes_turns, &y, &here);

    UNTIL(get(&y.more) > 2);
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&y.started), 1);
    set(&y.over, 1);
    CHECK_EQ(kc_job_join(other), 0);
    kc_job_release(other);
    kc_job_release(j);
    return 0;
}

/* Not with a seed, which may choose the same one again. */
TEST(a_yield_in_a_cancelled_job_lets_others_run_before_it_is_ecanceled)
{
    kc_sched_opts_t simulated = { .flags = KC_SCHED_VIRTUAL_TIME }, workers = { .workers = 2 };

    CHECK_EQ(kc_run(has_one_that_yields_when_cancelled, NULL, &simulated), 0);
    CHECK_EQ(kc_run(has_one_that_yields_when_cancelled, NULL, &workers), 0);
}

/* What has not started starts as soon as at any other yield, and time passes. */
static int waits_in_its_own_way(void *arg)
{
    struct yields *y = arg;
    int yields = 0;

    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    for (; get(&y->started) == 0; yields++)
        CHECK_EQ(kc_yield(), -ECANCELED);
    CHECK_LE(yields, 2);
    while (!get(&y->over))
        CHECK_EQ(kc_yield(), -ECANCELED);
    return -ECANCELED;
}

static int is_over_soon(void *arg)
{
    int rc = kc_sleep(KC_US(50));

    set(arg, 1);
    return rc;
}

static int cancels_one_that_yields(void *arg UNUSED)
{
    static struct yields y; /* its children outlive it */
    kc_job_t *j = launch(waits_in_its_own_way, &y, NULL);

    CHECK_EQ(kc_sleep(KC_US(1)), 0);
    CHECK_EQ(kc_launch(is_over_soon, &y.over), 0);
    CHECK_EQ(kc_sleep(KC_US(1)), 0);
    CHECK_EQ(kc_launch(counts_its_start, &y.started), 0);
    kc_job_drop(j);
    return 0;
}

TEST(a_cancelled_job_may_wait_by_yields)
{
    CHECK_EQ(kc_run(cancels_one_that_yields, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
             0);
}

/* ---- on a worker ----------------------------------------------------------------------------- */

static int yields_on_a_worker(void *arg UNUSED)
{
    count_t started = 0;

    CHECK_EQ(kc_hop(KC_WORKER_AT(0)), 0);
    for (int n = 1; n < 10; n++) {
        kc_launch_opts_t o = { .affinity = n & 1 ? KC_WORKER : KC_WORKER_AT(0) };
        CHECK_EQ(kc_launch_job(counts_its_start, &started, &o, NULL), 0);
        CHECK_LE(yields_until(&started, n), 2);
    }
    return 0;
}

TEST(at_the_second_yield_on_a_worker_a_task_starts_that_has_not_started)
{
    CHECK_EQ(kc_run(yields_on_a_worker, NULL, &(kc_sched_opts_t){ .workers = 1 }), 0);
}

/* With a seed the order is the oracle's: it starts some time. */
static int yields_with_a_seed(void *arg UNUSED)
{
    count_t started = 0;

    for (int n = 1; n < 20; n++) {
        CHECK_EQ(kc_launch(counts_its_start, &started), 0);
        CHECK_LE(yields_until(&started, n), 10000);
    }
    return 0;
}

TEST(with_a_seed_a_task_starts_at_some_yield)
{
    for (uint64_t seed = 1; seed < 10; seed++)
        CHECK_EQ(kc_run(yields_with_a_seed, NULL, &(kc_sched_opts_t){ .seed = seed }), 0);
}
