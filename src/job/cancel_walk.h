/* SPDX-License-Identifier: MIT */
/*
 * cancel_walk.h - the walk by which a cancel reaches all jobs below one.
 */
#ifndef KC_JOB_CANCEL_WALK_H
#define KC_JOB_CANCEL_WALK_H

#include "job/job.h"

/* Tells the children of top, and all below them, that do not know yet. */
void kc__job_walk(kc_job_t *top);

#endif
