/* SPDX-License-Identifier: MIT */
/*
 * handler.c - which thread is inside a handler.
 *
 * A coroutine that runs a handler is marked: so a yield, which reads the flags of its coroutine
 * anyway, need not look here each time.
 *
 * Apart from signal.c so that the model can tell its threads apart in its own way. Static
 * thread-local storage and not a field of kc_thread_t: that is allocated at a thread's first use of
 * the library, and an emit never allocates (G7).
 */
#include "signal/handler.h"

#include "coro/coro.h"

static __thread struct kc_handler_state handler_state __attribute__((tls_model("initial-exec")));

/* Neither inlined nor folded: see kc__thread in coro/thread.h. */
KC_NOINLINE struct kc_handler_state *kc__handler_state(void)
{
    __asm__ volatile("" ::: "memory");
    return &handler_state;
}

void kc__handler_begin(struct kc_handler_state *me)
{
    kcoro_t *co = kc__thread()->current;

    if (me->depth++ > 0)
        return;
    me->marked = kc_load_relaxed(&co->block.flags) == KC_CORO_TASK ? co : NULL;
    if (me->marked)
        kc_store_relaxed(&co->block.flags, KC_CORO_TASK | KC_CORO_CHECKED);
}

void kc__handler_end(struct kc_handler_state *me)
{
    if (--me->depth > 0)
        return;
    if (me->marked)
        kc_store_relaxed(&me->marked->block.flags, KC_CORO_TASK);
}

bool kc__signal_is_in_handler(void)
{
    return kc__handler_state()->depth > 0;
}
