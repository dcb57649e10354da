/* SPDX-License-Identifier: MIT */
/*
 * job_timer_model.c - src/job/job_timer.c under the model checker: a deadline that follows its
 * body.
 *
 * WHAT     The clock is the real code. Around it stand two threads with inboxes, a set of timers
 *          for each that only its thread may touch, and a job that is gone as soon as its end has
 *          dropped the clock. Each thread reads its inbox a last time when the job has ended, as
 *          the workers of a scheduler do; what comes later is lost, and the clock with it.
 *
 * SHAPE    sent on   the body has hopped before the first thread has read that it is to keep the
 *                    time: the message follows it, while the job ends on the second thread
 *          hop       the body takes its clock along, and the job ends on the first thread
 *          ring      the time is over on the second thread, while the job ends on the first
 *          copy      the job starts on the second thread, whose launcher's keeps the time, which
 *                    may be over in this moment
 *
 * ORDER    id                 site   operation       pairs with         carries
 *          job_timer_model.1  ended  store_release,  job_timer_model.1  what was sent before the
 *                                    load_acquire                       end
 *
 *          job_timer.1 to job_timer.6.
 */
#include "job/job.h"
#include "harness.h"
#include "model_case.h"

#include <string.h>

#define kc__job_sched(j) ((void)(j), &sched)

static kc_sched_t sched;
static kc_worker_t worker[2];

#include "job/job_timer.c" /* NOLINT(bugprone-suspicious-include): its loops pause by model_spin */

static struct {
    kc_thread_t thread[2];
    kc_job_t job;
    kc_job_ext_t ext;
    struct kc_job_timer clock[2];
    KC_ATOMIC(uint32_t) ended;
    int alive; /* plain: written when the job is gone */

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    int made, freed[2], rung, moved_to;
    bool pending[2];
    kc_worker_t *late_to[2]; /* sends_late: by thread */
    kc_block_t *late[2];
} s;

static bool sends_late; /* wrong: the message follows when the state has changed */

static int me(void)
{
    return (int)(kc__thread() - s.thread);
}

/* ---- what it calls -------------------------------------------------------------------------- */

void *kc__alloc(size_t size)
{
    (void)size;
    return &s.clock[s.made++];
}

void kc__free(void *p)
{
    int i = (int)((struct kc_job_timer *)p - s.clock);

    s.freed[i]++;
    model_assert(s.freed[i] == 1);
}

static int number(const kc_timer_t *timer)
{
    return (int)(kc_container_of(timer, struct kc_job_timer, timed.timer) - s.clock);
}

void kc__timers_add(kc_timers_t *ts, kc_timer_t *t, kc_time_t due)
{
    (void)due;
    model_assert(ts == &kc__worker()->timers && !t->where);
    t->where = &ts->root;
    s.pending[number(t)] = true;
}

void kc__timers_remove(kc_timers_t *ts, kc_timer_t *t)
{
    model_assert(ts == &kc__worker()->timers && t->where == &ts->root);
    t->where = NULL;
    s.pending[number(t)] = false;
}

void kc__worker_send(kc_worker_t *w, kc_block_t *block)
{
    if (sends_late) {
        s.late_to[me()] = w;
        s.late[me()] = block;
        return;
    }
    kc__mpsc_push(&w->inbox, &block->link);
}

kc_worker_t *kc__sched_place(kc_sched_t *of, kc_affinity_t where)
{
    (void)of, (void)where;
    return NULL;
}

void kc__sched_rearm(kc_sched_t *of)
{
    (void)of;
}

bool kc__job_count_up(kc_job_t *j)
{
    (void)j;
    return true;
}

void kc__job_count_down_there(kc_job_t *j)
{
    (void)j;
}

void kc__job_ref(kc_job_t *j)
{
    (void)j;
    model_assert(model_read(&s.alive) == 1); /* it is there: its end waits for a ring */
}

void kc__job_unref(kc_job_t *j)
{
    (void)j;
}

static void rings(kc_job_t *j)
{
    (void)j;
    s.rung++;
    model_assert(s.rung == 1);
}

/* ---- the threads ---------------------------------------------------------------------------- */

static void enters(int i)
{
    kc__thread_self = &s.thread[i];
}

static void send_late(void)
{
    kc_block_t *block = s.late[me()];

    s.late[me()] = NULL;
    if (block)
        kc__mpsc_push(&s.late_to[me()]->inbox, &block->link);
}

static void read_inbox(void)
{
    kc_mpsc_node_t *node = kc__mpsc_take_all(&kc__worker()->inbox);

    while (node) {
        kc_block_t *block = kc_container_of(node, kc_block_t, link);
        node = node->next;
        kc__job_timer_message(block);
        send_late();
    }
}

/* The job ends on this thread, and is gone. */
static void end_job(void)
{
    kc_job_timer_t *clock = s.ext.timeout;

    kc__job_timer_drop(clock);
    send_late();
    model_write(&s.alive, 0);
    kc_store_release(&s.ended, 1); /* job_timer_model.1 */
}

static void read_last(void)
{
    model_wait_until(kc_load_acquire(&s.ended)); /* job_timer_model.1 */
    read_inbox();
}

static void reads(int i)
{
    (void)i;
    read_inbox();
    read_last();
}

static void ends_and_reads(int i)
{
    (void)i;
    end_job();
    read_inbox();
}

static void hops(int i)
{
    (void)i;
    kc_store_release(&s.job.task.worker, &worker[1]); /* job_timer_model.1 */
    kc__job_timer_hop(s.ext.timeout);
    end_job();
    read_inbox();
}

static void rings_if_due(int i)
{
    read_inbox();
    if (s.pending[i]) { /* of this thread's own */
        kc_timer_t *t = &s.clock[i].timed.timer;
        kc__timers_remove(&kc__worker()->timers, t);
        s.clock[i].timed.ring(&s.clock[i].timed);
    }
    read_last();
}

/* As body.c does at the start of one that another thread has taken. */
static void starts_and_ends(int i)
{
    (void)i;
    kc_job_timer_t *old = s.ext.timeout, *copy = kc__job_timer_copy_here(old);

    if (copy) {
        s.ext.timeout = copy;
        kc__job_timer_drop(old);
    }
    end_job();
    read_inbox();
}

/* ---- the models ----------------------------------------------------------------------------- */

/* A job whose body is on this thread, and a clock that is armed by that thread. */
static void reset(int body, int armed_by)
{
    memset(&s, 0, sizeof s);
    sched.workers = 2;
    sched.virtual_time = true; /* then nobody hears of a timer: it is not looked for here */
    for (int i = 0; i < 2; i++) {
        sched.worker[i] = &worker[i];
        worker[i].sched = &sched;
        kc__mpsc_init(&worker[i].inbox);
        s.thread[i].serial = (uint32_t)i + 1;
        s.thread[i].worker = &worker[i];
    }
    s.alive = 1;
    kc_store_relaxed(&s.job.task.word, KC_WORD_BODY | 1);
    kc_store_relaxed(&s.job.task.worker, &worker[body]);
    enters(armed_by);
    s.ext.timeout = kc__job_timer_new(&s.job, rings);
    kc__job_timer_arm(s.ext.timeout, 1);
    send_late();
    model_name(&s.clock[0].state, "state");
    model_name(&s.clock[0].refs, "refs");
    model_name(&s.alive, "alive");
}

static void reset_sent_on(void)
{
    reset(0, 1);
    kc_store_relaxed(&s.job.task.worker,
                     &worker[1]); /* it has hopped, and its clock is on its way */
}

static void reset_hop(void)
{
    reset(0, 0);
}

static void reset_ring(void)
{
    reset(0, 0);
}

static void check(void)
{
    for (int i = 0; i < 2; i++) {
        model_assert(!s.pending[i]);
        model_assert(kc__mpsc_is_empty(&worker[i].inbox));
        model_assert(s.freed[i] == (i < s.made));
    }
}

static const struct model sent_on = {
    "sent on", reset_sent_on, check, 2, { { "old", reads, 0 }, { "body", ends_and_reads, 1 } }
};
static const struct model hop = {
    "hop", reset_hop, check, 2, { { "body", hops, 0 }, { "new", reads, 1 } }
};
static const struct model ring = {
    "ring", reset_ring, check, 2, { { "clock", rings_if_due, 0 }, { "body", ends_and_reads, 1 } }
};
static const struct model copy = { "copy",
                                   reset_ring,
                                   check,
                                   2,
                                   { { "launcher", rings_if_due, 0 },
                                     { "body", starts_and_ends, 1 } } };

const struct model_file model_file = { .enters = enters };

TEST(a_job_timer_that_follows_its_body_is_freed_once_though_the_job_ends)
{
    passes(&sent_on, MODEL_UNBOUNDED);
}

TEST(a_job_timer_follows_a_hop_and_is_freed_once)
{
    passes(&hop, MODEL_UNBOUNDED);
}

TEST(a_job_timer_rings_for_a_live_job_or_not_at_all)
{
    passes(&ring, MODEL_UNBOUNDED);
}

TEST(a_job_that_starts_elsewhere_takes_its_timeout_along_and_leaves_no_timer)
{
    passes(&copy, MODEL_UNBOUNDED);
}

TEST(control_a_message_that_is_sent_when_the_job_may_end_is_lost)
{
    sends_late = true;
    catches(&sent_on, "sends_late", "not true: s.freed[i] ==");
}

TEST(control_job_timer_1_torn_lets_ring_and_drop_both_have_the_timer)
{
    needs(&ring, "job_timer.1", MODEL_TORN, "");
    needs(&copy, "job_timer.1", MODEL_TORN, "");
}

TEST(control_job_timer_3_relaxed_hides_that_a_ring_is_over)
{
    needs(&ring, "job_timer.3", MODEL_RELAXED, "data race");
}

TEST(control_job_timer_4_torn_frees_twice_or_never)
{
    needs(&ring, "job_timer.4", MODEL_TORN, "not true: s.freed[i] ==");
}
