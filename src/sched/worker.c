/* SPDX-License-Identifier: MIT */
/*
 * worker.c - one thread of a scheduler: which coroutine runs next. What it does when none is there
 * is in idle.c.
 *
 * WHAT     A coroutine that suspends takes the next one off its thread's queue and switches
 *          straight to it; the thread's own stack is visited only when nothing is ready. What
 *          other threads have for this one comes through one inbox (inbox.c).
 *
 * SHAPE    ready   coroutines that have started and may run; this thread's alone, no atomics
 *          unstarted   tasks that must start on this thread, in order of submission
 *          deque   tasks that any worker may start; newest first here, stolen oldest first
 *          inbox   everything from other threads, looked at in every switch
 *
 *          What may run functions of the user's that are nobody's body (a timeout, the end of a job
 *          that has failed, a dispose) is done on the thread's own stack: who is leaving and finds
 *          that there is such goes there, and not straight to the next one. Nothing of it is done
 *          in the name, and on the stack, of who happens to leave (S16).
 *
 *          next: ready, but every UNSTARTED_EVERYth turn, and after a yield every second one, a
 *          task that has not started; of the deque every OLDEST_EVERYth time the oldest, if others
 *          have come meanwhile. So nothing that is ready waits for more than a bounded number of
 *          switches: not for those that keep yielding, waking each other, or spawning.
 *
 *          In a forked child none of it goes on (O10). To find that out costs a turn nothing: what
 *          it has to think of (mode) lies in a page that the kernel wipes in the child, and zero
 *          means there that this is one.
 *
 * ORDER    id        site     operation     pairs with  carries; what breaks if weaker
 *          worker.1  closing  load_acquire  sched.1     what is in the inbox; a message would be
 *                                                       left behind
 *
 * RULES    R1 a coroutine is in at most one queue, and only while it is not RUNNING.
 *          R2 nothing of a thread is kept in a variable over a switch (coro.c, R4): after a hop the
 *             worker is another one.
 */
#define _GNU_SOURCE
#include "sched/worker.h"

#include "base/os.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/no_stack.h"
#include "sched/sched.h"
#include "sched/spread.h"

#include <errno.h>

enum {
    UNSTARTED_EVERY = 8, /* turns: one that begins with what has not started */
    YIELD_EVERY = 2,     /* ... of those that begin with a yield: who yields means that too (S7) */
    OLDEST_EVERY = 16,
    HERE = 32,     /* coroutines that lie in the nearest cache, as is assumed */
    NEAR = 2048,   /* ... in some cache */
    FETCHED = 6,   /* cache lines of a stack */
    CHOICE = 1024, /* of so many that wait longest in a queue a seed chooses */
};

/* ---- queues ---------------------------------------------------------------------------------- */

static void make_ready(kc_worker_t *w, kcoro_t *co)
{
    kc__queue_push(&w->ready, &co->block);
}

/* What the next turns need is fetched now: the stack and the job of the next one, and its
 * successor's control block. Long queues lie in no cache: of those all that a body touches which
 * waits and goes on, as far as it can be known. */
KC_INLINE void fetch_ahead(const kc_mpsc_node_t *next, bool is_long)
{
    const kcoro_t *co = kc_container_of(kc_container_of(next, kc_block_t, link), kcoro_t, block);
    const char *sp = co->sp;
    const void *job = co->task, *after = next->next;

    __builtin_prefetch(sp);
    __builtin_prefetch(job);
    if (after)
        __builtin_prefetch(after);
    if (kc_likely(!is_long))
        return;
    for (size_t i = 1; i < FETCHED; i++)
        __builtin_prefetch(sp + i * KC_CACHE_LINE);
    __builtin_prefetch(kc__next_line(job));
    __builtin_prefetch(kc__next_line(after));
}

KC_INLINE kcoro_t *pop_ready(kc_worker_t *w)
{
    kc_block_t *block = kc__queue_pop(&w->ready);

    if (!block)
        return NULL;
    if (w->ready.count > HERE)
        fetch_ahead(w->ready.head, w->ready.count > NEAR);
    return kc_container_of(block, kcoro_t, block);
}

/* ---- which one is next --------------------------------------------------------------------- */

/* Starts a task. NULL: it has ended unstarted, or there was no stack for it (no_stack.c). */
KC_INLINE kcoro_t *start(kc_worker_t *w, kc_task_t *task)
{
    kc_store_relaxed(&task->worker, w);
    int rc = kc__task_hooks.start(task);
    if (kc_likely(rc == 0))
        return task->co;
    kc__worker_forget(w, task);
    if (rc == -EBUSY) {
        kc__queue_push_front(&w->unstarted, &task->block); /* it stays the first */
        w->wanted = true;
    } else if (rc != -ECANCELED) {
        kc__worker_no_stack(w, task, rc == -ENOMEM);
    }
    return NULL;
}

/* The oldest task of the deque is due, for a change. If all that has happened to it was that the
 * newest ones were taken, then its turn comes anyway: as long as nobody adds any, they start in
 * order, each beside its neighbour in memory. */
static bool check_oldest(kc_worker_t *w)
{
    int64_t now = kc__deque_bottom(&w->deque);
    bool due = w->bottom - now < OLDEST_EVERY;

    w->bottom = now + due; /* then this one is not taken from there */
    return due;
}

/* Takes out a task that has not started. NULL: there is none. */
KC_INLINE kc_task_t *pop_unstarted(kc_worker_t *w)
{
    void *any = NULL;

    if (w->works && ++w->starts % OLDEST_EVERY == 0 && check_oldest(w) &&
        kc__deque_steal(&w->deque, &any) == KC_STEAL_GOT)
        return w->alone ? any : kc__spread(w, any);
    kc_block_t *block = kc__queue_pop(&w->unstarted);
    if (block) {
        const void *next = w->unstarted.head; /* of very many, none is in the cache */
        __builtin_prefetch(next, 1);
        __builtin_prefetch(kc__next_line(next), 1);
        return kc_container_of(block, kc_task_t, block);
    }
    if (kc_likely(w->alone))
        return kc__deque_pop_alone(&w->deque);
    any = w->works ? kc__deque_pop(&w->deque) : NULL;
    return kc_likely(kc__worker_live(w) < KC_SPREAD_FEW) ? any : kc__spread(w, any);
}

/* There was no stack just now. Each of those that any worker may start is tried nevertheless, once:
 * it may want a smaller one. The others start in order. */
static KC_NOINLINE kcoro_t *start_any(kc_worker_t *w)
{
    kcoro_t *co = NULL;
    kc_task_t *task;

    while (!co && !w->wanted && w->works && (task = kc__deque_pop(&w->deque)) != NULL)
        co = start(w, task);
    return co;
}

KC_INLINE kcoro_t *start_unstarted(kc_worker_t *w)
{
    kcoro_t *co = NULL;
    kc_task_t *task;

    if (!kc__worker_has_unstarted(w))
        return NULL;
    if (kc_unlikely(kc__worker_has_mode(w, KC_MODE_NO_STACK)) && !kc__worker_check_retry(w))
        return start_any(w);
    while (!co && !w->wanted && !kc__worker_has_mode(w, KC_MODE_NO_STACK) &&
           (task = pop_unstarted(w)) != NULL)
        co = start(w, task);
    return co;
}

bool kc__worker_is_stopped(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;

    if (w != s->main)
        return false;
    return (s->stoppable && kc_load_relaxed(&s->stop)) ||
           (s->done && kc_load_relaxed(s->done) == KC_DONE) ||
           (s->deadline && kc_now() >= s->deadline);
}

uint64_t kc__worker_random(kc_worker_t *w)
{
    if (kc_likely(!kc__worker_has_mode(w, KC_MODE_ORACLE))) {
        w->random = w->random * 6364136223846793005u + 1442695040888963407u;
        return w->random >> 32;
    }
    uint64_t x = w->sched->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    w->sched->random = x;
    return (x * 0x2545f4914f6cdd1du) >> 32;
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
        co = start(w, kc_container_of(kc__queue_take(&w->unstarted, k - ready), kc_task_t, block));
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

/* The same when there is more to it than to take the next one. */
static KC_NOINLINE kcoro_t *next_slow(kc_worker_t *w, uint64_t every)
{
    uint64_t turn = kc__worker_next_turn(w);
    bool unstarted_first = turn % every == 0, own = kc__worker_is_on_own_stack();
    kcoro_t *co;

    kc__worker_check_process(w);
    if (!kc__mpsc_is_empty(&w->inbox))
        kc__worker_take_inbox(w);
    if (!kc__mpsc_is_empty(&w->offers) && w->works)
        kc__spread_take(w);
    if (kc_unlikely(kc__worker_has_mode(w, KC_MODE_ASKED)))
        kc__spread_share(w);
    if (own)
        kc__worker_read_put_off(w);
    if (kc__worker_is_look_due(w, turn) && !look_around(w, own))
        return NULL;
    if (unstarted_first && w->works && !kc__worker_has_unstarted(w))
        kc__worker_take_injector(w);
    do {
        if (kc_unlikely(kc__worker_has_mode(w, KC_MODE_ORACLE))) {
            if ((co = next_by_oracle(w)) || !own)
                return co;
            continue;
        }
        if ((!unstarted_first && (co = pop_ready(w))) || (co = start_unstarted(w)) ||
            (unstarted_first && !w->wanted && (co = pop_ready(w))))
            return co;
        if (!own)
            return NULL;
        /* What was cancelled before it could start has ended just now, and may have woken one. What
         * was read, or has rung, may have left messages for this stack. */
    } while (kc__worker_take_inbox(w) || kc__worker_take_due(w) || kc__worker_read_put_off(w) ||
             w->ready.head);
    return NULL;
}

/* Nothing has come in, and there is nothing of this kind to be thought of: one branch. */
KC_INLINE bool is_quiet(const kc_worker_t *w, uint32_t mode)
{
    uintptr_t come = (uintptr_t)kc_load_relaxed(&w->inbox.head);

    return kc_likely((come | (kc__worker_mode(w) & mode)) == 0);
}

/* There is a task that this thread may start, in its own queues or in the injector. */
KC_INLINE bool can_start(const kc_worker_t *w)
{
    return kc__worker_has_unstarted(w) || (w->works && !kc__mpsc_is_empty(&w->sched->injector));
}

/* This turn, the next one, is one like most: there is nothing to be looked at but who is ready.
 * mode: what would have to be thought of; every: which turns begin with what has not started. Those
 * that look at everything are among them. */
KC_INLINE bool is_turn_without(const kc_worker_t *w, uint64_t turn, uint32_t mode, uint64_t every)
{
    bool other =
        turn % every == 0 && (kc_unlikely(turn % KC_LOOK_EVERY == 0) || kc_unlikely(can_start(w)));

    return kc_likely(!other) && is_quiet(w, mode) && kc_likely(!kc__worker_is_timer_due(w, turn));
}

KC_INLINE bool is_plain_turn(const kc_worker_t *w, uint64_t turn, uint64_t every)
{
    return is_turn_without(
        w, turn, KC_MODE_ORACLE | KC_MODE_FORKED | KC_MODE_OFFERS | KC_MODE_ASKED, every);
}

/* The next coroutine that may run here; NULL: none. */
KC_INLINE kcoro_t *next(kc_worker_t *w, uint64_t every)
{
    bool plain = w->ready.head && is_plain_turn(w, kc__worker_next_turn(w), every);

    return plain ? pop_ready(w) : next_slow(w, every);
}

/* ---- suspending ---------------------------------------------------------------------------- */

/* Whom to switch to for a coroutine from the ready queue: itself, or the coroutine inside it that
 * waits. Then it is CALLING. */
KC_INLINE kcoro_t *entry_of(kcoro_t *co)
{
    return kc_unlikely(kc_load_relaxed(&co->state) == KC_CORO_CALLING) ? co->inner : co;
}

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
    kcoro_t *run = next(t->worker, every);
    if (kc_likely(run != co))
        kc__worker_begin_turn(t->worker, run);
    else
        count_stay(t->worker);
    return run ? entry_of(run) : t->main_co;
}

KC_INLINE int leave(kc_thread_t *t, kcoro_t *co)
{
    kcoro_t *me = t->current, *to = take_turn(t, co, UNSTARTED_EVERY);

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
    kc_store_relaxed(&w->turns, turn); /* in this order: see rested in dump.c */
    if (w->ready.count > HERE)         /* by now fewer registers are in use */
        fetch_ahead(w->ready.head, w->ready.count > NEAR);
    return kc__coro_switch_fast(t, co, entry_of(run));
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
    bool fast = is_quiet(w, UINT32_MAX) && kc_likely(t->current == co) &&
                kc_likely(!kc__worker_is_look_due(w, turn));
    kc_task_t *task = fast ? pop_unstarted(w) : NULL;
    kcoro_t *run = task ? start(w, task) : NULL;

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
    if (kc_unlikely(me != co) || !is_turn_without(w, turn, UINT32_MAX, UNSTARTED_EVERY))
        return leave_slow(t, co);
    kcoro_t *run = kc_container_of(kc__queue_shift(&w->ready), kcoro_t, block);
    return kc_likely(run != co) ? switch_fast(t, w, turn, co, run) : stay(w, co);
}

/* Like leave, but co is PARKED, or READY already. */
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
        make_ready(w, co);
    /* A child that was started now goes back to its launcher first (J20). */
    bool to_launcher = w->launcher && w->ready.head == &w->launcher->block.link;
    w->launcher = NULL;
    kcoro_t *me = t->current, *to = take_turn(t, co, to_launcher ? UNSTARTED_EVERY : YIELD_EVERY);
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
        !is_turn_without(w, turn, UINT32_MAX, YIELD_EVERY))
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

    return turn % UNSTARTED_EVERY != 0 && is_plain_turn(w, turn, UNSTARTED_EVERY);
}

void kc__worker_hand_over(kc_thread_t *t, kcoro_t *co, kcoro_t *to)
{
    kcoro_t *me = t->current;

    if (!may_jump_in(t->worker)) {
        make_ready(t->worker, to);
        return;
    }
    make_ready(t->worker, co);
    kc_store_relaxed(&me->state, KCORO_SUSPENDED);
    set_aside(me, co);
    kc__worker_begin_turn(t->worker, to);
    kc__coro_switch(t, me, entry_of(to));
}

kc_task_t *kc__worker_next_body(kc_worker_t *w)
{
    if (w->ready.head || kc__worker_is_look_due(w, kc__worker_next_turn(w)) ||
        !kc__mpsc_is_empty(&w->inbox) ||
        kc__worker_has_mode(w, KC_MODE_ORACLE | KC_MODE_FORKED | KC_MODE_OFFERS | KC_MODE_ASKED) ||
        !kc__worker_has_unstarted(w) || kc__worker_is_stopped(w))
        return NULL;
    kc_task_t *task = pop_unstarted(w);
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
    if (!to && !w->ready.head && is_plain_turn(w, kc__worker_next_turn(w), UNSTARTED_EVERY))
        to = kc__task_hooks.successor(task);
    if (!to)
        to = next(w, UNSTARTED_EVERY);
    else if (to == t->main_co)
        to = NULL;
    kc__worker_begin_turn(w, to);
    to = to ? entry_of(to) : t->main_co;
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
    kcoro_t *run = next(t->worker, UNSTARTED_EVERY);
    kc__worker_begin_turn(t->worker, run);
    kc__coro_switch_then(t, co, run ? entry_of(run) : t->main_co, post, co);
}

/* ---- the thread's own stack ---------------------------------------------------------------- */

static void go(kc_thread_t *t, kcoro_t *to)
{
    kc_store_relaxed(&t->main_co->state, KC_CORO_CALLING);
    kc__coro_switch(t, t->main_co, to);
}

static void enter(kcoro_t *co)
{
    kc_thread_t *t = kc__thread();
    struct kc_call *call = &t->worker->call;

    kc__worker_begin_turn(t->worker, co);
    go(t, entry_of(co));
    while (call->fn) {
        void (*fn)(void *) = call->fn;
        call->fn = NULL; /* it may lead to another one */
        fn(call->arg);
        go(t, call->caller);
    }
}

void kc__worker_call(void (*fn)(void *arg), void *arg)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *me = t->current;

    if (!t->worker || me == t->main_co || !kc__task_coroutine(me)) {
        fn(arg);
        return;
    }
    t->worker->call = (struct kc_call){ fn, arg, me };
    kc__coro_switch(t, me, t->main_co);
}

bool kc__worker_is_between(void)
{
    const kc_thread_t *t = kc__thread();

    return t->worker && t->worker->between;
}

bool kc__worker_run_ready(kc_worker_t *w)
{
    bool any = false;

    for (kcoro_t *co; !kc__worker_is_stopped(w) && (co = next(w, UNSTARTED_EVERY)) != NULL;
         any = true) {
        kc__worker_stop_searching(w);
        enter(co);
    }
    return any;
}

void *kc__worker_main(void *arg)
{
    kc_worker_t *w = arg;
    kc_thread_t *t = kc__thread_make();

    kc__sched_arrive(w->sched, t != NULL);
    if (!t)
        return NULL;
    t->worker = w;
    t->stacks.lazy = true;
    while (!kc_load_acquire(&w->sched->closing)) { /* worker.1 */
        if (kc__worker_run_ready(w) || kc__worker_search(w))
            continue;
        kc__worker_sleep(w, kc__worker_next_due(w));
    }
    kc__worker_stop_searching(w);
    kc__worker_take_inbox(w); /* timers that were no longer wanted */
    kc__worker_cool(w, KC_COOL_IDLE);
    t->stacks.lazy = false;
    t->worker = NULL;
    return NULL;
}

/* What of a worker comes before the page that is wiped in a forked child, in whole pages. */
static size_t kept_size(void)
{
    return kc__align_up(offsetof(kc_worker_t, awake), kc__os_page_size());
}

static void memory_free(kc_worker_t *w)
{
    kc__os_wipe_on_fork(&w->awake, kc__os_page_size(), false); /* it will be somebody else's */
    kc__free((char *)&w->awake - kept_size());
}

kc_worker_t *kc__worker_new(kc_sched_t *s, int index, int bit)
{
    size_t page = kc__os_page_size(), kept = kept_size();
    char *memory = kc__alloc_aligned(page, kept + page);

    if (!memory)
        return NULL;
    kc_worker_t *w = (kc_worker_t *)(void *)(memory + kept - offsetof(kc_worker_t, awake));
    kc__os_wipe_on_fork(memory + kept, page, true);
    w->sched = s;
    w->index = index;
    w->bit = bit;
    w->bits = kc__idle_bit(bit) | (index == KC_MAIN ? kc__idle_bit(KC_OUTSIDE_BIT) : 0);
    kc__mpsc_init(&w->inbox);
    kc__mpsc_init(&w->offers);
    if (kc__deque_init(&w->deque, 256) == 0)
        return w;
    memory_free(w);
    return NULL;
}

void kc__worker_reset(kc_worker_t *w)
{
    kc_store_relaxed(&w->turns, 0);
    kc_store_relaxed(&w->mode, KC_MODE_FORKED ^ (kc__tools ? KC_MODE_TOOLS : 0));
    w->budget = KC_BUDGET;
    w->starts = 0;
    w->hops = 0;
    w->bottom = kc__deque_bottom(&w->deque);
    w->launcher = NULL;
    w->wanted = false;
    w->between = false;
    w->call.fn = NULL;
    w->look_turn = UINT64_MAX;
    w->look_ticks = 0;
    w->look_due = KC_FOREVER;
    w->quiet_since = w->retry_at = 0;
    w->quiet_turns = UINT64_MAX; /* as if something had run since */
    kc_store_relaxed(&w->due, 0);
    w->random = (uint64_t)w->bit * 0x9e3779b97f4a7c15u + 1;
    w->searching = false;
    w->alone = false;
    w->last = NULL;
    w->even = 0;
    kc_store_relaxed(&w->moved, 0);
    kc_store_relaxed(&w->awake, KC_ASLEEP);
    kc_store_relaxed(&w->running, NULL);
    for (int i = 0; i < KC_COUNTERS; i++)
        kc_store_relaxed(&w->counter[i], 0);
    kc__timers_init(&w->timers, 0);
    KC_ASSERT(!w->ready.head && !w->unstarted.head && !w->own_stack.head &&
              kc__mpsc_is_empty(&w->inbox) && kc__mpsc_is_empty(&w->offers));
}

void kc__worker_free(kc_worker_t *w)
{
    if (!w)
        return;
    kc__deque_destroy(&w->deque);
    memory_free(w);
}
