/* SPDX-License-Identifier: MIT */
/*
 * kcoro/deferred.h - jobs that hand over a value: async and await, promises, oneshots. Included by
 * kcoro/job.h.
 *
 * In src: job/launch.c, job/join.c, job/payload.c, job/oneshot.c.
 */
#ifndef KCORO_DEFERRED_H
#define KCORO_DEFERRED_H

#include <kcoro/job.h>

KC_BEGIN_DECLS

/* A job that hands over a value. */
typedef struct kc_deferred kc_deferred_t;

/* PENDING -> COMPLETED | FAILED | CANCELLED, which never change. KC_DEFERRED_CANCELED is an older
 * spelling of KC_DEFERRED_CANCELLED, and stays. */
typedef enum {
    KC_DEFERRED_PENDING,
    KC_DEFERRED_COMPLETED,
    KC_DEFERRED_FAILED,
    KC_DEFERRED_CANCELLED,
    KC_DEFERRED_CANCELED = KC_DEFERRED_CANCELLED
} kc_deferred_state_t;

/*
 * kc_async launches fn(arg) as kc_launch does, kc_async_job as kc_launch_job does; *out gets a
 * handle with which the value can be awaited.
 *
 * Context: as kc_launch; kc_async_job: as kc_launch_job.
 * Suspends: no; kc_async_job with KC_JOB_NOW: as kc_launch_job.
 * Returns: 0; the errors of kc_launch; kc_async_job: those of kc_launch_job.
 * Owns: *out is one reference, for kc_deferred_release; out NULL: none.
 */
KC_API KC_WARN_UNUSED int kc_async(kc_fn_t fn, void *arg, kc_deferred_t **out);
KC_API KC_WARN_UNUSED int kc_async_job(kc_fn_t fn, void *arg, const kc_launch_opts_t *opts,
                                       kc_deferred_t **out);

/*
 * Sets the value that kc_await of the coroutine's own job hands over if the job completes. A later
 * value replaces it. The payload must outlive the body's frame.
 *
 * Context: a job; elsewhere bad use.  Suspends: no.
 */
KC_API void kc_set_payload(void *payload);

/*
 * Sets the value as kc_set_payload does, with a function that frees it if it is not taken.
 * dispose(payload) is called once: at once if another value replaces this one; before the end of
 * the job can be observed if the job does not complete; and inside the last release of the job's
 * handles if the value has not been taken until then. The value is taken when kc_await or
 * kc_deferred_get, with a pointer for it, or a call of collect.h has handed it over. To set the
 * same value again changes its dispose, and kc_set_payload of it removes the dispose. If the value
 * or dispose is NULL this call is kc_set_payload.
 *
 * Such a value is for one taker. All that await it get the same pointer; from the first on it is
 * theirs, and dispose is not called any more: the program decides which of them frees it.
 *
 * Without memory the value is disposed of at once, and the job fails with -ENOMEM.
 *
 * Context: a job; elsewhere bad use. dispose is a handler: it may not wait.  Suspends: no.
 * Owns: payload.
 */
KC_API void kc_set_payload_with(void *payload, void (*dispose)(void *payload));

/*
 * Joins the job of d and hands over its value: *payload is NULL if the job did not complete, or the
 * wait was cut short. payload may be NULL. -ECANCELED may mean the caller or the job: kc_job_result
 * of kc_deferred_job tells which (-EAGAIN: the job has not ended).
 *
 * Context: anywhere; a plain thread blocks.  Suspends: yes.
 * Cancel: as kc_job_join.
 * Returns: as kc_job_join.
 */
KC_API KC_WARN_UNUSED int kc_await(kc_deferred_t *d, void **payload);

/*
 * Hands over the value as kc_await does, without waiting.
 *
 * Context: anywhere.  Suspends: no.  Cancel: not looked at.
 * Returns: -EAGAIN: d is PENDING, and *payload is not written; else as kc_await.
 */
KC_API int kc_deferred_get(kc_deferred_t *d, void **payload);

/* Context: anywhere.  Returns: the state of d now. */
KC_API kc_deferred_state_t kc_deferred_state(const kc_deferred_t *d);

/* Context: anywhere.  Returns: the job of d, borrowed. */
KC_API kc_job_t *kc_deferred_job(kc_deferred_t *d);

/* Context: anywhere.  Returns: d.  Owns: one reference more. */
KC_API kc_deferred_t *kc_deferred_retain(kc_deferred_t *d);

/*
 * Gives up one reference; the last one cancels a promise that is pending, and nothing else. NULL
 * does nothing.
 *
 * Context: anywhere.  Suspends: no.
 */
KC_API void kc_deferred_release(kc_deferred_t *d);

/*
 * Cancels the job of d, then gives up one reference; does not wait. NULL does nothing.
 *
 * Context: anywhere.  Suspends: no.
 */
KC_API void kc_deferred_drop(kc_deferred_t *d);

/*
 * Makes a child without a coroutine, which kc_promise_complete completes from outside. The job
 * around it waits for it. When it is cancelled, it is CANCELLED at once. Its failure is a value,
 * data that arrived and not work that broke: those that await it get it, now or later, and nothing
 * is cancelled.
 *
 * Context: as kc_launch_job.  Suspends: no.
 * Returns: 0; the errors of kc_launch_job; -EINVAL also if out is NULL, and for KC_JOB_NOW.
 * Owns: *out is one reference.
 */
KC_API KC_WARN_UNUSED int kc_promise(const kc_launch_opts_t *opts, kc_deferred_t **out);

/*
 * Completes a promise: rc is 0, with a value; -ECANCELED, which makes it CANCELLED; or a failure.
 *
 * Context: any thread.  Suspends: no.
 * Returns: 0; -EALREADY: it was completed before; -ECANCELED: it was cancelled before; -EINVAL: d
 *          is no promise, is one half of a oneshot, or is NULL.
 */
KC_API int kc_promise_complete(kc_deferred_t *d, int rc, void *payload);

/* The writing half of a oneshot: its owner owes an answer. */
typedef struct kc_resolver kc_resolver_t;

/*
 * Makes a promise in two halves: *out is for those that await the answer, *resolver for the one
 * that gives it. If either is given up, the other hears of it.
 *
 * Context: as kc_launch_job.  Suspends: no.
 * Returns: 0; the errors of kc_promise; -EINVAL also if resolver is NULL.
 * Owns: *out is one reference; *resolver is given up by kc_resolve or kc_resolver_drop.
 */
KC_API KC_WARN_UNUSED int kc_oneshot(const kc_launch_opts_t *opts, kc_deferred_t **out,
                                     kc_resolver_t **resolver);

/*
 * Answers, as kc_promise_complete does, and gives r up. A resolver that is used a second time is
 * recognised with the odds that kc_wake states.
 *
 * Context: any thread.  Suspends: no.
 * Returns: 0; -ECANCELED: no answer is wanted any more, because all handles were released or the
 *          promise was cancelled: payload is still the caller's; -EINVAL: r is NULL.
 */
KC_API int kc_resolve(kc_resolver_t *r, int rc, void *payload);

/*
 * Gives r up without an answer: those that await it get -EPIPE. NULL does nothing.
 *
 * Context: any thread.  Suspends: no.
 */
KC_API void kc_resolver_drop(kc_resolver_t *r);

KC_END_DECLS

#endif
