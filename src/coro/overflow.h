/* SPDX-License-Identifier: MIT */
/*
 * overflow.h - who has run off its stack, if that is to be reported.
 */
#ifndef KC_CORO_OVERFLOW_H
#define KC_CORO_OVERFLOW_H

#include "coro/thread.h"

/* Gives this thread a signal stack if reports are on. False: no memory. */
bool kc__overflow_thread(kc_thread_t *t);
void kc__overflow_thread_end(kc_thread_t *t);

#endif
