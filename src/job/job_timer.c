/* SPDX-License-Identifier: MIT */
/*
 * job_timer.c - the end of a job's time: timeouts and grace.
 *
 * WHAT     A job timer belongs to a job, the timer in it to the thread of the job's body, whichever
 *          thread arms it, so that it rings in time however long other threads compute (S15). If
 *          another thread arms it, the thread of the body is told through its inbox. A body that
 *          hops takes its timers along; a body that starts on another thread than was expected gets
 *          new ones. If the job ends on another thread, a message takes the timer away, too.
 *
 * SHAPE    NEW --arm--> SENT --the thread has it--> ARMED --rings--> RINGING --> OVER
 *            \           | ^---------hop--------------/ \--drop--> OVER; a message takes it off
 *             \--drop--> OVER: the message that is on its way finds it so
 *
 *          ARMING: for some instructions, while one of these steps is made.
 *
 *          two references: the job's, given up by drop, and the thread's, from arm until the timer
 *          is gone. A timer has no reference on its job: drop, which the job's end calls, waits for
 *          a ring that is about to take one (a few instructions).
 *
 * ORDER    id           site         operation      pairs with   carries; what breaks if weaker
 *          job_timer.1  state        cas_acq_rel    job_timer.1  exactly one of ring and drop has
 *                                                                it; worker
 *          job_timer.2  drop: state  load_acquire   job_timer.3  (the word alone)
 *          job_timer.3  ring: state  store_release  job_timer.2  the reference on the job, taken
 *                                                                before
 *          job_timer.4  unref        sub_acq_rel    job_timer.4  all uses before the free
 *          job_timer.5  arm: word    load_acquire   word.1       the thread of a body that has
 *                                                                started
 *          job_timer.6  arm: worker  load_acquire   wait.4       (the word alone)
 */
#include "job/job_timer.h"

#include "base/os.h"
#include "job/cancel.h"
#include "job/end.h"
#include "job/job.h"
#include "sched/inbox.h"
#include "sched/run.h"
#include "sched/worker.h"

enum { NEW, ARMING, SENT, ARMED, RINGING, OVER };

struct kc_job_timer {
    kc_block_t block;          /*    link: a message to the thread                */
    KC_ATOMIC(uint32_t) refs;  /* A                                              */
    KC_ATOMIC(uint32_t) state; /* A                                              */
    kc_timed_call_t timed;     /* O  the thread's                                */
    kc_time_t at;              /* I  once armed                                  */
    KC_ATOMIC(kc_worker_t *)
    worker;                    /* A  once armed: the thread, which alone changes it */
    kc_job_t *job;             /* I                                              */
    void (*ring)(kc_job_t *j); /* I                                              */
};

void kc__job_timer_ref(kc_job_timer_t *timer)
{
    kc_add_relaxed(&timer->refs, 1);
}

void kc__job_timer_unref(kc_job_timer_t *timer)
{
    if (kc_sub_acq_rel(&timer->refs, 1) == 1) /* job_timer.4 */
        kc__free(timer);
}

static kc_worker_t *thread(const kc_job_timer_t *timer)
{
    return kc_load_relaxed(&timer->worker);
}

static bool try_move(kc_job_timer_t *timer, uint32_t from, uint32_t to)
{
    return kc_cas_acq_rel(&timer->state, &from, to); /* job_timer.1 */
}

static void fire(kc_timed_call_t *timed)
{
    kc_job_timer_t *timer = kc_container_of(timed, kc_job_timer_t, timed);
    kc_job_t *j = timer->job;

    if (try_move(timer, ARMED, RINGING)) {
        kc__job_ref(j);
        kc_store_release(&timer->state, OVER); /* job_timer.3 */
        timer->ring(j);
        kc__job_unref(j);
        kc__job_timer_unref(timer);
    } /* else it was dropped, and the message that says so gives the reference up */
}

kc_job_timer_t *kc__job_timer_new(kc_job_t *j, void (*ring)(kc_job_t *j))
{
    kc_job_timer_t *timer = kc__alloc(sizeof *timer);

    if (!timer)
        return NULL;
    kc_store_relaxed(&timer->block.magic, KC_JOB_TIMER_MAGIC);
    kc_store_relaxed(&timer->refs, 1);
    timer->timed.ring = fire;
    timer->job = j;
    timer->ring = ring;
    return timer;
}

/* On w's thread. */
static void set_timed_call(kc_job_timer_t *timer, kc_worker_t *w)
{
    kc__timers_add(&w->timers, &timer->timed.timer, timer->at);
    kc__worker_hear_of(w, timer->at);
}

/* It rings on w's thread; here: that is this one. */
static void arm(kc_job_timer_t *timer, kc_time_t at, kc_worker_t *w, bool here)
{
    timer->at = at;
    kc_store_relaxed(&timer->worker, w);
    kc__job_timer_ref(timer);
    kc_store_release(&timer->state, here ? ARMED : SENT); /* job_timer.3 */
    if (!here) {
        kc__worker_send(w, &timer->block);
        return;
    }
    set_timed_call(timer, w);
    if (w == w->sched->main)
        kc__sched_rearm(w->sched);
}

/* The thread of the job's body; not started: where it will, or one that may start it. */
static kc_worker_t *thread_of(kc_job_t *j)
{
    kc_sched_t *s = kc__job_sched(j);
    kc_thread_t *t = kc__thread();
    kc_worker_t *me = t->worker, *place = kc__sched_place(s, j->task.where);

    if ((kc_load_acquire(&j->task.word) & KC_WORD_BODY) || /* job_timer.5 */
        (kc__job_flags(j) & KC_TASK_BODILESS))
        return kc_load_acquire(&j->task.worker); /* job_timer.6 */
    if (place)
        return place;
    /* The main thread's timers ring while it pumps: outside coroutines it may not. */
    return me && me->sched == s && (me != s->main || t->current != t->main_co) ? me : s->worker[0];
}

void kc__job_timer_arm(kc_job_timer_t *timer, kc_time_t at)
{
    kc_worker_t *to = at == KC_FOREVER ? NULL : thread_of(timer->job);
    bool here = to == kc__worker();

    if (!to)
        return;
    /* A message that is on its way: its thread, and so its scheduler, must be there to read it. */
    if (!here && !kc__job_count_up(timer->job))
        return;
    if (try_move(timer, NEW, ARMING)) /* else it was dropped meanwhile, or armed already */
        arm(timer, at, to, here);
    if (!here)
        kc__job_count_down_there(timer->job);
}

/* It is ARMING, so its job cannot end, and this thread has it: if the body has gone elsewhere, it
 * goes after it. The message is sent before that is over: else the job could end, and with it the
 * scheduler, whose threads would not read it any more. */
static void send_on(kc_job_timer_t *timer)
{
    kc_worker_t *to = thread_of(timer->job);
    bool here = to == thread(timer);

    kc_store_relaxed(&timer->worker, to);
    if (here)
        set_timed_call(timer, to);
    else
        kc__worker_send(to, &timer->block);
    kc_store_release(&timer->state, here ? ARMED : SENT); /* job_timer.3 */
}

void kc__job_timer_hop(kc_job_timer_t *timer)
{
    if (thread(timer) != kc__worker() || !try_move(timer, ARMED, ARMING))
        return; /* it rings elsewhere, or is on its way, and will be sent on */
    kc__timers_remove(&thread(timer)->timers, &timer->timed.timer);
    send_on(timer);
}

kc_job_timer_t *kc__job_timer_copy_here(kc_job_timer_t *timer)
{
    uint32_t state = kc_load_acquire(&timer->state); /* job_timer.2 */
    kc_worker_t *me = kc__worker();

    if ((state != ARMED && state != SENT) || thread(timer) == me)
        return NULL;
    kc_job_timer_t *copy = kc__job_timer_new(timer->job, timer->ring);
    if (copy)
        arm(copy, timer->at, me, true);
    return copy;
}

void kc__job_timer_message(kc_block_t *block)
{
    kc_job_timer_t *timer = kc_container_of(block, kc_job_timer_t, block);
    uint32_t looks = 0;

    while (kc_load_acquire(&timer->state) == ARMING) /* job_timer.2 */
        kc__os_back_off(&looks);                     /* who has sent it on is about to say so */
    if (try_move(timer, SENT, ARMING)) {
        send_on(timer);
        return;
    }
    if (kc__timer_is_pending(&timer->timed.timer)) /* dropped when it was armed */
        kc__timers_remove(&thread(timer)->timers, &timer->timed.timer);
    kc__job_timer_unref(timer);
}

/* It was armed, and does not ring any more. */
static void take_off(kc_job_timer_t *timer)
{
    if (thread(timer) != kc__worker()) {
        kc__worker_send(thread(timer), &timer->block);
        return;
    }
    kc__timers_remove(&thread(timer)->timers, &timer->timed.timer);
    kc__job_timer_unref(timer);
}

void kc__job_timer_drop(kc_job_timer_t *timer)
{
    uint32_t seen = kc_load_acquire(&timer->state), looks = 0; /* job_timer.2 */

    while (seen != OVER) {
        bool busy = seen == ARMING || seen == RINGING; /* that is over in a moment */
        uint32_t was = seen;
        if (busy) {
            kc__os_back_off(&looks);
            seen = kc_load_acquire(&timer->state);               /* job_timer.2 */
        } else if (kc_cas_acq_rel(&timer->state, &seen, OVER)) { /* job_timer.1 */
            if (was == ARMED)
                take_off(timer);
            break;
        }
    }
    kc__job_timer_unref(timer);
}
