/* SPDX-License-Identifier: MIT */
/*
 * root.c - what is nobody's child: submitted and timed tasks, detached jobs, the root of kc_run.
 *
 * WHAT     Each thread of a scheduler has two roots, jobs that never end before the scheduler does.
 *          What is nobody's child is a child of one of them: so the scheduler's end finds it, and
 *          knows when nothing is left (root.h). There are several, so that threads that submit do
 *          not all write to one cache line. Detached jobs have roots of their own, as kc_run does
 *          not wait for them.
 *
 *          A job whose parent is in another scheduler, a foreign job, is in no tree of its own one,
 *          which must end it all the same: it is in a list of that, in the order in which they
 *          came.
 *
 * WHO      first_foreign, last_foreign of a scheduler, next_foreign, prev_foreign: L of main's
 *          root. The lock of a foreign job may be taken under it.
 *
 * ORDER    id      site             operation     pairs with  carries; what breaks if weaker
 *          root.4  awaits_external  load_acquire  external.1  what the last external piece of work
 *                                                             has brought: a deadlock would be
 *                                                             reported that is none
 */
#include "job/root.h"

#include "base/os.h"
#include "job/body.h"
#include "job/cancel.h"
#include "job/create.h"
#include "job/end.h"
#include "job/external.h"
#include "job/grace.h"
#include "job/launch.h"
#include "sched/inbox.h"

#include <errno.h>
#include <string.h>

static kc_worker_t *nth(kc_sched_t *s, int i)
{
    return i < s->workers ? s->worker[i] : s->main;
}

static int threads(const kc_sched_t *s)
{
    return s->workers + 1;
}

/* Where the thread keeps it. */
static kc_task_t **place_of(kc_sched_t *s, int i)
{
    return i < threads(s) ? &nth(s, i)->root : &nth(s, i - threads(s))->apart;
}

static kc_job_t *main_root(const kc_sched_t *s)
{
    return kc__job_of(s->main->root);
}

int kc__roots_count(const kc_sched_t *s)
{
    return 2 * threads(s);
}

kc_job_t *kc__root_at(kc_sched_t *s, int i)
{
    return kc__job_of(*place_of(s, i));
}

kc_job_t *kc__root_for(kc_sched_t *s, bool detached)
{
    kc_thread_t *t = kc__thread_make();
    kc_worker_t *w = t ? t->worker : NULL;

    if (!w || w->sched != s)
        w = nth(s, t ? (int)(t->serial % ((uint32_t)s->workers + 1)) : 0);
    return kc__job_of(detached ? w->apart : w->root);
}

/* ---- the scheduler's begin ------------------------------------------------------------------- */

int kc__roots_open(kc_sched_t *s)
{
    for (int i = 0; i < kc__roots_count(s); i++) {
        kc_job_spec_t spec = { .flags = KC_JOB_ROOT | KC_JOB_SUPERVISOR | KC_TASK_BODILESS,
                               .refs = 1 };
        kc_job_t *root = kc__job_create_anywhere(s, spec);
        if (!root)
            return -ENOMEM;
        kc_store_relaxed(&root->arrived, 0);
        *place_of(s, i) = &root->task;
    }
    return kc__grace_open(s);
}

void kc__roots_close(kc_sched_t *s)
{
    for (int i = 0; i < kc__roots_count(s); i++) {
        kc_task_t **root = place_of(s, i);
        if (*root)
            kc__job_free(kc__job_of(*root));
        *root = NULL;
    }
}

/* ---- foreign jobs
 * ---------------------------------------------------------------------------------- */

void kc__foreign_add(kc_job_t *j)
{
    kc_sched_t *s = kc__job_sched(j);
    kc_job_t *root = main_root(s);

    bool ends = kc__job_lock(root) & KC_WORD_HALT;
    kc__job_ext_of(j)->prev_foreign = s->last_foreign;
    if (s->last_foreign)
        kc__job_ext_of(s->last_foreign)->next_foreign = j;
    else
        s->first_foreign = j;
    s->last_foreign = j;
    kc__job_unlock(root);
    if (!ends)
        return;
    kc__job_cancel(j, -ESHUTDOWN,
                   KC_BY_SHUTDOWN); /* who has ended the others may have missed it */
    if (kc__job_word(root) & KC_WORD_GRACE_OVER)
        kc__job_cancel(j, 0, KC_BY_GRACE);
}

void kc__foreign_remove(kc_job_t *j)
{
    kc_sched_t *s = kc__job_sched(j);
    kc_job_t *root = main_root(s);

    kc__job_lock(root);
    kc_job_t *next = kc__job_ext_of(j)->next_foreign, *prev = kc__job_ext_of(j)->prev_foreign;
    *(next ? &kc__job_ext_of(next)->prev_foreign : &s->last_foreign) = prev;
    *(prev ? &kc__job_ext_of(prev)->next_foreign : &s->first_foreign) = next;
    kc__job_unlock(root);
    kc__job_count_down(root, 0);
}

/* The one that has come after j, or the first; held, and j not any more. NULL: none. */
static kc_job_t *next_foreign(kc_sched_t *s, kc_job_t *j)
{
    kc__job_lock(main_root(s));
    kc_job_t *next = j ? kc__job_ext_of(j)->next_foreign : s->first_foreign;
    while (next && !kc__job_count_up(next))
        next = kc__job_ext_of(next)->next_foreign;
    kc__job_unlock(main_root(s));
    if (j)
        kc__job_count_down(j, 0);
    return next;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* The child of parent that is younger than j, or the oldest; held, and j not any more. NULL: none.
 */
static kc_job_t *next_child(kc_job_t *parent, kc_job_t *j)
{
    kc__job_lock(parent);
    kc_job_t *newest = parent->children, *next = newest ? newest->prev : NULL;
    if (j)
        next = j == newest ? NULL : j->prev;
    while (next && !kc__job_count_up(next))
        next = next == newest ? NULL : next->prev;
    kc__job_unlock(parent);
    if (j)
        kc__job_count_down(j, 0);
    return next;
}

static void visit_below(kc_job_t *top, void (*visit)(kc_job_t *j, void *arg), void *arg)
{
    kc_job_t *at = top, *done = NULL; /* a child of `at`, visited with all below it */

    for (;;) {
        kc_job_t *child = next_child(at, done);
        done = NULL;
        if (child) {
            visit(child, arg);
            at = child;
            continue;
        }
        if (at == top)
            return;
        done = at;
        at = at->parent;
    }
}

void kc__roots_each(kc_sched_t *s, void (*visit)(kc_job_t *j, void *arg), void *arg)
{
    for (int i = 0; i < kc__roots_count(s); i++)
        visit_below(kc__root_at(s, i), visit, arg);
    for (kc_job_t *j = NULL; (j = next_foreign(s, j)) != NULL;) {
        visit(j, arg);
        visit_below(j, visit, arg);
    }
}

/* ---- the scheduler's end --------------------------------------------------------------------- */

void kc__roots_shut(kc_sched_t *s)
{
    kc_store_relaxed(&s->shutting, 1);
    kc__grace_shut(s);
    for (int i = 0; i < kc__roots_count(s); i++)
        kc__job_cancel(kc__root_at(s, i), -ESHUTDOWN, KC_BY_SHUTDOWN);
    for (kc_job_t *j = NULL; (j = next_foreign(s, j)) != NULL;)
        kc__job_cancel(j, -ESHUTDOWN, KC_BY_SHUTDOWN);
}

void kc__roots_over(kc_sched_t *s)
{
    for (int i = 0; i < kc__roots_count(s); i++)
        kc__job_cancel(kc__root_at(s, i), 0, KC_BY_GRACE);
    for (kc_job_t *j = NULL; (j = next_foreign(s, j)) != NULL;)
        kc__job_cancel(j, 0, KC_BY_GRACE);
}

bool kc__roots_are_idle(kc_sched_t *s)
{
    bool leave_detached = kc_load_relaxed(&s->leave_detached);

    int n = leave_detached ? threads(s) : kc__roots_count(s);
    bool idle = kc__roots_are_empty(kc__root_at, s, n);

    for (int i = 0; idle && kc__tsan() && i < n; i++)
        kc__tsan_acquire(kc__root_at(s, i));
    return idle;
}

/* A body waits in kc_suspend, for whoever may call kc_wake. It counts itself, on its own thread. */
static bool has_suspended(kc_sched_t *s)
{
    uint64_t n = 0;

    for (int i = 0; i <= s->workers; i++) {
        const kc_worker_t *w = i < s->workers ? s->worker[i] : s->main;
        n += kc_load_relaxed(&w->counter[KC_COUNT_SUSPENDS]) -
             kc_load_relaxed(&w->counter[KC_COUNT_RESUMES]);
    }
    return n != 0;
}

bool kc__roots_look_for_external(kc_sched_t *s, uint64_t *seen)
{
    *seen = kc_load_acquire(&s->external); /* root.4 */
    return (uint32_t)*seen > 0 || has_suspended(s);
}

/* Called on the only thread of a scheduler, whose jobs all wait. */
static void end_shield(kc_job_t *j, void *arg)
{
    bool *any = arg;

    if ((kc__job_word(j) & (KC_WORD_SHIELDED | KC_WORD_GRACE_OVER)) != KC_WORD_SHIELDED)
        return;
    kc__job_cancel(j, 0, KC_BY_GRACE);
    *any = true;
}

bool kc__roots_end_shields(kc_sched_t *s)
{
    bool any = false;

    kc__roots_each(s, end_shield, &any);
    return any;
}

/* ---- tasks ---------------------------------------------------------------------------------- */

/* Nobody's child, not in the tree yet. NULL: no memory. */
static kc_job_t *make_task(kc_sched_t *s, kc_affinity_t where, const kc_call_t *call,
                           uint32_t flags, const kc_launch_opts_t *opts, bool ext)
{
    kc_job_spec_t spec = { .fn = call->fn,
                           .arg = call->arg,
                           .where = where,
                           .flags = flags,
                           .refs = 1,
                           .ext = ext,
                           .opts = opts };
    kc_thread_t *t = kc__thread_make();

    return t ? kc__job_create(t, s, spec) : NULL;
}

kc_task_t *kc__roots_make(kc_sched_t *s, kc_affinity_t where, kc_fn_t fn, void *arg,
                          const struct kc_task_more *more)
{
    static const struct kc_task_more nothing;
    const struct kc_task_more *m = more ? more : &nothing;
    kc_launch_opts_t opts = { .name = m->name, .dispose = m->dispose };
    kc_job_t *j = make_task(s, where, &(kc_call_t){ .fn = fn, .arg = arg },
                            m->tells ? KC_JOB_TELLS : 0u, &opts, m->ended);

    if (j && m->ended) {
        kc__job_ext_of(j)->ended = m->ended;
        kc__job_ext_of(j)->owner = arg;
    }
    return j ? &j->task : NULL;
}

void kc__roots_drop(kc_task_t *task)
{
    kc__job_free(kc__job_of(task));
}

/* Queues j. opts: NULL: none. False: the scheduler ends, and j is free. */
static bool root_launch(kc_job_t *j, const kc_launch_opts_t *opts)
{
    kc_sched_t *s = kc__job_sched(j);
    bool foreign = kc__external_begin_foreign(s);
    int rc = kc__job_enter(kc__worker(), s, kc__root_for(s, false), j);

    if (rc == 0) {
        if (opts)
            kc__options_arm(j, opts);
        kc__task_submit(&j->task);
    }
    if (foreign)
        kc__external_end(s);
    return rc == 0;
}

void kc__roots_go(kc_task_t *task)
{
    kc_job_t *j = kc__job_of(task);
    kc_job_ext_t *ext = kc__job_ext(j);
    void (*ended)(void *) = ext->ended;
    void *owner = ext->owner;

    kc_sched_t *s = kc__job_sched(j);

    if (root_launch(j, NULL))
        kc__count(s, KC_COUNT_TIMERS);
    else
        ended(owner);
}

/* ---- submit --------------------------------------------------------------------------------- */

int kc_sched_submit_with(kc_sched_t *s, kc_affinity_t where, kc_fn_t fn, void *arg,
                         const kc_task_opts_t *opts)
{
    if (!s || !fn)
        return -EINVAL;
    kc__sched_check("kc_sched_submit", s);
    if (!kc__sched_find(s, &where))
        return -EINVAL;
    kc__sched_check_process(s);
    struct kc_task_more more = { .name = NULL };
    if (opts)
        more = (struct kc_task_more){ .name = opts->name, .dispose = opts->dispose };
    kc_task_t *task = kc__roots_make(s, where, fn, arg, opts ? &more : NULL);
    if (!task)
        return -ENOMEM;
    return root_launch(kc__job_of(task), NULL) ? 0 : -ESHUTDOWN;
}

int kc_sched_submit(kc_sched_t *s, kc_affinity_t where, kc_fn_t fn, void *arg)
{
    return kc_sched_submit_with(s, where, fn, arg, NULL);
}

/* What a call that is to be submitted has for options. */
static const kc_launch_opts_t *opts_of(const kc_call_t *call)
{
    static const kc_launch_opts_t defaults;

    return call->opts ? call->opts : &defaults;
}

/* Where it is to run. False: there is no such place. */
static bool find_place(const kc_sched_t *s, kc_affinity_t where, const kc_call_t *call,
                       kc_affinity_t *place)
{
    kc_affinity_t own = opts_of(call)->affinity;

    *place = own != KC_WORKER ? own : where;
    return kc__sched_find(s, place);
}

static int check_many(const kc_sched_t *s, kc_affinity_t where, const kc_call_t *calls, size_t n)
{
    uint32_t allowed = KC_JOB_UNWIND | KC_JOB_MIGRATE;
    kc_affinity_t place = where;

    if (!s || (n > 0 && !calls))
        return -EINVAL;
    kc__sched_check("kc_sched_submit_many", s);
    if (!kc__sched_find(s, &place))
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        int rc = calls[i].fn ? kc__launch_check_call(opts_of(&calls[i]), allowed) : -EINVAL;
        if (rc == 0 && !find_place(s, where, &calls[i], &place))
            rc = -EINVAL;
        if (rc != 0)
            return rc;
    }
    return 0;
}

static void drop_chain(kc_job_t *first)
{
    while (first) {
        kc_job_t *next = first->next;
        kc__job_free(first);
        first = next;
    }
}

/* Jobs for all calls, in their order, by `next`. NULL: no memory. */
static kc_job_t *make_many(kc_sched_t *s, kc_affinity_t where, const kc_call_t *calls, size_t n)
{
    kc_job_t *first = NULL, **end = &first;

    for (size_t i = 0; i < n; i++) {
        const kc_launch_opts_t *o = opts_of(&calls[i]);
        kc_affinity_t place = where;
        (void)find_place(s, where, &calls[i], &place);
        *end = make_task(s, place, &calls[i], o->flags, o, false);
        if (!*end) {
            drop_chain(first);
            return NULL;
        }
        (*end)->next = NULL;
        end = &(*end)->next;
    }
    return first;
}

int kc_sched_submit_many(kc_sched_t *s, kc_affinity_t where, const kc_call_t *calls, size_t n)
{
    int rc = check_many(s, where, calls, n);
    bool any = false;

    if (rc != 0 || n == 0)
        return rc;
    kc__sched_check_process(s);
    kc_job_t *j = make_many(s, where, calls, n), *next;
    if (!j)
        return -ENOMEM;
    for (size_t i = 0; j; j = next, i++) {
        const kc_launch_opts_t *o = opts_of(&calls[i]);
        next = j->next;
        if (root_launch(j, o)) {
            any = true;
            continue;
        }
        /* The scheduler ends. If some were queued before, these end unstarted, too. */
        if (any && o->dispose)
            kc__dispose(o->dispose, calls[i].arg);
    }
    return any ? 0 : -ESHUTDOWN;
}

/* ---- kc_run --------------------------------------------------------------------------------- */

int kc_run(kc_fn_t fn, void *arg, const kc_sched_opts_t *opts)
{
    kc_sched_opts_t defaults = { .flags = KC_SCHED_MAIN_WORKS };
    kc_sched_t *s;

    if (!fn)
        return -EINVAL;
    int rc = kc_sched_create(opts ? opts : &defaults, &s);
    if (rc < 0)
        return rc;
    kc_task_t *task = kc__roots_make(s, KC_MAIN, fn, arg, NULL);
    if (!task) {
        kc_sched_destroy(s);
        return -ENOMEM;
    }
    kc_job_t *root = kc__job_of(task);
    kc__job_ref(root);
    root_launch(root, NULL);
    kc_store_relaxed(&s->leave_detached, 1); /* before any of its jobs runs */
    rc = kc_sched_run(s);
    kc_store_relaxed(&s->leave_detached, 0);
    kc_sched_destroy(s);
    if (rc == 0)
        rc = kc__job_result(root);
    kc__job_unref(root);
    return rc;
}
