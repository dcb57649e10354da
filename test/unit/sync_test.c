/* SPDX-License-Identifier: MIT */
/*
 * sync_test.c - what holds for every lock and meeting point: who waits suspends, is let pass in
 * turn, may be cancelled or run out of time without a trace, may be a plain thread, and may throw
 * the object away as soon as its wait has returned (Y1, Y2, Y4, J9, J10).
 */
#include "sync_kit.h"

/* ---- waiting -------------------------------------------------------------------------------- */

IN_A_JOB(a_waiter_continues_when_it_is_let_pass_and_not_before)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w;
        way->close(&o);
        enqueue_and_wait(&w, way, &o);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(kc_yield(), 0); /* the thread is free meanwhile */
        CHECK_EQ(get(&w.done), 0);
        way->open(&o);
        came_back(&w, 0);
        CHECK_EQ(in_line(&o), 0);
    }
    return 0;
}

IN_A_JOB(what_was_opened_before_lets_the_next_pass_at_once)
{
    EACH_WAY(way)
    {
        union object o;
        way->close(&o);
        if (!way->stays_open)
            continue;
        way->open(&o);
        CHECK_EQ(way->wait(&o), 0);
        way->leave(&o);
        CHECK_EQ(in_line(&o), 0);
    }
    return 0;
}

static int sees_what_was_written(void *arg)
{
    struct waiter *w = arg;

    CHECK_EQ(w->way->wait(w->o), 0);
    CHECK_EQ(w->plain, 42);
    w->way->leave(w->o);
    set(&w->done, 1);
    return 0;
}

IN_A_JOB(a_waiter_that_is_let_pass_sees_what_was_written_before)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w = { .way = way, .o = &o };
        way->close(&o);
        w.job = launch(sees_what_was_written, &w, NULL);
        if (!way->stays_open)
            UNTIL(in_line(&o) == 1); /* the others stand in line, or not yet */
        w.plain = 42;
        way->open(&o);
        came_back(&w, 0);
    }
    return 0;
}

/* ---- cancellation --------------------------------------------------------------------------- */

static void *cancels(void *arg)
{
    CHECK(kc_job_cancel(arg, 0));
    return NULL;
}

IN_A_JOB(a_cancelled_wait_leaves_no_trace)
{
    for (int by_thread = 0; by_thread < 2; by_thread++) {
        EACH_WAY(way)
        {
            union object o;
            struct waiter w, after;
            way->close(&o);
            enqueue_and_wait(&w, way, &o);
            if (by_thread)
                pthread_join(thread(cancels, w.job), NULL);
            else
                cancels(w.job);
            came_back(&w, -ECANCELED);
            CHECK_EQ(in_line(&o), 0);
            enqueue_and_wait(&after, way, &o); /* it is as closed as before */
            CHECK_EQ(get(&after.done), 0);
            way->open(&o); /* and what is let pass is the next */
            came_back(&after, 0);
            CHECK_EQ(in_line(&o), 0);
        }
    }
    return 0;
}

IN_VIRTUAL_TIME(what_is_given_while_the_first_waiter_is_cancelled_goes_to_the_next)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter first, second;
        way->close(&o);
        if (way->close == barrier_close)
            continue; /* there is nothing to give */
        enqueue_and_wait(&first, way, &o);
        enqueue_and_wait(&second, way, &o);
        CHECK(kc_job_cancel(first.job, 0)); /* it has not left the line yet */
        way->open(&o);
        came_back(&first, -ECANCELED);
        came_back(&second, 0);
        CHECK_EQ(in_line(&o), 0);
    }
    return 0;
}

static void *cancels_when_told(void *arg)
{
    struct waiter *w = arg;

    UNTIL(get(&w->done) == 2);
    set(&w->done, 0);
    kc_job_cancel(w->job, 0);
    return NULL;
}

/* One permit or signal, two who wait, one of them cancelled at the same moment: one gets it. */
IN_A_JOB(a_cancel_that_races_with_what_is_given_neither_swallows_nor_doubles_it)
{
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        bool single = way->close == sem_close || way->close == cond_close;
        for (int round = 0; single && round < 3; round++) {
            union object o;
            struct waiter first, second;
            way->close(&o);
            enqueue_and_wait(&first, way, &o);
            enqueue_and_wait(&second, way, &o);
            set(&first.done, 2);
            pthread_t t = thread(cancels_when_told, &first);
            UNTIL(get(&first.done) != 2);
            way->open(&o);
            pthread_join(t, NULL);
            UNTIL(get(&first.done));
            if (first.rc == 0) {
                CHECK_EQ(in_line(&o), 1);
                CHECK_EQ(get(&second.done), 0);
                way->open(&o);
            }
            came_back(&first, first.rc);
            came_back(&second, 0);
            if (way->close == sem_close)
                CHECK(!kc_sem_tryacquire(&o.sem));
        }
    }
    return 0;
}

static int hears_of_it_later(void *arg)
{
    struct waiter *w = arg;

    w->rc = w->way->wait(w->o);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED); /* the next one that waits */
    if (w->rc == 0)
        w->way->leave(w->o);
    set(&w->done, 1);
    return -ECANCELED;
}

IN_A_JOB(a_waiter_that_was_let_pass_has_passed_although_it_is_cancelled_before_it_runs)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w = { .way = way, .o = &o };
        way->close(&o);
        enter_line(&w, hears_of_it_later);
        way->open(&o);
        CHECK(kc_job_cancel(w.job, 0));
        came_back(&w, 0);
    }
    return 0;
}

static int waits_in_a_cancelled_job(void *arg)
{
    struct waiter *w = arg;

    set(&w->started, 1);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    for (int i = 0; i < 2; i++) /* level-triggered */
        CHECK_EQ(w->way->wait(w->o), -ECANCELED);
    if (w->way->wait_until)
        CHECK_EQ(w->way->wait_until(w->o, 1), -ECANCELED); /* not that its time is over */
    CHECK_EQ(kc_shield_begin(), -ECANCELED);
    set(&w->done, 1);
    return 0;
}

IN_A_JOB(in_a_cancelled_job_nothing_is_done_even_where_it_need_not_wait)
{
    EACH_WAY(way)
    {
        for (int open = 0; open < 2; open++) {
            union object o;
            struct waiter w = { .way = way, .o = &o };
            way->close(&o);
            if (open && way->stays_open)
                way->open(&o);
            cancel_when_started(&w, waits_in_a_cancelled_job);
            CHECK_EQ(in_line(&o), 0);
            if (!way->stays_open)
                continue;
            if (!open)
                way->open(&o);
            CHECK_EQ(way->wait(&o), 0); /* it was not taken */
            way->leave(&o);
        }
    }
    return 0;
}

static int waits_under_a_shield(void *arg)
{
    struct waiter *w = arg;

    CHECK_EQ(kc_shield_begin(), 0);
    w->rc = w->way->wait(w->o);
    if (w->rc == 0)
        w->way->leave(w->o);
    kc_shield_end();
    CHECK_EQ(kc_check(), -ECANCELED);
    set(&w->done, 1);
    return 0;
}

IN_A_JOB(under_a_shield_a_cancel_ends_no_wait)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w = { .way = way, .o = &o };
        way->close(&o);
        enter_line(&w, waits_under_a_shield);
        CHECK(kc_job_cancel(w.job, 0));
        CHECK_EQ(kc_yield(), 0);
        CHECK_EQ(in_line(&o), 1);
        way->open(&o);
        came_back(&w, 0);
    }
    return 0;
}

static int waits_in_a_scope_with_a_timeout(void *arg)
{
    struct waiter *w = arg;
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .timeout = KC_US(100) }), 0);
    w->rc = w->way->wait(w->o);
    CHECK_EQ(kc_scope_end(&s), -ETIMEDOUT);
    CHECK_EQ(kc_check(), 0);
    set(&w->done, 1);
    return 0;
}

IN_A_JOB(the_timeout_of_a_scope_ends_a_wait_inside_it)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w = { .way = way, .o = &o };
        way->close(&o);
        w.job = launch(waits_in_a_scope_with_a_timeout, &w, NULL);
        CHECK_EQ(kc_job_join(w.job), 0);
        came_back(&w, -ECANCELED);
        CHECK_EQ(in_line(&o), 0);
        if (way->stays_open)
            way->open(&o);
    }
    return 0;
}

/* ---- time ----------------------------------------------------------------------------------- */

static int runs_out_of_time(void *arg)
{
    struct waiter *w = arg;
    kc_time_t begin = kc_now();
    const kc_time_t past[] = { 0, 1, -5, INT64_MIN, begin };

    CHECK_EQ(w->way->wait_until(w->o, begin + KC_US(300)), -ETIMEDOUT);
    CHECK_GE(kc_now(), begin + KC_US(300));
    for (size_t i = 0; i < sizeof past / sizeof past[0]; i++)
        CHECK_EQ(w->way->wait_until(w->o, past[i]), -ETIMEDOUT);
    set(&w->done, 1);
    return 0;
}

IN_A_JOB(a_wait_that_is_out_of_time_leaves_no_trace)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w = { .way = way, .o = &o }, next;
        if (!way->wait_until)
            continue;
        way->close(&o);
        w.job = launch(runs_out_of_time, &w, NULL);
        CHECK_EQ(kc_job_join(w.job), 0);
        came_back(&w, 0);
        CHECK_EQ(in_line(&o), 0);
        enqueue_and_wait(&next, way, &o);
        way->open(&o);
        came_back(&next, 0);
    }
    return 0;
}

IN_VIRTUAL_TIME(a_deadline_is_exact)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w = { .way = way, .o = &o, .deadline = kc_now() + KC_SEC(3600) };
        if (!way->wait_until)
            continue;
        way->close(&o);
        enter_line(&w, waiter_body);
        CHECK_EQ(kc_sleep_until(w.deadline - 1), 0);
        CHECK_EQ(get(&w.done), 0);
        CHECK_EQ(kc_sleep_until(w.deadline + 1), 0);
        came_back(&w, -ETIMEDOUT);
        if (way->stays_open)
            way->open(&o);
    }
    return 0;
}

IN_A_JOB(a_call_that_need_not_wait_passes_though_its_time_is_over)
{
    EACH_WAY(way)
    {
        union object o;
        if (!way->wait_until || !way->stays_open)
            continue;
        way->close(&o);
        way->open(&o);
        CHECK_EQ(way->wait_until(&o, 0), 0);
        way->leave(&o);
    }
    return 0;
}

IN_A_JOB(a_waiter_that_is_let_pass_in_time_has_passed)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w = { .way = way, .o = &o, .deadline = kc_now() + KC_SEC(3600) };
        if (!way->wait_until)
            continue;
        way->close(&o);
        enter_line(&w, waiter_body);
        way->open(&o);
        came_back(&w, 0);
    }
    return 0;
}

/* ---- plain threads -------------------------------------------------------------------------- */

IN_A_JOB(a_plain_thread_blocks_until_it_is_let_pass)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w = { .way = way, .o = &o };
        way->close(&o);
        pthread_t t = thread_runs(waiter_body, &w);
        UNTIL(in_line(&o) == 1);
        CHECK_EQ(get(&w.done), 0);
        way->open(&o);
        came_back(&w, 0);
        pthread_join(t, NULL);
    }
    return 0;
}

struct held {
    kc_mutex_t m;
    KC_ATOMIC(int) taken;
};

static int holds_until_another_waits(void *arg)
{
    struct held *h = arg;

    CHECK_EQ(kc_mutex_lock(&h->m), 0);
    set(&h->taken, 1);
    while (in_line(&h->m) != 1)
        sched_yield();
    kc_mutex_unlock(&h->m);
    return 0;
}

/* With virtual time too, where all others that wait for ever are a deadlock. */
IN_A_JOB(a_lock_that_a_plain_thread_has_is_waited_for)
{
    struct held h = { .m = KC_MUTEX_INIT };
    pthread_t t = thread_runs(holds_until_another_waits, &h);

    while (!get(&h.taken))
        sched_yield();
    CHECK_EQ(kc_mutex_lock(&h.m), 0);
    kc_mutex_unlock(&h.m);
    pthread_join(t, NULL);
    return 0;
}

TEST(a_plain_thread_gives_up_at_its_deadline)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w = { .way = way, .o = &o }, next = w;
        if (!way->wait_until)
            continue;
        way->close(&o);
        pthread_join(thread_runs(runs_out_of_time, &w), NULL);
        CHECK_EQ(in_line(&o), 0);
        next.deadline = kc_now() + KC_SEC(3600);
        pthread_t t = thread_runs(waiter_body, &next);
        UNTIL(in_line(&o) == 1);
        way->open(&o);
        pthread_join(t, NULL);
        CHECK_EQ(next.rc, 0);
    }
}

static int opens_when_somebody_waits(void *arg)
{
    struct waiter *w = arg;

    w->way->close(w->o);
    set(&w->started, 1);
    while (in_line(w->o) == 0)
        CHECK_EQ(kc_sleep(KC_US(10)), 0);
    w->way->open(w->o);
    return 0;
}

OUTSIDE(the_creator_of_a_scheduler_pumps_it_while_it_waits, s)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w = { .way = way, .o = &o };
        kc_job_t *j = launch(opens_when_somebody_waits, &w, &(kc_launch_opts_t){ .sched = s });
        while (!get(&w.started))
            CHECK_EQ(kc_sleep(KC_US(10)), 0);
        CHECK_EQ(way->wait(&o), 0);
        way->leave(&o);
        CHECK_EQ(kc_job_join(j), 0);
        kc_job_release(j);
    }
}

OUTSIDE(the_creators_deadline_is_on_its_schedulers_clock, s)
{
    kc_sem_t sem = KC_SEM_INIT(0);
    kc_time_t at = kc_now() + (s->virtual_time ? KC_SEC(60) : KC_US(50));

    CHECK_EQ(kc_sem_acquire_until(&sem, at), -ETIMEDOUT);
    CHECK_GE(kc_now(), at);
}

/* ---- other schedulers ----------------------------------------------------------------------- */

static void *elsewhere(void *arg)
{
    kc_sched_opts_t opts = { .workers = 1 };

    CHECK_EQ(kc_run(waiter_body, arg, &opts), 0);
    return NULL;
}

IN_A_JOB(coroutines_of_another_scheduler_stand_in_the_same_queue)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w = { .way = way, .o = &o };
        way->close(&o);
        pthread_t t = thread(elsewhere, &w);
        UNTIL(in_line(&o) == 1);
        way->open(&o);
        came_back(&w, 0);
        pthread_join(t, NULL);
    }
    return 0;
}

/* ---- inside a generator --------------------------------------------------------------------- */

static int waits_inside(kc_gen_t *g, void *arg)
{
    struct waiter *w = arg;

    kc_gen_yield(g, w);
    w->rc = w->way->wait(w->o);
    kc_gen_yield(g, NULL);
    FAIL("nobody asks for a third one");
    return 0;
}

/* The generator takes it, the body gives it back: they are one owner. */
static int asks_a_generator(void *arg)
{
    struct waiter *w = arg;
    kc_gen_t g;
    void *value;

    CHECK_EQ(kc_gen_start(&g, waits_inside, w, 0), 0);
    CHECK(kc_gen_next(&g, &value));
    CHECK_PTR(value, w);
    CHECK(kc_gen_next(&g, &value));
    CHECK_PTR(value, NULL);
    kc_gen_end(&g);
    if (w->rc == 0)
        w->way->leave(w->o);
    set(&w->done, 1);
    return 0;
}

IN_A_JOB(a_wait_inside_a_generator_suspends_the_whole_body)
{
    EACH_WAY(way)
    {
        for (int cancel = 0; cancel < 2; cancel++) {
            union object o;
            struct waiter w = { .way = way, .o = &o };
            way->close(&o);
            enter_line(&w, asks_a_generator);
            if (cancel)
                CHECK(kc_job_cancel(w.job, 0));
            else
                way->open(&o);
            came_back(&w, cancel ? -ECANCELED : 0);
            CHECK_EQ(in_line(&o), 0);
            if (cancel && way->stays_open)
                way->open(&o);
        }
    }
    return 0;
}

/* The generator hears of it, and the body that asks it is unwound at its own next call. */
static int asks_and_is_unwound(void *arg)
{
    struct waiter *w = arg;

    (void)!asks_a_generator(arg);
    CHECK_EQ(w->rc, -ECANCELED);
    (void)!kc_check();
    FAIL("it was not unwound");
}

IN_A_JOB(a_generator_of_a_body_to_be_unwound_hears_of_the_cancel)
{
    EACH_WAY(way)
    {
        union object o;
        struct waiter w = { .way = way, .o = &o };
        way->close(&o);
        w.job = launch(asks_and_is_unwound, &w, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });
        UNTIL(in_line(&o) == 1);
        CHECK(kc_job_cancel(w.job, 0));
        CHECK_EQ(kc_job_join(w.job), -ECANCELED);
        came_back(&w, -ECANCELED);
        CHECK_EQ(in_line(&o), 0);
        if (way->stays_open)
            way->open(&o);
    }
    return 0;
}

/* ---- objects that go (Y4) ------------------------------------------------------------------- */

struct brief {
    const struct way *way;
    count_t ready, done;
    kc_sem_t next;
    union object *o;
};

/* Uses an object in its own frame, and then its memory for something else. */
static __attribute__((noinline)) void uses_a_frame(struct brief *b)
{
    union object o;

    b->way->close(&o);
    b->o = &o;
    set(&b->ready, 1);
    CHECK_EQ(b->way->wait(&o), 0);
    b->way->leave(&o);
    memset(&o, 0xab, sizeof o);
    __asm__ volatile("" ::"r"(&o) : "memory");
}

/* The same on the heap: what comes later is a use after free. */
static void uses_the_heap(struct brief *b)
{
    union object *o = malloc(sizeof *o);

    CHECK(o != NULL);
    b->way->close(o);
    b->o = o;
    set(&b->ready, 1);
    CHECK_EQ(b->way->wait(o), 0);
    b->way->leave(o);
    memset(o, 0xab, sizeof *o);
    free(o);
}

static int brief_body(void *arg)
{
    struct brief *b = arg;

    for (int i = 0; i < 4; i++) {
        if (i % 2)
            uses_a_frame(b);
        else
            uses_the_heap(b);
        CHECK_EQ(kc_sem_acquire(&b->next), 0); /* so that the opener looks at ready in turn */
    }
    set(&b->done, 1);
    return 0;
}

static bool goes_by_itself(const struct way *way)
{
    return way->close == sem_close || way->close == latch_close || way->close == event_close;
}

IN_A_JOB(an_object_may_go_as_soon_as_its_wait_has_returned)
{
    EACH_WAY(way)
    {
        for (int in_thread = 0; goes_by_itself(way) && in_thread < 2; in_thread++) {
            struct brief b = { .way = way };
            pthread_t t = { 0 };
            if (in_thread)
                t = thread_runs(brief_body, &b);
            else
                CHECK_EQ(kc_launch(brief_body, &b), 0);
            for (int i = 0; i < 4; i++) {
                UNTIL(get(&b.ready));
                way->open(b.o); /* it may wait already, or not yet */
                set(&b.ready, 0);
                kc_sem_release(&b.next, 1);
            }
            UNTIL(get(&b.done));
            if (in_thread)
                pthread_join(t, NULL);
        }
    }
    return 0;
}
