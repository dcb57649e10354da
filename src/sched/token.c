/* SPDX-License-Identifier: MIT */
/*
 * token.c - delayed and interval tasks, and the tokens that stand for them.
 *
 * WHAT     A token has its state, its timer, and the task of its next run, made before: so nothing
 *          can fail when a delayed one is due. The timers belong to the main
 *          thread. Tokens that other threads make come through main's inbox; tokens that are
 *          cancelled through the list of timed tasks, which outlives the scheduler, so that a
 *          cancel may come at any time.
 *
 * SHAPE    state, one word:   CANCELLED  no run starts any more
 *                             RUNNING    a run has started and has not ended
 *                             QUEUED     a run is queued or RUNNING: at most one
 *                             OVER       no run can come: it has started (delayed), or the
 *                                        scheduler is gone
 *                             RELEASED   the user has given the handle up
 *          delayed    0 --due--> QUEUED --body starts--> QUEUED|OVER --ends--> OVER
 *          interval   0 --due--> QUEUED --body starts--> QUEUED|RUNNING --ends--> 0
 *          cancel     sets CANCELLED if neither it nor OVER is set; the body's start fails if it is
 *          shut       sets OVER if neither is set
 *
 *          dispose: by whoever has set CANCELLED or OVER, other than for a start, and saw no
 *          RUNNING; if it was set, by the end of that run. So it is called once, and never while a
 *          run is in flight.
 *
 *          references: the user's; the run's; the inbox's, until main has it; the timer's, which
 *          is given up exactly once: when a delayed run starts, when the message of a cancel is
 *          read, or when the scheduler ends. So a message never names a token that is gone.
 *
 * ORDER    id       site            operation     pairs with  carries; what breaks if weaker
 *          token.1  state changes   cas_acq_rel   token.1     start against cancel: exactly one;
 *                                                             what the runs did with arg, to who
 *                                                             disposes
 *          token.2  run_ended:      sub_acq_rel   run.2       what the run wrote
 *                   interval_runs
 *          token.3  unref           sub_acq_rel   token.3     all uses before the free
 *          token.4  looks at state  load_acquire  token.1     that a cancel counts in `cancelling`;
 *                                                             close would leave its message unread
 *          token.5  cancel, close:  sub_acq_rel,  itself      the message; close would leave it
 *                   cancelling      load_acquire              unread. And what dispose has done
 */
#include "sched/token.h"

#include "base/os.h"
#include "coro/object.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/run.h"
#include "sched/sched.h"
#include "sched/worker.h"

#include <kcoro/timer.h>

#include <errno.h>
#include <string.h>

enum { CANCELLED = 1, RUNNING = 2, QUEUED = 4, OVER = 8, RELEASED = 16 };

struct kc_timed_tasks {
    KC_ATOMIC(uint32_t) refs; /* A  the scheduler's, and one for each token */
    kc_mpsc_t cancelled;      /* A  messages: tokens that were cancelled     */
    KC_ATOMIC(uint32_t)
    cancelling;         /* A  calls of cancel that have not sent theirs yet, or are
                                          inside a dispose                             */
    kc_sched_t *sched;  /* M                                          */
    kc_timers_t timers; /* M                                          */
};

/* What few tokens have. */
struct more {
    void (*dispose)(void *arg); /* I  NULL: arg is not the task's */
    char name[32];              /* I                              */
};

struct kc_token {
    kc_block_t block;          /*    link: in main's inbox                          */
    KC_ATOMIC(uint32_t) state; /* A                                                 */
    KC_ATOMIC(uint32_t) refs;  /* A                                                 */
    kc_timed_tasks_t *timed;   /* I                                                 */
    kc_fn_t fn;                /* I                                                 */
    kc_time_t interval;        /* I  0: delayed                                     */
    kc_timer_t timer;          /* M                                                 */
    kc_mpsc_node_t
        cancel_link;     /* >  in list of timed tasks->cancelled                              */
    void *arg;           /* I                                                 */
    struct more *more;   /* I  NULL: neither of it                            */
    kc_affinity_t where; /* I                                                 */
    kc_task_t *task;     /* M  the next run; NULL: there was no memory for it */
};

_Static_assert(sizeof(struct kc_token) <= KC_BLOCK_SIZE, "a token is a control block");

static void timed_unref(kc_timed_tasks_t *timed)
{
    if (kc_sub_acq_rel(&timed->refs, 1) == 1) /* token.3 */
        kc__free(timed);
}

static void free_token(kc_token_t *t)
{
    kc__free(t->more);
    kc__object_put(&t->block);
}

static void unref(kc_token_t *t)
{
    kc_timed_tasks_t *timed = t->timed;

    if (kc_sub_acq_rel(&t->refs, 1) != 1) /* token.3 */
        return;
    if (t->task)
        kc__task_hooks.drop(t->task);
    free_token(t);
    timed_unref(timed);
}

/* Sets bits if none of `unless` is set. Returns true if it did. */
static bool set_unless(kc_token_t *t, uint32_t bits, uint32_t unless, uint32_t *before)
{
    uint32_t seen = kc_load_acquire(&t->state); /* token.4 */
    do
        if (seen & unless)
            return false;
    while (!kc_cas_acq_rel(&t->state, &seen, seen | bits)); /* token.1 */
    *before = seen;
    return true;
}

/* Returns what was set before. */
static uint32_t clear(kc_token_t *t, uint32_t bits)
{
    uint32_t seen = kc_load_relaxed(&t->state);

    while (!kc_cas_acq_rel(&t->state, &seen, seen & ~bits)) /* token.1 */
        ;
    return seen;
}

/* ---- the argument --------------------------------------------------------------------------- */

static bool has_dispose(const kc_token_t *t)
{
    return t->more && t->more->dispose;
}

static void dispose(void *token)
{
    kc_token_t *t = token;

    kc__task_hooks.dispose(t->more->dispose, t->arg);
}

/* No run comes any more by a step before which the state was `before`: if none was in flight either
 * nobody uses the argument now, and else the end of that run sees to it. */
static void give_up_arg(kc_token_t *t, uint32_t before)
{
    if (has_dispose(t) && !(before & RUNNING))
        dispose(t);
}

/* No run starts any more, as the scheduler ends. False: that was so before. */
static bool end(kc_token_t *t)
{
    uint32_t before;

    if (!set_unless(t, OVER, CANCELLED | OVER, &before))
        return false;
    give_up_arg(t, before);
    return true;
}

/* ---- runs ----------------------------------------------------------------------------------- */

static int run_body(void *arg)
{
    kc_token_t *t = arg;
    uint32_t before;

    if (!set_unless(t, t->interval ? RUNNING : OVER, CANCELLED | OVER, &before))
        return 0;
    if (!t->interval)
        unref(t); /* the timer's: from now on nobody can cancel it */
    return t->fn(t->arg);
}

static void run_ended(void *arg)
{
    kc_token_t *t = arg;
    kc_sched_t *s = t->timed->sched;
    bool interval = t->interval != 0;

    if (!interval && end(t))
        unref(t); /* the timer's: the scheduler ended before the run could start */
    uint32_t before = clear(t, QUEUED | RUNNING);
    if (has_dispose(t) && (before & RUNNING) && (before & (CANCELLED | OVER)))
        kc__worker_call(dispose, t); /* it was the last one */
    unref(t);                        /* the run's */
    kc__tsan_release(&s->interval_runs);
    if (interval && kc_sub_acq_rel(&s->interval_runs, 1) == 1) /* token.2 */
        kc__worker_wake(s->main);
}

static kc_task_t *make_run(kc_token_t *t)
{
    struct kc_task_more more = {
        .name = t->more && t->more->name[0] ? t->more->name : NULL,
        .ended = run_ended,
        .tells = t->interval && has_dispose(t),
    };

    /* cppcheck-suppress returnDanglingLifetime ; what it points to is copied */
    return kc__task_hooks.make(t->timed->sched, t->where, run_body, t, &more);
}

static void start_run(kc_token_t *t)
{
    uint32_t before;

    if (!t->task && !(t->task = make_run(t)))
        return; /* no memory: this tick is left out */
    if (!set_unless(t, QUEUED, QUEUED | CANCELLED | OVER, &before))
        return; /* the tick is skipped */
    kc_task_t *task = t->task;
    kc_add_relaxed(&t->refs, 1);
    if (t->interval)
        kc_add_relaxed(&t->timed->sched->interval_runs, 1);
    t->task = t->interval ? make_run(t) : NULL;
    kc__task_hooks.go(task);
}

/* ---- the main thread's part ----------------------------------------------------------------- */

/* The next time on the grid that lies after now. */
static kc_time_t next_tick(const kc_token_t *t, kc_time_t now)
{
    kc_time_t due = t->timer.due, missed = now > due ? (now - due) / t->interval : 0;
    kc_time_t ahead = (missed + 1) > (KC_FOREVER - due) / t->interval ? KC_FOREVER - due
                                                                      : (missed + 1) * t->interval;

    return due + ahead;
}

static void take_cancelled(kc_timed_tasks_t *timed)
{
    for (kc_mpsc_node_t *node = kc__mpsc_take_all(&timed->cancelled); node;) {
        kc_token_t *t = kc_container_of(node, kc_token_t, cancel_link);
        node = node->next;
        if (kc__timer_is_pending(&t->timer))
            kc__timers_remove(&timed->timers, &t->timer);
        unref(t); /* the timer's */
    }
}

bool kc__timed_start_due(kc_timed_tasks_t *timed, kc_time_t now)
{
    kc_timer_t *timer;
    bool any = false;

    take_cancelled(timed);
    now -= now == KC_FOREVER; /* a grid that has saturated there is never due */
    while ((timer = kc__timers_pop(&timed->timers, now)) != NULL) {
        kc_token_t *t = kc_container_of(timer, kc_token_t, timer);
        any = true;
        if (kc_load_acquire(&t->state) & CANCELLED) /* token.4 */
            continue; /* its message is on its way, and gives up the timer's reference */
        if (t->interval)
            kc__timers_add_again(&timed->timers, &t->timer, next_tick(t, now));
        start_run(t);
    }
    return any;
}

kc_time_t kc__timed_next_due(kc_timed_tasks_t *timed)
{
    take_cancelled(timed);
    return kc__timers_next(&timed->timers);
}

bool kc__timed_has_any(const kc_timed_tasks_t *timed)
{
    return kc__timers_count(&timed->timers) > 0;
}

void kc__timed_take(kc_timed_tasks_t *timed, kc_block_t *block)
{
    kc_token_t *t = kc_container_of(block, kc_token_t, block);

    /* If it was cancelled on its way, the message may have been read already: no timer then. */
    if (!(kc_load_acquire(&t->state) & CANCELLED)) /* token.4 */
        kc__timers_add(&timed->timers, &t->timer, t->timer.due);
    kc__worker_hear_of(timed->sched->main, t->timer.due);
    unref(t); /* the inbox's */
}

kc_timed_tasks_t *kc__timed_new(kc_sched_t *s)
{
    kc_timed_tasks_t *timed = kc__alloc(sizeof *timed);

    if (!timed)
        return NULL;
    kc_store_relaxed(&timed->refs, 1);
    kc__mpsc_init(&timed->cancelled);
    timed->sched = s;
    kc__timers_init(&timed->timers, 0);
    return timed;
}

bool kc__timed_shut(kc_timed_tasks_t *timed)
{
    kc_timer_t *timer;
    bool any = false;

    while ((timer = kc__timers_pop(&timed->timers, KC_FOREVER)) != NULL) {
        kc_token_t *t = kc_container_of(timer, kc_token_t, timer);
        any = true;
        if (end(t))
            unref(t); /* the timer's; of a cancelled one, its message gives that up */
    }
    return any;
}

void kc__timed_close(kc_timed_tasks_t *timed)
{
    uint32_t looks = 0;

    kc__timed_shut(timed);
    /* No further cancel can succeed; those that have must have sent their messages. */
    while (kc_load_acquire(&timed->cancelling) > 0) /* token.5 */
        kc__os_back_off(&looks);
    take_cancelled(timed);
    timed_unref(timed);
}

/* ---- public --------------------------------------------------------------------------------- */

/* If any worker is always the same thread, due ones start in order there (T6): not by its deque. */
static kc_affinity_t in_order(const kc_sched_t *s, kc_affinity_t where)
{
    if (where != KC_WORKER || s->workers > 1)
        return where;
    return s->workers == 0 ? KC_MAIN : KC_WORKER_AT(0);
}

/* What is to be run, and when. */
struct plan {
    kc_fn_t fn;
    void *arg;
    kc_time_t due, interval;
    kc_affinity_t where;
};

/* NULL: no memory. */
static kc_token_t *token_new(kc_sched_t *s, const struct plan *plan, const kc_task_opts_t *opts)
{
    struct more *more = NULL;

    if (opts && (opts->dispose || opts->name)) {
        more = kc__alloc(sizeof *more);
        if (!more)
            return NULL;
        *more = (struct more){ .dispose = opts->dispose };
        if (opts->name)
            memcpy(more->name, opts->name, strnlen(opts->name, sizeof more->name - 1));
    }
    kc_block_t *block = kc__object_get(KC_TOKEN_MAGIC);
    if (!block) {
        kc__free(more);
        return NULL;
    }
    kc_token_t *t = kc_container_of(block, kc_token_t, block);
    t->timed = s->timed;
    t->fn = plan->fn;
    t->arg = plan->arg;
    t->interval = plan->interval;
    t->timer.due = plan->due;
    t->where = in_order(s, plan->where);
    t->more = more;
    if (!(t->task = make_run(t))) {
        free_token(t);
        return NULL;
    }
    return t;
}

static int schedule(kc_sched_t *s, struct plan plan, const kc_task_opts_t *opts, kc_token_t **out)
{
    if (!plan.fn || !kc__sched_find(s, &plan.where))
        return -EINVAL;
    if (kc_load_relaxed(&s->shutting))
        return -ESHUTDOWN;
    kc_token_t *t = token_new(s, &plan, opts);
    if (!t)
        return -ENOMEM;
    kc_store_relaxed(&t->refs, out ? 2 : 1);
    kc_add_relaxed(&s->timed->refs, 1);
    if (out)
        *out = t;
    if (kc__worker() == s->main) {
        kc__worker_take_inbox(s->main); /* what others have made before comes before */
        kc__timers_add(&s->timed->timers, &t->timer, plan.due);
        kc__worker_hear_of(s->main, plan.due);
        kc__sched_rearm(s);
    } else {
        kc_add_relaxed(&t->refs, 1); /* the inbox's */
        if (kc__mpsc_push(&s->main->inbox, &t->block.link))
            kc__worker_wake(s->main);
    }
    return 0;
}

int kc_schedule_delayed_with(kc_sched_t *s, kc_time_t delay, kc_affinity_t where, kc_fn_t fn,
                             void *arg, const kc_task_opts_t *opts, kc_token_t **out)
{
    if (delay < 0 || !s)
        return -EINVAL;
    kc__sched_check("kc_schedule_delayed", s);
    kc__sched_check_process(s);
    kc_time_t now = kc__sched_now(s), due = delay > KC_FOREVER - now ? KC_FOREVER : now + delay;
    return schedule(s, (struct plan){ fn, arg, due, 0, where }, opts, out);
}

int kc_schedule_delayed(kc_sched_t *s, kc_time_t delay, kc_affinity_t where, kc_fn_t fn, void *arg,
                        kc_token_t **out)
{
    return kc_schedule_delayed_with(s, delay, where, fn, arg, NULL, out);
}

int kc_schedule_interval_with(kc_sched_t *s, kc_time_t interval, kc_affinity_t where, kc_fn_t fn,
                              void *arg, const kc_task_opts_t *opts, kc_token_t **out)
{
    if (interval <= 0 || !s)
        return -EINVAL;
    kc__sched_check("kc_schedule_interval", s);
    kc__sched_check_process(s);
    return schedule(s, (struct plan){ fn, arg, kc__sched_now(s), interval, where }, opts, out);
}

int kc_schedule_interval(kc_sched_t *s, kc_time_t interval, kc_affinity_t where, kc_fn_t fn,
                         void *arg, kc_token_t **out)
{
    return kc_schedule_interval_with(s, interval, where, fn, arg, NULL, out);
}

/* A handle that the user gives: aborts if it is none, or has been given up. */
static void check(const char *call, const kc_token_t *t)
{
    if (!kc__object_is(t, KC_TOKEN_MAGIC))
        kc__object_not_live(call, "token", "J32", t);
    if (kc_load_relaxed(&t->state) & RELEASED)
        kc__usage(call, "the token has been released " KC_RULE("J32"));
}

/* The user gives the handle up; of two who do so at a time one aborts. */
static void give_up(const char *call, kc_token_t *t)
{
    check(call, t);
    uint32_t before;
    if (!set_unless(t, RELEASED, RELEASED, &before))
        kc__usage(call, "the token has been released " KC_RULE("J32"));
}

static bool cancel(kc_token_t *t)
{
    kc_timed_tasks_t *timed = t->timed;

    kc__tsan_release(t);
    kc_add_relaxed(&timed->cancelling, 1); /* before the state is changed: token.1 carries it */
    uint32_t before;
    bool first = set_unless(t, CANCELLED, CANCELLED | OVER, &before);
    if (first) {
        give_up_arg(t, before); /* before the message: then t may be gone, if its holder is */
        kc__mpsc_push(&timed->cancelled, &t->cancel_link);
    }
    kc_sub_acq_rel(&timed->cancelling, 1); /* token.5 */
    return first;
}

bool kc_token_cancel(kc_token_t *t)
{
    check("kc_token_cancel", t);
    return cancel(t);
}

bool kc_token_cancelled(const kc_token_t *t)
{
    check("kc_token_cancelled", t);
    uint32_t state = kc_load_acquire(&t->state); /* token.4 */
    kc__tsan_acquire(t);
    return state & (CANCELLED | OVER);
}

void kc_token_release(kc_token_t *t)
{
    if (!t)
        return;
    give_up("kc_token_release", t);
    cancel(t);
    unref(t);
}

void kc_token_detach(kc_token_t *t)
{
    if (!t)
        return;
    give_up("kc_token_detach", t);
    unref(t);
}
