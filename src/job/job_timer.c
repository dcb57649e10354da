/* SPDX-License-Identifier: MIT */
/*
 * job_timer.c - the end of a job's time: timeouts and grace.
 *
 * WHAT     A clock belongs to a job, its alarm to the thread of the job's body, whoever arms it, so
 *          that it rings in time however long others compute (S15). If that is another thread it is
 *          told through its inbox. A body that hops takes its clocks along; one that starts on
 *          another thread than was thought gets new ones. When the job ends, on whatever thread,
 *          the alarm is taken away by a message, too.
 *
 * SHAPE    NEW --arm--> SENT --the thread has it--> ARMED --rings--> RINGING --> OVER
 *            \           | ^---------hop--------------/ \--drop--> OVER; a message takes it off
 *             \--drop--> OVER: the message that is on its way finds it so
 *
 *          ARMING: for some instructions, while one of these steps is made.
 *
 *          two references: the job's, given up by drop, and the thread's, from arm until the alarm
 *          is gone. A clock has no reference on its job: drop, which the job's end calls, waits for
 *          a ring that is about to take one (a few instructions).
 *
 * ORDER    id       site         operation      pairs with  carries; what breaks if weaker
 *          job_timer.1  state        cas_acq_rel    job_timer.1     exactly one of ring and drop has it;
 *                                                           worker
 *          job_timer.2  drop: state  load_acquire   job_timer.3     (the word alone)
 *          job_timer.3  ring: state  store_release  job_timer.2     the reference on the job, taken before
 *          job_timer.4  unref        sub_acq_rel    job_timer.4     all uses before the free
 *          job_timer.5  arm: word    load_acquire   word.1      the thread of a body that has started
 *          job_timer.6  arm: worker  load_acquire   wait.4      (the word alone)
 */
#include "job/job_timer.h"

#include "base/os.h"
#include "job/cancel.h"
#include "job/job.h"
#include "sched/inbox.h"
#include "sched/worker.h"

enum { NEW, ARMING, SENT, ARMED, RINGING, OVER };

struct kc_clock {
    kc_block_t block;          /*    link: a message to the thread                */
    KC_ATOMIC(uint32_t) refs;  /* A                                              */
    KC_ATOMIC(uint32_t) state; /* A                                              */
    kc_alarm_t alarm;          /* O  the thread's                                */
    kc_time_t at;              /* I  once armed                                  */
    KC_ATOMIC(kc_worker_t *)
    worker;                    /* A  once armed: the thread, which alone changes it */
    kc_job_t *job;             /* I                                              */
    void (*ring)(kc_job_t *j); /* I                                              */
};

void kc__clock_ref(kc_clock_t *clock)
{
    kc_add_relaxed(&clock->refs, 1);
}

void kc__clock_unref(kc_clock_t *clock)
{
    if (kc_sub_acq_rel(&clock->refs, 1) == 1) /* job_timer.4 */
        kc__free(clock);
}

static kc_worker_t *thread(const kc_clock_t *clock)
{
    return kc_load_relaxed(&clock->worker);
}

static bool moves(kc_clock_t *clock, uint32_t from, uint32_t to)
{
    return kc_cas_acq_rel(&clock->state, &from, to); /* job_timer.1 */
}

static void clock_rings(kc_alarm_t *alarm)
{
    kc_clock_t *clock = kc_container_of(alarm, kc_clock_t, alarm);
    kc_job_t *j = clock->job;

    if (moves(clock, ARMED, RINGING)) {
        kc__job_ref(j);
        kc_store_release(&clock->state, OVER); /* job_timer.3 */
        clock->ring(j);
        kc__job_unref(j);
        kc__clock_unref(clock);
    } /* else it was dropped, and the message that says so gives the reference up */
}

kc_clock_t *kc__clock_new(kc_job_t *j, void (*ring)(kc_job_t *j))
{
    kc_clock_t *clock = kc__alloc(sizeof *clock);

    if (!clock)
        return NULL;
    kc_store_relaxed(&clock->block.magic, KC_CLOCK_MAGIC);
    kc_store_relaxed(&clock->refs, 1);
    clock->alarm.ring = clock_rings;
    clock->job = j;
    clock->ring = ring;
    return clock;
}

/* On w's thread. */
static void set_alarm(kc_clock_t *clock, kc_worker_t *w)
{
    kc__timers_add(&w->alarms, &clock->alarm.timer, clock->at);
    kc__worker_hear_of(w, clock->at);
}

/* It rings on w's thread; here: that is this one. */
static void arm(kc_clock_t *clock, kc_time_t at, kc_worker_t *w, bool here)
{
    clock->at = at;
    kc_store_relaxed(&clock->worker, w);
    kc__clock_ref(clock);
    kc_store_release(&clock->state, here ? ARMED : SENT); /* job_timer.3 */
    if (!here) {
        kc__worker_send(w, &clock->block);
        return;
    }
    set_alarm(clock, w);
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
    return me && me->sched == s && (me != s->main || t->current != t->root) ? me : s->worker[0];
}

void kc__clock_arm(kc_clock_t *clock, kc_time_t at)
{
    kc_worker_t *to = at == KC_FOREVER ? NULL : thread_of(clock->job);
    bool here = to == kc__worker();

    if (!to)
        return;
    /* A message that is on its way: its thread, and so its scheduler, must be there to read it. */
    if (!here && !kc__job_hold(clock->job))
        return;
    if (moves(clock, NEW, ARMING)) /* else it was dropped meanwhile, or armed already */
        arm(clock, at, to, here);
    if (!here)
        kc__job_release_there(clock->job);
}

/* It is ARMING, so its job cannot end, and this thread has it: if the body has gone elsewhere, it
 * goes after it. The message is sent before that is over: else the job could end, and with it the
 * scheduler, whose threads would not read it any more. */
static void send_on(kc_clock_t *clock)
{
    kc_worker_t *to = thread_of(clock->job);
    bool here = to == thread(clock);

    kc_store_relaxed(&clock->worker, to);
    if (here)
        set_alarm(clock, to);
    else
        kc__worker_send(to, &clock->block);
    kc_store_release(&clock->state, here ? ARMED : SENT); /* job_timer.3 */
}

void kc__clock_hop(kc_clock_t *clock)
{
    if (thread(clock) != kc__worker() || !moves(clock, ARMED, ARMING))
        return; /* it rings elsewhere, or is on its way, and will be sent on */
    kc__timers_remove(&thread(clock)->alarms, &clock->alarm.timer);
    send_on(clock);
}

kc_clock_t *kc__clock_copy_here(kc_clock_t *clock)
{
    uint32_t state = kc_load_acquire(&clock->state); /* job_timer.2 */
    kc_worker_t *me = kc__worker();

    if ((state != ARMED && state != SENT) || thread(clock) == me)
        return NULL;
    kc_clock_t *copy = kc__clock_new(clock->job, clock->ring);
    if (copy)
        arm(copy, clock->at, me, true);
    return copy;
}

void kc__clock_message(kc_block_t *block)
{
    kc_clock_t *clock = kc_container_of(block, kc_clock_t, block);
    uint32_t looks = 0;

    while (kc_load_acquire(&clock->state) == ARMING) /* job_timer.2 */
        kc__os_back_off(&looks);                     /* who has sent it on is about to say so */
    if (moves(clock, SENT, ARMING)) {
        send_on(clock);
        return;
    }
    if (kc__timer_pending(&clock->alarm.timer)) /* dropped when it was armed */
        kc__timers_remove(&thread(clock)->alarms, &clock->alarm.timer);
    kc__clock_unref(clock);
}

/* It was armed, and does not ring any more. */
static void take_off(kc_clock_t *clock)
{
    if (thread(clock) != kc__worker()) {
        kc__worker_send(thread(clock), &clock->block);
        return;
    }
    kc__timers_remove(&thread(clock)->alarms, &clock->alarm.timer);
    kc__clock_unref(clock);
}

void kc__clock_drop(kc_clock_t *clock)
{
    uint32_t seen = kc_load_acquire(&clock->state), looks = 0; /* job_timer.2 */

    while (seen != OVER) {
        bool busy = seen == ARMING || seen == RINGING; /* that is over in a moment */
        uint32_t was = seen;
        if (busy) {
            kc__os_back_off(&looks);
            seen = kc_load_acquire(&clock->state);               /* job_timer.2 */
        } else if (kc_cas_acq_rel(&clock->state, &seen, OVER)) { /* job_timer.1 */
            if (was == ARMED)
                take_off(clock);
            break;
        }
    }
    kc__clock_unref(clock);
}
