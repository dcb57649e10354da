/* SPDX-License-Identifier: MIT */
/*
 * select.c - one of several sends and receives.
 *
 * WHAT     One wait with a waiter in the queue of each channel. Whoever claims the wait has chosen
 *          the case. First each channel is tried. If none can do it, the select enters the queue of
 *          each in turn; it looks again under the lock before it does. If it finds something
 *          then, it must claim its own wait first, because in the queues where it stands already
 *          somebody else may.
 *
 *          The channels are looked at in an order that is drawn anew for each call, each order as
 *          likely as any other: so the first that is ready is any of those that are, however many
 *          stand between them that are not. A place is drawn when it is looked at: a select that
 *          finds something at once has drawn one.
 *
 *          A select that may not wait (a try) stands in no queue. It says -EAGAIN only if there was
 *          a moment at which no case was ready: so it looks at all of them with the locks of all,
 *          which it takes in the order of their addresses. Nothing becomes ready meanwhile. It
 *          chooses any of those that are ready.
 *
 * SHAPE    try each --> stand in each queue --> wait --> leave all queues
 *                          |  ready now: claim oneself; then do it, leave all queues
 *                          |             it was gone: leave all queues, and begin again
 *                          |             another has claimed us: wait for its wake
 *          try: lock all --> do one that is ready --> unlock all
 *
 *          Those who pass a select that has claimed itself take it for gone and wait in the queue:
 *          when it begins again it finds them there.
 *
 * PROGRESS A try is in vain if the one it went for was claimed after the look. Either that one's
 *          wait has ended, by an item, a cancel or its time; or it is a select that has claimed
 *          itself, which it does while it takes its places. Those who try again do that one at a
 *          time, and know what the last one has done (next_try). So it was the first try of its
 *          call, of which there is one: two selects that go for each other have met after two
 *          tries, unless others come between, and these have done something or are new.
 *
 * WHY NOT  Lock all channels at once if it may wait: they have to be sorted, and all are held while
 *          one is looked at. Try again in the order of addresses, which no cycle can have: sorted
 *          as well. Try again after a random pause: there is no bound.
 *          A version of each channel, looked at twice, instead of all locks: it is written for each
 *          item, and who looks at channels that are busy might look for ever.
 *          Begin anywhere and go on in the order of the cases: of two that are ready the one behind
 *          many that are not is chosen nearly always.
 */
#include "base/os.h"
#include "job/body.h"
#include "sched/worker.h"
#include "sync/chan.h"

#include <errno.h>
#include <limits.h>

enum { FEW = 8, SOME = 32 }; /* cases for which no memory is needed: to wait; before that */

/* For those who take their places once more, one select at a time; see PROGRESS. It comes before
 * any channel's. */
static kc_lock_t next_try;

typedef struct {
    kc_case_t *cases;
    kc_chan_waiter_t *turns; /* one for each case */
    uint32_t *order; /* a permutation: which is looked at first, second...; NULL: as they stand */
    size_t n;
    size_t drawn;    /* places of the order that are settled */
    uint64_t random; /* draws the others */
} select_t;

static int check(const kc_case_t *cases, size_t n, kc_time_t timeout)
{
    if (!cases || n == 0 || n > INT_MAX || timeout < 0)
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        const kc_case_t *k = &cases[i];
        if (k->op != KC_RECV && k->op != KC_SEND)
            return -EINVAL;
        if (!k->chan)
            continue;
        if (kc_unlikely(!kc__object_is(k->chan, KC_CHAN_MAGIC)))
            kc__chan_check(k->chan, "kc_select"); /* says so, and aborts */
        if (!kc__chan_has_item(k->chan, k->op, k->item))
            return -EINVAL;
    }
    return 0;
}

/* ---- in any order --------------------------------------------------------------------------- */

/* Where a sequence of draws begins. */
static uint64_t seed(void)
{
    static KC_ATOMIC(uint64_t) outside; /* threads of no scheduler */
    kc_worker_t *w = kc__worker();

    return w ? kc__worker_random(w) : kc_add_relaxed(&outside, 1);
}

/* 0...n-1, each as likely. */
KC_INLINE size_t any_of(uint64_t *random, size_t n)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (size_t)((*random >> 32) * n >> 32);
}

/* The first place of the order is settled: those that are left to be drawn. */
static KC_NOINLINE void fill_order(uint32_t *order, size_t n)
{
    for (size_t i = 1; i < n; i++)
        order[i] = (uint32_t)i;
    if (order[0] > 0)
        order[order[0]] = 0;
}

/* Settles the next place of the order. */
KC_INLINE void draw(select_t *s)
{
    size_t k = s->drawn++, i = k + any_of(&s->random, s->n - k);

    if (k == 0) { /* most need no other */
        s->order[0] = (uint32_t)i;
        return;
    }
    if (k == 1)
        fill_order(s->order, s->n);
    uint32_t drawn = s->order[i];
    s->order[i] = s->order[k];
    s->order[k] = drawn;
}

/* The case that is looked at as the k-th. */
KC_INLINE size_t nth(select_t *s, size_t k)
{
    if (!s->order)
        return k;
    if (k == s->drawn)
        draw(s);
    return s->order[k];
}

/* One after the other. The index of the case that has been done now; -EAGAIN: none. */
static int try_each(select_t *s)
{
    for (size_t k = 0; k < s->n; k++) {
        size_t i = nth(s, k);
        kc_case_t *this = &s->cases[i];
        kc_chan_after_t after = { NULL, NULL };
        int rc;
        if (!this->chan)
            continue;
        do {
            kc__chan_lock(this->chan);
            rc = kc__chan_try(this->chan, this->op, this->item, &after);
            kc__chan_unlock(this->chan);
        } while (rc == -ENOMEM && kc__chan_grow(this->chan) == 0);
        if (rc == -ENOMEM)
            return rc;
        if (rc == -EAGAIN)
            continue;
        this->rc = kc__chan_result(this->chan, rc);
        kc__chan_after(this->chan, &after);
        return (int)i;
    }
    return -EAGAIN;
}

/* ---- at one moment -------------------------------------------------------------------------- */

/* In the order of their addresses; a shell sort. */
static void sort(kc_chan_t **chans, size_t n)
{
    size_t gap = 1;

    while (gap < n / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (size_t i = gap; i < n; i++) {
            kc_chan_t *c = chans[i];
            size_t k = i;
            for (; k >= gap && (uintptr_t)chans[k - gap] > (uintptr_t)c; k -= gap)
                chans[k] = chans[k - gap];
            chans[k] = c;
        }
}

/* Writes each channel once into chans, and locks it. Returns how many. */
static size_t lock_all(const kc_case_t *cases, size_t count, kc_chan_t **chans)
{
    size_t all = 0, n = 0;
    bool sorted = true;

    for (size_t i = 0; i < count; i++) {
        kc_chan_t *c = cases[i].chan;
        if (!c)
            continue;
        sorted = sorted && (all == 0 || (uintptr_t)chans[all - 1] < (uintptr_t)c);
        chans[all++] = c;
    }
    if (!sorted)
        sort(chans, all);
    for (size_t i = 0; i < all; i++)
        if (sorted || n == 0 || chans[n - 1] != chans[i]) {
            chans[n++] = chans[i];
            kc__chan_lock(chans[i]);
        }
    return n;
}

/* With all locks: a case that is ready, the first or any; -1: none is. */
static int pick(const kc_case_t *cases, size_t n, bool biased)
{
    uint64_t random = 0;
    size_t ready = 0;
    int picked = -1;

    for (size_t i = 0; i < n && !(biased && ready > 0); i++) {
        if (!cases[i].chan || !kc__chan_is_ready(cases[i].chan, cases[i].op, NULL))
            continue;
        if (++ready == 2)
            random = seed();
        if (ready == 1 || any_of(&random, ready) == 0)
            picked = (int)i; /* each of those so far is as likely */
    }
    return picked;
}

/* The index of the case that has been done now; -EAGAIN: there was a moment at which none was
 * ready; -ENOMEM. chans: room for a channel of each case. */
static int try_at_once(kc_case_t *cases, size_t n, bool biased, kc_chan_t **chans)
{
    kc_chan_after_t after = { NULL, NULL };
    int i, rc;

    do {
        size_t locked = lock_all(cases, n, chans);
        do { /* again if who waited there was claimed by another: it is out of the queue now */
            rc = -EAGAIN;
            if ((i = pick(cases, n, biased)) >= 0)
                rc = kc__chan_try(cases[i].chan, cases[i].op, cases[i].item, &after);
        } while (i >= 0 && rc == -EAGAIN);
        while (locked > 0)
            kc__chan_unlock(chans[--locked]);
    } while (rc == -ENOMEM && kc__chan_grow(cases[i].chan) == 0);
    if (rc == -EAGAIN || rc == -ENOMEM)
        return rc;
    cases[i].rc = kc__chan_result(cases[i].chan, rc);
    kc__chan_after(cases[i].chan, &after);
    return i;
}

/* ---- waiting -------------------------------------------------------------------------------- */

static void leave_queues(const select_t *s)
{
    for (size_t i = 0; i < s->n; i++) {
        kc_chan_t *c = s->cases[i].chan;
        if (!c || s->turns[i].index < 0)
            continue;
        kc__chan_lock(c);
        kc__wait_unlink(kc__chan_queue(c, s->cases[i].op), &s->turns[i].link);
        kc__chan_unlock(c);
    }
}

enum { STANDS = -1, CLAIMED = -2 }; /* in all queues; by another */

/* Stands in the queue of case i. Or: it was claimed meanwhile; or the case has been done or was not
 * to be done after all, 0, -EPIPE, -EAGAIN or -ENOMEM. */
static int stand(const select_t *s, size_t i, kc_wait_t *w, kc_chan_after_t *after)
{
    kc_case_t *this = &s->cases[i];
    kc_chan_waiter_t *waiter = &s->turns[i];
    int rc = STANDS;

    kc__chan_lock(this->chan);
    if (!kc__chan_is_ready(this->chan, this->op, w)) {
        *waiter = (kc_chan_waiter_t){ .wait = w, .item = this->item, .index = (int)i };
        kc__wait_link(kc__chan_queue(this->chan, this->op), &waiter->link);
    } else if (!kc__wait_claim(w, 0)) {
        rc = CLAIMED;
    } else {
        rc = kc__chan_try(this->chan, this->op, this->item, after);
    }
    kc__chan_unlock(this->chan);
    return rc;
}

/* One round: the index of the case that has been done; -EAGAIN: again; or why it has ended. */
static KC_NOINLINE KC_AFTER_SWITCH int attempt(select_t *s, kc_time_t deadline, bool again)
{
    kc_chan_after_t after = { NULL, NULL };
    int rc = STANDS;
    size_t i = 0;
    kc_wait_t w;

    kc__wait_begin_checked(&w, KC_WAIT_SELECT, s->cases);
    for (size_t k = 0; k < s->n; k++)
        s->turns[k].index = -1;
    if (kc_unlikely(again))
        kc__lock(&next_try);
    for (size_t k = 0; k < s->n && rc == STANDS; k++) {
        i = nth(s, k);
        if (s->cases[i].chan)
            rc = stand(s, i, &w, &after);
    }
    if (kc_unlikely(again))
        kc__unlock(&next_try);
    if (rc == STANDS || rc == CLAIMED) {
        rc = kc__wait_commit(&w, deadline);
        leave_queues(s);
        if (rc >= 0)
            s->cases[rc].rc = s->turns[rc].rc;
        return rc;
    }
    leave_queues(s);
    if (rc == -EAGAIN || rc == -ENOMEM)
        return rc == -EAGAIN || kc__chan_grow(s->cases[i].chan) == 0 ? -EAGAIN : -ENOMEM;
    s->cases[i].rc = kc__chan_result(s->cases[i].chan, rc);
    kc__chan_after(s->cases[i].chan, &after);
    return (int)i;
}

static KC_NOINLINE KC_AFTER_SWITCH int wait_for_one(select_t *s, kcoro_t *co, kc_time_t deadline)
{
    kc_chan_waiter_t few[FEW];
    int rc;

    s->turns = s->n <= FEW ? few : kc__alloc(s->n * sizeof *s->turns);
    if (!s->turns)
        return -ENOMEM;
    for (bool again = false;; again = true) {
        bool stopped = co && kc__job_is_stopped(kc__job_of(co->task));
        rc = stopped ? -ECANCELED : attempt(s, deadline, again);
        if (rc != -EAGAIN)
            break;
    }
    if (s->turns != few)
        kc__free(s->turns);
    s->turns = NULL;
    return rc;
}

static int wait_until(kc_thread_t *t, kcoro_t *co, select_t *s, kc_time_t timeout)
{
    int rc = try_each(s);

    if (rc >= 0)
        (void)kc__wait_spend(t, co);
    if (rc != -EAGAIN)
        return rc;
    kc_time_t deadline = KC_FOREVER;
    if (timeout != KC_FOREVER) {
        kc_time_t now = kc_now();
        deadline = timeout < KC_FOREVER - now ? now + timeout : KC_FOREVER;
    }
    rc = wait_for_one(s, co, deadline);
    return rc == -ECANCELED ? kc__job_cancelled_here(co) : rc;
}

/* ---- public --------------------------------------------------------------------------------- */

static int try_now(kc_case_t *cases, size_t n, bool biased)
{
    kc_chan_t *some[SOME], **chans = n <= SOME ? some : kc__alloc(n * (sizeof some / SOME));

    if (!chans)
        return -ENOMEM;
    int rc = try_at_once(cases, n, biased, chans);
    if (n > SOME)
        kc__free(chans);
    return rc;
}

static int wait_for(kc_case_t *cases, size_t n, kc_time_t timeout, bool biased)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);
    uint32_t some[SOME], *order = some;
    int rc = kc__job_check_cancel(co);

    if (kc_unlikely(rc != 0))
        return rc;
    if (biased || n == 1)
        order = NULL;
    else if (n > SOME && !(order = kc__alloc(n * sizeof *order)))
        return -ENOMEM;
    select_t s = { .cases = cases, .order = order, .n = n, .random = order ? seed() : 0 };
    rc = wait_until(t, co, &s, timeout);
    if (n > SOME)
        kc__free(order);
    return rc;
}

static int choose(kc_case_t *cases, size_t n, kc_time_t timeout, bool biased)
{
    int rc = check(cases, n, timeout);

    if (rc != 0)
        return rc;
    return timeout == 0 ? try_now(cases, n, biased) : wait_for(cases, n, timeout, biased);
}

int kc_select(kc_case_t *cases, size_t n, kc_time_t timeout)
{
    return choose(cases, n, timeout, false);
}

int kc_select_biased(kc_case_t *cases, size_t n, kc_time_t timeout)
{
    return choose(cases, n, timeout, true);
}
