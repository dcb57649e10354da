/* SPDX-License-Identifier: MIT */
/*
 * collect_test.c - several calls at once: all, fail fast, windows, races, the first success, any
 * (A1, A2).
 */
#include "collect_kit.h"

#include "base/os.h"

static kc_sigset_t expected_bits;

static void hears(kc_sigset_t fired, kc_signal_t *signal UNUSED, void *arg)
{
    CHECK_EQ(fired, expected_bits);
    add(&heard);
    add(arg); /* the last: its body may go now */
}

/* Listens for the bit in its argument, and ends when its handler was called. That the bit is
 * triggered is not enough: the slot of a body that ends then is gone before the emit comes to it.
 */
static int listens(void *arg)
{
    count_t called = 0;

    CHECK(kc_slot_on(kc_current_slot(), *(kc_sigset_t *)arg, hears, &called));
    add(&in);
    return until_set(&called);
}

/* ---- kc_all ----------------------------------------------------------------------------- */

IN_A_JOB(all_waits_for_all_and_fills_in_every_rc_and_payload)
{
    int value[3];
    kc_call_t calls[] = {
        { .fn = gives, .arg = &value[0], .rc = 99 },
        { .fn = gives, .arg = &value[1], .rc = 99 },
        { .fn = gives, .arg = &value[2], .rc = 99 },
    };

    CHECK_EQ(kc_all(calls, 3, KC_SIG_NONE), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(calls[i].rc, 0);
        CHECK_PTR(calls[i].payload, &value[i]);
    }
    return 0;
}

IN_A_JOB(all_returns_the_failure_that_came_first_and_the_caller_continues)
{
    start_afresh();
    kc_call_t calls[] = {
        { .fn = follows, .arg = CODE(-EPIPE) },
        { .fn = gives, .arg = &in },
        { .fn = leads, .arg = CODE(-EIO) },
        { .fn = follows, .arg = CODE(7) },
        { .fn = fails_with_a_payload, .arg = CODE(0) },
    };

    CHECK_EQ(kc_all(calls, 5, KC_SIG_NONE), -EIO);
    CHECK_EQ(calls[0].rc, -EPIPE);
    CHECK_EQ(calls[1].rc, 0);
    CHECK_PTR(calls[1].payload, &in);
    CHECK_EQ(calls[2].rc, -EIO);
    CHECK_EQ(calls[3].rc, 7);
    CHECK_EQ(calls[4].rc, 0);
    CHECK_EQ(kc_check(), 0);
    CHECK_EQ(kc_job_state(kc_job_current()), KC_JOB_ACTIVE);
    return 0;
}

IN_A_JOB(a_failed_call_has_no_payload)
{
    kc_call_t call = { .fn = fails_with_a_payload, .arg = CODE(5), .payload = &call };

    CHECK_EQ(kc_all(&call, 1, KC_SIG_NONE), 5);
    CHECK_EQ(call.rc, 5);
    CHECK_PTR(call.payload, NULL);
    return 0;
}

IN_A_JOB(all_of_nothing_is_0)
{
    CHECK_EQ(kc_all(NULL, 0, KC_SIG_NONE), 0);
    CHECK_EQ(kc_all_window(NULL, 0, 3), 0);
    CHECK_EQ(kc_all_fail_fast(NULL, 0), 0);
    return 0;
}

IN_A_JOB(all_with_terminate_cancels_the_others_which_are_no_failures)
{
    start_afresh();
    set(&gate, 1);
    kc_call_t calls[] = {
        { .fn = lingers },
        { .fn = ends_after, .arg = CODE(2) },
        { .fn = lingers },
    };

    CHECK_EQ(kc_all(calls, 3, KC_SIG_TERMINATE), 0);
    CHECK_EQ(calls[0].rc, -ECANCELED);
    CHECK_EQ(calls[1].rc, 0);
    CHECK_EQ(calls[2].rc, -ECANCELED);
    CHECK_EQ(get(&out), 2); /* they were waited for */
    CHECK_EQ(kc_check(), 0);
    return 0;
}

IN_A_JOB(a_failure_is_returned_by_all_with_terminate_whenever_it_comes)
{
    start_afresh();
    set(&gate, 1);
    kc_call_t first[] = { { .fn = lingers }, { .fn = fails_after, .arg = CODE(1) } };
    CHECK_EQ(kc_all(first, 2, KC_SIG_TERMINATE), -EIO);
    CHECK_EQ(first[0].rc, -ECANCELED);
    start_afresh();
    set(&gate, 1);
    kc_call_t later[] = { { .fn = lingers, .arg = CODE(-EPIPE) },
                          { .fn = ends_after, .arg = CODE(1) } };
    CHECK_EQ(kc_all(later, 2, KC_SIG_TERMINATE), -EPIPE);
    CHECK_EQ(later[1].rc, 0);
    return 0;
}

IN_A_JOB(a_call_that_ends_cancelled_by_itself_makes_all_ecanceled)
{
    kc_call_t calls[] = { { .fn = gives }, { .fn = returns, .arg = CODE(-ECANCELED) } };

    CHECK_EQ(kc_all(calls, 2, KC_SIG_NONE), -ECANCELED);
    CHECK_EQ(calls[0].rc, 0);
    CHECK_EQ(calls[1].rc, -ECANCELED);
    CHECK_EQ(kc_check(), 0);
    return 0;
}

IN_A_JOB(user_bits_after_the_first_reach_the_slots_of_the_others)
{
    kc_sigset_t bits[] = { LOW, HIGH };

    for (int i = 0; i < 2; i++) {
        start_afresh();
        expected_bits = LOW | HIGH;
        kc_call_t calls[] = { { .fn = listens, .arg = &bits[i] },
                              { .fn = ends_after, .arg = CODE(2) },
                              { .fn = listens, .arg = &bits[i] } };
        CHECK_EQ(kc_all(calls, 3, LOW | HIGH), 0);
        CHECK_EQ(get(&heard), 2);
        for (int k = 0; k < 3; k++)
            CHECK_EQ(calls[k].rc, 0);
    }
    return 0;
}

static int all_of_two_listeners(void *arg)
{
    kc_call_t calls[] = { { .fn = listens, .arg = arg }, { .fn = listens, .arg = arg } };

    return kc_all(calls, 2, KC_SIG_NONE);
}

IN_A_JOB(a_signal_to_the_caller_of_all_reaches_its_calls)
{
    static kc_sigset_t bit = HIGH;

    start_afresh();
    expected_bits = HIGH;
    kc_job_t *j = launch(all_of_two_listeners, &bit, NULL);
    UNTIL(get(&in) == 2);
    kc_signal_emit(kc_job_signal(j), HIGH);
    CHECK_EQ(kc_job_join(j), 0);
    CHECK_EQ(get(&heard), 2);
    kc_job_release(j);
    return 0;
}

static int sees_the_local(void *arg)
{
    CHECK_PTR(kc_local_get(&gate), arg);
    CHECK_EQ(kc_local_set(&gate, NULL), 0);
    return 0;
}

IN_A_JOB(calls_inherit_the_locals_of_the_caller)
{
    int value;
    size_t winner;
    kc_call_t call = { .fn = sees_the_local, .arg = &value };

    CHECK_EQ(kc_local_set(&gate, &value), 0);
    CHECK_EQ(kc_all(&call, 1, KC_SIG_NONE), 0);
    CHECK_EQ(kc_any(&call, 1, KC_SIG_NONE, &winner), 0);
    CHECK_PTR(kc_local_get(&gate), &value);
    return 0;
}

IN_A_JOB(ten_thousand_calls_at_once)
{
    size_t many = kc_sched_workers(kc_sched_current()) == 2 ? 10000 : 1000;
    kc_call_t *calls = kc__alloc(many * sizeof *calls);

    for (size_t i = 0; i < many; i++)
        calls[i] = (kc_call_t){ .fn = gives, .arg = &calls[i] };
    CHECK_EQ(kc_all(calls, many, KC_SIG_NONE), 0);
    for (size_t i = 0; i < many; i++)
        CHECK_PTR(calls[i].payload, &calls[i]);
    kc__free(calls);
    return 0;
}

/* ---- kc_all_fail_fast, kc_all_window ------------------------------------------------------ */

IN_A_JOB(fail_fast_cancels_the_others_waits_for_them_and_returns_the_failure)
{
    start_afresh();
    set(&gate, 1);
    kc_call_t calls[] = {
        { .fn = gives, .arg = &gate },
        { .fn = lingers },
        { .fn = fails_after, .arg = CODE(2) },
        { .fn = lingers },
    };

    CHECK_EQ(kc_all_fail_fast(calls, 4), -EIO);
    CHECK_EQ(get(&out), 2);
    CHECK_EQ(calls[1].rc, -ECANCELED);
    CHECK_EQ(calls[2].rc, -EIO);
    CHECK_EQ(calls[3].rc, -ECANCELED);
    CHECK_EQ(kc_check(), 0);
    return 0;
}

IN_A_JOB(fail_fast_without_a_failure_is_all)
{
    int value;
    kc_call_t calls[] = { { .fn = gives, .arg = &value }, { .fn = gives } };

    CHECK_EQ(kc_all_fail_fast(calls, 2), 0);
    CHECK_PTR(calls[0].payload, &value);
    return 0;
}

IN_A_JOB(a_call_that_is_cancelled_does_not_make_fail_fast_cancel_the_others)
{
    start_afresh();
    kc_call_t calls[] = { { .fn = leads, .arg = CODE(-ECANCELED) }, { .fn = follows } };

    CHECK_EQ(kc_all_fail_fast(calls, 2), -ECANCELED);
    CHECK_EQ(calls[1].rc, 0);
    return 0;
}

static count_t running, most;

static int counts_the_running(void *arg)
{
    int now = add(&running) + 1, seen = get(&most);

    while (now > seen && !kc_cas_acq_rel(&most, &seen, now))
        ;
    for (int i = 0; i < 3; i++)
        kc_yield();
    kc_sub_acq_rel(&running, 1);
    add(&out);
    return (int)(intptr_t)arg;
}

IN_A_JOB(a_window_bounds_how_many_calls_run_at_a_time)
{
    enum { MANY = 50 };
    kc_call_t calls[MANY];

    for (uint32_t window = 1; window <= 4; window++) {
        start_afresh();
        set(&most, 0);
        for (int i = 0; i < MANY; i++)
            calls[i] = (kc_call_t){ .fn = counts_the_running };
        CHECK_EQ(kc_all_window(calls, MANY, window), 0);
        CHECK_EQ(get(&out), MANY);
        CHECK_LE(get(&most), window);
        CHECK_GE(get(&most), 1);
    }
    return 0;
}

IN_A_JOB(a_failure_in_a_window_stops_nothing)
{
    kc_call_t calls[20];

    start_afresh();
    for (int i = 0; i < 20; i++)
        calls[i] = (kc_call_t){ .fn = counts_the_running, .arg = CODE(i == 3 ? -EIO : 0) };
    CHECK_EQ(kc_all_window(calls, 20, 2), -EIO);
    CHECK_EQ(get(&out), 20);
    return 0;
}

/* All must be started at once for any of them to end. */
static int meets(void *arg)
{
    add(&in);
    return ends_after(arg);
}

IN_A_JOB(without_a_limit_all_calls_are_there_at_once)
{
    kc_call_t calls[8];

    for (int i = 0; i < 8; i++)
        calls[i] = (kc_call_t){ .fn = meets, .arg = CODE(8) };
    start_afresh();
    CHECK_EQ(kc_all_window(calls, 8, 0), 0);
    start_afresh();
    CHECK_EQ(kc_all(calls, 8, KC_SIG_NONE), 0);
    start_afresh();
    CHECK_EQ(kc_all_window(calls, 8, 8), 0);
    return 0;
}

/* ---- kc_race, kc_first_ok ----------------------------------------------------------------- */

IN_A_JOB(the_first_to_end_wins_a_race_and_the_others_are_cancelled_and_waited_for)
{
    static const int codes[] = { 0, -EIO, 9, -ECANCELED };

    for (int i = 0; i < 4; i++) {
        size_t winner = 99;
        start_afresh();
        set(&gate, 1);
        kc_call_t calls[] = { { .fn = lingers },
                              { .fn = lingers },
                              { .fn = meets, .arg = CODE(3) } };
        kc_call_t fails[] = { { .fn = leads, .arg = CODE(codes[i]) }, { .fn = follows } };
        CHECK_EQ(kc_race(calls, 3, &winner), 0);
        CHECK_EQ(winner, 2);
        CHECK_EQ(get(&out), 2);
        CHECK_EQ(calls[0].rc, -ECANCELED);
        CHECK_EQ(calls[1].rc, -ECANCELED);
        CHECK_EQ(kc_race(fails, 2, &winner), codes[i]);
        CHECK_EQ(winner, 0);
        CHECK(fails[1].rc == -ECANCELED || fails[1].rc == 0); /* it may end by itself just then */
        CHECK_EQ(kc_check(), 0);
    }
    return 0;
}

IN_A_JOB(the_winner_need_not_be_asked_for)
{
    int value;
    kc_call_t call = { .fn = gives, .arg = &value };

    CHECK_EQ(kc_race(&call, 1, NULL), 0);
    CHECK_EQ(kc_first_ok(&call, 1, NULL), 0);
    CHECK_EQ(kc_any(&call, 1, KC_SIG_NONE, NULL), 0);
    CHECK_PTR(call.payload, &value);
    return 0;
}

IN_A_JOB(of_many_that_end_at_the_same_time_exactly_one_wins)
{
    enum { RACERS = 8 };
    kc_call_t calls[RACERS];

    for (int round = 0; round < 100; round++) {
        size_t winner = RACERS;
        for (int i = 0; i < RACERS; i++)
            calls[i] = (kc_call_t){ .fn = gives, .arg = &calls[i] };
        int rc = round % 2 ? kc_race(calls, RACERS, &winner) : kc_first_ok(calls, RACERS, &winner);
        CHECK_EQ(rc, 0);
        CHECK_LT(winner, RACERS);
        CHECK_EQ(calls[winner].rc, 0);
        CHECK_PTR(calls[winner].payload, &calls[winner]);
        for (int i = 0; i < RACERS; i++)
            CHECK(calls[i].rc == 0 || calls[i].rc == -ECANCELED);
    }
    return 0;
}

IN_A_JOB(the_first_success_wins_over_failures_that_came_before)
{
    size_t winner = 99;

    start_afresh();
    kc_call_t calls[] = {
        { .fn = leads, .arg = CODE(-EIO) },
        { .fn = follows, .arg = CODE(0) },
        { .fn = returns, .arg = CODE(-ECANCELED) },
        { .fn = waits },
    };
    CHECK_EQ(kc_first_ok(calls, 4, &winner), 0);
    CHECK_EQ(winner, 1);
    CHECK_EQ(calls[0].rc, -EIO);
    CHECK_EQ(calls[1].rc, 0);
    CHECK_EQ(calls[3].rc, -ECANCELED);
    CHECK_EQ(kc_check(), 0);
    return 0;
}

IN_A_JOB(if_all_fail_first_ok_returns_the_failure_that_came_first)
{
    size_t winner = 99;

    start_afresh();
    kc_call_t calls[] = {
        { .fn = follows, .arg = CODE(-EPIPE) },
        { .fn = leads, .arg = CODE(-EIO) },
        { .fn = follows, .arg = CODE(3) },
    };
    CHECK_EQ(kc_first_ok(calls, 3, &winner), -EIO);
    CHECK_EQ(calls[0].rc, -EPIPE);
    CHECK_EQ(calls[2].rc, 3);
    CHECK_EQ(kc_check(), 0);
    return 0;
}

static int races_inside(void *arg)
{
    kc_call_t calls[] = { { .fn = returns, .arg = arg }, { .fn = waits } };

    return kc_race(calls, 2, NULL);
}

IN_A_JOB(collect_calls_nest)
{
    kc_call_t calls[] = { { .fn = races_inside, .arg = CODE(0) },
                          { .fn = races_inside, .arg = CODE(-EIO) },
                          { .fn = races_inside, .arg = CODE(0) } };

    CHECK_EQ(kc_all(calls, 3, KC_SIG_NONE), -EIO);
    CHECK_EQ(calls[0].rc, 0);
    CHECK_EQ(calls[1].rc, -EIO);
    CHECK_EQ(calls[2].rc, 0);
    return 0;
}

/* ---- kc_any ------------------------------------------------------------------------------- */

IN_A_JOB(any_returns_when_one_has_ended_and_the_losers_continue_and_do_not_touch_calls)
{
    kc_scope_t scope;
    size_t winner = 99;

    start_afresh();
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    kc_call_t calls[] = { { .fn = waits_for_the_gate, .rc = 77, .payload = &gate },
                          { .fn = meets, .arg = CODE(3) },
                          { .fn = waits_for_the_gate, .rc = 77, .payload = &gate } };
    CHECK_EQ(kc_any(calls, 3, KC_SIG_NONE, &winner), 0);
    CHECK_EQ(winner, 1);
    CHECK_EQ(get(&out), 0);
    memset(calls, 0x5a, sizeof calls);
    set(&gate, 1);
    CHECK_EQ(kc_scope_end(&scope), 0); /* they were its children */
    CHECK_EQ(get(&out), 2);
    for (size_t i = 0; i < sizeof calls; i++)
        CHECK_EQ(((unsigned char *)calls)[i], 0x5a);
    return 0;
}

IN_A_JOB(failures_of_losers_are_dropped)
{
    kc_scope_t scope;
    size_t winner = 99;

    start_afresh();
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    kc_call_t calls[] = { { .fn = waits_for_the_gate, .arg = CODE(-EIO) },
                          { .fn = meets, .arg = CODE(2) } };
    CHECK_EQ(kc_any(calls, 2, KC_SIG_NONE, &winner), 0);
    set(&gate, 1);
    CHECK_EQ(kc_scope_end(&scope), 0);
    CHECK_EQ(get(&out), 1);
    return 0;
}

IN_A_JOB(any_returns_the_winners_code_and_the_caller_continues)
{
    static const int codes[] = { -EIO, 7, -ECANCELED };

    for (int i = 0; i < 3; i++) {
        size_t winner = 99;
        start_afresh();
        kc_call_t calls[] = { { .fn = waits },
                              { .fn = fails_with_a_payload, .arg = CODE(codes[i]) } };
        CHECK_EQ(kc_any(calls, 2, KC_SIG_TERMINATE, &winner), codes[i]);
        CHECK_EQ(winner, 1);
        CHECK_EQ(calls[1].rc, codes[i]);
        CHECK_PTR(calls[1].payload, NULL);
        CHECK_EQ(kc_check(), 0);
    }
    return 0;
}

IN_A_JOB(any_cancels_the_losers_with_terminate_and_does_not_wait_for_them)
{
    kc_scope_t scope;

    start_afresh();
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    kc_call_t calls[] = { { .fn = lingers }, { .fn = ends_after, .arg = CODE(1) } };
    CHECK_EQ(kc_any(calls, 2, KC_SIG_TERMINATE, NULL), 0);
    CHECK_EQ(get(&out), 0);
    set(&gate, 1);
    CHECK_EQ(kc_scope_end(&scope), 0);
    CHECK_EQ(get(&out), 1);
    return 0;
}

IN_A_JOB(any_tells_the_losers_user_bits)
{
    static kc_sigset_t bit = LOW;
    kc_scope_t scope;

    start_afresh();
    expected_bits = LOW;
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    kc_call_t calls[] = { { .fn = listens, .arg = &bit },
                          { .fn = ends_after, .arg = CODE(2) },
                          { .fn = listens, .arg = &bit } };
    size_t winner = 99;
    CHECK_EQ(kc_any(calls, 3, LOW, &winner), 0);
    CHECK_EQ(winner, 1);
    CHECK_EQ(kc_scope_end(&scope), 0);
    CHECK_EQ(get(&heard), 2);
    return 0;
}

/* ---- children that were cancelled ------------------------------------------------------------ */

static int leaves_a_cancelled_child(void *arg)
{
    CHECK_EQ(kc_launch(returns, CODE(-ECANCELED)), 0);
    kc_set_payload(arg);
    return 0;
}

static void has_succeeded(const kc_call_t *call)
{
    CHECK_EQ(call->rc, 0);
    CHECK_PTR(call->payload, call->arg);
}

IN_A_JOB(a_call_that_completes_is_a_success_although_a_child_of_its_was_cancelled)
{
    kc_call_t call = { .fn = leaves_a_cancelled_child, .arg = CODE(5) };
    kc_call_t calls[2] = { { .fn = returns, .arg = CODE(3) }, call };
    size_t winner = 9;

    CHECK_EQ(kc_all(&call, 1, KC_SIG_NONE), 0);
    has_succeeded(&call);
    CHECK_EQ(kc_any(&call, 1, KC_SIG_NONE, NULL), 0);
    has_succeeded(&call);
    CHECK_EQ(kc_race(&call, 1, NULL), 0);
    has_succeeded(&call);
    CHECK_EQ(kc_first_ok(calls, 2, &winner), 0);
    CHECK_EQ(winner, 1);
    has_succeeded(&calls[1]);
    CHECK_EQ(kc_all_fail_fast(&call, 1), 0);
    has_succeeded(&call);
    return 0;
}
