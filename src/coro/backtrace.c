/* SPDX-License-Identifier: MIT */
/*
 * backtrace.c - the stack trace of a coroutine at rest.
 *
 * WHAT     Follows the frame pointers, from the one that the switch has saved. The library keeps
 *          them, and so does a program that is compiled with -fno-omit-frame-pointer; others end
 *          the trace early, or leave frames out. Each address is checked before it is read: it
 *          lies on the stack, and above the one before. So whatever lies there, this ends and does
 *          no harm.
 *
 * WHY NOT  The unwind tables: the unwinder takes locks and allocates, and it trusts the stack.
 */
#include "coro/backtrace.h"

#include "coro/switch.h"

/* Where a frame's pointer points: the caller's lies at +CALLER from there, the return address at
 * +RETURN. */
#if defined(__riscv)
enum { CALLER = -16, RETURN = -8 };
#define FRAME_POINTER s0
#elif defined(__aarch64__)
enum { CALLER = 0, RETURN = 8 };
#define FRAME_POINTER fp
#else
enum { CALLER = 0, RETURN = 8 };
#define FRAME_POINTER rbp
#endif

/* Sanitizers do not let one look at another's stack. */
#define UNWATCHED __attribute__((noinline, no_sanitize("address"), no_sanitize("thread")))

/* The word at address `at`, if it is one of the stack's. */
static UNWATCHED bool word_at(uintptr_t low, uintptr_t high, uintptr_t at, uintptr_t *word)
{
    if (at % sizeof(uintptr_t) != 0 || at < low || at > high - sizeof(uintptr_t))
        return false;
    *word = *(const volatile uintptr_t *)at;
    return true;
}

UNWATCHED size_t kc__coro_backtrace(const kcoro_t *co, uintptr_t *pc, size_t max)
{
    uintptr_t low = (uintptr_t)kc__stack_low(co->stack);
    uintptr_t high = low + kc__stack_size(co->stack);
    uintptr_t frame = (uintptr_t) * (void *const volatile *)&co->sp, fp, caller;
    size_t n = 0;

    if (max == 0 || !word_at(low, high, frame + offsetof(struct kc_frame, FRAME_POINTER), &fp) ||
        !word_at(low, high, frame + offsetof(struct kc_frame, pc), &pc[n]))
        return 0;
    for (n = 1; n < max && fp > frame; n++) {
        if (!word_at(low, high, fp + (uintptr_t)RETURN, &pc[n]) || pc[n] == 0 ||
            !word_at(low, high, fp + (uintptr_t)CALLER, &caller))
            return n;
        frame = fp;
        fp = caller;
    }
    return n;
}

UNWATCHED bool kc__coro_peek(const kcoro_t *co, const void *from, size_t size, void *to)
{
    uintptr_t low = co ? (uintptr_t)kc__stack_low(co->stack) : 0;
    uintptr_t high = co ? low + kc__stack_size(co->stack) : UINTPTR_MAX;
    const volatile unsigned char *at = from;

    if ((uintptr_t)from < low || (uintptr_t)from > high - size)
        return false;
    for (size_t i = 0; i < size; i++)
        ((volatile unsigned char *)to)[i] = at[i];
    return true;
}
