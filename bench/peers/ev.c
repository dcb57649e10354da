/* SPDX-License-Identifier: MIT */
/*
 * ev.c - libev's timers: a 4-ary heap in an array, times as floating-point seconds. Through its
 * public calls, so that expiry includes a poll of the kernel for each batch.
 */
#include "peers/timers.h"

#ifdef KB_WITH_EV

#include <ev.h>
#include <stdlib.h>

struct record {
    _Alignas(KB_TIMER_RECORD) ev_timer timer;
};

struct set {
    struct ev_loop *loop;
    struct record *record; /* one more than count */
    size_t count;
    double after, range;
    uint64_t expired;
};

static double due(const struct set *s)
{
    return s->after + s->range * 0x1p-53 * (double)(kb_timers_random() >> 11);
}

static void start(struct set *s, ev_timer *t)
{
    ev_timer_set(t, due(s), 0.);
    ev_timer_start(s->loop, t);
}

static void fired(struct ev_loop *loop, ev_timer *t, int events)
{
    struct set *s = t->data;

    (void)loop;
    (void)events;
    s->expired++;
    start(s, t);
}

static void *make(size_t count, int64_t after_ns, int64_t range_ns)
{
    struct set *s = kb_timers_alloc(1, sizeof *s);

    *s = (struct set){ .loop = ev_loop_new(EVFLAG_AUTO),
                       .record = kb_timers_alloc(count + 1, sizeof(struct record)),
                       .count = count,
                       .after = (double)after_ns / 1e9,
                       .range = (double)range_ns / 1e9 };
    for (size_t i = 0; i <= count; i++) {
        ev_timer *t = &s->record[i].timer;

        ev_init(t, fired);
        t->data = s;
        if (i < count)
            start(s, t);
    }
    return s;
}

static void drop(void *set)
{
    struct set *s = set;

    ev_loop_destroy(s->loop);
    free(s->record);
    free(s);
}

static void same(void *set, uint64_t n)
{
    struct set *s = set;
    ev_timer *t = &s->record[s->count].timer;

    for (uint64_t i = 0; i < n; i++) {
        start(s, t);
        ev_timer_stop(s->loop, t);
    }
}

static void any(void *set, uint64_t n)
{
    struct set *s = set;

    for (uint64_t i = 0; i < n; i++) {
        ev_timer *t = &s->record[kb_timers_random() % s->count].timer;

        ev_timer_stop(s->loop, t);
        start(s, t);
    }
}

static uint64_t expire(void *set)
{
    struct set *s = set;

    s->expired = 0;
    ev_run(s->loop, EVRUN_NOWAIT);
    return s->expired;
}

const struct kb_timers kb_timers_ev = { "libev", make, drop, same, any, NULL, expire };

#else

const struct kb_timers kb_timers_ev = { .name = "libev" };

#endif
