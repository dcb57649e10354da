/* SPDX-License-Identifier: MIT */
/*
 * 25_libuv.c - a scheduler in the loop of libuv, and a timer of libuv made a wait of one's own.
 *
 * Needs: libuv
 * Prints:
 *   10 ms: 0
 *   days: connection timed out
 */
#include <errno.h>
#include <kcoro/kcoro.h>
#include <stdio.h>
#include <uv.h>

static void closed(uv_handle_t *timer) /* libuv is done with the memory: now it may go */
{
    kc_wake(timer->data, 0);
}

static void stop(uv_timer_t *timer)
{
    if (!uv_is_closing((uv_handle_t *)timer))
        uv_close((uv_handle_t *)timer, closed);
}

static void begin(kc_waker_t *waker, void *arg)
{
    uv_timer_t *timer = arg;
    const uint64_t *ms = timer->data;

    uv_timer_init(uv_default_loop(), timer);
    timer->data = waker;
    uv_timer_start(timer, stop, *ms, 0);
}

static void cancelled(kc_waker_t *waker, void *timer)
{
    (void)waker; /* closed() wakes it */
    stop(timer);
}

static int uv_wait(void *ms)
{
    int rc = kc_suspend(begin, cancelled, &(uv_timer_t){ .data = ms });

    return rc ? rc : kc_check(); /* it was stopped, if the job is cancelled */
}

static int root(void *poll)
{
    printf("10 ms: %d\n", uv_wait(&(uint64_t){ 10 }));
    printf("days: %s\n", uv_strerror(kc_with_timeout(KC_MS(20), uv_wait, &(uint64_t){ 1 << 30 })));
    uv_close(poll, NULL); /* libuv has nothing left to wait for: its loop ends */
    return 0;
}

static void pump(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    kc_sched_poll(poll->data, kc_now());
}

int main(void)
{
    uv_poll_t poll;
    kc_sched_t *s;

    if (kc_sched_create(&(kc_sched_opts_t){ .workers = KC_NO_WORKERS }, &s) != 0 ||
        kc_sched_submit(s, KC_MAIN, root, &poll) != 0 ||
        uv_poll_init(uv_default_loop(), &poll, kc_sched_fd(s)) != 0)
        return 1;
    poll.data = s;
    uv_poll_start(&poll, UV_READABLE, pump);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    return kc_sched_destroy(s);
}
