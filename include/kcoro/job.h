/* SPDX-License-Identifier: MIT */
/*
 * kcoro/job.h - jobs: every coroutine of a scheduler belongs to one, and they form a tree.
 *
 *     static int fetch_both(void *arg)            // a body
 *     {
 *         struct page *pages = arg;
 *         int rc = kc_launch(fetch, &pages[0]);   // children of the current job
 *         if (rc == 0)
 *             rc = kc_launch(fetch, &pages[1]);
 *         return rc;
 *     }
 *     rc = kc_scope(fetch_both, pages, &(kc_scope_opts_t){ .timeout = KC_SEC(2) });
 *
 * A job ends when its body has returned and all its children have ended: nothing that was launched
 * inside a scope is alive after it. A child that fails cancels its siblings; its code is the result
 * of the scope. Cancellation goes down the tree and is level-triggered: every call that can wait
 * returns -ECANCELED from then on, until the body ends. An operation that did happen is reported as
 * done, and the next call reports the cancellation.
 *
 * The current job is the one of the innermost open scope around the caller, else the coroutine's
 * own. Handles are reference counted. Releasing one cancels no job, but the last release of a
 * pending promise cancels it; kc_job_drop and kc_deferred_drop cancel. A table of every call that
 * cancels, gives up or waits is in docs/guide/cancel-or-give-up.md. NULL where a handle is needed:
 * -EINVAL from every call that returns an int, else bad use.
 *
 * In src: job/launch.c, job/scope.c, job/join.c, job/join_any.c, job/cancel.c, job/shield.c,
 * job/job.c, job/body.c, job/failure.c, job/locals.c, job/suspend.c, job/job_signal.c.
 * Jobs that hand over a value are in kcoro/deferred.h, which this header includes.
 */
#ifndef KCORO_JOB_H
#define KCORO_JOB_H

#include <kcoro/base.h>
#include <kcoro/call.h>
#include <kcoro/defer.h>
#include <kcoro/sched.h>
#include <kcoro/signal.h>
#include <kcoro/time.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

KC_BEGIN_DECLS

typedef struct kc_job kc_job_t;

/* ACTIVE -> COMPLETED | FAILED | CANCELLING; CANCELLING -> CANCELLED | FAILED. The last three never
 * change. */
typedef enum {
    KC_JOB_ACTIVE,
    KC_JOB_CANCELLING,
    KC_JOB_CANCELLED,
    KC_JOB_COMPLETED,
    KC_JOB_FAILED
} kc_job_state_t;

enum {
    KC_JOB_SUPERVISOR = 1, /* a child's failure cancels neither it nor its other children        */
    KC_JOB_DETACHED = 2,   /* has no parent: neither cancelled nor waited for by its launcher, only
                              by the scheduler's end                                              */
    KC_JOB_NOW = 4,      /* starts inside the launch, on the caller's thread: see kc_launch_job */
    KC_JOB_UNWIND = 8,   /* a body that is cancelled at a suspension point is not resumed: its
                              scopes end, its cleanups run, and the job ends                      */
    KC_JOB_MIGRATE = 16, /* with KC_WORKER: at a suspension point the job may move to another
                              worker, the one that wakes it or an idle one. What belongs to a
                              thread (errno, thread-local variables, locks of other libraries) is
                              then that of another thread                                         */
    KC_JOB_ALONE = 32    /* the job's failure is a value for those that join or await it: it
                              cancels neither parent nor siblings and does not decide the parent's
                              result. In every other way the job is a child: waited for, and
                              cancelled with its parent. On a group: failures inside do not leave
                              the group. Promises always behave so. Not allowed with
                              KC_JOB_DETACHED, nor on scopes, whose failure is a value already    */
};

struct kc_launch_opts {
    kc_job_t *parent;       /* NULL: the current job                                             */
    kc_sched_t *sched;      /* NULL: the parent's, or the current one                            */
    kc_affinity_t affinity; /* KC_WORKER, KC_MAIN, KC_WORKER_AT(i), KC_HERE                      */
    uint32_t flags;         /* KC_JOB_*                                                          */
    size_t stack;           /* 0: the scheduler's default                                        */
    kc_time_t timeout;      /* from the launch; 0: none                                          */
    kc_time_t grace;        /* how long shields and cleanups delay a cancel; 0: the parent's     */
    kc_signal_t *signal;    /* also obey this signal's TERMINATE; see kc_job_signal              */
    void (*dispose)(void *arg); /* called instead of fn if the job ends without having started   */
    const char *name;           /* copied, 31 bytes at most                                      */
};                              /* kc_launch_opts_t */

typedef struct {
    uint32_t flags;       /* KC_JOB_SUPERVISOR                                                   */
    kc_time_t timeout;    /* 0: none                                                             */
    kc_time_t grace;      /* how long shields and cleanups delay a cancel; 0: the current job's  */
    uint32_t max_running; /* at most this many children run at a time, suspended ones included;
                             the others wait unstarted; 0: no limit                              */
    kc_signal_t *signal;  /* also obey this signal's TERMINATE; see kc_job_signal                */
    const char *name;     /* copied, 31 bytes at most                                            */
} kc_scope_opts_t;

/* ---- launch -------------------------------------------------------------------------------- */

/*
 * Runs fn(arg) as a child of the current job, on the workers.
 *
 * Context: a job.  Suspends: no.
 * Returns: 0; -EINVAL: fn is NULL; -EPERM: there is no current job; -ECANCELED: the current job is
 *          being cancelled; -ENOMEM. After an error fn is never called and arg is still the
 *          caller's.
 */
KC_API KC_WARN_UNUSED int kc_launch(kc_fn_t fn, void *arg);

/*
 * Runs fn(arg) as a child of opts->parent, with these options; NULL opts mean all defaults. *out
 * gets a handle of the new job, unless out is NULL.
 *
 * A job gets its stack when it starts. If no stack is available then, the job waits until others
 * return theirs; kc_dump and kc_metrics report the wait and what is missing. The job ends FAILED
 * with -ENOMEM if nothing else of its scheduler can run any more: at once with virtual time or a
 * seed; else after one second in which no coroutine of the scheduler ran, no timer was set, no
 * lease or promise was open, and the main thread was in a call that waits.
 *
 * With KC_JOB_NOW the job starts inside this call, on the caller's thread, and the call returns
 * when the job first suspends or ends. The caller must be in a job of the same scheduler, and the
 * affinity must mean the caller's thread: KC_WORKER (0, the default) does here on every thread, the
 * main one included; so do KC_HERE and the thread's own KC_MAIN or KC_WORKER_AT(i). The job starts
 * later, on that thread, if max_running of its scope is reached or no stack is available, and never
 * if it is cancelled before it starts. With KC_JOB_MIGRATE and KC_WORKER it may be moved once it
 * has suspended.
 *
 * Context: anywhere; outside jobs with a parent, or with a scheduler: then the job has no parent.
 * Suspends: with KC_JOB_NOW, until the child suspends or ends. To stay fair, one such call in some
 *           hundreds returns only when all coroutines that were ready on this thread have run.
 * Returns: 0: exactly one of fn and dispose will be called, in the new job and on its stack (if it
 *          has none, on the thread's own); dispose is shielded as cleanups are, and may not
 *          suspend; -EINVAL: no such place or flag, a negative time, KC_JOB_NOW for another thread
 *          or scheduler, or outside a job; -EPERM: no parent, scheduler or current job; -ECANCELED:
 *          the parent is being cancelled; -ESHUTDOWN: the parent has ended, or is a closed group;
 *          -ENOMEM: no memory, or a stack that is larger than the address space or its limit
 *          (RLIMIT_AS).
 * Owns: *out is one reference.
 */
KC_API KC_WARN_UNUSED int kc_launch_job(kc_fn_t fn, void *arg, const kc_launch_opts_t *opts,
                                        kc_job_t **out);

/* ---- scopes -------------------------------------------------------------------------------- */

/*
 * Runs fn(arg) on the caller's stack inside a scope, and waits for everything that was launched in
 * it.
 *
 * Context: a job.  Suspends: yes.
 * Cancel: fn runs in any case, in a scope that is cancelled with its job; the end of the scope is
 *         waited for.
 * Returns: 0; the first failure, of fn or of a child; -ETIMEDOUT: the scope's own timeout; the
 *          reason for which the scope was cancelled; -EDEADLK: the wait for the children would
 *          close a cycle (kcoro/sync.h). A scope's failure never cancels the job around it. If fn
 *          was not called: -EPERM: there is no job; -EINVAL: fn is NULL, a flag other than
 *          KC_JOB_SUPERVISOR, a negative time; -ENOMEM.
 */
KC_API KC_WARN_UNUSED int kc_scope(kc_fn_t fn, void *arg, const kc_scope_opts_t *opts);

/* An open scope. It must not move. The fields are the library's. */
typedef struct kc_scope {
    kc_job_t *job;
    kc_cleanup_t mark;
} kc_scope_t;

/*
 * kc_scope_begin opens a scope and kc_scope_end ends it: what is launched between them belongs to
 * the scope, and kc_scope_end waits for it. Scopes nest. In a cancelled job the scope is born
 * cancelled. The code between them cannot return a failure of the scope: it calls
 * kc_fail_current(code) before the end, or kc_cancel_current(code) to stop what was launched. A
 * body that returns with a scope open is bad use.
 *
 * Context: a job.  Suspends: begin no; end yes.  Cancel: not looked at: end always waits.
 * Returns: begin: 0; -EPERM, -EINVAL, -ENOMEM as kc_scope: no scope is open, do not call end. end:
 *          the result of the scope, as kc_scope; -EINVAL: s is NULL. To end a scope that is not the
 *          caller's innermost open one is bad use.
 */
KC_API KC_WARN_UNUSED int kc_scope_begin(kc_scope_t *s, const kc_scope_opts_t *opts);
KC_API KC_WARN_UNUSED int kc_scope_end(kc_scope_t *s);

/* Context: anywhere while s is open.  Returns: the job of the scope, borrowed. */
KC_API kc_job_t *kc_scope_job(kc_scope_t *s);

/* ---- handles ------------------------------------------------------------------------------- */

/* Context: anywhere.  Returns: the current job, borrowed; NULL: none. */
KC_API kc_job_t *kc_job_current(void);

/* Context: anywhere.  Returns: j.  Owns: one reference more. */
KC_API kc_job_t *kc_job_retain(kc_job_t *j);

/*
 * Gives up one reference and cancels nothing, except that the last release of a pending promise
 * cancels the promise. NULL does nothing. A job that has not ended lives on without any handle.
 *
 * After its last release, a handle of a job that has ended is recognised: its use aborts with one
 * line. That holds until a new job gets the memory, which is not before the releasing thread has
 * launched 30 more jobs or has ended; with KCORO_DEBUG=1 it holds for ever. Handles of deferred
 * values are recognised in the same way.
 *
 * Context: anywhere.  Suspends: no.
 */
KC_API void kc_job_release(kc_job_t *j);

/*
 * Cancels j, then gives up one reference; does not wait for the end of j. NULL does nothing.
 * Context: anywhere.  Suspends: no.
 */
KC_API void kc_job_drop(kc_job_t *j);

/* What KC_JOB_DROP_AT_END calls.  Context: anywhere. */
static inline void kc_job_drop_at_end(void *j)
{
    kc_job_drop((kc_job_t *)j);
}

/* Cancels a job and gives the reference up at the end of the enclosing block, however that is left,
 * and when the body is unwound; it does not wait for the job. As KC_CLEANUP, one per line. */
#define KC_JOB_DROP_AT_END(job) KC_CLEANUP(kc_job_drop_at_end, 1 ? (job) : (kc_job_t *)0)

/* Context: anywhere.  Returns: the state of j now; also when its scheduler is gone. */
KC_API kc_job_state_t kc_job_state(const kc_job_t *j);

/*
 * Context: anywhere.  Suspends: no.
 * Returns: 0, and in *code what kc_job_join would return; -EAGAIN: j has not ended; -EINVAL: j is
 *          NULL.
 */
KC_API int kc_job_result(const kc_job_t *j, int *code);

/*
 * Tells what the body of j returned, whatever the outcome of the job: the result of work that was
 * finished in a job that is cancelled, or a code that came after another failure. It answers as
 * soon as the body has returned, while cleanups and children may still run.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0, and in *rc, which may be NULL, what the body returned; -EAGAIN: the body has not
 *          returned yet; -ENOENT: it never will: the job was cancelled before it started, is
 *          unwound, or has no body of its own (groups, promises, scopes); -EINVAL: j is NULL.
 */
KC_API int kc_job_returned(const kc_job_t *j, int *rc);

/*
 * Tells whose failure j has ended with, by number (kc_job_id) and name ("": none): that of j
 * itself, or of a job below it. If a body returns the failure of a scope as its own result, the
 * failure counts as the body's.
 *
 * Context: anywhere; in on_failure also for the job that is reported.  Suspends: no.
 * Returns: 0, and *id and name, each of which may be NULL; -ENOENT: j has not failed; -ENOMEM:
 *          there was no memory to record it; -EINVAL: j is NULL.
 */
KC_API int kc_job_culprit(const kc_job_t *j, uint64_t *id, char name[32]);

/*
 * Attaches text, at most 127 bytes, to the coroutine's own job; a later text replaces it. If the
 * job fails, the text goes with the failure to every job that ends FAILED with it, and kc_dump
 * prints it; otherwise the text is dropped, as it is without memory.
 *
 * Context: a job; elsewhere bad use.  Suspends: no.
 */
KC_API void kc_set_message(const char *fmt, ...) KC_PRINTF(1, 2);

/*
 * Reads the message that goes with the failure of j: that of the job that failed first, else that
 * of j itself.
 *
 * Context: anywhere; in on_failure also for the job that is reported.  Suspends: no.
 * Returns: the full length of the message, and in buf as much of it as n bytes hold, ended by a 0,
 *          as snprintf does; -ENOENT: j has not ended FAILED, or there is no message; -EINVAL: j is
 *          NULL, or buf is NULL and n is not 0.
 */
KC_API int kc_job_message(const kc_job_t *j, char *buf, size_t n);

/* Context: anywhere.  Returns: why j was cancelled; 0: it was not; -EINVAL: j is NULL. */
KC_API int kc_job_reason(const kc_job_t *j);

/*
 * Context: anywhere.
 * Returns: the number of the job, which no other job in the process has or will have; the job's
 *          coroutine has the same number (kcoro_id). Dump, trace, reports and debugger script use
 *          it.
 */
KC_API uint64_t kc_job_id(const kc_job_t *j);

/* Context: anywhere.  Returns: the name of j, valid as long as j is referenced; "": none. */
KC_API const char *kc_job_name(const kc_job_t *j);

/*
 * Waits until j has ended: then its body has returned, its cleanups have run, its stack is no
 * longer used, and the same is true of every job below it. Any number of callers may join, any
 * number of times.
 *
 * Context: anywhere; a plain thread blocks.  Suspends: yes.
 * Cancel: returns -ECANCELED at once, and j continues; but if j is below the job that was
 *         cancelled, so that the cancel reaches j too, only when j has ended. If j has ended
 *         already, or its failure is why the caller was cancelled, the result of j is returned
 *         instead.
 * Returns: 0: j is COMPLETED; its code: FAILED; its reason: CANCELLED; -EDEADLK: j is the caller's
 *          own job or one above it, or the wait would close a cycle (kcoro/sync.h); -EINVAL: j is
 *          NULL. kc_job_join_until returns -ETIMEDOUT, too, if j has not ended at the deadline.
 */
KC_API KC_WARN_UNUSED int kc_job_join(kc_job_t *j);
KC_API KC_WARN_UNUSED int kc_job_join_until(kc_job_t *j, kc_time_t deadline);

/*
 * Waits until one of n jobs has ended, and tells which; the other jobs are left alone. If some have
 * ended when the call begins, it tells the first of them in the list, else the first to end. Takes
 * memory and time in proportion to n.
 *
 * Context: anywhere; a plain thread blocks.  Suspends: yes.
 * Cancel: returns -ECANCELED at once, unless one of the jobs has ended, or its failure is why the
 *         caller was cancelled: then the call tells that job; of several that end during the wait,
 *         one that has failed.
 * Returns: 0, and the job's index in *which, which may be NULL (kc_job_result tells its result);
 *          -EDEADLK: one of the jobs is the caller's own or one above it; -EINVAL: n is 0, or a
 *          NULL; -ENOMEM.
 */
KC_API KC_WARN_UNUSED int kc_join_any(kc_job_t *const *jobs, size_t n, size_t *which);

/* ---- cancel -------------------------------------------------------------------------------- */

/*
 * Asks j and all jobs below it to end, and returns without waiting for that. The first request
 * counts, and its reason; 0 means -ECANCELED. A later reason replaces -ETIMEDOUT only. A job that
 * has not started never starts. Handlers of TERMINATE on a job's signal have run when this call
 * returns; if a handler makes the call, they run right after that handler.
 *
 * Context: anywhere, handlers included.  Suspends: no; takes time in proportion to the number of
 *          jobs below j.
 * Returns: true: this call moved j out of ACTIVE.
 */
KC_API bool kc_job_cancel(kc_job_t *j, int reason);

/*
 * Cancels the current job, as kc_job_cancel does: in a scope, the scope and not the job around it.
 *
 * Context: a job; elsewhere bad use.  Suspends: no.
 * Returns: true: this call moved the current job out of ACTIVE.
 */
KC_API bool kc_cancel_current(int reason);

/*
 * Reports a failure from code that cannot return one: a callback, a cleanup, a deeply nested
 * function. The current job fails with code, as if a child of it had: it is cancelled, with the
 * code as the reason, and ends FAILED. The body continues to its return, whose value no longer
 * matters. Inside a scope it is the scope that fails; inside a cleanup the cancel takes effect when
 * the cleanup has returned.
 *
 * Context: a job; elsewhere, and with a code of 0 or -ECANCELED, bad use.  Suspends: no.
 * Returns: true; false: the job had failed or was cancelled before. The first failure counts: a job
 *          that was cancelled and had not failed ends FAILED with this code, except after a
 *          timeout.
 */
KC_API bool kc_fail_current(int code);

/*
 * Context: anywhere.  Suspends: no.
 * Returns: true: the current job is cancelled, and no shield delays the cancel.
 */
KC_API bool kc_cancelled(void);

/*
 * An explicit look at cancellation, for code that computes.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0; -ECANCELED: the current job is cancelled, and no shield delays the cancel.
 */
KC_API KC_WARN_UNUSED int kc_check(void);

/* Context: anywhere.  Returns: why the current job was cancelled; 0: it was not. */
KC_API int kc_cancel_reason(void);

/*
 * Between kc_shield_begin and kc_shield_end the current job is not effectively cancelled, nor are
 * the jobs below it: a cancel that comes takes effect at the outermost end. Shields nest.
 *
 * The grace of a job bounds how long that may last. It counts from the cancel request; when it is
 * over, shields and cleanups no longer delay the cancel, and calls in them return -ECANCELED too;
 * nothing is ended by force. Scopes, children, groups and the calls of collect.h have the smaller
 * of their own grace and the one above them, and the scheduler's grace bounds all; a detached job
 * or a task has the scheduler's and its own. If there is no memory for the timer of an inherited
 * grace, the grace is over at once. A body that fails was not asked to end: its own cleanups take
 * the time that they need, but the jobs below it have their grace from then on.
 *
 * A body or a scope that ends inside a shield, and an end without a begin, are bad use.
 *
 * Context: a job.  Suspends: no.
 * Returns: 0; -ECANCELED: the cancel came first, no shield is open; -EPERM: there is no job.
 */
KC_API KC_WARN_UNUSED int kc_shield_begin(void);
KC_API void kc_shield_end(void);

/*
 * Opens a shield as kc_shield_begin does, also in a job that is cancelled already: for a last
 * message or a transaction that must be closed. Inside, calls that wait and launches work as they
 * do in a cleanup, until the grace is over. After the matching kc_shield_end the cancel is in
 * effect again.
 *
 * Context: a job; elsewhere bad use.  Suspends: no.
 */
KC_API void kc_shield_begin_nocancel(void);

/*
 * The signal of a job. To emit TERMINATE on it is kc_job_cancel(j, 0); other bits reach the slots
 * of j and of all jobs below it.
 *
 * When the state, the reason, kc_cancelled or -ECANCELED in the body shows that j is cancelled,
 * TERMINATE has been triggered. Under a shield, state and reason show the cancel at once, before
 * TERMINATE is triggered; kc_cancelled, -ECANCELED and TERMINATE follow when the shield ends.
 * Handlers and chains of TERMINATE run after it is triggered, and before the call returns that has
 * cancelled j or has ended the shield.
 *
 * A job that was launched with .signal obeys that signal too: its TERMINATE cancels the job, and
 * its other bits are emitted on the signal of the job; those of the low 32 bits that had been
 * triggered before are emitted at the launch.
 *
 * Context: anywhere.  Returns: the signal of j, borrowed. NULL: no memory.
 */
KC_API kc_signal_t *kc_job_signal(kc_job_t *j);

/*
 * The slot by which the coroutine's own job hears its signal, for handlers of yours. When the end
 * of the job can be observed, the handlers have returned and are not called again.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: the slot; NULL: after kc_forbid_signal, outside jobs, or no memory.
 */
KC_API kc_slot_t *kc_current_slot(void);

/*
 * Cuts the coroutine's own job off from cancellation for good: from now on only the end of its
 * scheduler cancels it. kc_job_cancel of the job returns false, and its timeout does nothing. This
 * is for a job that must run to its own end once it has begun: a journal, an undo, code that cannot
 * bear -ECANCELED in the middle. For a piece of a body use a shield, which ends and is bounded by
 * the grace.
 *
 * A child that fails still cancels its siblings, nothing more can be launched, and the job ends
 * FAILED; but the body continues, and so do the scopes that are open or are opened later. In a job
 * that is cancelled already this changes nothing.
 *
 * Context: a job; elsewhere bad use.  Suspends: no.
 */
KC_API void kc_forbid_signal(void);

/* ---- groups and leases --------------------------------------------------------------------- */

/*
 * Makes a job without a body: launch into it with .parent, from anywhere. The group ends when all
 * its children have ended after it was closed or cancelled. A child's failure cancels the group,
 * unless it is a supervisor.
 *
 * Context: as kc_launch_job.  Suspends: no.
 * Returns: 0; the errors of kc_launch_job; -EINVAL also if out is NULL, and for KC_JOB_NOW.
 * Owns: *out is one reference.
 */
KC_API KC_WARN_UNUSED int kc_group_create(const kc_launch_opts_t *opts, kc_job_t **out);

/*
 * Ends launches into the group: from now on they are refused with -ESHUTDOWN. Cancels nothing.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0, also if the group was closed or cancelled before; -EINVAL: not a group, or NULL.
 */
KC_API int kc_group_close(kc_job_t *group);

/* Keeps a job open from outside, as a child does. The fields are the library's. It may be moved; a
 * copy of one that was released is always recognised: its release aborts with one line. */
typedef struct {
    kc_job_t *job;
    void *ticket;
    uint64_t number;
} kc_lease_t;

/*
 * Holds j open until the lease is released: meanwhile neither j ends nor any job above it.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0; -EINVAL: a NULL; -ESHUTDOWN: j has ended; -ENOMEM.
 * Owns: *lease is one lease, for kc_lease_release.
 */
KC_API KC_WARN_UNUSED int kc_lease_take(kc_job_t *j, kc_lease_t *lease);

/*
 * Gives the lease back. If that lets the job end, it ends on a thread of its scheduler: no code of
 * yours runs inside this call. A lease that is not held, and NULL, are left alone.
 *
 * Context: any thread.  Suspends: no.
 */
KC_API void kc_lease_release(kc_lease_t *lease);

/* ---- waits of one's own -------------------------------------------------------------------- */

/* What ends a wait. It is good for one kc_wake. */
typedef struct kc_waker kc_waker_t;

/*
 * Turns a foreign callback into a wait: begin(w, arg) starts the operation and hands the waker w to
 * it; the callback calls kc_wake(w, rc), from any thread, possibly inside begin already. That ends
 * the wait, and kc_suspend returns rc. The waker is then used up and is not touched any more; arg
 * may lie in the caller's frame.
 *
 * If the job is cancelled during the wait, by any cause (the timeout of a scope around the call
 * included) and not under a shield, cancelled(w, arg) is called once. It must see to it that
 * kc_wake comes, at once or when the foreign side has let go. The wait continues until then, and
 * returns the rc of that kc_wake. cancelled is not called once kc_wake has returned; if kc_wake
 * comes from another thread while cancelled runs, kc_wake does not wait for it. kc_suspend returns
 * after both. A body with KC_JOB_UNWIND is then unwound, whatever rc is, if the cancel was that of
 * its own job. If cancelled is NULL, a cancel does not end the wait, and the next call reports it.
 *
 * begin runs in the job, on its own stack; cancelled runs on the same thread, on the thread's
 * stack, where there is no current job. Both are handlers: they may wake, cancel, emit, unpark,
 * release, and launch (cancelled with a .parent); a call that waits, and KC_JOB_NOW, are bad use
 * there.
 *
 * With virtual time or a seed, a scheduler whose jobs all wait is not deadlocked while one of them
 * waits here: it waits in real time.
 *
 * Context: anywhere but in handlers; a plain thread blocks, and is never cancelled.  Suspends: yes.
 * Cancel: as above. In a job that is cancelled already begin is not called: -ECANCELED, also if
 *         cancelled is NULL.
 * Returns: the rc of kc_wake; if begin was not called: -ECANCELED, -ENOMEM, or -EINVAL: begin is
 *          NULL.
 */
KC_API KC_WARN_UNUSED int kc_suspend(void (*begin)(kc_waker_t *w, void *arg),
                                     void (*cancelled)(kc_waker_t *w, void *arg), void *arg);

/*
 * Ends the wait of w with the result rc. A second call for one waker is bad use and is recognised:
 * always, until the memory of the waker belongs to another one; then in 127 of 128 cases, and with
 * KCORO_DEBUG=1 always.
 *
 * Context: any thread, handlers included; not in handlers of unix signals.  Suspends: no.
 */
KC_API void kc_wake(kc_waker_t *w, int rc);

/* ---- locals -------------------------------------------------------------------------------- */

/*
 * Sets a value of the coroutine's own job, which its children inherit when they are launched. The
 * parent does not see what a child sets. A key is an address of yours.
 *
 * Context: a job.  Suspends: no.
 * Returns: 0; -EPERM: there is no job; -EINVAL: key is NULL; -ENOMEM.
 */
KC_API KC_WARN_UNUSED int kc_local_set(const void *key, void *value);

/*
 * Context: anywhere.  Returns: the value that was set for key, here or inherited; NULL: none was.
 */
KC_API void *kc_local_get(const void *key);

KC_END_DECLS

#include <kcoro/deferred.h>

#endif
