/* SPDX-License-Identifier: MIT */
/*
 * process.h - contenders in another language. They live in a process of their own, a program built
 * beside the benchmarks, that takes its turn in the same rounds: it is told an operation and a
 * number on its standard input, does it, and answers with the nanoseconds that it took.
 */
#ifndef KC_BENCH_PEERS_PROCESS_H
#define KC_BENCH_PEERS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

struct kb_process {
    const char *program; /* its file, beside this program's */
    FILE *to, *from;     /* NULL: it is not started */
    pid_t pid;
};

bool kb_process_present(const struct kb_process *p);

/* Its arguments are mode and, unless it is NULL, count. It ends with this process. */
void kb_process_start(struct kb_process *p, const char *mode, const char *count);

/* Ends it with its input, and waits for that. One that is not started is left alone. */
void kb_process_stop(struct kb_process *p);

/* Adds a contender that runs the operation of this name in p. */
void kb_process_case(struct kb_process *p, const char *name, const char *operation);

/* Runs the program once, apart; out gets the count numbers that it prints. */
bool kb_process_once(const struct kb_process *p, const char *mode, size_t n, int count,
                     double *out);

#endif
