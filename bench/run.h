/* SPDX-License-Identifier: MIT */
/*
 * run.h - what the benchmarks of schedulers share: the scheduler of a question, and tasks on it.
 *
 *     sched_open(2);
 *     kb_question("..."); ... kb_measure();       // runs call run_task, or submit and run
 *     sched_close();
 */
#ifndef KC_BENCH_RUN_H
#define KC_BENCH_RUN_H

#include "harness.h"

#include <kcoro/sched.h>

static kc_sched_t *sched;      /* the question's */
static kc_affinity_t place[2]; /* its first two workers, or twice main where it has none */

/* Inline, because it stands in what is measured. */
static inline void must(int rc)
{
    if (rc != 0)
        kb_error(rc);
}

static inline void sched_open(int workers)
{
    kc_sched_opts_t opts = { .workers = workers, .name = "bench" };

    must(kc_sched_create(&opts, &sched));
    place[0] = workers > 0 ? KC_WORKER_AT(0) : KC_MAIN;
    place[1] = workers > 0 ? KC_WORKER_AT(1) : KC_MAIN;
}

static inline void sched_close(void)
{
    must(kc_sched_destroy(sched));
}

/* Runs fn(arg) as a task, and returns when all tasks have ended. */
static inline void run_task(kc_affinity_t where, kc_fn_t fn, void *arg)
{
    must(kc_sched_submit(sched, where, fn, arg));
    must(kc_sched_run(sched));
}

#endif
