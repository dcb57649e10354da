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

/* The root for what the caller brings to s. detached: for jobs that kc_run does not wait for. */
kc_job_t *kc__root_for(kc_sched_t *s, bool detached);

/* All roots of s: those that kc_run waits for come first, each thread's, main's last. */
int kc__roots_count(const kc_sched_t *s);
kc_job_t *kc__root_at(kc_sched_t *s, int i);

/* Calls visit for each job of s, parents first and of children the oldest first. Only where nothing
 * in s runs; it may cancel j, which is held meanwhile. */
void kc__roots_each(kc_sched_t *s, void (*visit)(kc_job_t *j, void *arg), void *arg);

/* j, whose parent is in another scheduler, is in the tree, and held, as is main's root for it; it
 * has ended. */
void kc__foreign_add(kc_job_t *j);
void kc__foreign_remove(kc_job_t *j);

/* As kc_sched_hooks and kc_task_hooks (task.h) say. */
int kc__roots_open(kc_sched_t *s);
void kc__roots_close(kc_sched_t *s);
void kc__roots_shut(kc_sched_t *s);
void kc__roots_over(kc_sched_t *s); /* the grace of all that is shut is over */
bool kc__roots_are_idle(kc_sched_t *s);
bool kc__roots_look_for_external(kc_sched_t *s, uint64_t *seen);
bool kc__roots_end_shields(kc_sched_t *s);
kc_task_t *kc__roots_make(kc_sched_t *s, kc_affinity_t where, kc_fn_t fn, void *arg,
                          const struct kc_task_more *more);
void kc__roots_go(kc_task_t *task);
void kc__roots_drop(kc_task_t *task);

/* ---- are they empty? ------------------------------------------------------------------------ */

/* Under the lock of a root: its count is about to grow. */
KC_INLINE void kc__root_arrive(kc_job_t *root)
{
    kc_store_release(&root->arrived, kc_load_relaxed(&root->arrived) + 1); /* root.1 */
}

/* One more in the count of a root, which is there as long as its scheduler. */
KC_INLINE void kc__root_count_up(kc_job_t *root)
{
    uint64_t seen = kc__job_lock(root);

    kc__root_arrive(root);
    kc__job_unlock_to(root, kc__word_count_up(seen, 1));
}

/* The first pass: adds what has come to the root so far. True: it counts nothing but itself. */
KC_INLINE bool kc__root_look(const kc_job_t *root, uint64_t *arrived)
{
    *arrived += kc_load_acquire(&root->arrived);                                      /* root.2 */
    return (kc_load_acquire(&root->task.word) & (KC_WORD_COUNT | KC_WORD_LOCK)) == 1; /* root.3 */
}

/* n roots, root(of, i) is one of them: there was a moment during this call when all were empty. */
KC_INLINE bool kc__roots_are_empty(kc_job_t *(*root)(kc_sched_t *of, int i), kc_sched_t *of, int n)
{
    uint64_t before = 0, after = 0;

    for (int i = 0; i < n; i++)
        if (!kc__root_look(root(of, i), &before))
            return false;
    for (int i = 0; i < n; i++)
        after += kc_load_relaxed(&root(of, i)->arrived);
    return before == after; /* none ever falls, so equal sums are equal terms */
}

#endif
