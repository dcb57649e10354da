/* SPDX-License-Identifier: MIT */
/*
 * dump_test.c - E2: the tree of jobs, while the program runs and when it hangs.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int over;

static kc_sched_t *make(int workers, uint32_t flags)
{
    kc_sched_t *s;

    CHECK_EQ(
        kc_sched_create(&(kc_sched_opts_t){ .workers = workers, .flags = flags, .name = "d" }, &s),
        0);
    return s;
}

static char *dump(kc_sched_t *s)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    CHECK(f);
    CHECK_EQ(kc_dump(s, f), 0);
    CHECK_EQ(fclose(f), 0);
    return text;
}

#define SAYS(text, what) CHECK_(strstr((text), (what)) != NULL, text, what)
#define NEVER_SAYS(text, what) CHECK_(strstr((text), (what)) == NULL, text, what)
#define CHECK_(cond, text, what) ((cond) ? (void)0 : FAIL("\"%s\" in:\n%s", what, text))

/* format has one number. */
static void says_numbered(const char *text, const char *format, uint64_t number)
{
    char what[256], *at = what;
    const char *mark = strstr(format, "%llu");

    memcpy(at, format, (size_t)(mark - format));
    at += mark - format;
    at += sprintf(at, "%llu", (unsigned long long)number);
    strcpy(at, mark + 4);
    SAYS(text, what);
}

static int sleeps(void *arg)
{
    (void)arg;
    return kc_sleep(KC_SEC(1000));
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* Runs fn as a job of a scheduler without workers, which is its argument. */
static void run(kc_fn_t fn)
{
    kc_sched_t *s = make(KC_NO_WORKERS, KC_SCHED_VIRTUAL_TIME);

    CHECK_EQ(kc_launch_job(fn, s, &(kc_launch_opts_t){ .sched = s, .name = "top" }, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static kc_launch_opts_t named(const char *name)
{
    return (kc_launch_opts_t){ .name = name };
}

/* ---- what a line says ----------------------------------------------------------------------- */

static int parks(void *arg)
{
    (void)arg;
    kcoro_park();
    return 0;
}

static int joins(void *arg)
{
    return kc_job_join(arg);
}

static int shields(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_shield_begin(), 0);
    CHECK_EQ(kc_sleep(KC_MS(10)), 0);
    kc_shield_end();
    return 0;
}

static int all_kinds(void *arg)
{
    kc_scope_t scope;
    kc_job_t *sleeper, *group, *j;
    kc_deferred_t *promise;
    kc_launch_opts_t opts = named("sleeper");

    CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .name = "scope" }), 0);
    CHECK_EQ(kc_launch_job(sleeps, NULL, &opts, &sleeper), 0);
    opts = named("parker");
    CHECK_EQ(kc_launch_job(parks, NULL, &opts, NULL), 0);
    opts = named("joiner");
    CHECK_EQ(kc_launch_job(joins, sleeper, &opts, NULL), 0);
    opts = named("shielded");
    CHECK_EQ(kc_launch_job(shields, NULL, &opts, &j), 0);
    opts = named("group");
    CHECK_EQ(kc_group_create(&opts, &group), 0);
    opts = named("promise");
    opts.parent = group;
    CHECK_EQ(kc_promise(&opts, &promise), 0);
    CHECK_EQ(kc_launch(joins, kc_deferred_job(promise)), 0);
    CHECK_EQ(kc_launch_job(nothing, NULL, &(kc_launch_opts_t){ .name = "gone" }, NULL), 0);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    opts = named("late");
    CHECK_EQ(kc_launch_job(sleeps, NULL, &opts, NULL), 0);
    CHECK(kc_job_cancel(j, -EINTR));
    char *text = dump(arg);
    SAYS(text, "kcoro: scheduler \"d\", 0 workers, 10 jobs\n");
    says_numbered(text,
                  "\n  job %llu \"top\", age 0.001 s, ACTIVE, inside its scope, 1 below\n    ",
                  kcoro_id(kcoro_current()));
    says_numbered(text,
                  "scope %llu \"scope\", age 0.001 s, ACTIVE, runs on the main thread, 7 below\n",
                  kc_job_id(kc_scope_job(&scope)));
    says_numbered(text, "\n      job %llu \"sleeper\", age ", kc_job_id(sleeper));
    SAYS(text, ", ACTIVE, waits for sleep\n");
    SAYS(text, ", ACTIVE, waits for park\n");
    says_numbered(text, ", ACTIVE, waits for join of job %llu \"sleeper\"\n", kc_job_id(sleeper));
    says_numbered(text, ", ACTIVE, waits for join of promise %llu \"promise\"\n",
                  kc_job_id(kc_deferred_job(promise)));
    SAYS(text, ", CANCELLING (-4, Interrupted system call), shielded, waits for sleep\n");
    says_numbered(text, "\n      group %llu \"group\", age 0.001 s, ACTIVE, open, 1 below\n",
                  kc_job_id(group));
    says_numbered(text, "\n        promise %llu \"promise\", age 0.001 s, ACTIVE, open\n",
                  kc_job_id(kc_deferred_job(promise)));
    SAYS(text, " \"late\", age 0.000 s, ACTIVE, not started\n");
    NEVER_SAYS(text, "gone");
    free(text);
    kc_deferred_release(promise);
    CHECK_EQ(kc_group_close(group), 0);
    kc_job_release(group);
    kc_job_release(j);
    kc_job_release(sleeper);
    CHECK(kc_job_cancel(kc_scope_job(&scope), 0));
    CHECK_EQ(kc_scope_end(&scope), -ECANCELED);
    return 0;
}

TEST(each_job_says_its_number_name_age_state_reason_and_what_it_waits_for)
{
    run(all_kinds);
}

/* ---- what is waited for --------------------------------------------------------------------- */

static kc_mutex_t named_mutex = KC_MUTEX_NAMED("database"), mutexes[2], threads_mutex;
static kc_rwlock_t named_lock = KC_RWLOCK_NAMED("table"), read_lock;
static kc_cond_t cond;
static kc_sem_t sem;
static kc_event_t event;
static kc_latch_t latch = KC_LATCH_INIT(1);
static kc_chan_t *orders;

static int wants_mutex(void *arg)
{
    kc_mutex_t *m = arg;
    int rc = kc_mutex_lock(m);

    if (rc == 0)
        kc_mutex_unlock(m);
    return rc;
}

static int wants_to_read(void *arg)
{
    int rc = kc_rwlock_rdlock(arg);

    if (rc == 0)
        kc_rwlock_rdunlock(arg);
    return rc;
}

static int wants_to_write(void *arg)
{
    int rc = kc_rwlock_wrlock(arg);

    if (rc == 0)
        kc_rwlock_wrunlock(arg);
    return rc;
}

static int waits_for_cond(void *arg)
{
    CHECK_EQ(kc_mutex_lock(&mutexes[1]), 0);
    int rc = kc_cond_wait(arg, &mutexes[1]);
    kc_mutex_unlock(&mutexes[1]);
    return rc;
}

static int takes_sem(void *arg)
{
    return kc_sem_acquire(arg);
}

static int waits_for_event(void *arg)
{
    return kc_event_wait(arg);
}

static int waits_for_latch(void *arg)
{
    return kc_latch_wait(arg);
}

static int receives(void *arg)
{
    int item;

    return kc_chan_recv(arg, &item);
}

/* The line of the job with that name says that it waits so. */
static void waits_for(const char *text, const char *name, const char *format, const void *object,
                      const char *more)
{
    char what[256], line[512];

    snprintf(what, sizeof what, "\"%s\"", name);
    const char *at = strstr(text, what);
    CHECK_(at != NULL, text, what);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    snprintf(what, sizeof what, ", ACTIVE, waits for %s at %p%s", format, object, more);
    CHECK_(strstr(line, what) && !strcmp(strstr(line, what), what), text, what);
}

static int everything_that_can_be_waited_for(void *arg)
{
    static const struct {
        kc_fn_t fn;
        void *object;
        const char *name;
    } jobs[] = {
        { wants_mutex, &named_mutex, "mutex" },
        { wants_mutex, &mutexes[0], "element" },
        { wants_mutex, &threads_mutex, "thread's" },
        { wants_to_read, &named_lock, "reader" },
        { wants_to_write, &read_lock, "writer" },
        { waits_for_cond, &cond, "cond" },
        { takes_sem, &sem, "sem" },
        { waits_for_event, &event, "event" },
        { waits_for_latch, &latch, "latch" },
    };
    char owner[64];

    CHECK_EQ(kc_mutex_lock(&named_mutex), 0);
    CHECK_EQ(kc_mutex_lock(&mutexes[0]), 0);
    CHECK_EQ(kc_rwlock_wrlock(&named_lock), 0);
    CHECK_EQ(kc_rwlock_rdlock(&read_lock), 0);
    CHECK_EQ(kc_chan_create_with(&(kc_chan_opts_t){ .item_size = sizeof(int), .name = "orders" },
                                 &orders),
             0);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        CHECK_EQ(kc_launch_job(jobs[i].fn, jobs[i].object,
                               &(kc_launch_opts_t){ .name = jobs[i].name }, NULL),
                 0);
    CHECK_EQ(kc_launch_job(receives, orders, &(kc_launch_opts_t){ .name = "chan" }, NULL), 0);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    char *text = dump(arg);
    snprintf(owner, sizeof owner, ", owned by job %llu \"top\"",
             (unsigned long long)kc_job_id(kc_job_current()));
    SAYS(text, ", runs on the main thread, holds a lock to read at ");
    SAYS(text, ", a lock to write \"table\" at ");
    waits_for(text, "mutex", "a mutex \"database\"", &named_mutex, owner);
    waits_for(text, "element", "a mutex", &mutexes[0], owner);
    waits_for(text, "thread's", "a mutex", &threads_mutex, ", owned by a plain thread");
    waits_for(text, "reader", "a lock to read \"table\"", &named_lock, owner);
    waits_for(text, "writer", "a lock to write", &read_lock, ", held by 1 reader");
    waits_for(text, "cond", "a condition", &cond, "");
    waits_for(text, "sem", "a semaphore", &sem, "");
    waits_for(text, "event", "an event", &event, "");
    waits_for(text, "latch", "a latch", &latch, "");
    waits_for(text, "chan", "a receive from channel \"orders\"", orders, "");
    free(text);
    kc_mutex_unlock(&named_mutex);
    kc_mutex_unlock(&mutexes[0]);
    kc_rwlock_wrunlock(&named_lock);
    kc_rwlock_rdunlock(&read_lock);
    kc_cancel_current(0);
    return 0;
}

TEST(a_job_that_waits_names_what_for_its_address_and_its_owner)
{
    CHECK_EQ(kc_mutex_lock(&threads_mutex), 0);
    run(everything_that_can_be_waited_for);
    kc_mutex_unlock(&threads_mutex);
    kc_chan_release(orders);
}

static int locks_what_is_freed(void *arg)
{
    while (!atomic_load(&over)) {
        kc_mutex_t *m = aligned_alloc(64, 1 << 20); /* a mapping of its own */
        CHECK(m);
        *m = (kc_mutex_t)KC_MUTEX_NAMED("short-lived");
        CHECK_EQ(kc_mutex_lock(m), 0);
        kc_scope_t scope;
        CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
        CHECK_EQ(kc_launch(wants_mutex, m), 0);
        CHECK_EQ(kc_yield(), 0);
        kc_mutex_unlock(m);
        CHECK_EQ(kc_scope_end(&scope), 0);
        free(m);
    }
    return arg != NULL;
}

static void *dumps_some(void *arg)
{
    long rounds = kc_test_rounds(50);

    for (long i = 0; i < rounds && kc_test_has_time(); i++)
        free(dump(arg));
    atomic_store(&over, 1);
    return NULL;
}

TEST(a_lock_that_is_freed_while_it_is_looked_at_does_no_harm)
{
    kc_sched_t *s = make(2, 0);
    pthread_t thread;

    for (int i = 0; i < 2; i++)
        CHECK_EQ(kc_sched_submit(s, KC_WORKER, locks_what_is_freed, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, dumps_some, s), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static int returns_first(void *arg)
{
    (void)arg;
    return kc_launch(sleeps, NULL);
}

static int looks(void *arg)
{
    kc_job_t *j;

    CHECK_EQ(kc_launch_job(returns_first, NULL, NULL, &j), 0);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    char *text = dump(arg);
    says_numbered(text, "job %llu, ACTIVE, has returned, 1 below\n", kc_job_id(j));
    free(text);
    kc_job_drop(j);
    return 0;
}

TEST(the_dump_of_a_job_says_that_its_body_has_returned)
{
    run(looks);
}

static int thousands(void *arg)
{
    kc_job_t *group;

    CHECK_EQ(kc_group_create(NULL, &group), 0);
    for (int i = 0; i < 2000; i++) {
        kc_launch_opts_t opts = { .parent = group, .name = i % 2 ? "odd" : "even" };
        CHECK_EQ(kc_launch_job(sleeps, NULL, &opts, NULL), 0);
    }
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    char *text = dump(arg);
    size_t lines = 0;
    for (char *p = text; (p = strchr(p, '\n')) != NULL; p++)
        lines += strncmp(p + 1 + strspn(p + 1, " "), "at ", 3) != 0;
    CHECK_EQ(lines, 7); /* head, top, group, twice a job and how many more; the end */
    SAYS(text, "2000 below");
    SAYS(text, "        x 999 more like this\n");
    free(text);
    kc_job_cancel(group, 0);
    kc_job_release(group);
    return 0;
}

TEST(siblings_that_say_the_same_are_folded)
{
    run(thousands);
}

static int deep(void *arg)
{
    int *left = arg;

    if (--*left > 0)
        CHECK_EQ(kc_launch(deep, left), 0);
    return kc_sleep(KC_SEC(1000));
}

static int looks_deep(void *arg)
{
    int left = 1000;
    kc_job_t *j;

    free(dump(arg));
    size_t flat = kcoro_stack_used(kcoro_current());
    CHECK_EQ(kc_launch_job(deep, &left, NULL, &j), 0);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    CHECK_EQ(left, 0);
    free(dump(arg));
    CHECK_LT(kcoro_stack_used(kcoro_current()), flat + 8000); /* 8 bytes for each are no frame */
    kc_job_drop(j);
    return 0;
}

TEST(a_tree_1000_deep_needs_no_deep_stack)
{
    run(looks_deep);
}

/* How long a dump is when there is a chain of so many. */
static size_t size_of_dump(void *arg, int jobs)
{
    int left = jobs;
    kc_job_t *j;

    CHECK_EQ(kc_launch_job(deep, &left, NULL, &j), 0);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    CHECK_EQ(left, 0);
    char *text = dump(arg);
    size_t size = strlen(text);
    free(text);
    kc_job_drop(j);
    return size;
}

static int measures_deep(void *arg)
{
    size_t small = size_of_dump(arg, 300);

    CHECK_LT(size_of_dump(arg, 600), small * 5 / 2);
    return 0;
}

TEST(a_tree_that_is_twice_as_deep_is_printed_in_about_twice_as_many_bytes)
{
    run(measures_deep);
}

TEST(a_dump_to_null_is_einval_and_to_a_file_with_an_error_eio)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);
    FILE *full = fopen("/dev/full", "w");

    CHECK_EQ(kc_dump(NULL, stderr), -EINVAL);
    CHECK_EQ(kc_dump(s, NULL), -EINVAL);
    if (full) {
        CHECK_EQ(kc_dump(s, full), -EIO);
        fclose(full);
    }
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- other threads -------------------------------------------------------------------------- */

static int spins(void *arg)
{
    (void)arg;
    while (!atomic_load(&over))
        ;
    return 0;
}

TEST(a_job_that_hangs_is_seen_from_another_thread)
{
    kc_sched_t *s = make(2, 0);
    kc_launch_opts_t opts = { .sched = s, .name = "busy", .affinity = KC_WORKER_AT(1) };

    CHECK_EQ(kc_launch_job(spins, NULL, &opts, NULL), 0);
    opts.affinity = KC_WORKER_AT(0);
    opts.name = "idle";
    CHECK_EQ(kc_launch_job(sleeps, NULL, &opts, NULL), 0);
    for (bool all = false; !all; sched_yield()) {
        char *text = dump(s);
        all = strstr(text, " \"busy\", age ") && strstr(text, ", ACTIVE, runs on worker 1\n") &&
              strstr(text, ", ACTIVE, waits for sleep\n    at 0x"); /* its thread is at rest */
        free(text);
    }
    atomic_store(&over, 1);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static int naps(void *arg)
{
    (void)arg;
    return kc_sleep(KC_US(20));
}

static int churn(void *arg)
{
    while (!atomic_load(&over)) {
        kc_scope_t scope;
        CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .name = "churn" }), 0);
        for (int i = 0; i < 5; i++) {
            kc_job_t *j;
            CHECK_EQ(kc_launch_job(naps, arg, NULL, &j), 0);
            if (i == 0)
                kc_job_cancel(j, -EINTR);
            if (i == 1)
                CHECK_EQ(kc_job_join(j), 0);
            kc_job_release(j);
        }
        if (kc_worker_index() == 0)
            CHECK_EQ(kc_hop(KC_WORKER_AT(1)), 0);
        CHECK_EQ(kc_scope_end(&scope), 0);
    }
    return 0;
}

static void *dumps(void *arg)
{
    while (!atomic_load(&over))
        free(dump(arg));
    return NULL;
}

TEST_SLOW(dumps_from_two_threads_and_a_job_while_four_workers_run, 60000)
{
    kc_sched_t *s = make(4, 0);
    pthread_t thread[2];

    for (int i = 0; i < 8; i++)
        CHECK_EQ(kc_sched_submit(s, KC_WORKER, churn, NULL), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, dumps, s), 0);
    for (long left = kc_test_rounds(5); left > 0; left--) {
        free(dump(s));
        CHECK_EQ(kc_sleep(KC_MS(3)), 0);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(thread[i], NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    char *text = dump(s);
    SAYS(text, ", 4 workers, 0 jobs\n");
    CHECK_EQ(strchr(text, '\n')[1], 0);
    free(text);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* A dump that holds a job for a moment is no reason to say that all wait for ever. */
TEST_SLOW(a_dump_from_another_thread_makes_no_deadlock_of_virtual_time, 60000)
{
    pthread_t thread;

    for (int i = 0; i < 60; i++) {
        kc_sched_t *s = make(KC_NO_WORKERS, KC_SCHED_VIRTUAL_TIME);
        atomic_store(&over, 0);
        CHECK_EQ(pthread_create(&thread, NULL, dumps, s), 0);
        for (int k = 0; k < 50; k++)
            CHECK_EQ(kc_sched_submit(s, KC_MAIN, returns_first, NULL), 0);
        CHECK_EQ(kc_sched_run(s), 0);
        atomic_store(&over, 1);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(kc_sched_destroy(s), 0);
    }
}

/* ---- SIGQUIT -------------------------------------------------------------------------------- */

static atomic_int earlier_ran;

static void earlier(int number)
{
    (void)number;
    atomic_fetch_add(&earlier_ran, 1);
}

/* What comes out of stderr until `what` has been seen. */
static char *read_until(int fd, const char *what)
{
    char *text = calloc(1, 1 << 16);
    size_t used = 0;

    while (!strstr(text, what)) {
        ssize_t n = read(fd, text + used, (1 << 16) - 1 - used);
        CHECK_GT(n, 0);
        used += (size_t)n;
    }
    return text;
}

TEST(sigquit_dumps_all_schedulers_that_asked_for_it_and_then_means_what_it_did_before)
{
    struct sigaction before = { .sa_handler = earlier };
    int ends[2], saved = dup(STDERR_FILENO);

    CHECK_EQ(sigaction(SIGQUIT, &before, NULL), 0);
    CHECK_EQ(pipe(ends), 0);
    kc_sched_t *s = make(1, KC_SCHED_DUMP_ON_SIGQUIT);
    kc_launch_opts_t opts = { .sched = s, .name = "hangs" };
    CHECK_EQ(kc_launch_job(sleeps, NULL, &opts, NULL), 0);
    CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(raise(SIGQUIT), 0);
        char *text = read_until(ends[0], "hangs");
        SAYS(text, "kcoro: scheduler \"d\", 1 workers, 1 jobs\n");
        free(text);
    }
    CHECK_EQ(kc_sched_destroy(s), 0);
    CHECK(dup2(saved, STDERR_FILENO) >= 0);
    CHECK_EQ(atomic_load(&earlier_ran), 0);
    CHECK_EQ(raise(SIGQUIT), 0);
    CHECK_EQ(atomic_load(&earlier_ran), 1);
}

static atomic_int created;

/* So few that what they print fits into a pipe. */
static void *sends_sigquit(void *arg)
{
    for (int i = 0; i < 200 && !atomic_load(&created); i++)
        pthread_kill(*(pthread_t *)arg, SIGQUIT);
    return NULL;
}

TEST(a_sigquit_that_comes_while_the_scheduler_begins_does_not_end_the_service)
{
    struct sigaction before = { .sa_handler = earlier };
    pthread_t self = pthread_self(), thread;
    int ends[2], saved = dup(STDERR_FILENO);

    CHECK_EQ(sigaction(SIGQUIT, &before, NULL), 0);
    for (long i = 0, rounds = kc_test_rounds(10); i < rounds && kc_test_has_time(); i++) {
        CHECK_EQ(pipe(ends), 0);
        CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
        atomic_store(&created, 0);
        CHECK_EQ(pthread_create(&thread, NULL, sends_sigquit, &self), 0);
        kc_sched_t *s = make(KC_NO_WORKERS, KC_SCHED_DUMP_ON_SIGQUIT);
        atomic_store(&created, 1);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(raise(SIGQUIT), 0);
        free(read_until(ends[0], "kcoro: scheduler"));
        CHECK_EQ(kc_sched_destroy(s), 0);
        CHECK(dup2(saved, STDERR_FILENO) >= 0);
        close(ends[0]);
        close(ends[1]);
    }
}

TEST_DIES(without_the_flag_sigquit_kills_as_always, SIGQUIT, "")
{
    kc_sched_t *s = make(1, 0);

    raise(SIGQUIT);
    CHECK_EQ(kc_sched_destroy(s), 0);
}
