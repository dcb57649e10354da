/* SPDX-License-Identifier: MIT */
/*
 * mutex_test.c - the mutex: one owner at a time, handed over in order, owned by a coroutine or
 * plain thread and not by a job or scope (Y1 to Y4, J9, J17).
 */
#include "sync_kit.h"

/* ---- one at a time -------------------------------------------------------------------------- */

struct counter {
    kc_mutex_t lock;
    long plain; /* under the lock */
    count_t out;
    int rounds;
};

static int counts_up(void *arg)
{
    struct counter *c = arg;

    for (int i = 0; i < c->rounds; i++) {
        CHECK_EQ(kc_mutex_lock(&c->lock), 0);
        long seen = c->plain;
        if (i % 4 == 0 && kcoro_current())
            CHECK_EQ(kc_yield(), 0);
        c->plain = seen + 1;
        kc_mutex_unlock(&c->lock);
    }
    add(&c->out);
    return 0;
}

IN_A_JOB(coroutines_and_threads_own_a_mutex_one_at_a_time)
{
    struct counter c = { .lock = KC_MUTEX_INIT, .rounds = 20 };

    crowd_runs(counts_up, &c, 6, &c.out);
    CHECK_EQ(c.plain, (6 + CROWD_THREADS) * 20);
    CHECK(kc_mutex_trylock(&c.lock));
    kc_mutex_unlock(&c.lock);
    return 0;
}

/* ---- in order ------------------------------------------------------------------------------- */

struct line {
    kc_mutex_t lock;
    int order[8], n; /* under the lock */
    count_t done;
};

struct place {
    struct line *line;
    int number;
};

static int takes_its_turn(void *arg)
{
    struct place *p = arg;

    CHECK_EQ(kc_mutex_lock(&p->line->lock), 0);
    p->line->order[p->line->n++] = p->number;
    kc_mutex_unlock(&p->line->lock);
    add(&p->line->done);
    return 0;
}

IN_A_JOB(a_mutex_goes_to_coroutines_and_threads_in_the_order_in_which_they_came)
{
    enum { N = 6 };
    struct line line = { .lock = KC_MUTEX_INIT };
    struct place p[N];
    pthread_t t[N];

    CHECK_EQ(kc_mutex_lock(&line.lock), 0);
    for (int i = 0; i < N; i++) {
        p[i] = (struct place){ &line, i };
        if (i % 3 == 2)
            t[i] = thread_runs(takes_its_turn, &p[i]);
        else
            CHECK_EQ(kc_launch(takes_its_turn, &p[i]), 0);
        UNTIL(in_line(&line.lock) == i + 1);
    }
    kc_mutex_unlock(&line.lock);
    UNTIL(get(&line.done) == N);
    for (int i = 2; i < N; i += 3)
        pthread_join(t[i], NULL);
    for (int i = 0; i < N; i++)
        CHECK_EQ(line.order[i], i);
    return 0;
}

IN_A_JOB(an_owner_that_unlocks_and_locks_again_comes_behind_the_waiters)
{
    struct line line = { .lock = KC_MUTEX_INIT };
    struct place p = { &line, 1 };

    for (int round = 0; round < 3; round++) {
        line.n = 0;
        CHECK_EQ(kc_mutex_lock(&line.lock), 0);
        CHECK_EQ(kc_launch(takes_its_turn, &p), 0);
        UNTIL(in_line(&line.lock) == 1);
        kc_mutex_unlock(&line.lock);
        CHECK_EQ(kc_mutex_lock(&line.lock), 0);
        CHECK_EQ(line.n, 1);
        kc_mutex_unlock(&line.lock);
        UNTIL(get(&line.done) == round + 1);
    }
    return 0;
}

static int holds_until_told(void *arg)
{
    struct waiter *w = arg;

    CHECK_EQ(kc_mutex_lock(&w->o->mutex), 0);
    set(&w->started, 1);
    UNTIL(get(&w->done));
    kc_mutex_unlock(&w->o->mutex);
    return 0;
}

IN_A_JOB(a_mutex_that_is_handed_over_cannot_be_taken_before_the_new_owner_runs)
{
    union object o;
    struct waiter w = { .o = &o };

    mutex_close(&o);
    enter_line(&w, holds_until_told);
    kc_mutex_unlock(&o.mutex);
    CHECK(!kc_mutex_trylock(&o.mutex));
    CHECK_EQ(kc_mutex_lock_until(&o.mutex, 0), -ETIMEDOUT);
    set(&w.done, 1);
    CHECK_EQ(kc_mutex_lock(&o.mutex), 0);
    kc_mutex_unlock(&o.mutex);
    CHECK_EQ(kc_job_join(w.job), 0);
    kc_job_release(w.job);
    return 0;
}

IN_A_JOB(a_waiter_in_the_middle_of_the_queue_may_leave_it)
{
    union object o;
    struct waiter w[3];

    mutex_close(&o);
    for (int i = 0; i < 3; i++)
        enqueue_and_wait(&w[i], &ways[0], &o);
    CHECK(kc_job_cancel(w[1].job, 0));
    UNTIL(in_line(&o) == 2);
    CHECK_EQ(get(&w[0].done) + get(&w[2].done), 0);
    kc_mutex_unlock(&o.mutex);
    came_back(&w[0], 0);
    came_back(&w[1], -ECANCELED);
    came_back(&w[2], 0);
    CHECK(kc_mutex_trylock(&o.mutex));
    kc_mutex_unlock(&o.mutex);
    return 0;
}

/* ---- who owns ------------------------------------------------------------------------------- */

static void *cannot_take_it(void *arg)
{
    CHECK(!kc_mutex_trylock(arg));
    CHECK_EQ(kc_mutex_lock_until(arg, 0), -ETIMEDOUT);
    return NULL;
}

static void knows_its_owner(kc_mutex_t *m)
{
    CHECK_EQ(kc_mutex_lock(m), 0);
    CHECK_EQ(kc_mutex_lock(m), -EDEADLK);
    CHECK_EQ(kc_mutex_lock_until(m, 0), -EDEADLK);
    CHECK_EQ(kc_mutex_lock_until(m, KC_FOREVER), -EDEADLK);
    CHECK(!kc_mutex_trylock(m));
    pthread_join(thread(cannot_take_it, m), NULL);
    kc_mutex_unlock(m); /* it is held once */
    CHECK(kc_mutex_trylock(m));
    CHECK_EQ(kc_mutex_lock(m), -EDEADLK);
    kc_mutex_unlock(m);
    kc_mutex_lock_nocancel(m);
    CHECK_EQ(kc_mutex_lock(m), -EDEADLK);
    kc_mutex_unlock(m);
}

IN_A_JOB(relocking_ones_own_mutex_is_edeadlk_and_changes_nothing)
{
    kc_mutex_t m = KC_MUTEX_INIT;

    knows_its_owner(&m);
    return 0;
}

TEST(relocking_on_a_plain_thread_is_edeadlk)
{
    kc_mutex_t m = KC_MUTEX_INIT;

    knows_its_owner(&m);
}

IN_A_JOB(relocking_while_others_wait_is_edeadlk_and_keeps_them_in_the_queue)
{
    union object o;
    struct waiter w;

    mutex_close(&o);
    enqueue_and_wait(&w, &ways[0], &o);
    CHECK_EQ(kc_mutex_lock(&o.mutex), -EDEADLK);
    CHECK_EQ(in_line(&o), 1);
    kc_mutex_unlock(&o.mutex);
    came_back(&w, 0);
    return 0;
}

static int locks_or_unlocks(void *arg)
{
    kc_mutex_t *m = arg;

    if (kc_mutex_lock(m) == -EDEADLK)
        kc_mutex_unlock(m);
    return 0;
}

IN_A_JOB(a_mutex_that_is_locked_inside_a_scope_may_be_unlocked_after_it)
{
    kc_mutex_t m = KC_MUTEX_INIT;
    kc_scope_t s;

    CHECK_EQ(kc_scope_begin(&s, NULL), 0);
    CHECK_EQ(kc_mutex_lock(&m), 0);
    CHECK_EQ(kc_scope_end(&s), 0);
    CHECK_EQ(kc_mutex_lock(&m), -EDEADLK);
    CHECK_EQ(kc_scope_begin(&s, NULL), 0); /* and the other way round */
    kc_mutex_unlock(&m);
    CHECK_EQ(kc_scope_end(&s), 0);
    CHECK_EQ(kc_scope(locks_or_unlocks, &m, NULL), 0);
    CHECK_EQ(kc_mutex_lock(&m), -EDEADLK);
    CHECK_EQ(kc_scope(locks_or_unlocks, &m, NULL), 0);
    CHECK(kc_mutex_trylock(&m));
    kc_mutex_unlock(&m);
    return 0;
}

IN_A_JOB(an_owner_that_hops_stays_the_owner)
{
    kc_mutex_t m = KC_MUTEX_INIT;

    CHECK_EQ(kc_mutex_lock(&m), 0);
    CHECK_EQ(kc_hop(KC_WORKER), 0);
    CHECK_EQ(kc_mutex_lock(&m), -EDEADLK);
    CHECK_EQ(kc_hop(KC_MAIN), 0);
    kc_mutex_unlock(&m);
    return 0;
}

static int generator_locks(kc_gen_t *g, void *arg)
{
    CHECK_EQ(kc_mutex_lock(arg), 0);
    kc_gen_yield(g, NULL);
    CHECK_EQ(kc_mutex_lock(arg), -EDEADLK); /* the body has taken it, which is the owner */
    kc_mutex_unlock(arg);
    return 0;
}

IN_A_JOB(inside_a_generator_the_owner_is_the_body)
{
    kc_mutex_t m = KC_MUTEX_INIT;
    kc_gen_t g;

    CHECK_EQ(kc_gen_start(&g, generator_locks, &m, 0), 0);
    CHECK(kc_gen_next(&g, NULL));
    CHECK_EQ(kc_mutex_lock(&m), -EDEADLK);
    kc_mutex_unlock(&m);
    CHECK_EQ(kc_mutex_lock(&m), 0);
    CHECK(!kc_gen_next(&g, NULL));
    kc_gen_end(&g);
    CHECK(kc_mutex_trylock(&m));
    kc_mutex_unlock(&m);
    return 0;
}

static void bare_locks(void *arg)
{
    CHECK_EQ(kc_mutex_lock(arg), 0);
    kcoro_yield();
    kc_mutex_unlock(arg);
}

TEST(a_coroutine_of_a_plain_thread_is_an_owner_of_its_own)
{
    kc_mutex_t m = KC_MUTEX_INIT;
    kcoro_t *a = kcoro_create(bare_locks, &m, 0);

    CHECK_EQ(kcoro_resume(a), 0);
    cannot_take_it(&m); /* not -EDEADLK: it is not the thread's */
    CHECK_EQ(kcoro_resume(a), 0);
    knows_its_owner(&m);
    kcoro_destroy(a);
}

/* ---- cancellation --------------------------------------------------------------------------- */

static int needs_it_whatever_comes(void *arg)
{
    struct waiter *w = arg;

    kc_mutex_lock_nocancel(&w->o->mutex);
    UNTIL(kc_cancelled());
    CHECK_EQ(kc_mutex_lock(&w->o->mutex), -ECANCELED); /* that comes first */
    kc_mutex_unlock(&w->o->mutex);
    CHECK(kc_mutex_trylock(&w->o->mutex));
    kc_mutex_unlock(&w->o->mutex);
    kc_mutex_lock_nocancel(&w->o->mutex);
    kc_mutex_unlock(&w->o->mutex);
    set(&w->done, 1);
    return 0;
}

IN_A_JOB(trylock_and_lock_nocancel_do_not_look_at_cancellation)
{
    for (uint32_t flags = 0; flags <= KC_JOB_UNWIND; flags += KC_JOB_UNWIND) {
        union object o;
        struct waiter w = { .way = &ways[0], .o = &o };
        mutex_close(&o);
        w.job = launch(flags ? holds_until_told : needs_it_whatever_comes, &w,
                       &(kc_launch_opts_t){ .flags = flags });
        UNTIL(in_line(&o) == 1);
        CHECK(kc_job_cancel(w.job, 0));
        if (flags) { /* its wait ends by that */
            UNTIL(in_line(&o) == 0);
            kc_mutex_unlock(&o.mutex);
            set(&w.done, 1);
        } else {
            CHECK_EQ(kc_yield(), 0);
            CHECK_EQ(in_line(&o), 1);
            kc_mutex_unlock(&o.mutex);
        }
        UNTIL(kc_job_state(w.job) == KC_JOB_CANCELLED);
        came_back(&w, 0);
        CHECK(kc_mutex_trylock(&o.mutex));
        kc_mutex_unlock(&o.mutex);
    }
    return 0;
}

static void unlocks(void *arg)
{
    kc_mutex_unlock(arg);
}

struct unwound {
    kc_mutex_t lock, other;
    count_t in, out, cancelled;
};

/* Has one lock and waits for another. */
static int holds_one_and_wants_another(void *arg)
{
    struct unwound *u = arg;

    CHECK_EQ(kc_mutex_lock(&u->lock), 0);
    KC_CLEANUP(unlocks, &u->lock);
    set(&u->in, 1);
    CHECK_EQ(kc_mutex_lock(&u->other), 0);
    KC_CLEANUP(unlocks, &u->other);
    UNTIL(get(&u->cancelled));
    (void)kc_yield();
    FAIL("it was not unwound");
}

IN_A_JOB(a_body_that_is_unwound_gives_its_locks_back_by_its_cleanups)
{
    for (int owns_both = 0; owns_both < 2; owns_both++) {
        struct unwound u = { KC_MUTEX_INIT, KC_MUTEX_INIT, 0, 0, 0 };
        CHECK_EQ(kc_mutex_lock(&u.other), 0);
        kc_job_t *j =
            launch(holds_one_and_wants_another, &u, &(kc_launch_opts_t){ .flags = KC_JOB_UNWIND });
        UNTIL(get(&u.in) && in_line(&u.other) == 1);
        if (owns_both) /* let pass before the cancel, so it has it */
            kc_mutex_unlock(&u.other);
        CHECK(kc_job_cancel(j, 0));
        set(&u.cancelled, 1);
        CHECK_EQ(kc_mutex_lock(&u.lock), 0);
        CHECK_EQ(kc_mutex_lock(&u.other), owns_both ? 0 : -EDEADLK);
        kc_mutex_unlock(&u.lock);
        kc_mutex_unlock(&u.other);
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        kc_job_release(j);
    }
    return 0;
}

static int locks_in_a_defer(void *arg)
{
    CHECK_EQ(kc_mutex_lock(arg), 0);
    CHECK_EQ(kc_defer(unlocks, arg), 0);
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(a_lock_may_be_given_back_by_a_cleanup_of_the_body)
{
    for (uint32_t flags = 0; flags <= KC_JOB_UNWIND; flags += KC_JOB_UNWIND) {
        kc_mutex_t m = KC_MUTEX_INIT;
        kc_job_t *j = launch(locks_in_a_defer, &m, &(kc_launch_opts_t){ .flags = flags });
        UNTIL(!kc_mutex_trylock(&m) || (kc_mutex_unlock(&m), false));
        CHECK(kc_job_cancel(j, 0));
        CHECK_EQ(kc_mutex_lock(&m), 0);
        kc_mutex_unlock(&m);
        CHECK_EQ(kc_job_join(j), -ECANCELED);
        kc_job_release(j);
    }
    return 0;
}

/* ---- where it lives ------------------------------------------------------------------------- */

static kc_mutex_t static_lock = KC_MUTEX_INIT;
static kc_mutex_t named_lock = KC_MUTEX_NAMED("accounts");
static kc_mutex_t zero_lock;
static struct {
    int before;
    kc_mutex_t lock;
    kc_mutex_t more[3];
} member = { 1, KC_MUTEX_INIT, { KC_MUTEX_INIT, KC_MUTEX_NAMED("two"), KC_MUTEX_INIT } };

IN_A_JOB(mutexes_in_statics_members_elements_and_zeroed_memory_are_ready)
{
    kc_mutex_t *zeroed = calloc(1, sizeof *zeroed);
    kc_mutex_t *all[] = { &static_lock,    &named_lock,     &zero_lock,      &member.lock,
                          &member.more[0], &member.more[1], &member.more[2], zeroed };

    CHECK(zeroed != NULL);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CHECK_EQ(kc_mutex_lock(all[i]), 0);
        CHECK(!kc_mutex_trylock(all[i]));
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        kc_mutex_unlock(all[i]);
    CHECK_STR(named_lock.name, "accounts");
    free(zeroed);
    return 0;
}

TEST(a_wait_on_a_null_mutex_or_condition_is_einval)
{
    kc_mutex_t m = KC_MUTEX_INIT;
    kc_cond_t c = KC_COND_INIT;

    CHECK_EQ(kc_mutex_lock(NULL), -EINVAL);
    CHECK_EQ(kc_mutex_lock_until(NULL, 0), -EINVAL);
    CHECK_EQ(kc_cond_wait(NULL, &m), -EINVAL);
    CHECK_EQ(kc_cond_wait(&c, NULL), -EINVAL);
    CHECK_EQ(kc_cond_wait_until(NULL, &m, 0), -EINVAL);
    CHECK_EQ(kc_cond_wait_until(&c, NULL, 0), -EINVAL);
}

static int frees_if_last(void *arg)
{
    struct shared *s = arg;

    for (int i = 0; i < 3; i++) {
        kc_mutex_lock_nocancel(&s->o.mutex);
        bool last = i == 2 && --s->users == 0;
        kc_mutex_unlock(&s->o.mutex);
        if (last)
            free_shared(s);
    }
    return 0;
}

IN_A_JOB(the_last_owner_may_free_a_mutex_right_after_its_unlock)
{
    share_and_free(frees_if_last, 6);
    return 0;
}
