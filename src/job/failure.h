/* SPDX-License-Identifier: MIT */
/*
 * failure.h - which job has failed, and what is said about it.
 */
#ifndef KC_JOB_FAILURE_H
#define KC_JOB_FAILURE_H

#include "job/job.h"

/* j has failed as its child has, which is about to end. */
void kc__failure_inherit(kc_job_t *j, kc_job_t *child);

/* A scope ends, which has failed; own: the job of its coroutine. */
void kc__failure_of_scope(kc_job_t *scope, kc_job_t *own);

/* Under the lock of j, or when it has ended: what is said about its failure, or would be. NULL:
 * nothing. */
const char *kc__failure_message(kc_job_t *j);

/* Somebody wants to hear of it when such a job fails: tells. */
KC_INLINE bool kc__failure_is_reported(kc_job_t *j)
{
    return kc__job_sched(j)->on_failure &&
           !(kc__job_flags(j) & (KC_JOB_SCOPE | KC_JOB_GROUP | KC_JOB_PROMISE));
}

void kc__failure_report(kc_job_t *j);

#endif
