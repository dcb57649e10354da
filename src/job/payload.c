/* SPDX-License-Identifier: MIT */
/*
 * payload.c - a value with a function that disposes of it if nobody takes it (D6).
 *
 * WHAT     OWNED in the word of a job says that there is such a value; the value and its dispose
 *          function are in the extension, because the field of the job itself may be used for
 *          something else when the value cannot be taken any more. The value is disposed of once:
 *          when another value replaces it, when its job does not end COMPLETED, or with the job's
 *          block if it has not been taken. The value of a call of collect.c (its extension has an
 *          `ending`) may be handed over whatever the outcome of the job is: collect.c disposes of
 *          those that it does not hand over, else the end of the block does.
 *
 * ORDER    taken is relaxed: a taker gives its handle up afterwards (job.4), and the thread that
 *          frees the block comes after all of them.
 */
#include "job/payload.h"

#include "job/body.h"
#include "job/job.h"
#include "sched/worker.h"

#include <errno.h>

/* What is there is disposed of, unless it stays. */
static void drop(kc_job_ext_t *ext, const void *stays)
{
    void (*fn)(void *) = ext->drop;

    ext->drop = NULL;
    if (fn && ext->payload != stays)
        kc__dispose(fn, ext->payload);
}

void kc_set_payload_with(void *payload, void (*fn)(void *payload))
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);

    if (!co)
        kc__usage("kc_set_payload_with", "there is no current job " KC_RULE("D4"));
    if (!fn || !payload) {
        kc_set_payload(payload);
        return;
    }
    kc_job_t *own = kc__job_own(co);
    kc_job_ext_t *ext = kc__job_ext(own);
    if (!ext) { /* so nothing is lost, and who awaits it is told */
        kc_set_payload(NULL);
        kc__dispose(fn, payload);
        kc__job_settle(own, -ENOMEM);
        return;
    }
    kc_set_payload(payload);
    ext->payload = payload;
    ext->drop = fn;
    if (kc__job_word(own) & KC_WORD_OWNED)
        return;
    /* Its end may have to dispose of it: not on the stack of whoever is next (S16). */
    kc_store_relaxed(&own->task.block.flags, kc__job_flags(own) | KC_JOB_TELLS);
    kc__job_change(own, KC_WORD_OWNED, 0);
}

void kc__payload_replace(kc_job_t *j, const void *by)
{
    drop(kc__job_ext_of(j), by);
}

void *kc__payload_take(kc_job_t *j)
{
    kc_store_relaxed(&kc__job_ext_of(j)->taken, 1);
    return j->task.payload;
}

static void drop_value(void *arg)
{
    drop(arg, NULL);
}

void kc__payload_end(kc_job_ext_t *ext, uint64_t done)
{
    if (ext->drop && done != KC_WORD_DONE && !ext->ending)
        kc__worker_call(drop_value, ext); /* as nobody's body (S16) */
}

void kc__payload_free(kc_job_ext_t *ext)
{
    if (ext->drop && !kc_load_relaxed(&ext->taken))
        drop(ext, NULL);
}
