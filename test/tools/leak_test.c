/* SPDX-License-Identifier: MIT */
/*
 * leak_test.c - LeakSanitizer finds what only a parked stack points to, and misses nothing else
 * (C9).
 */
#include "harness.h"

#include <kcoro/kcoro.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

static int leaks(void)
{
    if (!__lsan_do_recoverable_leak_check)
        SKIP("not built with LeakSanitizer");
    return __lsan_do_recoverable_leak_check();
}

/* Held in a local variable across a park: nothing but this stack points to it. */
static void holds_memory(void *arg)
{
    char *volatile memory = malloc(1000);

    (void)arg;
    CHECK(memory != NULL);
    kcoro_park();
    free(memory);
}

static void wipe(void *arg)
{
    volatile char frame[2048];

    (void)arg;
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = 0;
}

TEST(what_only_a_parked_stack_points_to_is_not_leaked)
{
    enum { N = 20 };
    kcoro_t *co[N];

    for (int i = 0; i < N; i++) {
        co[i] = kcoro_create(holds_memory, NULL, 0);
        CHECK_EQ(kcoro_resume(co[i]), 0);
    }
    wipe(NULL);
    CHECK_EQ(leaks(), 0);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(kcoro_unpark(co[i]), 0);
        CHECK_EQ(kcoro_resume(co[i]), 0);
        kcoro_destroy(co[i]);
    }
    CHECK_EQ(leaks(), 0);
}

static void frees_arg(void *arg)
{
    free(arg);
}

TEST(what_only_a_control_block_points_to_is_not_leaked)
{
    kcoro_t *co = kcoro_create(frees_arg, malloc(500), 0);

    wipe(NULL);
    CHECK_EQ(leaks(), 0);
    CHECK_EQ(kcoro_resume(co), 0);
    kcoro_destroy(co);
}

static void loses_memory(void *arg)
{
    char *volatile memory = malloc(1000);

    (void)arg;
    CHECK(memory != NULL);
    memory = NULL;
    wipe(arg);
}

TEST(what_a_coroutine_really_leaks_is_found)
{
    (void)leaks();
    for (int i = 0; i < 5; i++) {
        kcoro_t *co = kcoro_create(loses_memory, NULL, 0);
        CHECK_EQ(kcoro_resume(co), 0);
        kcoro_destroy(co); /* the stack is free: what it once pointed to counts no more */
    }
    CHECK_NE(leaks(), 0);
    _exit(0); /* without the check at exit, which would find it once more */
}

static void body_suspended_in_a_frame(void *arg)
{
    volatile char frame[200];

    memset((void *)frame, 1, sizeof frame);
    kcoro_yield();
    *(volatile char *)arg = frame[7];
}

/* The address space of this process, in KiB. */
static long address_space(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    CHECK(f && fscanf(f, "%ld", &pages) == 1);
    fclose(f);
    return pages * 4;
}

/* With stack-use-after-return, AddressSanitizer maps megabytes of fake frames for each stack. */
TEST(destroying_suspended_coroutines_leaks_no_fake_frames)
{
    char sink;
    long before = 0;

    if (!kc_test_under_asan())
        SKIP("not built with AddressSanitizer");
    for (int i = 0; i < 600; i++) {
        kcoro_t *co = kcoro_create(body_suspended_in_a_frame, &sink, 0);
        CHECK_EQ(kcoro_resume(co), 0);
        kcoro_destroy(co);
        if (i == 100)
            before = address_space();
    }
    CHECK_LE(address_space() - before, 100 * 1024);
}
