/* SPDX-License-Identifier: MIT */
/*
 * deque_model.c - src/base/deque.h and deque.c under the model checker.
 *
 * WHAT     The deque is the real code; its memory comes from an arena that setup empties. Items are
 *          plain values that the owner writes before the push, and that whoever gets one reads and
 *          overwrites: an item that comes without its data, or to two, is a failure. What is left
 *          in the end the check pops: an item that nobody gets is one too.
 *
 * SHAPE    last      one item, the owner and two thieves
 *          both_ends the owner pushes two and pops two, two thieves steal
 *          refill    the owner pops one and pushes another into its slot, two thieves steal
 *          grow      the third push grows the array from two to four while a thief steals two
 *          cool      the third push grows the array; when the deque is empty the owner goes back to
 *                    the small one, whose pages, of one slot each, read as 0, as do the larger
 *                    one's, pushes another, and grows again, while a thief steals two
 *          reuse     push into slots that a thief has emptied. Here no swap of the thief's fails,
 *                    so the slots may count as plain data: its read of a slot must come before
 *                    the owner's next write to it. (What it would get otherwise, the new item in
 *                    place of its own, takes a load that reads what is stored later, and that the
 *                    checker leaves out.)
 *
 * CONTROLS Each id of deque.h is weakened; the models must fail then. MODEL_TRACE=1 shows how.
 */
#include "base/atomic.h"
#include "harness.h"
#include "model_case.h"

#include <string.h>

/* For `reuse`: relaxed accesses to a slot count as accesses to the plain mark of that slot too. */
static void slot_touch(const void *p, bool write);

#undef kc_load_relaxed
#undef kc_store_relaxed
#define kc_load_relaxed(p) (slot_touch((p), false), MODEL_LOAD_(p, "load_relaxed", MODEL_RELAXED))
#define kc_store_relaxed(p, v)                                                                    \
    (slot_touch((p), true), MODEL_STORE_(p, v, "store_relaxed", MODEL_RELAXED))

#include "base/deque.h"
#include "base/os.h"

enum { ITEMS = 6 };

static struct {
    kc_deque_t d;
    int value[ITEMS]; /* plain: an item is a pointer to one */
    int mark[2];      /* plain, one for each slot of the first array */
    _Alignas(16) char arena[256];

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    size_t used;      /* of the arena */
    bool plain_slots; /* they have marks */
    int pushed;
    bool got[ITEMS];
} s;

void *kc__alloc(size_t size)
{
    void *p = s.arena + s.used;

    s.used += kc__align_up(size, 16);
    KC_ASSERT(s.used <= sizeof s.arena);
    return p;
}

void kc__free(void *p)
{
    (void)p;
}

size_t kc__os_page_size(void)
{
    return sizeof(void *);
}

void kc__os_trim(void *p, size_t size)
{
    KC_ATOMIC(void *) *slot = p;

    for (size_t i = 0; i < size / sizeof *slot; i++)
        kc_store_relaxed(&slot[i], NULL);
}

static void slot_touch(const void *p, bool write)
{
    for (int i = 0; i < 2 && s.plain_slots; i++) {
        if (p != &s.d.array->slot[i])
            continue;
        if (write)
            model_write(&s.mark[i], 0);
        else
            (void)model_read(&s.mark[i]);
    }
}

static void reset(void)
{
    static const char *const names[ITEMS] = { "value 0", "value 1", "value 2",
                                              "value 3", "value 4", "value 5" };

    memset(&s, 0, sizeof s);
    model_assert(kc__deque_init(&s.d, 2) == 0);
    model_name(&s.d.top, "top");
    model_name(&s.d.bottom, "bottom");
    model_name(&s.d.array, "array");
    model_name(&s.mark[0], "slot 0");
    model_name(&s.mark[1], "slot 1");
    for (int i = 0; i < ITEMS; i++)
        model_name(&s.value[i], names[i]);
}

/* ---- the steps of the models --------------------------------------------------------------- */

static void push(void)
{
    int *item = &s.value[s.pushed];

    model_write(item, 100 + s.pushed);
    s.pushed++;
    model_assert(kc__deque_push(&s.d, item) == 0);
}

static void got(int *item)
{
    model_assert(item >= s.value && item < s.value + ITEMS);
    int i = (int)(item - s.value);
    model_assert(!s.got[i]);
    s.got[i] = true;
    model_assert(model_read(item) == 100 + i);
    model_write(item, 0);
}

static void pop(void)
{
    int *item = kc__deque_pop(&s.d);

    if (item)
        got(item);
}

static void thief(int times)
{
    for (int i = 0; i < times; i++) {
        void *item = NULL;
        kc_steal_t what = kc__deque_steal(&s.d, &item);
        if (what == KC_STEAL_GOT)
            got(item);
        else
            model_assert(item == NULL);
    }
}

static void owner_of_one(int arg)
{
    (void)arg;
    push();
    pop();
}

static void owner_of_two(int arg)
{
    (void)arg;
    push();
    push();
    pop();
    pop();
}

static void owner_refills(int arg)
{
    (void)arg;
    push();
    push();
    pop();
    push();
    pop();
}

static void owner_grows(int arg)
{
    (void)arg;
    push();
    push();
    push();
    pop();
}

static bool cools_early; /* wrong: gives pages back when one is left */

static void owner_cools(int arg)
{
    (void)arg;
    push();
    push();
    push();
    pop();
    pop();
    if (!cools_early)
        pop();
    else
        kc__os_trim((void *)s.d.array->slot, 2 * sizeof(void *));
    kc__deque_cool(&s.d, 2);
    push();
    push();
    push();
    pop();
}

/* Both wait without learning anything from it but that there is room, or an item. */
static void owner_reuses(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        model_wait_until(kc_load_relaxed(&s.d.top) > i - 2);
        push();
    }
}

static void thief_follows(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        void *item = NULL;
        model_wait_until(kc_load_relaxed(&s.d.bottom) > i);
        model_assert(kc__deque_steal(&s.d, &item) == KC_STEAL_GOT);
        model_assert(item == &s.value[i]);
        got(item);
    }
}

static void reset_with_plain_slots(void)
{
    reset();
    s.plain_slots = true;
}

static void check(void)
{
    int *item;

    model_assert(s.d.top <= s.d.bottom && s.d.old_top <= s.d.top);
    while ((item = kc__deque_pop(&s.d)) != NULL)
        got(item);
    for (int i = 0; i < s.pushed; i++)
        model_assert(s.got[i]);
}

static void check_no_growth(void)
{
    check();
    model_assert(s.d.array->mask == 1);
}

static const struct model last = {
    "last",
    reset,
    check_no_growth,
    3,
    { { "owner", owner_of_one, 0 }, { "thief", thief, 1 }, { "second thief", thief, 1 } }
};
static const struct model both_ends = {
    "both_ends",
    reset,
    check_no_growth,
    3,
    { { "owner", owner_of_two, 0 }, { "thief", thief, 1 }, { "second thief", thief, 1 } }
};
static const struct model refill = {
    "refill",
    reset,
    check_no_growth,
    3,
    { { "owner", owner_refills, 0 }, { "thief", thief, 1 }, { "second thief", thief, 1 } }
};
static const struct model grow = {
    "grow", reset, check, 2, { { "owner", owner_grows, 0 }, { "thief", thief, 2 } }
};
static const struct model cool = {
    "cool", reset, check, 2, { { "owner", owner_cools, 0 }, { "thief", thief, 2 } }
};
static const struct model reuse = { "reuse",
                                    reset_with_plain_slots,
                                    check_no_growth,
                                    2,
                                    { { "owner", owner_reuses, 3 },
                                      { "thief", thief_follows, 3 } } };

const struct model_file model_file = { .enters = NULL };

TEST(the_last_item_goes_to_one_of_three)
{
    passes(&last, 4);
}

TEST(items_at_both_ends_go_to_one_each)
{
    passes(&both_ends, 3);
}

TEST(a_slot_filled_again_is_not_taken_for_what_it_was)
{
    passes(&refill, 3);
}

TEST(nothing_is_lost_when_the_array_grows_under_a_thief)
{
    passes(&grow, 4);
}

TEST(nothing_is_lost_when_the_array_shrinks_under_a_thief)
{
    passes(&cool, 3);
}

TEST(a_slot_is_used_again_when_its_thief_has_left_it)
{
    passes(&reuse, 4);
}

TEST(control_deque_1_relaxed_reuses_a_slot_too_early)
{
    needs(&reuse, "deque.1", MODEL_RELAXED, "data race: owner writes slot");
}

TEST(control_deque_2_relaxed_hides_the_item)
{
    needs(&last, "deque.2", MODEL_RELAXED, "thief reads value 0, written by owner");
}

TEST(control_deque_3_relaxed_hides_the_copies)
{
    needs(&grow, "deque.3", MODEL_RELAXED, "not true: item >= s.value");
}

TEST(control_deque_4_relaxed_hides_the_items_below)
{
    needs(&both_ends, "deque.4", MODEL_RELAXED, "thief reads value 0, written by owner");
}

TEST(control_deque_5_without_seq_cst_gives_one_item_to_two)
{
    needs(&both_ends, "deque.5", MODEL_ACQ_REL, "not true: !s.got[i]");
}

TEST(control_deque_6_without_seq_cst_gives_one_item_to_two)
{
    needs(&both_ends, "deque.6", MODEL_ACQ_REL, "not true: !s.got[i]");
}

TEST(control_deque_7_relaxed_misses_the_item)
{
    needs(&last, "deque.7", MODEL_RELAXED, "thief reads value 0, written by owner");
}

TEST(control_deque_8_relaxed_misses_the_copies)
{
    needs(&grow, "deque.8", MODEL_RELAXED, "not true: item >= s.value");
}

TEST(control_deque_9_without_release_gives_up_a_slot_too_early)
{
    needs(&reuse, "deque.9", MODEL_ACQUIRE, "data race: owner writes slot");
}

TEST(control_a_deque_that_shrinks_before_it_is_empty)
{
    cools_early = true;
    catches(&cool, "cools_early", "not true: ");
}
