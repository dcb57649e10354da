/* SPDX-License-Identifier: MIT */
/*
 * next.h - which coroutine runs next on a thread: what every turn does.
 */
#ifndef KC_SCHED_NEXT_H
#define KC_SCHED_NEXT_H

#include "sched/no_stack.h"
#include "sched/spread.h"
#include "sched/worker.h"

#include <errno.h>

enum {
    KC_NEXT_UNSTARTED_EVERY = 8, /* turns: one that begins with what has not started */
    KC_NEXT_YIELD_EVERY =
        2, /* ... of those that begin with a yield: who yields means that too (S7) */
    KC_NEXT_OLDEST_EVERY = 16,
    KC_NEXT_HERE = 32,   /* coroutines that lie in the nearest cache, as is assumed */
    KC_NEXT_NEAR = 2048, /* ... in some cache */
    KC_NEXT_FETCHED = 6, /* cache lines of a stack */
};

/* What the next turns need is fetched now: the stack and the job of the next one, and its
 * successor's control block. Long queues lie in no cache: of those all that a body touches which
 * waits and goes on, as far as it can be known. */
KC_INLINE void kc__next_fetch_ahead(const kc_mpsc_node_t *next, bool is_long)
{
    const kcoro_t *co = kc_container_of(kc_container_of(next, kc_block_t, link), kcoro_t, block);
    const char *sp = co->sp;
    const void *job = co->task, *after = next->next;

    __builtin_prefetch(sp);
    __builtin_prefetch(job);
    if (after)
        __builtin_prefetch(after);
    if (kc_likely(!is_long))
        return;
    for (size_t i = 1; i < KC_NEXT_FETCHED; i++)
        __builtin_prefetch(sp + i * KC_CACHE_LINE);
    __builtin_prefetch(kc__next_line(job));
    __builtin_prefetch(kc__next_line(after));
}

KC_INLINE kcoro_t *kc__next_pop_ready(kc_worker_t *w)
{
    kc_block_t *block = kc__queue_pop(&w->ready);

    if (!block)
        return NULL;
    if (w->ready.count > KC_NEXT_HERE)
        kc__next_fetch_ahead(w->ready.head, w->ready.count > KC_NEXT_NEAR);
    return kc_container_of(block, kcoro_t, block);
}

/* Starts a task. NULL: it has ended unstarted, or there was no stack for it (no_stack.c). */
KC_INLINE kcoro_t *kc__next_start(kc_worker_t *w, kc_task_t *task)
{
    kc_store_relaxed(&task->worker, w);
    int rc = kc__task_hooks.start(task);
    if (kc_likely(rc == 0))
        return task->co;
    kc__worker_forget(w, task);
    if (rc == -EBUSY) {
        kc__queue_push_front(&w->unstarted, &task->block); /* it stays the first */
        w->wanted = true;
    } else if (rc != -ECANCELED) {
        kc__worker_no_stack(w, task, rc == -ENOMEM);
    }
    return NULL;
}

/* The oldest task of the deque is due, for a change. If all that has happened to it was that the
 * newest ones were taken, then its turn comes anyway: as long as nobody adds any, they start in
 * order, each beside its neighbour in memory. */
KC_INLINE bool kc__next_check_oldest(kc_worker_t *w)
{
    int64_t now = kc__deque_bottom(&w->deque);
    bool due = w->bottom - now < KC_NEXT_OLDEST_EVERY;

    w->bottom = now + due; /* then this one is not taken from there */
    return due;
}

/* Takes out a task that has not started. NULL: there is none. */
KC_INLINE kc_task_t *kc__next_pop_unstarted(kc_worker_t *w)
{
    void *any = NULL;

    if (w->works && ++w->starts % KC_NEXT_OLDEST_EVERY == 0 && kc__next_check_oldest(w) &&
        kc__deque_steal(&w->deque, &any) == KC_STEAL_GOT)
        return w->alone ? any : kc__spread(w, any);
    kc_block_t *block = kc__queue_pop(&w->unstarted);
    if (block) {
        const void *next = w->unstarted.head; /* of very many, none is in the cache */
        __builtin_prefetch(next, 1);
        __builtin_prefetch(kc__next_line(next), 1);
        return kc_container_of(block, kc_task_t, block);
    }
    if (kc_likely(w->alone))
        return kc__deque_pop_alone(&w->deque);
    any = w->works ? kc__deque_pop(&w->deque) : NULL;
    return kc_likely(kc__worker_live(w) < KC_SPREAD_FEW) ? any : kc__spread(w, any);
}

/* Nothing has come in, and there is nothing of this kind to be thought of: one branch. */
KC_INLINE bool kc__next_is_quiet(const kc_worker_t *w, uint32_t mode)
{
    uintptr_t come = (uintptr_t)kc_load_relaxed(&w->inbox.head);

    return kc_likely((come | (kc__worker_mode(w) & mode)) == 0);
}

/* There is a task that this thread may start, in its own queues or in the injector. */
KC_INLINE bool kc__next_can_start(const kc_worker_t *w)
{
    return kc__worker_has_unstarted(w) || (w->works && !kc__mpsc_is_empty(&w->sched->injector));
}

/* This turn, the next one, is one like most: there is nothing to be looked at but who is ready.
 * mode: what would have to be thought of; every: which turns begin with what has not started. Those
 * that look at everything are among them. */
KC_INLINE bool kc__next_is_turn_without(const kc_worker_t *w, uint64_t turn, uint32_t mode,
                                        uint64_t every)
{
    bool other = turn % every == 0 &&
                 (kc_unlikely(turn % KC_LOOK_EVERY == 0) || kc_unlikely(kc__next_can_start(w)));

    return kc_likely(!other) && kc__next_is_quiet(w, mode) &&
           kc_likely(!kc__worker_is_timer_due(w, turn));
}

KC_INLINE bool kc__next_is_plain_turn(const kc_worker_t *w, uint64_t turn, uint64_t every)
{
    return kc__next_is_turn_without(
        w, turn, KC_MODE_ORACLE | KC_MODE_FORKED | KC_MODE_OFFERS | KC_MODE_ASKED, every);
}

/* When there is more to it than to take the next one. */
kcoro_t *kc__next_slow(kc_worker_t *w, uint64_t every);

/* The next coroutine that may run here; NULL: none. */
KC_INLINE kcoro_t *kc__next(kc_worker_t *w, uint64_t every)
{
    bool plain = w->ready.head && kc__next_is_plain_turn(w, kc__worker_next_turn(w), every);

    return plain ? kc__next_pop_ready(w) : kc__next_slow(w, every);
}

/* Whom to switch to for a coroutine from the ready queue: itself, or the coroutine inside it that
 * waits. Then it is CALLING. */
KC_INLINE kcoro_t *kc__next_entry_of(kcoro_t *co)
{
    return kc_unlikely(kc_load_relaxed(&co->state) == KC_CORO_CALLING) ? co->inner : co;
}

#endif
