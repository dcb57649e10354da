/* SPDX-License-Identifier: MIT */
/*
 * inbox.c - what comes to a thread of a scheduler: from others through its inbox, and by time.
 *
 * WHAT     Woken coroutines, tasks to start and messages come through one inbox, which is looked at
 *          in every switch. Tasks that any worker may start and that threads of no worker bring lie
 *          in the injector, from which one worker takes all.
 *
 *          Timers are looked at by time, not by turns: in every turn if one may be due when the
 *          next turn ends, which no clock tells before. As long as the first one is far away, so
 *          that even long turns do not reach it, now and then. So a sleep is late by one turn of
 *          its thread at most (S15).
 *
 *          Messages, and timers that are due, may lead to functions of the user's that are nobody's
 *          body: they are read, and taken, on the thread's own stack only (worker.c).
 *
 * ORDER    id       site   operation      pairs with  carries; what breaks if weaker
 *          inbox.1  taken  cas_acq_rel    inbox.2     one at a time empties the injector, or a list
 *                                                     of offers
 *          inbox.2  taken  store_release  inbox.1
 */
#include "sched/inbox.h"

#include "base/os.h"
#include "sched/idle.h"
#include "sched/sched.h"
#include "sched/spread.h"
#include "sched/token.h"
#include "sched/worker.h"

enum {
    STALL = 100,          /* ms: no turn takes longer, but in programs that stall their thread */
    LOOK_TICKS = 1000000, /* of kc__os_ticks: so long it is trusted */
};

/* ---- sending -------------------------------------------------------------------------------- */

void kc__worker_send(kc_worker_t *w, kc_block_t *block)
{
    kc__worker_check_process(w);
    if (kc__mpsc_push(&w->inbox, &block->link))
        kc__worker_wake(w);
}

kc_worker_t *kc__sched_place(kc_sched_t *s, kc_affinity_t where)
{
    if (where == KC_MAIN || s->workers == 0)
        return s->main;
    return where == KC_WORKER ? NULL : s->worker[where - KC_WORKER_AT(0)];
}

void kc__task_submit(kc_task_t *task)
{
    kc_sched_t *s = kc__task_sched(task);
    kc_worker_t *me = kc__worker();
    kc_worker_t *to = kc__sched_place(s, task->where);

    kc__sched_check_process(s);
    kc__tsan_release(task);
    if (me && me->sched == s && (to == me || (!to && me->works))) {
        kc__worker_keep_unstarted(me, task);
        kc__worker_tell_loop(me);
        if (!to)
            kc__sched_wake_any(s);
    } else if (to) {
        kc__worker_send(to, &task->block);
    } else {
        kc__mpsc_push(&s->injector, &task->block.link);
        kc__sched_wake_any(s);
    }
}

/* ---- what comes in ------------------------------------------------------------------------- */

/* True: it is ready here, and may migrate. */
static bool take_block(kc_worker_t *w, kc_block_t *block)
{
    uint32_t magic = kc_load_relaxed(&block->magic);

    if (magic == KC_CORO_MAGIC) {
        kcoro_t *co = kc_container_of(block, kcoro_t, block);
        bool migrates = kc_load_relaxed(&block->flags) & KC_CORO_MIGRATES;
        if (migrates && kc__task_hooks.move(co, NULL))
            return false;
        kc__queue_push(&w->ready, &co->block);
        return migrates;
    }
    if (magic == KC_TOKEN_MAGIC)
        kc__timed_take(w->sched->timed, block);
    else if (magic == KC_TASK_MAGIC && !kc_container_of(block, kc_task_t, block)->co &&
             !(kc_load_relaxed(&block->flags) & KC_TASK_BODILESS))
        kc__worker_keep_unstarted(w, kc_container_of(block, kc_task_t, block));
    else if (kc__worker_is_on_own_stack())
        kc__task_hooks.message(block);
    else
        kc__worker_read_later(w, block);
    return false;
}

void kc__worker_read_later(kc_worker_t *w, kc_block_t *block)
{
    kc__queue_push(&w->own_stack, block);
    w->look_turn = w->look_ticks = 0;
}

bool kc__worker_read_put_off(kc_worker_t *w)
{
    bool any = w->own_stack.head != NULL;

    w->wanted = false;
    for (kc_block_t *block; (block = kc__queue_pop(&w->own_stack)) != NULL;)
        kc__task_hooks.message(block);
    return any;
}

bool kc__worker_take_inbox(kc_worker_t *w)
{
    kc_mpsc_node_t *node = kc__mpsc_take_all(&w->inbox);
    bool any = node != NULL, migrants = false;

    while (node) {
        kc_block_t *block = kc_container_of(node, kc_block_t, link);
        node = node->next;
        migrants |= take_block(w, block);
    }
    if (migrants)
        kc__spread_share(w); /* before the first of them computes */
    return any;
}

size_t kc__worker_take_shared(kc_worker_t *w, kc_mpsc_t *from, KC_ATOMIC(uint32_t) * taken)
{
    uint32_t free = 0;
    size_t n = 0;

    if (kc__mpsc_is_empty(from) || !kc_cas_acq_rel(taken, &free, 1)) /* inbox.1 */
        return 0;
    kc_mpsc_node_t *node = kc__mpsc_take_all(from);
    kc_store_release(taken, 0); /* inbox.2 */
    for (; node; n++) {
        kc_mpsc_node_t *after = node->next;
        kc__worker_keep_unstarted(
            w, kc_container_of(kc_container_of(node, kc_block_t, link), kc_task_t, block));
        node = after;
    }
    return n;
}

bool kc__worker_take_injector(kc_worker_t *w)
{
    return kc__worker_take_shared(w, &w->sched->injector, &w->sched->injector_taken) > 0;
}

/* When to look at the timers again. Virtual time stands still while coroutines run. */
static void plan_look(kc_worker_t *w, kc_time_t now, kc_time_t due)
{
    kc_sched_t *s = w->sched;

    if (w == s->main && s->deadline > 0 && s->deadline < due) {
        due = s->deadline;
        now = kc_now();
    }
    w->look_due = due;
    w->look_turn = w->own_stack.head ? 0 : UINT64_MAX; /* timers may have left messages there */
    w->look_ticks = 0;
    if (w->own_stack.head || due == KC_FOREVER || s->virtual_time)
        return;
    kc_time_t left = due > now ? due - now : 0, turns = left / KC_MS(STALL);
    w->look_turn =
        kc__worker_next_turn(w) + (turns < KC_LOOK_EVERY ? (uint64_t)turns : KC_LOOK_EVERY);
    if (turns <= 1)
        w->look_ticks = kc__os_ticks() + (uint64_t)(left < LOOK_TICKS ? left : LOOK_TICKS);
}

bool kc__worker_is_wanted_there(kc_worker_t *w)
{
    if (w->own_stack.head)
        return true;
    kc_time_t due = kc__worker_next_due(w), now = due == KC_FOREVER ? 0 : kc_now();
    plan_look(w, now, due);
    return due <= now;
}

bool kc__worker_take_due(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;
    bool any = false, timed = w == s->main && s->follow_clock && kc__timed_has_any(s->timed);
    kc_timer_t *timer;

    if (kc__timers_count(&w->timers) == 0 && !timed) {
        plan_look(w, 0, KC_FOREVER);
        return false;
    }
    kc_time_t now = kc_now();
    for (; (timer = kc__timers_pop(&w->timers, now)); any = true) {
        kc_timed_call_t *due = kc_container_of(timer, kc_timed_call_t, timer);
        kc__worker_count(w, KC_COUNT_TIMERS);
        due->ring(due);
    }
    if (any)
        kc__spread_share(w); /* before the first of them computes */
    any = (timed && kc__timed_start_due(s->timed, now)) || any;
    plan_look(w, now, kc__worker_next_due(w));
    return any;
}

kc_time_t kc__worker_next_due(kc_worker_t *w)
{
    kc_time_t due = kc__timers_next(&w->timers), timed = KC_FOREVER;

    if (w == w->sched->main && w->sched->follow_clock)
        timed = kc__timed_next_due(w->sched->timed);
    return due < timed ? due : timed;
}
