/* SPDX-License-Identifier: MIT */
/*
 * select.c - one of several sends and receives.
 *
 * WHAT     One wait with a turn in the line of each channel. Whoever claims the wait has chosen the
 *          case. First each channel is tried. If none can do it, the select stands in line at each
 *          in turn; it looks again under the lock before it does. If it finds something then, it
 *          must claim its own wait first, because in the lines where it stands already somebody
 *          else may.
 *
 * SHAPE    try each --> stand in each line --> wait --> leave all lines
 *                          |  ready now: claim oneself; then do it, leave all lines
 *                          |             it was gone: leave all lines, and begin again
 *                          |             another has claimed us: wait for its wake
 *
 *          Those who pass a select that has claimed itself take it for gone and stand in line: when
 *          it begins again it finds them there.
 *
 * PROGRESS A try is in vain if the one it went for was claimed after the look. Either that one's
 *          wait has ended, by an item, a cancel or its time; or it is a select that has claimed
 *          itself, which it does while it takes its places. Those who try again do that one at a
 *          time, and know what the last one has done (next_try). So it was the first try of its
 *          call, of which there is one: two selects that go for each other have met after two
 *          tries, unless others come between, and these have done something or are new.
 *
 * WHY NOT  Lock all channels at once, in the order of their addresses: n log n, and all of them are
 *          held while one is looked at. Try again in the order of addresses, which no circle can
 *          have: n log n as well. Try again after a random pause: there is no bound.
 */
#include "flow/chan.h"

#include "base/os.h"

#include <errno.h>
#include <limits.h>

enum { FEW = 8 }; /* cases for which no memory is needed */

/* For those who take their places once more, one select at a time; see PROGRESS. It comes before
 * any channel's. */
static kc_lock_t next_try;

typedef struct {
    kc_case_t *cases;
    kc_turn_t *turns; /* one for each case */
    size_t n;
    size_t first; /* the case that is looked at first */
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
        kc__chan_check(k->chan, "kc_select");
        if (!kc__chan_item_ok(k->chan, k->op, k->item))
            return -EINVAL;
    }
    return 0;
}

/* Where to begin, so that no case is always looked at last. */
static size_t any_of(size_t n)
{
    static KC_ATOMIC(uint64_t) outside; /* threads of no scheduler */
    kc_worker_t *w = kc__worker();
    uint64_t x =
        w ? kc__worker_random(w) : (kc_add_relaxed(&outside, 1) + 1) * 0x9e3779b97f4a7c15u >> 32;

    return (size_t)(x * n >> 32);
}

/* The index of the case that has been done now; -EAGAIN: none. */
static int try_each(const select_t *s)
{
    for (size_t k = 0, i = s->first; k < s->n; k++, i = i + 1 < s->n ? i + 1 : 0) {
        kc_case_t *this = &s->cases[i];
        kc_chan_after_t after = { NULL, NULL };
        int rc;
        if (!this->chan)
            continue;
        do {
            kc__spin_lock(&this->chan->lock);
            rc = kc__chan_try(this->chan, this->op, this->item, &after);
            kc__spin_unlock(&this->chan->lock);
        } while (rc == -ENOMEM && kc__chan_grow(this->chan) == 0);
        if (rc == -ENOMEM)
            return rc;
        if (rc == -EAGAIN)
            continue;
        this->rc = rc;
        kc__chan_after(this->chan, &after);
        return (int)i;
    }
    return -EAGAIN;
}

static void leave_lines(const select_t *s)
{
    for (size_t i = 0; i < s->n; i++) {
        kc_chan_t *c = s->cases[i].chan;
        if (!c || s->turns[i].index < 0)
            continue;
        kc__spin_lock(&c->lock);
        kc__wait_unlink(kc__chan_line(c, s->cases[i].op), &s->turns[i].link);
        kc__spin_unlock(&c->lock);
    }
}

enum { STANDS = -1, CLAIMED = -2 }; /* in all lines; by another */

/* Stands in the line of case i. Or: it was claimed meanwhile; or the case has been done or was not
 * to be done after all, 0, -EPIPE, -EAGAIN or -ENOMEM. */
static int stand(const select_t *s, size_t i, kc_wait_t *w, kc_chan_after_t *after)
{
    kc_case_t *this = &s->cases[i];
    kc_turn_t *turn = &s->turns[i];
    int rc = STANDS;

    kc__spin_lock(&this->chan->lock);
    if (!kc__chan_ready(this->chan, this->op, w)) {
        *turn = (kc_turn_t){ .wait = w, .item = this->item, .index = (int)i };
        kc__wait_link(kc__chan_line(this->chan, this->op), &turn->link);
    } else if (!kc__wait_claim(w, 0)) {
        rc = CLAIMED;
    } else {
        rc = kc__chan_try(this->chan, this->op, this->item, after);
    }
    kc__spin_unlock(&this->chan->lock);
    return rc;
}

/* One round: the index of the case that has been done; -EAGAIN: again; or why it has ended. */
static KC_NOINLINE KC_AFTER_SWITCH int attempt(select_t *s, kc_time_t deadline, bool again)
{
    kc_chan_after_t after = { NULL, NULL };
    size_t i = s->first;
    int rc = STANDS;
    kc_wait_t w;

    kc__wait_begin_checked(&w, KC_WAIT_SELECT, s->cases);
    for (size_t k = 0; k < s->n; k++)
        s->turns[k].index = -1;
    if (kc_unlikely(again))
        kc__lock(&next_try);
    for (size_t k = 0; k < s->n && rc == STANDS; k++, i = i + 1 < s->n ? i + 1 : 0)
        if (s->cases[i].chan)
            rc = stand(s, i, &w, &after);
    if (kc_unlikely(again))
        kc__unlock(&next_try);
    if (rc == STANDS || rc == CLAIMED) {
        rc = kc__wait_commit(&w, deadline);
        leave_lines(s);
        if (rc >= 0)
            s->cases[rc].rc = s->turns[rc].rc;
        return rc;
    }
    leave_lines(s);
    i = i > 0 ? i - 1 : s->n - 1;
    if (rc == -EAGAIN || rc == -ENOMEM)
        return rc == -EAGAIN || kc__chan_grow(s->cases[i].chan) == 0 ? -EAGAIN : -ENOMEM;
    s->cases[i].rc = rc;
    kc__chan_after(s->cases[i].chan, &after);
    return (int)i;
}

static KC_NOINLINE KC_AFTER_SWITCH int wait_for_one(select_t *s, kcoro_t *co, bool biased,
                                                    kc_time_t deadline)
{
    kc_turn_t few[FEW];
    int rc;

    s->turns = s->n <= FEW ? few : kc__alloc(s->n * sizeof *s->turns);
    if (!s->turns)
        return -ENOMEM;
    for (bool again = false;; again = true) {
        bool stopped = co && kc__job_stopped(kc__job_of(co->task));
        rc = stopped ? -ECANCELED : attempt(s, deadline, again);
        if (rc != -EAGAIN)
            break;
        s->first = biased ? 0 : any_of(s->n);
    }
    if (s->turns != few)
        kc__free(s->turns);
    s->turns = NULL;
    return rc;
}

static int choose(kc_case_t *cases, size_t n, kc_time_t timeout, bool biased)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);
    int rc = check(cases, n, timeout);

    if (rc != 0)
        return rc;
    if (timeout > 0 && kc_unlikely((rc = kc__job_may_wait(co)) != 0))
        return rc;
    select_t s = { .cases = cases, .n = n, .first = biased || n == 1 ? 0 : any_of(n) };
    rc = try_each(&s);
    if (rc >= 0 && timeout > 0)
        kc__wait_charge(t, co);
    if (rc != -EAGAIN || timeout == 0)
        return rc;
    kc_time_t deadline = KC_FOREVER;
    if (timeout != KC_FOREVER) {
        kc_time_t now = kc_now();
        deadline = timeout < KC_FOREVER - now ? now + timeout : KC_FOREVER;
    }
    rc = wait_for_one(&s, co, biased, deadline);
    return rc == -ECANCELED ? kc__job_cancelled_here(co) : rc;
}

int kc_select(kc_case_t *cases, size_t n, kc_time_t timeout)
{
    return choose(cases, n, timeout, false);
}

int kc_select_biased(kc_case_t *cases, size_t n, kc_time_t timeout)
{
    return choose(cases, n, timeout, true);
}
