/* SPDX-License-Identifier: MIT */
/*
 * wait_queue_model.c - src/sync/wait_queue.h, mutex.c, rwlock.c and sync.c under the model checker.
 *
 * WHAT     Locks and meeting points are the real code, included as it is, so that a pause in a loop
 *          can be model_spin. Waits are the model's own: a word that one claims, and a thread that
 *          looks until it is woken. A wait with a deadline tries to claim itself, whenever it
 *          comes to it: so its time is over at any moment. The ring of those in line is plain data,
 *          and so is what a lock guards: two who are inside at a time are a data race. Objects are
 *          freed as soon as a wait has returned: a later use is a failure (Y4).
 *
 * SHAPE    count    threads lock, count and unlock
 *          pass     one unlocks; another one waits for that
 *          timed    the same, but the time of the wait is over at any moment
 *          overtake one unlocks, one waits, a third one tries
 *          leave    one unlocks, one is in line; a third one comes and goes
 *          last     who is the last of two to have the lock frees it
 *          signal   one sets a flag and signals; who has waited for it frees mutex and condition
 *          give_up  the same for a time: comes back with the mutex, in line no more
 *          permit   one permit; one is in line, another comes and goes: what it takes it gives back
 *          sem, latch, event
 *                   who has waited frees it
 *          arrive   one has arrived at a latch, and frees it when the last one has
 *          gone     one reads; who waits to write frees the lock afterwards
 *          late     two wait for an event, one for a time; it is reset at once
 *          once     two come: one calls the function, both see what it did
 *          readers  one reads, one writes
 *          writer   one reads; one waits to write, for a time, another one to read behind it
 *          barrier  two meet at a barrier, each for a time
 *
 * ORDER    wait_queue.1 to wait_queue.4, the rest in wait_queue_model_world.c.
 *
 * CONTROLS Ids are weakened, and wrong ways stand in for the right ones; the models must fail then.
 *          MODEL_TRACE=1 shows how.
 */
#include "wait_queue_model_world.c" /* NOLINT(bugprone-suspicious-include): a part of this file */

/* ---- the threads of the models: mutex and condition ----------------------------------------- */

static void enters(int i)
{
    kc__thread_self = &s.thread[i];
}

static void touch(void)
{
    model_write(&s.data, model_read(&s.data) + 1);
}

static void must(int rc)
{
    model_assert(rc == 0);
}

static void counts(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        must(kc_mutex_lock(&s.mutex));
        touch();
        kc_mutex_unlock(&s.mutex);
    }
}

/* It has the lock at the start. */
static void unlocks(int arg)
{
    (void)arg;
    touch();
    kc_mutex_unlock(&s.mutex);
}

static void counts_for_a_time(int arg)
{
    int rc = kc_mutex_lock_until(&s.mutex, NOW);

    (void)arg;
    model_assert(rc == 0 || rc == -ETIMEDOUT);
    if (rc == 0) {
        touch();
        s.passed++;
        kc_mutex_unlock(&s.mutex);
    }
}

/* Stands in line from the start. */
static void has_waited(int arg)
{
    (void)arg;
    must(kc__wait_commit(&s.first.wait, KC_FOREVER));
    touch();
    kc_mutex_unlock(&s.mutex);
}

static void comes_later(int arg)
{
    (void)arg;
    if (!kc_mutex_trylock(&s.mutex))
        return;
    touch();
    s.passed++;
    kc_mutex_unlock(&s.mutex);
}

static void frees_if_last(int arg)
{
    (void)arg;
    must(kc_mutex_lock(&s.mutex));
    touch();
    bool last = --s.users == 0;
    kc_mutex_unlock(&s.mutex);
    if (last)
        model_free(&s.mutex, sizeof s.mutex);
}

static void signals(int all)
{
    must(kc_mutex_lock(&s.mutex));
    model_write(&s.data, 1);
    if (all)
        kc_cond_broadcast(&s.cond);
    else
        kc_cond_signal(&s.cond);
    kc_mutex_unlock(&s.mutex);
}

static void waits_for_the_flag(int arg)
{
    (void)arg;
    must(kc_mutex_lock(&s.mutex));
    while (model_read(&s.data) == 0)
        must(kc_cond_wait(&s.cond, &s.mutex));
    kc_mutex_unlock(&s.mutex);
    model_free(&s.mutex, sizeof s.mutex);
    model_free(&s.cond, sizeof s.cond);
}

static void waits_for_the_flag_a_time(int arg)
{
    (void)arg;
    must(kc_mutex_lock(&s.mutex));
    if (model_read(&s.data) == 0) {
        int rc = kc_cond_wait_until(&s.cond, &s.mutex, NOW);
        model_assert(rc == -ETIMEDOUT || (rc == 0 && model_read(&s.data) == 1));
        model_assert(kc__mutex_owner(&s.mutex) == (uintptr_t)kc__thread()->current);
    }
    kc_mutex_unlock(&s.mutex);
}

/* ---- the threads of the models: what has no owner ------------------------------------------- */

static void gives_a_permit(int arg)
{
    (void)arg;
    touch();
    kc_sem_release(&s.sem, 1);
}

static void takes_a_permit(int arg)
{
    (void)arg;
    must(kc_sem_acquire(&s.sem));
    model_assert(model_read(&s.data) >= 1);
    if (s.frees)
        model_free(&s.sem, sizeof s.sem);
    s.passed++;
}

/* Stands in line from the start. */
static void has_waited_for_a_permit(int arg)
{
    (void)arg;
    must(kc__wait_commit(&s.first.wait, KC_FOREVER));
    model_assert(model_read(&s.data) >= 1);
    s.passed++;
}

/* What it takes it gives back, what it does not take it leaves. */
static void borrows_a_permit(int arg)
{
    (void)arg;
    if (kc_sem_acquire_until(&s.sem, NOW) != 0)
        return;
    touch();
    kc_sem_release(&s.sem, 1);
}

static void counts_down(int i)
{
    if (i == 0)
        touch();
    kc_latch_count_down(&s.latch);
}

static void waits_for_the_latch(int arg)
{
    (void)arg;
    must(kc_latch_wait(&s.latch));
    model_assert(model_read(&s.data) == 1);
    model_free(&s.latch, sizeof s.latch);
}

/* Stands in line from the start, and has arrived. */
static void has_arrived(int arg)
{
    (void)arg;
    must(kc__wait_commit(&s.first.wait, KC_FOREVER));
    model_assert(model_read(&s.data) == 1);
    model_free(&s.latch, sizeof s.latch);
}

static void arrives_last(int arg)
{
    (void)arg;
    touch();
    must(kc_latch_arrive_and_wait(&s.latch));
}

static bool looks_again; /* wrong: uses the object after it has let others pass */

static void sets(int reset_too)
{
    touch();
    kc_event_set(&s.event);
    if (reset_too)
        kc_event_reset(&s.event);
    if (looks_again)
        (void)kc_event_is_set(&s.event);
}

static void waits_for_the_event(int arg)
{
    (void)arg;
    must(kc_event_wait(&s.event));
    model_assert(model_read(&s.data) == 1);
    if (s.frees)
        model_free(&s.event, sizeof s.event);
}

/* Stands in line from the start. */
static void has_waited_for_the_event(int arg)
{
    (void)arg;
    must(kc__wait_commit(&s.first.wait, KC_FOREVER));
    model_assert(model_read(&s.data) == 1);
}

/* It is in line before the event is set, or too late. */
static void waits_for_the_event_a_time(int arg)
{
    (void)arg;
    int rc = kc_event_wait_until(&s.event, NOW);
    model_assert(rc == -ETIMEDOUT || (rc == 0 && model_read(&s.data) == 1));
}

static void function(void *arg)
{
    (void)arg;
    touch();
    s.calls++;
}

static void comes_once(int arg)
{
    (void)arg;
    kc_once(&s.once, function, NULL);
    model_assert(model_read(&s.data) == 1);
}

/* ---- the threads of the models: readers and writers, barriers ------------------------------- */

static void reads(int arg)
{
    (void)arg;
    must(kc_rwlock_rdlock(&s.rwlock));
    s.passed += model_read(&s.data);
    kc_rwlock_rdunlock(&s.rwlock);
}

static void writes_once(int arg)
{
    (void)arg;
    must(kc_rwlock_wrlock(&s.rwlock));
    touch();
    kc_rwlock_wrunlock(&s.rwlock);
}

static void tries_to_write(int arg)
{
    (void)arg;
    if (!kc_rwlock_trywrlock(&s.rwlock))
        return;
    touch();
    kc_rwlock_wrunlock(&s.rwlock);
}

/* It reads at the start. */
static void read_unlocks(int arg)
{
    (void)arg;
    (void)model_read(&s.data);
    kc_rwlock_rdunlock(&s.rwlock);
}

static void writes_and_frees(int arg)
{
    writes_once(arg);
    model_free(&s.rwlock, sizeof s.rwlock);
}

/* Stands in line to write from the start; its time is over at any moment, as by a cancel. */
static void has_waited_to_write(int arg)
{
    kc_wait_queue_t *l = (kc_wait_queue_t *)&s.rwlock;

    (void)arg;
    if (kc__wait_commit(&s.writer.wait, NOW) != 0) {
        unlock_and_wake(l, kc__wait_queue_leave(l, &s.writer.wait));
        return;
    }
    touch();
    kc_rwlock_wrunlock(&s.rwlock);
}

/* Stands in line behind it, to read. */
static void has_waited_to_read(int arg)
{
    (void)arg;
    must(kc__wait_commit(&s.behind.wait, KC_FOREVER));
    (void)model_read(&s.data);
    kc_rwlock_rdunlock(&s.rwlock);
}

/* As kc_barrier_wait, but for a time. */
static void meets(int for_a_time)
{
    kc_wait_queue_t *l = (kc_wait_queue_t *)&s.barrier;
    meeting_t m = { .met = false };

    kc__wait_begin(&m.wait, KC_WAIT_BARRIER, l);
    uint64_t own = kc__wait_queue_lock(l) + ONE;
    if (own == s.barrier.members * ONE) {
        meet(l);
        s.passed++;
        return;
    }
    int rc = kc__wait_queue_wait(l, own, &m.wait, for_a_time ? NOW : KC_FOREVER);
    if (rc != 0) {
        own = kc__wait_queue_leave(l, &m.wait);
        kc__wait_queue_unlock(l, m.met ? own : own - ONE);
    }
    if (rc == 0 || m.met)
        s.passed++;
    else
        s.gave_up++;
}

/* ---- the models ----------------------------------------------------------------------------- */

static uint64_t self(int i)
{
    return (uintptr_t)&s.co[i];
}

static void reset(void)
{
    memset(&s, 0, sizeof s);
    for (int i = 0; i < THREADS; i++) {
        s.thread[i].serial = (uint32_t)i + 1;
        s.thread[i].current = &s.co[i];
        s.thread[i].main_co = &s.root;
    }
    s.users = 2;
    s.latch = (kc_latch_t)KC_LATCH_INIT(2);
    s.barrier = (kc_barrier_t)KC_BARRIER_INIT(2);
    model_name(&s.data, "data");
    model_name(&s.mutex.word, "mutex");
    model_name(&s.mutex.line, "line");
    model_name(&s.cond.line, "cond line");
    model_name(&s.rwlock.line, "rwlock line");
    model_name(&s.sem.line, "sem line");
    model_name(&s.event.line, "event line");
    model_name(&s.latch.line, "latch line");
    model_name(&s.once.line, "once line");
}

static void reset_taken(void)
{
    reset();
    s.mutex.word = self(0);
}

static void reset_freed(void)
{
    reset();
    s.frees = true;
}

/* As if it had come before: in line, and not woken. */
static void stands_in(void *object, kc_wait_t *w, kc_wait_kind_t kind)
{
    kc_wait_queue_t *l = object;

    kc__wait_begin(w, kind, object);
    kc__wait_link(&l->first, &w->link);
    l->word |= KC_WAIT_QUEUE_WAITS;
}

static void reset_line(void)
{
    reset_taken();
    s.first.owner = self(1);
    stands_in(&s.mutex, &s.first.wait, KC_WAIT_MUTEX);
}

static void reset_permit(void)
{
    reset();
    stands_in(&s.sem, &s.first.wait, KC_WAIT_SEM);
}

static void reset_event(void)
{
    reset();
    stands_in(&s.event, &s.first.wait, KC_WAIT_EVENT);
}

static void reset_arrived(void)
{
    reset();
    s.latch = (kc_latch_t)KC_LATCH_INIT(1);
    stands_in(&s.latch, &s.first.wait, KC_WAIT_LATCH);
}

static void reset_reader(void)
{
    reset();
    s.rwlock.word = ONE_READER;
}

static void reset_read(void)
{
    reset();
    s.rwlock.word = ONE_READER;
    s.writer.owner = self(1);
    stands_in(&s.rwlock, &s.writer.wait, KC_WAIT_WRITE);
    stands_in(&s.rwlock, &s.behind.wait, KC_WAIT_READ);
}

static void check_count(void)
{
    model_assert(s.data == 3);
    model_assert(s.mutex.word == 0 && !s.mutex.line);
}

static void check_pass(void)
{
    model_assert(s.data == 2);
    model_assert(s.mutex.word == 0 && !s.mutex.line);
}

static void check_timed(void)
{
    model_assert(s.data == 1 + s.passed);
    model_assert(s.mutex.word == 0 && !s.mutex.line);
}

static void check_overtake(void)
{
    model_assert(s.data == 2 + s.passed);
    model_assert(s.mutex.word == 0 && !s.mutex.line);
}

static void check_cond(void)
{
    model_assert(s.mutex.word == 0 && !s.mutex.line && s.cond.word == 0 && !s.cond.line);
}

static void check_permit(void)
{
    model_assert(s.passed == 1 && s.sem.word == 0 && !s.sem.line);
}

static void check_latch(void)
{
    model_assert(s.latch.word == 0 && !s.latch.line);
}

static void check_event(void)
{
    model_assert(s.event.word == SET && !s.event.line);
}

static void check_late(void)
{
    model_assert(s.event.word == 0 && !s.event.line);
}

static void check_once(void)
{
    model_assert(s.calls == 1 && s.once.word == DONE && !s.once.line);
}

static void check_rwlock(void)
{
    model_assert(s.rwlock.word == 0 && !s.rwlock.line);
}

/* Both have met, or neither: then the one who did not give up is still to come. */
static void check_meet(void)
{
    model_assert(s.passed == 2 || s.passed == 0);
    model_assert(s.passed + s.gave_up == 2);
    model_assert(s.barrier.word == 0 && !s.barrier.line);
}

static const struct model count = {
    "count", reset, check_count, 2, { { "one", counts, 2 }, { "other", counts, 1 } }
};
static const struct model pass = {
    "pass", reset_taken, check_pass, 2, { { "owner", unlocks, 0 }, { "other", counts, 1 } }
};
static const struct model timed = { "timed",
                                    reset_taken,
                                    check_timed,
                                    2,
                                    { { "owner", unlocks, 0 },
                                      { "other", counts_for_a_time, 0 } } };
static const struct model overtake = {
    "overtake",
    reset_taken,
    check_overtake,
    3,
    { { "owner", unlocks, 0 }, { "other", counts, 1 }, { "third", comes_later, 0 } }
};
static const struct model leave = {
    "leave",
    reset_line,
    check_overtake,
    3,
    { { "owner", unlocks, 0 }, { "other", has_waited, 0 }, { "third", counts_for_a_time, 0 } }
};
static const struct model last = {
    "last", reset, NULL, 2, { { "one", frees_if_last, 0 }, { "other", frees_if_last, 0 } }
};
static const struct model signal = {
    "signal", reset, NULL, 2, { { "one", signals, 0 }, { "other", waits_for_the_flag, 0 } }
};
static const struct model broadcast = {
    "broadcast", reset, NULL, 2, { { "one", signals, 1 }, { "other", waits_for_the_flag, 0 } }
};
static const struct model give_up = { "give_up",
                                      reset,
                                      check_cond,
                                      2,
                                      { { "one", signals, 0 },
                                        { "other", waits_for_the_flag_a_time, 0 } } };
static const struct model permit = { "permit",
                                     reset_permit,
                                     check_permit,
                                     3,
                                     { { "giver", gives_a_permit, 0 },
                                       { "short", borrows_a_permit, 0 },
                                       { "long", has_waited_for_a_permit, 0 } } };
static const struct model sem = {
    "sem", reset_freed, NULL, 2, { { "giver", gives_a_permit, 0 }, { "taker", takes_a_permit, 0 } }
};
static const struct model latch = {
    "latch",
    reset,
    check_latch,
    3,
    { { "one", counts_down, 0 }, { "other", counts_down, 1 }, { "waits", waits_for_the_latch, 0 } }
};
static const struct model arrive = {
    "arrive", reset_arrived, NULL, 2, { { "last", arrives_last, 0 }, { "waits", has_arrived, 0 } }
};
static const struct model gone = { "gone",
                                   reset_reader,
                                   NULL,
                                   2,
                                   { { "reader", read_unlocks, 0 },
                                     { "writer", writes_and_frees, 0 } } };
static const struct model event = { "event",
                                    reset_freed,
                                    check_event,
                                    2,
                                    { { "sets", sets, 0 }, { "waits", waits_for_the_event, 0 } } };
static const struct model late = { "late",
                                   reset_event,
                                   check_late,
                                   3,
                                   { { "sets", sets, 1 },
                                     { "short", waits_for_the_event_a_time, 0 },
                                     { "other", has_waited_for_the_event, 0 } } };
static const struct model once = {
    "once", reset, check_once, 2, { { "one", comes_once, 0 }, { "other", comes_once, 0 } }
};
static const struct model readers = {
    "readers", reset, check_rwlock, 2, { { "reader", reads, 0 }, { "writer", writes_once, 0 } }
};
static const struct model try_write = {
    "try_write", reset, check_rwlock, 2, { { "one", reads, 0 }, { "writer", tries_to_write, 0 } }
};
static const struct model writer = { "writer",
                                     reset_read,
                                     check_rwlock,
                                     3,
                                     { { "reader", read_unlocks, 0 },
                                       { "writer", has_waited_to_write, 0 },
                                       { "second", has_waited_to_read, 0 } } };
static const struct model barrier = {
    "barrier", reset, check_meet, 2, { { "one", meets, 1 }, { "other", meets, 1 } }
};

const struct model_file model_file = { .enters = enters, .slow = true };

TEST(two_threads_own_the_mutex_one_after_the_other)
{
    passes(&count, 3);
}

TEST(a_waiter_gets_the_mutex_from_the_unlocker)
{
    passes(&pass, MODEL_UNBOUNDED);
}

TEST(a_waiter_with_a_deadline_gets_the_mutex_or_leaves_the_queue)
{
    passes(&timed, MODEL_UNBOUNDED);
}

TEST(a_newcomer_takes_the_mutex_only_if_it_is_free)
{
    passes(&overtake, 3);
}

TEST(a_waiter_leaves_the_queue_while_another_gets_the_mutex)
{
    passes(&leave, 3);
}

TEST(the_last_owner_may_free_the_mutex)
{
    passes(&last, 4);
}

TEST(no_signal_is_missed_and_the_waiter_may_free_condition_and_mutex)
{
    passes(&signal, 3);
    passes(&broadcast, 3);
}

TEST(a_condition_for_a_time_comes_back_with_the_mutex)
{
    passes(&give_up, 3);
}

TEST(a_permit_that_one_waiter_does_not_take_goes_to_the_other)
{
    passes(&permit, 3);
}

TEST(a_waiter_may_free_the_semaphore_when_it_returns)
{
    passes(&sem, MODEL_UNBOUNDED);
}

TEST(a_waiter_may_free_the_latch_when_it_returns)
{
    passes(&latch, 3);
}

TEST(a_waiter_that_has_arrived_may_free_the_latch_when_the_last_arrives)
{
    passes(&arrive, MODEL_UNBOUNDED);
}

TEST(a_writer_that_comes_after_the_reader_may_free_the_lock)
{
    passes(&gone, MODEL_UNBOUNDED);
}

TEST(a_waiter_may_free_the_event_when_it_returns)
{
    passes(&event, MODEL_UNBOUNDED);
}

TEST(an_event_reset_at_once_leaves_nobody_in_the_queue)
{
    passes(&late, 3);
}

TEST(one_of_two_calls_of_once_runs_the_function_and_both_see_its_effect)
{
    passes(&once, 4);
}

TEST(nobody_reads_while_another_writes)
{
    passes(&readers, 4);
    passes(&try_write, 4);
}

TEST(a_writer_that_leaves_the_queue_lets_the_reader_behind_it_in)
{
    passes(&writer, 3);
}

TEST(at_a_barrier_both_have_met_or_neither)
{
    passes(&barrier, 4);
}

TEST(control_wait_queue_1_relaxed_lets_two_into_the_queue)
{
    needs(&pass, "wait_queue.1", MODEL_RELAXED, "data race");
    needs(&sem, "wait_queue.1", MODEL_RELAXED, "data race");
}

TEST(control_wait_queue_1_torn_gives_the_lock_to_two)
{
    needs(&count, "wait_queue.1", MODEL_TORN, "deadlock: nobody wakes other");
    needs(&leave, "wait_queue.1", MODEL_TORN, "not true: s.mutex.word == 0");
}

TEST(control_wait_queue_2_relaxed_hides_the_queue)
{
    needs(&pass, "wait_queue.2", MODEL_RELAXED, "data race: owner reads line, written by other");
}

TEST(control_wait_queue_3_relaxed_hides_what_the_last_owner_wrote)
{
    needs(&count, "wait_queue.3", MODEL_RELAXED, "data race");
    needs(&try_write, "wait_queue.3", MODEL_RELAXED, "data race");
    needs(&sem, "wait_queue.3", MODEL_RELAXED, "data race");
}

TEST(control_wait_queue_3_torn_gives_the_mutex_to_two)
{
    needs(&count, "wait_queue.3", MODEL_TORN, "data race: other writes data, written by one");
}

TEST(control_wait_queue_4_relaxed_hides_what_was_done_before_all_may_pass)
{
    needs(&event, "wait_queue.4", MODEL_RELAXED, "data race");
    needs(&once, "wait_queue.4", MODEL_RELAXED, "data race");
    needs(&latch, "wait_queue.4", MODEL_RELAXED, "data race");
}

TEST(control_a_setter_that_looks_again_uses_freed_memory)
{
    looks_again = true;
    catches(&event, "looks_again", "waits frees &s.event, used by sets");
}
