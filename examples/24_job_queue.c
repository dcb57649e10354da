/* SPDX-License-Identifier: MIT */
/*
 * 24_job_queue.c - a queue of work with retries, and a shutdown that is graceful and bounded: what
 * is queued has 100 ms, then what is in work is told to stop, and has 30 ms to save what it has.
 *
 * Prints:
 *   mail: done, attempt 3
 *   poll: given up, attempt 3
 *   film: stopped, and saved
 *   song: stopped, and could not save in time
 *   the end after 130 ms
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>

static struct task {
    const char *name;
    int takes, saving, failures; /* ms, ms, and a number of failed attempts */
} tasks[4] = {
    { "mail", 5, 0, 2 }, { "poll", 10, 0, 9 }, { "film", 9000, 10, 0 }, { "song", 9000, 1000, 0 }
};

static int work(struct task *t)
{
    int rc = kc_sleep(KC_MS(t->takes));

    return rc == 0 && t->failures-- > 0 ? -EBUSY : rc;
}

static int worker(void *queue)
{
    for (struct task *t; kc_chan_recv(queue, &t) == 0;) {
        int rc, attempt = 1;
        while ((rc = work(t)) == -EBUSY && attempt < 3 && (rc = kc_sleep(KC_MS(5))) == 0)
            attempt++;
        if (rc == -ECANCELED) {
            kc_shield_begin_nocancel(); /* inside, waits work again, until the grace is over */
            rc = kc_sleep(KC_MS(t->saving));
            kc_shield_end();
            printf("%s: stopped, and %s\n", t->name, rc == 0 ? "saved" : "could not save in time");
        } else {
            printf("%s: %s, attempt %d\n", t->name, rc == 0 ? "done" : "given up", attempt);
        }
    }
    return 0;
}

static int root(void *queue)
{
    kc_time_t start = kc_now();
    kc_job_t *pool;

    if (kc_group_create(&(kc_launch_opts_t){ .grace = KC_MS(30) }, &pool) != 0)
        return -ENOMEM;
    KC_JOB_DROP_AT_END(pool);
    if (kc_launch_job(worker, queue, &(kc_launch_opts_t){ .parent = pool }, NULL) != 0 ||
        kc_launch_job(worker, queue, &(kc_launch_opts_t){ .parent = pool }, NULL) != 0)
        return -ENOMEM;
    for (struct task *t = tasks; t < tasks + 4; t++)
        kc_chan_try_send(queue, &t);
    kc_chan_close(queue);
    kc_group_close(pool);
    if (kc_job_join_until(pool, start + KC_MS(100)) == -ETIMEDOUT)
        kc_job_cancel(pool, -ESHUTDOWN);
    int rc = kc_job_join(pool);
    printf("the end after %d ms\n", (int)((kc_now() - start) / KC_MS(1)));
    kc_chan_release(queue);
    return rc == -ESHUTDOWN ? 0 : rc;
}

int main(void)
{
    kc_chan_t *queue;
    int rc = kc_chan_create(sizeof(struct task *), 5, &queue);

    return rc != 0 ? rc
                   : kc_run(root, queue, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}
