/* SPDX-License-Identifier: MIT */
/*
 * handler.c - which thread is inside a handler.
 *
 * Apart from signal.c so that the model can tell its threads apart in its own way. Static
 * thread-local storage and not a field of kc_thread_t: that is allocated at a thread's first use of
 * the library, and an emit never allocates (G7).
 */
#include "flow/signal.h"

static __thread struct kc_handling handling __attribute__((tls_model("initial-exec")));

/* Neither inlined nor folded: see kc__thread in coro/thread.h. */
KC_NOINLINE struct kc_handling *kc__handling(void)
{
    __asm__ volatile("" ::: "memory");
    return &handling;
}

bool kc__signal_in_handler(void)
{
    return kc__handling()->depth > 0;
}
