/* SPDX-License-Identifier: MIT */
/*
 * collect.c - several calls at once.
 *
 * WHAT     Each function but kc_any is a supervisor scope with one child for each call, and a rule
 *          that says what happens when a call has ended. So a cancel reaches the calls through the
 *          tree, and unwinding ends the scope like any other. kc_any has no scope: its children are
 *          the caller's, and the data that they share lives until the last child has ended.
 *
 *          Work that was done counts: a call that was told to stop and returned 0 nevertheless is a
 *          success, and a caller that was cancelled meanwhile still gets 0 if the calls that it
 *          waits for succeeded (A1).
 *
 * SHAPE    make all jobs --> attach all --> start all --> wait. No job runs before all are there,
 *          so the first to end finds the others.
 *
 * ORDER    id         site               operation     pairs with  carries
 *          collect.1  first, ...: index  cas_acq_rel   collect.1   exactly one is the first
 *          collect.2  unref              sub_acq_rel   collect.2   all uses before the free
 *          collect.3  winner             load_acquire  collect.1   (the index; results come by
 *                                                                  word.3)
 */
#include "base/os.h"
#include "job/body.h"
#include "job/cancel.h"
#include "job/job.h"
#include "job/launch.h"
#include "job/locals.h"
#include "job/payload.h"
#include "job/scope.h"

#include <kcoro/collect.h>

#include <errno.h>

/* Whom the end of a call cancels, or tells. */
typedef enum { TELL_ON_FIRST, STOP_ON_FIRST, STOP_ON_SUCCESS, STOP_ON_FAILURE } rule_t;

struct gather;

struct one {
    struct gather *gather;
    kc_job_t *job; /* a reference; NULL: it could not even be launched          */
    bool in_time;  /* >(its end) it was a success before the caller was cancelled */
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

/* False: there was one already. */
static bool note_first(KC_ATOMIC(size_t) * which, size_t index)
{
    size_t none = 0;

    return kc_cas_acq_rel(which, &none, index + 1); /* collect.1 */
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

    if (kc_sub_acq_rel(&g->refs, 1) == 1) /* collect.2 */
        gather_free(g);
}

/* Just before a job is terminal, so that nobody who has seen its end can be before it. */
static void one_ending(void *owner, uint64_t done)
{
    struct one *one = owner;
    struct gather *g = one->gather;
    size_t index = (size_t)(one - g->one);

    note_first(&g->first, index);
    if (kc__job_has_succeeded(one->job)) {
        /* Before the first one has ended we do not cancel the scope: then the caller was. */
        one->in_time = !g->scope || !(kc__job_word(g->scope) & KC_WORD_CANCELLED);
        note_first(&g->first_ok, index);
    } else if ((done & KC_WORD_DONE_FAILED) || (kc__job_word(one->job) & KC_WORD_TIMED)) {
        note_first(&g->first_failed, index); /* also if its own time was over */
    }
}

/* When it is, on whatever thread. */
static void one_ended(void *owner)
{
    struct one *one = owner;
    struct gather *g = one->gather;
    size_t index = (size_t)(one - g->one);
    bool first = kc_load_acquire(&g->first) == index + 1;               /* collect.3 */
    bool first_ok = kc_load_acquire(&g->first_ok) == index + 1;         /* collect.3 */
    bool first_failed = kc_load_acquire(&g->first_failed) == index + 1; /* collect.3 */

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

/* A job for the call, not in the tree. NULL: no memory. */
static kc_job_t *make_one(kc_sched_t *s, const kc_call_t *call, uint32_t flags, struct one *one)
{
    static const kc_launch_opts_t defaults;
    const kc_launch_opts_t *o = call->opts ? call->opts : &defaults;
    kc_job_spec_t spec = { .fn = call->fn,
                           .arg = call->arg,
                           .flags = flags | kc__launch_flags(o),
                           .refs = 1, /* the gather's */
                           .ext = true,
                           .inherits = true,
                           .opts = o };

    (void)kc__launch_place(o, s, &spec.where); /* there is one: see check */
    kc_job_t *j = kc__job_create(kc__thread(), s, spec);
    if (!j)
        return NULL;
    kc__job_ext(j)->ending = one_ending;
    kc__job_ext(j)->ended = one_ended;
    kc__job_ext(j)->owner = one;
    return j;
}

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
        g->one[i].gather = g;
        g->one[i].job = make_one(s, &calls[i], flags, &g->one[i]);
        if (!g->one[i].job) {
            gather_free(g);
            return NULL;
        }
    }
    return g;
}

/* All into the tree. */
static void enter_all(struct gather *g, kc_job_t *parent)
{
    for (size_t i = 0; i < g->n; i++) {
        kc__job_ref(g->one[i].job); /* for the tree */
        if (kc__job_enter(kc__worker(), kc__worker()->sched, parent, g->one[i].job) == 0)
            continue;
        g->one[i].job = NULL; /* the caller is cancelled meanwhile: it ends before it begins */
        if (g->told)
            gather_unref(g);
    }
}

/* Makes what tell_others needs, before anything runs. */
static bool make_signals(struct gather *g)
{
    for (size_t i = 0; (g->bits & ~KC_SIG_TERMINATE) && i < g->n; i++)
        if (g->one[i].job && !kc_job_signal(g->one[i].job))
            return false;
    return true;
}

/* There is no memory for all: none of them starts, and the arguments are still the caller's. */
static void take_back_all(struct gather *g)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->one[i].job) {
            kc__job_ext_of(g->one[i].job)->dispose = NULL;
            kc__job_cancel(g->one[i].job, -ECANCELED, KC_BY_USER);
            kc__launch_start(g->one[i].job);
        }
}

static void start_all(struct gather *g, const kc_call_t *calls)
{
    for (size_t i = 0; i < g->n; i++) {
        const kc_launch_opts_t *o = calls[i].opts;
        if (!o)
            continue;
        if (g->one[i].job)
            kc__options_arm(g->one[i].job, o);
        else if (o->dispose)
            kc__dispose(o->dispose, calls[i].arg);
    }
    for (size_t i = 0; i < g->n; i++)
        if (g->one[i].job)
            kc__launch_start(g->one[i].job);
}

/* All into the tree, below parent, and on their way. 0; -ENOMEM: none of them. */
static int launch_all(struct gather *g, kc_job_t *parent, const kc_call_t *calls)
{
    enter_all(g, parent);
    if (!make_signals(g)) {
        take_back_all(g);
        return -ENOMEM;
    }
    start_all(g, calls);
    return 0;
}

static int check_opts(const kc_launch_opts_t *o)
{
    kc_affinity_t where;
    int rc = kc__launch_check_call(o, KC_JOB_NOW | KC_JOB_UNWIND | KC_JOB_MIGRATE);

    return rc != 0 ? rc : kc__launch_place(o, kc__worker()->sched, &where);
}

/* 0; or why nothing is done at all. */
static int check(const kc_call_t *calls, size_t n)
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);
    int rc = 0;

    if (!co)
        return -EPERM;
    if (n > 0 && !calls)
        return -EINVAL;
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = calls[i].fn ? 0 : -EINVAL;
        if (rc == 0 && calls[i].opts)
            rc = check_opts(calls[i].opts);
    }
    return rc != 0 ? rc : kc_check();
}

/* The value of a call that was done is handed over, whatever the job's outcome is; that of another
 * call is disposed of here, because the last handle of its job may be released much later. */
static void fill_in(kc_call_t *call, kc_job_t *job)
{
    bool owned = job && kc__job_word(job) & KC_WORD_OWNED;

    call->payload = NULL;
    if (!job || !kc__job_has_succeeded(job)) {
        call->rc = job ? kc__job_result(job) : -ECANCELED;
        if (owned)
            kc__payload_replace(job, NULL);
        return;
    }
    call->rc = 0;
    call->payload = owned ? kc__payload_take(job) : job->task.payload;
}

/* ---- in a scope ----------------------------------------------------------------------------- */

struct options {
    rule_t rule;
    kc_sigset_t bits;
    uint32_t max_running;
};

/* What came of a call of run_all. */
struct found {
    size_t first, ok, failed; /* indexes + 1; 0: none                                  */
    bool first_in_time;       /* the first was a success before the caller was cancelled */
    bool ok_in_time;          /* the same of the first success                            */
};

static bool is_in_time(const struct gather *g, size_t which)
{
    return which > 0 && g->one[which - 1].in_time;
}

/* Runs all and fills their results in. */
static int run_all(kc_call_t *calls, size_t n, const struct options *options, struct found *found)
{
    kc_scope_t scope;
    struct gather *g = gather_new(calls, n, 0);

    if (!g)
        return -ENOMEM;
    KC_CLEANUP(gather_free, g); /* below the scope: unwound after it */
    g->rule = options->rule;
    g->bits = options->bits;
    kc_scope_opts_t opts = { .flags = KC_JOB_SUPERVISOR, .max_running = options->max_running };
    int rc = kc_scope_begin(&scope, &opts);
    if (rc != 0)
        return rc;
    g->scope = kc_scope_job(&scope);
    rc = launch_all(g, g->scope, calls);
    (void)!kc_scope_end(&scope);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        fill_in(&calls[i], g->one[i].job);
    found->first = kc_load_acquire(&g->first);         /* collect.3 */
    found->ok = kc_load_acquire(&g->first_ok);         /* collect.3 */
    found->failed = kc_load_acquire(&g->first_failed); /* collect.3 */
    found->first_in_time = is_in_time(g, found->first);
    found->ok_in_time = is_in_time(g, found->ok);
    return 0;
}

/* The first by index that is not 0; 0: there is none. */
static int first_not_0(const kc_call_t *calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (calls[i].rc != 0)
            return calls[i].rc;
    return 0;
}

/* If the caller is cancelled, it is told so here, or unwound. */
static int all(kc_call_t *calls, size_t n, const struct options *options)
{
    struct found found;

    int rc = check(calls, n);
    if (rc != 0 || n == 0)
        return rc;
    rc = run_all(calls, n, options, &found);
    if (rc != 0)
        return rc;
    int other = first_not_0(calls, n);
    /* Those that were stopped because the first had ended well are no failures. */
    bool stopped = (options->bits & KC_SIG_TERMINATE) && found.failed == 0 && found.ok > 0;
    if (other == 0 || (stopped && found.ok_in_time))
        return 0;
    rc = kc_check();
    if (rc != 0 || stopped)
        return rc;
    return found.failed > 0 ? calls[found.failed - 1].rc : other;
}

int kc_all(kc_call_t *calls, size_t n, kc_sigset_t after_first)
{
    return all(calls, n, &(struct options){ .rule = TELL_ON_FIRST, .bits = after_first });
}

int kc_all_fail_fast(kc_call_t *calls, size_t n)
{
    return all(calls, n, &(struct options){ .rule = STOP_ON_FAILURE });
}

int kc_all_window(kc_call_t *calls, size_t n, uint32_t max_running)
{
    return all(calls, n, &(struct options){ .rule = TELL_ON_FIRST, .max_running = max_running });
}

static int one_of(kc_call_t *calls, size_t n, rule_t rule, size_t *winner)
{
    bool race = rule == STOP_ON_FIRST;
    struct found found;

    int rc = n == 0 ? -EINVAL : check(calls, n);
    if (rc == 0)
        rc = run_all(calls, n, &(struct options){ .rule = rule }, &found);
    if (rc == 0 && !(race ? found.first_in_time : found.ok_in_time))
        rc = kc_check();
    if (rc != 0)
        return rc;
    size_t best = race || found.ok + found.failed == 0 ? found.first
                  : found.ok > 0                       ? found.ok
                                                       : found.failed;
    if (best == 0)
        return -ECANCELED; /* none could be launched */
    if (winner)
        *winner = best - 1;
    return calls[best - 1].rc;
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
    KC_CLEANUP(gather_unref, g);
    int launched = launch_all(g, kc__job_current(), calls);
    rc = kc_await(g->told, NULL);
    size_t first = kc_load_acquire(&g->first); /* collect.3 */
    if (launched != 0)
        return launched;
    if (rc != 0 || first == 0) {
        rc = kc_check();
        return rc != 0 ? rc : -ECANCELED;
    }
    fill_in(&calls[first - 1], g->one[first - 1].job);
    if (winner)
        *winner = first - 1;
    return calls[first - 1].rc;
}

/* ---- by time -------------------------------------------------------------------------------- */

KC_AFTER_SWITCH int kc_with_deadline(kc_time_t at, kc_fn_t fn, void *arg)
{
    int rc = fn ? check(NULL, 0) : -EINVAL;

    if (rc != 0)
        return rc;
    if (at <= kc_now())
        return -ETIMEDOUT;
    bool did;
    rc = kc__scope_run_until(fn, arg, at, &did);
    if (did) /* though its time was over, or the cancel had come (A3) */
        return 0;
    int here = rc == kc_cancel_reason() ? kc_check() : 0;
    return here != 0 ? here : rc;
}

KC_AFTER_SWITCH int kc_with_timeout(kc_time_t ns, kc_fn_t fn, void *arg)
{
    kc_time_t now = kc_now();

    return kc_with_deadline(ns <= 0                 ? now
                            : ns < KC_FOREVER - now ? now + ns
                                                    : KC_FOREVER,
                            fn, arg);
}
