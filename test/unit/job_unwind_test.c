/* SPDX-License-Identifier: MIT */
/*
 * job_unwind_test.c - many children that are not to be resumed (J17): those with nothing to clean
 * up end where they are, and all others as if they were alone.
 */
#include "job_kit.h"

#include <kcoro/defer.h>
#include <kcoro/sync.h>
#include <kcoro/trace.h>

/* What a member does, one way after the other. */
enum { SLEEPS, PARKS, NAPS, DEFERS, CLEANS, OPENS, LOCKS, HAS_A_CHILD, SHIELDS, WAYS };
enum { FAMILY = 200 };

/* ThreadSanitizer 14 crashes now and then if there are more coroutines than it has slots, 255. */
static int size(void)
{
    return kc_test_under_tsan() ? FAMILY / 4 : FAMILY;
}

struct member {
    struct family *family;
    int way;
    count_t cleanups;
    kc_mutex_t mutex;
    kcoro_t *co;
};

struct family {
    kc_job_t *group;
    count_t in, resumed, grandchildren;
    struct member member[FAMILY];
    kc_job_t *job[FAMILY];
};

static void cleans_up(void *arg)
{
    struct member *m = arg;

    CHECK_EQ(kc_yield(), 0); /* it is shielded */
    add(&m->cleanups);
}

static void unlocks(void *mutex)
{
    kc_mutex_unlock(mutex);
}

static int grandchild(void *arg)
{
    struct family *f = arg;

    add(&f->grandchildren);
    int rc = kc_sleep(KC_FOREVER);
    kc_sub_acq_rel(&f->grandchildren, 1);
    return rc;
}

static void counts_itself(void *arg)
{
    struct member *m = arg;

    add(&m->cleanups);
}

/* Does not come back. */
static void rests(struct member *m)
{
    add(&m->family->in);
    if (m->way == PARKS)
        kcoro_park();
    else
        (void)!kc_sleep(m->way == NAPS ? KC_SEC(1000) : KC_FOREVER);
    add(&m->family->resumed);
}

static void rests_with_a_cleanup(struct member *m)
{
    KC_CLEANUP(counts_itself, m);
    rests(m);
}

static void rests_with_a_lock(struct member *m)
{
    CHECK_EQ(kc_mutex_lock(&m->mutex), 0);
    KC_CLEANUP(unlocks, &m->mutex);
    rests(m);
}

static int member(void *arg)
{
    struct member *m = arg;
    kc_scope_t scope;

    switch (m->way) {
    case DEFERS:
        CHECK_EQ(kc_defer(cleans_up, m), 0);
        rests(m);
        break;
    case CLEANS:
        rests_with_a_cleanup(m);
        break;
    case OPENS:
        CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
        rests(m);
        break;
    case LOCKS:
        rests_with_a_lock(m);
        break;
    case HAS_A_CHILD:
        CHECK_EQ(kc_launch(grandchild, m->family), 0);
        rests(m);
        break;
    case SHIELDS:
        CHECK_EQ(kc_shield_begin(), 0);
        add(&m->family->in);
        UNTIL(kc_job_state(m->family->group) == KC_JOB_CANCELLING);
        add(&m->cleanups);
        kc_shield_end();
        CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
        add(&m->family->resumed);
        break;
    default:
        rests(m);
    }
    return 0;
}

static struct family *launch_family(int ways, kc_affinity_t where)
{
    struct family *f = calloc(1, sizeof *f);
    kc_launch_opts_t opts = { .flags = KC_JOB_UNWIND, .affinity = where };

    CHECK(f != NULL);
    opts.parent = f->group = group(NULL);
    for (int i = 0; i < size(); i++) {
        f->member[i] = (struct member){ .family = f, .way = i % ways, .mutex = KC_MUTEX_INIT };
        f->job[i] = launch(member, &f->member[i], &opts);
    }
    UNTIL(get(&f->in) == size());
    return f;
}

/* All have ended, and what was to run has run once. */
static void family_ends(struct family *f)
{
    CHECK_EQ(kc_job_join(f->group), -EPIPE);
    ended(f->group, KC_JOB_CANCELLED, -EPIPE);
    for (int i = 0; i < size(); i++) {
        struct member *m = &f->member[i];
        ended(f->job[i], KC_JOB_CANCELLED, -EPIPE);
        CHECK_EQ(get(&m->cleanups), m->way == DEFERS || m->way == CLEANS || m->way == SHIELDS);
        CHECK(kc_mutex_trylock(&m->mutex));
        kc_mutex_unlock(&m->mutex);
    }
    CHECK_EQ(get(&f->resumed) + get(&f->grandchildren), 0);
    free(f);
}

static void books_balance(void)
{
    kc_metrics_t m;

    kc_metrics(kc_sched_current(), &m);
    CHECK_EQ(m.jobs_created, m.jobs_completed + m.jobs_failed + m.jobs_cancelled + m.jobs_live);
    CHECK_EQ(m.jobs_live, 1);
}

IN_A_JOB(a_family_that_is_unwound_ends_and_what_has_to_be_run_is_run_once)
{
    for (int ways = 1; ways <= WAYS; ways++) {
        struct family *f = launch_family(ways, 0);
        int with_child = ways > HAS_A_CHILD ? (size() - HAS_A_CHILD + ways - 1) / ways : 0;
        UNTIL(get(&f->grandchildren) == with_child);
        CHECK(kc_job_cancel(f->group, -EPIPE));
        if (ways > HAS_A_CHILD)
            UNTIL(kc_job_state(f->group) == KC_JOB_CANCELLED); /* nobody waits for it */
        family_ends(f);
        books_balance();
    }
    return 0;
}

struct joined {
    kc_job_t *job;
    count_t in;
};

static int joins_one(void *arg)
{
    struct joined *j = arg;

    set(&j->in, 1);
    CHECK_EQ(kc_job_join(j->job), -EPIPE);
    return 0;
}

IN_A_JOB(members_of_an_unwound_family_that_are_observed_end_for_their_observers)
{
    struct family *f = launch_family(SLEEPS + 1, KC_MAIN);
    kc_lease_t lease;

    CHECK_EQ(kc_hop(KC_MAIN), 0);
    struct joined joined = { .job = f->job[7] };
    kc_job_t *joiner = launch(joins_one, &joined, &(kc_launch_opts_t){ .affinity = KC_MAIN });
    UNTIL(get(&joined.in)); /* and it waits: it is this thread's */
    kc_job_t *twice = f->job[size() / 2];
    CHECK_EQ(kc_job_join_until(twice, 0), -ETIMEDOUT); /* it has had a waiter */
    CHECK_EQ(kc_lease_take(f->job[3], &lease), 0);
    CHECK(kc_job_cancel(f->group, -EPIPE));
    CHECK_EQ(kc_job_join(f->job[5]), -EPIPE);
    CHECK_EQ(kc_job_join(twice), -EPIPE);
    CHECK_EQ(kc_job_state(f->job[3]), KC_JOB_CANCELLING);
    CHECK_EQ(kc_job_state(f->group), KC_JOB_CANCELLING);
    kc_lease_release(&lease);
    CHECK_EQ(kc_job_join(joiner), 0);
    kc_job_release(joiner);
    family_ends(f);
    return 0;
}

struct opened {
    kc_job_t *scope;
    count_t in;
};

static int drains(void *arg)
{
    struct opened *o = arg;
    struct family f = { 0 };
    struct member m = { .family = &f };
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(kc_launch_job(member, &m,
                               &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND, .affinity = KC_MAIN },
                               NULL),
                 0);
    UNTIL(get(&f.in) == 10);
    o->scope = kc_job_retain(kc_scope_job(&s));
    set(&o->in, 1);
    CHECK_EQ(kc_scope_end(&s), -EPIPE);
    CHECK_EQ(get(&f.resumed), 0);
    return 0;
}

IN_A_JOB(a_waiter_for_the_end_of_an_unwound_family_is_woken)
{
    struct opened o = { 0 };
    kc_job_t *j = launch(drains, &o, &(kc_launch_opts_t){ .affinity = KC_MAIN });

    CHECK_EQ(kc_hop(KC_MAIN), 0);
    UNTIL(get(&o.in));
    CHECK(kc_job_cancel(o.scope, -EPIPE));
    CHECK_EQ(kc_job_join(j), 0);
    ended(j, KC_JOB_COMPLETED, 0);
    kc_job_release(o.scope);
    return 0;
}

static int tells_who_it_is(void *arg)
{
    struct member *m = arg;

    m->co = kcoro_retain(kcoro_current());
    rests(m);
    return 0;
}

IN_A_JOB(a_retained_coroutine_is_finished_when_its_job_was_unwound)
{
    struct family f = { .group = group(NULL) };
    kc_launch_opts_t opts = { .flags = KC_JOB_UNWIND, .parent = f.group };

    for (int i = 0; i < 10; i++) {
        f.member[i] = (struct member){ .family = &f, .way = i % 2 ? PARKS : SLEEPS };
        CHECK_EQ(kc_launch_job(tells_who_it_is, &f.member[i], &opts, NULL), 0);
    }
    UNTIL(get(&f.in) == 10);
    CHECK(kc_job_cancel(f.group, -EPIPE));
    CHECK_EQ(kc_job_join(f.group), -EPIPE);
    kc_job_release(f.group);
    for (int i = 0; i < 10; i++) {
        UNTIL(kcoro_state(f.member[i].co) == KCORO_FINISHED);
        CHECK_EQ(kcoro_unpark(f.member[i].co), -EINVAL);
        kcoro_release(f.member[i].co);
    }
    return 0;
}

/* ---- who is just leaving --------------------------------------------------------------------- */

struct late {
    kc_job_t *group;
    kc_time_t until;
    count_t in;
};

/* The last one to come goes on until the time of the group is over. That is found out by who looks
 * for the next one to run: by itself, on its own stack, when it has begun to wait. */
static int comes_late(void *arg)
{
    struct late *l = arg;

    if (add(&l->in) == 9)
        while (kc_now() <= l->until)
            ;
    (void)!kc_sleep(KC_FOREVER);
    FAIL("it was resumed");
}

/* False: the time of the group was over before the last one had come. */
static bool comes_late_in_a_group_of(kc_time_t time)
{
    struct late l = { .in = 0 };
    kc_launch_opts_t opts = { .flags = KC_JOB_UNWIND };
    int rc = 0;

    l.group = opts.parent = group(&(kc_launch_opts_t){ .timeout = time });
    l.until = kc_now() + time;
    for (int i = 0; i < 9 && rc == 0; i++)
        rc = kc_launch_job(comes_late, &l, &opts, NULL);
    UNTIL(get(&l.in) == 9 || kc_job_reason(l.group));
    if (rc == 0)
        rc = kc_launch_job(comes_late, &l, &opts, NULL);
    CHECK(rc == 0 || kc_job_reason(l.group) == -ETIMEDOUT);
    CHECK_EQ(kc_job_join(l.group), -ETIMEDOUT);
    kc_job_release(l.group);
    return get(&l.in) == 10;
}

/* On a machine that is busy it takes longer until all are there. */
static int has_a_late_child(void *arg)
{
    for (kc_time_t time = KC_MS(10); !comes_late_in_a_group_of(time); time *= 2)
        ;
    return *(int *)arg;
}

/* Stacks of 16 MiB are unmapped as soon as they are given back. */
TEST(a_job_that_is_just_leaving_keeps_its_stack_until_it_has_left)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS, .stack_size = 16 << 20 };

    CHECK_EQ(kc_run(has_a_late_child, &(int){ 0 }, &opts), 0);
}

/* ---- the same seed -------------------------------------------------------------------------- */

static struct {
    char order[2][200];
    size_t count;
    bool traced;
} talk;

static int talks(void *arg)
{
    for (int i = 0; i < 30; i++) {
        talk.order[talk.traced][talk.count++] = (char)('a' + (intptr_t)arg);
        CHECK_EQ(kc_yield(), 0);
    }
    return 0;
}

static int unwinds_while_others_talk(void *arg)
{
    struct family *f = launch_family(PARKS + 1, 0);

    for (int i = 0; i < 5; i++)
        CHECK_EQ(kc_launch(talks, CODE(i)), 0);
    CHECK(kc_job_cancel(f->group, -EPIPE));
    family_ends(f);
    return *(int *)arg;
}

static int may_be_traced(void *arg)
{
    if (talk.traced)
        CHECK_EQ(kc_trace_start(kc_sched_current(), "/dev/null"), 0);
    return unwinds_while_others_talk(arg);
}

TEST(a_seed_gives_one_order_though_a_trace_is_written)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME, .seed = 4711 };

    for (int i = 0; i < 2; i++) {
        talk.traced = i;
        talk.count = 0;
        CHECK_EQ(kc_run(may_be_traced, &(int){ 0 }, &opts), 0);
        CHECK_EQ(talk.count, 150);
    }
    CHECK_STR(talk.order[0], talk.order[1]);
}

/* ---- races ---------------------------------------------------------------------------------- */

static void *unparks_all(void *arg)
{
    struct family *f = arg;

    for (int i = 0; i < size(); i++) {
        (void)!kcoro_unpark(f->member[i].co);
        kcoro_release(f->member[i].co);
    }
    return NULL;
}

static int parks_for_good(void *arg)
{
    struct member *m = arg;

    m->co = kcoro_retain(kcoro_current());
    add(&m->family->in);
    while (!kc_cancelled())
        kcoro_park();
    return 0;
}

/* A family of those is cancelled while a thread does something to it. */
static void unwind_beside(void *(*does)(void *family))
{
    struct family *f = calloc(1, sizeof *f);
    kc_launch_opts_t opts = { .flags = KC_JOB_UNWIND };
    pthread_t thread;

    CHECK(f != NULL);
    opts.parent = f->group = group(NULL);
    for (int i = 0; i < size(); i++) {
        f->member[i].family = f;
        CHECK_EQ(kc_launch_job(parks_for_good, &f->member[i], &opts, NULL), 0);
    }
    UNTIL(get(&f->in) == size());
    CHECK_EQ(pthread_create(&thread, NULL, does, f), 0);
    CHECK(kc_job_cancel(f->group, -EPIPE));
    CHECK_EQ(kc_job_join(f->group), -EPIPE);
    ended(f->group, KC_JOB_CANCELLED, -EPIPE);
    pthread_join(thread, NULL);
    free(f);
}

IN_A_JOB(an_unpark_that_races_with_the_end_of_an_unwound_family_leaves_it_ended)
{
    unwind_beside(unparks_all);
    books_balance();
    return 0;
}

static void *destroys_all(void *arg)
{
    struct family *f = arg;

    for (int left = size(); left > 0;)
        for (int i = 0; i < size(); i++)
            if (f->member[i].co && kcoro_state(f->member[i].co) == KCORO_FINISHED) {
                kcoro_destroy(f->member[i].co);
                f->member[i].co = NULL;
                left--;
            }
    return NULL;
}

/* Who holds a coroutine that is FINISHED may destroy it, on any thread. */
IN_A_JOB(a_coroutine_is_seen_as_finished_when_its_stack_is_given_back)
{
    unwind_beside(destroys_all);
    books_balance();
    return 0;
}

struct joins {
    struct family *f;
    count_t go;
};

static void *joins_all(void *arg)
{
    struct joins *j = arg;

    UNTIL(get(&j->go));
    for (int i = 0; i < size(); i++)
        CHECK_EQ(kc_job_join(j->f->job[i]), -EPIPE);
    return NULL;
}

static void *cancels_all(void *arg)
{
    struct joins *j = arg;

    UNTIL(get(&j->go));
    for (int i = size(); i-- > 0;)
        (void)!kc_job_cancel(j->f->job[i], -EPIPE);
    return NULL;
}

IN_A_JOB(threads_that_join_and_cancel_an_unwound_family_meanwhile_find_it_ended)
{
    struct joins j = { .f = launch_family(PARKS + 1, 0) };
    pthread_t thread[2];

    CHECK_EQ(pthread_create(&thread[0], NULL, joins_all, &j), 0);
    CHECK_EQ(pthread_create(&thread[1], NULL, cancels_all, &j), 0);
    set(&j.go, 1);
    CHECK(kc_job_cancel(j.f->group, -EPIPE));
    CHECK_EQ(kc_job_join(j.f->group), -EPIPE);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    family_ends(j.f);
    books_balance();
    return 0;
}
