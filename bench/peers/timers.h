/* SPDX-License-Identifier: MIT */
/*
 * timers.h - those who keep timers, as contenders. libev and libuv take part where they are
 * installed; the array heap always does.
 *
 * Each timer lies in a record of its own, as it would in a program: KB_TIMER_RECORD bytes, or
 * what a libuv handle needs.
 */
#ifndef KC_BENCH_PEERS_TIMERS_H
#define KC_BENCH_PEERS_TIMERS_H

#include "harness.h"

enum { KB_TIMER_RECORD = 128 };

struct kb_timers {
    const char *name;
    /* Makes a set with count timers, due at random within range after `after` from now; NULL:
     * not installed. */
    void *(*make)(size_t count, int64_t after_ns, int64_t range_ns);
    void (*drop)(void *set);
    /* n operations; NULL: there is no call for it. */
    kb_run_t same; /* adds one more timer, due at random as the others, and cancels it */
    kb_run_t any;  /* cancels one at random and adds it again */
    kb_run_t next; /* adds an earlier one, asks for the next due time, cancels it, asks again */
    /* Runs what is due; each of them is added again, due at random. Returns how many. */
    uint64_t (*expire)(void *set);
};

extern const struct kb_timers kb_timers_kcoro, kb_timers_heap, kb_timers_ev, kb_timers_uv;

/* xorshift; one state for all, so that it costs everybody the same. */
extern uint64_t kb_timers_seed;

static inline uint64_t kb_timers_random(void)
{
    kb_timers_seed ^= kb_timers_seed << 13;
    kb_timers_seed ^= kb_timers_seed >> 7;
    kb_timers_seed ^= kb_timers_seed << 17;
    return kb_timers_seed;
}

/* A random time from 0 to below range; without a division, which would cost more than a timer. */
static inline int64_t kb_timers_below(int64_t range)
{
    return (int64_t)(((kb_timers_random() >> 32) * ((uint64_t)range >> 16)) >> 16);
}

/* Memory that is zeroed and there, or the end of the program. */
void *kb_timers_alloc(size_t count, size_t size);

#endif
