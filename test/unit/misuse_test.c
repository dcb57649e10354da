/* SPDX-License-Identifier: MIT */
/*
 * misuse_test.c - bad use of coroutines aborts with a line that names the call and the rule (C2,
 * C6, C8).
 */
#include "coro/coro.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <pthread.h>

static void resume(kcoro_t *co)
{
    CHECK_EQ(kcoro_resume(co), 0);
}

static void body_nothing(void *arg)
{
    (void)arg;
}

static void body_yields(void *arg)
{
    (void)arg;
    kcoro_yield();
}

static void *thread_destroys(void *arg)
{
    kcoro_destroy(arg);
    return NULL;
}

/* Runs fn(arg) on a thread of its own and waits for it. */
static void on_other_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, fn, arg), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST_ABORTS(yield_outside_a_coroutine_aborts, "kcoro_yield: called outside a coroutine (rule C2,")
{
    kcoro_yield();
}

TEST_ABORTS(park_outside_a_coroutine_aborts, "kcoro_park: called outside a coroutine (rule C2,")
{
    kcoro_park();
}

TEST_ABORTS(yield_in_the_main_coroutine_aborts, "kcoro_yield: the main coroutine has no resumer")
{
    kcoro_create_main();
    kcoro_yield();
}

static void body_destroys_itself(void *arg)
{
    (void)arg;
    kcoro_set_name(kcoro_current(), "lemming");
    kcoro_destroy(kcoro_current());
}

TEST_ABORTS(destroying_oneself_aborts_and_names_the_coroutine,
            "destroy itself (rule C2, docs/rules.md), in coroutine 1 \"lemming\"")
{
    resume(kcoro_create(body_destroys_itself, NULL, 0));
}

static void body_without_a_name_destroys_itself(void *arg)
{
    (void)arg;
    kcoro_destroy(kcoro_current());
}

TEST_ABORTS(a_coroutine_without_a_name_is_named_by_its_number, ", in coroutine 1\n")
{
    resume(kcoro_create(body_without_a_name_destroys_itself, NULL, 0));
}

static void body_destroys_arg(void *arg)
{
    kcoro_destroy(*(kcoro_t **)arg);
}

static void body_resumes_destroyer(void *arg)
{
    resume(kcoro_create(body_destroys_arg, arg, 0));
}

TEST_ABORTS(destroying_ones_resumer_aborts,
            "kcoro_destroy: the coroutine is a resumer of the caller")
{
    kcoro_t *co = NULL;

    co = kcoro_create(body_resumes_destroyer, &co, 0);
    resume(co);
}

TEST_ABORTS(destroying_another_threads_suspended_one_aborts, "belongs to another thread (rule C6,")
{
    kcoro_t *co = kcoro_create(body_yields, NULL, 0);

    resume(co);
    on_other_thread(thread_destroys, co);
}

TEST_ABORTS(destroying_the_main_coroutine_aborts, "lives as long as its thread (rule C2,")
{
    kcoro_destroy(kcoro_create_main());
}

TEST_ABORTS(releasing_the_main_coroutine_aborts, "lives as long as its thread (rule C2,")
{
    kcoro_release(kcoro_create_main());
}

TEST_ABORTS(destroying_twice_aborts, "kcoro_destroy: destroyed twice (rule C6,")
{
    kcoro_t *co = kcoro_create(body_nothing, NULL, 0);

    kcoro_retain(co);
    kcoro_destroy(co);
    kcoro_destroy(co);
}

TEST_ABORTS(a_freed_coroutine_is_recognised_by_resume,
            "kcoro_resume: the coroutine has been freed (rule C8,")
{
    kcoro_t *co = kcoro_create(body_nothing, NULL, 0);

    kcoro_destroy(co);
    CHECK_EQ(kcoro_resume(co), 0);
}

TEST_ABORTS(a_freed_coroutine_is_recognised_after_fifty_more,
            "kcoro_unpark: the coroutine has been freed")
{
    kcoro_t *co = kcoro_create(body_nothing, NULL, 0);

    kcoro_destroy(co);
    for (int i = 0; i < 50; i++)
        kcoro_destroy(kcoro_create(body_nothing, NULL, 0));
    kcoro_unpark(co);
}

TEST_ABORTS(a_freed_coroutine_is_recognised_by_destroy,
            "kcoro_destroy: the coroutine has been freed")
{
    kcoro_t *co = kcoro_create(body_nothing, NULL, 0);

    kcoro_destroy(co);
    kcoro_destroy(co);
}

TEST_ABORTS(a_freed_coroutine_is_recognised_by_release,
            "kcoro_release: the coroutine has been freed")
{
    kcoro_t *co = kcoro_create(body_nothing, NULL, 0);

    kcoro_release(co);
    kcoro_release(co);
}

TEST_ABORTS(a_foreign_pointer_is_recognised,
            "kcoro_state: the pointer is not a coroutine (rule C8,")
{
    static uint64_t words[32];

    (void)kcoro_state((kcoro_t *)words);
}

TEST_ABORTS(null_is_recognised_where_no_error_can_be_returned,
            "kcoro_id: the coroutine is NULL (rule C8,")
{
    (void)kcoro_id(NULL);
}

static void *thread_ends_inside(void *arg)
{
    (void)arg;
    pthread_exit(NULL);
}

static void body_ends_thread(void *arg)
{
    thread_ends_inside(arg);
}

static void *thread_runs_body(void *arg)
{
    resume(kcoro_create(body_ends_thread, arg, 0));
    return NULL;
}

TEST_ABORTS(a_thread_that_ends_inside_a_coroutine_aborts, "a thread ended inside coroutine 1")
{
    if (kc_test_under_asan() || kc_test_under_tsan())
        SKIP("the sanitizers' own thread exit does not survive a foreign stack");
    on_other_thread(thread_runs_body, NULL);
}
