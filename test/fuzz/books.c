/* SPDX-License-Identifier: MIT */
/*
 * books.c - what is known of a program while it runs, and what must hold.
 *
 * All of it errs on the side of the library: where two threads could see things in another order
 * than they happened, the books allow both.
 */
#include "program.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct program prog;
enum sabotage sabotage;
const char *const op_name[OP_KINDS] = {
#define FUZZ_TEXT(name, ...) #name,
    FUZZ_OPS(FUZZ_TEXT)
#undef FUZZ_TEXT
};

static _Thread_local int last_node; /* not its place, whose stack may be gone */
static _Thread_local const struct op *last_op;
static pthread_mutex_t breaking = PTHREAD_MUTEX_INITIALIZER;

/* Out of line, as is what reads them: a coroutine may go on in another thread. */
void stands_at(const struct place *p, const struct op *op)
{
    last_node = p->own->index;
    last_op = op;
}

uint64_t thread_number(void)
{
    return (uint64_t)(uintptr_t)pthread_self();
}

void broken(const char *file, int line, const char *format, ...)
{
    va_list args;

    pthread_mutex_lock(&breaking); /* for good: the first one is told */
    fprintf(stderr, "%s:%d: ", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    if (last_op)
        fprintf(stderr, " (at or after operation %d, %s, of node %d)", (int)(last_op - prog.op),
                op_name[last_op->what], last_node);
    fprintf(stderr, "\n");
    program_print(stderr);
    fflush(NULL);
    _exit(3);
}

bool broken_or_over(void)
{
    if (pthread_mutex_trylock(&breaking) != 0)
        return true;
    pthread_mutex_unlock(&breaking);
    return false;
}

void programs_end(void)
{
    pthread_mutex_lock(&breaking); /* for good: ThreadSanitizer takes a second to exit */
}

struct node *node_at(int index)
{
    return index < 0 ? NULL : &prog.node[index];
}

static struct node *above(const struct node *n)
{
    return node_at(n->up);
}

bool is_below(const struct node *n, const struct node *top)
{
    for (; n && n != top; n = above(n))
        ;
    return n != NULL;
}

/* ---- the life of a job ---------------------------------------------------------------------- */

void node_launching(struct node *n, const struct place *p)
{
    kc_store_relaxed(&n->before, kc_now());
    kc_add_relaxed(&n->launched, 1);
    n->returned = -ECANCELED; /* if it does not come to its return */
    n->launched_by = thread_number();
    if (p && n->up >= 0 && prog.node[n->up].kind != GROUP)
        n->local = p->own->local;
}

void node_launched(struct node *n, kc_job_t *job)
{
    kc_store_relaxed(&n->after, kc_now());
    kc_store_relaxed(&n->over, sabotage == BREAK_LATE_CHILD);
    if (job)
        kc_store_release(&n->job, job);
}

void holds_open(struct node *n, int by)
{
    for (; n; n = above(n)) {
        if (kc_load_relaxed(&n->over))
            BROKEN("something below node %d runs, which has ended", n->index);
        kc_add_relaxed(&n->live, (uint32_t)by);
    }
}

static void check_where(const struct node *n)
{
    int index = kc_worker_index();
    bool any = prog.workers < 0 || (prog.sched_flags & KC_SCHED_MAIN_WORKS);

    if (n->flags & KC_JOB_NOW)
        return;
    if (n->where == KC_MAIN)
        MUST(index == KC_MAIN);
    else if (n->where > 0)
        MUST(index == n->where - KC_WORKER_AT(0));
    else
        MUST(index >= 0 || (any && index == KC_MAIN));
}

void node_started(struct node *n)
{
    uint32_t before = kc_add_relaxed(&n->started, 1);

    MUST(!kc_load_relaxed(&prog.ended));
    MUST(before == 0 || n->interval);
    MUST(kc_load_relaxed(&n->disposed) == 0);
    MUST(kc_load_relaxed(&n->launched) == 1);
    check_where(n);
    holds_open(n, 1);
    struct node *up = above(n), *pool = node_at(n->pool - 1);
    if (up && !n->alone) {
        uint32_t running = kc_add_relaxed(&up->running, 1) + 1;
        if (up->max_running && running > up->max_running)
            BROKEN("%u children of node %d run, at most %u may", running, up->index,
                   up->max_running);
    }
    if (pool && pool->pool_limit)
        MUST(kc_add_relaxed(&pool->pool_running, 1) < pool->pool_limit);
    if (n->interval)
        MUST(kc_load_relaxed(&n->live) == 1); /* runs never overlap */
    if (kc_load_relaxed(&n->due))
        MUST(kc_now() >= kc_load_relaxed(&n->due));
    if ((n->flags & KC_JOB_NOW) && !up->max_running)
        MUST(thread_number() == n->launched_by);
}

void node_left(void *node)
{
    struct node *n = node, *up = above(n), *pool = node_at(n->pool - 1);

    MUST(kc_add_relaxed(&n->left, 1) < kc_load_relaxed(&n->started));
    MUST(!kc_load_relaxed(&prog.ended));
    if (up && !n->alone)
        kc_add_relaxed(&up->running, (uint32_t)-1);
    if (pool && pool->pool_limit)
        kc_add_relaxed(&pool->pool_running, (uint32_t)-1);
    holds_open(n, -1);
}

/* Nothing below it runs, or ever will. */
void node_is_over(struct node *n)
{
    kc_store_relaxed(&n->over, 1);
    if (kc_load_relaxed(&n->live) != 0)
        BROKEN("node %d has ended, and %u below it run", n->index, kc_load_relaxed(&n->live));
}

/* ---- who may be cancelled, who must be ------------------------------------------------------ */

void mark_cause(struct node *n)
{
    kc_store_relaxed(&n->causes, 1);
}

void mark_family(struct node *n, int rc)
{
    int rule = n->family_rule;

    if (rule == STOP_ON_END || (rule == STOP_ON_SUCCESS && rc == 0) ||
        (rule == STOP_ON_FAILURE && rc != 0))
        for (int i = 0; i < n->family_size; i++)
            mark_cause(node_at(n->family - 1 + i));
}

bool fails_alone(const struct node *n)
{
    return n->alone || n->kind == SCOPE || n->kind == PROMISE || (n->flags & KC_JOB_ALONE);
}

/* It goes up to the next scope, supervisor, collect call, or job alone. */
void mark_failure(struct node *n)
{
    for (struct node *up = n; up && !up->family; up = above(up))
        if (above(up) && above(up)->family)
            mark_family(above(up), -1);
    mark_cause(n);
    while (!fails_alone(n) && (n = above(n)) && !(n->flags & KC_JOB_SUPERVISOR))
        mark_cause(n);
}

/* The current job, and those around it in the same coroutine. */
void shield_begins(const struct place *p)
{
    for (struct node *n = p->at; n; n = n == p->own ? NULL : above(n)) {
        kc_add_relaxed(&n->shields_begun, 1);
        kc_add_relaxed(&n->shields_open, 1);
    }
}

void shield_ends(const struct place *p)
{
    for (struct node *n = p->at; n; n = n == p->own ? NULL : above(n))
        kc_add_relaxed(&n->shields_open, (uint32_t)-1);
}

static bool is_overdue(const struct node *n, bool surely)
{
    kc_time_t now = kc_now(), limit = units(n->timeout);
    kc_time_t before = kc_load_relaxed(&n->before), after = kc_load_relaxed(&n->after);

    if (n->timeout == 0)
        return false;
    return surely ? prog.is_virtual && after && now - after > limit : now - before >= limit;
}

static bool has_grace(const struct node *n)
{
    for (; n; n = above(n))
        if (n->grace)
            return true;
    return false;
}

static bool has_cause(const struct node *n)
{
    return kc_load_relaxed(&n->causes) || is_overdue(n, false) ||
           (n->signal >= 0 && kc_load_relaxed(&prog.fired[n->signal]));
}

bool may_shut_down(void)
{
    return kc_load_relaxed(&prog.shutdown) ||
           (prog.uses_run && kc_load_relaxed(&prog.node[0].left));
}

bool may_be_cancelled(const struct place *p)
{
    if (sabotage == BREAK_FALSE_CANCEL)
        return false;
    if (kc_load_relaxed(&prog.shutdown) || prog.faults)
        return true; /* faults: a child that gets no stack may fail it */
    if (kc_load_relaxed(&p->own->forbids) && has_cause(p->own))
        return true; /* a child's failure reaches its scopes all the same */
    for (struct node *n = p->at; n; n = above(n)) {
        if (n == p->shield && !has_grace(n))
            return false;
        if (has_cause(n))
            return true;
        if ((n->flags & KC_JOB_DETACHED) && may_shut_down())
            return true; /* kc_run does not wait for it */
    }
    return false;
}

/* Virtual time: n's shields do not hold back a cancel any more. */
static bool grace_is_over(const struct node *n)
{
    return prog.is_virtual && n->grace && kc_load_relaxed(&n->cancelled) &&
           kc_now() - kc_load_relaxed(&n->cancelled_at) > units(n->grace);
}

uint32_t must_be_cancelled(const struct place *p)
{
    uint32_t shields = 1;

    if (p->own->kind == THREAD || kc_load_relaxed(&p->own->forbids))
        return 0;
    if (p->shield)
        return grace_is_over(p->shield);
    for (struct node *n = p->at; n; n = above(n)) {
        if (kc_load_relaxed(&n->shields_open) || kc_load_relaxed(&n->forbids))
            return 0;
        shields += kc_load_relaxed(&n->shields_begun);
        if (kc_load_relaxed(&n->cancelled) || is_overdue(n, true))
            return shields;
        if (n->signal >= 0 && kc_load_relaxed(&prog.fired[n->signal]) == 2)
            return shields;
        /* Who is above may be on another thread, and for a moment in a cleanup, which is a shield
         * that nobody sees here. */
        if (n == p->own && !prog.is_virtual)
            return 0;
    }
    return 0;
}

bool may_lack_memory(int rc)
{
    return prog.faults && (rc == -ENOMEM || rc == -EAGAIN);
}

/* What a call may return that a cancel ends. must: as it was before the call. */
int checked(const struct place *p, uint32_t must, int rc)
{
    if (sabotage == BREAK_MISS_CANCEL)
        rc = 0;
    if (rc == -ECANCELED) {
        if (!may_be_cancelled(p))
            BROKEN("-ECANCELED, and nobody has cancelled it");
        MUST(kc_cancelled());
        MUST(kc_check() == -ECANCELED);              /* it stays so */
        MUST(kc_cancel_reason() != 0 || p->cleanup); /* grace, after a failure */
    } else if (must && must_be_cancelled(p) == must) {
        BROKEN("%d in a job that is cancelled", rc);
    }
    return rc;
}

struct waiting wait_begins(const struct place *p, const struct op *op, KC_ATOMIC(int) * count)
{
    struct waiting w = { p->own, count };

    if (count)
        kc_add_relaxed(count, 1);
    bool ends = op && p->own->kind != THREAD && !p->shield;
    kc_store_relaxed(&p->own->waits_at, ends ? 1 + p->at->index : 0);
    return w;
}

void wait_ends(void *waiting)
{
    struct waiting *w = waiting;

    if (w->count && sabotage != BREAK_LOSE_WAKE_UP)
        kc_add_relaxed(w->count, -1);
    kc_store_relaxed(&w->own->waits_at, 0);
}

void trace(const struct place *p, uint64_t what, uint64_t rc)
{
    static uint64_t other;

    if (!prog.is_virtual)
        return;
    uint64_t h = prog.trace + (sabotage == BREAK_OTHER_TRACE ? other++ : 0);
    h = (h ^ (uint64_t)p->own->index) * 0x100000001b3u;
    h = (h ^ what) * 0x100000001b3u;
    h = (h ^ rc) * 0x100000001b3u;
    h = (h ^ (uint64_t)(kc_now() - prog.start)) * 0x100000001b3u;
    prog.trace = h ^ h >> 29;
}

/* ---- items ---------------------------------------------------------------------------------- */

/* 0: there are enough. */
uint32_t item_new(const struct place *p, int channel)
{
    uint32_t i = kc_add_relaxed(&prog.items, 1) + 1;

    if (i >= ITEMS)
        return 0;
    prog.item[i].channel = (uint8_t)channel;
    prog.item[i].sender = p->own->index;
    prog.item[i].guarded = i * 7919u;
    kc_or_relaxed(&prog.item[i].flags, ITEM_USED);
    return i;
}

void item_sent(uint32_t item)
{
    kc_or_relaxed(&prog.item[item].flags, ITEM_SENT);
}

void item_received(const struct place *p, int channel, uint32_t item)
{
    struct channel *c = &prog.channel[channel];

    MUST(item > 0 && item < ITEMS);
    struct item *i = &prog.item[item];
    if (sabotage == BREAK_LOSE_ITEM)
        return;
    if (sabotage == BREAK_DOUBLE_ITEM)
        kc_or_relaxed(&i->flags, ITEM_GOT);
    uint32_t flags = kc_or_relaxed(&i->flags, ITEM_GOT);
    if (flags & (ITEM_GOT | ITEM_BACK))
        BROKEN("item %u is received twice", item);
    MUST(flags & ITEM_USED);
    MUST(i->channel == channel);
    MUST(i->guarded == item * 7919u);
    uint32_t *seen = &c->seen[p->own->index][i->sender];
    if (*seen >= item)
        BROKEN("item %u of sender %d comes after item %u", item, i->sender, *seen);
    *seen = item;
}

/* ---- who waits, and could go on ------------------------------------------------------------- */

static const char *look_at_channel(struct channel *c)
{
    int receivers = kc_load_relaxed(&c->receivers), senders = kc_load_relaxed(&c->senders);
    int receiving = receivers + kc_load_relaxed(&c->selecting_receivers);
    int sending = senders + kc_load_relaxed(&c->selecting_senders);
    size_t length = kc_chan_len(c->chan);

    if (receiving && length > 0)
        return "a receiver, and there are items";
    if ((receivers && sending) || (senders && receiving))
        return "a receiver and a sender of one channel";
    if (sending && (c->capacity >= KC_CHAN_LATEST || length < c->capacity))
        return "a sender, and there is room";
    if ((receiving || sending) && kc_load_relaxed(&c->closed) == 2)
        return "somebody at a closed channel";
    return NULL;
}

static const char *look_at_locks(void)
{
    for (int i = 0; i < MUTEXES; i++) {
        struct mutex *m = &prog.mutex[i];
        if (kc_load_relaxed(&m->waiting) && kc_load_relaxed(&m->holders) == 0)
            return "somebody for a mutex that is free";
        if (kc_load_relaxed(&m->cond_waiting) && kc_load_relaxed(&m->tokens_seen) > 0 &&
            kc_load_relaxed(&m->holders) == 0)
            return "somebody for a condition that holds";
    }
    int readers = kc_load_relaxed(&prog.rw.readers), writers = kc_load_relaxed(&prog.rw.writers);
    int to_read = kc_load_relaxed(&prog.rw.readers_waiting);
    int to_write = kc_load_relaxed(&prog.rw.writers_waiting);
    if ((to_read || to_write) && readers == 0 && writers == 0)
        return "somebody for a rwlock that is free";
    if (to_read && to_write == 0 && writers == 0)
        return "a reader, and nobody writes or wants to";
    if (kc_load_relaxed(&prog.sem.waiting) && kc_load_relaxed(&prog.sem.held) < PERMITS)
        return "somebody for a permit, and there is one";
    for (int i = 0; i < EVENTS; i++)
        if (kc_load_relaxed(&prog.event[i].waiting) && kc_event_is_set(&prog.event[i].event))
            return "somebody for an event that is set";
    if (kc_load_relaxed(&prog.latch.waiting) && kc_load_relaxed(&prog.latch.done) == LATCH_COUNT)
        return "somebody at an open latch";
    return NULL;
}

static const char *look_at_node(struct node *n)
{
    kc_job_t *j = kc_load_acquire(&n->job);
    int at = kc_load_relaxed(&n->waits_at), code;
    struct place p = { .own = n, .at = node_at(at - 1) };

    if (kc_load_relaxed(&n->parks) % 4 == 2 && kc_load_relaxed(&n->left) == 0)
        return "somebody who was unparked";
    if (at > 0 && n->kind != THREAD && must_be_cancelled(&p))
        return "a job that is cancelled";
    if (j && kc_load_relaxed(&n->joiners) && kc_job_result(j, &code) == 0)
        return "somebody for a job that has ended";
    return NULL;
}

const char *who_could_go_on(void)
{
    const char *who = look_at_locks();

    for (int i = 0; i < CHANNELS && !who; i++)
        who = look_at_channel(&prog.channel[i]);
    for (int i = 0; i < prog.nodes && !who; i++)
        who = look_at_node(&prog.node[i]);
    return who;
}
