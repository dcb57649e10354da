/* SPDX-License-Identifier: MIT */
/*
 * block.c - control blocks that stay mapped for ever, handed out oldest first.
 *
 * WHAT     An old pointer to a control block must never lead to unmapped memory or to foreign data:
 *          each entry into the library reads the block's magic and aborts with a clear line if it
 *          is not what it should be. So blocks are never unmapped, all have one size, and a freed
 *          one waits as long as possible before it is used again: all lists here are first in,
 *          first out. They go from hand to hand by whole batches, which touches none of them. This
 *          is the retire scheme: reference counts say when a block is free, and no thread can reach
 *          freed memory after that because there is none.
 *
 * SHAPE    chunk: [header | block | block | ... ]  2 047 blocks, dense: a walk over 100 000 parked
 *          coroutines touches 12.5 MB and no stack page.
 *          cache (per thread, no lock): in --64--> up to two batches --> out
 *          pools (one lock), one for each kind: batches from caches that have more, for caches that
 *          have none
 *
 * WHO      cache: its thread alone. pool: L(pool_lock). magic: A, anybody at any time.
 */
#include "base/block.h"

#include "base/os.h"

#include <pthread.h>

enum { CHUNK_SIZE = 256 * 1024 };

/* The first block of each chunk. The debugger script and kc__block_each walk this list. */
typedef struct chunk {
    struct chunk *next; /* I */
    uint32_t used;      /* L(pool_lock)  blocks handed out at least once, this header included */
} chunk_t;

_Static_assert(sizeof(chunk_t) <= KC_BLOCK_SIZE, "the header is a block");
_Static_assert(sizeof(kc_block_t) == 16, "the head of a control block is 16 bytes");

/* A free block. The first of a batch in the pool names the next batch. */
typedef struct free_block {
    kc_block_t block;
    struct free_block *next_batch; /* L(pool_lock) */
} free_block_t;

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static chunk_t *kc__block_chunks; /* L(pool_lock) newest first */
static struct pool {
    free_block_t *oldest, *newest; /* L(pool_lock)  the first blocks of batches */
} pools[KC_BLOCK_KINDS];

static void pool_put(struct pool *pool, kc_mpsc_node_t *first)
{
    free_block_t *batch = kc_container_of(first, free_block_t, block.link);

    batch->next_batch = NULL;
    if (pool->newest)
        pool->newest->next_batch = batch;
    else
        pool->oldest = batch;
    pool->newest = batch;
}

static kc_mpsc_node_t *pool_get(struct pool *pool)
{
    free_block_t *batch = pool->oldest;

    if (!batch)
        return NULL;
    pool->oldest = batch->next_batch;
    if (!pool->oldest)
        pool->newest = NULL;
    return &batch->block.link;
}

static chunk_t *chunk_with_room(void)
{
    chunk_t *chunk = kc__block_chunks;

    if (chunk && chunk->used < CHUNK_SIZE / KC_BLOCK_SIZE)
        return chunk;
    chunk = kc__os_map_data(CHUNK_SIZE);
    if (!chunk)
        return NULL;
    chunk->used = 1;
    chunk->next = kc__block_chunks;
    kc__block_chunks = chunk;
    return chunk;
}

/* A batch of fresh blocks: from the current chunk, or a new one. NULL: no memory. */
static kc_mpsc_node_t *carve(void)
{
    chunk_t *chunk = chunk_with_room();
    kc_mpsc_node_t *first = NULL, **end = &first;

    for (int i = 0; chunk && i < KC_BLOCK_BATCH && chunk->used < CHUNK_SIZE / KC_BLOCK_SIZE; i++) {
        size_t offset = (size_t)chunk->used++ * KC_BLOCK_SIZE;
        *end = &((kc_block_t *)((char *)chunk + offset))->link;
        end = &(*end)->next;
        *end = NULL;
    }
    return first;
}

/* The thread has none of its own: what others of its kind have left, or of the other kind, or fresh
 * ones. */
static kc_mpsc_node_t *get_any(kc_block_kind_t kind)
{
    kc_mpsc_node_t *first = pool_get(&pools[kind]);

    for (int i = 0; !first && i < KC_BLOCK_KINDS; i++)
        first = pool_get(&pools[i]);
    return first ? first : carve();
}

/* The oldest blocks that the thread has itself, or those that all share. */
static void refill(kc_block_cache_t *cache)
{
    if (cache->batches > 0) {
        cache->out = cache->batch[0];
        cache->batch[0] = cache->batch[1];
        cache->batches--;
        return;
    }
    pthread_mutex_lock(&pool_lock);
    cache->out = cache->in ? pool_get(&pools[cache->kind]) : get_any(cache->kind);
    pthread_mutex_unlock(&pool_lock);
    if (cache->out)
        return;
    cache->out = cache->in;
    cache->in = cache->in_last = NULL;
    cache->in_count = 0;
}

kc_block_t *kc__block_refill(kc_block_cache_t *cache)
{
    refill(cache);
    return cache->out ? kc__block_get(cache) : NULL;
}

/* What has come back makes a batch: kept, or shared if the thread has two already. */
static void close_batch(kc_block_cache_t *cache)
{
    if (cache->batches == 2) {
        pthread_mutex_lock(&pool_lock);
        pool_put(&pools[cache->kind], cache->batch[0]);
        pthread_mutex_unlock(&pool_lock);
        cache->batch[0] = cache->batch[1];
        cache->batches--;
    }
    cache->batch[cache->batches++] = cache->in;
    cache->in = cache->in_last = NULL;
    cache->in_count = 0;
}

void kc__block_put_with_care(kc_block_cache_t *cache, kc_block_t *block)
{
    if (kc__os_debug())
        return;
    block->link.next = NULL;
    if (cache->in_last)
        cache->in_last->next = &block->link;
    else
        cache->in = &block->link;
    cache->in_last = &block->link;
    if (++cache->in_count == KC_BLOCK_BATCH)
        close_batch(cache);
}

void kc__block_cache_drain(kc_block_cache_t *cache)
{
    kc_mpsc_node_t *all[] = { cache->out, cache->batches > 0 ? cache->batch[0] : NULL,
                              cache->batches > 1 ? cache->batch[1] : NULL, cache->in };

    pthread_mutex_lock(&pool_lock);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i])
            pool_put(&pools[cache->kind], all[i]);
    pthread_mutex_unlock(&pool_lock);
    *cache = (kc_block_cache_t){ .kind = cache->kind };
}

/* Chunks stay, and so does their order from any of them on. */
static chunk_t *newest_chunk(void)
{
    pthread_mutex_lock(&pool_lock);
    chunk_t *chunk = kc__block_chunks;
    pthread_mutex_unlock(&pool_lock);
    return chunk;
}

bool kc__block_is(const void *at)
{
    for (const chunk_t *chunk = newest_chunk(); chunk; chunk = chunk->next) {
        uintptr_t offset = (uintptr_t)at - (uintptr_t)chunk;
        if (offset < CHUNK_SIZE)
            return offset >= KC_BLOCK_SIZE && offset % KC_BLOCK_SIZE == 0;
    }
    return false;
}

void kc__block_each(uint32_t magic, void (*visit)(kc_block_t *block, void *arg), void *arg)
{
    for (chunk_t *chunk = newest_chunk(); chunk; chunk = chunk->next) {
        for (size_t i = 1; i < CHUNK_SIZE / KC_BLOCK_SIZE; i++) {
            kc_block_t *block = (kc_block_t *)((char *)chunk + i * KC_BLOCK_SIZE);
            if (kc_load_relaxed(&block->magic) == magic)
                visit(block, arg);
        }
    }
}
