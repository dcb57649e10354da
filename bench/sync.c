/* SPDX-License-Identifier: MIT */
/*
 * sync.c - what do locks cost, when nobody else wants them and when others do?
 *
 * Uncontended: one coroutine takes and gives back, n times. Under each question is a pthread lock
 * of the same kind, which blocks a thread.
 *
 * Contended, one thread: four coroutines take the same lock and yield while they have it, so that
 * the other three stand in line; an operation is one turn of one of them. What is measured is the
 * line and the switches.
 *
 * Contended, two threads: when both are there, one coroutine on each of two workers takes the lock,
 * adds to a number and gives the lock back, until the number is n: both want it to the end, whoever
 * gets it. Ours and Tokio's go to the one who has waited longest, also if that one must be woken
 * first. Go's, Boost's and pthread's may be taken again by who gave it back, which is faster, and
 * not fair; Go's becomes fair for one who has waited a millisecond. This question needs two free
 * cores: on a busy machine one has done all turns before the other gets to run, and nobody fights.
 */
#include "peers/boost.h"
#include "peers/go.h"
#include "peers/tokio.h"
#include "run.h"

#include <kcoro/sync.h>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { CROWD = 4, SPINS = 1 << 20 };

/* ---- uncontended ----------------------------------------------------------------------------- */

static kc_mutex_t mutex = KC_MUTEX_INIT;
static kc_rwlock_t rwlock = KC_RWLOCK_INIT;
static kc_sem_t sem = KC_SEM_INIT(1);

static int locking(void *arg)
{
    uint64_t n = *(uint64_t *)arg;

    for (uint64_t i = 0; i < n; i++) {
        must(kc_mutex_lock(&mutex));
        kb_keep(&n);
        kc_mutex_unlock(&mutex);
    }
    return 0;
}

static int reading(void *arg)
{
    uint64_t n = *(uint64_t *)arg;

    for (uint64_t i = 0; i < n; i++) {
        must(kc_rwlock_rdlock(&rwlock));
        kb_keep(&n);
        kc_rwlock_rdunlock(&rwlock);
    }
    return 0;
}

static int writing(void *arg)
{
    uint64_t n = *(uint64_t *)arg;

    for (uint64_t i = 0; i < n; i++) {
        must(kc_rwlock_wrlock(&rwlock));
        kb_keep(&n);
        kc_rwlock_wrunlock(&rwlock);
    }
    return 0;
}

static int acquiring(void *arg)
{
    uint64_t n = *(uint64_t *)arg;

    for (uint64_t i = 0; i < n; i++) {
        must(kc_sem_acquire(&sem));
        kb_keep(&n);
        kc_sem_release(&sem, 1);
    }
    return 0;
}

struct alone {
    kc_fn_t fn;
};

static void alone_run(void *arg, uint64_t n)
{
    run_task(place[0], ((struct alone *)arg)->fn, &n);
}

static pthread_mutex_t thread_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t thread_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t thread_sem;

static void thread_lock_run(void *arg, uint64_t n)
{
    (void)arg;
    for (uint64_t i = 0; i < n; i++) {
        must(pthread_mutex_lock(&thread_mutex));
        kb_keep(&n);
        must(pthread_mutex_unlock(&thread_mutex));
    }
}

static void thread_read_run(void *arg, uint64_t n)
{
    (void)arg;
    for (uint64_t i = 0; i < n; i++) {
        must(pthread_rwlock_rdlock(&thread_rwlock));
        kb_keep(&n);
        must(pthread_rwlock_unlock(&thread_rwlock));
    }
}

static void thread_sem_run(void *arg, uint64_t n)
{
    (void)arg;
    for (uint64_t i = 0; i < n; i++) {
        must(sem_wait(&thread_sem));
        kb_keep(&n);
        must(sem_post(&thread_sem));
    }
}

static void ask_uncontended(void)
{
    static struct alone locks = { locking }, reads = { reading }, writes = { writing };
    static struct alone acquires = { acquiring };

    must(sem_init(&thread_sem, 0, 1));
    sched_open(KC_NO_WORKERS);
    kb_question("mutex, lock + unlock, uncontended");
    kb_case("kcoro", alone_run, &locks);
    kb_go_case("go sync.Mutex", "mutex_1");
    kb_tokio_case("tokio Mutex", "sync_mutex_1");
    kb_boost_mutex("boost.fiber mutex");
    kb_case("pthread", thread_lock_run, NULL);
    kb_base("go sync.Mutex");
    kb_base("tokio Mutex");
    kb_measure();

    kb_question("reader-writer lock, lock + unlock, uncontended");
    kb_case("kcoro to read", alone_run, &reads);
    kb_case("kcoro to write", alone_run, &writes);
    kb_go_case("go sync.RWMutex to read", "rwmutex_1");
    kb_tokio_case("tokio RwLock to read", "sync_rwlock_1");
    kb_skip("boost.fiber", "has none");
    kb_case("pthread to read", thread_read_run, NULL);
    kb_base("go sync.RWMutex to read");
    kb_base("tokio RwLock to read");
    kb_measure();

    kb_question("semaphore, acquire + release, uncontended");
    kb_case("kcoro", alone_run, &acquires);
    kb_go_case("go channel of 1", "semaphore_1");
    kb_tokio_case("tokio Semaphore", "sync_semaphore_1");
    kb_skip("boost.fiber", "has none");
    kb_case("POSIX", thread_sem_run, NULL);
    kb_base("go channel of 1");
    kb_base("tokio Semaphore");
    kb_measure();
    sched_close();
}

/* ---- contended ------------------------------------------------------------------------------- */

/* What the lock guards: all turns are counted. */
static struct {
    uint64_t turns, each, all;
} guarded;

static int queueing(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < guarded.each; i++) {
        must(kc_mutex_lock(&mutex));
        guarded.turns++;
        must(kc_yield());
        kc_mutex_unlock(&mutex);
    }
    return 0;
}

static void queue_run(void *arg, uint64_t n)
{
    (void)arg;
    guarded.turns = 0;
    guarded.each = (n + CROWD - 1) / CROWD;
    int64_t start = kb_now();
    for (int i = 0; i < CROWD; i++)
        must(kc_sched_submit(sched, place[0], queueing, NULL));
    must(kc_sched_run(sched));
    int64_t took = kb_now() - start;
    if (guarded.turns != guarded.each * CROWD)
        abort();
    kb_took((int64_t)((double)took * (double)n / (double)guarded.turns));
}

/* One turn. False: there are none left. */
static bool turn_take(void)
{
    bool left = guarded.turns < guarded.all;

    guarded.turns += left;
    return left;
}

/* The two spin until both are there, and stay on their cores: one who must be woken or has given
 * its core away would come when the other is done. */
static atomic_int there;
static int64_t began[2];

static void begin(int64_t *mine)
{
    atomic_fetch_add(&there, 1);
    for (unsigned spins = 1; atomic_load(&there) < 2; spins++)
        if (spins % SPINS == 0)
            sched_yield(); /* the other one may need this core */
    *mine = kb_now();
}

/* The fight is over: it has lasted since the first of the two began. */
static void fight_ended(void)
{
    kb_took(kb_now() - (began[0] < began[1] ? began[0] : began[1]));
    atomic_store(&there, 0);
}

static void fight_prepare(uint64_t n)
{
    guarded.turns = 0;
    guarded.all = n;
}

static int fighting(void *mine)
{
    begin(mine);
    for (bool left = true; left;) {
        must(kc_mutex_lock(&mutex));
        left = turn_take();
        kc_mutex_unlock(&mutex);
    }
    return 0;
}

static void fight_run(void *arg, uint64_t n)
{
    (void)arg;
    fight_prepare(n);
    must(kc_sched_submit(sched, place[0], fighting, &began[0]));
    must(kc_sched_submit(sched, place[1], fighting, &began[1]));
    must(kc_sched_run(sched));
    fight_ended();
}

static void *thread_fighting(void *mine)
{
    begin(mine);
    for (bool left = true; left;) {
        must(pthread_mutex_lock(&thread_mutex));
        left = turn_take();
        must(pthread_mutex_unlock(&thread_mutex));
    }
    return NULL;
}

static void thread_fight_run(void *arg, uint64_t n)
{
    pthread_t other;

    (void)arg;
    fight_prepare(n);
    must(pthread_create(&other, NULL, thread_fighting, &began[1]));
    thread_fighting(&began[0]);
    must(pthread_join(other, NULL));
    fight_ended();
}

static void ask_contended(void)
{
    sched_open(KC_NO_WORKERS);
    kb_question("mutex held over a yield, 4 want it, one thread");
    kb_case("kcoro", queue_run, NULL);
    kb_go_case("go sync.Mutex", "mutex_queue_1");
    kb_tokio_case("tokio Mutex", "sync_queue_1");
    kb_boost_mutex_queue("boost.fiber mutex");
    kb_base("go sync.Mutex");
    kb_base("tokio Mutex");
    kb_measure();
    sched_close();

    sched_open(2);
    kb_question("mutex, 2 want it, two threads");
    kb_case("kcoro", fight_run, NULL);
    kb_go_case("go sync.Mutex", "mutex_fight_2");
    kb_tokio_case("tokio Mutex", "sync_fight");
    kb_boost_mutex_threads("boost.fiber mutex");
    kb_case("pthread", thread_fight_run, NULL);
    kb_base("go sync.Mutex");
    kb_base("tokio Mutex");
    kb_measure();
    sched_close();
}

int main(int argc, char **argv)
{
    kb_init(argc, argv, "sync", "locks, alone and in a crowd");
    ask_uncontended();
    ask_contended();
    return kb_done();
}
