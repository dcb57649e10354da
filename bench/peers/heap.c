/* SPDX-License-Identifier: MIT */
/*
 * heap.c - the plain way: a 4-ary heap in an array of { due, order of adding, timer }, each group
 * of siblings in at most two cache lines. In exact order too. Its array has its size from the
 * start; what growing costs is not seen here.
 */
#include "peers/timers.h"

#include <stdlib.h>

struct timer {
    int64_t due;
    size_t at; /* in the array */
    void (*fn)(struct timer *t);
};

struct record {
    _Alignas(KB_TIMER_RECORD) struct timer timer;
};

struct entry {
    int64_t due;
    uint64_t seq;
    struct timer *timer;
};

struct set {
    struct entry *heap;
    size_t size;
    uint64_t seq;
    struct record *record; /* one more than count */
    size_t count;
    int64_t now, after_ns, range_ns;
};

static bool is_before(const struct entry *a, const struct entry *b)
{
    return a->due < b->due || (a->due == b->due && a->seq < b->seq);
}

static void put(struct set *s, size_t i, struct entry e)
{
    s->heap[i] = e;
    e.timer->at = i;
}

static void up(struct set *s, size_t i, struct entry e)
{
    for (; i > 0 && is_before(&e, &s->heap[(i - 1) / 4]); i = (i - 1) / 4)
        put(s, i, s->heap[(i - 1) / 4]);
    put(s, i, e);
}

static void down(struct set *s, size_t i, struct entry e)
{
    for (size_t first; (first = 4 * i + 1) < s->size;) {
        size_t least = first, end = first + 4 < s->size ? first + 4 : s->size;

        for (size_t k = first + 1; k < end; k++)
            if (is_before(&s->heap[k], &s->heap[least]))
                least = k;
        if (!is_before(&s->heap[least], &e))
            break;
        put(s, i, s->heap[least]);
        i = least;
    }
    put(s, i, e);
}

static __attribute__((noinline)) void heap_add(struct set *s, struct timer *t, int64_t due)
{
    t->due = due;
    up(s, s->size++, (struct entry){ due, s->seq++, t });
}

static __attribute__((noinline)) void heap_remove(struct set *s, const struct timer *t)
{
    size_t i = t->at;
    struct entry e = s->heap[--s->size];

    if (i == s->size)
        return;
    if (i > 0 && is_before(&e, &s->heap[(i - 1) / 4]))
        up(s, i, e);
    else
        down(s, i, e);
}

static void start(struct set *s, struct timer *t)
{
    heap_add(s, t, s->now + s->after_ns + kb_timers_below(s->range_ns));
}

static struct set *expiring;

static void fired(struct timer *t)
{
    start(expiring, t);
}

static void *make(size_t count, int64_t after_ns, int64_t range_ns)
{
    struct set *s = kb_timers_alloc(1, sizeof *s);

    *s = (struct set){ .heap = kb_timers_alloc(count + 1, sizeof(struct entry)),
                       .record = kb_timers_alloc(count + 1, sizeof(struct record)),
                       .count = count,
                       .now = kb_now(),
                       .after_ns = after_ns,
                       .range_ns = range_ns };
    for (size_t i = 0; i <= count; i++) {
        s->record[i].timer.fn = fired;
        if (i < count)
            start(s, &s->record[i].timer);
    }
    return s;
}

static void drop(void *set)
{
    struct set *s = set;

    free(s->heap);
    free(s->record);
    free(s);
}

static void same(void *set, uint64_t n)
{
    struct set *s = set;

    for (uint64_t i = 0; i < n; i++) {
        start(s, &s->record[s->count].timer);
        heap_remove(s, &s->record[s->count].timer);
    }
}

static void any(void *set, uint64_t n)
{
    struct set *s = set;

    for (uint64_t i = 0; i < n; i++) {
        struct timer *t = &s->record[kb_timers_random() % s->count].timer;

        heap_remove(s, t);
        start(s, t);
    }
}

static void next(void *set, uint64_t n)
{
    struct set *s = set;
    int64_t sum = 0;

    for (uint64_t i = 0; i < n; i++) {
        heap_add(s, &s->record[s->count].timer, s->now + 1000000);
        sum += s->heap[0].due;
        heap_remove(s, &s->record[s->count].timer);
        sum ^= s->heap[0].due;
    }
    kb_keep(&sum);
}

static uint64_t expire(void *set)
{
    struct set *s = set;
    uint64_t count = 0;

    expiring = s;
    s->now = kb_now();
    for (; s->heap[0].due <= s->now; count++) {
        struct timer *t = s->heap[0].timer;

        heap_remove(s, t);
        t->fn(t);
    }
    return count;
}

const struct kb_timers kb_timers_heap = {
    "4-ary heap in an array", make, drop, same, any, next, expire
};
