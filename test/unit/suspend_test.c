/* SPDX-License-Identifier: MIT */
/*
 * suspend_test.c - a wait of one's own: kc_suspend and kc_wake (J34), and what the scheduler makes
 * of it (S11, E2).
 */
#include "suspend_kit.h"

#include <kcoro/gen.h>
#include <kcoro/trace.h>

#include <poll.h>
#include <stdio.h>

/* ---- waking --------------------------------------------------------------------------------- */

IN_A_JOB(kc_suspend_returns_what_kc_wake_says)
{
    static const int codes[] = { 0, 7, -EIO, -ECANCELED, INT32_MIN };

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct own o = { 0 };
        kc_job_t *j = launch(suspends, &o, NULL);
        until_suspended(j);
        CHECK_EQ(get(&o.over), 0);
        kc_wake(waker_of(&o), codes[i]);
        CHECK_EQ(kc_job_join(j), 0);
        CHECK_EQ(o.rc, codes[i]);
        CHECK_EQ(get(&o.cancels), 0);
        kc_job_release(j);
    }
    return 0;
}

IN_A_JOB(begin_may_wake_at_once)
{
    struct own o = { 0 };

    for (int i = 0; i < 300; i++)
        CHECK_EQ(kc_suspend(wakes_at_once, is_cancelled, &o), 5);
    CHECK_EQ(get(&o.begun), 300);
    CHECK_EQ(get(&o.cancels), 0);
    return 0;
}

IN_A_JOB(begin_runs_on_the_coroutines_thread_in_its_job)
{
    struct own o = { 0 };
    kc_job_t *j = launch(suspends, &o, NULL);

    kc_wake(waker_of(&o), 0);
    CHECK_EQ(kc_job_join(j), 0);
    CHECK_PTR(o.job, j);
    kc_job_release(j);
    return 0;
}

static int wakes(void *arg)
{
    struct own *o = arg;

    UNTIL(get(&o->begun));
    kc_wake(kc_load_acquire(&o->waker), 3);
    return 0;
}

IN_A_JOB(any_thread_may_wake)
{
    for (int i = 0; i < 20; i++) {
        struct own o = { 0 };
        pthread_t t = thread_runs(wakes, &o);
        CHECK_EQ(kc_suspend(begins, is_cancelled, &o), 3);
        CHECK_EQ(pthread_join(t, NULL), 0);
    }
    return 0;
}

static struct own threads_own;

static int suspends_here(void *arg UNUSED)
{
    threads_own.rc = kc_suspend(begins, is_cancelled, &threads_own);
    return 0;
}

TEST(a_plain_thread_blocks)
{
    pthread_t t = thread_runs(suspends_here, NULL);

    kc_wake(waker_of(&threads_own), 4);
    CHECK_EQ(pthread_join(t, NULL), 0);
    CHECK_EQ(threads_own.rc, 4);
    CHECK_EQ(kc_suspend(wakes_at_once, NULL, &threads_own), 5);
}

OUTSIDE(the_creator_of_a_scheduler_pumps_while_it_waits, s)
{
    struct own o = { 0 };
    kc_job_t *j =
        launch(wakes, &o, &(kc_launch_opts_t){ .sched = s, .affinity = KC_MAIN }); /* needs it */

    CHECK_EQ(kc_suspend(begins, NULL, &o), 3);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
}

static int in_generator(kc_gen_t *g, void *arg)
{
    struct own *o = arg;

    o->rc = kc_suspend(begins, is_cancelled, o);
    kc_gen_yield(g, o);
    return 0;
}

IN_A_JOB(a_kc_suspend_in_a_coroutine_inside_a_body_suspends_the_body)
{
    struct own o = { 0 };
    kc_gen_t g;
    void *item;

    pthread_t t = thread_runs(wakes, &o);
    CHECK_EQ(kc_gen_start(&g, in_generator, &o, 0), 0);
    CHECK(kc_gen_next(&g, &item));
    CHECK_EQ(o.rc, 3);
    kc_gen_end(&g);
    CHECK_EQ(pthread_join(t, NULL), 0);
    return 0;
}

IN_A_JOB(begin_that_is_null_is_einval)
{
    CHECK_EQ(kc_suspend(NULL, is_cancelled, NULL), -EINVAL);
    return 0;
}

/* ---- cancelling ----------------------------------------------------------------------------- */

IN_A_JOB(a_cancel_calls_cancelled_once_and_the_wait_continues_until_kc_wake)
{
    struct own o = { 0 };
    kc_job_t *j = launch(suspends, &o, NULL);

    until_suspended(j);
    CHECK(kc_job_cancel(j, -EIO));
    UNTIL(get(&o.cancels));
    CHECK_PTR(o.cancel_job, NULL); /* as nobody's body (S16) */
    CHECK(!kc_job_cancel(j, 0));
    for (int i = 0; i < 20; i++)
        kcoro_yield();
    CHECK_EQ(get(&o.cancels), 1);
    CHECK_EQ(get(&o.over), 0);
    kc_wake(waker_of(&o), 9);
    CHECK_EQ(kc_job_join(j), -EIO);
    CHECK_EQ(o.rc, 9);
    CHECK_EQ(get(&o.cancels), 1);
    kc_job_release(j);
    return 0;
}

IN_A_JOB(cancelled_may_wake_at_once)
{
    struct own o = { .cancel_wakes = true, .cancel_rc = -ECANCELED };
    kc_job_t *j = launch(suspends, &o, NULL);

    until_suspended(j);
    kc_job_cancel(j, 0);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(o.rc, -ECANCELED);
    CHECK_EQ(get(&o.cancels), 1);
    kc_job_release(j);
    return 0;
}

static int suspends_in_a_scope(void *arg)
{
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .timeout = KC_MS(1) }), 0);
    suspends(arg);
    CHECK_EQ(kc_scope_end(&s), -ETIMEDOUT);
    CHECK_EQ(kc_check(), 0);
    return 0;
}

static void wakes_and_looks(kc_waker_t *w, void *arg)
{
    enum { LOOKS = 30 };
    struct own *o = arg;

    kc_wake(w, 5);
    for (int i = 0; i < LOOKS; i++) {
        CHECK_EQ(get(&o->over), 0);
        sched_yield();
    }
    add(&o->cancels);
}

static int is_told_in_its_frame(void *arg)
{
    struct own *o = arg;

    o->rc = kc_suspend(begins, wakes_and_looks, o);
    add(&o->over);
    CHECK_EQ(get(&o->cancels), 1);
    return 0;
}

/* Also one that may go on elsewhere: what `cancelled` uses may be in the frame of the body. */
IN_A_JOB(the_wait_continues_when_cancelled_has_returned)
{
    struct own o = { 0 };
    kc_job_t *j = launch(is_told_in_its_frame, &o, &(kc_launch_opts_t){ .flags = KC_JOB_MIGRATE });

    until_suspended(j);
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(o.rc, 5);
    kc_job_release(j);
    return 0;
}

IN_A_JOB(the_timeout_of_a_scope_calls_cancelled)
{
    struct own o = { .cancel_wakes = true, .cancel_rc = -ECANCELED };

    CHECK_EQ(suspends_in_a_scope(&o), 0);
    CHECK_EQ(get(&o.cancels), 1);
    CHECK_EQ(o.rc, -ECANCELED);
    return 0;
}

/* Keeps its thread busy: others must hear of their time all the same. */
static int keeps_yielding(void *arg)
{
    while (!get(arg))
        (void)kc_yield();
    return 0;
}

IN_A_JOB(a_timeout_is_heard_on_a_thread_where_others_keep_yielding)
{
    struct own o = { .cancel_wakes = true };
    kc_job_t *j = launch(suspends, &o, &(kc_launch_opts_t){ .timeout = KC_US(200) });
    static count_t quit; /* they may outlive this frame */
    int rc = 0;

    /* Virtual time stands still while somebody is ready. */
    set(&quit, kc_sched_workers(kc_sched_current()) == 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(kc_launch(keeps_yielding, &quit), 0);
    rc = kc_job_join(j);
    CHECK(rc == -ETIMEDOUT);
    CHECK_LE(get(&o.cancels), 1); /* it may have ended before it started */
    set(&quit, 1);
    kc_job_release(j);
    return 0;
}

IN_A_JOB(a_cancel_above_calls_cancelled)
{
    struct own o = { .cancel_wakes = true, .cancel_rc = 1 };
    kc_job_t *g = group(NULL);
    kc_job_t *j = launch(suspends, &o, &(kc_launch_opts_t){ .parent = g });

    until_suspended(j);
    kc_job_cancel(g, 0);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&o.cancels), 1);
    CHECK_EQ(o.rc, 1);
    kc_job_release(j);
    kc_job_release(g);
    return 0;
}

static int suspends_and_cancels_itself(void *arg)
{
    struct own *o = arg;

    o->rc = kc_suspend(cancels_itself, is_cancelled, o);
    return 0;
}

IN_A_JOB(a_cancel_inside_begin_calls_cancelled_after_it)
{
    struct own o = { .cancel_wakes = true, .cancel_rc = 2 };
    kc_job_t *j = launch(suspends_and_cancels_itself, &o, NULL);

    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&o.cancels), 1);
    CHECK_EQ(o.rc, 2);
    kc_job_release(j);
    return 0;
}

static void wakes_and_cancels_itself(kc_waker_t *w, void *arg)
{
    begins(w, arg);
    kc_wake(w, 6);
    kc_cancel_current(0);
}

static int suspends_woken_and_cancelled(void *arg)
{
    struct own *o = arg;

    o->rc = kc_suspend(wakes_and_cancels_itself, is_cancelled, o);
    CHECK_EQ(kc_check(), -ECANCELED);
    return 0;
}

IN_A_JOB(cancelled_is_not_called_after_kc_wake_has_returned)
{
    struct own o = { 0 }, p = { 0 };
    kc_job_t *j = launch(suspends, &o, NULL);

    until_suspended(j);
    kc_wake(waker_of(&o), 8); /* on this thread it is ready, and has not gone on */
    kc_job_cancel(j, 0);
    int rc = kc_job_join(j);
    CHECK(rc == -ECANCELED || rc == 0);
    CHECK_EQ(o.rc, 8);
    CHECK_EQ(get(&o.cancels), 0);
    kc_job_release(j);
    j = launch(suspends_woken_and_cancelled, &p, NULL);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(p.rc, 6);
    CHECK_EQ(get(&p.cancels), 0);
    kc_job_release(j);
    return 0;
}

static int suspends_firmly_then_checks(void *arg)
{
    suspends_firmly(arg);
    CHECK_EQ(kc_check(), -ECANCELED);
    return -ECANCELED;
}

IN_A_JOB(without_cancelled_a_cancel_does_not_count_until_the_next_call)
{
    struct own o = { 0 };
    kc_job_t *j = launch(suspends_firmly_then_checks, &o, NULL);

    until_suspended(j);
    CHECK(kc_job_cancel(j, 0));
    for (int i = 0; i < 20; i++)
        kcoro_yield();
    CHECK_EQ(get(&o.over), 0);
    kc_wake(waker_of(&o), 3);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(o.rc, 3);
    kc_job_release(j);
    return 0;
}

static int suspends_cancelled(void *arg)
{
    struct own *o = arg;

    kc_cancel_current(0);
    CHECK_EQ(kc_suspend(begins, is_cancelled, o), -ECANCELED);
    CHECK_EQ(kc_suspend(begins, NULL, o), -ECANCELED);
    return 0;
}

IN_A_JOB(in_a_cancelled_job_begin_is_not_called)
{
    struct own o = { 0 };
    kc_job_t *j = launch(suspends_cancelled, &o, NULL);

    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&o.begun), 0);
    CHECK_EQ(get(&o.cancels), 0);
    kc_job_release(j);
    return 0;
}

static int suspends_shielded(void *arg)
{
    struct own *o = arg;

    CHECK_EQ(kc_shield_begin(), 0);
    o->rc = kc_suspend(begins, is_cancelled, o);
    int cancels = get(&o->cancels);
    kc_shield_end();
    CHECK_EQ(get(&o->cancels), cancels); /* that wait is over */
    CHECK_EQ(kc_check(), -ECANCELED);
    return 0;
}

IN_A_JOB(under_a_shield_a_cancel_does_not_count)
{
    struct own o = { 0 };
    kc_job_t *j = launch(suspends_shielded, &o, NULL);

    until_suspended(j);
    CHECK(kc_job_cancel(j, 0));
    for (int i = 0; i < 20; i++)
        kcoro_yield();
    kc_wake(waker_of(&o), 0);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&o.cancels), 0);
    kc_job_release(j);
    return 0;
}

IN_A_JOB(when_the_grace_is_over_a_shield_holds_nothing_back)
{
    struct own o = { .cancel_wakes = true, .cancel_rc = 4 };
    kc_job_t *j = launch(suspends_shielded, &o, &(kc_launch_opts_t){ .grace = KC_MS(1) });

    until_suspended(j);
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&o.cancels), 1);
    CHECK_EQ(o.rc, 4);
    kc_job_release(j);
    return 0;
}

static int forbids_and_suspends(void *arg)
{
    kc_forbid_signal();
    return suspends(arg);
}

IN_A_JOB(a_job_that_forbids_signals_is_not_disturbed)
{
    struct own o = { 0 };
    kc_job_t *j = launch(forbids_and_suspends, &o, NULL);

    until_suspended(j);
    CHECK(!kc_job_cancel(j, 0));
    kc_wake(waker_of(&o), 0);
    CHECK_EQ(kc_job_join(j), 0);
    CHECK_EQ(get(&o.cancels), 0);
    kc_job_release(j);
    return 0;
}

OUTSIDE(the_end_of_the_scheduler_cancels_and_waits_for_the_wake, s)
{
    static struct own o;

    o = (struct own){ 0 };
    kc_job_t *j = launch(suspends, &o, &(kc_launch_opts_t){ .sched = s });
    if (kc_sched_workers(s) == 0)
        while (!get(&o.begun))
            kc_sched_poll(s, 0);
    until_suspended(j);
    kc_job_release(j);
    o.cancel_wakes = true; /* kc_sched_destroy follows */
}

OUTSIDE(a_cancel_outside_a_pump_tells_the_descriptor, s)
{
    struct own o = { .cancel_wakes = true };
    kc_job_t *j = launch(suspends, &o, &(kc_launch_opts_t){ .sched = s, .affinity = KC_MAIN });
    struct pollfd fd = { .fd = kc_sched_fd(s), .events = POLLIN };

    while (!get(&o.begun))
        kc_sched_poll(s, 0);
    until_suspended(j);
    kc_sched_poll(s, 0);
    kc_job_cancel(j, 0);
    CHECK_EQ(get(&o.cancels), 0); /* which is not this call's to do */
    CHECK_EQ(poll(&fd, 1, -1), 1);
    kc_sched_poll(s, 0);
    CHECK_EQ(get(&o.over), 1);
    ended(j, KC_JOB_CANCELLED, -ECANCELED);
}

/* ---- many that cancel each other ------------------------------------------------------------ */

enum { CHAIN = 500 };

static struct link {
    struct own own;
    kc_job_t *job;
} chain[CHAIN];

static uintptr_t lowest, highest; /* addresses of frames in which they were told */

static void passes_it_on(kc_waker_t *w, void *arg)
{
    struct link *l = arg;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    lowest = here < lowest ? here : lowest;
    highest = here > highest ? here : highest;
    if (l + 1 < chain + CHAIN)
        kc_job_cancel(l[1].job, 0);
    kc_wake(w, 0);
}

static int in_a_chain(void *arg)
{
    struct link *l = arg;

    return kc_suspend(begins, passes_it_on, l);
}

IN_VIRTUAL_TIME(cancels_in_cancelled_do_not_nest)
{
    memset(chain, 0, sizeof chain);
    lowest = UINTPTR_MAX;
    highest = 0;
    for (int i = 0; i < CHAIN; i++)
        chain[i].job = launch(in_a_chain, &chain[i], NULL);
    for (int i = 0; i < CHAIN; i++)
        until_suspended(chain[i].job);
    kc_job_cancel(chain[0].job, 0);
    for (int i = 0; i < CHAIN; i++) {
        CHECK_EQ(kc_job_join(chain[i].job), -ECANCELED);
        kc_job_release(chain[i].job);
    }
    CHECK_LT(highest - lowest, 4096);
    return 0;
}

static int many_suspend(void *arg)
{
    struct own *o = arg;

    for (int i = 0; i < 200; i++)
        CHECK_EQ(kc_launch(suspends, &o[i]), 0);
    return 0;
}

IN_A_JOB(a_large_family_is_cancelled_at_once)
{
    static struct own o[200];
    kc_job_t *j;

    memset(o, 0, sizeof o);
    for (int i = 0; i < 200; i++)
        o[i].cancel_wakes = true;
    j = launch(many_suspend, o, NULL);
    for (int i = 0; i < 200; i++)
        (void)waker_of(&o[i]);
    kc_job_cancel(j, 0);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(get(&o[i].cancels), 1);
        CHECK_EQ(get(&o[i].over), 1);
    }
    kc_job_release(j);
    return 0;
}

/* ---- unwinding ------------------------------------------------------------------------------ */

static count_t cleaned;

static void cleans(void *arg UNUSED)
{
    add(&cleaned);
}

static int suspends_and_must_not_return(void *arg)
{
    struct own *o = arg;

    KC_CLEANUP(cleans, NULL);
    (void)!kc_suspend(begins, is_cancelled, o);
    FAIL("an unwound body went on");
}

IN_A_JOB(a_body_that_waits_in_kc_suspend_is_unwound_after_the_kc_wake)
{
    struct own o = { 0 };
    kc_job_t *j =
        launch(suspends_and_must_not_return, &o, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });

    set(&cleaned, 0);
    until_suspended(j);
    kc_job_cancel(j, 0);
    UNTIL(get(&o.cancels));
    for (int i = 0; i < 20; i++)
        kcoro_yield();
    CHECK_EQ(get(&cleaned), 0);
    kc_wake(waker_of(&o), 0); /* whatever it says */
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&cleaned), 1);
    kc_job_release(j);
    return 0;
}

IN_A_JOB(a_body_that_would_be_unwound_continues_after_a_scopes_cancel)
{
    struct own o = { .cancel_wakes = true, .cancel_rc = 11 };
    kc_job_t *j = launch(suspends_in_a_scope, &o, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });

    CHECK_EQ(kc_job_join(j), 0);
    CHECK_EQ(o.rc, 11);
    CHECK_EQ(get(&o.cancels), 1);
    kc_job_release(j);
    return 0;
}

static int suspends_firmly_then_is_unwound(void *arg)
{
    suspends_firmly(arg);
    (void)!kc_check();
    FAIL("an unwound body went on");
}

IN_A_JOB(without_cancelled_a_body_is_unwound_at_the_next_call)
{
    struct own o = { 0 };
    kc_job_t *j =
        launch(suspends_firmly_then_is_unwound, &o, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });

    until_suspended(j);
    kc_job_cancel(j, 0);
    kc_wake(waker_of(&o), 1);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(o.rc, 1);
    CHECK_EQ(get(&o.over), 1);
    kc_job_release(j);
    return 0;
}

/* ---- seeing --------------------------------------------------------------------------------- */

static int wakes_much_later(void *arg)
{
    struct own *o = arg;

    UNTIL(get(&o->begun));
    for (int i = 0; i < 100; i++)
        sched_yield();
    kc_wake(kc_load_acquire(&o->waker), 3);
    return 0;
}

IN_A_JOB(a_wait_for_a_plain_thread_is_no_deadlock)
{
    struct own o = { 0 };
    pthread_t t = thread_runs(wakes_much_later, &o);

    CHECK_EQ(kc_suspend(begins, NULL, &o), 3);
    CHECK_EQ(pthread_join(t, NULL), 0);
    return 0;
}

static int waits_for_ever(void *arg UNUSED)
{
    return kc_sleep(KC_FOREVER);
}

static int suspends_and_leaves(void *arg)
{
    struct own *o = arg;
    pthread_t t = thread_runs(wakes_much_later, o);

    CHECK_EQ(kc_suspend(begins, NULL, o), 3);
    CHECK_EQ(pthread_join(t, NULL), 0);
    return kc_launch(waits_for_ever, NULL);
}

/* What has held it open is over: then it is. */
TEST(a_job_that_has_been_woken_does_not_hide_a_deadlock)
{
    struct own o = { 0 };

    CHECK_EQ(
        kc_run(suspends_and_leaves, &o,
               &(kc_sched_opts_t){ .workers = KC_NO_WORKERS, .flags = KC_SCHED_VIRTUAL_TIME }),
        -EDEADLK);
}

static bool dump_says(const char *name, const char *what)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    CHECK_EQ(kc_dump(kc_sched_current(), f), 0);
    CHECK_EQ(fclose(f), 0);
    const char *line = strstr(text, name);
    bool says = line && strstr(line, what);
    free(text);
    return says;
}

IN_A_JOB(a_dump_says_that_a_job_waits_in_kc_suspend)
{
    struct own o = { 0 };
    kc_job_t *j = launch(suspends, &o, &(kc_launch_opts_t){ .name = "foreign" });

    until_suspended(j);
    UNTIL(dump_says("\"foreign\"", "waits in kc_suspend")); /* it may be about to leave still */
    kc_wake(waker_of(&o), 0);
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    return 0;
}
