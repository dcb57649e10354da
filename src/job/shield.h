/* SPDX-License-Identifier: MIT */
/*
 * shield.h - shields for what runs at the end: whatever the state is.
 */
#ifndef KC_JOB_SHIELD_H
#define KC_JOB_SHIELD_H

#include "job/job.h"

void kc__job_shield(kc_job_t *j);
void kc__job_unshield(kc_job_t *j);

#endif
