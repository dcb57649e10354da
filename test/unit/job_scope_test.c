/* SPDX-License-Identifier: MIT */
/*
 * job_scope_test.c - scopes, cleanups, unwinding, how many run at a time (J0, J2, J13, J15-J17,
 * J21).
 */
#include "job_kit.h"

/* ---- scopes --------------------------------------------------------------------------------- */

static int launches_into_the_scope(void *arg)
{
    for (int i = 0; i < 5; i++)
        CHECK_EQ(kc_launch(counts, arg), 0);
    return 0;
}

IN_A_JOB(nothing_that_was_launched_in_a_scope_is_alive_after_it)
{
    count_t n = 0;
    kc_scope_t s;

    CHECK_EQ(kc_scope(launches_into_the_scope, &n, NULL), 0);
    CHECK_EQ(get(&n), 5);
    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .name = "five more" }), 0);
    CHECK_STR(kc_job_name(kc_scope_job(&s)), "five more");
    launches_into_the_scope(&n);
    CHECK_EQ(kc_scope_end(&s), 0);
    CHECK_EQ(get(&n), 10);
    return 0;
}

IN_A_JOB(the_current_job_is_that_of_the_innermost_scope)
{
    kc_job_t *own = kc_job_current();
    kc_scope_t outer, inner;

    CHECK_EQ(kc_scope_begin(&outer, NULL), 0);
    CHECK_PTR(kc_job_current(), kc_scope_job(&outer));
    CHECK_EQ(kc_scope_begin(&inner, NULL), 0);
    CHECK_PTR(kc_job_current(), kc_scope_job(&inner));
    kc_job_t *j = kc_job_retain(kc_job_current());
    CHECK(kc_cancel_current(-EPIPE));
    CHECK(!kc_cancel_current(-EPIPE));
    CHECK(kc_cancelled());
    CHECK_EQ(kc_cancel_reason(), -EPIPE);
    CHECK_EQ(kc_check(), -ECANCELED);
    CHECK_EQ(kc_launch(never, NULL), -ECANCELED);
    CHECK_EQ(kc_scope_end(&inner), -EPIPE);
    ended(j, KC_JOB_CANCELLED, -EPIPE);
    CHECK_PTR(kc_job_current(), kc_scope_job(&outer));
    CHECK(!kc_cancelled());
    CHECK_EQ(kc_cancel_reason(), 0);
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_scope_end(&outer), 0);
    CHECK_PTR(kc_job_current(), own);
    return 0;
}

static int nests(void *arg)
{
    int rc = kc_scope(returns, arg, NULL);

    CHECK_EQ(kc_check(), 0); /* a scope's failure does not cancel the job around it */
    return rc;
}

static int fails_in_a_child(void *arg)
{
    CHECK_EQ(kc_launch(waits, NULL), 0);
    CHECK_EQ(kc_launch(returns, arg), 0);
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(the_failure_of_an_inner_scope_is_the_value_of_its_end)
{
    kc_scope_t s;

    CHECK_EQ(kc_scope(nests, CODE(-EIO), NULL), -EIO);
    CHECK_EQ(kc_scope(fails_in_a_child, CODE(-EIO), NULL), -EIO);
    CHECK_EQ(kc_scope(fails_in_a_child, CODE(-ETIMEDOUT), NULL), -ETIMEDOUT);
    CHECK_EQ(kc_scope(returns, CODE(-ECANCELED), NULL), -ECANCELED);
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_launch(returns, CODE(6)), 0);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), 6);
    CHECK_EQ(kc_scope_end(&s), 6);
    CHECK_EQ(kc_check(), 0);
    return 0;
}

static int launches_failures(void *arg)
{
    kc_job_t *j = launch(returns, arg, NULL);

    CHECK_EQ(kc_job_join(j), (int)(intptr_t)arg);
    CHECK_EQ(kc_check(), 0);
    kc_job_release(j);
    CHECK_EQ(kc_launch(returns, arg), 0);
    return 0;
}

IN_A_JOB(a_supervisor_scope_returns_what_its_function_returned)
{
    kc_scope_opts_t opts = { .flags = KC_JOB_SUPERVISOR };

    CHECK_EQ(kc_scope(launches_failures, CODE(-EIO), &opts), 0);
    CHECK_EQ(kc_scope(returns, CODE(3), &opts), 3);
    return 0;
}

static int waits_and_launches(void *arg)
{
    int rc = kc_launch(waits, arg);

    CHECK(rc == 0 || rc == -ECANCELED); /* its time may be over already */
    return waits(arg);
}

IN_A_JOB(a_scope_that_times_out_returns_etimedout_and_its_job_continues)
{
    count_t n = 0;
    kc_time_t begin = kc_now();
    kc_scope_opts_t shorter = { .timeout = KC_MS(1) }, longer = { .timeout = KC_SEC(100) };
    kc_scope_t outer, inner;

    CHECK_EQ(kc_scope(waits_and_launches, &n, &shorter), -ETIMEDOUT);
    CHECK_GE(kc_now() - begin, KC_MS(1));
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_cancel_reason(), 0);
    CHECK_EQ(kc_scope(returns, CODE(0), &longer), 0);
    CHECK_EQ(kc_scope_begin(&outer, &shorter),
             0); /* an inner one does not outlive the outer one */
    CHECK_EQ(kc_scope_begin(&inner, &longer), 0);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), -ECANCELED);
    CHECK_EQ(kc_scope_end(&inner), -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), -ETIMEDOUT);
    CHECK_EQ(kc_scope_end(&outer), -ETIMEDOUT);
    CHECK_EQ(kc_scope_begin(&outer, &longer), 0);
    CHECK_EQ(kc_scope_begin(&inner, &shorter), 0);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_scope_end(&inner), -ETIMEDOUT);
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_scope_end(&outer), 0);
    return 0;
}

static int sleeps_through(void *arg UNUSED)
{
    int rc = kc_launch(waits, NULL);

    CHECK(rc == 0 || rc == -ECANCELED);
    return 0;
}

IN_A_JOB(a_timeout_reaches_a_scope_that_waits_at_its_end)
{
    CHECK_EQ(kc_scope(sleeps_through, NULL, &(kc_scope_opts_t){ .timeout = KC_MS(1) }),
             -ETIMEDOUT);
    return 0;
}

static int ends_a_scope_while_cancelled(void *arg)
{
    count_t *n = arg;
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_shield_begin(), 0);
    CHECK_EQ(kc_launch(until_set, &n[1]), 0); /* born under a shield, cancelled at its end */
    add(&n[0]);
    UNTIL(get(&n[2]));
    CHECK_EQ(kc_check(), 0);
    kc_shield_end();
    CHECK_EQ(kc_scope_end(&s), -ECANCELED); /* and waited for */
    return 0;
}

IN_A_JOB(the_end_of_a_scope_always_waits)
{
    count_t n[3] = { 0, 0, 0 };
    kc_job_t *j = launch(ends_a_scope_while_cancelled, n, NULL);

    UNTIL(get(&n[0]));
    CHECK(kc_job_cancel(j, 0));
    set(&n[2], 1);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    return 0;
}

static int joins_a_scope(void *arg)
{
    return kc_job_join(arg);
}

IN_A_JOB(a_scope_can_be_joined_cancelled_and_launched_into_by_others)
{
    kc_scope_t s;
    count_t n = 0;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    kc_job_t *scope = kc_job_retain(kc_scope_job(&s));
    kc_launch_opts_t apart = { .flags = KC_JOB_DETACHED };
    kc_job_t *j = launch(joins_a_scope, scope, &apart);
    kc_job_t *k = launch(counts, &n, &(kc_launch_opts_t){ .parent = scope });
    CHECK_EQ(kc_job_join(k), 0);
    kc_job_release(k);
    CHECK(kc_job_cancel(scope, -EPIPE));
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_launch_job(never, NULL, &(kc_launch_opts_t){ .parent = scope }, NULL), -ECANCELED);
    CHECK_EQ(kc_scope_end(&s), -EPIPE);
    CHECK_EQ(kc_launch_job(never, NULL, &(kc_launch_opts_t){ .parent = scope }, NULL), -ESHUTDOWN);
    CHECK_EQ(kc_job_join(j), -EPIPE);
    kc_job_release(j);
    ended(scope, KC_JOB_CANCELLED, -EPIPE);
    return 0;
}

/* ---- cleanups ------------------------------------------------------------------------------- */

static char trail[64]; /* of one job at a time */
static size_t trailed;

static void mark_trail(char c)
{
    CHECK_LT(trailed + 1, sizeof trail);
    trail[trailed++] = c;
    trail[trailed] = 0;
}

static void clear_trail(void)
{
    trailed = 0;
    trail[0] = 0;
}

static void marks(void *arg)
{
    CHECK(!kc_cancelled());
    CHECK_EQ(kc_sleep(KC_US(1)), 0); /* cleanups are shielded, they may suspend */
    mark_trail((char)(intptr_t)arg);
}

static int marks_at_its_end(void *arg)
{
    int rc = kc_sleep(KC_FOREVER);

    mark_trail((char)(intptr_t)arg);
    return rc;
}

struct path {
    int code;
    bool waits;
    count_t in;
};

static int has_cleanups(void *arg)
{
    struct path *p = arg;
    kc_scope_t s;
    int rc = 0;

    CHECK_EQ(kc_defer(marks, CODE('a')), 0);
    CHECK_EQ(kc_defer(marks, CODE('x')), 0);
    CHECK(kc_undefer(marks, CODE('x')));
    CHECK(!kc_undefer(marks, CODE('x')));
    KC_CLEANUP(marks, CODE('b'));
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_defer(marks, CODE('c')), 0);
    CHECK_EQ(kc_defer(marks, CODE('d')), 0);
    {
        KC_CLEANUP(marks, CODE('e'));
        set(&p->in, 1);
        if (p->waits)
            rc = kc_sleep(KC_FOREVER);
    }
    CHECK_EQ(kc_scope_end(&s), rc);
    mark_trail('|');
    return p->code ? p->code : rc;
}

static void follow(uint32_t flags, int code, bool cancel, const char *expected)
{
    struct path p = { .code = code, .waits = cancel };
    clear_trail();
    kc_job_t *j =
        launch(has_cleanups, &p, &(kc_launch_opts_t){ .flags = flags | KC_JOB_DETACHED });

    UNTIL(get(&p.in));
    if (cancel)
        CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), cancel ? -ECANCELED : code);
    CHECK_STR(trail, expected);
    kc_job_release(j);
}

IN_A_JOB(cleanups_run_last_in_first_out_on_every_path)
{
    follow(0, 0, false, "edc|ba");
    follow(0, -EIO, false, "edc|ba");
    follow(0, 0, true, "edc|ba");
    follow(KC_JOB_UNWIND, 0, true, "edcba"); /* the body does not go on */
    follow(KC_JOB_UNWIND, -EIO, false, "edc|ba");
    return 0;
}

static int cleans_up_after_its_children(void *arg UNUSED)
{
    CHECK_EQ(kc_defer(marks, CODE('z')), 0);
    CHECK_EQ(kc_launch(marks_at_its_end, CODE('1')), 0);
    return -EIO;
}

IN_A_JOB(deferred_cleanups_run_when_the_children_have_ended)
{
    clear_trail();
    CHECK_EQ(kc_scope(cleans_up_after_its_children, NULL, NULL), -EIO);
    CHECK(strcmp(trail, "1z") == 0 || strcmp(trail, "z") == 0); /* it may not have started */
    clear_trail();
    kc_job_t *j = launch(cleans_up_after_its_children, NULL,
                         &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });
    CHECK_EQ(kc_job_join(j), -EIO);
    CHECK(strcmp(trail, "1z") == 0 || strcmp(trail, "z") == 0);
    kc_job_release(j);
    return 0;
}

static void launches_in_a_cleanup(void *arg)
{
    kc_job_t *j = launch(counts, arg, NULL);

    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    CHECK_EQ(kc_launch(waits, NULL), 0); /* is cancelled when the cleanups are over */
    CHECK_EQ(kc_scope(returns, CODE(2), NULL), 2);
    CHECK_EQ(kc_shield_begin(), 0);
    kc_shield_end();
    CHECK_EQ(kc_check(), 0);
}

static int cleans_up_with_children(void *arg)
{
    CHECK_EQ(kc_defer(launches_in_a_cleanup, arg), 0);
    return waits(arg);
}

IN_A_JOB(a_cleanup_of_a_cancelled_job_may_launch_and_open_scopes)
{
    for (uint32_t flags = 0; flags <= KC_JOB_UNWIND; flags += KC_JOB_UNWIND) {
        count_t n = 0;
        kc_job_t *j = launch(cleans_up_with_children, &n, &(kc_launch_opts_t){ .flags = flags });
        UNTIL(get(&n) == 1);
        CHECK(kc_job_cancel(j, 0));
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        CHECK_EQ(get(&n), 2);
        kc_job_release(j);
    }
    return 0;
}

/* ---- unwinding ------------------------------------------------------------------------------ */

struct unwound {
    int how;
    count_t in, cleaned, children;
    kc_job_t *other;
};

static void cleans(void *arg)
{
    struct unwound *u = arg;

    CHECK_EQ(get(&u->children), u->how == 5 ? 0 : 1); /* the scope has waited for its child */
    add(&u->cleaned);
}

static int child_of_an_unwound(void *arg)
{
    struct unwound *u = arg;

    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    for (int i = 0; i < 5; i++)
        kcoro_yield();
    add(&u->children);
    return 0;
}

static int is_not_resumed(void *arg)
{
    struct unwound *u = arg;
    kc_scope_t s;

    CHECK_EQ(kc_defer(cleans, u), 0);
    KC_CLEANUP(cleans, u);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(
        kc_launch_job(child_of_an_unwound, u, &(kc_launch_opts_t){ .flags = KC_JOB_NOW }, NULL),
        0);
    set(&u->in, 1);
    if (u->how == 0)
        kc_sleep(KC_FOREVER) == 0 ? (void)0 : FAIL("resumed");
    else if (u->how == 1)
        kcoro_park();
    else if (u->how == 2)
        kc_job_join(u->other) == 0 ? (void)0 : FAIL("resumed");
    else if (u->how == 3)
        while (kc_yield() == 0) {
        }
    else
        while (kc_check() == 0)
            kcoro_yield();
    FAIL("the body was resumed");
}

IN_A_JOB(an_unwound_body_is_not_resumed_and_its_scopes_end)
{
    kc_job_t *other = launch(waits, NULL, NULL);

    for (int how = 0; how < 5; how++) {
        struct unwound u = { .how = how, .other = other };
        kc_job_t *j = launch(is_not_resumed, &u, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });
        UNTIL(get(&u.in));
        for (int i = 0; i < how; i++)
            kcoro_yield();
        CHECK(kc_job_cancel(j, -EPIPE));
        CHECK_EQ(kc_job_join(j), -EPIPE);
        CHECK_EQ(get(&u.cleaned), 2);
        CHECK_EQ(get(&u.children), 1);
        ended(j, KC_JOB_CANCELLED, -EPIPE);
    }
    kc_job_drop(other);
    return 0;
}

static int unwinds_never_started(void *arg)
{
    return is_not_resumed(arg);
}

IN_A_JOB(a_job_that_never_started_is_not_unwound_but_ends)
{
    struct unwound u = { .how = 5 };
    kc_job_t *j = launch(unwinds_never_started, &u,
                         &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND, .affinity = KC_MAIN });

    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&u.in) + get(&u.cleaned), 0);
    kc_job_release(j);
    return 0;
}

static int survives_its_scopes_cancel(void *arg)
{
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .timeout = KC_US(100) }), 0);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_scope_end(&s), -ETIMEDOUT);
    add(arg);
    return 0;
}

IN_A_JOB(the_cancel_of_an_inner_scope_unwinds_nothing)
{
    count_t n = 0;
    kc_job_t *j =
        launch(survives_its_scopes_cancel, &n, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });

    CHECK_EQ(kc_job_join(j), 0);
    CHECK_EQ(get(&n), 1);
    kc_job_release(j);
    return 0;
}

static void cleans_with_a_timeout(void *arg)
{
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .timeout = KC_US(50) }), 0);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_scope_end(&s), -ETIMEDOUT);
    add(arg);
}

static int cleans_with_timeouts(void *arg)
{
    kc_scope_t s;

    CHECK_EQ(kc_defer(cleans_with_a_timeout, arg), 0);
    KC_CLEANUP(cleans_with_a_timeout, arg);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_defer(cleans_with_a_timeout, arg), 0);
    KC_CLEANUP(cleans_with_a_timeout, arg);
    int rc = waits(arg);
    CHECK_EQ(kc_scope_end(&s), -ECANCELED);
    return rc;
}

IN_A_JOB(cleanups_of_an_unwound_body_may_use_scopes_that_time_out)
{
    for (uint32_t flags = 0; flags <= KC_JOB_UNWIND; flags += KC_JOB_UNWIND) {
        count_t n = 0;
        kc_job_t *j = launch(cleans_with_timeouts, &n, &(kc_launch_opts_t){ .flags = flags });
        UNTIL(get(&n) == 1);
        CHECK(kc_job_cancel(j, 0));
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        CHECK_EQ(get(&n), 5);
        kc_job_release(j);
    }
    return 0;
}

/* ---- so many at a time ---------------------------------------------------------------------- */

struct window {
    count_t running, most, ran;
};

static int runs_in_a_window(void *arg)
{
    struct window *w = arg;
    int now = add(&w->running) + 1, most = get(&w->most);

    while (now > most && !kc_cas_acq_rel(&w->most, &most, now)) {
    }
    CHECK_EQ(kc_launch(returns, CODE(0)), 0); /* grandchildren do not count */
    CHECK_EQ(kc_sleep(KC_US(10)), 0);
    add(&w->ran);
    kc_sub_acq_rel(&w->running, 1);
    return 0;
}

static int fills_a_window(void *arg)
{
    for (int i = 0; i < 30; i++) {
        kc_launch_opts_t opts = { .flags = i % 3 == 0 ? KC_JOB_NOW : 0 };
        CHECK_EQ(kc_launch_job(runs_in_a_window, arg, &opts, NULL), 0);
    }
    return 0;
}

IN_A_JOB(no_more_than_max_running_children_are_started_and_not_ended)
{
    for (uint32_t k = 1; k <= 4; k++) {
        struct window w = { 0 };
        CHECK_EQ(kc_scope(fills_a_window, &w, &(kc_scope_opts_t){ .max_running = k }), 0);
        CHECK_EQ(get(&w.ran), 30);
        CHECK_LE(get(&w.most), (int)k);
    }
    return 0;
}

static void was_not_started(void *arg)
{
    add(&((count_t *)arg)[1]);
}

IN_A_JOB(cancelling_a_scope_ends_the_children_that_wait_for_their_turn)
{
    count_t n[2] = { 0, 0 };
    kc_scope_t s;
    kc_launch_opts_t opts = { .dispose = was_not_started };

    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .max_running = 2 }), 0);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(kc_launch_job(waits, n, &opts, NULL), 0);
    UNTIL(get(&n[0]) == 2);
    for (int i = 0; i < 5; i++)
        kcoro_yield();
    CHECK_EQ(get(&n[0]), 2);
    CHECK(kc_cancel_current(0));
    CHECK_EQ(kc_scope_end(&s), -ECANCELED);
    CHECK_EQ(get(&n[0]), 2);
    CHECK_EQ(get(&n[1]), 8);
    return 0;
}

static int joins_in_turn(void *arg)
{
    struct unwound *u = arg;

    set(&u->in, 1);
    UNTIL(get(&u->children));
    return kc_job_join(u->other) == u->how ? 0 : -EIO;
}

IN_A_JOB(a_child_that_is_cancelled_while_it_waits_for_its_turn_ends_at_once)
{
    const int reasons[] = { -EPIPE, -ETIMEDOUT, -ECANCELED };
    kc_signal_t *fired = kc_signal_create(0);

    kc_signal_emit(fired, KC_SIG_TERMINATE);
    for (int i = 0; i < 3; i++) {
        struct unwound u = { .how = reasons[i] };
        kc_scope_t s;
        kc_launch_opts_t opts = { .timeout = i == 1 ? KC_US(100) : 0,
                                  .signal = i == 2 ? fired : NULL };
        CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .max_running = 1 }), 0);
        CHECK_EQ(kc_launch(joins_in_turn, &u), 0);
        UNTIL(get(&u.in));
        u.other = launch(never, NULL, &opts);
        set(&u.children, 1);
        if (i == 0)
            CHECK(kc_job_cancel(u.other, -EPIPE));
        CHECK_EQ(kc_job_join(u.other), reasons[i]);
        CHECK_EQ(kc_scope_end(&s), 0);
        kc_job_release(u.other);
    }
    kc_signal_release(fired);
    return 0;
}

struct numbered {
    count_t *n;
    int number;
};

static int comes_after(void *arg)
{
    struct numbered *me = arg;

    CHECK_EQ(add(me->n), me->number);
    return 0;
}

/* The first, the last and one between leave the queue, in any order; the others keep theirs. */
IN_A_JOB(children_that_wait_for_their_turn_start_in_order_whichever_leaves_the_queue)
{
    static const int leave[][3] = { { 0, 3, 5 }, { 5, 3, 0 }, { 3, 5, 0 }, { 5, 4, 3 } };

    for (size_t i = 0; i < sizeof leave / sizeof leave[0]; i++) {
        struct numbered me[6];
        kc_job_t *job[6];
        count_t n = 0;
        int next = 0;
        kc_scope_t s;
        CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .max_running = 1 }), 0);
        kc_job_t *first = launch(waits, NULL, NULL);
        for (int k = 0; k < 6; k++) {
            bool leaves = k == leave[i][0] || k == leave[i][1] || k == leave[i][2];
            me[k] = (struct numbered){ &n, leaves ? -1 : next++ };
            job[k] = launch(comes_after, &me[k], &(kc_launch_opts_t){ .affinity = KC_MAIN });
        }
        for (int k = 0; k < 3; k++) {
            CHECK(kc_job_cancel(job[leave[i][k]], 0));
            CHECK_EQ(kc_job_join(job[leave[i][k]]), -ECANCELED);
        }
        CHECK_EQ(get(&n), 0);
        kc_job_drop(first);
        CHECK_EQ(kc_scope_end(&s), 0);
        CHECK_EQ(get(&n), 3);
        for (int k = 0; k < 6; k++)
            kc_job_release(job[k]);
    }
    return 0;
}

IN_A_JOB(nobody_takes_the_turn_of_a_child_that_was_cancelled_while_it_waited)
{
    kc_job_t *job[4];
    count_t n = 0;
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .max_running = 1 }), 0);
    job[0] = launch(waits, &n, NULL);
    UNTIL(get(&n) == 1);
    for (int i = 1; i < 4; i++)
        job[i] = launch(waits, &n, NULL);
    CHECK(kc_job_cancel(job[2], 0));
    CHECK_EQ(kc_job_join(job[2]), -ECANCELED);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(get(&n), 1);
    for (int i = 0; i < 4; i++) {
        UNTIL(i == 2 || get(&n) == (i < 2 ? i + 1 : i));
        kc_job_drop(job[i]);
    }
    CHECK_EQ(kc_scope_end(&s), 0);
    CHECK_EQ(get(&n), 3);
    return 0;
}

struct churn {
    kc_job_t *job[16];
    count_t go, done;
};

static void *cancels_one_by_one(void *arg)
{
    struct churn *c = arg;

    for (int round = 1; round <= 8; round++) {
        UNTIL(get(&c->go) == round);
        for (int i = 0; i < 16; i++) {
            kc_job_cancel(c->job[i], 0);
            kc_job_release(c->job[i]);
        }
        set(&c->done, round);
    }
    return NULL;
}

static int is_short(void *arg UNUSED)
{
    int rc = kc_yield();

    return rc;
}

IN_A_JOB(children_that_wait_for_their_turn_may_be_cancelled_while_it_comes)
{
    struct churn c = { .go = 0 };
    pthread_t thread;
    kc_lease_t lease;

    CHECK_EQ(kc_lease_take(kc_job_current(), &lease), 0); /* a plain thread is at work */
    CHECK_EQ(pthread_create(&thread, NULL, cancels_one_by_one, &c), 0);
    for (int round = 1; round <= 8; round++) {
        kc_scope_t s;
        CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .max_running = 2 }), 0);
        for (int i = 0; i < 16; i++)
            c.job[i] = launch(is_short, NULL, NULL);
        set(&c.go, round);
        CHECK_EQ(kc_scope_end(&s), 0);
        UNTIL(get(&c.done) == round);
    }
    pthread_join(thread, NULL);
    kc_lease_release(&lease);
    return 0;
}
