/* SPDX-License-Identifier: MIT */
/*
 * moodycamel.h - what a queue does in bench_queue, and moodycamel::ConcurrentQueue as contenders.
 * moodycamel.cpp has them; where the header or a C++ compiler is missing, moodycamel_none.c has
 * none.
 */
#ifndef KC_BENCH_PEERS_MOODYCAMEL_H
#define KC_BENCH_PEERS_MOODYCAMEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KB_PRODUCERS = 2, KB_BURST = 256 }; /* at most so many producers; items at a time */

/* What goes through the queues, by its address: a cache line, as the head of a control block. */
struct kb_item {
    struct {
        void *next;
    } link; /* for queues that link items */
    uint64_t producer, value;
} __attribute__((aligned(64)));

struct kb_queue {
    const char *name;
    int producers; /* at most */
    void *(*make)(void);
    /* count items, at most KB_BURST, that lie side by side. */
    void (*produce)(void *queue, int producer, struct kb_item *items, size_t count);
    /* What is there, or some of it: adds to counts[item->producer] for each item. */
    void (*consume)(void *queue, uint64_t *counts);
};

/* All that take part; 0 where the library is missing. */
size_t kb_moodycamel_queues(const struct kb_queue **out);

#ifdef __cplusplus
}
#endif

#endif
