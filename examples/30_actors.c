/* SPDX-License-Identifier: MIT */
/*
 * 30_actors.c - actors with a supervisor: one that fails is started again, at most twice, and goes
 * on with its mailbox; the others hear nothing of it. One place logs all failures.
 *
 * Prints:
 *   log: "wine" failed (Bad message): cannot add -7
 *   log: "wine" failed (Bad message): cannot add -8
 *   bread: 6, wine: 9
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct actor {
    const char *name;
    int mail[5], total, failures;
    kc_chan_t *mailbox;
} bread = { .name = "bread", .mail = { 1, 2, 3 } },
  wine = { .name = "wine", .mail = { 5, -7, -8, 4 } };

static void log_failure(kc_job_t *job, int code, void *arg)
{
    char text[128] = "";

    (void)arg;
    kc_job_message(job, text, sizeof text);
    printf("log: \"%s\" failed (%s): %s\n", kc_job_name(job), strerror(-code), text);
}

static int act(void *arg)
{
    struct actor *a = arg;
    int rc, number;

    while ((rc = kc_chan_recv(a->mailbox, &number)) == 0 && number > 0)
        a->total += number;
    if (rc != 0 || number == 0)
        return rc; /* told to end */
    kc_set_message("cannot add %d", number);
    return -EBADMSG;
}

static int start(struct actor *a, kc_job_t **job)
{
    return kc_launch_job(act, a, &(kc_launch_opts_t){ .flags = KC_JOB_ALONE, .name = a->name },
                         job);
}

static int root(void *out)
{
    struct actor *up[] = { &bread, &wine };
    kc_job_t *jobs[2];

    for (int i = 0; i < 2; i++) {
        if (kc_chan_create(sizeof(int), 5, &up[i]->mailbox) != 0 || start(up[i], &jobs[i]) != 0)
            return -ENOMEM;
        for (int k = 0; k < 5; k++)
            kc_chan_try_send(up[i]->mailbox, &up[i]->mail[k]);
    }
    for (size_t i, n = 2; n > 0 && kc_join_any(jobs, n, &i) == 0;) {
        bool again = kc_job_state(jobs[i]) == KC_JOB_FAILED && up[i]->failures++ < 2;
        kc_job_release(jobs[i]);
        if (!again || start(up[i], &jobs[i]) != 0)
            jobs[i] = jobs[--n], up[i] = up[n];
    }
    fprintf(out, "bread: %d, wine: %d\n", bread.total, wine.total);
    kc_chan_release(bread.mailbox);
    kc_chan_release(wine.mailbox);
    return 0;
}

int main(void)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME, .on_failure = log_failure };

    return kc_run(root, stdout, &opts);
}
