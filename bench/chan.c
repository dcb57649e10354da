/* SPDX-License-Identifier: MIT */
/*
 * chan.c - what does it cost to pass items through channels, and to wait for several?
 *
 * Round trip: one sends and receives the echo, through two channels without a buffer; where a peer
 * has none, through buffers of one item, beside which ours with such buffers stands. An operation
 * is there and back.
 *
 * Stream: one sends, another receives; an operation is one item. Into a channel without a limit the
 * sender of Tokio yields every 128 items, because nothing else stops it before it has sent all;
 * ours does so by itself.
 *
 * Two threads: ours are on worker 0 and on worker 1, or may migrate; Boost's are on two threads. Go
 * and Tokio have two threads and decide themselves whether they use both; goroutines that are
 * locked to a thread of their own must.
 *
 * Select, one ready: one of four channels with a buffer holds an item, each in its turn; an
 * operation is the send that has brought it there and the select that receives it. Waiting: a
 * sender feeds four channels without a buffer in turn (Tokio: of one item, and the sender yields
 * after each).
 *
 * All items are checked. Not measured: many senders to one channel, items larger than a word.
 */
#include "peers/boost.h"
#include "peers/go.h"
#include "peers/tokio.h"
#include "run.h"

#include <kcoro/chan.h>
#include <kcoro/job.h>

#include <stdlib.h>

enum { BUFFER = 128, CHOICES = 4 };

/* The channels of a run, and how many operations it does. */
struct run {
    kc_chan_t *chan[CHOICES];
    uint64_t n;
};

static bool free_to_move; /* the sides of this run are bound to no worker, as goroutines are */

static void start(int side, kc_fn_t fn, struct run *r)
{
    kc_launch_opts_t opts = { .sched = sched, .flags = KC_JOB_MIGRATE };

    must(free_to_move ? kc_launch_job(fn, r, &opts, NULL)
                      : kc_sched_submit(sched, place[side], fn, r));
}

/* Makes the channels, lets the two sides run, one of which may be NULL, and ends all. */
static void run_both(size_t capacity, uint64_t n, kc_fn_t first, kc_fn_t second)
{
    struct run r = { .n = n };

    kb_pause();
    for (int i = 0; i < CHOICES; i++)
        must(kc_chan_create(sizeof(uint64_t), capacity, &r.chan[i]));
    kb_continue();
    start(0, first, &r);
    if (second)
        start(1, second, &r);
    must(kc_sched_run(sched));
    kb_pause();
    for (int i = 0; i < CHOICES; i++)
        kc_chan_release(r.chan[i]);
    kb_continue();
}

static void expect(uint64_t item, uint64_t wanted)
{
    if (item != wanted)
        abort();
}

/* ---- round trip ------------------------------------------------------------------------------ */

enum { THERE, BACK };

static int calling(void *arg)
{
    struct run *r = arg;
    uint64_t echo;

    for (uint64_t i = 0; i < r->n; i++) {
        must(kc_chan_send(r->chan[THERE], &i));
        must(kc_chan_recv(r->chan[BACK], &echo));
        expect(echo, i);
    }
    return 0;
}

static int echoing(void *arg)
{
    struct run *r = arg;
    uint64_t item;

    for (uint64_t i = 0; i < r->n; i++) {
        must(kc_chan_recv(r->chan[THERE], &item));
        must(kc_chan_send(r->chan[BACK], &item));
    }
    return 0;
}

static void round_run(void *capacity, uint64_t n)
{
    run_both(*(size_t *)capacity, n, calling, echoing);
}

static void round_free_run(void *capacity, uint64_t n)
{
    free_to_move = true;
    round_run(capacity, n);
    free_to_move = false;
}

/* ---- stream ---------------------------------------------------------------------------------- */

static int sending(void *arg)
{
    struct run *r = arg;

    for (uint64_t i = 0; i < r->n; i++)
        must(kc_chan_send(r->chan[0], &i));
    return 0;
}

static int receiving(void *arg)
{
    struct run *r = arg;
    uint64_t item;

    for (uint64_t i = 0; i < r->n; i++) {
        must(kc_chan_recv(r->chan[0], &item));
        expect(item, i);
    }
    return 0;
}

static void stream_run(void *capacity, uint64_t n)
{
    run_both(*(size_t *)capacity, n, sending, receiving);
}

static void stream_free_run(void *capacity, uint64_t n)
{
    free_to_move = true;
    stream_run(capacity, n);
    free_to_move = false;
}

/* ---- select ---------------------------------------------------------------------------------- */

static void cases_fill(const struct run *r, kc_case_t *cases, uint64_t *item)
{
    for (int i = 0; i < CHOICES; i++)
        cases[i] = (kc_case_t){ .op = KC_RECV, .chan = r->chan[i], .item = item };
}

static int choosing(void *arg)
{
    struct run *r = arg;
    kc_case_t cases[CHOICES];
    uint64_t item = 0;

    cases_fill(r, cases, &item);
    for (uint64_t i = 0; i < r->n; i++) {
        must(kc_chan_send(r->chan[i % CHOICES], &i));
        if (kc_select(cases, CHOICES, KC_FOREVER) != (int)(i % CHOICES))
            abort();
        expect(item, i);
    }
    return 0;
}

static int feeding(void *arg)
{
    struct run *r = arg;

    for (uint64_t i = 0; i < r->n; i++)
        must(kc_chan_send(r->chan[i % CHOICES], &i));
    return 0;
}

static int awaiting(void *arg)
{
    struct run *r = arg;
    kc_case_t cases[CHOICES];
    uint64_t item = 0;

    cases_fill(r, cases, &item);
    for (uint64_t i = 0; i < r->n; i++) {
        if (kc_select(cases, CHOICES, KC_FOREVER) != (int)(i % CHOICES))
            abort();
        expect(item, i);
    }
    return 0;
}

static void ready_run(void *arg, uint64_t n)
{
    (void)arg;
    run_both(1, n, choosing, NULL);
}

static void waiting_run(void *arg, uint64_t n)
{
    (void)arg;
    run_both(0, n, feeding, awaiting);
}

/* ---- questions ------------------------------------------------------------------------------- */

static size_t none = 0, one = 1, some = BUFFER, unlimited = KC_CHAN_UNLIMITED;

static void ask_round(void)
{
    sched_open(KC_NO_WORKERS);
    kb_question("round trip, one thread");
    kb_case("kcoro no buffer", round_run, &none);
    kb_case("kcoro buffers of 1", round_run, &one);
    kb_go_case("go no buffer", "round_1");
    kb_tokio_case("tokio mpsc of 1", "channel_round_1");
    kb_boost_round("boost.fiber unbuffered_channel");
    kb_base("go no buffer");
    kb_base("tokio mpsc of 1");
    kb_measure();
    sched_close();
}

static void ask_stream(void)
{
    sched_open(KC_NO_WORKERS);
    kb_question("stream, a buffer of 128, one thread");
    kb_case("kcoro", stream_run, &some);
    kb_go_case("go", "stream_1");
    kb_tokio_case("tokio mpsc", "channel_stream_1");
    kb_boost_stream("boost.fiber buffered_channel");
    kb_base("go");
    kb_base("tokio mpsc");
    kb_measure();

    kb_question("stream, no limit, one thread");
    kb_case("kcoro", stream_run, &unlimited);
    kb_skip("go", "has no such channel");
    kb_tokio_case("tokio unbounded mpsc", "channel_unlimited_1");
    kb_skip("boost.fiber", "has no such channel");
    kb_base("tokio unbounded mpsc");
    kb_measure();
    sched_close();
}

static void ask_two_threads(void)
{
    sched_open(2);
    kb_question("round trip, two threads");
    kb_case("kcoro no buffer", round_run, &none);
    kb_case("kcoro buffers of 1", round_run, &one);
    kb_case("kcoro no buffer, free to move", round_free_run, &none);
    kb_go_case("go no buffer", "round_2");
    kb_go_case("go no buffer, each locked to a thread", "round_locked_2");
    kb_tokio_case("tokio mpsc of 1", "channel_round");
    kb_boost_round_threads("boost.fiber unbuffered_channel");
    kb_base("go no buffer");
    kb_base("go no buffer, each locked to a thread");
    kb_measure();

    kb_question("stream, a buffer of 128, two threads");
    kb_case("kcoro", stream_run, &some);
    kb_case("kcoro, free to move", stream_free_run, &some);
    kb_go_case("go", "stream_2");
    kb_go_case("go, each locked to a thread", "stream_locked_2");
    kb_tokio_case("tokio mpsc", "channel_stream");
    kb_boost_stream_threads("boost.fiber buffered_channel");
    kb_base("go");
    kb_base("go, each locked to a thread");
    kb_measure();
    sched_close();
}

static void ask_select(void)
{
    sched_open(KC_NO_WORKERS);
    kb_question("select of 4, one is ready: send + select");
    kb_case("kcoro", ready_run, NULL);
    kb_go_case("go", "select_ready_1");
    kb_tokio_case("tokio select!", "channel_ready_1");
    kb_skip("boost.fiber", "has no select");
    kb_base("go");
    kb_base("tokio select!");
    kb_measure();

    kb_question("select of 4, waiting: one item");
    kb_case("kcoro no buffer", waiting_run, NULL);
    kb_go_case("go no buffer", "select_waiting_1");
    kb_tokio_case("tokio select!, mpsc of 1", "channel_waiting_1");
    kb_skip("boost.fiber", "has no select");
    kb_base("go no buffer");
    kb_base("tokio select!, mpsc of 1");
    kb_measure();
    sched_close();
}

int main(int argc, char **argv)
{
    kb_init(argc, argv, "chan", "items through channels, and waiting for several");
    ask_round();
    ask_stream();
    ask_two_threads();
    ask_select();
    return kb_done();
}
