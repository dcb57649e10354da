/* SPDX-License-Identifier: MIT */
/*
 * defer.h - the cleanups of a coroutine.
 */
#ifndef KC_CORO_DEFER_H
#define KC_CORO_DEFER_H

#include "coro/coro.h"

/* Runs and removes all cleanups, newest first, those included that they add. */
void kc__defer_run(kcoro_t *co);

#endif
