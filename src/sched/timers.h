/* SPDX-License-Identifier: MIT */
/*
 * timers.h - timers: what is due, in exact order.
 *
 * A data structure and nothing else: no clock, no lock, no memory of its own. It belongs to one
 * thread; times come from the caller. A timer that is zeroed is not pending.
 */
#ifndef KC_SCHED_TIMERS_H
#define KC_SCHED_TIMERS_H

#include "base/base.h"

#include <kcoro/time.h>

typedef struct kc_timer kc_timer_t;
typedef struct kc_timers kc_timers_t;

struct kc_timer {
    kc_time_t due;
    uint64_t seq;       /* the order of first adding, of one kc_timers_t           */
    kc_timer_t *next;   /* in its slot or among its siblings                       */
    kc_timer_t **where; /* the pointer that points to this timer; NULL: not pending */
    kc_timer_t *child;  /* in the front: the first of those that come after it     */
};

enum {
    KC_TIMER_BITS = 6, /* digits of a time, see timers.c */
    KC_TIMER_SLOTS = 1 << KC_TIMER_BITS,
    KC_TIMER_LEVELS = (64 + KC_TIMER_BITS - 1) / KC_TIMER_BITS,
    KC_TIMER_LANES = 4, /* lists of a slot: their cache misses overlap */
};

typedef struct {
    kc_timer_t *lane[KC_TIMER_LANES];
} kc_timer_slot_t;

struct kc_timers {
    kc_timer_t *root;   /* of the front, the earliest of all; NULL: the front is empty  */
    uint64_t last;      /* the front has what is due up to here, the wheel what is later */
    uint64_t base;      /* the time that the places in the wheel are relative to         */
    uint64_t now;       /* as last heard: where the front should end if it gets large    */
    uint64_t seq;       /* for the next timer                                            */
    size_t count;       /* all                                                           */
    size_t front_count; /* those in the front                                            */
    size_t front_limit; /* more than so many there: give back what lies far ahead        */
    uint64_t levels;    /* bit l: used[l] is not 0                                       */
    uint64_t used[KC_TIMER_LEVELS]; /* bit s: slot s may have timers                     */
    kc_timer_slot_t slot[KC_TIMER_LEVELS][KC_TIMER_SLOTS];
};

void kc__timers_init(kc_timers_t *ts, kc_time_t now);

/* t must not be pending. A due time in the past is fine, and so is KC_FOREVER. */
void kc__timers_add(kc_timers_t *ts, kc_timer_t *t, kc_time_t due);

/* The same for one that was in ts before, and has not been in another since: among those of one due
 * time it keeps its place. */
void kc__timers_add_again(kc_timers_t *ts, kc_timer_t *t, kc_time_t due);

/* t must be pending in ts. */
void kc__timers_remove(kc_timers_t *ts, kc_timer_t *t);

/*
 * Takes out the earliest timer with due <= now; NULL: there is none. Order is by due time, then by
 * first adding. A now that lies before an earlier one is fine: fewer are due.
 */
kc_timer_t *kc__timers_pop(kc_timers_t *ts, kc_time_t now);

/* When the earliest timer is due; KC_FOREVER: there is none. */
kc_time_t kc__timers_next(const kc_timers_t *ts);

/* Debug builds, at each change: the RULES of timers.c, as far as some loads tell. */
bool kc__timers_are_legal(const kc_timers_t *ts);

/* t is pending in ts, as it looks. */
bool kc__timer_is_in_place(const kc_timers_t *ts, const kc_timer_t *t);

/* Asserts the RULES of timers.c; takes time proportional to the number of timers. */
void kc__timers_check(const kc_timers_t *ts);

KC_INLINE bool kc__timer_is_pending(const kc_timer_t *t)
{
    return t->where != NULL;
}

KC_INLINE size_t kc__timers_count(const kc_timers_t *ts)
{
    return ts->count;
}

#endif
