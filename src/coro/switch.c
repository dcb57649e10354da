/* SPDX-License-Identifier: MIT */
/*
 * switch.c - the part of the context switch that is not assembly.
 */
#include "coro/switch.h"

#if defined(__x86_64__)

/* Read by switch_x86_64.S, whose head says why. Constant after kc__switch_tune. */
extern uint8_t kc__switch_load_mxcsr;
uint8_t kc__switch_load_mxcsr;

void kc__switch_tune(void)
{
    __builtin_cpu_init();
    kc__switch_load_mxcsr = __builtin_cpu_is("amd") != 0;
}

#else

void kc__switch_tune(void)
{
}

#endif

void kc__switch_returned(void)
{
    kc__die("a coroutine's entry has returned past its trampoline " KC_RULE("C2"));
}
