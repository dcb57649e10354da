/* SPDX-License-Identifier: MIT */
/*
 * 13_trace.c - a small tree with a timeout: what it does now, what it has done, and when.
 *
 * Look at the trace with ui.perfetto.dev. Time is virtual, so that each run prints the same lines.
 *
 * Prints:
 *   kcoro: scheduler "shop", 0 workers, 5 jobs
 *     job N "order", age 1.000 s, ACTIVE, inside its scope, 1 below
 *       scope N "quotes", age 1.000 s, ACTIVE, runs on the main thread, 3 below
 *         job N "quote", age 1.000 s, ACTIVE, waits for sleep
 *           x 2 more like this
 *   the scope timed out: yes
 *   5 jobs: 1 completed, 4 cancelled, 0 live
 *   the trace is complete: yes
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int quote(void *arg)
{
    (void)arg;
    return kc_sleep(KC_SEC(60));
}

/* The dump without stack traces, and with N for the number of a job. */
static void show(kc_sched_t *s)
{
    char line[512], *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);

    if (!memory || kc_dump(s, memory) != 0 || fclose(memory) != 0)
        return;
    memory = fmemopen(text, size, "r");
    while (memory && fgets(line, sizeof line, memory)) {
        size_t indent = strspn(line, " ");
        int kind = (int)(indent + strcspn(line + indent, " ")); /* job, scope... */
        if (strncmp(line + indent, "at ", 3) == 0)
            continue;
        if (strchr(line, '"') && indent > 0)
            printf("%.*s N %s", kind, line, strchr(line, '"'));
        else
            fputs(line, stdout);
    }
    fclose(memory);
    free(text);
}

static int order(void *arg)
{
    kc_scope_t scope;
    int rc = kc_scope_begin(&scope, &(kc_scope_opts_t){ .name = "quotes", .timeout = KC_SEC(2) });

    for (int i = 0; i < 3 && rc == 0; i++)
        rc = kc_launch_job(quote, NULL, &(kc_launch_opts_t){ .name = "quote" }, NULL);
    if (rc == 0 && (rc = kc_sleep(KC_SEC(1))) == 0)
        show(arg);
    rc = kc_scope_end(&scope);
    printf("the scope timed out: %s\n", rc == -ETIMEDOUT ? "yes" : "no");
    return 0;
}

int main(void)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME, .name = "shop" };
    kc_metrics_t m;
    kc_sched_t *s;

    if (kc_sched_create(&opts, &s) != 0 || kc_trace_start(s, "13_trace.json") != 0 ||
        kc_launch_job(order, s, &(kc_launch_opts_t){ .sched = s, .name = "order" }, NULL) != 0 ||
        kc_sched_run(s) != 0)
        return 1;
    kc_metrics(s, &m);
    printf("%d jobs: %d completed, %d cancelled, %d live\n", (int)m.jobs_created,
           (int)m.jobs_completed, (int)m.jobs_cancelled, (int)m.jobs_live);
    printf("the trace is complete: %s\n", kc_trace_stop(s) == 0 ? "yes" : "no");
    return kc_sched_destroy(s);
}
