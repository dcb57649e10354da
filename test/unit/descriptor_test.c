/* SPDX-License-Identifier: MIT */
/*
 * descriptor_test.c - the end of a scheduler that has a descriptor: whoever wakes its main thread
 * meanwhile writes to that before it is closed, or not at all. Its number may be another file's
 * then.
 *
 * By way of the linker's --wrap a foreign thread is held up at the worst moment.
 */
#include "base/os.h"
#include "sched_kit.h"

#include <kcoro/job.h>

enum { NOWHERE, BEFORE_THE_LOOK, BEFORE_THE_WRITE };

static __thread int held_up; /* where this thread is */
static KC_ATOMIC(int) waits, ended, late;
static kc_lease_t lease;

/* Until the scheduler is gone, or for a moment if it waits for this thread. */
static void hold_up(void)
{
    kc_store_release(&waits, 1);
    for (kc_time_t until = kc__os_now() + KC_MS(20);
         !kc_load_acquire(&ended) && kc__os_now() < until;)
        sched_yield();
}

void __real_kc__worker_wake(kc_worker_t *w);
void __wrap_kc__worker_wake(kc_worker_t *w);
void __real_kc__sched_signal_fd(kc_sched_t *s);
void __wrap_kc__sched_signal_fd(kc_sched_t *s);

void __wrap_kc__worker_wake(kc_worker_t *w)
{
    if (held_up == BEFORE_THE_LOOK)
        hold_up();
    __real_kc__worker_wake(w);
}

void __wrap_kc__sched_signal_fd(kc_sched_t *s)
{
    if (held_up == BEFORE_THE_WRITE)
        hold_up();
    if (kc_load_acquire(&ended))
        kc_store_release(&late, 1);
    else
        __real_kc__sched_signal_fd(s);
}

static void *releases_the_lease(void *arg)
{
    held_up = *(int *)arg;
    kc_lease_release(&lease);
    held_up = NOWHERE;
    return NULL;
}

static void ends_while_held_up(int where)
{
    kc_sched_t *s = make(KC_NO_WORKERS, 0);
    kc_job_t *group;
    pthread_t thread;

    CHECK_GE(kc_sched_fd(s), 0);
    CHECK_EQ(kc_group_create(&(kc_launch_opts_t){ .sched = s }, &group), 0);
    CHECK_EQ(kc_lease_take(group, &lease), 0);
    CHECK_EQ(kc_group_close(group), 0);
    CHECK_EQ(pthread_create(&thread, NULL, releases_the_lease, &where), 0);
    while (!kc_load_acquire(&waits))
        sched_yield();
    end(s);
    kc_store_release(&ended, 1);
    pthread_join(thread, NULL);
    CHECK_EQ(kc_load_acquire(&late), 0);
    kc_job_release(group);
}

TEST(destroy_waits_for_a_thread_that_writes_to_its_descriptor)
{
    ends_while_held_up(BEFORE_THE_WRITE);
}

TEST(after_destroy_nobody_writes_to_its_descriptor)
{
    ends_while_held_up(BEFORE_THE_LOOK);
}
