/* SPDX-License-Identifier: MIT */
/*
 * join_test.c - joining and awaiting in a job that is cancelled (J6).
 */
#include "job_kit.h"

static const kc_launch_opts_t apart = { .flags = KC_JOB_DETACHED };

struct past {
    kc_job_t *failed, *cancelled;
    kc_deferred_t *value;
    count_t ready;
};

static int joins_what_has_ended(void *arg)
{
    struct past *past = arg;
    void *payload = NULL;

    set(&past->ready, 1);
    UNTIL(kc_cancelled());
    CHECK_EQ(kc_job_join(past->failed), -EIO);
    CHECK_EQ(kc_job_join_until(past->cancelled, 0), -EPIPE);
    CHECK_EQ(kc_await(past->value, &payload), 0);
    CHECK_PTR(payload, CODE(5));
    CHECK_EQ(kc_check(), -ECANCELED); /* that was no wait, and the cancel is still there */
    return -ECANCELED;
}

static int gives_five(void *arg UNUSED)
{
    kc_set_payload(CODE(5));
    return 0;
}

IN_A_JOB(what_has_ended_gives_its_result_in_a_cancelled_job_too)
{
    struct past past = { .failed = launch(returns, CODE(-EIO), &apart),
                         .cancelled = launch(waits, NULL, NULL) };

    CHECK_EQ(kc_async(gives_five, NULL, &past.value), 0);
    CHECK(kc_job_cancel(past.cancelled, -EPIPE));
    CHECK_EQ(kc_job_join(past.failed), -EIO);
    CHECK_EQ(kc_job_join(past.cancelled), -EPIPE);
    CHECK_EQ(kc_await(past.value, NULL), 0);
    kc_job_t *j = launch(joins_what_has_ended, &past, NULL);
    UNTIL(get(&past.ready));
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    kc_job_release(past.failed);
    kc_job_release(past.cancelled);
    kc_deferred_release(past.value);
    return 0;
}

/* The failure of the child cancels the one that awaits it, wherever that is meanwhile. */
static int awaits_one_that_fails(void *arg)
{
    kc_launch_opts_t there = { .affinity = kc_sched_workers(kc_sched_current()) > 1
                                               ? KC_WORKER_AT(1)
                                               : KC_WORKER };
    kc_deferred_t *d = NULL;

    int rc = kc_async_job(returns, CODE(77), &there, &d);
    CHECK_EQ(rc, 0);
    for (volatile intptr_t i = 0; i < (intptr_t)arg; i++)
        ;
    CHECK_EQ(kc_await(d, NULL), 77);
    kc_deferred_release(d);
    return 0;
}

IN_A_JOB(who_awaits_the_child_whose_failure_cancels_it_gets_its_code_at_any_moment)
{
    for (intptr_t i = 0, n = kc_test_rounds(200); i < n; i++) {
        kc_job_t *j = launch(awaits_one_that_fails, CODE(i % 300), &apart);
        CHECK_EQ(kc_job_join(j), 77);
        kc_job_release(j);
    }
    return 0;
}
