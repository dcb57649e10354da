/* SPDX-License-Identifier: MIT */
/*
 * interpret_cancel.c - operations that cancel, hold a cancel back, or clean up.
 */
#include "program.h"

#include <errno.h>

static const int reasons[] = { 0, -EINTR, -EBUSY };

static void cancelled(struct node *n, bool first)
{
    if (!first)
        return;
    MUST(kc_add_relaxed(&n->firsts, 1) == 0);
    kc_store_relaxed(&n->cancelled_at, kc_now());
    kc_store_relaxed(&n->cancelled, 1);
}

int op_cancel(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);
    kc_job_t *j = kc_load_acquire(&n->job);

    (void)p;
    if (!j)
        return 0;
    mark_cause(n);
    if (op->how == 7) {
        kc_signal_t *s = kc_job_signal(j);
        if (s)
            kc_signal_emit(s, KC_SIG_TERMINATE);
        return 0;
    }
    cancelled(n, kc_job_cancel(j, reasons[op->how % 3]));
    return 0;
}

int op_cancel_self(struct place *p, const struct op *op)
{
    mark_cause(p->at);
    cancelled(p->at, kc_cancel_current(reasons[op->how % 3]));
    return 0;
}

int op_fail_self(struct place *p, const struct op *op)
{
    (void)op;
    p->at->failed_self = true;
    mark_failure(p->at);
    mark_family(p->at, FAILED_SELF);
    bool first = kc_fail_current(FAILED_SELF);
    if (!first || p->own->interval) /* which has a job for each run */
        return 0;
    cancelled(p->at, true);
    p->at->failed_first = true;
    return 0;
}

int op_check(struct place *p, const struct op *op)
{
    (void)op;
    return checked(p, must_be_cancelled(p), kc_check());
}

int op_forbid(struct place *p, const struct op *op)
{
    if (op->how < 4) {
        kc_store_relaxed(&p->own->forbids, 1);
        kc_forbid_signal();
    }
    return 0;
}

int op_shield(struct place *p, const struct op *op)
{
    struct place inside = *p;
    uint32_t must = must_be_cancelled(p);

    if (op->node < 0)
        return 0;
    shield_begins(p);
    int rc = kc_shield_begin();
    if (rc != 0) {
        shield_ends(p);
        return checked(p, 0, rc);
    }
    MUST(!must || p->shield); /* else the cancel came first */
    inside.shield = p->shield ? p->shield : p->at;
    (void)run_piece(&inside, node_at(op->node));
    kc_shield_end();
    shield_ends(p);
    p->thread = p->thread ? thread_number() : 0;
    return 0;
}

static void run_shielded(struct node *own, struct node *at, struct node *piece, bool shielded)
{
    struct place p = { .own = own, .at = at, .cleanup = true };

    p.shield = shielded ? at : NULL;
    if (shielded)
        shield_begins(&p);
    trace(&p, 1003, (uint64_t)piece->index);
    (void)run_piece(&p, piece);
}

static void run_cleanup(void *piece)
{
    struct node *n = piece;

    MUST(kc_add_relaxed(&n->left, 1) == 0);
    run_shielded(node_at(n->own), node_at(n->at), n, true);
}

int op_cleanup(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);
    uint64_t thread = p->thread;
    int rc;

    if (!n)
        return 0;
    n->own = p->own->index;
    n->at = p->at->index;
    kc_store_relaxed(&n->launched, 1);
    kc_store_relaxed(&n->started, 1);
    {
        KC_CLEANUP(run_cleanup, n);
        rc = op_sleep(p, op);
    }
    shield_ends(p);
    p->thread = thread ? thread_number() : 0;
    return rc;
}

/* The newest first. */
static void pop_deferred(void *node)
{
    struct node *piece = node, *at = node_at(piece->at);

    if (at->defers == 0 || at->deferred[at->defers - 1] != piece->index)
        BROKEN("cleanup %d of node %d is not the newest", piece->index, at->index);
    at->defers -= sabotage != BREAK_LOSE_CLEANUP;
    holds_open(at, -1);
}

static void run_deferred(void *piece)
{
    struct node *n = piece;

    KC_CLEANUP(pop_deferred, n); /* without memory it runs at once, and may be unwound */
    node_at(n->at)->cleanups_run += !n->deferring;
    run_shielded(node_at(n->own), node_at(n->at), n, !n->deferring);
}

int op_defer(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node), *at = p->at;

    if (!n || at->defers == DEFERS)
        return 0;
    n->own = p->own->index;
    n->at = at->index;
    at->deferred[at->defers++] = n->index;
    holds_open(at, 1);
    n->deferring = true;
    int rc = kc_defer(run_deferred, n);
    n->deferring = false;
    MUST(rc == 0 || may_lack_memory(rc));
    p->thread = p->thread ? thread_number() : 0;
    return 0;
}

int op_undefer(struct place *p, const struct op *op)
{
    (void)op;
    if (p->at->defers == 0)
        return 0;
    struct node *n = node_at(p->at->deferred[p->at->defers - 1]);
    MUST(kc_undefer(run_deferred, n));
    pop_deferred(n);
    return 0;
}
