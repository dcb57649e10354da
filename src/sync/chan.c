/* SPDX-License-Identifier: MIT */
/*
 * chan.c - channels: one lock, a buffer, and two queues of those who wait.
 *
 * WHAT     Whoever comes looks at the other side's queue first. If somebody stands there, its wait
 *          is claimed (wait.h), and the item goes straight from one frame to the other: a wait that
 *          is claimed is always woken, so both frames stay until then. Else the buffer is used, and
 *          if that cannot be done the caller waits in the queue itself. All of it under the lock:
 *          an item is in exactly one place, whatever ends a wait.
 *
 *          One function decides what comes of a send or receive (next_step), one does it (pass),
 *          one does what is left without the lock (conclude). The fast path calls the same three,
 *          where it is known who calls and what the channel is like: it decides nothing else.
 *
 * SHAPE    capacity 0   no buffer: senders and receivers meet
 *          capacity n   a ring; who receives from a full one moves the first sender's item up
 *          unlimited    a list of chunks, see buffer.h
 *          latest       a ring of one; a send replaces the item. With a hook for undelivered
 *                       items the new one goes into the spare chunk, and the old chunk to the hook
 *
 * ORDER    id      site           operation    pairs with  carries; what breaks if weaker
 *          chan.1  release: refs  sub_acq_rel  chan.1      what the others did, to the one who
 *                                                          frees it
 *
 * RULES    R1 nobody waits to receive while there is an item or a sender, nor to send while there
 *             is room or a receiver; but for waits that have ended and not left yet, and both
 *             cases of one select. So nobody stands in the queue of the receivers unless the
 *             buffer is empty, nor in that of the senders unless it is full.
 *          R2 nobody waits in a channel that is closed.
 *
 * PROGRESS Everything but waiting is a few instructions and the copy of one item under a spin lock.
 *
 * WHY NOT  A lock-free queue for the buffer: select, close and an exact outcome under cancellation
 *          need one decision over buffer and queues, and an uncontended lock is one locked
 *          instruction, no more than such a queue needs.
 */
#include "sync/chan.h"

#include "base/os.h"
#include "job/body.h"

#include <errno.h>
#include <stdio.h>

/* ---- create, release ------------------------------------------------------------------------ */

/* 0 or -ENOMEM. */
static int add_more(kc_chan_t *c, const kc_chan_opts_t *opts)
{
    c->more = kc__alloc(sizeof *c->more);
    if (!c->more)
        return -ENOMEM;
    c->more->undelivered = opts->undelivered;
    c->more->arg = opts->arg;
    kc__tsan_hide(); /* reports may look at it on any thread */
    if (opts->name)
        snprintf(c->more->name, sizeof c->more->name, "%s", opts->name);
    kc__tsan_show();
    return 0;
}

int kc_chan_create_with(const kc_chan_opts_t *opts, kc_chan_t **out)
{
    if (!opts || !out)
        return -EINVAL;
    kc_block_t *block = kc__object_get(KC_CHAN_MAGIC);
    if (!block)
        return -ENOMEM;
    kc_chan_t *c = kc_container_of(block, kc_chan_t, block);
    c->latest = opts->capacity == KC_CHAN_LATEST;
    int rc = kc__buffer_init(&c->buffer, opts->item_size, c->latest ? 1 : opts->capacity,
                             opts->capacity == KC_CHAN_UNLIMITED);
    if (rc == 0 && (opts->undelivered || opts->name))
        rc = add_more(c, opts);
    if (rc != 0) {
        kc__buffer_free(&c->buffer);
        kc__object_put(block);
        return rc;
    }
    c->plain =
        !kc__tsan() && !c->latest && !c->buffer.unlimited && opts->item_size <= KC_ITEM_SMALL;
    kc_store_relaxed(&c->refs, 1);
    *out = c;
    return 0;
}

int kc_chan_create(size_t item_size, size_t capacity, kc_chan_t **out)
{
    return kc_chan_create_with(&(kc_chan_opts_t){ .item_size = item_size, .capacity = capacity },
                               out);
}

void kc__chan_check(const kc_chan_t *c, const char *call)
{
    if (kc_unlikely(!kc__object_is(c, KC_CHAN_MAGIC)))
        kc__object_not_live(call, "channel", "J32", c);
}

kc_chan_t *kc_chan_retain(kc_chan_t *c)
{
    kc__chan_check(c, "kc_chan_retain");
    kc_add_relaxed(&c->refs, 1);
    return c;
}

/* It has a hook for what nobody receives. */
static bool has_hook(const kc_chan_t *c)
{
    return c->more && c->more->undelivered;
}

/* Nobody has it any more. */
static void chan_free(kc_chan_t *c)
{
    kc_buffer_t *b = &c->buffer;

    if (c->senders || c->receivers)
        kc__usage("kc_chan_release", "somebody still waits in the channel");
    while (has_hook(c) && kc__buffer_count(b) > 0)
        c->more->undelivered(kc__buffer_pop(b, false), c->more->arg);
    kc__buffer_free(b);
    kc__free(c->more);
    kc__object_put(&c->block);
}

void kc_chan_release(kc_chan_t *c)
{
    if (!c)
        return;
    kc__chan_check(c, "kc_chan_release");
    kc__tsan_release(c);
    if (kc_sub_acq_rel(&c->refs, 1) == 1) { /* chan.1 */
        kc__tsan_acquire(c);
        chan_free(c);
    }
}

size_t kc_chan_len(const kc_chan_t *c)
{
    kc__chan_check(c, "kc_chan_len");
    return kc__buffer_count(&c->buffer);
}

/* ---- the other side ------------------------------------------------------------------------- */

KC_INLINE kc_chan_waiter_t *waiter_of(kc_link_t *l)
{
    return kc_container_of(l, kc_chan_waiter_t, link);
}

/* The first in a queue whose wait can be claimed, claimed and taken out. */
KC_INLINE kc_chan_waiter_t *claim_first(const kc_thread_t *t, kc_link_t **queue)
{
    while (*queue) {
        kc_chan_waiter_t *waiter = waiter_of(*queue);
        kc__wait_unlink(queue, &waiter->link);
        if (kc_likely(waiter->only ? kc__wait_claim_own_on(t, waiter->wait, 0)
                                   : kc__wait_claim(waiter->wait, waiter->index)))
            return waiter;
    }
    return NULL;
}

/* ---- one item ------------------------------------------------------------------------------- */

/* What comes of a send or a receive. */
typedef enum {
    CLOSED,
    MEET,    /* the item goes from the one to the other          */
    BUFFER,  /* it goes into the buffer, or comes from there     */
    REPLACE, /* of latest: it takes the place of the old one     */
    GROW,    /* of unlimited: not before there is another chunk  */
    WAIT
} step_t;

/* With the lock: this is decided here, and nowhere else. met: somebody waits on the other side.
 * plain: c is known to be so. */
KC_INLINE step_t next_step(const kc_chan_t *c, int op, bool met, bool plain)
{
    const kc_buffer_t *b = &c->buffer;

    if (op == KC_RECV) {
        if (kc__buffer_count(b) > 0)
            return BUFFER;
        return met ? MEET : c->closed ? CLOSED : WAIT;
    }
    if (kc_unlikely(c->closed))
        return CLOSED;
    if (met)
        return MEET;
    if (kc__buffer_has_room(b, plain))
        return BUFFER;
    if (plain)
        return WAIT;
    return c->latest ? REPLACE : b->unlimited ? GROW : WAIT;
}

bool kc__chan_is_ready(const kc_chan_t *c, int op, const kc_wait_t *self)
{
    bool met = kc__chan_first_open(op == KC_SEND ? c->receivers : c->senders, self) != NULL;

    KC_CHECK(kc__spin_is_taken(&c->lock));
    return next_step(c, op, met, false) != WAIT;
}

/* A latest one is full: the new item takes the place of the old. */
static int replace(kc_chan_t *c, const void *item, kc_chunk_t **dropped)
{
    kc_buffer_t *b = &c->buffer;

    if (has_hook(c)) {
        if (!b->spare)
            return -ENOMEM;
        *dropped = b->first;
        b->first = b->last = b->spare;
        b->spare = NULL;
    }
    kc__item_copy(b->first->items, item, b->item_size);
    return 0;
}

/* to is NULL: who receives does not want it. */
KC_INLINE void copy(const kc_chan_t *c, void *to, const void *from, bool plain)
{
    if (kc_unlikely(!to))
        return;
    if (plain)
        kc__item_copy_small(to, from, c->buffer.item_size);
    else
        kc__item_copy(to, from, c->buffer.item_size);
}

/*
 * As kc__chan_try, on thread t. Who waits on the other side is claimed before anything is decided:
 * by R1 it is needed, whatever the buffer holds. plain: c is known to be so; then there is no call.
 * Without the hint that nobody does a stream of 8-byte items takes 12 % longer, and with it a round
 * trip no longer.
 */
KC_INLINE int pass(const kc_thread_t *t, kc_chan_t *c, int op, void *item, kc_chan_after_t *after,
                   bool plain)
{
    kc_link_t **queue = kc__chan_queue(c, op == KC_SEND ? KC_RECV : KC_SEND);
    kc_chan_waiter_t *other = kc_unlikely(*queue != NULL) ? claim_first(t, queue) : NULL;
    kc_buffer_t *b = &c->buffer;

    KC_CHECK(kc__spin_is_taken(&c->lock));
    switch (next_step(c, op, other != NULL, plain)) {
    case MEET:
        copy(c, op == KC_SEND ? other->item : item, op == KC_SEND ? item : other->item, plain);
        after->woken = other->wait;
        return 0;
    case BUFFER:
        if (op == KC_SEND) {
            copy(c, kc__buffer_push(b, plain), item, plain);
            return 0;
        }
        copy(c, item, kc__buffer_pop(b, plain), plain);
        if (other) { /* there is room for its item now */
            copy(c, kc__buffer_push(b, plain), other->item, plain);
            after->woken = other->wait;
        }
        return 0;
    case REPLACE: {
        kc_chunk_t *dropped = NULL; /* so that after may stay in registers */
        int rc = replace(c, item, &dropped);
        after->dropped = dropped;
        return rc;
    }
    case GROW:
        return -ENOMEM;
    case CLOSED:
        return -EPIPE;
    case WAIT:
        break;
    }
    return -EAGAIN;
}

int kc__chan_try(kc_chan_t *c, int op, void *item, kc_chan_after_t *after)
{
    const kc_thread_t *t = kc__thread();

    return op == KC_SEND ? pass(t, c, KC_SEND, item, after, false)
                         : pass(t, c, KC_RECV, item, after, false);
}

/* Keeps a chunk for later, or frees it. */
static void give(kc_chan_t *c, kc_chunk_t *chunk)
{
    kc__chan_lock(c);
    chunk = kc__buffer_give(&c->buffer, chunk);
    kc__chan_unlock(c);
    kc__free(chunk);
}

int kc__chan_grow(kc_chan_t *c)
{
    kc_chunk_t *chunk = kc__buffer_chunk(&c->buffer);

    if (!chunk)
        return -ENOMEM;
    give(c, chunk);
    return 0;
}

/* The item of a chunk that was replaced. */
static KC_COLD void drop(kc_chan_t *c, kc_chunk_t *chunk)
{
    c->more->undelivered(chunk->items, c->more->arg);
    give(c, chunk);
}

void kc__chan_after(kc_chan_t *c, const kc_chan_after_t *after)
{
    if (after->woken)
        kc__wait_wake(after->woken);
    if (kc_unlikely(after->dropped != NULL))
        drop(c, after->dropped);
}

/* ---- send, receive -------------------------------------------------------------------------- */

/* With the lock, which is given back, and told if it was: waits until somebody takes or brings the
 * item. */
KC_INLINE int enqueue_and_wait(kc_thread_t *t, kcoro_t *co, kc_chan_t *c, int op, void *item,
                               kc_time_t deadline, bool told)
{
    kc_wait_t w;
    kc_chan_waiter_t waiter;

    waiter.wait = &w;
    waiter.item = item;
    waiter.index = waiter.rc = 0;
    waiter.only = true;
    kc__wait_begin_on(t, co, &w, op == KC_SEND ? KC_WAIT_SEND : KC_WAIT_RECV, c);
    kc__wait_link(kc__chan_queue(c, op), &waiter.link);
    if (told)
        kc__chan_unlock(c);
    else
        kc__chan_unlock_untold(c);
    int rc = kc__wait_commit_on(t, co, &w, deadline);
    if (kc_likely(rc == 0))
        return waiter.rc;
    kc__chan_lock(c);
    kc__wait_unlink(kc__chan_queue(c, op), &waiter.link);
    kc__chan_unlock(c);
    return rc == -ECANCELED ? kc__job_cancelled_here(w.co) : rc;
}

/*
 * Without the lock: the caller, on thread t in the job of co, has sent or received at once. Who has
 * waited for an item without a buffer runs now, others soon. here: the caller is known to be a
 * plain body, and the other to be of the same thread.
 */
KC_INLINE int conclude(kc_thread_t *t, kcoro_t *co, kc_chan_t *c, int op,
                       const kc_chan_after_t *after, bool here)
{
    if (after->woken) {
        if (op == KC_SEND && c->buffer.slots == 0) {
            kc__wait_hand_over(t, here ? t->current : co, after->woken);
            return 0;
        }
        if (here)
            kc__worker_ready_in_turn(t->worker, after->woken->co);
        else
            kc__wait_wake_on(t, after->woken);
    }
    if (kc_unlikely(after->dropped != NULL))
        drop(c, after->dropped);
    return here ? kc__wait_spend_in_body(t) : kc__wait_spend(t, co);
}

/* The handle that the user gave to one of the four below is none. */
static KC_COLD int not_a_channel(const kc_chan_t *c, int op, kc_time_t deadline)
{
    static const char *const call[2][2] = { { "kc_chan_send", "kc_chan_send_until" },
                                            { "kc_chan_recv", "kc_chan_recv_until" } };

    if (c)
        kc__chan_check(c, call[op == KC_RECV][deadline != KC_FOREVER]);
    return -EINVAL;
}

/* By the caller on thread t, whose job's coroutine is co; NULL: it has none. */
KC_INLINE int transfer_by(kc_thread_t *t, kcoro_t *co, kc_chan_t *c, int op, void *item,
                          kc_time_t deadline)
{
    kc_chan_after_t after = { NULL, NULL };

    if (kc_unlikely(!kc__object_is(c, KC_CHAN_MAGIC)))
        return not_a_channel(c, op, deadline);
    if (kc_unlikely(!kc__chan_has_item(c, op, item)))
        return -EINVAL;
    int rc = kc__job_check_cancel(co);
    if (kc_unlikely(rc != 0))
        return rc;
    for (;;) {
        kc__chan_lock(c);
        rc = pass(t, c, op, item, &after, false);
        if (rc == -EAGAIN)
            return enqueue_and_wait(t, co, c, op, item, deadline, true);
        kc__chan_unlock(c);
        if (kc_likely(rc == 0))
            return conclude(t, co, c, op, &after, false);
        if (rc != -ENOMEM || kc__chan_grow(c) != 0)
            return kc__chan_result(c, rc);
    }
}

static KC_NOINLINE int transfer_by_thread(kc_thread_t *t, kc_chan_t *c, int op, void *item,
                                          kc_time_t deadline)
{
    return transfer_by(t, NULL, c, op, item, deadline);
}

KC_INLINE int transfer_slow(kc_chan_t *c, int op, void *item, kc_time_t deadline)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);

    return kc_unlikely(!co) ? transfer_by_thread(t, c, op, item, deadline)
                            : transfer_by(t, co, c, op, item, deadline);
}

static KC_NOINLINE KC_AFTER_SWITCH int send_slow(kc_chan_t *c, const void *item,
                                                 kc_time_t deadline)
{
    return transfer_slow(c, KC_SEND, (void *)(uintptr_t)item, deadline);
}

static KC_NOINLINE KC_AFTER_SWITCH int recv_slow(kc_chan_t *c, void *item, kc_time_t deadline)
{
    return transfer_slow(c, KC_RECV, item, deadline);
}

/* ---- the fast path: the same, in the circumstances of most calls ----------------------------- */

/* With the lock, in a plain body. Apart, so that the fast path needs no frame. */
static KC_NOINLINE KC_AFTER_SWITCH int wait_to_send(kc_thread_t *t, kc_chan_t *c, void *item)
{
    return enqueue_and_wait(t, t->current, c, KC_SEND, item, KC_FOREVER, false);
}

static KC_NOINLINE KC_AFTER_SWITCH int wait_to_receive(kc_thread_t *t, kc_chan_t *c, void *item)
{
    return enqueue_and_wait(t, t->current, c, KC_RECV, item, KC_FOREVER, false);
}

/* Without the lock: the other side is of another thread. */
static KC_NOINLINE int conclude_there(kc_thread_t *t, kc_chan_t *c, int op, kc_wait_t *woken)
{
    return conclude(t, t->current, c, op, &(kc_chan_after_t){ woken, NULL }, false);
}

/* There is an item, and the caller is a plain body that is not cancelled. */
KC_INLINE bool is_ordinary(const kcoro_t *co, const kc_chan_t *c, int op, const void *item)
{
    return kc_likely(kc_load_relaxed(&co->block.flags) == KC_CORO_TASK) &&
           kc_likely(kc__chan_has_item(c, op, item)) &&
           kc_likely(!kc__job_is_stopped(kc__job_of(co->task)));
}

/*
 * Of a plain channel. What is not ordinary goes the slow way before anything has changed: if the
 * lock is not free, too. So does what cannot be done, which changes nothing either.
 */
KC_INLINE int transfer_fast(kc_chan_t *c, int op, void *item)
{
    kc_thread_t *t = kc__thread();
    kc_chan_after_t after = { NULL, NULL };

    if (kc__object_is(c, KC_CHAN_MAGIC) && is_ordinary(t->current, c, op, item) &&
        kc_likely(kc__spin_trylock_untold(&c->lock))) {
        int rc = pass(t, c, op, item, &after, true);
        if (rc == -EAGAIN)
            return op == KC_SEND ? wait_to_send(t, c, item) : wait_to_receive(t, c, item);
        kc__chan_unlock_untold(c);
        if (kc_likely(rc == 0))
            return kc_likely(!after.woken || kc__wait_is_here(t, after.woken))
                       ? conclude(t, NULL, c, op, &after, true)
                       : conclude_there(t, c, op, after.woken);
    }
    return op == KC_SEND ? send_slow(c, item, KC_FOREVER) : recv_slow(c, item, KC_FOREVER);
}

int kc_chan_send(kc_chan_t *c, const void *item)
{
    if (kc_unlikely(!c || !c->plain))
        return send_slow(c, item, KC_FOREVER);
    return transfer_fast(c, KC_SEND, (void *)(uintptr_t)item);
}

int kc_chan_send_until(kc_chan_t *c, const void *item, kc_time_t deadline)
{
    return send_slow(c, item, deadline);
}

int kc_chan_recv(kc_chan_t *c, void *item)
{
    if (kc_unlikely(!c || !c->plain))
        return recv_slow(c, item, KC_FOREVER);
    return transfer_fast(c, KC_RECV, item);
}

int kc_chan_recv_until(kc_chan_t *c, void *item, kc_time_t deadline)
{
    return recv_slow(c, item, deadline);
}

static int try(kc_chan_t *c, int op, void *item, const char *call)
{
    kc_chan_after_t after = { NULL, NULL };
    int rc;

    if (!c)
        return -EINVAL;
    kc__chan_check(c, call);
    if (!kc__chan_has_item(c, op, item))
        return -EINVAL;
    do {
        kc__chan_lock(c);
        rc = kc__chan_try(c, op, item, &after);
        kc__chan_unlock(c);
    } while (rc == -ENOMEM && kc__chan_grow(c) == 0);
    kc__chan_after(c, &after);
    return kc__chan_result(c, rc);
}

int kc_chan_try_send(kc_chan_t *c, const void *item)
{
    return try(c, KC_SEND, (void *)(uintptr_t)item, "kc_chan_try_send");
}

int kc_chan_try_recv(kc_chan_t *c, void *item)
{
    return try(c, KC_RECV, item, "kc_chan_try_recv");
}

/* ---- close ---------------------------------------------------------------------------------- */

/* With the lock: all in a queue hear that it is closed. As kc__wait_append. */
static kc_link_t **turn_away(kc_link_t **queue, int cause, kc_link_t **end)
{
    const kc_thread_t *t = kc__thread();
    kc_chan_waiter_t *waiter;

    while ((waiter = claim_first(t, queue)) != NULL) {
        waiter->rc = cause;
        end = kc__wait_append(end, waiter->wait);
    }
    return end;
}

static void close_with(kc_chan_t *c, int cause)
{
    kc_link_t *claimed = NULL;

    kc__chan_lock(c);
    if (!c->closed) { /* else nobody waits there */
        c->closed = true;
        c->cause = cause;
        turn_away(&c->senders, cause, turn_away(&c->receivers, cause, &claimed));
    }
    kc__chan_unlock(c);
    kc__wait_wake_all(claimed);
}

void kc_chan_close(kc_chan_t *c)
{
    kc__chan_check(c, "kc_chan_close");
    close_with(c, -EPIPE);
}

void kc_chan_close_with(kc_chan_t *c, int cause)
{
    kc__chan_check(c, "kc_chan_close_with");
    if (cause >= 0)
        kc__usage("kc_chan_close_with", "the cause is not negative " KC_RULE("H5"));
    close_with(c, cause);
}

int kc_chan_cause(const kc_chan_t *c)
{
    if (!c)
        return -EINVAL;
    kc__chan_check(c, "kc_chan_cause");
    kc_chan_t *mine = (kc_chan_t *)(uintptr_t)c;
    kc__chan_lock(mine);
    int cause = mine->cause;
    kc__chan_unlock(mine);
    return cause;
}
