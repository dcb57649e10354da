/* SPDX-License-Identifier: MIT */
/*
 * failure_kit.h - what the tests of failures share.
 */
#ifndef KC_TEST_FAILURE_KIT_H
#define KC_TEST_FAILURE_KIT_H

#include "job_kit.h"

static UNUSED const kc_launch_opts_t alone = { .flags = KC_JOB_ALONE };

/* Runs fn(arg) as a job alone, and gives the handle when it has ended. */
static UNUSED kc_job_t *ran(kc_fn_t fn, void *arg, const kc_launch_opts_t *opts)
{
    kc_launch_opts_t o = opts ? *opts : (kc_launch_opts_t){ 0 };

    o.flags |= KC_JOB_ALONE;
    kc_job_t *j = launch(fn, arg, &o);
    (void)!kc_job_join(j);
    return j;
}

static UNUSED int fails(void *arg)
{
    CHECK(kc_fail_current((int)(intptr_t)arg));
    return 0;
}

static UNUSED int fails_when_cancelled(void *arg)
{
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK(!kc_fail_current((int)(intptr_t)arg));
    return -ECANCELED;
}

#endif
