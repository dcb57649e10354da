/* SPDX-License-Identifier: MIT */
/*
 * gate_model.c - src/coro/gate.h under the model checker, with the state word that goes with it.
 *
 * WHAT     The gate is the real code. Around it stand park and unpark as coro.c does them: the
 *          parker publishes state = PARKED, then decides at the gate; an unparker that is told to
 *          wake makes the state READY; the owner's resume goes on when it sees READY. The parker
 *          here is the coroutine and the owner that resumes it in one thread, as in a program.
 *
 * SHAPE    handover   one unparker, one park: data goes over, and the parker's note the other way
 *          merge      two unparkers, parks until both were here: no permit lost, none doubled, and
 *                     one permit that stands for two unparks brings the data of both
 *          ping_pong  unpark, park, acknowledge, twice: each unpark lets exactly one park return
 *          state      two unparkers, one park, then FINISHED: nobody touches the state too late
 *          destroy    the owner ends a coroutine that is parked, while another unparks it
 *          ended      one unparker, and one who ends the park: that leaves no permit
 *
 * ORDER    id            site                 operation      pairs with    carries
 *          gate_model.1  unpark: READY        cas_acq_rel    gate_model.2  the waker has done with
 *                        (coro.1)             (release)                    the note; the coroutine
 *                                                                          writes it at the same
 *                                                                          time
 *          gate_model.2  owner sees READY     load_acquire   gate_model.1  the same, and the
 *                        (coro.2)                                          unparker's data
 *          gate_model.3  parker acknowledges  store_release  gate_model.4  it has read the data
 *                                                                          (ping_pong only)
 *          gate_model.4  unparker's turn      load_acquire   gate_model.3  the same
 *
 * CONTROLS Each id of gate.h and of the table above is weakened, and wrong designs stand in for the
 *          right ones; the models must fail then. MODEL_TRACE=1 shows how.
 */
#include "coro/gate.h"
#include "harness.h"
#include "model_case.h"

#include <string.h>

enum { RUNNING, PARKED, READY, FINISHED };

static struct {
    kc_gate_t gate;
    KC_ATOMIC(uint32_t) state;
    KC_ATOMIC(uint32_t) came[2]; /* unparker i has written its data and is about to unpark */
    KC_ATOMIC(uint32_t) acknowledged;
    int data[2], note; /* plain: who may touch them is what the gate decides */

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    bool permit[2];            /* unparker i has left its permit, not yet used */
    int waker;                 /* who was told to wake the sleeper */
    int sleeps, wakes, passes; /* parks that slept; unparks that woke; parks that found a permit */
    bool by_end;               /* who was told to wake it has brought nothing */
} s;

static void reset(void)
{
    memset(&s, 0, sizeof s);
    model_name(&s.gate.word, "gate");
    model_name(&s.state, "state");
    model_name(&s.came[0], "came[0]");
    model_name(&s.came[1], "came[1]");
    model_name(&s.data[0], "data[0]");
    model_name(&s.data[1], "data[1]");
}

/* ---- park and unpark, right and wrong ------------------------------------------------------ */

/* WHY NOT of gate.h: until the correction, a second permit goes into a word that is overwritten. */
static bool exchange_gate_unpark(kc_gate_t *gate)
{
    if (kc_xchg_acq_rel(&gate->word, KC_GATE_NOTIFIED) != KC_GATE_PARKED)
        return false;
    kc_store_release(&gate->word, KC_GATE_EMPTY);
    return true;
}

/* Saves the compare-and-swap where a permit is there already: but it may have been used since, and
 * nothing of what this unparker wrote goes with it. */
static bool looking_gate_unpark(kc_gate_t *gate)
{
    return kc_load_acquire(&gate->word) != KC_GATE_NOTIFIED && kc__gate_unpark(gate);
}

static bool real_gate_unpark(kc_gate_t *gate)
{
    return kc__gate_unpark(gate);
}

static bool real_gate_end(kc_gate_t *gate)
{
    return kc__gate_end(gate);
}

static bool (*gate_unpark)(kc_gate_t *gate) = real_gate_unpark;
static bool (*gate_end)(kc_gate_t *gate) = real_gate_end;
static bool state_after_gate; /* wrong: an unparker may find RUNNING */
static bool ready_by_store;   /* wrong: what was destroyed would be READY again */

/* The data of an unparker whose permit was used is the coroutine's now. */
static void take(int i)
{
    model_assert(model_read(&s.data[i]) == 42 + i);
    model_write(&s.data[i], 0);
}

static void take_permits(void)
{
    bool had[2] = { s.permit[0], s.permit[1] };

    s.passes++;
    s.permit[0] = s.permit[1] = false;
    model_assert(had[0] || had[1]);
    for (int i = 0; i < 2; i++)
        if (had[i])
            take(i);
}

static void sleep_until_ready(void)
{
    s.sleeps++;
    model_wait_until(kc_load_acquire(&s.state) == READY); /* gate_model.2 */
    kc_store_relaxed(&s.state, RUNNING);
    model_write(&s.note, 8);
    if (!s.by_end)
        take(s.waker);
}

static void park(void)
{
    model_write(&s.note, 7);
    if (!state_after_gate)
        kc_store_relaxed(&s.state, PARKED);
    if (!kc__gate_park(&s.gate)) {
        take_permits();
        kc_store_relaxed(&s.state, RUNNING);
        return;
    }
    if (state_after_gate)
        kc_store_relaxed(&s.state, PARKED);
    sleep_until_ready();
}

static bool make_ready(void)
{
    uint32_t parked = PARKED;

    if (!ready_by_store)
        return kc_cas_acq_rel(&s.state, &parked, READY); /* gate_model.1 */
    kc_store_release(&s.state, READY);
    return true;
}

static void unpark(int i)
{
    if (!gate_unpark(&s.gate)) {
        s.permit[i] = true;
        return;
    }
    s.waker = i;
    s.wakes++;
    model_assert(model_read(&s.note) == 7);
    bool made_ready = make_ready();
    model_assert(made_ready);
}

static void ender(int arg)
{
    (void)arg;
    if (!gate_end(&s.gate))
        return;
    s.by_end = true;
    s.wakes++;
    model_assert(model_read(&s.note) == 7);
    bool made_ready = make_ready();
    model_assert(made_ready);
}

static void check_permits(void)
{
    int left = s.permit[0] || s.permit[1];

    model_assert(s.sleeps == s.wakes);
    model_assert(s.gate.word == (left ? KC_GATE_NOTIFIED : KC_GATE_EMPTY));
    model_assert(s.state == RUNNING || s.state == FINISHED);
}

/* ---- the models ---------------------------------------------------------------------------- */

static void unparker(int i)
{
    model_write(&s.data[i], 42 + i);
    kc_store_relaxed(&s.came[i], 1);
    unpark(i);
}

static void parker_once(int arg)
{
    (void)arg;
    park();
}

/* As a condition is waited for: looks, parks, looks again. A permit that came without its data
 * would leave it asleep for ever. */
static void parker_of_two(int arg)
{
    (void)arg;
    while (!kc_load_relaxed(&s.came[0]) || !kc_load_relaxed(&s.came[1]))
        park();
}

static void parker_then_ends(int arg)
{
    (void)arg;
    park();
    kc_store_relaxed(&s.state, FINISHED);
}

static void parker_acknowledges(int rounds)
{
    for (int i = 1; i <= rounds; i++) {
        park();
        kc_store_release(&s.acknowledged, i); /* gate_model.3 */
    }
}

static void unparker_in_turns(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        model_wait_until(kc_load_acquire(&s.acknowledged) == (uint32_t)i); /* gate_model.4 */
        model_write(&s.data[0], 42);
        unpark(0);
    }
}

/* Whether it sleeps or has taken a permit: its owner ends it. */
static void parker_is_destroyed(int arg)
{
    (void)arg;
    kc_store_relaxed(&s.state, PARKED);
    kc__gate_park(&s.gate);
    kc_store_relaxed(&s.state, FINISHED);
}

static void unparker_of_destroyed(int arg)
{
    (void)arg;
    if (kc_load_relaxed(&s.state) != FINISHED && gate_unpark(&s.gate))
        make_ready();
}

static void check_destroyed(void)
{
    model_assert(s.state == FINISHED);
}

static void check_state(void)
{
    check_permits();
    model_assert(s.state == FINISHED && s.passes + s.sleeps == 1);
}

static void check_ping_pong(void)
{
    check_permits();
    model_assert(s.gate.word == KC_GATE_EMPTY && s.passes + s.sleeps == 2);
}

static const struct model handover = { "handover",
                                       reset,
                                       check_permits,
                                       2,
                                       { { "parker", parker_once, 0 },
                                         { "unparker", unparker, 0 } } };
static const struct model merge = { "merge",
                                    reset,
                                    check_permits,
                                    3,
                                    { { "parker", parker_of_two, 0 },
                                      { "unparker 0", unparker, 0 },
                                      { "unparker 1", unparker, 1 } } };
static const struct model ping_pong = { "ping_pong",
                                        reset,
                                        check_ping_pong,
                                        2,
                                        { { "parker", parker_acknowledges, 2 },
                                          { "unparker", unparker_in_turns, 2 } } };
static const struct model state = { "state",
                                    reset,
                                    check_state,
                                    3,
                                    { { "parker", parker_then_ends, 0 },
                                      { "unparker 0", unparker, 0 },
                                      { "unparker 1", unparker, 1 } } };
static const struct model destroy = { "destroy",
                                      reset,
                                      check_destroyed,
                                      3,
                                      { { "parker", parker_is_destroyed, 0 },
                                        { "unparker 0", unparker_of_destroyed, 0 },
                                        { "unparker 1", unparker_of_destroyed, 1 } } };

static const struct model ended = {
    "ended",
    reset,
    check_permits,
    3,
    { { "parker", parker_once, 0 }, { "unparker", unparker, 0 }, { "ender", ender, 0 } }
};

const struct model_file model_file = { .enters = NULL };

TEST(one_unpark_hands_data_to_one_park)
{
    passes(&handover, MODEL_UNBOUNDED);
}

TEST(two_unparks_lose_and_double_no_permit)
{
    passes(&merge, 3);
}

TEST(each_unpark_lets_one_park_return)
{
    passes(&ping_pong, 6);
}

TEST(the_state_word_follows_the_gate)
{
    passes(&state, 4);
}

TEST(an_unpark_does_not_revive_what_is_destroyed)
{
    passes(&destroy, 5);
}

TEST(the_end_of_a_park_leaves_no_permit)
{
    passes(&ended, 5);
}

TEST(control_gate_1_relaxed_misses_the_merged_unparkers_data)
{
    needs(&merge, "gate.1", MODEL_RELAXED, "data race: parker reads data");
    needs(&merge, "gate.1", MODEL_RELEASE, "data race: parker reads data");
}

TEST(control_gate_2_relaxed_hides_the_parkers_note)
{
    needs(&handover, "gate.2", MODEL_RELAXED, "data race: unparker reads");
    needs(&handover, "gate.2", MODEL_ACQUIRE, "data race: unparker reads");
}

TEST(control_gate_3_relaxed_hides_both)
{
    needs(&handover, "gate.3", MODEL_RELAXED, "data race");
    needs(&handover, "gate.3", MODEL_ACQUIRE, "data race: parker reads data");
    needs(&handover, "gate.3", MODEL_RELEASE, "data race: unparker reads");
    needs(&merge, "gate.3", MODEL_RELAXED, "data race");
    needs(&ping_pong, "gate.3", MODEL_RELAXED, "data race");
}

TEST(control_gate_4_relaxed_hides_the_parkers_note)
{
    needs(&ended, "gate.4", MODEL_RELAXED, "data race: ender reads");
}

TEST(control_a_park_that_is_ended_by_an_unpark_leaves_a_permit)
{
    gate_end = real_gate_unpark;
    catches(&ended, "unpark_for_end", "not true: s.gate.word == ");
}

TEST(control_state_word_relaxed)
{
    needs(&handover, "gate_model.1", MODEL_RELAXED, "data race");
    needs(&handover, "gate_model.2", MODEL_RELAXED, "data race");
    needs(&ping_pong, "gate_model.3", MODEL_RELAXED, "data race");
    needs(&ping_pong, "gate_model.4", MODEL_RELAXED, "data race");
}

TEST(control_exchange_in_unpark_swallows_a_permit)
{
    gate_unpark = exchange_gate_unpark;
    catches(&merge, "exchange", "not true: s.gate.word == ");
}

TEST(control_plain_look_in_unpark_loses_a_wake_up)
{
    gate_unpark = looking_gate_unpark;
    catches(&merge, "plain_look", "deadlock: nobody wakes parker");
}

TEST(control_state_stored_after_the_gate)
{
    state_after_gate = true;
    catches(&handover, "state_after_gate", "not true: made_ready");
}

TEST(control_ready_by_store_revives)
{
    ready_by_store = true;
    catches(&destroy, "ready_by_store", "not true: s.state == FINISHED");
}
