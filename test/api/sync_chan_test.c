/* SPDX-License-Identifier: MIT */
/*
 * sync_chan_test.c - locks, meeting points, channels, broadcasts and generators as a user links
 * them: against the shared library, each call once, on a plain thread and in jobs.
 */
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <string.h>

/* The initialisers work for statics, struct members and array elements. */
static kc_mutex_t mutexes[2] = { KC_MUTEX_INIT, KC_MUTEX_INIT };
static struct {
    int before;
    kc_rwlock_t rwlock;
    kc_sem_t sem;
    kc_once_t once;
} members = { 1, KC_RWLOCK_INIT, KC_SEM_INIT(2), KC_ONCE_INIT };

static void counts(void *arg)
{
    ++*(int *)arg;
}

static int every_lock(void *arg)
{
    kc_mutex_t *m = &mutexes[0];
    kc_rwlock_t *l = &members.rwlock;

    (void)arg;
    CHECK_EQ(kc_mutex_lock(m), 0);
    CHECK(!kc_mutex_trylock(m));
    CHECK_EQ(kc_mutex_lock(m), -EDEADLK);
    kc_mutex_unlock(m);
    kc_mutex_lock_nocancel(m);
    kc_mutex_unlock(m);
    CHECK_EQ(kc_mutex_lock_until(m, 0), 0);
    kc_mutex_unlock(m);
    CHECK_EQ(kc_rwlock_rdlock(l), 0);
    CHECK(kc_rwlock_tryrdlock(l));
    CHECK(!kc_rwlock_trywrlock(l));
    kc_rwlock_rdunlock(l);
    kc_rwlock_rdunlock(l);
    CHECK_EQ(kc_rwlock_wrlock(l), 0);
    CHECK_EQ(kc_rwlock_rdlock(l), -EDEADLK);
    kc_rwlock_wrunlock(l);
    CHECK_EQ(kc_rwlock_rdlock_until(l, 0), 0);
    kc_rwlock_rdunlock(l);
    CHECK_EQ(kc_rwlock_wrlock_until(l, 0), 0);
    kc_rwlock_wrunlock(l);
    return 0;
}

static int every_meeting_point(void *arg)
{
    kc_cond_t cond = KC_COND_INIT;
    kc_latch_t latch = KC_LATCH_INIT(2);
    kc_event_t event = KC_EVENT_INIT;
    kc_barrier_t barrier = KC_BARRIER_INIT(1);
    int ran = 0;

    (void)arg;
    CHECK_EQ(kc_mutex_lock(&mutexes[1]), 0);
    CHECK_EQ(kc_cond_wait_until(&cond, &mutexes[1], kc_now()), -ETIMEDOUT);
    kc_mutex_unlock(&mutexes[1]);
    kc_cond_signal(&cond);
    kc_cond_broadcast(&cond);
    CHECK_EQ(kc_sem_acquire(&members.sem), 0);
    CHECK(kc_sem_tryacquire(&members.sem));
    CHECK(!kc_sem_tryacquire(&members.sem));
    CHECK_EQ(kc_sem_acquire_until(&members.sem, kc_now()), -ETIMEDOUT);
    kc_sem_release(&members.sem, 2);
    kc_latch_count_down(&latch);
    CHECK_EQ(kc_latch_wait_until(&latch, kc_now()), -ETIMEDOUT);
    CHECK_EQ(kc_latch_arrive_and_wait(&latch), 0);
    CHECK_EQ(kc_latch_wait(&latch), 0);
    CHECK_EQ(kc_event_wait_until(&event, kc_now()), -ETIMEDOUT);
    kc_event_set(&event);
    CHECK(kc_event_is_set(&event));
    CHECK_EQ(kc_event_wait(&event), 0);
    kc_event_reset(&event);
    CHECK_EQ(kc_barrier_wait(&barrier), 1);
    members.once = (kc_once_t)KC_ONCE_INIT;
    kc_once(&members.once, counts, &ran);
    kc_once(&members.once, counts, &ran);
    CHECK_EQ(ran, 1);
    return 0;
}

static void drops(void *item, void *arg)
{
    *(int *)arg += *(int *)item;
}

static int every_channel(void *arg)
{
    const size_t capacities[] = { 1, KC_CHAN_UNLIMITED, KC_CHAN_LATEST };
    int item = 0, dropped = 0;
    kc_chan_t *c;

    (void)arg;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kc_chan_create_with(&(kc_chan_opts_t){ .item_size = sizeof(int),
                                                        .capacity = capacities[i],
                                                        .undelivered = drops,
                                                        .arg = &dropped },
                                     &c),
                 0);
        CHECK_EQ(kc_chan_send(c, &(int){ 7 }), 0);
        CHECK_EQ(kc_chan_len(c), 1);
        CHECK_EQ(kc_chan_recv(c, &item), 0);
        CHECK_EQ(item, 7);
        CHECK_EQ(kc_chan_try_recv(c, &item), -EAGAIN);
        CHECK_EQ(kc_chan_recv_until(c, &item, kc_now()), -ETIMEDOUT);
        CHECK_EQ(kc_chan_try_send(c, &(int){ 8 }), 0);
        kc_case_t cases[] = { { KC_RECV, c, &item, 1 }, { KC_SEND, NULL, NULL, 1 } };
        CHECK_EQ(kc_select(cases, 2, KC_FOREVER), 0);
        CHECK_EQ(cases[0].rc, 0);
        CHECK_EQ(kc_select_biased(cases, 2, 0), -EAGAIN);
        CHECK_EQ(kc_chan_send_until(c, &(int){ 100 }, kc_now()), 0);
        CHECK(kc_chan_retain(c) == c);
        CHECK_EQ(kc_chan_cause(c), 0);
        kc_chan_close(c);
        kc_chan_close_with(c, -EIO); /* the first one counts */
        CHECK_EQ(kc_chan_send(c, &item), -EPIPE);
        kc_chan_release(c);
        kc_chan_release(c);
    }
    CHECK_EQ(dropped, 300);
    CHECK_EQ(kc_chan_create(0, 0, &c), 0);
    CHECK_EQ(kc_chan_try_send(c, NULL), -EAGAIN);
    kc_chan_release(c);
    kc_chan_release(NULL);
    return 0;
}

static int every_broadcast(void *arg)
{
    kc_subscription_t sub;
    kc_broadcast_t *b;
    uint64_t missed = 9;
    int item;

    (void)arg;
    CHECK_EQ(kc_broadcast_create(sizeof(int), 2, &b), 0);
    CHECK_EQ(kc_subscribe(b, &sub), 0);
    CHECK_EQ(kc_subscription_try_recv(&sub, &item, &missed), -EAGAIN);
    CHECK_EQ(kc_subscription_recv_until(&sub, &item, &missed, kc_now()), -ETIMEDOUT);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(kc_broadcast_send(b, &i), 0);
    CHECK_EQ(kc_subscription_recv(&sub, &item, &missed), 0);
    CHECK_EQ(item, 1);
    CHECK_EQ(missed, 1);
    CHECK_EQ(kc_broadcast_cause(b), 0);
    kc_broadcast_close(kc_broadcast_retain(b));
    kc_broadcast_close_with(b, -EIO); /* the first one counts */
    CHECK_EQ(kc_broadcast_send(b, &item), -EPIPE);
    kc_broadcast_release(b);
    kc_broadcast_release(b);
    CHECK_EQ(kc_subscription_recv(&sub, &item, NULL), 0);
    CHECK_EQ(kc_subscription_recv(&sub, &item, NULL), -EPIPE);
    kc_unsubscribe(&sub);
    return 0;
}

static int three(kc_gen_t *g, void *arg)
{
    for (int i = 0; i < 3; i++) {
        ++*(int *)arg;
        kc_gen_yield(g, arg);
    }
    return 0;
}

static int every_generator(void *arg)
{
    int n = 0, rounds = 0;
    void *value;
    kc_gen_t g;

    (void)arg;
    CHECK_EQ(kc_gen_start(&g, three, &n, 0), 0);
    for (; kc_gen_next(&g, &value); rounds++)
        CHECK_EQ(*(int *)value, rounds + 1);
    CHECK_EQ(rounds, 3);
    CHECK_EQ(kc_gen_end(&g), 0);
    return 0;
}

static int all(void *arg)
{
    CHECK_EQ(every_lock(arg), 0);
    CHECK_EQ(every_meeting_point(arg), 0);
    CHECK_EQ(every_channel(arg), 0);
    CHECK_EQ(every_broadcast(arg), 0);
    return every_generator(arg);
}

TEST(every_exported_call_of_locks_and_channels_works_on_a_plain_thread)
{
    CHECK_EQ(all(NULL), 0);
}

TEST(every_exported_call_of_locks_and_channels_works_in_a_job)
{
    CHECK_EQ(kc_run(all, NULL, NULL), 0);
    CHECK_EQ(kc_run(all, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME }), 0);
}

TEST(what_needs_no_number_is_ready_when_all_its_bytes_are_zero)
{
    struct {
        kc_mutex_t mutex;
        kc_rwlock_t rwlock;
        kc_cond_t cond;
        kc_event_t event;
        kc_once_t once;
    } zero;
    int ran = 0;

    memset(&zero, 0, sizeof zero);
    CHECK(kc_mutex_trylock(&zero.mutex));
    CHECK_EQ(kc_cond_wait_until(&zero.cond, &zero.mutex, kc_now()), -ETIMEDOUT);
    kc_mutex_unlock(&zero.mutex);
    CHECK(kc_rwlock_trywrlock(&zero.rwlock));
    kc_rwlock_wrunlock(&zero.rwlock);
    CHECK(!kc_event_is_set(&zero.event));
    kc_once(&zero.once, counts, &ran);
    CHECK_EQ(ran, 1);
}
