/* SPDX-License-Identifier: MIT */
/*
 * sanitize.h - tells AddressSanitizer, ThreadSanitizer, LeakSanitizer and Valgrind about our
 * stacks.
 *
 * WHAT     The tools are found when the program runs: their entry points are weak references, so
 *          the same library works in a program built with or without them, and no structure changes
 *          its layout. With no tool a switch costs one load and one branch more.
 *
 * RULES    R1 the calls around a switch stand in the very function that calls kc__switch, hence
 *             always_inline: ThreadSanitizer keeps a shadow call stack per fiber, and a function
 *             that returned on another fiber than it was entered on would underflow it.
 *          R2 the last switch away from a stack says so (AddressSanitizer then frees its fake
 *             frames).
 *          R3 a stack is unpoisoned before another coroutine gets it.
 *          R4 to ThreadSanitizer a switch orders: what runs on one thread runs one after the other,
 *             and a program that keeps jobs on one thread for that reason is right. What is handed
 *             from thread to thread is told by base/tsan.h.
 *
 * WHY NOT  A fiber of ThreadSanitizer's kept for each stack, instead of one for each coroutine: its
 *          runtime dies as often when there are more than 255 (docs/guide/coroutines.md), and the
 *          next coroutine would seem to come after all that the last one has seen.
 */
#ifndef KC_CORO_SANITIZE_H
#define KC_CORO_SANITIZE_H

#include "base/base.h"

enum { KC_TOOL_ASAN = 1, KC_TOOL_TSAN = 2, KC_TOOL_LSAN = 4, KC_TOOL_VALGRIND = 8 };

/* The tools that are here. Set once by kc__tools_find, before the first coroutine. */
extern KC_HIDDEN uint32_t kc__tools;
void kc__tools_find(void);

extern void __sanitizer_start_switch_fiber(void **fake, const void *low, size_t size)
    __attribute__((weak));
extern void __sanitizer_finish_switch_fiber(void *fake, const void **low, size_t *size)
    __attribute__((weak));
extern void __tsan_switch_to_fiber(void *fiber, unsigned flags) __attribute__((weak));

/* What a tool knows of one stack: the thread's own or a coroutine's. */
typedef struct {
    void *word; /* A fake stack (ASan), a fiber (TSan) or a stack's number (Valgrind) */
} kc_tool_t;

/* Before kc__switch. last: nobody will come back to the stack that we leave. */
KC_INLINE void kc__tools_leave(kc_tool_t *from, kc_tool_t *to, const void *to_low, size_t to_size,
                               bool last)
{
    if (kc__tools & KC_TOOL_ASAN)
        __sanitizer_start_switch_fiber(last ? NULL : &from->word, to_low, to_size);
    if (kc__tools & KC_TOOL_TSAN)
        __tsan_switch_to_fiber(to->word, 0);
}

/* After kc__switch, or first thing on a fresh stack. */
KC_INLINE void kc__tools_arrive(kc_tool_t *me)
{
    if (kc__tools & KC_TOOL_ASAN)
        __sanitizer_finish_switch_fiber(me->word, NULL, NULL);
}

/* A thread's own stack. */
void kc__tools_thread(kc_tool_t *tool);

/* A coroutine's stack, from its start to its end, both called from another stack. */
void kc__tools_start(kc_tool_t *tool, void *low, size_t size);
void kc__tools_end(kc_tool_t *tool, void *low, size_t size);

/* What reports call it. */
void kc__tools_name(kc_tool_t *tool, const char *name);

/* Memory below the stack pointer of a stack at rest is about to be written from another stack. */
void kc__tools_below(void *low, size_t size);

#endif
