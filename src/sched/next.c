/* SPDX-License-Identifier: MIT */
/*
 * next.c - which coroutine runs next on a thread: the queues, and the look at everything else.
 *
 * SHAPE    ready   coroutines that have started and may run; this thread's alone, no atomics
 *          unstarted   tasks that must start on this thread, in order of submission
 *          deque   tasks that any worker may start; newest first here, stolen oldest first
 *          inbox   everything from other threads, looked at in every switch
 *
 *          next: ready, but every UNSTARTED_EVERYth turn, and after a yield every second one, a
 *          task that has not started; of the deque every OLDEST_EVERYth time the oldest, if others
 *          have come meanwhile. So nothing that is ready waits for more than a bounded number of
 *          switches: not for those that keep yielding, waking each other, or spawning.
 *
 *          What most turns do is inline (next.h); here is what few do.
 *
 * RULES    R1 a coroutine is in at most one queue, and only while it is not RUNNING.
 */
#include "sched/next.h"

#include "base/os.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/no_stack.h"
#include "sched/spread.h"
#include "sched/worker.h"

#include <errno.h>

enum { CHOICE = 1024 }; /* of so many that wait longest in a queue a seed chooses */

/* There was no stack just now. Each of those that any worker may start is tried nevertheless, once:
 * it may want a smaller one. The others start in order. */
static KC_NOINLINE kcoro_t *start_any(kc_worker_t *w)
{
    kcoro_t *co = NULL;
    kc_task_t *task;

    while (!co && !w->wanted && w->works && (task = kc__deque_pop(&w->deque)) != NULL)
        co = kc__next_start(w, task);
    return co;
}

KC_INLINE kcoro_t *start_unstarted(kc_worker_t *w)
{
    kcoro_t *co = NULL;
    kc_task_t *task;

    if (!kc__worker_has_unstarted(w))
        return NULL;
    if (kc__worker_has_mode(w, KC_MODE_NO_STACK) && !kc__worker_check_retry(w))
        return start_any(w);
    while (!co && !w->wanted && !kc__worker_has_mode(w, KC_MODE_NO_STACK) &&
           (task = kc__next_pop_unstarted(w)) != NULL)
        co = kc__next_start(w, task);
    return co;
}

static size_t choice(const kc_queue_t *q)
{
    return q->count < CHOICE ? q->count : CHOICE;
}

/* With a seed, every choice is its next random number. To take one out costs a step for each before
 * it: so of very many only the first are looked at. */
static kcoro_t *next_by_oracle(kc_worker_t *w)
{
    kcoro_t *co = NULL;

    if (!w->ready.head)
        kc__worker_retry(w);
    while (!co && !w->wanted) {
        size_t ready = choice(&w->ready);
        size_t all =
            ready + (kc__worker_has_mode(w, KC_MODE_NO_STACK) ? 0 : choice(&w->unstarted));
        if (all == 0)
            break;
        size_t k = (size_t)kc__worker_random(w) % all;
        if (k < ready)
            return kc_container_of(kc__queue_take(&w->ready, k), kcoro_t, block);
        co = kc__next_start(
            w, kc_container_of(kc__queue_take(&w->unstarted, k - ready), kc_task_t, block));
    }
    return co;
}

/* What is not looked at in every switch. own: the thread is on its own stack. False: it is wanted
 * there, or the pump is to return. */
static KC_NOINLINE bool look_around(kc_worker_t *w, bool own)
{
    kc__worker_cool(w, KC_COOL_BUSY);
    if (own)
        kc__worker_take_due(w);
    kc__spread_share(w);
    if (w->works)
        kc__spread_take_back(w);
    /* Those that are always busy must not leave it to nobody. What was everybody's lies in one
     * deque now: somebody who has just searched may have missed it. */
    if (w->works && kc__worker_take_injector(w))
        kc__sched_wake_any(w->sched);
    kc__worker_take_without_stack(w);
    return !kc__worker_is_stopped(w) && (own || !kc__worker_is_wanted_there(w));
}

kcoro_t *kc__next_slow(kc_worker_t *w, uint64_t every)
{
    uint64_t turn = kc__worker_next_turn(w);
    bool unstarted_first = turn % every == 0, own = kc__worker_is_on_own_stack();
    kcoro_t *co;

    kc__worker_check_process(w);
    KC_CHECK(kc__worker_is_legal(w));
    if (!kc__mpsc_is_empty(&w->inbox))
        kc__worker_take_inbox(w);
    if (!kc__mpsc_is_empty(&w->offers) && w->works)
        kc__spread_take(w);
    if (kc__worker_has_mode(w, KC_MODE_ASKED))
        kc__spread_share(w);
    if (own)
        kc__worker_read_put_off(w);
    if (kc__worker_is_look_due(w, turn) && !look_around(w, own))
        return NULL;
    if (unstarted_first && w->works && !kc__worker_has_unstarted(w))
        kc__worker_take_injector(w);
    do {
        if (kc__worker_has_mode(w, KC_MODE_ORACLE)) {
            if ((co = next_by_oracle(w)) || !own)
                return co;
            continue;
        }
        if ((!unstarted_first && (co = kc__next_pop_ready(w))) || (co = start_unstarted(w)) ||
            (unstarted_first && !w->wanted && (co = kc__next_pop_ready(w))))
            return co;
        if (!own)
            return NULL;
        /* What was cancelled before it could start has ended just now, and may have woken one. What
         * was read, or has rung, may have left messages for this stack. */
    } while (kc__worker_take_inbox(w) || kc__worker_take_due(w) || kc__worker_read_put_off(w) ||
             w->ready.head);
    return NULL;
}
