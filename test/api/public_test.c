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
