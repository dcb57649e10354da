/* SPDX-License-Identifier: MIT */
/*
 * stack_scale_test.c - as many stacks as the kernel's limits let there be, and their guards (C7).
 */
#define _GNU_SOURCE
#include "base/os.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void body_nothing(void *arg)
{
    (void)arg;
}

static void body_yield(void *arg)
{
    (void)arg;
    kcoro_yield();
}

TEST(mprotect_guards_stop_at_the_map_limit_with_a_clear_error)
{
    enum { N = 40000 };
    if (kc_test_under_tsan() || kc_test_under_asan() || kc_test_under_emulation())
        SKIP("needs the kernel's own limit on mappings");
    FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
    long limit = 0;
    CHECK(f && fscanf(f, "%ld", &limit) == 1);
    fclose(f);
    if (limit > 70000)
        SKIP("vm.max_map_count is %ld here", limit);

    static kcoro_t *co[N];
    int made = 0;
    kc__os_guard_force(KC_GUARD_PROTECT);
    while (made < N && (co[made] = kcoro_create(body_nothing, NULL, 0)) != NULL)
        made++;
    CHECK_LT(made, N);
    CHECK_GT(made, limit / 2 / 16 * 15); /* each is two of them, and the process has some */
    CHECK(strstr(kcoro_create_error(), "vm.max_map_count") != NULL);
    while (made-- > 0)
        kcoro_destroy(co[made]);
    kcoro_t *again = kcoro_create(body_nothing, NULL, 0); /* and it works again */
    CHECK(again != NULL);
    kcoro_destroy(again);
}

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

TEST_DIES(overflow_in_the_50000th_coroutine_dies_on_its_guard_and_is_named, SIGSEGV,
          "stack overflow in coroutine 50000 \"deep\"")
{
    enum { N = 50000 };
    int sink;

    if (kc_test_under_asan() || kc_test_under_tsan())
        SKIP("the sanitizer reports the fault itself");
    if (kc__os_guard_kind() != KC_GUARD_MARKER)
        SKIP("no guard markers here: so many mappings are not allowed");
    CHECK_EQ(kcoro_report_overflow(), 0);
    for (int i = 1; i < N; i++) {
        kcoro_t *co = kcoro_create(body_yield, NULL, 0);
        CHECK(co != NULL);
        CHECK_EQ(kcoro_resume(co), 0);
    }
    kcoro_t *co = kcoro_create(body_overflow, &sink, 0);
    kcoro_set_name(co, "deep");
    (void)!kcoro_resume(co);
}
