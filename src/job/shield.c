/* SPDX-License-Identifier: MIT */
/*
 * shield.c - pieces of a body in which a cancel has no effect.
 *
 * WHAT     A job that is shielded may be marked as cancelled, but neither STOP nor HALT is set. At
 *          the end of the outermost shield they are, and what follows a cancel follows then: see
 *          cancel.c. A cleanup opens one whatever the state is, and the effect of a cancel that was
 *          there before is suspended meanwhile, unless the grace is over.
 */
#include "job/shield.h"

#include "job/cancel.h"
#include "job/cancel_walk.h"
#include "job/job.h"
#include "job/job_signal.h"
#include "sched/worker.h"

#include <errno.h>

/* The word changes in one step. Returns what it was. */
static uint64_t change_by(kc_job_t *j, uint64_t (*next)(uint64_t word))
{
    uint64_t seen = kc__word_seen(&j->task);

    while (!kc__word_swap(&j->task, &seen, next(seen)))
        ;
    return seen;
}

static uint64_t with_shield(uint64_t word)
{
    return (word | KC_WORD_SHIELDED) &
           ~(word & KC_WORD_GRACE_OVER ? 0 : KC_WORD_STOP | KC_WORD_HALT);
}

static uint64_t without_shield(uint64_t word)
{
    return (word & ~KC_WORD_SHIELDED) | (word & KC_WORD_CANCELLED ? KC_WORD_STOP | KC_WORD_HALT
                                         : word & KC_WORD_CHILD_FAILED ? KC_WORD_HALT
                                                                       : 0);
}

void kc__job_shield(kc_job_t *j)
{
    if (j->shields++ > 0)
        return;
    if (kc__job_word(j) & KC_WORD_HALT)
        kc__job_walk(j); /* what was there before is told before */
    change_by(j, with_shield);
}

struct late {
    kc_job_t *job;
    uint64_t added;
    bool tells;
};

static void take_late_effect(void *arg)
{
    const struct late *late = arg;

    kc__job_take_effect(late->job, late->added, 0, late->tells,
                        false); /* its body runs: it is the caller */
    kc__job_walk(late->job);
}

void kc__job_unshield(kc_job_t *j)
{
    if (--j->shields > 0)
        return;
    uint64_t was = kc__job_lock(j), word = without_shield(was), added = word & ~was;
    bool tells = (added & KC_WORD_STOP) && kc__job_signal_terminate(j);
    kc__job_unlock_to(j, word);
    if (added & KC_WORD_HALT)
        kc__worker_call(take_late_effect, &(struct late){ j, added, tells });
}

/* A shield that the body asks for comes too late after a cancel. */
static uint64_t with_first_shield(uint64_t word)
{
    return word & KC_WORD_CANCELLED ? word : word | KC_WORD_SHIELDED;
}

int kc_shield_begin(void)
{
    kc_job_t *j = kc__job_current();

    if (!j)
        return -EPERM;
    if (j->shields > 0) {
        j->shields++;
        return 0;
    }
    if (change_by(j, with_first_shield) & KC_WORD_CANCELLED)
        return -ECANCELED;
    j->shields = 1;
    return 0;
}

void kc_shield_begin_nocancel(void)
{
    kc_job_t *j = kc__job_current();

    if (!j)
        kc__usage("kc_shield_begin_nocancel", "there is no current job " KC_RULE("J30"));
    kc__job_shield(j);
}

void kc_shield_end(void)
{
    kc_job_t *j = kc__job_current();

    if (!j || j->shields == 0)
        kc__usage("kc_shield_end", "no shield is open in the current job " KC_RULE("J12"));
    kc__job_unshield(j);
}
