/* SPDX-License-Identifier: MIT */
/*
 * lock.h - a lock of four bytes, for sections of some nanoseconds in which nothing suspends.
 *
 * WHAT     One word, after Drepper's "Futexes are tricky". Who finds the lock taken leaves a 2 and
 *          sleeps; who unlocks and finds a 2 wakes one sleeper.
 *
 * SHAPE    0 free --lock--> 1 taken --lock of another--> 2 taken, and somebody may sleep
 *          1, 2 --unlock--> 0
 *
 * ORDER    id  site    operation      pairs with  carries; what breaks if weaker
 *          L1  lock    cas_acq_rel    L3          all that stands under the lock
 *          L2  lock    xchg_acquire   L3, L4      the same
 *          L3  unlock  sub_acq_rel    L1, L2      the same
 *          L4  unlock  store_release  L1, L2      the same
 *
 * WHY NOT  Spinning first: the lock is held for so short a time that a thread which finds it taken
 *          is rare, unless its holder was preempted; then spinning is in vain.
 */
#ifndef KC_FLOW_LOCK_H
#define KC_FLOW_LOCK_H

#include "base/os.h"

typedef struct {
    KC_ATOMIC(uint32_t) word; /* A */
} kc_lock_t;

KC_INLINE void kc__lock(kc_lock_t *l)
{
    uint32_t seen = 0;

    if (kc_likely(kc_cas_acq_rel(&l->word, &seen, 1))) /* L1 */
        return;
    while (kc_xchg_acquire(&l->word, 2) != 0) /* L2 */
        kc__os_wait(&l->word, 2, INT64_MAX);
}

KC_INLINE void kc__unlock(kc_lock_t *l)
{
    if (kc_likely(kc_sub_acq_rel(&l->word, 1) == 1)) /* L3 */
        return;
    kc_store_release(&l->word, 0); /* L4 */
    kc__os_wake(&l->word);
}

#endif
