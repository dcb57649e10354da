/* SPDX-License-Identifier: MIT */
/*
 * never.c - what wait.c calls in no model of a single wait.
 *
 * WHAT     Linked to the models that include wait.c and have no timers, no hops and no plain
 *          threads. The sources name these functions; a model that calls one of them fails.
 */
#include "base/os.h"
#include "job/body.h"
#include "job/body_start.h"
#include "job/grace.h"
#include "job/job_timer.h"
#include "model.h"
#include "sched/run.h"
#include "sched/sched.h"
#include "sched/worker.h"

void kc__worker_wake(kc_worker_t *w)
{
    (void)w;
    NEVER;
}

void kc__worker_hop(kc_thread_t *t, kcoro_t *co)
{
    (void)t, (void)co;
    NEVER;
}

int kc__worker_yield(kc_thread_t *t, kcoro_t *co)
{
    (void)t, (void)co;
    NEVER;
}

void kc__worker_hand_over(kc_thread_t *t, kcoro_t *co, kcoro_t *to)
{
    (void)t, (void)co, (void)to;
    NEVER;
}

kc_worker_t *kc__sched_place(kc_sched_t *of, kc_affinity_t where)
{
    (void)of, (void)where;
    NEVER;
}

bool kc__sched_pump_until(kc_sched_t *of, kc_time_t at, const KC_ATOMIC(uint32_t) * done)
{
    (void)of, (void)at, (void)done;
    NEVER;
}

uint32_t kc__body_flags(const kc_job_t *j, kc_affinity_t where)
{
    (void)j, (void)where;
    NEVER;
}

void kc__job_timer_hop(kc_job_timer_t *timer)
{
    model_assert(!timer);
}

void kc__grace_hop(kc_job_t *j, kc_job_ext_t *ext)
{
    (void)j;
    model_assert(!ext);
}

void kc__coro_end_park(kcoro_t *co)
{
    (void)co;
    NEVER;
}

kc_time_t kc_now(void)
{
    NEVER;
}

kc_time_t kc__os_now(void)
{
    NEVER;
}

void kc__os_wait(const void *word, uint32_t expected, int64_t until)
{
    (void)word, (void)expected, (void)until;
    NEVER;
}

void kc__os_wake(const void *word)
{
    (void)word;
    NEVER;
}
