/* SPDX-License-Identifier: MIT */
/*
 * worker_test.c - the checker of a worker: it accepts what happens, and nothing that must not.
 */
#include "sched/worker.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <string.h>

static kc_sched_t *sched;
static kc_worker_t *w;

static void open_scheduler(void)
{
    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = KC_NO_WORKERS }, &sched), 0);
    w = sched->main;
}

static void close_scheduler(void)
{
    CHECK(kc__worker_is_legal(w));
    CHECK_EQ(kc_sched_destroy(sched), 0);
}

/* A coroutine and a task that look like those of a scheduler. */
static void make(kcoro_t *co, kc_task_t *task)
{
    memset(co, 0, sizeof *co);
    memset(task, 0, sizeof *task);
    kc_store_relaxed(&co->block.magic, KC_CORO_MAGIC);
    kc_store_relaxed(&co->block.flags, KC_CORO_TASK);
    kc_store_relaxed(&co->state, KCORO_SUSPENDED);
    kc_store_relaxed(&task->block.magic, KC_TASK_MAGIC);
}

TEST(a_worker_with_filled_queues_is_legal)
{
    kcoro_t co[2];
    kc_task_t task[2];

    open_scheduler();
    CHECK(kc__worker_is_legal(w));
    for (int i = 0; i < 2; i++) {
        make(&co[i], &task[i]);
        kc__queue_push(&w->ready, &co[i].block);
        kc__queue_push(&w->unstarted, &task[i].block);
        CHECK(kc__worker_is_legal(w));
    }
    for (int i = 0; i < 2; i++) {
        (void)kc__queue_pop(&w->ready);
        (void)kc__queue_pop(&w->unstarted);
        CHECK(kc__worker_is_legal(w));
    }
    close_scheduler();
}

TEST(a_queue_that_disagrees_with_its_count_is_found)
{
    kcoro_t co;
    kc_task_t task;

    open_scheduler();
    make(&co, &task);
    w->ready.count = 1;
    CHECK(!kc__worker_is_legal(w));
    w->ready.count = 0;
    kc__queue_push(&w->ready, &co.block);
    w->ready.count = 2;
    CHECK(!kc__worker_is_legal(w));
    w->ready.count = 1;
    w->ready.tail = NULL;
    CHECK(!kc__worker_is_legal(w));
    w->ready.tail = w->ready.head;
    (void)kc__queue_pop(&w->ready);
    w->own_stack.count = 1;
    CHECK(!kc__worker_is_legal(w));
    w->own_stack.count = 0;
    close_scheduler();
}

TEST(what_does_not_belong_into_a_queue_is_found)
{
    kcoro_t co;
    kc_task_t task;

    open_scheduler();
    make(&co, &task);
    kc__queue_push(&w->ready, &task.block); /* R1: it has not started */
    CHECK(!kc__worker_is_legal(w));
    (void)kc__queue_pop(&w->ready);
    kc__queue_push(&w->unstarted, &co.block); /* R1: it has */
    CHECK(!kc__worker_is_legal(w));
    (void)kc__queue_pop(&w->unstarted);
    kc__queue_push(&w->ready, &co.block);
    kc_store_relaxed(&co.state, KCORO_RUNNING); /* R1 */
    CHECK(!kc__worker_is_legal(w));
    kc_store_relaxed(&co.state, KCORO_SUSPENDED);
    kc_store_relaxed(&co.block.flags, 0); /* R1: no scheduler's */
    CHECK(!kc__worker_is_legal(w));
    (void)kc__queue_pop(&w->ready);
    close_scheduler();
}

TEST(a_worker_in_a_wrong_state_is_found)
{
    open_scheduler();
    w->index = 0; /* R2 */
    CHECK(!kc__worker_is_legal(w));
    w->index = KC_MAIN;
    w->works = false; /* R2: who is alone works */
    CHECK(!kc__worker_is_legal(w));
    w->works = true;
    w->budget = 0; /* R3 */
    CHECK(!kc__worker_is_legal(w));
    w->budget = KC_BUDGET + 1;
    CHECK(!kc__worker_is_legal(w));
    w->budget = KC_BUDGET;
    w->timers.count = 1; /* R4 */
    CHECK(!kc__worker_is_legal(w));
    w->timers.count = 0;
    close_scheduler();
}
