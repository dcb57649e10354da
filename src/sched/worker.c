/* SPDX-License-Identifier: MIT */
/*
 * worker.c - one thread of a scheduler: its loop, its own stack, its memory. Which coroutine is
 * next is in next.c, how one stops in leave.c, what the thread does when there is none in idle.c.
 *
 * WHAT     The thread's own stack is visited when nothing is ready, and for what may run functions
 *          of the user's that are nobody's body (a timeout, the end of a job that has failed, a
 *          dispose): who is leaving and finds that there is such goes there, and not straight to
 *          the next one. Nothing of it is done in the name, and on the stack, of who happens to
 *          leave (S16). What other threads have for this one comes through one inbox (inbox.c).
 *
 *          In a forked child none of it goes on (O10). To find that out costs a turn nothing: what
 *          it has to think of (mode) lies in a page that the kernel wipes in the child, and zero
 *          means there that this is one.
 *
 * ORDER    id        site     operation     pairs with  carries; what breaks if weaker
 *          worker.1  closing  load_acquire  sched.1     what is in the inbox; a message would be
 *                                                       left behind
 *
 * RULES    R1 the queues agree with their counts; the first of each is what belongs there, and what
 *             is ready does not run.
 *          R2 main is main; who is alone works, is main, and there are no workers.
 *          R3 the budget is never used up: who takes the last of it gets a new one at once.
 *          R4 its timers are in order.
 *          All by kc__worker_is_legal, where the thread looks around, sleeps, and begins and stops
 *          to pump.
 */
#include "sched/worker.h"

#include "base/os.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/leave.h"
#include "sched/next.h"
#include "sched/sched.h"

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
    if (!kc__worker_has_mode(w, KC_MODE_ORACLE)) {
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
    go(t, kc__next_entry_of(co));
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

    for (kcoro_t *co;
         !kc__worker_is_stopped(w) && (co = kc__next(w, KC_NEXT_UNSTARTED_EVERY)) != NULL;
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

/* ---- the rules ------------------------------------------------------------------------------ */

/* R1: q is empty, or the first in it is of this kind. */
static bool has_first(const kc_queue_t *q, uint32_t magic)
{
    if (!kc__queue_is_legal(q))
        return false;
    return !q->head ||
           kc_load_relaxed(&kc_container_of(q->head, kc_block_t, link)->magic) == magic;
}

/* R1: the first that is ready is a scheduler's, at rest. */
static bool is_ready_at_rest(const kc_worker_t *w)
{
    if (!w->ready.head)
        return true;
    const kc_block_t *block = kc_container_of(w->ready.head, kc_block_t, link);
    const kcoro_t *co = kc_container_of(block, kcoro_t, block);
    uint32_t state = kc_load_relaxed(&co->state);
    return (kc_load_relaxed(&block->flags) & KC_CORO_TASK) && state != KCORO_RUNNING &&
           state != KCORO_FINISHED;
}

bool kc__worker_is_legal(const kc_worker_t *w)
{
    const kc_sched_t *s = w->sched;

    return has_first(&w->ready, KC_CORO_MAGIC) && is_ready_at_rest(w) &&   /* R1 */
           has_first(&w->unstarted, KC_TASK_MAGIC) &&                      /* R1 */
           kc__queue_is_legal(&w->own_stack) &&                            /* R1 */
           (w->index == KC_MAIN) == (w == s->main) &&                      /* R2 */
           (!w->alone || (w->works && w == s->main && s->workers == 0)) && /* R2 */
           w->budget >= 1 && w->budget <= KC_BUDGET &&                     /* R3 */
           kc__timers_are_legal(&w->timers);                               /* R4 */
}

/* ---- memory --------------------------------------------------------------------------------- */

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
