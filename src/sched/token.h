/* SPDX-License-Identifier: MIT */
/*
 * token.h - delayed and interval tasks.
 */
#ifndef KC_SCHED_TOKEN_H
#define KC_SCHED_TOKEN_H

#include "sched/sched.h"

/* What tokens share: outlives the scheduler as long as a token does. */
typedef struct kc_hub kc_hub_t;

kc_hub_t *kc__hub_new(kc_sched_t *s);
void kc__hub_close(kc_hub_t *hub);

/* The scheduler ends: no run starts any more, and what the tasks own is disposed of. Main thread,
 * on its own stack. True: there was a task. */
bool kc__hub_shut(kc_hub_t *hub);

/* Starts what is due at `now`. Main thread. True: something was started. */
bool kc__hub_start_due(kc_hub_t *hub, kc_time_t now);
kc_time_t kc__hub_next_due(kc_hub_t *hub);

/* There are timed tasks. */
bool kc__hub_any(const kc_hub_t *hub);

/* A token that another thread has made comes in. Main thread. */
void kc__hub_take(kc_hub_t *hub, kc_block_t *block);

#endif
