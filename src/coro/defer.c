/* SPDX-License-Identifier: MIT */
/*
 * defer.c - cleanups of a coroutine: one list, newest first.
 *
 * Nodes of kc_defer are allocated; nodes of KC_CLEANUP lie in the frame of their block, which
 * outlives them: the block's end, or the unwinding above the suspended frame, takes them off.
 * kc_cleanup_t.where tells them apart: it names the coroutine of a block's node, and is NULL in an
 * allocated one and in a block's node on a plain thread, which is on no list.
 */
#include "coro/defer.h"

#include "base/os.h"
#include "coro/coro.h"

#include <errno.h>

/* The coroutine whose body calls; NULL on a thread's own stack. */
static kcoro_t *body(void)
{
    kc_thread_t *t = kc__thread();

    return t->current != t->main_co ? t->current : NULL;
}

static void list_add(kcoro_t *co, kc_cleanup_t *c, void (*fn)(void *), void *arg)
{
    c->fn = fn;
    c->arg = arg;
    c->next = co->cleanups;
    co->cleanups = c;
}

int kc_defer(void (*fn)(void *), void *arg)
{
    kcoro_t *co = body();

    if (!fn)
        return -EINVAL;
    if (!co)
        return -EPERM;
    kc_cleanup_t *c = kc__alloc(sizeof *c);
    if (!c) {
        fn(arg);
        return -ENOMEM;
    }
    list_add(co, c, fn, arg);
    return 0;
}

bool kc_undefer(void (*fn)(void *), void *arg)
{
    kcoro_t *co = body();

    for (kc_cleanup_t **link = co ? &co->cleanups : NULL; link && *link; link = &(*link)->next) {
        kc_cleanup_t *c = *link;
        if (!c->where && c->fn == fn && c->arg == arg) {
            *link = c->next;
            kc__free(c);
            return true;
        }
    }
    return false;
}

void kc_cleanup_push(kc_cleanup_t *c, void (*fn)(void *), void *arg)
{
    kcoro_t *co = body();

    if (!c || !fn)
        kc__usage("kc_cleanup_push", "the cleanup or its function is NULL " KC_RULE("J16"));
    c->where = co;
    c->fn = fn;
    c->arg = arg;
    c->next = c; /* on no list, and begun */
    if (co)
        list_add(co, c, fn, arg);
}

/* Takes c, of the caller's block, off the list. False: it was never put on it, so what it says may
 * be anything. */
static bool take_off(kcoro_t *co, kc_cleanup_t *c)
{
    kc_cleanup_t **link = co ? &co->cleanups : NULL;

    while (link && *link && *link != c)
        link = &(*link)->next;
    if (c->where != co || (link ? !*link : c->next != c))
        return false;
    if (link)
        *link = c->next;
    c->next = NULL;
    return true;
}

void kc_cleanup_pop(kc_cleanup_t *c)
{
    if (!c)
        kc__usage("kc_cleanup_pop", "the cleanup is NULL " KC_RULE("J16"));
    kcoro_t *co = body();
    if (!take_off(co, c))
        kc__usage("KC_CLEANUP",
                  "its block ends, but it was never reached: look for a goto or switch "
                  "that jumps over it into its block; or it was reached in another "
                  "coroutine " KC_RULE("J16"));
    if (co && (kc_load_relaxed(&co->block.flags) & KC_CORO_TASK))
        kc__coro_hooks.cleanup(co, c->fn, c->arg);
    else
        c->fn(c->arg);
}

void kc__defer_run(kcoro_t *co)
{
    while (co->cleanups) {
        kc_cleanup_t *c = co->cleanups;
        void (*fn)(void *) = c->fn;
        void *arg = c->arg;

        co->cleanups = c->next;
        if (!c->where)
            kc__free(c);
        fn(arg);
    }
}
