/* SPDX-License-Identifier: MIT */
/*
 * mpsc_model.c - src/base/mpsc.h under the model checker.
 *
 * WHAT     The inbox is the real code. Every node carries a plain value that its producer writes
 *          and the consumer reads and overwrites: a push or a take that does not hand it over is a
 *          data race. Beside the inbox the model keeps a list of what was pushed, in the order of
 *          the swaps, against which each take is compared as a whole, and each push's answer.
 *
 * SHAPE    order    two producers push twice each, the consumer takes three times
 *          chain    a chain of two against a single push and a take
 *          again    the consumer sends a node back at once: it is the head again when a producer's
 *                   swap comes (ABA)
 *          sleep    who finds the inbox empty wakes the consumer, which sleeps in between
 *
 * ORDER    id            site                 operation     pairs with    carries
 *          mpsc_model.1  who wakes: the word  add_release   mpsc_model.2  the push; the consumer
 *                                                                         has seen the word, not
 *                                                                         the node, and sleeps
 *          mpsc_model.2  consumer's look      load_acquire  mpsc_model.1  the same
 *
 * CONTROLS Each id of mpsc.h and of the table above is weakened, and wrong designs stand in for the
 *          right ones; the models must fail then. MODEL_TRACE=1 shows how.
 */
#include "base/mpsc.h"
#include "harness.h"
#include "model_case.h"

#include <string.h>

enum { NODES = 4 };

struct item {
    kc_mpsc_node_t node;
    int value;
};

static struct {
    kc_mpsc_t q;
    KC_ATOMIC(uint32_t) wakes; /* the word that the consumer of `sleep` sleeps on */
    struct item items[NODES];

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    kc_mpsc_node_t *inside[8]; /* what must be in the inbox, oldest first */
    int count, taken;
} s;

static void reset(void)
{
    static const char *const names[NODES] = { "value 0", "value 1", "value 2", "value 3" };

    memset(&s, 0, sizeof s);
    kc__mpsc_init(&s.q);
    model_name(&s.q.head, "head");
    model_name(&s.wakes, "wakes");
    for (int i = 0; i < NODES; i++)
        model_name(&s.items[i].value, names[i]);
}

/* ---- wrong designs ------------------------------------------------------------------------- */

static bool
    take_by_store; /* a look and a store in place of the exchange: loses what came between */
static bool push_by_look; /* whether it was empty is looked up before: the answer is an old one */

static kc_mpsc_node_t *take_all(void)
{
    if (!take_by_store)
        return kc__mpsc_take_all(&s.q);
    kc_mpsc_node_t *all = kc_load_acquire(&s.q.head);
    if (all)
        kc_store_release(&s.q.head, NULL);
    return kc__mpsc_reverse(all);
}

static bool push_chain(kc_mpsc_node_t *first, kc_mpsc_node_t *last)
{
    bool looked = push_by_look && kc__mpsc_is_empty(&s.q);
    bool found =
        first == last ? kc__mpsc_push(&s.q, first) : kc__mpsc_push_chain(&s.q, first, last);

    return push_by_look ? looked : found;
}

/* ---- the steps of the models --------------------------------------------------------------- */

/* Writes the values of items[first..last] and pushes them at once. */
static bool send(int first, int last)
{
    for (int i = first; i <= last; i++) {
        model_write(&s.items[i].value, 100 + i);
        s.items[i].node.next = i < last ? &s.items[i + 1].node : NULL;
    }
    bool was_empty = push_chain(&s.items[first].node, &s.items[last].node);
    if (!push_by_look)
        model_assert(was_empty == (s.count == 0));
    for (int i = first; i <= last; i++)
        s.inside[s.count++] = &s.items[i].node;
    return was_empty;
}

/* Takes everything and reads it; returns how much it was. */
static int receive(kc_mpsc_node_t **out)
{
    kc_mpsc_node_t *chain = take_all(), *want[8];
    int count = chain ? s.count : 0;

    *out = chain;
    memcpy(want, s.inside, sizeof want);
    if (chain)
        s.count = 0;
    for (int i = 0; i < count; i++, chain = chain->next) {
        model_assert(chain == want[i]);
        struct item *item = kc_container_of(chain, struct item, node);
        model_assert(model_read(&item->value) == 100 + (int)(item - s.items));
        model_write(&item->value, 0);
    }
    model_assert(chain == NULL);
    s.taken += count;
    return count;
}

static void producer_singly(int first)
{
    send(first, first);
    send(first + 1, first + 1);
}

static void producer_of_one(int index)
{
    send(index, index);
}

static void producer_of_chain(int first)
{
    send(first, first + 1);
}

static void consumer(int times)
{
    kc_mpsc_node_t *chain;

    for (int i = 0; i < times; i++)
        receive(&chain);
}

static void consumer_sends_back(int arg)
{
    kc_mpsc_node_t *chain;

    (void)arg;
    if (receive(&chain)) {
        int index = (int)(kc_container_of(chain, struct item, node) - s.items);
        send(index, index);
        s.taken--;
    }
    receive(&chain);
}

static void producer_wakes(int index)
{
    if (send(index, index)) {
        kc_add_release(&s.wakes, 1); /* mpsc_model.1 */
        model_wake(&s.wakes, 1);
    }
}

static void consumer_sleeps(int items)
{
    kc_mpsc_node_t *chain;

    while (s.taken < items) {
        uint32_t seen = kc_load_acquire(&s.wakes); /* mpsc_model.2 */
        if (receive(&chain))
            continue;
        model_block(&s.wakes, seen);
        model_wait_until(kc_load_relaxed(&s.wakes) !=
                         seen); /* it sees the change in finite time */
    }
}

/* What the threads have left, the check takes: nothing is lost. */
static void check_all(int items)
{
    kc_mpsc_node_t *chain;

    receive(&chain);
    model_assert(s.taken == items);
    model_assert(kc__mpsc_is_empty(&s.q));
}

static void check_four(void)
{
    check_all(4);
}

static void check_three(void)
{
    check_all(3);
}

static void check_two(void)
{
    check_all(2);
}

static const struct model order = { "order",
                                    reset,
                                    check_four,
                                    3,
                                    { { "consumer", consumer, 3 },
                                      { "producer 0", producer_singly, 0 },
                                      { "producer 2", producer_singly, 2 } } };
static const struct model chain = { "chain",
                                    reset,
                                    check_three,
                                    3,
                                    { { "consumer", consumer, 2 },
                                      { "producer 0", producer_of_chain, 0 },
                                      { "producer 2", producer_of_one, 2 } } };
static const struct model again = { "again",
                                    reset,
                                    check_two,
                                    3,
                                    { { "consumer", consumer_sends_back, 0 },
                                      { "producer 0", producer_of_one, 0 },
                                      { "producer 1", producer_of_one, 1 } } };
static const struct model sleep_wake = { "sleep",
                                         reset,
                                         check_two,
                                         3,
                                         { { "consumer", consumer_sleeps, 2 },
                                           { "producer 0", producer_wakes, 0 },
                                           { "producer 1", producer_wakes, 1 } } };

const struct model_file model_file = { .enters = NULL };

TEST(two_producers_items_arrive_once_and_in_push_order)
{
    passes(&order, 4);
}

TEST(a_chain_arrives_whole)
{
    passes(&chain, MODEL_UNBOUNDED);
}

TEST(a_node_that_comes_back_does_no_harm)
{
    passes(&again, MODEL_UNBOUNDED);
}

TEST(the_producer_that_finds_the_queue_empty_wakes_the_consumer)
{
    passes(&sleep_wake, 3);
}

TEST(control_mpsc_1_relaxed_hides_the_producers_data)
{
    needs(&order, "mpsc.1", MODEL_RELAXED, "data race: consumer reads value");
    needs(&chain, "mpsc.1", MODEL_RELAXED, "data race: consumer reads value");
}

TEST(control_mpsc_2_relaxed_misses_the_producers_data)
{
    needs(&order, "mpsc.2", MODEL_RELAXED, "data race: consumer reads value");
    needs(&again, "mpsc.2", MODEL_RELAXED, "data race: consumer reads value");
}

TEST(control_sleep_with_relaxed_wakes)
{
    needs(&sleep_wake, "mpsc_model.1", MODEL_RELAXED, "deadlock: nobody wakes consumer");
    needs(&sleep_wake, "mpsc_model.2", MODEL_RELAXED, "deadlock: nobody wakes consumer");
}

TEST(control_take_by_load_and_store_loses_a_push)
{
    take_by_store = true;
    catches(&order, "take_by_store", "not true");
}

TEST(control_empty_looked_up_before_the_push_loses_a_wake_up)
{
    push_by_look = true;
    catches(&sleep_wake, "push_by_look", "deadlock: nobody wakes consumer");
}
