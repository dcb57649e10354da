/* SPDX-License-Identifier: MIT */
/*
 * trace.c - events of a trace on their way to the file: see trace.h.
 *
 * ORDER    id  site          operation      pairs with  carries; what breaks if weaker
 *          T2  lock: lock    cas_acq_rel    T3          the lane; two would write one slot
 *          T3  unlock: lock  store_release  T2          the same
 */
#include "base/trace.h"

#include "base/os.h"

#include <sched.h>
#include <string.h>

void kc__lane_lock(kc_lane_t *lane)
{
    uint32_t spins = 0;

    for (uint32_t free = 0; !kc_cas_acq_rel(&lane->lock, &free, 1); free = 0) { /* T2 */
        if (++spins % 64 == 0)
            sched_yield(); /* whoever has it may be writing to the file */
        kc__relax();
    }
}

void kc__lane_unlock(kc_lane_t *lane)
{
    kc_store_release(&lane->lock, 0); /* T3 */
}

void kc__trace_record(kc_recorder_t *r, unsigned i, kc_record_t e, const char *name)
{
    kc_lane_t *lane = &r->lane[i];

    kc__lane_lock(lane);
    if (lane->events) {
        if (lane->count > KC_LANE_EVENTS - 2)
            r->flush(r, i);
        if (e.at == 0)
            e.at = kc__os_now(); /* under the lock: so a lane is in order of time */
        e.named = name != NULL;
        lane->events[lane->count++] = e;
        if (name)
            memcpy(&lane->events[lane->count++], name, KC_NAME_SIZE);
    }
    kc__lane_unlock(lane);
}
