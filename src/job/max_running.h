/* SPDX-License-Identifier: MIT */
/*
 * max_running.h - children that wait for their turn in a parent with max_running.
 *
 * All of it under the lock of the parent, whose extension this is. The queue is linked by the
 * blocks of the jobs, and backwards by task.before, where the coroutine will be: so one that is
 * cancelled leaves it in one step, however many wait before it. PENDING says that a job is in it.
 */
#ifndef KC_JOB_MAX_RUNNING_H
#define KC_JOB_MAX_RUNNING_H

#include "job/job.h"

/* j waits behind the others. */
KC_INLINE void kc__pending_push(kc_job_ext_t *ext, kc_job_t *j)
{
    kc_store_relaxed(&j->task.block.flags, kc__job_flags(j) | KC_JOB_PENDING);
    j->task.before = ext->pending.tail;
    kc__queue_push(&ext->pending, &j->task.block);
}

/* j does not wait any more. False: it did not. */
KC_INLINE bool kc__pending_remove(kc_job_ext_t *ext, kc_job_t *j)
{
    kc_queue_t *q = &ext->pending;

    if (!(kc__job_flags(j) & KC_JOB_PENDING))
        return false;
    kc_mpsc_node_t *before = j->task.before, *after = j->task.block.link.next;
    if (before)
        before->next = after;
    else
        q->head = after;
    if (after)
        kc_container_of(after, kc_job_t, task.block.link)->task.before = before;
    else
        q->tail = before;
    q->count--;
    kc_store_relaxed(&j->task.block.flags, kc__job_flags(j) & ~(uint32_t)KC_JOB_PENDING);
    j->task.co = NULL;
    return true;
}

/* The same of the one that waits longest. NULL: none does. */
KC_INLINE kc_job_t *kc__pending_pop(kc_job_ext_t *ext)
{
    kc_mpsc_node_t *first = ext->pending.head;
    kc_job_t *j = first ? kc_container_of(first, kc_job_t, task.block.link) : NULL;

    if (j)
        kc__pending_remove(ext, j);
    return j;
}

#endif
