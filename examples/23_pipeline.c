/* SPDX-License-Identifier: MIT */
/*
 * 23_pipeline.c - a pipeline in which any stage may fail. What was made before the failure still
 * arrives; then the stages on both sides get its code, and end.
 *
 * Prints:
 *   2 4 5 and that is all
 *   2 and Bad message
 *   2 4 and Connection reset by peer
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct stage {
    int (*work)(int *value);
    kc_chan_t *in, *out;
};

static int run_stage(void *arg)
{
    struct stage *s = arg;
    int rc = 0;

    for (int value; rc == 0;)
        if ((rc = s->in ? kc_chan_recv(s->in, &value) : 0) == 0 && (rc = s->work(&value)) == 0)
            rc = s->out ? kc_chan_send(s->out, &value) : 0;
    if (s->in)
        kc_chan_close_with(s->in, rc); /* -EPIPE is the plain end, all else is why it broke off */
    if (s->out)
        kc_chan_close_with(s->out, rc);
    return rc == -EPIPE ? 0 : rc;
}

static const int *numbers;

static int source(int *value)
{
    return *numbers < 0 ? *numbers : (*value = *numbers++, 0); /* -EPIPE: no more */
}

static int halve(int *value)
{
    return *value % 2 != 0 ? -EBADMSG : (*value /= 2, 0);
}

static int sink(int *value)
{
    return printf("%d ", *value) < 0 ? -EIO : 0;
}

static int root(void *runs)
{
    for (int run = 0; run < 3; run++) {
        struct stage stages[3] = { { .work = source }, { .work = halve }, { .work = sink } };
        kc_call_t calls[3];
        numbers = ((int(*)[4])runs)[run];
        for (int i = 0; i < 3; i++) {
            calls[i] = (kc_call_t){ .fn = run_stage, .arg = &stages[i] };
            if (i > 0 && kc_chan_create(sizeof(int), 1, &stages[i].in) != 0)
                return -ENOMEM;
            if (i > 0)
                stages[i - 1].out = stages[i].in;
        }
        int rc = kc_all(calls, 3, KC_SIG_NONE); /* a failure of one cancels nobody */
        printf("and %s\n", rc == 0 ? "that is all" : strerror(-rc));
        for (int i = 1; i < 3; i++)
            kc_chan_release(stages[i].in);
    }
    return 0;
}

int main(void)
{
    int runs[][4] = { { 4, 8, 10, -EPIPE }, { 4, 7, 10, -EPIPE }, { 4, 8, -ECONNRESET } };

    return kc_run(root, runs, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}
