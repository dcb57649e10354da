/* SPDX-License-Identifier: MIT */
/*
 * recorder.c - events of a trace on their way to the file: see recorder.h.
 */
#include "base/recorder.h"

#include "base/os.h"

#include <string.h>

void kc__trace_record(kc_recorder_t *r, unsigned i, kc_record_t e, const char *name)
{
    kc_lane_t *lane = &r->lane[i];

    kc__spin_lock(&lane->lock);
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
    kc__spin_unlock(&lane->lock);
}
