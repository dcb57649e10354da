/* SPDX-License-Identifier: MIT */
/*
 * coro_stress.c - random create, resume, yield_to, park, unpark, retain and destroy over four
 * threads.
 *
 * Each thread owns a table of coroutines and does random things to them; now and then it publishes
 * one, with a reference, on a board that all threads read: they unpark, look at and release what
 * hangs there. Every step's result is checked against what the thread knows of its coroutine. At
 * the end the books must balance: all cleanups ran, no block is in use, every stack is back.
 *
 *     KC_STRESS_SECONDS=600 KC_TEST_SEED=1 build/tsan/test/coro_stress
 */
#include "base/os.h"
#include "coro/coro.h"
#include "blocks_left.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 4, SLOTS = 48, BOARD = 16, PATTERN = 96 };

struct worker;

/* One coroutine as its thread knows it. */
struct actor {
    struct worker *worker;
    kcoro_t *co;
    int index;
    bool started;
    uint64_t steps; /* the coroutine's own progress: only it writes */
};

struct worker {
    uint64_t random;
    struct actor actor[SLOTS];
    uint64_t created, destroyed, resumes, parks, unparks, transfers;
    uint64_t cleanups_due, cleanups_run;
};

/* Coroutines with one reference each that hang out for everybody. */
static struct {
    pthread_mutex_t lock;
    kcoro_t *co[BOARD];
} board = { .lock = PTHREAD_MUTEX_INITIALIZER };

static KC_ATOMIC(int) stop;

static unsigned pick(struct worker *w, unsigned below)
{
    return (unsigned)(kc_test_random(&w->random) % below);
}

static void cleanup_count(void *arg)
{
    ((struct worker *)arg)->cleanups_run++;
}

/* A frame whose content must survive every switch. */
static void __attribute__((noinline)) dig(struct actor *a, int depth)
{
    volatile unsigned char pattern[PATTERN];
    unsigned char mark = (unsigned char)(a->index * 7 + depth);

    memset((void *)pattern, mark, sizeof pattern);
    if (depth > 0)
        dig(a, depth - 1);
    else
        kcoro_yield();
    for (int i = 0; i < PATTERN; i++)
        CHECK_EQ(pattern[i], mark);
}

static void body(void *arg)
{
    struct actor *a = arg;
    struct worker *w = a->worker;
    unsigned life = 1 + pick(w, 30);

    if (pick(w, 2)) {
        w->cleanups_due++;
        CHECK_EQ(kc_defer(cleanup_count, w), 0);
    }
    for (unsigned i = 0; i < life; i++) {
        a->steps++;
        CHECK_PTR(kcoro_current(), a->co);
        CHECK_EQ(kcoro_state(a->co), KCORO_RUNNING);
        switch (pick(w, 4)) {
        case 0:
            w->parks++;
            kcoro_park();
            break;
        case 1: {
            struct actor *to = &w->actor[pick(w, SLOTS)];
            if (to->co && to != a) {
                int rc = kcoro_yield_to(to->co);
                CHECK(rc == 0 || rc == -EINVAL || rc == -EAGAIN);
                to->started = to->started || rc == 0;
                w->transfers += rc == 0;
            }
            break;
        }
        case 2:
            dig(a, (int)pick(w, 20));
            break;
        default:
            kcoro_yield();
        }
    }
}

static void publish(struct worker *w, kcoro_t *co)
{
    unsigned slot = pick(w, BOARD);

    kcoro_retain(co);
    pthread_mutex_lock(&board.lock);
    kcoro_t *old = board.co[slot];
    board.co[slot] = co;
    pthread_mutex_unlock(&board.lock);
    kcoro_release(old); /* the last one only if its owner has destroyed it */
}

static void poke_board(struct worker *w)
{
    unsigned slot = pick(w, BOARD);

    pthread_mutex_lock(&board.lock);
    kcoro_t *co = board.co[slot] ? kcoro_retain(board.co[slot]) : NULL;
    pthread_mutex_unlock(&board.lock);
    if (!co)
        return;
    int rc = kcoro_unpark(co);
    CHECK(rc == 0 || rc == -EINVAL);
    w->unparks++;
    CHECK_GT(kcoro_id(co), 0);
    kcoro_state_t state = kcoro_state(co);
    CHECK(rc == 0 || state == KCORO_FINISHED);
    kcoro_release(co); /* not the last one of an unfinished coroutine: its owner has one too */
}

static void create(struct worker *w, struct actor *a)
{
    static const size_t sizes[] = { 0, 16384, 65536, 131072 };

    a->co = kcoro_create(body, a, sizes[pick(w, 4)]);
    CHECK(a->co != NULL);
    a->started = false;
    w->created++;
    if (pick(w, 4) == 0)
        publish(w, a->co);
}

static void destroy(struct worker *w, struct actor *a)
{
    kcoro_destroy(a->co);
    a->co = NULL;
    w->destroyed++;
}

static void step(struct worker *w)
{
    struct actor *a = &w->actor[pick(w, SLOTS)];

    if (!a->co) {
        create(w, a);
        return;
    }
    unsigned what = pick(w, 100);
    if (what < 70) {
        int rc = kcoro_resume(a->co);
        if (rc == -EAGAIN)
            rc = kcoro_unpark(a->co);
        if (rc == -EINVAL) {
            CHECK_EQ(kcoro_state(a->co), KCORO_FINISHED);
            destroy(w, a);
            rc = 0;
        }
        CHECK_EQ(rc, 0);
        w->resumes++;
    } else if (what < 85) {
        poke_board(w);
    } else if (what < 95) {
        CHECK_EQ(kcoro_unpark(a->co), kcoro_state(a->co) == KCORO_FINISHED ? -EINVAL : 0);
        w->unparks++;
    } else {
        destroy(w, a);
    }
}

static void *thread_main(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < SLOTS; i++) {
        w->actor[i].worker = w;
        w->actor[i].index = i;
    }
    while (!kc_load_relaxed(&stop))
        for (int i = 0; i < 1000; i++)
            step(w);
    for (int i = 0; i < SLOTS; i++)
        if (w->actor[i].co)
            destroy(w, &w->actor[i]);
    return NULL;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check_books(struct worker *workers)
{
    uint64_t created = 0, destroyed = 0, due = 0, run = 0, resumes = 0, unparks = 0;

    for (int i = 0; i < THREADS; i++) {
        created += workers[i].created;
        destroyed += workers[i].destroyed;
        due += workers[i].cleanups_due;
        run += workers[i].cleanups_run;
        resumes += workers[i].resumes;
        unparks += workers[i].unparks;
    }
    printf("%llu coroutines, %llu resumes, %llu unparks, %llu cleanups, seed %llu\n",
           (unsigned long long)created, (unsigned long long)resumes, (unsigned long long)unparks,
           (unsigned long long)run, (unsigned long long)kc_test_seed());
    CHECK_EQ(created, destroyed);
    CHECK_EQ(due, run);
    CHECK_EQ(kc_test_blocks_left(KC_CORO_MAGIC), 0);
    kc_stack_stats_t s = kc__stack_stats();
    CHECK_EQ(s.made, s.warm + s.cold);
}

TEST_SLOW(random_operations_over_four_threads_balance, 700000)
{
    static struct worker workers[THREADS];
    const char *text = getenv("KC_STRESS_SECONDS");
    double end = seconds() + (text ? strtod(text, NULL) : 2.0);
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++) {
        workers[i].random = kc_test_seed() * THREADS + (uint64_t)i + 1;
        CHECK_EQ(pthread_create(&thread[i], NULL, thread_main, &workers[i]), 0);
    }
    while (seconds() < end) {
        struct timespec tenth = { 0, 100000000 };
        nanosleep(&tenth, NULL); /* the length of the run, not a wait for anything */
    }
    kc_store_relaxed(&stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < BOARD; i++)
        kcoro_release(board.co[i]);
    if (kc__thread()->serial != 0)
        kc__stack_cache_drain(&kc__thread()->stacks);
    check_books(workers);
}
