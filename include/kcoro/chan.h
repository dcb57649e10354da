/* SPDX-License-Identifier: MIT */
/*
 * kcoro/chan.h - channels: items of one size from senders to receivers, and waiting for several.
 *
 *     kc_chan_t *c;
 *     rc = kc_chan_create(sizeof(int), 0, &c);     // 0: who sends and who receives meet
 *     ...
 *     rc = kc_chan_send(c, &number);               // in one coroutine
 *     rc = kc_chan_recv(c, &number);               // in another; -EPIPE: closed, nothing left
 *
 * Items are copied. They are received in the order in which they were sent, each exactly once: a
 * send or receive that is cancelled, out of time, or not chosen by a select has done nothing, and
 * one that did happen says so, also in a job that is cancelled meanwhile. Who waits stands in line.
 *
 * Channels work between coroutines of any threads and schedulers, and plain threads, which block.
 * They are reference counted; who uses one must hold a reference. A handle that is used after the
 * last release is recognised, and aborts with one line, until a new channel gets its memory: not
 * before the thread that released it has made 30 more objects, or has ended; with KCORO_DEBUG=1
 * never. From then on it is taken for the new one. To close a channel and to release it are two
 * things: see docs/guide/cancel-or-give-up.md.
 *
 * In src: sync/select.c.
 */
#ifndef KCORO_CHAN_H
#define KCORO_CHAN_H

#include <kcoro/base.h>
#include <kcoro/time.h>

#include <stddef.h>
#include <stdint.h>

KC_BEGIN_DECLS

typedef struct kc_chan kc_chan_t;

#define KC_CHAN_UNLIMITED SIZE_MAX    /* a send never waits                              */
#define KC_CHAN_LATEST (SIZE_MAX - 1) /* holds one item; a send replaces it              */

typedef struct {
    size_t item_size; /* 0: bare events                                                     */
    size_t capacity;  /* 0: none, senders wait for receivers; or one of the above            */
    /* Called for each item that nobody will receive: what is in the channel at its last release,
     * and what is replaced in a KC_CHAN_LATEST. Must not suspend. */
    void (*undelivered)(void *item, void *arg);
    void *arg;
    const char *name; /* copied, 31 bytes at most; for reports                              */
} kc_chan_opts_t;

/*
 * Makes a channel of items of one size, with room for so many; the second one with more options.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0; -ENOMEM; -EINVAL: out or opts is NULL.  Owns: *out is one reference.
 */
KC_API int kc_chan_create(size_t item_size, size_t capacity, kc_chan_t **out);
KC_API int kc_chan_create_with(const kc_chan_opts_t *opts, kc_chan_t **out);

/*
 * Sends a copy of *item: to the first receiver in line, into the buffer, or when one of these is
 * possible. Without a buffer, a receiver on the same thread goes on at once, before the sender.
 *
 * Context: anywhere.  Suspends: if it must wait, and now and then to let others run.
 * Cancel: the item is not sent.
 * Returns: 0: sent; -EPIPE, or its cause: closed; -ECANCELED; -ETIMEDOUT: not sent until deadline,
 *          on kc_now's clock; -ENOMEM: no room for an unlimited one; -EINVAL: c is NULL, or item
 *          and the items are not of size 0.
 */
KC_API KC_WARN_UNUSED int kc_chan_send(kc_chan_t *c, const void *item);
KC_API KC_WARN_UNUSED int kc_chan_send_until(kc_chan_t *c, const void *item, kc_time_t deadline);

/* The same without waiting.  Context: anywhere.  Suspends: no.  Cancel: not looked at.
 * Returns: as kc_chan_send; -EAGAIN: it would have to wait. */
KC_API int kc_chan_try_send(kc_chan_t *c, const void *item);

/*
 * Receives the oldest item into *item; NULL: drops it.
 *
 * Context: anywhere.  Suspends: if it must wait, and now and then to let others run.
 * Cancel: nothing is received.
 * Returns: 0: received; -EPIPE, or its cause: closed, and nothing is left in it; -ECANCELED;
 *          -ETIMEDOUT; -EINVAL: c is NULL.
 */
KC_API KC_WARN_UNUSED int kc_chan_recv(kc_chan_t *c, void *item);
KC_API KC_WARN_UNUSED int kc_chan_recv_until(kc_chan_t *c, void *item, kc_time_t deadline);

/* The same without waiting.  Context: anywhere.  Suspends: no.  Cancel: not looked at.
 * Returns: as kc_chan_recv; -EAGAIN: it would have to wait. */
KC_API int kc_chan_try_recv(kc_chan_t *c, void *item);

/* No more sends. Senders that wait get -EPIPE and keep their items; receivers get what is in the
 * buffer, then -EPIPE. Twice is harmless.  Context: anywhere.  Suspends: no. */
KC_API void kc_chan_close(kc_chan_t *c);

/*
 * The same, and says why: whoever would get -EPIPE gets cause, in a select too. So a receiver can
 * tell a stream that has ended from one that broke off. The first close decides. Choose a code that
 * the other side does not get for another reason: -EIO, not -EAGAIN.
 *
 * Context: anywhere.  Suspends: no. A cause that is not negative is bad use.
 */
KC_API void kc_chan_close_with(kc_chan_t *c, int cause);

/* Context: anywhere.  Suspends: no.
 * Returns: 0: open; -EPIPE: kc_chan_close; else its cause; -EINVAL: c is NULL. */
KC_API int kc_chan_cause(const kc_chan_t *c);

/* Items in the buffer; the moment after it may be another number.
 * Context: anywhere.  Suspends: no. */
KC_API size_t kc_chan_len(const kc_chan_t *c);

/* Context: anywhere.  Suspends: no. The last release frees it: nobody may be waiting there. It does
 * not close it for others.
 * Owns: retain gives one reference, release takes one; a release of NULL does nothing. */
KC_API kc_chan_t *kc_chan_retain(kc_chan_t *c);
KC_API void kc_chan_release(kc_chan_t *c);

/* ---- select --------------------------------------------------------------------------------- */

enum { KC_RECV = 1, KC_SEND = 2 };

typedef struct {
    int op;          /* KC_RECV or KC_SEND                                                   */
    kc_chan_t *chan; /* NULL: this case never happens                                        */
    void *item;      /* as for send and receive                                              */
    int rc;          /* set for the one that happened: 0, or why its channel was closed      */
} kc_case_t;

/*
 * Waits until one of the sends and receives happens: exactly one does. Of several that can, each is
 * as likely to be chosen, whatever stands between them; with kc_select_biased it is the first.
 * timeout 0: does not wait, looks at all of them at one moment, and does not look at cancellation;
 * KC_FOREVER: no limit.
 *
 * Context: anywhere.  Suspends: if none can happen, and now and then to let others run.
 * Cancel: none has happened.
 * Returns: the index of the one that happened; -EAGAIN: timeout 0, and there was a moment during
 *          the call at which none could have happened; -ETIMEDOUT; -ECANCELED;
 *          -EINVAL: n is 0, a negative timeout, a NULL, another op; -ENOMEM: for more than a few
 *          cases, or for an unlimited channel. After an error nothing has happened.
 */
KC_API KC_WARN_UNUSED int kc_select(kc_case_t *cases, size_t n, kc_time_t timeout);
KC_API KC_WARN_UNUSED int kc_select_biased(kc_case_t *cases, size_t n, kc_time_t timeout);

KC_END_DECLS

#endif
