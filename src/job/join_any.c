/* SPDX-License-Identifier: MIT */
/*
 * join_any.c - waiting for the first of several jobs.
 *
 * WHAT     A wait for the first of several jobs has a stand-in in the queue of each of them: a wait
 *          without a coroutine (its co is NULL), so that the end of a job, which claims it like the
 *          wait of a plain thread, need not know of it. A stand-in that is woken claims the real
 *          wait, under the lock of what they share (struct several). The waiter and each stand-in
 *          that has been claimed have a reference on that.
 *
 * SHAPE    in queues, one after the other --begin_real--> a stand-in that is woken ends the wait
 *          over: by a stand-in, by a cancel, or before it has begun --leave_queues--> in none
 *
 * WHO      several: L(lock); standin[i].wait: L(the job), until it is claimed; then the thread that
 *          ends that job has it, until it gives its reference up.
 *
 * ORDER    id          site         operation     pairs with  carries; what breaks if weaker
 *          join_any.1  unref: refs  sub_acq_rel   join_any.1  all uses before the free
 *          join_any.2  ended: word  load_acquire  word.2      the outcome
 */
#include "base/lock.h"
#include "base/os.h"
#include "job/body.h"
#include "job/job.h"
#include "job/join.h"

#include <errno.h>

struct several;

struct standin {
    kc_wait_t wait; /* in the wait queue of a job */
    struct several *of;
};

struct several {
    KC_ATOMIC(uint32_t) refs; /* A  who waits, and the stand-ins in lines, or claimed          */
    kc_spin_t lock;
    kc_wait_t *wait; /* L  the real one; NULL: it has not begun, or is over                   */
    bool ended;      /* L  one of the jobs has ...                                            */
    size_t which;    /* L  ... this one, the first by time                                    */
    size_t n;        /* O  so many stand in lines, from the first on                          */
    struct standin standin[];
};

static void several_unref(struct several *all)
{
    if (kc_sub_acq_rel(&all->refs, 1) == 1) /* join_any.1 */
        kc__free(all);
}

void kc__join_wake(kc_wait_t *w)
{
    struct standin *me = kc_container_of(w, struct standin, wait);
    struct several *all = me->of;

    kc__spin_lock(&all->lock);
    kc_wait_t *real = all->wait;
    bool claimed = real && kc__wait_claim(real, 0);
    all->wait = NULL;
    if (!all->ended)
        all->which = (size_t)(me - all->standin);
    all->ended = true;
    kc__spin_unlock(&all->lock);
    if (claimed)
        kc__wait_wake(real);
    several_unref(all);
}

/* Takes a stand-in out of the wait queue of j. False: it is claimed, as j has ended or is about to.
 * word: what that of j is. */
static bool leave_queue(kc_job_t *j, kc_wait_t *w, uint64_t *word)
{
    *word = kc__job_lock(j);
    bool waits = kc_load_relaxed(&w->word) == 0; /* it is claimed under this lock */
    if (waits)
        kc__wait_unlink(&j->waiters, &w->link);
    kc__job_unlock_to(j, *word);
    return waits;
}

/* From now on no stand-in ends the wait. Those that are still in their lines leave. Returns the
 * index of the first whose job has failed, else that has ended, or is about to; n: none. */
static size_t leave_queues(struct several *all, kc_job_t *const *jobs, size_t n, bool *failed)
{
    size_t ended = n;

    kc__spin_lock(&all->lock);
    all->wait = NULL;
    kc__spin_unlock(&all->lock);
    *failed = false;
    for (size_t i = 0; i < all->n; i++) {
        uint64_t word;
        if (leave_queue(jobs[i], &all->standin[i].wait, &word)) {
            several_unref(all);
        } else if (ended == n || (!*failed && (word & KC_WORD_FAILED))) {
            ended = i;
            *failed = word & KC_WORD_FAILED;
        }
    }
    return ended;
}

/* In all lines, but for those after a job that has ended: NULL: no memory. */
static struct several *stand_in_queues(kc_thread_t *t, kc_job_t *const *jobs, size_t n)
{
    size_t size = sizeof(struct standin);
    struct several *all = n < SIZE_MAX / size - 1 ? kc__alloc(sizeof *all + n * size) : NULL;

    if (!all)
        return NULL;
    kc_store_relaxed(&all->refs, 1);
    for (; all->n < n; all->n++) {
        struct standin *s = &all->standin[all->n];
        s->of = all;
        s->wait.kind = KC_WAIT_STANDIN;
        kc_add_relaxed(&all->refs, 1);
        if (!kc__join_enqueue(t, jobs[all->n], &s->wait)) {
            several_unref(all);
            break;
        }
    }
    return all;
}

/* From now on a stand-in may end w. False: one would have, or a job had ended before. */
static bool begin_real(struct several *all, size_t n, kc_wait_t *w)
{
    kc__spin_lock(&all->lock);
    if (!all->ended && all->n < n) {
        all->ended = true;
        all->which = all->n;
    }
    bool begins = !all->ended;
    all->wait = begins ? w : NULL;
    kc__spin_unlock(&all->lock);
    return begins;
}

/* 0; or why they cannot be waited for. */
static int check_several(kc_job_t *const *jobs, size_t n, const kcoro_t *co)
{
    if (n == 0 || !jobs)
        return -EINVAL;
    for (size_t i = 0; i < n; i++)
        if (!jobs[i])
            return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        const kc_job_t *j = kc__job_live("kc_join_any", jobs[i]);
        if (co && kc__join_is_above(j, kc__job_of(co->task)))
            return -EDEADLK;
    }
    return 0;
}

/* The first that has ended; n: none. */
static size_t first_ended(kc_job_t *const *jobs, size_t n)
{
    size_t i = 0;

    while (i < n && !(kc_load_acquire(&jobs[i]->task.word) & KC_WORD_DONE)) /* join_any.2 */
        i++;
    return i;
}

/* The caller was cancelled. That one of them has failed, or is about to have, may be why (J6). */
static size_t first_failed(kc_job_t *const *jobs, size_t n)
{
    size_t i = 0;

    while (i < n && !kc__join_has_failed(kc__word_seen(&jobs[i]->task)))
        i++;
    return i;
}

/* Waits until one has ended. rc: why it did not wait for that. Returns which one; n: none. */
KC_INLINE size_t wait_for_one(kc_thread_t *t, kcoro_t *co, kc_job_t *const *jobs, size_t n,
                              int *rc)
{
    kc_wait_t w;

    kc__wait_begin_on(t, co, &w, KC_WAIT_JOIN_ANY, NULL);
    struct several *all = stand_in_queues(t, jobs, n);
    *rc = all ? 0 : -ENOMEM;
    if (!all)
        return n;
    if (begin_real(all, n, &w))
        *rc = kc__wait_commit(&w, KC_FOREVER);
    bool failed, stopped = co && kc__job_is_stopped(kc__job_of(co->task));
    size_t ended = leave_queues(all, jobs, n, &failed);
    if (*rc == 0 && !(failed && stopped)) /* what comes of a failure may end before it has */
        ended = all->which;
    several_unref(all);
    return ended;
}

KC_AFTER_SWITCH int kc_join_any(kc_job_t *const *jobs, size_t n, size_t *which)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);

    int rc = check_several(jobs, n, co);
    if (rc != 0)
        return rc;
    size_t i = first_ended(jobs, n);
    if (i == n && co && kc__job_is_stopped(kc__job_of(co->task))) {
        rc = -ECANCELED;
        i = first_failed(jobs, n);
    } else if (i == n) {
        if (!co)
            kc__sched_check_process(kc__job_sched(jobs[0]));
        i = wait_for_one(t, co, jobs, n, &rc);
    }
    if (i == n)
        return rc == -ECANCELED ? kc__job_cancelled_here(co) : rc;
    if (rc != 0)
        kc__join_uncancellable(
            jobs[i]); /* it was about to end before the cancel came: then that counts */
    if (which)
        *which = i;
    return 0;
}
