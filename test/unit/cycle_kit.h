/* SPDX-License-Identifier: MIT */
/*
 * cycle_kit.h - what the tests of cycles share.
 */
#ifndef KC_TEST_CYCLE_KIT_H
#define KC_TEST_CYCLE_KIT_H

#include "report_kit.h"

#include <kcoro/kcoro.h>

static kc_mutex_t a = KC_MUTEX_NAMED("a"), b = KC_MUTEX_NAMED("b");

static int run(kc_fn_t fn, void *arg, int workers, uint32_t flags)
{
    begin_report();
    int rc = kc_run(fn, arg, &(kc_sched_opts_t){ .workers = workers, .flags = flags });
    end_report();
    return rc;
}

static void launch(kc_fn_t fn, void *arg, const char *name, kc_job_t **out)
{
    CHECK_EQ(kc_launch_job(fn, arg, &(kc_launch_opts_t){ .name = name }, out), 0);
}

static int reports(void)
{
    return lines_with(" in a cycle");
}

#endif
