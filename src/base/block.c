/* SPDX-License-Identifier: MIT */
/*
 * block.c - control blocks that stay mapped for ever, handed out oldest first.
 *
 * WHAT     An old pointer to a control block must never lead to unmapped memory or to foreign data:
 *          each entry into the library reads the block's magic and aborts with a clear line if it
 *          is not what it should be. So blocks are never unmapped, all have one size, and a freed
 *          one waits as long as possible before it is used again: all lists here are first in,
 *          first out. This is the retire scheme: reference counts say when a block is free, and no
 *          thread can reach freed memory after that because there is none.
 *
 * SHAPE    chunk: [header | block | block | ... ]  2 047 blocks, dense: a walk over 100 000 parked
 *          coroutines touches 12.5 MB and no stack page.
 *          cache (per thread, no lock) <-- 64 at a time --> pool (one lock) <-- fresh chunk
 *
 * WHO      cache: its thread alone. pool: L(pool_lock). magic: A, anybody at any time.
 */
#include "base/block.h"

#include "base/os.h"

#include <pthread.h>

enum { BATCH = 64, CHUNK_SIZE = 256 * 1024 };

/* The first block of each chunk. The debugger script and kc__block_each walk this list. */
typedef struct chunk {
    struct chunk *next; /* I */
    uint32_t used;      /* L(pool_lock)  blocks handed out at least once, this header included */
} chunk_t;

_Static_assert(sizeof(chunk_t) <= KC_BLOCK_SIZE, "the header is a block");
_Static_assert(sizeof(kc_block_t) == 16, "the head of a control block is 16 bytes");

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static kc_block_cache_t pool;     /* L(pool_lock) */
static chunk_t *kc__block_chunks; /* L(pool_lock) newest first */

static kc_block_t *next_of(const kc_block_t *block)
{
    return block->link.next ? kc_container_of(block->link.next, kc_block_t, link) : NULL;
}

static void list_push(kc_block_cache_t *list, kc_block_t *block)
{
    block->link.next = NULL;
    if (list->tail)
        list->tail->link.next = &block->link;
    else
        list->head = block;
    list->tail = block;
    list->count++;
}

static kc_block_t *list_pop(kc_block_cache_t *list)
{
    kc_block_t *block = list->head;

    list->head = next_of(block);
    if (!list->head)
        list->tail = NULL;
    list->count--;
    return block;
}

static void list_move(kc_block_cache_t *to, kc_block_cache_t *from, uint32_t count)
{
    while (count-- > 0 && from->count > 0)
        list_push(to, list_pop(from));
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

/* Fresh blocks: from the current chunk, or a new one. */
static void carve(kc_block_cache_t *cache)
{
    chunk_t *chunk = chunk_with_room();

    for (int i = 0; chunk && i < BATCH && chunk->used < CHUNK_SIZE / KC_BLOCK_SIZE; i++)
        list_push(cache, (kc_block_t *)((char *)chunk + (size_t)chunk->used++ * KC_BLOCK_SIZE));
}

static KC_NOINLINE void refill(kc_block_cache_t *cache)
{
    pthread_mutex_lock(&pool_lock);
    if (pool.count > 0)
        list_move(cache, &pool, BATCH);
    else
        carve(cache);
    pthread_mutex_unlock(&pool_lock);
}

static KC_NOINLINE void give_back(kc_block_cache_t *cache, uint32_t count)
{
    pthread_mutex_lock(&pool_lock);
    list_move(&pool, cache, count);
    pthread_mutex_unlock(&pool_lock);
}

kc_block_t *kc__block_get(kc_block_cache_t *cache)
{
    if (kc_unlikely(cache->count == 0))
        refill(cache);
    return kc_likely(cache->count > 0) ? list_pop(cache) : NULL;
}

void kc__block_put(kc_block_cache_t *cache, kc_block_t *block)
{
    kc_store_relaxed(&block->magic, KC_BLOCK_FREE);
    if (kc_unlikely(kc__os_debug()))
        return;
    list_push(cache, block);
    if (kc_unlikely(cache->count > 2 * BATCH))
        give_back(cache, BATCH);
}

void kc__block_cache_drain(kc_block_cache_t *cache)
{
    give_back(cache, cache->count);
}

void kc__block_each(uint32_t magic, void (*visit)(kc_block_t *block, void *arg), void *arg)
{
    pthread_mutex_lock(&pool_lock);
    chunk_t *chunk = kc__block_chunks;
    pthread_mutex_unlock(&pool_lock);

    for (; chunk; chunk = chunk->next) {
        for (size_t i = 1; i < CHUNK_SIZE / KC_BLOCK_SIZE; i++) {
            kc_block_t *block = (kc_block_t *)((char *)chunk + i * KC_BLOCK_SIZE);
            if (kc_load_relaxed(&block->magic) == magic)
                visit(block, arg);
        }
    }
}
