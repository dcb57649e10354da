/* SPDX-License-Identifier: MIT */
/*
 * select_test.c - select: what it chooses, what it leaves alone, timeouts, and closed, missing and
 * repeated channels (H3).
 */
#include "chan_kit.h"

/* ---- what is ready -------------------------------------------------------------------------- */

IN_A_JOB(a_select_does_the_one_that_can_be_done_and_touches_no_other)
{
    for (int ready = 0; ready < 4; ready++) {
        kc_chan_t *c[4];
        int item[4] = { -1, -1, 70, 71 }, got = 33;
        kc_case_t cases[4];
        for (int i = 0; i < 4; i++) {
            c[i] = chan(sizeof(int), i < 2 || i == ready ? 1 : 0);
            cases[i] = (kc_case_t){ i < 2 ? KC_RECV : KC_SEND, c[i], &item[i], 99 };
        }
        if (ready < 2)
            CHECK_EQ(kc_chan_send(c[ready], &got), 0);
        CHECK_EQ(kc_select(cases, 4, KC_FOREVER), ready);
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(cases[i].rc, i == ready ? 0 : 99);
            CHECK_EQ(item[i], i >= 2 ? 68 + i : i == ready ? 33 : -1);
            CHECK_EQ(kc_chan_len(c[i]), i == ready && i >= 2);
            CHECK(!c[i]->senders && !c[i]->receivers);
            kc_chan_release(c[i]);
        }
    }
    return 0;
}

struct chooser {
    kc_chan_t *c[12];
    kc_case_t cases[12];
    int item[12];
    size_t n;
    kc_time_t timeout;
    int rc;
    count_t out;
    kc_job_t *job;
};

static int chooses(void *arg)
{
    struct chooser *s = arg;

    s->rc = kc_select(s->cases, s->n, s->timeout);
    add(&s->out);
    return 0;
}

/* n channels of this capacity; receives from the even ones and sends to the others. */
static void prepare(struct chooser *s, size_t n, size_t capacity)
{
    *s = (struct chooser){ .n = n, .timeout = KC_FOREVER };
    for (size_t i = 0; i < n; i++) {
        s->c[i] = chan(sizeof(int), capacity);
        s->item[i] = 1000 + (int)i;
        s->cases[i] = (kc_case_t){ i % 2 ? KC_SEND : KC_RECV, s->c[i], &s->item[i], 99 };
        for (size_t k = 0; k < capacity && i % 2; k++)
            CHECK_EQ(kc_chan_try_send(s->c[i], &s->item[i]), 0);
    }
}

static void stands_everywhere(struct chooser *s, const kc_launch_opts_t *opts)
{
    s->job = launch(chooses, s, opts);
    for (size_t i = 0; i < s->n; i++)
        UNTIL(!s->c[i] || in_line(s->c[i], s->cases[i].op) == 1);
    UNTIL(waits_in(s->job, KC_WAIT_SELECT));
}

/* Its end, and all it leaves behind. */
static int chosen(struct chooser *s)
{
    UNTIL(get(&s->out) == 1);
    (void)!kc_job_join(s->job);
    kc_job_release(s->job);
    for (size_t i = 0; i < s->n; i++) {
        if (!s->c[i])
            continue;
        CHECK(!s->c[i]->senders && !s->c[i]->receivers);
        CHECK_EQ(s->cases[i].rc == 99, (int)i != s->rc);
        CHECK(s->cases[i].op == KC_SEND || (int)i == s->rc || s->item[i] == 1000 + (int)i);
        kc_chan_release(s->c[i]);
    }
    return s->rc;
}

IN_A_JOB(a_select_that_waits_is_ended_by_any_of_its_cases)
{
    for (size_t capacity = 0; capacity < 2; capacity++)
        for (size_t k = 0; k < 12; k++) {
            struct chooser s;
            int item = 7;
            prepare(&s, k % 2 ? 12 : 1 + k, capacity); /* more than a few, and fewer */
            stands_everywhere(&s, NULL);
            if (k % 2) {
                CHECK_EQ(kc_chan_try_recv(s.c[k], &item), 0);
                CHECK_EQ(item, 1000 + (int)k);
            } else {
                CHECK_EQ(kc_chan_try_send(s.c[k], &item), 0);
            }
            kc_chan_t *c = kc_chan_retain(s.c[k]);
            CHECK_EQ(chosen(&s), k);
            CHECK_EQ(s.cases[k].rc, 0);
            CHECK_EQ(s.item[k], k % 2 ? 1000 + (int)k : 7);
            CHECK_EQ(kc_chan_len(c), k % 2 ? capacity : 0);
            kc_chan_release(c);
        }
    return 0;
}

IN_A_JOB(two_cases_that_become_ready_at_once_end_a_select_once)
{
    struct chooser s;
    int item = 7;

    prepare(&s, 4, 0);
    stands_everywhere(&s, &on_main);
    CHECK_EQ(kc_chan_try_send(s.c[2], &item), 0);
    CHECK_EQ(kc_chan_try_send(s.c[0], &item), -EAGAIN);
    CHECK_EQ(kc_chan_try_send(s.c[2], &item), -EAGAIN);
    CHECK_EQ(kc_chan_try_recv(s.c[1], &item), -EAGAIN);
    kc_chan_close(s.c[3]);
    CHECK_EQ(chosen(&s), 2);
    return 0;
}

IN_A_JOB(a_select_keeps_its_place_in_the_queue)
{
    kc_chan_t *c = chan(sizeof(int), 0), *never_ready = chan(sizeof(int), 0);
    struct party r[2];
    struct chooser s = { .c = { c, never_ready }, .n = 2, .timeout = KC_FOREVER };

    r[0] = (struct party){ .c = c, .op = KC_RECV };
    stands(&r[0], NULL);
    for (int i = 0; i < 2; i++) {
        s.item[i] = 1000 + i;
        s.cases[i] = (kc_case_t){ KC_RECV, s.c[i], &s.item[i], 99 };
    }
    s.job = launch(chooses, &s, NULL);
    UNTIL(in_line(c, KC_RECV) == 2);
    r[1] = (struct party){ .c = c, .op = KC_RECV };
    stands(&r[1], NULL);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(kc_chan_send(c, &i), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(outcome(&r[i]), 0);
        CHECK_EQ(r[i].item, 2 * i);
    }
    CHECK_EQ(chosen(&s), 0);
    CHECK_EQ(s.item[0], 1);
    return 0;
}

/* ---- which ---------------------------------------------------------------------------------- */

enum { READY = 5, ROUNDS = 1000 };

/* How often each of n that are always ready is chosen. */
static void choose_often(size_t n, int *often)
{
    kc_chan_t *c[READY];
    kc_case_t cases[READY];

    memset(often, 0, n * sizeof *often);
    for (size_t i = 0; i < n; i++) {
        c[i] = chan(0, KC_CHAN_LATEST);
        cases[i] = (kc_case_t){ .op = KC_SEND, .chan = c[i] };
    }
    for (int k = 0; k < ROUNDS; k++) {
        int i = kc_select(cases, n, k % 2 ? KC_FOREVER : 0);
        CHECK(i >= 0 && i < (int)n);
        often[i]++;
    }
    for (size_t i = 0; i < n; i++)
        kc_chan_release(c[i]);
}

static void all_are_chosen(void)
{
    for (size_t n = 2; n <= READY; n++) {
        int often[READY];
        choose_often(n, often);
        for (size_t i = 0; i < n; i++)
            CHECK_GE(often[i], ROUNDS / (int)n / 4);
    }
}

IN_A_JOB(no_ready_case_starves)
{
    all_are_chosen();
    return 0;
}

TEST(no_ready_case_starves_on_a_plain_thread)
{
    all_are_chosen();
}

enum { MANY = 64, CHOICES = 2000, OFTEN = 400 };

/* Three of many are ready, and the others stand before, between and behind them: each of the three
 * is chosen about as often. OFTEN is 12 times the standard deviation away. */
static void all_are_chosen_evenly(kc_time_t timeout)
{
    static const int ready[] = { 40, 41, 62 };
    kc_chan_t *idle = chan(0, 0), *closed[3];
    kc_case_t cases[MANY];
    int often[MANY] = { 0 };

    for (int i = 0; i < MANY; i++)
        cases[i] = (kc_case_t){ .op = KC_RECV, .chan = i % 8 ? idle : NULL };
    for (int i = 0; i < 3; i++) {
        cases[ready[i]].chan = closed[i] = chan(0, 0);
        kc_chan_close(closed[i]);
    }
    for (int k = 0; k < CHOICES; k++) {
        int i = kc_select(cases, MANY, timeout);
        CHECK(i >= 0 && i < MANY);
        CHECK_EQ(cases[i].rc, -EPIPE);
        often[i]++;
    }
    for (int i = 0; i < 3; i++) {
        CHECK_GE(often[ready[i]], OFTEN);
        kc_chan_release(closed[i]);
    }
    kc_chan_release(idle);
}

IN_A_JOB(ready_cases_are_chosen_evenly_whatever_stands_between_them)
{
    all_are_chosen_evenly(KC_FOREVER);
    all_are_chosen_evenly(0);
    return 0;
}

TEST(ready_cases_are_chosen_evenly_on_a_plain_thread)
{
    all_are_chosen_evenly(KC_FOREVER);
    all_are_chosen_evenly(0);
}

static int hash_of_choices(void *arg UNUSED)
{
    kc_chan_t *c[3];
    kc_case_t cases[3];
    uint32_t hash = 0;

    for (int i = 0; i < 3; i++) {
        c[i] = chan(0, KC_CHAN_LATEST);
        cases[i] = (kc_case_t){ .op = KC_SEND, .chan = c[i] };
    }
    for (int k = 0; k < 50; k++)
        hash = hash * 31 + (uint32_t)kc_select(cases, 3, KC_FOREVER);
    for (int i = 0; i < 3; i++)
        kc_chan_release(c[i]);
    return (int)(hash & 0x7fffffff) | 1;
}

TEST(with_a_seed_the_choice_is_the_seeds)
{
    bool differ = false;
    int first = 0;

    for (uint64_t seed = 1; seed <= 10; seed++) {
        kc_sched_opts_t opts = { .workers = KC_NO_WORKERS, .seed = seed };
        int once = kc_run(hash_of_choices, NULL, &opts),
            again = kc_run(hash_of_choices, NULL, &opts);
        CHECK_EQ(once, again);
        first = first ? first : once;
        differ |= once != first;
    }
    CHECK(differ);
}

/* However their addresses lie, and also if one stands in several cases. */
static int tries_many(void *arg UNUSED)
{
    uint64_t random = kc_test_seed() | 1;
    kc_chan_t *c[MANY];
    int item = 0;

    for (int i = 0; i < MANY; i++)
        c[i] = chan(sizeof(int), 1);
    for (int k = 0; k < 100; k++) {
        size_t n = 1 + kc_test_random(&random) % MANY;
        int full = (int)(kc_test_random(&random) % MANY), first = -1;
        kc_case_t cases[MANY];
        for (size_t i = 0; i < n; i++) {
            int which = (int)(kc_test_random(&random) % MANY);
            cases[i] = (kc_case_t){ KC_RECV, c[which], &item, 99 };
            if (which == full && first < 0)
                first = (int)i;
        }
        CHECK_EQ(kc_select(cases, n, 0), -EAGAIN);
        CHECK_EQ(kc_chan_send(c[full], &k), 0);
        CHECK_EQ(kc_select_biased(cases, n, 0), first < 0 ? -EAGAIN : first);
        if (first < 0)
            CHECK_EQ(kc_chan_recv(c[full], &item), 0);
        CHECK_EQ(item, k);
    }
    for (int i = 0; i < MANY; i++)
        kc_chan_release(c[i]);
    return 0;
}

TEST(a_try_finds_the_one_of_many_that_is_ready)
{
    kit_in_a_job(tries_many);
    CHECK_EQ(tries_many(NULL), 0);
}

IN_A_JOB(a_biased_select_chooses_the_first)
{
    kc_chan_t *c[3];
    kc_case_t cases[3];
    int item = 0;

    for (int i = 0; i < 3; i++) {
        c[i] = chan(sizeof(int), 4);
        cases[i] = (kc_case_t){ .op = KC_RECV, .chan = c[i], .item = &item };
    }
    for (int k = 0; k < 20; k++) {
        int at = k % 3;
        for (int i = at; i < 3; i++)
            CHECK_EQ(kc_chan_try_send(c[i], &i), 0);
        for (int i = at; i < 3; i++) {
            CHECK_EQ(kc_select_biased(cases, 3, k % 2 ? KC_FOREVER : 0), i);
            CHECK_EQ(item, i);
        }
        CHECK_EQ(kc_select_biased(cases, 3, 0), -EAGAIN);
    }
    for (int i = 0; i < 3; i++)
        kc_chan_release(c[i]);
    return 0;
}

/* ---- timeouts ------------------------------------------------------------------------------- */

IN_A_JOB(a_timeout_of_0_is_a_try)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    int item = 5;
    kc_case_t cases[] = { { KC_RECV, c, &item, 99 }, { KC_SEND, c, &item, 99 } };

    CHECK_EQ(kc_select(cases, 2, 0), -EAGAIN);
    CHECK_EQ(kc_select(cases, 1, 0), -EAGAIN);
    CHECK_EQ(kc_select_biased(cases, 2, 0), -EAGAIN);
    CHECK_EQ(item, 5);
    CHECK_EQ(cases[0].rc, 99);
    CHECK_EQ(cases[1].rc, 99);
    CHECK(!c->senders && !c->receivers);
    kc_chan_release(c);
    return 0;
}

IN_A_JOB(a_select_that_is_out_of_time_has_done_nothing)
{
    for (size_t n = 1; n <= 12; n += 11) {
        struct chooser s;
        prepare(&s, n, 0);
        kc_time_t begin = kc_now();
        CHECK_EQ(kc_select(s.cases, n, KC_US(100)), -ETIMEDOUT);
        CHECK_GE(kc_now() - begin, KC_US(100));
        for (size_t i = 0; i < n; i++) {
            CHECK(!s.c[i]->senders && !s.c[i]->receivers);
            CHECK_EQ(s.cases[i].rc, 99);
            CHECK_EQ(s.item[i], 1000 + (int)i);
            kc_chan_release(s.c[i]);
        }
    }
    return 0;
}

IN_VIRTUAL_TIME(a_select_ends_when_its_time_is_over_and_not_later)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    kc_case_t one = { .op = KC_RECV, .chan = c };
    kc_time_t begin = kc_now();

    CHECK_EQ(kc_select(&one, 1, KC_SEC(1000)), -ETIMEDOUT);
    CHECK_EQ(kc_now(), begin + KC_SEC(1000));
    CHECK_EQ(kc_sleep(1), 0);
    kc_chan_release(c);
    return 0;
}

IN_A_JOB(a_timeout_longer_than_time_is_for_ever)
{
    struct chooser s;
    int item = 3;

    prepare(&s, 1, 0);
    s.timeout = KC_FOREVER - 1;
    stands_everywhere(&s, NULL);
    CHECK_EQ(kc_chan_send(s.c[0], &item), 0);
    CHECK_EQ(chosen(&s), 0);
    CHECK_EQ(s.item[0], 3);
    return 0;
}

/* ---- missing, closed, repeated -------------------------------------------------------------- */

IN_A_JOB(a_case_without_a_channel_never_happens)
{
    kc_chan_t *c = chan(sizeof(int), 1);
    int item = 4;
    kc_case_t cases[] = { { KC_RECV, NULL, NULL, 99 },
                          { KC_SEND, NULL, NULL, 99 },
                          { KC_SEND, c, &item, 99 },
                          { KC_SEND, NULL, &item, 99 } };

    for (int i = 0; i < 20; i++) {
        CHECK_EQ(kc_select(cases, 4, i % 2 ? KC_FOREVER : 0), 2);
        CHECK_EQ(kc_chan_try_recv(c, NULL), 0);
    }
    CHECK_EQ(kc_select_biased(cases, 4, KC_FOREVER), 2);
    CHECK_EQ(kc_select(cases, 4, 0), -EAGAIN);
    CHECK_EQ(kc_select(cases, 2, 0), -EAGAIN);
    CHECK_EQ(kc_select(cases, 2, KC_US(10)), -ETIMEDOUT);
    CHECK_EQ(cases[0].rc, 99);
    kc_chan_release(c);
    return 0;
}

IN_A_JOB(a_select_of_nothing_waits_for_a_cancel)
{
    struct chooser s = { .n = 3, .timeout = KC_FOREVER };

    for (int i = 0; i < 3; i++)
        s.cases[i] = (kc_case_t){ .op = KC_RECV };
    s.job = launch(chooses, &s, NULL);
    UNTIL(waits_in(s.job, KC_WAIT_SELECT));
    CHECK(kc_job_cancel(s.job, 0));
    CHECK_EQ(chosen(&s), -ECANCELED);
    return 0;
}

IN_A_JOB(a_case_on_a_closed_channel_happens_with_epipe)
{
    for (int op = KC_RECV; op <= KC_SEND; op++) {
        kc_chan_t *c = chan(sizeof(int), 0), *closed = chan(sizeof(int), 1);
        int item = 5, other = 6;
        kc_case_t cases[] = { { KC_RECV, c, &other, 99 }, { op, closed, &item, 99 } };
        if (op == KC_RECV)
            CHECK_EQ(kc_chan_send(closed, &other), 0);
        kc_chan_close(closed);
        if (op == KC_RECV) { /* what is left comes first */
            CHECK_EQ(kc_select(cases, 2, KC_FOREVER), 1);
            CHECK_EQ(cases[1].rc, 0);
            CHECK_EQ(item, 6);
        }
        for (int i = 0; i < 2; i++) {
            cases[1].rc = 99;
            CHECK_EQ(kc_select(cases, 2, i ? KC_FOREVER : 0), 1);
            CHECK_EQ(cases[1].rc, -EPIPE);
            CHECK_EQ(cases[0].rc, 99);
        }
        CHECK_EQ(item, op == KC_RECV ? 6 : 5);
        kc_chan_release(c);
        kc_chan_release(closed);
    }
    return 0;
}

IN_A_JOB(a_close_ends_a_select_that_waits)
{
    for (int i = 0; i < 4; i++) {
        struct chooser s;
        prepare(&s, 4, 0);
        stands_everywhere(&s, NULL);
        kc_chan_close(s.c[i]);
        CHECK_EQ(chosen(&s), i);
        CHECK_EQ(s.cases[i].rc, -EPIPE);
        CHECK_EQ(s.item[i], 1000 + i);
    }
    return 0;
}

IN_A_JOB(a_channel_may_stand_in_several_cases)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    struct chooser s = { .c = { c }, .n = 4, .timeout = KC_FOREVER };
    int item = 12;

    for (int i = 0; i < 4; i++)
        s.cases[i] = (kc_case_t){ KC_RECV, c, &s.item[i], 99 };
    s.job = launch(chooses, &s, NULL);
    UNTIL(in_line(c, KC_RECV) == 4);
    CHECK_EQ(kc_chan_try_send(c, &item), 0);
    CHECK_EQ(kc_chan_try_send(c, &item), -EAGAIN);
    UNTIL(get(&s.out) == 1);
    CHECK_EQ(kc_job_join(s.job), 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(s.item[i], i == s.rc ? 12 : 0);
        CHECK_EQ(s.cases[i].rc, i == s.rc ? 0 : 99);
    }
    CHECK(!c->receivers);
    kc_job_release(s.job);
    kc_chan_release(c);
    return 0;
}

IN_A_JOB(of_several_items_for_one_channel_one_is_sent)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    struct chooser s = { .c = { c }, .n = 3, .timeout = KC_FOREVER };
    int item = -1;

    for (int i = 0; i < 3; i++) {
        s.item[i] = 10 + i;
        s.cases[i] = (kc_case_t){ KC_SEND, c, &s.item[i], 99 };
    }
    s.job = launch(chooses, &s, NULL);
    UNTIL(in_line(c, KC_SEND) == 3);
    CHECK_EQ(kc_chan_recv(c, &item), 0);
    UNTIL(get(&s.out) == 1);
    CHECK_EQ(item, 10 + s.rc);
    CHECK_EQ(kc_chan_try_recv(c, &item), -EAGAIN);
    CHECK_EQ(kc_job_join(s.job), 0);
    CHECK(!c->senders);
    kc_job_release(s.job);
    kc_chan_release(c);
    return 0;
}

/* Sends on c or receives from it. */
static void both_ways(struct chooser *s, kc_chan_t *c)
{
    *s = (struct chooser){ .c = { c }, .n = 2, .timeout = KC_FOREVER };
    s->item[0] = 20;
    s->item[1] = 30;
    s->cases[0] = (kc_case_t){ KC_SEND, c, &s->item[0], 99 };
    s->cases[1] = (kc_case_t){ KC_RECV, c, &s->item[1], 99 };
}

IN_A_JOB(a_select_never_meets_itself_but_another_one)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    struct chooser one, other;

    both_ways(&one, c);
    CHECK_EQ(kc_select(one.cases, 2, 0), -EAGAIN);
    CHECK_EQ(kc_select(one.cases, 2, KC_US(20)), -ETIMEDOUT);
    one.job = launch(chooses, &one, NULL);
    UNTIL(in_line(c, KC_SEND) == 1 && in_line(c, KC_RECV) == 1);
    CHECK_EQ(get(&one.out), 0);
    both_ways(&other, c);
    other.item[0] = 40;
    other.item[1] = 50;
    other.job = launch(chooses, &other, NULL);
    UNTIL(get(&one.out) && get(&other.out));
    CHECK_EQ(kc_job_join(one.job), 0);
    CHECK_EQ(kc_job_join(other.job), 0);
    CHECK_EQ(one.rc + other.rc, 1); /* one sent, one received */
    CHECK_EQ(one.item[1], one.rc == 1 ? 40 : 30);
    CHECK_EQ(other.item[1], other.rc == 1 ? 20 : 50);
    CHECK(!c->senders && !c->receivers);
    kc_job_release(one.job);
    kc_job_release(other.job);
    kc_chan_release(c);
    return 0;
}

IN_A_JOB(a_full_buffer_moves_up_others_and_not_the_selects_own_item)
{
    kc_chan_t *c = chan(sizeof(int), 1);
    struct party s = { .c = c, .op = KC_SEND, .item = 2 };
    int item = 1, own = 9, got = 0;
    kc_case_t cases[] = { { KC_SEND, c, &own, 99 }, { KC_RECV, c, &got, 99 } };

    CHECK_EQ(kc_chan_send(c, &item), 0);
    stands(&s, NULL);
    CHECK_EQ(kc_select(cases, 2, KC_FOREVER), 1);
    CHECK_EQ(got, 1);
    CHECK_EQ(outcome(&s), 0);
    CHECK_EQ(kc_chan_try_recv(c, &got), 0);
    CHECK_EQ(got, 2);
    CHECK_EQ(kc_chan_try_recv(c, &got), -EAGAIN);
    kc_chan_release(c);
    return 0;
}

/* ---- bad arguments -------------------------------------------------------------------------- */

TEST(bad_arguments_of_a_select_are_einval)
{
    kc_chan_t *c = chan(sizeof(int), 1);
    int item = 0;
    kc_case_t good = { KC_SEND, c, &item, 99 }, bad = good;

    CHECK_EQ(kc_select(NULL, 1, 0), -EINVAL);
    CHECK_EQ(kc_select(&good, 0, 0), -EINVAL);
    CHECK_EQ(kc_select(NULL, 0, 0), -EINVAL);
    CHECK_EQ(kc_select(&good, 1, -1), -EINVAL);
    CHECK_EQ(kc_select(&good, 1, INT64_MIN), -EINVAL);
    CHECK_EQ(kc_select_biased(&good, 0, 0), -EINVAL);
    CHECK_EQ(kc_select_biased(&good, 1, -1), -EINVAL);
    for (int op = -1; op < 5; op++) {
        kc_case_t cases[] = { good, { op, c, &item, 99 } };
        if (op != KC_RECV && op != KC_SEND)
            CHECK_EQ(kc_select(cases, 2, 0), -EINVAL);
    }
    bad.item = NULL;
    kc_case_t cases[] = { good, bad };
    CHECK_EQ(kc_select(cases, 2, 0), -EINVAL);
    bad.op = 0;
    bad.chan = NULL;
    CHECK_EQ(kc_select(&bad, 1, 0), -EINVAL);
    CHECK_EQ(kc_chan_len(c), 0);
    CHECK_EQ(good.rc, 99);
    CHECK_EQ(kc_select(&good, 1, 0), 0);
    kc_chan_release(c);
}
