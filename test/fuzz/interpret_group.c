/* SPDX-License-Identifier: MIT */
/*
 * interpret_group.c - operations on several jobs, promises, leases, timed tasks and signals.
 */
#include "program.h"

#include <errno.h>

enum { ONCE_BIT = 20, OFTEN_BIT = 50 };
static const uint8_t bits[] = { 0, ONCE_BIT, OFTEN_BIT };

/* ---- collect -------------------------------------------------------------------------------- */

static int collect(const struct op *op, kc_call_t *calls, size_t n, size_t *winner)
{
    switch (op->how) {
    case 0:
        return kc_all(calls, n, KC_SIG_NONE);
    case 1:
        return kc_all(calls, n, KC_SIG_TERMINATE);
    case 2:
        return kc_any(calls, n, KC_SIG_TERMINATE, winner);
    case 3:
        return kc_any(calls, n, KC_SIG_NONE, winner);
    case 4:
        return kc_race(calls, n, winner);
    case 5:
        return kc_first_ok(calls, n, winner);
    case 6:
        return kc_all_fail_fast(calls, n);
    default:
        return kc_all_window(calls, n, 1 + op->which % 2);
    }
}

/* The result against those of the calls. Calls that were cancelled are no failures. */
static void check_collected(const struct op *op, const kc_call_t *calls, size_t winner, int rc)
{
    int zeros = 0, same = 0, failures = 0, n = op->count;

    for (int i = 0; i < n; i++) {
        struct node *c = node_at(op->node + i);
        zeros += calls[i].rc == 0;
        same += calls[i].rc == rc;
        failures += calls[i].rc > 0 || calls[i].rc == -EPIPE;
        node_is_over(c);
        if (calls[i].rc == 0)
            MUST(kc_load_relaxed(&c->left) == 1 && c->returned == 0 && calls[i].payload == c);
        else
            MUST(calls[i].payload == NULL);
    }
    MUST(rc == 0 || rc == -ECANCELED || same > 0);
    if (op->how == 0 || op->how == 7)
        MUST((rc == 0) == (zeros == n));
    if (op->how == 6)
        MUST(rc != 0 || failures == 0);
    if (op->how == 5)
        MUST((rc == 0) == (zeros > 0) || rc == -ECANCELED);
    if ((op->how == 4 || op->how == 5) && rc == 0)
        MUST(winner < (size_t)n && calls[winner].rc == 0);
}

int op_collect(struct place *p, const struct op *op)
{
    static const uint8_t rules[8] = { STOP_NEVER,  STOP_ON_END,     STOP_ON_END,     STOP_NEVER,
                                      STOP_ON_END, STOP_ON_SUCCESS, STOP_ON_FAILURE, STOP_NEVER };
    kc_call_t calls[8] = { { 0 } };
    size_t winner = 99;
    uint32_t must = must_be_cancelled(p);
    bool calls_end = op->how != 2 && op->how != 3;
    int rc, started = 0, n = op->count;

    if (n == 0)
        return 0;
    for (int i = 0; i < n; i++) {
        struct node *c = node_at(op->node + i);
        calls[i] = (kc_call_t){ .fn = run_body, .arg = c, .rc = 12345 };
        c->family = (int16_t)(1 + op->node);
        c->family_size = (uint8_t)n;
        c->family_rule = rules[op->how];
        node_launching(c, p);
        c->pool = op->how == 7 ? (int16_t)(1 + op->node) : 0;
    }
    node_at(op->node)->pool_limit = op->how == 7 ? (uint8_t)(1 + op->which % 2) : 0;
    rc = collect(op, calls, (size_t)n, &winner);
    trace(p, 1004, (uint64_t)winner);
    p->thread = p->thread ? thread_number() : 0;
    for (int i = 0; i < n; i++)
        started += (int)kc_load_relaxed(&node_at(op->node + i)->started);
    if (must && must_be_cancelled(p) == must)
        MUST(rc == -ECANCELED && started == 0);
    if (may_lack_memory(rc))
        MUST(started == 0 || rc != -ENOMEM);
    else if (!calls_end && winner < (size_t)n && rc == calls[winner].rc)
        return 0;
    else if (rc == -ECANCELED && (!calls_end || calls[0].rc == 12345))
        MUST(may_be_cancelled(p) && (started == 0 || !calls_end));
    else
        check_collected(op, calls, winner, rc);
    return 0;
}

/* ---- a crowd: more than any pool keeps at hand ---------------------------------------------- */

struct crowd {
    uint32_t time;
    KC_ATOMIC(int) came, left;
};

static int crowd_member(void *crowd)
{
    struct crowd *c = crowd;

    kc_add_relaxed(&c->came, 1);
    int rc = kc_sleep(units(c->time));
    kc_add_relaxed(&c->left, 1);
    return rc;
}

int op_crowd(struct place *p, const struct op *op)
{
    struct crowd c = { .time = op->time };
    kc_scope_t s;
    int rc = kc_scope_begin(&s, &(kc_scope_opts_t){ .max_running = op->how == 0 ? 7 : 0 }), n = 0;

    if (rc != 0) {
        MUST(may_lack_memory(rc));
        return 0;
    }
    for (; n < 40 * (1 + op->which) && rc == 0; n += rc == 0)
        rc = kc_launch(crowd_member, &c);
    MUST(rc == 0 || may_lack_memory(rc) || (rc == -ECANCELED && may_be_cancelled(p)));
    rc = kc_scope_end(&s);
    MUST(kc_load_relaxed(&c.came) == kc_load_relaxed(&c.left));
    if (rc == 0)
        MUST(kc_load_relaxed(&c.left) == n);
    else
        MUST(rc == -ECANCELED || may_be_cancelled(p));
    return 0;
}

/* ---- groups, promises, leases --------------------------------------------------------------- */

/* How a job without a body came to be. */
static bool is_made(const struct place *p, struct node *n, uint32_t must, int rc)
{
    if (rc == 0) {
        (void)checked(p, must, rc);
        return true;
    }
    kc_store_relaxed(&n->launched, 0);
    if (rc == -ECANCELED)
        MUST(may_be_cancelled(p) || kc_load_relaxed(&p->own->forbids));
    else
        MUST(may_lack_memory(rc));
    return false;
}

static void launch_into(struct place *p, struct node *n, struct node *group)
{
    kc_job_t *j = NULL;
    kc_launch_opts_t o = { .parent = kc_load_acquire(&group->job),
                           .affinity = n->where,
                           .flags = n->flags,
                           .timeout = units(n->timeout),
                           .grace = units(n->grace),
                           .signal = n->signal < 0 ? NULL : prog.signal[n->signal] };

    n->disposes = false;
    node_launching(n, p);
    n->local = -1; /* whatever there is in the job that it is launched into */
    int rc = kc_launch_job(run_body, n, &o, &j);
    if (rc == 0) {
        node_launched(n, j);
        return;
    }
    MUST(rc == -ECANCELED || rc == -ESHUTDOWN || may_lack_memory(rc));
    kc_store_relaxed(&n->launched, 0);
}

int op_group(struct place *p, const struct op *op)
{
    struct node *g = node_at(op->node);
    kc_job_t *j = NULL;

    if (!g)
        return 0;
    kc_launch_opts_t o = { .flags = g->flags,
                           .timeout = units(g->timeout),
                           .grace = units(g->grace),
                           .signal = g->signal < 0 ? NULL : prog.signal[g->signal] };
    uint32_t must = must_be_cancelled(p);
    node_launching(g, p);
    g->returned = 0;
    if (!is_made(p, g, must, kc_group_create(&o, &j)))
        return 0;
    node_launched(g, j);
    for (int i = 1; i <= op->count; i++)
        launch_into(p, node_at(op->node + i), g);
    if (op->how & 1 || kc_load_relaxed(&prog.closing))
        MUST(kc_group_close(j) == 0);
    if (op->how & 2)
        return op_join_any(p, &(struct op){ .what = OP_group, .node = op->node });
    return 0;
}

/* From anywhere: it may be closed, or not be there yet. */
int op_visit(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);

    if (n && kc_load_acquire(&prog.node[n->up].job))
        launch_into(p, n, &prog.node[n->up]);
    return 0;
}

int op_promise(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);
    kc_deferred_t *d = NULL;

    if (!n)
        return 0;
    kc_launch_opts_t o = { .timeout = units(n->timeout) };
    uint32_t must = must_be_cancelled(p);
    node_launching(n, p);
    if (!is_made(p, n, must, kc_promise(&o, &d)))
        return 0;
    if (op->how == 7) { /* nobody will keep it */
        kc_deferred_release(d);
        return 0;
    }
    node_launched(n, kc_deferred_job(d));
    if (kc_load_relaxed(&prog.closing)) /* the conductor may have passed by */
        (void)op_complete(p, &(struct op){ .node = op->node });
    if (op->how & 1)
        return op_join_any(p, &(struct op){ .what = OP_promise, .node = op->node });
    return 0;
}

int op_complete(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);
    kc_job_t *j = kc_load_acquire(&n->job);
    int code = prog.calm || op->how < 6 ? 0 : op->how == 6 ? -ECANCELED : 7;

    (void)p;
    if (!j || n->kind != PROMISE)
        return 0;
    if (code != 0)
        mark_failure(n);
    int rc = kc_promise_complete((kc_deferred_t *)j, code, n);
    if (rc == 0)
        MUST(kc_add_relaxed(&n->completed, 1) == 0);
    else if (rc == -ECANCELED)
        MUST(kc_job_state(j) != KC_JOB_ACTIVE && kc_job_state(j) != KC_JOB_COMPLETED);
    else
        MUST(rc == -EALREADY);
    return 0;
}

/* Leases of a node are 0: none; 1: being taken; 2: held; 3: given up. */
void lease_end(struct node *n)
{
    uint32_t held = 2;

    if (kc_cas_acq_rel(&n->leases, &held, 3))
        kc_lease_release(&n->lease);
}

int op_lease(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);
    kc_job_t *j = kc_load_acquire(&n->job);
    uint32_t state = 0;

    (void)p;
    if (!j || !kc_cas_acq_rel(&n->leases, &state, 1))
        return 0;
    int rc = kc_lease_take(j, &n->lease);
    MUST(rc == 0 || rc == -ESHUTDOWN);
    if (rc == 0)
        MUST(!kc_load_relaxed(&n->over));
    kc_store_release(&n->leases, rc == 0 ? 2 : 3);
    if (kc_load_relaxed(&prog.closing)) /* the conductor may have passed by */
        lease_end(n);
    return 0;
}

/* ---- timed tasks ---------------------------------------------------------------------------- */

int op_submit(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);

    if (!n)
        return 0;
    node_launching(n, p);
    int rc = kc_sched_submit(prog.sched, n->where, run_body, n);
    MUST(rc == 0 || may_lack_memory(rc) || (rc == -ESHUTDOWN && may_shut_down()));
    if (rc != 0)
        kc_store_relaxed(&n->launched, 0);
    return 0;
}

int op_timer(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);
    kc_token_t *t = NULL;
    int rc;

    if (!n)
        return 0;
    node_launching(n, p);
    if (n->interval) {
        rc = kc_schedule_interval(prog.sched, units(op->time), n->where, run_body, n, &t);
    } else {
        kc_store_relaxed(&n->due, until(op->time));
        rc = kc_schedule_delayed(prog.sched, units(op->time), n->where, run_body, n,
                                 op->how == 7 ? NULL : &t);
    }
    MUST(rc == 0 || may_lack_memory(rc) || (rc == -ESHUTDOWN && may_shut_down()));
    if (rc != 0)
        kc_store_relaxed(&n->launched, 0);
    else if (t)
        kc_store_release(&n->token, t);
    return 0;
}

int op_untimer(struct place *p, const struct op *op)
{
    struct node *n = node_at(op->node);
    kc_token_t *t = kc_load_acquire(&n->token);

    (void)p;
    if (!t)
        return 0;
    if (kc_token_cancel(t))
        MUST(kc_add_relaxed(&n->tokens_cancelled, 1) == 0);
    MUST(kc_token_cancelled(t));
    return 0;
}

/* ---- signals -------------------------------------------------------------------------------- */

static void emit(struct node *n, unsigned bit)
{
    kc_job_t *j = kc_load_acquire(&n->job);
    kc_signal_t *s = j ? kc_job_signal(j) : NULL;
    kc_sigset_t set = (kc_sigset_t)1 << bit;

    if (!s)
        return;
    bool told = kc_signal_emit(s, set) & set;
    if (bit == ONCE_BIT && told)
        MUST(kc_add_relaxed(&n->onces, 1) == 0);
    MUST(bit == ONCE_BIT || told);
    MUST(kc_signal_state(s) & set);
}

int op_emit(struct place *p, const struct op *op)
{
    (void)p;
    emit(node_at(op->node), op->how & 1 ? ONCE_BIT : OFTEN_BIT);
    return 0;
}

int op_fire(struct place *p, const struct op *op)
{
    int i = op->which % SIGNALS;

    (void)p;
    uint32_t none = 0;
    (void)kc_cas_relaxed(&prog.fired[i], &none, 1);
    if (kc_signal_emit(prog.signal[i], KC_SIG_TERMINATE))
        kc_store_relaxed(&prog.fired[i], 2);
    return 0;
}

/* Runs in whichever thread emits, and long enough for others to come in between. */
static void handle(kc_sigset_t fired, struct node *n, int which)
{
    const struct op *op = kc_load_relaxed(&n->listens);
    struct place p = { .own = n, .at = n };

    kc_add_relaxed(&n->handling[which], 1);
    MUST(fired & (kc_sigset_t)1 << bits[which]);
    if (op->which == 0)
        (void)op_cancel(&p, &(struct op){ .node = op->node, .how = op->how % 3 });
    else if (op->which == 1)
        emit(node_at(op->node), OFTEN_BIT - 1);
    for (volatile int i = 0; i < 1000 && !prog.is_virtual; i++)
        ;
    MUST(!kc_load_relaxed(&n->over) && !kc_load_relaxed(&prog.ended));
    kc_add_relaxed(&n->handling[which], (uint32_t)-1);
}

static void on_terminate(kc_sigset_t fired, kc_signal_t *signal, void *node)
{
    (void)signal;
    handle(fired, node, 0);
}

static void on_once(kc_sigset_t fired, kc_signal_t *signal, void *node)
{
    (void)signal;
    handle(fired, node, 1);
}

static void on_often(kc_sigset_t fired, kc_signal_t *signal, void *node)
{
    (void)signal;
    handle(fired, node, 2);
}

int op_listen(struct place *p, const struct op *op)
{
    static const kc_slot_fn_t handlers[] = { on_terminate, on_once, on_often };
    kc_slot_t *slot = kc_current_slot();
    int which = op->how < 2 ? 0 : op->how < 5 ? 1 : 2, rc = 0;
    kc_sigset_t set = (kc_sigset_t)1 << bits[which];

    if (!slot)
        return 0;
    kc_store_relaxed(&p->own->listens, op);
    bool on = kc_slot_on(slot, set, handlers[which], p->own);
    if (!on && which == 2)
        MUST(prog.faults);
    if (!on && !prog.faults)
        MUST(kc_slot_triggered(slot, set));
    if (on && (op->time & 1)) {
        rc = op_sleep(p, op);
        (void)kc_slot_clear(slot, set);
        MUST(kc_load_relaxed(&p->own->handling[which]) == 0);
    }
    return rc;
}
