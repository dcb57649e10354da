/* SPDX-License-Identifier: MIT */
/*
 * handle_test.c - a handle that is used after its last release is recognised, of every kind: one
 * line names the call and the kind, then abort (J32).
 */
#include "harness.h"

#include <kcoro/kcoro.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OTHERS = 30 }; /* so many new ones do not get the memory of the old one */

static kc_sched_t *s;
static kc_job_t *job;
static kc_deferred_t *value;
static kc_token_t *token;
static kc_signal_t *sig;
static kc_chan_t *chan;
static kc_broadcast_t *broadcast;
static kc_lease_t lease, old_lease;
static kc_gen_t gen, old_gen;
static kc_subscription_t sub, old_sub;
static uint64_t item;

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int generates(kc_gen_t *g, void *arg)
{
    kc_gen_yield(g, arg);
    return 0;
}

static void open_sched(void)
{
    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = KC_NO_WORKERS }, &s), 0);
}

/* ---- each is made, and given up for good ----------------------------------------------------- */

static void make_job(void)
{
    CHECK_EQ(kc_launch_job(nothing, NULL, &(kc_launch_opts_t){ .sched = s }, &job), 0);
    CHECK_EQ(kc_job_join(job), 0);
    kc_job_release(job);
}

static void make_value(void)
{
    CHECK_EQ(kc_async_job(nothing, NULL, &(kc_launch_opts_t){ .sched = s }, &value), 0);
    CHECK_EQ(kc_await(value, NULL), 0);
    kc_deferred_release(value);
}

/* Its timer still has it, until the scheduler looks. */
static void make_token(void)
{
    CHECK_EQ(kc_schedule_delayed(s, KC_SEC(1), KC_MAIN, nothing, NULL, &token), 0);
    kc_token_release(token);
}

static void make_token_read(void)
{
    make_token();
    CHECK_GE(kc_sched_poll(s, kc_now()), 0);
}

static void make_token_detached(void)
{
    CHECK_EQ(kc_schedule_delayed(s, KC_SEC(1), KC_MAIN, nothing, NULL, &token), 0);
    kc_token_detach(token);
}

static void make_signal(void)
{
    sig = kc_signal_create(16);
    CHECK(sig != NULL);
    kc_signal_release(sig);
}

static void make_chan(void)
{
    CHECK_EQ(kc_chan_create(sizeof item, 1, &chan), 0);
    kc_chan_release(chan);
}

static void make_broadcast(void)
{
    CHECK_EQ(kc_broadcast_create(sizeof item, 1, &broadcast), 0);
    kc_broadcast_release(broadcast);
}

static void make_sched(void)
{
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static void make_lease(void)
{
    CHECK_EQ(kc_group_create(&(kc_launch_opts_t){ .sched = s }, &job), 0);
    CHECK_EQ(kc_lease_take(job, &lease), 0);
    old_lease = lease;
    kc_lease_release(&lease);
    CHECK_EQ(kc_lease_take(job, &lease), 0); /* the job is there still, and held by others */
}

static void make_gen(void)
{
    CHECK_EQ(kc_gen_start(&gen, generates, NULL, 0), 0);
    old_gen = gen;
    kc_gen_end(&gen);
}

static void make_sub(void)
{
    if (!broadcast)
        CHECK_EQ(kc_broadcast_create(sizeof item, 1, &broadcast), 0);
    CHECK_EQ(kc_subscribe(broadcast, &sub), 0);
    old_sub = sub;
    kc_unsubscribe(&sub);
}

/* ---- calls ----------------------------------------------------------------------------------- */

#define USE(name, call)                                                                           \
    static void name(void)                                                                        \
    {                                                                                             \
        (void)(call);                                                                             \
    }
#define USE_VOID(name, call)                                                                      \
    static void name(void)                                                                        \
    {                                                                                             \
        call;                                                                                     \
    }

USE(job_state, kc_job_state(job))
USE(job_cancel, kc_job_cancel(job, 0))
USE(job_retain, kc_job_retain(job))
USE(job_result, kc_job_result(job, NULL) == 0)
USE(job_parent, kc_launch_job(nothing, NULL, &(kc_launch_opts_t){ .parent = job }, NULL) == 0)
USE(lease_take, kc_lease_take(job, &lease) == 0)
USE(job_join, kc_job_join(job) == 0)
USE_VOID(job_release, kc_job_release(job))
USE_VOID(job_drop, kc_job_drop(job))
USE(await, kc_await(value, NULL) == 0)
USE(deferred_get, kc_deferred_get(value, NULL) == 0)
USE(deferred_state, kc_deferred_state(value))
USE(promise_complete, kc_promise_complete(value, 0, NULL) == 0)
USE_VOID(deferred_release, kc_deferred_release(value))
USE(token_cancel, kc_token_cancel(token))
USE(token_cancelled, kc_token_cancelled(token))
USE_VOID(token_release, kc_token_release(token))
USE_VOID(token_detach, kc_token_detach(token))
USE(signal_emit, kc_signal_emit(sig, KC_SIG_TERMINATE))
USE(signal_state, kc_signal_state(sig))
USE(signal_data, kc_signal_data(sig))
USE(signal_retain, kc_signal_retain(sig))
USE_VOID(signal_release, kc_signal_release(sig))
USE(chan_send, kc_chan_send(chan, &item) == 0)
USE(chan_recv, kc_chan_recv(chan, &item) == 0)
USE(chan_try_send, kc_chan_try_send(chan, &item) == 0)
USE(chan_try_recv, kc_chan_try_recv(chan, &item) == 0)
USE(chan_len, kc_chan_len(chan))
USE(chan_retain, kc_chan_retain(chan))
USE(chan_select, kc_select(&(kc_case_t){ .chan = chan, .op = KC_RECV, .item = &item }, 1, 0) == 0)
USE_VOID(chan_close, kc_chan_close(chan))
USE_VOID(chan_release, kc_chan_release(chan))
USE(broadcast_send, kc_broadcast_send(broadcast, &item))
USE(broadcast_retain, kc_broadcast_retain(broadcast))
USE(broadcast_subscribe, kc_subscribe(broadcast, &sub))
USE_VOID(broadcast_close, kc_broadcast_close(broadcast))
USE_VOID(broadcast_release, kc_broadcast_release(broadcast))
USE(sched_submit, kc_sched_submit(s, KC_MAIN, nothing, NULL) == 0)
USE(sched_run, kc_sched_run(s) == 0)
USE(sched_poll, kc_sched_poll(s, 0))
USE(sched_run_expired, kc_sched_run_expired(s, 0))
USE(sched_fd, kc_sched_fd(s))
USE(sched_workers, kc_sched_workers(s))
USE(sched_main_thread, (void)kc_sched_main_thread(s))
USE(sched_launch, kc_launch_job(nothing, NULL, &(kc_launch_opts_t){ .sched = s }, NULL) == 0)
USE(sched_delayed, kc_schedule_delayed(s, 1, KC_MAIN, nothing, NULL, NULL) == 0)
USE(sched_interval, kc_schedule_interval(s, 1, KC_MAIN, nothing, NULL, NULL) == 0)
USE(sched_dump, kc_dump(s, stdout))
USE(sched_trace, kc_trace_start(s, "/dev/null"))
USE(sched_destroy, kc_sched_destroy(s))
USE_VOID(sched_metrics, kc_metrics(s, &(kc_metrics_t){ 0 }))
USE_VOID(sched_stop, kc_sched_stop(s))
USE_VOID(lease_release, kc_lease_release(&old_lease))
USE(gen_next, kc_gen_next(&old_gen, NULL) == 0)
USE_VOID(gen_end, kc_gen_end(&old_gen))
USE(sub_recv, kc_subscription_recv(&old_sub, &item, NULL) == 0)
USE(sub_try_recv, kc_subscription_try_recv(&old_sub, &item, NULL) == 0)
USE_VOID(unsubscribe, kc_unsubscribe(&old_sub))

static const struct {
    const char *kind, *call;
    void (*make)(void);
    void (*use)(void);
} table[] = {
    { "job", "kc_job_state", make_job, job_state },
    { "job", "kc_job_cancel", make_job, job_cancel },
    { "job", "kc_job_retain", make_job, job_retain },
    { "job", "kc_job_result", make_job, job_result },
    { "job", "kc_job_join", make_job, job_join },
    { "job", "kc_job_release", make_job, job_release },
    { "job", "kc_job_drop", make_job, job_drop },
    { "job", "kc_launch_job", make_job, job_parent },
    { "job", "kc_lease_take", make_job, lease_take },
    { "deferred", "kc_await", make_value, await },
    { "deferred", "kc_deferred_get", make_value, deferred_get },
    { "deferred", "kc_deferred_state", make_value, deferred_state },
    { "deferred", "kc_promise_complete", make_value, promise_complete },
    { "deferred", "kc_deferred_release", make_value, deferred_release },
    { "token", "kc_token_cancel", make_token, token_cancel },
    { "token", "kc_token_cancelled", make_token, token_cancelled },
    { "token", "kc_token_release", make_token, token_release },
    { "token", "kc_token_detach", make_token, token_detach },
    { "token", "kc_token_cancel", make_token_read, token_cancel },
    { "token", "kc_token_cancelled", make_token_read, token_cancelled },
    { "token", "kc_token_release", make_token_read, token_release },
    { "token", "kc_token_detach", make_token_read, token_detach },
    { "token", "kc_token_release", make_token_detached, token_release },
    { "signal", "kc_signal_emit", make_signal, signal_emit },
    { "signal", "kc_signal_state", make_signal, signal_state },
    { "signal", "kc_signal_data", make_signal, signal_data },
    { "signal", "kc_signal_retain", make_signal, signal_retain },
    { "signal", "kc_signal_release", make_signal, signal_release },
    { "channel", "kc_chan_send", make_chan, chan_send },
    { "channel", "kc_chan_recv", make_chan, chan_recv },
    { "channel", "kc_chan_try_send", make_chan, chan_try_send },
    { "channel", "kc_chan_try_recv", make_chan, chan_try_recv },
    { "channel", "kc_chan_len", make_chan, chan_len },
    { "channel", "kc_chan_retain", make_chan, chan_retain },
    { "channel", "kc_select", make_chan, chan_select },
    { "channel", "kc_chan_close", make_chan, chan_close },
    { "channel", "kc_chan_release", make_chan, chan_release },
    { "broadcast", "kc_broadcast_send", make_broadcast, broadcast_send },
    { "broadcast", "kc_broadcast_retain", make_broadcast, broadcast_retain },
    { "broadcast", "kc_subscribe", make_broadcast, broadcast_subscribe },
    { "broadcast", "kc_broadcast_close", make_broadcast, broadcast_close },
    { "broadcast", "kc_broadcast_release", make_broadcast, broadcast_release },
    { "scheduler", "kc_sched_submit", make_sched, sched_submit },
    { "scheduler", "kc_sched_run", make_sched, sched_run },
    { "scheduler", "kc_sched_poll", make_sched, sched_poll },
    { "scheduler", "kc_sched_run_expired", make_sched, sched_run_expired },
    { "scheduler", "kc_sched_fd", make_sched, sched_fd },
    { "scheduler", "kc_sched_workers", make_sched, sched_workers },
    { "scheduler", "kc_sched_main_thread", make_sched, sched_main_thread },
    { "scheduler", "kc_launch_job", make_sched, sched_launch },
    { "scheduler", "kc_schedule_delayed", make_sched, sched_delayed },
    { "scheduler", "kc_schedule_interval", make_sched, sched_interval },
    { "scheduler", "kc_dump", make_sched, sched_dump },
    { "scheduler", "kc_trace_start", make_sched, sched_trace },
    { "scheduler", "kc_metrics", make_sched, sched_metrics },
    { "scheduler", "kc_sched_stop", make_sched, sched_stop },
    { "scheduler", "kc_sched_destroy", make_sched, sched_destroy },
    { "lease", "kc_lease_release", make_lease, lease_release },
    { "generator", "kc_gen_next", make_gen, gen_next },
    { "generator", "kc_gen_end", make_gen, gen_end },
    { "subscription", "kc_subscription_recv", make_sub, sub_recv },
    { "subscription", "kc_subscription_try_recv", make_sub, sub_try_recv },
    { "subscription", "kc_unsubscribe", make_sub, unsubscribe },
};

enum { ROWS = sizeof table / sizeof table[0] };

/* ---- in a process of its own ---------------------------------------------------------------- */

/* Those that keep their own copy of the old one, or end what they are made in, are made once. */
static bool can_repeat(void (*make)(void))
{
    return make != make_sched && make != make_lease && make != make_gen && make != make_sub;
}

/* Some more of the same kind come before the old handle is used; what they leave in the variables
 * is put back. */
static void make_others(void (*make)(void))
{
    kc_job_t *j = job;
    kc_deferred_t *v = value;
    kc_token_t *t = token;
    kc_signal_t *g = sig;
    kc_chan_t *c = chan;
    kc_broadcast_t *b = broadcast;

    for (int i = 0; i < OTHERS && can_repeat(make); i++)
        make();
    job = j;
    value = v;
    token = t;
    sig = g;
    chan = c;
    broadcast = b;
}

static void misuse(int row, bool others)
{
    open_sched();
    table[row].make();
    if (others)
        make_others(table[row].make);
    table[row].use();
    fprintf(stderr, "survived");
}

/* What the process says that uses the handle of this row, and how it ends. */
static int run(int row, bool others, bool debug, char *says, size_t size)
{
    int fd[2], status;

    CHECK_EQ(pipe(fd), 0);
    pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        dup2(fd[1], STDERR_FILENO);
        close(fd[0]);
        close(fd[1]);
        setenv("KCORO_DEBUG", debug ? "1" : "0", 1);
        misuse(row, others);
        _exit(0);
    }
    close(fd[1]);
    kc_test_read_said(fd[0], says, size);
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void check_rows(bool others, bool debug)
{
    char says[4096], begin[64];

    for (int row = 0; row < ROWS; row++) {
        int died = run(row, others, debug, says, sizeof says);
        snprintf(begin, sizeof begin, "kcoro: %s: ", table[row].call);
        if (died != SIGABRT)
            kc_test_fail(__FILE__, __LINE__, "row %d, %s of a %s: signal %d, \"%s\"", row,
                         table[row].call, table[row].kind, died, says);
        /* A job's handle may be called .parent, or the like, behind the call. */
        if (strncmp(says, begin, strlen(begin) - 2) != 0 || !strstr(says, table[row].kind))
            kc_test_fail(__FILE__, __LINE__, "row %d, %s of a %s: \"%s\"", row, table[row].call,
                         table[row].kind, says);
        if (strchr(says, '\n') != says + strlen(says) - 1)
            kc_test_fail(__FILE__, __LINE__, "more than one line: \"%s\"", says);
    }
}

TEST(an_old_handle_is_recognised_by_every_call)
{
    check_rows(false, false);
}

TEST(an_old_handle_is_recognised_after_others_have_been_made)
{
    check_rows(true, false);
}

TEST(an_old_handle_is_recognised_with_debugging_on)
{
    check_rows(true, true);
}

static void open_and_close(int n)
{
    for (int i = 0; i < n; i++) {
        open_sched();
        CHECK_EQ(kc_sched_destroy(s), 0);
    }
}

TEST_ABORTS(with_debugging_on_the_memory_of_a_scheduler_is_never_used_again,
            "kc_sched_stop: the scheduler has been destroyed")
{
    setenv("KCORO_DEBUG", "1", 1);
    open_and_close(1);
    kc_sched_t *old = s;
    open_and_close(3);
    open_sched();
    kc_sched_stop(old);
}

/* Their numbers are never given out again: so however many come after it. */
TEST_ABORTS(a_copy_of_a_released_lease_is_found_after_any_number_of_others, "a copy of a lease")
{
    open_sched();
    make_lease();
    kc_lease_t old = old_lease;
    for (int i = 0; i < 1000; i++) {
        kc_lease_release(&lease);
        CHECK_EQ(kc_lease_take(job, &lease), 0);
    }
    kc_lease_release(&old);
}

TEST_ABORTS(a_copy_of_an_ended_generator_is_found_after_any_number_of_others,
            "a copy of a generator")
{
    make_gen();
    kc_gen_t old = old_gen;
    for (int i = 0; i < 1000; i++)
        make_gen();
    kc_gen_next(&old, NULL);
}

TEST_ABORTS(a_copy_of_a_subscription_is_found_after_any_number_of_others,
            "a copy of a subscription")
{
    make_sub();
    kc_subscription_t old = old_sub;
    for (int i = 0; i < 1000; i++)
        make_sub();
    (void)kc_subscription_try_recv(&old, &item, NULL);
}

/* What its header says of the object itself stays. */
TEST(what_was_given_up_itself_is_left_alone)
{
    open_sched();
    make_lease();
    kc_lease_release(&lease);
    kc_lease_release(&lease);
    make_gen();
    kc_gen_end(&gen);
    make_sub();
    kc_unsubscribe(&sub);
    CHECK_EQ(kc_subscription_try_recv(&sub, &item, NULL), -22);
    kc_broadcast_release(broadcast);
    CHECK_EQ(kc_group_close(job), 0);
    CHECK_EQ(kc_job_join(job), 0);
    kc_job_release(job);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* A lease may be moved, as long as one is given up. */
TEST(a_lease_may_be_released_by_its_copy)
{
    open_sched();
    CHECK_EQ(kc_group_create(&(kc_launch_opts_t){ .sched = s }, &job), 0);
    CHECK_EQ(kc_lease_take(job, &lease), 0);
    kc_lease_t moved = lease;
    kc_lease_release(&moved);
    CHECK_EQ(kc_group_close(job), 0);
    CHECK_EQ(kc_job_join(job), 0);
    kc_job_release(job);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST_ABORTS(a_pointer_that_is_no_signal_is_recognised,
            "kc_signal_retain: the pointer is not a signal")
{
    static uint64_t something[32];

    kc_signal_retain((kc_signal_t *)something);
}
