/* SPDX-License-Identifier: MIT */
/*
 * go.h - goroutines as contenders. They live in a process of their own (goroutines.go, built
 * beside the benchmarks where there is a go compiler) that takes its turn in the same rounds: it
 * is told an operation and a number on its standard input, does it, and answers with the time it
 * took.
 */
#ifndef KC_BENCH_PEERS_GO_H
#define KC_BENCH_PEERS_GO_H

#include <stdbool.h>
#include <stddef.h>

/* Adds a contender that runs the operation of this name, or a line that says why not. */
void kb_go_case(const char *name, const char *operation);

/* Adds a contender: count goroutines on one thread yield, each to the next, in a process of their
 * own. One at a time: the ring of the question before ends. */
void kb_go_ring_case(const char *name, size_t count);

/* Runs the operation once in a fresh process; out gets the count numbers that it prints. */
bool kb_go_once(const char *operation, size_t n, int count, double *out);

bool kb_go_present(void);
extern const char kb_go_missing[];

#endif
