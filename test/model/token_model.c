/* SPDX-License-Identifier: MIT */
/*
 * token_model.c - src/sched/token.c under the model checker: start, cancel, release and close.
 *
 * WHAT     Tokens, their state word, their references and the timed are the real code, linked as it
 *          is. Around it stand main, which starts what is due and closes; a worker, which runs or
 *          drops what is queued; and users. What main does with a timer, and whoever has a run with
 *          the run, is a plain write, so that two at a time are a data race. What is freed is gone:
 *          a use that does not happen before is a failure, and so is what was never freed. So every
 *          reference is given up exactly once. The task owns its argument: a run, or its dispose,
 *          writes to it, plainly, and so does main when it has closed. A delayed one's is run or
 *          disposed of, an interval's disposed of while no run is in flight, once, and before close
 *          has returned.
 *
 * SHAPE    once      a delayed task is queued: a worker starts it, the user cancels and detaches,
 *                    main closes
 *          detach    the same, but the user only detaches
 *          due       main starts it while the user cancels, and closes
 *          twice     two users cancel at once, main runs it
 *          interval  the first run is queued, the second is due, the user cancels: no run starts
 *                    after that
 *          end       the first run is queued, the user releases, main closes
 *          turns     two runs on two threads: one at a time, the second sees what the first wrote
 *          pump      main waits for the run in flight, and reads what it wrote
 *          inbox     the user makes the token on another thread and cancels it on its way to main
 *
 * ORDER    id             site              operation      pairs with     carries
 *          token_model.1  destroy: closing  store_release  token_model.2  what is queued from now
 *                                                                         on is dropped
 *          token_model.2  worker: closing   load_acquire   token_model.1
 *          token_model.3  worker: arrived   sub_acq_rel    token_model.4  (pthread_join) its runs;
 *                                                                         the timed would be closed
 *                                                                         with a run in flight
 *          token_model.4  destroy: arrived  load_acquire   token_model.3  the same
 *          token_model.5  pump:             load_acquire   token.2        (run.2) what the run
 *                         interval_runs                                   wrote
 *          token_model.6  users             sub_acq_rel    token_model.6  the program's own: all
 *                                                                         have cancelled
 *          token_model.7  made              store_release  token_model.8  the program's own: no
 *                                                                         token is made
 *          token_model.8  made              load_acquire   token_model.7  for a scheduler that is
 *                                                                         gone
 *
 * CONTROLS Each id of token.c is weakened, the changes of the state word and of the references are
 *          taken apart into a look and a store, and wrong uses stand in for the right ones; the
 *          models must fail then. MODEL_TRACE=1 shows how.
 */
#include "coro/object.h"
#include "base/os.h"
#include "harness.h"
#include "model_case.h"
#include "sched/run.h"
#include "sched/inbox.h"
#include "sched/token.h"
#include "sched/worker.h"

#include <kcoro/timer.h>

#include <string.h>

enum { OBJECTS = 3, OBJECT_SIZE = 32 * 1024 };
enum { TO_WORKER, TO_MAIN, QUEUES };
enum { RUNS = 4 };
enum { ZEROED = 512 }; /* all of a token; of a timed, all but the wheel, which is not used here */
enum { DUE = 5, INTERVAL = 10 };

static struct {
    kc_sched_t sched;
    kc_mpsc_t queue[QUEUES];   /* runs */
    KC_ATOMIC(uint32_t) users; /* who have not cancelled yet */
    KC_ATOMIC(uint32_t) made;
    kc_token_t *token;
    int data; /* plain: the argument of the task */

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    int allocated;
    bool freed[OBJECTS];
    int workers; /* 1: has the first run; all others are main's */
    int made_runs, gone_runs;
    int started;   /* runs that were queued */
    int runs;      /* that called the body */
    int dropped;   /* that were queued when the scheduler closed */
    int cancels;   /* calls that returned true */
    int disposed;  /* calls of dispose */
    bool flies;    /* a run has begun, and its end was not heard of */
    bool no_more;  /* a call has returned after which no run may start */
    bool interval; /* an interval task */
} s;

static kc_worker_t main_worker; /* of which only the inbox is used */
static char objects[OBJECTS][OBJECT_SIZE] __attribute__((aligned(KC_CACHE_LINE)));

/* ---- what token.c calls; see thread.c, too ------------------------------------------------- */

void kc__usage(const char *call, const char *what)
{
    kc__die("%s: %s", call, what);
}

void kc__object_not_live(const char *call, const char *kind, const char *rule, const void *handle)
{
    (void)rule, (void)handle;
    kc__die("%s: not a %s", call, kind);
}

void *kc__alloc(size_t size)
{
    KC_ASSERT(s.allocated < OBJECTS && size <= OBJECT_SIZE);
    return memset(objects[s.allocated++], 0, size < ZEROED ? size : ZEROED);
}

void kc__free(void *p)
{
    if (!p)
        return;
    int i = (int)(((char *)p - objects[0]) / OBJECT_SIZE);

    model_assert(!s.freed[i]);
    s.freed[i] = true;
    model_free(p, OBJECT_SIZE);
}

/* A list: what these models need of timers is who touches them. */
void kc__timers_init(kc_timers_t *ts, kc_time_t now)
{
    (void)now;
    ts->root = NULL;
}

void kc__timers_add(kc_timers_t *ts, kc_timer_t *t, kc_time_t due)
{
    model_assert(!t->where);
    model_write(&t->due, due);
    t->next = ts->root;
    t->where = &ts->root;
    ts->root = t;
}

void kc__timers_add_again(kc_timers_t *ts, kc_timer_t *t, kc_time_t due)
{
    kc__timers_add(ts, t, due);
}

void kc__timers_remove(kc_timers_t *ts, kc_timer_t *t)
{
    model_assert(t->where && ts->root == t && !t->next); /* there is one token */
    model_write(&t->due, 0);
    ts->root = NULL;
    t->where = NULL;
}

kc_timer_t *kc__timers_pop(kc_timers_t *ts, kc_time_t now)
{
    kc_timer_t *t = ts->root;

    if (!t || model_read(&t->due) > now)
        return NULL;
    ts->root = t->next;
    t->where = NULL;
    return t;
}

kc_time_t kc__timers_next(const kc_timers_t *ts)
{
    return ts->root ? model_read(&ts->root->due) : KC_FOREVER;
}

kc_time_t kc__sched_now(const kc_sched_t *sched)
{
    (void)sched;
    return 0;
}

void kc__sched_rearm(kc_sched_t *sched)
{
    (void)sched;
}

/* All here are on their threads' own stacks. */
void kc__worker_call(void (*fn)(void *arg), void *arg)
{
    fn(arg);
}

/* Main does not sleep here: it waits for the words themselves. */
void kc__worker_wake(kc_worker_t *w)
{
    (void)w;
}

bool kc__worker_take_inbox(kc_worker_t *w)
{
    (void)w;
    return false;
}

/* A run: what the layer above makes of a task. */
static struct run {
    kc_task_t task;
    void (*ended)(void *arg);
    int state; /* plain: whoever has the run writes it */
} runs[RUNS];

static kc_task_t *task_make(kc_sched_t *sched, kc_affinity_t where, kc_fn_t fn, void *arg,
                            const struct kc_task_more *more)
{
    KC_ASSERT(s.made_runs < RUNS && sched == &s.sched);
    KC_ASSERT(where == (sched->workers > 0 ? KC_WORKER_AT(0) : KC_MAIN));
    struct run *run = &runs[s.made_runs++];
    run->task.fn = fn;
    run->task.arg = arg;
    run->ended = more->ended;
    model_write(&run->state, 1);
    return &run->task;
}

static void task_go(kc_task_t *task)
{
    struct run *run = kc_container_of(task, struct run, task);
    int to = s.started < s.workers ? TO_WORKER : TO_MAIN;

    s.started++;
    model_write(&run->state, 2);
    kc__mpsc_push(&s.queue[to], &task->block.link);
}

static void task_drop(kc_task_t *task)
{
    struct run *run = kc_container_of(task, struct run, task);

    model_write(&run->state, 0);
    model_free(run, sizeof *run);
    s.gone_runs++;
}

static void task_dispose(void (*fn)(void *arg), void *arg)
{
    fn(arg);
}

const struct kc_task_hooks kc__task_hooks = {
    .make = task_make, .go = task_go, .drop = task_drop, .dispose = task_dispose
};

/* ---- running and closing ------------------------------------------------------------------- */

/* As a task ends, in whatever way: first it is gone, then its owner hears of it. */
static void run_queued(int queue, bool closing)
{
    kc_mpsc_node_t *node = kc__mpsc_take_all(&s.queue[queue]);

    while (node) {
        kc_block_t *block = kc_container_of(node, kc_block_t, link);
        struct run *run = kc_container_of(block, struct run, task.block);
        void (*ended)(void *arg) = run->ended;
        void *arg = run->task.arg;
        node = node->next;
        s.dropped += closing;
        if (!closing)
            run->task.fn(arg);
        task_drop(&run->task);
        s.flies = false;
        ended(arg);
    }
}

/* What the user has handed to the task. */
static int body(void *arg)
{
    model_assert(arg == &s.data && !s.no_more && (s.interval || s.runs == 0));
    model_assert(s.disposed == 0 && !s.flies);
    s.runs++;
    s.flies = true;
    model_write(&s.data, s.runs);
    return 0;
}

static void dispose(void *arg)
{
    model_assert(arg == &s.data && s.disposed == 0 && !s.flies && (s.interval || s.runs == 0));
    s.disposed++;
    model_write(&s.data, -1);
}

static const kc_task_opts_t owns = { .dispose = dispose };
static const kc_task_opts_t *opts = &owns; /* NULL: the argument stays the user's */

/* No run can come any more, nor is one in flight: the argument was used up, once. */
static void check_arg(void)
{
    model_assert(!opts || s.disposed == (s.interval || s.runs == 0));
}

/* Its run was queued before all threads began: it finds the scheduler open, or closing. */
static void worker(int i)
{
    run_queued(i, kc_load_acquire(&s.sched.closing)); /* token_model.2 */
    kc_sub_acq_rel(&s.sched.arrived, 1);              /* token_model.3 */
}

static void take_inbox(void)
{
    kc_mpsc_node_t *node = kc__mpsc_take_all(&main_worker.inbox);

    while (node) {
        kc_block_t *block = kc_container_of(node, kc_block_t, link);
        node = node->next;
        kc__timed_take(s.sched.timed, block);
    }
}

static bool closes_early; /* wrong: while its workers still run */

static void destroy(void)
{
    kc_store_release(&s.sched.closing, 1); /* token_model.1 */
    kc__timed_shut(s.sched.timed);
    if (!closes_early)
        model_wait_until(kc_load_acquire(&s.sched.arrived) == 0); /* token_model.4 */
    kc__timed_close(s.sched.timed);
    check_arg();
    if (opts)
        model_write(&s.data, -2);
}

/* ---- the threads of the models ------------------------------------------------------------- */

static void main_closes(int arg)
{
    (void)arg;
    destroy();
}

static void main_runs(int arg)
{
    (void)arg;
    run_queued(TO_MAIN, false);
    destroy();
}

static void main_ticks(int at)
{
    kc__timed_start_due(s.sched.timed, at);
    run_queued(TO_MAIN, false);
    destroy();
}

/* The scheduler stays: check closes it. */
static void main_only_ticks(int at)
{
    kc__timed_start_due(s.sched.timed, at);
    run_queued(TO_MAIN, false);
}

static void main_waits(int arg)
{
    (void)arg;
    model_wait_until(kc_load_acquire(&s.sched.interval_runs) == 0); /* token_model.5 */
    if (s.runs > 0)
        model_assert(model_read(&s.data) == s.runs);
    destroy();
}

static void main_takes_in(int arg)
{
    (void)arg;
    kc__timed_next_due(s.sched.timed);
    take_inbox();
    kc__timed_start_due(s.sched.timed, DUE);
    run_queued(TO_MAIN, false);
    model_wait_until(kc_load_acquire(&s.made)); /* token_model.8 */
    take_inbox();
    destroy();
}

/* Whoever has cancelled a delayed task has its argument back, if it is not the task's. */
static void cancel(void)
{
    bool first = kc_token_cancel(s.token);

    s.cancels += first;
    s.no_more = s.no_more || first || s.interval;
    if (first && !s.interval && !opts)
        model_write(&s.data, -1);
}

static void user_cancels(int arg)
{
    (void)arg;
    cancel();
    kc_token_detach(s.token);
}

/* The token stays: check gives it up. */
static void user_only_cancels(int arg)
{
    (void)arg;
    cancel();
}

static bool detaches_at_once; /* wrong: the other may still use the token */

static void user_of_two(int arg)
{
    (void)arg;
    cancel();
    if (kc_sub_acq_rel(&s.users, 1) == 1 || detaches_at_once) /* token_model.6 */
        kc_token_detach(s.token);
}

static void user_releases(int arg)
{
    (void)arg;
    kc_token_release(s.token);
}

static void user_detaches(int arg)
{
    (void)arg;
    kc_token_detach(s.token);
}

static void user_makes(int arg)
{
    (void)arg;
    int rc = kc_schedule_delayed_with(&s.sched, DUE, KC_WORKER, body, &s.data, opts, &s.token);
    model_assert(rc == 0);
    kc_store_release(&s.made, 1); /* token_model.7 */
    cancel();
    kc_token_detach(s.token);
}

/* ---- the models ---------------------------------------------------------------------------- */

static void reset_of(int workers, int users)
{
    memset(&s, 0, sizeof s);
    s.workers = workers;
    kc_store_relaxed(&s.users, (uint32_t)users);
    kc_store_relaxed(&s.sched.arrived, (uint32_t)workers);
    kc_store_relaxed(&s.sched.magic, KC_SCHED_MAGIC);
    s.sched.main = &main_worker;
    s.sched.workers = workers;
    kc__mpsc_init(&main_worker.inbox);
    kc_store_relaxed(&main_worker.mode, KC_MODE_FORKED); /* it is not */
    s.sched.timed = kc__timed_new(&s.sched);
    model_name(&s.sched.closing, "closing");
    model_name(&s.sched.arrived, "arrived");
    model_name(&s.sched.interval_runs, "interval_runs");
    model_name(&s.data, "data");
}

/* With a token that main has made. */
static void reset_token(int workers, int users, bool interval)
{
    kc_token_t **out = users > 0 ? &s.token : NULL;

    reset_of(workers, users);
    s.interval = interval;
    kc__thread()->worker = &main_worker;
    int rc =
        interval
            ? kc_schedule_interval_with(&s.sched, INTERVAL, KC_WORKER, body, &s.data, opts, out)
            : kc_schedule_delayed_with(&s.sched, DUE, KC_WORKER, body, &s.data, opts, out);
    kc__thread()->worker = NULL;
    model_assert(rc == 0);
}

/* A run is queued already. */
static void reset_queued(int workers, int users, bool interval)
{
    reset_token(workers, users, interval);
    kc__timed_start_due(s.sched.timed, DUE);
}

static void reset_once(void)
{
    reset_queued(1, 1, false);
}

static void reset_due(void)
{
    reset_token(0, 1, false);
}

static void reset_twice(void)
{
    reset_queued(0, 2, false);
}

static void reset_interval(void)
{
    reset_queued(1, 1, true);
}

static void reset_turns(void)
{
    reset_queued(1, 0, true);
}

static void reset_inbox(void)
{
    reset_of(0, 1);
}

/* Everything is freed. */
static void check(void)
{
    for (int i = 0; i < s.allocated; i++)
        model_assert(s.freed[i]);
    model_assert(s.made_runs == s.gone_runs && s.cancels <= 1);
    model_assert(kc_load_relaxed(&s.sched.interval_runs) == 0);
}

static void check_closing(void)
{
    kc__timed_close(s.sched.timed);
    check_arg();
    kc_token_detach(s.token);
    check();
}

/* And the task was cancelled, or else run or dropped. */
static void check_one(void)
{
    check();
    model_assert(s.cancels > 0 ? s.runs == 0 : s.runs + s.dropped == 1);
}

static const struct model once = {
    "once",
    reset_once,
    check_one,
    3,
    { { "main", main_closes, 0 }, { "worker", worker, TO_WORKER }, { "user", user_cancels, 0 } }
};
static const struct model detach = {
    "detach",
    reset_once,
    check_one,
    3,
    { { "main", main_closes, 0 }, { "worker", worker, TO_WORKER }, { "user", user_detaches, 0 } }
};
static const struct model due = {
    "due", reset_due, check_one, 2, { { "main", main_ticks, DUE }, { "user", user_cancels, 0 } }
};
static const struct model twice = {
    "twice",
    reset_twice,
    check_one,
    3,
    { { "main", main_runs, 0 }, { "user 0", user_of_two, 0 }, { "user 1", user_of_two, 0 } }
};
static const struct model interval = { "interval",
                                       reset_interval,
                                       check_closing,
                                       3,
                                       { { "main", main_only_ticks, DUE + INTERVAL },
                                         { "worker", worker, TO_WORKER },
                                         { "user", user_only_cancels, 0 } } };
static const struct model end = {
    "end",
    reset_interval,
    check,
    3,
    { { "main", main_closes, 0 }, { "worker", worker, TO_WORKER }, { "user", user_releases, 0 } }
};
static const struct model turns = { "turns",
                                    reset_turns,
                                    check,
                                    2,
                                    { { "main", main_ticks, DUE + INTERVAL },
                                      { "worker", worker, TO_WORKER } } };
static const struct model pump = {
    "pump", reset_turns, check, 2, { { "main", main_waits, 0 }, { "worker", worker, TO_WORKER } }
};
static const struct model inbox = {
    "inbox", reset_inbox, check, 2, { { "main", main_takes_in, 0 }, { "user", user_makes, 0 } }
};

const struct model_file model_file = { .slow = true };

TEST(a_delayed_task_is_started_or_cancelled_and_never_both)
{
    passes(&once, 3);
}

TEST(a_detached_task_runs)
{
    passes(&detach, 3);
}

TEST(a_task_that_is_due_is_started_or_cancelled_and_never_both)
{
    passes(&due, 5);
}

TEST(one_of_two_cancels_succeeds)
{
    passes(&twice, 3);
}

TEST(without_options_the_argument_is_the_callers)
{
    opts = NULL;
    passes(&once, 3);
    passes(&due, 5);
    passes(&end, 2);
}

TEST(no_run_starts_after_cancel_has_returned)
{
    passes(&interval, 3);
}

TEST(an_interval_ends_when_it_is_released_or_its_scheduler_closes)
{
    passes(&end, 3);
}

TEST(runs_of_an_interval_take_turns)
{
    passes(&turns, 6);
}

TEST(main_reads_what_the_run_in_flight_has_written)
{
    passes(&pump, MODEL_UNBOUNDED);
}

TEST(a_token_may_be_cancelled_on_its_way_to_main)
{
    passes(&inbox, 4);
}

TEST(control_token_1_relaxed_hides_a_run_from_the_next)
{
    needs(&turns, "token.1", MODEL_RELAXED, "data race: main writes data, written by worker");
    needs(&turns, "token.1", MODEL_ACQUIRE, "data race: main writes data, written by worker");
}

TEST(control_token_1_torn_starts_what_is_cancelled)
{
    opts = NULL;
    needs(&once, "token.1", MODEL_TORN, "uses what was freed");
    needs(&interval, "token.1", MODEL_TORN, "not true: arg == &s.data && !s.no_more");
    needs(&twice, "token.1", MODEL_TORN, "data race: user 1 writes data, written by main");
}

TEST(control_token_2_relaxed_hides_what_the_run_wrote)
{
    needs(&pump, "token.2", MODEL_RELAXED, "data race: main reads data");
    needs(&pump, "token_model.5", MODEL_RELAXED, "data race: main reads data");
}

TEST(control_token_3_relaxed_frees_what_is_in_use)
{
    needs(&once, "token.3", MODEL_RELAXED, "frees");
    needs(&once, "token.3", MODEL_ACQUIRE, "frees");
    needs(&once, "token.3", MODEL_RELEASE, "frees");
}

TEST(control_token_3_torn_frees_never)
{
    needs(&once, "token.3", MODEL_TORN, "not true: s.freed[i]");
    needs(&end, "token.3", MODEL_TORN, "not true: s.freed[i]");
}

/* Without options, and with the operations of this id relaxed, something is never freed. */
static void leaks(const struct model *model, const char *id)
{
    opts = NULL;
    needs(model, id, MODEL_RELAXED, "not true: s.freed[i]");
}

TEST(control_token_4_relaxed_leaves_a_message_unread)
{
    leaks(&due, "token.4");
    leaks(&inbox, "token.4");
}

TEST(control_token_5_relaxed_leaves_a_message_unread)
{
    leaks(&due, "token.5");
    leaks(&once, "token.5");
}

TEST(control_meeting_relaxed_closes_with_a_run_in_flight)
{
    leaks(&once, "token_model.3");
    leaks(&once, "token_model.4");
}

TEST(control_close_before_the_runs_have_ended)
{
    opts = NULL;
    closes_early = true;
    catches(&once, "closes_early", "not true: s.freed[i]");
}

TEST(control_token_1_torn_disposes_of_what_runs_or_twice)
{
    needs(&once, "token.1", MODEL_TORN, "not true: arg == &s.data && s.disposed == 0");
    needs(&twice, "token.1", MODEL_TORN, "not true: arg == &s.data && s.disposed == 0");
    needs(&interval, "token.1", MODEL_TORN, "not true: ");
    needs(&end, "token.1", MODEL_TORN, "not true: ");
}

TEST(control_token_1_relaxed_disposes_of_what_a_run_has_written)
{
    needs(&interval, "token.1", MODEL_RELAXED, "data race: ");
    needs(&end, "token.1", MODEL_RELAXED, "data race: ");
}

TEST(control_token_5_relaxed_closes_before_the_dispose_has_ended)
{
    needs(&once, "token.5", MODEL_RELAXED, "data race: main writes data, written by user");
    needs(&end, "token.5", MODEL_RELAXED, "data race: main writes data, written by user");
}

TEST(control_close_before_the_last_run_has_been_disposed_of)
{
    closes_early = true;
    catches(&once, "closes_early", "not true: !opts || s.disposed ==");
    catches(&end, "closes_early", "not true: !opts || s.disposed ==");
}

TEST(control_detach_while_another_cancels)
{
    detaches_at_once = true;
    catches(&twice, "detaches_at_once", "uses what was freed");
}
