/* SPDX-License-Identifier: MIT */
/*
 * sync_stress.c - locks and meeting points under load: coroutines on four workers, plain threads
 * beside them, random cancels and deadlines.
 *
 * Each round makes a hall of mutexes, reader-writer locks, semaphores, bounded queues out of a
 * mutex and two conditions, events and a barrier, and lets jobs and threads use them at random.
 * What a lock guards is plain, so that a sanitizer sees who comes in uninvited. Cancellers cancel
 * any job at any moment; each job that ends is launched again until the round has had enough.
 *
 * At the end the books must balance: every lock is free and nobody stands in line; each counter
 * holds what those who had the lock say they added; the permits are as at the start; items in are
 * items out and in the queue. A choice is a function of the seed and of the one who chooses.
 *
 *     KC_STRESS_SECONDS=600 KC_TEST_SEED=1 build/tsan/test/sync_stress
 */
#include "sync/wait_queue.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WORKERS = 4,
    THREADS = 2,
    JOBS = 24,
    LIVES = 6, /* how often each is launched in a round */
    STEPS = 40,
    THINGS = 3, /* of each kind */
    ROOM = 4,   /* in a queue */
    PERMITS = 2,
    LOST_LIMIT_S = 60
};

struct queue {
    kc_mutex_t lock;
    kc_cond_t not_empty, not_full;
    uint64_t item[ROOM]; /* under the lock, as the rest */
    uint64_t in, out, sum_in, sum_out;
};

static struct {
    kc_mutex_t mutex[THINGS];
    uint64_t counter[THINGS]; /* under the mutex */
    kc_rwlock_t rwlock[THINGS];
    uint64_t left[THINGS], right[THINGS]; /* equal, under the rwlock */
    kc_sem_t sem[THINGS];
    KC_ATOMIC(uint32_t) inside[THINGS]; /* who have a permit */
    struct queue queue[THINGS];
    kc_event_t event;
    kc_once_t once;
    uint64_t once_value; /* written by the one */
    kc_barrier_t barrier;
    KC_ATOMIC(uint32_t) calls; /* of the once */
    KC_ATOMIC(uint32_t) met;   /* returns of 1 from the barrier */
    KC_ATOMIC(uint32_t) passed;
    KC_ATOMIC(uint32_t) closing;
    KC_ATOMIC(uint32_t) running; /* threads that are not done */
} hall;

/* One who uses the hall, and what it says it has done. */
struct guest {
    uint64_t random;
    uint64_t counted[THINGS], written[THINGS];
    int lives;
    KC_ATOMIC(kc_job_t *) job; /* its reference goes at the end of the round */
    kc_job_t *past[LIVES];
};

static struct guest guests[JOBS + THREADS];
static KC_ATOMIC(uint64_t) rounds, cancels, timeouts, operations, cancelled;
static KC_ATOMIC(int) finished;

static unsigned pick(uint64_t *random, unsigned n)
{
    return (unsigned)(kc_test_random(random) >> 16) % n;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void nap(uint64_t *random, unsigned us)
{
    struct timespec t = { 0, (long)pick(random, us) * 1000 };

    nanosleep(&t, NULL);
}

/* ---- what a guest does ---------------------------------------------------------------------- */

static void passes_time(uint64_t *random)
{
    unsigned what = pick(random, 8);

    if (what == 0 && kcoro_current())
        (void)!kc_sleep(KC_US(pick(random, 20)));
    else if (what < 4)
        (void)kc_yield();
}

/* What a wait may say. True: it has what it has waited for. */
static bool got(int rc, bool timed)
{
    kc_add_relaxed(&operations, 1);
    if (rc >= 0)
        return true;
    CHECK(rc == -ECANCELED || (rc == -ETIMEDOUT && timed));
    if (rc == -ECANCELED) {
        CHECK(kcoro_current() != NULL);
        CHECK_EQ(kc_check(), -ECANCELED); /* it stays so */
        kc_add_relaxed(&cancelled, 1);
    } else {
        kc_add_relaxed(&timeouts, 1);
    }
    return false;
}

static kc_time_t soon(uint64_t *random)
{
    return kc_now() + KC_US(pick(random, 60));
}

static void uses_a_mutex(struct guest *g)
{
    unsigned i = pick(&g->random, THINGS), how = pick(&g->random, 8);
    kc_mutex_t *m = &hall.mutex[i];

    if (how == 0)
        kc_mutex_lock_nocancel(m);
    else if (how == 1 && !kc_mutex_trylock(m))
        return;
    else if (how < 4 && how > 1 && !got(kc_mutex_lock_until(m, soon(&g->random)), true))
        return;
    else if (how >= 4 && !got(kc_mutex_lock(m), false))
        return;
    uint64_t seen = hall.counter[i];
    passes_time(&g->random);
    CHECK_EQ(hall.counter[i], seen);
    hall.counter[i] = seen + 1;
    g->counted[i]++;
    if (pick(&g->random, 8) == 0) {
        int rc = kc_mutex_lock(m); /* a cancel may come at any moment */
        CHECK(rc == -EDEADLK || (rc == -ECANCELED && kc_check() == -ECANCELED));
    }
    kc_mutex_unlock(m);
}

static void uses_a_rwlock(struct guest *g)
{
    unsigned i = pick(&g->random, THINGS), how = pick(&g->random, 8);
    kc_rwlock_t *l = &hall.rwlock[i];
    bool write = how < 2;

    if (how % 4 == 0 ? !(write ? kc_rwlock_trywrlock(l) : kc_rwlock_tryrdlock(l))
                     : !got(write ? kc_rwlock_wrlock(l) : kc_rwlock_rdlock(l), false))
        return;
    CHECK_EQ(hall.left[i], hall.right[i]);
    if (write)
        hall.left[i]++;
    passes_time(&g->random);
    if (write) {
        hall.right[i]++;
        g->written[i]++;
        kc_rwlock_wrunlock(l);
    } else {
        CHECK_EQ(hall.left[i], hall.right[i]);
        kc_rwlock_rdunlock(l);
    }
}

static void uses_a_sem(struct guest *g)
{
    unsigned i = pick(&g->random, THINGS), how = pick(&g->random, 4);
    kc_sem_t *s = &hall.sem[i];

    if (how == 0 ? !kc_sem_tryacquire(s)
                 : !got(how == 1 ? kc_sem_acquire_until(s, soon(&g->random)) : kc_sem_acquire(s),
                        how == 1))
        return;
    CHECK_LE(kc_add_relaxed(&hall.inside[i], 1) + 1, PERMITS);
    passes_time(&g->random);
    kc_sub_acq_rel(&hall.inside[i], 1);
    kc_sem_release(s, 1);
}

/* Waits on a queue until cond; the mutex is held before and after. False: it gave up. */
#define WAIT_WHILE(g, cond, on, q)                                                                \
    while (cond) {                                                                                \
        bool timed_ = pick(&(g)->random, 3) == 0;                                                 \
        if (!got(timed_ ? kc_cond_wait_until(&(q)->on, &(q)->lock, soon(&(g)->random))            \
                        : kc_cond_wait(&(q)->on, &(q)->lock),                                     \
                 timed_))                                                                         \
            break;                                                                                \
    }

static void uses_a_queue(struct guest *g, bool put)
{
    struct queue *q = &hall.queue[pick(&g->random, THINGS)];
    uint64_t item = pick(&g->random, 1000);

    if (!got(kc_mutex_lock(&q->lock), false))
        return;
    if (put) {
        WAIT_WHILE(g, q->in - q->out == ROOM && !kc_load_relaxed(&hall.closing), not_full, q);
    } else {
        WAIT_WHILE(g, q->in == q->out && !kc_load_relaxed(&hall.closing), not_empty, q);
    }
    if (put && q->in - q->out < ROOM) {
        q->item[q->in++ % ROOM] = item;
        q->sum_in += item;
        kc_cond_signal(&q->not_empty);
    } else if (!put && q->in > q->out) {
        q->sum_out += q->item[q->out++ % ROOM];
        kc_cond_signal(&q->not_full);
    }
    kc_mutex_unlock(&q->lock);
}

static void meets(struct guest *g)
{
    /* Two of them: an odd one out waits until it is cancelled, or another one comes. */
    if (!kcoro_current() || kc_load_relaxed(&hall.closing))
        return;
    kc_scope_t s;
    CHECK_EQ(kc_scope_begin(&s, &(kc_scope_opts_t){ .timeout = KC_US(1 + pick(&g->random, 80)) }),
             0);
    int rc = kc_barrier_wait(&hall.barrier);
    (void)got(rc, false);
    if (rc == 1)
        kc_add_relaxed(&hall.met, 1);
    if (rc >= 0)
        kc_add_relaxed(&hall.passed, 1);
    (void)!kc_scope_end(&s);
}

static void is_the_one(void *arg)
{
    struct guest *g = arg;

    passes_time(&g->random);
    CHECK_EQ(kc_add_relaxed(&hall.calls, 1), 0);
    hall.once_value = 42;
}

/* An event and a latch in this frame, which another job sets or counts down and then forgets. */
struct brief {
    kc_event_t event;
    kc_latch_t latch;
    kc_sem_t sem;
};

static int sets_brief(void *arg)
{
    struct brief *b = arg;

    kc_event_set(&b->event);
    return 0;
}

static int counts_brief(void *arg)
{
    struct brief *b = arg;

    kc_latch_count_down(&b->latch);
    return 0;
}

static int gives_brief(void *arg)
{
    struct brief *b = arg;

    kc_sem_release(&b->sem, 1);
    return 0;
}

static void uses_its_frame(struct guest *g)
{
    struct brief b = { KC_EVENT_INIT, KC_LATCH_INIT(1), KC_SEM_INIT(0) };
    kc_fn_t fn[] = { sets_brief, counts_brief, gives_brief };
    unsigned what = pick(&g->random, 3);

    if (!kcoro_current() || kc_shield_begin() != 0)
        return;
    /* Shielded, so that it is waited for: nobody else does. */
    int rc = kc_launch(fn[what], &b);
    if (rc == 0)
        rc = what == 0   ? kc_event_wait(&b.event)
             : what == 1 ? kc_latch_wait(&b.latch)
                         : kc_sem_acquire(&b.sem);
    CHECK_EQ(rc, 0);
    kc_shield_end();
}

static void does_something(struct guest *g)
{
    switch (pick(&g->random, 12)) {
    case 0:
    case 1:
    case 2:
        uses_a_mutex(g);
        break;
    case 3:
    case 4:
        uses_a_rwlock(g);
        break;
    case 5:
        uses_a_sem(g);
        break;
    case 6:
    case 7:
        uses_a_queue(g, true);
        break;
    case 8:
        uses_a_queue(g, false);
        uses_a_queue(g, false);
        break;
    case 9:
        meets(g);
        break;
    case 10:
        uses_its_frame(g);
        break;
    default:
        kc_once(&hall.once, is_the_one, g);
        CHECK_EQ(hall.once_value, 42);
        if (pick(&g->random, 2))
            kc_event_set(&hall.event);
        else
            kc_event_reset(&hall.event);
        (void)got(kc_event_wait_until(&hall.event, soon(&g->random)), true);
    }
}

static int guest_body(void *arg)
{
    struct guest *g = arg;

    for (int i = 0; i < STEPS && !kc_cancelled(); i++)
        does_something(g);
    return 0;
}

static void *guest_thread(void *arg)
{
    struct guest *g = arg;

    for (int i = 0; i < STEPS * LIVES; i++)
        does_something(g);
    kc_sub_acq_rel(&hall.running, 1);
    return NULL;
}

/* ---- a round -------------------------------------------------------------------------------- */

static void *canceller_main(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;

    while (!kc_load_acquire(&hall.closing)) {
        kc_job_t *j = kc_load_acquire(&guests[pick(&random, JOBS)].job);
        if (j && kc_job_cancel(j, 0))
            kc_add_relaxed(&cancels, 1);
        nap(&random, 300);
    }
    return NULL;
}

/* Launches one guest again and again. */
static int host_body(void *arg)
{
    struct guest *g = arg;

    for (g->lives = 0; g->lives < LIVES; g->lives++) {
        kc_job_t *j = NULL;
        CHECK_EQ(
            kc_launch_job(guest_body, g, &(kc_launch_opts_t){ .flags = KC_JOB_SUPERVISOR }, &j),
            0);
        g->past[g->lives] = j;
        kc_store_release(&g->job, j);
        int rc = kc_job_join(j);
        CHECK(rc == 0 || rc == -ECANCELED);
    }
    return 0;
}

/* Whoever still waits for a queue goes on: threads cannot be cancelled. */
static int closer_body(void *arg)
{
    (void)arg;
    for (int i = 0; i < JOBS; i++)
        while (kc_load_acquire(&guests[i].job) == NULL)
            CHECK_EQ(kc_sleep(KC_US(50)), 0);
    double begin = seconds();
    while (kc_load_acquire(&hall.running) > 0 && seconds() - begin < 0.05)
        CHECK_EQ(kc_sleep(KC_US(100)), 0);
    kc_store_release(&hall.closing, 1);
    for (int n = 0; n < 2 || kc_load_acquire(&hall.running) > 0; n++) {
        for (int i = 0; i < THINGS; i++) {
            struct queue *q = &hall.queue[i];
            kc_mutex_lock_nocancel(&q->lock);
            kc_cond_broadcast(&q->not_empty);
            kc_cond_broadcast(&q->not_full);
            kc_mutex_unlock(&q->lock);
        }
        CHECK_EQ(kc_sleep(KC_US(200)), 0);
    }
    return 0;
}

static void check_free(const void *object)
{
    const kc_wait_queue_t *l = object;

    CHECK_EQ(kc_load_acquire(&l->word), 0);
    CHECK_PTR(l->first, NULL);
}

static void check_books(void)
{
    for (int i = 0; i < THINGS; i++) {
        uint64_t counted = 0, written = 0;
        for (int k = 0; k < JOBS + THREADS; k++) {
            counted += guests[k].counted[i];
            written += guests[k].written[i];
        }
        check_free(&hall.mutex[i]);
        check_free(&hall.rwlock[i]);
        CHECK_EQ(hall.counter[i], counted);
        CHECK_EQ(hall.left[i], written);
        CHECK_EQ(hall.right[i], written);
        CHECK_EQ(hall.sem[i].word, (uint64_t)PERMITS << 2);
        CHECK_PTR(hall.sem[i].line, NULL);
        CHECK_EQ(kc_load_relaxed(&hall.inside[i]), 0);
        struct queue *q = &hall.queue[i];
        check_free(&q->lock);
        check_free(&q->not_empty);
        check_free(&q->not_full);
        CHECK(q->in >= q->out && q->in - q->out <= ROOM);
        while (q->out < q->in)
            q->sum_out += q->item[q->out++ % ROOM];
        CHECK_EQ(q->sum_out, q->sum_in);
    }
    check_free(&hall.barrier);
    CHECK_EQ(kc_load_relaxed(&hall.passed), 2 * kc_load_relaxed(&hall.met));
    CHECK_LE(kc_load_relaxed(&hall.calls), 1);
    CHECK_PTR(hall.event.line, NULL);
}

static int round_body(void *arg)
{
    kc_scope_t s;

    (void)arg;
    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_launch(closer_body, NULL), 0);
    for (int i = 0; i < JOBS; i++)
        CHECK_EQ(kc_launch(host_body, &guests[i]), 0);
    CHECK_EQ(kc_scope_end(&s), 0);
    return 0;
}

static void run_round(uint64_t seed)
{
    uint64_t random = seed * 0x9e3779b97f4a7c15u + 1;
    kc_sched_opts_t opts = { .workers = WORKERS };
    pthread_t thread[THREADS], canceller;

    memset(&hall, 0, sizeof hall);
    memset(guests, 0, sizeof guests);
    for (int i = 0; i < THINGS; i++)
        hall.sem[i] = (kc_sem_t)KC_SEM_INIT(PERMITS);
    hall.barrier = (kc_barrier_t)KC_BARRIER_INIT(2);
    for (int i = 0; i < JOBS + THREADS; i++)
        guests[i].random = kc_test_random(&random) | 1;
    kc_store_relaxed(&hall.running, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, guest_thread, &guests[JOBS + i]), 0);
    CHECK_EQ(pthread_create(&canceller, NULL, canceller_main,
                            (void *)(uintptr_t)(kc_test_random(&random) | 1)),
             0);
    CHECK_EQ(kc_run(round_body, NULL, &opts), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    pthread_join(canceller, NULL);
    for (int i = 0; i < JOBS; i++)
        for (int k = 0; k < LIVES; k++)
            kc_job_release(guests[i].past[k]);
    check_books();
    kc_add_relaxed(&rounds, 1);
}

/* A round takes some milliseconds. */
static void *watchdog_main(void *arg)
{
    const char *scale = getenv("KC_TEST_SCALE");
    double limit = LOST_LIMIT_S * (scale ? strtod(scale, NULL) : 1), since = seconds();
    uint64_t seen = 0, random = 1;

    while (!kc_load_acquire(&finished)) {
        uint64_t now = kc_load_relaxed(&rounds);
        nap(&random, 20000);
        since = now == seen ? since : seconds();
        seen = now;
        if (seconds() - since < limit)
            continue;
        fprintf(stderr, "round %llu of seed %llu does not end\n", (unsigned long long)now,
                (unsigned long long)kc_test_seed());
        fflush(NULL);
        abort();
    }
    return arg;
}

TEST_SLOW(locks_and_meeting_points_balance_under_cancels_and_deadlines, 3600000)
{
    const char *text = getenv("KC_STRESS_SECONDS");
    double end = seconds() + (text ? strtod(text, NULL) : 4.0);
    pthread_t watchdog;
    uint64_t n = 0;

    CHECK_EQ(pthread_create(&watchdog, NULL, watchdog_main, NULL), 0);
    do
        run_round(kc_test_seed() + n++);
    while (seconds() < end);
    kc_store_release(&finished, 1);
    pthread_join(watchdog, NULL);
    printf("%llu rounds, %llu operations, %llu cancels, %llu waits cancelled, %llu timed out, "
           "seed %llu\n",
           (unsigned long long)n, (unsigned long long)kc_load_relaxed(&operations),
           (unsigned long long)kc_load_relaxed(&cancels),
           (unsigned long long)kc_load_relaxed(&cancelled),
           (unsigned long long)kc_load_relaxed(&timeouts), (unsigned long long)kc_test_seed());
}
