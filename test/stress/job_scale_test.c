/* SPDX-License-Identifier: MIT */
/*
 * job_scale_test.c - very deep and very wide trees of jobs (J11): no recursion, time in proportion.
 *
 * A chain: each job is the child of the one before it. A fan: all are children of one group, or of
 * one scope. Both are cancelled at the top. All runs on a thread whose stack is small, so that a
 * call for each job of the chain would not fit. The times are printed; the bound on their ratio is
 * generous, because other programs run here too: what grows with the square is far beyond it.
 */
#include "coro/coro.h"
#include "job/job.h"
#include "blocks_left.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SMALL_STACK = 128 * 1024,
    CHAIN = 100000,
    FAN = 1000000,
    STACK = 16384,
    BATCH = 1000, /* launches between two yields */
};

struct run {
    int jobs;
    bool chain;   /* else a fan                              */
    bool started; /* the bodies wait; else they never start */
    bool each;    /* cancelled one by one                    */
    bool in_turn; /* in a scope where one runs at a time     */
    kc_scope_t scope;
    kc_job_t **handle;
    long ran, ended;
    double took; /* the cancel and the end of all, in seconds */
};

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Sanitizers and emulators have their own memory on top, and take their time. */
static bool slow(void)
{
    return kc_test_under_asan() || kc_test_under_tsan() || kc_test_under_valgrind() ||
           kc_test_under_emulation();
}

static int scaled(int n)
{
    return slow() ? n / 50 : n;
}

/* ---- in the scheduler ---------------------------------------------------------------------- */

static void count_end(void *arg)
{
    ++*(long *)arg;
}

static int waits(void *arg)
{
    struct run *run = arg;

    run->ran++;
    KC_CLEANUP(count_end, &run->ended);
    return kc_sleep(KC_FOREVER);
}

static void never_ran(void *arg)
{
    ++((struct run *)arg)->ended;
}

/* A group or a scope, and in it the jobs; each in the one before, if it is a chain. */
static kc_job_t *plant(struct run *run)
{
    kc_job_t *top = NULL, *above;

    if (run->in_turn) {
        CHECK_EQ(kc_scope_begin(&run->scope, &(kc_scope_opts_t){ .max_running = 1 }), 0);
        top = kc_job_retain(kc_scope_job(&run->scope));
    } else {
        CHECK_EQ(kc_group_create(NULL, &top), 0);
    }
    above = kc_job_retain(top);
    for (int i = 0; i < run->jobs; i++) {
        kc_launch_opts_t o = { .parent = above, .stack = STACK, .dispose = never_ran };
        kc_job_t *j = NULL;
        CHECK_EQ(kc_launch_job(waits, run, &o, run->chain || run->each ? &j : NULL), 0);
        if (run->each)
            run->handle[i] = j;
        if (run->chain) {
            kc_job_release(above);
            above = j;
        }
        if (run->started && i % BATCH == BATCH - 1)
            CHECK_EQ(kc_yield(), 0);
    }
    kc_job_release(above);
    return top;
}

static void cancel_all(struct run *run, kc_job_t *top)
{
    for (int i = run->jobs; run->each && i > 0; i--) { /* newest first: the last ones of a queue */
        CHECK(kc_job_cancel(run->handle[i - 1], 0));
        kc_job_release(run->handle[i - 1]);
    }
    CHECK(kc_job_cancel(top, 0));
    CHECK(!kc_job_cancel(top, 0));
}

static int scenario(void *arg)
{
    struct run *run = arg;

    run->handle = run->each ? malloc((size_t)run->jobs * sizeof *run->handle) : NULL;
    CHECK(run->handle || !run->each);
    kc_job_t *top = plant(run);

    while (run->started && run->ran < run->jobs)
        CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(run->ended, 0);
    double begin = seconds();
    cancel_all(run, top);
    CHECK_EQ(run->in_turn ? kc_scope_end(&run->scope) : kc_job_join(top), -ECANCELED);
    run->took = seconds() - begin;
    CHECK_EQ(kc_job_state(top), KC_JOB_CANCELLED);
    kc_job_release(top);
    free(run->handle);
    CHECK_EQ(run->ran, run->started ? run->jobs : 0);
    CHECK_EQ(run->ended, run->jobs);
    return 0;
}

/* ---- around it ----------------------------------------------------------------------------- */

static void *thread_main(void *arg)
{
    struct run *run = arg;
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };

    CHECK_EQ(kc_run(scenario, run, &opts), 0);
    CHECK_EQ(kc_test_blocks_left(KC_TASK_MAGIC), 0);
    CHECK_EQ(kc_test_blocks_left(KC_CORO_MAGIC), 0);
    kc__stack_cache_drain(&kc__thread()->stacks);
    kc_stack_stats_t s = kc__stack_stats();
    CHECK_EQ(s.made, s.warm + s.cold);
    return NULL;
}

/* Returns how long the end of so many jobs takes, from the cancel on. */
static double measure(struct run run)
{
    size_t stack = kc_test_under_asan() || kc_test_under_tsan() ? 8 * SMALL_STACK : SMALL_STACK;
    pthread_attr_t attr;
    pthread_t thread;

    CHECK_EQ(pthread_attr_init(&attr), 0);
    CHECK_EQ(pthread_attr_setstacksize(&attr, stack), 0);
    CHECK_EQ(pthread_create(&thread, &attr, thread_main, &run), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
    printf("%7d jobs, a %s, %s: %.1f ms, %.0f ns each\n", run.jobs, run.chain ? "chain" : "fan",
           run.started ? "waiting" : "not started", run.took * 1e3, run.took * 1e9 / run.jobs);
    fflush(stdout);
    return run.took;
}

/* n jobs against 4n: the best of some tries each, because the machine is not ours alone. */
static void check_linear(struct run run)
{
    double some = 1e9, all = 1e9, ratio = 1e9;
    int n = run.jobs;

    for (int i = 0; i < 10 && ratio >= 8; i++) {
        run.jobs = n / 4;
        double took = measure(run);
        some = took < some ? took : some;
        run.jobs = n;
        took = measure(run);
        all = took < all ? took : all;
        ratio = all / (some > 1e-4 ? some : 1e-4);
    }
    printf("four times as many take %.1f times as long\n", ratio);
    CHECK(ratio < 12 || slow()); /* what is quadratic takes 16 times as long */
}

TEST_SLOW(a_chain_of_100000_jobs_that_wait_is_cancelled, 300000)
{
    check_linear((struct run){ .jobs = scaled(CHAIN), .chain = true, .started = true });
}

TEST_SLOW(a_chain_of_100000_jobs_that_have_not_started_is_cancelled, 300000)
{
    check_linear((struct run){ .jobs = scaled(CHAIN), .chain = true });
}

TEST_SLOW(a_fan_of_a_million_jobs_that_have_not_started_is_cancelled, 300000)
{
    check_linear((struct run){ .jobs = scaled(FAN) });
}

TEST_SLOW(a_fan_of_100000_jobs_that_wait_is_cancelled, 300000)
{
    check_linear((struct run){ .jobs = scaled(CHAIN), .started = true });
}

TEST_SLOW(a_million_children_are_cancelled_one_by_one, 300000)
{
    check_linear((struct run){ .jobs = scaled(FAN), .each = true });
}

TEST_SLOW(a_fan_of_100000_jobs_that_wait_for_their_turn_is_cancelled, 300000)
{
    check_linear((struct run){ .jobs = scaled(CHAIN), .in_turn = true });
    check_linear((struct run){ .jobs = scaled(CHAIN), .in_turn = true, .each = true });
}
