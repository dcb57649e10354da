/* SPDX-License-Identifier: MIT */
/*
 * select_model.c - src/sync/select.c over chan.c under the model checker: one wait in many queues.
 *
 * WHAT     As in chan_model.c. Selects here are biased: in which order one looks at its cases is
 *          said by the model, and not by chance.
 *
 * SHAPE    cross     one sends on a or receives from b; the other receives from a or sends on b;
 *                    each begins at the same channel
 *          across    the same, each begins at the other's last
 *          close     a select receives from a or b; somebody tries to send on a, another closes b
 *          itself    a select stands at a while b gets an item: it claims itself for b, and
 *                    somebody tries to send on a
 *          moment    a select that waits for a moment, and one who tries to send
 *          both      two selects that send or receive on one channel
 *          taken     a select sees an item that another takes, and somebody waits to send it one
 *          again     as across, and both have tried in vain before: neither does so again
 *          try       a has an item, b has none; somebody sends on b, then receives from a, while a
 *                    select that does not wait looks at b and a, and another at a and b: one of
 *                    the two is ready at each moment until one of the selects has taken an item
 *
 * CONTROLS lock.5 and lock.6 are weakened, the claim of a wait is taken apart into a look and a
 *          store, a select does not claim itself first, those who try again do so all at once, and
 *          a try looks at one after the other; the models must fail then.
 */
#include "chan_model_world.c" /* NOLINT(bugprone-suspicious-include): a part of this file */

/* ---- the threads of the models -------------------------------------------------------------- */

/* Number of thread i's item; what it got, if that was a receive. */
static void chooses(int i, kc_case_t *cases, size_t n, kc_time_t timeout)
{
    int k = kc_select_biased(cases, n, timeout);

    s.index[i] = k >= 0 ? k : -1;
    s.rc[i] = k >= 0 ? cases[k].rc : k;
    if (k >= 0 && s.rc[i] == 0 && cases[k].op == KC_RECV)
        books(model_read(&s.got[i]));
    model_write(&s.item[i], 99); /* it is its own again */
}

static kc_case_t to(int c, int i)
{
    return (kc_case_t){ KC_SEND, s.c[c], &s.item[i], 1 };
}

static kc_case_t from(int c, int i)
{
    return (kc_case_t){ KC_RECV, s.c[c], &s.got[i], 1 };
}

static void sends_on_a_or_receives_from_b(int i)
{
    kc_case_t cases[] = { to(0, i), from(1, i) };

    chooses(i, cases, 2, KC_FOREVER);
}

static void receives_from_a_or_sends_on_b(int i)
{
    kc_case_t cases[] = { from(0, i), to(1, i) };

    chooses(i, cases, 2, KC_FOREVER);
}

/* The same from the other end; what it did is told as if it were not. */
static void sends_on_b_or_receives_from_a(int i)
{
    kc_case_t cases[] = { to(1, i), from(0, i) };

    chooses(i, cases, 2, KC_FOREVER);
    s.index[i] = 1 - s.index[i];
}

/* A try that is not the first. */
static void tries_again(int i, kc_case_t *cases)
{
    kc_chan_waiter_t turns[2];
    select_t again = { .cases = cases, .turns = turns, .n = 2 };

    int k = attempt(&again, KC_FOREVER, true);
    s.index[i] = k >= 0 ? k : -1;
    s.rc[i] = k >= 0 ? cases[k].rc : k;
    model_assert(s.rc[i] != -EAGAIN);
    if (s.rc[i] == 0 && cases[k].op == KC_RECV)
        books(model_read(&s.got[i]));
}

static void sends_on_a_or_receives_from_b_again(int i)
{
    kc_case_t cases[] = { to(0, i), from(1, i) };

    tries_again(i, cases);
}

static void sends_on_b_or_receives_from_a_again(int i)
{
    kc_case_t cases[] = { to(1, i), from(0, i) };

    tries_again(i, cases);
    s.index[i] = 1 - s.index[i];
}

static void receives_from_a_or_b(int i)
{
    kc_case_t cases[] = { from(0, i), from(1, i) };

    chooses(i, cases, 2, KC_FOREVER);
}

static void receives_from_a_or_b_soon(int i)
{
    kc_case_t cases[] = { from(0, i), from(1, i) };

    chooses(i, cases, 2, SOON);
}

static void sends_or_receives_on_a(int i)
{
    kc_case_t cases[] = { to(0, i), from(0, i) };

    chooses(i, cases, 2, KC_FOREVER);
}

static void tries_to_send_on_a(int i)
{
    s.rc[i] = kc_chan_try_send(s.c[0], &s.item[i]);
    model_write(&s.item[i], 99);
}

static void sends_on_b(int i)
{
    s.rc[i] = kc_chan_send(s.c[1], &s.item[i]);
    model_write(&s.item[i], 99);
}

static void tries_to_receive_from_b(int i)
{
    s.rc[i] = kc_chan_try_recv(s.c[1], &s.got[i]);
    if (s.rc[i] == 0)
        books(model_read(&s.got[i]));
}

/* Of one that does not wait. */
static void tries_b_or_a(int i)
{
    kc_case_t cases[] = { from(1, i), from(0, i) };

    chooses(i, cases, 2, 0);
}

static void tries_a_or_b(int i)
{
    kc_case_t cases[] = { from(0, i), from(1, i), from(0, i) };

    chooses(i, cases, 3, 0);
}

/* wrong: each with its own lock */
static void tries_b_then_a(int i)
{
    kc_case_t cases[] = { from(1, i), from(0, i) };
    select_t one_by_one = { .cases = cases, .n = 2 };

    s.rc[i] = try_each(&one_by_one);
    if (s.rc[i] >= 0)
        books(model_read(&s.got[i]));
}

/* One of them has an item at each moment, as far as this thread goes. */
static void moves_from_a_to_b(int i)
{
    int rc = kc_chan_try_send(s.c[1], &s.item[i]);
    model_assert(rc == 0);
    s.rc[i] = kc_chan_try_recv(s.c[0], &s.got[i]);
    if (s.rc[i] == 0)
        books(model_read(&s.got[i]));
}

static void closes_b(int i)
{
    kc_chan_close(s.c[1]);
    s.rc[i] = 0;
}

/* ---- the models ----------------------------------------------------------------------------- */

static void check_cross(void)
{
    model_assert(s.rc[0] == 0 && s.rc[1] == 0);
    model_assert(s.index[0] == s.index[1]);
    model_assert(s.seen[1] == (s.index[0] == 0) && s.seen[2] == (s.index[0] == 1));
    model_assert(s.tries[0] <= 2 && s.tries[1] <= 2);
    nobody_stands();
}

static void check_close(void)
{
    model_assert(s.index[0] >= 0);
    model_assert((s.rc[1] == 0) == (s.index[0] == 0));
    model_assert(s.rc[0] == (s.index[0] == 0 ? 0 : -EPIPE));
    model_assert(s.seen[2] == (s.rc[1] == 0));
    nobody_stands();
}

/* a is without a buffer, b has one. */
static void reset_itself(void)
{
    reset(0, NULL);
    kc_chan_opts_t opts = { sizeof(uint64_t), 1, NULL, NULL, NULL };
    int rc = kc_chan_create_with(&opts, &s.c[1]);
    model_assert(rc == 0);
    model_name(&s.c[1]->lock.word, "lock of b");
    model_name(&s.c[1]->receivers, "receivers of b");
}

static void check_itself(void)
{
    model_assert(s.rc[0] == 0 && s.rc[2] == 0);
    model_assert((s.rc[1] == 0) == (s.index[0] == 0));
    model_assert(s.seen[2] == (s.index[0] == 0) && s.seen[3] == (s.index[0] == 1));
    model_assert(kc_chan_len(s.c[1]) == (s.index[0] == 0));
    nobody_stands();
}

static void check_moment(void)
{
    model_assert(s.rc[0] == 0 ? s.index[0] == 0 : s.rc[0] == -ETIMEDOUT);
    model_assert((s.rc[0] == 0) == (s.rc[1] == 0));
    model_assert(s.seen[2] == (s.rc[1] == 0));
    nobody_stands();
}

static void check_both(void)
{
    model_assert(s.rc[0] == 0 && s.rc[1] == 0 && s.index[0] != s.index[1]);
    model_assert(s.seen[1] == (s.index[0] == 0) && s.seen[2] == (s.index[0] == 1));
    nobody_stands();
}

/* One of the two items was for the select; the other may be left. */
static void reset_taken(void)
{
    uint64_t item = 6;

    reset_itself();
    model_assert(kc_chan_try_send(s.c[1], &item) == 0);
}

static void check_taken(void)
{
    model_assert(s.rc[0] == 0 && s.index[0] == 1 && s.rc[2] == 0);
    model_assert(s.seen[6] == 1 && s.seen[3] == (s.rc[1] == 0));
    model_assert(kc_chan_len(s.c[1]) == (s.rc[1] != 0));
    nobody_stands();
}

/* a has the item 6, b has room for one. */
static void reset_try(void)
{
    uint64_t item = 6;

    reset(1, NULL);
    model_assert(kc_chan_try_send(s.c[0], &item) == 0);
}

static void check_try(void)
{
    model_assert(s.rc[0] >= 0);
    model_assert(s.seen[6] + s.seen[2] == 1 + (s.rc[1] == 0));
    nobody_stands();
}

/* A select has found none only if the other one has taken an item. */
static void check_tries(void)
{
    model_assert(s.rc[0] >= 0 || s.rc[2] >= 0);
    nobody_stands();
}

static const struct model try_alone = { "try",
                                        reset_try,
                                        check_try,
                                        2,
                                        { { "select", tries_b_or_a, 0 },
                                          { "mover", moves_from_a_to_b, 1 } } };
static const struct model tries = { "tries",
                                    reset_try,
                                    check_tries,
                                    3,
                                    { { "select", tries_b_or_a, 0 },
                                      { "mover", moves_from_a_to_b, 1 },
                                      { "other", tries_a_or_b, 2 } } };
static const struct model try_one_by_one = { "try one by one",
                                             reset_try,
                                             check_try,
                                             2,
                                             { { "select", tries_b_then_a, 0 },
                                               { "mover", moves_from_a_to_b, 1 } } };
static const struct model cross = { "cross",
                                    reset_meeting,
                                    check_cross,
                                    2,
                                    { { "one", sends_on_a_or_receives_from_b, 0 },
                                      { "other", receives_from_a_or_sends_on_b, 1 } } };
static const struct model across = { "across",
                                     reset_meeting,
                                     check_cross,
                                     2,
                                     { { "one", sends_on_a_or_receives_from_b, 0 },
                                       { "other", sends_on_b_or_receives_from_a, 1 } } };
static const struct model close = { "close",
                                    reset_meeting,
                                    check_close,
                                    3,
                                    { { "select", receives_from_a_or_b, 0 },
                                      { "sender", tries_to_send_on_a, 1 },
                                      { "closer", closes_b, 2 } } };
static const struct model itself = { "itself",
                                     reset_itself,
                                     check_itself,
                                     3,
                                     { { "select", receives_from_a_or_b, 0 },
                                       { "sender", tries_to_send_on_a, 1 },
                                       { "other", sends_on_b, 2 } } };
static const struct model moment = { "moment",
                                     reset_meeting,
                                     check_moment,
                                     2,
                                     { { "select", receives_from_a_or_b_soon, 0 },
                                       { "sender", tries_to_send_on_a, 1 } } };
static const struct model both = { "both",
                                   reset_meeting,
                                   check_both,
                                   2,
                                   { { "one", sends_or_receives_on_a, 0 },
                                     { "other", sends_or_receives_on_a, 1 } } };
static const struct model taken = { "taken",
                                    reset_taken,
                                    check_taken,
                                    3,
                                    { { "select", receives_from_a_or_b, 0 },
                                      { "taker", tries_to_receive_from_b, 1 },
                                      { "other", sends_on_b, 2 } } };

static const struct model again = { "again",
                                    reset_meeting,
                                    check_cross,
                                    2,
                                    { { "one", sends_on_a_or_receives_from_b_again, 0 },
                                      { "other", sends_on_b_or_receives_from_a_again, 1 } } };

TEST(two_selects_that_begin_at_one_channel_meet_once)
{
    passes(&cross, 3);
}

TEST(two_selects_that_begin_at_different_channels_meet_once)
{
    passes(&across, 3);
}

TEST(a_select_is_ended_by_a_sender_or_by_a_close)
{
    passes(&close, 2);
}

TEST(a_select_that_claims_itself_is_passed_by)
{
    passes(&itself, 2);
}

TEST(a_select_is_ended_by_a_sender_or_by_its_time)
{
    passes(&moment, 4);
}

TEST(a_select_meets_another_and_not_itself)
{
    passes(&both, 3);
}

TEST(a_select_whose_item_was_taken_gets_the_next)
{
    passes(&taken, 3);
}

TEST(two_selects_that_try_again_meet)
{
    passes(&again, 6);
}

TEST(a_try_looks_at_all_at_one_moment)
{
    passes(&try_alone, 4);
}

TEST(two_tries_that_begin_at_different_channels_do_not_wait_for_each_other)
{
    passes(&tries, 2);
}

TEST(control_a_try_that_looks_at_one_after_the_other)
{
    catches(&try_one_by_one, "one by one", "not true: s.rc[0] >= 0");
}

TEST(control_lock_5_weaker_hides_the_queue)
{
    needs(&moment, "lock.5", MODEL_RELAXED, "data race");
    needs(&cross, "lock.5", MODEL_TORN, "data race");
}

TEST(control_lock_6_relaxed_hides_the_queue)
{
    needs(&moment, "lock.6", MODEL_RELAXED, "data race");
}

TEST(control_chan_model_world_1_torn_ends_a_select_twice)
{
    needs(&close, "chan_model_world.1", MODEL_TORN, "data race: closer writes &w->rc");
    needs(&moment, "chan_model_world.1", MODEL_TORN, "data race: sender writes &w->rc");
}

TEST(control_a_select_that_does_not_claim_itself_first)
{
    keeps_unclaimed = true;
    catches(&itself, "keeps_unclaimed", "data race: select writes got, written by sender");
}

TEST(control_selects_that_try_again_all_at_once)
{
    all_at_once = true;
    catches(&again, "all_at_once", "not true: s.rc[i] != -EAGAIN");
}
