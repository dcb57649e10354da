/* SPDX-License-Identifier: MIT */
/*
 * run.h - how the main thread pumps.
 */
#ifndef KC_SCHED_RUN_H
#define KC_SCHED_RUN_H

#include "sched/sched.h"

/* True: the caller is s's main thread, on its own stack, and no handler or dispose of a pump. */
bool kc__pump_is_allowed(kc_sched_t *s);

/* Main begins to pump: it sleeps on its futex, not on its descriptor. */
void kc__pump_begin(kc_sched_t *s);

/* Pumps until nothing is left, or until it is stopped where it may be. */
int kc__pump_all(kc_sched_t *s);

/* Main stops pumping: from now on the descriptor tells, if there is one. */
void kc__pump_end(kc_sched_t *s);

/* The main thread, outside coroutines, waits until `at` or until *done is KC_DONE, and pumps
 * meanwhile. done may be NULL. False: the caller is somewhere else. */
bool kc__sched_pump_until(kc_sched_t *s, kc_time_t at, const KC_ATOMIC(uint32_t) * done);

/* The first timer may be another one: the descriptor's clock is set anew, if main does not pump. */
void kc__sched_rearm(kc_sched_t *s);

/* Makes main's file descriptor readable. */
void kc__sched_signal_fd(kc_sched_t *s);

#endif
