/* SPDX-License-Identifier: MIT */
/*
 * no_stack_test.c - jobs for which there is no stack (S15): what can never have one is refused,
 * what may get one later waits and is named, and what waits for nothing that could help fails.
 */
#include "base/os.h"
#include "job_kit.h"
#include "sched/no_stack.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

static int returns_zero(void *arg UNUSED)
{
    return 0;
}

/* ---- what can never have one ---------------------------------------------------------------- */

static void runs_nothing(void *arg UNUSED)
{
}

/* All that a launch with so large a stack is said. */
static void is_refused(size_t size)
{
    kc_launch_opts_t opts = { .stack = size };
    kc_job_t *j = NULL;
    kc_deferred_t *d = NULL;

    CHECK_EQ(kc_launch_job(returns_zero, NULL, &opts, &j), -ENOMEM);
    CHECK_EQ(kc_async_job(returns_zero, NULL, &opts, &d), -ENOMEM);
    opts.flags = KC_JOB_NOW;
    CHECK_EQ(kc_launch_job(returns_zero, NULL, &opts, &j), -ENOMEM);
    opts.flags = 0;
    CHECK_EQ(kc_group_create(&opts, &j), -ENOMEM);
    CHECK(!j && !d);
}

static int is_refused_in_a_job(void *arg)
{
    is_refused(*(const size_t *)arg);
    return 0;
}

static const size_t absurd[] = { (size_t)1 << 50, SIZE_MAX / 4, SIZE_MAX / 2 + 1, SIZE_MAX };
enum { ABSURD = sizeof absurd / sizeof absurd[0] };

TEST(a_stack_that_is_larger_than_the_address_space_is_refused_at_the_launch)
{
    for (int i = 0; i < ABSURD; i++) {
        kc_sched_opts_t opts = { .workers = KC_NO_WORKERS, .flags = KC_SCHED_VIRTUAL_TIME };
        CHECK_EQ(kc_run(is_refused_in_a_job, (void *)(uintptr_t)&absurd[i], &opts), 0);
    }
}

TEST(a_scheduler_with_stacks_that_are_larger_than_the_address_space_is_refused)
{
    for (int i = 0; i < ABSURD; i++) {
        kc_sched_opts_t opts = { .stack_size = absurd[i] };
        kc_sched_t *s = NULL;
        CHECK_EQ(kc_sched_create(&opts, &s), -ENOMEM);
        CHECK_EQ(kc_run(returns_zero, NULL, &opts), -ENOMEM);
        CHECK_PTR(s, NULL);
    }
}

TEST(a_coroutine_with_a_stack_that_is_larger_than_the_address_space_is_null)
{
    for (int i = 0; i < ABSURD; i++) {
        CHECK_PTR(kcoro_create(runs_nothing, NULL, absurd[i]), NULL);
        CHECK(strstr(kcoro_create_error(), "stack") != NULL);
    }
}

/* Not where a tool, or an emulator, has address space of its own. */
static void limit_address_space(size_t bytes)
{
    if (kc_test_under_asan() || kc_test_under_tsan() || kc_test_under_valgrind() ||
        kc_test_under_emulation())
        SKIP("RLIMIT_AS is not for this");
    CHECK_EQ(setrlimit(RLIMIT_AS, &(struct rlimit){ bytes, bytes }), 0);
}

TEST(a_stack_that_is_larger_than_the_limit_on_the_address_space_is_refused_at_the_launch)
{
    size_t size = (size_t)4 << 30;

    limit_address_space((size_t)2 << 30);
    CHECK_EQ(kc_run(is_refused_in_a_job, &size, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
             0);
}

/* ---- none for now --------------------------------------------------------------------------- */

enum { BIG = 16 << 20 }; /* mapped for itself each time */

static count_t no_more, refused;
static bool guards_only, worker_0_only;

/* No stack can be made while no_more is set; those that are there can be used again. */
static bool refuses(const char *what)
{
    bool map = strcmp(what, "map") == 0 && !guards_only, guard = strcmp(what, "guard") == 0;
    bool no = get(&no_more) && (map || guard) && (!worker_0_only || kc_worker_index() == 0);

    if (no)
        add(&refused);
    return no;
}

/* Before any thread looks at it. */
__attribute__((constructor)) static void ask_before_each_call(void)
{
    kc__os_fault = refuses;
}

static void no_more_stacks(void)
{
    set(&refused, 0);
    set(&no_more, 1);
}

static uint64_t waiting(kc_sched_t *s)
{
    kc_metrics_t m;

    kc_metrics(s, &m);
    return m.waiting_for_stack;
}

struct started {
    count_t ran, disposed;
    kc_event_t event;
};

static int runs_once(void *arg)
{
    add(&((struct started *)arg)->ran);
    return 0;
}

static void is_disposed_of(void *arg)
{
    add(&((struct started *)arg)->disposed);
}

static kc_job_t *launch_big(struct started *st, kc_affinity_t where)
{
    kc_launch_opts_t opts = {
        .stack = BIG, .name = "big", .affinity = where, .dispose = is_disposed_of
    };
    kc_job_t *j = NULL;

    CHECK_EQ(kc_launch_job(runs_once, st, &opts, &j), 0);
    return j;
}

static void ends_with(kc_job_t *j, kc_job_state_t state, int code)
{
    CHECK_EQ(kc_job_join(j), code);
    CHECK_EQ(kc_job_state(j), state);
    kc_job_release(j);
}

static int waits_for_event(void *arg)
{
    return kc_event_wait(&((struct started *)arg)->event);
}

/* ---- nobody can give one back --------------------------------------------------------------- */

static int fails_where_all_wait(kc_affinity_t where)
{
    enum { MANY = 3 };
    kc_scope_opts_t supervisor = { .flags = KC_JOB_SUPERVISOR };
    struct started st = { 0 };
    kc_job_t *j[MANY];
    kc_scope_t scope;

    kc__no_stack_patience = KC_MS(2);
    CHECK_EQ(kc_scope_begin(&scope, &supervisor), 0);
    CHECK_EQ(kc_launch(waits_for_event, &st), 0);
    CHECK_EQ(kc_yield(), 0);
    no_more_stacks();
    for (int i = 0; i < MANY; i++)
        j[i] = launch_big(&st, where);
    for (int i = 0; i < MANY; i++)
        ends_with(j[i], KC_JOB_FAILED, -ENOMEM);
    CHECK_EQ(get(&st.ran), 0);
    CHECK_EQ(get(&st.disposed), MANY);
    CHECK_EQ(waiting(kc_sched_current()), 0);
    set(&no_more, 0);
    kc_event_set(&st.event);
    return kc_scope_end(&scope);
}

IN_A_JOB(jobs_that_get_no_stack_fail_when_all_others_wait_for_ever)
{
    return fails_where_all_wait(KC_WORKER);
}

IN_A_JOB(jobs_of_the_main_thread_that_get_no_stack_fail_when_all_others_wait_for_ever)
{
    return fails_where_all_wait(KC_MAIN);
}

static int never_called(void *arg UNUSED)
{
    FAIL("there was no stack for it");
}

TEST(kc_run_is_enomem_if_there_is_no_stack_for_its_root)
{
    kc__no_stack_patience = KC_MS(2);
    CHECK(kcoro_create_main() != NULL);
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        opts.stack_size = BIG;
        CHECK_EQ(kc_run(returns_zero, NULL, &opts), 0); /* all else that it needs is there */
        no_more_stacks();
        CHECK_EQ(kc_run(never_called, NULL, &opts), -ENOMEM);
        set(&no_more, 0);
    }
}

/* ---- somebody may --------------------------------------------------------------------------- */

static int lets_stacks_be_made_after_a_while(void *arg UNUSED)
{
    CHECK_EQ(kc_sleep(KC_MS(10)), 0);
    set(&no_more, 0);
    return 0;
}

IN_A_JOB(a_job_that_gets_no_stack_waits_as_long_as_a_timer_is_set)
{
    struct started st = { 0 };

    kc__no_stack_patience = 1;
    CHECK_EQ(kc_launch(lets_stacks_be_made_after_a_while, NULL), 0);
    CHECK_EQ(kc_yield(), 0);
    no_more_stacks();
    ends_with(launch_big(&st, KC_WORKER), KC_JOB_COMPLETED, 0);
    CHECK_EQ(get(&st.ran), 1);
    CHECK_EQ(get(&st.disposed), 0);
    CHECK_EQ(waiting(kc_sched_current()), 0);
    return 0;
}

/* As long as the job was tried so many times. */
static void *thread_lets_stacks_be_made(void *arg UNUSED)
{
    while (get(&refused) < 4)
        sched_yield();
    set(&no_more, 0);
    return NULL;
}

IN_A_JOB(a_job_that_gets_no_stack_waits_as_long_as_a_lease_is_held)
{
    struct started st = { 0 };
    kc_lease_t lease;
    pthread_t thread;

    kc__no_stack_patience = 1;
    CHECK_EQ(kc_lease_take(kc_job_current(), &lease), 0);
    no_more_stacks();
    CHECK_EQ(pthread_create(&thread, NULL, thread_lets_stacks_be_made, NULL), 0);
    ends_with(launch_big(&st, KC_WORKER), KC_JOB_COMPLETED, 0);
    CHECK_EQ(get(&st.ran), 1);
    pthread_join(thread, NULL);
    kc_lease_release(&lease);
    return 0;
}

/* A coroutine that computes has a stack, and may give it back. */
static int computes_until_refused(void *arg UNUSED)
{
    while (get(&refused) < 4)
        sched_yield();
    set(&no_more, 0);
    return 0;
}

TEST(a_job_that_gets_no_stack_waits_as_long_as_another_runs)
{
    kc_sched_opts_t opts = { .workers = 2, .stack_size = BIG };
    kc_sched_t *s = NULL;
    kc_launch_opts_t there = { .affinity = KC_WORKER_AT(0) };
    kc_job_t *first = NULL, *second = NULL;

    kc__no_stack_patience = 1;
    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    there.sched = s;
    set(&refused, 0);
    CHECK_EQ(kc_launch_job(computes_until_refused, NULL, &there, &first), 0);
    while (!kc_load_relaxed(&s->worker[0]->running))
        sched_yield();
    no_more_stacks();
    there.affinity = KC_WORKER;
    CHECK_EQ(kc_launch_job(returns_zero, NULL, &there, &second), 0);
    ends_with(second, KC_JOB_COMPLETED, 0);
    ends_with(first, KC_JOB_COMPLETED, 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- it waits, and is named ----------------------------------------------------------------- */

static void dump_says(kc_sched_t *s, const char *what)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);

    CHECK_EQ(kc_dump(s, to), 0);
    fclose(to);
    if (!strstr(text, what))
        FAIL("the dump does not say \"%s\":\n%s", what, text);
    free(text);
}

/* A big one waits for a stack, and the dump says so; then it gets one. */
static void is_named(const char *lack)
{
    struct started st = { 0 };
    char line[96];
    kc_sched_t *s = kc_sched_current();

    snprintf(line, sizeof line, "ACTIVE, waits for a stack: 16 MiB, out of %s", lack);
    kc_job_t *j = launch_big(&st, KC_WORKER);
    UNTIL(waiting(s) == 1);
    dump_says(s, line);
    set(&no_more, 0);
    ends_with(j, KC_JOB_COMPLETED, 0);
    CHECK_EQ(waiting(s), 0);
}

IN_A_JOB(a_job_that_waits_for_a_stack_is_named_by_the_dump_and_counted)
{
    no_more_stacks();
    is_named("memory");
    return 0;
}

IN_A_JOB(the_dump_says_that_the_limit_on_mappings_is_reached)
{
    kc__os_guard_force(KC_GUARD_PROTECT);
    guards_only = true;
    no_more_stacks();
    is_named("mappings (vm.max_map_count)");
    return 0;
}

static int starts_when_there_is_address_space(void *arg)
{
    struct started st = { 0 };
    kc_sched_t *s = kc_sched_current();
    kc_launch_opts_t opts = { .stack = (size_t)3 << 30 };
    size_t room = (size_t)2 << 30;
    kc_job_t *j = NULL;

    void *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(p != MAP_FAILED);
    CHECK_EQ(kc_launch_job(runs_once, &st, &opts, &j), 0);
    UNTIL(waiting(s) == 1);
    dump_says(s, "waits for a stack: 3072 MiB, out of address space (RLIMIT_AS)");
    CHECK_EQ(munmap(p, room), 0);
    ends_with(j, KC_JOB_COMPLETED, 0);
    (void)arg;
    return 0;
}

TEST(the_dump_says_that_the_limit_on_the_address_space_is_reached)
{
    limit_address_space((size_t)4 << 30);
    CHECK_EQ(kc_run(starts_when_there_is_address_space, NULL,
                    &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }),
             0);
}

/* ---- and others meanwhile ------------------------------------------------------------------- */

IN_A_JOB(jobs_that_need_a_smaller_stack_start_though_another_waits)
{
    enum { MANY = 20 };
    struct started big = { 0 }, small = { 0 };

    no_more_stacks();
    kc_job_t *j = launch_big(&big, KC_WORKER);
    UNTIL(waiting(kc_sched_current()) == 1);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(kc_launch(runs_once, &small), 0);
    UNTIL(get(&small.ran) == MANY); /* on stacks that were there before */
    CHECK_EQ(get(&big.ran), 0);
    set(&no_more, 0);
    ends_with(j, KC_JOB_COMPLETED, 0);
    return 0;
}

IN_A_JOB(a_job_that_is_to_run_now_and_gets_no_stack_starts_later)
{
    struct started st = { 0 };
    kc_launch_opts_t opts = { .stack = BIG, .flags = KC_JOB_NOW };
    kc_job_t *j = NULL;

    no_more_stacks();
    CHECK_EQ(kc_launch_job(runs_once, &st, &opts, &j), 0);
    CHECK_EQ(get(&st.ran), 0);
    CHECK_EQ(waiting(kc_sched_current()), 1);
    set(&no_more, 0);
    ends_with(j, KC_JOB_COMPLETED, 0);
    CHECK_EQ(get(&st.ran), 1);
    return 0;
}

IN_A_JOB(a_job_that_waits_for_a_stack_may_be_cancelled)
{
    struct started st = { 0 };

    no_more_stacks();
    kc_job_t *j = launch_big(&st, KC_WORKER);
    UNTIL(waiting(kc_sched_current()) == 1);
    CHECK(kc_job_cancel(j, 0));
    ends_with(j, KC_JOB_CANCELLED, -ECANCELED);
    CHECK_EQ(get(&st.ran), 0);
    CHECK_EQ(get(&st.disposed), 1);
    set(&no_more, 0);
    return 0;
}

static void destroy_ends_those_that_wait(const kc_sched_opts_t *sched_opts)
{
    struct started st = { 0 };
    kc_affinity_t where[] = { KC_WORKER, KC_MAIN };
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(sched_opts, &s), 0);
    no_more_stacks();
    for (int i = 0; i < 2; i++) {
        kc_launch_opts_t opts = {
            .sched = s, .stack = BIG, .affinity = where[i], .dispose = is_disposed_of
        };
        CHECK_EQ(kc_launch_job(runs_once, &st, &opts, NULL), 0);
    }
    while (waiting(s) < 2)
        (void)kc_sched_poll(s, kc_now());
    CHECK_EQ(kc_sched_destroy(s), 0); /* still without a stack */
    set(&no_more, 0);
    CHECK_EQ(get(&st.disposed), 2);
}

TEST(the_end_of_a_scheduler_ends_jobs_that_wait_for_a_stack)
{
    for (int i = 0; i < KIT_SCHEDS; i++) {
        kc_sched_opts_t opts = kit_opts(i);
        destroy_ends_those_that_wait(&opts);
    }
}

/* ---- other threads -------------------------------------------------------------------------- */

static count_t held;

static int is_held(void *arg UNUSED)
{
    set(&held, 1);
    while (get(&held) == 1)
        sched_yield();
    return 0;
}

static int computes_while_one_waits(void *arg)
{
    struct started *st = arg;
    worker_0_only = true; /* only this one has no memory */
    no_more_stacks();
    kc_job_t *j = launch_big(st, KC_WORKER);
    UNTIL(waiting(kc_sched_current()) == 1);
    set(&held, 2); /* the other worker is free now */
    while (!get(&st->ran))
        sched_yield();
    ends_with(j, KC_JOB_COMPLETED, 0);
    return 0;
}

TEST(what_any_worker_may_start_and_got_no_stack_is_found_by_others)
{
    struct started st = { 0 };
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = 2 }, &s), 0);
    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(1), is_held, NULL), 0);
    while (!get(&held))
        sched_yield();
    kc_job_t *j = NULL;
    kc_launch_opts_t opts = { .sched = s, .affinity = KC_WORKER_AT(0) };
    CHECK_EQ(kc_launch_job(computes_while_one_waits, &st, &opts, &j), 0);
    ends_with(j, KC_JOB_COMPLETED, 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

static int leaves_free_stacks(void *arg)
{
    struct started st = { 0 };
    kc_launch_opts_t here = { .affinity = KC_WORKER_AT(1) };
    kc_scope_t scope;

    (void)arg;
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(kc_launch_job(waits_for_event, &st, &here, NULL), 0);
    CHECK_EQ(kc_yield(), 0);
    kc_event_set(&st.event);
    return kc_scope_end(&scope);
}

TEST(stacks_that_a_thread_keeps_for_itself_are_given_to_one_that_has_none)
{
    kc_sched_t *s = NULL;
    kc_job_t *j = NULL;

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = 2 }, &s), 0);
    CHECK_EQ(kc_sched_submit(s, KC_WORKER_AT(1), leaves_free_stacks, NULL), 0);
    CHECK_EQ(kc_sched_run(s), 0);
    no_more_stacks();
    kc_launch_opts_t opts = { .sched = s, .affinity = KC_WORKER_AT(0) };
    CHECK_EQ(kc_launch_job(returns_zero, NULL, &opts, &j), 0);
    ends_with(j, KC_JOB_COMPLETED, 0);
    set(&no_more, 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- free ones of another size -------------------------------------------------------------- */

TEST(free_stacks_of_one_size_make_room_for_another)
{
    enum { MOST = 4000 };
    static kcoro_t *co[MOST];
    int n = 0;

    CHECK(kcoro_create_main() != NULL);
    limit_address_space((size_t)512 << 20);
    while (n < MOST && (co[n] = kcoro_create(runs_nothing, NULL, 256 << 10)) != NULL)
        n++;
    CHECK_LT(n, MOST); /* there is no room for more */
    for (int i = 0; i < n; i++)
        kcoro_destroy(co[i]);
    kcoro_t *large = kcoro_create(runs_nothing, NULL, (size_t)n * (256 << 10) / 2);
    CHECK(large != NULL);
    kcoro_destroy(large);
}
