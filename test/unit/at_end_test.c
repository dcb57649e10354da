/* SPDX-License-Identifier: MIT */
/*
 * at_end_test.c - what is given back at the end of a block, however that is left: locks (sync.h),
 * jobs (job.h), and blocks whose beginning was jumped over (J16, J17).
 */
#include "job_kit.h"

static kc_mutex_t mutex = KC_MUTEX_INIT, other = KC_MUTEX_INIT;
static kc_rwlock_t lock = KC_RWLOCK_INIT;

static bool is_free(kc_mutex_t *m)
{
    bool taken = kc_mutex_trylock(m);

    if (taken)
        kc_mutex_unlock(m);
    return taken;
}

/* Nobody has it, to read or to write. */
static bool is_unlocked(void)
{
    bool taken = kc_rwlock_trywrlock(&lock);

    if (taken)
        kc_rwlock_wrunlock(&lock);
    return taken;
}

/* ---- the end of a block ---------------------------------------------------------------------- */

static int locks_and_leaves(int early)
{
    CHECK_EQ(kc_mutex_lock(&mutex), 0);
    KC_UNLOCK_AT_END(&mutex);
    if (early)
        return -EIO;
    CHECK(kc_mutex_trylock(&other));
    KC_UNLOCK_AT_END(&other);
    {
        CHECK_EQ(kc_rwlock_wrlock(&lock), 0);
        KC_WRUNLOCK_AT_END(&lock);
        CHECK(!is_unlocked());
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kc_rwlock_rdlock(&lock), 0);
        KC_RDUNLOCK_AT_END(&lock);
        CHECK(!is_unlocked());
        if (i == 1)
            continue;
        if (i == 2)
            break;
    }
    CHECK(is_unlocked());
    CHECK(!is_free(&other));
    return 0;
}

static int locks(void *arg UNUSED)
{
    CHECK_EQ(locks_and_leaves(1), -EIO);
    CHECK(is_free(&mutex));
    CHECK_EQ(locks_and_leaves(0), 0);
    CHECK(is_free(&mutex) && is_free(&other) && is_unlocked());
    return 0;
}

/* On a plain thread too. */
TEST(locks_are_given_back_at_the_end_of_the_block_however_it_is_left)
{
    kit_in_a_job(locks);
    CHECK_EQ(locks(NULL), 0);
}

/* The newest first: who has waited for both finds them in that order. */
static char order[4];

static void notes(void *arg)
{
    size_t n = strlen(order);

    order[n] = *(const char *)arg;
}

TEST(at_the_end_of_a_block_what_is_newest_goes_first)
{
    {
        KC_CLEANUP(notes, "a");
        CHECK(kc_mutex_trylock(&mutex));
        KC_UNLOCK_AT_END(&mutex);
        KC_CLEANUP(notes, is_free(&mutex) ? "x" : "b");
    }
    CHECK(strcmp(order, "ba") == 0);
    CHECK(is_free(&mutex));
}

static int times;

static kc_mutex_t *counted(void)
{
    times++;
    return &mutex;
}

TEST(what_is_to_be_unlocked_is_evaluated_once)
{
    CHECK(kc_mutex_trylock(&mutex));
    {
        KC_UNLOCK_AT_END(counted());
    }
    CHECK_EQ(times, 1);
    CHECK(is_free(&mutex));
}

/* ---- unwinding ------------------------------------------------------------------------------- */

struct held {
    kc_mutex_t mutex, other;
    kc_rwlock_t lock;
    kc_cond_t cond;
    count_t in;
};

static int holds_all(void *arg)
{
    struct held *h = arg;

    CHECK_EQ(kc_mutex_lock(&h->mutex), 0);
    KC_UNLOCK_AT_END(&h->mutex);
    CHECK_EQ(kc_mutex_lock(&h->other), 0);
    KC_UNLOCK_AT_END(&h->other);
    CHECK_EQ(kc_rwlock_rdlock(&h->lock), 0);
    KC_RDUNLOCK_AT_END(&h->lock);
    add(&h->in);
    CHECK_EQ(kc_cond_wait(&h->cond, &h->mutex), -ECANCELED);
    return -ECANCELED;
}

static int holds_to_write(void *arg)
{
    struct held *h = arg;

    CHECK_EQ(kc_rwlock_wrlock(&h->lock), 0);
    KC_WRUNLOCK_AT_END(&h->lock);
    add(&h->in);
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(locks_are_given_back_when_the_body_is_unwound)
{
    kc_fn_t fns[] = { holds_all, holds_to_write };

    for (int i = 0; i < 4; i++) {
        struct held h = { KC_MUTEX_INIT, KC_MUTEX_INIT, KC_RWLOCK_INIT, KC_COND_INIT, 0 };
        kc_launch_opts_t opts = { .flags = i & 2 ? KC_JOB_UNWIND : 0 };
        kc_job_t *j = launch(fns[i & 1], &h, &opts);
        UNTIL(get(&h.in));
        CHECK(kc_job_cancel(j, 0));
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        CHECK(is_free(&h.mutex) && is_free(&h.other));
        CHECK(kc_rwlock_trywrlock(&h.lock));
        kc_rwlock_wrunlock(&h.lock);
        kc_job_release(j);
    }
    return 0;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static int drops_two(void *arg)
{
    kc_job_t **j = arg, *none = NULL;

    j[0] = launch(waits, NULL, NULL);
    KC_JOB_DROP_AT_END(kc_job_retain(j[0]));
    j[1] = launch(waits, NULL, NULL);
    KC_JOB_DROP_AT_END(kc_job_retain(j[1]));
    KC_JOB_DROP_AT_END(none);
    return kc_yield();
}

static int has_two_dropped(void *arg UNUSED)
{
    kc_job_t *j[2];

    CHECK_EQ(drops_two(j), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(kc_job_reason(j[i]), -ECANCELED);
        CHECK_EQ(kc_job_join(j[i]), -ECANCELED);
        kc_job_release(j[i]);
    }
    return 0;
}

TEST(a_job_is_cancelled_and_released_at_the_end_of_the_block)
{
    int before = jobs_there();

    kit_in_a_job(has_two_dropped);
    CHECK_EQ(jobs_there(), before);
}

static int drops_while_it_waits(void *arg)
{
    kc_job_t **j = arg;

    j[0] = launch(waits, NULL, &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });
    KC_JOB_DROP_AT_END(j[0]);
    kc_job_retain(j[0]);
    j[1] = kc_job_retain(kc_job_current());
    return kc_sleep(KC_FOREVER);
}

IN_VIRTUAL_TIME(a_job_is_dropped_when_the_body_is_unwound)
{
    kc_job_t *j[2] = { NULL, NULL };
    kc_job_t *one = launch(drops_while_it_waits, j, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });

    CHECK_EQ(kc_sleep(1), 0);
    CHECK(kc_job_cancel(one, 0));
    CHECK_EQ(kc_job_join(one), -ECANCELED);
    CHECK_EQ(kc_job_join(j[0]), -ECANCELED);
    kc_job_release(j[0]);
    kc_job_release(j[1]);
    kc_job_release(one);
    return 0;
}

/* ---- a goto over it -------------------------------------------------------------------------- */

#ifndef __clang__ /* which does not compile it: cannot jump from this goto statement to its label */

static void nothing(void *arg UNUSED)
{
}

/* The compiler sees where it goes, and the block's end runs what was never begun. */
static __attribute__((noinline)) int jumps(volatile int over)
{
    int rc = -EIO;

    if (over)
        goto out;
    KC_CLEANUP(nothing, NULL);
    rc = 0;
out:
    return rc;
}

/* The memory of its frame has held anything before. */
static __attribute__((noinline)) void dirty(int with)
{
    volatile char frame[512];

    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (char)with;
}

static int jumps_over(void *with)
{
    CHECK_EQ(jumps(0), 0); /* its remains may still be there */
    if (with)
        dirty((int)(intptr_t)with);
    CHECK_EQ(jumps(1), -EIO);
    return 0;
}

#define SAYS "KC_CLEANUP: its block ends, but it was never reached: look for a goto or switch"

static int jumps_over_what_is_there(void *arg UNUSED)
{
    return jumps_over(NULL);
}

static int jumps_over_dirt(void *arg UNUSED)
{
    return jumps_over(CODE(0x41));
}

TEST_ABORTS(a_goto_over_a_cleanup_aborts_and_says_what_to_look_for, SAYS)
{
    run_named(jumps_over_what_is_there, "jumps");
}

TEST_ABORTS(a_goto_over_a_cleanup_whose_memory_held_other_data_aborts, SAYS)
{
    run_named(jumps_over_dirt, "jumps");
}

TEST_ABORTS(a_goto_over_a_cleanup_on_a_plain_thread_aborts, SAYS)
{
    jumps_over(NULL);
}

TEST_ABORTS(a_goto_over_a_cleanup_whose_memory_held_other_data_on_a_plain_thread_aborts, SAYS)
{
    jumps_over(CODE(0x41));
}

#endif
