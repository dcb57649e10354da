/* SPDX-License-Identifier: MIT */
/*
 * job_timer.h - timers that act on a job: its timeout and the end of its grace.
 */
#ifndef KC_JOB_JOB_TIMER_H
#define KC_JOB_JOB_TIMER_H

#include "job/job.h"

typedef struct kc_clock kc_clock_t;

/* One that is not armed. NULL: no memory. */
kc_clock_t *kc__clock_new(kc_job_t *j, void (*ring)(kc_job_t *j));

/* Arms it: ring is called at `at`, on the thread of the job's body. Any thread. */
void kc__clock_arm(kc_clock_t *clock, kc_time_t at);

/* The body, which is of this thread, goes on on another one: so does the clock. */
void kc__clock_hop(kc_clock_t *clock);

/* The body starts on this thread: one that rings here, for one that rings elsewhere. NULL: it rings
 * here already, or there is no memory. */
kc_clock_t *kc__clock_copy_here(kc_clock_t *clock);

/* One more user, so that it may be armed while the job drops it. */
void kc__clock_ref(kc_clock_t *clock);
void kc__clock_unref(kc_clock_t *clock);

/* The job's reference to it is given up; it does not ring any more, or has. */
void kc__clock_drop(kc_clock_t *clock);

/* A message has come to the thread of a clock. */
void kc__clock_message(kc_block_t *block);

#define KC_CLOCK_MAGIC 0xc10cc070u

#endif
