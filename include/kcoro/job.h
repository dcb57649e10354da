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
 * returns -ECANCELED from then on, until the body ends. What did happen is reported as done: the
 * next call reports the cancellation.
 *
 * The current job is the one of the innermost open scope around the caller, else the coroutine's
 * own. Handles are reference counted. Releasing one cancels no job, but the last release of a
 * pending promise cancels it; kc_job_drop and kc_deferred_drop cancel. A table of every call that
 * cancels, gives up or waits is in docs/guide/cancel-or-give-up.md. NULL where a handle is needed:
 * -EINVAL from every call that returns an int, else bad use.
 *
 * In src: job/launch.c, job/scope.c, job/join.c, job/join_any.c, job/oneshot.c, job/cancel.c,
 * job/job_info.c, job/body.c, job/failure.c, job/payload.c, job/locals.c, job/suspend.c,
 * job/job_signal.c.
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
    KC_JOB_DETACHED = 2,   /* nobody's child: of all above it only the scheduler's end cancels it
                              and waits                                                           */
    KC_JOB_NOW = 4,      /* starts inside the launch, on the caller's thread: see kc_launch_job */
    KC_JOB_UNWIND = 8,   /* cancelled at a suspension point, the body is not resumed: its scopes
                              end and its cleanups run, and that is all                           */
    KC_JOB_MIGRATE = 16, /* for KC_WORKER: where it suspends it may be moved to another worker, the
                              one that wakes it or one that sleeps. What its thread keeps (errno,
                              thread-local variables, locks of other libraries) is then another's */
    KC_JOB_ALONE = 32    /* its failure is a value: for whoever joins or awaits it, and for nobody
                              else. It cancels neither its parent nor its siblings and does not
                              decide how its parent ends. A child in every other way: waited for,
                              and cancelled with its parent. Of a group: the failures in it stay
                              in it. Promises are so always. Not together with KC_JOB_DETACHED,
                              nor for scopes, whose failure is the value of their end           */
};

struct kc_launch_opts {
    kc_job_t *parent;       /* NULL: the current job                                             */
    kc_sched_t *sched;      /* NULL: the parent's, or the current one                            */
    kc_affinity_t affinity; /* KC_WORKER, KC_MAIN, KC_WORKER_AT(i), KC_HERE                      */
    uint32_t flags;         /* KC_JOB_*                                                          */
    size_t stack;           /* 0: the scheduler's default                                        */
    kc_time_t timeout;      /* from the launch; 0: none                                          */
    kc_time_t grace;        /* how long shields and cleanups hold a cancel back; 0: as above it  */
    kc_signal_t *signal;    /* also obey this signal's TERMINATE; see kc_job_signal              */
    void (*dispose)(void *arg); /* called instead of fn if it ends without having started        */
    const char *name;           /* copied, 31 bytes at most                                      */
};                              /* kc_launch_opts_t */

typedef struct {
    uint32_t flags;       /* KC_JOB_SUPERVISOR                                                   */
    kc_time_t timeout;    /* 0: none                                                             */
    kc_time_t grace;      /* how long shields and cleanups hold a cancel back; 0: as around it   */
    uint32_t max_running; /* so many children at a time are started and not ended; 0: no limit   */
    kc_signal_t *signal;  /* also obey this signal's TERMINATE; see kc_job_signal                */
    const char *name;     /* copied, 31 bytes at most                                            */
} kc_scope_opts_t;

/* ---- launch -------------------------------------------------------------------------------- */

/*
 * Runs fn(arg) as a child of the current job, on the workers.
 *
 * Context: a job.  Suspends: no.
 * Returns: 0; -EINVAL: fn is NULL; -EPERM: there is no current job; -ECANCELED: it is being
 *          cancelled; -ENOMEM. If it is not 0, fn is never called and arg is still the caller's.
 */
KC_API KC_WARN_UNUSED int kc_launch(kc_fn_t fn, void *arg);

/*
 * The same with options, as a child of opts->parent. out: a handle; NULL: none.
 *
 * A job gets its stack when it starts. If there is none then, it waits until others give theirs
 * back: kc_dump and kc_metrics say so, and what is missing. If nothing else of its scheduler can
 * run any more it ends FAILED with -ENOMEM: with virtual time or a seed at once; else when for a
 * second no coroutine of the scheduler has run, no timer was set, no lease or promise was open, and
 * the main thread was in a call that waits.
 *
 * With KC_JOB_NOW the job starts inside this call, on the caller's thread, and the call returns
 * when it first suspends or ends. The caller must be in a job of the same scheduler, and the
 * affinity must mean its thread: KC_WORKER (0, the default) does, whatever thread that is, the main
 * one too; so do KC_HERE and the thread's own KC_MAIN or KC_WORKER_AT(i). It starts later, on that
 * thread, if max_running of its scope is reached or there is no stack, and never if it is cancelled
 * before. With KC_JOB_MIGRATE and KC_WORKER it may be moved once it has suspended.
 *
 * Context: anywhere; outside jobs with a parent, or with a scheduler: then it is nobody's child.
 * Suspends: with KC_JOB_NOW, until the child suspends or ends; one of some hundreds also until all
 *          who are ready have had a turn.
 * Returns: 0: exactly one of fn and dispose will be called, in the new job and on its stack (if
 *          there is none: on the thread's own); dispose is shielded as cleanups are, and may not
 *          suspend; -EINVAL: no such place or flag, a negative time, KC_JOB_NOW for another thread
 *          or scheduler, or outside a job; -EPERM: no parent, scheduler or current job; -ECANCELED:
 *          the parent is being cancelled; -ESHUTDOWN: it has ended, or is a closed group; -ENOMEM:
 *          no memory, or a stack that is larger than the address space or its limit (RLIMIT_AS).
 * Owns: *out is one reference.
 */
KC_API KC_WARN_UNUSED int kc_launch_job(kc_fn_t fn, void *arg, const kc_launch_opts_t *opts,
                                        kc_job_t **out);

/* ---- scopes -------------------------------------------------------------------------------- */

/*
 * Runs fn(arg), on the caller's stack, inside a scope: waits for all that was launched in it.
 *
 * Context: a job.  Suspends: yes.
 * Cancel: fn runs in any case, in a scope that is cancelled with its job; its end is waited for.
 * Returns: 0; what failed first, fn or a child; -ETIMEDOUT: its own timeout; the reason it was
 *          cancelled for; -EDEADLK: it would wait for its children in a cycle (kcoro/sync.h). A
 *          scope's failure never cancels the job around it.
 *          fn was not called: -EPERM: there is no job; -EINVAL: fn is NULL, a flag other than
 *          KC_JOB_SUPERVISOR, a negative time; -ENOMEM.
 */
KC_API KC_WARN_UNUSED int kc_scope(kc_fn_t fn, void *arg, const kc_scope_opts_t *opts);

/* An open scope. It must not move. The fields are the library's. */
typedef struct kc_scope {
    kc_job_t *job;
    kc_cleanup_t mark;
} kc_scope_t;

/*
 * The same inline: what stands between begin and end is the scope. Scopes nest. In a cancelled job
 * the scope is born cancelled. There is no return value here by which the scope could fail: before
 * the end say kc_fail_current(code), or kc_cancel_current(code), if what was launched is to stop. A
 * body that returns with a scope open is bad use.
 *
 * Context: a job.  Suspends: begin no; end yes.  Cancel: not looked at: end always waits.
 * Returns: begin: 0; -EPERM, -EINVAL, -ENOMEM: no scope is open, do not call end. end: as kc_scope;
 *          what is not the innermost open scope of the caller is bad use, NULL is -EINVAL.
 */
KC_API KC_WARN_UNUSED int kc_scope_begin(kc_scope_t *s, const kc_scope_opts_t *opts);
KC_API KC_WARN_UNUSED int kc_scope_end(kc_scope_t *s);

/* Context: anywhere while s is open.  Returns: its job, borrowed. */
KC_API kc_job_t *kc_scope_job(kc_scope_t *s);

/* ---- handles ------------------------------------------------------------------------------- */

/* Context: anywhere.  Returns: the current job, borrowed; NULL: none. */
KC_API kc_job_t *kc_job_current(void);

/* Context: anywhere.  Returns: j.  Owns: one reference more. */
KC_API kc_job_t *kc_job_retain(kc_job_t *j);

/* Gives one reference up. NULL does nothing.  Context: anywhere.
 * A handle of a job that has ended, used after its last release, is recognised, and aborts with one
 * line, until a new job gets its memory: not before the thread that released it has launched 30
 * more, or has ended; with KCORO_DEBUG=1 never. The same holds for deferred values. A job that has
 * not ended is there whether anybody has a handle or not. */
KC_API void kc_job_release(kc_job_t *j);

/* Cancels j, then gives the reference up. NULL does nothing.  Context: anywhere. */
KC_API void kc_job_drop(kc_job_t *j);

/* What KC_JOB_DROP_AT_END calls.  Context: anywhere. */
static inline void kc_job_drop_at_end(void *j)
{
    kc_job_drop((kc_job_t *)j);
}

/* Cancels a job and gives the reference up at the end of the enclosing block, however that is left,
 * and when the body is unwound; it does not wait for the job. As KC_CLEANUP, one per line. */
#define KC_JOB_DROP_AT_END(job) KC_CLEANUP(kc_job_drop_at_end, 1 ? (job) : (kc_job_t *)0)

/* Context: anywhere.  Returns: its state now; also when its scheduler is gone. */
KC_API kc_job_state_t kc_job_state(const kc_job_t *j);

/* Context: anywhere.  Returns: 0, and in *code what kc_job_join gives; -EAGAIN: it goes on;
 * -EINVAL: j is NULL. */
KC_API int kc_job_result(const kc_job_t *j, int *code);

/*
 * What the body of j returned, whatever the outcome: work that was finished in a job that is
 * cancelled, a code that another failure came before. It answers as soon as the body has returned,
 * while cleanups and children go on.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0, and in *rc, which may be NULL, what it returned; -EAGAIN: it has not yet; -ENOENT: it
 *          never will: it did not start before it was cancelled, it is unwound, or it has no body
 *          of its own (groups, promises, scopes); -EINVAL: j is NULL.
 */
KC_API int kc_job_returned(const kc_job_t *j, int *rc);

/*
 * Whose failure j has ended with: its number (kc_job_id) and name ("": none). That is j itself, or
 * a job below it. The failure of a scope that its body hands on as a value is the body's own.
 *
 * Context: anywhere; for the job that is reported in on_failure too.  Suspends: no.
 * Returns: 0, and id and name, each of which may be NULL; -ENOENT: j has not failed; -ENOMEM: there
 *          was no memory to keep it; -EINVAL: j is NULL.
 */
KC_API int kc_job_culprit(const kc_job_t *j, uint64_t *id, char name[32]);

/*
 * Attaches text to the coroutine's own job, at most 127 bytes; a second one replaces the first. It
 * is a part of its failure: if it fails, the text goes with that to every job that ends FAILED with
 * it, and kc_dump prints it. Otherwise nobody hears of it. Without memory it is lost.
 *
 * Context: a job; elsewhere bad use.  Suspends: no.
 */
KC_API void kc_set_message(const char *fmt, ...) KC_PRINTF(1, 2);

/*
 * What is said about the failure of j: the message of the job that failed first, else of j itself.
 *
 * Context: anywhere; for the job that is reported in on_failure too.  Suspends: no.
 * Returns: its length, and in buf as much as n bytes hold, with a 0 at the end, as snprintf does;
 *          -ENOENT: j has not ended FAILED, or there is none; -EINVAL: j is NULL, or buf is and n
 *          is not 0.
 */
KC_API int kc_job_message(const kc_job_t *j, char *buf, size_t n);

/* Context: anywhere.  Returns: why it was cancelled; 0: it was not; -EINVAL: j is NULL. */
KC_API int kc_job_reason(const kc_job_t *j);

/* Context: anywhere.  Returns: the number of the job, which no other in the process has or will
 * have; its coroutine has the same (kcoro_id). Dump, trace, reports and debugger script use it. */
KC_API uint64_t kc_job_id(const kc_job_t *j);

/* Context: anywhere.  Returns: its name, as long as j is there; "": none. */
KC_API const char *kc_job_name(const kc_job_t *j);

/*
 * Waits until j has ended: then its body has returned, its cleanups have run, its stack is no
 * longer used, and the same holds for all below it. Any number may join, any number of times.
 *
 * Context: anywhere; a plain thread blocks.  Suspends: yes.
 * Cancel: -ECANCELED: at once and j goes on; or, if j is below the job that was cancelled, so that
 *         the cancel reaches it too, when it has ended. But of one that has ended, or whose failure
 *         is why the caller was cancelled, it returns the result all the same.
 * Returns: 0: COMPLETED; its code: FAILED; its reason: CANCELLED; -EDEADLK: j is the caller's own
 *          job or one above it, or the wait would close a cycle (kcoro/sync.h); -EINVAL: j is NULL.
 *          kc_job_join_until: -ETIMEDOUT also if it goes on at the deadline.
 */
KC_API KC_WARN_UNUSED int kc_job_join(kc_job_t *j);
KC_API KC_WARN_UNUSED int kc_job_join_until(kc_job_t *j, kc_time_t deadline);

/*
 * Waits until one of n jobs has ended, and says which; the others go on untouched. If some have
 * ended already, the first of them in the list, else the first by time. Takes memory and time in
 * proportion to n.
 *
 * Context: anywhere; a plain thread blocks.  Suspends: yes.
 * Cancel: -ECANCELED at once; but one that has ended, or whose failure is why the caller was
 *         cancelled, is returned all the same, and of these the one that has failed.
 * Returns: 0, and in *which, which may be NULL, its index (kc_job_result tells the rest);
 *          -EDEADLK: one of them is the caller's own job or one above it; -EINVAL: n is 0, or a
 *          NULL; -ENOMEM.
 */
KC_API KC_WARN_UNUSED int kc_join_any(kc_job_t *const *jobs, size_t n, size_t *which);

/* ---- cancel -------------------------------------------------------------------------------- */

/*
 * Asks j and all below it to end. The first request counts, and its reason; 0 means -ECANCELED. A
 * later reason replaces only -ETIMEDOUT. What has not started never will. Those who listen for
 * TERMINATE on a job's signal are told before this returns; in a handler, right after that.
 *
 * Context: anywhere, handlers included.  Suspends: no; takes time in proportion to what is below j.
 * Returns: true: this call moved it out of ACTIVE.
 */
KC_API bool kc_job_cancel(kc_job_t *j, int reason);

/* Context: a job; elsewhere it is bad use.  Suspends: no.
 * Returns: as kc_job_cancel of the current job. */
KC_API bool kc_cancel_current(int reason);

/*
 * For what cannot return its failure, a callback, a cleanup, deep code: the current job has failed
 * with code, as if a child of its had. It is cancelled, with the code as the reason, and ends
 * FAILED. The body goes on to its return, whose value does not matter any more. In a scope it is
 * the scope that has failed; in a cleanup the cancel waits until that is done.
 *
 * Context: a job; elsewhere, and with a code of 0 or -ECANCELED, bad use.  Suspends: no.
 * Returns: false: it had failed or was cancelled before. The first failure counts; if there was a
 *          cancel only, it ends FAILED with this one (but after a timeout).
 */
KC_API bool kc_fail_current(int code);

/* Context: anywhere.  Returns: the current job is effectively cancelled: no shield holds it back.
 */
KC_API bool kc_cancelled(void);

/* An explicit look at cancellation, for code that computes.  Context: anywhere.  Suspends: no.
 * Returns: 0; -ECANCELED as any call that can wait. */
KC_API KC_WARN_UNUSED int kc_check(void);

/* Context: anywhere.  Returns: why the current job was cancelled; 0: it was not. */
KC_API int kc_cancel_reason(void);

/*
 * Between begin and end the current job is not effectively cancelled, nor is what is below it: a
 * cancel that comes is carried out at the outermost end. Shields nest.
 *
 * How long that may last is a job's grace, which counts from the cancel request: then shields and
 * cleanups hold the cancel back no longer, and calls in them return -ECANCELED too; nothing is
 * ended by force. Scopes, children, groups and the calls of collect have the smaller one of their
 * own and that above them, and the scheduler's bounds all; a detached job or a task has the
 * scheduler's and its own. If there is no memory for the clock of a grace that was inherited, it is
 * over at once. A body that fails was not asked to end: its own cleanups take the time they need,
 * but from then on what is below it has its grace.
 *
 * A body or a scope that ends inside a shield, and an end without a begin, are bad use.
 *
 * Context: a job.  Suspends: no.
 * Returns: 0; -ECANCELED: the cancel came first, no shield is open; -EPERM: there is no job.
 */
KC_API KC_WARN_UNUSED int kc_shield_begin(void);
KC_API void kc_shield_end(void);

/*
 * The same, also in a job that is cancelled already: for what must still be said on the way out.
 * Inside, calls that wait and launches work as they do in a cleanup, until the grace is over; after
 * its kc_shield_end the cancel is in effect again.
 *
 * Context: a job; elsewhere it is bad use.  Suspends: no.
 */
KC_API void kc_shield_begin_nocancel(void);

/*
 * Emitting TERMINATE on the signal of a job is kc_job_cancel(j, 0); other bits reach the slots of j
 * and of all below it. Whoever sees that j is cancelled, by its state, its reason, kc_cancelled or
 * -ECANCELED in its body, finds TERMINATE triggered; but under a shield, which shows the first two
 * at once and the others, with TERMINATE, when it ends. Handlers and chains of TERMINATE are told
 * after that, and before the call returns that has cancelled j or has ended the shield.
 *
 * A job that was launched with .signal obeys that signal too: its TERMINATE cancels the job, its
 * other bits are emitted on the signal of the job, those of the low 32 that had been triggered
 * before at the launch.
 *
 * Context: anywhere.  Returns: the signal of j, borrowed. NULL: no memory.
 */
KC_API kc_signal_t *kc_job_signal(kc_job_t *j);

/* Context: anywhere.  Suspends: no.  Returns: the slot by which the coroutine's own job hears its
 * signal, for handlers of yours; NULL: after kc_forbid_signal, outside jobs, or no memory. Its
 * handlers have returned, and are not called again, when anybody can see that the job has ended. */
KC_API kc_slot_t *kc_current_slot(void);

/*
 * Cuts the coroutine's own job off for good: only the end of its scheduler cancels it from now on.
 * kc_job_cancel of it returns false, and its timeout does nothing. It is for a job that must come
 * to its own end once it has begun: a journal, an undo, code that cannot bear -ECANCELED in the
 * middle. For a piece of a body use a shield, which ends and is bounded by the grace.
 *
 * A child that fails still cancels its siblings, no more can be launched, and the job ends FAILED;
 * but the body goes on, and so do the scopes that it is in or opens later. In a job that is
 * cancelled already it changes nothing.
 *
 * Context: a job; elsewhere it is bad use.  Suspends: no.
 */
KC_API void kc_forbid_signal(void);

/* ---- groups and leases --------------------------------------------------------------------- */

/*
 * A job without a body: launch into it with .parent, from anywhere. It ends when it is closed and
 * its children have ended, or when it is cancelled, which a child's failure does too (unless it is
 * a supervisor), and they have.
 *
 * Context: as kc_launch_job.  Suspends: no.
 * Returns: as kc_launch_job; -EINVAL: also if out is NULL, and for KC_JOB_NOW.
 * Owns: *out is one reference.
 */
KC_API KC_WARN_UNUSED int kc_group_create(const kc_launch_opts_t *opts, kc_job_t **out);

/* No more launches into it; cancels nobody.  Context: anywhere.  Suspends: no.
 * Returns: 0, also if it was closed or cancelled before; -EINVAL: not a group, or NULL. */
KC_API int kc_group_close(kc_job_t *group);

/* Keeps a job open from outside, as a child does. The fields are the library's. It may be moved; a
 * copy of one that was released is always recognised: its release aborts with one line. */
typedef struct {
    kc_job_t *job;
    void *stub;
    uint64_t number;
} kc_lease_t;

/*
 * Holds j open until the lease is released: it does not end, nor does anything above it.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0; -EINVAL: a NULL; -ESHUTDOWN: j has ended; -ENOMEM.
 * Owns: *lease is one lease, for kc_lease_release.
 */
KC_API KC_WARN_UNUSED int kc_lease_take(kc_job_t *j, kc_lease_t *lease);

/* Gives the lease back. What ends by that ends on a thread of its scheduler: nothing of yours runs
 * inside this call. One that is not held, and NULL, are left alone.
 * Context: any thread.  Suspends: no. */
KC_API void kc_lease_release(kc_lease_t *lease);

/* ---- waits of one's own -------------------------------------------------------------------- */

/* What ends a wait. It is good for one kc_wake. */
typedef struct kc_waker kc_waker_t;

/*
 * Makes a wait of a foreign callback: begin(w, arg) starts what is waited for and hands w on; the
 * callback calls kc_wake(w, rc), from any thread, also inside begin already. That ends the wait:
 * kc_suspend returns rc. The waker is then over, and is not touched any more; arg may lie in the
 * caller's frame.
 *
 * If the job is cancelled meanwhile, by whatever and with effect (not under a shield), also by the
 * timeout of a scope around the call, cancelled(w, arg) is called, once: it has to see to it that
 * kc_wake comes, at once or when the foreign side has let go. The wait goes on until then, and
 * returns that rc. It is not called any more when kc_wake has returned; but if kc_wake comes from
 * another thread while it runs, kc_wake does not wait for it. kc_suspend returns after both. A body
 * with KC_JOB_UNWIND is unwound then, whatever rc is, if the cancel was its own job's. If cancelled
 * is NULL a cancel does not count here, and the next call reports it.
 *
 * begin runs in the job, on its own stack; cancelled on the same thread, on the thread's stack,
 * where there is no current job. Both are handlers: they may wake, cancel, emit, unpark, release,
 * and launch (cancelled with a .parent); a call that waits, and KC_JOB_NOW, are bad use there.
 *
 * With virtual time or a seed, a scheduler whose jobs all wait is in no deadlock while one waits
 * here: it waits in real time.
 *
 * Context: anywhere but in handlers; a plain thread blocks, and nobody cancels it.  Suspends: yes.
 * Cancel: see above. In a job that is cancelled already begin is not called: -ECANCELED, also if
 *         cancelled is NULL.
 * Returns: what kc_wake says; -ECANCELED, -EINVAL: begin is NULL, -ENOMEM: begin was not called.
 */
KC_API KC_WARN_UNUSED int kc_suspend(void (*begin)(kc_waker_t *w, void *arg),
                                     void (*cancelled)(kc_waker_t *w, void *arg), void *arg);

/*
 * Ends the wait of w, with this result. A second call for one waker is bad use and is recognised:
 * always, until the memory of the waker belongs to another one; then in 127 of 128 cases, and with
 * KCORO_DEBUG=1 always.
 *
 * Context: any thread, handlers included; not a unix signal's.  Suspends: no.
 */
KC_API void kc_wake(kc_waker_t *w, int rc);

/* ---- locals -------------------------------------------------------------------------------- */

/*
 * A value of the coroutine's own job, which children inherit when they are launched. What a child
 * sets, its parent does not see. A key is an address of yours.
 *
 * Context: a job.  Suspends: no.  Returns: 0; -EPERM: there is no job; -EINVAL: key is
 * NULL; -ENOMEM.
 */
KC_API KC_WARN_UNUSED int kc_local_set(const void *key, void *value);

/* Context: anywhere.  Returns: the value; NULL: none was set. */
KC_API void *kc_local_get(const void *key);

/* ---- deferred values ----------------------------------------------------------------------- */

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

/* As kc_launch and kc_launch_job, with a handle to the value, which awaits it.
 * Context: as there.  Suspends, Returns, Owns: as there. */
KC_API KC_WARN_UNUSED int kc_async(kc_fn_t fn, void *arg, kc_deferred_t **out);
KC_API KC_WARN_UNUSED int kc_async_job(kc_fn_t fn, void *arg, const kc_launch_opts_t *opts,
                                       kc_deferred_t **out);

/* What the await of the coroutine's own job hands over, if that completes. Another value replaces
 * it. It must outlive the body's frame.  Context: a job; elsewhere bad use.  Suspends: no. */
KC_API void kc_set_payload(void *payload);

/*
 * The same for a value that must not get lost: dispose(payload) is called, once, if the job ends
 * other than completed, before that is known to anybody; if no kc_await or kc_deferred_get, with a
 * pointer for it, and no call of collect.h has handed it over when the last handle of the job goes,
 * inside that release; or if another value is set, at once. Setting the same value again changes
 * what disposes of it; kc_set_payload of it: nothing does. If the value or dispose is NULL this is
 * kc_set_payload.
 *
 * Such a value is for one taker. All who await it get the same pointer, and from the first on it is
 * theirs and dispose is not called any more: which one of several frees it is up to the program.
 *
 * Without memory the value is disposed of at once, and the job fails with -ENOMEM.
 *
 * Context: a job; elsewhere bad use. dispose is a handler: it may not wait.  Suspends: no.
 * Owns: payload.
 */
KC_API void kc_set_payload_with(void *payload, void (*dispose)(void *payload));

/* Joins, and hands over the value; NULL if it did not complete, or the wait was cut short. payload
 * may be NULL. -ECANCELED may be the caller's or the value's: kc_job_result of kc_deferred_job
 * tells (-EAGAIN: it goes on).
 * Context: anywhere; a plain thread blocks.  Suspends, Cancel, Returns: as kc_job_join. */
KC_API KC_WARN_UNUSED int kc_await(kc_deferred_t *d, void **payload);

/* The same without waiting.  Context: anywhere.  Suspends: no.  Cancel: not looked at.
 * Returns: -EAGAIN: pending, and payload is not written; else as kc_await. */
KC_API int kc_deferred_get(kc_deferred_t *d, void **payload);

/* Context: anywhere.  Returns: its state now. */
KC_API kc_deferred_state_t kc_deferred_state(const kc_deferred_t *d);

/* Context: anywhere.  Returns: its job, borrowed. */
KC_API kc_job_t *kc_deferred_job(kc_deferred_t *d);

/* Context: anywhere.  Returns: d.  Owns: one reference more. */
KC_API kc_deferred_t *kc_deferred_retain(kc_deferred_t *d);

/* Gives one reference up; the last one cancels a promise that is pending. NULL does nothing.
 * Context: anywhere.  Suspends: no. */
KC_API void kc_deferred_release(kc_deferred_t *d);

/* Cancels its job, then gives the reference up. NULL does nothing.
 * Context: anywhere.  Suspends: no. */
KC_API void kc_deferred_drop(kc_deferred_t *d);

/*
 * A child without a coroutine, which somebody completes from outside. The job around it waits for
 * it. Cancelled, it is CANCELLED at once. Its failure is a value, data that arrived and not work
 * that broke: whoever awaits it gets it, now or later, and nobody is cancelled.
 *
 * Context: as kc_launch_job.  Suspends: no.
 * Returns: as kc_launch_job; -EINVAL: also if out is NULL, and for KC_JOB_NOW.
 * Owns: *out is one reference.
 */
KC_API KC_WARN_UNUSED int kc_promise(const kc_launch_opts_t *opts, kc_deferred_t **out);

/*
 * Keeps a promise: rc 0 with a value, -ECANCELED, or a failure.
 *
 * Context: any thread.  Suspends: no.
 * Returns: 0; -EALREADY: it was completed before; -ECANCELED: it was cancelled before; -EINVAL: d
 *          is no promise, or NULL.
 */
KC_API int kc_promise_complete(kc_deferred_t *d, int rc, void *payload);

/* The writing half of a value: whoever has it owes an answer. */
typedef struct kc_resolver kc_resolver_t;

/*
 * A promise in two halves: who awaits it has *out, who keeps it has *resolver. If either is given
 * up, the other hears of it.
 *
 * Context: as kc_launch_job.  Suspends: no.
 * Returns: as kc_promise; -EINVAL: also if resolver is NULL.
 * Owns: *out is one reference; *resolver is given up by kc_resolve or kc_resolver_drop.
 */
KC_API KC_WARN_UNUSED int kc_oneshot(const kc_launch_opts_t *opts, kc_deferred_t **out,
                                     kc_resolver_t **resolver);

/*
 * Answers, as kc_promise_complete does, and gives r up. A resolver that is used a second time is
 * recognised as kc_wake says.
 *
 * Context: any thread.  Suspends: no.
 * Returns: 0; -ECANCELED: nobody wants it any more, as all handles were released or the promise was
 *          cancelled: payload is still the caller's; -EINVAL: r is NULL.
 */
KC_API int kc_resolve(kc_resolver_t *r, int rc, void *payload);

/* Gives r up without an answer: whoever awaits it gets -EPIPE. NULL does nothing.
 * Context: any thread.  Suspends: no. */
KC_API void kc_resolver_drop(kc_resolver_t *r);

KC_END_DECLS

#endif
