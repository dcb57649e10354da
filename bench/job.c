/* SPDX-License-Identifier: MIT */
/*
 * job.c - what do jobs cost: to create, to wait for, to fan out and to collect?
 *
 * Create: so many are launched in a batch, which is measured, and cancelled before one has started,
 * which is not.
 *
 * Without a switch: a wait for what has ended, and a scope in which nothing is launched.
 *
 * Spawn + join: one child at a time, on one thread, and somebody waits for each: as a deferred
 * value, as a job with a handle, as the one child of a scope of its own. Go's waits at a WaitGroup
 * or a channel, Tokio's at a JoinHandle.
 *
 * Fan-out: one parent launches 100 000 before it waits for all, whatever a repetition holds: in a
 * scope, or with a handle to each. With workers the parent is on one of them. Against 1 worker, 2
 * workers show what it costs that both write to the parent's list of children.
 *
 * Not measured: children that wait (bench/cancel.c), trees (bench/skynet.c), more than two workers.
 */
#include "peers/go.h"
#include "peers/tokio.h"
#include "run.h"

#include <kcoro/job.h>

#include <errno.h>
#include <stdlib.h>

enum {
    BATCH = 256,
    MANY = 100000,
    FEW = 256, /* less than a repetition holds: nobody but the calibration asks for so few */
};

static int touching(void *arg)
{
    kb_keep(arg);
    return 0;
}

/* ---- create -------------------------------------------------------------------------------- */

static kc_deferred_t *handles[MANY];
static kc_job_t *jobs[BATCH];

static void batch_launch(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        must(kc_launch(touching, NULL));
}

static void batch_launch_job(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        must(kc_launch_job(touching, NULL, NULL, &jobs[i]));
}

static void batch_async(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        must(kc_async(touching, NULL, &handles[i]));
}

static void batch_release(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        kc_job_release(jobs[i]);
        kc_deferred_release(handles[i]);
        jobs[i] = NULL;
        handles[i] = NULL;
    }
}

struct creation {
    void (*batch)(uint64_t count);
    uint64_t n;
    int64_t ns;
};

static int creating(void *arg)
{
    struct creation *c = arg;
    kc_scope_t scope;

    for (uint64_t left = c->n; left > 0;) {
        uint64_t count = left < BATCH ? left : BATCH;

        must(kc_scope_begin(&scope, NULL));
        int64_t start = kb_now();
        c->batch(count);
        c->ns += kb_now() - start - kb_clock_cost();
        kc_job_cancel(kc_scope_job(&scope), 0);
        if (kc_scope_end(&scope) != -ECANCELED)
            abort();
        batch_release(count);
        left -= count;
    }
    return 0;
}

static void create_run(void *arg, uint64_t n)
{
    struct creation c = *(struct creation *)arg;

    c.n = n;
    run_task(place[0], creating, &c);
    kb_took(c.ns);
}

static void ask_create(void)
{
    static struct creation launch = { .batch = batch_launch };
    static struct creation launch_job = { .batch = batch_launch_job };
    static struct creation async = { .batch = batch_async };

    sched_open(KC_NO_WORKERS);
    kb_question("create a job, nothing runs");
    kb_case("kcoro kc_launch", create_run, &launch);
    kb_case("kcoro kc_launch_job, with a handle", create_run, &launch_job);
    kb_case("kcoro kc_async", create_run, &async);
    kb_base("kcoro kc_launch");
    kb_measure();
    sched_close();
}

/* ---- without a switch ------------------------------------------------------------------------ */

static int awaiting(void *arg)
{
    uint64_t n = *(uint64_t *)arg;
    kc_deferred_t *d;
    void *payload;

    kb_pause();
    must(kc_async(touching, NULL, &d));
    must(kc_await(d, &payload));
    kb_continue();
    for (uint64_t i = 0; i < n; i++)
        must(kc_await(d, &payload));
    kb_pause();
    kc_deferred_release(d);
    kb_continue();
    return 0;
}

static int scoping(void *arg)
{
    uint64_t n = *(uint64_t *)arg;
    kc_scope_t scope;

    for (uint64_t i = 0; i < n; i++) {
        must(kc_scope_begin(&scope, NULL));
        must(kc_scope_end(&scope));
    }
    return 0;
}

static int scoping_call(void *arg)
{
    uint64_t n = *(uint64_t *)arg;

    for (uint64_t i = 0; i < n; i++)
        must(kc_scope(touching, NULL, NULL));
    return 0;
}

static void await_run(void *arg, uint64_t n)
{
    (void)arg;
    run_task(place[0], awaiting, &n);
}

static void scope_run(void *arg, uint64_t n)
{
    (void)arg;
    run_task(place[0], scoping, &n);
}

static void scope_call_run(void *arg, uint64_t n)
{
    (void)arg;
    run_task(place[0], scoping_call, &n);
}

static void ask_without_switch(void)
{
    sched_open(KC_NO_WORKERS);
    kb_question("without a switch");
    kb_case("kcoro kc_await of what has ended", await_run, NULL);
    kb_case("kcoro kc_scope_begin + kc_scope_end", scope_run, NULL);
    kb_case("kcoro kc_scope", scope_call_run, NULL);
    kb_base("kcoro kc_await of what has ended");
    kb_measure();
    sched_close();
}

/* ---- spawn + join ---------------------------------------------------------------------------- */

static int joining_deferred(void *arg)
{
    uint64_t n = *(uint64_t *)arg;
    kc_deferred_t *d;

    for (uint64_t i = 0; i < n; i++) {
        must(kc_async(touching, NULL, &d));
        must(kc_await(d, NULL));
        kc_deferred_release(d);
    }
    return 0;
}

static int joining_job(void *arg)
{
    uint64_t n = *(uint64_t *)arg;
    kc_job_t *j;

    for (uint64_t i = 0; i < n; i++) {
        must(kc_launch_job(touching, NULL, NULL, &j));
        must(kc_job_join(j));
        kc_job_release(j);
    }
    return 0;
}

static int joining_scope(void *arg)
{
    uint64_t n = *(uint64_t *)arg;
    kc_scope_t scope;

    for (uint64_t i = 0; i < n; i++) {
        must(kc_scope_begin(&scope, NULL));
        must(kc_launch(touching, NULL));
        must(kc_scope_end(&scope));
    }
    return 0;
}

static void deferred_run(void *arg, uint64_t n)
{
    (void)arg;
    run_task(place[0], joining_deferred, &n);
}

static void job_run(void *arg, uint64_t n)
{
    (void)arg;
    run_task(place[0], joining_job, &n);
}

static void scope_of_one_run(void *arg, uint64_t n)
{
    (void)arg;
    run_task(place[0], joining_scope, &n);
}

static void ask_spawn_join(void)
{
    sched_open(KC_NO_WORKERS);
    kb_question("spawn + join one, one thread");
    kb_case("kcoro kc_async, kc_await", deferred_run, NULL);
    kb_case("kcoro kc_launch_job, kc_job_join", job_run, NULL);
    kb_case("kcoro kc_launch in a scope of its own", scope_of_one_run, NULL);
    kb_go_case("go with a WaitGroup, one thread", "spawn_1");
    kb_go_case("go with a channel, one thread", "spawn_channel_1");
    kb_tokio_case("tokio spawn and await, one thread", "spawn_1");
    kb_base("go with a WaitGroup, one thread");
    kb_base("tokio spawn and await, one thread");
    kb_measure();
    sched_close();
}

/* ---- fan-out --------------------------------------------------------------------------------- */

static int fanning_scope(void *arg)
{
    uint64_t lap = *(uint64_t *)arg;
    kc_scope_t scope;

    must(kc_scope_begin(&scope, NULL));
    for (uint64_t i = 0; i < lap; i++)
        must(kc_launch(touching, NULL));
    must(kc_scope_end(&scope));
    return 0;
}

static int fanning_handles(void *arg)
{
    uint64_t lap = *(uint64_t *)arg;

    for (uint64_t i = 0; i < lap; i++)
        must(kc_async(touching, NULL, &handles[i]));
    for (uint64_t i = 0; i < lap; i++) {
        must(kc_await(handles[i], NULL));
        kc_deferred_release(handles[i]);
        handles[i] = NULL;
    }
    return 0;
}

/* Whole laps of MANY, however few n are. */
static void laps_run(kc_fn_t fn, uint64_t n)
{
    uint64_t lap = n < FEW ? n : MANY, laps = (n + lap - 1) / lap;
    int64_t start = kb_now();

    for (uint64_t i = 0; i < laps; i++)
        run_task(place[0], fn, &lap);
    int64_t took = kb_now() - start;

    kb_took((int64_t)((double)took * (double)n / (double)(laps * lap)));
}

static void fan_scope_run(void *arg, uint64_t n)
{
    (void)arg;
    laps_run(fanning_scope, n);
}

static void fan_handles_run(void *arg, uint64_t n)
{
    (void)arg;
    laps_run(fanning_handles, n);
}

static void ask_fan(const char *title, int workers, const char *go, const char *tokio)
{
    sched_open(workers);
    kb_question(title);
    kb_case("kcoro kc_launch in one scope", fan_scope_run, NULL);
    kb_case("kcoro kc_async, then kc_await each", fan_handles_run, NULL);
    kb_go_case("go with a WaitGroup", go);
    kb_tokio_case("tokio spawn, then await each", tokio);
    kb_base("go with a WaitGroup");
    kb_base("tokio spawn, then await each");
    kb_measure();
    sched_close();
}

int main(int argc, char **argv)
{
    kb_init(argc, argv, "job", "jobs: creating, joining, fanning out");
    ask_create();
    ask_without_switch();
    ask_spawn_join();
    ask_fan("100 000, then all: one thread", KC_NO_WORKERS, "many_1", "many_1");
    ask_fan("100 000, then all: 1 worker, peers 2", 1, "many", "many");
    ask_fan("100 000, then all: 2 workers", 2, "many", "many");
    return kb_done();
}
