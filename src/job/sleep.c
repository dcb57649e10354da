/* SPDX-License-Identifier: MIT */
/*
 * sleep.c - sleep and yield: waits for nothing but time.
 */
#include "job/body.h"
#include "job/job.h"
#include "job/wait.h"
#include "sched/worker.h"

#include <kcoro/timer.h>

#include <errno.h>

/* What runs on the thread's own stack is called by the library. */
static bool is_pumped(const kc_worker_t *w)
{
    return w && (w != w->sched->main || w->sched->pumping);
}

/* In a coroutine inside a body, in a body that is unwound, or in a handler. */
static int yield_slow(kc_thread_t *t, const char *call)
{
    kcoro_t *co = kc__task_coroutine(t->current);

    if (co || is_pumped(t->worker))
        kc__wait_check_more(call);
    if (!co)
        return 0;
    kc__worker_yield(t, co);
    return kc__job_check_cancel(co);
}

/* One that is cancelled lets others run too. */
static int yield_cancelled(kc_thread_t *t, kcoro_t *co)
{
    kc__worker_yield(t, co);
    kc__tsan_acquire(co->task);
    return -ECANCELED;
}

KC_INLINE int yield(const char *call)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = t->current;

    if (kc_unlikely(kc_load_relaxed(&co->block.flags) != KC_CORO_TASK))
        return yield_slow(t, call);
    if (kc_unlikely(kc_load_relaxed(&co->task->word) & KC_WORD_STOP))
        return yield_cancelled(t, co);
    /* A cancel that comes meanwhile says so by the result of the switch (cancel.c). */
    return kc__worker_yield(t, co);
}

int kc_yield(void)
{
    return yield("kc_yield");
}

KC_AFTER_SWITCH int kc_sleep_until(kc_time_t at)
{
    kc_wait_t w;

    int rc = kc__wait_begin(&w, at == KC_FOREVER ? KC_WAIT_FOREVER : KC_WAIT_SLEEP, NULL);
    if (rc < 0)
        return rc;
    if (at <= kc_now())
        return yield("kc_sleep");
    w.timed_out = 0;
    rc = kc__wait_commit(&w, at);
    return kc_unlikely(rc < 0) ? kc__job_cancelled_here(w.co) : 0;
}

int kc_sleep(kc_time_t ns)
{
    if (ns <= 0)
        return ns < 0 ? -EINVAL : yield("kc_sleep");
    kc_time_t now = kc_now();
    return kc_sleep_until(ns > KC_FOREVER - now ? KC_FOREVER : now + ns);
}
