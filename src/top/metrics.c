/* SPDX-License-Identifier: MIT */
/*
 * metrics.c - the counters of a scheduler, added up.
 *
 * Each thread of a scheduler counts in its own lines, other threads in some that they share
 * (kc__count in sched.h). Ends are added up before creations, so that jobs_live errs upwards while
 * jobs come and go.
 */
#include "coro/stack.h"
#include "sched/sched.h"

#include <kcoro/trace.h>

#include <string.h>

static uint64_t sum(kc_sched_t *s, kc_counter_t what)
{
    uint64_t all = kc_load_relaxed(&s->counter[what]) + kc_load_relaxed(&s->main->counter[what]);

    for (int i = 0; i < s->workers; i++)
        all += kc_load_relaxed(&s->worker[i]->counter[what]);
    return all;
}

static uint64_t turns(const kc_sched_t *s)
{
    uint64_t all = kc_load_relaxed(&s->main->turns);

    for (int i = 0; i < s->workers; i++)
        all += kc_load_relaxed(&s->worker[i]->turns);
    return all;
}

/* A gauge from two counters that move while they are read. */
static uint64_t difference(uint64_t more, uint64_t less)
{
    return more > less ? more - less : 0;
}

void kc_metrics(kc_sched_t *s, kc_metrics_t *out)
{
    if (!s || !out)
        kc__usage("kc_metrics", s ? "there is no place for the numbers " KC_RULE("E1")
                                  : "the scheduler is NULL " KC_RULE("E1"));
    kc__sched_check("kc_metrics", s);
    memset(out, 0, sizeof *out);
    out->jobs_completed = sum(s, KC_COUNT_COMPLETED);
    out->jobs_failed = sum(s, KC_COUNT_FAILED);
    out->jobs_cancelled = sum(s, KC_COUNT_CANCELLED);
    out->jobs_created = sum(s, KC_COUNT_CREATED);
    out->jobs_live = difference(out->jobs_created,
                                out->jobs_completed + out->jobs_failed + out->jobs_cancelled);
    out->cancellations_requested = sum(s, KC_COUNT_CANCELLATIONS);
    out->waiters_woken = sum(s, KC_COUNT_WAKES);
    out->waiters_registered = sum(s, KC_COUNT_WAITS);
    uint64_t stays = sum(s, KC_COUNT_STAYS);
    out->switches = difference(turns(s) + sum(s, KC_COUNT_NOW), stays);
    out->steals = sum(s, KC_COUNT_STEALS);
    out->parks = sum(s, KC_COUNT_PARKS);
    out->timers_fired = sum(s, KC_COUNT_TIMERS);
    uint64_t reaped = sum(s, KC_COUNT_REAPED);
    out->spawns = sum(s, KC_COUNT_SPAWNS);
    out->stacks_in_use = difference(out->spawns, reaped);
    kc_stack_stats_t stacks = kc__stack_stats();
    out->stacks_pooled = stacks.warm + stacks.cold;
    out->stacks_made = stacks.made;
    out->waiting_for_stack = kc_load_relaxed(&s->no_stack_count);
}
