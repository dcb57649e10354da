/* SPDX-License-Identifier: MIT */
/*
 * tokio.c - the process that runs Tokio's tasks.
 */
#include "peers/tokio.h"

#include "harness.h"
#include "peers/process.h"

const char kb_tokio_missing[] = "not built, there was no cargo or no tokio";

static struct kb_process server = { .program = "tokio_tasks" };

bool kb_tokio_present(void)
{
    return kb_process_present(&server);
}

void kb_tokio_case(const char *name, const char *operation)
{
    if (!kb_tokio_present()) {
        kb_skip(name, kb_tokio_missing);
        return;
    }
    if (!server.to)
        kb_process_start(&server, "serve", NULL);
    kb_process_case(&server, name, operation);
}

bool kb_tokio_once(const char *operation, size_t n, int count, double *out)
{
    return kb_process_once(&server, operation, n, count, out);
}
