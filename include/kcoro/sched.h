/* SPDX-License-Identifier: MIT */
/*
 * kcoro/sched.h - schedulers: coroutines over threads.
 *
 *     static int hello(void *arg) { printf("hello from a coroutine\n"); return 0; }
 *     int main(void) { return kc_run(hello, NULL, NULL); }
 *
 * A scheduler has one main thread, the one that created it, and any number of workers. The main
 * thread runs its coroutines while it pumps: inside kc_run and kc_sched_run, or for a moment in
 * kc_sched_run_expired and kc_sched_poll. A task that has not started yet owns no stack; idle
 * workers take such tasks from each other, and tasks that wait first and compute later start on the
 * worker that has fewer coroutines. A task that has started stays on its thread, unless it hops.
 * Several schedulers may live in one process, on different threads.
 *
 * Every wait of the main thread pumps: outside coroutines the calls that wait (kc_sleep, joins,
 * locks, channels, select) run the main thread's tasks until the wait ends.
 *
 * Unix signals: the handler of a unix signal may call kc_version and no other function of the
 * library, because it may have interrupted a function that holds a lock. "Handlers" in these
 * headers are those of signals and slots. To end a job by a unix signal have a thread wait in
 * sigwait(3), or the handler write to a pipe that your loop reads, and call kc_job_cancel there.
 *
 * fork: a child of a process with schedulers has a copy of their memory and none of their threads.
 * It may only exec or _exit: every call there that needs a scheduler (what launches, waits, yields
 * or pumps, and the end of a body) prints one line and aborts; so does kc_run. Locks that no other
 * thread holds may be used until then. If all schedulers were destroyed before the fork, the child
 * may make its own. The library installs no fork handlers; the kernel wipes a page in the child
 * (Linux 4.14 on).
 *
 * In src: sched/run.c, job/root.c, job/sleep.c, job/wait.c.
 */
#ifndef KCORO_SCHED_H
#define KCORO_SCHED_H

#include <kcoro/base.h>
#include <kcoro/call.h>
#include <kcoro/time.h>

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

KC_BEGIN_DECLS

typedef struct kc_sched kc_sched_t;
typedef struct kc_job kc_job_t; /* see kcoro/job.h */

enum {
    /* The clock jumps to the next timer when nothing is ready. */
    KC_SCHED_VIRTUAL_TIME = 1,
    /* As kcoro_report_overflow. */
    KC_SCHED_REPORT_OVERFLOW = 2,
    /* The main thread runs worker tasks, too, while it is in kc_run or kc_sched_run. */
    KC_SCHED_MAIN_WORKS = 4,
    /* SIGQUIT prints the scheduler's jobs to stderr, as kc_dump does. The handler that was there
     * before is restored when no scheduler has this flag any more. */
    KC_SCHED_DUMP_ON_SIGQUIT = 8,
    /* Jobs that wait for each other in a cycle are found when the last wait of the cycle begins:
     * see kcoro/sync.h. Always on with virtual time. */
    KC_SCHED_FIND_DEADLOCKS = 16,
};

#define KC_NO_WORKERS (-1)
enum { KC_MAX_WORKERS = 46 };

typedef struct {
    int workers;       /* 0: one per CPU less one, at least one; KC_NO_WORKERS: none          */
    size_t stack_size; /* default for its coroutines; 0: 64 KiB                               */
    uint32_t flags;    /* KC_SCHED_*                                                          */
    uint64_t seed;     /* not 0: it decides the order of ready coroutines; needs no workers   */
    const char *name;  /* for reports; copied, 31 bytes at most                               */
    kc_time_t grace;   /* bounds the grace of all its jobs (job.h), in kc_sched_destroy too;
                          0: no limit                                                         */
    /* Called once for each job that ends FAILED, whether or not its failure is reported elsewhere:
     * on the thread that ends the job, before its end can be observed. Scopes, groups and promises
     * are not reported. It may not suspend, launch or cancel. kc_job_name, kc_job_id,
     * kc_job_returned, kc_job_culprit and kc_job_message of job say more; a job that fails because
     * a child has failed is reported after the child, with another job as culprit. NULL: none. */
    void (*on_failure)(kc_job_t *job, int code, void *arg);
    void *on_failure_arg;
} kc_sched_opts_t;

/* Where a task runs. */
typedef int32_t kc_affinity_t;
#define KC_WORKER 0  /* any worker; the pumping thread, where there are none            */
#define KC_MAIN (-1) /* the thread that created the scheduler                           */
#define KC_HERE (-2) /* the caller's own thread: -EINVAL if that is not the scheduler's */
#define KC_WORKER_AT(i) ((i) + 1)

/* What a task may have beside its function. */
typedef struct {
    /* Called once for arg when fn will not be called, or, for an interval task, not again: because
     * the task is cancelled, its token is released, or its scheduler ends (before kc_sched_destroy
     * returns). It may run inside the call that cancels, and must not suspend. NULL: none. */
    void (*dispose)(void *arg);
    const char *name; /* of its job; copied, 31 bytes at most */
} kc_task_opts_t;

/*
 * Makes a scheduler and starts its workers. The calling thread becomes its main thread, and must
 * destroy the scheduler before the thread ends; not to do so is bad use (the end of the process
 * does not count as the end of the thread). NULL opts mean all defaults.
 *
 * Context: outside coroutines.  Suspends: no.
 * Returns: 0; -EINVAL: out is NULL, flags that do not exist, more than KC_MAX_WORKERS workers, a
 *          seed or virtual time together with workers; -EPERM: inside a coroutine, or this thread
 *          is the main thread of another scheduler already; -ENOMEM, -EAGAIN: no memory or threads,
 *          or a stack_size that is larger than the address space or its limit (RLIMIT_AS). After an
 *          error nothing is left behind.
 */
KC_API int kc_sched_create(const kc_sched_opts_t *opts, kc_sched_t **out);

/*
 * Ends the scheduler: cancels every job that is left, with the reason -ESHUTDOWN, and waits until
 * all have ended, pumping main work meanwhile; then stops the workers and frees all memory. A job
 * that has not started never starts. A job that waits gets -ECANCELED and runs to its end; its
 * cleanups may wait. So this call takes as long as bodies, shields (up to their grace) and leases
 * take. With virtual time or a seed, where the library can see that all jobs that are left wait for
 * ever, the grace of all shields is over then.
 *
 * kc_sched_stop only ends a run; docs/guide/cancel-or-give-up.md compares what ends things.
 *
 * Calls that take s must not overlap with this one; calls on jobs, tokens and deferred values may.
 * An old handle is recognised: its use aborts with one line. That holds until a scheduler with as
 * many workers is created, which gets the memory; with KCORO_DEBUG=1 it holds for ever.
 *
 * Context: the main thread, outside coroutines.  Suspends: blocks the thread.
 * Returns: 0, also for NULL; -EDEADLK: called from one of its own coroutines; -EPERM: another
 *          thread.
 */
KC_API int kc_sched_destroy(kc_sched_t *s);

/*
 * Runs fn(arg) once as a task: the job of a fresh coroutine, without a parent. Its failure cancels
 * nothing and changes no result. What one thread submits to KC_MAIN or to one worker starts in the
 * order of submission; for KC_WORKER there is no order.
 *
 * Context: any thread, any coroutine.  Suspends: no; lock-free.
 * Returns: 0; -EINVAL: s or fn is NULL, or there is no such place; -ENOMEM; -ESHUTDOWN: the
 *          scheduler ends.
 */
KC_API int kc_sched_submit(kc_sched_t *s, kc_affinity_t where, kc_fn_t fn, void *arg);

/*
 * Submits fn(arg) as kc_sched_submit does, with options; NULL: none.
 *
 * Context: any thread, any coroutine.  Suspends: no.
 * Returns: as kc_sched_submit.
 * Owns: after 0 exactly one of fn and opts->dispose is called for arg; after an error arg is still
 *       the caller's. dispose runs as that of kc_launch_job does.
 */
KC_API int kc_sched_submit_with(kc_sched_t *s, kc_affinity_t where, kc_fn_t fn, void *arg,
                                const kc_task_opts_t *opts);

/*
 * Submits n calls as kc_sched_submit does: all or none. The options of a call are those of a launch
 * (job.h): an affinity that is not 0 counts instead of `where`, .dispose is as in
 * kc_sched_submit_with, and .name, .timeout, .grace, .stack and .signal are those of its job. rc
 * and payload are not used.
 *
 * Context: any thread, any coroutine.  Suspends: no.
 * Returns: 0, also if n is 0; the errors of kc_sched_submit; -EINVAL also if calls is NULL, or a
 *          call has a .parent, a .sched, a negative time, or flags other than KC_JOB_UNWIND and
 *          KC_JOB_MIGRATE.
 * Owns: as kc_sched_submit_with, for each call.
 */
KC_API int kc_sched_submit_many(kc_sched_t *s, kc_affinity_t where, const kc_call_t *calls,
                                size_t n);

/*
 * Pumps until kc_sched_stop, or until no task is left. A pending timer is not a task.
 *
 * Context: the main thread, outside coroutines.  Suspends: blocks the thread.
 * Returns: 0; -EPERM: elsewhere; -EINVAL: s is NULL; -EDEADLK: virtual time or a seed, and every
 *          task waits for ever: a report on stderr names the tasks and what they wait for.
 */
KC_API KC_WARN_UNUSED int kc_sched_run(kc_sched_t *s);

/*
 * The pump for a host's own loop: starts all delayed and interval tasks that are due at `now`, in
 * order of due time, then of submission; then runs the main thread's work until none is left and no
 * interval task's run is in flight. A task that only keeps yielding is left for the next pump.
 * `now` is on kc_now's scale; a value smaller than an earlier one starts nothing new; a virtual
 * clock is set to it.
 *
 * Context: the main thread, outside coroutines.  Suspends: blocks the thread.
 * Returns: the time to the next timer, counted from now; KC_FOREVER: none; -EPERM: elsewhere;
 *          -EINVAL: s is NULL.
 */
KC_API kc_time_t kc_sched_run_expired(kc_sched_t *s, kc_time_t now);

/*
 * Pumps as kc_sched_run_expired does, as far as that is possible without waiting.
 *
 * Context: the main thread, outside coroutines.  Suspends: no.
 * Returns: as kc_sched_run_expired; 0 also if tasks are left.
 */
KC_API kc_time_t kc_sched_poll(kc_sched_t *s, kc_time_t now);

/*
 * A descriptor for a foreign event loop: it is readable when the main thread has work or a timer is
 * due; then call kc_sched_poll. The descriptor belongs to s.
 *
 * Context: the main thread.  Suspends: no.
 * Returns: the descriptor, the same one each time; -EPERM: another thread; -EINVAL: s is NULL; why
 *          there is none (-EMFILE and the like).
 */
KC_API int kc_sched_fd(kc_sched_t *s);

/*
 * Ends the current or next kc_sched_run. Cancels nothing, and a later run pumps again.
 *
 * Context: any thread, any coroutine.  Suspends: no.
 */
KC_API void kc_sched_stop(kc_sched_t *s);

/*
 * Makes a scheduler, runs fn as its root job on this thread, pumps until the root job, all jobs
 * below it and all tasks have ended, and destroys the scheduler, which cancels detached jobs and
 * waits for them. NULL opts turn KC_SCHED_MAIN_WORKS on, so that a plain program uses every core.
 *
 * Context: outside coroutines.  Suspends: blocks the thread.
 * Returns: the root job's result: 0, or the first failure, of fn or of a child; -EDEADLK as
 *          kc_sched_run; the errors of kc_sched_create.
 */
KC_API KC_WARN_UNUSED int kc_run(kc_fn_t fn, void *arg, const kc_sched_opts_t *opts);

/* Context: anywhere.  Returns: how many workers s has; -EINVAL: s is NULL. */
KC_API int kc_sched_workers(const kc_sched_t *s);

/* Context: anywhere; s is not NULL.  Returns: the thread that has created s. */
KC_API pthread_t kc_sched_main_thread(const kc_sched_t *s);

/* Context: anywhere.  Returns: the scheduler whose thread this is; NULL: none. Borrowed. */
KC_API kc_sched_t *kc_sched_current(void);

/* Context: anywhere.  Returns: 0...workers-1, KC_MAIN on a main thread, -ENOENT elsewhere. */
KC_API int kc_worker_index(void);

/*
 * Lets other coroutines that are ready on this thread run, and starts tasks that have not started:
 * as long as there are tasks that this thread may start, at least every second yield of a coroutine
 * starts one of them.
 *
 * Context: anywhere; outside jobs it does nothing.  Suspends: yes.
 * Cancel: -ECANCELED, also if the cancel comes while the caller is queued. In a job that is
 *         cancelled already the call still lets others run before it returns.
 * Returns: 0; -ECANCELED.
 */
KC_API int kc_yield(void);

/*
 * Continues the caller on another thread, given by `where`. Does not suspend if the caller is there
 * already, as with KC_HERE. A job that may migrate stays there until it hops to KC_WORKER.
 *
 * Context: a job.  Suspends: yes.
 * Cancel: looked at before the caller is queued: -ECANCELED, and the caller stays on its thread.
 *         Once queued, the hop happens.
 * Returns: 0: the caller runs there; -ECANCELED; -EINVAL: there is no such place; -EPERM: not in a
 *          job, or in a coroutine that a job's coroutine has resumed.
 */
KC_API KC_WARN_UNUSED int kc_hop(kc_affinity_t where);

KC_END_DECLS

#endif
