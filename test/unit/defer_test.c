/* SPDX-License-Identifier: MIT */
/*
 * defer_test.c - cleanups of a coroutine: newest first, on every path, on its own stack (C6, J16).
 */
#include "base/os.h"
#include "coro/coro.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char trail[256];

static void note(const char *word)
{
    strncat(trail, word, sizeof trail - strlen(trail) - 1);
}

static void cleanup_note(void *arg)
{
    note(arg);
}

static void defer(const char *word)
{
    CHECK_EQ(kc_defer(cleanup_note, (void *)word), 0);
}

static void run(kcoro_fn_t body)
{
    kcoro_t *co = kcoro_create(body, NULL, 0);

    CHECK_EQ(kcoro_resume(co), 0);
    note("|");
    kcoro_destroy(co);
}

static void body_defers_three(void *arg)
{
    (void)arg;
    defer("1");
    defer("2");
    defer("3");
    note("body");
}

TEST(deferred_cleanups_run_newest_first_at_the_bodys_return)
{
    run(body_defers_three);
    CHECK_STR(trail, "body321|");
}

static void body_defers_and_yields(void *arg)
{
    (void)arg;
    defer("1");
    defer("2");
    kcoro_yield();
    note("never");
}

TEST(destroy_of_a_suspended_one_runs_its_cleanups_first)
{
    run(body_defers_and_yields);
    CHECK_STR(trail, "|21");
}

static void body_defers_and_parks(void *arg)
{
    (void)arg;
    defer("p");
    kcoro_park();
}

TEST(destroy_of_a_parked_or_ready_one_runs_its_cleanups)
{
    run(body_defers_and_parks);
    kcoro_t *co = kcoro_create(body_defers_and_parks, NULL, 0);
    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(kcoro_unpark(co), 0);
    kcoro_destroy(co);
    CHECK_STR(trail, "|pp");
}

TEST(a_last_release_runs_cleanups)
{
    kcoro_t *co = kcoro_create(body_defers_and_yields, NULL, 0);

    CHECK_EQ(kcoro_resume(co), 0);
    kcoro_retain(co);
    kcoro_release(co);
    CHECK_STR(trail, "");
    kcoro_release(co);
    CHECK_STR(trail, "21");
}

struct where {
    char *low;
    size_t size;
    kcoro_t *current;
};

static void cleanup_looks_around(void *arg)
{
    struct where *w = arg;
    char here;

    w->current = kcoro_current();
    CHECK_EQ(kcoro_state(w->current), KCORO_RUNNING);
    w->low = (char *)kc__stack_low(w->current->stack);
    w->size = kc__stack_size(w->current->stack);
    if (!kc_test_under_asan()) /* whose fake frames lie on the heap */
        CHECK(&here >= w->low && &here < w->low + w->size);
}

static void body_with_locals(void *arg)
{
    volatile char locals[512];

    memset((void *)locals, 0x5a, sizeof locals);
    CHECK_EQ(kc_defer(cleanup_looks_around, arg), 0);
    kcoro_yield();
    note((const char *)locals);
}

TEST(cleanups_of_destroy_run_on_the_coroutines_own_stack)
{
    struct where w = { NULL, 0, NULL };
    kcoro_t *co = kcoro_create(body_with_locals, &w, 0);

    CHECK_EQ(kcoro_resume(co), 0);
    kcoro_destroy(co);
    CHECK_PTR(w.current, co);
    CHECK_PTR(kcoro_current(), NULL);
}

static void cleanup_defers_more(void *arg)
{
    note("m");
    defer(arg);
}

static void body_defers_a_deferrer(void *arg)
{
    (void)arg;
    defer("last");
    CHECK_EQ(kc_defer(cleanup_defers_more, "n"), 0);
    kcoro_yield();
}

TEST(a_cleanup_may_defer_another)
{
    run(body_defers_a_deferrer);
    CHECK_STR(trail, "|mnlast");
}

static void cleanup_yields(void *arg)
{
    note("y");
    kcoro_yield();
    note(arg);
}

static void body_defers_a_yielder(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_defer(cleanup_yields, "z"), 0);
    note("b");
}

TEST(a_cleanup_at_the_bodys_return_may_suspend)
{
    kcoro_t *co = kcoro_create(body_defers_a_yielder, NULL, 0);

    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(kcoro_state(co), KCORO_SUSPENDED);
    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(kcoro_state(co), KCORO_FINISHED);
    CHECK_STR(trail, "byz");
    kcoro_destroy(co);
}

static void body_suspends_with_a_yielder(void *arg)
{
    body_defers_a_yielder(arg);
    kcoro_yield();
}

TEST_ABORTS(a_cleanup_that_destroy_runs_may_not_yield,
            "kcoro_yield: a cleanup run by kcoro_destroy may not suspend (rule C6,")
{
    run(body_suspends_with_a_yielder);
}

static void cleanup_parks(void *arg)
{
    (void)arg;
    kcoro_park();
}

static void body_suspends_with_a_parker(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_defer(cleanup_parks, NULL), 0);
    kcoro_yield();
}

TEST_ABORTS(a_cleanup_that_destroy_runs_may_not_park,
            "kcoro_park: a cleanup run by kcoro_destroy may not suspend (rule C6,")
{
    run(body_suspends_with_a_parker);
}

static void body_short(void *arg)
{
    note(arg);
    kcoro_yield();
    note(arg);
}

static void cleanup_resumes_another(void *arg)
{
    kcoro_t *co = kcoro_create(body_short, arg, 0);

    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(kcoro_resume(co), 0);
    kcoro_destroy(co);
}

static void body_defers_a_resumer(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_defer(cleanup_resumes_another, "s"), 0);
    kcoro_yield();
}

TEST(a_cleanup_that_destroy_runs_may_resume_others)
{
    run(body_defers_a_resumer);
    CHECK_STR(trail, "|ss");
}

static void body_undefers(void *arg)
{
    (void)arg;
    defer("a");
    defer("b");
    defer("a");
    CHECK(kc_undefer(cleanup_note, "a"));
    CHECK(!kc_undefer(cleanup_note, "c"));
    CHECK(!kc_undefer(cleanup_yields, "a"));
}

TEST(undefer_takes_the_newest_matching_one_back)
{
    run(body_undefers);
    CHECK_STR(trail, "ba|");
}

TEST(defer_outside_a_coroutine_is_eperm_and_does_not_call)
{
    CHECK_EQ(kc_defer(cleanup_note, "x"), -EPERM);
    CHECK(kcoro_create_main() != NULL);
    CHECK_EQ(kc_defer(cleanup_note, "x"), -EPERM);
    CHECK_EQ(kc_defer(NULL, NULL), -EINVAL);
    CHECK(!kc_undefer(cleanup_note, "x"));
    CHECK_STR(trail, "");
}

static bool fail_all(const char *what)
{
    (void)what;
    return true;
}

static void body_defers_without_memory(void *arg)
{
    (void)arg;
    kc__os_fault = fail_all;
    CHECK_EQ(kc_defer(cleanup_note, "at once"), -ENOMEM);
    kc__os_fault = NULL;
    note("!");
}

TEST(defer_without_memory_calls_the_cleanup_at_once)
{
    run(body_defers_without_memory);
    CHECK_STR(trail, "at once!|");
}

/* ---- KC_CLEANUP ---------------------------------------------------------------------------- */

static void body_blocks(void *arg)
{
    (void)arg;
    {
        KC_CLEANUP(cleanup_note, "1");
        KC_CLEANUP(cleanup_note, "2");
        note("in");
    }
    note("out");
}

TEST(a_block_cleanup_runs_at_the_end_of_its_block)
{
    run(body_blocks);
    CHECK_STR(trail, "in21out|");
}

TEST(a_block_cleanup_works_on_a_plain_thread)
{
    body_blocks(NULL);
    CHECK_STR(trail, "in21out");
}

static void body_mixed(void *arg)
{
    char local[] = "L";

    (void)arg;
    defer("1");
    KC_CLEANUP(cleanup_note, local);
    defer("2");
    {
        KC_CLEANUP(cleanup_note, "B");
        kcoro_yield();
    }
    note("end");
}

TEST(destroy_unwinds_blocks_and_defers_in_one_order)
{
    run(body_mixed);
    CHECK_STR(trail, "|B2L1");
}

TEST(the_normal_path_runs_blocks_at_their_end_and_defers_at_the_bodys_end)
{
    kcoro_t *co = kcoro_create(body_mixed, NULL, 0);

    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_STR(trail, "BendL21");
    kcoro_destroy(co);
}

static void body_owns_memory(void *arg)
{
    char *a = malloc(100);
    char *b = malloc(200);

    (void)arg;
    CHECK(a && b);
    KC_CLEANUP(free, a);
    CHECK_EQ(kc_defer(free, b), 0);
    kcoro_yield();
}

/* LeakSanitizer's and Valgrind's word counts here. */
TEST(what_cleanups_own_is_not_leaked_by_destroy)
{
    for (int i = 0; i < 100; i++)
        run(body_owns_memory);
}
