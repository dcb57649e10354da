/* SPDX-License-Identifier: MIT */
/*
 * no_stack.c - tasks that were to start and got no stack (S15).
 *
 * WHAT     Stacks come back when others end, so such a task waits, and is tried again about every
 *          millisecond. What is bound to a thread stays the first in its queue, as it must start
 *          before those that came after it (S13). What any worker may start goes to a place of
 *          the whole scheduler, so that neither those behind it have to wait nor the worker that
 *          happened to take it must be the one that starts it.
 *
 *          That there is no stack is known to the tasks (their mark is in the word of a job, so a
 *          dump can name them), to kc_metrics, and to all threads that have free ones (stack.c).
 *
 *          It must not wait for what cannot come. If all others of its scheduler wait for ever,
 *          nobody gives a stack back, and the task fails with -ENOMEM. With virtual time or a seed
 *          the scheduler sees that it is so (run.c). Else nobody can know what threads outside,
 *          which may set an event or end a process's other mappings, are about to do: so it fails
 *          when for kc__no_stack_patience no coroutine of the scheduler has run, none was ready, no
 *          timer was set, no lease or promise was open, and its main thread has been in a call of
 *          ours that waits.
 *
 * WHO      no_stack: L(no_stack_lock), as this is rare. due, turns and running of the other threads
 *          are looked at without an order: what they say has to hold for a long time. due is set
 *          when a thread goes to sleep, and is KC_FOREVER only as long as nobody wakes it: that it
 *          gets up to try again is nothing that could give a stack back. no_stack_count is raised
 *          before others are woken, and looked at by who goes to sleep when its bit is set (idle.h
 *          idle.1, idle.2): so while there are any, those who could start them get up again.
 *
 * WHY NOT  Fail at once, when a stack is needed: a burst of short jobs at the limit would lose
 *          some that only had to wait for their turn.
 *          Fail when no coroutine of the process has a stack: memory comes from elsewhere too.
 */
#include "sched/no_stack.h"

#include "base/os.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/sched.h"
#include "sched/worker.h"

#include <errno.h>

enum { PAUSE = 1000000 }; /* ns between two tries of a thread */

#define NOT_QUIET UINT64_MAX /* turns that never were */

kc_time_t kc__no_stack_patience = KC_SEC(1);

/* ---- when ----------------------------------------------------------------------------------- */

bool kc__worker_is_awaiting_stack(const kc_worker_t *w)
{
    return kc__worker_has_mode(w, KC_MODE_NO_STACK) ||
           (w->works && kc_load_relaxed(&w->sched->no_stack_count) > 0);
}

void kc__worker_retry(kc_worker_t *w)
{
    if (kc__worker_has_mode(w, KC_MODE_NO_STACK))
        kc_and_relaxed(&w->mode, ~(uint32_t)KC_MODE_NO_STACK);
}

bool kc__worker_check_retry(kc_worker_t *w)
{
    if (kc__worker_has_mode(w, KC_MODE_NO_STACK)) {
        if (kc__os_now() < w->retry_at)
            return false;
        kc__worker_retry(w);
    }
    return true;
}

kc_time_t kc__worker_retry_before(kc_worker_t *w, kc_time_t until, kc_time_t now)
{
    return kc__worker_is_awaiting_stack(w) && now + PAUSE < until ? now + PAUSE : until;
}

/* ---- is there any hope? --------------------------------------------------------------------- */

static kc_worker_t *nth(kc_sched_t *s, int i)
{
    return i < s->workers ? s->worker[i] : s->main;
}

static uint64_t turns_of_all(kc_sched_t *s)
{
    uint64_t all = 0;

    for (int i = 0; i <= s->workers; i++)
        all += kc_load_relaxed(&nth(s, i)->turns);
    return all;
}

/* Nothing of w's scheduler runs, and nothing will by itself, as it looks from w's thread. */
static bool is_quiet(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;
    uint64_t seen;
    bool quiet = !w->ready.head && kc__mpsc_is_empty(&w->inbox) &&
                 kc__worker_next_due(w) == KC_FOREVER &&
                 !kc__sched_hooks.awaits_external(s, &seen);

    for (int i = 0; i <= s->workers && quiet; i++) {
        kc_worker_t *other = nth(s, i);
        quiet = other == w ||
                (!kc_load_relaxed(&other->running) && kc_load_relaxed(&other->due) == KC_FOREVER);
    }
    return quiet;
}

/* Notes since when nothing happens here. True: it is hopeless to wait on. Never but on the thread's
 * own stack, as what fails may run handlers. */
static bool update_quiet(kc_worker_t *w)
{
    const kc_thread_t *t = kc__thread();
    uint64_t turns = turns_of_all(w->sched);
    kc_time_t now = kc__os_now();

    if (t->current != t->main_co)
        return false;
    if (!is_quiet(w)) {
        w->quiet_turns = NOT_QUIET;
        return false;
    }
    if (turns != w->quiet_turns)
        w->quiet_since = now;
    w->quiet_turns = turns;
    return now - w->quiet_since >= kc__no_stack_patience;
}

void kc__worker_give_up(kc_worker_t *w)
{
    w->quiet_since = kc__os_now() - kc__no_stack_patience;
    w->quiet_turns = turns_of_all(w->sched);
    kc__worker_retry(w);
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* Those who sleep may have free stacks, which they give back then, or start it themselves. */
static void ask_others(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;

    for (int i = 0; i <= s->workers; i++)
        if (nth(s, i) != w)
            kc__worker_wake(nth(s, i));
}

/* It is the next one again. */
static void set_aside(kc_worker_t *w, kc_task_t *task)
{
    kc_sched_t *s = w->sched;

    if (task->where != KC_WORKER || !w->works) {
        kc__queue_push_front(&w->unstarted, &task->block);
        return;
    }
    pthread_mutex_lock(&s->no_stack_lock);
    kc__queue_push_front(&s->no_stack, &task->block);
    pthread_mutex_unlock(&s->no_stack_lock);
}

void kc__worker_no_stack(kc_worker_t *w, kc_task_t *task, bool first)
{
    if (first && kc_load_relaxed(&w->sched->no_stack_count) == 1)
        w->quiet_turns = NOT_QUIET; /* the clock begins with it */
    if (update_quiet(w)) {
        kc__task_hooks.fail(task, -ENOMEM);
        return;
    }
    w->retry_at = kc__os_now() + PAUSE;
    kc_or_relaxed(&w->mode, KC_MODE_NO_STACK);
    set_aside(w, task);
    if (first)
        ask_others(w);
}

bool kc__worker_take_without_stack(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;

    if (kc_load_relaxed(&s->no_stack_count) == 0 || !w->works || !kc__worker_check_retry(w))
        return false;
    pthread_mutex_lock(&s->no_stack_lock);
    kc_block_t *block = kc__queue_pop(&s->no_stack);
    pthread_mutex_unlock(&s->no_stack_lock);
    if (block)
        kc__worker_keep_unstarted(w, kc_container_of(block, kc_task_t, block));
    return block != NULL;
}
