/* SPDX-License-Identifier: MIT */
/*
 * suspend_model.c - src/job/suspend.c under the model checker: kc_wake against a cancel.
 *
 * WHAT     kc_suspend, kc_wake, the cancel and its message are the real code, as are the wait that
 *          they are made of and the inbox. The first thread is the coroutine's own. When it leaves,
 *          that thread goes on in kc__worker_leave, which here cancels the job, or takes a message
 *          of that, reads the messages to its own stack, and returns when the coroutine is ready.
 *          Who wakes gets the waker from begin, and notes when kc_wake has returned.
 *
 *          `cancelled` asserts that no kc_wake has returned, and that it is called once; kc_suspend
 *          has returned what kc_wake said; what was written before kc_wake is seen after it; the
 *          frame is gone when kc_suspend has returned, and the block when nobody has it: a use of
 *          either after that is a failure.
 *
 * SHAPE    wake       one wakes
 *          cancel     one wakes, and the thread of the wait cancels
 *          message    one wakes, another one sends a cancel
 *          agreed     as cancel, and `cancelled` wakes if it was the first to say so
 *          moves      the coroutine, woken, goes on while its old thread has the message to read
 *          twice      two wake one wait
 *
 * ORDER    suspend.1 to suspend.3; those of wait.h and the inbox. Here all is relaxed or plain.
 *
 * CONTROLS suspend.1 and suspend.2 are taken apart into a look and a store; suspend.3 and mpsc.1 of
 *          the inbox are weakened; the message does not look whether it was woken; and it holds
 *          nothing. The models must fail then; and two who wake one wait must be found out.
 */
#define KC_MODEL_WAITS
#include "harness.h"
#include "model_case.h"
#include "sched/worker.h"

#include <errno.h>
#include <string.h>

/* ---- what the sources see instead ----------------------------------------------------------- */

static void is_ready(kc_worker_t *w, kcoro_t *co);
static void reads_later(kc_block_t *block);

#define kc__worker_count(w, what) ((void)(w), (void)(what))
#define kc__worker_ready(w, co) is_ready(w, co)
#define kc__worker_read_later(w, block) ((void)(w), reads_later(block))
#define kc__worker_tell_loop(w) ((void)(w))
#include "job/wait.h"
#include "job/wait.c" /* NOLINT(bugprone-suspicious-include): the model counts what is ready */

static bool claims(kc_wait_t *w, int rc);
#define kc__wait_claim(w, rc) claims(w, rc)
#include "job/suspend.c" /* NOLINT(bugprone-suspicious-include) */
#undef kc__wait_claim

enum { THREADS = 3, ITEM = 7, SAID = 3 };

static kc_sched_t sched;
static kc_worker_t worker[THREADS]; /* thread i is worker i */

static struct {
    kc_thread_t thread[THREADS];
    kcoro_t root[THREADS], co; /* co: the one that waits, on the first thread */
    kc_job_t job;
    union {
        struct waker waker;
        char room[KC_BLOCK_SIZE];
    } block __attribute__((aligned(KC_BLOCK_SIZE)));
    struct kc_handler_state handler_state;
    KC_ATOMIC(kc_waker_t *) given; /* what begin hands on */
    KC_ATOMIC(uint32_t) taken;     /* agreed: who wakes                                       */
    KC_ATOMIC(kc_block_t *) late;  /* moves: the message, for the old thread                  */
    int item;                      /* plain: what is written before kc_wake                   */
    kc_wait_t *frame;

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    void (*meanwhile)(void);
    int claimed, ready, called, freed;
    bool returned; /* kc_wake has */
    int rc;
} s;

static bool keeps_block;   /* as it is: who comes late may look at it */
static bool calls_anyway;  /* wrong: `cancelled` is called although kc_wake has come */
static bool holds_nothing; /* wrong: the message has no reference */

/* ---- what they call ------------------------------------------------------------------------- */

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
    model_assert(s.claimed <= 1);
    if (mine)
        model_write(&w->rc, rc);
    return mine;
}

void kc__worker_send(kc_worker_t *w, kc_block_t *block)
{
    model_assert(w == &worker[0]);
    if (block == &s.co.block)
        made_ready();
    kc__mpsc_push(&w->inbox, &block->link);
}

static void reads_later(kc_block_t *block)
{
    if (holds_nothing)
        kc_store_relaxed(&s.block.waker.refs, 1);
    kc__queue_push(&worker[0].own_stack, block);
}

static void cancels(void)
{
    kc_store_relaxed(&s.job.task.word, KC_WORD_STOP);
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

static void reads_message(kc_block_t *block)
{
    if (calls_anyway)
        kc_store_relaxed(&s.block.waker.state, 0);
    kc__suspend_message(block);
}

static void reads_own_stack(void)
{
    for (kc_block_t *block; (block = kc__queue_pop(&worker[0].own_stack)) != NULL;)
        reads_message(block);
}

/* The coroutine goes on elsewhere: its old thread has the message still. */
static void leaves_message(void)
{
    cancels();
    kc_store_release(&s.late, kc__queue_pop(&worker[0].own_stack));
}

int kc__worker_leave(kc_thread_t *t, kcoro_t *co)
{
    model_assert(t == &s.thread[0] && co == &s.co);
    s.frame = s.job.task.wait;
    if (s.meanwhile)
        s.meanwhile();
    for (;;) {
        reads_inbox();
        reads_own_stack();
        if (worker[0].ready.count)
            break;
        model_wait_until(!kc__mpsc_is_empty(&worker[0].inbox));
    }
    kc_block_t *next = kc__queue_pop(&worker[0].ready);
    model_assert(next == &co->block);
    return 0;
}

kc_block_t *kc__block_get(kc_block_cache_t *cache)
{
    (void)cache;
    return &s.block.waker.handle.block;
}

void kc__block_put(kc_block_cache_t *cache, kc_block_t *block)
{
    (void)cache;
    model_assert(block == &s.block.waker.handle.block);
    s.freed++;
    model_assert(s.freed == 1);
    bool called = kc_load_relaxed(&s.block.waker.state) & CALLED;
    model_assert(called == (s.called == 1));
    kc_store_relaxed(&block->magic, KC_BLOCK_FREE);
    if (!keeps_block)
        model_free(&s.block, sizeof s.block);
}

struct kc_handler_state *kc__handler_state(void)
{
    return &s.handler_state;
}

void kc__handler_begin(struct kc_handler_state *me)
{
    me->depth++;
}

void kc__handler_end(struct kc_handler_state *me)
{
    me->depth--;
}

bool kc__signal_is_in_handler(void)
{
    return false;
}

/* ---- what they name and no model calls; see never.c, too ----------------------------------- */

void kc__join_wake(kc_wait_t *w)
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

/* ---- who wakes ------------------------------------------------------------------------------ */

static kc_waker_t *gets_waker(void)
{
    kc_waker_t *w;

    model_wait_until((w = kc_load_acquire(&s.given)) != NULL);
    return w;
}

static void wakes(int arg)
{
    (void)arg;
    kc_waker_t *w = gets_waker();

    model_write(&s.item, ITEM);
    kc_wake(w, SAID);
    s.returned = true;
}

static void wakes_too(int arg)
{
    (void)arg;
    kc_wake(gets_waker(), SAID);
}

static bool is_first(void)
{
    uint32_t none = 0;

    return kc_cas_acq_rel(&s.taken, &none, 1);
}

static void wakes_if_first(int arg)
{
    (void)arg;
    kc_waker_t *w = gets_waker();

    if (!is_first())
        return;
    model_write(&s.item, ITEM);
    kc_wake(w, SAID);
    s.returned = true;
}

static void sends_cancel(int arg)
{
    (void)arg;
    kc__worker_send(&worker[0], &s.job.task.block);
}

static void reads_late(int arg)
{
    (void)arg;
    kc_block_t *block;

    model_wait_until((block = kc_load_acquire(&s.late)) != NULL);
    reads_message(block);
}

/* ---- who waits ------------------------------------------------------------------------------ */

static void begins(kc_waker_t *w, void *arg)
{
    (void)arg;
    kc_store_release(&s.given, w);
}

static void is_called(void)
{
    s.called++;
    model_assert(s.called == 1 && !s.returned);
}

static void cancelled(kc_waker_t *w, void *arg)
{
    (void)arg;
    is_called();
    model_assert((void *)w == kc__handle_name(&s.block.waker.handle));
}

static void cancelled_wakes(kc_waker_t *w, void *arg)
{
    (void)arg;
    is_called();
    if (!is_first())
        return;
    model_write(&s.item, ITEM);
    kc_wake(w, SAID);
}

static void suspends_with(void (*fn)(kc_waker_t *w, void *arg), void (*meanwhile)(void))
{
    s.meanwhile = meanwhile;
    s.rc = kc_suspend(begins, fn, NULL);
    model_assert(s.rc == SAID && s.claimed == 1 && s.ready == 1);
    model_assert(model_read(&s.item) == ITEM);
    model_free(s.frame, sizeof *s.frame);
}

static void suspends(int arg)
{
    (void)arg;
    suspends_with(cancelled, NULL);
}

static void suspends_and_is_cancelled(int arg)
{
    (void)arg;
    suspends_with(cancelled, cancels);
}

static void suspends_and_agrees(int arg)
{
    (void)arg;
    suspends_with(cancelled_wakes, cancels);
}

static void suspends_and_moves(int arg)
{
    (void)arg;
    suspends_with(cancelled, leaves_message);
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
        worker[i].ready = worker[i].own_stack = (kc_queue_t){ NULL, NULL, 0 };
        kc__mpsc_init(&worker[i].inbox);
        s.thread[i].serial = (uint32_t)i + 1;
        s.thread[i].worker = &worker[i];
        s.thread[i].current = s.thread[i].main_co = &s.root[i];
    }
    s.co.block.flags = KC_CORO_TASK;
    s.co.task = &s.job.task;
    s.job.task.co = &s.co;
    s.thread[0].current = &s.co;
    model_name(&s.block.waker.state, "state");
    model_name(&s.block.waker.refs, "refs");
    model_name(&s.co.claim, "claim");
    model_name(&worker[0].inbox.head, "inbox");
    model_name(&s.item, "item");
}

static void check(void)
{
    model_assert(s.rc == SAID && s.freed == 1 && s.called <= 1 && s.claimed == 1);
    model_assert(worker[0].ready.count == 0 && worker[0].own_stack.count == 0);
}

static void check_never(void)
{
    model_assert(s.called == 0);
    check();
}

static const struct model wake = {
    "wake", reset, check_never, 2, { { "own", suspends, 0 }, { "waker", wakes, 0 } }
};
static const struct model cancel = {
    "cancel", reset, check, 2, { { "own", suspends_and_is_cancelled, 0 }, { "waker", wakes, 0 } }
};
static const struct model message = {
    "message",
    reset,
    check,
    3,
    { { "own", suspends, 0 }, { "waker", wakes, 0 }, { "canceller", sends_cancel, 0 } }
};
static const struct model agreed = { "agreed",
                                     reset,
                                     check,
                                     2,
                                     { { "own", suspends_and_agrees, 0 },
                                       { "waker", wakes_if_first, 0 } } };
static const struct model moves = {
    "moves",
    reset,
    check,
    3,
    { { "own", suspends_and_moves, 0 }, { "waker", wakes, 0 }, { "old", reads_late, 0 } }
};
static const struct model twice = {
    "twice",
    reset,
    NULL,
    3,
    { { "own", suspends, 0 }, { "waker", wakes, 0 }, { "other", wakes_too, 0 } }
};

const struct model_file model_file = { .enters = enters };

TEST(a_wait_of_ones_own_is_ended_by_kc_wake)
{
    passes(&wake, MODEL_UNBOUNDED);
}

TEST(cancelled_is_called_once_or_not_at_all_and_not_after_kc_wake)
{
    passes(&cancel, MODEL_UNBOUNDED);
    passes(&message, 4);
}

TEST(cancelled_and_the_foreign_side_may_agree_on_one_kc_wake)
{
    passes(&agreed, MODEL_UNBOUNDED);
}

TEST(the_waker_outlives_its_message)
{
    passes(&moves, 4);
}

TEST(control_two_wakes_of_one_wait_are_detected)
{
    keeps_block = true;
    catches(&twice, "twice", "the waker has been used");
}

TEST(control_suspend_1_torn_forgets_that_cancelled_was_called)
{
    needs(&cancel, "suspend.1", MODEL_TORN, "not true: called == (s.called == 1)");
}

TEST(control_suspend_2_torn_calls_cancelled_after_kc_wake)
{
    needs(&cancel, "suspend.2", MODEL_TORN, "not true: s.called == 1 && !s.returned");
}

TEST(control_suspend_3_relaxed_frees_too_early)
{
    needs(&moves, "suspend.3", MODEL_RELAXED, "free");
}

TEST(control_a_message_that_does_not_look)
{
    calls_anyway = true;
    catches(&cancel, "calls_anyway", "not true: s.called == 1 && !s.returned");
}

TEST(control_a_message_that_holds_nothing)
{
    holds_nothing = true;
    catches(&moves, "holds_nothing", "");
}

TEST(control_mpsc_1_relaxed_hides_what_was_written_before_kc_wake)
{
    needs(&wake, "mpsc.1", MODEL_RELAXED, "data race: own");
}
