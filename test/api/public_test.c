/* SPDX-License-Identifier: MIT */
/*
 * public_test.c - the public calls alone, as a user links them: against the shared library.
 *
 * The rules in depth are tested in test/unit; this shows that the exported surface is complete and
 * that programs of ordinary shape work.
 */
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STR_(x) #x
#define STR(x) STR_(x)

TEST(the_version_of_the_library_is_the_headers)
{
    CHECK_STR(kc_version(),
              STR(KC_VERSION_MAJOR) "." STR(KC_VERSION_MINOR) "." STR(KC_VERSION_PATCH));
}

static void counter(void *arg)
{
    for (int i = 0;; i++) {
        *(int *)arg = i;
        kcoro_yield();
    }
}

TEST(a_generator_keeps_its_place)
{
    int value = -1;
    kcoro_t *co = kcoro_create(counter, &value, 0);

    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(kcoro_resume(co), 0);
        CHECK_EQ(value, i);
    }
    kcoro_destroy(co);
}

/* The prime sieve: a chain of filters, each a coroutine that resumes the one before it. */
struct filter {
    kcoro_t *source;
    int *value, prime;
};

static void filter(void *arg)
{
    struct filter *f = arg;

    for (;;) {
        do
            CHECK_EQ(kcoro_resume(f->source), 0);
        while (*f->value % f->prime == 0);
        kcoro_yield();
    }
}

TEST(a_prime_sieve_of_nested_coroutines)
{
    static const int primes[] = { 2,  3,  5,  7,  11, 13, 17, 19, 23, 29,
                                  31, 37, 41, 43, 47, 53, 59, 61, 67, 71 };
    enum { N = sizeof primes / sizeof primes[0] };
    struct filter f[N];
    int value = 0;
    kcoro_t *first = kcoro_create(counter, &value, 0), *last = first;

    CHECK_EQ(kcoro_resume(first), 0);
    CHECK_EQ(kcoro_resume(first), 0); /* past 0 and 1 */
    for (int i = 0; i < N; i++) {
        CHECK_EQ(kcoro_resume(last), 0);
        CHECK_EQ(value, primes[i]);
        f[i] = (struct filter){ last, &value, value };
        last = kcoro_create(filter, &f[i], 0);
    }
    kcoro_destroy(last);
    for (int i = N - 1; i >= 0; i--)
        kcoro_destroy(f[i].source);
}

static void prints_doubles(void *arg)
{
    snprintf(arg, 64, "%.3f %s %Lg", 3.14159, "x", 2.5L);
    kcoro_yield();
    qsort(arg, strlen(arg), 1, (int (*)(const void *, const void *))strcmp);
}

TEST(libc_calls_with_deep_frames_fit_the_default_stack)
{
    char text[64];
    kcoro_t *co = kcoro_create(prints_doubles, text, 0);

    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_STR(text, "3.142 x 2.5");
    CHECK_LT(kcoro_stack_used(co), 64 * 1024 * (kc_test_under_asan() ? 4 : 1));
    kcoro_destroy(co);
}

static _Thread_local int thread_number;

static void reads_thread_local(void *arg)
{
    int expected = *(int *)arg;

    for (int i = 0; i < 100; i++) {
        CHECK_EQ(thread_number, expected);
        kcoro_yield();
    }
}

static void *thread_with_coroutines(void *arg)
{
    enum { N = 10 };
    kcoro_t *co[N];

    thread_number = *(int *)arg;
    for (int i = 0; i < N; i++)
        co[i] = kcoro_create(reads_thread_local, arg, 0);
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < N; i++)
            CHECK_EQ(kcoro_resume(co[i]), 0);
    for (int i = 0; i < N; i++)
        kcoro_destroy(co[i]);
    return NULL;
}

TEST(threads_run_their_own_coroutines_and_thread_locals_are_theirs)
{
    enum { N = 6 };
    pthread_t thread[N];
    int number[N];

    for (int i = 0; i < N; i++) {
        number[i] = i + 100;
        CHECK_EQ(pthread_create(&thread[i], NULL, thread_with_coroutines, &number[i]), 0);
    }
    for (int i = 0; i < N; i++)
        pthread_join(thread[i], NULL);
}

static void parks(void *arg)
{
    (void)arg;
    kcoro_park();
}

TEST(every_exported_call_works_from_outside)
{
    kcoro_t *co = kcoro_create(parks, NULL, 128 * 1024);

    CHECK(co != NULL);
    CHECK_STR(kcoro_create_error(), "");
    kcoro_set_name(co, "outside");
    CHECK_STR(kcoro_name(co), "outside");
    CHECK_EQ(kcoro_state(co), KCORO_CREATED);
    CHECK_GT(kcoro_id(co), 0);
    CHECK_EQ(kcoro_stack_used(co), 0);
    CHECK_PTR(kcoro_current(), NULL);
    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(kcoro_unpark(co), 0);
    CHECK_EQ(kcoro_yield_to(co), -EPERM);
    kcoro_release(kcoro_retain(co));
    CHECK(kcoro_create_main() != NULL);
    CHECK_EQ(kcoro_yield_to(co), 0);
    CHECK_EQ(kcoro_state(co), KCORO_FINISHED);
    CHECK_EQ(kc_defer(free, NULL), -EPERM);
    CHECK(!kc_undefer(free, NULL));
    CHECK_EQ(kcoro_report_overflow(), 0);
    kcoro_destroy(co);
}

/* ---- schedulers ------------------------------------------------------------------------------ */

static int adds_one(void *arg)
{
    __atomic_fetch_add((int *)arg, 1, __ATOMIC_RELAXED);
    return 0;
}

static int uses_the_scheduler(void *arg)
{
    kc_sched_t *s = kc_sched_current();
    kc_call_t calls[] = { { .fn = adds_one, .arg = arg }, { .fn = adds_one, .arg = arg } };
    kc_token_t *token;

    CHECK_EQ(kc_sched_submit(s, KC_MAIN, adds_one, arg), 0);
    CHECK_EQ(kc_sched_submit_many(s, KC_MAIN, calls, 2), 0);
    CHECK_EQ(kc_sched_submit_with(s, KC_HERE, adds_one, arg, NULL), 0);
    CHECK_EQ(kc_worker_index(), KC_MAIN);
    CHECK(pthread_equal(kc_sched_main_thread(s), pthread_self()));
    CHECK_EQ(kc_hop(KC_MAIN), 0);
    CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    CHECK_EQ(kc_sleep_until(kc_now()), 0);
    CHECK_EQ(kc_schedule_delayed(s, KC_SEC(1000), KC_MAIN, adds_one, arg, &token), 0);
    CHECK(kc_token_cancel(token));
    CHECK(kc_token_cancelled(token));
    kc_token_release(token);
    CHECK_EQ(kc_schedule_interval(s, KC_SEC(1000), KC_MAIN, adds_one, arg, &token), 0);
    kc_token_detach(token);
    CHECK_EQ(kc_schedule_delayed_with(s, KC_SEC(1000), KC_MAIN, adds_one, arg, NULL, NULL), 0);
    CHECK_EQ(kc_schedule_interval_with(s, KC_SEC(1000), KC_MAIN, adds_one, arg, NULL, NULL), 0);
    kc_sched_stop(s);
    return 0;
}

TEST(every_exported_call_of_schedulers_works_from_outside)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };
    kc_sched_t *s;
    int n = 0;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    CHECK_EQ(kc_sched_workers(s), 0);
    CHECK_GE(kc_sched_fd(s), 0);
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, uses_the_scheduler, &n), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    CHECK_GE(kc_sched_run_expired(s, kc_now()), 0);
    CHECK_GE(kc_sched_poll(s, kc_now()), 0);
    CHECK_GE(n, 3);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- signals --------------------------------------------------------------------------------- */

static void counts_an_emit(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    CHECK(fired != 0 && signal);
    ++*(int *)arg;
}

TEST(every_exported_call_of_signals_works_from_outside)
{
    const kc_sigset_t bit = 1ull << 48;
    kc_signal_t *a = kc_signal_create(16), *b = kc_signal_create(0);
    kc_slot_filter_t guard;
    kc_slot_t slot;
    int n = 0;

    CHECK(kc_signal_data(a) != NULL);
    kc_signal_release(kc_signal_retain(a));
    CHECK_EQ(kc_slot_bind(&slot, a, KC_SIG_ALL), 0);
    CHECK_PTR(kc_slot_signal(&slot), a);
    CHECK(kc_slot_on(&slot, bit, counts_an_emit, &n));
    CHECK_EQ(kc_slot_chain(&slot, b), 0);
    CHECK_EQ(kc_signal_emit(a, bit), bit);
    CHECK_EQ(kc_signal_state(b), bit);
    CHECK(kc_slot_triggered(&slot, bit));
    kc_slot_filter_push(&slot, &guard, KC_SIG_NONE);
    CHECK_EQ(kc_slot_filter(&slot), KC_SIG_NONE);
    kc_slot_filter_pop(&slot, &guard);
    CHECK(kc_slot_clear(&slot, bit));
    kc_slot_unbind(&slot);
    CHECK_EQ(n, 1);
    kc_signal_release(a);
    kc_signal_release(b);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static int sleeps_for_ever(void *arg)
{
    (void)arg;
    return kc_sleep(KC_FOREVER);
}

static void in_scopes(void)
{
    kc_scope_t scope;
    int n = 0;

    CHECK_EQ(kc_scope(adds_one, &n, NULL), 0);
    CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .name = "scope" }), 0);
    CHECK_PTR(kc_scope_job(&scope), kc_job_current());
    CHECK_STR(kc_job_name(kc_scope_job(&scope)), "scope");
    CHECK_EQ(kc_launch(adds_one, &n), 0);
    CHECK_EQ(kc_launch(sleeps_for_ever, NULL), 0);
    CHECK_EQ(kc_shield_begin(), 0);
    CHECK(kc_cancel_current(-EPIPE));
    CHECK(!kc_cancelled());
    kc_shield_end();
    CHECK(kc_cancelled());
    CHECK_EQ(kc_check(), -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), -EPIPE);
    CHECK_EQ(kc_scope_end(&scope), -EPIPE);
    CHECK_EQ(kc_cancel_reason(), 0);
}

static void by_handles(void)
{
    kc_launch_opts_t opts = { .name = "child", .timeout = KC_SEC(1000) };
    kc_job_t *j;
    kc_lease_t lease;
    int code = 0;

    CHECK_EQ(kc_launch_job(sleeps_for_ever, NULL, &opts, &j), 0);
    CHECK_EQ(kc_job_state(j), KC_JOB_ACTIVE);
    CHECK_EQ(kc_job_result(j, &code), -EAGAIN);
    CHECK_EQ(kc_job_join_until(j, kc_now() + KC_MS(1)), -ETIMEDOUT);
    CHECK(kc_job_signal(j) != NULL);
    CHECK(kc_job_cancel(j, -EINTR));
    CHECK_EQ(kc_job_reason(j), -EINTR);
    CHECK_EQ(kc_job_join(j), -EINTR);
    kc_job_release(kc_job_retain(j));
    kc_job_drop(j);

    CHECK_EQ(kc_group_create(NULL, &j), 0);
    CHECK_EQ(kc_lease_take(j, &lease), 0);
    CHECK_EQ(kc_launch_job(adds_one, &code, &(kc_launch_opts_t){ .parent = j }, NULL), 0);
    CHECK_EQ(kc_group_close(j), 0);
    kc_lease_release(&lease);
    CHECK_EQ(kc_job_join(j), 0);
    CHECK_EQ(code, 1);
    kc_job_release(j);
}

static const char local_key;

static int sets_a_payload(void *arg)
{
    CHECK_PTR(kc_local_get(&local_key), arg);
    kc_set_payload(arg);
    kc_forbid_signal();
    CHECK_PTR(kc_current_slot(), NULL);
    return 0;
}

static void with_values(void)
{
    kc_deferred_t *d;
    void *value = NULL;
    int n = 0;

    CHECK_EQ(kc_local_set(&local_key, &n), 0);
    CHECK_EQ(kc_async(sets_a_payload, &n, &d), 0);
    CHECK_EQ(kc_await(d, &value), 0);
    CHECK_PTR(value, &n);
    kc_deferred_release(kc_deferred_retain(d));
    kc_deferred_release(d);
    CHECK_EQ(kc_async_job(sets_a_payload, &n, NULL, &d), 0);
    CHECK_EQ(kc_job_join(kc_deferred_job(d)), 0);
    CHECK_EQ(kc_deferred_get(d, &value), 0);
    kc_deferred_release(d);
    CHECK_EQ(kc_promise(NULL, &d), 0);
    CHECK_EQ(kc_deferred_state(d), KC_DEFERRED_PENDING);
    CHECK_EQ(kc_promise_complete(d, 0, &d), 0);
    CHECK_EQ(kc_await(d, &value), 0);
    CHECK_PTR(value, &d);
    kc_deferred_release(d);
    CHECK(kc_current_slot() != NULL);
}

static void counts_it(void *arg)
{
    ++*(int *)arg;
}

static int sets_a_payload_to_dispose_of(void *arg)
{
    kc_set_payload_with(arg, counts_it);
    return 0;
}

static void wakes_at_once(kc_waker_t *w, void *arg)
{
    (void)arg;
    kc_wake(w, 3);
}

static void with_both_halves(void)
{
    kc_deferred_t *d;
    kc_resolver_t *r;
    kc_job_t *j;
    size_t which = 9;
    int n = 0;

    CHECK_EQ(kc_oneshot(NULL, &d, &r), 0);
    CHECK_EQ(kc_resolve(r, 0, NULL), 0);
    j = kc_deferred_job(d);
    CHECK_EQ(kc_join_any(&j, 1, &which), 0);
    CHECK_EQ(which, 0);
    kc_deferred_drop(d);
    CHECK_EQ(kc_oneshot(NULL, &d, &r), 0);
    kc_deferred_release(d);
    kc_resolver_drop(r);
    CHECK_EQ(kc_async(sets_a_payload_to_dispose_of, &n, &d), 0);
    CHECK_EQ(kc_await(d, NULL), 0);
    CHECK_EQ(n, 0);
    kc_deferred_release(d);
    CHECK_EQ(kc_suspend(wakes_at_once, NULL, NULL), 3);
}

static void several_at_once(void)
{
    int n = 0;
    size_t winner = 9;
    kc_call_t calls[] = { { .fn = adds_one, .arg = &n }, { .fn = adds_one, .arg = &n } };

    CHECK_EQ(kc_all(calls, 2, KC_SIG_NONE), 0);
    CHECK_EQ(kc_all_fail_fast(calls, 2), 0);
    CHECK_EQ(kc_all_window(calls, 2, 1), 0);
    CHECK_EQ(n, 6);
    CHECK_EQ(kc_race(calls, 2, &winner), 0);
    CHECK_LT(winner, 2);
    CHECK_EQ(kc_first_ok(calls, 2, &winner), 0);
    CHECK_EQ(kc_any(calls, 1, KC_SIG_TERMINATE, &winner), 0);
    CHECK_EQ(kc_with_timeout(KC_SEC(1000), adds_one, &n), 0);
    CHECK_EQ(kc_with_deadline(kc_now() + KC_SEC(1000), adds_one, &n), 0);
}

static int uses_jobs(void *arg)
{
    (void)arg;
    in_scopes();
    by_handles();
    with_values();
    with_both_halves();
    several_at_once();
    return 0;
}

TEST(every_exported_call_of_jobs_works_from_outside)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME };

    CHECK_EQ(kc_run(uses_jobs, NULL, &opts), 0);
    CHECK_EQ(kc_run(uses_jobs, NULL, NULL), 0);
}
