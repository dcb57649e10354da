/* SPDX-License-Identifier: MIT */
/*
 * join.c - waiting for a job, and the value that it hands over.
 *
 * A deferred value is its job: kc_deferred_t is a name for the same block.
 *
 * ORDER    id      site        operation     pairs with  carries
 *          join.1  look: word  load_acquire  word.2      outcome and payload: D1
 */
#include "job/join.h"

#include "coro/object.h"
#include "job/body.h"
#include "job/job.h"
#include "job/launch.h"
#include "job/payload.h"

#include <errno.h>

/* ---- who is above whom ---------------------------------------------------------------------- */

bool kc__join_is_above(const kc_job_t *j, const kc_job_t *current)
{
    while (current->task.depth > j->task.depth)
        current = current->parent;
    return current == j;
}

/* The outermost of the caller's scopes and job that is cancelled: what is below it is too. */
static kc_job_t *cancelled_top(kc_job_t *current)
{
    while ((kc__job_flags(current) & KC_JOB_SCOPE) && kc__job_is_stopped(current->parent))
        current = current->parent;
    return current;
}

/* j has not ended and is below top. Its lock keeps it, and so all above it, from ending. */
static bool is_below(kc_job_t *j, const kc_job_t *top)
{
    uint64_t word = kc__job_lock(j);
    const kc_job_t *at = j;

    if (!(word & KC_WORD_DONE))
        while (at->task.depth > top->task.depth)
            at = at->parent;
    kc__job_unlock(j);
    return at == top && j != top;
}

/* ---- join ----------------------------------------------------------------------------------- */

/* Queues w with those who wait for j. False: it has ended. */
KC_INLINE bool enqueue(kc_thread_t *t, kc_job_t *j, kc_wait_t *w)
{
    kc_sched_t *s = kc__job_sched(j);
    int64_t at = kc__trace_time(s);
    uint64_t word = kc__job_lock(j);
    bool waits = !(word & KC_WORD_DONE);

    if (waits)
        kc__wait_link(&j->waiters, &w->link);
    kc__job_unlock_to(j, word | (waits ? KC_WORD_WAITERS : 0));
    if (waits) {
        kc__count_on(t->worker, s, KC_COUNT_WAITS);
        KC_TRACE(s, .kind = KC_EVENT_WAIT_REGISTER, .at = at, .job = kc__job_number(j),
                 .other = w->co ? kc__job_number(kc__job_of(w->co->task)) : 0);
    }
    return waits;
}

bool kc__join_enqueue(kc_thread_t *t, kc_job_t *j, kc_wait_t *w)
{
    return enqueue(t, j, w);
}

/* w is not claimed by the end of j. Returns the word of j. */
static uint64_t dequeue(kc_job_t *j, kc_wait_t *w)
{
    uint64_t word = kc__job_lock(j);

    kc__wait_unlink(&j->waiters, &w->link);
    kc__job_unlock_to(j, word);
    return word;
}

bool kc__join_has_failed(uint64_t word)
{
    return (word & KC_WORD_COUNT) == 0 && (!(word & KC_WORD_DONE) || (word & KC_WORD_DONE_FAILED));
}

void kc__join_uncancellable(kc_job_t *j)
{
    kc_wait_t w;

    kc__wait_begin_uncancellable(&w, KC_WAIT_JOIN, j);
    if (enqueue(kc__thread(), j, &w))
        (void)kc__wait_commit(&w, KC_FOREVER);
}

/* The caller was cancelled. If j has failed, that may be why: then it gets the code. What is below
 * the caller is cancelled too, and is waited for (J6). word: of j. */
static int join_cancelled(kc_job_t *j, kcoro_t *co, uint64_t word)
{
    if (kc__join_has_failed(word)) {
        kc__join_uncancellable(j);
        return kc__job_result(j);
    }
    if (is_below(j, cancelled_top(kc__job_of(co->task))))
        kc__join_uncancellable(j);
    return kc__job_cancelled_here(co);
}

KC_INLINE int join(kc_job_t *j, kc_time_t deadline)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);
    kc_wait_t w;

    uint64_t word = kc_load_acquire(&j->task.word); /* join.1 */
    if (word & KC_WORD_DONE)
        return kc__job_result(
            j); /* also in a job that is cancelled: there is nothing to wait for */
    if (co && kc__join_is_above(j, kc__job_of(co->task)))
        return -EDEADLK;
    if (kc_unlikely(!co))
        kc__sched_check_process(kc__job_sched(j));
    else if (kc_unlikely(kc_load_acquire(&co->task->word) & KC_WORD_STOP)) /* join.1 */
        return join_cancelled(j, co, kc__word_seen(&j->task));
    kc__wait_begin_on(t, co, &w, KC_WAIT_JOIN, j);
    if (!enqueue(t, j, &w))
        return kc__job_result(j);
    int rc = kc__wait_commit_on(t, co, &w, deadline);
    if (kc_likely(rc == 0))
        return kc__job_result(j);
    word = dequeue(j, &w);
    if (rc != -ECANCELED || !co) /* only bodies are cancelled */
        return rc;
    return join_cancelled(j, co, word);
}

KC_AFTER_SWITCH int kc_job_join(kc_job_t *j)
{
    return j ? join(kc__job_live("kc_job_join", j), KC_FOREVER) : -EINVAL;
}

KC_AFTER_SWITCH int kc_job_join_until(kc_job_t *j, kc_time_t deadline)
{
    return j ? join(kc__job_live("kc_job_join_until", j), deadline) : -EINVAL;
}

/* ---- deferred values ------------------------------------------------------------------------ */

/* A handle that the user gives: aborts if it is none. */
KC_INLINE kc_job_t *deferred(const char *call, const kc_deferred_t *d)
{
    if (kc_unlikely(!kc__object_is(d, KC_TASK_MAGIC)))
        kc__object_not_live(call, "deferred", "J32", d);
    return (kc_job_t *)(uintptr_t)d;
}

int kc_async_job(kc_fn_t fn, void *arg, const kc_launch_opts_t *opts, kc_deferred_t **out)
{
    kc_job_t *j;

    int rc = kc_launch_job(fn, arg, opts, out ? &j : NULL);
    if (rc == 0 && out)
        *out = (kc_deferred_t *)j;
    return rc;
}

void kc_set_payload(void *payload)
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);

    if (!co)
        kc__usage("kc_set_payload", "there is no current job " KC_RULE("D4"));
    kc_job_t *j = kc__job_of(co->task);
    bool lost = false; /* a cleanup asks after a failure: nobody gets it */
    if (kc_unlikely(kc__job_flags(j) & (KC_JOB_SCOPE | KC_JOB_CODED))) {
        j = kc__job_own(co);
        lost = kc__job_flags(j) & KC_JOB_CODED;
    }
    if (kc_unlikely(kc__job_word(j) & KC_WORD_OWNED))
        kc__payload_replace(j, payload);
    if (!lost)
        j->task.payload = payload;
}

/* The value of a job that has ended, for who takes it. */
static void *payload_of(kc_job_t *j)
{
    uint64_t word = kc_load_acquire(&j->task.word); /* join.1 */

    if (kc_likely(!(word & (KC_WORD_DONE_FAILED | KC_WORD_DONE_CANCELLED | KC_WORD_OWNED))))
        return j->task.payload;
    return word & (KC_WORD_DONE_FAILED | KC_WORD_DONE_CANCELLED) ? NULL : kc__payload_take(j);
}

KC_AFTER_SWITCH int kc_await(kc_deferred_t *d, void **payload)
{
    kc_job_t *j = d ? deferred("kc_await", d) : NULL;
    int rc = j ? join(j, KC_FOREVER) : -EINVAL;

    if (payload)
        *payload = rc == 0 ? payload_of(j) : NULL;
    return rc;
}

int kc_deferred_get(kc_deferred_t *d, void **payload)
{
    if (!d)
        return -EINVAL;
    kc_job_t *j = deferred("kc_deferred_get", d);
    if (!(kc_load_acquire(&j->task.word) & KC_WORD_DONE)) /* join.1 */
        return -EAGAIN;
    int rc = kc__job_result(j);
    if (payload)
        *payload = payload_of(j);
    return rc;
}

kc_deferred_state_t kc_deferred_state(const kc_deferred_t *d)
{
    switch (kc_job_state(deferred("kc_deferred_state", d))) {
    case KC_JOB_COMPLETED:
        return KC_DEFERRED_COMPLETED;
    case KC_JOB_FAILED:
        return KC_DEFERRED_FAILED;
    case KC_JOB_CANCELLED:
        return KC_DEFERRED_CANCELLED;
    case KC_JOB_ACTIVE:
    case KC_JOB_CANCELLING:
        break;
    }
    return KC_DEFERRED_PENDING;
}

kc_job_t *kc_deferred_job(kc_deferred_t *d)
{
    return deferred("kc_deferred_job", d);
}

kc_deferred_t *kc_deferred_retain(kc_deferred_t *d)
{
    kc__job_ref(deferred("kc_deferred_retain", d));
    return d;
}

void kc_deferred_release(kc_deferred_t *d)
{
    if (d)
        kc__job_give_up(deferred("kc_deferred_release", d));
}

void kc_deferred_drop(kc_deferred_t *d)
{
    if (d) {
        kc_job_cancel(kc__job_live("kc_deferred_drop", d), 0);
        kc__job_give_up((kc_job_t *)d);
    }
}

int kc_promise_complete(kc_deferred_t *d, int rc, void *payload)
{
    kc_job_t *j = d ? deferred("kc_promise_complete", d) : NULL;

    if (!j || (kc__job_flags(j) & (KC_JOB_PROMISE | KC_JOB_ONESHOT)) != KC_JOB_PROMISE)
        return -EINVAL;
    return kc__promise_keep(j, rc, payload);
}

int kc__promise_keep(kc_job_t *j, int rc, void *payload)
{
    uint64_t word = kc__job_lock(j);
    if (word & (KC_WORD_CLOSED | KC_WORD_CANCELLED)) { /* a cancel closes it in a moment */
        bool cancelled = !j->task.wait;
        kc__job_unlock(j);
        return cancelled ? -ECANCELED : -EALREADY;
    }
    j->task.payload = payload;
    j->task.arg = j; /* kept: whatever comes now comes too late */
    if (rc == -ECANCELED)
        j->reason = rc;
    else
        j->code = rc;
    kc__job_unlock_to(j, word | KC_WORD_CLOSED | (rc == -ECANCELED ? KC_WORD_CANCELLED : 0));
    kc__group_end(j);
    return 0;
}
