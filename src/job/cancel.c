/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - how a job is cancelled: who may, what it is marked with, and how its body hears of it.
 *
 * WHAT     One routine marks a job, whoever asks: a user, its parent, a failed child, its body, a
 *          timer, the end of the scheduler. What it says takes effect at once, or, under a shield,
 *          when the outermost one ends (shield.c): then STOP and HALT are set, and under the same
 *          lock TERMINATE on its signal; those who listen are told, the body is woken from what it
 *          waits for, and the children are marked in turn (cancel_walk.c).
 *
 *          The body is its thread's: if that is another one, it gets a message, the job's own block
 *          through the inbox of that thread. The job counts the message, so it cannot end, and its
 *          scheduler cannot, before it was read. MESSAGED says that one is on its way.
 *
 *          When the grace of a job is over (grace.c), its shields hold nothing back any more, nor
 *          do those below it. They are told as of the cancel itself.
 *
 * ORDER    id        site             operation     pairs with  carries; what breaks if weaker
 *          cancel.1  mark, message:   load_acquire  wait.4      the fields of a coroutine that has
 *                    worker                                     just hopped to this thread
 *          cancel.2  cancelled: word  load_acquire  word.2      TERMINATE on its signal
 *
 * RULES    R1 at most one message of a job is on its way.   (MESSAGED)
 *          R2 STOP without SHIELDED, or GRACE_OVER: what is effective stays so until the body ends,
 *             but for its cleanups.
 */
#include "job/cancel.h"

#include "job/body.h"
#include "job/cancel_walk.h"
#include "job/end.h"
#include "job/external.h"
#include "job/failure.h"
#include "job/grace.h"
#include "job/job.h"
#include "job/job_signal.h"
#include "job/launch.h"
#include "job/max_running.h"
#include "sched/inbox.h"
#include "sched/worker.h"

#include <errno.h>

/* ---- the body ------------------------------------------------------------------------------- */

void kc__job_stop_body(kc_job_t *j)
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
        kc__job_stop_body(j);
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

void kc__job_take_effect(kc_job_t *j, uint64_t added, uint64_t was, bool tells, bool message)
{
    uint32_t flags = kc__job_flags(j);

    if ((added & KC_WORD_STOP) && !message &&
        (was & (KC_WORD_BODY | KC_WORD_MESSAGED)) == KC_WORD_BODY)
        kc__job_stop_body(j);
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

    if (!(kc__job_flags(j) & KC_JOB_GRACED) && kc__job_sched(j)->grace == 0)
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

/* j was marked just now, and its grace is over at once. Returns what its children must hear of. */
static KC_COLD int mark_overdue(kc_job_t *j)
{
    return kc__job_mark(j, 0, KC_BY_OWN_GRACE) & KC_MARKED_BELOW;
}

int kc__job_mark(kc_job_t *j, int reason, kc_cancel_by_t by)
{
    kc_sched_t *s = kc__job_sched(j);
    int64_t at = kc__trace_time(s);
    uint64_t was = kc__job_lock(j), word = marked(j, was, reason, by), added = word & ~was;
    bool effect = added & (KC_WORD_STOP | KC_WORD_HALT), stops = added & KC_WORD_STOP;
    bool message = stops && is_message_due(j, was);
    bool skips = stops && by != KC_BY_PARENT && may_be_pending(j, was); /* else: the walk */
    bool tells = stops && kc__job_signal_terminate(j);

    kc__tsan_release(j);
    /* The count holds j for the message, and for the look at its parent's queue. */
    kc__job_unlock_to(j, (word | (message ? KC_WORD_MESSAGED : 0)) + message + skips);
    if (added & KC_WORD_CANCELLED)
        tell_cancel(s, j, reason, by, at);
    bool in_time =
        !(added & (KC_WORD_CANCELLED | KC_WORD_CHILD_FAILED)) || begin_grace(j, was, reason, by);
    if (effect)
        kc__job_take_effect(j, added, was, tells, message);
    if (skips)
        skip_the_queue(j);
    bool late = (added & KC_WORD_OVER_BELOW) && (word & KC_WORD_HALT);
    return (added & KC_WORD_CANCELLED ? KC_MARKED_FIRST : 0) |
           (effect || late ? KC_MARKED_BELOW : 0) |
           (added & KC_WORD_FAILED ? KC_MARKED_FAILED : 0) |
           (was & KC_WORD_CANCELLED ? KC_MARKED_LATE : 0) | (in_time ? 0 : mark_overdue(j));
}

/* Returns what is new, as kc__job_mark. */
static int cancel_job(kc_job_t *j, int reason, kc_cancel_by_t by)
{
    kc_sched_t *s = kc__job_sched(j);
    bool foreign = kc__external_begin_foreign(s);

    kc__job_ref(j); /* it may end here: a promise does */
    int marked = kc__job_mark(j, reason, by);
    if (marked & KC_MARKED_BELOW)
        kc__job_walk(j);
    kc__job_unref(j);
    if (foreign)
        kc__external_end(s);
    return marked;
}

bool kc__job_cancel(kc_job_t *j, int reason, kc_cancel_by_t by)
{
    return cancel_job(j, reason, by) & KC_MARKED_FIRST;
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

    if (child && (marked & KC_MARKED_FAILED))
        kc__failure_inherit(j, child); /* which j waits for still: so nobody has seen it ended */
}

bool kc__job_fail_running(kc_job_t *j, int code)
{
    return (cancel_job(j, code, KC_BY_CHILD) & (KC_MARKED_FAILED | KC_MARKED_LATE)) ==
           KC_MARKED_FAILED;
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

    if (!j || !(kc_load_acquire(&j->task.word) & KC_WORD_STOP)) /* cancel.2 */
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
