/* SPDX-License-Identifier: MIT */
/*
 * block.h - control blocks of 128 bytes that stay mapped for ever, handed out oldest first.
 */
#ifndef KC_BASE_BLOCK_H
#define KC_BASE_BLOCK_H

#include "base/atomic.h"
#include "base/base.h"
#include "base/mpsc.h"
#include "base/os.h"

enum { KC_BLOCK_SIZE = 128, KC_BLOCK_PAGE = 4096 };

/* The cookie of a block that is not in use. A page that was never used, or was given back to the
 * kernel, reads as 0. */
#define KC_BLOCK_FREE 0xdeadc070u

/* The head of every control block. */
typedef struct kc_block {
    KC_ATOMIC(uint32_t) magic; /* A  what it is now; KC_BLOCK_FREE in a cache        */
    KC_ATOMIC(uint32_t) flags; /* A  the user's                                      */
    kc_mpsc_node_t link;       /* O  the user's while in use, ours while free        */
} kc_block_t;

/* What blocks are used for. The kinds are kept apart: who launches many jobs takes blocks for
 * all of them, then for their coroutines, and gives them back in turns. Out of one list each round
 * would shuffle them, until neighbours in the tree are nowhere near each other in memory. */
typedef enum {
    KC_BLOCK_COROUTINE,
    KC_BLOCK_JOB,
    KC_BLOCK_OBJECT, /* what else users have handles of */
    KC_BLOCK_KINDS
} kc_block_kind_t;

/* Free blocks of one thread, linked by link. All zero is empty, and for coroutines. */
typedef struct {
    kc_mpsc_node_t *out;          /* to be given out next                 */
    kc_mpsc_node_t *in, *in_last; /* come back, oldest first              */
    uint32_t in_count;
    uint32_t batches;
    kc_mpsc_node_t *batch[2]; /* full ones, oldest first */
    kc_block_kind_t kind;
} kc_block_cache_t;

enum { KC_BLOCK_BATCH = 64 };

#ifdef KC_MODEL /* test/model has its own, which keep books */
KC_ATOMIC(uint64_t) * kc__block_number(const kc_block_t *block);
kc_block_t *kc__block_get(kc_block_cache_t *cache);
void kc__block_put(kc_block_cache_t *cache, kc_block_t *block);
bool kc__block_is_ready(const kc_block_cache_t *cache);
#else

/* A word for each block, beside it: the user's, for the number of what is in it. Eight bytes more
 * in each block would make it span three cache lines. */
KC_INLINE KC_ATOMIC(uint64_t) * kc__block_number(const kc_block_t *block)
{
    uintptr_t at = (uintptr_t)block, page = at & ~(uintptr_t)(KC_BLOCK_PAGE - 1);

    return (KC_ATOMIC(uint64_t) *)(page + (at - page) / KC_BLOCK_SIZE * sizeof(uint64_t));
}

/* As kc__block_get, when the thread has no blocks to give out. */
KC_COLD kc_block_t *kc__block_refill(kc_block_cache_t *cache);

/* Keeps a free block that is the first or the last of a batch. With KCORO_DEBUG=1 none is kept. */
KC_COLD void kc__block_put_slow(kc_block_cache_t *cache, kc_block_t *block);

/* Returns: a block whose magic and flags are the caller's to set; NULL: no memory. */
KC_INLINE kc_block_t *kc__block_get(kc_block_cache_t *cache)
{
    kc_mpsc_node_t *node = cache->out;

    if (!node)
        return kc__block_refill(cache);
    cache->out = node->next;
    __builtin_prefetch(node->next, 1);
    return kc_container_of(node, kc_block_t, link);
}

/* The next one can be had at once. */
KC_INLINE bool kc__block_is_ready(const kc_block_cache_t *cache)
{
    return cache->out != NULL;
}

/* Marks the block free and keeps it for later. With KCORO_DEBUG=1 it is never handed out again, so
 * that every use of an old pointer is found. */
KC_INLINE void kc__block_put(kc_block_cache_t *cache, kc_block_t *block)
{
    uint32_t n = cache->in_count;

    kc_store_relaxed(&block->magic, KC_BLOCK_FREE);
    if (n == 0 || n >= KC_BLOCK_BATCH - 1 || kc_load_relaxed(&kc__os_debug_mode)) {
        kc__block_put_slow(cache, block);
        return;
    }
    block->link.next = NULL;
    cache->in_last->next = &block->link;
    cache->in_last = &block->link;
    cache->in_count = n + 1;
}

#endif

/* Gives all of a thread's free blocks to the others. */
void kc__block_cache_drain(kc_block_cache_t *cache);

typedef enum {
    KC_COOL_BUSY, /* a little now and then: there are other things to do */
    KC_COOL_IDLE, /* all, some time after the burst                      */
    KC_COOL_NOW   /* all, at once                                        */
} kc_cool_t;

/* Gives pages of free blocks back, if there are more of those than should stay and it is time.
 * False: nothing for now. */
bool kc__block_cool(kc_cool_t when);

/* When the next ones may be given back, on kc__os_now's clock; INT64_MAX: there are none. */
int64_t kc__block_cool_at(void);

/* True: there is a block at this address, in use or not. Then it may be read at any time. */
bool kc__block_is(const void *at);

/* The same of one that is not in use, or was never used. */
bool kc__block_is_free(const void *at);

/* Calls visit for every block in use that carries this magic. For tests: it looks at all blocks
 * that ever were. */
void kc__block_each(uint32_t magic, void (*visit)(kc_block_t *block, void *arg), void *arg);

#endif
