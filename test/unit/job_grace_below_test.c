/* SPDX-License-Identifier: MIT */
/*
 * job_grace_below_test.c - the grace that is inherited: from the job above, and from the scheduler
 * (J27).
 */
#include "job/job_timer.h"
#include "job_kit.h"

/* ---- what is inherited ----------------------------------------------------------------------- */

/* Who holds a cancel back as long as it can: in a shield, from before the request. */
struct holder {
    struct family *family;
    kc_job_t *job;  /* NULL: it was not launched by hold_with */
    kc_time_t over; /* when it could wait no longer */
};

struct family {
    count_t in, out;
    struct holder one[4];
};

static int holds(void *arg)
{
    struct holder *h = arg;

    CHECK_EQ(kc_shield_begin(), 0);
    add(&h->family->in);
    CHECK_EQ(kc_sleep(KC_SEC(1000)), -ECANCELED);
    h->over = kc_now();
    CHECK_EQ(kc_sleep(KC_SEC(1000)), -ECANCELED);
    CHECK_EQ(kc_launch(never, NULL), -ECANCELED);
    kc_shield_end();
    add(&h->family->out);
    return -ECANCELED;
}

/* The same in a cleanup, which begins with the cancel. */
static void cleans_up_long(void *arg)
{
    struct holder *h = arg;

    CHECK_EQ(kc_sleep(KC_SEC(1000)), -ECANCELED);
    h->over = kc_now();
    add(&h->family->out);
}

static int defers_long(void *arg)
{
    struct holder *h = arg;

    CHECK_EQ(kc_defer(cleans_up_long, h), 0);
    add(&h->family->in);
    return kc_sleep(KC_FOREVER);
}

static struct holder *holder(struct family *f, int i)
{
    f->one[i].family = f;
    return &f->one[i];
}

/* Below its parent: a child, one in a scope of that, one of a group, and one that kc_all calls. */
static int has_all_kinds(void *arg)
{
    struct family *f = arg;
    kc_job_t *g = group(NULL);
    kc_scope_t scope;

    CHECK_EQ(kc_launch(holds, holder(f, 0)), 0);
    CHECK_EQ(kc_launch_job(defers_long, holder(f, 1), &(kc_launch_opts_t){ .parent = g }, NULL),
             0);
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    CHECK_EQ(kc_launch(holds, holder(f, 2)), 0);
    kc_call_t call = { .fn = defers_long, .arg = holder(f, 3) };
    CHECK_EQ(kc_all(&call, 1, KC_SIG_NONE), -ECANCELED);
    CHECK_EQ(kc_scope_end(&scope), -EPIPE);
    CHECK_EQ(kc_group_close(g), 0);
    kc_job_release(g);
    return -ECANCELED;
}

static int is_above(void *arg)
{
    CHECK_EQ(kc_launch(has_all_kinds, arg), 0);
    return kc_sleep(KC_FOREVER);
}

IN_VIRTUAL_TIME(scopes_children_groups_and_calls_have_the_grace_that_is_above_them)
{
    struct family f = { 0 };
    kc_job_t *top = launch(is_above, &f, &(kc_launch_opts_t){ .grace = KC_MS(200) });

    UNTIL(get(&f.in) == 4);
    kc_time_t at = kc_now();
    CHECK(kc_job_cancel(top, -EPIPE));
    CHECK_EQ(kc_job_join(top), -EPIPE);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(f.one[i].over - at, KC_MS(200));
    CHECK_EQ(get(&f.out), 4);
    kc_job_release(top);
    return 0;
}

/* Closed, it counts its children only. */
IN_VIRTUAL_TIME(a_closed_group_with_one_child_has_its_grace)
{
    struct family f = { 0 };
    kc_time_t at = kc_now();
    kc_job_t *g = group(&(kc_launch_opts_t){ .timeout = KC_MS(100), .grace = KC_MS(50) });

    CHECK_EQ(kc_launch_job(holds, holder(&f, 0), &(kc_launch_opts_t){ .parent = g }, NULL), 0);
    CHECK_EQ(kc_group_close(g), 0);
    CHECK_EQ(kc_job_join(g), -ETIMEDOUT);
    CHECK_EQ(f.one[0].over - at, KC_MS(150));
    kc_job_release(g);
    return 0;
}

/* The same wherever they run. */
IN_A_JOB(all_below_a_job_with_grace_end_when_that_is_over)
{
    struct family f = { 0 };
    kc_job_t *top = launch(is_above, &f, &(kc_launch_opts_t){ .grace = KC_MS(1) });

    UNTIL(get(&f.in) == 4);
    kc_time_t at = kc_now();
    CHECK(kc_job_cancel(top, -EPIPE));
    CHECK_EQ(kc_job_join(top), -EPIPE);
    for (int i = 0; i < 4; i++)
        CHECK_GE(f.one[i].over - at, KC_MS(1));
    CHECK_EQ(get(&f.out), 4);
    kc_job_release(top);
    return 0;
}

/* A parent that waits for its children, each with such a grace; 0: none of its own. */
struct graces {
    struct family f;
    kc_time_t child[4];
};

static int has_children_with_graces(void *arg)
{
    struct graces *g = arg;

    for (int i = 0; i < 4; i++)
        g->f.one[i].job = launch(i & 1 ? defers_long : holds, holder(&g->f, i),
                                 &(kc_launch_opts_t){ .grace = g->child[i] });
    int rc = kc_sleep(KC_FOREVER);
    for (int i = 0; i < 4; i++)
        kc_job_release(g->f.one[i].job);
    return rc;
}

static kc_job_t *parent_with_graces(struct graces *g, kc_time_t own)
{
    kc_job_t *top = launch(has_children_with_graces, g, &(kc_launch_opts_t){ .grace = own });

    UNTIL(get(&g->f.in) == 4);
    return top;
}

IN_VIRTUAL_TIME(the_smaller_of_a_jobs_own_grace_and_the_inherited_one_counts)
{
    struct graces g = { .child = { 0, KC_MS(30), KC_MS(10), KC_MS(20) } };
    kc_job_t *top = parent_with_graces(&g, KC_MS(20));
    kc_time_t at = kc_now();

    CHECK(kc_job_cancel(top, 0));
    CHECK_EQ(kc_job_join(top), -ECANCELED);
    CHECK_EQ(g.f.one[0].over - at, KC_MS(20));
    CHECK_EQ(g.f.one[1].over - at, KC_MS(20));
    CHECK_EQ(g.f.one[2].over - at, KC_MS(10));
    CHECK_EQ(g.f.one[3].over - at, KC_MS(20));
    kc_job_release(top);
    return 0;
}

/* Its parent is cancelled later, or never. */
IN_VIRTUAL_TIME(an_inherited_grace_counts_from_the_request_to_the_job_itself)
{
    struct graces g = { .child = { 0, 0, KC_MS(7), 0 } };
    kc_job_t *top = parent_with_graces(&g, KC_MS(20));
    kc_time_t at = kc_now();

    for (int i = 0; i < 3; i++)
        CHECK(kc_job_cancel(g.f.one[i].job, 0));
    CHECK_EQ(kc_sleep(KC_MS(15)), 0);
    CHECK_EQ(get(&g.f.out), 1);
    CHECK(kc_job_cancel(top, 0));
    CHECK_EQ(kc_sleep(KC_MS(6)), 0);
    CHECK_EQ(get(&g.f.out), 3);
    CHECK_EQ(kc_job_join(top), -ECANCELED);
    CHECK_EQ(g.f.one[0].over - at, KC_MS(20));
    CHECK_EQ(g.f.one[1].over - at, KC_MS(20));
    CHECK_EQ(g.f.one[2].over - at, KC_MS(7));
    CHECK_EQ(g.f.one[3].over - at, KC_MS(35));
    kc_job_release(top);
    return 0;
}

static int child_in_time(void *arg)
{
    CHECK_EQ(kc_defer(cleans_up_long, arg), 0);
    return kc_sleep(KC_FOREVER);
}

static int shields_while_a_child_waits(void *arg)
{
    CHECK_EQ(kc_shield_begin(), 0);
    CHECK_EQ(kc_launch(child_in_time, holder(arg, 0)), 0);
    int rc = holds(holder(arg, 1));
    kc_shield_end();
    return rc;
}

/* One that hears of the cancel only when the shield above it holds no longer has no time left. */
IN_VIRTUAL_TIME(what_a_shield_has_held_back_from_a_child_does_not_make_its_grace_longer)
{
    struct family f = { 0 };
    kc_job_t *j =
        launch(shields_while_a_child_waits, &f, &(kc_launch_opts_t){ .grace = KC_MS(3) });

    UNTIL(get(&f.in));
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    kc_time_t at = kc_now();
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(f.one[0].over - at, KC_MS(3));
    CHECK_EQ(f.one[1].over - at, KC_MS(3));
    kc_job_release(j);
    return 0;
}

enum { MANY = 200 };

static int has_many(void *arg)
{
    struct holder *all = arg;

    for (int i = 0; i < MANY; i++)
        CHECK_EQ(kc_launch(defers_long, &all[i]), 0);
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(each_of_many_children_hears_that_the_grace_is_over)
{
    struct family f = { 0 };
    struct holder all[MANY];

    for (int i = 0; i < MANY; i++)
        all[i] = (struct holder){ .family = &f };
    kc_job_t *j = launch(has_many, all, &(kc_launch_opts_t){ .grace = KC_US(100) });
    UNTIL(get(&f.in) == MANY);
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&f.out), MANY);
    kc_job_release(j);
    return 0;
}

/* ---- failures -------------------------------------------------------------------------------- */

static void cleans_up_in_its_own_time(void *arg)
{
    struct holder *h = arg;

    CHECK_EQ(kc_cancel_reason(), 0);
    CHECK_EQ(kc_sleep(KC_SEC(10)), 0);
    h->over = kc_now();
}

static int fails_above_a_child(void *arg)
{
    struct family *f = arg;

    CHECK_EQ(kc_defer(cleans_up_in_its_own_time, holder(f, 1)), 0);
    CHECK_EQ(kc_launch(holds, holder(f, 0)), 0);
    UNTIL(get(&f->in));
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    f->one[2].over = kc_now();
    return -EIO;
}

/* Nobody has asked it to end; but its failure asks its children to. */
IN_VIRTUAL_TIME(a_body_that_fails_cleans_up_in_its_own_time_and_its_children_have_its_grace)
{
    struct family f = { 0 };
    kc_job_t *g = group(&(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });
    kc_job_t *j =
        launch(fails_above_a_child, &f, &(kc_launch_opts_t){ .parent = g, .grace = KC_MS(5) });

    CHECK_EQ(kc_job_join(j), -EIO);
    CHECK_EQ(f.one[0].over - f.one[2].over, KC_MS(5));
    CHECK_EQ(f.one[1].over - f.one[0].over, KC_SEC(10));
    kc_job_release(j);
    CHECK_EQ(kc_group_close(g), 0);
    CHECK_EQ(kc_job_join(g), 0);
    kc_job_release(g);
    return 0;
}

static int fails_and_cleans_up_long(void *arg)
{
    CHECK_EQ(kc_defer(cleans_up_long, arg), 0);
    add(&((struct holder *)arg)->family->in);
    return -EIO;
}

static int is_above_one_that_fails(void *arg)
{
    CHECK_EQ(kc_launch(fails_and_cleans_up_long, arg), 0);
    return kc_sleep(KC_FOREVER);
}

IN_VIRTUAL_TIME(a_cancel_from_above_bounds_the_cleanups_of_a_job_that_has_failed)
{
    struct family f = { 0 };
    kc_job_t *g = group(&(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR });
    kc_job_t *top = launch(is_above_one_that_fails, holder(&f, 0),
                           &(kc_launch_opts_t){ .parent = g, .grace = KC_MS(5) });

    UNTIL(get(&f.in));
    CHECK_EQ(kc_sleep(KC_SEC(1)), 0);
    CHECK_EQ(get(&f.out), 0);
    kc_time_t at = kc_now();
    CHECK(kc_job_cancel(top, -EPIPE));
    CHECK_EQ(kc_job_join(top), -EIO);
    CHECK_EQ(f.one[0].over - at, KC_MS(5));
    ended(top, KC_JOB_FAILED, -EIO);
    kc_job_drop(g);
    return 0;
}

static int fails_later(void *arg)
{
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    ((struct holder *)arg)->over = kc_now();
    return -EIO;
}

static int forbids_and_has_one_that_fails(void *arg)
{
    struct family *f = arg;

    kc_forbid_signal();
    CHECK_EQ(kc_launch(holds, holder(f, 0)), 0);
    UNTIL(get(&f->in));
    CHECK_EQ(kc_launch(fails_later, holder(f, 1)), 0);
    CHECK_EQ(kc_sleep(KC_SEC(5)), 0); /* it goes on */
    return 0;
}

IN_VIRTUAL_TIME(siblings_of_a_job_that_fails_have_their_grace_where_signals_are_forbidden)
{
    struct family f = { 0 };
    kc_launch_opts_t opts = { .parent = group(&(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR }),
                              .grace = KC_MS(5) };
    kc_job_t *j = launch(forbids_and_has_one_that_fails, &f, &opts);

    CHECK_EQ(kc_job_join(j), -EIO);
    CHECK_EQ(f.one[0].over - f.one[1].over, KC_MS(5));
    kc_job_release(j);
    kc_job_drop(opts.parent);
    return 0;
}

/* ---- the scheduler's ------------------------------------------------------------------------- */

/* A scheduler with such a grace, and virtual time or so many workers. */
static kc_sched_t *sched_with_grace(kc_time_t its, int workers)
{
    uint32_t flags = workers == KC_NO_WORKERS ? KC_SCHED_VIRTUAL_TIME : 0;
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(
                 &(kc_sched_opts_t){ .workers = workers, .flags = flags, .grace = its }, &s),
             0);
    return s;
}

static int is_cancelled_under_the_schedulers(void *arg UNUSED)
{
    struct family f = { 0 };
    kc_launch_opts_t apart = { .flags = KC_JOB_DETACHED };
    kc_job_t *j[3] = { launch(holds, holder(&f, 0), NULL),
                       launch(defers_long, holder(&f, 1), &apart),
                       launch(holds, holder(&f, 2), &(kc_launch_opts_t){ .grace = KC_SEC(9) }) };

    UNTIL(get(&f.in) == 3);
    kc_time_t at = kc_now();
    for (int i = 0; i < 3; i++) {
        CHECK(kc_job_cancel(j[i], 0));
        CHECK_EQ(kc_job_join(j[i]), -ECANCELED);
        CHECK_EQ(f.one[i].over - at, KC_MS(4));
        at = kc_now();
        kc_job_release(j[i]);
    }
    return 0;
}

TEST(the_grace_of_a_scheduler_bounds_that_of_all_its_jobs)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME, .grace = KC_MS(4) };

    CHECK_EQ(kc_run(is_cancelled_under_the_schedulers, NULL, &opts), 0);
    opts.grace = -1;
    CHECK_EQ(kc_run(is_cancelled_under_the_schedulers, NULL, &opts), -EINVAL);
}

static int launches_one_apart(void *arg)
{
    struct family *f = arg;

    f->one[0].job = launch(holds, holder(f, 0), &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED });
    return 0;
}

static int has_one_apart(void *arg UNUSED)
{
    struct family f = { 0 };
    kc_job_t *j = launch(launches_one_apart, &f, &(kc_launch_opts_t){ .grace = KC_MS(1) });

    CHECK_EQ(kc_job_join(j), 0);
    UNTIL(get(&f.in));
    kc_time_t at = kc_now();
    CHECK(kc_job_cancel(f.one[0].job, 0));
    CHECK_EQ(kc_job_join(f.one[0].job), -ECANCELED);
    CHECK_EQ(f.one[0].over - at, KC_MS(50));
    kc_job_release(f.one[0].job);
    kc_job_release(j);
    return 0;
}

TEST(a_detached_job_has_the_grace_of_the_scheduler_only)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME, .grace = KC_MS(50) };

    CHECK_EQ(kc_run(has_one_apart, NULL, &opts), 0);
}

/* Holds, in a job that forbids signals. */
static int forbids_and_holds(void *arg)
{
    kc_forbid_signal();
    return holds(arg);
}

static int has_one_that_forbids(void *arg)
{
    CHECK_EQ(kc_launch(forbids_and_holds, arg), 0);
    return 0;
}

/* All kinds of what may be left when a scheduler ends, each of which holds for 1 000 seconds. */
static void destroy_with_all_kinds(int workers)
{
    kc_sched_t *s = sched_with_grace(KC_MS(2), workers);
    struct family f = { 0 };

    CHECK_EQ(kc_sched_submit(s, KC_WORKER, holds, holder(&f, 0)), 0);
    kc_job_t *apart = launch(defers_long, holder(&f, 1),
                             &(kc_launch_opts_t){ .sched = s, .flags = KC_JOB_DETACHED });
    kc_job_t *above =
        launch(has_one_that_forbids, holder(&f, 2), &(kc_launch_opts_t){ .sched = s });
    kc_job_t *last = launch(fails_and_cleans_up_long, holder(&f, 3),
                            &(kc_launch_opts_t){ .sched = s, .affinity = KC_MAIN });
    while (get(&f.in) < 4)
        CHECK_EQ(kc_sleep(KC_US(10)), 0);
    kc_time_t at = kc_now();
    CHECK_EQ(kc_sched_destroy(s), 0);
    CHECK_EQ(get(&f.out), 4);
    for (int i = 0; i < 4; i++)
        CHECK_GE(f.one[i].over - at, KC_MS(2));
    ended(apart, KC_JOB_CANCELLED, -ESHUTDOWN);
    ended(above, KC_JOB_CANCELLED, -ESHUTDOWN);
    ended(last, KC_JOB_FAILED, -EIO);
}

TEST(a_scheduler_with_grace_ends_though_cleanups_would_wait_for_ever)
{
    destroy_with_all_kinds(KC_NO_WORKERS);
    destroy_with_all_kinds(1);
    destroy_with_all_kinds(4);
}

/* ---- two schedulers -------------------------------------------------------------------------- */

struct host {
    kc_job_t *job;
    count_t in, cancels, out;
};

static int is_above_a_guest(void *arg)
{
    struct host *h = arg;

    h->job = kc_job_retain(kc_job_current());
    set(&h->in, 1);
    int rc = kc_sleep(KC_FOREVER);
    return rc;
}

static int runs_the_host(void *arg)
{
    struct host *h = arg;
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = 1, .grace = KC_MS(1) }, &s), 0);
    kc_job_t *j = launch(is_above_a_guest, h, &(kc_launch_opts_t){ .sched = s });
    CHECK_EQ(kc_job_join(j), -EPIPE);
    kc_job_release(j);
    CHECK_EQ(kc_sched_destroy(s), 0);
    set(&h->out, 1);
    return 0;
}

/* With the parent's end, or with that of its own scheduler; each of which has a grace. */
TEST(a_job_whose_parent_is_in_another_scheduler_has_the_grace_of_both)
{
    for (int by_parent = 0; by_parent < 2; by_parent++) {
        kc_time_t its = by_parent ? KC_SEC(1000) : KC_MS(1);
        kc_sched_t *s = sched_with_grace(its, 1);
        struct family f = { 0 };
        struct host h = { 0 };
        pthread_t thread = thread_runs(runs_the_host, &h);
        UNTIL(get(&h.in));
        kc_job_t *guest =
            launch(holds, holder(&f, 0), &(kc_launch_opts_t){ .sched = s, .parent = h.job });
        UNTIL(get(&f.in));
        if (by_parent) {
            CHECK(kc_job_cancel(h.job, -EPIPE));
            UNTIL(get(&h.out));
        }
        CHECK_EQ(kc_sched_destroy(s), 0);
        CHECK_EQ(get(&f.out), 1);
        ended(guest, KC_JOB_CANCELLED, by_parent ? -EPIPE : -ESHUTDOWN);
        if (!by_parent)
            CHECK(kc_job_cancel(h.job, -EPIPE));
        pthread_join(thread, NULL);
        kc_job_release(h.job);
    }
}

/* ---- no memory ------------------------------------------------------------------------------- */

static bool no_clocks;

kc_job_timer_t *__real_kc__job_timer_new(kc_job_t *j, void (*ring)(kc_job_t *j));
kc_job_timer_t *__wrap_kc__job_timer_new(kc_job_t *j, void (*ring)(kc_job_t *j));

kc_job_timer_t *__wrap_kc__job_timer_new(kc_job_t *j, void (*ring)(kc_job_t *j))
{
    return no_clocks ? NULL : __real_kc__job_timer_new(j, ring);
}

/* Its own has been there since the launch. */
IN_VIRTUAL_TIME(without_memory_for_its_timer_an_inherited_grace_is_over_at_once)
{
    struct graces g = { .child = { 0, 0, KC_MS(7), 0 } };
    kc_job_t *top = parent_with_graces(&g, KC_MS(20));
    kc_time_t at = kc_now();

    no_clocks = true;
    for (int i = 0; i < 3; i++)
        CHECK(kc_job_cancel(g.f.one[i].job, 0));
    CHECK_EQ(kc_launch_job(never, NULL, &(kc_launch_opts_t){ .grace = 1 }, NULL), -ENOMEM);
    no_clocks = false;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(kc_job_join(g.f.one[i].job), -ECANCELED);
    CHECK(kc_job_cancel(top, 0));
    CHECK_EQ(kc_job_join(top), -ECANCELED);
    CHECK_EQ(g.f.one[0].over - at, 0);
    CHECK_EQ(g.f.one[1].over - at, 0);
    CHECK_EQ(g.f.one[2].over - at, KC_MS(7));
    CHECK_EQ(g.f.one[3].over - at, KC_MS(27));
    kc_job_release(top);
    return 0;
}
