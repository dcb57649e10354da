/* SPDX-License-Identifier: MIT */
/*
 * sync_kit.h - what the tests of locks and meeting points share: all that can be waited for, as one
 * table, so that a rule for all of them is one test.
 *
 *     EACH_WAY(w) {                              // every way to wait but kc_once
 *         union object o;
 *         w->close(&o);                          // who waits now must wait
 *         ... another one: rc = w->wait(&o); w->leave(&o);
 *         w->open(&o);                           // one may pass
 *     }
 */
#ifndef KC_TEST_SYNC_KIT_H
#define KC_TEST_SYNC_KIT_H

#include "sync/wait_queue.h"
#include "job_kit.h"

#include <stdlib.h>

/* Who stand in the line of any of them, looked at as its owner would. */
static UNUSED int in_line(void *object)
{
    kc_wait_queue_t *l = object;
    uint64_t own = kc__wait_queue_lock(l);
    kc_link_t *first = l->first;
    int n = 0;

    for (kc_link_t *w = first; w; w = w->next == first ? NULL : w->next)
        n++;
    kc__wait_queue_unlock(l, own);
    return n;
}

static UNUSED uint64_t self(void)
{
    kc_thread_t *t = kc__thread();

    return kc__owner_self(t, kc__task_coroutine(t->current));
}

/* ---- every way to wait ---------------------------------------------------------------------- */

/* All of them begin with their line. */
struct conditional {
    kc_cond_t cond;
    kc_mutex_t mutex;
};

union object {
    kc_mutex_t mutex;
    kc_rwlock_t rwlock;
    kc_sem_t sem;
    kc_latch_t latch;
    kc_event_t event;
    kc_barrier_t barrier;
    struct conditional when;
};

struct way {
    const char *name;
    void (*close)(union object *o);
    int (*wait)(union object *o);
    int (*wait_until)(union object *o, kc_time_t deadline); /* NULL: there is none */
    void (*open)(union object *o);                          /* by who has closed it */
    void (*leave)(union object *o);                         /* after a wait that has returned 0 */
    bool stays_open; /* opened while nobody waits, it lets the next one pass */
};

static void mutex_close(union object *o)
{
    o->mutex = (kc_mutex_t)KC_MUTEX_INIT;
    CHECK_EQ(kc_mutex_lock(&o->mutex), 0);
}

static int mutex_wait(union object *o)
{
    return kc_mutex_lock(&o->mutex);
}

static int mutex_wait_until(union object *o, kc_time_t deadline)
{
    return kc_mutex_lock_until(&o->mutex, deadline);
}

static void mutex_open(union object *o)
{
    kc_mutex_unlock(&o->mutex);
}

static void rwlock_close(union object *o)
{
    o->rwlock = (kc_rwlock_t)KC_RWLOCK_INIT;
    CHECK_EQ(kc_rwlock_wrlock(&o->rwlock), 0);
}

static int read_wait(union object *o)
{
    return kc_rwlock_rdlock(&o->rwlock);
}

static int write_wait(union object *o)
{
    return kc_rwlock_wrlock(&o->rwlock);
}

static void read_leave(union object *o)
{
    kc_rwlock_rdunlock(&o->rwlock);
}

static void write_open(union object *o)
{
    kc_rwlock_wrunlock(&o->rwlock);
}

static void sem_close(union object *o)
{
    o->sem = (kc_sem_t)KC_SEM_INIT(0);
}

static int sem_wait(union object *o)
{
    return kc_sem_acquire(&o->sem);
}

static int sem_wait_until(union object *o, kc_time_t deadline)
{
    return kc_sem_acquire_until(&o->sem, deadline);
}

static void sem_open(union object *o)
{
    kc_sem_release(&o->sem, 1);
}

static void latch_close(union object *o)
{
    o->latch = (kc_latch_t)KC_LATCH_INIT(1);
}

static int latch_wait(union object *o)
{
    return kc_latch_wait(&o->latch);
}

static int latch_wait_until(union object *o, kc_time_t deadline)
{
    return kc_latch_wait_until(&o->latch, deadline);
}

static void latch_open(union object *o)
{
    kc_latch_count_down(&o->latch);
}

static void event_close(union object *o)
{
    o->event = (kc_event_t)KC_EVENT_INIT;
}

static int event_wait(union object *o)
{
    return kc_event_wait(&o->event);
}

static int event_wait_until(union object *o, kc_time_t deadline)
{
    return kc_event_wait_until(&o->event, deadline);
}

static void event_open(union object *o)
{
    kc_event_set(&o->event);
}

static void barrier_close(union object *o)
{
    o->barrier = (kc_barrier_t)KC_BARRIER_INIT(2);
}

static int barrier_wait(union object *o)
{
    return kc_barrier_wait(&o->barrier);
}

static void barrier_open(union object *o)
{
    CHECK_EQ(kc_barrier_wait(&o->barrier), 1);
}

static void cond_close(union object *o)
{
    o->when = (struct conditional){ KC_COND_INIT, KC_MUTEX_INIT };
}

static int cond_wait_until(union object *o, kc_time_t deadline)
{
    kc_mutex_t *m = &o->when.mutex;

    kc_mutex_lock_nocancel(m);
    int rc = deadline == KC_FOREVER ? kc_cond_wait(&o->when.cond, m)
                                    : kc_cond_wait_until(&o->when.cond, m, deadline);
    CHECK(kc__mutex_owner(m) == self()); /* always */
    kc_mutex_unlock(m);
    return rc;
}

static int cond_wait(union object *o)
{
    return cond_wait_until(o, KC_FOREVER);
}

static void cond_open(union object *o)
{
    kc_mutex_lock_nocancel(&o->when.mutex);
    kc_cond_signal(&o->when.cond);
    kc_mutex_unlock(&o->when.mutex);
}

static void leave_nothing(union object *o UNUSED)
{
}

static const struct way ways[] = {
    { "mutex", mutex_close, mutex_wait, mutex_wait_until, mutex_open, mutex_open, true },
    { "read", rwlock_close, read_wait, NULL, write_open, read_leave, true },
    { "write", rwlock_close, write_wait, NULL, write_open, write_open, true },
    { "sem", sem_close, sem_wait, sem_wait_until, sem_open, leave_nothing, true },
    { "latch", latch_close, latch_wait, latch_wait_until, latch_open, leave_nothing, true },
    { "event", event_close, event_wait, event_wait_until, event_open, leave_nothing, true },
    { "barrier", barrier_close, barrier_wait, NULL, barrier_open, leave_nothing, false },
    { "cond", cond_close, cond_wait, cond_wait_until, cond_open, leave_nothing, false },
};
enum { WAYS = sizeof ways / sizeof ways[0] };

#define EACH_WAY(w) for (const struct way *w = ways; (w) < ways + WAYS; (w)++)

/* ---- one who waits -------------------------------------------------------------------------- */

struct waiter {
    const struct way *way;
    union object *o;
    kc_time_t deadline; /* 0: none */
    count_t started, done;
    int plain; /* for a test's own use: written by one, read by another */
    int rc;    /* what the wait returned; known when done is 1 */
    kc_job_t *job;
};

static UNUSED int waiter_body(void *arg)
{
    struct waiter *w = arg;

    w->rc = w->deadline ? w->way->wait_until(w->o, w->deadline) : w->way->wait(w->o);
    if (w->rc == 0)
        w->way->leave(w->o);
    set(&w->done, 1);
    return 0;
}

/* A job with this body that stands in line for w->o now, behind all others. */
static UNUSED void enter_line(struct waiter *w, kc_fn_t body)
{
    int before = in_line(w->o);

    w->job = launch(body, w, NULL);
    UNTIL(in_line(w->o) == before + 1);
}

/* The same with a body that only waits. */
static UNUSED void enqueue_and_wait(struct waiter *w, const struct way *way, union object *o)
{
    *w = (struct waiter){ .way = way, .o = o };
    enter_line(w, waiter_body);
}

/* Its wait has returned so. */
static UNUSED void came_back(struct waiter *w, int rc)
{
    UNTIL(get(&w->done));
    if (w->rc != rc)
        FAIL("%s: the wait returned %d, not %d", w->way->name, w->rc, rc);
    if (w->job)
        kc_job_release(w->job);
}

/* Cancels a job with this body when it has set w->started, and waits until it is done. */
static UNUSED void cancel_when_started(struct waiter *w, kc_fn_t body)
{
    w->job = launch(body, w, NULL);
    UNTIL(get(&w->started));
    CHECK(kc_job_cancel(w->job, 0));
    came_back(w, 0);
}

static UNUSED pthread_t thread(void *(*fn)(void *), void *arg)
{
    pthread_t t;

    CHECK_EQ(pthread_create(&t, NULL, fn, arg), 0);
    return t;
}

/* ---- several who want the same -------------------------------------------------------------- */

enum { CROWD_THREADS = 2 };

/* So many jobs, and plain threads too, run this body; returns when all have added to out. */
static UNUSED void crowd_runs(kc_fn_t body, void *arg, int jobs, count_t *out)
{
    pthread_t t[CROWD_THREADS];

    for (int i = 0; i < CROWD_THREADS; i++)
        t[i] = thread_runs(body, arg);
    for (int i = 0; i < jobs; i++)
        CHECK_EQ(kc_launch(body, arg), 0);
    UNTIL(get(out) == jobs + CROWD_THREADS);
    for (int i = 0; i < CROWD_THREADS; i++)
        pthread_join(t[i], NULL);
}

/* On the heap; the last user frees it: who has unlocked it before must not touch it any more. */
struct shared {
    union object o;
    int users; /* under its lock */
    count_t *frees;
};

static UNUSED void free_shared(struct shared *s)
{
    count_t *frees = s->frees;

    memset(s, 0xab, sizeof *s);
    free(s);
    add(frees);
}

/* Three jobs and a plain thread run this body with the same struct shared, whose lock is free, and
 * one of them frees it; again and again. */
static UNUSED void share_and_free(kc_fn_t body, int rounds)
{
    enum { USERS = 4 };
    count_t frees = 0;

    for (int i = 0; i < rounds; i++) {
        struct shared *s = calloc(1, sizeof *s);
        CHECK(s != NULL);
        s->users = USERS;
        s->frees = &frees;
        for (int n = 1; n < USERS; n++)
            CHECK_EQ(kc_launch(body, s), 0);
        pthread_t t = thread_runs(body, s);
        UNTIL(get(&frees) == i + 1);
        pthread_join(t, NULL);
    }
}

#endif
