/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - how a cancel travels: down the tree, and to the body that waits.
 *
 * WHAT     One routine marks a job, whoever asks: a user, its parent, a failed child, its body, a
 *          clock, the end of the scheduler. What it says takes effect at once, or, under a shield,
 *          when the outermost one ends: then STOP and HALT are set, those who listen are told, the
 *          body is woken from what it waits for, and the children are marked in turn.
 *
 *          The body is its thread's: if that is another one, it gets a notice, the job's own block
 *          through the inbox of that thread. The job counts the notice, so it cannot end, and its
 *          scheduler cannot, before it was read. NOTICED says that one is on its way.
 *
 *          The walk needs no memory: the ring of children has those that were told last, and each
 *          that was told is turned to the end. So the first one says whether the walk is over. On
 *          its way down the walk holds a reference on each job of its path, so the way up is there.
 *
 * ORDER    id  site             operation     pairs with  carries; what breaks if weaker
 *          X1  mark: word       cas_acq_rel   job.c J1    the lock, and the hold for a notice in
 *                                                         the same step: the body may end meanwhile
 *          X2  mark: word       load_acquire  body.c B1   worker and co, which BODY stands for
 *          X3  mark, notice:    load_acquire  wait.c A4   the fields of a coroutine that has just
 *              worker                                     hopped to this thread
 *
 * RULES    R1 at most one notice of a job is on its way.   (NOTICED)
 *          R2 STOP without SHIELDED, or GRACE_OVER: what is effective stays so until the body ends,
 *             but for its cleanups.
 */
#include "flow/job.h"

#include <errno.h>
#include <sched.h>

/* ---- the body ------------------------------------------------------------------------------- */

/* On the thread of its body: j is effectively cancelled. */
static void stop_body(kc_job_t *j)
{
    kc_task_t *task = &j->task;

    if (task->co->task == task && task->kind != KC_WAIT_NONE)
        kc__wait_cancel(task->wait);
}

void kc__job_notice(kc_job_t *j)
{
    kc_worker_t *w = kc_load_acquire(&j->task.worker); /* X3 */

    if (w != kc__worker()) { /* it has hopped meanwhile */
        kc__worker_send(w, &j->task.block);
        return;
    }
    if (kc__job_change(j, 0, KC_WORD_NOTICED) & KC_WORD_STOP)
        stop_body(j);
    kc__job_release(j, 0);
}

/* ---- marking -------------------------------------------------------------------------------- */

/* What a cancel says to the children of j: a timeout is its owner's alone (J5). Under its lock. */
static int reason_below(const kc_job_t *j)
{
    int reason = j->reason ? j->reason : j->code;

    return reason == 0 || reason == -ETIMEDOUT ? -ECANCELED : reason;
}

/* Locks j. True: its body is on another thread, and the count holds for a notice to it. */
static bool lock_for_notice(kc_job_t *j, uint64_t *was)
{
    kc_worker_t *me = kc__worker();
    uint64_t seen = kc_load_acquire(&j->task.word); /* X2 */

    for (uint32_t spins = 0;;) {
        if (kc_unlikely(seen & KC_WORD_LOCK)) {
            if (++spins % 64 == 0)
                sched_yield();
            kc__relax();
            seen = kc_load_acquire(&j->task.word); /* X2 */
            continue;
        }
        bool notice = (seen & (KC_WORD_BODY | KC_WORD_NOTICED)) == KC_WORD_BODY &&
                      kc_load_acquire(&j->task.worker) != me;                       /* X3 */
        if (kc_cas_acq_rel(&j->task.word, &seen, (seen | KC_WORD_LOCK) + notice)) { /* X1 */
            *was = seen;
            return notice;
        }
    }
}

/* Under its lock: may `by` cancel j, which is not cancelled? */
static bool may_cancel(uint64_t word, kc_cancel_by_t by)
{
    if (word & (KC_WORD_DONE | KC_WORD_CANCELLED))
        return false;
    return !(word & KC_WORD_FORBID) || by == KC_BY_SHUTDOWN || by == KC_BY_BODY;
}

/* Under its lock: an explicit reason replaces a timeout, as long as the body has not ended (J5). */
static void replace_reason(kc_job_t *j, uint64_t word, int reason, kc_cancel_by_t by)
{
    bool ended = (word & KC_WORD_DONE) || (j->task.co && !(word & KC_WORD_BODY));

    if ((by == KC_BY_USER || by == KC_BY_PARENT || by == KC_BY_SHUTDOWN) &&
        j->reason == -ETIMEDOUT && reason != -ETIMEDOUT && !ended)
        j->reason = reason;
}

/* Under its lock: the bits that this cancel sets. */
static uint64_t bits_to_set(kc_job_t *j, uint64_t word, int reason, kc_cancel_by_t by)
{
    uint64_t effect = KC_WORD_STOP | KC_WORD_HALT;
    uint64_t walked = by == KC_BY_PARENT ? KC_WORD_WALKED : 0;

    if (by == KC_BY_GRACE)
        return KC_WORD_GRACE_OVER |
               (word & KC_WORD_CANCELLED && !(word & KC_WORD_DONE) ? effect : 0);
    if (by == KC_BY_CHILD && (word & KC_WORD_FORBID))
        return KC_WORD_HALT; /* its body goes on, its other children do not */
    if (!may_cancel(word, by)) {
        replace_reason(j, word, reason, by);
        return walked;
    }
    if (by != KC_BY_BODY || reason == -ECANCELED)
        j->reason = reason;
    return KC_WORD_CANCELLED | walked |
           (word & KC_WORD_SHIELDED && !(word & KC_WORD_GRACE_OVER) ? 0 : effect);
}

/* ---- what follows --------------------------------------------------------------------------- */

/* Children that waited for others to end: they will be found stopped. */
static void flush_pending(kc_job_t *j, kc_job_ext_t *ext)
{
    kc__job_lock(j);
    kc_queue_t all = ext->pending;
    ext->pending = (kc_queue_t){ NULL, NULL, 0 };
    ext->running += (uint32_t)all.count;
    kc__job_unlock(j);
    for (kc_block_t *block; (block = kc__queue_pop(&all)) != NULL;)
        kc__task_submit(&kc_container_of(block, kc_job_t, task.block)->task);
}

/* STOP or HALT was set just now. Somebody holds a reference. */
static void takes_effect(kc_job_t *j, uint64_t fresh, uint64_t was, bool notice)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);

    if (kc_unlikely(ext && ext->news) && (fresh & KC_WORD_STOP))
        kc__news_terminate(j);
    if (kc_unlikely(ext && ext->pending.head))
        flush_pending(j, ext);
    if (kc__job_flags(j) & (KC_JOB_GROUP | KC_JOB_PROMISE)) {
        if (!(kc__job_change(j, KC_WORD_CLOSED, 0) & KC_WORD_CLOSED))
            kc__group_ends(j);
    } else if (notice) {
        kc__worker_send(kc_load_acquire(&j->task.worker), &j->task.block); /* X3 */
    } else if ((fresh & KC_WORD_STOP) &&
               (was & (KC_WORD_BODY | KC_WORD_NOTICED)) == KC_WORD_BODY) {
        stop_body(j);
    }
}

/* The time for shields counts from the request (J27). */
static void arm_grace(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);

    if (kc_likely(!ext || ext->grace == 0))
        return;
    kc__job_lock(j);
    kc_clock_t *clock = ext->grace_end;
    if (clock)
        kc__clock_ref(clock);
    kc__job_unlock(j);
    if (!clock)
        return;
    kc__clock_arm(clock, kc__sched_after(kc__job_sched(j), ext->grace));
    kc__clock_unref(clock);
}

enum { MARKED_FIRST = 1, MARKED_EFFECT = 2 };

/* Marks j, which somebody holds a reference on, and says what is new. */
static int mark(kc_job_t *j, int reason, kc_cancel_by_t by)
{
    uint64_t was;
    bool notice = lock_for_notice(j, &was);
    uint64_t set = bits_to_set(j, was, reason, by), fresh = set & ~was;
    bool effect = fresh & (KC_WORD_STOP | KC_WORD_HALT);
    bool send = notice && (fresh & KC_WORD_STOP);

    kc__job_change(j, set | (send ? KC_WORD_NOTICED : 0), KC_WORD_LOCK);
    if (fresh & KC_WORD_CANCELLED)
        arm_grace(j);
    if (effect)
        takes_effect(j, fresh, was, send);
    if (notice && !send)
        kc__job_release(j, 0);
    return (fresh & KC_WORD_CANCELLED ? MARKED_FIRST : 0) | (effect ? MARKED_EFFECT : 0);
}

void kc__job_walk(kc_job_t *top)
{
    for (kc_job_t *at = top;;) {
        kc__job_lock(at);
        kc_job_t *child = at->children;
        if (child && !(kc__job_word(child) & KC_WORD_WALKED)) {
            int reason = reason_below(at);
            at->children = child->next; /* it is the last now */
            kc__job_ref(child);
            kc__job_unlock(at);
            if (mark(child, reason, KC_BY_PARENT) & MARKED_EFFECT)
                at = child;
            else
                kc__job_unref(child);
            continue;
        }
        kc__job_unlock(at);
        if (at == top)
            return;
        kc_job_t *up = at->parent;
        kc__job_unref(at);
        at = up;
    }
}

bool kc__job_cancel(kc_job_t *j, int reason, kc_cancel_by_t by)
{
    kc__job_ref(j); /* it may end here: a promise does */
    int news = mark(j, reason, by);
    if (news & MARKED_EFFECT)
        kc__job_walk(j);
    if ((news & MARKED_FIRST) && by == KC_BY_USER)
        kc__count(kc__job_sched(j), KC_COUNT_CANCELLATIONS);
    kc__job_unref(j);
    return news & MARKED_FIRST;
}

void kc__job_fail(kc_job_t *j, int code, bool child)
{
    kc__job_lock(j);
    if (j->code == 0)
        j->code = code;
    kc__job_unlock(j);
    kc__job_cancel(j, code, child ? KC_BY_CHILD : KC_BY_BODY);
}

/* ---- shields -------------------------------------------------------------------------------- */

void kc__job_shield(kc_job_t *j)
{
    if (j->shields++ > 0)
        return;
    uint64_t word = kc__job_lock(j);
    bool over = word & KC_WORD_GRACE_OVER;
    kc__job_change(j, KC_WORD_SHIELDED, KC_WORD_LOCK | (over ? 0 : KC_WORD_STOP | KC_WORD_HALT));
}

void kc__job_unshield(kc_job_t *j)
{
    if (--j->shields > 0)
        return;
    uint64_t word = kc__job_lock(j);
    uint64_t set = word & KC_WORD_CANCELLED ? KC_WORD_STOP | KC_WORD_HALT : 0;
    kc__job_change(j, set, KC_WORD_LOCK | KC_WORD_SHIELDED);
    if (set & ~word) {
        takes_effect(j, set & ~word, 0, false); /* its body runs: it is the caller */
        kc__job_walk(j);
    }
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
    uint64_t word = kc__job_lock(j);
    if (word & KC_WORD_CANCELLED) {
        kc__job_unlock(j);
        return -ECANCELED;
    }
    j->shields = 1;
    kc__job_change(j, KC_WORD_SHIELDED, KC_WORD_LOCK);
    return 0;
}

void kc_shield_end(void)
{
    kc_job_t *j = kc__job_current();

    if (!j || j->shields == 0)
        kc__usage("kc_shield_end", "no shield is open in the current job (rule J12)");
    kc__job_unshield(j);
}

/* ---- looking -------------------------------------------------------------------------------- */

bool kc_cancelled(void)
{
    kc_job_t *j = kc__job_current();

    return j && kc__job_stopped(j);
}

int kc_check(void)
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);

    return co && kc__job_stopped(kc__job_of(co->task)) ? kc__job_cancelled_here(co) : 0;
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
        kc__usage("kc_cancel_current", "there is no current job (rule J0)");
    return kc_job_cancel(j, reason);
}
