/* SPDX-License-Identifier: MIT */
/*
 * kcoro/chan.h - channels: items of one size from senders to receivers, and waiting for several.
 *
 *     kc_chan_t *c;
 *     rc = kc_chan_create(sizeof(int), 0, &c);     // 0: no buffer, sender and receiver meet
 *     ...
 *     rc = kc_chan_send(c, &number);               // in one coroutine
 *     rc = kc_chan_recv(c, &number);               // in another; -EPIPE: closed, nothing left
 *
 * Items are copied. They are received in the order in which they were sent, each exactly once. A
 * send or receive that is cancelled, reaches its deadline, or is not chosen by a select has done
 * nothing; one that did happen is reported as done, also in a job that is cancelled meanwhile. Wait
 * queues are first come, first served.
 *
 * Channels work between coroutines of any threads and schedulers, and plain threads, which block.
 * They are reference counted; every user must hold a reference. A handle that is used after the
 * last release is recognised: the call aborts with one line. That holds until a new channel gets
 * the memory, which is not before the releasing thread has made 30 more objects or has ended; with
 * KCORO_DEBUG=1 it holds for ever. Later the old handle is taken for the new channel. To close a
 * channel and to release it are two things: see docs/guide/cancel-or-give-up.md.
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
 * Makes a channel of items of item_size bytes with a buffer of `capacity` items (0: none; or
 * KC_CHAN_UNLIMITED or KC_CHAN_LATEST). kc_chan_create_with takes more options.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0; -ENOMEM; -EINVAL: out or opts is NULL.
 * Owns: *out is one reference.
 */
KC_API int kc_chan_create(size_t item_size, size_t capacity, kc_chan_t **out);
KC_API int kc_chan_create_with(const kc_chan_opts_t *opts, kc_chan_t **out);

/*
 * Sends a copy of *item: to the first waiting receiver, or into the buffer; if neither is possible,
 * waits until it is. Without a buffer, a receiver on the same thread runs at once, before the
 * sender continues. kc_chan_send_until waits until the deadline at most, on kc_now's clock.
 *
 * Context: anywhere.  Suspends: if it must wait, and now and then to let others run.
 * Cancel: the item is not sent.
 * Returns: 0: sent; -EPIPE, or the cause: the channel is closed; -ECANCELED; -ENOMEM: no room in an
 *          unlimited channel; -EINVAL: c is NULL, or item is NULL and the item size is not 0;
 *          kc_chan_send_until also -ETIMEDOUT: not sent until the deadline.
 */
KC_API KC_WARN_UNUSED int kc_chan_send(kc_chan_t *c, const void *item);
KC_API KC_WARN_UNUSED int kc_chan_send_until(kc_chan_t *c, const void *item, kc_time_t deadline);

/*
 * Sends a copy of *item if that is possible without waiting.
 *
 * Context: anywhere.  Suspends: no.  Cancel: not looked at.
 * Returns: 0: sent; -EAGAIN: it would have to wait; -EPIPE, or the cause: the channel is closed;
 *          -ENOMEM, -EINVAL: as kc_chan_send.
 */
KC_API int kc_chan_try_send(kc_chan_t *c, const void *item);

/*
 * Receives the oldest item into *item, or drops it if item is NULL; waits until there is one.
 * kc_chan_recv_until waits until the deadline at most, on kc_now's clock.
 *
 * Context: anywhere.  Suspends: if it must wait, and now and then to let others run.
 * Cancel: nothing is received.
 * Returns: 0: received; -EPIPE, or the cause: the channel is closed and empty; -ECANCELED; -EINVAL:
 *          c is NULL; kc_chan_recv_until also -ETIMEDOUT.
 */
KC_API KC_WARN_UNUSED int kc_chan_recv(kc_chan_t *c, void *item);
KC_API KC_WARN_UNUSED int kc_chan_recv_until(kc_chan_t *c, void *item, kc_time_t deadline);

/*
 * Receives the oldest item into *item, or drops it if item is NULL, if that is possible without
 * waiting.
 *
 * Context: anywhere.  Suspends: no.  Cancel: not looked at.
 * Returns: 0: received; -EAGAIN: it would have to wait; -EPIPE, or the cause: the channel is closed
 *          and empty; -EINVAL: c is NULL.
 */
KC_API int kc_chan_try_recv(kc_chan_t *c, void *item);

/*
 * Closes the channel: there are no more sends. Senders that wait get -EPIPE and keep their items;
 * receivers get what is in the buffer, then -EPIPE. Closing twice is harmless.
 *
 * Context: anywhere.  Suspends: no.
 */
KC_API void kc_chan_close(kc_chan_t *c);

/*
 * Closes the channel as kc_chan_close does, with a cause that every call gets in place of -EPIPE, a
 * select too. So a receiver can tell a stream that has ended from one that broke off. The first
 * close decides. Choose a code that the other side does not get for another reason: -EIO, not
 * -EAGAIN. A cause that is not negative is bad use.
 *
 * Context: anywhere.  Suspends: no.
 */
KC_API void kc_chan_close_with(kc_chan_t *c, int cause);

/*
 * Context: anywhere.  Suspends: no.
 * Returns: 0: open; -EPIPE: closed by kc_chan_close; the cause of kc_chan_close_with; -EINVAL: c is
 *          NULL.
 */
KC_API int kc_chan_cause(const kc_chan_t *c);

/*
 * Context: anywhere.  Suspends: no.
 * Returns: the number of items in the buffer, which may have changed when the call returns.
 */
KC_API size_t kc_chan_len(const kc_chan_t *c);

/*
 * kc_chan_retain takes one more reference and returns c; kc_chan_release gives one up, and does not
 * close the channel for others. The last release frees the channel; that a sender or receiver waits
 * in it then is bad use. A release of NULL does nothing.
 *
 * Context: anywhere.  Suspends: no.
 * Owns: retain gives one reference, release takes one.
 */
KC_API kc_chan_t *kc_chan_retain(kc_chan_t *c);
KC_API void kc_chan_release(kc_chan_t *c);

/* ---- select --------------------------------------------------------------------------------- */

enum { KC_RECV = 1, KC_SEND = 2 };

typedef struct {
    int op;          /* KC_RECV or KC_SEND                                                   */
    kc_chan_t *chan; /* NULL: this case never happens                                        */
    void *item;      /* as the item of kc_chan_send or kc_chan_recv                          */
    int rc;          /* set for the case that happened: 0, or why its channel was closed     */
} kc_case_t;

/*
 * Waits until one of the cases, each a send or a receive, happens: exactly one does. If several
 * can, each is equally likely to be chosen, whatever its place; kc_select_biased chooses the first.
 * With timeout 0 the call does not wait, looks at all cases at one moment, and does not look at
 * cancellation; KC_FOREVER: no limit.
 *
 * Context: anywhere.  Suspends: if none can happen, and now and then to let others run.
 * Cancel: none has happened.
 * Returns: the index of the case that happened; -EAGAIN: timeout 0, and there was a moment during
 *          the call at which none could have happened; -ETIMEDOUT; -ECANCELED; -EINVAL: n is 0, a
 *          negative timeout, a NULL, another op; -ENOMEM: for more than a few cases, or for an
 *          unlimited channel. After an error nothing has happened.
 */
KC_API KC_WARN_UNUSED int kc_select(kc_case_t *cases, size_t n, kc_time_t timeout);
KC_API KC_WARN_UNUSED int kc_select_biased(kc_case_t *cases, size_t n, kc_time_t timeout);

KC_END_DECLS

#endif
