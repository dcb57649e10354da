/* SPDX-License-Identifier: MIT */
/*
 * signal_race_test.c - emit against emit, on, clear, unbind and chain, in several threads (G1, G3,
 * G5, G7).
 *
 * Where a test must meet another thread inside a call it looks at the signal's own count of
 * waiters; where any moment will do, two threads meet a few thousand times.
 */
#include "signal/slot.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 1500 };
#define LOW (1ull << 16)
#define HIGH (1ull << 48)
#define HIGH2 (1ull << 63)

static void wait_for(KC_ATOMIC(int) * word, int value)
{
    while (kc_load_acquire(word) < value)
        sched_yield();
}

static void count_up(KC_ATOMIC(int) * word)
{
    kc_sub_acq_rel(word, -1);
}

static uint32_t waiters(kc_signal_t *s)
{
    kc__lock(&s->lock);
    uint32_t n = s->waiters;
    kc__unlock(&s->lock);
    return n;
}

static void wait_for_waiters(kc_signal_t *s, uint32_t n)
{
    while (waiters(s) != n)
        sched_yield();
}

/* Two sides do their part of each round at the same time; `judge` looks when both have. */
static struct {
    KC_ATOMIC(int) round, done;
    void (*left)(void), (*right)(void);
} duel;

static void *thread_left(void *arg)
{
    for (int i = 1; i <= ROUNDS; i++) {
        wait_for(&duel.round, i);
        duel.left();
        count_up(&duel.done);
    }
    return arg;
}

static void fight(void (*setup)(void), void (*left)(void), void (*right)(void),
                  void (*judge)(void))
{
    uint64_t random = kc_test_seed() | 1;
    pthread_t thread;

    duel.left = left;
    CHECK_EQ(pthread_create(&thread, NULL, thread_left, NULL), 0);
    for (int i = 1; i <= ROUNDS; i++) {
        setup();
        count_up(&duel.round);
        for (uint64_t n = kc_test_random(&random) % 400; n > 0; n--)
            __asm__ volatile("");
        right();
        wait_for(&duel.done, i);
        judge();
    }
    pthread_join(thread, NULL);
}

/* ---- emit against emit ---------------------------------------------------------------------- */

static kc_signal_t *signal_;
static kc_slot_t slot;
static KC_ATOMIC(int) calls, got, here;

static void count_call(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    (void)signal;
    (void)arg;
    count_up(&calls);
}

static void *thread_emits_every_low_bit(void *arg)
{
    count_up(&here);
    wait_for(&here, THREADS);
    for (int i = 0; i < 32; i++)
        if (kc_signal_emit(arg, 1ull << i))
            count_up(&got);
    return NULL;
}

TEST(of_many_threads_that_emit_a_low_bit_exactly_one_gets_it)
{
    for (int round = 0; round < 30; round++) {
        pthread_t thread[THREADS];
        kc_signal_t *s = kc_signal_create(0);
        CHECK_EQ(kc_slot_bind(&slot, s, KC_SIG_ALL), 0);
        for (int i = 0; i < 32; i++)
            CHECK(kc_slot_on(&slot, 1ull << i, count_call, NULL));
        kc_store_relaxed(&got, 0);
        kc_store_relaxed(&here, 0);
        kc_store_relaxed(&calls, 0);
        for (int i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_create(&thread[i], NULL, thread_emits_every_low_bit, s), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        CHECK_EQ(kc_load_relaxed(&got), 32);
        CHECK_EQ(kc_load_relaxed(&calls), 32);
        kc_slot_unbind(&slot);
        kc_signal_release(s);
    }
}

static pthread_t handler_ran_on;

static void note_thread(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    (void)signal;
    (void)arg;
    handler_ran_on = pthread_self();
}

static void *thread_emits_and_looks(void *arg)
{
    CHECK_EQ(kc_signal_emit(arg, LOW), LOW);
    CHECK(pthread_equal(handler_ran_on, pthread_self())); /* it has returned already */
    return NULL;
}

TEST(handlers_run_in_the_emitting_thread_before_emit_returns)
{
    kc_signal_t *s = kc_signal_create(0);
    pthread_t thread;

    CHECK_EQ(kc_slot_bind(&slot, s, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&slot, LOW, note_thread, NULL));
    CHECK_EQ(pthread_create(&thread, NULL, thread_emits_and_looks, s), 0);
    pthread_join(thread, NULL);
    kc_slot_unbind(&slot);
    kc_signal_release(s);
}

static void meets_the_others(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    (void)signal;
    count_up(arg);
    wait_for(arg, THREADS); /* ends only if all are inside at the same time */
}

static void *thread_emits_high(void *arg)
{
    CHECK_EQ(kc_signal_emit(arg, HIGH), HIGH);
    return NULL;
}

TEST(several_threads_may_run_the_handler_of_a_high_bit_at_the_same_time)
{
    kc_signal_t *s = kc_signal_create(0);
    pthread_t thread[THREADS];

    CHECK_EQ(kc_slot_bind(&slot, s, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&slot, HIGH, meets_the_others, (void *)&here));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, thread_emits_high, s), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    kc_slot_unbind(&slot);
    kc_signal_release(s);
}

/* ---- emit against on, clear and chain ------------------------------------------------------- */

static bool right_result, left_result;

static void fresh(void)
{
    signal_ = kc_signal_create(0);
    CHECK_EQ(kc_slot_bind(&slot, signal_, KC_SIG_ALL), 0);
    kc_store_relaxed(&calls, 0);
}

static void fresh_with_handler(void)
{
    fresh();
    CHECK(kc_slot_on(&slot, LOW, count_call, NULL));
}

static void emit_low(void)
{
    left_result = kc_signal_emit(signal_, LOW) == LOW;
}

static void set_handler(void)
{
    right_result = kc_slot_on(&slot, LOW, count_call, NULL);
}

static void judge_on(void)
{
    CHECK(left_result);
    CHECK_EQ(kc_load_relaxed(&calls), right_result);
    kc_slot_unbind(&slot);
    kc_signal_release(signal_);
}

TEST(an_emit_that_races_with_on_runs_the_handler_once_or_on_is_false)
{
    fight(fresh, emit_low, set_handler, judge_on);
}

static void clear_handler(void)
{
    right_result = kc_slot_clear(&slot, LOW);
    int before = kc_load_relaxed(&calls);
    CHECK_EQ(before, !right_result); /* it has ended, or never runs */
}

static void judge_clear(void)
{
    CHECK_EQ(kc_load_relaxed(&calls), !right_result);
    kc_slot_unbind(&slot);
    kc_signal_release(signal_);
}

TEST(of_a_run_and_a_clear_that_race_exactly_one_happens)
{
    fight(fresh_with_handler, emit_low, clear_handler, judge_clear);
}

static kc_signal_t *target;

static void fresh_with_target(void)
{
    fresh();
    target = kc_signal_create(0);
}

static void add_chain(void)
{
    CHECK_EQ(kc_slot_chain(&slot, target), 0);
}

static void judge_chain(void)
{
    CHECK_EQ(kc_signal_state(target), LOW);
    kc_slot_unbind(&slot);
    kc_signal_release(signal_);
    kc_signal_release(target);
}

TEST(an_emit_that_races_with_chain_reaches_the_target)
{
    fight(fresh_with_target, emit_low, add_chain, judge_chain);
}

static void hold_back(void)
{
    kc_slot_filter_t guard;

    kc_slot_filter_push(&slot, &guard, ~LOW);
    CHECK(!kc_slot_triggered(&slot, LOW));
    kc_slot_filter_pop(&slot, &guard);
}

static void judge_filter(void)
{
    CHECK_LE(kc_load_relaxed(&calls), 1);
    CHECK(kc_slot_triggered(&slot, LOW));
    CHECK_EQ(kc_slot_clear(&slot, LOW), kc_load_relaxed(&calls) == 0);
    kc_slot_unbind(&slot);
    kc_signal_release(signal_);
}

TEST(an_emit_that_races_with_a_filter_runs_the_handler_once_or_never)
{
    fight(fresh_with_handler, emit_low, hold_back, judge_filter);
}

/* ---- emit against unbind: memory that goes at once ------------------------------------------ */

struct listener {
    kc_slot_t slot;
    int value; /* plain: a run after unbind would be a race, and a use after free */
};

static struct listener *listener;

static void add_value(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)signal;
    if (fired & LOW)
        ((struct listener *)arg)->value++;
}

static void fresh_listener(void)
{
    signal_ = kc_signal_create(0);
    listener = malloc(sizeof *listener);
    listener->value = 0;
    CHECK_EQ(kc_slot_bind(&listener->slot, signal_, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&listener->slot, HIGH, add_value, listener));
    CHECK(kc_slot_on(&listener->slot, LOW, add_value, listener)); /* this one has a record */
    kc_signal_retain(signal_);
}

static void emit_both(void)
{
    CHECK_EQ(kc_signal_emit(signal_, LOW | HIGH), LOW | HIGH);
    kc_signal_release(signal_);
}

static void unbind_and_free(void)
{
    kc_slot_unbind(&listener->slot);
    CHECK(listener->value >= 0 && listener->value <= 2);
    memset(listener, 0xa5, sizeof *listener);
    free(listener);
}

static void judge_unbind(void)
{
    kc_signal_release(signal_);
}

TEST(after_unbind_slot_and_argument_may_go_although_others_emit)
{
    fight(fresh_listener, emit_both, unbind_and_free, judge_unbind);
}

/* ---- waiting for a handler that runs -------------------------------------------------------- */

static KC_ATOMIC(int) inside, ended;

/* Stays inside until somebody waits for it. */
static void stays_until_awaited(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    (void)arg;
    count_up(&inside);
    wait_for_waiters(signal, 1);
    count_up(&ended);
}

static void *thread_emits_low_and_high(void *arg)
{
    CHECK_EQ(kc_signal_emit(arg, LOW | HIGH), LOW | HIGH);
    return NULL;
}

static void start_handler(kc_signal_t *s, kc_sigset_t bit, pthread_t *thread)
{
    kc_store_relaxed(&inside, 0);
    kc_store_relaxed(&ended, 0);
    CHECK_EQ(kc_slot_bind(&slot, s, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&slot, bit, stays_until_awaited, NULL));
    CHECK_EQ(pthread_create(thread, NULL, thread_emits_low_and_high, s), 0);
    wait_for(&inside, 1);
}

TEST(clear_waits_for_a_handler_that_runs_in_another_thread)
{
    for (int low = 0; low < 2; low++) {
        kc_signal_t *s = kc_signal_create(0);
        pthread_t thread;
        start_handler(s, low ? LOW : HIGH, &thread);
        CHECK_EQ(kc_slot_clear(&slot, low ? LOW : HIGH), !low); /* a low one has run */
        CHECK_EQ(kc_load_acquire(&ended), 1);
        pthread_join(thread, NULL);
        kc_slot_unbind(&slot);
        kc_signal_release(s);
    }
}

TEST(unbind_waits_for_a_handler_that_runs_in_another_thread)
{
    for (int low = 0; low < 2; low++) {
        kc_signal_t *s = kc_signal_create(0);
        pthread_t thread;
        start_handler(s, low ? LOW : HIGH, &thread);
        kc_slot_unbind(&slot);
        CHECK_EQ(kc_load_acquire(&ended), 1);
        memset(&slot, 0xa5, sizeof slot);
        pthread_join(thread, NULL);
        kc_signal_release(s);
    }
}

TEST(on_waits_for_the_handler_that_it_replaces)
{
    kc_signal_t *s = kc_signal_create(0);
    pthread_t thread;

    start_handler(s, HIGH, &thread);
    CHECK(kc_slot_on(&slot, HIGH, count_call, NULL));
    CHECK_EQ(kc_load_acquire(&ended), 1);
    pthread_join(thread, NULL);
    kc_signal_emit(s, HIGH);
    CHECK_EQ(kc_load_relaxed(&ended), 1);
    CHECK_EQ(kc_load_relaxed(&calls), 1);
    kc_slot_unbind(&slot);
    kc_signal_release(s);
}

TEST(clear_of_another_bit_does_not_wait)
{
    kc_signal_t *s = kc_signal_create(0);
    pthread_t thread;

    start_handler(s, HIGH, &thread);
    CHECK(kc_slot_on(&slot, HIGH2, count_call, NULL));
    CHECK(kc_slot_clear(&slot, HIGH2));
    CHECK_EQ(kc_load_relaxed(&ended), 0);
    kc_slot_unbind(&slot);
    CHECK_EQ(kc_load_acquire(&ended), 1);
    pthread_join(thread, NULL);
    kc_signal_release(s);
}

static void *thread_emits_both_high(void *arg)
{
    CHECK_EQ(kc_signal_emit(arg, HIGH | HIGH2), HIGH | HIGH2);
    return NULL;
}

TEST(no_other_handler_of_a_slot_begins_while_unbind_waits_for_one)
{
    kc_signal_t *s = kc_signal_create(0);
    pthread_t thread;

    CHECK_EQ(kc_slot_bind(&slot, s, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&slot, HIGH, stays_until_awaited, NULL));
    CHECK(kc_slot_on(&slot, HIGH2, stays_until_awaited, NULL));
    CHECK_EQ(pthread_create(&thread, NULL, thread_emits_both_high, s), 0);
    wait_for(&inside, 1);
    kc_slot_unbind(&slot);
    pthread_join(thread, NULL);
    CHECK_EQ(kc_load_relaxed(&inside), 1);
    kc_signal_release(s);
}

static KC_ATOMIC(int) replaced, inside_new;

static void stays_until_replaced(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    (void)signal;
    (void)arg;
    count_up(&inside_new);
    wait_for(&replaced, 1);
}

static void stays_until_the_new_one_runs(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    (void)signal;
    (void)arg;
    count_up(&inside);
    wait_for(&inside_new, 1);
}

static void *thread_emits_when_on_waits(void *arg)
{
    wait_for_waiters(arg, 1);
    CHECK_EQ(kc_signal_emit(arg, HIGH), HIGH);
    return NULL;
}

TEST(on_does_not_wait_for_runs_of_the_handler_that_it_sets)
{
    kc_signal_t *s = kc_signal_create(0);
    pthread_t thread[2];

    CHECK_EQ(kc_slot_bind(&slot, s, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&slot, HIGH, stays_until_the_new_one_runs, NULL));
    CHECK_EQ(pthread_create(&thread[0], NULL, thread_emits_high, s), 0);
    wait_for(&inside, 1);
    CHECK_EQ(pthread_create(&thread[1], NULL, thread_emits_when_on_waits, s), 0);
    CHECK(kc_slot_on(&slot, HIGH, stays_until_replaced, NULL));
    count_up(&replaced);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    kc_slot_unbind(&slot);
    kc_signal_release(s);
}

static void rebinds_and_stays(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    kc_slot_unbind(arg);
    CHECK_EQ(kc_slot_bind(arg, signal, KC_SIG_ALL), 0);
    count_up(&inside);
    wait_for(&ended, 1);
}

TEST(a_slot_that_its_handler_has_bound_again_is_another_one)
{
    kc_signal_t *s = kc_signal_create(0);
    pthread_t thread;

    CHECK_EQ(kc_slot_bind(&slot, s, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&slot, HIGH, rebinds_and_stays, &slot));
    CHECK_EQ(pthread_create(&thread, NULL, thread_emits_high, s), 0);
    wait_for(&inside, 1);
    kc_slot_unbind(&slot); /* does not wait: no handler of this one runs */
    count_up(&ended);
    pthread_join(thread, NULL);
    kc_signal_release(s);
}

static int *heap_word; /* belongs to whoever clears the handler */

static void clears_itself_and_frees(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    (void)signal;
    count_up(&inside);
    wait_for(&inside, 2);
    CHECK_EQ(*heap_word, 7);
    if (kc_slot_clear(arg, HIGH)) { /* the other has left the handler by now */
        CHECK_EQ(kc_load_acquire(&ended), 1);
        free(heap_word);
    }
    count_up(&ended);
}

TEST(two_threads_in_one_handler_may_both_clear_it_and_one_of_them_gets_it)
{
    for (int round = 0; round < 50; round++) {
        kc_signal_t *s = kc_signal_create(0);
        pthread_t thread[2];
        heap_word = malloc(sizeof *heap_word);
        *heap_word = 7;
        kc_store_relaxed(&inside, 0);
        kc_store_relaxed(&ended, 0);
        CHECK_EQ(kc_slot_bind(&slot, s, KC_SIG_ALL), 0);
        CHECK(kc_slot_on(&slot, HIGH, clears_itself_and_frees, &slot));
        for (int i = 0; i < 2; i++)
            CHECK_EQ(pthread_create(&thread[i], NULL, thread_emits_high, s), 0);
        for (int i = 0; i < 2; i++)
            pthread_join(thread[i], NULL);
        CHECK_EQ(kc_load_relaxed(&ended), 2);
        kc_slot_unbind(&slot);
        kc_signal_release(s);
    }
}

/* ---- chains --------------------------------------------------------------------------------- */

static kc_signal_t *end_a, *end_b;
static kc_slot_t slot_a, slot_b;
static int rc_left, rc_right;

static void fresh_ends(void)
{
    end_a = kc_signal_create(0);
    end_b = kc_signal_create(0);
    CHECK_EQ(kc_slot_bind(&slot_a, end_a, KC_SIG_ALL), 0);
    CHECK_EQ(kc_slot_bind(&slot_b, end_b, KC_SIG_ALL), 0);
}

static void chain_a_to_b(void)
{
    rc_left = kc_slot_chain(&slot_a, end_b);
}

static void chain_b_to_a(void)
{
    rc_right = kc_slot_chain(&slot_b, end_a);
}

static void judge_loop(void)
{
    CHECK_EQ(rc_left + rc_right, -ELOOP);
    kc_slot_unbind(&slot_a);
    kc_slot_unbind(&slot_b);
    kc_signal_release(end_a);
    kc_signal_release(end_b);
}

TEST(of_two_chains_that_close_a_loop_together_one_is_eloop)
{
    fight(fresh_ends, chain_a_to_b, chain_b_to_a, judge_loop);
}

/* Two threads send different low bits and one high bit each down one chain that is deeper than the
 * room for visits: no low bit is lost or told twice, and the high ones at most merge. */
enum { ROW = 40 };
static kc_signal_t *row[ROW];
static kc_slot_t row_slot[ROW];
static KC_ATOMIC(int) low_calls[ROW], high_calls[ROW];

static void count_row(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    (void)signal;
    count_up(arg);
}

static void *thread_emits_along_the_row(void *arg)
{
    int first = *(int *)arg;

    count_up(&here);
    wait_for(&here, 2);
    for (int i = first; i < 32; i += 2)
        CHECK_EQ(kc_signal_emit(row[0], (1ull << i) | HIGH), (1ull << i) | HIGH);
    return NULL;
}

TEST(concurrent_emits_along_a_deep_chain_lose_nothing_and_merge_high_bits_at_most)
{
    int first[2] = { 0, 1 };
    pthread_t thread[2];

    for (int i = 0; i < ROW; i++) {
        row[i] = kc_signal_create(0);
        CHECK_EQ(kc_slot_bind(&row_slot[i], row[i], KC_SIG_ALL), 0);
        for (int b = 0; b < 32; b++)
            CHECK(kc_slot_on(&row_slot[i], 1ull << b, count_row, (void *)&low_calls[i]));
        CHECK(kc_slot_on(&row_slot[i], HIGH, count_row, (void *)&high_calls[i]));
        if (i > 0)
            CHECK_EQ(kc_slot_chain(&row_slot[i - 1], row[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, thread_emits_along_the_row, &first[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < ROW; i++) {
        CHECK_EQ(kc_load_relaxed(&low_calls[i]), 32);
        CHECK_LE(kc_load_relaxed(&high_calls[i]), 32);
        CHECK_GE(kc_load_relaxed(&high_calls[i]), 1);
        if (i < 8)
            CHECK_EQ(kc_load_relaxed(&high_calls[i]), 32);
    }
    for (int i = 0; i < ROW; i++) {
        kc_slot_unbind(&row_slot[i]);
        kc_signal_release(row[i]);
    }
}
