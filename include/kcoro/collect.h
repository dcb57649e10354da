/* SPDX-License-Identifier: MIT */
/*
 * kcoro/collect.h - several calls at once: wait for all, for one, for the first that works.
 *
 *     kc_call_t calls[] = { { .fn = from_cache, .arg = key }, { .fn = from_disk, .arg = key } };
 *     size_t winner;
 *     rc = kc_first_ok(calls, 2, &winner);       // the other call was cancelled, and has ended
 *
 * Each call runs as a job of its own, a child of the current job. Its rc is the result of that job,
 * as kc_job_join returns it; its payload is what the job has set with kc_set_payload. Failures, a
 * call's own timeout among them, are reported by rc and the return value only: they do not cancel
 * the caller's job. "First" is by time. In a job that is cancelled already each of these functions
 * returns -ECANCELED and does nothing. All memory is allocated first: after -ENOMEM no fn ran.
 *
 * What did happen counts. A call whose fn returned 0 has rc 0 and its payload, although it was told
 * to stop meanwhile, by its own timeout too, unless children launched into it (KC_JOB_ALONE ones
 * and promises that failed excepted) failed, or were cancelled before they returned 0. A caller
 * that is cancelled meanwhile hears of what it waits for if that did happen: kc_all, kc_all_window
 * and kc_all_fail_fast return 0 if all calls returned 0, kc_race and kc_first_ok return 0 and the
 * winner if that had ended with 0 before the cancel; else -ECANCELED, and rc tells of each.
 *
 * .opts of a call are those of a launch (kcoro/job.h): a name, a place, a stack, a timeout, a
 * grace, a signal, a dispose, and the flags KC_JOB_NOW, KC_JOB_UNWIND and KC_JOB_MIGRATE. A
 * .parent, a .sched and other flags are -EINVAL. They are read before the call returns. Of each
 * call exactly one of fn and dispose is called, unless all were refused: then rc of none has been
 * set.
 */
#ifndef KCORO_COLLECT_H
#define KCORO_COLLECT_H

#include <kcoro/base.h>
#include <kcoro/call.h>
#include <kcoro/signal.h>
#include <kcoro/time.h>

#include <stddef.h>
#include <stdint.h>

KC_BEGIN_DECLS

/*
 * Waits for all. When the first has ended, emits after_first to the others (KC_SIG_TERMINATE:
 * cancels them; they are no failures then).
 *
 * Context: a job.  Suspends: yes.
 * Cancel: reaches all calls; they are still waited for.
 * Returns: 0: all calls returned 0, or n is 0, or those that did not were cancelled by after_first;
 *          -ECANCELED: not all calls returned 0 and the caller was cancelled, or no call failed and
 *          some were cancelled; the first failure; -EPERM: not in a job; -EINVAL: a NULL, options
 *          that a call cannot have; -ENOMEM.
 */
KC_API KC_WARN_UNUSED int kc_all(kc_call_t *calls, size_t n, kc_sigset_t after_first);

/*
 * Returns as soon as one has ended, and emits to_losers to the others. They stay children of the
 * caller's job and are not waited for here: their args must outlive the enclosing scope. They do
 * not touch calls any more, and their failures are dropped.
 *
 * Context: a job.  Suspends: yes.
 * Cancel: reaches all calls; returns -ECANCELED at once.
 * Returns: the winner's rc, and its index in *winner (which may be NULL); -EINVAL: also if n is 0;
 *          -EPERM, -ENOMEM.
 */
KC_API KC_WARN_UNUSED int kc_any(kc_call_t *calls, size_t n, kc_sigset_t to_losers,
                                 size_t *winner);

/* The first to end wins; the others are cancelled and waited for.
 * Context: a job.  Suspends, Cancel: as kc_all.  Returns: as kc_any; -ECANCELED: the caller was
 * cancelled before there was a winner with 0. */
KC_API KC_WARN_UNUSED int kc_race(kc_call_t *calls, size_t n, size_t *winner);

/* The first success wins; the others are cancelled and waited for.
 * Context: a job.  Suspends, Cancel: as kc_all.  Returns: 0, and the winner; if all failed: what
 * came first; -ECANCELED as kc_race; -EINVAL: also if n is 0; -EPERM, -ENOMEM. */
KC_API KC_WARN_UNUSED int kc_first_ok(kc_call_t *calls, size_t n, size_t *winner);

/* The first failure cancels the others; all are waited for.
 * Context: a job.  Suspends, Cancel, Returns: as kc_all. */
KC_API KC_WARN_UNUSED int kc_all_fail_fast(kc_call_t *calls, size_t n);

/* As kc_all without a signal, but at most max_running are started and not ended; 0: no limit.
 * Context: a job.  Suspends, Cancel, Returns: as kc_all. */
KC_API KC_WARN_UNUSED int kc_all_window(kc_call_t *calls, size_t n, uint32_t max_running);

/*
 * Runs fn(arg) on the caller's stack, in a scope with a timeout: as kc_scope. ns <= 0 is already
 * due: -ETIMEDOUT, and fn is not called.
 *
 * Context: a job.  Suspends: yes.
 * Cancel: reaches fn; its end is waited for. In a job that is cancelled already: -ECANCELED, and fn
 *         is not called.
 * Returns: as kc_scope; -ETIMEDOUT when its time was over, after fn has ended; -ECANCELED: the job
 *          around it was cancelled. But 0, although its time was over or the cancel had come, if fn
 *          returned 0 and all that was launched into its scope was done too, as above: what did
 *          happen is reported as done.
 */
KC_API KC_WARN_UNUSED int kc_with_timeout(kc_time_t ns, kc_fn_t fn, void *arg);
KC_API KC_WARN_UNUSED int kc_with_deadline(kc_time_t at, kc_fn_t fn, void *arg);

KC_END_DECLS

#endif
