/* SPDX-License-Identifier: MIT */
/*
 * buffer.h - items of one size, first in first out, under the lock of whoever has it.
 *
 * SHAPE    bounded:    a chunk of `capacity` items, behind whose end its beginning comes: a ring
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
#include "base/tsan.h"

#include <string.h>

enum { KC_ITEM_SMALL = KC_CACHE_LINE }; /* bytes */

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

/* At most a cache line, without a call: of most sizes two pieces that overlap. */
KC_INLINE void kc__item_copy_small(unsigned char *to, const unsigned char *from, size_t size)
{
    if (kc_likely(size == 8)) {
        memcpy(to, from, 8);
    } else if (size >= 32) {
        memcpy(to, from, 32);
        memcpy(to + size - 32, from + size - 32, 32);
    } else if (size >= 16) {
        memcpy(to, from, 16);
        memcpy(to + size - 16, from + size - 16, 16);
    } else if (size > 8) {
        memcpy(to, from, 8);
        memcpy(to + size - 8, from + size - 8, 8);
    } else if (size >= 4) {
        memcpy(to, from, 4);
        memcpy(to + size - 4, from + size - 4, 4);
    } else if (size > 0) { /* 1, 2 or 3; what has no size may be NULL */
        to[0] = from[0];
        to[size / 2] = from[size / 2];
        to[size - 1] = from[size - 1];
    }
}

/* Of a library that was not built with it, ThreadSanitizer sees the calls of memcpy alone. */
KC_INLINE void kc__item_copy(void *to, const void *from, size_t size)
{
    if (kc_likely(size == 8) || (size <= KC_ITEM_SMALL && (!kc__tsan() || size == 0)))
        kc__item_copy_small(to, from, size);
    else
        memcpy(to, from, size);
}

KC_INLINE size_t kc__buffer_count(const kc_buffer_t *b)
{
    return kc_load_relaxed(&b->count);
}

KC_INLINE unsigned char *kc__buffer_slot(const kc_buffer_t *b, kc_chunk_t *chunk, size_t i)
{
    return chunk->items + i * b->item_size;
}

/* What it may be; each unlock of a channel is checked in debug builds. */
KC_INLINE bool kc__buffer_is_legal(const kc_buffer_t *b)
{
    size_t count = kc__buffer_count(b), end = b->head + count;

    if (b->slots == 0)
        return count == 0 && !b->first && !b->last;
    if (!b->first || !b->last || b->head > b->slots || b->tail > b->slots ||
        end % b->slots != b->tail % b->slots)
        return false;
    if (!b->unlimited)
        return count <= b->slots && b->first == b->last;
    return b->first == b->last ? end == b->tail : end >= b->slots + b->tail;
}

/* In the following three ring says that it is known to be no unlimited one. */

/* One more fits. */
KC_INLINE bool kc__buffer_has_room(const kc_buffer_t *b, bool ring)
{
    if (!ring && kc_unlikely(b->unlimited))
        return b->tail < b->slots || b->spare;
    return kc__buffer_count(b) < b->slots;
}

/* One more is in it: where the caller writes it. It fits. */
KC_INLINE void *kc__buffer_push(kc_buffer_t *b, bool ring)
{
    if (!ring && kc_unlikely(b->tail == b->slots && b->unlimited))
        kc__buffer_next_to_fill(b);
    size_t at = b->tail < b->slots ? b->tail : 0;
    b->tail = at + 1;
    kc_store_relaxed(&b->count, kc__buffer_count(b) + 1);
    return kc__buffer_slot(b, b->last, at);
}

/* The oldest is not in it any more: where the caller reads it, before the next push or pop. There
 * is one. */
KC_INLINE void *kc__buffer_pop(kc_buffer_t *b, bool ring)
{
    if (!ring && kc_unlikely(b->head == b->slots && b->unlimited))
        kc__buffer_next_to_empty(b);
    size_t at = b->head < b->slots ? b->head : 0, left = kc__buffer_count(b) - 1;
    void *oldest = kc__buffer_slot(b, b->first, at);
    b->head = at + 1;
    if (!ring && left == 0) /* then there is one chunk, which is used again */
        b->head = b->tail = 0;
    kc_store_relaxed(&b->count, left);
    return oldest;
}

#endif
