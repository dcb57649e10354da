/* SPDX-License-Identifier: MIT */
/*
 * trace.h - a trace, from its start to its file.
 *
 * Legend: I immutable while it is on, A atomic, S what start and stop do, one at a time.
 */
#ifndef KC_TOP_TRACE_H
#define KC_TOP_TRACE_H

#include "sched/sched.h"

#include <stdio.h>

/* The first slot of each lane and chunk is its header: job is the lane, other the slots in use. */
enum { KC_CHUNK_SIZE = KC_LANE_EVENTS * KC_NAME_SIZE };

/* What belongs to a recorder. */
typedef struct {
    FILE *out;                  /* S  the file                                             */
    int fd;                     /* S  ... its descriptor                                   */
    int spill;                  /* I  full lanes lie here, KC_CHUNK_SIZE each               */
    KC_ATOMIC(uint32_t) chunks; /* A  how many                                             */
    KC_ATOMIC(int) error;       /* A  the first errno of a write; 0: none                  */
    int64_t began, ended;       /* S                                                       */
    uint64_t dropped;           /* S  after the end                                        */
} kc_trace_t;

/* The scheduler ends: stops its trace, if there is one. */
void kc__trace_end(kc_sched_t *s);

#endif
