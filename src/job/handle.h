/* SPDX-License-Identifier: MIT */
/*
 * handle.h - handles that are used once: wakers and resolvers.
 *
 * WHAT     Behind such a handle is a control block, which goes when the handle is used. It stays
 *          mapped (block.c), so a second use finds that its magic is another one, until the block
 *          is handed out again. For the same kind of thing it would look right then: so the handle
 *          is the address of a byte inside the block, another one each time. Whoever has an old
 *          handle is found out unless the block has been used as often as it has bytes since, or
 *          for something else in between, which forgets how often that was.
 */
#ifndef KC_JOB_HANDLE_H
#define KC_JOB_HANDLE_H

#include "base/block.h"
#include "coro/coro.h"
#include "coro/thread.h"

/* What the structure of such a block begins with. */
typedef struct kc_handle {
    kc_block_t block;
    uint32_t tag; /* I  the byte */
} kc_handle_t;

/* A block of this kind, by thread t. NULL: no memory. */
KC_INLINE kc_handle_t *kc__handle_new(kc_thread_t *t, uint32_t magic)
{
    kc_block_t *block = kc__block_get(&t->jobs);

    if (!block)
        return NULL;
    kc_handle_t *h = kc_container_of(block, kc_handle_t, block);
    h->tag = (h->tag + 1) % KC_BLOCK_SIZE;
    kc_store_relaxed(&h->block.flags, 0);
    kc_store_relaxed(&h->block.magic, magic);
    return h;
}

KC_INLINE void kc__handle_free(kc_handle_t *h)
{
    kc_thread_t *t = kc__thread_make();

    if (!t)
        kc__die("no memory for the thread's state");
    kc__block_put(&t->jobs, &h->block);
}

/* What the user gets. */
KC_INLINE void *kc__handle_name(const kc_handle_t *h)
{
    return (char *)(uintptr_t)h + h->tag;
}

/* What the user gives. NULL: it is old, or none of this kind. */
KC_INLINE kc_handle_t *kc__handle_find(const void *name, uint32_t magic)
{
    uintptr_t at = (uintptr_t)name;
    kc_handle_t *h = (kc_handle_t *)(at - at % KC_BLOCK_SIZE);

    if (kc_load_relaxed(&h->block.magic) != magic || h->tag != at % KC_BLOCK_SIZE)
        return NULL;
    return h;
}

#endif
