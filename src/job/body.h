/* SPDX-License-Identifier: MIT */
/*
 * body.h - the coroutine that runs the body of a job.
 *
 * ORDER    id      site          operation      pairs with  carries
 *          body.1  add_flag:     store_release  body.3      what the body returned
 *                  flags
 */
#ifndef KC_JOB_BODY_H
#define KC_JOB_BODY_H

#include "job/job.h"

/* Calls a dispose: it may not wait, as a handler may not. */
void kc__dispose(void (*fn)(void *arg), void *arg);

/* Only the thread that starts j or runs its body does this. */
KC_INLINE void kc__body_add_flag(kc_job_t *j, uint32_t flag)
{
    kc_store_release(&j->task.block.flags, kc__job_flags(j) | flag); /* body.1 */
}

/* As kc_coro_hooks.run (coro.h) says. */
void kc__body_run(kcoro_t *me);

/* As kc_job_returned. */
int kc__job_returned(const kc_job_t *j, int *rc);

/* UNDONE for the word of its parent, if j, which ends so and not as completed, leaves work undone
 * that was its parent's too; else 0. */
uint64_t kc__job_undone(const kc_job_t *j, uint64_t done);

/* j, which has ended or is about to, has completed; or it was asked to stop, but what it had to do
 * was done: its body returned 0, and so did the bodies of its children (A1). */
bool kc__job_has_succeeded(const kc_job_t *j);

/* What a body's return value means for its job. */
void kc__job_settle(kc_job_t *j, int rc);

/* Drains j, then runs its deferred cleanups down to `end`. */
void kc__job_clean_up(kc_job_t *j, kcoro_t *co, kc_cleanup_t *end);

/* At a suspension point of a body that is cancelled: -ECANCELED, or it is unwound. */
int kc__job_cancelled_here(kcoro_t *co);

/* At the entry of a call that suspends, of the caller whose job's coroutine is co: 0, or as
 * kc__job_cancelled_here. co is NULL: a plain thread, which nobody cancels. */
KC_INLINE int kc__job_check_cancel(kcoro_t *co)
{
    if (kc_unlikely(co && kc__job_is_stopped(kc__job_of(co->task))))
        return kc__job_cancelled_here(co);
    return 0;
}

#endif
