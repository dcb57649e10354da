/* SPDX-License-Identifier: MIT */
/*
 * model_must.c - explorations as tests: one that must pass, one that must fail, a line for each.
 */
#include "harness.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long print_t;

static void report(const struct model_result *r, const char *verdict)
{
    printf("       %s: %llu executions, ", r->name, (print_t)r->executions);
    printf(r->preemptions < 0 ? "unbounded" : "preemptions <= %d", r->preemptions);
    if (r->seconds > 0.01)
        printf(", %.2f M/s", (double)r->executions / r->seconds / 1e6);
    printf(": %s\n", verdict);
    fflush(stdout);
}

void model_must_pass(struct model_options options, const struct model_thread *threads, int count,
                     void (*setup)(void), void (*check)(void))
{
    struct model_result r = model_explore(options, threads, count, setup, check);

    if (r.failed)
        FAIL("model %s: %s (execution %llu)", r.name, r.why, (print_t)r.executions);
    if (!r.exhausted && !r.replayed)
        FAIL("model %s: not exhausted after %llu executions", r.name, (print_t)r.executions);
    report(&r, r.replayed ? "this one passes" : "passes, exhausted");
}

void model_must_fail(struct model_options options, const struct model_thread *threads, int count,
                     void (*setup)(void), void (*check)(void), const char *why)
{
    int most = options.preemptions > 0 ? options.preemptions : 3;
    struct model_result r;

    /* With as few preemptions as it takes: faster, and the trace is easier to read. */
    options.quiet = true;
    options.preemptions = 0;
    do {
        options.preemptions++;
        r = model_explore(options, threads, count, setup, check);
    } while (!r.failed && options.preemptions < most);
    if (options.weaken.id && !r.weakened)
        FAIL("model %s: no operation with this id was met (are the sources here?)", r.name);
    if (!r.failed)
        FAIL("model %s: a control that must fail passes, %llu executions", r.name,
             (print_t)r.executions);
    if (!strstr(r.why, why))
        FAIL("model %s: fails by \"%s\", not by \"%s\"", r.name, r.why, why);
    report(&r, r.why);
}
