/* SPDX-License-Identifier: MIT */
/*
 * deferred_test.c - who has a value, and who must see to it: oneshots (D5), values with a dispose
 * (D6), kc_deferred_drop.
 */
#include "job_kit.h"

#include <kcoro/collect.h>

/* ---- oneshots ------------------------------------------------------------------------------- */

struct shot {
    kc_deferred_t *value;
    kc_resolver_t *resolver;
};

static struct shot shot(const kc_launch_opts_t *opts)
{
    struct shot s = { NULL, NULL };

    CHECK_EQ(kc_oneshot(opts, &s.value, &s.resolver), 0);
    CHECK(s.value && s.resolver);
    return s;
}

IN_A_JOB(an_await_gets_what_was_resolved)
{
    struct shot s = shot(NULL);
    void *payload = NULL;

    CHECK_EQ(kc_deferred_state(s.value), KC_DEFERRED_PENDING);
    CHECK_EQ(kc_deferred_get(s.value, &payload), -EAGAIN);
    CHECK_EQ(kc_resolve(s.resolver, 0, &s), 0);
    CHECK_EQ(kc_await(s.value, &payload), 0);
    CHECK_PTR(payload, &s);
    CHECK_EQ(kc_await(s.value, &payload), 0);
    CHECK_PTR(payload, &s);
    kc_deferred_release(s.value);
    return 0;
}

static int awaits(void *arg)
{
    return kc_await(arg, NULL);
}

static kc_launch_opts_t supervised(kc_job_t *parent)
{
    return (kc_launch_opts_t){ .parent = parent };
}

static int resolves(void *arg)
{
    CHECK_EQ(kc_resolve(arg, 0, arg), 0);
    return 0;
}

static int drops(void *arg)
{
    kc_resolver_drop(arg);
    return 0;
}

/* Groups whose failures stay theirs. */
static kc_job_t *supervisor(void)
{
    return group(&(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });
}

IN_A_JOB(any_thread_may_resolve_a_oneshot)
{
    for (int i = 0; i < 10; i++) {
        struct shot s = shot(NULL);
        void *payload = NULL;
        pthread_t t = thread_runs(resolves, s.resolver);
        CHECK_EQ(kc_await(s.value, &payload), 0);
        CHECK_PTR(payload, s.resolver);
        CHECK_EQ(pthread_join(t, NULL), 0);
        kc_deferred_release(s.value);
    }
    return 0;
}

IN_A_JOB(an_await_of_a_dropped_resolver_is_epipe)
{
    kc_job_t *g = supervisor();
    kc_launch_opts_t opts = supervised(g);

    for (int i = 0; i < 10; i++) {
        struct shot s = shot(&opts);
        void *payload = &s;
        pthread_t t = thread_runs(drops, s.resolver);
        CHECK_EQ(kc_await(s.value, &payload), -EPIPE);
        CHECK_PTR(payload, NULL);
        CHECK_EQ(kc_await(s.value, NULL), -EPIPE);
        CHECK_EQ(kc_deferred_state(s.value), KC_DEFERRED_FAILED);
        CHECK_EQ(pthread_join(t, NULL), 0);
        kc_deferred_release(s.value);
    }
    kc_resolver_drop(NULL);
    CHECK_EQ(kc_group_close(g), 0);
    CHECK_EQ(kc_job_join(g), 0);
    kc_job_release(g);
    return 0;
}

IN_A_JOB(all_awaiters_get_the_same_answer)
{
    struct shot s = shot(NULL);
    kc_job_t *j[4];

    for (int i = 0; i < 4; i++)
        j[i] = launch(awaits, s.value, NULL);
    for (int i = 0; i < 4; i++)
        UNTIL(kc_load_relaxed(&j[i]->task.kind) == KC_WAIT_JOIN);
    CHECK_EQ(kc_resolve(s.resolver, 0, NULL), 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(kc_job_join(j[i]), 0);
        kc_job_release(j[i]);
    }
    kc_deferred_release(s.value);
    return 0;
}

IN_A_JOB(an_answer_may_be_a_failure_or_a_cancel)
{
    kc_job_t *g = supervisor();
    kc_launch_opts_t opts = supervised(g);
    struct shot s = shot(&opts), t = shot(&opts);

    CHECK_EQ(kc_resolve(s.resolver, -EIO, NULL), 0);
    CHECK_EQ(kc_await(s.value, NULL), -EIO);
    CHECK_EQ(kc_resolve(t.resolver, -ECANCELED, NULL), 0);
    CHECK_EQ(kc_await(t.value, NULL), -ECANCELED);
    CHECK_EQ(kc_deferred_state(t.value), KC_DEFERRED_CANCELLED);
    kc_deferred_release(s.value);
    kc_deferred_release(t.value);
    kc_job_drop(g);
    return 0;
}

IN_A_JOB(when_all_handles_are_released_the_resolver_is_told)
{
    struct shot s = shot(NULL);
    kc_deferred_t *other = kc_deferred_retain(s.value);
    char payload;

    kc_deferred_release(s.value);
    CHECK_EQ(kc_deferred_state(other), KC_DEFERRED_PENDING);
    kc_deferred_release(other);
    CHECK_EQ(kc_resolve(s.resolver, 0, &payload), -ECANCELED);
    s = shot(NULL);
    kc_deferred_release(s.value);
    kc_resolver_drop(s.resolver);
    return 0;
}

IN_A_JOB(when_the_value_is_cancelled_the_resolver_is_told)
{
    struct shot s = shot(NULL);

    CHECK(kc_job_cancel(kc_deferred_job(s.value), 0));
    CHECK_EQ(kc_await(s.value, NULL), -ECANCELED);
    CHECK_EQ(kc_resolve(s.resolver, 0, NULL), -ECANCELED);
    kc_deferred_release(s.value);
    return 0;
}

IN_A_JOB(a_scope_waits_for_a_oneshot)
{
    kc_scope_t scope;
    struct shot s;

    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    s = shot(NULL);
    pthread_t t = thread_runs(resolves, s.resolver);
    CHECK_EQ(kc_scope_end(&scope), 0);
    CHECK_EQ(kc_deferred_state(s.value), KC_DEFERRED_COMPLETED);
    kc_deferred_release(s.value);
    CHECK_EQ(pthread_join(t, NULL), 0);
    return 0;
}

IN_A_JOB(promise_complete_of_a_oneshot_is_einval)
{
    struct shot s = shot(NULL);

    CHECK_EQ(kc_promise_complete(s.value, 0, NULL), -EINVAL);
    CHECK_EQ(kc_resolve(s.resolver, 0, NULL), 0);
    CHECK_EQ(kc_promise_complete(s.value, 0, NULL), -EINVAL);
    kc_deferred_release(s.value);
    return 0;
}

IN_A_JOB(a_oneshot_needs_both_halves)
{
    kc_deferred_t *d = NULL;
    kc_resolver_t *r = NULL;

    CHECK_EQ(kc_oneshot(NULL, NULL, &r), -EINVAL);
    CHECK_EQ(kc_oneshot(NULL, &d, NULL), -EINVAL);
    CHECK_EQ(kc_oneshot(&(kc_launch_opts_t){ .flags = KC_JOB_NOW }, &d, &r), -EINVAL);
    CHECK(!d && !r);
    CHECK_EQ(kc_resolve(NULL, 0, NULL), -EINVAL);
    return 0;
}

OUTSIDE(a_plain_thread_may_have_both_halves, s)
{
    kc_launch_opts_t opts = { .sched = s };
    struct shot a = shot(&opts), b = shot(&opts);

    CHECK_EQ(kc_resolve(a.resolver, 0, NULL), 0);
    CHECK_EQ(kc_await(a.value, NULL), 0);
    kc_deferred_release(a.value);
    kc_deferred_release(b.value);
    CHECK_EQ(kc_resolve(b.resolver, 0, NULL), -ECANCELED);
}

TEST(the_end_of_a_scheduler_cancels_a_oneshot_and_the_resolver_is_told)
{
    kc_sched_t *s;
    struct shot a;

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = 1 }, &s), 0);
    a = shot(&(kc_launch_opts_t){ .sched = s });
    CHECK_EQ(kc_sched_destroy(s), 0);
    CHECK_EQ(kc_deferred_state(a.value), KC_DEFERRED_CANCELLED);
    kc_deferred_release(a.value);
    CHECK_EQ(kc_resolve(a.resolver, 0, NULL), -ECANCELED);
}

static kc_sched_t *make_sched(void)
{
    kc_sched_t *s;

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = 1 }, &s), 0);
    return s;
}

TEST_ABORTS(a_resolver_used_twice_aborts, "kc_resolve: the resolver has been used")
{
    struct shot s = shot(&(kc_launch_opts_t){ .sched = make_sched() });

    CHECK_EQ(kc_resolve(s.resolver, 0, NULL), 0);
    (void)kc_resolve(s.resolver, 0, NULL);
}

TEST_ABORTS(a_resolver_dropped_after_use_aborts, "kc_resolver_drop: the resolver has been used")
{
    struct shot s = shot(&(kc_launch_opts_t){ .sched = make_sched() });

    CHECK_EQ(kc_resolve(s.resolver, 0, NULL), 0);
    kc_resolver_drop(s.resolver);
}

TEST_ABORTS(an_old_resolver_is_recognised_when_its_memory_is_another_ones, "has been used")
{
    kc_launch_opts_t opts = { .sched = make_sched() };
    struct shot old = shot(&opts);

    CHECK_EQ(kc_resolve(old.resolver, 0, NULL), 0);
    for (int i = 0; i < 100000; i++) {
        struct shot s = shot(&opts);
        if ((uintptr_t)s.resolver / KC_BLOCK_SIZE == (uintptr_t)old.resolver / KC_BLOCK_SIZE)
            (void)kc_resolve(old.resolver, 0, NULL);
        CHECK_EQ(kc_resolve(s.resolver, 0, NULL), 0);
        kc_deferred_release(s.value);
    }
}

/* ---- races of the two halves ---------------------------------------------------------------- */

struct halves {
    struct shot shot;
    count_t go;
    int rc;
};

static int resolves_when_told(void *arg)
{
    struct halves *h = arg;

    UNTIL(get(&h->go));
    h->rc = kc_resolve(h->shot.resolver, 0, NULL);
    return 0;
}

IN_A_JOB(both_halves_of_a_oneshot_may_go_at_the_same_time)
{
    for (long i = 0; i < kc_test_rounds(20) && kc_test_has_time(); i++) {
        struct halves h = { .shot = shot(NULL), .rc = 1 };
        pthread_t t = thread_runs(resolves_when_told, &h);
        set(&h.go, 1);
        kc_deferred_release(h.shot.value);
        CHECK_EQ(pthread_join(t, NULL), 0);
        CHECK(h.rc == 0 || h.rc == -ECANCELED);
    }
    return 0;
}

/* ---- kc_deferred_drop ----------------------------------------------------------------------- */

IN_A_JOB(a_drop_cancels_and_releases)
{
    count_t n = 0;
    kc_deferred_t *d;

    CHECK_EQ(kc_async(waits, &n, &d), 0);
    kc_job_t *j = kc_job_retain(kc_deferred_job(d));
    UNTIL(get(&n));
    kc_deferred_drop(d);
    kc_deferred_drop(NULL);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    ended(j, KC_JOB_CANCELLED, -ECANCELED);
    return 0;
}

TEST_ABORTS(a_drop_of_what_is_gone_aborts, "kc_deferred_drop: the job has been freed")
{
    struct shot s = shot(&(kc_launch_opts_t){ .sched = make_sched() });

    CHECK_EQ(kc_resolve(s.resolver, 0, NULL), 0);
    kc_deferred_drop(s.value);
    kc_deferred_drop(s.value);
}

/* ---- values that are disposed of ------------------------------------------------------------ */

struct value {
    count_t disposed;
    kc_job_t *in; /* the current job then */
};

static void disposes(void *arg)
{
    struct value *v = arg;

    v->in = kc_job_current();
    add(&v->disposed);
}

static int gives(void *arg)
{
    kc_set_payload_with(arg, disposes);
    return 0;
}

static kc_deferred_t *async(kc_fn_t fn, void *arg, kc_job_t *parent)
{
    kc_deferred_t *d;

    CHECK_EQ(kc_async_job(fn, arg, &(kc_launch_opts_t){ .parent = parent }, &d), 0);
    return d;
}

IN_A_JOB(a_value_that_nobody_takes_is_disposed_of_with_the_last_handle)
{
    struct value v = { 0 };
    kc_deferred_t *d = async(gives, &v, NULL), *e = kc_deferred_retain(d);

    CHECK_EQ(kc_await(d, NULL), 0); /* takes nothing */
    CHECK_EQ(kc_deferred_get(d, NULL), 0);
    CHECK_EQ(get(&v.disposed), 0);
    kc_deferred_release(d);
    CHECK_EQ(get(&v.disposed), 0);
    UNTIL(kc_load_relaxed(&kc_deferred_job(e)->refs) == 1); /* who has ended it may have one */
    kc_deferred_release(e);
    CHECK_EQ(get(&v.disposed), 1);
    return 0;
}

IN_A_JOB(a_value_that_is_awaited_or_got_is_not_disposed_of)
{
    struct value v = { 0 }, w = { 0 };
    kc_deferred_t *d = async(gives, &v, NULL), *e = async(gives, &w, NULL);
    void *payload;

    CHECK_EQ(kc_await(d, &payload), 0);
    CHECK_PTR(payload, &v);
    CHECK_EQ(kc_await(e, NULL), 0);
    CHECK_EQ(kc_deferred_get(e, &payload), 0);
    CHECK_PTR(payload, &w);
    CHECK_EQ(kc_await(d, &payload), 0); /* again, and it is the same */
    CHECK_PTR(payload, &v);
    kc_deferred_release(d);
    kc_deferred_release(e);
    CHECK_EQ(get(&v.disposed) + get(&w.disposed), 0);
    return 0;
}

static struct value unwanted;

static int launches_without_a_handle(void *arg UNUSED)
{
    return kc_launch(gives, &unwanted);
}

IN_A_JOB(a_value_without_a_handle_is_disposed_of_when_its_job_has_ended)
{
    set(&unwanted.disposed, 0);
    CHECK_EQ(kc_scope(launches_without_a_handle, NULL, NULL), 0);
    UNTIL(get(&unwanted.disposed));
    CHECK_EQ(get(&unwanted.disposed), 1);
    CHECK_PTR(unwanted.in, NULL); /* as nobody's body (S16) */
    return 0;
}

static int gives_and_fails(void *arg)
{
    kc_set_payload_with(arg, disposes);
    return -EIO;
}

static int gives_and_waits(void *arg)
{
    struct value *v = arg;

    kc_set_payload_with(v, disposes);
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(a_job_that_does_not_complete_disposes_of_its_value_when_it_ends)
{
    struct value v = { 0 }, w = { 0 };
    kc_job_t *g = supervisor();
    kc_deferred_t *d = async(gives_and_fails, &v, g), *e = async(gives_and_waits, &w, g);
    void *payload = &v;

    CHECK_EQ(kc_await(d, &payload), -EIO);
    CHECK_PTR(payload, NULL);
    CHECK_EQ(get(&v.disposed), 1); /* before anybody knows of the end */
    CHECK_PTR(v.in, NULL);
    UNTIL(kc_load_relaxed(&kc_deferred_job(e)->task.kind) == KC_WAIT_FOREVER);
    kc_job_cancel(kc_deferred_job(e), 0);
    CHECK_EQ(kc_await(e, &payload), -ECANCELED);
    CHECK_EQ(get(&w.disposed), 1);
    CHECK_EQ(kc_deferred_get(e, &payload), -ECANCELED);
    kc_deferred_release(d);
    kc_deferred_release(e);
    CHECK_EQ(get(&v.disposed) + get(&w.disposed), 2); /* once each */
    kc_job_drop(g);
    return 0;
}

static int gives_and_must_not_return(void *arg)
{
    kc_set_payload_with(arg, disposes);
    (void)!kc_sleep(KC_FOREVER);
    FAIL("an unwound body went on");
}

IN_A_JOB(an_unwound_job_disposes_of_its_value)
{
    struct value v = { 0 };
    kc_deferred_t *d;

    CHECK_EQ(kc_async_job(gives_and_must_not_return, &v,
                          &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND }, &d),
             0);
    UNTIL(kc_load_relaxed(&kc_deferred_job(d)->task.kind) == KC_WAIT_FOREVER);
    kc_job_cancel(kc_deferred_job(d), 0);
    CHECK_EQ(kc_await(d, NULL), -ECANCELED);
    CHECK_EQ(get(&v.disposed), 1);
    kc_deferred_release(d);
    CHECK_EQ(get(&v.disposed), 1);
    return 0;
}

static int replaces(void *arg)
{
    struct value *v = arg;

    kc_set_payload_with(&v[0], disposes);
    kc_set_payload_with(&v[1], disposes);
    CHECK_EQ(get(&v[0].disposed), 1);
    kc_set_payload(&v[2]);
    CHECK_EQ(get(&v[1].disposed), 1);
    kc_set_payload_with(&v[3], disposes);
    kc_set_payload_with(&v[3], disposes); /* the same */
    CHECK_EQ(get(&v[2].disposed), 0);
    CHECK_EQ(get(&v[3].disposed), 0);
    kc_set_payload_with(NULL, disposes);
    CHECK_EQ(get(&v[3].disposed), 1);
    kc_set_payload_with(&v[4], disposes);
    kc_set_payload(&v[4]); /* nobody's any more */
    return 0;
}

IN_A_JOB(a_value_that_is_replaced_is_disposed_of_at_once)
{
    static const int times[5] = { 1, 1, 0, 1, 0 };
    struct value v[5];
    void *payload;

    memset(v, 0, sizeof v);
    kc_deferred_t *d = async(replaces, v, NULL);
    CHECK_EQ(kc_await(d, NULL), 0);
    CHECK_EQ(kc_deferred_get(d, &payload), 0);
    CHECK_PTR(payload, &v[4]);
    kc_deferred_release(d);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(get(&v[i].disposed), times[i]);
    return 0;
}

static int gives_in_a_scope(void *arg)
{
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    kc_set_payload_with(arg, disposes);
    CHECK_EQ(kc_scope_end(&s), 0);
    return 0;
}

IN_A_JOB(a_value_set_in_a_scope_is_the_coroutines_own)
{
    struct value v = { 0 };
    kc_deferred_t *d = async(gives_in_a_scope, &v, NULL);
    void *payload;

    CHECK_EQ(kc_await(d, &payload), 0);
    CHECK_PTR(payload, &v);
    kc_deferred_release(d);
    CHECK_EQ(get(&v.disposed), 0);
    return 0;
}

IN_A_JOB(what_collect_hands_over_is_taken)
{
    struct value v[3];
    kc_call_t calls[3];

    memset(v, 0, sizeof v);
    for (int i = 0; i < 3; i++)
        calls[i] = (kc_call_t){ .fn = gives, .arg = &v[i] };
    CHECK_EQ(kc_all(calls, 3, 0), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_PTR(calls[i].payload, &v[i]);
        CHECK_EQ(get(&v[i].disposed), 0);
    }
    return 0;
}

IN_A_JOB(what_collect_does_not_hand_over_is_disposed_of)
{
    struct value v[2] = { { 0 }, { 0 } };
    kc_call_t calls[2] = { { .fn = gives, .arg = &v[0] },
                           { .fn = gives_and_fails, .arg = &v[1] } };

    CHECK_EQ(kc_all(calls, 2, 0), -EIO);
    CHECK_PTR(calls[0].payload, &v[0]);
    CHECK_PTR(calls[1].payload, NULL);
    CHECK_EQ(get(&v[0].disposed), 0);
    UNTIL(get(&v[1].disposed));
    CHECK_EQ(get(&v[1].disposed), 1);
    return 0;
}

static int gives_and_returns_0_when_cancelled(void *arg)
{
    kc_set_payload_with(arg, disposes);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return 0;
}

IN_A_JOB(what_a_cancelled_call_has_done_is_handed_over_and_taken)
{
    struct value v[2] = { { 0 }, { 0 } };
    kc_call_t calls[2] = { { .fn = gives_and_returns_0_when_cancelled, .arg = &v[0] },
                           { .fn = gives_and_fails, .arg = &v[1] } };

    CHECK_EQ(kc_all_fail_fast(calls, 2), -EIO);
    if (calls[0].rc == 0)
        CHECK_PTR(calls[0].payload, &v[0]);
    else
        CHECK_PTR(calls[0].payload, NULL); /* it was cancelled before it had begun */
    CHECK_EQ(get(&v[0].disposed), 0);
    UNTIL(get(&v[1].disposed));
    return 0;
}

static void sleeps(void *arg UNUSED)
{
    (void)!kc_sleep(KC_MS(1));
}

static int disposes_and_sleeps(void *arg UNUSED)
{
    kc_set_payload_with(&unwanted, sleeps);
    kc_set_payload(NULL);
    return 0;
}

TEST_ABORTS(a_dispose_that_waits_aborts, "kc_sleep: waits inside a handler or dispose")
{
    run_named(disposes_and_sleeps, "waits");
}

TEST_ABORTS(a_value_outside_a_job_aborts, "kc_set_payload_with: there is no current job")
{
    kc_set_payload_with(NULL, sleeps);
}

static bool fails_always(const char *what UNUSED)
{
    return true;
}

static int gives_without_memory(void *arg)
{
    kc__os_fault = fails_always;
    kc_set_payload_with(arg, disposes);
    kc__os_fault = NULL;
    CHECK(kc_cancelled());
    return 0;
}

static int awaits_without_memory(void *arg UNUSED)
{
    struct value v = { 0 };
    kc_job_t *g = supervisor();
    kc_launch_opts_t opts = { .parent = g };
    kc_deferred_t *d;
    void *payload = &v;

    CHECK_EQ(kc_async_job(gives_without_memory, &v, &opts, &d), 0);
    CHECK_EQ(kc_await(d, &payload), -ENOMEM);
    CHECK_PTR(payload, NULL);
    CHECK_EQ(get(&v.disposed), 1);
    kc_deferred_release(d);
    CHECK_EQ(get(&v.disposed), 1);
    kc_job_drop(g);
    return 0;
}

TEST(without_memory_a_value_is_disposed_of_and_its_job_fails)
{
    CHECK_EQ(kc_run(awaits_without_memory, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
             0);
}

/* ---- who takes, and who gives up, at the same time ------------------------------------------- */

struct takers {
    struct value value;
    kc_deferred_t *d;
    count_t go, taken;
};

static int takes_and_releases(void *arg)
{
    struct takers *t = arg;
    void *payload = NULL;

    UNTIL(get(&t->go));
    if (kc_deferred_get(t->d, &payload) == 0 && payload)
        add(&t->taken);
    kc_deferred_release(t->d);
    return 0;
}

IN_A_JOB(a_value_is_taken_or_disposed_of_whatever_the_order)
{
    for (long i = 0; i < kc_test_rounds(10) && kc_test_has_time(); i++) {
        struct takers t = { .value = { 0 } };
        pthread_t a, b;
        t.d = async(gives, &t.value, NULL);
        kc_job_t *j = kc_deferred_job(t.d);
        kc_deferred_retain(t.d);
        kc_job_retain(j);
        a = thread_runs(takes_and_releases, &t);
        b = thread_runs(takes_and_releases, &t);
        set(&t.go, 1);
        CHECK_EQ(kc_job_join(j), 0);
        CHECK_EQ(pthread_join(a, NULL), 0);
        CHECK_EQ(pthread_join(b, NULL), 0);
        UNTIL(kc_load_relaxed(&j->refs) == 1);
        CHECK_EQ(get(&t.value.disposed), 0);
        kc_job_release(j);
        CHECK_EQ(get(&t.value.disposed), get(&t.taken) == 0);
    }
    return 0;
}
