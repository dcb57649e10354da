/* SPDX-License-Identifier: MIT */
/*
 * 20_condition.c - a lock and a condition guard the free seats of a bar. A guest whose patience is
 * over goes away without a seat, and takes nobody's turn. Time is virtual here.
 *
 * Prints:
 *    0 ms: anna has a seat
 *    0 ms: bert has a seat
 *   20 ms: carl goes away
 *   30 ms: dora has a seat
 *   50 ms: emil has a seat
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>

static struct {
    kc_mutex_t lock;
    kc_cond_t freed;
    int seats; /* free ones, under the lock */
} bar = { KC_MUTEX_NAMED("bar"), KC_COND_INIT, 2 };

static struct guest {
    const char *name;
    kc_time_t patience, stay;
} guests[] = {
    { "anna", KC_MS(90), KC_MS(30) }, { "bert", KC_MS(90), KC_MS(50) },
    { "carl", KC_MS(20), KC_MS(30) }, { "dora", KC_MS(90), KC_MS(30) },
    { "emil", KC_MS(90), KC_MS(30) },
};

/* A timeout cancels it; kc_cond_wait then returns with the lock, which is given back here. */
static int take_seat(void *arg)
{
    (void)arg;
    int rc = kc_mutex_lock(&bar.lock);
    if (rc != 0)
        return rc;
    while (rc == 0 && bar.seats == 0)
        rc = kc_cond_wait(&bar.freed, &bar.lock);
    if (rc == 0)
        bar.seats--;
    kc_mutex_unlock(&bar.lock);
    return rc;
}

static int visit(void *arg)
{
    struct guest *g = arg;
    kc_time_t start = kc_now();
    int rc = kc_with_timeout(g->patience, take_seat, NULL);

    printf("%2d ms: %s %s\n", (int)((kc_now() - start) / KC_MS(1)), g->name,
           rc == 0 ? "has a seat" : "goes away");
    if (rc != 0)
        return rc == -ETIMEDOUT ? 0 : rc;
    rc = kc_sleep(g->stay);
    kc_mutex_lock_nocancel(&bar.lock); /* the seat goes back, whatever happens */
    bar.seats++;
    kc_cond_signal(&bar.freed);
    kc_mutex_unlock(&bar.lock);
    return rc;
}

static int root(void *arg)
{
    kc_launch_opts_t now = { .flags = KC_JOB_NOW }; /* in this order */
    int rc = 0;

    (void)arg;
    for (int i = 0; i < 5 && rc == 0; i++)
        rc = kc_launch_job(visit, &guests[i], &now, NULL);
    return rc;
}

int main(void)
{
    return kc_run(root, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}
