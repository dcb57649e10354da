/* SPDX-License-Identifier: MIT */
/*
 * slot.h - what signal.c and slot.c share: the signal itself, chains, and visits.
 *
 * SHAPE    signal.slots    newest <-> ... <-> oldest: an emit never meets a slot bound after it
 *          signal.visits   emits that walk along the slots now, each on the stack of its thread:
 *                              slot     is being served; gone: it was unbound meanwhile
 *                              next     comes after it; unbind moves this on
 *                              running  the bit whose handler runs; clear and unbind wait for it
 *          slot.handlers   records: the one inside the slot, then those from the heap. bit 0: not
 *                          in use. They are given back at unbind and not before
 *          slot.chains     one after the other; also linked from the signal (edges), for the
 *                          search for loops
 *
 * WHO      Legend: I immutable, A atomic, L under the signal's lock, T under the topology's lock
 *          (slot.c), E only the emit that has it. Order of locks: topology, signal; never two
 *          signals. References: each user's, slot's, chain's (on its target), visit's, queue's.
 *
 *                      emit        on, filter   clear, unbind     chain
 *          emit        side by     by the lock  waits for the     meets it, or chain finds the
 *                      side                     running handler   bits in the state
 *          chain       see above   one task     one task          one at a time (topology)
 *
 * RULES    R1  A low bit is either in the state when a handler or a chain is added, or the emit
 *              that sets it meets the handler or chain: both happen under one lock. A bit that was
 *              preset is told later: a chain may hear of it in both ways, and forwards it once.
 *          R2  No lock is held over a handler, nor over an owner's cancel.
 *          R3  A run that has begun is named by its visit until it has ended. A waiter waits for
 *              runs that began before it, so new runs do not prolong the wait.
 *          R4  A handler that clears or unbinds its own slot while other threads run handlers of
 *              the slot waits for them, but not for threads that began to wait earlier: so there is
 *              no cycle.
 *          R5  pending or late is not 0 exactly while the signal is in a queue.
 *
 * WHY NOT  A list of slots that is never unlinked: its records would live as long as the signal.
 *          Copying the list for an emit: allocates. Marks in the list instead of visits: each walk
 *          would have to step over the marks of all others.
 */
#ifndef KC_SIGNAL_SLOT_H
#define KC_SIGNAL_SLOT_H

#include "base/atomic.h"
#include "coro/coro.h"
#include "coro/object.h"
#include "base/lock.h"
#include "signal/handler.h"
#include "signal/signal.h"

#define KC_SIG_ONCE 0xffffffffull /* the low bits */
#define KC_SIGNAL_MAGIC 0x516a1c0du

struct kc_slot_chain {
    struct kc_slot_chain *next;          /* L  of the same slot   */
    kc_signal_t *to;                     /* I  a reference        */
    struct kc_slot_chain *after, **link; /* T  of the same signal */
};

/* One emit at one signal. */
struct kc_visit {
    struct kc_visit *after, **link;  /* L  in signal->visits                                 */
    kc_signal_t *signal;             /* I  a reference                                       */
    struct kc_handler_state *thread; /* I                                                    */
    kc_sigset_t fired;               /* I  what it has triggered                             */
    kc_slot_t *next;                 /* L  to be served after slot                           */
    kc_slot_t *slot;                 /* L  being served; NULL: none                          */
    kc_sigset_t set;                 /* E  of fired, what slot let through                   */
    kc_sigset_t left;                /* E  of set, what its handlers have not been asked for */
    struct kc_slot_chain *chain;     /* E  next to be told; not valid when gone              */
    kc_sigset_t running;             /* L  the handler that runs; 0: none                    */
    uint64_t began;                  /* L  when, on the signal's clock                       */
    uint64_t waits;                  /* L  since when it waits for runs; 0: does not         */
    bool gone;                       /* L  slot was unbound                                  */
};

struct kc_signal {
    kc_block_t block;                  /*    magic A; flags: references, A; link E: the next
                                               in the queue                               */
    kc_lock_t lock;                    /* A                                               */
    KC_ATOMIC(uint32_t) ended;         /* A  counts ends of runs that somebody waits for  */
    uint32_t waiters;                  /* L  threads that wait for the end of a run       */
    uint32_t targeted;                 /* T  chains that lead here                        */
    KC_ATOMIC(kc_sigset_t) state;      /* A  written under the lock                       */
    kc_slot_t *slots;                  /* L                                               */
    struct kc_visit *visits;           /* L                                               */
    uint64_t clock;                    /* L  of runs and waits                            */
    const struct kc_signal_owner *ops; /* L  NULL: nobody owns it                         */
    void *owner;                       /* I                                               */
    kc_sigset_t pending;               /* L  what waits in a queue to be triggered        */
    kc_sigset_t late;                  /* L  ... and to be told, triggered already        */
    struct kc_slot_chain *edges;       /* T  of all its slots                             */
    uint64_t searched;                 /* T  number of the last search that came here     */
    kc_signal_t *search;               /* T  next of those that the search has to look at */
    void *data;                        /* I  the user's; NULL: none                       */
};

_Static_assert(sizeof(struct kc_signal) <= KC_BLOCK_SIZE, "a signal is a control block");

/* Aborts unless s is a signal. Casts const away: none is in read-only memory. */
KC_INLINE kc_signal_t *kc__signal_live(const char *call, const kc_signal_t *s)
{
    if (!kc__object_is(s, KC_SIGNAL_MAGIC))
        kc__object_not_live(call, "signal", "G4", s);
    return (kc_signal_t *)s;
}

KC_INLINE kc_signal_t *kc__signal_ref(kc_signal_t *s)
{
    uint32_t before = kc_add_relaxed(&s->block.flags, 1);

    KC_ASSERT(before < UINT32_MAX);
    return s;
}

void kc__signal_unref(kc_signal_t *s);

#endif
