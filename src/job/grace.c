/* SPDX-License-Identifier: MIT */
/*
 * grace.c - how long shields and cleanups hold a cancel back (J27).
 *
 * WHAT     The grace of a job is the smallest of its own, of those above it and of its scheduler's.
 *          A launch copies only one flag, GRACED: there is a grace above. A job that is asked to
 *          end, but not by its parent, looks for the smallest grace and gets a timer; when that
 *          rings, the shields of the job and of all jobs below it no longer delay the cancel
 *          (cancel.c tells them). So a job that is told by its parent needs no timer: the timer
 *          above rings for it, too. Only a grace of its own may be over before that.
 *
 *          The end of a scheduler has one timer for all its jobs, in main's root. It is made with
 *          the scheduler, and the timer of a job with a grace of its own is made with the job: so
 *          there is always memory for them. The timer of an inherited grace is made by the cancel.
 *          If there is no memory for it then, the grace is over at once: the promise is a bound.
 *
 * WHY NOT  A timer for each child: memory and a timer for every launch. The smallest grace in each
 *          job: there is no room in its block.
 */
#include "job/grace.h"

#include "job/cancel.h"
#include "job/end.h"
#include "job/job.h"
#include "job/root.h"
#include "job/job_timer.h"

#include <errno.h>

static void end_grace(kc_job_t *j)
{
    kc__job_cancel(j, 0, KC_BY_OWN_GRACE);
}

static void end_last_grace(kc_job_t *root)
{
    kc__roots_over(kc__job_sched(root));
}

int kc__grace_prepare(kc_job_t *j, kc_time_t grace)
{
    kc_job_ext_t *ext = kc__job_ext(j);

    if (!ext || !(ext->grace_end = kc__job_timer_new(j, end_grace)))
        return -ENOMEM;
    ext->grace = grace;
    kc_store_relaxed(&j->task.block.flags, kc__job_flags(j) | KC_JOB_GRACED);
    return 0;
}

/* 0: none. */
static kc_time_t smaller(kc_time_t a, kc_time_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

static kc_time_t own_grace(const kc_job_t *j)
{
    const kc_job_ext_t *ext = kc__job_ext_of(j);

    return ext ? ext->grace : 0;
}

/* What counts for j, which is held: so those above are there. */
static kc_time_t grace_of(kc_job_t *j)
{
    kc_time_t grace = kc__job_sched(j)->grace;

    for (kc_job_t *at = j; kc__job_flags(at) & KC_JOB_GRACED; at = at->parent) {
        grace = smaller(grace, own_grace(at));
        if (kc__job_flags(at) & KC_JOB_FOREIGN)
            grace = smaller(grace, kc__job_sched(at->parent)->grace);
    }
    return grace;
}

/* The timer of j, which is held, with a reference for the caller; made if there is none. NULL: no
 * memory. */
static kc_job_timer_t *timer_of(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext(j);
    kc_job_timer_t *made = ext && !ext->grace ? kc__job_timer_new(j, end_grace) : NULL;

    if (!ext)
        return NULL;
    kc__job_lock(j);
    if (!ext->grace_end) {
        ext->grace_end = made;
        made = NULL;
    }
    kc_job_timer_t *timer = ext->grace_end;
    if (timer)
        kc__job_timer_ref(timer);
    kc__job_unlock(j);
    if (made)
        kc__job_timer_drop(made);
    return timer;
}

bool kc__grace_begin(kc_job_t *j, bool by_parent)
{
    if ((kc__job_flags(j) & (KC_JOB_ROOT | KC_JOB_PROMISE)) || !kc__job_count_up(j))
        return true; /* a root's is kc__grace_shut's; or it has ended meanwhile */
    kc_time_t grace = by_parent ? own_grace(j) : grace_of(j);
    kc_job_timer_t *timer = grace ? timer_of(j) : NULL;
    if (timer) {
        kc__job_timer_arm(timer, kc__sched_after(kc__job_sched(j), grace));
        kc__job_timer_unref(timer);
    }
    kc__job_count_down_there(j);
    return timer || !grace;
}

void kc__grace_hop(kc_job_t *j, kc_job_ext_t *ext)
{
    kc__job_lock(j);
    kc_job_timer_t *timer = ext->grace_end;
    if (timer)
        kc__job_timer_ref(timer);
    kc__job_unlock(j);
    if (!timer)
        return;
    kc__job_timer_hop(timer);
    kc__job_timer_unref(timer);
}

/* ---- the scheduler's ------------------------------------------------------------------------- */

static kc_job_ext_t *main_ext(const kc_sched_t *s)
{
    return kc__job_ext_of(kc__job_of(s->main->root));
}

int kc__grace_open(kc_sched_t *s)
{
    kc_job_t *root = kc__job_of(s->main->root);
    kc_job_ext_t *ext = s->grace ? kc__job_ext(root) : NULL;

    if (ext)
        ext->grace_end = kc__job_timer_new(root, end_last_grace);
    return !s->grace || (ext && ext->grace_end) ? 0 : -ENOMEM;
}

void kc__grace_shut(kc_sched_t *s)
{
    if (s->grace)
        kc__job_timer_arm(main_ext(s)->grace_end, kc__sched_after(s, s->grace));
}

/* Here, where it can be taken off its thread. */
void kc__grace_gone(kc_sched_t *s)
{
    if (!s->grace)
        return;
    kc__job_timer_drop(main_ext(s)->grace_end);
    main_ext(s)->grace_end = NULL;
}
