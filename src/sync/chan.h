/* SPDX-License-Identifier: MIT */
/*
 * chan.h - a channel, for the files of this folder.
 *
 * Legend: I immutable, A atomic, L the channel's lock.
 */
#ifndef KC_SYNC_CHAN_H
#define KC_SYNC_CHAN_H

#include "coro/object.h"
#include "sync/buffer.h"
#include "job/job.h"
#include "base/lock.h"
#include "job/wait.h"

#include <kcoro/chan.h>

#define KC_CHAN_MAGIC 0xc4a2c070u

/* What few channels have. */
typedef struct {
    void (*undelivered)(void *item, void *arg); /* I  NULL: there is no hook */
    void *arg;                                  /* I                         */
    char name[32];                              /* I                         */
} kc_chan_more_t;

struct kc_chan {
    kc_block_t block;         /*    magic A: KC_CHAN_MAGIC until it is freed                  */
    kc_spin_t lock;           /* A                                                            */
    KC_ATOMIC(uint32_t) refs; /* A                                                            */
    bool closed;              /* L                                                            */
    bool plain;               /* I  items of a cache line at most; a ring, or no buffer; nobody
                                    watches: what the fast path serves                          */
    bool latest;              /* I  a send replaces what is in the buffer                     */
    int cause;                /* L  0: open; else why it was closed, for good                 */
    kc_buffer_t buffer;       /* L                                                            */
    kc_link_t *receivers; /* L  kc_chan_waiter_t: not empty only if the buffer is                */
    kc_link_t *senders;   /* L  kc_chan_waiter_t: not empty only if the buffer is full           */
    kc_chan_more_t *more; /* I  NULL: nothing                                             */
};

_Static_assert(sizeof(struct kc_chan) <= KC_BLOCK_SIZE, "a channel is a control block");

/* The name that the user gave it; "" if none. */
KC_INLINE const char *kc__chan_name(const kc_chan_t *c)
{
    return c->more ? c->more->name : "";
}

/* One who wants to send or receive, in its frame: its place in a queue of one channel. */
typedef struct {
    kc_link_t link;  /* L                                                                      */
    kc_wait_t *wait; /* I  of a select: the same for all its cases                             */
    void *item;      /* I  where the item goes, or comes from                                  */
    int index;       /* I  what its wait returns: which case it is; only: 0                    */
    int rc;          /* >(claim) 0 from the beginning; or why the channel was closed           */
    bool only;       /* I  the wait is in this queue only                                       */
} kc_chan_waiter_t;

/* What is left to do when the lock is given back. */
typedef struct {
    kc_wait_t *woken;    /* who goes on; NULL: nobody                                          */
    kc_chunk_t *dropped; /* holds an item that nobody will receive; NULL: there is none        */
} kc_chan_after_t;

/* A handle that the user gives: aborts if it is none. */
void kc__chan_check(const kc_chan_t *c, const char *call);

/* With the lock: the first wait in a queue that is open, as it looks, and not self; NULL: none. */
KC_INLINE const kc_wait_t *kc__chan_first_open(const kc_link_t *queue, const kc_wait_t *self)
{
    const kc_link_t *l = queue;

    for (; l; l = l->next != queue ? l->next : NULL) {
        const kc_wait_t *w = kc_container_of(l, const kc_chan_waiter_t, link)->wait;
        if (w != self && kc__wait_is_open(w))
            return w;
    }
    return NULL;
}

/* With the lock: what it may be, R1 and R2 of chan.c; each unlock is checked in debug builds. */
KC_INLINE bool kc__chan_is_legal(const kc_chan_t *c)
{
    const kc_buffer_t *b = &c->buffer;
    size_t count = kc__buffer_count(b);
    bool both = c->receivers && c->senders;
    const kc_wait_t *receiver = both ? kc__chan_first_open(c->receivers, NULL) : NULL;
    const kc_wait_t *sender = both ? kc__chan_first_open(c->senders, NULL) : NULL;

    return kc__spin_is_taken(&c->lock) && kc__buffer_is_legal(b) &&
           kc__wait_ring_is_legal(c->receivers) && kc__wait_ring_is_legal(c->senders) &&
           (!c->receivers || count == 0) &&                                       /* R1 */
           (!c->senders || (count == b->slots && !b->unlimited && !c->latest)) && /* R1 */
           (!receiver || !sender || (receiver == sender && sender->kind == KC_WAIT_SELECT)) &&
           c->closed == (c->cause != 0) && !(c->closed && (c->receivers || c->senders)); /* R2 */
}

KC_INLINE void kc__chan_lock(kc_chan_t *c)
{
    kc__spin_lock(&c->lock);
}

KC_INLINE void kc__chan_unlock(kc_chan_t *c)
{
    KC_CHECK(kc__chan_is_legal(c));
    kc__spin_unlock(&c->lock);
}

/* The same where nobody is told (tsan.h). */
KC_INLINE void kc__chan_unlock_untold(kc_chan_t *c)
{
    KC_CHECK(kc__chan_is_legal(c));
    kc__spin_unlock_untold(&c->lock);
}

/*
 * With the lock: sends or receives at once, if that can be done. op: KC_SEND or KC_RECV. A select
 * that stands in queues already has claimed its own wait before, and so does not meet itself.
 * Returns 0, -EPIPE: closed, see kc__chan_result; -EAGAIN: not now; -ENOMEM: it needs a chunk, see
 * kc__chan_grow.
 */
int kc__chan_try(kc_chan_t *c, int op, void *item, kc_chan_after_t *after);

/* What the user hears of that: of a closed channel its cause, which may be any code. */
KC_INLINE int kc__chan_result(const kc_chan_t *c, int rc)
{
    return kc_unlikely(rc == -EPIPE) ? c->cause : rc; /* it does not change any more */
}

/* With the lock: that would not be -EAGAIN, as it looks; turns of the wait `self` do not count. */
bool kc__chan_is_ready(const kc_chan_t *c, int op, const kc_wait_t *self);

/* Without the lock: gets it a chunk. 0 or -ENOMEM. */
int kc__chan_grow(kc_chan_t *c);

/* Without the lock: what is left to do. */
void kc__chan_after(kc_chan_t *c, const kc_chan_after_t *after);

/* Where those wait who want to do op. */
KC_INLINE kc_link_t **kc__chan_queue(kc_chan_t *c, int op)
{
    return op == KC_SEND ? &c->senders : &c->receivers;
}

/* The item is there, or is not needed. */
KC_INLINE bool kc__chan_has_item(const kc_chan_t *c, int op, const void *item)
{
    return item || op == KC_RECV || c->buffer.item_size == 0;
}

#endif
