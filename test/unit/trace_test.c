/* SPDX-License-Identifier: MIT */
/*
 * trace_test.c - E1 and E3: counters that balance, and traces that are valid JSON and true.
 */
#define _GNU_SOURCE
#include "harness.h"
#include "sched/sched.h"
#include "trace_kit.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int worker_counts[] = { KC_NO_WORKERS, 1, 2, 4 };
#define EACH_COUNT(w) (unsigned w = 0; w < sizeof worker_counts / sizeof *worker_counts; w++)

static kc_sched_t *make(int workers)
{
    kc_sched_t *s;

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = workers }, &s), 0);
    return s;
}

/* One thread, on whose clock no sleep is over before it has begun. */
static kc_sched_t *make_virtual(void)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS, .flags = KC_SCHED_VIRTUAL_TIME };
    kc_sched_t *s;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    return s;
}

static kc_metrics_t metrics(kc_sched_t *s)
{
    kc_metrics_t m;

    kc_metrics(s, &m);
    return m;
}

static void check_balance(const kc_metrics_t *m)
{
    CHECK_EQ(m->jobs_created,
             m->jobs_completed + m->jobs_failed + m->jobs_cancelled + m->jobs_live);
}

static void run(kc_sched_t *s, kc_fn_t fn, void *arg)
{
    CHECK_EQ(kc_launch_job(fn, arg, &(kc_launch_opts_t){ .sched = s, .name = "top" }, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int fails(void *arg)
{
    (void)arg;
    return -EPIPE;
}

static int sleeps(void *arg)
{
    (void)arg;
    return kc_sleep(KC_SEC(1000));
}

static int naps(void *arg)
{
    return kc_sleep(KC_US(*(int *)arg));
}

/* ---- E1: counters --------------------------------------------------------------------------- */

/* 10 complete, 1 fails, 3 are cancelled; the scope, a group and a promise complete. */
static int tree(void *arg)
{
    kc_scope_t scope;
    kc_job_t *group, *j;
    kc_deferred_t *promise;

    (void)arg;
    CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .flags = KC_JOB_SUPERVISOR }), 0);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(kc_launch(nothing, NULL), 0);
    CHECK_EQ(kc_launch(fails, NULL), 0);
    CHECK_EQ(kc_group_create(NULL, &group), 0);
    CHECK_EQ(kc_promise(NULL, &promise), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kc_launch_job(sleeps, NULL, &(kc_launch_opts_t){ .parent = group }, &j), 0);
        CHECK(kc_job_cancel(j, 0));
        CHECK(!kc_job_cancel(j, 0));
        kc_job_release(j);
    }
    CHECK_EQ(kc_promise_complete(promise, 0, NULL), 0);
    kc_deferred_release(promise);
    CHECK_EQ(kc_group_close(group), 0);
    kc_job_release(group);
    return kc_scope_end(&scope);
}

TEST(counters_balance_when_nothing_runs)
{
    for
        EACH_COUNT(w)
        {
            kc_sched_t *s = make(worker_counts[w]);
            for (int i = 1; i <= 20; i++) {
                run(s, tree, NULL);
                kc_metrics_t m = metrics(s);
                check_balance(&m);
                CHECK_EQ(m.jobs_created, i * 18);
                CHECK_EQ(m.jobs_completed, i * 14);
                CHECK_EQ(m.jobs_failed, i);
                CHECK_EQ(m.jobs_cancelled, i * 3);
                CHECK_EQ(m.jobs_live, 0);
                CHECK_EQ(m.cancellations_requested, i * 3);
            }
            CHECK_EQ(kc_sched_destroy(s), 0);
        }
}

TEST(a_fresh_scheduler_has_counted_nothing)
{
    for (int i = 0; i < 2; i++) { /* the second one uses the memory of the first */
        kc_sched_t *s = make(2);
        kc_metrics_t m = metrics(s);
        CHECK_EQ(m.jobs_created + m.jobs_live + m.spawns + m.switches + m.io_operations, 0);
        run(s, tree, NULL);
        CHECK_EQ(kc_sched_destroy(s), 0);
    }
}

/* Ends when one more has begun to wait for a job. */
static int ends_when_joined(void *arg)
{
    kc_sched_t *s = kc_sched_current();
    int rc = 0;

    while (rc == 0 && metrics(s).waiters_registered == *(uint64_t *)arg)
        rc = kc_sleep(KC_US(20));
    return rc;
}

static int wait_for_children(void *arg)
{
    uint64_t before = metrics(kc_sched_current()).waiters_registered;
    kc_job_t *j;

    (void)arg;
    CHECK_EQ(kc_launch_job(ends_when_joined, &before, NULL, &j), 0);
    CHECK_EQ(kc_job_join(j), 0); /* has to wait */
    CHECK_EQ(kc_job_join(j), 0); /* has not */
    kc_job_release(j);
    CHECK_EQ(kc_launch_job(sleeps, NULL, NULL, &j), 0);
    CHECK_EQ(kc_job_join_until(j, kc_now() + KC_MS(1)), -ETIMEDOUT); /* waits, and is not woken */
    kc_job_drop(j);
    return 0;
}

TEST(joins_are_counted_when_they_wait_and_when_they_are_woken)
{
    kc_sched_t *s = make(KC_NO_WORKERS);

    run(s, wait_for_children, NULL);
    kc_metrics_t m = metrics(s);
    CHECK_EQ(m.waiters_registered, 2);
    CHECK_EQ(m.waiters_woken, 1);
    CHECK_EQ(m.cancellations_requested, 1);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static int yield_and_sleep(void *arg)
{
    int us = 2000;

    (void)arg;
    CHECK_EQ(kc_yield(), 0);
    return naps(&us);
}

TEST(switches_spawns_parks_and_timers_are_counted_once_each)
{
    kc_sched_t *s = make_virtual();
    kc_call_t two[] = { { .fn = yield_and_sleep }, { .fn = yield_and_sleep } };

    CHECK_EQ(kc_sched_submit_many(s, KC_MAIN, two, 2), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    kc_metrics_t m = metrics(s);
    CHECK_EQ(m.spawns, 2);
    CHECK_EQ(m.parks, 2);
    CHECK_EQ(m.timers_fired, 2);
    CHECK_GE(m.switches, 4); /* each began and slept; the yields may have found nobody else */
    CHECK_LE(m.switches, 6);
    CHECK_EQ(m.steals, 0);
    CHECK_EQ(kc_schedule_delayed(s, 1, KC_MAIN, nothing, NULL, NULL), 0);
    CHECK_GE(kc_sched_run_expired(s, kc_now() + 1), 0);
    CHECK_EQ(metrics(s).timers_fired, 3);
    CHECK_EQ(metrics(s).jobs_created, 3);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static int look_at_stacks(void *arg)
{
    kc_sched_t *s = arg;
    kc_job_t *j;

    CHECK_EQ(metrics(s).stacks_in_use, 1);
    CHECK_EQ(kc_launch_job(sleeps, NULL, NULL, &j), 0);
    CHECK_EQ(metrics(s).stacks_in_use, 1); /* not started: no stack */
    CHECK_EQ(metrics(s).jobs_live, 2);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    CHECK_EQ(metrics(s).stacks_in_use, 2);
    CHECK_GE(metrics(s).stacks_made, 2);
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    CHECK_EQ(metrics(s).stacks_in_use, 1);
    CHECK_EQ(metrics(s).jobs_live, 1);
    return 0;
}

TEST(stacks_in_use_and_live_jobs_are_gauges)
{
    kc_sched_t *s = make_virtual();

    run(s, look_at_stacks, s);
    CHECK_EQ(metrics(s).stacks_in_use, 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static int terminate_by_signal(void *arg)
{
    kc_job_t *j;

    (void)arg;
    CHECK_EQ(kc_launch_job(sleeps, NULL, NULL, &j), 0);
    CHECK(kc_signal_emit(kc_job_signal(j), KC_SIG_TERMINATE));
    kc_job_release(j);
    return 0;
}

TEST(terminate_on_the_signal_of_a_job_is_a_cancellation_requested)
{
    kc_sched_t *s = make(KC_NO_WORKERS);

    run(s, terminate_by_signal, NULL);
    CHECK_EQ(metrics(s).cancellations_requested, 1);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static int times_out(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_with_timeout(KC_MS(1), sleeps, NULL), -ETIMEDOUT);
    return 0;
}

TEST(timeouts_and_the_library_s_own_cancels_are_not_cancellations_requested)
{
    kc_sched_t *s = make(KC_NO_WORKERS);

    run(s, times_out, NULL);
    CHECK_EQ(metrics(s).cancellations_requested, 0);
    CHECK_EQ(metrics(s).jobs_cancelled, 1);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST_ABORTS(metrics_of_null_abort_and_name_the_rule, "E1")
{
    kc_metrics_t m;

    kc_metrics(NULL, &m);
}

/* ---- E3: traces ----------------------------------------------------------------------------- */

static const char *file(void)
{
    static char path[64];

    snprintf(path, sizeof path, "/tmp/kcoro-trace-%d.json", (int)getpid());
    return path;
}

TEST(a_trace_is_valid_json_with_every_job_from_create_to_end)
{
    for
        EACH_COUNT(w)
        {
            kc_sched_t *s = make(worker_counts[w]);
            CHECK_EQ(kc_trace_start(s, file()), 0);
            run(s, tree, NULL);
            run(s, wait_for_children, NULL);
            CHECK_EQ(kc_trace_stop(s), 0);
            struct seen seen = check_trace(file());
            CHECK_EQ(seen.jobs, metrics(s).jobs_created);
            CHECK_EQ(seen.finalized, seen.jobs);
            CHECK_EQ(seen.dropped, 0);
            CHECK_GE(seen.runs, 13);
            static const char *const names[] = { "JOB_CREATE",        "JOB_STATE",
                                                 "JOB_CANCEL_REQ",    "JOB_FINALIZE",
                                                 "JOB_CHILD_ATTACH",  "JOB_WAIT_REGISTER",
                                                 "JOB_WAIT_WAKE",     "\"main\"",
                                                 "\"other threads\"", "\"top\"" };
            for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
                CHECK(has(seen.text, names[i]));
            CHECK_GE(seen.arrows, 1);
            free(seen.text);
            unlink(file());
            CHECK_EQ(kc_sched_destroy(s), 0);
        }
}

/* ---- E4: arrows and numbers ----------------------------------------------------------------- */

static kc_job_t *target;
static _Atomic(kcoro_t *) parked;

static int parks(void *arg)
{
    (void)arg;
    atomic_store(&parked, kcoro_current());
    kcoro_park();
    return kc_check();
}

/* Until a job of parks waits: a cancel from now on wakes it. */
static void wait_until_parked(void)
{
    while (!atomic_load(&parked) || kcoro_state(atomic_load(&parked)) != KCORO_PARKED) {
        CHECK_EQ(kc_yield(), 0);
        sched_yield();
    }
}

static int joins_target(void *arg)
{
    (void)arg;
    return kc_job_join(target) == -EINTR ? 0 : 1;
}

static int waits_and_is_cancelled(void *arg)
{
    kc_job_t *never;

    (void)arg;
    atomic_store(&parked, NULL);
    CHECK_EQ(kc_launch_job(parks, NULL, &(kc_launch_opts_t){ .name = "target" }, &target), 0);
    CHECK_EQ(kc_launch_job(joins_target, NULL, &(kc_launch_opts_t){ .name = "joiner" }, NULL), 0);
    while (metrics(kc_sched_current()).waiters_registered == 0)
        CHECK_EQ(kc_sleep(KC_US(20)), 0);
    wait_until_parked();
    CHECK(kc_job_cancel(target, -EINTR));
    CHECK_EQ(kc_launch_job(sleeps, NULL, NULL, &never), 0);
    CHECK(kc_job_cancel(never, 0)); /* maybe before it could start: no arrow leads there */
    kc_job_release(never);
    return 0;
}

TEST(arrows_connect_a_cancel_and_a_wake_with_where_the_job_continues)
{
    for
        EACH_COUNT(w)
        {
            kc_sched_t *s = make(worker_counts[w]);
            CHECK_EQ(kc_trace_start(s, file()), 0);
            run(s, waits_and_is_cancelled, NULL);
            CHECK_EQ(kc_trace_stop(s), 0);
            struct seen seen = check_trace(file());
            CHECK_GE(seen.arrows, 2);
            CHECK(has(seen.text, "\"cat\":\"flow\",\"name\":\"cancel\",\"id\":"));
            CHECK(has(seen.text, "\"cat\":\"flow\",\"name\":\"wake\",\"id\":"));
            free(seen.text);
            kc_job_release(target);
            unlink(file());
            CHECK_EQ(kc_sched_destroy(s), 0);
        }
}

static void *cancels_from_outside(void *arg)
{
    CHECK(kc_job_cancel(arg, 0));
    return NULL;
}

TEST(an_arrow_from_a_thread_that_runs_no_job_connects)
{
    kc_sched_t *s = make(1);
    pthread_t thread;
    kc_job_t *j;

    CHECK_EQ(kc_trace_start(s, file()), 0);
    CHECK_EQ(kc_launch_job(parks, NULL, &(kc_launch_opts_t){ .sched = s }, &j), 0);
    wait_until_parked();
    CHECK_EQ(pthread_create(&thread, NULL, cancels_from_outside, j), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_EQ(kc_trace_stop(s), 0);
    struct seen seen = check_trace(file());
    CHECK_EQ(seen.arrows, 1);
    free(seen.text);
    kc_job_release(j);
    unlink(file());
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST(a_job_has_its_one_number_in_a_trace)
{
    kc_sched_t *s = make(1);
    char text[64];
    kc_job_t *j;

    CHECK_EQ(kc_trace_start(s, file()), 0);
    CHECK_EQ(kc_launch_job(nothing, NULL, &(kc_launch_opts_t){ .sched = s, .name = "it" }, &j), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_EQ(kc_trace_stop(s), 0);
    struct seen seen = check_trace(file());
    snprintf(text, sizeof text, "\"id\":%llu,\"name\":\"it\"", (unsigned long long)kc_job_id(j));
    CHECK(has(seen.text, text));
    snprintf(text, sizeof text, "\"name\":\"it\",\"args\":{\"job\":%llu}",
             (unsigned long long)kc_job_id(j));
    CHECK(has(seen.text, text)); /* of the thread that runs it */
    free(seen.text);
    kc_job_release(j);
    unlink(file());
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST(names_are_escaped_and_made_valid)
{
    kc_sched_t *s = make(KC_NO_WORKERS);

    CHECK_EQ(kc_trace_start(s, file()), 0);
    kc_launch_opts_t opts = { .sched = s, .name = "a\"b\\c\n\x01 \xc3\xa9 \xff\xc3" };
    CHECK_EQ(kc_launch_job(nothing, NULL, &opts, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_EQ(kc_trace_stop(s), 0);
    struct seen seen = check_trace(file());
    CHECK(has(seen.text, "\"a\\\"b\\\\c\\u000a\\u0001 \xc3\xa9 \\ufffd\\ufffd\""));
    free(seen.text);
    unlink(file());
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST(a_second_start_and_a_stop_without_start_are_ealready)
{
    kc_sched_t *s = make(1);

    CHECK_EQ(kc_trace_stop(s), -EALREADY);
    CHECK_EQ(kc_trace_start(s, file()), 0);
    CHECK_EQ(kc_trace_start(s, file()), -EALREADY);
    CHECK_EQ(kc_trace_stop(s), 0);
    CHECK_EQ(kc_trace_stop(s), -EALREADY);
    CHECK_EQ(kc_trace_start(NULL, file()), -EINVAL);
    CHECK_EQ(kc_trace_start(s, NULL), -EINVAL);
    CHECK_EQ(kc_trace_stop(NULL), -EINVAL);
    free(check_trace(file()).text);
    unlink(file());
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST(an_unwritable_path_is_reported_and_leaves_nothing_started)
{
    kc_sched_t *s = make(KC_NO_WORKERS);

    CHECK_EQ(kc_trace_start(s, "/no/such/folder/trace.json"), -ENOENT);
    CHECK_EQ(kc_trace_start(s, "/"), -EISDIR);
    CHECK_EQ(kc_trace_stop(s), -EALREADY);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST(a_full_disk_is_reported_by_stop)
{
    kc_sched_t *s = make(KC_NO_WORKERS);

    if (access("/dev/full", W_OK) != 0)
        SKIP("no /dev/full");
    CHECK_EQ(kc_trace_start(s, "/dev/full"), 0);
    run(s, tree, NULL);
    CHECK_EQ(kc_trace_stop(s), -ENOSPC);
    CHECK_EQ(kc_trace_start(s, file()), 0); /* and the next one works */
    CHECK_EQ(kc_trace_stop(s), 0);
    free(check_trace(file()).text);
    unlink(file());
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST(destroying_the_scheduler_completes_its_trace)
{
    for
        EACH_COUNT(w)
        {
            kc_sched_t *s = make(worker_counts[w]);
            CHECK_EQ(kc_trace_start(s, file()), 0);
            CHECK_EQ(kc_sched_submit(s, KC_WORKER, sleeps, NULL), 0);
            CHECK_EQ(kc_sched_destroy(s), 0);
            struct seen seen = check_trace(file());
            CHECK_EQ(seen.jobs, 1);
            CHECK_EQ(seen.finalized, 1);
            CHECK(has(seen.text, "\"by\":\"parent\""));
            free(seen.text);
            unlink(file());
        }
}

static atomic_int begun, may_end;

static int spins(void *arg)
{
    atomic_fetch_add(&begun, 1);
    while (!atomic_load(&may_end))
        ;
    return arg ? 0 : kc_yield();
}

/* It shows what was there before, who runs without ever switching, and closes all at its end. */
TEST(a_trace_of_jobs_that_still_run_is_complete)
{
    kc_sched_t *s = make(1);
    kc_launch_opts_t opts = { .sched = s, .name = "endless", .affinity = KC_WORKER_AT(0) };

    CHECK_EQ(kc_launch_job(sleeps, NULL, &opts, NULL), 0);
    CHECK_EQ(kc_launch_job(spins, NULL, &opts, NULL), 0);
    while (atomic_load(&begun) == 0)
        sched_yield();
    CHECK_EQ(kc_trace_start(s, file()), 0);
    CHECK_EQ(kc_trace_stop(s), 0);
    struct seen seen = check_trace(file());
    CHECK_EQ(seen.jobs, 2);
    CHECK_EQ(seen.finalized, 0);
    CHECK_EQ(seen.runs, 1);
    free(seen.text);
    unlink(file());
    atomic_store(&may_end, 1);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static int many(void *arg)
{
    for (long left = *(long *)arg; left > 0; left--) {
        kc_job_t *j;
        CHECK_EQ(kc_launch_job(nothing, NULL, &(kc_launch_opts_t){ .name = "one" }, &j), 0);
        CHECK_EQ(kc_job_join(j), 0);
        kc_job_release(j);
    }
    return 0;
}

/* Jobs use each other's memory again; full lanes go to the file and come back in order. */
TEST_SLOW(jobs_at_one_address_have_different_numbers, 60000)
{
    long n = kc_test_rounds(400);

    for
        EACH_COUNT(w)
        {
            kc_sched_t *s = make(worker_counts[w]);
            CHECK_EQ(kc_trace_start(s, file()), 0);
            run(s, many, &n);
            CHECK_EQ(kc_trace_stop(s), 0);
            struct seen seen = check_trace(file());
            CHECK_EQ(seen.jobs, n + 1);
            CHECK_EQ(seen.finalized, n + 1);
            CHECK_EQ(seen.dropped, 0);
            free(seen.text);
            unlink(file());
            CHECK_EQ(kc_sched_destroy(s), 0);
        }
}

/* ---- what the walk at the start may find ----------------------------------------------------- */

/* A job was created after the trace had begun, and then the walk found it running, and a child of
 * it whose own event came too late. */
TEST(what_was_created_during_the_start_of_a_trace_begins_then_and_not_before)
{
    enum { PARENT = 1000000007, CHILD = 1000000008 };
    kc_sched_t *s = make(KC_NO_WORKERS);

    CHECK_EQ(kc_trace_start(s, file()), 0);
    int64_t now = kc__os_now();
    kc__sched_record(s, (kc_record_t){ .kind = KC_EVENT_CREATE, .job = PARENT, .at = now }, NULL);
    kc__sched_record(
        s, (kc_record_t){ .kind = KC_EVENT_PRESENT, .job = CHILD, .other = PARENT, .at = now + 1 },
        NULL);
    kc__sched_record(
        s, (kc_record_t){ .kind = KC_EVENT_RUNS, .job = PARENT, .value = 0, .at = now + 1 }, NULL);
    kc__sched_record(s, (kc_record_t){ .kind = KC_EVENT_RUN, .job = 0, .at = now + 2 }, NULL);
    CHECK_EQ(kc_trace_stop(s), 0);
    struct seen seen = check_trace(file());
    CHECK_EQ(seen.jobs, 2);
    CHECK_EQ(seen.runs, 1);
    free(seen.text);
    unlink(file());
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- start and stop while everything runs --------------------------------------------------- */

static atomic_int over;

static int churn(void *arg)
{
    int us = 1;

    (void)arg;
    while (!atomic_load(&over)) {
        kc_scope_t scope;
        CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .name = "churn" }), 0);
        for (int i = 0; i < 4; i++) {
            kc_job_t *j;
            CHECK_EQ(kc_launch_job(naps, &us, NULL, &j), 0);
            if (i == 0)
                kc_job_cancel(j, -EINTR);
            kc_job_release(j);
        }
        CHECK_EQ(kc_scope_end(&scope), 0);
    }
    return 0;
}

static void *outside(void *arg)
{
    while (!atomic_load(&over)) {
        kc_job_t *j;
        CHECK_EQ(kc_launch_job(sleeps, NULL, &(kc_launch_opts_t){ .sched = arg }, &j), 0);
        kc_job_cancel(j, 0);
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        kc_job_release(j);
    }
    return NULL;
}

TEST_SLOW(traces_start_and_stop_while_four_workers_run, 60000)
{
    kc_sched_t *s = make(4);
    pthread_t thread;

    for (int i = 0; i < 8; i++)
        CHECK_EQ(kc_sched_submit(s, KC_WORKER, churn, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, outside, s), 0);
    for (long i = 0, n = kc_test_rounds(2); i < n; i++) {
        CHECK_EQ(kc_trace_start(s, file()), 0);
        CHECK_EQ(kc_sleep(KC_US(i % 8 * 200)), 0);
        CHECK_EQ(kc_trace_stop(s), 0);
        struct seen seen = check_trace(file());
        CHECK_EQ(seen.dropped, 0);
        free(seen.text);
    }
    atomic_store(&over, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    kc_metrics_t m = metrics(s);
    check_balance(&m);
    CHECK_EQ(m.jobs_live, 0);
    CHECK_EQ(m.stacks_in_use, 0);
    unlink(file());
    CHECK_EQ(kc_sched_destroy(s), 0);
}
