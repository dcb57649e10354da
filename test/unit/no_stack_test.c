/* SPDX-License-Identifier: MIT */
/*
 * no_stack_test.c - jobs for which there is no stack (S15): what can never have one is refused,
 * what may get one later waits and is named, and what waits for nothing that could help fails.
 */
#include "base/os.h"
#include "job_kit.h"

#include <stdio.h>
#include <sys/resource.h>

static int returns_zero(void *arg UNUSED)
{
    return 0;
}

/* ---- what can never have one ---------------------------------------------------------------- */

static void runs_nothing(void *arg UNUSED)
{
}

/* All that a launch with so large a stack is said. */
static void is_refused(size_t size)
{
    kc_launch_opts_t opts = { .stack = size };
    kc_job_t *j = NULL;
    kc_deferred_t *d = NULL;

    CHECK_EQ(kc_launch_job(returns_zero, NULL, &opts, &j), -ENOMEM);
    CHECK_EQ(kc_async_job(returns_zero, NULL, &opts, &d), -ENOMEM);
    opts.flags = KC_JOB_NOW;
    CHECK_EQ(kc_launch_job(returns_zero, NULL, &opts, &j), -ENOMEM);
    opts.flags = 0;
    CHECK_EQ(kc_group_create(&opts, &j), -ENOMEM);
    CHECK(!j && !d);
}

static int is_refused_in_a_job(void *arg)
{
    is_refused(*(const size_t *)arg);
    return 0;
}

static const size_t absurd[] = { (size_t)1 << 50, SIZE_MAX / 4, SIZE_MAX / 2 + 1, SIZE_MAX };
enum { ABSURD = sizeof absurd / sizeof absurd[0] };

TEST(a_stack_that_is_larger_than_the_address_space_is_refused_at_the_launch)
{
    for (int i = 0; i < ABSURD; i++) {
        kc_sched_opts_t opts = { .workers = KC_NO_WORKERS, .flags = KC_SCHED_VIRTUAL_TIME };
        CHECK_EQ(kc_run(is_refused_in_a_job, (void *)(uintptr_t)&absurd[i], &opts), 0);
    }
}

TEST(a_scheduler_with_stacks_that_are_larger_than_the_address_space_is_refused)
{
    for (int i = 0; i < ABSURD; i++) {
        kc_sched_opts_t opts = { .stack_size = absurd[i] };
        kc_sched_t *s = NULL;
        CHECK_EQ(kc_sched_create(&opts, &s), -ENOMEM);
        CHECK_EQ(kc_run(returns_zero, NULL, &opts), -ENOMEM);
        CHECK_PTR(s, NULL);
    }
}

TEST(a_coroutine_with_a_stack_that_is_larger_than_the_address_space_is_null)
{
    for (int i = 0; i < ABSURD; i++) {
        CHECK_PTR(kcoro_create(runs_nothing, NULL, absurd[i]), NULL);
        CHECK(strstr(kcoro_create_error(), "stack") != NULL);
    }
}

/* Not where a tool, or an emulator, has address space of its own. */
static void limit_address_space(size_t bytes)
{
    if (kc_test_under_asan() || kc_test_under_tsan() || kc_test_under_valgrind() ||
        kc_test_under_emulation())
        SKIP("RLIMIT_AS is not for this");
    CHECK_EQ(setrlimit(RLIMIT_AS, &(struct rlimit){ bytes, bytes }), 0);
}

TEST(a_stack_that_is_larger_than_the_limit_on_the_address_space_is_refused_at_the_launch)
{
    size_t size = (size_t)4 << 30;

    limit_address_space((size_t)2 << 30);
    CHECK_EQ(kc_run(is_refused_in_a_job, &size, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
             0);
}
