/* SPDX-License-Identifier: MIT */
/*
 * spread.c - even load: which worker starts a task that any may start, and who migrates.
 *
 * WHAT     The load of a worker is the number of its coroutines that have started and not ended. A
 *          worker with several of them, which is about to start one more, first looks whether
 *          another has clearly fewer, and offers the task to that one. It does so only for tasks
 *          that wait first and compute later (connections): as it cannot look into the future, it
 *          takes the last one that it has started with the same function as an example. If that is
 *          over, it computes: then the worker that has time for it should have it. If it waits for
 *          other jobs, it has forked: then its children are warm where they are (newest first).
 *
 *          An offer is a task in a list of the other worker, which looks there in its next turn. If
 *          it does not come (its turn is long, its thread blocks), whoever looks takes the offers
 *          back after a while: they must not wait for ever for a worker that may wait for them.
 *          Once taken, a task is in a deque as before, and may be stolen; a thief whose load is
 *          larger than that of the robbed one offers it back.
 *
 *          Who goes to sleep asks the others for those who may migrate: they hear of it when their
 *          turn ends, however long that takes, as nobody else may touch their queues.
 *
 * SHAPE    load  =  spawns - reaped (its own counters)  +  moved (others: one more for an offer or
 *                   a coroutine that hops or migrates there, one less when it is taken or leaves)
 *
 *          Nothing depends on these numbers but where something runs: they may be a little old.
 *
 * ORDER    All relaxed: what an offer carries goes through its list (mpsc.h), who sleeps is told as
 *          after a push into the inbox (idle.1, idle.2).
 *
 * WHY NOT  The task straight into the other's inbox: nobody else could start it while that worker
 *          computes. A comparison with all workers: each start would read a line of each of them.
 */
#define _GNU_SOURCE
#include "sched/spread.h"

#include "base/os.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/sched.h"
#include "sched/worker.h"

enum {
    COMPARED = 10,       /* threads that are looked at for one with a smaller load             */
    STICKS = 64,         /* starts of other functions that the example outlasts                */
    SHARED = 32,         /* ready coroutines that are looked at for those that may migrate     */
    PATIENCE = 50000000, /* ns that an offer waits for its worker                              */
};

/* ---- load ----------------------------------------------------------------------------------- */

static kc_worker_t *member(const kc_sched_t *s, uint32_t i)
{
    return i < (uint32_t)s->workers ? s->worker[i] : s->main;
}

static int64_t load_of(const kc_worker_t *w)
{
    return (int64_t)kc__worker_live(w) + kc_load_relaxed(&w->moved);
}

/* The thread is in a turn that it was in already when it was offered something long ago. */
static bool is_deadlocked(const kc_worker_t *v)
{
    return kc_load_relaxed(&v->running) &&
           kc_load_relaxed(&v->turns) == kc_load_relaxed(&v->offer_turn) &&
           kc__os_now() - kc_load_relaxed(&v->offer_at) >= PATIENCE;
}

/* Another thread with the smallest load of those that are looked at, and that may have time. NULL:
 * all have at least `least`. */
static kc_worker_t *emptiest(kc_worker_t *w, int64_t least)
{
    const kc_sched_t *s = w->sched;
    uint32_t members = (uint32_t)s->workers + 1, n = members < COMPARED ? members : COMPARED;
    kc_worker_t *found = NULL;

    for (uint32_t i = 0; i < n; i++) {
        kc_worker_t *v = member(s, w->looks++ % members);
        if (v != w && load_of(v) < least && !is_deadlocked(v)) {
            least = load_of(v);
            found = v;
        }
    }
    return found;
}

uint64_t kc__spread_choose(const kc_sched_t *s, uint64_t asleep)
{
    uint64_t best = asleep & -asleep;
    int64_t least = INT64_MAX;

    for (int i = 0; asleep && i < COMPARED; i++, asleep &= asleep - 1) {
        int64_t load = load_of(member(s, (uint32_t)__builtin_ctzll(asleep)));
        if (load < least) {
            least = load;
            best = asleep & -asleep;
        }
    }
    return best;
}

/* ---- offers --------------------------------------------------------------------------------- */

/* From now on v is expected to look at its offers, unless that is so since the turn it is in. */
static void expect_look(kc_worker_t *v)
{
    uint64_t turn = kc_load_relaxed(&v->turns);

    if (kc_load_relaxed(&v->running) && turn == kc_load_relaxed(&v->offer_turn))
        return;
    kc_store_relaxed(&v->offer_turn, turn);
    kc_store_relaxed(&v->offer_at, kc__os_now());
}

static void offer(kc_worker_t *v, kc_task_t *task)
{
    if (kc__mpsc_is_empty(&v->offers))
        expect_look(v);
    bool first = kc__mpsc_push(&v->offers, &task->block.link);
    kc_or_relaxed(&v->mode, KC_MODE_OFFERS);
    if (first)
        kc__worker_wake(v);
}

/* Offers it to a thread that is clearly emptier. False: there is none. */
static bool offer_to_emptier(kc_worker_t *w, kc_task_t *task)
{
    int64_t mine = load_of(w);

    if (w->even > 0) {
        w->even--;
        return false;
    }
    for (kc_worker_t *v; (v = emptiest(w, mine)) != NULL;) {
        int64_t moved = kc_load_relaxed(&v->moved), load = (int64_t)kc__worker_live(v) + moved;
        if (mine <= load + 1 + load / 16)
            break;
        if (kc_cas_relaxed(&v->moved, &moved, moved + 1)) { /* else somebody else was faster */
            offer(v, task);
            return true;
        }
    }
    w->even = (uint32_t)(mine / 64); /* of many, so many more make no difference */
    return false;
}

/* The last one of its kind that has started here is there, and waits: not for jobs. */
static bool is_example_waiting(const kc_worker_t *w, const kc_task_t *task)
{
    const kc_task_t *last = w->last;

    return last && w->last_fn == task->fn && last->co &&
           kc_load_relaxed(&last->co->state) != KCORO_RUNNING && /* or it is just ending */
           !kc__task_hooks.joins(last->co);
}

kc_task_t *kc__spread(kc_worker_t *w, kc_task_t *task)
{
    while (task && is_example_waiting(w, task) && offer_to_emptier(w, task))
        task = kc__deque_pop(&w->deque);
    if (task && (!w->last || w->last_fn == task->fn || --w->last_age == 0)) {
        w->last = task;
        w->last_fn = task->fn;
        w->last_age = STICKS;
    }
    return task;
}

static bool take_offers(kc_worker_t *w, kc_worker_t *from)
{
    size_t n = kc__worker_take_shared(w, &from->offers, &from->offers_taken);

    if (n > 0)
        kc_add_relaxed(&from->moved, -(int64_t)n);
    if (n > 1) /* what was this one's lies in a deque now: there may be others with time */
        kc__sched_wake_any(w->sched);
    return n > 0;
}

bool kc__spread_take(kc_worker_t *w)
{
    kc_and_relaxed(&w->mode, ~(uint32_t)KC_MODE_OFFERS);
    return take_offers(w, w);
}

/* It is main, and does not take what any worker may do any more. */
static bool is_away(const kc_worker_t *v)
{
    return kc_load_relaxed(&v->moved) >= KC_SPREAD_AWAY / 2;
}

bool kc__spread_take_back(kc_worker_t *w)
{
    const kc_sched_t *s = w->sched;

    for (uint32_t i = 0; i <= (uint32_t)s->workers; i++) {
        kc_worker_t *v = member(s, i);
        if (v == w || kc__mpsc_is_empty(&v->offers))
            continue;
        if ((is_deadlocked(v) || is_away(v)) && take_offers(w, v))
            return true;
        expect_look(v); /* it may have begun its turn just before it was offered something */
    }
    return false;
}

kc_time_t kc__spread_due(const kc_worker_t *w)
{
    const kc_sched_t *s = w->sched;

    for (uint32_t i = 0; w->works && i <= (uint32_t)s->workers; i++)
        if (member(s, i) != w && !kc__mpsc_is_empty(&member(s, i)->offers))
            return kc__os_now() + PATIENCE;
    return KC_FOREVER;
}

/* ---- who migrates --------------------------------------------------------------------------- */

/* The first in the queue that may go to `to`, goes; all that are before it may not. */
static bool move_one(kc_worker_t *w, kc_worker_t *to)
{
    kc_mpsc_node_t *node = w->ready.head;

    for (int k = 0; node && k < SHARED; k++, node = node->next) {
        kc_block_t *block = kc_container_of(node, kc_block_t, link);
        if (!(kc_load_relaxed(&block->flags) & KC_CORO_MIGRATES))
            continue;
        kcoro_t *co = kc_container_of(block, kcoro_t, block);
        kc__queue_remove(&w->ready, block);
        if (kc__task_hooks.move(co, to))
            return true;
        kc__queue_push(&w->ready, block);
        return false;
    }
    return false;
}

void kc__spread_ask(kc_worker_t *w)
{
    const kc_sched_t *s = w->sched;
    uint32_t members = (uint32_t)s->workers + 1, n = members < COMPARED ? members : COMPARED;

    for (uint32_t i = 0; i < n; i++) {
        kc_worker_t *v = member(s, w->looks++ % members);
        if (v != w && kc_load_relaxed(&v->running) && !kc__worker_has_mode(v, KC_MODE_ASKED))
            kc_or_relaxed(&v->mode, KC_MODE_ASKED);
    }
}

void kc__spread_share(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;
    uint64_t workers = ((uint64_t)1 << s->workers) - 1;
    if (kc__worker_has_mode(w, KC_MODE_ASKED))
        kc_and_relaxed(&w->mode, ~(uint32_t)KC_MODE_ASKED);
    uint64_t asleep = w->ready.count > 1 ? kc_load_relaxed(&s->idle.word) & workers : 0;

    for (size_t left = (size_t)__builtin_popcountll(asleep); left > 0; left--) {
        size_t some = w->ready.count / (left + 1);
        kc_worker_t *to = s->worker[__builtin_ctzll(asleep)];
        some = some < SHARED ? some : SHARED;
        while (some > 0 && move_one(w, to))
            some--;
        if (some > 0)
            return;
        asleep &= asleep - 1;
    }
}
