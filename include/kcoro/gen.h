/* SPDX-License-Identifier: MIT */
/*
 * kcoro/gen.h - generators: a coroutine as an iterator.
 *
 *     static int count(kc_gen_t *g, void *arg)
 *     {
 *         for (intptr_t i = 0; i < 3; i++)
 *             kc_gen_yield(g, (void *)i);
 *         return 0;                            // or what went wrong
 *     }
 *     kc_gen_t g;
 *     rc = kc_gen_start(&g, count, NULL, 0);
 *     for (void *value; kc_gen_next(&g, &value);)
 *         ...
 *     rc = kc_gen_end(&g);                     // what count returned
 *
 * A generator needs no scheduler and runs only inside kc_gen_next. In a job, the generator's
 * function may call functions that wait: the whole job is suspended, and later continues inside the
 * generator. A cancel of the job makes such a wait return -ECANCELED, also in a job with
 * KC_JOB_UNWIND, which is unwound at its own next wait.
 */
#ifndef KCORO_GEN_H
#define KCORO_GEN_H

#include <kcoro/base.h>
#include <kcoro/coro.h>

#include <stdbool.h>
#include <stddef.h>

KC_BEGIN_DECLS

/* In your memory; it must not move between start and end. The fields are the library's. A copy of
 * one that was ended is always recognised: its use aborts with one line. */
typedef struct kc_gen {
    kcoro_t *co;
    uint64_t id;
    int (*fn)(struct kc_gen *g, void *arg);
    void *arg;
    void *value;
    int rc;
} kc_gen_t;

/*
 * Prepares a generator; nothing of fn runs yet. stack_size 0: 64 KiB.
 *
 * Context: anywhere.  Suspends: no.  Returns: 0; -ENOMEM; -EINVAL: a NULL.
 * Owns: a coroutine, until kc_gen_end.
 */
KC_API int kc_gen_start(kc_gen_t *g, int (*fn)(kc_gen_t *g, void *arg), void *arg,
                        size_t stack_size);

/*
 * Runs the generator to its next kc_gen_yield.
 *
 * Context: the thread of the first call, not inside the generator itself.
 * Suspends: in a job, where fn waits.  Cancel: not looked at here; the waits of fn report it.
 * Returns: true: *value (value may be NULL) is what fn yields; false: fn has returned.
 */
KC_API bool kc_gen_next(kc_gen_t *g, void **value);

/* Hands over a value; returns at the next kc_gen_next.  Context: in fn of g, else bad use. */
KC_API void kc_gen_yield(kc_gen_t *g, void *value);

/*
 * Ends the generator wherever it is: its cleanups run (defer.h), the rest of fn does not. Ending it
 * twice is harmless.
 *
 * Context: as kc_gen_next.  Suspends: no.
 * Returns: what fn returned, so that a stream that has ended can be told from one that broke off;
 *          -ECANCELED: fn was ended before it returned; -EINVAL: g is NULL.
 */
KC_API int kc_gen_end(kc_gen_t *g);

KC_END_DECLS

#endif
