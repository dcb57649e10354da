/* SPDX-License-Identifier: MIT */
/*
 * 29_plain_threads.c - a plain thread hands work to a scheduler: it waits for the value, for some
 * time only, or not at all. What nobody takes is freed, also what a task owns that never runs.
 *
 * Prints:
 *   6 * 7 is 42
 *   3 * 5 is not wanted any more
 *   a note: hello
 *   a note that came too late: bye
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int multiply(void *arg)
{
    int *factor = arg, *product = malloc(sizeof *product);

    if (!product)
        return -ENOMEM;
    *product = factor[0] * factor[1];
    kc_set_payload_with(product, free); /* if nobody takes it, or the job does not complete */
    return kc_sleep(KC_SEC(factor[2]));
}

static int print_note(void *note)
{
    return printf("a note: %s\n", (char *)note) < 0;
}

static void drop_note(void *note)
{
    printf("a note that came too late: %s\n", (char *)note);
}

static void *client(void *sched)
{
    static int fast[] = { 6, 7, 0 }, slow[] = { 3, 5, 3600 };
    kc_launch_opts_t opts = { .sched = sched };
    kc_deferred_t *a, *b;
    void *product;

    if (kc_async_job(multiply, fast, &opts, &a) != 0 ||
        kc_async_job(multiply, slow, &opts, &b) != 0)
        return NULL;
    if (kc_await(a, &product) == 0) {
        printf("6 * 7 is %d\n", *(int *)product);
        free(product);
    }
    kc_deferred_release(a);
    if (kc_job_join_until(kc_deferred_job(b), kc_now() + KC_MS(10)) == -ETIMEDOUT)
        printf("3 * 5 is not wanted any more\n");
    kc_deferred_drop(b); /* cancels it */
    kc_sched_submit(sched, KC_MAIN, print_note, "hello");
    return NULL;
}

int main(void)
{
    kc_sched_t *sched;
    pthread_t thread;

    if (kc_sched_create(&(kc_sched_opts_t){ .workers = 2 }, &sched) != 0 ||
        pthread_create(&thread, NULL, client, sched) != 0)
        return 1;
    pthread_join(thread, NULL);
    int rc = kc_sched_run(sched);
    kc_sched_submit_with(sched, KC_MAIN, print_note, "bye", &(kc_task_opts_t){ drop_note, "bye" });
    kc_sched_destroy(sched); /* before it has run */
    return rc;
}
