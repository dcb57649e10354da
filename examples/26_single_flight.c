/* SPDX-License-Identifier: MIT */
/*
 * 26_single_flight.c - a cache that loads each key once, however many ask meanwhile. A failure goes
 * to all waiters, harms no other job, and is not kept: a later caller tries again.
 *
 * Prints:
 *   two want apples: 7 and 7, loaded 1 time(s)
 *   two want pears: Connection refused, loaded 1 time(s)
 *   two want pears: 9 and 9, loaded 2 time(s)
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct entry {
    const char *key;
    int value, failures, loads;
    kc_deferred_t *flight; /* loads it, or has */
} cache[] = { { .key = "apples", .value = 7 }, { .key = "pears", .value = 9, .failures = 1 } };

static kc_job_t *loaders; /* outlives the callers */

static int load(void *arg)
{
    struct entry *e = arg;

    e->loads++;
    kc_set_payload(&e->value);
    int rc = kc_sleep(KC_MS(10)); /* asks a disk, say */
    return rc == 0 && e->failures-- > 0 ? -ECONNREFUSED : rc;
}

static int get(void *arg)
{
    struct entry *e = arg;
    kc_launch_opts_t opts = { .parent = loaders, .flags = KC_JOB_ALONE, .name = e->key };
    int rc = e->flight ? 0 : kc_async_job(load, e, &opts, &e->flight);

    if (rc != 0)
        return rc;
    void *value;
    kc_deferred_t *flight = kc_deferred_retain(e->flight);
    rc = kc_await(flight, &value);
    kc_set_payload(value);
    if (kc_deferred_state(flight) == KC_DEFERRED_FAILED && e->flight == flight) {
        kc_deferred_release(flight);
        e->flight = NULL;
    }
    kc_deferred_release(flight);
    return rc;
}

static int root(void *arg)
{
    if (kc_group_create(arg, &loaders) != 0)
        return -ENOMEM;
    KC_JOB_DROP_AT_END(loaders);
    for (int i = 0; i < 3; i++) {
        struct entry *e = &cache[i > 0];
        kc_call_t calls[] = { { .fn = get, .arg = e }, { .fn = get, .arg = e } };
        printf("two want %s: ", e->key);
        int rc = kc_all(calls, 2, KC_SIG_NONE);
        if (rc != 0)
            printf("%s", strerror(-rc));
        else
            printf("%d and %d", *(int *)calls[0].payload, *(int *)calls[1].payload);
        printf(", loaded %d time(s)\n", e->loads);
    }
    for (int i = 0; i < 2; i++)
        kc_deferred_release(cache[i].flight);
    return 0;
}

int main(void)
{
    return kc_run(root, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}
