/* SPDX-License-Identifier: MIT */
/*
 * order_test.c - one seed, one order (S11): neither addresses nor earlier schedulers change it.
 */
#include "base/os.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

enum { JOBS = 8, ROUNDS = 8 };

static char order[JOBS + 1];
static int ordered;

static void note(void *arg)
{
    CHECK_LT(ordered, JOBS);
    order[ordered++] = (char)('a' + (intptr_t)arg);
}

/* ---- what the process has done before -------------------------------------------------------- */

static int ends_at_once(void *arg)
{
    (void)arg;
    return 0;
}

static int launches_some(void *arg)
{
    for (intptr_t i = 0; i < (intptr_t)arg; i++)
        CHECK_EQ(kc_launch(ends_at_once, NULL), 0);
    return 0;
}

/* From now on jobs have blocks in another order. */
static void shuffle_blocks(int round)
{
    CHECK_EQ(kc_run(launches_some, (void *)(intptr_t)(round * 5 + 3),
                    &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
             0);
}

/* Runs it again and again: each time those that note themselves do so in the same order. */
static void check_one_order(void (*run)(void))
{
    char first[sizeof order];

    for (int round = 0; round < ROUNDS; round++) {
        memset(order, 0, sizeof order);
        ordered = 0;
        run();
        CHECK_EQ(ordered, JOBS);
        if (round == 0)
            memcpy(first, order, sizeof first);
        CHECK_STR(order, first);
        shuffle_blocks(round);
    }
}

/* ---- the end of a scheduler ------------------------------------------------------------------ */

static int forbids_and_waits(void *arg)
{
    kc_forbid_signal();
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    note(arg);
    return 0;
}

static int shields_and_waits(void *arg)
{
    CHECK_EQ(kc_shield_begin(), 0);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    note(arg);
    kc_shield_end();
    return 0;
}

static int leaves_some(void *arg)
{
    const kc_launch_opts_t opts = { .flags = KC_JOB_DETACHED };

    for (intptr_t i = 0; i < JOBS; i++)
        CHECK_EQ(kc_launch_job(*(kc_fn_t *)arg, (void *)i, &opts, NULL), 0);
    return kc_sleep(KC_MS(1));
}

static kc_fn_t left;

static void run_with_seed(void)
{
    const kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME, .seed = 42 };

    CHECK_EQ(kc_run(leaves_some, &left, &opts), 0);
}

TEST(jobs_that_forbid_signals_end_in_one_order_whatever_ran_before)
{
    left = forbids_and_waits;
    check_one_order(run_with_seed);
}

TEST(shields_are_ended_in_one_order_whatever_ran_before)
{
    left = shields_and_waits;
    check_one_order(run_with_seed);
}

/* ---- jobs whose parents are in another scheduler --------------------------------------------- */

static kc_job_t *abroad; /* a group in another scheduler */

static int waits_for_its_end(void *arg)
{
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), -ESHUTDOWN);
    note(arg);
    return 0;
}

static void run_with_guests(void)
{
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME, .seed = 42 }, &s),
             0);
    const kc_launch_opts_t opts = { .parent = abroad, .sched = s };
    for (intptr_t i = 0; i < JOBS; i++)
        CHECK_EQ(kc_launch_job(waits_for_its_end, (void *)i, &opts, NULL), 0);
    CHECK_EQ(kc_sched_poll(s, 0), KC_FOREVER);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static pthread_barrier_t begun, over;

static void *has_another_scheduler(void *arg)
{
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = 1 }, &s), 0);
    CHECK_EQ(kc_group_create(&(kc_launch_opts_t){ .sched = s }, &abroad), 0);
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&over);
    kc_job_drop(abroad);
    CHECK_EQ(kc_sched_destroy(s), 0);
    return arg;
}

TEST(jobs_whose_parent_is_in_another_scheduler_end_in_one_order_whatever_ran_before)
{
    pthread_t thread;

    CHECK_EQ(pthread_barrier_init(&begun, NULL, 2), 0);
    CHECK_EQ(pthread_barrier_init(&over, NULL, 2), 0);
    CHECK_EQ(pthread_create(&thread, NULL, has_another_scheduler, NULL), 0);
    pthread_barrier_wait(&begun);
    check_one_order(run_with_guests);
    pthread_barrier_wait(&over);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* ---- KCORO_DEBUG --------------------------------------------------------------------------- */

static int notes_itself(void *arg)
{
    note(arg);
    return 0;
}

static int joins_the_first(void *arg)
{
    kc_job_t *first = NULL;

    (void)arg;
    for (intptr_t i = 0; i < JOBS - 1; i++)
        CHECK_EQ(kc_launch_job(notes_itself, (void *)i, NULL, i == JOBS - 2 ? &first : NULL), 0);
    CHECK_EQ(kc_job_join(first), 0);
    note((void *)(intptr_t)(JOBS - 1));
    kc_job_release(first);
    return 0;
}

/* Bodies then have stacks of their own, and blocks are not used again: nobody may notice. */
TEST(virtual_time_gives_the_same_order_with_kcoro_debug)
{
    char usual[sizeof order];

    for (int debug = 0; debug <= 1; debug++) {
        kc_store_relaxed(&kc__os_debug_mode, debug);
        ordered = 0;
        CHECK_EQ(
            kc_run(joins_the_first, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME }),
            0);
        CHECK_EQ(ordered, JOBS);
        if (!debug)
            memcpy(usual, order, sizeof usual);
        CHECK_STR(order, usual);
    }
}
