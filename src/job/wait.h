/* SPDX-License-Identifier: MIT */
/*
 * wait.h - the one way to wait: who waits for what, and who has ended it.
 *
 *     kc_wait_t w;
 *     int rc = kc__wait_begin(&w, KC_WAIT_MUTEX, mutex);  -ECANCELED: the caller must not wait
 *     ... publish &w in the queue of what it waits for, under its lock
 *     rc = kc__wait_commit(&w, deadline);                 what the claimer said; -ECANCELED;
 *                                                         -ETIMEDOUT
 *     ... not claimed by the owner of the queue: take &w out of the queue, under its lock
 *
 * and whoever ends it, under that lock:
 *
 *     if (kc__wait_claim(w, rc)) ... take it out of the queue; unlock; kc__wait_wake(w);
 *
 * ORDER    id      site          operation    pairs with      carries
 *          wait.1  claim of co,  cas_acq_rel  wait.1, wait.5  exactly one claims, see wait.c
 *                  word
 */
#ifndef KC_JOB_WAIT_H
#define KC_JOB_WAIT_H

#include "coro/switch.h"
#include "sched/leave.h"
#include "sched/worker.h"

#include <errno.h>

/* What a job waits for, as the dump calls it. */
typedef enum {
    KC_WAIT_NONE,
    KC_WAIT_SLEEP,
    KC_WAIT_FOREVER, /* a sleep that only a cancel ends: there is no timer */
    KC_WAIT_PARK,
    KC_WAIT_JOIN,
    KC_WAIT_CHILDREN, /* its own, at the end of a scope or body */
    KC_WAIT_SCOPE,    /* nothing: its body is inside a scope, whose job tells more */
    KC_WAIT_MUTEX,
    KC_WAIT_READ, /* a reader-writer lock, to read */
    KC_WAIT_WRITE,
    KC_WAIT_COND,
    KC_WAIT_SEM,
    KC_WAIT_LATCH,
    KC_WAIT_EVENT,
    KC_WAIT_ONCE,
    KC_WAIT_BARRIER,
    KC_WAIT_SEND,
    KC_WAIT_RECV,
    KC_WAIT_SELECT,
    KC_WAIT_BROADCAST,
    KC_WAIT_JOIN_ANY,
    KC_WAIT_SUSPEND, /* one of the user's own; object: its waker, see suspend.c */
    KC_WAIT_STANDIN, /* not of a body: it stands in a queue for another wait, see join_any.c */
    KC_WAIT_KINDS
} kc_wait_kind_t;

const char *kc__wait_name(kc_wait_kind_t kind);
const char *kc__wait_call(kc_wait_kind_t kind); /* the function by which one waits for it */

/* A place in a ring, whose first is the oldest. next is NULL: in none. */
typedef struct kc_link {
    struct kc_link *next, *prev;
} kc_link_t;

typedef struct kc_wait {
    KC_ATOMIC(uint32_t) word; /* A  a plain thread: 0: waits; 1: claimed; KC_DONE: goes on  */
    int rc;                   /* >(wait.1) the claimer's, but for KC_CLAIM_CANCELLED        */
    kcoro_t *co;              /* I  the job's coroutine; NULL: a plain thread               */
    kc_worker_t *worker;      /* I  its thread; NULL: a plain thread that only waits        */
    const void *object;       /* I  for reports                                             */
    kc_wait_kind_t kind;      /* I                                                          */
    int timed_out;            /* I  what rc is when its time has come                       */
    kc_worker_t *waker;       /* >(wait.1) of one that migrates: the thread that woke it  */
    kc_timed_call_t timed;    /* O                                                          */
    kc_link_t link;           /* L  in the queue of what it waits for; then in a list of claimed */
} kc_wait_t;

KC_INLINE kc_wait_t *kc__wait_of(kc_link_t *link)
{
    return kc_container_of(link, kc_wait_t, link);
}

/* The caller, whose coroutine is co, may wait. In a handler it may not: aborts, and names call.
 * The handler may be one of a coroutine that is no plain body: then a closer look is needed. */
KC_COLD void kc__wait_check_more(const char *call);

KC_INLINE void kc__wait_check(const kcoro_t *co, const char *call)
{
    if (kc_unlikely(kc_load_relaxed(&co->block.flags) != KC_CORO_TASK))
        kc__wait_check_more(call);
}

/* A wait of the caller. -ECANCELED: its job is effectively cancelled (or does not return). */
int kc__wait_begin(kc_wait_t *w, kc_wait_kind_t kind, const void *object);

/* As kc__wait_wake, by one who has brought w what it has waited for: if w is of the caller's
 * thread, it goes on at once, and the caller behind all others. co: the caller's job's coroutine;
 * NULL: it has none. */
void kc__wait_hand_over(kc_thread_t *t, kcoro_t *co, kc_wait_t *w);

/* The caller has done something that often waits, without waiting: now and then others run. 0: so
 * that the caller can end with it. */
KC_COLD int kc__wait_let_others(kc_thread_t *t, kcoro_t *co);

KC_INLINE int kc__wait_spend_in_body(kc_thread_t *t)
{
    return kc_unlikely(--t->worker->budget == 0) ? kc__wait_let_others(t, t->current) : 0;
}

KC_INLINE int kc__wait_spend(kc_thread_t *t, kcoro_t *co)
{
    return kc_likely(co != NULL) && kc_unlikely(--t->worker->budget == 0)
               ? kc__wait_let_others(t, co)
               : 0;
}

/* As kc_task_hooks.move and joins (task.h) say. */
bool kc__wait_move(kcoro_t *co, kc_worker_t *to);
bool kc__wait_is_join(const kcoro_t *co);

/* On its thread: the job of this task, whose body waits, is cancelled. */
void kc__wait_cancel(kc_task_t *task);

/* ---- what is called for every wait ---------------------------------------------------------- */

/* It is one of a coroutine of this thread t. */
KC_INLINE bool kc__wait_is_here(const kc_thread_t *t, const kc_wait_t *w)
{
    return w->co && w->worker == t->worker;
}

/* A plain thread, or a coroutine of another thread, goes on. */
void kc__wait_wake_other(kc_wait_t *w);

/* A plain thread waits: blocks, or pumps the scheduler that it has made. */
int kc__wait_as_thread(kc_wait_t *w, kc_time_t deadline);

/* It ends at deadline. */
void kc__wait_arm(kc_wait_t *w, kc_time_t deadline);

#if defined(KC_MODEL) && !defined(KC_MODEL_WAITS) /* most models have their own, and keep books */
void kc__wait_begin_checked(kc_wait_t *w, kc_wait_kind_t kind, const void *object);
void kc__wait_begin_uncancellable(kc_wait_t *w, kc_wait_kind_t kind, const void *object);
int kc__wait_commit(kc_wait_t *w, kc_time_t deadline);
bool kc__wait_claim(kc_wait_t *w, int rc);
bool kc__wait_claim_own(kc_wait_t *w, int rc);
void kc__wait_wake(kc_wait_t *w);
void kc__wait_link(kc_link_t **ring, kc_link_t *l);
void kc__wait_unlink(kc_link_t **ring, kc_link_t *l);

KC_INLINE bool kc__wait_claim_here(kc_wait_t *w, int rc)
{
    return kc__wait_claim_own(w, rc);
}

KC_INLINE bool kc__wait_is_open(const kc_wait_t *w)
{
    return kc_load_relaxed(&w->word) == 0;
}

KC_INLINE void kc__wait_begin_on(kc_thread_t *t, kcoro_t *co, kc_wait_t *w, kc_wait_kind_t kind,
                                 const void *object)
{
    (void)t, (void)co;
    kc__wait_begin_checked(w, kind, object);
}

KC_INLINE int kc__wait_commit_on(kc_thread_t *t, kcoro_t *co, kc_wait_t *w, kc_time_t deadline)
{
    (void)t, (void)co;
    return kc__wait_commit(w, deadline);
}

KC_INLINE bool kc__wait_claim_own_on(const kc_thread_t *t, kc_wait_t *w, int rc)
{
    (void)t;
    return kc__wait_claim_own(w, rc);
}

KC_INLINE void kc__wait_wake_on(const kc_thread_t *t, kc_wait_t *w)
{
    (void)t;
    kc__wait_wake(w);
}
#else

/* A wait of the caller, whose job's coroutine is co; NULL: it has none. */
KC_INLINE void kc__wait_init(kc_wait_t *w, kc_thread_t *t, kcoro_t *co, kc_wait_kind_t kind,
                             const void *object, uint32_t claim)
{
    if (kc_likely(co != NULL))
        kc_store_relaxed(&co->claim, claim);
    else
        kc_store_relaxed(&w->word, 0);
    w->co = co;
    w->worker = co || t->current == t->main_co ? t->worker : NULL;
    w->object = object;
    w->kind = kind;
    w->timed_out = -ETIMEDOUT;
    w->waker = NULL;
    w->timed.timer.where = NULL;
    w->link.next = NULL;
}

/* As kc__wait_begin, by one who knows already that it is not cancelled. */
KC_INLINE void kc__wait_begin_checked(kc_wait_t *w, kc_wait_kind_t kind, const void *object)
{
    kc_thread_t *t = kc__thread();

    kc__wait_init(w, t, kc__task_coroutine(t->current), kind, object, KC_CLAIM_OPEN);
}

/* The same, on this thread t, where the job's coroutine is co; NULL: the caller is none. */
KC_INLINE void kc__wait_begin_on(kc_thread_t *t, kcoro_t *co, kc_wait_t *w, kc_wait_kind_t kind,
                                 const void *object)
{
    kc__wait_init(w, t, co, kind, object, KC_CLAIM_OPEN);
}

/* As kc__wait_begin_checked, where cancellation does not count. */
KC_INLINE void kc__wait_begin_uncancellable(kc_wait_t *w, kc_wait_kind_t kind, const void *object)
{
    kc_thread_t *t = kc__thread();

    kc__wait_init(w, t, kc__task_coroutine(t->current), kind, object, KC_CLAIM_UNCANCELLABLE);
}

/*
 * Waits, on this thread t, where the job's coroutine is co, until it is claimed, at most until
 * deadline. co is NULL: the caller is none.
 *
 * Compiled into its callers: each return after a switch is mispredicted (docs/design/switch.md), so
 * there should be few.
 */
KC_INLINE int kc__wait_commit_on(kc_thread_t *t, kcoro_t *co, kc_wait_t *w, kc_time_t deadline)
{
    if (kc_unlikely(kc_load_relaxed(&t->current->block.flags) != KC_CORO_TASK))
        kc__wait_check_more(kc__wait_call(w->kind));
    if (kc_unlikely(!co))
        return kc__wait_as_thread(w, deadline);
    kc_task_t *task = co->task;
    if (task->wait != w) /* who drains has published it already */
        task->wait = w;
    kc_store_relaxed(&task->kind, (uint8_t)w->kind);
    kc__worker_count(t->worker, KC_COUNT_PARKS);
    if (kc_unlikely(deadline != KC_FOREVER))
        kc__wait_arm(w, deadline);
    t->left_from = __builtin_return_address(0);
    kc__worker_leave(t, co);
    task->wait = NULL;
    kc_store_relaxed(&task->kind, KC_WAIT_NONE);
    if (kc_unlikely(kc__timer_is_pending(&w->timed.timer)))
        kc__timers_remove(&w->worker->timers, &w->timed.timer);
    return kc_unlikely(kc_load_relaxed(&co->claim) == KC_CLAIM_CANCELLED) ? -ECANCELED : w->rc;
}

KC_INLINE int kc__wait_commit(kc_wait_t *w, kc_time_t deadline)
{
    return kc__wait_commit_on(kc__thread(), w->co, w, deadline);
}

/* Nobody has claimed it yet, as it looks. */
KC_INLINE bool kc__wait_is_open(const kc_wait_t *w)
{
    return kc_likely(w->co != NULL) ? kc_load_relaxed(&w->co->claim) >= KC_CLAIM_UNCANCELLABLE
                                    : kc_load_relaxed(&w->word) == 0;
}

/* True: the caller is the one who ends this wait, with this result. */
KC_INLINE bool kc__wait_claim(kc_wait_t *w, int rc)
{
    kcoro_t *co = w->co;
    uint32_t seen = co ? kc_load_relaxed(&co->claim) : 0;

    if (kc_likely(co != NULL) ? seen < KC_CLAIM_UNCANCELLABLE ||
                                    !kc_cas_acq_rel(&co->claim, &seen, KC_CLAIM_TAKEN) /* wait.1 */
                              : !kc_cas_acq_rel(&w->word, &seen, 1))                   /* wait.1 */
        return false;
    w->rc = rc;
    return true;
}

/* The same by the only one beside the wait's own thread that can claim it: the owner of the one
 * queue it is in, under the lock of that. Here: on that thread, where it needs no locked operation;
 * it is a coroutine's. */
KC_INLINE bool kc__wait_claim_here(kc_wait_t *w, int rc)
{
    if (kc_load_relaxed(&w->co->claim) < KC_CLAIM_UNCANCELLABLE)
        return false;
    kc_store_relaxed(&w->co->claim, KC_CLAIM_TAKEN);
    w->rc = rc;
    return true;
}

/* The same on any thread, which is t. */
KC_INLINE bool kc__wait_claim_own_on(const kc_thread_t *t, kc_wait_t *w, int rc)
{
    return kc__wait_is_here(t, w) ? kc__wait_claim_here(w, rc) : kc__wait_claim(w, rc);
}

KC_INLINE bool kc__wait_claim_own(kc_wait_t *w, int rc)
{
    return kc__wait_claim_own_on(kc__thread(), w, rc);
}

/* After a claim, on thread t: it goes on. w may be gone when this returns. */
KC_INLINE void kc__wait_wake_on(const kc_thread_t *t, kc_wait_t *w)
{
    if (kc_likely(kc__wait_is_here(t, w)))
        kc__worker_ready(t->worker, w->co);
    else
        kc__wait_wake_other(w);
}

KC_INLINE void kc__wait_wake(kc_wait_t *w)
{
    kc__wait_wake_on(kc__thread(), w);
}

/* Puts one behind the others of a ring, and takes one out, if it is in it. */
KC_INLINE void kc__wait_link(kc_link_t **ring, kc_link_t *l)
{
    kc_link_t *first = *ring;

    if (kc_likely(!first)) {
        *ring = l->next = l->prev = l;
        return;
    }
    l->next = first;
    l->prev = first->prev;
    first->prev->next = l;
    first->prev = l;
}

KC_INLINE void kc__wait_unlink(kc_link_t **ring, kc_link_t *l)
{
    if (!l->next)
        return;
    if (l->next == l) {
        *ring = NULL;
    } else {
        l->prev->next = l->next;
        l->next->prev = l->prev;
        if (*ring == l)
            *ring = l->next;
    }
    l->next = NULL;
}

#endif

/* What a ring may be, as far as that is seen at its ends. */
KC_INLINE bool kc__wait_ring_is_legal(const kc_link_t *first)
{
    const kc_link_t *next = first ? first->next : NULL, *last = first ? first->prev : NULL;

    return !first || (next && last && next->prev == first && last->next == first);
}

/*
 * Those who are claimed under a lock and woken without it, in the order in which they came: a list
 * linked by next, which is NULL in all that are in no ring. Appends one; returns the new end.
 */
KC_INLINE kc_link_t **kc__wait_append(kc_link_t **end, kc_wait_t *w)
{
    *end = &w->link;
    return &w->link.next;
}

KC_INLINE void kc__wait_wake_all(kc_link_t *claimed)
{
    while (claimed) {
        kc_wait_t *w = kc__wait_of(claimed);
        claimed = claimed->next;
        kc__wait_wake(w);
    }
}

#endif
