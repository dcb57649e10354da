/* SPDX-License-Identifier: MIT */
/*
 * park.c - what does waking a parked coroutine cost?
 *
 * On one thread, a round: kcoro_unpark, kcoro_resume, and the coroutine parks again; beside
 * resume + yield (base A), so that the difference is what park and unpark add. Then the calls
 * that do not switch: a park that finds its permit, and unpark alone.
 *
 * Across threads: the call alone (a foreign thread unparks a batch of parked coroutines whose
 * lines their owner's core has just written; timed on the foreign thread, the owner's resumes
 * left out), and one way of a ping-pong of two coroutines on two threads whose owners poll with
 * kcoro_resume. The floor under the latter is two threads that pass a word. Each of the two
 * threads is bound to a core of its own, or they might share one for a repetition. Peers'
 * hand-overs also schedule.
 *
 * Not measured: waking a thread that sleeps. Bare coroutines put no thread to sleep.
 */
#define _GNU_SOURCE /* affinity */
#include "harness.h"
#include "hold.h"
#include "peers/go.h"

#include <kcoro/coro.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define YIELD_ROUND "kcoro resume + yield"

enum { BATCH = 64 };

static kcoro_t *create(kcoro_fn_t fn, void *arg)
{
    kcoro_t *co = kcoro_create(fn, arg, KB_STACK);

    if (!co) {
        fprintf(stderr, "bench_park: kcoro_create: %s\n", kcoro_create_error());
        exit(1);
    }
    return co;
}

static void must(int rc)
{
    if (rc != 0)
        abort();
}

/* ---- one thread ---------------------------------------------------------------------------- */

static void yielding(void *arg)
{
    (void)arg;
    for (;;)
        kcoro_yield();
}

static void parking(void *arg)
{
    (void)arg;
    for (;;)
        kcoro_park();
}

static void yield_run(void *arg, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        must(kcoro_resume(arg));
}

static void park_run(void *arg, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        must(kcoro_unpark(arg));
        must(kcoro_resume(arg));
    }
}

static uint64_t permits;

static void permitting(void *arg)
{
    (void)arg;
    for (;;) {
        for (uint64_t i = 0; i < permits; i++) {
            must(kcoro_unpark(kcoro_current()));
            kcoro_park();
        }
        kcoro_yield();
    }
}

static void permit_run(void *arg, uint64_t n)
{
    permits = n;
    must(kcoro_resume(arg));
}

static void parked_make(kcoro_t **co)
{
    for (int i = 0; i < BATCH; i++) {
        co[i] = create(parking, NULL);
        must(kcoro_resume(co[i]));
    }
}

/* Unparks those of a batch that are still to come among n. */
static uint64_t batch_unpark(kcoro_t **co, uint64_t n)
{
    uint64_t count = n < BATCH ? n : BATCH;

    for (uint64_t i = 0; i < count; i++)
        must(kcoro_unpark(co[i]));
    return count;
}

static void unpark_run(void *arg, uint64_t n)
{
    kcoro_t **co = arg;

    kb_pause();
    while (n > 0) {
        kb_continue();
        uint64_t count = batch_unpark(co, n);

        kb_pause();
        for (uint64_t i = 0; i < count; i++)
            must(kcoro_resume(co[i]));
        n -= count;
    }
    kb_continue();
}

static void ask_one_thread(void)
{
    static kcoro_t *batch[BATCH];
    kcoro_t *co = create(parking, NULL);

    must(kcoro_resume(co));
    parked_make(batch);
    kb_question("park and unpark, one thread");
    kb_case(YIELD_ROUND, yield_run, create(yielding, NULL));
    kb_case("kcoro unpark + resume + park", park_run, co);
    kb_case("kcoro unpark + park that finds the permit", permit_run, create(permitting, NULL));
    kb_case("kcoro unpark alone, batch of 64", unpark_run, batch);
    kb_go_case("go unbuffered channel, one way, one thread", "hand_1");
    kb_base(YIELD_ROUND);
    kb_measure();
}

/* ---- two threads --------------------------------------------------------------------------- */

/* What the second thread of a run shares with the first. */
struct helper {
    pthread_t thread;
    atomic_uint_fast64_t turn; /* counts up; each side waits for its numbers */
    uint64_t n;
    int64_t ns;
    kcoro_t *mine, *theirs; /* of the helper, of the measuring thread */
    kcoro_t **batch;
};

static void turn_wait(struct helper *h, uint64_t turn)
{
    unsigned spins = 0;

    while (atomic_load_explicit(&h->turn, memory_order_acquire) != turn)
        kb_relax(&spins);
}

static void turn_set(struct helper *h, uint64_t turn)
{
    atomic_store_explicit(&h->turn, turn, memory_order_release);
}

/* The cores this process may use, and one of them for each of the two threads. */
static cpu_set_t allowed, own[2];

static void cores_choose(void)
{
    int found = 0;

    must(sched_getaffinity(0, sizeof allowed, &allowed));
    CPU_ZERO(&own[0]);
    CPU_ZERO(&own[1]);
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET(i, &allowed))
            CPU_SET(i, &own[found++]);
    if (found == 1)
        own[1] = own[0];
}

static void helper_start(struct helper *h, void *(*fn)(void *))
{
    atomic_init(&h->turn, 0);
    must(pthread_create(&h->thread, NULL, fn, h));
    must(pthread_setaffinity_np(h->thread, sizeof own[1], &own[1]));
}

static void *word_helper(void *arg)
{
    struct helper *h = arg;

    turn_set(h, 1);
    for (uint64_t i = 0; i < h->n; i += 2) {
        turn_wait(h, i + 2);
        turn_set(h, i + 3);
    }
    return NULL;
}

static void word_run(void *arg, uint64_t n)
{
    struct helper h = { .n = n };

    (void)arg;
    kb_pause();
    helper_start(&h, word_helper);
    turn_wait(&h, 1);
    kb_continue();
    for (uint64_t i = 0; i < n; i += 2) {
        turn_set(&h, i + 2);
        turn_wait(&h, i + 3);
    }
    kb_pause();
    must(pthread_join(h.thread, NULL));
    kb_continue();
}

/* Resumes co whenever somebody has unparked it, until it has ended. */
static void poll(kcoro_t *co)
{
    unsigned spins = 0;

    while (kcoro_state(co) != KCORO_FINISHED)
        if (kcoro_resume(co) == -EAGAIN)
            kb_relax(&spins);
}

static void pinging(void *arg)
{
    struct helper *h = arg;

    for (uint64_t i = 0; i < h->n; i += 2) {
        must(kcoro_unpark(h->mine));
        kcoro_park();
    }
}

static void ponging(void *arg)
{
    struct helper *h = arg;

    for (uint64_t i = 0; i < h->n; i += 2) {
        kcoro_park();
        must(kcoro_unpark(h->theirs));
    }
}

static void *pong_helper(void *arg)
{
    struct helper *h = arg;

    must(kcoro_resume(h->mine)); /* up to its first park */
    turn_set(h, 1);
    poll(h->mine);
    return NULL;
}

static void ping_run(void *arg, uint64_t n)
{
    struct helper h = { .n = n };

    (void)arg;
    kb_pause();
    h.theirs = create(pinging, &h);
    h.mine = create(ponging, &h);
    helper_start(&h, pong_helper);
    turn_wait(&h, 1);
    kb_continue();
    poll(h.theirs);
    kb_pause();
    must(pthread_join(h.thread, NULL));
    kcoro_destroy(h.theirs);
    kcoro_destroy(h.mine);
    kb_continue();
}

static void *unpark_helper(void *arg)
{
    struct helper *h = arg;
    uint64_t turn = 1;

    for (uint64_t left = h->n; left > 0;) {
        turn_wait(h, turn);
        int64_t start = kb_now();

        left -= batch_unpark(h->batch, left);
        h->ns += kb_now() - start - kb_clock_cost();
        turn_set(h, turn + 1);
        turn += 2;
    }
    return NULL;
}

static void foreign_unpark_run(void *arg, uint64_t n)
{
    struct helper h = { .n = n, .batch = arg };
    uint64_t turn = 1;

    helper_start(&h, unpark_helper);
    for (uint64_t left = n; left > 0;) {
        uint64_t count = left < BATCH ? left : BATCH;

        turn_set(&h, turn);
        turn_wait(&h, turn + 1);
        for (uint64_t i = 0; i < count; i++)
            must(kcoro_resume(h.batch[i]));
        left -= count;
        turn += 2;
    }
    must(pthread_join(h.thread, NULL));
    kb_took(h.ns);
}

static void ask_two_threads(void)
{
    static kcoro_t *batch[BATCH];

    parked_make(batch);
    cores_choose();
    kb_question("park and unpark, two threads");
    kb_case("floor: a word to and fro, one way", word_run, NULL);
    kb_case("kcoro unpark to resumed, one way", ping_run, NULL);
    kb_case("kcoro unpark alone, by the other thread", foreign_unpark_run, batch);
    kb_go_case("go unbuffered channel, one way", "hand");
    kb_base("floor: a word to and fro, one way");
    must(sched_setaffinity(0, sizeof own[0], &own[0]));
    kb_measure();
    must(sched_setaffinity(0, sizeof allowed, &allowed));
}

int main(int argc, char **argv)
{
    kb_init(argc, argv, "park", "waking a parked coroutine");
    ask_one_thread();
    ask_two_threads();
    return kb_done();
}
