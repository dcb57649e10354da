/* SPDX-License-Identifier: MIT */
/*
 * stuck.c - nothing can go on any more: who waits for what, and for whom in a circle.
 *
 * WHAT     Called on the only thread of a scheduler, when all its coroutines wait (S11): so all of
 *          it may be read. A body waits for one thing: a lock, which somebody has; a job, or its
 *          children, which must end. A job without a body waits for its children. These are the
 *          edges of a graph; circles in it are found by going down from each job once.
 */
#include "base/os.h"
#include "flow/chan.h"
#include "flow/line.h"

#include <kcoro/sync.h>

#include <stdio.h>
#include <stdlib.h>

typedef struct node {
    kc_job_t *job;
    enum { NEW, ON_PATH, SEEN } state;
    kc_job_t *next;     /* the child to be looked at next; NULL: none is left */
    struct node *below; /* ON_PATH: which one is above it on the path */
} node_t;

typedef struct {
    node_t *node;
} place_t;

typedef struct {
    kc_job_t *job;
} body_t;

typedef struct {
    kc_sched_t *sched;
    size_t count, room;
    node_t *nodes;  /* as they are found in the tree */
    place_t *place; /* the same by address of the job */
    size_t bodies;
    body_t *body; /* those that have one, by address of its coroutine */
} graph_t;

/* ---- who waits for what --------------------------------------------------------------------- */

/* The wait of a body that waits; NULL: it does not, or there is none. */
static const kc_wait_t *wait_of(const kc_job_t *j)
{
    if (!(kc__job_word(j) & KC_WORD_BODY) || (kc__job_flags(j) & KC_JOB_SCOPE))
        return NULL;
    const kc_task_t *at = j->task.co->task;
    return kc_load_relaxed(&at->kind) == KC_WAIT_NONE ? NULL : at->wait;
}

/* The name that the user gave to what is waited for; "" if none. */
static const char *name_of(const kc_wait_t *w)
{
    const char *name = NULL;

    switch (w->kind) {
    case KC_WAIT_MUTEX:
        name = ((const kc_mutex_t *)w->object)->name;
        break;
    case KC_WAIT_READ:
    case KC_WAIT_WRITE:
        name = ((const kc_rwlock_t *)w->object)->name;
        break;
    case KC_WAIT_SEND:
    case KC_WAIT_RECV:
        name = ((const kc_chan_t *)w->object)->name;
        break;
    default:
        break;
    }
    return name ? name : "";
}

static void print_wait(const char *head, kc_job_t *j)
{
    const kc_wait_t *w = wait_of(j);
    const char *name = w ? name_of(w) : "", *mark = *name ? "\"" : "";
    unsigned long long co = (unsigned long long)j->task.co->id;

    if (w && w->kind == KC_WAIT_JOIN)
        fprintf(stderr, "kcoro: %s: job \"%s\", coroutine %llu, waits for join of job %s", head,
                kc_job_name(j), co, kc_job_name(w->object));
    else
        fprintf(stderr, "kcoro: %s: job \"%s\", coroutine %llu, waits for %s%s%s%s%s", head,
                kc_job_name(j), co, w ? kc__wait_name(w->kind) : "its turn", *name ? " " : "",
                mark, name, mark);
}

/* ---- circles -------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const place_t *)a)->node->job;
    uintptr_t y = (uintptr_t)((const place_t *)b)->node->job;

    return x < y ? -1 : x > y;
}

static node_t *node_of(const graph_t *g, kc_job_t *j)
{
    node_t like = { .job = j };
    place_t key = { &like };
    const place_t *found = j ? bsearch(&key, g->place, g->count, sizeof key, by_address) : NULL;

    return found ? found->node : NULL;
}

static int by_coroutine(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const body_t *)a)->job->task.co;
    uintptr_t y = (uintptr_t)((const body_t *)b)->job->task.co;

    return x < y ? -1 : x > y;
}

/* The job whose coroutine has a lock; NULL: nobody, or somebody outside. */
static kc_job_t *job_of_owner(const graph_t *g, uint64_t owner)
{
    kc_job_t like = { .task.co = (kcoro_t *)(uintptr_t)owner };
    body_t key = { &like }, *found = bsearch(&key, g->body, g->bodies, sizeof key, by_coroutine);

    return found ? found->job : NULL;
}

/* Who has the lock for which a body waits so; 0: nobody, or it is no lock of one owner. */
static uint64_t owner_of(const kc_wait_t *w)
{
    switch (w->kind) {
    case KC_WAIT_MUTEX:
        return kc__mutex_owner(w->object);
    case KC_WAIT_READ:
    case KC_WAIT_WRITE:
        return kc__rwlock_writer(w->object);
    case KC_WAIT_ONCE:
        return kc__once_runner(w->object);
    default:
        return 0;
    }
}

/* The first that must do something before j can. *ring_of is not NULL: the children of that, all of
 * them; this is the first. */
static kc_job_t *first_below(const graph_t *g, kc_job_t *j, kc_job_t **ring_of)
{
    const kc_wait_t *w = wait_of(j);

    *ring_of = NULL;
    if ((kc__job_flags(j) & KC_JOB_SCOPE) && (kc__job_word(j) & KC_WORD_BODY))
        return kc__job_own(j->task.co);
    if (!(kc__job_word(j) & KC_WORD_BODY))
        *ring_of = j;
    else if (!w)
        return NULL;
    else if (w->kind == KC_WAIT_CHILDREN)
        *ring_of = (kc_job_t *)(uintptr_t)w->object;
    else if (w->kind == KC_WAIT_JOIN)
        return (kc_job_t *)(uintptr_t)w->object;
    else
        return job_of_owner(g, owner_of(w));
    return *ring_of ? (*ring_of)->children : NULL;
}

/* From `from`, the last on the path, back to `to`: those between wait in a circle. */
static void print_circle(const node_t *from, const node_t *to)
{
    const node_t *at = from, *after = to;

    for (; at; after = at, at = at->below) { /* `to` is on the path */
        kc_job_t *j = at->job, *next = after->job;
        if (wait_of(j)) {
            print_wait("circle", j);
            if (wait_of(j)->kind == KC_WAIT_JOIN)
                fprintf(stderr, "\n");
            else
                fprintf(stderr, ", which needs job \"%s\"\n", kc_job_name(next));
        }
        if (at == to)
            return;
    }
}

/* Goes down from node `top`, and back up. */
static void search(const graph_t *g, node_t *top)
{
    kc_job_t *ring_of;

    top->below = NULL;
    for (node_t *n = top; n;) {
        kc_job_t *first = first_below(g, n->job, &ring_of), *j = n->next;
        if (n->state == NEW) {
            n->state = ON_PATH;
            j = first;
        }
        if (!j) {
            n->state = SEEN;
            n = n->below;
            continue;
        }
        n->next = ring_of && j->next != first ? j->next : NULL;
        node_t *next = node_of(g, j);
        if (next && next->state == ON_PATH)
            print_circle(n, next);
        if (next && next->state == NEW) {
            next->below = n;
            n = next;
        }
    }
}

/* ---- the report ----------------------------------------------------------------------------- */

static bool has_own_body(const kc_job_t *j)
{
    return (kc__job_word(j) & KC_WORD_BODY) && !(kc__job_flags(j) & KC_JOB_SCOPE);
}

static void collect(kc_job_t *j, void *arg)
{
    graph_t *g = arg;

    if (g->count == g->room || kc__job_sched(j) != g->sched)
        return;
    g->place[g->count] = (place_t){ &g->nodes[g->count] };
    g->nodes[g->count++] = (node_t){ .job = j };
    if (has_own_body(j))
        g->body[g->bodies++] = (body_t){ j };
}

static void count(kc_job_t *j, void *arg)
{
    graph_t *g = arg;

    g->room += kc__job_sched(j) == g->sched;
}

/* Finds all jobs of g->sched. False: no memory. */
static bool fill(graph_t *g)
{
    kc__roots_each(g->sched, count, g);
    g->nodes = kc__alloc(g->room * sizeof *g->nodes);
    g->place = kc__alloc(g->room * sizeof *g->place);
    g->body = kc__alloc(g->room * sizeof *g->body);
    if (!g->nodes || !g->place || !g->body)
        return false;
    kc__roots_each(g->sched, collect, g);
    qsort(g->place, g->count, sizeof *g->place, by_address);
    qsort(g->body, g->bodies, sizeof *g->body, by_coroutine);
    return true;
}

static void empty(graph_t *g)
{
    kc__free(g->nodes);
    kc__free(g->place);
    kc__free(g->body);
}

/* A thread outside has ended this wait, and is about to send the coroutine here. */
static bool is_being_woken(const kc_wait_t *w)
{
    return w->kind == KC_WAIT_PARK ? kc_load_relaxed(&w->co->gate.word) != KC_GATE_PARKED
                                   : kc_load_relaxed(&w->co->claim) < KC_CLAIM_FIRM;
}

/* j is about to be woken, or waits for a lock that neither a body of its scheduler has nor this
 * thread, which runs that. */
static bool awaits_thread(const graph_t *g, const kc_job_t *j)
{
    const kc_wait_t *w = wait_of(j);
    uint64_t owner = w ? owner_of(w) : 0;

    if (w && is_being_woken(w))
        return true;
    return owner != 0 && owner != (uintptr_t)kc__thread_mark() && !job_of_owner(g, owner);
}

bool kc__stuck_on_thread(kc_sched_t *s)
{
    graph_t g = { .sched = s };
    bool found = false;

    if (fill(&g))
        for (size_t i = 0; i < g.bodies && !found; i++)
            found = awaits_thread(&g, g.body[i].job);
    empty(&g);
    return found;
}

static void print(kc_job_t *j, void *arg)
{
    const kc_sched_t *s = arg;

    if (kc__job_sched(j) == s && has_own_body(j)) {
        const char *message = kc__failure_message(j);
        print_wait("deadlock", j);
        if (message)
            fprintf(stderr, ", says \"%s\"", message);
        fprintf(stderr, "\n");
    }
}

void kc__stuck_report(kc_sched_t *s)
{
    graph_t g = { .sched = s };

    kc__roots_each(s, print, s);
    if (fill(&g))
        for (size_t i = 0; i < g.count; i++)
            if (g.nodes[i].state == NEW)
                search(&g, &g.nodes[i]);
    empty(&g);
}
