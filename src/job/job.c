/* SPDX-License-Identifier: MIT */
/*
 * job.c - the tree of jobs: who waits for whom, and the one way in which a job ends.
 *
 * WHAT     A job counts what it must wait for: its body, its children, leases, and messages of a
 *          cancel that are on their way to its thread. Whoever takes the last one away ends it:
 *          that happens once, and whoever it is runs nothing of the user's there. A child holds its
 *          parent by such a count, so nothing in a tree ends before what is below it.
 *
 * SHAPE    what users see, as a function of the word (kc_job_state):
 *
 *            ACTIVE --kc__job_cancel, kc__job_fail--> CANCELLING
 *               |  count 0: job_end                       |  count 0: job_end
 *               v                                         v
 *            COMPLETED, FAILED                     CANCELLED, FAILED      DONE is set: for good
 *
 *          the count, from kc__job_new to job_end:
 *
 *            1  the body (a group: open; a promise: pending)   gone: kc__job_count_down by body.c,
 *                                                              scope.c, kc_group_close, cancel.c
 *            +1 each child           kc__job_attach            gone: end of the child
 *            +1 each lease           kc_lease_take             gone: kc_lease_release; the last one
 *                                                              in the count becomes a message
 *            +1 a message on its way  cancel.c                  gone: kc__job_cancel_message
 *
 *          seal and job_end, the one completion path: those who join are claimed --> the outcome
 *          is settled --> the parent hears of a failure --> DONE --> timers and signals are cut -->
 *          those who join are woken, once each --> the parent's count falls, which may end the
 *          parent: in a loop, so that depth costs no stack --> the tree's reference is given up.
 *          end_fast and kc__job_end_at_rest are the same for those for whom most of it is
 *          nothing: nobody joins, nobody listens, the parent has others to wait for.
 *
 * WHO      The lock is a bit of the word, held for a few instructions (a dump: some microseconds),
 *          never while code of the user's runs. A child's may be taken under its parent's, by who
 *          tells it of a cancel or opens a scope; never the other way round.
 *
 * ORDER    id     site             operation     pairs with      carries; what breaks if weaker
 *          job.3  state, result,   load_acquire  word.1, word.2  outcome, payload, what the body
 *                 wait, attach,                                  wrote; what is under the lock, if
 *                 successor, end: word                                it is taken next
 *          job.4  unref: refs      sub_acq_rel   job.4           all uses before the block is free
 *          job.5  ext              cas_acq_rel,  job.5           its contents
 *                                  load_acquire
 *
 * RULES    R1 DONE: the count is 0, there are no children, no waiters.   (KC_ASSERT in job_end)
 *          R2 the count never runs below 0 or over its bits.              (KC_ASSERT in release,
 *                                                                          hold)
 *          R3 in the ring of children, those that were told of all come last: kc__job_told_mark.
 */
#include "job/job.h"

#include "base/lock.h"
#include "base/os.h"
#include "job/body.h"
#include "job/cancel.h"
#include "job/cycle.h"
#include "job/failure.h"
#include "job/job_signal.h"
#include "job/launch.h"
#include "job/locals.h"
#include "job/max_running.h"
#include "job/payload.h"
#include "job/root.h"
#include "job/job_timer.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/worker.h"

#include <errno.h>
#include <string.h>

/* ---- the word ------------------------------------------------------------------------------- */

uint64_t kc__word_wait(kc_task_t *task)
{
    uint32_t looks = 0;
    uint64_t seen;

    do
        kc__os_back_off(&looks);
    while ((seen = kc_load_acquire(&task->word)) & KC_WORD_LOCK); /* job.3 */
    return seen;
}

bool kc__job_count_up(kc_job_t *j)
{
    uint64_t seen = kc__word_seen(&j->task);

    do {
        if ((seen & KC_WORD_COUNT) == 0)
            return false;
        KC_ASSERT((seen & KC_WORD_COUNT) < KC_WORD_COUNT); /* R2 */
    } while (!kc__word_swap(&j->task, &seen, seen + 1));
    return true;
}

/* ---- memory --------------------------------------------------------------------------------- */

kc_job_t *kc__job_new(kc_sched_t *s, uint32_t flags, bool ext)
{
    kc_thread_t *t = kc__thread_make();
    kc_job_t *j = t ? kc__job_make(t, s, flags, NULL, NULL, 1) : NULL;

    if (j && ext && !kc__job_ext(j)) {
        kc__job_free(j);
        return NULL;
    }
    return j;
}

static void ext_free(kc_job_ext_t *ext)
{
    if (ext->timeout)
        kc__job_timer_drop(ext->timeout);
    if (ext->grace_end)
        kc__job_timer_drop(ext->grace_end);
    if (ext->culprit)
        kc__job_unref(ext->culprit); /* whose own is NULL */
    kc__free(ext->message);
    kc__payload_free(ext);
    kc__locals_free(ext);
    kc__job_signal_free(ext);
    kc__free(ext);
}

static KC_NOINLINE void free_slow(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);
    kc_thread_t *t = kc__thread_make();

    if (ext)
        ext_free(ext);
    if (!t)
        kc__die("no memory for the thread's state");
    kc__block_put(&t->jobs, &j->task.block);
}

void kc__job_free(kc_job_t *j)
{
    kc_thread_t *t = kc__thread();

    if (kc_unlikely(kc__job_ext_of(j) || t->serial == 0))
        free_slow(j);
    else
        kc__block_put(&t->jobs, &j->task.block);
}

kc_job_ext_t *kc__job_ext(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j), *none = NULL;

    if (ext)
        return ext;
    ext = kc__alloc(sizeof *ext);
    if (ext && !kc_cas_acq_rel(&j->ext, &none, ext)) { /* job.5 */
        kc__free(ext);
        ext = none; /* another thread was faster */
    }
    return ext;
}

void kc__job_ref(kc_job_t *j)
{
    kc_add_relaxed(&j->refs, 1);
}

/* The last handle of a pending promise is about to go: nobody can keep it any more (D3, D5). */
static KC_NOINLINE void unref_promise(kc_job_t *j)
{
    uint32_t seen = kc_load_relaxed(&j->refs), last = kc__job_flags(j) & KC_JOB_ONESHOT ? 3 : 2;

    do
        if (seen == last && !(kc__job_word(j) & KC_WORD_DONE))
            kc__job_cancel(j, -ECANCELED, KC_BY_USER);
    while (!kc_cas_acq_rel(&j->refs, &seen, seen - 1)); /* job.4 */
    if (seen == 1)
        kc__job_free(j);
}

static _Noreturn KC_COLD void unref_too_often(void)
{
    kc__usage("kc_job_release", "released more often than retained " KC_RULE("J18"));
}

void kc__job_unref(kc_job_t *j)
{
    if (kc_unlikely(kc__job_flags(j) & KC_JOB_PROMISE)) {
        unref_promise(j);
        return;
    }
    /* Who holds the only reference needs no locked operation to give it up. */
    if (kc_load_acquire(&j->refs) != 1) {              /* job.4 */
        uint32_t before = kc_sub_acq_rel(&j->refs, 1); /* job.4 */
        if (kc_likely(before > 1))
            return;
        if (before == 0)
            unref_too_often();
    }
    kc__job_free(j);
}

void kc__job_give_up(kc_job_t *j)
{
    if (kc_load_acquire(&j->refs) != 1) { /* job.4 */
        kc__job_unref(j);
        return;
    }
    if (kc_unlikely(!(kc__job_word(j) & KC_WORD_DONE)))
        unref_too_often(); /* until it is terminal one reference is the tree's */
    kc__job_free(j);
}

/* ---- the tree ------------------------------------------------------------------------------- */

/* Under the parent's lock: first in the ring. */
KC_INLINE void ring_add(kc_job_t *parent, kc_job_t *j)
{
    kc_job_t *first = parent->children;

    j->parent = parent;
    j->task.depth = parent->task.depth + 1;
    if (kc_unlikely(kc__job_flags(parent) & (KC_JOB_ROOT | KC_JOB_GRACED))) {
        if (kc__job_flags(parent) & KC_JOB_ROOT)
            kc__root_arrive(parent);
        else
            kc_store_relaxed(&j->task.block.flags, kc__job_flags(j) | KC_JOB_GRACED);
    }
    if (first) {
        j->next = first;
        j->prev = first->prev;
        first->prev->next = j;
        first->prev = j;
    } else {
        j->next = j->prev = j;
    }
    parent->children = j;
}

static void ring_remove(kc_job_t *parent, kc_job_t *j)
{
    if (j->next == j) {
        parent->children = j->next = NULL;
        return;
    }
    j->prev->next = j->next;
    j->next->prev = j->prev;
    if (parent->children == j)
        parent->children = j->next;
    j->next = NULL;
}

static KC_NOINLINE int attach_slow(kc_job_t *parent, kc_job_t *j)
{
    uint64_t seen = kc__word_seen(&parent->task);

    do {
        if (kc_unlikely((seen & KC_WORD_COUNT) == 0 || (seen & KC_WORD_CLOSED)))
            return seen & KC_WORD_HALT && (seen & KC_WORD_COUNT) ? -ECANCELED : -ESHUTDOWN;
        if (kc_unlikely(seen & KC_WORD_HALT))
            return -ECANCELED;
        KC_ASSERT((seen & KC_WORD_COUNT) < KC_WORD_COUNT); /* R2 */
    } while (!kc__word_swap(&parent->task, &seen, seen | KC_WORD_LOCK));
    ring_add(parent, j);
    kc__job_unlock_to(parent, seen + 1);
    return 0;
}

int kc__job_attach(kc_job_t *parent, kc_job_t *j)
{
    uint64_t seen = kc_load_acquire(&parent->task.word), word = seen; /* job.3 */
    uint64_t others = (seen & KC_WORD_COUNT) - 1; /* it counts 1 at least, and has room */

    if (kc_unlikely((seen & (KC_WORD_CLOSED | KC_WORD_HALT | KC_WORD_LOCK)) ||
                    others >= KC_WORD_COUNT - 1) ||
        !kc__word_swap(&parent->task, &seen, word | KC_WORD_LOCK))
        return attach_slow(parent, j);
    ring_add(parent, j);
    kc__job_unlock_to(parent, word + 1);
    return 0;
}

void kc__job_attach_scope(kc_job_t *parent, kc_job_t *j)
{
    uint64_t seen = kc__job_lock(parent);

    /* Not HALT alone: then only the children are cancelled, and the body goes on (J24). */
    if (kc_unlikely(seen & KC_WORD_STOP)) {
        j->reason = kc__job_reason_below(parent);
        kc__job_change(j, kc__job_born_mark(parent), 0);
    }
    ring_add(parent, j);
    if (kc_unlikely(seen & KC_WORD_STOP))
        parent->children = j->next; /* R3: it was told, so it is the last */
    kc__job_unlock_to(parent, seen + 1);
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

bool kc__job_admit_in(kc_job_t *parent, kc_job_ext_t *ext, kc_job_t *j)
{
    if (kc_likely(ext->max_running == 0))
        return true;
    bool halted = kc__job_lock(parent) & KC_WORD_HALT;
    int reason = kc__job_reason_below(parent);
    kc__tsan_release(j); /* another thread may submit it */
    bool waits = ext->running >= ext->max_running && !halted && !kc__job_is_stopped(j);
    kc_store_relaxed(&j->task.block.flags, kc__job_flags(j) | KC_JOB_COUNTED);
    if (waits)
        kc__pending_push(ext, j);
    else
        ext->running++;
    kc__job_unlock(parent);
    if (halted) /* the walk may not have come to it: it must not start all the same */
        kc__job_cancel(j, reason, KC_BY_PARENT);
    return !waits;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Under the lock: how it ends, as bits of the word (J3, J4). */
static uint64_t outcome(const kc_job_t *j, uint64_t word)
{
    if (word & KC_WORD_TIMED)
        return KC_WORD_DONE | KC_WORD_DONE_CANCELLED;
    if (j->code != 0)
        return KC_WORD_DONE | KC_WORD_DONE_FAILED;
    return KC_WORD_DONE | (word & KC_WORD_CANCELLED ? KC_WORD_DONE_CANCELLED : 0);
}

/* It ends without a failure, and nobody wants to hear of it. */
KC_INLINE bool is_simple(const kc_job_t *j)
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

/* j is no longer a child of its parent, whose count falls. True: it is 0, and the parent is locked
 * for its end. */
KC_INLINE bool leave_parent(kc_job_t *parent, kc_job_t *j)
{
    kc_sched_t *of = root_sched(parent);

    uint64_t seen = kc__job_lock(parent), count = seen & KC_WORD_COUNT;
    ring_remove(parent, j);
    kc_job_t *next = take_follower(parent, j);
    if (count == 1) {
        kc__job_unlock_to(parent, (seen - 1) | KC_WORD_LOCK);
        return true;
    }
    kc__job_unlock_to(parent, (count == 2 ? seen & ~KC_WORD_DRAIN : seen) - 1);
    if (kc_unlikely(next != NULL))
        kc__task_submit(&next->task);
    if (kc_unlikely(is_looked_at(seen, of)))
        only_one_left(parent, of);
    return false;
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

/* For its parent, metrics and traces. It waits for j still, so its scheduler is there. */
KC_INLINE void tell_end(kc_job_t *j, uint64_t done)
{
    bool failed = done & KC_WORD_DONE_FAILED, cancelled = done & KC_WORD_DONE_CANCELLED;
    kc_sched_t *s = kc__job_sched(j);

    if (kc_likely(done == KC_WORD_DONE)) {
        kc__count(s, KC_COUNT_COMPLETED);
    } else {
        kc__count(s, failed ? KC_COUNT_FAILED : KC_COUNT_CANCELLED);
        leave_undone(j, done);
    }
    KC_TRACE(s, .kind = KC_EVENT_FINALIZE, .job = kc__job_number(j), .value = kc__job_result(j),
             .other = (uint32_t)j->reason,
             .state = failed      ? KC_JOB_FAILED
                      : cancelled ? KC_JOB_CANCELLED
                                  : KC_JOB_COMPLETED);
}

/* The same, of one who has waited for j: co, which does not run yet; NULL: a plain thread. */
static KC_NOINLINE void record_wake(kc_job_t *j, const kcoro_t *co)
{
    KC_TRACE(kc__job_sched(j), .kind = KC_EVENT_WAIT_WAKE, .job = kc__job_number(j),
             .other = co ? kc__job_number(kc__job_of(co->task)) : 0);
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
        kc__job_hand_on(j, parent);
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

/* The same of one that is sealed, without an extension, on the thread of its body: what most ends
 * are, in a few instructions. True: its parent has more to wait for, and nobody looks at that. */
KC_INLINE bool end_fast(kc_job_t *j, uint64_t done)
{
    kc_worker_t *w = kc__worker();
    kc_job_t *parent = j->parent;
    uint64_t seen = kc_load_acquire(&parent->task.word); /* job.3 */

    if (kc_unlikely(kc__worker_has_mode(w, KC_MODE_TRACE | KC_MODE_TOOLS)) ||
        (kc__job_flags(j) & (KC_JOB_FOREIGN | KC_JOB_COUNTED)) || (seen & KC_WORD_COUNT) == 1 ||
        is_looked_at(seen, kc__job_flags(parent) & KC_JOB_ROOT) ||
        (kc_unlikely(done != KC_WORD_DONE) && !(seen & KC_WORD_UNDONE)) || /* it may be so now */
        !kc__word_try(&parent->task, seen, seen | KC_WORD_LOCK))
        return false;
    kc__worker_count(w, done == KC_WORD_DONE ? KC_COUNT_COMPLETED : KC_COUNT_CANCELLED);
    ring_remove(parent, j);
    kc__job_unlock_to(parent, seen - 1);
    return true;
}

/* The last in the count goes; *seen is the word. False: it is another one now. */
static bool count_down_last(kc_job_t *j, uint64_t clear, uint64_t *seen)
{
    uint64_t word = (*seen & ~clear & ~KC_WORD_DRAIN) - 1, done = outcome(j, *seen);
    bool at_once = !(*seen & KC_WORD_WAITERS) && is_simple(j); /* nobody need hear of it */

    if (!kc__word_swap(&j->task, seen, word | (at_once ? done : KC_WORD_LOCK)))
        return false;
    job_end(j, at_once ? done : 0);
    return true;
}

/* only_last: does nothing if others are in the count. True: the count fell. */
static bool release(kc_job_t *j, uint64_t clear, bool only_last)
{
    uint64_t seen = kc__word_seen(&j->task);
    kc_sched_t *of = root_sched(j);

    for (;;) {
        uint64_t count = seen & KC_WORD_COUNT, gone = count == 2 ? clear | KC_WORD_DRAIN : clear;
        KC_ASSERT(count > 0); /* R2 */
        if (count > 1 && only_last)
            return false;
        if (count == 1) {
            if (count_down_last(j, clear, &seen))
                return true;
        } else if (kc__word_swap(&j->task, &seen, (seen & ~gone) - 1)) {
            if (is_looked_at(seen, of))
                only_one_left(j, of);
            return true;
        }
    }
}

/* The body of j goes, on its thread, and is the last in the count: what most ends are. Nobody has
 * asked j to end, nobody waits for it, and nobody need hear of it. False: it is another one. */
KC_INLINE bool count_down_body_fast(kc_job_t *j)
{
    const uint64_t others = KC_WORD_LOCK | KC_WORD_WAITERS | KC_WORD_CANCELLED | KC_WORD_TIMED;
    uint64_t seen = kc_load_acquire(&j->task.word); /* job.3 */
    uint64_t word = ((seen & ~(KC_WORD_BODY | KC_WORD_DRAIN)) - 1) | KC_WORD_DONE;

    if ((seen & (KC_WORD_COUNT | others)) != 1 || !is_simple(j) ||
        !kc__word_swap(&j->task, &seen, word))
        return false;
    if (kc_likely(end_fast(j, KC_WORD_DONE)))
        kc__job_unref(j);
    else
        job_end(j, KC_WORD_DONE);
    return true;
}

void kc__job_count_down(kc_job_t *j, uint64_t clear)
{
    if (!(clear & KC_WORD_BODY) || !count_down_body_fast(j))
        release(j, clear, false);
}

bool kc__job_count_down_last(kc_job_t *j, uint64_t clear)
{
    return release(j, clear, true);
}

bool kc__job_count_down_not_last(kc_job_t *j)
{
    uint64_t seen = kc__word_seen(&j->task);

    kc__tsan_release(j);
    for (;;) {
        uint64_t count = seen & KC_WORD_COUNT, gone = count == 2 ? KC_WORD_DRAIN : 0;
        uint64_t word = count == 1 ? seen | KC_WORD_MESSAGED : (seen & ~gone) - 1;
        KC_ASSERT(count > 1 || (count == 1 && !(seen & KC_WORD_MESSAGED))); /* R2 */
        if (!kc__word_swap(&j->task, &seen, word))
            continue;
        if (is_looked_at(seen, false))
            only_one_left(j, NULL);
        return count > 1;
    }
}

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
    uint64_t seen = kc_load_acquire(&j->task.word); /* job.3 */
    kc_thread_t *t = kc__thread();

    if ((seen & KC_WORD_COUNT) != 1)
        return NULL;
    if (kc_unlikely(kc__job_is_heard(j, seen)))
        return t->main_co; /* its last child has gone since kc__job_end_is_heard was asked */
    if (!(seen & KC_WORD_WAITERS))
        return successor_above(j->parent, t->worker);
    /* The body gives itself up here, so that nothing can come between; but j is sealed on the next
     * stack, and stays locked until then. */
    uint64_t word = ((seen & ~(KC_WORD_BODY | KC_WORD_DRAIN)) - 1) | KC_WORD_LOCK;
    if (!kc__word_try(&j->task, seen, word))
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

/* The same for one that needs more than that. done: as job_end says; word: of j. */
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

    if (kc_likely(!(word & KC_WORD_BODY) && !j->waiters && is_simple(j))) {
        done = outcome(j, word);
        kc__job_unlock_to(j, (word & ~KC_WORD_LOCK) | done);
        if (kc_likely(end_fast(j, done))) {
            kc__job_unref(j);
            return;
        }
    }
    end_on_next_stack(j, word, done);
}

void kc__job_end_at_rest(kc_job_t *parent, kc_job_t *j, uint64_t word)
{
    KC_CHECK((word & KC_WORD_COUNT) == 1 && !j->waiters && !j->children);
    ring_remove(parent, j);
    kc__worker_count(kc__worker(), KC_COUNT_CANCELLED);
    j->task.wait = NULL;
    kc_store_relaxed(&j->task.kind, KC_WAIT_NONE);
    kc_store_relaxed(&j->task.block.flags, kc__job_flags(j) | KC_JOB_NO_RETURN);
    kc__tsan_release(parent);
    kc__job_unlock_to(j, (word & ~(KC_WORD_BODY | KC_WORD_COUNT)) | KC_WORD_DONE |
                             KC_WORD_DONE_CANCELLED);
}

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
