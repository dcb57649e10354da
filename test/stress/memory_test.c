/* SPDX-License-Identifier: MIT */
/*
 * memory_test.c - what a burst of jobs leaves behind: nothing, some time later.
 */
#include "base/block.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { LITTLE = 8 * 1024 * 1024 }; /* bytes, a quarter of what a burst has */

static int burst = 300000; /* jobs */

/* Bytes of memory that the process has. */
static long resident(void)
{
    long all = 0, there = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    CHECK(file != NULL);
    CHECK_EQ(fscanf(file, "%ld %ld", &all, &there), 2);
    fclose(file);
    return there * sysconf(_SC_PAGESIZE);
}

static void skip_where_others_use_memory(void)
{
    if (kc_test_under_asan() || kc_test_under_tsan() || kc_test_under_valgrind() ||
        kc_test_under_emulation())
        SKIP("the memory of the tool is counted too");
}

static long before, peak;

static int ends_at_once(void *arg)
{
    (void)arg;
    return 0;
}

/* On the thread that launches them, so that they do not start meanwhile; for any other, as most
 * are, if there is none. */
static int launches_many(void *arg)
{
    bool alone = kc_sched_workers(kc_sched_current()) == 0;
    const kc_launch_opts_t opts = { .affinity = alone ? KC_WORKER : KC_MAIN };

    (void)arg;
    for (int i = 0; i < burst; i++)
        CHECK_EQ(kc_launch_job(ends_at_once, NULL, &opts, NULL), 0);
    peak = resident();
    return 0;
}

static int has_a_burst(void *arg)
{
    (void)arg;
    before = resident();
    CHECK_EQ(kc_scope(launches_many, NULL, NULL), 0);
    CHECK_GT(peak - before, 2 * LITTLE);
    return 0;
}

static int has_a_burst_and_waits(void *arg)
{
    CHECK_EQ(has_a_burst(arg), 0);
    while (resident() - before > LITTLE)
        CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    return 0;
}

static int has_a_burst_and_is_busy(void *arg)
{
    CHECK_EQ(has_a_burst(arg), 0);
    while (resident() - before > LITTLE)
        for (int i = 0; i < 64; i++)
            CHECK_EQ(kc_yield(), 0);
    return 0;
}

TEST(the_memory_of_a_burst_comes_back_when_its_scheduler_ends)
{
    skip_where_others_use_memory();
    CHECK_EQ(kc_run(has_a_burst, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }), 0);
    CHECK_LT(resident() - before, LITTLE);
}

TEST(the_memory_of_a_burst_comes_back_while_its_scheduler_is_idle)
{
    skip_where_others_use_memory();
    CHECK_EQ(kc_run(has_a_burst_and_waits, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
             0);
    CHECK_EQ(kc_run(has_a_burst_and_waits, NULL, &(kc_sched_opts_t){ .workers = 2 }), 0);
}

TEST(the_memory_of_a_burst_comes_back_while_its_thread_is_busy)
{
    skip_where_others_use_memory();
    CHECK_EQ(kc_run(has_a_burst_and_is_busy, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
             0);
}

static void never_runs(void *arg)
{
    (void)arg;
}

TEST(the_memory_of_many_coroutines_comes_back_without_a_scheduler)
{
    enum { MANY = 200000 };
    static kcoro_t *co[MANY];

    skip_where_others_use_memory();
    for (int i = 0; i < MANY; i++)
        co[i] = NULL; /* that memory is ours */
    kcoro_destroy(kcoro_create(never_runs, NULL, 16 * 1024));
    before = resident();
    for (int i = 0; i < MANY; i++)
        CHECK((co[i] = kcoro_create(never_runs, NULL, 16 * 1024)) != NULL);
    CHECK_GT(resident() - before, 2 * LITTLE);
    for (int i = 0; i < MANY; i++)
        kcoro_destroy(co[i]);
    CHECK_LT(resident() - before, LITTLE);
}

/* ---- old handles ----------------------------------------------------------------------------- */

static kc_job_t *old;

/* One in the middle: a pool keeps some of the blocks, and the pages that they are in. */
static int leaves_a_handle(void *arg)
{
    const kc_launch_opts_t opts = { .affinity = KC_WORKER };

    for (int i = 0; i < burst; i++)
        CHECK_EQ(kc_launch_job(ends_at_once, NULL, &opts, i == burst / 2 ? &old : NULL), 0);
    kc_job_release(old);
    return arg != NULL;
}

TEST_ABORTS(a_freed_job_is_recognised_when_its_page_was_given_back, "has been freed")
{
    if (kc_test_under_asan() || kc_test_under_tsan())
        burst /= 5; /* a job costs some 50 us there, and so many will do: see below */
    CHECK_EQ(kc_run(leaves_a_handle, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }), 0);
    CHECK_EQ(kc_load_relaxed(&((kc_block_t *)old)->magic), 0); /* it was */
    kc_job_release(old);
}
