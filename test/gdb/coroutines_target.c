/* SPDX-License-Identifier: MIT */
/*
 * coroutines_target.c - a program with coroutines in every state, for test/gdb/coroutines to look
 * at. With an argument it aborts there, for a core file.
 */
#include <kcoro/kcoro.h>

#include <stdlib.h>

static int dump_core;

void stop_here(void);
void __attribute__((noinline)) stop_here(void)
{
    __asm__ volatile("" ::: "memory");
    if (dump_core)
        abort();
}

static void __attribute__((noinline)) inner_wait(int depth)
{
    volatile int marker = 4711 + depth;

    kcoro_park();
    if (marker != 4711 + depth)
        abort();
}

static void __attribute__((noinline)) outer_wait(int depth)
{
    inner_wait(depth + 1);
    __asm__ volatile("" ::: "memory"); /* no tail call: the frame is looked for */
}

static void body_parks(void *arg)
{
    outer_wait(*(int *)arg);
    __asm__ volatile("" ::: "memory");
}

static void body_yields(void *arg)
{
    (void)arg;
    kcoro_yield();
    __asm__ volatile("" ::: "memory");
}

static void body_calls(void *arg)
{
    if (kcoro_resume(arg) != 0)
        abort();
    __asm__ volatile("" ::: "memory");
}

static void body_runs(void *arg)
{
    (void)arg;
    stop_here();
    __asm__ volatile("" ::: "memory");
}

static kcoro_t *make(kcoro_fn_t fn, void *arg, const char *name)
{
    kcoro_t *co = kcoro_create(fn, arg, 0);

    if (!co)
        abort();
    kcoro_set_name(co, name);
    return co;
}

int main(int argc, char **argv)
{
    (void)argv;
    dump_core = argc > 1;
    int depth = 1;
    kcoro_t *parked = make(body_parks, &depth, "parked one");  /* 1 */
    kcoro_t *yielded = make(body_yields, NULL, "yielded one"); /* 2 */
    kcoro_t *fresh = make(body_yields, NULL, "fresh one");     /* 3 */
    kcoro_t *runs = make(body_runs, NULL, "running one");      /* 4 */
    kcoro_t *calls = make(body_calls, runs, "calling one");    /* 5 */

    if (kcoro_resume(parked) != 0 || kcoro_resume(yielded) != 0 || kcoro_resume(calls) != 0)
        abort();
    kcoro_destroy(parked);
    kcoro_destroy(yielded);
    kcoro_destroy(fresh);
    kcoro_destroy(calls);
    kcoro_destroy(runs);
    return 0;
}
