/* SPDX-License-Identifier: MIT */
/*
 * wait.c - the one way to wait: what everything that suspends is made of, and how a body hops.
 *
 * WHAT     A wait lies in the frame of the caller. Whoever claims it, exactly one, says what its
 *          result is and makes the coroutine ready: the owner of what is waited for, a timer, or a
 *          cancel. A coroutine stays on its thread, so timers and cancels of it are that thread's
 *          own affair: another thread that cancels a job sends a message (cancel.c). So a wait
 *          needs no atomic operation to be found by a cancel, and no second look after it was
 *          published: the message is read by the same thread, when the coroutine has left.
 *
 * SHAPE    claim of the coroutine   OPEN           --claim--> TAKEN     --wake--> it is in a ready
 *                                   UNCANCELLABLE  --claim--> TAKEN               queue or inbox
 *                                   OPEN          --cancel--> CANCELLED
 *          word of a plain thread   0 --claim--> 1 --wake--> KC_DONE
 *
 *          A claimed wait is always woken, and a coroutine that waits always leaves: it never
 *          messages by itself that it was claimed. So it comes out of a queue exactly once.
 *
 * ORDER    id      site           operation      pairs with  carries; what breaks if weaker
 *          wait.2  wake: word     store_release  wait.3,     the result, for a plain thread
 *                                                run.3
 *          wait.3  wait: word     load_acquire   wait.2
 *          wait.4  hop: worker    store_release  cancel.1    the coroutine's fields, for a cancel
 *                                                            on the thread where it goes
 *          wait.5  cancel: claim  cas_acq_rel    wait.1      exactly one ends a wait
 *
 * WHY NOT  Publish in the job, then look at its word again: two more locked instructions in every
 *          wait, and a handshake before the frame may go.
 */
#include "job/wait.h"

#include "base/os.h"
#include "job/body.h"
#include "job/body_start.h"
#include "job/grace.h"
#include "job/job.h"
#include "job/join.h"
#include "job/suspend.h"
#include "job/job_timer.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/run.h"
#include "sched/worker.h"
#include "signal/handler.h"

#include <errno.h>

/* What is waited for, and by which call. The debugger script reads it too. */
static const struct {
    const char *name, *call;
} kc__wait_kinds[KC_WAIT_KINDS] = {
    [KC_WAIT_NONE] = { "", "a call" },
    [KC_WAIT_SLEEP] = { "sleep", "kc_sleep" },
    [KC_WAIT_FOREVER] = { "sleep", "kc_sleep" },
    [KC_WAIT_PARK] = { "park", "kcoro_park" },
    [KC_WAIT_JOIN] = { "join", "kc_job_join" },
    [KC_WAIT_CHILDREN] = { "its children", "kc_scope_end" },
    [KC_WAIT_SCOPE] = { "its scope", "kc_scope_end" },
    [KC_WAIT_MUTEX] = { "a mutex", "kc_mutex_lock" },
    [KC_WAIT_READ] = { "a lock to read", "kc_rwlock_rdlock" },
    [KC_WAIT_WRITE] = { "a lock to write", "kc_rwlock_wrlock" },
    [KC_WAIT_COND] = { "a condition", "kc_cond_wait" },
    [KC_WAIT_SEM] = { "a semaphore", "kc_sem_acquire" },
    [KC_WAIT_LATCH] = { "a latch", "kc_latch_wait" },
    [KC_WAIT_EVENT] = { "an event", "kc_event_wait" },
    [KC_WAIT_ONCE] = { "another's kc_once", "kc_once" },
    [KC_WAIT_BARRIER] = { "a barrier", "kc_barrier_wait" },
    [KC_WAIT_SEND] = { "a send to channel", "kc_chan_send" },
    [KC_WAIT_RECV] = { "a receive from channel", "kc_chan_recv" },
    [KC_WAIT_SELECT] = { "select", "kc_select" },
    [KC_WAIT_BROADCAST] = { "a broadcast", "kc_subscription_recv" },
    [KC_WAIT_JOIN_ANY] = { "the first of several jobs", "kc_join_any" },
    [KC_WAIT_SUSPEND] = { "kc_wake", "kc_suspend" },
    [KC_WAIT_STANDIN] = { "", "kc_join_any" },
};

const char *kc__wait_name(kc_wait_kind_t kind)
{
    return kc__wait_kinds[kind].name;
}

const char *kc__wait_call(kc_wait_kind_t kind)
{
    return kc__wait_kinds[kind].call;
}

void kc__wait_check_more(const char *call)
{
    if (kc__signal_is_in_handler())
        kc__usage(call, "waits inside a handler or dispose " KC_RULE("G6"));
}

/* ---- who waits ------------------------------------------------------------------------------ */

int kc__wait_begin(kc_wait_t *w, kc_wait_kind_t kind, const void *object)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);

    kc__wait_init(w, t, co, kind, object, KC_CLAIM_OPEN);
    return kc__job_check_cancel(co);
}

/* The time has come, on the thread of the coroutine. */
static void time_out(kc_timed_call_t *timed)
{
    kc_wait_t *w = kc_container_of(timed, kc_wait_t, timed);

    if (kc__wait_claim(w, w->timed_out))
        kc__wait_wake(w);
}

/* When it is so much later on the clock of the system as from now to the deadline. */
static kc_time_t real_time_of(kc_time_t deadline, kc_time_t now)
{
    kc_time_t real = kc__os_now();

    if (deadline <= now)
        return 0;
    return deadline - now > KC_FOREVER - real ? KC_FOREVER : real + (deadline - now);
}

/* A cleanup that kcoro_destroy runs has nobody behind it. On a thread of a scheduler a wait would
 * hold up all that could end it. */
static void check_cleanup(kc_wait_kind_t kind)
{
    const kc_thread_t *t = kc__thread();
    const kcoro_t *last = t->current;

    while (last->resumer)
        last = last->resumer;
    if (t->worker && last != t->main_co)
        kc__usage(kc__wait_call(kind),
                  "a cleanup run by kcoro_destroy may not suspend " KC_RULE("C6"));
}

int kc__wait_as_thread(kc_wait_t *w, kc_time_t deadline)
{
    check_cleanup(w->kind);
    bool pumps = w->worker && kc__sched_pump_until(w->worker->sched, deadline, &w->word);
    kc_time_t until = KC_FOREVER, now = kc_now();

    if (deadline != KC_FOREVER && !pumps) /* its clock may be a virtual one */
        until = real_time_of(deadline, now);
    for (uint32_t seen; (seen = kc_load_acquire(&w->word)) != KC_DONE;) { /* wait.3 */
        if ((pumps || kc__os_now() >= until) && deadline != KC_FOREVER &&
            kc__wait_claim(w, w->timed_out))
            return w->rc;
        kc__os_wait(&w->word, seen, seen ? KC_FOREVER : until);
    }
    kc__tsan_acquire(w);
    return w->rc;
}

void kc__wait_arm(kc_wait_t *w, kc_time_t deadline)
{
    w->timed.ring = time_out;
    kc__timers_add(&w->worker->timers, &w->timed.timer, deadline);
    kc__worker_hear_of(w->worker, deadline);
}

/* ---- who ends it ---------------------------------------------------------------------------- */

void kc__wait_wake_other(kc_wait_t *w)
{
    kc_worker_t *to = w->worker;

    if (w->co) {
        if (kc_load_relaxed(&w->co->block.flags) & KC_CORO_MIGRATES)
            w->waker = kc__worker();
        kc__worker_send(to, &w->co->block);
        return;
    }
    kc__tsan_release(w);
    if (w->kind == KC_WAIT_STANDIN) {
        kc__join_wake(w);
        return;
    }
    kc_store_release(&w->word, KC_DONE); /* wait.2 */
    if (to)
        kc__worker_wake(to);
    kc__os_wake(&w->word); /* if w is gone, this wakes nobody, or somebody who looks again */
}

void kc__wait_hand_over(kc_thread_t *t, kcoro_t *co, kc_wait_t *w)
{
    bool plain = kc_load_relaxed(&t->current->block.flags) == KC_CORO_TASK;

    if (!co || !w->co || w->worker != t->worker || (!plain && kc__signal_is_in_handler()))
        kc__wait_wake(w);
    else
        kc__worker_hand_over(t, co, w->co);
}

int kc__wait_let_others(kc_thread_t *t, kcoro_t *co)
{
    t->worker->budget = KC_BUDGET;
    if (!kc__signal_is_in_handler())
        (void)kc__worker_yield(t, co);
    return 0;
}

/* Its frame is not touched: of very many, none is in the cache. */
void kc__wait_cancel(kc_task_t *task)
{
    kcoro_t *co = task->co;
    uint32_t open = KC_CLAIM_OPEN;

    if (kc_load_relaxed(&task->kind) == KC_WAIT_PARK)
        kc__coro_end_park(co);
    else if (kc_load_relaxed(&task->kind) == KC_WAIT_SUSPEND)
        kc__suspend_cancel(task->wait);
    else if (kc_load_relaxed(&co->claim) == open &&
             kc_cas_acq_rel(&co->claim, &open, KC_CLAIM_CANCELLED)) /* wait.5 */
        kc__worker_ready(kc__worker(), co);
}

/* ---- hop ------------------------------------------------------------------------------------ */

/* j continues on another thread, with its timers. A message that goes to the old thread is sent on
 * from there, and so is a timer that comes meanwhile: who cancels j may give it one. */
static void move_to(kc_job_t *j, kc_worker_t *to)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);

    kc_store_release(&j->task.worker, to); /* wait.4 */
    if (!ext)
        return;
    if (ext->timeout)
        kc__job_timer_hop(ext->timeout);
    kc__grace_hop(j, ext);
}

/* j is the innermost job of a body that goes on on another thread. Its open scopes move with it. */
static void set_worker(kc_job_t *j, kc_worker_t *to)
{
    kc_worker_t *from = kc__worker();

    kc_add_relaxed(&from->moved, -1);
    kc_add_relaxed(&to->moved, 1);
    for (; kc__job_flags(j) & KC_JOB_SCOPE; j = j->parent)
        move_to(j, to);
    kc__worker_forget(from, &j->task);
    move_to(j, to);
}

int kc_hop(kc_affinity_t where)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = t->current;
    kc_worker_t *from = t->worker;

    if (!from || !(kc_load_relaxed(&co->block.flags) & KC_CORO_TASK))
        return -EPERM;
    if (!kc__sched_find(from->sched, &where))
        return -EINVAL;
    kc__wait_check(co, "kc_hop");
    kc_job_t *j = kc__job_of(co->task);
    if (kc__job_is_stopped(j))
        return kc__job_cancelled_here(co);
    const kc_job_t *own = kc__job_own(co);
    if (kc__job_flags(own) & KC_JOB_MIGRATE) /* where it wants to be it stays */
        kc_store_relaxed(&co->block.flags, kc__body_flags(own, where));
    kc_worker_t *to = kc__sched_place(from->sched, where);
    if (!to)
        to = from != from->sched->main
                 ? from
                 : from->sched->worker[from->hops++ % (uint32_t)from->sched->workers];
    if (to == from)
        return 0;
    set_worker(j, to);
    kc__worker_hop(t, co);
    return 0;
}

bool kc__wait_is_join(const kcoro_t *co)
{
    uint8_t kind = kc_load_relaxed(&co->task->kind);

    return kind == KC_WAIT_JOIN || kind == KC_WAIT_CHILDREN || kind == KC_WAIT_JOIN_ANY;
}

/*
 * Called on its own thread, where it is at rest: so nobody else looks at its wait (see WHAT). What
 * has woken it comes before the move, and the coroutine goes to the other thread as after a hop. If
 * it is the one that is just about to leave, and looks for the next one, it is not at rest yet.
 */
bool kc__wait_move(kcoro_t *co, kc_worker_t *to)
{
    kc_thread_t *t = kc__thread();
    kc_worker_t *from = t->worker;
    kc_wait_t *w = co->task->wait;

    if (!to && w) {
        to = w->waker;
        w->waker = NULL;
    }
    if (!to || to == from || to->sched != from->sched || to->index == KC_MAIN ||
        co == t->current || kc_load_relaxed(&co->state) == KC_CORO_CALLING) /* rule C10 */
        return false;
    if (w && kc__timer_is_pending(&w->timed.timer))
        kc__timers_remove(&from->timers, &w->timed.timer);
    set_worker(kc__job_of(co->task), to);
    kc__worker_send(to, &co->block);
    return true;
}
