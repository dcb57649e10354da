/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - how a cancel travels: down the tree, and to the body that waits.
 *
 * WHAT     One routine marks a job, whoever asks: a user, its parent, a failed child, its body, a
 *          timer, the end of the scheduler. What it says takes effect at once, or, under a shield,
 *          when the outermost one ends: then STOP and HALT are set, and under the same lock
 *          TERMINATE on its signal; those who listen are told, the body is woken from what it waits
 *          for, and the children are marked in turn.
 *
 *          The body is its thread's: if that is another one, it gets a message, the job's own block
 *          through the inbox of that thread. The job counts the message, so it cannot end, and its
 *          scheduler cannot, before it was read. MESSAGED says that one is on its way.
 *
 *          The walk needs no memory: the ring of children has those that were told last, and each
 *          that was told is turned to the end. So the first one says whether the walk is over. On
 *          its way down the walk holds a reference on each job of its path, so the way up is there.
 *
 *          Those that forbid signals are told and go on, unless the scheduler ends: from then on
 *          walks tell all children once more, and mark with SHUT whom they are about to tell. That
 *          it ends is looked at under the lock of the parent, so whoever finds a child marked so
 *          sees it too.
 *
 *          When the grace of a job is over (grace.c), its shields hold nothing back any more, nor
 *          do those below it. They are told as of the cancel itself: the walk tells all children
 *          once more, and marks with LATE whom it is about to tell.
 *
 *          Many children that are not to be resumed (J17) and have nothing to clean up end where
 *          they are, and their stacks are not even touched: that is what is slow about very many.
 *
 * ORDER    id        site             operation     pairs with  carries; what breaks if weaker
 *          cancel.1  mark, message,    load_acquire  wait.4      the fields of a coroutine that has
 *                    fetch: worker                              just hopped to this thread
 *          cancel.2  tell_bare,       load_acquire  word.1      worker and co, which BODY stands
 *                    fetch: word                                for
 *          cancel.3  cancelled: word  load_acquire  word.2      TERMINATE on its signal
 *
 * RULES    R1 at most one message of a job is on its way.   (MESSAGED)
 *          R2 STOP without SHIELDED, or GRACE_OVER: what is effective stays so until the body ends,
 *             but for its cleanups.
 */
#include "job/cancel.h"

#include "job/body.h"
#include "job/failure.h"
#include "job/grace.h"
#include "job/held.h"
#include "job/job.h"
#include "job/job_signal.h"
#include "job/launch.h"
#include "job/max_running.h"
#include "sched/inbox.h"
#include "sched/worker.h"

#include <errno.h>

enum { AT_ONCE = 64 }; /* children that are told under one lock of their parent */

/* ---- the body ------------------------------------------------------------------------------- */

/* On the thread of its body: j is effectively cancelled. */
static void stop_body(kc_job_t *j)
{
    kc_task_t *task = &j->task;

    kcoro_t *co = task->co;

    if (co->task != task)
        return; /* an inner scope is the current one, and is told by itself */
    if (kc_load_relaxed(&task->kind) != KC_WAIT_NONE)
        kc__wait_cancel(task);
    else if (kc_load_relaxed(&co->state) == KCORO_SUSPENDED && co != kc__thread()->current)
        kc__coro_set_result(co, -ECANCELED); /* it has yielded, and is queued */
}

void kc__job_cancel_message(kc_job_t *j)
{
    kc_worker_t *w = kc_load_acquire(&j->task.worker); /* cancel.1 */

    if ((kc__job_word(j) & KC_WORD_COUNT) == 0) { /* no message: a job counts those */
        kc__job_end_now(j);
        return;
    }

    if (w != kc__worker()) { /* it has hopped meanwhile */
        kc__worker_send(w, &j->task.block);
        return;
    }
    uint64_t word = kc__job_change(j, 0, KC_WORD_MESSAGED);
    if ((word & (KC_WORD_STOP | KC_WORD_BODY)) == (KC_WORD_STOP | KC_WORD_BODY))
        stop_body(j);
    kc__job_count_down(j, 0);
}

void kc__job_count_down_there(kc_job_t *j)
{
    if (!kc__job_count_down_not_last(j)) /* no other message was in the count, so R1 holds */
        kc__worker_send(kc_load_acquire(&j->task.worker), &j->task.block); /* cancel.1 */
}

/* ---- marking -------------------------------------------------------------------------------- */

int kc__job_reason_below(const kc_job_t *j)
{
    int reason = j->reason ? j->reason : j->code;

    return reason == 0 || reason == -ETIMEDOUT ? -ECANCELED : reason;
}

/* It is terminal, or about to be. */
static bool has_ended(uint64_t word)
{
    return (word & KC_WORD_COUNT) == 0;
}

/* The scheduler of j ends. */
static bool is_shutting(kc_job_t *j)
{
    return kc_load_relaxed(&kc__job_sched(j)->shutting);
}

/* `by` is the end of its scheduler, or hands that on. */
static bool is_shutdown(kc_job_t *j, kc_cancel_by_t by)
{
    return by == KC_BY_SHUTDOWN || (by == KC_BY_PARENT && is_shutting(j));
}

/* Under its lock: may `by` cancel j, which is not cancelled? */
static bool may_cancel(kc_job_t *j, uint64_t word, kc_cancel_by_t by)
{
    if (has_ended(word) || (word & KC_WORD_CANCELLED))
        return false;
    return !(word & KC_WORD_FORBID) || by == KC_BY_BODY || is_shutdown(j, by);
}

/* Under its lock: an explicit reason replaces a timeout, as long as the body has not ended (J5).
 * Returns what the word is then. */
static uint64_t replace_reason(kc_job_t *j, uint64_t word, int reason, kc_cancel_by_t by)
{
    bool ended = has_ended(word) || (word & (KC_WORD_STARTED | KC_WORD_BODY)) == KC_WORD_STARTED;

    if ((by != KC_BY_USER && by != KC_BY_REQUEST && by != KC_BY_PARENT && by != KC_BY_SHUTDOWN) ||
        !(word & KC_WORD_TIMED) || reason == -ETIMEDOUT || ended)
        return word;
    j->reason = reason;
    return word & ~KC_WORD_TIMED;
}

/* A shield holds back what is asked. */
static bool is_held(uint64_t word)
{
    return (word & (KC_WORD_SHIELDED | KC_WORD_GRACE_OVER)) == KC_WORD_SHIELDED;
}

/* Under its lock: the same when the time for shields is over. One that was not asked to end, as its
 * body has failed or it forbids signals, holds back what it will: the time was its children's. */
static uint64_t overdue(const kc_job_t *j, uint64_t word, kc_cancel_by_t by)
{
    if (by == KC_BY_OWN_GRACE && j->reason == 0)
        return word | KC_WORD_OVER_BELOW;
    if ((word & (KC_WORD_FORBID | KC_WORD_CANCELLED)) == KC_WORD_FORBID)
        return word;
    return word | KC_WORD_GRACE_OVER | KC_WORD_OVER_BELOW |
           (word & KC_WORD_CANCELLED && !has_ended(word) ? KC_WORD_STOP | KC_WORD_HALT : 0);
}

/* Under its lock: what this cancel makes of the word. */
static uint64_t marked(kc_job_t *j, uint64_t word, int reason, kc_cancel_by_t by)
{
    uint64_t effect = KC_WORD_STOP | KC_WORD_HALT;
    bool fails = by == KC_BY_CHILD || (by == KC_BY_BODY && reason != -ECANCELED);

    if (fails && j->code == 0)
        j->code = reason;
    if (fails)
        word |= KC_WORD_FAILED;
    if (by == KC_BY_GRACE || by == KC_BY_OWN_GRACE)
        return overdue(j, word, by);
    if (by == KC_BY_CHILD && (word & KC_WORD_FORBID)) /* its body goes on */
        return word | KC_WORD_CHILD_FAILED | (is_held(word) ? 0 : KC_WORD_HALT);
    if ((kc__job_flags(j) & KC_JOB_PROMISE) && (word & KC_WORD_CLOSED))
        return word; /* it is kept */
    if (!may_cancel(j, word, by))
        return replace_reason(j, word, reason, by);
    if ((word & KC_WORD_FORBID) && by != KC_BY_BODY)
        j->reason = -ESHUTDOWN; /* whatever that of its parent is, which it has not heard of */
    else if (by != KC_BY_BODY || !fails)
        j->reason = reason;
    uint64_t timed = reason == -ETIMEDOUT && by != KC_BY_CHILD && by != KC_BY_BODY;
    return word | KC_WORD_CANCELLED | (timed ? KC_WORD_TIMED : 0) | (is_held(word) ? 0 : effect);
}

/* ---- what follows --------------------------------------------------------------------------- */

/* Children that waited for others to end, and are all marked now: they will be found stopped. What
 * waits in a job that is not halted is its own, of a cleanup that has begun meanwhile. */
static void flush_pending(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);
    bool more = ext && kc_unlikely(ext->max_running > 0);

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

/* Under its lock, so that its parent is there: j may have to wait for its turn. */
static bool may_be_pending(const kc_job_t *j, uint64_t word)
{
    kc_job_ext_t *ext = word & KC_WORD_STARTED || !j->parent ? NULL : kc__job_ext_of(j->parent);

    return ext && ext->max_running > 0;
}

/* j, which is held, is stopped and need not wait for its turn any more. */
static void skip_the_queue(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j->parent);

    kc__job_lock(j->parent);
    bool waits = kc__pending_remove(ext, j);
    ext->running += waits;
    kc__job_unlock(j->parent);
    if (waits)
        kc__task_submit(&j->task);
    kc__job_count_down(j, 0);
}

/* Under its lock: the body is on another thread, and no message to it is on its way. */
static bool is_message_due(const kc_job_t *j, uint64_t word)
{
    return (word & (KC_WORD_BODY | KC_WORD_MESSAGED)) == KC_WORD_BODY &&
           kc_load_acquire(&j->task.worker) != kc__worker(); /* cancel.1 */
}

/* STOP or HALT was set just now. tells: see kc__job_signal_terminate. Somebody holds a reference.
 * The body is stopped before handlers run: they may take in what was sent to this thread, and then
 * a body that may migrate is no longer where it was when it was decided whether it needs a message.
 * */
static void take_effect(kc_job_t *j, uint64_t added, uint64_t was, bool tells, bool message)
{
    uint32_t flags = kc__job_flags(j);

    if ((added & KC_WORD_STOP) && !message &&
        (was & (KC_WORD_BODY | KC_WORD_MESSAGED)) == KC_WORD_BODY)
        stop_body(j);
    if (tells)
        kc__job_signal_tell(j);
    if (flags & (KC_JOB_GROUP | KC_JOB_PROMISE)) {
        if (!(kc__job_change(j, KC_WORD_CLOSED, 0) & KC_WORD_CLOSED))
            kc__group_end(j);
    } else if (message) {
        kc__worker_send(kc_load_acquire(&j->task.worker), &j->task.block); /* cancel.1 */
    }
}

/* j was asked to end, when its word was so: the time for shields counts from now (J27), unless
 * there is nothing that could hold the cancel back. False: there is no memory for a timer. */
static bool begin_grace(kc_job_t *j, uint64_t was, int reason, kc_cancel_by_t by)
{
    bool told = by == KC_BY_PARENT && !(was & KC_WORD_FORBID) &&
                !(kc__job_flags(j) & KC_JOB_FOREIGN); /* then the one above has a timer */
    bool fails = by == KC_BY_BODY && reason != -ECANCELED;

    if (kc_likely(!(kc__job_flags(j) & KC_JOB_GRACED) && kc__job_sched(j)->grace == 0))
        return true;
    if (told && !kc__job_ext_of(j))
        return true;
    /* That one is its body: not of a group, which may be closed and have a child. */
    if ((was & KC_WORD_COUNT) == 1 && !(kc__job_flags(j) & KC_JOB_GROUP) &&
        (fails || !(was & KC_WORD_STARTED)))
        return true;
    return kc__grace_begin(j, told);
}

/* For metrics and traces: j was cancelled at that time. */
static void tell_cancel(kc_sched_t *s, kc_job_t *j, int reason, kc_cancel_by_t by, int64_t at)
{
    if (kc__job_flags(j) & KC_JOB_ROOT)
        return;
    if (by == KC_BY_REQUEST) {
        const kc_job_t *from = kc__job_current();
        kc__count(s, KC_COUNT_CANCELLATIONS);
        KC_TRACE(s, .kind = KC_EVENT_CANCEL_REQ, .at = at, .job = kc__job_number(j),
                 .value = reason, .other = from ? kc__job_number(from) : 0);
    }
    KC_TRACE(s, .kind = KC_EVENT_STATE, .at = at, .job = kc__job_number(j), .value = reason,
             .state = KC_JOB_CANCELLING, .by = (uint8_t)by);
}

/* FIRST: it was not cancelled before, and is now. BELOW: its children must hear of something.
 * FAILED: it had not failed before, and has now. LATE: it was cancelled before. */
enum { MARKED_FIRST = 1, MARKED_BELOW = 2, MARKED_FAILED = 4, MARKED_LATE = 8 };

static int mark(kc_job_t *j, int reason, kc_cancel_by_t by);

/* j was marked just now, and its grace is over at once. Returns what its children must hear of. */
static KC_NOINLINE KC_COLD int mark_overdue(kc_job_t *j)
{
    return mark(j, 0, KC_BY_OWN_GRACE) & MARKED_BELOW;
}

/* Marks j, which somebody holds a reference on, and says what is new. */
static int mark(kc_job_t *j, int reason, kc_cancel_by_t by)
{
    kc_sched_t *s = kc__job_sched(j);
    int64_t at = kc__trace_time(s);
    uint64_t was = kc__job_lock(j), word = marked(j, was, reason, by), added = word & ~was;
    bool effect = added & (KC_WORD_STOP | KC_WORD_HALT), stops = added & KC_WORD_STOP;
    bool message = stops && is_message_due(j, was);
    bool skips = stops && by != KC_BY_PARENT && may_be_pending(j, was); /* else: flush_pending */
    bool tells = stops && kc__job_signal_terminate(j);

    kc__tsan_release(j);
    /* The count holds j for the message, and for the look at its parent's queue. */
    kc__job_unlock_to(j, (word | (message ? KC_WORD_MESSAGED : 0)) + message + skips);
    if (added & KC_WORD_CANCELLED)
        tell_cancel(s, j, reason, by, at);
    bool in_time =
        !(added & (KC_WORD_CANCELLED | KC_WORD_CHILD_FAILED)) || begin_grace(j, was, reason, by);
    if (effect)
        take_effect(j, added, was, tells, message);
    if (skips)
        skip_the_queue(j);
    bool late = (added & KC_WORD_OVER_BELOW) && (word & KC_WORD_HALT);
    return (added & KC_WORD_CANCELLED ? MARKED_FIRST : 0) | (effect || late ? MARKED_BELOW : 0) |
           (added & KC_WORD_FAILED ? MARKED_FAILED : 0) |
           (was & KC_WORD_CANCELLED ? MARKED_LATE : 0) |
           (kc_likely(in_time) ? 0 : mark_overdue(j));
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

    if ((kc_load_acquire(&task->word) & KC_WORD_BODY) && /* cancel.2 */
        kc_load_acquire(&task->worker) == kc__worker())  /* cancel.1 */
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
        uint64_t seen = child ? kc_load_acquire(&child->task.word) : 0; /* cancel.2 */
        if (!is_bare(seen) ||
            (kc__job_flags(child) & ~(uint32_t)(KC_JOB_PUBLIC | KC_JOB_GRACED)) ||
            kc_load_acquire(&child->task.worker) != kc__worker() || /* cancel.1 */
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
        stop_body(child);
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
        kc__job_unlock_to(at, (gone.count ? word | KC_WORD_UNDONE : word) - gone.count);
        reap(&gone);
        if (done)
            kc__job_unref(done);
        done = NULL;
        if (many)
            continue; /* others have had a chance to take the lock */
        if (child) {
            mark(child, reason, KC_BY_PARENT);
            if (word & KC_WORD_OVER_BELOW)
                mark(child, 0, KC_BY_GRACE); /* it was the child's too (J27) */
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

/* Returns what is new, as mark. */
static int cancel_job(kc_job_t *j, int reason, kc_cancel_by_t by)
{
    kc_sched_t *s = kc__job_sched(j);
    bool foreign = kc__external_begin_foreign(s);

    kc__job_ref(j); /* it may end here: a promise does */
    int marked = mark(j, reason, by);
    if (marked & MARKED_BELOW)
        kc__job_walk(j);
    kc__job_unref(j);
    if (foreign)
        kc__external_end(s);
    return marked;
}

bool kc__job_cancel(kc_job_t *j, int reason, kc_cancel_by_t by)
{
    return cancel_job(j, reason, by) & MARKED_FIRST;
}

bool kc_job_cancel(kc_job_t *j, int reason)
{
    kc__sched_check_process(kc__job_sched(kc__job_live("kc_job_cancel", j)));
    return kc__job_cancel(j, reason ? reason : -ECANCELED, KC_BY_REQUEST);
}

void kc_job_drop(kc_job_t *j)
{
    if (j) {
        kc_job_cancel(kc__job_live("kc_job_drop", j), 0);
        kc__job_give_up(j);
    }
}

void kc__job_fail(kc_job_t *j, int code, kc_job_t *child)
{
    int marked = cancel_job(j, code, child ? KC_BY_CHILD : KC_BY_BODY);

    if (child && (marked & MARKED_FAILED))
        kc__failure_inherit(j, child); /* which j waits for still: so nobody has seen it ended */
}

bool kc__job_fail_running(kc_job_t *j, int code)
{
    return (cancel_job(j, code, KC_BY_CHILD) & (MARKED_FAILED | MARKED_LATE)) == MARKED_FAILED;
}

/* ---- shields -------------------------------------------------------------------------------- */

/* The word changes in one step. Returns what it was. */
static uint64_t change_by(kc_job_t *j, uint64_t (*next)(uint64_t word))
{
    uint64_t seen = kc__word_seen(&j->task);

    while (!kc__word_swap(&j->task, &seen, next(seen)))
        ;
    return seen;
}

static uint64_t with_shield(uint64_t word)
{
    return (word | KC_WORD_SHIELDED) &
           ~(word & KC_WORD_GRACE_OVER ? 0 : KC_WORD_STOP | KC_WORD_HALT);
}

static uint64_t without_shield(uint64_t word)
{
    return (word & ~KC_WORD_SHIELDED) | (word & KC_WORD_CANCELLED ? KC_WORD_STOP | KC_WORD_HALT
                                         : word & KC_WORD_CHILD_FAILED ? KC_WORD_HALT
                                                                       : 0);
}

void kc__job_shield(kc_job_t *j)
{
    if (j->shields++ > 0)
        return;
    if (kc__job_word(j) & KC_WORD_HALT)
        kc__job_walk(j); /* what was there before is told before */
    change_by(j, with_shield);
}

struct late {
    kc_job_t *job;
    uint64_t added;
    bool tells;
};

static void take_late_effect(void *arg)
{
    const struct late *late = arg;

    take_effect(late->job, late->added, 0, late->tells,
                false); /* its body runs: it is the caller */
    kc__job_walk(late->job);
}

void kc__job_unshield(kc_job_t *j)
{
    if (--j->shields > 0)
        return;
    uint64_t was = kc__job_lock(j), word = without_shield(was), added = word & ~was;
    bool tells = (added & KC_WORD_STOP) && kc__job_signal_terminate(j);
    kc__job_unlock_to(j, word);
    if (added & KC_WORD_HALT)
        kc__worker_call(take_late_effect, &(struct late){ j, added, tells });
}

/* A shield that the body asks for comes too late after a cancel. */
static uint64_t with_first_shield(uint64_t word)
{
    return word & KC_WORD_CANCELLED ? word : word | KC_WORD_SHIELDED;
}

int kc_shield_begin(void)
{
    kc_job_t *j = kc__job_current();

    if (!j)
        return -EPERM;
    if (j->shields > 0) {
        j->shields++;
        return 0;
    }
    if (change_by(j, with_first_shield) & KC_WORD_CANCELLED)
        return -ECANCELED;
    j->shields = 1;
    return 0;
}

void kc_shield_begin_nocancel(void)
{
    kc_job_t *j = kc__job_current();

    if (!j)
        kc__usage("kc_shield_begin_nocancel", "there is no current job " KC_RULE("J30"));
    kc__job_shield(j);
}

void kc_shield_end(void)
{
    kc_job_t *j = kc__job_current();

    if (!j || j->shields == 0)
        kc__usage("kc_shield_end", "no shield is open in the current job " KC_RULE("J12"));
    kc__job_unshield(j);
}

/* ---- looking -------------------------------------------------------------------------------- */

/* Apart: who looks in vain saves no registers. */
static KC_COLD bool hear_of_it(const kc_job_t *j)
{
    kc__tsan_acquire(j);
    return true;
}

bool kc_cancelled(void)
{
    kc_job_t *j = kc__job_current();

    if (kc_likely(!j || !(kc_load_acquire(&j->task.word) & KC_WORD_STOP))) /* cancel.3 */
        return false;
    return hear_of_it(j);
}

int kc_check(void)
{
    return kc__job_check_cancel(kc__task_coroutine(kc__thread()->current));
}

int kc_job_reason(const kc_job_t *j)
{
    if (!j)
        return -EINVAL;
    kc_job_t *job = kc__job_live("kc_job_reason", j);
    kc__job_lock(job);
    int reason = job->reason;
    kc__job_unlock(job);
    return reason;
}

int kc_cancel_reason(void)
{
    kc_job_t *j = kc__job_current();

    return j ? kc_job_reason(j) : 0;
}

bool kc_cancel_current(int reason)
{
    kc_job_t *j = kc__job_current();

    if (!j)
        kc__usage("kc_cancel_current", "there is no current job " KC_RULE("J0"));
    return kc_job_cancel(j, reason);
}
