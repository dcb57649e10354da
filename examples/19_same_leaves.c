/* SPDX-License-Identifier: MIT */
/*
 * 19_same_leaves.c - do two trees of different shapes have the same leaves, from left to right? A
 * generator walks each, and both walks stop at the first difference.
 *
 * Prints:
 *   ((1 2) (3 4)) and (1 (2 (3 4))): the same
 *   ((1 2) (3 4)) and (1 ((5 2) 3)): different at leaf 2, after 4 leaves were visited
 */
#include <kcoro/kcoro.h>

#include <stdio.h>

struct node {
    int leaf; /* 0: it has two children */
    const struct node *left, *right;
};

static int visited;

static void walk(kc_gen_t *g, const struct node *n)
{
    if (n->leaf) {
        visited++;
        kc_gen_yield(g, (void *)&n->leaf); /* in the middle of a recursion */
    } else {
        walk(g, n->left);
        walk(g, n->right);
    }
}

static int leaves(kc_gen_t *g, void *tree)
{
    walk(g, tree);
    return 0;
}

/* The number of the first leaf that differs; 0: none, -1: no memory. */
static int compare(const struct node *a, const struct node *b)
{
    kc_gen_t ga, gb;
    void *x = NULL, *y = NULL;
    int at = 0, differs = -1;

    if (kc_gen_start(&ga, leaves, (void *)a, 0) != 0)
        return -1;
    if (kc_gen_start(&gb, leaves, (void *)b, 0) == 0) {
        bool more;
        do {
            more = kc_gen_next(&ga, &x);
            differs = kc_gen_next(&gb, &y) != more || (more && *(int *)x != *(int *)y);
            at++;
        } while (more && !differs);
        kc_gen_end(&gb); /* wherever it is: its stack is freed */
    }
    kc_gen_end(&ga);
    return differs > 0 ? at : differs;
}

int main(void)
{
    const struct node n1 = { .leaf = 1 }, n2 = { .leaf = 2 }, n3 = { .leaf = 3 },
                      n4 = { .leaf = 4 };
    const struct node n5 = { .leaf = 5 };
    const struct node n12 = { 0, &n1, &n2 }, n34 = { 0, &n3, &n4 }, even = { 0, &n12, &n34 };
    const struct node n234 = { 0, &n2, &n34 }, right = { 0, &n1, &n234 };
    const struct node n52 = { 0, &n5, &n2 }, n523 = { 0, &n52, &n3 }, other = { 0, &n1, &n523 };

    printf("((1 2) (3 4)) and (1 (2 (3 4))): %s\n",
           compare(&even, &right) == 0 ? "the same" : "different");
    visited = 0;
    int at = compare(&even, &other);
    printf("((1 2) (3 4)) and (1 ((5 2) 3)): different at leaf %d, after %d leaves were visited\n",
           at, visited);
    return 0;
}
