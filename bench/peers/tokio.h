/* SPDX-License-Identifier: MIT */
/*
 * tokio.h - Tokio's tasks as contenders: the program of tokio.rs, built where there are cargo and
 * Tokio's source in the packages of the system (see process.h).
 */
#ifndef KC_BENCH_PEERS_TOKIO_H
#define KC_BENCH_PEERS_TOKIO_H

#include <stdbool.h>
#include <stddef.h>

/* Adds a contender that runs the operation of this name, or a line that says why not. */
void kb_tokio_case(const char *name, const char *operation);

/* Runs the operation once in a fresh process; out gets the count numbers that it prints. */
bool kb_tokio_once(const char *operation, size_t n, int count, double *out);

bool kb_tokio_present(void);
extern const char kb_tokio_missing[];

#endif
