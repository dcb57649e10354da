/* SPDX-License-Identifier: MIT */
/*
 * prune_test.c - what the model checker cuts, it has seen: random programs, walked in both ways.
 *
 * WHAT     Two or three threads of a few operations on two atomic objects and a plain one, drawn by
 *          chance. Each program is walked whole, and again with known states cut. The outcomes of
 *          both must be the same, and if it fails, the first schedule that does. Threads forget
 *          most of what they read, so that many ways lead to one state. Outcomes lie on the heap:
 *          in static data they would be a part of the state, and no two states would be the same.
 */
#include "base/atomic.h"
#include "harness.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, LENGTH = 4, OUTCOMES = 1 << 16 };
enum kind { LOAD, ACQUIRE, STORE, RELEASE, ADD, SWAP, FENCE, LOCKED, TAKE, AWAIT, GRAB, KINDS };

static struct {
    enum kind kind;
    int value;
    bool second, keeps; /* the object; the thread remembers what it read */
} program[THREADS][LENGTH];
static int length; /* of the programs */
static bool writes;

static KC_ATOMIC(int) object[2], lock;
static int data, end[THREADS];
static uint8_t *outcomes; /* on the heap */

static void reset(void)
{
    object[0] = object[1] = lock = data = 0;
    memset(end, 0, sizeof end);
}

static void collect(void)
{
    uint64_t all = (uint64_t)object[0];

    all = all * 31 + (uint64_t)object[1];
    for (int i = 0; i < THREADS; i++)
        all = all * 31 + (uint64_t)end[i];
    outcomes[all * 0x9e3779b97f4a7c15u >> 48] = 1;
}

/* Adds one, by a loop that may meet old values. */
static int swaps(KC_ATOMIC(int) * p)
{
    int seen = kc_load_relaxed(p);

    while (!kc_cas_acq_rel(p, &seen, (seen + 1) % 4))
        ;
    return seen;
}

/* Under a lock, so that this is no race. */
static int adds_locked(void)
{
    int free = 0;

    for (; !kc_cas_acq_rel(&lock, &free, 1); free = 0)
        model_spin();
    int value = model_read(&data);
    model_write(&data, (value + 1) % 3);
    kc_store_release(&lock, 0);
    return value;
}

static int operate(enum kind kind, KC_ATOMIC(int) * p, int value)
{
    switch (kind) {
    case LOAD:
        return kc_load_relaxed(p);
    case ACQUIRE:
        return kc_load_acquire(p);
    case STORE:
        kc_store_relaxed(p, value);
        return 0;
    case RELEASE:
        kc_store_release(p, value);
        return 0;
    case ADD:
        return kc_add_acq_rel(p, value);
    case SWAP:
        return swaps(p);
    case FENCE:
        kc_fence_seq_cst();
        return 0;
    case LOCKED:
        return adds_locked();
    case AWAIT:
        model_wait_until(kc_load_acquire(p) != 0);
        return 0;
    case TAKE:
        return kc_load_acquire(p) == value ? model_read(&data) : 0;
    default:
        return kc_load_relaxed(p) == value ? model_read(&data) : 0;
    }
}

/* The first thread begins with a write, which others may race with. */
static void runs(int me)
{
    int sum = 0;

    if (me == 0 && writes)
        model_write(&data, 1);
    for (int i = 0; i < length; i++) {
        int read =
            operate(program[me][i].kind, &object[program[me][i].second], program[me][i].value);
        if (program[me][i].keeps)
            sum = (sum * 2 + read) % 5;
    }
    end[me] = sum;
}

/* Half of the programs are without the last two, which may wait for ever, or race. */
static void draw(uint64_t *random)
{
    unsigned kinds = kc_test_random(random) % 2 ? KINDS : AWAIT;

    length = 2 + (int)(kc_test_random(random) % (LENGTH - 1));
    writes = kc_test_random(random) % 2;
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < LENGTH; i++) {
            program[t][i].kind = (enum kind)(kc_test_random(random) % kinds);
            program[t][i].value = 1 + (int)(kc_test_random(random) % 2);
            program[t][i].second = kc_test_random(random) % 2;
            program[t][i].keeps = kc_test_random(random) % 3 == 0;
        }
}

static struct model_result walk(bool all, int count, int bound, uint8_t *into)
{
    static const struct model_thread threads[] = { { "0", runs, 0 },
                                                   { "1", runs, 1 },
                                                   { "2", runs, 2 } };

    memset(into, 0, OUTCOMES);
    outcomes = into;
    return model_explore((struct model_options){ .name = "random",
                                                 .preemptions = bound,
                                                 .max_executions = 20000,
                                                 .quiet = true,
                                                 .all = all },
                         threads, count, reset, collect);
}

/* How many programs were walked in both ways, and with how many executions. */
struct tally {
    int compared, failed;
    uint64_t walked, saved;
};

static struct tally compare(uint64_t random, long programs)
{
    uint8_t *whole = malloc(OUTCOMES), *cut = malloc(OUTCOMES);
    struct tally sum = { 0 };

    CHECK(whole && cut);
    for (long i = 0; i < programs; i++) {
        int count = 2 + (int)(kc_test_random(&random) % 2);
        int bound = count == 2 ? MODEL_UNBOUNDED : 1 + (int)(kc_test_random(&random) % 3);
        draw(&random);
        struct model_result a = walk(true, count, bound, whole);
        if (!a.failed && !a.exhausted)
            continue; /* too many */
        struct model_result b = walk(false, count, bound, cut);
        CHECK_EQ(a.failed, b.failed);
        CHECK_STR(a.why, b.why);
        if (a.failed)
            CHECK_STR(a.schedule, b.schedule);
        CHECK(memcmp(whole, cut, OUTCOMES) == 0);
        CHECK(b.executions <= a.executions);
        sum.walked += a.executions;
        sum.saved += a.executions - b.executions;
        sum.compared++;
        sum.failed += a.failed;
    }
    free(whole);
    free(cut);
    printf("       %d programs, %d fail: %llu of %llu executions were cut or not begun\n",
           sum.compared, sum.failed, (unsigned long long)sum.saved,
           (unsigned long long)sum.walked);
    return sum;
}

TEST(what_is_cut_was_seen)
{
    if (kc_test_under_asan())
        SKIP("nothing is cut here");
    CHECK(compare(kc_test_seed(), kc_test_rounds(kc_test_under_emulation() ? 20 : 200)).compared >
          0);
}

/* How much that is differs from program to program: always the same ones, so that it is known. */
TEST(much_is_cut)
{
    if (kc_test_under_asan())
        SKIP("nothing is cut here");
    struct tally sum = compare(1, 20);
    CHECK(sum.failed > 0 && sum.failed < sum.compared);
    CHECK(sum.saved > sum.walked / 4);
}
