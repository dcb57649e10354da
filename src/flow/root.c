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
 * ORDER    id  site        operation     pairs with  carries; what breaks if weaker
 *          R1  hold: word  load_acquire  word.h J1   (the word alone)
 *          R2  shut        fence_seq_cst  news.c E1  shutting before the walk: see there
 *          R3  held_open   load_acquire  launch.c N1 what the last hold has brought: a deadlock
 *                                                    would be reported that is none
 */
#include "flow/root.h"

#include "base/os.h"

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

/* ---- the scheduler's begin and end ---------------------------------------------------------- */

int kc__roots_open(kc_sched_t *s)
{
    for (int i = 0; i < kc__roots_count(s); i++) {
        kc_job_t *root = kc__job_new(s, KC_JOB_ROOT | KC_JOB_SUPERVISOR, false);
        if (!root)
            return -ENOMEM;
        kc_store_relaxed(&root->arrived, 0);
        *place_of(s, i) = &root->task;
    }
    return 0;
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

/* One that a cancel of the roots does not reach, and that belongs to s, which waits for it: if it
 * can be held, it is there. It may end meanwhile, and its block become another thing: so all is
 * looked at again whenever its word cannot be changed at once. */
static bool hold_stray(kc_job_t *j, const kc_sched_t *s)
{
    uint32_t looks = 0;

    while (kc_load_relaxed(&j->task.block.magic) == KC_TASK_MAGIC) {
        uint64_t seen = kc_load_acquire(&j->task.word); /* R1 */
        bool stray = (seen & KC_WORD_FORBID) || (kc__job_flags(j) & KC_JOB_GUEST);
        const kc_worker_t *w = kc_load_relaxed(&j->task.worker);
        if (!stray || (seen & KC_WORD_COUNT) == 0 || !w || w->sched != s)
            return false;
        if (kc__word_try(&j->task, seen, seen + 1))
            return true;
        kc__os_back_off(&looks);
    }
    return false;
}

static void cut_stray(kc_block_t *block, void *arg)
{
    kc_job_t *j = kc_container_of(block, kc_job_t, task.block);

    if (hold_stray(j, arg)) {
        kc__job_cancel(j, -ESHUTDOWN, KC_BY_SHUTDOWN);
        kc__job_release(j, 0);
    }
}

void kc__roots_shut(kc_sched_t *s)
{
    kc_store_relaxed(&s->shutting, 1);
    kc_fence_seq_cst(); /* R2 */
    for (int i = 0; i < kc__roots_count(s); i++)
        kc__job_cancel(kc__root_at(s, i), -ESHUTDOWN, KC_BY_SHUTDOWN);
    if (kc_load_relaxed(&s->strays) > 0)
        kc__block_each(KC_TASK_MAGIC, cut_stray, s);
}

bool kc__roots_idle(kc_sched_t *s)
{
    bool leave_detached = kc_load_relaxed(&s->leave_detached);

    return kc__roots_are_empty(kc__root_at, s, leave_detached ? threads(s) : kc__roots_count(s));
}

bool kc__roots_held_open(kc_sched_t *s, uint64_t *seen)
{
    *seen = kc_load_acquire(&s->holds); /* R3 */
    return (uint32_t)*seen > 0;
}

struct shields {
    const kc_sched_t *sched;
    bool any;
};

/* Called on the only thread of a scheduler, whose jobs all wait: so one that is its own stays. */
static void end_shield(kc_block_t *block, void *arg)
{
    struct shields *ended = arg;
    kc_job_t *j = kc_container_of(block, kc_job_t, task.block);
    const kc_worker_t *w = kc_load_relaxed(&j->task.worker);

    if (!w || w->sched != ended->sched ||
        (kc__job_word(j) & (KC_WORD_SHIELDED | KC_WORD_GRACE_OVER)) != KC_WORD_SHIELDED)
        return;
    kc__job_cancel(j, 0, KC_BY_GRACE);
    ended->any = true;
}

bool kc__roots_end_shields(kc_sched_t *s)
{
    struct shields ended = { s, false };

    kc__block_each(KC_TASK_MAGIC, end_shield, &ended);
    return ended.any;
}

/* ---- timed tasks ---------------------------------------------------------------------------- */

kc_task_t *kc__roots_make(kc_sched_t *s, kc_affinity_t where, kc_fn_t fn, void *arg,
                          void (*ended)(void *owner), void *owner)
{
    kc_job_t *j = kc__job_new(s, 0, ended != NULL);

    if (!j)
        return NULL;
    j->task.fn = fn;
    j->task.arg = arg;
    j->task.where = (int8_t)where;
    if (ended) {
        kc_job_ext_t *ext = kc__job_ext(j);
        ext->ended = ended;
        ext->owner = owner;
    }
    return &j->task;
}

void kc__roots_drop(kc_task_t *task)
{
    kc__job_free(kc__job_of(task));
}

/* Queues j. False: the scheduler ends, and j has been freed. */
static bool root_launch(kc_job_t *j)
{
    kc_sched_t *s = kc__job_sched(j);
    bool foreign = kc__hold_for_foreign(s);
    int64_t at = kc__trace_time(s);
    int rc = kc__job_attach(kc__root_for(s, false), j);

    if (rc == 0) {
        kc__job_created(s, j, at);
        kc__task_submit(&j->task);
    }
    if (foreign)
        kc__hold_ends(s);
    return rc == 0;
}

void kc__roots_go(kc_task_t *task)
{
    kc_job_t *j = kc__job_of(task);
    kc_job_ext_t *ext = kc__job_ext(j);
    void (*ended)(void *) = ext->ended;
    void *owner = ext->owner;

    kc_sched_t *s = kc__job_sched(j);

    if (root_launch(j)) {
        kc__count(s, KC_COUNT_TIMERS);
    } else {
        kc__job_free(j);
        ended(owner);
    }
}

/* ---- submit --------------------------------------------------------------------------------- */

int kc_sched_submit(kc_sched_t *s, kc_affinity_t where, kc_fn_t fn, void *arg)
{
    if (!s || !fn || !kc__sched_has(s, where))
        return -EINVAL;
    kc__sched_check_process(s);
    kc_task_t *task = kc__roots_make(s, where, fn, arg, NULL, NULL);
    if (!task)
        return -ENOMEM;
    if (root_launch(kc__job_of(task)))
        return 0;
    kc__roots_drop(task);
    return -ESHUTDOWN;
}

static void drop_chain(kc_job_t *first)
{
    while (first) {
        kc_job_t *next = first->next;
        kc__job_free(first);
        first = next;
    }
}

int kc_sched_submit_many(kc_sched_t *s, kc_affinity_t where, const kc_call_t *calls, size_t n)
{
    kc_job_t *first = NULL, **end = &first;

    if (!s || !kc__sched_has(s, where) || (n > 0 && !calls))
        return -EINVAL;
    for (size_t i = 0; i < n; i++)
        if (!calls[i].fn)
            return -EINVAL;
    kc__sched_check_process(s);
    for (size_t i = 0; i < n; i++) {
        kc_task_t *task = kc__roots_make(s, where, calls[i].fn, calls[i].arg, NULL, NULL);
        if (!task) {
            drop_chain(first);
            return -ENOMEM;
        }
        *end = kc__job_of(task);
        (*end)->next = NULL;
        end = &(*end)->next;
    }
    while (first) {
        kc_job_t *next = first->next;
        if (!root_launch(first)) { /* the scheduler ends: what was queued already ends unstarted */
            first->next = next;
            drop_chain(first);
            return -ESHUTDOWN;
        }
        first = next;
    }
    return 0;
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
    kc_task_t *task = kc__roots_make(s, KC_MAIN, fn, arg, NULL, NULL);
    if (!task) {
        kc_sched_destroy(s);
        return -ENOMEM;
    }
    kc_job_t *root = kc__job_of(task);
    kc__job_ref(root);
    root_launch(root);
    kc_store_relaxed(&s->leave_detached, 1); /* before any of its jobs runs */
    rc = kc_sched_run(s);
    kc_store_relaxed(&s->leave_detached, 0);
    kc_sched_destroy(s);
    if (rc == 0)
        rc = kc__job_result(root);
    kc__job_unref(root);
    return rc;
}
