/* SPDX-License-Identifier: MIT */
/*
 * job_signal.h - the signal of a job.
 */
#ifndef KC_JOB_JOB_SIGNAL_H
#define KC_JOB_JOB_SIGNAL_H

#include "job/job.h"

/* Binds j, which nobody knows yet, to an outside signal. 0 or -ENOMEM. */
int kc__job_signal_prepare(kc_job_t *j, kc_signal_t *signal);

/* From now on TERMINATE of that signal cancels j; if it came meanwhile or before, at once. */
void kc__job_signal_bind(kc_job_t *j);

/* Under the lock of j: its cancel takes effect with the unlock, and so does TERMINATE for those who
 * look. True: there are those who listen, and kc__job_signal_tell must follow. */
bool kc__job_signal_terminate(kc_job_t *j);
void kc__job_signal_tell(kc_job_t *j);

/* Takes off what binds j to others, if anything: its handlers have run for the last time when this
 * returns (unless one of them calls it). A second call does nothing. */
void kc__job_signal_cut(kc_job_t *j);

/* j is terminal: its signal is nothing but a signal now. */
void kc__job_signal_end(kc_job_t *j);

/* The last of j: frees what it has. */
void kc__job_signal_free(kc_job_ext_t *ext);

#endif
