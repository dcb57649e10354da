/* SPDX-License-Identifier: MIT */
/*
 * job_stress.c - random trees of jobs on four workers, with plain threads that meddle.
 *
 * A tree is a root job whose body does random things: it launches, opens scopes, groups, promises,
 * shields and leases, waits in every way there is, fails, and cancels whom it finds; its children
 * do the same, up to eight levels down. Servers, plain threads, keep promises, release leases,
 * unpark, and launch into groups. Meddlers, plain threads too, cancel, join and look at any job at
 * any moment. Now and then the scheduler is destroyed in the middle of it.
 *
 * Every job has a record. At the end the books must balance: of fn and dispose exactly one was
 * called, each body that started ended, no child ended after its parent, each state, code and
 * reason is one that the rules allow, one cancel at most was told that it was the first, and
 * no job, coroutine or stack is left. A choice is a function of the seed and of the job's place.
 *
 *     KC_STRESS_TREES=10000 KC_TEST_SEED=1 build/tsan/test/job_stress
 *     KC_STRESS_SECONDS=600 build/asan/test/job_stress
 */
#include "harness.h"
#include "job_books.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a body may do depends on where it is. */
struct place {
    struct record *own, *current;
    bool shielded; /* no cancel may be seen */
    bool grace;    /* ... unless its time is over */
};

static struct record *child_of(struct place *at, enum kind kind)
{
    struct record *own = at->own;

    if (at->current->depth >= DEPTH)
        return NULL;
    return record_new(own->tree, at->current, kind, kc_test_random(&own->random));
}

/* ---- what one can do to any job ------------------------------------------------------------ */

static void cancel(struct record *r, uint64_t *random)
{
    kc_job_t *j = kc_load_acquire(&r->handle);

    if (chance(random, 5)) {
        kc_signal_t *signal = kc_job_signal(j);
        CHECK(signal != NULL);
        kc_signal_emit(signal, chance(random, 50) ? KC_SIG_TERMINATE : (kc_sigset_t)1 << 20);
        return;
    }
    if (kc_job_cancel(j, reasons[pick(random, 3)])) {
        CHECK_EQ(kc_add_relaxed(&r->firsts, 1), 0);
        CHECK_NE(kc_job_state(j), KC_JOB_ACTIVE);
        CHECK_NE(kc_job_reason(j), 0);
    }
    kc_add_relaxed(&cancels, 1);
}

static void look(struct record *r)
{
    kc_job_t *j = kc_job_retain(kc_load_acquire(&r->handle));
    kc_job_state_t first = kc_job_state(j), then = kc_job_state(j);
    int code = 0, rc = kc_job_result(j, &code);

    CHECK(first <= KC_JOB_CANCELLING || first == then);
    CHECK(first != KC_JOB_CANCELLING || (then != KC_JOB_ACTIVE && then != KC_JOB_COMPLETED));
    CHECK(rc == 0 || (rc == -EAGAIN && first <= KC_JOB_CANCELLING));
    CHECK(rc == -EAGAIN || kc_job_state(j) != KC_JOB_COMPLETED || code == 0);
    CHECK(strncmp(kc_job_name(j), "job", 3) == 0 || kc_job_name(j)[0] == 0);
    if (rc == 0)
        is_over(r);
    kc_job_release(j);
}

/* A join that must not be for ever: two jobs may join each other. */
static int join_a_while(struct record *r, uint64_t *random)
{
    kc_job_t *j = kc_load_acquire(&r->handle);
    int code, rc = kc_job_join_until(j, kc_now() + KC_US(pick(random, 300)));

    if (kc_job_result(j, &code) == 0)
        is_over(r);
    return rc;
}

/* ---- cleanups ------------------------------------------------------------------------------ */

static void on_left(void *arg)
{
    struct record *r = arg;

    CHECK_EQ(kc_add_relaxed(&r->left, 1), 0);
    CHECK_EQ(kc_load_relaxed(&r->started), 1);
    mark_last(r);
}

/* Runs when all children are over. */
static void on_drained(void *arg)
{
    struct record *r = arg;

    is_over(r);
    mark_last(r);
}

/* Shielded: it may wait, launch and open scopes, and sees no cancel. */
static int body(void *arg);
static int quiet_child(void *arg)
{
    mark_last(arg);
    return kc_yield() == 0 ? 0 : -ECANCELED;
}

static void on_deferred(void *arg)
{
    struct record *r = arg;
    bool strict = !r->has_grace;
    int rc = kc_sleep(KC_US(pick(&r->random, 20)));

    CHECK(rc == 0 || !strict);
    if (chance(&r->random, 30)) {
        kc_scope_t s;
        CHECK_EQ(kc_scope_begin(&s, NULL), 0);
        rc = kc_launch(quiet_child, r);
        CHECK(rc == 0 || (rc == -ECANCELED && !strict));
        rc = kc_scope_end(&s);
        CHECK(rc == 0 || !strict);
    }
    mark_last(r);
}

static void on_disposed(void *arg)
{
    struct record *r = arg;

    CHECK_EQ(kc_add_relaxed(&r->disposed, 1), 0);
    CHECK_EQ(kc_load_relaxed(&r->started), 0);
    mark_last(r);
}

/* ---- steps of a body ----------------------------------------------------------------------- */

/* What a suspension point may say here. */
static int checked(struct place *at, int rc)
{
    CHECK(rc == 0 || rc == -ECANCELED);
    if (rc == -ECANCELED) {
        CHECK(!at->shielded || at->grace);
        CHECK(kc_cancelled());
        CHECK_EQ(kc_check(), -ECANCELED); /* it stays so */
        CHECK_NE(kc_cancel_reason(), 0);
    }
    return rc;
}

static int waits(struct place *at)
{
    uint64_t *random = &at->own->random;

    switch (pick(random, 5)) {
    case 0:
        return checked(at, kc_sleep(KC_US(pick(random, 60))));
    case 1: {
        kc_affinity_t where = (kc_affinity_t)pick(random, WORKERS + 2) - 1;
        int rc = checked(at, kc_hop(where));
        if (rc == 0 && where != KC_WORKER)
            CHECK_EQ(kc_worker_index(), where == KC_MAIN ? KC_MAIN : where - KC_WORKER_AT(0));
        return rc;
    }
    case 2:
        return checked(at, kc_check());
    default:
        return checked(at, kc_yield());
    }
}

static int parks(struct place *at)
{
    struct record *r = record_new(at->own->tree, NULL, PARK, at->own->random);

    if (!r)
        return 0;
    r->co = kcoro_retain(kcoro_current());
    add_duty(r);
    kcoro_park();
    return checked(at, kc_check());
}

static int takes_lease(struct place *at)
{
    struct record *r = record_new(at->own->tree, NULL, LEASE, at->own->random);
    struct record *of = chance(&at->own->random, 60) ? NULL : any_record(&at->own->random);

    if (!r)
        return 0;
    int rc = kc_lease_take(of ? kc_load_acquire(&of->handle) : kc_job_current(), &r->lease);
    CHECK(rc == 0 || (rc == -ESHUTDOWN && of));
    if (rc == 0)
        add_duty(r);
    return 0;
}

static void random_options(struct place *at, struct record *r, kc_launch_opts_t *o)
{
    uint64_t *random = &at->own->random;
    static const uint32_t flags[] = { 0,
                                      KC_JOB_SUPERVISOR,
                                      KC_JOB_UNWIND,
                                      KC_JOB_NOW,
                                      KC_JOB_UNWIND | KC_JOB_NOW,
                                      KC_JOB_MIGRATE,
                                      0,
                                      KC_JOB_DETACHED };

    o->flags = flags[pick(random, 8)];
    if (!(o->flags & KC_JOB_NOW))
        o->affinity = (kc_affinity_t)pick(random, WORKERS + 2) - 1;
    o->stack = chance(random, 20) ? 32768 : 0;
    o->timeout = chance(random, 10) ? KC_US(1 + pick(random, 300)) : 0;
    o->grace = chance(random, 10) ? KC_US(1 + pick(random, 50)) : 0;
    o->signal = chance(random, 10) ? r->tree->signal : NULL;
    o->dispose = chance(random, 80) ? on_disposed : NULL;
    o->name = chance(random, 20) ? "job" : NULL;
    r->flags = o->flags;
    r->has_timeout = o->timeout > 0;
    if (o->flags & KC_JOB_DETACHED) {
        r->parent = NULL;
        r->has_grace = false;
    }
    r->has_grace = r->has_grace || o->grace > 0;
    r->has_dispose = o->dispose != NULL;
}

/* A launch was tried. True: it is there. */
static bool launched(struct place *at, int rc, bool may_be_over)
{
    if (rc == -ECANCELED) {
        CHECK(may_be_over || !at->shielded || at->grace || at->own->forbids);
        return false;
    }
    CHECK(rc == 0 || (rc == -ESHUTDOWN && may_be_over));
    return rc == 0;
}

/* A child that may have ended already, with its handle. NULL: it was not launched. */
static kc_job_t *launch(struct place *at, struct record *r, kc_job_t *into, bool plain)
{
    kc_launch_opts_t o = { .parent = into };
    kc_job_t *j = NULL;

    if (plain) {
        at->current->unknown = true;
        r->launched = launched(at, kc_launch(body, r), false);
        kc_add_relaxed(&jobs, r->launched);
        return NULL;
    }
    random_options(at, r, &o);
    if (into && (o.flags & KC_JOB_NOW))
        o.flags = r->flags &= ~(uint32_t)KC_JOB_NOW;
    bool detached = o.flags & KC_JOB_DETACHED;
    int rc = kc_launch_job(body, r, &o, &j);
    if (!launched(at, rc, into || detached))
        return NULL;
    publish(r, j);
    return j;
}

static int joins_child(struct place *at, struct record *r, kc_job_t *j)
{
    void *payload = r;
    int code, rc;

    if (!j || (r->flags & KC_JOB_DETACHED) || chance(&at->own->random, 60))
        return 0;
    bool value = chance(&at->own->random, 50);
    rc = value ? kc_await((kc_deferred_t *)j, &payload) : kc_job_join(j);
    if (kc_job_result(j, &code) == 0) {
        is_over(r);
        CHECK(rc == code || (rc == -ECANCELED && kc_cancelled()));
        CHECK(rc != 0 || !value || payload == r);
        CHECK(rc == 0 || !value || payload == NULL);
    } else {
        FAIL("a join downward returned before the child had ended");
    }
    return 0;
}

static int launches(struct place *at)
{
    struct record *r = child_of(at, BODY);

    if (!r)
        return 0;
    kc_job_t *j = launch(at, r, NULL, chance(&at->own->random, 40));
    return joins_child(at, r, j);
}

static int promises(struct place *at)
{
    struct record *r = child_of(at, PROMISE);
    kc_launch_opts_t o = { .timeout = chance(&at->own->random, 20) ? KC_US(50) : 0 };
    kc_deferred_t *d = NULL;
    void *payload = at;
    int code;

    if (!r)
        return 0;
    r->has_timeout = o.timeout > 0;
    if (!launched(at, kc_promise(&o, &d), false))
        return 0;
    if (chance(&at->own->random, 10)) { /* nobody will keep it */
        at->current->unknown = true;
        kc_deferred_release(d);
        return 0;
    }
    publish(r, kc_deferred_job(d));
    add_duty(r);
    if (chance(&at->own->random, 50))
        return 0;
    int rc = kc_await(d, &payload);
    if (kc_job_result(kc_deferred_job(d), &code) == 0)
        CHECK(rc == code || rc == -ECANCELED);
    else
        FAIL("an await of a child returned before its end");
    CHECK_PTR(payload, rc == 0 ? (void *)r : NULL);
    return 0;
}

/* A cancel may have closed it before. */
static bool close_group(kc_job_t *group)
{
    int rc = kc_group_close(group);

    return rc == 0 || rc == -EALREADY;
}

static int groups(struct place *at)
{
    struct record *r = child_of(at, GROUP), *visit;
    kc_launch_opts_t o = { .flags = chance(&at->own->random, 30) ? KC_JOB_SUPERVISOR : 0,
                           .timeout = chance(&at->own->random, 10) ? KC_US(100) : 0 };
    kc_job_t *group = NULL;

    if (!r)
        return 0;
    r->flags = o.flags;
    r->has_timeout = o.timeout > 0;
    r->main_rc_known = true;
    if (!launched(at, kc_group_create(&o, &group), false))
        return 0;
    publish(r, group);
    struct place inside = { at->own, r, at->shielded, at->grace };
    for (unsigned n = pick(&at->own->random, 4); n > 0; n--) {
        struct record *c = child_of(&inside, BODY);
        if (c)
            (void)launch(&inside, c, group, false);
    }
    if (chance(&at->own->random, 50) && (visit = child_of(&inside, VISIT)) != NULL)
        add_duty(visit); /* which closes it */
    else
        CHECK(close_group(group));
    return chance(&at->own->random, 30) ? waits(at) : 0;
}

static int steps(struct place *at, unsigned n);

static int in_scope(void *arg)
{
    struct place *at = arg;

    at->current->rc = steps(at, 1 + pick(&at->own->random, 3));
    return at->current->rc;
}

/* The end of a scope: its result is its job's. */
static int scope_over(struct record *r, kc_job_t *j, int rc)
{
    int code = 0;

    is_over(r);
    CHECK_EQ(kc_job_result(j, &code), 0);
    CHECK_EQ(code, rc);
    return 0;
}

static int scopes(struct place *at)
{
    struct record *r = child_of(at, SCOPE);
    uint64_t *random = &at->own->random;
    kc_scope_opts_t o = { 0 };
    kc_scope_t s;

    if (!r)
        return 0;
    o.flags = chance(random, 30) ? KC_JOB_SUPERVISOR : 0;
    o.timeout = chance(random, 20) ? KC_US(1 + pick(random, 200)) : 0;
    o.grace = chance(random, 10) ? KC_US(20) : 0;
    o.max_running = chance(random, 30) ? 1 + pick(random, 2) : 0;
    o.signal = chance(random, 10) ? r->tree->signal : NULL;
    r->flags = o.flags;
    r->has_timeout = o.timeout > 0;
    r->has_grace = r->has_grace || o.grace > 0;
    r->main_rc_known = true;
    bool rough = r->has_timeout || o.signal || !at->shielded;
    struct place inside = { at->own, r, at->shielded && !rough, at->grace || r->has_grace };
    CHECK_EQ(kc_scope_begin(&s, &o), 0);
    kc_job_t *j = kc_job_retain(kc_scope_job(&s));
    CHECK_PTR(kc_job_current(), j);
    inside.shielded = false; /* anybody may cancel it as soon as it is known */
    publish(r, j);
    if (chance(random, 70)) {
        (void)steps(&inside, 1 + pick(random, 3));
    } else {
        int rc = in_scope(&inside);
        if (rc != 0 && rc != -ECANCELED)
            CHECK(kc_cancel_current(-EBUSY) || kc_job_state(j) == KC_JOB_CANCELLING);
        r->rc = 0;
    }
    return scope_over(r, j, kc_scope_end(&s));
}

static int scope_function(void *arg)
{
    struct place *at = arg;
    kc_job_t *j = kc_job_retain(kc_job_current());

    publish(at->current, j);
    return in_scope(at);
}

static int scopes_with_function(struct place *at)
{
    struct record *r = child_of(at, SCOPE);
    kc_scope_opts_t o = { .timeout = chance(&at->own->random, 20) ? KC_US(100) : 0 };

    if (!r)
        return 0;
    r->has_timeout = o.timeout > 0;
    r->main_rc_known = true;
    struct place inside = { at->own, r, false, true };
    int rc = kc_scope(scope_function, &inside, &o);
    return scope_over(r, kc_load_acquire(&r->handle), rc);
}

static int shields(struct place *at)
{
    int rc = kc_shield_begin();

    CHECK(rc == 0 || (rc == -ECANCELED && (!at->shielded || at->grace)));
    if (rc < 0)
        return rc;
    struct place inside = { at->own, at->current, true, at->current->has_grace };
    (void)steps(&inside, 1 + pick(&at->own->random, 3));
    kc_shield_end();
    return 0;
}

static int meddles(struct place *at)
{
    struct record *r = any_record(&at->own->random);

    if (!r)
        return 0;
    switch (pick(&at->own->random, 8)) {
    case 0:
        cancel(r, &at->own->random);
        return 0;
    case 1:
        return chance(&at->own->random, 20) ? (kc_cancel_current(-EINTR), 0) : 0;
    case 2:
    case 3:
        (void)join_a_while(r, &at->own->random);
        return 0;
    default:
        look(r);
        return 0;
    }
}

static int defers(struct place *at)
{
    if (at->current->kind == SCOPE || !chance(&at->own->random, 50))
        return 0;
    CHECK_EQ(kc_defer(on_deferred, at->own), 0);
    return 0;
}

/* What is set in a job is seen by those below it, and by nobody else. */
static int sets_local(struct place *at)
{
    static const char key;
    void *value = kc_local_get(&key);

    CHECK(!value || value == at->own->tree);
    CHECK_EQ(kc_local_set(&key, at->own->tree), 0);
    CHECK_PTR(kc_local_get(&key), at->own->tree);
    return 0;
}

/* From now on only the end of the scheduler cancels it. */
static int forbids(struct place *at)
{
    if (chance(&at->own->random, 10)) {
        kc_forbid_signal();
        at->own->forbids = true; /* a child that fails ends its launches, and nothing else */
    }
    return 0;
}

/* Each kind of step, some more often. */
static int (*const kinds[])(struct place *at) = {
    waits,
    waits,
    waits,
    waits,
    launches,
    launches,
    launches,
    parks,
    groups,
    promises,
    scopes,
    scopes,
    scopes_with_function,
    shields,
    takes_lease,
    meddles,
    meddles,
    defers,
    sets_local,
    forbids,
};

static int steps(struct place *at, unsigned n)
{
    int rc = 0;

    for (unsigned i = 0; i < n; i++) {
        rc = kinds[pick(&at->own->random, sizeof kinds / sizeof *kinds)](at);
        if (rc != 0 && chance(&at->own->random, 70))
            return rc;
    }
    if (chance(&at->own->random, 4))
        return codes[pick(&at->own->random, CODES)];
    return rc == -ECANCELED ? rc : 0;
}

static int body(void *arg)
{
    struct record *r = arg;

    CHECK_EQ(kc_add_relaxed(&r->started, 1), 0);
    CHECK_EQ(kc_load_relaxed(&r->disposed), 0);
    KC_CLEANUP(on_left, r);
    kc_set_payload(r);
    if (chance(&r->random, 60))
        CHECK_EQ(kc_defer(on_drained, r), 0);
    struct place at = { r, r, false, r->has_grace };
    r->rc = -ECANCELED; /* if it does not come back */
    r->main_rc_known = true;
    int rc = steps(&at, 2 + pick(&r->random, 8));
    r->rc = rc;
    mark_last(r);
    return rc;
}

/* ---- plain threads ------------------------------------------------------------------------- */

static void serve(struct record *r, uint64_t *random)
{
    kc_job_t *handle = kc_load_acquire(&r->handle);
    int rc, code;

    switch (r->kind) {
    case PROMISE:
        code = chance(random, 80) ? 0 : chance(random, 30) ? -ECANCELED : codes[pick(random, 3)];
        r->rc = code;
        rc = kc_promise_complete((kc_deferred_t *)handle, code, r);
        CHECK(rc == 0 || rc == -ECANCELED);
        r->main_rc_known = rc == 0;
        CHECK_EQ(kc_promise_complete((kc_deferred_t *)handle, 0, r), rc == 0 ? -EALREADY : rc);
        break;
    case LEASE:
        kc_lease_release(&r->lease);
        break;
    case PARK:
        rc = kcoro_unpark(r->co);
        CHECK(rc == 0 || rc == -EINVAL);
        kcoro_release(r->co);
        break;
    case VISIT: { /* a child for a group, from outside */
        kc_launch_opts_t o = { .parent = kc_load_acquire(&r->parent->handle),
                               .dispose = on_disposed };
        kc_job_t *j = NULL;
        r->kind = BODY;
        r->has_dispose = true;
        rc = kc_launch_job(body, r, &o, &j);
        CHECK(rc == 0 || rc == -ECANCELED || rc == -ESHUTDOWN);
        if (rc == 0)
            publish(r, j);
        CHECK(close_group(o.parent));
        break;
    }
    default:
        FAIL("record of kind %d", (int)r->kind);
    }
}

static struct record *take_duty(uint64_t *random)
{
    struct record **link = &batch.duties, *r;

    pthread_mutex_lock(&batch.lock);
    for (unsigned skip = pick(random, 4); *link && (*link)->duty && skip > 0; skip--)
        link = &(*link)->duty;
    if ((r = *link) != NULL)
        *link = r->duty;
    pthread_mutex_unlock(&batch.lock);
    return r;
}

static void *server_main(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;

    for (struct record *r; (r = take_duty(&random)) || !kc_load_acquire(&batch.closing);) {
        if (r)
            serve(r, &random);
        else
            nap(&random, 50);
        if (chance(&random, 5))
            nap(&random, 100);
    }
    return NULL;
}

static void *meddler_main(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;

    while (!kc_load_acquire(&batch.closing)) {
        struct record *r = any_record(&random);
        unsigned what = pick(&random, 100);
        if (r && what < 10 && !batch.calm)
            cancel(r, &random);
        else if (r && what < 30)
            (void)join_a_while(r, &random);
        else if (r && what < 80)
            look(r);
        else if (r && what < 81 && r->depth == 0 && !batch.calm)
            kc_signal_emit(r->tree->signal, KC_SIG_TERMINATE);
        else
            nap(&random, 200);
    }
    return NULL;
}

/* ---- a batch ------------------------------------------------------------------------------- */

static void plant(uint64_t *random)
{
    for (int i = 0; i < TREES; i++) {
        struct tree *tree = &batch.tree[i];
        kc_store_relaxed(&tree->budget, NODES);
        tree->signal = kc_signal_create(0);
        CHECK(tree->signal != NULL);
        struct record *r = record_new(tree, NULL, BODY, kc_test_random(random));
        kc_launch_opts_t o = { .sched = batch.sched,
                               .affinity = (kc_affinity_t)pick(random, WORKERS + 2) - 1,
                               .dispose = on_disposed,
                               .flags = chance(random, 20) ? KC_JOB_UNWIND : 0 };
        kc_job_t *j = NULL;
        r->flags = o.flags;
        r->has_dispose = true;
        CHECK_EQ(kc_launch_job(body, r, &o, &j), 0);
        publish(r, j);
        batch.root[i] = j;
    }
}

static void run_batch(uint64_t seed)
{
    uint64_t random = seed * 0x9e3779b97f4a7c15u + 1;
    kc_sched_opts_t opts = { .workers = WORKERS,
                             .flags = chance(&random, 50) ? KC_SCHED_MAIN_WORKS : 0 };
    pthread_t thread[SERVERS + MEDDLERS];

    memset(batch.record, 0, RECORDS * sizeof *batch.record);
    kc_store_relaxed(&batch.used, 0);
    batch.calm = chance(&random, 40);
    kc_store_relaxed(&batch.closing, 0);
    CHECK_EQ(kc_sched_create(&opts, &batch.sched), 0);
    for (int i = 0; i < SERVERS + MEDDLERS; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, i < SERVERS ? server_main : meddler_main,
                                (void *)(uintptr_t)kc_test_random(&random)),
                 0);
    plant(&random);
    unsigned how = pick(&random, 10);
    if (how < 6)
        CHECK_EQ(kc_sched_run(batch.sched), 0);
    else if (how < 8)
        for (int i = 0; i < TREES; i++)
            CHECK(kc_job_join(batch.root[i]) != -EDEADLK);
    else
        nap(&random, 1000);
    CHECK_EQ(kc_sched_destroy(batch.sched), 0);
    kc_store_release(&batch.closing, 1);
    for (int i = 0; i < SERVERS + MEDDLERS; i++)
        pthread_join(thread[i], NULL);
    check_batch();
    for (int i = 0; i < TREES; i++)
        kc_signal_release(batch.tree[i].signal);
    check_nothing_left();
    kc_add_relaxed(&batches, 1);
}

TEST_SLOW(random_trees_of_jobs_balance, 3600000)
{
    const char *trees = getenv("KC_STRESS_TREES"), *text = getenv("KC_STRESS_SECONDS");
    double end = seconds() + (text ? strtod(text, NULL) : trees ? 1e9 : 4.0);
    long most = trees ? strtol(trees, NULL, 10) : 1000000000, n = 0;
    pthread_t watchdog;

    batch.record = calloc(RECORDS, sizeof *batch.record);
    CHECK(batch.record != NULL);
    CHECK_EQ(pthread_create(&watchdog, NULL, watchdog_main, NULL), 0);
    for (; n < most && seconds() < end; n += TREES)
        run_batch(kc_test_seed() + (uint64_t)(n / TREES));
    kc_store_release(&finished, 1);
    pthread_join(watchdog, NULL);
    printf("%ld trees, %llu jobs, %llu cancels, seed %llu\n", n,
           (unsigned long long)kc_load_relaxed(&jobs),
           (unsigned long long)kc_load_relaxed(&cancels), (unsigned long long)kc_test_seed());
    free(batch.record);
}
