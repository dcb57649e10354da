/* SPDX-License-Identifier: MIT */
/*
 * job_signal_test.c - what reaches a job by its signal, and by an outside one (J24).
 */
#include "job_kit.h"

enum { ONCE_BIT = 17, MULTI_BIT = 50, EARLY_BIT = 20 };
#define ONCE ((kc_sigset_t)1 << ONCE_BIT)
#define MULTI ((kc_sigset_t)1 << MULTI_BIT)
#define EARLY ((kc_sigset_t)1 << EARLY_BIT)
#define EARLY_MULTI ((kc_sigset_t)1 << 51)

struct heard {
    count_t in, once, multi, end, go;
};

static void hears_once(kc_sigset_t fired UNUSED, kc_signal_t *signal UNUSED, void *arg)
{
    add(&((struct heard *)arg)->once);
}

static void hears_multi(kc_sigset_t fired UNUSED, kc_signal_t *signal UNUSED, void *arg)
{
    add(&((struct heard *)arg)->multi);
}

static void hears_end(kc_sigset_t fired UNUSED, kc_signal_t *signal UNUSED, void *arg)
{
    add(&((struct heard *)arg)->end);
}

static void listen(struct heard *h)
{
    kc_slot_t *slot = kc_current_slot();

    CHECK(slot != NULL);
    CHECK(kc_slot_on(slot, ONCE, hears_once, h));
    CHECK(kc_slot_on(slot, MULTI, hears_multi, h));
    CHECK(kc_slot_on(slot, KC_SIG_TERMINATE, hears_end, h));
    add(&h->in);
}

static int listens(void *arg)
{
    listen(arg);
    int rc = kc_sleep(KC_FOREVER);
    CHECK(kc_slot_triggered(kc_current_slot(), ONCE | MULTI));
    return rc;
}

static kc_signal_t *outside(void)
{
    kc_signal_t *signal = kc_signal_create(0);

    CHECK(signal != NULL);
    return signal;
}

/* Emits each bit twice, the once-bit too, and says how often who listened heard them. */
static void emit_twice(kc_signal_t *signal, struct heard *h, int once, int multi)
{
    CHECK_EQ(kc_signal_emit(signal, ONCE), ONCE);
    CHECK_EQ(kc_signal_emit(signal, ONCE), KC_SIG_NONE);
    CHECK_EQ(kc_signal_emit(signal, MULTI), MULTI);
    CHECK_EQ(kc_signal_emit(signal, MULTI), MULTI);
    CHECK_EQ(get(&h->once), once);
    CHECK_EQ(get(&h->multi), multi);
    CHECK_EQ(get(&h->end), 0);
}

/* ---- an outside signal ----------------------------------------------------------------------- */

IN_A_JOB(user_bits_of_an_outside_signal_reach_the_slot_of_the_job)
{
    struct heard h = { 0 };
    kc_signal_t *signal = outside();
    kc_job_t *j = launch(listens, &h, &(kc_launch_opts_t){ .signal = signal });

    UNTIL(get(&h.in));
    emit_twice(signal, &h, 1, 2);
    CHECK_EQ(kc_signal_state(kc_job_signal(j)), ONCE | MULTI);
    CHECK_EQ(kc_job_state(j), KC_JOB_ACTIVE);
    kc_signal_emit(signal, KC_SIG_TERMINATE);
    CHECK_EQ(get(&h.end), 1);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(kc_signal_emit(signal, MULTI), MULTI); /* it has ended: nobody hears that */
    CHECK_EQ(get(&h.multi), 2);
    kc_job_release(j);
    kc_signal_release(signal);
    return 0;
}

struct late {
    kc_signal_t *signal;
    kc_job_t *j;
    count_t listens, in, returned, out;
};

static void looks_at_the_job(kc_sigset_t fired UNUSED, kc_signal_t *signal UNUSED, void *arg)
{
    enum { LOOKS = 30 };
    struct late *l = arg;

    set(&l->in, 1);
    while (!get(&l->returned))
        sched_yield();
    for (int i = 0; i < LOOKS; i++) {
        CHECK(kc_job_state(l->j) != KC_JOB_COMPLETED);
        sched_yield();
    }
    set(&l->out, 1);
}

static int emits_multi(void *arg)
{
    CHECK_EQ(kc_signal_emit(((struct late *)arg)->signal, MULTI), MULTI);
    return 0;
}

static int returns_while_it_is_told(void *arg)
{
    struct late *l = arg;

    CHECK(kc_slot_on(kc_current_slot(), MULTI, looks_at_the_job, l));
    set(&l->listens, 1);
    UNTIL(get(&l->in));
    set(&l->returned, 1);
    return 0;
}

/* So the one who joins may free what the handlers use. */
IN_A_JOB(a_job_whose_handler_runs_has_not_ended)
{
    struct late l = { .signal = outside() };

    l.j = launch(returns_while_it_is_told, &l, &(kc_launch_opts_t){ .signal = l.signal });
    UNTIL(get(&l.listens));
    pthread_t thread = thread_runs(emits_multi, &l);
    UNTIL(kc_job_state(l.j) == KC_JOB_COMPLETED);
    CHECK_EQ(get(&l.out), 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    kc_job_release(l.j);
    kc_signal_release(l.signal);
    return 0;
}

static int knows_what_came_before(void *arg)
{
    struct heard *h = arg;
    kc_slot_t *slot = kc_current_slot();

    CHECK(kc_slot_triggered(slot, EARLY));
    CHECK(!kc_slot_triggered(slot, EARLY_MULTI)); /* that is over */
    CHECK(!kc_slot_on(slot, EARLY, hears_once, h));
    listen(h);
    return kc_sleep(KC_FOREVER);
}

static void emit_early(kc_signal_t *signal)
{
    CHECK_EQ(kc_signal_emit(signal, EARLY | EARLY_MULTI), EARLY | EARLY_MULTI);
}

IN_A_JOB(once_bits_that_had_fired_before_are_emitted_at_the_launch)
{
    struct heard h = { 0 };
    kc_signal_t *signal = outside();

    emit_early(signal);
    kc_job_t *j = launch(knows_what_came_before, &h, &(kc_launch_opts_t){ .signal = signal });
    CHECK_EQ(kc_signal_state(kc_job_signal(j)) & EARLY, EARLY); /* before it has started */
    UNTIL(get(&h.in));
    emit_twice(signal, &h, 1, 2);
    kc_job_t *g = group(&(kc_launch_opts_t){ .signal = signal });
    CHECK_EQ(kc_signal_state(kc_job_signal(g)), EARLY | ONCE);
    kc_signal_emit(signal, KC_SIG_TERMINATE);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(kc_job_join(g), -ECANCELED);
    kc_job_release(g);
    kc_job_release(j);
    kc_signal_release(signal);
    return 0;
}

/* A scope's and a group's reach what is launched in it; not the job around it. */
IN_A_JOB(user_bits_of_the_signal_of_a_scope_or_group_reach_what_is_in_it)
{
    struct heard in_scope = { 0 }, in_group = { 0 }, mine = { 0 };
    kc_signal_t *signal = outside();
    kc_scope_t scope;

    listen(&mine);
    emit_early(signal);
    kc_job_t *g = group(&(kc_launch_opts_t){ .signal = signal });
    kc_job_t *j = launch(knows_what_came_before, &in_group, &(kc_launch_opts_t){ .parent = g });
    CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .signal = signal }), 0);
    CHECK_EQ(kc_launch(knows_what_came_before, &in_scope), 0);
    UNTIL(get(&in_scope.in) && get(&in_group.in));
    emit_twice(signal, &in_scope, 1, 2);
    CHECK_EQ(kc_signal_state(kc_job_signal(kc_scope_job(&scope))), EARLY | ONCE | MULTI);
    CHECK_EQ(get(&in_group.once), 1);
    CHECK_EQ(get(&in_group.multi), 2);
    kc_signal_emit(signal, KC_SIG_TERMINATE);
    CHECK_EQ(kc_scope_end(&scope), -ECANCELED);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&mine.once) + get(&mine.multi) + get(&mine.end), 0);
    kc_job_release(j);
    kc_job_release(g);
    kc_signal_release(signal);
    return 0;
}

static int calls_those_who_listen(void *arg)
{
    kc_call_t calls[] = { { .fn = listens, .arg = arg }, { .fn = listens, .arg = arg } };

    return kc_all(calls, 2, KC_SIG_NONE);
}

IN_A_JOB(a_call_of_collect_hears_the_outside_signal_of_its_caller)
{
    struct heard h = { 0 };
    kc_signal_t *signal = outside();
    kc_job_t *j = launch(calls_those_who_listen, &h, &(kc_launch_opts_t){ .signal = signal });

    UNTIL(get(&h.in) == 2);
    emit_twice(signal, &h, 2, 4);
    kc_signal_emit(signal, KC_SIG_TERMINATE);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&h.end), 2);
    kc_job_release(j);
    kc_signal_release(signal);
    return 0;
}

static int listens_under_a_shield(void *arg)
{
    struct heard *h = arg;

    CHECK_EQ(kc_shield_begin(), 0);
    listen(h);
    UNTIL(get(&h->go));
    CHECK_EQ(get(&h->once), 1);
    CHECK_EQ(get(&h->multi), 2);
    CHECK_EQ(get(&h->end), 0);
    CHECK(!kc_slot_triggered(kc_current_slot(), KC_SIG_TERMINATE));
    kc_shield_end();
    CHECK_EQ(get(&h->end), 1);
    CHECK(kc_slot_triggered(kc_current_slot(), KC_SIG_TERMINATE));
    return -ECANCELED;
}

IN_A_JOB(under_a_shield_user_bits_come_at_once_and_terminate_when_the_shield_ends)
{
    struct heard h = { 0 };
    kc_signal_t *signal = outside();
    kc_job_t *j = launch(listens_under_a_shield, &h, &(kc_launch_opts_t){ .signal = signal });

    UNTIL(get(&h.in));
    kc_signal_emit(signal, KC_SIG_TERMINATE);
    CHECK_EQ(kc_job_state(j), KC_JOB_CANCELLING);
    emit_twice(signal, &h, 1, 2);
    set(&h.go, 1);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    kc_job_release(j);
    kc_signal_release(signal);
    return 0;
}

static int filters(void *arg)
{
    struct heard *h = arg;
    kc_slot_filter_t guard;
    kc_slot_t *slot = kc_current_slot();

    kc_slot_filter_push(slot, &guard, KC_SIG_NONE);
    CHECK(kc_slot_on(slot, MULTI, hears_multi, h));
    CHECK(kc_slot_on(slot, KC_SIG_TERMINATE, hears_end, h));
    add(&h->in);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK(!kc_slot_triggered(slot, KC_SIG_ALL));
    kc_slot_filter_pop(slot, &guard);
    CHECK(kc_slot_triggered(slot, KC_SIG_TERMINATE));
    CHECK(kc_slot_triggered(slot, MULTI));
    return -ECANCELED;
}

IN_A_JOB(a_filter_of_the_slot_is_for_its_handlers_and_holds_no_cancel_back)
{
    struct heard h = { 0 };
    kc_signal_t *signal = outside();
    kc_job_t *j = launch(filters, &h, &(kc_launch_opts_t){ .signal = signal });

    UNTIL(get(&h.in));
    kc_signal_emit(signal, MULTI);
    kc_signal_emit(signal, KC_SIG_TERMINATE);
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&h.multi) + get(&h.end), 0);
    kc_job_release(j);
    kc_signal_release(signal);
    return 0;
}

/* ---- above ----------------------------------------------------------------------------------- */

static int is_above_one_who_listens(void *arg)
{
    CHECK_EQ(kc_launch(listens, arg), 0);
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(the_current_slot_hears_user_bits_of_the_jobs_above)
{
    struct heard h = { 0 };
    kc_job_t *j = launch(is_above_one_who_listens, &h, NULL);

    UNTIL(get(&h.in));
    emit_twice(kc_job_signal(j), &h, 1, 2);
    CHECK_EQ(kc_signal_emit(kc_job_signal(j), KC_SIG_TERMINATE), KC_SIG_TERMINATE);
    CHECK_EQ(kc_job_reason(j), -ECANCELED); /* as kc_job_cancel(j, 0) */
    CHECK(!kc_job_cancel(j, -EPIPE));
    CHECK_EQ(kc_job_join(j), -ECANCELED);
    CHECK_EQ(get(&h.end), 1);
    kc_job_release(j);
    return 0;
}

/* ---- forbidden ------------------------------------------------------------------------------- */

static int forbids(void *arg)
{
    struct heard *h = arg;

    listen(h);
    kc_forbid_signal();
    CHECK(kc_current_slot() == NULL);
    CHECK(!kc_slot_triggered(kc_current_slot(), KC_SIG_ALL)); /* G8 */
    CHECK(!kc_slot_on(kc_current_slot(), MULTI, hears_multi, h));
    CHECK(!kc_slot_clear(kc_current_slot(), MULTI));
    CHECK(kc_slot_signal(kc_current_slot()) == NULL);
    kc_signal_t *signal = outside();
    CHECK_EQ(kc_slot_chain(kc_current_slot(), signal), -EINVAL);
    kc_signal_release(signal);
    add(&h->in);
    CHECK_EQ(until_set(&h->go), 0);
    CHECK_EQ(get(&h->once) + get(&h->multi) + get(&h->end), 0);
    CHECK_EQ(kc_cancel_reason(), 0);
    return 0;
}

/* Neither the outside one nor what is above. */
IN_A_JOB(nothing_reaches_a_job_that_forbids_signals)
{
    struct heard h = { 0 };
    kc_signal_t *signal = outside();
    kc_job_t *above = group(NULL);
    kc_launch_opts_t opts = { .parent = above, .signal = signal };
    kc_job_t *j = launch(forbids, &h, &opts);

    UNTIL(get(&h.in) == 2);
    CHECK_EQ(kc_signal_emit(signal, ONCE | MULTI), ONCE | MULTI);
    CHECK_EQ(kc_signal_emit(kc_job_signal(above), ONCE | MULTI), ONCE | MULTI);
    kc_signal_emit(signal, KC_SIG_TERMINATE);
    CHECK_EQ(kc_signal_state(kc_job_signal(j)), KC_SIG_NONE);
    CHECK(!kc_job_cancel(j, 0));
    CHECK(kc_job_cancel(above, 0));
    CHECK_EQ(kc_job_state(j), KC_JOB_ACTIVE);
    set(&h.go, 1);
    CHECK_EQ(kc_job_join(j), 0);
    ended(j, KC_JOB_COMPLETED, 0);
    kc_job_release(above);
    kc_signal_release(signal);
    return 0;
}

static int forbids_until_its_time_is_over(void *arg UNUSED)
{
    kc_forbid_signal();
    CHECK_EQ(kc_sleep(KC_SEC(2)), 0);
    CHECK_EQ(kc_cancel_reason(), 0);
    return 0;
}

IN_VIRTUAL_TIME(a_timeout_does_nothing_to_a_job_that_forbids_signals)
{
    kc_launch_opts_t opts = { .timeout = KC_SEC(1) };
    kc_job_t *j = launch(forbids_until_its_time_is_over, NULL, &opts);

    CHECK_EQ(kc_job_join(j), 0);
    ended(j, KC_JOB_COMPLETED, 0);
    return 0;
}

/* ---- no memory ------------------------------------------------------------------------------- */

static __thread int allocs = -1; /* so many succeed; below 0: all */

void *__real_kc__alloc(size_t size);
void *__wrap_kc__alloc(size_t size);

void *__wrap_kc__alloc(size_t size)
{
    if (allocs == 0)
        return NULL;
    allocs -= allocs > 0;
    return __real_kc__alloc(size);
}

TEST(a_launch_with_a_signal_that_lacks_memory_leaves_nothing)
{
    kc_sched_t *s = NULL;
    kc_signal_t *signal = outside();
    int rc = -ENOMEM, n = 0;
    struct heard h = { 0 };
    kc_job_t *j = NULL;

    allocs = -1;
    CHECK_EQ(kc_sched_create(&(kc_sched_opts_t){ .workers = KC_NO_WORKERS }, &s), 0);
    emit_early(signal);
    int before = jobs_there();
    for (; rc == -ENOMEM && n < 100; n++) {
        kc_launch_opts_t o = { .sched = s, .signal = signal };
        allocs = n;
        rc = kc_launch_job(knows_what_came_before, &h, &o, &j);
        allocs = -1;
        CHECK_EQ(jobs_there(), before + (rc == 0));
    }
    CHECK_EQ(rc, 0);
    CHECK_GE(n, 4);
    CHECK_EQ(kc_sched_poll(s, 0), KC_FOREVER);
    emit_twice(signal, &h, 1, 2);
    kc_signal_emit(signal, KC_SIG_TERMINATE);
    CHECK_EQ(kc_sched_run(s), 0);
    ended(j, KC_JOB_CANCELLED, -ECANCELED);
    CHECK_EQ(kc_sched_destroy(s), 0);
    kc_signal_release(signal);
}
