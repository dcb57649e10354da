/* SPDX-License-Identifier: MIT */
/*
 * join_any_test.c - waiting for the first of several jobs (J35).
 */
#include "job_kit.h"

#include <kcoro/trace.h>

static void waits_for_any(kc_job_t *j)
{
    UNTIL(kc_load_relaxed(&j->task.kind) == KC_WAIT_JOIN_ANY);
}

enum { N = 4 };

static void launch_all(kc_job_t *job[N], count_t go[N])
{
    memset(go, 0, N * sizeof go[0]);
    for (int i = 0; i < N; i++)
        job[i] = launch(until_set, &go[i], NULL);
}

static void end_all(kc_job_t *job[N], count_t go[N])
{
    for (int i = 0; i < N; i++) {
        set(&go[i], 1);
        CHECK_EQ(kc_job_join(job[i]), 0);
        kc_job_release(job[i]);
    }
}

struct setter {
    count_t *go;
    kc_job_t *joiner;
};

static int sets_when_it_waits(void *arg)
{
    struct setter *s = arg;

    waits_for_any(s->joiner);
    set(s->go, 1);
    return 0;
}

IN_A_JOB(join_any_returns_the_one_that_ends_and_leaves_the_others)
{
    for (size_t k = 0; k < N; k++) {
        kc_job_t *job[N];
        count_t go[N];
        size_t which = 99;
        struct setter s = { &go[k], kc_job_current() };
        launch_all(job, go);
        CHECK_EQ(kc_launch(sets_when_it_waits, &s), 0);
        CHECK_EQ(kc_join_any(job, N, &which), 0);
        CHECK_EQ(which, k);
        for (size_t i = 0; i < N; i++)
            CHECK_EQ(kc_job_state(job[i]), i == k ? KC_JOB_COMPLETED : KC_JOB_ACTIVE);
        end_all(job, go);
    }
    return 0;
}

IN_A_JOB(join_any_returns_the_first_in_the_list_of_the_jobs_that_have_ended)
{
    kc_job_t *job[N];
    count_t go[N];
    size_t which = 99;

    launch_all(job, go);
    for (int i = N - 1; i > 0; i--) {
        set(&go[i], 1);
        CHECK_EQ(kc_job_join(job[i]), 0);
        CHECK_EQ(kc_join_any(job, N, &which), 0);
        CHECK_EQ(which, i);
        CHECK_EQ(kc_join_any(job, N, NULL), 0);
    }
    end_all(job, go);
    return 0;
}

static int joins_any_cancelled(void *arg)
{
    kc_job_t **job = arg;
    size_t which = 99;

    kc_cancel_current(0);
    CHECK_EQ(kc_join_any(job, 1, &which), -ECANCELED);
    CHECK_EQ(which, 99);
    CHECK_EQ(kc_join_any(job, 2, &which), 0); /* the second has ended */
    CHECK_EQ(which, 1);
    return 0;
}

IN_A_JOB(join_any_in_a_cancelled_job_returns_a_job_that_has_ended)
{
    count_t go = 0, gone = 1;
    kc_job_t *job[2] = { launch(until_set, &go, NULL), launch(until_set, &gone, NULL) };

    CHECK_EQ(kc_job_join(job[1]), 0);
    kc_job_t *j = launch(joins_any_cancelled, job, NULL);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    set(&go, 1);
    CHECK_EQ(kc_job_join(job[0]), 0);
    kc_job_release(job[0]);
    kc_job_release(job[1]);
    return 0;
}

static int joins_any(void *arg)
{
    kc_job_t **job = arg;
    size_t which = 99;

    int rc = kc_join_any(job, N, &which);
    CHECK(rc == -ECANCELED ? which == 99 : which < N);
    return rc;
}

IN_A_JOB(a_cancelled_caller_of_join_any_leaves_at_once_and_the_jobs_continue)
{
    kc_job_t *job[N];
    count_t go[N];

    launch_all(job, go);
    kc_job_t *j = launch(joins_any, job, NULL);
    waits_for_any(j);
    kc_job_cancel(j, 0);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    for (int i = 0; i < N; i++)
        CHECK_EQ(kc_job_state(job[i]), KC_JOB_ACTIVE);
    end_all(job, go);
    return 0;
}

static int launches_and_joins_any(void *arg UNUSED)
{
    count_t n = 0;
    kc_job_t *job[2] = { launch(waits, &n, NULL), launch(waits, &n, NULL) };

    int rc = kc_join_any(job, 2, NULL); /* descendants too: they end, but are not waited for */
    CHECK(rc == -ECANCELED || rc == 0);
    for (int i = 0; i < 2; i++)
        kc_job_release(job[i]);
    return rc;
}

IN_A_JOB(a_cancelled_caller_of_join_any_does_not_wait_for_its_children)
{
    kc_job_t *j = launch(launches_and_joins_any, NULL, NULL);

    waits_for_any(j);
    kc_job_cancel(j, 0);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    return 0;
}

static int fails(void *arg)
{
    waits_for_any(arg);
    return -EIO;
}

static int joins_one_that_fails(void *arg UNUSED)
{
    static count_t n; /* which its child may use after its end */
    kc_job_t *job[2] = { launch(waits, &n, NULL), launch(fails, kc_job_current(), NULL) };
    size_t which = 99;

    CHECK_EQ(kc_join_any(job, 2, &which), 0); /* whose failure cancels this job */
    CHECK_EQ(which, 1);
    CHECK_EQ(result_of(job[1]), -EIO);
    CHECK_EQ(kc_check(), -ECANCELED);
    kc_job_release(job[0]);
    kc_job_release(job[1]);
    return 0;
}

IN_A_JOB(join_any_returns_the_job_whose_failure_cancels_the_caller)
{
    kc_job_t *g = group(&(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });
    kc_job_t *j = launch(joins_one_that_fails, NULL, &(kc_launch_opts_t){ .parent = g });

    CHECK_EQ(kc_job_join(j), -EIO);
    kc_job_release(j);
    kc_job_drop(g);
    return 0;
}

static int unwinds_in_join_any(void *arg)
{
    (void)!kc_join_any(arg, N, NULL);
    FAIL("an unwound body went on");
}

IN_A_JOB(a_body_that_waits_in_join_any_is_unwound)
{
    kc_job_t *job[N];
    count_t go[N];

    launch_all(job, go);
    kc_job_t *j = launch(unwinds_in_join_any, job, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });
    waits_for_any(j);
    kc_job_cancel(j, 0);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    end_all(job, go);
    return 0;
}

static int joins_itself_or_above(void *arg)
{
    kc_job_t *job[2] = { arg, kc_job_current() }, *above[2] = { arg, arg };
    kc_scope_t s;
    size_t which = 99;

    above[1] = kc_job_current();
    CHECK_EQ(kc_join_any(job, 2, &which), -EDEADLK);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_join_any(above, 2, &which), -EDEADLK);
    CHECK_EQ(kc_scope_end(&s), 0);
    CHECK_EQ(which, 99);
    return 0;
}

IN_A_JOB(join_any_of_oneself_or_an_ancestor_is_edeadlk)
{
    count_t gone = 1;
    kc_job_t *ended_one = launch(until_set, &gone, NULL);

    CHECK_EQ(kc_job_join(ended_one), 0);
    kc_job_t *j = launch(joins_itself_or_above, ended_one, NULL);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    kc_job_release(ended_one);
    return 0;
}

IN_A_JOB(join_any_of_a_list_that_is_empty_or_has_a_hole_is_einval)
{
    kc_job_t *job[1] = { NULL };

    CHECK_EQ(kc_join_any(job, 0, NULL), -EINVAL);
    CHECK_EQ(kc_join_any(NULL, 1, NULL), -EINVAL);
    CHECK_EQ(kc_join_any(job, 1, NULL), -EINVAL);
    return 0;
}

IN_A_JOB(a_job_may_stand_twice_in_the_list_of_join_any)
{
    count_t go = 0;
    kc_job_t *j = launch(until_set, &go, NULL), *job[2] = { j, j };
    struct setter s = { &go, kc_job_current() };
    size_t which = 99;

    CHECK_EQ(kc_launch(sets_when_it_waits, &s), 0);
    CHECK_EQ(kc_join_any(job, 2, &which), 0);
    CHECK_LE(which, 1);
    kc_job_release(j);
    return 0;
}

static count_t thread_go;

static int sets_later(void *arg UNUSED)
{
    for (int i = 0; i < 50; i++)
        sched_yield();
    set(&thread_go, 1);
    return 0;
}

OUTSIDE(a_plain_thread_blocks_or_pumps, s)
{
    kc_launch_opts_t opts = { .sched = s };
    count_t never_set = 0;
    kc_job_t *job[2];
    size_t which = 99;

    set(&thread_go, 0);
    job[0] = launch(until_set, &never_set, &opts);
    job[1] = launch(until_set, &thread_go, &opts);
    pthread_t t = thread_runs(sets_later, NULL);
    CHECK_EQ(kc_join_any(job, 2, &which), 0);
    CHECK_EQ(which, 1);
    CHECK_EQ(pthread_join(t, NULL), 0);
    set(&never_set, 1);
    CHECK_EQ(kc_job_join(job[0]), 0);
    kc_job_release(job[0]);
    kc_job_release(job[1]);
}

static bool fails_always(const char *what UNUSED)
{
    return true;
}

static int joins_any_without_memory(void *arg UNUSED)
{
    kc_job_t *job[N];
    count_t go[N];

    launch_all(job, go);
    kc__os_fault = fails_always;
    int rc = kc_join_any(job, N, NULL);
    kc__os_fault = NULL;
    CHECK_EQ(rc, -ENOMEM);
    end_all(job, go);
    return 0;
}

TEST(without_memory_join_any_is_enomem)
{
    CHECK_EQ(
        kc_run(joins_any_without_memory, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }), 0);
}

/* ---- races ---------------------------------------------------------------------------------- */

static int ends_soon(void *arg)
{
    for (intptr_t i = (intptr_t)arg; i > 0; i--)
        if (kc_yield() != 0)
            return -ECANCELED;
    return 0;
}

IN_A_JOB(join_any_returns_one_of_several_that_end_and_a_cancel_at_the_same_time)
{
    uint64_t seed = kc_test_seed();

    for (long i = 0; i < kc_test_rounds(30) && kc_test_has_time(); i++) {
        kc_job_t *job[N];
        for (int k = 0; k < N; k++)
            job[k] = launch(ends_soon, CODE(kc_test_random(&seed) % 4), NULL);
        kc_job_t *j = launch(joins_any, job, NULL);
        for (uint64_t k = kc_test_random(&seed) % 4; k > 0; k--)
            kcoro_yield();
        if (i % 2)
            kc_job_cancel(j, 0);
        int rc = kc_job_join(j);
        CHECK(rc == 0 || rc == -ECANCELED);
        kc_job_release(j);
        for (int k = 0; k < N; k++) {
            CHECK_EQ(kc_job_join(job[k]), 0);
            kc_job_release(job[k]);
        }
    }
    return 0;
}
