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
 *          The memory of a burst returns to the kernel some time after it. A thread that has
 *          nothing else to do cools the pool (kc__block_cool): the oldest batches that were not
 *          needed for a while become cold: they are in no list, but are bits in their chunk, and a
 *          page whose blocks are all cold is given back. It stays mapped and reads as 0, which is
 *          no magic: an old pointer is recognised as before. Cold blocks are handed out when there
 *          are no others.
 *
 * SHAPE    chunk: [header | page | page | ... ]  of 4096 bytes each, whatever the kernel's are. Its
 *          address is a multiple of its size.
 *          page: [32 numbers | block | block | ... ]  30 blocks, dense: a walk over 100 000 parked
 *          coroutines touches 13 MB and no stack page. A block of 128 bytes in place i has number i
 *          (kc__block_number); places 0 and 1 are where the numbers are.
 *          cache (per thread, no lock): in --64--> up to two batches --> out
 *          pools (one lock), one for each kind: batches from caches that have more, for caches that
 *          have none
 *
 *              block: raw --carve--> in use --put--> cache --> pool --cool--> cold
 *                                      ^-------get-----'---------'--------------'
 *
 * WHO      cache: its thread alone. pool, chunk: L(pool_lock). magic: A, anybody at any time.
 */
#include "base/block.h"

#include "base/os.h"

#include <pthread.h>
#include <string.h>

enum {
    CHUNK_SIZE = 1024 * 1024,
    PLACES = CHUNK_SIZE / KC_BLOCK_SIZE,
    IN_PAGE = KC_BLOCK_PAGE / KC_BLOCK_SIZE, /* places in a page                     */
    NUMBERS = 2,                             /* ... that the numbers of its blocks take */
    FIRST_PLACE = IN_PAGE,                   /* before it is the header: a page, which stays */
    PAGES = CHUNK_SIZE / KC_BLOCK_PAGE,
    CHUNK_BLOCKS = (PAGES - 1) * (IN_PAGE - NUMBERS),
    FEW = KC_BLOCK_BATCH / 2, /* free blocks: none of so few is handed out again         */
    KEPT = 256,               /* batches of a kind that a pool keeps for good */
    COOL_AT_ONCE = 16,        /* batches */
    COOL_AFTER = 20000000,    /* ns: the next burst may come soon                           */
    COOL_PAUSE = 1000000,     /* ns between two times, for a thread that has something to do */
};

/* The debugger script and kc__block_is go through the list of all. */
typedef struct chunk {
    struct chunk *next;           /* I                                                    */
    uint32_t used;                /* L  places below this were handed out at least once   */
    uint32_t cold_count;          /* L                                                    */
    bool busy;                    /* L  somebody gives its pages back: hands out none     */
    bool open, untrimmed;         /* L  it is in that list, see below                     */
    struct chunk *next_open;      /* L                                                    */
    struct chunk *next_untrimmed; /* L                                                    */
    uint64_t cold[PLACES / 64];   /* L  bit i: the block in place i is cold               */
    uint64_t gone[PAGES / 64];    /* L  bit i: page i is given back, and not used since   */
} chunk_t;

_Static_assert(sizeof(chunk_t) <= KC_BLOCK_PAGE, "the header has room");
_Static_assert(IN_PAGE * sizeof(uint64_t) == (size_t)NUMBERS * KC_BLOCK_SIZE,
               "a number for each place");
_Static_assert(sizeof(kc_block_t) == 16, "the head of a control block is 16 bytes");

/* A free block. The first of a batch in the pool names the next batch. */
typedef struct free_block {
    kc_block_t block;
    struct free_block *next_batch; /* L(pool_lock) */
} free_block_t;

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static chunk_t *kc__block_chunks; /* L(pool_lock) newest first */
static struct pool {
    free_block_t *oldest, *newest; /* L(pool_lock)  the first blocks of batches              */
    uint32_t count;                /* L(pool_lock)  batches                                  */
    uint32_t least;                /* L(pool_lock)  so many at least since it was looked at last */
} pools[KC_BLOCK_KINDS];

/* Chunks with cold blocks, and those with pages that could be given back. */
static struct {
    chunk_t *first, *last; /* L(pool_lock) */
} open, untrimmed;

static KC_ATOMIC(uint32_t) crowded; /* A  1: some pool has, or had, more than it should keep */
static KC_ATOMIC(int64_t) cool_at;  /* A  when more may be given back                        */

/* ---- pools ----------------------------------------------------------------------------------- */

static void look_at_pools(void)
{
    for (int i = 0; i < KC_BLOCK_KINDS; i++)
        pools[i].least = pools[i].count;
}

static void pool_put(struct pool *pool, kc_mpsc_node_t *first)
{
    free_block_t *batch = kc_container_of(first, free_block_t, block.link);

    batch->next_batch = NULL;
    if (pool->newest)
        pool->newest->next_batch = batch;
    else
        pool->oldest = batch;
    pool->newest = batch;
    if (++pool->count > KEPT && kc_load_relaxed(&crowded) == 0) {
        look_at_pools();
        kc_store_relaxed(&cool_at, kc__os_now() + COOL_AFTER);
        kc_store_relaxed(&crowded, 1);
    }
}

static kc_mpsc_node_t *pool_get(struct pool *pool)
{
    free_block_t *batch = pool->oldest;

    if (!batch)
        return NULL;
    pool->oldest = batch->next_batch;
    if (!pool->oldest)
        pool->newest = NULL;
    if (--pool->count < pool->least)
        pool->least = pool->count;
    return &batch->block.link;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static chunk_t *chunk_of(const void *block)
{
    return (chunk_t *)((uintptr_t)block & ~(uintptr_t)(CHUNK_SIZE - 1));
}

static kc_block_t *block_at(chunk_t *chunk, size_t place)
{
    return (kc_block_t *)((char *)chunk + place * KC_BLOCK_SIZE);
}

/* The next place for a block from this one on. */
static size_t skip_numbers(size_t place)
{
    return place % IN_PAGE < NUMBERS ? place - place % IN_PAGE + NUMBERS : place;
}

/* Places in a page of the kernel's. */
static size_t places_in_page(void)
{
    return kc__os_page_size() / KC_BLOCK_SIZE;
}

static void list_open(chunk_t *chunk)
{
    if (chunk->open)
        return;
    chunk->open = true;
    chunk->next_open = NULL;
    *(open.last ? &open.last->next_open : &open.first) = chunk;
    open.last = chunk;
}

static void list_untrimmed(chunk_t *chunk)
{
    if (chunk->untrimmed)
        return;
    chunk->untrimmed = true;
    chunk->next_untrimmed = NULL;
    *(untrimmed.last ? &untrimmed.last->next_untrimmed : &untrimmed.first) = chunk;
    untrimmed.last = chunk;
}

/* The first chunk with cold blocks that may be handed out, no longer in the list; NULL: none. */
static chunk_t *take_open(void)
{
    chunk_t *before = NULL, *chunk = open.first;

    for (; chunk && chunk->busy; chunk = chunk->next_open)
        before = chunk;
    if (!chunk)
        return NULL;
    *(before ? &before->next_open : &open.first) = chunk->next_open;
    if (open.last == chunk)
        open.last = before;
    chunk->open = false;
    return chunk;
}

/* A batch of cold blocks; NULL: there are none. */
static kc_mpsc_node_t *carve_cold(void)
{
    chunk_t *chunk = take_open();
    kc_mpsc_node_t *first = NULL, **end = &first;
    size_t in_page = places_in_page();
    int n = 0;

    for (size_t w = 0; chunk && w < PLACES / 64 && n < KC_BLOCK_BATCH; w++) {
        for (; chunk->cold[w] && n < KC_BLOCK_BATCH; n++) {
            size_t i = w * 64 + (size_t)__builtin_ctzll(chunk->cold[w]), page = i / in_page;
            chunk->cold[w] &= chunk->cold[w] - 1;
            chunk->gone[page / 64] &= ~((uint64_t)1 << page % 64);
            chunk->cold_count--;
            *end = &block_at(chunk, i)->link;
            end = &(*end)->next;
            *end = NULL;
        }
    }
    if (chunk && chunk->cold_count > 0)
        list_open(chunk);
    return first;
}

static chunk_t *chunk_with_room(void)
{
    chunk_t *chunk = kc__block_chunks;

    if (chunk && chunk->used < PLACES)
        return chunk;
    chunk = kc__os_map_data(CHUNK_SIZE);
    if (!chunk)
        return NULL;
    chunk->used = FIRST_PLACE;
    chunk->next = kc__block_chunks;
    kc__block_chunks = chunk;
    return chunk;
}

/* A batch of unstarted blocks: from the current chunk, or a new one. NULL: no memory. */
static kc_mpsc_node_t *carve(void)
{
    chunk_t *chunk = chunk_with_room();
    kc_mpsc_node_t *first = NULL, **end = &first;

    for (int i = 0; chunk && i < KC_BLOCK_BATCH && chunk->used < PLACES; i++) {
        size_t place = skip_numbers(chunk->used);
        chunk->used = (uint32_t)place + 1;
        *end = &block_at(chunk, place)->link;
        end = &(*end)->next;
        *end = NULL;
    }
    return first;
}

/* ---- caches ---------------------------------------------------------------------------------- */

/* The thread has none of its own: what others of its kind have left, or of the other kind, or cold
 * ones, or unstarted ones. */
static kc_mpsc_node_t *get_any(kc_block_kind_t kind)
{
    kc_mpsc_node_t *first = pool_get(&pools[kind]);

    for (int i = 0; !first && i < KC_BLOCK_KINDS; i++)
        first = pool_get(&pools[i]);
    if (!first)
        first = carve_cold();
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
    cache->out = cache->in_count >= FEW ? pool_get(&pools[cache->kind]) : get_any(cache->kind);
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

void kc__block_put_slow(kc_block_cache_t *cache, kc_block_t *block)
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

/* ---- pages that go back ---------------------------------------------------------------------- */

/* Takes a batch that nobody has needed for a while, or any that is too much. Returns how many
 * blocks; 0: there is none. */
static size_t take_idle(kc_cool_t when, kc_block_t *block[KC_BLOCK_BATCH])
{
    kc_mpsc_node_t *node = NULL;
    size_t n = 0;

    pthread_mutex_lock(&pool_lock);
    for (int i = 0; i < KC_BLOCK_KINDS && !node; i++) {
        struct pool *pool = &pools[i];
        if ((when == KC_COOL_NOW ? pool->count : pool->least) <= KEPT)
            continue;
        uint32_t idle = pool->least;
        node = pool_get(pool);
        pool->least = idle > 0 ? idle - 1 : 0;
    }
    pthread_mutex_unlock(&pool_lock);
    for (; node; node = node->next) {
        KC_ASSERT(n < KC_BLOCK_BATCH);
        block[n++] = kc_container_of(node, kc_block_t, link);
    }
    return n;
}

/* Notes them as cold. Returns a chunk of which all are, NULL: none. */
static chunk_t *make_cold(kc_block_t *const *block, size_t n)
{
    chunk_t *whole = NULL;

    pthread_mutex_lock(&pool_lock);
    for (size_t k = 0; k < n; k++) {
        chunk_t *chunk = chunk_of(block[k]);
        size_t i = (size_t)((char *)block[k] - (char *)chunk) / KC_BLOCK_SIZE;
        chunk->cold[i / 64] |= (uint64_t)1 << i % 64;
        list_open(chunk);
        list_untrimmed(chunk);
        if (++chunk->cold_count == CHUNK_BLOCKS)
            whole = chunk;
    }
    pthread_mutex_unlock(&pool_lock);
    return whole;
}

/* A chunk with pages that may have to be given back; NULL: none. */
static chunk_t *take_untrimmed(void)
{
    pthread_mutex_lock(&pool_lock);
    chunk_t *chunk = untrimmed.first;
    if (chunk) {
        untrimmed.first = chunk->next_untrimmed;
        if (!untrimmed.first)
            untrimmed.last = NULL;
        chunk->untrimmed = false;
    }
    pthread_mutex_unlock(&pool_lock);
    return chunk;
}

/* Under the lock: all blocks of that page are cold. */
static bool is_cold_page(const chunk_t *chunk, size_t page, size_t in_page)
{
    const uint64_t blocks = ((uint64_t)1 << IN_PAGE) - ((uint64_t)1 << NUMBERS);
    uint64_t all = blocks;

    for (size_t i = page * in_page; i < (page + 1) * in_page; i += IN_PAGE)
        all &= chunk->cold[i / 64] >> i % 64;
    return all == blocks;
}

/* Under the lock: pages that can be given back, as bits. False: none. */
static bool find_cold_pages(const chunk_t *chunk, uint64_t cold[PAGES / 64])
{
    size_t in_page = places_in_page();
    bool any = false;

    memset(cold, 0, PAGES / 8);
    for (size_t page = 0; page < PLACES / in_page; page++) {
        uint64_t bit = (uint64_t)1 << page % 64;
        bool is = !(chunk->gone[page / 64] & bit) && is_cold_page(chunk, page, in_page);
        cold[page / 64] |= is ? bit : 0;
        any = any || is;
    }
    return any;
}

/* Gives pages of a chunk back, outside the lock: it takes a while. Neighbours go in one call. */
static void trim_pages(chunk_t *chunk, const uint64_t cold[PAGES / 64])
{
    size_t size = kc__os_page_size(), pages = CHUNK_SIZE / size;

    for (size_t page = 0, run; page < pages; page += run + 1) {
        for (run = 0; page + run < pages; run++)
            if (!(cold[(page + run) / 64] >> (page + run) % 64 & 1))
                break;
        if (run > 0)
            kc__os_trim((char *)chunk + page * size, run * size);
    }
}

static void give_back(chunk_t *chunk)
{
    uint64_t cold[PAGES / 64];

    pthread_mutex_lock(&pool_lock);
    bool mine = !chunk->busy; /* who is at it looks again when it is through */
    chunk->busy = true;
    while (mine && find_cold_pages(chunk, cold)) {
        pthread_mutex_unlock(&pool_lock);
        trim_pages(chunk, cold);
        pthread_mutex_lock(&pool_lock);
        for (size_t i = 0; i < PAGES / 64; i++)
            chunk->gone[i] |= cold[i];
    }
    if (mine)
        chunk->busy = false;
    pthread_mutex_unlock(&pool_lock);
}

/* All that nobody has needed is given back. What was needed may not be any more. */
static void look_again_later(int64_t now)
{
    bool more = false;

    pthread_mutex_lock(&pool_lock);
    look_at_pools();
    for (int i = 0; i < KC_BLOCK_KINDS; i++)
        more = more || pools[i].count > KEPT;
    if (more)
        kc_store_relaxed(&cool_at, now + COOL_AFTER);
    else
        kc_store_relaxed(&crowded, 0);
    pthread_mutex_unlock(&pool_lock);
}

int64_t kc__block_cool_at(void)
{
    return kc_load_relaxed(&crowded) == 0 ? INT64_MAX : kc_load_relaxed(&cool_at);
}

bool kc__block_cool(kc_cool_t when)
{
    kc_block_t *block[KC_BLOCK_BATCH];
    chunk_t *chunk = NULL;
    size_t n = 1;

    if (kc_load_relaxed(&crowded) == 0)
        return false;
    int64_t now = kc__os_now();
    if (when != KC_COOL_NOW && now < kc_load_relaxed(&cool_at))
        return false;
    if (when == KC_COOL_BUSY)
        kc_store_relaxed(&cool_at, now + COOL_PAUSE);
    for (int i = 0; i < COOL_AT_ONCE && !chunk && n > 0; i++) {
        n = take_idle(when, block);
        chunk = n > 0 ? make_cold(block, n) : take_untrimmed();
    }
    if (chunk)
        give_back(chunk);
    else if (n == 0)
        look_again_later(now);
    return chunk || n > 0;
}

/* ---- looking --------------------------------------------------------------------------------- */

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
            return offset >= KC_BLOCK_PAGE && offset % KC_BLOCK_SIZE == 0 &&
                   offset % KC_BLOCK_PAGE >= (size_t)NUMBERS * KC_BLOCK_SIZE;
    }
    return false;
}

bool kc__block_is_free(const void *at)
{
    const kc_block_t *block = at;
    uint32_t magic = kc__block_is(at) ? kc_load_relaxed(&block->magic) : 1;

    return magic == KC_BLOCK_FREE || magic == 0;
}

void kc__block_each(uint32_t magic, void (*visit)(kc_block_t *block, void *arg), void *arg)
{
    for (chunk_t *chunk = newest_chunk(); chunk; chunk = chunk->next) {
        for (size_t i = FIRST_PLACE; (i = skip_numbers(i)) < PLACES; i++) {
            kc_block_t *block = block_at(chunk, i);
            if (kc_load_relaxed(&block->magic) == magic)
                visit(block, arg);
        }
    }
}
