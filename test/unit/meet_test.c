/* SPDX-License-Identifier: MIT */
/*
 * meet_test.c - what has no owner: semaphore, latch, event, once and barrier (Y1, Y2, Y4, Y5, J9).
 */
#include "sync_kit.h"

static const struct way *const sem = &ways[3], *const latch = &ways[4], *const event = &ways[5],
                               *const barrier = &ways[6];

/* ---- semaphore ------------------------------------------------------------------------------ */

IN_A_JOB(as_many_permits_as_a_semaphore_has_are_taken_without_waiting)
{
    kc_sem_t s = KC_SEM_INIT(3);
    static kc_sem_t most = KC_SEM_INIT(UINT32_MAX), none;
    struct {
        int before;
        kc_sem_t sems[2];
    } member = { 1, { KC_SEM_INIT(1), KC_SEM_INIT(0) } };

    for (int i = 0; i < 3; i++)
        CHECK_EQ(kc_sem_acquire(&s), 0);
    CHECK(!kc_sem_tryacquire(&s));
    kc_sem_release(&s, 0); /* nothing */
    CHECK(!kc_sem_tryacquire(&s));
    kc_sem_release(&s, 2);
    CHECK(kc_sem_tryacquire(&s) && kc_sem_tryacquire(&s) && !kc_sem_tryacquire(&s));
    CHECK(kc_sem_tryacquire(&most));
    kc_sem_release(&most, UINT32_MAX); /* more than 32 bits */
    CHECK(kc_sem_tryacquire(&most));
    CHECK(!kc_sem_tryacquire(&none));
    CHECK(kc_sem_tryacquire(&member.sems[0]) && !kc_sem_tryacquire(&member.sems[1]));
    return 0;
}

IN_A_JOB(a_release_of_n_permits_lets_the_first_n_waiters_pass)
{
    enum { N = 5 };
    union object o;
    struct waiter w[N];

    sem_close(&o);
    for (int i = 0; i < N; i++)
        enqueue_and_wait(&w[i], sem, &o);
    kc_sem_release(&o.sem, 2);
    CHECK_EQ(in_line(&o), 3);
    CHECK(!kc_sem_tryacquire(&o.sem)); /* they are theirs, though they may not have run */
    came_back(&w[0], 0);
    came_back(&w[1], 0);
    CHECK_EQ(get(&w[2].done), 0);
    kc_sem_release(&o.sem, 1);
    came_back(&w[2], 0);
    CHECK_EQ(in_line(&o), 2);
    kc_sem_release(&o.sem, 7); /* more than there are who wait: the others stay */
    came_back(&w[3], 0);
    came_back(&w[4], 0);
    for (int i = 0; i < 5; i++)
        CHECK(kc_sem_tryacquire(&o.sem));
    CHECK(!kc_sem_tryacquire(&o.sem));
    return 0;
}

static void *releases(void *arg)
{
    kc_sem_release(arg, 1);
    return NULL;
}

struct pool {
    kc_sem_t permits;
    count_t inside, most, out;
};

static int uses_the_pool(void *arg)
{
    struct pool *p = arg;

    for (int i = 0; i < 5; i++) {
        CHECK_EQ(kc_sem_acquire(&p->permits), 0);
        int n = add(&p->inside) + 1;
        CHECK_LE(n, 2);
        CHECK_EQ(kc_yield(), 0);
        kc_sub_acq_rel(&p->inside, 1);
        kc_sem_release(&p->permits, 1);
    }
    add(&p->out);
    return 0;
}

IN_A_JOB(no_more_jobs_are_inside_than_a_semaphore_has_permits)
{
    enum { N = 6 };
    struct pool p = { .permits = KC_SEM_INIT(2) };

    for (int i = 0; i < N; i++)
        CHECK_EQ(kc_launch(uses_the_pool, &p), 0);
    UNTIL(get(&p.out) == N);
    CHECK(kc_sem_tryacquire(&p.permits) && kc_sem_tryacquire(&p.permits));
    CHECK(!kc_sem_tryacquire(&p.permits));
    return 0;
}

static int tries_in_a_cancelled_job(void *arg)
{
    struct waiter *w = arg;

    set(&w->started, 1);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK(kc_sem_tryacquire(&w->o->sem));
    CHECK_EQ(kc_sem_acquire(&w->o->sem), -ECANCELED);
    CHECK(kc_sem_tryacquire(&w->o->sem)); /* that has taken none */
    CHECK(!kc_sem_tryacquire(&w->o->sem));
    set(&w->done, 1);
    return 0;
}

IN_A_JOB(tryacquire_does_not_look_at_cancellation)
{
    union object o = { .sem = KC_SEM_INIT(2) };
    struct waiter w = { .way = sem, .o = &o };

    cancel_when_started(&w, tries_in_a_cancelled_job);
    return 0;
}

IN_A_JOB(a_plain_thread_may_release_a_semaphore)
{
    union object o;
    struct waiter w;

    sem_close(&o);
    enqueue_and_wait(&w, sem, &o);
    pthread_join(thread(releases, &o.sem), NULL);
    came_back(&w, 0);
    return 0;
}

/* ---- latch ---------------------------------------------------------------------------------- */

IN_A_JOB(a_latch_opens_for_all_when_its_count_is_0)
{
    enum { N = 4 };
    union object o = { .latch = KC_LATCH_INIT(3) };
    struct waiter w[N];

    for (int i = 0; i < N; i++)
        enqueue_and_wait(&w[i], latch, &o);
    for (int i = 0; i < 2; i++) {
        kc_latch_count_down(&o.latch);
        CHECK_EQ(in_line(&o), N);
    }
    kc_latch_count_down(&o.latch);
    CHECK_EQ(in_line(&o), 0);
    for (int i = 0; i < N; i++)
        came_back(&w[i], 0);
    CHECK_EQ(kc_latch_wait(&o.latch), 0); /* and stays open */
    CHECK_EQ(kc_latch_wait_until(&o.latch, 0), 0);
    return 0;
}

IN_A_JOB(a_latch_of_zero_is_open)
{
    static kc_latch_t zero;
    kc_latch_t l = KC_LATCH_INIT(0);

    CHECK_EQ(kc_latch_wait(&l), 0);
    CHECK_EQ(kc_latch_wait(&zero), 0);
    return 0;
}

struct meeting {
    union object o;
    int here[4]; /* plain: each writes its own, and reads all when they have met */
    count_t out, next;
    int members;
};

static int arrives(void *arg)
{
    struct meeting *m = arg;
    int me = add(&m->next);

    m->here[me] = me + 1;
    CHECK_EQ(kc_latch_arrive_and_wait(&m->o.latch), 0);
    for (int i = 0; i < m->members; i++)
        CHECK_EQ(m->here[i], i + 1);
    add(&m->out);
    return 0;
}

IN_A_JOB(all_that_arrive_at_a_latch_continue_together_and_see_what_the_others_did)
{
    struct meeting m = { .o.latch = KC_LATCH_INIT(4), .members = 4 };
    pthread_t t = thread_runs(arrives, &m);

    for (int i = 0; i < 3; i++)
        CHECK_EQ(kc_launch(arrives, &m), 0);
    UNTIL(get(&m.out) == 4);
    pthread_join(t, NULL);
    return 0;
}

static int arrives_in_a_cancelled_job(void *arg)
{
    struct waiter *w = arg;

    set(&w->started, 1);
    if (w->plain)
        CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    w->rc = kc_latch_arrive_and_wait(&w->o->latch);
    set(&w->done, 1);
    return 0;
}

IN_A_JOB(a_waiter_that_is_cancelled_at_a_latch_has_arrived)
{
    for (int before = 0; before < 2; before++) {
        union object o = { .latch = KC_LATCH_INIT(2) };
        struct waiter w = { .way = latch, .o = &o, .plain = before };
        w.job = launch(arrives_in_a_cancelled_job, &w, NULL);
        UNTIL(get(&w.started));
        if (!before)
            UNTIL(in_line(&o) == 1);
        CHECK(kc_job_cancel(w.job, 0));
        came_back(&w, -ECANCELED);
        CHECK_EQ(kc_latch_wait_until(&o.latch, 0), -ETIMEDOUT);
        kc_latch_count_down(&o.latch);
        CHECK_EQ(kc_latch_wait(&o.latch), 0);
    }
    return 0;
}

struct own_latch {
    kc_latch_t *latch;
    count_t in, out;
};

static int arrives_and_frees(void *arg)
{
    struct own_latch *o = arg;
    kc_latch_t *l = calloc(1, sizeof *l);

    CHECK(l != NULL);
    *l = (kc_latch_t)KC_LATCH_INIT(2);
    o->latch = l;
    set(&o->in, 1);
    CHECK_EQ(kc_latch_arrive_and_wait(l), 0);
    memset(l, 0xab, sizeof *l);
    free(l);
    set(&o->out, 1);
    return 0;
}

IN_A_JOB(the_last_to_arrive_does_not_touch_the_latch_again)
{
    for (int round = 0; round < 4; round++) {
        struct own_latch o = { 0 };
        CHECK_EQ(kc_launch(arrives_and_frees, &o), 0);
        UNTIL(get(&o.in) && in_line(o.latch) == 1);
        CHECK_EQ(kc_latch_arrive_and_wait(o.latch), 0);
        UNTIL(get(&o.out));
    }
    return 0;
}

/* ---- event ---------------------------------------------------------------------------------- */

IN_A_JOB(an_event_lets_all_pass_until_it_is_reset)
{
    union object o;
    struct waiter w[3];

    event_close(&o);
    for (int round = 0; round < 2; round++) {
        CHECK(!kc_event_is_set(&o.event));
        for (int i = 0; i < 3; i++)
            enqueue_and_wait(&w[i], event, &o);
        kc_event_set(&o.event);
        CHECK(kc_event_is_set(&o.event));
        kc_event_set(&o.event); /* once more changes nothing */
        for (int i = 0; i < 3; i++)
            came_back(&w[i], 0);
        CHECK_EQ(kc_event_wait(&o.event), 0);
        CHECK_EQ(kc_event_wait_until(&o.event, 0), 0);
        kc_event_reset(&o.event);
        kc_event_reset(&o.event);
        CHECK_EQ(kc_event_wait_until(&o.event, 0), -ETIMEDOUT);
    }
    return 0;
}

IN_A_JOB(an_event_that_is_reset_at_once_still_wakes_its_waiters)
{
    union object o;
    struct waiter w[3], late;

    event_close(&o);
    for (int i = 0; i < 3; i++)
        enqueue_and_wait(&w[i], event, &o);
    kc_event_set(&o.event);
    kc_event_reset(&o.event);
    CHECK(!kc_event_is_set(&o.event));
    enqueue_and_wait(&late, event, &o);
    for (int i = 0; i < 3; i++)
        came_back(&w[i], 0);
    CHECK_EQ(get(&late.done), 0);
    kc_event_set(&o.event);
    came_back(&late, 0);
    return 0;
}

/* ---- once ----------------------------------------------------------------------------------- */

struct setup {
    kc_once_t once;
    count_t calls, out, started, in, go;
    int plain; /* written by fn, read by all */
    bool suspends;
};

static void sets_up(void *arg)
{
    struct setup *s = arg;

    set(&s->in, 1);
    if (s->suspends) {
        CHECK_EQ(kc_yield(), 0); /* shielded, in a job */
        if (kcoro_current())
            CHECK_EQ(kc_check(), 0);
    }
    UNTIL(get(&s->go));
    s->plain = 7;
    add(&s->calls);
}

static int wants_it(void *arg)
{
    struct setup *s = arg;

    kc_once(&s->once, sets_up, s);
    CHECK_EQ(s->plain, 7);
    kc_once(&s->once, sets_up, s);
    add(&s->out);
    return 0;
}

IN_A_JOB(of_many_calls_of_once_one_runs_the_function_and_all_return_when_it_has_ended)
{
    for (int suspends = 0; suspends < 2; suspends++) {
        enum { JOBS = 4, THREADS = 2 };
        struct setup s = { .once = KC_ONCE_INIT, .suspends = suspends };
        pthread_t t[THREADS];
        for (int i = 0; i < JOBS; i++)
            CHECK_EQ(kc_launch(wants_it, &s), 0);
        for (int i = 0; i < THREADS; i++)
            t[i] = thread_runs(wants_it, &s);
        UNTIL(in_line(&s.once) == JOBS + THREADS - 1);
        CHECK_EQ(get(&s.out), 0);
        set(&s.go, 1);
        UNTIL(get(&s.out) == JOBS + THREADS);
        for (int i = 0; i < THREADS; i++)
            pthread_join(t[i], NULL);
        CHECK_EQ(get(&s.calls), 1);
    }
    return 0;
}

static int wants_it_and_is_cancelled(void *arg)
{
    struct setup *s = arg;

    set(&s->started, 1);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    kc_once(&s->once, sets_up, s);
    CHECK_EQ(s->plain, 7);
    CHECK_EQ(kc_check(), -ECANCELED);
    add(&s->out);
    return -ECANCELED;
}

IN_A_JOB(a_once_in_a_cancelled_job_runs_its_function_shielded)
{
    struct setup s = { .once = KC_ONCE_INIT, .suspends = true, .go = 1 };
    kc_job_t *j = launch(wants_it_and_is_cancelled, &s, NULL);

    UNTIL(get(&s.started));
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK(get(&s.calls) == 1 && get(&s.out) == 1);
    kc_once(&s.once, sets_up, &s);
    CHECK_EQ(get(&s.calls), 1);
    kc_job_release(j);
    return 0;
}

IN_A_JOB(neither_the_runner_of_a_once_nor_its_waiters_give_up_when_cancelled)
{
    for (int who = 0; who < 2; who++) {
        struct setup s = { .once = KC_ONCE_INIT, .suspends = true };
        kc_job_t *j[2];
        j[0] = launch(wants_it, &s, NULL);
        UNTIL(get(&s.in));
        j[1] = launch(wants_it, &s, NULL);
        UNTIL(in_line(&s.once) == 1);
        CHECK(kc_job_cancel(j[who], 0));
        CHECK_EQ(kc_yield(), 0);
        CHECK_EQ(in_line(&s.once), 1);
        CHECK_EQ(get(&s.out), 0);
        set(&s.go, 1);
        UNTIL(get(&s.out) == 2);
        CHECK_EQ(get(&s.calls), 1);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(kc_job_join(j[i]), i == who ? -ECANCELED : 0);
            kc_job_release(j[i]);
        }
    }
    return 0;
}

static int wants_it_in_a_scope(void *arg)
{
    kc_scope_t scope;

    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    (void)!wants_it(arg);
    CHECK_EQ(kc_check(), -ECANCELED);
    CHECK_EQ(kc_scope_end(&scope), -ECANCELED);
    return 0;
}

IN_A_JOB(a_once_inside_a_scope_runs_its_function_shielded_from_the_job)
{
    struct setup s = { .once = KC_ONCE_INIT, .suspends = true };
    kc_job_t *j = launch(wants_it_in_a_scope, &s, NULL);

    UNTIL(get(&s.in));
    CHECK(kc_job_cancel(j, 0));
    set(&s.go, 1);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK(get(&s.calls) == 1 && get(&s.out) == 1);
    kc_job_release(j);
    return 0;
}

static int wants_it_and_is_unwound(void *arg)
{
    struct setup *s = arg;

    kc_once(&s->once, sets_up, s);
    add(&s->out);
    (void)!kc_sleep(KC_FOREVER);
    FAIL("it was not unwound");
}

IN_A_JOB(a_body_to_be_unwound_ends_the_function_of_its_once_first)
{
    struct setup s = { .once = KC_ONCE_INIT, .suspends = true };
    kc_job_t *j =
        launch(wants_it_and_is_unwound, &s, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });

    UNTIL(get(&s.in));
    CHECK(kc_job_cancel(j, 0));
    set(&s.go, 1);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&s.calls), 1);
    kc_once(&s.once, sets_up, &s); /* it is over, not half done */
    CHECK_EQ(get(&s.calls), 1);
    kc_job_release(j);
    return 0;
}

static void inner(void *arg)
{
    add(arg);
}

struct nested {
    kc_once_t inner;
    count_t calls;
};

static void outer(void *arg)
{
    struct nested *n = arg;

    kc_once(&n->inner, inner, &n->calls);
    add(&n->calls);
}

IN_A_JOB(the_function_of_a_once_may_use_another_once)
{
    static kc_once_t zero;
    struct nested n = { KC_ONCE_INIT, 0 };
    kc_once_t once[2] = { KC_ONCE_INIT, KC_ONCE_INIT };

    kc_once(&once[0], outer, &n);
    CHECK_EQ(get(&n.calls), 2);
    kc_once(&once[1], outer, &n);
    CHECK_EQ(get(&n.calls), 3);
    kc_once(&zero, outer, &n);
    kc_once(&zero, outer, &n);
    CHECK_LE(get(&n.calls), 4);
    return 0;
}

/* ---- barrier -------------------------------------------------------------------------------- */

enum { GENERATIONS = 5, MEMBERS = 3 };

struct generations {
    kc_barrier_t barrier;
    int done[MEMBERS]; /* plain: each writes its own between two meetings */
    count_t next, lasts[GENERATIONS], out;
};

static int meets_again_and_again(void *arg)
{
    struct generations *g = arg;
    int me = add(&g->next);

    for (int i = 0; i < GENERATIONS; i++) {
        g->done[me] = i + 1;
        int rc = kc_barrier_wait(&g->barrier);
        CHECK(rc == 0 || rc == 1);
        if (rc == 1)
            add(&g->lasts[i]);
        for (int k = 0; k < MEMBERS; k++)
            CHECK_EQ(g->done[k], i + 1);
        CHECK_GE(kc_barrier_wait(&g->barrier), 0); /* all have read */
    }
    add(&g->out);
    return 0;
}

IN_A_JOB(a_barrier_is_used_again_and_again_and_each_time_one_is_the_last)
{
    struct generations g = { .barrier = KC_BARRIER_INIT(MEMBERS) };
    pthread_t t = thread_runs(meets_again_and_again, &g);

    for (int i = 1; i < MEMBERS; i++)
        CHECK_EQ(kc_launch(meets_again_and_again, &g), 0);
    UNTIL(get(&g.out) == MEMBERS);
    pthread_join(t, NULL);
    for (int i = 0; i < GENERATIONS; i++)
        CHECK_EQ(get(&g.lasts[i]), 1);
    return 0;
}

IN_A_JOB(a_barrier_of_one_lets_everybody_pass_as_the_last)
{
    kc_barrier_t one = KC_BARRIER_INIT(1), none = KC_BARRIER_INIT(0);

    CHECK_EQ(kc_barrier_wait(&one), 1);
    CHECK_EQ(kc_barrier_wait(&one), 1);
    CHECK_EQ(kc_barrier_wait(&none), -EINVAL);
    CHECK_EQ(kc_barrier_wait(NULL), -EINVAL);
    return 0;
}

IN_A_JOB(a_waiter_that_is_cancelled_at_a_barrier_has_not_arrived)
{
    union object o = { .barrier = KC_BARRIER_INIT(3) };
    struct waiter w[3];

    enqueue_and_wait(&w[0], barrier, &o);
    enqueue_and_wait(&w[1], barrier, &o);
    CHECK(kc_job_cancel(w[0].job, 0));
    came_back(&w[0], -ECANCELED);
    enqueue_and_wait(&w[2], barrier, &o); /* the second, not the third */
    CHECK_EQ(kc_barrier_wait(&o.barrier), 1);
    came_back(&w[1], 0);
    came_back(&w[2], 0);
    return 0;
}

IN_VIRTUAL_TIME(a_waiter_that_is_cancelled_when_all_have_met_at_a_barrier_has_arrived)
{
    union object o;
    struct waiter w, next;

    barrier_close(&o);
    enqueue_and_wait(&w, barrier, &o);
    CHECK(kc_job_cancel(w.job, 0));
    CHECK_EQ(kc_barrier_wait(&o.barrier), 1); /* it stood in line, and the caller counts on it */
    enqueue_and_wait(&next, barrier, &o);     /* of the next meeting, which it does not disturb */
    came_back(&w, 0);
    CHECK_EQ(in_line(&o), 1);
    CHECK_EQ(kc_barrier_wait(&o.barrier), 1);
    came_back(&next, 0);
    return 0;
}

static void *cancels(void *arg)
{
    kc_job_cancel(arg, 0);
    return NULL;
}

/* Whoever is told that the two have met was not alone. */
IN_A_JOB(a_cancel_that_races_with_the_last_arrival_at_a_barrier_has_one_outcome)
{
    for (int round = 0; round < 5; round++) {
        union object o;
        struct waiter w;
        barrier_close(&o);
        enqueue_and_wait(&w, barrier, &o);
        pthread_t t = thread(cancels, w.job);
        struct waiter other = { .way = barrier, .o = &o };
        other.job = launch(waiter_body, &other, NULL);
        UNTIL(get(&w.done));
        pthread_join(t, NULL);
        if (w.rc == 0) {
            came_back(&w, 0);
            came_back(&other, 1);
        } else {
            came_back(&w, -ECANCELED);
            UNTIL(in_line(&o) == 1);
            CHECK_EQ(kc_barrier_wait(&o.barrier), 1);
            came_back(&other, 0);
        }
    }
    return 0;
}

TEST(a_wait_on_a_null_semaphore_latch_event_or_barrier_is_einval)
{
    CHECK_EQ(kc_sem_acquire(NULL), -EINVAL);
    CHECK_EQ(kc_sem_acquire_until(NULL, 0), -EINVAL);
    CHECK_EQ(kc_latch_wait(NULL), -EINVAL);
    CHECK_EQ(kc_latch_wait_until(NULL, 0), -EINVAL);
    CHECK_EQ(kc_latch_arrive_and_wait(NULL), -EINVAL);
    CHECK_EQ(kc_event_wait(NULL), -EINVAL);
    CHECK_EQ(kc_event_wait_until(NULL, 0), -EINVAL);
}
