/* SPDX-License-Identifier: MIT */
/*
 * object.h - what users have handles of: channels, signals, tokens... Each is a control block.
 *
 * WHAT     A block stays mapped for ever and says by its magic what it is (block.c): so a handle
 *          that is used after its last release is found, and not taken for what is there now, for
 *          as long as nothing of the same kind has got the block. That comes late, as the oldest
 *          free block is handed out first, and with KCORO_DEBUG=1 never.
 *
 *          What lies in the user's memory and may be copied (a lease, a subscription) has a block
 *          of its own to stand for it, and its number beside: a number is never given out again, so
 *          a copy of one that was given up is always found.
 */
#ifndef KC_CORO_OBJECT_H
#define KC_CORO_OBJECT_H

#include "base/block.h"
#include "base/os.h"

/* Those of the others are where they are. */
#define KC_BROADCAST_MAGIC 0xb20adc70u
#define KC_SUBSCRIPTION_MAGIC 0x50b5c070u
#define KC_LEASE_MAGIC 0x1ea5c070u

/* A handle that the user has given is none of this kind: says so, and aborts. rule: "J32". */
_Noreturn KC_COLD void kc__object_not_live(const char *call, const char *kind, const char *rule,
                                           const void *handle);

/* The handle is one of this kind, and in use. */
KC_INLINE bool kc__object_is(const void *handle, uint32_t magic)
{
    return handle && kc_load_relaxed(&((const kc_block_t *)handle)->magic) == magic;
}

#ifdef KC_MODEL /* test/model has memory of its own */

KC_INLINE kc_block_t *kc__object_get(uint32_t magic)
{
    kc_block_t *block = kc__alloc(KC_BLOCK_SIZE);

    if (block)
        kc_store_relaxed(&block->magic, magic);
    return block;
}

KC_INLINE void kc__object_put(kc_block_t *block)
{
    kc__free(block);
}

#else

/* A block of this kind, all else zero. NULL: no memory. */
kc_block_t *kc__object_get(uint32_t magic);

/* It is free: from now on a handle of it is an old one. */
void kc__object_put(kc_block_t *block);

/* A ticket stands for something in the user's memory: a lease, a subscription. *number is
 * to be kept there beside it, so that an old copy is recognised. */
typedef struct {
    kc_block_t block;
    void *owner; /* I  the job, or the broadcast */
} kc_ticket_t;

kc_ticket_t *kc__ticket_get(uint32_t magic, void *owner, uint64_t *number);

/* It is the one with this number, and has not been given up. */
bool kc__ticket_is(const kc_ticket_t *ticket, uint32_t magic, uint64_t number);

/* Gives it up. False: somebody has already. */
bool kc__ticket_put(kc_ticket_t *ticket, uint32_t magic, uint64_t number);

#endif
#endif
