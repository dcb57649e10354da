/* SPDX-License-Identifier: MIT */
/*
 * join.h - waiting for a job.
 */
#ifndef KC_JOB_JOIN_H
#define KC_JOB_JOIN_H

#include "job/job.h"

/* j is the caller's job or one above it: it cannot end while the caller waits. Costs nothing for
 * a join downward. */
bool kc__join_is_above(const kc_job_t *j, const kc_job_t *current);

/* Queues w with those who wait for j. False: it has ended. */
bool kc__join_enqueue(kc_thread_t *t, kc_job_t *j, kc_wait_t *w);

/* That a job has failed, or is about to have, is why the caller was cancelled, as it looks: then it
 * gets what it has waited for. word: of that job. */
bool kc__join_has_failed(uint64_t word);

/* Waits for j, whatever comes. */
void kc__join_uncancellable(kc_job_t *j);

/* join_any.c: a job has ended that w, a stand-in, waited for. */
void kc__join_wake(kc_wait_t *w);

#endif
