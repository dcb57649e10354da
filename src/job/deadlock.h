/* SPDX-License-Identifier: MIT */
/*
 * deadlock.h - nothing can run any more: a report of who waits for what.
 */
#ifndef KC_JOB_DEADLOCK_H
#define KC_JOB_DEADLOCK_H

#include "job/job.h"

bool kc__deadlock_awaits_thread(kc_sched_t *s);
void kc__deadlock_report(kc_sched_t *s);

#endif
