/* SPDX-License-Identifier: MIT */
/*
 * guest_test.c - what the library calls while a coroutine is about to leave: a dispose (J28), which
 * has a job and a stack of its own, and a handler, which runs on the stack of who leaves.
 */
#include "job_kit.h"

#include <kcoro/gen.h>

/* ---- what is disposed of -------------------------------------------------------------------- */

static char request;
static kc_job_t *disposed_in;
static void *disposed_with;
static count_t done_with;

static void looks_around(void *arg UNUSED)
{
    disposed_in = kc_job_current();
    disposed_with = kc_local_get(&request);
    kc_set_payload(CODE(666));
    add(&done_with);
}

static int hands_over(void *arg)
{
    CHECK_EQ(kc_local_set(&request, CODE(2)), 0);
    kc_set_payload(arg);
    return 0;
}

/* It is called where its thread looks for the next one to run: on the way out of another job. */
IN_A_JOB(a_dispose_runs_in_its_own_job)
{
    kc_launch_opts_t here = { .affinity = KC_MAIN }, o = here;
    kc_deferred_t *d = NULL;
    void *value = NULL;

    set(&done_with, 0);
    o.dispose = looks_around;
    CHECK_EQ(kc_local_set(&request, CODE(1)), 0);
    kc_job_t *j = launch(never, NULL, &o);
    CHECK_EQ(kc_async_job(hands_over, CODE(5), &here, &d), 0);
    CHECK(kc_job_cancel(j, -EPIPE));
    CHECK_EQ(kc_await(d, &value), 0);
    CHECK_PTR(value, CODE(5));
    CHECK_EQ(kc_job_join(j), -EPIPE);
    CHECK_EQ(get(&done_with), 1);
    CHECK_PTR(disposed_in, j);
    CHECK_PTR(disposed_with, CODE(1));
    kc_deferred_release(d);
    kc_job_release(j);
    return 0;
}

static void yields_once(kc_gen_t *g, void *arg)
{
    kc_gen_yield(g, arg);
}

static void asks_a_generator(void *arg UNUSED)
{
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, yields_once, NULL, 0), 0);
    CHECK(kc_gen_next(&g, NULL));
    CHECK(!kc_gen_next(&g, NULL));
    kc_gen_end(&g);
    add(&done_with);
}

static kcoro_t *parks_here;

static int parks_over_a_dispose(void *arg UNUSED)
{
    kc_launch_opts_t o = { .affinity = KC_MAIN, .dispose = asks_a_generator };
    kc_job_t *j = launch(never, NULL, &o);

    CHECK(kc_job_cancel(j, 0));
    kc_job_release(j);
    parks_here = kcoro_current();
    kcoro_park();
    return 0;
}

IN_A_JOB(a_dispose_may_resume_while_another_parks)
{
    set(&done_with, 0);
    kc_job_t *j = launch(parks_over_a_dispose, NULL, &(kc_launch_opts_t){ .affinity = KC_MAIN });

    UNTIL(get(&done_with) == 1);
    CHECK_EQ(kcoro_unpark(parks_here), 0);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    return 0;
}

static kc_job_t *cancelled_meanwhile; /* NULL: nobody is */

static void on_terminate(kc_sigset_t fired UNUSED, kc_signal_t *signal UNUSED, void *arg)
{
    asks_a_generator(arg);
    if (cancelled_meanwhile)
        CHECK(kc_job_cancel(cancelled_meanwhile, -EPIPE));
}

static int listens(void *arg)
{
    CHECK(kc_slot_on(kc_current_slot(), KC_SIG_TERMINATE, on_terminate, NULL));
    return waits(arg);
}

/* What its lease held open ends when this thread looks for the next one to run. */
static int parks_over_an_end(void *arg)
{
    parks_here = kcoro_current();
    kc_lease_release(arg);
    kcoro_park();
    return 0;
}

/* A handler runs on the stack of one that has parked, and resumes others there. Then that one is
 * unparked, or was cancelled by the handler: how it ends. */
static int ends_when_parked_below_a_handler(bool cancelled)
{
    kc_deferred_t *d = NULL;
    kc_lease_t lease;
    count_t in = 0;

    set(&done_with, 0);
    kc_job_t *top = group(&(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });
    kc_job_t *j = launch(listens, &in, &(kc_launch_opts_t){ .parent = top });
    CHECK_EQ(kc_promise(&(kc_launch_opts_t){ .parent = j }, &d), 0);
    CHECK_EQ(kc_lease_take(kc_deferred_job(d), &lease), 0);
    CHECK_EQ(kc_promise_complete(d, -EIO, NULL), 0);
    kc_deferred_release(d);
    UNTIL(get(&in) == 1);
    kc_job_t *parks = launch(parks_over_an_end, &lease,
                             &(kc_launch_opts_t){ .parent = top, .affinity = KC_MAIN });
    cancelled_meanwhile = cancelled ? parks : NULL;
    UNTIL(get(&done_with) == 1);
    if (!cancelled)
        CHECK_EQ(kcoro_unpark(parks_here), 0);
    int rc = kc_job_join(parks);
    CHECK_EQ(kc_job_join(j), -EIO);
    CHECK_EQ(kc_group_close(top), 0);
    kc_job_release(parks);
    kc_job_release(j);
    kc_job_release(top);
    return rc;
}

IN_A_JOB(a_handler_may_resume_while_another_parks)
{
    CHECK_EQ(ends_when_parked_below_a_handler(false), 0);
    return 0;
}

IN_A_JOB(a_handler_may_cancel_the_body_that_parks_below_it)
{
    CHECK_EQ(ends_when_parked_below_a_handler(true), -EPIPE);
    return 0;
}
