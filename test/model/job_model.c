/* SPDX-License-Identifier: MIT */
/*
 * job_model.c - src/flow/job.c and cancel.c under the model checker: end, attach, cancel, shield.
 *
 * WHAT     The word of a job, its count, its lock, its end and the walk of a cancel are the real
 *          code, included as it is. Only what does not matter here is left out of it: counters and
 *          traces, and the loads of flags and of the scheduler, which do not change. A pause in a
 *          loop is model_spin. Around it stand threads with inboxes, and waits that are plain data
 *          but for their word, so that two who have the lock at a time are a data race. A block
 *          that is put back is gone: a use that does not happen before is a failure, and so is a
 *          job that was never put back.
 *
 * SHAPE    end      two children and the body give up the last three in the count; main waits
 *          poll     the same with one child, and nobody has told that it waits: main looks
 *          join     somebody joins while it ends
 *          heir     the same, and the body leaves as on a worker's thread
 *          brief    as join, but the time of the wait is over at once
 *          queue    two such waits, and it does not end
 *          drain    the body waits until its two children have left
 *          hold     somebody takes a lease while the last one in the count goes
 *          lease    two threads give up the last two leases: it ends on the third
 *          late     a child comes while the last one in the count goes
 *          publish  a child comes while its parent is cancelled
 *          deep     the same, and the grandparent is cancelled
 *          both     two levels are cancelled at once: a first cancel returns when all is told
 *          notice   a body starts, waits and ends on its thread while another cancels it
 *          race     the same, but the body does not wait
 *          shield   a body opens and closes a shield while another thread cancels it
 *          fail     a child fails while its parent is cancelled
 *          blame    a child fails while the body of its parent joins it, and looks at itself then
 *
 * ORDER    J1 to J5 in word.h, J6 in job.c, X1 in cancel.c, the rest in job_model_world.c.
 *
 * CONTROLS Ids are weakened, changes of the word are taken apart into a look and a store, and wrong
 *          ways stand in for the right ones; the models must fail then. MODEL_TRACE=1 shows how.
 */
#include "job_model_world.c" /* NOLINT(bugprone-suspicious-include): a part of this file */

/* ---- the threads of the models: ends ------------------------------------------------------- */

/* The body of this job, which is the i-th thread's, ends. */
static void body_ends(int job, int i)
{
    model_write(&s.data[i], 1);
    kc__job_release(&s.job[job], KC_WORD_BODY);
}

static void child_ends(int i)
{
    body_ends(PARENT + i, i);
}

/* As kc__worker_end: the body gives itself up on its own stack, and is gone on the next one. */
static void body_leaves(int i)
{
    kc_job_t *j = &s.job[PARENT];

    model_write(&s.data[i], 1);
    kcoro_t *next = kc__job_heir(j);
    model_assert(!next || next == kc__thread()->root);
    kc__job_body_gone(j);
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

    kc__wait_begin_firm(w, KC_WAIT_JOIN, j);
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

    kc__wait_begin_firm(w, KC_WAIT_JOIN, j);
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
    kc__job_release(j, KC_WORD_BODY);
}

static void holds(int i)
{
    kc_job_t *j = &s.job[PARENT];

    if (kc__job_hold(j)) {
        model_assert(!is_done(j));
        model_write(&s.data[i], 1);
        model_assert(!is_done(j));
        kc__job_release(j, 0);
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
        kc__job_release(j, 0);
    else
        kc__job_release_there(j);
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
        kc__job_release(child, 0);
    } else {
        model_assert(rc == -ESHUTDOWN);
        kc__job_free(child);
    }
    kc__job_unref(j);
}

/* ---- the threads of the models: cancels ---------------------------------------------------- */

static bool links_late; /* wrong: looks first, and then takes the lock */

static int attach(kc_job_t *parent, kc_job_t *j)
{
    if (!links_late)
        return kc__job_attach(parent, j);
    if (kc__job_word(parent) & KC_WORD_HALT)
        return -ECANCELED;
    uint64_t word = kc__job_lock(parent);
    ring_add(parent, j);
    kc__job_unlock_to(parent, word + 1);
    return 0;
}

/* The body of this job, which somebody cancels, adds the last child. */
static void attaches(int job)
{
    int rc = attach(&s.job[job], &s.job[s.made - 1]);

    model_assert(rc == 0 || rc == -ECANCELED);
    s.attached = rc == 0;
}

static void cancels_all(int job)
{
    bool first = kc__job_cancel(&s.job[job], REASON, KC_BY_USER);

    s.first += job == PARENT && first;
    for (int i = job; i < s.made && first; i++)
        model_assert(is_marked(&s.job[i]) || (i == s.made - 1 && !s.attached));
}

static bool tells_in_two_steps; /* wrong: the count rises for the notice after the mark */

static void cancels(int job)
{
    kc_job_t *j = &s.job[job];
    uint64_t stops = KC_WORD_CANCELLED | KC_WORD_STOP | KC_WORD_HALT;

    if (!tells_in_two_steps) {
        s.first += kc__job_cancel(j, REASON, KC_BY_USER);
    } else if (!(kc__job_word(j) & KC_WORD_DONE)) {
        kc_worker_t *to = kc_load_relaxed(&j->task.worker);
        uint64_t was = kc__job_lock(j);
        j->reason = REASON;
        s.first++;
        kc__job_unlock_to(j, was | stops);
        kc__news_terminate(j);
        if (was & KC_WORD_BODY) {
            kc_add_relaxed(&j->task.word, 1);
            kc__worker_send(to, &j->task.block);
        }
    }
    kc__job_unref(j);
}

/* Starts, and waits for nothing else than to be cancelled; or does not wait. */
static void starts(int waits)
{
    kc_job_t *j = &s.job[PARENT];
    kc_wait_t *w = &s.wait[0];

    kc_store_relaxed(&j->task.worker, kc__worker());
    j->task.co = &s.co[1];
    s.started = begins(j);
    if (s.started && waits && !kc__job_stopped(j)) {
        kc__wait_begin_firm(w, KC_WAIT_SLEEP, NULL);
        j->task.wait = w;
        kc_store_relaxed(&j->task.kind, KC_WAIT_SLEEP);
        while (!s.stopped) {
            model_wait_until(!kc__mpsc_empty(&kc__worker()->inbox));
            read_inbox();
        }
        kc_store_relaxed(&j->task.kind, KC_WAIT_NONE);
    }
    kc__job_release(j, s.started ? KC_WORD_BODY : 0);
    read_until_done(j);
    kc__job_unref(j);
}

static bool shields_at_once; /* wrong: does not look at the lock */

static int shield_begin(kc_job_t *j)
{
    if (!shields_at_once)
        return kc_shield_begin();
    uint64_t seen = kc__job_word(j);
    while (!(seen & KC_WORD_CANCELLED) &&
           !kc_cas_relaxed(&j->task.word, &seen, seen | KC_WORD_SHIELDED))
        ;
    if (seen & KC_WORD_CANCELLED)
        return -ECANCELED;
    j->shields = 1;
    return 0;
}

static void shields(int job)
{
    kc_job_t *j = &s.job[job];

    s.shielded = shield_begin(j) == 0;
    if (!s.shielded) {
        model_assert(kc_cancelled());
        return;
    }
    model_assert(!kc_cancelled() && !kc__job_stopped(&s.job[CHILD]));
    model_assert(!kc_cancelled());
    kc_shield_end();
    uint64_t word = kc__job_word(j);
    model_assert(!(word & KC_WORD_CANCELLED) == !(word & KC_WORD_STOP));
}

/* Its code is set already. */
static void child_fails(int job)
{
    kc__job_release(&s.job[job], 0);
}

/* The body of the parent: when it has seen its child's end it is cancelled. */
static void joins_who_fails(int i)
{
    kc_job_t *j = &s.job[PARENT], *child = &s.job[CHILD];
    kc_wait_t *w = &s.wait[i];

    kc__wait_begin_firm(w, KC_WAIT_JOIN, child);
    if (enqueue(child, w))
        kc__wait_commit(w, KC_FOREVER);
    model_assert(kc_job_state(child) == KC_JOB_FAILED && kc__job_result(child) == CODE);
    model_assert(is_marked(j));
    kc__job_unref(child);
    kc__job_release(j, KC_WORD_BODY);
    read_until_done(j);
}

/* ---- the models ---------------------------------------------------------------------------- */

static void reset_end(void)
{
    reset_family(2, 1);
    kc__wait_begin_firm(&s.wait[0], KC_WAIT_JOIN, &s.job[PARENT]);
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
        kc__job_hold(&s.job[PARENT]);
    kc__job_release(&s.job[PARENT], KC_WORD_BODY);
}

static void reset_late(void)
{
    reset_family(0, 1);
    kc__job_new(&sched, 0, false);
}

/* The body of the parent is the second thread. */
static void reset_publish(void)
{
    reset();
    add(ROOT, 1);
    add_fresh();
}

static void reset_deep(void)
{
    reset();
    add(ROOT, 2);
    add(PARENT, 1);
    add_fresh();
}

static void reset_both(void)
{
    reset();
    for (int i = ROOT; i < SECOND; i++)
        kc__job_change(add(i, 2), 0, KC_WORD_BODY | KC_WORD_STARTED);
    s.attached = true;
}

/* Not started; the first thread has submitted it. */
static void reset_notice(void)
{
    reset();
    kc_job_t *j = add(ROOT, 1);
    kc__job_change(j, 0, KC_WORD_BODY | KC_WORD_STARTED);
    kc_store_relaxed(&j->task.worker, &worker[0]);
    j->task.co = NULL;
    kc__job_ref(j);
    kc__job_ref(j);
}

static void reset_shield(void)
{
    reset();
    kc_job_t *j = add(ROOT, 1);
    kc_store_relaxed(&s.co[1].block.flags, KC_CORO_TASK);
    add(PARENT, 2);
    kc__job_ref(j);
}

/* The bodies have ended, but that of the child is still counted, and has failed. */
static void reset_fail(void)
{
    reset();
    kc_job_t *j = add(ROOT, 0);
    kc_job_t *child = add(PARENT, 1);
    kc__job_change(child, 0, KC_WORD_BODY);
    child->code = CODE;
    kc__job_ref(j);
    kc__job_ref(j);
    kc__job_release(j, KC_WORD_BODY);
}

/* That of the child alone has ended, and has failed. */
static void reset_blame(void)
{
    reset();
    kc_job_t *j = add(ROOT, 0);
    kc_job_t *child = add(PARENT, 1);
    kc__job_change(child, 0, KC_WORD_BODY);
    child->code = CODE;
    kc__job_ref(child);
    kc__job_ref(j);
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
    kc__job_release(j, KC_WORD_BODY);
    check_gone();
}

/* The child came in time and was told, or did not come. */
static void check_attach(void)
{
    kc_job_t *above = &s.job[s.made - 2], *last = &s.job[s.made - 1];

    model_assert(is_marked(above) && s.first == 1 && s.terminated[PARENT] == 1);
    model_assert(s.attached ? is_marked(last) && last->reason == REASON && last->parent == above
                            : !above->children && !is_marked(last));
    model_assert((above->task.word & KC_WORD_LOCK) == 0);
}

static void check_both(void)
{
    check_attach();
    for (int i = PARENT; i < s.made; i++)
        model_assert(s.terminated[i] == 1);
}

/* Whoever has cancelled it: it has ended, and its notice was read. */
static void check_notice(void)
{
    check_gone();
    model_assert(s.sent == s.told && s.sent <= 1);
    model_assert(s.started || (s.first == 1 && s.sent == 0));
    model_assert(s.terminated[PARENT] == s.first);
}

static void check_wait(void)
{
    check_notice();
    model_assert(s.first == 1);
}

static void check_shield(void)
{
    kc_job_t *j = &s.job[PARENT];

    model_assert(s.first == 1 && is_marked(j) && is_marked(&s.job[CHILD]));
    model_assert(s.terminated[PARENT] == 1 && s.terminated[CHILD] == 1);
    model_assert(!(j->task.word & KC_WORD_SHIELDED) && j->reason == REASON);
    enters(1);
    read_inbox();
    model_assert((j->task.word & (KC_WORD_COUNT | KC_WORD_NOTICED)) == 2);
}

static void check_fail(void)
{
    kc_job_t *j = &s.job[PARENT];

    enters(0);
    model_assert(kc_job_state(j) == KC_JOB_FAILED && kc__job_result(j) == CODE);
    model_assert(j->reason == (s.first ? REASON : CODE) && s.terminated[PARENT] == 1);
    kc__job_unref(j);
    check_gone();
    model_assert(s.sent == 0);
}

static void check_blame(void)
{
    kc_job_t *j = &s.job[PARENT];

    enters(0);
    model_assert(kc_job_state(j) == KC_JOB_FAILED && kc__job_result(j) == CODE);
    kc__job_unref(j);
    check_gone();
    model_assert(s.sent == s.told && s.terminated[PARENT] == 1);
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
static const struct model heir = {
    "heir", reset_join, check_gone, 2, { { "body", body_leaves, 0 }, { "other", joins, 1 } }
};
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
static const struct model publish = { "publish",
                                      reset_publish,
                                      check_attach,
                                      2,
                                      { { "other", cancels_all, PARENT },
                                        { "body", attaches, PARENT } } };
static const struct model deep = { "deep",
                                   reset_deep,
                                   check_attach,
                                   2,
                                   { { "other", cancels_all, PARENT },
                                     { "body", attaches, CHILD } } };
static const struct model both = { "both",
                                   reset_both,
                                   check_both,
                                   2,
                                   { { "one", cancels_all, PARENT },
                                     { "other", cancels_all, CHILD } } };
static const struct model notice = {
    "notice", reset_notice, check_wait, 2, { { "other", cancels, PARENT }, { "body", starts, 1 } }
};
static const struct model race = {
    "race", reset_notice, check_notice, 2, { { "other", cancels, PARENT }, { "body", starts, 0 } }
};
static const struct model shield = { "shield",
                                     reset_shield,
                                     check_shield,
                                     2,
                                     { { "other", cancels, PARENT },
                                       { "body", shields, PARENT } } };
static const struct model fail = { "fail",
                                   reset_fail,
                                   check_fail,
                                   2,
                                   { { "other", cancels, PARENT },
                                     { "child", child_fails, CHILD } } };

static const struct model blames = { "blame",
                                     reset_blame,
                                     check_blame,
                                     2,
                                     { { "body", joins_who_fails, 0 },
                                       { "child", child_fails, CHILD } } };

const struct model_file model_file = { .enters = enters, .slow = true };

TEST(the_last_of_three_ends_it_once)
{
    passes(&end, 2);
}

TEST(who_sees_it_terminal_sees_what_was_written)
{
    passes(&poll, 3);
}

TEST(who_joins_is_woken_once_or_sees_the_end)
{
    passes(&join, 4);
}

TEST(who_joins_a_body_that_leaves_is_woken_once)
{
    passes(&heir, 3);
}

TEST(who_joins_for_a_time_is_claimed_once)
{
    passes(&brief, 4);
}

TEST(two_may_wait_and_leave_at_once)
{
    passes(&queue, 4);
}

TEST(who_drains_is_woken_once)
{
    passes(&drain, 2);
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

TEST(a_child_is_refused_or_told)
{
    passes(&publish, 6);
}

TEST(a_grandchild_is_refused_or_told)
{
    passes(&deep, 5);
}

TEST(each_first_cancel_returns_when_all_is_marked)
{
    passes(&both, 1);
}

TEST(a_body_never_starts_or_reads_its_notice)
{
    passes(&notice, 3);
}

TEST(a_job_does_not_end_before_its_notice_is_read)
{
    passes(&race, 3);
}

TEST(a_cancel_takes_effect_at_once_or_when_the_shield_ends)
{
    passes(&shield, 3);
}

TEST(a_failure_counts_more_than_a_cancel)
{
    passes(&fail, 2);
}

TEST(who_has_joined_a_child_that_fails_finds_itself_cancelled)
{
    passes(&blames, 2);
}

TEST(control_j1_relaxed_lets_two_into_the_queue)
{
    needs(&queue, "J1", MODEL_RELAXED, "data race: other reads waiters, written by one");
}

TEST(control_j1_torn_gives_the_lock_to_two)
{
    needs(&queue, "J1", MODEL_TORN, "data race: other reads waiters, written by one");
    needs(&publish, "J1", MODEL_TORN, "not true: is_marked(above)");
    needs(&late, "J1", MODEL_TORN, "not true: word == KC_WORD_DONE");
    needs(&fail, "J1", MODEL_TORN, "not true: s.terminated[j - s.job] == 1");
}

TEST(control_j2_relaxed_hides_the_queue)
{
    needs(&queue, "J2", MODEL_RELAXED, "data race: other reads waiters, written by one");
}

TEST(control_j1_relaxed_hides_what_was_written)
{
    needs(&end, "J1", MODEL_RELAXED, "data race: body reads data, written by child");
    needs(&drain, "J1", MODEL_RELAXED, "deadlock: nobody wakes body");
}

TEST(control_j1_torn_ends_it_never)
{
    needs(&end, "J1", MODEL_TORN, "deadlock: nobody wakes body");
    needs(&poll, "J1", MODEL_TORN, "deadlock: nobody wakes body");
    needs(&heir, "J1", MODEL_TORN, "deadlock: nobody wakes other");
}

TEST(control_j1_torn_holds_what_has_ended_and_drains_for_ever)
{
    needs(&hold, "J1", MODEL_TORN, "not true: word == KC_WORD_DONE");
    needs(&drain, "J1", MODEL_TORN, "deadlock: nobody wakes body");
}

TEST(control_j5_relaxed_hides_what_was_written)
{
    needs(&poll, "J5", MODEL_RELAXED, "data race: body reads data, written by child");
    needs(&drain, "J5", MODEL_RELAXED, "data race: body reads data, written by");
}

TEST(control_j6_weaker_frees_too_early_or_never)
{
    needs(&poll, "J6", MODEL_RELAXED, "data race: body frees refs, used by child");
    needs(&poll, "J6", MODEL_TORN, "not true: s.freed[i] == 1");
}

TEST(control_j1_torn_loses_a_change_of_the_word)
{
    needs(&race, "J1", MODEL_TORN, "not true: word == KC_WORD_DONE");
    needs(&shield, "J1", MODEL_TORN, "not true: !kc_cancelled()");
}

TEST(control_j1_relaxed_tells_the_body_on_a_wrong_thread)
{
    needs(&notice, "J1", MODEL_RELAXED, "not true: w->worker == kc__worker()");
}

TEST(control_j1_torn_starts_what_was_cancelled)
{
    needs(&notice, "J1", MODEL_TORN, "deadlock: nobody wakes body");
}

TEST(control_a_child_that_looks_before_it_has_the_lock)
{
    links_late = true;
    catches(&publish, "links_late", "not true: s.attached");
}

TEST(control_a_notice_that_is_counted_after_the_mark)
{
    tells_in_two_steps = true;
    catches(&race, "tells_in_two_steps", "deadlock: nobody wakes body");
}

TEST(control_a_shield_that_does_not_look_at_the_lock)
{
    shields_at_once = true;
    catches(&shield, "shields_at_once", "not true: !kc_cancelled()");
}

TEST(control_a_parent_that_hears_late_of_a_failure)
{
    blames_late = true;
    catches(&blames, "blames_late", "not true: is_marked(j)");
}

TEST(control_a_lease_that_looks_first)
{
    leases_look_first = true;
    catches(&lease, "leases_look_first", "not true: s.sent == 1");
}
