/* SPDX-License-Identifier: MIT */
/*
 * backtrace.h - the stack trace of a coroutine at rest, and looks at what is others'.
 */
#ifndef KC_CORO_BACKTRACE_H
#define KC_CORO_BACKTRACE_H

#include "coro/coro.h"

#include <stdio.h>

/*
 * The return addresses on the stack of co, innermost first; at most max. Returns how many. co has a
 * stack, which stays. If co is not at rest meanwhile the result is nonsense, but nothing is read
 * that is not on that stack.
 */
size_t kc__coro_backtrace(const kcoro_t *co, uintptr_t *pc, size_t max);

/* The same from a frame on that stack outwards, which stays: at rest or not. */
size_t kc__coro_backtrace_from(const kcoro_t *co, const void *frame, uintptr_t *pc, size_t max);

/* Prints one of them: its address, and function, file and offset as far as they are known. */
void kc__coro_print_frame(FILE *to, uintptr_t pc);

/* Copies what others may write meanwhile: from the stack of co, which stays; co is NULL: from any
 * memory that stays. False: it is not on that stack. */
bool kc__coro_peek(const kcoro_t *co, const void *from, size_t size, void *to);

#endif
