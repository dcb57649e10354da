/* SPDX-License-Identifier: MIT */
/*
 * coro_end.h - how coroutines end.
 */
#ifndef KC_CORO_CORO_END_H
#define KC_CORO_CORO_END_H

#include "coro/coro.h"

/* On the next stack, when that of a coroutine is at rest: only now may it be seen as
 * FINISHED. */
void kc__coro_ended(void *arg);

/* me leaves for `to` and never comes back. */
KC_INLINE _Noreturn void kc__coro_leave_for_good(kcoro_t *me, kcoro_t *to)
{
    kc__coro_switch_last(kc__thread(), me, to, kc__coro_ended, me);
}

/* The other one is the thread's current one and has the stack. me is gone. */
void kc__coro_hand_over(kc_thread_t *t, kcoro_t *me);

/* A scheduler's coroutine has left its stack for good, or never ran: gives back what it has. */
void kc__coro_task_end(kc_thread_t *t, kcoro_t *co);

#endif
