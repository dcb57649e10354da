/* SPDX-License-Identifier: MIT */
/*
 * 07_poll_loop.c - inside a host's event loop: poll(2) waits for the host's descriptors and for
 * the scheduler's.
 *
 * Prints:
 *   a task reads what the host received: hello
 *   a task woke up by itself
 */
#include <kcoro/kcoro.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char received[16];
static int tasks_done;

static int reads(void *arg)
{
    (void)arg;
    printf("a task reads what the host received: %s\n", received);
    tasks_done++;
    return 0;
}

static int sleeps(void *arg)
{
    (void)arg;
    if (kc_sleep(KC_MS(20)) != 0)
        return 1;
    printf("a task woke up by itself\n");
    tasks_done++;
    return 0;
}

int main(void)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };
    kc_sched_t *s;
    int pipe_fd[2];

    if (pipe(pipe_fd) != 0 || kc_sched_create(&opts, &s) != 0)
        return 1;
    struct pollfd fds[2] = { { .fd = pipe_fd[0], .events = POLLIN },
                             { .fd = kc_sched_fd(s), .events = POLLIN } };
    if (fds[1].fd < 0 || kc_sched_submit(s, KC_MAIN, sleeps, NULL) != 0)
        return 1;
    if (write(pipe_fd[1], "hello", 5) != 5)
        return 1;
    while (tasks_done < 2 && poll(fds, 2, 5000) > 0) {
        if (fds[0].revents && read(pipe_fd[0], received, sizeof received - 1) > 0)
            if (kc_sched_submit(s, KC_MAIN, reads, NULL) != 0)
                return 1;
        if (fds[1].revents)
            kc_sched_poll(s, kc_now());
    }
    return kc_sched_destroy(s);
}
