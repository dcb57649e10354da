/* SPDX-License-Identifier: MIT */
/*
 * tree.c - a walk over the jobs of a scheduler while it runs.
 *
 * WHAT     Nothing is stopped, and nothing is kept from ending: the walk has references only. It
 *          takes children in batches, a few under each lock of their parent, and goes on behind the
 *          last of a batch that is still in the ring. If all have left, it starts at the oldest
 *          again, who may have been visited before.
 *
 *          A ring goes from the newest to the oldest: the walk goes backwards, and ends at the
 *          newest. A cancel that turns the ring meanwhile may send it round once more; the number
 *          of steps is limited.
 *
 * SHAPE    one level for each job of the path, in memory that grows: depth costs no stack.
 *
 * WHY NOT  Holding them by their counts, as leases do: then a dump changes what happens, and when.
 */
#include "top/tree.h"

#include "job/root.h"

#include <kcoro/trace.h>

#include <errno.h>
#include <string.h>

enum { BATCH = 14 };

/* The children of one job. */
struct level {
    kc_job_t *job;
    kc_job_t *batch[BATCH]; /* with a reference each */
    unsigned count, at;
};

struct walk {
    const struct kc_tree_visitor *visitor;
    void *arg;
    uint64_t steps; /* that may still be taken */
    struct level *level;
    size_t depth, room;
};

/* Under the parent's lock: what comes after `from` in its ring, or the oldest. NULL: none. */
static kc_job_t *after(const kc_job_t *parent, const kc_job_t *from)
{
    if (from == parent->children)
        return NULL; /* the newest, or there are none */
    return from ? from->prev : parent->children->prev;
}

static void refill(struct walk *walk, struct level *l)
{
    kc_job_t *old[BATCH], *from = NULL;
    unsigned before = l->count;

    memcpy(old, l->batch, sizeof old);
    l->count = l->at = 0;
    kc__job_lock(l->job);
    for (unsigned i = before; i > 0 && !from; i--)
        from = old[i - 1]->next ? old[i - 1] : NULL; /* else it has left */
    for (kc_job_t *j = after(l->job, from); j && l->count < BATCH && walk->steps > 0;
         j = after(l->job, j), walk->steps--) {
        kc__job_ref(j);
        l->batch[l->count++] = j;
    }
    kc__job_unlock(l->job);
    for (unsigned i = 0; i < before; i++)
        kc__job_unref(old[i]);
}

/* The next child, which is there until the call after this; NULL: there is no other. */
static kc_job_t *next_child(struct walk *walk, struct level *l)
{
    if (l->at == l->count)
        refill(walk, l);
    return l->at < l->count ? l->batch[l->at++] : NULL;
}

static bool is_leaf(kc_job_t *j)
{
    kc__job_lock(j);
    bool leaf = !j->children;
    kc__job_unlock(j);
    return leaf;
}

/* Goes down to j: visits its leaves. */
static int enter(struct walk *walk, kc_job_t *j)
{
    if (walk->depth == walk->room) {
        size_t room = walk->room ? walk->room * 2 : 8;
        struct level *more = kc__alloc(room * sizeof *more);
        if (!more)
            return -ENOMEM;
        if (walk->depth)
            memcpy(more, walk->level, walk->depth * sizeof *more);
        kc__free(walk->level);
        walk->level = more;
        walk->room = room;
    }
    struct level *l = &walk->level[walk->depth++];
    l->job = j;
    l->count = l->at = 0;
    for (kc_job_t *child; (child = next_child(walk, l)) != NULL;)
        if (is_leaf(child))
            walk->visitor->job(child, (unsigned)walk->depth - 1, true, walk->arg);
    if (walk->visitor->leaves_end)
        walk->visitor->leaves_end(walk->arg);
    return 0;
}

static int walk_below(struct walk *walk, kc_job_t *root)
{
    int rc = enter(walk, root);

    while (walk->depth > 0) {
        struct level *l = &walk->level[walk->depth - 1];
        kc_job_t *child = next_child(walk, l);
        if (!child) {
            walk->depth--;
        } else if (!is_leaf(child)) {
            walk->visitor->job(child, (unsigned)walk->depth - 1, false, walk->arg);
            int failed = enter(walk, child);
            rc = failed ? failed : rc;
        }
    }
    return rc;
}

int kc__tree_walk(kc_sched_t *s, const struct kc_tree_visitor *visitor, void *arg)
{
    struct walk walk = { .visitor = visitor, .arg = arg };
    kc_metrics_t now;
    int rc = 0;

    kc_metrics(s, &now);
    walk.steps = now.jobs_live * 4 + 1000;
    for (int i = 0; i < kc__roots_count(s) && rc == 0; i++)
        rc = walk_below(&walk, kc__root_at(s, i));
    kc__free(walk.level);
    return rc ? rc : walk.steps > 0 ? 0 : -EAGAIN;
}
