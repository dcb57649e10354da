/* SPDX-License-Identifier: MIT */
/*
 * cancel_model.c - src/job/cancel.c under the model checker: a cancel against all that a job does.
 *
 * WHAT     The world is that of job_model.c.
 *
 * SHAPE    publish  a child comes while its parent is cancelled
 *          deep     the same, and the grandparent is cancelled
 *          both     two levels are cancelled at once: a first cancel returns when all is told
 *          message  a body starts, waits and ends on its thread while another cancels it
 *          race     the same, but the body does not wait
 *          shield   a body opens and closes a shield while another thread cancels it
 *          own      a job and its child, which waits on the thread that cancels, are cancelled
 *          mine     the same, but the child starts meanwhile, on the other thread
 *          fail     a child fails while its parent is cancelled
 *          blame    a child fails while the body of its parent joins it, and looks at itself then
 *          rest     of two children that are not to be resumed one ends where it is, while another
 *                   thread joins it, cancels it, or holds it open
 *          shut     the scheduler ends while a job is cancelled whose child forbids that
 *          late     the grace of a job is over while it is cancelled, and its child has a shield
 *
 * ORDER    word.1 to word.3, cancel.1, cancel_walk.1 and .2, the rest in job_model_world.c.
 *
 * CONTROLS As in job_model.c.
 */
#include "job/word.h"

static bool tells_once; /* wrong: who was told of the cancel is not told that the grace is over */
static const uint64_t late_bit = KC_WORD_LATE;

#undef KC_WORD_LATE
#define KC_WORD_LATE (tells_once ? 0 : late_bit)
#include "job_model_world.c" /* NOLINT(bugprone-suspicious-include): a part of this file */

/* ---- parts of threads ---------------------------------------------------------------------- */

static bool is_marked(kc_job_t *j)
{
    uint64_t all = KC_WORD_CANCELLED | KC_WORD_STOP | KC_WORD_HALT;

    return (kc__job_word(j) & all) == all;
}

/* As in body.c. */
static bool begins(kc_job_t *j)
{
    uint64_t seen = kc__word_seen(&j->task);

    do
        if (seen & KC_WORD_STOP)
            return false;
    while (!kc__word_swap(&j->task, &seen, seen | KC_WORD_BODY | KC_WORD_STARTED));
    return true;
}

/* One more, which is not in the tree. */
static void add_fresh(void)
{
    job_new(0);
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
    kc__children_add(parent, j);
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

static void cancels_one(int job)
{
    kc__job_cancel(&s.job[job], REASON, KC_BY_USER);
}

static bool shuts_late; /* wrong: says that the scheduler ends when all were told */

static void shuts(int job)
{
    if (!shuts_late)
        kc_store_relaxed(&sched.shutting, 1);
    kc__job_cancel(&s.job[job], -ESHUTDOWN, KC_BY_SHUTDOWN);
    if (shuts_late)
        kc_store_relaxed(&sched.shutting, 1);
}

static void rings(int job)
{
    kc__job_cancel(&s.job[job], 0, KC_BY_GRACE);
}

static bool tells_in_two_steps; /* wrong: the count rises for the message after the mark */

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
        kc__job_signal_terminate(j);
        kc__job_unlock_to(j, was | stops);
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
    if (s.started && waits && !kc__job_is_stopped(j)) {
        kc__wait_begin_uncancellable(w, KC_WAIT_SLEEP, NULL);
        j->task.wait = w;
        kc_store_relaxed(&j->task.kind, KC_WAIT_SLEEP);
        while (!s.stopped) {
            model_wait_until(!kc__mpsc_is_empty(&kc__worker()->inbox));
            read_inbox();
        }
        kc_store_relaxed(&j->task.kind, KC_WAIT_NONE);
    }
    kc__job_count_down(j, s.started ? KC_WORD_BODY : 0);
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
    model_assert(!kc_cancelled() && !kc__job_is_stopped(&s.job[CHILD]));
    model_assert(!kc_cancelled());
    kc_shield_end();
    uint64_t word = kc__job_word(j);
    model_assert(!(word & KC_WORD_CANCELLED) == !(word & KC_WORD_STOP));
}

/* Of a family whose child waits on this thread, all is cancelled, and all is told. */
static void cancels_own(int job)
{
    s.first += kc__job_cancel(&s.job[job], REASON, KC_BY_USER);
    model_assert(is_marked(&s.job[PARENT]) && is_marked(&s.job[CHILD]));
}

/* The child is cancelled from elsewhere, by another reason. */
static void cancels_child(int job)
{
    kc__job_cancel(&s.job[job], CODE, KC_BY_USER);
    model_assert(is_marked(&s.job[job]));
}

/* The child starts on this thread, unless it is cancelled before. */
static void child_starts(int job)
{
    kc_job_t *j = &s.job[job];

    kc_store_relaxed(&j->task.worker, kc__worker());
    j->task.co = &s.co[1];
    s.started = begins(j);
}

/* Its code is set already. */
static void child_fails(int job)
{
    kc__job_count_down(&s.job[job], 0);
}

/* The body of the parent: when it has seen its child's end it is cancelled. */
static void joins_who_fails(int i)
{
    kc_job_t *j = &s.job[PARENT], *child = &s.job[CHILD];
    kc_wait_t *w = &s.wait[i];

    kc__wait_begin_uncancellable(w, KC_WAIT_JOIN, child);
    if (enqueue(child, w))
        kc__wait_commit(w, KC_FOREVER);
    model_assert(kc_job_state(child) == KC_JOB_FAILED && kc__job_result(child) == CODE);
    model_assert(is_marked(j));
    kc__job_unref(child);
    kc__job_count_down(j, KC_WORD_BODY);
    read_until_done(j);
}

/* Of two children that wait here the first that is met and not looked at ends at once. If that is
 * not the second, its body, which is told, goes on, and ends it. */
static void cancels_those_at_rest(int job)
{
    kc_job_t *j = &s.job[SECOND];

    kc__job_cancel(&s.job[job], REASON, KC_BY_USER);
    for (int i = PARENT; i <= SECOND; i++)
        model_assert(s.reaped[i - PARENT] || is_marked(&s.job[i]));
    if (!s.reaped[SECOND - PARENT]) {
        read_inbox();
        kc__job_count_down(j, KC_WORD_BODY);
        read_until_done(j);
    }
    kc__job_unref(j);
}

static void joins_one_at_rest(int i)
{
    kc_job_t *j = &s.job[SECOND];
    kc_wait_t *w = &s.wait[i];

    kc__wait_begin_uncancellable(w, KC_WAIT_JOIN, j);
    if (enqueue(j, w))
        kc__wait_commit(w, KC_FOREVER);
    model_assert(kc_job_state(j) == KC_JOB_CANCELLED && kc__job_result(j) == REASON);
    kc__job_unref(j);
}

static void cancels_one_at_rest(int job)
{
    kc__job_cancel(&s.job[job], CODE, KC_BY_USER);
    kc__job_unref(&s.job[job]);
}

static void holds_one_at_rest(int job)
{
    kc_job_t *j = &s.job[job];

    if (kc__job_count_up(j)) {
        model_assert(!is_done(j));
        kc__job_count_down(j, 0);
    }
    kc__job_unref(j);
}

/* ---- the models ---------------------------------------------------------------------------- */

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

/* The last one forbids that it be cancelled. */
static void reset_shut(void)
{
    reset();
    for (int i = ROOT; i < CHILD; i++)
        kc__job_change(add(i, 2), 0, KC_WORD_BODY | KC_WORD_STARTED);
    kc__job_change(&s.job[CHILD], KC_WORD_FORBID, 0);
    model_name(&sched.shutting, "shutting");
}

/* The one in the middle has a shield. */
static void reset_late(void)
{
    reset_both();
    kc__job_change(&s.job[CHILD], KC_WORD_SHIELDED, 0);
    s.job[CHILD].shields = 1;
}

/* Not started; the first thread has submitted it. */
static void reset_message(void)
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

/* The child waits on the first thread. */
static void reset_own(void)
{
    reset();
    add(ROOT, 0);
    kc_job_t *child = add(PARENT, 0);
    kc__wait_begin_uncancellable(&s.wait[0], KC_WAIT_SLEEP, NULL);
    child->task.wait = &s.wait[0];
    kc_store_relaxed(&child->task.kind, KC_WAIT_SLEEP);
}

/* The child has not started; the first thread has submitted it. */
static void reset_mine(void)
{
    reset();
    add(ROOT, 0);
    kc_job_t *child = add(PARENT, 0);
    kc__job_change(child, 0, KC_WORD_BODY | KC_WORD_STARTED);
    kc_store_relaxed(&s.co[1].state, KCORO_SUSPENDED);
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
    kc__job_count_down(j, KC_WORD_BODY);
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

/* Both wait on the first thread, whose body is the parent's; both threads have a handle of the
 * second. */
static void reset_rest(void)
{
    reset();
    add(ROOT, 0);
    for (int i = 1; i <= 2; i++) {
        kc_job_t *j = add(PARENT, i);
        j->task.block.flags = KC_JOB_UNWIND;
        kc_store_relaxed(&j->task.worker, &worker[0]);
        j->task.wait = &s.wait[i];
        s.wait[i].worker = &worker[0];
        kc_store_relaxed(&j->task.kind, KC_WAIT_FOREVER);
        kc_store_relaxed(&s.co[i].claim, KC_CLAIM_OPEN);
        kc_store_relaxed(&s.co[i].state, KCORO_SUSPENDED);
    }
    kc__job_ref(&s.job[SECOND]);
    kc__job_ref(&s.job[SECOND]);
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

static void check_own(void)
{
    kc_job_t *child = &s.job[CHILD];

    model_assert(is_marked(&s.job[PARENT]) && is_marked(child) && s.first == 1);
    model_assert(child->reason == REASON || child->reason == CODE);
    enters(0);
    read_inbox();
    model_assert(s.stopped && s.sent == s.told);
    model_assert((child->task.word & (KC_WORD_COUNT | KC_WORD_MESSAGED | KC_WORD_LOCK)) == 1);
}

/* If it has started before it was told, its thread has a message; that it yielded is told there. */
static void check_mine(void)
{
    kc_job_t *child = &s.job[CHILD];

    model_assert(is_marked(&s.job[PARENT]) && is_marked(child) && child->reason == REASON);
    model_assert(s.sent == s.started);
    enters(1);
    read_inbox();
    model_assert((child->task.word & (KC_WORD_COUNT | KC_WORD_MESSAGED | KC_WORD_LOCK)) == 1);
}

/* The second is gone, in one way; the first if it was the one to end at once. The parent counts its
 * body, and who is left. */
static void check_rest(void)
{
    const kc_job_t *parent = &s.job[PARENT];
    bool left = !s.reaped[CHILD - PARENT];

    model_assert((parent->task.word & (KC_WORD_COUNT | KC_WORD_LOCK)) == 1u + left);
    model_assert(parent->children == (left ? &s.job[CHILD] : NULL));
    model_assert(s.freed[SECOND] == 1 && s.freed[CHILD] == !left && s.sent == s.told);
    model_assert(s.reaped[1] + s.reaped[2] <= 1 && s.woken[0] == s.claimed[0]);
}

static void check_both(void)
{
    check_attach();
    for (int i = PARENT; i < s.made; i++)
        model_assert(s.terminated[i] == 1);
}

static void check_shut(void)
{
    model_assert(is_marked(&s.job[PARENT]) && is_marked(&s.job[CHILD]));
    model_assert(s.terminated[PARENT] == 1 && s.terminated[CHILD] == 1);
    model_assert(s.job[CHILD].reason == -ESHUTDOWN);
}

static void check_late(void)
{
    for (int i = PARENT; i < s.made; i++) {
        model_assert(s.job[i].task.word & KC_WORD_GRACE_OVER);
        model_assert(is_marked(&s.job[i]) && s.terminated[i] == 1);
    }
}

/* Whoever has cancelled it: it has ended, and its message was read. */
static void check_message(void)
{
    check_gone();
    model_assert(s.sent == s.told && s.sent <= 1);
    model_assert(s.started || (s.first == 1 && s.sent == 0));
    model_assert(s.terminated[PARENT] == s.first);
}

static void check_wait(void)
{
    check_message();
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
    model_assert((j->task.word & (KC_WORD_COUNT | KC_WORD_MESSAGED)) == 2);
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
static const struct model message = { "message",
                                      reset_message,
                                      check_wait,
                                      2,
                                      { { "other", cancels, PARENT }, { "body", starts, 1 } } };
static const struct model race = { "race",
                                   reset_message,
                                   check_message,
                                   2,
                                   { { "other", cancels, PARENT }, { "body", starts, 0 } } };
static const struct model shield = { "shield",
                                     reset_shield,
                                     check_shield,
                                     2,
                                     { { "other", cancels, PARENT },
                                       { "body", shields, PARENT } } };
static const struct model own = { "own",
                                  reset_own,
                                  check_own,
                                  2,
                                  { { "one", cancels_own, PARENT },
                                    { "other", cancels_child, CHILD } } };
static const struct model mine = { "mine",
                                   reset_mine,
                                   check_mine,
                                   2,
                                   { { "one", cancels_own, PARENT },
                                     { "other", child_starts, CHILD } } };
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

static const struct model rest_joined = { "rest, joined",
                                          reset_rest,
                                          check_rest,
                                          2,
                                          { { "one", cancels_those_at_rest, PARENT },
                                            { "other", joins_one_at_rest, 0 } } };
static const struct model rest_cancelled = { "rest, cancelled",
                                             reset_rest,
                                             check_rest,
                                             2,
                                             { { "one", cancels_those_at_rest, PARENT },
                                               { "other", cancels_one_at_rest, SECOND } } };
static const struct model rest_held = { "rest, held",
                                        reset_rest,
                                        check_rest,
                                        2,
                                        { { "one", cancels_those_at_rest, PARENT },
                                          { "other", holds_one_at_rest, SECOND } } };

static const struct model shut = { "shut",
                                   reset_shut,
                                   check_shut,
                                   2,
                                   { { "other", cancels_one, PARENT }, { "main", shuts, ROOT } } };

static const struct model late = { "late",
                                   reset_late,
                                   check_late,
                                   2,
                                   { { "other", cancels_one, PARENT },
                                     { "clock", rings, PARENT } } };

const struct model_file model_file = { .enters = enters, .slow = true };

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
    passes(&both, 3);
}

TEST(a_body_never_starts_or_reads_its_message)
{
    passes(&message, 3);
}

TEST(a_job_does_not_end_before_its_message_is_read)
{
    passes(&race, 3);
}

TEST(a_cancel_takes_effect_at_once_or_when_the_shield_ends)
{
    passes(&shield, 3);
}

TEST(a_child_that_waits_on_this_thread_is_told_once)
{
    passes(&own, 3);
}

TEST(a_child_that_starts_elsewhere_is_told_by_a_message)
{
    passes(&mine, 3);
}

TEST(a_failure_counts_more_than_a_cancel)
{
    passes(&fail, 3);
}

TEST(a_parent_that_has_joined_a_failed_child_finds_itself_cancelled)
{
    passes(&blames, 3);
}

TEST(a_job_that_ends_at_rest_ends_once_for_its_joiner)
{
    passes(&rest_joined, 3);
}

TEST(a_job_that_ends_at_rest_ends_once_though_another_thread_cancels_it)
{
    passes(&rest_cancelled, 3);
}

TEST(a_job_that_is_held_open_does_not_end_at_rest)
{
    passes(&rest_held, 3);
}

TEST(a_job_that_forbids_signals_is_told_when_the_scheduler_ends)
{
    passes(&shut, 2);
}

TEST(when_the_grace_is_over_all_below_are_told_whatever_they_were_told_before)
{
    passes(&late, 2);
}

TEST(control_word_1_torn_ends_a_job_at_rest_that_another_thread_looks_at)
{
    needs(&rest_joined, "word.1", MODEL_TORN, "deadlock: nobody wakes other");
    needs(&rest_held, "word.1", MODEL_TORN, "deadlock: nobody wakes one");
}

TEST(control_word_1_torn_gives_the_lock_to_two)
{
    needs(&publish, "word.1", MODEL_TORN, "not true: is_marked(above)");
    needs(&fail, "word.1", MODEL_TORN, "not true: s.terminated[j - s.job] == 1");
}

TEST(control_word_1_torn_loses_a_change_of_the_word)
{
    needs(&race, "word.1", MODEL_TORN, "not true: word == KC_WORD_DONE");
    needs(&shield, "word.1", MODEL_TORN, "not true: !kc_cancelled()");
}

TEST(control_word_1_relaxed_tells_the_body_on_a_wrong_thread)
{
    needs(&message, "word.1", MODEL_RELAXED, "not true: w->worker == kc__worker()");
}

TEST(control_word_1_torn_starts_what_was_cancelled)
{
    needs(&message, "word.1", MODEL_TORN, "deadlock: nobody wakes body");
}

TEST(control_cancel_walk_1_relaxed_takes_a_body_for_its_own)
{
    needs(&mine, "cancel_walk.1", MODEL_RELAXED, "not true: s.sent == s.started");
}

TEST(control_a_child_that_looks_before_it_has_the_lock)
{
    links_late = true;
    catches(&publish, "links_late", "not true: s.attached");
}

TEST(control_a_message_that_is_counted_after_the_mark)
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

TEST(control_a_job_that_was_told_of_the_cancel_is_not_told_again)
{
    tells_once = true;
    catches(&late, "tells_once", "not true: s.job[i].task.word & KC_WORD_GRACE_OVER");
}

TEST(control_an_end_that_is_said_when_all_were_told)
{
    shuts_late = true;
    catches(&shut, "shuts_late",
            "not true: is_marked(&s.job[PARENT]) && is_marked(&s.job[CHILD])");
}
