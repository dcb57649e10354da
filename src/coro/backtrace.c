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
 *          A stack that runs has no pointer saved; but the frames of who is about to wait stay, and
 *          from such a one outwards they can be followed too.
 *
 * WHY NOT  The unwind tables: the unwinder takes locks and allocates, and it trusts the stack.
 */
#define _GNU_SOURCE
#include "coro/backtrace.h"

#include "coro/switch.h"

#include <dlfcn.h>

/* In libdl before glibc 2.34, which a static program may not link. */
#pragma weak dladdr

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

/* From the frame whose pointer is fp, which lies above `below`, outwards: pc[n]... Returns how many
 * there are then. */
static UNWATCHED size_t follow(uintptr_t low, uintptr_t high, uintptr_t below, uintptr_t fp,
                               uintptr_t *pc, size_t n, size_t max)
{
    for (uintptr_t caller; n < max && fp > below; n++) {
        if (!word_at(low, high, fp + (uintptr_t)RETURN, &pc[n]) || pc[n] == 0 ||
            !word_at(low, high, fp + (uintptr_t)CALLER, &caller))
            return n;
        below = fp;
        fp = caller;
    }
    return n;
}

UNWATCHED size_t kc__coro_backtrace(const kcoro_t *co, uintptr_t *pc, size_t max)
{
    uintptr_t low = (uintptr_t)kc__stack_low(co->stack);
    uintptr_t high = low + kc__stack_size(co->stack);
    uintptr_t frame = (uintptr_t) * (void *const volatile *)&co->sp, fp;

    if (max == 0 || !word_at(low, high, frame + offsetof(struct kc_frame, FRAME_POINTER), &fp) ||
        !word_at(low, high, frame + offsetof(struct kc_frame, pc), &pc[0]))
        return 0;
    return follow(low, high, frame, fp, pc, 1, max);
}

size_t kc__coro_backtrace_from(const kcoro_t *co, const void *frame, uintptr_t *pc, size_t max)
{
    uintptr_t low = (uintptr_t)kc__stack_low(co->stack);

    return follow(low, low + kc__stack_size(co->stack), low, (uintptr_t)frame, pc, 0, max);
}

void kc__coro_print_frame(FILE *to, uintptr_t pc)
{
    Dl_info info = { 0 };
    void *at = (void *)(pc - 1); /* inside the call, not behind it */

    fprintf(to, "at 0x%llx", (unsigned long long)pc);
    if (dladdr && dladdr(at, &info) && info.dli_fname) {
        if (info.dli_sname)
            fprintf(to, " %s", info.dli_sname);
        fprintf(to, " (%s+0x%llx)", info.dli_fname,
                (unsigned long long)(pc - (uintptr_t)info.dli_fbase));
    }
    fputc('\n', to);
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
