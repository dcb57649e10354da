/* SPDX-License-Identifier: MIT */
/*
 * tree_test.c - the walk over all jobs, while they change.
 */
#include "job_kit.h"
#include "top/tree.h"

struct family {
    count_t started, go, over;
    kc_job_t *parent, *sibling;
    bool among_siblings;
    int visits, with_children;
};

static int ends_when_told(void *arg)
{
    struct family *f = arg;

    add(&f->started);
    UNTIL(get(&f->go));
    return 0;
}

static int has_a_child_for_a_while(void *arg)
{
    struct family *f = arg;
    kc_job_t *child = launch(ends_when_told, f, NULL);

    CHECK_EQ(kc_job_join(child), 0);
    kc_job_release(child);
    add(&f->over);
    UNTIL(get(&f->go) == 2);
    return 0;
}

static void visit(kc_job_t *j, unsigned depth UNUSED, bool leaf, void *arg)
{
    struct family *f = arg;

    f->among_siblings |= j == f->sibling;
    if (j != f->parent)
        return;
    f->visits++;
    f->with_children += !leaf;
}

/* The leaves beside the parent were visited, and it was none of them: now it has no child. */
static void ends_the_child(void *arg)
{
    struct family *f = arg;

    if (!f->among_siblings)
        return;
    if (!get(&f->go))
        set(&f->go, 1);
    UNTIL(get(&f->over));
}

OUTSIDE(a_job_whose_children_end_during_the_walk_is_visited, s)
{
    static const struct kc_tree_visitor visitor = { visit, ends_the_child };
    struct family f = { 0 };
    kc_launch_opts_t opts = { .sched = s };

    if (s->workers == 0)
        return; /* nobody would run while this thread looks */
    CHECK_EQ(kc_launch_job(has_a_child_for_a_while, &f, &opts, &f.parent), 0);
    CHECK_EQ(kc_launch_job(ends_when_told, &f, &opts, &f.sibling), 0);
    UNTIL(get(&f.started) == 2);
    CHECK_EQ(kc__tree_walk(s, &visitor, &f), 0);
    CHECK_EQ(f.visits, 1);
    CHECK_EQ(f.with_children, 1);
    set(&f.go, 2);
    CHECK_EQ(kc_job_join(f.parent), 0);
    CHECK_EQ(kc_job_join(f.sibling), 0);
    kc_job_release(f.parent);
    kc_job_release(f.sibling);
}
