/* SPDX-License-Identifier: MIT */
/*
 * job_model_world.c - what the models of jobs are made of: the sources, and what they call.
 *
 * WHAT     A part of job_model.c, cancel_model.c and job_signal_model.c, which include it. The
 *          sources are included too, so that a pause in one of their loops can be model_spin.
 *
 * ORDER    id                 site         operation      pairs with         carries
 *          job_model_world.1  claim: word  cas_acq_rel    job_model_world.1  as wait.1
 *          job_model_world.2  wake: word   store_release  job_model_world.3  as wait.2
 *          job_model_world.3  wait: word   load_acquire   job_model_world.2  as wait.3
 */
#include "job/cycle.h"
#include "job/job.h"
#include "harness.h"
#include "model_case.h"

#include <errno.h>
#include <string.h>

/* What does not change here, or is for reports. */
#undef KC_TRACE
#define KC_TRACE(s, ...) ((void)(s), (void)sizeof((kc_record_t){ __VA_ARGS__ }))
#define kc__count(s, what) ((void)(s), (void)(what), blame_now())
#define kc__count_on(w, s, what) ((void)(w), (void)(s), (void)(what))
#define kc__worker_count(w, what) ((void)(w), (void)(what))
#define kc__trace_time(s) ((void)(s), (int64_t)0)
#define kc__job_flags(j) ((j)->task.block.flags)
#ifdef MODEL_OF_ROOTS /* there the look at a root that is gone counts */
#define kc__job_sched(j) ((void)model_read(&(j)->task.depth), &sched)
#else
#define kc__job_sched(j) ((void)(j), &sched)
#endif

static kc_sched_t sched;
uint32_t kc__tools;

/* No worker here looks for cycles. */
void kc__cycle_drain(kc_job_t *j)
{
    (void)j;
    model_assert(false);
}

/* Wrong: the parent hears of a failure when the end of the child is counted, which all can see. */
static bool blames_late;
static void blame(kc_job_t *j, int code, kc_job_t *child);
static void blame_now(void);

#include "job/cancel.h"
#include "job/create.h"
#define kc__job_fail blame
#include "job/end.c" /* NOLINT(bugprone-suspicious-include): its loops pause by model_spin */
#include "job/job.c" /* NOLINT(bugprone-suspicious-include): so that it sees the same */
#undef kc__job_fail
#include "job/cancel.c"      /* NOLINT(bugprone-suspicious-include) */
#include "job/cancel_walk.c" /* NOLINT(bugprone-suspicious-include) */
#include "job/shield.c"      /* NOLINT(bugprone-suspicious-include) */

enum { THREADS = 3, JOBS = 4, WAITS = 3 };
enum { ROOT, PARENT, CHILD, SECOND }; /* jobs */
enum { CODE = -EIO, REASON = -EINTR };

static kc_worker_t worker[THREADS]; /* thread i is worker i; only the inbox is used */

static struct {
    kc_thread_t thread[THREADS];
    kcoro_t co[THREADS]; /* of the body that the thread runs */
    kc_job_t job[JOBS];
    kc_wait_t wait[WAITS];
    int data[THREADS]; /* plain: what the threads write */

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    int made, freed[JOBS];
    int claimed[WAITS], woken[WAITS];
    int reaped[THREADS];   /* coroutines that were ended where they were */
    int sent, told;        /* messages */
    int terminated[JOBS];  /* effects of a cancel */
    bool started, stopped; /* the body has begun; it was told */
    bool attached, shielded;
    int first;         /* calls that were the first cancel of the parent */
    kc_job_t *put_off; /* its end is for the thread's own stack */
    kc_job_t *blamed;
    int code;
    void *memory[2]; /* what kc__alloc gives; NULL: none has an extension */
    int given;
} s;

static void blame_now(void)
{
    kc_job_t *j = s.blamed;

    s.blamed = NULL;
    if (j)
        kc__job_fail(j, s.code, j);
}

static void blame(kc_job_t *j, int code, kc_job_t *child)
{
    if (!blames_late) {
        kc__job_fail(j, code, child);
        return;
    }
    s.blamed = j;
    s.code = code;
}

/* ---- what they call: memory; see world.c, too ---------------------------------------------- */

void *kc__alloc(size_t size)
{
    (void)size;
    return s.given < 2 ? s.memory[s.given++] : NULL;
}

void kc__free(void *p)
{
    model_assert(!p || s.given > 0);
}

kc_block_t *kc__block_get(kc_block_cache_t *cache)
{
    (void)cache;
    model_assert(s.made < JOBS);
    return &s.job[s.made++].task.block;
}

bool kc__block_is_free(const void *at)
{
    return !at;
}

void kc__block_put(kc_block_cache_t *cache, kc_block_t *block)
{
    kc_job_t *j = kc_container_of(block, kc_job_t, task.block);

    (void)cache;
    s.freed[j - s.job]++;
    model_assert(s.freed[j - s.job] == 1);
    model_free(j, sizeof *j);
}

/* ---- what they call: the scheduler --------------------------------------------------------- */

void kc__worker_send(kc_worker_t *w, kc_block_t *block)
{
    s.sent++;
    kc__mpsc_push(&w->inbox, &block->link);
}

#ifndef MODEL_OF_ROOTS
void kc__worker_wake(kc_worker_t *w)
{
    (void)w;
}
#endif

void kc__worker_call(void (*fn)(void *arg), void *arg)
{
    fn(arg);
}

bool kc__worker_is_between(void)
{
    return kc__worker()->between;
}

void kc__worker_read_later(kc_worker_t *w, kc_block_t *block)
{
    model_assert(w == kc__worker() && !s.put_off);
    s.put_off = kc_container_of(block, kc_job_t, task.block);
}

void kc__task_submit(kc_task_t *task)
{
    model_assert(!task); /* none waits for its turn */
}

kc_time_t kc__sched_after(const kc_sched_t *of, kc_time_t ns)
{
    (void)of;
    return ns;
}

void kc__sched_record(kc_sched_t *of, kc_record_t e, const char *name)
{
    (void)of, (void)e, (void)name;
}

/* ---- what they call: the rest of the layer ------------------------------------------------- */

bool kc__grace_begin(kc_job_t *j, bool by_parent)
{
    (void)j, (void)by_parent;
    return true;
}

void kc__job_timer_ref(kc_job_timer_t *clock)
{
    (void)clock;
}

void kc__job_timer_unref(kc_job_timer_t *clock)
{
    (void)clock;
}

void kc__job_timer_drop(kc_job_timer_t *clock)
{
    (void)clock;
}

#ifndef MODEL_OF_JOB_SIGNAL /* which has the real ones */
bool kc__job_signal_terminate(kc_job_t *j)
{
    model_assert(j->task.word & KC_WORD_LOCK);
    s.terminated[j - s.job]++;
    model_assert(s.terminated[j - s.job] == 1);
    return false;
}

void kc__job_signal_tell(kc_job_t *j)
{
    model_assert(!j); /* nobody listens */
}

void kc__job_signal_cut(kc_job_t *j)
{
    (void)j;
}

void kc__job_signal_end(kc_job_t *j)
{
    (void)j;
}

void kc__job_signal_free(kc_job_ext_t *ext)
{
    (void)ext;
}
#endif

void kc__payload_end(kc_job_ext_t *ext, uint64_t done)
{
    (void)ext, (void)done;
}

void kc__payload_free(kc_job_ext_t *ext)
{
    (void)ext;
}

/* No body has returned 0 before it was cancelled. */
uint64_t kc__job_undone(const kc_job_t *j, uint64_t done)
{
    (void)j;
    (void)done;
    return KC_WORD_UNDONE;
}

void kc__locals_free(kc_job_ext_t *ext)
{
    (void)ext;
}

void kc__failure_inherit(kc_job_t *j, kc_job_t *child)
{
    (void)j, (void)child;
}

void kc__failure_report(kc_job_t *j)
{
    model_assert(!j); /* nobody asks for it */
}

kc_job_t *kc__job_equip(kc_job_t *j, bool ext, const kc_launch_opts_t *opts, uint32_t max_running,
                        bool inherits, kc_job_t *from)
{
    (void)ext, (void)opts, (void)max_running, (void)inherits, (void)from;
    model_assert(!j); /* nothing here asks for more */
    return j;
}

void kc__group_end(kc_job_t *j)
{
    kc__job_count_down(j, 0);
}

void kc__foreign_remove(kc_job_t *j)
{
    model_assert(!j); /* there is one scheduler */
}

bool kc__external_begin_foreign(kc_sched_t *of)
{
    (void)of;
    return false;
}

void kc__external_end(kc_sched_t *of)
{
    (void)of;
}

void kc__coro_set_result(kcoro_t *co, int rc)
{
    (void)rc;
    model_assert(!co); /* none has yielded */
}

bool kc__coro_task_abandon(kcoro_t *co)
{
    return kc_load_relaxed(&co->state) == KCORO_SUSPENDED;
}

void kc__coro_task_end(kc_thread_t *t, kcoro_t *co)
{
    s.reaped[co - s.co]++;
    model_assert(s.reaped[co - s.co] == 1 && co != t->current);
}

/* ---- waits: those of plain threads --------------------------------------------------------- */

/* That of drain lies in a frame, and counts as the last of ours. */
static int slot_of(const kc_wait_t *w)
{
    for (int i = 0; i < WAITS - 1; i++)
        if (w == &s.wait[i])
            return i;
    return WAITS - 1;
}

bool kc__wait_claim_own(kc_wait_t *w, int rc)
{
    uint32_t waits = 0;

    if (!kc_cas_acq_rel(&w->word, &waits, 1)) /* job_model_world.1 */
        return false;
    s.claimed[slot_of(w)]++;
    model_assert(s.claimed[slot_of(w)] == 1);
    model_write(&w->rc, rc);
    return true;
}

void kc__wait_wake(kc_wait_t *w)
{
    s.woken[slot_of(w)]++;
    model_assert(s.woken[slot_of(w)] == 1);
    kc_store_release(&w->word, KC_DONE); /* job_model_world.2 */
}

/* The body is told: only its own thread may do that. */
void kc__wait_cancel(kc_task_t *task)
{
    const kc_wait_t *w = task->wait;

    model_assert(w->worker == kc__worker());
    s.stopped = true;
}

void kc__wait_begin_uncancellable(kc_wait_t *w, kc_wait_kind_t kind, const void *object)
{
    kc_store_relaxed(&w->word, 0);
    w->kind = kind;
    w->object = object;
    w->worker = kc__worker();
    w->link.next = NULL;
}

int kc__wait_commit(kc_wait_t *w, kc_time_t deadline)
{
    (void)deadline;
    model_wait_until(kc_load_acquire(&w->word) == KC_DONE); /* job_model_world.3 */
    return model_read(&w->rc);
}

/* ---- parts of threads ---------------------------------------------------------------------- */

static void enters(int i)
{
    kc__thread_self = &s.thread[i];
}

static kc_job_t *job_new(uint32_t flags)
{
    return kc__job_create(kc__thread(), &sched, (kc_job_spec_t){ .flags = flags, .refs = 1 });
}

static bool is_done(kc_job_t *j)
{
    kc_job_state_t state = kc_job_state(j);

    return state != KC_JOB_ACTIVE && state != KC_JOB_CANCELLING;
}

/* As in join.c. */
static inline bool enqueue(kc_job_t *j, kc_wait_t *w)
{
    uint64_t word = kc__job_lock(j);
    bool waits = !(word & KC_WORD_DONE);

    if (waits)
        kc__wait_link(&j->waiters, &w->link);
    kc__job_unlock_to(j, word | (waits ? KC_WORD_WAITERS : 0));
    return waits;
}

static void read_inbox(void)
{
    kc_mpsc_node_t *node = kc__mpsc_take_all(&kc__worker()->inbox);

    while (node) {
        kc_block_t *block = kc_container_of(node, kc_block_t, link);
        kc_job_t *j = kc_container_of(block, kc_job_t, task.block);
        node = node->next;
        s.told++;
        model_assert(!(j->task.word & KC_WORD_DONE)); /* it waits for its message */
        kc__job_cancel_message(j);
    }
}

static inline void read_until_done(kc_job_t *j)
{
    while (!is_done(j)) {
        /* In this order: an acquire after the look would hide from the checker that it was late. */
        model_wait_until(is_done(j) || !kc__mpsc_is_empty(&kc__worker()->inbox));
        read_inbox();
    }
}

/* ---- families ------------------------------------------------------------------------------- */

static void reset(void)
{
    memset(&s, 0, sizeof s);
    sched.main = &worker[0];
    kc_store_relaxed(&sched.shutting, 0);
    for (int i = 0; i < THREADS; i++) {
        worker[i].sched = &sched;
        kc__mpsc_init(&worker[i].inbox);
        s.thread[i].serial = (uint32_t)i + 1;
        s.thread[i].worker = &worker[i];
        s.thread[i].current = s.thread[i].main_co = &s.co[i];
        kc_store_relaxed(&s.co[i].state, KCORO_RUNNING);
        model_name(&s.data[i], "data");
    }
    enters(0);
    kc_job_t *root = job_new(KC_JOB_ROOT);
    model_assert(root == &s.job[ROOT]);
    model_name(&s.job[ROOT].task.word, "root");
    model_name(&s.job[PARENT].task.word, "parent");
    model_name(&s.job[PARENT].refs, "refs");
    model_name(&s.job[PARENT].waiters, "waiters");
    model_name(&s.job[CHILD].task.word, "child");
    model_name(&s.job[SECOND].task.word, "second");
}

/* A job below another; its body runs on this thread. */
static kc_job_t *add(int above, int i)
{
    kc_job_t *j = job_new(0);
    int rc = kc__job_attach(&s.job[above], j);

    model_assert(rc == 0);
    kc__job_change(j, KC_WORD_BODY | KC_WORD_STARTED, 0);
    kc_store_relaxed(&j->task.worker, &worker[i]);
    j->task.co = &s.co[i];
    s.co[i].task = &j->task;
    return j;
}

/* All have ended, and are freed. */
static inline void check_gone(void)
{
    for (int i = PARENT; i < s.made; i++) {
        uint64_t word = s.job[i].task.word & (KC_WORD_DONE | KC_WORD_COUNT | KC_WORD_BODY);
        model_assert(s.freed[i] == 1);
        model_assert(word == KC_WORD_DONE || !s.job[i].parent);
    }
    model_assert((s.job[ROOT].task.word & KC_WORD_COUNT) == 1 && !s.job[ROOT].children);
    for (int i = 0; i < WAITS; i++)
        model_assert(s.woken[i] <= s.claimed[i]);
}
