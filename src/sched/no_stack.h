/* SPDX-License-Identifier: MIT */
/*
 * no_stack.h - tasks that got no stack.
 */
#ifndef KC_SCHED_NO_STACK_H
#define KC_SCHED_NO_STACK_H

#include "sched/sched.h"

/* task, which w was to start, got no stack: it waits for one, or fails if none can come. first: it
 * is the first time. */
KC_COLD void kc__worker_no_stack(kc_worker_t *w, kc_task_t *task, bool first);

/* One that waits for a stack, and that any worker may start, is w's to start now. False: there is
 * none, or it is too early for another try. */
bool kc__worker_take_without_stack(kc_worker_t *w);

/* w may try to start what got no stack, if enough time has passed; in any case. */
bool kc__worker_check_retry(kc_worker_t *w);
void kc__worker_retry(kc_worker_t *w);

/* Something waits for a stack that w might start. */
bool kc__worker_is_awaiting_stack(const kc_worker_t *w);

/* All of w's scheduler waits for ever: the next one that gets no stack fails, unless something has
 * run until then. */
void kc__worker_give_up(kc_worker_t *w);

/* When w, which has nothing to do until then, tries again; on the clock of both times. */
kc_time_t kc__worker_retry_before(kc_worker_t *w, kc_time_t until, kc_time_t now);

extern KC_HIDDEN kc_time_t kc__no_stack_patience; /* tests have less of it */

#endif
