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

/* On its own stack: reads the messages that were put off until then; takes the timers that are due.
 * True: something was. */
bool kc__worker_read_put_off(kc_worker_t *w);
bool kc__worker_take_due(kc_worker_t *w);

/* On another stack: is there something of that kind? Plans the next look. */
bool kc__worker_is_wanted_there(kc_worker_t *w);

/* A message to itself, which this thread reads on its own stack when the next one stops. */
void kc__worker_read_later(kc_worker_t *w, kc_block_t *block);

/* The thread where a coroutine of this affinity continues; NULL: any worker. The affinity exists.
 */
kc_worker_t *kc__sched_place(kc_sched_t *s, kc_affinity_t where);

#endif
