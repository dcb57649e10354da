/* SPDX-License-Identifier: MIT */
/*
 * sched.c - schedulers: create, destroy, look; how the main thread runs one is in run.c.
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
 */
#define _GNU_SOURCE
#include "sched/sched.h"

#include "base/os.h"
#include "coro/switch.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/run.h"
#include "sched/spread.h"
#include "sched/token.h"
#include "sched/worker.h"

#include <errno.h>
#include <string.h>

enum { MAIN_BIT = KC_IDLE_MEMBERS - 1 };

static KC_ATOMIC(uint64_t) live; /* A  schedulers that there are; above that, their process */
static pthread_mutex_t old_lock = PTHREAD_MUTEX_INITIALIZER;
static kc_sched_t *old_scheds; /* L(old_lock) */
enum {
    ALL_FLAGS = KC_SCHED_VIRTUAL_TIME | KC_SCHED_REPORT_OVERFLOW | KC_SCHED_MAIN_WORKS |
                KC_SCHED_DUMP_ON_SIGQUIT | KC_SCHED_FIND_DEADLOCKS
};

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
    if (s->fd >= 0)
        kc__os_loop_close(s->fd, s->event_fd, s->timer_fd);
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

/* ---- destroy ------------------------------------------------------------------------------- */

int kc_sched_destroy(kc_sched_t *s)
{
    if (!s)
        return 0;
    kc__sched_check("kc_sched_destroy", s);
    kc__sched_check_process(s);
    kc_thread_t *t = kc__thread();
    if (t->worker && t->worker->sched == s && (t->current != t->main_co || s->pumping))
        return -EDEADLK;
    if (!kc__pump_is_allowed(s))
        return -EPERM;

    kc__pump_begin(s);
    kc__sched_hooks.shut(s);
    kc__timed_shut(
        s->timed); /* before jobs are waited for: a dispose may give up what holds one */
    kc__pump_all(s);
    kc__sched_hooks.gone(s);
    kc__pump_end(s);
    kc__pump_begin(s); /* from now on nobody finds main asleep and writes to its descriptor */
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
