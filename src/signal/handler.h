/* SPDX-License-Identifier: MIT */
/*
 * handler.h - calls of the user's functions that may not wait: handlers, disposes, callbacks.
 */
#ifndef KC_SIGNAL_HANDLER_H
#define KC_SIGNAL_HANDLER_H

#include "base/base.h"

#include <kcoro/coro.h>

struct kc_emit; /* signal.c */

/* True inside a handler of this thread, where nothing may wait (rule G6). */
bool kc__signal_is_in_handler(void);

/* One for each thread. Its address tells threads apart. */
struct kc_handler_state {
    uint32_t depth;        /* handlers that run on this thread, one inside the other          */
    struct kc_emit *work;  /* whose cancel runs on this thread; NULL: none, or a handler does */
    struct kc_emit *calls; /* whose handler runs on this thread; NULL: none                  */
    kcoro_t *marked;       /* the body that runs them, if it was not careful before           */
    const void *failing;   /* the job whose failure is reported on this thread; NULL: none    */
};

/* The calling thread's. It is valid until the caller suspends. */
struct kc_handler_state *kc__handler_state(void);

/* Before and after a call of the user's that may not wait. me: the calling thread's. */
void kc__handler_begin(struct kc_handler_state *me);
void kc__handler_end(struct kc_handler_state *me);

#endif
