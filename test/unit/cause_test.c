/* SPDX-License-Identifier: MIT */
/*
 * cause_test.c - streams that say why they have ended: channels, selects and broadcasts that are
 * closed with a cause, and generators that return a code (H5).
 */
#include "job_kit.h"

static kc_chan_t *channel(size_t capacity)
{
    kc_chan_t *c = NULL;

    CHECK_EQ(kc_chan_create(sizeof(uint64_t), capacity, &c), 0);
    CHECK_EQ(kc_chan_cause(c), 0);
    return c;
}

static const size_t kinds[] = { 0, 2, KC_CHAN_UNLIMITED, KC_CHAN_LATEST };
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Codes that mean something else inside, too. */
static const int causes[] = { -EIO, -EAGAIN, -ENOMEM, -EPIPE, -ECANCELED, -ETIMEDOUT, -EPERM };
enum { CAUSES = sizeof causes / sizeof causes[0] };

/* Every call that would say -EPIPE says this. */
static void all_say(kc_chan_t *c, int cause)
{
    uint64_t item = 7;
    kc_time_t later = kc_now() + KC_SEC(100);
    kc_case_t cases[] = { { .op = KC_RECV, .chan = c, .item = &item, .rc = 1 },
                          { .op = KC_SEND, .chan = NULL, .item = &item } };

    CHECK_EQ(kc_chan_cause(c), cause);
    CHECK_EQ(kc_chan_send(c, &item), cause);
    CHECK_EQ(kc_chan_send_until(c, &item, later), cause);
    CHECK_EQ(kc_chan_try_send(c, &item), cause);
    CHECK_EQ(kc_chan_recv(c, &item), cause);
    CHECK_EQ(kc_chan_recv_until(c, &item, later), cause);
    CHECK_EQ(kc_chan_try_recv(c, &item), cause);
    CHECK_EQ(kc_select(cases, 2, KC_FOREVER), 0);
    CHECK_EQ(cases[0].rc, cause);
    cases[0] = (kc_case_t){ .op = KC_SEND, .chan = c, .item = &item, .rc = 1 };
    CHECK_EQ(kc_select(cases, 2, 0), 0);
    CHECK_EQ(cases[0].rc, cause);
    CHECK_EQ(item, 7);
}

IN_A_JOB(each_call_gets_the_cause_in_place_of_epipe)
{
    for (int i = 0; i < KINDS * CAUSES; i++) {
        kc_chan_t *c = channel(kinds[i % KINDS]);
        kc_chan_close_with(c, causes[i / KINDS]);
        all_say(c, causes[i / KINDS]);
        kc_chan_release(c);
    }
    return 0;
}

TEST(on_a_plain_thread_each_call_gets_the_cause_in_place_of_epipe)
{
    kc_chan_t *c = channel(0);

    kc_chan_close_with(c, -EIO);
    all_say(c, -EIO);
    kc_chan_release(c);
}

IN_A_JOB(the_first_close_decides_about_the_cause)
{
    kc_chan_t *c = channel(1), *d = channel(1);

    kc_chan_close(c);
    kc_chan_close_with(c, -EIO);
    all_say(c, -EPIPE);
    kc_chan_close_with(d, -EIO);
    kc_chan_close_with(d, -ENOENT);
    kc_chan_close(d);
    all_say(d, -EIO);
    kc_chan_release(c);
    kc_chan_release(d);
    return 0;
}

IN_A_JOB(what_is_left_is_received_before_the_cause)
{
    for (int i = 1; i < KINDS; i++) {
        uint64_t sent = 5, item = 0;
        kc_chan_t *c = channel(kinds[i]);
        CHECK_EQ(kc_chan_send(c, &sent), 0);
        kc_chan_close_with(c, -EIO);
        CHECK_EQ(kc_chan_send(c, &sent), -EIO);
        CHECK_EQ(kc_chan_recv(c, &item), 0);
        CHECK_EQ(item, 5);
        CHECK_EQ(kc_chan_recv(c, &item), -EIO);
        kc_chan_release(c);
    }
    return 0;
}

static count_t in, out;

static int sends(void *c)
{
    uint64_t item = 1;

    add(&in);
    CHECK_EQ(kc_chan_send(c, &item), -EIO);
    add(&out);
    return 0;
}

static int receives(void *c)
{
    uint64_t item = 1;

    add(&in);
    CHECK_EQ(kc_chan_recv(c, &item), -EIO);
    add(&out);
    return 0;
}

static int selects(void *c)
{
    uint64_t item = 1;
    kc_case_t cases[] = { { .op = KC_RECV, .chan = NULL },
                          { .op = KC_RECV, .chan = c, .item = &item } };

    add(&in);
    CHECK_EQ(kc_select(cases, 2, KC_FOREVER), 1);
    CHECK_EQ(cases[1].rc, -EIO);
    add(&out);
    return 0;
}

static void wakes_with_the_cause(kc_fn_t fn)
{
    kc_chan_t *c = channel(0);
    kc_job_t *j = launch(fn, c, NULL);

    UNTIL(get(&in) == 1);
    for (int i = 0; i < 10; i++)
        kcoro_yield();
    kc_chan_close_with(c, -EIO);
    CHECK_EQ(kc_job_join(j), 0);
    CHECK_EQ(get(&out), 1);
    kc_job_release(j);
    kc_chan_release(c);
    set(&in, 0);
    set(&out, 0);
}

IN_A_JOB(a_waiter_gets_the_cause_when_its_channel_is_closed)
{
    wakes_with_the_cause(sends);
    wakes_with_the_cause(receives);
    wakes_with_the_cause(selects);
    return 0;
}

TEST_ABORTS(a_cause_that_is_0_aborts, "kc_chan_close_with: the cause is not negative")
{
    kc_chan_close_with(channel(0), 0);
}

TEST_ABORTS(a_cause_that_is_positive_aborts, "kc_chan_close_with: the cause is not negative")
{
    kc_chan_close_with(channel(0), EIO);
}

/* ---- broadcasts ------------------------------------------------------------------------------ */

static int listens(void *arg)
{
    kc_subscription_t *sub = arg;

    add(&in);
    CHECK_EQ(kc_subscription_recv(sub, NULL, NULL), -EIO);
    return 0;
}

IN_A_JOB(a_broadcast_tells_its_cause)
{
    for (int i = 0; i < CAUSES; i++) {
        kc_broadcast_t *b = NULL;
        kc_subscription_t sub;
        int item = 3;
        CHECK_EQ(kc_broadcast_create(sizeof item, 2, &b), 0);
        CHECK_EQ(kc_broadcast_cause(b), 0);
        CHECK_EQ(kc_subscribe(b, &sub), 0);
        CHECK_EQ(kc_broadcast_send(b, &item), 0);
        kc_broadcast_close_with(b, causes[i]);
        kc_broadcast_close(b);
        CHECK_EQ(kc_broadcast_cause(b), causes[i]);
        CHECK_EQ(kc_broadcast_send(b, &item), causes[i]);
        CHECK_EQ(kc_subscription_recv(&sub, &item, NULL), 0); /* what is kept comes first */
        CHECK_EQ(kc_subscription_recv(&sub, &item, NULL), causes[i]);
        CHECK_EQ(kc_subscription_recv_until(&sub, &item, NULL, kc_now() + KC_SEC(1)), causes[i]);
        CHECK_EQ(kc_subscription_try_recv(&sub, &item, NULL), causes[i]);
        kc_unsubscribe(&sub);
        kc_broadcast_release(b);
    }
    return 0;
}

IN_A_JOB(a_waiter_gets_the_cause_when_its_broadcast_is_closed)
{
    kc_broadcast_t *b = NULL;
    kc_subscription_t sub;

    set(&in, 0);
    CHECK_EQ(kc_broadcast_create(sizeof(int), 2, &b), 0);
    CHECK_EQ(kc_subscribe(b, &sub), 0);
    kc_job_t *j = launch(listens, &sub, NULL);
    UNTIL(get(&in) == 1);
    for (int i = 0; i < 10; i++)
        kcoro_yield();
    kc_broadcast_close_with(b, -EIO);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    kc_unsubscribe(&sub);
    kc_broadcast_release(b);
    return 0;
}

TEST_ABORTS(a_cause_of_a_broadcast_that_is_0_aborts, "the cause is not negative")
{
    kc_broadcast_t *b = NULL;

    CHECK_EQ(kc_broadcast_create(sizeof(int), 2, &b), 0);
    kc_broadcast_close_with(b, 0);
}

/* ---- generators ------------------------------------------------------------------------------ */

static int gives_one(kc_gen_t *g, void *arg)
{
    kc_gen_yield(g, NULL);
    return (int)(intptr_t)arg;
}

static void check_codes(void)
{
    static const int codes[] = { 0, 7, -EIO };

    for (int i = 0; i < 3; i++) {
        kc_gen_t g;
        CHECK_EQ(kc_gen_start(&g, gives_one, CODE(codes[i]), 0), 0);
        CHECK(kc_gen_next(&g, NULL));
        CHECK(!kc_gen_next(&g, NULL));
        CHECK_EQ(kc_gen_end(&g), codes[i]);
        CHECK_EQ(kc_gen_end(&g), codes[i]);
        CHECK_EQ(kc_gen_start(&g, gives_one, CODE(codes[i]), 0), 0);
        CHECK(kc_gen_next(&g, NULL));
        CHECK_EQ(kc_gen_end(&g), -ECANCELED);
        CHECK_EQ(kc_gen_start(&g, gives_one, CODE(codes[i]), 0), 0);
        CHECK_EQ(kc_gen_end(&g), -ECANCELED);
    }
}

TEST(the_end_of_a_generator_tells_what_its_function_returned)
{
    check_codes();
}

IN_A_JOB(in_a_job_the_end_of_a_generator_tells_what_its_function_returned)
{
    check_codes();
    return 0;
}
