/* SPDX-License-Identifier: MIT */
/*
 * rwlock_test.c - the reader-writer lock: many readers or one writer, first come first served, so
 * that a writer that waits keeps new readers out (Y1, Y2, Y3, Y5).
 */
#include "sync_kit.h"

static const struct way *const reads = &ways[1], *const writes = &ways[2];

/* ---- who may be inside together ------------------------------------------------------------- */

static void *only_readers_get_in(void *arg)
{
    CHECK(!kc_rwlock_trywrlock(arg));
    CHECK(kc_rwlock_tryrdlock(arg));
    kc_rwlock_rdunlock(arg);
    return NULL;
}

static void *nobody_gets_in(void *arg)
{
    CHECK(!kc_rwlock_trywrlock(arg));
    CHECK(!kc_rwlock_tryrdlock(arg));
    return NULL;
}

static void *anybody_gets_in(void *arg)
{
    only_readers_get_in((CHECK(kc_rwlock_tryrdlock(arg)), arg));
    kc_rwlock_rdunlock(arg);
    CHECK(kc_rwlock_trywrlock(arg));
    kc_rwlock_wrunlock(arg);
    return NULL;
}

static void lets_readers_in_together_and_writers_alone(kc_rwlock_t *l)
{
    CHECK_EQ(kc_rwlock_rdlock(l), 0);
    pthread_join(thread(only_readers_get_in, l), NULL);
    kc_rwlock_rdunlock(l);
    pthread_join(thread(anybody_gets_in, l), NULL);
    CHECK_EQ(kc_rwlock_wrlock(l), 0);
    pthread_join(thread(nobody_gets_in, l), NULL);
    nobody_gets_in(l); /* nor does the writer itself, by a try */
    kc_rwlock_wrunlock(l);
    CHECK(kc_rwlock_trywrlock(l));
    pthread_join(thread(nobody_gets_in, l), NULL);
    kc_rwlock_wrunlock(l);
    CHECK(kc_rwlock_tryrdlock(l));
    pthread_join(thread(only_readers_get_in, l), NULL);
    kc_rwlock_rdunlock(l);
    pthread_join(thread(anybody_gets_in, l), NULL);
}

IN_A_JOB(readers_are_in_together_and_a_writer_is_alone)
{
    kc_rwlock_t l = KC_RWLOCK_INIT;

    lets_readers_in_together_and_writers_alone(&l);
    return 0;
}

TEST(on_plain_threads_readers_are_in_together_and_a_writer_is_alone)
{
    static kc_rwlock_t named = KC_RWLOCK_NAMED("table"), zero;
    struct {
        int before;
        kc_rwlock_t lock[2];
    } member = { 1, { KC_RWLOCK_INIT, KC_RWLOCK_NAMED("second") } };

    lets_readers_in_together_and_writers_alone(&named);
    lets_readers_in_together_and_writers_alone(&zero);
    lets_readers_in_together_and_writers_alone(&member.lock[0]);
    lets_readers_in_together_and_writers_alone(&member.lock[1]);
}

struct table {
    kc_rwlock_t lock;
    long a, b; /* plain; equal whenever nobody writes */
    count_t out;
};

static int reads_and_writes(void *arg)
{
    struct table *t = arg;

    for (int i = 0; i < 20; i++) {
        if (i % 5 == 0) {
            CHECK_EQ(kc_rwlock_wrlock(&t->lock), 0);
            t->a++;
            if (kcoro_current())
                CHECK_EQ(kc_yield(), 0);
            t->b++;
            kc_rwlock_wrunlock(&t->lock);
        } else {
            CHECK_EQ(kc_rwlock_rdlock(&t->lock), 0);
            CHECK_EQ(t->a, t->b);
            if (i % 5 == 1 && kcoro_current())
                CHECK_EQ(kc_yield(), 0);
            CHECK_EQ(t->a, t->b);
            kc_rwlock_rdunlock(&t->lock);
        }
    }
    add(&t->out);
    return 0;
}

IN_A_JOB(coroutines_and_threads_never_read_while_another_writes)
{
    struct table table = { .lock = KC_RWLOCK_INIT };

    crowd_runs(reads_and_writes, &table, 5, &table.out);
    CHECK_EQ(table.a, (5 + CROWD_THREADS) * 4);
    anybody_gets_in(&table.lock);
    return 0;
}

/* ---- in order ------------------------------------------------------------------------------- */

IN_A_JOB(a_writer_waits_for_all_readers)
{
    union object o = { .rwlock = KC_RWLOCK_INIT };
    struct waiter w;

    CHECK(kc_rwlock_tryrdlock(&o.rwlock) && kc_rwlock_tryrdlock(&o.rwlock));
    enqueue_and_wait(&w, writes, &o);
    kc_rwlock_rdunlock(&o.rwlock);
    CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(in_line(&o), 1);
    kc_rwlock_rdunlock(&o.rwlock);
    came_back(&w, 0);
    anybody_gets_in(&o.rwlock);
    return 0;
}

IN_A_JOB(a_writer_that_waits_keeps_new_readers_out)
{
    union object o = { .rwlock = KC_RWLOCK_INIT };
    struct waiter writer, reader;

    CHECK_EQ(kc_rwlock_rdlock(&o.rwlock), 0);
    enqueue_and_wait(&writer, writes, &o);
    nobody_gets_in(&o.rwlock);
    enqueue_and_wait(&reader, reads, &o);
    CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(get(&reader.done), 0);
    kc_rwlock_rdunlock(&o.rwlock);
    came_back(&writer, 0);
    came_back(&reader, 0);
    anybody_gets_in(&o.rwlock);
    return 0;
}

struct visitor {
    struct hall *hall;
    bool write;
    int number;
};

struct hall {
    kc_rwlock_t lock;
    count_t in, out;
    count_t entered[8]; /* when each came in, from 1 on */
    kc_event_t go[8];   /* each leaves when it is told */
};

static int visits(void *arg)
{
    struct visitor *v = arg;
    struct hall *h = v->hall;

    CHECK_EQ(v->write ? kc_rwlock_wrlock(&h->lock) : kc_rwlock_rdlock(&h->lock), 0);
    set(&h->entered[v->number], add(&h->in) + 1);
    CHECK_EQ(kc_event_wait(&h->go[v->number]), 0);
    if (v->write)
        kc_rwlock_wrunlock(&h->lock);
    else
        kc_rwlock_rdunlock(&h->lock);
    add(&h->out);
    return 0;
}

/* While one writes, these come: R R W R W. They get in as RR, W, R, W. */
IN_A_JOB(all_readers_up_to_the_next_writer_get_in_together)
{
    enum { N = 5 };
    static const bool kind[N] = { false, false, true, false, true };
    struct hall h = { .lock = KC_RWLOCK_INIT };
    struct visitor v[N];

    CHECK_EQ(kc_rwlock_wrlock(&h.lock), 0);
    for (int i = 0; i < N; i++) {
        v[i] = (struct visitor){ &h, kind[i], i };
        CHECK_EQ(kc_launch(visits, &v[i]), 0);
        UNTIL(in_line(&h.lock) == i + 1);
    }
    kc_rwlock_wrunlock(&h.lock);
    CHECK_EQ(in_line(&h.lock), 3);
    UNTIL(get(&h.in) == 2);
    kc_event_set(&h.go[0]);
    UNTIL(get(&h.out) == 1);
    CHECK_EQ(in_line(&h.lock), 3); /* one still reads */
    kc_event_set(&h.go[1]);
    for (int i = 2; i < N; i++) {
        UNTIL(get(&h.entered[i]) > 0);
        CHECK_EQ(get(&h.entered[i]), i + 1);
        CHECK_EQ(in_line(&h.lock), N - 1 - i);
        kc_event_set(&h.go[i]);
    }
    UNTIL(get(&h.out) == N);
    anybody_gets_in(&h.lock);
    return 0;
}

/* ---- its end -------------------------------------------------------------------------------- */

static int frees_if_last(void *arg)
{
    struct shared *s = arg;

    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kc_rwlock_rdlock(&s->o.rwlock), 0);
        CHECK_GT(s->users, 0);
        kc_rwlock_rdunlock(&s->o.rwlock);
    }
    CHECK_EQ(kc_rwlock_wrlock(&s->o.rwlock), 0);
    bool last = --s->users == 0;
    kc_rwlock_wrunlock(&s->o.rwlock);
    if (last)
        free_shared(s);
    return 0;
}

IN_A_JOB(the_last_writer_may_free_a_rwlock_right_after_its_unlock)
{
    share_and_free(frees_if_last, 4);
    return 0;
}

/* ---- who leaves the line -------------------------------------------------------------------- */

IN_A_JOB(a_waiting_writer_that_is_cancelled_lets_the_readers_behind_it_in)
{
    union object o = { .rwlock = KC_RWLOCK_INIT };
    struct waiter writer, reader[2], last;

    CHECK_EQ(kc_rwlock_rdlock(&o.rwlock), 0);
    enqueue_and_wait(&writer, writes, &o);
    enqueue_and_wait(&reader[0], reads, &o);
    enqueue_and_wait(&reader[1], reads, &o);
    enqueue_and_wait(&last, writes, &o);
    CHECK(kc_job_cancel(writer.job, 0));
    came_back(&writer, -ECANCELED);
    came_back(&reader[0], 0);
    came_back(&reader[1], 0);
    CHECK_EQ(in_line(&o), 1);
    CHECK_EQ(get(&last.done), 0); /* the first reader is still in */
    CHECK(kc_job_cancel(last.job, 0));
    came_back(&last, -ECANCELED);
    only_readers_get_in(&o.rwlock); /* nobody is in line: readers may come */
    kc_rwlock_rdunlock(&o.rwlock);
    anybody_gets_in(&o.rwlock);
    return 0;
}

IN_A_JOB(a_waiting_reader_that_is_cancelled_leaves_the_others_in_the_queue)
{
    union object o;
    struct waiter reader, writer;

    rwlock_close(&o);
    enqueue_and_wait(&reader, reads, &o);
    enqueue_and_wait(&writer, writes, &o);
    CHECK(kc_job_cancel(reader.job, 0));
    came_back(&reader, -ECANCELED);
    CHECK_EQ(in_line(&o), 1);
    CHECK_EQ(get(&writer.done), 0);
    kc_rwlock_wrunlock(&o.rwlock);
    came_back(&writer, 0);
    anybody_gets_in(&o.rwlock);
    return 0;
}

static int tries_in_a_cancelled_job(void *arg)
{
    struct waiter *w = arg;

    set(&w->started, 1);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    anybody_gets_in(&w->o->rwlock);
    CHECK_EQ(kc_rwlock_rdlock(&w->o->rwlock), -ECANCELED);
    CHECK_EQ(kc_rwlock_wrlock(&w->o->rwlock), -ECANCELED);
    anybody_gets_in(&w->o->rwlock);
    set(&w->done, 1);
    return 0;
}

IN_A_JOB(try_forms_of_a_rwlock_do_not_look_at_cancellation)
{
    union object o = { .rwlock = KC_RWLOCK_INIT };
    struct waiter w = { .way = reads, .o = &o };

    cancel_when_started(&w, tries_in_a_cancelled_job);
    return 0;
}

/* ---- who owns ------------------------------------------------------------------------------- */

static void knows_its_writer(kc_rwlock_t *l)
{
    CHECK_EQ(kc_rwlock_wrlock(l), 0);
    CHECK_EQ(kc_rwlock_wrlock(l), -EDEADLK);
    CHECK_EQ(kc_rwlock_rdlock(l), -EDEADLK);
    kc_rwlock_wrunlock(l); /* it is held once */
    anybody_gets_in(l);
}

IN_A_JOB(a_writer_that_asks_again_gets_edeadlk)
{
    kc_rwlock_t l = KC_RWLOCK_INIT;

    knows_its_writer(&l);
    return 0;
}

TEST(on_a_plain_thread_a_writer_that_asks_again_gets_edeadlk)
{
    kc_rwlock_t l = KC_RWLOCK_INIT;

    knows_its_writer(&l);
}

IN_A_JOB(a_rwlock_that_is_taken_inside_a_scope_may_be_released_after_it)
{
    kc_rwlock_t l = KC_RWLOCK_INIT;
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_rwlock_wrlock(&l), 0);
    CHECK_EQ(kc_scope_end(&s), 0);
    CHECK_EQ(kc_rwlock_wrlock(&l), -EDEADLK);
    kc_rwlock_wrunlock(&l);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_rwlock_rdlock(&l), 0);
    CHECK_EQ(kc_scope_end(&s), 0);
    kc_rwlock_rdunlock(&l);
    anybody_gets_in(&l);
    return 0;
}

static void read_unlocks(void *arg)
{
    kc_rwlock_rdunlock(arg);
}

static void write_unlocks(void *arg)
{
    kc_rwlock_wrunlock(arg);
}

struct pair {
    kc_rwlock_t read, write;
    count_t in;
};

static int holds_both(void *arg)
{
    struct pair *p = arg;

    CHECK_EQ(kc_rwlock_rdlock(&p->read), 0);
    KC_CLEANUP(read_unlocks, &p->read);
    CHECK_EQ(kc_rwlock_wrlock(&p->write), 0);
    KC_CLEANUP(write_unlocks, &p->write);
    set(&p->in, 1);
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(a_body_that_is_unwound_gives_both_kinds_back_by_its_cleanups)
{
    for (uint32_t flags = 0; flags <= KC_JOB_UNWIND; flags += KC_JOB_UNWIND) {
        struct pair p = { KC_RWLOCK_INIT, KC_RWLOCK_INIT, 0 };
        kc_job_t *j = launch(holds_both, &p, &(kc_launch_opts_t){ .flags = flags });
        UNTIL(get(&p.in));
        CHECK(kc_job_cancel(j, 0));
        CHECK_EQ(kc_rwlock_wrlock(&p.read), 0);
        CHECK_EQ(kc_rwlock_wrlock(&p.write), 0);
        kc_rwlock_wrunlock(&p.read);
        kc_rwlock_wrunlock(&p.write);
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        kc_job_release(j);
    }
    return 0;
}

IN_VIRTUAL_TIME(a_deadline_ends_the_wait_of_a_reader_and_of_a_writer_at_its_time)
{
    kc_rwlock_t l = KC_RWLOCK_INIT;
    kc_time_t start = kc_now();

    CHECK_EQ(kc_rwlock_rdlock_until(&l, 0), 0); /* what need not wait is not late */
    union object o = { .rwlock = KC_RWLOCK_INIT };
    struct waiter writer;
    CHECK_EQ(kc_rwlock_rdlock(&o.rwlock), 0);
    CHECK_EQ(kc_rwlock_wrlock_until(&o.rwlock, start + KC_MS(5)), -ETIMEDOUT);
    CHECK_EQ(kc_now(), start + KC_MS(5));
    CHECK(kc_rwlock_tryrdlock(&o.rwlock)); /* the writer has left no trace */
    kc_rwlock_rdunlock(&o.rwlock);
    enqueue_and_wait(&writer, writes, &o);
    CHECK_EQ(kc_rwlock_rdlock_until(&o.rwlock, start + KC_MS(9)), -ETIMEDOUT);
    CHECK_EQ(kc_now(), start + KC_MS(9));
    kc_rwlock_rdunlock(&o.rwlock);
    came_back(&writer, 0);
    kc_rwlock_rdunlock(&l);
    anybody_gets_in(&o.rwlock);
    return 0;
}

TEST(a_lock_of_a_null_rwlock_is_einval)
{
    CHECK_EQ(kc_rwlock_rdlock(NULL), -EINVAL);
    CHECK_EQ(kc_rwlock_wrlock(NULL), -EINVAL);
}
