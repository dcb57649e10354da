/* SPDX-License-Identifier: MIT */
/*
 * trace_test.c - E1 and E3: counters that balance, and traces that are valid JSON and true.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <kcoro/kcoro.h>

#include <ctype.h>
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

/* ---- a strict reader of JSON ---------------------------------------------------------------- */

/* Not strspn, of which AddressSanitizer's takes the length of the whole text each time. */
static const char *spaces(const char *p)
{
    while (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')
        p++;
    return p;
}

static const char *digits(const char *p)
{
    while (isdigit((unsigned char)*p))
        p++;
    return p;
}

static const char *string(const char *p)
{
    CHECK_EQ(*p++, '"');
    while (*p != '"') {
        CHECK_GE((unsigned char)*p, 0x20);
        if (*p == '\\' && p[1] == 'u') {
            for (int i = 2; i < 6; i++)
                CHECK(isxdigit((unsigned char)p[i]));
            p += 6;
        } else if (*p == '\\') {
            CHECK(p[1] && strchr("\"\\/bfnrt", p[1]));
            p += 2;
        } else {
            p++;
        }
    }
    return p + 1;
}

static const char *number(const char *p)
{
    p += *p == '-';
    CHECK(isdigit((unsigned char)*p));
    p = *p == '0' ? p + 1 : digits(p);
    if (*p == '.') {
        CHECK(isdigit((unsigned char)p[1]));
        p = digits(p + 1);
    }
    return p;
}

static const char *value(const char *p)
{
    p = spaces(p);
    if (*p == '"')
        return string(p);
    if (*p != '{' && *p != '[')
        return number(p);
    char open = *p, close = open == '{' ? '}' : ']';
    p = spaces(p + 1);
    while (*p != close) {
        if (open == '{') {
            p = spaces(string(p));
            CHECK_EQ(*p++, ':');
        }
        p = spaces(value(p));
        if (*p == close)
            break;
        CHECK_EQ(*p++, ',');
        p = spaces(p);
        CHECK_NE(*p, close);
    }
    return p + 1;
}

/* ---- what a trace must be ------------------------------------------------------------------- */

enum { MAX_IDS = 1 << 20 };

struct seen {
    uint64_t jobs, finalized, runs, arrows, dropped;
    char *text;
    bool *open; /* by number of a job: "b" without "e" */
};

static long long field(const char *line, const char *name)
{
    const char *at = strstr(line, name);

    CHECK(at);
    return strtoll(at + strlen(name), NULL, 10);
}

static bool has(const char *line, const char *what)
{
    return strstr(line, what) != NULL;
}

static void check_line(struct seen *seen, const char *line, int *depth)
{
    char ph = strstr(line, "\"ph\":\"")[6];
    long long tid = field(line, "\"tid\":");

    CHECK_EQ(field(line, "\"pid\":"), 1);
    CHECK(tid >= 0 && tid <= KC_MAX_WORKERS + 3);
    if (ph == 'b') {
        long long id = field(line, "\"id\":"), parent = field(line, "\"parent\":");
        CHECK(id > 0 && id < MAX_IDS && !seen->open[id]);
        CHECK(parent == 0 || seen->open[parent]); /* a parent is there before and after */
        seen->open[id] = true;
        seen->jobs++;
    } else if (ph == 'e') {
        long long id = field(line, "\"id\":");
        CHECK(seen->open[id]);
        seen->open[id] = false;
    } else if (ph == 'B') {
        CHECK_EQ(depth[tid]++, 0);
        CHECK(seen->open[field(line, "\"job\":")]);
        seen->runs++;
    } else if (ph == 'E') {
        CHECK_EQ(--depth[tid], 0);
    } else if (ph == 'i') {
        long long job = field(line, "\"job\":");
        CHECK(job == 0 || seen->open[job]);
        seen->finalized += has(line, "JOB_FINALIZE");
    } else {
        CHECK(ph == 'M' || ph == 's' || ph == 'f');
        seen->arrows += ph == 'f';
    }
}

/* Reads the file and checks it. The caller frees the text. */
static struct seen check_trace(const char *path)
{
    struct seen seen = { .open = calloc(MAX_IDS, sizeof(bool)) };
    int depth[KC_MAX_WORKERS + 4] = { 0 };
    FILE *f = fopen(path, "r");
    size_t size = 0;

    CHECK(f && seen.open);
    CHECK_GT(getdelim(&seen.text, &size, 0, f), 0);
    fclose(f);
    CHECK_EQ(*spaces(value(seen.text)), 0);
    char *copy = strdup(seen.text);
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, "{\"ph\"", 5) == 0)
            check_line(&seen, line, depth);
    free(copy);
    for (int i = 0; i < MAX_IDS; i++)
        CHECK(!seen.open[i]);
    for (int i = 0; i < KC_MAX_WORKERS + 4; i++)
        CHECK_EQ(depth[i], 0);
    seen.dropped = (uint64_t)field(seen.text, "\"dropped\":");
    free(seen.open);
    return seen;
}

static const char *file(void)
{
    static char path[64];

    snprintf(path, sizeof path, "/tmp/kcoro-trace-%d.json", (int)getpid());
    return path;
}

/* ---- E3: traces ----------------------------------------------------------------------------- */

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
TEST(a_trace_of_jobs_that_go_on_is_complete)
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
