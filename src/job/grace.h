/* SPDX-License-Identifier: MIT */
/*
 * grace.h - how long shields hold a cancel back.
 */
#ifndef KC_JOB_GRACE_H
#define KC_JOB_GRACE_H

#include "job/job.h"

/* j, which nobody knows yet, has a grace of its own. 0 or -ENOMEM. */
int kc__grace_prepare(kc_job_t *j, kc_time_t grace);

/* Somebody has asked j to end, and has a reference on it: its time counts from now. by_parent: that
 * has a timer already. False: there is no memory for one, so the time must be over at once. */
bool kc__grace_begin(kc_job_t *j, bool by_parent);

/* The body of j continues on another thread: so does the timer. */
void kc__grace_hop(kc_job_t *j, kc_job_ext_t *ext);

/* That of a scheduler: as kc_sched_hooks (task.h) says of open, shut and gone. */
int kc__grace_open(kc_sched_t *s);
void kc__grace_shut(kc_sched_t *s);
void kc__grace_gone(kc_sched_t *s);

#endif
