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
 * use. Those that take no number are also ready when all their bytes are zero. They work between
 * coroutines of any threads and schedulers, and plain threads, which block. Wait queues are first
 * come, first served: what is given up goes straight to the first waiter.
 *
 * A wait that is cancelled or reaches its deadline has changed nothing: no lock is held, no permit
 * taken. A wait that succeeded reports that, also if the job was cancelled meanwhile. The call that
 * lets the last waiter pass does not touch the object afterwards: when that wait has returned, the
 * object's memory may go (a barrier's only when all members have returned).
 *
 * Under virtual time, and with KC_SCHED_FIND_DEADLOCKS (sched.h), jobs that wait for each other in
 * a cycle are found when the last wait of the cycle begins: that call returns -EDEADLK, and a
 * report on stderr names the jobs, what they wait for and its owner, with their stacks. A wait for
 * a mutex depends on its owner; a wait for a reader-writer lock on its writer (readers are counted,
 * and not known); a join (job.h) on all bodies inside the job; the end of a scope or body on its
 * children: if that end closes the cycle, it fails with -EDEADLK, and so the children are
 * cancelled. Waits that are cancelled, or that a deadline will end (their own, or the timeout of a
 * scope or job around them), are no part of a cycle. Where a call cannot return -EDEADLK the report
 * is followed by an abort.
 *
 * Under virtual time a scheduler does not know of plain threads: a wait that only a plain thread
 * can end is a deadlock, unless a lease (job.h) holds a job open.
 *
 * The owner of a lock is the coroutine, or the plain thread. In a coroutine inside a job's body (a
 * generator) it is the body. NULL: -EINVAL from the calls that return an int, else bad use.
 * Deadlines are on kc_now's clock.
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
 * Takes the mutex, or waits for it; kc_mutex_lock_until waits until the deadline at most.
 *
 * Context: anywhere.  Suspends: if another coroutine or thread owns it.
 * Cancel: the mutex is not held.
 * Returns: 0; -ECANCELED; -EDEADLK: the caller owns it already, or the wait would close a cycle
 *          (see above); -EINVAL: m is NULL; kc_mutex_lock_until also -ETIMEDOUT: not taken until
 *          the deadline.
 */
KC_API KC_WARN_UNUSED int kc_mutex_lock(kc_mutex_t *m);
KC_API KC_WARN_UNUSED int kc_mutex_lock_until(kc_mutex_t *m, kc_time_t deadline);

/*
 * Takes the mutex, or waits for it, whether or not the job is cancelled. To own it already is bad
 * use; so is a wait that closes a cycle, where cycles are looked for.
 *
 * Context: anywhere.  Suspends: if another coroutine or thread owns it.  Cancel: not looked at.
 */
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

/*
 * Gives the mutex to the first waiter, or frees it. To unlock a mutex that the caller does not own
 * is bad use; so is the end of a body that owns one.
 *
 * Context: the owner.  Suspends: no.
 */
KC_API void kc_mutex_unlock(kc_mutex_t *m);

/* What KC_UNLOCK_AT_END calls.  Context: as kc_mutex_unlock. */
static inline void kc_mutex_unlock_at_end(void *m)
{
    kc_mutex_unlock((kc_mutex_t *)m);
}

/*
 * After a lock that succeeded: unlocks at the end of the enclosing block, however that is left, and
 * when the body is unwound (KC_JOB_UNWIND). As KC_CLEANUP: one per source line, any number in a
 * block, newest first. m is evaluated once, here.
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
 * kc_rwlock_rdlock takes the lock to read, together with other readers; kc_rwlock_wrlock takes it
 * to write, alone. A writer that waits keeps new readers out, so a reader must not take the lock
 * again before it has unlocked it. The _until forms wait until the deadline at most.
 *
 * Context: anywhere.  Suspends: if the lock cannot be taken at once.  Cancel: the lock is not held.
 * Returns: 0; -ECANCELED; -EDEADLK: the caller has it to write already, or the wait would close a
 *          cycle (see above); -EINVAL: l is NULL; the _until forms also -ETIMEDOUT: not taken until
 *          the deadline.
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

/*
 * kc_rwlock_rdunlock ends a read, kc_rwlock_wrunlock the write. When the lock is free, the first
 * waiters get it. To call one without holding the lock in that way is bad use.
 *
 * Context: a reader; the writer.  Suspends: no.
 */
KC_API void kc_rwlock_rdunlock(kc_rwlock_t *l);
KC_API void kc_rwlock_wrunlock(kc_rwlock_t *l);

/* What KC_RDUNLOCK_AT_END and KC_WRUNLOCK_AT_END call.  Context: as the unlocks. */
static inline void kc_rwlock_rdunlock_at_end(void *l)
{
    kc_rwlock_rdunlock((kc_rwlock_t *)l);
}

static inline void kc_rwlock_wrunlock_at_end(void *l)
{
    kc_rwlock_wrunlock((kc_rwlock_t *)l);
}

/* As KC_UNLOCK_AT_END: after a lock to read, and after a lock to write. */
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
 * Unlocks m, waits for a signal or broadcast, and locks m again. There are no spurious wake-ups,
 * but another owner of m may have changed the condition before this call has locked m again: test
 * it again. kc_cond_wait_until waits until the deadline at most.
 *
 * Context: the owner of m, else bad use.  Suspends: yes.
 * Cancel: returns with m held. A signal that has reached the caller counts, and 0 is returned; else
 *         the signal is for another waiter.
 * Returns: always with m held. 0; -ECANCELED; -EINVAL: a NULL; kc_cond_wait_until also -ETIMEDOUT.
 */
KC_API KC_WARN_UNUSED int kc_cond_wait(kc_cond_t *c, kc_mutex_t *m);
KC_API KC_WARN_UNUSED int kc_cond_wait_until(kc_cond_t *c, kc_mutex_t *m, kc_time_t deadline);

/*
 * kc_cond_signal wakes the first waiter, if there is one; kc_cond_broadcast wakes all that wait
 * now.
 *
 * Context: anywhere.  Suspends: no.
 */
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
 * Takes a permit, or waits for one; kc_sem_acquire_until waits until the deadline at most.
 *
 * Context: anywhere.  Suspends: if there is no permit.  Cancel: no permit is taken.
 * Returns: 0; -ECANCELED; -EINVAL: s is NULL; kc_sem_acquire_until also -ETIMEDOUT.
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

/* Adds n permits: for the first waiters, then for later ones.  Context: anywhere.  Suspends: no. */
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

/*
 * Lowers the count by one; at zero the latch opens and lets all waiters pass. A count below zero is
 * bad use.
 *
 * Context: anywhere.  Suspends: no.
 */
KC_API void kc_latch_count_down(kc_latch_t *l);

/*
 * kc_latch_wait waits until the count is zero, kc_latch_wait_until until the deadline at most.
 * kc_latch_arrive_and_wait counts down first, then waits.
 *
 * Context: anywhere.  Suspends: if the count is not zero.
 * Cancel: nothing has changed, except that kc_latch_arrive_and_wait has counted down, also in a job
 *         that was cancelled before the call.
 * Returns: 0; -ECANCELED; -EINVAL: l is NULL; kc_latch_wait_until also -ETIMEDOUT.
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

/*
 * kc_event_set lets all pass: those that wait now, even if the event is reset at once, and all that
 * come before kc_event_reset. After kc_event_reset new waits wait for the next set.
 *
 * Context: anywhere.  Suspends: no.
 */
KC_API void kc_event_set(kc_event_t *e);
KC_API void kc_event_reset(kc_event_t *e);

/*
 * Context: anywhere.  Suspends: no.  Returns: true: the event is set, and a wait would return at
 *          once.
 */
KC_API bool kc_event_is_set(const kc_event_t *e);

/*
 * Waits until the event is set; kc_event_wait_until waits until the deadline at most.
 *
 * Context: anywhere.  Suspends: if the event is not set.  Cancel: nothing has changed.
 * Returns: 0; -ECANCELED; -EINVAL: e is NULL; kc_event_wait_until also -ETIMEDOUT.
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
 * The first caller runs fn(arg); every caller returns when fn has ended. fn runs shielded and may
 * suspend. A call with the same o from inside its fn is bad use.
 *
 * Context: anywhere.  Suspends: while another caller runs fn, and where fn does.
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
 * Waits until n callers have arrived, then lets them pass. The barrier is then ready for the next
 * n.
 *
 * Context: anywhere.  Suspends: unless the caller is the last of the n.
 * Cancel: the caller has not arrived; but if all n have arrived, the call succeeds.
 * Returns: 1: to the last of the n; 0: to the others; -ECANCELED; -EINVAL: b is NULL, or n is 0.
 */
KC_API KC_WARN_UNUSED int kc_barrier_wait(kc_barrier_t *b);

KC_END_DECLS

#endif
