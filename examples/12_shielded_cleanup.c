/* SPDX-License-Identifier: MIT */
/*
 * 12_shielded_cleanup.c - what must not be torn apart is done under a shield: a cancel waits for
 * its end. Grace bounds that: after so long the shield holds nothing back any more.
 *
 * Prints:
 *    10 ms: quick is cancelled
 *    30 ms: quick has saved its work
 *    30 ms: quick says goodbye
 *    40 ms: quick has ended
 *    50 ms: slow is cancelled
 *   100 ms: slow has lost its work
 *   100 ms: slow says goodbye
 *   100 ms: slow has ended
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>

struct task {
    const char *name;
    kc_time_t saving;
};

static kc_time_t start;

static void say(const char *name, const char *does)
{
    printf("%3d ms: %s %s\n", (int)((kc_now() - start) / KC_MS(1)), name, does);
}

/* A deferred cleanup is shielded without being asked: it may wait. */
static void goodbye(void *arg)
{
    say(((struct task *)arg)->name, "says goodbye");
    (void)!kc_sleep(KC_MS(10)); /* a last message; -ECANCELED when the grace is over */
}

static int work(void *arg)
{
    struct task *task = arg;

    if (kc_defer(goodbye, task) != 0 || kc_shield_begin() != 0)
        return -ECANCELED;           /* the cancel came first */
    int rc = kc_sleep(task->saving); /* several steps that belong together */
    say(task->name, rc == 0 ? "has saved its work" : "has lost its work");
    kc_shield_end();
    return kc_check(); /* here the cancel takes effect */
}

static int cancel_it(struct task *task)
{
    kc_job_t *job;

    int rc = kc_launch_job(work, task, &(kc_launch_opts_t){ .grace = KC_MS(50) }, &job);
    if (rc != 0 || (rc = kc_sleep(KC_MS(10))) != 0)
        return rc;
    say(task->name, "is cancelled");
    kc_job_cancel(job, 0);
    (void)!kc_job_join(job); /* -ECANCELED: that is what became of it */
    say(task->name, "has ended");
    kc_job_release(job);
    return 0;
}

static int root(void *arg)
{
    struct task quick = { "quick", KC_MS(30) }, slow = { "slow", KC_SEC(3600) };

    (void)arg;
    start = kc_now();
    int rc = cancel_it(&quick);
    return rc == 0 ? cancel_it(&slow) : rc;
}

int main(void)
{
    return kc_run(root, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}
