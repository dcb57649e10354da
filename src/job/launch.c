/* SPDX-License-Identifier: MIT */
/*
 * launch.c - how jobs come into the tree: launches, groups, leases, promises.
 *
 * WHAT     All that can fail is done before the job is in the tree; from then on it ends like any
 *          other.
 */
#include "job/launch.h"

#include "coro/object.h"
#include "job/cancel.h"
#include "job/end.h"
#include "job/external.h"
#include "job/root.h"
#include "sched/inbox.h"
#include "sched/no_stack.h"
#include "sched/worker.h"
#include "signal/handler.h"

/* ---- launch --------------------------------------------------------------------------------- */

/* A detached job has of .parent nothing but its scheduler, which must not end meanwhile. */
KC_INLINE bool has_borrowed_sched(const kc_launch_opts_t *o)
{
    return o->parent && !o->sched && (o->flags & KC_JOB_DETACHED);
}

/* Where a new job is to be: made by thread t, below parent, in sched. By value, so that a launch
 * without options keeps none of it in memory. */
typedef struct {
    kc_thread_t *t;
    kc_sched_t *sched;
    kc_job_t *parent;
    kc_affinity_t where;
    bool inherits; /* the values of its parent */
    int rc;        /* 0: leave_place must follow; else why there is no place */
} place_t;

/* KC_JOB_NOW runs on the caller's thread, in a job (J20): *where is that, then. */
static bool find_now(kc_sched_t *s, kc_affinity_t *where)
{
    kc_thread_t *t = kc__thread();
    kc_affinity_t here = KC_HERE;

    if (!kc__task_coroutine(t->current) || t->worker->sched != s)
        return false;
    if (kc__signal_is_in_handler())
        kc__usage("kc_launch_job", "KC_JOB_NOW inside a handler or dispose " KC_RULE("G6"));
    (void)kc__sched_find(s, &here);
    bool same = *where == KC_WORKER || *where == here;
    *where = here;
    return same;
}

/* Nothing but a child of the caller's job, in its scheduler, where that likes. */
KC_INLINE bool is_ordinary(const kc_launch_opts_t *o)
{
    return !o->parent && !o->sched && o->affinity == KC_WORKER &&
           !(o->flags & (KC_JOB_DETACHED | KC_JOB_NOW));
}

KC_INLINE place_t ordinary_place(void)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);

    if (kc_unlikely(!co))
        return (place_t){ .t = t, .rc = -EPERM };
    return (place_t){ .t = t,
                      .sched = t->worker->sched,
                      .parent = kc__job_of(co->task),
                      .where = KC_WORKER,
                      .inherits = kc__job_ext_of(kc__job_own(co)) };
}

static int find(const kc_launch_opts_t *o, place_t *p)
{
    if (o->parent)
        p->parent = kc__job_live("kc_launch_job: .parent", o->parent);
    if (o->sched)
        kc__sched_check("kc_launch_job: .sched", o->sched);
    if (!p->parent && !o->sched)
        return -EPERM;
    p->inherits = true;
    p->sched = o->sched ? o->sched : kc__job_sched(p->parent);
    p->where = o->affinity;
    if (!kc__sched_find(p->sched, &p->where))
        return -EINVAL;
    kc__sched_check_process(p->sched);
    if ((o->flags & KC_JOB_NOW) && !find_now(p->sched, &p->where))
        return -EINVAL;
    p->t = kc__thread_make();
    if (!p->t)
        return -ENOMEM;
    if (has_borrowed_sched(o) && !kc__job_count_up(o->parent))
        return -ESHUTDOWN;
    bool detached = o->flags & KC_JOB_DETACHED;
    if (!p->parent || detached)
        p->parent = kc__root_for(p->sched, detached);
    return 0;
}

static place_t find_place(const kc_launch_opts_t *o)
{
    place_t p = ordinary_place();

    p.rc = find(o, &p);
    return p;
}

KC_INLINE void leave_place(const kc_launch_opts_t *o)
{
    if (kc_unlikely(has_borrowed_sched(o)))
        kc__job_count_down_there(o->parent);
}

KC_INLINE int check(const kc_launch_opts_t *o)
{
    if ((o->flags & ~(uint32_t)KC_JOB_PUBLIC) || o->timeout < 0 || o->grace < 0)
        return -EINVAL;
    if ((o->flags & KC_JOB_ALONE) && (o->flags & KC_JOB_DETACHED))
        return -EINVAL; /* nobody's child has nobody to fail */
    return kc_likely(kc__stack_can_fit(o->stack)) ? 0 : -ENOMEM;
}

int kc__launch_check_call(const kc_launch_opts_t *o, uint32_t flags)
{
    return o->parent || o->sched || (o->flags & ~flags) ? -EINVAL : check(o);
}

int kc__launch_place(const kc_launch_opts_t *o, kc_sched_t *s, kc_affinity_t *where)
{
    *where = o->affinity;
    bool there = kc__sched_find(s, where) && (!(o->flags & KC_JOB_NOW) || find_now(s, where));
    return there ? 0 : -EINVAL;
}

/* The thread that keeps the time of a job without a body, and ends it if it fails: not the
 * caller's, which may compute for long. */
static kc_worker_t *keeper_of(kc_sched_t *s)
{
    const kc_worker_t *me = kc__worker();

    if (s->workers == 0)
        return s->main;
    return s->worker[me && me->sched == s && me != s->main ? (me->index + 1) % s->workers : 0];
}

/* A job with these options, of this kind, not in the tree yet. NULL: no memory. */
KC_INLINE kc_job_t *make(const kc_launch_opts_t *o, place_t p, kc_call_t call, uint32_t kind,
                         uint32_t refs)
{
    return kc__job_create(p.t, p.sched,
                          (kc_job_spec_t){ .fn = call.fn,
                                           .arg = call.arg,
                                           .where = call.fn ? p.where : KC_WORKER,
                                           .flags = kc__launch_flags(o) | kind,
                                           .refs = refs,
                                           .inherits = p.inherits,
                                           .from = o->parent,
                                           .opts = o });
}

KC_INLINE int enter(const kc_launch_opts_t *o, place_t p, kc_job_t *j)
{
    if (is_ordinary(o) || kc__job_sched(p.parent) == p.sched)
        return kc__job_enter(p.t->worker, p.sched, p.parent, j);
    return kc__job_enter_foreign(p.t->worker, p.parent, j);
}

/* Starts j here and now; the caller goes on when it suspends. */
static void run_now(kc_job_t *j)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);

    kc_store_relaxed(&j->task.worker, t->worker);
    int rc = kc__task_hooks.start(&j->task);
    if (rc == 0) {
        kc__worker_run_now(t, co, j->task.co);
        kc_thread_t *here = kc__thread();
        here->worker->launcher = NULL;
        kc__wait_spend(here, co); /* it went on before all who were ready */
    } else if (rc == -ENOMEM) {
        kc__worker_no_stack(t->worker, &j->task, true); /* it starts as soon as there is one */
    } else if (rc == -EBUSY) {
        kc__task_submit(&j->task); /* it ends unstarted, on the thread's own stack */
    }
}

/* Its body may run: now, or when a thread comes to it; or its parent lets it wait. ordinary: any
 * thread of the caller's scheduler may start it, of which w is one. */
KC_INLINE void start(kc_worker_t *w, kc_job_t *j, bool ordinary, bool now)
{
    if (kc__job_admit(j)) {
        if (now)
            run_now(j);
        else if (ordinary)
            kc__worker_submit(w, &j->task);
        else
            kc__task_submit(&j->task);
    }
}

void kc__launch_start(kc_job_t *j)
{
    start(NULL, j, false, kc__job_flags(j) & KC_JOB_NOW);
}

KC_INLINE int launch_at(place_t p, kc_call_t call, const kc_launch_opts_t *o, kc_job_t **out)
{
    kc_job_t *j = make(o, p, call, 0, out ? 2 : 1);
    int rc = kc_likely(j) ? enter(o, p, j) : -ENOMEM;

    leave_place(o);
    if (kc_likely(rc == 0)) {
        if (out)
            *out = j;          /* before it can start */
        kc__options_arm(j, o); /* it counts its body, which has not begun: so it cannot end here */
        start(p.t->worker, j, is_ordinary(o), o->flags & KC_JOB_NOW);
    }
    return rc;
}

/* Where the options ask for nothing, most of this is nothing. */
KC_INLINE int launch(kc_call_t call, const kc_launch_opts_t *o, kc_job_t **out)
{
    int rc = call.fn ? check(o) : -EINVAL;

    if (rc != 0)
        return rc;
    place_t p = is_ordinary(o) ? ordinary_place() : find_place(o);
    if (p.rc != 0)
        return p.rc;
    if (is_ordinary(o))
        return launch_at(p, call, o, out);
    bool foreign = kc__external_begin_foreign(p.sched);
    rc = launch_at(p, call, o, out);
    if (foreign)
        kc__external_end(p.sched);
    return rc;
}

static const kc_launch_opts_t defaults = { .parent = NULL };

int kc_launch(kc_fn_t fn, void *arg)
{
    return launch((kc_call_t){ .fn = fn, .arg = arg }, &defaults, NULL);
}

int kc_async(kc_fn_t fn, void *arg, kc_deferred_t **out)
{
    return launch((kc_call_t){ .fn = fn, .arg = arg }, &defaults, (kc_job_t **)out);
}

int kc_launch_job(kc_fn_t fn, void *arg, const kc_launch_opts_t *opts, kc_job_t **out)
{
    return launch((kc_call_t){ .fn = fn, .arg = arg }, opts ? opts : &defaults, out);
}

/* ---- groups, promises, leases --------------------------------------------------------------- */

/* A job without a body. */
static int bodiless(const kc_launch_opts_t *opts, uint32_t kind, kc_job_t **out)
{
    const kc_launch_opts_t *o = opts ? opts : &defaults;
    bool held = (kind & (KC_JOB_PROMISE | KC_JOB_INTERNAL)) == KC_JOB_PROMISE;

    int rc = out && !(o->flags & KC_JOB_NOW) ? check(o) : -EINVAL;
    if (rc != 0)
        return rc;
    place_t p = find_place(o);
    if (p.rc != 0)
        return p.rc;
    if (held)
        kc__external_begin(p.sched);
    uint32_t refs = kind & KC_JOB_ONESHOT ? 4 : 3; /* one is ours until it is armed */
    kc_job_t *j = make(o, p, (kc_call_t){ 0 }, kind | KC_TASK_BODILESS, refs);
    if (j)
        kc_store_relaxed(&j->task.worker, keeper_of(p.sched));
    rc = j ? enter(o, p, j) : -ENOMEM;
    leave_place(o);
    if (rc != 0) {
        if (held)
            kc__external_take_back(p.sched);
        return rc;
    }
    kc__options_arm(j, o);
    *out = j;
    kc__job_unref(j);
    return 0;
}

int kc__promise_of_ours(kc_deferred_t **out)
{
    kc_job_t *j;

    int rc = bodiless(NULL, KC_JOB_PROMISE | KC_JOB_INTERNAL, &j);
    if (rc == 0)
        *out = (kc_deferred_t *)j;
    return rc;
}

int kc_group_create(const kc_launch_opts_t *opts, kc_job_t **out)
{
    return bodiless(opts, KC_JOB_GROUP, out);
}

int kc_promise(const kc_launch_opts_t *opts, kc_deferred_t **out)
{
    kc_job_t *j;

    int rc = out ? bodiless(opts, KC_JOB_PROMISE, &j) : -EINVAL;
    if (rc == 0)
        *out = (kc_deferred_t *)j;
    return rc;
}

int kc__promise_for_resolver(const kc_launch_opts_t *opts, kc_job_t **out)
{
    return bodiless(opts, KC_JOB_PROMISE | KC_JOB_ONESHOT, out);
}

void kc__group_end(kc_job_t *j)
{
    kc_sched_t *s = kc__job_sched(j);
    bool held = (kc__job_flags(j) & (KC_JOB_PROMISE | KC_JOB_INTERNAL)) == KC_JOB_PROMISE;

    kc__tsan_release(j);
    kc__job_count_down(j, 0);
    if (held) /* last: what the release has brought must be there when main looks again */
        kc__external_end(s);
}

int kc_group_close(kc_job_t *group)
{
    if (!group || !(kc__job_flags(kc__job_live("kc_group_close", group)) & KC_JOB_GROUP))
        return -EINVAL;
    if (!(kc__job_change(group, KC_WORD_CLOSED, 0) & KC_WORD_CLOSED))
        kc__group_end(group);
    return 0;
}

int kc_lease_take(kc_job_t *j, kc_lease_t *lease)
{
    if (!j || !lease)
        return -EINVAL;
    kc__job_live("kc_lease_take", j);
    uint64_t number;
    kc_ticket_t *ticket = kc__ticket_get(KC_LEASE_MAGIC, j, &number);
    if (!ticket)
        return -ENOMEM;
    if (!kc__job_count_up(j)) {
        kc__ticket_put(ticket, KC_LEASE_MAGIC, number);
        return -ESHUTDOWN;
    }
    kc__external_begin(kc__job_sched(j));
    *lease = (kc_lease_t){ j, ticket, number };
    return 0;
}

void kc_lease_release(kc_lease_t *lease)
{
    kc_job_t *j = lease ? lease->job : NULL;

    if (!j)
        return;
    if (!kc__ticket_put(lease->ticket, KC_LEASE_MAGIC, lease->number))
        kc__usage("kc_lease_release", "a copy of a lease that was released " KC_RULE("J32"));
    lease->job = NULL;
    kc_sched_t *s = kc__job_sched(j);
    kc__job_count_down_there(
        j); /* handlers of what ends, or hears of it, are not run here (J14) */
    kc__external_end(s);
}
