/* SPDX-License-Identifier: MIT */
/*
 * children.h - the ring of a job's children, under the job's lock.
 *
 * WHAT     The newest is the first; those that a cancel has told of all come last, see
 *          kc__job_told_mark in cancel.h. So a walk takes the first until that one was told.
 */
#ifndef KC_JOB_CHILDREN_H
#define KC_JOB_CHILDREN_H

#include "job/job.h"
#include "job/root.h"

/* j comes first. */
KC_INLINE void kc__children_add(kc_job_t *parent, kc_job_t *j)
{
    kc_job_t *first = parent->children;

    j->parent = parent;
    j->task.depth = parent->task.depth + 1;
    if (kc_unlikely(kc__job_flags(parent) & (KC_JOB_ROOT | KC_JOB_GRACED))) {
        if (kc__job_flags(parent) & KC_JOB_ROOT)
            kc__root_arrive(parent);
        else
            kc_store_relaxed(&j->task.block.flags, kc__job_flags(j) | KC_JOB_GRACED);
    }
    if (first) {
        j->next = first;
        j->prev = first->prev;
        first->prev->next = j;
        first->prev = j;
    } else {
        j->next = j->prev = j;
    }
    parent->children = j;
}

/* j goes. */
KC_INLINE void kc__children_remove(kc_job_t *parent, kc_job_t *j)
{
    if (j->next == j) {
        parent->children = j->next = NULL;
        return;
    }
    j->prev->next = j->next;
    j->next->prev = j->prev;
    if (parent->children == j)
        parent->children = j->next;
    j->next = NULL;
}

#endif
