/* SPDX-License-Identifier: MIT */
/*
 * gate.h - the gate that decides every race between park and unpark.
 *
 * WHAT     One word with three states holds at most one permit. Whoever changes it decides: a park
 *          that finds the permit goes on, an unpark that finds a parked one must make it ready. So
 *          no wake-up is lost and none counts twice.
 *
 * SHAPE            unpark                       park (gate_park = true: now switch away)
 *          EMPTY ---------> NOTIFIED   EMPTY ---------> PARKED
 *          NOTIFIED ------> NOTIFIED   NOTIFIED ------> EMPTY   (gate_park = false: go on)
 *          PARKED --------> EMPTY      PARKED: not possible, only the coroutine itself parks
 *                   (gate_unpark = true: this caller wakes it)
 *          gate_end, of who ends a park and brings no permit: PARKED ------> EMPTY, else nothing
 *
 * WHO      gate_park: the coroutine itself. The others: anybody, any number at once, at any time.
 *
 * ORDER    id      site                operation    pairs with      carries; what breaks if weaker
 *          gate.1  park, found permit  cas_acq_rel  gate.3          what the unparker wrote before;
 *                                      (acquire)                    the coroutine reads old data
 *          gate.2  park, parks         cas_acq_rel  gate.3          what the coroutine wrote
 *                                      (release)                    before; the waker reads its old
 *                                                                   fields
 *          gate.3  unpark, all states  cas_acq_rel  gate.1, gate.2  both; also on NOTIFIED ->
 *                                                                   NOTIFIED, where a plain look
 *                                                                   would leave out the second
 *                                                                   unparker's data
 *          gate.4  end                 cas_acq_rel  gate.2          as gate.3
 *
 * PROGRESS park: at most two steps. unpark: lock-free.
 * WHY NOT  An exchange in unpark: between its NOTIFIED and the correction to EMPTY a second permit
 *          would be swallowed.
 */
#ifndef KC_CORO_GATE_H
#define KC_CORO_GATE_H

#include "base/atomic.h"
#include "base/base.h"

enum { KC_GATE_EMPTY, KC_GATE_NOTIFIED, KC_GATE_PARKED };

typedef struct {
    KC_ATOMIC(uint32_t) word;
} kc_gate_t;

/* True: parked, the caller must switch away. False: a permit was there and is used up. */
KC_INLINE bool kc__gate_park(kc_gate_t *gate)
{
    uint32_t seen = KC_GATE_EMPTY;

    if (kc_cas_acq_rel(&gate->word, &seen, KC_GATE_PARKED)) /* gate.2 */
        return true;
    bool took = kc_cas_acq_rel(&gate->word, &seen, KC_GATE_EMPTY); /* gate.1 */
    KC_ASSERT(took && seen == KC_GATE_NOTIFIED);
    return false;
}

/* True: it was parked, and this caller is the one that makes it ready. */
KC_INLINE bool kc__gate_unpark(kc_gate_t *gate)
{
    uint32_t seen = kc_load_relaxed(&gate->word);

    for (;;) {
        uint32_t next = seen == KC_GATE_PARKED ? KC_GATE_EMPTY : KC_GATE_NOTIFIED;
        if (kc_cas_acq_rel(&gate->word, &seen, next)) /* gate.3 */
            return seen == KC_GATE_PARKED;
    }
}

/* The same for who brings no permit: a park that goes on later finds none of this. */
KC_INLINE bool kc__gate_end(kc_gate_t *gate)
{
    uint32_t seen = KC_GATE_PARKED;

    return kc_cas_acq_rel(&gate->word, &seen, KC_GATE_EMPTY); /* gate.4 */
}

#endif
