/* SPDX-License-Identifier: MIT */
/*
 * recorder.h - events of a trace on their way to the file: records only (top/trace.c makes that).
 *
 * WHAT     A recorder has lanes. A thread of the scheduler writes into a lane of its own, all other
 *          threads into one that they share. A full lane is handed to flush. What cannot be kept is
 *          counted.
 *
 * SHAPE    recorder: [ flush | lane 0 | lane 1 | ... ]      lane: lock, events, how many, dropped
 *          An event is one slot of 32 bytes; a name, which follows its event, is one more.
 *
 * WHO      L the lane's lock. Its own thread alone takes the lock of a lane, but for start and
 *          stop, and for the shared one: so it is free, in that thread's cache, and costs some
 *          nanoseconds. It makes stop safe: a lane without events records nothing, and a thread
 *          that has seen the recorder before it was taken away finds that out under the lock.
 *          Recorders are never freed, but used again by the next trace of the same scheduler.
 */
#ifndef KC_BASE_RECORDER_H
#define KC_BASE_RECORDER_H

#include "base/lock.h"

typedef enum {
    KC_EVENT_NAME,       /* the slot holds the name of the event before it                       */
    KC_EVENT_RUN,        /* the thread runs the body of job; 0: none                             */
    KC_EVENT_RUNS,       /* lane value ran the body of job when the trace began                  */
    KC_EVENT_PRESENT,    /* job was there when the trace began; else as CREATE                   */
    KC_EVENT_CREATE,     /* job, a child of other (0: nobody's); value: its flags                */
    KC_EVENT_STATE,      /* job is in state now; by: who asked for it; value: why                */
    KC_EVENT_CANCEL_REQ, /* other (0: none) has cancelled job; value: the reason           */
    KC_EVENT_FINALIZE,   /* job has ended in state; value: its result                      */
    KC_EVENT_WAIT_REGISTER, /* other (0: a thread) waits for the end of job                   */
    KC_EVENT_WAIT_WAKE,     /* ... and is woken                                               */
} kc_event_kind_t;

typedef struct {
    int64_t at;          /* on kc__os_now's clock                     */
    uint64_t job, other; /* numbers of jobs; 0: none                  */
    uint8_t kind, state, by, named;
    int32_t value;
} kc_record_t;

enum { KC_NAME_SIZE = 32, KC_LANE_EVENTS = 2048 };

/* Lanes behind those of the workers: the main thread's; all other threads'; what was there before
 * the trace. */
enum { KC_LANE_MAIN, KC_LANE_OTHERS, KC_LANE_BEFORE, KC_LANES_MORE };

_Static_assert(sizeof(kc_record_t) == KC_NAME_SIZE, "a name fits a slot");

typedef struct {
    kc_spin_t lock __attribute__((aligned(KC_CACHE_LINE))); /* A                              */
    uint32_t count;      /* L  slots in use                                                  */
    kc_record_t *events; /* L  KC_LANE_EVENTS of them; NULL: nothing is recorded             */
    uint64_t dropped;    /* L  events that flush could not keep                              */
} kc_lane_t;

typedef struct kc_recorder {
    /* Takes what lane i has, and counts what it cannot keep as dropped. Under its lock. */
    void (*flush)(struct kc_recorder *r, unsigned i);
    void *owner;    /* I  flush's */
    unsigned lanes; /* I */
    kc_lane_t lane[];
} kc_recorder_t;

/* Writes e, and a name of KC_NAME_SIZE bytes if there is one, into lane i. e.at is 0: now. */
void kc__trace_record(kc_recorder_t *r, unsigned i, kc_record_t e, const char *name);

#endif
