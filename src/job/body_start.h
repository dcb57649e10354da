/* SPDX-License-Identifier: MIT */
/*
 * body_start.h - how the body of a job starts.
 */
#ifndef KC_JOB_BODY_START_H
#define KC_JOB_BODY_START_H

#include "job/job.h"

/* As kc_task_hooks.start and fail (task.h) say. */
int kc__body_start(kc_task_t *task);
void kc__body_fail(kc_task_t *task, int code);

/* The flags of the coroutine of j's body, which is to run there. */
uint32_t kc__body_flags(const kc_job_t *j, kc_affinity_t where);

/* j, which had no stack, has got one, or needs none any more. */
KC_COLD void kc__body_got_stack(kc_job_t *j);

/* BODY is set, unless it is to stop. */
KC_INLINE bool kc__body_begin(kc_job_t *j)
{
    uint64_t seen = kc__word_seen(&j->task); /* who has locked it may be about to stop it */

    do {
        if (!(seen & (KC_WORD_STOP | KC_WORD_NO_STACK)))
            continue;
        if (seen & KC_WORD_STOP)
            return false;
        kc__body_got_stack(j);
        seen = kc__word_seen(&j->task);
    } while (!kc__word_swap(&j->task, &seen, seen | KC_WORD_BODY | KC_WORD_STARTED));
    return true;
}

/* What most jobs are. */
KC_INLINE bool kc__body_is_plain(const kc_job_t *j)
{
    return !(kc__job_flags(j) & (KC_JOB_UNWIND | KC_JOB_MIGRATE));
}

/* It needs nothing but a coroutine: it can begin on the stack of another, or that be the next. */
KC_INLINE bool kc__body_can_inherit(const kc_job_t *j)
{
    return !kc__job_ext_of(j) && kc__body_is_plain(j);
}

#endif
