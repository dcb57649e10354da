/* SPDX-License-Identifier: MIT */
/*
 * broadcast.c - a ring of the newest items, numbered from 0; each subscriber keeps the number of
 * the one that it wants next.
 *
 * ORDER    id           site           operation    pairs with   carries; what breaks if weaker
 *          broadcast.1  release: refs  sub_acq_rel  broadcast.1  what the others did, to the one
 *                                                                who frees it
 */
#include "coro/object.h"
#include "base/os.h"
#include "sync/buffer.h"
#include "sync/wait_queue.h"

#include <kcoro/broadcast.h>

#include <errno.h>

struct kc_broadcast {
    kc_block_t block;         /*    magic A                                                     */
    kc_wait_queue_t queue;    /* A  nothing of its own in the word; who waits for the next item */
    KC_ATOMIC(uint32_t) refs; /* A                                                              */
    size_t item_size;         /* I                                                              */
    size_t capacity;          /* I                                                              */
    uint64_t sent;            /* L  items ever: the next one's number                           */
    int cause;                /* L  0: open; else why it was closed, for good                   */
    unsigned char *items;     /* L  number k is in slot k % capacity                            */
};

_Static_assert(sizeof(struct kc_broadcast) <= KC_BLOCK_SIZE, "a broadcast is a control block");

static kc_broadcast_t *check(kc_broadcast_t *b, const char *call)
{
    if (kc_unlikely(!kc__object_is(b, KC_BROADCAST_MAGIC)))
        kc__object_not_live(call, "broadcast", "J32", b);
    return b;
}

int kc_broadcast_create(size_t item_size, size_t capacity, kc_broadcast_t **out)
{
    size_t bytes;

    if (!out || capacity == 0)
        return -EINVAL;
    if (__builtin_mul_overflow(item_size, capacity, &bytes))
        return -ENOMEM;
    kc_block_t *block = kc__object_get(KC_BROADCAST_MAGIC);
    if (!block)
        return -ENOMEM;
    kc_broadcast_t *b = kc_container_of(block, kc_broadcast_t, block);
    b->items = kc__alloc(bytes ? bytes : 1);
    if (!b->items) {
        kc__object_put(block);
        return -ENOMEM;
    }
    b->item_size = item_size;
    b->capacity = capacity;
    kc_store_relaxed(&b->refs, 1);
    *out = b;
    return 0;
}

kc_broadcast_t *kc_broadcast_retain(kc_broadcast_t *b)
{
    kc_add_relaxed(&check(b, "kc_broadcast_retain")->refs, 1);
    return b;
}

void kc_broadcast_release(kc_broadcast_t *b)
{
    if (!b || kc_sub_acq_rel(&check(b, "kc_broadcast_release")->refs, 1) != 1) /* broadcast.1 */
        return;
    kc__free(b->items);
    kc__object_put(&b->block);
}

static unsigned char *slot(const kc_broadcast_t *b, uint64_t number)
{
    return b->items + (size_t)(number % b->capacity) * b->item_size;
}

int kc_broadcast_send(kc_broadcast_t *b, const void *item)
{
    if (!b)
        return -EINVAL;
    check(b, "kc_broadcast_send");
    size_t size = b->item_size;
    if (!item && size > 0)
        return -EINVAL;
    kc__wait_queue_lock(&b->queue);
    if (b->cause) {
        kc__wait_queue_unlock(&b->queue, 0);
        return b->cause; /* it does not change any more */
    }
    kc__item_copy(slot(b, b->sent++), item, size);
    kc_link_t *taken = kc__wait_queue_take_some(&b->queue, UINT64_MAX);
    kc__wait_queue_unlock(&b->queue, 0);
    kc__wait_wake_all(taken);
    return 0;
}

static void close_with(kc_broadcast_t *b, int cause)
{
    kc__wait_queue_lock(&b->queue);
    if (!b->cause)
        b->cause = cause;
    kc_link_t *taken = kc__wait_queue_take_some(&b->queue, UINT64_MAX);
    kc__wait_queue_unlock(&b->queue, 0);
    kc__wait_wake_all(taken);
}

void kc_broadcast_close(kc_broadcast_t *b)
{
    close_with(check(b, "kc_broadcast_close"), -EPIPE);
}

void kc_broadcast_close_with(kc_broadcast_t *b, int cause)
{
    check(b, "kc_broadcast_close_with");
    if (cause >= 0)
        kc__usage("kc_broadcast_close_with", "the cause is not negative " KC_RULE("H5"));
    close_with(b, cause);
}

int kc_broadcast_cause(const kc_broadcast_t *b)
{
    if (!b)
        return -EINVAL;
    kc_broadcast_t *mine = check((kc_broadcast_t *)(uintptr_t)b, "kc_broadcast_cause");
    kc__wait_queue_lock(&mine->queue);
    int cause = mine->cause;
    kc__wait_queue_unlock(&mine->queue, 0);
    return cause;
}

/* ---- subscribers ---------------------------------------------------------------------------- */

int kc_subscribe(kc_broadcast_t *b, kc_subscription_t *sub)
{
    if (!b || !sub)
        return -EINVAL;
    check(b, "kc_subscribe");
    kc_ticket_t *ticket = kc__ticket_get(KC_SUBSCRIPTION_MAGIC, b, &sub->number);
    if (!ticket)
        return -ENOMEM;
    sub->ticket = ticket;
    sub->from = kc_broadcast_retain(b);
    kc__wait_queue_lock(&b->queue);
    sub->next = b->sent;
    kc__wait_queue_unlock(&b->queue, 0);
    return 0;
}

static _Noreturn KC_COLD void given_up(const char *call)
{
    kc__usage(call, "a copy of a subscription that was given up " KC_RULE("J32"));
}

void kc_unsubscribe(kc_subscription_t *sub)
{
    if (!sub)
        kc__usage("kc_unsubscribe", "the subscription is NULL");
    if (!sub->from)
        return;
    if (!kc__ticket_put(sub->ticket, KC_SUBSCRIPTION_MAGIC, sub->number))
        given_up("kc_unsubscribe");
    kc_broadcast_release(sub->from);
    sub->from = NULL;
}

static kc_broadcast_t *of(kc_subscription_t *sub, const char *call)
{
    if (kc_unlikely(!kc__ticket_is(sub->ticket, KC_SUBSCRIPTION_MAGIC, sub->number)))
        given_up(call);
    return sub->from;
}

/* With the lock: the next item, if there is one. -EPIPE: it is closed, and b->cause says why. */
static int next_item(kc_broadcast_t *b, kc_subscription_t *sub, void *item, uint64_t *missed)
{
    uint64_t oldest = b->sent > b->capacity ? b->sent - b->capacity : 0, lost = 0;

    KC_CHECK(kc__wait_queue_is_locked(&b->queue));
    if (sub->next == b->sent)
        return b->cause ? -EPIPE : -EAGAIN;
    if (sub->next < oldest) {
        lost = oldest - sub->next;
        sub->next = oldest;
    }
    if (item)
        kc__item_copy(item, slot(b, sub->next), b->item_size);
    if (missed)
        *missed = lost;
    sub->next++;
    return 0;
}

int kc_subscription_try_recv(kc_subscription_t *sub, void *item, uint64_t *missed)
{
    if (!sub || !sub->from)
        return -EINVAL;
    kc_broadcast_t *b = of(sub, "kc_subscription_try_recv");
    kc__wait_queue_lock(&b->queue);
    int rc = next_item(b, sub, item, missed);
    kc__wait_queue_unlock(&b->queue, 0);
    return rc == -EPIPE ? b->cause : rc;
}

int kc_subscription_recv_until(kc_subscription_t *sub, void *item, uint64_t *missed,
                               kc_time_t deadline)
{
    if (!sub || !sub->from)
        return -EINVAL;
    kc_broadcast_t *b = of(sub, "kc_subscription_recv");
    for (;;) {
        kc_wait_t w;
        int rc = kc__wait_begin(&w, KC_WAIT_BROADCAST, b);
        if (rc != 0)
            return rc;
        kc__wait_queue_lock(&b->queue);
        rc = next_item(b, sub, item, missed);
        if (rc != -EAGAIN) {
            kc__wait_queue_unlock(&b->queue, 0);
            (void)kc__wait_spend(kc__thread(), w.co);
            return rc == -EPIPE ? b->cause : rc;
        }
        rc = kc__wait_queue_wait_or_leave(&b->queue, 0, &w, deadline);
        if (rc != 0)
            return rc;
    }
}

int kc_subscription_recv(kc_subscription_t *sub, void *item, uint64_t *missed)
{
    return kc_subscription_recv_until(sub, item, missed, KC_FOREVER);
}
