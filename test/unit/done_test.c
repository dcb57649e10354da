/* SPDX-License-Identifier: MIT */
/*
 * done_test.c - what did happen counts, although a cancel had come or the time was over (A1, A3).
 */
#include "collect_kit.h"

static int payload_of[8];

/* Cannot be interrupted: goes on until the gate opens, whatever happens, and then is done. */
static int finishes(void *arg)
{
    CHECK_EQ(kc_shield_begin(), 0);
    add(&in);
    UNTIL(get(&gate));
    if (arg)
        kc_set_payload(arg);
    add(&out);
    kc_shield_end();
    return 0;
}

static kc_call_t finishing(int i)
{
    return (kc_call_t){ .fn = finishes, .arg = &payload_of[i], .rc = 55 };
}

static void was_done(const kc_call_t *call)
{
    CHECK_EQ(call->rc, 0);
    CHECK_PTR(call->payload, call->arg);
}

/* ---- A3: with a timeout ---------------------------------------------------------------------- */

/* Its time is over before the gate opens. */
static int opens_when_cancelled(void *arg)
{
    int rc = kc_sleep(KC_FOREVER);

    CHECK_EQ(rc, -ECANCELED);
    set(&gate, 1);
    return arg ? (int)(intptr_t)arg : 0;
}

/* A body whose time is over, and that returns 0 then; before, it has launched a child. */
struct late {
    kc_fn_t child;
    void *arg;
    kc_launch_opts_t opts;
};

static int is_late(void *arg)
{
    const struct late *late = arg;

    if (late->child)
        CHECK_EQ(kc_launch_job(late->child, late->arg, &late->opts, NULL), 0);
    return opens_when_cancelled(NULL);
}

static int with_a_timeout(struct late late)
{
    start_afresh();
    int rc = kc_with_timeout(KC_MS(20), is_late, &late);
    CHECK_EQ(kc_check(), 0);
    return rc;
}

static int ignores_the_cancel(void *arg)
{
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return (int)(intptr_t)arg;
}

/* The work must not be cut short, and takes longer than there is time. */
static int finishes_later(void *arg UNUSED)
{
    CHECK_EQ(kc_shield_begin(), 0);
    CHECK_EQ(kc_sleep(KC_MS(30)), 0);
    kc_shield_end();
    return 0;
}

static int has_a_child_that_waits(void *arg)
{
    CHECK_EQ(kc_launch(waits, NULL), 0);
    return ignores_the_cancel(arg);
}

IN_VIRTUAL_TIME(what_fn_has_done_is_reported_as_done_though_its_time_was_over)
{
    CHECK_EQ(with_a_timeout((struct late){ 0 }), 0);
    CHECK_EQ(kc_with_timeout(KC_MS(20), finishes_later, NULL), 0);
    CHECK_EQ(kc_with_deadline(kc_now() + KC_MS(20), finishes_later, NULL), 0);
    return 0;
}

IN_VIRTUAL_TIME(a_call_is_done_though_its_time_was_over_if_its_children_returned_0)
{
    CHECK_EQ(with_a_timeout((struct late){ ignores_the_cancel, CODE(0), { 0 } }), 0);
    CHECK_EQ(with_a_timeout((struct late){ finishes_later, NULL, { 0 } }), 0);
    CHECK_EQ(with_a_timeout((struct late){ has_a_child_that_waits, CODE(0), { 0 } }), 0);
    return 0;
}

IN_VIRTUAL_TIME(a_child_that_was_cancelled_or_failed_leaves_its_call_undone)
{
    const kc_launch_opts_t unwinds = { .flags = KC_JOB_UNWIND };

    CHECK_EQ(with_a_timeout((struct late){ waits, NULL, { 0 } }), -ETIMEDOUT);
    CHECK_EQ(with_a_timeout((struct late){ waits, NULL, unwinds }), -ETIMEDOUT);
    CHECK_EQ(with_a_timeout((struct late){ ignores_the_cancel, CODE(-EIO), { 0 } }), -ETIMEDOUT);
    return 0;
}

static int launches_many_that_are_unwound(void *arg UNUSED)
{
    for (int i = 0; i < 20; i++)
        CHECK_EQ(kc_launch_job(waits, NULL, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND }, NULL),
                 0);
    return opens_when_cancelled(NULL);
}

IN_VIRTUAL_TIME(many_children_that_are_unwound_leave_their_call_undone)
{
    CHECK_EQ(kc_with_timeout(KC_MS(20), launches_many_that_are_unwound, NULL), -ETIMEDOUT);
    return 0;
}

static int launches_one_that_cannot_start(void *arg UNUSED)
{
    CHECK_EQ(kc_launch_job(never, NULL, &(kc_launch_opts_t){ .affinity = KC_HERE }, NULL), 0);
    CHECK(kc_cancel_current(0));
    return 0;
}

IN_A_JOB(a_child_that_never_started_leaves_its_call_undone)
{
    CHECK_EQ(kc_with_timeout(KC_SEC(100), launches_one_that_cannot_start, NULL), -ECANCELED);
    return 0;
}

IN_VIRTUAL_TIME(a_child_alone_does_not_leave_its_call_undone)
{
    const kc_launch_opts_t alone = { .flags = KC_JOB_ALONE };
    const kc_launch_opts_t unwinds = { .flags = KC_JOB_ALONE | KC_JOB_UNWIND };

    CHECK_EQ(with_a_timeout((struct late){ waits, NULL, alone }), 0);
    CHECK_EQ(with_a_timeout((struct late){ waits, NULL, unwinds }), 0);
    CHECK_EQ(with_a_timeout((struct late){ ignores_the_cancel, CODE(-EIO), alone }), 0);
    return 0;
}

static int opens_a_scope_of_its_own(void *arg)
{
    kc_scope_t scope;

    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    CHECK_EQ(kc_launch((kc_fn_t)(uintptr_t)arg, NULL), 0);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_NE(kc_scope_end(&scope), 0);
    return 0;
}

static int fails_late(void *arg UNUSED)
{
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return -EIO;
}

IN_VIRTUAL_TIME(scopes_that_fn_opened_do_not_leave_its_call_undone)
{
    void *fns[] = { (void *)(uintptr_t)waits, (void *)(uintptr_t)fails_late };

    for (int i = 0; i < 2; i++)
        CHECK_EQ(kc_with_timeout(KC_MS(20), opens_a_scope_of_its_own, fns[i]), 0);
    return 0;
}

static int makes_a_promise(void *arg)
{
    kc_deferred_t **d = arg;

    CHECK_EQ(kc_promise(NULL, d), 0);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return 0;
}

static int makes_a_promise_that_fails(void *arg)
{
    kc_deferred_t **d = arg;

    CHECK_EQ(kc_promise(NULL, d), 0);
    CHECK_EQ(kc_promise_complete(*d, -EIO, NULL), 0);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return 0;
}

static int makes_a_group(void *arg)
{
    kc_job_t **g = arg;

    CHECK_EQ(kc_group_create(NULL, g), 0);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    return 0;
}

IN_VIRTUAL_TIME(a_cancelled_promise_or_group_leaves_its_call_undone_and_a_failed_promise_does_not)
{
    kc_deferred_t *d = NULL;
    kc_job_t *g = NULL;

    CHECK_EQ(kc_with_timeout(KC_MS(20), makes_a_promise, &d), -ETIMEDOUT);
    kc_deferred_release(d);
    CHECK_EQ(kc_with_timeout(KC_MS(20), makes_a_promise_that_fails, &d), 0);
    kc_deferred_release(d);
    CHECK_EQ(kc_with_timeout(KC_MS(20), makes_a_group, &g), -ETIMEDOUT);
    kc_job_release(g);
    return 0;
}

/* Of what a call of collect does inside nothing is left undone. */
static int collects_and_goes_on(void *arg UNUSED)
{
    kc_call_t calls[] = { { .fn = ignores_the_cancel }, { .fn = ignores_the_cancel } };

    (void)!kc_any(calls, 2, KC_SIG_NONE, NULL);
    return 0;
}

IN_VIRTUAL_TIME(a_call_of_collect_inside_leaves_nothing_undone)
{
    CHECK_EQ(kc_with_timeout(KC_MS(20), collects_and_goes_on, NULL), 0);
    return 0;
}

static int finishes_with_a_timeout(void *arg UNUSED)
{
    CHECK_EQ(kc_with_timeout(KC_SEC(100), finishes, NULL), 0);
    CHECK_EQ(kc_check(), -ECANCELED);
    CHECK_EQ(kc_with_timeout(KC_SEC(100), never, NULL), -ECANCELED);
    add(&heard);
    return -ECANCELED;
}

IN_A_JOB(what_fn_has_done_is_reported_as_done_though_the_caller_is_cancelled)
{
    static const uint32_t flags[] = { 0, KC_JOB_UNWIND };

    for (int i = 0; i < 2; i++) {
        start_afresh();
        kc_job_t *j =
            launch(finishes_with_a_timeout, NULL, &(kc_launch_opts_t){ .flags = flags[i] });
        UNTIL(get(&in) == 1);
        CHECK(kc_job_cancel(j, 0));
        set(&gate, 1);
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        CHECK_EQ(get(&heard), i == 0); /* the second is unwound at its next look */
        kc_job_release(j);
    }
    return 0;
}

/* ---- A1: of several calls -------------------------------------------------------------------- */

static int fails_at_the_gate(void *arg UNUSED)
{
    UNTIL(get(&in) == 1);
    set(&gate, 1);
    return -EIO;
}

IN_A_JOB(a_call_that_was_told_to_stop_and_returned_0_is_done)
{
    kc_call_t calls[] = { finishing(0), { .fn = fails_at_the_gate } };

    start_afresh();
    CHECK_EQ(kc_all_fail_fast(calls, 2), -EIO);
    was_done(&calls[0]);
    CHECK_EQ(calls[1].rc, -EIO);
    return 0;
}

static kc_job_t *first_call;

/* The first to end, while the other one waits for the gate. */
static int returns_at_once(void *arg)
{
    UNTIL(get(&in) == 1);
    first_call = kc_job_retain(kc_job_current());
    if (arg)
        kc_set_payload(arg);
    add(&heard);
    return 0;
}

static bool first_has_ended(void)
{
    return get(&heard) == 1 && kc_job_state(first_call) == KC_JOB_COMPLETED;
}

static int opens_after_the_first(void *arg UNUSED)
{
    UNTIL(first_has_ended());
    set(&gate, 1);
    return 0;
}

IN_A_JOB(a_loser_that_returned_0_is_done_and_does_not_win)
{
    kc_call_t calls[] = { finishing(0), { .fn = returns_at_once } };
    size_t winner = 99;

    start_afresh();
    CHECK_EQ(kc_launch(opens_after_the_first, NULL), 0);
    CHECK_EQ(kc_race(calls, 2, &winner), 0);
    CHECK_EQ(winner, 1);
    was_done(&calls[0]);
    kc_job_release(first_call);
    return 0;
}

IN_VIRTUAL_TIME(a_call_whose_own_time_was_over_and_that_returned_0_is_done)
{
    kc_launch_opts_t hasty = { .timeout = KC_MS(1) };
    kc_call_t calls[] = { { .fn = ignores_the_cancel, .opts = &hasty, .rc = 55 },
                          { .fn = returns, .arg = CODE(0), .rc = 55 } };

    CHECK_EQ(kc_all(calls, 2, KC_SIG_NONE), 0);
    CHECK_EQ(calls[0].rc, 0);
    CHECK_EQ(calls[1].rc, 0);
    calls[0].fn = has_a_child_that_waits;
    CHECK_EQ(kc_all(calls, 2, KC_SIG_NONE), -ETIMEDOUT); /* the child was stopped */
    CHECK_EQ(calls[0].rc, -ETIMEDOUT);
    return 0;
}

IN_A_JOB(a_call_whose_own_time_was_over_is_a_failure)
{
    kc_launch_opts_t hasty = { .timeout = KC_MS(1) };
    kc_call_t calls[] = { { .fn = waits, .rc = 55 }, { .fn = waits, .opts = &hasty, .rc = 55 } };
    size_t winner = 99;

    CHECK_EQ(kc_all_fail_fast(calls, 2), -ETIMEDOUT);
    CHECK_EQ(calls[0].rc, -ECANCELED);
    CHECK_EQ(calls[1].rc, -ETIMEDOUT);
    calls[0] = (kc_call_t){ .fn = until_set, .arg = &gate };
    start_afresh();
    set(&gate, 1);
    CHECK_EQ(kc_first_ok(calls, 2, &winner), 0);
    CHECK_EQ(winner, 0);
    return 0;
}

static count_t dropped;

static void drops(void *payload UNUSED)
{
    add(&dropped);
}

static int finishes_with_a_value(void *arg)
{
    kc_set_payload_with(arg, drops);
    return finishes(NULL);
}

static int gives_a_value_and_returns(void *arg)
{
    kc_set_payload_with(&payload_of[1], drops);
    return (int)(intptr_t)arg;
}

IN_A_JOB(what_was_done_is_handed_over_and_not_disposed_of_and_the_rest_is_disposed_of)
{
    kc_call_t calls[] = { { .fn = finishes_with_a_value, .arg = &payload_of[0] },
                          { .fn = gives_a_value_and_returns, .arg = CODE(0) },
                          { .fn = gives_a_value_and_returns, .arg = CODE(7) },
                          { .fn = fails_at_the_gate } };

    start_afresh();
    set(&dropped, 0);
    CHECK_NE(kc_all(calls, 4, KC_SIG_NONE), 0);
    CHECK_PTR(calls[0].payload, &payload_of[0]);
    CHECK_PTR(calls[1].payload, &payload_of[1]);
    CHECK_PTR(calls[2].payload, NULL);
    CHECK_EQ(get(&dropped), 1);
    start_afresh();
    calls[1] = calls[3];
    CHECK_EQ(kc_all_fail_fast(calls, 2), -EIO);
    CHECK_PTR(calls[0].payload, &payload_of[0]); /* it was told to stop, and finished */
    CHECK_EQ(get(&dropped), 1);
    return 0;
}

static kc_job_t *kept;

static int gives_a_value_keeps_its_job_and_fails(void *arg)
{
    kept = kc_job_retain(kc_job_current());
    return gives_a_value_and_returns(arg);
}

IN_A_JOB(the_value_of_a_call_that_fails_is_disposed_of_though_its_job_has_a_handle)
{
    kc_call_t call = { .fn = gives_a_value_keeps_its_job_and_fails, .arg = CODE(7) };

    set(&dropped, 0);
    CHECK_EQ(kc_all(&call, 1, KC_SIG_NONE), 7);
    CHECK_EQ(get(&dropped), 1);
    kc_job_release(kept);
    CHECK_EQ(get(&dropped), 1);
    return 0;
}

/* ---- A1: the caller is cancelled ------------------------------------------------------------- */

typedef int (*collect_t)(kc_call_t *calls, size_t n, size_t *winner);

static int by_all(kc_call_t *calls, size_t n, size_t *winner UNUSED)
{
    return kc_all(calls, n, KC_SIG_NONE);
}

static int by_fail_fast(kc_call_t *calls, size_t n, size_t *winner UNUSED)
{
    return kc_all_fail_fast(calls, n);
}

static int by_window(kc_call_t *calls, size_t n, size_t *winner UNUSED)
{
    return kc_all_window(calls, n, 5);
}

static const collect_t alls[] = { by_all, by_fail_fast, by_window };
static const collect_t ones[] = { kc_race, kc_first_ok };

/* What a job collects, and what came of it. */
struct collecting {
    collect_t collect;
    kc_call_t calls[3];
    size_t n, winner;
    int rc;
    count_t goes_on;
};

static int collects(void *arg)
{
    struct collecting *c = arg;

    c->winner = 99;
    c->rc = c->collect(c->calls, c->n, &c->winner);
    add(&c->goes_on);
    CHECK_EQ(kc_check(), -ECANCELED);
    return -ECANCELED;
}

/* Cancels it when so many of its calls wait for the gate and `when` says so. */
static void cancel_at(struct collecting *c, int waiting, bool (*when)(void), uint32_t flags)
{
    start_afresh();
    set(&c->goes_on, 0);
    kc_job_t *j = launch(collects, c, &(kc_launch_opts_t){ .flags = flags });
    UNTIL(get(&in) == waiting && (!when || when()));
    CHECK(kc_job_cancel(j, 0));
    set(&gate, 1);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
}

IN_A_JOB(a_cancelled_caller_gets_0_if_all_calls_returned_0)
{
    for (int i = 0; i < 3; i++) {
        struct collecting c = { .collect = alls[i],
                                .calls = { finishing(0), finishing(1) },
                                .n = 2 };
        cancel_at(&c, 2, NULL, i == 0 ? KC_JOB_UNWIND : 0);
        CHECK_EQ(c.rc, 0);
        was_done(&c.calls[0]);
        was_done(&c.calls[1]);
    }
    return 0;
}

IN_A_JOB(a_cancelled_caller_gets_ecanceled_if_not_all_calls_returned_0)
{
    for (int i = 0; i < 3; i++) {
        struct collecting c = { .collect = alls[i],
                                .calls = { finishing(0), { .fn = lingers, .rc = 55 } },
                                .n = 2 };
        cancel_at(&c, 2, NULL, 0);
        CHECK_EQ(c.rc, -ECANCELED);
        was_done(&c.calls[0]);
        CHECK_EQ(c.calls[1].rc, -ECANCELED);
        c.calls[1].arg = CODE(-EIO); /* it fails then */
        cancel_at(&c, 2, NULL, 0);
        CHECK_EQ(c.rc, -ECANCELED);
        CHECK_EQ(c.calls[1].rc, -EIO);
    }
    return 0;
}

IN_A_JOB(a_success_before_the_cancel_wins_though_the_caller_is_cancelled_while_others_stop)
{
    for (int i = 0; i < 2; i++) {
        struct collecting c = { .collect = ones[i],
                                .calls = { finishing(0), { .fn = returns_at_once } },
                                .n = 2 };
        c.calls[1].arg = &payload_of[1];
        cancel_at(&c, 1, first_has_ended, 0);
        CHECK_EQ(c.rc, 0);
        CHECK_EQ(c.winner, 1);
        was_done(&c.calls[0]);
        was_done(&c.calls[1]);
        kc_job_release(first_call);
    }
    return 0;
}

IN_A_JOB(a_success_after_the_cancel_does_not_win)
{
    for (int i = 0; i < 2; i++) {
        struct collecting c = { .collect = ones[i],
                                .calls = { finishing(0), finishing(1) },
                                .n = 2 };
        cancel_at(&c, 2, NULL, 0);
        CHECK_EQ(c.rc, -ECANCELED);
        CHECK_EQ(c.winner, 99);
        was_done(&c.calls[0]);
        was_done(&c.calls[1]);
        cancel_at(&c, 2, NULL, KC_JOB_UNWIND);
        CHECK_EQ(get(&c.goes_on), 0); /* it was unwound */
    }
    return 0;
}

static int by_all_with_terminate(kc_call_t *calls, size_t n, size_t *winner UNUSED)
{
    return kc_all(calls, n, KC_SIG_TERMINATE);
}

IN_A_JOB(calls_that_the_first_has_stopped_before_the_cancel_are_no_failures)
{
    struct collecting c = { .collect = by_all_with_terminate,
                            .calls = { { .fn = lingers }, { .fn = returns_at_once } },
                            .n = 2 };

    cancel_at(&c, 1, first_has_ended, 0);
    CHECK_EQ(c.rc, 0);
    CHECK_EQ(c.calls[0].rc, -ECANCELED);
    kc_job_release(first_call);
    return 0;
}
