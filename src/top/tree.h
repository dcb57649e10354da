/* SPDX-License-Identifier: MIT */
/*
 * tree.h - a walk over the jobs of a scheduler while it runs.
 */
#ifndef KC_TOP_TREE_H
#define KC_TOP_TREE_H

#include "job/job.h"

struct kc_tree_visitor {
    /* There are references to j and to its parent, but j may end meanwhile, or have ended. leaf: it
     * had no children when it was found. */
    void (*job)(kc_job_t *j, unsigned depth, bool leaf, void *arg);
    /* All leaves of one parent have been visited; NULL: nobody asks. */
    void (*leaves_end)(void *arg);
};

/*
 * Visits all jobs of a scheduler; of each parent's children first those without children, oldest
 * first. A job that is there all the time is visited, whatever becomes of its children; one that
 * comes or goes meanwhile is visited once, twice or not at all.
 * Returns: 0; -ENOMEM; -EAGAIN: they change faster than they can be visited. Some were left out.
 */
int kc__tree_walk(kc_sched_t *s, const struct kc_tree_visitor *visitor, void *arg);

#endif
