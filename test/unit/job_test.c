/* SPDX-License-Identifier: MIT */
/*
 * job_test.c - the tree of jobs: launches, how they end, joins, handles (J1-J3, J6-J8, J15, J18,
 * J28).
 */
#include "job_kit.h"

#include <stdlib.h>

/* ---- how a job ends ------------------------------------------------------------------------- */

static int launches_three(void *arg)
{
    for (int i = 0; i < 3; i++)
        CHECK_EQ(kc_launch(counts, arg), 0);
    return 0;
}

IN_A_JOB(a_parent_of_three_children_that_return_0_completes)
{
    count_t n = 0;
    kc_job_t *j = launch(launches_three, &n, NULL);

    CHECK_EQ(kc_job_join(j), 0);
    CHECK_EQ(get(&n), 3);
    CHECK_EQ(kc_job_reason(j), 0);
    ended(j, KC_JOB_COMPLETED, 0);
    return 0;
}

struct family {
    count_t started, go;
    int code;
    kc_job_t *child[3];
};

static int fails_when_told(void *arg)
{
    struct family *f = arg;

    UNTIL(get(&f->started) == 2 && get(&f->go));
    return f->code;
}

static int has_a_failing_child(void *arg)
{
    struct family *f = arg;

    f->child[0] = launch(waits, &f->started, NULL);
    f->child[1] = launch(waits, &f->started, NULL);
    f->child[2] = launch(fails_when_told, f, NULL);
    set(&f->go, 1);
    int rc = kc_sleep(KC_FOREVER);
    CHECK_EQ(rc, -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), f->code);
    CHECK_EQ(kc_launch(never, NULL), -ECANCELED);
    return rc;
}

static void one_child_fails_with(int code)
{
    struct family f = { .code = code };
    kc_job_t *top = launch(waits, NULL, &(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });
    kc_job_t *j = launch(has_a_failing_child, &f, &(kc_launch_opts_t){ .parent = top });

    CHECK_EQ(kc_job_join(j), code);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(kc_job_reason(f.child[i]), code == -ETIMEDOUT ? -ECANCELED : code);
        ended(f.child[i], KC_JOB_CANCELLED, code == -ETIMEDOUT ? -ECANCELED : code);
    }
    ended(f.child[2], KC_JOB_FAILED, code);
    CHECK_EQ(kc_job_reason(j), code);
    ended(j, KC_JOB_FAILED, code);
    CHECK_EQ(kc_job_state(top), KC_JOB_ACTIVE);
    CHECK(kc_job_cancel(top, 0));
    CHECK_EQ(kc_job_join(top), -ECANCELED);
    kc_job_release(top);
}

IN_A_JOB(a_child_that_fails_cancels_its_siblings_and_the_parent_ends_with_its_code)
{
    one_child_fails_with(-EIO);
    one_child_fails_with(7);
    return 0;
}

IN_A_JOB(a_child_that_fails_with_a_timeout_of_its_own_is_a_failure_all_the_way_up)
{
    one_child_fails_with(-ETIMEDOUT);
    return 0;
}

static int launches_what_fails(void *arg)
{
    CHECK_EQ(kc_launch(returns, arg), 0);
    return kc_sleep(KC_FOREVER);
}

static int launches_what_launches_what_fails(void *arg)
{
    CHECK_EQ(kc_launch(launches_what_fails, arg), 0);
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(a_failure_goes_up_level_by_level)
{
    kc_launch_opts_t apart = { .flags = KC_JOB_DETACHED };
    const int codes[] = { -EIO, -ETIMEDOUT, -EDEADLK, 3 };

    for (int i = 0; i < 4; i++) {
        kc_job_t *j = launch(launches_what_launches_what_fails, CODE(codes[i]), &apart);
        CHECK_EQ(kc_job_join(j), codes[i]);
        ended(j, KC_JOB_FAILED, codes[i]);
    }
    return 0;
}

static int supervises(void *arg)
{
    struct family *f = arg;

    f->child[0] = launch(waits, &f->started, NULL);
    f->child[1] = launch(waits, &f->started, NULL);
    f->child[2] = launch(fails_when_told, f, NULL);
    set(&f->go, 1);
    CHECK_EQ(kc_job_join(f->child[2]), f->code);
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_job_state(f->child[0]), KC_JOB_ACTIVE);
    CHECK(kc_job_cancel(f->child[0], 0));
    CHECK(kc_job_cancel(f->child[1], 0));
    return 0;
}

IN_A_JOB(a_supervisor_is_not_disturbed_by_the_failure_of_a_child)
{
    struct family f = { .code = -EIO };
    kc_job_t *j = launch(supervises, &f, &(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });

    CHECK_EQ(kc_job_join(j), 0);
    ended(f.child[0], KC_JOB_CANCELLED, -ECANCELED);
    ended(f.child[1], KC_JOB_CANCELLED, -ECANCELED);
    ended(f.child[2], KC_JOB_FAILED, -EIO);
    ended(j, KC_JOB_COMPLETED, 0);
    return 0;
}

IN_A_JOB(a_supervisor_whose_own_body_fails_has_failed)
{
    kc_job_t *j = launch(returns, CODE(5),
                         &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED | KC_JOB_SUPERVISOR });

    CHECK_EQ(kc_job_join(j), 5);
    ended(j, KC_JOB_FAILED, 5);
    return 0;
}

static int leaves_two_children(void *arg)
{
    struct family *f = arg;

    f->child[0] = launch(waits, &f->started, NULL);
    f->child[1] = launch(until_set, &f->go, NULL);
    add(&f->started); /* the handles are there */
    return 0;
}

IN_A_JOB(a_job_is_not_terminal_before_its_children_are)
{
    struct family f = { 0 };
    kc_job_t *j = launch(leaves_two_children, &f, NULL);

    UNTIL(get(&f.started) == 2);
    CHECK_EQ(kc_job_state(j), KC_JOB_ACTIVE);
    CHECK_EQ(kc_job_result(j, NULL), -EAGAIN);
    CHECK_EQ(kc_job_join_until(j, kc_now() + KC_US(100)), -ETIMEDOUT);
    CHECK(kc_job_cancel(f.child[0], 0)); /* a child that is cancelled alone disturbs nobody */
    CHECK_EQ(kc_job_join(f.child[0]), -ECANCELED);
    CHECK_EQ(kc_job_state(j), KC_JOB_ACTIVE);
    CHECK_EQ(kc_job_state(f.child[1]), KC_JOB_ACTIVE);
    set(&f.go, 1);
    CHECK_EQ(kc_job_join(j), 0);
    CHECK_EQ(kc_job_state(f.child[1]), KC_JOB_COMPLETED);
    kc_job_release(f.child[0]);
    kc_job_release(f.child[1]);
    ended(j, KC_JOB_COMPLETED, 0);
    return 0;
}

static int leaves_children_and_returns(void *arg)
{
    struct family *f = arg;

    f->child[0] = launch(waits, &f->started, NULL);
    f->child[1] = launch(waits, &f->started, NULL);
    UNTIL(get(&f->started) == 2);
    return f->code;
}

IN_A_JOB(a_body_that_returns_non_zero_cancels_its_children)
{
    const int codes[] = { -EIO, 42, -ECANCELED };

    for (int i = 0; i < 3; i++) {
        struct family f = { .code = codes[i] };
        kc_job_t *j = launch(leaves_children_and_returns, &f,
                             &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });
        CHECK_EQ(kc_job_join(j), codes[i]);
        CHECK_EQ(kc_job_state(f.child[0]), KC_JOB_CANCELLED);
        ended(f.child[0], KC_JOB_CANCELLED, codes[i]);
        ended(f.child[1], KC_JOB_CANCELLED, codes[i]);
        ended(j, codes[i] == -ECANCELED ? KC_JOB_CANCELLED : KC_JOB_FAILED, codes[i]);
    }
    return 0;
}

static int returns_its_reason(void *arg)
{
    add(arg);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return kc_cancel_reason();
}

static int fails_when_cancelled(void *arg)
{
    add(arg);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return -EIO;
}

static int ignores_the_cancel(void *arg)
{
    add(arg);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return 0;
}

static void cancelled_with(kc_fn_t fn, int reason, kc_job_state_t state, int code)
{
    count_t n = 0;
    kc_job_t *j = launch(fn, &n, &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });

    UNTIL(get(&n) == 1);
    CHECK(kc_job_cancel(j, reason));
    CHECK(!kc_job_cancel(j, reason == -ETIMEDOUT ? reason : -EBUSY));
    CHECK_EQ(kc_job_join(j), code);
    CHECK_EQ(kc_job_reason(j), reason ? reason : -ECANCELED);
    ended(j, state, code);
}

IN_A_JOB(what_a_cancelled_body_returns_tells_cancelled_from_failed)
{
    cancelled_with(waits, 0, KC_JOB_CANCELLED, -ECANCELED);
    cancelled_with(waits, -EPIPE, KC_JOB_CANCELLED, -EPIPE);
    cancelled_with(returns_its_reason, -EPIPE, KC_JOB_CANCELLED, -EPIPE);
    cancelled_with(returns_its_reason, 9, KC_JOB_CANCELLED, 9);
    cancelled_with(ignores_the_cancel, 9, KC_JOB_CANCELLED, 9);
    cancelled_with(fails_when_cancelled, 9, KC_JOB_FAILED, -EIO);
    cancelled_with(fails_when_cancelled, 0, KC_JOB_FAILED, -EIO);
    cancelled_with(fails_when_cancelled, -ETIMEDOUT, KC_JOB_CANCELLED, -ETIMEDOUT);
    return 0;
}

struct late {
    count_t started, order;
};

static int fails_late(void *arg)
{
    struct late *l = arg;

    add(&l->started);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return add(&l->order) == 0 ? -EIO : -EPIPE;
}

static int launches_two_that_fail_late(void *arg)
{
    struct late *l = arg;

    CHECK_EQ(kc_launch(fails_late, l), 0);
    CHECK_EQ(kc_launch(fails_late, l), 0);
    return waits(&l->started);
}

IN_A_JOB(a_job_that_fails_after_an_outside_cancel_ends_failed)
{
    struct late l = { 0, 0 };
    kc_job_t *j =
        launch(launches_two_that_fail_late, &l, &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });

    UNTIL(get(&l.started) == 3); /* else what never started would not fail */
    CHECK(kc_job_cancel(j, 0));
    int rc = kc_job_join(j);
    CHECK(rc == -EIO || rc == -EPIPE); /* whose end came first, not whose turn */
    CHECK_EQ(get(&l.order), 2);
    CHECK_EQ(kc_job_reason(j), -ECANCELED);
    ended(j, KC_JOB_FAILED, rc);
    return 0;
}

/* ---- cancelled before they start ------------------------------------------------------------ */

static void disposes(void *arg)
{
    CHECK(kc_worker_index() != -ENOENT);
    add(arg);
}

IN_A_JOB(a_job_that_is_cancelled_before_it_starts_never_starts_and_is_disposed_of)
{
    enum { N = 10 };
    count_t disposed = 0;
    kc_job_t *top = group(NULL), *child[N];
    kc_launch_opts_t opts = { .parent = top, .affinity = KC_MAIN, .dispose = disposes };

    for (int i = 0; i < N; i++) /* this body has the main thread: they cannot start */
        child[i] = launch(never, &disposed, &opts);
    CHECK(kc_job_cancel(top, -EPIPE));
    CHECK_EQ(kc_launch_job(never, NULL, &opts, NULL), -ECANCELED);
    CHECK_EQ(kc_job_join(top), -EPIPE);
    CHECK_EQ(get(&disposed), N);
    for (int i = 0; i < N; i++)
        ended(child[i], KC_JOB_CANCELLED, -EPIPE);
    ended(top, KC_JOB_CANCELLED, -EPIPE);
    return 0;
}

IN_A_JOB(one_of_fn_and_dispose_is_called_and_neither_if_the_launch_failed)
{
    count_t ran = 0, disposed = 0;
    kc_job_t *top = group(NULL);
    kc_launch_opts_t opts = { .parent = top, .dispose = disposes };

    kc_job_t *a = launch(counts, &ran, &opts);
    CHECK_EQ(kc_job_join(a), 0);
    CHECK_EQ(kc_group_close(top), 0);
    CHECK_EQ(kc_launch_job(never, &disposed, &opts, NULL), -ESHUTDOWN);
    CHECK_EQ(kc_job_join(top), 0);
    CHECK_EQ(kc_launch_job(never, &disposed, &opts, NULL), -ESHUTDOWN);
    CHECK_EQ(get(&ran), 1);
    CHECK_EQ(get(&disposed), 0);
    ended(a, KC_JOB_COMPLETED, 0);
    ended(top, KC_JOB_COMPLETED, 0);
    return 0;
}

static int counts_the_cancelled(void *arg)
{
    count_t *n = arg;

    add(&n[0]);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    add(&n[1]);
    return -ECANCELED;
}

static void counts_the_disposed(void *arg)
{
    count_t *n = arg;

    add(&n[2]);
}

IN_A_JOB(a_thousand_siblings_are_cancelled_and_none_is_lost)
{
    int siblings = kc_test_under_tsan() ? 100 : 1000; /* its runtime dies of many fibers */
    count_t n[3] = { 0, 0, 0 };
    kc_job_t *top = group(NULL);
    kc_launch_opts_t opts = { .parent = top, .dispose = counts_the_disposed };

    for (int i = 0; i < siblings; i++)
        CHECK_EQ(kc_launch_job(counts_the_cancelled, n, &opts, NULL), 0);
    UNTIL(get(&n[0]) > siblings / 10);
    CHECK(kc_job_cancel(top, 0));
    CHECK_EQ(kc_job_join(top), -ECANCELED);
    CHECK_EQ(get(&n[0]), get(&n[1]));
    CHECK_EQ(get(&n[1]) + get(&n[2]), siblings);
    kc_job_release(top);
    return 0;
}

/* ---- join ----------------------------------------------------------------------------------- */

struct joined {
    kc_job_t *target;
    count_t waiting, woken, go;
};

static int joins(void *arg)
{
    struct joined *p = arg;

    add(&p->waiting);
    int rc = kc_job_join(p->target);
    add(&p->woken);
    return rc;
}

IN_A_JOB(any_number_may_join_and_each_is_woken_once)
{
    enum { N = 32 };
    struct joined p = { 0 };
    kc_job_t *child[N];

    p.target = launch(until_set, &p.go, NULL);
    for (int i = 0; i < N; i++)
        child[i] = launch(joins, &p, NULL);
    UNTIL(get(&p.waiting) == N);
    CHECK_EQ(get(&p.woken), 0);
    set(&p.go, 1);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(kc_job_join(child[i]), 0);
        ended(child[i], KC_JOB_COMPLETED, 0);
    }
    CHECK_EQ(get(&p.woken), N);
    CHECK_EQ(kc_job_join(p.target), 0); /* and again */
    ended(p.target, KC_JOB_COMPLETED, 0);
    return 0;
}

static int joins_and_is_cancelled(void *arg)
{
    struct joined *p = arg;

    add(&p->waiting);
    CHECK_EQ(kc_job_join(p->target), -ECANCELED);
    CHECK_EQ(kc_job_join_until(p->target, KC_FOREVER), -ECANCELED);
    add(&p->woken);
    return -ECANCELED;
}

IN_A_JOB(a_cancelled_joiner_leaves_and_the_target_continues)
{
    struct joined p = { 0 };

    p.target = launch(until_set, &p.go, NULL);
    kc_job_t *a = launch(joins_and_is_cancelled, &p, NULL), *b = launch(joins, &p, NULL);
    UNTIL(get(&p.waiting) == 2);
    CHECK(kc_job_cancel(a, 0));
    CHECK_EQ(kc_job_join(a), -ECANCELED);
    CHECK_EQ(get(&p.woken), 1);
    CHECK_EQ(kc_job_state(p.target), KC_JOB_ACTIVE);
    set(&p.go, 1);
    CHECK_EQ(kc_job_join(b), 0);
    ended(a, KC_JOB_CANCELLED, -ECANCELED);
    ended(b, KC_JOB_COMPLETED, 0);
    ended(p.target, KC_JOB_COMPLETED, 0);
    return 0;
}

static int ends_slowly(void *arg)
{
    struct joined *p = arg;

    add(&p->waiting);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    for (int i = 0; i < 10; i++)
        kcoro_yield();
    add(&p->go);
    return -ECANCELED;
}

static int joins_its_child(void *arg)
{
    struct joined *p = arg;

    p->target = launch(ends_slowly, p, NULL);
    CHECK_EQ(kc_job_join(p->target), -ECANCELED);
    CHECK_EQ(get(&p->go), 1); /* it was waited for */
    CHECK_EQ(kc_job_state(p->target), KC_JOB_CANCELLED);
    kc_job_release(p->target);
    return 0;
}

static int joins_its_grandchild_in_a_scope(void *arg)
{
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    joins_its_child(arg);
    CHECK_EQ(kc_scope_end(&s), -ECANCELED);
    return 0;
}

IN_A_JOB(a_cancelled_joiner_of_a_descendant_waits_for_its_end)
{
    kc_fn_t fns[] = { joins_its_child, joins_its_grandchild_in_a_scope };

    for (int i = 0; i < 2; i++) {
        struct joined p = { 0 };
        kc_job_t *j = launch(fns[i], &p, NULL);
        UNTIL(get(&p.waiting) == 1);
        CHECK(kc_job_cancel(j, 0));
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        CHECK_EQ(get(&p.go), 1);
        ended(j, KC_JOB_CANCELLED, -ECANCELED);
    }
    return 0;
}

static int joins_upward(void *arg)
{
    kc_job_t *me = kc_job_current();

    CHECK_EQ(kc_job_join(me), -EDEADLK);
    CHECK_EQ(kc_job_join(arg), -EDEADLK);
    CHECK_EQ(kc_job_join_until(arg, kc_now()), -EDEADLK);
    kc_scope_t s;
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_job_join(kc_job_current()), -EDEADLK);
    CHECK_EQ(kc_job_join(me), -EDEADLK);
    CHECK_EQ(kc_job_join(arg), -EDEADLK);
    CHECK_EQ(kc_scope_end(&s), 0);
    return 0;
}

IN_A_JOB(joining_yourself_or_an_ancestor_is_edeadlk)
{
    kc_job_t *g = group(NULL);
    kc_job_t *j = launch(joins_upward, g, &(kc_launch_opts_t){ .parent = g });

    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    CHECK_EQ(kc_group_close(g), 0);
    CHECK_EQ(kc_job_join(g), 0);
    kc_job_release(g);
    kc_job_t *k = launch(joins_upward, kc_job_current(), NULL);
    CHECK_EQ(kc_job_join(k), 0);
    kc_job_release(k);
    return 0;
}

IN_A_JOB(a_join_with_a_deadline_gives_up_then_and_not_before)
{
    count_t go = 0;
    kc_job_t *j = launch(until_set, &go, NULL), *k = launch(waits, NULL, NULL);
    kc_time_t at = kc_now() + KC_US(500);

    CHECK_EQ(kc_job_join_until(k, at), -ETIMEDOUT);
    CHECK_GE(kc_now(), at);
    CHECK_EQ(kc_job_join_until(k, 0), -ETIMEDOUT); /* long past */
    CHECK_EQ(kc_job_state(j), KC_JOB_ACTIVE);
    set(&go, 1);
    CHECK_EQ(kc_job_join_until(j, KC_FOREVER), 0);
    CHECK_EQ(kc_job_join_until(j, 0), 0);
    ended(j, KC_JOB_COMPLETED, 0);
    CHECK(kc_job_cancel(k, 0));
    CHECK_EQ(kc_job_join(k), -ECANCELED);
    kc_job_release(k);
    return 0;
}

static int awaits_a_failing_child(void *arg)
{
    kc_job_t *j = launch(returns, arg, NULL);

    int rc = kc_job_join(j);
    if (rc == -ECANCELED) /* it had failed before the join: then that does nothing */
        CHECK_GT(kc_sched_workers(kc_sched_current()), 0);
    else
        CHECK_EQ(rc, (int)(intptr_t)arg); /* completion beats cancellation */
    CHECK_EQ(kc_check(), -ECANCELED);     /* the next point reports it */
    CHECK(kc_cancelled());
    CHECK_EQ(kc_launch(never, NULL), -ECANCELED);
    kc_job_release(j);
    return 0;
}

IN_A_JOB(a_parent_that_joins_the_child_whose_failure_cancels_it_gets_its_code)
{
    for (int i = 0; i < 50; i++) {
        kc_job_t *j = launch(awaits_a_failing_child, CODE(-EIO),
                             &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });
        CHECK_EQ(kc_job_join(j), -EIO);
        ended(j, KC_JOB_FAILED, -EIO);
    }
    return 0;
}

/* ---- detached ------------------------------------------------------------------------------- */

struct apart {
    kc_job_t *fails, *waits;
};

static int launches_detached(void *arg)
{
    struct apart *a = arg;
    kc_launch_opts_t opts = { .flags = KC_JOB_DETACHED };

    a->fails = launch(returns, CODE(-EIO), &opts);
    a->waits = launch(waits, NULL, &opts);
    CHECK_EQ(kc_job_join(a->fails), -EIO);
    CHECK_EQ(kc_check(), 0);
    return 0;
}

IN_A_JOB(a_detached_job_is_nobodys_child)
{
    struct apart a = { 0 };
    kc_job_t *j = launch(launches_detached, &a, NULL);

    CHECK_EQ(kc_job_join(j), 0); /* which has not waited for it */
    CHECK_EQ(kc_job_state(a.waits), KC_JOB_ACTIVE);
    CHECK(!kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_state(a.waits), KC_JOB_ACTIVE);
    CHECK(kc_job_cancel(a.waits, 0));
    CHECK_EQ(kc_job_join(a.waits), -ECANCELED);
    ended(a.fails, KC_JOB_FAILED, -EIO);
    ended(a.waits, KC_JOB_CANCELLED, -ECANCELED);
    ended(j, KC_JOB_COMPLETED, 0);
    return 0;
}

static kc_job_t *left_behind;

static int leaves_a_detached_one(void *arg)
{
    left_behind = launch(waits, arg, &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });
    UNTIL(get(arg) == 1);
    return 0;
}

TEST(kc_run_does_not_wait_for_detached_jobs_but_ends_them)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        count_t n = 0;
        CHECK_EQ(kc_run(leaves_a_detached_one, &n, &opts), 0);
        ended(left_behind, KC_JOB_CANCELLED, -ESHUTDOWN);
    }
}

TEST(the_end_of_a_scheduler_ends_detached_jobs)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        kc_sched_t *s = NULL;
        count_t n = 0;
        CHECK_EQ(kc_sched_create(&opts, &s), 0);
        kc_job_t *root = launch(leaves_a_detached_one, &n, &(kc_launch_opts_t){ .sched = s });
        CHECK_EQ(kc_job_join(root), 0);
        kc_job_release(root);
        CHECK_EQ(kc_job_state(left_behind), KC_JOB_ACTIVE);
        CHECK_EQ(kc_sched_destroy(s), 0);
        CHECK_EQ(kc_job_reason(left_behind), -ESHUTDOWN);
        ended(left_behind, KC_JOB_CANCELLED, -ESHUTDOWN);
    }
}

/* A detached job has only the scheduler from .parent: if that has ended, there may be none. */
TEST(nothing_is_detached_from_a_job_that_has_ended)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        kc_sched_t *s = NULL;
        CHECK_EQ(kc_sched_create(&opts, &s), 0);
        kc_job_t *j = launch(returns, NULL, &(kc_launch_opts_t){ .sched = s });
        CHECK_EQ(kc_job_join(j), 0);
        CHECK_EQ(kc_sched_destroy(s), 0);
        kc_launch_opts_t o = { .parent = j, .flags = KC_JOB_DETACHED };
        kc_job_t *none = NULL;
        CHECK_EQ(kc_launch_job(never, NULL, &o, &none), -ESHUTDOWN);
        CHECK_EQ(kc_group_create(&o, &none), -ESHUTDOWN);
        CHECK_EQ(kc_promise(&o, (kc_deferred_t **)&none), -ESHUTDOWN);
        CHECK_PTR(none, NULL);
        ended(j, KC_JOB_COMPLETED, 0);
    }
}

/* ---- a child is gone before its parent goes on ---------------------------------------------- */

struct traces {
    count_t frames, cleanups;
    int code, how;
};

static void leaves_a_trace(void *arg)
{
    for (int i = 0; i < 3; i++)
        kcoro_yield();
    add(arg);
}

static int leaves_traces(void *arg)
{
    struct traces *t = arg;

    CHECK_EQ(kc_defer(leaves_a_trace, &t->cleanups), 0);
    KC_CLEANUP(leaves_a_trace, &t->frames);
    if (t->how >= 2)
        return kc_sleep(KC_FOREVER);
    return t->code;
}

IN_A_JOB(frames_and_cleanups_of_a_child_are_gone_before_its_join_returns)
{
    for (int how = 0; how < 4; how++) { /* normal, failed, cancelled, unwound */
        struct traces t = { .code = how ? -EIO : 0, .how = how };
        kc_job_t *g = group(&(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });
        kc_job_t *j =
            launch(leaves_traces, &t,
                   &(kc_launch_opts_t){
                       .parent = g, .flags = how == 3 ? KC_JOB_UNWIND : 0, .affinity = KC_MAIN });
        kcoro_yield();
        if (how >= 2) {
            kc_job_cancel(j, 0);
            t.code = -ECANCELED;
        }
        CHECK_EQ(kc_job_join(j), t.code);
        CHECK_EQ(get(&t.frames), get(&t.cleanups));
        CHECK(get(&t.cleanups) == 1 || how >= 2);
        CHECK_EQ(kc_group_close(g), 0);
        CHECK_EQ(kc_job_join(g), 0);
        kc_job_release(j);
        kc_job_release(g);
    }
    return 0;
}

/* ---- handles -------------------------------------------------------------------------------- */

static void *cancels_in_a_thread(void *arg)
{
    kc_job_t *j = arg;

    CHECK_EQ(kc_job_join(j), -ESHUTDOWN);
    CHECK(!kc_job_cancel(j, 0));
    CHECK_STR(kc_job_name(j), "a name of which only the first ");
    return NULL;
}

TEST(handles_live_on_when_stack_and_scheduler_are_gone)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        kc_sched_t *s = NULL;
        pthread_t thread;
        kc_lease_t lease = { 0 };
        count_t n = 0;
        CHECK_EQ(kc_sched_create(&opts, &s), 0);
        kc_job_t *j =
            launch(waits, &n,
                   &(kc_launch_opts_t){
                       .sched = s, .name = "a name of which only the first 31 bytes are kept" });
        CHECK_EQ(kc_job_join_until(j, kc_now() + KC_US(200)), -ETIMEDOUT);
        CHECK_EQ(kc_sched_destroy(s), 0);
        CHECK_EQ(kc_job_state(j), KC_JOB_CANCELLED);
        CHECK_EQ(kc_job_join(j), -ESHUTDOWN);
        CHECK_EQ(kc_job_join_until(j, 0), -ESHUTDOWN);
        CHECK_EQ(kc_lease_take(j, &lease), -ESHUTDOWN);
        CHECK_EQ(kc_launch_job(never, NULL, &(kc_launch_opts_t){ .parent = j }, NULL), -ESHUTDOWN);
        CHECK_EQ(pthread_create(&thread, NULL, cancels_in_a_thread, kc_job_retain(j)), 0);
        pthread_join(thread, NULL);
        kc_job_release(j);
        kc_job_drop(j);
    }
}

IN_A_JOB(dropping_a_handle_cancels_releasing_one_does_not)
{
    count_t n = 0;
    kc_job_t *a = launch(waits, &n, NULL), *b = launch(until_set, &n, NULL);

    kc_job_retain(a);
    kc_job_drop(a);
    CHECK_EQ(kc_job_join(a), -ECANCELED);
    CHECK_EQ(kc_job_reason(a), -ECANCELED);
    kc_job_drop(a); /* which has ended: does nothing */
    kc_job_retain(b);
    kc_job_release(b);
    set(&n, 1);
    CHECK_EQ(kc_job_join(b), 0);
    ended(b, KC_JOB_COMPLETED, 0);
    kc_job_release(NULL);
    kc_job_drop(NULL);
    return 0;
}
