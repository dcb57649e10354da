/* SPDX-License-Identifier: MIT */
/*
 * create.h - the one way in which a job is made and comes into the tree.
 *
 * WHAT     kc__job_create makes a job and does all that may fail for want of memory; kc__job_enter
 *          makes it a child, or frees it if the parent takes no more; kc__options_arm lets its time
 *          run; kc__launch_start lets its body run. From the second on it ends like any other.
 */
#ifndef KC_JOB_CREATE_H
#define KC_JOB_CREATE_H

#include "job/job.h"
#include "job/locals.h"

/* These options ask for what only an extension can keep. */
KC_INLINE bool kc__options_need_ext(const kc_launch_opts_t *o)
{
    return o->name || o->stack || o->timeout || o->grace || o->dispose || o->signal;
}

/* j is in the tree: its timer runs, the outside signal reaches it. */
void kc__options_arm_slow(kc_job_t *j, const kc_launch_opts_t *o);

/* j is in the tree and was made with a timeout: its time is over then. */
void kc__job_set_deadline(kc_job_t *j, kc_time_t at);

KC_INLINE void kc__options_arm(kc_job_t *j, const kc_launch_opts_t *o)
{
    if (o->timeout || o->signal)
        kc__options_arm_slow(j, o);
}

/* What a job is to be. */
typedef struct kc_job_spec {
    kc_fn_t fn; /* NULL: it has no body, or the caller's */
    void *arg;
    kc_affinity_t where;
    uint32_t flags; /* block.flags */
    uint32_t refs;  /* the tree's, and the handles */
    bool ext;       /* it has an extension, whatever the options say */
    bool inherits;  /* the values of from (kc_local_set), or of the caller if that is NULL */
    kc_job_t *from;
    const kc_launch_opts_t *opts; /* what an extension keeps of them; NULL: nothing */
    uint32_t max_running;
} kc_job_spec_t;

/* Gives j what most jobs do not have. Returns it; NULL: no memory, and it is free. */
kc_job_t *kc__job_equip(kc_job_t *j, bool ext, const kc_launch_opts_t *opts, uint32_t max_running,
                        bool inherits, kc_job_t *from);

/* A job of s, not in the tree yet, by thread t. NULL: no memory. */
KC_INLINE kc_job_t *kc__job_create(kc_thread_t *t, kc_sched_t *s, kc_job_spec_t spec)
{
    kc_block_t *block = kc__block_get(&t->jobs);

    if (kc_unlikely(!block))
        return NULL;
    kc_job_t *j = kc_container_of(block, kc_job_t, task.block);
    kc_store_relaxed(kc__block_number(block), kc__thread_new_id(t));
    kc_store_relaxed(&j->task.block.flags, spec.flags);
    kc_store_relaxed(&j->task.word, 1);
    kc_store_relaxed(&j->task.worker, s->main);
    j->task.co = NULL;
    j->task.fn = spec.fn;
    j->task.arg = spec.arg;
    j->task.where = (int8_t)spec.where;
    kc_store_relaxed(&j->task.kind, KC_WAIT_NONE);
    j->task.held = 0;
    j->task.depth = 0;
    j->reason = 0;
    j->code = 0;
    kc_store_relaxed(&j->refs, spec.refs);
    j->shields = 0;
    j->parent = NULL;
    j->children = NULL;
    kc_store_relaxed(&j->ext, NULL);
    j->waiters = NULL;
    kc_store_relaxed(&j->task.block.magic, KC_TASK_MAGIC);
    bool extended = spec.ext || spec.max_running || (spec.opts && kc__options_need_ext(spec.opts));
    return kc_likely(!extended && !spec.inherits)
               ? j
               : kc__job_equip(j, spec.ext, spec.opts, spec.max_running, spec.inherits, spec.from);
}

/* The same on any thread. */
kc_job_t *kc__job_create_anywhere(kc_sched_t *s, kc_job_spec_t spec);

/* Into the tree, below parent, in the same scheduler s, by a thread with worker w, if it has one.
 * Not 0: why parent takes no more; then j is free. */
KC_INLINE int kc__job_enter(kc_worker_t *w, kc_sched_t *s, kc_job_t *parent, kc_job_t *j)
{
    int64_t at = kc__trace_time(s); /* what it does may be seen before we record it */
    int rc = kc__job_attach(parent, j);

    if (kc_likely(rc == 0)) {
        kc__count_on(w, s, KC_COUNT_CREATED);
        if (kc_unlikely(kc_load_relaxed(&s->recorder) != NULL))
            kc__job_record(s, j, at, KC_EVENT_CREATE);
    } else {
        kc__job_free(j);
    }
    return rc;
}

/* The same below a parent in another scheduler. -ENOMEM, too. */
int kc__job_enter_foreign(kc_worker_t *w, kc_job_t *parent, kc_job_t *j);

#endif
