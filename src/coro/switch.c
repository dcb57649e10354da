/* SPDX-License-Identifier: MIT */
/*
 * switch.c - the part of the context switch that is not assembly: the first frame of a stack.
 */
#include "coro/switch.h"

#include <string.h>

#if defined(__x86_64__)

/* Read by switch_x86_64.S, whose head says why. Constant after kc__switch_tune. */
extern uint8_t kc__switch_load_mxcsr;
uint8_t kc__switch_load_mxcsr;

void kc__switch_tune(void)
{
    __builtin_cpu_init();
    kc__switch_load_mxcsr = __builtin_cpu_is("amd") != 0;
}

static void frame_set(struct kc_frame *f, void (*entry)(void *), void *arg)
{
    f->r12 = (uintptr_t)arg;
    f->r13 = (uintptr_t)entry;
}

#elif defined(__aarch64__)

void kc__switch_tune(void)
{
}

static void frame_set(struct kc_frame *f, void (*entry)(void *), void *arg)
{
    f->x19 = (uintptr_t)arg;
    f->x20 = (uintptr_t)entry;
}

#else

void kc__switch_tune(void)
{
}

static void frame_set(struct kc_frame *f, void (*entry)(void *), void *arg)
{
    f->s1 = (uintptr_t)arg;
    f->s2 = (uintptr_t)entry;
}

#endif

void *kc__switch_make(void *top, uint64_t fp_control, void (*entry)(void *arg), void *arg)
{
    /* kc__switch_start runs with the stack pointer just above the frame: 16-byte aligned, as before
     * a call on all three architectures. */
    struct kc_frame *f = (struct kc_frame *)((uintptr_t)top & ~(uintptr_t)15) - 1;

    memset(f, 0, sizeof *f);
    f->fp_control = fp_control;
    f->pc = (uintptr_t)kc__switch_start + KC_SWITCH_START_SKIP;
    frame_set(f, entry, arg);
    return f;
}

void kc__switch_returned(void)
{
    kc__die("a coroutine's entry has returned past its trampoline (rule C2)");
}
