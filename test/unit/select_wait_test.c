/* SPDX-License-Identifier: MIT */
/*
 * select_wait_test.c - selects that wait: cancel, unwinding, no memory, threads and schedulers, and
 * selects that meet selects (H3, H4; J9, J10, J17).
 */
#include "base/os.h"
#include "chan_kit.h"

enum { CASES = 12 }; /* more than need no memory */

struct chooser {
    kc_chan_t *c[CASES];
    kc_case_t cases[CASES];
    int item[CASES];
    size_t n;
    kc_time_t timeout;
    int rc;
    count_t in, go, out, cleaned;
    kc_job_t *job;
};

static int chooses(void *arg)
{
    struct chooser *s = arg;

    s->rc = kc_select(s->cases, s->n, s->timeout);
    add(&s->out);
    return 0;
}

/* Receives from n channels without a buffer. */
static void prepare(struct chooser *s, size_t n)
{
    *s = (struct chooser){ .n = n, .timeout = KC_FOREVER };
    for (size_t i = 0; i < n; i++) {
        s->c[i] = chan(sizeof(int), 0);
        s->cases[i] = (kc_case_t){ KC_RECV, s->c[i], &s->item[i], 99 };
    }
}

static void wait_until_it_stands(const struct chooser *s)
{
    for (size_t i = 0; i < s->n; i++)
        UNTIL(in_line(s->c[i], KC_RECV) == 1);
}

/* It stands nowhere any more. */
static void is_gone(struct chooser *s)
{
    for (size_t i = 0; i < s->n; i++) {
        CHECK(!s->c[i]->senders && !s->c[i]->receivers);
        kc_chan_release(s->c[i]);
    }
}

/* ---- cancel --------------------------------------------------------------------------------- */

IN_A_JOB(a_select_that_is_cancelled_has_done_nothing)
{
    for (size_t n = 1; n <= CASES; n += CASES - 1) {
        struct chooser s;
        prepare(&s, n);
        s.job = launch(chooses, &s, NULL);
        wait_until_it_stands(&s);
        UNTIL(waits_in(s.job, KC_WAIT_SELECT));
        CHECK(kc_job_cancel(s.job, 0));
        CHECK_EQ(kc_job_join(s.job), -ECANCELED);
        CHECK_EQ(s.rc, -ECANCELED);
        for (size_t i = 0; i < n; i++)
            CHECK_EQ(s.cases[i].rc, 99);
        kc_job_release(s.job);
        is_gone(&s);
    }
    return 0;
}

static int selects_when_cancelled(void *arg)
{
    struct chooser *s = arg;

    add(&s->in);
    UNTIL(get(&s->go));
    CHECK_EQ(kc_select(s->cases, 1, KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_select(s->cases, 1, 1), -ECANCELED);
    CHECK_EQ(kc_select_biased(s->cases, 1, KC_FOREVER), -ECANCELED);
    CHECK_EQ(s->cases[0].rc, 99);
    CHECK_EQ(kc_chan_len(s->c[0]), 1);
    CHECK_EQ(kc_select(s->cases, 1, 0), 0); /* a try does not look */
    CHECK_EQ(s->item[0], 5);
    CHECK_EQ(kc_select(s->cases, 1, 0), -EAGAIN);
    return 0;
}

IN_A_JOB(a_cancelled_job_does_not_select_but_by_a_try)
{
    struct chooser s = { .c = { chan(sizeof(int), 1) }, .n = 1 };
    int item = 5;

    s.cases[0] = (kc_case_t){ KC_RECV, s.c[0], &s.item[0], 99 };
    CHECK_EQ(kc_chan_send(s.c[0], &item), 0);
    s.job = launch(selects_when_cancelled, &s, NULL);
    UNTIL(get(&s.in));
    CHECK(kc_job_cancel(s.job, 0));
    set(&s.go, 1);
    CHECK_EQ(kc_job_join(s.job), -ECANCELED);
    kc_job_release(s.job);
    is_gone(&s);
    return 0;
}

static int goes_on_cancelled(void *arg)
{
    (void)chooses(arg);
    CHECK_EQ(kc_yield(), -ECANCELED);
    return 0;
}

IN_A_JOB(a_select_that_has_happened_is_reported_though_a_cancel_comes_before_the_job_runs)
{
    for (int close = 0; close < 2; close++) {
        struct chooser s;
        int item = 8;
        prepare(&s, 3);
        s.job = launch(goes_on_cancelled, &s, &on_main);
        wait_until_it_stands(&s);
        if (close)
            kc_chan_close(s.c[1]);
        else
            CHECK_EQ(kc_chan_try_send(s.c[1], &item), 0);
        CHECK(kc_job_cancel(s.job, 0));
        CHECK_EQ(kc_job_join(s.job), -ECANCELED);
        CHECK_EQ(s.rc, 1);
        CHECK_EQ(s.cases[1].rc, close ? -EPIPE : 0);
        CHECK_EQ(s.item[1], close ? 0 : 8);
        kc_job_release(s.job);
        is_gone(&s);
    }
    return 0;
}

static void counts_cleanup(void *arg)
{
    add(arg);
}

static int is_unwound(void *arg)
{
    struct chooser *s = arg;

    CHECK_EQ(kc_defer(counts_cleanup, &s->cleaned), 0);
    KC_CLEANUP(counts_cleanup, &s->cleaned);
    return chooses(s);
}

IN_A_JOB(a_body_that_is_unwound_in_a_select_leaves_all_queues)
{
    for (size_t n = 2; n <= CASES; n += CASES - 2) {
        struct chooser s;
        kc_launch_opts_t opts = { .flags = KC_JOB_UNWIND };
        prepare(&s, n);
        s.job = launch(is_unwound, &s, &opts);
        wait_until_it_stands(&s);
        CHECK(kc_job_cancel(s.job, 0));
        CHECK_EQ(kc_job_join(s.job), -ECANCELED);
        CHECK_EQ(get(&s.cleaned), 2);
        CHECK_EQ(get(&s.out), 0);
        kc_job_release(s.job);
        is_gone(&s); /* LeakSanitizer looks for the memory of many cases */
    }
    return 0;
}

struct racer {
    struct chooser *s;
    int which;
    count_t go;
    int rc;
};

static void *tries_to_send(void *arg)
{
    struct racer *r = arg;
    int item = 100 + r->which;

    UNTIL(get(&r->go));
    r->rc = kc_chan_try_send(r->s->c[r->which], &item);
    return NULL;
}

/* Two senders and a cancel at once: one of the three. */
IN_A_JOB(exactly_one_of_the_cases_that_become_ready_at_once_ends_a_select)
{
    for (int i = 0; i < 30; i++) {
        struct chooser s;
        struct racer r[2];
        pthread_t thread[2];
        prepare(&s, 2);
        s.job = launch(chooses, &s, NULL);
        wait_until_it_stands(&s);
        for (int k = 0; k < 2; k++) {
            r[k] = (struct racer){ .s = &s, .which = k };
            CHECK_EQ(pthread_create(&thread[k], NULL, tries_to_send, &r[k]), 0);
        }
        for (int k = 0; k < 2; k++)
            set(&r[k].go, 1);
        for (int k = i % 4; k > 0; k--)
            sched_yield();
        kc_job_cancel(s.job, 0);
        UNTIL(get(&s.out));
        for (int k = 0; k < 2; k++)
            pthread_join(thread[k], NULL);
        CHECK(s.rc == 0 || s.rc == 1 || s.rc == -ECANCELED);
        for (int k = 0; k < 2; k++) {
            CHECK_EQ(r[k].rc, s.rc == k ? 0 : -EAGAIN);
            CHECK_EQ(s.item[k], s.rc == k ? 100 + k : 0);
        }
        (void)!kc_job_join(s.job);
        kc_job_release(s.job);
        is_gone(&s);
    }
    return 0;
}

/* ---- no memory ------------------------------------------------------------------------------ */

static bool fail_all(const char *what)
{
    return strcmp(what, "alloc") == 0;
}

TEST(a_select_of_many_without_memory_is_enomem_and_stands_nowhere)
{
    enum { VERY_MANY = 100 };
    kc_case_t many[VERY_MANY];
    struct chooser s;

    prepare(&s, CASES);
    for (int i = 0; i < VERY_MANY; i++)
        many[i] = s.cases[i % CASES];
    kc__os_fault = fail_all;
    CHECK_EQ(kc_select(many, VERY_MANY, 0), -ENOMEM);
    CHECK_EQ(kc_select(many, VERY_MANY, KC_FOREVER), -ENOMEM);
    CHECK_EQ(kc_select_biased(many, VERY_MANY, KC_FOREVER), -ENOMEM);
    CHECK_EQ(kc_select(s.cases, CASES, KC_FOREVER), -ENOMEM);
    CHECK_EQ(kc_select(s.cases, CASES, 0), -EAGAIN);        /* needs none */
    CHECK_EQ(kc_select(s.cases, 8, KC_US(10)), -ETIMEDOUT); /* needs none */
    kc__os_fault = NULL;
    CHECK_EQ(kc_select(s.cases, CASES, KC_US(10)), -ETIMEDOUT);
    CHECK_EQ(kc_select(many, VERY_MANY, KC_US(10)), -ETIMEDOUT);
    CHECK_EQ(kc_select(many, VERY_MANY, 0), -EAGAIN);
    is_gone(&s);
}

/* ---- threads and schedulers ----------------------------------------------------------------- */

TEST(a_plain_thread_selects)
{
    for (int k = 0; k < CASES; k += 3) {
        struct chooser s;
        pthread_t thread;
        int item = k;
        prepare(&s, CASES);
        thread = thread_runs(chooses, &s);
        wait_until_it_stands(&s);
        CHECK_EQ(kc_chan_send(s.c[k], &item), 0);
        pthread_join(thread, NULL);
        CHECK_EQ(s.rc, k);
        CHECK_EQ(s.item[k], k);
        is_gone(&s);
    }
}

TEST(a_plain_thread_selects_for_a_time)
{
    struct chooser s;
    kc_time_t begin = kc_now();

    prepare(&s, 3);
    CHECK_EQ(kc_select(s.cases, 3, KC_MS(2)), -ETIMEDOUT);
    CHECK_GE(kc_now() - begin, KC_MS(2));
    is_gone(&s);
}

static int sends_to_all(void *arg)
{
    struct chooser *s = arg;

    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < s->n; i++) {
            int item = round;
            CHECK_EQ(kc_chan_send(s->c[i], &item), 0);
        }
    return 0;
}

OUTSIDE(the_creator_of_a_scheduler_selects_from_its_jobs, sched)
{
    kc_launch_opts_t opts = { .sched = sched };
    int next[3] = { 0 };
    struct chooser s;

    prepare(&s, 3);
    kc_job_t *j = launch(sends_to_all, &s, &opts);
    for (int i = 0; i < 60; i++) {
        int which = kc_select(s.cases, 3, i % 2 ? KC_FOREVER : KC_SEC(100));
        CHECK(which >= 0 && which < 3);
        CHECK_EQ(s.item[which], next[which]++);
    }
    CHECK_EQ(kc_job_join(j), 0);
    CHECK_EQ(kc_select(s.cases, 3, KC_US(50)), -ETIMEDOUT);
    kc_job_release(j);
    is_gone(&s);
}

/* ---- selects that meet selects -------------------------------------------------------------- */

enum { ROUNDS = 200 };

/* Sends on one or receives from the other; each says what it has done. */
struct cross {
    kc_chan_t *a, *b;
    int first; /* 0: sends on a, receives from b; 1: the other way */
    bool biased;
    int done[ROUNDS], got[ROUNDS];
    count_t *out;
};

static int crosses(void *arg)
{
    struct cross *x = arg;

    for (int i = 0; i < ROUNDS; i++) {
        int item = 1000 * x->first + i, got = -1;
        kc_case_t cases[] = {
            { x->first ? KC_RECV : KC_SEND, x->a, x->first ? &got : &item, 99 },
            { x->first ? KC_SEND : KC_RECV, x->b, x->first ? &item : &got, 99 },
        };
        x->done[i] =
            x->biased ? kc_select_biased(cases, 2, KC_FOREVER) : kc_select(cases, 2, KC_FOREVER);
        CHECK(x->done[i] == 0 || x->done[i] == 1);
        CHECK_EQ(cases[x->done[i]].rc, 0);
        x->got[i] = got;
    }
    add(x->out);
    return 0;
}

/* Round by round, what one has sent the other has received. */
static void check_cross(const struct cross *one, const struct cross *other)
{
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(one->done[i], other->done[i]);
        CHECK_EQ(one->got[i], one->done[i] == 0 ? -1 : 1000 + i);
        CHECK_EQ(other->got[i], other->done[i] == 0 ? i : -1);
    }
}

static void prepare_cross(struct cross *x, count_t *out, bool biased)
{
    kc_chan_t *a = chan(sizeof(int), 0), *b = chan(sizeof(int), 0);

    for (int i = 0; i < 2; i++)
        x[i] = (struct cross){ .a = a, .b = b, .first = i, .biased = biased, .out = out };
}

static void end_cross(struct cross *x)
{
    check_cross(&x[0], &x[1]);
    CHECK(!x->a->senders && !x->a->receivers && !x->b->senders && !x->b->receivers);
    kc_chan_release(x->a);
    kc_chan_release(x->b);
}

IN_A_JOB(two_selects_meet_crosswise)
{
    static struct cross x[2];

    for (int biased = 0; biased < 2; biased++) {
        count_t out = 0;
        prepare_cross(x, &out, biased);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(kc_launch(crosses, &x[i]), 0);
        UNTIL(get(&out) == 2);
        end_cross(x);
    }
    return 0;
}

TEST(two_selects_of_plain_threads_meet_crosswise)
{
    static struct cross x[2];
    count_t out = 0;
    pthread_t thread;

    prepare_cross(x, &out, false);
    thread = thread_runs(crosses, &x[0]);
    (void)crosses(&x[1]);
    pthread_join(thread, NULL);
    end_cross(x);
}

static void *another_scheduler(void *arg)
{
    kc_sched_opts_t opts = { .workers = 1 };

    CHECK_EQ(kc_run(crosses, arg, &opts), 0);
    return NULL;
}

TEST(two_selects_of_two_schedulers_meet_crosswise)
{
    static struct cross x[2];
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };
    count_t out = 0;
    pthread_t thread;

    prepare_cross(x, &out, false);
    CHECK_EQ(pthread_create(&thread, NULL, another_scheduler, &x[0]), 0);
    CHECK_EQ(kc_run(crosses, &x[1], &opts), 0);
    pthread_join(thread, NULL);
    end_cross(x);
}

/* Many that send or receive on one channel, whichever can be done. */
struct crowd {
    kc_chan_t *c;
    count_t sent, received, sum, done, out;
};

static int is_in_the_crowd(void *arg)
{
    struct crowd *k = arg;

    for (int i = 1; i <= 50; i++) {
        int got = 0;
        kc_case_t cases[] = { { KC_SEND, k->c, &i, 99 }, { KC_RECV, k->c, &got, 99 } };
        int rc = kc_select(cases, 2, KC_FOREVER);
        if (cases[rc].rc == -EPIPE)
            break; /* the last one had nobody to meet */
        CHECK_EQ(cases[rc].rc, 0);
        kc_add_relaxed(&k->sum, rc == 0 ? i : -got);
        add(rc == 0 ? &k->sent : &k->received);
    }
    if (add(&k->done) == 3)
        kc_chan_close(k->c);
    add(&k->out);
    return 0;
}

IN_A_JOB(of_many_selects_each_that_sends_meets_one_that_receives)
{
    struct crowd k = { .c = chan(sizeof(int), 0) };

    for (int i = 0; i < 5; i++)
        CHECK_EQ(kc_launch(is_in_the_crowd, &k), 0);
    UNTIL(get(&k.out) == 5);
    CHECK_EQ(get(&k.sent), get(&k.received));
    CHECK_EQ(get(&k.sum), 0);
    CHECK_GE(get(&k.sent), 50);
    CHECK(!k.c->senders && !k.c->receivers);
    kc_chan_release(k.c);
    return 0;
}

/* ---- inside a job --------------------------------------------------------------------------- */

static int selects_inside(kc_gen_t *g, void *arg)
{
    struct chooser *s = arg;

    for (int i = 0; i < 3; i++) {
        s->rc = kc_select(s->cases, s->n, KC_FOREVER);
        kc_gen_yield(g, &s->rc);
    }
    return 0;
}

IN_A_JOB(a_generator_may_wait_in_a_select)
{
    struct chooser s;
    kc_gen_t g;
    void *value = NULL;

    prepare(&s, 3);
    CHECK_EQ(kc_gen_start(&g, selects_inside, &s, 0), 0);
    for (int i = 0; i < 3; i++) {
        struct party p = { .c = s.c[i], .op = KC_SEND, .item = i };
        p.job = launch(does_one, &p, i % 2 ? &on_main : NULL);
        CHECK(kc_gen_next(&g, &value));
        CHECK_EQ(*(int *)value, i);
        CHECK_EQ(outcome(&p), 0);
    }
    kc_gen_end(&g);
    is_gone(&s);
    return 0;
}

static int sets(void *arg)
{
    set(arg, 1);
    return 0;
}

static int selects_without_waiting(void *arg UNUSED)
{
    kc_chan_t *c = chan(0, KC_CHAN_LATEST);
    kc_case_t one = { .op = KC_SEND, .chan = c };
    count_t ran = 0;

    CHECK_EQ(kc_launch_job(sets, &ran, &on_main, NULL), 0);
    while (!get(&ran))
        CHECK_EQ(kc_select(&one, 1, KC_FOREVER), 0);
    kc_chan_release(c);
    return 0;
}

TEST(a_select_that_never_has_to_wait_lets_others_run_now_and_then)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };

    CHECK_EQ(kc_run(selects_without_waiting, NULL, &opts), 0);
}
