/* SPDX-License-Identifier: MIT */
/*
 * time.c - the clock of a scheduler: that of the system, or a virtual one.
 */
#include "sched/time.h"

#include "base/os.h"
#include "sched/sched.h"

kc_time_t kc_now(void)
{
    kc_worker_t *w = kc__worker();

    return w ? kc__sched_now(w->sched) : kc__os_now();
}

kc_time_t kc__sched_now(const kc_sched_t *s)
{
    return s->virtual_time ? kc_load_relaxed(&s->clock) : kc__os_now();
}

kc_time_t kc__sched_after(const kc_sched_t *s, kc_time_t ns)
{
    kc_time_t now = kc__sched_now(s);

    return ns > KC_FOREVER - now ? KC_FOREVER : now + ns;
}

void kc__sched_set_clock(kc_sched_t *s, kc_time_t now)
{
    if (now > kc_load_relaxed(&s->clock))
        kc_store_relaxed(&s->clock, now);
}
