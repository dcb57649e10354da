/* SPDX-License-Identifier: MIT */
/*
 * locals.h - values that children inherit.
 */
#ifndef KC_JOB_LOCALS_H
#define KC_JOB_LOCALS_H

#include "job/job.h"

/* A child's locals are those of `from`; NULL: of the caller's own job. 0 or -ENOMEM. */
int kc__locals_inherit(kc_job_t *child, kc_job_t *from);
void kc__locals_free(kc_job_ext_t *ext);

#endif
