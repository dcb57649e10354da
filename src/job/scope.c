/* SPDX-License-Identifier: MIT */
/*
 * scope.c - scopes: a piece of a body with a job of its own.
 *
 * WHAT     A scope is a job whose body is the coroutine that has opened it, from begin to end. Its
 *          parent is the scope around it, or the coroutine's own job, so a cancel reaches it by the
 *          tree like any other. The coroutine's list of cleanups has a mark for it: that tells
 *          which cleanups are the scope's, and ends it when the body is unwound.
 */
#include "job/scope.h"

#include "job/body.h"
#include "job/failure.h"
#include "job/grace.h"
#include "job/create.h"
#include "job/end.h"

#include <errno.h>

void kc__scope_mark(void *arg)
{
    (void)arg; /* reached only when a coroutine inside a body ends and has left its scope open */
    kc__usage("end of a coroutine", "a scope is still open " KC_RULE("J25"));
}

static void push_mark(kc_scope_t *s, kcoro_t *in)
{
    s->mark.fn = kc__scope_mark;
    s->mark.arg = s;
    s->mark.where = in;
    s->mark.next = in->cleanups;
    in->cleanups = &s->mark;
}

static void remove_mark(kc_scope_t *s)
{
    kcoro_t *in = s->mark.where;
    kc_cleanup_t **link = &in->cleanups;

    while (*link && *link != &s->mark)
        link = &(*link)->next;
    if (!*link)
        kc__usage("kc_scope_end", "the scope was opened by another coroutine " KC_RULE("J25"));
    *link = s->mark.next;
}

/* deadline: 0: the timeout of opts begins now. */
static int begin(kc_scope_t *s, const kc_scope_opts_t *opts, kc_time_t deadline)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);

    if (!s || (opts->flags & ~(uint32_t)KC_JOB_SUPERVISOR) || opts->timeout < 0 || opts->grace < 0)
        return -EINVAL;
    if (!co)
        return -EPERM;
    kc_job_t *parent = kc__job_of(co->task);
    kc_launch_opts_t asked = {
        .name = opts->name, .timeout = opts->timeout, .grace = opts->grace, .signal = opts->signal
    };
    kc_job_spec_t spec = { .flags = opts->flags | KC_JOB_SCOPE,
                           .refs = 2, /* the tree's and the handle's */
                           .opts = &asked,
                           .max_running = opts->max_running };
    kc_job_t *j = kc__job_create(t, t->worker->sched, spec);
    if (!j)
        return -ENOMEM;
    kc_store_relaxed(&j->task.word, 1 | KC_WORD_BODY | KC_WORD_STARTED);
    kc_store_relaxed(&j->task.worker, t->worker);
    j->task.co = co;
    kc_store_relaxed(&parent->task.kind, KC_WAIT_SCOPE);
    (void)kc__job_enter(t->worker, t->worker->sched, parent, j); /* which takes a scope always */
    s->job = j;
    push_mark(s, t->current);
    co->task = &j->task;
    if (kc_unlikely(kc__job_word(j) & KC_WORD_CANCELLED))
        kc__grace_begin(j, true); /* which needs no memory */
    if (deadline)
        kc__job_set_deadline(j, deadline);
    else
        kc__options_arm(j, &asked);
    return 0;
}

int kc_scope_begin(kc_scope_t *s, const kc_scope_opts_t *opts)
{
    static const kc_scope_opts_t defaults;

    return begin(s, opts ? opts : &defaults, 0);
}

KC_AFTER_SWITCH int kc__scope_close(kcoro_t *co, kc_scope_t *s, int rc, bool *undone)
{
    kc_job_t *j = s->job;

    if (j->shields > 0)
        kc__usage("kc_scope_end", "a shield is still open in the scope " KC_RULE("J25"));
    kc_job_t *parent = j->parent;
    kc__job_settle(j, rc);
    do { /* until nobody has launched into it meanwhile: then it ends here */
        kc__job_clean_up(j, s->mark.where, &s->mark);
        if (kc_unlikely(kc__job_word(j) & KC_WORD_FAILED))
            kc__failure_of_scope(j, kc__job_own(co));
    } while (!kc__job_count_down_last(j, KC_WORD_BODY));
    remove_mark(s);
    co->task = &parent->task;
    kc_store_relaxed(&parent->task.kind, KC_WAIT_NONE);
    rc = kc__job_result(j);
    if (undone)
        *undone = kc__job_word(j) & (KC_WORD_UNDONE | KC_WORD_FAILED);
    kc__job_unref(j);
    return rc;
}

/* The coroutine whose current scope s is. */
static kcoro_t *innermost(kc_scope_t *s)
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);

    if (!s->job || !co || co->task != &s->job->task)
        kc__usage("kc_scope_end",
                  "it is not the innermost open scope of the caller " KC_RULE("J25"));
    return co;
}

KC_AFTER_SWITCH int kc_scope_end(kc_scope_t *s)
{
    if (!s)
        return -EINVAL;
    kcoro_t *co = innermost(s);
    int rc = kc__scope_close(co, s, 0, NULL);
    s->job = NULL;
    return rc;
}

kc_job_t *kc_scope_job(kc_scope_t *s)
{
    if (!s || !s->job)
        kc__usage("kc_scope_job", "the scope is not open " KC_RULE("J0"));
    return s->job;
}

KC_AFTER_SWITCH int kc__scope_run_until(kc_fn_t fn, void *arg, kc_time_t deadline, bool *did)
{
    kc_scope_t s;
    bool undone = true;

    *did = false;
    int rc = deadline == KC_FOREVER ? kc_scope_begin(&s, NULL)
                                    : begin(&s, &(kc_scope_opts_t){ .timeout = 1 }, deadline);
    if (rc < 0)
        return rc;
    rc = fn(arg);
    *did = rc == 0;
    rc = kc__scope_close(innermost(&s), &s, rc, &undone);
    *did = *did && !undone;
    return rc;
}

KC_AFTER_SWITCH int kc_scope(kc_fn_t fn, void *arg, const kc_scope_opts_t *opts)
{
    kc_scope_t s;

    if (!fn)
        return -EINVAL;
    int rc = kc_scope_begin(&s, opts);
    if (rc < 0)
        return rc;
    rc = fn(arg);
    return kc__scope_close(innermost(&s), &s, rc, NULL);
}
