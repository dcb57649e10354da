/* SPDX-License-Identifier: MIT */
/*
 * timer.c - what do timers cost, with few and with many pending?
 *
 * Insert + cancel, twice: the same timer at once, and one at random out of all, which is what
 * timeouts do and finds the timer outside the cache if there are many. The others are due at
 * random within a minute, an hour from now.
 *
 * Insert + expire: the pending ones are due at random at a mean of one each 8 us. Time
 * passes, which is not measured; then all that has become due is run in one go, each through a
 * pointer to a function that adds it again, due at random. libev and libuv do that in one turn of
 * their loops, which also asks the kernel for events: some 100 ns spread over those that expired.
 * libuv counts milliseconds; all that is due within one needs no order there.
 *
 * Next: an earlier timer is added and cancelled, and the next due time is asked for after both.
 * libev has no call for that.
 *
 * Interval tasks: kc_schedule_interval alone, in batches, on the main thread; then with the release
 * and with what the main thread has to clean up after it. The single-execution check: a tick is due
 * while a run is in flight, so it is skipped and the timer goes on. There is no call for the check
 * alone: beside it stands the same expiry of a bare timer (base A).
 *
 * Not measured: reading the clock, and threads: each of these belongs to one.
 */
#include "sched/sched.h"
#include "sched/timers.h"
#include "sched/token.h"

#include "peers/timers.h"
#include "run.h"

#include <kcoro/coro.h>
#include <kcoro/timer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIZES = 3,
    CONTENDERS = 4,
    EXPIRY_NS = 8000, /* mean time from one expiry to the next: more than all need for one */
    BATCH = 256,
    TOKENS = 64,
};
static const size_t sizes[SIZES] = { 1000, 100000, 1000000 };

static const struct kb_timers *const contenders[CONTENDERS] = { &kb_timers_kcoro, &kb_timers_ev,
                                                                &kb_timers_uv, &kb_timers_heap };

uint64_t kb_timers_seed = UINT64_C(88172645463325252);

void *kb_timers_alloc(size_t count, size_t size)
{
    size_t bytes = (count * size + KB_TIMER_RECORD - 1) / KB_TIMER_RECORD * KB_TIMER_RECORD;
    void *p = aligned_alloc(KB_TIMER_RECORD, bytes);

    if (!p) {
        fprintf(stderr, "bench_timer: no memory for %zu timers\n", count);
        exit(1);
    }
    return memset(p, 0, bytes);
}

/* ---- kcoro --------------------------------------------------------------------------------- */

struct record {
    _Alignas(KB_TIMER_RECORD) kc_timer_t timer;
    void (*fn)(struct record *r);
};

struct set {
    kc_timers_t timers;
    struct record *record; /* one more than count */
    size_t count;
    kc_time_t now, after, range;
};

static void start(struct set *s, kc_timer_t *t)
{
    kc__timers_add(&s->timers, t, s->now + s->after + kb_timers_below(s->range));
}

static struct set *expiring;

static void fired(struct record *r)
{
    start(expiring, &r->timer);
}

static void *make(size_t count, int64_t after_ns, int64_t range_ns)
{
    struct set *s = kb_timers_alloc(1, sizeof *s);

    s->record = kb_timers_alloc(count + 1, sizeof(struct record));
    s->count = count;
    s->now = kb_now();
    s->after = after_ns;
    s->range = range_ns;
    kc__timers_init(&s->timers, s->now);
    for (size_t i = 0; i <= count; i++) {
        s->record[i].fn = fired;
        if (i < count)
            start(s, &s->record[i].timer);
    }
    return s;
}

static void drop(void *set)
{
    struct set *s = set;

    free(s->record);
    free(s);
}

static void same(void *set, uint64_t n)
{
    struct set *s = set;
    kc_timer_t *t = &s->record[s->count].timer;

    for (uint64_t i = 0; i < n; i++) {
        start(s, t);
        kc__timers_remove(&s->timers, t);
    }
}

static void any(void *set, uint64_t n)
{
    struct set *s = set;

    for (uint64_t i = 0; i < n; i++) {
        kc_timer_t *t = &s->record[kb_timers_random() % s->count].timer;

        kc__timers_remove(&s->timers, t);
        start(s, t);
    }
}

static void next(void *set, uint64_t n)
{
    struct set *s = set;
    kc_timer_t *t = &s->record[s->count].timer;
    kc_time_t sum = 0;

    for (uint64_t i = 0; i < n; i++) {
        kc__timers_add(&s->timers, t, s->now + KC_MS(1));
        sum += kc__timers_next(&s->timers);
        kc__timers_remove(&s->timers, t);
        sum ^= kc__timers_next(&s->timers);
    }
    kb_keep(&sum);
}

static uint64_t expire(void *set)
{
    struct set *s = set;
    uint64_t count = 0;
    kc_timer_t *t;

    expiring = s;
    s->now = kb_now();
    for (; (t = kc__timers_pop(&s->timers, s->now)) != NULL; count++) {
        struct record *r = kc_container_of(t, struct record, timer);

        r->fn(r);
    }
    return count;
}

const struct kb_timers kb_timers_kcoro = { "kcoro", make, drop, same, any, next, expire };

/* ---- the questions ------------------------------------------------------------------------- */

/* The contenders' sets of one size. */
static struct subject {
    const struct kb_timers *who;
    void *set; /* NULL: not installed */
    size_t count;
} subjects[CONTENDERS];

enum { SAME, ANY, NEXT, EXPIRE };

static void subjects_make(size_t count, int64_t after_ns, int64_t range_ns)
{
    for (int i = 0; i < CONTENDERS; i++) {
        const struct kb_timers *who = contenders[i];

        subjects[i] = (struct subject){ who, NULL, count };
        if (who->make)
            subjects[i].set = who->make(count, after_ns, range_ns);
    }
}

static void subjects_drop(void)
{
    for (int i = 0; i < CONTENDERS; i++)
        if (subjects[i].set)
            subjects[i].who->drop(subjects[i].set);
}

/* Until n have expired; there may be more of them, so that this says what n took. */
static void expire_run(void *arg, uint64_t n)
{
    const struct subject *s = arg;
    size_t batch = s->count / 8 < BATCH ? s->count / 8 : BATCH;
    int64_t took = 0;
    uint64_t done = 0;

    while (done < n) {
        int64_t from = kb_now();

        while (kb_now() - from < (int64_t)batch * EXPIRY_NS)
            ;
        from = kb_now();
        done += s->who->expire(s->set);
        took += kb_now() - from - kb_clock_cost();
    }
    kb_took((int64_t)((double)took * (double)n / (double)done));
}

static void ask(const char *what, int kind, const char *base)
{
    char title[64];

    snprintf(title, sizeof title, "%s, %zu pending", what, subjects[0].count);
    kb_question(title);
    for (int i = 0; i < CONTENDERS; i++) {
        struct subject *s = &subjects[i];
        kb_run_t run[] = { s->who->same, s->who->any, s->who->next, expire_run };

        if (!s->set)
            kb_skip(s->who->name, "not installed");
        else if (!run[kind])
            kb_skip(s->who->name, "has no call for it");
        else
            kb_case(s->who->name, run[kind], kind == EXPIRE ? s : s->set);
    }
    kb_base(base);
    kb_measure();
}

/* ---- interval tasks -------------------------------------------------------------------------- */

static int idling(void *arg)
{
    kb_keep(arg);
    return 0;
}

static kc_token_t *token_make(kc_time_t interval, kc_fn_t fn, void *arg)
{
    kc_token_t *token;

    must(kc_schedule_interval(sched, interval, KC_MAIN, fn, arg, &token));
    return token;
}

struct intervals {
    uint64_t n;
    int64_t ns;
};

static int creating_intervals(void *arg)
{
    struct intervals *in = arg;
    kc_token_t *token[TOKENS];

    for (uint64_t left = in->n; left > 0;) {
        uint64_t count = left < TOKENS ? left : TOKENS;
        int64_t start = kb_now();

        for (uint64_t i = 0; i < count; i++)
            token[i] = token_make(KC_SEC(3600), idling, NULL);
        in->ns += kb_now() - start - kb_clock_cost();
        for (uint64_t i = 0; i < count; i++)
            kc_token_release(token[i]);
        kc_yield();
        left -= count;
    }
    return 0;
}

static void create_interval_run(void *arg, uint64_t n)
{
    struct intervals in = { .n = n };

    (void)arg;
    run_task(KC_MAIN, creating_intervals, &in);
    kb_took(in.ns);
}

static int making_intervals(void *arg)
{
    for (uint64_t i = *(uint64_t *)arg; i > 0; i--) {
        kc_token_release(token_make(KC_SEC(3600), idling, NULL));
        if (i % TOKENS == 0)
            kc_yield();
    }
    return 0;
}

static void whole_interval_run(void *arg, uint64_t n)
{
    (void)arg;
    run_task(KC_MAIN, making_intervals, &n);
}

/* A run in flight: it waits until `over`. */
struct flight {
    kcoro_t *co;
    bool over;
    kc_time_t now;
};

static int flying(void *arg)
{
    struct flight *f = arg;

    f->co = kcoro_current();
    while (!f->over)
        kcoro_park();
    return 0;
}

/* Time passes from tick to tick. */
static void skip_run(void *arg, uint64_t n)
{
    struct flight *f = arg;

    for (uint64_t i = 0; i < n; i++)
        if (!kc__timed_start_due(sched->timed, f->now += KC_US(1)))
            abort();
}

static void bare_run(void *arg, uint64_t n)
{
    kc_timers_t *timers = arg;
    kc_timer_t *t;

    for (uint64_t i = 0; i < n; i++) {
        kc_time_t due = kc__timers_next(timers);

        if (!(t = kc__timers_pop(timers, due)))
            abort();
        kc__timers_add(timers, t, due + KC_US(1));
    }
}

static void ask_single_execution(void)
{
    struct flight flight = { .now = kc_now() };
    static kc_timers_t timers;
    static kc_timer_t timer;

    sched_open(KC_NO_WORKERS);
    kc__timers_init(&timers, flight.now);
    kc__timers_add(&timers, &timer, flight.now);
    kc_token_t *token = token_make(KC_US(1), flying, &flight);
    while (!flight.co)
        kc_sched_poll(sched, flight.now += KC_US(1));
    kb_question("single execution");
    kb_case("kcoro a due tick is skipped", skip_run, &flight);
    kb_case("a bare timer expires and is added again", bare_run, &timers);
    kb_base("a bare timer expires and is added again");
    kb_measure();
    flight.over = true;
    must(kcoro_unpark(flight.co));
    kc_token_release(token);
    kc_sched_poll(sched, flight.now);
    sched_close();
}

static void ask_intervals(void)
{
    sched_open(KC_NO_WORKERS);
    kb_question("interval tasks");
    kb_case("kcoro create", create_interval_run, NULL);
    kb_case("kcoro create, release, clean up", whole_interval_run, NULL);
    kb_base("kcoro create");
    kb_measure();
    sched_close();
}

int main(int argc, char **argv)
{
    const char *heap = kb_timers_heap.name;
    const char *base = kb_timers_ev.make ? kb_timers_ev.name : heap;

    kb_init(argc, argv, "timer", "timers, from adding to expiry or cancel");
    for (int i = 0; i < SIZES; i++) {
        if (kb_quick() && i == 1)
            continue;
        subjects_make(sizes[i], KC_SEC(3600), KC_SEC(60));
        ask("insert + cancel", SAME, base);
        ask("insert + cancel at random", ANY, base);
        ask("next, twice", NEXT, heap);
        subjects_drop();
        subjects_make(sizes[i], 0, (int64_t)sizes[i] * EXPIRY_NS * 2);
        ask("insert + expire", EXPIRE, base);
        subjects_drop();
    }
    ask_intervals();
    ask_single_execution();
    return kb_done();
}
