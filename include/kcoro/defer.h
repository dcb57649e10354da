/* SPDX-License-Identifier: MIT */
/*
 * kcoro/defer.h - cleanups that run however a coroutine ends.
 *
 * C has no destructors, and a coroutine that is destroyed while it is suspended never returns
 * through its frames. What it holds is therefore registered: with kc_defer for the rest of the
 * body, or with KC_CLEANUP for one block. All of them run newest first, on the coroutine's own
 * stack.
 */
#ifndef KCORO_DEFER_H
#define KCORO_DEFER_H

#include <kcoro/base.h>

#include <stdbool.h>

KC_BEGIN_DECLS

/*
 * Registers fn(arg), which is called when the current coroutine's body returns or is destroyed. arg
 * must outlive the body's frame: at the body's return its local variables are gone already (use
 * KC_CLEANUP for them). At the body's return fn may suspend; when kcoro_destroy runs it, it may
 * not.
 *
 * In a job the cleanup belongs to the innermost open scope, else to the body, and runs when that
 * ends and everything launched there has ended, on every path: done, failed, cancelled, unwound. It
 * is shielded from cancellation until the grace is over (kcoro/job.h).
 *
 * Context: a coroutine.  Suspends: no.
 * Returns: 0; -ENOMEM: fn(arg) has been called at once, so that nothing leaks; -EPERM: outside a
 *          coroutine or in a main coroutine, whose body has no end: fn is not called; -EINVAL: fn
 *          is NULL.
 */
KC_API KC_WARN_UNUSED int kc_defer(void (*fn)(void *), void *arg);

/*
 * Removes the newest kc_defer of the current coroutine with this fn and arg, in whichever of its
 * scopes, without running it.
 *
 * Context: anywhere.  Suspends: no.  Returns: true: removed; false: there is none.
 */
KC_API bool kc_undefer(void (*fn)(void *), void *arg);

/* One cleanup of a block, in the block's own frame. The fields are the library's. */
typedef struct kc_cleanup {
    struct kc_cleanup *next;
    void (*fn)(void *);
    void *arg;
    void *where;
} kc_cleanup_t;

/* KC_CLEANUP expands to these two; do not call them in another way.  Context: as KC_CLEANUP. */
KC_API void kc_cleanup_push(kc_cleanup_t *c, void (*fn)(void *), void *arg);
KC_API void kc_cleanup_pop(kc_cleanup_t *c);

#define KC_CLEANUP_NAME_(line) kc_cleanup_at_line_##line
#define KC_CLEANUP_NAME(line) KC_CLEANUP_NAME_(line)

/*
 * Registers fn(arg), which is called at the end of the enclosing block, and also if the coroutine
 * is destroyed while it is suspended inside the block. Costs no allocation, cannot fail, works on
 * plain threads too. arg may point to the block's own variables. One per source line. A goto or
 * switch must not jump over it into the rest of its block, because the end of the block would run a
 * cleanup that was never registered: that is bad use (put the block into braces of its own, or
 * return instead).
 *
 *     FILE *f = fopen(path, "r");
 *     KC_CLEANUP(close_file, f);
 */
#define KC_CLEANUP(fn, arg)                                                                       \
    __attribute__((cleanup(kc_cleanup_pop))) kc_cleanup_t KC_CLEANUP_NAME(__LINE__);              \
    kc_cleanup_push(&KC_CLEANUP_NAME(__LINE__), (fn), (arg))

KC_END_DECLS

#endif
