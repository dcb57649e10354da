/* SPDX-License-Identifier: MIT */
/*
 * launch.c - how jobs come into the tree: launches, groups, leases, promises.
 *
 * WHAT     All that can fail is done before the job is in the tree; from then on it ends like any
 *          other.
 *
 * ORDER    id        site   operation    pairs with  carries; what breaks if weaker
 *          launch.1  holds  sub_acq_rel  itself      (the count alone: it says whether all wait for
 *                                                    ever)
 */
#include "job/launch.h"

#include "coro/object.h"
#include "job/cancel.h"
#include "job/grace.h"
#include "job/job_signal.h"
#include "job/locals.h"
#include "job/root.h"
#include "job/job_timer.h"
#include "sched/idle.h"
#include "sched/inbox.h"
#include "sched/no_stack.h"
#include "sched/worker.h"
#include "signal/handler.h"

#include <errno.h>
#include <string.h>

/* ---- what options ask for ------------------------------------------------------------------- */

bool kc__options_has_any(const struct kc_job_options *o)
{
    return o->name || o->stack || o->timeout || o->grace || o->max_running || o->dispose ||
           o->signal;
}

static void time_out(kc_job_t *j)
{
    kc__job_cancel(j, -ETIMEDOUT, KC_BY_TIMEOUT);
}

int kc__options_prepare(kc_job_t *j, const struct kc_job_options *o)
{
    if (!kc__options_has_any(o))
        return 0;
    kc_job_ext_t *ext = kc__job_ext(j);
    ext->born = kc__sched_now(kc__job_sched(j));
    ext->dated = true;
    kc__tsan_hide(); /* the dump may look at it on any thread */
    if (o->name)
        memcpy(ext->name, o->name, strnlen(o->name, sizeof ext->name - 1));
    kc__tsan_show();
    ext->stack = o->stack;
    ext->max_running = o->max_running;
    ext->dispose = o->dispose;
    if (o->timeout && !(ext->timeout = kc__job_timer_new(j, time_out)))
        return -ENOMEM;
    if (o->grace && kc__grace_prepare(j, o->grace) != 0)
        return -ENOMEM;
    return o->signal ? kc__job_signal_prepare(j, o->signal) : 0;
}

void kc__options_arm(kc_job_t *j, const struct kc_job_options *o)
{
    if (o->signal)
        kc__job_signal_bind(j);
    if (!o->timeout)
        return;
    kc_job_ext_t *ext = kc__job_ext(j);
    kc__job_lock(j);
    kc_job_timer_t *timer = ext->timeout;
    if (timer)
        kc__job_timer_ref(timer);
    kc__job_unlock(j);
    if (!timer)
        return; /* it has ended already */
    kc__job_timer_arm(timer, kc__sched_after(kc__job_sched(j), o->timeout));
    kc__job_timer_unref(timer);
}

/* ---- launch --------------------------------------------------------------------------------- */

/* A detached job has of .parent nothing but its scheduler, which must not end meanwhile. */
static bool has_borrowed_sched(const kc_launch_opts_t *o)
{
    return o->parent && !o->sched && (o->flags & KC_JOB_DETACHED);
}

/* Whose child it will be, and in which scheduler. After 0 leave_place must follow. */
static int find_place(const kc_launch_opts_t *o, kc_job_t **parent, kc_sched_t **s,
                      kc_affinity_t *where)
{
    kc_job_t *above =
        o->parent ? kc__job_live("kc_launch_job: .parent", o->parent) : kc__job_current();

    if (!above && !o->sched)
        return -EPERM;
    if (o->sched)
        kc__sched_check("kc_launch_job: .sched", o->sched);
    *s = o->sched ? o->sched : kc__job_sched(above);
    *where = o->affinity;
    if (!kc__sched_find(*s, where))
        return -EINVAL;
    kc__sched_check_process(*s);
    if (has_borrowed_sched(o) && !kc__job_count_up(o->parent))
        return -ESHUTDOWN;
    bool detached = o->flags & KC_JOB_DETACHED;
    *parent = above && !detached ? above : kc__root_for(*s, detached);
    return 0;
}

static void leave_place(const kc_launch_opts_t *o)
{
    if (kc_unlikely(has_borrowed_sched(o)))
        kc__job_count_down_there(o->parent);
}

static int check(const kc_launch_opts_t *o)
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

/* KC_JOB_NOW runs on the caller's thread, in a job (J20). */
static int check_now(const kc_launch_opts_t *o, kc_sched_t *s, kc_affinity_t *where)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);

    if (!(o->flags & KC_JOB_NOW))
        return 0;
    if (!co || t->worker->sched != s)
        return -EINVAL;
    if (kc__signal_is_in_handler())
        kc__usage("kc_launch_job", "KC_JOB_NOW inside a handler or dispose " KC_RULE("G6"));
    kc_affinity_t here = KC_HERE;
    (void)kc__sched_find(s, &here);
    if (*where != KC_WORKER && *where != here)
        return -EINVAL;
    *where = here;
    return 0;
}

int kc__launch_place(const kc_launch_opts_t *o, kc_sched_t *s, kc_affinity_t *where)
{
    *where = o->affinity;
    return kc__sched_find(s, where) ? check_now(o, s, where) : -EINVAL;
}

/* A job that may be attached, with all that it needs. */
static int make(kc_sched_t *s, const kc_launch_opts_t *o, uint32_t kind, kc_job_t **out)
{
    struct kc_job_options options = kc__options_of(o);
    kc_job_t *j = kc__job_new(s, kc__launch_flags(o) | kind, kc__options_has_any(&options));

    if (!j)
        return -ENOMEM;
    int rc = kc__options_prepare(j, &options);
    if (rc == 0)
        rc = kc__locals_inherit(j, o->parent);
    if (rc != 0) {
        kc__job_free(j);
        return rc;
    }
    *out = j;
    return 0;
}

static void arm(kc_job_t *j, const kc_launch_opts_t *o)
{
    struct kc_job_options options = { .timeout = o->timeout, .signal = o->signal };

    kc__options_arm(j, &options);
}

/* j's parent is in another scheduler: its own must wait for it too, and find it at its end. */
static int enter_foreign(kc_job_t *parent, kc_job_t *j)
{
    kc_sched_t *s = kc__job_sched(j), *above = kc__job_sched(parent);
    kc_job_t *root = kc__job_of(s->main->root);

    if (!kc__job_ext(j))
        return -ENOMEM;
    uint32_t more = KC_JOB_FOREIGN | (above->grace ? KC_JOB_GRACED : 0u);
    kc_store_relaxed(&j->task.block.flags, kc__job_flags(j) | more);
    kc__root_count_up(root);
    kc_add_relaxed(&above->external,
                   KC_EXTERNAL_ONE);    /* they wait for what others do: until job_end */
    kc_store_relaxed(&j->task.word, 2); /* so a promise cannot end before it is known below */
    int rc = kc__job_word(root) & KC_WORD_HALT ? -ESHUTDOWN : kc__job_attach(parent, j);
    if (rc != 0) {
        kc__external_end(above);
        kc__job_count_down(root, 0);
        return rc;
    }
    kc__foreign_add(j);
    kc__job_count_down(j, 0);
    return 0;
}

/* Into the tree, with so many references. If that fails, it is freed. */
static int enter(kc_job_t *parent, kc_job_t *j, uint32_t refs)
{
    kc_sched_t *s = kc__job_sched(j);
    int64_t at = kc__trace_time(s);

    kc_store_relaxed(&j->refs, refs);
    int rc = kc_likely(kc__job_sched(parent) == kc__job_sched(j)) ? kc__job_attach(parent, j)
                                                                  : enter_foreign(parent, j);
    if (kc_unlikely(rc != 0)) {
        kc__job_free(j);
        return rc;
    }
    kc__job_created(s, j, at);
    return 0;
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

KC_INLINE void start(kc_job_t *j, bool now)
{
    if (!kc__job_admit(j))
        return;
    if (now)
        run_now(j);
    else
        kc__task_submit(&j->task);
}

void kc__launch_start(kc_job_t *j)
{
    start(j, kc__job_flags(j) & KC_JOB_NOW);
}

/* A child of the current job, with all defaults. As kc_async_job. */
KC_INLINE int launch_plain(kc_fn_t fn, void *arg, kc_deferred_t **out)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);

    if (kc_unlikely(!fn || !co))
        return fn ? -EPERM : -EINVAL;
    kc_worker_t *w = t->worker;
    kc_job_t *parent = kc__job_of(co->task);
    kc_job_t *j = kc__job_make(t, w->sched, 0, fn, arg, out ? 2 : 1);
    if (kc_unlikely(!j))
        return -ENOMEM;
    if (kc_unlikely(kc__job_ext_of(kc__job_own(co))) && kc__locals_inherit(j, NULL) != 0) {
        kc__job_free(j);
        return -ENOMEM;
    }
    int64_t at = kc_unlikely(kc__worker_has_mode(w, KC_MODE_TRACE)) ? kc__os_now() : 0;
    int rc = kc__job_attach(parent, j);
    if (kc_unlikely(rc != 0)) {
        kc__job_free(j);
        return rc;
    }
    kc__worker_count(w, KC_COUNT_CREATED);
    if (kc_unlikely(kc__worker_has_mode(w, KC_MODE_TRACE))) /* as kc__job_created does */
        kc__job_record(w->sched, j, at, KC_EVENT_CREATE);
    if (out)
        *out = (kc_deferred_t *)j; /* before it can start */
    if (kc__job_admit(j))
        kc__worker_submit(w, &j->task);
    return 0;
}

int kc_launch(kc_fn_t fn, void *arg)
{
    return launch_plain(fn, arg, NULL);
}

int kc_async(kc_fn_t fn, void *arg, kc_deferred_t **out)
{
    return launch_plain(fn, arg, out);
}

int kc_launch_job(kc_fn_t fn, void *arg, const kc_launch_opts_t *opts, kc_job_t **out)
{
    static const kc_launch_opts_t defaults;
    const kc_launch_opts_t *o = opts ? opts : &defaults;
    kc_affinity_t where;
    kc_job_t *parent, *j;
    kc_sched_t *s;

    int rc = fn ? check(o) : -EINVAL;
    if (rc == 0)
        rc = find_place(o, &parent, &s, &where);
    if (rc != 0)
        return rc;
    rc = check_now(o, s, &where);
    if (rc != 0) {
        leave_place(o);
        return rc;
    }
    bool foreign = kc__external_begin_foreign(s);
    rc = make(s, o, 0, &j);
    if (rc == 0) {
        j->task.fn = fn;
        j->task.arg = arg;
        j->task.where = (int8_t)where;
        rc = enter(parent, j, out ? 2 : 1);
    }
    leave_place(o);
    if (rc == 0) {
        if (out)
            *out = j;
        arm(j, o); /* it counts its body, which has not begun: so it cannot end here */
        start(j, o->flags & KC_JOB_NOW);
    }
    if (foreign)
        kc__external_end(s);
    return rc;
}

/* ---- groups, promises, leases --------------------------------------------------------------- */

/* The thread that keeps the time of a job without a body, and ends it if it fails: not the
 * caller's, which may compute for long. */
static kc_worker_t *keeper_of(kc_sched_t *s)
{
    const kc_worker_t *me = kc__worker();

    if (s->workers == 0)
        return s->main;
    return s->worker[me && me->sched == s && me != s->main ? (me->index + 1) % s->workers : 0];
}

/* A job without a body. */
static int bodiless(const kc_launch_opts_t *opts, uint32_t kind, kc_job_t **out)
{
    static const kc_launch_opts_t defaults;
    const kc_launch_opts_t *o = opts ? opts : &defaults;
    kc_affinity_t where;
    kc_job_t *parent, *j;
    kc_sched_t *s;

    int rc = out && !(o->flags & KC_JOB_NOW) ? check(o) : -EINVAL;
    if (rc == 0)
        rc = find_place(o, &parent, &s, &where);
    if (rc != 0)
        return rc;
    rc = make(s, o, kind | KC_TASK_BODILESS, &j);
    if (rc != 0) {
        leave_place(o);
        return rc;
    }
    bool held = (kind & (KC_JOB_PROMISE | KC_JOB_INTERNAL)) == KC_JOB_PROMISE;
    if (held)
        kc_add_relaxed(&s->external, KC_EXTERNAL_ONE);
    kc_store_relaxed(&j->task.worker, keeper_of(s));
    rc = enter(parent, j, kind & KC_JOB_ONESHOT ? 4 : 3); /* one is ours until it is armed */
    leave_place(o);
    if (rc != 0) {
        if (held)
            kc_sub_acq_rel(&s->external, 1); /* launch.1 */
        return rc;
    }
    arm(j, o);
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

void kc__external_end(kc_sched_t *s)
{
    if ((uint32_t)kc_sub_acq_rel(&s->external, 1) == 1) /* launch.1 */
        kc__sched_look_again(s);                        /* it may see now that all wait */
}

bool kc__external_begin_foreign(kc_sched_t *s)
{
    kc_worker_t *w = kc__worker();

    if (s->workers > 0 || (w && w->sched == s))
        return false;
    kc_add_relaxed(&s->external, KC_EXTERNAL_ONE);
    return true;
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
    kc_add_relaxed(&kc__job_sched(j)->external,
                   KC_EXTERNAL_ONE); /* it cannot end before: j is held */
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
