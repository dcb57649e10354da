/* SPDX-License-Identifier: MIT */
/*
 * sched.h - tasks, workers and schedulers, for the files of this folder and the layers above.
 *
 * Legend: I immutable while in use, O the owning thread's, A atomic, M the main thread's.
 */
#ifndef KC_SCHED_SCHED_H
#define KC_SCHED_SCHED_H

#include "base/block.h"
#include "base/deque.h"
#include "base/mpsc.h"
#include "coro/coro.h"
#include "sched/idle.h"
#include "sched/queue.h"
#include "sched/timer.h"

#include <kcoro/sched.h>

#include <pthread.h>

/* Main's second bit in sched->idle: it does not pump, so it can be woken by name only. */
enum { KC_OUTSIDE_BIT = KC_IDLE_MEMBERS - 2 };

/* sched->closing: the workers stop; all threads do. */
enum { KC_CLOSING_WORKERS = 1, KC_CLOSING_ALL = 2 };

#define KC_TASK_MAGIC 0x7a5cc070u
#define KC_TOKEN_MAGIC 0x70cec070u

enum {
    KC_TASK_EMBEDDED = 1
}; /* block.flags: part of something larger, which `ended` looks after */

typedef struct kc_worker kc_worker_t;

/* What a sleeping thread is woken for: kc_worker_t.awake. */
enum { KC_ASLEEP, KC_AWAKE_BY_NAME, KC_AWAKE_AS_SEARCHER };

/*
 * What runs. Before it starts it is this block alone; then it has a coroutine, whose arg it is. The
 * layer above attaches by `ended`.
 */
typedef struct kc_task {
    kc_block_t block;     /*    magic; link: in an inbox or list while it has not started    */
    kc_fn_t fn;           /* I                                                              */
    void *arg;            /* I                                                              */
    kc_sched_t *sched;    /* I                                                              */
    kcoro_t *co;          /* O  NULL: not started                                           */
    kcoro_t *inner;       /* O  at rest: the coroutine inside it that waits, mostly co       */
    kc_worker_t *worker;  /* O  whose thread it runs on                                      */
    struct kc_task *next; /* O  in the worker's list of started tasks                       */
    struct kc_task *prev;
    /* I  called once, off its stack, before the block is freed; NULL: nobody asks */
    void (*ended)(struct kc_task *task);
    void *owner;         /* I  for `ended`                                                  */
    bool hops;           /* O  on its way to another thread: on no list of started ones      */
    kc_affinity_t where; /* I  where it is to start                                         */
    int rc;              /* O  what fn returned; -ECANCELED: it was not called               */
} kc_task_t;

_Static_assert(sizeof(kc_task_t) <= KC_BLOCK_SIZE, "a queued task is one block");

/* A thread of a scheduler: a worker, or the main thread. */
struct kc_worker {
    kc_sched_t *sched;    /* I                                                                */
    int index;            /* I  0...workers-1, or KC_MAIN                                      */
    int bit;              /* I  in sched->idle                                                 */
    uint64_t bits;        /* I  of all ways in which it may sleep                              */
    uint32_t budget;      /* O  switches until the timers are looked at           */
    uint32_t starts;      /* O  counts tries to start something: every so often the oldest */
    uint32_t turn;        /* O  counts starts and switches, for fairness between the queues    */
    uint64_t random;      /* O  whom to steal from                                             */
    bool searching;       /* O  counted in sched->idle                                         */
    bool works;           /* O  takes what any worker may do                                   */
    kc_queue_t ready;     /* O  coroutines that may run                                        */
    kc_queue_t fresh;     /* O  tasks that must start here                                     */
    kc_deque_t deque;     /*    tasks that may start anywhere; others steal                     */
    kc_timers_t sleepers; /* O                                                                */
    kc_task_t *started;   /* O  all that have a coroutine here                                 */
    pthread_t thread;     /* M                                                                */
    KC_ATOMIC(uint32_t)
    awake __attribute__((aligned(KC_CACHE_LINE))); /* A  the futex it sleeps on */
    kc_mpsc_t inbox; /* A  woken coroutines and tasks from other threads                  */
};

/*
 * Never freed but used again: a thread that has put the last coroutine into an inbox may still be
 * about to look whether its worker sleeps, when that has ended and the scheduler is destroyed. It
 * finds no bit set, or wakes a thread of a later scheduler for nothing. So what it touches (a
 * worker's sched and bits, the idle word, the futex) stays what it is.
 */
struct kc_sched {
    struct kc_sched *next_old; /* L(old_lock)  in the list of those to be used again */
    kc_idle_t idle __attribute__((aligned(KC_CACHE_LINE)));          /* A */
    KC_ATOMIC(int64_t) live __attribute__((aligned(KC_CACHE_LINE))); /* A  tasks not ended      */
    kc_mpsc_t injector __attribute__((aligned(KC_CACHE_LINE)));      /* A  tasks for any worker */
    KC_ATOMIC(uint32_t)
    injector_taken;              /* A  1: a worker empties it                                */
    KC_ATOMIC(uint32_t) stop;    /* A  1: the current or next run ends                       */
    KC_ATOMIC(uint32_t) closing; /* A  a phase of kc_sched_destroy, see sched.c              */
    KC_ATOMIC(uint32_t) arrived; /* A  threads that have reached that phase                  */
    int workers;                 /* I */
    uint32_t flags;              /* I */
    size_t stack_size;           /* I */
    uint64_t fp_control;         /* I  of the creator: what its coroutines start with        */
    uint64_t members;            /* I  idle bits of the workers                              */
    char name[32];               /* I */
    bool follow_clock;           /* M  timed tasks start by the clock: in kc_sched_run      */
    bool until_idle;    /* M  in kc_sched_run, which ends when no task is left, or when stopped */
    kc_time_t deadline; /* M  the pump returns then; 0: none */
    bool once;          /* M  who yields stays for the next pump                   */
    bool virtual_time;  /* I */
    uint64_t random;    /* M  not 0: the state of the oracle                       */
    KC_ATOMIC(kc_time_t) clock;  /* A  virtual_time: now; main writes it */
    kc_queue_t again;            /* M  who has yielded while `once`                         */
    int fd, event_fd, timer_fd;  /* M  -1: kc_sched_fd was not called                       */
    KC_ATOMIC(uint32_t) outside; /* A  1: main does not pump, and sleeps on event_fd        */
    KC_ATOMIC(uint32_t) flights; /* A  runs of interval tasks in flight                     */
    struct kc_hub *hub;          /* M  delayed and interval tasks                           */
    kc_worker_t *main;           /* I */
    kc_worker_t *worker[KC_MAX_WORKERS]; /* I */
};

/* ---- worker.c ------------------------------------------------------------------------------ */

/* The worker whose thread this is; NULL: none. */
KC_INLINE kc_worker_t *kc__worker(void)
{
    return kc__thread()->worker;
}

kc_worker_t *kc__worker_new(kc_sched_t *s, int index, int bit);
void kc__worker_free(kc_worker_t *w);

/* As new, for the next scheduler that uses this memory. */
void kc__worker_reset(kc_worker_t *w);

/* It will run something, or stop: no longer counts as one that searches. */
void kc__worker_stop_searching(kc_worker_t *w);

/* Takes in what other threads have sent. */
void kc__worker_run_inbox(kc_worker_t *w);

/* Runs what is ready here until nothing is. True: something ran. */
bool kc__worker_run_ready(kc_worker_t *w);

/* Sleeps until there is something to do, at most until `until`. */
void kc__worker_sleep(kc_worker_t *w, kc_time_t until);

/* Makes sure that somebody looks after what was put into a queue. */
void kc__worker_wake(kc_worker_t *w);
void kc__sched_wake_any(kc_sched_t *s);

/* When the first sleeper or, on the main thread, timed task is due; KC_FOREVER: none. */
kc_time_t kc__worker_next_due(kc_worker_t *w);

/* Prints who waits. Main thread of a scheduler without workers. */
void kc__worker_report(kc_worker_t *w);

/* What a worker's thread executes. */
void *kc__worker_main(void *arg);

/* Ends everything that is at rest or queued on this thread; or only what has not started. See
 * kc_sched_destroy. */
void kc__worker_close(kc_worker_t *w);
void kc__worker_drop_fresh(kc_worker_t *w);

/* Queues a task that has not started, from any thread. */
void kc__task_submit(kc_task_t *task);

/* The caller's task; NULL: not in one. */
kc_task_t *kc__task_current(void);

/* ---- token.c ------------------------------------------------------------------------------- */

/* What tokens share: outlives the scheduler as long as a token does. */
typedef struct kc_hub kc_hub_t;

kc_hub_t *kc__hub_new(kc_sched_t *s);
void kc__hub_close(kc_hub_t *hub);

/* Starts what is due at `now`. Main thread. True: something was started. */
bool kc__hub_start_due(kc_hub_t *hub, kc_time_t now);
kc_time_t kc__hub_next_due(kc_hub_t *hub);

/* A token that another thread has made comes in. Main thread. */
void kc__hub_take(kc_hub_t *hub, kc_block_t *block);

/* ---- sched.c ------------------------------------------------------------------------------- */

/* A task is over: tells its owner, frees it, and wakes the main thread if it was the last. */
void kc__task_ended(kc_task_t *task);

/* The time on s's clock, from any thread. */
kc_time_t kc__sched_now(const kc_sched_t *s);

/* Counts a task in and queues it. */
void kc__task_go(kc_task_t *task);

/* The main thread, outside coroutines, waits until `at` and pumps meanwhile. False: not there. */
bool kc__sched_pump_until(kc_sched_t *s, kc_time_t at);

/* The first timer may be another one: the descriptor's clock is set anew, if main does not pump. */
void kc__sched_rearm(kc_sched_t *s);

/* Makes main's file descriptor readable. */
void kc__sched_signal_fd(kc_sched_t *s);

/* A worker's thread runs, or could not be set up. */
void kc__sched_arrive(kc_sched_t *s, bool ok);

/* Waits until all threads have come here: then no coroutine runs any more. */
void kc__sched_meet(kc_sched_t *s);

#endif
