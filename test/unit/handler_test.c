/* SPDX-License-Identifier: MIT */
/*
 * handler_test.c - what the library calls by itself: a dispose (J28), which has a job and a stack
 * of its own, and handlers, which run as nobody's body on the thread's own stack (S16).
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

static int yields_once(kc_gen_t *g, void *arg)
{
    kc_gen_yield(g, arg);
    return 0;
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
    kc_lease_t lease;
    count_t in = 0;

    set(&done_with, 0);
    kc_job_t *top = group(&(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });
    kc_job_t *j = launch(listens, &in, &(kc_launch_opts_t){ .parent = top });
    kc_job_t *fails = group(&(kc_launch_opts_t){ .parent = j });
    CHECK_EQ(kc_lease_take(fails, &lease), 0);
    kc_job_t *first = launch(returns, CODE(-EIO), &(kc_launch_opts_t){ .parent = fails });
    CHECK_EQ(kc_job_join(first), -EIO);
    kc_job_release(first);
    kc_job_release(fails);
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

/* ---- as nobody's body ----------------------------------------------------------------------- */

enum { MINE = 40 * 1024, ITS = 24 * 1024 }; /* together more than a stack has */

static count_t heard;

static void fill(volatile char *at, size_t size)
{
    for (size_t i = 0; i < size; i += 64)
        at[i] = 1;
}

static void is_nobody(kc_sigset_t fired UNUSED, kc_signal_t *signal UNUSED, void *arg UNUSED)
{
    char large[ITS];

    fill(large, sizeof large);
    CHECK_PTR(kc_job_current(), NULL);
    CHECK_PTR(kcoro_current(), NULL);
    CHECK_EQ(kc_launch(never, NULL), -EPERM);
    add(&heard);
}

/* Counts itself in, and waits. */
static int listens_to_the_end(void *arg)
{
    if (!kc_slot_on(kc_current_slot(), KC_SIG_TERMINATE, is_nobody, NULL))
        return kc_check(); /* it is cancelled already */
    return waits(arg);
}

/* Has little room left on its stack, and is the one that leaves, again and again. */
static int is_innocent(void *arg)
{
    char large[MINE];

    fill(large, sizeof large);
    while (get(&heard) < *(int *)arg)
        CHECK_EQ(kc_sleep(KC_US(10)), 0);
    return 0;
}

/* Beside an innocent one on each thread, as many listeners are cancelled by what ends() does. */
static void hear_of(void (*ends)(kc_job_t *listens), int listeners)
{
    kc_job_t *top = group(&(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });
    kc_job_t *family = group(&(kc_launch_opts_t){ .parent = top });
    kc_job_t *innocent =
        launch(is_innocent, &listeners, &(kc_launch_opts_t){ .parent = top, .affinity = KC_MAIN });
    count_t in = 0;

    set(&heard, 0);
    for (int i = 0; i < listeners; i++)
        kc_job_release(launch(listens_to_the_end, &in, &(kc_launch_opts_t){ .parent = family }));
    UNTIL(get(&in) == listeners);
    ends(family);
    UNTIL(get(&heard) == listeners);
    CHECK_EQ(kc_job_join(innocent), 0);
    kc_group_close(family);
    kc_group_close(top);
    CHECK_EQ(kc_job_join(top), 0);
    kc_job_release(innocent);
    kc_job_release(family);
    kc_job_release(top);
}

static void by_a_child_that_fails(kc_job_t *family)
{
    kc_job_t *j = launch(returns, CODE(-EIO), &(kc_launch_opts_t){ .parent = family });

    CHECK_EQ(kc_job_join(j), -EIO);
    kc_job_release(j);
}

IN_A_JOB(a_handler_at_the_end_of_a_failed_job_is_nobodys_body)
{
    hear_of(by_a_child_that_fails, 1);
    hear_of(by_a_child_that_fails, 3);
    return 0;
}

/* Is cancelled, and does not end before it may. */
static int shielded_until(void *arg)
{
    CHECK_EQ(kc_shield_begin(), 0);
    UNTIL(get(arg) == 1);
    kc_shield_end();
    return 0;
}

/* Its last child ends, when its own body has failed long before. */
static int fails_before_its_child(void *arg)
{
    kc_job_t *child = launch(shielded_until, arg, &(kc_launch_opts_t){ .flags = KC_JOB_NOW });

    kc_job_release(child);
    return -EIO;
}

static void by_the_last_child_of_one_that_has_failed(kc_job_t *family)
{
    count_t go = 0;
    kc_job_t *j = launch(fails_before_its_child, &go, &(kc_launch_opts_t){ .parent = family });

    UNTIL(kc_job_state(j) == KC_JOB_CANCELLING);
    CHECK_EQ(get(&heard), 0);
    set(&go, 1);
    CHECK_EQ(kc_job_join(j), -EIO);
    kc_job_release(j);
}

IN_A_JOB(a_handler_at_the_end_of_the_last_child_of_a_failed_job_is_nobodys_body)
{
    hear_of(by_the_last_child_of_one_that_has_failed, 2);
    return 0;
}

IN_A_JOB(a_handler_of_a_timeout_is_nobodys_body)
{
    kc_job_t *top = group(&(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });
    int one = 1;

    set(&heard, 0);
    kc_job_t *innocent =
        launch(is_innocent, &one, &(kc_launch_opts_t){ .parent = top, .affinity = KC_MAIN });
    /* Again with more time, if it was over before it could listen. */
    for (kc_time_t time = KC_MS(1); get(&heard) == 0; time *= 2) {
        kc_launch_opts_t o = { .parent = top, .timeout = time, .affinity = KC_MAIN };
        kc_job_t *j = launch(listens_to_the_end, NULL, &o);
        CHECK_EQ(kc_job_join(j), -ETIMEDOUT);
        kc_job_release(j);
    }
    CHECK_EQ(kc_job_join(innocent), 0);
    CHECK_EQ(get(&heard), 1);
    kc_group_close(top);
    kc_job_release(innocent);
    kc_job_release(top);
    return 0;
}

static int fails_among_listeners(void *arg)
{
    for (int i = 0; i < 2; i++)
        kc_job_release(launch(listens_to_the_end, arg, NULL));
    UNTIL(get(arg) == 2);
    return -EIO;
}

IN_A_JOB(a_handler_of_a_child_whose_parent_fails_is_nobodys_body)
{
    count_t in = 0;

    set(&heard, 0);
    kc_job_t *j =
        launch(fails_among_listeners, &in, &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });
    CHECK_EQ(kc_job_join(j), -EIO);
    CHECK_EQ(get(&heard), 2);
    kc_job_release(j);
    return 0;
}

/* ---- handlers that cancel ------------------------------------------------------------------- */

enum { CHAIN = 150 }; /* with one stack frame for each, fewer ran over a stack */

static kc_job_t *chain[CHAIN];
static count_t inside, at_once;

static void cancels_the_next(kc_sigset_t fired UNUSED, kc_signal_t *signal UNUSED, void *arg)
{
    intptr_t i = (intptr_t)arg;

    CHECK_EQ(add(&inside), 0); /* the one before has returned */
    if (i + 1 < CHAIN) {
        CHECK(kc_job_cancel(chain[i + 1], -EPIPE));
        CHECK_EQ(kc_job_state(chain[i + 1]), KC_JOB_CANCELLING);
        CHECK(kc_signal_state(kc_job_signal(chain[i + 1])) & KC_SIG_TERMINATE);
    }
    add(&heard);
    set(&inside, 0);
}

static int is_in_the_chain(void *arg)
{
    CHECK(kc_slot_on(kc_current_slot(), KC_SIG_TERMINATE, cancels_the_next, arg));
    add(&at_once);
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(cancels_inside_handlers_nest_in_a_loop)
{
    kc_job_t *top = group(&(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });

    set(&heard, 0);
    set(&at_once, 0);
    for (int i = 0; i < CHAIN; i++)
        chain[i] = launch(is_in_the_chain, CODE(i), &(kc_launch_opts_t){ .parent = top });
    UNTIL(get(&at_once) == CHAIN);
    CHECK(kc_job_cancel(chain[0], -EPIPE));
    CHECK_EQ(get(&heard), CHAIN); /* before the first call returns */
    for (int i = 0; i < CHAIN; i++) {
        CHECK_EQ(kc_job_join(chain[i]), -EPIPE);
        kc_job_release(chain[i]);
    }
    kc_group_close(top);
    kc_job_release(top);
    return 0;
}
