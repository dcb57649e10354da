/* SPDX-License-Identifier: MIT */
/*
 * backtrace.h - the stack trace of a coroutine at rest.
 */
#ifndef KC_CORO_BACKTRACE_H
#define KC_CORO_BACKTRACE_H

#include "coro/coro.h"

/*
 * The return addresses on the stack of co, innermost first; at most max. Returns how many. co has a
 * stack, which stays. If co is not at rest meanwhile the result is nonsense, but nothing is read
 * that is not on that stack.
 */
size_t kc__coro_backtrace(const kcoro_t *co, uintptr_t *pc, size_t max);

#endif
