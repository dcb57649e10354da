/* SPDX-License-Identifier: MIT */
/*
 * kcoro/sync.h - locks and meeting points that suspend the coroutine and never its thread.
 *
 *     static kc_mutex_t lock = KC_MUTEX_INIT;
 *
 *     rc = kc_mutex_lock(&lock);            // -ECANCELED: the job is cancelled, the lock not held
 *     if (rc < 0)
 *         return rc;
 *     ...
 *     kc_mutex_unlock(&lock);               // or, right after the lock: KC_UNLOCK_AT_END(&lock);
 *
 * All of them live in your memory, need no heap and no destroy call, and must not move while in
 * use. Those without a number are also ready when all their bytes are zero. They work between
 * coroutines of any threads and schedulers, and plain threads, which block. Who waits stands in
 * line: first come, first served, and what is given up goes straight to the first in line.
 *
 * A wait that is cancelled or out of time has done nothing: no lock is held, no permit taken. What
 * did happen is reported as done, also in a job that is cancelled meanwhile. Whoever lets the last
 * one pass does not touch the object afterwards: when its wait has returned, it may go (but a
 * barrier only when all who met there have returned).
 *
 * Under virtual time, and with KC_SCHED_FIND_DEADLOCKS (sched.h), jobs that wait for each other in
 * a cycle are found when its last wait begins: that call returns -EDEADLK, and a report on stderr
 * names all of them, what they wait for and its owner, with their stacks. Who waits for a mutex
 * needs its owner; for a lock to read or write its writer (readers are counted, and not known); who
 * joins a job (job.h) all bodies inside it; the end of a scope or body its children: if that closes
 * the cycle it fails with -EDEADLK, and so the children are cancelled. Waits that are cancelled, or
 * that a deadline will end (their own, or the timeout of a scope or job around them), are no part
 * of a cycle. Where a call cannot return -EDEADLK the report is followed by an abort.
 *
 * Under virtual time a scheduler does not know of plain threads: what only one of them can let pass
 * is a deadlock, unless a lease (job.h) holds a job open.
 *
 * The owner of a lock is the coroutine, or the plain thread. In a coroutine inside a job's body (a
 * generator) it is the body. NULL: -EINVAL, or where nothing can be returned bad use.
 *
 * In src: sync/mutex.c, sync/rwlock.c.
 */
#ifndef KCORO_SYNC_H
#define KCORO_SYNC_H

#include <kcoro/base.h>
#include <kcoro/defer.h>
#include <kcoro/time.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

KC_BEGIN_DECLS

/* ---- mutex ---------------------------------------------------------------------------------- */

/* The fields of all these types are the library's. */
typedef struct {
    uint64_t word;
    void *line;
    const char *name;
} kc_mutex_t;

#define KC_MUTEX_INIT                                                                             \
    {                                                                                             \
        0, NULL, NULL                                                                             \
    }
#define KC_MUTEX_NAMED(name)                                                                      \
    {                                                                                             \
        0, NULL, (name)                                                                           \
    } /* the name, which must stay, is for reports */

/*
 * Takes the lock, or waits for it.
 *
 * Context: anywhere.  Suspends: if another one has it.  Cancel: the lock is not held.
 * Returns: 0; -ECANCELED; -EDEADLK: the caller has it already, or the wait would close a cycle,
 *          see above; the second one -ETIMEDOUT: not taken until deadline, on kc_now's clock;
 *          -EINVAL: m is NULL.
 */
KC_API KC_WARN_UNUSED int kc_mutex_lock(kc_mutex_t *m);
KC_API KC_WARN_UNUSED int kc_mutex_lock_until(kc_mutex_t *m, kc_time_t deadline);

/* The same, whether or not the job is cancelled. To have it already is bad use; so is a wait that
 * closes a cycle, where that is found.
 * Context: anywhere.  Suspends: if another one has it.  Cancel: not looked at. */
KC_API void kc_mutex_lock_nocancel(kc_mutex_t *m);

/*
 * Takes the mutex if it is free, without waiting. kc_mutex_trylock is the older spelling of
 * kc_mutex_try_lock, and stays.
 *
 * Context: anywhere; m is not NULL.  Suspends: no.  Cancel: not looked at.
 * Returns: true: the caller owns it; false: another one owns it, or the caller already does.
 */
KC_API bool kc_mutex_try_lock(kc_mutex_t *m);
KC_API bool kc_mutex_trylock(kc_mutex_t *m);

/* Gives it to the first in line. Not to own it is bad use; so is the end of a body that owns one.
 * Context: the owner.  Suspends: no. */
KC_API void kc_mutex_unlock(kc_mutex_t *m);

/* What KC_UNLOCK_AT_END calls.  Context: as kc_mutex_unlock. */
static inline void kc_mutex_unlock_at_end(void *m)
{
    kc_mutex_unlock((kc_mutex_t *)m);
}

/*
 * After a lock that succeeded: gives it back at the end of the enclosing block, however that is
 * left, and when the body is unwound (KC_JOB_UNWIND). As KC_CLEANUP: one per source line, any
 * number in a block, newest first. m is evaluated once, here.
 *
 *     int rc = kc_mutex_lock(&lock);
 *     if (rc < 0)
 *         return rc;
 *     KC_UNLOCK_AT_END(&lock);
 */
#define KC_UNLOCK_AT_END(m) KC_CLEANUP(kc_mutex_unlock_at_end, 1 ? (m) : (kc_mutex_t *)0)

/* ---- reader-writer lock --------------------------------------------------------------------- */

typedef struct {
    uint64_t word;
    void *line;
    const char *name;
} kc_rwlock_t;

#define KC_RWLOCK_INIT                                                                            \
    {                                                                                             \
        0, NULL, NULL                                                                             \
    }
#define KC_RWLOCK_NAMED(name)                                                                     \
    {                                                                                             \
        0, NULL, (name)                                                                           \
    }

/*
 * Takes the lock together with other readers, or alone. A writer that waits keeps new readers out,
 * so one who reads already must not ask again.
 *
 * Context: anywhere.  Suspends: if it is not free for this.  Cancel: the lock is not held.
 * Returns: 0; -ECANCELED; -EDEADLK: the caller has it to write already, or the wait would close a
 *          cycle, see above; the last two -ETIMEDOUT: not taken until deadline; -EINVAL: l is NULL.
 */
KC_API KC_WARN_UNUSED int kc_rwlock_rdlock(kc_rwlock_t *l);
KC_API KC_WARN_UNUSED int kc_rwlock_wrlock(kc_rwlock_t *l);
KC_API KC_WARN_UNUSED int kc_rwlock_rdlock_until(kc_rwlock_t *l, kc_time_t deadline);
KC_API KC_WARN_UNUSED int kc_rwlock_wrlock_until(kc_rwlock_t *l, kc_time_t deadline);

/*
 * kc_rwlock_try_rdlock takes the lock to read if no writer owns it or waits for it;
 * kc_rwlock_try_wrlock takes it to write if nobody owns it. Neither waits. kc_rwlock_tryrdlock and
 * kc_rwlock_trywrlock are their older spellings, and stay.
 *
 * Context: anywhere; l is not NULL.  Suspends: no.  Cancel: not looked at.
 * Returns: true: the caller has the lock; false: nothing has changed.
 */
KC_API bool kc_rwlock_try_rdlock(kc_rwlock_t *l);
KC_API bool kc_rwlock_try_wrlock(kc_rwlock_t *l);
KC_API bool kc_rwlock_tryrdlock(kc_rwlock_t *l);
KC_API bool kc_rwlock_trywrlock(kc_rwlock_t *l);

/* Context: a reader; the writer. Else bad use.  Suspends: no. */
KC_API void kc_rwlock_rdunlock(kc_rwlock_t *l);
KC_API void kc_rwlock_wrunlock(kc_rwlock_t *l);

/* What the next two call.  Context: as the unlocks. */
static inline void kc_rwlock_rdunlock_at_end(void *l)
{
    kc_rwlock_rdunlock((kc_rwlock_t *)l);
}

static inline void kc_rwlock_wrunlock_at_end(void *l)
{
    kc_rwlock_wrunlock((kc_rwlock_t *)l);
}

/* As KC_UNLOCK_AT_END, after a lock to read, and to write. */
#define KC_RDUNLOCK_AT_END(l) KC_CLEANUP(kc_rwlock_rdunlock_at_end, 1 ? (l) : (kc_rwlock_t *)0)
#define KC_WRUNLOCK_AT_END(l) KC_CLEANUP(kc_rwlock_wrunlock_at_end, 1 ? (l) : (kc_rwlock_t *)0)

/* ---- condition ------------------------------------------------------------------------------ */

typedef struct {
    uint64_t word;
    void *line;
} kc_cond_t;

#define KC_COND_INIT                                                                              \
    {                                                                                             \
        0, NULL                                                                                   \
    }

/*
 * Unlocks m, waits until signalled, and locks m again. Nobody is woken who was not signalled, but
 * another one may have taken m before: look at the condition again.
 *
 * Context: the owner of m, else bad use.  Suspends: yes.
 * Cancel: returns with m held. A signal that has reached the caller counts; else it is for another.
 * Returns: with m held, always. 0; -ECANCELED; the second one -ETIMEDOUT; -EINVAL: a NULL.
 */
KC_API KC_WARN_UNUSED int kc_cond_wait(kc_cond_t *c, kc_mutex_t *m);
KC_API KC_WARN_UNUSED int kc_cond_wait_until(kc_cond_t *c, kc_mutex_t *m, kc_time_t deadline);

/* Wakes the first who waits; all who wait now.  Context: anywhere.  Suspends: no. */
KC_API void kc_cond_signal(kc_cond_t *c);
KC_API void kc_cond_broadcast(kc_cond_t *c);

/* ---- semaphore ------------------------------------------------------------------------------ */

typedef struct {
    uint64_t word;
    void *line;
} kc_sem_t;

#define KC_SEM_INIT(n)                                                                            \
    {                                                                                             \
        (uint64_t)(uint32_t)(n) << 2, NULL                                                        \
    } /* n permits */

/*
 * Takes a permit, or waits for one.
 *
 * Context: anywhere.  Suspends: if there is none, or others wait.  Cancel: none is taken.
 * Returns: 0; -ECANCELED; the second one -ETIMEDOUT; -EINVAL: s is NULL.
 */
KC_API KC_WARN_UNUSED int kc_sem_acquire(kc_sem_t *s);
KC_API KC_WARN_UNUSED int kc_sem_acquire_until(kc_sem_t *s, kc_time_t deadline);

/*
 * Takes a permit if there is one and nobody waits for it, without waiting. kc_sem_tryacquire is the
 * older spelling of kc_sem_try_acquire, and stays.
 *
 * Context: anywhere; s is not NULL.  Suspends: no.  Cancel: not looked at.
 * Returns: true: the caller has taken one permit; false: nothing has changed.
 */
KC_API bool kc_sem_try_acquire(kc_sem_t *s);
KC_API bool kc_sem_tryacquire(kc_sem_t *s);

/* n permits more.  Context: anywhere.  Suspends: no. */
KC_API void kc_sem_release(kc_sem_t *s, uint32_t n);

/* ---- latch ---------------------------------------------------------------------------------- */

typedef struct {
    uint64_t word;
    void *line;
} kc_latch_t;

#define KC_LATCH_INIT(n)                                                                          \
    {                                                                                             \
        (uint64_t)(uint32_t)(n) << 2, NULL                                                        \
    } /* opens after n */

/* One less. Below zero is bad use.  Context: anywhere.  Suspends: no. */
KC_API void kc_latch_count_down(kc_latch_t *l);

/*
 * Waits until it is zero. The third one counts down first.
 *
 * Context: anywhere.  Suspends: if it is not zero.
 * Cancel: nothing has changed; but the third one has counted down, also in a cancelled job.
 * Returns: 0; -ECANCELED; the second one -ETIMEDOUT; -EINVAL: l is NULL.
 */
KC_API KC_WARN_UNUSED int kc_latch_wait(kc_latch_t *l);
KC_API KC_WARN_UNUSED int kc_latch_wait_until(kc_latch_t *l, kc_time_t deadline);
KC_API KC_WARN_UNUSED int kc_latch_arrive_and_wait(kc_latch_t *l);

/* ---- event ---------------------------------------------------------------------------------- */

typedef struct {
    uint64_t word;
    void *line;
} kc_event_t;

#define KC_EVENT_INIT                                                                             \
    {                                                                                             \
        0, NULL                                                                                   \
    }

/* Lets all pass: those who wait now, also if it is reset at once, and all who come before a reset.
 * Context: anywhere.  Suspends: no. */
KC_API void kc_event_set(kc_event_t *e);
KC_API void kc_event_reset(kc_event_t *e);

/* Context: anywhere.  Suspends: no.  Returns: true: who waits now would pass. */
KC_API bool kc_event_is_set(const kc_event_t *e);

/*
 * Waits until it is set.
 *
 * Context: anywhere.  Suspends: if it is not set.  Cancel: nothing has changed.
 * Returns: 0; -ECANCELED; the second one -ETIMEDOUT; -EINVAL: e is NULL.
 */
KC_API KC_WARN_UNUSED int kc_event_wait(kc_event_t *e);
KC_API KC_WARN_UNUSED int kc_event_wait_until(kc_event_t *e, kc_time_t deadline);

/* ---- once ----------------------------------------------------------------------------------- */

typedef struct {
    uint64_t word;
    void *line;
} kc_once_t;

#define KC_ONCE_INIT                                                                              \
    {                                                                                             \
        0, NULL                                                                                   \
    }

/*
 * Has fn(arg) called by the first who comes; all return when it has ended. fn runs shielded and may
 * suspend. To call it from its own fn is bad use.
 *
 * Context: anywhere.  Suspends: while another one runs fn, and where fn does.
 * Cancel: not looked at.
 */
KC_API void kc_once(kc_once_t *o, void (*fn)(void *), void *arg);

/* ---- barrier -------------------------------------------------------------------------------- */

typedef struct {
    uint64_t word;
    void *line;
    uint64_t members;
} kc_barrier_t;

#define KC_BARRIER_INIT(n)                                                                        \
    {                                                                                             \
        0, NULL, (uint64_t)(uint32_t)(n)                                                          \
    } /* n meet there, again and again */

/*
 * Waits until n have come. Then it stands for the next n.
 *
 * Context: anywhere.  Suspends: unless the caller is the last.
 * Cancel: the caller has not come; but if the n have met, it has.
 * Returns: 1: to the last of the n; 0: to the others; -ECANCELED; -EINVAL: b is NULL, or n is 0.
 */
KC_API KC_WARN_UNUSED int kc_barrier_wait(kc_barrier_t *b);

KC_END_DECLS

#endif
