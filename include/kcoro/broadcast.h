/* SPDX-License-Identifier: MIT */
/*
 * kcoro/broadcast.h - every subscriber sees every item, and who is too slow is told what it missed.
 *
 *     kc_subscription_t sub;
 *     rc = kc_subscribe(prices, &sub);
 *     while ((rc = kc_subscription_recv(&sub, &item, &missed)) == 0)
 *         ...                                   // missed: so many were overwritten before this one
 *     kc_unsubscribe(&sub);
 *
 * A broadcast keeps its newest `capacity` items. Sending never waits: the oldest item gives way. A
 * subscriber gets what is sent from its subscription on, in order. Works between coroutines of any
 * threads and schedulers, and plain threads, which block. Closing and releasing are different:
 * see docs/guide/cancel-or-give-up.md.
 */
#ifndef KCORO_BROADCAST_H
#define KCORO_BROADCAST_H

#include <kcoro/base.h>
#include <kcoro/time.h>

#include <stddef.h>
#include <stdint.h>

KC_BEGIN_DECLS

typedef struct kc_broadcast kc_broadcast_t;

/* A place in the stream, in your memory, for one coroutine or thread at a time. The fields are the
 * library's. A copy of one that was given up is always recognised: its use aborts with one line. */
typedef struct {
    kc_broadcast_t *from;
    uint64_t next;
    void *stub;
    uint64_t number;
} kc_subscription_t;

/*
 * Makes a broadcast of items of one size, which keeps the newest `capacity` of them.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0; -ENOMEM; -EINVAL: out is NULL, or capacity is 0.  Owns: *out is one reference.
 */
KC_API int kc_broadcast_create(size_t item_size, size_t capacity, kc_broadcast_t **out);

/* Sends a copy of *item to all who have subscribed.  Context: anywhere.  Suspends: no.
 * Returns: 0; -EPIPE, or its cause: closed; -EINVAL: b is NULL, or item and the items are not of
 * size 0. */
KC_API int kc_broadcast_send(kc_broadcast_t *b, const void *item);

/* Nothing more will be sent; subscribers still get what is kept. Twice is harmless.
 * Context: anywhere.  Suspends: no. */
KC_API void kc_broadcast_close(kc_broadcast_t *b);

/* The same, and says why: whoever would get -EPIPE gets cause. The first close decides. A cause
 * that is not negative is bad use.  Context: anywhere.  Suspends: no. */
KC_API void kc_broadcast_close_with(kc_broadcast_t *b, int cause);

/* Context: anywhere.  Suspends: no.
 * Returns: 0: open; -EPIPE: kc_broadcast_close; else the cause; -EINVAL: b is NULL. */
KC_API int kc_broadcast_cause(const kc_broadcast_t *b);

/* Context: anywhere.  Suspends: no.  Owns: retain gives one reference, release takes one; a release
 * of NULL does nothing. A handle that is used after the last release is recognised, as a channel's
 * is. */
KC_API kc_broadcast_t *kc_broadcast_retain(kc_broadcast_t *b);
KC_API void kc_broadcast_release(kc_broadcast_t *b);

/* Gets what is sent from now on; gives that up.  Context: anywhere.  Suspends: no.
 * Returns: 0; -ENOMEM; -EINVAL: a NULL.
 * Owns: the subscription has a reference on b until it is given up. */
KC_API int kc_subscribe(kc_broadcast_t *b, kc_subscription_t *sub);
KC_API void kc_unsubscribe(kc_subscription_t *sub);

/*
 * The next item into *item (NULL: drops it); *missed, which may be NULL, is how many were
 * overwritten before it since the last call.
 *
 * Context: anywhere.  Suspends: until there is one.  Cancel: nothing is received or missed.
 * Returns: 0; -EPIPE, or its cause: closed, and all has been received; -ECANCELED; the second one
 *          -ETIMEDOUT; the third one, which never waits, -EAGAIN; -EINVAL: sub is NULL or given up.
 */
KC_API KC_WARN_UNUSED int kc_subscription_recv(kc_subscription_t *sub, void *item,
                                               uint64_t *missed);
KC_API KC_WARN_UNUSED int kc_subscription_recv_until(kc_subscription_t *sub, void *item,
                                                     uint64_t *missed, kc_time_t deadline);
KC_API int kc_subscription_try_recv(kc_subscription_t *sub, void *item, uint64_t *missed);

KC_END_DECLS

#endif
