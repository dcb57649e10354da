/* SPDX-License-Identifier: MIT */
/*
 * job_grace_test.c - how long shields and cleanups may hold a cancel back (J27), and what those see
 * who look at a job meanwhile (J24).
 */
#include "job/job_timer.h"
#include "job_kit.h"

struct shielded {
    kc_job_t *me;
    kc_time_t at; /* of the request */
    count_t in, out, children;
};

/* ---- a job's own ---------------------------------------------------------------------------- */

static int shields_longer_than_its_grace(void *arg)
{
    struct shielded *s = arg;

    CHECK_EQ(kc_shield_begin(), 0);
    CHECK_EQ(kc_launch(waits, NULL), 0);
    kc_time_t begin = kc_now();
    set(&s->in, 1);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_GE(kc_now() - begin, KC_MS(1));
    CHECK(kc_cancelled());
    CHECK_EQ(kc_shield_begin(), 0);
    CHECK_EQ(kc_yield(), -ECANCELED);
    kc_shield_end();
    kc_shield_end();
    set(&s->out, 1);
    return 0;
}

static void cleans_up_for_ever(void *arg)
{
    struct shielded *s = arg;

    set(&s->in, 1);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    add(&s->out);
}

static int defers_too_long(void *arg)
{
    CHECK_EQ(kc_defer(cleans_up_for_ever, arg), 0);
    return waits(&((struct shielded *)arg)->children);
}

IN_A_JOB(when_the_grace_is_over_neither_shields_nor_cleanups_hold_a_cancel_back)
{
    kc_fn_t fns[] = { shields_longer_than_its_grace, defers_too_long };

    for (int i = 0; i < 4; i++) {
        struct shielded s = { 0 };
        kc_launch_opts_t opts = { .grace = KC_MS(1), .flags = i & 2 ? KC_JOB_UNWIND : 0 };
        s.me = launch(fns[i & 1], &s, &opts);
        UNTIL(get(&s.in) || get(&s.children));
        CHECK(kc_job_cancel(s.me, -EPIPE));
        CHECK_EQ(kc_job_join(s.me), -EPIPE);
        CHECK_EQ(get(&s.out), 1); /* nothing is unwound by force */
        ended(s.me, KC_JOB_CANCELLED, -EPIPE);
    }
    return 0;
}

static int shields_shorter_than_its_grace(void *arg)
{
    struct shielded *s = arg;

    CHECK_EQ(kc_shield_begin(), 0);
    set(&s->in, 1);
    CHECK_EQ(kc_sleep(KC_US(100)), 0);
    kc_shield_end();
    return kc_sleep(KC_FOREVER);
}

IN_A_JOB(a_shield_holds_a_cancel_back_within_the_grace)
{
    struct shielded s = { 0 };

    s.me = launch(shields_shorter_than_its_grace, &s, &(kc_launch_opts_t){ .grace = KC_SEC(100) });
    UNTIL(get(&s.in));
    CHECK(kc_job_cancel(s.me, 0));
    CHECK_EQ(kc_job_join(s.me), -ECANCELED);
    kc_job_release(s.me);
    return 0;
}

/* ---- its scopes' ----------------------------------------------------------------------------- */

static int has_scopes_with_grace(void *arg)
{
    struct shielded *s = arg;
    kc_scope_t scope;

    CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .grace = KC_SEC(1000) }), 0);
    CHECK_EQ(kc_defer(cleans_up_for_ever, s), 0);
    set(&s->children, 1);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_scope_end(&scope), -ECANCELED);
    CHECK_EQ(kc_scope_begin(&scope, NULL), 0); /* born cancelled */
    CHECK_EQ(kc_defer(cleans_up_for_ever, s), 0);
    CHECK_EQ(kc_scope_end(&scope), -ECANCELED);
    return -ECANCELED;
}

IN_A_JOB(a_scope_inherits_the_smaller_grace)
{
    struct shielded s = { 0 };

    s.me = launch(has_scopes_with_grace, &s, &(kc_launch_opts_t){ .grace = KC_MS(1) });
    UNTIL(get(&s.children));
    CHECK(kc_job_cancel(s.me, 0));
    CHECK_EQ(kc_job_join(s.me), -ECANCELED);
    CHECK_EQ(get(&s.out), 2);
    kc_job_release(s.me);
    return 0;
}

static const kc_time_t grace = KC_MS(1);

/* One that is cancelled when it is inside; and has ended then, by its reason. */
static void cancel_inside(kc_fn_t fn, uint32_t flags)
{
    struct shielded s = { 0 };

    s.me = launch(fn, &s, &(kc_launch_opts_t){ .grace = grace, .flags = flags });
    UNTIL(get(&s.in));
    s.at = kc_now();
    CHECK(kc_job_cancel(s.me, -EPIPE));
    CHECK_EQ(kc_job_join(s.me), -EPIPE);
    CHECK_EQ(get(&s.out), 1);
    kc_job_release(s.me);
}

static void cannot_wait_longer(struct shielded *s)
{
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    CHECK_EQ(kc_now() - s->at, grace);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    add(&s->out);
}

static int shields_inside_scopes_in_a_shield(void *arg)
{
    struct shielded *s = arg;
    kc_scope_t outer, inner;

    CHECK_EQ(kc_shield_begin(), 0);
    CHECK_EQ(kc_scope_begin(&outer, &(kc_scope_opts_t){ .grace = KC_SEC(1000) }), 0);
    CHECK_EQ(kc_scope_begin(&inner, NULL), 0);
    CHECK_EQ(kc_shield_begin(), 0);
    set(&s->in, 1);
    cannot_wait_longer(s);
    kc_shield_end();
    CHECK_EQ(kc_scope_end(&inner), -EPIPE);
    CHECK_EQ(kc_scope_end(&outer), -EPIPE);
    kc_shield_end();
    return 0;
}

IN_VIRTUAL_TIME(a_scope_inside_a_shield_has_no_longer_grace_than_the_shield)
{
    cancel_inside(shields_inside_scopes_in_a_shield, 0);
    cancel_inside(shields_inside_scopes_in_a_shield, KC_JOB_UNWIND);
    return 0;
}

static void cleans_up_too_long(void *arg)
{
    cannot_wait_longer(arg);
}

static void opens_a_scope_in_time(void *arg)
{
    kc_scope_t scope;

    CHECK_EQ(kc_scope_begin(&scope, NULL), 0);
    CHECK_EQ(kc_defer(cleans_up_too_long, arg), 0);
    CHECK_EQ(kc_sleep(grace / 2), 0);
    CHECK_EQ(kc_scope_end(&scope), -EPIPE);
}

static void opens_a_scope_too_late(void *arg)
{
    struct shielded *s = arg;
    kc_scope_t scope;

    cannot_wait_longer(s);
    CHECK_EQ(kc_scope_begin(&scope, &(kc_scope_opts_t){ .grace = KC_SEC(1000) }), 0);
    CHECK_EQ(kc_shield_begin(), -ECANCELED);
    CHECK_EQ(kc_defer(cleans_up_too_long, s), 0);
    CHECK_EQ(kc_scope_end(&scope), -EPIPE);
    kc_sub_acq_rel(&s->out, 1);
}

static int cleans_up_in_time(void *arg)
{
    CHECK_EQ(kc_defer(opens_a_scope_in_time, arg), 0);
    return waits(&((struct shielded *)arg)->in);
}

static int cleans_up_too_late(void *arg)
{
    CHECK_EQ(kc_defer(opens_a_scope_too_late, arg), 0);
    return waits(&((struct shielded *)arg)->in);
}

IN_VIRTUAL_TIME(a_scope_in_a_cleanup_has_what_is_left_of_the_grace)
{
    for (uint32_t flags = 0; flags <= KC_JOB_UNWIND; flags += KC_JOB_UNWIND) {
        cancel_inside(cleans_up_in_time, flags);
        cancel_inside(cleans_up_too_late, flags);
    }
    return 0;
}

/* ---- a cancel against the end of the scheduler ----------------------------------------------- */

static __thread bool is_slow; /* this thread takes its time before it sends the clock */
static count_t sends, is_gone;

void __real_kc__worker_send(kc_worker_t *w, kc_block_t *block);
void __wrap_kc__worker_send(kc_worker_t *w, kc_block_t *block);

void __wrap_kc__worker_send(kc_worker_t *w, kc_block_t *block)
{
    if (is_slow && kc_load_relaxed(&block->magic) == KC_JOB_TIMER_MAGIC) {
        set(&sends, 1);
        for (kc_time_t until = kc__os_now() + KC_MS(20); !get(&is_gone) && kc__os_now() < until;)
            sched_yield();
    }
    __real_kc__worker_send(w, block);
}

static void *cancels_slowly(void *arg)
{
    is_slow = true;
    CHECK(kc_job_cancel(arg, 0));
    is_slow = false;
    return NULL;
}

/* Memory of the one that has ended is used again: what came too late would still be there. */
TEST(a_job_timer_that_is_armed_while_its_scheduler_ends_comes_before_the_end)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };
    kc_sched_t *s;
    pthread_t thread;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    kc_launch_opts_t with_grace = { .sched = s, .affinity = KC_MAIN, .grace = KC_SEC(1) };
    kc_job_t *j = launch(waits, NULL, &with_grace);
    CHECK_EQ(kc_sched_poll(s, 0), KC_FOREVER);
    CHECK_EQ(pthread_create(&thread, NULL, cancels_slowly, j), 0);
    UNTIL(get(&sends));
    CHECK_EQ(kc_sched_destroy(s), 0);
    set(&is_gone, 1);
    pthread_join(thread, NULL);
    ended(j, KC_JOB_CANCELLED, -ECANCELED);
    CHECK(kc__mpsc_is_empty(&s->main->inbox));
    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- what who sees a cancel sees (J24) ------------------------------------------------------ */

void __real_kc__job_timer_arm(kc_job_timer_t *clock, kc_time_t at);
void __wrap_kc__job_timer_arm(kc_job_timer_t *clock, kc_time_t at);

/* Whoever looks at a job just after it was marked: so early, as its grace is armed by then. */
static struct {
    kc_job_t *job; /* NULL: nobody looks */
    kc_signal_t *signal;
    kc_slot_t slot;
    int looks;
} early;

void __wrap_kc__job_timer_arm(kc_job_timer_t *clock, kc_time_t at)
{
    if (early.job) {
        early.looks++;
        CHECK_EQ(kc_job_reason(early.job), -EPIPE);
        CHECK_EQ(kc_job_state(early.job), KC_JOB_CANCELLING);
        CHECK(kc_signal_state(early.signal) & KC_SIG_TERMINATE);
        CHECK(kc_slot_triggered(&early.slot, KC_SIG_TERMINATE));
    }
    __real_kc__job_timer_arm(clock, at);
}

static void hears(kc_sigset_t fired UNUSED, kc_signal_t *signal UNUSED, void *arg)
{
    add(arg);
}

/* The handler runs once, and before the cancel returns. */
IN_A_JOB(a_job_that_is_seen_as_cancelled_has_terminate_on_its_signal)
{
    kc_launch_opts_t opts = { .grace = KC_SEC(10) };
    count_t told = 0, in = 0;
    kc_job_t *j = launch(waits, &in, &opts);

    UNTIL(get(&in));
    early.looks = 0;
    early.signal = kc_job_signal(j);
    CHECK_EQ(kc_slot_bind(&early.slot, early.signal, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&early.slot, KC_SIG_TERMINATE, hears, &told));
    CHECK(!kc_slot_triggered(&early.slot, KC_SIG_TERMINATE));
    early.job = j;
    CHECK(kc_job_cancel(j, -EPIPE));
    early.job = NULL;
    CHECK_EQ(early.looks, 1);
    CHECK_EQ(get(&told), 1);
    CHECK_EQ(kc_job_join(j), -EPIPE);
    CHECK_EQ(get(&told), 1);
    kc_slot_unbind(&early.slot);
    kc_job_release(j);
    return 0;
}

/* Under a shield the reason is there, and TERMINATE is not before its end. */
static int is_cancelled_under_a_shield(void *arg)
{
    kc_signal_t *signal = kc_job_signal(kc_job_current());
    kc_slot_t *slot = kc_current_slot();

    CHECK(kc_slot_on(slot, KC_SIG_TERMINATE, hears, arg));
    CHECK_EQ(kc_shield_begin(), 0);
    CHECK(kc_cancel_current(-EPIPE));
    CHECK_EQ(kc_cancel_reason(), -EPIPE);
    CHECK(!kc_cancelled());
    CHECK(!(kc_signal_state(signal) & KC_SIG_TERMINATE));
    CHECK_EQ(get(arg), 0);
    kc_shield_end();
    CHECK(kc_cancelled());
    CHECK(kc_signal_state(signal) & KC_SIG_TERMINATE);
    CHECK_EQ(get(arg), 1);
    return 0;
}

IN_A_JOB(under_a_shield_terminate_comes_with_the_end_of_the_shield)
{
    count_t told = 0;
    kc_job_t *j = launch(is_cancelled_under_a_shield, &told, NULL);

    CHECK_EQ(kc_job_join(j), -EPIPE);
    CHECK_EQ(get(&told), 1);
    kc_job_release(j);
    return 0;
}
