/* SPDX-License-Identifier: MIT */
/*
 * 09_scope_timeout.c - a scope may take 100 ms: what is not done by then is cancelled, and when the
 * scope has ended nothing of it is left.
 *
 * Time is virtual here, so that the program prints the same every time.
 *
 * Prints:
 *    40 ms: page 1 is there
 *    80 ms: page 2 is there
 *   100 ms: page 3 is given up
 *   100 ms: the time was over
 *   120 ms: the caller continues
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>

static kc_time_t start;

static void say(const char *text)
{
    printf("%3d ms: %s\n", (int)((kc_now() - start) / KC_MS(1)), text);
}

static int fetch(void *arg)
{
    int page = *(int *)arg;
    char text[32];

    int rc = kc_sleep(KC_MS(40) * page); /* the network; -ECANCELED when the scope is cancelled */
    snprintf(text, sizeof text, "page %d is %s", page, rc == 0 ? "there" : "given up");
    say(text);
    return rc;
}

static int fetch_all(void *pages)
{
    int rc = 0;

    for (int i = 0; i < 3 && rc == 0; i++)
        rc = kc_launch(fetch, (int *)pages + i); /* children of the scope */
    return rc;                                   /* the scope waits for them */
}

static int root(void *arg)
{
    int pages[] = { 1, 2, 3 };
    int rc;

    (void)arg;
    start = kc_now();
    rc = kc_scope(fetch_all, pages, &(kc_scope_opts_t){ .timeout = KC_MS(100) });
    say(rc == -ETIMEDOUT ? "the time was over" : "all came in time");
    rc = kc_sleep(KC_MS(20)); /* the scope was cancelled, the job around it is not */
    say("the caller continues");
    return rc;
}

int main(void)
{
    return kc_run(root, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}
