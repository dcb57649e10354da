/* SPDX-License-Identifier: MIT */
/*
 * prune.h - states that were met before: what follows from them has been seen, or will be.
 *
 * WHAT     At each choice that is met for the first time the state is looked up in a table of
 *          hashes. If it is there, the execution is cut: all that can follow was walked from the
 *          place where it was met first. A state that was met with more preemptions spent than now
 *          is walked again, as more can follow now.
 *
 * SHAPE    A state is everything on which the rest of an execution depends:
 *
 *            threads   stack from its lowest frame up, and registers, as setjmp has saved them
 *            data      all of .data and .bss, but for what is the checker's
 *            memory    the simulated one: values that can still be read, views, clocks
 *            who runs, waits for what, spins; what was freed
 *
 *          and what is not in there, and need not be: thread-local variables, which the model's
 *          enters sets at each switch; the steps and the choices so far, whose limits only find
 *          runs that do not end: a state that is met again on its own way is not cut, so a cycle
 *          still runs into that limit.
 *
 *          Views and clocks are brought into one form: what is below that which every thread knows
 *          already says nothing, and the rest counts from there. Stacks are taken as they are, with
 *          what is dead in them: at worst two states that are the same seem to be different.
 *
 *          The data is some 100 KB, of which a model changes little. So only those lines of it are
 *          hashed that some execution has changed, and each time the rest is compared with what it
 *          was in the beginning. A line that turns out to have changed is hashed from then on, by a
 *          new seed: no state from before is found again.
 *
 * LIMITS   Two states with one hash of 64 bits: of 4 million, one in 2 million times. Nothing that
 *          a model changes may lie elsewhere: on the heap, or on the stack of who explores it.
 *          AddressSanitizer has locals elsewhere: there nothing is cut.
 *
 * Included by model.c alone.
 */
#ifndef KC_TEST_MODEL_PRUNE_H
#define KC_TEST_MODEL_PRUNE_H

#include "inside.h"

#include <string.h>

extern char __data_start[], _end[];                      /* the linker's */
extern char __start_model_sites[], __stop_model_sites[]; /* ... */

/* ---- hashes -------------------------------------------------------------------------------- */

static inline uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

/* Four at a time, which do not wait for each other. */
static uint64_t mix_bytes(uint64_t h, const void *p, size_t size)
{
    const char *at = p;
    uint64_t lane[4] = { h, h + 1, h + 2, h + 3 }, word[4];

    for (; size >= sizeof word; at += sizeof word, size -= sizeof word) {
        memcpy(word, at, sizeof word);
        for (int i = 0; i < 4; i++)
            lane[i] = mix(lane[i], word[i]);
    }
    memset(word, 0, sizeof word);
    memcpy(word, at, size);
    for (int i = 0; i < 4; i++)
        h = mix(mix(h, lane[i]), word[i]);
    return h;
}

/* ---- plain data ---------------------------------------------------------------------------- */

static void span_add(char *from, const char *was, size_t size)
{
    if (size == 0)
        return;
    if (m.spans == SPANS)
        m.prunes = false;
    else
        m.span[m.spans++] = (struct span){ from, was, size };
}

/* Takes a line out of the k-th span. */
static void span_split(int k, size_t at)
{
    struct span s = m.span[k];

    m.span[k].size = at;
    span_add(s.from + at + LINE, s.was + at + LINE, s.size - at - LINE);
    if (m.lines == LINES) {
        m.prunes = false;
        return;
    }
    m.line[m.lines] = s.from + at;
    memcpy(m.kept[m.lines++], s.was + at, LINE);
}

/* Looks for lines that have changed for the first time. */
static void data_look(void)
{
    for (int k = 0; m.prunes && k < m.spans; k++)
        while (m.prunes && memcmp(m.span[k].from, m.span[k].was, m.span[k].size) != 0) {
            size_t at = 0;
            while (memcmp(m.span[k].from + at, m.span[k].was + at, LINE) == 0)
                at += LINE;
            span_split(k, at);
        }
}

/* Before an execution: what it changes can be put back. After one that was cut it has been. */
static void data_keep(void)
{
    if (m.cut)
        return;
    data_look();
    for (int i = 0; i < m.lines; i++)
        memcpy(m.kept[i], m.line[i], LINE);
}

static void data_put_back(void)
{
    for (int i = 0; i < m.lines; i++)
        memcpy(m.line[i], m.kept[i], LINE);
}

static bool is_the_checkers(const char *line)
{
    const struct {
        const char *from, *to;
    } ours[] = { { (char *)&m, (char *)(&m + 1) },
                 { stacks[0], stacks[THREADS] },
                 { __start_model_sites, __stop_model_sites } };
    bool is = false;

    for (int i = 0; i < 3; i++)
        is = is || (line >= ours[i].from && line + LINE <= ours[i].to);
    return is;
}

/* The first setup has run: this is how the data is at the start. */
static void data_remember(void)
{
    static char *copy;
    char *from = (char *)((uintptr_t)__data_start & ~(uintptr_t)(LINE - 1));
    size_t size = ((size_t)(_end - from) + LINE - 1) & ~(size_t)(LINE - 1), at = 0;
    char *kept = copy ? copy : malloc(size);

    if (!kept)
        misused("model %s: no memory\n", m.result.name);
    copy = kept;
    while (at < size) {
        size_t begin = at;
        while (at < size && !is_the_checkers(from + at))
            at += LINE;
        memcpy(kept + begin, from + begin, at - begin);
        span_add(from + begin, kept + begin, at - begin);
        while (at < size && is_the_checkers(from + at))
            at += LINE;
    }
}

/* ---- the simulated memory ------------------------------------------------------------------ */

/* What every thread that goes on knows already. */
static void view_base(struct view *base)
{
    bool first = true;

    memset(base, 0, sizeof *base);
    for (int k = 0; k < m.count; k++) {
        const struct view *now = &m.threads[k].now;
        if (m.threads[k].state == FINISHED)
            continue;
        for (int i = 0; i < m.locations; i++)
            base->at[i] = first || now->at[i] < base->at[i] ? now->at[i] : base->at[i];
        for (int i = 0; i < m.count; i++)
            base->clock[i] =
                first || now->clock[i] < base->clock[i] ? now->clock[i] : base->clock[i];
        first = false;
    }
}

static int16_t above(int16_t value, int16_t base)
{
    return value > base ? (int16_t)(value - base) : 0;
}

static uint64_t mix_view(uint64_t h, const struct view *v, const struct view *base)
{
    int16_t normal[LOCATIONS + THREADS];
    int n = (m.locations + 3) & ~3;

    for (int i = 0; i < n; i++)
        normal[i] = above(v->at[i], base->at[i]);
    for (int i = 0; i < THREADS; i++)
        normal[n + i] = above(v->clock[i], base->clock[i]);
    return mix_bytes(h, normal, (size_t)(n + THREADS) * sizeof normal[0]);
}

static uint64_t mix_location(uint64_t h, const struct location *loc, const struct view *base)
{
    int16_t write = above(loc->write_clock, base->clock[loc->writer]);

    if (loc->execution != m.execution)
        return mix(h, 0);
    h = mix(h, (uint64_t)loc->size << 8 | (loc->stores > 0));
    h = mix(h, (uint64_t)write << 8 | (uint64_t)(write ? loc->writer : 0));
    for (int i = 0; i < m.count; i++)
        h = mix(h, (uint64_t)above(loc->read_clock[i], base->clock[i]));
    for (int i = base->at[loc->id]; i < loc->stores; i++)
        h = mix_view(mix(h, loc->history[i].value), &loc->history[i].view, base);
    return mix(h, 1);
}

static uint64_t mix_memory(uint64_t h, const struct view *base)
{
    uint64_t freed = 0;

    for (int i = 0; i < m.locations; i++)
        h = mix_location(h, &m.location[i], base);
    for (int i = 0; i < m.frees; i++) /* in any order */
        freed += mix(m.freed[i], m.freed_size[i]);
    return mix_view(mix(h, freed), &m.sc, base);
}

/* ---- threads ------------------------------------------------------------------------------- */

/* low: below all that its frames hold. */
static uint64_t mix_thread(uint64_t h, int i, const char *low, const struct view *base)
{
    const struct thread *t = &m.threads[i];
    const char *top = stacks[i] + STACK_SIZE;

    h = mix(h, (uint64_t)t->state << 2 | (uint64_t)t->yields << 1 | t->started);
    if (t->state == FINISHED)
        return h;
    h = mix(mix(h, t->watched), t->state == BLOCKED ? (uintptr_t)t->block_on : 0);
    h = mix_view(mix_view(mix_view(h, &t->now, base), &t->seen, base), &t->fenced, base);
    if (!t->started)
        return h;
    if (t != m.current)
        h = mix_bytes(h, t->fiber.env, sizeof t->fiber.env);
    return mix_bytes(h, low, (size_t)(top - low));
}

/* Of where the current thread is. Apart, so that its registers are in env or in frames above. */
static KC_NOINLINE uint64_t state_hash(void)
{
    struct view base;
    uint64_t h = mix_bytes((uint64_t)m.lines, m.env, sizeof m.env);

    view_base(&base);
    h = mix_memory(mix(h, (uint64_t)(m.current - m.threads)), &base);
    for (int i = 0; i < m.count; i++)
        h = mix_thread(h, i, &m.threads[i] == m.current ? m.low : m.threads[i].fiber.low, &base);
    for (int i = 0; i < m.lines; i++)
        h = mix_bytes(h, m.line[i], LINE);
    return h ? h : 1;
}

/* ---- the table ----------------------------------------------------------------------------- */

static struct state *state_find(uint64_t hash)
{
    size_t at = hash >> 32;

    while (m.states[at % STATES].hash && m.states[at % STATES].hash != hash)
        at++;
    return &m.states[at % STATES];
}

static KC_NOINLINE bool state_look_up(void)
{
    int preempted = m.bound == MODEL_UNBOUNDED ? 0 : m.preempted;

    data_look();
    uint64_t hash = state_hash();
    struct state *known = state_find(hash);
    if (known->hash && known->preempted <= preempted) /* unless it goes round in a cycle */
        return known->depth >= m.depth || m.choices[known->depth].state != hash;
    if (!known->hash && ++m.known > STATES / 4 * 3)
        m.prunes = false;
    m.choices[m.depth].state = hash;
    *known = (struct state){ hash, preempted, m.depth };
    return false;
}

/* A choice is met for the first time. True: what follows need not be walked. Of what is below this
 * frame, and may hold anything, nothing is hashed. */
static KC_NOINLINE bool state_is_known(void)
{
    if (!m.prunes || !m.current)
        return false;
    m.low = fiber_here();
    _setjmp(m.env);
    return state_look_up();
}

/* The execution ends here, and the threads with it: they start anew in the next one. Setup may rely
 * on what an execution leaves at its end, so all is as if this one had not been. */
_Noreturn static void execution_cut(void)
{
    m.cut = true;
    data_put_back();
    for (int i = 0; i < m.count; i++) {
        struct thread *t = &m.threads[i];
        if (t == m.current || (t->started && t->state != FINISHED))
            memcpy(t->fiber.env, t->home, sizeof t->home);
    }
    fiber_abandon(&m.main);
}

static void prune_begin(bool wanted)
{
    m.spans = m.lines = m.known = 0;
    m.prunes = wanted;
    m.cut = false;
    m.states = wanted ? calloc(STATES, sizeof *m.states) : NULL;
    if (wanted && !m.states)
        misused("model %s: no memory\n", m.result.name);
}

static void prune_end(void)
{
    free(m.states);
    m.states = NULL;
    m.prunes = false;
}

#endif
