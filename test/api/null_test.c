/* SPDX-License-Identifier: MIT */
/*
 * null_test.c - every public call that takes a pointer, with NULL for it.
 *
 * One rule for all: what returns an int or a time gives -EINVAL; whatever is given up may be NULL;
 * what has no error to return prints one line that names it, and aborts. NULL is no bad use where
 * the header says so: options, outputs, items to be dropped, arguments.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what a call does ----------------------------------------------------------------------- */

static int said; /* the pipe by which the child's stderr is read */

/* True in a child, which makes the call. */
static bool in_child(void)
{
    int fds[2];

    CHECK_EQ(pipe(fds), 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK_GE(pid, 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        dup2(fds[1], STDERR_FILENO);
    }
    close(fds[1]);
    said = fds[0];
    return pid == 0;
}

/* The child has died of it, and named the call. */
static void check_aborted(const char *call)
{
    char text[512], name[64] = "";
    int status;

    kc_test_read_said(said, text, sizeof text);
    CHECK_GE(wait(&status), 0);
    memcpy(name, call, strcspn(call, "("));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(text, name) ||
        strncmp(text, "kcoro: ", 7) != 0)
        FAIL("%s: status %#x, said \"%s\"", call, (unsigned)status, text);
}

#define IS_EINVAL(call) CHECK_EQ(call, -EINVAL)
#define ABORTS(call)                                                                              \
    do {                                                                                          \
        if (in_child()) {                                                                         \
            (void)(call);                                                                         \
            _exit(0);                                                                             \
        }                                                                                         \
        check_aborted(#call);                                                                     \
    } while (0)

static void nothing(void *arg)
{
    (void)arg;
}

static int task(void *arg)
{
    (void)arg;
    return 0;
}

/* Every test on a plain thread and in a job. */
static int in_a_job(void *test)
{
    (*(void (**)(void))test)();
    return 0;
}

#define TWICE(ident)                                                                              \
    static void check_##ident(void);                                                              \
    TEST(null_for_##ident)                                                                        \
    {                                                                                             \
        void (*test)(void) = check_##ident;                                                       \
        test();                                                                                   \
        CHECK_EQ(kc_run(in_a_job, &test, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }), 0);     \
    }                                                                                             \
    static void check_##ident(void)

/* ---- coro.h, defer.h, gen.h ------------------------------------------------------------------ */

TWICE(a_coroutine)
{
    CHECK_PTR(kcoro_create(NULL, NULL, 0), NULL);
    IS_EINVAL(kcoro_resume(NULL));
    IS_EINVAL(kcoro_unpark(NULL));
    kcoro_release(NULL);
    kcoro_destroy(NULL);
    ABORTS(kcoro_state(NULL));
    ABORTS(kcoro_id(NULL));
    ABORTS(kcoro_set_name(NULL, "name"));
    ABORTS(kcoro_name(NULL));
    ABORTS(kcoro_stack_used(NULL));
    ABORTS(kcoro_retain(NULL));
}

static void yields_to_null(void *arg)
{
    *(int *)arg = kcoro_yield_to(NULL);
}

TWICE(the_target_of_a_yield)
{
    int rc = 0;
    kcoro_t *co = kcoro_create(yields_to_null, &rc, 0);

    CHECK_EQ(kcoro_resume(co), 0);
    IS_EINVAL(rc);
    kcoro_destroy(co);
}

TWICE(a_cleanup)
{
    IS_EINVAL(kc_defer(NULL, NULL));
    CHECK(!kc_undefer(NULL, NULL));
    ABORTS(kc_cleanup_push(NULL, nothing, NULL));
    ABORTS(kc_cleanup_push(&(kc_cleanup_t){ 0 }, NULL, NULL));
    ABORTS(kc_cleanup_pop(NULL));
}

static int generate(kc_gen_t *g, void *arg)
{
    (void)g, (void)arg;
    return 0;
}

TWICE(a_generator)
{
    kc_gen_t g;

    IS_EINVAL(kc_gen_start(NULL, generate, NULL, 0));
    IS_EINVAL(kc_gen_start(&g, NULL, NULL, 0));
    ABORTS(kc_gen_next(NULL, NULL));
    ABORTS(kc_gen_yield(NULL, NULL));
    IS_EINVAL(kc_gen_end(NULL));
}

/* ---- sched.h, timer.h, trace.h --------------------------------------------------------------- */

TEST(null_for_a_scheduler)
{
    kc_metrics_t numbers;

    IS_EINVAL(kc_sched_create(NULL, NULL));
    CHECK_EQ(kc_sched_destroy(NULL), 0);
    IS_EINVAL(kc_sched_submit(NULL, KC_WORKER, task, NULL));
    IS_EINVAL(kc_sched_submit_with(NULL, KC_WORKER, task, NULL, NULL));
    IS_EINVAL(kc_sched_submit_many(NULL, KC_WORKER, &(kc_call_t){ .fn = task }, 1));
    IS_EINVAL(kc_sched_run(NULL));
    IS_EINVAL(kc_sched_run_expired(NULL, 0));
    IS_EINVAL(kc_sched_poll(NULL, 0));
    IS_EINVAL(kc_sched_fd(NULL));
    IS_EINVAL(kc_run(NULL, NULL, NULL));
    IS_EINVAL(kc_sched_workers(NULL));
    IS_EINVAL(kc_schedule_delayed(NULL, 0, KC_WORKER, task, NULL, NULL));
    IS_EINVAL(kc_schedule_interval(NULL, 1, KC_WORKER, task, NULL, NULL));
    IS_EINVAL(kc_schedule_delayed_with(NULL, 0, KC_WORKER, task, NULL, NULL, NULL));
    IS_EINVAL(kc_schedule_interval_with(NULL, 1, KC_WORKER, task, NULL, NULL, NULL));
    IS_EINVAL(kc_trace_start(NULL, "/dev/null"));
    IS_EINVAL(kc_trace_stop(NULL));
    IS_EINVAL(kc_dump(NULL, stderr));
    ABORTS(kc_sched_stop(NULL));
    ABORTS(kc_sched_main_thread(NULL));
    ABORTS(kc_metrics(NULL, &numbers));
}

static int others_in_a_job(void *arg)
{
    kc_sched_t *s = kc_sched_current();
    kc_call_t none = { .fn = NULL };

    (void)arg;
    IS_EINVAL(kc_sched_submit(s, KC_WORKER, NULL, NULL));
    IS_EINVAL(kc_sched_submit_with(s, KC_WORKER, NULL, NULL, NULL));
    IS_EINVAL(kc_sched_submit_many(s, KC_WORKER, NULL, 1));
    IS_EINVAL(kc_sched_submit_many(s, KC_WORKER, &none, 1));
    IS_EINVAL(kc_schedule_delayed(s, 0, KC_WORKER, NULL, NULL, NULL));
    IS_EINVAL(kc_schedule_interval(s, 1, KC_WORKER, NULL, NULL, NULL));
    IS_EINVAL(kc_trace_start(s, NULL));
    IS_EINVAL(kc_dump(s, NULL));
    ABORTS(kc_metrics(s, NULL));
    return 0;
}

TEST(null_for_what_a_scheduler_is_given)
{
    CHECK_EQ(kc_run(others_in_a_job, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }), 0);
}

TWICE(a_token)
{
    kc_token_release(NULL);
    kc_token_detach(NULL);
    ABORTS(kc_token_cancel(NULL));
    ABORTS(kc_token_cancelled(NULL));
}

/* ---- job.h, collect.h ------------------------------------------------------------------------ */

TWICE(a_job)
{
    kc_lease_t lease;

    IS_EINVAL(kc_job_result(NULL, NULL));
    IS_EINVAL(kc_job_returned(NULL, NULL));
    IS_EINVAL(kc_job_culprit(NULL, NULL, NULL));
    IS_EINVAL(kc_job_message(NULL, NULL, 0));
    IS_EINVAL(kc_job_reason(NULL));
    IS_EINVAL(kc_job_join(NULL));
    IS_EINVAL(kc_job_join_until(NULL, 0));
    IS_EINVAL(kc_group_close(NULL));
    IS_EINVAL(kc_lease_take(NULL, &lease));
    IS_EINVAL(kc_join_any(NULL, 1, NULL));
    IS_EINVAL(kc_join_any(&(kc_job_t *){ NULL }, 1, NULL));
    IS_EINVAL(kc_suspend(NULL, NULL, NULL));
    ABORTS(kc_wake(NULL, 0));
    kc_job_release(NULL);
    kc_job_drop(NULL);
    kc_lease_release(NULL);
    ABORTS(kc_job_retain(NULL));
    ABORTS(kc_job_state(NULL));
    ABORTS(kc_job_name(NULL));
    ABORTS(kc_job_cancel(NULL, 0));
    ABORTS(kc_job_signal(NULL));
}

TWICE(a_deferred_value)
{
    void *payload = &payload;

    IS_EINVAL(kc_deferred_get(NULL, &payload));
    CHECK_PTR(payload, &payload);
    IS_EINVAL(kc_await(NULL, &payload));
    CHECK_PTR(payload, NULL); /* as after every error */
    IS_EINVAL(kc_promise_complete(NULL, 0, NULL));
    IS_EINVAL(kc_resolve(NULL, 0, NULL));
    kc_resolver_drop(NULL);
    kc_deferred_release(NULL);
    kc_deferred_drop(NULL);
    ABORTS(kc_deferred_state(NULL));
    ABORTS(kc_deferred_job(NULL));
    ABORTS(kc_deferred_retain(NULL));
}

static int launches_in_a_job(void *arg)
{
    kc_call_t none = { .fn = NULL };

    (void)arg;
    IS_EINVAL(kc_launch(NULL, NULL));
    IS_EINVAL(kc_launch_job(NULL, NULL, NULL, NULL));
    IS_EINVAL(kc_async(NULL, NULL, NULL));
    IS_EINVAL(kc_async_job(NULL, NULL, NULL, NULL));
    IS_EINVAL(kc_group_create(NULL, NULL));
    IS_EINVAL(kc_promise(NULL, NULL));
    IS_EINVAL(kc_oneshot(NULL, NULL, NULL));
    IS_EINVAL(kc_lease_take(kc_job_current(), NULL));
    IS_EINVAL(kc_local_set(NULL, &none));
    CHECK_PTR(kc_local_get(NULL), NULL);
    IS_EINVAL(kc_scope(NULL, NULL, NULL));
    IS_EINVAL(kc_scope_begin(NULL, NULL));
    IS_EINVAL(kc_scope_end(NULL));
    ABORTS(kc_scope_job(NULL));
    IS_EINVAL(kc_with_timeout(1, NULL, NULL));
    IS_EINVAL(kc_with_deadline(KC_FOREVER, NULL, NULL));
    IS_EINVAL(kc_all(NULL, 1, 0));
    IS_EINVAL(kc_all(&none, 1, 0));
    IS_EINVAL(kc_any(NULL, 1, 0, NULL));
    IS_EINVAL(kc_any(&none, 1, 0, NULL));
    IS_EINVAL(kc_race(NULL, 1, NULL));
    IS_EINVAL(kc_race(&none, 1, NULL));
    IS_EINVAL(kc_first_ok(NULL, 1, NULL));
    IS_EINVAL(kc_first_ok(&none, 1, NULL));
    IS_EINVAL(kc_all_fail_fast(NULL, 1));
    IS_EINVAL(kc_all_fail_fast(&none, 1));
    IS_EINVAL(kc_all_window(NULL, 1, 1));
    IS_EINVAL(kc_all_window(&none, 1, 1));
    return 0;
}

TEST(null_for_a_function_a_scope_or_a_place_for_a_handle)
{
    CHECK_EQ(kc_run(launches_in_a_job, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }), 0);
}

/* ---- signal.h -------------------------------------------------------------------------------- */

static void hears(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired, (void)signal, (void)arg;
}

TWICE(a_signal)
{
    kc_slot_t slot;

    kc_signal_release(NULL);
    IS_EINVAL(kc_slot_bind(&slot, NULL, KC_SIG_ALL));
    ABORTS(kc_signal_data(NULL));
    ABORTS(kc_signal_retain(NULL));
    ABORTS(kc_signal_emit(NULL, KC_SIG_TERMINATE));
    ABORTS(kc_signal_state(NULL));
}

TWICE(a_slot)
{
    kc_signal_t *s = kc_signal_create(0);
    kc_slot_filter_t guard;
    kc_slot_t slot;

    IS_EINVAL(kc_slot_bind(NULL, s, KC_SIG_ALL));
    CHECK_EQ(kc_slot_bind(&slot, s, KC_SIG_ALL), 0);
    IS_EINVAL(kc_slot_chain(NULL, s));
    IS_EINVAL(kc_slot_chain(&slot, NULL));
    ABORTS(kc_slot_unbind(NULL));
    CHECK(!kc_slot_on(NULL, KC_SIG_TERMINATE, hears, NULL));
    ABORTS((void)!kc_slot_on(&slot, KC_SIG_TERMINATE, NULL, NULL));
    CHECK(!kc_slot_clear(NULL, KC_SIG_TERMINATE));
    CHECK(!kc_slot_triggered(NULL, KC_SIG_TERMINATE));
    ABORTS(kc_slot_filter(NULL));
    ABORTS(kc_slot_filter_push(NULL, &guard, KC_SIG_ALL));
    ABORTS(kc_slot_filter_push(&slot, NULL, KC_SIG_ALL));
    ABORTS(kc_slot_filter_pop(NULL, &guard));
    ABORTS(kc_slot_filter_pop(&slot, NULL));
    CHECK(kc_slot_signal(NULL) == NULL);
    kc_slot_unbind(&slot);
    kc_signal_release(s);
}

/* ---- sync.h ---------------------------------------------------------------------------------- */

TWICE(a_lock)
{
    kc_mutex_t m = KC_MUTEX_INIT;
    kc_cond_t c = KC_COND_INIT;

    IS_EINVAL(kc_mutex_lock(NULL));
    IS_EINVAL(kc_mutex_lock_until(NULL, 0));
    IS_EINVAL(kc_rwlock_rdlock(NULL));
    IS_EINVAL(kc_rwlock_wrlock(NULL));
    IS_EINVAL(kc_rwlock_rdlock_until(NULL, 0));
    IS_EINVAL(kc_rwlock_wrlock_until(NULL, 0));
    IS_EINVAL(kc_cond_wait(NULL, &m));
    IS_EINVAL(kc_cond_wait(&c, NULL));
    IS_EINVAL(kc_cond_wait_until(NULL, &m, 0));
    IS_EINVAL(kc_cond_wait_until(&c, NULL, 0));
    ABORTS(kc_mutex_lock_nocancel(NULL));
    ABORTS(kc_mutex_try_lock(NULL));
    ABORTS(kc_mutex_trylock(NULL));
    ABORTS(kc_mutex_unlock(NULL));
    ABORTS(kc_rwlock_try_rdlock(NULL));
    ABORTS(kc_rwlock_try_wrlock(NULL));
    ABORTS(kc_rwlock_tryrdlock(NULL));
    ABORTS(kc_rwlock_trywrlock(NULL));
    ABORTS(kc_rwlock_rdunlock(NULL));
    ABORTS(kc_rwlock_wrunlock(NULL));
    ABORTS(kc_cond_signal(NULL));
    ABORTS(kc_cond_broadcast(NULL));
}

TWICE(a_meeting_point)
{
    kc_once_t once = KC_ONCE_INIT;

    IS_EINVAL(kc_sem_acquire(NULL));
    IS_EINVAL(kc_sem_acquire_until(NULL, 0));
    IS_EINVAL(kc_latch_wait(NULL));
    IS_EINVAL(kc_latch_wait_until(NULL, 0));
    IS_EINVAL(kc_latch_arrive_and_wait(NULL));
    IS_EINVAL(kc_event_wait(NULL));
    IS_EINVAL(kc_event_wait_until(NULL, 0));
    IS_EINVAL(kc_barrier_wait(NULL));
    ABORTS(kc_sem_try_acquire(NULL));
    ABORTS(kc_sem_tryacquire(NULL));
    ABORTS(kc_sem_release(NULL, 1));
    ABORTS(kc_latch_count_down(NULL));
    ABORTS(kc_event_set(NULL));
    ABORTS(kc_event_reset(NULL));
    ABORTS(kc_event_is_set(NULL));
    ABORTS(kc_once(NULL, nothing, NULL));
    ABORTS(kc_once(&once, NULL, NULL));
}

/* ---- chan.h, broadcast.h --------------------------------------------------------------------- */

TWICE(a_channel)
{
    kc_case_t other = { .op = 3 };
    kc_chan_t *c;
    int item = 1;

    IS_EINVAL(kc_chan_create(sizeof item, 1, NULL));
    IS_EINVAL(kc_chan_create_with(NULL, &c));
    IS_EINVAL(kc_chan_create_with(&(kc_chan_opts_t){ 0 }, NULL));
    CHECK_EQ(kc_chan_create(sizeof item, 1, &c), 0);
    IS_EINVAL(kc_chan_send(NULL, &item));
    IS_EINVAL(kc_chan_send(c, NULL));
    IS_EINVAL(kc_chan_send_until(NULL, &item, 0));
    IS_EINVAL(kc_chan_send_until(c, NULL, 0));
    IS_EINVAL(kc_chan_try_send(NULL, &item));
    IS_EINVAL(kc_chan_try_send(c, NULL));
    IS_EINVAL(kc_chan_recv(NULL, &item));
    IS_EINVAL(kc_chan_recv_until(NULL, &item, 0));
    IS_EINVAL(kc_chan_try_recv(NULL, &item));
    IS_EINVAL(kc_select(NULL, 1, 0));
    IS_EINVAL(kc_select(&other, 1, 0));
    IS_EINVAL(kc_select_biased(NULL, 1, 0));
    kc_chan_release(NULL);
    ABORTS(kc_chan_close(NULL));
    ABORTS(kc_chan_close_with(NULL, -EIO));
    IS_EINVAL(kc_chan_cause(NULL));
    ABORTS(kc_chan_len(NULL));
    ABORTS(kc_chan_retain(NULL));
    kc_chan_release(c);
}

TWICE(a_broadcast)
{
    kc_subscription_t sub;
    kc_broadcast_t *b;
    int item = 1;

    IS_EINVAL(kc_broadcast_create(sizeof item, 1, NULL));
    CHECK_EQ(kc_broadcast_create(sizeof item, 1, &b), 0);
    IS_EINVAL(kc_broadcast_send(NULL, &item));
    IS_EINVAL(kc_broadcast_send(b, NULL));
    IS_EINVAL(kc_subscribe(NULL, &sub));
    IS_EINVAL(kc_subscribe(b, NULL));
    IS_EINVAL(kc_subscription_recv(NULL, &item, NULL));
    IS_EINVAL(kc_subscription_recv_until(NULL, &item, NULL, 0));
    IS_EINVAL(kc_subscription_try_recv(NULL, &item, NULL));
    kc_broadcast_release(NULL);
    ABORTS(kc_broadcast_close(NULL));
    ABORTS(kc_broadcast_close_with(NULL, -EIO));
    IS_EINVAL(kc_broadcast_cause(NULL));
    ABORTS(kc_broadcast_retain(NULL));
    ABORTS(kc_unsubscribe(NULL));
    kc_broadcast_release(b);
}
