/* SPDX-License-Identifier: MIT */
/*
 * signal_chain_test.c - chains of signals, deep and wide, and signals that belong to an owner (G5,
 * G7, and the hooks of the job layer).
 */
#include "base/os.h"
#include "signal/handler.h"
#include "signal/signal.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdlib.h>

enum { DEEP = 100000 };
#define LOW (1ull << 16)
#define LOW2 (1ull << 31)
#define HIGH (1ull << 48)
#define HIGH2 (1ull << 63)

static long allocations;

static bool count_allocations(const char *what)
{
    (void)what;
    allocations++;
    return false;
}

/* A signal with a slot on it, and how often that slot's handlers were called. */
struct node {
    kc_signal_t *signal;
    kc_slot_t slot;
    int calls;
    kc_sigset_t last;
};

static void count_call(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    struct node *n = arg;

    CHECK_PTR(n->signal, signal);
    n->calls++;
    n->last = fired;
}

static void open_node(struct node *n)
{
    *n = (struct node){ .signal = kc_signal_create(0) };
    CHECK(n->signal != NULL);
    CHECK_EQ(kc_slot_bind(&n->slot, n->signal, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&n->slot, LOW, count_call, n));
    CHECK(kc_slot_on(&n->slot, HIGH, count_call, n));
}

static void close_node(struct node *n)
{
    kc_slot_unbind(&n->slot);
    kc_signal_release(n->signal);
}

static int chain(struct node *from, struct node *to)
{
    return kc_slot_chain(&from->slot, to->signal);
}

/* n nodes in a row. */
static struct node *open_row(int n)
{
    struct node *row = calloc((size_t)n, sizeof *row);

    for (int i = 0; i < n; i++)
        open_node(&row[i]);
    for (int i = 0; i < n - 1; i++)
        CHECK_EQ(chain(&row[i], &row[i + 1]), 0);
    return row;
}

static void close_row(struct node *row, int n)
{
    for (int i = 0; i < n; i++)
        close_node(&row[i]);
    free(row);
}

/* ---- G5 ------------------------------------------------------------------------------------- */

TEST(a_chain_forwards_what_passes_the_filter_one_way_only)
{
    struct node a, b;
    kc_slot_filter_t guard;

    open_node(&a);
    open_node(&b);
    CHECK_EQ(chain(&a, &b), 0);
    CHECK_EQ(kc_signal_emit(a.signal, HIGH | HIGH2), HIGH | HIGH2);
    CHECK_EQ(b.calls, 1);
    CHECK_EQ(b.last, HIGH | HIGH2);
    CHECK_EQ(kc_signal_emit(b.signal, LOW), LOW); /* does not reach the other end */
    CHECK_EQ(a.calls, 1);
    CHECK_EQ(kc_signal_state(a.signal), HIGH | HIGH2);
    kc_slot_filter_push(&a.slot, &guard, ~HIGH);
    CHECK_EQ(kc_signal_emit(a.signal, HIGH | LOW2), HIGH | LOW2);
    kc_slot_filter_pop(&a.slot, &guard);
    CHECK_EQ(b.calls, 2);
    CHECK_EQ(kc_signal_state(b.signal), HIGH | HIGH2 | LOW | LOW2);
    CHECK_EQ(kc_signal_emit(a.signal, LOW), LOW); /* what a triggered; b had it already */
    CHECK_EQ(b.calls, 2);
    close_node(&b);
    close_node(&a);
}

TEST(a_slot_may_have_several_chains_and_a_signal_several_sources)
{
    struct node top, child[10], bottom;

    open_node(&top);
    open_node(&bottom);
    for (int i = 0; i < 10; i++) {
        open_node(&child[i]);
        CHECK_EQ(chain(&top, &child[i]), 0);
        CHECK_EQ(chain(&child[i], &bottom), 0);
    }
    CHECK_EQ(kc_signal_emit(top.signal, LOW), LOW);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(child[i].calls, 1);
    CHECK_EQ(bottom.calls, 1); /* a low bit, however many ways lead there */
    for (int i = 0; i < 10; i++)
        close_node(&child[i]);
    close_node(&top);
    close_node(&bottom);
}

TEST(low_bits_that_were_triggered_before_are_forwarded_at_once)
{
    struct node a, b, c;

    open_node(&a);
    open_node(&b);
    open_node(&c);
    CHECK_EQ(chain(&b, &c), 0);
    kc_signal_emit(a.signal, LOW | LOW2 | HIGH | KC_SIG_TERMINATE);
    kc_slot_filter_t guard;
    kc_slot_filter_push(&a.slot, &guard, ~LOW2);
    CHECK_EQ(chain(&a, &b), 0);
    CHECK_EQ(kc_signal_state(b.signal), LOW | KC_SIG_TERMINATE);
    CHECK_EQ(kc_signal_state(c.signal), LOW | KC_SIG_TERMINATE);
    CHECK_EQ(b.calls, 1);
    CHECK_EQ(b.last, LOW | KC_SIG_TERMINATE);
    close_node(&a);
    close_node(&b);
    close_node(&c);
}

TEST(a_chain_keeps_its_target_alive_until_unbind)
{
    struct node a, b;

    open_node(&a);
    open_node(&b);
    CHECK_EQ(chain(&a, &b), 0);
    kc_slot_unbind(&b.slot);
    kc_signal_release(b.signal);
    kc_signal_emit(a.signal, LOW);
    CHECK_EQ(kc_signal_state(b.signal), LOW); /* ASan would tell */
    close_node(&a);
}

TEST(a_chain_from_a_slot_that_was_bound_after_terminate_works)
{
    struct node a, b;
    kc_slot_t late;

    open_node(&a);
    open_node(&b);
    kc_signal_emit(a.signal, KC_SIG_TERMINATE);
    CHECK_EQ(kc_slot_bind(&late, a.signal, KC_SIG_ALL), 0);
    CHECK_EQ(kc_slot_chain(&late, b.signal), 0);
    CHECK_EQ(kc_signal_state(b.signal), KC_SIG_TERMINATE);
    kc_slot_unbind(&late);
    close_node(&a);
    close_node(&b);
}

TEST(a_chain_that_would_close_a_loop_is_eloop_and_changes_nothing)
{
    struct node a, b, c, d;

    open_node(&a);
    open_node(&b);
    open_node(&c);
    open_node(&d);
    CHECK_EQ(chain(&a, &a), -ELOOP);
    CHECK_EQ(chain(&a, &b), 0);
    CHECK_EQ(chain(&b, &a), -ELOOP);
    CHECK_EQ(chain(&b, &c), 0);
    CHECK_EQ(chain(&a, &d), 0);
    CHECK_EQ(chain(&d, &c), 0); /* two ways, but no loop */
    CHECK_EQ(chain(&c, &a), -ELOOP);
    CHECK_EQ(chain(&c, &d), -ELOOP);
    kc_signal_emit(c.signal, LOW);
    CHECK_EQ(kc_signal_state(a.signal), 0);
    kc_slot_unbind(&a.slot); /* takes its chains away */
    CHECK_EQ(chain(&c, &a), 0);
    CHECK_EQ(kc_signal_state(a.signal), LOW);
    CHECK_EQ(kc_slot_bind(&a.slot, a.signal, KC_SIG_ALL), 0);
    CHECK_EQ(chain(&a, &b), -ELOOP);
    close_node(&a);
    close_node(&b);
    close_node(&c);
    close_node(&d);
}

TEST(unbinding_a_slot_takes_only_its_own_chains_away)
{
    struct node a, b, c;
    kc_slot_t second;

    open_node(&a);
    open_node(&b);
    open_node(&c);
    CHECK_EQ(kc_slot_bind(&second, a.signal, KC_SIG_ALL), 0);
    CHECK_EQ(chain(&a, &b), 0);
    CHECK_EQ(kc_slot_chain(&second, b.signal), 0);
    CHECK_EQ(kc_slot_chain(&second, c.signal), 0);
    kc_slot_unbind(&second);
    CHECK_EQ(chain(&b, &a), -ELOOP);
    CHECK_EQ(chain(&c, &a), 0);
    kc_signal_emit(a.signal, HIGH);
    CHECK_EQ(b.calls, 1);
    CHECK_EQ(c.calls, 0);
    close_node(&a);
    close_node(&b);
    close_node(&c);
}

static struct node *to_unbind;

static void unbinds_the_forwarding_slot(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    count_call(fired, signal, arg);
    kc_slot_unbind(&to_unbind->slot);
}

TEST(a_handler_may_unbind_the_slot_that_forwards_to_it)
{
    struct node a, b, c;
    kc_slot_t older;
    struct node heard = { 0 };

    open_node(&a);
    open_node(&b);
    open_node(&c);
    kc_slot_unbind(&a.slot);
    heard.signal = a.signal;
    CHECK_EQ(kc_slot_bind(&older, a.signal, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&older, HIGH, count_call, &heard));
    CHECK_EQ(kc_slot_bind(&a.slot, a.signal, KC_SIG_ALL), 0);
    CHECK_EQ(chain(&a, &c), 0);
    CHECK_EQ(chain(&a, &b), 0); /* told before c */
    to_unbind = &a;
    CHECK(kc_slot_on(&b.slot, HIGH, unbinds_the_forwarding_slot, &b));
    kc_signal_emit(a.signal, HIGH);
    CHECK_EQ(b.calls, 1);
    CHECK_EQ(c.calls, 0);     /* the chain to it was gone */
    CHECK_EQ(heard.calls, 1); /* the walk went on behind the slot that was gone */
    kc_slot_unbind(&older);
    close_node(&a);
    close_node(&b);
    close_node(&c);
}

TEST(reserved_bits_may_be_emitted_and_are_forwarded)
{
    kc_sigset_t reserved = 0x0000fffe | (0xffffull << 32);
    struct node a, b;

    open_node(&a);
    open_node(&b);
    CHECK_EQ(chain(&a, &b), 0);
    CHECK_EQ(kc_signal_emit(a.signal, reserved), reserved);
    CHECK_EQ(kc_signal_state(b.signal), reserved);
    close_node(&a);
    close_node(&b);
}

/* ---- G7 ------------------------------------------------------------------------------------- */

TEST(emit_never_allocates)
{
    struct node *row = open_row(50);

    kc__os_fault = count_allocations;
    CHECK_EQ(kc_signal_emit(row[0].signal, LOW | HIGH | KC_SIG_TERMINATE),
             LOW | HIGH | KC_SIG_TERMINATE);
    CHECK_EQ(allocations, 0);
    kc__os_fault = NULL;
    CHECK_EQ(row[49].calls, 2);
    close_row(row, 50);
}

/* On a stack of 64 KiB. */
static void emits_in_a_coroutine(void *arg)
{
    struct node *row = arg;

    CHECK_EQ(kc_signal_emit(row[0].signal, LOW), LOW);
    CHECK_EQ(kc_signal_emit(row[0].signal, HIGH), HIGH);
}

TEST(a_chain_100000_signals_deep_needs_no_deep_stack)
{
    struct node *row = open_row(DEEP);
    kcoro_t *co = kcoro_create(emits_in_a_coroutine, row, 0);

    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_LT(kcoro_stack_used(co), 16384);
    kcoro_destroy(co);
    for (int i = 0; i < DEEP; i++)
        CHECK_EQ(row[i].calls, 2);
    CHECK_EQ(chain(&row[DEEP - 1], &row[0]), -ELOOP);
    close_row(row, DEEP);
}

/* From its end on, so that the target of each new chain reaches all that stands already. */
TEST(a_chain_that_is_built_from_its_end_takes_no_square_time)
{
    struct node *row = calloc(DEEP, sizeof *row);

    for (int i = DEEP - 1; i >= 0; i--) {
        open_node(&row[i]);
        if (i < DEEP - 1)
            CHECK_EQ(chain(&row[i], &row[i + 1]), 0);
    }
    kc_signal_emit(row[0].signal, LOW);
    CHECK_EQ(row[DEEP - 1].calls, 1);
    close_row(row, DEEP);
}

TEST(a_lattice_of_chains_is_searched_once_per_signal_and_told_once_per_low_bit)
{
    enum { LAYERS = 40 }; /* 2 to the 40th ways lead through it */
    struct node layer[LAYERS][2], above, top;

    open_node(&above);
    open_node(&top);
    CHECK_EQ(chain(&above, &top), 0);
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < 2; k++)
            open_node(&layer[i][k]);
    for (int i = 0; i < LAYERS - 1; i++)
        for (int k = 0; k < 4; k++)
            CHECK_EQ(chain(&layer[i][k / 2], &layer[i + 1][k % 2]), 0);
    CHECK_EQ(chain(&layer[LAYERS - 1][1], &layer[0][0]), -ELOOP);
    CHECK_EQ(chain(&top, &layer[0][0]), 0); /* looks at all of it, and finds no loop */
    CHECK_EQ(kc_signal_emit(above.signal, LOW), LOW);
    CHECK_EQ(layer[0][1].calls, 0);
    for (int i = 1; i < LAYERS; i++)
        CHECK_EQ(layer[i][0].calls + layer[i][1].calls, 2);
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < 2; k++)
            close_node(&layer[i][k]);
    close_node(&top);
    close_node(&above);
}

static struct node *merging;

static void emits_at_the_top(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)signal;
    (void)arg;
    if (fired & HIGH)
        kc_signal_emit(merging[0].signal, HIGH2);
}

/* The eighth signal has put the ninth into the queue when its older slot's handler sends another
 * bit down the same chain. */
TEST(bits_for_a_signal_that_is_queued_are_told_with_those_that_wait)
{
    enum { ROW = 12, EIGHTH = 7 };
    kc_slot_t newer;

    merging = open_row(ROW);
    CHECK(kc_slot_on(&merging[EIGHTH].slot, HIGH, emits_at_the_top, NULL));
    CHECK_EQ(kc_slot_bind(&newer, merging[EIGHTH].signal, KC_SIG_ALL), 0);
    CHECK_EQ(kc_slot_chain(&newer, merging[EIGHTH + 1].signal), 0);
    kc_signal_emit(merging[0].signal, HIGH);
    CHECK_EQ(merging[EIGHTH + 1].calls, 1);
    CHECK_EQ(merging[EIGHTH + 1].last, HIGH | HIGH2);
    CHECK_EQ(kc_signal_state(merging[ROW - 1].signal), HIGH | HIGH2);
    kc_slot_unbind(&newer);
    close_row(merging, ROW);
}

/* ---- owners --------------------------------------------------------------------------------- */

/* Stands for a job. */
struct owner {
    kc_signal_t *signal;
    kc_slot_t slot;
    int pins, asked, cancelled, told, held;
    bool shielded, was_told_in_cancel;
};

static void owner_pin(void *arg)
{
    ((struct owner *)arg)->pins++;
}

static bool owner_cancel(void *arg)
{
    struct owner *o = arg;

    CHECK_EQ(o->pins, 1);
    CHECK(!kc__signal_is_in_handler());
    o->asked++;
    if (o->cancelled++ > 0)
        return false;
    if (!o->shielded) {
        CHECK_EQ(kc__signal_preset(o->signal, KC_SIG_TERMINATE), KC_SIG_TERMINATE);
        kc__signal_tell(o->signal, KC_SIG_TERMINATE);
        o->was_told_in_cancel = o->told > 0;
    }
    return true;
}

static void owner_unpin(void *arg)
{
    ((struct owner *)arg)->pins--;
}

static bool owner_hold(void *arg)
{
    ((struct owner *)arg)->held++;
    return true;
}

static void owner_released(void *arg)
{
    ((struct owner *)arg)->held--;
}

static const struct kc_signal_owner owner_ops = { owner_pin, owner_cancel, owner_unpin, owner_hold,
                                                  owner_released };

static void owner_told(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    (void)signal;
    CHECK(kc__signal_is_in_handler());
    ((struct owner *)arg)->told++;
}

static void open_owner(struct owner *o)
{
    *o = (struct owner){ .signal = kc__signal_new_owned(&owner_ops, o) };
    CHECK(o->signal != NULL);
    CHECK_EQ(kc_slot_bind(&o->slot, o->signal, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&o->slot, KC_SIG_TERMINATE, owner_told, o));
    CHECK(kc_slot_on(&o->slot, HIGH, owner_told, o));
}

static void close_owner(struct owner *o)
{
    kc__signal_disown(o->signal);
    kc_slot_unbind(&o->slot);
    kc_signal_release(o->signal);
    CHECK_EQ(o->pins, 0);
}

TEST(terminate_on_an_owned_signal_asks_the_owner_and_counts_if_it_was_cancelled)
{
    struct owner o;

    open_owner(&o);
    CHECK_EQ(kc_signal_emit(o.signal, KC_SIG_TERMINATE | HIGH), KC_SIG_TERMINATE | HIGH);
    CHECK_EQ(o.asked, 1);
    CHECK_EQ(o.told, 2);
    CHECK(o.was_told_in_cancel);
    CHECK_EQ(kc_signal_emit(o.signal, KC_SIG_TERMINATE),
             0); /* asked again: the reason may change */
    CHECK_EQ(o.asked, 2);
    CHECK_EQ(kc_signal_emit(o.signal, HIGH), HIGH);
    CHECK_EQ(o.asked, 2);
    close_owner(&o);
}

TEST(terminate_is_triggered_when_the_owner_triggers_it)
{
    struct owner o;

    open_owner(&o);
    o.shielded = true;
    CHECK_EQ(kc_signal_emit(o.signal, KC_SIG_TERMINATE | LOW), KC_SIG_TERMINATE | LOW);
    CHECK_EQ(kc_signal_state(o.signal), LOW);
    CHECK_EQ(o.told, 0);
    CHECK_EQ(kc__signal_preset(o.signal, KC_SIG_TERMINATE), KC_SIG_TERMINATE); /* it ends */
    CHECK(kc_slot_triggered(&o.slot, KC_SIG_TERMINATE));
    CHECK_EQ(o.told, 0);
    kc__signal_tell(o.signal, KC_SIG_TERMINATE);
    CHECK_EQ(o.told, 1);
    CHECK_EQ(kc__signal_preset(o.signal, KC_SIG_TERMINATE), 0);
    CHECK_EQ(kc__signal_preset(o.signal, KC_SIG_NONE), 0);
    close_owner(&o);
}

TEST(without_its_owner_terminate_is_a_bit_as_others_are)
{
    struct owner o;

    open_owner(&o);
    kc__signal_disown(o.signal);
    CHECK_EQ(kc_signal_emit(o.signal, KC_SIG_TERMINATE), KC_SIG_TERMINATE);
    CHECK_EQ(o.asked, 0);
    CHECK_EQ(o.told, 1);
    close_owner(&o);
}

TEST(preset_bits_were_triggered_before_and_nobody_is_told)
{
    struct owner o;
    kc_slot_t late;

    open_owner(&o);
    CHECK_EQ(kc__signal_preset(o.signal, KC_SIG_TERMINATE), KC_SIG_TERMINATE);
    CHECK_EQ(o.told, 0);
    CHECK(kc_slot_triggered(&o.slot, KC_SIG_TERMINATE));
    CHECK_EQ(kc_slot_bind(&late, o.signal, KC_SIG_ALL), 0);
    CHECK_PTR(kc_slot_signal(&late), NULL);
    kc_slot_unbind(&late);
    close_owner(&o);
}

TEST(terminate_that_comes_through_a_chain_asks_the_owner)
{
    struct node a;
    struct owner o;

    open_node(&a);
    open_owner(&o);
    CHECK_EQ(kc_slot_chain(&a.slot, o.signal), 0);
    CHECK_EQ(kc_signal_emit(a.signal, KC_SIG_TERMINATE), KC_SIG_TERMINATE);
    CHECK_EQ(o.asked, 1);
    CHECK_EQ(o.told, 1);
    close_node(&a);
    close_owner(&o);
}

static void emits_on_a_chain_and_looks(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    struct node *pair = arg;

    (void)fired;
    (void)signal;
    kc_signal_emit(pair[0].signal, LOW);
    CHECK_EQ(pair[1].calls, 1);
}

TEST(an_emit_in_a_handler_that_an_owners_cancel_runs_is_over_when_it_returns)
{
    struct node *pair = open_row(2);
    struct owner o;

    open_owner(&o);
    CHECK(kc_slot_on(&o.slot, KC_SIG_TERMINATE, emits_on_a_chain_and_looks, pair));
    CHECK_EQ(kc_signal_emit(o.signal, KC_SIG_TERMINATE), KC_SIG_TERMINATE);
    CHECK_EQ(pair[1].calls, 1);
    close_owner(&o);
    close_row(pair, 2);
}

/* A tree of jobs as chains: the owner of each is asked by the emit that came through the one
 * before, and none inside the other's cancel. */
static void cancels_a_row_of_owners(void *arg)
{
    struct owner *row = arg;

    CHECK_EQ(kc_signal_emit(row[0].signal, KC_SIG_TERMINATE | HIGH), KC_SIG_TERMINATE | HIGH);
}

TEST(owners_chained_100000_deep_are_asked_without_a_deep_stack)
{
    struct owner *row = calloc(DEEP, sizeof *row);
    kcoro_t *co = kcoro_create(cancels_a_row_of_owners, row, 0);

    for (int i = 0; i < DEEP; i++)
        open_owner(&row[i]);
    for (int i = 0; i < DEEP - 1; i++)
        CHECK_EQ(kc_slot_chain(&row[i].slot, row[i + 1].signal), 0);
    CHECK_EQ(kcoro_resume(co), 0);
    CHECK_LT(kcoro_stack_used(co), 16384);
    kcoro_destroy(co);
    for (int i = 0; i < DEEP; i++) {
        CHECK_EQ(row[i].asked, 1);
        CHECK_EQ(row[i].told, 2);
        close_owner(&row[i]);
    }
    free(row);
}
