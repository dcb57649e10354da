/* SPDX-License-Identifier: MIT */
/*
 * chan_test.c - channels: order, the kinds of buffer, try forms, close, sizes of items, and who
 * runs next (H1, H2).
 */
#include "chan_kit.h"

#include <stdlib.h>

/* ---- order ---------------------------------------------------------------------------------- */

enum { ITEMS = 100 };

static int sends_all_and_closes(void *arg)
{
    for (int i = 0; i < ITEMS; i++)
        CHECK_EQ(kc_chan_send(arg, &i), 0);
    kc_chan_close(arg);
    return 0;
}

IN_A_JOB(items_come_in_the_order_in_which_they_were_sent)
{
    for (int k = 0; k < KIT_CHANS; k++) {
        kc_chan_t *c = chan(sizeof(int), kit_capacity[k]);
        int item = -1;
        CHECK_EQ(kc_launch(sends_all_and_closes, c), 0);
        for (int i = 0; i < ITEMS; i++) {
            CHECK_EQ(kc_chan_recv(c, &item), 0);
            CHECK_EQ(item, i);
        }
        CHECK_EQ(kc_chan_recv(c, &item), -EPIPE);
        CHECK_EQ(item, ITEMS - 1);
        kc_chan_release(c);
    }
    return 0;
}

IN_A_JOB(senders_that_wait_are_served_in_the_order_in_which_they_came)
{
    for (int capacity = 0; capacity < 3; capacity++) {
        kc_chan_t *c = chan(sizeof(int), (size_t)capacity);
        struct party s[5];
        int item = 0;
        for (int i = 0; i < capacity; i++)
            CHECK_EQ(kc_chan_send(c, &i), 0);
        for (int i = 0; i < 5; i++) {
            s[i] = (struct party){ .c = c, .op = KC_SEND, .item = capacity + i };
            stands(&s[i], NULL);
        }
        CHECK_EQ(kc_chan_len(c), capacity);
        for (int i = 0; i < capacity + 5; i++) {
            CHECK_EQ(kc_chan_recv(c, &item), 0);
            CHECK_EQ(item, i);
        }
        for (int i = 0; i < 5; i++)
            CHECK_EQ(outcome(&s[i]), 0);
        CHECK_EQ(kc_chan_try_recv(c, &item), -EAGAIN);
        kc_chan_release(c);
    }
    return 0;
}

IN_A_JOB(receivers_that_wait_are_served_in_the_order_in_which_they_came)
{
    for (int k = 0; k < KIT_CHANS; k++) {
        kc_chan_t *c = chan(sizeof(int), kit_capacity[k]);
        struct party r[5];
        for (int i = 0; i < 5; i++) {
            r[i] = (struct party){ .c = c, .op = KC_RECV };
            stands(&r[i], NULL);
        }
        for (int i = 0; i < 5; i++)
            CHECK_EQ(kc_chan_send(c, &i), 0);
        for (int i = 0; i < 5; i++) {
            CHECK_EQ(outcome(&r[i]), 0);
            CHECK_EQ(r[i].item, i);
        }
        CHECK_EQ(kc_chan_len(c), 0);
        kc_chan_release(c);
    }
    return 0;
}

IN_A_JOB(a_receive_from_a_full_buffer_moves_the_first_sender_up)
{
    kc_chan_t *c = chan(sizeof(int), 2);
    struct party s = { .c = c, .op = KC_SEND, .item = 2 };
    int item = 0;

    CHECK_EQ(kc_chan_send(c, &item), 0);
    item = 1;
    CHECK_EQ(kc_chan_send(c, &item), 0);
    stands(&s, NULL);
    CHECK_EQ(kc_chan_try_recv(c, &item), 0);
    CHECK_EQ(item, 0);
    CHECK_EQ(kc_chan_len(c), 2);
    CHECK_EQ(outcome(&s), 0);
    CHECK_EQ(kc_chan_try_recv(c, &item), 0);
    CHECK_EQ(item, 1);
    CHECK_EQ(kc_chan_try_recv(c, &item), 0);
    CHECK_EQ(item, 2);
    kc_chan_release(c);
    return 0;
}

/* ---- kinds ---------------------------------------------------------------------------------- */

IN_A_JOB(without_a_buffer_a_send_waits_until_its_item_is_received)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    struct party s = { .c = c, .op = KC_SEND, .item = 7 };
    int item = 0;

    stands(&s, NULL);
    CHECK_EQ(get(&s.out), 0);
    CHECK_EQ(kc_chan_len(c), 0);
    CHECK_EQ(kc_chan_recv(c, &item), 0);
    CHECK_EQ(item, 7);
    CHECK_EQ(outcome(&s), 0);
    kc_chan_release(c);
    return 0;
}

IN_A_JOB(a_buffer_takes_as_many_as_its_capacity_without_waiting)
{
    kc_chan_t *c = chan(sizeof(int), 3);
    struct party s = { .c = c, .op = KC_SEND, .item = 3 };

    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kc_chan_len(c), i);
        CHECK_EQ(kc_chan_send(c, &i), 0);
    }
    CHECK_EQ(kc_chan_try_send(c, &s.item), -EAGAIN);
    stands(&s, NULL);
    CHECK_EQ(kc_chan_len(c), 3);
    CHECK_EQ(kc_chan_recv(c, NULL), 0);
    CHECK_EQ(outcome(&s), 0);
    CHECK_EQ(kc_chan_len(c), 3);
    kc_chan_release(c);
    return 0;
}

IN_A_JOB(a_ring_goes_round_and_keeps_the_order)
{
    kc_chan_t *c = chan(sizeof(int), 3);
    int in = 0, out = 0, item = -1;

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 1 + round % 3; i++, in++)
            CHECK_EQ(kc_chan_try_send(c, &in), 0);
        for (int i = 0; i < 1 + round % 3; i++, out++) {
            CHECK_EQ(kc_chan_try_recv(c, &item), 0);
            CHECK_EQ(item, out);
        }
    }
    kc_chan_release(c);
    return 0;
}

IN_A_JOB(a_send_to_an_unlimited_channel_never_waits)
{
    kc_chan_t *c = chan(sizeof(int), KC_CHAN_UNLIMITED);
    enum { MANY = 5000 }; /* some chunks */
    int item = -1;

    for (int i = 0; i < MANY; i++)
        CHECK_EQ(i % 2 ? kc_chan_send(c, &i) : kc_chan_try_send(c, &i), 0);
    CHECK_EQ(kc_chan_len(c), MANY);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(i % 2 ? kc_chan_recv(c, &item) : kc_chan_try_recv(c, &item), 0);
        CHECK_EQ(item, i);
    }
    CHECK_EQ(kc_chan_try_recv(c, &item), -EAGAIN);
    kc_chan_release(c);
    return 0;
}

IN_A_JOB(a_latest_channel_holds_the_newest_item)
{
    kc_chan_t *c = chan(sizeof(int), KC_CHAN_LATEST);
    int item = -1;

    CHECK_EQ(kc_chan_try_recv(c, &item), -EAGAIN);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(i % 2 ? kc_chan_send(c, &i) : kc_chan_try_send(c, &i), 0);
        CHECK_EQ(kc_chan_len(c), 1);
    }
    CHECK_EQ(kc_chan_recv(c, &item), 0);
    CHECK_EQ(item, 9);
    CHECK_EQ(kc_chan_try_recv(c, &item), -EAGAIN);
    CHECK_EQ(kc_chan_send(c, &item), 0);
    CHECK_EQ(kc_chan_len(c), 1);
    kc_chan_release(c);
    return 0;
}

IN_A_JOB(receivers_of_a_latest_channel_get_one_item_each)
{
    kc_chan_t *c = chan(sizeof(int), KC_CHAN_LATEST);
    struct party r[2];
    int item = 2;

    for (int i = 0; i < 2; i++) {
        r[i] = (struct party){ .c = c, .op = KC_RECV };
        stands(&r[i], NULL);
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ(kc_chan_send(c, &i), 0);
    CHECK_EQ(kc_chan_len(c), 0);
    CHECK_EQ(kc_chan_send(c, &item), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(outcome(&r[i]), 0);
        CHECK_EQ(r[i].item, i);
    }
    CHECK_EQ(kc_chan_try_recv(c, &item), 0);
    CHECK_EQ(item, 2);
    kc_chan_release(c);
    return 0;
}

/* ---- try ------------------------------------------------------------------------------------ */

IN_A_JOB(a_try_succeeds_where_nobody_has_to_wait_and_is_eagain_else)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    struct party r = { .c = c, .op = KC_RECV }, s = { .c = c, .op = KC_SEND, .item = 9 };
    int item = 5;

    CHECK_EQ(kc_chan_try_send(c, &item), -EAGAIN);
    CHECK_EQ(kc_chan_try_recv(c, &item), -EAGAIN);
    CHECK_EQ(item, 5);
    stands(&r, NULL);
    CHECK_EQ(kc_chan_try_send(c, &item), 0);
    CHECK_EQ(kc_chan_try_send(c, &item), -EAGAIN); /* it has its item, run or not */
    CHECK_EQ(outcome(&r), 0);
    CHECK_EQ(r.item, 5);
    stands(&s, NULL);
    CHECK_EQ(kc_chan_try_recv(c, &item), 0);
    CHECK_EQ(item, 9);
    CHECK_EQ(kc_chan_try_recv(c, &item), -EAGAIN);
    CHECK_EQ(outcome(&s), 0);
    kc_chan_release(c);
    return 0;
}

/* ---- close ---------------------------------------------------------------------------------- */

IN_A_JOB(after_a_close_receivers_get_what_is_left_and_senders_epipe)
{
    size_t capacities[] = { 3, KC_CHAN_UNLIMITED, KC_CHAN_LATEST };

    for (int k = 0; k < 3; k++) {
        kc_chan_t *c = chan(sizeof(int), capacities[k]);
        int left = capacities[k] == KC_CHAN_LATEST ? 1 : 2, item = -1;
        for (int i = 2 - left; i < 2; i++)
            CHECK_EQ(kc_chan_send(c, &i), 0);
        kc_chan_close(c);
        kc_chan_close(c);
        CHECK_EQ(kc_chan_send(c, &item), -EPIPE);
        CHECK_EQ(kc_chan_try_send(c, &item), -EPIPE);
        CHECK_EQ(kc_chan_send_until(c, &item, 1), -EPIPE);
        CHECK_EQ(kc_chan_len(c), left);
        for (int i = 2 - left; i < 2; i++) {
            CHECK_EQ(i % 2 ? kc_chan_recv(c, &item) : kc_chan_try_recv(c, &item), 0);
            CHECK_EQ(item, i);
        }
        CHECK_EQ(kc_chan_recv(c, &item), -EPIPE);
        CHECK_EQ(kc_chan_try_recv(c, &item), -EPIPE);
        CHECK_EQ(kc_chan_recv_until(c, &item, 1), -EPIPE);
        CHECK_EQ(item, 1);
        kc_chan_close(c);
        kc_chan_release(c);
    }
    return 0;
}

IN_A_JOB(a_close_wakes_the_senders_that_wait_and_their_items_are_not_delivered)
{
    for (int capacity = 0; capacity < 3; capacity++) {
        kc_chan_t *c = chan(sizeof(int), (size_t)capacity);
        struct party s[3];
        int item = -1;
        for (int i = 0; i < capacity; i++)
            CHECK_EQ(kc_chan_send(c, &i), 0);
        for (int i = 0; i < 3; i++) {
            s[i] = (struct party){ .c = c, .op = KC_SEND, .item = 100 + i };
            stands(&s[i], NULL);
        }
        kc_chan_close(c);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(outcome(&s[i]), -EPIPE);
        for (int i = 0; i < capacity; i++) {
            CHECK_EQ(kc_chan_recv(c, &item), 0);
            CHECK_EQ(item, i);
        }
        CHECK_EQ(kc_chan_recv(c, &item), -EPIPE);
        kc_chan_release(c);
    }
    return 0;
}

IN_A_JOB(a_close_wakes_the_receivers_that_wait)
{
    for (int k = 0; k <= KIT_CHANS; k++) {
        kc_chan_t *c = chan(sizeof(int), k < KIT_CHANS ? kit_capacity[k] : KC_CHAN_LATEST);
        struct party r[3];
        for (int i = 0; i < 3; i++) {
            r[i] = (struct party){ .c = c, .op = KC_RECV, .item = 55 };
            stands(&r[i], NULL);
        }
        kc_chan_close(c);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(outcome(&r[i]), -EPIPE);
            CHECK_EQ(r[i].item, 55);
        }
        kc_chan_release(c);
    }
    return 0;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

IN_A_JOB(items_of_size_0_are_bare_events)
{
    for (int k = 1; k < KIT_CHANS; k++) {
        kc_chan_t *c = chan(0, kit_capacity[k]);
        CHECK_EQ(kc_chan_send(c, NULL), 0);
        CHECK_EQ(kc_chan_len(c), 1);
        CHECK_EQ(kc_chan_recv(c, NULL), 0);
        CHECK_EQ(kc_chan_try_recv(c, NULL), -EAGAIN);
        kc_chan_release(c);
    }
    kc_chan_t *c = chan(0, 0);
    struct party r = { .c = c, .op = KC_RECV, .drops = true };
    stands(&r, NULL);
    CHECK_EQ(kc_chan_try_send(c, NULL), 0);
    CHECK_EQ(outcome(&r), 0);
    kc_chan_release(c);
    c = chan(0, KC_CHAN_UNLIMITED);
    for (int i = 0; i < 10000; i++)
        CHECK_EQ(kc_chan_try_send(c, NULL), 0);
    CHECK_EQ(kc_chan_len(c), 10000);
    for (int i = 0; i < 10000; i++)
        CHECK_EQ(kc_chan_try_recv(c, NULL), 0);
    CHECK_EQ(kc_chan_try_recv(c, NULL), -EAGAIN);
    kc_chan_release(c);
    c = chan(0, KC_CHAN_LATEST);
    CHECK_EQ(kc_chan_try_send(c, NULL), 0);
    CHECK_EQ(kc_chan_try_send(c, NULL), 0);
    CHECK_EQ(kc_chan_len(c), 1);
    kc_chan_release(c);
    return 0;
}

struct big {
    unsigned char bytes[20011];
};

static int sends_big_ones(void *arg)
{
    struct big *b = malloc(sizeof *b);

    CHECK(b != NULL);
    for (int i = 0; i < 20; i++) {
        memset(b->bytes, i + 1, sizeof b->bytes);
        CHECK_EQ(kc_chan_send(arg, b), 0);
    }
    free(b);
    return 0;
}

IN_A_JOB(big_items_arrive_whole)
{
    struct big *b = malloc(sizeof *b);

    CHECK(b != NULL);
    for (int k = 0; k < KIT_CHANS; k++) {
        kc_chan_t *c = chan(sizeof *b, kit_capacity[k]);
        kc_job_t *j = launch(sends_big_ones, c, NULL);
        for (int i = 0; i < 20; i++) {
            CHECK_EQ(kc_chan_recv(c, b), 0);
            for (size_t at = 0; at < sizeof b->bytes; at++)
                CHECK_EQ(b->bytes[at], i + 1);
        }
        CHECK_EQ(kc_job_join(j), 0);
        kc_job_release(j);
        kc_chan_release(c);
    }
    free(b);
    return 0;
}

IN_A_JOB(items_of_odd_sizes_are_copied_and_nothing_beside_them)
{
    for (size_t size = 1; size <= 17; size++) {
        unsigned char from[18], to[18];
        for (int k = 1; k < KIT_CHANS; k++) {
            kc_chan_t *c = chan(size, kit_capacity[k]);
            memset(from, 0xa0 + (int)size, sizeof from);
            memset(to, 0, sizeof to);
            CHECK_EQ(kc_chan_send(c, from), 0);
            CHECK_EQ(kc_chan_recv(c, to), 0);
            for (size_t i = 0; i < sizeof to; i++)
                CHECK_EQ(to[i], i < size ? 0xa0 + size : 0);
            kc_chan_release(c);
        }
    }
    return 0;
}

IN_A_JOB(a_receive_into_null_drops_the_item)
{
    kc_chan_t *c = chan(sizeof(int), 1), *meet = chan(sizeof(int), 0);
    struct party s = { .c = meet, .op = KC_SEND, .item = 1 };
    struct party r = { .c = meet, .op = KC_RECV, .drops = true };
    int item = 3;

    CHECK_EQ(kc_chan_send(c, &item), 0);
    CHECK_EQ(kc_chan_recv(c, NULL), 0);
    CHECK_EQ(kc_chan_try_recv(c, &item), -EAGAIN);
    CHECK_EQ(kc_chan_send(c, &item), 0);
    CHECK_EQ(kc_chan_try_recv(c, NULL), 0);
    stands(&s, NULL);
    CHECK_EQ(kc_chan_recv(meet, NULL), 0);
    CHECK_EQ(outcome(&s), 0);
    stands(&r, NULL);
    CHECK_EQ(kc_chan_send(meet, &item), 0);
    CHECK_EQ(outcome(&r), 0);
    kc_chan_release(c);
    kc_chan_release(meet);
    return 0;
}

/* ---- who runs next -------------------------------------------------------------------------- */

struct pair {
    kc_chan_t *c;
    int got; /* how many the receiver has gone on with */
    count_t stop, other;
};

static int receives_and_counts(void *arg)
{
    struct pair *p = arg;
    int item;

    while (kc_chan_recv(p->c, &item) == 0)
        p->got++;
    return 0;
}

/* How many of 64 sends on one thread returned after their receiver had gone on. */
static int handed_over(struct pair *p)
{
    kc_job_t *j = launch(receives_and_counts, p, &on_main);
    int at_once = 0;

    for (int i = 0; i < 64; i++) {
        UNTIL(in_line(p->c, KC_RECV) == 1);
        int before = p->got;
        CHECK_EQ(kc_chan_send(p->c, &i), 0);
        at_once += p->got == before + 1;
    }
    UNTIL(p->got == 64);
    kc_chan_close(p->c);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    return at_once;
}

static int counts_hand_overs(void *arg)
{
    struct pair p = { .c = chan(sizeof(int), (size_t)(uintptr_t)arg) };
    int n = handed_over(&p);

    kc_chan_release(p.c);
    return n; /* as a failure: kc_run returns it */
}

static int hand_overs(size_t capacity, uint64_t seed)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS, .seed = seed };

    return kc_run(counts_hand_overs, (void *)(uintptr_t)capacity, &opts);
}

TEST(a_receiver_on_the_same_thread_continues_before_the_sender)
{
    /* Not now and then, when it is the turn of others. */
    CHECK_GE(hand_overs(0, 0), 48);
}

TEST(with_a_buffer_the_sender_continues_first)
{
    CHECK_LE(hand_overs(1, 0), 16); /* it may have to let others run */
}

TEST(with_a_seed_the_seed_chooses_which_side_continues)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        CHECK_LE(hand_overs(0, seed), 16);
        CHECK_EQ(hand_overs(0, seed), hand_overs(0, seed));
    }
}

static int hands_over_for_ever(void *arg)
{
    struct pair *p = arg;

    for (int i = 0; !get(&p->stop); i++)
        CHECK_EQ(kc_chan_send(p->c, &i), 0);
    kc_chan_close(p->c);
    return 0;
}

static int yields_and_stops_it(void *arg)
{
    struct pair *p = arg;

    for (int i = 0; i < 20; i++)
        CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(kc_sleep(KC_US(50)), 0); /* timers are looked at too */
    set(&p->stop, 1);
    return 0;
}

static int fresh_one(void *arg)
{
    struct pair *p = arg;

    add(&p->other);
    return kc_launch_job(yields_and_stops_it, p, &on_main, NULL);
}

static int starves_nobody(void *arg)
{
    struct pair p = { .c = chan(sizeof(int), (size_t)(uintptr_t)arg) };
    kc_job_t *r = launch(receives_and_counts, &p, &on_main);
    kc_job_t *s = launch(hands_over_for_ever, &p, &on_main);
    kc_job_t *other = launch(fresh_one, &p, &on_main);

    CHECK_EQ(kc_job_join(s), 0);
    CHECK_EQ(kc_job_join(r), 0);
    CHECK_EQ(kc_job_join(other), 0);
    CHECK_EQ(get(&p.other), 1);
    kc_job_release(r);
    kc_job_release(s);
    kc_job_release(other);
    kc_chan_release(p.c);
    return 0;
}

TEST(a_pair_that_keeps_handing_over_lets_others_run)
{
    for (int k = 0; k < KIT_CHANS - 1; k++)
        for (uint64_t seed = 0; seed < 2; seed++) {
            kc_sched_opts_t opts = { .workers = KC_NO_WORKERS, .seed = seed };
            CHECK_EQ(kc_run(starves_nobody, (void *)(uintptr_t)kit_capacity[k], &opts), 0);
        }
}

static int sets(void *arg)
{
    set(arg, 1);
    return 0;
}

/* All on one thread: what does not end unless others run. */
static int never_has_to_wait(void *arg UNUSED)
{
    kc_chan_t *c = chan(sizeof(int), KC_CHAN_UNLIMITED), *latest = chan(0, KC_CHAN_LATEST);
    count_t ran = 0;
    int n = 0, got = 0;

    CHECK_EQ(kc_launch_job(sets, &ran, &on_main, NULL), 0);
    for (; !get(&ran); n++)
        CHECK_EQ(kc_chan_send(c, &n), 0);
    CHECK_LE(n, 100000);
    for (; n < 100000; n++)
        CHECK_EQ(kc_chan_try_send(c, &n), 0);
    set(&ran, 0);
    CHECK_EQ(kc_launch_job(sets, &ran, &on_main, NULL), 0);
    for (; !get(&ran); got++)
        CHECK_EQ(kc_chan_recv(c, NULL), 0);
    CHECK_LT(got, 100000);
    set(&ran, 0);
    CHECK_EQ(kc_launch_job(sets, &ran, &on_main, NULL), 0);
    while (!get(&ran))
        CHECK_EQ(kc_chan_send(latest, NULL), 0);
    kc_chan_release(c);
    kc_chan_release(latest);
    return 0;
}

TEST(a_job_whose_sends_and_receives_never_wait_lets_others_run_now_and_then)
{
    for (uint64_t seed = 0; seed < 2; seed++) {
        kc_sched_opts_t opts = { .workers = KC_NO_WORKERS, .seed = seed };
        CHECK_EQ(kc_run(never_has_to_wait, NULL, &opts), 0);
    }
}
