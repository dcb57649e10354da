/* SPDX-License-Identifier: MIT */
/*
 * 17_rate_limiter.c - ten requests a second, and three at once after a pause: a channel of bare
 * events holds the permits, and a ticker puts one in every 100 ms unless it is full.
 *
 * Time is virtual here, so that the program prints the same every time.
 *
 * Prints:
 *      0 ms: 3 requests
 *    100 ms: 1 request
 *    200 ms: 1 request
 *   1050 ms: 3 requests
 *   1100 ms: 1 request
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>

enum { BURST = 3 };

static kc_time_t start;

static int ticker(void *permits)
{
    kc_time_t next = kc_now();
    int rc = 0;

    while (rc == 0 && (rc = kc_sleep_until(next += KC_MS(100))) == 0)
        if (kc_chan_try_send(permits, NULL) == -EPIPE) /* -EAGAIN: there are as many as may be */
            break;
    return rc;
}

/* Waits for a permit for each. */
static int request(kc_chan_t *permits, int count)
{
    int rc = 0;

    for (int i = 0; i < count && rc == 0; i++)
        rc = kc_chan_recv(permits, NULL);
    if (rc == 0)
        printf("%4d ms: %d request%s\n", (int)((kc_now() - start) / KC_MS(1)), count,
               count > 1 ? "s" : "");
    return rc;
}

static int requests(void *permits)
{
    int rc = kc_launch(ticker, permits);

    if (rc != 0 || (rc = request(permits, BURST)) != 0 || (rc = request(permits, 1)) != 0 ||
        (rc = request(permits, 1)) != 0 || (rc = kc_sleep(KC_MS(850))) != 0 ||
        (rc = request(permits, BURST)) != 0) /* no more have come in those 850 ms */
        return rc;
    rc = request(permits, 1);
    kc_chan_close(permits); /* the ticker sees it, and ends */
    return rc;
}

static int root(void *arg)
{
    kc_chan_t *permits = NULL;

    (void)arg;
    start = kc_now();
    int rc = kc_chan_create(0, BURST, &permits);
    for (int i = 0; i < BURST && rc == 0; i++)
        rc = kc_chan_send(permits, NULL);
    if (rc == 0)
        rc = kc_scope(requests, permits, NULL);
    kc_chan_release(permits);
    return rc;
}

int main(void)
{
    return kc_run(root, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}
