/* SPDX-License-Identifier: MIT */
/*
 * fork_test.c - a forked child of a process with schedulers may only exec or _exit (O10).
 *
 * The fork is made by a job on main, by one on a worker, by main outside a pump, and by a plain
 * thread; the child then makes one call, of which it must die with a line that says why. None may
 * hang, and none of the other coroutines may run in the child.
 */
#define _GNU_SOURCE
#include "base/os.h"
#include "sched_kit.h"

#include <kcoro/kcoro.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static kc_sched_t *sched; /* the one that is there when the process forks */
static kc_job_t *other;   /* one of its jobs, which waits */
static kc_deferred_t *promise;
static kc_event_t go = KC_EVENT_INIT, never = KC_EVENT_INIT;
static kc_chan_t *chan;
static pid_t home;

/* ---- what the child does --------------------------------------------------------------------- */

struct call {
    const char *name;
    int (*make)(void);
};

static int returns_0(void *arg UNUSED)
{
    if (getpid() != home) {
        puts("a job has run in the child");
        _exit(3);
    }
    return 0;
}

static int waits_for_go(void *arg)
{
    int rc = kc_event_wait(&go);

    return rc ? rc : returns_0(arg);
}

static int make_nothing(void) /* in a job: then its body returns */
{
    return 0;
}

static int make_failure(void)
{
    return -EIO;
}

static int make_yield(void)
{
    return kc_yield();
}

static int make_coroutine_yield(void)
{
    kcoro_yield();
    return 0;
}

static int make_park(void)
{
    kcoro_park();
    return 0;
}

static int make_sleep(void)
{
    return kc_sleep(KC_MS(1));
}

static int make_wait(void)
{
    return kc_event_wait(&never);
}

static int make_recv(void)
{
    return kc_chan_recv(chan, NULL);
}

static int make_join(void)
{
    return kc_job_join(other);
}

static int make_await(void)
{
    return kc_await(promise, NULL);
}

static int make_hop(void)
{
    return kc_hop(kc_worker_index() == KC_MAIN ? KC_WORKER_AT(0) : KC_MAIN);
}

static int make_launch(void)
{
    return kc_launch(returns_0, NULL);
}

static int make_launch_now(void)
{
    return kc_launch_job(returns_0, NULL, &(kc_launch_opts_t){ .flags = KC_JOB_NOW }, NULL);
}

static int make_scope(void)
{
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    (void)!kc_launch(returns_0, NULL);
    return kc_scope_end(&s);
}

static int make_launch_there(void)
{
    return kc_launch_job(returns_0, NULL, &(kc_launch_opts_t){ .sched = sched }, NULL);
}

static int make_group(void)
{
    kc_job_t *group;

    return kc_group_create(&(kc_launch_opts_t){ .sched = sched }, &group);
}

static int make_submit(void)
{
    return kc_sched_submit(sched, KC_WORKER, returns_0, NULL);
}

static int make_submit_to_main(void)
{
    return kc_sched_submit(sched, KC_MAIN, returns_0, NULL);
}

static int make_delayed(void)
{
    return kc_schedule_delayed(sched, 0, KC_MAIN, returns_0, NULL, NULL);
}

static int make_cancel(void)
{
    return kc_job_cancel(other, 0);
}

static int make_run(void)
{
    return kc_run(returns_0, NULL, NULL);
}

static int make_create(void)
{
    kc_sched_t *s;

    return kc_sched_create(&(kc_sched_opts_t){ .workers = KC_NO_WORKERS }, &s);
}

static int make_sched_run(void)
{
    return kc_sched_run(sched);
}

static int make_poll(void)
{
    return (int)kc_sched_poll(sched, kc_now());
}

static int make_run_expired(void)
{
    return (int)kc_sched_run_expired(sched, kc_now());
}

static int make_destroy(void)
{
    return kc_sched_destroy(sched);
}

static int make_stop(void)
{
    kc_sched_stop(sched);
    return 0;
}

static int make_fd(void)
{
    return kc_sched_fd(sched);
}

static int make_dump(void)
{
    return kc_dump(sched, stderr);
}

static int make_trace(void)
{
    return kc_trace_start(sched, "/dev/null");
}

/* ---- who forks ------------------------------------------------------------------------------- */

/* The child dies of what follows the fork, and says why. */
static void check_died(pid_t pid, int said, const char *call)
{
    char text[1024];
    int status;

    kc_test_read_said(said, text, sizeof text);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(text, "(rule O10,"))
        FAIL("%s: status %#x, said \"%s\"", call, (unsigned)status, text);
}

/* Forks. Returns 0 in the child, whose stderr is read by the parent through *said. */
static pid_t fork_off(int *said)
{
    int fds[2];

    CHECK_EQ(pipe(fds), 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK_GE(pid, 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        dup2(fds[1], STDERR_FILENO);
        dup2(fds[1], STDOUT_FILENO);
        alarm(30);
    }
    close(fds[1]);
    *said = fds[0];
    return pid;
}

static void check_call(const struct call *c)
{
    int said;
    pid_t pid = fork_off(&said);

    if (pid == 0) {
        int rc = c->make();
        printf("it returned %d\n", rc);
        fflush(stdout);
        _exit(2);
    }
    check_died(pid, said, c->name);
}

#define CALL(name)                                                                                \
    {                                                                                             \
#name, make_##name                                                                        \
    }

static const struct call in_jobs[] = {
    CALL(yield),
    CALL(coroutine_yield),
    CALL(park),
    CALL(sleep),
    CALL(wait),
    CALL(recv),
    CALL(join),
    CALL(await),
    CALL(hop),
    CALL(launch),
    CALL(launch_now),
    CALL(scope),
    CALL(run),
    CALL(submit),
    CALL(submit_to_main),
    CALL(launch_there),
    CALL(group),
    CALL(delayed),
    CALL(cancel),
    CALL(create),
    CALL(sched_run),
    CALL(destroy),
    CALL(dump),
    CALL(trace),
};

static const struct call outside[] = {
    CALL(join),    CALL(await),          CALL(launch_there), CALL(group),
    CALL(submit),  CALL(delayed),        CALL(cancel),       CALL(run),
    CALL(create),  CALL(sched_run),      CALL(run_expired),  CALL(poll),
    CALL(destroy), CALL(stop),           CALL(fd),           CALL(dump),
    CALL(trace),   CALL(submit_to_main),
};

static const struct call main_only[] = { CALL(sleep), CALL(wait), CALL(recv) };

static void check_calls(const struct call *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_call(&c[i]);
}

#define CHECK_ALL(calls) check_calls(calls, sizeof calls / sizeof calls[0])

/* The children of this job's process, whose body returns in them, too. */
static int forks(void *arg)
{
    static const struct call ends[] = { CALL(nothing), CALL(failure) };

    CHECK_EQ(kc_launch(waits_for_go, NULL), 0); /* ready in the parent, and so in its children */
    CHECK_EQ(kc_yield(), 0);
    kc_event_set(&go);
    CHECK_ALL(in_jobs);
    for (int i = 0; i < 2; i++) {
        int said;
        pid_t pid = fork_off(&said);
        if (pid == 0)
            return ends[i].make();
        check_died(pid, said, ends[i].name);
    }
    (void)arg;
    return 0;
}

static int waits(void *arg UNUSED)
{
    return kc_event_wait(&never);
}

static void begin(int workers)
{
    home = getpid();
    sched = make(workers, 0);
    CHECK_EQ(kc_chan_create(0, 0, &chan), 0);
    CHECK_EQ(kc_launch_job(waits, NULL, &(kc_launch_opts_t){ .sched = sched }, &other), 0);
    CHECK_EQ(kc_promise(&(kc_launch_opts_t){ .sched = sched }, &promise), 0);
}

static void finish(void)
{
    kc_event_set(&never);
    CHECK_EQ(kc_promise_complete(promise, 0, NULL), 0);
    kc_deferred_release(promise);
    kc_job_release(other);
    run(sched);
    end(sched);
    kc_chan_release(chan);
}

/* An emulator may take the advice to wipe pages, and do nothing. */
static void skip_without_wiping(void)
{
    size_t page = kc__os_page_size();
    char *p = kc__os_map(page);
    int status;

    kc__os_wipe_on_fork(p, page, true);
    *p = 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(*p);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    kc__os_unmap(p, page);
    if (WEXITSTATUS(status) != 0)
        SKIP("memory is not wiped in a forked child here");
}

static void check_job_at(kc_affinity_t where, int workers)
{
    kc_job_t *j;

    skip_without_wiping();
    begin(workers);
    CHECK_EQ(
        kc_launch_job(forks, NULL, &(kc_launch_opts_t){ .sched = sched, .affinity = where }, &j),
        0);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    finish();
}

TEST(a_child_process_of_a_job_on_main_may_not_continue)
{
    check_job_at(KC_MAIN, 1);
}

TEST(a_child_process_of_a_job_on_a_worker_may_not_continue)
{
    check_job_at(KC_WORKER_AT(0), 1);
}

TEST(a_child_process_of_the_thread_that_pumps_may_not_continue)
{
    skip_without_wiping();
    begin(1);
    CHECK_ALL(outside);
    CHECK_ALL(main_only);
    finish();
}

static void *forks_outside(void *arg)
{
    CHECK_ALL(outside);
    return arg;
}

TEST(a_child_process_of_a_plain_thread_may_not_use_a_scheduler)
{
    pthread_t t;

    skip_without_wiping();
    begin(1);
    CHECK_EQ(pthread_create(&t, NULL, forks_outside, NULL), 0);
    CHECK_EQ(pthread_join(t, NULL), 0);
    finish();
}

/* ---- what a child may do --------------------------------------------------------------------- */

static void check_exit_code(pid_t pid, int code)
{
    int status;

    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), code);
}

static int execs(void *arg UNUSED)
{
    pid_t pid = fork();

    if (pid == 0) {
        kc_mutex_t m = KC_MUTEX_INIT; /* what needs nobody else works */
        if (kc_mutex_lock(&m) != 0 || kc_now() == 0)
            _exit(1);
        kc_mutex_unlock(&m);
        execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        _exit(1);
    }
    check_exit_code(pid, 7);
    return 0;
}

TEST(a_child_process_may_exec)
{
    if (kc_test_under_emulation())
        SKIP("the emulator does not run another program");
    CHECK_EQ(kc_run(execs, NULL, &(kc_sched_opts_t){ .workers = 1 }), 0);
}

TEST(a_child_process_of_a_process_without_schedulers_may_make_one)
{
    CHECK_EQ(kc_run(count_one, NULL, &(kc_sched_opts_t){ .workers = 2 }), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(kc_run(count_one, NULL, &(kc_sched_opts_t){ .workers = 2 }) == 0 ? 5 : 1);
    check_exit_code(pid, 5);
    CHECK_EQ(kc_run(count_one, NULL, &(kc_sched_opts_t){ .workers = 2 }), 0);
}
