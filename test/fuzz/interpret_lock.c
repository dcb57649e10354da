/* SPDX-License-Identifier: MIT */
/*
 * interpret_lock.c - operations that hold something, or meet at something.
 */
#include "program.h"

#include <errno.h>

/* The result of a wait that may be out of time. */
static int check_wait(struct place *p, uint32_t must, kc_time_t deadline, int rc)
{
    if (rc == -ETIMEDOUT) {
        MUST(deadline != KC_FOREVER && kc_now() >= deadline);
        return 0;
    }
    MUST(rc == 0 || rc == -ECANCELED);
    return checked(p, must, rc);
}

/* ---- mutex and condition -------------------------------------------------------------------- */

struct held {
    struct mutex *m;
    bool counted;
};

static void mutex_taken(struct held *h)
{
    MUST(kc_add_relaxed(&h->m->holders, sabotage == BREAK_SHARE_LOCK ? 2 : 1) == 0);
    h->counted = true;
    h->m->guarded++;
}

static void mutex_let_go(struct held *h)
{
    h->m->guarded++;
    h->counted = false;
    MUST(kc_add_relaxed(&h->m->holders, -1) == 1);
}

/* Also when the body is unwound, in a kc_cond_wait too: that has locked it again. */
static void mutex_give(void *held)
{
    struct held *h = held;

    if (!h->counted)
        mutex_taken(h);
    mutex_let_go(h);
    kc_mutex_unlock(&h->m->lock);
}

static int mutex_lock(struct place *p, const struct op *op, struct held *h, int how)
{
    struct mutex *m = h->m;
    uint32_t must = how == 5 || how == 6 ? 0 : must_be_cancelled(p);
    kc_time_t deadline = how == 4 ? until(op->time) : KC_FOREVER;
    uint64_t ticket = kc_add_relaxed(&m->tickets, 1) + 1;
    int rc = 0;

    if (how == 5) {
        if (!kc_mutex_trylock(&m->lock))
            return 1;
    } else {
        struct waiting w = wait_begins(p, how == 6 ? NULL : op, &m->waiting);
        KC_CLEANUP(wait_ends, &w);
        if (how == 6)
            kc_mutex_lock_nocancel(&m->lock);
        else
            rc = how == 4 ? kc_mutex_lock_until(&m->lock, deadline) : kc_mutex_lock(&m->lock);
    }
    if (rc == -ETIMEDOUT)
        return check_wait(p, must, deadline, rc) + 1;
    if (rc == 0) {
        mutex_taken(h);
        if (prog.is_virtual) /* one thread: who comes first is served first */
            MUST(ticket > kc_load_relaxed(&m->served));
        kc_store_relaxed(&m->served, ticket);
    }
    return check_wait(p, must, deadline, rc);
}

int op_mutex(struct place *p, const struct op *op)
{
    struct held h = { &prog.mutex[op->which], false };
    int rc = mutex_lock(p, op, &h, op->how);

    if (!h.counted)
        return rc < 0 ? rc : 0;
    KC_CLEANUP(mutex_give, &h);
    MUST(!kc_mutex_trylock(&h.m->lock));
    return op->node < 0 ? 0 : run_piece(p, node_at(op->node));
}

static void change_tokens(struct mutex *m, int by)
{
    m->tokens += by;
    kc_store_relaxed(&m->tokens_seen, m->tokens);
}

int op_cond_give(struct place *p, const struct op *op)
{
    struct held h = { &prog.mutex[op->which], false };
    int rc = mutex_lock(p, op, &h, 0);

    if (!h.counted)
        return rc;
    KC_CLEANUP(mutex_give, &h);
    change_tokens(h.m, 1);
    if (op->how < 6)
        kc_cond_signal(&h.m->cond);
    else
        kc_cond_broadcast(&h.m->cond);
    return 0;
}

int op_cond_take(struct place *p, const struct op *op)
{
    struct held h = { &prog.mutex[op->which], false };
    kc_time_t deadline = op->how < 3 ? until(op->time) : KC_FOREVER;
    int rc = mutex_lock(p, op, &h, 0);

    if (!h.counted)
        return rc;
    KC_CLEANUP(mutex_give, &h);
    while (h.m->tokens == 0 && rc == 0) {
        uint32_t must = must_be_cancelled(p);
        mutex_let_go(&h);
        struct waiting w = wait_begins(p, NULL, &h.m->cond_waiting);
        KC_CLEANUP(wait_ends, &w);
        rc = op->how < 3 ? kc_cond_wait_until(&h.m->cond, &h.m->lock, deadline)
                         : kc_cond_wait(&h.m->cond, &h.m->lock);
        mutex_taken(&h);
        trace(p, 1007, (uint64_t)rc);
        if (check_wait(p, must, deadline, rc) < 0)
            return rc;
    }
    if (rc == 0) /* out of time: it is for another one */
        change_tokens(h.m, -1);
    return 0;
}

/* ---- reader-writer lock and semaphore ------------------------------------------------------- */

static void read_ends(void *unused)
{
    (void)unused;
    kc_add_relaxed(&prog.rw.readers, -1);
    kc_rwlock_rdunlock(&prog.rw.lock);
}

static void write_ends(void *unused)
{
    (void)unused;
    prog.rw.guarded++;
    kc_add_relaxed(&prog.rw.writers, -1);
    kc_rwlock_wrunlock(&prog.rw.lock);
}

static int reads(struct place *p, const struct op *op)
{
    kc_time_t deadline = op->how == 4 ? until(op->time) : KC_FOREVER;
    uint32_t must = must_be_cancelled(p);
    int rc;

    if (op->how == 6) {
        if (!kc_rwlock_tryrdlock(&prog.rw.lock))
            return 0;
    } else {
        struct waiting w = wait_begins(p, op, &prog.rw.readers_waiting);
        KC_CLEANUP(wait_ends, &w);
        rc = op->how == 4 ? kc_rwlock_rdlock_until(&prog.rw.lock, deadline)
                          : kc_rwlock_rdlock(&prog.rw.lock);
        if (rc != 0)
            return check_wait(p, must, deadline, rc);
        (void)checked(p, must, rc);
    }
    kc_add_relaxed(&prog.rw.readers, 1);
    KC_CLEANUP(read_ends, NULL);
    uint64_t seen = prog.rw.guarded;
    MUST(kc_load_relaxed(&prog.rw.writers) == 0);
    rc = op->node < 0 ? 0 : run_piece(p, node_at(op->node));
    MUST(prog.rw.guarded == seen);
    return rc;
}

static int writes(struct place *p, const struct op *op)
{
    kc_time_t deadline = op->how == 5 ? until(op->time) : KC_FOREVER;
    uint32_t must = must_be_cancelled(p);
    int rc;

    if (op->how == 7) {
        if (!kc_rwlock_trywrlock(&prog.rw.lock))
            return 0;
    } else {
        struct waiting w = wait_begins(p, op, &prog.rw.writers_waiting);
        KC_CLEANUP(wait_ends, &w);
        rc = op->how == 5 ? kc_rwlock_wrlock_until(&prog.rw.lock, deadline)
                          : kc_rwlock_wrlock(&prog.rw.lock);
        if (rc != 0)
            return check_wait(p, must, deadline, rc);
        (void)checked(p, must, rc);
    }
    MUST(kc_add_relaxed(&prog.rw.writers, 1) == 0);
    KC_CLEANUP(write_ends, NULL);
    prog.rw.guarded++;
    MUST(kc_load_relaxed(&prog.rw.readers) == 0);
    return op->node < 0 ? 0 : run_piece(p, node_at(op->node));
}

int op_rwlock(struct place *p, const struct op *op)
{
    return op->how & 1 ? writes(p, op) : reads(p, op);
}

static void permit_back(void *unused)
{
    (void)unused;
    kc_add_relaxed(&prog.sem.held, -1);
    kc_sem_release(&prog.sem.sem, 1);
}

int op_semaphore(struct place *p, const struct op *op)
{
    kc_time_t deadline = op->how == 4 ? until(op->time) : KC_FOREVER;
    uint32_t must = must_be_cancelled(p);

    if (op->how == 5) {
        if (!kc_sem_tryacquire(&prog.sem.sem))
            return 0;
    } else {
        struct waiting w = wait_begins(p, op, &prog.sem.waiting);
        KC_CLEANUP(wait_ends, &w);
        int rc = op->how == 4 ? kc_sem_acquire_until(&prog.sem.sem, deadline)
                              : kc_sem_acquire(&prog.sem.sem);
        if (rc != 0)
            return check_wait(p, must, deadline, rc);
        (void)checked(p, must, rc);
    }
    MUST(kc_add_relaxed(&prog.sem.held, 1) < PERMITS);
    KC_CLEANUP(permit_back, NULL);
    return op->node < 0 ? 0 : run_piece(p, node_at(op->node));
}

/* ---- meeting points ------------------------------------------------------------------------- */

int op_event_wait(struct place *p, const struct op *op)
{
    kc_event_t *e = &prog.event[op->which % EVENTS].event;
    kc_time_t deadline = op->how >= 6 ? until(op->time) : KC_FOREVER;
    uint32_t must = must_be_cancelled(p);
    int rc;

    {
        struct waiting w = wait_begins(p, op, &prog.event[op->which % EVENTS].waiting);
        KC_CLEANUP(wait_ends, &w);
        rc = op->how >= 6 ? kc_event_wait_until(e, deadline) : kc_event_wait(e);
    }
    return check_wait(p, must, deadline, rc);
}

int op_event_set(struct place *p, const struct op *op)
{
    (void)p;
    kc_event_set(&prog.event[op->which % EVENTS].event);
    return 0;
}

int op_event_reset(struct place *p, const struct op *op)
{
    (void)p;
    kc_event_reset(&prog.event[op->which % EVENTS].event);
    return 0;
}

int op_latch_down(struct place *p, const struct op *op)
{
    (void)p;
    (void)op;
    if (kc_add_relaxed(&prog.latch.left, -1) > 0) {
        kc_latch_count_down(&prog.latch.latch);
        kc_add_relaxed(&prog.latch.done, 1);
    }
    return 0;
}

int op_latch_wait(struct place *p, const struct op *op)
{
    kc_time_t deadline = op->how >= 6 ? until(op->time) : KC_FOREVER;
    uint32_t must = must_be_cancelled(p);
    int rc;

    {
        struct waiting w = wait_begins(p, op, &prog.latch.waiting);
        KC_CLEANUP(wait_ends, &w);
        rc = op->how >= 6 ? kc_latch_wait_until(&prog.latch.latch, deadline)
                          : kc_latch_wait(&prog.latch.latch);
    }
    if (rc == 0)
        MUST(kc_load_relaxed(&prog.latch.left) <= 0);
    return check_wait(p, must, deadline, rc);
}

struct once_call {
    struct place *p;
    const struct op *op;
    bool shields;
};

static void run_once(void *arg)
{
    struct once_call *c = arg;
    struct place inside = *c->p;

    MUST(kc_add_relaxed(&prog.once.ran, 1) == 0);
    inside.shield = c->p->own->kind == THREAD ? NULL : c->p->at;
    c->shields = inside.shield != NULL;
    if (c->shields)
        shield_begins(c->p);
    (void)op_sleep(&inside, c->op);
    prog.once.guarded = 42;
}

int op_once(struct place *p, const struct op *op)
{
    struct once_call c = { p, op, false };

    kc_once(&prog.once.once, run_once, &c);
    if (c.shields)
        shield_ends(p);
    MUST(prog.once.guarded == 42);
    return 0;
}
