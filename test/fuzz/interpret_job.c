/* SPDX-License-Identifier: MIT */
/*
 * interpret_job.c - operations that make, end and wait for jobs.
 */
#include "program.h"

#include <errno.h>

static const char local_key;

/* ---- bodies and pieces ---------------------------------------------------------------------- */

static int (*const runs[OP_KINDS])(struct place *p, const struct op *op) = {
#define FUZZ_RUNS(name, ...) op_##name,
    FUZZ_OPS(FUZZ_RUNS)
#undef FUZZ_RUNS
};

kc_time_t units(uint32_t n)
{
    return prog.unit * n;
}

kc_time_t until(uint32_t n)
{
    return kc_now() + units(n);
}

/* Real threads meet in the middle of something only if they do it often. */
static int times(const struct op *op)
{
    switch (op->what) {
    case OP_send:
    case OP_recv:
    case OP_try_send:
    case OP_try_recv:
    case OP_select:
    case OP_cond_give:
    case OP_cond_take:
    case OP_event_set:
    case OP_event_reset:
    case OP_event_wait:
    case OP_yield:
    case OP_emit:
    case OP_listen:
    case OP_look:
        return prog.is_virtual ? 1 : 1 + (int)(op->time * op->time) / 6;
    case OP_mutex:
    case OP_rwlock:
    case OP_semaphore:
        return prog.is_virtual || op->node >= 0 ? 1 : 1 + (int)(op->time * op->time) / 6;
    default:
        return 1;
    }
}

/* -ECANCELED: it stopped there. */
int run_piece(struct place *p, const struct node *n)
{
    for (int i = n->first; i < n->first + n->ops; i++) {
        const struct op *op = &prog.op[i];
        if (op->skip)
            continue;
        stands_at(p, op);
        MUST(!kc_load_relaxed(&prog.ended) || p->own->kind == THREAD);
        int rc = 0;
        for (int k = times(op); k > 0 && rc == 0; k--)
            rc = runs[op->what](p, op);
        stands_at(p, op);
        if (kc_load_relaxed(&p->at->over))
            BROKEN("node %d runs, and has ended", p->at->index);
        if (p->thread && p->thread != thread_number())
            BROKEN("node %d has changed its thread", p->own->index);
        kc_add_relaxed(&progress, 1);
        trace(p, (uint64_t)i, (uint64_t)rc);
        if (rc == -ECANCELED && p->own->obeys)
            return rc;
    }
    return 0;
}

int run_body(void *node)
{
    struct node *n = node;
    bool stays = !(n->flags & KC_JOB_MIGRATE);
    struct place p = { .own = n, .at = n };

    node_started(n);
    KC_CLEANUP(node_left, n);
    p.thread = stays ? thread_number() : 0;
    trace(&p, 1000, 0);
    if (n->kind == TASK)
        n->local = -1; /* of an earlier run */
    if (n->local >= 0)
        MUST(kc_local_get(&local_key) == &prog.node[n->local]);
    kc_set_payload(n);
    int rc = run_piece(&p, n);
    if (n->interval && kc_load_relaxed(&n->started) >= 5 && kc_load_acquire(&n->token))
        (void)op_untimer(&p, &(struct op){ .node = n->index });
    if (rc == 0)
        rc = n->rc;
    if (rc != 0)
        mark_failure(n);
    mark_family(n, rc);
    n->returned = rc;
    return rc;
}

static void on_disposed(void *node)
{
    struct node *n = node;
    struct place p = { .own = n, .at = n };

    MUST(kc_add_relaxed(&n->disposed, 1) == 0);
    MUST(kc_load_relaxed(&n->started) == 0);
    MUST(!kc_load_relaxed(&n->over) && !kc_load_relaxed(&prog.ended));
    trace(&p, 1001, 0);
}

/* ---- launch and join ------------------------------------------------------------------------ */

/* Waits for n, which may be anybody's. time 0: without a deadline. */
static void join(struct place *p, const struct op *op, struct node *n, bool value, uint32_t time)
{
    kc_job_t *j = kc_load_acquire(&n->job);
    bool below = p->own->kind != THREAD && is_below(n, p->at);
    /* If a scope further out, or the body's own job, is cancelled: then n may be below that. */
    bool may_have_to_wait = p->own->kind != THREAD && is_below(n, p->own);
    bool above_me = p->own->kind != THREAD && is_below(p->at, n);
    kc_time_t deadline = time ? until(time) : KC_FOREVER;
    void *payload = &prog;
    int rc, code = 0;

    {
        struct waiting w = wait_begins(p, may_have_to_wait ? NULL : op, &n->joiners);
        KC_CLEANUP(wait_ends, &w);
        rc = time    ? kc_job_join_until(j, deadline)
             : value ? kc_await((kc_deferred_t *)j, &payload)
                     : kc_job_join(j);
    }
    trace(p, 1002, (uint64_t)rc);
    if (above_me)
        MUST(rc == -EDEADLK);
    if (above_me)
        return;
    bool ended = kc_job_result(j, &code) == 0;
    if (ended)
        node_is_over(n);
    if (ended && rc == code) {
        if (value && !time)
            MUST(payload == (rc == 0 ? (void *)n : NULL));
        return;
    }
    if (rc == -ETIMEDOUT)
        MUST(time && kc_now() >= deadline);
    else if (rc != -ECANCELED)
        BROKEN("a join of node %d returns %d, its result is %d", n->index, rc, ended ? code : -1);
    else
        (void)checked(p, false, rc);
    if (!ended && rc == -ECANCELED && below)
        BROKEN("a join of node %d, which is below, returns before its end", n->index);
}

/* Whether the launch of n, tried with this result, made a job. */
static bool is_launched(const struct place *p, struct node *n, uint32_t must, int rc,
                        bool into_group)
{
    if (rc == 0) {
        if (must && n->up >= 0 && !into_group)
            (void)checked(p, must, rc);
        return true;
    }
    kc_store_relaxed(&n->launched, 0);
    bool closed = into_group || may_shut_down() || n->up < 0;
    if (rc == -ECANCELED && !closed && !kc_load_relaxed(&p->own->forbids) && !may_be_cancelled(p))
        BROKEN("a launch is refused, and nobody has cancelled the job");
    if (rc != -ECANCELED && !(rc == -ESHUTDOWN && closed) && !may_lack_memory(rc))
        BROKEN("a launch returns %d", rc);
    return false;
}

static bool launch(struct place *p, struct node *n, kc_job_t *into)
{
    uint32_t must = must_be_cancelled(p);
    kc_job_t *j = NULL;
    kc_launch_opts_t o = { .parent = into,
                           .affinity = n->where,
                           .flags = n->flags,
                           .timeout = units(n->timeout),
                           .grace = units(n->grace),
                           .signal = n->signal < 0 ? NULL : prog.signal[n->signal],
                           .dispose = n->disposes ? on_disposed : NULL,
                           .name = n->named ? "named" : NULL };

    node_launching(n, p);
    int rc = n->handle || into ? kc_launch_job(run_body, n, &o, &j) : kc_launch(run_body, n);
    if (!is_launched(p, n, must, rc, into != NULL))
        return false;
    node_launched(n, j);
    struct place child = { .own = n, .at = n };
    if ((n->flags & KC_JOB_NOW) && n->disposes && !prog.node[n->up].max_running && !prog.faults)
        MUST(kc_load_relaxed(&n->started) || kc_load_relaxed(&n->disposed) ||
             may_be_cancelled(&child));
    return true;
}

int op_launch(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);

    if (!n || !launch(p, n, NULL) || !n->handle)
        return 0;
    if (op->how < 3 && n->up >= 0)
        join(p, op, n, op->how == 0, 0);
    else if (op->how == 3)
        join(p, op, n, false, op->time);
    else if (op->how == 4 && !prog.calm)
        return op_cancel(p, &(struct op){ .node = op->node });
    return 0;
}

int op_async(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);
    kc_deferred_t *d = NULL;
    uint32_t must = must_be_cancelled(p);

    if (!n || n->flags || n->timeout || n->signal >= 0 || n->disposes || n->grace)
        return op_launch(p, op);
    n->where = KC_WORKER;
    node_launching(n, p);
    if (!is_launched(p, n, must, kc_async(run_body, n, &d), false))
        return 0;
    node_launched(n, kc_deferred_job(d));
    if (op->how < 5)
        join(p, op, n, true, 0);
    return 0;
}

int op_join_any(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);

    if (kc_load_acquire(&n->job))
        join(p, op, n, false, op->time);
    return 0;
}

int op_look(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);
    kc_job_t *j = kc_load_acquire(&n->job);
    int code = 0;

    (void)p;
    if (!j)
        return 0;
    kc_job_retain(j);
    kc_job_state_t first = kc_job_state(j), then = kc_job_state(j);
    int rc = kc_job_result(j, &code);
    MUST(first <= KC_JOB_CANCELLING || first == then);
    MUST(first != KC_JOB_CANCELLING || (then != KC_JOB_ACTIVE && then != KC_JOB_COMPLETED));
    MUST(rc == 0 || (rc == -EAGAIN && first <= KC_JOB_CANCELLING));
    if (rc == 0)
        node_is_over(n);
    kc_job_release(j);
    return 0;
}

/* ---- scopes --------------------------------------------------------------------------------- */

struct scope_call {
    struct place inside;
    struct node *n;
};

static int in_scope(void *arg)
{
    struct scope_call *c = arg;

    if (c->n->launched_by == 0) /* kc_scope, kc_with_timeout: the job is known from now on */
        node_launched(c->n, kc_job_retain(kc_job_current()));
    int rc = run_piece(&c->inside, c->n);
    rc = rc ? rc : c->n->rc;
    if (rc != 0)
        mark_failure(c->n);
    c->n->returned = rc;
    return rc;
}

static int scope_inline(struct scope_call *c, const kc_scope_opts_t *o)
{
    kc_scope_t s;
    int rc = kc_scope_begin(&s, o);

    if (rc != 0)
        return rc;
    node_launched(c->n, kc_job_retain(kc_scope_job(&s)));
    MUST(kc_job_current() == kc_scope_job(&s));
    (void)run_piece(&c->inside, c->n);
    c->n->returned = 0;
    return kc_scope_end(&s);
}

/* n, a scope of p, has ended, and so have the shields of its cleanups. */
static void scope_over(struct place *p, struct node *n)
{
    node_is_over(n);
    for (int i = 0; i < n->cleanups_run; i++)
        shield_ends(p);
    p->thread = p->thread ? thread_number() : 0; /* it may have hopped in there */
}

int op_scope(struct place *p, const struct op *op)
{
    struct scope_call c = { *p, node_at(op->node) };
    struct node *n = c.n;
    int code = 0, rc;

    if (!n)
        return 0;
    kc_scope_opts_t o = { .flags = n->flags,
                          .timeout = units(n->timeout),
                          .grace = units(n->grace),
                          .max_running = n->max_running,
                          .signal = n->signal < 0 ? NULL : prog.signal[n->signal],
                          .name = n->named ? "scope" : NULL };
    c.inside.at = n;
    node_launching(n, p);
    n->launched_by = 0;
    rc = op->how < 4 ? scope_inline(&c, &o) : kc_scope(in_scope, &c, &o);
    kc_job_t *j = kc_load_acquire(&n->job);
    if (!j) {
        MUST(may_lack_memory(rc));
        kc_store_relaxed(&n->launched, 0);
        return 0;
    }
    scope_over(p, n);
    MUST(kc_job_result(j, &code) == 0);
    if (code != rc)
        BROKEN("a scope returns %d, its job's result is %d", rc, code);
    return 0;
}

int op_timeout(struct place *p, const struct op *op)
{
    struct scope_call c = { *p, node_at(op->node) };
    struct node *n = c.n;

    if (!n)
        return 0;
    c.inside.at = n;
    node_launching(n, p);
    n->launched_by = 0;
    kc_time_t time = units(n->timeout);
    int rc = op->how < 4 ? kc_with_timeout(time, in_scope, &c)
                         : kc_with_deadline(kc_now() + time, in_scope, &c);
    if (!kc_load_acquire(&n->job)) {
        MUST(may_lack_memory(rc) || rc == -ECANCELED || rc == -ETIMEDOUT);
        kc_store_relaxed(&n->launched, 0);
        return 0;
    }
    scope_over(p, n);
    if (rc == -ETIMEDOUT)
        MUST(kc_now() - kc_load_relaxed(&n->before) >= time);
    return 0;
}

/* ---- places and locals ---------------------------------------------------------------------- */

int op_hop(struct place *p, const struct op *op)
{
    int workers = prog.workers > 0 ? prog.workers : 0;
    kc_affinity_t where = (kc_affinity_t)((op->which * 8 + op->how) % (workers + 2)) - 1;
    uint32_t must = must_be_cancelled(p);
    int rc = checked(p, must, kc_hop(where));

    if (rc == 0 && where != KC_WORKER)
        MUST(kc_worker_index() == (where == KC_MAIN ? KC_MAIN : where - KC_WORKER_AT(0)));
    p->thread = p->thread ? thread_number() : 0;
    return rc;
}

int op_local(struct place *p, const struct op *op)
{
    (void)op;
    int rc = kc_local_set(&local_key, p->own);
    if (rc == 0)
        p->own->local = p->own->index;
    MUST(rc == 0 || may_lack_memory(rc));
    if (p->own->local >= 0)
        MUST(kc_local_get(&local_key) == &prog.node[p->own->local]);
    return 0;
}
