/* SPDX-License-Identifier: MIT */
/*
 * 11_race.c - three mirrors are asked at once. The first answer wins, or the first good one; the
 * others are cancelled, clean up, and have ended when the call returns.
 *
 * Prints:
 *   the first answer, after 10 ms: paris
 *     berlin: Operation canceled
 *     paris: Connection refused
 *     tokyo: Operation canceled
 *     connections still open: 0
 *   the first good answer, after 20 ms: tokyo
 *     berlin: Operation canceled
 *     paris: Connection refused
 *     tokyo: says hello
 *     connections still open: 0
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct mirror {
    const char *name;
    kc_time_t delay;
    const char *answer; /* NULL: it is broken */
} mirrors[] = {
    { "berlin", KC_MS(30), "says hallo" },
    { "paris", KC_MS(10), NULL },
    { "tokyo", KC_MS(20), "says hello" },
};

static int connections;

static void hang_up(void *count)
{
    --*(int *)count;
}

static int ask(void *arg)
{
    struct mirror *m = arg;

    connections++;
    KC_CLEANUP(hang_up, &connections); /* on every path: answered, failed, cancelled */
    int rc = kc_sleep(m->delay);
    kc_set_payload((void *)m->answer);
    return rc == 0 && !m->answer ? -ECONNREFUSED : rc;
}

static void ask_all(const char *what, int (*first)(kc_call_t *calls, size_t n, size_t *winner))
{
    kc_call_t calls[3];
    size_t winner = 0;
    kc_time_t start = kc_now();

    for (int i = 0; i < 3; i++)
        calls[i] = (kc_call_t){ .fn = ask, .arg = &mirrors[i] };
    (void)!first(calls, 3, &winner); /* it returns the winner's rc */
    int ms = (int)((kc_now() - start) / KC_MS(1));
    printf("%s, after %d ms: %s\n", what, ms, mirrors[winner].name);
    for (int i = 0; i < 3; i++)
        printf("  %s: %s\n", mirrors[i].name,
               calls[i].rc == 0 ? (char *)calls[i].payload : strerror(-calls[i].rc));
    printf("  connections still open: %d\n", connections);
}

static int root(void *arg)
{
    (void)arg;
    ask_all("the first answer", kc_race);
    ask_all("the first good answer", kc_first_ok);
    return 0;
}

int main(void)
{
    return kc_run(root, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}
