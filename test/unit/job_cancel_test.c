/* SPDX-License-Identifier: MIT */
/*
 * job_cancel_test.c - cancellation: reasons and timeouts, where it is seen, shields, signals from
 * outside (J4, J5, J9-J13, J24).
 */
#include "job_kit.h"

/* ---- reasons -------------------------------------------------------------------------------- */

static const kc_launch_opts_t apart = { .flags = KC_JOB_DETACHED };

IN_A_JOB(a_job_with_a_timeout_is_cancelled_with_etimedout_at_its_deadline)
{
    kc_time_t begin = kc_now();
    kc_job_t *j = launch(waits, NULL, &(kc_launch_opts_t){ .timeout = KC_MS(1) });

    CHECK_EQ(kc_job_join(j), -ETIMEDOUT);
    CHECK_GE(kc_now() - begin, KC_MS(1));
    CHECK_EQ(kc_job_reason(j), -ETIMEDOUT);
    ended(j, KC_JOB_CANCELLED, -ETIMEDOUT);
    j = launch(returns, CODE(0), &(kc_launch_opts_t){ .timeout = KC_SEC(1000) });
    CHECK_EQ(kc_job_join(j), 0);
    ended(j, KC_JOB_COMPLETED, 0);
    j = launch(returns, CODE(0), &(kc_launch_opts_t){ .timeout = KC_FOREVER });
    CHECK_EQ(kc_job_join(j), 0);
    ended(j, KC_JOB_COMPLETED, 0);
    return 0;
}

static int fails_after_its_timeout(void *arg)
{
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), -ETIMEDOUT);
    return (int)(intptr_t)arg;
}

static int child_fails_after_the_timeout(void *arg)
{
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_cancel_reason(), -ECANCELED); /* the timeout is its owner's alone */
    return (int)(intptr_t)arg;
}

static int has_a_child_that_fails_then(void *arg)
{
    int rc = kc_launch(child_fails_after_the_timeout, arg);

    CHECK(rc == 0 || rc == -ECANCELED); /* its time may be over already */
    return 0;
}

IN_A_JOB(a_timeout_dominates_what_fails_after_it)
{
    kc_fn_t fns[] = { fails_after_its_timeout, has_a_child_that_fails_then };

    for (int i = 0; i < 2; i++) {
        kc_job_t *j = launch(fns[i], CODE(-EIO),
                             &(kc_launch_opts_t){ .timeout = KC_MS(1), .flags = KC_JOB_DETACHED });
        CHECK_EQ(kc_job_join(j), -ETIMEDOUT);
        ended(j, KC_JOB_CANCELLED, -ETIMEDOUT);
    }
    return 0;
}

struct linger {
    count_t in, go;
};

static int lingers(void *arg)
{
    struct linger *l = arg;

    add(&l->in);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    UNTIL(get(&l->go));
    return -ECANCELED;
}

static int fails_and_leaves_a_child(void *arg)
{
    CHECK_EQ(kc_launch(lingers, arg), 0);
    UNTIL(get(&((struct linger *)arg)->in));
    return -EIO;
}

IN_VIRTUAL_TIME(what_failed_before_the_timeout_is_the_result)
{
    struct linger l = { 0, 0 };
    kc_job_t *j = launch(fails_and_leaves_a_child, &l, &apart);

    UNTIL(kc_job_state(j) == KC_JOB_CANCELLING);
    CHECK(!kc_job_cancel(j, -ETIMEDOUT));
    set(&l.go, 1);
    CHECK_EQ(kc_job_join(j), -EIO);
    ended(j, KC_JOB_FAILED, -EIO);
    return 0;
}

/* One that has begun and whose time is over then: by its clock, where that waits for it. */
static kc_job_t *launch_and_time_out(struct linger *l, kc_job_t *parent)
{
    bool alone = kc_sched_workers(kc_sched_current()) == 0;
    kc_job_t *j = launch(lingers, l,
                         &(kc_launch_opts_t){ .parent = parent, .timeout = alone ? KC_MS(1) : 0 });

    UNTIL(get(&l->in));
    while (alone && kc_job_state(j) == KC_JOB_ACTIVE)
        CHECK_EQ(kc_sleep(KC_US(100)), 0);
    if (!alone)
        CHECK(kc_job_cancel(j, -ETIMEDOUT));
    CHECK_EQ(kc_job_state(j), KC_JOB_CANCELLING);
    CHECK_EQ(kc_job_reason(j), -ETIMEDOUT);
    return j;
}

IN_VIRTUAL_TIME(an_explicit_reason_replaces_a_timeout_and_nothing_else)
{
    struct linger l = { 0, 0 };
    kc_job_t *j = launch_and_time_out(&l, NULL);

    CHECK(!kc_job_cancel(j, -EPIPE));
    CHECK_EQ(kc_job_reason(j), -EPIPE);
    CHECK(!kc_job_cancel(j, -EBUSY));
    CHECK(!kc_job_cancel(j, -ETIMEDOUT));
    CHECK_EQ(kc_job_reason(j), -EPIPE);
    set(&l.go, 1);
    CHECK_EQ(kc_job_join(j), -EPIPE);
    ended(j, KC_JOB_CANCELLED, -EPIPE);
    return 0;
}

static int lingers_shielded(void *arg)
{
    struct linger *l = arg;

    CHECK_EQ(kc_shield_begin(), 0);
    add(&l->in);
    CHECK_EQ(until_set(&l->go), 0); /* the clock goes on */
    kc_shield_end();
    return 0;
}

IN_VIRTUAL_TIME(a_timeout_replaces_no_reason)
{
    bool alone = kc_sched_workers(kc_sched_current()) == 0; /* then it cannot come too soon */
    struct linger l = { 0, 0 };
    kc_job_t *j =
        launch(lingers_shielded, &l, &(kc_launch_opts_t){ .timeout = alone ? KC_MS(1) : 0 });

    UNTIL(get(&l.in));
    CHECK(kc_job_cancel(j, -EPIPE));
    CHECK(!kc_job_cancel(j, -ETIMEDOUT));
    if (alone)
        CHECK_EQ(kc_sleep(KC_MS(2)), 0);
    set(&l.go, 1);
    CHECK_EQ(kc_job_join(j), -EPIPE);
    ended(j, KC_JOB_CANCELLED, -EPIPE);
    return 0;
}

IN_A_JOB(a_cancel_from_above_replaces_a_timeout)
{
    struct linger l = { 0, 0 };
    kc_job_t *top = group(NULL), *j = launch_and_time_out(&l, top);

    CHECK(kc_job_cancel(top, -EPIPE));
    CHECK_EQ(kc_job_reason(j), -EPIPE);
    set(&l.go, 1);
    CHECK_EQ(kc_job_join(top), -EPIPE);
    ended(j, KC_JOB_CANCELLED, -EPIPE);
    kc_job_release(top);
    return 0;
}

static int leaves_a_lingering_child(void *arg)
{
    CHECK_EQ(kc_launch(lingers, arg), 0);
    return 0;
}

IN_A_JOB(after_the_body_has_ended_a_timeout_is_not_replaced)
{
    struct linger l = { 0, 0 };
    kc_job_t *j = launch(leaves_a_lingering_child, &l, NULL);

    UNTIL(get(&l.in) && !(kc__job_word(j) & KC_WORD_BODY));
    CHECK(kc_job_cancel(j, -ETIMEDOUT));
    CHECK(!kc_job_cancel(j, -EPIPE));
    CHECK_EQ(kc_job_reason(j), -ETIMEDOUT);
    set(&l.go, 1);
    CHECK_EQ(kc_job_join(j), -ETIMEDOUT);
    kc_job_release(j);
    return 0;
}

/* ---- where it is seen ----------------------------------------------------------------------- */

struct level {
    count_t ready, go, inside;
    kc_job_t *other;
    kc_deferred_t *value;
};

static int in_a_cancelled_scope(void *arg)
{
    struct level *l = arg;

    CHECK(kc_cancelled());
    CHECK_EQ(kc_cancel_reason(), -EPIPE);
    CHECK_EQ(kc_launch(never, NULL), -ECANCELED);
    CHECK_EQ(kc_yield(), -ECANCELED);
    add(&l->inside);
    return 0;
}

static int sees_it_everywhere(void *arg)
{
    struct level *l = arg;
    kc_scope_t s;
    void *payload = l;

    set(&l->ready, 1);
    UNTIL(kc_cancelled());
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kc_yield(), -ECANCELED);
        CHECK_EQ(kc_sleep(0), -ECANCELED);
        CHECK_EQ(kc_sleep(KC_SEC(1)), -ECANCELED);
        CHECK_EQ(kc_sleep_until(0), -ECANCELED);
        CHECK_EQ(kc_hop(KC_MAIN), -ECANCELED);
        CHECK_EQ(kc_check(), -ECANCELED);
        CHECK_EQ(kc_job_join(l->other), -ECANCELED);
        CHECK_EQ(kc_job_join_until(l->other, KC_FOREVER), -ECANCELED);
        CHECK_EQ(kc_await(l->value, &payload), -ECANCELED);
        CHECK_PTR(payload, NULL);
        kcoro_park();
        CHECK_EQ(kc_shield_begin(), -ECANCELED);
        CHECK_EQ(kc_launch(never, NULL), -ECANCELED);
        CHECK_EQ(kc_scope(in_a_cancelled_scope, l, NULL), -EPIPE);
        CHECK_EQ(kc_scope_begin(&s, NULL), 0);
        CHECK_EQ(kc_job_state(kc_scope_job(&s)), KC_JOB_CANCELLING);
        CHECK(kc_cancelled());
        CHECK_EQ(kc_scope_end(&s), -EPIPE);
        CHECK_EQ(kc_cancel_reason(), -EPIPE);
    }
    CHECK_EQ(get(&l->inside), 3);
    return -ECANCELED;
}

IN_A_JOB(every_suspension_point_of_a_cancelled_job_is_ecanceled_until_its_end)
{
    struct level l = { 0 };

    l.other = launch(waits, NULL, NULL);
    CHECK_EQ(kc_promise(NULL, &l.value), 0);
    kc_job_t *j = launch(sees_it_everywhere, &l, NULL);
    UNTIL(get(&l.ready));
    CHECK(kc_job_cancel(j, -EPIPE));
    CHECK_EQ(kc_job_join(j), -EPIPE);
    CHECK_EQ(kc_job_state(l.other), KC_JOB_ACTIVE);
    CHECK_EQ(kc_deferred_state(l.value), KC_DEFERRED_PENDING);
    kc_job_release(j);
    kc_job_drop(l.other);
    kc_deferred_release(l.value);
    return 0;
}

struct parker {
    count_t in, out;
    kcoro_t *co;
};

static void parks_again(void *arg)
{
    struct parker *p = arg;

    set(&p->in, 2);
    kcoro_park();
    set(&p->out, 1);
}

static int parks_twice(void *arg)
{
    struct parker *p = arg;

    p->co = kcoro_current();
    CHECK_EQ(kc_defer(parks_again, p), 0);
    set(&p->in, 1);
    kcoro_park();
    return kc_check();
}

IN_A_JOB(a_cancel_of_a_job_that_was_just_unparked_is_no_permit)
{
    struct parker p = { .co = NULL };
    kc_job_t *j = launch(parks_twice, &p, &(kc_launch_opts_t){ .affinity = KC_MAIN });

    UNTIL(get(&p.in) == 1);
    CHECK_EQ(kcoro_unpark(p.co), 0);
    CHECK(kc_job_cancel(j, 0)); /* the root is on the same thread: nobody has run meanwhile */
    UNTIL(get(&p.in) == 2);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(get(&p.out), 0);
    CHECK_EQ(kcoro_unpark(p.co), 0);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&p.out), 1);
    kc_job_release(j);
    return 0;
}

struct waiter {
    int how;
    count_t in, out;
    kc_job_t *other;
    kc_deferred_t *value;
};

static int waits_somehow(void *arg)
{
    struct waiter *w = arg;
    int rc = 0;

    set(&w->in, 1);
    switch (w->how) {
    case 0:
        rc = kc_sleep(KC_FOREVER);
        break;
    case 1:
        kcoro_park();
        rc = kc_check();
        break;
    case 2:
        rc = kc_job_join(w->other);
        break;
    case 3:
        rc = kc_await(w->value, NULL);
        break;
    case 4:
        while (rc == 0)
            rc = kc_yield();
        break;
    default:
        rc = kc_sleep_until(KC_FOREVER - 1);
    }
    CHECK_EQ(rc, -ECANCELED);
    set(&w->out, 1);
    return rc;
}

IN_A_JOB(a_cancel_wakes_a_waiting_job_whatever_it_waits_for)
{
    kc_job_t *other = launch(waits, NULL, NULL);
    kc_deferred_t *value;

    CHECK_EQ(kc_promise(NULL, &value), 0);
    for (int how = 0; how < 6; how++) {
        for (int where = 0; where < 2; where++) {
            struct waiter w = { .how = how, .other = other, .value = value };
            kc_job_t *j = launch(waits_somehow, &w,
                                 &(kc_launch_opts_t){ .affinity = where ? KC_MAIN : KC_WORKER });
            UNTIL(get(&w.in));
            for (int i = 0; i < how; i++)
                kcoro_yield();
            CHECK(kc_job_cancel(j, 0));
            CHECK_EQ(kc_job_join(j), -ECANCELED);
            CHECK_EQ(get(&w.out), 1);
            kc_job_release(j);
        }
    }
    CHECK_EQ(kc_job_state(other), KC_JOB_ACTIVE);
    CHECK_EQ(kc_deferred_state(value), KC_DEFERRED_PENDING); /* D2: it goes on */
    CHECK_EQ(kc_promise_complete(value, 0, NULL), 0);
    kc_deferred_release(value);
    kc_job_drop(other);
    return 0;
}

static int grows(void *arg)
{
    intptr_t depth = (intptr_t)arg;

    for (int i = 0; i < 2 && depth > 0; i++) {
        int rc = kc_launch(grows, CODE(depth - 1));
        CHECK(rc == 0 || rc == -ECANCELED);
    }
    return waits(NULL);
}

IN_A_JOB(a_cancel_reaches_all_levels)
{
    kc_job_t *j = launch(grows, CODE(6), NULL);

    for (int i = 0; i < 50; i++)
        kcoro_yield();
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    return 0;
}

struct rush {
    kc_job_t *top;
    count_t launched, ran, refused;
};

static void refused(void *arg)
{
    struct rush *r = arg;

    add(&r->refused);
}

static int ran(void *arg)
{
    struct rush *r = arg;

    add(&r->ran);
    return kc_sleep(KC_FOREVER);
}

static int launches_until_told(void *arg)
{
    struct rush *r = arg;
    kc_launch_opts_t opts = { .parent = r->top, .dispose = refused };
    int rc = 0;

    for (int i = 0; i < 500 && (rc = kc_launch_job(ran, r, &opts, NULL)) == 0; i++) {
        add(&r->launched);
        if (i % 8 == 0)
            kcoro_yield();
    }
    CHECK(rc == -ECANCELED || rc == -ESHUTDOWN || rc == 0);
    return 0;
}

IN_A_JOB(no_child_is_added_behind_a_cancel)
{
    struct rush r = { .top = group(NULL) };
    kc_job_t *by[3];

    for (int i = 0; i < 3; i++)
        by[i] = launch(launches_until_told, &r, NULL);
    UNTIL(get(&r.launched) > 20);
    CHECK(kc_job_cancel(r.top, 0));
    CHECK_EQ(kc_job_join(r.top), -ECANCELED); /* one that was missed would never end */
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kc_job_join(by[i]), 0);
        kc_job_release(by[i]);
    }
    CHECK_EQ(get(&r.ran) + get(&r.refused), get(&r.launched));
    kc_job_release(r.top);
    return 0;
}

static int takes_what_came(void *arg)
{
    struct waiter *w = arg;
    void *payload = NULL;

    CHECK_EQ(kc_await(w->value, &payload), 0);
    CHECK_PTR(payload, w);
    UNTIL(get(&w->out));
    CHECK_EQ(kc_check(), -ECANCELED);
    return 0;
}

IN_A_JOB(what_did_happen_is_reported_before_the_cancel)
{
    for (int i = 0; i < 4; i++) {
        struct waiter w = { 0 };
        CHECK_EQ(kc_promise(NULL, &w.value), 0);
        kc_job_t *j = launch(takes_what_came, &w, NULL);
        UNTIL(kc_load_relaxed(&j->task.kind) == KC_WAIT_JOIN); /* or it is no test */
        CHECK_EQ(kc_promise_complete(w.value, 0, &w), 0);
        CHECK(kc_job_cancel(j, 0));
        set(&w.out, 1);
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        kc_job_release(j);
        kc_deferred_release(w.value);
    }
    return 0;
}

IN_A_JOB(a_cancel_goes_down_a_tree_of_any_depth)
{
    int depth = kc_sched_workers(kc_sched_current()) == 2 ? 100000 : 1000;
    kc_job_t *top = group(NULL), *at = top;

    for (int i = 0; i < depth; i++) {
        kc_job_t *below = group(&(kc_launch_opts_t){ .parent = at });
        if (at != top)
            kc_job_release(at);
        at = below;
    }
    CHECK(kc_job_cancel(top, -EPIPE));
    CHECK_EQ(kc_job_join(top), -EPIPE);
    ended(at, KC_JOB_CANCELLED, -EPIPE);
    kc_job_release(top);
    return 0;
}

IN_A_JOB(a_failure_goes_up_a_tree_of_any_depth)
{
    int depth = kc_sched_workers(kc_sched_current()) == 2 ? 100000 : 1000;
    kc_job_t *top = group(&apart), *at = top;

    for (int i = 0; i < depth; i++) {
        kc_job_t *below = group(&(kc_launch_opts_t){ .parent = at });
        if (at != top)
            kc_job_release(at);
        at = below;
    }
    CHECK_EQ(kc_launch_job(returns, CODE(-EIO), &(kc_launch_opts_t){ .parent = at }, NULL), 0);
    CHECK_EQ(kc_job_join(top), -EIO);
    ended(at, KC_JOB_FAILED, -EIO);
    ended(top, KC_JOB_FAILED, -EIO);
    return 0;
}

/* ---- shields -------------------------------------------------------------------------------- */

struct shielded {
    kc_job_t *me;
    count_t in, cancelled, out, children;
};

static int holds_it_back(void *arg)
{
    struct shielded *s = arg;

    CHECK_EQ(kc_shield_begin(), 0);
    CHECK_EQ(kc_launch(waits, &s->children), 0);
    UNTIL(get(&s->children) == 1);
    set(&s->in, 1);
    UNTIL(get(&s->cancelled));
    CHECK(!kc_cancelled());
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_cancel_reason(), -EPIPE);
    CHECK_EQ(kc_sleep(KC_US(10)), 0);
    CHECK_EQ(kc_shield_begin(), 0); /* nested: although a cancel waits */
    CHECK_EQ(kc_yield(), 0);
    kc_shield_end();
    CHECK_EQ(kc_check(), 0);
    kc_job_t *late = launch(waits, &s->children, NULL);
    UNTIL(get(&s->children) == 2);
    CHECK_EQ(kc_job_state(late), KC_JOB_ACTIVE);
    kc_job_t *quick = launch(returns, CODE(0), NULL);
    CHECK_EQ(kc_job_join(quick), 0);
    kc_job_release(quick);
    kc_shield_end();
    CHECK_EQ(kc_check(), -ECANCELED);
    int rc = kc_job_join(late); /* its result, if it has ended meanwhile (J6) */
    CHECK(rc == -ECANCELED || rc == -EPIPE);
    ended(late, KC_JOB_CANCELLED, -EPIPE);
    set(&s->out, 1);
    return 0;
}

static void *cancels_from_a_thread(void *arg)
{
    struct shielded *s = arg;

    CHECK(kc_job_cancel(s->me, -EPIPE));
    CHECK(!kc_job_cancel(s->me, -EPIPE));
    CHECK_EQ(kc_job_state(s->me), KC_JOB_CANCELLING);
    set(&s->cancelled, 1);
    return NULL;
}

IN_A_JOB(a_shield_holds_a_cancel_back_until_its_outermost_end)
{
    for (int by_thread = 0; by_thread < 2; by_thread++) {
        struct shielded s = { 0 };
        pthread_t thread;
        s.me = launch(holds_it_back, &s, NULL);
        UNTIL(get(&s.in));
        if (by_thread)
            CHECK_EQ(pthread_create(&thread, NULL, cancels_from_a_thread, &s), 0);
        else
            cancels_from_a_thread(&s);
        CHECK_EQ(kc_job_join(s.me), -EPIPE);
        if (by_thread)
            pthread_join(thread, NULL);
        CHECK_EQ(get(&s.out), 1);
        ended(s.me, KC_JOB_CANCELLED, -EPIPE);
    }
    return 0;
}

static int cancels_a_child_under_its_shield(void *arg)
{
    kc_scope_t s;

    (void)arg;
    CHECK_EQ(kc_shield_begin(), 0);
    kc_job_t *a = launch(waits, NULL, NULL);
    kc_job_t *b = launch(waits, NULL, &(kc_launch_opts_t){ .timeout = KC_US(100) });
    CHECK(kc_job_cancel(a, 0));
    CHECK_EQ(kc_job_join(a), -ECANCELED);
    CHECK_EQ(kc_job_join(b), -ETIMEDOUT);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK(kc_cancel_current(9));
    CHECK_EQ(kc_check(), -ECANCELED);
    CHECK_EQ(kc_scope_end(&s), 9);
    CHECK_EQ(kc_check(), 0);
    kc_shield_end();
    kc_job_release(a);
    kc_job_release(b);
    return 0;
}

IN_A_JOB(under_a_shield_a_childs_own_cancel_or_timeout_still_works)
{
    kc_job_t *j = launch(cancels_a_child_under_its_shield, NULL, NULL);

    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    return 0;
}

static int shields_a_scope(void *arg)
{
    struct shielded *s = arg;
    kc_scope_t scope, inner;

    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    CHECK_EQ(kc_shield_begin(), 0);
    set(&s->in, 1);
    UNTIL(get(&s->cancelled));
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_scope_begin(&inner, &(kc_scope_opts_t){ .timeout = KC_US(50) }), 0);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_scope_end(&inner), -ETIMEDOUT);
    CHECK_EQ(kc_check(), 0);
    kc_shield_end();
    CHECK_EQ(kc_check(), -ECANCELED);
    CHECK_EQ(kc_scope_end(&scope), -EPIPE);
    set(&s->out, 1);
    return 0;
}

IN_A_JOB(a_shield_in_a_scope_holds_back_what_comes_from_its_job)
{
    for (uint32_t flags = 0; flags <= KC_JOB_UNWIND; flags += KC_JOB_UNWIND) {
        struct shielded s = { 0 };
        s.me = launch(shields_a_scope, &s, &(kc_launch_opts_t){ .flags = flags });
        UNTIL(get(&s.in));
        CHECK(kc_job_cancel(s.me, -EPIPE));
        set(&s.cancelled, 1);
        CHECK_EQ(kc_job_join(s.me), -EPIPE);
        CHECK_EQ(get(&s.out), flags ? 0 : 1); /* unwound at the end of the shield */
        kc_job_release(s.me);
    }
    return 0;
}

/* ---- signals from outside ------------------------------------------------------------------- */

static void not_started(void *arg)
{
    add(arg);
}

IN_A_JOB(the_terminate_of_an_outside_signal_cancels_what_was_launched_with_it)
{
    kc_signal_t *signal = kc_signal_create(0);
    count_t n = 0, disposed = 0;
    kc_scope_t s;

    CHECK(signal != NULL);
    kc_job_t *j = launch(waits, &n, &(kc_launch_opts_t){ .signal = signal });
    kc_job_t *g = group(&(kc_launch_opts_t){ .signal = signal });
    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .signal = signal }), 0);
    UNTIL(get(&n) == 1);
    kc_signal_emit(signal, KC_SIG_TERMINATE);
    CHECK_EQ(kc_check(), -ECANCELED);
    CHECK_EQ(kc_scope_end(&s), -ECANCELED);
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    ended(j, KC_JOB_CANCELLED, -ECANCELED);
    ended(g, KC_JOB_CANCELLED, -ECANCELED);
    /* It has fired: the job ends unstarted, the launch is no failure. */
    kc_launch_opts_t opts = { .signal = signal, .dispose = not_started };
    for (int i = 0; i < 2; i++) {
        j = launch(never, &disposed, &opts);
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        ended(j, KC_JOB_CANCELLED, -ECANCELED);
        opts.flags = KC_JOB_NOW;
    }
    CHECK_EQ(get(&disposed), 2);
    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .signal = signal }), 0);
    CHECK_EQ(kc_check(), -ECANCELED);
    CHECK_EQ(kc_scope_end(&s), -ECANCELED);
    kc_signal_release(signal);
    return 0;
}

IN_VIRTUAL_TIME(a_job_launched_now_that_must_not_start_ends_without_a_dispose)
{
    kc_signal_t *signal = kc_signal_create(0);

    CHECK(signal != NULL);
    kc_signal_emit(signal, KC_SIG_TERMINATE);
    kc_job_t *j =
        launch(never, NULL, &(kc_launch_opts_t){ .flags = KC_JOB_NOW, .signal = signal });
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    ended(j, KC_JOB_CANCELLED, -ECANCELED);
    kc_signal_release(signal);
    return 0;
}

static void *asks_for_the_signal(void *arg)
{
    kc_signal_t *signal = kc_job_signal(arg);

    CHECK(signal != NULL);
    UNTIL(kc_signal_state(signal) & KC_SIG_TERMINATE);
    return NULL;
}

IN_A_JOB(a_signal_that_is_made_while_its_job_is_cancelled_has_terminate)
{
    for (int i = 0; i < 6; i++) {
        count_t n = 0;
        pthread_t thread;
        kc_job_t *j = launch(waits, &n, &(kc_launch_opts_t){ .timeout = KC_SEC(100) });
        UNTIL(get(&n) == 1);
        CHECK_EQ(pthread_create(&thread, NULL, asks_for_the_signal, j), 0);
        if (i % 2)
            CHECK_EQ(kc_signal_emit(kc_job_signal(j), KC_SIG_TERMINATE), KC_SIG_TERMINATE);
        else
            CHECK(kc_job_cancel(j, 0));
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        pthread_join(thread, NULL);
        kc_job_release(j);
    }
    return 0;
}

/* ---- jobs that obey jobs -------------------------------------------------------------------- */

/* More than have room on one stack, and less than ThreadSanitizer can bear on several threads. */
enum { OBEY = 150 };

IN_A_JOB(jobs_of_which_each_obeys_the_one_before_are_cancelled_without_a_deep_stack)
{
    kc_job_t *job[OBEY] = { NULL };
    count_t n = 0;

    for (int i = 0; i < OBEY; i++) {
        kc_launch_opts_t opts = { .signal = i > 0 ? kc_job_signal(job[i - 1]) : NULL };
        job[i] = launch(waits, &n, &opts);
    }
    UNTIL(get(&n) == OBEY);
    CHECK(kc_job_cancel(job[0], -EPIPE));
    for (int i = 0; i < OBEY; i++) {
        CHECK_EQ(kc_job_state(job[i]) == KC_JOB_ACTIVE, false);
        CHECK_EQ(kc_job_join(job[i]), i > 0 ? -ECANCELED : -EPIPE);
        kc_job_release(job[i]);
    }
    return 0;
}
