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

/* Its three fields agree. The links between the first and the last are not followed. */
KC_INLINE bool kc__queue_is_legal(const kc_queue_t *q)
{
    if (!q->head || !q->tail)
        return !q->head && !q->tail && q->count == 0;
    return q->count > 0 && !q->tail->next && (q->count == 1) == (q->head == q->tail);
}

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

KC_INLINE void kc__queue_push_front(kc_queue_t *q, kc_block_t *block)
{
    block->link.next = q->head;
    q->head = &block->link;
    if (!q->tail)
        q->tail = &block->link;
    q->count++;
}

/* The first one out. There is one. */
KC_INLINE kc_block_t *kc__queue_shift(kc_queue_t *q)
{
    kc_mpsc_node_t *node = q->head;

    q->head = node->next;
    if (!q->head)
        q->tail = NULL;
    q->count--;
    return kc_container_of(node, kc_block_t, link);
}

KC_INLINE kc_block_t *kc__queue_pop(kc_queue_t *q)
{
    return q->head ? kc__queue_shift(q) : NULL;
}

/* Both at once: the first one out, this one in. There is one. */
KC_INLINE kc_block_t *kc__queue_rotate(kc_queue_t *q, kc_block_t *block)
{
    kc_mpsc_node_t *node = q->head;

    block->link.next = NULL;
    q->tail->next = &block->link; /* may be what is read next */
    q->tail = &block->link;
    q->head = node->next;
    return kc_container_of(node, kc_block_t, link);
}

/* Takes this block out. False: it is not there. Costs a step for each that is before it. */
KC_INLINE bool kc__queue_remove(kc_queue_t *q, kc_block_t *block)
{
    kc_mpsc_node_t *before = NULL, *node = q->head;

    for (; node && node != &block->link; node = node->next)
        before = node;
    if (!node)
        return false;
    if (before)
        before->next = node->next;
    else
        q->head = node->next;
    if (q->tail == node)
        q->tail = before;
    q->count--;
    return true;
}

/* Takes block k out, which is there. Costs k steps. */
KC_INLINE kc_block_t *kc__queue_take(kc_queue_t *q, size_t k)
{
    kc_mpsc_node_t *before = q->head;

    if (k == 0)
        return kc__queue_pop(q);
    while (--k > 0)
        before = before->next;
    kc_mpsc_node_t *node = before->next;
    before->next = node->next;
    if (q->tail == node)
        q->tail = before;
    q->count--;
    return kc_container_of(node, kc_block_t, link);
}

#endif
