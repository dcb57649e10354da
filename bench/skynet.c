/* SPDX-License-Identifier: MIT */
/*
 * skynet.c - a tree of jobs: 1 000 000 leaves, ten children to each node, summed up.
 *
 * A leaf hands its number to its parent, a node the sum of its children's; 1 111 111 jobs in all.
 * Times are per leaf, of whole trees, whatever a repetition holds: so many nanoseconds a leaf are
 * as many milliseconds a tree. A node of ours launches into a scope, each child with a place for
 * its sum in the node's frame, or has deferred values. Go's nodes have a channel, as in the program
 * from which the question comes (github.com/atemerev/skynet), Tokio's await the tasks they have
 * spawned.
 */
#include "peers/go.h"
#include "peers/tokio.h"
#include "run.h"

#include <kcoro/job.h>

#include <stdlib.h>

enum {
    CHILDREN = 10,
    LEAVES = 1000000,
    LEAVES_FEW = 100, /* the tree for a calibration that asks for less than FEW leaves */
    FEW = 256,
};

struct node {
    uint64_t number, size, sum;
};

static struct node child_of(const struct node *n, uint64_t i)
{
    uint64_t part = n->size / CHILDREN;

    return (struct node){ .number = n->number + i * part, .size = part };
}

static int scopes(void *arg)
{
    struct node *n = arg, child[CHILDREN];
    kc_scope_t scope;

    if (n->size == 1) {
        n->sum = n->number;
        return 0;
    }
    must(kc_scope_begin(&scope, NULL));
    for (uint64_t i = 0; i < CHILDREN; i++) {
        child[i] = child_of(n, i);
        must(kc_launch(scopes, &child[i]));
    }
    must(kc_scope_end(&scope));
    for (uint64_t i = 0; i < CHILDREN; i++)
        n->sum += child[i].sum;
    return 0;
}

static int deferreds(void *arg)
{
    struct node *n = arg, child[CHILDREN];
    kc_deferred_t *d[CHILDREN];
    void *sum;

    if (n->size == 1) {
        kc_set_payload((void *)(uintptr_t)n->number);
        return 0;
    }
    for (uint64_t i = 0; i < CHILDREN; i++) {
        child[i] = child_of(n, i);
        must(kc_async(deferreds, &child[i], &d[i]));
    }
    for (uint64_t i = 0; i < CHILDREN; i++) {
        must(kc_await(d[i], &sum));
        kc_deferred_release(d[i]);
        n->sum += (uintptr_t)sum;
    }
    kc_set_payload((void *)(uintptr_t)n->sum);
    return 0;
}

/* Whole trees, however few leaves n are. */
static void trees_run(kc_fn_t fn, uint64_t n)
{
    uint64_t leaves = n < FEW ? LEAVES_FEW : LEAVES, trees = (n + leaves - 1) / leaves;
    int64_t start = kb_now();

    for (uint64_t i = 0; i < trees; i++) {
        struct node root = { .size = leaves };

        run_task(KC_WORKER, fn, &root);
        if (root.sum != leaves * (leaves - 1) / 2)
            abort();
    }
    int64_t took = kb_now() - start;

    kb_took((int64_t)((double)took * (double)n / (double)(trees * leaves)));
}

static void scopes_run(void *arg, uint64_t n)
{
    (void)arg;
    trees_run(scopes, n);
}

static void deferreds_run(void *arg, uint64_t n)
{
    (void)arg;
    trees_run(deferreds, n);
}

static void ask(const char *title, int workers, const char *operation)
{
    sched_open(workers);
    kb_question(title);
    kb_case("kcoro scopes", scopes_run, NULL);
    kb_case("kcoro deferred values", deferreds_run, NULL);
    kb_go_case("go channels", operation);
    kb_tokio_case("tokio tasks", operation);
    kb_base("go channels");
    kb_base("tokio tasks");
    kb_measure();
    sched_close();
}

int main(int argc, char **argv)
{
    kb_init(argc, argv, "skynet", "a tree of 1 000 000 leaves; ns per leaf are ms per tree");
    ask("skynet, one thread", KC_NO_WORKERS, "skynet_1");
    ask("skynet, 2 workers", 2, "skynet");
    return kb_done();
}
