/* SPDX-License-Identifier: MIT */
/*
 * 32_who_waits.c - a shop that hangs, and the dump that says why: what each job waits for, by
 * name, and its owner. Here without stacks, addresses and numbers, which differ.
 *
 * Prints:
 *   kcoro: scheduler "shop", 0 workers, 4 jobs
 *     job, ACTIVE, runs on the main thread, 3 below
 *       job "till", age 1.000 s, ACTIVE, says "counting", waits for sleep, holds a mutex "cash"
 *       job "clerk", age 1.000 s, ACTIVE, waits for a mutex "cash", owned by job "till"
 *       job "cook", age 1.000 s, ACTIVE, waits for a receive from channel "orders"
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static kc_mutex_t cash = KC_MUTEX_NAMED("cash");

static int count(void *message)
{
    int rc = kc_mutex_lock(&cash);

    if (rc != 0)
        return rc;
    KC_UNLOCK_AT_END(&cash);
    kc_set_message("%s", (char *)message);
    return kc_sleep(KC_SEC(60));
}

static int cook(void *orders)
{
    int rc = kc_chan_recv(orders, NULL);

    kc_chan_release(orders);
    return rc == -EPIPE ? 0 : rc;
}

static void print_plain(FILE *dump)
{
    for (char line[512]; fgets(line, sizeof line, dump);)
        for (char *c = line; *c && strncmp(line + strspn(line, " "), "at 0x", 5) != 0; c++)
            if (strncmp(c, " at 0x", 6) == 0)
                c += 5 + strspn(c + 6, "0123456789abcdef");
            else if (strncmp(c, "job ", 4) == 0)
                c += 3 + strspn(c + 4, "0123456789"), fputs("job", stdout);
            else
                putchar(*c);
}

static int launch(kc_fn_t fn, void *arg, const char *name)
{
    return kc_launch_job(fn, arg, &(kc_launch_opts_t){ .flags = KC_JOB_NOW, .name = name }, NULL);
}

static int root(void *orders)
{
    FILE *dump = tmpfile();

    if (!dump || launch(count, "counting", "till") != 0 ||
        launch(count, "counting", "clerk") != 0 || launch(cook, orders, "cook") != 0 ||
        kc_sleep(KC_SEC(1)) != 0 || kc_dump(kc_sched_current(), dump) != 0)
        return 1;
    rewind(dump);
    print_plain(dump);
    fclose(dump);
    kc_chan_close(orders); /* the cook goes home; the others come to their end */
    return 0;
}

int main(void)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME, .name = "shop" };
    kc_chan_t *orders;

    if (kc_chan_create_with(&(kc_chan_opts_t){ .name = "orders" }, &orders) != 0)
        return 1;
    return kc_run(root, orders, &opts);
}
