/* SPDX-License-Identifier: MIT */
/*
 * inbox.h - what other threads send to one, and where tasks are queued.
 */
#ifndef KC_SCHED_INBOX_H
#define KC_SCHED_INBOX_H

#include "sched/sched.h"

/* Takes what any worker may do out of a list; taken: one at a time does so. How many there were. */
size_t kc__worker_take_shared(kc_worker_t *w, kc_mpsc_t *from, KC_ATOMIC(uint32_t) * taken);

/* The same for what threads of no scheduler have brought. True: something. */
bool kc__worker_take_injector(kc_worker_t *w);

/* Takes in what other threads have sent. True: something. */
bool kc__worker_take_inbox(kc_worker_t *w);

/* When the first sleeper or, on the main thread, timed task is due; KC_FOREVER: none. */
kc_time_t kc__worker_next_due(kc_worker_t *w);

/* Queues a task that has not started, from any thread. */
void kc__task_submit(kc_task_t *task);

void kc__worker_send(kc_worker_t *w, kc_block_t *block);

#endif
