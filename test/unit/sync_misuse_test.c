/* SPDX-License-Identifier: MIT */
/*
 * sync_misuse_test.c - bad use of locks and meeting points: each aborts with a line that names the
 * call and the rule (Y3, Y5, G6).
 */
#include "sync_kit.h"

static kc_mutex_t lock = KC_MUTEX_INIT;
static kc_rwlock_t rwlock = KC_RWLOCK_INIT;
static kc_cond_t cond = KC_COND_INIT;

static void *takes_all(void *arg)
{
    CHECK_EQ(kc_mutex_lock(&lock), 0);
    CHECK_EQ(kc_rwlock_wrlock(&rwlock), 0);
    return arg;
}

static void another_thread_takes_all(void)
{
    pthread_join(thread(takes_all, NULL), NULL);
}

/* ---- who does not own ----------------------------------------------------------------------- */

static int unlocks_what_is_free(void *arg UNUSED)
{
    kc_mutex_unlock(&lock);
    return 0;
}

TEST_ABORTS(unlocking_a_mutex_that_is_free_aborts,
            "kc_mutex_unlock: the caller does not own it (rule Y3,")
{
    run_named(unlocks_what_is_free, NULL);
}

TEST_ABORTS(the_abort_line_of_unlock_names_the_coroutine, "\"careless\"")
{
    run_named(unlocks_what_is_free, "careless");
}

TEST_ABORTS(a_thread_that_unlocks_a_mutex_of_another_aborts,
            "kc_mutex_unlock: the caller does not own it (rule Y3,")
{
    another_thread_takes_all();
    kc_mutex_unlock(&lock);
}

static int takes_the_mutex(void *arg)
{
    CHECK_EQ(kc_mutex_lock(&lock), 0);
    add(arg);
    return kc_sleep(KC_FOREVER);
}

static int unlocks_its_childs(void *arg UNUSED)
{
    count_t n = 0;

    CHECK_EQ(kc_launch(takes_the_mutex, &n), 0);
    UNTIL(get(&n));
    kc_mutex_unlock(&lock);
    return 0;
}

TEST_ABORTS(a_body_that_unlocks_a_mutex_of_another_aborts,
            "kc_mutex_unlock: the caller does not own it (rule Y3,")
{
    run_named(unlocks_its_childs, NULL);
}

static int unlocks_in_a_child(void *arg)
{
    if (arg)
        kc_mutex_unlock(&lock);
    else
        CHECK_EQ(kc_mutex_lock(&lock), 0);
    return arg ? 0 : kc_scope(unlocks_in_a_child, &lock, NULL);
}

/* It is no bad use in a scope, which is a piece of the same body. */
IN_A_JOB(a_scope_may_unlock_what_its_body_has)
{
    CHECK_EQ(unlocks_in_a_child(NULL), 0);
    return 0;
}

static int unlocks_twice(void *arg UNUSED)
{
    CHECK_EQ(kc_mutex_lock(&lock), 0);
    kc_mutex_unlock(&lock);
    kc_mutex_unlock(&lock);
    return 0;
}

TEST_ABORTS(unlocking_twice_aborts, "kc_mutex_unlock: the caller does not own it (rule Y3,")
{
    run_named(unlocks_twice, NULL);
}

static int relocks(void *arg UNUSED)
{
    CHECK_EQ(kc_mutex_lock(&lock), 0);
    kc_mutex_lock_nocancel(&lock);
    return 0;
}

TEST_ABORTS(relocking_by_nocancel_aborts,
            "kc_mutex_lock_nocancel: the caller owns it already (rule Y3,")
{
    run_named(relocks, NULL);
}

TEST_ABORTS(relocking_by_nocancel_on_a_thread_aborts,
            "kc_mutex_lock_nocancel: the caller owns it already (rule Y3,")
{
    (void)!relocks(NULL);
}

static int waits_without_the_mutex(void *arg UNUSED)
{
    return kc_cond_wait(&cond, &lock);
}

TEST_ABORTS(waiting_on_a_condition_without_the_mutex_aborts,
            "kc_cond_wait: the caller does not own the mutex (rule Y3,")
{
    run_named(waits_without_the_mutex, NULL);
}

TEST_ABORTS(a_thread_that_waits_on_a_condition_with_anothers_mutex_aborts,
            "kc_cond_wait: the caller does not own the mutex (rule Y3,")
{
    another_thread_takes_all();
    (void)!kc_cond_wait_until(&cond, &lock, 0);
}

static int wait_cancelled_without_the_mutex(void *arg UNUSED)
{
    CHECK(kc_cancel_current(0));
    return kc_cond_wait(&cond, &lock);
}

TEST_ABORTS(in_a_cancelled_job_a_wait_without_the_mutex_aborts,
            "kc_cond_wait: the caller does not own the mutex (rule Y3,")
{
    run_named(wait_cancelled_without_the_mutex, NULL);
}

static int read_unlocks_what_is_free(void *arg UNUSED)
{
    kc_rwlock_rdunlock(&rwlock);
    return 0;
}

TEST_ABORTS(read_unlocking_what_is_free_aborts, "kc_rwlock_rdunlock: ")
{
    run_named(read_unlocks_what_is_free, NULL);
}

static int read_unlocks_what_it_writes(void *arg UNUSED)
{
    CHECK_EQ(kc_rwlock_wrlock(&rwlock), 0);
    kc_rwlock_rdunlock(&rwlock);
    return 0;
}

TEST_ABORTS(read_unlocking_what_is_written_aborts, "(rule Y3,")
{
    run_named(read_unlocks_what_it_writes, NULL);
}

static int write_unlocks_what_it_reads(void *arg UNUSED)
{
    CHECK_EQ(kc_rwlock_rdlock(&rwlock), 0);
    kc_rwlock_wrunlock(&rwlock);
    return 0;
}

TEST_ABORTS(write_unlocking_what_is_read_aborts,
            "kc_rwlock_wrunlock: the caller does not have it to write (rule Y3,")
{
    run_named(write_unlocks_what_it_reads, NULL);
}

TEST_ABORTS(write_unlocking_what_another_writes_aborts,
            "kc_rwlock_wrunlock: the caller does not have it to write (rule Y3,")
{
    another_thread_takes_all();
    kc_rwlock_wrunlock(&rwlock);
}

static int reads_for_ever(void *arg)
{
    CHECK_EQ(kc_rwlock_rdlock(&rwlock), 0);
    add(arg);
    return kc_sleep(KC_FOREVER);
}

static int read_unlocks_for_its_child(void *arg UNUSED)
{
    count_t n = 0;

    CHECK_EQ(kc_launch(reads_for_ever, &n), 0);
    UNTIL(get(&n));
    kc_rwlock_rdunlock(&rwlock); /* the caller holds no lock at all */
    return 0;
}

TEST_ABORTS(a_body_that_read_unlocks_for_another_aborts, "kc_rwlock_rdunlock: ")
{
    run_named(read_unlocks_for_its_child, NULL);
}

/* ---- bodies that end with a lock ------------------------------------------------------------ */

static int ends_with_a_mutex(void *arg UNUSED)
{
    return kc_mutex_lock(&lock);
}

static kc_mutex_t first_held = KC_MUTEX_NAMED("accounts");
static kc_rwlock_t second_held = KC_RWLOCK_NAMED("table");

static int ends_with_two(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_mutex_lock(&first_held), 0);
    CHECK(kc_rwlock_tryrdlock(&second_held));
    CHECK_EQ(kc_rwlock_wrlock(&(kc_rwlock_t)KC_RWLOCK_NAMED("other")), 0);
    return 0;
}

TEST_ABORTS(a_body_that_ends_with_locks_names_the_job, "(rule Y3, docs/rules.md), in job ")
{
    (void)!kc_run(ends_with_two, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS });
}

TEST_ABORTS(where_deadlocks_are_found_a_body_that_ends_with_locks_names_them,
            "(rule Y3, docs/rules.md): a lock to write \"other\" at 0x")
{
    (void)!kc_run(ends_with_two, NULL,
                  &(kc_sched_opts_t){ .workers = 1, .flags = KC_SCHED_FIND_DEADLOCKS });
}

static int gives_one_back(void *arg)
{
    (void)arg;
    CHECK_EQ(kc_rwlock_wrlock(&second_held), 0);
    CHECK_EQ(kc_mutex_lock(&first_held), 0);
    kc_rwlock_wrunlock(&second_held);
    return 0;
}

TEST_ABORTS(with_virtual_time_a_body_that_ends_with_locks_names_those_it_has_not_given_back,
            "it still holds a lock (rule Y3, docs/rules.md): a mutex \"accounts\" at 0x")
{
    (void)!kc_run(gives_one_back, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}

TEST_ABORTS(a_body_that_ends_with_a_mutex_aborts, "it still holds a lock (rule Y3,")
{
    run_named(ends_with_a_mutex, NULL);
}

TEST_ABORTS(the_abort_line_of_a_body_that_ends_with_a_mutex_names_the_job, "\"greedy\"")
{
    run_named(ends_with_a_mutex, "greedy");
}

static int ends_with_a_tried_mutex(void *arg UNUSED)
{
    CHECK(kc_mutex_trylock(&lock));
    return 0;
}

TEST_ABORTS(a_body_that_ends_with_a_mutex_by_trylock_aborts, "it still holds a lock (rule Y3,")
{
    run_named(ends_with_a_tried_mutex, NULL);
}

static int ends_with_a_lock_to_read(void *arg UNUSED)
{
    return kc_rwlock_rdlock(&rwlock);
}

TEST_ABORTS(a_body_that_ends_as_a_reader_aborts, "it still holds a lock (rule Y3,")
{
    run_named(ends_with_a_lock_to_read, NULL);
}

static int ends_with_a_lock_to_write(void *arg UNUSED)
{
    return kc_rwlock_wrlock(&rwlock);
}

TEST_ABORTS(a_body_that_ends_as_the_writer_aborts, "it still holds a lock (rule Y3,")
{
    run_named(ends_with_a_lock_to_write, NULL);
}

static int ends_with_what_a_scope_took(void *arg UNUSED)
{
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_mutex_lock(&lock), 0);
    return kc_scope_end(&s);
}

TEST_ABORTS(a_body_that_ends_with_what_it_took_in_a_scope_aborts,
            "it still holds a lock (rule Y3,")
{
    run_named(ends_with_what_a_scope_took, NULL);
}

static int generator_locks(kc_gen_t *g UNUSED, void *arg UNUSED)
{
    CHECK_EQ(kc_mutex_lock(&lock), 0);
    return 0;
}

static int ends_with_what_a_generator_took(void *arg UNUSED)
{
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, generator_locks, NULL, 0), 0);
    CHECK(!kc_gen_next(&g, NULL));
    kc_gen_end(&g);
    return 0;
}

TEST_ABORTS(a_body_that_ends_with_what_its_generator_took_aborts,
            "it still holds a lock (rule Y3,")
{
    run_named(ends_with_what_a_generator_took, NULL);
}

static int is_cancelled_with_a_mutex(void *arg UNUSED)
{
    count_t n = 0;
    kc_job_t *j = launch(takes_the_mutex, &n, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });

    UNTIL(get(&n));
    CHECK(kc_job_cancel(j, 0));
    return kc_job_join(j) == -ECANCELED ? 0 : 1;
}

TEST_ABORTS(a_body_that_is_unwound_with_a_mutex_aborts, "it still holds a lock (rule Y3,")
{
    run_named(is_cancelled_with_a_mutex, NULL);
}

static int cond_waits_unguarded(void *arg)
{
    CHECK_EQ(kc_mutex_lock(&lock), 0);
    add(arg);
    return kc_cond_wait(&cond, &lock);
}

static int is_cancelled_in_a_cond_wait(void *arg UNUSED)
{
    count_t n = 0;
    kc_job_t *j = launch(cond_waits_unguarded, &n, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });

    UNTIL(get(&n) && in_line(&cond) == 1);
    CHECK(kc_job_cancel(j, 0));
    return kc_job_join(j) == -ECANCELED ? 0 : 1;
}

TEST_ABORTS(a_body_that_is_unwound_out_of_a_cond_wait_without_a_cleanup_aborts,
            "it still holds a lock (rule Y3,")
{
    run_named(is_cancelled_in_a_cond_wait, NULL);
}

/* ---- counts --------------------------------------------------------------------------------- */

TEST_ABORTS(counting_a_latch_below_zero_aborts,
            "kc_latch_count_down: the latch is at zero already (rule Y3,")
{
    kc_latch_t l = KC_LATCH_INIT(1);

    kc_latch_count_down(&l);
    kc_latch_count_down(&l);
}

static int arrives_at_an_open_latch(void *arg UNUSED)
{
    kc_latch_t l = KC_LATCH_INIT(0);

    return kc_latch_arrive_and_wait(&l);
}

TEST_ABORTS(arriving_at_an_open_latch_aborts,
            "kc_latch_arrive_and_wait: the latch is at zero already (rule Y3,")
{
    run_named(arrives_at_an_open_latch, NULL);
}

/* ---- once ----------------------------------------------------------------------------------- */

static kc_once_t once = KC_ONCE_INIT;

static void calls_itself(void *arg)
{
    kc_once(&once, calls_itself, arg);
}

static int once_in_itself(void *arg)
{
    kc_once(&once, calls_itself, arg);
    return 0;
}

TEST_ABORTS(a_once_that_calls_itself_aborts, "kc_once: called by its own function (rule Y5,")
{
    run_named(once_in_itself, NULL);
}

TEST_ABORTS(on_a_thread_a_once_that_calls_itself_aborts,
            "kc_once: called by its own function (rule Y5,")
{
    once_in_itself(NULL);
}

TEST_ABORTS(a_once_without_a_function_aborts, "kc_once: the function is NULL")
{
    kc_once(&once, NULL, NULL);
}

/* ---- null ----------------------------------------------------------------------------------- */

TEST_ABORTS(kc_mutex_lock_nocancel_of_null_aborts, "kc_mutex_lock_nocancel")
{
    kc_mutex_lock_nocancel(NULL);
}

TEST_ABORTS(kc_mutex_trylock_of_null_aborts, "kc_mutex_trylock")
{
    (void)kc_mutex_trylock(NULL);
}

TEST_ABORTS(kc_mutex_unlock_of_null_aborts, "kc_mutex_unlock")
{
    kc_mutex_unlock(NULL);
}

TEST_ABORTS(kc_rwlock_tryrdlock_of_null_aborts, "kc_rwlock_tryrdlock")
{
    (void)kc_rwlock_tryrdlock(NULL);
}

TEST_ABORTS(kc_rwlock_trywrlock_of_null_aborts, "kc_rwlock_trywrlock")
{
    (void)kc_rwlock_trywrlock(NULL);
}

TEST_ABORTS(kc_rwlock_rdunlock_of_null_aborts, "kc_rwlock_rdunlock")
{
    kc_rwlock_rdunlock(NULL);
}

TEST_ABORTS(kc_rwlock_wrunlock_of_null_aborts, "kc_rwlock_wrunlock")
{
    kc_rwlock_wrunlock(NULL);
}

TEST_ABORTS(kc_cond_signal_of_null_aborts, "kc_cond_signal")
{
    kc_cond_signal(NULL);
}

TEST_ABORTS(kc_cond_broadcast_of_null_aborts, "kc_cond_broadcast")
{
    kc_cond_broadcast(NULL);
}

TEST_ABORTS(kc_sem_tryacquire_of_null_aborts, "kc_sem_tryacquire")
{
    (void)kc_sem_tryacquire(NULL);
}

TEST_ABORTS(kc_sem_release_of_null_aborts, "kc_sem_release")
{
    kc_sem_release(NULL, 1);
}

TEST_ABORTS(kc_latch_count_down_of_null_aborts, "kc_latch_count_down")
{
    kc_latch_count_down(NULL);
}

TEST_ABORTS(kc_event_set_of_null_aborts, "kc_event_set")
{
    kc_event_set(NULL);
}

TEST_ABORTS(kc_event_reset_of_null_aborts, "kc_event_reset")
{
    kc_event_reset(NULL);
}

TEST_ABORTS(kc_event_is_set_of_null_aborts, "kc_event_is_set")
{
    (void)kc_event_is_set(NULL);
}

TEST_ABORTS(kc_once_of_null_aborts, "kc_once: the object is NULL")
{
    kc_once(NULL, calls_itself, NULL);
}

/* ---- handlers ------------------------------------------------------------------------------- */

static int (*waits_in_handler)(void);

static void handler(kc_sigset_t fired UNUSED, kc_signal_t *signal UNUSED, void *arg UNUSED)
{
    (void)!waits_in_handler();
}

/* Emits a signal, whose handler waits by fn. */
static void emits(int (*fn)(void))
{
    kc_signal_t *signal = kc_signal_create(0);
    kc_slot_t slot;

    CHECK(signal != NULL);
    waits_in_handler = fn;
    CHECK_EQ(kc_slot_bind(&slot, signal, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&slot, (kc_sigset_t)1 << 20, handler, NULL));
    kc_signal_emit(signal, (kc_sigset_t)1 << 20);
    kc_slot_unbind(&slot);
    kc_signal_release(signal);
}

static int emits_in_a_job(void *arg UNUSED)
{
    emits(waits_in_handler);
    return 0;
}

static int locks_what_is_taken(void)
{
    return kc_mutex_lock_until(&lock, kc_now() + KC_MS(1));
}

TEST_ABORTS(a_handler_that_waits_for_a_mutex_aborts,
            "kc_mutex_lock: waits inside a handler or dispose (rule G6,")
{
    another_thread_takes_all();
    waits_in_handler = locks_what_is_taken;
    run_named(emits_in_a_job, NULL);
}

TEST_ABORTS(a_handler_that_waits_for_a_mutex_on_a_plain_thread_aborts,
            "kc_mutex_lock: waits inside a handler or dispose (rule G6,")
{
    another_thread_takes_all();
    emits(locks_what_is_taken);
    FAIL("it did not abort");
}

static int acquires(void)
{
    static kc_sem_t none = KC_SEM_INIT(0);

    return kc_sem_acquire_until(&none, 0);
}

TEST_ABORTS(a_handler_that_waits_for_a_semaphore_aborts,
            "kc_sem_acquire: waits inside a handler or dispose (rule G6,")
{
    waits_in_handler = acquires;
    run_named(emits_in_a_job, NULL);
}

static int waits_for_an_event(void)
{
    static kc_event_t never_set = KC_EVENT_INIT;

    return kc_event_wait(&never_set);
}

TEST_ABORTS(a_handler_that_waits_for_an_event_aborts,
            "kc_event_wait: waits inside a handler or dispose (rule G6,")
{
    waits_in_handler = waits_for_an_event;
    run_named(emits_in_a_job, NULL);
}

/* What need not wait is no bad use there. */
static int uses_without_waiting(void)
{
    kc_mutex_t m = KC_MUTEX_INIT;
    kc_sem_t s = KC_SEM_INIT(1);
    kc_event_t e = KC_EVENT_INIT;

    CHECK_EQ(kc_mutex_lock(&m), 0);
    kc_mutex_unlock(&m);
    CHECK_EQ(kc_sem_acquire(&s), 0);
    kc_sem_release(&s, 1);
    kc_event_set(&e);
    CHECK_EQ(kc_event_wait(&e), 0);
    return 0;
}

IN_A_JOB(a_handler_may_use_what_it_need_not_wait_for)
{
    waits_in_handler = uses_without_waiting;
    emits(uses_without_waiting);
    return 0;
}
