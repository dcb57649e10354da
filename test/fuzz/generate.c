/* SPDX-License-Identifier: MIT */
/*
 * generate.c - a program from a seed.
 *
 * What may stand where is decided here: no lock below one of the same or a higher rank, no join
 * while a lock is held, nothing but what ends by itself in a cleanup.
 */
#include "program.h"

#include <errno.h>
#include <string.h>

/* The context in which operations are made. */
struct spot {
    int at; /* the job whose children are made here */
    int depth, rank;
    bool lock, cleanup, thread, simple;
};

static const struct {
    const char *name;
    uint8_t body, lock, cleanup, thread;
} odds[OP_KINDS] = {
#define FUZZ_ODDS(name, ...) { #name, __VA_ARGS__ },
    FUZZ_OPS(FUZZ_ODDS)
#undef FUZZ_ODDS
};

static const int codes[] = { 7, -EPIPE, 1000 };
static uint64_t random_state;
static int budget; /* nodes that are still to be made */
static bool absent[OP_KINDS];

uint64_t fuzz_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static unsigned pick(unsigned below)
{
    return (unsigned)((fuzz_random(&random_state) >> 20) % below);
}

static bool chance(unsigned percent)
{
    return pick(100) < percent;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static int node_new(enum kind kind, int up)
{
    if (prog.nodes >= NODES)
        return -1;
    struct node *n = &prog.node[prog.nodes];
    n->kind = kind;
    n->index = (int16_t)prog.nodes;
    n->up = (int16_t)up;
    n->signal = -1;
    n->local = -1;
    n->obeys = chance(70);
    budget--;
    return prog.nodes++;
}

static kc_affinity_t random_place(void)
{
    int workers = prog.workers > 0 ? prog.workers : 0;

    return chance(50) ? KC_WORKER : (kc_affinity_t)pick((unsigned)workers + 2) - 1;
}

/* Options of a job. Not of a scope: it has no place and no flags but one. */
static void node_options(struct node *n)
{
    static const uint32_t flags[] = { 0,
                                      0,
                                      0,
                                      KC_JOB_SUPERVISOR,
                                      KC_JOB_UNWIND,
                                      KC_JOB_NOW,
                                      KC_JOB_UNWIND | KC_JOB_NOW,
                                      KC_JOB_MIGRATE,
                                      KC_JOB_MIGRATE | KC_JOB_UNWIND,
                                      KC_JOB_DETACHED,
                                      KC_JOB_ALONE,
                                      KC_JOB_ALONE | KC_JOB_UNWIND };

    n->flags = n->kind == BODY ? flags[pick(12)] : chance(30) ? KC_JOB_SUPERVISOR : 0;
    if (n->kind == GROUP && chance(20))
        n->flags |= KC_JOB_ALONE;
    if (n->kind == BODY && !(n->flags & KC_JOB_NOW))
        n->where = random_place();
    if (n->flags & KC_JOB_MIGRATE)
        n->where = KC_WORKER;
    n->grace = chance(10) ? 1 + pick(8) : 0;
    n->named = chance(30);
    n->handle = n->kind != BODY || chance(75);
    n->disposes = n->kind == BODY && n->handle && chance(80);
    if (n->kind == BODY && !n->handle) { /* a plain kc_launch */
        n->flags = n->grace = 0;
        n->where = KC_WORKER;
    }
    if (prog.calm)
        return;
    n->rc = n->kind != GROUP && chance(12) ? codes[pick(3)] : chance(2) ? -ECANCELED : 0;
    if (!n->handle)
        return;
    n->timeout = chance(12) ? 1 + pick(30) : 0;
    n->signal = chance(10) ? (int8_t)pick(SIGNALS) : -1;
}

static void fill(struct node *n, struct spot s, int ops);

/* A job of its own: it holds no lock, but those who wait for it in a cleanup may. */
static void fill_body(int index, struct spot s)
{
    struct spot inside = { .at = index, .depth = s.depth + 1, .rank = s.rank == 9 ? 9 : 0 };

    fill(&prog.node[index], inside, 1 + (int)pick(s.depth == 0 ? 9 : 6));
}

static int make_body(struct spot s, int up)
{
    int i = s.depth < 5 && budget > 0 ? node_new(BODY, up) : -1;

    if (i < 0)
        return -1;
    node_options(&prog.node[i]);
    if (prog.node[i].flags & KC_JOB_DETACHED)
        prog.node[i].up = -1;
    return i;
}

/* ---- operations ----------------------------------------------------------------------------- */

static int weight(enum what w, struct spot s)
{
    int n = absent[w] ? 0 : s.thread ? odds[w].thread : odds[w].body;

    if (s.lock && odds[w].lock < n)
        n = odds[w].lock;
    if (s.cleanup && odds[w].cleanup < n)
        n = odds[w].cleanup;
    if (s.simple &&
        (w == OP_scope || w == OP_submit || w == OP_timer || w == OP_lease || w == OP_park))
        n = 0;
    if (s.thread && prog.abrupt && (w == OP_submit || w == OP_timer))
        n = 0;
    if (prog.calm && (w == OP_cancel || w == OP_cancel_self || w == OP_fire || w == OP_close ||
                      w == OP_fail_self))
        n = 0;
    if (prog.calm && (w == OP_timeout || w == OP_listen))
        n = 0;
    return n;
}

static enum what random_op(struct spot s)
{
    int sum = 0;

    for (int w = 0; w < OP_KINDS; w++)
        sum += weight(w, s);
    int left = (int)pick((unsigned)sum);
    for (int w = 0; w < OP_KINDS; w++)
        if ((left -= weight(w, s)) < 0)
            return w;
    return OP_yield;
}

static int make_piece(struct spot s, int ops)
{
    int i = budget > 0 ? node_new(PIECE, s.at) : -1;

    if (i >= 0) {
        prog.node[i].in_cleanup = s.cleanup;
        fill(&prog.node[i], s, ops);
    }
    return i;
}

static void is_open_to_others(int index)
{
    if (prog.groups < GROUPS)
        prog.group[prog.groups++] = (int16_t)index;
}

static int make_scope(struct spot s, bool timeout)
{
    int i = s.depth < 5 && budget > 0 ? node_new(SCOPE, s.at) : -1;

    if (i < 0)
        return -1;
    struct node *n = &prog.node[i];
    node_options(n);
    if (timeout) {
        n->flags = 0;
        n->timeout = 1 + pick(25);
        n->grace = 0;
        n->signal = -1;
    } else {
        n->max_running = chance(35) ? (uint8_t)(1 + pick(2)) : 0;
    }
    struct spot inside = { .at = i, .depth = s.depth + 1, .rank = s.cleanup ? 9 : s.rank };
    if (inside.rank != 9 && chance(50))
        is_open_to_others(i);
    fill(n, inside, 1 + (int)pick(5));
    return i;
}

/* Several bodies in a row, below up. */
static void make_bodies(struct op *op, struct spot s, int up, unsigned most)
{
    int first = prog.nodes, n = 0;

    for (unsigned want = 1 + pick(most); want > 0; want--)
        if (make_body(s, up) >= 0)
            n++;
    op->count = (int16_t)n;
    for (int i = first; i < first + n; i++)
        fill_body(i, s);
}

static void make_collect(struct op *op, struct spot s)
{
    op->node = (int16_t)prog.nodes;
    if (prog.calm) /* of those that cancel nobody */
        op->how = op->how < 3 ? 0 : op->how < 6 ? 3 : 7;
    make_bodies(op, s, s.at, 4);
    for (int i = op->node; i < op->node + op->count; i++) {
        struct node *n = &prog.node[i];
        n->flags = 0;
        n->where = KC_WORKER;
        n->timeout = n->grace = 0;
        n->signal = -1;
        n->up = (int16_t)s.at;
        n->alone = true;
        n->disposes = n->handle = n->named = false;
    }
}

static void make_group(struct op *op, struct spot s)
{
    int g = s.depth < 5 && budget > 0 ? node_new(GROUP, s.at) : -1;

    op->node = (int16_t)g;
    if (g < 0)
        return;
    node_options(&prog.node[g]);
    prog.node[g].handle = true;
    is_open_to_others(g);
    make_bodies(op, s, g, 3);
    for (int i = g + 1; i <= g + op->count; i++)
        prog.node[i].flags &= ~(uint32_t)(KC_JOB_NOW | KC_JOB_DETACHED),
            prog.node[i].up = (int16_t)g;
}

static int make_task(struct spot s, bool interval)
{
    int i = s.depth < 5 && budget > 0 ? node_new(TASK, -1) : -1;

    if (i < 0)
        return -1;
    struct spot inside = { .at = i, .depth = s.depth + 2 };
    prog.node[i].where = random_place();
    prog.node[i].interval = interval;
    prog.node[i].rc = !prog.calm && chance(10) ? codes[pick(3)] : 0;
    if (interval)
        inside.simple = inside.cleanup = true;
    fill(&prog.node[i], inside, 1 + (int)pick(4));
    return i;
}

/* A lock that may be taken here: op->which; false: none. */
static bool rank_allows(struct op *op, struct spot *s)
{
    int rank = op->what == OP_mutex ? 1 + op->which : op->what == OP_rwlock ? 3 : 4;

    if (op->what == OP_cond_give || op->what == OP_cond_take)
        rank = 1 + op->which;
    if (rank <= s->rank)
        return false;
    s->rank = rank;
    s->lock = true;
    return true;
}

static void make_lock(struct op *op, struct spot s)
{
    op->which %= MUTEXES;
    if (!rank_allows(op, &s)) {
        op->what = OP_yield;
        return;
    }
    if (op->what != OP_cond_give && op->what != OP_cond_take)
        op->node = (int16_t)make_piece(s, (int)pick(4));
}

static void make_child(struct op *op, struct spot s)
{
    struct spot inside = s;

    switch (op->what) {
    case OP_launch:
    case OP_async:
        op->node = (int16_t)make_body(s, s.at);
        if (op->node >= 0)
            fill_body(op->node, s);
        break;
    case OP_visit:
        if (prog.groups == 0)
            break;
        op->which = (uint8_t)pick((unsigned)prog.groups);
        op->node = (int16_t)make_body(s, prog.group[op->which]);
        if (op->node >= 0) {
            prog.node[op->node].flags &= ~(uint32_t)(KC_JOB_NOW | KC_JOB_DETACHED);
            prog.node[op->node].up = prog.group[op->which];
            fill_body(op->node, s);
        }
        break;
    case OP_promise:
        op->node = (int16_t)(budget > 0 ? node_new(PROMISE, s.at) : -1);
        if (op->node >= 0)
            prog.node[op->node].timeout = !prog.calm && chance(20) ? 1 + pick(10) : 0;
        break;
    case OP_shield:
        op->node = (int16_t)make_piece(s, 1 + (int)pick(3));
        break;
    default: /* OP_cleanup, OP_defer */
        inside.cleanup = true;
        inside.rank = 9;
        op->node = (int16_t)make_piece(inside, (int)pick(3));
    }
}

static void make_op(struct op *op, struct spot s)
{
    op->what = (uint8_t)random_op(s);
    op->which = (uint8_t)pick(CHANNELS);
    op->how = (uint8_t)pick(8);
    op->time = 1 + pick(chance(50) ? 3 : 12); /* often the same: things meet in time */
    op->node = -1;
    switch (op->what) {
    case OP_launch:
    case OP_async:
    case OP_visit:
    case OP_promise:
    case OP_shield:
    case OP_cleanup:
    case OP_defer:
        make_child(op, s);
        break;
    case OP_scope:
    case OP_timeout:
        op->node = (int16_t)make_scope(s, op->what == OP_timeout);
        break;
    case OP_collect:
        make_collect(op, s);
        break;
    case OP_group:
        make_group(op, s);
        break;
    case OP_submit:
    case OP_timer:
        op->node = (int16_t)make_task(s, op->what == OP_timer && op->how < 3);
        break;
    case OP_mutex:
    case OP_rwlock:
    case OP_semaphore:
    case OP_cond_give:
    case OP_cond_take:
        make_lock(op, s);
        break;
    default:
        break;
    }
}

static void fill(struct node *n, struct spot s, int ops)
{
    if (prog.ops + ops > OPS)
        return;
    n->first = (int16_t)prog.ops;
    n->ops = (int16_t)ops;
    prog.ops += ops;
    for (int i = n->first; i < n->first + ops; i++)
        make_op(&prog.op[i], s);
}

/* Operations on any job get their target when all nodes are there. */
static void choose_targets(void)
{
    for (int i = 0; i < prog.ops; i++) {
        struct op *op = &prog.op[i];
        bool any = op->what == OP_cancel || op->what == OP_join_any || op->what == OP_look ||
                   op->what == OP_emit || op->what == OP_lease || op->what == OP_listen ||
                   op->what == OP_unpark;
        enum kind kind = op->what == OP_complete ? PROMISE : TASK;
        if (any || op->what == OP_complete || op->what == OP_untimer)
            op->node = (int16_t)pick((unsigned)prog.nodes);
        for (int tries = 0; any && tries < 4 && !prog.node[op->node].handle; tries++)
            op->node = (int16_t)pick((unsigned)prog.nodes);
        for (int tries = 0; !any && tries < prog.nodes; tries++)
            if ((op->what == OP_complete || op->what == OP_untimer) &&
                prog.node[op->node].kind != kind)
                op->node = (int16_t)((op->node + 1) % prog.nodes);
    }
}

void program_make(uint64_t seed, bool is_virtual, int workers, bool faults)
{
    memset(&prog, 0, sizeof prog);
    random_state = seed;
    prog.seed = seed;
    prog.is_virtual = is_virtual;
    prog.faults = faults;
    prog.workers = is_virtual ? KC_NO_WORKERS : workers >= 0 ? workers : (int)pick(9);
    if (prog.workers == 0)
        prog.workers = KC_NO_WORKERS;
    prog.calm = chance(25);
    prog.abrupt = chance(15);
    prog.uses_run = !prog.abrupt && chance(40);
    prog.sched_flags = is_virtual ? KC_SCHED_VIRTUAL_TIME : chance(50) ? KC_SCHED_MAIN_WORKS : 0;
    prog.unit = is_virtual ? KC_MS(1) : KC_US(10);
    bool few = chance(60); /* of the kinds, which then meet each other more often */
    for (int w = 0; w < OP_KINDS; w++)
        absent[w] = few && chance(60) && w != OP_yield && w != OP_launch;
    budget = 4 + (int)pick(chance(50) ? 30 : 110);
    for (int i = 0; i < CHANNELS; i++) {
        static const size_t sizes[] = { 0, 0, 1, 2, 3, 8, KC_CHAN_UNLIMITED, KC_CHAN_LATEST };
        prog.channel[i].capacity = sizes[pick(8)];
    }
    int root = node_new(BODY, -1);
    prog.node[root].handle = true;
    prog.node[root].where = prog.uses_run ? KC_MAIN : random_place();
    prog.node[root].flags = chance(20) && !prog.uses_run ? KC_JOB_UNWIND : 0;
    prog.node[root].rc = !prog.calm && chance(10) ? codes[pick(3)] : 0;
    fill_body(root, (struct spot){ .depth = 0 });
    prog.threads = (int)pick(THREADS + 1);
    for (int i = 0; i < prog.threads; i++) {
        int t = prog.nodes < NODES ? node_new(THREAD, -1) : -1;
        if (t >= 0)
            fill(&prog.node[t], (struct spot){ .at = -1, .depth = 2, .thread = true },
                 3 + (int)pick(12));
    }
    choose_targets();
}
