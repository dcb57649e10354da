/* SPDX-License-Identifier: MIT */
/*
 * signal_test.c - signals, slots and filters in one thread (G1-G4). signal_chain_test.c has chains,
 * signal_race_test.c threads.
 *
 * The linker puts our own kc__alloc and kc__free between the library and the real ones: they count.
 */
#include "base/os.h"
#include "coro/object.h"
#include "signal/handler.h"
#include "signal/signal.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOW (1ull << 16)
#define LOW2 (1ull << 31)
#define HIGH (1ull << 48)
#define HIGH2 (1ull << 63)

static long allocations, live;

void *__real_kc__alloc(size_t size);
void __real_kc__free(void *p);
void *__wrap_kc__alloc(size_t size);
void __wrap_kc__free(void *p);

void *__wrap_kc__alloc(size_t size)
{
    void *p = __real_kc__alloc(size);

    allocations += p != NULL;
    live += p != NULL;
    return p;
}

void __wrap_kc__free(void *p)
{
    live -= p != NULL;
    __real_kc__free(p);
}

kc_block_t *__real_kc__object_get(uint32_t magic);
void __real_kc__object_put(kc_block_t *block);
kc_block_t *__wrap_kc__object_get(uint32_t magic);
void __wrap_kc__object_put(kc_block_t *block);

/* A control block counts as well; what the thread needs for itself when it takes its first does
 * not. */
kc_block_t *__wrap_kc__object_get(uint32_t magic)
{
    long before = allocations, alive = live;
    kc_block_t *block =
        kc__os_fault && kc__os_fault("alloc") ? NULL : __real_kc__object_get(magic);

    allocations = before + (block != NULL);
    live = alive + (block != NULL);
    return block;
}

void __wrap_kc__object_put(kc_block_t *block)
{
    long alive = live;

    __real_kc__object_put(block);
    live = alive - 1;
}

static bool no_memory(const char *what)
{
    (void)what;
    return true;
}

/* What handlers have seen: the newest first letter of each, in order, and the last set. */
static char seen[300];
static kc_sigset_t last_set;
static kc_signal_t *last_signal;

static void note(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    size_t n = strlen(seen);

    CHECK_LT(n, sizeof seen - 1);
    seen[n] = *(const char *)arg;
    last_set = fired;
    last_signal = signal;
}

/* What was noted since the last call. */
static const char *noted(void)
{
    static char text[sizeof seen];

    memcpy(text, seen, sizeof text);
    memset(seen, 0, sizeof seen);
    return text;
}

static kc_signal_t *make(void)
{
    kc_signal_t *s = kc_signal_create(0);

    CHECK(s != NULL);
    return s;
}

static void bind(kc_slot_t *slot, kc_signal_t *s)
{
    memset(slot, 0xa5, sizeof *slot); /* bind needs no initialiser */
    CHECK_EQ(kc_slot_bind(slot, s, KC_SIG_ALL), 0);
}

/* Ends a test: nothing of the library's is left. */
static void end(kc_slot_t *slot, kc_signal_t *s)
{
    kc_slot_unbind(slot);
    kc_signal_release(s);
    CHECK_EQ(live, 0);
}

/* ---- G1: bits, emit, state ------------------------------------------------------------------ */

TEST(the_bits_are_where_the_header_says)
{
    CHECK_EQ(sizeof(kc_sigset_t), 8);
    CHECK_EQ(KC_SIG_NONE, 0);
    CHECK_EQ(KC_SIG_TERMINATE, 1);
    CHECK_EQ(KC_SIG_ALL, UINT64_MAX);
}

TEST(a_low_bit_is_triggered_once_in_a_signals_life)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    bind(&slot, s);
    CHECK(kc_slot_on(&slot, LOW, note, "a"));
    CHECK_EQ(kc_signal_emit(s, LOW), LOW);
    CHECK_STR(noted(), "a");
    CHECK_EQ(kc_signal_emit(s, LOW), 0);
    CHECK_STR(noted(), "");
    CHECK_EQ(kc_signal_emit(s, KC_SIG_TERMINATE), KC_SIG_TERMINATE);
    CHECK_EQ(kc_signal_emit(s, KC_SIG_TERMINATE), 0);
    end(&slot, s);
}

TEST(a_high_bit_is_triggered_at_every_emit)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    bind(&slot, s);
    CHECK(kc_slot_on(&slot, HIGH, note, "a"));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(kc_signal_emit(s, HIGH), HIGH);
    CHECK_STR(noted(), "aaa");
    end(&slot, s);
}

TEST(one_emit_carries_many_bits_and_returns_those_it_triggered)
{
    kc_signal_t *s = make();

    CHECK_EQ(kc_signal_emit(s, LOW | HIGH), LOW | HIGH);
    CHECK_EQ(kc_signal_emit(s, LOW | LOW2 | HIGH | HIGH2), LOW2 | HIGH | HIGH2);
    CHECK_EQ(kc_signal_state(s), LOW | LOW2 | HIGH | HIGH2);
    CHECK_EQ(kc_signal_emit(s, KC_SIG_ALL), ~(LOW | LOW2));
    CHECK_EQ(kc_signal_emit(s, KC_SIG_ALL), 0xffffffff00000000);
    CHECK_EQ(kc_signal_state(s), KC_SIG_ALL);
    kc_signal_release(s);
}

TEST(emitting_nothing_does_nothing)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    bind(&slot, s);
    CHECK(kc_slot_on(&slot, KC_SIG_TERMINATE, note, "a"));
    CHECK_EQ(kc_signal_emit(s, KC_SIG_NONE), 0);
    CHECK_EQ(kc_signal_state(s), 0);
    CHECK_STR(noted(), "");
    end(&slot, s);
}

TEST(every_slot_of_a_signal_hears_of_an_emit_the_newest_first)
{
    enum { MANY = 200 };
    kc_signal_t *s = make();
    kc_slot_t slot[MANY];
    char name[MANY], expected[MANY + 1] = "";

    for (int i = 0; i < MANY; i++) {
        name[i] = (char)('a' + i % 26);
        expected[MANY - 1 - i] = name[i];
        bind(&slot[i], s);
        CHECK(kc_slot_on(&slot[i], LOW, note, &name[i]));
    }
    CHECK_EQ(kc_signal_emit(s, LOW), LOW);
    CHECK_STR(noted(), expected);
    for (int i = 1; i < MANY; i++)
        kc_slot_unbind(&slot[i]);
    end(&slot[0], s);
}

TEST(an_emit_finds_the_one_handler_behind_many_slots_without_any)
{
    enum { MANY = 1000 };
    static kc_slot_t slot[MANY];
    kc_signal_t *s = make();

    for (int i = 0; i < MANY; i++)
        bind(&slot[i], s);
    CHECK(kc_slot_on(&slot[0], LOW, note, "a"));
    CHECK_EQ(kc_signal_emit(s, LOW), LOW);
    CHECK_STR(noted(), "a");
    for (int i = 1; i < MANY; i++)
        kc_slot_unbind(&slot[i]);
    end(&slot[0], s);
}

static void note_data(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    *(int *)kc_signal_data(signal) += *(int *)arg;
}

TEST(a_signal_carries_data_that_handlers_reach)
{
    kc_signal_t *s = kc_signal_create(1000);
    char *data = kc_signal_data(s);
    int step = 7;
    kc_slot_t slot;

    CHECK_EQ((uintptr_t)data % 16, 0);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(data[i], 0);
    bind(&slot, s);
    CHECK(kc_slot_on(&slot, HIGH, note_data, &step));
    kc_signal_emit(s, HIGH);
    kc_signal_emit(s, HIGH);
    CHECK_EQ(*(int *)kc_signal_data(s), 14);
    end(&slot, s);
    CHECK_PTR(kc_signal_create(SIZE_MAX), NULL);
    CHECK_PTR(kc_signal_create(SIZE_MAX / 2), NULL);
}

/* ---- G2: handlers and filters --------------------------------------------------------------- */

TEST(filtered_bits_call_no_handler_and_are_not_triggered_for_the_slot)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    CHECK_EQ(kc_slot_bind(&slot, s, LOW | HIGH), 0);
    CHECK_EQ(kc_slot_filter(&slot), LOW | HIGH);
    CHECK(kc_slot_on(&slot, LOW2, note, "a"));
    CHECK(kc_slot_on(&slot, HIGH, note, "b"));
    CHECK_EQ(kc_signal_emit(s, LOW2 | HIGH | HIGH2), LOW2 | HIGH | HIGH2);
    CHECK_STR(noted(), "b");
    CHECK_EQ(last_set, HIGH);
    CHECK(!kc_slot_triggered(&slot, LOW2));
    CHECK(kc_slot_triggered(&slot, HIGH));
    CHECK_EQ(kc_signal_state(s), LOW2 | HIGH | HIGH2);
    end(&slot, s);
}

static kc_slot_t *a_bound_slot(void)
{
    static kc_slot_t slot;

    bind(&slot, make());
    return &slot;
}

TEST_ABORTS(a_handler_for_two_bits_aborts,
            "kc_slot_on: a handler is for exactly one bit (rule G2,")
{
    (void)!kc_slot_on(a_bound_slot(), LOW | HIGH, note, "a");
}

TEST_ABORTS(a_handler_for_no_bit_aborts, "kc_slot_on: a handler is for exactly one bit (rule G2,")
{
    (void)!kc_slot_on(a_bound_slot(), KC_SIG_NONE, note, "a");
}

TEST_ABORTS(a_handler_without_a_function_aborts, "kc_slot_on: the handler is NULL (rule G2,")
{
    (void)!kc_slot_on(a_bound_slot(), LOW, NULL, "a");
}

TEST(a_handler_for_a_low_bit_that_was_triggered_is_refused_and_not_run)
{
    kc_signal_t *s = make();
    kc_slot_t early, late;

    bind(&early, s);
    kc_signal_emit(s, LOW);
    bind(&late, s);
    CHECK(!kc_slot_on(&early, LOW, note, "a"));
    CHECK(!kc_slot_on(&late, LOW, note, "b"));
    CHECK(kc_slot_on(&late, LOW2, note, "c")); /* another bit is another matter */
    kc_signal_emit(s, LOW | LOW2);
    CHECK_STR(noted(), "c");
    CHECK(!kc_slot_clear(&early, LOW));
    kc_slot_unbind(&early);
    end(&late, s);
}

TEST(a_handler_for_a_high_bit_that_was_triggered_is_kept)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    kc_signal_emit(s, HIGH);
    bind(&slot, s);
    CHECK(kc_slot_triggered(&slot, HIGH));
    CHECK(kc_slot_on(&slot, HIGH, note, "a"));
    CHECK_STR(noted(), "");
    kc_signal_emit(s, HIGH);
    CHECK_STR(noted(), "a");
    end(&slot, s);
}

TEST(a_second_handler_of_a_bit_replaces_the_first)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    bind(&slot, s);
    CHECK(kc_slot_on(&slot, LOW, note, "a"));
    CHECK(kc_slot_on(&slot, LOW, note, "b"));
    CHECK(kc_slot_on(&slot, HIGH, note, "c"));
    CHECK(kc_slot_on(&slot, HIGH, note, "d"));
    kc_signal_emit(s, LOW);
    kc_signal_emit(s, HIGH);
    kc_signal_emit(s, HIGH);
    CHECK_STR(noted(), "bdd");
    CHECK(kc_slot_clear(&slot, HIGH));
    kc_signal_emit(s, HIGH); /* the first one does not come back */
    CHECK_STR(noted(), "");
    end(&slot, s);
}

static kc_sigset_t sets[64];
static int set_count;

static void note_set(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)signal;
    CHECK((fired >> *(int *)arg) & 1);
    sets[set_count++] = fired;
}

TEST(one_emit_runs_the_handlers_of_all_its_bits_and_each_gets_the_full_filtered_set)
{
    kc_signal_t *s = make();
    kc_sigset_t filter = ~(LOW2 | HIGH2);
    int number[64];
    kc_slot_t slot;

    CHECK_EQ(kc_slot_bind(&slot, s, filter), 0);
    for (int i = 0; i < 64; i++) {
        number[i] = i;
        CHECK(kc_slot_on(&slot, 1ull << i, note_set, &number[i]));
    }
    CHECK_EQ(kc_signal_emit(s, KC_SIG_ALL), KC_SIG_ALL);
    CHECK_EQ(set_count, 62);
    for (int i = 0; i < set_count; i++)
        CHECK_EQ(sets[i], filter);
    end(&slot, s);
}

TEST(scoped_filters_nest_are_anded_and_go_with_their_scope)
{
    kc_signal_t *s = make();
    kc_slot_filter_t outer, inner;
    kc_slot_t slot;

    CHECK_EQ(kc_slot_bind(&slot, s, LOW | LOW2 | HIGH), 0);
    CHECK(kc_slot_on(&slot, HIGH, note, "a"));
    kc_slot_filter_push(&slot, &outer, LOW | HIGH | HIGH2);
    CHECK_EQ(kc_slot_filter(&slot), LOW | HIGH);
    kc_signal_emit(s, HIGH);
    kc_slot_filter_push(&slot, &inner, LOW | LOW2);
    CHECK_EQ(kc_slot_filter(&slot), LOW);
    kc_signal_emit(s, HIGH);
    CHECK(!kc_slot_triggered(&slot, HIGH));
    kc_slot_filter_pop(&slot, &inner);
    CHECK_EQ(kc_slot_filter(&slot), LOW | HIGH);
    CHECK(kc_slot_triggered(&slot, HIGH));
    kc_signal_emit(s, HIGH);
    kc_slot_filter_pop(&slot, &outer);
    CHECK_EQ(kc_slot_filter(&slot), LOW | LOW2 | HIGH);
    kc_signal_emit(s, HIGH);
    CHECK_STR(noted(), "aaa");
    end(&slot, s);
}

TEST(a_low_bit_that_came_while_filtered_never_calls_its_handler_but_is_triggered_afterwards)
{
    kc_signal_t *s = make();
    kc_slot_filter_t guard;
    kc_slot_t slot;

    bind(&slot, s);
    CHECK(kc_slot_on(&slot, LOW, note, "a"));
    kc_slot_filter_push(&slot, &guard, ~LOW);
    CHECK_EQ(kc_signal_emit(s, LOW), LOW);
    CHECK(!kc_slot_triggered(&slot, LOW));
    CHECK(kc_slot_on(&slot, LOW, note, "b")); /* it does not pass the filter: not refused */
    kc_slot_filter_pop(&slot, &guard);
    CHECK(kc_slot_triggered(&slot, LOW));
    CHECK_EQ(kc_signal_emit(s, LOW), 0);
    CHECK_STR(noted(), "");
    CHECK(!kc_slot_on(&slot, LOW, note, "c"));
    CHECK(kc_slot_clear(&slot, LOW)); /* the one that will never run */
    CHECK_STR(noted(), "");
    end(&slot, s);
}

static kc_slot_filter_t guard_of_handler;

static void note_and_filter(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    note(fired, signal, "f");
    kc_slot_filter_push(arg, &guard_of_handler, KC_SIG_NONE);
}

TEST(a_filter_that_a_handler_sets_holds_for_the_handlers_that_have_not_run)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    bind(&slot, s);
    CHECK(kc_slot_on(&slot, HIGH, note_and_filter, &slot));
    CHECK(kc_slot_on(&slot, HIGH2, note_and_filter, &slot));
    kc_signal_emit(s, HIGH | HIGH2);
    CHECK_STR(noted(), "f");
    kc_slot_filter_pop(&slot, &guard_of_handler);
    kc_signal_emit(s, HIGH2);
    CHECK_STR(noted(), "f");
    end(&slot, s);
}

TEST_ABORTS(popping_a_filter_that_is_not_the_innermost_aborts, "kc_slot_filter_pop: the guard")
{
    kc_slot_filter_t outer, inner;
    kc_slot_t *slot = a_bound_slot();

    kc_slot_filter_push(slot, &outer, LOW);
    kc_slot_filter_push(slot, &inner, LOW);
    kc_slot_filter_pop(slot, &outer);
}

/* ---- G3: clear, and what handlers do to slots ----------------------------------------------- */

TEST(clear_tells_whether_it_took_a_handler_back)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    bind(&slot, s);
    CHECK(!kc_slot_clear(&slot, LOW)); /* none was set */
    CHECK(kc_slot_on(&slot, LOW, note, "a"));
    CHECK(kc_slot_clear(&slot, LOW));
    CHECK(!kc_slot_clear(&slot, LOW));
    kc_signal_emit(s, LOW);
    CHECK(kc_slot_on(&slot, LOW2, note, "b"));
    kc_signal_emit(s, LOW2);
    CHECK(!kc_slot_clear(&slot, LOW2)); /* it ran already */
    CHECK(kc_slot_on(&slot, HIGH, note, "c"));
    kc_signal_emit(s, HIGH);
    CHECK(kc_slot_clear(&slot, HIGH)); /* it ran, and is still set */
    kc_signal_emit(s, HIGH);
    CHECK_STR(noted(), "bc");
    end(&slot, s);
}

TEST(triggered_with_several_bits_means_any_of_them)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    bind(&slot, s);
    kc_signal_emit(s, LOW | HIGH2);
    CHECK(kc_slot_triggered(&slot, LOW | LOW2));
    CHECK(kc_slot_triggered(&slot, HIGH2));
    CHECK(kc_slot_triggered(&slot, KC_SIG_ALL));
    CHECK(!kc_slot_triggered(&slot, LOW2 | HIGH));
    CHECK(!kc_slot_triggered(&slot, KC_SIG_NONE));
    end(&slot, s);
}

static void clears_itself(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    note(fired, signal, "c");
    CHECK(kc_slot_clear(arg, HIGH));
    CHECK(!kc_slot_clear(arg, HIGH));
}

TEST(a_handler_may_clear_itself_and_set_another)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    bind(&slot, s);
    CHECK(kc_slot_on(&slot, HIGH, clears_itself, &slot));
    kc_signal_emit(s, HIGH);
    kc_signal_emit(s, HIGH);
    CHECK_STR(noted(), "c");
    CHECK(kc_slot_on(&slot, HIGH, note, "d"));
    kc_signal_emit(s, HIGH);
    CHECK_STR(noted(), "d");
    end(&slot, s);
}

struct heap_slot {
    kc_slot_t slot;
    const char *name;
};

static void unbinds_and_frees_itself(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    struct heap_slot *h = arg;

    note(fired, signal, (void *)h->name);
    kc_slot_unbind(&h->slot);
    memset(h, 0xa5, sizeof *h);
    free(h);
}

TEST(a_handler_may_unbind_and_free_its_own_slot)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    kc_signal_t *s = make();

    for (int i = 0; i < 4; i++) {
        struct heap_slot *h = malloc(sizeof *h);
        h->name = names[i];
        bind(&h->slot, s);
        CHECK(kc_slot_on(&h->slot, HIGH, unbinds_and_frees_itself, h));
        CHECK(kc_slot_on(&h->slot, HIGH2, unbinds_and_frees_itself, h)); /* one of them runs */
        CHECK(kc_slot_on(&h->slot, LOW, unbinds_and_frees_itself, h));
    }
    CHECK_EQ(kc_signal_emit(s, HIGH | HIGH2 | LOW), HIGH | HIGH2 | LOW);
    CHECK_STR(noted(), "dcba");
    kc_signal_emit(s, HIGH);
    CHECK_STR(noted(), "");
    kc_signal_release(s);
    CHECK_EQ(live, 0);
}

static kc_slot_t ring[5];
static char ring_names[] = "01234";

static void unbinds_others(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    int me = (int)(intptr_t)arg;

    note(fired, signal, &ring_names[me]);
    for (int i = 0; i < 5; i++)
        if (i != me)
            kc_slot_unbind(&ring[i]); /* an unbound one stays as it is */
}

TEST(a_handler_may_unbind_the_other_slots_of_its_signal)
{
    for (int who = 0; who < 5; who++) {
        kc_signal_t *s = make();
        char before[6] = "", me[2] = { (char)('0' + who), 0 };
        for (int i = 0; i < 5; i++) {
            bind(&ring[i], s);
            CHECK(kc_slot_on(&ring[i], HIGH, i == who ? unbinds_others : note,
                             i == who ? (void *)(intptr_t)i : (void *)&ring_names[i]));
        }
        for (int i = 4; i > who; i--)
            before[4 - i] = (char)('0' + i);
        kc_signal_emit(s, HIGH);
        CHECK_STR(noted(), strcat(before, me)); /* newer ones first, older ones never */
        kc_signal_emit(s, HIGH);
        CHECK_STR(noted(), me);
        end(&ring[who], s);
    }
}

static void rebinds_itself(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    note(fired, signal, "r");
    kc_slot_unbind(arg);
    bind(arg, signal);
    CHECK(kc_slot_on(arg, HIGH, rebinds_itself, arg));
}

TEST(a_slot_that_a_handler_binds_does_not_hear_of_the_emit_in_progress)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    bind(&slot, s);
    CHECK(kc_slot_on(&slot, HIGH, rebinds_itself, &slot));
    kc_signal_emit(s, HIGH);
    CHECK_STR(noted(), "r");
    kc_signal_emit(s, HIGH);
    CHECK_STR(noted(), "r");
    end(&slot, s);
}

static void emits_again(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    int *left = arg;

    note(fired, signal, "e");
    CHECK(kc__signal_is_in_handler());
    if ((*left)-- > 0)
        kc_signal_emit(signal, HIGH | LOW);
    CHECK(kc__signal_is_in_handler());
}

TEST(a_handler_may_emit_on_its_own_signal)
{
    kc_signal_t *s = make();
    kc_slot_t slot, other;
    int left = 3;

    bind(&other, s);
    bind(&slot, s);
    CHECK(kc_slot_on(&slot, HIGH, emits_again, &left));
    CHECK(kc_slot_on(&other, HIGH, note, "o"));
    CHECK(kc_slot_on(&other, LOW, note, "l"));
    CHECK(!kc__signal_is_in_handler());
    kc_signal_emit(s, HIGH);
    CHECK(!kc__signal_is_in_handler());
    /* Each emit is told to all before the one around it goes on; the first of the inner ones has
     * triggered LOW, and comes to the older slot last but one. */
    CHECK_STR(noted(), "eeeeooolo");
    kc_slot_unbind(&other);
    end(&slot, s);
}

static void releases_and_unbinds(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    kc_slot_unbind(arg);
    kc_signal_release(signal); /* the last one, but for the emit's own */
    CHECK_EQ(kc_signal_state(signal), LOW);
    note(fired, signal, "r");
}

TEST(a_handler_may_release_its_signal)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    bind(&slot, s);
    CHECK(kc_slot_on(&slot, LOW, releases_and_unbinds, &slot));
    CHECK_EQ(kc_signal_emit(s, LOW), LOW);
    CHECK_STR(noted(), "r");
    CHECK_EQ(live, 0);
}

/* ---- G4: lives ------------------------------------------------------------------------------ */

TEST(a_bound_slot_keeps_its_signal_alive)
{
    kc_signal_t *s = kc_signal_retain(make());
    kc_slot_t slot;

    bind(&slot, s);
    kc_signal_release(s);
    kc_signal_release(s);
    CHECK_EQ(live, 1);
    CHECK_PTR(kc_slot_signal(&slot), s);
    CHECK_EQ(kc_signal_emit(kc_slot_signal(&slot), LOW), LOW);
    kc_slot_unbind(&slot);
    CHECK_EQ(live, 0);
    CHECK_PTR(kc_slot_signal(&slot), NULL);
    kc_signal_release(NULL);
}

TEST(binding_after_terminate_succeeds_and_the_slot_has_no_signal_to_show)
{
    kc_signal_t *s = make();
    kc_slot_t before, after;

    bind(&before, s);
    kc_signal_emit(s, KC_SIG_TERMINATE | HIGH);
    bind(&after, s);
    kc_signal_release(s);
    CHECK_PTR(kc_slot_signal(&before), s);
    CHECK_PTR(kc_slot_signal(&after), NULL);
    CHECK(kc_slot_triggered(&after, KC_SIG_TERMINATE));
    CHECK(!kc_slot_on(&after, KC_SIG_TERMINATE, note, "a"));
    CHECK(kc_slot_on(&after, HIGH, note, "b"));
    kc_slot_unbind(&before); /* the late slot holds the signal all the same */
    CHECK(kc_slot_triggered(&after, HIGH));
    kc_slot_unbind(&after);
    CHECK_EQ(live, 0);
}

TEST(records_are_given_back_at_unbind_and_not_at_the_signals_end)
{
    kc_signal_t *s = make(), *to = make();

    for (int round = 0; round < 3; round++) {
        kc_slot_t slot;
        bind(&slot, s);
        for (int i = round * 8; i < 64; i++)
            CHECK(kc_slot_on(&slot, 1ull << i, note, "a"));
        CHECK_EQ(kc_slot_chain(&slot, to), 0);
        kc_signal_emit(s, 0xffull << (8 * round)); /* some are used up */
        CHECK_GT(live, 30);
        kc_slot_unbind(&slot);
        CHECK_EQ(live, 2);
        noted();
    }
    kc_signal_release(to);
    kc_signal_release(s);
    CHECK_EQ(live, 0);
}

TEST(setting_and_clearing_a_handler_for_ever_needs_one_record)
{
    kc_signal_t *s = make();
    kc_slot_t slot;

    bind(&slot, s);
    for (int i = 0; i < 1000; i++) {
        CHECK(kc_slot_on(&slot, i % 2 ? LOW : HIGH, note, "a"));
        CHECK(kc_slot_clear(&slot, i % 2 ? LOW : HIGH));
    }
    CHECK_EQ(allocations, 1); /* the signal */
    end(&slot, s);
}

TEST(without_memory_create_is_null_on_is_false_chain_is_enomem_and_bind_works)
{
    kc_signal_t *s = make(), *to = make();
    kc_slot_t slot;

    kc__os_fault = no_memory;
    CHECK_PTR(kc_signal_create(0), NULL);
    CHECK_PTR(kc__signal_new_owned(NULL, NULL), NULL);
    bind(&slot, s);
    CHECK(kc_slot_on(&slot, LOW, note, "a"));   /* the one inside the slot */
    CHECK(!kc_slot_on(&slot, HIGH, note, "b")); /* no memory, */
    CHECK(!kc_slot_triggered(&slot, HIGH));     /* and not because it was triggered */
    CHECK_EQ(kc_slot_chain(&slot, to), -ENOMEM);
    kc_signal_emit(s, LOW | HIGH);
    CHECK_STR(noted(), "a");
    CHECK_EQ(kc_signal_state(to), 0);
    CHECK(kc_slot_on(&slot, HIGH, note, "c")); /* that record is free again */
    kc__os_fault = NULL;
    CHECK(kc_slot_on(&slot, HIGH2, note, "d"));
    kc_signal_emit(s, HIGH | HIGH2);
    CHECK_EQ(strlen(noted()), 2);
    kc_signal_release(to);
    end(&slot, s);
}

TEST(null_is_einval_where_there_is_an_error_to_return)
{
    kc_signal_t *s = make();
    kc_slot_t slot, unbound = { 0 };

    CHECK_EQ(kc_slot_bind(NULL, s, KC_SIG_ALL), -EINVAL);
    CHECK_EQ(kc_slot_bind(&slot, NULL, KC_SIG_ALL), -EINVAL);
    bind(&slot, s);
    CHECK_EQ(kc_slot_chain(NULL, s), -EINVAL);
    CHECK_EQ(kc_slot_chain(&slot, NULL), -EINVAL);
    CHECK_EQ(kc_slot_chain(&unbound, s), -EINVAL);
    CHECK(!kc_slot_clear(&unbound, LOW));
    kc_slot_unbind(&unbound);
    end(&slot, s);
}

TEST_ABORTS(emitting_on_null_aborts, "the signal is NULL (rule G4,")
{
    kc_signal_emit(NULL, LOW);
}

TEST_ABORTS(unbinding_null_aborts, "kc_slot_unbind: the slot is NULL (rule G4,")
{
    kc_slot_unbind(NULL);
}

TEST_ABORTS(a_handler_on_an_unbound_slot_aborts, "kc_slot_on: the slot is not bound (rule G4,")
{
    kc_slot_t slot = { 0 };

    (void)!kc_slot_on(&slot, LOW, note, "a");
}
