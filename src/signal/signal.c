/* SPDX-License-Identifier: MIT */
/*
 * signal.c - signals, and emitting: the walk from slot to slot and from signal to signal.
 *
 * WHAT     A signal is a word of triggered bits and a list of slots under a small lock. An emit
 *          sets the bits, then walks the list; the lock is free while a handler runs. Slots, and
 *          the signal itself, may go away meanwhile: so the emit keeps its place in a visit, which
 *          the signal knows, and the unbind of a slot moves the visits that stand at it (slot.h has
 *          the picture and the rules).
 *
 * SHAPE    An emit is a walk over the graph of chains, depth first, with room for DEPTH visits.
 *          What lies deeper is put into a queue that runs through the signals themselves:
 *
 *              at[0] -> at[1] -> ... -> at[DEPTH - 1]      queue: signal -> signal -> ...
 *              each walks one signal's slots                later starts again as at[0]
 *
 *          A signal is in at most one queue. If it is in another emit's, or in that of an emit
 *          further out on this thread, the bits are added to those that wait there: two emits
 *          become one (G7). Chains up to DEPTH signals deep never meet the queue.
 *
 *          The bits of a cancel inside a handler are set at once, but the slots are told by the
 *          emit that runs the handler, when the handler has returned; until then the bits are
 *          `late`. So a chain of handlers that cancel is a loop, and takes no more stack than one
 *          handler (S16).
 *
 *          An owner (a job) is asked before TERMINATE, without a lock. It answers by
 *          kc__signal_tell, which tells the slots at once, and leaves the chains to the queue of
 *          the emit that asked (kc_handler_state.work): so owners chained to owners do not nest.
 *
 * ORDER    id        site     operation      pairs with  carries; what breaks if weaker
 *          signal.1  state    store_release  signal.2    what the emitter wrote before; a caller
 *                                                        that asks for the bit reads old data
 *          signal.2  state    load_acquire   signal.1    as signal.1
 *          signal.3  release  sub_acq_rel    signal.3    all uses before the free
 *
 * PROGRESS An emit at n slots takes O(n) steps and no memory, and no more stack for a deep graph
 *          than for a flat one.
 * WHY NOT  Waiting for the other emit instead of merging: it may run a handler that waits for one
 *          of ours. A room for visits without limit: it would have to be allocated.
 */
#include "signal/handler.h"
#include "signal/slot.h"

enum { DEPTH = 8, SLOTS_AT_ONCE = 64 };

/* One call of emit. */
struct kc_emit {
    struct kc_emit *outer;     /* I  whose cancel has called us; NULL: none  */
    int depth;                 /* E                                          */
    kc_signal_t *first, *last; /* E  the queue                               */
    struct kc_visit at[DEPTH]; /* E  the first `depth` are in use            */
};

/* ---- references ------------------------------------------------------------------------------ */

void kc__signal_unref(kc_signal_t *s)
{
    kc__tsan_release(s);
    if (kc_sub_acq_rel(&s->block.flags, 1) != 1) /* signal.3 */
        return;
    KC_ASSERT(!s->slots && !s->visits && !s->edges && !s->targeted && !s->pending && !s->late);
    kc__free(s->data);
    kc__object_put(&s->block);
}

/* ---- emit ------------------------------------------------------------------------------------ */

/* The handler that v ran, if it did, has returned. True: after unlocking, wake who waits. */
static bool end_run(struct kc_visit *v)
{
    kc_signal_t *s = v->signal;

    if (!v->running)
        return false;
    v->running = 0;
    v->waits = 0;
    if (s->waiters == 0)
        return false;
    kc_add_relaxed(&s->ended, 1);
    return true;
}

/* R2: no lock is held here. Within the handler an emit is one of its own (work). */
static void run(struct kc_emit *e, const struct kc_visit *v, kc_slot_fn_t fn, void *arg)
{
    struct kc_handler_state *me = v->thread;
    struct kc_emit *work = me->work, *calls = me->calls;

    me->work = NULL;
    me->calls = e;
    kc__handler_begin(me);
    fn(v->set, v->signal, arg);
    kc__handler_end(me);
    me->calls = calls;
    me->work = work;
}

/* Under its lock: triggers bits. Returns those that are new. */
static kc_sigset_t trigger(kc_signal_t *s, kc_sigset_t bits)
{
    kc_sigset_t state = kc_load_relaxed(&s->state), fired = bits & ~(state & KC_SIG_ONCE);

    kc__tsan_release(&s->lock);
    kc_store_release(&s->state, state | fired); /* signal.1 */
    return fired;
}

/* Has `to` told later. late: triggered already. Takes the reference. R5. */
static void enqueue(struct kc_emit *e, kc_signal_t *to, kc_sigset_t bits, kc_sigset_t late)
{
    kc__lock(&to->lock);
    bool merged = (to->pending | to->late) != 0;
    to->pending |= bits;
    to->late |= late;
    if (!merged)
        to->block.link.next = NULL;
    kc__unlock(&to->lock);
    if (merged) {
        kc__signal_unref(to);
        return;
    }
    if (e->first)
        e->last->block.link.next = &to->block.link;
    else
        e->first = to;
    e->last = to;
}

/* What a signal has waited for in a queue. */
struct turn {
    kc_signal_t *signal;               /* with a reference; NULL: the queue is empty */
    kc_sigset_t bits;                  /* to be triggered                            */
    kc_sigset_t late;                  /* triggered already, to be told              */
    const struct kc_signal_owner *ops; /* whose owner waits until they are told; NULL: none */
    void *owner;
};

static struct turn dequeue(struct kc_emit *e)
{
    kc_signal_t *s = e->first;

    if (!s)
        return (struct turn){ 0 };
    kc_mpsc_node_t *next = s->block.link.next;
    e->first = next ? kc_container_of(kc_container_of(next, kc_block_t, link), kc_signal_t, block)
                    : NULL; /* before somebody else may enqueue it */
    kc__lock(&s->lock);
    struct turn turn = { s, s->pending, s->late, s->late ? s->ops : NULL, s->owner };
    s->pending = s->late = 0;
    kc__unlock(&s->lock);
    return turn;
}

/* Asks the owner to cancel. True: it was cancelled by this. Called with the lock, and returns
 * without (R2). */
static bool ask_owner(struct kc_emit *e, kc_signal_t *s)
{
    const struct kc_signal_owner *ops = s->ops;
    struct kc_handler_state *me = kc__handler_state();
    struct kc_emit *work = me->work;

    ops->pin(s->owner);
    kc__unlock(&s->lock);
    me->work = me->calls ? NULL : e->outer ? e->outer : e;
    bool first = ops->cancel(s->owner);
    me->work = work;
    ops->unpin(s->owner);
    return first;
}

static void add_visit(struct kc_emit *e, kc_signal_t *s, kc_sigset_t fired)
{
    KC_ASSERT(e->depth < DEPTH);
    struct kc_visit *v = &e->at[e->depth++];
    *v = (struct kc_visit){ .signal = s, .thread = kc__handler_state(), .fired = fired };
    v->next = s->slots;
    v->after = s->visits;
    v->link = &s->visits;
    if (v->after)
        v->after->link = &v->after;
    s->visits = v;
}

/* Triggers bits, and begins a visit if there is anybody to tell. TERMINATE is for the owner to
 * decide. late: triggered already, and not told yet. Takes the reference. */
static kc_sigset_t begin(struct kc_emit *e, kc_signal_t *s, kc_sigset_t bits, kc_sigset_t late)
{
    kc_sigset_t cancelled = KC_SIG_NONE;

    kc__lock(&s->lock);
    if ((bits & KC_SIG_TERMINATE) && s->ops) {
        if (ask_owner(e, s))
            cancelled = KC_SIG_TERMINATE;
        bits &= ~KC_SIG_TERMINATE;
        kc__lock(&s->lock);
    }
    kc_sigset_t fired = trigger(s, bits);
    bool visits = (fired | late) && s->slots;
    if (visits)
        add_visit(e, s, fired | late);
    kc__unlock(&s->lock);
    if (!visits)
        kc__signal_unref(s);
    return fired | cancelled;
}

static void forward(struct kc_emit *e, kc_signal_t *to, kc_sigset_t bits)
{
    if (e->outer)
        enqueue(e->outer, to, bits, KC_SIG_NONE);
    else if (e->depth == DEPTH)
        enqueue(e, to, bits, KC_SIG_NONE);
    else
        begin(e, to, bits, KC_SIG_NONE);
}

struct next {
    enum { NOTHING, AGAIN, CALL, FORWARD } what;
    kc_slot_fn_t fn; /* CALL */
    void *arg;
    kc_signal_t *to; /* FORWARD: with a reference */
};

/* What the visit has to do for the slot that it serves. */
static struct next serve(struct kc_visit *v)
{
    kc_slot_t *slot = v->slot;
    kc_sigset_t open = v->left & slot->filter; /* a filter may have come since the last handler */

    for (struct kc_slot_handler *h = slot->handlers; open && h; h = h->next) {
        if (h->bit & open) {
            v->left &= ~h->bit;
            v->running = h->bit;
            v->began = ++v->signal->clock;
            if (h->bit & KC_SIG_ONCE)
                h->bit = 0; /* used up */
            return (struct next){ CALL, h->fn, h->arg, NULL };
        }
    }
    struct kc_slot_chain *chain = v->chain;
    if (!chain)
        return (struct next){ NOTHING, NULL, NULL, NULL };
    v->chain = chain->next;
    return (struct next){ FORWARD, NULL, NULL, kc__signal_ref(chain->to) };
}

/* Goes on from slot to slot until there is something to do without the lock. */
static struct next walk(struct kc_visit *v)
{
    struct next next = { NOTHING, NULL, NULL, NULL };

    for (int n = 0; n < SLOTS_AT_ONCE; n++) {
        if (v->slot && !v->gone)
            next = serve(v);
        if (next.what != NOTHING)
            return next;
        kc_slot_t *slot = v->next;
        v->slot = slot;
        if (!slot)
            return next;
        v->gone = false;
        v->next = slot->older;
        v->set = v->left = v->fired & slot->filter;
        v->chain = v->set ? slot->chains : NULL;
    }
    next.what = AGAIN; /* others want the lock too */
    return next;
}

/* One step of the innermost visit. */
static void step(struct kc_emit *e)
{
    struct kc_visit *v = &e->at[e->depth - 1];
    kc_signal_t *s = v->signal;

    kc__lock(&s->lock);
    bool wake = end_run(v);
    struct next next = walk(v);
    if (next.what == NOTHING) {
        *v->link = v->after;
        if (v->after)
            v->after->link = v->link;
    }
    kc__unlock(&s->lock);
    if (wake)
        kc__os_wake_all(&s->ended);
    if (next.what == CALL) {
        run(e, v, next.fn, next.arg);
    } else if (next.what == FORWARD) {
        forward(e, next.to, v->set);
    } else if (next.what == NOTHING) {
        e->depth--;
        kc__signal_unref(s);
    }
}

/* late: triggered already. */
static kc_sigset_t emit(kc_signal_t *s, kc_sigset_t bits, kc_sigset_t late)
{
    struct kc_emit e; /* at[] is not cleared: a kilobyte, mostly unused */
    struct turn turn = { 0 };

    e.outer = kc__handler_state()->work;
    e.depth = 0;
    e.first = e.last = NULL;
    kc__signal_ref(s); /* a handler may release it */
    kc_sigset_t fired = begin(&e, s, bits, late);
    for (;;) {
        while (e.depth > 0)
            step(&e);
        if (turn.ops)
            turn.ops->told(turn.owner);
        turn = dequeue(&e);
        if (!turn.signal)
            return fired;
        begin(&e, turn.signal, turn.bits, turn.late);
    }
}

/* ---- the signal ------------------------------------------------------------------------------ */

kc_signal_t *kc_signal_create(size_t data_size)
{
    if (data_size > PTRDIFF_MAX - sizeof(kc_signal_t))
        return NULL;
    kc_block_t *block = kc__object_get(KC_SIGNAL_MAGIC);
    if (!block)
        return NULL;
    kc_signal_t *s = kc_container_of(block, kc_signal_t, block);
    if (data_size > 0 && !(s->data = kc__alloc(data_size))) {
        kc__object_put(block);
        return NULL;
    }
    kc_store_relaxed(&s->block.flags, 1);
    return s;
}

void *kc_signal_data(kc_signal_t *s)
{
    return kc__signal_live("kc_signal_data", s)->data;
}

kc_signal_t *kc_signal_retain(kc_signal_t *s)
{
    return kc__signal_ref(kc__signal_live("kc_signal_retain", s));
}

void kc_signal_release(kc_signal_t *s)
{
    if (s)
        kc__signal_unref(kc__signal_live("kc_signal_release", s));
}

kc_sigset_t kc_signal_state(const kc_signal_t *s)
{
    kc_sigset_t state =
        kc_load_acquire(&kc__signal_live("kc_signal_state", s)->state); /* signal.2 */

    kc__tsan_acquire(&s->lock);
    return state;
}

kc_sigset_t kc_signal_emit(kc_signal_t *s, kc_sigset_t bits)
{
    kc_sigset_t state =
        kc_load_acquire(&kc__signal_live("kc_signal_emit", s)->state); /* signal.2 */
    kc_sigset_t new = bits & ~(state & KC_SIG_ONCE & ~KC_SIG_TERMINATE);

    if (new)
        return emit(s, new, KC_SIG_NONE);
    kc__tsan_acquire(&s->lock);
    return KC_SIG_NONE;
}

/* ---- owners ---------------------------------------------------------------------------------- */

kc_signal_t *kc__signal_new_owned(const struct kc_signal_owner *ops, void *owner)
{
    kc_signal_t *s = kc_signal_create(0);

    if (!s)
        return NULL;
    s->ops = ops;
    s->owner = owner;
    return s;
}

kc_sigset_t kc__signal_own(kc_signal_t *s, const struct kc_signal_owner *ops, void *owner)
{
    kc__lock(&s->lock);
    s->ops = ops;
    s->owner = owner;
    kc_sigset_t before = kc_load_relaxed(&s->state);
    kc__unlock(&s->lock);
    return before;
}

void kc__signal_disown(kc_signal_t *s)
{
    kc__lock(&s->lock);
    s->ops = NULL;
    kc__unlock(&s->lock);
}

kc_sigset_t kc__signal_preset(kc_signal_t *s, kc_sigset_t bits)
{
    kc__lock(&s->lock);
    kc_sigset_t fired = trigger(s, bits);
    kc__unlock(&s->lock);
    return fired;
}

void kc__signal_tell(kc_signal_t *s, kc_sigset_t bits)
{
    struct kc_emit *calls = kc__handler_state()->calls;

    if (!calls) {
        emit(s, KC_SIG_NONE, bits);
        return;
    }
    kc__lock(&s->lock);
    const struct kc_signal_owner *ops = s->ops;
    kc__unlock(&s->lock);
    if (ops && ops->hold(s->owner)) /* else it has ended, and nobody listens any more */
        enqueue(calls, kc__signal_ref(s), KC_SIG_NONE, bits);
}
