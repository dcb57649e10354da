/* SPDX-License-Identifier: MIT */
/*
 * What a body returned, failures that are values (J29, D3), jobs that say they have failed (J33).
 */
#include "failure_kit.h"

/* ---- what a body returned ------------------------------------------------------------------- */

static int returned_by(kc_job_t *j)
{
    int rc = 12345;

    CHECK_EQ(kc_job_returned(j, &rc), 0);
    CHECK_EQ(kc_job_returned(j, NULL), 0);
    return rc;
}

/* j has ended, and its body returned that. Gives the reference up. */
static void ended_having_returned(kc_job_t *j, kc_job_state_t state, int code, int rc)
{
    CHECK_EQ(returned_by(j), rc);
    ended(j, state, code);
}

/* Waits until it is cancelled, and returns something else. */
static int returns_when_cancelled(void *arg)
{
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return (int)(intptr_t)arg;
}

static int returns_7_beside_a_child_that_fails(void *arg UNUSED)
{
    CHECK_EQ(kc_launch(returns, CODE(-EIO)), 0);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return 7;
}

static kc_job_t *joined(kc_fn_t fn, void *arg)
{
    kc_job_t *j = launch(fn, arg, &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });

    (void)!kc_job_join(j);
    return j;
}

static kc_job_t *cancelled(kc_fn_t fn, void *arg, uint32_t flags)
{
    kc_job_t *j =
        launch(fn, arg, &(kc_launch_opts_t){ .flags = flags | KC_JOB_NOW | KC_JOB_DETACHED });

    CHECK(kc_job_cancel(j, 0));
    (void)!kc_job_join(j);
    return j;
}

IN_A_JOB(what_a_body_returned_is_known_whatever_the_outcome)
{
    ended_having_returned(joined(returns, CODE(0)), KC_JOB_COMPLETED, 0, 0);
    ended_having_returned(joined(returns, CODE(-EIO)), KC_JOB_FAILED, -EIO, -EIO);
    ended_having_returned(joined(returns, CODE(3)), KC_JOB_FAILED, 3, 3);
    ended_having_returned(joined(returns, CODE(-ECANCELED)), KC_JOB_CANCELLED, -ECANCELED,
                          -ECANCELED);
    ended_having_returned(joined(returns_7_beside_a_child_that_fails, NULL), KC_JOB_FAILED, -EIO,
                          7);
    ended_having_returned(cancelled(returns_when_cancelled, CODE(0), 0), KC_JOB_CANCELLED,
                          -ECANCELED, 0);
    ended_having_returned(cancelled(returns_when_cancelled, CODE(-ECANCELED), 0), KC_JOB_CANCELLED,
                          -ECANCELED, -ECANCELED);
    ended_having_returned(cancelled(returns_when_cancelled, CODE(-EPIPE), 0), KC_JOB_FAILED,
                          -EPIPE, -EPIPE);
    return 0;
}

struct ends_late {
    count_t began, may_end;
    int rc;
};

static int waits_for_its_leave(void *arg)
{
    struct ends_late *e = arg;

    set(&e->began, 1);
    UNTIL(get(&e->may_end));
    return 0;
}

static void cleanup_waits_for_its_leave(void *arg)
{
    (void)!waits_for_its_leave(arg);
    kc_set_payload(arg); /* too late after a failure, when nobody gets it */
}

static int leaves_a_child(void *arg)
{
    CHECK_EQ(kc_launch(waits_for_its_leave, arg), 0);
    UNTIL(get(&((struct ends_late *)arg)->began));
    return ((struct ends_late *)arg)->rc;
}

static int leaves_a_cleanup(void *arg)
{
    CHECK_EQ(kc_defer(cleanup_waits_for_its_leave, arg), 0);
    return ((struct ends_late *)arg)->rc;
}

IN_A_JOB(what_a_body_returned_is_known_before_its_job_ends)
{
    static const kc_fn_t body[] = { leaves_a_child, leaves_a_cleanup };
    static const int code[] = { 0, -EIO, -ECANCELED };

    for (int i = 0; i < 6; i++) {
        struct ends_late e = { .rc = code[i % 3] };
        int rc = 12345;
        kc_job_t *j = launch(body[i / 3], &e, &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });
        UNTIL(kc_job_returned(j, &rc) != -EAGAIN);
        CHECK_EQ(kc_job_result(j, NULL), -EAGAIN);
        CHECK_EQ(rc, e.rc);
        CHECK_EQ(returned_by(j), e.rc);
        set(&e.may_end, 1);
        CHECK_EQ(kc_job_join(j), e.rc);
        CHECK_EQ(returned_by(j), e.rc);
        void *payload = &e;
        CHECK_EQ(kc_deferred_get((kc_deferred_t *)j, &payload), e.rc);
        CHECK(payload == (e.rc == 0 && body[i / 3] == leaves_a_cleanup ? &e : NULL));
        kc_job_release(j);
    }
    return 0;
}

IN_A_JOB(a_body_that_runs_has_not_returned_yet)
{
    count_t began = 0;
    kc_job_t *j = launch(waits, &began, NULL);

    CHECK(kc_job_returned(j, NULL) == -EAGAIN);
    UNTIL(get(&began));
    CHECK_EQ(kc_job_returned(j, NULL), -EAGAIN);
    CHECK_EQ(kc_job_returned(kc_job_current(), NULL), -EAGAIN);
    kc_job_drop(j);
    return 0;
}

static int waits_with_a_cleanup(void *arg)
{
    CHECK_EQ(kc_defer(cleanup_waits_for_its_leave, arg), 0);
    return kc_sleep(KC_FOREVER);
}

static void never_returned(kc_job_t *j)
{
    int rc = 12345;

    CHECK_EQ(kc_job_returned(j, &rc), -ENOENT);
    CHECK_EQ(rc, 12345);
    kc_job_release(j);
}

static int counts_dispose(void *arg UNUSED)
{
    return 0;
}

static void disposes_of(void *arg)
{
    add(arg);
}

IN_A_JOB(a_job_that_is_unstarted_unwound_or_without_a_body_never_returns)
{
    struct ends_late e = { .may_end = 1 };
    count_t disposed = 0;
    kc_deferred_t *promise;
    kc_scope_t scope;

    kc_job_t *g = group(NULL);
    CHECK_EQ(kc_job_returned(g, NULL), -ENOENT);
    CHECK_EQ(kc_group_close(g), 0);
    CHECK_EQ(kc_job_join(g), 0);
    never_returned(g);

    kc_signal_t *fired = kc_signal_create(0);
    kc_signal_emit(fired, KC_SIG_TERMINATE);
    kc_job_t *j = launch(never, NULL, &(kc_launch_opts_t){ .signal = fired });
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    never_returned(j);
    j = launch(counts_dispose, &disposed,
               &(kc_launch_opts_t){ .signal = fired, .dispose = disposes_of });
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&disposed), 1);
    never_returned(j);
    kc_signal_release(fired);

    never_returned(cancelled(waits, NULL, KC_JOB_UNWIND));
    never_returned(cancelled(waits_with_a_cleanup, &e, KC_JOB_UNWIND));

    CHECK_EQ(kc_promise(NULL, &promise), 0);
    CHECK_EQ(kc_job_returned(kc_deferred_job(promise), NULL), -ENOENT);
    CHECK_EQ(kc_promise_complete(promise, 0, NULL), 0);
    CHECK_EQ(kc_job_returned(kc_deferred_job(promise), NULL), -ENOENT);
    kc_deferred_release(promise);

    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    j = kc_job_retain(kc_scope_job(&scope));
    CHECK_EQ(kc_job_returned(j, NULL), -ENOENT);
    CHECK_EQ(kc_scope_end(&scope), 0);
    never_returned(j);
    return 0;
}

enum { MANY = 20 };

IN_A_JOB(many_jobs_that_are_ended_where_they_wait_have_not_returned)
{
    kc_job_t *g = group(NULL), *j[MANY];

    for (int i = 0; i < MANY; i++)
        j[i] = launch(waits, NULL,
                      &(kc_launch_opts_t){ .parent = g, .flags = KC_JOB_UNWIND | KC_JOB_NOW });
    kc_job_cancel(g, 0);
    CHECK_EQ(kc_job_join(g), -ECANCELED);
    for (int i = 0; i < MANY; i++)
        never_returned(j[i]);
    kc_job_release(g);
    return 0;
}

/* ---- failures that are values --------------------------------------------------------------- */

/* Its failure is a value, now and later, and cancels nobody. */
static int has_a_broken_promise(void *arg)
{
    int code = (int)(intptr_t)arg;
    void *payload = arg;
    count_t in = 0;
    kc_deferred_t *d;

    CHECK_EQ(kc_promise(NULL, &d), 0);
    kc_job_t *sibling = launch(waits, &in, NULL);
    CHECK_EQ(kc_promise_complete(d, code, arg), 0);
    CHECK_EQ(kc_await(d, &payload), code);
    CHECK_PTR(payload, NULL);
    UNTIL(get(&in));
    CHECK_EQ(kc_sleep(KC_US(1)), 0);
    CHECK_EQ(kc_job_state(sibling), KC_JOB_ACTIVE);
    CHECK_EQ(kc_job_state(kc_job_current()), KC_JOB_ACTIVE);
    CHECK_EQ(kc_await(d, NULL), code);
    CHECK_EQ(kc_deferred_get(d, NULL), code);
    CHECK_EQ(kc_deferred_state(d), KC_DEFERRED_FAILED);
    kc_deferred_release(d);
    kc_job_drop(sibling);
    return 0;
}

IN_A_JOB(the_failure_of_a_promise_is_a_value_and_cancels_nobody)
{
    CHECK_EQ(kc_scope(has_a_broken_promise, CODE(-EIO), NULL), 0);
    CHECK_EQ(kc_scope(has_a_broken_promise, CODE(3), NULL), 0);
    kc_job_t *j = launch(has_a_broken_promise, CODE(-ETIMEDOUT), NULL);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    return 0;
}

/* A sibling waits while one or more fail alone, and nobody is disturbed. */
static int has_children_that_fail_alone(void *arg UNUSED)
{
    static const uint32_t with[] = { 0, KC_JOB_NOW, KC_JOB_UNWIND, KC_JOB_SUPERVISOR,
                                     KC_JOB_MIGRATE };
    count_t in = 0;
    kc_job_t *sibling = launch(waits, &in, NULL);

    for (int i = 0; i < 5; i++) {
        kc_job_t *j = launch(returns, CODE(-EIO - i),
                             &(kc_launch_opts_t){ .flags = KC_JOB_ALONE | with[i] });
        CHECK_EQ(kc_job_join(j), -EIO - i);
        ended_having_returned(j, KC_JOB_FAILED, -EIO - i, -EIO - i);
    }
    CHECK_EQ(kc_launch_job(returns, CODE(7), &alone, NULL), 0); /* nobody asks how it ended */
    UNTIL(get(&in));
    CHECK_EQ(kc_sleep(KC_US(1)), 0);
    CHECK_EQ(kc_job_state(sibling), KC_JOB_ACTIVE);
    CHECK_EQ(kc_job_state(kc_job_current()), KC_JOB_ACTIVE);
    kc_job_drop(sibling);
    return 0;
}

IN_A_JOB(the_failure_of_a_job_alone_cancels_nobody_and_is_not_its_parents_result)
{
    CHECK_EQ(kc_scope(has_children_that_fail_alone, NULL, NULL), 0);
    kc_job_t *j = launch(has_children_that_fail_alone, NULL, NULL);
    CHECK_EQ(kc_job_join(j), 0);
    ended(j, KC_JOB_COMPLETED, 0);
    j = launch(has_children_that_fail_alone, NULL, &alone);
    CHECK_EQ(kc_job_join(j), 0);
    ended(j, KC_JOB_COMPLETED, 0);
    return 0;
}

IN_A_JOB(await_of_a_job_alone_gives_its_result_and_the_caller_continues)
{
    kc_deferred_t *d;
    void *payload = &d;

    CHECK_EQ(kc_async_job(returns, CODE(-ENOENT), &alone, &d), 0);
    CHECK_EQ(kc_await(d, &payload), -ENOENT);
    CHECK_PTR(payload, NULL);
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_sleep(KC_US(1)), 0);
    CHECK_EQ(kc_await(d, NULL), -ENOENT);
    kc_deferred_release(d);
    return 0;
}

static int leaves_one_alone(void *arg)
{
    count_t *n = arg;

    CHECK_EQ(kc_launch_job(until_set, &n[0], &alone, NULL), 0);
    add(&n[1]);
    return 0;
}

IN_A_JOB(a_job_alone_is_waited_for)
{
    count_t n[2] = { 0 };
    kc_job_t *j = launch(leaves_one_alone, n, NULL);

    UNTIL(get(&n[1]));
    CHECK_EQ(kc_job_join_until(j, kc_now() + KC_US(100)), -ETIMEDOUT);
    set(&n[0], 1);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    return 0;
}

static int waits_with_one_alone(void *arg)
{
    CHECK_EQ(kc_launch_job(waits, arg, &alone, NULL), 0);
    return waits(arg);
}

IN_A_JOB(a_job_alone_is_cancelled_with_its_parent)
{
    count_t in = 0;
    kc_job_t *j = launch(waits_with_one_alone, &in, NULL);

    UNTIL(get(&in) == 2);
    CHECK(kc_job_cancel(j, -EPIPE));
    CHECK_EQ(kc_job_join(j), -EPIPE);
    kc_job_release(j);
    return 0;
}

static int fails_beside_its_child(void *arg)
{
    CHECK_EQ(kc_launch(waits, NULL), 0);
    return (int)(intptr_t)arg;
}

static int has_a_child_that_fails(void *arg)
{
    CHECK_EQ(kc_launch(waits, NULL), 0);
    CHECK_EQ(kc_launch(returns, arg), 0);
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(a_failure_below_a_job_alone_fails_that_job_and_goes_no_further)
{
    kc_job_t *j = launch(fails_beside_its_child, CODE(3), &alone);
    CHECK_EQ(kc_job_join(j), 3);
    kc_job_release(j);
    j = launch(has_a_child_that_fails, CODE(-EIO), &alone);
    CHECK_EQ(kc_job_join(j), -EIO);
    ended(j, KC_JOB_FAILED, -EIO);
    CHECK_EQ(kc_check(), 0);
    return 0;
}

IN_A_JOB(failures_in_a_group_alone_stay_in_the_group)
{
    count_t in = 0;
    kc_job_t *g = group(&alone);
    kc_job_t *sibling = launch(waits, &in, &(kc_launch_opts_t){ .parent = g });

    UNTIL(get(&in));
    CHECK_EQ(kc_launch_job(returns, CODE(-EIO), &(kc_launch_opts_t){ .parent = g }, NULL), 0);
    CHECK_EQ(kc_job_join(sibling), -EIO); /* the reason it was cancelled for */
    CHECK_EQ(kc_job_join(g), -EIO);
    CHECK_EQ(kc_check(), 0);
    ended(sibling, KC_JOB_CANCELLED, -EIO);
    ended(g, KC_JOB_FAILED, -EIO);
    kc_deferred_t *d; /* a promise is so anyway */
    CHECK_EQ(kc_promise(&alone, &d), 0);
    CHECK_EQ(kc_promise_complete(d, -EIO, NULL), 0);
    CHECK_EQ(kc_await(d, NULL), -EIO);
    kc_deferred_release(d);
    return 0;
}

OUTSIDE(a_plain_thread_may_launch_a_job_alone, s)
{
    count_t in = 0;
    kc_job_t *top = launch(waits, &in, &(kc_launch_opts_t){ .sched = s });
    kc_job_t *j =
        launch(returns, CODE(-EIO), &(kc_launch_opts_t){ .parent = top, .flags = KC_JOB_ALONE });

    CHECK_EQ(kc_job_join(j), -EIO);
    CHECK_EQ(kc_job_state(top), KC_JOB_ACTIVE);
    kc_job_release(j);
    kc_job_cancel(top, 0);
    CHECK_EQ(kc_job_join(top), -ECANCELED);
    kc_job_release(top);
    j = launch(returns, CODE(-EIO), &(kc_launch_opts_t){ .sched = s, .flags = KC_JOB_ALONE });
    CHECK_EQ(kc_job_join(j), -EIO);
    kc_job_release(j);
}

/* ---- kc_fail_current ------------------------------------------------------------------------ */

static int says_it_has_failed(void *arg)
{
    count_t in = 0;
    kc_job_t *child = launch(waits, &in, NULL);

    UNTIL(get(&in));
    CHECK(kc_fail_current(-EIO));
    CHECK_EQ(kc_job_state(kc_job_current()), KC_JOB_CANCELLING);
    CHECK(kc_cancelled());
    CHECK_EQ(kc_cancel_reason(), -EIO);
    CHECK(kc_signal_state(kc_job_signal(kc_job_current())) & KC_SIG_TERMINATE);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_launch(never, NULL), -ECANCELED);
    CHECK(!kc_fail_current(7));
    CHECK(!kc_cancel_current(-EINTR));
    (void)!kc_job_join(child); /* it is below, and is waited for */
    ended(child, KC_JOB_CANCELLED, -EIO);
    return (int)(intptr_t)arg;
}

IN_A_JOB(a_job_that_fails_itself_is_cancelled_and_ends_failed_whatever_it_returns)
{
    static const int returned[] = { 0, 3, -EPIPE, -EIO, -ECANCELED };

    for (int i = 0; i < 5; i++) {
        int rc = 12345;
        kc_job_t *j = ran(says_it_has_failed, CODE(returned[i]), NULL);
        CHECK_EQ(kc_job_reason(j), -EIO);
        CHECK_EQ(kc_job_returned(j, &rc), 0);
        CHECK_EQ(rc, returned[i]);
        ended(j, KC_JOB_FAILED, -EIO);
    }
    return 0;
}

static int fails_without_return(void *arg)
{
    CHECK(kc_fail_current((int)(intptr_t)arg));
    return kc_sleep(KC_FOREVER);
}

static int has_children_that_fail(void *arg)
{
    kc_job_t *j = launch(fails, arg, NULL);

    CHECK_EQ(kc_job_join(j), (int)(intptr_t)arg);
    kc_job_release(j);
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(a_job_that_fails_itself_fails_its_parent_as_any_failure_does)
{
    static const int code[] = { -EIO, 1, -ETIMEDOUT, -ESHUTDOWN };

    for (int i = 0; i < 4; i++) {
        ended(ran(has_children_that_fail, CODE(code[i]), NULL), KC_JOB_FAILED, code[i]);
        CHECK_EQ(kc_scope(has_children_that_fail, CODE(code[i]), NULL), code[i]);
        ended(ran(fails, CODE(code[i]), &(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR }),
              KC_JOB_FAILED, code[i]);
        ended(ran(fails_without_return, CODE(code[i]),
                  &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND }),
              KC_JOB_FAILED, code[i]);
    }
    CHECK_EQ(kc_check(), 0);
    return 0;
}

static int fails_after_a_child(void *arg UNUSED)
{
    kc_job_t *j = launch(returns, CODE(-EIO), NULL);

    CHECK_EQ(kc_job_join(j), -EIO);
    kc_job_release(j);
    CHECK(!kc_fail_current(7));
    return 0;
}

IN_A_JOB(the_first_failure_counts_and_dominates_a_cancel_but_not_a_timeout)
{
    ended(ran(fails_after_a_child, NULL, NULL), KC_JOB_FAILED, -EIO);
    kc_job_t *j = launch(fails_when_cancelled, CODE(-EIO),
                         &(kc_launch_opts_t){ .flags = KC_JOB_ALONE | KC_JOB_NOW });
    CHECK(kc_job_cancel(j, -EINTR));
    CHECK_EQ(kc_job_join(j), -EIO);
    CHECK_EQ(kc_job_reason(j), -EINTR);
    ended(j, KC_JOB_FAILED, -EIO);
    j = ran(fails_when_cancelled, CODE(-EIO), &(kc_launch_opts_t){ .timeout = KC_US(10) });
    ended(j, KC_JOB_CANCELLED, -ETIMEDOUT);
    return 0;
}

IN_A_JOB(kc_fail_current_in_a_scope_fails_the_scope)
{
    kc_scope_t outer, inner;

    CHECK_EQ(kc_scope_begin(&outer, NULL), 0);
    CHECK_EQ(kc_scope_begin(&inner, NULL), 0);
    CHECK(kc_fail_current(-EIO));
    CHECK_EQ(kc_check(), -ECANCELED);
    CHECK_EQ(kc_scope_end(&inner), -EIO);
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_scope_end(&outer), 0);
    CHECK_EQ(kc_scope(fails, CODE(5), NULL), 5);
    CHECK_EQ(kc_sleep(0), 0);
    return 0;
}

static void cleanup_fails(void *arg)
{
    bool first = kc_fail_current(-EIO);

    CHECK_EQ(first, arg != NULL);
    CHECK_EQ(kc_sleep(KC_US(1)), 0); /* shielded: its effect waits */
    CHECK(!kc_cancelled());
}

static int has_a_cleanup_that_fails(void *arg)
{
    CHECK_EQ(kc_defer(cleanup_fails, arg), 0);
    return arg ? 0 : -EPIPE;
}

static int shielded_fails(void *arg UNUSED)
{
    CHECK_EQ(kc_shield_begin(), 0);
    CHECK(kc_fail_current(-EIO));
    CHECK(!kc_cancelled());
    CHECK_EQ(kc_sleep(KC_US(1)), 0);
    CHECK_EQ(kc_job_state(kc_job_current()), KC_JOB_CANCELLING);
    kc_shield_end();
    CHECK_EQ(kc_check(), -ECANCELED);
    return 0;
}

IN_A_JOB(a_cleanup_may_fail_its_job)
{
    kc_job_t *j = ran(has_a_cleanup_that_fails, CODE(1), NULL);
    int rc = 12345;

    CHECK_EQ(kc_job_returned(j, &rc), 0);
    CHECK_EQ(rc, 0);
    ended(j, KC_JOB_FAILED, -EIO);
    ended(ran(has_a_cleanup_that_fails, NULL, NULL), KC_JOB_FAILED, -EPIPE);
    ended(ran(shielded_fails, NULL, NULL), KC_JOB_FAILED, -EIO);
    return 0;
}

static int forbids_and_fails(void *arg UNUSED)
{
    count_t in = 0;
    kc_job_t *child = launch(waits, &in, NULL);

    UNTIL(get(&in));
    kc_forbid_signal();
    CHECK(kc_fail_current(-EIO));
    CHECK(!kc_fail_current(-EIO));
    CHECK_EQ(kc_job_join(child), -EIO); /* its reason */
    kc_job_release(child);
    CHECK_EQ(kc_sleep(KC_US(1)), 0); /* its body goes on */
    CHECK_EQ(kc_launch(never, NULL), -ECANCELED);
    return 0;
}

IN_A_JOB(a_job_that_forbids_signals_and_fails_itself_continues_and_ends_failed)
{
    ended(ran(forbids_and_fails, NULL, NULL), KC_JOB_FAILED, -EIO);
    return 0;
}

static int generator_fails(kc_gen_t *g, void *arg UNUSED)
{
    (void)kc_gen_yield(g, g);
    CHECK(kc_fail_current(-EIO));
    return 0;
}

static int asks_one_that_fails(void *arg UNUSED)
{
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, generator_fails, NULL, 0), 0);
    while (kc_gen_next(&g, NULL))
        CHECK_EQ(kc_check(), 0);
    kc_gen_end(&g);
    CHECK_EQ(kc_check(), -ECANCELED);
    return 0;
}

IN_A_JOB(a_generator_may_fail_its_job)
{
    ended(ran(asks_one_that_fails, NULL, NULL), KC_JOB_FAILED, -EIO);
    return 0;
}

TEST_ABORTS(kc_fail_current_outside_jobs_aborts, "kc_fail_current: there is no current job")
{
    kc_fail_current(-EIO);
}

static int fails_with(void *arg)
{
    kc_fail_current((int)(intptr_t)arg);
    return 0;
}

static int fails_with_0(void *arg UNUSED)
{
    return fails_with(CODE(0));
}

static int fails_with_ecanceled(void *arg UNUSED)
{
    return fails_with(CODE(-ECANCELED));
}

TEST_ABORTS(kc_fail_current_with_0_aborts, "kc_fail_current: the code is no failure (rule J33,")
{
    run_named(fails_with_0, "zero");
}

TEST_ABORTS(kc_fail_current_with_ecanceled_aborts, "kc_fail_current: the code is no failure")
{
    run_named(fails_with_ecanceled, "cancelled");
}
