/* SPDX-License-Identifier: MIT */
/*
 * uv.c - libuv's timers: a pointer heap, times in milliseconds, so that those of one millisecond
 * are in order of starting only. Expiry includes a poll of the kernel for each batch.
 */
#include "peers/timers.h"

#ifdef KB_WITH_UV

#include <stdlib.h>
#include <uv.h>

struct record {
    _Alignas(KB_TIMER_RECORD) uv_timer_t timer;
};

struct set {
    uv_loop_t loop;
    struct record *record; /* one more than count */
    size_t count;
    int64_t after_ns, range_ns;
    uint64_t expired;
};

static void fired(uv_timer_t *t);

static void start(struct set *s, uv_timer_t *t)
{
    int64_t ns = s->after_ns + kb_timers_below(s->range_ns);

    uv_timer_start(t, fired, (uint64_t)ns / 1000000, 0);
}

static void fired(uv_timer_t *t)
{
    struct set *s = t->data;

    s->expired++;
    start(s, t);
}

static void *make(size_t count, int64_t after_ns, int64_t range_ns)
{
    struct set *s = kb_timers_alloc(1, sizeof *s);

    s->record = kb_timers_alloc(count + 1, sizeof(struct record));
    s->count = count;
    s->after_ns = after_ns;
    s->range_ns = range_ns;
    if (uv_loop_init(&s->loop) != 0)
        abort();
    for (size_t i = 0; i <= count; i++) {
        uv_timer_t *t = &s->record[i].timer;

        uv_timer_init(&s->loop, t);
        t->data = s;
        if (i < count)
            start(s, t);
    }
    return s;
}

static void drop(void *set)
{
    struct set *s = set;

    for (size_t i = 0; i <= s->count; i++)
        uv_close((uv_handle_t *)&s->record[i].timer, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&s->loop) != 0)
        abort();
    free(s->record);
    free(s);
}

static void same(void *set, uint64_t n)
{
    struct set *s = set;
    uv_timer_t *t = &s->record[s->count].timer;

    for (uint64_t i = 0; i < n; i++) {
        start(s, t);
        uv_timer_stop(t);
    }
}

static void any(void *set, uint64_t n)
{
    struct set *s = set;

    for (uint64_t i = 0; i < n; i++) {
        uv_timer_t *t = &s->record[kb_timers_random() % s->count].timer;

        uv_timer_stop(t);
        start(s, t);
    }
}

static void next(void *set, uint64_t n)
{
    struct set *s = set;
    uv_timer_t *t = &s->record[s->count].timer;
    int sum = 0;

    for (uint64_t i = 0; i < n; i++) {
        uv_timer_start(t, fired, 1, 0);
        sum += uv_backend_timeout(&s->loop);
        uv_timer_stop(t);
        sum += uv_backend_timeout(&s->loop);
    }
    kb_keep(&sum);
}

static uint64_t expire(void *set)
{
    struct set *s = set;

    s->expired = 0;
    uv_run(&s->loop, UV_RUN_NOWAIT);
    return s->expired;
}

const struct kb_timers kb_timers_uv = { "libuv", make, drop, same, any, next, expire };

#else

const struct kb_timers kb_timers_uv = { .name = "libuv" };

#endif
