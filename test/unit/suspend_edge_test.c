/* SPDX-License-Identifier: MIT */
/*
 * suspend_edge_test.c - kc_suspend and kc_wake: bad use (J32, J34), no memory, and races of kc_wake
 * with cancels.
 */
#include "suspend_kit.h"

/* ---- bad use -------------------------------------------------------------------------------- */

static void wakes_twice(kc_waker_t *w, void *arg)
{
    begins(w, arg);
    kc_wake(w, 0);
    kc_wake(w, 0);
}

static int suspends_woken_twice(void *arg UNUSED)
{
    struct own o = { 0 };

    return kc_suspend(wakes_twice, NULL, &o);
}

TEST_ABORTS(a_second_kc_wake_aborts, "kc_wake: the waker has been used")
{
    run_named(suspends_woken_twice, "foreign");
}

static int wakes_an_old_one(void *arg UNUSED)
{
    struct own o = { 0 };

    CHECK_EQ(kc_suspend(wakes_at_once, NULL, &o), 5);
    kc_wake(kc_load_acquire(&o.waker), 0);
    return 0;
}

TEST_ABORTS(a_kc_wake_after_the_wait_aborts, "kc_wake: the waker has been used")
{
    run_named(wakes_an_old_one, NULL);
}

static kc_waker_t *old_waker;

/* Its memory is that of a wait that goes on. */
static void wakes_the_old_one(kc_waker_t *w, void *arg UNUSED)
{
    const uintptr_t mask = ~(uintptr_t)(KC_BLOCK_SIZE - 1);

    if (!old_waker)
        old_waker = w;
    else if (((uintptr_t)w & mask) == ((uintptr_t)old_waker & mask))
        kc_wake(old_waker, 0);
    kc_wake(w, 0);
}

static int wakes_one_whose_memory_is_used(void *arg UNUSED)
{
    for (int i = 0; i < 100000; i++)
        CHECK_EQ(kc_suspend(wakes_the_old_one, NULL, NULL), 0);
    FAIL("the memory was not used again");
}

TEST_ABORTS(an_old_waker_is_recognised_when_its_memory_is_another_ones, "the waker has been used")
{
    run_named(wakes_one_whose_memory_is_used, NULL);
}

TEST_ABORTS(kc_wake_of_null_aborts, "kc_wake: the waker is NULL")
{
    kc_wake(NULL, 0);
}

TEST_ABORTS(kc_wake_of_a_job_aborts, "the waker has been used, or the pointer is not a waker")
{
    kc_sched_t *s;

    CHECK_EQ(kc_sched_create(NULL, &s), 0);
    kc_wake((kc_waker_t *)group(&(kc_launch_opts_t){ .sched = s }), 0);
}

static void sleeps(kc_waker_t *w UNUSED, void *arg UNUSED)
{
    (void)!kc_sleep(KC_MS(1));
}

static int sleeps_in_begin(void *arg UNUSED)
{
    return kc_suspend(sleeps, NULL, NULL);
}

TEST_ABORTS(a_wait_inside_begin_aborts, "waits inside a handler")
{
    run_named(sleeps_in_begin, NULL);
}

static int sleeps_in_cancelled(void *arg UNUSED)
{
    struct own o = { 0 };

    return kc_suspend(cancels_itself, sleeps, &o);
}

TEST_ABORTS(a_wait_inside_cancelled_aborts, "kc_sleep: waits inside a handler")
{
    run_named(sleeps_in_cancelled, NULL);
}

static void suspends_in_a_handler(kc_waker_t *w UNUSED, void *arg)
{
    (void)!kc_suspend(begins, NULL, arg);
}

static int suspends_inside_begin(void *arg UNUSED)
{
    struct own o = { 0 };

    return kc_suspend(suspends_in_a_handler, NULL, &o);
}

TEST_ABORTS(a_kc_suspend_inside_a_handler_aborts, "kc_suspend: waits inside a handler")
{
    run_named(suspends_inside_begin, NULL);
}

/* ---- no memory ------------------------------------------------------------------------------ */

static bool fails_always(const char *what UNUSED)
{
    return true;
}

static void keeps(kc_waker_t *w, void *arg)
{
    (void)w;
    add(arg);
}

static int runs_out_of_memory(void *arg UNUSED)
{
    count_t begun = 0;

    kc__os_fault = fails_always;
    while (kc__block_get(&kc__thread()->jobs)) /* until there are none left */
        ;
    int rc = kc_suspend(keeps, NULL, &begun);
    kc__os_fault = NULL;
    CHECK_EQ(rc, -ENOMEM);
    CHECK_EQ(get(&begun), 0);
    return 0;
}

TEST(without_memory_begin_is_not_called)
{
    CHECK_EQ(kc_run(runs_out_of_memory, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }), 0);
}

/* ---- races ---------------------------------------------------------------------------------- */

/* Another thread wakes, and says when it has; a third cancels. */
struct race {
    struct own own;
    KC_ATOMIC(kc_job_t *) job;
    count_t go, woken_before;
};

static int wakes_in_a_race(void *arg)
{
    struct race *r = arg;

    UNTIL(get(&r->own.begun));
    UNTIL(get(&r->go));
    kc_wake(kc_load_acquire(&r->own.waker), 3);
    return 0;
}

static int cancels_in_a_race(void *arg)
{
    struct race *r = arg;

    UNTIL(get(&r->own.begun));
    UNTIL(get(&r->go));
    kc_job_cancel(kc_load_acquire(&r->job), 0);
    return 0;
}

static void race_once(uint32_t flags)
{
    struct race *r = calloc(1, sizeof *r);

    CHECK(r != NULL);
    pthread_t a = thread_runs(wakes_in_a_race, r), b = thread_runs(cancels_in_a_race, r);
    kc_job_t *j = launch(suspends, &r->own, &(kc_launch_opts_t){ .flags = flags });
    kc_store_release(&r->job, j);
    set(&r->go, 1);
    int rc = kc_job_join(j);
    CHECK(rc == -ECANCELED || rc == 0);
    CHECK_EQ(pthread_join(a, NULL), 0);
    CHECK_EQ(pthread_join(b, NULL), 0);
    if (get(&r->own.begun)) {
        CHECK_EQ(r->own.rc, 3);
        CHECK_EQ(get(&r->own.over), 1);
        CHECK_LE(get(&r->own.cancels), 1);
    }
    kc_job_release(j);
    free(r);
}

IN_A_JOB(a_kc_wake_and_a_cancel_at_the_same_time_have_one_outcome)
{
    for (long i = 0; i < kc_test_rounds(20) && kc_test_has_time(); i++)
        race_once(0);
    return 0;
}

/* Of the foreign side and `cancelled` exactly one wakes: whoever takes it. */
enum { IDLE, OFFERED, TAKEN, SLOTS = 8 };

static struct two_sides {
    KC_ATOMIC(uint32_t) state;
    kc_waker_t *waker; /* from OFFERED on */
    count_t cancels, wakes;
    int rc;
} slot[SLOTS];

static bool takes(struct two_sides *s)
{
    uint32_t offered = OFFERED;

    return kc_load_relaxed(&s->state) == OFFERED && kc_cas_acq_rel(&s->state, &offered, TAKEN);
}

static void offers(kc_waker_t *w, void *arg)
{
    struct two_sides *s = arg;

    s->waker = w;
    kc_store_release(&s->state, OFFERED);
}

static void withdraws(kc_waker_t *w, void *arg)
{
    struct two_sides *s = arg;

    add(&s->cancels);
    if (takes(s)) {
        add(&s->wakes);
        kc_wake(w, -ECANCELED);
    }
}

static int waits_for_an_answer(void *arg)
{
    struct two_sides *s = arg;

    s->rc = kc_suspend(offers, withdraws, s);
    bool begun = kc_load_relaxed(&s->state) != IDLE; /* else it was cancelled before */
    CHECK(s->rc == 1 || (s->rc == -ECANCELED && get(&s->cancels) == begun));
    CHECK_EQ(get(&s->wakes), begun);
    return 0;
}

static count_t stop_answering;

static int answers(void *arg UNUSED)
{
    while (!get(&stop_answering))
        for (int i = 0; i < SLOTS; i++) {
            if (takes(&slot[i])) {
                kc_waker_t *w = slot[i].waker;
                add(&slot[i].wakes);
                kc_wake(w, 1);
            }
            sched_yield();
        }
    return 0;
}

static void answer_and_cancel(long round, uint32_t flags)
{
    kc_job_t *job[SLOTS];

    for (int i = 0; i < SLOTS; i++) {
        set(&slot[i].cancels, 0);
        set(&slot[i].wakes, 0);
        slot[i].rc = 77;
        kc_store_release(&slot[i].state, IDLE);
        job[i] = launch(waits_for_an_answer, &slot[i], &(kc_launch_opts_t){ .flags = flags });
    }
    for (int i = 0; i < SLOTS; i++) {
        if (round % 3)
            UNTIL(kc_load_relaxed(&slot[i].state) != IDLE);
        kc_job_cancel(job[i], 0);
    }
    for (int i = 0; i < SLOTS; i++) {
        int rc = kc_job_join(job[i]);
        CHECK(rc == 0 || rc == -ECANCELED);
        CHECK(slot[i].rc == 1 || slot[i].rc == -ECANCELED || slot[i].rc == 77);
        CHECK_LE(get(&slot[i].cancels), 1);
        kc_job_release(job[i]);
    }
}

IN_A_JOB(the_foreign_side_and_cancelled_agree_on_one_kc_wake)
{
    set(&stop_answering, 0);
    pthread_t t = thread_runs(answers, NULL);
    for (long i = 0; i < kc_test_rounds(20) && kc_test_has_time(); i++)
        answer_and_cancel(i, i % 2 ? KC_JOB_MIGRATE : 0);
    set(&stop_answering, 1);
    CHECK_EQ(pthread_join(t, NULL), 0);
    return 0;
}
