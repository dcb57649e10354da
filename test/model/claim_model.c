/* SPDX-License-Identifier: MIT */
/*
 * claim_model.c - src/job/wait.c and wait.h under the model checker: who ends the wait of a
 * coroutine.
 *
 * WHAT     Begin, commit, claim, cancel, timed and wake are the real code, as are the spin lock of
 *          the queue and the inbox through which another thread wakes the coroutine. The first
 *          thread is the coroutine's own. When it leaves, that thread goes on in kc__worker_leave,
 *          which here does what else there is to do on it, and returns when the coroutine is ready.
 *          Another thread gives under the lock of the queue, or sends a cancel as a message. An
 *          item, the result and the frame of the wait are plain data: what the waiter does not see
 *          is a data race, and so is a use of the frame after its end.
 *
 *          After each claim the model asserts that it is the first of that wait, and after each
 *          push into the ready queue or the inbox that the coroutine was made ready once.
 *
 * SHAPE    cancel     one gives, and the thread of the wait cancels it
 *          time       one gives, and the time of the wait comes
 *          all        one gives, another sends a cancel, and the time comes
 *          own        one gives, another coroutine on the thread of the wait does too, and then it
 *                     is cancelled; or first
 *          message    another coroutine on the thread of the wait gives, and a cancel is sent
 *          several    a wait in two queues, as a select's: one gives in each, and it is cancelled
 *          two queues the same; in one of them the giver is on the thread of the wait
 *          no cancel  one gives, and a cancel comes that does not count
 *          again      one gives twice; the first wait is cancelled, and the next one is not
 *
 * ORDER    wait.1, wait.5; the lock's and the inbox's. Here all is relaxed or plain.
 *
 * CONTROLS wait.1 and wait.5 are taken apart into a look and a store; mpsc.1 and mpsc.2 of the
 *          inbox are weakened; another thread claims, or cancels, as only the wait's own may; a
 *          wait in two queues is claimed as if it were in one; a waiter that was given nothing
 *          leaves its queue without the lock; and an uncancellable wait is cancelled. The models
 *          must fail then.
 *
 *          Of wait.1 and wait.5 it matters only that they are one step: with either of them relaxed
 *          the models pass, because what a claimer leaves goes by the queue's lock and the inbox.
 */
#define KC_MODEL_WAITS
#include "harness.h"
#include "model_case.h"
#include "sched/worker.h"

#include <errno.h>
#include <string.h>

/* ---- what the sources see instead ----------------------------------------------------------- */

static void is_ready(kc_worker_t *w, kcoro_t *co);

#define kc__worker_count(w, what) ((void)(w), (void)(what))
#define kc__worker_ready(w, co) is_ready(w, co)
#include "base/lock.h"
#include "job/wait.h"

/* In wait.c alone: the timed's. */
static bool claims(kc_wait_t *w, int rc);
#define kc__wait_claim(w, rc) claims(w, rc)
#include "job/wait.c" /* NOLINT(bugprone-suspicious-include): the model counts its claims */
#undef kc__wait_claim

enum { THREADS = 3, QUEUES = 2, WAITS = 2, ITEM = 7, SOON = 1 };

struct queue {
    kc_spin_t lock;
    kc_link_t *waiters;
    int stock;  /* given while nobody waited */
    int inside; /* plain: two who have the lock at a time are a data race */
};

/* A place in one queue. */
struct turn {
    kc_link_t link;
    kc_wait_t *wait;
};

static kc_sched_t sched;
static kc_worker_t worker[THREADS]; /* thread i is worker i */

static struct {
    kc_thread_t thread[THREADS];
    kcoro_t root[THREADS], co; /* co: the one that waits, on the first thread */
    kc_job_t job;
    kc_timed_call_t *timed; /* what is in the timers of the first thread */
    struct queue queue[QUEUES];
    kc_wait_t wait[WAITS];
    struct turn turn[WAITS][QUEUES];
    int item;   /* plain: where the waiter receives */
    int reason; /* plain: what is written before a cancel is sent */

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    void (*meanwhile)(void); /* what else the first thread does while co is at rest */
    int round;               /* which wait it is */
    int given, got;
    int claimed[WAITS], ready[WAITS];
    int result[WAITS]; /* what who claimed it said */
    int rc[WAITS];     /* what commit returned; 1: it has not waited */
} s;

static bool as_if_own;       /* wrong: another thread claims as the wait's own */
static bool cancels_there;   /* wrong: another thread cancels, and sends no message */
static bool only;            /* wrong: a wait in two queues is claimed as if it were in one */
static bool leaves_unlocked; /* wrong: out of the queue without its lock */
static bool cancellable;     /* wrong: a cancel counts */

/* ---- what they call: the scheduler; see world.c, too ---------------------------------------- */

/* Somebody may end wait i, with this result. */
static void ended(long i, int rc)
{
    s.claimed[i]++;
    model_assert(s.claimed[i] == 1);
    s.result[i] = rc;
}

/* The coroutine is in the ready queue or in the inbox now. */
static void made_ready(void)
{
    s.ready[s.round]++;
    model_assert(s.ready[s.round] == 1);
}

/* A cancel calls this right after its claim, which is not known otherwise. */
static void is_ready(kc_worker_t *w, kcoro_t *co)
{
    model_assert(co == &s.co && w == &worker[0] && kc__worker() == w);
    if (s.co.claim == KC_CLAIM_CANCELLED)
        ended(s.round, -ECANCELED);
    made_ready();
    kc__queue_push(&w->ready, &co->block);
}

void kc__worker_send(kc_worker_t *w, kc_block_t *block)
{
    model_assert(w == &worker[0]);
    if (block == &s.co.block)
        made_ready();
    kc__mpsc_push(&w->inbox, &block->link);
}

static void cancels(void)
{
    kc__wait_cancel(&s.job.task);
}

static void reads_inbox(void)
{
    kc_mpsc_node_t *node = kc__mpsc_take_all(&worker[0].inbox);

    while (node) {
        kc_block_t *block = kc_container_of(node, kc_block_t, link);
        node = node->next;
        if (block == &s.co.block)
            kc__queue_push(&worker[0].ready, block);
        else
            cancels(); /* as kc__job_cancel_message does: it waits */
    }
}

int kc__worker_leave(kc_thread_t *t, kcoro_t *co)
{
    model_assert(t == &s.thread[0] && co == &s.co);
    reads_inbox();
    if (s.meanwhile)
        s.meanwhile();
    while (!worker[0].ready.count) {
        model_wait_until(!kc__mpsc_is_empty(&worker[0].inbox));
        reads_inbox();
    }
    kc_block_t *next = kc__queue_pop(&worker[0].ready);
    model_assert(next == &co->block);
    return 0;
}

void kc__timers_add(kc_timers_t *ts, kc_timer_t *t, kc_time_t due)
{
    (void)ts, (void)due;
    s.timed = kc_container_of(t, kc_timed_call_t, timer);
    t->where = &t->next;
}

void kc__timers_remove(kc_timers_t *ts, kc_timer_t *t)
{
    (void)ts;
    s.timed = NULL;
    t->where = NULL;
}

/* ---- what they name and no model calls; see never.c, too ----------------------------------- */

void kc__suspend_cancel(const kc_wait_t *w)
{
    (void)w;
    NEVER;
}

void kc__join_wake(kc_wait_t *w)
{
    (void)w;
    NEVER;
}

bool kc__signal_is_in_handler(void)
{
    NEVER;
}

/* ---- who ends a wait ------------------------------------------------------------------------ */

/* The result is plain, and written by the claimer alone. */
static bool claimed(kc_wait_t *w, int rc)
{
    ended(w - s.wait, rc);
    model_write(&w->rc, rc);
    return true;
}

static bool claims(kc_wait_t *w, int rc)
{
    return kc__wait_claim(w, rc) && claimed(w, rc);
}

static bool claims_own(kc_wait_t *w, int rc)
{
    kc_thread_t *t = kc__thread();
    kc_worker_t *me = t->worker;

    if (as_if_own)
        t->worker = w->worker;
    bool mine = kc__wait_claim_own(w, rc);
    t->worker = me;
    return mine && claimed(w, rc);
}

static void lock(struct queue *q)
{
    kc__spin_lock(&q->lock);
    model_write(&q->inside, 1);
}

static void unlock(struct queue *q)
{
    kc__spin_unlock(&q->lock);
}

/* To the first waiter; if there is none, it stays in the queue. single: each waiter in this queue
 * waits in no other. */
static void gives(struct queue *q, bool single)
{
    kc_wait_t *w = NULL;

    lock(q);
    while (q->waiters && !w) {
        struct turn *turn = kc_container_of(q->waiters, struct turn, link);
        kc__wait_unlink(&q->waiters, &turn->link);
        if (single ? claims_own(turn->wait, 0) : claims(turn->wait, 0))
            w = turn->wait;
    }
    if (w)
        model_write(&s.item, ITEM);
    else
        q->stock++;
    s.given++;
    unlock(q);
    if (!w)
        return;
    model_assert(model_read(&w->worker) == &worker[0]); /* wake reads its frame, and is the last */
    kc__wait_wake(w);
}

static void gives_a(int arg)
{
    (void)arg;
    gives(&s.queue[0], true);
}

static void gives_a_twice(int arg)
{
    gives_a(arg);
    gives_a(arg);
}

static void gives_one_of(int i)
{
    gives(&s.queue[i], only);
}

/* On the thread of the wait, by another coroutine. */
static void gives_here(void)
{
    gives_a(0);
}

static void gives_one_here(void)
{
    gives_one_of(0);
}

static void gives_here_and_cancels(void)
{
    gives_here();
    reads_inbox();
    cancels();
}

static void cancels_and_gives_here(void)
{
    cancels();
    reads_inbox();
    gives_here();
}

static void time_comes(void)
{
    kc_timed_call_t *timed = s.timed;

    if (!timed)
        return;
    kc__timers_remove(&worker[0].timers, &timed->timer);
    timed->ring(timed);
}

static void sends_cancel(int arg)
{
    (void)arg;
    model_write(&s.reason, ITEM);
    if (!cancels_there) {
        kc__worker_send(&worker[0], &s.job.task.block);
    } else if (kc_load_relaxed(&s.job.task.kind) != KC_WAIT_NONE) {
        kc__thread()->worker = &worker[0];
        cancels();
    }
}

/* ---- who waits ------------------------------------------------------------------------------ */

static void leaves(struct queue *q, struct turn *turn)
{
    if (!leaves_unlocked)
        lock(q);
    kc__wait_unlink(&q->waiters, &turn->link);
    if (!leaves_unlocked)
        unlock(q);
}

/* Joins the queue, unless there is something already. True: there was. */
static bool finds(struct queue *q, struct turn *turn)
{
    lock(q);
    bool found = q->stock > 0;
    if (found)
        q->stock--;
    else
        kc__wait_link(&q->waiters, &turn->link);
    unlock(q);
    return found;
}

/* The end of a wait in the first n queues: all that can be said about it by who has waited. */
static void ends(kc_wait_t *w, int n, int rc)
{
    int i = s.round;

    s.rc[i] = rc;
    model_assert(s.claimed[i] == 1 && s.ready[i] == 1 && rc == s.result[i]);
    model_assert(rc == -ECANCELED || model_read(&w->rc) == rc);
    if (rc == 0) {
        model_assert(model_read(&s.item) == ITEM);
        s.got++;
    }
    for (int k = 0; k < n; k++)
        if (rc != 0 || n > 1)
            leaves(&s.queue[k], &s.turn[i][k]);
    model_free(w, sizeof *w);
}

static kc_wait_t *begins(bool uncancellable)
{
    kc_wait_t *w = &s.wait[s.round];

    if (uncancellable && !cancellable) {
        kc__wait_begin_uncancellable(w, KC_WAIT_SEM, &s.queue[0]);
    } else {
        int rc = kc__wait_begin(w, KC_WAIT_SEM, &s.queue[0]);
        model_assert(rc == 0);
    }
    for (int k = 0; k < QUEUES; k++)
        s.turn[s.round][k].wait = w;
    return w;
}

/* In the first queue. */
static void waits_in_one(bool uncancellable, kc_time_t deadline, void (*meanwhile)(void))
{
    kc_wait_t *w = begins(uncancellable);

    s.meanwhile = meanwhile;
    if (finds(&s.queue[0], &s.turn[s.round][0]))
        s.got++;
    else
        ends(w, 1, kc__wait_commit(w, deadline));
}

static void waits_and_is_cancelled(int arg)
{
    (void)arg;
    waits_in_one(false, KC_FOREVER, cancels);
}

static void waits_for_a_time(int arg)
{
    (void)arg;
    waits_in_one(false, SOON, time_comes);
    if (s.rc[0] == -ECANCELED)
        model_assert(model_read(&s.reason) == ITEM);
}

static void waits_and_is_given_here(int arg)
{
    (void)arg;
    waits_in_one(false, KC_FOREVER, gives_here);
    if (s.rc[0] == -ECANCELED)
        model_assert(model_read(&s.reason) == ITEM);
}

static void waits_and_is_given_here_and_cancelled(int cancel_first)
{
    waits_in_one(false, KC_FOREVER,
                 cancel_first ? cancels_and_gives_here : gives_here_and_cancels);
}

static void waits_uncancellably(int arg)
{
    (void)arg;
    waits_in_one(true, KC_FOREVER, cancels);
}

static void waits_twice(int arg)
{
    waits_and_is_cancelled(arg);
    s.round = 1;
    waits_in_one(false, KC_FOREVER, NULL);
}

/* It stands in all lines already. */
static void waits_in_both(void (*meanwhile)(void))
{
    s.meanwhile = meanwhile;
    ends(&s.wait[0], QUEUES, kc__wait_commit(&s.wait[0], KC_FOREVER));
}

static void waits_in_both_and_is_cancelled(int arg)
{
    (void)arg;
    waits_in_both(cancels);
}

static void waits_in_both_and_is_given_here(int arg)
{
    (void)arg;
    waits_in_both(gives_one_here);
}

/* ---- the models ----------------------------------------------------------------------------- */

static void enters(int i)
{
    kc__thread_self = &s.thread[i];
}

static void reset(void)
{
    memset(&s, 0, sizeof s);
    sched.main = &worker[1];
    for (int i = 0; i < THREADS; i++) {
        worker[i].sched = &sched;
        worker[i].ready = (kc_queue_t){ NULL, NULL, 0 };
        kc__mpsc_init(&worker[i].inbox);
        s.thread[i].serial = (uint32_t)i + 1;
        s.thread[i].worker = &worker[i];
        s.thread[i].current = s.thread[i].main_co = &s.root[i];
    }
    s.co.block.flags = KC_CORO_TASK;
    s.co.task = &s.job.task;
    s.job.task.co = &s.co;
    s.thread[0].current = &s.co;
    for (int i = 0; i < WAITS; i++) {
        s.rc[i] = 1;
        model_name(&s.wait[i].rc, "result");
    }
    for (int i = 0; i < QUEUES; i++) {
        model_name(&s.queue[i].lock.word, i ? "lock of b" : "lock of a");
        model_name(&s.queue[i].inside, i ? "inside b" : "inside a");
    }
    model_name(&s.co.claim, "claim");
    model_name(&worker[0].inbox.head, "inbox");
    model_name(&s.item, "item");
    model_name(&s.reason, "reason");
}

/* As a select that has looked everywhere. */
static void reset_in_both(void)
{
    reset();
    enters(0);
    begins(false);
    for (int k = 0; k < QUEUES; k++)
        kc__wait_link(&s.queue[k].waiters, &s.turn[0][k].link);
}

/* Nothing was lost, and nobody stands in line or is woken any more. */
static void check_all(void)
{
    int stock = s.queue[0].stock + s.queue[1].stock;

    model_assert(s.given == s.got + stock);
    for (int i = 0; i < QUEUES; i++)
        model_assert(!s.queue[i].waiters && s.queue[i].lock.word == 0);
    for (int i = 0; i < WAITS; i++)
        model_assert(s.ready[i] == s.claimed[i] && s.claimed[i] == (s.rc[i] != 1));
    model_assert(!s.timed && worker[0].ready.count == 0);
    for (kc_mpsc_node_t *node = worker[0].inbox.head; node; node = node->next)
        model_assert(node != &s.co.block.link);
}

static void check_uncancellable(void)
{
    model_assert(s.rc[0] != -ECANCELED && s.got == 1);
    check_all();
}

static void check_again(void)
{
    model_assert(s.rc[1] != -ECANCELED && s.got == 2 - (s.rc[0] == -ECANCELED));
    check_all();
}

static const struct model cancel = { "cancel",
                                     reset,
                                     check_all,
                                     2,
                                     { { "own", waits_and_is_cancelled, 0 },
                                       { "giver", gives_a, 0 } } };
static const struct model timed = {
    "time", reset, check_all, 2, { { "own", waits_for_a_time, 0 }, { "giver", gives_a, 0 } }
};
static const struct model all = {
    "all",
    reset,
    check_all,
    3,
    { { "own", waits_for_a_time, 0 }, { "giver", gives_a, 0 }, { "canceller", sends_cancel, 0 } }
};
static const struct model own = { "own",
                                  reset,
                                  check_all,
                                  2,
                                  { { "own", waits_and_is_given_here_and_cancelled, false },
                                    { "giver", gives_a, 0 } } };
static const struct model own_late = { "own, cancelled first",
                                       reset,
                                       check_all,
                                       2,
                                       { { "own", waits_and_is_given_here_and_cancelled, true },
                                         { "giver", gives_a, 0 } } };
static const struct model message = { "message",
                                      reset,
                                      check_all,
                                      2,
                                      { { "own", waits_and_is_given_here, 0 },
                                        { "canceller", sends_cancel, 0 } } };
static const struct model several = { "several",
                                      reset_in_both,
                                      check_all,
                                      3,
                                      { { "own", waits_in_both_and_is_cancelled, 0 },
                                        { "giver", gives_one_of, 0 },
                                        { "other", gives_one_of, 1 } } };
static const struct model two_lines = { "two lines",
                                        reset_in_both,
                                        check_all,
                                        2,
                                        { { "own", waits_in_both_and_is_given_here, 0 },
                                          { "other", gives_one_of, 1 } } };
static const struct model no_cancel = { "no cancel",
                                        reset,
                                        check_uncancellable,
                                        2,
                                        { { "own", waits_uncancellably, 0 },
                                          { "giver", gives_a, 0 } } };
static const struct model again = {
    "again", reset, check_again, 2, { { "own", waits_twice, 0 }, { "giver", gives_a_twice, 0 } }
};

const struct model_file model_file = { .enters = enters };

TEST(a_wait_is_ended_by_a_giver_or_by_a_cancel)
{
    passes(&cancel, 5);
}

TEST(a_wait_is_ended_by_a_giver_or_by_its_deadline)
{
    passes(&timed, 5);
}

TEST(a_wait_is_ended_by_one_of_a_giver_a_cancel_and_its_deadline)
{
    passes(&all, 3);
}

TEST(a_wait_is_ended_by_a_giver_on_its_own_thread_or_on_another)
{
    passes(&own, 5);
    passes(&own_late, 5);
}

TEST(a_wait_is_ended_by_a_giver_on_its_own_thread_or_by_a_cancel_that_was_sent)
{
    passes(&message, MODEL_UNBOUNDED);
}

TEST(a_wait_in_two_queues_is_ended_in_one_or_by_a_cancel)
{
    passes(&several, 3);
    passes(&two_lines, MODEL_UNBOUNDED);
}

TEST(an_uncancellable_wait_is_not_cancelled)
{
    passes(&no_cancel, MODEL_UNBOUNDED);
}

TEST(a_giver_that_has_missed_a_wait_does_not_end_the_next)
{
    passes(&again, 3);
}

TEST(control_wait_1_torn_ends_a_wait_twice)
{
    needs(&cancel, "wait.1", MODEL_TORN, "not true: s.claimed[i] == 1");
    needs(&timed, "wait.1", MODEL_TORN, "not true: s.claimed[i] == 1");
    needs(&own_late, "wait.1", MODEL_TORN, "not true: s.claimed[i] == 1");
    needs(&several, "wait.1", MODEL_TORN, "not true: s.claimed[i] == 1");
}

TEST(control_wait_5_torn_ends_a_wait_twice)
{
    needs(&cancel, "wait.5", MODEL_TORN, "not true: s.claimed[i] == 1");
    needs(&all, "wait.5", MODEL_TORN, "not true: s.claimed[i] == 1");
    needs(&several, "wait.5", MODEL_TORN, "not true: s.claimed[i] == 1");
}

TEST(control_another_thread_claims_as_if_it_were_the_waits_own)
{
    as_if_own = true;
    catches(&cancel, "as_if_own", "not true: s.claimed[i] == 1");
}

TEST(control_another_thread_cancels_and_sends_no_message)
{
    cancels_there = true;
    catches(&message, "cancels_there", "not true: s.claimed[i] == 1");
}

TEST(control_a_wait_in_two_queues_is_claimed_as_if_it_were_in_one)
{
    only = true;
    catches(&two_lines, "only", "not true: s.claimed[i] == 1");
}

TEST(control_a_waiter_that_leaves_a_queue_without_its_lock)
{
    leaves_unlocked = true;
    catches(&again, "leaves_unlocked", "not true: s.claimed[i] == 1");
}

TEST(control_an_uncancellable_wait_that_is_cancelled)
{
    cancellable = true;
    catches(&no_cancel, "cancellable", "not true: s.rc[0] != -ECANCELED");
}

TEST(control_mpsc_1_relaxed_hides_what_was_given)
{
    needs(&cancel, "mpsc.1", MODEL_RELAXED, "data race: own reads");
}

TEST(control_mpsc_2_relaxed_misses_what_was_given)
{
    needs(&cancel, "mpsc.2", MODEL_RELAXED, "data race: own reads");
}
