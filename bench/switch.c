/* SPDX-License-Identifier: MIT */
/*
 * switch.c - what does it cost to leave one stack for another?
 *
 * Measured: one way, between two contexts on one thread that do nothing else. n ways are n / 2
 * times there and back, for everybody. The primitive kc__switch keeps the floating-point control
 * words, as jump_fcontext does; the floor does not. kcoro_resume + kcoro_yield and kcoro_yield_to
 * are the public calls with all their checks. The schedulers' yields (boost.fiber, Go) take part
 * for orientation: they also choose whom to run next.
 *
 * The second question shows the memory behind it: resume + yield over a ring of many coroutines,
 * each resumed in turn, so that a switch finds its target's stack in the cache or does not.
 *
 * Not measured: the cost of what a real body does to caches and predictors between two switches.
 */
#include "coro/switch.h"
#include "harness.h"
#include "hold.h"
#include "peers/boost.h"
#include "peers/go.h"

#include <kcoro/coro.h>

#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define FLOOR "floor: 6 registers, pop + jmp"

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "bench_switch: %s failed\n", what);
    exit(1);
}

/* The top of a fresh stack. */
static char *stack_top(void)
{
    char *stack = aligned_alloc(4096, KB_STACK);

    must(stack, "aligned_alloc");
    return stack + KB_STACK;
}

/* ---- the floor ----------------------------------------------------------------------------- */

#if defined(__x86_64__)

void kb_floor_switch(void **save_sp, void *to_sp); /* floor_x86_64.S */
void kb_floor_switch_fp(void **save_sp, void *to_sp);

static void *floor_main, *floor_other, *floor_fp_main, *floor_fp_other;

static void floor_entry(void)
{
    for (;;)
        kb_floor_switch(&floor_other, floor_main);
}

static void floor_run(void *arg, uint64_t n)
{
    (void)arg;
    for (uint64_t i = 0; i < n / 2; i++)
        kb_floor_switch(&floor_main, floor_other);
}

static void floor_fp_entry(void)
{
    for (;;)
        kb_floor_switch_fp(&floor_fp_other, floor_fp_main);
}

static void floor_fp_run(void *arg, uint64_t n)
{
    (void)arg;
    for (uint64_t i = 0; i < n / 2; i++)
        kb_floor_switch_fp(&floor_fp_main, floor_fp_other);
}

static void *floor_stack(void (*entry)(void))
{
    void **sp = (void **)(void *)stack_top();

    *--sp = NULL; /* where entry's return address would be */
    *--sp = (void *)(uintptr_t)entry;
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    return sp;
}

static void add_floor(void)
{
    floor_other = floor_stack(floor_entry);
    floor_fp_other = floor_stack(floor_fp_entry);
    kb_case(FLOOR, floor_run, NULL);
    kb_case("floor that stores MXCSR and x87 control", floor_fp_run, NULL);
}

#else

static void add_floor(void)
{
    kb_skip(FLOOR, "not written for this architecture");
}

#endif

/* ---- the primitive ------------------------------------------------------------------------- */

static void *primitive_main, *primitive_other;

static void primitive_entry(void *arg)
{
    (void)arg;
    for (;;)
        kc__switch(&primitive_other, primitive_main);
}

static void primitive_run(void *arg, uint64_t n)
{
    (void)arg;
    for (uint64_t i = 0; i < n / 2; i++)
        kc__switch(&primitive_main, primitive_other);
}

static void add_primitive(void)
{
    kc__switch_tune();
    primitive_other = kc__switch_make(stack_top(), kc__switch_fp_control(), primitive_entry, NULL);
    kb_case("kc__switch", primitive_run, NULL);
}

/* ---- the public calls ---------------------------------------------------------------------- */

static void yielding(void *arg)
{
    (void)arg;
    for (;;)
        kcoro_yield();
}

static void resume_run(void *arg, uint64_t n)
{
    kcoro_t *co = arg;

    for (uint64_t i = 0; i < n / 2; i++)
        if (kcoro_resume(co) != 0)
            abort();
}

struct pair {
    kcoro_t *first, *second;
    uint64_t rounds;
};

static void transfer_first(void *arg)
{
    struct pair *p = arg;

    for (;;) {
        for (uint64_t i = 0; i < p->rounds; i++)
            if (kcoro_yield_to(p->second) != 0)
                abort();
        kcoro_yield();
    }
}

static void transfer_second(void *arg)
{
    struct pair *p = arg;

    for (;;)
        if (kcoro_yield_to(p->first) != 0)
            abort();
}

static void transfer_run(void *arg, uint64_t n)
{
    struct pair *p = arg;

    p->rounds = n / 2;
    resume_run(p->first, 2);
}

static void add_public(void)
{
    static struct pair pair;
    kcoro_t *co = kcoro_create(yielding, NULL, 0);

    pair.first = kcoro_create(transfer_first, &pair, 0);
    pair.second = kcoro_create(transfer_second, &pair, 0);
    must(co && pair.first && pair.second, "kcoro_create");
    kb_case("kcoro_resume + kcoro_yield, halved", resume_run, co);
    kb_case("kcoro_yield_to", transfer_run, &pair);
}

/* ---- ucontext ------------------------------------------------------------------------------ */

static ucontext_t ucontext_main, ucontext_other;

static void ucontext_entry(void)
{
    for (;;)
        swapcontext(&ucontext_other, &ucontext_main);
}

static void ucontext_run(void *arg, uint64_t n)
{
    (void)arg;
    for (uint64_t i = 0; i < n / 2; i++)
        swapcontext(&ucontext_main, &ucontext_other);
}

static void add_ucontext(void)
{
    must(getcontext(&ucontext_other) == 0, "getcontext");
    ucontext_other.uc_stack.ss_sp = stack_top() - KB_STACK;
    ucontext_other.uc_stack.ss_size = KB_STACK;
    makecontext(&ucontext_other, ucontext_entry, 0);
    kb_case("ucontext swapcontext", ucontext_run, NULL);
}

/* ---- ring ---------------------------------------------------------------------------------- */

struct ring {
    size_t length, next;
    kcoro_t *co[];
};

static void ring_walk(struct ring *r, uint64_t steps)
{
    size_t at = r->next;

    for (uint64_t i = 0; i < steps; i++) {
        if (kcoro_resume(r->co[at]) != 0)
            abort();
        at = at + 1 == r->length ? 0 : at + 1;
    }
    r->next = at;
}

static void ring_run(void *arg, uint64_t n)
{
    kb_pause(); /* other contenders had the cache meanwhile */
    ring_walk(arg, KB_RING_WARM_UP);
    kb_continue();
    ring_walk(arg, n / 2);
}

static void add_ring(size_t length, const char *name)
{
    struct ring *r = malloc(sizeof *r + length * sizeof(kcoro_t *));

    must(r, "malloc");
    r->length = length;
    r->next = 0;
    for (size_t i = 0; i < length; i++) {
        r->co[i] = kcoro_create(yielding, NULL, KB_STACK);
        must(r->co[i] && kcoro_resume(r->co[i]) == 0, "starting a coroutine of the ring");
    }
    kb_case(name, ring_run, r);
}

int main(int argc, char **argv)
{
    kb_init(argc, argv, "switch", "leaving one stack for another");

    kb_question("one-way switch, 2 contexts");
    add_floor();
    add_primitive();
    add_public();
    kb_boost_switch();
    kb_go_case("go Gosched, 2 goroutines, one thread", "yield_1");
    add_ucontext();
    kb_base(FLOOR);
    kb_base(KB_FCONTEXT_SWITCH);
    kb_measure();

    kb_question("one-way switch, a ring of contexts");
    add_ring(1, "kcoro ring of 1");
    add_ring(1000, "kcoro ring of 1 000");
    add_ring(100000, "kcoro ring of 100 000");
    kb_boost_ring(1, "boost.context fcontext ring of 1");
    kb_boost_ring(1000, "boost.context fcontext ring of 1 000");
    kb_boost_ring(100000, "boost.context fcontext ring of 100 000");
    kb_base("kcoro ring of 1");
    kb_measure();
    return kb_done();
}
