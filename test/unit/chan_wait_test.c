/* SPDX-License-Identifier: MIT */
/*
 * chan_wait_test.c - what ends a wait in a channel: cancel, deadlines, unwinding; and who may wait
 * there: jobs of any scheduler, plain threads, generators (H1, H4; J9, J10, J17).
 */
#include "chan_kit.h"

/* ---- cancel --------------------------------------------------------------------------------- */

struct cancelled {
    kc_chan_t *c, *full;
    count_t in, go;
};

static int tries_when_cancelled(void *arg)
{
    struct cancelled *k = arg;
    int item = 1;

    add(&k->in);
    UNTIL(get(&k->go));
    CHECK_EQ(kc_chan_send(k->c, &item), -ECANCELED);
    CHECK_EQ(kc_chan_send_until(k->c, &item, KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_chan_recv(k->full, &item), -ECANCELED);
    CHECK_EQ(kc_chan_recv_until(k->full, &item, 0), -ECANCELED);
    CHECK_EQ(item, 1);
    CHECK_EQ(kc_chan_len(k->c), 0);
    CHECK_EQ(kc_chan_len(k->full), 1);
    CHECK_EQ(kc_chan_try_send(k->c, &item), 0);
    CHECK_EQ(kc_chan_try_recv(k->full, &item), 0);
    CHECK_EQ(item, 8);
    return 0;
}

IN_A_JOB(a_cancelled_job_neither_sends_nor_receives_but_by_a_try)
{
    struct cancelled k = { .c = chan(sizeof(int), 1), .full = chan(sizeof(int), 1) };
    int item = 8;

    CHECK_EQ(kc_chan_send(k.full, &item), 0);
    kc_job_t *j = launch(tries_when_cancelled, &k, NULL);
    UNTIL(get(&k.in));
    CHECK(kc_job_cancel(j, 0));
    set(&k.go, 1);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    CHECK_EQ(kc_chan_try_recv(k.c, &item), 0);
    CHECK_EQ(item, 1);
    kc_chan_release(k.c);
    kc_chan_release(k.full);
    return 0;
}

IN_A_JOB(a_sender_that_is_cancelled_has_sent_nothing)
{
    for (int capacity = 0; capacity < 2; capacity++) {
        kc_chan_t *c = chan(sizeof(int), (size_t)capacity);
        struct party s[3];
        int item = 100;
        if (capacity)
            CHECK_EQ(kc_chan_send(c, &item), 0);
        for (int i = 0; i < 3; i++) {
            s[i] = (struct party){ .c = c, .op = KC_SEND, .item = i };
            stands(&s[i], NULL);
        }
        CHECK(kc_job_cancel(s[1].job, 0));
        CHECK_EQ(outcome(&s[1]), -ECANCELED);
        CHECK_EQ(in_line(c, KC_SEND), 2);
        if (capacity)
            CHECK_EQ(kc_chan_recv(c, NULL), 0);
        for (int i = 0; i < 3; i += 2) {
            CHECK_EQ(kc_chan_recv(c, &item), 0);
            CHECK_EQ(item, i);
            CHECK_EQ(outcome(&s[i]), 0);
        }
        CHECK_EQ(kc_chan_try_recv(c, &item), -EAGAIN);
        kc_chan_release(c);
    }
    return 0;
}

IN_A_JOB(a_receiver_that_is_cancelled_has_received_nothing)
{
    for (int k = 0; k <= KIT_CHANS; k++) {
        kc_chan_t *c = chan(sizeof(int), k < KIT_CHANS ? kit_capacity[k] : KC_CHAN_LATEST);
        struct party r[3];
        for (int i = 0; i < 3; i++) {
            r[i] = (struct party){ .c = c, .op = KC_RECV, .item = -1 };
            stands(&r[i], NULL);
        }
        CHECK(kc_job_cancel(r[0].job, 0));
        CHECK_EQ(outcome(&r[0]), -ECANCELED);
        CHECK_EQ(r[0].item, -1);
        for (int i = 1; i < 3; i++) {
            CHECK_EQ(kc_chan_send(c, &i), 0);
            CHECK_EQ(outcome(&r[i]), 0);
            CHECK_EQ(r[i].item, i);
        }
        kc_chan_release(c);
    }
    return 0;
}

/* On one thread the other has its item, and has not run yet, when it is cancelled. */
static int goes_on_cancelled(void *arg)
{
    struct party *p = arg;

    (void)does_one(p);
    CHECK_EQ(kc_yield(), -ECANCELED);
    return 0;
}

IN_A_JOB(a_completed_hand_over_is_reported_though_a_cancel_comes_before_the_job_runs)
{
    for (int op = KC_RECV; op <= KC_SEND; op++) {
        kc_chan_t *c = chan(sizeof(int), 0);
        struct party p = { .c = c, .op = op, .item = 3 };
        int item = 4;
        p.job = launch(goes_on_cancelled, &p, &on_main);
        UNTIL(in_line(c, op) == 1);
        CHECK_EQ(op == KC_RECV ? kc_chan_try_send(c, &item) : kc_chan_try_recv(c, &item), 0);
        CHECK_EQ(get(&p.out), 0);
        CHECK(kc_job_cancel(p.job, 0));
        CHECK_EQ(outcome(&p), 0);
        CHECK_EQ(p.item, op == KC_RECV ? 4 : 3);
        CHECK_EQ(item, op == KC_RECV ? 4 : 3);
        kc_chan_release(c);
    }
    return 0;
}

struct meddler {
    struct party *p;
    count_t go;
};

static void *tries_to_meet(void *arg)
{
    struct meddler *m = arg;
    int item = 77;

    UNTIL(get(&m->go));
    return CODE(m->p->op == KC_RECV ? kc_chan_try_send(m->p->c, &item)
                                    : kc_chan_try_recv(m->p->c, &item));
}

IN_A_JOB(of_a_cancel_and_a_hand_over_exactly_one_happens)
{
    for (int i = 0; i < 40; i++) {
        struct party p = { .c = chan(sizeof(int), 0), .op = i % 2 ? KC_SEND : KC_RECV };
        struct meddler m = { .p = &p };
        pthread_t thread;
        void *met;
        stands(&p, NULL);
        CHECK_EQ(pthread_create(&thread, NULL, tries_to_meet, &m), 0);
        set(&m.go, 1);
        for (int k = i % 5; k > 0; k--)
            sched_yield();
        kc_job_cancel(p.job, 0);
        int rc = outcome(&p);
        CHECK_EQ(pthread_join(thread, &met), 0);
        CHECK(rc == 0 || rc == -ECANCELED);
        CHECK_EQ((intptr_t)met, rc == 0 ? 0 : -EAGAIN);
        CHECK_EQ(p.item, rc == 0 && p.op == KC_RECV ? 77 : 0);
        CHECK(!p.c->senders && !p.c->receivers);
        kc_chan_release(p.c);
    }
    return 0;
}

/* ---- deadlines ------------------------------------------------------------------------------ */

IN_A_JOB(a_wait_ends_at_its_deadline_and_nothing_has_happened)
{
    kc_chan_t *c = chan(sizeof(int), 0), *full = chan(sizeof(int), 1);
    int item = 5;

    CHECK_EQ(kc_chan_send(full, &item), 0);
    kc_time_t at = kc_now() + KC_US(100);
    CHECK_EQ(kc_chan_recv_until(c, &item, at), -ETIMEDOUT);
    CHECK_GE(kc_now(), at);
    at = kc_now() + KC_US(100);
    CHECK_EQ(kc_chan_send_until(c, &item, at), -ETIMEDOUT);
    CHECK_GE(kc_now(), at);
    at = kc_now() + KC_US(100);
    CHECK_EQ(kc_chan_send_until(full, &item, at), -ETIMEDOUT);
    CHECK_GE(kc_now(), at);
    CHECK(!c->senders && !c->receivers && !full->senders);
    CHECK_EQ(kc_chan_len(full), 1);
    CHECK_EQ(item, 5);
    kc_chan_release(c);
    kc_chan_release(full);
    return 0;
}

IN_VIRTUAL_TIME(a_wait_ends_at_its_deadline_and_not_later)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    kc_time_t begin = kc_now();
    int item = 5;

    CHECK_EQ(kc_chan_recv_until(c, &item, begin + KC_SEC(3600)), -ETIMEDOUT);
    CHECK_EQ(kc_now(), begin + KC_SEC(3600));
    CHECK_EQ(kc_chan_send_until(c, &item, begin + KC_SEC(7200)), -ETIMEDOUT);
    CHECK_EQ(kc_now(), begin + KC_SEC(7200));
    kc_chan_release(c);
    return 0;
}

IN_A_JOB(a_deadline_that_is_over_lets_pass_what_need_not_wait)
{
    kc_chan_t *c = chan(sizeof(int), 1);
    kc_time_t old[] = { INT64_MIN, -1, 0, kc_now() };
    int item = 0;

    for (int i = 0; i < 4; i++) {
        CHECK_EQ(kc_chan_recv_until(c, &item, old[i]), -ETIMEDOUT);
        CHECK_EQ(kc_chan_send_until(c, &i, old[i]), 0);
        CHECK_EQ(kc_chan_send_until(c, &i, old[i]), -ETIMEDOUT);
        CHECK_EQ(kc_chan_recv_until(c, &item, old[i]), 0);
        CHECK_EQ(item, i);
    }
    kc_chan_release(c);
    return 0;
}

IN_VIRTUAL_TIME(what_comes_before_the_deadline_counts)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    struct party r = { .c = c, .op = KC_RECV, .deadline = kc_now() + KC_SEC(2) };
    int item = 6;

    stands(&r, NULL);
    CHECK_EQ(kc_sleep(KC_SEC(1)), 0);
    CHECK_EQ(kc_chan_send(c, &item), 0);
    CHECK_EQ(outcome(&r), 0);
    CHECK_EQ(r.item, 6);
    CHECK_EQ(kc_sleep(KC_SEC(5)), 0); /* its alarm is gone */
    kc_chan_release(c);
    return 0;
}

static int recv_in_time(void *arg)
{
    int item;

    return kc_chan_recv(arg, &item);
}

IN_A_JOB(the_timeout_of_a_scope_ends_a_wait)
{
    kc_chan_t *c = chan(sizeof(int), 0);

    CHECK_EQ(kc_with_timeout(KC_US(50), recv_in_time, c), -ETIMEDOUT);
    CHECK(!c->receivers);
    kc_chan_release(c);
    return 0;
}

/* ---- unwinding ------------------------------------------------------------------------------ */

struct bridge {
    kc_chan_t *to, *back;
};

struct unwound {
    struct party p;
    count_t cleaned, passed;
};

static void counts_cleanup(void *arg)
{
    add(arg);
}

static int is_unwound(void *arg)
{
    struct unwound *u = arg;

    CHECK_EQ(kc_defer(counts_cleanup, &u->cleaned), 0);
    KC_CLEANUP(counts_cleanup, &u->cleaned);
    (void)does_one(&u->p);
    add(&u->passed);
    return 0;
}

IN_A_JOB(a_body_that_is_unwound_in_a_channel_leaves_its_queue)
{
    for (int op = KC_RECV; op <= KC_SEND; op++) {
        struct unwound u = { .p = { .c = chan(sizeof(int), 0), .op = op } };
        kc_launch_opts_t opts = { .flags = KC_JOB_UNWIND };
        kc_job_t *j = launch(is_unwound, &u, &opts);
        UNTIL(in_line(u.p.c, op) == 1);
        CHECK(kc_job_cancel(j, 0));
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        CHECK_EQ(get(&u.cleaned), 2);
        CHECK_EQ(get(&u.passed), 0);
        CHECK_EQ(get(&u.p.out), 0);
        CHECK(!u.p.c->senders && !u.p.c->receivers);
        kc_job_release(j);
        kc_chan_release(u.p.c);
    }
    return 0;
}

IN_A_JOB(a_body_to_be_unwound_that_has_its_item_continues_to_its_next_call)
{
    struct unwound u = { .p = { .c = chan(sizeof(int), 0), .op = KC_RECV } };
    kc_launch_opts_t opts = { .flags = KC_JOB_UNWIND, .affinity = KC_MAIN };
    kc_job_t *j = launch(is_unwound, &u, &opts);
    int item = 9;

    UNTIL(in_line(u.p.c, KC_RECV) == 1);
    CHECK_EQ(kc_chan_try_send(u.p.c, &item), 0);
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&u.passed), 1);
    CHECK_EQ(u.p.rc, 0);
    CHECK_EQ(u.p.item, 9);
    kc_job_release(j);
    kc_chan_release(u.p.c);
    return 0;
}

static void says_goodbye(void *arg)
{
    int item = 5;

    CHECK_EQ(kc_chan_send(arg, &item), 0);
}

static int says_goodbye_at_its_end(void *arg)
{
    struct bridge *b = arg;

    CHECK_EQ(kc_defer(says_goodbye, b->back), 0);
    return kc_chan_recv(b->to, NULL);
}

IN_A_JOB(a_cleanup_of_a_cancelled_job_may_wait_in_a_channel)
{
    for (uint32_t flags = 0; flags <= KC_JOB_UNWIND; flags += KC_JOB_UNWIND) {
        struct bridge b = { chan(sizeof(int), 0), chan(sizeof(int), 0) };
        kc_job_t *j = launch(says_goodbye_at_its_end, &b, &(kc_launch_opts_t){ .flags = flags });
        int item = 0;
        UNTIL(in_line(b.to, KC_RECV) == 1);
        CHECK(kc_job_cancel(j, 0));
        CHECK_EQ(kc_chan_recv(b.back, &item), 0);
        CHECK_EQ(item, 5);
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        kc_job_release(j);
        kc_chan_release(b.to);
        kc_chan_release(b.back);
    }
    return 0;
}

static int times_out_inside(void *arg)
{
    struct unwound *u = arg;

    CHECK_EQ(kc_with_timeout(KC_US(50), recv_in_time, u->p.c), -ETIMEDOUT);
    add(&u->passed);
    return 0;
}

IN_A_JOB(the_timeout_of_a_scope_does_not_unwind_the_body_around_it)
{
    struct unwound u = { .p = { .c = chan(sizeof(int), 0) } };
    kc_job_t *j = launch(times_out_inside, &u, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });

    CHECK_EQ(kc_job_join(j), 0);
    CHECK_EQ(get(&u.passed), 1);
    CHECK(!u.p.c->receivers);
    kc_job_release(j);
    kc_chan_release(u.p.c);
    return 0;
}

/* ---- plain threads -------------------------------------------------------------------------- */

enum { MANY = 300 };

static void *thread_sends_many(void *arg)
{
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(kc_chan_send(arg, &i), 0);
    kc_chan_close(arg);
    return NULL;
}

TEST(plain_threads_meet_in_a_channel)
{
    for (int k = 0; k < KIT_CHANS; k++) {
        kc_chan_t *c = chan(sizeof(int), kit_capacity[k]);
        pthread_t thread;
        int item = -1;
        CHECK_EQ(pthread_create(&thread, NULL, thread_sends_many, c), 0);
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(kc_chan_recv(c, &item), 0);
            CHECK_EQ(item, i);
        }
        CHECK_EQ(kc_chan_recv(c, &item), -EPIPE);
        pthread_join(thread, NULL);
        kc_chan_release(c);
    }
}

TEST(a_plain_thread_waits_until_its_deadline)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    int item = 5;
    kc_time_t at = kc_now() + KC_MS(2);

    CHECK_EQ(kc_chan_recv_until(c, &item, at), -ETIMEDOUT);
    CHECK_GE(kc_now(), at);
    at = kc_now() + KC_MS(2);
    CHECK_EQ(kc_chan_send_until(c, &item, at), -ETIMEDOUT);
    CHECK_GE(kc_now(), at);
    CHECK_EQ(kc_chan_send_until(c, &item, 0), -ETIMEDOUT);
    CHECK(!c->senders && !c->receivers);
    kc_chan_release(c);
}

TEST(the_smallest_deadline_is_over_for_a_plain_thread)
{
    kc_chan_t *c = chan(sizeof(int), 0);

    CHECK_EQ(kc_chan_recv_until(c, NULL, INT64_MIN), -ETIMEDOUT);
    kc_chan_release(c);
}

static void *thread_sends_one(void *arg)
{
    int item = 7;

    CHECK_EQ(kc_chan_send(arg, &item), 0);
    return NULL;
}

TEST(the_largest_deadline_is_not_over_for_a_plain_thread)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    pthread_t thread;
    int item = 0;

    CHECK_EQ(pthread_create(&thread, NULL, thread_sends_one, c), 0);
    CHECK_EQ(kc_chan_recv_until(c, &item, KC_FOREVER - 1), 0);
    CHECK_EQ(item, 7);
    pthread_join(thread, NULL);
    kc_chan_release(c);
}

/* A thread may wait for ever in vain, but for a close. */
TEST(a_close_wakes_plain_threads)
{
    for (int op = KC_RECV; op <= KC_SEND; op++) {
        struct party p = { .c = chan(sizeof(int), 0), .op = op };
        pthread_t thread = thread_runs(does_one, &p);
        UNTIL(in_line(p.c, op) == 1);
        kc_chan_close(p.c);
        pthread_join(thread, NULL);
        CHECK_EQ(p.rc, -EPIPE);
        kc_chan_release(p.c);
    }
}

static int sends_many(void *arg)
{
    return (int)(intptr_t)thread_sends_many(arg);
}

/* The creator pumps its scheduler meanwhile, where there are no workers. */
OUTSIDE(the_creator_of_a_scheduler_receives_from_its_jobs, s)
{
    for (int k = 0; k < KIT_CHANS; k++) {
        kc_chan_t *c = chan(sizeof(int), kit_capacity[k]);
        kc_launch_opts_t opts = { .sched = s };
        kc_job_t *j = launch(sends_many, c, &opts);
        int item = -1;
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(kc_chan_recv_until(c, &item, i % 2 ? KC_FOREVER : kc_now() + KC_SEC(100)), 0);
            CHECK_EQ(item, i);
        }
        CHECK_EQ(kc_chan_recv(c, &item), -EPIPE);
        CHECK_EQ(kc_job_join(j), 0);
        kc_job_release(j);
        kc_chan_release(c);
    }
}

OUTSIDE(the_creator_of_a_scheduler_waits_until_its_deadline, s)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    kc_time_t at = kc_now() + KC_US(200);
    int item = 0;

    (void)s;
    CHECK_EQ(kc_chan_recv_until(c, &item, at), -ETIMEDOUT);
    CHECK_GE(kc_now(), at);
    CHECK_EQ(kc_chan_send_until(c, &item, at), -ETIMEDOUT);
    CHECK_EQ(kc_chan_send_until(c, &item, INT64_MIN), -ETIMEDOUT);
    CHECK(!c->senders && !c->receivers);
    kc_chan_release(c);
}

static int echoes(void *arg)
{
    struct bridge *b = arg;
    int item, rc;

    while ((rc = kc_chan_recv(b->to, &item)) == 0)
        CHECK_EQ(kc_chan_send(b->back, &item), 0);
    CHECK_EQ(rc, -EPIPE);
    return 0;
}

static void *another_scheduler(void *arg)
{
    kc_sched_opts_t opts = { .workers = 1 };

    CHECK_EQ(kc_run(echoes, arg, &opts), 0);
    return NULL;
}

static int calls_the_other_side(void *arg)
{
    struct bridge *b = arg;
    int item = -1;

    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(kc_chan_send(b->to, &i), 0);
        CHECK_EQ(kc_chan_recv(b->back, &item), 0);
        CHECK_EQ(item, i);
    }
    kc_chan_close(b->to);
    return 0;
}

TEST(jobs_of_two_schedulers_meet_in_a_channel)
{
    for (int k = 0; k < KIT_CHANS; k++) {
        struct bridge b = { chan(sizeof(int), kit_capacity[k]), chan(sizeof(int), 0) };
        kc_sched_opts_t opts = { .workers = k % 2 ? 2 : KC_NO_WORKERS };
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, another_scheduler, &b), 0);
        CHECK_EQ(kc_run(calls_the_other_side, &b, &opts), 0);
        pthread_join(thread, NULL);
        kc_chan_release(b.to);
        kc_chan_release(b.back);
    }
}

/* ---- the end of a scheduler, and deadlock --------------------------------------------------- */

TEST(the_end_of_a_scheduler_ends_the_waits_of_its_jobs)
{
    for (int i = 0; i < KIT_SCHEDS; i++)
        for (int op = KC_RECV; op <= KC_SEND; op++) {
            kc_sched_opts_t opts = kit_opts(i);
            kc_sched_t *s = NULL;
            struct party p = { .c = chan(sizeof(int), 0), .op = op };
            CHECK_EQ(kc_sched_create(&opts, &s), 0);
            kc_launch_opts_t there = { .sched = s };
            p.job = launch(does_one, &p, &there);
            while (in_line(p.c, op) == 0)
                (void)kc_sched_poll(s, kc_now());
            CHECK_EQ(kc_sched_destroy(s), 0);
            CHECK_EQ(get(&p.out), 1);
            CHECK_EQ(p.rc, -ECANCELED);
            CHECK_EQ(kc_job_reason(p.job), -ESHUTDOWN);
            CHECK(!p.c->senders && !p.c->receivers);
            kc_job_release(p.job);
            kc_chan_release(p.c);
        }
}

static void *keeps_trying_to_send(void *arg)
{
    struct party *p = arg;
    int item = 1, n = 0;

    while (!get(&p->in)) {
        n += kc_chan_try_send(p->c, &item) == 0;
        sched_yield();
    }
    return CODE(n);
}

static int keeps_receiving(void *arg)
{
    struct party *p = arg;

    while ((p->rc = kc_chan_recv(p->c, NULL)) == 0)
        p->item++;
    return 0;
}

/* A plain thread brings items to jobs whose scheduler ends: what it has brought was received. */
TEST(a_thread_may_send_while_the_scheduler_of_the_receivers_ends)
{
    for (int i = 0; i < 8; i++) {
        struct party p = { .c = chan(sizeof(int), 0), .op = KC_RECV };
        kc_sched_opts_t opts = { .workers = 1 + i % 2 };
        kc_sched_t *s = NULL;
        pthread_t thread;
        void *sent;
        CHECK_EQ(pthread_create(&thread, NULL, keeps_trying_to_send, &p), 0);
        CHECK_EQ(kc_sched_create(&opts, &s), 0);
        kc_launch_opts_t there = { .sched = s };
        kc_job_t *j = launch(keeps_receiving, &p, &there);
        for (int k = 0; k < 2 * i; k++)
            sched_yield();
        CHECK_EQ(kc_sched_destroy(s), 0);
        set(&p.in, 1);
        CHECK_EQ(pthread_join(thread, &sent), 0);
        CHECK_EQ((intptr_t)sent, p.item);
        kc_job_release(j);
        kc_chan_release(p.c);
    }
}

static int receives_in_vain(void *arg)
{
    return kc_chan_recv(arg, NULL);
}

TEST(a_wait_for_nobody_in_virtual_time_is_a_deadlock)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS, .flags = KC_SCHED_VIRTUAL_TIME };
    kc_chan_t *c = chan(sizeof(int), 0);

    CHECK_EQ(kc_run(receives_in_vain, c, &opts), -EDEADLK);
    CHECK(!c->receivers);
    kc_chan_release(c);
}

/* ---- inside a job: scopes, generators, shields ---------------------------------------------- */

static int receives_inside(kc_gen_t *g, void *arg)
{
    static int items[3];

    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kc_chan_recv(arg, &items[i]), 0);
        kc_gen_yield(g, &items[i]);
    }
    return 0;
}

IN_A_JOB(a_generator_may_wait_in_a_channel)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    struct party s[3];
    kc_gen_t g;
    void *value = NULL;

    CHECK_EQ(kc_gen_start(&g, receives_inside, c, 0), 0);
    for (int i = 0; i < 3; i++) {
        s[i] = (struct party){ .c = c, .op = KC_SEND, .item = 10 + i };
        s[i].job = launch(does_one, &s[i], i == 1 ? &on_main : NULL);
        CHECK(kc_gen_next(&g, &value));
        CHECK_EQ(*(int *)value, 10 + i);
        CHECK_EQ(outcome(&s[i]), 0);
    }
    CHECK(!kc_gen_next(&g, &value));
    kc_gen_end(&g);
    kc_chan_release(c);
    return 0;
}

static int sends_inside(kc_gen_t *g, void *arg)
{
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kc_chan_send(arg, &i), 0);
        kc_gen_yield(g, NULL);
    }
    return 0;
}

/* Handed over to at once by one that is inside a generator, on the same thread. */
IN_A_JOB(a_generator_may_hand_over)
{
    kc_chan_t *c = chan(sizeof(int), 0);
    struct party r[3];
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, sends_inside, c, 0), 0);
    for (int i = 0; i < 3; i++) {
        r[i] = (struct party){ .c = c, .op = KC_RECV };
        stands(&r[i], &on_main);
        CHECK(kc_gen_next(&g, NULL));
        CHECK_EQ(outcome(&r[i]), 0);
        CHECK_EQ(r[i].item, i);
    }
    kc_gen_end(&g);
    kc_chan_release(c);
    return 0;
}

static int receives_under_a_shield(void *arg)
{
    struct party *p = arg;

    CHECK_EQ(kc_shield_begin(), 0);
    (void)does_one(p);
    kc_shield_end();
    return 0;
}

IN_A_JOB(under_a_shield_a_cancel_does_not_end_the_wait)
{
    struct party p = { .c = chan(sizeof(int), 0), .op = KC_RECV };
    int item = 4;

    p.job = launch(receives_under_a_shield, &p, NULL);
    UNTIL(in_line(p.c, KC_RECV) == 1);
    CHECK(kc_job_cancel(p.job, 0));
    CHECK_EQ(kc_chan_send(p.c, &item), 0);
    CHECK_EQ(outcome(&p), 0);
    CHECK_EQ(p.item, 4);
    kc_chan_release(p.c);
    return 0;
}
