/* SPDX-License-Identifier: MIT */
/*
 * wait_queue.h - a word and those who wait in the queue for it: what every lock and meeting point
 * is made of.
 *
 * WHAT     The upper bits of the word are the object's own: an owner, a count, a flag. The lowest
 *          two say whether somebody is changing the queue, and whether somebody stands in it. What
 *          is free and has no queue is taken and given back by one step; for all else there is the
 *          lock. Who lets somebody pass claims its wait (wait.h) under the lock, writes the word,
 *          and wakes it: nobody passes but by the word or by a claim, and both are the last that is
 *          done to the object.
 *
 * SHAPE    word    [ the object's own | WAITS | LOCK ]
 *          first   a ring of kc_wait_t, oldest first
 *
 * ORDER    id            site          operation      pairs with     carries; what breaks if weaker
 *          wait_queue.1  lock: word    cas_acq_rel    wait_queue.2,  the queue and all that was
 *                                                     wait_queue.3   done under the lock or before
 *                                                                    the last step
 *          wait_queue.2  unlock: word  store_release  wait_queue.1,  the same
 *                                                     wait_queue.3,
 *                                                     wait_queue.4
 *          wait_queue.3  step: word    cas_acq_rel    wait_queue.1,  what the last owner wrote, for
 *                                                     wait_queue.2,  the next
 *                                                     wait_queue.3
 *          wait_queue.4  look: word    load_acquire   wait_queue.2,  what was done before it let
 *                                                     wait_queue.3   all pass
 *
 * RULES    R1 while LOCK is set nobody else changes the word: so unlock is a store.
 *          R2 WAITS is set exactly if the queue is not empty, whenever LOCK is not set.
 *          R3 the bits of the object's own do not change before the unlock: who looks at them
 *             meanwhile sees what was true before.
 *
 * PROGRESS Steps are lock-free but for R1; a queue is changed in some nanoseconds, during which
 *          nothing suspends.
 */
#ifndef KC_SYNC_WAIT_QUEUE_H
#define KC_SYNC_WAIT_QUEUE_H

#include "base/lock.h"
#include "job/body.h"
#include "job/held.h"
#include "job/job.h"
#include "job/wait.h"

#include <errno.h>

#define KC_WAIT_QUEUE_LOCK 1ull
#define KC_WAIT_QUEUE_WAITS 2ull
#define KC_WAIT_QUEUE_BUSY (KC_WAIT_QUEUE_LOCK | KC_WAIT_QUEUE_WAITS)

/* The head of every public type of kcoro/sync.h. */
typedef struct {
    KC_ATOMIC(uint64_t) word; /* A */
    kc_link_t *first;         /* L */
} __attribute__((may_alias)) kc_wait_queue_t;

/* Takes the lock. Returns the word, without LOCK and WAITS. */
KC_INLINE uint64_t kc__wait_queue_lock(kc_wait_queue_t *l)
{
    uint64_t seen = kc_load_relaxed(&l->word);
    uint32_t looks = 0;

    for (;;) {
        if (kc_unlikely(seen & KC_WAIT_QUEUE_LOCK)) {
            kc__os_back_off(&looks);
            seen = kc_load_relaxed(&l->word);
        } else if (kc_cas_acq_rel(&l->word, &seen, seen | KC_WAIT_QUEUE_LOCK)) { /* wait_queue.1 */
            kc__tsan_acquire(l);
            return seen & ~KC_WAIT_QUEUE_BUSY;
        }
    }
}

/* Somebody has the lock: for checks. */
KC_INLINE bool kc__wait_queue_is_locked(const kc_wait_queue_t *l)
{
    return kc_load_relaxed(&l->word) & KC_WAIT_QUEUE_LOCK;
}

/* With the lock: what it may be when it is given back, with these bits of the object's own; each
 * unlock is checked in debug builds. */
KC_INLINE bool kc__wait_queue_is_legal(const kc_wait_queue_t *l, uint64_t own)
{
    return kc__wait_queue_is_locked(l) && !(own & KC_WAIT_QUEUE_BUSY) &&
           kc__wait_ring_is_legal(l->first);
}

/* Gives it back, and sets the object's own bits. The last access. */
KC_INLINE void kc__wait_queue_unlock(kc_wait_queue_t *l, uint64_t own)
{
    KC_CHECK(kc__wait_queue_is_legal(l, own));
    kc__tsan_release(l);
    kc_store_release(&l->word, own | (l->first ? KC_WAIT_QUEUE_WAITS : 0)); /* wait_queue.2 */
}

/* One step from `seen`, in which nobody has the lock. False: it is *seen now. Where its order is to
 * be told (tsan.h) the caller does all with the lock instead. */
KC_INLINE bool kc__wait_queue_step_untold(kc_wait_queue_t *l, uint64_t *seen, uint64_t word)
{
    uint64_t found = *seen;
    bool done = kc_cas_acq_rel(&l->word, &found, word); /* wait_queue.3 */

    *seen = found;
    return done;
}

/* The same, told. */
KC_INLINE bool kc__wait_queue_step(kc_wait_queue_t *l, uint64_t *seen, uint64_t word)
{
    kc__tsan_release(l);
    bool done = kc__wait_queue_step_untold(l, seen, word);
    kc__tsan_acquire(l);
    return done;
}

/* The word, with what was done before it became so. */
KC_INLINE uint64_t kc__wait_queue_look(const kc_wait_queue_t *l)
{
    uint64_t seen = kc_load_acquire(&l->word); /* wait_queue.4 */

    kc__tsan_acquire(l);
    return seen;
}

/* The word, once nobody has the lock. */
KC_INLINE uint64_t kc__wait_queue_settled(const kc_wait_queue_t *l)
{
    uint32_t looks = 0;
    uint64_t seen;

    while (kc_unlikely((seen = kc__wait_queue_look(l)) & KC_WAIT_QUEUE_LOCK))
        kc__os_back_off(&looks);
    return seen;
}

/* With the lock: waits in queue until claimed, and gives the lock back. What kc__wait_commit
 * returns: unless it is 0, w may still be in queue, and kc__wait_queue_leave must follow. */
KC_INLINE int kc__wait_queue_wait(kc_wait_queue_t *l, uint64_t own, kc_wait_t *w,
                                  kc_time_t deadline)
{
    KC_CHECK(kc__wait_queue_is_locked(l));
    kc__wait_link(&l->first, &w->link);
    kc__wait_queue_unlock(l, own);
    return kc__wait_commit(w, deadline);
}

/* w is taken out of the queue, whose lock the caller has now. Returns as kc__wait_queue_lock. */
KC_INLINE uint64_t kc__wait_queue_leave(kc_wait_queue_t *l, kc_wait_t *w)
{
    uint64_t own = kc__wait_queue_lock(l);

    kc__wait_unlink(&l->first, &w->link);
    return own;
}

/* What a wait that has not been claimed by an owner returns to the user. */
KC_INLINE int kc__wait_queue_gave_up(const kc_wait_t *w, int rc)
{
    return rc == -ECANCELED ? kc__job_cancelled_here(w->co) : rc;
}

/* As kc__wait_queue_wait, where nobody else is concerned if w leaves: what the user gets. */
KC_INLINE int kc__wait_queue_wait_or_leave(kc_wait_queue_t *l, uint64_t own, kc_wait_t *w,
                                           kc_time_t deadline)
{
    int rc = kc__wait_queue_wait(l, own, w, deadline);

    if (kc_likely(rc == 0))
        return 0;
    kc__wait_queue_unlock(l, kc__wait_queue_leave(l, w));
    return kc__wait_queue_gave_up(w, rc);
}

/* With the lock: the first in queue is claimed and out of it. NULL: the queue is empty. */
KC_INLINE kc_wait_t *kc__wait_queue_take(kc_wait_queue_t *l)
{
    KC_CHECK(kc__wait_queue_is_locked(l));
    while (l->first) {
        kc_wait_t *w = kc__wait_of(l->first);
        kc__wait_unlink(&l->first, &w->link);
        if (kc_likely(kc__wait_claim_own(w, 0)))
            return w;
    }
    return NULL;
}

/* With the lock: the first `most` in queue, claimed and out of it: a list for kc__wait_wake_all. */
KC_INLINE kc_link_t *kc__wait_queue_take_some(kc_wait_queue_t *l, uint64_t most)
{
    kc_link_t *taken = NULL, **end = &taken;

    for (kc_wait_t *w; most > 0 && (w = kc__wait_queue_take(l)) != NULL; most--) {
        end = kc__wait_append(end, w);
    }
    return taken;
}

/* Who has it, for reports: 0 if nobody. How many have it to read. */
uint64_t kc__mutex_owner(const void *m);
uint64_t kc__rwlock_writer(const void *l);
uint64_t kc__rwlock_readers(const void *l);
uint64_t kc__once_runner(const void *o);

/* ---- who owns a lock ------------------------------------------------------------------------ */

/* The lowest bits of an owner are 0. */
#define KC_OWNER_BITS 15ull

/* The caller as an owner: its body, the coroutine that it is, or the plain thread. */
uint64_t kc__owner_self(kc_thread_t *t, kcoro_t *co);

/* The caller, whose job's coroutine is co or NULL, owns one lock more or less (Y3). From
 * KC_HELD_MANY on nobody counts any more. False: kc__held_change must do it. */
KC_INLINE bool kc__owner_count_only(kcoro_t *co, int more)
{
    if (kc_likely(co != NULL)) {
        uint16_t *held = &kc__job_own(co)->task.held, count = *held;
        if (kc_unlikely(count >= KC_HELD_MANY))
            return false;
        *held = (uint16_t)(count + (unsigned)more);
    }
    return true;
}

/* The same, of this lock, taken by a wait of this kind or without waiting. */
KC_INLINE void kc__owner_count(kcoro_t *co, int more, kc_wait_kind_t kind, const void *lock)
{
    if (kc_unlikely(!kc__owner_count_only(co, more)))
        kc__held_change(co, kind, lock, more);
}

/* One who wants to own a lock. */
typedef struct {
    kc_wait_t wait;
    uint64_t owner; /* I  who will have it */
} kc_owner_wait_t;

/*
 * The way into a lock. take: in one step for this owner, by a wait of this kind, if that can be
 * done; wait: 0, or why not. Compiled into its callers, and these two into it.
 */
KC_INLINE int kc__owner_lock(kc_wait_queue_t *l, kc_wait_kind_t kind, kc_time_t deadline,
                             bool (*take)(kc_wait_queue_t *l, kc_wait_kind_t kind, uint64_t self),
                             int (*wait)(kc_wait_queue_t *l, kc_owner_wait_t *w,
                                         kc_time_t deadline))
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);
    uint64_t self = kc__owner_self(t, co);

    if (kc_unlikely(!l))
        return -EINVAL;
    int rc = kc__job_check_cancel(co);
    if (kc_unlikely(rc != 0))
        return rc;
    if (kc_likely(take(l, kind, self))) {
        kc__owner_count(co, 1, kind, l);
        return 0;
    }
    kc_owner_wait_t w;
    w.owner = self;
    kc__wait_begin_on(t, co, &w.wait, kind, l);
    rc = wait(l, &w, deadline);
    if (rc != 0)
        return kc__wait_queue_gave_up(&w.wait, rc);
    kc__owner_count(co, 1, kind, l);
    return 0;
}

#endif
