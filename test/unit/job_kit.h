/* SPDX-License-Identifier: MIT */
/*
 * job_kit.h - what the tests of jobs share: each of them runs over no workers with virtual time,
 * the same with a seed, and one, two and four workers.
 *
 *     IN_A_JOB(a_child_is_waited_for) { ...; return 0; }     // the root job of kc_run
 *     OUTSIDE(a_thread_may_join, s) { ... }                  // the thread that has created s
 */
#ifndef KC_TEST_JOB_KIT_H
#define KC_TEST_JOB_KIT_H

#include "job/job.h"
#include "harness.h"

#include <kcoro/kcoro.h>
#include <kcoro/timer.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED __attribute__((unused))

typedef KC_ATOMIC(int) count_t;

static const int kit_workers[] = { KC_NO_WORKERS, KC_NO_WORKERS, 1, 2, 4 };
enum { KIT_SCHEDS = sizeof kit_workers / sizeof kit_workers[0] };

static kc_sched_opts_t kit_opts(int i)
{
    bool alone = kit_workers[i] == KC_NO_WORKERS;

    return (kc_sched_opts_t){
        .workers = kit_workers[i],
        .flags = alone ? KC_SCHED_VIRTUAL_TIME : 0,
        .seed = i == 1 ? kc_test_seed() | 1 : 0,
    };
}

static UNUSED void kit_run(kc_fn_t fn, int scheds)
{
    for (int i = 0; i < scheds; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        int rc = kc_run(fn, NULL, &opts);
        if (rc != 0)
            FAIL("scheduler %d (%d workers): the root job returned %d", i, opts.workers, rc);
    }
}

static UNUSED void kit_in_a_job(kc_fn_t fn)
{
    kit_run(fn, KIT_SCHEDS);
}

static UNUSED void kit_in_virtual_time(kc_fn_t fn)
{
    kit_run(fn, 2);
}

static UNUSED void kit_outside(void (*fn)(kc_sched_t *s))
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        kc_sched_t *s = NULL;
        CHECK_EQ(kc_sched_create(&opts, &s), 0);
        fn(s);
        CHECK_EQ(kc_sched_destroy(s), 0);
    }
}

/* Only where the clock is ours: what must have happened before a time has. */
#define IN_VIRTUAL_TIME(ident)                                                                    \
    static int ident##_body(void *arg);                                                           \
    TEST(ident)                                                                                   \
    {                                                                                             \
        kit_in_virtual_time(ident##_body);                                                        \
    }                                                                                             \
    static int ident##_body(void *arg UNUSED)

#define IN_A_JOB(ident)                                                                           \
    static int ident##_body(void *arg);                                                           \
    TEST(ident)                                                                                   \
    {                                                                                             \
        kit_in_a_job(ident##_body);                                                               \
    }                                                                                             \
    static int ident##_body(void *arg UNUSED)

#define OUTSIDE(ident, s)                                                                         \
    static void ident##_outside(kc_sched_t *s);                                                   \
    TEST(ident)                                                                                   \
    {                                                                                             \
        kit_outside(ident##_outside);                                                             \
    }                                                                                             \
    static void ident##_outside(kc_sched_t *s)

/* Lets others run until it is true; looks neither at cancellation nor at the clock. */
#define UNTIL(cond)                                                                               \
    do {                                                                                          \
        while (!(cond))                                                                           \
            kcoro_current() ? kcoro_yield() : (void)sched_yield();                                \
    } while (0)

static UNUSED int get(count_t *n)
{
    return kc_load_acquire(n);
}

static UNUSED void set(count_t *n, int value)
{
    kc_store_release(n, value);
}

static UNUSED int add(count_t *n)
{
    return kc_sub_acq_rel(n, -1);
}

/* ---- bodies --------------------------------------------------------------------------------- */

static UNUSED int returns(void *arg)
{
    return (int)(intptr_t)arg;
}

#define CODE(n) ((void *)(intptr_t)(n))

/* Counts itself in, then sleeps until it is cancelled. */
static UNUSED int waits(void *arg)
{
    if (arg)
        add(arg);
    int rc = kc_sleep(KC_FOREVER);
    CHECK_EQ(rc, -ECANCELED);
    return rc;
}

static UNUSED int counts(void *arg)
{
    add(arg);
    return 0;
}

static UNUSED int never(void *arg UNUSED)
{
    FAIL("a body ran that must not");
}

/* Goes on until *arg is not 0; time goes on too. */
static UNUSED int until_set(void *arg)
{
    int rc = 0;

    while (!get(arg) && rc == 0)
        rc = kc_sleep(KC_US(20));
    return rc;
}

static UNUSED kc_job_t *launch(kc_fn_t fn, void *arg, const kc_launch_opts_t *opts)
{
    kc_job_t *j = NULL;

    CHECK_EQ(kc_launch_job(fn, arg, opts, &j), 0);
    CHECK(j != NULL);
    return j;
}

static UNUSED kc_job_t *group(const kc_launch_opts_t *opts)
{
    kc_job_t *j = NULL;

    CHECK_EQ(kc_group_create(opts, &j), 0);
    return j;
}

static UNUSED int result_of(kc_job_t *j)
{
    int code = 12345;

    CHECK_EQ(kc_job_result(j, &code), 0);
    return code;
}

/* j has ended so, and every way to ask says it. Gives the reference up. */
static UNUSED void ended(kc_job_t *j, kc_job_state_t state, int code)
{
    CHECK_EQ(kc_job_state(j), state);
    CHECK_EQ(result_of(j), code);
    kc_job_release(j);
}

struct thread_body {
    kc_fn_t fn;
    void *arg;
};

static UNUSED void *thread_body_run(void *arg)
{
    struct thread_body body = *(struct thread_body *)arg;

    free(arg);
    body.fn(body.arg);
    return NULL;
}

/* A plain thread that runs what could be the body of a job. */
static UNUSED pthread_t thread_runs(kc_fn_t fn, void *arg)
{
    struct thread_body *body = malloc(sizeof *body);
    pthread_t t;

    CHECK(body != NULL);
    *body = (struct thread_body){ fn, arg };
    CHECK_EQ(pthread_create(&t, NULL, thread_body_run, body), 0);
    return t;
}

/* Runs fn, which must abort, in a job of that name. */
static UNUSED void run_named(kc_fn_t fn, const char *name)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    kc_job_t *j = launch(fn, NULL, &(kc_launch_opts_t){ .sched = s, .name = name });
    CHECK_EQ(kc_job_join(j), 0);
    FAIL("it did not abort");
}

static UNUSED void count_job(kc_block_t *block UNUSED, void *arg)
{
    ++*(int *)arg;
}

/* All jobs that are in memory now. */
static UNUSED int jobs_there(void)
{
    int n = 0;

    kc__block_each(KC_TASK_MAGIC, count_job, &n);
    return n;
}

#endif
