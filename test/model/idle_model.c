/* SPDX-License-Identifier: MIT */
/*
 * idle_model.c - src/sched/idle.h under the model checker, with the queues it watches over.
 *
 * WHAT     The word, the inboxes and the injector are the real code. Around them stand sending,
 *          searching and going to sleep as idle.c does them. Two things differ, both so that
 *          idle.h gets no help: a deque is one word with a bit for each item, without the fences of
 *          the real one; and what a searcher has found for itself does not count as more to do.
 *
 *          A worker that got an item for anybody runs it for ever: nothing may depend on it. Work
 *          that lies while a worker sleeps ends in a deadlock, for nobody wakes the worker. When
 *          all is found, who sleeps is sent home, and the word must be 0: no bit is left, and
 *          nobody is counted as a searcher.
 *
 *          Each sleep is woken at most once, and no wake-up is left for the next one: see wake and
 *          is_awake.
 *
 *          The checker puts each store behind all others of its object, so that a waker's store to
 *          `awake` cannot come before the sleeper's own that cleared it, as on a real machine it
 *          could. The plain `cleared` stands for that: the waker reads it where it stores.
 *
 * SHAPE    inbox   one producer sends twice; the worker sleeps whenever there is nothing
 *          named   two producers wake by name, whether or not the inbox was empty
 *          timed   the first sleep ends by itself while a producer wakes
 *          last    two tasks end, and main goes to sleep until the last has
 *          any     work for anybody: one worker sleeps, one has searched and is about to sleep
 *          more    one searches, and a second item comes when it has found the first
 *          shared  two search, one has taken two items: the other gets the second
 *          errand  who is woken to search finds something in its inbox, and never searches
 *
 * ORDER    id            site             operation      pairs with    carries
 *          idle_model.1  wake: awake      store_release  idle_model.2  (idle.5) cleared
 *          idle_model.2  sleep: awake     load_acquire   idle_model.1  (idle.6)
 *          idle_model.3  injector_taken   cas_acq_rel    idle_model.4  (inbox.1)
 *          idle_model.4  injector_taken   store_release  idle_model.3  (inbox.2)
 *          idle_model.5  task ends: live  sub_acq_rel    idle_model.6  what the task wrote
 *          idle_model.6  main: live       load_acquire   idle_model.5  the same
 *          idle_model.7  deque: push      or_release     idle_model.8  the item
 *          idle_model.8  deque: take      cas_acq_rel    idle_model.7  the same
 *
 * CONTROLS The ids of idle.h, idle_model.5 and idle_model.6 are weakened, and wrong designs stand
 *          in for the right ones; the models must fail then. MODEL_TRACE=1 shows how.
 */
#include "base/mpsc.h"
#include "harness.h"
#include "model_case.h"
#include "sched/idle.h"

#include <string.h>

enum { WORKERS = 2, ITEMS = 2 };
enum { ASLEEP, BY_NAME, AS_SEARCHER, GO_HOME = 4 }; /* GO_HOME: a bit, see over */

struct item {
    kc_mpsc_node_t node;
    int value; /* plain */
};

struct worker {
    KC_ATOMIC(uint32_t) awake;
    kc_mpsc_t inbox;
    KC_ATOMIC(uint32_t) deque;
    bool works, is_main;
    bool has_inbox; /* looks there */
    bool timed;     /* its next sleep */
    bool searching;
    struct item *next; /* what it has found for itself */
    int cleared;       /* plain */

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    bool sleeps; /* from before its bit is set until it goes on */
    int wakes;   /* of this sleep */
    bool waits;
    bool looks_again; /* it has seen work, and has not slept since */
};

static struct {
    kc_idle_t idle;
    kc_mpsc_t injector;
    KC_ATOMIC(uint32_t) injector_taken;
    KC_ATOMIC(uint32_t) time_is_up;
    KC_ATOMIC(int64_t) live;
    struct worker worker[WORKERS];
    struct item items[ITEMS];

    /* Bookkeeping. */
    bool got[ITEMS];
    int wanted;    /* items that somebody must get: 0...wanted-1 */
    int found;     /* of those */
    int searchers; /* being woken */
    bool over;
} s;

static void reset_of(int items)
{
    static const char *const names[WORKERS][5] = {
        { "awake 0", "inbox 0", "deque 0", "cleared 0", "value 0" },
        { "awake 1", "inbox 1", "deque 1", "cleared 1", "value 1" }
    };

    memset(&s, 0, sizeof s);
    s.wanted = items;
    model_name(&s.idle.word, "idle");
    model_name(&s.injector.head, "injector");
    for (int i = 0; i < WORKERS; i++) {
        struct worker *w = &s.worker[i];
        w->has_inbox = true;
        model_name(&w->awake, names[i][0]);
        model_name(&w->inbox.head, names[i][1]);
        model_name(&w->deque, names[i][2]);
        model_name(&w->cleared, names[i][3]);
        model_name(&s.items[i].value, names[i][4]);
    }
}

/* ---- wrong designs ------------------------------------------------------------------------- */

static bool claim_before_push; /* looks who sleeps, and makes work then */
static bool no_second_look;    /* sleeps on what it saw before its bit was set */
static bool bit_stays;         /* wakes whoever has its bit set; the sleeper clears it */
static bool answer_ignored;    /* the time is up, and a wake-up on its way is not waited for */
static bool search_goes_on;    /* runs what came by name while it counts as a searcher */

/* ---- making work --------------------------------------------------------------------------- */

static void wake(struct worker *w, uint32_t what_for)
{
    bool woken_once = w->sleeps && ++w->wakes == 1;

    model_assert(woken_once);
    if (what_for == AS_SEARCHER)
        s.searchers++;
    model_assert(s.searchers <= 1);
    if (!bit_stays)
        (void)model_read(&w->cleared);
    kc_store_release(&w->awake, what_for); /* idle_model.1 */
    model_wake(&w->awake, 1);
}

static int index_of(const struct worker *w)
{
    return (int)(w - s.worker);
}

static bool claim(struct worker *w)
{
    if (!bit_stays)
        return kc__idle_claim(&s.idle, kc__idle_bit(index_of(w)));
    kc_fence_seq_cst();
    return kc_load_relaxed(&s.idle.word) & kc__idle_bit(index_of(w));
}

static void wake_by_name(struct worker *w)
{
    if (claim(w))
        wake(w, BY_NAME);
}

static void wake_any(void)
{
    const uint64_t all = kc__idle_bit(WORKERS) - 1;
    uint64_t asleep = kc__idle_wakeable(&s.idle, all);

    if (!asleep)
        return;
    int bit = kc__idle_pick(&s.idle, asleep & -asleep); /* the chosen one */
    if (bit < 0)
        bit = kc__idle_pick(&s.idle, all);
    if (bit >= 0)
        wake(&s.worker[bit], AS_SEARCHER);
}

static bool push(kc_mpsc_t *to, int item)
{
    model_write(&s.items[item].value, 100 + item);
    return kc__mpsc_push(to, &s.items[item].node);
}

static void send(struct worker *w, int item)
{
    if (claim_before_push) {
        wake_by_name(w);
        push(&w->inbox, item);
    } else if (push(&w->inbox, item)) {
        wake_by_name(w);
    }
}

static void submit(int item)
{
    if (claim_before_push)
        wake_any();
    push(&s.injector, item);
    if (!claim_before_push)
        wake_any();
}

/* ---- finding work -------------------------------------------------------------------------- */

/* The model's end, no part of what it shows: whoever sleeps, and nobody has work for it, leaves. */
static void over(void)
{
    s.over = true;
    for (int i = 0; i < WORKERS; i++)
        if (s.worker[i].waits) {
            kc_or_relaxed(&s.worker[i].awake, GO_HOME);
            model_wake(&s.worker[i].awake, 1);
        }
}

static void got(struct item *item)
{
    int i = (int)(item - s.items);

    model_assert(!s.got[i]);
    s.got[i] = true;
    model_assert(model_read(&item->value) == 100 + i);
    model_write(&item->value, 0);
    if (i < s.wanted && ++s.found == s.wanted)
        over();
}

static bool has_stealable(void)
{
    bool any = !kc__mpsc_is_empty(&s.injector);

    for (int i = 0; i < WORKERS && !any; i++)
        any = kc_load_relaxed(&s.worker[i].deque) != 0;
    return any;
}

static void stop_searching(struct worker *w)
{
    w->searching = false;
    if (!kc__idle_found(&s.idle))
        return;
    if (has_stealable())
        wake_any();
}

static bool take_inbox(struct worker *w)
{
    kc_mpsc_node_t *node = kc__mpsc_take_all(&w->inbox);
    bool any = node != NULL;

    if (any && w->searching && !search_goes_on)
        stop_searching(w);
    while (node) {
        kc_mpsc_node_t *after = node->next;
        got(kc_container_of(node, struct item, node));
        node = after;
    }
    return any;
}

static void deque_push(struct worker *w, const struct item *item)
{
    kc_or_release(&w->deque, 1u << (item - s.items)); /* idle_model.7 */
}

static struct item *deque_take(struct worker *w)
{
    uint32_t seen = kc_load_relaxed(&w->deque);

    while (seen && !kc_cas_acq_rel(&w->deque, &seen, seen & (seen - 1))) /* idle_model.8 */
        ;
    return seen ? &s.items[__builtin_ctz(seen)] : NULL;
}

/* Runs one item. */
static bool run(struct worker *w)
{
    struct item *item = w->next;

    w->next = NULL;
    if (item)
        got(item);
    return item || (w->has_inbox && take_inbox(w));
}

/* Who finds it taken the second time waits, in place of looking again for ever. */
static bool take_injector(struct worker *w)
{
    uint32_t free = 0;

    if (kc__mpsc_is_empty(&s.injector))
        return false;
    if (!kc_cas_acq_rel(&s.injector_taken, &free, 1)) { /* idle_model.3 */
        if (w->looks_again)
            model_wait_until(kc_load_relaxed(&s.injector_taken) == 0);
        return false;
    }
    kc_mpsc_node_t *node = kc__mpsc_take_all(&s.injector);
    kc_store_release(&s.injector_taken, 0); /* idle_model.4 */
    bool any = node != NULL;
    if (any) {
        w->next = kc_container_of(node, struct item, node);
        node = node->next;
    }
    while (node) {
        kc_mpsc_node_t *after = node->next;
        deque_push(w, kc_container_of(node, struct item, node));
        node = after;
    }
    return any;
}

static bool steal(struct worker *w)
{
    w->next = deque_take(&s.worker[!index_of(w)]);
    return w->next != NULL;
}

static bool search(struct worker *w)
{
    if (!w->works || (!w->searching && !kc__idle_search(&s.idle, WORKERS + 1)))
        return false;
    w->searching = true;
    if (!take_injector(w) && !steal(w))
        return false;
    stop_searching(w);
    return true;
}

/* ---- sleeping ------------------------------------------------------------------------------ */

static bool has_anything_left(struct worker *w)
{
    if (no_second_look)
        return false;
    if ((w->has_inbox && !kc__mpsc_is_empty(&w->inbox)) ||
        (w->is_main && kc_load_relaxed(&s.live) == 0))
        return true;
    return w->works && has_stealable();
}

/* The sleep is over, having been woken so many times. */
static void is_awake(struct worker *w, int wakes)
{
    model_assert(bit_stays || w->wakes == wakes);
    w->wakes = 0;
    w->waits = w->sleeps = false;
}

/* True: the time is up, and nobody is about to wake us. */
static bool time_is_up(struct worker *w)
{
    if (!w->timed || !kc_load_relaxed(&s.time_is_up))
        return false;
    if (kc__idle_leave(&s.idle, kc__idle_bit(index_of(w))) || answer_ignored)
        return true;
    model_wait_until(kc_load_relaxed(&w->awake) != ASLEEP);
    return false;
}

/* A futex; with a limit in time, what it comes to. A change is seen in finite time. */
static void os_wait(struct worker *w)
{
    if (!w->timed)
        model_block(&w->awake, ASLEEP);
    model_wait_until(kc_load_relaxed(&w->awake) != ASLEEP ||
                     (w->timed && kc_load_relaxed(&s.time_is_up)));
}

static void wait_for_wake(struct worker *w)
{
    uint32_t what_for;

    w->waits = true;
    while ((what_for = kc_load_acquire(&w->awake)) == ASLEEP ||
           what_for == GO_HOME) { /* idle_model.2 */
        if (s.over && kc__idle_leave(&s.idle, kc__idle_bit(index_of(w)))) {
            is_awake(w, 0);
            return;
        }
        if (what_for == GO_HOME) {
            model_wait_until(kc_load_relaxed(&w->awake) & ~(uint32_t)GO_HOME);
            continue;
        }
        os_wait(w);
        if (time_is_up(w)) {
            is_awake(w, 0);
            return;
        }
    }
    what_for &= ~(uint32_t)GO_HOME;
    if (bit_stays)
        kc__idle_leave(&s.idle, kc__idle_bit(index_of(w)));
    is_awake(w, 1);
    if (what_for == AS_SEARCHER)
        s.searchers--;
    model_write(&w->cleared, 0);
    kc_store_relaxed(&w->awake, ASLEEP);
    w->searching = what_for == AS_SEARCHER;
}

static void go_to_sleep(struct worker *w)
{
    bool searching = w->searching;

    w->searching = false;
    model_assert(w->wakes == 0);
    w->sleeps = true;
    kc__idle_enter(&s.idle, index_of(w), searching);
    bool left = has_anything_left(w);
    if (left && searching && has_stealable()) /* why: see sleep_model.c */
        wake_any();
    w->looks_again = left && kc__idle_leave(&s.idle, kc__idle_bit(index_of(w)));
    if (w->looks_again)
        is_awake(w, 0);
    else
        wait_for_wake(w);
}

/* ---- the threads of the models ------------------------------------------------------------- */

/* Until all items are found. */
static void worker_of_inbox(int i)
{
    while (!s.over)
        if (!run(&s.worker[i]))
            go_to_sleep(&s.worker[i]);
}

static void worker_of_timed_sleep(int i)
{
    struct worker *w = &s.worker[i];

    w->timed = true;
    while (!s.over)
        if (!run(w)) {
            go_to_sleep(w);
            w->timed = false;
        }
}

/* Until it has got one, which it runs for ever. */
static void worker_of_one(int i)
{
    struct worker *w = &s.worker[i];

    while (!s.over) {
        if (run(w))
            return;
        if (!search(w))
            go_to_sleep(w);
    }
    if (w->searching)
        kc__idle_found(&s.idle);
}

static void worker_has_searched(int i)
{
    go_to_sleep(&s.worker[i]);
    worker_of_one(i);
}

static void worker_asleep(int i)
{
    wait_for_wake(&s.worker[i]);
    worker_of_one(i);
}

/* Has just taken two out of the injector. */
static void worker_of_two(int i)
{
    struct worker *w = &s.worker[i];

    for (int k = 0; k < ITEMS; k++)
        model_write(&s.items[k].value, 100 + k);
    w->next = &s.items[0];
    deque_push(w, &s.items[1]);
    stop_searching(w);
    run(w);
}

static void producer_sends(int items)
{
    for (int i = 0; i < items; i++)
        send(&s.worker[0], i);
}

static void producer_by_name(int item)
{
    if (claim_before_push)
        wake_by_name(&s.worker[0]);
    push(&s.worker[0].inbox, item);
    if (!claim_before_push)
        wake_by_name(&s.worker[0]);
}

static void producer_for_any(int item)
{
    submit(item);
}

static void producer_of_errand(int arg)
{
    (void)arg;
    submit(0);
    send(&s.worker[0], 1);
}

static void passing_time(int arg)
{
    (void)arg;
    kc_store_relaxed(&s.time_is_up, 1);
}

static void task_ends(int i)
{
    model_write(&s.items[i].value, 100 + i);
    if (kc_sub_acq_rel(&s.live, 1) == 1) /* idle_model.5 */
        wake_by_name(&s.worker[0]);
}

static void main_runs(int i)
{
    s.worker[i].is_main = true;
    while (kc_load_acquire(&s.live) != 0) /* idle_model.6 */
        go_to_sleep(&s.worker[i]);
    for (int k = 0; k < ITEMS; k++)
        got(&s.items[k]);
}

/* ---- the models ---------------------------------------------------------------------------- */

static void reset_one(void)
{
    reset_of(1);
}

static void reset_two(void)
{
    reset_of(2);
}

static void reset_last(void)
{
    reset_of(2);
    kc_store_relaxed(&s.live, 2);
}

/* Worker 0 searches, worker 1 sleeps. Nobody has an inbox. */
static void reset_any(void)
{
    reset_of(1);
    kc_store_relaxed(&s.idle.word, KC_IDLE_SEARCHER | kc__idle_bit(1));
    s.worker[0].works = s.worker[1].works = true;
    s.worker[0].has_inbox = s.worker[1].has_inbox = false;
    s.worker[0].searching = true;
    s.worker[1].sleeps = true;
}

/* And there is one item already. */
static void reset_more(void)
{
    reset_any();
    s.wanted = 2;
    push(&s.injector, 0);
}

/* Both search. */
static void reset_shared(void)
{
    reset_any();
    s.wanted = 2;
    kc_store_relaxed(&s.idle.word, 2 * KC_IDLE_SEARCHER);
    s.worker[1].searching = true;
    s.worker[1].sleeps = false;
}

/* Both sleep. Who gets the first item runs it for ever, be it to whom the second was sent. */
static void reset_errand(void)
{
    reset_any();
    s.worker[0].has_inbox = true;
    kc_store_relaxed(&s.idle.word, kc__idle_bit(0) | kc__idle_bit(1));
    s.worker[0].searching = false;
    s.worker[0].sleeps = true;
}

static void check(void)
{
    model_assert(s.found == s.wanted && s.searchers == 0 && !has_stealable());
    for (int i = 0; i < WORKERS; i++)
        model_assert(s.worker[i].wakes == 0);
    model_assert(kc_load_relaxed(&s.idle.word) == 0);
}

static const struct model inbox = { "inbox",
                                    reset_two,
                                    check,
                                    2,
                                    { { "worker", worker_of_inbox, 0 },
                                      { "producer", producer_sends, 2 } } };
static const struct model named = { "named",
                                    reset_two,
                                    check,
                                    3,
                                    { { "worker", worker_of_inbox, 0 },
                                      { "producer 0", producer_by_name, 0 },
                                      { "producer 1", producer_by_name, 1 } } };
static const struct model timed = { "timed",
                                    reset_one,
                                    check,
                                    3,
                                    { { "worker", worker_of_timed_sleep, 0 },
                                      { "producer", producer_sends, 1 },
                                      { "time", passing_time, 0 } } };
static const struct model last = {
    "last",
    reset_last,
    check,
    3,
    { { "main", main_runs, 0 }, { "task 0", task_ends, 0 }, { "task 1", task_ends, 1 } }
};
static const struct model any = { "any",
                                  reset_any,
                                  check,
                                  3,
                                  { { "worker 0", worker_has_searched, 0 },
                                    { "worker 1", worker_asleep, 1 },
                                    { "producer", producer_for_any, 0 } } };
static const struct model more = { "more",
                                   reset_more,
                                   check,
                                   3,
                                   { { "worker 0", worker_of_one, 0 },
                                     { "worker 1", worker_asleep, 1 },
                                     { "producer", producer_for_any, 1 } } };
static const struct model shared = { "shared",
                                     reset_shared,
                                     check,
                                     2,
                                     { { "worker 0", worker_of_two, 0 },
                                       { "worker 1", worker_of_one, 1 } } };
static const struct model errand = { "errand",
                                     reset_errand,
                                     check,
                                     3,
                                     { { "worker 0", worker_asleep, 0 },
                                       { "worker 1", worker_asleep, 1 },
                                       { "producer", producer_of_errand, 0 } } };

const struct model_file model_file = { .enters = NULL };

TEST(nothing_lies_in_the_inbox_of_a_sleeper)
{
    passes(&inbox, 4);
}

TEST(one_of_two_threads_that_wake_a_worker_by_name_wakes_it)
{
    passes(&named, 3);
}

TEST(a_wake_up_does_not_reach_the_sleep_after_a_timed_one)
{
    passes(&timed, 3);
}

TEST(main_wakes_when_the_last_task_has_ended)
{
    passes(&last, 3);
}

TEST(work_for_anybody_is_found)
{
    passes(&any, 3);
}

TEST(a_worker_that_finds_one_item_wakes_another_for_the_next)
{
    passes(&more, 3);
}

TEST(what_a_searcher_has_taken_is_seen_by_the_other)
{
    passes(&shared, 3);
}

TEST(a_worker_with_an_errand_leaves_the_search_to_another)
{
    passes(&errand, 3);
}

TEST(control_idle_1_without_seq_cst_sleeps_over_work)
{
    needs(&inbox, "idle.1", MODEL_ACQ_REL, "deadlock: nobody wakes worker");
    needs(&any, "idle.1", MODEL_ACQ_REL, "deadlock: nobody wakes worker");
    needs(&last, "idle.1", MODEL_ACQ_REL, "deadlock: nobody wakes main");
}

TEST(control_idle_2_without_seq_cst_wakes_nobody)
{
    needs(&inbox, "idle.2", MODEL_ACQ_REL, "deadlock: nobody wakes worker");
    needs(&any, "idle.2", MODEL_ACQ_REL, "deadlock: nobody wakes worker");
    needs(&last, "idle.2", MODEL_ACQ_REL, "deadlock: nobody wakes main");
}

TEST(control_idle_3_relaxed_wakes_before_awake_is_cleared)
{
    needs(&inbox, "idle.3", MODEL_RELAXED, "data race: producer reads cleared 0");
    needs(&inbox, "idle.3", MODEL_ACQUIRE, "data race: producer reads cleared 0");
    needs(&inbox, "idle.3", MODEL_RELEASE, "data race: producer reads cleared 0");
}

TEST(control_idle_3_without_release_hides_what_a_searcher_has_taken)
{
    needs(&shared, "idle.3", MODEL_ACQUIRE, "deadlock: nobody wakes worker");
}

TEST(control_live_relaxed_hides_what_the_task_wrote)
{
    needs(&last, "idle_model.5", MODEL_RELAXED, "data race: main reads value");
    needs(&last, "idle_model.6", MODEL_RELAXED, "data race: main reads value");
}

TEST(control_idle_4_without_seq_cst_leaves_the_second_item)
{
    needs(&more, "idle.4", MODEL_ACQ_REL, "deadlock: nobody wakes worker");
}

TEST(control_claim_before_the_push)
{
    claim_before_push = true;
    catches(&inbox, "claim_before_push", "deadlock: nobody wakes worker");
    catches(&named, "claim_before_push", "deadlock: nobody wakes worker");
    catches(&any, "pick_before_push", "deadlock: nobody wakes worker");
}

TEST(control_no_second_look)
{
    no_second_look = true;
    catches(&inbox, "no_second_look", "deadlock: nobody wakes worker");
    catches(&any, "no_second_look", "deadlock: nobody wakes worker");
    catches(&last, "no_second_look", "deadlock: nobody wakes main");
}

TEST(control_waking_without_clearing_the_bit)
{
    bit_stays = true;
    catches(&named, "bit_stays", "not true: woken_once");
}

TEST(control_a_wake_up_that_is_not_waited_for)
{
    answer_ignored = true;
    catches(&timed, "answer_ignored", "not true: bit_stays || w->wakes == wakes");
}

TEST(control_an_errand_while_it_counts_as_a_searcher)
{
    search_goes_on = true;
    catches(&errand, "search_goes_on", "deadlock: nobody wakes worker");
}
