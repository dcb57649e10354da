/* SPDX-License-Identifier: MIT */
/*
 * spread_test.c - even load (S17): which worker starts a task that any may start, and where those
 * go who may migrate.
 *
 * The tasks are connections: they count themselves on the worker that starts them, and wait until
 * all have started.
 */
#include "job_kit.h"

enum { MOST_WORKERS = 8, PLACES = MOST_WORKERS + 1 };

struct spread {
    kc_sched_t *sched;
    int workers;
    bool main_works;
    int n;
    bool one_by_one;
    bool in_scope;      /* they wait inside a scope of their own */
    count_t started;    /* of n */
    count_t at[PLACES]; /* of them, by worker + 1 */
    kc_event_t open;
};

static int connection(void *arg)
{
    struct spread *t = arg;
    kc_scope_t scope;

    add(&t->at[kc_worker_index() + 1]);
    add(&t->started);
    if (!t->in_scope)
        return kc_event_wait(&t->open);
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    CHECK_EQ(kc_event_wait(&t->open), 0);
    return kc_scope_end(&scope);
}

/* All have started: nobody has more than 1.3 times the mean. */
static void check_even(struct spread *t)
{
    int places = t->workers + t->main_works, limit = t->n * 13 / (10 * places);

    UNTIL(get(&t->started) == t->n);
    for (int i = 0; i < PLACES; i++)
        if (get(&t->at[i]) > limit)
            FAIL("%d of %d on thread %d of %d, %d are allowed", get(&t->at[i]), t->n, i - 1,
                 places, limit);
    kc_event_set(&t->open);
}

static void begin(struct spread *t, int workers, int each, bool one_by_one, bool main_works)
{
    *t = (struct spread){ .workers = workers,
                          .main_works = main_works,
                          .n = each * (workers + main_works),
                          .one_by_one = one_by_one };
    uint32_t flags = main_works ? KC_SCHED_MAIN_WORKS : 0;
    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = workers, .flags = flags }, &t->sched),
             0);
}

static void end(struct spread *t)
{
    CHECK_EQ(kc_sched_run(t->sched), 0);
    CHECK_EQ(kc_sched_destroy(t->sched), 0);
}

static void submit_all(struct spread *t)
{
    for (int i = 0; i < t->n; i++) {
        CHECK_EQ(kc_sched_submit(t->sched, KC_WORKER, connection, t), 0);
        if (t->one_by_one)
            UNTIL(get(&t->started) > i);
    }
}

/* ---- by whom they are handed over ----------------------------------------------------------- */

static int accepts(void *arg)
{
    submit_all(arg);
    check_even(arg);
    return 0;
}

static void *accepts_as_thread(void *arg)
{
    accepts(arg);
    return NULL;
}

static void by_creator(struct spread *t)
{
    accepts(t);
}

static void by_thread(struct spread *t)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, accepts_as_thread, t), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void by_main(struct spread *t)
{
    CHECK_EQ(kc_sched_submit(t->sched, KC_MAIN, accepts, t), 0);
}

static void by_worker(struct spread *t)
{
    CHECK_EQ(kc_sched_submit(t->sched, KC_WORKER, accepts, t), 0);
}

static int launches(void *arg)
{
    struct spread *t = arg;

    for (int i = 0; i < t->n; i++) {
        CHECK_EQ(kc_launch(connection, t), 0);
        if (t->one_by_one)
            UNTIL(get(&t->started) > i);
    }
    check_even(t);
    return 0;
}

static void as_children(struct spread *t)
{
    CHECK_EQ(kc_sched_submit(t->sched, KC_WORKER, launches, t), 0);
}

static void as_children_of_main(struct spread *t)
{
    CHECK_EQ(kc_sched_submit(t->sched, KC_MAIN, launches, t), 0);
}

struct size {
    int workers, each;
};

static void spread_over(const struct size *size, void (*how)(struct spread *), bool one_by_one)
{
    struct spread t;

    begin(&t, size->workers, size->each, one_by_one, false);
    t.in_scope = size->each > 8;
    how(&t);
    end(&t);
}

static void spread(void (*how)(struct spread *), bool one_by_one)
{
    static const struct size sizes[] = { { 2, 8 }, { 2, 16 }, { 3, 8 } };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        spread_over(&sizes[i], how, one_by_one);
}

TEST(connections_handed_over_one_by_one_are_spread_evenly)
{
    spread(by_creator, true);
    spread(by_thread, true);
    spread(by_main, true);
}

TEST(connections_handed_over_at_once_are_spread_evenly)
{
    spread(by_creator, false);
    spread(by_thread, false);
    spread(by_main, false);
}

TEST(connections_that_a_worker_submits_are_spread_evenly)
{
    spread(by_worker, true);
    spread(by_worker, false);
}

TEST(children_of_one_job_that_wait_first_are_spread_evenly)
{
    spread(as_children, true);
    spread(as_children, false);
    spread(as_children_of_main, true);
    spread(as_children_of_main, false);
}

TEST(more_workers_than_processors_are_loaded_evenly)
{
    static const struct size sizes[] = { { 4, 12 }, { 8, 8 } };

    for (int i = 0; i < 2; i++) {
        spread_over(&sizes[i], by_creator, false);
        spread_over(&sizes[i], by_creator, true);
        spread_over(&sizes[i], as_children, false);
    }
}

/* When main is there. */
static int accepts_on_any(void *arg)
{
    by_worker(arg);
    return 0;
}

static int launches_on_any(void *arg)
{
    as_children(arg);
    return 0;
}

TEST(main_has_its_share_where_it_works)
{
    static const kc_fn_t ways[] = { accepts, launches, accepts_on_any, launches_on_any };

    for (int i = 0; i < 8; i++) {
        struct spread t;
        begin(&t, 1 + i / 4, 8, i % 2, true);
        CHECK_EQ(kc_sched_submit(t.sched, KC_MAIN, ways[i % 4], &t), 0);
        end(&t);
    }
}

/* ---- who is not sent away ------------------------------------------------------------------- */

enum { WAITERS = 8, CHILDREN = 32 };

struct family {
    struct spread t; /* those who wait */
    count_t held, go_on;
    count_t began, ended;
    count_t at[PLACES];
};

static int hogs(void *arg)
{
    struct family *f = arg;

    set(&f->held, 1);
    while (!get(&f->go_on))
        sched_yield();
    return 0;
}

/* Worker 0 has some that wait; worker 1 has none, and if it is held, no time. */
static void begin_family(struct family *f, bool held)
{
    *f = (struct family){ 0 };
    begin(&f->t, 2, 0, false, false);
    for (int i = 0; i < WAITERS; i++)
        CHECK_EQ(kc_sched_submit(f->t.sched, KC_WORKER_AT(0), connection, &f->t), 0);
    UNTIL(get(&f->t.started) == WAITERS);
    if (!held)
        return;
    CHECK_EQ(kc_sched_submit(f->t.sched, KC_WORKER_AT(1), hogs, f), 0);
    UNTIL(get(&f->held));
}

static void end_family(struct family *f)
{
    set(&f->go_on, 1);
    kc_event_set(&f->t.open);
    end(&f->t);
}

static int computes(void *arg)
{
    struct family *f = arg;

    add(&f->at[kc_worker_index() + 1]);
    add(&f->ended);
    return 0;
}

static int has_children(void *arg)
{
    struct family *f = arg;

    for (int i = 0; i < CHILDREN; i++)
        CHECK_EQ(kc_launch(computes, f), 0);
    return 0;
}

TEST(children_that_compute_stay_though_the_other_worker_which_is_busy_is_emptier)
{
    struct family f;

    begin_family(&f, true);
    CHECK_EQ(kc_sched_submit(f.t.sched, KC_WORKER_AT(0), has_children, &f), 0);
    UNTIL(get(&f.ended) == CHILDREN);
    CHECK_EQ(get(&f.at[1]), CHILDREN);
    end_family(&f);
}

/* Holds its thread until there is one on each of the two. */
static int computes_for_long(void *arg)
{
    struct family *f = arg;

    set(&f->at[kc_worker_index() + 1], 1);
    while (!get(&f->at[1]) || !get(&f->at[2]))
        sched_yield();
    return 0;
}

static int has_long_children(void *arg)
{
    for (int i = 0; i < 4; i++)
        CHECK_EQ(kc_launch(computes_for_long, arg), 0);
    return 0;
}

TEST(a_worker_with_time_helps_though_it_is_fuller)
{
    struct family f;

    begin_family(&f, false);
    CHECK_EQ(kc_sched_submit(f.t.sched, KC_WORKER_AT(1), has_long_children, &f), 0);
    end_family(&f);
}

TEST(connections_do_not_wait_for_ever_for_a_worker_that_waits_for_them)
{
    struct family f;

    begin_family(&f, true);
    for (int i = 0; i < WAITERS; i++)
        CHECK_EQ(kc_sched_submit(f.t.sched, KC_WORKER, connection, &f.t), 0);
    UNTIL(get(&f.t.started) == 2 * WAITERS);
    end_family(&f);
}

/* ---- who migrates --------------------------------------------------------------------------- */

static int migrant(void *arg)
{
    struct family *f = arg;

    CHECK_EQ(kc_hop(KC_WORKER_AT(0)), 0);
    CHECK_EQ(kc_hop(KC_WORKER), 0); /* it stays, and may migrate */
    add(&f->began);
    CHECK_EQ(kc_event_wait(&f->t.open), 0);
    return computes_for_long(f);
}

static int sleeping_migrant(void *arg)
{
    struct family *f = arg;

    CHECK_EQ(kc_hop(KC_WORKER_AT(0)), 0);
    CHECK_EQ(kc_hop(KC_WORKER), 0);
    add(&f->began);
    CHECK_EQ(kc_event_wait(&f->t.open), 0);
    CHECK_EQ(kc_hop(KC_WORKER_AT(0)), 0);
    CHECK_EQ(kc_hop(KC_WORKER), 0);
    while (!get(&f->at[1]) || !get(&f->at[2])) {
        CHECK_EQ(kc_sleep(KC_MS(1)), 0);
        set(&f->at[kc_worker_index() + 1], 1);
    }
    return 0;
}

static bool sleeps(kc_sched_t *s, int worker)
{
    return kc_load_relaxed(&s->idle.word) & kc__idle_bit(worker);
}

static void all_migrate(kc_fn_t fn)
{
    struct family f = { 0 };

    begin(&f.t, 2, 0, false, false);
    kc_launch_opts_t opts = { .sched = f.t.sched, .flags = KC_JOB_MIGRATE };
    for (int i = 0; i < WAITERS; i++)
        CHECK_EQ(kc_launch_job(fn, &f, &opts, NULL), 0);
    UNTIL(get(&f.began) == WAITERS);
    CHECK_EQ(kc_sched_submit(f.t.sched, KC_WORKER_AT(0), hogs, &f), 0);
    UNTIL(get(&f.held) && sleeps(f.t.sched, 1));
    kc_event_set(&f.t.open); /* so it finds all of them at once when it is no longer held */
    set(&f.go_on, 1);
    end(&f.t);
}

TEST(jobs_that_may_migrate_are_evened_out_before_the_first_of_them_computes)
{
    all_migrate(migrant);
}

TEST(jobs_that_may_migrate_and_sleep_are_evened_out_when_they_wake)
{
    all_migrate(sleeping_migrant);
}

/* Two that compute until both do, behind one whose turn is long. */
struct queue {
    kc_sched_t *sched;
    count_t there, awake, first_runs, begun;
    kc_event_t open;
};

static void come_here(struct queue *q)
{
    CHECK_EQ(kc_hop(KC_WORKER_AT(0)), 0);
    CHECK_EQ(kc_hop(KC_WORKER), 0);
    add(&q->there);
    CHECK_EQ(kc_event_wait(&q->open), 0);
}

static int has_a_long_turn(void *arg)
{
    struct queue *q = arg;

    come_here(q);
    set(&q->first_runs, 1);
    while (!kc__worker_has_mode(q->sched->worker[0], KC_MODE_ASKED))
        ; /* until the other one, which has nothing to do, has gone to sleep */
    return kc_yield();
}

static int computes_until_both_do(void *arg)
{
    struct queue *q = arg;

    come_here(q);
    add(&q->begun);
    while (get(&q->begun) < 2)
        ;
    return 0;
}

static int keeps_it_awake(void *arg)
{
    struct queue *q = arg;

    set(&q->awake, 1);
    while (!get(&q->first_runs))
        ;
    return 0;
}

static int opens(void *arg)
{
    kc_event_set(&((struct queue *)arg)->open);
    return 0;
}

TEST(a_worker_that_goes_to_sleep_gets_jobs_that_may_migrate_when_a_long_turn_ends)
{
    kc_launch_opts_t o = { .flags = KC_JOB_MIGRATE };
    struct queue q = { 0 };

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = 2 }, &q.sched), 0);
    o.sched = q.sched;
    CHECK_EQ(kc_launch_job(has_a_long_turn, &q, &o, NULL), 0);
    UNTIL(get(&q.there) == 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(kc_launch_job(computes_until_both_do, &q, &o, NULL), 0);
    UNTIL(get(&q.there) == 3);
    CHECK_EQ(kc_sched_submit(q.sched, KC_WORKER_AT(1), keeps_it_awake, &q), 0);
    UNTIL(get(&q.awake)); /* so nobody migrates before the first has begun its turn */
    CHECK_EQ(kc_sched_submit(q.sched, KC_WORKER_AT(0), opens, &q), 0);
    UNTIL(get(&q.begun) == 2);
    CHECK_EQ(kc_sched_destroy(q.sched), 0);
}
