/* SPDX-License-Identifier: MIT */
/*
 * memory.c - what does a suspended coroutine take, and is it given back?
 *
 * So many coroutines with stacks of 64 KiB are created and started in a fresh process and stay
 * suspended in their first call. Measured per coroutine: the growth of resident memory and of
 * page tables (VmRSS and VmPTE of /proc/self/status, the caller's array of handles left out), the
 * time to create and start one and the time to destroy it; and the resident memory that is left
 * when all are destroyed. Each line is a process of its own; the median of three, in --quick runs
 * one.
 *
 * Peers stop where they can have no more stacks, which the column "count" shows: a guard made
 * with mprotect costs two mappings, of which a process may have 65 530. Go's goroutines wait at a
 * channel; its time to drop them ends with the last goroutine, and its memory is looked at after
 * a collection.
 *
 * Not measured: stacks that are used deeper than their first page.
 */
#include "harness.h"
#include "hold.h"
#include "peers/boost.h"
#include "peers/go.h"

#include <math.h>
#include <stdio.h>

enum { ROUNDS = 3, FIELDS = sizeof(struct kb_held) / sizeof(double) };

/* Fills in held, in a process of its own. */
typedef bool (*hold_t)(const struct kb_holder *holder, size_t count, struct kb_held *held);

static bool go_hold(const struct kb_holder *holder, size_t count, struct kb_held *held)
{
    double v[7];

    (void)holder;
    if (!kb_go_once("hold", count, 7, v))
        return false;
    *held = (struct kb_held){ v[0], v[1], v[2], v[3], v[4], v[5], v[6] };
    return true;
}

static void row_print(const char *name, const struct kb_held *h)
{
    double row[] = { h->count,
                     h->rss / h->count,
                     h->page_tables / h->count,
                     h->hold_ns / h->count,
                     h->drop_ns / h->count,
                     h->rss_after / 1e6 };

    kb_grid_row(name, row);
}

/* The fields' medians over the rounds. */
static void medians(struct kb_held *held, int rounds, struct kb_held *out)
{
    for (int field = 0; field < FIELDS; field++) {
        double v[ROUNDS];

        for (int i = 0; i < rounds; i++)
            v[i] = ((double *)&held[i])[field];
        ((double *)out)[field] = kb_median(v, rounds);
    }
}

static void ask(const char *name, hold_t hold, const struct kb_holder *holder, size_t count,
                size_t bytes_each)
{
    struct kb_held held[ROUNDS], median;
    int rounds = kb_quick() ? 1 : ROUNDS;
    char full[80];

    snprintf(full, sizeof full, "%s, %zu", name, count);
    if (!kb_grid_wants(full))
        return;
    if (!kb_hold_fits(count, bytes_each)) {
        kb_grid_skip(full, "too little free memory");
        return;
    }
    for (int i = 0; i < rounds; i++)
        if (!hold(holder, count, &held[i]) || held[i].count == 0) {
            kb_grid_skip(full, "its process failed");
            return;
        }
    medians(held, rounds, &median);
    row_print(full, &median);
}

int main(int argc, char **argv)
{
    static const char *const heads[] = { "count",    "rss B each", "tables B each",
                                         "start ns", "destroy ns", "rss after MB" };
    const struct kb_holder *boost;
    size_t peers, most;

    kb_init(argc, argv, "memory", "many suspended coroutines");
    kb_grid("memory, median of processes", 6, heads);
    peers = kb_boost_holders(&boost);
    most = kb_quick() ? 100000 : 1000000;
    (void)kb_hold_fault_ns(most + most / 4); /* a virtual machine gets its memory by touching it */
    ask(kb_hold_floor.name, kb_hold, &kb_hold_floor, 100000, 5000);
    for (size_t count = 10000; count <= most; count *= 10)
        ask("kcoro", kb_hold, &kb_hold_kcoro, count, 5000);
    for (size_t k = 0; k < peers; k++)
        for (size_t count = 10000; count <= 100000; count *= 10)
            ask(boost[k].name, kb_hold, &boost[k], count, 13000);
    if (peers == 0)
        kb_grid_skip("boost.context, boost.fiber", "not installed");
    for (size_t count = 100000; count <= most && kb_go_present(); count *= 10)
        ask("go", go_hold, NULL, count, 4000);
    if (!kb_go_present())
        kb_grid_skip("go", kb_go_missing);
    return kb_done();
}
