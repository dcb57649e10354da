/* SPDX-License-Identifier: MIT */
/*
 * migrate_test.c - KC_JOB_MIGRATE (J19): who may be moved to another worker, when, and who never.
 */
#include "job_kit.h"

enum { WORKERS = 2 };

static kc_sched_t *two_workers(void)
{
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = WORKERS }, &s), 0);
    return s;
}

static kc_job_t *launch_on(kc_sched_t *s, kc_fn_t fn, void *arg, kc_affinity_t where,
                           uint32_t flags)
{
    kc_launch_opts_t opts = { .sched = s, .affinity = where, .flags = flags };
    kc_job_t *j = NULL;

    CHECK_EQ(kc_launch_job(fn, arg, &opts, &j), 0);
    return j;
}

static void has_ended(kc_job_t *j)
{
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
}

/* ---- those who talk to each other ----------------------------------------------------------- */

struct talk {
    kc_chan_t *there, *back;
    count_t started; /* holds their threads until both have one */
    count_t at[2];   /* where they are, worker + 1 */
    count_t over;
    bool timed; /* waits with a deadline that never comes */
};

static int receive(struct talk *t, kc_chan_t *c, int *item)
{
    return t->timed ? kc_chan_recv_until(c, item, kc_now() + KC_SEC(1000)) : kc_chan_recv(c, item);
}

static void meet_on_two_threads(struct talk *t)
{
    add(&t->started);
    while (get(&t->started) < 2)
        sched_yield();
}

static int asks(void *arg)
{
    struct talk *t = arg;
    int item = 0, rounds = 0;

    meet_on_two_threads(t);
    while (!get(&t->over)) {
        set(&t->at[0], kc_worker_index() + 1);
        CHECK_EQ(kc_chan_send(t->there, &item), 0);
        CHECK_EQ(receive(t, t->back, &item), 0);
        CHECK_EQ(item, ++rounds);
    }
    kc_chan_close(t->there);
    return 0;
}

static int answers(void *arg)
{
    struct talk *t = arg;
    int item, rc;

    meet_on_two_threads(t);
    while ((rc = receive(t, t->there, &item)) == 0) {
        set(&t->at[1], kc_worker_index() + 1);
        item++;
        rc = kc_chan_send(t->back, &item);
        CHECK_EQ(rc, 0);
    }
    CHECK_EQ(rc, -EPIPE);
    return 0;
}

static void begin_talk(struct talk *t, bool timed)
{
    *t = (struct talk){ .timed = timed };
    CHECK_EQ(kc_chan_create(sizeof(int), 0, &t->there), 0);
    CHECK_EQ(kc_chan_create(sizeof(int), 0, &t->back), 0);
}

static void end_talk(struct talk *t)
{
    kc_chan_release(t->there);
    kc_chan_release(t->back);
}

static void two_meet(bool timed)
{
    kc_sched_t *s = two_workers();
    struct talk t;

    begin_talk(&t, timed);
    kc_job_t *a = launch_on(s, asks, &t, KC_WORKER, KC_JOB_MIGRATE);
    kc_job_t *b = launch_on(s, answers, &t, KC_WORKER, KC_JOB_MIGRATE);
    UNTIL(get(&t.at[0]) > 0 && get(&t.at[0]) == get(&t.at[1]));
    set(&t.over, 1);
    has_ended(a);
    has_ended(b);
    end_talk(&t);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

struct starter {
    kc_affinity_t affinity;
    kc_sem_t wake;
    KC_ATOMIC(kc_job_t *) child;
    count_t moved;
    int before, after; /* where the child ran */
};

static int waits_for_another_worker(void *arg)
{
    struct starter *s = arg;

    s->before = kc_worker_index();
    CHECK_EQ(kc_sem_acquire(&s->wake), 0);
    s->after = kc_worker_index();
    return 0;
}

static int starts_it_now(void *arg)
{
    struct starter *s = arg;
    kc_launch_opts_t opts = { .flags = KC_JOB_NOW | KC_JOB_MIGRATE, .affinity = s->affinity };

    kc_job_t *child = NULL;

    CHECK_EQ(kc_launch_job(waits_for_another_worker, s, &opts, &child), 0);
    kc_store_release(&s->child, child);
    CHECK_EQ(kc_job_join(child), 0);
    kc_job_release(child);
    return 0;
}

static int wakes_it(void *arg)
{
    struct starter *s = arg;

    UNTIL(kc_load_acquire(&s->child) && kc_load_relaxed(&s->child->task.kind) == KC_WAIT_SEM);
    kc_sem_release(&s->wake, 1);
    return 0;
}

/* On which worker it goes on that was started NOW on worker 0 and is woken by worker 1. */
static int after_a_start_now(kc_affinity_t affinity)
{
    kc_sched_t *s = two_workers();
    struct starter st = { .affinity = affinity, .wake = KC_SEM_INIT(0) };

    kc_job_t *a = launch_on(s, starts_it_now, &st, KC_WORKER_AT(0), 0);
    kc_job_t *b = launch_on(s, wakes_it, &st, KC_WORKER_AT(1), 0);
    has_ended(a);
    has_ended(b);
    CHECK_EQ(kc_sched_destroy(s), 0);
    CHECK_EQ(st.before, 0);
    return st.after;
}

TEST(a_job_that_migrates_and_starts_now_starts_on_the_callers_thread_only)
{
    CHECK_EQ(after_a_start_now(KC_WORKER), 1);
    CHECK_EQ(after_a_start_now(KC_HERE), 0);
}

static int hops_and_waits_until_it_is_moved(void *arg)
{
    struct starter *s = arg;

    CHECK_EQ(kc_hop(KC_WORKER), 0);
    CHECK_EQ(kc_worker_index(), 0);
    while (kc_worker_index() == 0)
        CHECK_EQ(kc_sem_acquire(&s->wake), 0);
    set(&s->moved, 1);
    return 0;
}

static int wakes_until_it_is_moved(void *arg)
{
    struct starter *s = arg;

    while (!get(&s->moved)) {
        kc_sem_release(&s->wake, 1);
        kcoro_yield();
    }
    return 0;
}

TEST(a_job_that_was_placed_migrates_once_it_has_hopped_to_any_worker)
{
    kc_sched_t *s = two_workers();
    struct starter st = { .wake = KC_SEM_INIT(0) };

    kc_job_t *a =
        launch_on(s, hops_and_waits_until_it_is_moved, &st, KC_WORKER_AT(0), KC_JOB_MIGRATE);
    has_ended(launch_on(s, wakes_until_it_is_moved, &st, KC_WORKER_AT(1), 0));
    has_ended(a);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST(two_jobs_that_wake_each_other_and_migrate_meet_on_one_worker)
{
    two_meet(false);
}

TEST(the_deadline_of_a_job_that_is_moved_is_gone_with_its_wait)
{
    two_meet(true);
}

/* So many round trips that a move would have come. */
static int asks_often(void *arg)
{
    struct talk *t = arg;
    int item = 0, here = kc_worker_index();

    meet_on_two_threads(t);
    for (int i = 0; i < 2000; i++) {
        CHECK_EQ(kc_chan_send(t->there, &item), 0);
        CHECK_EQ(kc_chan_recv(t->back, &item), 0);
        CHECK_EQ(kc_worker_index(), here);
    }
    kc_chan_close(t->there);
    return 0;
}

static int answers_here(void *arg)
{
    struct talk *t = arg;
    int item, here = kc_worker_index();

    meet_on_two_threads(t);
    while (kc_chan_recv(t->there, &item) == 0) {
        CHECK_EQ(kc_worker_index(), here);
        CHECK_EQ(kc_chan_send(t->back, &item), 0);
    }
    return 0;
}

static void two_stay(uint32_t flags, kc_affinity_t a, kc_affinity_t b)
{
    kc_sched_t *s = two_workers();
    struct talk t;

    begin_talk(&t, false);
    kc_job_t *asker = launch_on(s, asks_often, &t, a, flags);
    kc_job_t *other = launch_on(s, answers_here, &t, b, flags);
    has_ended(asker);
    has_ended(other);
    end_talk(&t);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

TEST(a_job_that_may_not_migrate_stays_on_its_worker)
{
    two_stay(0, KC_WORKER, KC_WORKER);
}

TEST(a_job_that_is_bound_to_a_worker_stays_there_though_it_may_migrate)
{
    two_stay(KC_JOB_MIGRATE, KC_WORKER_AT(0), KC_WORKER_AT(1));
}

static int hops_and_asks(void *arg)
{
    CHECK_EQ(kc_hop(KC_WORKER_AT(0)), 0);
    CHECK_EQ(kc_worker_index(), 0);
    return asks_often(arg);
}

TEST(a_job_that_has_hopped_to_a_worker_stays_there_though_it_may_migrate)
{
    kc_sched_t *s = two_workers();
    struct talk t;

    begin_talk(&t, false);
    kc_job_t *a = launch_on(s, hops_and_asks, &t, KC_WORKER, KC_JOB_MIGRATE);
    kc_job_t *b = launch_on(s, answers_here, &t, KC_WORKER_AT(1), 0);
    has_ended(a);
    has_ended(b);
    end_talk(&t);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- a worker with nothing to do ------------------------------------------------------------ */

enum { MANY = 32 };

struct crowd {
    count_t held, started;
    count_t seen[WORKERS];
};

static int hogs(void *arg)
{
    struct crowd *c = arg;

    set(&c->held, 1);
    while (get(&c->started) < MANY)
        sched_yield();
    return 0;
}

static int ends_at_once(void *arg)
{
    (void)arg;
    return 0;
}

static int spreads(void *arg)
{
    struct crowd *c = arg;
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0); /* it moves with its body */
    add(&c->started);
    for (int i = 0; i < WORKERS; i++)
        while (!get(&c->seen[i])) {
            set(&c->seen[kc_worker_index()], 1);
            CHECK_EQ(kc_yield(), 0);
        }
    CHECK_EQ(kc_launch(ends_at_once, NULL), 0);
    return kc_scope_end(&s);
}

TEST(jobs_that_migrate_go_to_a_worker_that_sleeps)
{
    kc_sched_t *s = two_workers();
    struct crowd c = { 0 };
    kc_job_t *j[MANY];

    /* While one worker is held, all others start on the other one. */
    kc_job_t *hog = launch_on(s, hogs, &c, KC_WORKER_AT(1), 0);
    while (!get(&c.held))
        sched_yield();
    for (int i = 0; i < MANY; i++)
        j[i] = launch_on(s, spreads, &c, KC_WORKER, KC_JOB_MIGRATE);
    has_ended(hog);
    for (int i = 0; i < MANY; i++)
        has_ended(j[i]);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- inside another coroutine --------------------------------------------------------------- */

struct inner {
    struct talk *talk;
    int here;
};

static int receives_inside(kc_gen_t *g, void *arg)
{
    struct inner *in = arg;

    for (int item; kc_chan_recv(in->talk->there, &item) == 0;) {
        CHECK_EQ(kc_worker_index(), in->here);
        CHECK_EQ(kc_chan_send(in->talk->back, &item), 0);
        CHECK_EQ(kc_worker_index(), in->here);
        kc_gen_yield(g, NULL);
    }
    return 0;
}

static int runs_a_generator(void *arg)
{
    struct inner in = { arg, kc_worker_index() };
    kc_gen_t g;

    meet_on_two_threads(arg);
    CHECK_EQ(kc_gen_start(&g, receives_inside, &in, 0), 0);
    while (kc_gen_next(&g, NULL))
        ;
    kc_gen_end(&g);
    return 0;
}

TEST(a_job_that_waits_inside_a_generator_is_not_moved)
{
    kc_sched_t *s = two_workers();
    struct talk t;

    begin_talk(&t, false);
    kc_job_t *a = launch_on(s, asks_often, &t, KC_WORKER_AT(0), 0);
    kc_job_t *b = launch_on(s, runs_a_generator, &t, KC_WORKER, KC_JOB_MIGRATE);
    has_ended(a);
    has_ended(b);
    end_talk(&t);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- at the last moment --------------------------------------------------------------------- */

enum { ROUNDS = 1000 };

struct relay {
    count_t round;
    kc_event_t event[ROUNDS];
};

static int waits_each_time(void *arg)
{
    struct relay *r = arg;

    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(kc_hop(KC_WORKER_AT(1)), 0);
        CHECK_EQ(kc_hop(KC_WORKER), 0); /* it stays, and may migrate again */
        set(&r->round, i + 1);
        CHECK_EQ(kc_event_wait(&r->event[i]), 0);
    }
    return 0;
}

/* As soon as the other one stands in line, mostly before it has left its stack. */
static int wakes_each_time(void *arg)
{
    struct relay *r = arg;

    for (int i = 0; i < ROUNDS; i++) {
        while (get(&r->round) <= i)
            (void)kc_yield();
        const KC_ATOMIC(uint64_t) *word = (const KC_ATOMIC(uint64_t) *)&r->event[i].word;
        for (int spins = 0; kc_load_relaxed(word) == 0 && spins < 1000; spins++)
            kc__relax();
        kc_event_set(&r->event[i]);
    }
    return 0;
}

TEST(a_job_that_is_woken_before_it_has_left_is_not_moved_too_early)
{
    kc_sched_t *s = two_workers();
    static struct relay r;

    kc_job_t *a = launch_on(s, waits_each_time, &r, KC_WORKER, KC_JOB_MIGRATE);
    kc_job_t *b = launch_on(s, wakes_each_time, &r, KC_WORKER_AT(0), 0);
    has_ended(a);
    has_ended(b);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* The look for the next one, in which it is found, is made on its own stack. */
static int must_not_be_moved_now(void *arg)
{
    kc_sched_t *s = arg;

    for (int i = 0; i < WORKERS; i++)
        CHECK(!kc__wait_move(kcoro_current(), s->worker[i]));
    return 0;
}

TEST(a_job_that_runs_is_not_moved)
{
    kc_sched_t *s = two_workers();

    has_ended(launch_on(s, must_not_be_moved_now, s, KC_WORKER, KC_JOB_MIGRATE));
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- cancel --------------------------------------------------------------------------------- */

static int talks_until_cancelled(void *arg)
{
    struct talk *t = arg;
    int item = 0, rc;

    add(&t->started);
    do
        rc = kc_chan_send(t->there, &item);
    while (rc == 0 && (rc = receive(t, t->there, &item)) == 0);
    CHECK_EQ(rc, -ECANCELED);
    return rc;
}

TEST(a_cancel_finds_jobs_that_are_being_moved)
{
    kc_sched_t *s = two_workers();

    for (int round = 0; round < 30; round++) {
        enum { TALKERS = 6 };
        kc_job_t *j[TALKERS];
        struct talk t;
        begin_talk(&t, round % 2);
        for (int i = 0; i < TALKERS; i++)
            j[i] = launch_on(s, talks_until_cancelled, &t, KC_WORKER,
                             KC_JOB_MIGRATE | (i % 3 == 0 ? KC_JOB_UNWIND : 0));
        UNTIL(get(&t.started) == TALKERS);
        for (int i = 0; i < TALKERS; i++)
            CHECK(kc_job_cancel(j[i], 0));
        for (int i = 0; i < TALKERS; i++) {
            CHECK_EQ(kc_job_join(j[i]), -ECANCELED);
            kc_job_release(j[i]);
        }
        end_talk(&t);
    }
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- a handler that lets one be moved -------------------------------------------------------- */

struct moved {
    kc_sched_t *sched;
    kc_job_t *job;
    kc_event_t first, second;
    count_t waits, left, woken, cleans, held;
    int rc;
};

/* Main takes in what was sent to it, and with it the job, which goes to the worker that has woken
 * it: there it waits for the second event, in its cleanup. */
static void takes_the_inbox(kc_sigset_t fired UNUSED, kc_signal_t *signal UNUSED, void *arg)
{
    struct moved *m = arg;

    CHECK_EQ(kc_schedule_delayed(m->sched, KC_SEC(1000), KC_MAIN, ends_at_once, NULL, NULL), 0);
    while (!get(&m->cleans) || kc_load_relaxed(&m->job->task.kind) != KC_WAIT_EVENT)
        sched_yield();
}

static void waits_in_a_shield(void *arg)
{
    struct moved *m = arg;

    set(&m->cleans, 1);
    m->rc = kc_event_wait(&m->second);
}

static int is_moved_by_a_handler(void *arg)
{
    struct moved *m = arg;

    CHECK_EQ(kc_worker_index(), KC_MAIN);
    CHECK(kc_slot_on(kc_current_slot(), KC_SIG_TERMINATE, takes_the_inbox, m));
    KC_CLEANUP(waits_in_a_shield, m);
    set(&m->waits, 1);
    return kc_event_wait(&m->first);
}

/* Nobody but main may begin the job meanwhile. */
static int wakes_from_a_worker(void *arg)
{
    struct moved *m = arg;

    set(&m->held, 1);
    while (!get(&m->left))
        sched_yield();
    kc_event_set(&m->first);
    set(&m->woken, 1);
    return 0;
}

static int cancels_who_has_been_woken(void *arg)
{
    struct moved *m = arg;
    kc_launch_opts_t opts = { .flags = KC_JOB_MIGRATE };

    kc_job_t *waker = launch_on(m->sched, wakes_from_a_worker, m, KC_WORKER_AT(0), 0);
    while (!get(&m->held))
        sched_yield();
    CHECK_EQ(kc_launch_job(is_moved_by_a_handler, m, &opts, &m->job), 0);
    while (!get(&m->waits))
        CHECK_EQ(kc_yield(), 0);
    set(&m->left, 1);
    while (!get(&m->woken))
        sched_yield(); /* it lies in the inbox, which nobody looks at */
    CHECK(kc_job_cancel(m->job, 0));
    kc_event_set(&m->second);
    CHECK_EQ(kc_job_join(m->job), -ECANCELED);
    kc_job_release(m->job);
    has_ended(waker);
    return 0;
}

TEST(a_handler_may_let_the_job_be_moved_that_is_being_cancelled)
{
    struct moved m = { 0 };

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = 1, .flags = KC_SCHED_MAIN_WORKS },
                             &m.sched),
             0);
    kc_job_t *j = launch_on(m.sched, cancels_who_has_been_woken, &m, KC_MAIN, 0);
    CHECK_EQ(kc_sched_run(m.sched), 0);
    has_ended(j);
    CHECK_EQ(m.rc, 0); /* nothing cuts short what waits in a shield */
    CHECK_EQ(kc_sched_destroy(m.sched), 0);
}
