/* SPDX-License-Identifier: MIT */
/*
 * gen.c - generators: resume and yield under another name, with a value.
 */
#include "coro/coro.h"

#include <kcoro/gen.h>

#include <errno.h>

static void run(void *arg)
{
    kc_gen_t *g = arg;

    g->rc = g->fn(g, g->arg);
}

/* Its coroutine is there: a number is never given out again, so this finds a copy of a generator
 * that was ended. */
static void check(const char *call, const kc_gen_t *g)
{
    if (kc_load_relaxed(&g->co->block.magic) != KC_CORO_MAGIC || g->co->id != g->id)
        kc__usage(call, "a copy of a generator that was ended " KC_RULE("J32"));
}

int kc_gen_start(kc_gen_t *g, int (*fn)(kc_gen_t *g, void *arg), void *arg, size_t stack_size)
{
    if (!g || !fn)
        return -EINVAL;
    *g = (kc_gen_t){ .fn = fn, .arg = arg, .rc = -ECANCELED };
    g->co = kcoro_create(run, g, stack_size);
    g->id = g->co ? kcoro_id(g->co) : 0;
    return g->co ? 0 : -ENOMEM;
}

bool kc_gen_next(kc_gen_t *g, void **value)
{
    if (!g || !g->co)
        kc__usage("kc_gen_next", "the generator was not started, or has been ended");
    check("kc_gen_next", g);
    if (kcoro_state(g->co) == KCORO_FINISHED)
        return false;
    if (kcoro_resume(g->co) != 0)
        kc__usage("kc_gen_next",
                  "the generator runs, or belongs to another thread " KC_RULE("C2"));
    if (kcoro_state(g->co) == KCORO_FINISHED)
        return false;
    if (value)
        *value = g->value;
    return true;
}

void kc_gen_yield(kc_gen_t *g, void *value)
{
    if (!g || kcoro_current() != g->co)
        kc__usage("kc_gen_yield", "called outside the generator");
    g->value = value;
    kcoro_yield();
}

int kc_gen_end(kc_gen_t *g)
{
    if (!g)
        return -EINVAL;
    if (!g->co)
        return g->rc;
    check("kc_gen_end", g);
    kcoro_destroy(g->co);
    g->co = NULL;
    return g->rc;
}
