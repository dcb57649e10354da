/* SPDX-License-Identifier: MIT */
/*
 * kcoro/call.h - a function to be run, and one of several.
 */
#ifndef KCORO_CALL_H
#define KCORO_CALL_H

#include <kcoro/base.h>

KC_BEGIN_DECLS

/* What runs as a task. Returns 0, or the failure: a negative errno or your own positive code. */
typedef int (*kc_fn_t)(void *arg);

typedef struct kc_launch_opts kc_launch_opts_t; /* what a job is to be like: kcoro/job.h */

/* One of several calls. rc and payload are results, where the call that takes them gives any. */
typedef struct {
    kc_fn_t fn;
    void *arg;
    int rc;
    void *payload;
    const kc_launch_opts_t *opts; /* NULL: defaults */
} kc_call_t;

KC_END_DECLS

#endif
