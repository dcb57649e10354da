/* SPDX-License-Identifier: MIT */
/*
 * hooks.c - what the layers below ask of jobs: the tables by which they call upwards.
 *
 * WHAT     coro asks when a coroutine of a scheduler runs, yields, parks or cleans up; sched when a
 *          task starts, ends, fails, or gets a message, and when a scheduler opens and closes.
 */
#include "job/body.h"
#include "job/body_start.h"
#include "job/cancel.h"
#include "job/cycle.h"
#include "job/deadlock.h"
#include "job/end.h"
#include "job/grace.h"
#include "job/job.h"
#include "job/job_timer.h"
#include "job/root.h"
#include "job/shield.h"
#include "job/suspend.h"
#include "sched/inbox.h"
#include "sched/worker.h"

/* ---- what coroutines ask of us -------------------------------------------------------------- */

static void hook_yield(kcoro_t *me)
{
    kc__wait_check(me, "kcoro_yield");
    kc__worker_yield(kc__thread(), me);
}

static bool hook_park(kcoro_t *me)
{
    kc__wait_check(me, "kcoro_park");
    if (!kc__job_is_stopped(kc__job_of(me->task)))
        return true;
    kc__job_cancelled_here(me);
    return false;
}

static KC_AFTER_SWITCH void hook_parked(kcoro_t *me)
{
    kc_wait_t w = { .co = me, .kind = KC_WAIT_PARK };
    kc_thread_t *t = kc__thread();
    kc_task_t *task = me->task;

    task->wait = &w;
    kc_store_relaxed(&task->kind, KC_WAIT_PARK);
    kc__worker_count(t->worker, KC_COUNT_PARKS);
    t->left_from = __builtin_return_address(0);
    kc__worker_leave_parked(t, me);
    task->wait = NULL;
    kc_store_relaxed(&task->kind, KC_WAIT_NONE);
    if (kc__job_is_stopped(kc__job_of(task)))
        kc__job_cancelled_here(me);
}

static void hook_ready(kcoro_t *co)
{
    kc_worker_t *to = kc_load_relaxed(&co->task->worker);

    if (kc__worker() == to)
        kc__worker_ready(to, co);
    else
        kc__worker_send(to, &co->block);
}

static void hook_cleanup(kcoro_t *co, void (*fn)(void *), void *arg)
{
    kc_job_t *j = kc__job_of(co->task);

    kc__job_shield(j);
    fn(arg);
    kc__job_unshield(j);
}

const struct kc_coro_hooks kc__coro_hooks = {
    .run = kc__body_run,
    .yield = hook_yield,
    .parks = hook_park,
    .parked = hook_parked,
    .ready = hook_ready,
    .cleanup = hook_cleanup,
};

/* ---- what the scheduler asks of us ---------------------------------------------------------- */

static kcoro_t *task_successor(kc_task_t *task)
{
    return kc__job_successor(kc__job_of(task));
}

static void task_ended(kc_task_t *task)
{
    kc__job_body_gone(kc__job_of(task));
}

static void task_message(kc_block_t *block)
{
    uint32_t magic = kc_load_relaxed(&block->magic);

    if (magic == KC_JOB_TIMER_MAGIC)
        kc__job_timer_message(block);
    else if (magic == KC_WAKER_MAGIC)
        kc__suspend_message(block);
    else
        kc__job_cancel_message(kc_container_of(block, kc_job_t, task.block));
}

const struct kc_task_hooks kc__task_hooks = {
    .start = kc__body_start,
    .fail = kc__body_fail,
    .successor = task_successor,
    .ended = task_ended,
    .message = task_message,
    .move = kc__wait_move,
    .leave = kc__cycle_leave,
    .joins = kc__wait_is_join,
    .make = kc__roots_make,
    .go = kc__roots_go,
    .drop = kc__roots_drop,
    .dispose = kc__dispose,
};

const struct kc_sched_hooks kc__sched_hooks = {
    .open = kc__roots_open,
    .close = kc__roots_close,
    .shut = kc__roots_shut,
    .gone = kc__grace_gone,
    .idle = kc__roots_are_idle,
    .awaits_external = kc__roots_look_for_external,
    .end_shields = kc__roots_end_shields,
    .awaits_thread = kc__deadlock_awaits_thread,
    .report = kc__deadlock_report,
};
