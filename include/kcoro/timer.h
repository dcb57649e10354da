/* SPDX-License-Identifier: MIT */
/*
 * kcoro/timer.h - tasks that start later, tasks that start again and again, and sleeping.
 *
 * A token stands for a timed task. Dropping it cancels what is still to come; kc_token_detach gives
 * the handle up and lets the task live (docs/guide/cancel-or-give-up.md compares the two with other
 * handles). Delayed and interval tasks start while the scheduler's main thread pumps.
 *
 * A token that is used after kc_token_release or kc_token_detach is recognised, and aborts with one
 * line, until a new one gets its memory: not before the timed task is over and the thread that saw
 * to that has made 30 more objects, or has ended; with KCORO_DEBUG=1 never.
 *
 * In src: sched/token.c, job/sleep.c.
 */
#ifndef KCORO_TIMER_H
#define KCORO_TIMER_H

#include <kcoro/sched.h>

#include <stdbool.h>

KC_BEGIN_DECLS

typedef struct kc_token kc_token_t;

/*
 * Starts fn(arg) once as a task, `delay` nanoseconds from now on the scheduler's clock, at the
 * place `where`. kc_schedule_delayed_with takes options; NULL: none.
 *
 * Context: any thread, any coroutine.  Suspends: no.
 * Returns: 0; -EINVAL: s or fn is NULL, the delay is negative, there is no such place; -ENOMEM;
 *          -ESHUTDOWN: the scheduler ends.
 * Owns: *out is one reference, for kc_token_release or kc_token_detach; out NULL means detached.
 *       With options, after 0, exactly one of fn and opts->dispose is called for arg; after an
 *       error arg is still the caller's.
 */
KC_API int kc_schedule_delayed(kc_sched_t *s, kc_time_t delay, kc_affinity_t where, kc_fn_t fn,
                               void *arg, kc_token_t **out);
KC_API int kc_schedule_delayed_with(kc_sched_t *s, kc_time_t delay, kc_affinity_t where,
                                    kc_fn_t fn, void *arg, const kc_task_opts_t *opts,
                                    kc_token_t **out);

/*
 * Starts fn(arg) as a task at once and then every `interval` nanoseconds, on a fixed grid, until
 * cancelled. A tick that is due while a run is in flight is skipped, and so are ticks that were
 * missed: two runs never overlap, and none come in a burst. A run that fails does not stop the
 * task. kc_schedule_interval_with takes options; NULL: none.
 *
 * Context: any thread, any coroutine.  Suspends: no.
 * Returns: as kc_schedule_delayed; -EINVAL also if interval <= 0.
 * Owns: *out as kc_schedule_delayed. With options opts->dispose is called once for arg, when no run
 *       can come any more and none is in flight; after an error arg is still the caller's.
 */
KC_API int kc_schedule_interval(kc_sched_t *s, kc_time_t interval, kc_affinity_t where, kc_fn_t fn,
                                void *arg, kc_token_t **out);
KC_API int kc_schedule_interval_with(kc_sched_t *s, kc_time_t interval, kc_affinity_t where,
                                     kc_fn_t fn, void *arg, const kc_task_opts_t *opts,
                                     kc_token_t **out);

/*
 * Stops future runs and never interrupts one that has started. Of the start of a delayed task and
 * its first cancel exactly one happens. The task's dispose runs inside this call, or, if a run is
 * in flight, after the end of that run.
 *
 * Context: any thread, any coroutine; the scheduler may be gone.  Suspends: no.
 * Returns: true: this call prevented at least one future run.
 */
KC_API bool kc_token_cancel(kc_token_t *t);

/*
 * Context: anywhere.  Suspends: no.
 * Returns: true: no run can start any more, because the task was cancelled, has run once, or its
 *          scheduler is gone.
 */
KC_API bool kc_token_cancelled(const kc_token_t *t);

/*
 * Cancels what has not started, as kc_token_cancel does, and gives the reference up. NULL does
 * nothing.
 *
 * Context: anywhere.  Suspends: no.
 */
KC_API void kc_token_release(kc_token_t *t);

/*
 * Gives the reference up without a cancel: the timed task lives. NULL does nothing.
 *
 * Context: anywhere.  Suspends: no.
 */
KC_API void kc_token_detach(kc_token_t *t);

/*
 * kc_sleep waits for ns nanoseconds, kc_sleep_until until the time `at` on kc_now's clock. Neither
 * returns 0 early. A time of 0, or one that is over, is a yield.
 *
 * Context: anywhere; a plain thread blocks.  Suspends: yes.
 * Cancel: -ECANCELED, at once.
 * Returns: 0: the time is over; -ECANCELED; -EINVAL: ns is negative.
 */
KC_API KC_WARN_UNUSED int kc_sleep(kc_time_t ns);
KC_API KC_WARN_UNUSED int kc_sleep_until(kc_time_t at);

KC_END_DECLS

#endif
