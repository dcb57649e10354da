/* SPDX-License-Identifier: MIT */
/*
 * go.c - talks to the process that runs the goroutines.
 */
#include "peers/go.h"

#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const char kb_go_missing[] = "not built, there was no go compiler";

/* The process that answers, once it is started. */
static struct {
    FILE *to, *from;
} peer;

bool kb_go_present(void)
{
    return access(kb_beside("goroutines"), X_OK) == 0;
}

static void peer_start(void)
{
    int to[2], from[2];
    const char *path = kb_beside("goroutines");

    if (pipe(to) != 0 || pipe(from) != 0)
        exit(2);
    fflush(NULL);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[1]); /* or it would never see the end of its input */
        execl(path, path, "serve", (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    peer.to = fdopen(to[1], "w");
    peer.from = fdopen(from[0], "r");
}

static void peer_run(void *arg, uint64_t n)
{
    long long ns;

    if (fprintf(peer.to, "%s %llu\n", (const char *)arg, (unsigned long long)n) < 0 ||
        fflush(peer.to) != 0 || fscanf(peer.from, "%lld", &ns) != 1 || ns < 0) {
        fprintf(stderr, "\nthe process with the goroutines does not answer to %s\n",
                (const char *)arg);
        exit(2);
    }
    kb_took(ns);
}

void kb_go_case(const char *name, const char *operation)
{
    if (!kb_go_present()) {
        kb_skip(name, kb_go_missing);
        return;
    }
    if (!peer.to)
        peer_start();
    kb_case(name, peer_run, (void *)(uintptr_t)operation);
}

bool kb_go_once(const char *operation, size_t n, int count, double *out)
{
    char command[4200];
    bool ok = true;

    if (!kb_go_present())
        return false;
    snprintf(command, sizeof command, "exec '%s' %s %zu", kb_beside("goroutines"), operation, n);
    fflush(NULL);
    FILE *f = popen(command, "r");
    if (!f)
        return false;
    for (int i = 0; i < count; i++)
        ok = ok && fscanf(f, "%lf", &out[i]) == 1;
    return pclose(f) == 0 && ok;
}
