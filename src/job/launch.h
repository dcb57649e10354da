/* SPDX-License-Identifier: MIT */
/*
 * launch.h - places, flags and promises, for those who launch in other ways.
 */
#ifndef KC_JOB_LAUNCH_H
#define KC_JOB_LAUNCH_H

#include "job/create.h"

/* The options of a kc_call_t, which may have these flags: 0, or why they cannot be (A5). */
int kc__launch_check_call(const kc_launch_opts_t *o, uint32_t flags);

/* Where a job of s with these options is to start: 0, or -EINVAL: there is no such place. */
int kc__launch_place(const kc_launch_opts_t *o, kc_sched_t *s, kc_affinity_t *where);

/* The flags of a job with these options. One that starts NOW and may migrate is bound to the
 * caller's thread by its start only, unless it was asked to be there (J20). */
KC_INLINE uint32_t kc__launch_flags(const kc_launch_opts_t *o)
{
    uint32_t both = KC_JOB_NOW | KC_JOB_MIGRATE;
    bool anywhere = (o->flags & both) == both && o->affinity == KC_WORKER;

    return o->flags | (anywhere ? (uint32_t)KC_JOB_ANYWHERE : 0u);
}

/* Queues j, which is in the tree, or with KC_JOB_NOW starts it here; or it waits for its turn. */
void kc__launch_start(kc_job_t *j);

/* A promise that other jobs of the current one keep: it does not count as held from outside. */
int kc__promise_of_ours(kc_deferred_t **out);

/* One that a resolver holds too: with one reference more. */
int kc__promise_for_resolver(const kc_launch_opts_t *opts, kc_job_t **out);

/* As kc_promise_complete, of any promise. */
int kc__promise_keep(kc_job_t *j, int rc, void *payload);

/* A group is closed, or a promise kept or cancelled: what held it open is gone. */
void kc__group_end(kc_job_t *j);

#endif
