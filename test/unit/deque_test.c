/* SPDX-License-Identifier: MIT */
/*
 * deque_test.c - the work-stealing deque: newest to the owner, oldest to thieves, each item once.
 */
#include "base/deque.h"
#include "base/os.h"
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Items are numbers, as pointers; 0 would be NULL. */
static void *item(int64_t number)
{
    return (void *)(uintptr_t)(number + 1);
}

/* RULES of deque.h; by the owner, and nobody else is at it. */
static void deque_check(const kc_deque_t *d)
{
    int64_t top = kc_load_relaxed(&d->top), bottom = kc_load_relaxed(&d->bottom);

    CHECK_LE(top, bottom);                                        /* R1 */
    CHECK_LE(bottom - top, kc_load_relaxed(&d->array)->mask + 1); /* R2 */
    CHECK_LE(d->old_top, top);                                    /* R3 */
    CHECK_EQ(kc__deque_size_hint(d), bottom - top);
}

static void push_range(kc_deque_t *d, int64_t first, int64_t last)
{
    for (int64_t i = first; i <= last; i++)
        CHECK_EQ(kc__deque_push(d, item(i)), 0);
    deque_check(d);
}

static void check_pops(kc_deque_t *d, int64_t number)
{
    CHECK_PTR(kc__deque_pop(d), item(number));
    deque_check(d);
}

static void check_steals(kc_deque_t *d, int64_t number)
{
    void *got = NULL;

    CHECK_EQ(kc__deque_steal(d, &got), KC_STEAL_GOT);
    CHECK_PTR(got, item(number));
    deque_check(d);
}

static void check_empty(kc_deque_t *d)
{
    void *untouched = d;

    CHECK_PTR(kc__deque_pop(d), NULL);
    CHECK_EQ(kc__deque_steal(d, &untouched), KC_STEAL_EMPTY);
    CHECK_PTR(untouched, d);
    CHECK_EQ(kc__deque_size_hint(d), 0);
    deque_check(d);
}

TEST(a_new_deque_is_empty)
{
    kc_deque_t d;

    CHECK_EQ(kc__deque_init(&d, 8), 0);
    check_empty(&d);
    kc__deque_destroy(&d);
}

TEST(top_and_bottom_lie_on_different_cache_lines)
{
    CHECK_NE(offsetof(kc_deque_t, top) / KC_CACHE_LINE,
             offsetof(kc_deque_t, bottom) / KC_CACHE_LINE);
    CHECK_EQ(_Alignof(kc_deque_t), KC_CACHE_LINE);
}

TEST(the_owner_pops_the_newest_first)
{
    kc_deque_t d;

    CHECK_EQ(kc__deque_init(&d, 8), 0);
    push_range(&d, 0, 7);
    for (int i = 7; i >= 0; i--)
        check_pops(&d, i);
    check_empty(&d);
    kc__deque_destroy(&d);
}

TEST(a_thief_steals_the_oldest_first)
{
    kc_deque_t d;

    CHECK_EQ(kc__deque_init(&d, 8), 0);
    push_range(&d, 0, 7);
    for (int i = 0; i < 8; i++)
        check_steals(&d, i);
    check_empty(&d);
    kc__deque_destroy(&d);
}

TEST(both_ends_of_a_deque_meet_at_the_last_item)
{
    kc_deque_t d;

    CHECK_EQ(kc__deque_init(&d, 4), 0);
    push_range(&d, 0, 2);
    check_steals(&d, 0);
    check_pops(&d, 2);
    check_pops(&d, 1);
    check_empty(&d);
    push_range(&d, 3, 3);
    check_steals(&d, 3);
    check_empty(&d);
    kc__deque_destroy(&d);
}

TEST(slots_are_used_again_without_growing)
{
    kc_deque_t d;

    CHECK_EQ(kc__deque_init(&d, 4), 0);
    push_range(&d, 0, 2);
    for (int i = 3; i < 1000; i++) {
        push_range(&d, i, i);
        check_steals(&d, i - 3);
    }
    CHECK_EQ(kc_load_relaxed(&d.array)->mask, 3);
    kc__deque_destroy(&d);
}

TEST(growing_keeps_the_items_wherever_they_lie)
{
    for (int offset = 0; offset < 9; offset++) {
        kc_deque_t d;

        CHECK_EQ(kc__deque_init(&d, 1), 0);
        for (int i = 0; i < offset; i++) {
            push_range(&d, i, i);
            check_steals(&d, i);
        }
        push_range(&d, 0, 99);
        CHECK_EQ(kc_load_relaxed(&d.array)->mask, 127);
        for (int i = 0; i < 50; i++)
            check_steals(&d, i);
        for (int i = 99; i >= 50; i--)
            check_pops(&d, i);
        check_empty(&d);
        kc__deque_destroy(&d);
    }
}

TEST(old_arrays_stay_readable_and_unchanged)
{
    kc_deque_t d;

    CHECK_EQ(kc__deque_init(&d, 2), 0);
    kc_deque_array_t *first = kc_load_relaxed(&d.array);
    push_range(&d, 0, 63);
    CHECK(first != kc_load_relaxed(&d.array));
    CHECK_PTR(kc_load_relaxed(&first->slot[0]), item(0));
    CHECK_PTR(kc_load_relaxed(&first->slot[1]), item(1));
    kc__deque_destroy(&d);
}

/* ---- without memory ------------------------------------------------------------------------ */

static bool no_memory(const char *what)
{
    return what[0] == 'a'; /* "alloc" */
}

TEST(init_without_memory_is_enomem)
{
    kc_deque_t d;

    kc__os_fault = no_memory;
    CHECK_EQ(kc__deque_init(&d, 8), -ENOMEM);
    kc__os_fault = NULL;
}

TEST(push_without_memory_is_enomem_and_changes_nothing)
{
    kc_deque_t d;

    CHECK_EQ(kc__deque_init(&d, 4), 0);
    push_range(&d, 0, 3);
    kc__os_fault = no_memory;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(kc__deque_push(&d, item(4)), -ENOMEM);
    CHECK_EQ(kc__deque_size_hint(&d), 4);
    check_steals(&d, 0);
    push_range(&d, 4, 4); /* there is room again */
    CHECK_EQ(kc__deque_push(&d, item(5)), -ENOMEM);
    kc__os_fault = NULL;
    push_range(&d, 5, 5);
    for (int i = 5; i >= 1; i--)
        check_pops(&d, i);
    check_empty(&d);
    kc__deque_destroy(&d);
}

/* ---- over threads -------------------------------------------------------------------------- */

enum { THIEVES = 3 };

static struct {
    kc_deque_t d;
    KC_ATOMIC(uint32_t) * taken; /* how often each item was taken */
    KC_ATOMIC(bool) done;
    int64_t items;
    uint64_t seed;
} heist;

struct thief {
    pthread_t thread;
    uint64_t got, lost;
    int64_t last;
};

static void take(void *got)
{
    int64_t number = (int64_t)(uintptr_t)got - 1;

    CHECK(number >= 0 && number < heist.items);
    CHECK_EQ(kc_add_relaxed(&heist.taken[number], 1), 0);
}

/* Numbers are given in the order of the pushes, and a thief takes the oldest: its only grow. */
static void *thread_steals(void *arg)
{
    struct thief *me = arg;
    unsigned idle = 0;

    me->last = -1;
    for (;;) {
        bool done = kc_load_acquire(&heist.done);
        void *got;
        kc_steal_t what = kc__deque_steal(&heist.d, &got);
        if (what == KC_STEAL_GOT) {
            int64_t number = (int64_t)(uintptr_t)got - 1;
            CHECK_GT(number, me->last);
            me->last = number;
            take(got);
            me->got++;
        } else if (what == KC_STEAL_LOST) {
            me->lost++;
        } else if (done) {
            return NULL;
        } else if (++idle % 256 == 0) {
            sched_yield(); /* rarely: who is at it all the time meets the others */
        }
    }
}

/* The owner pushes up to `burst` items, then pops up to `burst`, and so on; in the end each item
 * has been taken once, by the owner or a thief. cools: when it is empty it gives memory back. */
static void run_heist(long few, unsigned burst, size_t capacity, bool cools)
{
    struct thief thieves[THIEVES] = { 0 };
    bool slow = kc_test_under_tsan() || kc_test_under_emulation() || kc_test_under_valgrind();
    uint64_t random = kc_test_seed(), popped = 0, stolen = 0, cooled = 0;
    void *got;

    int64_t items = kc_test_rounds(slow ? few / 8 : few), pushed = 0;
    heist.items = items;
    heist.taken = calloc((size_t)items, sizeof *heist.taken);
    CHECK(heist.taken != NULL);
    CHECK_EQ(kc__deque_init(&heist.d, capacity), 0);
    for (int i = 0; i < THIEVES; i++)
        CHECK_EQ(pthread_create(&thieves[i].thread, NULL, thread_steals, &thieves[i]), 0);
    while (pushed == 0 || (pushed < items && kc_test_has_time())) {
        for (uint64_t n = 1 + kc_test_random(&random) % burst; n > 0 && pushed < items; n--)
            CHECK_EQ(kc__deque_push(&heist.d, item(pushed++)), 0);
        if (kc_test_random(&random) % 64 == 0)
            sched_yield(); /* where there are fewer cores than thieves, they get a turn */
        for (uint64_t n = 1 + kc_test_random(&random) % burst;
             n > 0 && (got = kc__deque_pop(&heist.d)) != NULL; n--, popped++)
            take(got);
        cooled += cools && kc__deque_cool(&heist.d, capacity);
    }
    kc_store_release(&heist.done, true);
    while ((got = kc__deque_pop(&heist.d)) != NULL) {
        take(got);
        popped++;
    }
    for (int i = 0; i < THIEVES; i++) {
        pthread_join(thieves[i].thread, NULL);
        stolen += thieves[i].got;
    }
    check_empty(&heist.d);
    CHECK_EQ(popped + stolen, pushed);
    CHECK_EQ(cooled > 0, cools);
    for (int64_t i = 0; i < pushed; i++)
        CHECK_EQ(kc_load_relaxed(&heist.taken[i]), 1);
    free((void *)heist.taken);
    kc__deque_destroy(&heist.d);
}

TEST(each_item_goes_to_the_owner_or_one_thief)
{
    run_heist(200000, 16, 64, false);
}

TEST(the_last_item_goes_to_the_owner_or_one_thief)
{
    run_heist(100000, 1, 2, false);
}

TEST(growing_under_thieves_loses_nothing)
{
    run_heist(200000, 4096, 1, false);
}

TEST(shrinking_under_thieves_loses_nothing)
{
    run_heist(200000, 2048, 1, true);
}

/* ---- memory that goes back ------------------------------------------------------------------- */

/* Of the array that it has grown to, whether or not it is the one in use. */
static size_t resident_pages(const kc_deque_t *d)
{
    static unsigned char page[1024];
    const kc_deque_array_t *array = kc_load_relaxed(&d->array);
    uintptr_t size = kc__os_page_size();
    size_t n = 0;

    while (array->newer)
        array = array->newer;
    uintptr_t low = kc__align_up((uintptr_t)&array->slot[0], size);
    size_t count = ((uintptr_t)&array->slot[array->mask + 1] - low) / size;
    CHECK_LE(count, sizeof page);
    CHECK_EQ(mincore((void *)low, count * size, page), 0);
    for (size_t i = 0; i < count; i++)
        n += page[i] & 1;
    return n;
}

TEST(an_empty_deque_gives_its_memory_back)
{
    enum { MANY = 100000 };
    kc_deque_t d;

    CHECK_EQ(kc__deque_init(&d, 256), 0);
    for (int round = 0; round < 3; round++) {
        push_range(&d, 0, MANY - 1);
        CHECK(!kc__deque_cool(&d, 1024));
        size_t before = resident_pages(&d);
        CHECK_GT(before, 100000 * sizeof(void *) / kc__os_page_size() / 2);
        for (int64_t i = MANY; i > 0; i--)
            check_pops(&d, i - 1);
        CHECK(kc__deque_cool(&d, 1024));
        CHECK(!kc__deque_cool(&d, 1024));
        CHECK_EQ(kc_load_relaxed(&d.array)->mask, 1023);
        CHECK_EQ(resident_pages(&d), 0);
        check_empty(&d);
    }
    kc__deque_destroy(&d);
}
