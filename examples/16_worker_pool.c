/* SPDX-License-Identifier: MIT */
/*
 * 16_worker_pool.c - three workers share a channel of jobs and send what they find into another.
 * When one of them fails, the feeder, the other workers and the collector are cancelled.
 *
 * Prints:
 *   bad: 0, the sum is 285, after 30 ms
 *   bad: 5, error -5, after 20 ms
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>

enum { JOBS = 9, WORKERS = 3 };

struct pool {
    kc_chan_t *jobs, *results;
    int bad; /* the job that fails; 0: none */
    int sum;
};

static int worker(void *arg)
{
    struct pool *p = arg;
    int n, rc;

    while ((rc = kc_chan_recv(p->jobs, &n)) == 0) {
        if ((rc = kc_sleep(KC_MS(10))) == 0 && n == p->bad) /* the work */
            return -EIO;                                    /* cancels the rest of the scope */
        n *= n;
        if (rc != 0 || (rc = kc_chan_send(p->results, &n)) != 0)
            break;
    }
    return rc == -EPIPE ? 0 : rc; /* closed: there are no more jobs */
}

static int feed(void *jobs)
{
    int rc = 0;

    for (int n = 1; n <= JOBS && rc == 0; n++)
        rc = kc_chan_send(jobs, &n); /* waits while two are waiting there */
    kc_chan_close(jobs);
    return rc;
}

static int work_and_collect(void *arg)
{
    struct pool *p = arg;
    int n, rc = kc_launch(feed, p->jobs);
    for (int i = 0; i < WORKERS && rc == 0; i++)
        rc = kc_launch(worker, p);
    for (int i = 0; i < JOBS && rc == 0; i++)
        if ((rc = kc_chan_recv(p->results, &n)) == 0)
            p->sum += n;
    return rc;
}

static int root(void *bad)
{
    struct pool p = { .bad = *(int *)bad };
    kc_time_t start = kc_now(); /* virtual: the same every time */
    int rc = kc_chan_create(sizeof(int), 2, &p.jobs);

    if (rc == 0 && (rc = kc_chan_create(sizeof(int), 0, &p.results)) == 0)
        rc = kc_scope(work_and_collect, &p, NULL); /* all have ended */
    printf("bad: %d, %s %d, after %d ms\n", p.bad, rc == 0 ? "the sum is" : "error",
           rc == 0 ? p.sum : rc, (int)((kc_now() - start) / KC_MS(1)));
    kc_chan_release(p.jobs);
    kc_chan_release(p.results);
    return 0;
}

int main(void)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME };

    return kc_run(root, &(int){ 0 }, &opts) != 0 || kc_run(root, &(int){ 5 }, &opts) != 0;
}
