/* SPDX-License-Identifier: MIT */
/*
 * moodycamel.cpp - moodycamel::ConcurrentQueue as contenders.
 *
 * As its authors recommend: with a token for each producer and for the consumer, memory taken
 * beforehand, and where there are several items at hand, in bulk.
 */
#include "peers/moodycamel.h"

#include <concurrentqueue/concurrentqueue.h>

namespace
{

using queue_t = moodycamel::ConcurrentQueue<kb_item *>;

struct tokened {
    queue_t queue{ 16384, KB_PRODUCERS, 0 };
    moodycamel::ProducerToken producer[KB_PRODUCERS] = { moodycamel::ProducerToken(queue),
                                                         moodycamel::ProducerToken(queue) };
    moodycamel::ConsumerToken consumer{ queue };
};

void *make()
{
    return new tokened();
}

void single_produce(void *arg, int producer, kb_item *items, size_t count)
{
    tokened *q = static_cast<tokened *>(arg);

    for (size_t i = 0; i < count; i++)
        q->queue.enqueue(q->producer[producer], &items[i]);
}

void single_consume(void *arg, uint64_t *counts)
{
    tokened *q = static_cast<tokened *>(arg);
    kb_item *item;

    for (int i = 0; i < KB_BURST && q->queue.try_dequeue(q->consumer, item); i++)
        counts[item->producer]++;
}

void bulk_produce(void *arg, int producer, kb_item *items, size_t count)
{
    tokened *q = static_cast<tokened *>(arg);
    kb_item *pointers[KB_BURST];

    for (size_t i = 0; i < count; i++)
        pointers[i] = &items[i];
    q->queue.enqueue_bulk(q->producer[producer], pointers, count);
}

void bulk_consume(void *arg, uint64_t *counts)
{
    tokened *q = static_cast<tokened *>(arg);
    kb_item *items[KB_BURST];
    size_t count = q->queue.try_dequeue_bulk(q->consumer, items, KB_BURST);

    for (size_t i = 0; i < count; i++)
        counts[items[i]->producer]++;
}

const kb_queue queues[] = {
    { "moodycamel, tokens", KB_PRODUCERS, make, single_produce, single_consume },
    { "moodycamel, tokens, bulk", KB_PRODUCERS, make, bulk_produce, bulk_consume },
};

} // namespace

size_t kb_moodycamel_queues(const kb_queue **out)
{
    *out = queues;
    return sizeof queues / sizeof queues[0];
}
