/* SPDX-License-Identifier: MIT */
/*
 * park_test.c - park and unpark: one permit, never lost, never doubled, from any thread (C3).
 */
#include "coro/coro.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>

static int parks_done;

static void body_park_times(void *arg)
{
    for (int i = 0; i < *(int *)arg; i++) {
        kcoro_park();
        parks_done++;
    }
}

static kcoro_t *parker(int *times)
{
    kcoro_t *co = kcoro_create(body_park_times, times, 0);

    CHECK_EQ(kcoro_resume(co), 0);
    return co;
}

TEST(park_waits_for_an_unpark)
{
    int times = 1;
    kcoro_t *co = parker(&times);

    CHECK_EQ(kcoro_state(co), KCORO_PARKED);
    CHECK_EQ(kcoro_resume(co), -EAGAIN);
    CHECK_EQ(kcoro_unpark(co), 0);
    CHECK_EQ(kcoro_state(co), KCORO_READY);
    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(kcoro_state(co), KCORO_FINISHED);
    kcoro_destroy(co);
}

TEST(an_unpark_that_comes_first_makes_the_next_park_return_at_once)
{
    int times = 2;
    kcoro_t *co = kcoro_create(body_park_times, &times, 0);

    CHECK_EQ(kcoro_unpark(co), 0);
    CHECK_EQ(kcoro_state(co), KCORO_CREATED);
    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(parks_done, 1);
    CHECK_EQ(kcoro_state(co), KCORO_PARKED);
    kcoro_destroy(co);
}

TEST(permits_do_not_add_up)
{
    int times = 2;
    kcoro_t *co = kcoro_create(body_park_times, &times, 0);

    for (int i = 0; i < 5; i++)
        CHECK_EQ(kcoro_unpark(co), 0);
    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(parks_done, 1);
    CHECK_EQ(kcoro_state(co), KCORO_PARKED);
    kcoro_destroy(co);
}

TEST(a_second_unpark_of_a_parked_one_is_a_permit_for_the_next_park)
{
    int times = 3;
    kcoro_t *co = parker(&times);

    CHECK_EQ(kcoro_unpark(co), 0);
    CHECK_EQ(kcoro_unpark(co), 0);
    CHECK_EQ(kcoro_state(co), KCORO_READY);
    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(parks_done, 2);
    CHECK_EQ(kcoro_state(co), KCORO_PARKED);
    kcoro_destroy(co);
}

static void body_yield_then_park(void *arg)
{
    (void)arg;
    kcoro_yield();
    kcoro_park();
    parks_done++;
}

TEST(an_unpark_of_a_suspended_one_leaves_it_suspended_with_a_permit)
{
    kcoro_t *co = kcoro_create(body_yield_then_park, NULL, 0);

    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(kcoro_unpark(co), 0);
    CHECK_EQ(kcoro_state(co), KCORO_SUSPENDED);
    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(parks_done, 1);
    CHECK_EQ(kcoro_state(co), KCORO_FINISHED);
    kcoro_destroy(co);
}

static void body_unparks_itself(void *arg)
{
    (void)arg;
    CHECK_EQ(kcoro_unpark(kcoro_current()), 0);
    kcoro_park();
    CHECK_EQ(kcoro_state(kcoro_current()), KCORO_RUNNING);
    parks_done++;
}

TEST(a_coroutine_may_unpark_itself)
{
    kcoro_t *co = kcoro_create(body_unparks_itself, NULL, 0);

    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_EQ(parks_done, 1);
    kcoro_destroy(co);
}

/* ---- over threads -------------------------------------------------------------------------- */

enum { ROUNDS = 20000 };

/* Plain data handed over by unpark alone: a missing order in the gate is a data race here, which
 * ThreadSanitizer reports. */
struct mailbox {
    kcoro_t *co;
    long letter;           /* written by the sender, read by the coroutine            */
    KC_ATOMIC(long) taken; /* how many the coroutine has read; the sender waits for it */
    long sum;
};

/* The letter 0 is the last one. */
static void body_reads_letters(void *arg)
{
    struct mailbox *box = arg;

    for (long i = 1;; i++) {
        kcoro_park();
        if (box->letter == 0)
            break;
        CHECK_EQ(box->letter, i);
        box->sum += box->letter;
        kc_store_release(&box->taken, i);
    }
}

static void *thread_sends_letters(void *arg)
{
    struct mailbox *box = arg;

    for (long i = 1; i == 1 || (i <= ROUNDS && kc_test_has_time()); i++) {
        box->letter = i;
        CHECK_EQ(kcoro_unpark(box->co), 0);
        while (kc_load_acquire(&box->taken) != i)
            sched_yield();
    }
    box->letter = 0;
    CHECK_EQ(kcoro_unpark(box->co), 0);
    return NULL;
}

static void resume_until_finished(kcoro_t *co)
{
    while (kcoro_state(co) != KCORO_FINISHED) {
        int rc = kcoro_resume(co);
        if (rc == -EAGAIN)
            sched_yield();
        else
            CHECK_EQ(rc, 0);
    }
}

TEST(park_sees_what_was_written_before_the_unpark_of_another_thread)
{
    struct mailbox box = { .co = NULL };
    pthread_t thread;

    box.co = kcoro_create(body_reads_letters, &box, 0);
    CHECK_EQ(pthread_create(&thread, NULL, thread_sends_letters, &box), 0);
    resume_until_finished(box.co);
    pthread_join(thread, NULL);
    long sent = kc_load_relaxed(&box.taken);
    CHECK_GT(sent, 0);
    CHECK_EQ(box.sum, sent * (sent + 1) / 2);
    kcoro_destroy(box.co);
}

/* Several threads post into a counter and unpark; the coroutine drains the counter after each
 * park. If a wake-up were lost the run would hang; if one were doubled the balance would not
 * close. */
enum { SENDERS = 4, POSTS = 20000 };

struct bell {
    kcoro_t *co;
    KC_ATOMIC(long) posted;
    long drained;
};

static void body_drains(void *arg)
{
    struct bell *bell = arg;

    while (bell->drained < (long)SENDERS * POSTS) {
        kcoro_park();
        bell->drained = kc_load_relaxed(&bell->posted);
    }
}

static void *thread_posts(void *arg)
{
    struct bell *bell = arg;

    for (int i = 0; i < POSTS; i++) {
        kc_add_relaxed(&bell->posted, 1);
        kcoro_unpark(bell->co); /* -EINVAL once the last drain has seen all posts */
    }
    return NULL;
}

TEST(no_wake_up_of_many_threads_is_lost)
{
    struct bell bell = { .co = NULL };
    pthread_t thread[SENDERS];

    bell.co = kcoro_create(body_drains, &bell, 0);
    for (int i = 0; i < SENDERS; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, thread_posts, &bell), 0);
    resume_until_finished(bell.co);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ(bell.drained, (long)SENDERS * POSTS);
    kcoro_destroy(bell.co);
}

static void *thread_unparks_until_gone(void *arg)
{
    kcoro_t *co = arg;

    while (kcoro_unpark(co) == 0)
        sched_yield();
    kcoro_release(co);
    return NULL;
}

/* A wake-up that races with destroy must neither revive the coroutine nor touch a recycled block.
 * */
TEST(an_unpark_that_races_with_destroy_leaves_the_coroutine_finished)
{
    for (int i = 0; i < 200; i++) {
        int times = 1000000;
        kcoro_t *co = parker(&times);
        pthread_t thread;

        kcoro_retain(co);
        CHECK_EQ(pthread_create(&thread, NULL, thread_unparks_until_gone, kcoro_retain(co)), 0);
        for (int k = 0; k < i % 7; k++)
            (void)!kcoro_resume(co);
        kcoro_destroy(co);
        CHECK_EQ(kcoro_state(co), KCORO_FINISHED);
        pthread_join(thread, NULL);
        CHECK_EQ(kcoro_state(co), KCORO_FINISHED);
        kcoro_release(co);
    }
}
