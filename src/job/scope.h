/* SPDX-License-Identifier: MIT */
/*
 * scope.h - a piece of a body with children of its own.
 */
#ifndef KC_JOB_SCOPE_H
#define KC_JOB_SCOPE_H

#include "job/job.h"

/* Ends a scope that is the current one. rc: what its function returned. In *undone, which may be
 * NULL: a child left its work undone, or failed. */
int kc__scope_close(kcoro_t *co, kc_scope_t *scope, int rc, bool *undone);

/* As kc_scope, with a deadline, which is not 0; KC_FOREVER: none. In *did: fn returned 0, and so
 * did its children, whatever the result is. */
int kc__scope_run_until(kc_fn_t fn, void *arg, kc_time_t deadline, bool *did);

/* What marks a scope in a coroutine's list of cleanups. */
void kc__scope_mark(void *arg);

#endif
