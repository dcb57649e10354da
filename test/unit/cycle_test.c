/* SPDX-License-Identifier: MIT */
/*
 * cycle_test.c - E4: jobs that wait for each other in a cycle are found when its last wait begins.
 */
#include "cycle_kit.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static kc_mutex_t c = KC_MUTEX_NAMED("c");
static kc_rwlock_t table = KC_RWLOCK_NAMED("table");

static int run_virtually(kc_fn_t fn)
{
    return run(fn, NULL, 0, KC_SCHED_VIRTUAL_TIME);
}

/* ---- two locks in the wrong order ----------------------------------------------------------- */

static int rc_of[2];

/* Locks one, and then the other when both are taken. */
static int lock_both(kc_mutex_t *first, kc_mutex_t *second)
{
    CHECK_EQ(kc_mutex_lock(first), 0);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    int rc = kc_mutex_lock(second);
    if (rc == 0)
        kc_mutex_unlock(second);
    kc_mutex_unlock(first);
    return rc;
}

static int ab(void *arg)
{
    (void)arg;
    rc_of[0] = lock_both(&a, &b);
    return 0;
}

static int ba(void *arg)
{
    (void)arg;
    rc_of[1] = lock_both(&b, &a);
    return 0;
}

static int two_in_the_wrong_order(void *arg)
{
    (void)arg;
    launch(ab, NULL, "ab", NULL);
    launch(ba, NULL, "ba", NULL);
    return 0;
}

TEST(of_two_jobs_that_lock_in_different_orders_one_gets_edeadlk_and_the_other_continues)
{
    CHECK_EQ(run_virtually(two_in_the_wrong_order), 0);
    CHECK_EQ(rc_of[0] + rc_of[1], -EDEADLK);
    CHECK(rc_of[0] == 0 || rc_of[1] == 0);
    CHECK(kc_mutex_trylock(&a));
    CHECK(kc_mutex_trylock(&b));
}

static int numbered(void *arg)
{
    kc_job_t *j[2];
    char *text = arg;

    launch(ab, NULL, "ab", &j[0]);
    launch(ba, NULL, "ba", &j[1]);
    for (int i = 0; i < 2; i++)
        sprintf(text + i * 128,
                "job %llu \"%s\" waits for a mutex \"%s\" at %p, owned by job %llu",
                (unsigned long long)kc_job_id(j[i]), i ? "ba" : "ab", i ? "a" : "b",
                i ? (void *)&a : (void *)&b, (unsigned long long)kc_job_id(j[!i]));
    kc_job_release(j[0]);
    kc_job_release(j[1]);
    return 0;
}

TEST(one_report_names_the_whole_cycle_with_numbers_owners_and_stacks)
{
    char text[2][128];

    CHECK_EQ(run(numbered, text, 0, KC_SCHED_VIRTUAL_TIME), 0);
    CHECK_EQ(reports(), 1);
    REPORT_SAYS("2 jobs wait in a cycle");
    REPORT_SAYS(text[0]);
    REPORT_SAYS(text[1]);
    CHECK_EQ(lines_with("kcoro: deadlock: job "), 2);
    const char *second = strstr(strstr(report, "kcoro: deadlock: job ") + 1, "kcoro: deadlock: ");
    CHECK(strstr(report, "\n  at 0x") < second);
    CHECK(strstr(second, "\n  at 0x") != NULL);
}

static int beats;

static int heart(void *arg)
{
    (void)arg;
    while (kc_sleep(KC_SEC(1)) == 0 && beats < 100)
        beats++;
    return 0;
}

static int with_a_heart(void *arg)
{
    launch(heart, NULL, "heart", NULL);
    return two_in_the_wrong_order(arg);
}

TEST(a_cycle_beside_a_living_timer_is_found_when_it_closes)
{
    CHECK_EQ(run_virtually(with_a_heart), 0);
    CHECK_EQ(reports(), 1);
    CHECK_EQ(rc_of[0] + rc_of[1], -EDEADLK);
    CHECK_EQ(beats, 100);
}

/* ---- longer ones ---------------------------------------------------------------------------- */

static int results[4], deadlocks, others;

static void count(int rc)
{
    deadlocks += rc == -EDEADLK;
    others += rc != 0 && rc != -EDEADLK;
}

static int bc(void *arg)
{
    (void)arg;
    count(lock_both(&b, &c));
    return 0;
}

static int ca(void *arg)
{
    (void)arg;
    count(lock_both(&c, &a));
    return 0;
}

static int a_then_b(void *arg)
{
    (void)arg;
    count(lock_both(&a, &b));
    return 0;
}

static int a_wants(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_mutex_lock(&a), 0); /* behind the cycle, and no part of it */
    kc_mutex_unlock(&a);
    return 0;
}

static int three_and_one_more(void *arg)
{
    (void)arg;
    launch(a_then_b, NULL, "1", NULL);
    launch(bc, NULL, "2", NULL);
    launch(ca, NULL, "3", NULL);
    launch(a_wants, NULL, "bystander", NULL);
    return 0;
}

TEST(three_jobs_in_a_cycle_are_named_and_a_waiter_outside_the_cycle_is_not)
{
    CHECK_EQ(run_virtually(three_and_one_more), 0);
    CHECK_EQ(deadlocks, 1);
    CHECK_EQ(others, 0);
    CHECK_EQ(reports(), 1);
    REPORT_SAYS("3 jobs wait in a cycle");
    CHECK_EQ(lines_with("bystander"), 0);
}

static int writes_then_a(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_rwlock_wrlock(&table), 0);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    int rc = kc_mutex_lock(&a);
    count(rc);
    if (rc == 0)
        kc_mutex_unlock(&a);
    kc_rwlock_wrunlock(&table);
    return 0;
}

/* arg: to read. */
static int a_then_table(void *arg)
{
    CHECK_EQ(kc_mutex_lock(&a), 0);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    int rc = arg ? kc_rwlock_rdlock(&table) : kc_rwlock_wrlock(&table);
    count(rc);
    if (rc == 0 && arg)
        kc_rwlock_rdunlock(&table);
    else if (rc == 0)
        kc_rwlock_wrunlock(&table);
    kc_mutex_unlock(&a);
    return 0;
}

static int reader_and_writer(void *arg)
{
    launch(writes_then_a, NULL, "writer", NULL);
    launch(a_then_table, arg, "second", NULL);
    return 0;
}

TEST(a_reader_or_writer_that_waits_for_a_writer_is_part_of_a_cycle)
{
    for (int read = 0; read < 2; read++) {
        deadlocks = 0;
        CHECK_EQ(run(reader_and_writer, read ? &table : NULL, 0, KC_SCHED_VIRTUAL_TIME), 0);
        CHECK_EQ(deadlocks, 1);
        CHECK_EQ(reports(), 1);
        REPORT_SAYS(read ? "waits for a lock to read \"table\""
                         : "waits for a lock to write \"table\"");
    }
}

/* ---- joins ---------------------------------------------------------------------------------- */

static kc_job_t *pair[2];

static int joins_the_other(void *arg)
{
    CHECK_EQ(kc_sleep(KC_MS(1)), 0); /* both handles are there then */
    int rc = kc_job_join(pair[arg == NULL]);
    count(rc);
    return 0;
}

static int two_that_join(void *arg)
{
    (void)arg;
    launch(joins_the_other, NULL, "left", &pair[0]);
    launch(joins_the_other, &pair, "right", &pair[1]);
    return 0;
}

TEST(two_jobs_that_join_each_other_are_a_cycle)
{
    CHECK_EQ(run_virtually(two_that_join), 0);
    CHECK_EQ(deadlocks, 1);
    CHECK_EQ(others, 0);
    CHECK_EQ(reports(), 1);
    CHECK_EQ(lines_with("waits for join of job "), 2);
    kc_job_release(pair[0]);
    kc_job_release(pair[1]);
}

static int wants_a(void *arg)
{
    int *rc = arg;

    *rc = kc_mutex_lock(&a);
    if (*rc == 0)
        kc_mutex_unlock(&a);
    return 0;
}

static int has_child_that_wants_a(void *arg)
{
    launch(wants_a, arg, "grandchild", NULL);
    return 0;
}

/* The one that wants the lock is a child of the one that is joined. */
static int holds_and_joins(void *arg)
{
    kc_job_t *j;

    (void)arg;
    CHECK_EQ(kc_mutex_lock(&a), 0);
    launch(has_child_that_wants_a, &results[0], "child", &j);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    results[1] = kc_job_join(j); /* closes the cycle */
    kc_mutex_unlock(&a);
    kc_job_release(j);
    return 0;
}

TEST(a_join_closes_a_cycle_with_a_descendant_of_what_is_joined)
{
    CHECK_EQ(run_virtually(holds_and_joins), 0);
    CHECK_EQ(results[0], 0); /* it goes on when the lock is free */
    CHECK_EQ(results[1], -EDEADLK);
    CHECK_EQ(reports(), 1);
    REPORT_SAYS("waits for join of job");
    REPORT_SAYS("\"child\", among them job");
    REPORT_SAYS("\"grandchild\" waits for a mutex \"a\"");
}

/* ---- the end of scopes and bodies ----------------------------------------------------------- */

/* arg: the child waits before the scope ends. */
static int holds_over_the_end_of_a_scope(void *arg)
{
    kc_scope_t s;

    CHECK_EQ(kc_mutex_lock(&a), 0);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    launch(wants_a, &results[0], "child", NULL);
    if (arg)
        CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    results[1] = kc_scope_end(&s);
    kc_mutex_unlock(&a);
    return 0;
}

TEST(a_child_that_wants_a_lock_over_which_its_scope_ends_gets_edeadlk)
{
    CHECK_EQ(run(holds_over_the_end_of_a_scope, NULL, 0, KC_SCHED_VIRTUAL_TIME), 0);
    CHECK_EQ(results[0], -EDEADLK);
    CHECK_EQ(results[1], 0); /* the child has kept it for itself */
    CHECK_EQ(reports(), 1);
    REPORT_SAYS("waits for its children, among them job");
}

TEST(the_end_of_a_scope_that_closes_a_cycle_fails_with_edeadlk_and_cancels_the_children)
{
    CHECK_EQ(run(holds_over_the_end_of_a_scope, &results, 0, KC_SCHED_VIRTUAL_TIME), 0);
    CHECK_EQ(results[0], -ECANCELED);
    CHECK_EQ(results[1], -EDEADLK);
    CHECK_EQ(reports(), 1);
    REPORT_SAYS("this end fails with -EDEADLK");
}

static void unlock_a(void *arg)
{
    (void)arg;
    kc_mutex_unlock(&a);
}

static int holds_over_its_end(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_mutex_lock(&a), 0);
    CHECK_EQ(kc_defer(unlock_a, NULL), 0);
    launch(wants_a, &results[0], "child", NULL);
    return kc_sleep(KC_MS(1));
}

TEST(the_end_of_a_body_that_closes_a_cycle_fails_it_with_edeadlk)
{
    CHECK_EQ(run_virtually(holds_over_its_end), -EDEADLK);
    CHECK_EQ(results[0], -ECANCELED);
    CHECK_EQ(reports(), 1);
}

static int child_with_a_deadline(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_mutex_lock_until(&a, kc_now() + KC_SEC(1)), -ETIMEDOUT);
    return 0;
}

static int waits_for_a_child_with_a_deadline(void *arg)
{
    kc_scope_t s;

    (void)arg;
    CHECK_EQ(kc_mutex_lock(&a), 0);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    launch(child_with_a_deadline, NULL, "child", NULL);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    CHECK_EQ(kc_scope_end(&s), 0);
    kc_mutex_unlock(&a);
    return 0;
}

TEST(a_wait_with_a_deadline_is_no_part_of_a_cycle)
{
    CHECK_EQ(run_virtually(waits_for_a_child_with_a_deadline), 0);
    CHECK_STR(report, "");
}

/* ---- deadlines around ----------------------------------------------------------------------- */

static int ab_in_a_scope(void *arg)
{
    (void)arg;
    return lock_both(&a, &b);
}

static int with_a_timeout(void *arg)
{
    (void)arg;
    results[0] = kc_with_timeout(KC_SEC(1), ab_in_a_scope, NULL);
    return 0;
}

static int one_of_two_in_a_scope_with_a_timeout(void *arg)
{
    (void)arg;
    launch(with_a_timeout, NULL, "timed", NULL);
    launch(ba, NULL, "ba", NULL);
    return 0;
}

TEST(a_wait_that_the_timeout_of_a_scope_will_end_is_no_part_of_a_cycle)
{
    CHECK_EQ(run_virtually(one_of_two_in_a_scope_with_a_timeout), 0);
    CHECK_STR(report, "");
    CHECK_EQ(results[0], -ETIMEDOUT);
    CHECK_EQ(rc_of[1], 0);
}

static int two_below_a_timeout(void *arg)
{
    kc_job_t *j;

    (void)arg;
    CHECK_EQ(kc_launch_job(two_in_the_wrong_order, NULL,
                           &(kc_launch_opts_t){ .timeout = KC_SEC(1) }, &j),
             0);
    results[0] = kc_job_join(j);
    kc_job_release(j);
    return 0;
}

TEST(waits_that_the_timeout_of_a_job_above_will_end_are_no_cycle)
{
    CHECK_EQ(run_virtually(two_below_a_timeout), 0);
    CHECK_STR(report, "");
    CHECK_EQ(results[0], -ETIMEDOUT);
    CHECK_EQ(rc_of[0], -ECANCELED);
    CHECK_EQ(rc_of[1], -ECANCELED);
}

static int shielded_ab(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_shield_begin(), 0);
    rc_of[0] = lock_both(&a, &b);
    kc_shield_end();
    return 0;
}

/* arg: the shield has a grace. */
static int one_of_two_under_a_shield(void *arg)
{
    kc_launch_opts_t opts = { .timeout = KC_SEC(1), .grace = arg ? KC_SEC(1) : 0 };

    CHECK_EQ(kc_launch_job(shielded_ab, NULL, &opts, NULL), 0);
    launch(ba, NULL, "ba", NULL);
    return 0;
}

TEST(a_timeout_that_a_shield_keeps_out_ends_no_cycle)
{
    CHECK_EQ(run(one_of_two_under_a_shield, NULL, 0, KC_SCHED_VIRTUAL_TIME), 0);
    CHECK_EQ(reports(), 1);
    CHECK_EQ(rc_of[0] + rc_of[1], -EDEADLK);
}

TEST(a_timeout_that_a_shield_keeps_out_for_a_grace_only_ends_a_cycle)
{
    CHECK_EQ(run(one_of_two_under_a_shield, &results, 0, KC_SCHED_VIRTUAL_TIME), 0);
    CHECK_STR(report, "");
    CHECK_EQ(rc_of[0], -ECANCELED);
    CHECK_EQ(rc_of[1], 0);
}

static int launches_shielded_ab(void *arg)
{
    return kc_launch(shielded_ab, arg);
}

static int below_a_grace(void *arg)
{
    kc_launch_opts_t opts = { .timeout = KC_SEC(1), .grace = KC_SEC(1) };

    CHECK_EQ(kc_launch_job(launches_shielded_ab, arg, &opts, NULL), 0);
    launch(ba, NULL, "ba", NULL);
    return 0;
}

TEST(a_timeout_under_a_shield_ends_a_cycle_after_the_grace_of_a_job_above_or_the_scheduler)
{
    int rc = run_virtually(below_a_grace);
    CHECK_STR(report, "");
    CHECK_EQ(rc, 0);
    CHECK_EQ(rc_of[0], -ECANCELED);
    begin_report();
    CHECK_EQ(kc_run(one_of_two_under_a_shield, NULL,
                    &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME, .grace = KC_SEC(1) }),
             0);
    end_report();
    CHECK_STR(report, "");
    CHECK_EQ(rc_of[0], -ECANCELED);
}

static int forbids_and_locks(void *arg)
{
    kc_forbid_signal();
    return ab(arg);
}

static int one_of_two_forbids(void *arg)
{
    (void)arg;
    CHECK_EQ(
        kc_launch_job(forbids_and_locks, NULL, &(kc_launch_opts_t){ .timeout = KC_SEC(1) }, NULL),
        0);
    launch(ba, NULL, "ba", NULL);
    return 0;
}

TEST(a_timeout_of_a_job_that_forbids_signals_ends_no_cycle)
{
    CHECK_EQ(run_virtually(one_of_two_forbids), 0);
    CHECK_EQ(reports(), 1);
    CHECK_EQ(rc_of[0] + rc_of[1], -EDEADLK);
}

static int holds_b_wants_a(void *arg)
{
    CHECK_EQ(kc_mutex_lock(&b), 0);
    wants_a(arg);
    kc_mutex_unlock(&b);
    return 0;
}

static int cancels_and_waits_for_it(void *arg)
{
    kc_job_t *j;

    (void)arg;
    CHECK_EQ(kc_mutex_lock(&a), 0);
    launch(holds_b_wants_a, &results[0], "cancelled", &j);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_mutex_lock(&b), 0); /* which the other one gives up, as it is cancelled */
    kc_mutex_unlock(&b);
    kc_mutex_unlock(&a);
    kc_job_release(j);
    return 0;
}

TEST(a_wait_that_is_cancelled_is_no_part_of_a_cycle)
{
    static const int workers[] = { KC_NO_WORKERS, 1, 2, 4 };

    CHECK_EQ(run_virtually(cancels_and_waits_for_it), 0);
    CHECK_STR(report, "");
    CHECK_EQ(results[0], -ECANCELED);
    for (unsigned i = 0; i < sizeof workers / sizeof *workers; i++) {
        CHECK_EQ(run(cancels_and_waits_for_it, NULL, workers[i], KC_SCHED_FIND_DEADLOCKS), 0);
        CHECK_STR(report, "");
        CHECK(results[0] == -ECANCELED);
    }
}

enum { CANCELS = 3000 };

static _Atomic int holds_b;

static int says_that_it_holds_b_and_wants_a(void *arg)
{
    CHECK_EQ(kc_mutex_lock(&b), 0);
    holds_b = 1;
    *(int *)arg = kc_mutex_lock(&a);
    kc_mutex_unlock(&b);
    return 0;
}

/* Cancels one that is just about to wait, and waits for it. */
static int cancels_what_is_about_to_wait(void *arg)
{
    (void)arg;
    for (int i = 0; i < CANCELS; i++) {
        kc_job_t *j;
        CHECK_EQ(kc_mutex_lock(&a), 0);
        holds_b = 0;
        launch(says_that_it_holds_b_and_wants_a, &results[0], "cancelled", &j);
        while (!holds_b)
            CHECK_EQ(kc_yield(), 0);
        CHECK(kc_job_cancel(j, 0));
        CHECK_EQ(kc_mutex_lock(&b), 0);
        CHECK_EQ(results[0], -ECANCELED);
        kc_mutex_unlock(&b);
        kc_mutex_unlock(&a);
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        kc_job_release(j);
    }
    return 0;
}

TEST(a_wait_that_is_cancelled_as_it_begins_is_no_part_of_a_cycle)
{
    CHECK_EQ(run(cancels_what_is_about_to_wait, NULL, 2, KC_SCHED_FIND_DEADLOCKS), 0);
    CHECK_STR(report, "");
}

/* ---- what cannot return --------------------------------------------------------------------- */

static int ab_firmly(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_mutex_lock(&a), 0);
    CHECK_EQ(kc_sleep(KC_MS(2)), 0); /* the other one waits already */
    kc_mutex_lock_nocancel(&b);
    kc_mutex_unlock(&b);
    kc_mutex_unlock(&a);
    return 0;
}

static int two_one_firm(void *arg)
{
    (void)arg;
    launch(ab_firmly, NULL, "firm", NULL);
    launch(ba, NULL, "ba", NULL);
    return 0;
}

TEST_ABORTS(a_lock_that_cannot_return_aborts_after_the_report,
            "kc_mutex_lock_nocancel: a deadlock, which this call cannot return (rule E4,")
{
    (void)!kc_run(two_one_firm, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}

TEST_ABORTS(the_report_comes_before_the_abort, "\"firm\" waits for a mutex \"b\" at ")
{
    (void)!kc_run(two_one_firm, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}

static int firm_first(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_mutex_lock(&a), 0);
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    kc_mutex_lock_nocancel(&b);
    kc_mutex_unlock(&b);
    kc_mutex_unlock(&a);
    return 0;
}

static int ba_later(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_mutex_lock(&b), 0);
    CHECK_EQ(kc_sleep(KC_MS(2)), 0);
    CHECK_EQ(kc_mutex_lock(&a), -EDEADLK);
    kc_mutex_unlock(&b);
    return 0;
}

/* Its timeout does not end a wait that no cancel ends. */
static int two_firm_first(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_launch_job(firm_first, NULL, &(kc_launch_opts_t){ .timeout = KC_SEC(1) }, NULL),
             0);
    launch(ba_later, NULL, "ba", NULL);
    return 0;
}

TEST(a_timeout_around_a_wait_that_no_cancel_ends_does_not_count)
{
    CHECK_EQ(run_virtually(two_firm_first), 0);
    CHECK_EQ(reports(), 1);
}

static kc_once_t once = KC_ONCE_INIT;

static void locks_a_once(void *arg)
{
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
    *(int *)arg = kc_mutex_lock(&a);
}

static int calls_once(void *arg)
{
    (void)arg;
    kc_once(&once, locks_a_once, &results[0]);
    return 0;
}

static int a_then_once(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_mutex_lock(&a), 0);
    calls_once(arg);
    kc_mutex_unlock(&a);
    return 0;
}

static int lock_and_once(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_launch_job(calls_once, NULL, &(kc_launch_opts_t){ .flags = KC_JOB_NOW }, NULL), 0);
    launch(a_then_once, NULL, "second", NULL);
    return 0;
}

TEST(the_job_that_runs_a_once_is_its_owner)
{
    CHECK_EQ(run_virtually(lock_and_once), 0);
    CHECK_EQ(results[0], -EDEADLK);
    REPORT_SAYS("waits for another's kc_once at ");
    REPORT_SAYS(", run by job ");
}

/* ---- what is no cycle ----------------------------------------------------------------------- */

static kc_chan_t *chan;

static int a_then_receives(void *arg)
{
    int item, rc = kc_mutex_lock(&a);

    (void)arg;
    if (rc != 0)
        return rc;
    rc = kc_chan_recv(chan, &item);
    kc_mutex_unlock(&a);
    return rc;
}

static int a_then_sends(void *arg)
{
    int item = 1, rc = kc_mutex_lock(&a);

    (void)arg;
    if (rc != 0)
        return rc;
    rc = kc_chan_send(chan, &item);
    kc_mutex_unlock(&a);
    return rc;
}

static int lock_around_a_channel(void *arg)
{
    (void)arg;
    launch(a_then_receives, NULL, "receiver", NULL);
    launch(a_then_sends, NULL, "sender", NULL);
    return 0;
}

TEST(a_wait_for_a_channel_is_in_no_cycle_and_is_reported_when_all_wait)
{
    CHECK_EQ(kc_chan_create(sizeof(int), 0, &chan), 0);
    CHECK_EQ(run_virtually(lock_around_a_channel), -EDEADLK);
    CHECK_EQ(reports(), 0);
    REPORT_SAYS("wait for ever (rule S11,");
    REPORT_SAYS(" waits for a mutex \"a\" at ");
    REPORT_SAYS(", owned by job ");
    kc_chan_release(chan);
}
