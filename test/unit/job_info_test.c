/* SPDX-License-Identifier: MIT */
/*
 * job_info_test.c - what a job is known by: its number (E4).
 */
#include "job_kit.h"

#include <stdlib.h>

static int notes_its_number(void *arg)
{
    uint64_t *number = arg;

    *number = kcoro_id(kcoro_current());
    CHECK_EQ(kc_job_id(kc_job_current()), *number);
    return 0;
}

IN_A_JOB(a_job_and_its_coroutine_have_one_number)
{
    uint64_t number = 0;
    kc_job_t *j = launch(notes_its_number, &number, NULL);

    uint64_t before = kc_job_id(j);
    CHECK_EQ(kc_job_join(j), 0);
    CHECK(before > 0);
    CHECK_EQ(number, before);
    CHECK_EQ(kc_job_id(j), before); /* and it stays */
    kc_job_release(j);
    return 0;
}

IN_A_JOB(a_scope_has_a_number_of_its_own)
{
    kc_scope_t s;

    uint64_t own = kc_job_id(kc_job_current());
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK(kc_job_id(kc_scope_job(&s)) != own);
    CHECK_EQ(kcoro_id(kcoro_current()), own);
    CHECK_EQ(kc_scope_end(&s), 0);
    return 0;
}

enum { WORKERS = 4, EACH = 400, ALL = WORKERS * EACH };

static uint64_t numbers[ALL];

static int launches_many(void *arg)
{
    uint64_t *at = arg;

    for (int i = 0; i < EACH; i++) {
        kc_job_t *j = launch(returns, NULL, NULL);
        at[i] = kc_job_id(j);
        CHECK_EQ(kc_job_join(j), 0);
        kc_job_release(j);
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static int launches_on_each_worker(void *arg)
{
    (void)arg;
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(kc_launch_job(launches_many, &numbers[(size_t)i * EACH],
                               &(kc_launch_opts_t){ .affinity = KC_WORKER_AT(i) }, NULL),
                 0);
    return 0;
}

TEST(no_two_jobs_ever_have_one_number)
{
    CHECK_EQ(kc_run(launches_on_each_worker, NULL, &(kc_sched_opts_t){ .workers = WORKERS }), 0);
    qsort(numbers, ALL, sizeof numbers[0], compare);
    CHECK(numbers[0] > 0);
    for (int i = 1; i < ALL; i++)
        CHECK(numbers[i - 1] < numbers[i]);
}
