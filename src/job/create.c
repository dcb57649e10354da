/* SPDX-License-Identifier: MIT */
/*
 * create.c - the one way in which a job is made and comes into the tree: what few jobs need.
 */
#include "job/create.h"

#include "job/cancel.h"
#include "job/end.h"
#include "job/external.h"
#include "job/grace.h"
#include "job/job_signal.h"
#include "job/job_timer.h"
#include "job/locals.h"
#include "job/root.h"

#include <string.h>

/* ---- what options ask for ------------------------------------------------------------------- */

static void time_out(kc_job_t *j)
{
    kc__job_cancel(j, -ETIMEDOUT, KC_BY_TIMEOUT);
}

static int prepare(kc_job_t *j, kc_job_ext_t *ext, const kc_launch_opts_t *o, uint32_t max_running)
{
    ext->max_running = max_running;
    ext->born = kc__sched_now(kc__job_sched(j));
    ext->dated = true;
    kc__tsan_hide(); /* the dump may look at it on any thread */
    if (o->name)
        memcpy(ext->name, o->name, strnlen(o->name, sizeof ext->name - 1));
    kc__tsan_show();
    ext->stack = o->stack;
    ext->dispose = o->dispose;
    if (o->timeout && !(ext->timeout = kc__job_timer_new(j, time_out)))
        return -ENOMEM;
    if (o->grace && kc__grace_prepare(j, o->grace) != 0)
        return -ENOMEM;
    return o->signal ? kc__job_signal_prepare(j, o->signal) : 0;
}

void kc__job_set_deadline(kc_job_t *j, kc_time_t at)
{
    kc_job_ext_t *ext = kc__job_ext(j);

    kc__job_lock(j);
    kc_job_timer_t *timer = ext->timeout;
    if (timer)
        kc__job_timer_ref(timer);
    kc__job_unlock(j);
    if (!timer)
        return; /* it has ended already */
    kc__job_timer_arm(timer, at);
    kc__job_timer_unref(timer);
}

void kc__options_arm_slow(kc_job_t *j, const kc_launch_opts_t *o)
{
    if (o->signal)
        kc__job_signal_bind(j);
    if (o->timeout)
        kc__job_set_deadline(j, kc__sched_after(kc__job_sched(j), o->timeout));
}

/* ---- making it ------------------------------------------------------------------------------ */

kc_job_t *kc__job_equip(kc_job_t *j, bool ext, const kc_launch_opts_t *opts, uint32_t max_running,
                        bool inherits, kc_job_t *from)
{
    bool asks = max_running || (opts && kc__options_need_ext(opts));
    int rc = (ext || asks) && !kc__job_ext(j) ? -ENOMEM : 0;

    if (rc == 0 && asks)
        rc = prepare(j, kc__job_ext_of(j), opts, max_running);
    if (rc == 0 && inherits)
        rc = kc__locals_inherit(j, from);
    if (rc == 0)
        return j;
    kc__job_free(j);
    return NULL;
}

kc_job_t *kc__job_create_anywhere(kc_sched_t *s, kc_job_spec_t spec)
{
    kc_thread_t *t = kc__thread_make();

    return t ? kc__job_create(t, s, spec) : NULL;
}

/* ---- a parent in another scheduler ---------------------------------------------------------- */

/* The scheduler of j must wait for it, too, and find it at its end. */
int kc__job_enter_foreign(kc_worker_t *w, kc_job_t *parent, kc_job_t *j)
{
    kc_sched_t *s = kc__job_sched(j), *above = kc__job_sched(parent);
    kc_job_t *root = kc__job_of(s->main->root);

    if (!kc__job_ext(j)) {
        kc__job_free(j);
        return -ENOMEM;
    }
    uint32_t more = KC_JOB_FOREIGN | (above->grace ? KC_JOB_GRACED : 0u);
    kc_store_relaxed(&j->task.block.flags, kc__job_flags(j) | more);
    kc__root_count_up(root);
    kc__external_begin(above);          /* they wait for what others do: until job_end */
    kc_store_relaxed(&j->task.word, 2); /* so a promise cannot end before it is known below */
    bool ends = kc__job_word(root) & KC_WORD_HALT;
    int rc = ends ? -ESHUTDOWN : kc__job_enter(w, s, parent, j);
    if (ends)
        kc__job_free(j);
    if (rc != 0) {
        kc__external_end(above);
        kc__job_count_down(root, 0);
        return rc;
    }
    kc__foreign_add(j);
    kc__job_count_down(j, 0);
    return 0;
}
