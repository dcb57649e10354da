/* SPDX-License-Identifier: MIT */
/*
 * hold.h - many suspended coroutines at once: what they take, in a process that does nothing
 * else.
 */
#ifndef KC_BENCH_HOLD_H
#define KC_BENCH_HOLD_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The stack that every contender with stacks of a fixed size gets. */
enum { KB_STACK = 64 * 1024 };

/*
 * Somebody who can keep many suspended. hold makes count of them, starts each one and returns
 * when all are suspended; slots has room for a pointer to each. It returns how many there are,
 * which is less than count if it can have no more. drop ends those and frees what they had.
 */
struct kb_holder {
    const char *name;
    size_t (*hold)(void **slots, size_t count);
    void (*drop)(void **slots, size_t count);
};

extern const struct kb_holder kb_hold_kcoro;

/* No coroutines at all: the kernel's part, guards and first touches, in one mapping. */
extern const struct kb_holder kb_hold_floor;

/* What kb_hold finds: sums over the process, less what was there before. */
struct kb_held {
    double count;            /* how many there were at last */
    double hold_ns, drop_ns; /* for all of them */
    double rss, page_tables; /* bytes while they were held */
    double rss_after;        /* bytes when all were dropped */
    double faults;           /* minor page faults of hold */
};

/* Holds count in a child process. False: it died or took too long. */
bool kb_hold(const struct kb_holder *holder, size_t count, struct kb_held *out);

/*
 * What the first touch of a page costs where pages lie as far apart as stacks do, huge pages off,
 * in nanoseconds; over count pages, in a child process. NAN: could not be found out.
 */
double kb_hold_fault_ns(size_t count);

/* False: count coroutines of bytes_each would not fit into the memory that is free now. */
bool kb_hold_fits(size_t count, size_t bytes_each);

#ifdef __cplusplus
}
#endif

#endif
