/* SPDX-License-Identifier: MIT */
/*
 * leave.h - how a coroutine stops, and another one continues.
 */
#ifndef KC_SCHED_LEAVE_H
#define KC_SCHED_LEAVE_H

#include "sched/sched.h"

/*
 * The caller, whose job's coroutine is co, stops here; what is ready goes on. It returns when
 * somebody has made co ready and its turn has come.
 */
int kc__worker_leave(kc_thread_t *t, kcoro_t *co);
int kc__worker_leave_parked(kc_thread_t *t, kcoro_t *co); /* co is PARKED, or READY already */

/* The same, and co is ready at once, behind the others. */
int kc__worker_yield(kc_thread_t *t, kcoro_t *co);

/* The same, and it goes on on thread `to`: its task's worker says so already. */
void kc__worker_hop(kc_thread_t *t, kcoro_t *co);

/* The same, and `to`, which has not run yet, runs here and now; co is the next one. */
int kc__worker_run_now(kc_thread_t *t, kcoro_t *co, kcoro_t *to);

/* `to`, which waits on this thread, may run, and does so now if nothing else is due: then co, the
 * caller's, is ready behind all others. */
void kc__worker_hand_over(kc_thread_t *t, kcoro_t *co, kcoro_t *to);

/* The caller's body is over, and its stack is empty but for the frame that calls. A task that may
 * start there at once; NULL: the caller should leave. */
kc_task_t *kc__worker_next_body(kc_worker_t *w);

/* It cannot start here and now after all: it stays the next one to be started, and others may take
 * what is for any worker. */
void kc__worker_put_back(kc_worker_t *w, kc_task_t *task);

/* The caller's body is over: `to`, which may be the thread's own stack, or, if that is NULL, what
 * is ready goes on, and reaps it. */
_Noreturn void kc__worker_end(kcoro_t *me, kc_task_t *task, kcoro_t *to);

#endif
