/* SPDX-License-Identifier: MIT */
/*
 * balance.c - what must hold when a program has ended: items, cleanups, outcomes, locks.
 */
#include "program.h"

#include <errno.h>

static void check_items(void)
{
    uint32_t used = kc_load_relaxed(&prog.items);

    for (uint32_t i = 1; i < ITEMS && i <= used; i++) {
        uint32_t flags = kc_load_relaxed(&prog.item[i].flags);
        bool sent = flags & ITEM_SENT, got = flags & ITEM_GOT, back = flags & ITEM_BACK;
        if (sent != (got || back) || (got && back))
            BROKEN("item %u of channel %d: sent %d, received %d, given back %d", i,
                   prog.item[i].channel, sent, got, back);
    }
}

static bool failed_by_itself(const struct node *n, int code)
{
    return n->returned == code || (n->failed_self && code == FAILED_SELF);
}

static bool failed_below(const struct node *n, int code)
{
    for (int i = 0; i < prog.nodes; i++) {
        const struct node *c = &prog.node[i];
        if (c->up != n->index || c->kind == PIECE || fails_alone(c) ||
            !kc_load_relaxed(&c->launched))
            continue;
        kc_job_t *j = kc_load_relaxed(&c->job);
        int result = 0;
        if (!j ? failed_by_itself(c, code) || failed_below(c, code)
               : kc_job_state(j) == KC_JOB_FAILED && kc_job_result(j, &result) == 0 &&
                     result == code)
            return true;
    }
    return false;
}

/* A child of which it is known that it failed, and that this counts. */
static bool has_failed_child(const struct node *n)
{
    for (int i = 0; i < prog.nodes; i++) {
        const struct node *c = &prog.node[i];
        kc_job_t *j = kc_load_relaxed(&c->job);
        if (c->up == n->index && c->kind == BODY && !fails_alone(c) && j &&
            kc_job_state(j) == KC_JOB_FAILED)
            return true;
    }
    return false;
}

/* What its body returned is known, if it did. */
static void check_returned(const struct node *n, kc_job_t *j)
{
    int returned = 0, rc = kc_job_returned(j, &returned);
    bool ran = n->kind == BODY && kc_load_relaxed(&n->started) == 1;

    MUST(rc == 0 || rc == -ENOENT);
    if (rc == 0)
        MUST(ran && returned == n->returned);
    else
        MUST(!ran || (n->flags & KC_JOB_UNWIND));
}

/* Whose failure it is: a job, of another number or its own, that could have failed so. */
static void check_culprit(const struct node *n, kc_job_t *j, int code)
{
    uint64_t id = 0;
    int rc = kc_job_culprit(j, &id, NULL);

    MUST(rc == 0 || may_lack_memory(rc));
    for (int i = 0; rc == 0 && i < prog.nodes; i++) {
        const struct node *c = &prog.node[i];
        kc_job_t *other = kc_load_relaxed(&c->job);
        if (!other || kc_job_id(other) != id)
            continue;
        MUST(is_below(c, n) || c == n);
        MUST(kc_job_state(other) == KC_JOB_FAILED);
        MUST(failed_by_itself(c, code) || c->kind == PROMISE);
    }
}

static void check_outcome(const struct node *n, kc_job_t *j)
{
    int code = 0, reason = kc_job_reason(j);
    bool supervisor = n->flags & KC_JOB_SUPERVISOR;
    struct place p = { .own = (struct node *)n, .at = (struct node *)n };

    MUST(kc_job_result(j, &code) == 0);
    if (n->failed_first)
        MUST(kc_job_state(j) == KC_JOB_FAILED && code == FAILED_SELF);
    switch (kc_job_state(j)) {
    case KC_JOB_COMPLETED:
        if (code != 0 || reason != 0 || kc_load_relaxed(&n->firsts) != 0)
            BROKEN("node %d is COMPLETED: code %d, reason %d", n->index, code, reason);
        if (n->kind == BODY)
            MUST(n->returned == 0 && kc_load_relaxed(&n->left) == 1);
        MUST(supervisor || !has_failed_child(n));
        break;
    case KC_JOB_FAILED:
        if (reason == -ETIMEDOUT)
            BROKEN("node %d is FAILED with %d after a timeout", n->index, code);
        if (code == -ENOMEM && prog.faults)
            break; /* it, or a child, got no stack */
        check_culprit(n, j, code);
        if (!failed_by_itself(n, code) && (supervisor || !failed_below(n, code)) &&
            n->kind != PROMISE)
            BROKEN("node %d is FAILED with %d, and neither it nor a child failed with that",
                   n->index, code);
        break;
    case KC_JOB_CANCELLED:
        if (code != reason)
            BROKEN("node %d is CANCELLED for %d with %d", n->index, reason, code);
        if (!(may_be_cancelled(&p) || (n->left && n->returned == -ECANCELED)))
            BROKEN("node %d is CANCELLED by nobody", n->index);
        if (reason == -ETIMEDOUT)
            MUST(n->timeout);
        break;
    default:
        BROKEN("node %d is in state %d at the end", n->index, (int)kc_job_state(j));
    }
    if (prog.calm && !prog.abrupt && !prog.faults && kc_job_state(j) != KC_JOB_COMPLETED &&
        n->kind != PROMISE && !may_be_cancelled(&p))
        BROKEN("node %d has not completed, and nobody cancels or fails", n->index);
}

static void check_node(const struct node *n)
{
    uint32_t started = kc_load_relaxed(&n->started), disposed = kc_load_relaxed(&n->disposed);
    kc_job_t *j = kc_load_acquire(&n->job);

    MUST(started == kc_load_relaxed(&n->left));
    MUST(kc_load_relaxed(&n->live) == 0);
    MUST(kc_load_relaxed(&n->running) == 0);
    MUST(n->interval || started + disposed <= kc_load_relaxed(&n->launched));
    if (n->disposes && kc_load_relaxed(&n->launched) && started + disposed != 1)
        BROKEN("node %d: started %u times, disposed %u times", n->index, started, disposed);
    MUST(kc_load_relaxed(&n->firsts) <= 1);
    if (n->kind == TASK && !n->interval)
        MUST(started + kc_load_relaxed(&n->tokens_cancelled) <= 1);
    if (n->defers)
        BROKEN("node %d: %d cleanups have not run", n->index, n->defers);
    if (j) {
        check_returned(n, j);
        check_outcome(n, j);
    }
}

void check_ended(void)
{
    check_items();
    for (int i = 0; i < prog.nodes; i++)
        check_node(&prog.node[i]);
    for (int i = 0; i < MUTEXES; i++)
        MUST(kc_mutex_trylock(&prog.mutex[i].lock)), kc_mutex_unlock(&prog.mutex[i].lock);
    MUST(kc_rwlock_trywrlock(&prog.rw.lock));
    kc_rwlock_wrunlock(&prog.rw.lock);
    for (int i = 0; i < PERMITS; i++)
        MUST(kc_sem_tryacquire(&prog.sem.sem));
    MUST(!kc_sem_tryacquire(&prog.sem.sem));
}
