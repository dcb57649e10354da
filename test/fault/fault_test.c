/* SPDX-License-Identifier: MIT */
/*
 * fault_test.c - every allocation, mapping and guard fails in turn: a clear error, and nothing
 * half-made.
 *
 * The scenario is run again and again; in run k the k-th call into the kernel or the allocator
 * fails, once, and in a second series all calls from the k-th on fail. The series ends with the
 * first run in which nothing failed. After each run the books must balance: every stack is back in
 * a pool, no control block is in use, and LeakSanitizer finds nothing.
 */
#include "base/os.h"
#include "coro/coro.h"
#include "blocks_left.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

static long fail_at, calls;
static bool fail_after;

static bool fail_kth(const char *what)
{
    long call = ++calls;

    (void)what;
    return call == fail_at || (fail_after && call > fail_at);
}

static void check_books(void)
{
    CHECK_EQ(kc_test_blocks_left(KC_CORO_MAGIC), 0);
    if (kc__thread()->serial != 0)
        kc__stack_cache_drain(&kc__thread()->stacks);
    kc_stack_stats_t s = kc__stack_stats();
    CHECK_EQ(s.made, s.warm + s.cold);
}

static int cleanups_due, cleanups_run;

static void cleanup_count(void *arg)
{
    (void)arg;
    cleanups_run++;
}

static void body(void *arg)
{
    (void)arg;
    cleanups_due++;
    int rc = kc_defer(cleanup_count, NULL);
    CHECK(rc == 0 || rc == -ENOMEM);
    kcoro_yield();
}

/* Returns how many calls failed visibly. */
static int scenario(size_t stack_size, int count)
{
    enum { MAX = 100 };
    kcoro_t *co[MAX];
    int failed = 0;

    CHECK_LE(count, MAX);
    for (int i = 0; i < count; i++) {
        co[i] = kcoro_create(body, NULL, stack_size);
        if (!co[i]) {
            failed++;
            CHECK_NE(strlen(kcoro_create_error()), 0);
            continue;
        }
        CHECK_STR(kcoro_create_error(), "");
        int rc = kcoro_resume(co[i]);
        CHECK_EQ(rc, 0);
    }
    for (int i = 0; i < count; i++)
        kcoro_destroy(co[i]);
    return failed;
}

struct run {
    size_t stack_size;
    int count, failed;
};

static void *thread_scenario(void *arg)
{
    struct run *run = arg;

    run->failed = scenario(run->stack_size, run->count);
    return NULL;
}

/* On a fresh thread, so that the thread's own state is made, and fails, each time. */
static void series(size_t stack_size, int count, bool from_then_on)
{
    bool hit = true;
    int visible = 0;

    fail_after = from_then_on;
    for (fail_at = 1; hit; fail_at++) {
        struct run run = { stack_size, count, 0 };
        pthread_t thread;

        calls = 0;
        CHECK_EQ(pthread_create(&thread, NULL, thread_scenario, &run), 0);
        pthread_join(thread, NULL);
        hit = calls >= fail_at;
        visible += run.failed;
        CHECK_EQ(cleanups_run, cleanups_due);
        check_books();
        CHECK_LT(fail_at, 10000);
    }
    CHECK_GT(visible, 0); /* the faults did reach the library */
}

TEST(every_call_that_fails_once_leaves_nothing_half_made)
{
    kc__os_fault = fail_kth;
    series(0, 100, false);
}

TEST(every_call_that_fails_from_then_on_leaves_nothing_half_made)
{
    kc__os_fault = fail_kth;
    series(0, 100, true);
}

TEST(large_stacks_that_fail_leave_nothing_half_made)
{
    kc__os_fault = fail_kth;
    series(20 << 20, 3, false);
    series(20 << 20, 3, true);
}

static bool fail_guards(const char *what)
{
    return strcmp(what, "guard") == 0;
}

TEST(a_stack_without_a_guard_is_never_handed_out)
{
    kc__os_fault = fail_guards;
    CHECK_PTR(kcoro_create(body, NULL, 0), NULL);
    CHECK_PTR(kcoro_create(body, NULL, 20 << 20), NULL);
    kc__os_fault = NULL;
    kcoro_t *co = kcoro_create(body, NULL, 0);
    CHECK(co != NULL);
    kcoro_destroy(co);
    check_books();
}

static bool fail_everything(const char *what)
{
    (void)what;
    return true;
}

static void *thread_resumes_without_memory(void *arg)
{
    kc__os_fault = fail_everything;
    CHECK_EQ(kcoro_resume(arg), -ENOMEM);
    CHECK_PTR(kcoro_create_main(), NULL);
    CHECK_NE(strlen(kcoro_create_error()), 0);
    kc__os_fault = NULL;
    return NULL;
}

TEST(resume_on_a_thread_without_memory_is_enomem_and_changes_nothing)
{
    kcoro_t *co = kcoro_create(body, NULL, 0);
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, thread_resumes_without_memory, co), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(kcoro_state(co), KCORO_CREATED);
    CHECK_EQ(kcoro_resume(co), 0);
    kcoro_destroy(co);
}

TEST(report_overflow_without_memory_is_enomem)
{
    kcoro_t *co = kcoro_create(body, NULL, 0);
    stack_t now;

    CHECK_EQ(sigaltstack(NULL, &now), 0);
    bool none = now.ss_flags & SS_DISABLE; /* sanitizers have one, and then no memory is needed */
    kc__os_fault = fail_everything;
    int rc = kcoro_report_overflow();
    kc__os_fault = NULL;
    CHECK_EQ(rc, none ? -ENOMEM : 0);
    CHECK_EQ(kcoro_report_overflow(), 0);
    kcoro_destroy(co);
}
