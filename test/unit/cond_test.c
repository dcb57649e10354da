/* SPDX-License-Identifier: MIT */
/*
 * cond_test.c - the condition: whoever is signalled wakes, in order and nobody else, and always
 * with the mutex (Y2, Y3, Y5, J9, J17).
 */
#include "sync_kit.h"

static const struct way *const cond = &ways[WAYS - 1];

struct group {
    kc_cond_t cond;
    kc_mutex_t lock;
    int order[8], n; /* under the lock */
    int rc[8];
};

struct member {
    struct group *g;
    int number;
    kc_time_t deadline;
    kc_job_t *job;
};

static int member_body(void *arg)
{
    struct member *m = arg;
    struct group *g = m->g;

    CHECK_EQ(kc_mutex_lock(&g->lock), 0);
    int rc = m->deadline ? kc_cond_wait_until(&g->cond, &g->lock, m->deadline)
                         : kc_cond_wait(&g->cond, &g->lock);
    CHECK(kc__mutex_owner(&g->lock) == self());
    g->rc[m->number] = rc;
    g->order[g->n++] = m->number;
    kc_mutex_unlock(&g->lock);
    return 0;
}

static void join_group(struct member *m, struct group *g, int number)
{
    *m = (struct member){ .g = g, .number = number };
    m->job = launch(member_body, m, NULL);
    UNTIL(in_line(&g->cond) == number + 1);
}

static int woken(struct group *g)
{
    UNTIL(kc_mutex_trylock(&g->lock)); /* a thread may have it, and there is no other job */
    int n = g->n;
    kc_mutex_unlock(&g->lock);
    return n;
}

static void all_gone(struct member *m, int n)
{
    for (int i = 0; i < n; i++) {
        CHECK_EQ(kc_job_join(m[i].job), 0);
        kc_job_release(m[i].job);
    }
}

IN_A_JOB(each_signal_wakes_the_first_in_the_queue_and_nobody_else)
{
    enum { N = 4 };
    struct group g = { KC_COND_INIT, KC_MUTEX_INIT, { 0 }, 0, { 0 } };
    struct member m[N];

    for (int i = 0; i < N; i++)
        join_group(&m[i], &g, i);
    for (int i = 0; i < N; i++) {
        kc_cond_signal(&g.cond); /* without the mutex, too */
        UNTIL(woken(&g) == i + 1);
        CHECK_EQ(in_line(&g.cond), N - 1 - i);
        for (int k = 0; k < 3; k++)
            CHECK_EQ(kc_yield(), 0);
        CHECK_EQ(woken(&g), i + 1); /* nobody wakes without a signal */
        CHECK_EQ(g.order[i], i);
    }
    all_gone(m, N);
    return 0;
}

IN_A_JOB(a_broadcast_wakes_all_present_waiters_in_order_and_nobody_later)
{
    enum { N = 4 };
    struct group g = { KC_COND_INIT, KC_MUTEX_INIT, { 0 }, 0, { 0 } };
    struct member m[N + 1];

    for (int i = 0; i < N; i++)
        join_group(&m[i], &g, i);
    kc_mutex_lock_nocancel(&g.lock);
    kc_cond_broadcast(&g.cond);
    CHECK_EQ(in_line(&g.cond), 0);
    CHECK_EQ(g.n, 0);
    kc_mutex_unlock(&g.lock);
    UNTIL(woken(&g) == N);
    join_group(&m[N], &g, 0);
    CHECK_EQ(woken(&g), N);
    kc_cond_broadcast(&g.cond);
    all_gone(m, N + 1);
    CHECK_EQ(g.n, N + 1);
    return 0;
}

IN_A_JOB(a_signal_while_nobody_waits_is_lost)
{
    union object o;
    struct waiter w;

    cond_close(&o);
    kc_cond_signal(&o.when.cond);
    kc_cond_broadcast(&o.when.cond);
    enqueue_and_wait(&w, cond, &o);
    CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(get(&w.done), 0);
    cond_open(&o);
    came_back(&w, 0);
    return 0;
}

IN_A_JOB(a_signalled_waiter_waits_for_the_mutex_before_it_returns)
{
    union object o;
    struct waiter w;

    cond_close(&o);
    enqueue_and_wait(&w, cond, &o);
    kc_mutex_lock_nocancel(&o.when.mutex);
    kc_cond_signal(&o.when.cond);
    UNTIL(in_line(&o.when.mutex) == 1);
    CHECK_EQ(get(&w.done), 0);
    kc_mutex_unlock(&o.when.mutex);
    came_back(&w, 0);
    return 0;
}

IN_A_JOB(a_cancelled_waiter_waits_for_the_mutex_before_it_returns)
{
    union object o;
    struct waiter w;

    cond_close(&o);
    enqueue_and_wait(&w, cond, &o);
    kc_mutex_lock_nocancel(&o.when.mutex);
    CHECK(kc_job_cancel(w.job, 0));
    UNTIL(in_line(&o.when.mutex) == 1);
    CHECK_EQ(in_line(&o), 0);
    CHECK_EQ(get(&w.done), 0);
    kc_mutex_unlock(&o.when.mutex);
    came_back(&w, -ECANCELED);
    return 0;
}

IN_A_JOB(a_signal_counts_although_the_time_or_the_job_is_over_before_the_mutex_is_free)
{
    for (int cancel = 0; cancel < 2; cancel++) {
        union object o;
        struct waiter w = { .way = cond, .o = &o, .deadline = kc_now() + KC_MS(1) };
        cond_close(&o);
        if (cancel)
            w.deadline = 0;
        w.job = launch(waiter_body, &w, NULL);
        UNTIL(in_line(&o) == 1 || get(&w.done));
        kc_mutex_lock_nocancel(&o.when.mutex);
        kc_cond_signal(&o.when.cond);
        UNTIL(in_line(&o.when.mutex) == 1 || get(&w.done));
        bool late = w.deadline && kc_now() >= w.deadline; /* a slow machine */
        if (cancel)
            CHECK(kc_job_cancel(w.job, 0));
        else
            CHECK_EQ(kc_sleep(KC_MS(1)), 0);
        kc_mutex_unlock(&o.when.mutex);
        UNTIL(get(&w.done));
        came_back(&w, late ? w.rc : 0);
    }
    return 0;
}

static int waits_though_cancelled(void *arg)
{
    struct waiter *w = arg;
    kc_mutex_t *m = &w->o->when.mutex;

    kc_mutex_lock_nocancel(m);
    set(&w->started, 1);
    UNTIL(kc_cancelled() && in_line(m) == 1);
    CHECK_EQ(kc_cond_wait(&w->o->when.cond, m), -ECANCELED);
    CHECK_EQ(kc_cond_wait_until(&w->o->when.cond, m, 0), -ECANCELED);
    CHECK_EQ(in_line(m), 1); /* it was not let go for a moment */
    CHECK(kc__mutex_owner(m) == self());
    kc_mutex_unlock(m);
    set(&w->done, 1);
    return 0;
}

static void *locks_and_unlocks(void *arg)
{
    CHECK_EQ(kc_mutex_lock(arg), 0);
    kc_mutex_unlock(arg);
    return NULL;
}

IN_A_JOB(a_condition_wait_in_a_cancelled_job_returns_at_once_and_keeps_the_mutex)
{
    union object o;
    struct waiter w = { .way = cond, .o = &o };

    cond_close(&o);
    w.job = launch(waits_though_cancelled, &w, NULL);
    UNTIL(get(&w.started));
    pthread_t t = thread(locks_and_unlocks, &o.when.mutex);
    CHECK(kc_job_cancel(w.job, 0));
    came_back(&w, 0);
    pthread_join(t, NULL);
    return 0;
}

static void unlocks(void *arg)
{
    struct waiter *w = arg;

    CHECK(kc__mutex_owner(&w->o->when.mutex) == self());
    kc_mutex_unlock(&w->o->when.mutex);
    set(&w->done, 1);
}

static int is_unwound(void *arg)
{
    struct waiter *w = arg;

    CHECK_EQ(kc_mutex_lock(&w->o->when.mutex), 0);
    KC_CLEANUP(unlocks, w);
    set(&w->started, 1);
    if (w->plain)
        UNTIL(kc_cancelled());
    (void)!kc_cond_wait(&w->o->when.cond, &w->o->when.mutex);
    FAIL("it was not unwound");
}

IN_A_JOB(a_body_that_is_unwound_has_the_mutex_again_before_its_cleanups_run)
{
    for (int at_entry = 0; at_entry < 2; at_entry++) {
        union object o;
        struct waiter w = { .way = cond, .o = &o, .plain = at_entry };
        cond_close(&o);
        w.job = launch(is_unwound, &w, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });
        UNTIL(get(&w.started));
        if (!at_entry) {
            UNTIL(in_line(&o) == 1);
            kc_mutex_lock_nocancel(&o.when.mutex);
        }
        CHECK(kc_job_cancel(w.job, 0));
        if (!at_entry) {
            UNTIL(in_line(&o.when.mutex) == 1);
            CHECK_EQ(get(&w.done), 0);
            kc_mutex_unlock(&o.when.mutex);
        }
        CHECK_EQ(kc_job_join(w.job), -ECANCELED);
        came_back(&w, 0);
        CHECK(kc_mutex_trylock(&o.when.mutex));
        kc_mutex_unlock(&o.when.mutex);
    }
    return 0;
}

IN_A_JOB(coroutines_and_threads_wait_in_one_queue)
{
    enum { N = 4 };
    struct group g = { KC_COND_INIT, KC_MUTEX_INIT, { 0 }, 0, { 0 } };
    struct member m[N];
    pthread_t t[N];

    for (int i = 0; i < N; i++) {
        if (i % 2) {
            m[i] = (struct member){ .g = &g, .number = i };
            t[i] = thread_runs(member_body, &m[i]);
            UNTIL(in_line(&g.cond) == i + 1);
        } else {
            join_group(&m[i], &g, i);
        }
    }
    for (int i = 0; i < N; i++) {
        kc_cond_signal(&g.cond);
        UNTIL(woken(&g) == i + 1);
        CHECK_EQ(g.order[i], i);
    }
    for (int i = 0; i < N; i++) {
        CHECK_EQ(g.rc[i], 0);
        if (i % 2)
            pthread_join(t[i], NULL);
        else
            all_gone(&m[i], 1);
    }
    return 0;
}

IN_VIRTUAL_TIME(of_several_deadlines_each_ends_its_own_wait)
{
    enum { N = 4 };
    struct group g = { KC_COND_INIT, KC_MUTEX_INIT, { 0 }, 0, { 0 } };
    struct member m[N];
    static const int at[N] = { 3, 1, 4, 2 }, order[N] = { 1, 3, 0, 2 };

    for (int i = 0; i < N; i++) {
        m[i] = (struct member){ .g = &g, .number = i, .deadline = kc_now() + KC_SEC(at[i]) };
        m[i].job = launch(member_body, &m[i], NULL);
        UNTIL(in_line(&g.cond) == i + 1);
    }
    all_gone(m, N);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(g.order[i], order[i]);
        CHECK_EQ(g.rc[i], -ETIMEDOUT);
    }
    return 0;
}

/* ---- a use of it, and its end --------------------------------------------------------------- */

/* The one who waits frees both: who has signalled and unlocked must not touch them any more. */
struct flag {
    kc_mutex_t lock;
    kc_cond_t cond;
    bool up;
};

static int waits_and_frees(void *arg)
{
    struct flag *f = arg;

    CHECK_EQ(kc_mutex_lock(&f->lock), 0);
    while (!f->up)
        CHECK_EQ(kc_cond_wait(&f->cond, &f->lock), 0);
    kc_mutex_unlock(&f->lock);
    memset(f, 0xab, sizeof *f);
    free(f);
    return 0;
}

static void *raises(void *arg)
{
    struct flag *f = arg;

    CHECK_EQ(kc_mutex_lock(&f->lock), 0);
    f->up = true;
    kc_cond_broadcast(&f->cond);
    kc_mutex_unlock(&f->lock);
    return NULL;
}

IN_A_JOB(a_waiter_may_free_condition_and_mutex_when_it_returns)
{
    for (int i = 0; i < 6; i++) {
        struct flag *f = calloc(1, sizeof *f);
        CHECK(f != NULL);
        kc_job_t *j = launch(waits_and_frees, f, NULL);
        if (i % 2) {
            pthread_t t = thread(raises, f);
            UNTIL(kc_job_state(j) == KC_JOB_COMPLETED);
            pthread_join(t, NULL);
        } else {
            raises(f);
            CHECK_EQ(kc_job_join(j), 0);
        }
        kc_job_release(j);
    }
    return 0;
}
