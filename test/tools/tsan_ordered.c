/* SPDX-License-Identifier: MIT */
/*
 * tsan_ordered.c - what the library orders, for ThreadSanitizer: it must be silent about each
 * (test/tools/tsan).
 */
#include "tsan_target.h"

static void on_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    MUST(pthread_create(&thread, NULL, fn, arg));
    MUST(pthread_detach(thread));
}

/* ---- ordered: jobs --------------------------------------------------------------------------- */

static int changes(void *arg)
{
    char frame[300]; /* of a stack that others have used on other threads */

    memset(frame, (int)sizeof frame, sizeof frame);
    change(arg);
    return frame[7] == 7;
}

static int joined(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        change(arg);
        join(on_worker(i, changes, arg));
        change(arg);
    }
    return 0;
}

static int looked_at(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        int code;
        kc_job_t *j = on_worker(i, changes, arg);
        while (i % 2 ? kc_job_state(j) != KC_JOB_COMPLETED : kc_job_result(j, &code) != 0)
            MUST(kc_yield());
        change(arg);
        kc_job_release(j);
    }
    return 0;
}

static int grandchild(void *arg)
{
    return kc_launch(changes, arg);
}

static int scopes(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        kc_scope_t scope;
        thing_t many[6] = { { 0 } };
        MUST(kc_scope_begin(&scope, i % 2 ? NULL : &(kc_scope_opts_t){ .max_running = 2 }));
        for (int k = 0; k < 6; k++) {
            change(&many[k]);
            MUST(kc_launch(k % 2 ? changes : grandchild, &many[k]));
        }
        MUST(kc_scope_end(&scope));
        for (int k = 0; k < 6; k++)
            ((thing_t *)arg)->value += many[k].value;
    }
    return 0;
}

static int pays(void *arg)
{
    change(arg);
    kc_set_payload(arg);
    return 0;
}

static int awaited(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        kc_deferred_t *d;
        void *payload;
        MUST(kc_async(pays, arg, &d));
        MUST(kc_await(d, &payload));
        change(payload);
        kc_deferred_release(d);
    }
    return 0;
}

static int collected(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        thing_t many[4] = { { 0 } };
        kc_call_t calls[4] = { { 0 } };
        for (int k = 0; k < 4; k++)
            calls[k] = (kc_call_t){ .fn = changes, .arg = &many[k] };
        MUST(kc_all(calls, 4, 0));
        ((thing_t *)arg)->value += many[3].value;
    }
    return 0;
}

static int grouped(void *arg)
{
    thing_t many[WORKERS] = { { 0 } };
    kc_job_t *group;

    MUST(kc_group_create(NULL, &group));
    for (int i = 0; i < WORKERS; i++)
        MUST(kc_launch_job(changes, &many[i],
                           &(kc_launch_opts_t){ .parent = group, .affinity = KC_WORKER_AT(i) },
                           NULL));
    MUST(kc_group_close(group));
    join(group);
    for (int i = 0; i < WORKERS; i++)
        ((thing_t *)arg)->value += many[i].value;
    return 0;
}

static int waits_for_cancel(void *arg)
{
    int rc = kc_sleep(KC_FOREVER);

    change(arg);
    return rc;
}

static int looks_for_cancel(void *arg)
{
    while (!kc_cancelled())
        ;
    change(arg);
    return 0;
}

static int cancelled(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        kc_job_t *j = on_worker(i, i % 2 ? waits_for_cancel : looks_for_cancel, arg);
        change(arg);
        kc_job_cancel(j, 0);
        if (kc_job_join(j) == 0)
            return 1;
        change(arg);
        kc_job_release(j);
    }
    return 0;
}

static int hops(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        MUST(kc_hop(i % 4 == 3 ? KC_MAIN : KC_WORKER_AT(i % 4)));
        change(arg);
    }
    return 0;
}

static int changes_and_yields(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        change(arg);
        MUST(kc_yield());
    }
    return 0;
}

/* On one thread one runs after the other: what is kept there needs no lock. */
static int one_thread(void *arg)
{
    kc_job_t *a = on_worker(0, changes_and_yields, arg),
             *b = on_worker(0, changes_and_yields, arg);

    join(a);
    join(b);
    change(arg);
    return 0;
}

static int detaches(void *arg)
{
    return kc_launch_job(grandchild, arg, &(kc_launch_opts_t){ .flags = KC_JOB_DETACHED }, NULL);
}

/* ---- ordered: channels ----------------------------------------------------------------------- */

static kc_chan_t *chan, *back;
static kc_broadcast_t *broadcast;

static int sends(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        thing_t *t = malloc(sizeof *t);
        t->value = i;
        change(t);
        MUST(kc_chan_send(chan, &t));
    }
    (void)arg;
    return 0;
}

static int receives(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        thing_t *t;
        MUST(kc_chan_recv(chan, &t));
        change(t);
        free(t);
    }
    (void)arg;
    return 0;
}

static int pointers(void *arg)
{
    size_t capacity[] = { 0, 1, 8, KC_CHAN_UNLIMITED };

    for (size_t i = 0; i < sizeof capacity / sizeof capacity[0]; i++) {
        MUST(kc_chan_create(sizeof(thing_t *), capacity[i], &chan));
        kc_job_t *from = on_worker(0, sends, arg), *to = on_worker(1, receives, arg);
        join(from);
        join(to);
        kc_chan_release(chan);
    }
    return 0;
}

static int sends_things(void *arg)
{
    thing_t t = { 0 };

    for (int i = 0; i < ROUNDS; i++) {
        change(&t);
        kc_case_t both[] = { { .chan = chan, .op = KC_SEND, .item = &t },
                             { .chan = back, .op = KC_SEND, .item = &t } };
        if (kc_select(both, 2, KC_FOREVER) < 0)
            return 1;
    }
    kc_chan_close(chan);
    kc_chan_close(back);
    kc_chan_release(chan);
    (void)arg;
    return 0;
}

static int receives_things(void *arg)
{
    kc_chan_t *from = arg;
    thing_t t = { 0 };
    int rc;

    while ((rc = kc_chan_recv(from, &t)) == 0)
        change(&t);
    kc_chan_release(from);
    return rc == -EPIPE ? 0 : rc;
}

static int things(void *arg)
{
    for (size_t capacity = 0; capacity < 3; capacity++) {
        MUST(kc_chan_create(sizeof(thing_t), capacity, &chan));
        MUST(kc_chan_create(sizeof(thing_t), capacity, &back));
        kc_chan_retain(chan);
        kc_job_t *a = on_worker(0, sends_things, arg), *b = on_worker(1, receives_things, chan),
                 *c = on_worker(2, receives_things, back);
        join(a);
        join(b);
        join(c);
    }
    return 0;
}

static int subscribes(void *arg)
{
    kc_subscription_t sub;
    thing_t *t;

    MUST(kc_subscribe(broadcast, &sub));
    MUST(kc_chan_send(chan, &arg));
    while (kc_subscription_recv(&sub, &t, NULL) == 0)
        ((thing_t *)arg)->value += t->value;
    kc_unsubscribe(&sub);
    return 0;
}

static int broadcasts(void *arg)
{
    thing_t many[ROUNDS] = { { 0 } }, sum[2] = { { 0 } }, *t = NULL;

    MUST(kc_chan_create(sizeof t, 2, &chan));
    MUST(kc_broadcast_create(sizeof t, ROUNDS, &broadcast));
    kc_job_t *a = on_worker(0, subscribes, &sum[0]), *b = on_worker(1, subscribes, &sum[1]);
    MUST(kc_chan_recv(chan, &t));
    MUST(kc_chan_recv(chan, &t));
    for (int i = 0; i < ROUNDS; i++) {
        change(t = &many[i]);
        MUST(kc_broadcast_send(broadcast, &t));
    }
    kc_broadcast_close(broadcast);
    join(a);
    join(b);
    ((thing_t *)arg)->value = sum[0].value + sum[1].value;
    kc_broadcast_release(broadcast);
    kc_chan_release(chan);
    return 0;
}

/* ---- ordered: locks -------------------------------------------------------------------------- */

static kc_mutex_t mutex = KC_MUTEX_INIT;
static kc_cond_t cond = KC_COND_INIT;
static kc_rwlock_t rwlock = KC_RWLOCK_INIT;
static kc_sem_t sem = KC_SEM_INIT(1);
static kc_event_t event = KC_EVENT_INIT;
static kc_once_t once = KC_ONCE_INIT;
static kc_latch_t latch = KC_LATCH_INIT(WORKERS);
static kc_barrier_t barrier = KC_BARRIER_INIT(WORKERS);
static thing_t of_each[WORKERS];

static void change_once(void *arg)
{
    change(arg);
}

static int locks(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        MUST(kc_mutex_lock(&mutex));
        change(arg);
        kc_mutex_unlock(&mutex);
    }
    return 0;
}

static int reads_and_writes(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        MUST(kc_rwlock_wrlock(&rwlock));
        change(arg);
        kc_rwlock_wrunlock(&rwlock);
        MUST(kc_rwlock_rdlock(&rwlock));
        if (((thing_t *)arg)->value == 0)
            exit(3);
        kc_rwlock_rdunlock(&rwlock);
    }
    return 0;
}

static int permits(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        MUST(kc_sem_acquire(&sem));
        change(arg);
        kc_sem_release(&sem, 1);
    }
    return 0;
}

static int meets(void *arg)
{
    long me = (thing_t *)arg - of_each;

    change(arg);
    MUST(kc_latch_arrive_and_wait(&latch));
    kc_once(&once, change_once, &of_each[0]);
    if (of_each[(me + 1) % WORKERS].value == 0)
        exit(3);
    for (int i = 1; i < ROUNDS; i++) {
        if (kc_barrier_wait(&barrier) < 0)
            exit(3);
        change(&of_each[(me + i) % WORKERS]);
    }
    return 0;
}

static int waits_for_event(void *arg)
{
    MUST(kc_event_wait(&event));
    MUST(kc_mutex_lock(&mutex));
    change(arg);
    kc_cond_signal(&cond);
    kc_mutex_unlock(&mutex);
    return 0;
}

static int each_on_a_worker(kc_fn_t fn, thing_t *things, bool apart)
{
    kc_job_t *j[WORKERS];

    for (int i = 0; i < WORKERS; i++)
        j[i] = on_worker(i, fn, apart ? &things[i] : things);
    for (int i = 0; i < WORKERS; i++)
        join(j[i]);
    return 0;
}

static int locked(void *arg)
{
    each_on_a_worker(locks, arg, false);
    each_on_a_worker(reads_and_writes, arg, false);
    each_on_a_worker(permits, arg, false);
    each_on_a_worker(meets, of_each, true);
    kc_job_t *j = on_worker(0, waits_for_event, arg);
    change(arg);
    int seen = ((thing_t *)arg)->value;
    kc_event_set(&event);
    MUST(kc_mutex_lock(&mutex));
    while (((thing_t *)arg)->value == seen)
        MUST(kc_cond_wait(&cond, &mutex));
    kc_mutex_unlock(&mutex);
    join(j);
    return 0;
}

/* ---- ordered: signals, timers, threads ------------------------------------------------------- */

static kc_signal_t *outside;

static int emits(void *arg)
{
    change(arg);
    kc_signal_emit(outside, KC_SIG_TERMINATE);
    return 0;
}

static void handles(kc_sigset_t fired, kc_signal_t *s, void *arg)
{
    (void)fired, (void)s;
    change(arg);
}

static int signalled(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        kc_slot_t slot;
        outside = kc_signal_create(16);
        MUST(kc_slot_bind(&slot, outside, KC_SIG_ALL));
        kc_slot_fn_t handler = handles;
        if (i % 2 && !kc_slot_on(&slot, KC_SIG_TERMINATE, handler, arg))
            return 1;
        kc_job_t *j = on_worker(i, emits, arg);
        while (i % 2 ? !kc_slot_triggered(&slot, KC_SIG_TERMINATE)
                     : kc_signal_state(outside) == KC_SIG_NONE)
            MUST(kc_yield());
        kc_slot_unbind(&slot);
        change(arg);
        join(j);
        kc_signal_release(outside);
    }
    return 0;
}

static int ticks(void *arg)
{
    change(arg);
    kc_sem_release(&sem, 1);
    return 0;
}

static int schedules(void *arg)
{
    kc_token_t *token;

    change(arg);
    MUST(kc_schedule_delayed(kc_sched_current(), KC_US(100), KC_WORKER_AT(1), ticks, arg, &token));
    MUST(kc_sem_acquire(&sem));
    change(arg);
    kc_token_release(token);
    return 0;
}

static int timed(void *arg)
{
    static thing_t often;
    kc_token_t *token;

    MUST(kc_sem_acquire(&sem)); /* what there was */
    for (int i = 0; i < ROUNDS; i++)
        join(on_worker(i, schedules, arg));
    MUST(kc_schedule_interval(kc_sched_current(), KC_US(100), KC_WORKER, ticks, &often, &token));
    for (int i = 0; i < ROUNDS; i++)
        MUST(kc_sem_acquire(&sem));
    kc_token_release(token);
    return 0;
}

static void *keeps_promise(void *d)
{
    change(&shared);
    MUST(kc_promise_complete(d, 0, &shared));
    kc_deferred_release(d);
    return NULL;
}

static void *gives_up_lease(void *lease)
{
    change(&shared);
    kc_lease_release(lease);
    return NULL;
}

static void *joins(void *j)
{
    MUST(kc_job_join(j));
    change(&shared);
    kc_job_release(j);
    kc_sem_release(&sem, 1);
    return NULL;
}

static int waits_for_permit(void *arg)
{
    MUST(kc_sem_acquire(&sem));
    change(arg);
    return 0;
}

static int threads(void *arg)
{
    kc_deferred_t *d;
    kc_lease_t lease;
    kc_job_t *group;
    void *payload;

    MUST(kc_promise(NULL, &d));
    kc_deferred_retain(d);
    on_thread(keeps_promise, d);
    MUST(kc_await(d, &payload));
    kc_deferred_release(d);
    change(payload);
    MUST(kc_group_create(NULL, &group));
    MUST(kc_lease_take(group, &lease));
    MUST(kc_group_close(group));
    on_thread(gives_up_lease, &lease);
    join(group);
    MUST(kc_sem_acquire(&sem)); /* what there was */
    on_thread(joins, on_worker(1, changes, arg));
    join(on_worker(2, waits_for_permit, arg));
    return 0;
}

static void parks(void *arg)
{
    change(arg);
    for (int i = 0; i < ROUNDS; i++) {
        kcoro_park();
        change(arg);
    }
}

static kcoro_t *parked;
static kc_chan_t *turns;

static void *unparks(void *arg)
{
    char turn;

    for (int i = 0; i < ROUNDS; i++) {
        MUST(kc_chan_recv(turns, &turn));
        change(&shared);
        MUST(kcoro_unpark(parked));
    }
    return arg;
}

static void *resumes(void *arg)
{
    pthread_t thread;
    char turn = 0;
    int rc;

    change(&shared);
    MUST(kcoro_resume(parked));
    MUST(pthread_create(&thread, NULL, unparks, NULL));
    for (int i = 0; i < ROUNDS; i++) {
        MUST(kc_chan_send(turns, &turn));
        while ((rc = kcoro_resume(parked)) == -EAGAIN)
            ;
        MUST(rc);
    }
    MUST(pthread_join(thread, NULL));
    return arg;
}

/* Made by one thread, run by another, unparked by a third. */
static int coroutines(void)
{
    pthread_t thread;

    MUST(kc_chan_create(sizeof(char), 1, &turns));
    change(&shared);
    parked = kcoro_create(parks, &shared, 0);
    kcoro_set_name(parked, "parked");
    MUST(pthread_create(&thread, NULL, resumes, NULL));
    MUST(pthread_join(thread, NULL));
    kcoro_destroy(parked);
    kc_chan_release(turns);
    return 0;
}

static void *submits(void *s)
{
    for (int i = 0; i < ROUNDS; i++) {
        thing_t *t = calloc(1, sizeof *t);
        change(t);
        MUST(kc_chan_send(chan, &t));
    }
    change(&shared);
    kc_sched_stop(s);
    return NULL;
}

static int serves(void *arg)
{
    thing_t *t;

    while (kc_chan_recv(chan, &t) == 0) {
        change(t);
        free(t);
    }
    (void)arg;
    return 0;
}

/* A plain thread brings work and stops the pump. */
static int submitted(void)
{
    kc_sched_t *s;
    pthread_t thread;

    MUST(kc_sched_create(&(kc_sched_opts_t){ .workers = WORKERS }, &s));
    MUST(kc_chan_create(sizeof(thing_t *), 4, &chan));
    for (int i = 0; i < WORKERS; i++)
        MUST(kc_sched_submit(s, KC_WORKER_AT(i), serves, NULL));
    MUST(pthread_create(&thread, NULL, submits, s));
    MUST(kc_sched_run(s));
    change(&shared);
    MUST(pthread_join(thread, NULL));
    kc_chan_close(chan);
    MUST(kc_sched_destroy(s));
    kc_chan_release(chan);
    return 0;
}

/* ---- which ----------------------------------------------------------------------------------- */

static const case_t all[] = {
    { "joined", joined, NULL },         { "looked_at", looked_at, NULL },
    { "scopes", scopes, NULL },         { "awaited", awaited, NULL },
    { "collected", collected, NULL },   { "grouped", grouped, NULL },
    { "cancelled", cancelled, NULL },   { "hops", hops, NULL },
    { "one_thread", one_thread, NULL }, { "detaches", detaches, NULL },
    { "pointers", pointers, NULL },     { "things", things, NULL },
    { "broadcasts", broadcasts, NULL }, { "locked", locked, NULL },
    { "signalled", signalled, NULL },   { "timed", timed, NULL },
    { "threads", threads, NULL },       { "coroutines", NULL, coroutines },
    { "submitted", NULL, submitted },
};

int main(int argc, char **argv)
{
    return run_case(all, sizeof all / sizeof all[0], argc > 1 ? argv[1] : NULL);
}
