/* SPDX-License-Identifier: MIT */
/*
 * run.c - runs one program: its scheduler, its plain threads, and the conductor who ends it.
 *
 * The conductor, a plain thread or under virtual time a task, waits until nothing moves any more.
 * Then nobody may be waiting who could go on: a wake-up that got lost is found here. From then on
 * it closes, sets and completes what others wait for, again and again, until all have ended.
 */
#define _GNU_SOURCE
#include "../blocks_left.h"
#include "program.h"

#include "base/os.h"
#include "coro/coro.h"
#include "coro/object.h"
#include "sync/chan.h"
#include "job/job.h"
#include "signal/slot.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

KC_ATOMIC(uint64_t) programs_run, progress;
double hang_limit = 20;
static unsigned fault_odds;
static KC_ATOMIC(uint64_t) fault_calls;
static KC_ATOMIC(int64_t) allocated;
static pthread_t threads[THREADS], conductor;
static int threads_started;

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void nap(long ns)
{
    nanosleep(&(struct timespec){ 0, ns }, NULL);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Allocations of the library pass here: the linker's --wrap. What belongs to schedulers and
 * threads, which is kept for the next ones, is larger than what jobs, channels and timers need. */
enum { SMALL = 400 };
void *__real_kc__alloc(size_t size);
void *__real_kc__alloc_aligned(size_t align, size_t size);
void __real_kc__free(void *p);
void *__wrap_kc__alloc(size_t size);
void *__wrap_kc__alloc_aligned(size_t align, size_t size);
void __wrap_kc__free(void *p);

static bool is_small(void *p)
{
    return p && malloc_usable_size(p) < SMALL;
}

void *__wrap_kc__alloc(size_t size)
{
    void *p = __real_kc__alloc(size);

    kc_add_relaxed(&allocated, is_small(p));
    return p;
}

/* Of stacks and schedulers: never small. */
void *__wrap_kc__alloc_aligned(size_t align, size_t size)
{
    return __real_kc__alloc_aligned(align, size < SMALL ? SMALL : size);
}

void __wrap_kc__free(void *p)
{
    kc_add_relaxed(&allocated, -is_small(p));
    __real_kc__free(p);
}

static _Thread_local bool spared;
static KC_ATOMIC(int) faults_on;

/* A thread that has no memory for its own state when it first needs it ends the process. */
static void spare_first_use(void)
{
    spared = true;
    (void)kcoro_create_main();
    spared = false;
}

static bool fails(const char *what)
{
    if (spared || !kc_load_relaxed(&faults_on))
        return false;
    uint64_t state = prog.seed ^ kc_add_relaxed(&fault_calls, 1) << 20;

    (void)what;
    return fuzz_random(&state) % fault_odds == 0;
}

static void check_memory(int64_t before)
{
    static const uint32_t magics[] = {
        KC_TASK_MAGIC, KC_CORO_MAGIC,      KC_TOKEN_MAGIC,        KC_SIGNAL_MAGIC,
        KC_CHAN_MAGIC, KC_BROADCAST_MAGIC, KC_SUBSCRIPTION_MAGIC, KC_LEASE_MAGIC,
    };
    int blocks = 0;

    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++)
        blocks += kc_test_blocks_left(magics[i]);
    if (blocks != 0)
        BROKEN("%d blocks are left", blocks);
    kc__stack_cache_drain(&kc__thread()->stacks);
    kc_stack_stats_t s = kc__stack_stats();
    if (s.made != s.warm + s.cold)
        BROKEN("%zu stacks are made, %zu are free", s.made, s.warm + s.cold);
    if (kc_load_relaxed(&allocated) != before && kc_load_relaxed(&programs_run) > 0)
        BROKEN("%lld allocations before, %lld after", (long long)before,
               (long long)kc_load_relaxed(&allocated));
}

/* Free blocks are handed out in another order from now on: what is older has any address. */
void shuffle_memory(uint64_t seed)
{
    enum { BLOCKS = 100 };
    kc_deferred_t *d[BLOCKS];
    kc_sched_t *s;

    MUST(kc_sched_create(&(kc_sched_opts_t){ .workers = KC_NO_WORKERS }, &s) == 0);
    for (int i = 0; i < BLOCKS; i++)
        MUST(kc_promise(&(kc_launch_opts_t){ .sched = s }, &d[i]) == 0);
    for (int left = BLOCKS; left > 0; left--) {
        int i = (int)(fuzz_random(&seed) % (uint64_t)left);
        MUST(kc_promise_complete(d[i], 0, NULL) == 0);
        kc_deferred_release(d[i]);
        d[i] = d[left - 1];
    }
    MUST(kc_sched_destroy(s) == 0);
}

/* ---- the conductor -------------------------------------------------------------------------- */

/* Ends every wait that has no deadline. */
static void close_all(void)
{
    struct place p = { 0 };

    kc_store_relaxed(&prog.closing, 1);
    for (int i = 0; i < CHANNELS; i++)
        (void)op_close(&p, &(struct op){ .which = (uint8_t)i });
    for (int i = 0; i < EVENTS && sabotage != BREAK_HANG; i++)
        kc_event_set(&prog.event[i].event);
    for (int i = 0; i < LATCH_COUNT; i++)
        (void)op_latch_down(&p, NULL);
    for (int i = 0; i < MUTEXES; i++) {
        struct mutex *m = &prog.mutex[i];
        if (!kc_mutex_trylock(&m->lock))
            continue;
        m->tokens += kc_load_relaxed(&m->cond_waiting);
        kc_store_relaxed(&m->tokens_seen, m->tokens);
        kc_cond_broadcast(&m->cond);
        kc_mutex_unlock(&m->lock);
    }
    for (int i = 0; i < prog.nodes; i++) {
        struct node *n = &prog.node[i];
        kc_job_t *j = kc_load_acquire(&n->job);
        unpark(n);
        (void)op_untimer(&p, &(struct op){ .node = (int16_t)i });
        (void)op_complete(&p, &(struct op){ .node = (int16_t)i });
        if (n->kind != THREAD)
            lease_end(n);
        if (j && n->kind == GROUP)
            MUST(kc_group_close(j) == 0);
    }
}

static void *conductor_main(void *arg)
{
    uint64_t last = 0, now;
    double since = seconds();

    spared = true;
    for (int still = 0; !kc_load_acquire(&prog.finished);) {
        nap(200000);
        now = kc_load_relaxed(&progress);
        if (now != last)
            since = seconds();
        still = now == last ? still + 1 : 0;
        last = now;
        if (still < 3 && !kc_load_relaxed(&prog.closing))
            continue;
        const char *who = who_could_go_on();
        if (!who)
            close_all();
        else if (seconds() - since > hang_limit)
            BROKEN("nothing moves, and there waits %s", who);
    }
    return arg;
}

/* Under virtual time: when this wakes, nothing else is ready and no other timer is due. */
static int conductor_task(void *arg)
{
    kc_metrics_t m;
    const char *who = NULL;
    int rc = kc_sleep(KC_SEC(100) + 1);

    (void)arg;
    for (int round = 0; rc == 0 && round < 1000; round++) {
        kc_metrics(prog.sched, &m);
        if (m.jobs_live == 1)
            return 0;
        if ((who = who_could_go_on()) != NULL)
            BROKEN("nothing moves, and there waits %s", who);
        close_all();
        rc = kc_sleep(KC_SEC(1));
    }
    close_all(); /* the scheduler is shut down */
    if (rc == 0) {
        kc_dump(prog.sched, stderr);
        BROKEN("it does not end");
    }
    return 0;
}

static void *watchdog_main(void *arg)
{
    uint64_t seen = 0;
    double since = seconds();

    for (;;) {
        nap(50000000);
        uint64_t now = kc_load_acquire(&programs_run) + kc_load_relaxed(&progress);
        if (now != seen)
            since = seconds();
        seen = now;
        if (seconds() - since < hang_limit * 1.5 || broken_or_over())
            continue;
        alarm(10); /* should the dump hang too */
        const char *who = who_could_go_on();
        fprintf(stderr, "what hangs:\n");
        if (prog.sched)
            kc_dump(prog.sched, stderr);
        BROKEN("it hangs; there waits %s", who ? who : "nobody who could go on");
    }
    return arg;
}

void programs_begin(void)
{
    pthread_t watchdog;

    MUST(pthread_create(&watchdog, NULL, watchdog_main, NULL) == 0);
    pthread_detach(watchdog);
    kc__os_fault = fails;
}

/* ---- plain threads -------------------------------------------------------------------------- */

static void *thread_main(void *node)
{
    struct node *n = node;
    struct place p = { .own = n, .at = n };

    spare_first_use();
    (void)run_piece(&p, n);
    kc_sub_acq_rel(&prog.threads_left, 1);
    lease_end(n);
    return NULL;
}

/* Real time: threads, which must not use the scheduler when it is gone: with kc_run each has a
 * lease on the root. Virtual time: tasks. */
static void start_others(kc_job_t *root)
{
    threads_started = 0;
    for (int i = 0; i < prog.nodes; i++) {
        struct node *n = &prog.node[i];
        if (n->kind != THREAD)
            continue;
        if (prog.is_virtual) {
            n->kind = TASK;
            n->where = KC_MAIN;
            (void)op_submit(&(struct place){ .own = n, .at = n },
                            &(struct op){ .node = n->index });
            continue;
        }
        if (root)
            MUST(kc_lease_take(root, &n->lease) == 0);
        kc_store_relaxed(&n->leases, root ? 2 : 3);
        kc_add_relaxed(&prog.threads_left, 1);
        MUST(pthread_create(&threads[threads_started++], NULL, thread_main, n) == 0);
    }
    if (prog.is_virtual)
        MUST(kc_sched_submit(prog.sched, KC_MAIN, conductor_task, NULL) == 0);
    else
        MUST(pthread_create(&conductor, NULL, conductor_main, NULL) == 0);
    kc_store_relaxed(&faults_on, prog.faults);
}

static void end_others(void)
{
    for (int i = 0; i < threads_started; i++)
        pthread_join(threads[i], NULL);
    kc_store_release(&prog.finished, 1);
    if (!prog.is_virtual)
        pthread_join(conductor, NULL);
}

/* ---- the scheduler -------------------------------------------------------------------------- */

static int root_main(void *root)
{
    struct node *n = root;

    prog.sched = kc_sched_current();
    prog.start = kc_now();
    node_launching(n, NULL);
    node_launched(n, kc_job_retain(kc_job_current()));
    start_others(kc_job_current());
    return run_body(n);
}

static int stop_main(void *arg)
{
    kc_sched_stop(kc_sched_current());
    return arg != NULL;
}

static void check_metrics(bool all_ended)
{
    kc_metrics_t m;

    kc_metrics(prog.sched, &m);
    uint64_t ended = m.jobs_completed + m.jobs_failed + m.jobs_cancelled;
    if (!all_ended)
        return;
    if (m.jobs_live != 0 || m.jobs_created != ended || m.stacks_in_use != 0)
        BROKEN("%llu jobs created, %llu ended, %llu live, %llu stacks in use",
               (unsigned long long)m.jobs_created, (unsigned long long)ended,
               (unsigned long long)m.jobs_live, (unsigned long long)m.stacks_in_use);
}

static void run_with_create(const kc_sched_opts_t *opts)
{
    struct node *root = &prog.node[0];
    kc_job_t *j = NULL;

    MUST(kc_sched_create(opts, &prog.sched) == 0);
    prog.start = kc_now();
    kc_launch_opts_t o = { .sched = prog.sched, .affinity = root->where, .flags = root->flags };
    node_launching(root, NULL);
    MUST(kc_launch_job(run_body, root, &o, &j) == 0);
    node_launched(root, j);
    if (prog.abrupt)
        MUST(kc_schedule_delayed(prog.sched, units(1 + prog.seed % 30), KC_MAIN, stop_main, NULL,
                                 NULL) == 0);
    start_others(NULL);
    for (bool more = true; more;) {
        more = kc_load_acquire(&prog.threads_left) && !prog.abrupt;
        int rc = kc_sched_run(prog.sched);
        if (rc != 0)
            BROKEN("kc_sched_run returns %d", rc);
        if (more)
            nap(50000);
    }
    check_metrics(!prog.abrupt);
    kc_store_relaxed(&prog.shutdown, 1);
    if (!prog.abrupt)
        end_others(); /* the conductor, too, uses the scheduler */
    MUST(kc_sched_destroy(prog.sched) == 0);
}

static void give_back(void *item, void *channel)
{
    uint32_t i = *(uint32_t *)item;

    MUST(i > 0 && i < ITEMS && prog.item[i].channel == (struct channel *)channel - prog.channel);
    MUST(!(kc_or_relaxed(&prog.item[i].flags, ITEM_BACK) & (ITEM_BACK | ITEM_GOT)));
}

static void set_up(void)
{
    fault_odds = 3 + (unsigned)(prog.seed * 2654435761u >> 7) % 100;
    for (int i = 0; i < CHANNELS; i++) {
        struct channel *c = &prog.channel[i];
        MUST(kc_chan_create_with(&(kc_chan_opts_t){ .item_size = sizeof(uint32_t),
                                                    .capacity = c->capacity,
                                                    .undelivered = give_back,
                                                    .arg = c },
                                 &c->chan) == 0);
    }
    for (int i = 0; i < SIGNALS; i++)
        MUST((prog.signal[i] = kc_signal_create(0)) != NULL);
    prog.sem.sem = (kc_sem_t)KC_SEM_INIT(PERMITS);
    prog.latch.latch = (kc_latch_t)KC_LATCH_INIT(LATCH_COUNT);
    kc_store_relaxed(&prog.latch.left, LATCH_COUNT);
}

static void tear_down(void)
{
    for (int i = 0; i < CHANNELS; i++)
        kc_chan_release(prog.channel[i].chan);
    check_ended();
    for (int i = sabotage == BREAK_KEEP_JOB; i < prog.nodes; i++) {
        kc_job_release(kc_load_relaxed(&prog.node[i].job));
        kc_token_release(kc_load_relaxed(&prog.node[i].token));
        kcoro_release(kc_load_relaxed(&prog.node[i].parked));
    }
    for (int i = sabotage == BREAK_KEEP_MEMORY; i < SIGNALS; i++)
        kc_signal_release(prog.signal[i]);
}

void program_run(void)
{
    int64_t before = kc_load_relaxed(&allocated);
    kc_sched_opts_t opts = { .workers = prog.workers,
                             .flags = prog.sched_flags,
                             .seed = prog.is_virtual ? prog.seed | 1 : 0 };

    kc_store_release(&programs_run, kc_load_relaxed(&programs_run)); /* the watchdog may look */
    set_up();
    if (prog.uses_run) {
        int rc = kc_run(root_main, &prog.node[0], &opts), code = 0;
        prog.sched = NULL;
        MUST(kc_job_result(kc_load_acquire(&prog.node[0].job), &code) == 0);
        if (rc != code)
            BROKEN("kc_run returns %d, the root's result is %d", rc, code);
    } else {
        run_with_create(&opts);
        prog.sched = NULL;
    }
    kc_store_relaxed(&faults_on, 0);
    kc_store_relaxed(&prog.ended, 1);
    if (prog.uses_run || prog.abrupt)
        end_others();
    kc_store_relaxed(&prog.shutdown, prog.abrupt);
    tear_down();
    check_memory(before);
    kc_add_relaxed(&programs_run, 1000000);
}
