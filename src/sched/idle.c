/* SPDX-License-Identifier: MIT */
/*
 * idle.c - a thread of a scheduler that has nothing to run: it searches, sleeps, and is woken.
 *
 * WHAT     Who has nothing takes what is everybody's: the injector, then the oldest task of another
 *          thread's deque, beginning with a random one. For some microseconds it looks again and
 *          again; then it sets its bit (idle.h), looks a last time, and sleeps on its futex.
 *
 * ORDER    id      site          operation      pairs with  carries; what breaks if weaker
 *          idle.5  wake: awake   store_release  idle.6,     (the work itself goes through the
 *                                               run.1       queues)
 *          idle.6  sleep: awake  load_acquire   idle.5
 *          idle.7  closing       load_acquire   sched.1     what is in the inbox; a message would
 *                                                           be left behind
 *
 * WHY NOT  Wake a worker for each task: a thread that gets up costs 20 us and more. The one that
 *          finds something calls the next one, if there is more.
 */
#define _GNU_SOURCE
#include "sched/idle.h"

#include "base/os.h"
#include "sched/inbox.h"
#include "sched/no_stack.h"
#include "sched/run.h"
#include "sched/sched.h"
#include "sched/spread.h"
#include "sched/worker.h"

enum {
    SPINS = 200,
    DEQUE_KEPT = 32768, /* tasks that the array of an empty deque has room for, at most */
};

/* ---- waking --------------------------------------------------------------------------------- */

static void wake(kc_worker_t *w, uint32_t what_for)
{
    bool on_fd = w == w->sched->main && kc_load_relaxed(&w->sched->outside);

    if (on_fd) /* before main, which waits for the word, may close it */
        kc__sched_signal_fd(w->sched);
    kc_store_release(&w->awake, what_for); /* idle.5 */
    if (!on_fd)
        kc__os_wake(&w->awake);
}

void kc__worker_wake(kc_worker_t *w)
{
    if (kc__idle_claim(&w->sched->idle, w->bits))
        wake(w, KC_AWAKE_BY_NAME);
}

void kc__sched_look_again(kc_sched_t *s)
{
    if (kc__idle_claim(&s->idle, kc__idle_bit(s->main->bit)))
        wake(s->main, KC_AWAKE_BY_NAME);
}

void kc__sched_wake_any(kc_sched_t *s)
{
    uint64_t asleep = kc__idle_wakeable(&s->idle, s->members);

    if (!asleep)
        return;
    int bit = kc__idle_pick(&s->idle, kc__spread_choose(s, asleep));
    if (bit < 0) /* the one that was chosen has got up meanwhile */
        bit = kc__idle_pick(&s->idle, s->members);
    if (bit >= 0)
        wake(bit < s->workers ? s->worker[bit] : s->main, KC_AWAKE_AS_SEARCHER);
}

/* ---- searching ------------------------------------------------------------------------------ */

/* Is there something that any worker may do? */
static bool has_stealable(kc_sched_t *s)
{
    bool any = !kc__mpsc_is_empty(&s->injector) || kc__deque_size_hint(&s->main->deque) > 0;

    for (int i = 0; i < s->workers && !any; i++)
        any = kc__deque_size_hint(&s->worker[i]->deque) > 0;
    return any;
}

/* Has found something: whoever searches must not run, or nobody would be woken for what comes. */
void kc__worker_stop_searching(kc_worker_t *w)
{
    if (!w->searching)
        return;
    w->searching = false;
    if (kc__idle_found(&w->sched->idle) && has_stealable(w->sched))
        kc__sched_wake_any(w->sched);
}

static bool steal(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;
    uint32_t members = (uint32_t)s->workers + 1;

    uint32_t first = (uint32_t)kc__worker_random(w) % members;
    for (uint32_t i = 0; i < members; i++) {
        uint32_t k = (first + i) % members;
        kc_worker_t *from = k < (uint32_t)s->workers ? s->worker[k] : s->main;
        kc_steal_t got = KC_STEAL_LOST;
        void *task = NULL;
        while (from != w && got == KC_STEAL_LOST)
            got = kc__deque_steal(&from->deque, &task);
        if (got == KC_STEAL_GOT) {
            kc__worker_count(w, KC_COUNT_STEALS);
            kc__worker_keep_unstarted(w, task);
            return true;
        }
    }
    return false;
}

bool kc__worker_search(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;

    if (!w->works || kc__worker_has_mode(w, KC_MODE_NO_STACK))
        return false;
    if (!w->searching && !kc__idle_search(&s->idle, s->workers + 1))
        return false;
    w->searching = true;
    if (!kc__worker_take_injector(w) && !steal(w) && !kc__spread_take_back(w))
        return kc__worker_take_without_stack(w); /* if that gets no stack, nothing was found */
    kc__worker_stop_searching(w);
    return true;
}

/* ---- what a burst has left ------------------------------------------------------------------ */

bool kc__worker_cool(kc_worker_t *w, kc_cool_t when)
{
    bool stacks = kc__stack_cool(when), blocks = kc__block_cool(when);
    bool any = stacks || blocks;

    /* Who is busy does so when it is time for the others too. */
    if (when != KC_COOL_BUSY || any)
        any = kc__deque_cool(&w->deque, DEQUE_KEPT) || any;
    return any;
}

int64_t kc__worker_cool_at(void)
{
    int64_t stacks = kc__stack_cool_at(), blocks = kc__block_cool_at();

    return stacks < blocks ? stacks : blocks;
}

/* ---- sleeping ------------------------------------------------------------------------------- */

/* After its bit is set: is there anything to do after all? */
static bool has_anything_left(kc_worker_t *w)
{
    kc_sched_t *s = w->sched;

    if (!kc__mpsc_is_empty(&w->inbox) ||
        (w != s->main && kc_load_acquire(&s->closing))) /* idle.7 */
        return true;
    if (w == s->main && kc__worker_has_mode(w, KC_MODE_ONCE) &&
        kc_load_relaxed(&s->interval_runs) == 0)
        return true;
    uint64_t seen;
    if (w == s->main && s->held && !kc__sched_hooks.awaits_external(s, &seen))
        return true; /* all wait for ever now */
    if (kc__worker_is_stopped(w) || (w == s->main && s->until_idle && kc__sched_hooks.idle(s)))
        return true;
    return w->works && !kc__worker_has_mode(w, KC_MODE_NO_STACK) &&
           (!kc__mpsc_is_empty(&w->offers) || has_stealable(s));
}

/* True: somebody has woken it. */
static bool wait_for_wake(kc_worker_t *w, kc_time_t until)
{
    uint32_t what_for;

    while ((what_for = kc_load_acquire(&w->awake)) == KC_ASLEEP) { /* idle.6 */
        kc__os_wait(&w->awake, KC_ASLEEP, until);
        if (until != KC_FOREVER && kc__os_now() >= until &&
            kc__idle_leave(&w->sched->idle, w->bits))
            return false; /* the time has come, and nobody is about to wake us */
    }
    kc_store_relaxed(&w->awake, KC_ASLEEP);
    w->searching = what_for == KC_AWAKE_AS_SEARCHER;
    return true;
}

void kc__worker_sleep(kc_worker_t *w, kc_time_t until)
{
    kc_sched_t *s = w->sched;
    kc_time_t due = until;

    for (int i = 0; i < SPINS; i++) {
        if (!kc__mpsc_is_empty(&w->inbox)) {
            kc_store_relaxed(&w->due, 0);
            return;
        }
        if (kc__worker_search(w))
            return;
        kc__relax();
    }
    while (kc__mpsc_is_empty(&w->inbox) && kc__worker_cool(w, KC_COOL_IDLE))
        ;
    if (kc__worker_cool_at() < until)
        until = kc__worker_cool_at();
    if (kc__spread_due(w) < until)
        until = kc__spread_due(w);
    bool searching = w->searching;
    KC_CHECK(kc__worker_is_legal(w));
    w->searching = false;
    kc__idle_enter(&s->idle, w->works ? w->bit : KC_OUTSIDE_BIT, searching);
    bool left = has_anything_left(w);
    kc_store_relaxed(&w->due, left ? 0 : due);
    /* Who stays up for its own inbox has searched too, and others have relied on that. */
    if (left && searching && has_stealable(s))
        kc__sched_wake_any(s);
    if (left && kc__idle_leave(&s->idle, w->bits))
        return;
    if (kc_load_relaxed(&s->migrants))
        kc__spread_ask(w);
    if (wait_for_wake(w, kc__worker_retry_before(w, until, kc__os_now())))
        kc_store_relaxed(&w->due, 0);
    kc__worker_retry(w);
}
