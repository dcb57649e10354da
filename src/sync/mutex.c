/* SPDX-License-Identifier: MIT */
/*
 * mutex.c - the mutex, and the condition that goes with it.
 *
 * SHAPE    word   0                            free, and nobody in queue
 *                 owner                        taken
 *                 owner | WAITS                taken, and unlock gives it to the first in queue
 *
 *          free --lock--> owner --unlock--> free, or the owner is the first in queue
 *
 * RULES    R1 it is never free while somebody waits in the queue: a new one cannot overtake.
 *
 * WHY NOT  Let a running coroutine take it before the woken one has got up: that is faster when
 *          many threads want it all the time, and lets one of them starve (Y1).
 */
#include "job/body.h"
#include "job/held.h"
#include "sync/wait_queue.h"

#include <kcoro/sync.h>

#include <errno.h>

enum { MOMENT = 64 }; /* looks at a lock that is taken before one waits in the queue */

_Static_assert(sizeof(kc_wait_queue_t) == offsetof(kc_mutex_t, name),
               "a mutex begins with its queue");
_Static_assert(sizeof(kc_wait_queue_t) == sizeof(kc_cond_t), "a condition is a queue");

static kc_wait_queue_t *queue_of(kc_mutex_t *m, const char *call)
{
    if (kc_unlikely(!m))
        kc__usage(call, "the mutex is NULL");
    return (kc_wait_queue_t *)m;
}

/* ---- who owns ------------------------------------------------------------------------------- */

uint64_t kc__owner_self(kc_thread_t *t, kcoro_t *co)
{
    uint64_t self = (uintptr_t)co;

    if (!co)
        self = t->current != t->main_co ? (uintptr_t)t->current : (uintptr_t)kc__thread_mark();
    KC_ASSERT((self & KC_OWNER_BITS) == 0);
    return self;
}

/* ---- lock ----------------------------------------------------------------------------------- */

/* The owner is a coroutine that another thread of our scheduler runs just now. */
static bool is_owner_running(uint64_t owner)
{
    const kc_worker_t *me = kc__worker();
    const kc_sched_t *s = me ? me->sched : NULL;

    for (int i = 0; s && i <= s->workers; i++) {
        const kc_worker_t *w = i < s->workers ? s->worker[i] : s->main;
        if (w != me && (uintptr_t)kc_load_relaxed(&w->running) == owner)
            return true;
    }
    return false;
}

/*
 * Most locks are held for a moment. If whoever has it runs, and nobody waits in the queue, that
 * moment is waited for: to wait in the queue would cost two switches here, a wake-up there and the
 * way between the threads. True: taken.
 */
static bool wait_a_moment(kc_wait_queue_t *l, uint64_t self)
{
    uint64_t seen = kc_load_relaxed(&l->word);

    for (int i = 0;
         i < MOMENT && !(seen & KC_WAIT_QUEUE_BUSY) && (i % 8 != 0 || is_owner_running(seen));
         i++) {
        kc__relax();
        seen = kc_load_relaxed(&l->word);
        if (seen == 0 && kc__wait_queue_step(l, &seen, self))
            return true;
    }
    return false;
}

/* It is not free, or was not a moment ago. w says who asks, and whether it may be cancelled. */
static KC_NOINLINE KC_AFTER_SWITCH int lock_slow(kc_wait_queue_t *l, kc_owner_wait_t *w,
                                                 kc_time_t deadline)
{
    if (wait_a_moment(l, w->owner))
        return 0;
    uint64_t owner = kc__wait_queue_lock(l);

    KC_CHECK(owner || !l->first); /* R1 */
    if (owner == 0 || owner == w->owner) {
        kc__wait_queue_unlock(l, w->owner);
        return owner ? -EDEADLK : 0;
    }
    int rc = kc__wait_queue_wait(l, owner, &w->wait, deadline);
    if (kc_unlikely(rc != 0))
        kc__wait_queue_unlock(l, kc__wait_queue_leave(l, &w->wait));
    return rc;
}

/* It is free: taken in one step. */
KC_INLINE bool take(kc_wait_queue_t *l, kc_wait_kind_t kind, uint64_t self)
{
    uint64_t seen = 0;

    (void)kind;
    return !kc__tsan() && kc__wait_queue_step_untold(l, &seen, self);
}

static int lock(kc_mutex_t *m, kc_time_t deadline)
{
    return kc__owner_lock((kc_wait_queue_t *)m, KC_WAIT_MUTEX, deadline, take, lock_slow);
}

int kc_mutex_lock(kc_mutex_t *m)
{
    return lock(m, KC_FOREVER);
}

int kc_mutex_lock_until(kc_mutex_t *m, kc_time_t deadline)
{
    return lock(m, deadline);
}

void kc_mutex_lock_nocancel(kc_mutex_t *m)
{
    kc_wait_queue_t *l = queue_of(m, "kc_mutex_lock_nocancel");
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);
    uint64_t self = kc__owner_self(t, co), seen = 0;

    if (kc_unlikely(!kc__wait_queue_step(l, &seen, self))) {
        kc_owner_wait_t w;
        w.owner = self;
        kc__wait_begin_uncancellable(&w.wait, KC_WAIT_MUTEX, m);
        if (lock_slow(l, &w, KC_FOREVER) != 0)
            kc__usage("kc_mutex_lock_nocancel", "the caller owns it already " KC_RULE("Y3"));
    }
    kc__owner_count(co, 1, KC_WAIT_MUTEX, l);
}

static bool mutex_try(kc_wait_queue_t *l)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);
    uint64_t self = kc__owner_self(t, co), seen = kc__wait_queue_settled(l);

    while (seen == 0) {
        if (kc__wait_queue_step(l, &seen, self)) {
            kc__owner_count(co, 1, KC_WAIT_MUTEX, l);
            return true;
        }
        seen = kc__wait_queue_settled(l); /* who had the lock may have found it free */
    }
    return false;
}

bool kc_mutex_try_lock(kc_mutex_t *m)
{
    return mutex_try(queue_of(m, "kc_mutex_try_lock"));
}

bool kc_mutex_trylock(kc_mutex_t *m)
{
    return mutex_try(queue_of(m, "kc_mutex_trylock"));
}

/* ---- unlock --------------------------------------------------------------------------------- */

/* Somebody waits in the queue, or just came or went. */
static KC_NOINLINE void unlock_slow(kc_wait_queue_t *l)
{
    kc__wait_queue_lock(l);
    kc_wait_t *w = kc__wait_queue_take(l);
    kc__wait_queue_unlock(l, w ? kc_container_of(w, kc_owner_wait_t, wait)->owner : 0);
    if (w)
        kc__wait_wake(w);
}

/* The same where somebody wants to know which locks a body holds. Apart, so that the others need
 * not save registers for it. */
static KC_COLD void unlock_named(kc_wait_queue_t *l, uint64_t self, kcoro_t *co)
{
    uint64_t seen = self;

    kc__held_change(co, KC_WAIT_MUTEX, l, -1);
    if (!kc__wait_queue_step(l, &seen, 0))
        unlock_slow(l);
}

static void unlock(kc_wait_queue_t *l, uint64_t self, kcoro_t *co)
{
    uint64_t seen = self;

    if (kc_unlikely(!kc__owner_count_only(co, -1))) {
        unlock_named(l, self, co);
        return;
    }
    if (kc__tsan() || kc_unlikely(!kc__wait_queue_step_untold(l, &seen, 0)))
        unlock_slow(l);
}

/* The caller owns it. */
static bool is_owner(kc_wait_queue_t *l, uint64_t self)
{
    return (kc_load_relaxed(&l->word) & ~KC_WAIT_QUEUE_BUSY) == self;
}

void kc_mutex_unlock(kc_mutex_t *m)
{
    kc_wait_queue_t *l = queue_of(m, "kc_mutex_unlock");
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);
    uint64_t self = kc__owner_self(t, co);

    if (kc_unlikely(!is_owner(l, self)))
        kc__usage("kc_mutex_unlock", "the caller does not own it " KC_RULE("Y3"));
    unlock(l, self, co);
}

uint64_t kc__mutex_owner(const void *m)
{
    return kc__wait_queue_look(m) & ~KC_WAIT_QUEUE_BUSY;
}

/* ---- condition ------------------------------------------------------------------------------ */

KC_INLINE int cond_wait(kc_cond_t *c, kc_mutex_t *m, kc_time_t deadline)
{
    kc_wait_queue_t *l = (kc_wait_queue_t *)c;
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);
    uint64_t self = kc__owner_self(t, co);
    kc_wait_t w;

    if (!c || !m)
        return -EINVAL;
    if (!is_owner((kc_wait_queue_t *)m, self))
        kc__usage("kc_cond_wait", "the caller does not own the mutex " KC_RULE("Y3"));
    int rc = kc__wait_begin(&w, KC_WAIT_COND, c);
    if (rc < 0)
        return rc;
    uint64_t own = kc__wait_queue_lock(l);
    kc__wait_link(&l->first, &w.link);
    kc__wait_queue_unlock(l, own);
    unlock((kc_wait_queue_t *)m, self,
           co); /* in queue already: a signal from now on is not missed */
    rc = kc__wait_commit(&w, deadline);
    if (rc != 0)
        kc__wait_queue_unlock(l, kc__wait_queue_leave(l, &w));
    kc_mutex_lock_nocancel(m);
    return kc__wait_queue_gave_up(&w, rc);
}

KC_AFTER_SWITCH int kc_cond_wait(kc_cond_t *c, kc_mutex_t *m)
{
    return cond_wait(c, m, KC_FOREVER);
}

KC_AFTER_SWITCH int kc_cond_wait_until(kc_cond_t *c, kc_mutex_t *m, kc_time_t deadline)
{
    return cond_wait(c, m, deadline);
}

static void cond_wake(kc_cond_t *c, uint64_t most, const char *call)
{
    kc_wait_queue_t *l = (kc_wait_queue_t *)c;

    if (kc_unlikely(!c))
        kc__usage(call, "the condition is NULL");
    if (kc__wait_queue_settled(l) == 0)
        return;
    uint64_t own = kc__wait_queue_lock(l);
    kc_link_t *taken = kc__wait_queue_take_some(l, most);
    kc__wait_queue_unlock(l, own);
    kc__wait_wake_all(taken);
}

void kc_cond_signal(kc_cond_t *c)
{
    cond_wake(c, 1, "kc_cond_signal");
}

void kc_cond_broadcast(kc_cond_t *c)
{
    cond_wake(c, UINT64_MAX, "kc_cond_broadcast");
}
