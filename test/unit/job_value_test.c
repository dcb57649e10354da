/* SPDX-License-Identifier: MIT */
/*
 * job_value_test.c - deferred values and promises (D1-D4), groups and leases (J9, J14), locals
 * (J26), KC_JOB_NOW and KC_JOB_MIGRATE (J19, J20), forbid (J24).
 */
#include "job_kit.h"

static const kc_launch_opts_t apart = { .flags = KC_JOB_DETACHED };

/* ---- deferred values ------------------------------------------------------------------------ */

static int gives(void *arg)
{
    kc_set_payload(arg);
    return 0;
}

static int gives_and_fails(void *arg)
{
    kc_set_payload(arg);
    return -EIO;
}

static int gives_in_a_scope(void *arg)
{
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    kc_set_payload(arg);
    CHECK_EQ(kc_scope_end(&s), 0);
    return 0;
}

IN_A_JOB(await_gives_0_and_the_payload)
{
    int value = 0;
    void *payload = NULL;
    kc_deferred_t *d, *e;

    CHECK_EQ(kc_async(gives, &value, &d), 0);
    CHECK_EQ(kc_await(d, &payload), 0);
    CHECK_PTR(payload, &value);
    payload = NULL;
    CHECK_EQ(kc_await(d, &payload), 0); /* as often as one likes */
    CHECK_PTR(payload, &value);
    CHECK_EQ(kc_await(d, NULL), 0);
    CHECK_EQ(kc_deferred_get(d, &payload), 0);
    CHECK_PTR(payload, &value);
    CHECK_EQ(kc_deferred_state(d), KC_DEFERRED_COMPLETED);
    CHECK_EQ(kc_job_state(kc_deferred_job(d)), KC_JOB_COMPLETED);
    CHECK_EQ(kc_async_job(gives_in_a_scope, &value, &(kc_launch_opts_t){ .name = "n" }, &e), 0);
    CHECK_EQ(kc_await(e, &payload), 0);
    CHECK_PTR(payload, &value); /* D4: the coroutine's own, also inside a scope */
    CHECK_STR(kc_job_name(kc_deferred_job(e)), "n");
    kc_deferred_release(kc_deferred_retain(d));
    kc_deferred_release(d);
    kc_deferred_release(e);
    kc_deferred_release(NULL);
    return 0;
}

static int awaits_a_failure(void *arg)
{
    kc_deferred_t *d;
    void *payload = arg;

    CHECK_EQ(kc_async(gives_and_fails, arg, &d), 0);
    int rc = kc_await(d, &payload);
    CHECK(rc == -EIO || rc == -ECANCELED); /* it may have failed before */
    CHECK_PTR(payload, NULL);
    UNTIL(kc_deferred_state(d) == KC_DEFERRED_FAILED);
    payload = arg;
    CHECK_EQ(kc_deferred_get(d, &payload), -EIO);
    CHECK_PTR(payload, NULL);
    kc_deferred_release(d);
    return 0;
}

IN_A_JOB(await_of_a_failure_gives_its_code_and_null)
{
    int value = 0;
    kc_job_t *j = launch(awaits_a_failure, &value, &apart);

    CHECK_EQ(kc_job_join(j), -EIO);
    kc_job_release(j);
    kc_scope_t s;
    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .flags = KC_JOB_SUPERVISOR }), 0);
    kc_deferred_t *d;
    void *payload = &value;
    CHECK_EQ(kc_async(gives_and_fails, &value, &d), 0);
    CHECK_EQ(kc_await(d, &payload), -EIO);
    CHECK_PTR(payload, NULL);
    kc_deferred_release(d);
    CHECK_EQ(kc_scope_end(&s), 0);
    return 0;
}

struct awaited {
    kc_deferred_t *d;
    count_t in, out;
};

static int awaits(void *arg)
{
    struct awaited *a = arg;
    void *payload = NULL;

    add(&a->in);
    int rc = kc_await(a->d, &payload);
    CHECK_PTR(payload, rc == 0 ? a : NULL);
    add(&a->out);
    return rc;
}

IN_A_JOB(a_cancelled_awaiter_gets_ecanceled_and_the_deferred_continues)
{
    struct awaited a = { 0 };
    void *payload = NULL;

    CHECK_EQ(kc_promise(NULL, &a.d), 0);
    kc_job_t *j = launch(awaits, &a, NULL);
    UNTIL(get(&a.in));
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    CHECK_EQ(kc_deferred_get(a.d, &payload), -EAGAIN);
    CHECK_EQ(kc_promise_complete(a.d, 0, &a), 0);
    CHECK_EQ(kc_await(a.d, &payload), 0);
    CHECK_PTR(payload, &a);
    kc_deferred_release(a.d);
    return 0;
}

IN_A_JOB(thirty_two_awaiters_are_each_woken_once)
{
    struct awaited a = { 0 };
    kc_scope_t s;

    CHECK_EQ(kc_promise(NULL, &a.d), 0);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    for (int i = 0; i < 32; i++)
        CHECK_EQ(kc_launch(awaits, &a), 0);
    UNTIL(get(&a.in) == 32);
    CHECK_EQ(get(&a.out), 0);
    CHECK_EQ(kc_promise_complete(a.d, 0, &a), 0);
    CHECK_EQ(kc_scope_end(&s), 0);
    CHECK_EQ(get(&a.out), 32);
    kc_deferred_release(a.d);
    return 0;
}

IN_A_JOB(an_async_without_a_handle_runs_all_the_same)
{
    count_t n = 0;
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_async(counts, &n, NULL), 0);
    CHECK_EQ(kc_scope_end(&s), 0);
    CHECK_EQ(get(&n), 1);
    return 0;
}

/* ---- promises ------------------------------------------------------------------------------- */

IN_A_JOB(a_promise_is_kept_once)
{
    int value = 0;
    void *payload = &value;
    kc_deferred_t *d;

    CHECK_EQ(kc_promise(NULL, &d), 0);
    CHECK_EQ(kc_deferred_state(d), KC_DEFERRED_PENDING);
    CHECK_EQ(kc_promise_complete(d, 0, &value), 0);
    CHECK_EQ(kc_promise_complete(d, 0, NULL), -EALREADY);
    CHECK_EQ(kc_promise_complete(d, -EIO, NULL), -EALREADY);
    CHECK(!kc_job_cancel(kc_deferred_job(d), 0));
    CHECK_EQ(kc_deferred_state(d), KC_DEFERRED_COMPLETED);
    kc_deferred_release(d);

    CHECK_EQ(kc_promise(NULL, &d), 0);
    CHECK_EQ(kc_promise_complete(d, -ECANCELED, &value), 0);
    CHECK_EQ(kc_deferred_state(d), KC_DEFERRED_CANCELLED);
    CHECK_EQ(kc_deferred_get(d, &payload), -ECANCELED);
    CHECK_PTR(payload, NULL);
    CHECK_EQ(kc_job_reason(kc_deferred_job(d)), -ECANCELED);
    CHECK_EQ(kc_promise_complete(d, 0, &value), -EALREADY);
    kc_deferred_release(d);

    CHECK_EQ(kc_promise(NULL, &d), 0);
    CHECK(kc_job_cancel(kc_deferred_job(d), -EPIPE));
    CHECK_EQ(kc_deferred_state(d), KC_DEFERRED_CANCELLED); /* at once */
    CHECK_EQ(kc_promise_complete(d, 0, &value), -ECANCELED);
    CHECK_EQ(kc_deferred_get(d, &payload), -EPIPE);
    kc_deferred_release(d);
    CHECK_EQ(kc_check(), 0);
    return 0;
}

static int has_a_promise(void *arg)
{
    struct awaited *a = arg;

    CHECK_EQ(kc_promise(NULL, &a->d), 0);
    add(&a->in);
    return 0;
}

static kc_job_t *launch_one_with_a_promise(struct awaited *a)
{
    set(&a->in, 0);
    kc_job_t *j = launch(has_a_promise, a, NULL);
    UNTIL(get(&a->in));
    CHECK_EQ(kc_job_join_until(j, kc_now() + KC_US(100)), -ETIMEDOUT); /* it waits for it */
    return j;
}

IN_A_JOB(a_promise_is_a_child_like_any_other)
{
    struct awaited a = { 0 };
    kc_job_t *j = launch_one_with_a_promise(&a);

    CHECK_EQ(kc_promise_complete(a.d, 0, NULL), 0);
    CHECK_EQ(kc_job_join(j), 0);
    kc_deferred_release(a.d);
    kc_job_release(j);
    j = launch_one_with_a_promise(&a);
    kc_deferred_release(a.d); /* the last release of a pending one cancels it */
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    j = launch_one_with_a_promise(&a);
    CHECK(kc_job_cancel(j, -EPIPE)); /* a cancel from above reaches it */
    CHECK_EQ(kc_job_join(j), -EPIPE);
    CHECK_EQ(kc_deferred_get(a.d, NULL), -EPIPE);
    kc_deferred_release(a.d);
    kc_job_release(j);
    CHECK_EQ(kc_promise(&(kc_launch_opts_t){ .timeout = KC_US(100) }, &a.d), 0);
    CHECK_EQ(kc_await(a.d, NULL), -ETIMEDOUT);
    CHECK_EQ(kc_promise_complete(a.d, 0, NULL), -ECANCELED);
    kc_deferred_release(a.d);
    return 0;
}

struct race {
    kc_deferred_t *d;
    count_t go, kept;
};

static void *keeps_it(void *arg)
{
    struct race *r = arg;

    UNTIL(get(&r->go));
    int rc = kc_promise_complete(r->d, 0, r);
    CHECK(rc == 0 || rc == -ECANCELED);
    set(&r->kept, rc == 0 ? 1 : 2);
    return NULL;
}

OUTSIDE(of_keeping_and_cancelling_a_promise_exactly_one_happens, s)
{
    for (int i = 0; i < 8; i++) {
        struct race r = { 0 };
        pthread_t thread;
        void *payload = NULL;
        CHECK_EQ(kc_promise(&(kc_launch_opts_t){ .sched = s }, &r.d), 0);
        CHECK_EQ(pthread_create(&thread, NULL, keeps_it, &r), 0);
        set(&r.go, 1);
        for (int k = i * 40; k > 0; k--)
            kc_store_release(&r.go, 1);
        kc_job_cancel(kc_deferred_job(r.d), 0);
        int rc = kc_await(r.d, &payload);
        pthread_join(thread, NULL);
        CHECK_EQ(rc, get(&r.kept) == 1 ? 0 : -ECANCELED);
        CHECK_PTR(payload, get(&r.kept) == 1 ? &r : NULL);
        kc_deferred_release(r.d);
    }
}

/* ---- groups --------------------------------------------------------------------------------- */

static void *launches_from_a_thread(void *arg)
{
    kc_launch_opts_t opts = { .parent = kc_job_current() ? NULL : ((kc_job_t **)arg)[0] };

    for (int i = 0; i < 10; i++)
        CHECK_EQ(kc_launch_job(counts, ((kc_job_t **)arg)[1], &opts, NULL), 0);
    return NULL;
}

IN_A_JOB(a_group_ends_when_it_is_closed_and_its_children_have_ended)
{
    count_t n = 0, go = 0;
    kc_job_t *g = group(&(kc_launch_opts_t){ .name = "g" });
    kc_launch_opts_t into = { .parent = g };
    void *both[] = { g, &n };
    pthread_t thread;

    CHECK_STR(kc_job_name(g), "g");
    CHECK_EQ(pthread_create(&thread, NULL, launches_from_a_thread, both), 0);
    pthread_join(thread, NULL);
    kc_job_t *j = launch(until_set, &go, &into);
    UNTIL(get(&n) == 10);
    CHECK_EQ(kc_job_join_until(g, kc_now() + KC_US(100)), -ETIMEDOUT);
    CHECK_EQ(kc_group_close(g), 0);
    CHECK_EQ(kc_group_close(g), 0); /* as often as one likes */
    CHECK_EQ(kc_launch_job(never, NULL, &into, NULL), -ESHUTDOWN);
    CHECK_EQ(kc_job_state(g), KC_JOB_ACTIVE);
    set(&go, 1);
    CHECK_EQ(kc_job_join(g), 0);
    ended(j, KC_JOB_COMPLETED, 0);
    ended(g, KC_JOB_COMPLETED, 0);
    CHECK_EQ(kc_group_close(NULL), -EINVAL);
    CHECK_EQ(kc_group_close(kc_job_current()), -EINVAL);
    return 0;
}

IN_A_JOB(cancelling_a_group_closes_it)
{
    count_t n = 0;
    kc_job_t *g = group(NULL);
    kc_launch_opts_t into = { .parent = g };

    CHECK_EQ(kc_launch_job(waits, &n, &into, NULL), 0);
    UNTIL(get(&n) == 1);
    CHECK(kc_job_cancel(g, -EPIPE));
    int rc = kc_launch_job(never, NULL, &into, NULL);
    CHECK(rc == -ECANCELED || rc == -ESHUTDOWN);
    CHECK_EQ(kc_job_join(g), -EPIPE);
    CHECK_EQ(kc_launch_job(never, NULL, &into, NULL), -ESHUTDOWN);
    ended(g, KC_JOB_CANCELLED, -EPIPE);

    g = group(NULL); /* an empty one ends at once */
    CHECK(kc_job_cancel(g, 0));
    ended(g, KC_JOB_CANCELLED, -ECANCELED);
    g = group(&apart); /* a failing child ends it, and its launches are refused then */
    into.parent = g;
    CHECK_EQ(kc_launch_job(returns, CODE(4), &into, NULL), 0);
    CHECK_EQ(kc_job_join(g), 4);
    CHECK_EQ(kc_launch_job(never, NULL, &into, NULL), -ESHUTDOWN);
    ended(g, KC_JOB_FAILED, 4);
    return 0;
}

/* ---- leases --------------------------------------------------------------------------------- */

struct leased {
    kc_lease_t lease, second;
    kc_job_t *job;
    kc_fn_t fn;
    count_t taken, go, in;
};

static void *releases(void *arg)
{
    struct leased *l = arg;

    UNTIL(get(&l->go));
    kc_lease_release(&l->lease);
    kc_lease_release(&l->lease); /* not held: left alone */
    return NULL;
}

static int takes_a_lease(void *arg)
{
    struct leased *l = arg;

    CHECK_EQ(kc_lease_take(kc_job_current(), &l->lease), 0);
    set(&l->taken, 1);
    return 0;
}

IN_A_JOB(a_lease_keeps_a_job_open_and_any_thread_may_release_it)
{
    for (int i = 0; i < 10; i++) {
        struct leased l = { .go = 0 };
        pthread_t thread;
        kc_job_t *j = launch(takes_a_lease, &l, NULL);
        UNTIL(get(&l.taken));
        CHECK_EQ(kc_job_join_until(j, kc_now() + KC_US(100)), -ETIMEDOUT);
        CHECK_EQ(kc_job_state(j), KC_JOB_ACTIVE);
        CHECK_EQ(pthread_create(&thread, NULL, releases, &l), 0);
        set(&l.go, 1);
        CHECK_EQ(kc_job_join(j), 0);
        pthread_join(thread, NULL);
        CHECK_EQ(kc_lease_take(j, &l.lease), -ESHUTDOWN);
        ended(j, KC_JOB_COMPLETED, 0);
    }
    return 0;
}

IN_A_JOB(a_leased_job_can_be_cancelled_and_launched_into)
{
    struct leased l = { .go = 0 };
    count_t n = 0;
    kc_job_t *j = launch(takes_a_lease, &l, NULL);

    UNTIL(get(&l.taken));
    CHECK_EQ(kc_launch_job(counts, &n, &(kc_launch_opts_t){ .parent = j }, NULL), 0);
    UNTIL(get(&n) == 1);
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join_until(j, kc_now() + KC_US(100)), -ETIMEDOUT);
    CHECK_EQ(kc_job_state(j), KC_JOB_CANCELLING);
    kc_lease_release(&l.lease);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    kc_lease_release(NULL);
    return 0;
}

static void is_disposed_of(void *arg)
{
    add(arg);
}

IN_A_JOB(a_leased_job_that_never_started_is_disposed_of_once)
{
    struct leased l = { .go = 0 };
    count_t disposed = 0;
    kc_launch_opts_t opts = { .affinity = KC_MAIN, .dispose = is_disposed_of };
    kc_job_t *j = launch(never, &disposed, &opts);

    CHECK_EQ(kc_lease_take(j, &l.lease), 0);
    CHECK(kc_job_cancel(j, 0));
    UNTIL(get(&disposed) == 1);
    CHECK_EQ(kc_job_state(j), KC_JOB_CANCELLING);
    kc_lease_release(&l.lease);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&disposed), 1);
    kc_job_release(j);
    return 0;
}

IN_A_JOB(a_scope_waits_for_its_leases)
{
    struct leased l = { .go = 0 };
    pthread_t thread;
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    takes_a_lease(&l);
    CHECK_EQ(pthread_create(&thread, NULL, releases, &l), 0);
    set(&l.go, 1);
    CHECK_EQ(kc_scope_end(&s), 0);
    CHECK_PTR(l.lease.job, NULL);
    pthread_join(thread, NULL);
    return 0;
}

static count_t handled;

static void notes_the_thread(kc_sigset_t fired UNUSED, kc_signal_t *s UNUSED, void *arg UNUSED)
{
    CHECK(kc_worker_index() != -ENOENT); /* one of the scheduler's */
    add(&handled);
}

static int fails_leased(void *arg)
{
    struct leased *l = arg;

    CHECK_EQ(kc_lease_take(kc_job_current(), &l->second), 0);
    takes_a_lease(arg);
    return -EIO;
}

/* It is its child that is leased, which does not fail. */
static int fails_above_a_lease(void *arg)
{
    struct leased *l = arg;
    kc_job_t *g = group(NULL);

    CHECK_EQ(kc_lease_take(g, &l->second), 0);
    CHECK_EQ(kc_lease_take(g, &l->lease), 0);
    kc_job_release(g);
    set(&l->taken, 1);
    return -EIO;
}

static int hears_of_its_child(void *arg)
{
    struct leased *l = arg;

    CHECK(kc_slot_on(kc_current_slot(), KC_SIG_TERMINATE, notes_the_thread, NULL));
    l->job = launch(l->fn, l, NULL);
    return waits(&l->in);
}

static void *releases_the_second(void *arg)
{
    struct leased *l = arg;

    UNTIL(get(&l->go));
    kc_lease_release(&l->second);
    return NULL;
}

static void two_release(kc_fn_t fn)
{
    struct leased l = { .fn = fn };
    pthread_t thread[2];
    kc_job_t *j = launch(hears_of_its_child, &l, &apart);

    set(&handled, 0);
    UNTIL(get(&l.in) && get(&l.taken));
    UNTIL(kc_job_state(l.job) == KC_JOB_CANCELLING); /* its body has failed */
    CHECK_EQ(pthread_create(&thread[0], NULL, releases, &l), 0);
    CHECK_EQ(pthread_create(&thread[1], NULL, releases_the_second, &l), 0);
    set(&l.go, 1);
    CHECK_EQ(kc_job_join(j), -EIO);
    CHECK_EQ(get(&handled), 1);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    kc_job_release(l.job);
    kc_job_release(j);
}

IN_A_JOB(the_release_of_a_lease_runs_no_code_of_the_user)
{
    for (int i = 0; i < 50; i++)
        two_release(i % 2 ? fails_leased : fails_above_a_lease);
    return 0;
}

/* ---- locals --------------------------------------------------------------------------------- */

static char key_a, key_b;

static int inherits(void *arg)
{
    CHECK_PTR(kc_local_get(&key_a), arg);
    CHECK_PTR(kc_local_get(&key_b), NULL);
    CHECK_EQ(kc_local_set(&key_a, &key_a), 0);
    CHECK_EQ(kc_local_set(&key_b, &key_b), 0);
    CHECK_PTR(kc_local_get(&key_a), &key_a);
    return 0;
}

static int gets(void *arg)
{
    CHECK_PTR(kc_local_get(&key_a), arg);
    return 0;
}

IN_A_JOB(a_local_that_is_set_again_is_changed_in_place_unless_a_child_has_inherited_it)
{
    char values[3];
    kc_job_t *child[2];

    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kc_local_set(&key_b, &values[i]), 0);
        CHECK_EQ(kc_local_set(&key_a, &values[i]), 0);
        if (i < 2)
            child[i] = launch(gets, &values[i], NULL);
    }
    for (int i = 0; i < 1000; i++) {
        kc_local_t *first = kc__job_ext_of(kc_job_current())->locals;
        CHECK_EQ(kc_local_set(&key_a, &values[i % 3]), 0);
        CHECK_PTR(kc__job_ext_of(kc_job_current())->locals, first);
        CHECK_PTR(kc_local_get(&key_a), &values[i % 3]);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(kc_job_join(child[i]), 0);
        kc_job_release(child[i]);
    }
    return 0;
}

static int waits_with_locals(void *arg)
{
    CHECK_PTR(kc_local_get(&key_a), arg);
    CHECK_PTR(kc_local_get(&key_b), &key_b);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_PTR(kc_local_get(&key_a), arg);
    return 0;
}

/* As a server does that marks each of its requests. */
IN_A_JOB(a_local_that_is_set_and_inherited_again_and_again_is_stored_once)
{
    char values[50];
    kc_scope_t s;
    int length = 0;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_local_set(&key_a, &values[0]), 0);
    CHECK_EQ(kc_local_set(&key_b, &key_b), 0);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(kc_local_set(&key_a, &values[i]), 0);
        CHECK_EQ(kc_launch_job(waits_with_locals, &values[i],
                               &(kc_launch_opts_t){ .affinity = KC_MAIN, .flags = KC_JOB_NOW },
                               NULL),
                 0);
    }
    CHECK_PTR(kc_local_get(&key_a), &values[49]);
    CHECK_PTR(kc_local_get(&key_b), &key_b);
    for (kc_local_t *l = kc__job_ext_of(kc_scope_job(&s)->parent)->locals; l; l = l->next)
        length++;
    CHECK_EQ(length, 2);
    CHECK(kc_cancel_current(0));
    CHECK_EQ(kc_scope_end(&s), -ECANCELED);
    return 0;
}

IN_A_JOB(locals_are_inherited_at_the_launch_and_not_seen_by_the_parent)
{
    int value = 0;
    kc_scope_t s;

    CHECK_PTR(kc_local_get(&key_a), NULL);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_local_set(&key_a, &value), 0); /* the coroutine's own, not the scope's */
    CHECK_EQ(kc_launch(inherits, &value), 0);
    kc_job_t *g = group(NULL);
    CHECK_EQ(kc_launch_job(inherits, &value, &(kc_launch_opts_t){ .parent = g }, NULL), 0);
    CHECK_EQ(kc_launch_job(inherits, &value, &(kc_launch_opts_t){ .flags = KC_JOB_NOW }, NULL), 0);
    CHECK_EQ(
        kc_launch_job(inherits, &value, &(kc_launch_opts_t){ .parent = kc_job_current() }, NULL),
        0);
    CHECK_EQ(kc_group_close(g), 0);
    kc_job_release(g);
    CHECK_EQ(kc_scope_end(&s), 0);
    CHECK_PTR(kc_local_get(&key_a), &value);
    CHECK_PTR(kc_local_get(&key_b), NULL);
    CHECK_EQ(kc_local_set(&key_a, NULL), 0);
    CHECK_PTR(kc_local_get(&key_a), NULL);
    return 0;
}

/* ---- now ------------------------------------------------------------------------------------ */

struct at_once {
    int step, index;
    pthread_t thread;
};

static int runs_at_once(void *arg)
{
    struct at_once *a = arg;

    CHECK_EQ(a->step++, 0);
    CHECK(pthread_equal(a->thread, pthread_self()));
    CHECK_EQ(kc_worker_index(), a->index);
    kcoro_yield();
    CHECK(a->step++ == 2 || kc_sched_current()->random); /* a seed picks who goes on */
    CHECK(pthread_equal(a->thread, pthread_self()));
    return 0;
}

static int launches_now(void *arg UNUSED)
{
    struct at_once a = { 0, kc_worker_index(), pthread_self() };
    kc_sched_t *s = kc_sched_current();
    bool chance = s->random != 0;
    kc_launch_opts_t now = { .flags = KC_JOB_NOW };
    kc_job_t *j = launch(runs_at_once, &a, &now);

    CHECK(a.step == 1 || (chance && a.step == 2));
    a.step = 2;
    CHECK_EQ(kc_job_join(j), 0);
    CHECK(a.step == 3 || chance);
    kc_job_release(j);
    j = launch(returns, CODE(0), &now);
    CHECK(chance || kc_job_state(j) == KC_JOB_COMPLETED);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    now.affinity = kc_worker_index() == KC_MAIN ? KC_MAIN : KC_WORKER_AT(kc_worker_index());
    j = launch(returns, CODE(0), &now);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    now.affinity = kc_worker_index() == KC_MAIN ? KC_WORKER_AT(0) : KC_MAIN;
    CHECK_EQ(kc_launch_job(never, NULL, &now, NULL), -EINVAL);
    return 0;
}

IN_A_JOB(a_child_launched_now_runs_at_once_on_the_callers_thread)
{
    launches_now(NULL);
    kc_job_t *j = launch(launches_now, NULL, NULL);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    return 0;
}

static int migrates(void *arg)
{
    for (int i = 0; i < 5; i++)
        CHECK_EQ(kc_sleep(KC_US(5)), 0);
    add(arg);
    return 0;
}

IN_A_JOB(a_job_that_may_migrate_runs_like_any_other)
{
    count_t n = 0;
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(kc_launch_job(migrates, &n, &(kc_launch_opts_t){ .flags = KC_JOB_MIGRATE }, NULL),
                 0);
    CHECK_EQ(kc_scope_end(&s), 0);
    CHECK_EQ(get(&n), 8);
    return 0;
}

/* ---- forbid --------------------------------------------------------------------------------- */

struct forbids {
    count_t in, go;
    int child_code;
};

static int forbids_signals(void *arg)
{
    struct forbids *f = arg;

    kc_forbid_signal();
    CHECK_PTR(kc_current_slot(), NULL);
    set(&f->in, 1);
    UNTIL(get(&f->go));
    CHECK(!kc_cancelled());
    CHECK_EQ(kc_sleep(KC_US(10)), 0);
    if (f->child_code) {
        CHECK_EQ(kc_launch(waits, NULL), 0);
        kc_job_t *j = launch(returns, CODE(f->child_code), NULL);
        CHECK_EQ(kc_job_join(j), f->child_code);
        kc_job_release(j);
        CHECK_EQ(kc_check(), 0);
    }
    return 0;
}

IN_A_JOB(a_job_that_forbids_signals_is_not_cancelled)
{
    bool alone = kc_sched_workers(kc_sched_current()) == 0; /* then no timeout comes too soon */

    for (int code = 0; code <= 5; code += 5) {
        struct forbids f = { .child_code = code };
        kc_job_t *g = group(&apart);
        kc_launch_opts_t opts = { .parent = g, .timeout = alone ? KC_US(5) : 0 };
        kc_job_t *j = launch(forbids_signals, &f, &opts);
        UNTIL(get(&f.in));
        CHECK(!kc_job_cancel(j, 0));
        CHECK(kc_job_cancel(g, -EPIPE));
        CHECK_EQ(kc_job_state(j), KC_JOB_ACTIVE);
        set(&f.go, 1);
        CHECK_EQ(kc_job_join(j), code);
        CHECK_EQ(kc_job_state(j), code ? KC_JOB_FAILED : KC_JOB_COMPLETED);
        CHECK_EQ(kc_job_join(g), code ? code : -EPIPE);
        kc_job_release(j);
        kc_job_release(g);
    }
    return 0;
}

static int forbids_too_late(void *arg)
{
    add(arg);
    UNTIL(kc_cancelled());
    kc_forbid_signal();
    CHECK(kc_cancelled());
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return 0;
}

IN_A_JOB(forbidding_signals_in_a_cancelled_job_changes_nothing)
{
    count_t n = 0;
    kc_job_t *j = launch(forbids_too_late, &n, NULL);

    UNTIL(get(&n) == 1);
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    return 0;
}
