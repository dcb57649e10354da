/* SPDX-License-Identifier: MIT */
/*
 * chan_model.c - src/sync/chan.c and buffer.c under the model checker: one item, and who gets it.
 *
 * WHAT     The channel is the real code; around it stand plain threads whose waits are the model's
 *          own (chan_model_world.c). Every item is plain data and has a number: it is lost or
 *          doubled, or there is a data race, if the hand-over is wrong.
 *
 * SHAPE    meet     one sends and one receives
 *          brief    the same, and neither waits longer than a moment
 *          hurry    a sender that waits for a moment, and two receivers that do
 *          shut     one sends, one receives, one closes
 *          drain    the same with a buffer, and all that was sent is received
 *          full     a sender waits for room, which two receivers make
 *          replace  two senders to a latest channel, with a hook, and a receiver that tries
 *          grow     two senders to an unlimited channel whose chunk is full, and a receiver
 *          release  two references are given up
 *
 * CONTROLS lock.5 and lock.6, chan.1, and the claim of a wait are weakened; the models must
 *          fail then. MODEL_TRACE=1 shows how.
 */
#include "chan_model_world.c" /* NOLINT(bugprone-suspicious-include): a part of this file */

/* ---- the threads of the models -------------------------------------------------------------- */

static void sends_until(int i, kc_time_t deadline)
{
    s.rc[i] = kc_chan_send_until(s.c[0], &s.item[i], deadline);
    model_write(&s.item[i], 99); /* it is the sender's again */
}

static void receives_until(int i, kc_time_t deadline)
{
    s.rc[i] = kc_chan_recv_until(s.c[0], &s.got[i], deadline);
    if (s.rc[i] == 0)
        books(model_read(&s.got[i]));
}

static void sends(int i)
{
    sends_until(i, KC_FOREVER);
}

static void receives(int i)
{
    receives_until(i, KC_FOREVER);
}

static void sends_soon(int i)
{
    sends_until(i, SOON);
}

static void receives_soon(int i)
{
    receives_until(i, SOON);
}

static void tries_to_receive(int i)
{
    s.rc[i] = kc_chan_try_recv(s.c[0], &s.got[i]);
    if (s.rc[i] == 0)
        books(model_read(&s.got[i]));
}

static void closes(int i)
{
    kc_chan_close(s.c[0]);
    s.rc[i] = 0;
}

static void receives_all(int i)
{
    while ((s.rc[i] = kc_chan_recv(s.c[0], &s.got[i])) == 0)
        books(model_read(&s.got[i]));
}

/* Uses it by a reference of its own, and gives that up. */
static void uses_and_releases(int i)
{
    s.rc[i] = kc_chan_try_send(s.c[0], &s.item[i]);
    kc_chan_release(s.c[0]);
}

/* ---- the models ----------------------------------------------------------------------------- */

/* Each item that was sent has come out, and no other. */
static void check_books(int senders)
{
    for (int i = 0; i < senders; i++)
        model_assert(s.seen[i + 1] == (s.rc[i] == 0));
    nobody_stands();
}

static void check_meet(void)
{
    model_assert(s.rc[0] == 0 && s.rc[1] == 0);
    check_books(1);
}

static void check_brief(void)
{
    model_assert(s.rc[0] == 0 || s.rc[0] == -ETIMEDOUT);
    model_assert(s.rc[0] == s.rc[1]);
    check_books(1);
}

static void check_hurry(void)
{
    model_assert((s.rc[0] == 0) == (s.rc[1] == 0 || s.rc[2] == 0));
    model_assert(s.rc[1] != 0 || s.rc[2] != 0);
    check_books(1);
}

static void check_shut(void)
{
    model_assert(s.rc[0] == s.rc[1] && (s.rc[0] == 0 || s.rc[0] == -EPIPE));
    check_books(1);
}

static void reset_buffer(void)
{
    reset(1, NULL);
}

static void check_drain(void)
{
    model_assert(s.rc[1] == -EPIPE && (s.rc[0] == 0 || s.rc[0] == -EPIPE));
    check_books(1);
}

/* Number 6 is in it. */
static void reset_full(void)
{
    uint64_t item = 6;

    reset(1, NULL);
    model_assert(kc_chan_try_send(s.c[0], &item) == 0);
}

static void check_full(void)
{
    model_assert(s.rc[0] == 0 && s.rc[1] == 0 && s.rc[2] == 0);
    model_assert(s.seen[6] == 1 && kc_chan_len(s.c[0]) == 0);
    check_books(1);
}

static void is_replaced(void *item, void *arg)
{
    (void)arg;
    books(model_read((uint64_t *)item));
}

static void reset_replace(void)
{
    reset(KC_CHAN_LATEST, is_replaced);
}

static void check_replace(void)
{
    model_assert(s.rc[0] == 0 && s.rc[1] == 0);
    nobody_stands();
    kc_chan_release(s.c[0]); /* what is left goes to the hook */
    model_assert(s.seen[1] == 1 && s.seen[2] == 1);
}

/* One chunk, of which all but the last item, number 6, was received. */
static void reset_grow(void)
{
    reset(KC_CHAN_UNLIMITED, NULL);
    kc_buffer_t *b = &s.c[0]->buffer;
    b->head = b->slots - 1;
    b->tail = b->slots;
    b->count = 1;
    *(uint64_t *)(void *)kc__buffer_slot(b, b->first, b->head) = 6;
}

static void check_grow(void)
{
    uint64_t item = 0;

    model_assert(s.rc[0] == 0 && s.rc[1] == 0);
    while (kc_chan_try_recv(s.c[0], &item) == 0)
        books(item);
    model_assert(s.seen[6] == 1);
    check_books(2);
}

static void reset_release(void)
{
    reset(2, NULL);
    kc_chan_retain(s.c[0]);
}

static void check_release(void)
{
    model_assert(s.freed[0] == 1 && s.freed[1] == 1);
}

static const struct model meet = {
    "meet", reset_meeting, check_meet, 2, { { "sender", sends, 0 }, { "receiver", receives, 1 } }
};
static const struct model brief = { "brief",
                                    reset_meeting,
                                    check_brief,
                                    2,
                                    { { "sender", sends_soon, 0 },
                                      { "receiver", receives_soon, 1 } } };
static const struct model hurry = { "hurry",
                                    reset_meeting,
                                    check_hurry,
                                    3,
                                    { { "sender", sends_soon, 0 },
                                      { "receiver", receives_soon, 1 },
                                      { "other", receives_soon, 2 } } };
static const struct model shut = {
    "shut",
    reset_meeting,
    check_shut,
    3,
    { { "sender", sends, 0 }, { "receiver", receives, 1 }, { "closer", closes, 2 } }
};
static const struct model drain = {
    "drain",
    reset_buffer,
    check_drain,
    3,
    { { "sender", sends, 0 }, { "receiver", receives_all, 1 }, { "closer", closes, 2 } }
};
static const struct model full = {
    "full",
    reset_full,
    check_full,
    3,
    { { "sender", sends, 0 }, { "receiver", receives, 1 }, { "other", receives, 2 } }
};
static const struct model replaces = {
    "replace",
    reset_replace,
    check_replace,
    3,
    { { "sender", sends, 0 }, { "second", sends, 1 }, { "receiver", tries_to_receive, 2 } }
};
static const struct model grow = {
    "grow",
    reset_grow,
    check_grow,
    3,
    { { "sender", sends, 0 }, { "second", sends, 1 }, { "receiver", tries_to_receive, 2 } }
};
static const struct model release = { "release",
                                      reset_release,
                                      check_release,
                                      2,
                                      { { "one", uses_and_releases, 0 },
                                        { "other", uses_and_releases, 1 } } };

TEST(a_sender_and_a_receiver_meet)
{
    passes(&meet, 6);
}

TEST(an_item_is_delivered_or_its_time_is_over)
{
    passes(&brief, 5);
}

TEST(an_item_is_delivered_to_one_of_two_or_to_none)
{
    passes(&hurry, 2);
}

TEST(a_close_ends_a_meeting_for_both_or_for_none)
{
    passes(&shut, 3);
}

TEST(what_was_sent_before_a_close_is_received)
{
    passes(&drain, 3);
}

TEST(a_sender_that_waits_for_room_is_moved_up)
{
    passes(&full, 3);
}

TEST(what_is_replaced_goes_to_the_hook_once)
{
    passes(&replaces, 3);
}

TEST(two_may_find_that_a_chunk_is_full)
{
    passes(&grow, 2);
}

TEST(the_last_reference_frees_the_channel_once)
{
    passes(&release, MODEL_UNBOUNDED);
}

TEST(control_lock_5_relaxed_hides_the_queue)
{
    needs(&brief, "lock.5", MODEL_RELAXED, "data race");
    needs(&replaces, "lock.5", MODEL_RELAXED, "data race");
}

TEST(control_lock_5_torn_gives_the_lock_to_two)
{
    needs(&brief, "lock.5", MODEL_TORN, "data race");
}

TEST(control_lock_6_relaxed_hides_the_queue_and_the_item)
{
    needs(&brief, "lock.6", MODEL_RELAXED, "data race");
    needs(&drain, "lock.6", MODEL_RELAXED, "data race");
}

TEST(control_chan_1_relaxed_frees_what_is_in_use)
{
    needs(&release, "chan.1", MODEL_RELAXED, "data race");
}

TEST(control_chan_1_torn_never_frees_the_channel)
{
    needs(&release, "chan.1", MODEL_TORN, "not true: s.freed[0] == 1");
}

TEST(control_chan_model_world_1_torn_gives_an_item_to_a_receiver_that_has_left)
{
    needs(&brief, "chan_model_world.1", MODEL_TORN, "data race: receiver writes &w->rc");
}

TEST(control_chan_model_world_2_relaxed_hides_the_item_from_its_receiver)
{
    needs(&meet, "chan_model_world.2", MODEL_RELAXED, "data race");
}
