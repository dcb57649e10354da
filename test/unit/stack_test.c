/* SPDX-License-Identifier: MIT */
/*
 * stack_test.c - stacks: sizes, guards, warm reuse, memory that comes back (C7).
 */
#define _GNU_SOURCE
#include "base/os.h"
#include "coro/coro.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void body_nothing(void *arg)
{
    (void)arg;
}

static void body_yield(void *arg)
{
    (void)arg;
    kcoro_yield();
}

/* A status line of this process, in KiB. */
static long status_kib(const char *name)
{
    char line[256];
    long value = -1;
    FILE *f = fopen("/proc/self/status", "r");

    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtol(line + strlen(name) + 1, NULL, 10);
    if (f)
        fclose(f);
    return value;
}

static int asan_factor(void)
{
    return kc_test_under_asan() ? 4 : 1;
}

TEST(the_default_stack_has_64_kib)
{
    kcoro_t *co = kcoro_create(body_nothing, NULL, 0);

    CHECK_EQ(kc__stack_size(co->stack), 64 * 1024 * asan_factor());
    kcoro_destroy(co);
}

TEST(sizes_are_rounded_up_to_a_class_and_large_ones_to_pages)
{
    static const size_t asked[] = { 1,      4096,    16384,   16385,         65536,
                                    100000, 1 << 20, 8 << 20, (8 << 20) + 1, 30 << 20 };

    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        kcoro_t *co = kcoro_create(body_nothing, NULL, asked[i]);
        CHECK(co != NULL);
        size_t size = kc__stack_size(co->stack);
        CHECK_GE(size, asked[i]);
        CHECK_LE(size, asked[i] < 8192 ? 65536 : asked[i] * 2 * (size_t)asan_factor());
        CHECK_EQ(kcoro_resume(co), 0);
        CHECK_EQ(kcoro_state(co), KCORO_FINISHED);
        kcoro_destroy(co);
    }
}

static void body_use(void *arg)
{
    size_t bytes = *(size_t *)arg;
    volatile char *p = __builtin_alloca(bytes);

    for (size_t i = 0; i < bytes; i += 512)
        p[i] = 1;
    kcoro_yield();
}

static void body_use_pages(void *arg)
{
    size_t bytes = *(size_t *)arg;
    volatile char *p = __builtin_alloca(bytes);

    for (size_t i = 0; i < bytes; i += 4096)
        p[bytes - 1 - i] = 1;
    kcoro_yield();
}

TEST(almost_all_of_the_size_that_was_asked_for_is_usable)
{
    size_t bytes = 60 * 1024;
    kcoro_t *co = kcoro_create(body_use, &bytes, 64 * 1024);

    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_GE(kcoro_stack_used(co), bytes);
    CHECK_LE(kcoro_stack_used(co), 64 * 1024 * asan_factor());
    kcoro_destroy(co);
}

TEST(stack_used_is_zero_before_the_start_and_grows_with_use)
{
    size_t little = 100, much = 30000;
    kcoro_t *a = kcoro_create(body_use, &little, 0);
    kcoro_t *b = kcoro_create(body_use, &much, 0);

    CHECK_EQ(kcoro_stack_used(a), 0);
    CHECK_EQ(kcoro_resume(a), 0);
    CHECK_EQ(kcoro_resume(b), 0);
    CHECK_GT(kcoro_stack_used(a), 100);
    CHECK_LT(kcoro_stack_used(a), 8192);
    CHECK_GE(kcoro_stack_used(b), much);
    CHECK_EQ(kcoro_resume(b), 0);
    CHECK_EQ(kcoro_state(b), KCORO_FINISHED);
    CHECK_GE(kcoro_stack_used(b), much); /* readable after the end */
    kcoro_destroy(a);
    kcoro_destroy(b);
}

TEST(debug_mode_hands_out_clean_stacks_so_that_the_mark_is_exact)
{
    size_t much = 40000, little = 100;

    setenv("KCORO_DEBUG", "1", 1);
    for (int i = 0; i < 3; i++) {
        kcoro_t *co = kcoro_create(body_use, i % 2 ? &little : &much, 0);
        CHECK_EQ(kcoro_resume(co), 0);
        if (i % 2)
            CHECK_LT(kcoro_stack_used(co), 8192);
        kcoro_destroy(co);
    }
}

static bool faults(const void *p)
{
    int fds[2];
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    bool refused = write(fds[1], p, 1) < 0 && errno == EFAULT;
    close(fds[0]);
    close(fds[1]);
    return refused;
}

static void check_guards(void)
{
    enum { N = 300 };
    kcoro_t *co[N];

    for (int i = 0; i < N; i++) {
        co[i] = kcoro_create(body_yield, NULL, 0);
        CHECK_EQ(kcoro_resume(co[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        char *low = kc__stack_low(co[i]->stack);
        CHECK(faults(low - 1));
        CHECK(faults(low - kc__os_page_size()));
        CHECK(!faults(low));
        CHECK(!faults(low + kc__stack_size(co[i]->stack) - 1));
    }
    for (int i = 0; i < N; i++)
        kcoro_destroy(co[i]);
}

TEST(every_stack_has_a_guard_right_below_it)
{
    check_guards();
}

TEST(how_guards_are_made_is_found_out_without_a_descriptor)
{
    kc_guard_kind_t with = kc__os_guard_kind();
    struct rlimit limit, none;

    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    kc__os_guard_force(KC_GUARD_UNKNOWN);
    kc_guard_kind_t without = kc__os_guard_kind();
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_EQ(without, with);
}

TEST(guards_by_mprotect_work)
{
    kc__os_guard_force(KC_GUARD_PROTECT);
    check_guards();
}

TEST(guards_survive_trimming)
{
    enum { N = 1000 };
    static kcoro_t *co[N];
    if (kc_test_under_tsan())
        SKIP("too many fibers");

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            co[i] = kcoro_create(body_yield, NULL, 0);
            CHECK_EQ(kcoro_resume(co[i]), 0);
            CHECK(faults(kc__stack_low(co[i]->stack) - 1));
        }
        for (int i = 0; i < N; i++)
            kcoro_destroy(co[i]);
        CHECK_GT(kc__stack_stats().cold, 0);
    }
}

TEST(a_warm_stack_is_handed_out_again_last_in_first_out)
{
    kcoro_t *co = kcoro_create(body_nothing, NULL, 0);
    kc_stack_t stack = co->stack;

    kcoro_destroy(co);
    co = kcoro_create(body_nothing, NULL, 0);
    CHECK_EQ(co->stack, stack);
    kcoro_destroy(co);
}

TEST(stack_tops_are_staggered_by_cache_lines)
{
    enum { N = 62 };
    kcoro_t *co[N];
    unsigned long long seen = 0;

    for (int i = 0; i < N; i++) {
        co[i] = kcoro_create(body_nothing, NULL, 0);
        char *end = kc__stack_low(co[i]->stack) + kc__stack_size(co[i]->stack);
        size_t step = (size_t)(end - kc__stack_top(co[i]->stack));
        CHECK_EQ(step % 64, 0);
        CHECK_LT(step, 2048);
        seen |= 1ull << (step / 64);
    }
    CHECK_GE(__builtin_popcountll(seen), 25);
    for (int i = 0; i < N; i++)
        kcoro_destroy(co[i]);
}

TEST_SLOW(resident_memory_returns_after_a_burst, 60000)
{
    enum { N = 6000 };
    if (kc_test_under_tsan() || kc_test_under_asan() || kc_test_under_emulation())
        SKIP("the tool's own memory hides ours");
    kcoro_t **co = malloc(N * sizeof *co);
    long before = status_kib("VmRSS:");

    for (int i = 0; i < N; i++) {
        co[i] = kcoro_create(body_yield, NULL, 0);
        CHECK(co[i] != NULL);
        CHECK_EQ(kcoro_resume(co[i]), 0);
    }
    long peak = status_kib("VmRSS:");
    for (int i = 0; i < N; i++)
        kcoro_destroy(co[i]);
    long after = status_kib("VmRSS:");
    free(co);
    CHECK_GE(peak - before, (long)N * 4);
    CHECK_LE(after - before, (peak - before) / 10);
}

/* Deep use of large stacks: what may stay warm is bounded in bytes, not in stacks. */
TEST_SLOW(large_stacks_do_not_stay_resident, 60000)
{
    enum { N = 24 };
    size_t much = 3 << 19;
    kcoro_t *co[N];

    if (kc_test_under_tsan() || kc_test_under_asan() || kc_test_under_emulation())
        SKIP("the tool's own memory hides ours");
    long before = status_kib("VmRSS:");
    for (int i = 0; i < N; i++) {
        co[i] = kcoro_create(body_use_pages, &much, 4 << 20);
        CHECK_EQ(kcoro_resume(co[i]), 0);
    }
    CHECK_GE(status_kib("VmRSS:") - before, N * 1500);
    for (int i = 0; i < N; i++)
        kcoro_destroy(co[i]);
    CHECK_LE(status_kib("VmRSS:") - before, 25 * 1024);
}

TEST(all_stacks_are_accounted_for)
{
    enum { N = 1000 };
    static kcoro_t *co[N];

    for (int i = 0; i < N; i++)
        co[i] = kcoro_create(body_nothing, NULL, 0);
    for (int i = 0; i < N; i++)
        kcoro_destroy(co[i]);
    kc__stack_cache_drain(&kc__thread()->stacks);
    kc_stack_stats_t s = kc__stack_stats();
    CHECK_EQ(s.made, s.warm + s.cold);
    CHECK_GE(s.made, N);
}

static void *thread_makes_some(void *arg)
{
    for (int i = 0; i < 100; i++) {
        kcoro_t *co = kcoro_create(body_nothing, NULL, 0);
        CHECK_EQ(kcoro_resume(co), 0);
        kcoro_destroy(co);
    }
    return arg;
}

TEST(a_thread_that_ends_gives_its_stacks_and_blocks_back)
{
    pthread_t thread;

    for (int i = 0; i < 50; i++) {
        CHECK_EQ(pthread_create(&thread, NULL, thread_makes_some, NULL), 0);
        pthread_join(thread, NULL);
    }
    kc_stack_stats_t s = kc__stack_stats();
    CHECK_EQ(s.made, s.warm + s.cold);
    CHECK_LE(s.made, 64);
}

/* ---- overflow (C7) ------------------------------------------------------------------------- */

static int __attribute__((noinline)) recurse(volatile int depth)
{
    volatile char frame[256];

    frame[0] = (char)depth;
    return depth > 1000000 ? frame[0] : recurse(depth + 1) + frame[0];
}

static void body_overflow(void *arg)
{
    *(volatile int *)arg = recurse(0);
}

static void overflow_in(kcoro_t *co)
{
    kcoro_set_name(co, "deep");
    (void)!kcoro_resume(co);
}

TEST_DIES(overflow_dies_on_the_guard, SIGSEGV, "")
{
    int sink;

    overflow_in(kcoro_create(body_overflow, &sink, 0));
}

static void skip_overflow_report(void)
{
    if (kc_test_under_asan() || kc_test_under_tsan())
        SKIP("the sanitizer reports the fault itself");
}

TEST_DIES(overflow_is_reported_in_debug_mode, SIGSEGV,
          "stack overflow in coroutine 1 \"deep\": its stack of 65536 bytes")
{
    int sink;

    skip_overflow_report();
    setenv("KCORO_DEBUG", "1", 1);
    overflow_in(kcoro_create(body_overflow, &sink, 0));
}

TEST_DIES(overflow_of_a_coroutine_without_a_name_is_reported, SIGSEGV,
          "stack overflow in coroutine 1: its stack of 65536 bytes")
{
    int sink;

    skip_overflow_report();
    setenv("KCORO_DEBUG", "1", 1);
    (void)!kcoro_resume(kcoro_create(body_overflow, &sink, 0));
}

TEST_DIES(overflow_is_reported_when_asked_for, SIGSEGV,
          "stack overflow in coroutine 1 \"deep\": its stack of 131072 bytes")
{
    int sink;

    skip_overflow_report();
    CHECK_EQ(kcoro_report_overflow(), 0);
    CHECK_EQ(kcoro_report_overflow(), 0);
    overflow_in(kcoro_create(body_overflow, &sink, 100000));
}

static void *thread_overflows(void *arg)
{
    overflow_in(kcoro_create(body_overflow, arg, 0));
    return NULL;
}

TEST_DIES(overflow_on_another_thread_is_reported, SIGSEGV, "stack overflow in coroutine")
{
    pthread_t thread;
    int sink;

    skip_overflow_report();
    CHECK_EQ(kcoro_report_overflow(), 0);
    CHECK_EQ(pthread_create(&thread, NULL, thread_overflows, &sink), 0);
    pthread_join(thread, NULL);
}

static void on_segv(int number)
{
    (void)number;
    static const char text[] = "the program's own handler ran\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    signal(SIGSEGV, SIG_DFL);
}

TEST_DIES(an_earlier_handler_of_the_program_is_called_after_the_report, SIGSEGV,
          "the program's own handler ran")
{
    int sink;

    skip_overflow_report();
    struct sigaction action = { .sa_handler = on_segv, .sa_flags = SA_ONSTACK };
    sigaction(SIGSEGV, &action, NULL);
    CHECK_EQ(kcoro_report_overflow(), 0);
    overflow_in(kcoro_create(body_overflow, &sink, 0));
}

TEST_DIES(a_fault_that_is_no_overflow_dies_as_before, SIGSEGV, "")
{
    skip_overflow_report();
    CHECK_EQ(kcoro_report_overflow(), 0);
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
}

/* ---- alignment ----------------------------------------------------------------------------- */

static void body_aligned(void *arg)
{
    _Alignas(16) volatile char here[16];

    /* The compiler trusts the stack pointer at entry; a wrong one shows in the address. */
    *(uintptr_t *)arg = (uintptr_t)here % 16;
    volatile long double x = 1.5L;
    char text[64];
    snprintf(text, sizeof text, "%.2Lf %g", x, 2.5);
    CHECK_STR(text, "1.50 2.5");
}

TEST(stacks_are_16_byte_aligned_at_entry)
{
    for (int i = 0; i < 100; i++) {
        uintptr_t rest = 1;
        kcoro_t *co = kcoro_create(body_aligned, &rest, 0);
        CHECK_EQ(kcoro_resume(co), 0);
        CHECK_EQ(rest, 0);
        kcoro_destroy(co);
    }
}
