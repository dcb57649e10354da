/* SPDX-License-Identifier: MIT */
/*
 * worker.c - one thread of a scheduler: which coroutine runs next, and what to do when none does.
 *
 * WHAT     A coroutine that suspends takes the next one off its thread's queue and switches
 *          straight to it; the thread's own stack is visited only when nothing is ready. What
 *          other threads have for this one, woken coroutines and tasks to start, comes through one
 *          inbox.
 *
 * SHAPE    ready   coroutines that have started and may run; this thread's alone, no atomics
 *          fresh   tasks that must start on this thread, in order of submission
 *          deque   tasks that any worker may start; newest first here, stolen oldest first
 *          inbox   everything from other threads, looked at in every switch
 *
 *          next: ready, but every FRESH_EVERYth turn a task that has not started; of the deque
 *          every OLDEST_EVERYth time the oldest. So nothing that is ready waits for more than a
 *          bounded number of switches: not for those that keep yielding, waking each other, or
 *          spawning.
 *
 * ORDER    id  site            operation      pairs with  carries; what breaks if weaker
 *          W1  wake: awake     store_release  W2          (the work itself goes through the queues)
 *          W2  sleep: awake    load_acquire   W1
 *          W3  injector_taken  cas_acq_rel    W4          one worker at a time empties the injector
 *          W4  injector_taken  store_release  W3
 *          W5  closing         load_acquire   sched.c H1  see there
 *          W6  close: state    cas_acq_rel    coro.c C1   an unpark and the end: exactly one has it
 *
 * RULES    R1 a coroutine is in at most one queue, and only while it is not RUNNING.
 *          R2 nothing of a thread is kept in a variable over a switch (coro.c, R4): after a hop the
 *             worker is another one.
 */
#define _GNU_SOURCE
#include "base/os.h"
#include "sched/sched.h"

#include <kcoro/timer.h>

#include <errno.h>
#include <stdio.h>

enum {
    BUDGET = 61, /* switches between two looks at the timers */
    FRESH_EVERY = 8,
    OLDEST_EVERY = 16,
    SPINS = 200,
    NO_STACK_NAP = 1000000, /* ns until a task that found no memory for a stack is tried again */
};

/* ---- queues ---------------------------------------------------------------------------------- */

static void make_ready(kc_worker_t *w, kcoro_t *co)
{
    kc__queue_push(&w->ready, &co->block);
}

static kcoro_t *pop_ready(kc_worker_t *w)
{
    kc_block_t *block = kc__queue_pop(&w->ready);

    return block ? kc_container_of(block, kcoro_t, block) : NULL;
}

static kc_task_t *task_of(kcoro_t *co)
{
    return co->arg;
}

/* A task that has not started, on the thread that may start it. */
static void keep_fresh(kc_worker_t *w, kc_task_t *task)
{
    if (task->where != KC_WORKER || !w->works || w->sched->random ||
        kc__deque_push(&w->deque, task) != 0)
        kc__queue_push(&w->fresh, &task->block);
}

static void list_started(kc_worker_t *w, kc_task_t *task)
{
    task->worker = w;
    task->hops = false;
    task->prev = NULL;
    task->next = w->started;
    if (w->started)
        w->started->prev = task;
    w->started = task;
}

static void unlist_started(kc_worker_t *w, kc_task_t *task)
{
    if (task->next)
        task->next->prev = task->prev;
    if (task->prev)
        task->prev->next = task->next;
    else
        w->started = task->next;
}

/* ---- waking ---------------------------------------------------------------------------------- */

static void wake(kc_worker_t *w, uint32_t what_for)
{
    bool on_fd = w == w->sched->main && kc_load_relaxed(&w->sched->outside);

    kc_store_release(&w->awake, what_for); /* W1 */
    if (on_fd)
        kc__sched_signal_fd(w->sched);
    else
        kc__os_wake(&w->awake);
}

void kc__worker_wake(kc_worker_t *w)
{
    if (kc__idle_claim(&w->sched->idle, w->bits))
        wake(w, KC_AWAKE_BY_NAME);
}

void kc__sched_wake_any(kc_sched_t *s)
{
    int bit = kc__idle_pick(&s->idle, s->members);

    if (bit >= 0)
        wake(bit < s->workers ? s->worker[bit] : s->main, KC_AWAKE_AS_SEARCHER);
}

static void send(kc_worker_t *w, kc_block_t *block)
{
    if (kc__mpsc_push(&w->inbox, &block->link))
        kc__worker_wake(w);
}

/* The main thread has put something into its own queues while it does not pump. */
static void tell_host(kc_worker_t *w)
{
    if (kc_unlikely(w == w->sched->main && kc_load_relaxed(&w->sched->outside)))
        kc__worker_wake(w);
}

void kc__task_submit(kc_task_t *task)
{
    kc_sched_t *s = task->sched;
    kc_worker_t *me = kc__worker();
    kc_worker_t *to = task->where == KC_MAIN || s->workers == 0 ? s->main
                      : task->where == KC_WORKER                ? NULL
                                                 : s->worker[task->where - KC_WORKER_AT(0)];

    if (me && me->sched == s && (to == me || (!to && me->works))) {
        keep_fresh(me, task);
        tell_host(me);
        if (!to)
            kc__sched_wake_any(s);
    } else if (to) {
        send(to, &task->block);
    } else {
        kc__mpsc_push(&s->injector, &task->block.link);
        kc__sched_wake_any(s);
    }
}

/* ---- what comes in ------------------------------------------------------------------------- */

static bool take_inbox(kc_worker_t *w)
{
    kc_mpsc_node_t *node = kc__mpsc_take_all(&w->inbox);
    bool any = node != NULL;

    while (node) {
        kc_block_t *block = kc_container_of(node, kc_block_t, link);
        node = node->next;
        if (kc_load_relaxed(&block->magic) == KC_CORO_MAGIC) {
            kcoro_t *co = kc_container_of(block, kcoro_t, block);
            if (task_of(co)->hops)
                list_started(w, task_of(co));
            make_ready(w, co);
        } else if (kc_load_relaxed(&block->magic) == KC_TOKEN_MAGIC) {
            kc__hub_take(w->sched->hub, block);
        } else {
            keep_fresh(w, kc_container_of(block, kc_task_t, block));
        }
    }
    return any;
}

static bool take_injector(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;
    uint32_t free = 0;

    if (kc__mpsc_empty(&s->injector) || !kc_cas_acq_rel(&s->injector_taken, &free, 1)) /* W3 */
        return false;
    kc_mpsc_node_t *node = kc__mpsc_take_all(&s->injector);
    kc_store_release(&s->injector_taken, 0); /* W4 */
    bool any = node != NULL;
    while (node) {
        kc_mpsc_node_t *after = node->next;
        keep_fresh(w, kc_container_of(kc_container_of(node, kc_block_t, link), kc_task_t, block));
        node = after;
    }
    return any;
}

struct sleeper {
    kc_timer_t timer;
    kcoro_t *co;
};

static bool take_due(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;
    bool any = false, timed = w == s->main && s->follow_clock;
    kc_timer_t *timer;

    if (kc__timers_count(&w->sleepers) == 0 && !timed)
        return false;
    kc_time_t now = kc_now();
    for (; (timer = kc__timers_pop(&w->sleepers, now)); any = true)
        make_ready(w, kc_container_of(timer, struct sleeper, timer)->co);
    return (timed && kc__hub_start_due(s->hub, now)) || any;
}

kc_time_t kc__worker_next_due(kc_worker_t *w)
{
    kc_time_t due = kc__timers_next(&w->sleepers), timed = KC_FOREVER;

    if (w == w->sched->main && w->sched->follow_clock)
        timed = kc__hub_next_due(w->sched->hub);
    return due < timed ? due : timed;
}

/* ---- which one is next --------------------------------------------------------------------- */

static void task_body(void *arg)
{
    kc_task_t *task = arg;

    task->rc = task->fn(task->arg);
}

/* A coroutine for a task. NULL: no memory; the task is kept for later. */
static kcoro_t *start(kc_worker_t *w, kc_task_t *task)
{
    kc_sched_t *s = w->sched;

    task->co = kc__coro_task(kc__thread(), task_body, task, s->stack_size, s->fp_control);
    if (kc_unlikely(!task->co)) {
        kc__queue_push_front(&w->fresh, &task->block); /* it stays the first */
        return NULL;
    }
    list_started(w, task);
    return task->co;
}

static kcoro_t *start_fresh(kc_worker_t *w)
{
    void *any = NULL;

    if (w->works && ++w->starts % OLDEST_EVERY == 0 &&
        kc__deque_steal(&w->deque, &any) == KC_STEAL_GOT)
        return start(w, any);
    kc_block_t *block = kc__queue_pop(&w->fresh);

    if (block)
        return start(w, kc_container_of(block, kc_task_t, block));
    any = w->works ? kc__deque_pop(&w->deque) : NULL;
    return any ? start(w, any) : NULL;
}

/* The pump is to return: it goes on on the thread's own stack, so that is where to go. */
static bool stopped(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;

    if (w != s->main)
        return false;
    return (s->until_idle && kc_load_relaxed(&s->stop)) ||
           (s->deadline && kc_now() >= s->deadline);
}

/* With a seed, every choice is its next random number. */
static kcoro_t *next_by_oracle(kc_worker_t *w)
{
    size_t ready = w->ready.count, all = ready + w->fresh.count;
    uint64_t *x = &w->sched->random;

    if (all == 0)
        return NULL;
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    size_t k = (size_t)((*x * 0x2545f4914f6cdd1du) >> 32) % all;
    if (k < ready)
        return kc_container_of(kc__queue_take(&w->ready, k), kcoro_t, block);
    return start(w, kc_container_of(kc__queue_take(&w->fresh, k - ready), kc_task_t, block));
}

/* The next coroutine that may run here; NULL: none. */
static kcoro_t *next(kc_worker_t *w)
{
    kcoro_t *co;

    uint32_t closing = kc_load_acquire(&w->sched->closing); /* W5 */

    if (kc_unlikely(closing) && (w != w->sched->main || closing == KC_CLOSING_ALL))
        return NULL;
    if (!kc__mpsc_empty(&w->inbox))
        take_inbox(w);
    if (kc_unlikely(--w->budget == 0)) {
        w->budget = BUDGET;
        take_due(w);
        /* Those that are always busy must not leave it to nobody. What was everybody's lies in one
         * deque now: somebody who has just searched may have missed it. */
        if (w->works && take_injector(w))
            kc__sched_wake_any(w->sched);
        if (stopped(w))
            return NULL;
    }
    do {
        if (kc_unlikely(w->sched->random != 0)) {
            if ((co = next_by_oracle(w)))
                return co;
            continue;
        }
        if (kc_unlikely(++w->turn % FRESH_EVERY == 0) && (co = start_fresh(w)))
            return co;
        if ((co = pop_ready(w)) || (co = start_fresh(w)))
            return co;
    } while (take_inbox(w) || take_due(w));
    return NULL;
}

/* ---- suspending ---------------------------------------------------------------------------- */

/* The coroutine whose body calls, or the one around it that belongs to a task. NULL: none. */
static kcoro_t *task_coroutine(kcoro_t *me)
{
    while (me && !(kc_load_relaxed(&me->block.flags) & KC_CORO_TASK))
        me = me->resumer;
    return me;
}

kc_task_t *kc__task_current(void)
{
    kcoro_t *co = task_coroutine(kc__thread()->current);

    return co ? task_of(co) : NULL;
}

/* Whom to switch to for a coroutine from the ready queue: itself, or the coroutine inside it that
 * waits. Then it is CALLING. */
KC_INLINE kcoro_t *entry_of(kcoro_t *co)
{
    return kc_unlikely(kc_load_relaxed(&co->state) == KC_CORO_CALLING) ? task_of(co)->inner : co;
}

/*
 * The caller, whose task's coroutine is co, stops here; what is ready goes on. It returns when
 * somebody has put co into a ready queue and its turn has come.
 */
static int leave(kc_thread_t *t, kcoro_t *co)
{
    kcoro_t *me = t->current;
    kcoro_t *to = next(t->worker);

    if (kc_unlikely(kc_load_relaxed(&co->block.flags) & KC_CORO_ENDING))
        kc__usage("kc_sched_destroy", "a cleanup that it runs may not suspend (rule C6)");
    if (kc_unlikely(me != co)) {
        task_of(co)->inner = me;
        kc_store_relaxed(&me->state, KC_CORO_CALLING); /* nobody else may resume or destroy it */
    }
    to = to ? entry_of(to) : t->root;
    if (to != me)
        return kc__coro_switch(t, me, to);
    kc_store_relaxed(&me->state, KCORO_RUNNING);
    return 0;
}

/* co, the coroutine of the caller's task, lets the others run. */
static int yield(kc_thread_t *t, kcoro_t *co)
{
    kc_worker_t *w = t->worker;

    kc_store_relaxed(&t->current->state, KCORO_SUSPENDED);
    if (kc_unlikely(w == w->sched->main && w->sched->once))
        kc__queue_push(&w->sched->again, &co->block);
    else
        make_ready(w, co);
    return leave(t, co);
}

static int host_yield(kcoro_t *me)
{
    return yield(kc__thread(), me);
}

static int host_parked(kcoro_t *me)
{
    return leave(kc__thread(), me);
}

/* From any thread: co is PARKED no more. Only its own thread queues and runs it. */
static void host_ready(kcoro_t *co)
{
    kc_worker_t *to = task_of(co)->worker;

    if (kc__worker() == to) {
        make_ready(to, co);
        tell_host(to);
    } else {
        send(to, &co->block);
    }
}

/* On the next stack: the task's own is at rest for good. */
static void bury(void *arg)
{
    kc_task_t *task = arg;
    kc_thread_t *t = kc__thread();

    unlist_started(task->worker, task);
    kc_store_relaxed(&task->co->state, KCORO_FINISHED);
    kc__coro_task_end(t, task->co);
    kc__task_ended(task);
}

static void host_ended(kcoro_t *me)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *to = next(t->worker);

    kc__coro_switch_then(t, me, to ? entry_of(to) : t->root, true, bury, task_of(me));
    kc__die("coroutine %llu ran after its end (rule C1)", (unsigned long long)me->id);
}

const struct kc_coro_host kc__coro_host = { host_yield, host_parked, host_ready, host_ended };

int kc_yield(void)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = task_coroutine(t->current);

    return co ? yield(t, co) : 0;
}

/* ---- sleeping ------------------------------------------------------------------------------ */

int kc_sleep_until(kc_time_t at)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = task_coroutine(t->current);

    if (!co) {
        if (t->worker && kc__sched_pump_until(t->worker->sched, at))
            return 0;
        KC_ATOMIC(uint32_t) never = 0; /* a plain thread */
        while (kc__os_now() < at)
            kc__os_wait(&never, 0, at);
        return 0;
    }
    if (at <= kc_now())
        return kc_yield();
    struct sleeper sleeper = { .co = co };
    kc__timers_add(&t->worker->sleepers, &sleeper.timer, at);
    kc_store_relaxed(&t->current->state, KCORO_SUSPENDED);
    return leave(t, co);
}

int kc_sleep(kc_time_t ns)
{
    if (ns <= 0)
        return ns < 0 ? -EINVAL : kc_yield();
    kc_time_t now = kc_now();
    return kc_sleep_until(ns > KC_FOREVER - now ? KC_FOREVER : now + ns);
}

/* ---- hopping ------------------------------------------------------------------------------- */

/* On the next stack: the task is at rest, so another thread may have it. */
static void post(void *arg)
{
    kc_task_t *task = arg;

    send(task->worker, &task->co->block);
}

int kc_hop(kc_affinity_t where)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *me = t->current;
    kc_worker_t *from = t->worker, *to;

    if (!from || !(kc_load_relaxed(&me->block.flags) & KC_CORO_TASK))
        return -EPERM;
    if (kc_load_relaxed(&me->block.flags) & KC_CORO_ENDING)
        kc__usage("kc_hop", "a cleanup that kc_sched_destroy runs may not suspend (rule C6)");
    kc_sched_t *s = from->sched;
    if (where < KC_MAIN || where > s->workers)
        return -EINVAL;
    if (where == KC_WORKER && s->workers > 0)
        to = from != s->main ? from : s->worker[from->turn++ % (uint32_t)s->workers];
    else
        to = where == KC_MAIN || where == KC_WORKER ? s->main : s->worker[where - KC_WORKER_AT(0)];
    if (to == from)
        return 0;

    kc_task_t *task = task_of(me);
    unlist_started(from, task);
    task->worker = to;
    task->hops = true;
    kc_store_relaxed(&me->state, KCORO_READY);
    kcoro_t *run = next(from);
    kc__coro_switch_then(t, me, run ? entry_of(run) : t->root, false, post, task);
    return 0;
}

/* ---- the thread's own stack ---------------------------------------------------------------- */

static void enter(kcoro_t *co)
{
    kc_thread_t *t = kc__thread();

    kc_store_relaxed(&t->root->state, KC_CORO_CALLING);
    kc__coro_switch(t, t->root, entry_of(co));
}

/* Is there something that any worker may do? */
static bool stealable(kc_sched_t *s)
{
    bool any = !kc__mpsc_empty(&s->injector) || kc__deque_size_hint(&s->main->deque) > 0;

    for (int i = 0; i < s->workers && !any; i++)
        any = kc__deque_size_hint(&s->worker[i]->deque) > 0;
    return any;
}

/* Has found something: whoever searches must not run, or nobody would be woken for what comes. */
void kc__worker_stop_searching(kc_worker_t *w)
{
    if (!w->searching)
        return;
    w->searching = false;
    if (kc__idle_found(&w->sched->idle) && stealable(w->sched))
        kc__sched_wake_any(w->sched);
}

void kc__worker_run_inbox(kc_worker_t *w)
{
    take_inbox(w);
}

bool kc__worker_run_ready(kc_worker_t *w)
{
    bool any = false;

    for (kcoro_t *co; !stopped(w) && (co = next(w)) != NULL; any = true) {
        kc__worker_stop_searching(w);
        enter(co);
    }
    return any;
}

static bool steal(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;
    uint32_t members = (uint32_t)s->workers + 1;

    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    uint32_t first = (uint32_t)(w->random >> 33) % members;
    for (uint32_t i = 0; i < members; i++) {
        uint32_t k = (first + i) % members;
        kc_worker_t *from = k < (uint32_t)s->workers ? s->worker[k] : s->main;
        kc_steal_t got = KC_STEAL_LOST;
        void *task = NULL;
        while (from != w && got == KC_STEAL_LOST)
            got = kc__deque_steal(&from->deque, &task);
        if (got == KC_STEAL_GOT) {
            keep_fresh(w, task);
            return true;
        }
    }
    return false;
}

/* Looks for what any worker may do. True: it is in this worker's own queues now. */
static bool search(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;

    if (!w->works)
        return false;
    if (!w->searching && !kc__idle_search(&s->idle, s->workers + 1))
        return false;
    w->searching = true;
    if (!take_injector(w) && !steal(w))
        return false;
    kc__worker_stop_searching(w);
    return true;
}

/* After its bit is set: is there anything to do after all? */
static bool anything_left(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;

    uint32_t closing = kc_load_acquire(&s->closing); /* W5 */
    if (!kc__mpsc_empty(&w->inbox) || (closing && w != s->main))
        return true;
    if (w == s->main && closing && kc_load_relaxed(&s->arrived) <= 1)
        return true;
    if (w == s->main && s->once && !closing && kc_load_relaxed(&s->flights) == 0)
        return true;
    if (stopped(w) || (w == s->main && s->until_idle && kc_load_relaxed(&s->live) == 0))
        return true;
    return w->works && stealable(s);
}

static void wait_for_wake(kc_worker_t *w, kc_time_t until)
{
    uint32_t what_for;

    while ((what_for = kc_load_acquire(&w->awake)) == KC_ASLEEP) { /* W2 */
        kc__os_wait(&w->awake, KC_ASLEEP, until);
        if (until != KC_FOREVER && kc__os_now() >= until &&
            kc__idle_leave(&w->sched->idle, w->bits))
            return; /* the time has come, and nobody is about to wake us */
    }
    kc_store_relaxed(&w->awake, KC_ASLEEP);
    w->searching = what_for == KC_AWAKE_AS_SEARCHER;
}

void kc__worker_sleep(kc_worker_t *w, kc_time_t until)
{
    kc_sched_t *s = w->sched;

    for (int i = 0; i < SPINS; i++) {
        if (!kc__mpsc_empty(&w->inbox) || search(w))
            return;
        kc__relax();
    }
    if (w->fresh.count > 0 && kc__os_now() + NO_STACK_NAP < until)
        until = kc__os_now() + NO_STACK_NAP; /* there was no memory for a stack: try again then */
    bool searching = w->searching;
    w->searching = false;
    kc__idle_enter(&s->idle, w->works ? w->bit : KC_OUTSIDE_BIT, searching);
    bool left = anything_left(w);
    /* Who stays up for its own inbox has searched too, and others have relied on that. */
    if (left && searching && stealable(s))
        kc__sched_wake_any(s);
    if (left && kc__idle_leave(&s->idle, w->bits))
        return;
    wait_for_wake(w, until);
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Empties the ready queue. Who was READY is SUSPENDED then; who waits in a generator stays
 * CALLING. */
static void drop_ready(kc_worker_t *w)
{
    for (kcoro_t *co; (co = pop_ready(w)) != NULL;)
        if (kc_load_relaxed(&co->state) == KCORO_READY)
            kc_store_relaxed(&co->state, KCORO_SUSPENDED);
}

/* A coroutine that is to be ended must not come through an inbox any more. Whoever has made it
 * READY is about to put it there: then it is waited for. */
static void withdraw(kc_worker_t *w, kcoro_t *co)
{
    uint32_t seen = KCORO_PARKED;

    if (kc_load_relaxed(&co->state) == KCORO_SUSPENDED ||
        kc_cas_acq_rel(&co->state, &seen, KCORO_SUSPENDED)) /* W6 */
        return;
    while (kc_load_relaxed(&co->state) == KCORO_READY) {
        take_inbox(w);
        drop_ready(w);
    }
}

void kc__worker_close(kc_worker_t *w)
{
    kc_thread_t *t = kc__thread();

    take_inbox(w);
    drop_ready(w);
    if (w == w->sched->main)
        w->sched->again = (kc_queue_t){ NULL, NULL, 0 }; /* those are SUSPENDED already */
    while (w->started) {
        kc_task_t *task = w->started;
        bool nested = kc_load_relaxed(&task->co->state) == KC_CORO_CALLING;
        withdraw(w, task->co);
        /* The generators in which it waits may be destroyed now, by its cleanups. */
        for (kcoro_t *in = task->inner; nested && in != task->co; in = in->resumer)
            kc_store_relaxed(&in->state, KCORO_SUSPENDED);
        unlist_started(w, task);
        task->rc = -ECANCELED;
        kc__coro_task_end(t, task->co);
        kc__task_ended(task);
    }
    kc__worker_drop_fresh(w);
}

void kc__worker_drop_fresh(kc_worker_t *w)
{
    kc_block_t *block;
    kc_task_t *task;

    take_inbox(w);
    while ((block = kc__queue_pop(&w->fresh)) != NULL) {
        task = kc_container_of(block, kc_task_t, block);
        task->rc = -ECANCELED;
        kc__task_ended(task);
    }
    while ((task = kc__deque_pop(&w->deque)) != NULL) {
        task->rc = -ECANCELED;
        kc__task_ended(task);
    }
}

void *kc__worker_main(void *arg)
{
    kc_worker_t *w = arg;

    kc_thread_t *t = kc__thread_make();

    if (!t) {
        kc__sched_arrive(w->sched, false);
        while (!kc_load_acquire(&w->sched->closing)) /* W5 */
            kc__relax();
        kc__sched_meet(w->sched);
        return NULL;
    }
    t->worker = w;
    kc__sched_arrive(w->sched, true);
    while (!kc_load_acquire(&w->sched->closing)) { /* W5 */
        if (kc__worker_run_ready(w) || search(w))
            continue;
        kc__worker_sleep(w, kc__worker_next_due(w));
    }
    kc__worker_stop_searching(w);
    kc__sched_meet(w->sched);
    kc__worker_close(w);
    t->worker = NULL;
    return NULL;
}

static const char *state_name(kcoro_t *co)
{
    return kcoro_state(co) == KCORO_PARKED ? "parked" : "suspended";
}

void kc__worker_report(kc_worker_t *w)
{
    for (kc_task_t *task = w->started; task; task = task->next)
        fprintf(stderr, "kcoro: deadlock: coroutine %llu \"%s\" is %s and nobody can wake it\n",
                (unsigned long long)task->co->id, task->co->name, state_name(task->co));
}

kc_worker_t *kc__worker_new(kc_sched_t *s, int index, int bit)
{
    kc_worker_t *w = kc__alloc_aligned(KC_CACHE_LINE, sizeof *w);

    if (!w)
        return NULL;
    w->sched = s;
    w->index = index;
    w->bit = bit;
    w->bits = kc__idle_bit(bit) | (index == KC_MAIN ? kc__idle_bit(KC_OUTSIDE_BIT) : 0);
    kc__mpsc_init(&w->inbox);
    if (kc__deque_init(&w->deque, 256) != 0) {
        kc__free(w);
        return NULL;
    }
    return w;
}

void kc__worker_reset(kc_worker_t *w)
{
    w->budget = BUDGET;
    w->turn = 0;
    w->random = (uint64_t)w->bit * 0x9e3779b97f4a7c15u + 1;
    w->searching = false;
    kc_store_relaxed(&w->awake, KC_ASLEEP);
    kc__timers_init(&w->sleepers, 0);
    KC_ASSERT(!w->started && !w->ready.head && !w->fresh.head && kc__mpsc_empty(&w->inbox));
}

void kc__worker_free(kc_worker_t *w)
{
    if (!w)
        return;
    kc__deque_destroy(&w->deque);
    kc__free(w);
}
