/* SPDX-License-Identifier: MIT */
/*
 * sched.c - schedulers: create, submit, run, stop, destroy.
 *
 * WHAT     A scheduler is a set of workers (worker.c), the main thread's among them, and a count of
 *          the tasks that have not ended. The main thread is a worker that is only there while
 *          somebody pumps.
 *
 * SHAPE    destroy: all jobs are cancelled --> main pumps until none is left --> the workers end.
 *
 * ORDER    id       site              operation      pairs with  carries; what breaks if weaker
 *          sched.1  stop: closing     store_release  worker.1,   the last messages, for the inbox
 *                                                    idle.7
 *          sched.2  arrive: arrived   sub_acq_rel    sched.3     the worker's own structure
 *          sched.3  start: arrived    load_acquire   sched.2
 *          sched.4  record: recorder  load_acquire   trace.1     the recorder; events would go into
 *                                                                memory that is not set up yet
 *          sched.5  pump: awake       load_acquire   idle.5      that the descriptor was written
 *                                                                to: it could be closed before
 *          sched.6  pump: interval_runs     load_acquire   token.2     what the run wrote
 *          sched.7  pump: done        load_acquire   wait.2      the result of what is waited for
 */
#define _GNU_SOURCE
#include "sched/sched.h"

#include "base/os.h"
#include "coro/switch.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/no_stack.h"
#include "sched/spread.h"
#include "sched/token.h"
#include "sched/worker.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { MAIN_BIT = KC_IDLE_MEMBERS - 1 };

static KC_ATOMIC(uint64_t) live; /* A  schedulers that there are; above that, their process */
static pthread_mutex_t old_lock = PTHREAD_MUTEX_INITIALIZER;
static kc_sched_t *old_scheds; /* L(old_lock) */
enum {
    ALL_FLAGS = KC_SCHED_VIRTUAL_TIME | KC_SCHED_REPORT_OVERFLOW | KC_SCHED_MAIN_WORKS |
                KC_SCHED_DUMP_ON_SIGQUIT | KC_SCHED_FIND_DEADLOCKS
};

kc_time_t kc_now(void)
{
    kc_worker_t *w = kc__worker();

    return w ? kc__sched_now(w->sched) : kc__os_now();
}

kc_time_t kc__sched_now(const kc_sched_t *s)
{
    return s->virtual_time ? kc_load_relaxed(&s->clock) : kc__os_now();
}

kc_time_t kc__sched_after(const kc_sched_t *s, kc_time_t ns)
{
    kc_time_t now = kc__sched_now(s);

    return ns > KC_FOREVER - now ? KC_FOREVER : now + ns;
}

/* Virtual time never goes back. */
static void set_timer(kc_sched_t *s, kc_time_t now)
{
    if (now > kc_load_relaxed(&s->clock))
        kc_store_relaxed(&s->clock, now);
}

/* ---- create -------------------------------------------------------------------------------- */

void kc__sched_arrive(kc_sched_t *s, bool ok)
{
    if (!ok)
        kc_store_relaxed(&s->stop, 1);
    if (kc_sub_acq_rel(&s->arrived, 1) == 1) /* sched.2 */
        kc__os_wake(&s->arrived);
}

static int check_opts(const kc_sched_opts_t *opts)
{
    bool alone = opts->seed != 0 || (opts->flags & KC_SCHED_VIRTUAL_TIME);

    if (opts->flags & ~(uint32_t)ALL_FLAGS)
        return -EINVAL;
    if (opts->workers < KC_NO_WORKERS || opts->workers > KC_MAX_WORKERS)
        return -EINVAL;
    if ((alone && opts->workers > 0) || opts->grace < 0)
        return -EINVAL;
    return kc__stack_can_fit(opts->stack_size) ? 0 : -ENOMEM;
}

static int count_workers(const kc_sched_opts_t *opts)
{
    int cpus = kc__os_cpus();

    if (opts->workers == KC_NO_WORKERS || opts->seed != 0 || (opts->flags & KC_SCHED_VIRTUAL_TIME))
        return 0;
    if (opts->workers > 0)
        return opts->workers;
    return cpus > KC_MAX_WORKERS ? KC_MAX_WORKERS : cpus > 2 ? cpus - 1 : 1;
}

/* Frees what a later use makes anew, and keeps the rest for it. */
static void sched_retire(kc_sched_t *s)
{
    if (s->timed)
        kc__timed_close(s->timed);
    s->timed = NULL;
    kc__sched_hooks.close(s);
    if (s->fd >= 0) {
        close(s->fd);
        close(s->event_fd);
        close(s->timer_fd);
    }
    kc_store_relaxed(&s->magic, 0);
    pthread_mutex_lock(&old_lock);
    s->next_old = old_scheds;
    old_scheds = s;
    pthread_mutex_unlock(&old_lock);
}

/* Memory of a scheduler with so many workers, used before or not. NULL: none. */
static kc_sched_t *sched_alloc(int workers)
{
    kc_sched_t **link, *s = NULL;

    pthread_mutex_lock(&old_lock);
    for (link = &old_scheds; *link && ((*link)->workers != workers || kc__os_debug());)
        link = &(*link)->next_old;
    if (*link) {
        s = *link;
        *link = s->next_old;
    }
    pthread_mutex_unlock(&old_lock);
    if (s)
        return s;

    s = kc__alloc_aligned(KC_CACHE_LINE, sizeof *s);
    if (s)
        pthread_mutex_init(&s->no_stack_lock, NULL);
    bool ok = s && (s->main = kc__worker_new(s, KC_MAIN, MAIN_BIT)) != NULL;
    for (int i = 0; ok && i < workers; i++)
        ok = (s->worker[i] = kc__worker_new(s, i, i)) != NULL;
    if (ok) {
        s->workers = workers;
        return s;
    }
    for (int i = 0; s && i < workers; i++)
        kc__worker_free(s->worker[i]);
    if (s)
        kc__worker_free(s->main);
    kc__free(s);
    return NULL;
}

/* Ends the threads 0...n-1, which have started. No task is left. */
static void stop_threads(kc_sched_t *s, int n)
{
    kc_store_release(&s->closing, 1); /* sched.1 */
    for (int i = 0; i < n; i++)
        kc__worker_wake(s->worker[i]);
    for (int i = 0; i < n; i++)
        pthread_join(s->worker[i]->thread, NULL);
}

static int start_threads(kc_sched_t *s)
{
    int n = 0, rc = 0;
    uint32_t missing;

    kc_store_relaxed(&s->arrived, (uint32_t)s->workers);
    while (n < s->workers && rc == 0) {
        rc = pthread_create(&s->worker[n]->thread, NULL, kc__worker_main, s->worker[n]);
        n += rc == 0;
    }
    for (int i = n; i < s->workers; i++)
        kc__sched_arrive(s, false);
    while ((missing = kc_load_acquire(&s->arrived)) > 0) /* sched.3 */
        kc__os_wait(&s->arrived, missing, INT64_MAX);
    if (kc_load_relaxed(&s->stop) == 0)
        return 0;
    stop_threads(s, n);
    return rc ? -rc : -ENOMEM;
}

static kc_sched_t *sched_new(const kc_sched_opts_t *opts)
{
    kc_sched_t *s = sched_alloc(count_workers(opts));

    if (!s)
        return NULL;
    kc_store_relaxed(&s->magic, KC_SCHED_MAGIC);
    s->flags = opts->flags;
    s->grace = opts->grace;
    s->stack_size = opts->stack_size ? opts->stack_size : KC_STACK_DEFAULT;
    s->stack_class = kc__stack_class(s->stack_size);
    s->fp_control = kc__switch_fp_control();
    s->random = opts->seed;
    s->virtual_time = (opts->flags & KC_SCHED_VIRTUAL_TIME) != 0;
    s->fd = -1;
    s->pumping = false;
    s->held = false;
    memset(s->name, 0, sizeof s->name);
    if (opts->name)
        memcpy(s->name, opts->name, strnlen(opts->name, sizeof s->name - 1));
    s->on_failure = opts->on_failure;
    s->on_failure_arg = opts->on_failure_arg;
    kc_store_relaxed(&s->idle.word, 0);
    kc_store_relaxed(&s->stop, 0);
    kc_store_relaxed(&s->closing, 0);
    kc_store_relaxed(&s->outside, 0);
    kc_store_relaxed(&s->leave_detached, 0);
    kc_store_relaxed(&s->shutting, 0);
    kc_store_relaxed(&s->migrants, 0);
    KC_ASSERT(!s->no_stack.head && kc_load_relaxed(&s->no_stack_count) == 0);
    kc_store_relaxed(&s->clock, 0);
    kc_store_relaxed(&s->recorder, NULL);
    for (int i = 0; i < KC_COUNTERS; i++)
        kc_store_relaxed(&s->counter[i], 0);
    for (int i = 0; i < s->workers; i++) {
        kc__worker_reset(s->worker[i]);
        s->worker[i]->works = true;
    }
    kc__worker_reset(s->main);
    s->main->works = s->workers == 0;
    s->main->alone = s->workers == 0;
    s->main->thread = pthread_self();
    kc_store_relaxed(&s->main->moved, KC_SPREAD_AWAY);
    if (s->random != 0)
        kc_or_relaxed(&s->main->mode, KC_MODE_ORACLE);
    for (int i = 0; s->flags & KC_SCHED_FIND_DEADLOCKS && i < s->workers; i++)
        kc_or_relaxed(&s->worker[i]->mode, KC_MODE_CYCLES);
    if (s->virtual_time || (s->flags & KC_SCHED_FIND_DEADLOCKS))
        kc_or_relaxed(&s->main->mode, KC_MODE_CYCLES);
    s->members = (((uint64_t)1 << s->workers) - 1) | kc__idle_bit(MAIN_BIT);
    s->timed = kc__timed_new(s);
    if (s->timed && kc__sched_hooks.open(s) == 0)
        return s;
    sched_retire(s);
    return NULL;
}

void kc__sched_not_live(const char *call)
{
    kc__usage(call, "the scheduler has been destroyed, or is none " KC_RULE("J32"));
}

void kc__sched_forked(void)
{
    kc__usage("fork",
              "a child of a process with schedulers may only exec or _exit " KC_RULE("O10"));
}

/* One scheduler more is about to come, or, by 1, has come. In a child of a process that had some
 * there can be none. */
static void count_live(uint32_t more)
{
    uint64_t seen = kc_load_relaxed(&live), process = (uint64_t)kc__os_process() << 32;

    do
        if ((uint32_t)seen > 0 && seen - (uint32_t)seen != process)
            kc__sched_forked();
    while (!kc_cas_relaxed(&live, &seen, process + (uint32_t)seen + more));
}

int kc_sched_create(const kc_sched_opts_t *opts, kc_sched_t **out)
{
    static const kc_sched_opts_t defaults;

    opts = opts ? opts : &defaults;
    int rc = out ? check_opts(opts) : -EINVAL;
    if (rc < 0)
        return rc;
    count_live(0);
    kc_thread_t *t = kc__thread_make();
    if (!t)
        return -ENOMEM;
    if (t->current != t->main_co || t->worker)
        return -EPERM;
    if ((opts->flags & KC_SCHED_REPORT_OVERFLOW) && kcoro_report_overflow() != 0)
        return -ENOMEM;
    kc_sched_t *s = sched_new(opts);
    if (!s)
        return -ENOMEM;
    t->worker = s->main;
    t->stacks.lazy = true;
    if (opts->flags & KC_SCHED_DUMP_ON_SIGQUIT)
        rc = kc__observer_hooks.watch(s);
    if (rc == 0 && (rc = start_threads(s)) < 0 && (opts->flags & KC_SCHED_DUMP_ON_SIGQUIT))
        kc__observer_hooks.unwatch(s);
    if (rc < 0) {
        t->worker = NULL;
        t->stacks.lazy = false;
        sched_retire(s);
        return rc;
    }
    count_live(1);
    *out = s;
    return 0;
}

/* ---- run ----------------------------------------------------------------------------------- */

/* True: the caller is s's main thread, on its own stack, and no handler or dispose of a pump. */
static bool may_pump(kc_sched_t *s)
{
    kc_thread_t *t = kc__thread();

    kc__sched_check_process(s);
    return t->worker == s->main && t->current == t->main_co && !s->pumping;
}

/* Main begins to pump: it sleeps on its futex, not on its descriptor. */
static void pump_begin(kc_sched_t *s)
{
    uint32_t looks = 0;

    s->pumping = true;
    if (!s->virtual_time)
        s->main->look_turn = s->main->look_ticks = 0; /* what it has to look at may be another */
    kc_store_relaxed(&s->main->due, 0);
    if (!kc_load_relaxed(&s->outside))
        return;
    if (!kc__idle_leave(&s->idle, s->main->bits))
        while (kc_load_acquire(&s->main->awake) == 0) /* sched.5 */
            kc__os_back_off(&looks);                  /* the wake-up is on its way */
    s->main->searching = kc_load_relaxed(&s->main->awake) == KC_AWAKE_AS_SEARCHER;
    kc_store_relaxed(&s->main->awake, 0);
    kc_store_relaxed(&s->outside, 0);
    uint64_t count;
    while (read(s->event_fd, &count, sizeof count) > 0)
        ;
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

/* Main stops pumping: from now on the descriptor tells, if there is one. */
static void pump_end(kc_sched_t *s)
{
    for (int i = 0; i < 16 && kc__worker_cool(s->main, KC_COOL_IDLE); i++)
        ; /* a host's loop does not wait for more than that */
    if (s->main->works && !kc__mpsc_is_empty(&s->main->offers) && kc__spread_take(s->main))
        kc__sched_wake_any(s); /* others have time for it */
    kc__worker_stop_searching(s->main);
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
    struct itimerspec at = { { 0, 0 }, { 0, 0 } };
    if (s->virtual_time)
        due = due <= kc_load_relaxed(&s->clock) ? 1 : KC_FOREVER;
    if (due != KC_FOREVER) {
        due = due < 1 ? 1 : due; /* 0 would disarm it */
        at.it_value = (struct timespec){ (time_t)(due / KC_SEC(1)), (long)(due % KC_SEC(1)) };
    }
    timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
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
        pump_begin(s);
        pump_end(s);
    }
}

void kc__sched_signal_fd(kc_sched_t *s)
{
    uint64_t one = 1;

    if (write(s->event_fd, &one, sizeof one) < 0) {
        /* Full: then it is readable already. */
    }
}

/* Main has nothing to do until then. */
static void pass_time(kc_sched_t *s, kc_time_t due)
{
    if (!s->virtual_time || due == KC_FOREVER) {
        kc__worker_sleep(s->main, due);
        return;
    }
    set_timer(s, due);
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

/* Pumps until nothing is left, or until it is stopped where it may be. */
static int pump_all(kc_sched_t *s)
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
    if (!may_pump(s))
        return -EPERM;
    pump_begin(s);
    s->follow_clock = true;
    s->stoppable = true;
    if (s->workers > 0 && (s->flags & KC_SCHED_MAIN_WORKS)) {
        s->main->works = true;
        kc_add_relaxed(&s->main->moved, -KC_SPREAD_AWAY);
    }
    int rc = pump_all(s);
    pump_end(s);
    kc__tsan_acquire(&s->stop);
    return rc;
}

bool kc__sched_pump_until(kc_sched_t *s, kc_time_t at, const KC_ATOMIC(uint32_t) * done)
{
    if (!may_pump(s))
        return false;
    pump_begin(s);
    s->follow_clock = true;
    s->deadline = at == KC_FOREVER ? 0 : at;
    s->done = done;
    while (!(done && kc_load_acquire(done) == KC_DONE) && kc_now() < at) { /* sched.7 */
        once_more(s);
        if (kc__worker_run_ready(s->main))
            continue;
        kc_time_t due = kc__worker_next_due(s->main);
        if (!kc__worker_take_without_stack(s->main))
            pass_time(s, due < at ? due : at);
    }
    pump_end(s);
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
    if (!may_pump(s))
        return -EPERM;
    pump_begin(s);
    if (s->virtual_time)
        set_timer(s, now);
    once_more(s);
    kc_or_relaxed(&s->main->mode, KC_MODE_ONCE);
    kc__worker_take_inbox(s->main);
    kc__timed_start_due(s->timed, now);
    do
        kc__worker_run_ready(s->main);
    while (kc__worker_take_without_stack(s->main));
    while (wait && kc_load_acquire(&s->interval_runs) > 0) { /* sched.6 */
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
    pump_end(s);
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

/* A descriptor that is readable when either of the two is. */
static int join_fds(int event_fd, int timer_fd)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = { .events = EPOLLIN };

    if (fd < 0)
        return -errno;
    if (epoll_ctl(fd, EPOLL_CTL_ADD, event_fd, &e) == 0 &&
        epoll_ctl(fd, EPOLL_CTL_ADD, timer_fd, &e) == 0)
        return fd;
    int rc = -errno;
    close(fd);
    return rc;
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
    s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int rc = s->event_fd < 0 || s->timer_fd < 0 ? -errno : join_fds(s->event_fd, s->timer_fd);
    if (rc < 0) {
        if (s->event_fd >= 0)
            close(s->event_fd);
        if (s->timer_fd >= 0)
            close(s->timer_fd);
        return rc;
    }
    s->fd = rc;
    kc_thread_t *t = kc__thread();
    if (t->current == t->main_co && !s->pumping)
        pump_end(s);
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

int kc_sched_destroy(kc_sched_t *s)
{
    if (!s)
        return 0;
    kc__sched_check("kc_sched_destroy", s);
    kc__sched_check_process(s);
    kc_thread_t *t = kc__thread();
    if (t->worker && t->worker->sched == s && (t->current != t->main_co || s->pumping))
        return -EDEADLK;
    if (!may_pump(s))
        return -EPERM;

    pump_begin(s);
    kc__sched_hooks.shut(s);
    kc__timed_shut(
        s->timed); /* before jobs are waited for: a dispose may give up what holds one */
    pump_all(s);
    kc__sched_hooks.gone(s);
    pump_end(s);
    pump_begin(s); /* from now on nobody finds main asleep and writes to its descriptor */
    if (s->flags & KC_SCHED_DUMP_ON_SIGQUIT)
        kc__observer_hooks.unwatch(s);
    stop_threads(s, s->workers);
    kc__worker_take_inbox(s->main); /* timers that were no longer wanted */
    while (kc__worker_cool(s->main, KC_COOL_NOW))
        ;
    t->stacks.lazy = false;
    kc__observer_hooks.end_trace(s);
    t->worker = NULL;
    sched_retire(s);
    kc_add_relaxed(&live, UINT64_MAX); /* one less */
    return 0;
}

/* ---- look ---------------------------------------------------------------------------------- */

int kc_sched_workers(const kc_sched_t *s)
{
    if (!s)
        return -EINVAL;
    kc__sched_check("kc_sched_workers", s);
    return s->workers;
}

pthread_t kc_sched_main_thread(const kc_sched_t *s)
{
    if (!s)
        kc__usage("kc_sched_main_thread", "the scheduler is NULL");
    kc__sched_check("kc_sched_main_thread", s);
    return s->main->thread;
}

kc_sched_t *kc_sched_current(void)
{
    kc_worker_t *w = kc__worker();

    return w ? w->sched : NULL;
}

int kc_worker_index(void)
{
    kc_worker_t *w = kc__worker();

    return w ? w->index : -ENOENT;
}

void kc__sched_record(kc_sched_t *s, kc_record_t e, const char *name)
{
    kc_recorder_t *r = kc_load_acquire(&s->recorder); /* sched.4 */
    kc_worker_t *w = kc__worker();

    int lane = !w || w->sched != s   ? s->workers + KC_LANE_OTHERS
               : w->index == KC_MAIN ? s->workers + KC_LANE_MAIN
                                     : w->index;

    if (e.kind == KC_EVENT_PRESENT || e.kind == KC_EVENT_RUNS)
        lane = s->workers + KC_LANE_BEFORE;
    if (r)
        kc__trace_record(r, (unsigned)lane, e, name);
}
