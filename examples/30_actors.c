/* SPDX-License-Identifier: MIT */
/*
 * 30_actors.c - actors with a supervisor each: an actor that fails is started again, at most twice,
 * and continues with its mailbox; the other actors do not notice. One place logs all failures.
 *
 * Prints:
 *   log: "wine" failed with -74: cannot add -7
 *   log: "wine" failed with -74: cannot add -8
 *   bread: 6, wine: 9
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>

static struct actor {
    kc_launch_opts_t opts;
    int mail[5], total;
    kc_chan_t *mailbox;
} bread = { .opts.name = "bread", .mail = { 1, 2, 3 } },
  wine = { .opts.name = "wine", .mail = { 5, -7, -8, 4 } };

static void log_failure(kc_job_t *job, int code, void *out)
{
    char text[128] = "";

    kc_job_message(job, text, sizeof text);
    fprintf(out, "log: \"%s\" failed with %d: %s\n", kc_job_name(job), code, text);
}

/* Adds up its mail until a 0 tells it to end. */
static int act(void *arg)
{
    struct actor *a = arg;
    int rc, number = 0;

    while ((rc = kc_chan_recv(a->mailbox, &number)) == 0 && number > 0)
        a->total += number;
    kc_set_message("cannot add %d", number); /* dropped unless the job fails */
    return number < 0 ? -EBADMSG : rc;
}

/* The mailbox belongs to the supervisor, and survives the actor. */
static int supervise(void *arg)
{
    struct actor *a = arg;
    kc_call_t call = { .fn = act, .arg = a, .opts = &a->opts };
    int rc, starts = 1;

    if (kc_chan_create(sizeof(int), 5, &a->mailbox) != 0)
        return -ENOMEM;
    for (int i = 0; i < 5; i++)
        kc_chan_try_send(a->mailbox, &a->mail[i]);
    while ((rc = kc_all(&call, 1, KC_SIG_NONE)) != 0 && rc != -ECANCELED && starts < 3)
        starts++; /* the failure of a call is a value: it cancels nothing */
    kc_chan_release(a->mailbox);
    return rc;
}

static int root(void *out)
{
    kc_call_t calls[] = { { .fn = supervise, .arg = &bread }, { .fn = supervise, .arg = &wine } };
    int rc = kc_all(calls, 2, KC_SIG_NONE);

    fprintf(out, "bread: %d, wine: %d\n", bread.total, wine.total);
    return rc;
}

int main(void)
{
    kc_sched_opts_t opts = { .on_failure = log_failure, .on_failure_arg = stdout };

    return kc_run(root, stdout, &opts);
}
