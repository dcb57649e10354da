/* SPDX-License-Identifier: MIT */
/*
 * cancel.h - how a job is asked to end, and how that reaches its body.
 */
#ifndef KC_JOB_CANCEL_H
#define KC_JOB_CANCEL_H

#include "job/job.h"

typedef enum {
    KC_BY_USER,
    KC_BY_PARENT,
    KC_BY_CHILD,    /* which has failed                           */
    KC_BY_BODY,     /* which has failed, or says it was cancelled */
    KC_BY_TIMEOUT,  /* its timeout                                */
    KC_BY_GRACE,    /* the time for shields is over, its own and all below */
    KC_BY_SHUTDOWN, /* the scheduler ends                        */
    KC_BY_REQUEST,  /* as KC_BY_USER, and counted: kc_job_cancel */
    KC_BY_OWN_GRACE /* as KC_BY_GRACE, by its own timer          */
} kc_cancel_by_t;

/* Asks j to end. True: this call moved it out of ACTIVE. */
bool kc__job_cancel(kc_job_t *j, int reason, kc_cancel_by_t by);

/* A child of j has failed, or, if that is NULL, its body: j ends FAILED, and its children are
 * cancelled. */
void kc__job_fail(kc_job_t *j, int code, kc_job_t *child);

/* The same, and its body goes on. True: j had not failed before, and was not cancelled. */
bool kc__job_fail_running(kc_job_t *j, int code);

/* What a cancel says to the children of j: a timeout is its owner's alone (J5). Under its lock. */
int kc__job_reason_below(const kc_job_t *j);

/* Under the lock of j: how a child is marked that has been told of all there is to be told now. */
KC_INLINE uint64_t kc__job_told_mark(kc_job_t *j)
{
    bool ends = kc_load_relaxed(&kc__job_sched(j)->shutting);
    bool late = kc__job_word(j) & KC_WORD_OVER_BELOW;

    return KC_WORD_WALKED | (ends ? KC_WORD_SHUT : 0) | (late ? KC_WORD_LATE : 0);
}

/* The same, and what the word of one is that is cancelled with it, at once and without a shield. */
KC_INLINE uint64_t kc__job_born_mark(kc_job_t *j)
{
    uint64_t told = kc__job_told_mark(j);
    uint64_t over = told & KC_WORD_LATE ? KC_WORD_GRACE_OVER | KC_WORD_OVER_BELOW : 0;

    return KC_WORD_CANCELLED | KC_WORD_STOP | KC_WORD_HALT | told | over;
}

/* What is new about a job. FIRST: it was not cancelled before, and is now. BELOW: its children must
 * hear of something. FAILED: it had not failed before, and has now. LATE: it was cancelled before.
 */
enum { KC_MARKED_FIRST = 1, KC_MARKED_BELOW = 2, KC_MARKED_FAILED = 4, KC_MARKED_LATE = 8 };

/* Cancels j, which somebody holds a reference on, but not what is below it. Returns what is new. */
int kc__job_mark(kc_job_t *j, int reason, kc_cancel_by_t by);

/* STOP or HALT was set just now. tells: see kc__job_signal_terminate. Somebody holds a reference.
 * The body is stopped before handlers run: they may take in what was sent to this thread, and then
 * a body that may migrate is no longer where it was when it was decided whether it needs a
 * message. */
void kc__job_take_effect(kc_job_t *j, uint64_t added, uint64_t was, bool tells, bool message);

/* On the thread of its body: j is effectively cancelled. */
void kc__job_stop_body(kc_job_t *j);

/* A message of kc__job_cancel has come to the thread of j's body. */
void kc__job_cancel_message(kc_job_t *j);

/* One less in the count, from any thread. If it is the last, j ends on a thread of its scheduler:
 * those who hear of that may be the user's code. */
void kc__job_count_down_there(kc_job_t *j);

#endif
