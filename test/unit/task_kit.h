/* SPDX-License-Identifier: MIT */
/*
 * task_kit.h - what the tests of tasks share: an argument that is used up by a run or a dispose.
 */
#ifndef KC_TEST_TASK_KIT_H
#define KC_TEST_TASK_KIT_H

#include "job_kit.h"

/* An argument, which is to be given to fn or to dispose. */
struct thing {
    count_t ran, disposed;
};

static UNUSED struct thing thing, other;

static UNUSED int runs(void *arg)
{
    struct thing *t = arg;

    CHECK_EQ(get(&t->disposed), 0);
    add(&t->ran);
    return 0;
}

static UNUSED void disposes(void *arg)
{
    struct thing *t = arg;

    add(&t->disposed);
}

static UNUSED const kc_task_opts_t owns = { .dispose = disposes, .name = "owner" };

static UNUSED void afresh(void)
{
    memset(&thing, 0, sizeof thing);
    memset(&other, 0, sizeof other);
}

static UNUSED void was(struct thing *t, int ran, int disposed)
{
    CHECK_EQ(get(&t->ran), ran);
    CHECK_EQ(get(&t->disposed), disposed);
}

static UNUSED kc_sched_t *sched(int i)
{
    kc_sched_opts_t opts = kit_opts(i);
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    return s;
}

static UNUSED void destroy(kc_sched_t *s)
{
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static UNUSED int tells_its_name(void *arg)
{
    CHECK_STR(kc_job_name(kc_job_current()), arg);
    add(&thing.ran);
    return 0;
}

#endif
