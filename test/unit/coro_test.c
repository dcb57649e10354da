/* SPDX-License-Identifier: MIT */
/*
 * coro_test.c - the life of a coroutine: states, resume, yield, yield_to, names, ids, references
 * (C1, C2, C4, C6, C8).
 */
#include "coro/coro.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static char trail[256];

static void note(const char *word)
{
    strncat(trail, word, sizeof trail - strlen(trail) - 1);
}

static void resume(kcoro_t *co)
{
    CHECK_EQ(kcoro_resume(co), 0);
}

static void body_nothing(void *arg)
{
    (void)arg;
}

static void body_yield_for_ever(void *arg)
{
    (void)arg;
    for (;;)
        kcoro_yield();
}

static void body_park_once(void *arg)
{
    note(arg);
    kcoro_park();
    note(arg);
}

/* Runs fn(arg) on a thread of its own and waits for it. */
static void on_other_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, fn, arg), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* ---- create and the order of states -------------------------------------------------------- */

TEST(create_makes_a_coroutine_that_has_not_run)
{
    kcoro_t *co = kcoro_create(body_park_once, "x", 0);

    CHECK(co != NULL);
    CHECK_EQ(kcoro_state(co), KCORO_CREATED);
    CHECK_STR(trail, "");
    CHECK_STR(kcoro_create_error(), "");
    kcoro_destroy(co);
}

TEST(create_without_a_function_is_null_and_says_why)
{
    CHECK_PTR(kcoro_create(NULL, NULL, 0), NULL);
    CHECK(strstr(kcoro_create_error(), "NULL") != NULL);
}

TEST(create_with_an_absurd_stack_size_is_null_and_says_why)
{
    CHECK_PTR(kcoro_create(body_nothing, NULL, SIZE_MAX), NULL);
    CHECK_PTR(kcoro_create(body_nothing, NULL, (size_t)1 << 60), NULL);
    CHECK(strstr(kcoro_create_error(), "stack") != NULL);
    kcoro_t *co = kcoro_create(body_nothing, NULL, 0);
    CHECK(co != NULL);
    CHECK_STR(kcoro_create_error(), "");
    kcoro_destroy(co);
}

static void body_check_state_is_running(void *arg)
{
    CHECK_EQ(kcoro_state(kcoro_current()), KCORO_RUNNING);
    *(kcoro_t **)arg = kcoro_current();
    kcoro_yield();
    CHECK_EQ(kcoro_state(kcoro_current()), KCORO_RUNNING);
    kcoro_park();
    CHECK_EQ(kcoro_state(kcoro_current()), KCORO_RUNNING);
}

TEST(states_go_created_running_suspended_parked_ready_finished)
{
    kcoro_t *seen = NULL;
    kcoro_t *co = kcoro_create(body_check_state_is_running, &seen, 0);

    CHECK_EQ(kcoro_state(co), KCORO_CREATED);
    resume(co);
    CHECK_PTR(seen, co);
    CHECK_EQ(kcoro_state(co), KCORO_SUSPENDED);
    resume(co);
    CHECK_EQ(kcoro_state(co), KCORO_PARKED);
    CHECK_EQ(kcoro_unpark(co), 0);
    CHECK_EQ(kcoro_state(co), KCORO_READY);
    resume(co);
    CHECK_EQ(kcoro_state(co), KCORO_FINISHED);
    kcoro_destroy(co);
}

/* ---- resume and yield ---------------------------------------------------------------------- */

static void body_abc(void *arg)
{
    (void)arg;
    note("a");
    kcoro_yield();
    note("b");
    kcoro_yield();
    note("c");
}

TEST(resume_runs_until_yield_and_yield_returns_to_the_resumer)
{
    kcoro_t *co = kcoro_create(body_abc, NULL, 0);

    resume(co);
    note("1");
    resume(co);
    note("2");
    resume(co);
    CHECK_STR(trail, "a1b2c");
    CHECK_EQ(kcoro_state(co), KCORO_FINISHED);
    kcoro_destroy(co);
}

static void body_takes_arg(void *arg)
{
    *(int *)arg += 1;
}

TEST(the_argument_reaches_the_function)
{
    int n = 41;
    kcoro_t *co = kcoro_create(body_takes_arg, &n, 0);

    resume(co);
    CHECK_EQ(n, 42);
    kcoro_destroy(co);
}

TEST(resume_of_null_is_einval)
{
    CHECK_EQ(kcoro_resume(NULL), -EINVAL);
    CHECK_EQ(kcoro_yield_to(NULL), -EINVAL);
    CHECK_EQ(kcoro_unpark(NULL), -EINVAL);
}

TEST(resume_of_a_finished_one_is_einval_and_changes_nothing)
{
    kcoro_t *co = kcoro_create(body_nothing, NULL, 0);

    resume(co);
    CHECK_EQ(kcoro_resume(co), -EINVAL);
    CHECK_EQ(kcoro_state(co), KCORO_FINISHED);
    CHECK_EQ(kcoro_unpark(co), -EINVAL);
    kcoro_destroy(co);
}

static void body_resumes_itself(void *arg)
{
    int *rc = arg;

    *rc = kcoro_resume(kcoro_current());
    CHECK_EQ(kcoro_state(kcoro_current()), KCORO_RUNNING);
}

TEST(resume_of_a_running_one_is_einval)
{
    int rc = 0;
    kcoro_t *co = kcoro_create(body_resumes_itself, &rc, 0);

    resume(co);
    CHECK_EQ(rc, -EINVAL);
    kcoro_destroy(co);
}

TEST(resume_of_a_parked_one_is_eagain)
{
    kcoro_t *co = kcoro_create(body_park_once, "p", 0);

    resume(co);
    CHECK_EQ(kcoro_resume(co), -EAGAIN);
    CHECK_EQ(kcoro_state(co), KCORO_PARKED);
    CHECK_STR(trail, "p");
    CHECK_EQ(kcoro_unpark(co), 0);
    resume(co);
    CHECK_STR(trail, "pp");
    kcoro_destroy(co);
}

struct nest {
    kcoro_t *outer, *inner;
    int rc_direct, rc_indirect;
};

static void body_inner(void *arg)
{
    struct nest *n = arg;

    note("i");
    CHECK_EQ(kcoro_state(n->outer), KCORO_SUSPENDED);
    n->rc_direct = kcoro_resume(n->outer);
    kcoro_yield();
    note("j");
}

static void body_outer(void *arg)
{
    struct nest *n = arg;

    note("o");
    resume(n->inner);
    CHECK_EQ(kcoro_state(kcoro_current()), KCORO_RUNNING);
    CHECK_PTR(kcoro_current(), n->outer);
    note("p");
    kcoro_yield();
    resume(n->inner);
    note("q");
}

TEST(coroutines_resume_coroutines_and_yield_goes_to_the_resumer)
{
    struct nest n = { NULL, NULL, 0, 0 };

    n.outer = kcoro_create(body_outer, &n, 0);
    n.inner = kcoro_create(body_inner, &n, 0);
    resume(n.outer);
    CHECK_STR(trail, "oip");
    CHECK_EQ(n.rc_direct, -EINVAL);
    resume(n.outer);
    CHECK_STR(trail, "oipjq");
    CHECK_EQ(kcoro_state(n.inner), KCORO_FINISHED);
    CHECK_EQ(kcoro_state(n.outer), KCORO_FINISHED);
    kcoro_destroy(n.inner);
    kcoro_destroy(n.outer);
}

static void body_tries_all_resumers(void *arg)
{
    kcoro_t **chain = arg;

    CHECK_EQ(kcoro_resume(chain[0]), -EINVAL);
    CHECK_EQ(kcoro_resume(chain[1]), -EINVAL);
    CHECK_EQ(kcoro_yield_to(chain[0]), -EINVAL);
    CHECK_EQ(kcoro_yield_to(chain[1]), -EINVAL);
    CHECK_EQ(kcoro_yield_to(kcoro_current()), -EINVAL);
    note("tried");
}

static void body_resumes_next(void *arg)
{
    kcoro_t **chain = arg;

    resume(chain[kcoro_current() == chain[0] ? 1 : 2]);
}

TEST(resume_of_a_direct_or_indirect_resumer_is_einval)
{
    kcoro_t *chain[3];

    chain[0] = kcoro_create(body_resumes_next, chain, 0);
    chain[1] = kcoro_create(body_resumes_next, chain, 0);
    chain[2] = kcoro_create(body_tries_all_resumers, chain, 0);
    resume(chain[0]);
    CHECK_STR(trail, "tried");
    for (int i = 0; i < 3; i++)
        kcoro_destroy(chain[i]);
}

enum { DEEP = 200 };

static void body_nest_deeper(void *arg)
{
    int *left = arg;

    if (--*left > 0) {
        kcoro_t *co = kcoro_create(body_nest_deeper, left, 0);
        resume(co);
        CHECK_EQ(kcoro_state(co), KCORO_FINISHED);
        kcoro_destroy(co);
    }
}

TEST(nesting_goes_deep)
{
    int left = DEEP;
    kcoro_t *co = kcoro_create(body_nest_deeper, &left, 0);

    resume(co);
    CHECK_EQ(left, 0);
    kcoro_destroy(co);
}

/* ---- yield_to ------------------------------------------------------------------------------ */

struct pair {
    kcoro_t *a, *b;
};

static void body_pair_a(void *arg)
{
    struct pair *p = arg;

    note("a");
    CHECK_EQ(kcoro_yield_to(p->b), 0);
    note("A");
}

static void body_pair_b(void *arg)
{
    struct pair *p = arg;

    note("b");
    CHECK_EQ(kcoro_state(p->a), KCORO_SUSPENDED);
    kcoro_yield(); /* to a's resumer, which is now b's */
    note("B");
}

TEST(yield_to_switches_directly_and_hands_over_the_resumer)
{
    struct pair p;

    p.a = kcoro_create(body_pair_a, &p, 0);
    p.b = kcoro_create(body_pair_b, &p, 0);
    resume(p.a);
    CHECK_STR(trail, "ab");
    CHECK_EQ(kcoro_state(p.a), KCORO_SUSPENDED);
    CHECK_EQ(kcoro_state(p.b), KCORO_SUSPENDED);
    resume(p.b);
    CHECK_STR(trail, "abB");
    resume(p.a);
    CHECK_STR(trail, "abBA");
    kcoro_destroy(p.a);
    kcoro_destroy(p.b);
}

static void body_ping(void *arg)
{
    struct pair *p = arg;

    for (int i = 0; i < 1000; i++)
        CHECK_EQ(kcoro_yield_to(kcoro_current() == p->a ? p->b : p->a), 0);
}

TEST(yield_to_back_and_forth_then_both_end)
{
    struct pair p;

    p.a = kcoro_create(body_ping, &p, 0);
    p.b = kcoro_create(body_ping, &p, 0);
    resume(p.a);
    CHECK_EQ(kcoro_state(p.a), KCORO_FINISHED);
    CHECK_EQ(kcoro_state(p.b), KCORO_SUSPENDED);
    resume(p.b);
    CHECK_EQ(kcoro_state(p.b), KCORO_FINISHED);
    kcoro_destroy(p.a);
    kcoro_destroy(p.b);
}

static void body_yield_to_errors(void *arg)
{
    struct pair *p = arg;

    CHECK_EQ(kcoro_yield_to(p->a), -EAGAIN);
    CHECK_EQ(kcoro_yield_to(p->b), -EINVAL);
    CHECK_EQ(kcoro_state(kcoro_current()), KCORO_RUNNING);
    note("!");
}

TEST(yield_to_a_parked_one_is_eagain_and_to_a_finished_one_einval)
{
    struct pair p = { kcoro_create(body_park_once, "p", 0), kcoro_create(body_nothing, NULL, 0) };
    kcoro_t *co = kcoro_create(body_yield_to_errors, &p, 0);

    resume(p.a);
    resume(p.b);
    resume(co);
    CHECK_STR(trail, "p!");
    kcoro_destroy(p.a);
    kcoro_destroy(p.b);
    kcoro_destroy(co);
}

TEST(yield_to_outside_a_coroutine_is_eperm_and_in_the_main_one_a_resume)
{
    kcoro_t *co = kcoro_create(body_abc, NULL, 0);

    CHECK_EQ(kcoro_yield_to(co), -EPERM);
    CHECK_EQ(kcoro_state(co), KCORO_CREATED);
    CHECK(kcoro_create_main() != NULL);
    CHECK_EQ(kcoro_yield_to(co), 0);
    CHECK_STR(trail, "a");
    CHECK_EQ(kcoro_state(kcoro_create_main()), KCORO_RUNNING);
    kcoro_destroy(co);
}

/* ---- current and main ---------------------------------------------------------------------- */

static void body_store_current(void *arg)
{
    *(kcoro_t **)arg = kcoro_current();
}

TEST(current_is_null_on_a_plain_thread_and_main_after_create_main)
{
    kcoro_t *seen = NULL, *co;

    CHECK_PTR(kcoro_current(), NULL);
    co = kcoro_create(body_store_current, &seen, 0);
    CHECK_PTR(kcoro_current(), NULL);
    kcoro_t *me = kcoro_create_main();
    CHECK(me != NULL);
    CHECK_PTR(kcoro_current(), me);
    resume(co);
    CHECK_PTR(seen, co);
    CHECK_PTR(kcoro_current(), me);
    kcoro_destroy(co);
}

static void body_create_main(void *arg)
{
    kcoro_t **mains = arg;

    mains[1] = kcoro_create_main();
    CHECK(kcoro_current() != mains[1]);
    CHECK_EQ(kcoro_state(mains[1]), KCORO_SUSPENDED);
}

static void *thread_create_main(void *arg)
{
    *(kcoro_t **)arg = kcoro_create_main();
    CHECK_PTR(kcoro_current(), *(kcoro_t **)arg);
    return NULL;
}

TEST(create_main_is_idempotent_per_thread_and_each_thread_has_its_own)
{
    kcoro_t *mains[3] = { kcoro_create_main(), NULL, NULL };
    kcoro_t *co = kcoro_create(body_create_main, mains, 0);

    CHECK_PTR(kcoro_create_main(), mains[0]);
    resume(co);
    CHECK_PTR(mains[1], mains[0]);
    CHECK_EQ(kcoro_state(mains[0]), KCORO_RUNNING);
    on_other_thread(thread_create_main, &mains[2]);
    CHECK(mains[2] != NULL && mains[2] != mains[0]);
    kcoro_destroy(co);
}

TEST(main_coroutine_has_an_id_a_name_and_no_stack_to_measure)
{
    kcoro_t *me = kcoro_create_main();

    CHECK_GE(kcoro_id(me), 1);
    kcoro_set_name(me, "main");
    CHECK_STR(kcoro_name(me), "main");
    CHECK_EQ(kcoro_stack_used(me), 0);
}

/* ---- ids and names ------------------------------------------------------------------------- */

TEST(ids_start_at_one_grow_and_are_not_reused)
{
    kcoro_t *co = kcoro_create(body_nothing, NULL, 0);
    uint64_t last = kcoro_id(co);

    CHECK_EQ(last, 1);
    kcoro_destroy(co);
    for (int i = 0; i < 1000; i++) {
        co = kcoro_create(body_nothing, NULL, 0);
        CHECK_GT(kcoro_id(co), last);
        last = kcoro_id(co);
        kcoro_destroy(co);
    }
}

enum { ID_THREADS = 4, ID_EACH = 2000 };

static void *thread_take_ids(void *arg)
{
    uint64_t *ids = arg;

    for (int i = 0; i < ID_EACH; i++) {
        kcoro_t *co = kcoro_create(body_nothing, NULL, 0);
        ids[i] = kcoro_id(co);
        kcoro_destroy(co);
    }
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

TEST(ids_are_unique_over_threads)
{
    static uint64_t ids[ID_THREADS * ID_EACH];
    pthread_t thread[ID_THREADS];

    for (int i = 0; i < ID_THREADS; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, thread_take_ids, &ids[i * ID_EACH]), 0);
    for (int i = 0; i < ID_THREADS; i++)
        pthread_join(thread[i], NULL);
    qsort(ids, ID_THREADS * ID_EACH, sizeof ids[0], compare_ids);
    CHECK_GE(ids[0], 1);
    for (int i = 1; i < ID_THREADS * ID_EACH; i++)
        CHECK_GT(ids[i], ids[i - 1]);
}

TEST(names_are_copied_and_cut_at_31_bytes)
{
    char name[] = "reader";
    kcoro_t *co = kcoro_create(body_nothing, NULL, 0);

    CHECK_STR(kcoro_name(co), "");
    kcoro_set_name(co, name);
    name[0] = 'X';
    CHECK_STR(kcoro_name(co), "reader");
    kcoro_set_name(co, "0123456789012345678901234567890123456789");
    CHECK_STR(kcoro_name(co), "0123456789012345678901234567890");
    kcoro_set_name(co, NULL);
    CHECK_STR(kcoro_name(co), "");
    kcoro_destroy(co);
}

/* ---- owner (C4) ---------------------------------------------------------------------------- */

struct other {
    kcoro_t *co;
    int resume_rc, unpark_rc, yield_to_rc;
};

static void body_yield_to_stranger(void *arg)
{
    struct other *o = arg;

    o->yield_to_rc = kcoro_yield_to(o->co);
}

static void *thread_tries_to_resume(void *arg)
{
    struct other *o = arg;
    kcoro_t *own = kcoro_create(body_yield_to_stranger, o, 0);

    o->resume_rc = kcoro_resume(o->co);
    resume(own);
    kcoro_destroy(own);
    o->unpark_rc = kcoro_unpark(o->co);
    return NULL;
}

TEST(resume_on_another_thread_than_the_first_is_eperm)
{
    struct other o = { kcoro_create(body_abc, NULL, 0), 0, 0, 0 };

    resume(o.co);
    on_other_thread(thread_tries_to_resume, &o);
    CHECK_EQ(o.resume_rc, -EPERM);
    CHECK_EQ(o.yield_to_rc, -EPERM);
    CHECK_EQ(o.unpark_rc, 0);
    CHECK_EQ(kcoro_state(o.co), KCORO_SUSPENDED);
    resume(o.co);
    CHECK_STR(trail, "ab");
    kcoro_destroy(o.co);
}

TEST(the_first_resume_decides_the_owner_not_the_creation)
{
    struct other o = { kcoro_create(body_yield_for_ever, NULL, 0), 0, 0, 0 };
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, thread_tries_to_resume, &o), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(o.resume_rc, 0);
    CHECK_EQ(kcoro_resume(o.co), -EPERM);
}

static void body_sets_errno(void *arg)
{
    errno = *(int *)arg;
    kcoro_yield();
    *(int *)arg = errno;
}

TEST(errno_is_the_threads_and_no_call_changes_it)
{
    int value = EXDEV;
    kcoro_t *co = kcoro_create(body_sets_errno, &value, 0);

    errno = 0;
    CHECK_EQ(kcoro_resume(NULL), -EINVAL);
    CHECK_PTR(kcoro_create(NULL, NULL, 0), NULL);
    CHECK_EQ(errno, 0);
    resume(co);
    CHECK_EQ(errno, EXDEV);
    errno = ENOTDIR;
    resume(co);
    CHECK_EQ(value, ENOTDIR);
    kcoro_destroy(co);
}

/* ---- references and destroy (C6) ----------------------------------------------------------- */

TEST(destroy_is_safe_in_every_state_but_running)
{
    kcoro_t *created = kcoro_create(body_abc, NULL, 0);
    kcoro_t *suspended = kcoro_create(body_abc, NULL, 0);
    kcoro_t *parked = kcoro_create(body_park_once, "p", 0);
    kcoro_t *ready = kcoro_create(body_park_once, "r", 0);
    kcoro_t *finished = kcoro_create(body_nothing, NULL, 0);

    resume(suspended);
    resume(parked);
    resume(ready);
    CHECK_EQ(kcoro_unpark(ready), 0);
    resume(finished);
    kcoro_destroy(created);
    kcoro_destroy(suspended);
    kcoro_destroy(parked);
    kcoro_destroy(ready);
    kcoro_destroy(finished);
    kcoro_destroy(NULL);
    CHECK_STR(trail, "apr");
}

TEST(a_retained_block_outlives_destroy_and_reads_finished)
{
    kcoro_t *co = kcoro_create(body_abc, NULL, 0);
    uint64_t id = kcoro_id(co);

    kcoro_set_name(co, "kept");
    resume(co);
    CHECK_PTR(kcoro_retain(co), co);
    kcoro_destroy(co);
    CHECK_EQ(kcoro_state(co), KCORO_FINISHED);
    CHECK_EQ(kcoro_id(co), id);
    CHECK_STR(kcoro_name(co), "kept");
    CHECK_GT(kcoro_stack_used(co), 0);
    CHECK_EQ(kcoro_resume(co), -EINVAL);
    CHECK_EQ(kcoro_unpark(co), -EINVAL);
    CHECK_EQ(co->stack, 0);
    kcoro_release(co);
    kcoro_release(NULL);
}

TEST(a_last_release_is_a_destroy)
{
    kcoro_t *co = kcoro_create(body_abc, NULL, 0);

    resume(co);
    kcoro_retain(co);
    kcoro_release(co);
    CHECK_EQ(kcoro_state(co), KCORO_SUSPENDED);
    kcoro_release(co);
    CHECK_EQ(kc_load_relaxed(&co->block.magic), KC_BLOCK_FREE);
}

static void *thread_destroys(void *arg)
{
    kcoro_destroy(arg);
    return NULL;
}

static void *thread_releases(void *arg)
{
    kcoro_release(arg);
    return NULL;
}

TEST(unstarted_and_finished_ones_may_be_destroyed_by_any_thread)
{
    kcoro_t *created = kcoro_create(body_abc, NULL, 0);
    kcoro_t *finished = kcoro_create(body_nothing, NULL, 0);
    kcoro_t *kept = kcoro_create(body_abc, NULL, 0);

    resume(finished);
    on_other_thread(thread_destroys, created);
    on_other_thread(thread_destroys, finished);
    kcoro_retain(kept);
    resume(kept);
    kcoro_destroy(kept);
    on_other_thread(thread_releases, kept);
    CHECK_EQ(kc_load_relaxed(&kept->block.magic), KC_BLOCK_FREE);
}

static void body_destroys_others(void *arg)
{
    kcoro_t *co = kcoro_create(body_abc, NULL, 0);

    (void)arg;
    resume(co);
    kcoro_destroy(co);
    note("d");
}

TEST(a_coroutine_destroys_others)
{
    kcoro_t *co = kcoro_create(body_destroys_others, NULL, 0);

    resume(co);
    CHECK_STR(trail, "ad");
    kcoro_destroy(co);
}
