/* SPDX-License-Identifier: MIT */
/*
 * external.c - what only another thread may end keeps a scheduler from looking deadlocked.
 */
#include "job/external.h"

#include "sched/idle.h"

void kc__external_end(kc_sched_t *s)
{
    if (kc__external_take_back(s))
        kc__sched_look_again(s);
}

bool kc__external_begin_foreign(kc_sched_t *s)
{
    kc_worker_t *w = kc__worker();

    if (s->workers > 0 || (w && w->sched == s))
        return false;
    kc__external_begin(s);
    return true;
}
