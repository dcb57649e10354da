/* SPDX-License-Identifier: MIT */
/*
 * 10_supervisor.c - under a supervisor a child that fails takes nobody with it, and may be started
 * again; in a plain scope it cancels its siblings.
 *
 * Prints:
 *   a plain scope:
 *     the steady one was cancelled
 *     it ended with Connection refused
 *   a supervisor:
 *     attempt 1 failed
 *     attempt 2 failed
 *     attempt 3 works
 *     the steady one is done
 *     it ended well
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int steady(void *arg)
{
    int rc = kc_sleep(KC_MS(50));

    (void)arg;
    printf("  the steady one %s\n", rc == 0 ? "is done" : "was cancelled");
    return rc;
}

static int shaky(void *arg)
{
    int rc = kc_sleep(KC_MS(10));

    return rc == 0 && *(int *)arg < 3 ? -ECONNREFUSED : rc;
}

static int in_a_scope(void *attempt)
{
    int rc = kc_launch(steady, NULL);

    return rc == 0 ? kc_launch(shaky, attempt) : rc;
}

static int under_a_supervisor(void *arg)
{
    int *attempt = arg, rc = kc_launch(steady, NULL);

    for (bool works = false; rc == 0 && !works; ++*attempt) {
        kc_job_t *child;
        rc = kc_launch_job(shaky, attempt, NULL, &child);
        if (rc != 0)
            break;
        works = kc_job_join(child) == 0; /* its failure is a value here, and no more */
        kc_job_release(child);
        printf("  attempt %d %s\n", *attempt, works ? "works" : "failed");
    }
    return rc;
}

static int root(void *arg)
{
    int attempt = 1;

    (void)arg;
    printf("a plain scope:\n");
    printf("  it ended with %s\n", strerror(-kc_scope(in_a_scope, &attempt, NULL)));
    printf("a supervisor:\n");
    int rc =
        kc_scope(under_a_supervisor, &attempt, &(kc_scope_opts_t){ .flags = KC_JOB_SUPERVISOR });
    printf("  it ended %s\n", rc == 0 ? "well" : strerror(-rc));
    return rc;
}

int main(void)
{
    return kc_run(root, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}
