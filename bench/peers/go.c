/* SPDX-License-Identifier: MIT */
/*
 * go.c - the processes that run the goroutines.
 */
#include "peers/go.h"

#include "harness.h"
#include "peers/process.h"

#include <stdio.h>

const char kb_go_missing[] = "not built, there was no go compiler";

static struct kb_process server = { .program = "goroutines" }, ring = { .program = "goroutines" };

bool kb_go_present(void)
{
    return kb_process_present(&server);
}

void kb_go_case(const char *name, const char *operation)
{
    if (!kb_go_present()) {
        kb_skip(name, kb_go_missing);
        return;
    }
    if (!server.to)
        kb_process_start(&server, "serve", NULL);
    kb_process_case(&server, name, operation);
}

void kb_go_ring_case(const char *name, size_t count)
{
    char digits[32];

    if (!kb_go_present()) {
        kb_skip(name, kb_go_missing);
        return;
    }
    snprintf(digits, sizeof digits, "%zu", count);
    kb_process_stop(&ring); /* that of the question before, if there was one */
    kb_process_start(&ring, "ring", digits);
    kb_process_case(&ring, name, "yield_1");
}

bool kb_go_once(const char *operation, size_t n, int count, double *out)
{
    return kb_process_once(&server, operation, n, count, out);
}
