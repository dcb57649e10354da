/* SPDX-License-Identifier: MIT */
/*
 * idle.h - who sleeps, who searches, and who is woken: no wake-up lost, one at a time.
 *
 * WHAT     One word for all threads of a scheduler: a bit for each that sleeps, and the number of
 *          those that are awake and look for work of others. Whoever makes work looks at the word
 *          afterwards; whoever goes to sleep sets its bit and looks for work afterwards: one of the
 *          two sees the other (Dekker). Whoever clears a thread's bit, and nobody else, wakes it:
 *          so a sleeping thread costs exactly one system call.
 *
 *          Work that any worker may do wakes one only if nobody searches already: who searches will
 *          find it, and calls the next when it has found more than it can do (kc__idle_found).
 *
 * SHAPE    bit 63...48: threads that search   bit 47...0: thread i sleeps
 *
 *          awake --enter--> sleeps --claim or pick by another--> being woken --wake--> awake
 *                              '----leave by itself, having seen work---------------->'
 *
 * WHO      enter, leave, found: the thread itself. claim, wakeable, pick: anybody.
 *
 * ORDER    id      site          operation      pairs with  carries; what breaks if weaker
 *          idle.1  enter         fence_seq_cst  idle.2      the bit before the look at the queues;
 *                                                           both sides look too early, work lies
 *                                                           and the thread sleeps
 *          idle.2  claim, pick,  fence_seq_cst  idle.1      the work before the look at the word
 *                  wakeable
 *          idle.3  all changes   cas_acq_rel    idle.3      what the sleeper wrote before it slept,
 *                                                           the finder's deque for who sleeps next
 *          idle.4  found         fence_seq_cst  idle.2      the count before the look for more;
 *                                                           work lies and everybody sleeps
 *
 * PROGRESS lock-free.
 */
#ifndef KC_SCHED_IDLE_H
#define KC_SCHED_IDLE_H

#include "base/atomic.h"
#include "base/base.h"
#include "base/block.h"

#include <kcoro/sched.h>

enum { KC_IDLE_MEMBERS = 48 };
#define KC_IDLE_SEARCHER ((uint64_t)1 << KC_IDLE_MEMBERS)
#define KC_IDLE_SLEEPERS (KC_IDLE_SEARCHER - 1)

typedef struct {
    KC_ATOMIC(uint64_t) word; /* A */
} kc_idle_t;

KC_INLINE uint64_t kc__idle_bit(int i)
{
    return (uint64_t)1 << i;
}

/* Thread i is about to sleep: afterwards it looks at its queues once more. searching: it was. */
KC_INLINE void kc__idle_enter(kc_idle_t *idle, int i, bool searching)
{
    uint64_t seen = kc_load_relaxed(&idle->word), next;

    do
        next = (seen | kc__idle_bit(i)) - (searching ? KC_IDLE_SEARCHER : 0);
    while (!kc_cas_acq_rel(&idle->word, &seen, next)); /* idle.3 */
    kc_fence_seq_cst();                                /* idle.1 */
}

/* The thread of these bits will not sleep after all. False: somebody has woken it meanwhile, the
 * wake-up is on its way and must be waited for. */
KC_INLINE bool kc__idle_leave(kc_idle_t *idle, uint64_t bits)
{
    uint64_t seen = kc_load_relaxed(&idle->word);

    do
        if (!(seen & bits))
            return false;
    while (!kc_cas_acq_rel(&idle->word, &seen, seen & ~bits)); /* idle.3 */
    return true;
}

/* There is work for the thread of these bits. True: it slept, and this caller wakes it. */
KC_INLINE bool kc__idle_claim(kc_idle_t *idle, uint64_t bits)
{
    kc_fence_seq_cst(); /* idle.2 */
    return kc__idle_leave(idle, bits);
}

/* There is work that any of these may do. Those who sleep, of which one should be woken; 0: none
 * sleeps, or somebody searches already. */
KC_INLINE uint64_t kc__idle_wakeable(const kc_idle_t *idle, uint64_t members)
{
    kc_fence_seq_cst(); /* idle.2 */
    uint64_t seen = kc_load_relaxed(&idle->word);

    return seen >= KC_IDLE_SEARCHER ? 0 : seen & members;
}

/* The one of these that this caller wakes, as a searcher; -1: as above. */
KC_INLINE int kc__idle_pick(kc_idle_t *idle, uint64_t members)
{
    kc_fence_seq_cst(); /* idle.2 */
    uint64_t seen = kc_load_relaxed(&idle->word), who;

    do {
        who = seen & members & KC_IDLE_SLEEPERS;
        if (seen >= KC_IDLE_SEARCHER || !who)
            return -1;
        who &= -who;
    } while (!kc_cas_acq_rel(&idle->word, &seen, (seen & ~who) + KC_IDLE_SEARCHER)); /* idle.3 */
    return __builtin_ctzll(who);
}

/* The caller begins to search, unless half of them do: more would only fight each other. */
KC_INLINE bool kc__idle_search(kc_idle_t *idle, int members)
{
    uint64_t seen = kc_load_relaxed(&idle->word);

    do
        if ((seen >> KC_IDLE_MEMBERS) * 2 >= (uint64_t)members)
            return false;
    while (!kc_cas_acq_rel(&idle->word, &seen, seen + KC_IDLE_SEARCHER)); /* idle.3 */
    return true;
}

/* The caller has found something. True: it was the last that searched, so that it has to look for
 * more and call another one: who made work meanwhile has relied on it. */
KC_INLINE bool kc__idle_found(kc_idle_t *idle)
{
    uint64_t seen = kc_load_relaxed(&idle->word);

    while (!kc_cas_acq_rel(&idle->word, &seen, seen - KC_IDLE_SEARCHER)) /* idle.3 */
        ;
    kc_fence_seq_cst(); /* idle.4 */
    return seen >> KC_IDLE_MEMBERS == 1;
}

typedef struct kc_worker kc_worker_t;

/* ---- idle.c: what a thread does that has nothing to do ----------------------------------------
 * */

/* Looks for what any worker may do. True: it is in this worker's own queues now. */
bool kc__worker_search(kc_worker_t *w);

/* It will run something, or stop: no longer counts as one that searches. */
void kc__worker_stop_searching(kc_worker_t *w);

/* Sleeps until there is something to do, at most until `until`. */
void kc__worker_sleep(kc_worker_t *w, kc_time_t until);

/* Makes sure that somebody looks after what was put into a queue. */
void kc__worker_wake(kc_worker_t *w);
void kc__sched_wake_any(kc_sched_t *s);

/* Main, if it sleeps in a pump and takes what any worker may do, looks once more. */
void kc__sched_look_again(kc_sched_t *s);

/* Gives a little of the memory back that a burst has left: stacks, blocks, its deque's. Its own
 * thread. False: there is nothing for now. */
bool kc__worker_cool(kc_worker_t *w, kc_cool_t when);

/* When that is to be done next, on kc__os_now's clock; INT64_MAX: there is nothing. */
int64_t kc__worker_cool_at(void);

#endif
