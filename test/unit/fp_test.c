/* SPDX-License-Identifier: MIT */
/*
 * fp_test.c - floating-point state over switches, through the public calls (C5).
 */
#include "harness.h"

#include <kcoro/kcoro.h>

#include <fenv.h>
#include <math.h>
#include <stdlib.h>

static void body_upward(void *arg)
{
    (void)arg;
    fesetround(FE_UPWARD);
    kcoro_yield();
    CHECK_EQ(fegetround(), FE_UPWARD);
    kcoro_yield();
    CHECK_EQ(fegetround(), FE_UPWARD);
}

static void body_expects(void *arg)
{
    CHECK_EQ(fegetround(), *(int *)arg);
    kcoro_yield();
    CHECK_EQ(fegetround(), *(int *)arg);
}

static void resume(kcoro_t *co)
{
    CHECK_EQ(kcoro_resume(co), 0);
}

TEST(a_rounding_mode_set_in_one_coroutine_does_not_leak_into_another)
{
    int nearest = FE_TONEAREST;
    kcoro_t *a = kcoro_create(body_upward, NULL, 0);
    kcoro_t *b = kcoro_create(body_expects, &nearest, 0);

    resume(a);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    resume(b);
    resume(a);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    resume(b);
    resume(a);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    kcoro_destroy(a);
    kcoro_destroy(b);
}

TEST(a_fresh_coroutine_has_its_creators_rounding_mode)
{
    int down = FE_DOWNWARD;

    fesetround(FE_DOWNWARD);
    kcoro_t *co = kcoro_create(body_expects, &down, 0);
    fesetround(FE_TONEAREST);
    resume(co); /* started under another mode than it was created under */
    CHECK_EQ(fegetround(), FE_TONEAREST);
    resume(co);
    kcoro_destroy(co);
}

static void body_creates_under_upward(void *arg)
{
    kcoro_t **co = arg;
    static int up = FE_UPWARD;

    fesetround(FE_UPWARD);
    *co = kcoro_create(body_expects, &up, 0);
}

TEST(a_new_coroutine_never_has_the_mode_of_what_ran_before_on_the_thread)
{
    int nearest = FE_TONEAREST;
    kcoro_t *inner = NULL;
    kcoro_t *outer = kcoro_create(body_creates_under_upward, &inner, 0);
    kcoro_t *fresh = kcoro_create(body_expects, &nearest, 0);

    resume(outer);
    resume(fresh);
    resume(inner);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    kcoro_destroy(outer);
    kcoro_destroy(fresh);
    kcoro_destroy(inner);
}

/* A chain of dependent floating-point work that the compiler keeps in callee-saved registers where
 * the ABI has them; the result must be what it is without switches. */
static double work(int seed, int rounds, void (*between)(void))
{
    double a = seed + 0.5, b = 1.25, c = 0.75, d = 3.5, e = 0.125, f = 9.0, g = 2.0, h = 1.0;

    for (int i = 0; i < rounds; i++) {
        a = a * 1.0000001 + b;
        b = b + c * 0.5;
        c = sqrt(c + d);
        d = d * 0.999 + e;
        e = e + f * 1e-6;
        f = f - g * 1e-5;
        g = g + h;
        h = h * 0.9999;
        between();
    }
    return a + b + c + d + e + f + g + h;
}

static void no_switch(void)
{
}

struct task {
    int seed;
    double result;
};

static void body_work(void *arg)
{
    struct task *t = arg;

    t->result = work(t->seed, 500, kcoro_yield);
}

TEST(floating_point_values_survive_switches)
{
    enum { N = 8 };
    struct task task[N];
    kcoro_t *co[N];

    for (int i = 0; i < N; i++) {
        task[i].seed = i;
        co[i] = kcoro_create(body_work, &task[i], 0);
    }
    for (int left = N; left > 0;) {
        for (int i = 0; i < N; i++) {
            if (kcoro_state(co[i]) == KCORO_FINISHED)
                continue;
            resume(co[i]);
            left -= kcoro_state(co[i]) == KCORO_FINISHED;
        }
    }
    for (int i = 0; i < N; i++) {
        CHECK(task[i].result == work(i, 500, no_switch));
        kcoro_destroy(co[i]);
    }
}

#if defined(__x86_64__)

/* Leaves the x87 unit with a masked division by zero on record. */
static void body_divides_by_zero(void *arg)
{
    volatile long double zero = 0, one = 1;

    for (;;) {
        *(volatile long double *)arg = one / zero;
        kcoro_yield();
    }
}

TEST(an_exception_that_one_coroutine_masks_does_not_strike_another)
{
    long double sink;
    kcoro_t *co = kcoro_create(body_divides_by_zero, &sink, 0);
    volatile long double half = 0.5L;
    unsigned short trapping = 0x37b; /* all masked but division by zero */

    __asm__ volatile("fldcw %0" ::"m"(trapping));
    for (int i = 0; i < 3; i++) {
        resume(co);
        half = half * 2; /* dies by SIGFPE if the flag came along */
    }
    CHECK(half == 4);
    kcoro_destroy(co);
}

#endif

static void cleanup_expects_upward(void *arg)
{
    *(int *)arg = fegetround();
}

static void body_upward_with_cleanup(void *arg)
{
    fesetround(FE_UPWARD);
    CHECK_EQ(kc_defer(cleanup_expects_upward, arg), 0);
    kcoro_yield();
}

TEST(cleanups_that_destroy_runs_have_the_coroutines_own_mode)
{
    int seen = -1;
    kcoro_t *co = kcoro_create(body_upward_with_cleanup, &seen, 0);

    resume(co);
    kcoro_destroy(co);
    CHECK_EQ(seen, FE_UPWARD);
    CHECK_EQ(fegetround(), FE_TONEAREST);
}
