/* SPDX-License-Identifier: MIT */
/*
 * coro.h - a coroutine's control block, for the files of this folder and the layers above.
 *
 * Legend: I immutable while in use, O written by the thread that owns the coroutine, A atomic.
 */
#ifndef KC_CORO_CORO_H
#define KC_CORO_CORO_H

#include "base/block.h"
#include "coro/gate.h"
#include "coro/sanitize.h"
#include "coro/stack.h"
#include "coro/thread.h"

#include <kcoro/coro.h>
#include <kcoro/defer.h>

#define KC_CORO_MAGIC 0xc020c070u /* in use */

/* One state more than users see: SUSPENDED because a coroutine that it resumed runs. */
enum { KC_CORO_CALLING = KCORO_FINISHED + 1 };

enum { KC_CORO_ROOT = 1, KC_CORO_DESTROYED = 2 }; /* block.flags */

/*
 * The first cache line is all that a switch touches.
 */
struct kcoro {
    kc_block_t block;          /*     magic A; flags O                                        */
    void *sp;                  /* O   at rest: the stack pointer. Not started: the creator's
                                       floating-point control. Stack gone: how much was used   */
    kcoro_t *resumer;          /* O   where yield goes; NULL: the root, or in its last cleanups */
    KC_ATOMIC(uint32_t) state; /* A   kcoro_state_t or KC_CORO_CALLING                        */
    KC_ATOMIC(uint32_t) owner; /* A   serial of the thread that resumed it first; 0: none yet */
    kc_gate_t gate;            /* A   park against unpark                                     */
    KC_ATOMIC(uint32_t) refs;  /* A                                                           */
    kc_stack_t stack;          /* O   0: given back, or the root                              */
    kc_tool_t tool;            /* O                                                           */
    kcoro_fn_t fn;             /* I                                                           */
    void *arg;                 /* I                                                           */
    kc_cleanup_t *cleanups;    /* O   newest first                                            */
    uint64_t id;               /* I                                                           */
    char name[32];             /* O                                                           */
};

_Static_assert(sizeof(struct kcoro) <= KC_BLOCK_SIZE, "a coroutine fits a block");
_Static_assert(offsetof(struct kcoro, tool) + sizeof(kc_tool_t) <= KC_CACHE_LINE,
               "one line is hot");

/* Fills a block as the root of a thread: RUNNING, no stack of its own. */
void kc__coro_root(kc_thread_t *t, kc_block_t *block);

/* Runs and removes all cleanups, newest first, those included that they add. */
void kc__defer_run(kcoro_t *co);

/* Bad use: prints the call, what is wrong, the rule and the caller's coroutine; aborts. */
_Noreturn KC_COLD void kc__usage(const char *call, const char *what);

/* overflow.c: gives this thread a signal stack if reports are on. False: no memory. */
bool kc__overflow_thread(kc_thread_t *t);
void kc__overflow_thread_end(kc_thread_t *t);

#endif
