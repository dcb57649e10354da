/* SPDX-License-Identifier: MIT */
/*
 * create.c - what does a coroutine cost from its creation to its end?
 *
 * Warm: one after the other is created, run to its end and destroyed, so that each finds what the
 * one before gave back. Beside it the two switches that are in it (base A) and the three steps
 * alone, measured over batches; a batch spills out of what one at a time finds in the nearest
 * cache, so the steps' sum is somewhat more than the whole.
 *
 * Cold: many are created and started in a fresh process and none is destroyed, so that each needs
 * memory that nobody has touched. Nearly all of that is the kernel's page faults. How much: the
 * faults are counted (getrusage), one fault's cost is measured in a second fresh process (first
 * touch of pages as far apart as stacks, huge pages off), and the share is faults x cost / time.
 *
 * Peers: who spawns and joins (boost.fiber, Go) also schedules; that is what their users pay, and
 * more than a bare coroutine does. boost.context's fcontext is the opposite: no allocation at
 * all. Not measured: creation on one thread and destruction on another.
 */
#include "harness.h"
#include "hold.h"
#include "peers/boost.h"
#include "peers/go.h"

#include <kcoro/coro.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 128 };
enum { COLD_COUNT = 20000, COLD_ROUNDS = 15, COLD_ROUNDS_QUICK = 5, COLD_HOLDERS = 8 };

static uint64_t ran; /* so that bodies have something to do */

static void body(void *arg)
{
    (void)arg;
    ran++;
}

static void yielding(void *arg)
{
    (void)arg;
    for (;;)
        kcoro_yield();
}

static kcoro_t *create(kcoro_fn_t fn)
{
    kcoro_t *co = kcoro_create(fn, NULL, KB_STACK);

    if (!co) {
        fprintf(stderr, "bench_create: kcoro_create: %s\n", kcoro_create_error());
        exit(1);
    }
    return co;
}

static void resume(kcoro_t *co)
{
    if (kcoro_resume(co) != 0)
        abort();
}

/* ---- warm ---------------------------------------------------------------------------------- */

static void two_switches_run(void *arg, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        resume(arg);
}

static void life_run(void *arg, uint64_t n)
{
    (void)arg;
    for (uint64_t i = 0; i < n; i++) {
        kcoro_t *co = create(body);

        resume(co);
        kcoro_destroy(co);
    }
}

static void unstarted_run(void *arg, uint64_t n)
{
    (void)arg;
    for (uint64_t i = 0; i < n; i++)
        kcoro_destroy(create(body));
}

static void killed_run(void *arg, uint64_t n)
{
    (void)arg;
    for (uint64_t i = 0; i < n; i++) {
        kcoro_t *co = create(yielding);

        resume(co);
        kcoro_destroy(co);
    }
}

/* Three steps, of which one is measured. */
enum step { CREATE, RESUME, DESTROY };

static void batch_run(enum step measured, kcoro_t **co, int count)
{
    if (measured == CREATE)
        kb_continue();
    for (int i = 0; i < count; i++)
        co[i] = create(body);
    if (measured == CREATE)
        kb_pause();
    if (measured == RESUME)
        kb_continue();
    for (int i = 0; i < count; i++)
        resume(co[i]);
    if (measured == RESUME)
        kb_pause();
    if (measured == DESTROY)
        kb_continue();
    for (int i = 0; i < count; i++)
        kcoro_destroy(co[i]);
    if (measured == DESTROY)
        kb_pause();
}

static void step_run(void *arg, uint64_t n)
{
    kcoro_t *co[BATCH];

    kb_pause();
    for (uint64_t done = 0; done < n; done += BATCH)
        batch_run(*(enum step *)arg, co, n - done < BATCH ? (int)(n - done) : BATCH);
    kb_continue();
}

static void *thread_body(void *arg)
{
    body(arg);
    return NULL;
}

static void pthread_run(void *arg, uint64_t n)
{
    pthread_t thread;

    (void)arg;
    for (uint64_t i = 0; i < n; i++)
        if (pthread_create(&thread, NULL, thread_body, NULL) != 0 ||
            pthread_join(thread, NULL) != 0)
            abort();
}

static void ask_warm(void)
{
    static enum step steps[] = { CREATE, RESUME, DESTROY };

    kb_question("create + run + destroy, warm");
    kb_case("kcoro two switches (resume + yield)", two_switches_run, create(yielding));
    kb_case("kcoro create + run + destroy", life_run, NULL);
    kb_case("kcoro create + run + destroy suspended", killed_run, NULL);
    kb_case("kcoro create + destroy, never run", unstarted_run, NULL);
    kb_case("kcoro create only, batch of 128", step_run, &steps[0]);
    kb_case("kcoro run only, batch of 128", step_run, &steps[1]);
    kb_case("kcoro destroy finished only, batch of 128", step_run, &steps[2]);
    kb_boost_create();
    kb_go_case("go spawn + join, one thread", "spawn_1");
    kb_go_case("go spawn + join", "spawn");
    kb_case("pthread_create + pthread_join", pthread_run, NULL);
    kb_base("kcoro two switches (resume + yield)");
    kb_base("go spawn + join, one thread");
    kb_measure();
}

/* ---- cold ---------------------------------------------------------------------------------- */

struct cold {
    double ns[COLD_ROUNDS], faults[COLD_ROUNDS], share[COLD_ROUNDS], count;
    int rounds;
};

/* One round: what a coroutine took, and what of it the faults account for. */
static void cold_add(struct cold *c, const struct kb_held *held, double fault_ns)
{
    double ns = held->hold_ns / held->count, faults = held->faults / held->count;

    c->count = held->count;
    c->ns[c->rounds] = ns;
    c->faults[c->rounds] = faults;
    c->share[c->rounds++] = 100 * faults * fault_ns / ns;
}

static void cold_print(const char *name, struct cold *c, double fault_ns)
{
    double ns = kb_median(c->ns, c->rounds);
    double row[] = { c->count, ns, kb_median(c->faults, c->rounds), fault_ns,
                     kb_median(c->share, c->rounds) };

    if (c->rounds > 0)
        kb_grid_row(name, row);
    else
        kb_grid_skip(name, "its process failed");
}

static bool go_hold(size_t count, struct kb_held *held)
{
    double v[7];

    if (!kb_go_once("hold", count, 7, v))
        return false;
    *held = (struct kb_held){ .count = v[0], .hold_ns = v[1], .faults = v[6] };
    return true;
}

/* One round: everybody once, each in a process of its own. */
static void cold_round(const struct kb_holder *const *holders, struct cold *cold, double fault_ns)
{
    struct kb_held held;

    for (int k = 0; holders[k]; k++)
        if (kb_hold(holders[k], COLD_COUNT, &held) && held.count > 0)
            cold_add(&cold[k + 1], &held, fault_ns);
    if (go_hold(COLD_COUNT, &held))
        cold_add(&cold[0], &held, fault_ns);
}

static void ask_cold(void)
{
    static const char *const heads[] = { "count", "each ns", "faults each", "fault ns",
                                         "faults' %" };
    static struct cold cold[COLD_HOLDERS]; /* Go, and the holders */
    const struct kb_holder *holders[COLD_HOLDERS] = { &kb_hold_floor, &kb_hold_kcoro };
    const struct kb_holder *boost;
    size_t peers = kb_boost_holders(&boost);
    int rounds = kb_quick() ? COLD_ROUNDS_QUICK : COLD_ROUNDS;
    double fault[COLD_ROUNDS], fault_ns;

    kb_grid("create + first resume, cold, each a process", 5, heads);
    if (!kb_grid_wants("all"))
        return;
    for (size_t i = 0; i < peers; i++)
        holders[i + 2] = &boost[i];
    for (int i = 0; i < rounds; i++) {
        fault[i] = kb_hold_fault_ns(COLD_COUNT);
        cold_round(holders, cold, fault[i]);
    }
    fault_ns = kb_median(fault, rounds);
    for (int k = 0; holders[k]; k++)
        cold_print(holders[k]->name, &cold[k + 1], fault_ns);
    if (peers == 0)
        kb_grid_skip("boost.context, boost.fiber", "not installed");
    if (kb_go_present())
        cold_print("go", &cold[0], fault_ns);
    else
        kb_grid_skip("go", kb_go_missing);
}

int main(int argc, char **argv)
{
    kb_init(argc, argv, "create", "a coroutine from its creation to its end");
    ask_cold(); /* first: its children copy this process, and should find little in it */
    ask_warm();
    return kb_done();
}
