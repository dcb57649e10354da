/* SPDX-License-Identifier: MIT */
/*
 * kcoro/broadcast.h - every subscriber sees every item; a slow one is told how many it missed.
 *
 *     kc_subscription_t sub;
 *     rc = kc_subscribe(prices, &sub);
 *     while ((rc = kc_subscription_recv(&sub, &item, &missed)) == 0)
 *         ...                           // missed: how many items were overwritten before this one
 *     kc_unsubscribe(&sub);
 *
 * A broadcast keeps its newest `capacity` items. Sending never waits: the oldest item gives way. A
 * subscriber gets what is sent after its subscription, in order. Broadcasts work between coroutines
 * of any threads and schedulers, and plain threads, which block. Closing and releasing are
 * different: see docs/guide/cancel-or-give-up.md.
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
    void *ticket;
    uint64_t number;
} kc_subscription_t;

/*
 * Makes a broadcast of items of item_size bytes, which keeps the newest `capacity` of them.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0; -ENOMEM; -EINVAL: out is NULL, or capacity is 0.
 * Owns: *out is one reference.
 */
KC_API int kc_broadcast_create(size_t item_size, size_t capacity, kc_broadcast_t **out);

/*
 * Sends a copy of *item to all subscribers.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0; -EPIPE, or the cause: the broadcast is closed; -EINVAL: b is NULL, or item is NULL
 *          and the item size is not 0.
 */
KC_API int kc_broadcast_send(kc_broadcast_t *b, const void *item);

/*
 * Closes the broadcast: nothing more can be sent, and subscribers still get what is kept, then
 * -EPIPE. Closing twice is harmless.
 *
 * Context: anywhere.  Suspends: no.
 */
KC_API void kc_broadcast_close(kc_broadcast_t *b);

/*
 * Closes the broadcast as kc_broadcast_close does, with a cause that every call gets in place of
 * -EPIPE. The first close decides. A cause that is not negative is bad use.
 *
 * Context: anywhere.  Suspends: no.
 */
KC_API void kc_broadcast_close_with(kc_broadcast_t *b, int cause);

/*
 * Context: anywhere.  Suspends: no.
 * Returns: 0: open; -EPIPE: closed by kc_broadcast_close; the cause of kc_broadcast_close_with;
 *          -EINVAL: b is NULL.
 */
KC_API int kc_broadcast_cause(const kc_broadcast_t *b);

/*
 * kc_broadcast_retain takes one more reference and returns b; kc_broadcast_release gives one up,
 * and does not close the broadcast for others. A release of NULL does nothing. A handle that is
 * used after the last release is recognised, as that of a channel is.
 *
 * Context: anywhere.  Suspends: no.
 * Owns: retain gives one reference, release takes one.
 */
KC_API kc_broadcast_t *kc_broadcast_retain(kc_broadcast_t *b);
KC_API void kc_broadcast_release(kc_broadcast_t *b);

/*
 * kc_subscribe fills *sub, which gets every item that is sent from now on; kc_unsubscribe gives the
 * subscription up.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0; -ENOMEM; -EINVAL: a NULL.
 * Owns: the subscription has a reference on b until it is given up.
 */
KC_API int kc_subscribe(kc_broadcast_t *b, kc_subscription_t *sub);
KC_API void kc_unsubscribe(kc_subscription_t *sub);

/*
 * Receives the next item into *item, or drops it if item is NULL; *missed, which may be NULL, is
 * how many items were overwritten before it since the last call. kc_subscription_recv_until waits
 * until the deadline at most; kc_subscription_try_recv never waits and does not look at
 * cancellation.
 *
 * Context: anywhere.  Suspends: until there is an item; kc_subscription_try_recv: no.
 * Cancel: nothing is received or missed.
 * Returns: 0; -EPIPE, or the cause: the broadcast is closed, and all items have been received;
 *          -ECANCELED; -EINVAL: sub is NULL or given up; kc_subscription_recv_until also
 *          -ETIMEDOUT; kc_subscription_try_recv also -EAGAIN: there is no item now.
 */
KC_API KC_WARN_UNUSED int kc_subscription_recv(kc_subscription_t *sub, void *item,
                                               uint64_t *missed);
KC_API KC_WARN_UNUSED int kc_subscription_recv_until(kc_subscription_t *sub, void *item,
                                                     uint64_t *missed, kc_time_t deadline);
KC_API int kc_subscription_try_recv(kc_subscription_t *sub, void *item, uint64_t *missed);

KC_END_DECLS

#endif
