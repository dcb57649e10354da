/* SPDX-License-Identifier: MIT */
/*
 * chan_differential_test.c - the fast path of a channel against the slow one.
 *
 * WHAT     A random script says what some jobs do to some channels. It is run twice in virtual
 *          time, where a run depends on the script and the scheduler's seed alone: once as it is,
 *          and once with channels of which none is plain, so that each call goes the slow way. All
 *          that can be seen must be the same: what each call returns and receives, when, in which
 *          order all of them begin and end, what the hooks get, and what is left in the channels.
 */
#include "chan_kit.h"

#include <stdio.h>

enum { CHANS = 3, JOBS = 5, STEPS = 12, CASES = 3, BYTES = 128, EVENTS = 1 << 16 };

static const size_t sizes[] = { 0,  1,  2,  3,  4,  5,  7,  8,  9,  12, 15, 16,
                                17, 24, 31, 32, 33, 48, 63, 64, 65, 80, 100 };
static const size_t capacities[] = { 0, 0, 0, 1, 1, 2, 5, KC_CHAN_UNLIMITED, KC_CHAN_LATEST };

typedef enum {
    SEND,
    RECV,
    SEND_UNTIL,
    RECV_UNTIL,
    TRY_SEND,
    TRY_RECV,
    DROP,   /* receives into nothing                                */
    PAIRS,  /* sends and receives many: others must run now and then */
    SELECT, /* of some channels; a timeout, or none, or no wait      */
    YIELD,
    SLEEP,
    CANCEL,
    CLOSE,
    KINDS
} kind_t;

/* How often each is drawn. */
static const int weight[KINDS] = { 30, 30, 6, 6, 5, 5, 3, 2, 12, 4, 6, 2, 1 };

struct step {
    kind_t kind;
    int chan, job;
    kc_time_t time; /* how long; KC_FOREVER: without end */
    int times;
    bool biased;
    struct {
        int chan, op;
    } cases[CASES];
};

struct script {
    uint64_t seed; /* the scheduler's; 0: none */
    struct {
        size_t size, capacity;
        bool hook;
    } chan[CHANS];
    kc_time_t timeout[JOBS]; /* 0: none */
    int steps[JOBS];
    struct step step[JOBS][STEPS];
};

struct event {
    int job, step, what, rc;
    kc_time_t at;
    uint64_t item; /* a hash of what was received */
};

enum { BEGIN, END, HOOK, LEFT, JOINED };

static struct run {
    const struct script *script;
    kc_chan_t *chan[CHANS];
    kc_job_t *job[JOBS];
    int events;
    struct event event[EVENTS];
} runs[2], *run; /* fast, slow; the one that is running */

static bool is_slow; /* the run that is made now */

/* ---- a script ------------------------------------------------------------------------------- */

static int below(uint64_t *random, int n)
{
    return (int)(kc_test_random(random) % (uint64_t)n);
}

static kind_t draw_kind(uint64_t *random)
{
    int all = 0, k = 0;

    for (int i = 0; i < KINDS; i++)
        all += weight[i];
    for (int at = below(random, all); at >= weight[k]; k++)
        at -= weight[k];
    return (kind_t)k;
}

static struct step draw_step(uint64_t *random)
{
    struct step s = { .kind = draw_kind(random),
                      .chan = below(random, CHANS),
                      .job = below(random, JOBS),
                      .time = KC_US(below(random, 8)),
                      .times = 1 + below(random, 300),
                      .biased = below(random, 2) };

    if (s.kind == SELECT && below(random, 3) == 0)
        s.time = KC_FOREVER;
    for (int i = 0; i < CASES; i++) {
        s.cases[i].chan = below(random, i ? CHANS + 1 : CHANS); /* one more: no channel */
        s.cases[i].op = below(random, 2) ? KC_SEND : KC_RECV;
    }
    return s;
}

static void draw_script(struct script *s, uint64_t *random)
{
    s->seed = below(random, 2) ? kc_test_random(random) | 1 : 0;
    for (int i = 0; i < CHANS; i++) {
        s->chan[i].size = sizes[below(random, sizeof sizes / sizeof sizes[0])];
        s->chan[i].capacity = capacities[below(random, sizeof capacities / sizeof capacities[0])];
        s->chan[i].hook = below(random, 4) == 0;
    }
    for (int i = 0; i < JOBS; i++) {
        s->timeout[i] = below(random, 6) == 0 ? KC_US(1 + below(random, 30)) : 0;
        s->steps[i] = 1 + below(random, STEPS);
        for (int k = 0; k < s->steps[i]; k++)
            s->step[i][k] = draw_step(random);
    }
}

/* ---- a run ---------------------------------------------------------------------------------- */

static void record(int job, int step, int what, int rc, uint64_t item)
{
    CHECK_LT(run->events, EVENTS);
    run->event[run->events++] = (struct event){ job, step, what, rc, kc_now(), item };
}

static uint64_t hash(const unsigned char *bytes, size_t n)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

/* What is sent in this step: no two items that have a few bytes are the same. */
static void fill(unsigned char *item, int job, int step, int time)
{
    for (int i = 0; i < BYTES; i++)
        item[i] = (unsigned char)(job * 51 + step * 7 + time * 3 + i * 13 + 1);
}

static void gets_undelivered(void *item, void *arg)
{
    size_t i = (size_t)(uintptr_t)arg;

    record(-1, (int)i, HOOK, 0, hash(item, run->script->chan[i].size));
}

static int does_pairs(const struct step *s, int job, int step, unsigned char *item)
{
    int rc = 0;

    for (int i = 0; i < s->times && rc == 0; i++) {
        fill(item, job, step, i);
        rc = kc_chan_send(run->chan[s->chan], item);
        record(job, step, BEGIN, rc, 0);
        if (rc != 0)
            break;
        memset(item, 0xee, BYTES);
        rc = kc_chan_recv(run->chan[s->chan], item);
        record(job, step, BEGIN, rc, hash(item, BYTES));
    }
    return rc;
}

static int selects(const struct step *s, unsigned char *sent, unsigned char *received)
{
    kc_case_t cases[CASES];

    for (int i = 0; i < CASES; i++)
        cases[i] = (kc_case_t){
            .chan = s->cases[i].chan < CHANS ? run->chan[s->cases[i].chan] : NULL,
            .op = s->cases[i].op,
            .item = s->cases[i].op == KC_SEND ? sent : received,
        };
    int rc =
        s->biased ? kc_select_biased(cases, CASES, s->time) : kc_select(cases, CASES, s->time);
    return rc < 0 ? rc : rc * 1000 - cases[rc].rc;
}

static int does_step(const struct step *s, int job, int step, unsigned char *sent,
                     unsigned char *received)
{
    kc_chan_t *c = run->chan[s->chan];

    switch (s->kind) {
    case SEND:
        return kc_chan_send(c, sent);
    case RECV:
        return kc_chan_recv(c, received);
    case SEND_UNTIL:
        return kc_chan_send_until(c, sent, kc_now() + s->time);
    case RECV_UNTIL:
        return kc_chan_recv_until(c, received, kc_now() + s->time);
    case TRY_SEND:
        return kc_chan_try_send(c, sent);
    case TRY_RECV:
        return kc_chan_try_recv(c, received);
    case DROP:
        return kc_chan_recv(c, NULL);
    case PAIRS:
        return does_pairs(s, job, step, received);
    case SELECT:
        return selects(s, sent, received);
    case YIELD:
        return kc_yield();
    case SLEEP:
        return kc_sleep(s->time);
    case CANCEL:
        return kc_job_cancel(run->job[s->job], -EINTR);
    default:
        kc_chan_close_with(c, -ESTALE);
        return 0;
    }
}

static int does_script(void *arg)
{
    int job = (int)(intptr_t)arg;
    unsigned char sent[BYTES], received[BYTES];

    for (int k = 0; k < run->script->steps[job]; k++) {
        fill(sent, job, k, 0);
        memset(received, 0xee, sizeof received);
        record(job, k, BEGIN, 0, 0);
        int rc = does_step(&run->script->step[job][k], job, k, sent, received);
        record(job, k, END, rc, hash(received, sizeof received));
    }
    return 0;
}

static void make_channel(int i)
{
    const struct script *s = run->script;
    kc_chan_opts_t opts = { .item_size = s->chan[i].size, .capacity = s->chan[i].capacity };

    if (s->chan[i].hook) {
        opts.undelivered = gets_undelivered;
        opts.arg = (void *)(uintptr_t)i;
    }
    CHECK_EQ(kc_chan_create_with(&opts, &run->chan[i]), 0);
    if (is_slow)
        run->chan[i]->plain = false;
}

/* When all have done what they could, closes the channels, so that all end. */
static int runs_script(void *arg UNUSED)
{
    unsigned char item[BYTES];
    int rc;

    for (int i = 0; i < CHANS; i++)
        make_channel(i);
    for (int i = 0; i < JOBS; i++)
        run->job[i] = launch(
            does_script, (void *)(intptr_t)i,
            &(kc_launch_opts_t){ .flags = KC_JOB_ALONE, .timeout = run->script->timeout[i] });
    CHECK_EQ(kc_sleep(KC_SEC(1)), 0);
    for (int i = 0; i < CHANS; i++)
        kc_chan_close(run->chan[i]);
    for (int i = 0; i < JOBS; i++) {
        rc = kc_job_join(run->job[i]);
        record(i, kc_job_state(run->job[i]), JOINED, rc, 0);
    }
    for (int i = 0; i < JOBS; i++)
        kc_job_release(run->job[i]);
    for (int i = 0; i < CHANS; i++) {
        record(-1, i, LEFT, kc_chan_cause(run->chan[i]), kc_chan_len(run->chan[i]));
        for (int k = 0; k < 2; k++) { /* the hook gets the others */
            memset(item, 0xee, sizeof item);
            rc = kc_chan_try_recv(run->chan[i], item);
            record(-1, i, LEFT, rc, hash(item, sizeof item));
        }
        CHECK(!run->chan[i]->senders && !run->chan[i]->receivers);
        kc_chan_release(run->chan[i]);
    }
    return 0;
}

static void run_script(const struct script *s, bool slow)
{
    run = &runs[slow];
    run->script = s;
    run->events = 0;
    is_slow = slow;
    CHECK_EQ(kc_run(runs_script, NULL,
                    &(kc_sched_opts_t){ .workers = KC_NO_WORKERS,
                                        .flags = KC_SCHED_VIRTUAL_TIME,
                                        .seed = s->seed }),
             0);
}

/* ---- both ----------------------------------------------------------------------------------- */

static bool is_same(const struct event *a, const struct event *b)
{
    return a->job == b->job && a->step == b->step && a->what == b->what && a->rc == b->rc &&
           a->at == b->at && a->item == b->item;
}

static void show(const char *name, const struct run *r, int i)
{
    const struct event *e = &r->event[i];

    if (i < r->events)
        fprintf(stderr, "%s: event %d of %d: job %d step %d what %d rc %d at %lld item %llx\n",
                name, i, r->events, e->job, e->step, e->what, e->rc, (long long)e->at,
                (unsigned long long)e->item);
}

static void compare(long script)
{
    int i = 0;

    while (i < runs[0].events && i < runs[1].events &&
           is_same(&runs[0].event[i], &runs[1].event[i]))
        i++;
    if (i == runs[0].events && i == runs[1].events)
        return;
    show("fast", &runs[0], i);
    show("slow", &runs[1], i);
    FAIL("script %ld: the fast path differs from the slow one", script);
}

TEST(random_scripts_run_the_same_without_the_fast_path)
{
    static struct script s;
    uint64_t random = kc_test_seed() | 1;

    for (long i = 0; i < kc_test_rounds(60); i++) {
        draw_script(&s, &random);
        run_script(&s, false);
        run_script(&s, true);
        compare(i);
    }
}

TEST(the_fast_path_serves_items_up_to_a_cache_line)
{
    for (size_t size = 0; size <= 100; size++)
        for (int i = 0; i < KIT_CHANS; i++) {
            kc_chan_t *c = chan(size, kit_capacity[i]);
            CHECK_EQ(c->plain, size <= 64 && kit_capacity[i] != KC_CHAN_UNLIMITED);
            kc_chan_release(c);
        }
}

static int receives_all_sizes(void *arg)
{
    unsigned char item[BYTES];
    kc_chan_t **c = arg;

    for (size_t size = 0; size <= 100; size++) {
        memset(item, 0xee, sizeof item);
        CHECK_EQ(kc_chan_recv(c[size], item), 0);
        for (size_t i = 0; i < BYTES; i++)
            CHECK_EQ(item[i], i < size ? (unsigned char)(size + i * 7) : 0xee);
    }
    return 0;
}

/* Bytes of the sender's own, no more: a sanitizer sees what is read behind them. */
static void sends_all_sizes(kc_chan_t **c)
{
    for (size_t size = 0; size <= 100; size++) {
        unsigned char *item = malloc(size ? size : 1);
        CHECK(item != NULL);
        for (size_t i = 0; i < size; i++)
            item[i] = (unsigned char)(size + i * 7);
        CHECK_EQ(kc_chan_send(c[size], item), 0);
        free(item);
    }
}

IN_A_JOB(items_of_every_size_come_out_as_they_went_in)
{
    for (int k = 0; k < KIT_CHANS; k++) {
        kc_chan_t *c[101];
        for (size_t size = 0; size <= 100; size++)
            c[size] = chan(size, kit_capacity[k]);
        kc_job_t *j = launch(receives_all_sizes, c, NULL);
        sends_all_sizes(c);
        CHECK_EQ(kc_job_join(j), 0);
        kc_job_release(j);
        for (size_t size = 0; size <= 100; size++)
            kc_chan_release(c[size]);
    }
    return 0;
}
