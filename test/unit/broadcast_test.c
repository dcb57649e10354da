/* SPDX-License-Identifier: MIT */
/*
 * broadcast_test.c - every subscriber sees every item from its subscription on, or is told how many
 * it missed; close, cancel, deadlines, threads.
 */
#include "base/os.h"
#include "job_kit.h"

#include <kcoro/broadcast.h>

static kc_broadcast_t *broadcast(size_t item_size, size_t capacity)
{
    kc_broadcast_t *b = NULL;

    CHECK_EQ(kc_broadcast_create(item_size, capacity, &b), 0);
    CHECK(b != NULL);
    return b;
}

static void send(kc_broadcast_t *b, int item)
{
    CHECK_EQ(kc_broadcast_send(b, &item), 0);
}

/* The next item there is, at once, after so many that were missed. */
static void gets(kc_subscription_t *sub, int item, uint64_t missed)
{
    uint64_t lost = 99;
    int got = -1;

    CHECK_EQ(kc_subscription_try_recv(sub, &got, &lost), 0);
    CHECK_EQ(got, item);
    CHECK_EQ(lost, missed);
}

static bool waits_there(kc_job_t *j)
{
    return kc_load_relaxed(&j->task.kind) == KC_WAIT_BROADCAST;
}

/* ---- items ---------------------------------------------------------------------------------- */

IN_A_JOB(every_subscriber_sees_every_item_in_order)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 4);
    kc_subscription_t sub[3];

    for (int i = 0; i < 3; i++)
        CHECK_EQ(kc_subscribe(b, &sub[i]), 0);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 4; i++)
            send(b, 10 * round + i);
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < 4; i++)
                gets(&sub[k], 10 * round + i, 0);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kc_subscription_try_recv(&sub[i], NULL, NULL), -EAGAIN);
        kc_unsubscribe(&sub[i]);
    }
    kc_broadcast_release(b);
    return 0;
}

IN_A_JOB(a_subscriber_that_is_too_slow_is_told_exactly_how_many_it_missed)
{
    for (int capacity = 1; capacity <= 4; capacity++)
        for (int n = 1; n <= 12; n++) {
            kc_broadcast_t *b = broadcast(sizeof(int), (size_t)capacity);
            kc_subscription_t sub;
            CHECK_EQ(kc_subscribe(b, &sub), 0);
            for (int i = 0; i < n; i++)
                send(b, i);
            int missed = n > capacity ? n - capacity : 0;
            gets(&sub, missed, (uint64_t)missed);
            for (int i = missed + 1; i < n; i++)
                gets(&sub, i, 0);
            CHECK_EQ(kc_subscription_try_recv(&sub, NULL, NULL), -EAGAIN);
            for (int i = 0; i < capacity + 2; i++) /* and again, from there on */
                send(b, 100 + i);
            gets(&sub, 102, 2);
            kc_unsubscribe(&sub);
            kc_broadcast_release(b);
        }
    return 0;
}

IN_A_JOB(a_subscriber_sees_nothing_that_was_sent_before_it_came)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 4);
    kc_subscription_t early, late;

    CHECK_EQ(kc_subscribe(b, &early), 0);
    send(b, 1);
    send(b, 2);
    CHECK_EQ(kc_subscribe(b, &late), 0);
    CHECK_EQ(kc_subscription_try_recv(&late, NULL, NULL), -EAGAIN);
    send(b, 3);
    gets(&late, 3, 0);
    gets(&early, 1, 0);
    kc_unsubscribe(&early);
    kc_unsubscribe(&late);
    kc_broadcast_release(b);
    return 0;
}

IN_A_JOB(without_subscribers_a_send_goes_nowhere)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 2);
    kc_subscription_t sub;

    for (int i = 0; i < 10; i++)
        send(b, i);
    CHECK_EQ(kc_subscribe(b, &sub), 0);
    CHECK_EQ(kc_subscription_try_recv(&sub, NULL, NULL), -EAGAIN);
    kc_unsubscribe(&sub);
    kc_broadcast_release(b);
    return 0;
}

IN_A_JOB(items_may_be_dropped_and_be_of_any_size)
{
    kc_broadcast_t *events = broadcast(0, 2), *big = broadcast(5001, 2), *b = broadcast(4, 2);
    kc_subscription_t sub;
    static unsigned char item[5001], got[5001];
    uint64_t missed = 99;

    CHECK_EQ(kc_subscribe(events, &sub), 0);
    CHECK_EQ(kc_broadcast_send(events, NULL), 0);
    CHECK_EQ(kc_subscription_recv(&sub, NULL, &missed), 0);
    CHECK_EQ(missed, 0);
    CHECK_EQ(kc_subscription_try_recv(&sub, NULL, NULL), -EAGAIN);
    kc_unsubscribe(&sub);
    CHECK_EQ(kc_subscribe(big, &sub), 0);
    for (int i = 0; i < 4; i++) {
        memset(item, 1 + i, sizeof item);
        CHECK_EQ(kc_broadcast_send(big, item), 0);
        CHECK_EQ(kc_subscription_recv(&sub, got, NULL), 0);
        CHECK_EQ(memcmp(item, got, sizeof item), 0);
    }
    kc_unsubscribe(&sub);
    CHECK_EQ(kc_subscribe(b, &sub), 0);
    send(b, 1);
    send(b, 2);
    CHECK_EQ(kc_subscription_recv(&sub, NULL, NULL), 0);
    gets(&sub, 2, 0);
    kc_unsubscribe(&sub);
    kc_broadcast_release(events);
    kc_broadcast_release(big);
    kc_broadcast_release(b);
    return 0;
}

/* ---- waiting -------------------------------------------------------------------------------- */

struct listener {
    kc_broadcast_t *b;
    kc_subscription_t sub;
    int item, rc;
    uint64_t missed;
    kc_time_t deadline; /* 0: none */
    count_t in, out, cleaned;
    kc_job_t *job;
};

static int listens(void *arg)
{
    struct listener *l = arg;

    add(&l->in);
    l->rc = l->deadline ? kc_subscription_recv_until(&l->sub, &l->item, &l->missed, l->deadline)
                        : kc_subscription_recv(&l->sub, &l->item, &l->missed);
    add(&l->out);
    return 0;
}

static void stands(struct listener *l, kc_broadcast_t *b, const kc_launch_opts_t *opts)
{
    *l = (struct listener){ .b = b, .item = -1, .missed = 99 };
    CHECK_EQ(kc_subscribe(b, &l->sub), 0);
    l->job = launch(listens, l, opts);
    UNTIL(waits_there(l->job));
}

static int outcome(struct listener *l)
{
    UNTIL(get(&l->out) == 1);
    (void)!kc_job_join(l->job);
    kc_job_release(l->job);
    kc_unsubscribe(&l->sub);
    return l->rc;
}

IN_A_JOB(one_send_wakes_all_waiting_subscribers)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 2);
    struct listener l[5];

    for (int i = 0; i < 5; i++)
        stands(&l[i], b, NULL);
    send(b, 42);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(outcome(&l[i]), 0);
        CHECK_EQ(l[i].item, 42);
        CHECK_EQ(l[i].missed, 0);
    }
    kc_broadcast_release(b);
    return 0;
}

static const kc_launch_opts_t on_main = { .affinity = KC_MAIN };

IN_A_JOB(a_subscriber_that_is_woken_and_runs_late_is_told_what_it_missed)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 2);
    struct listener l;

    stands(&l, b, &on_main); /* it cannot run between these */
    for (int i = 0; i < 5; i++)
        send(b, i);
    CHECK_EQ(outcome(&l), 0);
    CHECK_EQ(l.item, 3);
    CHECK_EQ(l.missed, 3);
    kc_broadcast_release(b);
    return 0;
}

IN_A_JOB(after_a_close_subscribers_get_what_is_kept_and_then_epipe)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 2);
    kc_subscription_t sub, late;
    uint64_t missed = 77;
    int item = 5;

    CHECK_EQ(kc_subscribe(b, &sub), 0);
    for (int i = 0; i < 3; i++)
        send(b, i);
    kc_broadcast_close(b);
    kc_broadcast_close(b);
    CHECK_EQ(kc_broadcast_send(b, &item), -EPIPE);
    CHECK_EQ(kc_subscribe(b, &late), 0);
    CHECK_EQ(kc_subscription_recv(&late, &item, &missed), -EPIPE);
    gets(&sub, 1, 1);
    gets(&sub, 2, 0);
    CHECK_EQ(kc_subscription_recv(&sub, &item, &missed), -EPIPE);
    CHECK_EQ(kc_subscription_try_recv(&sub, &item, &missed), -EPIPE);
    CHECK_EQ(kc_subscription_recv_until(&sub, &item, &missed, 0), -EPIPE);
    CHECK_EQ(item, 5);
    CHECK_EQ(missed, 77);
    kc_unsubscribe(&sub);
    kc_unsubscribe(&late);
    kc_broadcast_release(b);
    return 0;
}

IN_A_JOB(a_close_wakes_all_waiting_subscribers)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 2);
    struct listener l[3];

    for (int i = 0; i < 3; i++)
        stands(&l[i], b, NULL);
    kc_broadcast_close(b);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(outcome(&l[i]), -EPIPE);
    kc_broadcast_release(b);
    return 0;
}

IN_A_JOB(a_subscriber_that_is_cancelled_has_received_and_missed_nothing)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 2);
    struct listener l, other;

    stands(&l, b, NULL);
    stands(&other, b, NULL);
    CHECK(kc_job_cancel(l.job, 0));
    UNTIL(get(&l.out));
    CHECK_EQ(l.rc, -ECANCELED);
    CHECK_EQ(l.item, -1);
    CHECK_EQ(l.missed, 99);
    send(b, 6);
    gets(&l.sub, 6, 0); /* it is still there */
    CHECK_EQ(outcome(&l), -ECANCELED);
    CHECK_EQ(outcome(&other), 0);
    CHECK_EQ(other.item, 6);
    kc_broadcast_release(b);
    return 0;
}

static int listens_when_cancelled(void *arg)
{
    struct listener *l = arg;

    add(&l->in);
    UNTIL(kc_cancelled());
    CHECK_EQ(kc_subscription_recv(&l->sub, &l->item, NULL), -ECANCELED);
    CHECK_EQ(kc_subscription_recv_until(&l->sub, &l->item, NULL, 0), -ECANCELED);
    CHECK_EQ(l->item, 0);
    gets(&l->sub, 3, 0);
    return 0;
}

IN_A_JOB(a_cancelled_job_receives_nothing_but_by_a_try)
{
    struct listener l = { .b = broadcast(sizeof(int), 2) };

    CHECK_EQ(kc_subscribe(l.b, &l.sub), 0);
    send(l.b, 3);
    l.job = launch(listens_when_cancelled, &l, NULL);
    UNTIL(get(&l.in));
    CHECK(kc_job_cancel(l.job, 0));
    CHECK_EQ(kc_job_join(l.job), -ECANCELED);
    kc_job_release(l.job);
    kc_unsubscribe(&l.sub);
    kc_broadcast_release(l.b);
    return 0;
}

static void counts_cleanup(void *arg)
{
    add(arg);
}

static int is_unwound(void *arg)
{
    struct listener *l = arg;

    KC_CLEANUP(counts_cleanup, &l->cleaned);
    return listens(l);
}

IN_A_JOB(a_subscriber_whose_body_is_unwound_leaves_its_queue)
{
    struct listener l = { .b = broadcast(sizeof(int), 2) };
    kc_launch_opts_t opts = { .flags = KC_JOB_UNWIND };

    CHECK_EQ(kc_subscribe(l.b, &l.sub), 0);
    l.job = launch(is_unwound, &l, &opts);
    UNTIL(waits_there(l.job));
    CHECK(kc_job_cancel(l.job, 0));
    CHECK_EQ(kc_job_join(l.job), -ECANCELED);
    CHECK_EQ(get(&l.cleaned), 1);
    CHECK_EQ(get(&l.out), 0);
    send(l.b, 1); /* wakes nobody */
    gets(&l.sub, 1, 0);
    kc_job_release(l.job);
    kc_unsubscribe(&l.sub);
    kc_broadcast_release(l.b);
    return 0;
}

IN_A_JOB(a_subscriber_waits_until_its_deadline)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 2);
    kc_subscription_t sub;
    uint64_t missed = 77;
    int item = 5;

    CHECK_EQ(kc_subscribe(b, &sub), 0);
    kc_time_t at = kc_now() + KC_US(100);
    CHECK_EQ(kc_subscription_recv_until(&sub, &item, &missed, at), -ETIMEDOUT);
    CHECK_GE(kc_now(), at);
    CHECK_EQ(kc_subscription_recv_until(&sub, &item, &missed, 0), -ETIMEDOUT);
    CHECK_EQ(item, 5);
    CHECK_EQ(missed, 77);
    send(b, 6);
    CHECK_EQ(kc_subscription_recv_until(&sub, &item, &missed, 0), 0); /* need not wait */
    CHECK_EQ(item, 6);
    kc_unsubscribe(&sub);
    kc_broadcast_release(b);
    return 0;
}

IN_VIRTUAL_TIME(a_subscriber_waits_until_its_deadline_and_not_longer)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 2);
    kc_subscription_t sub;
    kc_time_t at = kc_now() + KC_SEC(3600);

    CHECK_EQ(kc_subscribe(b, &sub), 0);
    CHECK_EQ(kc_subscription_recv_until(&sub, NULL, NULL, at), -ETIMEDOUT);
    CHECK_EQ(kc_now(), at);
    kc_unsubscribe(&sub);
    kc_broadcast_release(b);
    return 0;
}

static int sets(void *arg)
{
    set(arg, 1);
    return 0;
}

static int never_has_to_wait(void *arg UNUSED)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 2);
    kc_subscription_t sub;
    count_t ran = 0;

    CHECK_EQ(kc_subscribe(b, &sub), 0);
    CHECK_EQ(kc_launch_job(sets, &ran, &on_main, NULL), 0);
    for (int i = 0; !get(&ran); i++) {
        send(b, i);
        CHECK_EQ(kc_subscription_recv(&sub, NULL, NULL), 0);
    }
    kc_unsubscribe(&sub);
    kc_broadcast_release(b);
    return 0;
}

TEST(a_subscriber_that_never_has_to_wait_lets_others_run_now_and_then)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };

    CHECK_EQ(kc_run(never_has_to_wait, NULL, &opts), 0);
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { ITEMS = 500 };

/* All that it gets and all that it missed together are all. */
static int accounts(void *arg)
{
    struct listener *l = arg;
    uint64_t missed, next = 0;
    int item, rc;

    add(&l->in);
    while ((rc = kc_subscription_recv(&l->sub, &item, &missed)) == 0) {
        CHECK_EQ((uint64_t)item, next + missed);
        next = (uint64_t)item + 1;
    }
    CHECK_EQ(rc, -EPIPE);
    CHECK_EQ(next, ITEMS); /* the last one is kept */
    kc_unsubscribe(&l->sub);
    add(&l->out);
    return 0;
}

/* Jobs and plain threads listen while a job sends. */
IN_A_JOB(what_is_received_and_what_is_missed_are_all_that_was_sent)
{
    for (size_t capacity = 1; capacity <= 64; capacity *= 8) {
        kc_broadcast_t *b = broadcast(sizeof(int), capacity);
        struct listener l[6];
        pthread_t thread[2];
        for (int i = 0; i < 6; i++) {
            l[i] = (struct listener){ .b = b };
            CHECK_EQ(kc_subscribe(b, &l[i].sub), 0);
            if (i < 2)
                thread[i] = thread_runs(accounts, &l[i]);
            else
                CHECK_EQ(kc_launch(accounts, &l[i]), 0);
        }
        for (int i = 0; i < ITEMS; i++) {
            send(b, i);
            if (i % 16 == 0)
                CHECK_EQ(kc_yield(), 0);
        }
        kc_broadcast_close(b);
        kc_broadcast_release(b); /* the subscriptions keep it */
        for (int i = 0; i < 6; i++)
            UNTIL(get(&l[i].out));
        for (int i = 0; i < 2; i++)
            pthread_join(thread[i], NULL);
    }
    return 0;
}

TEST(a_plain_thread_waits_for_an_item_until_its_deadline)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 2);
    kc_subscription_t sub;
    kc_time_t at = kc_now() + KC_MS(2);

    CHECK_EQ(kc_subscribe(b, &sub), 0);
    CHECK_EQ(kc_subscription_recv_until(&sub, NULL, NULL, at), -ETIMEDOUT);
    CHECK_GE(kc_now(), at);
    send(b, 2);
    gets(&sub, 2, 0);
    kc_unsubscribe(&sub);
    kc_broadcast_release(b);
}

static int listens_inside(kc_gen_t *g, void *arg)
{
    static int item;

    while (kc_subscription_recv(arg, &item, NULL) == 0)
        kc_gen_yield(g, &item);
    return 0;
}

static int sends_one_by_one(void *arg)
{
    for (int i = 0; i < 3; i++)
        send(arg, i);
    kc_broadcast_close(arg);
    return 0;
}

IN_A_JOB(a_generator_may_wait_for_an_item)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 4);
    kc_subscription_t sub;
    kc_gen_t g;
    void *value = NULL;
    int n = 0;

    CHECK_EQ(kc_subscribe(b, &sub), 0);
    CHECK_EQ(kc_gen_start(&g, listens_inside, &sub, 0), 0);
    kc_job_t *j = launch(sends_one_by_one, b, NULL);
    for (; kc_gen_next(&g, &value); n++)
        CHECK_EQ(*(int *)value, n);
    CHECK_EQ(n, 3);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    kc_gen_end(&g);
    kc_unsubscribe(&sub);
    kc_broadcast_release(b);
    return 0;
}

/* ---- edges ---------------------------------------------------------------------------------- */

TEST(bad_arguments_of_broadcasts_are_einval)
{
    kc_broadcast_t *b = NULL;
    kc_subscription_t sub = { 0 };

    CHECK_EQ(kc_broadcast_create(4, 2, NULL), -EINVAL);
    CHECK_EQ(kc_broadcast_create(4, 0, &b), -EINVAL);
    CHECK_EQ(kc_broadcast_create(SIZE_MAX, 2, &b), -ENOMEM);
    CHECK_PTR(b, NULL);
    CHECK_EQ(kc_broadcast_send(NULL, &sub), -EINVAL);
    CHECK_EQ(kc_subscribe(NULL, &sub), -EINVAL);
    b = broadcast(4, 2);
    CHECK_EQ(kc_broadcast_send(b, NULL), -EINVAL);
    CHECK_EQ(kc_subscribe(b, NULL), -EINVAL);
    CHECK_EQ(kc_subscription_recv(NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(kc_subscription_recv_until(NULL, NULL, NULL, 0), -EINVAL);
    CHECK_EQ(kc_subscription_try_recv(NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(kc_subscribe(b, &sub), 0);
    kc_unsubscribe(&sub);
    CHECK_EQ(kc_subscription_recv(&sub, NULL, NULL), -EINVAL);
    CHECK_EQ(kc_subscription_recv_until(&sub, NULL, NULL, 0), -EINVAL);
    CHECK_EQ(kc_subscription_try_recv(&sub, NULL, NULL), -EINVAL);
    kc_broadcast_release(NULL);
    kc_broadcast_release(b);
}

static int fail_at, calls;

static bool fail_kth(const char *what)
{
    return strcmp(what, "alloc") == 0 && ++calls == fail_at;
}

TEST(a_broadcast_that_cannot_be_made_leaves_nothing)
{
    int failed = 0, rc = -ENOMEM;

    kc__os_fault = fail_kth;
    for (fail_at = 1; rc != 0; fail_at++) {
        kc_broadcast_t *b = NULL;
        calls = 0;
        rc = kc_broadcast_create(8, 8, &b);
        CHECK(rc == 0 || (rc == -ENOMEM && !b));
        failed += rc != 0;
        kc_broadcast_release(b);
    }
    kc__os_fault = NULL;
    CHECK_EQ(failed, 2); /* LeakSanitizer looks for the rest */
}

TEST(a_broadcast_lives_as_long_as_its_references)
{
    kc_broadcast_t *b = broadcast(sizeof(int), 2);
    kc_subscription_t sub;

    CHECK_PTR(kc_broadcast_retain(b), b);
    kc_broadcast_release(b);
    send(b, 1);
    CHECK_EQ(kc_subscribe(b, &sub), 0);
    send(b, 2);
    kc_broadcast_release(b);
    gets(&sub, 2, 0);
    kc_unsubscribe(&sub);
}

static max_align_t no_broadcast[8];

TEST_ABORTS(sending_to_what_is_no_broadcast_aborts, "kc_broadcast_send")
{
    (void)kc_broadcast_send((kc_broadcast_t *)no_broadcast, NULL);
}

TEST_ABORTS(releasing_what_is_no_broadcast_aborts, "kc_broadcast_release")
{
    kc_broadcast_release((kc_broadcast_t *)no_broadcast);
}

TEST_ABORTS(closing_no_broadcast_aborts, "kc_broadcast_close")
{
    kc_broadcast_close(NULL);
}

TEST_ABORTS(giving_up_no_subscription_aborts, "kc_unsubscribe")
{
    kc_unsubscribe(NULL);
}
