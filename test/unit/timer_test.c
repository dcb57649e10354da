/* SPDX-License-Identifier: MIT */
/*
 * timer_test.c - timers: exact order, whatever the clock does (S8, T6).
 */
#include "sched/timers.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define HOUR KC_SEC(3600)

_Static_assert(sizeof(kc_timer_t) <= 48, "a timer takes at most 48 bytes");

static kc_timers_t timers;

static void pop_is(kc_time_t now, const kc_timer_t *expected)
{
    CHECK_PTR(kc__timers_pop(&timers, now), expected);
    CHECK(!expected || !kc__timer_is_pending(expected));
}

TEST(timers_come_in_order_of_their_due_times)
{
    static kc_timer_t t[5];
    static const kc_time_t due[5] = { KC_SEC(3), KC_MS(1), KC_SEC(3) + 1, 1, KC_MS(1) - 1 };

    kc__timers_init(&timers, 0);
    for (int i = 0; i < 5; i++)
        kc__timers_add(&timers, &t[i], due[i]);
    CHECK_EQ(kc__timers_count(&timers), 5);
    CHECK_EQ(kc__timers_next(&timers), 1);
    pop_is(KC_SEC(4), &t[3]);
    pop_is(KC_SEC(4), &t[4]);
    pop_is(KC_SEC(4), &t[1]);
    pop_is(KC_SEC(4), &t[0]);
    CHECK_EQ(kc__timers_next(&timers), KC_SEC(3) + 1);
    pop_is(KC_SEC(4), &t[2]);
    pop_is(KC_SEC(4), NULL);
    CHECK_EQ(kc__timers_count(&timers), 0);
}

TEST(a_timer_is_not_due_one_nanosecond_early)
{
    static kc_timer_t t[200];

    kc__timers_init(&timers, 0);
    for (int i = 0; i < 200; i++)
        kc__timers_add(&timers, &t[i], HOUR + i);
    for (int i = 0; i < 200; i++) {
        pop_is(HOUR + i - 1, NULL);
        CHECK_EQ(kc__timers_next(&timers), HOUR + i);
        pop_is(HOUR + i, &t[i]);
    }
}

TEST(timers_of_one_due_time_come_in_order_of_adding)
{
    enum { N = 5000 };
    static kc_timer_t t[N];

    kc__timers_init(&timers, 0);
    for (int i = 0; i < N; i++)
        kc__timers_add(&timers, &t[i], KC_SEC(1));
    kc__timers_check(&timers);
    CHECK_EQ(kc__timers_next(&timers), KC_SEC(1));
    kc__timers_check(&timers);
    for (int i = 0; i < N; i++)
        pop_is(KC_SEC(1), &t[i]);
}

TEST(one_due_time_keeps_its_order_over_removals_and_late_additions)
{
    enum { N = 3000 };
    static kc_timer_t t[N];

    kc__timers_init(&timers, 0);
    for (int i = 0; i < N / 2; i++)
        kc__timers_add(&timers, &t[i], KC_SEC(1));
    for (int i = 0; i < N / 2; i += 4) /* one lane out of four */
        kc__timers_remove(&timers, &t[i]);
    CHECK_EQ(kc__timers_next(&timers), KC_SEC(1));
    for (int i = N / 2; i < N; i++)
        kc__timers_add(&timers, &t[i], KC_SEC(1));
    kc__timers_check(&timers);
    for (int i = 0; i < N; i++)
        if (i >= N / 2 || i % 4 != 0)
            pop_is(KC_SEC(1), &t[i]);
}

TEST(a_timer_added_again_comes_after_its_equals)
{
    kc_timer_t a = { 0 }, b = { 0 };

    kc__timers_init(&timers, 0);
    kc__timers_add(&timers, &a, 5);
    kc__timers_add(&timers, &b, 5);
    kc__timers_remove(&timers, &a);
    kc__timers_add(&timers, &a, 5);
    pop_is(5, &b);
    pop_is(5, &a);
}

TEST(due_times_in_the_past_are_due_at_once_and_in_order)
{
    kc_timer_t a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };

    kc__timers_init(&timers, HOUR);
    kc__timers_add(&timers, &a, HOUR);
    kc__timers_add(&timers, &b, HOUR - 1);
    kc__timers_add(&timers, &c, 0);
    kc__timers_add(&timers, &d, -KC_SEC(1));
    CHECK_EQ(kc__timers_next(&timers), -KC_SEC(1));
    pop_is(HOUR, &d);
    pop_is(HOUR, &c);
    pop_is(HOUR, &b);
    pop_is(HOUR, &a);
}

TEST(a_timer_for_ever_is_pending_and_the_last_of_all)
{
    kc_timer_t ever = { 0 }, late = { 0 };

    kc__timers_init(&timers, 0);
    kc__timers_add(&timers, &ever, KC_FOREVER);
    CHECK(kc__timer_is_pending(&ever));
    CHECK_EQ(kc__timers_next(&timers), KC_FOREVER);
    kc__timers_add(&timers, &late, KC_FOREVER - 1);
    CHECK_EQ(kc__timers_next(&timers), KC_FOREVER - 1);
    pop_is(KC_FOREVER - 1, &late);
    pop_is(KC_FOREVER - 1, NULL);
    CHECK_EQ(kc__timers_count(&timers), 1);
    kc__timers_remove(&timers, &ever);
    CHECK_EQ(kc__timers_count(&timers), 0);
}

TEST(without_timers_nothing_is_due_and_next_is_for_ever)
{
    kc_timer_t t = { 0 };

    kc__timers_init(&timers, KC_SEC(1));
    CHECK_EQ(kc__timers_next(&timers), KC_FOREVER);
    pop_is(KC_FOREVER, NULL);
    kc__timers_add(&timers, &t, KC_SEC(2));
    kc__timers_remove(&timers, &t);
    CHECK(!kc__timer_is_pending(&t));
    CHECK_EQ(kc__timers_next(&timers), KC_FOREVER);
    pop_is(KC_FOREVER, NULL);
}

/* Adds 200 timers, a millisecond apart, removes those of a residue and expects the others. */
static void removal(int modulus, int residue, bool ask)
{
    static kc_timer_t t[200];

    memset(t, 0, sizeof t);
    kc__timers_init(&timers, 0);
    for (int i = 0; i < 200; i++)
        kc__timers_add(&timers, &t[i], KC_MS(i + 1));
    for (int i = 0; i < 200; i++) {
        if (i % modulus == residue) {
            kc__timers_remove(&timers, &t[i]);
            CHECK(!kc__timer_is_pending(&t[i]));
        }
        if (ask)
            CHECK_GT(kc__timers_next(&timers), 0);
    }
    kc__timers_check(&timers);
    for (int i = 0; i < 200; i++)
        if (i % modulus != residue) {
            CHECK_EQ(kc__timers_next(&timers), KC_MS(i + 1));
            pop_is(KC_SEC(1), &t[i]);
        }
    pop_is(KC_SEC(1), NULL);
}

TEST(a_removed_timer_is_never_due_be_it_first_middle_or_last)
{
    for (int ask = 0; ask < 2; ask++) {
        removal(200, 0, ask);
        removal(200, 100, ask);
        removal(200, 199, ask);
        removal(2, 0, ask);
        removal(3, 1, ask);
        removal(1, 1, ask);
    }
}

TEST(next_follows_when_the_earliest_is_removed)
{
    enum { N = 2000 };
    static kc_timer_t t[N];

    kc__timers_init(&timers, 0);
    for (int i = 0; i < N; i++)
        kc__timers_add(&timers, &t[i], KC_SEC(30) + KC_US(i));
    for (int i = 0; i < N; i++) {
        CHECK_EQ(kc__timers_next(&timers), KC_SEC(30) + KC_US(i));
        kc__timers_remove(&timers, &t[i]);
    }
    CHECK_EQ(kc__timers_next(&timers), KC_FOREVER);
}

TEST(a_timer_removed_while_others_are_popped_does_not_come)
{
    static kc_timer_t t[300];

    kc__timers_init(&timers, 0);
    for (int i = 0; i < 300; i++)
        kc__timers_add(&timers, &t[i], KC_MS(1 + i / 3));
    for (int i = 0; i < 300; i += 3) { /* each takes the one behind the next with it */
        pop_is(KC_SEC(1), &t[i]);
        kc__timers_remove(&timers, &t[i + 2]);
        pop_is(KC_SEC(1), &t[i + 1]);
    }
    pop_is(KC_SEC(1), NULL);
}

TEST(an_interval_added_again_while_popping_keeps_its_grid)
{
    kc_timer_t fast = { 0 }, slow = { 0 };
    kc_timer_t *t;
    kc_time_t now = 0, seen = 0;
    int fasts = 0, slows = 0;

    kc__timers_init(&timers, 0);
    kc__timers_add(&timers, &fast, KC_MS(1));
    kc__timers_add(&timers, &slow, KC_MS(1000));
    while (now < KC_SEC(10)) {
        now += KC_MS(7);
        while ((t = kc__timers_pop(&timers, now)) != NULL) {
            CHECK_GE(t->due, seen);
            seen = t->due;
            fasts += t == &fast;
            slows += t == &slow;
            kc__timers_add(&timers, t, t->due + (t == &fast ? KC_MS(1) : KC_MS(1000)));
        }
        CHECK_GT(kc__timers_next(&timers), now);
    }
    CHECK_EQ(fasts, now / KC_MS(1));
    CHECK_EQ(slows, now / KC_MS(1000));
}

TEST(nothing_is_due_when_the_clock_goes_back)
{
    static kc_timer_t t[300];

    kc__timers_init(&timers, KC_SEC(10));
    for (int i = 0; i < 300; i++)
        kc__timers_add(&timers, &t[i], KC_SEC(10) + KC_MS(i));
    for (int i = 0; i < 150; i++)
        pop_is(KC_SEC(10) + KC_MS(149), &t[i]);
    pop_is(KC_SEC(9), NULL);
    pop_is(0, NULL);
    CHECK_EQ(kc__timers_next(&timers), KC_SEC(10) + KC_MS(150));
    kc__timers_add(&timers, &t[0], KC_SEC(1)); /* ahead of the clock now */
    pop_is(0, NULL);
    CHECK_EQ(kc__timers_next(&timers), KC_SEC(1));
    pop_is(KC_SEC(1), &t[0]);
    for (int i = 150; i < 300; i++)
        pop_is(KC_SEC(11), &t[i]);
}

/* With a cost for each nanosecond, or even millisecond, that passes, this would not end. */
TEST(a_jump_of_hours_costs_no_more_than_a_step)
{
    enum { N = 100, JUMPS = 200000 };
    static kc_timer_t t[N];
    kc_time_t now = 0;

    kc__timers_init(&timers, 0);
    for (int i = 0; i < N; i++)
        kc__timers_add(&timers, &t[i], (i + 1) * HOUR);
    for (int i = 0; i < JUMPS; i++) {
        now += HOUR;
        CHECK_EQ(kc__timers_next(&timers), now);
        pop_is(now, &t[i % N]);
        pop_is(now, NULL);
        kc__timers_add(&timers, &t[i % N], now + N * HOUR);
    }
}

TEST(all_that_became_due_in_a_jump_comes_in_order)
{
    enum { N = 10000 };
    static kc_timer_t t[N];
    uint64_t random = kc_test_seed();
    kc_time_t seen = 0;
    kc_timer_t *next;
    int count = 0;

    kc__timers_init(&timers, 0);
    for (int i = 0; i < N; i++)
        kc__timers_add(&timers, &t[i], (kc_time_t)(kc_test_random(&random) % (uint64_t)HOUR));
    for (; (next = kc__timers_pop(&timers, HOUR)) != NULL; count++) {
        CHECK_LE(seen, next->due);
        seen = next->due;
    }
    CHECK_EQ(count, N);
}

/* The front is filled with something far ahead; much that is earlier comes then. */
TEST(timers_before_the_earliest_return_to_the_wheel_when_they_are_many)
{
    enum { FAR = 1000, NEAR = 20000 };
    static kc_timer_t far[FAR], near[NEAR];

    kc__timers_init(&timers, 0);
    for (int i = 0; i < FAR; i++)
        kc__timers_add(&timers, &far[i], 100 * HOUR + KC_US(i));
    CHECK_EQ(kc__timers_next(&timers), 100 * HOUR);
    for (int i = 0; i < NEAR; i++)
        kc__timers_add(&timers, &near[i], KC_MS(NEAR - i));
    kc__timers_check(&timers);
    CHECK_LE(timers.front_count, NEAR / 10);
    for (int i = NEAR; i > 0; i--) {
        CHECK_EQ(kc__timers_next(&timers), KC_MS(NEAR - i + 1));
        pop_is(KC_MS(NEAR), &near[i - 1]);
    }
    for (int i = 0; i < FAR; i++)
        pop_is(200 * HOUR, &far[i]);
}

/* Nothing of that can go to the wheel. */
TEST(many_additions_in_the_past_come_in_order)
{
    enum { N = 1000 };
    static kc_timer_t first[200], t[N];

    kc__timers_init(&timers, 0);
    for (int i = 0; i < 200; i++)
        kc__timers_add(&timers, &first[i], KC_MS(1));
    pop_is(HOUR, &first[0]);
    for (int i = 0; i < N; i++)
        kc__timers_add(&timers, &t[i], N - i);
    kc__timers_check(&timers);
    for (int i = N; i > 0; i--)
        pop_is(HOUR, &t[i - 1]);
    for (int i = 1; i < 200; i++)
        pop_is(HOUR, &first[i]);
}

/* ---- random operations against a sorted array ---------------------------------------------- */

enum { MODEL_MAX = 400 };

static struct {
    kc_timer_t *timer[MODEL_MAX];
    size_t count;
} model;

/* Where a timer of this due time goes: behind its equals. */
static size_t model_place(kc_time_t due)
{
    size_t low = 0, high = model.count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (model.timer[middle]->due <= due)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void model_add(kc_timer_t *t, kc_time_t due)
{
    size_t place = model_place(due);

    for (size_t i = model.count++; i > place; i--)
        model.timer[i] = model.timer[i - 1];
    model.timer[place] = t;
}

static void model_remove(size_t i)
{
    for (model.count--; i < model.count; i++)
        model.timer[i] = model.timer[i + 1];
}

/* Numbers of all sizes, up to hours. */
static kc_time_t any_time(uint64_t *random)
{
    unsigned shift = 22 + (unsigned)(kc_test_random(random) % 42);

    return (kc_time_t)(kc_test_random(random) >> shift);
}

static kc_time_t any_due(uint64_t *random, kc_time_t now)
{
    switch (kc_test_random(random) % 16) {
    case 0:
        return now - any_time(random);
    case 1:
        return KC_FOREVER - (kc_time_t)(kc_test_random(random) % 2);
    case 2:
    case 3:
        return now + KC_SEC(1); /* the same again and again */
    case 4:
        return model.count ? model.timer[kc_test_random(random) % model.count]->due : now;
    default:
        return now + any_time(random);
    }
}

static void any_add(uint64_t *random, kc_timer_t *all, kc_time_t now)
{
    kc_timer_t *t = &all[kc_test_random(random) % MODEL_MAX];

    if (kc__timer_is_pending(t))
        return;
    kc_time_t due = any_due(random, now);
    kc__timers_add(&timers, t, due);
    CHECK_EQ(t->due, due);
    model_add(t, due);
}

static void any_pops(uint64_t *random, kc_time_t now)
{
    for (uint64_t left = 1 + kc_test_random(random) % 4; left > 0; left--) {
        bool due = model.count > 0 && model.timer[0]->due <= now;

        pop_is(now, due ? model.timer[0] : NULL);
        if (!due)
            break;
        model_remove(0);
    }
}

TEST_SLOW(random_operations_agree_with_a_sorted_array, 60000)
{
    static kc_timer_t all[MODEL_MAX];
    uint64_t random = kc_test_seed();
    kc_time_t now = HOUR;

    kc__timers_init(&timers, now);
    for (long i = 0, n = kc_test_rounds(200000); i < n; i++) {
        unsigned adds = i / 5000 % 2 ? 9 : 6; /* out of 16: by turns they grow more and fewer */
        unsigned what = (unsigned)(kc_test_random(&random) % 16);

        if (what < adds) {
            any_add(&random, all, now);
        } else if (what < 11) {
            if (model.count > 0) {
                size_t k = kc_test_random(&random) % model.count;
                kc__timers_remove(&timers, model.timer[k]);
                CHECK(!kc__timer_is_pending(model.timer[k]));
                model_remove(k);
            }
        } else if (what < 14) {
            any_pops(&random, now);
        } else if (what == 14) {
            now += any_time(&random) >> (kc_test_random(&random) % 20);
            now -= kc_test_random(&random) % 8 == 0 ? any_time(&random) >> 10 : 0;
        } else {
            kc_time_t first = model.count ? model.timer[0]->due : KC_FOREVER;
            CHECK_EQ(kc__timers_next(&timers), first);
        }
        CHECK_EQ(kc__timers_count(&timers), model.count);
        if (i % 512 == 0)
            kc__timers_check(&timers);
    }
}

/* Many at a time, so that slots are spread over several levels. */
TEST_SLOW(a_hundred_thousand_with_every_third_removed_come_in_order, 60000)
{
    enum { N = 100000 };
    static kc_timer_t t[N];
    uint64_t random = kc_test_seed();
    const kc_timer_t *before = NULL;
    kc_timer_t *next;
    int left = 0;

    kc__timers_init(&timers, 0);
    for (int i = 0; i < N; i++)
        kc__timers_add(&timers, &t[i], any_time(&random) / 1000 * 1000);
    for (int i = 0; i < N; i++) {
        if (i % 3 == 0)
            kc__timers_remove(&timers, &t[i]);
        if (i % 1000 == 0)
            CHECK_LT(kc__timers_next(&timers), KC_FOREVER);
    }
    kc__timers_check(&timers);
    for (; (next = kc__timers_pop(&timers, KC_FOREVER)) != NULL; left++) {
        CHECK_NE((next - t) % 3, 0);
        CHECK(!before || before->due < next->due || (before->due == next->due && before < next));
        before = next;
    }
    CHECK_EQ(left, N - (N + 2) / 3);
}

TEST_ABORTS(adding_a_pending_timer_aborts, "!kc__timer_is_pending(t)")
{
    kc_timer_t t = { 0 };

    kc__timers_init(&timers, 0);
    kc__timers_add(&timers, &t, 1);
    kc__timers_add(&timers, &t, 2);
}

TEST_ABORTS(removing_a_timer_that_is_not_pending_aborts, "kc__timer_is_pending(t)")
{
    kc_timer_t t = { 0 };

    kc__timers_init(&timers, 0);
    kc__timers_remove(&timers, &t);
}

/* Timers in the front and in the wheel. */
static void fill(kc_timer_t *t, int n)
{
    memset(t, 0, (size_t)n * sizeof *t);
    kc__timers_init(&timers, 0);
    for (int i = 0; i < n; i++)
        kc__timers_add(&timers, &t[i], HOUR + i);
    pop_is(HOUR, &t[0]);
    kc__timers_add(&timers, &t[0], 9 * HOUR);
    CHECK_EQ(kc__timers_next(&timers), HOUR + 1); /* so the front is not empty */
    CHECK(kc__timers_are_legal(&timers));
    for (int i = 0; i < n; i++)
        CHECK(kc__timer_is_in_place(&timers, &t[i]));
}

TEST(timers_in_a_wrong_state_are_found)
{
    static kc_timer_t t[500];
    kc_timers_t saved;

    fill(t, 500);
    saved = timers;
    timers.front_count = timers.count + 1; /* R4 */
    CHECK(!kc__timers_are_legal(&timers));
    timers = saved;
    timers.root = NULL; /* R4 */
    CHECK(!kc__timers_are_legal(&timers));
    timers = saved;
    timers.last = 0; /* R1: the front has what is later */
    CHECK(!kc__timers_are_legal(&timers));
    timers = saved;
    timers.levels = 0; /* R4: there are some in the wheel */
    CHECK(!kc__timers_are_legal(&timers));
    timers = saved;
    kc_time_t due = timers.root->due;
    timers.root->due = HOUR + 400; /* R3: it is behind its child */
    CHECK(!kc__timers_are_legal(&timers));
    timers.root->due = due;
    CHECK(kc__timers_are_legal(&timers));
}

TEST(a_timer_that_is_not_in_its_place_is_found)
{
    static kc_timer_t t[500];
    kc_timer_t stranger = { .due = HOUR };

    fill(t, 500);
    CHECK(!kc__timer_is_in_place(&timers, &stranger)); /* R4: not pending */
    kc_timer_t copy = t[1];
    CHECK(!kc__timer_is_in_place(&timers, &copy)); /* R4: its place has another one */
    kc_time_t due = t[0].due;
    t[0].due = 99 * HOUR; /* R4: its slot is empty */
    CHECK(!kc__timer_is_in_place(&timers, &t[0]));
    t[0].due = 0; /* R3: before the first */
    CHECK(!kc__timer_is_in_place(&timers, &t[0]));
    t[0].due = due;
    CHECK(kc__timer_is_in_place(&timers, &t[0]));
}
