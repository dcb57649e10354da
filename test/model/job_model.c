/* SPDX-License-Identifier: MIT */
/*
 * job_model.c - src/job/end.c under the model checker: how a job ends, and who sees it.
 *
 * WHAT     The word of a job, its count, its lock, its end and the walk of a cancel are the real
 *          code, included as it is. Only what does not matter here is left out of it: counters and
 *          traces, and the loads of flags and of the scheduler, which do not change. A pause in a
 *          loop is model_spin. Around it stand threads with inboxes, and waits that are plain data
 *          but for their word, so that two who have the lock at a time are a data race. A block
 *          that is put back is gone: a use that does not happen before is a failure, and so is a
 *          job that was never put back. Cancels are in cancel_model.c.
 *
 * SHAPE    end      two children and the body give up the last three in the count; main waits
 *          poll     the same with one child, and nobody has told that it waits: main looks
 *          join     somebody joins while it ends
 *          successor     the same, and the body leaves as on a worker's thread
 *          fails    the body has failed, and leaves so, for a coroutine of its thread that joins
 *                   it, while its last child ends
 *          quick    a child leaves so, its parent has more to wait for, and somebody gives up the
 *                   only handle; or two do, when they have seen the end; or cancels its parent
 *          brief    as join, but the time of the wait is over at once
 *          queue    two such waits, and it does not end
 *          drain    the body waits until its two children have left
 *          hold     somebody takes a lease while the last one in the count goes
 *          lease    two threads give up the last two leases: it ends on the third
 *          late     a child comes while the last one in the count goes
 *
 * ORDER    word.1 to word.3, end.1, job.3, job.4, job.6, the rest in job_model_world.c.
 *
 * CONTROLS Ids are weakened, changes of the word are taken apart into a look and a store, and wrong
 *          ways stand in for the right ones; the models must fail then. MODEL_TRACE=1 shows how.
 */
#include "job_model_world.c" /* NOLINT(bugprone-suspicious-include): a part of this file */

/* ---- parts of threads ---------------------------------------------------------------------- */

/* It is terminal, and all that the first n threads wrote is here. */
static void sees_the_end(kc_job_t *j, int n)
{
    model_assert((kc__job_word(j) & (KC_WORD_DONE | KC_WORD_COUNT)) == KC_WORD_DONE);
    for (int i = 0; i < n; i++)
        model_assert(model_read(&s.data[i]) == 1);
}

static void reset_family(int children, int handles)
{
    reset();
    kc_job_t *j = add(ROOT, 0);
    for (int i = 0; i < children; i++)
        add(PARENT, 1 + i);
    for (int i = 0; i < handles; i++)
        kc__job_ref(j);
}

/* ---- the threads of the models: ends ------------------------------------------------------- */

/* The body of this job, which is the i-th thread's, ends. */
static void body_ends(int job, int i)
{
    model_write(&s.data[i], 1);
    kc__job_count_down(&s.job[job], KC_WORD_BODY);
}

static void child_ends(int i)
{
    body_ends(PARENT + i, i);
}

/* As kc__worker_end: the body gives itself up on its own stack, and is gone on the next one. */
static void leaves(kc_job_t *j, int i)
{
    model_write(&s.data[i], 1);
    kcoro_t *next = kc__job_successor(j);
    model_assert(!next || next == kc__thread()->main_co);
    kc__job_body_gone(j);
}

static void body_leaves(int i)
{
    leaves(&s.job[PARENT], i);
}

static bool leaves_without_a_look; /* wrong: who goes on next is not asked for */

/* It has failed. The coroutine that joins it is of this thread, and goes on with the wait. */
static void body_fails_and_leaves(int i)
{
    kc_job_t *j = &s.job[PARENT];
    kc_wait_t *w = &s.wait[0];
    kc_thread_t *t = kc__thread();

    model_write(&s.data[i], 1);
    kcoro_t *next = kc__job_end_is_heard(j) ? t->main_co : kc__job_successor(j);
    t->current = leaves_without_a_look ? w->co : next ? next : t->main_co;
    kc__job_body_gone(j);
    if (t->current != w->co) {
        t->current = t->main_co;
        if (s.put_off)
            kc__job_end_now(s.put_off);
        kc__wait_commit(w, KC_FOREVER);
    }
    sees_the_end(j, 2);
    model_assert(kc__job_result(j) == CODE);
    t->current = t->main_co;
    kc__job_unref(j);
}

static void child_leaves(int i)
{
    leaves(&s.job[CHILD], i);
}

static void child_leaves_and_looks(int i)
{
    kc_job_t *j = &s.job[CHILD];

    leaves(j, i);
    read_until_done(j);
    kc__job_unref(j);
}

static void forgets_child(int i)
{
    (void)i;
    kc__job_unref(&s.job[CHILD]);
}

static void sees_child(int i)
{
    kc_job_t *j = &s.job[CHILD];

    model_wait_until(is_done(j));
    sees_the_end(j, i);
    kc__job_unref(j);
}

static void cancels_parent(int i)
{
    (void)i;
    kc__job_cancel(&s.job[PARENT], REASON, KC_BY_USER);
}

static void body_ends_and_waits(int threads)
{
    kc_job_t *j = &s.job[PARENT];

    body_ends(PARENT, 0);
    kc__wait_commit(&s.wait[0], KC_FOREVER);
    sees_the_end(j, threads);
    kc__job_unref(j);
}

static void body_ends_and_looks(int threads)
{
    kc_job_t *j = &s.job[PARENT];

    body_ends(PARENT, 0);
    model_wait_until(is_done(j));
    sees_the_end(j, threads);
    kc__job_unref(j);
}

static void joins(int i)
{
    kc_job_t *j = &s.job[PARENT];
    kc_wait_t *w = &s.wait[i];

    kc__wait_begin_uncancellable(w, KC_WAIT_JOIN, j);
    if (enqueue(j, w))
        kc__wait_commit(w, KC_FOREVER);
    sees_the_end(j, 1);
    kc__job_unref(j);
}

/* The time of its wait is over at once. */
static void joins_shortly(int i)
{
    kc_job_t *j = &s.job[PARENT];
    kc_wait_t *w = &s.wait[i];

    kc__wait_begin_uncancellable(w, KC_WAIT_JOIN, j);
    if (enqueue(j, w) && kc__wait_claim_own(w, -ETIMEDOUT)) {
        kc__job_lock(j);
        kc__wait_unlink(&j->waiters, &w->link);
        kc__job_unlock(j);
    } else if (kc_load_relaxed(&w->word) != 0) {
        kc__wait_commit(w, KC_FOREVER);
        sees_the_end(j, 1);
    }
    kc__job_unref(j);
}

static void drains(int threads)
{
    kc_job_t *j = &s.job[PARENT];

    model_write(&s.data[0], 1);
    kc__job_drain(j);
    model_assert((kc__job_word(j) & KC_WORD_COUNT) == 1);
    for (int i = 0; i < threads; i++)
        model_assert(model_read(&s.data[i]) == 1);
    kc__job_count_down(j, KC_WORD_BODY);
}

static void holds(int i)
{
    kc_job_t *j = &s.job[PARENT];

    if (kc__job_count_up(j)) {
        model_assert(!is_done(j));
        model_write(&s.data[i], 1);
        model_assert(!is_done(j));
        kc__job_count_down(j, 0);
    }
    kc__job_unref(j);
}

static bool leases_look_first; /* wrong: a look at the count says whether it is the last */

static void leases(int i)
{
    kc_job_t *j = &s.job[PARENT];
    bool last = (kc__job_word(j) & KC_WORD_COUNT) == 1;

    model_write(&s.data[i], 1);
    if (leases_look_first && !last)
        kc__job_count_down(j, 0);
    else
        kc__job_count_down_there(j);
}

/* The thread where its body was. */
static void reads(int threads)
{
    kc_job_t *j = &s.job[PARENT];

    model_write(&s.data[0], 1);
    read_until_done(j);
    sees_the_end(j, threads);
    kc__job_unref(j);
}

static void attaches_late(int i)
{
    kc_job_t *j = &s.job[PARENT], *child = &s.job[CHILD];
    int rc = kc__job_attach(j, child);

    if (rc == 0) {
        model_assert(!is_done(j));
        model_write(&s.data[i], 1);
        kc__job_count_down(child, 0);
    } else {
        model_assert(rc == -ESHUTDOWN);
        kc__job_free(child);
    }
    kc__job_unref(j);
}

/* ---- the models ---------------------------------------------------------------------------- */

static void reset_end(void)
{
    reset_family(2, 1);
    kc__wait_begin_uncancellable(&s.wait[0], KC_WAIT_JOIN, &s.job[PARENT]);
    enqueue(&s.job[PARENT], &s.wait[0]);
}

static void reset_poll(void)
{
    reset_family(1, 1);
}

static void reset_join(void)
{
    reset_family(0, 1);
}

/* A child that somebody has joined who has left again, with so many handles. */
static void reset_child(int handles)
{
    reset_family(1, 0);
    kc__job_change(&s.job[CHILD], KC_WORD_WAITERS, 0);
    for (int i = 0; i < handles; i++)
        kc__job_ref(&s.job[CHILD]);
    model_name(&s.job[CHILD].refs, "refs");
}

static void reset_quick(void)
{
    reset_child(1);
}

static void reset_quick_two(void)
{
    reset_child(2);
}

static void check_quick(void)
{
    enters(0);
    kc__job_count_down(&s.job[PARENT], KC_WORD_BODY);
    check_gone();
}

static void reset_fails(void)
{
    reset_family(1, 1);
    kc_job_t *j = &s.job[PARENT];
    kc_wait_t *w = &s.wait[0];
    j->code = CODE;
    kc__wait_begin_uncancellable(w, KC_WAIT_JOIN, j);
    w->co = &s.co[2];
    model_assert(enqueue(j, w));
    kc__job_change(j, KC_WORD_FAILED, 0);
}

static void reset_queue(void)
{
    reset_family(0, 2);
}

static void reset_drain(void)
{
    reset_family(2, 0);
}

static void reset_hold(void)
{
    reset_family(0, 1);
}

/* Its body has returned. */
static void reset_lease(void)
{
    reset_family(0, 1);
    for (int i = 0; i < 2; i++)
        kc__job_count_up(&s.job[PARENT]);
    kc__job_count_down(&s.job[PARENT], KC_WORD_BODY);
}

static void reset_late(void)
{
    reset_family(0, 1);
    job_new(0);
}

static void check_lease(void)
{
    check_gone();
    model_assert(s.sent == 1);
    model_assert(s.told == 1);
}

/* Nobody waits any more, and it goes on. */
static void check_queue(void)
{
    kc_job_t *j = &s.job[PARENT];

    model_assert(!j->waiters && s.claimed[0] == 1 && s.claimed[1] == 1);
    kc__job_count_down(j, KC_WORD_BODY);
    check_gone();
}

static const struct model end = {
    "end",
    reset_end,
    check_gone,
    3,
    { { "body", body_ends_and_waits, 3 }, { "child", child_ends, 1 }, { "second", child_ends, 2 } }
};
static const struct model poll = { "poll",
                                   reset_poll,
                                   check_gone,
                                   2,
                                   { { "body", body_ends_and_looks, 2 },
                                     { "child", child_ends, 1 } } };
static const struct model join = {
    "join", reset_join, check_gone, 2, { { "body", child_ends, 0 }, { "other", joins, 1 } }
};
static const struct model successor = {
    "successor", reset_join, check_gone, 2, { { "body", body_leaves, 0 }, { "other", joins, 1 } }
};
static const struct model fails = { "fails",
                                    reset_fails,
                                    check_gone,
                                    2,
                                    { { "body", body_fails_and_leaves, 0 },
                                      { "child", child_ends, 1 } } };
static const struct model quick = { "quick",
                                    reset_quick,
                                    check_quick,
                                    2,
                                    { { "body", child_leaves, 1 },
                                      { "other", forgets_child, 0 } } };
static const struct model quick_two = {
    "quick, two",
    reset_quick_two,
    check_quick,
    3,
    { { "body", child_leaves, 0 }, { "one", sees_child, 1 }, { "other", sees_child, 1 } }
};
static const struct model quick_told = { "quick, told",
                                         reset_quick,
                                         check_quick,
                                         2,
                                         { { "other", cancels_parent, 0 },
                                           { "body", child_leaves_and_looks, 1 } } };
static const struct model brief = { "brief",
                                    reset_join,
                                    check_gone,
                                    2,
                                    { { "body", child_ends, 0 }, { "other", joins_shortly, 1 } } };
static const struct model queue = { "queue",
                                    reset_queue,
                                    check_queue,
                                    2,
                                    { { "one", joins_shortly, 0 },
                                      { "other", joins_shortly, 1 } } };
static const struct model drain = {
    "drain",
    reset_drain,
    check_gone,
    3,
    { { "body", drains, 3 }, { "child", child_ends, 1 }, { "second", child_ends, 2 } }
};
static const struct model hold = {
    "hold", reset_hold, check_gone, 2, { { "body", child_ends, 0 }, { "other", holds, 1 } }
};
static const struct model lease = {
    "lease",
    reset_lease,
    check_lease,
    3,
    { { "body", reads, 3 }, { "one", leases, 1 }, { "other", leases, 2 } }
};
static const struct model late = {
    "late", reset_late, check_gone, 2, { { "body", child_ends, 0 }, { "other", attaches_late, 1 } }
};

const struct model_file model_file = { .enters = enters, .slow = true };

TEST(the_last_of_a_body_and_two_children_ends_the_job_once)
{
    passes(&end, 3);
}

TEST(an_observer_of_a_terminal_job_sees_what_was_written)
{
    passes(&poll, 3);
}

TEST(a_joiner_is_woken_once_or_sees_the_end)
{
    passes(&join, 4);
}

TEST(a_joiner_of_a_body_that_leaves_is_woken_once)
{
    passes(&successor, 3);
}

TEST(a_joiner_of_a_failed_body_continues_when_its_job_has_ended)
{
    passes(&fails, 4);
}

TEST(the_last_handle_of_a_body_that_leaves_or_the_body_frees_its_job)
{
    passes(&quick, MODEL_UNBOUNDED);
}

TEST(the_last_of_two_observers_of_a_body_that_leaves_frees_its_job)
{
    passes(&quick_two, 3);
}

TEST(a_body_that_leaves_while_its_parent_is_cancelled_is_freed_once)
{
    passes(&quick_told, 3);
}

TEST(a_joiner_with_a_deadline_is_claimed_once)
{
    passes(&brief, 4);
}

TEST(two_joiners_may_wait_and_leave_at_once)
{
    passes(&queue, 4);
}

TEST(a_thread_that_drains_is_woken_once)
{
    passes(&drain, 3);
}

TEST(a_lease_fails_or_the_job_stays)
{
    passes(&hold, MODEL_UNBOUNDED);
}

TEST(the_last_lease_leaves_the_end_to_the_thread_of_the_body)
{
    passes(&lease, 3);
}

TEST(a_child_is_refused_or_the_job_stays)
{
    passes(&late, 4);
}

TEST(control_word_1_relaxed_lets_two_into_the_queue)
{
    needs(&queue, "word.1", MODEL_RELAXED, "data race: other reads waiters, written by one");
}

TEST(control_word_1_torn_gives_the_lock_to_two)
{
    needs(&queue, "word.1", MODEL_TORN, "data race: other reads waiters, written by one");
    needs(&late, "word.1", MODEL_TORN, "not true: word == KC_WORD_DONE");
    needs(&quick_told, "word.1", MODEL_TORN, "not true: s.freed[i] == 1");
}

TEST(control_word_2_relaxed_hides_the_queue)
{
    needs(&queue, "word.2", MODEL_RELAXED, "data race: other reads waiters, written by one");
}

TEST(control_word_1_relaxed_hides_what_was_written)
{
    needs(&end, "word.1", MODEL_RELAXED, "data race: body reads data, written by child");
}

TEST(control_word_1_torn_never_ends_the_job)
{
    needs(&end, "word.1", MODEL_TORN, "deadlock: nobody wakes body");
    needs(&poll, "word.1", MODEL_TORN, "deadlock: nobody wakes body");
    needs(&successor, "word.1", MODEL_TORN, "deadlock: nobody wakes other");
}

TEST(control_word_1_torn_holds_what_has_ended_and_drains_for_ever)
{
    needs(&hold, "word.1", MODEL_TORN, "not true: word == KC_WORD_DONE");
    needs(&drain, "word.1", MODEL_TORN, "deadlock: nobody wakes body");
}

TEST(control_a_relaxed_look_at_the_word_hides_what_was_written)
{
    needs(&poll, "job.6", MODEL_RELAXED, "data race: body reads data, written by child");
    needs(&drain, "end.1", MODEL_RELAXED, "data race: body reads data, written by");
    needs(&drain, "word.3", MODEL_RELAXED, "data race: body reads data, written by");
}

TEST(control_job_4_weaker_frees_too_early_or_never)
{
    needs(&poll, "job.4", MODEL_RELAXED, "data race: body frees refs, used by child");
    needs(&quick_two, "job.4", MODEL_RELAXED, "data race: other frees child, used by one");
    needs(&quick_two, "job.4", MODEL_TORN, "not true: s.freed[i] == 1");
    needs(&poll, "job.4", MODEL_TORN, "not true: s.freed[i] == 1");
}

TEST(control_a_joiner_that_continues_before_the_end)
{
    leaves_without_a_look = true;
    catches(&fails, "leaves_without_a_look", "not true");
}

TEST(control_a_lease_that_looks_first)
{
    leases_look_first = true;
    catches(&lease, "leases_look_first", "not true: s.sent == 1");
}
