/* SPDX-License-Identifier: MIT */
/*
 * token.h - delayed and interval tasks.
 */
#ifndef KC_SCHED_TOKEN_H
#define KC_SCHED_TOKEN_H

#include "sched/sched.h"

/* What tokens share: outlives the scheduler as long as a token does. */
typedef struct kc_timed_tasks kc_timed_tasks_t;

kc_timed_tasks_t *kc__timed_new(kc_sched_t *s);
void kc__timed_close(kc_timed_tasks_t *timed);

/* The scheduler ends: no run starts any more, and what the tasks own is disposed of. Main thread,
 * on its own stack. True: there was a task. */
bool kc__timed_shut(kc_timed_tasks_t *timed);

/* Starts what is due at `now`. Main thread. True: something was started. */
bool kc__timed_start_due(kc_timed_tasks_t *timed, kc_time_t now);
kc_time_t kc__timed_next_due(kc_timed_tasks_t *timed);

/* There are timed tasks. */
bool kc__timed_has_any(const kc_timed_tasks_t *timed);

/* A token that another thread has made comes in. Main thread. */
void kc__timed_take(kc_timed_tasks_t *timed, kc_block_t *block);

#endif
