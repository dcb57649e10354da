/* SPDX-License-Identifier: MIT */
/*
 * payload.h - values that somebody must dispose of.
 */
#ifndef KC_JOB_PAYLOAD_H
#define KC_JOB_PAYLOAD_H

#include "job/job.h"

/* The value of j, which has OWNED set and has ended, is handed over. */
KC_COLD void *kc__payload_take(kc_job_t *j);

/* Another value comes in its place. */
KC_COLD void kc__payload_replace(kc_job_t *j, const void *by);

/* j, of which this is the extension, is about to end so; is gone. */
void kc__payload_end(kc_job_ext_t *ext, uint64_t done);
void kc__payload_free(kc_job_ext_t *ext);

#endif
