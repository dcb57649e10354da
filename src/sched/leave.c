/* SPDX-License-Identifier: MIT */
/*
 * leave.c - how a coroutine stops: it leaves, yields, hands over, ends, or hops to another thread.
 *
 * WHAT     A coroutine that suspends takes the next one off its thread's queue and switches
 *          straight to it; the thread's own stack is visited only when nothing is ready, or when
 *          something is to be done there (worker.c).
 *
 * RULES    R1 nothing of a thread is kept in a variable over a switch (coro.c, R4): after a hop the
 *             worker is another one.
 */
#include "sched/leave.h"

#include "coro/coro_end.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/next.h"
#include "sched/sched.h"
#include "sched/worker.h"

#include <errno.h>

/* me stops, which is co, the body of a job, or a coroutine inside it. */
KC_INLINE void set_aside(kcoro_t *me, kcoro_t *co)
{
    if (kc_unlikely(me != co)) {
        co->inner = me;
        kc_store_relaxed(&me->state, KC_CORO_CALLING); /* nobody else may resume or destroy it */
    }
}

/* The next turn is that of who has just stopped. */
KC_INLINE void count_stay(kc_worker_t *w)
{
    kc_store_relaxed(&w->turns, kc__worker_next_turn(w));
    kc__worker_count(w, KC_COUNT_STAYS);
}

/* The caller stops here. Whom to switch to: maybe itself. */
KC_INLINE kcoro_t *take_turn(kc_thread_t *t, kcoro_t *co, uint64_t every)
{
    set_aside(t->current, co);
    kcoro_t *run = kc__next(t->worker, every);
    if (kc_likely(run != co))
        kc__worker_begin_turn(t->worker, run);
    else
        count_stay(t->worker);
    return run ? kc__next_entry_of(run) : t->main_co;
}

KC_INLINE int leave(kc_thread_t *t, kcoro_t *co)
{
    kcoro_t *me = t->current, *to = take_turn(t, co, KC_NEXT_UNSTARTED_EVERY);

    return kc__coro_switch(t, me, to);
}

static KC_NOINLINE int leave_slow(kc_thread_t *t, kcoro_t *co)
{
    if (kc_unlikely(kc__worker_has_mode(t->worker, KC_MODE_CYCLES)))
        return kc__task_hooks.leave(t, co);
    return leave(t, co);
}

/*
 * Most turns are like this: if another is ready, nothing else is to be done. They make no call but
 * the last one, so they save no registers. co is no coroutine inside a body.
 */
KC_INLINE int switch_fast(kc_thread_t *t, kc_worker_t *w, uint64_t turn, kcoro_t *co, kcoro_t *run)
{
    kc_store_relaxed(&w->running, run);
    kc_store_relaxed(&w->turns, turn); /* in this order: see has_rested in dump.c */
    if (w->ready.count > KC_NEXT_HERE) /* by now fewer registers are in use */
        kc__next_fetch_ahead(w->ready.head, w->ready.count > KC_NEXT_NEAR);
    return kc__coro_switch_fast(t, co, kc__next_entry_of(run));
}

/* co was made ready before it could leave, and is the next one. */
static KC_NOINLINE int stay(kc_worker_t *w, kcoro_t *co)
{
    count_stay(w);
    kc_store_relaxed(&co->state, KCORO_RUNNING);
    return 0;
}

/* Nobody is ready, but maybe a task is there that has not started. */
static KC_NOINLINE int leave_and_start(kc_thread_t *t, kcoro_t *co)
{
    kc_worker_t *w = t->worker;
    uint64_t turn = kc__worker_next_turn(w);
    bool fast = kc__next_is_quiet(w, UINT32_MAX) && kc_likely(t->current == co) &&
                kc_likely(!kc__worker_is_look_due(w, turn));
    kc_task_t *task = fast ? kc__next_pop_unstarted(w) : NULL;
    kcoro_t *run = task ? kc__next_start(w, task) : NULL;

    if (kc_unlikely(!run))
        return leave_slow(t, co);
    kc_store_relaxed(&w->running, run);
    kc_store_relaxed(&w->turns, turn);
    return kc__coro_switch_fast(t, co, run); /* it has not begun, so it waits in no other */
}

int kc__worker_leave(kc_thread_t *t, kcoro_t *co)
{
    kc_worker_t *w = t->worker;
    kcoro_t *me = t->current;

    kc_store_relaxed(&me->state, KCORO_SUSPENDED);
    if (!w->ready.head)
        return leave_and_start(t, co);
    uint64_t turn = kc__worker_next_turn(w);
    if (kc_unlikely(me != co) ||
        !kc__next_is_turn_without(w, turn, UINT32_MAX, KC_NEXT_UNSTARTED_EVERY))
        return leave_slow(t, co);
    kcoro_t *run = kc_container_of(kc__queue_shift(&w->ready), kcoro_t, block);
    return kc_likely(run != co) ? switch_fast(t, w, turn, co, run) : stay(w, co);
}

int kc__worker_leave_parked(kc_thread_t *t, kcoro_t *co)
{
    return leave(t, co);
}

static KC_NOINLINE int yield_slow(kc_thread_t *t, kcoro_t *co)
{
    kc_worker_t *w = t->worker;

    kc__worker_check_process(w);
    if (kc_unlikely(kc__worker_has_mode(w, KC_MODE_ONCE)))
        kc__queue_push(&w->sched->again, &co->block);
    else
        kc__queue_push(&w->ready, &co->block);
    /* A child that was started now goes back to its launcher first (J20). */
    bool to_launcher = w->launcher && w->ready.head == &w->launcher->block.link;
    w->launcher = NULL;
    kcoro_t *me = t->current,
            *to = take_turn(t, co, to_launcher ? KC_NEXT_UNSTARTED_EVERY : KC_NEXT_YIELD_EVERY);
    /* It may have been stopped by what the look for the next one has brought. */
    if (kc_unlikely(kc_load_relaxed(&co->task->word) & KC_TASK_STOP)) {
        kc__coro_switch(t, me, to);
        return -ECANCELED;
    }
    return kc__coro_switch(t, me, to);
}

int kc__worker_yield(kc_thread_t *t, kcoro_t *co)
{
    kc_worker_t *w = t->worker;
    kcoro_t *me = t->current;
    uint64_t turn = kc__worker_next_turn(w);

    kc_store_relaxed(&me->state, KCORO_SUSPENDED);
    if (kc_unlikely(!w->ready.head || me != co) ||
        !kc__next_is_turn_without(w, turn, UINT32_MAX, KC_NEXT_YIELD_EVERY))
        return yield_slow(t, co);
    kc_block_t *block = kc__queue_rotate(&w->ready, &co->block);
    return switch_fast(t, w, turn, co, kc_container_of(block, kcoro_t, block));
}

int kc__worker_run_now(kc_thread_t *t, kcoro_t *co, kcoro_t *to)
{
    kcoro_t *me = t->current;

    kc__queue_push_front(&t->worker->ready, &co->block);
    t->worker->launcher = co;
    kc_store_relaxed(&me->state, KCORO_SUSPENDED);
    set_aside(me, co);
    kc__worker_show(t->worker, to);
    kc__worker_count(t->worker, KC_COUNT_NOW);
    return kc__coro_switch(t, me, to);
}

/* May one that is not the next in the queues run? Not always: those who are ready have waited
 * longer. */
KC_INLINE bool may_jump_in(kc_worker_t *w)
{
    uint64_t turn = kc__worker_next_turn(w);

    return turn % KC_NEXT_UNSTARTED_EVERY != 0 &&
           kc__next_is_plain_turn(w, turn, KC_NEXT_UNSTARTED_EVERY);
}

void kc__worker_hand_over(kc_thread_t *t, kcoro_t *co, kcoro_t *to)
{
    kcoro_t *me = t->current;

    if (!may_jump_in(t->worker)) {
        kc__queue_push(&t->worker->ready, &to->block);
        return;
    }
    kc__queue_push(&t->worker->ready, &co->block);
    kc_store_relaxed(&me->state, KCORO_SUSPENDED);
    set_aside(me, co);
    kc__worker_begin_turn(t->worker, to);
    kc__coro_switch(t, me, kc__next_entry_of(to));
}

kc_task_t *kc__worker_next_body(kc_worker_t *w)
{
    if (w->ready.head || kc__worker_is_look_due(w, kc__worker_next_turn(w)) ||
        !kc__mpsc_is_empty(&w->inbox) ||
        kc__worker_has_mode(w, KC_MODE_ORACLE | KC_MODE_FORKED | KC_MODE_OFFERS | KC_MODE_ASKED) ||
        !kc__worker_has_unstarted(w) || kc__worker_is_stopped(w))
        return NULL;
    kc_task_t *task = kc__next_pop_unstarted(w);
    if (!task)
        return NULL;
    kc_store_relaxed(&task->worker, w);
    return task;
}

void kc__worker_put_back(kc_worker_t *w, kc_task_t *task)
{
    bool anybodys =
        task->where == KC_WORKER && w->works && !kc__worker_has_mode(w, KC_MODE_ORACLE);

    kc__worker_forget(w, task);
    if (!anybodys || kc__deque_push(&w->deque, task) != 0)
        kc__queue_push_front(&w->unstarted, &task->block);
    else if (w->sched->workers > 0)
        kc__sched_wake_any(w->sched); /* who has searched meanwhile has not seen it */
}

/* On the next stack: the task's own is at rest for good. */
static void reap(void *arg)
{
    kc_task_t *task = arg;
    kcoro_t *co = task->co;
    kc_thread_t *t = kc__thread();

    kc__worker_count(t->worker, KC_COUNT_REAPED);
    kc__worker_forget(t->worker, task);
    kc__task_hooks.ended(task); /* first: whoever finds a body finds its coroutine too (dump.c) */
    kc__coro_task_end(t, co);
}

void kc__worker_end(kcoro_t *me, kc_task_t *task, kcoro_t *to)
{
    kc_thread_t *t = kc__thread();
    kc_worker_t *w = t->worker;

    /* Nobody else is ready: if one waits for this end, it goes on at once. */
    if (!to && !w->ready.head &&
        kc__next_is_plain_turn(w, kc__worker_next_turn(w), KC_NEXT_UNSTARTED_EVERY))
        to = kc__task_hooks.successor(task);
    if (!to)
        to = kc__next(w, KC_NEXT_UNSTARTED_EVERY);
    else if (to == t->main_co)
        to = NULL;
    kc__worker_begin_turn(w, to);
    to = to ? kc__next_entry_of(to) : t->main_co;
    if (kc_unlikely(kc__worker_has_mode(w, KC_MODE_TOOLS))) {
        kc__tsan_release(task); /* all that it did, for whoever hears of its end */
        kc__coro_switch_last(t, me, to, reap, task);
    }
    kc__coro_switch_last_fast(t, to, reap, task);
}

/* On the next stack: the coroutine is at rest, so another thread may have it. */
static void post(void *arg)
{
    kcoro_t *co = arg;

    kc__worker_send(kc_load_relaxed(&co->task->worker), &co->block);
}

void kc__worker_hop(kc_thread_t *t, kcoro_t *co)
{
    kc_store_relaxed(&co->state, KCORO_READY);
    kcoro_t *run = kc__next(t->worker, KC_NEXT_UNSTARTED_EVERY);
    kc__worker_begin_turn(t->worker, run);
    kc__coro_switch_then(t, co, run ? kc__next_entry_of(run) : t->main_co, post, co);
}
