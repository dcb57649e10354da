/* SPDX-License-Identifier: MIT */
/*
 * buffer.h - items of one size, first in first out, under the lock of whoever has it.
 *
 * SHAPE    bounded:    one ring of `capacity` items
 *          unlimited:  a list of chunks; a send fills the last one, a receive empties the first
 *
 *             first --> [ taken | items ] --> [ items ] --> [ items | free ] <-- last     spare
 *
 *          So an unlimited one gives back what a burst has needed, and no step copies all items.
 */
#ifndef KC_SYNC_BUFFER_H
#define KC_SYNC_BUFFER_H

#include "base/atomic.h"
#include "base/base.h"

#include <string.h>

typedef struct kc_chunk {
    struct kc_chunk *next;
    _Alignas(max_align_t) unsigned char items[]; /* a hook gets a pointer to one */
} kc_chunk_t;

typedef struct {
    size_t item_size;         /* I                                                            */
    size_t slots;             /* I  items in a chunk                                          */
    bool unlimited;           /* I                                                            */
    KC_ATOMIC(size_t) count;  /* A  items in it; written under the lock                       */
    size_t head, tail;        /* L  the next slot to empty, in first, and to fill, in last    */
    kc_chunk_t *first, *last; /* L                                                            */
    kc_chunk_t *spare;        /* L  unlimited: an empty chunk; NULL: none                     */
} kc_buffer_t;

/* 0 or -ENOMEM. capacity may be 0: then nothing fits. */
int kc__buffer_init(kc_buffer_t *b, size_t item_size, size_t capacity, bool unlimited);
void kc__buffer_free(kc_buffer_t *b);

/* A chunk for kc__buffer_give; NULL: no memory. Without the lock. */
kc_chunk_t *kc__buffer_chunk(const kc_buffer_t *b);

/* Unlimited: keeps it for later. Returns one that is to be freed; NULL: none. */
kc_chunk_t *kc__buffer_give(kc_buffer_t *b, kc_chunk_t *chunk);

/* At the end of a chunk, of an unlimited one: goes to the next. */
void kc__buffer_next_to_fill(kc_buffer_t *b);
void kc__buffer_next_to_empty(kc_buffer_t *b);

KC_INLINE void kc__item_copy(void *to, const void *from, size_t size)
{
    if (kc_unlikely(!from))
        return; /* only what has no size may be NULL */
    if (kc_likely(size == sizeof(uint64_t)))
        memcpy(to, from, sizeof(uint64_t));
    else if (size == sizeof(uint32_t))
        memcpy(to, from, sizeof(uint32_t));
    else if (size > 0)
        memcpy(to, from, size);
}

KC_INLINE size_t kc__buffer_count(const kc_buffer_t *b)
{
    return kc_load_relaxed(&b->count);
}

/* One more fits. */
KC_INLINE bool kc__buffer_has_room(const kc_buffer_t *b)
{
    if (kc_unlikely(b->unlimited))
        return b->tail < b->slots || b->spare;
    return kc__buffer_count(b) < b->slots;
}

KC_INLINE unsigned char *kc__buffer_slot(const kc_buffer_t *b, kc_chunk_t *chunk, size_t i)
{
    return chunk->items + i * b->item_size;
}

/* Where the slot after this one is in the ring of a bounded one. */
KC_INLINE size_t kc__buffer_after(const kc_buffer_t *b, size_t i)
{
    return i + 1 < b->slots ? i + 1 : 0;
}

KC_INLINE void kc__buffer_push(kc_buffer_t *b, const void *item)
{
    if (kc_unlikely(b->tail == b->slots))
        kc__buffer_next_to_fill(b);
    kc__item_copy(kc__buffer_slot(b, b->last, b->tail), item, b->item_size);
    b->tail = b->unlimited ? b->tail + 1 : kc__buffer_after(b, b->tail);
    kc_store_relaxed(&b->count, kc__buffer_count(b) + 1);
}

/* The one that pop takes out. There is one. */
KC_INLINE void *kc__buffer_oldest(kc_buffer_t *b)
{
    if (kc_unlikely(b->head == b->slots))
        kc__buffer_next_to_empty(b);
    return kc__buffer_slot(b, b->first, b->head);
}

/* item is NULL: drops it. There is one. */
KC_INLINE void kc__buffer_pop(kc_buffer_t *b, void *item)
{
    const void *oldest = kc__buffer_oldest(b);

    if (item)
        kc__item_copy(item, oldest, b->item_size);
    size_t left = kc__buffer_count(b) - 1;
    b->head = b->unlimited ? b->head + 1 : kc__buffer_after(b, b->head);
    if (b->unlimited && left == 0) /* then there is one chunk, which is used again */
        b->head = b->tail = 0;
    kc_store_relaxed(&b->count, left);
}

#endif
