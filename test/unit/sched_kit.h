/* SPDX-License-Identifier: MIT */
/*
 * sched_kit.h - what the tests of schedulers share: to make, run and end one, and a task that
 * counts.
 *
 *     kc_sched_t *s = make(2, 0);
 *     CHECK_EQ(kc_sched_submit(s, KC_WORKER, count_one, NULL), 0);
 *     run(s);
 *     end(s);
 */
#ifndef KC_TEST_SCHED_KIT_H
#define KC_TEST_SCHED_KIT_H

#include "harness.h"
#include "sched/sched.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#define UNUSED __attribute__((unused))

/* What holds for any number of workers is tested with these. */
static UNUSED const int counts[] = { KC_NO_WORKERS, 1, 2, 4, 16 };
enum { COUNTS = sizeof counts / sizeof counts[0] };

static UNUSED kc_sched_t *make(int workers, uint32_t flags)
{
    kc_sched_opts_t opts = { .workers = workers, .flags = flags };
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    CHECK_EQ(kc_sched_workers(s), workers < 0 ? 0 : workers);
    return s;
}

static UNUSED void run(kc_sched_t *s)
{
    CHECK_EQ(kc_sched_run(s), 0);
}

static UNUSED void end(kc_sched_t *s)
{
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static UNUSED KC_ATOMIC(long) counter;

static UNUSED int count_one(void *arg UNUSED)
{
    kc_add_relaxed(&counter, 1);
    return 0;
}

#endif
