/* SPDX-License-Identifier: MIT */
/*
 * queue.c - what does it cost to put an item into a queue and to take it out again?
 *
 * On one thread: a batch of 32 or 256 items goes in, then comes out; per item. The floor is a list
 * without atomics. Across threads: one or two producers on cores of their own, if there are as
 * many, and the consumer on this one, which polls; per item, from the first to the last. Of each
 * producer's items at most WINDOW are on their way, then it waits: the memory stays the same, as
 * it does where items are part of what is scheduled. Producers come with BURST items at a time;
 * "bulk" and "chain" put them in at once, the others one by one.
 *
 * Every contender moves addresses of the same items, each a cache line, and its consumer reads each
 * item. A producer writes to an item before it sends it, as one that has something to say does;
 * then the same without that, where only queues that link the items still write to them. Threads
 * wait without sleeping: what it costs to wake a sleeper is not measured here. Where other programs
 * run on the same cores, what goes across threads varies tenfold from run to run: compare several.
 */
#define _GNU_SOURCE /* affinity */
#include "harness.h"
#include "peers/moodycamel.h"

#include "base/deque.h"
#include "base/mpsc.h"
#include "base/os.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { WINDOW = 1024, BURST = 32 };

static const char missing[] = "not installed";

static void must(int rc)
{
    if (rc != 0)
        abort();
}

static void *zeroed(size_t size)
{
    void *p = kc__alloc_aligned(KC_CACHE_LINE, size);

    must(p ? 0 : -1);
    return p;
}

/* ---- the queues ---------------------------------------------------------------------------- */

/* The floor: first in first out, one thread. */
struct list {
    struct kb_item *head, **tail;
};

static void *list_make(void)
{
    struct list *list = zeroed(sizeof *list);

    list->tail = &list->head;
    return list;
}

static void list_produce(void *arg, int producer, struct kb_item *items, size_t count)
{
    struct list *list = arg;

    (void)producer;
    for (size_t i = 0; i < count; i++) {
        items[i].link.next = NULL;
        *list->tail = &items[i];
        list->tail = (struct kb_item **)&items[i].link.next;
    }
}

static void list_consume(void *arg, uint64_t *counts)
{
    struct list *list = arg;

    while (list->head) {
        struct kb_item *item = list->head;
        list->head = item->link.next;
        if (!list->head)
            list->tail = &list->head;
        counts[item->producer]++;
    }
}

static void *mpsc_make(void)
{
    kc_mpsc_t *q = zeroed(sizeof *q);

    kc__mpsc_init(q);
    return q;
}

_Static_assert(sizeof(kc_mpsc_node_t) == sizeof(void *), "a node fits the link of an item");

static kc_mpsc_node_t *node_of(struct kb_item *item)
{
    return (kc_mpsc_node_t *)(void *)item;
}

static void mpsc_produce(void *arg, int producer, struct kb_item *items, size_t count)
{
    (void)producer;
    for (size_t i = 0; i < count; i++)
        kc__mpsc_push(arg, node_of(&items[i]));
}

static void mpsc_chain_produce(void *arg, int producer, struct kb_item *items, size_t count)
{
    (void)producer;
    for (size_t i = 0; i + 1 < count; i++)
        node_of(&items[i])->next = node_of(&items[i + 1]);
    kc__mpsc_push_chain(arg, node_of(&items[0]), node_of(&items[count - 1]));
}

static void mpsc_consume(void *arg, uint64_t *counts)
{
    for (kc_mpsc_node_t *node = kc__mpsc_take_all(arg); node; node = node->next)
        counts[((struct kb_item *)(void *)node)->producer]++;
}

static void *deque_make(void)
{
    kc_deque_t *d = zeroed(sizeof *d);

    must(kc__deque_init(d, WINDOW));
    return d;
}

static void deque_produce(void *arg, int producer, struct kb_item *items, size_t count)
{
    (void)producer;
    for (size_t i = 0; i < count; i++)
        must(kc__deque_push(arg, &items[i]));
}

static void deque_pop_consume(void *arg, uint64_t *counts)
{
    struct kb_item *item;

    while ((item = kc__deque_pop(arg)) != NULL)
        counts[item->producer]++;
}

static void deque_steal_consume(void *arg, uint64_t *counts)
{
    void *item;

    for (int i = 0; i < KB_BURST && kc__deque_steal(arg, &item) == KC_STEAL_GOT; i++)
        counts[((struct kb_item *)item)->producer]++;
}

static const struct kb_queue floor_list = { "floor: a list without atomics", 0, list_make,
                                            list_produce, list_consume };
static const struct kb_queue deque_pop = { "deque, push + pop", 0, deque_make, deque_produce,
                                           deque_pop_consume };
static const struct kb_queue shared_queues[] = {
    { "mpsc", KB_PRODUCERS, mpsc_make, mpsc_produce, mpsc_consume },
    { "mpsc, chain", KB_PRODUCERS, mpsc_make, mpsc_chain_produce, mpsc_consume },
    { "deque, push + steal", 1, deque_make, deque_produce, deque_steal_consume },
};

/* ---- runs ---------------------------------------------------------------------------------- */

/* What the producers and the consumer of a run share. */
struct producer {
    _Alignas(KC_CACHE_LINE) atomic_uint_fast64_t consumed; /* of its items, by the consumer */
    _Alignas(KC_CACHE_LINE) pthread_t thread;
    struct run *run;
    uint64_t items; /* to be produced */
    int index;
    struct kb_item ring[WINDOW];
};

struct run {
    const struct kb_queue *queue;
    void *object;
    int producers;
    bool written;         /* the producer writes each item before */
    size_t batch;         /* one thread: so many in, then out */
    atomic_int ready, go; /* producers at the start; the start */
    struct producer producer[KB_PRODUCERS];
};

static void one_thread_run(void *arg, uint64_t n)
{
    struct run *run = arg;
    uint64_t counts[KB_PRODUCERS] = { 0 };
    struct kb_item *items = run->producer[0].ring;

    for (uint64_t done = 0; done < n;) {
        size_t count = n - done < run->batch ? (size_t)(n - done) : run->batch;
        run->queue->produce(run->object, 0, items, count);
        done += count;
        while (counts[0] < done)
            run->queue->consume(run->object, counts);
    }
}

static void *thread_produces(void *arg)
{
    struct producer *me = arg;
    struct run *run = me->run;
    uint64_t consumed = 0;
    unsigned spins = 0;

    atomic_fetch_add(&run->ready, 1);
    while (!atomic_load_explicit(&run->go, memory_order_acquire))
        kb_relax(&spins);
    for (uint64_t done = 0; done < me->items;) {
        size_t at = done % WINDOW, left = me->items - done < BURST ? me->items - done : BURST;
        while (done + left - consumed > WINDOW) {
            consumed = atomic_load_explicit(&me->consumed, memory_order_acquire);
            if (done + left - consumed > WINDOW)
                kb_relax(&spins);
        }
        for (size_t i = 0; i < left && run->written; i++)
            me->ring[at + i].value = done + i;
        run->queue->produce(run->object, me->index, &me->ring[at], left);
        done += left;
    }
    return NULL;
}

static cpu_set_t allowed, own[KB_PRODUCERS + 1]; /* the consumer's, then each producer's */

static void cores_choose(void)
{
    int found = 0;

    must(sched_getaffinity(0, sizeof allowed, &allowed));
    for (int i = 0; i < CPU_SETSIZE && found < KB_PRODUCERS + 1; i++)
        if (CPU_ISSET(i, &allowed)) {
            CPU_ZERO(&own[found]);
            CPU_SET(i, &own[found++]);
        }
    for (; found < KB_PRODUCERS + 1; found++)
        own[found] = own[found - 1];
}

static void producers_start(struct run *run, uint64_t n)
{
    unsigned spins = 0;

    atomic_store(&run->ready, 0);
    atomic_store(&run->go, 0);
    for (int i = 0; i < run->producers; i++) {
        struct producer *p = &run->producer[i];
        p->items = n / (uint64_t)run->producers;
        atomic_store(&p->consumed, 0);
        must(pthread_create(&p->thread, NULL, thread_produces, p));
        must(pthread_setaffinity_np(p->thread, sizeof own[i + 1], &own[i + 1]));
    }
    while (atomic_load(&run->ready) < run->producers)
        kb_relax(&spins);
}

static void across_run(void *arg, uint64_t n)
{
    struct run *run = arg;
    uint64_t counts[KB_PRODUCERS] = { 0 }, before = 0, total = 0;
    unsigned spins = 0;

    kb_pause();
    producers_start(run, n);
    kb_continue();
    atomic_store_explicit(&run->go, 1, memory_order_release);
    while (total < n) {
        run->queue->consume(run->object, counts);
        total = counts[0] + counts[1];
        if (total == before)
            kb_relax(&spins);
        for (int i = 0; total != before && i < run->producers; i++)
            atomic_store_explicit(&run->producer[i].consumed, counts[i], memory_order_release);
        before = total;
    }
    kb_pause();
    for (int i = 0; i < run->producers; i++)
        must(pthread_join(run->producer[i].thread, NULL));
    kb_continue();
}

static void add(const struct kb_queue *queue, size_t batch, int producers, bool written)
{
    struct run *run = zeroed(sizeof *run);

    if (producers > queue->producers)
        return;
    *run =
        (struct run){ .queue = queue, .producers = producers, .written = written, .batch = batch };
    run->object = queue->make();
    for (int i = 0; i < KB_PRODUCERS; i++) {
        run->producer[i].run = run;
        run->producer[i].index = i;
        for (size_t j = 0; j < WINDOW; j++)
            run->producer[i].ring[j].producer = (uint64_t)i;
    }
    kb_case(queue->name, producers ? across_run : one_thread_run, run);
}

static void ask(const char *title, size_t batch, int producers, bool written)
{
    const struct kb_queue *peers;
    size_t count = kb_moodycamel_queues(&peers);

    kb_question(title);
    add(&floor_list, batch, producers, written);
    add(&deque_pop, batch, producers, written);
    for (size_t i = 0; i < sizeof shared_queues / sizeof shared_queues[0]; i++)
        add(&shared_queues[i], batch, producers, written);
    for (size_t i = 0; i < count; i++)
        add(&peers[i], batch, producers, written);
    if (count == 0)
        kb_skip("moodycamel", missing);
    kb_base("moodycamel, tokens");
    kb_base("moodycamel, tokens, bulk");
    kb_measure();
}

int main(int argc, char **argv)
{
    kb_init(argc, argv, "queue", "an item into a queue and out again");
    ask("one thread, 32 in, then out", 32, 0, false);
    ask("one thread, 256 in, then out", KB_BURST, 0, false);
    cores_choose();
    must(sched_setaffinity(0, sizeof own[0], &own[0]));
    ask("across threads, 1 producer", 0, 1, true);
    ask("across threads, 2 producers", 0, 2, true);
    ask("across threads, 1 producer, items unwritten", 0, 1, false);
    ask("across threads, 2 producers, items unwritten", 0, 2, false);
    must(sched_setaffinity(0, sizeof allowed, &allowed));
    return kb_done();
}
