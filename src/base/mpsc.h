/* SPDX-License-Identifier: MIT */
/*
 * mpsc.h - an inbox: any thread pushes, one consumer takes everything, oldest first.
 *
 * WHAT     A stack that producers push on by compare-and-swap (Treiber 1986). The consumer never
 *          pops: it takes the whole stack with one exchange and turns it round, so it sees the
 *          nodes in the order in which they were pushed. Nodes are part of what is sent: a push
 *          cannot fail, and needs no memory.
 *
 * SHAPE    head --> newest --> ... --> oldest --> NULL        head == NULL: empty
 *
 *          ABA, a node that leaves and is the head again between a producer's look and its swap,
 *          does no harm: all that the producer concludes from the old head is its address, which
 *          becomes the new node's next, and that is right whenever it is the head. It would do
 *          harm to a consumer that popped one node, having read its next before. Ours takes all.
 *
 * WHO      push, push_chain: any number of threads at once, the consumer too. take_all: one at a
 *          time. empty: any thread. A node is its producer's until it is pushed, and the consumer's
 *          once it is taken; the owner of a node may use its next freely.
 *
 *          The push that finds the inbox empty says so: between two takes that found something
 *          there is exactly one such push, and its caller wakes the consumer. An empty look is
 *          relaxed and may be late. A consumer about to sleep must order it after a look at the
 *          word it sleeps on: with acquire, against a release by the waker (the model `sleep` in
 *          test/model/mpsc_model.c).
 *
 * ORDER    id      site        operation     pairs with  carries; what breaks if weaker
 *          mpsc.1  push: head  cas_release   mpsc.2      what the producer wrote, next included;
 *                                                        later pushes hand it on, as they are
 *                                                        read-modify-writes; the consumer reads old
 *                                                        data
 *          mpsc.2  take: head  xchg_acquire  mpsc.1      as mpsc.1
 *
 * PROGRESS push: lock-free. take_all: wait-free, and linear in what it takes.
 * WHY NOT  An exchange in push, with the link stored after it (Vyukov): wait-free, but a producer
 *          that is preempted in between hides all that came after it from the consumer.
 */
#ifndef KC_BASE_MPSC_H
#define KC_BASE_MPSC_H

#include "base/atomic.h"
#include "base/base.h"
#include "base/tsan.h"

typedef struct kc_mpsc_node {
    struct kc_mpsc_node *next; /* >(mpsc.1) to the consumer */
} kc_mpsc_node_t;

typedef struct kc_mpsc {
    KC_ATOMIC(kc_mpsc_node_t *) head; /* A  the newest */
} kc_mpsc_t;

KC_INLINE void kc__mpsc_init(kc_mpsc_t *q)
{
    kc_store_relaxed(&q->head, NULL);
}

/* The chain from newest to oldest, whose links point that way, in front of what is there. */
KC_INLINE bool kc__mpsc_link(kc_mpsc_t *q, kc_mpsc_node_t *newest, kc_mpsc_node_t *oldest)
{
    kc_mpsc_node_t *seen = kc_load_relaxed(&q->head);

    kc__tsan_release(q);
    do
        oldest->next = seen;
    while (!kc_cas_release(&q->head, &seen, newest)); /* mpsc.1 */
    return seen == NULL;
}

/* The same nodes, linked the other way round. */
KC_INLINE kc_mpsc_node_t *kc__mpsc_reverse(kc_mpsc_node_t *first)
{
    kc_mpsc_node_t *done = NULL;

    while (first) {
        kc_mpsc_node_t *next = first->next;
        first->next = done;
        done = first;
        first = next;
    }
    return done;
}

/* True: it was empty, and this caller is the one that wakes the consumer. */
KC_INLINE bool kc__mpsc_push(kc_mpsc_t *q, kc_mpsc_node_t *node)
{
    return kc__mpsc_link(q, node, node);
}

/* The same for the nodes from first to last, linked by next, which the consumer sees in this order
 * and with nothing in between. Linear in their number. */
KC_INLINE bool kc__mpsc_push_chain(kc_mpsc_t *q, kc_mpsc_node_t *first, kc_mpsc_node_t *last)
{
    last->next = NULL;
    kc__mpsc_reverse(first);
    return kc__mpsc_link(q, last, first);
}

/* Everything that was pushed, oldest first, linked by next; NULL: nothing. */
KC_INLINE kc_mpsc_node_t *kc__mpsc_take_all(kc_mpsc_t *q)
{
    if (!kc_load_relaxed(&q->head))
        return NULL;
    kc_mpsc_node_t *first = kc_xchg_acquire(&q->head, NULL); /* mpsc.2 */
    kc__tsan_acquire(q);
    return kc__mpsc_reverse(first);
}

/* A look, which may be late; only the consumer can rely on false. */
KC_INLINE bool kc__mpsc_is_empty(const kc_mpsc_t *q)
{
    return !kc_load_relaxed(&q->head);
}

#endif
