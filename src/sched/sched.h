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
#include "base/os.h"
#include "base/recorder.h"
#include "sched/idle.h"
#include "sched/queue.h"
#include "sched/task.h"
#include "sched/time.h"
#include "sched/timers.h"

#include <kcoro/sched.h>

#include <pthread.h>

/* In kc_sched_t.external: one more has come; 1 less, and one has gone. How many have come stands
 * above how many there are, where it may run over. */
#define KC_EXTERNAL_ONE (((uint64_t)1 << 32) + 1)

/* kc_sched_t.done: what the thread waits for has come. */
enum { KC_DONE = 2 };

/* Main's second bit in sched->idle: it does not pump, so it can be woken by name only. */
enum { KC_OUTSIDE_BIT = KC_IDLE_MEMBERS - 2 };

#define KC_TOKEN_MAGIC 0x70cec070u
#define KC_SCHED_MAGIC 0x5c4ec070u

/* What a sleeping thread is woken for: kc_worker_t.awake. */
enum { KC_ASLEEP, KC_AWAKE_BY_NAME, KC_AWAKE_AS_SEARCHER };

enum { KC_BUDGET = 256 }; /* of a worker: see kc__wait_spend */

/* Something to be done at a time, on the thread whose timers it is in. */
typedef struct kc_timed_call {
    kc_timer_t timer;
    void (*ring)(struct kc_timed_call *timed);
} kc_timed_call_t;

/* What is counted; kc_metrics tells. */
typedef enum {
    KC_COUNT_CREATED,
    KC_COUNT_COMPLETED,
    KC_COUNT_FAILED,
    KC_COUNT_CANCELLED,
    KC_COUNT_CANCELLATIONS,
    KC_COUNT_WAITS,
    KC_COUNT_WAKES,
    KC_COUNT_STAYS, /* turns of who had just stopped: nobody else was ready */
    KC_COUNT_NOW,   /* coroutines that ran at once: no turns, which others have a right to */
    KC_COUNT_SPAWNS,
    KC_COUNT_STEALS,
    KC_COUNT_PARKS,
    KC_COUNT_TIMERS,
    KC_COUNT_REAPED,   /* coroutines that have given their stack back */
    KC_COUNT_SUSPENDS, /* waits in kc_suspend that have begun ... */
    KC_COUNT_RESUMES,  /* ... and that are over */
    KC_COUNTERS
} kc_counter_t;

/* What a thread has to think of in every turn. */
enum {
    KC_MODE_ORACLE = 1,    /* every choice is the seed's             */
    KC_MODE_ONCE = 2,      /* who yields stays for the next pump     */
    KC_MODE_TRACE = 4,     /* a trace is written                     */
    KC_MODE_TOOLS = 8,     /* a sanitizer or Valgrind follows stacks */
    KC_MODE_FORKED = 16,   /* this is a forked child: nothing goes on here (O10) */
    KC_MODE_NO_STACK = 32, /* there was none just now (no_stack.c)    */
    KC_MODE_OFFERS = 64,   /* others have offered it tasks        */
    KC_MODE_ASKED = 128,   /* another one has gone to sleep, and would take who may migrate */
    KC_MODE_CYCLES = 256   /* jobs that wait for each other are to be found (E4)             */
};

/* A function that is to run on a thread's own stack, for a coroutine that waits for it. */
struct kc_call {
    void (*fn)(void *arg);
    void *arg;
    kcoro_t *caller;
};

/* A thread of a scheduler: a worker, or the main thread. */
struct kc_worker {
    /* One cache line: what every turn needs. */
    kc_sched_t *sched;            /* I                                                    */
    KC_ATOMIC(kcoro_t *) running; /* A  the job's coroutine that it runs; NULL: none      */
    KC_ATOMIC(uint64_t) turns;    /* A  coroutines that it has gone on with               */
    kc_queue_t ready;             /* O  coroutines that may run                           */
    uint32_t budget;              /* O  what may be done without waiting until others run */
    uint64_t look_turn;           /* O  the turn that looks at the timers; see inbox.c    */

    uint64_t look_ticks;  /* O  ... but not before that, on the clock of kc__os_ticks      */
    kc_time_t look_due;   /* O  when the first timer is due, as last heard                 */
    kc_queue_t own_stack; /* O  messages to be read on the thread's own stack             */
    struct kc_call call;  /* O  what is to run there now; its fn is NULL: nothing          */
    kcoro_t *launcher;    /* O  of a child that runs now, until that stops; NULL: none     */
    bool wanted;          /* O  a task is to end unstarted, on the thread's own stack      */
    bool between;         /* O  one stack has been left, and the next one not entered      */
    int index;            /* I  0...workers-1, or KC_MAIN                                  */
    int bit;              /* I  in sched->idle                                             */
    uint64_t bits;        /* I  of all ways in which it may sleep                              */
    uint32_t starts;      /* O  counts tries to start something: every so often the oldest     */
    uint32_t hops;        /* O  counts hops to any worker, to spread them                      */
    int64_t bottom;       /* O  of the deque, when the oldest was last thought of              */
    uint64_t random;      /* O  whom to steal from                                             */
    bool searching;       /* O  counted in sched->idle                                         */
    bool works;           /* O  takes what any worker may do                                   */
    bool alone;           /* I  the only thread of its scheduler                               */
    kc_queue_t unstarted; /* O  tasks that must start here                                     */
    kc_deque_t deque;     /*    tasks that may start anywhere; others steal                     */
    kc_timers_t timers;   /* O                                                                */
    kc_task_t *root;      /* I  the parent of what is nobody's child, see job/root.c          */
    kc_task_t *apart;     /* I  the same for detached jobs                                     */
    pthread_t thread;     /* M                                                                */
    KC_ATOMIC(kc_time_t)
    due;                /* A  it sleeps, and this is its next timer; 0: or does not, no_stack.c */
    kc_time_t retry_at; /* O  NO_STACK: not before                                    */
    kc_time_t quiet_since; /* O  nothing has run in its scheduler, nor could it ...      */
    uint64_t quiet_turns;  /* O  ... since there were so many turns                      */
    KC_ATOMIC(uint64_t) counter[KC_COUNTERS]; /* A  only its thread writes, as above         */

    /* Even load (spread.c). */
    kc_task_t *last;   /* O  an example: it has started here, and has not ended; NULL: none  */
    kc_fn_t last_fn;   /* O  its function                                                     */
    uint32_t last_age; /* O  how long it remains one                                          */
    uint32_t looks;    /* O  at others, to begin with another one each time                   */
    uint32_t even;     /* O  so many may start before the next look                           */
    KC_ATOMIC(int64_t)
    moved __attribute__((aligned(KC_CACHE_LINE))); /* A  what others have added to its load      */
    kc_mpsc_t offers;                              /* A  tasks that it should start              */
    KC_ATOMIC(uint32_t) offers_taken;              /* A  1: somebody empties it                  */
    KC_ATOMIC(uint64_t) offer_turn;                /* A  turns, when the first was offered       */
    KC_ATOMIC(kc_time_t) offer_at;                 /* A  when that was                           */
    /* From here on it reads as zero in a forked child: this is where a page begins. */
    KC_ATOMIC(uint32_t)
    awake __attribute__((aligned(KC_CACHE_LINE))); /* A  the futex it sleeps on */
    KC_ATOMIC(uint32_t)
    mode;            /* A  KC_MODE_*, of which FORKED is 1 as long as it is not so        */
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
    KC_ATOMIC(uint32_t) magic; /* A  KC_SCHED_MAGIC until it is destroyed; the memory stays */
    kc_idle_t idle __attribute__((aligned(KC_CACHE_LINE)));     /* A */
    kc_mpsc_t injector __attribute__((aligned(KC_CACHE_LINE))); /* A  tasks for any worker */
    KC_ATOMIC(uint32_t)
    injector_taken;               /* A  1: a worker empties it                                */
    KC_ATOMIC(uint32_t) stop;     /* A  1: the current or next run ends                       */
    KC_ATOMIC(uint32_t) closing;  /* A  1: the workers end                                     */
    KC_ATOMIC(uint32_t) arrived;  /* A  workers that have not begun to work yet                */
    KC_ATOMIC(uint64_t) external; /* A  leases and pending promises: others may end them       */
    KC_ATOMIC(uint32_t)
    leave_detached;               /* A  1: the pump does not wait for those: kc_run           */
    KC_ATOMIC(uint32_t) shutting; /* A  1: kc_sched_destroy has begun                          */
    int workers;                  /* I */
    uint32_t flags;               /* I */
    kc_time_t grace;              /* I  how long shields of its jobs hold a cancel; 0: no limit */
    size_t stack_size;            /* I */
    unsigned stack_class;         /* I  of that size                                          */
    uint64_t fp_control;          /* I  of the creator: what its coroutines start with        */
    uint64_t members;             /* I  idle bits of the workers                              */
    char name[32];                /* I */
    void (*on_failure)(kc_job_t *job, int code, void *arg); /* I  NULL: none                   */
    void *on_failure_arg;                                   /* I */
    bool pumping;      /* M  main is inside a pump, in code of the user's too      */
    bool follow_clock; /* M  timed tasks start by the clock: in kc_sched_run      */
    bool until_idle;   /* M  the pump ends when nothing is left */
    bool stoppable;    /* M  ... and when stopped: kc_sched_run */
    bool held;         /* M  all wait for ever, unless who holds it open ends that */
    const KC_ATOMIC(uint32_t) *
        done;           /* M  the pump returns when it is KC_DONE; NULL: no such word */
    kc_time_t deadline; /* M  the pump returns then; 0: none */
    bool virtual_time;  /* I */
    uint64_t random;    /* M  not 0: the state of the oracle                       */
    KC_ATOMIC(kc_recorder_t *) recorder; /* A  where events go; NULL: nobody wants them     */
    KC_ATOMIC(kc_time_t) clock;          /* A  virtual_time: now; main writes it */
    kc_queue_t again;            /* M  who has yielded while `once`                         */
    int fd, event_fd, timer_fd;  /* M  -1: kc_sched_fd was not called                       */
    KC_ATOMIC(uint32_t) outside; /* A  1: main does not pump, and sleeps on event_fd        */
    KC_ATOMIC(uint32_t)
    interval_runs;                /* A  runs of interval tasks in flight                     */
    KC_ATOMIC(uint32_t) migrants; /* A  1: there was a job that may migrate                   */
    struct kc_timed_tasks *timed; /* M  delayed and interval tasks                           */
    pthread_mutex_t no_stack_lock;
    kc_queue_t
        no_stack; /* L(no_stack_lock)  tasks for any worker that got no stack, see no_stack.c */
    KC_ATOMIC(uint32_t)
    no_stack_count; /* A  all that got none, and have neither started nor ended since           */
    struct kc_job *first_foreign, *last_foreign; /* see job/root.c                             */
    kc_worker_t *main;                           /* I */
    kc_worker_t *worker[KC_MAX_WORKERS];         /* I */
    kc_recorder_t *old_recorder;   /* L(top/trace.c)  kept for the next trace            */
    struct kc_sched *next_watched; /* L(top/watch.c)  the next that SIGQUIT dumps         */
    /* A  what other threads have done: a line that the scheduler's own never look at */
    KC_ATOMIC(uint64_t) counter[KC_COUNTERS] __attribute__((aligned(KC_CACHE_LINE)));
};

/* What the top layer does for a scheduler. It defines this table, the only way up to it. */
struct kc_observer_hooks {
    int (*watch)(kc_sched_t *s);      /* it begins, and asked for dumps: 0 or a negative errno */
    void (*unwatch)(kc_sched_t *s);   /* it ends: no more of them                              */
    void (*end_trace)(kc_sched_t *s); /* it ends: so does its trace, if there is one          */
};
extern const struct kc_observer_hooks kc__observer_hooks;

/* The worker whose thread this is; NULL: none. */
KC_INLINE kc_worker_t *kc__worker(void)
{
    return kc__thread()->worker;
}

/* One more, where no other thread counts. */
KC_INLINE void kc__worker_count(kc_worker_t *w, kc_counter_t what)
{
    kc_store_relaxed(&w->counter[what], kc_load_relaxed(&w->counter[what]) + 1);
}

/* One more on any thread, whose worker is w; NULL: none. */
KC_INLINE void kc__count_on(kc_worker_t *w, kc_sched_t *s, kc_counter_t what)
{
    if (kc_likely(w && w->sched == s))
        kc__worker_count(w, what);
    else
        kc_add_relaxed(&s->counter[what], 1);
}

KC_INLINE void kc__count(kc_sched_t *s, kc_counter_t what)
{
    kc__count_on(kc__worker(), s, what);
}

/* Writes e into the trace of s, if it is still on. e.at is 0: now. name: of 32 bytes, or NULL. */
KC_COLD void kc__sched_record(kc_sched_t *s, kc_record_t e, const char *name);

/* The time, if s is traced; else 0. For events that are known to have happened only later. */
KC_INLINE int64_t kc__trace_time(const kc_sched_t *s)
{
    return kc_likely(!kc_load_relaxed(&s->recorder)) ? 0 : kc__os_now();
}

/* A trace point: while nobody traces, one branch. The arguments are fields of kc_record_t. */
#define KC_TRACE(s, ...)                                                                          \
    do {                                                                                          \
        if (kc_unlikely(kc_load_relaxed(&(s)->recorder) != NULL))                                 \
            kc__sched_record((s), (kc_record_t){ __VA_ARGS__ }, NULL);                            \
    } while (0)

/* What it has to think of, as bits. */
KC_INLINE uint32_t kc__worker_mode(const kc_worker_t *w)
{
    return kc_load_relaxed(&w->mode) ^ KC_MODE_FORKED;
}

KC_INLINE bool kc__worker_has_mode(const kc_worker_t *w, uint32_t for_what)
{
    return kc__worker_mode(w) & for_what;
}

/* Says that this is a forked child, and aborts. */
_Noreturn KC_COLD void kc__sched_forked(void);

/* A call needs s, or the thread w: its process must be this one. A turn finds out by what it has to
 * think of, and only then asks. */
KC_INLINE void kc__worker_check_process(const kc_worker_t *w)
{
    if (kc_unlikely(kc__worker_has_mode(w, KC_MODE_FORKED)))
        kc__sched_forked();
}

/* A handle that the user has given is no scheduler any more: says so, and aborts. */
_Noreturn KC_COLD void kc__sched_not_live(const char *call);

/* One that is not NULL: aborts if it is none. */
KC_INLINE void kc__sched_check(const char *call, const kc_sched_t *s)
{
    if (kc_unlikely(kc_load_relaxed(&s->magic) != KC_SCHED_MAGIC))
        kc__sched_not_live(call);
}

KC_INLINE void kc__sched_check_process(const kc_sched_t *s)
{
    kc__worker_check_process(s->main);
}

/* The scheduler that it belongs to. */
KC_INLINE kc_sched_t *kc__task_sched(kc_task_t *task)
{
    return kc_load_relaxed(&task->worker)->sched;
}

/* ---- sched.c ------------------------------------------------------------------------------- */

/* A worker's thread runs, or could not be set up. */
void kc__sched_arrive(kc_sched_t *s, bool ok);

/* There is such a place. KC_HERE becomes that of the caller. */
KC_INLINE bool kc__sched_find(const kc_sched_t *s, kc_affinity_t *where)
{
    if (kc_unlikely(*where < KC_MAIN)) {
        const kc_worker_t *here = kc__worker();
        if (*where != KC_HERE || !here || here->sched != s)
            return false;
        *where = here->index == KC_MAIN ? KC_MAIN : KC_WORKER_AT(here->index);
    }
    return *where <= s->workers;
}

#endif
