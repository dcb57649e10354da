/* SPDX-License-Identifier: MIT */
/*
 * 21_select.c - one reader of two sources, one of which has ended. Time is virtual here.
 *
 * Prints:
 *    20 ms: sensor 1
 *    30 ms: door 1
 *    40 ms: sensor 2
 *    40 ms: the sensor has ended
 *    70 ms: nothing for 30 ms
 *    90 ms: door 2
 *    90 ms: the door has ended
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>

struct source {
    const char *name;
    kc_time_t pause[2]; /* before each event */
    kc_chan_t *events;
};

static int send_events(void *arg)
{
    struct source *s = arg;
    int rc = 0;

    for (int n = 1; n <= 2 && rc == 0; n++)
        if ((rc = kc_sleep(s->pause[n - 1])) == 0)
            rc = kc_chan_send(s->events, &n);
    kc_chan_close(s->events);
    return rc;
}

static int watch(void *arg)
{
    struct source *s = arg;
    kc_time_t start = kc_now();
    int n, rc = 0;
    kc_case_t cases[] = { { KC_RECV, s[0].events, &n, 0 }, { KC_RECV, s[1].events, &n, 0 } };

    for (int i = 0; i < 2 && rc == 0; i++)
        rc = kc_launch(send_events, &s[i]);
    while (rc == 0 && (cases[0].chan || cases[1].chan)) {
        int i = kc_select(cases, 2, KC_MS(30));
        printf("%3d ms: ", (int)((kc_now() - start) / KC_MS(1)));
        if (i == -ETIMEDOUT) {
            printf("nothing for 30 ms\n");
        } else if (i < 0) {
            rc = i; /* cancelled */
        } else if (cases[i].rc == 0) {
            printf("%s %d\n", s[i].name, n);
        } else { /* -EPIPE, as it would be every time from now on */
            printf("the %s has ended\n", s[i].name);
            cases[i].chan = NULL;
        }
    }
    return rc;
}

static int root(void *arg)
{
    struct source s[] = { { "sensor", { KC_MS(20), KC_MS(20) }, NULL },
                          { "door", { KC_MS(30), KC_MS(60) }, NULL } };
    int rc = kc_chan_create(sizeof(int), 0, &s[0].events);

    (void)arg;
    if (rc == 0 && (rc = kc_chan_create(sizeof(int), 0, &s[1].events)) == 0)
        rc = kc_scope(watch, s, NULL);
    kc_chan_release(s[0].events);
    kc_chan_release(s[1].events);
    return rc;
}

int main(void)
{
    return kc_run(root, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}
