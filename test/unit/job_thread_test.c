/* SPDX-License-Identifier: MIT */
/*
 * job_thread_test.c - jobs and plain threads, and the end of a scheduler: joins that block or pump,
 * launches and cancels from anywhere, destroy with everything open (J6, J14, J18, J24, S9, S10).
 */
#include "job/root.h"
#include "job_kit.h"

#include <stdlib.h>

/* ---- plain threads -------------------------------------------------------------------------- */

struct threads {
    kc_sched_t *s;
    kc_job_t *job;
    kc_lease_t lease;
    count_t in, go, out;
    int code;
};

static void *thread_joins(void *arg)
{
    struct threads *t = arg;

    add(&t->in);
    CHECK_EQ(kc_job_join(t->job), t->code);
    add(&t->out);
    return NULL;
}

static int returns_when_told(void *arg)
{
    struct threads *t = arg;
    int rc = until_set(&t->go);

    return rc ? rc : t->code;
}

OUTSIDE(any_number_of_threads_may_join_beside_the_creator_that_pumps, s)
{
    enum { N = 3 };
    struct threads t = { .s = s, .code = -EIO };
    pthread_t thread[N];

    t.job = launch(returns_when_told, &t, &(kc_launch_opts_t){ .sched = s });
    for (int i = 0; i < N; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, thread_joins, &t), 0);
    UNTIL(get(&t.in) == N);
    CHECK_EQ(kc_job_join_until(t.job, kc_now() + KC_US(300)), -ETIMEDOUT);
    CHECK_EQ(get(&t.out), 0);
    set(&t.go, 1);
    CHECK_EQ(kc_job_join(t.job), -EIO);
    for (int i = 0; i < N; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ(get(&t.out), N);
    ended(t.job, KC_JOB_FAILED, -EIO);
}

static void *thread_gives_up(void *arg)
{
    struct threads *t = arg;
    kc_time_t at = kc_now() + KC_US(300);

    CHECK_EQ(kc_job_join_until(t->job, at), -ETIMEDOUT);
    CHECK_GE(kc_now(), at);
    CHECK_EQ(kc_job_join_until(t->job, 0), -ETIMEDOUT);
    return NULL;
}

OUTSIDE(a_thread_that_joins_with_a_deadline_gives_up_then, s)
{
    struct threads t = { .s = s };
    pthread_t thread;

    t.job = group(&(kc_launch_opts_t){ .sched = s });
    CHECK_EQ(pthread_create(&thread, NULL, thread_gives_up, &t), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(kc_job_state(t.job), KC_JOB_ACTIVE);
    kc_job_drop(t.job);
}

static void *thread_launches(void *arg)
{
    struct threads *t = arg;
    kc_launch_opts_t free_one = { .sched = t->s }, child = { .parent = t->job };
    kc_deferred_t *d;

    kc_job_t *a = launch(counts, &t->in, &free_one), *b = launch(counts, &t->in, &child);
    CHECK_EQ(kc_async_job(counts, &t->in, &child, &d), 0);
    CHECK_EQ(kc_job_join(a), 0);
    CHECK_EQ(kc_job_join(b), 0);
    CHECK_EQ(kc_await(d, NULL), 0);
    kc_job_release(a);
    kc_job_release(b);
    kc_deferred_release(d);
    kc_job_t *c = launch(waits, NULL, &child);
    CHECK(kc_job_cancel(c, -EPIPE));
    CHECK_EQ(kc_job_join(c), -EPIPE);
    kc_job_release(c);
    CHECK_EQ(kc_group_close(t->job), 0);
    kc_lease_release(&t->lease);
    return NULL;
}

OUTSIDE(a_thread_may_launch_join_and_cancel, s)
{
    struct threads t = { .s = s };
    pthread_t thread;

    t.job = group(&(kc_launch_opts_t){ .sched = s });
    CHECK_EQ(kc_lease_take(t.job, &t.lease), 0); /* the pump waits for the thread */
    CHECK_EQ(pthread_create(&thread, NULL, thread_launches, &t), 0);
    CHECK_EQ(kc_job_join(t.job), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(get(&t.in), 3);
    ended(t.job, KC_JOB_COMPLETED, 0);
}

static int hops_for_ever(void *arg)
{
    kc_scope_t s;
    int rc = 0;

    add(arg);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    for (int i = 0; rc == 0; i++) {
        rc = kc_hop(i % 2 ? KC_MAIN : KC_WORKER);
        if (rc == 0 && i % 4 == 0)
            rc = kc_yield();
    }
    CHECK_EQ(kc_scope_end(&s), -ECANCELED);
    return rc;
}

static int cancels(void *arg)
{
    CHECK(kc_job_cancel(arg, 0));
    return 0;
}

IN_A_JOB(a_cancel_finds_a_body_that_hops)
{
    for (int i = 0; i < 12; i++) {
        count_t n = 0;
        kc_job_t *j = launch(hops_for_ever, &n, NULL);
        UNTIL(get(&n) == 1);
        for (int k = 0; k < i; k++)
            kcoro_yield();
        kc_job_t *by = launch(cancels, j, &(kc_launch_opts_t){ .affinity = i % 2 ? KC_MAIN : 0 });
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        CHECK_EQ(kc_job_join(by), 0);
        kc_job_release(j);
        kc_job_release(by);
    }
    return 0;
}

struct crowd {
    kc_job_t *job[32];
    count_t go, moved;
};

static void *cancels_the_crowd(void *arg)
{
    struct crowd *c = arg;

    UNTIL(get(&c->go));
    for (int i = 0; i < 32; i++)
        if (kc_job_cancel(c->job[i], -EPIPE))
            add(&c->moved);
    return NULL;
}

static int ends_soon(void *arg UNUSED)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < 20; i++)
        rc = i % 5 ? kc_yield() : kc_sleep(KC_US(1));
    return rc;
}

OUTSIDE(cancels_from_several_threads_move_each_job_once_or_not_at_all, s)
{
    struct crowd c = { .go = 0 };
    pthread_t thread[3];
    int cancelled = 0;

    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, cancels_the_crowd, &c), 0);
    for (int i = 0; i < 32; i++)
        c.job[i] = launch(ends_soon, NULL, &(kc_launch_opts_t){ .sched = s });
    set(&c.go, 1);
    for (int i = 0; i < 32; i++) {
        int rc = kc_job_join(c.job[i]);
        CHECK(rc == 0 || rc == -EPIPE);
        cancelled += kc_job_reason(c.job[i]) != 0;
    }
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ(get(&c.moved), cancelled);
    for (int i = 0; i < 32; i++)
        kc_job_release(c.job[i]);
}

enum { LEVELS = 5 };

struct ears {
    kc_job_t *level[LEVELS], *leaf[2];
    count_t go, next;
};

static void *asks_and_emits(void *arg)
{
    struct ears *e = arg;
    int i = add(&e->next);
    kc_sigset_t bit = 1ull << (16 + i);

    UNTIL(get(&e->go));
    kc_signal_t *mine = kc_job_signal(e->leaf[i]);
    kc_signal_emit(kc_job_signal(e->level[0]), bit);
    CHECK(kc_signal_state(mine) & bit);
    return NULL;
}

OUTSIDE(a_signal_that_was_given_out_hears_of_all_above_whichever_thread_asks_for_one, s)
{
    for (long left = kc_test_rounds(50); left > 0; left--) {
        struct ears e = { .go = 0 };
        pthread_t thread[2];
        for (int i = 0; i < LEVELS; i++)
            e.level[i] =
                group(&(kc_launch_opts_t){ .sched = s, .parent = i ? e.level[i - 1] : NULL });
        for (int i = 0; i < 2; i++)
            e.leaf[i] = group(&(kc_launch_opts_t){ .parent = e.level[LEVELS - 1] });
        for (int i = 0; i < 2; i++)
            CHECK_EQ(pthread_create(&thread[i], NULL, asks_and_emits, &e), 0);
        set(&e.go, 1);
        for (int i = 0; i < 2; i++)
            pthread_join(thread[i], NULL);
        kc_job_cancel(e.level[0], 0);
        for (int i = 0; i < LEVELS; i++)
            kc_job_release(e.level[i]);
        for (int i = 0; i < 2; i++)
            kc_job_release(e.leaf[i]);
    }
}

/* ---- the end of a scheduler ----------------------------------------------------------------- */

enum { KINDS = 10 };

struct remains {
    kc_job_t *job[KINDS];
    kc_deferred_t *promise;
    count_t in, disposed;
};

static int parks(void *arg)
{
    add(arg);
    while (!kc_cancelled())
        kcoro_park();
    return 0;
}

static int joins_for_ever(void *arg)
{
    struct remains *r = arg;

    add(&r->in);
    return kc_job_join(r->job[0]);
}

static int yields_for_ever(void *arg)
{
    add(arg);
    while (kc_yield() == 0) {
    }
    return kc_cancel_reason();
}

static int shields_for_a_while(void *arg)
{
    CHECK_EQ(kc_shield_begin(), 0);
    add(arg);
    while (kc_cancel_reason() == 0)
        kcoro_yield();
    CHECK_EQ(kc_sleep(KC_US(50)), 0);
    kc_shield_end();
    return kc_sleep(KC_FOREVER);
}

static int waits_in_scopes(void *arg)
{
    struct remains *r = arg;
    kc_scope_t outer, inner;

    CHECK_EQ(kc_scope_begin(&outer, &(kc_scope_opts_t){ .timeout = KC_SEC(1000) }), 0);
    CHECK_EQ(kc_scope_begin(&inner, &(kc_scope_opts_t){ .max_running = 1 }), 0);
    CHECK_EQ(kc_launch(waits, &r->in), 0);
    CHECK_EQ(kc_launch(never, NULL), 0);
    CHECK_EQ(kc_scope_end(&inner), -ESHUTDOWN);
    CHECK_EQ(kc_scope_end(&outer), -ESHUTDOWN);
    return kc_cancel_reason();
}

static void is_disposed_of(void *arg)
{
    add(&((struct remains *)arg)->disposed);
}

static void leave_everything_open(kc_sched_t *s, struct remains *r)
{
    kc_launch_opts_t o = { .sched = s }, timed = { .sched = s, .timeout = KC_SEC(1000) };
    kc_launch_opts_t apart = { .sched = s, .flags = KC_JOB_DETACHED };
    kc_launch_opts_t unwinds = { .sched = s, .flags = KC_JOB_UNWIND };

    r->job[0] = launch(waits, &r->in, &timed);
    r->job[1] = launch(parks, &r->in, &apart);
    r->job[2] = launch(joins_for_ever, r, &o);
    r->job[3] = launch(yields_for_ever, &r->in, &o);
    r->job[4] = launch(shields_for_a_while, &r->in, &o);
    r->job[5] = launch(waits_in_scopes, r, &o);
    r->job[6] = launch(waits, &r->in, &unwinds);
    r->job[7] = group(&o);
    CHECK_EQ(kc_promise(&o, &r->promise), 0);
    while (get(&r->in) < 7)
        CHECK_GE(kc_sched_poll(s, kc_now()), 0);
    o.affinity = KC_MAIN;
    o.dispose = is_disposed_of;
    r->job[8] = launch(never, r, &o); /* stays queued */
    r->job[9] = launch(never, r, &o);
}

TEST(the_end_of_a_scheduler_ends_everything_with_eshutdown)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        struct remains r = { .in = 0 };
        kc_sched_t *s = NULL;
        CHECK_EQ(kc_sched_create(&opts, &s), 0);
        leave_everything_open(s, &r);
        CHECK_EQ(kc_sched_destroy(s), 0);
        for (int k = 0; k < KINDS; k++) {
            CHECK_EQ(kc_job_reason(r.job[k]), -ESHUTDOWN);
            ended(r.job[k], KC_JOB_CANCELLED, -ESHUTDOWN);
        }
        CHECK_EQ(kc_deferred_state(r.promise), KC_DEFERRED_CANCELLED);
        CHECK_EQ(kc_promise_complete(r.promise, 0, NULL), -ECANCELED);
        kc_deferred_release(r.promise);
        CHECK_EQ(get(&r.disposed), 2);
    }
}

static int launches_after_very_many(void *arg)
{
    kc_sched_t *s = kc_sched_current();

    for (int i = 0; i < kc__roots_count(s); i++)
        kc_store_relaxed(&kc__root_at(s, i)->arrived, UINT64_MAX); /* all have ended */
    CHECK_EQ(kc_launch_job(waits, arg, &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED }, NULL), 0);
    UNTIL(get(arg) == 1);
    return 0;
}

TEST(kc_run_counts_detached_jobs_rightly_however_many_there_have_been)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        count_t n = 0;
        CHECK_EQ(kc_run(launches_after_very_many, &n, &opts), 0);
    }
}

static int submits_the_next(void *arg)
{
    count_t *left = arg;
    kc_sched_t *s = kc_sched_current();
    int other = kc_sched_workers(s) - 1 - kc_worker_index(); /* worker 0 and the last in turns */

    if (get(left) == 0)
        return 0;
    set(left, get(left) - 1);
    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(other), submits_the_next, arg), 0);
    return 0;
}

/* Each task leaves one in the root of its own thread, and then leaves that of the other's. */
TEST(a_scheduler_is_not_idle_while_a_task_goes_from_root_to_root)
{
    kc_sched_t *s;
    count_t left = (int)kc_test_rounds(2000);

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = 4 }, &s), 0);
    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(0), submits_the_next, &left), 0);
    while (!kc__roots_are_idle(s))
        ;
    CHECK_EQ(get(&left), 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static int launches_another(void *arg)
{
    kc_launch_opts_t apart = { .flags = KC_JOB_DETACHED };

    add(arg);
    int rc = kc_launch_job(waits, NULL, &apart, NULL);
    CHECK(rc == 0 || rc == -ECANCELED); /* the end may have begun */
    return waits(NULL);
}

static int ends_when_another_is_launched(void *arg)
{
    kc_launch_opts_t apart = { .flags = KC_JOB_DETACHED };

    CHECK_EQ(kc_launch_job(launches_another, arg, &apart, NULL), 0);
    UNTIL(get(arg) == 1);
    return 0;
}

TEST(kc_run_ends_although_a_detached_job_launches_another_meanwhile)
{
    for (long i = 0, n = kc_test_rounds(5) * KIT_SCHEDS; i < n; i++) {
        kc_sched_opts_t opts = kit_opts((int)(i % KIT_SCHEDS));
        count_t launched = 0;
        CHECK_EQ(kc_run(ends_when_another_is_launched, &launched, &opts), 0);
    }
}

static void *thread_releases_late(void *arg)
{
    struct threads *t = arg;

    UNTIL(kc_job_reason(t->job) == -ESHUTDOWN); /* destroy has begun, and waits for us */
    CHECK_EQ(kc_job_state(t->job), KC_JOB_CANCELLING);
    add(&t->out);
    kc_lease_release(&t->lease);
    return NULL;
}

TEST(the_end_of_a_scheduler_waits_for_leases)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        struct threads t = { .code = 0 };
        pthread_t thread;
        CHECK_EQ(kc_sched_create(&opts, &t.s), 0);
        t.job = group(&(kc_launch_opts_t){ .sched = t.s });
        CHECK_EQ(kc_lease_take(t.job, &t.lease), 0);
        CHECK_EQ(pthread_create(&thread, NULL, thread_releases_late, &t), 0);
        CHECK_EQ(kc_sched_destroy(t.s), 0);
        CHECK_EQ(get(&t.out), 1);
        pthread_join(thread, NULL);
        ended(t.job, KC_JOB_CANCELLED, -ESHUTDOWN);
    }
}

static int forbids_and_waits(void *arg)
{
    kc_forbid_signal();
    add(arg);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), -ESHUTDOWN);
    return 0;
}

static int forbids_when_it_ends(void *arg)
{
    struct threads *t = arg;

    add(&t->in);
    UNTIL(kc_job_reason(t->job) != 0); /* that of the parent, whose shield holds it back */
    kc_forbid_signal();
    set(&t->go, 1);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return 0;
}

static int shields_one_that_forbids(void *arg)
{
    struct threads *t = arg;

    CHECK_EQ(kc_shield_begin(), 0);
    t->job = kc_job_current();
    CHECK_EQ(kc_launch(forbids_when_it_ends, t), 0);
    UNTIL(get(&t->go));
    kc_shield_end();
    return 0;
}

TEST(the_end_of_a_scheduler_reaches_jobs_that_forbid_signals)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        kc_sched_t *s = NULL;
        count_t n = 0;
        CHECK_EQ(kc_sched_create(&opts, &s), 0);
        kc_launch_opts_t o = { .sched = s };
        kc_job_t *j = launch(forbids_and_waits, &n, &o), *g = group(&o);
        o.parent = g;
        kc_job_t *k = launch(forbids_and_waits, &n, &o);
        while (get(&n) < 2)
            CHECK_EQ(kc_sleep(KC_US(50)), 0);
        CHECK(!kc_job_cancel(j, 0));
        CHECK_EQ(kc_sched_destroy(s), 0);
        ended(j, KC_JOB_CANCELLED, -ESHUTDOWN);
        ended(k, KC_JOB_CANCELLED, -ESHUTDOWN);
        kc_job_release(g);
    }
}

TEST(the_end_of_a_scheduler_reaches_a_job_that_forbids_signals_meanwhile)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        struct threads t = { .code = 0 };
        CHECK_EQ(kc_sched_create(&opts, &t.s), 0);
        kc_job_t *j = launch(shields_one_that_forbids, &t, &(kc_launch_opts_t){ .sched = t.s });
        while (get(&t.in) < 1)
            CHECK_EQ(kc_sched_poll(t.s, kc_now()) >= 0, 1);
        CHECK_EQ(kc_sched_destroy(t.s), 0);
        ended(j, KC_JOB_CANCELLED, -ESHUTDOWN);
    }
}

static int destroys_its_own(void *arg)
{
    return kc_sched_destroy(arg) == -EDEADLK ? 0 : 1;
}

OUTSIDE(a_job_cannot_destroy_its_own_scheduler, s)
{
    kc_job_t *j = launch(destroys_its_own, s, &(kc_launch_opts_t){ .sched = s });

    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
}

/* ---- two schedulers ------------------------------------------------------------------------- */

struct pair {
    kc_sched_t *other;
    count_t made, end, gone, in;
    int workers;
};

static void *has_a_scheduler(void *arg)
{
    struct pair *p = arg;
    kc_sched_opts_t opts = { .workers = p->workers };
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    p->other = s;
    set(&p->made, 1);
    while (!get(&p->end))
        CHECK_EQ(kc_sleep(KC_US(50)), 0); /* pumps */
    CHECK_EQ(kc_sched_destroy(s), 0);
    set(&p->gone, 1);
    return NULL;
}

static int is_elsewhere(void *arg)
{
    struct pair *p = arg;

    CHECK_PTR(kc_sched_current(), p->other);
    return 0;
}

static int waits_elsewhere(void *arg)
{
    struct pair *p = arg;

    CHECK_PTR(kc_sched_current(), p->other);
    return waits(&p->in);
}

static void with_a_child_elsewhere(kc_sched_t *s, int workers)
{
    struct pair p = { .workers = workers };
    pthread_t thread;
    kc_lease_t lease;

    CHECK_EQ(pthread_create(&thread, NULL, has_a_scheduler, &p), 0);
    UNTIL(get(&p.made));
    kc_job_t *g = group(&(kc_launch_opts_t){ .sched = s });
    kc_launch_opts_t there = { .parent = g, .sched = p.other };
    CHECK_EQ(kc_lease_take(g, &lease), 0); /* another thread works for s */
    kc_job_t *a = launch(is_elsewhere, &p, &there);
    CHECK_EQ(kc_job_join(a), 0);
    ended(a, KC_JOB_COMPLETED, 0);
    a = launch(waits_elsewhere, &p, &there);
    UNTIL(get(&p.in) == 1);
    CHECK(kc_job_cancel(a, -EPIPE));
    CHECK_EQ(kc_job_join(a), -EPIPE);
    kc_job_release(a);
    a = launch(waits_elsewhere, &p, &there);
    UNTIL(get(&p.in) == 2);
    set(&p.end, 1);
    CHECK_EQ(kc_job_join(a), -ESHUTDOWN); /* its own scheduler ends, not its parent's */
    pthread_join(thread, NULL);
    ended(a, KC_JOB_CANCELLED, -ESHUTDOWN);
    CHECK_EQ(kc_job_state(g), KC_JOB_ACTIVE);
    CHECK_EQ(kc_group_close(g), 0);
    kc_lease_release(&lease);
    CHECK_EQ(kc_job_join(g), 0);
    kc_job_release(g);
}

OUTSIDE(a_child_in_another_scheduler_ends_with_that, s)
{
    with_a_child_elsewhere(s, 1);
    with_a_child_elsewhere(s, KC_NO_WORKERS);
}

/* ---- a launch against a cancel, at the worst moment ------------------------------------------ */

struct late {
    kc_job_t *scope;
    count_t launches, halted, asked;
};

static __thread struct late *launching; /* this thread is about to */

bool __real_kc__job_admit_in(kc_job_t *parent, kc_job_ext_t *ext, kc_job_t *j);
bool __wrap_kc__job_admit_in(kc_job_t *parent, kc_job_ext_t *ext, kc_job_t *j);

/* j is a child; now its parent is cancelled, and has not told its children yet. */
bool __wrap_kc__job_admit_in(kc_job_t *parent, kc_job_ext_t *ext, kc_job_t *j)
{
    struct late *l = launching;

    launching = NULL;
    if (l) {
        set(&l->launches, 1);
        while (!get(&l->halted))
            sched_yield();
    }
    bool may = __real_kc__job_admit_in(parent, ext, j);
    if (l)
        set(&l->asked, 1);
    return may;
}

static void tells_nobody_yet(kc_sigset_t fired UNUSED, kc_signal_t *signal UNUSED, void *arg)
{
    struct late *l = arg;

    set(&l->halted, 1);
    while (!get(&l->asked))
        sched_yield();
}

static void *cancels_meanwhile(void *arg)
{
    struct late *l = arg;
    kc_slot_t slot;

    CHECK_EQ(kc_slot_bind(&slot, kc_job_signal(l->scope), KC_SIG_TERMINATE), 0);
    CHECK(kc_slot_on(&slot, KC_SIG_TERMINATE, tells_nobody_yet, l));
    while (!get(&l->launches))
        sched_yield();
    CHECK(kc_job_cancel(l->scope, -EPIPE));
    kc_slot_unbind(&slot);
    return NULL;
}

IN_A_JOB(a_child_that_comes_while_its_parent_is_cancelled_has_its_reason)
{
    struct late l = { .scope = NULL };
    kc_deferred_t *value;
    kc_scope_t s;
    kc_lease_t lease;
    pthread_t thread;

    CHECK_EQ(kc_lease_take(kc_job_current(), &lease), 0); /* a plain thread is at work */
    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .max_running = 1 }), 0);
    l.scope = kc_scope_job(&s);
    CHECK_EQ(pthread_create(&thread, NULL, cancels_meanwhile, &l), 0);
    launching = &l;
    CHECK_EQ(kc_async(never, NULL, &value), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(kc_scope_end(&s), -EPIPE);
    ended(kc_deferred_job(value), KC_JOB_CANCELLED, -EPIPE);
    kc_lease_release(&lease);
    return 0;
}
