/* SPDX-License-Identifier: MIT */
/*
 * chan_check_test.c - the checkers of channels, buffers and wait queues: they accept what happens,
 * and nothing that must not.
 */
#include "chan_kit.h"
#include "sync/wait_queue.h"

/* A waiter of no job, whose wait is open. */
struct waits {
    kc_wait_t wait;
    kc_chan_waiter_t waiter;
};

static void make_waiter(struct waits *w, kc_wait_kind_t kind)
{
    *w = (struct waits){ .wait.kind = kind };
    w->waiter.wait = &w->wait;
}

static void enters(kc_chan_t *c, int op, struct waits *w)
{
    kc__wait_link(kc__chan_queue(c, op), &w->waiter.link);
}

static void leaves(kc_chan_t *c, int op, struct waits *w)
{
    kc__wait_unlink(kc__chan_queue(c, op), &w->waiter.link);
}

/* With one waiter of this kind, who comes and goes. */
static bool is_legal_with(kc_chan_t *c, int op, kc_wait_kind_t kind)
{
    struct waits w;

    make_waiter(&w, kind);
    enters(c, op, &w);
    bool legal = kc__chan_is_legal(c);
    leaves(c, op, &w);
    return legal;
}

static kc_chan_t *locked_chan(size_t capacity, int items)
{
    kc_chan_t *c = chan(sizeof(int), capacity);

    for (int i = 0; i < items; i++)
        CHECK_EQ(kc_chan_try_send(c, &i), 0);
    kc__spin_lock(&c->lock);
    CHECK(kc__chan_is_legal(c));
    return c;
}

static void let_go(kc_chan_t *c)
{
    CHECK(kc__chan_is_legal(c));
    kc__spin_unlock(&c->lock);
    kc_chan_release(c);
}

TEST(a_channel_that_nobody_has_locked_is_not_given_back)
{
    kc_chan_t *c = locked_chan(0, 0);

    kc__spin_unlock(&c->lock);
    CHECK(!kc__chan_is_legal(c));
    kc__spin_lock(&c->lock);
    let_go(c);
}

TEST(a_receiver_waits_only_where_there_is_no_item)
{
    kc_chan_t *empty = locked_chan(3, 0), *some = locked_chan(3, 2);

    CHECK(is_legal_with(empty, KC_RECV, KC_WAIT_RECV));
    CHECK(!is_legal_with(some, KC_RECV, KC_WAIT_RECV));
    let_go(empty);
    let_go(some);
}

TEST(a_sender_waits_only_where_there_is_no_room)
{
    kc_chan_t *full = locked_chan(2, 2), *some = locked_chan(2, 1), *none = locked_chan(0, 0);
    kc_chan_t *unlimited = locked_chan(KC_CHAN_UNLIMITED, 1);
    kc_chan_t *latest = locked_chan(KC_CHAN_LATEST, 1);

    CHECK(is_legal_with(full, KC_SEND, KC_WAIT_SEND));
    CHECK(is_legal_with(none, KC_SEND, KC_WAIT_SEND));
    CHECK(!is_legal_with(some, KC_SEND, KC_WAIT_SEND));
    CHECK(!is_legal_with(unlimited, KC_SEND, KC_WAIT_SEND));
    CHECK(!is_legal_with(latest, KC_SEND, KC_WAIT_SEND));
    let_go(full);
    let_go(some);
    let_go(none);
    let_go(unlimited);
    let_go(latest);
}

TEST(a_select_may_wait_on_both_sides_and_an_ended_wait_may_stay)
{
    kc_chan_t *c = locked_chan(0, 0);
    struct waits receiver, sender;

    make_waiter(&receiver, KC_WAIT_RECV);
    make_waiter(&sender, KC_WAIT_SEND);
    enters(c, KC_RECV, &receiver);
    enters(c, KC_SEND, &sender);
    CHECK(!kc__chan_is_legal(c));
    CHECK(kc__wait_claim(&sender.wait, 0)); /* its time is over, and it has not left yet */
    CHECK(kc__chan_is_legal(c));
    make_waiter(&receiver, KC_WAIT_SELECT);
    leaves(c, KC_SEND, &sender);
    c->receivers = NULL;
    sender.waiter = (kc_chan_waiter_t){ .wait = &receiver.wait };
    enters(c, KC_RECV, &receiver);
    enters(c, KC_SEND, &sender);
    CHECK(kc__chan_is_legal(c));
    leaves(c, KC_RECV, &receiver);
    leaves(c, KC_SEND, &sender);
    let_go(c);
}

TEST(nobody_waits_in_a_closed_channel_which_has_a_cause)
{
    kc_chan_t *c = chan(sizeof(int), 0);

    kc_chan_close(c);
    kc__spin_lock(&c->lock);
    CHECK(kc__chan_is_legal(c));
    CHECK(!is_legal_with(c, KC_RECV, KC_WAIT_RECV));
    CHECK(!is_legal_with(c, KC_SEND, KC_WAIT_SEND));
    c->cause = 0;
    CHECK(!kc__chan_is_legal(c));
    c->cause = -EPIPE;
    let_go(c);
}

TEST(a_ring_that_is_broken_is_found)
{
    kc_chan_t *c = locked_chan(0, 0);
    struct waits w[3];

    for (int i = 0; i < 3; i++) {
        make_waiter(&w[i], KC_WAIT_RECV);
        enters(c, KC_RECV, &w[i]);
    }
    CHECK(kc__chan_is_legal(c));
    w[1].waiter.link.prev = &w[2].waiter.link;
    CHECK(!kc__chan_is_legal(c));
    w[1].waiter.link.prev = &w[0].waiter.link;
    w[0].waiter.link.prev = &w[1].waiter.link;
    CHECK(!kc__chan_is_legal(c));
    c->receivers = NULL;
    let_go(c);
}

TEST(indices_and_count_of_a_ring_agree)
{
    kc_chan_t *c = locked_chan(3, 2);
    kc_buffer_t *b = &c->buffer, was = *b;

    b->tail++;
    CHECK(!kc__buffer_is_legal(b));
    *b = was;
    b->head = 4;
    CHECK(!kc__buffer_is_legal(b));
    *b = was;
    kc_store_relaxed(&b->count, 5);
    CHECK(!kc__buffer_is_legal(b));
    *b = was;
    b->last = NULL;
    CHECK(!kc__buffer_is_legal(b));
    *b = was;
    let_go(c);
}

TEST(every_state_of_a_ring_and_of_chunks_is_legal)
{
    for (int k = 0; k < KIT_CHANS; k++) {
        kc_chan_t *c = chan(100, kit_capacity[k]);
        unsigned char item[100] = { 0 };
        uint64_t random = 77;
        for (int i = 0; i < 2000; i++) {
            bool sends = kc_test_random(&random) % 100 < (i % 500 < 250 ? 80 : 20);
            (void)!(sends ? kc_chan_try_send(c, item) : kc_chan_try_recv(c, item));
            kc__spin_lock(&c->lock);
            CHECK(kc__chan_is_legal(c));
            kc__spin_unlock(&c->lock);
        }
        kc_chan_release(c);
    }
}

TEST(chunks_and_count_of_an_unlimited_buffer_agree)
{
    kc_chan_t *c = locked_chan(KC_CHAN_UNLIMITED, 3000);
    kc_buffer_t *b = &c->buffer, was = *b;

    CHECK(b->first != b->last);
    kc_store_relaxed(&b->count, b->tail - b->head);
    CHECK(!kc__buffer_is_legal(b));
    *b = was;
    b->tail--;
    CHECK(!kc__buffer_is_legal(b));
    *b = was;
    b->last = b->first;
    CHECK(!kc__buffer_is_legal(b));
    *b = was;
    let_go(c);
}

TEST(a_wait_queue_is_given_back_locked_and_whole)
{
    kc_wait_queue_t q = { 0 };
    kc_wait_t w[2] = { { .kind = KC_WAIT_SEM }, { .kind = KC_WAIT_SEM } };

    CHECK(!kc__wait_queue_is_legal(&q, 0)); /* nobody has locked it */
    (void)kc__wait_queue_lock(&q);
    CHECK(kc__wait_queue_is_legal(&q, 4));
    CHECK(!kc__wait_queue_is_legal(&q, 4 | KC_WAIT_QUEUE_LOCK));
    CHECK(!kc__wait_queue_is_legal(&q, KC_WAIT_QUEUE_WAITS));
    kc__wait_link(&q.first, &w[0].link);
    kc__wait_link(&q.first, &w[1].link);
    CHECK(kc__wait_queue_is_legal(&q, 0));
    w[1].link.next = NULL;
    CHECK(!kc__wait_queue_is_legal(&q, 0));
}
