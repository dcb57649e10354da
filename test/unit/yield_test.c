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
