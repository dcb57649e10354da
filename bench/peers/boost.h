/* SPDX-License-Identifier: MIT */
/*
 * boost.h - Boost.Context and Boost.Fiber as contenders. boost.cpp has them; where Boost or a C++
 * compiler is missing, boost_none.c says so in their place.
 */
#ifndef KC_BENCH_PEERS_BOOST_H
#define KC_BENCH_PEERS_BOOST_H

#include "hold.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names that may be bases. */
#define KB_FCONTEXT_SWITCH "boost.context jump_fcontext"

/* So many steps along a ring come before the ones that are measured. */
enum { KB_RING_WARM_UP = 1000 };

/* Add their contenders to the question that is open. */
void kb_boost_switch(void);
void kb_boost_ring(size_t length, const char *name); /* one-way switches over length contexts */
void kb_boost_create(void);

/* Likewise at channels and locks: on one thread, and on two. */
void kb_boost_round(const char *name);
void kb_boost_round_threads(const char *name);
void kb_boost_stream(const char *name);
void kb_boost_stream_threads(const char *name);
void kb_boost_mutex(const char *name);
void kb_boost_mutex_queue(const char *name); /* held over a yield, and four want it */
void kb_boost_mutex_threads(const char *name);

/* Those who can hold many; 0 of them where Boost is missing. */
size_t kb_boost_holders(const struct kb_holder **out);

#ifdef __cplusplus
}
#endif

#endif
