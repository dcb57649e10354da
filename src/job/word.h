/* SPDX-License-Identifier: MIT */
/*
 * word.h - the word of a job (task.word): every race about how it ends is decided here.
 *
 * WHAT     Some bits and a count, see job.c. The state that users see is a function of them, see
 *          kc_job_state. One bit is the job's lock: while it is set the word is its holder's alone,
 *          and is given back, with all that has changed in it, by a plain store. While it is not,
 *          the word changes by compare and swap.
 *
 * ORDER    id      site    operation      pairs with      carries; what breaks if weaker
 *          word.1  swap    cas_acq_rel    word.1, word.2  what is under the lock; if a count falls:
 *                                                         all that child or body wrote, for who
 *                                                         ends the job or drains it. One step: a
 *                                                         count above 0 is one, a job cannot end
 *                                                         between the look and the change
 *          word.2  unlock  store_release  word.1, word.3  what is under the lock; outcome and
 *                                                         payload
 *          word.3  seen    load_acquire   word.1, word.2  the same, for who only looks
 *
 * RULES    kc__word_is_legal, which every change passes in debug builds:
 *          R1 DONE: the count is 0, and one of three outcomes is said, for good.
 *          R2 a body, one that drains, a message on its way: they are in the count.
 *          R3 a body has STARTED; only a body drains.
 *          R4 what is effectively cancelled (STOP) was CANCELLED.
 *          R5 BELOW says more of a failure. R6 CHILD_FAILED says more of FORBID.
 *          And where the count rises or falls, in kc__word_count_up and kc__word_count_down:
 *          R7 it never runs below 0 or over its bits.
 *          R8 a body drains only while there are others in the count.
 *          SHUT and LATE outlive WALKED: a child is told again when there is more to be told.
 *
 * WHY NOT  Counting without a look at the lock: then it takes a second locked operation to unlock,
 *          and each job is locked four times in its life.
 */
#ifndef KC_JOB_WORD_H
#define KC_JOB_WORD_H

#include "sched/sched.h"

/*
 * The bits. "lock": set under the job's lock, as what goes with it is under it, too. All others
 * change by a swap of the whole word, which a lock excludes.
 *
 *   bit           set by                          cleared by                       with it
 *   COUNT         attach, leases, messages        children, body, leases: end.c    0: it ends
 *   LOCK          whoever locks                   the same, soon
 *   BODY          the start of the body           its end                          COUNT > 0
 *   CANCELLED     a cancel                        never                            lock
 *   SHIELDED      the first shield                the last one
 *   HALT          STOP, a failed child            a shield: cleanups may launch    no more children
 *   WALKED        the walk of its parent          the walk that has more to tell   lock of parent
 *   DRAIN         its body, about to wait         whoever makes it alone           COUNT > 1
 *   FORBID        kc_forbid_signal                never
 *   CLOSED        kc_group_close, a kept promise  never
 *   GRACE_OVER    the end of a grace              never                            lock
 *   DONE, DONE_*  seal, end_fast, at_rest: end.c  never                            COUNT 0
 *   MESSAGED      who sends a message             the thread that has read it      COUNT > 0
 *   WAITERS       the first that joins            never                            lock
 *   STARTED       with BODY                       never
 *   TIMED         a cancel by a timeout           a cancel with a reason           lock
 *   FAILED        the first failure               never                            lock
 *   CHILD_FAILED  a failed child of FORBID        never                            lock
 *   NO_STACK      a start without a stack         the start
 *   SHUT, LATE    the walk of its parent          never                            lock of parent
 *   BELOW         a failure that came from below  never                            FAILED
 *   OWNED         kc_set_payload_with             never
 *   UNDONE        the end of a child              never
 *   OVER_BELOW    the end of its children's grace never                            lock
 *   STOP          a cancel that takes effect      a shield: cleanups may wait      CANCELLED
 */
#define KC_WORD_COUNT 0x7fffffffull /* the body, the children, leases, messages on their way   */
#define KC_WORD_LOCK (1ull << 31)   /* the job's lock                                         */
#define KC_WORD_BODY (1ull << 32)   /* the body has started and has not ended                 */
#define KC_WORD_CANCELLED (1ull << 33) /* somebody has asked it to end                           */
#define KC_WORD_SHIELDED (1ull << 34)  /* ... which must wait                                    */
#define KC_WORD_HALT (1ull << 35)      /* no more children: those it has are being cancelled     */
#define KC_WORD_WALKED (1ull << 36)    /* its parent has told it                                 */
#define KC_WORD_DRAIN (1ull << 37)     /* its body waits until it alone is left in the count     */
#define KC_WORD_FORBID (1ull << 38)    /* only the end of the scheduler cancels it               */
#define KC_WORD_CLOSED (1ull << 39)    /* a group that takes no more children; a promise kept    */
#define KC_WORD_GRACE_OVER (1ull << 40)     /* its shields hold nothing back any more            */
#define KC_WORD_DONE (1ull << 41)           /* terminal, so the count is 0; the next two say how */
#define KC_WORD_DONE_FAILED (1ull << 42)    /* ...                                               */
#define KC_WORD_DONE_CANCELLED (1ull << 43) /* ...                                               */
#define KC_WORD_MESSAGED (1ull << 44) /* a message to the thread of the body is on its way  */
#define KC_WORD_WAITERS (1ull << 45)  /* somebody joins it, or did                         */
#define KC_WORD_STARTED (1ull << 46)  /* the body has started at some time                 */
#define KC_WORD_TIMED (1ull << 47)    /* its reason is a timeout, not a failure that says so     */
#define KC_WORD_FAILED (1ull << 48)   /* code is not 0                                          */
#define KC_WORD_CHILD_FAILED (1ull << 49) /* FORBID, and a child has failed: no more of them */
#define KC_WORD_NO_STACK                                                                          \
    (3ull << 50) /* not started, as there was no stack: see kc__word_no_stack    */
#define KC_WORD_SHUT (1ull << 52)   /* WALKED, and told so as the scheduler of its parent ends */
#define KC_WORD_BELOW (1ull << 53)  /* FAILED, as one below has: see failure.c               */
#define KC_WORD_OWNED (1ull << 54)  /* its value has somebody to dispose of it, see payload.c */
#define KC_WORD_UNDONE (1ull << 55) /* a child has failed, or was cancelled before it returned 0 */
#define KC_WORD_LATE (1ull << 56)   /* WALKED, and told that the grace of its parent is over */
#define KC_WORD_OVER_BELOW (1ull << 57) /* the grace of its children is over: see grace.c  */
#define KC_WORD_STOP                                                                              \
    KC_TASK_STOP /* the body is effectively cancelled: it hears so when it waits */

/* In NO_STACK: what was missing, in bits that are not all 0. */
KC_INLINE uint64_t kc__word_no_stack(kc_no_stack_t no_stack)
{
    return ((uint64_t)no_stack + 1) << 50;
}

KC_INLINE kc_no_stack_t kc__word_no_stack_of(uint64_t word)
{
    return (kc_no_stack_t)(((word & KC_WORD_NO_STACK) >> 50) - 1);
}

/* What may be together: R1 to R6. Each change of the word is checked in debug builds. */
KC_INLINE bool kc__word_is_legal(uint64_t word)
{
    bool counts = word & KC_WORD_COUNT, done = word & KC_WORD_DONE;
    uint64_t how = word & (KC_WORD_DONE_FAILED | KC_WORD_DONE_CANCELLED);
    uint64_t busy = word & (KC_WORD_BODY | KC_WORD_DRAIN | KC_WORD_MESSAGED);

    return (!done || !counts) && (done || !how) && (how & (how - 1)) == 0 && /* R1 */
           (!busy || counts) &&                                              /* R2 */
           (!(word & KC_WORD_BODY) || (word & KC_WORD_STARTED)) &&           /* R3 */
           (!(word & KC_WORD_DRAIN) || (word & KC_WORD_BODY)) &&             /* R3 */
           (!(word & KC_WORD_STOP) || (word & KC_WORD_CANCELLED)) &&         /* R4 */
           (!(word & KC_WORD_BELOW) || (word & KC_WORD_FAILED)) &&           /* R5 */
           (!(word & KC_WORD_CHILD_FAILED) || (word & KC_WORD_FORBID));      /* R6 */
}

/* The word with n more in the count. */
KC_INLINE uint64_t kc__word_count_up(uint64_t word, uint64_t n)
{
    KC_ASSERT((word & KC_WORD_COUNT) + n <= KC_WORD_COUNT); /* R7 */
    return word + n;
}

/* The word with n less in the count, and without the bits of clear. The count falls nowhere else.
 * If at most one is left then, DRAIN is in clear, and the caller wakes whoever drains (R8). */
KC_INLINE uint64_t kc__word_count_down(uint64_t word, uint64_t n, uint64_t clear)
{
    KC_CHECK((word & KC_WORD_COUNT) >= n); /* R7 */
    KC_CHECK((word & KC_WORD_COUNT) - n > 1 || !(word & ~clear & KC_WORD_DRAIN));
    return (word & ~clear) - n;
}

/* What the word is when nobody has the lock. */
KC_COLD uint64_t kc__word_wait(kc_task_t *task);

/* The word, which nobody has locked. */
KC_INLINE uint64_t kc__word_seen(kc_task_t *task)
{
    uint64_t seen = kc_load_acquire(&task->word); /* word.3 */

    return kc_unlikely(seen & KC_WORD_LOCK) ? kc__word_wait(task) : seen;
}

/* The word becomes another one. False: it is not what was seen any more; *seen is, see above. */
KC_INLINE bool kc__word_swap(kc_task_t *task, uint64_t *seen, uint64_t word)
{
    KC_CHECK(kc__word_is_legal(word));
    if (kc_likely(kc_cas_acq_rel(&task->word, seen, word))) /* word.1 */
        return true;
    if (*seen & KC_WORD_LOCK)
        *seen = kc__word_wait(task);
    return false;
}

/* The same, once: false also if it is locked. What most calls do, which therefore need no more. */
KC_INLINE bool kc__word_try(kc_task_t *task, uint64_t seen, uint64_t word)
{
    return kc_likely(!(seen & KC_WORD_LOCK)) &&
           kc_likely(kc_cas_acq_rel(&task->word, &seen, word)); /* word.1 */
}

/* Takes the lock. Returns what the word was. */
KC_INLINE uint64_t kc__word_lock(kc_task_t *task)
{
    uint64_t seen = kc__word_seen(task);

    while (!kc__word_swap(task, &seen, seen | KC_WORD_LOCK))
        ;
    return seen;
}

/* Gives it back. word: what it is then, without the lock. */
KC_INLINE void kc__word_unlock(kc_task_t *task, uint64_t word)
{
    KC_CHECK(kc__word_is_legal(word));
    kc_store_release(&task->word, word); /* word.2 */
}

/* Sets and clears bits. Returns what it was. */
KC_INLINE uint64_t kc__word_change(kc_task_t *task, uint64_t set, uint64_t clear)
{
    uint64_t seen = kc__word_seen(task);

    while (!kc__word_swap(task, &seen, (seen & ~clear) | set))
        ;
    return seen;
}

#endif
