/* SPDX-License-Identifier: MIT */
/*
 * sleep_model.c - a worker that has searched stays up for its own inbox: nothing else lies then.
 *
 * WHAT     While a worker searches, who makes work for anybody wakes nobody: the searcher will find
 *          it. But the searcher may have looked before the work came. It sets its bit and looks
 *          again (idle_model.c); and if there is something in its own inbox then, it stays up and
 *          may run that for ever. So it is its duty to call another for what is there for anybody.
 *          The word, the inbox and the injector are the real code; around them stands
 *          kc__worker_sleep as idle.c does it, from the end of the search on.
 *
 *          Whoever gets an item runs it for ever. The item for anybody must be got by somebody:
 *          else the sleeper waits in vain, which is a deadlock. When it is got, the sleeper may go
 *          home, which is no part of what is shown.
 *
 * SHAPE    A searcher, a sleeper and a producer. Who picks a sleeper takes the lowest bit.
 *          low      an item for anybody, and then one for the searcher alone; the searcher has the
 *                   lowest bit, so that it may call itself
 *          high     the item for the searcher is there, one for anybody comes; the sleeper has the
 *                   lowest bit
 *          reverse  the same, but both come
 *
 * ORDER    id             site          operation      pairs with     carries
 *          sleep_model.1  wake: awake   store_release  sleep_model.2  (idle.5; the word alone)
 *          sleep_model.2  sleep: awake  load_acquire   sleep_model.1  (idle.6)
 *
 * CONTROLS The fences of idle.h are weakened, and wrong designs stand in for the right one; the
 *          models must fail then. MODEL_TRACE=1 shows how.
 */
#include "base/mpsc.h"
#include "harness.h"
#include "model_case.h"
#include "sched/idle.h"

#include <string.h>

enum { WORKERS = 2 };
enum { ASLEEP, BY_NAME, AS_SEARCHER };

struct worker {
    KC_ATOMIC(uint32_t) awake;
    kc_mpsc_t inbox;
    bool searching;
};

static struct {
    kc_idle_t idle;
    kc_mpsc_t injector;
    KC_ATOMIC(uint32_t) home; /* 1: the item for anybody is got */
    struct worker worker[WORKERS];
    kc_mpsc_node_t for_anybody, errand;
    int got; /* bookkeeping: how often the item for anybody was */
} s;

static bool calls_nobody;   /* wrong: what is for anybody is left to those who come by */
static bool calls_too_soon; /* wrong: looks and calls while it still counts as a searcher */

/* ---- as in idle.c -------------------------------------------------------------------------- */

static void wake(struct worker *w, uint32_t what_for)
{
    kc_store_release(&w->awake, what_for); /* sleep_model.1 */
}

static void wake_any(void)
{
    int bit = kc__idle_pick(&s.idle, kc__idle_bit(WORKERS) - 1);

    if (bit >= 0)
        wake(&s.worker[bit], AS_SEARCHER);
}

static void wake_by_name(int i)
{
    if (kc__idle_claim(&s.idle, kc__idle_bit(i)))
        wake(&s.worker[i], BY_NAME);
}

static bool has_stealable(void)
{
    return !kc__mpsc_is_empty(&s.injector);
}

static void stop_searching(struct worker *w)
{
    if (!w->searching)
        return;
    w->searching = false;
    if (kc__idle_found(&s.idle) && has_stealable())
        wake_any();
}

/* The item is counted before the search ends: stop_searching must not look for it. */
static bool search(struct worker *w)
{
    if (!w->searching && !kc__idle_search(&s.idle, WORKERS + 1))
        return false;
    w->searching = true;
    if (!kc__mpsc_take_all(&s.injector))
        return false;
    s.got++;
    stop_searching(w);
    kc_store_relaxed(&s.home, 1);
    return true;
}

/* True: it is time to go home. */
static bool wait_for_wake(struct worker *w)
{
    uint32_t what_for;

    model_wait_until((what_for = kc_load_acquire(&w->awake)) != ASLEEP || /* sleep_model.2 */
                     kc_load_relaxed(&s.home));
    if (what_for == ASLEEP)
        return true;
    kc_store_relaxed(&w->awake, ASLEEP);
    w->searching = what_for == AS_SEARCHER;
    return false;
}

static bool go_to_sleep(int i)
{
    struct worker *w = &s.worker[i];
    bool searching = w->searching;

    w->searching = false;
    if (calls_too_soon && searching && has_stealable())
        wake_any();
    kc__idle_enter(&s.idle, i, searching);
    bool mine = !kc__mpsc_is_empty(&w->inbox), left = mine || has_stealable();
    if (left && searching && !calls_nobody && !calls_too_soon && has_stealable())
        wake_any();
    if (left && kc__idle_leave(&s.idle, kc__idle_bit(i)))
        return false;
    return wait_for_wake(w);
}

/* ---- the threads --------------------------------------------------------------------------- */

/* Until it has got something, which it runs for ever. */
static void work(int i)
{
    struct worker *w = &s.worker[i];

    do {
        if (kc__mpsc_take_all(&w->inbox)) {
            stop_searching(w);
            return;
        }
        if (search(w))
            return;
    } while (!go_to_sleep(i));
}

static void has_searched(int i)
{
    if (!go_to_sleep(i))
        work(i);
}

/* It is woken for the item. If that is not there, the searcher has it, or nobody ever will. */
static void sleeps(int i)
{
    if (!wait_for_wake(&s.worker[i]) && !search(&s.worker[i]))
        model_wait_until(kc_load_relaxed(&s.home));
}

static void make_for_anybody(void)
{
    kc__mpsc_push(&s.injector, &s.for_anybody);
    wake_any();
}

static void make_errand(int i)
{
    if (kc__mpsc_push(&s.worker[i].inbox, &s.errand))
        wake_by_name(i);
}

static void produces(int i)
{
    make_for_anybody();
    make_errand(i);
}

static void produces_one(int arg)
{
    (void)arg;
    make_for_anybody();
}

static void produces_errand_first(int i)
{
    make_errand(i);
    make_for_anybody();
}

/* ---- the models ---------------------------------------------------------------------------- */

static void reset_of(int searcher)
{
    memset(&s, 0, sizeof s);
    s.worker[searcher].searching = true;
    kc_store_relaxed(&s.idle.word, KC_IDLE_SEARCHER | kc__idle_bit(!searcher));
    model_name(&s.idle.word, "idle");
    model_name(&s.injector.head, "injector");
    model_name(&s.worker[searcher].inbox.head, "inbox of searcher");
    model_name(&s.worker[searcher].awake, "searcher is awake");
    model_name(&s.worker[!searcher].awake, "sleeper is awake");
}

static void reset_low(void)
{
    reset_of(0);
}

static void reset_high(void)
{
    reset_of(1);
    kc__mpsc_push(&s.worker[1].inbox, &s.errand);
}

static void reset_reverse(void)
{
    reset_of(1);
}

/* It was found once, and nobody is counted as a searcher who does not search. */
static void check(void)
{
    uint64_t searchers = kc_load_relaxed(&s.idle.word) / KC_IDLE_SEARCHER;

    model_assert(s.got == 1 && !has_stealable());
    for (int i = 0; i < WORKERS; i++)
        searchers -= s.worker[i].searching || s.worker[i].awake == AS_SEARCHER;
    model_assert(searchers == 0);
}

static const struct model low = {
    "low",
    reset_low,
    check,
    3,
    { { "searcher", has_searched, 0 }, { "sleeper", sleeps, 1 }, { "producer", produces, 0 } }
};
static const struct model high = {
    "high",
    reset_high,
    check,
    3,
    { { "searcher", has_searched, 1 }, { "sleeper", sleeps, 0 }, { "producer", produces_one, 0 } }
};
static const struct model reverse = { "reverse",
                                      reset_reverse,
                                      check,
                                      3,
                                      { { "searcher", has_searched, 1 },
                                        { "sleeper", sleeps, 0 },
                                        { "producer", produces_errand_first, 1 } } };

const struct model_file model_file = { .enters = NULL };

TEST(a_worker_that_stays_up_for_its_inbox_wakes_another_or_works_itself)
{
    passes(&low, 3);
}

TEST(a_worker_that_stays_up_for_its_inbox_wakes_another)
{
    passes(&high, 4);
}

TEST(a_worker_that_stays_up_for_its_inbox_relies_on_later_producers)
{
    passes(&reverse, 3);
}

TEST(control_staying_up_for_its_inbox_alone)
{
    calls_nobody = true;
    catches(&low, "low_calls_nobody", "deadlock: nobody wakes");
    catches(&high, "high_calls_nobody", "deadlock: nobody wakes");
}

TEST(control_calling_while_it_counts_as_a_searcher)
{
    calls_too_soon = true;
    catches(&low, "low_calls_too_soon", "deadlock: nobody wakes");
    catches(&high, "high_calls_too_soon", "deadlock: nobody wakes");
}

TEST(control_idle_1_without_seq_cst_misses_the_item)
{
    needs(&low, "idle.1", MODEL_ACQ_REL, "deadlock: nobody wakes");
    needs(&high, "idle.1", MODEL_ACQ_REL, "deadlock: nobody wakes");
    needs(&reverse, "idle.1", MODEL_ACQ_REL, "deadlock: nobody wakes");
}

TEST(control_idle_2_without_seq_cst_relies_on_a_sleeper)
{
    needs(&low, "idle.2", MODEL_ACQ_REL, "deadlock: nobody wakes");
    needs(&high, "idle.2", MODEL_ACQ_REL, "deadlock: nobody wakes");
    needs(&reverse, "idle.2", MODEL_ACQ_REL, "deadlock: nobody wakes");
}
