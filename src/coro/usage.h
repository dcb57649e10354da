/* SPDX-License-Identifier: MIT */
/*
 * usage.h - the line and the abort for bad use.
 */
#ifndef KC_CORO_USAGE_H
#define KC_CORO_USAGE_H

#include "base/base.h"

#include <kcoro/coro.h>

/* What a line for people calls co: job 3 "reader", or coroutine 5 if it has no name. */
typedef struct kc_label {
    char text[80];
} kc_label_t;
kc_label_t kc__coro_label(const kcoro_t *co);

/* Bad use: prints the call, what is wrong, the rule and the caller's coroutine; aborts. */
_Noreturn KC_COLD void kc__usage(const char *call, const char *what);

#endif
