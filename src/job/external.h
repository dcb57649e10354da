/* SPDX-License-Identifier: MIT */
/*
 * external.h - what only another thread may end keeps a scheduler from looking deadlocked.
 *
 * WHAT     Leases, promises, children in other schedulers and calls by plain threads: as long as
 *          there is one, a scheduler in which all wait is none in which all wait for ever
 *          (deadlock.c). Each is counted in kc_sched.external.
 *
 * ORDER    id          site      operation    pairs with  carries; what breaks if weaker
 *          external.1  external  sub_acq_rel  itself      (the count alone)
 */
#ifndef KC_JOB_EXTERNAL_H
#define KC_JOB_EXTERNAL_H

#include "sched/sched.h"

/* There is one more. s cannot end before: the caller holds something in it. */
KC_INLINE void kc__external_begin(kc_sched_t *s)
{
    kc_add_relaxed(&s->external, KC_EXTERNAL_ONE);
}

/* One that has come to nothing is over. True: it was the last. */
KC_INLINE bool kc__external_take_back(kc_sched_t *s)
{
    return (uint32_t)kc_sub_acq_rel(&s->external, 1) == 1; /* external.1 */
}

/* One is over: s may see now that all wait for ever. */
void kc__external_end(kc_sched_t *s);

/* A foreign thread is about to bring something to s: true, and then kc__external_end must follow.
 * */
bool kc__external_begin_foreign(kc_sched_t *s);

#endif
