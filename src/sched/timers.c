/* SPDX-License-Identifier: MIT */
/*
 * timers.c - a timing wheel with an ordered front.
 *
 * WHAT     Most timers are timeouts, cancelled long before they are due, so a timer is put into a
 *          slot unsorted and only the few that come next are sorted. Wheel: Varghese and Lauck,
 *          "Hashed and Hierarchical Timing Wheels", 1987, with the places of a radix heap (Ahuja
 *          and others, 1990). Front: Fredman and others, "The Pairing Heap", 1986.
 *
 * SHAPE    A due time is a number of 11 digits of 6 bits. A timer in the wheel lies at the level of
 *          the highest digit in which it differs from base, in the slot of its own digit there:
 *
 *            base      2 17 40  8        (the higher digits are equal everywhere)
 *            due  a    2 17 40 11        level 0, slot 11
 *            due  b    2 17 52  8        level 1, slot 52      level l is earlier than level l + 1,
 *            due  c    2 17 52 60        level 1, slot 52      slot s is earlier than slot s + 1
 *            due  d    3  0  0  0        level 3, slot 3
 *
 *               | front: a pairing heap ------| wheel: lists, newest first -->
 *               root                         last                               time -->
 *
 *          When the front is empty and somebody asks, it gets the earliest slot (front_fill). If
 *          that has many timers they are first spread over the levels below; a timer goes down once
 *          for each of its digits at most. Empty time costs nothing: bits tell which slots are
 *          used. Those that go to the front are sorted and make a chain, a heap in which each has
 *          one child, and taking them off takes no comparison.
 *          Spreading a slot is a walk over timers that have left the cache, and each says where the
 *          next one is. So a slot has four lists, lanes, and four misses are under way at a time.
 *          A timer that is added before `last` goes into the front. Should that become large,
 *          because the front was filled with something far ahead, then what is later than now
 *          returns to the wheel (front_shrink); that takes a number of additions proportional to
 *          what it costs.
 *
 *            off --add--> wheel --front_fill--> front --pop, remove--> off
 *             `---add------------------^--'--front_shrink--'
 *
 * RULES    R1 due <= last in the front and nowhere else.  R2 base <= last, or the wheel is empty.
 *          R3 a parent comes before its children.  R4 each timer is in its place and counted.
 *          All by kc__timers_check; what some loads tell, at each change by kc__timers_are_legal.
 *
 * PROGRESS add to the wheel, remove from it, next with a front: a few steps. Else O(log n)
 *          amortised: a single front_fill or pop may take long, after as many quick additions.
 *
 * WHY NOT  (docs/design/timers.md has the measurements)
 *          A heap alone, pairing or 4-ary: it sorts those that are never due; and the 4-ary needs
 *          memory when a timer is added.
 *          A wheel of ticks that fires a slot in any order: timers must run in order (S8, T6).
 *          A wheel alone with 1 ns slots: sparse timers would go down all the levels one by one.
 *          One list for each slot: 3 times slower to expire with a million pending.
 *          The front refilled as soon as it is empty: timeouts that are cancelled in order would
 *          all pass through it.
 */
#include "sched/timers.h"

#include <string.h>

enum {
    FILL_MAX = 64,    /* so many of a slot are sorted at once; more are spread first */
    FRONT_SMALL = 64, /* a front of this size is small */
    SHRINK_SHARE = 8, /* front_shrink handles at most so many timers for each one added */
    SLOT_MASK = KC_TIMER_SLOTS - 1,
};

_Static_assert(sizeof(kc_timer_t) <= 48, "a timer is part of everything that can wait");

/* Times as unsigned numbers of the same order, for their digits. */
KC_INLINE uint64_t key_of(kc_time_t time)
{
    return (uint64_t)time ^ (UINT64_C(1) << 63);
}

/* t comes before other. */
KC_INLINE bool is_before(const kc_timer_t *t, const kc_timer_t *other)
{
    return t->due < other->due || (t->due == other->due && t->seq < other->seq);
}

/* ---- lists: slots, and siblings in the heap ------------------------------------------------ */

KC_INLINE void list_push(kc_timer_t **head, kc_timer_t *t)
{
    t->next = *head;
    t->where = head;
    if (*head)
        (*head)->where = &t->next;
    *head = t;
}

KC_INLINE void list_cut(kc_timer_t *t)
{
    *t->where = t->next;
    if (t->next)
        t->next->where = t->where;
}

/* ---- the wheel ----------------------------------------------------------------------------- */

KC_INLINE unsigned level_of(uint64_t key, uint64_t base)
{
    return (unsigned)(63 - __builtin_clzll((key ^ base) | 1)) / KC_TIMER_BITS;
}

KC_INLINE unsigned digit_of(uint64_t key, unsigned level)
{
    return (unsigned)(key >> level * KC_TIMER_BITS) & SLOT_MASK;
}

/* The lowest `level` digits, all ones. */
KC_INLINE uint64_t mask_of(unsigned level)
{
    return (UINT64_C(1) << level * KC_TIMER_BITS) - 1;
}

/* Timers go to the lanes in turn, so that all of a slot's lanes are about as long. */
KC_INLINE void slot_add(kc_timers_t *ts, unsigned level, unsigned digit, kc_timer_t *t)
{
    list_push(&ts->slot[level][digit].lane[t->seq % KC_TIMER_LANES], t);
    ts->used[level] |= UINT64_C(1) << digit;
    ts->levels |= UINT64_C(1) << level;
}

KC_INLINE void wheel_add(kc_timers_t *ts, kc_timer_t *t)
{
    uint64_t key = key_of(t->due);
    unsigned level = level_of(key, ts->base);

    slot_add(ts, level, digit_of(key, level), t);
}

/* Takes all out of a slot; they are in *out. False: there are none, others have been removed. */
static bool slot_take(kc_timers_t *ts, unsigned level, unsigned digit, kc_timer_slot_t *out)
{
    kc_timer_slot_t *slot = &ts->slot[level][digit];
    bool any = false;

    *out = *slot;
    for (int i = 0; i < KC_TIMER_LANES; i++) {
        any = any || slot->lane[i];
        slot->lane[i] = NULL;
    }
    ts->used[level] &= ~(UINT64_C(1) << digit);
    if (ts->used[level] == 0)
        ts->levels &= ~(UINT64_C(1) << level);
    return any;
}

/* The next of a lane, NULL at its end; the one behind it is on its way to the cache then. */
KC_INLINE kc_timer_t *lane_pop(kc_timer_t **lane)
{
    kc_timer_t *t = *lane;

    if (t) {
        *lane = t->next;
        __builtin_prefetch(t->next, 1);
    }
    return t;
}

/* The time at which the earliest slot that may have timers begins: no timer is earlier. */
KC_INLINE uint64_t wheel_start(const kc_timers_t *ts, unsigned *level, unsigned *digit)
{
    *level = (unsigned)__builtin_ctzll(ts->levels);
    *digit = (unsigned)__builtin_ctzll(ts->used[*level]);
    return (ts->base & ~mask_of(*level) & ~((uint64_t)SLOT_MASK << *level * KC_TIMER_BITS)) |
           (uint64_t)*digit << *level * KC_TIMER_BITS;
}

/* ---- the front ----------------------------------------------------------------------------- */

/* Makes one heap of two; its root's next and where are for the caller to set. */
KC_INLINE kc_timer_t *heap_merge(kc_timer_t *a, kc_timer_t *b)
{
    if (is_before(b, a)) {
        kc_timer_t *swap = a;
        a = b;
        b = swap;
    }
    list_push(&a->child, b);
    return a;
}

/* Makes one heap of a list of them: in pairs, then the pairs from the last to the first. */
static kc_timer_t *heap_merge_all(kc_timer_t *list)
{
    kc_timer_t *pairs = NULL, *heap;

    if (!list || !list->next)
        return list;
    while (list) {
        kc_timer_t *a = list, *b = a->next;

        list = b ? b->next : NULL;
        heap = b ? heap_merge(a, b) : a;
        heap->next = pairs;
        pairs = heap;
    }
    heap = pairs;
    pairs = pairs->next;
    while (pairs) {
        kc_timer_t *pair = pairs;

        pairs = pair->next;
        heap = heap_merge(heap, pair);
    }
    return heap;
}

KC_INLINE void front_set(kc_timers_t *ts, kc_timer_t *root)
{
    ts->root = root;
    if (root) {
        root->next = NULL;
        root->where = &ts->root;
    }
}

/* t has no children. */
KC_INLINE void front_add(kc_timers_t *ts, kc_timer_t *t)
{
    front_set(ts, ts->root ? heap_merge(ts->root, t) : t);
    ts->front_count++;
}

KC_INLINE void front_remove(kc_timers_t *ts, kc_timer_t *t)
{
    kc_timer_t *heap = heap_merge_all(t->child);

    if (t == ts->root) {
        front_set(ts, heap);
    } else {
        list_cut(t);
        if (heap)
            front_set(ts, heap_merge(ts->root, heap));
    }
    t->child = NULL;
    ts->front_count--;
}

/* Sorts timers of one slot; they come in any order, often the latest first. */
static void batch_sort(kc_timer_t **batch, unsigned count)
{
    for (unsigned i = 1; i < count; i++) {
        kc_timer_t *t = batch[i];
        unsigned k = i;

        for (; k > 0 && is_before(t, batch[k - 1]); k--)
            batch[k] = batch[k - 1];
        batch[k] = t;
    }
}

/*
 * Adds a sorted batch as a chain. Where slots were long, with many timers of one due time, batches
 * come in order or in the opposite order, and the chains make one chain.
 */
static kc_timer_t *front_chain(kc_timers_t *ts, kc_timer_t **batch, unsigned count,
                               kc_timer_t *tail)
{
    kc_timer_t *first = batch[0], *end = batch[count - 1];

    for (unsigned i = 0; i + 1 < count; i++) {
        batch[i]->child = NULL;
        list_push(&batch[i]->child, batch[i + 1]);
    }
    end->child = NULL;
    ts->front_count += count;
    if (!ts->root) {
        front_set(ts, first);
        return end;
    }
    KC_ASSERT(tail);
    if (is_before(tail, first)) {
        list_push(&tail->child, first);
        return end;
    }
    if (is_before(end, ts->root)) {
        list_push(&end->child, ts->root);
        front_set(ts, first);
    } else {
        front_set(ts, heap_merge(ts->root, first));
    }
    return tail;
}

/* Up to FILL_MAX timers out of a slot. */
static unsigned batch_take(kc_timer_slot_t *slot, kc_timer_t **batch)
{
    unsigned count = 0;
    bool any = true;

    while (any && count + KC_TIMER_LANES <= FILL_MAX) {
        any = false;
        for (int i = 0; i < KC_TIMER_LANES; i++) {
            kc_timer_t *t = lane_pop(&slot->lane[i]);

            if (t)
                batch[count++] = t;
            any = any || t;
        }
    }
    return count;
}

static bool slot_is_empty(const kc_timer_slot_t *slot)
{
    const kc_timer_t *any = NULL;

    for (int i = 0; i < KC_TIMER_LANES && !any; i++)
        any = slot->lane[i];
    return !any;
}

static void slot_spread(kc_timers_t *ts, kc_timer_slot_t *slot)
{
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < KC_TIMER_LANES; i++) {
            kc_timer_t *t = lane_pop(&slot->lane[i]);

            if (t)
                wheel_add(ts, t);
            any = any || t;
        }
    }
}

/* Fills the front, which is empty, from the wheel, which isn't. */
static KC_NOINLINE void front_fill(kc_timers_t *ts)
{
    kc_timer_t *batch[FILL_MAX], *tail = NULL;

    while (!ts->root) {
        unsigned level, digit, count;
        uint64_t start = wheel_start(ts, &level, &digit);
        kc_timer_slot_t slot;

        if (!slot_take(ts, level, digit, &slot))
            continue;
        ts->base = start;
        count = batch_take(&slot, batch);
        if (level == 0 || slot_is_empty(&slot)) {
            ts->last = start | mask_of(level);
            for (; count > 0; count = batch_take(&slot, batch)) {
                batch_sort(batch, count);
                tail = front_chain(ts, batch, count, tail);
            }
            break;
        }
        for (unsigned i = 0; i < count; i++)
            wheel_add(ts, batch[i]);
        slot_spread(ts, &slot);
    }
    ts->front_limit =
        ts->front_count + FRONT_SMALL + ts->count / SHRINK_SHARE; /* see front_shrink */
}

/*
 * Moves base back to now: all that lies at the levels below the digit in which the two differ is
 * in one slot then.
 */
static void wheel_lower(kc_timers_t *ts, uint64_t now)
{
    unsigned level = level_of(ts->base, now), digit = digit_of(ts->base, level);

    while (ts->levels & ((UINT64_C(1) << level) - 1)) {
        unsigned from = (unsigned)__builtin_ctzll(ts->levels);
        kc_timer_slot_t slot;

        slot_take(ts, from, (unsigned)__builtin_ctzll(ts->used[from]), &slot);
        for (int i = 0; i < KC_TIMER_LANES; i++)
            for (kc_timer_t *t; (t = lane_pop(&slot.lane[i])) != NULL;)
                slot_add(ts, level, digit, t);
    }
    ts->base = now;
}

/*
 * The front has become large: it keeps what is due by now, the rest goes to the wheel. All timers
 * may have to move for it, here and in front_fill later, so it happens only after a share of their
 * number has been added to the front.
 */
static KC_NOINLINE void front_shrink(kc_timers_t *ts)
{
    kc_timer_t *list = ts->root;

    ts->front_limit = SIZE_MAX;
    if (ts->last <= ts->now)
        return;
    if (ts->now < ts->base)
        wheel_lower(ts, ts->now);
    ts->base = ts->last = ts->now;
    ts->root = NULL;
    ts->front_count = 0;
    while (list) {
        kc_timer_t *t = list, *child = t->child;

        list = t->next;
        t->child = NULL;
        while (child) { /* those will be looked at too */
            kc_timer_t *next = child->next;

            child->next = list;
            list = child;
            child = next;
        }
        if (key_of(t->due) <= ts->last)
            front_add(ts, t);
        else
            wheel_add(ts, t);
    }
}

/* ---- what others call ---------------------------------------------------------------------- */

void kc__timers_init(kc_timers_t *ts, kc_time_t now)
{
    memset(ts, 0, sizeof *ts);
    ts->now = key_of(now);
}

KC_INLINE void add(kc_timers_t *ts, kc_timer_t *t, kc_time_t due, uint64_t seq)
{
    KC_ASSERT(!kc__timer_is_pending(t));
    t->due = due;
    t->seq = seq;
    t->child = NULL;
    if (ts->count++ == 0) { /* as long as there are few, all are in the front */
        ts->last = UINT64_MAX;
        ts->front_limit = FRONT_SMALL;
    }
    if (key_of(due) > ts->last) {
        wheel_add(ts, t);
    } else {
        front_add(ts, t);
        if (ts->front_count > ts->front_limit)
            front_shrink(ts);
    }
    KC_CHECK(kc__timers_are_legal(ts) && kc__timer_is_in_place(ts, t));
}

void kc__timers_add(kc_timers_t *ts, kc_timer_t *t, kc_time_t due)
{
    add(ts, t, due, ts->seq++);
}

void kc__timers_add_again(kc_timers_t *ts, kc_timer_t *t, kc_time_t due)
{
    KC_ASSERT(t->seq < ts->seq);
    add(ts, t, due, t->seq);
}

void kc__timers_remove(kc_timers_t *ts, kc_timer_t *t)
{
    KC_ASSERT(kc__timer_is_pending(t));
    KC_CHECK(kc__timer_is_in_place(ts, t));
    ts->count--;
    if (key_of(t->due) > ts->last)
        list_cut(t);
    else
        front_remove(ts, t);
    t->where = NULL;
    KC_CHECK(kc__timers_are_legal(ts));
}

kc_timer_t *kc__timers_pop(kc_timers_t *ts, kc_time_t now)
{
    unsigned level, digit;

    ts->now = key_of(now);
    if (!ts->root) {
        if (ts->count == 0 || wheel_start(ts, &level, &digit) > ts->now)
            return NULL;
        front_fill(ts);
    }
    kc_timer_t *t = ts->root;
    if (t->due > now)
        return NULL;
    front_remove(ts, t);
    ts->count--;
    t->where = NULL;
    KC_CHECK(kc__timers_are_legal(ts));
    return t;
}

kc_time_t kc__timers_next(const kc_timers_t *ts)
{
    if (ts->count == 0)
        return KC_FOREVER;
    /* To the caller nothing changes: const means that the timers stay as they are. */
    if (!ts->root)
        front_fill((kc_timers_t *)(uintptr_t)ts);
    KC_ASSERT(ts->root);
    return ts->root->due;
}

/* ---- the rules ----------------------------------------------------------------------------- */

/* The root of the front is in its place, and before its first child. */
static bool is_root(const kc_timers_t *ts, const kc_timer_t *t)
{
    return t->where == &ts->root && !t->next && key_of(t->due) <= ts->last && t->seq < ts->seq &&
           (!t->child || (*t->child->where == t->child && is_before(t, t->child)));
}

bool kc__timers_are_legal(const kc_timers_t *ts)
{
    if (ts->front_count > ts->count || (ts->front_count == 0) != !ts->root) /* R4 */
        return false;
    if (ts->root && !is_root(ts, ts->root)) /* R1, R3, R4 */
        return false;
    return ts->count == ts->front_count || (ts->levels && ts->base <= ts->last); /* R2 */
}

bool kc__timer_is_in_place(const kc_timers_t *ts, const kc_timer_t *t)
{
    uint64_t key = key_of(t->due);

    if (!t->where || *t->where != t || t->seq >= ts->seq) /* R4 */
        return false;
    if (key <= ts->last)
        return ts->root && (t == ts->root || is_before(ts->root, t)); /* R1, R3 */
    unsigned level = level_of(key, ts->base);
    return ts->used[level] >> digit_of(key, level) & 1; /* R4 */
}

/* How many there are in a list of heaps below parent. */
static size_t heap_check(const kc_timers_t *ts, const kc_timer_t *parent, const kc_timer_t *t)
{
    size_t count = 0;

    while (t) {
        KC_ASSERT(*t->where == t && key_of(t->due) <= ts->last); /* R1, R4 */
        KC_ASSERT(!parent || is_before(parent, t));              /* R3 */
        count++;
        if (t->next) {
            count += heap_check(ts, t, t->child);
            t = t->next;
        } else { /* a chain takes no stack */
            parent = t;
            t = t->child;
        }
    }
    return count;
}

static size_t slot_check(const kc_timers_t *ts, unsigned level, unsigned digit)
{
    size_t count = 0;

    for (int i = 0; i < KC_TIMER_LANES; i++)
        for (const kc_timer_t *t = ts->slot[level][digit].lane[i]; t; t = t->next) {
            uint64_t key = key_of(t->due);

            KC_ASSERT(*t->where == t && key > ts->last && key > ts->base); /* R1, R2, R4 */
            KC_ASSERT(level_of(key, ts->base) == level && digit_of(key, level) == digit);
            KC_ASSERT(ts->levels >> level & 1 && ts->used[level] >> digit & 1);
            count++;
        }
    return count;
}

void kc__timers_check(const kc_timers_t *ts)
{
    size_t front = heap_check(ts, NULL, ts->root), wheel = 0;

    for (unsigned level = 0; level < KC_TIMER_LEVELS; level++)
        for (unsigned digit = 0; digit < KC_TIMER_SLOTS; digit++)
            wheel += slot_check(ts, level, digit);
    KC_ASSERT(front == ts->front_count && front + wheel == ts->count); /* R4 */
    KC_ASSERT(wheel == 0 || ts->base <= ts->last);                     /* R2 */
}
