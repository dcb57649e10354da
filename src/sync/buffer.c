/* SPDX-License-Identifier: MIT */
/*
 * buffer.c - where the memory of a channel's items comes from.
 */
#include "sync/buffer.h"

#include "base/os.h"

#include <errno.h>

enum { CHUNK_BYTES = 4000, CHUNK_LEAST = 16 };

kc_chunk_t *kc__buffer_chunk(const kc_buffer_t *b)
{
    size_t bytes;

    if (__builtin_mul_overflow(b->slots, b->item_size, &bytes) ||
        bytes > (size_t)PTRDIFF_MAX - sizeof(kc_chunk_t))
        return NULL;
    return kc__alloc(sizeof(kc_chunk_t) + bytes);
}

int kc__buffer_init(kc_buffer_t *b, size_t item_size, size_t capacity, bool unlimited)
{
    size_t slots = CHUNK_BYTES / (item_size ? item_size : 1);

    *b = (kc_buffer_t){
        .item_size = item_size,
        .slots = !unlimited            ? capacity
                 : slots > CHUNK_LEAST ? slots
                                       : CHUNK_LEAST,
        .unlimited = unlimited,
    };
    if (b->slots == 0)
        return 0;
    b->first = b->last = kc__buffer_chunk(b);
    return b->first ? 0 : -ENOMEM;
}

void kc__buffer_free(kc_buffer_t *b)
{
    while (b->first) {
        kc_chunk_t *chunk = b->first;
        b->first = chunk->next;
        kc__free(chunk);
    }
    kc__free(b->spare);
}

kc_chunk_t *kc__buffer_give(kc_buffer_t *b, kc_chunk_t *chunk)
{
    if (b->spare)
        return chunk;
    b->spare = chunk;
    return NULL;
}

void kc__buffer_next_to_fill(kc_buffer_t *b)
{
    kc_chunk_t *chunk = b->spare;

    KC_ASSERT(b->unlimited && chunk);
    b->spare = NULL;
    chunk->next = NULL;
    b->last->next = chunk;
    b->last = chunk;
    b->tail = 0;
}

void kc__buffer_next_to_empty(kc_buffer_t *b)
{
    kc_chunk_t *chunk = b->first;

    KC_ASSERT(b->unlimited && chunk->next);
    b->first = chunk->next;
    b->head = 0;
    if (b->spare)
        kc__free(chunk);
    else
        b->spare = chunk;
}
