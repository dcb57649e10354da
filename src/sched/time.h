/* SPDX-License-Identifier: MIT */
/*
 * time.h - the clock of a scheduler.
 */
#ifndef KC_SCHED_TIME_H
#define KC_SCHED_TIME_H

#include <kcoro/sched.h>
#include <kcoro/time.h>

/* The time on s's clock, from any thread; and so much later. */
kc_time_t kc__sched_now(const kc_sched_t *s);
kc_time_t kc__sched_after(const kc_sched_t *s, kc_time_t ns);

/* Of virtual time, which never goes back: it is not earlier than this any more. */
void kc__sched_set_clock(kc_sched_t *s, kc_time_t now);

#endif
