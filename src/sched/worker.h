/* SPDX-License-Identifier: MIT */
/*
 * worker.h - what the thread of a scheduler does.
 */
#ifndef KC_SCHED_WORKER_H
#define KC_SCHED_WORKER_H

#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/sched.h"

/* The number of the next turn, on w's thread. */
KC_INLINE uint64_t kc__worker_next_turn(const kc_worker_t *w)
{
    return kc_load_relaxed(&w->turns) + 1;
}

/* From now on w, whose thread calls, runs co; NULL: the thread's own stack. */
KC_INLINE void kc__worker_show(kc_worker_t *w, kcoro_t *co)
{
    kc_store_relaxed(&w->running, co);
    if (kc_likely(!kc__worker_has_mode(w, KC_MODE_TRACE | KC_MODE_CYCLES)))
        return;
    if (co && kc__worker_has_mode(w, KC_MODE_CYCLES))
        co->task->held |= KC_TASK_HELD_NAMED; /* it has no scope when it runs for the first time */
    if (kc__worker_has_mode(w, KC_MODE_TRACE))
        KC_TRACE(w->sched, .kind = KC_EVENT_RUN, .job = co ? kc__task_number(co->task) : 0);
}

/* As kc__worker_show; and if it is a coroutine, that is a turn. */
KC_INLINE void kc__worker_begin_turn(kc_worker_t *w, kcoro_t *co)
{
    kc__worker_show(w, co);
    if (kc_likely(co != NULL))
        kc_store_relaxed(&w->turns, kc__worker_next_turn(w));
}

/* Debug builds: the RULES of worker.c, as far as some loads tell. On its own thread, between two
 * turns. */
bool kc__worker_is_legal(const kc_worker_t *w);

kc_worker_t *kc__worker_new(kc_sched_t *s, int index, int bit);
void kc__worker_free(kc_worker_t *w);

/* As new, for the next scheduler that uses this memory. */
void kc__worker_reset(kc_worker_t *w);

/* A task that has not started, on the thread that may start it. */
KC_INLINE void kc__worker_keep_unstarted(kc_worker_t *w, kc_task_t *task)
{
    if (task->where != KC_WORKER || !w->works || kc__worker_has_mode(w, KC_MODE_ORACLE) ||
        kc__deque_push(&w->deque, task) != 0)
        kc__queue_push(&w->unstarted, &task->block);
}

/* There is a task that it may start, or there was one a moment ago. */
KC_INLINE bool kc__worker_has_unstarted(const kc_worker_t *w)
{
    return w->unstarted.head || kc__deque_size_hint(&w->deque) > 0;
}

/* Coroutines that have started here less those that have ended here: it wraps around if some came
 * from elsewhere. */
KC_INLINE uint64_t kc__worker_live(const kc_worker_t *w)
{
    return kc_load_relaxed(&w->counter[KC_COUNT_SPAWNS]) -
           kc_load_relaxed(&w->counter[KC_COUNT_REAPED]);
}

/* On w's thread: the body of this task ends, goes elsewhere, or does not start after all. */
KC_INLINE void kc__worker_forget(kc_worker_t *w, const kc_task_t *task)
{
    if (kc_unlikely(w->last == task))
        w->last = NULL;
}

/* The pump is to return: it goes on on the thread's own stack, so that is where to go. */
bool kc__worker_is_stopped(kc_worker_t *w);

/* True: the thread is on its own stack, not on that of a coroutine. */
KC_INLINE bool kc__worker_is_on_own_stack(void)
{
    const kc_thread_t *t = kc__thread();

    return t->current == t->main_co;
}

enum { KC_LOOK_EVERY = 64 }; /* turns: one that looks at everything, whatever the time is */

/* The next turn looks at everything, as a timer may be due. */
KC_INLINE bool kc__worker_is_timer_due(const kc_worker_t *w, uint64_t turn)
{
    return kc_unlikely(turn >= w->look_turn) &&
           (w->look_ticks == 0 || kc__os_ticks() >= w->look_ticks);
}

/* The same, for whatever reason. */
KC_INLINE bool kc__worker_is_look_due(const kc_worker_t *w, uint64_t turn)
{
    return kc_unlikely(turn % KC_LOOK_EVERY == 0) || kc__worker_is_timer_due(w, turn);
}

/* Runs what is ready here until nothing is. True: something ran. */
bool kc__worker_run_ready(kc_worker_t *w);

/* What a worker's thread executes. */
void *kc__worker_main(void *arg);

/* The same on w's thread for one that any worker of w's scheduler may start. */
KC_INLINE void kc__worker_submit(kc_worker_t *w, kc_task_t *task)
{
    if (kc_unlikely(!w->works ||
                    kc__worker_has_mode(w, KC_MODE_ORACLE | KC_MODE_FORKED | KC_MODE_TOOLS) ||
                    w->sched->workers > 0 || kc_load_relaxed(&w->sched->outside) ||
                    kc__deque_push(&w->deque, task) != 0))
        kc__task_submit(task);
}

/* A thread has put something into its own queues: if it is main, which does not pump, the host's
 * event loop is told. */
KC_INLINE void kc__worker_tell_loop(kc_worker_t *w)
{
    if (kc_unlikely(w == w->sched->main && kc_load_relaxed(&w->sched->outside)))
        kc__worker_wake(w);
}

/* co, which waits, may run: on its own thread w. */
KC_INLINE void kc__worker_ready(kc_worker_t *w, kcoro_t *co)
{
    kc__queue_push(&w->ready, &co->block);
    kc__worker_tell_loop(w);
}

/* The same in a turn of w: then main pumps. */
KC_INLINE void kc__worker_ready_in_turn(kc_worker_t *w, kcoro_t *co)
{
    kc__queue_push(&w->ready, &co->block);
}

/* 32 bits that are hard to guess; with a seed, the seed's next ones. */
uint64_t kc__worker_random(kc_worker_t *w);

/*
 * Runs fn(arg) on the thread's own stack, where there is no current job: for what the library calls
 * by itself. The caller goes on when it has returned. fn may not suspend. Elsewhere than in a body,
 * or a coroutine inside it, fn is called as it is.
 */
void kc__worker_call(void (*fn)(void *arg), void *arg);

/* True: the caller stands between two stacks, and may not switch. */
bool kc__worker_is_between(void);

/* The first timer of this thread may be one that is due then. */
KC_INLINE void kc__worker_hear_of(kc_worker_t *w, kc_time_t due)
{
    if (due < w->look_due && !w->sched->virtual_time) {
        w->look_due = due;
        w->look_turn = w->look_ticks = 0;
    }
}

#endif
