/* SPDX-License-Identifier: MIT */
/*
 * sched_stress.c - many foreign threads submit tasks to four workers: none is lost, none doubled.
 *
 * Every task has a cell of its own, which it marks; what runs twice or not at all shows in its
 * mark. Some tasks yield, sleep or hop on the way.
 *
 *     KC_STRESS_TASKS=10000000 build/release/test/sched_stress
 */
#include "harness.h"
#include "sched/sched.h"

#include <kcoro/kcoro.h>

#include <pthread.h>
#include <stdlib.h>

enum { SENDERS = 16 };

struct cell {
    KC_ATOMIC(uint32_t) mark;
};

static struct cell *cells;
static long tasks;
static KC_ATOMIC(long) ended;

struct sender {
    kc_sched_t *s;
    long first, last;
    uint64_t random;
};

static int task(void *arg)
{
    struct cell *cell = arg;
    long number = cell - cells;

    if (number % 64 == 0)
        kc_yield();
    if (number % 4096 == 1)
        CHECK_EQ(kc_sleep(KC_US(10)), 0);
    if (number % 512 == 2)
        CHECK_EQ(kc_hop(KC_WORKER_AT(number / 512 % 4)), 0);
    kc_add_relaxed(&cell->mark, 1);
    kc_add_relaxed(&ended, 1);
    return 0;
}

static void *thread_sends(void *arg)
{
    struct sender *sender = arg;

    for (long i = sender->first; i < sender->last; i++) {
        uint64_t r = kc_test_random(&sender->random) % 16;
        kc_affinity_t where = r < 2 ? KC_MAIN : r < 4 ? KC_WORKER_AT((int)(r % 4)) : KC_WORKER;
        CHECK_EQ(kc_sched_submit(sender->s, where, task, &cells[i]), 0);
    }
    return NULL;
}

static int waits_for_all(void *arg)
{
    (void)arg;
    while (kc_load_relaxed(&ended) < tasks)
        CHECK_EQ(kc_sleep(KC_US(100)), 0);
    return 0;
}

TEST_SLOW(sixteen_threads_submit_to_four_workers_and_every_task_runs_once, 300000)
{
    const char *text = getenv("KC_STRESS_TASKS");
    kc_sched_opts_t opts = { .workers = 4, .flags = KC_SCHED_MAIN_WORKS };
    struct sender sender[SENDERS];
    pthread_t thread[SENDERS];
    kc_sched_t *s = NULL;

    /* With AddressSanitizer a task costs some 80 us, two thirds of it in the kernel. */
    tasks = text                                           ? strtol(text, NULL, 10)
            : kc_test_under_tsan() || kc_test_under_asan() ? 100000
                                                           : 400000;
    cells = calloc((size_t)tasks, sizeof *cells);
    CHECK(cells != NULL);
    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    CHECK_EQ(kc_sched_submit(s, KC_MAIN, waits_for_all, NULL), 0);
    for (int i = 0; i < SENDERS; i++) {
        sender[i] = (struct sender){ s, tasks / SENDERS * i,
                                     i == SENDERS - 1 ? tasks : tasks / SENDERS * (i + 1),
                                     kc_test_seed() + (uint64_t)i };
        CHECK_EQ(pthread_create(&thread[i], NULL, thread_sends, &sender[i]), 0);
    }
    CHECK_EQ(kc_sched_run(s), 0);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ(kc_sched_destroy(s), 0);
    for (long i = 0; i < tasks; i++)
        CHECK_EQ(kc_load_relaxed(&cells[i].mark), 1);
    free(cells);
}
