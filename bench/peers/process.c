/* SPDX-License-Identifier: MIT */
/*
 * process.c - talks to the processes that run the contenders in other languages.
 */
#define _GNU_SOURCE /* pipe2 */
#include "peers/process.h"

#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct operation {
    struct kb_process *process;
    const char *name;
};
enum { OPERATIONS_MAX = 64 };

bool kb_process_present(const struct kb_process *p)
{
    return access(kb_beside(p->program), X_OK) == 0;
}

void kb_process_start(struct kb_process *p, const char *mode, const char *count)
{
    int to[2], from[2];
    const char *path = kb_beside(p->program);

    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        exit(2);
    fflush(NULL);
    p->pid = fork();
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl(path, path, mode, count, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    p->to = fdopen(to[1], "w");
    p->from = fdopen(from[0], "r");
}

void kb_process_stop(struct kb_process *p)
{
    if (!p->to)
        return;
    fclose(p->to);
    fclose(p->from);
    waitpid(p->pid, NULL, 0);
    p->to = p->from = NULL;
}

static void process_run(void *arg, uint64_t n)
{
    const struct operation *operation = arg;
    struct kb_process *p = operation->process;
    long long ns;

    if (fprintf(p->to, "%s %llu\n", operation->name, (unsigned long long)n) < 0 ||
        fflush(p->to) != 0 || fscanf(p->from, "%lld", &ns) != 1 || ns < 0) {
        fprintf(stderr, "\nthe process of %s does not answer to %s\n", p->program,
                operation->name);
        exit(2);
    }
    kb_took(ns);
}

void kb_process_case(struct kb_process *p, const char *name, const char *operation)
{
    static struct operation operations[OPERATIONS_MAX];
    static int count;

    if (count == OPERATIONS_MAX) {
        fprintf(stderr, "%s: too many operations of other processes\n", name);
        exit(2);
    }
    operations[count] = (struct operation){ p, operation };
    kb_case(name, process_run, &operations[count++]);
}

bool kb_process_once(const struct kb_process *p, const char *mode, size_t n, int count,
                     double *out)
{
    char command[4200];
    bool ok = true;

    if (!kb_process_present(p))
        return false;
    snprintf(command, sizeof command, "exec '%s' %s %zu", kb_beside(p->program), mode, n);
    fflush(NULL);
    FILE *f = popen(command, "r");
    if (!f)
        return false;
    for (int i = 0; i < count; i++)
        ok = ok && fscanf(f, "%lf", &out[i]) == 1;
    return pclose(f) == 0 && ok;
}
