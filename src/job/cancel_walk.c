/* SPDX-License-Identifier: MIT */
/*
 * cancel_walk.c - how a cancel travels down the tree.
 *
 * WHAT     The walk needs no memory: the ring of children has those that were told last, and each
 *          that was told is turned to the end. So the first one says whether the walk is over. On
 *          its way down the walk holds a reference on each job of its path, so the way up is there.
 *
 *          Those that forbid signals are told and go on, unless the scheduler ends: from then on
 *          walks tell all children once more, and mark with SHUT whom they are about to tell. That
 *          it ends is looked at under the lock of the parent, so whoever finds a child marked so
 *          sees it too.
 *
 *          When the grace of a job is over (grace.c), the walk tells all children once more, and
 *          marks with LATE whom it is about to tell.
 *
 *          Many children that are not to be resumed (J17) and have nothing to clean up end where
 *          they are, and their stacks are not even touched: that is what is slow about very many.
 *
 * ORDER    id             site        operation     pairs with  carries; what breaks if weaker
 *          cancel_walk.1  tell_bare,  load_acquire  word.1      worker and co, which BODY stands
 *                         fetch: word                           for
 *          cancel_walk.2  tell_bare,  load_acquire  wait.4      the fields of a coroutine that has
 *                         fetch: worker                         just hopped to this thread
 */
#include "job/cancel_walk.h"

#include "coro/coro_end.h"
#include "job/cancel.h"
#include "job/end.h"
#include "job/held.h"
#include "job/job.h"
#include "job/max_running.h"
#include "sched/inbox.h"
#include "sched/worker.h"

#include <errno.h>

enum { AT_ONCE = 64 }; /* children that are told under one lock of their parent */

/* Children that waited for others to end, and are all marked now: they will be found stopped. What
 * waits in a job that is not halted is its own, of a cleanup that has begun meanwhile. */
static void flush_pending(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);
    bool more = ext && ext->max_running > 0;

    while (more) {
        kc_queue_t some = { NULL, NULL, 0 };
        kc_job_t *child = NULL;
        if (kc__job_lock(j) & KC_WORD_HALT)
            while (some.count < AT_ONCE && (child = kc__pending_pop(ext)) != NULL)
                kc__queue_push(&some, &child->task.block);
        ext->running += (uint32_t)some.count;
        kc__job_unlock(j);
        more = child != NULL;
        for (kc_block_t *block; (block = kc__queue_pop(&some)) != NULL;)
            kc__task_submit(&kc_container_of(block, kc_job_t, task.block)->task);
    }
}

/* Under the lock of its parent: child and all below it have been told. */
static void told(kc_job_t *parent, kc_job_t *child)
{
    if (kc__job_told_mark(parent) & ~KC_WORD_WALKED & ~kc__job_word(child))
        return; /* not of all: its turn comes again */
    kc__job_change(child, KC_WORD_WALKED, 0);
    if (!child->next || child->next == child)
        return; /* it has left already, or is the only one */
    if (parent->children == child) {
        parent->children = child->next; /* it is the last now */
        return;
    }
    kc_job_t *first = parent->children, *last = first->prev;
    if (last == child)
        return;
    child->prev->next = child->next;
    child->next->prev = child->prev;
    child->prev = last;
    child->next = first;
    last->next = first->prev = child;
}

/* Under the lock of its parent, before child is told: long rings do not lie in the cache. Of the
 * one after the next its coroutine is fetched, if that is this thread's (so nobody else writes
 * where it is), and of its successor the job itself. */
static void fetch_ahead(const kc_job_t *child)
{
    const kc_job_t *second = child->next->next, *third = second->next;
    const kc_task_t *task = &second->task;

    if ((kc_load_acquire(&task->word) & KC_WORD_BODY) && /* cancel_walk.1 */
        kc_load_acquire(&task->worker) == kc__worker())  /* cancel_walk.2 */
        __builtin_prefetch(task->co);
    __builtin_prefetch(third);
    __builtin_prefetch(kc__next_line(third));
}

/* Its body has started, and it has nothing else: no children, no leases, no shield, no message. */
static bool is_bare(uint64_t word)
{
    return (word & ~(KC_WORD_WAITERS | KC_WORD_UNDONE)) == (KC_WORD_BODY | KC_WORD_STARTED | 1);
}

/* Under its lock j, a bare one of this thread, is marked: can it end at once? Its body waits for
 * nothing that would have to hear of it, and has nothing to run or to give back. Not the one that
 * has begun to wait and looks for the next one to run: it is on its stack. Not if a seed decides:
 * then as many take their turns whether there is a trace or a tool or not. */
static bool can_end(const kc_job_t *j, uint64_t word)
{
    const kc_thread_t *t = kc__thread();
    const kc_task_t *task = &j->task;
    uint8_t kind = kc_load_relaxed(&task->kind);
    kcoro_t *co = task->co;

    return (kc__job_flags(j) & (KC_JOB_UNWIND | KC_JOB_DETACHED | KC_JOB_ALONE)) ==
               KC_JOB_UNWIND &&
           !(word & KC_WORD_WAITERS) && co->task == task && !co->cleanups &&
           kc__held_count(task) == 0 && co != t->current &&
           !kc__worker_has_mode(t->worker, KC_MODE_ORACLE) &&
           !(kc__tools & KC_TOOL_ASAN) && /* which frees its frames when the stack is left */
           (kind == KC_WAIT_PARK ||
            (kind == KC_WAIT_FOREVER && kc_load_relaxed(&co->claim) == KC_CLAIM_OPEN)) &&
           kc__coro_task_abandon(co);
}

/* Those that have ended so, by their coroutines. Not under a lock: it may take a while. */
static void reap(kc_queue_t *gone)
{
    kc_thread_t *t = kc__thread();

    for (kc_block_t *block; (block = kc__queue_pop(gone)) != NULL;) {
        kcoro_t *co = kc_container_of(block, kcoro_t, block);
        kc_job_t *j = kc__job_of(co->task);
        kc__worker_count(t->worker, KC_COUNT_REAPED);
        kc__worker_forget(t->worker, &j->task);
        kc__coro_task_end(t, co);
        kc__job_unref(j);
    }
}

/*
 * Under the lock of `at`, which is cancelled: those first in the ring that are as most children of
 * a large family are told in a few instructions each. Their bodies are this thread's, so they
 * cannot end meanwhile; and as there is nothing below them and nobody listens, nothing of the
 * user's runs. The lock of such a child is taken under that of its parent, as in told.
 *
 * gone: the coroutines of those that have ended; the count of `at`, which is in word, is to fall by
 * so many. The last two end like others, so that who waits for that hears of it. False: there are
 * no more such.
 */
static bool tell_bare(kc_job_t *at, uint64_t word, kc_queue_t *gone)
{
    uint64_t effect = kc__job_born_mark(at);
    uint64_t count = kc__job_flags(at) & KC_JOB_ROOT ? 0 : word & KC_WORD_COUNT;
    int reason = kc__job_reason_below(at);

    for (int i = 0; i < AT_ONCE; i++) {
        kc_job_t *child = at->children;
        uint64_t seen = child ? kc_load_acquire(&child->task.word) : 0; /* cancel_walk.1 */
        if (!is_bare(seen) ||
            (kc__job_flags(child) & ~(uint32_t)(KC_JOB_PUBLIC | KC_JOB_GRACED)) ||
            kc_load_acquire(&child->task.worker) != kc__worker() || /* cancel_walk.2 */
            !kc__word_try(&child->task, seen, seen | KC_WORD_LOCK))
            return false;
        /* Under its lock: who gives it a signal does that before it looks, so, whether it is
         * cancelled. */
        if (kc__job_ext_of(child) || kc__trace_time(kc__job_sched(child)) != 0) {
            kc__job_unlock_to(child, seen);
            return false;
        }
        fetch_ahead(child);
        child->reason = reason;
        if (gone->count + 2 < count && can_end(child, seen)) {
            kc__queue_push(gone, &child->task.co->block);
            kc__job_end_at_rest(at, child, seen | effect);
            continue;
        }
        kc__job_unlock_to(child, seen | effect);
        at->children = child->next; /* it is the last now */
        kc__job_stop_body(child);
    }
    return true;
}

/*
 * Under the lock of `at`, which has no more children to come: the first that has not been told.
 * NULL: none. Where the body goes on although a child has failed (J24), so does its scope, of which
 * there is at most one: it stays untold, for a cancel that reaches the body.
 */
static kc_job_t *first_untold(kc_job_t *at, uint64_t word)
{
    kc_job_t *child = at->children;

    if (child && !(word & KC_WORD_STOP) && (kc__job_flags(child) & KC_JOB_SCOPE))
        child = child->next != child ? child->next : NULL;
    uint64_t all = kc__job_told_mark(at), more = child ? all & ~kc__job_word(child) : 0;
    if (more & ~KC_WORD_WALKED)
        kc__job_change(child, more & ~KC_WORD_WALKED, KC_WORD_WALKED);
    return more ? child : NULL;
}

void kc__job_walk(kc_job_t *top)
{
    kc_job_t *done = NULL; /* a child of `at` with a reference, told with all below it */

    for (kc_job_t *at = top;;) {
        uint64_t word = kc__job_lock(at);
        kc_queue_t gone = { 0 };
        if (done)
            told(at, done);
        bool many = (word & KC_WORD_HALT) && tell_bare(at, word, &gone);
        kc_job_t *child = (word & KC_WORD_HALT) && !many ? first_untold(at, word) : NULL;
        int reason = kc__job_reason_below(at);
        if (child) {
            fetch_ahead(child);
            kc__job_ref(child);
        }
        kc__job_unlock_to(
            at, kc__word_count_down(gone.count ? word | KC_WORD_UNDONE : word, gone.count, 0));
        reap(&gone);
        if (done)
            kc__job_unref(done);
        done = NULL;
        if (many)
            continue; /* others have had a chance to take the lock */
        if (child) {
            kc__job_mark(child, reason, KC_BY_PARENT);
            if (word & KC_WORD_OVER_BELOW)
                kc__job_mark(child, 0, KC_BY_GRACE); /* it was the child's too (J27) */
            if (kc__job_word(child) & KC_WORD_HALT)
                at = child; /* also if another thread cancels it: both must be through with it */
            else
                done = child;
            continue;
        }
        flush_pending(at);
        if (at == top)
            return;
        done = at;
        at = at->parent;
    }
}
