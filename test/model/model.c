/* SPDX-License-Identifier: MIT */
/*
 * model.c - the model checker: threads as coroutines, memory as histories, choices as a tree.
 *
 * WHAT     One execution is a sequence of choices: which thread goes on, asked before every atomic
 *          operation, and which store a load reads. Given the choices, it is deterministic. So the
 *          tree of all executions is walked depth first by running the model from its start with a
 *          prefix of choices kept, the last one of it advanced, and zeros from there on (stateless
 *          search; bounded preemptions after Musuvathi and Qadeer). Only the choices are kept, and
 *          the hashes of states: what follows from one that was met before is cut (prune.h).
 *
 * SHAPE    location  history[0], [1], ...: its stores in modification order; [0] is the first value
 *          store     a value, and the view that goes with it to who reads it with acquire
 *          view      per location the oldest store that may still be read: a timestamp, an index
 *                    into the history; and per thread a clock, for happens-before of plain data
 *          thread    three views: now; seen, what its relaxed loads met, for an acquire fence;
 *                    fenced, as of its last release fence, for its relaxed stores
 *
 *          After the promising semantics (Kang et al. 2017), without promises:
 *            load        any store not below now; acquire: now takes in its view; else seen does
 *            store       goes to the end; carries now if release, else fenced
 *            RMW         reads the end; its store carries in addition the view of what it read,
 *                        which is the release sequence
 *            failed CAS  a load of any visible store with another value
 *            SC fence    acquire and release fence, and now and the global view sc become their
 *                        maximum, timestamps only: two SC fences order, but do not synchronise
 *
 * LIMITS   A load cannot read a store that runs later (no load buffering), and a store always goes
 *          to the end of the modification order (no 2+2W): both need stores that take effect
 *          before their turn. SC loads and stores count as acquire and release, hence may be blamed
 *          for more than they allow. A relaxed store does not continue its own thread's release
 *          sequence, as in C++20. A futex never wakes for no reason, a strong CAS never fails for
 *          none. The value an atomic has at its first atomic operation counts as written before the
 *          start. What is freed stays so until setup puts it back.
 *
 * WHY NOT  Partial-order reduction: with a bound on preemptions it is unsound unless done with
 *          mode, and most ways that lead to one state differ in old values that were read, not in
 *          the order of threads. A scheduler coroutine: the choosing thread switches
 *          directly to the next, and most of the time there is no switch at all.
 */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include "model.h"

#include "harness.h"
#include "inside.h"
#include "prune.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- failures: the execution is left where it is, and its stacks with it ------------------- */

/* model_fail, and the library's assertions: os.c, which has the real one, is no part of a model. */
void kc__die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(m.result.why, sizeof m.result.why, format, args);
    va_end(args);
    if (!m.inside)
        misused("%s\n", m.result.why);
    m.result.failed = true;
    m.fibers_made = false;
    if (!m.running)
        _longjmp(m.outside, 1);
    fiber_abandon(&m.main);
}

/* ---- choices ------------------------------------------------------------------------------- */

#define ANOTHER_RUN                                                                               \
    "model %s: the same choices led elsewhere: setup does not restore everything, or the "        \
    "schedule is another model's\n"

static int choose(int count)
{
    if (count == 1)
        return 0;
    if (m.depth == CHOICES)
        model_fail("more than %d choices in one execution", CHOICES);
    if (m.depth == m.length) {
        m.choices[m.depth].state = 0;
        if (state_is_known())
            execution_cut();
        m.choices[m.length++].taken = 0;
        m.choices[m.depth].count = (uint16_t)count;
    }
    struct choice *c = &m.choices[m.depth++];
    if (c->count == 0) /* of a schedule that was given */
        c->count = (uint16_t)count;
    if (c->count != count || c->taken >= count)
        misused(ANOTHER_RUN, m.result.name);
    return c->taken;
}

static bool choices_advance(void)
{
    for (; m.length > 0; m.length--)
        if (++m.choices[m.length - 1].taken < m.choices[m.length - 1].count)
            return true;
    return false;
}

/* "bound/choice.choice...": a higher bound has more choices. The zeros at the end go unsaid. */
static void choices_print(char *to, size_t room)
{
    size_t at = (size_t)snprintf(to, room, "%d/", m.bound);
    int count = m.depth;

    while (count > 1 && m.choices[count - 1].taken == 0)
        count--;
    for (int i = 0; i < count && at + 8 < room; i++)
        at += (size_t)snprintf(to + at, room - at, i ? ".%u" : "%u", m.choices[i].taken);
}

static void choices_parse(const char *from)
{
    char *end;

    m.bound = (int)strtol(from, &end, 10);
    for (m.length = 0; *end && m.length < CHOICES; m.length++) {
        from = end + 1;
        m.choices[m.length] = (struct choice){ .taken = (uint16_t)strtoul(from, &end, 10) };
        if (end == from && *end)
            misused("not a schedule: %s\n", from);
    }
}

/* The next thread to run; NULL when all have finished. The first choice is to go on as before. */
static struct thread *next_thread(void)
{
    struct thread *me = m.current, *able[THREADS] = { 0 };
    bool can_go_on = me && me->state == READY;
    const char *unfinished = NULL;
    int count = 0;

    if (can_go_on)
        able[count++] = me;
    bool at_no_cost = !can_go_on || me->yields;
    for (int i = 0; i < m.count; i++) {
        struct thread *t = &m.threads[i];
        if (t->state != FINISHED)
            unfinished = t->is->name;
        if (t != me && t->state == READY && (at_no_cost || m.preempted != m.bound))
            able[count++] = t;
    }
    if (count == 0 && !unfinished)
        return NULL;
    if (count == 0)
        model_fail("deadlock: nobody wakes %s", unfinished);
    struct thread *next = able[choose(count)];
    m.preempted += next != me && !at_no_cost;
    return next;
}

static void schedule(void)
{
    struct fiber *from = m.current ? &m.current->fiber : &m.main;
    struct thread *next = next_thread();

    if (next != m.current) {
        m.current = next;
        if (next && m.options.enters)
            m.options.enters((int)(next - m.threads));
        fiber_switch(from, next ? &next->fiber : &m.main);
    }
}

/* What a thread's fiber does: one execution after the other. */
static void thread_main(void)
{
    for (;;) {
        _setjmp(m.current->home);
        struct thread *me = m.current;
        me->started = true;
        me->is->run(me->is->arg);
        me->state = FINISHED;
        schedule();
    }
}

/* ---- sites: which operation of the source this is, and its order in this exploration ------- */

static void site_read_note(struct model_site *site)
{
    char line[512] = "";
    FILE *f = fopen(site->file, "r");

    for (int i = 0; f && i < site->line; i++)
        if (!fgets(line, sizeof line, f))
            line[0] = 0;
    if (f)
        fclose(f);
    char *comment = strstr(line, "/* ");
    char *end = comment ? strstr(comment, " */") : NULL;
    if (end)
        snprintf(site->note, sizeof site->note, "%.*s", (int)(end - comment - 3), comment + 3);
}

static bool has_id(const char *note, const char *id)
{
    const char *at = strstr(note, id);

    return at && (at == note || at[-1] == ' ') && !isalnum((unsigned char)at[strlen(id)]);
}

static void site_learn(struct model_site *site)
{
    site->generation = m.generation;
    site->order_now = site->order;
    site->torn = false;
    if (!m.options.weaken.id && !m.tracing)
        return;
    if (!site->note[0])
        site_read_note(site);
    if (m.options.weaken.id && has_id(site->note, m.options.weaken.id)) {
        site->torn = m.options.weaken.to == MODEL_TORN;
        site->order_now &= site->torn ? MODEL_SEQ_CST : (unsigned char)m.options.weaken.to;
        m.result.weakened = true;
    }
}

/* Before every operation: somebody else may go first. */
static struct thread *step(struct model_site *site)
{
    if (site->generation != m.generation)
        site_learn(site);
    schedule();
    if (++m.steps > m.max_steps)
        model_fail("livelock: more than %d steps", m.max_steps);
    return m.current;
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Two sizes apart, for speed: of a constant size, memcpy is one instruction. Little-endian. */
static uint64_t peek(const void *p, size_t size)
{
    uint64_t value = 0;

    if (size == 4)
        memcpy(&value, p, 4);
    else if (size == 8)
        memcpy(&value, p, 8);
    else
        memcpy(&value, p, size);
    return value;
}

static void poke(void *p, size_t size, uint64_t value)
{
    memcpy(p, &value, size);
}

static struct location *location_find(const void *p)
{
    size_t slot = ((uintptr_t)p >> 2) * 0x9e3779b97f4a7c15u >> 56;

    for (; m.slots[slot]; slot = (slot + 1) % SLOTS)
        if (m.location[m.slots[slot] - 1].address == p)
            return &m.location[m.slots[slot] - 1];
    if (m.locations == LOCATIONS)
        misused("model %s: more than %d locations\n", m.result.name, LOCATIONS);
    struct location *loc = &m.location[m.locations++];
    m.slots[slot] = (uint8_t)m.locations;
    *loc = (struct location){ .address = p, .id = m.locations - 1 };
    return loc;
}

static struct location *location_of(const void *p, size_t size, bool atomic)
{
    struct location *loc = location_find(p);

    if (loc->execution != m.execution) {
        loc->execution = m.execution;
        loc->size = size;
        loc->stores = atomic;
        loc->writer = 0;
        loc->write_clock = 0;
        memset(loc->read_clock, 0, sizeof loc->read_clock);
        loc->history[0].value = peek(p, size); /* its view is empty for ever */
    }
    for (int i = 0; i < m.frees; i++)
        if ((uintptr_t)p - m.freed[i] < m.freed_size[i])
            model_fail("%s uses what was freed", m.current->is->name);
    if (loc->size != size || (loc->stores > 0) != atomic)
        model_fail("one object in two ways, plain and atomic or by two sizes");
    if (atomic && loc->history[loc->stores - 1].value != peek(p, size))
        model_fail("a plain write to an atomic object");
    return loc;
}

static void join_at(struct view *to, const struct view *from)
{
    for (int i = 0; i < LOCATIONS; i++)
        to->at[i] = to->at[i] > from->at[i] ? to->at[i] : from->at[i];
}

static void join(struct view *to, const struct view *from)
{
    join_at(to, from);
    for (int i = 0; i < THREADS; i++)
        to->clock[i] = to->clock[i] > from->clock[i] ? to->clock[i] : from->clock[i];
}

static void trace(const struct model_site *site, const struct location *loc, const char *what, ...)
{
    const char *operand = loc && loc->name ? loc->name : site->operand + (site->operand[0] == '&');
    char name[40];
    va_list args;

    snprintf(name, sizeof name, "%s%s", site->name,
             site->order != site->order_now ? " (weak)" : "");
    fprintf(m.out, "%4d  %-12s %-20s %s:%d  %s%s", m.steps, m.current->is->name, name, site->func,
            site->line, operand, what[0] ? ": " : "");
    va_start(args, what);
    vfprintf(m.out, what, args);
    va_end(args);
    fprintf(m.out, site->note[0] ? "  [%s]\n" : "\n", site->note);
}

/* t reads the store. */
static void observe(struct thread *t, struct location *loc, int at, int order)
{
    int16_t *oldest = &t->now.at[loc->id];

    t->watched |= (uint64_t)1 << loc->id;
    *oldest = *oldest > at ? *oldest : (int16_t)at;
    loc->read_clock[t - m.threads] = t->now.clock[t - m.threads];
    join(order & MODEL_ACQUIRE ? &t->now : &t->seen, &loc->history[at].view);
}

/* t adds a store at the end. after: what a read-modify-write has read, else NULL. */
static void append(struct thread *t, struct location *loc, uint64_t value, int order,
                   const struct store *after)
{
    if (loc->stores == STORES)
        model_fail("more than %d stores to one object", STORES);
    struct store *s = &loc->history[loc->stores];
    t->now.at[loc->id] = (int16_t)loc->stores++;
    poke((void *)loc->address, loc->size, value);
    s->value = peek(loc->address, loc->size);
    s->view = order & MODEL_RELEASE ? t->now : t->fenced;
    if (after)
        join(&s->view, &after->view);
    loc->read_clock[t - m.threads] = t->now.clock[t - m.threads];
    t->now.clock[t - m.threads]++; /* what comes after is not part of what was sent on */
    for (int i = 0; i < m.count; i++) {
        struct thread *other = &m.threads[i];
        if (other->state == WAITING && (other->watched >> loc->id & 1))
            other->state = READY;
    }
}

/* ---- operations ---------------------------------------------------------------------------- */

typedef unsigned long long print_t;

uint64_t model__load(struct model_site *site, const void *p, size_t size)
{
    if (!m.running)
        return peek(p, size);
    struct thread *t = step(site);
    struct location *loc = location_of(p, size, true);
    int newest = loc->stores - 1;
    int at = newest - choose(newest - t->now.at[loc->id] + 1);
    uint64_t value = loc->history[at].value;
    observe(t, loc, at, site->order_now);
    if (m.tracing)
        trace(site, loc, at == newest ? "reads %llu" : "reads %llu, newest is %llu",
              (print_t)value, (print_t)peek(p, size));
    return value;
}

void model__store(struct model_site *site, void *p, size_t size, uint64_t value)
{
    if (!m.running) {
        poke(p, size, value);
        return;
    }
    struct thread *t = step(site);
    struct location *loc = location_of(p, size, true);
    append(t, loc, value, site->order_now, NULL);
    if (m.tracing)
        trace(site, loc, "= %llu", (print_t)loc->history[loc->stores - 1].value);
}

/* In the order of enum model_rmw. */
static uint64_t combine(enum model_rmw how, uint64_t old, uint64_t v)
{
    uint64_t results[] = { old + v, old - v, old & v, old | v, v };

    return results[how];
}

uint64_t model__rmw(struct model_site *site, void *p, size_t size, enum model_rmw how, uint64_t v)
{
    if (!m.running) {
        uint64_t old = peek(p, size);
        poke(p, size, combine(how, old, v));
        return old;
    }
    struct thread *t = step(site);
    if (site->torn) { /* by a control */
        uint64_t old = model__load(site, p, size);
        model__store(site, p, size, combine(how, old, v));
        return old;
    }
    struct location *loc = location_of(p, size, true);
    const struct store *last = &loc->history[loc->stores - 1];
    observe(t, loc, loc->stores - 1, site->order_now);
    append(t, loc, combine(how, last->value, v), site->order_now, last);
    if (m.tracing)
        trace(site, loc, "%llu -> %llu", (print_t)last->value, (print_t)last[1].value);
    return last->value;
}

bool model__cas(struct model_site *site, void *p, size_t size, void *expected, uint64_t value)
{
    uint64_t wanted = peek(expected, size);

    if (!m.running) {
        uint64_t old = peek(p, size);
        poke(old == wanted ? p : expected, size, old == wanted ? value : old);
        return old == wanted;
    }
    struct thread *t = step(site);
    if (site->torn) {
        uint64_t old = model__load(site, p, size);
        if (old == wanted)
            model__store(site, p, size, value);
        poke(expected, size, old);
        return old == wanted;
    }
    struct location *loc = location_of(p, size, true);
    int newest = loc->stores - 1, at = newest, count = 1;
    for (int i = t->now.at[loc->id]; i < newest; i++)
        count += loc->history[i].value != wanted;
    for (int older = choose(count); older > 0; older -= loc->history[at].value != wanted)
        at--;
    const struct store *read = &loc->history[at];
    observe(t, loc, at, site->order_now);
    if (read->value != wanted) {
        poke(expected, size, read->value);
        if (m.tracing)
            trace(site, loc, "is %llu%s, not %llu", (print_t)read->value,
                  at == newest ? "" : " (stale)", (print_t)wanted);
        return false;
    }
    append(t, loc, value, site->order_now, read);
    if (m.tracing)
        trace(site, loc, "%llu -> %llu", (print_t)wanted, (print_t)read[1].value);
    return true;
}

void model__fence(struct model_site *site)
{
    if (!m.running)
        return;
    /* Only an SC fence concerns others: before another one nobody needs to go first. */
    struct thread *t = site->order == MODEL_SEQ_CST ? step(site) : m.current;
    if (site->generation != m.generation)
        site_learn(site);
    if (site->order_now & MODEL_ACQUIRE)
        join(&t->now, &t->seen);
    if (site->order_now == MODEL_SEQ_CST) {
        join_at(&t->now, &m.sc);
        m.sc = t->now;
    }
    if (site->order_now & MODEL_RELEASE)
        t->fenced = t->now;
    t->now.clock[t - m.threads]++;
    if (m.tracing)
        trace(site, NULL, "");
}

void model__data(struct model_site *site, const void *p, size_t size, bool write)
{
    if (!m.running)
        return;
    if (site->generation != m.generation)
        site_learn(site);
    struct thread *t = m.current;
    struct location *loc = location_of(p, size, false);
    int me = (int)(t - m.threads);
    const char *name = loc->name ? loc->name : site->operand;
    if (m.tracing)
        trace(site, loc, "");
    if (loc->write_clock > t->now.clock[loc->writer])
        model_fail("data race: %s %ss %s, written by %s", t->is->name, site->name, name,
                   m.threads[loc->writer].is->name);
    for (int i = 0; write && i < m.count; i++)
        if (loc->read_clock[i] > t->now.clock[i])
            model_fail("data race: %s writes %s, read by %s", t->is->name, name,
                       m.threads[i].is->name);
    if (write) {
        loc->writer = me;
        loc->write_clock = t->now.clock[me];
    } else {
        loc->read_clock[me] = t->now.clock[me];
    }
}

/* The last write to all of it. */
void model__free(struct model_site *site, const void *p, size_t size)
{
    const struct thread *t = m.current;

    if (!m.running)
        return;
    for (int i = 0; i < m.locations; i++) {
        struct location *loc = &m.location[i];
        if (loc->execution != m.execution || (uintptr_t)loc->address - (uintptr_t)p >= size)
            continue;
        if (m.tracing)
            trace(site, loc, "");
        for (int k = 0; k < m.count; k++)
            if (loc->read_clock[k] > t->now.clock[k] ||
                (k == loc->writer && loc->write_clock > t->now.clock[k]))
                model_fail("data race: %s frees %s, used by %s", t->is->name,
                           loc->name ? loc->name : site->operand, m.threads[k].is->name);
    }
    KC_ASSERT(m.frees < FREES);
    m.freed_size[m.frees] = size;
    m.freed[m.frees++] = (uintptr_t)p;
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* A store becomes visible in finite time: who spins has seen all that was there when it gave up,
 * and may be held back until there is more. */
void model__spin(bool begin)
{
    struct thread *t = m.current;
    bool stale = false;

    if (!m.running)
        misused("model %s: waits in setup or check\n", m.result.name);
    for (int i = 0; !begin && i < m.locations; i++) {
        if (!(t->watched >> i & 1))
            continue;
        stale = stale || t->now.at[i] < m.location[i].stores - 1;
        t->now.at[i] = (int16_t)(m.location[i].stores - 1);
    }
    if (!begin) {
        t->state = stale ? READY : WAITING;
        t->yields = true;
        schedule();
    }
    t->yields = false;
    t->watched = 0;
}

void model__block(struct model_site *site, const void *p, size_t size, uint64_t expected)
{
    if (!m.running)
        misused("model %s: waits in setup or check\n", m.result.name);
    struct thread *t = step(site);
    struct location *loc = location_of(p, size, true);
    uint64_t value = loc->history[loc->stores - 1].value;
    if (m.tracing)
        trace(site, loc, value == expected ? "%llu: sleeps" : "%llu: goes on", (print_t)value);
    if (value != expected)
        return;
    t->block_on = p;
    t->state = BLOCKED;
    schedule();
}

void model__wake(struct model_site *site, const void *p, int n)
{
    if (!m.running)
        return;
    step(site);
    for (; n > 0; n--) {
        struct thread *asleep[THREADS] = { 0 };
        int count = 0;
        for (int i = 0; i < m.count; i++)
            if (m.threads[i].state == BLOCKED && m.threads[i].block_on == p)
                asleep[count++] = &m.threads[i];
        if (count == 0)
            break;
        struct thread *t = asleep[choose(count)];
        t->state = READY;
        if (m.tracing)
            trace(site, location_find(p), "wakes %s", t->is->name);
    }
}

/* ---- exploration --------------------------------------------------------------------------- */

void model_name(const void *p, const char *name)
{
    location_find(p)->name = name;
}

static void execution_reset(void)
{
    static const struct view nothing;

    m.execution++;
    /* AddressSanitizer gives frames, and what lies in them, other addresses each time. */
    if (!m.prunes && m.locations > LOCATIONS / 2) {
        m.locations = 0;
        memset(m.slots, 0, sizeof m.slots);
    }
    m.steps = m.depth = m.preempted = m.frees = 0;
    m.sc = nothing;
    for (int i = 0; i < m.count; i++) {
        struct thread *t = &m.threads[i];
        t->state = READY;
        t->yields = t->started = false;
        t->watched = 0;
        t->now = t->seen = t->fenced = nothing;
        t->now.clock[i] = 1;
    }
}

static void execute(void)
{
    if (m.prunes)
        data_keep();
    m.cut = false;
    execution_reset();
    for (int i = 0; !m.fibers_made && i < m.count; i++)
        fiber_make(&m.threads[i].fiber, &m.main, stacks[i], STACK_SIZE, thread_main);
    m.fibers_made = true;
    m.inside = true;
    if (_setjmp(m.outside) == 0) {
        if (m.setup)
            m.setup();
        if (m.prunes && m.spans == 0)
            data_remember();
        m.running = true;
        m.current = NULL;
        schedule();
        m.running = false;
        if (m.check && !m.result.failed && !m.cut)
            m.check();
    }
    m.inside = false;
    if (m.depth < m.length)
        misused(ANOTHER_RUN, m.result.name);
}

/* Runs the schedule that the choices hold once more and says what happens. */
static void execute_traced(void)
{
    m.tracing = true;
    m.generation++;
    m.result.failed = false;
    fprintf(m.out, "model %s, step by step:\n", m.result.name);
    execute();
    choices_print(m.result.schedule, sizeof m.result.schedule);
    fprintf(m.out, "      %s\n", m.result.failed ? m.result.why : "passes");
    fprintf(m.out, "      again: MODEL_REPLAY=%s:%s\n", m.result.name, m.result.schedule);
    m.tracing = false;
}

static void prepare(const struct model_options *options, const struct model_thread *threads,
                    int count)
{
    static const char *const orders[] = { "relaxed", "acquire", "release", "acq_rel", "torn" };
    const char *id = options->weaken.id;

    m.options = *options;
    memset(&m.result, 0, sizeof m.result);
    snprintf(m.result.name, sizeof m.result.name, id ? "%s-%s-%s" : "%s", options->name, id,
             orders[options->weaken.to == MODEL_TORN ? 4 : options->weaken.to & MODEL_ACQ_REL]);
    m.bound = options->preemptions ? options->preemptions : 3;
    if ((kc_test_under_asan() || kc_test_under_emulation()) && (unsigned)m.bound > SLOW_BOUND)
        m.bound = SLOW_BOUND;
    m.result.preemptions = m.bound;
    m.max_steps = options->max_steps ? options->max_steps : 1000;
    m.out = getenv("MODEL_TRACE") ? stdout : stderr; /* the harness shows stderr of failures */
    m.generation++;
    m.count = count;
    m.length = m.locations = 0;
    memset(m.slots, 0, sizeof m.slots);
    m.fibers_made = false;
    if (count < 1 || count > THREADS || m.max_steps > INT16_MAX)
        misused("model %s: not 1 to %d threads, or too many steps\n", m.result.name, THREADS);
    for (int i = 0; i < count; i++)
        m.threads[i].is = &threads[i];
}

/* The schedule given for this model, or NULL. */
static const char *replay_given(void)
{
    const char *given = getenv("MODEL_REPLAY");
    size_t n = strlen(m.result.name);

    if (m.options.replay || !given || strncmp(given, m.result.name, n) != 0 || given[n] != ':')
        return m.options.replay;
    m.out = stdout;
    return given + n + 1;
}

struct model_result model_explore(struct model_options options, const struct model_thread *threads,
                                  int count, void (*setup)(void), void (*check)(void))
{
    uint64_t most = options.max_executions ? options.max_executions : 20000000;
    clock_t start = clock();

    if (kc_test_under_tsan() || kc_test_under_valgrind())
        SKIP("the model checker's stacks are not announced to this tool");
    prepare(&options, threads, count);
    m.setup = setup;
    m.check = check;
    const char *replay = replay_given();
    if (replay) {
        choices_parse(replay);
        m.result.preemptions = m.bound;
        m.result.replayed = true;
        m.result.executions = 1;
        execute_traced();
        return m.result;
    }
    prune_begin(!kc_test_under_asan() && !options.all && !getenv("MODEL_ALL"));
    do {
        execute();
        m.result.executions++;
        m.result.exhausted = !m.result.failed && !choices_advance();
    } while (!m.result.failed && !m.result.exhausted && m.result.executions < most);
    prune_end();
    m.result.seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    choices_print(m.result.schedule, sizeof m.result.schedule);
    if (m.result.failed && (!options.quiet || getenv("MODEL_TRACE")))
        execute_traced();
    return m.result;
}
