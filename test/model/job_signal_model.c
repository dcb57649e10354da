/* SPDX-License-Identifier: MIT */
/*
 * job_signal_model.c - two windows of a few instructions in cancel.c, job_signal.c and join.c: what
 * gets lost.
 *
 * WHAT     The world is that of job_model.c, with the real job_signal.c and join.c. A signal is
 *          only what it was told; the wait of who joins ends as in wait.c, by the end or by a
 *          message.
 *
 * SHAPE    listen   a job's signal is made while its parent's cancel tells it, with others like it,
 *                   under the parent's lock: it has TERMINATE
 *          seen     a job with a signal is cancelled; its body, or another who sees that, sees
 *                   TERMINATE
 *          join     a body joins a child that fails, and tells its parent so just then: who had
 *                   begun before it was cancelled gets the child's code
 *
 * ORDER    word.1 to word.3, job.5, cancel.1, cancel.2; and of the signal's state
 *          id            site           operation      pairs with    carries; what breaks if weaker
 *          job_signal_model.1  preset: state  store_release  job_signal_model.2  as signal.1
 *          job_signal_model.2  looks: state   load_acquire   job_signal_model.1  as signal.2
 *
 * CONTROLS As in job_model.c; the others stand in for what the sources once did.
 */
#define MODEL_OF_JOB_SIGNAL
#include "job/job.h"
#include "model.h"

/* Wrong: whether a child has an extension is looked up before its lock is taken. */
static bool looks_too_early;
static const kc_job_t *looked_at;
static kc_job_ext_t *looked_up;

static bool word_try(kc_task_t *task, uint64_t seen, uint64_t word)
{
    const kc_job_t *j = kc_container_of(task, kc_job_t, task);
    kc_job_ext_t *ext = looks_too_early ? kc__job_ext_of(j) : NULL;
    bool taken = kc__word_try(task, seen, word);

    if (taken && looks_too_early) {
        looked_at = j;
        looked_up = ext;
    }
    return taken;
}

static kc_job_ext_t *ext_of(const kc_job_t *j)
{
    if (looked_at != j)
        return kc__job_ext_of(j);
    looked_at = NULL;
    return looked_up;
}

#define kc__word_try word_try
#define kc__job_ext_of ext_of
#include "job_model_world.c" /* NOLINT(bugprone-suspicious-include): a part of this file */
#undef kc__job_ext_of
#define s its_sched         /* ours is the world */
#include "job/job_signal.c" /* NOLINT(bugprone-suspicious-include) */
#undef s

static bool found_stopped; /* who joins was cancelled before it began */
static int commits(kc_wait_t *w);

static bool stopped(const kc_job_t *j)
{
    bool is = kc__job_is_stopped(j);

    found_stopped = found_stopped || is;
    return is;
}

/* Wrong: a child that has not ended has not failed, though nothing can change that any more. */
static bool waits_to_be_shown;
static const uint64_t count_bits = KC_WORD_COUNT;

#define s its_sched
#define enqueue join_enqueue
#define kc__job_is_stopped stopped
#define kc__wait_commit_on(t, co, w, deadline)                                                    \
    ((void)(t), (void)(co), (void)(deadline), commits(w))
#undef KC_WORD_COUNT
#define KC_WORD_COUNT (waits_to_be_shown && !(word & KC_WORD_DONE) ? UINT64_MAX : count_bits)
#include "job/join.c" /* NOLINT(bugprone-suspicious-include) */
#undef enqueue
#undef s

/* Nobody disposes of anything here. */
void *kc__payload_take(kc_job_t *j)
{
    return j->task.payload;
}

void kc__payload_replace(kc_job_t *j, const void *by)
{
    (void)j, (void)by;
}

/* ---- signals: what they were told ----------------------------------------------------------- */

static kc_job_ext_t extension;
static struct kc_job_signal job_signal;
static int told_so; /* TERMINATE was set, or was there from the beginning */
static int heard;   /* those who listen were told */
static char the_signal;
static KC_ATOMIC(uint64_t) state; /* its */

static bool sets_late; /* wrong: TERMINATE is set when those who listen are told */

kc_signal_t *kc__signal_new_owned(const struct kc_signal_owner *ops, void *owner)
{
    (void)ops, (void)owner;
    return (kc_signal_t *)&the_signal;
}

kc_sigset_t kc__signal_preset(kc_signal_t *of, kc_sigset_t bits)
{
    kc_sigset_t before = kc_load_relaxed(&state); /* under the job's lock, as all who change it */

    model_assert(of && bits == KC_SIG_TERMINATE);
    told_so++;
    if (!sets_late)
        kc_store_release(&state, bits); /* job_signal_model.1 */
    return bits & ~before;
}

void kc__signal_tell(kc_signal_t *of, kc_sigset_t bits)
{
    model_assert(of && bits == KC_SIG_TERMINATE);
    if (sets_late)
        kc_store_release(&state, bits); /* job_signal_model.1 */
    heard++;
    model_assert(heard == 1);
}

void kc__signal_disown(kc_signal_t *of)
{
    (void)of;
}

void kc_signal_release(kc_signal_t *of)
{
    model_assert(!of); /* one thread asks for it */
}

bool kc__signal_is_in_handler(void)
{
    return false;
}

/* ---- what they call, and these models do not come to ---------------------------------------- */

int kc_slot_bind(kc_slot_t *slot, kc_signal_t *of, kc_sigset_t filter)
{
    (void)slot, (void)of, (void)filter;
    model_fail("a slot is bound");
}

void kc_slot_unbind(kc_slot_t *slot)
{
    (void)slot;
    model_fail("a slot is taken off");
}

kc_signal_t *kc_signal_create(size_t data_size)
{
    (void)data_size;
    model_fail("a signal is made");
}

kc_sigset_t kc__signal_own(kc_signal_t *of, const struct kc_signal_owner *ops, void *owner)
{
    (void)of, (void)ops, (void)owner;
    model_fail("a signal is given to a job");
}

int kc_slot_chain(kc_slot_t *slot, kc_signal_t *to)
{
    (void)slot, (void)to;
    model_fail("a chain is made");
}

int kc_launch_job(kc_fn_t fn, void *arg, const kc_launch_opts_t *opts, kc_job_t **out)
{
    (void)fn, (void)arg, (void)opts, (void)out;
    model_fail("a job is launched");
}

/* ---- waits that a cancel ends --------------------------------------------------------------- */

void kc__wait_begin_checked(kc_wait_t *w, kc_wait_kind_t kind, const void *object)
{
    kc__wait_begin_uncancellable(w, kind, object);
    w->co = &s.co[0];
}

/* The body's: its thread reads its messages meanwhile. */
static int commits(kc_wait_t *w)
{
    kc_task_t *task = &s.job[PARENT].task;

    task->wait = w;
    kc_store_relaxed(&task->kind, KC_WAIT_JOIN);
    while (kc_load_acquire(&w->word) != KC_DONE) {
        model_wait_until(kc_load_acquire(&w->word) == KC_DONE ||
                         !kc__mpsc_is_empty(&kc__worker()->inbox));
        read_inbox();
        if (s.stopped && kc__wait_claim_own(w, -ECANCELED)) {
            s.claimed[slot_of(w)] = 0; /* the next one may be in its place */
            break;
        }
    }
    kc_store_relaxed(&task->kind, KC_WAIT_NONE);
    return model_read(&w->rc);
}

/* ---- the threads ---------------------------------------------------------------------------- */

/* The child waits on this thread, and has no children, shields or leases. */
static void cancels_parent(int job)
{
    kc__job_cancel(&s.job[job], REASON, KC_BY_USER);
}

static void listens(int job)
{
    model_assert(own_signal(&s.job[job]) == (kc_signal_t *)&the_signal);
}

/* Wherever it looks. */
static void looks(int job)
{
    kc_job_t *j = &s.job[job];

    if (kc_job_reason(j) != 0 || kc_job_state(j) == KC_JOB_CANCELLING)
        model_assert(kc_load_acquire(&state) & KC_SIG_TERMINATE); /* job_signal_model.2 */
}

/* The body, which is the job's own thread. */
static void asks(int job)
{
    model_assert(kc__job_current() == &s.job[job]);
    if (kc_cancelled())
        model_assert(kc_load_acquire(&state) & KC_SIG_TERMINATE); /* job_signal_model.2 */
}

static void cancels_itself(int job)
{
    kc__job_cancel(&s.job[job], REASON, KC_BY_USER);
}

static void joins_child(int job)
{
    kc_job_t *j = &s.job[PARENT], *child = &s.job[job];
    int rc = join(child, KC_FOREVER);

    model_assert(rc == CODE || (rc == -ECANCELED && found_stopped));
    model_assert((kc__job_word(child) & KC_WORD_DONE) && (kc__job_word(j) & KC_WORD_STOP));
    kc__job_unref(child);
    kc__job_count_down(j, KC_WORD_BODY);
    read_until_done(j);
}

/* Its code is set already. */
static void child_fails(int job)
{
    kc__job_count_down(&s.job[job], 0);
}

/* ---- the models ----------------------------------------------------------------------------- */

static void reset_signal(void)
{
    reset();
    memset(&extension, 0, sizeof extension);
    memset(&job_signal, 0, sizeof job_signal);
    looked_at = NULL;
    told_so = heard = 0;
    kc_store_relaxed(&state, 0);
    model_name(&state, "state");
    found_stopped = false;
}

static void reset_listen(void)
{
    reset_signal();
    s.memory[0] = &extension;
    s.memory[1] = &job_signal;
    add(ROOT, 0);
    kc_job_t *child = add(PARENT, 0);
    kc__wait_begin_uncancellable(&s.wait[0], KC_WAIT_SLEEP, NULL);
    child->task.wait = &s.wait[0];
    kc_store_relaxed(&child->task.kind, KC_WAIT_SLEEP);
}

/* A job that somebody listens to. */
static void reset_seen(void)
{
    reset_signal();
    s.memory[0] = &extension;
    s.memory[1] = &job_signal;
    kc_job_t *j = add(ROOT, 1);
    model_assert(own_signal(j) == (kc_signal_t *)&the_signal);
    kc_store_relaxed(&s.co[1].block.flags, KC_CORO_TASK);
    kc__job_ref(j);
}

static void check_seen(void)
{
    model_assert(s.job[PARENT].task.word & KC_WORD_STOP);
    model_assert(told_so == 1 && heard == 1);
}

static void reset_join(void)
{
    reset_signal();
    kc_job_t *j = add(ROOT, 0);
    kc_job_t *child = add(PARENT, 1);
    kc_store_relaxed(&s.co[0].block.flags, KC_CORO_TASK);
    kc__job_change(child, 0, KC_WORD_BODY);
    child->code = CODE;
    kc__job_ref(child);
    kc__job_ref(j);
}

/* The child is cancelled, and whoever has its signal can see that. */
static void check_listen(void)
{
    kc_job_t *child = &s.job[CHILD];

    model_assert(child->task.word & KC_WORD_STOP);
    model_assert(job_signal.signal && told_so > 0);
}

static void check_join(void)
{
    kc_job_t *j = &s.job[PARENT];

    enters(0);
    model_assert(kc_job_state(j) == KC_JOB_FAILED && kc__job_result(j) == CODE);
    kc__job_unref(j);
    check_gone();
}

static const struct model listen = { "listen",
                                     reset_listen,
                                     check_listen,
                                     2,
                                     { { "one", cancels_parent, PARENT },
                                       { "other", listens, CHILD } } };
static const struct model seen = {
    "seen",
    reset_seen,
    check_seen,
    3,
    { { "cancels", cancels_itself, PARENT }, { "body", asks, PARENT }, { "looks", looks, PARENT } }
};
static const struct model joins = { "join",
                                    reset_join,
                                    check_join,
                                    2,
                                    { { "body", joins_child, CHILD },
                                      { "child", child_fails, CHILD } } };

const struct model_file model_file = { .enters = enters, .slow = true };

TEST(a_signal_made_while_its_job_is_told_has_terminate)
{
    passes(&listen, 3);
}

TEST(an_observer_of_a_cancel_sees_terminate)
{
    passes(&seen, 2);
}

TEST(a_joiner_of_a_child_that_reports_its_failure_gets_its_code)
{
    passes(&joins, 3);
}

TEST(control_terminate_that_is_set_when_it_is_told)
{
    sets_late = true;
    catches(&seen, "sets_late", "kc_load_acquire(&state)");
}

TEST(control_word_2_relaxed_shows_a_cancel_without_terminate)
{
    needs(&seen, "word.2", MODEL_RELAXED, "kc_load_acquire(&state)");
}

TEST(control_cancel_2_relaxed_shows_a_cancel_without_terminate)
{
    needs(&seen, "cancel.2", MODEL_RELAXED, "kc_load_acquire(&state)");
}

TEST(control_an_extension_that_is_looked_up_before_the_lock)
{
    looks_too_early = true;
    catches(&listen, "looks_too_early", "told_so > 0");
}

TEST(control_a_failure_that_counts_only_when_it_is_shown)
{
    waits_to_be_shown = true;
    catches(&joins, "waits_to_be_shown", "not true: rc == CODE");
}
