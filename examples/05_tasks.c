/* SPDX-License-Identifier: MIT */
/*
 * 05_tasks.c - a root task spreads work over the workers and waits for the last piece.
 *
 * Prints:
 *   the sum of 1 to 100000 is 5000050000
 */
#include <kcoro/kcoro.h>

#include <stdatomic.h>
#include <stdio.h>

enum { PIECES = 100, EACH = 1000 };

struct job {
    kcoro_t *waiter;
    atomic_int left;
    atomic_long sum;
};

struct piece {
    struct job *job;
    long first;
};

static int add_up(void *arg)
{
    struct piece *p = arg;
    struct job *job = p->job;

    kcoro_t *waiter = job->waiter;

    for (long i = p->first; i < p->first + EACH; i++)
        atomic_fetch_add(&job->sum, i);
    if (atomic_fetch_sub(&job->left, 1) == 1) { /* the last; from now on *job may be gone */
        kcoro_unpark(waiter);                   /* from whatever thread */
        kcoro_release(waiter);
    }
    return 0;
}

static int root(void *arg)
{
    struct piece piece[PIECES];
    struct job job = { .waiter = kcoro_retain(kcoro_current()), .left = PIECES };

    (void)arg;
    for (int i = 0; i < PIECES; i++) {
        piece[i] = (struct piece){ &job, 1 + (long)i * EACH };
        if (kc_sched_submit(kc_sched_current(), KC_WORKER, add_up, &piece[i]) != 0)
            return 1;
    }
    while (atomic_load(&job.left) > 0)
        kcoro_park();
    printf("the sum of 1 to %d is %ld\n", PIECES * EACH, atomic_load(&job.sum));
    return 0;
}

int main(void)
{
    return kc_run(root, NULL, NULL);
}
