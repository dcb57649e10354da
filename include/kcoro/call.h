/* SPDX-License-Identifier: MIT */
/*
 * kcoro/call.h - the type of a body, and a call with its result.
 */
#ifndef KCORO_CALL_H
#define KCORO_CALL_H

#include <kcoro/base.h>

KC_BEGIN_DECLS

/* The body of a job. Returns 0, or the failure: a negative errno or your own positive code. */
typedef int (*kc_fn_t)(void *arg);

typedef struct kc_launch_opts kc_launch_opts_t; /* options of a job: kcoro/job.h */

/* One of several calls. rc and payload are results, if the function that takes it sets them. */
typedef struct {
    kc_fn_t fn;
    void *arg;
    int rc;
    void *payload;
    const kc_launch_opts_t *opts; /* NULL: defaults */
} kc_call_t;

KC_END_DECLS

#endif
