/* SPDX-License-Identifier: MIT */
/*
 * collect.c - several calls at once.
 *
 * WHAT     All but kc_any are a supervisor scope around one child for each call, and a rule what
 *          happens when one has ended. So a cancel reaches the calls by the tree, and unwinding
 *          ends the scope like any other. kc_any has no scope: its children are the caller's, and
 *          what they share lives until the last has ended.
 *
 * SHAPE    make all jobs --> attach all --> submit all --> wait. Nothing runs before everything is
 *          there, so whoever ends first finds the others.
 *
 * ORDER    id  site                operation    pairs with  carries
 *          Q1  first, ...: index   cas_acq_rel  Q1          exactly one is the first
 *          Q2  unref               sub_acq_rel  Q2          all uses before the free
 *          Q3  winner              load_acquire Q1          (the index; results come by J5)
 */
#include "base/os.h"
#include "flow/job.h"

#include <kcoro/collect.h>

#include <errno.h>

/* Whom the end of a call cancels, or tells. */
typedef enum { TELL_ON_FIRST, STOP_ON_FIRST, STOP_ON_SUCCESS, STOP_ON_FAILURE } rule_t;

struct gather;

struct one {
    struct gather *gather;
    kc_job_t *job; /* a reference; NULL: it could not even be launched */
};

struct gather {
    KC_ATOMIC(size_t) first, first_ok, first_failed; /* A  index + 1; 0: none yet       */
    KC_ATOMIC(uint32_t) refs;                        /* A  kc_any only                  */
    rule_t rule;                                     /* I                               */
    kc_sigset_t bits;                                /* I  TELL_ON_FIRST: what          */
    kc_job_t *scope;     /* I  where they run; NULL: kc_any                           */
    kc_deferred_t *told; /* I  kc_any: completed by the first                         */
    size_t n;            /* I                                                        */
    struct one one[];
};

/* ---- when one has ended --------------------------------------------------------------------- */

static bool is_first(KC_ATOMIC(size_t) * which, size_t index)
{
    size_t none = 0;

    return kc_cas_acq_rel(which, &none, index + 1); /* Q1 */
}

static void tell_others(struct gather *g, size_t index)
{
    for (size_t i = 0; i < g->n; i++) {
        kc_job_t *job = g->one[i].job;
        if (i == index || !job)
            continue;
        if (g->bits & KC_SIG_TERMINATE)
            kc__job_cancel(job, -ECANCELED, KC_BY_USER);
        /* It has one, unless there was no memory for all of them: then none of them starts. */
        kc_signal_t *signal = g->bits & ~KC_SIG_TERMINATE ? kc_job_signal(job) : NULL;
        if (signal)
            kc_signal_emit(signal, g->bits & ~KC_SIG_TERMINATE);
    }
}

/* Gives up what a gather holds: of jobs that are not in the tree, their only reference. */
static void gather_free(void *arg)
{
    struct gather *g = arg;

    for (size_t i = 0; i < g->n; i++)
        if (g->one[i].job)
            kc__job_unref(g->one[i].job);
    kc_deferred_release(g->told);
    kc__free(g);
}

static void gather_unref(void *arg)
{
    struct gather *g = arg;

    if (kc_sub_acq_rel(&g->refs, 1) == 1) /* Q2 */
        gather_free(g);
}

/* Just before a job is terminal, so that nobody who has seen its end can be before it. */
static void one_ending(void *owner, uint64_t done)
{
    struct one *one = owner;
    struct gather *g = one->gather;
    size_t index = (size_t)(one - g->one);

    is_first(&g->first, index);
    if (done & KC_WORD_DONE_FAILED)
        is_first(&g->first_failed, index);
    else if (!(done & KC_WORD_DONE_CANCELLED))
        is_first(&g->first_ok, index);
}

/* When it is, on whatever thread. */
static void one_ended(void *owner)
{
    struct one *one = owner;
    struct gather *g = one->gather;
    size_t index = (size_t)(one - g->one);
    bool first = kc_load_acquire(&g->first) == index + 1;               /* Q3 */
    bool first_ok = kc_load_acquire(&g->first_ok) == index + 1;         /* Q3 */
    bool first_failed = kc_load_acquire(&g->first_failed) == index + 1; /* Q3 */

    if (g->rule == TELL_ON_FIRST && first && g->bits)
        tell_others(g, index);
    if ((g->rule == STOP_ON_FIRST && first) || (g->rule == STOP_ON_SUCCESS && first_ok) ||
        (g->rule == STOP_ON_FAILURE && first_failed))
        kc__job_cancel(g->scope, -ECANCELED, KC_BY_USER);
    if (g->told) {
        if (first)
            kc_promise_complete(g->told, 0, NULL);
        gather_unref(g);
    }
}

/* ---- making them ---------------------------------------------------------------------------- */

/* One job for each call, none in the tree. NULL: no memory. */
static struct gather *gather_new(const kc_call_t *calls, size_t n, uint32_t flags)
{
    kc_sched_t *s = kc__worker()->sched;
    struct gather *g = n < (SIZE_MAX - sizeof *g) / sizeof g->one[0]
                           ? kc__alloc(sizeof *g + n * sizeof g->one[0])
                           : NULL;

    if (!g)
        return NULL;
    g->n = n;
    for (size_t i = 0; i < n; i++) {
        kc_job_t *j = kc__job_new(s, flags, true);
        g->one[i].gather = g;
        g->one[i].job = j;
        if (!j || kc__locals_inherit(j, NULL) != 0) {
            gather_free(g);
            return NULL;
        }
        j->task.fn = calls[i].fn;
        j->task.arg = calls[i].arg;
        kc__job_ext(j)->ending = one_ending;
        kc__job_ext(j)->ended = one_ended;
        kc__job_ext(j)->owner = &g->one[i];
    }
    return g;
}

/* All into the tree, with a reference each for the gather. */
static void attach_all(struct gather *g, kc_job_t *parent)
{
    for (size_t i = 0; i < g->n; i++) {
        kc_job_t *j = g->one[i].job;
        kc_sched_t *s = kc__job_sched(j);
        int64_t at = kc__trace_time(s);
        kc_store_relaxed(&j->refs, 2);
        if (kc__job_attach(parent, j) == 0) {
            kc__job_created(s, j, at);
            continue;
        }
        kc__job_free(j); /* the caller is cancelled meanwhile: it ends before it begins */
        g->one[i].job = NULL;
        if (g->told)
            gather_unref(g);
    }
}

/* What tell_others needs, before anything runs. */
static bool have_signals(struct gather *g)
{
    for (size_t i = 0; (g->bits & ~KC_SIG_TERMINATE) && i < g->n; i++)
        if (g->one[i].job && !kc_job_signal(g->one[i].job))
            return false;
    return true;
}

static void submit_all(struct gather *g)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->one[i].job)
            kc__job_submit(g->one[i].job);
}

/* 0; or why nothing is done at all. */
static int check(const kc_call_t *calls, size_t n)
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);

    if (!co)
        return -EPERM;
    if (n > 0 && !calls)
        return -EINVAL;
    for (size_t i = 0; i < n; i++)
        if (!calls[i].fn)
            return -EINVAL;
    return kc_check();
}

static void fill_in(kc_call_t *call, kc_job_t *job)
{
    call->rc = job ? kc__job_result(job) : -ECANCELED;
    call->payload = NULL;
    if (job)
        (void)kc_deferred_get((kc_deferred_t *)job, &call->payload);
}

/* ---- in a scope ----------------------------------------------------------------------------- */

struct wish {
    rule_t rule;
    kc_sigset_t bits;
    uint32_t max_running;
};

/* Runs all and fills their results in. In *first and so on: indexes + 1. */
static int run_all(kc_call_t *calls, size_t n, const struct wish *wish, size_t *first,
                   size_t *first_ok, size_t *first_failed)
{
    kc_scope_t scope;
    struct gather *g = gather_new(calls, n, 0);

    if (!g)
        return -ENOMEM;
    KC_CLEANUP(gather_free, g); /* below the scope: unwound after it */
    g->rule = wish->rule;
    g->bits = wish->bits;
    kc_scope_opts_t opts = { .flags = KC_JOB_SUPERVISOR, .max_running = wish->max_running };
    int rc = kc_scope_begin(&scope, &opts);
    if (rc != 0)
        return rc;
    g->scope = kc_scope_job(&scope);
    attach_all(g, g->scope);
    if (!have_signals(g)) {
        kc__job_cancel(g->scope, -ECANCELED, KC_BY_USER); /* so that none of them starts */
        rc = -ENOMEM;
    }
    submit_all(g);
    (void)!kc_scope_end(&scope);
    for (size_t i = 0; i < n; i++)
        fill_in(&calls[i], g->one[i].job);
    *first = kc_load_acquire(&g->first);               /* Q3 */
    *first_ok = kc_load_acquire(&g->first_ok);         /* Q3 */
    *first_failed = kc_load_acquire(&g->first_failed); /* Q3 */
    return rc;
}

/* Nothing has failed, but rc is not 0: a call was cancelled, and not by us. If that was because the
 * caller is, it is told so here, or unwound. */
static int cancelled(int rc)
{
    int here = rc != 0 ? kc_check() : 0;

    return here != 0 ? here : rc;
}

/* What is not 0 though nothing has failed. */
static int first_cancelled(const kc_call_t *calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (calls[i].rc != 0)
            return cancelled(calls[i].rc);
    return 0;
}

static int all(kc_call_t *calls, size_t n, const struct wish *wish)
{
    size_t first, ok, failed;

    int rc = check(calls, n);
    if (rc != 0 || n == 0)
        return rc;
    rc = run_all(calls, n, wish, &first, &ok, &failed);
    if (rc != 0)
        return rc;
    if (failed > 0)
        return calls[failed - 1].rc;
    return wish->bits & KC_SIG_TERMINATE && ok > 0 ? 0 : first_cancelled(calls, n);
}

int kc_all(kc_call_t *calls, size_t n, kc_sigset_t after_first)
{
    return all(calls, n, &(struct wish){ .rule = TELL_ON_FIRST, .bits = after_first });
}

int kc_all_fail_fast(kc_call_t *calls, size_t n)
{
    return all(calls, n, &(struct wish){ .rule = STOP_ON_FAILURE });
}

int kc_all_window(kc_call_t *calls, size_t n, uint32_t max_running)
{
    return all(calls, n, &(struct wish){ .rule = TELL_ON_FIRST, .max_running = max_running });
}

static int one_of(kc_call_t *calls, size_t n, rule_t rule, size_t *winner)
{
    size_t first, ok, failed;

    int rc = n == 0 ? -EINVAL : check(calls, n);
    if (rc == 0)
        rc = run_all(calls, n, &(struct wish){ .rule = rule }, &first, &ok, &failed);
    if (rc != 0)
        return rc;
    size_t best = rule == STOP_ON_FIRST ? first : ok > 0 ? ok : failed > 0 ? failed : first;
    if (best == 0)
        return cancelled(-ECANCELED); /* none could be launched */
    if (winner)
        *winner = best - 1;
    rc = calls[best - 1].rc;
    return best == failed ? rc : cancelled(rc);
}

int kc_race(kc_call_t *calls, size_t n, size_t *winner)
{
    return one_of(calls, n, STOP_ON_FIRST, winner);
}

int kc_first_ok(kc_call_t *calls, size_t n, size_t *winner)
{
    return one_of(calls, n, STOP_ON_SUCCESS, winner);
}

/* ---- without waiting for the losers --------------------------------------------------------- */

int kc_any(kc_call_t *calls, size_t n, kc_sigset_t to_losers, size_t *winner)
{
    int rc = n == 0 ? -EINVAL : check(calls, n);
    struct gather *g = rc == 0 ? gather_new(calls, n, KC_JOB_ALONE) : NULL;

    if (!g)
        return rc ? rc : -ENOMEM;
    rc = kc__promise_of_ours(&g->told);
    if (rc != 0) {
        gather_free(g);
        return rc;
    }
    g->rule = TELL_ON_FIRST;
    g->bits = to_losers;
    kc_store_relaxed(&g->refs, (uint32_t)n + 1);
    attach_all(g, kc__job_current());
    bool enough = have_signals(g);
    if (!enough)
        for (size_t i = 0; i < n; i++)
            if (g->one[i].job)
                kc__job_cancel(g->one[i].job, -ECANCELED, KC_BY_USER);
    submit_all(g);
    KC_CLEANUP(gather_unref, g);
    rc = kc_await(g->told, NULL);
    size_t first = kc_load_acquire(&g->first); /* Q3 */
    if (!enough || rc != 0 || first == 0)
        return !enough ? -ENOMEM : cancelled(-ECANCELED);
    fill_in(&calls[first - 1], g->one[first - 1].job);
    if (winner)
        *winner = first - 1;
    return calls[first - 1].rc;
}

/* ---- by time -------------------------------------------------------------------------------- */

int kc_with_timeout(kc_time_t ns, kc_fn_t fn, void *arg)
{
    int rc = fn ? check(NULL, 0) : -EINVAL;

    if (rc != 0)
        return rc;
    if (ns <= 0)
        return -ETIMEDOUT;
    rc = kc_scope(fn, arg, &(kc_scope_opts_t){ .timeout = ns == KC_FOREVER ? 0 : ns });
    return rc != 0 && rc == kc_cancel_reason() ? cancelled(rc) : rc;
}

int kc_with_deadline(kc_time_t at, kc_fn_t fn, void *arg)
{
    kc_time_t now = kc_now();

    return kc_with_timeout(at == KC_FOREVER ? KC_FOREVER : at > now ? at - now : 0, fn, arg);
}
