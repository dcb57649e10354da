/* SPDX-License-Identifier: MIT */
/*
 * join_any_model.c - src/job/join_any.c under the model checker: who ends a wait for several jobs.
 *
 * WHAT     kc_join_any, its stand-ins and the wait that they end are the real code, as are the lock
 *          of a job's word, the spin lock that the stand-ins share, and the inbox. The first thread
 *          is the coroutine's own, and goes on in kc__worker_leave when that leaves. The end of a
 *          job is what seal and job_end (end.c) do: it claims who waits under the job's lock, says
 *          that it is over, and wakes. What the stand-ins share and the frame of the wait are
 *          freed: a use of either after that is a failure.
 *
 * SHAPE    one        one job ends
 *          both       two jobs end
 *          cancel     one job ends, and the thread of the wait cancels it
 *          both, cancel
 *
 * ORDER    join_any.1, join_any.2; those of wait.h, word.h, the locks and the inbox.
 *
 * CONTROLS join_any.1 is weakened, and the lock that the stand-ins share and that of a job are
 *          taken apart into a look and a store. The models must fail then.
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
#include "job/wait.h"
#include "job/wait.c" /* NOLINT(bugprone-suspicious-include): the model counts what is ready */

static void *allocates(size_t size);
static void frees(void *memory);
#define kc__alloc(size) allocates(size)
#define kc__free(memory) frees(memory)
static bool claims(kc_wait_t *w, int rc);
#define kc__wait_claim(w, rc) claims(w, rc)
#include "job/join_any.c" /* NOLINT(bugprone-suspicious-include) */
#undef kc__wait_claim

enum { THREADS = 3, JOBS = 2 };

static kc_sched_t sched;
static kc_worker_t worker[THREADS]; /* thread i is worker i */

static struct {
    kc_thread_t thread[THREADS];
    kcoro_t root[THREADS], co;
    kc_job_t own, job[JOBS];
    int payload[JOBS]; /* plain: what a job has written before its end */
    char shared[sizeof(struct several) + JOBS * sizeof(struct standin)]
        __attribute__((aligned(KC_CACHE_LINE)));
    kc_wait_t *frame;

    /* Bookkeeping outside the model. */
    bool cancels, over;
    int ready, claimed, freed, rc;
    size_t which;
} s;

/* ---- what they call ------------------------------------------------------------------------- */

static void *allocates(size_t size)
{
    model_assert(size <= sizeof s.shared);
    return &s.shared;
}

static void frees(void *memory)
{
    model_assert(memory == &s.shared);
    s.freed++;
    model_assert(s.freed == 1);
    model_free(&s.shared, sizeof s.shared);
}

static void made_ready(void)
{
    s.ready++;
    model_assert(s.ready == 1);
}

static void is_ready(kc_worker_t *w, kcoro_t *co)
{
    model_assert(co == &s.co && w == &worker[0] && kc__worker() == w);
    made_ready();
    kc__queue_push(&w->ready, &co->block);
}

static bool claims(kc_wait_t *w, int rc)
{
    bool mine = kc__wait_claim(w, rc);

    s.claimed += mine;
    model_assert(s.claimed <= 1 && !(mine && s.over));
    if (mine)
        model_write(&w->rc, rc);
    return mine;
}

void kc__worker_send(kc_worker_t *w, kc_block_t *block)
{
    model_assert(w == &worker[0] && block == &s.co.block);
    made_ready();
    kc__mpsc_push(&w->inbox, &block->link);
}

int kc__worker_leave(kc_thread_t *t, kcoro_t *co)
{
    model_assert(t == &s.thread[0] && co == &s.co);
    s.frame = s.own.task.wait;
    if (s.cancels) {
        kc_store_relaxed(&s.own.task.word, KC_WORD_STOP);
        kc__wait_cancel(&s.own.task);
    }
    while (!worker[0].ready.count) {
        model_wait_until(!kc__mpsc_is_empty(&worker[0].inbox));
        for (kc_mpsc_node_t *node = kc__mpsc_take_all(&worker[0].inbox); node; node = node->next)
            kc__queue_push(&worker[0].ready, kc_container_of(node, kc_block_t, link));
    }
    kc_block_t *next = kc__queue_pop(&worker[0].ready);
    model_assert(next == &co->block);
    return 0;
}

uint64_t kc__word_wait(kc_task_t *task)
{
    uint64_t seen;

    model_wait_until(!((seen = kc_load_acquire(&task->word)) & KC_WORD_LOCK));
    return seen;
}

bool kc__join_is_above(const kc_job_t *j, const kc_job_t *current)
{
    return j == current;
}

bool kc__join_enqueue(kc_thread_t *t, kc_job_t *j, kc_wait_t *w)
{
    uint64_t word = kc__job_lock(j);
    bool waits = !(word & KC_WORD_DONE);

    (void)t;
    if (waits)
        kc__wait_link(&j->waiters, &w->link);
    kc__job_unlock_to(j, word);
    return waits;
}

bool kc__join_has_failed(uint64_t word)
{
    (void)word;
    return false;
}

void kc__join_uncancellable(kc_job_t *j)
{
    model_wait_until(kc_load_acquire(&j->task.word) & KC_WORD_DONE);
}

/* ---- what they name and no model calls; see never.c, too ----------------------------------- */

void kc__job_not_live(const char *call, const void *handle)
{
    (void)call, (void)handle;
    model_fail("a job is not live");
}

void kc__suspend_cancel(const kc_wait_t *w)
{
    (void)w;
    NEVER;
}

void kc__timers_add(kc_timers_t *ts, kc_timer_t *t, kc_time_t due)
{
    (void)ts, (void)t, (void)due;
    NEVER;
}

void kc__timers_remove(kc_timers_t *ts, kc_timer_t *t)
{
    (void)ts, (void)t;
    NEVER;
}

bool kc__signal_is_in_handler(void)
{
    NEVER;
}

/* ---- who ends ------------------------------------------------------------------------------- */

/* As seal and job_end in end.c. */
static void ends(int i)
{
    kc_job_t *j = &s.job[i];
    kc_wait_t *w = NULL;

    model_write(&s.payload[i], i + 1);
    uint64_t word = kc__job_lock(j);
    if (j->waiters) {
        w = kc__wait_of(j->waiters);
        kc__wait_unlink(&j->waiters, &w->link);
        if (!kc__wait_claim_own(w, 0))
            w = NULL;
    }
    kc__job_unlock_to(j, (word & ~KC_WORD_COUNT) | KC_WORD_DONE);
    if (w)
        kc__wait_wake(w);
}

/* ---- who waits ------------------------------------------------------------------------------ */

static void joins(int cancels)
{
    kc_job_t *jobs[JOBS] = { &s.job[0], &s.job[1] };

    s.cancels = cancels;
    s.rc = kc_join_any(jobs, JOBS, &s.which);
    model_assert(s.rc == 0 || (s.rc == -ECANCELED && cancels));
    if (s.rc == 0) {
        model_assert(kc_load_relaxed(&s.job[s.which].task.word) & KC_WORD_DONE);
        model_assert(model_read(&s.payload[s.which]) == (int)s.which + 1);
    }
    if (s.frame)
        model_free(s.frame, sizeof *s.frame);
    s.over = true;
    kc_store_relaxed(&s.co.claim, KC_CLAIM_OPEN); /* as in its next wait: that is another one */
}

/* ---- the models ----------------------------------------------------------------------------- */

static void enters(int i)
{
    kc__thread_self = &s.thread[i];
}

static void reset(void)
{
    memset(&s, 0, sizeof s);
    for (int i = 0; i < THREADS; i++) {
        worker[i].sched = &sched;
        worker[i].ready = (kc_queue_t){ NULL, NULL, 0 };
        kc__mpsc_init(&worker[i].inbox);
        s.thread[i].serial = (uint32_t)i + 1;
        s.thread[i].worker = &worker[i];
        s.thread[i].current = s.thread[i].main_co = &s.root[i];
    }
    sched.main = &worker[1];
    s.co.block.flags = KC_CORO_TASK;
    s.co.task = &s.own.task;
    s.own.task.co = &s.co;
    s.thread[0].current = &s.co;
    for (int i = 0; i < JOBS; i++) {
        s.job[i].task.word = 1;
        s.job[i].task.worker = &worker[0];
        s.job[i].task.block.magic = KC_TASK_MAGIC;
        model_name(&s.job[i].task.word, i ? "job b" : "job a");
        model_name(&s.payload[i], i ? "payload b" : "payload a");
    }
    model_name(&((struct several *)(void *)s.shared)->lock.word, "lock");
    model_name(&((struct several *)(void *)s.shared)->refs, "refs");
    model_name(&s.co.claim, "claim");
    model_name(&worker[0].inbox.head, "inbox");
}

static void check(void)
{
    model_assert(s.freed <= 1 && s.ready <= 1);
    for (int i = 0; i < JOBS; i++)
        model_assert(!s.job[i].waiters);
    model_assert(worker[0].ready.count == 0);
}

static const struct model one = {
    "one", reset, check, 2, { { "own", joins, false }, { "a", ends, 0 } }
};
static const struct model both = {
    "both", reset, check, 3, { { "own", joins, false }, { "a", ends, 0 }, { "b", ends, 1 } }
};
static const struct model cancel = {
    "cancel", reset, check, 2, { { "own", joins, true }, { "b", ends, 1 } }
};
static const struct model both_cancel = {
    "both, cancel", reset, check, 3, { { "own", joins, true }, { "a", ends, 0 }, { "b", ends, 1 } }
};

const struct model_file model_file = { .slow = true, .enters = enters };

TEST(a_wait_for_several_is_ended_by_the_first)
{
    passes(&one, MODEL_UNBOUNDED);
    passes(&both, 1);
}

TEST(a_wait_for_several_is_ended_by_one_or_a_cancel)
{
    passes(&cancel, MODEL_UNBOUNDED);
    passes(&both_cancel, 1);
}

TEST(control_join_any_1_relaxed_frees_too_early)
{
    needs(&both, "join_any.1", MODEL_RELAXED, "free");
}

TEST(control_lock_5_torn_ends_a_wait_that_is_over)
{
    needs(&cancel, "lock.5", MODEL_TORN, "not true: s.claimed <= 1 && !(mine && s.over)");
}

TEST(control_word_1_torn_loses_a_waiter_in_the_queue)
{
    needs(&cancel, "word.1", MODEL_TORN, "deadlock");
}
