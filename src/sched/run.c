/* SPDX-License-Identifier: MIT */
/*
 * run.c - how the main thread of a scheduler pumps: run, poll, the descriptor of a host's loop.
 *
 * WHAT     The main thread is a worker that is only there while somebody pumps. Meanwhile it sleeps
 *          as all do (idle.c). Else, if there is a descriptor (kc_sched_fd), that becomes readable
 *          when something comes for it, or the first timer is due.
 *
 * ORDER    id     site                 operation     pairs with  carries; what breaks if weaker
 *          run.1  pump: awake          load_acquire  idle.5      that the descriptor was written
 *                                                                to: it could be closed before
 *          run.2  pump: interval_runs  load_acquire  token.2     what the run wrote
 *          run.3  pump: done           load_acquire  wait.2      the result of what is waited for
 */
#include "sched/run.h"

#include "base/os.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/no_stack.h"
#include "sched/sched.h"
#include "sched/spread.h"
#include "sched/token.h"
#include "sched/worker.h"

#include <errno.h>

bool kc__pump_is_allowed(kc_sched_t *s)
{
    kc_thread_t *t = kc__thread();

    kc__sched_check_process(s);
    return t->worker == s->main && t->current == t->main_co && !s->pumping;
}

void kc__pump_begin(kc_sched_t *s)
{
    uint32_t looks = 0;

    KC_CHECK(kc__worker_is_legal(s->main));
    s->pumping = true;
    if (!s->virtual_time)
        s->main->look_turn = s->main->look_ticks = 0; /* what it has to look at may be another */
    kc_store_relaxed(&s->main->due, 0);
    if (!kc_load_relaxed(&s->outside))
        return;
    if (!kc__idle_leave(&s->idle, s->main->bits))
        while (kc_load_acquire(&s->main->awake) == 0) /* run.1 */
            kc__os_back_off(&looks);                  /* the wake-up is on its way */
    s->main->searching = kc_load_relaxed(&s->main->awake) == KC_AWAKE_AS_SEARCHER;
    kc_store_relaxed(&s->main->awake, 0);
    kc_store_relaxed(&s->outside, 0);
    kc__os_event_clear(s->event_fd);
}

static bool main_has_work(kc_sched_t *s)
{
    /* Of what any worker may do, what lies in its deque is work for others, unless it works too. */
    bool deque = s->main->works && kc__deque_size_hint(&s->main->deque) > 0;

    return s->main->ready.count + s->main->unstarted.count + s->again.count > 0 || deque ||
           s->main->own_stack.head || !kc__mpsc_is_empty(&s->main->inbox);
}

/* When main has something to do by itself; KC_FOREVER: never. */
static kc_time_t next_due(kc_sched_t *s)
{
    kc_time_t timed = kc__timed_next_due(s->timed), sleeper = kc__timers_next(&s->main->timers);

    return kc__worker_retry_before(s->main, timed < sleeper ? timed : sleeper, kc__sched_now(s));
}

void kc__pump_end(kc_sched_t *s)
{
    for (int i = 0; i < 16 && kc__worker_cool(s->main, KC_COOL_IDLE); i++)
        ; /* a host's loop does not wait for more than that */
    if (s->main->works && !kc__mpsc_is_empty(&s->main->offers) && kc__spread_take(s->main))
        kc__sched_wake_any(s); /* others have time for it */
    kc__worker_stop_searching(s->main);
    KC_CHECK(kc__worker_is_legal(s->main));
    s->pumping = false;
    kc_store_relaxed(&s->main->due, 0); /* what it does outside a pump nobody knows */
    if (s->main->works && s->workers > 0) {
        s->main->works = false; /* S1: only kc_sched_run takes a worker's tasks */
        kc_add_relaxed(&s->main->moved, KC_SPREAD_AWAY);
    }
    s->follow_clock = false;
    s->until_idle = false;
    s->stoppable = false;
    s->done = NULL;
    s->deadline = 0;
    kc_and_relaxed(&s->main->mode, ~(uint32_t)KC_MODE_ONCE);
    if (s->fd < 0)
        return;
    kc_time_t due = next_due(s);
    if (s->virtual_time)
        due = due <= kc_load_relaxed(&s->clock) ? 1 : KC_FOREVER;
    kc__os_timer_set(s->timer_fd, due);
    kc_store_relaxed(&s->outside, 1);
    kc__idle_enter(&s->idle, KC_OUTSIDE_BIT, false);
    if (main_has_work(s) && kc__idle_leave(&s->idle, s->main->bits)) {
        kc_store_relaxed(&s->main->awake, 1); /* as if somebody had woken it */
        kc__sched_signal_fd(s);
    }
}

void kc__sched_rearm(kc_sched_t *s)
{
    if (kc_load_relaxed(&s->outside)) {
        kc__pump_begin(s);
        kc__pump_end(s);
    }
}

void kc__sched_signal_fd(kc_sched_t *s)
{
    kc__os_event_signal(s->event_fd);
}

/* Main has nothing to do until then. */
static void pass_time(kc_sched_t *s, kc_time_t due)
{
    if (!s->virtual_time || due == KC_FOREVER) {
        kc__worker_sleep(s->main, due);
        return;
    }
    kc__sched_set_clock(s, due);
    kc__worker_retry(s->main);
}

/* Nothing is ready and no thread can change that: jumps the clock, or says that all wait for ever.
 * */
static int nothing_ready(kc_sched_t *s)
{
    kc_time_t due = kc__worker_next_due(s->main);

    if (kc__worker_take_without_stack(s->main))
        return 0;
    bool shutting = kc_load_relaxed(&s->shutting), ends = s->stoppable || shutting;
    if (shutting &&
        kc__timed_shut(s->timed)) /* it was on its way when the scheduler began to end */
        return 0;
    bool for_ever = due == KC_FOREVER && (s->virtual_time || s->random) && ends;
    uint64_t before, after;
    s->held = for_ever && kc__sched_hooks.awaits_external(s, &before);
    if (for_ever && !s->held && !kc__sched_hooks.awaits_thread(s)) {
        if (kc__worker_is_awaiting_stack(s->main)) {
            kc__worker_give_up(s->main);
            return 0;
        }
        /* What held it open is over now: but what it has brought may be here. If nobody has come
         * since, then all this was true at one moment. */
        if (main_has_work(s) || kc__sched_hooks.idle(s) ||
            kc__sched_hooks.awaits_external(s, &after) || before != after)
            return 0;
        if (s->stoppable) {
            kc__sched_hooks.report(s);
            return -EDEADLK;
        }
        if (kc__sched_hooks.end_shields(s))
            return 0;
    }
    pass_time(s, due);
    s->held = false;
    return 0;
}

/* Who has yielded in the last pump is ready again. */
static void once_more(kc_sched_t *s)
{
    for (kc_block_t *b; (b = kc__queue_pop(&s->again)) != NULL;)
        kc__queue_push(&s->main->ready, b);
}

int kc__pump_all(kc_sched_t *s)
{
    int rc = 0;

    s->until_idle = true;
    while (rc == 0) {
        once_more(s);
        bool ran = kc__worker_run_ready(s->main);
        if (s->stoppable && kc_load_relaxed(&s->stop)) {
            kc_store_relaxed(&s->stop, 0);
            break;
        }
        if (kc__sched_hooks.idle(s))
            break;
        if (!ran)
            rc = nothing_ready(s);
    }
    return rc;
}

int kc_sched_run(kc_sched_t *s)
{
    if (!s)
        return -EINVAL;
    kc__sched_check("kc_sched_run", s);
    if (!kc__pump_is_allowed(s))
        return -EPERM;
    kc__pump_begin(s);
    s->follow_clock = true;
    s->stoppable = true;
    if (s->workers > 0 && (s->flags & KC_SCHED_MAIN_WORKS)) {
        s->main->works = true;
        kc_add_relaxed(&s->main->moved, -KC_SPREAD_AWAY);
    }
    int rc = kc__pump_all(s);
    kc__pump_end(s);
    kc__tsan_acquire(&s->stop);
    return rc;
}

bool kc__sched_pump_until(kc_sched_t *s, kc_time_t at, const KC_ATOMIC(uint32_t) * done)
{
    if (!kc__pump_is_allowed(s))
        return false;
    kc__pump_begin(s);
    s->follow_clock = true;
    s->deadline = at == KC_FOREVER ? 0 : at;
    s->done = done;
    while (!(done && kc_load_acquire(done) == KC_DONE) && kc_now() < at) { /* run.3 */
        once_more(s);
        if (kc__worker_run_ready(s->main))
            continue;
        kc_time_t due = kc__worker_next_due(s->main);
        if (!kc__worker_take_without_stack(s->main))
            pass_time(s, due < at ? due : at);
    }
    kc__pump_end(s);
    return true;
}

/* From now, which may be any time, to due, which is 0 or later. */
static kc_time_t time_to(kc_time_t due, kc_time_t now)
{
    if (due == KC_FOREVER || (now < 0 && due > KC_FOREVER + now))
        return KC_FOREVER;
    return due > now ? due - now : 0;
}

static kc_time_t pump_once(const char *call, kc_sched_t *s, kc_time_t now, bool wait)
{
    if (!s)
        return -EINVAL;
    kc__sched_check(call, s);
    if (!kc__pump_is_allowed(s))
        return -EPERM;
    kc__pump_begin(s);
    if (s->virtual_time)
        kc__sched_set_clock(s, now);
    once_more(s);
    kc_or_relaxed(&s->main->mode, KC_MODE_ONCE);
    kc__worker_take_inbox(s->main);
    kc__timed_start_due(s->timed, now);
    do
        kc__worker_run_ready(s->main);
    while (kc__worker_take_without_stack(s->main));
    while (wait && kc_load_acquire(&s->interval_runs) > 0) { /* run.2 */
        once_more(s);
        if (kc__worker_run_ready(s->main))
            continue;
        if (!kc__worker_take_without_stack(s->main))
            pass_time(s, kc__timers_next(&s->main->timers));
    }
    kc__tsan_acquire(&s->interval_runs);
    kc_time_t timed = kc__timed_next_due(s->timed), clock = kc_now();
    kc_time_t sleeper = kc__worker_retry_before(s->main, kc__timers_next(&s->main->timers), clock);
    bool work = main_has_work(s);
    kc__pump_end(s);
    if (work)
        return 0;
    timed = time_to(timed, now);
    sleeper = time_to(sleeper, clock);
    return timed < sleeper ? timed : sleeper;
}

kc_time_t kc_sched_run_expired(kc_sched_t *s, kc_time_t now)
{
    return pump_once("kc_sched_run_expired", s, now, true);
}

kc_time_t kc_sched_poll(kc_sched_t *s, kc_time_t now)
{
    return pump_once("kc_sched_poll", s, now, false);
}

int kc_sched_fd(kc_sched_t *s)
{
    if (!s)
        return -EINVAL;
    kc__sched_check("kc_sched_fd", s);
    kc__sched_check_process(s);
    if (kc__worker() != s->main)
        return -EPERM;
    if (s->fd >= 0)
        return s->fd;
    int rc = kc__os_loop_open(&s->event_fd, &s->timer_fd);
    if (rc < 0)
        return rc;
    s->fd = rc;
    kc_thread_t *t = kc__thread();
    if (t->current == t->main_co && !s->pumping)
        kc__pump_end(s);
    return s->fd;
}

void kc_sched_stop(kc_sched_t *s)
{
    if (!s)
        kc__usage("kc_sched_stop", "the scheduler is NULL " KC_RULE("S8"));
    kc__sched_check("kc_sched_stop", s);
    kc__sched_check_process(s);
    kc__tsan_release(&s->stop);
    kc_store_relaxed(&s->stop, 1);
    kc__worker_wake(s->main);
}
