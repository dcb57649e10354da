/* SPDX-License-Identifier: MIT */
/*
 * switch_cfi_target.c - the program that switch_cfi.py walks through, one instruction at a time.
 *
 * Main and a coroutine switch to each other in every way that there is, with equal and with other
 * control words, so that every instruction of the switch is reached. Each side has its own pattern
 * in every callee-saved register: the script sees from them which side's frames the unwinder has
 * found. The script knows main_side, coroutine_side, then and the patterns by name.
 *
 * Build it with -g -O0 from this file, test/unit/switch_probe_<arch>.S, src/coro/switch.c,
 * src/coro/switch_<arch>.S and src/base/os.c, with -Isrc and -Itest.
 */
#include "unit/switch_probe.h"

#include <stdlib.h>

/* As doubles these are ordinary numbers, which a debugger reads and writes without loss. */
#define PATTERN(side, i) ((uint64_t)0x4000000000000000 | (uint64_t)(side) << 32 | (uint64_t)(i))

uint64_t main_pattern[PROBE_ALL], coroutine_pattern[PROBE_ALL];
int thens; /* how often then has been called */

static _Alignas(16) char stack[64 * 1024];
static void *main_sp, *coroutine_sp;

static void then(void *arg)
{
    *(int *)arg += 1;
}

static void leave(void **save_sp, void *to_sp, const uint64_t *pattern, bool by_then)
{
    uint64_t found[PROBE_ALL];

    switch_probe(save_sp, to_sp, by_then ? then : NULL, &thens, pattern, found);
}

/* The first time around the control words are main's, and after that they are not. */
static void coroutine_side(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        leave(&coroutine_sp, main_sp, coroutine_pattern, false);
        leave(&coroutine_sp, main_sp, coroutine_pattern, true);
        probe_fp_write(probe_fp_round(probe_fp_read(), true));
    }
    kc__switch_last(main_sp, then, &thens);
}

static void main_side(bool start_by_then)
{
    coroutine_sp =
        kc__switch_make(stack + sizeof stack - 64, kc__switch_fp_control(), coroutine_side, NULL);
    leave(&main_sp, coroutine_sp, main_pattern, start_by_then);
    for (int i = 0; i < 4; i++)
        leave(&main_sp, coroutine_sp, main_pattern, i % 2);
}

int main(void)
{
    for (int i = 0; i < PROBE_ALL; i++) {
        main_pattern[i] = PATTERN(1, i);
        coroutine_pattern[i] = PATTERN(2, i);
    }
    for (int i = 0; i < 2 * TUNINGS; i++) {
        probe_tune(i / 2);
        main_side(i % 2);
    }
    /* Of each main_side: two of its own, three of the coroutine, and perhaps the start. */
    return thens == 2 * TUNINGS * 5 + TUNINGS ? EXIT_SUCCESS : EXIT_FAILURE;
}
