/* SPDX-License-Identifier: MIT */
/*
 * 28_hedged_mirrors.c - the next mirror is asked when the one before has not answered for 20 ms, or
 * at once when it fails. The first good answer wins; the connections of all others are closed.
 *
 * Prints:
 *   0 ms: berlin is asked
 *   20 ms: paris is asked
 *   25 ms: tokyo is asked
 *   35 ms: tokyo says hello, 1 open connection
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>

static struct mirror {
    const char *name;
    kc_time_t delay;
    const char *answer; /* NULL: it is broken */
    kc_event_t asked, failed;
} mirrors[] = { { .name = "berlin", .delay = KC_MS(90), .answer = "hallo" },
                { .name = "paris", .delay = KC_MS(5) },
                { .name = "tokyo", .delay = KC_MS(10), .answer = "hello" },
                { .name = "delhi", .delay = KC_MS(10), .answer = "namaste" } };

static int open_connections;

static void hang_up(void *mirror)
{
    (void)mirror;
    open_connections--;
}

static void tell(struct mirror *m, const char *what)
{
    printf("%d ms: %s %s", (int)(kc_now() / KC_MS(1)), m->name, what);
}

static int ask(void *arg)
{
    struct mirror *m = arg;
    int rc = m == mirrors ? 0 : kc_event_wait(&m[-1].asked);

    if (rc == 0 && m != mirrors)
        rc = kc_event_wait_until(&m[-1].failed, kc_now() + KC_MS(20));
    if (rc == -ECANCELED)
        return rc;
    kc_event_set(&m->asked);
    tell(m, "is asked\n");
    open_connections++;
    kc_set_payload_with(m, hang_up); /* for the winner to use; of all others it is closed */
    rc = kc_sleep(m->delay);
    if (rc != 0 || m->answer)
        return rc;
    kc_event_set(&m->failed);
    return -ECONNREFUSED;
}

static int root(void *arg)
{
    kc_call_t calls[4];
    size_t winner;

    (void)arg;
    for (int i = 0; i < 4; i++)
        calls[i] = (kc_call_t){ .fn = ask, .arg = &mirrors[i] };
    if (kc_first_ok(calls, 4, &winner) != 0)
        return -EIO;
    struct mirror *m = calls[winner].payload;
    tell(m, "says ");
    printf("%s, %d open connection\n", m->answer, open_connections);
    hang_up(m);
    return 0;
}

int main(void)
{
    return kc_run(root, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}
