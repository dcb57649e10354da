/* SPDX-License-Identifier: MIT */
/*
 * lock.h - locks of four bytes, for sections of some nanoseconds in which nothing suspends.
 *
 * WHAT     kc_lock_t: one word, after Drepper's "Futexes are tricky". A thread that finds the lock
 *          taken stores a 2 and sleeps; an unlock that finds a 2 wakes one sleeper.
 *          kc_spin_t: a thread that finds it taken spins, and after a while sleeps between the
 *          looks (kc__os_back_off): the owner may be a thread that cannot run before this one
 *          sleeps. A store releases it, which costs nothing: it is for what is locked for every
 *          item. The lock bits of wait_queue.h and word.h are of this kind.
 *
 * SHAPE    0 free --lock--> 1 taken --lock of another--> 2 taken, and somebody may sleep
 *          1, 2 --unlock--> 0
 *
 * ORDER    id      site    operation      pairs with      carries; what breaks if weaker
 *          lock.1  lock    cas_acq_rel    lock.3          all data under the lock
 *          lock.2  lock    xchg_acquire   lock.3, lock.4  all data under the lock
 *          lock.3  unlock  sub_acq_rel    lock.1, lock.2  all data under the lock
 *          lock.4  unlock  store_release  lock.1, lock.2  all data under the lock
 *          lock.5  spin    cas_acq_rel    lock.6          all data under the lock
 *          lock.6  spin    store_release  lock.5          all data under the lock
 *
 * WHY NOT  Spinning first: the lock is held for so short a time that a thread which finds it taken
 *          is rare, unless its holder was preempted; then spinning is in vain.
 *          A wake-up for the waiters of a kc_spin_t: the unlock would have to find out whether a
 *          thread sleeps, after its store and not before. That is a locked instruction or a fence
 *          for each item; or a barrier that the sleeper makes all other threads pass (membarrier),
 *          and a look at a table for each item, and still a timed sleep where the kernel has no
 *          such call. A sleep of a fraction of a millisecond costs nothing where threads never
 *          meet, which is nearly always.
 */
#ifndef KC_BASE_LOCK_H
#define KC_BASE_LOCK_H

#include "base/os.h"
#include "base/tsan.h"

typedef struct {
    KC_ATOMIC(uint32_t) word; /* A */
} kc_lock_t;

KC_INLINE void kc__lock(kc_lock_t *l)
{
    uint32_t seen = 0;

    if (!kc_cas_acq_rel(&l->word, &seen, 1))      /* lock.1 */
        while (kc_xchg_acquire(&l->word, 2) != 0) /* lock.2 */
            kc__os_wait(&l->word, 2, INT64_MAX);
    kc__tsan_acquire(l);
}

KC_INLINE void kc__unlock(kc_lock_t *l)
{
    kc__tsan_release(l);
    if (kc_sub_acq_rel(&l->word, 1) == 1) /* lock.3 */
        return;
    kc_store_release(&l->word, 0); /* lock.4 */
    kc__os_wake(&l->word);
}

typedef struct {
    KC_ATOMIC(uint32_t) word; /* A  1: taken */
} kc_spin_t;

KC_INLINE void kc__spin_lock(kc_spin_t *l)
{
    uint32_t free = 0;

    if (!kc_cas_acq_rel(&l->word, &free, 1)) { /* lock.5 */
        uint32_t looks = 0;
        do {
            while (kc_load_relaxed(&l->word))
                kc__os_back_off(&looks);
            free = 0;
        } while (!kc_cas_acq_rel(&l->word, &free, 1)); /* lock.5 */
    }
    kc__tsan_acquire(l);
}

/* Somebody has it: for checks. */
KC_INLINE bool kc__spin_is_taken(const kc_spin_t *l)
{
    return kc_load_relaxed(&l->word) != 0;
}

/* True: taken, and nobody is told of it. */
KC_INLINE bool kc__spin_trylock_untold(kc_spin_t *l)
{
    uint32_t free = 0;

    return kc_cas_acq_rel(&l->word, &free, 1); /* lock.5 */
}

KC_INLINE void kc__spin_unlock(kc_spin_t *l)
{
    kc__tsan_release(l);
    kc_store_release(&l->word, 0); /* lock.6 */
}

/* The same where there is nobody to be told of it (tsan.h). */
KC_INLINE void kc__spin_unlock_untold(kc_spin_t *l)
{
    kc_store_release(&l->word, 0); /* lock.6 */
}

#endif
