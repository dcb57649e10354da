/* SPDX-License-Identifier: MIT */
/*
 * thread_end_test.c - the thread that has made a scheduler ends (S10).
 */
#include "sched_kit.h"

static pthread_key_t key;

static void *makes_and_leaves(void *name)
{
    kc_sched_t *s;

    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = 1, .name = name }, &s), 0);
    return NULL;
}

static void on_thread(void *(*fn)(void *), void *arg)
{
    pthread_t t;

    CHECK_EQ(pthread_create(&t, NULL, fn, arg), 0);
    CHECK_EQ(pthread_join(t, NULL), 0);
}

TEST_ABORTS(a_thread_that_ends_before_the_scheduler_that_it_made_aborts,
            "a thread ended that has made a scheduler: kc_sched_destroy was not called (rule S10,")
{
    on_thread(makes_and_leaves, "lonely");
}

TEST_ABORTS(the_main_thread_may_not_end_by_pthread_exit_before_its_scheduler, "kc_sched_destroy")
{
    makes_and_leaves(NULL);
    pthread_exit(NULL);
}

static void destroys(void *s)
{
    end(s);
}

static void *leaves_it_to_a_destructor(void *arg)
{
    (void)arg;
    CHECK_EQ(pthread_setspecific(key, make(1, 0)), 0);
    return NULL;
}

TEST(a_destructor_of_the_thread_may_still_destroy_the_scheduler)
{
    CHECK(kcoro_create_main()); /* so that the library's own key is the older one */
    CHECK_EQ(pthread_key_create(&key, destroys), 0);
    on_thread(leaves_it_to_a_destructor, NULL);
}

static void *makes_and_destroys(void *arg)
{
    CHECK_EQ(kc_run(count_one, NULL, arg), 0);
    end(make(1, 0));
    return NULL;
}

TEST(a_thread_may_end_after_the_schedulers_that_it_made)
{
    on_thread(makes_and_destroys, NULL);
    CHECK_EQ(kc_load_relaxed(&counter), 1);
}
