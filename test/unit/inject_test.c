/* SPDX-License-Identifier: MIT */
/*
 * inject_test.c - a cancel at every point where a program can be cancelled, one run for each.
 *
 * A reference program does a bit of everything. A point is the entry of each of its calls that can
 * wait, and, by way of the linker's --wrap, each moment in which a coroutine of it is about to
 * leave its thread: what it waits for is published, and it has not left. A clean run counts the
 * points. Then, for each of them, a run whose root job is cancelled there: it must end, leak
 * nothing, and say of every step whether it was done or not. With virtual time on one thread every
 * run is the same up to its point; on two workers the points come in any order.
 */
#include "coro/coro.h"
#include "job/job.h"
#include "blocks_left.h"
#include "harness.h"

#include <kcoro/kcoro.h>
#include <kcoro/timer.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum { STEPS = 24, REASON = -EINTR };

enum { TICK = 20000 }; /* ns; the unit of all sleeps */

struct step {
    const char *name;
    int entered, left, rc;
    bool late; /* the cancel had returned before */
};

static struct {
    bool threads;             /* real time, two workers                  */
    bool stubborn;            /* the program goes on after a cancel      */
    uint32_t flags;           /* of the root job                        */
    long cancel_at;           /* the number of a point; 0: nowhere       */
    KC_ATOMIC(long) points;   /* so many have been passed                */
    KC_ATOMIC(int) asked;     /* 1: the cancel is on its way             */
    KC_ATOMIC(int) cancelled; /* 1: it has returned, and was the first   */
    KC_ATOMIC(int) open;      /* resources                               */
    KC_ATOMIC(int) launched, ran, disposed;
    KC_ATOMIC(kc_job_t *) root;
    struct step step[STEPS];
    int steps;
    bool shielded;
} now;

/* ---- points -------------------------------------------------------------------------------- */

static void point(void)
{
    kc_job_t *root = kc_load_acquire(&now.root);

    if (!root || kc_add_relaxed(&now.points, 1) + 1 != now.cancel_at)
        return;
    kc_store_release(&now.asked, 1);
    if (kc_job_cancel(root, REASON))
        kc_store_release(&now.cancelled, 1);
}

int __real_kc__worker_leave(kc_thread_t *t, kcoro_t *co);
int __real_kc__worker_leave_parked(kc_thread_t *t, kcoro_t *co);
int __real_kc__worker_yield(kc_thread_t *t, kcoro_t *co);
void __real_kc__worker_hop(kc_thread_t *t, kcoro_t *co);
int __wrap_kc__worker_leave(kc_thread_t *t, kcoro_t *co);
int __wrap_kc__worker_leave_parked(kc_thread_t *t, kcoro_t *co);
int __wrap_kc__worker_yield(kc_thread_t *t, kcoro_t *co);
void __wrap_kc__worker_hop(kc_thread_t *t, kcoro_t *co);

int __wrap_kc__worker_leave(kc_thread_t *t, kcoro_t *co)
{
    point();
    return __real_kc__worker_leave(t, co);
}

int __wrap_kc__worker_leave_parked(kc_thread_t *t, kcoro_t *co)
{
    point();
    return __real_kc__worker_leave_parked(t, co);
}

int __wrap_kc__worker_yield(kc_thread_t *t, kcoro_t *co)
{
    point();
    return __real_kc__worker_yield(t, co);
}

void __wrap_kc__worker_hop(kc_thread_t *t, kcoro_t *co)
{
    point();
    __real_kc__worker_hop(t, co);
}

/* ---- steps --------------------------------------------------------------------------------- */

static struct step *enter(const char *name)
{
    CHECK_LT(now.steps, STEPS);
    struct step *s = &now.step[now.steps++];
    s->name = name;
    s->entered++;
    point();
    s->late = kc_load_acquire(&now.cancelled);
    return s;
}

/* The same for one that waits for a job: it may have ended, and then its result is given (J6). */
static struct step *enter_join(const char *name)
{
    struct step *s = enter(name);

    s->late = false;
    return s;
}

/* What the root job may say of a step: done, not done, nothing else. */
static int leave(struct step *s, int rc)
{
    if (rc == REASON) /* of a child or scope, which was cancelled with us */
        rc = -ECANCELED;
    s->rc = rc;
    s->left++;
    if (rc != 0 && rc != -ECANCELED)
        FAIL("step %s says %d", s->name, rc);
    CHECK(rc == 0 || (kc_load_acquire(&now.asked) && !now.shielded));
    if (s->late && !now.shielded && rc != -ECANCELED)
        FAIL("step %s was done, although the cancel came before", s->name); /* J9 */
    return rc;
}

#define STEP(name, call)                                                                          \
    __extension__({                                                                               \
        struct step *step_ = enter(name);                                                         \
        leave(step_, (call));                                                                     \
    })

/* True: the program goes on. */
#define GO_ON(rc) ((rc) == 0 || now.stubborn)

static void take(void)
{
    kc_add_relaxed(&now.open, 1);
}

static void give(void *arg)
{
    (void)arg;
    CHECK_GT(kc_add_relaxed(&now.open, -1), 0);
}

/* A cleanup that waits: shielded, so it does. */
static void give_slowly(void *arg)
{
    point();
    kc_time_t until = kc_now() + TICK;
    CHECK_EQ(kc_sleep(TICK), 0);
    CHECK_GE(kc_now(), until);
    CHECK_EQ(kc_check(), 0);
    give(arg);
}

static void disposed(void *arg)
{
    (void)arg;
    kc_add_relaxed(&now.disposed, 1);
}

/* Counts what launch has said. */
static int launched(int rc)
{
    CHECK(rc == 0 || rc == -ECANCELED);
    kc_add_relaxed(&now.launched, rc == 0);
    return rc;
}

/* ---- children ------------------------------------------------------------------------------ */

static int child_sleeps(void *arg)
{
    kc_add_relaxed(&now.ran, 1);
    take();
    KC_CLEANUP(give, NULL);
    point();
    kc_time_t until = kc_now() + TICK * (1 + (intptr_t)arg);
    int rc = kc_sleep(TICK * (1 + (intptr_t)arg));
    CHECK(rc == -ECANCELED || (rc == 0 && kc_now() >= until));
    return rc;
}

static int child_with_value(void *arg)
{
    kc_add_relaxed(&now.ran, 1);
    point();
    int rc = kc_yield();
    if (rc == 0)
        kc_set_payload(arg);
    return rc;
}

static int child_keeps_promise(void *arg)
{
    kc_add_relaxed(&now.ran, 1);
    point();
    if (kc_sleep(TICK) == 0) {
        int rc = kc_promise_complete(arg, 0, &now);
        CHECK(rc == 0 || (rc == -ECANCELED && kc_load_acquire(&now.asked)));
    }
    return 0;
}

static int child_unparks(void *arg)
{
    kc_add_relaxed(&now.ran, 1);
    point();
    int rc = kc_sleep(TICK);
    CHECK_EQ(kcoro_unpark(arg), 0);
    return rc;
}

static void release_co(void *arg)
{
    kcoro_release(arg);
}

static void release_job(void *arg)
{
    kc_job_release(arg);
}

/* ---- the program --------------------------------------------------------------------------- */

static int part_waits(void)
{
    struct step *s = enter("sleep");
    kc_time_t until = kc_now() + 2 * TICK;
    int rc = leave(s, kc_sleep(2 * TICK));
    CHECK(rc != 0 || kc_now() >= until);
    if (GO_ON(rc))
        rc = STEP("yield", kc_yield());
    if (GO_ON(rc))
        rc = STEP("check", kc_check());
    if (GO_ON(rc))
        rc = STEP("hop", kc_hop(now.threads ? KC_WORKER_AT(1) : KC_MAIN));
    if (GO_ON(rc))
        rc = STEP("hop back", kc_hop(KC_MAIN));
    return rc;
}

static int part_scope(void)
{
    kc_launch_opts_t o = { .flags = KC_JOB_UNWIND, .dispose = disposed };
    kc_job_t *j = NULL;
    kc_scope_t scope;
    int code;

    CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .max_running = 2 }), 0);
    take();
    CHECK_EQ(kc_defer(give_slowly, NULL), 0);
    for (intptr_t i = 0; i < 3; i++)
        (void)launched(
            kc_launch_job(child_sleeps, NULL, &(kc_launch_opts_t){ .dispose = disposed }, NULL));
    int rc = launched(kc_launch_job(child_sleeps, NULL, &o, &j));
    if (rc == 0) {
        KC_CLEANUP(release_job, j);
        struct step *s = enter_join("join");
        rc = leave(s, kc_job_join(j));
        CHECK_EQ(kc_job_result(j, &code), 0); /* it is below: its end is waited for */
    }
    struct step *s = enter("scope end");
    rc = kc_scope_end(&scope);
    CHECK(rc == 0 || (rc == REASON && kc_load_acquire(&now.asked)));
    return leave(s, rc);
}

static int part_values(void)
{
    kc_launch_opts_t o = { .dispose = disposed };
    kc_deferred_t *d = NULL;
    void *payload = &o;

    int rc = launched(kc_async_job(child_with_value, &now, &o, &d));
    if (rc == 0) {
        KC_CLEANUP(release_job, kc_deferred_job(d));
        struct step *s = enter_join("await");
        rc = leave(s, kc_await(d, &payload));
        CHECK_PTR(payload, rc == 0 ? (void *)&now : NULL);
    }
    if (!GO_ON(rc))
        return rc;
    rc = kc_promise(NULL, &d);
    CHECK(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        KC_CLEANUP(release_job, kc_deferred_job(d));
        rc = launched(kc_launch_job(child_keeps_promise, d, &o, NULL));
        if (rc < 0)
            CHECK_EQ(kc_promise_complete(d, 0, NULL), -ECANCELED);
        struct step *s = enter_join("await promise");
        rc = leave(s, kc_await(d, &payload));
        CHECK_PTR(payload, rc == 0 ? (void *)&now : NULL);
        CHECK(kc_deferred_state(d) != KC_DEFERRED_PENDING);
    }
    return rc;
}

static int part_shield(void)
{
    kc_job_t *j = NULL;
    int rc = kc_shield_begin();

    CHECK(rc == 0 || (rc == -ECANCELED && kc_load_acquire(&now.asked)));
    if (rc < 0)
        return rc;
    now.shielded = true;
    CHECK_EQ(STEP("sleep in a shield", kc_sleep(TICK)), 0);
    CHECK_EQ(launched(kc_launch_job(child_with_value, NULL, NULL, &j)), 0);
    CHECK_EQ(STEP("join in a shield", kc_job_join(j)), 0);
    kc_job_release(j);
    now.shielded = false;
    kc_shield_end();
    return STEP("after the shield", kc_check());
}

static int sleeps_for_ever(void *arg)
{
    (void)arg;
    take();
    KC_CLEANUP(give, NULL);
    point();
    return kc_sleep(KC_FOREVER);
}

static int part_timeout(void)
{
    struct step *s = enter("timeout");
    int rc = kc_scope(sleeps_for_ever, NULL, &(kc_scope_opts_t){ .timeout = 3 * TICK });
    CHECK(rc == -ETIMEDOUT || (rc == REASON && kc_load_acquire(&now.asked)));
    return leave(s, rc == -ETIMEDOUT ? 0 : rc);
}

static int part_park(void)
{
    kcoro_t *me = kcoro_retain(kcoro_current());
    KC_CLEANUP(release_co, me);
    kc_launch_opts_t o = { .dispose = disposed };
    kc_scope_t scope;

    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    int rc = launched(kc_launch_job(child_unparks, me, &o, NULL));
    if (rc == 0) {
        struct step *s = enter("park");
        kcoro_park();
        leave(s, kc_check());
    }
    struct step *s = enter("scope end after park");
    rc = kc_scope_end(&scope);
    CHECK(rc == 0 || rc == REASON);
    return leave(s, rc);
}

static int program(void *arg)
{
    static int (*const part[])(void) = { part_waits,  part_scope,   part_values,
                                         part_shield, part_timeout, part_park };
    int rc = 0;

    kc_add_relaxed(&now.ran, 1);
    CHECK(arg == &now);
    take();
    CHECK_EQ(kc_defer(give_slowly, NULL), 0);
    for (size_t i = 0; i < sizeof part / sizeof *part && GO_ON(rc); i++)
        rc = part[i]();
    return rc;
}

/* ---- runs ---------------------------------------------------------------------------------- */

static int main_body(void *arg)
{
    kc_launch_opts_t o = { .flags = now.flags | KC_JOB_DETACHED,
                           .dispose = disposed,
                           .affinity = KC_MAIN };
    kc_job_t *root = NULL;

    (void)arg;
    CHECK_EQ(launched(kc_launch_job(program, &now, &o, &root)), 0);
    kc_store_release(&now.root, root);
    point();
    int rc = kc_job_join(root);
    kc_store_release(&now.root, NULL);
    bool cancelled = kc_load_relaxed(&now.cancelled);
    CHECK_EQ(rc, cancelled ? REASON : 0);
    CHECK_EQ(kc_job_state(root), cancelled ? KC_JOB_CANCELLED : KC_JOB_COMPLETED);
    CHECK_EQ(kc_job_reason(root), cancelled ? REASON : 0);
    kc_job_release(root);
    return 0;
}

static void check_books(void)
{
    bool over = false, unwound = now.flags & KC_JOB_UNWIND;

    CHECK_EQ(kc_load_relaxed(&now.open), 0);
    CHECK_EQ(kc_load_relaxed(&now.launched),
             kc_load_relaxed(&now.ran) + kc_load_relaxed(&now.disposed));
    for (int i = 0; i < now.steps; i++) {
        struct step *s = &now.step[i];
        CHECK_EQ(s->entered, 1);
        CHECK(s->left == 1 || (unwound && s->left == 0 && i == now.steps - 1));
        over = over || s->rc == -ECANCELED;
        if (s->left && over)
            CHECK_EQ(s->rc, -ECANCELED); /* once cancelled, every later step says so */
    }
    CHECK_EQ(kc_test_blocks_left(KC_TASK_MAGIC), 0);
    CHECK_EQ(kc_test_blocks_left(KC_CORO_MAGIC), 0);
    kc__stack_cache_drain(&kc__thread()->stacks);
    kc_stack_stats_t s = kc__stack_stats();
    CHECK_EQ(s.made, s.warm + s.cold);
}

/* Returns the number of points that were passed. */
static long run_once(bool threads, bool stubborn, uint32_t flags, long cancel_at)
{
    kc_sched_opts_t alone = { .workers = KC_NO_WORKERS, .flags = KC_SCHED_VIRTUAL_TIME };
    kc_sched_opts_t two = { .workers = 2 };

    memset(&now, 0, sizeof now);
    now.threads = threads;
    now.stubborn = stubborn;
    now.flags = flags;
    now.cancel_at = cancel_at;
    CHECK_EQ(kc_run(main_body, NULL, threads ? &two : &alone), 0);
    check_books();
    return kc_load_relaxed(&now.points);
}

static void run_all(bool threads, bool stubborn, uint32_t flags)
{
    /* The kernel lets sleeps last 50 us longer than asked for, which is more than they are. */
    (void)prctl(PR_SET_TIMERSLACK, 1ul);
    long n = run_once(threads, stubborn, flags, 0), reached = 0;

    CHECK_GT(n, 40);
    CHECK_EQ(kc_load_relaxed(&now.cancelled), 0);
    for (long k = 1; k <= n; k++) {
        if (!threads)
            fprintf(stderr, "point %ld of %ld\n", k, n);
        run_once(threads, stubborn, flags, k);
        reached += kc_load_relaxed(&now.cancelled);
    }
    printf("%ld points, %ld of them reached\n", n, reached);
    CHECK(threads || reached == n);
}

TEST(a_cancel_at_every_point)
{
    run_all(false, false, 0);
}

TEST(a_cancel_at_every_point_of_a_program_that_continues)
{
    run_all(false, true, 0);
}

TEST(a_cancel_at_every_point_unwinds)
{
    run_all(false, false, KC_JOB_UNWIND);
}

TEST_SLOW(a_cancel_at_every_point_on_two_workers, 60000)
{
    run_all(true, false, 0);
}

TEST_SLOW(a_cancel_at_every_point_of_a_program_that_continues_on_two_workers, 60000)
{
    run_all(true, true, 0);
}

TEST_SLOW(a_cancel_at_every_point_unwinds_on_two_workers, 60000)
{
    run_all(true, false, KC_JOB_UNWIND);
}
