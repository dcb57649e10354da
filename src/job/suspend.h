/* SPDX-License-Identifier: MIT */
/*
 * suspend.h - waits of the user's own: kc_suspend.
 */
#ifndef KC_JOB_SUSPEND_H
#define KC_JOB_SUSPEND_H

#include "job/job.h"

/* On its thread: the job of this wait in kc_suspend is cancelled. */
void kc__suspend_cancel(const kc_wait_t *w);

/* A message of that has come: the thread is on its own stack. */
void kc__suspend_message(kc_block_t *block);

#define KC_WAKER_MAGIC 0x3a4ec070u

#endif
