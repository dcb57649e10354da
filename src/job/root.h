/* SPDX-License-Identifier: MIT */
/*
 * root.h - are the roots of a scheduler empty? One answer about many words.
 *
 * WHAT     Each thread of a scheduler has roots (root.c), each with a count of its own. Counts that
 *          are read one after the other are no picture of one moment: a task in a root that is read
 *          late may have left another one in a root that was read early, and both look empty. So
 *          each root also counts what has ever come to it, and never less. If all were empty, and
 *          then nothing has come to any of them since it was looked at, then there was a moment,
 *          between the two passes, when all were empty at once.
 *
 * ORDER    id      site             operation      pairs with  carries; what breaks if weaker
 *          root.1  arrive: arrived  store_release  root.2      the lock bit, set before: who sees
 *                                                              the arrival sees it, or the count
 *                                                              after it
 *          root.2  first: arrived   load_acquire   root.1
 *          root.3  first: word      load_acquire   word.1      what the jobs have written, for who
 *                                                              has run the scheduler; whatever a
 *                                                              job has brought to another root,
 *                                                              before it left this one: the second
 *                                                              pass would miss it
 *
 * RULES    arrived changes only under the lock of the root, before its count does.
 *
 * WHY NOT  One count for the scheduler: all threads would write to it at every submit.
 */
#ifndef KC_JOB_ROOT_H
#define KC_JOB_ROOT_H

#include "job/job.h"

/* Under the lock of a root: its count is about to grow. */
KC_INLINE void kc__root_arrive(kc_job_t *root)
{
    kc_store_release(&root->arrived, kc_load_relaxed(&root->arrived) + 1); /* root.1 */
}

/* One more in the count of a root, which is there as long as its scheduler. */
KC_INLINE void kc__root_hold(kc_job_t *root)
{
    uint64_t seen = kc__job_lock(root);

    kc__root_arrive(root);
    kc__job_unlock_to(root, seen + 1);
}

/* The first pass: the root counts nothing but itself. Adds what has come to it so far. */
KC_INLINE bool kc__root_is_empty(const kc_job_t *root, uint64_t *arrived)
{
    *arrived += kc_load_acquire(&root->arrived);                                      /* root.2 */
    return (kc_load_acquire(&root->task.word) & (KC_WORD_COUNT | KC_WORD_LOCK)) == 1; /* root.3 */
}

/* n roots, root(of, i) is one of them: there was a moment during this call when all were empty. */
KC_INLINE bool kc__roots_are_empty(kc_job_t *(*root)(kc_sched_t *of, int i), kc_sched_t *of, int n)
{
    uint64_t before = 0, after = 0;

    for (int i = 0; i < n; i++)
        if (!kc__root_is_empty(root(of, i), &before))
            return false;
    for (int i = 0; i < n; i++)
        after += kc_load_relaxed(&root(of, i)->arrived);
    return before == after; /* none ever falls, so equal sums are equal terms */
}

#endif
