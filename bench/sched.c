/* SPDX-License-Identifier: MIT */
/*
 * sched.c - what do tasks cost: to queue, to take, to run, to yield, to wake across threads?
 *
 * Schedule: kc_sched_submit from inside a task, in batches; what was queued runs afterwards, which
 * is not measured. Take: there is no call for it alone. A task that yields while no other is ready
 * puts itself into the queue and takes itself out again without a switch, an upper bound for both;
 * beside it the deque that holds tasks for any worker.
 *
 * Yield: two coroutines, and rings of 1 000 and 100 000 that stay for the whole question, so that
 * a repetition may be less than a lap. The goroutines of a ring live in a process of their own,
 * frozen between repetitions. A transfer is an unpark of the other one and a park.
 *
 * Life: submit, start, run, end. 200 ns are 5 million tasks a second. One at a time somebody waits
 * for each; many: 100 000 are queued before anybody waits, whatever a repetition holds.
 *
 * Across threads: all figures are round trips, main to worker and back. As it comes: nothing else
 * to do on either thread, each decides for itself how long to look before it sleeps. Busy: on each
 * thread, bound to a core of its own, one more task yields all the time; on one core they would
 * wait for each other's time slices. Asleep: no ping before the worker's thread had time to fall
 * asleep, which is not measured; main falls asleep while it waits for the answer. Go keeps both
 * sides on one thread if it can; locked to threads of their own it cannot. Nobody but the busy ones
 * is bound to a core.
 *
 * Not measured: more than two workers, and unfair mixes.
 */
#define _GNU_SOURCE /* affinity */
#include "base/deque.h"

#include "peers/go.h"
#include "run.h"

#include <kcoro/coro.h>
#include <kcoro/timer.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define NAP KC_US(200) /* a thread that has nothing to do for so long sleeps */

enum {
    BATCH = 64,
    MANY = 100000,
    FEW = 256, /* less than a repetition holds: nobody but the calibration asks for so few */
};

static atomic_uint_fast64_t ran;

static void submit(kc_affinity_t where, kc_fn_t fn, void *arg)
{
    must(kc_sched_submit(sched, where, fn, arg));
}

static uint64_t at_most(uint64_t n, uint64_t limit)
{
    return n < limit ? n : limit;
}

static int counting(void *arg)
{
    (void)arg;
    atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
    return 0;
}

static uint64_t ran_get(void)
{
    return atomic_load_explicit(&ran, memory_order_relaxed);
}

static void ran_clear(void)
{
    atomic_store_explicit(&ran, 0, memory_order_relaxed);
}

/* ---- schedule and take --------------------------------------------------------------------- */

struct submits {
    kc_affinity_t from, to;
    bool at_once; /* by kc_sched_submit_many */
    uint64_t n;
    int64_t ns;
};

static void batch_submit(const struct submits *s, uint64_t count)
{
    static kc_call_t calls[BATCH];

    if (s->at_once) {
        for (uint64_t i = 0; i < count; i++)
            calls[i].fn = counting;
        must(kc_sched_submit_many(sched, s->to, calls, count));
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        submit(s->to, counting, NULL);
}

static int submitting(void *arg)
{
    struct submits *s = arg;
    uint64_t done = 0;

    ran_clear();
    while (done < s->n) {
        uint64_t count = at_most(s->n - done, BATCH);
        int64_t start = kb_now();

        batch_submit(s, count);
        s->ns += kb_now() - start - kb_clock_cost();
        done += count;
        while (ran_get() < done)
            kc_yield();
    }
    return 0;
}

static void submit_run(void *arg, uint64_t n)
{
    struct submits s = *(struct submits *)arg;

    s.n = n;
    run_task(s.from, submitting, &s);
    kb_took(s.ns);
}

static void deque_run(void *arg, uint64_t n)
{
    kc_deque_t *d = arg;

    kb_pause();
    while (n > 0) {
        uint64_t count = at_most(n, BATCH);

        for (uint64_t i = 0; i < count; i++)
            must(kc__deque_push(d, d));
        kb_continue();
        for (uint64_t i = 0; i < count; i++)
            if (kc__deque_pop(d) != d)
                abort();
        kb_pause();
        n -= count;
    }
    kb_continue();
}

static int yielding(void *arg)
{
    for (uint64_t i = *(uint64_t *)arg; i > 0; i--)
        kc_yield();
    return 0;
}

static void lone_yield_run(void *arg, uint64_t n)
{
    (void)arg;
    run_task(KC_MAIN, yielding, &n);
}

static void ask_schedule(void)
{
    static struct submits main_main = { .from = KC_MAIN, .to = KC_MAIN };
    static struct submits own_own = { .from = KC_WORKER_AT(0), .to = KC_WORKER_AT(0) };
    static struct submits own_any = { .from = KC_WORKER_AT(0), .to = KC_WORKER };
    static struct submits many = { .from = KC_WORKER_AT(0), .to = KC_WORKER, .at_once = true };
    static kc_deque_t deque;

    must(kc__deque_init(&deque, BATCH));
    sched_open(1);
    kb_question("schedule and take, nothing runs");
    kb_case("kcoro submit, on main to main", submit_run, &main_main);
    kb_case("kcoro submit, on a worker to itself", submit_run, &own_own);
    kb_case("kcoro submit, on a worker to any", submit_run, &own_any);
    kb_case("kcoro submit_many of 64, on a worker to any", submit_run, &many);
    kb_case("kcoro put + take: a lone yield", lone_yield_run, NULL);
    kb_case("take off a deque of tasks, batch of 64", deque_run, &deque);
    kb_base("kcoro put + take: a lone yield");
    kb_measure();
    sched_close();
    kc__deque_destroy(&deque);
}

/* ---- yield --------------------------------------------------------------------------------- */

static void two_yield_run(void *arg, uint64_t n)
{
    (void)arg;
    n /= 2;
    submit(KC_MAIN, yielding, &n);
    run_task(KC_MAIN, yielding, &n);
}

static int sleeping(void *arg)
{
    for (uint64_t i = *(uint64_t *)arg; i > 0; i--)
        must(kc_sleep(0));
    return 0;
}

static void two_sleep_run(void *arg, uint64_t n)
{
    (void)arg;
    n /= 2;
    submit(KC_MAIN, sleeping, &n);
    run_task(KC_MAIN, sleeping, &n);
}

struct transfer {
    kcoro_t *first, *second;
    uint64_t n;
};

static int transfer_second(void *arg)
{
    struct transfer *t = arg;

    for (uint64_t i = 0; i < t->n; i += 2) {
        must(kcoro_unpark(t->first));
        if (i + 2 < t->n)
            kcoro_park();
    }
    return 0;
}

static int transfer_first(void *arg)
{
    struct transfer *t = arg;

    for (uint64_t i = 0; i < t->n; i += 2) {
        if (i > 0)
            must(kcoro_unpark(t->second));
        kcoro_park();
    }
    return 0;
}

static int transfer_start(void *arg)
{
    struct transfer *t = arg;

    t->second = kcoro_current();
    return transfer_second(arg);
}

static int transferring(void *arg)
{
    struct transfer *t = arg;

    t->first = kcoro_current();
    submit(KC_MAIN, transfer_start, t);
    return transfer_first(arg);
}

static void transfer_run(void *arg, uint64_t n)
{
    struct transfer t = { .n = n };

    (void)arg;
    run_task(KC_MAIN, transferring, &t);
}

static void ask_yield_two(void)
{
    sched_open(KC_NO_WORKERS);
    kb_question("yield, 2 coroutines, one thread");
    kb_case("kcoro kc_yield", two_yield_run, NULL);
    kb_case("kcoro transfer: unpark the other + park", transfer_run, NULL);
    kb_case("kcoro kc_sleep(0)", two_sleep_run, NULL);
    kb_go_case("go Gosched, one thread", "yield_1");
    kb_go_case("go unbuffered channel, one way, one thread", "hand_1");
    kb_base("go Gosched, one thread");
    kb_base("kcoro kc_yield");
    kb_measure();
    sched_close();
}

/* Tasks that yield until the scheduler ends; who brings left to 0 says when that was. */
static struct {
    uint64_t left;
    int64_t end;
} ring;

static int ring_member(void *arg)
{
    (void)arg;
    do {
        if (--ring.left == 0) {
            ring.end = kb_now();
            kc_sched_stop(sched);
        }
    } while (kc_yield() == 0);
    return 0;
}

static void ring_run(void *arg, uint64_t n)
{
    int64_t start = kb_now();

    (void)arg;
    ring.left = n;
    must(kc_sched_run(sched));
    kb_took(ring.end - start - kb_clock_cost());
}

static void ask_yield_ring(const char *title, size_t members)
{
    enum { LAPS = 12 }; /* after which all have started */

    sched_open(KC_NO_WORKERS);
    kb_question(title);
    kb_case("kcoro kc_yield", ring_run, NULL);
    kb_go_ring_case("go Gosched, one thread", members);
    kb_base("go Gosched, one thread");
    for (size_t i = 0; i < members; i++)
        submit(KC_MAIN, ring_member, NULL);
    ring_run(NULL, members * LAPS);
    kb_measure();
    sched_close();
}

/* ---- a task's life ------------------------------------------------------------------------- */

static int waking(void *arg)
{
    must(kcoro_unpark(arg));
    return 0;
}

static int spawning(void *arg)
{
    for (uint64_t i = *(uint64_t *)arg; i > 0; i--) {
        submit(KC_WORKER, waking, kcoro_current());
        kcoro_park();
    }
    return 0;
}

static void spawn_main_run(void *arg, uint64_t n)
{
    (void)arg;
    run_task(KC_MAIN, spawning, &n);
}

static void spawn_worker_run(void *arg, uint64_t n)
{
    (void)arg;
    run_task(KC_WORKER_AT(0), spawning, &n);
}

struct many {
    kc_affinity_t to;
    uint64_t lap;
};

static int spawning_many(void *arg)
{
    const struct many *m = arg;

    for (uint64_t i = 0; i < m->lap; i++)
        submit(m->to, counting, NULL);
    return 0;
}

/* Whole laps of MANY, however few n are. */
static void many_run(kc_affinity_t from, kc_affinity_t to, uint64_t n)
{
    struct many m = { .to = to, .lap = n < FEW ? n : MANY };
    uint64_t laps = (n + m.lap - 1) / m.lap;
    int64_t start = kb_now();

    for (uint64_t i = 0; i < laps; i++)
        run_task(from, spawning_many, &m);
    int64_t took = kb_now() - start;

    kb_took((int64_t)((double)took * (double)n / (double)(laps * m.lap)));
}

static void many_main_run(void *arg, uint64_t n)
{
    many_run(KC_MAIN, *(kc_affinity_t *)arg, n);
}

static void many_worker_run(void *arg, uint64_t n)
{
    many_run(KC_WORKER_AT(0), *(kc_affinity_t *)arg, n);
}

static kc_affinity_t to_main = KC_MAIN, to_first = KC_WORKER_AT(0), to_any = KC_WORKER;

static void ask_life_alone(void)
{
    sched_open(KC_NO_WORKERS);
    kb_question("a task's life, one thread");
    kb_case("kcoro one at a time, the spawner waits", spawn_main_run, NULL);
    kb_case("kcoro 100 000, to main", many_main_run, &to_main);
    kb_case("kcoro 100 000, to any", many_main_run, &to_any);
    kb_go_case("go spawn + join, one thread", "spawn_1");
    kb_go_case("go spawn 100 000, then wait, one thread", "many_1");
    kb_base("go spawn + join, one thread");
    kb_base("go spawn 100 000, then wait, one thread");
    kb_measure();
    sched_close();
}

static void measure_beside_go(void)
{
    kb_go_case("go spawn + join", "spawn");
    kb_go_case("go spawn 100 000, then wait", "many");
    kb_base("go spawn + join");
    kb_base("go spawn 100 000, then wait");
    kb_measure();
    sched_close();
}

static void ask_life_one_worker(void)
{
    sched_open(1);
    kb_question("a task's life, 1 worker");
    kb_case("kcoro one at a time, on the worker", spawn_worker_run, NULL);
    kb_case("kcoro 100 000, on the worker, to itself", many_worker_run, &to_first);
    kb_case("kcoro 100 000, on the worker, to any", many_worker_run, &to_any);
    kb_case("kcoro 100 000, on main, to any", many_main_run, &to_any);
    measure_beside_go();
}

static void ask_life_two_workers(void)
{
    sched_open(2);
    kb_question("a task's life, 2 workers");
    kb_case("kcoro one at a time, on a worker", spawn_worker_run, NULL);
    kb_case("kcoro 100 000, on a worker, to any", many_worker_run, &to_any);
    kb_case("kcoro 100 000, on main, to any", many_main_run, &to_any);
    measure_beside_go();
}

/* ---- across threads ------------------------------------------------------------------------ */

/* The cores this process may use, and one of them for main and the worker each. */
static cpu_set_t allowed, each[2];

static void cores_choose(void)
{
    int found = 0;

    must(sched_getaffinity(0, sizeof allowed, &allowed));
    CPU_ZERO(&each[0]);
    CPU_ZERO(&each[1]);
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET(i, &allowed))
            CPU_SET(i, &each[found++]);
    if (found == 1)
        each[1] = each[0];
}

/* Binds the thread that runs it. */
static int binding(void *arg)
{
    must(sched_setaffinity(0, sizeof(cpu_set_t), arg));
    return 0;
}

/* Binds main and the worker, or lets them go where they like. */
static void bind_both(const cpu_set_t *first, const cpu_set_t *second)
{
    must(binding((void *)(uintptr_t)first));
    run_task(KC_WORKER_AT(0), binding, (void *)(uintptr_t)second);
}

struct rally {
    kcoro_t *ping, *pong;
    uint64_t n;
    int64_t ns;
    bool asleep;
    atomic_bool over;
};

static int pinging(void *arg)
{
    struct rally *r = arg;

    r->ping = kcoro_current();
    int64_t start = kb_now();
    for (uint64_t i = 0; i < r->n; i++) {
        if (r->asleep) {
            must(kc_sleep(NAP));
            start = kb_now();
        }
        must(kcoro_unpark(r->pong));
        kcoro_park();
        if (r->asleep)
            r->ns += kb_now() - start - kb_clock_cost();
    }
    if (!r->asleep)
        r->ns = kb_now() - start - kb_clock_cost();
    atomic_store(&r->over, true);
    return 0;
}

static int ponging(void *arg)
{
    struct rally *r = arg;

    r->pong = kcoro_current();
    submit(KC_MAIN, pinging, r);
    for (uint64_t n = r->n; n > 0; n--) {
        kcoro_park();
        must(kcoro_unpark(r->ping));
    }
    return 0;
}

/* Keeps its thread awake. */
static int bustling(void *arg)
{
    struct rally *r = arg;

    while (!atomic_load_explicit(&r->over, memory_order_relaxed))
        kc_yield();
    return 0;
}

static void rally_run(void *arg, uint64_t n)
{
    struct rally r = { .n = n };

    (void)arg;
    run_task(KC_WORKER_AT(0), ponging, &r);
    kb_took(r.ns);
}

static void busy_rally_run(void *arg, uint64_t n)
{
    struct rally r = { .n = n };

    (void)arg;
    bind_both(&each[0], &each[1]);
    submit(KC_WORKER_AT(0), bustling, &r);
    submit(KC_MAIN, bustling, &r);
    run_task(KC_WORKER_AT(0), ponging, &r);
    bind_both(&allowed, &allowed);
    kb_took(r.ns);
}

static void asleep_rally_run(void *arg, uint64_t n)
{
    struct rally r = { .n = n, .asleep = true };

    (void)arg;
    run_task(KC_WORKER_AT(0), ponging, &r);
    kb_took(r.ns);
}

static int hopping(void *arg)
{
    struct rally *r = arg;
    int64_t start = kb_now();

    for (uint64_t i = 0; i < r->n; i++) {
        must(kc_hop(KC_WORKER_AT(0)));
        must(kc_hop(KC_MAIN));
    }
    r->ns = kb_now() - start - kb_clock_cost();
    atomic_store(&r->over, true);
    return 0;
}

static void hop_run(void *arg, uint64_t n)
{
    struct rally r = { .n = n };

    (void)arg;
    run_task(KC_MAIN, hopping, &r);
    kb_took(r.ns);
}

static void busy_hop_run(void *arg, uint64_t n)
{
    struct rally r = { .n = n };

    (void)arg;
    bind_both(&each[0], &each[1]);
    submit(KC_WORKER_AT(0), bustling, &r);
    submit(KC_MAIN, bustling, &r);
    run_task(KC_MAIN, hopping, &r);
    bind_both(&allowed, &allowed);
    kb_took(r.ns);
}

static void ask_across(void)
{
    cores_choose();
    sched_open(1);
    kb_question("round trip, main and a worker");
    kb_case("kcoro unpark and park, as it comes", rally_run, NULL);
    kb_case("kcoro unpark and park, both busy", busy_rally_run, NULL);
    kb_case("kcoro hop there and back, as it comes", hop_run, NULL);
    kb_case("kcoro hop there and back, both busy", busy_hop_run, NULL);
    kb_go_case("go two channels", "round");
    kb_go_case("go two channels, locked to threads", "round_locked");
    kb_base("go two channels");
    kb_base("go two channels, locked to threads");
    kb_measure();

    kb_question("round trip, both threads asleep");
    kb_case("kcoro unpark and park", asleep_rally_run, NULL);
    kb_go_case("go two channels", "round_asleep");
    kb_go_case("go two channels, locked to threads", "round_asleep_locked");
    kb_base("go two channels");
    kb_base("go two channels, locked to threads");
    kb_measure();
    sched_close();
}

/* ---- from a thread of nobody's ------------------------------------------------------------- */

struct foreign {
    kc_affinity_t to;
    bool stream; /* measured: all to the end; else the call alone, in batches */
    uint64_t n;
    int64_t ns;
    kcoro_t *keeper; /* without it the scheduler might run out of tasks */
    atomic_bool over;
};

static void *foreign_thread(void *arg)
{
    struct foreign *f = arg;

    for (uint64_t done = 0; done < f->n;) {
        uint64_t count = at_most(f->n - done, f->stream ? f->n : BATCH);
        int64_t start = kb_now();

        for (uint64_t i = 0; i < count; i++)
            submit(f->to, counting, NULL);
        done += count;
        if (!f->stream)
            f->ns += kb_now() - start - kb_clock_cost();
        while (ran_get() < done)
            sched_yield();
        if (f->stream)
            f->ns += kb_now() - start - kb_clock_cost();
    }
    atomic_store(&f->over, true);
    must(kcoro_unpark(f->keeper));
    return NULL;
}

static int keeping(void *arg)
{
    struct foreign *f = arg;
    pthread_t thread;

    f->keeper = kcoro_current();
    ran_clear();
    must(pthread_create(&thread, NULL, foreign_thread, f));
    while (!f->stream && !atomic_load_explicit(&f->over, memory_order_relaxed))
        kc_yield(); /* awake */
    kcoro_park();
    must(pthread_join(thread, NULL));
    return 0;
}

static void foreign_run(void *arg, uint64_t n)
{
    struct foreign *like = arg, f = { .to = like->to, .stream = like->stream, .n = n };

    run_task(KC_MAIN, keeping, &f);
    kb_took(f.ns);
}

static void ask_foreign(void)
{
    static struct foreign call = { .to = KC_MAIN };
    static struct foreign to_pump = { .to = KC_MAIN, .stream = true };
    static struct foreign own = { .to = KC_WORKER_AT(0), .stream = true };
    static struct foreign any = { .to = KC_WORKER, .stream = true };

    sched_open(1);
    kb_question("submit from a foreign thread");
    kb_case("kcoro submit alone, main is busy", foreign_run, &call);
    kb_case("kcoro submit to main, to the end of all", foreign_run, &to_pump);
    kb_case("kcoro submit to the worker, to the end of all", foreign_run, &own);
    kb_case("kcoro submit to any, to the end of all", foreign_run, &any);
    kb_go_case("go spawn 100 000, then wait", "many");
    kb_base("go spawn 100 000, then wait");
    kb_measure();
    sched_close();
}

int main(int argc, char **argv)
{
    kb_init(argc, argv, "sched", "tasks: queueing, taking, yielding, ending, waking");
    ask_schedule();
    ask_yield_two();
    ask_yield_ring("yield, ring of 1 000, one thread", 1000);
    ask_life_alone();
    ask_life_one_worker();
    ask_life_two_workers();
    ask_across();
    ask_foreign();
    ask_yield_ring("yield, ring of 100 000, one thread", MANY); /* last: it leaves much memory */
    return kb_done();
}
