/* SPDX-License-Identifier: MIT */
/*
 * spread.h - even load: which worker starts a task, and which jobs migrate.
 */
#ifndef KC_SCHED_SPREAD_H
#define KC_SCHED_SPREAD_H

#include "sched/sched.h"

enum { KC_SPREAD_FEW = 3 }; /* with fewer coroutines a worker compares itself with nobody */

/* In kc_worker_t.moved of main while it does not take what any worker may do: it looks full. */
#define KC_SPREAD_AWAY ((int64_t)1 << 40)

/* w is about to start this task of its deque, NULL: none, which any worker may start. The one that
 * it should start; NULL: others should have all of them. */
KC_COLD kc_task_t *kc__spread(kc_worker_t *w, kc_task_t *task);

/* Takes in what others have offered w. True: something. */
bool kc__spread_take(kc_worker_t *w);

/* Takes what others were offered and did not take. True: something. */
bool kc__spread_take_back(kc_worker_t *w);

/* When there may be something of that kind; KC_FOREVER: never. */
kc_time_t kc__spread_due(const kc_worker_t *w);

/* Which of those that sleep (idle.h) should be woken for a task that any worker may start. */
uint64_t kc__spread_choose(const kc_sched_t *s, uint64_t asleep);

/* If w has a queue, and others sleep: those of the queue who may migrate are shared out. */
void kc__spread_share(kc_worker_t *w);

/* w, whose bit says that it sleeps, asks others for who may migrate. */
void kc__spread_ask(kc_worker_t *w);

#endif
