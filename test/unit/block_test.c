/* SPDX-License-Identifier: MIT */
/*
 * block_test.c - control blocks: dense, oldest first, never unmapped (C8).
 */
#include "base/block.h"
#include "base/os.h"
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAGIC = 0x1234 };

static kc_block_t *get(kc_block_cache_t *cache)
{
    kc_block_t *block = kc__block_get(cache);

    CHECK(block != NULL);
    CHECK_NE(kc_load_relaxed(&block->magic), MAGIC);
    kc_store_relaxed(&block->magic, MAGIC);
    return block;
}

TEST(blocks_are_handed_out_oldest_first)
{
    enum { N = 64 };
    kc_block_cache_t cache = { 0 };
    kc_block_t *block[N];

    for (int i = 0; i < N; i++)
        block[i] = get(&cache);
    CHECK(!cache.out && !cache.in && cache.batches == 0);
    for (int i = 0; i < N; i++)
        kc__block_put(&cache, block[i]);
    for (int i = 0; i < N; i++)
        CHECK_PTR(get(&cache), block[i]);
}

TEST(a_free_block_keeps_its_mark_until_it_is_handed_out)
{
    kc_block_cache_t cache = { 0 };
    kc_block_t *block[KC_BLOCK_BATCH / 2];

    for (int i = 0; i < KC_BLOCK_BATCH / 2; i++)
        block[i] = get(&cache);
    for (int i = 0; i < KC_BLOCK_BATCH / 2; i++)
        kc__block_put(&cache, block[i]);
    CHECK_EQ(kc_load_relaxed(&block[0]->magic), KC_BLOCK_FREE);
    while (cache.out)
        CHECK(get(&cache) != block[0]);
    CHECK_PTR(get(&cache), block[0]);
}

static bool no_memory(const char *what)
{
    (void)what;
    return true;
}

/* What was freed a moment ago is recognised: as long as there is memory, others come first. */
TEST(of_few_free_blocks_none_is_handed_out_again)
{
    kc_block_cache_t cache = { 0 };
    kc_block_t *last = NULL;

    for (int i = 0; i < KC_BLOCK_BATCH / 2 - 1; i++)
        last = get(&cache);
    kc__block_put(&cache, last);
    for (int i = 0; i < 1000; i++)
        CHECK(get(&cache) != last);
    while (cache.out)
        get(&cache);
    kc__os_fault = no_memory;
    while (kc__block_get(&cache) != last)
        ;
    kc__os_fault = NULL;
}

TEST(debug_mode_never_hands_a_block_out_again)
{
    kc_block_cache_t cache = { 0 };

    setenv("KCORO_DEBUG", "1", 1);
    kc_block_t *block = get(&cache);
    kc__block_put(&cache, block);
    for (int i = 0; i < 10000; i++) {
        kc_block_t *other = get(&cache);
        CHECK(other != block);
        kc__block_put(&cache, other);
    }
    CHECK_EQ(kc_load_relaxed(&block->magic), KC_BLOCK_FREE);
}

TEST(blocks_lie_dense_and_are_aligned_to_cache_lines)
{
    enum { N = 1000 };
    kc_block_cache_t cache = { 0 };
    char *low = NULL, *high = NULL;

    for (int i = 0; i < N; i++) {
        char *p = (char *)get(&cache);
        CHECK_EQ((uintptr_t)p % KC_CACHE_LINE, 0);
        low = !low || p < low ? p : low;
        high = p > high ? p : high;
    }
    CHECK_LE(high - low, (N / 30 + 1) * KC_BLOCK_PAGE); /* 30 in a page */
}

static void count(kc_block_t *block, void *arg)
{
    (void)block;
    ++*(int *)arg;
}

TEST(each_visits_every_block_in_use_and_no_other)
{
    enum { N = 9000 }; /* more than a chunk */
    kc_block_cache_t cache = { 0 };
    static kc_block_t *block[N];
    int seen = 0;

    for (int i = 0; i < N; i++)
        block[i] = get(&cache);
    kc__block_each(MAGIC, count, &seen);
    CHECK_EQ(seen, N);
    for (int i = 0; i < N; i += 2)
        kc__block_put(&cache, block[i]);
    seen = 0;
    kc__block_each(MAGIC, count, &seen);
    CHECK_EQ(seen, N / 2);
}

TEST(an_address_is_a_blocks_or_not)
{
    kc_block_cache_t cache = { 0 };
    kc_block_t *block = get(&cache), here;

    CHECK(kc__block_is(block));
    kc__block_put(&cache, block);
    CHECK(kc__block_is(block)); /* it stays */
    CHECK(!kc__block_is((char *)block + 8));
    CHECK(!kc__block_is(&here));
    CHECK(!kc__block_is(NULL));
}

TEST(each_block_has_a_number_that_no_other_block_touches)
{
    enum { N = 500 };
    kc_block_cache_t cache = { 0 };
    kc_block_t *block[N];

    for (uint64_t i = 0; i < N; i++) {
        block[i] = get(&cache);
        kc_store_relaxed(kc__block_number(block[i]), i);
    }
    for (uint64_t i = 0; i < N; i++)
        memset((char *)block[i] + sizeof *block[i], 0xff, KC_BLOCK_SIZE - sizeof *block[i]);
    for (uint64_t i = 0; i < N; i++) {
        CHECK_EQ(kc_load_relaxed(kc__block_number(block[i])), i);
        CHECK(!kc__block_is((const void *)kc__block_number(block[i])));
        kc__block_put(&cache, block[i]);
    }
}

/* ---- pages that go back --------------------------------------------------------------------- */

enum { MANY = 120000 };

static kc_block_t *many[MANY];

static void take_many(kc_block_cache_t *cache)
{
    for (int i = 0; i < MANY; i++)
        many[i] = get(cache);
}

static void cool(void)
{
    for (int i = 0; kc__block_cool(KC_COOL_NOW); i++)
        CHECK_LT(i, MANY);
    CHECK_EQ(kc__block_cool_at(), INT64_MAX);
}

/* How many of those blocks lie in pages that are there, from a sample. */
static int resident(void)
{
    enum { EVERY = 50 };
    uintptr_t size = kc__os_page_size();
    int n = 0;

    for (int i = 0; i < MANY; i += EVERY) {
        unsigned char there = 0;
        CHECK_EQ(mincore((void *)((uintptr_t)many[i] & ~(size - 1)), size, &there), 0);
        n += there & 1 ? EVERY : 0;
    }
    return n;
}

TEST(pages_of_free_blocks_go_back_to_the_kernel)
{
    kc_block_cache_t cache = { 0 };

    for (int round = 0; round < 3; round++) {
        take_many(&cache);
        CHECK_EQ(resident(), MANY);
        for (int i = 0; i < MANY; i++)
            kc__block_put(&cache, many[i]);
        CHECK_EQ(resident(), MANY);
        cool();
        CHECK_LT(resident(), MANY / 5); /* some are kept, for the next who needs one */
        for (int i = 0; i < MANY; i++)
            CHECK(kc__block_is_free(many[i])); /* all the same */
    }
}

TEST(pages_with_a_block_in_use_stay_as_they_are)
{
    enum { EVERY = 1000 };
    kc_block_cache_t cache = { 0 };
    int seen = 0;

    take_many(&cache);
    for (int i = 0; i < MANY; i++) {
        if (i % EVERY == 0)
            kc_store_relaxed(&many[i]->flags, (uint32_t)i);
        else
            kc__block_put(&cache, many[i]);
    }
    cool();
    CHECK_LT(resident(), MANY / 4);
    for (int i = 0; i < MANY; i += EVERY) {
        CHECK_EQ(kc_load_relaxed(&many[i]->magic), MAGIC);
        CHECK_EQ(kc_load_relaxed(&many[i]->flags), i);
        CHECK(!kc__block_is_free(many[i]));
    }
    kc__block_each(MAGIC, count, &seen);
    CHECK_EQ(seen, MANY / EVERY);
}

static bool asked_for_memory(const char *what)
{
    FAIL("%s, while blocks are free", what);
}

TEST(blocks_of_pages_that_were_given_back_are_handed_out_before_new_ones)
{
    kc_block_cache_t cache = { 0 };

    take_many(&cache);
    kc__os_fault = no_memory;
    while (kc__block_get(&cache)) /* what is left of a chunk: a new one needs memory now */
        ;
    for (int i = 0; i < MANY; i++)
        kc__block_put(&cache, many[i]);
    cool();
    kc__os_fault = asked_for_memory;
    take_many(&cache); /* get checks that none is in use */
    kc__os_fault = NULL;
}

TEST(what_is_needed_again_and_again_is_not_given_back)
{
    kc_block_cache_t cache = { 0 };

    take_many(&cache);
    for (int i = 0; i < MANY; i++)
        kc__block_put(&cache, many[i]);
    CHECK_LT(kc__block_cool_at(), INT64_MAX);
    take_many(&cache); /* so they were needed in that time */
    for (int i = 0; i < MANY; i++)
        kc__block_put(&cache, many[i]);
    while (kc__os_now() < kc__block_cool_at())
        ;
    while (kc__block_cool(KC_COOL_IDLE))
        ;
    CHECK_EQ(resident(), MANY);
}

/* Blocks travel: taken on one thread, freed on another, through the shared pool and back. */
enum { THREADS = 4, ROUNDS = 200, HELD = 300 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kc_block_t *parcel[THREADS * HELD];
static int parcels;

static void *thread_trades(void *arg)
{
    kc_block_cache_t cache = { 0 };

    for (int round = 0; round < ROUNDS; round++) {
        kc_block_t *mine[HELD];
        for (int i = 0; i < HELD; i++)
            mine[i] = get(&cache);
        pthread_mutex_lock(&lock);
        for (int i = 0; i < HELD; i++)
            parcel[parcels++] = mine[i];
        for (int i = 0; i < HELD; i++)
            mine[i] = parcel[--parcels]; /* some of another thread's, mostly */
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < HELD; i++) {
            CHECK_EQ(kc_load_relaxed(&mine[i]->magic), MAGIC);
            kc__block_put(&cache, mine[i]);
        }
        if (arg && round % 8 == 0) { /* pages go back meanwhile */
            kc__block_cache_drain(&cache);
            while (kc__block_cool(KC_COOL_NOW))
                ;
        }
    }
    kc__block_cache_drain(&cache);
    CHECK(!cache.out && !cache.in && cache.batches == 0);
    return arg;
}

static void trade(void *arg)
{
    pthread_t thread[THREADS];
    int seen = 0;

    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, thread_trades, arg), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    kc__block_each(MAGIC, count, &seen);
    CHECK_EQ(seen, 0);
}

TEST(no_block_is_handed_out_twice_at_a_time_over_threads)
{
    trade(NULL);
}

TEST(no_block_is_handed_out_twice_while_pages_go_back)
{
    kc_block_cache_t cache = { 0 };

    take_many(&cache);
    for (int i = 0; i < MANY; i++)
        kc__block_put(&cache, many[i]);
    kc__block_cache_drain(&cache);
    trade(&cache);
}
