/* SPDX-License-Identifier: MIT */
/*
 * signal_stress.c - four threads emit on, listen to, filter and chain the same few signals.
 *
 * Each thread has listeners of its own in heap memory, binds them to any of the signals, and gives
 * them back right after unbind. A handler that runs then, or twice for one low bit, or not at all,
 * shows in the listener's counts, in ASan or in TSan. At the end of a round every low bit of every
 * signal was triggered by exactly one emit or came through a chain.
 *
 *     KC_STRESS_SECONDS=600 KC_TEST_SEED=1 build/tsan/test/signal_stress
 */
#include "base/atomic.h"
#include "base/os.h"
#include "signal/signal.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, SIGNALS = 12, LISTENERS = 6, BITS = 4, OPERATIONS = 600, ALIVE = 0x600d };

/* BITS low bits, then BITS high ones. */
static kc_sigset_t bit_of(int i)
{
    return 1ull << (i < BITS ? 16 + i : 48 + i - BITS);
}

static kc_signal_t *signals[SIGNALS];
static KC_ATOMIC(int) got[SIGNALS][BITS];

struct listener;

struct ear {
    struct listener *listener;
    int bit;
    bool set; /* the owner has set it, and not cleared since */
    KC_ATOMIC(int) runs;
};

struct listener {
    int alive; /* plain: only the owner writes it, while it is not bound */
    kc_slot_t slot;
    struct ear ear[2 * BITS];
};

struct thread {
    uint64_t random;
    struct listener *listener[LISTENERS];
};

static unsigned below(struct thread *t, unsigned n)
{
    return (unsigned)(kc_test_random(&t->random) % n);
}

static void hear(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    struct ear *ear = arg;

    CHECK_EQ(ear->listener->alive, ALIVE);
    CHECK(fired & bit_of(ear->bit));
    int before = kc_add_relaxed(&ear->runs, 1);
    CHECK(ear->bit >= BITS || before == 0);
    if (ear->bit == 2 * BITS - 1 && before % 8 == 0)
        kc_signal_emit(signal, bit_of(BITS)); /* another high bit, one deeper */
}

static void open_listener(struct thread *t, struct listener **l)
{
    *l = calloc(1, sizeof **l);
    (*l)->alive = ALIVE;
    for (int i = 0; i < 2 * BITS; i++) {
        (*l)->ear[i].listener = *l;
        (*l)->ear[i].bit = i;
    }
    CHECK_EQ(kc_slot_bind(&(*l)->slot, signals[below(t, SIGNALS)], KC_SIG_ALL), 0);
}

/* A low bit's handler has run by now, or was taken back. */
static void clear(struct listener *l, int i)
{
    struct ear *ear = &l->ear[i];
    bool taken = kc_slot_clear(&l->slot, bit_of(i));

    if (i < BITS)
        CHECK_EQ(kc_load_relaxed(&ear->runs), ear->set && !taken);
    else
        CHECK_EQ(taken, ear->set);
    ear->set = false;
    kc_store_relaxed(&ear->runs, 0);
}

static void set(struct listener *l, int i)
{
    struct ear *ear = &l->ear[i];

    if (i < BITS && ear->set)
        clear(l, i);
    bool on = kc_slot_on(&l->slot, bit_of(i), hear, ear);
    CHECK(on || (i < BITS && kc_slot_triggered(&l->slot, bit_of(i))));
    ear->set = on;
}

static void close_listener(struct listener **l, bool clear_first)
{
    for (int i = 0; i < 2 * BITS && clear_first; i++)
        clear(*l, i);
    kc_slot_unbind(&(*l)->slot);
    memset(*l, 0xa5, sizeof **l);
    free(*l);
    *l = NULL;
}

static void emit(struct thread *t)
{
    int s = (int)below(t, SIGNALS), i = (int)below(t, 2 * BITS);
    kc_sigset_t bits = bit_of(i) | bit_of((int)below(t, 2 * BITS));
    kc_sigset_t fired = kc_signal_emit(signals[s], bits);

    CHECK_EQ(fired & ~bits, 0);
    CHECK_EQ(kc_signal_state(signals[s]) & bits, bits);
    for (int b = 0; b < BITS; b++)
        if (fired & bit_of(b))
            kc_add_relaxed(&got[s][b], 1);
}

/* The handlers of a low bit whose emit is filtered stay set and never run: so the count of such a
 * listener is not looked at. High bits only, therefore. */
static void filter(struct thread *t, struct listener *l)
{
    kc_sigset_t low = 0xffffffff;
    kc_slot_filter_t guard[2];

    kc_slot_filter_push(&l->slot, &guard[0], ~bit_of(BITS));
    kc_slot_filter_push(&l->slot, &guard[1], low | bit_of(BITS + 1));
    CHECK_EQ(kc_slot_filter(&l->slot), (low | bit_of(BITS + 1)));
    if (below(t, 2))
        emit(t);
    kc_slot_filter_pop(&l->slot, &guard[1]);
    kc_slot_filter_pop(&l->slot, &guard[0]);
}

static void *thread_main(void *arg)
{
    struct thread *t = arg;

    for (int n = 0; n < OPERATIONS; n++) {
        struct listener **l = &t->listener[below(t, LISTENERS)];
        int i = (int)below(t, 2 * BITS);
        if (!*l)
            open_listener(t, l);
        switch (below(t, 16)) {
        case 0:
            close_listener(l, below(t, 2));
            break;
        case 1: {
            int rc = kc_slot_chain(&(*l)->slot, signals[below(t, SIGNALS)]);
            CHECK(rc == 0 || rc == -ELOOP);
            break;
        }
        case 2:
        case 3:
            clear(*l, i);
            break;
        case 4:
            filter(t, *l);
            break;
        case 5:
        case 6:
        case 7:
            emit(t);
            break;
        default:
            set(*l, i);
        }
    }
    for (int i = 0; i < LISTENERS; i++)
        if (t->listener[i])
            close_listener(&t->listener[i], true);
    return NULL;
}

static void round_of_all(struct thread *threads)
{
    pthread_t id[THREADS];

    memset(got, 0, sizeof got);
    for (int i = 0; i < SIGNALS; i++)
        CHECK((signals[i] = kc_signal_create(8)) != NULL);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&id[i], NULL, thread_main, &threads[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    for (int i = 0; i < SIGNALS; i++) {
        for (int b = 0; b < BITS; b++)
            CHECK_LE(kc_load_relaxed(&got[i][b]), kc_signal_state(signals[i]) & bit_of(b) ? 1 : 0);
        kc_signal_release(signals[i]); /* the last one: LeakSanitizer would tell */
    }
}

TEST_SLOW(random_emits_slots_and_chains_over_four_threads_balance, 700000)
{
    static struct thread threads[THREADS];
    const char *text = getenv("KC_STRESS_SECONDS");
    int64_t end = kc__os_now() + (int64_t)((text ? strtod(text, NULL) : 1.0) * 1e9);

    for (int i = 0; i < THREADS; i++)
        threads[i].random = kc_test_seed() * THREADS + (uint64_t)i + 1;
    do
        round_of_all(threads);
    while (kc__os_now() < end);
}
