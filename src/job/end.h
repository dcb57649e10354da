/* SPDX-License-Identifier: MIT */
/*
 * end.h - what a job waits for, and its end when nothing of that is left.
 */
#ifndef KC_JOB_END_H
#define KC_JOB_END_H

#include "job/job.h"

/* ---- the count ------------------------------------------------------------------------------ */

/* One more in the count, if it is not terminal. */
bool kc__job_count_up(kc_job_t *j);

/* One less in the count; ends the job if it was the last. clear: bits of the word to clear. */
void kc__job_count_down(kc_job_t *j, uint64_t clear);

/* Gives up the last one in the count, and ends the job. False: it is not the last. */
bool kc__job_count_down_last(kc_job_t *j, uint64_t clear);

/* One less in the count, which is no root's. False: it was the last, and is a message now, which
 * the caller must send. */
bool kc__job_count_down_not_last(kc_job_t *j);

/* The caller, j's body, waits until it alone is left in the count. */
void kc__job_drain_children(kc_job_t *j);

/* The same, but once: false: it is; true: it was, and may have got others since. */
bool kc__job_drain_once(kc_job_t *j);

KC_INLINE void kc__job_drain(kc_job_t *j)
{
    if ((kc__word_seen(&j->task) & KC_WORD_COUNT) != 1 || kc__tsan())
        kc__job_drain_children(j);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Of a job whose body ends now: the coroutine on this thread that waits for nothing else, or the
 * thread's root. It must run next, and first of all kc__job_body_gone. NULL: there is no such. */
kcoro_t *kc__job_successor(kc_job_t *j);

/* The body has left its stack for good. */
void kc__job_body_gone(kc_job_t *j);

/* Under the locks of both: j, whose body is at rest on this thread and will not continue, ends as
 * cancelled. word: its word, marked so. Nobody waits for it; it has no extension. Its parent, which
 * counts others too, counts it still, and its own reference is there: the caller sees to both. */
void kc__job_end_at_rest(kc_job_t *parent, kc_job_t *j, uint64_t word);

/* An end that was put off until its thread is on its own stack. */
void kc__job_end_now(kc_job_t *j);

/* The end of j, whose word this is, may call the user's code: it has failed, or it tells. */
KC_INLINE bool kc__job_is_heard(const kc_job_t *j, uint64_t word)
{
    return (word & KC_WORD_FAILED) || (kc__job_flags(j) & KC_JOB_TELLS);
}

/* j, whose body ends now, ends with it, and so does a job above that has failed or tells, or j has
 * or does: others may hear of that. */
KC_INLINE bool kc__job_end_is_heard(const kc_job_t *j)
{
    uint64_t word = kc__job_word(j);

    for (; kc_likely((word & KC_WORD_COUNT) == 1); word = kc__job_word(j)) {
        /* As kc__job_is_heard; and what a foreign job has left is another scheduler's to hear of */
        if (kc_unlikely((word & KC_WORD_FAILED) ||
                        (kc__job_flags(j) & (KC_JOB_TELLS | KC_JOB_FOREIGN))))
            return true;
        j = j->parent;
    }
    return false;
}

#endif
