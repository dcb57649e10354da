/* SPDX-License-Identifier: MIT */
/*
 * gen_test.c - generators: values, ends before their end, waiting inside one in a job, and misuse.
 */
#include "base/os.h"
#include "job_kit.h"

#include <kcoro/gen.h>

static int counts_to_three(kc_gen_t *g, void *arg)
{
    for (intptr_t i = 0; i < 3; i++)
        kc_gen_yield(g, (void *)((intptr_t)arg + i));
    return 0;
}

static void check_three(void)
{
    char text[3];
    void *value = NULL;
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, counts_to_three, text, 0), 0);
    for (int i = 0; i < 3; i++) {
        CHECK(kc_gen_next(&g, &value));
        CHECK_PTR(value, text + i);
    }
    CHECK(!kc_gen_next(&g, &value));
    CHECK(!kc_gen_next(&g, &value)); /* and so it stays */
    CHECK_PTR(value, text + 2);
    kc_gen_end(&g);
    kc_gen_end(&g);
}

TEST(a_generator_gives_its_values_and_then_ends)
{
    check_three();
}

IN_A_JOB(a_generator_works_in_a_job)
{
    check_three();
    return 0;
}

static void *thread_checks(void *arg)
{
    check_three();
    return arg;
}

TEST(a_generator_works_on_any_thread)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, thread_checks, NULL), 0);
    pthread_join(thread, NULL);
}

TEST(a_value_of_a_generator_may_be_ignored_and_be_null)
{
    void *value = &value;
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, counts_to_three, NULL, 0), 0);
    CHECK(kc_gen_next(&g, &value));
    CHECK_PTR(value, NULL);
    CHECK(kc_gen_next(&g, NULL));
    CHECK(kc_gen_next(&g, NULL));
    CHECK(!kc_gen_next(&g, NULL));
    kc_gen_end(&g);
}

static int begun;

static int begins(kc_gen_t *g, void *arg)
{
    (void)arg;
    begun++;
    kc_gen_yield(g, NULL);
    return 0;
}

TEST(a_generator_does_not_run_before_the_first_next)
{
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, begins, NULL, 0), 0);
    CHECK_EQ(begun, 0);
    kc_gen_end(&g);
    CHECK_EQ(begun, 0);
    CHECK_EQ(kc_gen_start(&g, begins, NULL, 0), 0);
    CHECK(kc_gen_next(&g, NULL));
    CHECK_EQ(begun, 1);
    kc_gen_end(&g);
}

/* ---- ends ----------------------------------------------------------------------------------- */

struct trail {
    int cleaned[4], n;
    bool passed;
    kc_chan_t *c;
};

static struct trail *now;

static void cleans(void *arg)
{
    now->cleaned[now->n++] = (int)(intptr_t)arg;
}

static int has_cleanups(kc_gen_t *g, void *arg)
{
    struct trail *t = arg;

    CHECK_EQ(kc_defer(cleans, CODE(1)), 0);
    CHECK_EQ(kc_defer(cleans, CODE(2)), 0);
    KC_CLEANUP(cleans, CODE(3));
    kc_gen_yield(g, NULL);
    t->passed = true;
    return 0;
}

static void check_cleanups(void)
{
    for (int to_the_end = 0; to_the_end < 2; to_the_end++) {
        struct trail t = { .n = 0 };
        kc_gen_t g;
        now = &t;
        CHECK_EQ(kc_gen_start(&g, has_cleanups, &t, 0), 0);
        CHECK(kc_gen_next(&g, NULL));
        CHECK_EQ(t.n, 0);
        if (to_the_end)
            CHECK(!kc_gen_next(&g, NULL));
        CHECK_EQ(t.n, to_the_end ? 3 : 0);
        kc_gen_end(&g);
        CHECK_EQ(t.n, 3);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(t.cleaned[i], 3 - i);
        CHECK_EQ(t.passed, to_the_end);
        kc_gen_end(&g);
        CHECK_EQ(t.n, 3);
    }
}

TEST(a_generator_that_is_ended_runs_its_cleanups_and_not_the_rest)
{
    check_cleanups();
}

IN_A_JOB(a_generator_that_is_ended_in_a_job_runs_its_cleanups)
{
    check_cleanups();
    return 0;
}

/* ---- nesting -------------------------------------------------------------------------------- */

/* The numbers of a range, by two generators of its halves. */
struct range {
    intptr_t from, to;
};

static int numbers(kc_gen_t *g, void *arg)
{
    struct range *r = arg;

    if (r->to - r->from == 1) {
        kc_gen_yield(g, (void *)r->from);
        return 0;
    }
    intptr_t middle = (r->from + r->to) / 2;
    struct range half[2] = { { r->from, middle }, { middle, r->to } };
    for (int i = 0; i < 2; i++) {
        kc_gen_t inner;
        void *value;
        CHECK_EQ(kc_gen_start(&inner, numbers, &half[i], 0), 0);
        while (kc_gen_next(&inner, &value))
            kc_gen_yield(g, value);
        kc_gen_end(&inner);
    }
    return 0;
}

TEST(generators_nest)
{
    struct range all = { 0, 32 };
    kc_gen_t g;
    void *value;
    intptr_t n = 0;

    CHECK_EQ(kc_gen_start(&g, numbers, &all, 0), 0);
    for (; kc_gen_next(&g, &value); n++)
        CHECK_EQ((intptr_t)value, n);
    CHECK_EQ(n, 32);
    kc_gen_end(&g);
}

TEST(generators_take_turns)
{
    struct range r[2] = { { 0, 8 }, { 100, 108 } };
    kc_gen_t g[2];
    void *value;

    for (int i = 0; i < 2; i++)
        CHECK_EQ(kc_gen_start(&g[i], numbers, &r[i], 32768), 0);
    for (int n = 0; n < 8; n++)
        for (int i = 0; i < 2; i++) {
            CHECK(kc_gen_next(&g[i], &value));
            CHECK_EQ((intptr_t)value, 100 * i + n);
        }
    for (int i = 0; i < 2; i++) {
        CHECK(!kc_gen_next(&g[i], &value));
        kc_gen_end(&g[i]);
    }
}

/* ---- waiting inside ------------------------------------------------------------------------- */

static int waits_inside(kc_gen_t *g, void *arg)
{
    (void)arg;
    for (intptr_t i = 0; i < 3; i++) {
        CHECK_EQ(kc_sleep(KC_US(50)), 0);
        CHECK_EQ(kc_yield(), 0);
        kc_gen_yield(g, (void *)i);
    }
    return 0;
}

static int counts_turns(void *arg)
{
    count_t *n = arg;

    while (get(n) < 3)
        CHECK_EQ(kc_sleep(KC_US(20)), 0);
    add(n);
    return 0;
}

IN_A_JOB(a_wait_inside_a_generator_suspends_the_job_and_continues_inside)
{
    count_t n = 0;
    kc_gen_t g;
    void *value;
    kc_job_t *other = launch(counts_turns, &n, &(kc_launch_opts_t){ .affinity = KC_MAIN });

    CHECK_EQ(kc_gen_start(&g, waits_inside, NULL, 0), 0);
    for (intptr_t i = 0; i < 3; i++) {
        kc_time_t begin = kc_now();
        if (i == 2)
            set(&n, 3); /* others run meanwhile: this one can end now */
        CHECK(kc_gen_next(&g, &value));
        CHECK_EQ((intptr_t)value, i);
        CHECK_GE(kc_now() - begin, KC_US(50));
    }
    UNTIL(get(&n) == 4);
    CHECK(!kc_gen_next(&g, &value));
    kc_gen_end(&g);
    CHECK_EQ(kc_job_join(other), 0);
    kc_job_release(other);
    return 0;
}

static int hears_of_a_cancel(kc_gen_t *g, void *arg)
{
    add(arg);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    kc_gen_yield(g, NULL);
    CHECK_EQ(kc_check(), -ECANCELED);
    return 0;
}

struct owner {
    count_t in, out, ended;
};

static void ends_it(void *arg)
{
    kc_gen_end(arg);
}

static int owns_a_generator(void *arg)
{
    struct owner *o = arg;
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, hears_of_a_cancel, &o->in, 0), 0);
    KC_CLEANUP(ends_it, &g);
    CHECK(kc_gen_next(&g, NULL));
    CHECK(!kc_gen_next(&g, NULL));
    add(&o->ended);
    if (kc_yield() == -ECANCELED)
        add(&o->out);
    return 0;
}

IN_A_JOB(a_cancel_is_seen_inside_a_generator_and_unwinds_the_body_at_its_next_call)
{
    for (uint32_t flags = 0; flags <= KC_JOB_UNWIND; flags += KC_JOB_UNWIND) {
        struct owner o = { 0 };
        kc_job_t *j = launch(owns_a_generator, &o, &(kc_launch_opts_t){ .flags = flags });
        UNTIL(get(&o.in));
        CHECK(kc_job_cancel(j, 0));
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        CHECK_EQ(get(&o.ended), 1);
        CHECK_EQ(get(&o.out), flags ? 0 : 1);
        kc_job_release(j);
    }
    return 0;
}

static int keeps_it_open(void *arg)
{
    struct owner *o = arg;
    struct trail t = { .n = 0 };
    kc_gen_t g;

    now = &t;
    CHECK_EQ(kc_gen_start(&g, has_cleanups, &t, 0), 0);
    KC_CLEANUP(ends_it, &g);
    CHECK(kc_gen_next(&g, NULL));
    add(&o->in);
    int rc = kc_sleep(KC_FOREVER);
    add(&o->out);
    return rc;
}

IN_A_JOB(a_body_that_is_unwound_ends_its_generator_by_a_cleanup)
{
    struct owner o = { 0 };
    kc_job_t *j = launch(keeps_it_open, &o, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });

    UNTIL(get(&o.in));
    CHECK(kc_job_cancel(j, 0));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&o.out), 0);
    kc_job_release(j);
    return 0; /* its stack is given back: LeakSanitizer and the books say so */
}

static int tries_to_hop(kc_gen_t *g, void *arg)
{
    (void)g, (void)arg;
    CHECK_EQ(kc_hop(KC_MAIN), -EPERM);
    CHECK_EQ(kc_hop(KC_WORKER), -EPERM);
    return 0;
}

IN_A_JOB(a_generator_does_not_hop)
{
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, tries_to_hop, NULL, 0), 0);
    CHECK(!kc_gen_next(&g, NULL));
    kc_gen_end(&g);
    return 0;
}

static int takes_a_while(kc_gen_t *g, void *arg)
{
    (void)arg;
    CHECK_EQ(kc_sleep(KC_MS(1)), 0); /* blocks the thread */
    kc_gen_yield(g, NULL);
    return 0;
}

TEST(outside_a_job_a_wait_inside_a_generator_blocks_the_thread)
{
    kc_time_t begin = kc_now();
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, takes_a_while, NULL, 0), 0);
    CHECK(kc_gen_next(&g, NULL));
    CHECK_GE(kc_now() - begin, KC_MS(1));
    kc_gen_end(&g);
}

/* ---- edges ---------------------------------------------------------------------------------- */

static bool fail_all(const char *what)
{
    (void)what;
    return true;
}

TEST(bad_arguments_of_a_generator_are_einval)
{
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(NULL, begins, NULL, 0), -EINVAL);
    CHECK_EQ(kc_gen_start(&g, NULL, NULL, 0), -EINVAL);
}

TEST(a_generator_without_memory_is_enomem_and_may_be_ended)
{
    kc_gen_t g;

    kc__os_fault = fail_all;
    CHECK_EQ(kc_gen_start(&g, begins, NULL, 0), -ENOMEM);
    kc__os_fault = NULL;
    kc_gen_end(&g);
    CHECK_EQ(kc_gen_start(&g, begins, NULL, 0), 0);
    CHECK(kc_gen_next(&g, NULL));
    kc_gen_end(&g);
}

TEST_ABORTS(a_yield_outside_of_the_generator_aborts, "kc_gen_yield")
{
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, begins, NULL, 0), 0);
    kc_gen_yield(&g, NULL);
}

static int yields_for_another(kc_gen_t *g, void *arg)
{
    (void)g;
    kc_gen_yield(arg, NULL);
    return 0;
}

TEST_ABORTS(a_yield_for_another_generator_aborts, "kc_gen_yield")
{
    kc_gen_t g, other;

    CHECK_EQ(kc_gen_start(&other, begins, NULL, 0), 0);
    CHECK_EQ(kc_gen_start(&g, yields_for_another, &other, 0), 0);
    (void)kc_gen_next(&g, NULL);
}

static int asks_itself(kc_gen_t *g, void *arg)
{
    (void)arg;
    (void)kc_gen_next(g, NULL);
    return 0;
}

TEST_ABORTS(a_next_inside_the_generator_itself_aborts, "kc_gen_next")
{
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, asks_itself, NULL, 0), 0);
    (void)kc_gen_next(&g, NULL);
}

static int ends_itself(kc_gen_t *g, void *arg)
{
    (void)arg;
    kc_gen_end(g);
    return 0;
}

TEST_ABORTS(ending_a_generator_inside_itself_aborts, "kcoro_destroy")
{
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, ends_itself, NULL, 0), 0);
    (void)kc_gen_next(&g, NULL);
}

TEST_ABORTS(a_next_after_the_end_of_a_generator_aborts, "kc_gen_next")
{
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, begins, NULL, 0), 0);
    kc_gen_end(&g);
    (void)kc_gen_next(&g, NULL);
}

TEST_ABORTS(a_next_of_null_aborts, "kc_gen_next")
{
    (void)kc_gen_next(NULL, NULL);
}

TEST(an_end_of_null_is_einval)
{
    CHECK_EQ(kc_gen_end(NULL), -EINVAL);
}

static void *asks_from_another_thread(void *arg)
{
    (void)kc_gen_next(arg, NULL);
    return NULL;
}

TEST_ABORTS(a_next_on_another_thread_aborts, "kc_gen_next")
{
    kc_gen_t g;
    pthread_t thread;

    CHECK_EQ(kc_gen_start(&g, begins, NULL, 0), 0);
    CHECK(kc_gen_next(&g, NULL));
    CHECK_EQ(pthread_create(&thread, NULL, asks_from_another_thread, &g), 0);
    pthread_join(thread, NULL);
}
