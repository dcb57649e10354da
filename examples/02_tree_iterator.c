/* SPDX-License-Identifier: MIT */
/*
 * 02_tree_iterator.c - a recursive walk turned into an iterator: each yield hands out one node.
 *
 * Prints:
 *   1 3 4 6 7 8 10 13 14
 *   the first three: 1 3 4
 */
#include <kcoro/kcoro.h>

#include <stdio.h>

struct node {
    int key;
    struct node *left, *right;
};

struct walk {
    struct node *root;
    const struct node *at; /* what the last resume found; NULL: the end */
};

static void visit(struct walk *w, const struct node *n)
{
    if (!n)
        return;
    visit(w, n->left);
    w->at = n;
    kcoro_yield(); /* in the middle of a recursion: the whole stack waits */
    visit(w, n->right);
}

static void walk(void *arg)
{
    struct walk *w = arg;

    visit(w, w->root);
    w->at = NULL;
}

static const struct node *next(kcoro_t *co, struct walk *w)
{
    return kcoro_resume(co) == 0 ? w->at : NULL;
}

int main(void)
{
    struct node n1 = { 1, NULL, NULL }, n4 = { 4, NULL, NULL }, n7 = { 7, NULL, NULL };
    struct node n6 = { 6, &n4, &n7 }, n3 = { 3, &n1, &n6 }, n13 = { 13, NULL, NULL };
    struct node n14 = { 14, &n13, NULL }, n10 = { 10, NULL, &n14 }, n8 = { 8, &n3, &n10 };
    struct walk w = { &n8, NULL };
    kcoro_t *co = kcoro_create(walk, &w, 0);

    if (!co)
        return 1;
    for (const struct node *n = next(co, &w); n; n = next(co, &w))
        printf("%d%s", n->key, n->key == 14 ? "\n" : " ");
    kcoro_destroy(co);

    co = kcoro_create(walk, &w, 0);
    if (!co)
        return 1;
    printf("the first three:");
    for (int i = 0; i < 3; i++)
        printf(" %d", next(co, &w)->key);
    printf("\n");
    kcoro_destroy(co); /* in the middle of the walk: its stack is simply freed */
    return 0;
}
