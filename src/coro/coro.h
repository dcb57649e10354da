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
#include "coro/switch.h"
#include "coro/thread.h"
#include "coro/usage.h"

#include <kcoro/coro.h>
#include <kcoro/defer.h>

#define KC_CORO_MAGIC 0xc020c070u /* in use */

/* One state more than users see: SUSPENDED because a coroutine that it resumed runs. */
enum { KC_CORO_CALLING = KCORO_FINISHED + 1 };

/* block.flags. TASK: the body of a job: a scheduler runs, queues and frees it; no thread is its
 * owner. CHECKED: one that must look at its job after each switch. MIGRATES: one that may continue
 * on another worker. */
enum {
    KC_CORO_ROOT = 1,
    KC_CORO_DESTROYED = 2,
    KC_CORO_TASK = 4,
    KC_CORO_CHECKED = 8,
    KC_CORO_MIGRATES = 16
};

/*
 * kcoro.claim: whether what a scheduler's coroutine waits for has come (job/wait.h). It lies here
 * and not in the frame that waits, so that a cancel of very many does not touch their stacks. No
 * thread has such a serial, so none can resume it.
 */
#define KC_CLAIM_OPEN UINT32_MAX                /* it waits, or has not waited yet */
#define KC_CLAIM_UNCANCELLABLE (UINT32_MAX - 1) /* it waits, and cancellation does not end that */
#define KC_CLAIM_TAKEN (UINT32_MAX - 2)         /* it has come */
#define KC_CLAIM_CANCELLED (UINT32_MAX - 3)     /* it will not come */

/* What the layers above do for coroutines that they own. This table, which they define, is the only
 * way up from here. */
struct kc_coro_hooks {
    void (*run)(kcoro_t *me);    /* the body, on its own stack: does not come back             */
    void (*yield)(kcoro_t *me);  /* lets others run                                           */
    bool (*parks)(kcoro_t *me);  /* false: it must not park now                               */
    void (*parked)(kcoro_t *me); /* runs others until somebody has called ready for me        */
    void (*ready)(kcoro_t *co);  /* co went from PARKED to READY: queues it; any thread        */
    void (*cleanup)(kcoro_t *co, void (*fn)(void *), void *arg); /* fn(arg), shielded */
};
extern const KC_HIDDEN struct kc_coro_hooks kc__coro_hooks;

/*
 * The first cache line is all that a switch touches.
 */
struct kcoro {
    kc_block_t block;          /*     magic A; flags O                                        */
    void *sp;                  /* O   at rest: the stack pointer. Not started: the creator's
                                       floating-point control. Stack gone: how much was used   */
    kcoro_t *resumer;          /* O   where yield goes; NULL: the root, or in its last cleanups */
    KC_ATOMIC(uint32_t) state; /* A   kcoro_state_t or KC_CORO_CALLING                        */
    union {
        KC_ATOMIC(uint32_t) owner; /* A  serial of the thread that resumed it first; 0: none yet */
        KC_ATOMIC(uint32_t) claim; /* A  TASK: whether its wait has ended, KC_CLAIM_...        */
    };
    kc_gate_t gate;           /* A   park against unpark                                     */
    KC_ATOMIC(uint32_t) refs; /* A                                                           */
    kc_stack_t stack;         /* O   0: given back, or the root                              */
    kc_tool_t tool;           /* O                                                           */
    union {
        kcoro_fn_t fn;  /* I                                                                 */
        kcoro_t *inner; /* O  TASK, at rest: the coroutine inside it that waits, mostly itself */
    };
    union {
        void *arg;            /* I                                                            */
        struct kc_task *task; /* O  TASK: the job of the innermost open scope, else its own    */
    };
    kc_cleanup_t *cleanups; /* O   newest first                                            */
    uint64_t id;            /* I                                                           */
    char name[32];          /* O                                                           */
};

_Static_assert(sizeof(struct kcoro) <= KC_BLOCK_SIZE, "a coroutine fits a block");
_Static_assert(offsetof(struct kcoro, tool) + sizeof(kc_tool_t) <= KC_CACHE_LINE,
               "one line is hot");

/* coro.c: says in one line what is wrong with a pointer that is no coroutine, and aborts. */
KC_COLD _Noreturn void kc__coro_not_live(const char *call, const kcoro_t *co);

/* A pointer that the user gives: aborts if it is no coroutine. Casts const away: a control block is
 * never in read-only memory. */
KC_INLINE kcoro_t *kc__coro_live(const char *call, const kcoro_t *co)
{
    if (!co || kc_load_relaxed(&co->block.magic) != KC_CORO_MAGIC)
        kc__coro_not_live(call, co);
    return (kcoro_t *)(uintptr_t)co;
}

/* Fills a block as the root of a thread: RUNNING, no stack of its own. */
void kc__coro_make_main(kc_thread_t *t, kc_block_t *block);

/* A coroutine for the scheduler layer, READY to be switched to, with a stack of so many bytes,
 * which is of this class. NULL: no memory. */
kcoro_t *kc__coro_task(kc_thread_t *t, struct kc_task *task, size_t stack_size,
                       unsigned stack_class, uint64_t fp);

/* me, whose state is set, leaves for `to`, which may be itself; returns 0 when it runs again, on
 * whatever thread. Call it last: what returns after a switch is mispredicted
 * (docs/design/switch.md). */
int kc__coro_switch(kc_thread_t *t, kcoro_t *me, kcoro_t *to);

/* The same without tools, and to another one. */
KC_INLINE int kc__coro_switch_fast(kc_thread_t *t, kcoro_t *me, kcoro_t *to)
{
    KC_CHECK(t->current == me && me != to && !kc__tools);
    kc_store_relaxed(&to->state, KCORO_RUNNING);
    t->current = to;
    return kc__switch(&me->sp, to->sp);
}

/* The switch by which co has left, which is at rest, will return rc and not 0. */
void kc__coro_set_result(kcoro_t *co, int rc);

/* The same, with then(arg) called in between, on the other stack. */
void kc__coro_switch_then(kc_thread_t *t, kcoro_t *me, kcoro_t *to, void (*then)(void *arg),
                          void *arg);

/* The same, and me never comes back. The second without tools. */
_Noreturn void kc__coro_switch_last(kc_thread_t *t, kcoro_t *me, kcoro_t *to,
                                    void (*then)(void *arg), void *arg);

KC_INLINE _Noreturn void kc__coro_switch_last_fast(kc_thread_t *t, kcoro_t *to,
                                                   void (*then)(void *arg), void *arg)
{
    KC_CHECK(!kc__tools);
    kc_store_relaxed(&to->state, KCORO_RUNNING);
    t->current = to;
    t->left_from = NULL; /* it will not return, so nothing of it is predicted */
    kc__switch_last(to->sp, then, arg);
}

/* me is a scheduler's coroutine whose body has returned. Another one could go on on its stack. fp:
 * the control words that it must find. */
bool kc__coro_may_hand_over(const kcoro_t *me, uint64_t fp);

/* That one, for this task; NULL: no memory. Not with a tool, which knows a stack as one
 * coroutine's. */
kcoro_t *kc__coro_successor(kc_thread_t *t, kcoro_t *me, struct kc_task *task);

/* One that is at rest is not to go on: its thread may end it, see above. False: it has just been
 * unparked. */
bool kc__coro_task_abandon(kcoro_t *co);

/* If it is parked it goes on, as by kcoro_unpark; else no permit is left. */
void kc__coro_end_park(kcoro_t *co);

#endif
