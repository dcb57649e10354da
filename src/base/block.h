/* SPDX-License-Identifier: MIT */
/*
 * block.h - control blocks of 128 bytes that stay mapped for ever, handed out oldest first.
 */
#ifndef KC_BASE_BLOCK_H
#define KC_BASE_BLOCK_H

#include "base/atomic.h"
#include "base/base.h"
#include "base/mpsc.h"

enum { KC_BLOCK_SIZE = 128 };

/* The cookie of a block that is not in use. A page that was never used reads as 0. */
#define KC_BLOCK_FREE 0xdeadc070u

/* The head of every control block. */
typedef struct kc_block {
    KC_ATOMIC(uint32_t) magic; /* A  what it is now; KC_BLOCK_FREE in a cache        */
    KC_ATOMIC(uint32_t) flags; /* A  the user's                                      */
    kc_mpsc_node_t link;       /* O  the user's while in use, ours while free        */
} kc_block_t;

/* Free blocks of one thread. All zero is empty. */
typedef struct {
    kc_block_t *out;          /* to be given out next                 */
    kc_block_t *in, *in_last; /* come back, oldest first              */
    uint32_t in_count;
    uint32_t batches;
    kc_block_t *batch[2]; /* full ones, oldest first */
} kc_block_cache_t;

/* Returns: a block whose magic and flags are the caller's to set; NULL: no memory. */
kc_block_t *kc__block_get(kc_block_cache_t *cache);

/* Marks the block free and keeps it for later. With KCORO_DEBUG=1 it is never handed out again, so
 * that every use of an old pointer is found. */
void kc__block_put(kc_block_cache_t *cache, kc_block_t *block);

/* Gives all of a thread's free blocks to the others. */
void kc__block_cache_drain(kc_block_cache_t *cache);

/* True: there is a block at this address, in use or not. Then it may be read at any time. */
bool kc__block_is(const void *at);

/* Calls visit for every block in use that carries this magic. For reports and tests: blocks may
 * come and go meanwhile. */
void kc__block_each(uint32_t magic, void (*visit)(kc_block_t *block, void *arg), void *arg);

#endif
