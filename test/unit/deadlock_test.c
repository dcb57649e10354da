/* SPDX-License-Identifier: MIT */
/*
 * deadlock_test.c - S11: nothing can go on any more, and the report says who waits for what.
 */
#include "job/root.h"
#include "job/job.h"
#include "harness.h"
#include "report_kit.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* fn is the root of a scheduler that finds a deadlock. */
static void run_into_deadlock(kc_fn_t fn)
{
    begin_report();
    int rc = kc_run(fn, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
    end_report();
    CHECK_EQ(rc, -EDEADLK);
}

static int launch(kc_fn_t fn, const char *name)
{
    return kc_launch_job(fn, NULL, &(kc_launch_opts_t){ .name = name }, NULL);
}

/* ---- messages ------------------------------------------------------------------------------- */

static int says_and_waits(void *arg)
{
    (void)arg;
    kc_set_message("asked host %d", 3);
    return kc_sleep(KC_FOREVER);
}

TEST(a_report_of_a_deadlock_prints_messages)
{
    run_into_deadlock(says_and_waits);
    CHECK_EQ(lines_with(", says \"asked host 3\"\n"), 1);
}

static kc_mutex_t accounts = KC_MUTEX_NAMED("accounts"), journal = KC_MUTEX_NAMED("journal");

/* ---- who waits ------------------------------------------------------------------------------ */

static kc_chan_t *chan;

static int receives(void *arg)
{
    int item;

    (void)arg;
    return kc_chan_recv(chan, &item);
}

static int two_that_receive(void *arg)
{
    (void)arg;
    int rc = launch(receives, "first");
    return rc != 0 ? rc : launch(receives, "second");
}

TEST(a_job_that_waits_in_vain_is_named_with_its_stack)
{
    CHECK_EQ(kc_chan_create_with(&(kc_chan_opts_t){ .item_size = sizeof(int), .name = "orders" },
                                 &chan),
             0);
    run_into_deadlock(two_that_receive);
    char line[96];
    snprintf(line, sizeof line, "waits for a receive from channel \"orders\" at %p\n",
             (void *)chan);
    CHECK_EQ(lines_with(line), 2);
    CHECK_EQ(lines_with("\n  at 0x") > 0, 1);
    CHECK_EQ(lines_with("cycle"), 0);
    kc_chan_release(chan);
}

/* ---- many ----------------------------------------------------------------------------------- */

enum { MANY = 3000 };

static int child_locks(void *arg)
{
    (void)arg;
    int rc = kc_mutex_lock(&accounts);
    if (rc == 0)
        kc_mutex_unlock(&accounts);
    return rc;
}

static int holder_waits(void *arg)
{
    (void)arg;
    int rc = kc_mutex_lock(&accounts);
    if (rc != 0)
        return rc;
    rc = kc_chan_recv(chan, NULL);
    kc_mutex_unlock(&accounts);
    return rc;
}

static int many_want_one_lock(void *arg)
{
    (void)arg;
    int rc = kc_launch_job(holder_waits, NULL, &(kc_launch_opts_t){ .flags = KC_JOB_NOW }, NULL);
    for (int i = 0; i < MANY && rc == 0; i++)
        rc = kc_launch(child_locks, NULL);
    return rc;
}

TEST_SLOW(many_waiters_for_one_lock_are_reported_in_time, 60000)
{
    CHECK_EQ(kc_chan_create(0, 0, &chan), 0);
    run_into_deadlock(many_want_one_lock);
    CHECK_GT(lines_with("waits for a mutex \"accounts\""), 10);
    CHECK_EQ(lines_with("; holds a mutex \"accounts\" at 0x"), 1);
    CHECK_EQ(lines_with("cycle"), 0);
    CHECK_LT(strlen(report), sizeof report); /* the stack of all of them is printed once */
    kc_chan_release(chan);
}

/* ---- no deadlock: a thread outside is about to wake somebody --------------------------------- */

static struct {
    kc_worker_t *main;
    kcoro_t *parked;
    KC_ATOMIC(int) rests, taken;
} slow;

static int parks_until_woken(void *arg)
{
    (void)arg;
    slow.main = kc__worker();
    slow.parked = kcoro_current();
    kc_store_release(&slow.rests, 1);
    kcoro_park();
    return 0;
}

/* kcoro_unpark, with a pause in its middle until the scheduler sleeps. */
static void *unparks_slowly(void *arg)
{
    kcoro_t *co = slow.parked;
    uint32_t state = KCORO_PARKED;

    CHECK(kc__gate_unpark(&co->gate));
    kc_store_release(&slow.taken, 1);
    while (!(kc_load_relaxed(&slow.main->sched->idle.word) & kc__idle_bit(slow.main->bit)))
        sched_yield();
    CHECK(kc_cas_acq_rel(&co->state, &state, KCORO_READY)); /* coro.1 */
    kc__coro_hooks.ready(co);
    return arg;
}

static int has_a_slow_friend(void *arg)
{
    pthread_t thread;

    CHECK_EQ(kc_launch(parks_until_woken, arg), 0);
    while (!kc_load_acquire(&slow.rests))
        CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(pthread_create(&thread, NULL, unparks_slowly, NULL), 0);
    CHECK_EQ(pthread_detach(thread), 0);
    while (!kc_load_acquire(&slow.taken))
        CHECK_EQ(kc_yield(), 0);
    return 0;
}

TEST(a_job_that_is_about_to_be_woken_is_no_deadlock)
{
    CHECK_EQ(kc_run(has_a_slow_friend, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME }),
             0);
}

/* ---- who could have ended it gives up -------------------------------------------------------- */

static kc_lease_t lease;

static void *releases_when_all_sleep(void *arg)
{
    while (!(kc_load_relaxed(&slow.main->sched->idle.word) & kc__idle_bit(slow.main->bit)))
        sched_yield();
    kc_lease_release(&lease);
    return arg;
}

static int leases_one_that_is_stuck(void *arg)
{
    kc_job_t *job;
    pthread_t thread;

    CHECK_EQ(kc_launch_job(parks_until_woken, arg, NULL, &job), 0);
    CHECK_EQ(kc_lease_take(job, &lease), 0);
    kc_job_release(job);
    while (!kc_load_acquire(&slow.rests))
        CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(pthread_create(&thread, NULL, releases_when_all_sleep, NULL), 0);
    CHECK_EQ(pthread_detach(thread), 0);
    return 0;
}

TEST(a_deadlock_that_only_a_lease_held_open_is_found_when_it_is_released)
{
    run_into_deadlock(leases_one_that_is_stuck);
    CHECK_EQ(lines_with("waits for park"), 1);
}

static int leases_and_releases(void *arg)
{
    kc_job_t *job;

    slow.main = kc__worker();
    CHECK_EQ(kc_launch_job(parks_until_woken, arg, NULL, &job), 0);
    CHECK_EQ(kc_lease_take(job, &lease), 0);
    kc_job_release(job);
    return 0;
}

static void *releases_at_once(void *arg)
{
    kc_time_t pause = (kc_time_t)(uintptr_t)arg, until;

    while (!kc_load_acquire(&slow.rests))
        sched_yield();
    until = kc_now() + pause;
    while (kc_now() < until)
        ;
    kc_lease_release(&lease);
    return NULL;
}

/* The release comes when main has looked and is about to sleep, if it is lucky. */
TEST(a_lease_that_is_released_while_main_goes_to_sleep_leaves_no_deadlock_unseen)
{
    for (long i = 0, rounds = kc_test_rounds(10); i < rounds && kc_test_has_time(); i++) {
        pthread_t thread;
        kc_store_relaxed(&slow.rests, 0);
        CHECK_EQ(
            pthread_create(&thread, NULL, releases_at_once, (void *)(uintptr_t)(i % 50 * 200)), 0);
        run_into_deadlock(leases_and_releases);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
}

/* ---- the end of what is stuck under a shield ------------------------------------------------- */

static kc_event_t never = KC_EVENT_INIT;
static int shielded_rc;

static int waits_under_a_shield(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_shield_begin(), 0);
    shielded_rc = kc_event_wait(&never);
    kc_shield_end();
    return 0;
}

static void waits_once(void *arg)
{
    *(int *)arg = kc_event_wait(&never);
}

static int waits_inside_once(void *arg)
{
    kc_once_t once = KC_ONCE_INIT;

    (void)arg;
    kc_once(&once, waits_once, &shielded_rc);
    return 0;
}

TEST(a_deadlock_under_a_shield_is_returned)
{
    run_into_deadlock(waits_under_a_shield);
    CHECK_EQ(lines_with("waits for an event"), 1);
    CHECK_EQ(shielded_rc, -ECANCELED);
    shielded_rc = 0;
    run_into_deadlock(waits_inside_once);
    CHECK_EQ(shielded_rc, -ECANCELED);
}

/* ---- what another scheduler does ------------------------------------------------------------ */

static kc_sched_t *other;
static kc_event_t elsewhere = KC_EVENT_INIT;

static int waits_elsewhere(void *arg)
{
    (void)arg;
    return kc_event_wait(&elsewhere);
}

static int has_a_child_elsewhere(void *arg)
{
    kc_sched_t *s = kc_sched_current();
    kc_job_t *j = NULL;
    uint64_t seen;

    (void)arg;
    CHECK(!kc__roots_look_for_external(s, &seen));
    CHECK_EQ(kc_launch_job(waits_elsewhere, NULL, &(kc_launch_opts_t){ .sched = other }, &j), 0);
    CHECK(kc__roots_look_for_external(
        s, &seen)); /* so a join is no deadlock, however long the child takes */
    kc_event_set(&elsewhere);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    while (kc__roots_look_for_external(s, &seen))
        kcoro_yield();
    return 7;
}

static void *runs_virtually(void *arg)
{
    *(int *)arg =
        kc_run(has_a_child_elsewhere, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
    return NULL;
}

TEST(a_child_in_another_scheduler_is_waited_for)
{
    pthread_t t;
    int rc = 0;

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = 1 }, &other), 0);
    CHECK_EQ(pthread_create(&t, NULL, runs_virtually, &rc), 0);
    CHECK_EQ(pthread_join(t, NULL), 0);
    CHECK_EQ(rc, 7);
    CHECK_EQ(kc_sched_destroy(other), 0);
}

/* ---- one order ------------------------------------------------------------------------------ */

static int waits_in_vain(void *arg)
{
    kc_mutex_t *lock = arg;

    return kc_mutex_lock(lock);
}

static int leaves_some_that_wait(void *arg)
{
    static const char *const name[] = { "a", "b", "c", "d", "e", "f", "g", "h" };

    (void)arg;
    CHECK_EQ(kc_mutex_lock(&journal), 0);
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        CHECK_EQ(
            kc_launch_job(waits_in_vain, &journal, &(kc_launch_opts_t){ .name = name[i] }, NULL),
            0);
    (void)!kc_sleep(KC_FOREVER);
    kc_mutex_unlock(&journal);
    return 0;
}

static int launches_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int launches_some(void *arg)
{
    for (intptr_t i = 0; i < (intptr_t)arg; i++)
        CHECK_EQ(kc_launch(launches_nothing, NULL), 0);
    return 0;
}

/* The names of the jobs that the report says wait for the lock. */
static void names_in_report(char *names)
{
    for (const char *at = report; (at = strstr(at, "deadlock: job ")) != NULL; at++) {
        const char *name = strchr(at, '"');
        if (name && name < strchr(at, '\n') && name[2] == '"')
            *names++ = name[1];
    }
    *names = '\0';
}

TEST(a_deadlock_is_reported_in_one_order_whatever_ran_before)
{
    char first[32] = "", names[32];

    for (int i = 0; i < 8; i++) {
        run_into_deadlock(leaves_some_that_wait);
        names_in_report(names);
        CHECK_EQ(strlen(names), 8);
        if (i == 0)
            strcpy(first, names);
        CHECK_STR(names, first);
        CHECK_EQ(kc_run(launches_some, (void *)(intptr_t)(i * 5 + 3),
                        &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
                 0);
    }
}
