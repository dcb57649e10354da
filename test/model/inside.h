/* SPDX-License-Identifier: MIT */
/*
 * inside.h - what the model checker keeps: memory, threads, choices. The head of model.c explains.
 *
 * Included by model.c alone.
 */
#ifndef KC_TEST_MODEL_INSIDE_H
#define KC_TEST_MODEL_INSIDE_H

#include "model.h"

#include "fiber.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    THREADS = 8,
    LOCATIONS = 64,
    STORES = 256, /* per location and execution */
    CHOICES = 4096,
    FREES = 8,
    SLOTS = 256,      /* of the hash table of addresses */
    SLOW_BOUND = 2,   /* where a tool makes it slow: the rest is for the plain build */
    LINE = 64,        /* bytes of plain memory that are looked at together */
    LINES = 512,      /* of them that executions change */
    SPANS = 512,      /* pieces of memory between them */
    STATES = 1 << 22, /* of the hash table of states */
    STACK_SIZE = 256 * 1024
};

struct view {
    int16_t at[LOCATIONS];
    int16_t clock[THREADS];
};

struct store {
    uint64_t value;
    struct view view;
};

struct location {
    const void *address;
    const char *name;
    int id; /* its index */
    size_t size;
    unsigned execution; /* the rest is of this execution */
    int stores;         /* 0: plain data */
    int writer;
    int16_t write_clock, read_clock[THREADS]; /* read: of an atomic, the last use of any kind */
    struct store history[STORES];
};

struct thread {
    struct fiber fiber;
    const struct model_thread *is;
    jmp_buf home; /* where it starts anew when an execution was cut */
    bool started; /* in this execution */
    enum { READY, WAITING, BLOCKED, FINISHED } state;
    bool yields;          /* another thread may go on at no cost */
    uint64_t watched;     /* locations read since the last model_spin */
    const void *block_on; /* BLOCKED: the futex */
    struct view now, seen, fenced;
};

static struct {
    struct model_options options;
    struct model_result result;
    void (*setup)(void), (*check)(void);
    unsigned generation, execution;
    int bound, preempted, steps, max_steps;
    bool inside;  /* in an execution: setup, the threads, check */
    bool running; /* the threads */
    bool tracing, fibers_made;
    FILE *out;

    int length, depth; /* of the choices: known, used so far in this execution */
    struct choice {
        uint16_t taken, count;
        uint64_t state; /* a hash of where it was met */
    } choices[CHOICES];

    /* See prune.h. */
    bool prunes, cut; /* in this exploration; this execution */
    int spans, lines, known;
    jmp_buf env;     /* of the current thread: its registers, and */
    const char *low; /* ... below its frames */
    struct state {
        uint64_t hash; /* 0: none */
        int32_t preempted, depth;
    } * states;
    char *line[LINES], kept[LINES][LINE]; /* now; at the start of the execution */
    struct span {
        char *from;
        const char *was;
        size_t size;
    } span[SPANS];

    int frees; /* so many objects are gone in this execution */
    uintptr_t freed[FREES], freed_size[FREES];

    int count;
    struct thread *current, threads[THREADS];
    struct view sc;
    struct fiber main;
    jmp_buf outside; /* for failures in setup and check */

    int locations;
    uint8_t slots[SLOTS]; /* index of a location + 1 */
    struct location location[LOCATIONS];
} m __attribute__((aligned(LINE)));

static char stacks[THREADS][STACK_SIZE] __attribute__((aligned(64)));

/* The model itself is at fault: nothing to explore. */
#define misused(...) (fprintf(stderr, __VA_ARGS__), abort())

#endif
