/* SPDX-License-Identifier: MIT */
/*
 * job_misuse_test.c - what goes wrong: bad arguments, calls outside jobs, bad use that aborts (J18,
 * J25), and no memory, with each allocation failing in turn.
 */
#include "base/os.h"
#include "job_kit.h"

/* ---- outside jobs --------------------------------------------------------------------------- */

static void no_job_is_here(void)
{
    kc_scope_t s;
    kc_job_t *j = NULL;
    kc_deferred_t *d = NULL;

    CHECK_PTR(kc_job_current(), NULL);
    CHECK_EQ(kc_launch(never, NULL), -EPERM);
    CHECK_EQ(kc_launch_job(never, NULL, NULL, &j), -EPERM);
    CHECK_EQ(kc_async(never, NULL, &d), -EPERM);
    CHECK_EQ(kc_promise(NULL, &d), -EPERM);
    CHECK_EQ(kc_group_create(NULL, &j), -EPERM);
    CHECK_EQ(kc_scope(never, NULL, NULL), -EPERM);
    CHECK_EQ(kc_scope_begin(&s, NULL), -EPERM);
    CHECK_EQ(kc_shield_begin(), -EPERM);
    CHECK_EQ(kc_local_set(&s, &s), -EPERM);
    CHECK_PTR(kc_local_get(&s), NULL);
    CHECK_EQ(kc_check(), 0);
    CHECK(!kc_cancelled());
    CHECK_EQ(kc_cancel_reason(), 0);
    CHECK_PTR(kc_current_slot(), NULL);
    CHECK_PTR(j, NULL);
    CHECK_PTR(d, NULL);
}

static void *in_a_thread(void *arg)
{
    no_job_is_here();
    return arg;
}

OUTSIDE(outside_jobs_calls_that_need_a_job_are_eperm, s)
{
    pthread_t thread;
    kc_job_t *j = NULL;

    no_job_is_here();
    CHECK_EQ(pthread_create(&thread, NULL, in_a_thread, NULL), 0);
    pthread_join(thread, NULL);
    kc_launch_opts_t opts = { .sched = s, .flags = KC_JOB_NOW };
    CHECK_EQ(kc_launch_job(never, NULL, &opts, &j), -EINVAL); /* now needs a current job */
    CHECK_PTR(j, NULL);
}

/* ---- bad arguments -------------------------------------------------------------------------- */

IN_A_JOB(bad_options_of_a_launch_are_einval)
{
    kc_job_t *j = NULL;
    kc_deferred_t *d = NULL;
    const kc_launch_opts_t bad[] = {
        { .flags = KC_JOB_ALONE | KC_JOB_DETACHED },
        { .flags = 64 },
        { .flags = 1u << 31 },
        { .timeout = -1 },
        { .grace = -1 },
        { .affinity = KC_HERE - 1 },
        { .affinity = 100 },
    };

    CHECK_EQ(kc_launch(NULL, NULL), -EINVAL);
    CHECK_EQ(kc_launch_job(NULL, NULL, NULL, &j), -EINVAL);
    CHECK_EQ(kc_async(NULL, NULL, &d), -EINVAL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ(kc_launch_job(never, NULL, &bad[i], &j), -EINVAL);
        CHECK_EQ(kc_async_job(never, NULL, &bad[i], &d), -EINVAL);
        if (i < 5) {
            CHECK_EQ(kc_group_create(&bad[i], &j), -EINVAL);
            CHECK_EQ(kc_promise(&bad[i], &d), -EINVAL);
        }
    }
    CHECK_PTR(j, NULL);
    CHECK_PTR(d, NULL);
    return 0;
}

IN_A_JOB(bad_options_of_a_scope_are_einval_and_open_none)
{
    kc_job_t *me = kc_job_current();
    kc_scope_t s;
    const kc_scope_opts_t bad[] = {
        { .flags = KC_JOB_DETACHED },
        { .flags = KC_JOB_NOW },
        { .flags = KC_JOB_UNWIND },
        { .flags = KC_JOB_MIGRATE },
        { .flags = KC_JOB_ALONE },
        { .flags = 64 },
        { .timeout = -1 },
        { .grace = -1 },
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ(kc_scope(never, NULL, &bad[i]), -EINVAL);
        CHECK_EQ(kc_scope_begin(&s, &bad[i]), -EINVAL);
    }
    CHECK_EQ(kc_scope_begin(NULL, NULL), -EINVAL);
    CHECK_EQ(kc_scope(NULL, NULL, NULL), -EINVAL);
    CHECK_PTR(kc_job_current(), me);
    return 0;
}

IN_A_JOB(promise_complete_is_einval_without_a_promise_and_job_calls_with_null)
{
    kc_deferred_t *d;
    kc_lease_t lease;

    CHECK_EQ(kc_async(returns, CODE(0), &d), 0);
    CHECK_EQ(kc_promise_complete(d, 0, NULL), -EINVAL);
    CHECK_EQ(kc_await(d, NULL), 0);
    CHECK_EQ(kc_promise_complete(d, 0, NULL), -EINVAL);
    kc_deferred_release(d);
    CHECK_EQ(kc_lease_take(NULL, &lease), -EINVAL);
    CHECK_EQ(kc_lease_take(kc_job_current(), NULL), -EINVAL);
    return 0;
}

/* ---- bad use -------------------------------------------------------------------------------- */

static int leaves_a_scope_open(void *arg UNUSED)
{
    static kc_scope_t s;

    return kc_scope_begin(&s, NULL);
}

TEST_ABORTS(a_body_that_leaves_a_scope_open_aborts, "a scope is still open (rule J25,")
{
    run_named(leaves_a_scope_open, "careless");
}

TEST_ABORTS(the_abort_line_of_a_body_that_leaves_a_scope_open_names_the_job, "careless")
{
    run_named(leaves_a_scope_open, "careless");
}

TEST_ABORTS(the_abort_line_names_a_job_without_a_name_by_its_number, ", in job 3\n")
{
    run_named(leaves_a_scope_open, NULL);
}

static int releases_twice(void *arg UNUSED)
{
    count_t n = 0;
    kc_job_t *j = launch(waits, &n, NULL);

    UNTIL(get(&n) == 1);
    kc_job_release(j);
    kc_job_release(j); /* it lives, by the reference of the tree */
    return 0;
}

TEST_ABORTS(a_second_release_of_a_job_that_runs_aborts, "released more often than retained")
{
    run_named(releases_twice, NULL);
}

static int leaves_a_shield_open(void *arg UNUSED)
{
    return kc_shield_begin();
}

TEST_ABORTS(a_body_that_ends_inside_a_shield_aborts, "a shield is still open (rule J25,")
{
    run_named(leaves_a_shield_open, NULL);
}

static void defers_a_scope(void *arg UNUSED)
{
    (void)!leaves_a_scope_open(NULL);
}

static int leaves_a_scope_open_in_a_cleanup(void *arg UNUSED)
{
    return kc_defer(defers_a_scope, NULL);
}

TEST_ABORTS(a_cleanup_that_leaves_a_scope_open_aborts, "a scope is still open (rule J25,")
{
    run_named(leaves_a_scope_open_in_a_cleanup, NULL);
}

static void defers_a_shield(void *arg UNUSED)
{
    CHECK_EQ(kc_shield_begin(), 0);
}

static int leaves_a_shield_open_in_a_cleanup(void *arg UNUSED)
{
    return kc_defer(defers_a_shield, NULL);
}

TEST_ABORTS(a_cleanup_that_leaves_a_shield_open_aborts, "a shield is still open (rule J25,")
{
    run_named(leaves_a_shield_open_in_a_cleanup, NULL);
}

static int ends_a_scope_inside_a_shield(void *arg UNUSED)
{
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_shield_begin(), 0);
    return kc_scope_end(&s);
}

TEST_ABORTS(a_scope_that_ends_inside_its_shield_aborts, "a shield is still open in the scope")
{
    run_named(ends_a_scope_inside_a_shield, NULL);
}

static int ends_the_outer_scope_first(void *arg UNUSED)
{
    kc_scope_t outer, inner;

    CHECK_EQ(kc_scope_begin(&outer, NULL), 0);
    CHECK_EQ(kc_scope_begin(&inner, NULL), 0);
    return kc_scope_end(&outer);
}

TEST_ABORTS(ending_the_outer_of_two_scopes_first_aborts, "not the innermost open scope")
{
    run_named(ends_the_outer_scope_first, NULL);
}

static int ends_it_twice(void *arg UNUSED)
{
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_scope_end(&s), 0);
    return kc_scope_end(&s);
}

TEST_ABORTS(ending_a_scope_twice_aborts, "kc_scope_end")
{
    run_named(ends_it_twice, NULL);
}

static int asks_a_closed_scope(void *arg UNUSED)
{
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_scope_end(&s), 0);
    return kc_scope_job(&s) != NULL;
}

TEST_ABORTS(the_job_of_a_scope_that_is_not_open_aborts, "kc_scope_job")
{
    run_named(asks_a_closed_scope, NULL);
}

static int ends_no_shield(void *arg UNUSED)
{
    kc_shield_end();
    return 0;
}

TEST_ABORTS(ending_a_shield_that_is_not_open_aborts, "no shield is open in the current job")
{
    run_named(ends_no_shield, NULL);
}

TEST_ABORTS(kc_shield_end_outside_aborts, "kc_shield_end")
{
    kc_shield_end();
}

TEST_ABORTS(kc_cancel_current_outside_aborts, "kc_cancel_current")
{
    kc_cancel_current(0);
}

TEST_ABORTS(kc_set_payload_outside_aborts, "kc_set_payload")
{
    kc_set_payload(NULL);
}

TEST_ABORTS(kc_forbid_signal_outside_aborts, "kc_forbid_signal")
{
    kc_forbid_signal();
}

static int waits_in_dispose(void *arg UNUSED)
{
    return 0;
}

static void sleeps(void *arg UNUSED)
{
    (void)!kc_sleep(KC_US(1));
}

static int cancels_what_sleeps_in_dispose(void *arg UNUSED)
{
    kc_job_t *j = launch(waits_in_dispose, NULL, &(kc_launch_opts_t){ .dispose = sleeps });

    CHECK(kc_job_cancel(j, 0));
    return kc_job_join(j) == -ECANCELED ? 0 : 1;
}

TEST_ABORTS(a_dispose_that_suspends_aborts, "kc_sleep: waits inside a handler or dispose")
{
    run_named(cancels_what_sleeps_in_dispose, NULL);
}

/* ---- waiting in a handler ------------------------------------------------------------------ */

static int yields_in_a_handler(void)
{
    return kc_yield();
}

static int sleeps_in_a_handler(void)
{
    return kc_sleep(0);
}

static int hops_in_a_handler(void)
{
    return kc_hop(KC_MAIN);
}

static int gives_way_in_a_handler(void)
{
    kcoro_yield();
    return 0;
}

static int parks_in_a_handler(void)
{
    kcoro_park();
    return 0;
}

static int joins_in_a_handler(void)
{
    static count_t go;
    kc_job_t *j = launch(until_set, &go, NULL);

    return kc_job_join(j);
}

static int (*in_a_handler)(void);

static void calls_it(kc_sigset_t fired UNUSED, kc_signal_t *s UNUSED, void *arg UNUSED)
{
    (void)!in_a_handler();
}

static void emits_nothing(kc_sigset_t fired UNUSED, kc_signal_t *s UNUSED, void *arg UNUSED)
{
}

/* Before and after a handler a body may wait, and a handler may run inside a handler. */
static int handles(void *arg UNUSED)
{
    kc_signal_t *signal = kc_signal_create(0);
    kc_slot_t slot;

    CHECK_EQ(kc_slot_bind(&slot, signal, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&slot, 1ull << 48, emits_nothing, NULL));
    CHECK_EQ(kc_yield(), 0);
    kc_signal_emit(signal, 1ull << 48);
    CHECK_EQ(kc_yield(), 0);
    CHECK_EQ(kc_sleep(0), 0);
    kcoro_yield();
    CHECK(kc_slot_on(&slot, 1ull << 48, calls_it, NULL));
    kc_signal_emit(signal, 1ull << 48);
    return 0;
}

static void waits_in_a_handler(int (*call)(void))
{
    in_a_handler = call;
    run_named(handles, NULL);
}

TEST_ABORTS(a_yield_in_a_handler_aborts, "kc_yield: waits inside a handler")
{
    waits_in_a_handler(yields_in_a_handler);
}

TEST_ABORTS(a_sleep_of_no_time_in_a_handler_aborts, "kc_sleep: waits inside a handler")
{
    waits_in_a_handler(sleeps_in_a_handler);
}

TEST_ABORTS(a_hop_in_a_handler_aborts, "kc_hop: waits inside a handler")
{
    waits_in_a_handler(hops_in_a_handler);
}

TEST_ABORTS(a_yield_of_the_coroutine_in_a_handler_aborts, "kcoro_yield: waits inside a handler")
{
    waits_in_a_handler(gives_way_in_a_handler);
}

TEST_ABORTS(a_park_in_a_handler_aborts, "kcoro_park: waits inside a handler")
{
    waits_in_a_handler(parks_in_a_handler);
}

TEST_ABORTS(a_join_in_a_handler_aborts, "kc_job_join: waits inside a handler")
{
    waits_in_a_handler(joins_in_a_handler);
}

/* Outside any coroutine it lets nobody run, in a handler as elsewhere. */
TEST(a_yield_in_a_handler_of_a_plain_thread_is_0)
{
    kc_signal_t *signal = kc_signal_create(0);
    kc_slot_t slot;

    in_a_handler = yields_in_a_handler;
    CHECK_EQ(kc_slot_bind(&slot, signal, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&slot, KC_SIG_TERMINATE, calls_it, NULL));
    CHECK_EQ(kc_signal_emit(signal, KC_SIG_TERMINATE), KC_SIG_TERMINATE);
    kc_slot_unbind(&slot);
    kc_signal_release(signal);
}

/* ---- stale handles -------------------------------------------------------------------------- */

static kc_job_t *stale(void)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    kc_job_t *j = launch(returns, CODE(0), &(kc_launch_opts_t){ .sched = s });
    CHECK_EQ(kc_job_join(j), 0);
    kc_job_release(j);
    return j;
}

TEST_ABORTS(a_second_release_of_a_job_that_has_ended_aborts, "kc_job_release")
{
    kc_job_release(stale());
}

TEST_ABORTS(retaining_a_job_that_has_been_freed_aborts, "the job has been freed (rule J18,")
{
    kc_job_retain(stale());
}

TEST_ABORTS(dropping_a_job_that_has_been_freed_aborts, "kc_job_drop")
{
    kc_job_drop(stale());
}

TEST_ABORTS(joining_a_job_that_has_been_freed_aborts, "the job has been freed (rule J18,")
{
    (void)!kc_job_join(stale());
}

TEST_ABORTS(cancelling_a_job_that_has_been_freed_aborts, "the job has been freed (rule J18,")
{
    kc_job_cancel(stale(), 0);
}

TEST_ABORTS(launching_into_a_job_that_has_been_freed_aborts, "the job has been freed (rule J18,")
{
    (void)!kc_launch_job(never, NULL, &(kc_launch_opts_t){ .parent = stale() }, NULL);
}

TEST_ABORTS(a_lease_on_a_job_that_has_been_freed_aborts, "the job has been freed (rule J18,")
{
    kc_lease_t lease;

    (void)!kc_lease_take(stale(), &lease);
}

TEST_ABORTS(closing_a_group_that_has_been_freed_aborts, "the job has been freed (rule J18,")
{
    kc_group_close(stale());
}

TEST_ABORTS(the_signal_of_a_job_that_has_been_freed_aborts, "the job has been freed (rule J18,")
{
    kc_job_signal(stale());
}

TEST_ABORTS(a_call_with_a_pointer_that_is_no_job_aborts, "the pointer is not a job (rule J18,")
{
    static _Alignas(64) char other[256];

    kc_job_state((kc_job_t *)other);
}

TEST_ABORTS(the_state_of_null_aborts, "kc_job_state: the job is NULL")
{
    kc_job_state(NULL);
}

TEST_ABORTS(cancelling_null_aborts, "kc_job_cancel: the job is NULL")
{
    kc_job_cancel(NULL, 0);
}

/* ---- no memory ------------------------------------------------------------------------------ */

static long fail_at, calls;
static bool fail_after;

static bool fail_kth(const char *what UNUSED)
{
    long call = ++calls;

    return call == fail_at || (fail_after && call > fail_at);
}

static count_t ran, disposed;
static kc_signal_t *outside;
static kc_job_t *made;
static kc_scope_t made_scope;
static char key;

static void disposes(void *arg UNUSED)
{
    add(&disposed);
}

static kc_launch_opts_t all_options(void)
{
    return (kc_launch_opts_t){ .name = "all",
                               .stack = 128 << 10,
                               .timeout = KC_SEC(100),
                               .grace = KC_SEC(100),
                               .signal = outside,
                               .dispose = disposes };
}

static int try_launch(void)
{
    return kc_launch(counts, &ran);
}

static int try_launch_job(void)
{
    kc_launch_opts_t opts = all_options();

    return kc_launch_job(counts, &ran, &opts, &made);
}

static int try_async(void)
{
    kc_launch_opts_t opts = all_options();

    return kc_async_job(counts, &ran, &opts, (kc_deferred_t **)&made);
}

static int try_group(void)
{
    kc_launch_opts_t opts = all_options();

    return kc_group_create(&opts, &made);
}

static int try_promise(void)
{
    kc_launch_opts_t opts = all_options();

    return kc_promise(&opts, (kc_deferred_t **)&made);
}

static kc_resolver_t *resolver;

static int try_oneshot(void)
{
    kc_launch_opts_t opts = all_options();

    return kc_oneshot(&opts, (kc_deferred_t **)&made, &resolver);
}

static int try_scope(void)
{
    kc_scope_opts_t opts = { .name = "all",
                             .timeout = KC_SEC(100),
                             .grace = KC_SEC(100),
                             .max_running = 3,
                             .signal = outside };

    return kc_scope_begin(&made_scope, &opts);
}

static int try_local(void)
{
    static char keys[256], *next = keys; /* one that is set again needs no memory */

    return kc_local_set(next++, NULL);
}

/* It was made: it must be what it would be without faults. */
static void finish(int (*try)(void))
{
    if (try == try_scope) {
        CHECK_EQ(kc_check(), 0);
        CHECK_EQ(kc_scope_end(&made_scope), 0);
    }
    if (try == try_group)
        CHECK_EQ(kc_group_close(made), 0);
    if (try == try_promise)
        CHECK_EQ(kc_promise_complete((kc_deferred_t *)made, 0, NULL), 0);
    if (try == try_oneshot)
        CHECK_EQ(kc_resolve(resolver, 0, NULL), 0);
    if (made)
        CHECK_EQ(kc_job_join(made), 0);
    kc_job_release(made);
    made = NULL;
}

static void each_allocation_fails(int (*try)(void), bool runs)
{
    bool hit = true;
    int failed = 0;

    for (fail_at = 1; hit; fail_at++) {
        int before = jobs_there();
        set(&ran, 0);
        calls = 0;
        kc__os_fault = fail_kth;
        int rc = try();
        kc__os_fault = NULL;
        hit = calls >= fail_at;
        CHECK(rc == 0 || (rc == -ENOMEM && hit));
        if (rc == 0) {
            finish(try);
            UNTIL(jobs_there() == before);
        }
        failed += rc != 0;
        CHECK_EQ(get(&ran), rc == 0 && runs);
        CHECK_EQ(get(&disposed), 0);
        CHECK_PTR(made, NULL);
        CHECK_EQ(jobs_there(), before);
        CHECK_EQ(kc_check(), 0);
        CHECK_LT(fail_at, 100);
    }
    CHECK_GT(failed, 0);
}

static int fails_in_turn(void *arg UNUSED)
{
    outside = kc_signal_create(0);
    CHECK_EQ(kc_local_set(&key, &key), 0); /* so that children need room for it */
    for (int after = 0; after < 2; after++) {
        fail_after = after;
        each_allocation_fails(try_launch, true);
        each_allocation_fails(try_launch_job, true);
        each_allocation_fails(try_async, true);
        each_allocation_fails(try_group, false);
        each_allocation_fails(try_promise, false);
        each_allocation_fails(try_oneshot, false);
        each_allocation_fails(try_scope, false);
        each_allocation_fails(try_local, false);
    }
    kc_signal_release(outside);
    return 0;
}

TEST(each_allocation_that_fails_is_enomem_and_leaves_nothing)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };

    CHECK_EQ(kc_run(fails_in_turn, NULL, &opts), 0);
}

/* ---- cleanups that kcoro_destroy runs (C6) --------------------------------------------------- */

static void cleanup_sleeps(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_sleep(KC_MS(1)), 0);
}

static void yields_with_a_sleeper(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_defer(cleanup_sleeps, NULL), 0);
    kcoro_yield();
}

static int destroys_a_generator(void *arg)
{
    kcoro_t *co = kcoro_create(yields_with_a_sleeper, arg, 0);

    CHECK(co != NULL);
    CHECK_EQ(kcoro_resume(co), 0);
    kcoro_destroy(co);
    return 0;
}

TEST_ABORTS(a_cleanup_that_destroy_runs_in_a_job_may_not_wait,
            "kc_sleep: a cleanup run by kcoro_destroy may not suspend (rule C6,")
{
    CHECK_EQ(kc_run(destroys_a_generator, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
             0);
}
