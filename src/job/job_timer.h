/* SPDX-License-Identifier: MIT */
/*
 * job_timer.h - timers that act on a job: its timeout and the end of its grace.
 */
#ifndef KC_JOB_JOB_TIMER_H
#define KC_JOB_JOB_TIMER_H

#include "job/job.h"

typedef struct kc_job_timer kc_job_timer_t;

/* One that is not armed. NULL: no memory. */
kc_job_timer_t *kc__job_timer_new(kc_job_t *j, void (*ring)(kc_job_t *j));

/* Arms it: ring is called at `at`, on the thread of the job's body. Any thread. */
void kc__job_timer_arm(kc_job_timer_t *timer, kc_time_t at);

/* The body, which is of this thread, goes on on another one: so does the timer. */
void kc__job_timer_hop(kc_job_timer_t *timer);

/* The body starts on this thread: one that rings here, for one that rings elsewhere. NULL: it rings
 * here already, or there is no memory. */
kc_job_timer_t *kc__job_timer_copy_here(kc_job_timer_t *timer);

/* One more user, so that it may be armed while the job drops it. */
void kc__job_timer_ref(kc_job_timer_t *timer);
void kc__job_timer_unref(kc_job_timer_t *timer);

/* The job's reference to it is given up; it does not ring any more, or has. */
void kc__job_timer_drop(kc_job_timer_t *timer);

/* A message has come to the thread of a timer. */
void kc__job_timer_message(kc_block_t *block);

#define KC_JOB_TIMER_MAGIC 0xc10cc070u

#endif
