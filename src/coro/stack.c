/* SPDX-License-Identifier: MIT */
/*
 * stack.c - stacks with guards, from slabs, recycled warm.
 *
 * WHAT     The first touch of a page costs microseconds, a warm stack from a cache nanoseconds. So
 *          stacks go round in three rings: a pile per thread (last in, first out, no lock), a small
 *          warm pool that all threads share, and beyond that the cold ones, whose pages are given
 *          back to the kernel in batches. Resident memory follows the number in use.
 *
 *          A scheduler's threads have moments with nothing to do: they leave what is too much in
 *          the warm pool, and give it back then (kc__stack_cool), some time after the burst: a page
 *          that is given back and touched again costs more than all else in the life of a
 *          coroutine. So bursts that come again are quick, and the peak is no higher.
 *
 * SHAPE    slab: one mapping of up to 64 slots
 *
 *            base                                                                    higher -->
 *            | guard | stack 0 ......... | guard | stack 1 ......... | guard | stack 2 ...
 *                    low           top^                one page of guard, below the stack
 *
 *          A stack is named by one word, slab address | slot: no per-stack descriptor exists and no
 *          stack page is touched to manage it. Slots are made (guarded) when first needed.
 *
 *              slot: raw --make--> in use --put--> pile --overflow--> warm --pool full--> cold
 *                                    ^--------------get--'---------------'-----------------'
 *          A slab of which all slots are cold is unmapped when there are many cold ones.
 *
 * WHO      pile: its thread. Everything in a pool and the slabs' lists and bitmaps: L(pool->lock),
 *          taken once per batch. slab geometry: I.
 *
 * WHY NOT  A power-of-two stride with the guard inside: it takes a page from the size that was
 *          asked for.
 *          One mapping per stack: 2 mappings each, and the kernel's default limit is 65 530.
 */
#include "coro/stack.h"

#include "coro/sanitize.h"
#include "coro/thread.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

enum {
    SLAB_SIZE = 4352 * 1024,
    WARM_MAX = 1 << 17, /* what a pool has room for, until somebody has the time to cool it */
    COLD_MAX = 4096,    /* more than so many cold ones: slabs that are all cold are unmapped */
    COOL_AT_ONCE = 16,
    COOL_AFTER = 20000000, /* ns: the next burst may come soon                                */
    COOL_PAUSE = 1000000,  /* ns between two times, for a thread that has something to do      */
};

typedef struct slab {
    kc_slab_t all;            /* I                                                          */
    uint64_t cold;            /* L  bit i: slot i is free and its pages are given back      */
    struct slab *next, *prev; /* L  in the pool's list of slabs that have cold or raw slots */
    uint16_t slots;           /* I                                                          */
    uint16_t made;            /* L  slots below this have their guard                       */
    bool listed;              /* L                                                          */
} slab_t;

_Static_assert(sizeof(slab_t) <= KC_SLAB_SLOTS, "the slot number fits below a slab's address");

/* What all threads share, one for each size class. All of it is L(lock). */
typedef struct {
    pthread_mutex_t lock;
    slab_t *open;   /* slabs with cold or raw slots       */
    uint32_t slots; /* in all slabs, raw ones too         */
    size_t made, warm_count, cold_count;
    size_t oldest;             /* where the ring of warm ones begins */
    kc_stack_t warm[WARM_MAX]; /* memory that is touched as far as it is needed */
} pool_t;

static KC_ATOMIC(int) wanted;      /* A  jobs that wait for a stack                       */
static KC_ATOMIC(int64_t) cool_at; /* A  when the next ones may be given back            */
static KC_ATOMIC(uint32_t) hot;    /* A  bit i: pool i has more warm ones than it should keep */

#define POOL                                                                                      \
    {                                                                                             \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                         \
    }
static pool_t pools[] = { POOL, POOL, POOL, POOL, POOL, POOL, POOL, POOL, POOL, POOL };
_Static_assert(sizeof pools / sizeof pools[0] == KC_STACK_CLASSES, "a pool for each class");

/* How many stacks of a class a thread keeps. Of large ones fewer, so that what may stay resident is
 * bounded in bytes: 4 MiB for a thread's pile up to 2 MiB stacks, four times that for the pool. */
static uint32_t pile_max(unsigned sc)
{
    uint32_t most = sc > KC_STACK_SMALL ? KC_STACK_CACHE >> (sc - KC_STACK_SMALL) : KC_STACK_CACHE;

    return most < 2 ? 2 : most;
}

/* How many warm stacks a pool keeps for good. */
static size_t warm_limit(unsigned sc)
{
    return (size_t)4 * pile_max(sc);
}

static slab_t *slab_of(kc_stack_t stack)
{
    return kc_container_of(kc__stack_slab(stack), slab_t, all);
}

char *kc__stack_low(kc_stack_t stack)
{
    const kc_slab_t *slab = kc__stack_slab(stack);

    return slab->base + (kc__stack_slot(stack) + 1) * slab->stride - slab->size;
}

size_t kc__stack_size(kc_stack_t stack)
{
    return kc__stack_slab(stack)->size;
}

/* Not instrumented: it reads what sanitizers call poisoned. */
__attribute__((no_sanitize("address", "thread"))) size_t kc__stack_used(kc_stack_t stack)
{
    const volatile uint64_t *word = (const volatile uint64_t *)kc__stack_low(stack);
    const char *top = kc__stack_top(stack);

    while ((const char *)word < top && *word == 0)
        word++;
    return (size_t)(top - (const char *)word);
}

/* ---- slabs --------------------------------------------------------------------------------- */

static slab_t *slab_new(uint8_t sc, size_t size, size_t slots)
{
    slab_t *slab = kc__alloc_aligned(KC_SLAB_SLOTS, sizeof *slab);

    if (!slab)
        return NULL;
    slab->all.size = size;
    slab->all.stride = size + kc__os_page_size();
    slab->slots = (uint16_t)slots;
    slab->all.size_class = sc;
    slab->all.base = kc__os_map(slots * slab->all.stride);
    if (!slab->all.base) {
        kc__free(slab);
        return NULL;
    }
    return slab;
}

static void slab_free(slab_t *slab)
{
    kc__os_unmap(slab->all.base, slab->slots * slab->all.stride);
    kc__free(slab);
}

/* A list of them, by next. */
static void slabs_free(slab_t *slab)
{
    while (slab) {
        slab_t *next = slab->next;
        slab_free(slab);
        slab = next;
    }
}

/* Guards up to `count` of the raw slots. Returns how many, with the reason if there are fewer. */
static size_t slab_make(slab_t *slab, size_t count, int *why)
{
    size_t raw = slab->slots - slab->made;
    size_t guard = slab->all.stride - slab->all.size;
    size_t done = kc__os_guard(slab->all.base + slab->made * slab->all.stride, guard,
                               slab->all.stride, count < raw ? count : raw, why);

    if (*why == -ENOMEM && kc__os_guard_kind() == KC_GUARD_PROTECT)
        *why = -ENOSPC;
    slab->made = (uint16_t)(slab->made + done);
    return done;
}

static void pool_list(pool_t *pool, slab_t *slab)
{
    if (slab->listed)
        return;
    slab->listed = true;
    slab->prev = NULL;
    slab->next = pool->open;
    if (pool->open)
        pool->open->prev = slab;
    pool->open = slab;
}

static void pool_unlist(pool_t *pool, slab_t *slab)
{
    if (slab->next)
        slab->next->prev = slab->prev;
    if (slab->prev)
        slab->prev->next = slab->next;
    else
        pool->open = slab->next;
    slab->listed = false;
}

/* A slab with cold or raw slots: one that is there, or a new one. NULL: no memory. */
static slab_t *pool_open_slab(pool_t *pool, uint8_t sc)
{
    size_t size = (size_t)1 << (sc + KC_STACK_SHIFT);
    size_t slots = SLAB_SIZE / (size + kc__os_page_size());

    if (pool->open)
        return pool->open;
    slots = slots > KC_SLAB_SLOTS ? KC_SLAB_SLOTS : slots < 1 ? 1 : slots;
    slab_t *slab = slab_new(sc, size, slots);
    if (slab) {
        slab->all.first = pool->slots;
        pool->slots += (uint32_t)slots;
        pool_list(pool, slab);
    }
    return slab;
}

/* Takes up to `count` cold or raw slots of one slab. Returns how many; 0: none, and *why. */
static size_t pool_take_cold(pool_t *pool, uint8_t sc, kc_stack_t *out, size_t count, int *why)
{
    slab_t *slab = pool_open_slab(pool, sc);
    size_t n = 0;

    *why = -ENOMEM;
    if (!slab)
        return 0;
    for (; n < count && slab->cold; n++, slab->cold &= slab->cold - 1, pool->cold_count--)
        out[n] = (kc_stack_t)slab | (unsigned)__builtin_ctzll(slab->cold);
    if (n == 0) {
        uint16_t first = slab->made;
        for (size_t done = slab_make(slab, count, why); n < done; n++, pool->made++)
            out[n] = (kc_stack_t)slab | (first + n);
    }
    if (!slab->cold && slab->made == slab->slots)
        pool_unlist(pool, slab);
    return n;
}

/* A slab of which nothing is in use is taken out, and comes before those in the list `idle`. */
static slab_t *pool_retire(pool_t *pool, slab_t *slab, slab_t *idle)
{
    pool_unlist(pool, slab);
    pool->cold_count -= slab->made;
    pool->made -= slab->made;
    slab->next = idle;
    return slab;
}

/* Notes free slots whose pages are given back. Slabs of which nothing is in use any more are taken
 * out and returned as a list, to be unmapped outside the lock, with their page tables. */
static slab_t *pool_put_cold(pool_t *pool, const kc_stack_t *stack, uint32_t count)
{
    slab_t *idle = NULL;

    pool->cold_count += count;
    for (uint32_t i = 0; i < count; i++) {
        slab_t *slab = slab_of(stack[i]);
        slab->cold |= (uint64_t)1 << kc__stack_slot(stack[i]);
        pool_list(pool, slab);
        if (pool->cold_count > COLD_MAX && __builtin_popcountll(slab->cold) == slab->made) {
            idle = pool_retire(pool, slab, idle);
        }
    }
    return idle;
}

/* ---- the rings ----------------------------------------------------------------------------- */

/* Fills an empty pile: warm ones if there are any, else a few cold ones. 0, or why it is still
 * empty. */
static KC_NOINLINE int pile_refill(kc_stack_cache_t *cache, uint8_t sc)
{
    pool_t *pool = &pools[sc];
    uint32_t n = 0, most = pile_max(sc) / 2;
    int rc = 0;
    kc_stack_t *pile = cache->pile[sc].stack;

    pthread_mutex_lock(&pool->lock);
    if (pool->warm_count > 0) {
        n = pool->warm_count < most ? (uint32_t)pool->warm_count : most;
        pool->warm_count -= n;
        for (uint32_t i = 0; i < n; i++)
            pile[i] = pool->warm[(pool->oldest + pool->warm_count + i) % WARM_MAX];
    } else {
        n = (uint32_t)pool_take_cold(pool, sc, pile, most, &rc);
    }
    pthread_mutex_unlock(&pool->lock);
    cache->pile[sc].count = n;
    return n > 0 ? 0 : rc;
}

/* Gives the pages of free stacks back. Sorted, neighbours go in one call: guards between them
 * survive. */
static void trim(kc_stack_t *stack, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        kc_stack_t s = stack[i];
        uint32_t k = i;
        for (; k > 0 && stack[k - 1] > s; k--)
            stack[k] = stack[k - 1];
        stack[k] = s;
    }
    for (uint32_t i = 0, run; i < count; i += run) {
        for (run = 1; i + run < count && stack[i + run] == stack[i] + run; run++)
            ;
        kc__os_trim(kc__stack_low(stack[i]),
                    (run - 1) * kc__stack_slab(stack[i])->stride + kc__stack_size(stack[i]));
    }
}

/* Gives the pages of free stacks back, outside the lock: it takes microseconds. */
static void make_cold(pool_t *pool, kc_stack_t *stack, uint32_t count)
{
    trim(stack, count);
    pthread_mutex_lock(&pool->lock);
    slab_t *idle = pool_put_cold(pool, stack, count);
    pthread_mutex_unlock(&pool->lock);
    slabs_free(idle);
}

/* Moves the `count` oldest stacks of a pile to the warm pool or, where that is full, to the cold.
 * */
static KC_NOINLINE void pile_give_back(kc_stack_cache_t *cache, uint8_t sc, uint32_t count)
{
    pool_t *pool = &pools[sc];
    kc_stack_t *pile = cache->pile[sc].stack;
    bool small = sc <= KC_STACK_SMALL;

    pthread_mutex_lock(&pool->lock);
    bool warm = pool->warm_count + count <= (cache->lazy && small ? WARM_MAX : warm_limit(sc));
    for (uint32_t i = 0; warm && i < count; i++)
        pool->warm[(pool->oldest + pool->warm_count++) % WARM_MAX] = pile[i];
    uint32_t pools_hot = kc_load_relaxed(&hot);
    if (pool->warm_count > warm_limit(sc) && !(pools_hot & 1u << sc)) {
        if (pools_hot == 0)
            kc_store_relaxed(&cool_at, kc__os_now() + COOL_AFTER);
        kc_add_relaxed(&hot, 1u << sc); /* the bit, which only the holder of this lock changes */
    }
    pthread_mutex_unlock(&pool->lock);
    if (!warm) {
        make_cold(pool, pile, count);
        if (!cache->lazy) /* this thread has no other time for that */
            kc__block_cool(KC_COOL_NOW);
    }
    cache->pile[sc].count -= count;
    memmove(pile, pile + count, cache->pile[sc].count * sizeof *pile);
}

int64_t kc__stack_cool_at(void)
{
    return kc_load_relaxed(&hot) == 0 ? INT64_MAX : kc_load_relaxed(&cool_at);
}

void kc__stack_want(int more)
{
    kc_add_relaxed(&wanted, more);
}

/* The oldest of the warm ones become cold, as long as there are more than `keep`: up to
 * COOL_AT_ONCE. True: there may be more of them. */
static bool pool_cool(unsigned sc, size_t keep)
{
    pool_t *pool = &pools[sc];
    kc_stack_t stack[COOL_AT_ONCE];

    pthread_mutex_lock(&pool->lock);
    size_t much = pool->warm_count > keep ? pool->warm_count - keep : 0;
    uint32_t n = much < COOL_AT_ONCE ? (uint32_t)much : COOL_AT_ONCE;
    for (uint32_t i = 0; i < n; i++) {
        stack[i] = pool->warm[pool->oldest];
        pool->oldest = (pool->oldest + 1) % WARM_MAX;
    }
    pool->warm_count -= n;
    if (n == much && kc_load_relaxed(&hot) & 1u << sc) /* not by another meanwhile */
        kc_add_relaxed(&hot, -(1u << sc));
    pthread_mutex_unlock(&pool->lock);
    if (n > 0)
        make_cold(pool, stack, n);
    return n < much;
}

bool kc__stack_cool(kc_cool_t when)
{
    uint32_t pools_hot = kc_load_relaxed(&hot);

    if (kc_load_relaxed(&wanted) > 0)
        kc__stack_cache_drain(&kc__thread()->stacks);
    if (pools_hot == 0)
        return false;
    int64_t now = when == KC_COOL_NOW ? INT64_MAX : kc__os_now();
    if (now < kc_load_relaxed(&cool_at))
        return false;
    if (when == KC_COOL_BUSY)
        kc_store_relaxed(&cool_at, now + COOL_PAUSE);
    unsigned sc = (unsigned)__builtin_ctz(pools_hot);
    pool_cool(sc, warm_limit(sc));
    return true;
}

/* Unmaps the slabs of which nothing is in use. True: there was one. */
static bool pool_unmap(pool_t *pool)
{
    slab_t *idle = NULL;

    pthread_mutex_lock(&pool->lock);
    for (slab_t *slab = pool->open, *next; slab; slab = next) {
        next = slab->next;
        if (slab->made > 0 && __builtin_popcountll(slab->cold) == slab->made)
            idle = pool_retire(pool, slab, idle);
    }
    pthread_mutex_unlock(&pool->lock);
    bool any = idle != NULL;
    slabs_free(idle);
    return any;
}

/* No more can be mapped: so what nobody uses goes back, of whatever size. True: something did. */
static KC_COLD bool reclaim(kc_stack_cache_t *cache)
{
    bool any = false;

    kc__stack_cache_drain(cache);
    for (unsigned sc = 0; sc < KC_STACK_CLASSES; sc++) {
        while (pool_cool(sc, 0))
            ;
        any = pool_unmap(&pools[sc]) || any;
    }
    return any;
}

/* ---- get and put --------------------------------------------------------------------------- */

bool kc__stack_can_fit_alone(size_t size)
{
    size_t space = kc__os_address_space();
    size_t extra = 2 * kc__os_page_size(); /* its guard, and what rounding adds */

    if (kc__tools & KC_TOOL_ASAN) /* see coro_new */
        size = size < SIZE_MAX / 4 ? size * 4 : SIZE_MAX;
    return space > extra && size <= space - extra;
}

static int get_alone(size_t size, kc_stack_t *out)
{
    size_t page = kc__os_page_size();

    if (size > SIZE_MAX / 2)
        return -ENOMEM;
    slab_t *slab = slab_new(KC_STACK_CLASSES, kc__align_up(size, page), 1);
    if (!slab)
        return -ENOMEM;
    int why = 0;
    if (slab_make(slab, 1, &why) == 0) {
        slab_free(slab);
        return why;
    }
    *out = (kc_stack_t)slab;
    return 0;
}

static int get_new(kc_stack_cache_t *cache, size_t size, kc_stack_t *out)
{
    unsigned sc = kc__stack_class(size);

    if (sc >= KC_STACK_CLASSES)
        return get_alone(size, out);
    int rc = pile_refill(cache, (uint8_t)sc);
    if (rc < 0)
        return rc;
    *out = cache->pile[sc].stack[--cache->pile[sc].count];
    return 0;
}

int kc__stack_get_other(kc_stack_cache_t *cache, size_t size, kc_stack_t *out)
{
    int rc = get_new(cache, size, out);

    return rc < 0 && reclaim(cache) ? get_new(cache, size, out) : rc;
}

const char *kc__stack_error(int rc, size_t size, kc_no_stack_t *no_stack)
{
    static const char *const why[KC_LACKS] = {
        [KC_NO_STACK_MEMORY] = "no memory for a stack",
        [KC_NO_STACK_MAPPINGS] = "no mapping for a stack: the limit vm.max_map_count is reached",
        [KC_NO_STACK_ADDRESSES] = "no address space for a stack: see the limit RLIMIT_AS",
    };

    *no_stack = rc == -ENOSPC ? KC_NO_STACK_MAPPINGS : kc__os_why_no_memory(size);
    return rc == -ENOSPC ? "the kernel's limit on mappings, vm.max_map_count, is reached: "
                           "without guard markers (Linux 6.13) each stack needs two mappings"
                         : why[*no_stack];
}

void kc__stack_put(kc_stack_cache_t *cache, kc_stack_t stack)
{
    slab_t *slab = slab_of(stack);
    uint8_t sc = slab->all.size_class;

    if (kc__stack_keep(cache, stack))
        return;
    if (sc == KC_STACK_CLASSES) {
        slab_free(slab);
        return;
    }
    if (kc__os_debug())
        kc__os_trim(kc__stack_low(stack), slab->all.size);
    cache->pile[sc].stack[cache->pile[sc].count++] = stack;
    if (cache->pile[sc].count == pile_max(sc))
        pile_give_back(cache, sc, pile_max(sc) / 2);
}

void kc__stack_cache_drain(kc_stack_cache_t *cache)
{
    for (int sc = 0; sc < KC_STACK_CLASSES; sc++) {
        while (cache->pile[sc].count > 0) {
            uint32_t n = cache->pile[sc].count, most = pile_max((unsigned)sc);
            pile_give_back(cache, (uint8_t)sc, n < most ? n : most);
        }
    }
}

kc_stack_stats_t kc__stack_stats(void)
{
    kc_stack_stats_t stats = { 0, 0, 0 };

    for (int sc = 0; sc < KC_STACK_CLASSES; sc++) {
        pthread_mutex_lock(&pools[sc].lock);
        stats.made += pools[sc].made;
        stats.warm += pools[sc].warm_count;
        stats.cold += pools[sc].cold_count;
        pthread_mutex_unlock(&pools[sc].lock);
    }
    return stats;
}
