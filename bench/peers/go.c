/* SPDX-License-Identifier: MIT */
/*
 * go.c - talks to the process that runs the goroutines.
 */
#define _GNU_SOURCE /* pipe2 */
#include "peers/go.h"

#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const char kb_go_missing[] = "not built, there was no go compiler";

/* A process that answers, once it is started. */
struct peer {
    FILE *to, *from;
    pid_t pid;
};
static struct peer server, ring;

struct operation {
    struct peer *peer;
    const char *name;
};
enum { OPERATIONS_MAX = 64 };

bool kb_go_present(void)
{
    return access(kb_beside("goroutines"), X_OK) == 0;
}

static void peer_start(struct peer *peer, const char *mode, const char *count)
{
    int to[2], from[2];
    const char *path = kb_beside("goroutines");

    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        exit(2);
    fflush(NULL);
    peer->pid = fork();
    if (peer->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl(path, path, mode, count, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    peer->to = fdopen(to[1], "w");
    peer->from = fdopen(from[0], "r");
}

/* The ring of the question before, if there was one, ends with its input. */
static void peer_stop(struct peer *peer)
{
    if (!peer->to)
        return;
    fclose(peer->to);
    fclose(peer->from);
    waitpid(peer->pid, NULL, 0);
    peer->to = peer->from = NULL;
}

static void peer_run(void *arg, uint64_t n)
{
    const struct operation *operation = arg;
    struct peer *peer = operation->peer;
    long long ns;

    if (fprintf(peer->to, "%s %llu\n", operation->name, (unsigned long long)n) < 0 ||
        fflush(peer->to) != 0 || fscanf(peer->from, "%lld", &ns) != 1 || ns < 0) {
        fprintf(stderr, "\nthe process with the goroutines does not answer to %s\n",
                operation->name);
        exit(2);
    }
    kb_took(ns);
}

static void operation_case(const char *name, struct peer *peer, const char *operation)
{
    static struct operation operations[OPERATIONS_MAX];
    static int count;

    if (count == OPERATIONS_MAX) {
        fprintf(stderr, "%s: too many operations of goroutines\n", name);
        exit(2);
    }
    operations[count] = (struct operation){ peer, operation };
    kb_case(name, peer_run, &operations[count++]);
}

void kb_go_case(const char *name, const char *operation)
{
    if (!kb_go_present()) {
        kb_skip(name, kb_go_missing);
        return;
    }
    if (!server.to)
        peer_start(&server, "serve", NULL);
    operation_case(name, &server, operation);
}

void kb_go_ring_case(const char *name, size_t count)
{
    char digits[32];

    if (!kb_go_present()) {
        kb_skip(name, kb_go_missing);
        return;
    }
    snprintf(digits, sizeof digits, "%zu", count);
    peer_stop(&ring);
    peer_start(&ring, "ring", digits);
    operation_case(name, &ring, "yield_1");
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
