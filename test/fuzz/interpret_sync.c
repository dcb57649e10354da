/* SPDX-License-Identifier: MIT */
/*
 * interpret_sync.c - operations that wait for time, items and locks.
 */
#include "program.h"

#include <errno.h>

/* ---- time ----------------------------------------------------------------------------------- */

int op_yield(struct place *p, const struct op *op)
{
    uint32_t must = must_be_cancelled(p);

    (void)op;
    return checked(p, must, kc_yield());
}

int op_sleep(struct place *p, const struct op *op)
{
    uint32_t must = must_be_cancelled(p);
    kc_time_t start = kc_now(), time = op->how == 7 ? 0 : units(op->time);
    int rc;

    {
        struct waiting w = wait_begins(p, op, NULL);
        KC_CLEANUP(wait_ends, &w);
        rc = op->how == 6 ? kc_sleep_until(start + time) : kc_sleep(time);
    }
    kc_time_t took = kc_now() - start;
    if (rc == 0 && (took < time || (prog.is_virtual && took > time)))
        BROKEN("a sleep of %lld took %lld", (long long)time, (long long)took);
    return checked(p, must, rc);
}

struct counting {
    struct place *p;
    const struct op *op;
    int rc;
};

static int count(kc_gen_t *g, void *arg)
{
    struct counting *c = arg;

    for (intptr_t i = 0; i < 3; i++) {
        c->rc = c->op->how & 1 ? op_sleep(c->p, c->op) : op_yield(c->p, c->op);
        kc_gen_yield(g, (void *)i);
    }
    return 0;
}

static void end_generator(void *g)
{
    kc_gen_end(g);
}

int op_generator(struct place *p, const struct op *op)
{
    struct counting c = { p, op, 0 };
    kc_gen_t g;
    void *value;
    intptr_t n = 0;

    if (p->own->flags & KC_JOB_MIGRATE)
        return 0;
    int rc = kc_gen_start(&g, count, &c, 0);
    MUST(rc == 0 || may_lack_memory(rc));
    if (rc != 0)
        return 0;
    KC_CLEANUP(end_generator, &g);
    for (; n < 1 + op->which && kc_gen_next(&g, &value); n++)
        MUST((intptr_t)value == n);
    MUST(n == (op->which < 3 ? 1 + op->which : 3));
    return c.rc;
}

/* ---- waits of one's own --------------------------------------------------------------------- */

static void wake(struct suspended *s, int rc)
{
    uint32_t none = 0;

    if (!kc_cas_relaxed(&s->woken, &none, 1))
        return;
    s->guarded = prog.seed;
    kc_wake(kc_load_relaxed(&s->waker), rc);
}

static int wakes_later(void *suspended)
{
    struct suspended *s = suspended;

    (void)!kc_sleep(units(s->op->time));
    wake(s, 0);
    return 0;
}

static void wakes_now(void *suspended)
{
    wake(suspended, 0);
}

/* Another job wakes, which nobody waits for: so it is there whatever becomes of this one. */
static void suspend_begins(kc_waker_t *w, void *arg)
{
    struct suspended *s = arg;
    kc_launch_opts_t opts = { .flags = KC_JOB_DETACHED, .dispose = wakes_now };
    int rc = -ENOMEM;

    kc_store_relaxed(&s->waker, w);
    if (s->op->how != 7)
        rc = kc_launch_job(wakes_later, s, &opts, NULL);
    if (rc != 0)
        wake(s, 0);
}

static void suspend_cancelled(kc_waker_t *w, void *arg)
{
    struct suspended *s = arg;

    MUST(w == kc_load_relaxed(&s->waker));
    MUST(kc_add_relaxed(&s->cancels, 1) == 0);
    MUST(!kc_job_current());
    wake(s, -ECANCELED);
}

int op_suspend(struct place *p, const struct op *op)
{
    uint32_t must = must_be_cancelled(p), i = kc_add_relaxed(&prog.suspends, 1);
    int rc;

    if (i >= SUSPENDS)
        return 0;
    struct suspended *s = &prog.suspended[i];
    s->op = op;
    {
        struct waiting w = wait_begins(p, op, NULL);
        KC_CLEANUP(wait_ends, &w);
        rc = kc_suspend(suspend_begins, suspend_cancelled, s);
    }
    MUST(rc == 0 || rc == -ECANCELED || may_lack_memory(rc));
    bool begun = kc_load_relaxed(&s->waker);
    MUST(begun || rc != 0);
    MUST(kc_load_relaxed(&s->woken) == begun);
    MUST(kc_load_relaxed(&s->cancels) <= begun);
    if (begun)
        MUST(s->guarded == prog.seed);
    if (begun && rc == -ECANCELED)
        MUST(kc_load_relaxed(&s->cancels) == 1);
    return may_lack_memory(rc) ? 0 : checked(p, must, rc);
}

/* ---- parks ---------------------------------------------------------------------------------- */

/* Also of a body that is unwound there, whose cleanups may wait for something else. */
static void park_ends(void *node)
{
    kc_store_relaxed(&((struct node *)node)->parks, 0);
}

/* Needs an unpark of its own, or a cancel. Of several unparks before it, one may be left. */
static int park(struct place *p, const struct op *op)
{
    struct node *n = p->own;
    uint32_t must = must_be_cancelled(p);

    bool permit = n->parked_times == 0 && kc_load_relaxed(&n->permits) > 0;
    kc_store_relaxed(&n->parks, 4 * n->parked_times + (permit ? 2 : 1));
    {
        KC_CLEANUP(park_ends, n);
        struct waiting w = wait_begins(p, op, NULL);
        KC_CLEANUP(wait_ends, &w);
        kcoro_park();
    }
    int rc = checked(p, must, kc_check());
    if (rc == 0 && kc_load_relaxed(&n->unparks) <= n->parked_times)
        BROKEN("a park returns, and nobody has unparked node %d", n->index);
    n->parked_times++;
    return rc;
}

/* Once in a node: who unparks it looks there for the coroutine. */
int op_park(struct place *p, const struct op *op)
{
    struct node *n = p->own;

    if (kc_load_relaxed(&n->parked))
        return 0;
    kc_store_release(&n->parked, kcoro_retain(kcoro_current()));
    if (kc_load_relaxed(&prog.closing)) /* the conductor may have passed by */
        unpark(n);
    int rc = op->how & 1 ? op_sleep(p, op) : 0;
    for (int i = 0; i < 1 + op->how / 4 && rc == 0; i++)
        rc = park(p, op);
    return rc;
}

void unpark(struct node *n)
{
    kcoro_t *co = kc_load_acquire(&n->parked);
    uint32_t parked = kc_load_relaxed(&n->parks);

    if (!co)
        return;
    kc_add_relaxed(&n->unparks, 1);
    int rc = kcoro_unpark(co);
    MUST(rc == 0 || rc == -EINVAL); /* it has finished */
    if (rc == 0)
        kc_add_relaxed(&n->permits, 1);
    if (rc == 0 && parked % 4 == 1)
        (void)kc_cas_relaxed(&n->parks, &parked, parked + 1);
}

int op_unpark(struct place *p, const struct op *op)
{
    (void)p;
    unpark(node_at(op->node));
    return 0;
}

/* ---- channels ------------------------------------------------------------------------------- */

/* What is neither 0 nor a cancel. closed: it was known to be before the call. */
static int check_chan(struct place *p, struct channel *c, uint32_t must, kc_time_t deadline,
                      bool closed, int rc)
{
    if (rc == -EPIPE) {
        MUST(kc_load_relaxed(&c->closed));
        return checked(p, must, 0);
    }
    if (rc == -ETIMEDOUT) {
        MUST(deadline != KC_FOREVER && kc_now() >= deadline);
        return 0;
    }
    if (rc == -ENOMEM)
        MUST(may_lack_memory(rc));
    MUST(rc == 0 || rc == -ECANCELED || rc == -ENOMEM);
    MUST(rc != 0 || !closed);
    return checked(p, must, rc);
}

int op_send(struct place *p, const struct op *op)
{
    struct channel *c = &prog.channel[op->which];
    uint32_t item = item_new(p, op->which);
    uint32_t must = must_be_cancelled(p);
    bool closed = kc_load_relaxed(&c->closed) == 2;
    kc_time_t deadline = op->how >= 6 ? until(op->time) : KC_FOREVER;
    int rc;

    if (item == 0)
        return 0;
    {
        struct waiting w = wait_begins(p, op, &c->senders);
        KC_CLEANUP(wait_ends, &w);
        rc = op->how >= 6 ? kc_chan_send_until(c->chan, &item, deadline)
                          : kc_chan_send(c->chan, &item);
    }
    if (rc == 0)
        item_sent(item);
    return check_chan(p, c, must, deadline, closed, rc);
}

int op_recv(struct place *p, const struct op *op)
{
    struct channel *c = &prog.channel[op->which];
    uint32_t item = 0;
    uint32_t must = must_be_cancelled(p);
    kc_time_t deadline = op->how >= 6 ? until(op->time) : KC_FOREVER;
    int rc;

    {
        struct waiting w = wait_begins(p, op, &c->receivers);
        KC_CLEANUP(wait_ends, &w);
        rc = op->how >= 6 ? kc_chan_recv_until(c->chan, &item, deadline)
                          : kc_chan_recv(c->chan, &item);
    }
    if (rc == 0)
        item_received(p, op->which, item);
    trace(p, 1005, item);
    return check_chan(p, c, must, deadline, false, rc);
}

int op_try_send(struct place *p, const struct op *op)
{
    struct channel *c = &prog.channel[op->which];
    uint32_t item = item_new(p, op->which);
    bool closed = kc_load_relaxed(&c->closed) == 2;

    if (item == 0)
        return 0;
    int rc = kc_chan_try_send(c->chan, &item);
    if (rc == 0)
        item_sent(item);
    MUST(rc == 0 || rc == -EAGAIN || rc == -EPIPE || may_lack_memory(rc));
    MUST(rc != -EPIPE || kc_load_relaxed(&c->closed));
    MUST(rc != -EAGAIN || c->capacity < KC_CHAN_LATEST);
    MUST(!closed || rc == -EPIPE);
    return 0;
}

int op_try_recv(struct place *p, const struct op *op)
{
    struct channel *c = &prog.channel[op->which];
    uint32_t item = 0;
    int rc = kc_chan_try_recv(c->chan, &item);

    if (rc == 0)
        item_received(p, op->which, item);
    MUST(rc == 0 || rc == -EAGAIN || rc == -EPIPE);
    MUST(rc != -EPIPE || kc_load_relaxed(&c->closed));
    trace(p, 1005, item);
    return 0;
}

int op_close(struct place *p, const struct op *op)
{
    struct channel *c = &prog.channel[op->which];

    (void)p;
    if (op->how < 3) {
        uint32_t open = 0;
        (void)kc_cas_relaxed(&c->closed, &open, 1);
        kc_chan_close(c->chan);
        kc_store_relaxed(&c->closed, 2);
    }
    return 0;
}

enum { CASES = 3 };

struct selecting {
    struct place *p;
    kc_case_t cases[CASES];
    uint32_t item[CASES];
    int channel[CASES], n;
};

static void count_cases(struct selecting *s, int by)
{
    for (int i = 0; i < s->n; i++) {
        struct channel *c = &prog.channel[s->channel[i]];
        if (s->cases[i].chan)
            kc_add_relaxed(
                s->cases[i].op == KC_RECV ? &c->selecting_receivers : &c->selecting_senders, by);
    }
    kc_store_relaxed(&s->p->own->waits_at, by > 0 && s->p->own->kind != THREAD && !s->p->shield
                                               ? 1 + s->p->at->index
                                               : 0);
}

static void selecting_ends(void *selecting)
{
    count_cases(selecting, -1);
}

static int check_selected(struct place *p, struct selecting *s, int rc)
{
    struct channel *c = &prog.channel[s->channel[rc]];
    kc_case_t *k = &s->cases[rc];

    MUST(rc < s->n && k->chan);
    if (k->rc == -EPIPE) {
        MUST(kc_load_relaxed(&c->closed));
        return 0;
    }
    MUST(k->rc == 0);
    if (k->op == KC_SEND)
        item_sent(s->item[rc]);
    else
        item_received(p, s->channel[rc], s->item[rc]);
    trace(p, 1006, s->item[rc]);
    return 0;
}

int op_select(struct place *p, const struct op *op)
{
    struct selecting s = { .p = p, .n = 1 + op->which % CASES };
    uint32_t must = must_be_cancelled(p);
    kc_time_t time = op->how == 0 ? 0 : op->how < 4 ? units(op->time) : KC_FOREVER;
    kc_time_t start = kc_now();
    int rc;

    for (int i = 0; i < s.n; i++) {
        bool send = (op->time >> i) & 1;
        s.channel[i] = (op->which + i * (int)(op->time % 3)) % CHANNELS;
        s.item[i] = send ? item_new(p, s.channel[i]) : 0;
        s.cases[i] = (kc_case_t){ .op = send ? KC_SEND : KC_RECV,
                                  .chan = prog.channel[s.channel[i]].chan,
                                  .item = &s.item[i] };
        if (send && s.item[i] == 0)
            return 0;
        if (op->how == 1 && i == 1)
            s.cases[i].chan = NULL;
    }
    {
        count_cases(&s, 1);
        KC_CLEANUP(selecting_ends, &s);
        rc = op->how & 1 ? kc_select_biased(s.cases, (size_t)s.n, time)
                         : kc_select(s.cases, (size_t)s.n, time);
    }
    if (rc >= 0)
        (void)check_selected(p, &s, rc);
    for (int i = 0; i < s.n; i++)
        MUST(i == rc || s.cases[i].op == KC_SEND || s.item[i] == 0);
    if (time == 0) {
        MUST(rc >= 0 || rc == -EAGAIN || may_lack_memory(rc));
        return 0;
    }
    if (rc == -ETIMEDOUT)
        MUST(time != KC_FOREVER && kc_now() - start >= time);
    MUST(rc >= 0 || rc == -ETIMEDOUT || rc == -ECANCELED || may_lack_memory(rc));
    return checked(p, must, rc < 0 && rc != -ECANCELED ? 0 : rc) < 0 ? -ECANCELED : 0;
}
