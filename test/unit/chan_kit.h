/* SPDX-License-Identifier: MIT */
/*
 * chan_kit.h - what the tests of channels share: who waits there, and bodies that send and receive.
 */
#ifndef KC_TEST_CHAN_KIT_H
#define KC_TEST_CHAN_KIT_H

#include "sync/chan.h"
#include "job_kit.h"

/* Of each kind one; the first one has no buffer. LATEST is apart: it keeps one item of many. */
static const size_t kit_capacity[] = { 0, 1, 3, KC_CHAN_UNLIMITED };
enum { KIT_CHANS = sizeof kit_capacity / sizeof kit_capacity[0] };

static UNUSED kc_chan_t *chan(size_t item_size, size_t capacity)
{
    kc_chan_t *c = NULL;

    CHECK_EQ(kc_chan_create(item_size, capacity, &c), 0);
    CHECK(c != NULL);
    return c;
}

/* How many stand in line to do op, and nobody has ended their wait. */
static UNUSED int in_line(kc_chan_t *c, int op)
{
    int n = 0;

    kc__spin_lock(&c->lock);
    kc_link_t *first = *kc__chan_queue(c, op), *l = first;
    if (l)
        do {
            n += kc__wait_is_open(kc_container_of(l, kc_chan_waiter_t, link)->wait);
            l = l->next;
        } while (l != first);
    kc__spin_unlock(&c->lock);
    return n;
}

/* It waits for something of this kind, and stands in line there. */
static UNUSED bool waits_in(kc_job_t *j, kc_wait_kind_t kind)
{
    return kc_load_relaxed(&j->task.kind) == kind;
}

/* One who sends or receives once, and says what came of it. */
struct party {
    kc_chan_t *c;
    int op;
    int item, rc;
    kc_time_t deadline; /* 0: none */
    bool drops;         /* receives into nothing */
    count_t in, out;
    kc_job_t *job;
};

static UNUSED int does_one(void *arg)
{
    struct party *p = arg;
    void *item = p->drops ? NULL : &p->item;
    kc_time_t deadline = p->deadline ? p->deadline : KC_FOREVER;

    add(&p->in);
    p->rc = p->op == KC_SEND ? kc_chan_send_until(p->c, item, deadline)
                             : kc_chan_recv_until(p->c, item, deadline);
    add(&p->out);
    return 0;
}

/* Starts it, and waits until it stands in line behind the others. */
static UNUSED void stands(struct party *p, const kc_launch_opts_t *opts)
{
    int before = in_line(p->c, p->op);

    p->job = launch(does_one, p, opts);
    UNTIL(in_line(p->c, p->op) == before + 1);
}

/* Waits for its end. Returns what its call returned. */
static UNUSED int outcome(struct party *p)
{
    UNTIL(get(&p->out) == 1);
    int rc = kc_job_join(p->job);
    CHECK(rc == 0 || kc_job_reason(p->job) != 0);
    kc_job_release(p->job);
    return p->rc;
}

static const kc_launch_opts_t UNUSED on_main = { .affinity = KC_MAIN };

#endif
