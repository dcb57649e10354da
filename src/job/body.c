/* SPDX-License-Identifier: MIT */
/*
 * body.c - the coroutine of a job: it runs, returns or is unwound, and its cleanups run.
 *
 * SHAPE    start (body_start.c) --> fn(arg) --> settle --> [cleanups: drain, then run them
 *          shielded, as long as there are any] --> the next stack reaps the coroutine and gives up
 *          the body's count. Without cleanups the stack goes back at once, and the last child ends
 *          the job.
 *
 *          A list of cleanups, newest first:  KC_CLEANUP nodes (of a block), kc_defer nodes (of a
 *          scope or body), marks (of open scopes). The end of a scope runs the kc_defer nodes above
 *          its mark; unwinding takes all from the top.
 *
 * ORDER    id      site         operation      pairs with  carries
 *          body.2  here: word   load_acquire   word.2      TERMINATE on its signal, for who is told
 *                                                          -ECANCELED
 *          body.3  returned:    load_acquire   body.1      what it returned
 *                  flags
 *          body.4  returned:    load_acquire   word.1      that BODY is gone, and so what body.1
 *                  word                                    has set: else a failure would be taken
 *                                                          for a 0
 */
#include "job/body.h"

#include "base/os.h"
#include "coro/coro_end.h"
#include "job/body_start.h"
#include "job/cancel.h"
#include "job/describe.h"
#include "job/end.h"
#include "job/held.h"
#include "job/job.h"
#include "job/scope.h"
#include "job/shield.h"
#include "sched/worker.h"
#include "signal/handler.h"

#include <errno.h>

void kc__dispose(void (*fn)(void *arg), void *arg)
{
    struct kc_handler_state *h = kc__handler_state();

    kc__handler_begin(h);
    fn(arg);
    kc__handler_end(h);
}

/* ---- end ------------------------------------------------------------------------------------ */

struct settle {
    kc_job_t *job;
    int rc;
};

/* Those who listen hear of it as of all that the library does by itself: not in this body. */
static void settle(void *arg)
{
    const struct settle *s = arg;

    if (s->rc == -ECANCELED)
        kc__job_cancel(s->job, -ECANCELED, KC_BY_BODY);
    else
        kc__job_fail(s->job, s->rc, NULL);
}

void kc__job_settle(kc_job_t *j, int rc)
{
    if (rc == 0 || (rc == -ECANCELED && (kc__job_word(j) & KC_WORD_CANCELLED)))
        return; /* in the second case, to be asked to end again changes nothing */
    uint64_t word = kc__job_lock(j);
    int reason = j->reason;
    kc__job_unlock(j);
    if ((word & KC_WORD_CANCELLED) && rc == reason)
        rc = -ECANCELED;
    kc__worker_call(settle, &(struct settle){ j, rc });
}

/* The newest kc_defer above `end`, taken out of the list. */
static kc_cleanup_t *take_deferred(kcoro_t *co, const kc_cleanup_t *end)
{
    for (kc_cleanup_t **link = &co->cleanups; *link && *link != end; link = &(*link)->next) {
        kc_cleanup_t *c = *link;
        if (!c->where) {
            *link = c->next;
            return c;
        }
    }
    return NULL;
}

static void run_deferred(kc_cleanup_t *c)
{
    void (*fn)(void *) = c->fn;
    void *arg = c->arg;

    kc__free(c);
    fn(arg);
}

/* Neither a body nor its cleanups may leave anything open. */
static void check_closed(kc_job_t *j, kcoro_t *co, uint32_t shields)
{
    if (co->task != &j->task)
        kc__usage("end of a body", "a scope is still open " KC_RULE("J25"));
    if (j->shields != shields)
        kc__usage("end of a body", "a shield is still open " KC_RULE("J25"));
}

KC_AFTER_SWITCH void kc__job_clean_up(kc_job_t *j, kcoro_t *co, kc_cleanup_t *end)
{
    kcoro_t *task = j->task.co; /* co may be a coroutine inside it */
    kc_cleanup_t *c;

    kc__job_drain(j);
    while ((c = take_deferred(co, end)) != NULL) {
        kc__job_shield(j);
        do {
            run_deferred(c);
            check_closed(j, task, 1);
        } while ((c = take_deferred(co, end)) != NULL);
        kc__job_unshield(j);
        kc__job_drain(j); /* cleanups may launch */
    }
}

/* The body has returned rc, or is unwound. Nobody gets the payload of one that has failed (D1). */
static void note_return(kc_job_t *j, int rc)
{
    if (kc__job_flags(j) & KC_JOB_NO_RETURN)
        return;
    if (rc != 0)
        j->task.returned = rc;
    kc__body_add_flag(j, rc != 0 ? KC_JOB_RETURNED | KC_JOB_CODED : KC_JOB_RETURNED);
}

/* What most bodies return, 0, and that they have, is not noted anywhere: they have left. */
int kc__job_returned(const kc_job_t *j, int *rc)
{
    uint64_t word = kc_load_acquire(&j->task.word);         /* body.4 */
    uint32_t flags = kc_load_acquire(&j->task.block.flags); /* body.3 */

    if (flags & (KC_JOB_SCOPE | KC_JOB_NO_RETURN | KC_TASK_BODILESS))
        return -ENOENT;
    if (!(word & KC_WORD_STARTED))
        return word & (KC_WORD_STOP | KC_WORD_DONE) ? -ENOENT : -EAGAIN;
    if ((word & KC_WORD_BODY) && !(flags & KC_JOB_RETURNED))
        return -EAGAIN;
    if (rc)
        *rc = flags & KC_JOB_CODED ? j->task.returned : 0;
    return 0;
}

int kc_job_returned(const kc_job_t *j, int *rc)
{
    return j ? kc__job_returned(kc__job_live("kc_job_returned", j), rc) : -EINVAL;
}

uint64_t kc__job_undone(const kc_job_t *j, uint64_t done)
{
    uint32_t flags = kc__job_flags(j);
    int rc;

    if (flags & (KC_JOB_ALONE | KC_JOB_SCOPE | KC_JOB_INTERNAL))
        return 0; /* its own business, or the library's */
    if ((flags & KC_JOB_PROMISE) && (done & KC_WORD_DONE_FAILED))
        return 0; /* a value */
    bool did = !(done & KC_WORD_DONE_FAILED) && kc__job_returned(j, &rc) == 0 && rc == 0;
    return did ? 0 : KC_WORD_UNDONE;
}

bool kc__job_has_succeeded(const kc_job_t *j)
{
    uint64_t word = kc__job_word(j);
    int rc;

    /* If nobody has asked it to stop, it has completed, whatever its children left undone (J2). */
    if ((word & KC_WORD_FAILED) || ((word & KC_WORD_CANCELLED) && (word & KC_WORD_UNDONE)))
        return false;
    return kc__job_returned(j, &rc) == 0 && rc == 0;
}

/* The body has failed, or has something to clean up: not in a forked child, where the end of a body
 * is found out only when it has left. */
static void end_body_with(kc_job_t *j, kcoro_t *co, int rc)
{
    kc__sched_check_process(kc__job_sched(j));
    note_return(j, rc);
    if (rc != 0)
        kc__job_settle(j, rc);
    if (co->cleanups)
        kc__job_clean_up(j, co, NULL);
}

static KC_NOINLINE void check_held(const kc_job_t *j, const kcoro_t *co)
{
    uint16_t count = kc__held_count(&j->task);
    kc_text_t names = { "" }, line = { "" };

    if (count == 0 || count == KC_HELD_MANY)
        return;
    bool known = kc__text_add_held(&names, co);
    kc__text_add(&line, "it still holds a lock " KC_RULE("Y3") "%s%s", known ? ": " : "",
                 names.text);
    kc__usage("end of a body", line.text);
}

/* What is to be done on the stack of a body that has returned, or is unwound. */
KC_INLINE void end_body(kc_job_t *j, kcoro_t *co, int rc)
{
    check_closed(j, co, 0);
    if (rc != 0 || co->cleanups != NULL)
        end_body_with(j, co, rc);
    if (j->task.held > 0)
        check_held(j, co);
}

/* If others may hear of the end of j, that is for the thread's own stack. NULL: they do not. */
static kcoro_t *next_if_heard(const kc_job_t *j)
{
    return kc__job_end_is_heard(j) ? kc__thread()->main_co : NULL;
}

/* ---- unwinding ------------------------------------------------------------------------------ */

/*
 * The body is not resumed (J17). On its own stack, above the frame that waits: what it has open is
 * ended from the top of the list. Cleanups of a scope or body wait for its children before.
 */
static _Noreturn void unwind(kcoro_t *co)
{
    kc__body_add_flag(kc__job_own(co), KC_JOB_NO_RETURN);
    while (co->cleanups) {
        kc_cleanup_t *c = co->cleanups;
        kc_job_t *j = kc__job_of(co->task);
        if (c->fn == kc__scope_mark) {
            kc_scope_t *scope = c->arg;
            (void)kc__scope_close(co, scope, 0, NULL);
            continue;
        }
        if (!c->where)
            kc__job_drain(j);
        co->cleanups = c->next;
        kc__job_shield(j);
        if (c->where)
            c->fn(c->arg);
        else
            run_deferred(c);
        kc__job_unshield(j);
    }
    kc_job_t *own = kc__job_own(co);
    end_body(own, co, -ECANCELED);
    kc__worker_end(co, &own->task, next_if_heard(own));
}

/* Inside a shield or cleanup nothing is unwound, not even when its time is over (J27). */
static bool is_shielded(kcoro_t *co)
{
    kc_job_t *j = kc__job_of(co->task);

    while (j->shields == 0 && (kc__job_flags(j) & KC_JOB_SCOPE))
        j = j->parent;
    return j->shields > 0;
}

int kc__job_cancelled_here(kcoro_t *co)
{
    kc_job_t *own = kc__job_own(co);

    (void)kc_load_acquire(&co->task->word); /* body.2 */
    kc__tsan_acquire(co->task);
    /* A coroutine inside the body (a generator) hears of it, and the body at its next call. */
    if ((kc__job_flags(own) & KC_JOB_UNWIND) && kc__job_is_stopped(own) &&
        kc__thread()->current == co && !is_shielded(co))
        unwind(co);
    return -ECANCELED;
}

/* ---- run ------------------------------------------------------------------------------------ */

/* A coroutine for next, which is to run when me, whose body has returned, is gone: on its stack,
 * or, where a stack is to be one coroutine's, on its own. NULL: it cannot be so. */
static kcoro_t *successor(kc_thread_t *t, kcoro_t *me, kc_job_t *next)
{
    const kc_sched_t *s = t->worker->sched;

    if (!kc__body_can_inherit(next) || !kc__coro_may_hand_over(me, s->fp_control))
        return NULL;
    if (kc__tools || kc__os_debug())
        return kc__coro_task(t, &next->task, s->stack_size, s->stack_class, s->fp_control);
    return kc__coro_successor(t, me, &next->task);
}

static void drop_successor(kc_thread_t *t, kcoro_t *me, kcoro_t *co)
{
    if (co->stack == me->stack)
        kc__block_put(&t->blocks, &co->block);
    else
        kc__coro_task_end(t, co);
}

/* A job that waits to be started and has begun: its coroutine is to go on after me. NULL: none. */
static kcoro_t *begin_another(kc_thread_t *t, kcoro_t *me)
{
    kc_task_t *task;

    while ((task = kc__worker_next_body(t->worker)) != NULL) {
        kc_job_t *next = kc__job_of(task);
        kcoro_t *co = successor(t, me, next);
        if (!co) {
            kc__worker_put_back(t->worker, task); /* it needs a stack of its own */
            return NULL;
        }
        task->co = co;
        if (kc__body_begin(next))
            return co;
        task->co = NULL;
        drop_successor(t, me, co);
        kc__worker_put_back(t->worker, task); /* it ends unstarted, but not here */
        return NULL;
    }
    return NULL;
}

/*
 * j has returned, and nothing is ready: if a job waits to be started, it begins, before whoever
 * waits for j goes on. On the same stack, as a coroutine of its own: returns that. NULL: me should
 * leave, for *to; NULL: for whoever is next.
 */
static kcoro_t *next_body(kcoro_t *me, kc_job_t *j, kcoro_t **to)
{
    kc_thread_t *t = kc__thread();
    bool may =
        kc__worker_has_unstarted(t->worker) && kc__body_can_inherit(j) && !kc__job_end_is_heard(j);
    kcoro_t *co = may ? begin_another(t, me) : NULL;

    *to = co;
    if (!co)
        return NULL;
    kc__worker_count(t->worker, KC_COUNT_SPAWNS);
    if (co->stack != me->stack)
        return NULL;
    t->current = co;
    kc__worker_count(t->worker, KC_COUNT_REAPED);
    kc__worker_forget(t->worker, &j->task);
    kc__worker_begin_turn(t->worker, co);
    kc__job_count_down(j, KC_WORD_BODY); /* before me goes: who has seen BODY looks at it */
    kc__coro_hand_over(t, me);
    return co;
}

void kc__body_run(kcoro_t *me)
{
    for (kcoro_t *next, *to;; me = next) {
        kc_task_t *task = me->task;
        kc_job_t *j = kc__job_of(task);
        kc_fn_t fn = task->fn;
        void *arg = task->arg;

        task->payload = NULL;
        task->wait = NULL;
        end_body(j, me, fn(arg));
        next = next_body(me, j, &to);
        if (!next)
            kc__worker_end(me, task, to ? to : next_if_heard(j));
    }
}
