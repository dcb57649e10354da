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
 *          Whether a child is a leaf is asked once: a job whose children come and go would else be
 *          no leaf when the leaves are visited, and one when the others are, and be left out.
 *
 * SHAPE    one level for each job of the path, in memory that grows: depth costs no stack. Each has
 *          a list of those children that are to be entered when its leaves have been visited.
 *
 * WHY NOT  Holding them by their counts, as leases do: then a dump changes what happens, and when.
 */
#include "top/tree.h"

#include "job/root.h"

#include <kcoro/trace.h>

#include <errno.h>
#include <string.h>

enum { BATCH = 14 };

/* A child that has children. */
struct parent {
    kc_job_t *job; /* with a reference */
};

/* The children of one job. */
struct level {
    kc_job_t *job;
    kc_job_t *batch[BATCH]; /* with a reference each */
    unsigned count, at;
    struct parent *parents; /* those of them that have children */
    size_t parents_count, parents_at, parents_room;
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

/* Notes a child that is to be entered later. -ENOMEM: it is not. */
static int note_parent(struct level *l, kc_job_t *j)
{
    if (l->parents_count == l->parents_room) {
        size_t room = l->parents_room ? l->parents_room * 2 : 8;
        struct parent *more = kc__alloc(room * sizeof *more);
        if (!more)
            return -ENOMEM;
        if (l->parents_count)
            memcpy(more, l->parents, l->parents_count * sizeof *more);
        kc__free(l->parents);
        l->parents = more;
        l->parents_room = room;
    }
    kc__job_ref(j);
    l->parents[l->parents_count++].job = j;
    return 0;
}

/* Room for one level more. */
static int make_room(struct walk *walk)
{
    size_t room = walk->room ? walk->room * 2 : 8;

    if (walk->depth < walk->room)
        return 0;
    struct level *more = kc__alloc(room * sizeof *more);
    if (!more)
        return -ENOMEM;
    if (walk->depth)
        memcpy(more, walk->level, walk->depth * sizeof *more);
    kc__free(walk->level);
    walk->level = more;
    walk->room = room;
    return 0;
}

/* Goes down to j: visits its leaves. */
static int enter(struct walk *walk, kc_job_t *j)
{
    int rc = make_room(walk);

    if (rc != 0)
        return rc;
    struct level *l = &walk->level[walk->depth++];
    *l = (struct level){ .job = j };
    for (kc_job_t *child; (child = next_child(walk, l)) != NULL;) {
        if (is_leaf(child))
            walk->visitor->job(child, (unsigned)walk->depth - 1, true, walk->arg);
        else if (note_parent(l, child) != 0)
            rc = -ENOMEM;
    }
    if (walk->visitor->leaves_end)
        walk->visitor->leaves_end(walk->arg);
    return rc;
}

/* All below the job of the last level have been visited. */
static void leave(struct walk *walk)
{
    struct level *l = &walk->level[--walk->depth];

    for (size_t i = 0; i < l->parents_count; i++)
        kc__job_unref(l->parents[i].job);
    kc__free(l->parents);
}

static int walk_below(struct walk *walk, kc_job_t *root)
{
    int rc = enter(walk, root);

    while (walk->depth > 0) {
        struct level *l = &walk->level[walk->depth - 1];
        if (l->parents_at == l->parents_count) {
            leave(walk);
            continue;
        }
        kc_job_t *child = l->parents[l->parents_at++].job;
        walk->visitor->job(child, (unsigned)walk->depth - 1, false, walk->arg);
        int failed = enter(walk, child);
        rc = failed ? failed : rc;
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
