/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - many children that wait: what do they take, and what does it cost to cancel them all
 * and to collect them?
 *
 * All on one thread. A parent launches them into a scope, each falls asleep for an hour or parks;
 * then the scope is cancelled and ended, which is measured. Each of them goes on then, and returns;
 * "not resumed" are those with KC_JOB_UNWIND, which end where they are, as Tokio's tasks do that
 * are aborted. Go's goroutines wait for the Done
 * channel of one context, some with a timer of an hour beside it, some each with a context of its
 * own below the common one; that is cancelled, and a WaitGroup waits. Tokio's tasks wait for ever
 * or sleep; each is aborted, then each JoinHandle awaited; or all are in a JoinSet.
 *
 * Held: in a fresh process, so many at once. Measured per child: the growth of resident memory and
 * of page tables (VmRSS and VmPTE of /proc/self/status), the time from its launch until it waits,
 * the time to cancel and collect it. The median of three processes, in --quick runs one.
 *
 * Not measured: children that are cancelled on another thread than the one that cancels.
 */
#include "hold.h"
#include "peers/go.h"
#include "peers/tokio.h"
#include "run.h"

#include <kcoro/coro.h>
#include <kcoro/job.h>
#include <kcoro/timer.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FEW = 256, /* less than a repetition holds: nobody but the calibration asks for so few */
    ROUNDS = 3,
};

/* ---- children that wait ---------------------------------------------------------------------- */

/* Parked, the parent waits until the last child has started; on one thread that then waits. */
static struct {
    kcoro_t *parent;
    uint64_t missing;
} crowd;

static void child_waits(void)
{
    if (--crowd.missing == 0)
        must(kcoro_unpark(crowd.parent));
}

static int sleeping(void *arg)
{
    (void)arg;
    child_waits();
    return kc_sleep(KC_SEC(3600));
}

static int parking(void *arg)
{
    (void)arg;
    child_waits();
    while (!kc_cancelled())
        kcoro_park();
    return -ECANCELED;
}

static void crowd_launch(kc_fn_t child, uint32_t flags, uint64_t count)
{
    kc_launch_opts_t opts = { .flags = flags };

    crowd.parent = kcoro_current();
    crowd.missing = count;
    for (uint64_t i = 0; i < count; i++)
        must(flags ? kc_launch_job(child, NULL, &opts, NULL) : kc_launch(child, NULL));
    kcoro_park();
}

static void crowd_collect(kc_scope_t *scope)
{
    kc_job_cancel(kc_scope_job(scope), 0);
    if (kc_scope_end(scope) != -ECANCELED)
        abort();
}

/* ---- cancel and collect ---------------------------------------------------------------------- */

struct laps {
    kc_fn_t child;
    uint32_t flags;
    uint64_t lap, count;
    int64_t ns;
};

static int cancelling(void *arg)
{
    struct laps *l = arg;
    kc_scope_t scope;

    for (uint64_t i = 0; i < l->count; i++) {
        must(kc_scope_begin(&scope, NULL));
        crowd_launch(l->child, l->flags, l->lap);
        int64_t start = kb_now();
        crowd_collect(&scope);
        l->ns += kb_now() - start - kb_clock_cost();
    }
    return 0;
}

/* Whole laps, however few n are. */
static void cancel_run(void *arg, uint64_t n)
{
    struct laps l = *(struct laps *)arg;

    l.lap = n < FEW ? n : l.lap;
    l.count = (n + l.lap - 1) / l.lap;
    run_task(KC_MAIN, cancelling, &l);
    kb_took((int64_t)((double)l.ns * (double)n / (double)(l.count * l.lap)));
}

struct question {
    uint64_t count;
    const char *title;
    const char *cancel, *asleep; /* operations of the peers */
    const char *tree, *set;      /* NULL: they take too long */
};

static void ask(const struct question *q)
{
    static struct laps asleep = { .child = sleeping }, parked = { .child = parking };
    static struct laps unwound = { .child = parking, .flags = KC_JOB_UNWIND };

    asleep.lap = parked.lap = unwound.lap = q->count;
    sched_open(KC_NO_WORKERS);
    kb_question(q->title);
    kb_case("kcoro asleep", cancel_run, &asleep);
    kb_case("kcoro parked", cancel_run, &parked);
    kb_case("kcoro parked, not resumed", cancel_run, &unwound);
    kb_go_case("go one context", q->cancel);
    kb_go_case("go one context, with a timer each", q->asleep);
    if (q->tree)
        kb_go_case("go a context each", q->tree);
    kb_tokio_case("tokio abort, handles", q->cancel);
    kb_tokio_case("tokio abort, handles, asleep", q->asleep);
    if (q->set)
        kb_tokio_case("tokio abort, a JoinSet", q->set);
    kb_base("go one context");
    kb_base("tokio abort, handles");
    kb_measure();
    sched_close();
}

/* ---- held ------------------------------------------------------------------------------------ */

static struct {
    kc_fn_t child;
    uint32_t flags;
    size_t count;
} held;

static int holding(void *arg)
{
    kc_scope_t scope;

    (void)arg;
    must(kc_scope_begin(&scope, NULL));
    crowd_launch(held.child, held.flags, held.count);
    kc_sched_stop(sched);
    kcoro_park(); /* until they are dropped */
    crowd_collect(&scope);
    return 0;
}

static size_t jobs_hold(void **slots, size_t count)
{
    (void)slots;
    held.count = count;
    sched_open(KC_NO_WORKERS);
    run_task(KC_MAIN, holding, NULL);
    return count;
}

static void jobs_drop(void **slots, size_t count)
{
    (void)slots;
    (void)count;
    must(kcoro_unpark(crowd.parent));
    must(kc_sched_run(sched));
}

static const struct kb_holder jobs = { "kcoro", jobs_hold, jobs_drop };

/* The columns of a row. */
struct row {
    double rss, tables, start_ns, cancel_ns;
};
enum { COLUMNS = sizeof(struct row) / sizeof(double) };

typedef bool (*hold_t)(const char *kind, size_t count, struct row *row);

static bool jobs_row(const char *kind, size_t count, struct row *row)
{
    struct kb_held h;
    double each = (double)count;

    held.child = kind[0] == 'a' ? sleeping : parking;
    held.flags = kind[0] == 'u' ? KC_JOB_UNWIND : 0;
    if (!kb_hold(&jobs, count, &h))
        return false;
    *row = (struct row){ h.rss / each, h.page_tables / each, h.hold_ns / each, h.drop_ns / each };
    return true;
}

/* A peer has printed: count, ns to start, ns to cancel, resident bytes, page table bytes. */
static bool peer_row(bool ok, const double *v, struct row *row)
{
    if (ok)
        *row = (struct row){ v[3] / v[0], v[4] / v[0], v[1] / v[0], v[2] / v[0] };
    return ok;
}

static bool go_row(const char *kind, size_t count, struct row *row)
{
    double v[5];

    return peer_row(kb_go_once(kind, count, 5, v), v, row);
}

static bool tokio_row(const char *kind, size_t count, struct row *row)
{
    double v[5];

    return peer_row(kb_tokio_once(kind, count, 5, v), v, row);
}

/* The columns' medians over the rounds. */
static void medians(struct row *rows, int rounds, struct row *out)
{
    for (int column = 0; column < COLUMNS; column++) {
        double v[ROUNDS];

        for (int i = 0; i < rounds; i++)
            v[i] = ((double *)&rows[i])[column];
        ((double *)out)[column] = kb_median(v, rounds);
    }
}

static void ask_held(const char *name, hold_t hold, const char *kind, size_t count)
{
    int rounds = kb_quick() ? 1 : ROUNDS;
    struct row rows[ROUNDS], median;
    char full[80];

    snprintf(full, sizeof full, "%s, %zu", name, count);
    if (!kb_grid_wants(full))
        return;
    if (!kb_hold_fits(count, 5000)) {
        kb_grid_skip(full, "too little free memory");
        return;
    }
    for (int i = 0; i < rounds; i++)
        if (!hold(kind, count, &rows[i])) {
            kb_grid_skip(full, "its process failed");
            return;
        }
    medians(rows, rounds, &median);
    kb_grid_row(full, (double *)&median);
}

static void ask_all_held(void)
{
    static const char *const heads[] = { "rss B each", "tables B each", "start ns", "cancel ns" };
    size_t most = kb_quick() ? 100000 : 1000000;

    kb_grid("held, median of processes", COLUMNS, heads);
    if (kb_grid_wants("kcoro"))
        (void)kb_hold_fault_ns(most + most / 4); /* a virtual machine gets its memory so */
    for (size_t count = 100000; count <= most; count *= 10) {
        ask_held("kcoro asleep", jobs_row, "asleep", count);
        ask_held("kcoro parked", jobs_row, "parked", count);
        ask_held("kcoro parked, not resumed", jobs_row, "unwound", count);
        if (kb_go_present())
            ask_held("go one context", go_row, "cancel", count);
        if (kb_tokio_present())
            ask_held("tokio abort, handles", tokio_row, "cancel", count);
    }
    if (!kb_go_present())
        kb_grid_skip("go", kb_go_missing);
    if (!kb_tokio_present())
        kb_grid_skip("tokio", kb_tokio_missing);
}

int main(int argc, char **argv)
{
    static const struct question questions[] = {
        { 1000, "cancel + collect, 1 000 wait", "cancel_1000_1", "asleep_1000_1", "tree_1000_1",
          "set_1000_1" },
        { 10000, "cancel + collect, 10 000 wait", "cancel_10000_1", "asleep_10000_1", NULL, NULL },
        { 100000, "cancel + collect, 100 000 wait", "cancel_100000_1", "asleep_100000_1", NULL,
          NULL },
    };

    kb_init(argc, argv, "cancel", "many children that wait, cancelled and collected");
    ask_all_held(); /* first: what comes then leaves memory behind */
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
        ask(&questions[i]);
    return kb_done();
}
