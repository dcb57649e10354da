/* SPDX-License-Identifier: MIT */
/*
 * kcoro/trace.h - seeing inside: counters, a timeline, and the tree of jobs.
 *
 *     kc_trace_start(s, "run.json");              // look at it with ui.perfetto.dev
 *     ...
 *     kc_trace_stop(s);
 *     kc_dump(s, stderr);                         // every job, and what it waits for
 *
 * In src: top/metrics.c, top/dump.c.
 */
#ifndef KCORO_TRACE_H
#define KCORO_TRACE_H

#include <kcoro/base.h>
#include <kcoro/sched.h>

#include <stdint.h>
#include <stdio.h>

KC_BEGIN_DECLS

/*
 * What has happened in a scheduler since it was created, each event once. Scopes, groups and
 * promises are jobs. While threads run, the numbers are not of one moment; when nothing runs,
 * jobs_created = jobs_completed + jobs_failed + jobs_cancelled + jobs_live.
 */
typedef struct {
    uint64_t jobs_created;
    uint64_t jobs_completed;
    uint64_t jobs_failed;
    uint64_t jobs_cancelled;
    uint64_t jobs_live;               /* not ended, now                                        */
    uint64_t cancellations_requested; /* kc_job_cancel that returned true; so kc_cancel_current,
                                         kc_job_drop, and TERMINATE on the signal of a job      */
    uint64_t waiters_registered;      /* a join that had to wait                               */
    uint64_t waiters_woken;           /* ... and was woken by the end of the job               */
    uint64_t switches;                /* a thread switched to another job's coroutine          */
    uint64_t spawns;                  /* a job began to run, and got its stack                 */
    uint64_t steals;                  /* a worker took a task from another                     */
    uint64_t parks;                   /* a job stopped to wait for something                   */
    uint64_t timers_fired;            /* timers that expired, timed tasks that were started    */
    uint64_t io_operations;           /* none yet                                              */
    uint64_t stacks_in_use; /* of jobs of this scheduler, now                                  */
    uint64_t stacks_pooled; /* free, in the pools that all threads of the process share, now   */
    uint64_t stacks_made;   /* in the process: in use, pooled, or kept by a thread for itself  */
    uint64_t waiting_for_stack; /* jobs that were to start and got no stack, now: kc_dump says
                                   which, and what is missing                                  */
} kc_metrics_t;

/*
 * Adds the counters up into *out. A NULL is bad use.
 *
 * Context: anywhere, while s is there.  Suspends: no.
 */
KC_API void kc_metrics(kc_sched_t *s, kc_metrics_t *out);

/*
 * Starts to record the events of s; kc_trace_stop writes them to path: a timeline in the JSON
 * format of Chrome and Perfetto. Events: JOB_CREATE, JOB_STATE, JOB_CANCEL_REQ, JOB_FINALIZE,
 * JOB_CHILD_ATTACH, JOB_WAIT_REGISTER, JOB_WAIT_WAKE; jobs from create to end; what each thread
 * runs; arrows from a cancel or wake to where the job continues. Jobs have their number
 * (kc_job_id). Times are real ones (CLOCK_MONOTONIC), also in a scheduler with virtual time: an
 * hour that was slept there takes none. Lines are not in order of time, which readers accept. Until
 * the trace is stopped, events lie in an unlinked file in the same folder, 32 bytes each; the
 * memory in use does not grow with their number.
 *
 * Context: anywhere, while s is there.  Suspends: no; writes to files.
 * Returns: 0; -EINVAL: a NULL; -EALREADY: s is traced; -ENOMEM; why path cannot be written.
 */
KC_API int kc_trace_start(kc_sched_t *s, const char *path);

/*
 * Ends the trace: when this call returns, the file is complete and valid. kc_sched_destroy ends a
 * trace that is still on. Jobs that have not ended are closed at this time. Events that could not
 * be kept are counted in the file: otherData.dropped.
 *
 * Context: anywhere, while s is there.  Suspends: no; writes to a file.
 * Returns: 0; -EINVAL: a NULL; -EALREADY: s is not traced; -ENOSPC and the like: the file or some
 *          events could not be written.
 */
KC_API int kc_trace_stop(kc_sched_t *s);

/*
 * Prints the tree of jobs that have not ended: number (kc_job_id), name, age (of those that were
 * launched with a name or other options), state, why it is cancelled, what it does or waits for,
 * children; and the stack trace of each that is at rest meanwhile. What is waited for is named with
 * its kind, its name if it has one, its address, and for a lock its owner. Scopes are lines of
 * their own below their coroutine's. Siblings without children that say the same are folded,
 * whatever their numbers and ages. What is more than 32 deep says how deep, and is not indented
 * further. Nothing is stopped for it: each line is true at its own moment. With the flag
 * KC_SCHED_DUMP_ON_SIGQUIT the unix signal SIGQUIT (Ctrl-\) prints it to stderr.
 *
 * Context: anywhere but unix signal handlers, while s is there.  Suspends: no; blocks as `to` does.
 * Returns: 0; -EINVAL: a NULL; -ENOMEM; -EIO: `to` has an error.
 */
KC_API int kc_dump(kc_sched_t *s, FILE *to);

KC_END_DECLS

#endif
