/* SPDX-License-Identifier: MIT */
/*
 * signal_model.c - src/signal/signal.c, slot.c and lock.h under the model checker.
 *
 * WHAT     All of it is the real code; only memory, futexes and the question which thread this is
 *          are the model's own. The plain `arg` stands for what a handler works on: its owner
 *          writes it before it sets the handler, and again when it believes the handler gone. Any
 *          run that overlaps with that, or whose writes do not arrive, is a data race.
 *
 * SHAPE    on       emit against on: the handler runs once, or on is false and the data is there
 *          clear    emit against clear: runs or is taken back, and is over when clear returns
 *          unbind   the same with unbind; the slot is overwritten at once
 *          once     two emits of a low bit: one triggers it
 *          both     two threads run one handler, and both clear it from inside
 *          chain    emit against chain: the target hears of it
 *          ask      a thread learns of a bit from the state alone
 *          release  two references are given up: what was used is used no more when it is freed
 *          locked   three threads and one lock: who unlocks wakes who sleeps
 *
 * CONTROLS The ids of lock.h and signal.c are weakened, and wrong designs stand in for the right
 *          ones; the models must fail then. MODEL_TRACE=1 shows how.
 */
#include "signal/slot.h"
#include "harness.h"
#include "model_case.h"

#include <stdio.h>
#include <string.h>

enum { THREADS = 3, SIGNALS = 2, RECORDS = 2, STACK_USED = 128 * 1024 };
#define LOW (1ull << 16)
#define HIGH (1ull << 48)

static struct {
    /* What kc__alloc gives. */
    _Alignas(16) char signal[SIGNALS][sizeof(struct kc_signal)];
    struct kc_slot_chain record[RECORDS];
    int signals, records, frees;
    struct kc_handler_state handler_state[THREADS + 1];
    char *base[THREADS]; /* a place near the beginning of each thread's stack */

    kc_signal_t *s, *to;
    kc_slot_t slot;
    kc_lock_t lock;
    KC_ATOMIC(uint32_t) inside;
    int arg, data, memory; /* plain */

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    int calls, triggered, wins, taken;
    bool result;
} x;

static bool wake_nobody, free_too_early, all_alike; /* wrong designs */

/* ---- what stands in for the rest of the library --------------------------------------------- */

void *kc__alloc(size_t size)
{
    if (size >= sizeof(struct kc_signal))
        return x.signal[x.signals++];
    return &x.record[x.records++];
}

void kc__free(void *p)
{
    if (p == x.signal[0]) {
        model_write(&x.memory, 0);
        x.frees++;
    }
}

void kc__os_wait(const void *word, uint32_t expected, int64_t until)
{
    (void)until;
    model_block((const uint32_t *)word, expected);
}

void kc__os_wake(const void *word)
{
    if (!wake_nobody)
        model_wake((const uint32_t *)word, 1);
}

void kc__os_wake_all(const void *word)
{
    if (!wake_nobody)
        model_wake((const uint32_t *)word, THREADS);
}

void kc__usage(const char *call, const char *what)
{
    model_fail("%s: %s", call, what);
}

void kc__object_not_live(const char *call, const char *kind, const char *rule, const void *handle)
{
    (void)rule, (void)handle;
    model_fail("%s: not a %s", call, kind);
}

/* Threads of a model share a system thread; their stacks tell them apart. */
struct kc_handler_state *kc__handler_state(void)
{
    char *here = __builtin_frame_address(0);

    for (int i = 0; i < THREADS && !all_alike; i++)
        if (x.base[i] && here <= x.base[i] && x.base[i] - here < STACK_USED)
            return &x.handler_state[i];
    return &x.handler_state[THREADS];
}

void kc__handler_begin(struct kc_handler_state *me)
{
    me->depth++;
}

void kc__handler_end(struct kc_handler_state *me)
{
    me->depth--;
}

static void enter(int thread)
{
    x.base[thread] = (char *)__builtin_frame_address(0) + 4096;
}

/* ---- setups --------------------------------------------------------------------------------- */

static void handler(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)signal;
    (void)arg;
    model_assert(fired & (LOW | HIGH));
    model_assert(model_read(&x.arg) == 7);
    model_write(&x.arg, 8);
    x.calls++;
}

static void reset(void)
{
    memset(&x, 0, sizeof x);
    x.s = kc_signal_create(0);
    kc_slot_bind(&x.slot, x.s, KC_SIG_ALL);
    model_name(&x.s->lock.word, "lock");
    model_name(&x.s->state, "state");
    model_name(&x.s->block.flags, "refs");
    model_name(&x.s->ended, "ended");
    model_name(&x.arg, "arg");
}

static void reset_with_handler(void)
{
    reset();
    x.arg = 7;
    (void)!kc_slot_on(&x.slot, LOW, handler, NULL);
}

static void reset_with_target(void)
{
    reset();
    x.to = kc_signal_create(0);
}

static void reset_with_two_references(void)
{
    reset();
    kc_slot_unbind(&x.slot);
    kc_signal_retain(x.s);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void emits_low(int thread)
{
    enter(thread);
    model_write(&x.data, 1);
    if (kc_signal_emit(x.s, LOW))
        x.triggered++;
}

static void emits_low_again(int thread)
{
    enter(thread);
    if (kc_signal_emit(x.s, LOW))
        x.triggered++;
}

static void sets_handler(int thread)
{
    enter(thread);
    model_write(&x.arg, 7);
    x.result = kc_slot_on(&x.slot, LOW, handler, NULL);
    if (x.result)
        return;
    model_assert(model_read(&x.data) == 1);
    model_write(&x.arg, 9); /* it was not kept */
}

static void clears(int thread)
{
    enter(thread);
    if (!free_too_early)
        x.result = kc_slot_clear(&x.slot, LOW);
    model_assert(model_read(&x.arg) == (x.result ? 7 : 8));
    model_write(&x.arg, 7);
}

static void unbinds(int thread)
{
    enter(thread);
    kc_slot_unbind(&x.slot);
    model_assert(model_read(&x.arg) == (x.calls ? 8 : 7));
    model_write(&x.arg, 7);
    memset(&x.slot, 0xa5, sizeof x.slot); /* who follows a pointer in there does not get far */
}

static void clears_from_inside(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    (void)signal;
    (void)arg;
    x.calls++;
    model_assert(model_read(&x.arg) == 7);
    if (!kc_slot_clear(&x.slot, HIGH))
        return; /* another has it */
    x.wins++;
    model_write(&x.arg, 8);
}

static void reset_both(void)
{
    reset();
    x.arg = 7;
    (void)!kc_slot_on(&x.slot, HIGH, clears_from_inside, NULL);
}

static void emits_high(int thread)
{
    enter(thread);
    kc_signal_emit(x.s, HIGH);
}

static void chains(int thread)
{
    enter(thread);
    (void)!kc_slot_chain(&x.slot, x.to);
}

static void asks(int thread)
{
    enter(thread);
    if (kc_signal_state(x.s) & LOW)
        model_assert(model_read(&x.data) == 1);
}

static void uses_and_releases(int thread)
{
    enter(thread);
    model_assert(model_read(&x.memory) == 0);
    kc_signal_release(x.s);
}

static void locks(int thread)
{
    enter(thread);
    kc__lock(&x.lock);
    model_write(&x.arg, model_read(&x.arg) + 1);
    kc__unlock(&x.lock);
}

/* ---- checks --------------------------------------------------------------------------------- */

static void check_on(void)
{
    model_assert(x.calls == x.result && x.triggered == 1);
    model_assert(x.s->lock.word == 0 && !x.s->visits);
}

static void check_clear(void)
{
    model_assert(x.calls == !x.result && x.triggered == 1);
    model_assert(x.s->lock.word == 0 && !x.s->visits && x.s->waiters == 0);
}

static void check_unbind(void)
{
    model_assert(x.calls <= 1 && x.triggered == 1 && !x.s->slots && !x.s->visits);
}

static void check_once(void)
{
    model_assert(x.calls == 1 && x.triggered == 1);
}

static void check_both(void)
{
    model_assert(x.calls >= 1 && x.wins == 1 && x.s->waiters == 0);
}

static void check_chain(void)
{
    model_assert(x.to->state == LOW && x.to->block.flags == 2);
}

static void check_release(void)
{
    model_assert(x.frees == 1);
}

static void check_locked(void)
{
    model_assert(x.lock.word == 0 && x.arg == THREADS);
}

/* ---- the models ----------------------------------------------------------------------------- */

static const struct model on = {
    "on", reset, check_on, 2, { { "emitter", emits_low, 0 }, { "owner", sets_handler, 1 } }
};
static const struct model clear = { "clear",
                                    reset_with_handler,
                                    check_clear,
                                    2,
                                    { { "emitter", emits_low, 0 }, { "owner", clears, 1 } } };
static const struct model unbind = { "unbind",
                                     reset_with_handler,
                                     check_unbind,
                                     2,
                                     { { "emitter", emits_low, 0 }, { "owner", unbinds, 1 } } };
static const struct model once = { "once",
                                   reset_with_handler,
                                   check_once,
                                   2,
                                   { { "emitter 0", emits_low, 0 },
                                     { "emitter 1", emits_low_again, 1 } } };
static const struct model both = { "both",
                                   reset_both,
                                   check_both,
                                   2,
                                   { { "emitter 0", emits_high, 0 },
                                     { "emitter 1", emits_high, 1 } } };
static const struct model chain = { "chain",
                                    reset_with_target,
                                    check_chain,
                                    2,
                                    { { "emitter", emits_low, 0 }, { "owner", chains, 1 } } };
static const struct model ask = {
    "ask", reset, NULL, 2, { { "emitter", emits_low, 0 }, { "asker", asks, 1 } }
};
static const struct model release = { "release",
                                      reset_with_two_references,
                                      check_release,
                                      2,
                                      { { "user 0", uses_and_releases, 0 },
                                        { "user 1", uses_and_releases, 1 } } };
static const struct model locked = {
    "locked", reset, check_locked, 3, { { "a", locks, 0 }, { "b", locks, 1 }, { "c", locks, 2 } }
};

const struct model_file model_file = { .enters = NULL };

TEST(an_emit_runs_the_handler_once_or_on_is_false)
{
    passes(&on, 4);
}

TEST(a_handler_is_over_when_clear_returns)
{
    passes(&clear, 4);
}

TEST(a_handler_is_over_when_unbind_returns_and_the_slot_is_not_touched_again)
{
    passes(&unbind, 4);
}

TEST(one_of_two_emits_triggers_a_low_bit)
{
    passes(&once, 4);
}

TEST(two_runs_that_clear_themselves_do_not_wait_in_a_cycle)
{
    passes(&both, 3);
}

TEST(an_emit_reaches_a_chain_that_is_being_made)
{
    passes(&chain, 3);
}

TEST(what_was_written_before_an_emit_is_seen_by_whoever_sees_the_state)
{
    passes(&ask, MODEL_UNBOUNDED);
}

TEST(the_last_reference_frees_a_signal_that_all_have_used)
{
    passes(&release, MODEL_UNBOUNDED);
}

TEST(no_thread_sleeps_at_a_free_lock)
{
    passes(&locked, 4);
}

TEST(control_lock_1_relaxed_reads_old_data_under_the_lock)
{
    needs(&locked, "lock.1", MODEL_RELAXED, "data race");
    needs(&locked, "lock.1", MODEL_RELEASE, "data race");
}

TEST(control_lock_2_relaxed_reads_old_data_after_a_sleep)
{
    needs(&locked, "lock.2", MODEL_RELAXED, "data race");
}

TEST(control_lock_3_relaxed_leaves_data_behind)
{
    needs(&locked, "lock.3", MODEL_RELAXED, "data race");
    needs(&locked, "lock.3", MODEL_ACQUIRE, "data race");
}

TEST(control_lock_4_relaxed_leaves_data_behind_for_sleepers)
{
    needs(&locked, "lock.4", MODEL_RELAXED, "data race");
}

TEST(control_state_word_relaxed)
{
    needs(&ask, "signal.1", MODEL_RELAXED, "data race");
    needs(&ask, "signal.2", MODEL_RELAXED, "data race");
}

TEST(control_last_reference_relaxed)
{
    needs(&release, "signal.3", MODEL_RELAXED, "data race");
    needs(&release, "signal.3", MODEL_ACQUIRE, "data race");
    needs(&release, "signal.3", MODEL_RELEASE, "data race");
}

TEST(control_ends_of_runs_that_wake_nobody)
{
    wake_nobody = true;
    catches(&clear, "no wake", "deadlock");
    catches(&locked, "no wake", "deadlock");
}

TEST(control_argument_taken_back_without_clear)
{
    free_too_early = true;
    catches(&clear, "too early", "data race");
}

/* Every thread takes the run for its own, as if clear were called by the handler itself. */
TEST(control_clear_that_does_not_wait)
{
    all_alike = true;
    catches(&clear, "no wait", "data race");
    catches(&unbind, "no wait", "data race");
}
