/* SPDX-License-Identifier: MIT */
/*
 * slot.c - slots: handlers, filters, chains, and the waiting for handlers that run.
 *
 * WHAT     The fields of a slot that an emit reads change under the lock of its signal. A call that
 *          removes a handler or a slot first unlinks it, so that no run can begin, and then waits
 *          for the visits that say they run it. The wait is a futex on the signal's count of ended
 *          runs: a thread that ends a run and sees a waiter counts the run. slot.h has the picture
 *          and the rules.
 *
 *          Chains make a graph of signals without loops. Two chains that close a loop together
 *          could be made at the same time: so they are made and taken away under one lock for all,
 *          the topology's. It also keeps the graph still while it is searched.
 */
#include "signal/slot.h"

#include "base/os.h"
#include "signal/handler.h"

#include <errno.h>

static kc_lock_t topology;   /* who chains whom */
static uint64_t last_search; /* T */

/* ---- runs of handlers, and waiting for their end --------------------------------------------- */

static bool is_running(const struct kc_visit *v, const kc_slot_t *slot, kc_sigset_t bits)
{
    return v->slot == slot && (v->running & bits);
}

/* Marks the visits in which this thread runs a handler of the slot. True: there are any. */
static bool mark_inside(kc_signal_t *s, const kc_slot_t *slot, uint64_t waits)
{
    const struct kc_handler_state *me = kc__handler_state();
    bool inside = false;

    for (struct kc_visit *v = s->visits; v; v = v->after) {
        if (v->thread == me && is_running(v, slot, KC_SIG_ALL)) {
            v->waits = waits;
            inside = true;
        }
    }
    return inside;
}

static bool must_wait(kc_signal_t *s, const kc_slot_t *slot, kc_sigset_t bits, uint64_t since,
                      bool inside)
{
    const struct kc_handler_state *me = kc__handler_state();

    for (struct kc_visit *v = s->visits; v; v = v->after) {
        bool waits_longer = v->waits != 0 && v->waits < since;
        if (v->thread != me && is_running(v, slot, bits) && v->began < since &&
            !(inside && waits_longer)) /* R4 */
            return true;
    }
    return false;
}

/* Waits until no other thread runs one of these handlers of the slot, as far as it has begun to by
 * now (R3). Of the slot only the address is used. Called with the lock, and returns with it. */
static void wait_for_runs(kc_signal_t *s, const kc_slot_t *slot, kc_sigset_t bits)
{
    uint64_t since = ++s->clock;
    bool inside;

    if (!s->visits)
        return;
    inside = mark_inside(s, slot, since);
    while (must_wait(s, slot, bits, since, inside)) {
        uint32_t seen = kc_load_relaxed(&s->ended);
        s->waiters++;
        kc__unlock(&s->lock);
        kc__os_wait(&s->ended, seen, INT64_MAX);
        kc__lock(&s->lock);
        s->waiters--;
    }
    if (inside)
        mark_inside(s, slot, 0);
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* The signal of a bound slot. */
static kc_signal_t *bound(const char *call, const kc_slot_t *slot)
{
    if (!slot)
        kc__usage(call, "the slot is NULL " KC_RULE("G4"));
    if (!slot->signal)
        kc__usage(call, "the slot is not bound " KC_RULE("G4"));
    return kc__signal_live(call, slot->signal);
}

int kc_slot_bind(kc_slot_t *slot, kc_signal_t *s, kc_sigset_t filter)
{
    if (!slot || !s)
        return -EINVAL;
    *slot = (kc_slot_t){ .signal = kc__signal_ref(kc__signal_live("kc_slot_bind", s)),
                         .filter = filter };
    slot->handlers = &slot->first;
    kc__lock(&s->lock);
    slot->late = kc_load_relaxed(&s->state) & KC_SIG_TERMINATE;
    slot->older = s->slots;
    if (slot->older)
        slot->older->newer = slot;
    s->slots = slot;
    kc__unlock(&s->lock);
    return 0;
}

/* Takes the slot out of the list, and every visit off it. */
static void unlink_slot(kc_signal_t *s, kc_slot_t *slot)
{
    if (slot->newer)
        slot->newer->older = slot->older;
    else
        s->slots = slot->older;
    if (slot->older)
        slot->older->newer = slot->newer;
    for (struct kc_visit *v = s->visits; v; v = v->after) {
        if (v->next == slot)
            v->next = slot->older;
        if (v->slot == slot)
            v->gone = true;
    }
}

/* Nobody is to know the address any more: it may be another slot's soon. */
static void forget_slot(kc_signal_t *s, const kc_slot_t *slot)
{
    for (struct kc_visit *v = s->visits; v; v = v->after)
        if (v->slot == slot)
            v->slot = NULL;
}

static void unlink_edges(struct kc_slot_chain *chain)
{
    for (; chain; chain = chain->next) {
        *chain->link = chain->after;
        if (chain->after)
            chain->after->link = chain->link;
        chain->to->targeted--;
    }
}

static void free_parts(struct kc_slot_handler *heap, struct kc_slot_chain *chain)
{
    while (heap) {
        struct kc_slot_handler *next = heap->next;
        kc__free(heap);
        heap = next;
    }
    while (chain) {
        struct kc_slot_chain *next = chain->next;
        kc__signal_unref(chain->to);
        kc__free(chain);
        chain = next;
    }
}

void kc_slot_unbind(kc_slot_t *slot)
{
    if (!slot)
        kc__usage("kc_slot_unbind", "the slot is NULL " KC_RULE("G4"));
    if (!slot->signal)
        return;
    kc_signal_t *s = kc__signal_live("kc_slot_unbind", slot->signal);
    struct kc_slot_chain *chains = slot->chains; /* only the slot's task adds any */
    if (chains) {
        kc__lock(&topology);
        unlink_edges(chains);
        kc__unlock(&topology);
    }
    kc__lock(&s->lock);
    unlink_slot(s, slot);
    wait_for_runs(s, slot, KC_SIG_ALL);
    forget_slot(s, slot);
    kc__unlock(&s->lock);
    free_parts(slot->first.next, chains);
    slot->signal = NULL;
    slot->chains = NULL;
    kc__signal_unref(s);
}

static struct kc_slot_handler *find_handler(kc_slot_t *slot, kc_sigset_t bit)
{
    struct kc_slot_handler *h = slot->handlers;

    while (h && h->bit != bit)
        h = h->next;
    return h;
}

/* R1. True: it has come already. */
static bool has_come(kc_signal_t *s, const kc_slot_t *slot, kc_sigset_t bit)
{
    return kc_load_relaxed(&s->state) & slot->filter & bit & KC_SIG_ONCE;
}

/* Sets the handler, if there is a record to put it in: *spare, or one of the slot's. Returns true
 * when all is done and *ok says how; false: without a record it cannot be. */
static bool set_handler(kc_slot_t *slot, const struct kc_slot_handler *want,
                        struct kc_slot_handler **spare, bool *ok)
{
    kc_signal_t *s = slot->signal;

    kc__lock(&s->lock);
    struct kc_slot_handler *h = find_handler(slot, want->bit);
    bool replaces = h != NULL;
    if (!h)
        h = find_handler(slot, 0);
    *ok = !has_come(s, slot, want->bit);
    if (*ok && !h && *spare) {
        h = *spare;
        *spare = NULL;
        h->next = slot->first.next;
        slot->first.next = h;
    }
    bool done = !*ok || h;
    if (*ok && h) {
        h->bit = want->bit;
        h->fn = want->fn;
        h->arg = want->arg;
        if (replaces)
            wait_for_runs(s, slot, want->bit);
    }
    kc__unlock(&s->lock);
    return done;
}

bool kc_slot_on(kc_slot_t *slot, kc_sigset_t bit, kc_slot_fn_t fn, void *arg)
{
    struct kc_slot_handler want = { NULL, bit, fn, arg }, *spare = NULL;
    bool ok;

    if (!slot)
        return false;
    bound("kc_slot_on", slot);
    if (bit == 0 || (bit & (bit - 1)) != 0)
        kc__usage("kc_slot_on", "a handler is for exactly one bit " KC_RULE("G2"));
    if (!fn)
        kc__usage("kc_slot_on", "the handler is NULL " KC_RULE("G2"));
    while (!set_handler(slot, &want, &spare, &ok)) {
        spare = kc__alloc(sizeof *spare);
        if (!spare)
            return false;
    }
    kc__free(spare);
    return ok;
}

bool kc_slot_clear(kc_slot_t *slot, kc_sigset_t bit)
{
    bool had = false;

    if (!slot || !slot->signal)
        return false;
    kc_signal_t *s = kc__signal_live("kc_slot_clear", slot->signal);
    kc__lock(&s->lock);
    for (struct kc_slot_handler *h = slot->handlers; h; h = h->next) {
        if (h->bit & bit) {
            h->bit = 0;
            had = true;
        }
    }
    wait_for_runs(s, slot, bit);
    kc__unlock(&s->lock);
    return had;
}

bool kc_slot_triggered(const kc_slot_t *slot, kc_sigset_t bits)
{
    return slot && (kc_signal_state(bound("kc_slot_triggered", slot)) & slot->filter & bits);
}

kc_sigset_t kc_slot_filter(const kc_slot_t *slot)
{
    bound("kc_slot_filter", slot);
    return slot->filter;
}

void kc_slot_filter_push(kc_slot_t *slot, kc_slot_filter_t *guard, kc_sigset_t filter)
{
    kc_signal_t *s = bound("kc_slot_filter_push", slot);

    if (!guard)
        kc__usage("kc_slot_filter_push", "the guard is NULL " KC_RULE("G2"));
    kc__lock(&s->lock);
    *guard = (kc_slot_filter_t){ slot->filters, slot->filter };
    slot->filters = guard;
    slot->filter &= filter;
    kc__unlock(&s->lock);
}

void kc_slot_filter_pop(kc_slot_t *slot, kc_slot_filter_t *guard)
{
    if (!slot)
        kc__usage("kc_slot_filter_pop", "the slot is NULL " KC_RULE("G4"));
    if (!slot->signal)
        return;
    kc_signal_t *s = kc__signal_live("kc_slot_filter_pop", slot->signal);
    if (!guard || slot->filters != guard)
        kc__usage("kc_slot_filter_pop", "the guard is not the slot's innermost " KC_RULE("G2"));
    kc__lock(&s->lock);
    slot->filters = guard->outer;
    slot->filter = guard->before;
    kc__unlock(&s->lock);
}

kc_signal_t *kc_slot_signal(const kc_slot_t *slot)
{
    return !slot || slot->late ? NULL : slot->signal;
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* True if a chain from `from` to `to` would close a loop. Under the topology's lock no edge goes,
 * and edges keep what they lead to alive. */
static bool find_loop(const kc_signal_t *from, kc_signal_t *to)
{
    if (from == to)
        return true;
    if (from->targeted == 0)
        return false; /* nothing leads here: a signal that is new, most of the time */
    uint64_t search = ++last_search;
    kc_signal_t *todo = to;
    to->searched = search;
    to->search = NULL;
    while (todo) {
        kc_signal_t *s = todo;
        todo = s->search;
        for (struct kc_slot_chain *edge = s->edges; edge; edge = edge->after) {
            if (edge->to == from)
                return true;
            if (edge->to->searched == search)
                continue;
            edge->to->searched = search;
            edge->to->search = todo;
            todo = edge->to;
        }
    }
    return false;
}

static void link_edge(kc_signal_t *from, struct kc_slot_chain *edge)
{
    edge->after = from->edges;
    edge->link = &from->edges;
    if (edge->after)
        edge->after->link = &edge->after;
    from->edges = edge;
    edge->to->targeted++;
}

int kc_slot_chain(kc_slot_t *slot, kc_signal_t *to)
{
    if (!slot || !slot->signal || !to)
        return -EINVAL;
    kc_signal_t *s = kc__signal_live("kc_slot_chain", slot->signal);
    kc__signal_live("kc_slot_chain", to);
    struct kc_slot_chain *chain = kc__alloc(sizeof *chain);
    if (!chain)
        return -ENOMEM;
    kc__lock(&topology);
    if (find_loop(s, to)) {
        kc__unlock(&topology);
        kc__free(chain);
        return -ELOOP;
    }
    chain->to = kc__signal_ref(to);
    link_edge(s, chain);
    kc__unlock(&topology);
    kc__lock(&s->lock); /* R1: the chain and the look at the state are one step */
    chain->next = slot->chains;
    slot->chains = chain;
    kc_sigset_t before = kc_load_relaxed(&s->state) & slot->filter & KC_SIG_ONCE;
    kc__unlock(&s->lock);
    kc_signal_emit(to, before);
    return 0;
}
