/* SPDX-License-Identifier: MIT */
/*
 * mpsc_test.c - the inbox: first in first out, nothing lost, nothing twice.
 */
#include "base/mpsc.h"
#include "harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

struct item {
    kc_mpsc_node_t node; /* first: an item is its node */
    int from;
    uint64_t number;
};

static struct item *item_of(kc_mpsc_node_t *node)
{
    return kc_container_of(node, struct item, node);
}

/* The chain holds exactly the items with these numbers, and ends. */
static void check_chain(kc_mpsc_node_t *chain, uint64_t first, uint64_t last)
{
    for (uint64_t i = first; i <= last; i++, chain = chain->next) {
        CHECK(chain != NULL);
        CHECK_EQ(item_of(chain)->number, i);
    }
    CHECK_PTR(chain, NULL);
}

static void number_items(struct item *items, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        items[i].number = i;
}

/* Links items[0] to items[count - 1]; what the last one's next is must not matter. */
static void link_items(struct item *items, int count)
{
    for (int i = 0; i < count - 1; i++)
        items[i].node.next = &items[i + 1].node;
    items[count - 1].node.next = &items[0].node;
}

TEST(a_new_inbox_is_empty)
{
    kc_mpsc_t q;

    kc__mpsc_init(&q);
    CHECK(kc__mpsc_is_empty(&q));
    CHECK_PTR(kc__mpsc_take_all(&q), NULL);
}

TEST(take_all_gives_everything_oldest_first)
{
    enum { N = 100 };
    struct item items[N];
    kc_mpsc_t q;

    kc__mpsc_init(&q);
    number_items(items, N);
    for (int i = 0; i < N; i++)
        kc__mpsc_push(&q, &items[i].node);
    CHECK(!kc__mpsc_is_empty(&q));
    check_chain(kc__mpsc_take_all(&q), 0, N - 1);
    CHECK(kc__mpsc_is_empty(&q));
    CHECK_PTR(kc__mpsc_take_all(&q), NULL);
}

TEST(push_tells_whether_the_inbox_was_empty)
{
    struct item items[5];
    kc_mpsc_t q;

    kc__mpsc_init(&q);
    CHECK(kc__mpsc_push(&q, &items[0].node));
    CHECK(!kc__mpsc_push(&q, &items[1].node));
    kc__mpsc_take_all(&q);
    link_items(items, 3);
    CHECK(kc__mpsc_push_chain(&q, &items[0].node, &items[2].node));
    link_items(items + 3, 2);
    CHECK(!kc__mpsc_push_chain(&q, &items[3].node, &items[4].node));
}

TEST(push_chain_keeps_the_order_of_the_chain)
{
    struct item items[9];
    kc_mpsc_t q;

    kc__mpsc_init(&q);
    number_items(items, 9);
    kc__mpsc_push(&q, &items[0].node);
    link_items(items + 1, 5);
    kc__mpsc_push_chain(&q, &items[1].node, &items[5].node);
    kc__mpsc_push(&q, &items[6].node);
    link_items(items + 7, 2);
    kc__mpsc_push_chain(&q, &items[7].node, &items[8].node);
    check_chain(kc__mpsc_take_all(&q), 0, 8);
}

TEST(a_chain_may_be_a_single_node)
{
    struct item item = { .number = 7 };
    kc_mpsc_t q;

    kc__mpsc_init(&q);
    link_items(&item, 1);
    CHECK(kc__mpsc_push_chain(&q, &item.node, &item.node));
    check_chain(kc__mpsc_take_all(&q), 7, 7);
}

TEST(what_was_taken_can_be_pushed_again)
{
    struct item items[3];
    kc_mpsc_t q, other;

    kc__mpsc_init(&q);
    kc__mpsc_init(&other);
    number_items(items, 3);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++)
            kc__mpsc_push(&q, &items[i].node);
        kc_mpsc_node_t *first = kc__mpsc_take_all(&q);
        kc__mpsc_push_chain(&other, first, &items[2].node);
        check_chain(kc__mpsc_take_all(&other), 0, 2);
    }
}

/* ---- over threads -------------------------------------------------------------------------- */

enum { THREADS = 4 };

static void start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    CHECK_EQ(pthread_create(thread, NULL, fn, arg), 0);
}

struct producer {
    pthread_t thread;
    kc_mpsc_t *q;
    int index;
    uint64_t random, found_empty;
    struct item *items;
    int count;
};

/* Alone or as a chain of up to eight. */
static void *thread_produces(void *arg)
{
    struct producer *p = arg;

    for (int done = 0; done < p->count;) {
        int most = p->count - done < 8 ? p->count - done : 8;
        int length = 1 + (int)(kc_test_random(&p->random) % (unsigned)most);
        struct item *items = p->items + done;

        for (int i = 0; i < length; i++)
            items[i] = (struct item){ .from = p->index, .number = (uint64_t)(done + i) };
        link_items(items, length);
        p->found_empty += length == 1
                              ? kc__mpsc_push(p->q, &items->node)
                              : kc__mpsc_push_chain(p->q, &items->node, &items[length - 1].node);
        done += length;
    }
    return NULL;
}

TEST(each_producers_items_arrive_once_and_in_order)
{
    enum { PRODUCERS = THREADS - 1, EACH = 10000, EACH_SLOWLY = 2000 };
    bool slow = kc_test_under_tsan() || kc_test_under_emulation() || kc_test_under_valgrind();
    int each = (int)kc_test_rounds(slow ? EACH_SLOWLY : EACH);
    struct producer producers[PRODUCERS];
    uint64_t expected[PRODUCERS] = { 0 }, seed = kc_test_seed(), takes = 0, found_empty = 0;
    kc_mpsc_t q;

    kc__mpsc_init(&q);
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ .q = &q,
                                          .index = i,
                                          .random = seed + (uint64_t)i + 1,
                                          .items = calloc((size_t)each, sizeof(struct item)),
                                          .count = each };
        CHECK(producers[i].items != NULL);
        start(&producers[i].thread, thread_produces, &producers[i]);
    }
    for (int left = PRODUCERS * each; left > 0;) {
        kc_mpsc_node_t *chain = kc__mpsc_take_all(&q);
        if (!chain)
            sched_yield();
        takes += chain != NULL;
        for (; chain; chain = chain->next, left--)
            CHECK_EQ(item_of(chain)->number, expected[item_of(chain)->from]++);
    }
    for (int i = 0; i < PRODUCERS; i++) {
        pthread_join(producers[i].thread, NULL);
        CHECK_EQ(expected[i], each);
        found_empty += producers[i].found_empty;
        free(producers[i].items);
    }
    CHECK(kc__mpsc_is_empty(&q));
    CHECK_EQ(found_empty, takes);
}

/* Everybody has an inbox, and sends what arrives there on to somebody, himself included: nodes are
 * the head of one inbox and then of another, and come back (ABA). */
enum { NODES = 64 };

static struct {
    kc_mpsc_t inbox[THREADS];
    struct item items[NODES]; /* number: how often it is still to be sent */
    KC_ATOMIC(int) arrived;   /* items that were sent often enough */
    KC_ATOMIC(uint64_t) sent;
    uint64_t seed, hops; /* hops: how often each is to be sent, if there is time for it */
} post;

static void *thread_forwards(void *arg)
{
    kc_mpsc_t *mine = arg;
    uint64_t random = post.seed + (uint64_t)(mine - post.inbox) + 1, sent = 0;

    while (kc_load_relaxed(&post.arrived) < NODES) {
        kc_mpsc_node_t *next, *chain = kc__mpsc_take_all(mine);
        bool over = !kc_test_has_time();
        if (!chain)
            sched_yield();
        for (; chain; chain = next) {
            next = chain->next;
            if (item_of(chain)->number == 0 || (over && item_of(chain)->number < post.hops)) {
                kc_add_relaxed(&post.arrived, 1);
                continue;
            }
            item_of(chain)->number--;
            kc__mpsc_push(&post.inbox[kc_test_random(&random) % THREADS], chain);
            sent++;
        }
    }
    kc_add_relaxed(&post.sent, sent);
    return NULL;
}

TEST(nodes_travel_between_inboxes_and_none_is_lost)
{
    bool slow = kc_test_under_tsan() || kc_test_under_emulation() || kc_test_under_valgrind();
    uint64_t sent = 0;
    pthread_t thread[THREADS];

    post.hops = (uint64_t)kc_test_rounds(slow ? 20 : 200);
    post.seed = kc_test_seed();
    for (int i = 0; i < THREADS; i++)
        kc__mpsc_init(&post.inbox[i]);
    for (int i = 0; i < NODES; i++) {
        post.items[i].number = post.hops;
        kc__mpsc_push(&post.inbox[i % THREADS], &post.items[i].node);
    }
    for (int i = 0; i < THREADS; i++)
        start(&thread[i], thread_forwards, &post.inbox[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < NODES; i++)
        sent += post.hops - post.items[i].number;
    CHECK_GE(sent, NODES);
    CHECK_EQ(kc_load_relaxed(&post.sent), sent);
    for (int i = 0; i < THREADS; i++)
        CHECK(kc__mpsc_is_empty(&post.inbox[i]));
}
