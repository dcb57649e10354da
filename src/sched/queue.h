/* SPDX-License-Identifier: MIT */
/*
 * queue.h - a list of blocks, first in first out, for one thread: no atomics.
 */
#ifndef KC_SCHED_QUEUE_H
#define KC_SCHED_QUEUE_H

#include "base/block.h"

/* Blocks linked by block.link, first in first out. All zero is empty. */
typedef struct {
    kc_mpsc_node_t *head, *tail;
    size_t count;
} kc_queue_t;

KC_INLINE void kc__queue_push(kc_queue_t *q, kc_block_t *block)
{
    block->link.next = NULL;
    if (q->tail)
        q->tail->next = &block->link;
    else
        q->head = &block->link;
    q->tail = &block->link;
    q->count++;
}

KC_INLINE kc_block_t *kc__queue_pop(kc_queue_t *q)
{
    kc_mpsc_node_t *node = q->head;

    if (!node)
        return NULL;
    q->head = node->next;
    if (q->head)
        __builtin_prefetch(q->head); /* long queues do not lie in the cache */
    else
        q->tail = NULL;
    q->count--;
    return kc_container_of(node, kc_block_t, link);
}

/* Takes block k out, which is there; linear. */
KC_INLINE kc_block_t *kc__queue_take(kc_queue_t *q, size_t k)
{
    kc_queue_t before = { NULL, NULL, 0 };

    while (k-- > 0)
        kc__queue_push(&before, kc__queue_pop(q));
    kc_block_t *block = kc__queue_pop(q);
    for (kc_block_t *rest; (rest = kc__queue_pop(q)) != NULL;)
        kc__queue_push(&before, rest);
    *q = before;
    return block;
}

#endif
