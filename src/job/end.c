/* SPDX-License-Identifier: MIT */
/*
 * end.c - what a job waits for, and the one way in which it ends.
 *
 * WHAT     A job counts what it must wait for: its body, its children, leases, and messages of a
 *          cancel that are on their way to its thread. Whoever takes the last one away ends it:
 *          that happens once, and whoever it is runs nothing of the user's there. A child holds its
 *          parent by such a count, so nothing in a tree ends before what is below it.
 *
 * SHAPE    what users see, as a function of the word (kc_job_state):
 *
 *            ACTIVE --kc__job_cancel, kc__job_fail--> CANCELLING
 *               |  count 0: seal                          |  count 0: seal
 *               v                                         v
 *            COMPLETED, FAILED                     CANCELLED, FAILED      DONE is set: for good
 *
 *          the count, from kc__job_create to the end:
 *
 *            1  the body (a group: open; a promise: pending)   gone: kc__job_count_down by body.c,
 *                                                              scope.c, kc_group_close, cancel.c
 *            +1 each child           kc__job_attach            gone: leave, at the end of the child
 *            +1 each lease           kc_lease_take             gone: kc_lease_release; the last one
 *                                                              in the count becomes a message
 *            +1 a message on its way  cancel.c                 gone: kc__job_cancel_message
 *
 *          the one completion path: those who join are claimed --> the outcome is settled --> the
 *          parent hears of a failure --> DONE (all that is seal) --> it is counted --> timers and
 *          signals are cut --> those who join are woken, once each --> it leaves its parent, whose
 *          count falls, which may end the parent: in a loop, so that depth costs no stack --> the
 *          tree's reference is given up. Two ends prove first that most of this is nothing, and
 *          take the steps that are left: end_fast (nobody joins, nobody listens, the parent has
 *          others to wait for) and kc__job_end_at_rest (the same, of many at once).
 *
 * ORDER    id     site             operation     pairs with      carries; what breaks if weaker
 *          end.1  wait, successor, load_acquire  word.1, word.2  outcome, payload, what the body
 *                 end_fast: word                                 wrote; what is under the lock, if
 *                                                                it is taken next
 *
 * RULES    R1 DONE: the count is 0, there are no children, no waiters.   (KC_ASSERT in job_end)
 */
#include "job/end.h"

#include "base/os.h"
#include "job/body.h"
#include "job/cancel.h"
#include "job/children.h"
#include "job/cycle.h"
#include "job/external.h"
#include "job/failure.h"
#include "job/job_signal.h"
#include "job/job_timer.h"
#include "job/launch.h"
#include "job/max_running.h"
#include "job/payload.h"
#include "sched/inbox.h"
#include "sched/worker.h"

/* ---- how it ends ---------------------------------------------------------------------------- */

/* Under the lock: how it ends, as bits of the word (J3, J4). */
static uint64_t outcome(const kc_job_t *j, uint64_t word)
{
    if (word & KC_WORD_TIMED)
        return KC_WORD_DONE | KC_WORD_DONE_CANCELLED;
    if (j->code != 0)
        return KC_WORD_DONE | KC_WORD_DONE_FAILED;
    return KC_WORD_DONE | (word & KC_WORD_CANCELLED ? KC_WORD_DONE_CANCELLED : 0);
}

/* It ends without a failure, and nobody but those who join it wants to hear of that. */
KC_INLINE bool is_silent(const kc_job_t *j)
{
    return !kc__job_ext_of(j) && j->code == 0;
}

/* Under the lock: claims all who wait, and appends them to a list. Returns its new end. */
static kc_link_t **claim_waiters(kc_job_t *j, kc_link_t **end)
{
    while (j->waiters) {
        kc_wait_t *w = kc__wait_of(j->waiters);
        kc__wait_unlink(&j->waiters, &w->link);
        if (kc__wait_claim_own(w, 0))
            end = kc__wait_append(end, w);
    }
    return end;
}

/* When it fails, so does its parent. */
static bool can_fail_parent(const kc_job_t *j)
{
    return !(kc__job_flags(j) & (KC_JOB_ALONE | KC_JOB_SCOPE | KC_JOB_PROMISE)) &&
           !(kc__job_flags(j->parent) & (KC_JOB_SUPERVISOR | KC_JOB_ROOT));
}

static void cut_off(kc_job_t *j, kc_job_ext_t *ext)
{
    kc__job_lock(j);
    kc_job_timer_t *timeout = ext->timeout, *grace_end = ext->grace_end;
    ext->timeout = ext->grace_end = NULL;
    kc__job_unlock(j);
    if (timeout)
        kc__job_timer_drop(timeout);
    if (grace_end)
        kc__job_timer_drop(grace_end);
    kc__job_signal_end(j);
    if (ext->ended)
        ext->ended(ext->owner);
}

/* Whose main thread waits until the count of j falls; NULL: j is no root. To be asked before it
 * falls: then the scheduler may end, and j with it. (The scheduler's own memory stays.) */
KC_INLINE kc_sched_t *root_sched(kc_job_t *j)
{
    return kc__job_flags(j) & KC_JOB_ROOT ? kc__job_sched(j) : NULL;
}

/* Somebody may wait until such a word's count falls to 1: who drains, or for a root main. */
KC_INLINE bool is_looked_at(uint64_t seen, bool root)
{
    return (seen & KC_WORD_COUNT) == 2 && (root || (seen & KC_WORD_DRAIN));
}

/* The count of j has fallen to 1: whoever waits for that hears of it. of: its scheduler, if it is a
 * root; then it may be gone. */
static KC_NOINLINE void only_one_left(kc_job_t *j, kc_sched_t *of)
{
    if (of) {
        kc__worker_wake(of->main); /* which may run until nothing is left */
        return;
    }
    kc_wait_t *w = j->task.wait; /* its body stays in there until we wake it */
    if (kc__wait_claim_own(w, 0))
        kc__wait_wake(w);
}

/* Under the parent's lock: its child j has ended. Another one that may start now; NULL: none. */
static kc_job_t *take_follower(kc_job_t *parent, kc_job_t *j)
{
    if (kc_likely(!(kc__job_flags(j) & KC_JOB_COUNTED)))
        return NULL;
    kc_job_ext_t *ext = kc__job_ext_of(parent);
    /* In a job that is cancelled they wait until all are marked: see flush_pending. Of those that
     * have not waited for their turn (skip_the_queue) there may be more than may run. */
    bool full = --ext->running >= ext->max_running;
    bool halted = kc__job_word(parent) & KC_WORD_HALT;
    kc_job_t *next = full || halted ? NULL : kc__pending_pop(ext);
    ext->running += next != NULL;
    return next;
}

/* Under the lock of the parent: its child j goes, and its word becomes this. */
KC_INLINE void leave(kc_job_t *parent, kc_job_t *j, uint64_t word)
{
    kc__children_remove(parent, j);
    kc__job_unlock_to(parent, word);
}

/* What goes with one of such a count. */
KC_INLINE uint64_t goes_with(uint64_t seen)
{
    return (seen & KC_WORD_COUNT) <= 2 ? KC_WORD_DRAIN : 0;
}

/* j has ended. True: its parent ends, too, and is locked for that. */
KC_INLINE bool leave_parent(kc_job_t *parent, kc_job_t *j)
{
    kc_sched_t *of = root_sched(parent);
    uint64_t seen = kc__job_lock(parent);
    bool last = (seen & KC_WORD_COUNT) == 1;
    kc_job_t *next = take_follower(parent, j); /* which is in the count: then j is not the last */

    leave(parent, j, kc__word_count_down(seen, 1, goes_with(seen)) | (last ? KC_WORD_LOCK : 0));
    if (kc_unlikely(next != NULL))
        kc__task_submit(&next->task);
    if (kc_unlikely(is_looked_at(seen, of)))
        only_one_left(parent, of);
    return last;
}

static void tell_failure(void *arg)
{
    kc_job_t *j = arg;

    if (kc_unlikely(kc__failure_is_reported(j)))
        kc__failure_report(j);
    if (can_fail_parent(j))
        kc__job_fail(j->parent, j->code, j);
}

/*
 * j is locked and its count is 0: it is terminal when this returns. Returns who has waited for it.
 *
 * Before anybody can see the end of j its parent hears of a failure, its handlers have run for the
 * last time, and its value is disposed of if nobody may have it: so whoever has seen it finds its
 * parent cancelled, and may free what those used. Those who wait were claimed before: the failure
 * does not take its code from them.
 */
KC_INLINE kc_link_t *seal(kc_job_t *j, uint64_t *done)
{
    kc_link_t *claimed = NULL, **end = &claimed;

    if (j->waiters)
        end = claim_waiters(j, end);
    *done = outcome(j, kc__job_word(j)); /* nothing changes that: its count is 0 */
    kc_job_ext_t *ext = kc__job_ext_of(j);
    bool tells = kc_unlikely(*done & KC_WORD_DONE_FAILED) &&
                 (can_fail_parent(j) || kc__failure_is_reported(j));
    if (kc_unlikely(tells || (ext && (ext->signal || ext->drop)))) {
        kc__job_unlock(j);
        if (tells)
            kc__worker_call(tell_failure, j);
        if (ext) {
            kc__job_signal_cut(j);
            kc__payload_end(ext, *done);
        }
        kc__job_lock(j);
        claim_waiters(j, end); /* who came meanwhile */
        ext = kc__job_ext_of(j);
    }
    if (kc_unlikely(ext && ext->ending))
        ext->ending(ext->owner, *done);
    kc__job_unlock_to(j, (kc__job_word(j) & ~KC_WORD_LOCK) | *done);
    return claimed;
}

/* j has not ended as completed: its parent, which counts it still, may have to know. */
static KC_NOINLINE void leave_undone(const kc_job_t *j, uint64_t done)
{
    uint64_t undone = kc__job_undone(j, done);

    if (undone & ~kc__job_word(j->parent))
        kc__job_change(j->parent, undone, 0);
}

/* For metrics. */
KC_INLINE kc_counter_t counter_of(uint64_t done)
{
    if (kc_likely(done == KC_WORD_DONE))
        return KC_COUNT_COMPLETED;
    return done & KC_WORD_DONE_FAILED ? KC_COUNT_FAILED : KC_COUNT_CANCELLED;
}

/* For its parent, metrics and traces. It waits for j still, so its scheduler is there. */
KC_INLINE void tell_end(kc_job_t *j, uint64_t done)
{
    bool failed = done & KC_WORD_DONE_FAILED, cancelled = done & KC_WORD_DONE_CANCELLED;
    kc_sched_t *s = kc__job_sched(j);

    kc__count(s, counter_of(done));
    if (kc_unlikely(done != KC_WORD_DONE))
        leave_undone(j, done);
    KC_TRACE(s, .kind = KC_EVENT_FINALIZE, .job = kc__job_number(j), .value = kc__job_result(j),
             .other = (uint32_t)j->reason,
             .state = failed      ? KC_JOB_FAILED
                      : cancelled ? KC_JOB_CANCELLED
                                  : KC_JOB_COMPLETED);
}

/* For traces: j wakes one who has waited for it: co, which does not run yet; NULL: a plain
 * thread. */
static KC_NOINLINE void record_wake(kc_job_t *j, const kcoro_t *co)
{
    KC_TRACE(kc__job_sched(j), .kind = KC_EVENT_WAIT_WAKE, .job = kc__job_number(j),
             .other = co ? kc__job_number(kc__job_of(co->task)) : 0);
}

/* j has ended: what was done in it and below comes before what follows the end of its parent. */
KC_INLINE void hand_on(const kc_job_t *j, const kc_job_t *parent)
{
    if (kc__tsan()) {
        kc__tsan_acquire(j);
        kc__tsan_release(parent);
    }
}

/* One whose parent is in another scheduler has left it: the hold on that is over when all has
 * followed there. Returns it, instead of the one before. */
static kc_sched_t *foreign_left(kc_sched_t *before, kc_sched_t *held)
{
    if (before)
        kc__external_end(before);
    return held;
}

/* j, which is locked, would be told of, or have its value disposed of, here, on the stack of the
 * next one: then its thread does it later, on its own. Mostly foreseen: kc__job_end_is_heard. */
static bool put_off_end(kc_job_t *j, const kc_sched_t *held)
{
    if (kc_likely(!kc__job_is_heard(j, kc__job_word(j))) || held || !kc__worker_is_between())
        return false;
    kc__job_unlock(j);
    kc__worker_read_later(kc__worker(), &j->task.block);
    return true;
}

/* The end of j, and all that follows, upwards. done is 0: it is locked and its count is 0. Else it
 * is sealed already, so, and nobody has waited for it. */
static void job_end(kc_job_t *j, uint64_t done)
{
    kc_sched_t *held = NULL;

    for (bool more = true; more; done = 0) {
        if (!done && put_off_end(j, held))
            break;
        kc_link_t *claimed = done ? NULL : seal(j, &done);
        kc_job_ext_t *ext = kc__job_ext_of(j);
        kc_job_t *parent = j->parent;

        KC_ASSERT(!j->children && !j->waiters); /* R1 */
        tell_end(j, done);
        hand_on(j, parent);
        if (kc_unlikely(ext != NULL))
            cut_off(j, ext);
        while (claimed) {
            kc_wait_t *w = kc__wait_of(claimed);
            claimed = claimed->next;
            kc__count(kc__job_sched(j), KC_COUNT_WAKES);
            record_wake(j, w->co);
            kc__wait_wake(w);
        }
        kc_sched_t *above = NULL;
        if (kc_unlikely(kc__job_flags(j) & KC_JOB_FOREIGN)) {
            above = kc__job_sched(parent);
            kc__foreign_remove(j);
        }
        more = leave_parent(parent, j);
        if (kc_unlikely(above != NULL))
            held = foreign_left(held, above);
        kc__job_unref(j);
        j = parent;
    }
    if (kc_unlikely(held != NULL))
        kc__external_end(held);
}

void kc__job_end_now(kc_job_t *j)
{
    kc__job_lock(j);
    job_end(j, 0);
}

/* The end of j on the thread of its body, when it is sealed as done says, and silent: most ends are
 * that, in a few instructions. True: its parent has more to wait for, and nobody looks at that.
 * False: nothing was done. */
KC_INLINE bool end_fast(kc_job_t *j, uint64_t done)
{
    kc_worker_t *w = kc__worker();
    kc_job_t *parent = j->parent;
    uint64_t seen = kc_load_acquire(&parent->task.word); /* end.1 */

    if (kc_unlikely(kc__worker_has_mode(w, KC_MODE_TRACE | KC_MODE_TOOLS)) ||
        (kc__job_flags(j) & (KC_JOB_FOREIGN | KC_JOB_COUNTED)) || (seen & KC_WORD_COUNT) == 1 ||
        is_looked_at(seen, kc__job_flags(parent) & KC_JOB_ROOT) ||
        (kc_unlikely(done != KC_WORD_DONE) && !(seen & KC_WORD_UNDONE)) || /* it may be so now */
        !kc__word_try(&parent->task, seen, seen | KC_WORD_LOCK))
        return false;
    kc__worker_count(w, counter_of(done));
    leave(parent, j, kc__word_count_down(seen, 1, 0));
    kc__job_unref(j);
    return true;
}

/* ---- the count ------------------------------------------------------------------------------ */

uint64_t kc__word_wait(kc_task_t *task)
{
    uint32_t looks = 0;
    uint64_t seen;

    do
        kc__os_back_off(&looks);
    while ((seen = kc_load_acquire(&task->word)) & KC_WORD_LOCK); /* end.1 */
    return seen;
}

bool kc__job_count_up(kc_job_t *j)
{
    uint64_t seen = kc__word_seen(&j->task);

    do
        if ((seen & KC_WORD_COUNT) == 0)
            return false;
    while (!kc__word_swap(&j->task, &seen, kc__word_count_up(seen, 1)));
    return true;
}

/* The last in the count of j goes; *seen is the word. False: it is another one now. */
static bool take_last(kc_job_t *j, uint64_t clear, uint64_t *seen)
{
    bool at_once = !(*seen & KC_WORD_WAITERS) && is_silent(j);
    uint64_t done = at_once ? outcome(j, *seen) : 0;
    uint64_t word = kc__word_count_down(*seen, 1, clear | KC_WORD_DRAIN);

    if (!kc__word_swap(&j->task, seen, word | (at_once ? done : KC_WORD_LOCK)))
        return false;
    job_end(j, done);
    return true;
}

/* Which one in the count may go. */
typedef enum { ANY, ONLY_LAST, NOT_LAST } kc_which_t;

/* One less in the count of j. True: it fell. Else nothing has changed; but with NOT_LAST the last
 * one has become a message. */
static bool count_down(kc_job_t *j, uint64_t clear, kc_which_t which)
{
    uint64_t seen = kc__word_seen(&j->task);
    kc_sched_t *of = root_sched(j);

    for (;;) {
        bool last = (seen & KC_WORD_COUNT) == 1;
        KC_ASSERT((seen & KC_WORD_COUNT) > 0);
        if (!last && which == ONLY_LAST)
            return false;
        if (last && which != NOT_LAST) {
            if (take_last(j, clear, &seen))
                return true;
            continue;
        }
        KC_ASSERT(!last || !(seen & KC_WORD_MESSAGED)); /* there is one message at a time */
        if (!kc__word_swap(&j->task, &seen,
                           last ? seen | KC_WORD_MESSAGED
                                : kc__word_count_down(seen, 1, clear | goes_with(seen))))
            continue;
        if (is_looked_at(seen, of))
            only_one_left(j, of);
        return !last;
    }
}

/* The body of j goes, on its thread: most are the last in the count, of a job that nobody has asked
 * to end or waits for. False: nothing has changed. */
KC_INLINE bool count_down_body_fast(kc_job_t *j)
{
    const uint64_t others = KC_WORD_LOCK | KC_WORD_WAITERS | KC_WORD_CANCELLED | KC_WORD_TIMED;
    uint64_t seen = kc_load_acquire(&j->task.word); /* end.1 */
    uint64_t body = KC_WORD_BODY | KC_WORD_DRAIN;

    if ((seen & (KC_WORD_COUNT | others)) != 1 || !is_silent(j) ||
        !kc__word_try(&j->task, seen, kc__word_count_down(seen, 1, body) | KC_WORD_DONE))
        return false;
    if (kc_unlikely(!end_fast(j, KC_WORD_DONE)))
        job_end(j, KC_WORD_DONE);
    return true;
}

void kc__job_count_down(kc_job_t *j, uint64_t clear)
{
    if (!(clear & KC_WORD_BODY) || !count_down_body_fast(j))
        count_down(j, clear, ANY);
}

bool kc__job_count_down_last(kc_job_t *j, uint64_t clear)
{
    return count_down(j, clear, ONLY_LAST);
}

bool kc__job_count_down_not_last(kc_job_t *j)
{
    kc__tsan_release(j);
    return count_down(j, 0, NOT_LAST);
}

/* ---- the body goes -------------------------------------------------------------------------- */

/* The body of its parent drains, and j is all that it waits for. */
static KC_NOINLINE kcoro_t *successor_above(kc_job_t *parent, kc_worker_t *me)
{
    uint64_t seen = kc__word_seen(&parent->task);

    do
        if ((seen & KC_WORD_COUNT) != 2 || !(seen & KC_WORD_DRAIN) ||
            kc_load_relaxed(&parent->task.worker) != me)
            return NULL;
    while (!kc__word_swap(&parent->task, &seen, seen & ~KC_WORD_DRAIN));
    kc_wait_t *w = parent->task.wait;
    return kc__wait_claim_own(w, 0) ? w->co : NULL;
}

kcoro_t *kc__job_successor(kc_job_t *j)
{
    uint64_t seen = kc_load_acquire(&j->task.word); /* end.1 */
    kc_thread_t *t = kc__thread();

    if ((seen & KC_WORD_COUNT) != 1)
        return NULL;
    if (kc_unlikely(kc__job_is_heard(j, seen)))
        return t->main_co; /* its last child has gone since kc__job_end_is_heard was asked */
    if (!(seen & KC_WORD_WAITERS))
        return successor_above(j->parent, t->worker);
    /* The body gives itself up here, so that nothing can come between; but j is sealed on the next
     * stack, and stays locked until then. */
    uint64_t word = kc__word_count_down(seen, 1, KC_WORD_BODY | KC_WORD_DRAIN);
    if (!kc__word_try(&j->task, seen, word | KC_WORD_LOCK))
        return NULL;
    kc_link_t *l = j->waiters;
    if (!l || l->next != l)
        return t->main_co; /* where nothing runs that could want the lock */
    kc_wait_t *w = kc__wait_of(l);
    if (!w->co || w->worker != t->worker || !kc__wait_claim_here(w, 0))
        return t->main_co;
    j->waiters = l->next = NULL; /* it was the only one */
    kc__worker_count(t->worker, KC_COUNT_WAKES);
    if (kc_unlikely(kc__worker_has_mode(t->worker, KC_MODE_TRACE)))
        record_wake(j, w->co);
    return w->co;
}

/* The body of j, whose word this is, has gone. done: as job_end says. */
static KC_NOINLINE void end_on_next_stack(kc_job_t *j, uint64_t word, uint64_t done)
{
    kc_worker_t *w = kc__worker();

    w->between = true;
    if (word & KC_WORD_BODY)
        kc__job_count_down(j, KC_WORD_BODY);
    else
        job_end(j, done);
    w->between = false;
}

void kc__job_body_gone(kc_job_t *j)
{
    uint64_t word = kc__job_word(j), done = 0;

    if (kc_likely(!(word & KC_WORD_BODY) && !j->waiters && is_silent(j))) {
        done = outcome(j, word);
        kc__job_unlock_to(j, (word & ~KC_WORD_LOCK) | done);
        if (kc_likely(end_fast(j, done)))
            return;
    }
    end_on_next_stack(j, word, done);
}

void kc__job_end_at_rest(kc_job_t *parent, kc_job_t *j, uint64_t word)
{
    KC_CHECK((word & KC_WORD_COUNT) == 1 && !j->waiters && !j->children);
    kc__children_remove(parent, j);
    kc__worker_count(kc__worker(), counter_of(KC_WORD_DONE | KC_WORD_DONE_CANCELLED));
    j->task.wait = NULL;
    kc_store_relaxed(&j->task.kind, KC_WAIT_NONE);
    kc_store_relaxed(&j->task.block.flags, kc__job_flags(j) | KC_JOB_NO_RETURN);
    kc__tsan_release(parent);
    kc__job_unlock_to(j, kc__word_count_down(word, 1, KC_WORD_BODY | KC_WORD_DRAIN) |
                             KC_WORD_DONE | KC_WORD_DONE_CANCELLED);
}

/* ---- its body waits for all others ---------------------------------------------------------- */

KC_INLINE bool drain_once(kc_job_t *j)
{
    kc_wait_t w;
    uint64_t seen = kc__word_seen(&j->task);

    if ((seen & KC_WORD_COUNT) == 1) {
        kc__tsan_acquire(j); /* of those that have ended */
        return false;
    }
    kc__wait_begin_uncancellable(&w, KC_WAIT_CHILDREN, j);
    j->task.wait = &w; /* before anybody can see DRAIN */
    do
        if ((seen & KC_WORD_COUNT) == 1) {
            j->task.wait = NULL;
            kc__tsan_acquire(j);
            return false;
        }
    while (!kc__word_swap(&j->task, &seen, seen | KC_WORD_DRAIN));
    (void)kc__wait_commit(&w, KC_FOREVER);
    return true;
}

KC_AFTER_SWITCH bool kc__job_drain_once(kc_job_t *j)
{
    return drain_once(j);
}

KC_AFTER_SWITCH void kc__job_drain_children(kc_job_t *j)
{
    if (kc_unlikely(kc__worker_has_mode(kc__worker(), KC_MODE_CYCLES))) {
        kc__cycle_drain(j);
        return;
    }
    while (drain_once(j))
        ;
}
