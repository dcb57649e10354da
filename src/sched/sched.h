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
#include "base/trace.h"
#include "coro/coro.h"
#include "sched/idle.h"
#include "sched/queue.h"
#include "sched/timer.h"

#include <kcoro/sched.h>

#include <pthread.h>

/* In kc_sched_t.holds: one more has come; 1 less, and one has gone. How many have come stands
 * above how many there are, where it may run over. */
#define KC_HOLD_COMES (((uint64_t)1 << 32) + 1)

/* kc_sched_t.done: what the thread waits for has come. */
enum { KC_DONE = 2 };

/* Main's second bit in sched->idle: it does not pump, so it can be woken by name only. */
enum { KC_OUTSIDE_BIT = KC_IDLE_MEMBERS - 2 };

#define KC_TASK_MAGIC 0x7a5cc070u
#define KC_TOKEN_MAGIC 0x70cec070u
#define KC_SCHED_MAGIC 0x5c4ec070u

typedef struct kc_worker kc_worker_t;

/* What a sleeping thread is woken for: kc_worker_t.awake. */
enum { KC_ASLEEP, KC_AWAKE_BY_NAME, KC_AWAKE_AS_SEARCHER };

/* In block.flags of a task: it has no body, and is never started. */
#define KC_TASK_BODILESS 0x80000000u

/* In kc_task_t.held, on a thread that has KC_CARE_CYCLES to think of. */
#define KC_TASK_HELD_NAMED 0x8000u

/* In kc_task_t.word: it must not start. All other bits are the layer above's. */
#define KC_TASK_STOP ((uint64_t)1 << 63)

/*
 * What runs: the head of a job (job/job.h), which is all that this layer knows of it. Before it
 * starts it has no coroutine, and so no stack.
 */
typedef struct kc_task {
    kc_block_t block;         /*    magic; link: queued while not started, then a message    */
    KC_ATOMIC(uint64_t) word; /* A                                                           */
    KC_ATOMIC(kc_worker_t *)
    worker; /* A  whose thread it is on; not started: some thread of its scheduler       */
    union {
        kcoro_t *co;            /* O  NULL: not started                                      */
        kc_mpsc_node_t *before; /* L(parent)  not started: who waits for its turn before it  */
    };
    union {
        kc_fn_t fn;    /* I  until it starts */
        void *payload; /* O  then: what await hands over */
        int returned;  /* O  then, if it is not 0: what the body returned; nobody gets a payload */
    };
    union {
        void *arg;            /* I  until it starts */
        struct kc_wait *wait; /* O  then: what its body waits for; NULL: nothing */
    };
    int8_t where; /* I  where it is to start: a kc_affinity_t                              */
    KC_ATOMIC(uint8_t)
    kind;           /* A  why it waits, a kc_wait_kind_t; its thread writes it, others look */
    uint16_t held;  /* O  locks that its body holds                                          */
    uint32_t depth; /* I  in the tree of jobs                                                */
} kc_task_t;

_Static_assert(sizeof(kc_task_t) == KC_CACHE_LINE, "the head of a job is one cache line");

/* What a task may have beside its function and its argument. */
struct kc_task_more {
    const char *name;           /* NULL: none                                              */
    void (*dispose)(void *arg); /* instead of fn, if it never starts; NULL: nothing        */
    void (*ended)(void *arg);   /* at its end, started or not; NULL: nothing               */
    bool tells;                 /* `ended` may call the user's functions                   */
};

/* What the layer above does for the tasks of this one. This table, which it defines, is the only
 * way up from here. */
struct kc_task_host {
    /* Gives it a coroutine: 0. -ENOMEM: there is no stack; -EAGAIN: again. -ECANCELED: it has been
     * ended. -EBUSY: it is to end unstarted, which is done on the thread's own stack only. */
    int (*start)(kc_task_t *task);
    void (*fail)(kc_task_t *task, int code); /* ends it, which has not started, as failed        */
    kcoro_t *(*heir)(kc_task_t *task); /* who goes on when it ends, here; NULL: ask the queues */
    void (*ended)(kc_task_t *task);    /* its coroutine has left its stack for good and is gone  */
    void (*message)(kc_block_t *block); /* one of its own has come through an inbox           */
    /* co, which MIGRATES and is ready on this thread, goes on on another worker; NULL: on the one
     * that has woken it. False: it stays. */
    bool (*move)(kcoro_t *co, kc_worker_t *to);
    int (*leave)(kc_thread_t *t, kcoro_t *co); /* CARE_CYCLES: the caller waits, as by
                                         kc__worker_leave, unless that would be for ever */
    bool (*joins)(const kcoro_t *co); /* co, at rest on this thread, waits for other jobs    */
    int (*open)(kc_sched_t *s);       /* a scheduler begins: 0 or -ENOMEM                   */
    void (*close)(kc_sched_t *s);     /* it ends, and nothing is left in it                 */
    void (*shut)(kc_sched_t *s);      /* all that is left in it is to end                   */
    void (*gone)(kc_sched_t *s);      /* after shut: it has ended. On the main thread        */
    bool (*idle)(kc_sched_t *s);      /* nothing is left in it                              */
    bool (*held_open)(kc_sched_t *s, uint64_t *seen); /* something is left that another thread
                                         may end. seen: changes when one more such has come */
    bool (*awaits_thread)(
        kc_sched_t *s);                 /* a thread outside has a lock, or is about to wake one */
    void (*report)(kc_sched_t *s);      /* prints who waits for what                          */
    bool (*end_shields)(kc_sched_t *s); /* none holds a cancel back any more. False: none did    */
    /* A task that is nobody's child, for later. more: may be NULL. NULL: no memory */
    kc_task_t *(*make)(kc_sched_t *s, kc_affinity_t where, kc_fn_t fn, void *arg,
                       const struct kc_task_more *more);
    void (*go)(kc_task_t *task);   /* queues what make has made */
    void (*drop)(kc_task_t *task); /* frees what make has made and go has not queued */
    void (*dispose)(void (*fn)(void *arg), void *arg); /* calls it: it may not wait */
};
extern const KC_HIDDEN struct kc_task_host kc__task_host;

enum { KC_CREDIT = 256 }; /* of a worker: see kc__wait_charge */

/* Something to be done at a time, on the thread whose timers it is in. */
typedef struct kc_alarm {
    kc_timer_t timer;
    void (*ring)(struct kc_alarm *alarm);
} kc_alarm_t;

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
    KC_COUNT_BURIED,   /* coroutines that have given their stack back */
    KC_COUNT_SUSPENDS, /* waits in kc_suspend that have begun ... */
    KC_COUNT_RESUMES,  /* ... and that are over */
    KC_COUNTERS
} kc_counter_t;

/* What a thread has to think of in every turn. */
enum {
    KC_CARE_ORACLE = 1,    /* every choice is the seed's             */
    KC_CARE_ONCE = 2,      /* who yields stays for the next pump     */
    KC_CARE_TRACE = 4,     /* a trace is written                     */
    KC_CARE_TOOLS = 8,     /* a sanitizer or Valgrind follows stacks */
    KC_CARE_FORKED = 16,   /* this is a forked child: nothing goes on here (O10) */
    KC_CARE_NO_STACK = 32, /* there was none just now (lack.c)    */
    KC_CARE_OFFERS = 64,   /* others have offered it tasks        */
    KC_CARE_ASKED = 128,   /* another one has gone to sleep, and would take who may migrate */
    KC_CARE_CYCLES = 256   /* jobs that wait for each other are to be found (E4)             */
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
    uint32_t credit;              /* O  what may be done without waiting until others run */
    uint64_t look_turn;           /* O  the turn that looks at the timers; see worker.c   */

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
    kc_queue_t fresh;     /* O  tasks that must start here                                     */
    kc_deque_t deque;     /*    tasks that may start anywhere; others steal                     */
    kc_timers_t alarms;   /* O                                                                */
    kc_task_t *root;      /* I  the parent of what is nobody's child, see job/root.c          */
    kc_task_t *apart;     /* I  the same for detached jobs                                     */
    pthread_t thread;     /* M                                                                */
    KC_ATOMIC(kc_time_t)
    due;                   /* A  it sleeps, and this is its next timer; 0: or does not, lack.c */
    kc_time_t retry_at;    /* O  NO_STACK: not before                                    */
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
    care;            /* A  KC_CARE_*, of which FORKED is 1 as long as it is not so        */
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
    injector_taken;              /* A  1: a worker empties it                                */
    KC_ATOMIC(uint32_t) stop;    /* A  1: the current or next run ends                       */
    KC_ATOMIC(uint32_t) closing; /* A  1: the workers end                                     */
    KC_ATOMIC(uint32_t) arrived; /* A  workers that have not begun to work yet                */
    KC_ATOMIC(uint64_t) holds;   /* A  leases and pending promises: others may end them       */
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
    kc_queue_t again;             /* M  who has yielded while `once`                         */
    int fd, event_fd, timer_fd;   /* M  -1: kc_sched_fd was not called                       */
    KC_ATOMIC(uint32_t) outside;  /* A  1: main does not pump, and sleeps on event_fd        */
    KC_ATOMIC(uint32_t) flights;  /* A  runs of interval tasks in flight                     */
    KC_ATOMIC(uint32_t) migrants; /* A  1: there was a job that may migrate                   */
    struct kc_hub *hub;           /* M  delayed and interval tasks                           */
    pthread_mutex_t lacking_lock;
    kc_queue_t lacking; /* L(lacking_lock)  tasks for any worker that got no stack, see lack.c */
    KC_ATOMIC(uint32_t)
    lack_count; /* A  all that got none, and have neither started nor ended since           */
    struct kc_job *first_guest, *last_guest; /* see job/root.c                             */
    kc_worker_t *main;                       /* I */
    kc_worker_t *worker[KC_MAX_WORKERS];     /* I */
    kc_recorder_t *old_recorder;   /* L(top/trace.c)  kept for the next trace            */
    struct kc_sched *next_watched; /* L(top/watch.c)  the next that SIGQUIT dumps         */
    /* A  what other threads have done: a line that the scheduler's own never look at */
    KC_ATOMIC(uint64_t) counter[KC_COUNTERS] __attribute__((aligned(KC_CACHE_LINE)));
};

/* What the top layer does for a scheduler. It defines this table, the only way up to it. */
struct kc_sight {
    int (*watch)(kc_sched_t *s);      /* it begins, and asked for dumps: 0 or a negative errno */
    void (*unwatch)(kc_sched_t *s);   /* it ends: no more of them                              */
    void (*end_trace)(kc_sched_t *s); /* it ends: so does its trace, if there is one          */
};
extern const struct kc_sight kc__sight;

/* ---- worker.c ------------------------------------------------------------------------------ */

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
KC_INLINE uint32_t kc__worker_care(const kc_worker_t *w)
{
    return kc_load_relaxed(&w->care) ^ KC_CARE_FORKED;
}

KC_INLINE bool kc__worker_cares(const kc_worker_t *w, uint32_t for_what)
{
    return kc__worker_care(w) & for_what;
}

/* Says that this is a forked child, and aborts. */
_Noreturn KC_COLD void kc__sched_forked(void);

/* A call needs s, or the thread w: its process must be this one. A turn finds out by what it has to
 * think of, and only then asks. */
KC_INLINE void kc__worker_check_process(const kc_worker_t *w)
{
    if (kc_unlikely(kc__worker_cares(w, KC_CARE_FORKED)))
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

/* The number of the next turn, on w's thread. */
KC_INLINE uint64_t kc__worker_next_turn(const kc_worker_t *w)
{
    return kc_load_relaxed(&w->turns) + 1;
}

/* The number of the job that it is. */
KC_INLINE uint64_t kc__task_number(const kc_task_t *task)
{
    return kc_load_relaxed(kc__block_number(&task->block));
}

/* From now on w, whose thread calls, runs co; NULL: the thread's own stack. */
KC_INLINE void kc__worker_shows(kc_worker_t *w, kcoro_t *co)
{
    kc_store_relaxed(&w->running, co);
    if (kc_likely(!kc__worker_cares(w, KC_CARE_TRACE | KC_CARE_CYCLES)))
        return;
    if (co && kc__worker_cares(w, KC_CARE_CYCLES))
        co->task->held |= KC_TASK_HELD_NAMED; /* it has no scope when it runs for the first time */
    if (kc__worker_cares(w, KC_CARE_TRACE))
        KC_TRACE(w->sched, .kind = KC_EVENT_RUN, .job = co ? kc__task_number(co->task) : 0);
}

/* The same, and that is a turn. */
KC_INLINE void kc__worker_runs(kc_worker_t *w, kcoro_t *co)
{
    kc__worker_shows(w, co);
    if (kc_likely(co != NULL))
        kc_store_relaxed(&w->turns, kc__worker_next_turn(w));
}

kc_worker_t *kc__worker_new(kc_sched_t *s, int index, int bit);
void kc__worker_free(kc_worker_t *w);

/* As new, for the next scheduler that uses this memory. */
void kc__worker_reset(kc_worker_t *w);

/* A task that has not started, on the thread that may start it. */
KC_INLINE void kc__worker_keep_fresh(kc_worker_t *w, kc_task_t *task)
{
    if (task->where != KC_WORKER || !w->works || kc__worker_cares(w, KC_CARE_ORACLE) ||
        kc__deque_push(&w->deque, task) != 0)
        kc__queue_push(&w->fresh, &task->block);
}

/* There is a task that it may start, or there was one a moment ago. */
KC_INLINE bool kc__worker_has_fresh(const kc_worker_t *w)
{
    return w->fresh.head || kc__deque_size_hint(&w->deque) > 0;
}

/* Takes what any worker may do out of a list; taken: one at a time does so. How many there were. */
size_t kc__worker_take_shared(kc_worker_t *w, kc_mpsc_t *from, KC_ATOMIC(uint32_t) * taken);

/* The same for what threads of no scheduler have brought. True: something. */
bool kc__worker_take_injector(kc_worker_t *w);

/* Coroutines that have started here less those that have ended here: it wraps around if some came
 * from elsewhere. */
KC_INLINE uint64_t kc__worker_live(const kc_worker_t *w)
{
    return kc_load_relaxed(&w->counter[KC_COUNT_SPAWNS]) -
           kc_load_relaxed(&w->counter[KC_COUNT_BURIED]);
}

/* On w's thread: the body of this task ends, goes elsewhere, or does not start after all. */
KC_INLINE void kc__worker_forget(kc_worker_t *w, const kc_task_t *task)
{
    if (kc_unlikely(w->last == task))
        w->last = NULL;
}

/* The pump is to return: it goes on on the thread's own stack, so that is where to go. */
bool kc__worker_stopped(kc_worker_t *w);

/* Looks for what any worker may do. True: it is in this worker's own queues now. */
bool kc__worker_search(kc_worker_t *w);

/* It will run something, or stop: no longer counts as one that searches. */
void kc__worker_stop_searching(kc_worker_t *w);

/* Takes in what other threads have sent. True: something. */
bool kc__worker_take_inbox(kc_worker_t *w);

/* True: the thread is on its own stack, not on that of a coroutine. */
KC_INLINE bool kc__worker_on_own_stack(void)
{
    const kc_thread_t *t = kc__thread();

    return t->current == t->root;
}

/* On its own stack: reads the messages that were put off until then; takes the timers that are due.
 * True: something was. */
bool kc__worker_read_put_off(kc_worker_t *w);
bool kc__worker_take_due(kc_worker_t *w);

/* On another stack: is there something of that kind? Plans the next look. */
bool kc__worker_is_wanted_there(kc_worker_t *w);

enum { KC_LOOK_EVERY = 64 }; /* turns: one that looks at everything, whatever the time is */

/* The next turn looks at everything, as a timer may be due. */
KC_INLINE bool kc__worker_is_timer_due(const kc_worker_t *w, uint64_t turn)
{
    return kc_unlikely(turn >= w->look_turn) &&
           (w->look_ticks == 0 || kc__os_ticks() >= w->look_ticks);
}

/* The same, for whatever reason. */
KC_INLINE bool kc__worker_is_look_due(const kc_worker_t *w, uint64_t turn)
{
    return kc_unlikely(turn % KC_LOOK_EVERY == 0) || kc__worker_is_timer_due(w, turn);
}

/* Runs what is ready here until nothing is. True: something ran. */
bool kc__worker_run_ready(kc_worker_t *w);

/* Sleeps until there is something to do, at most until `until`. */
void kc__worker_sleep(kc_worker_t *w, kc_time_t until);

/* Makes sure that somebody looks after what was put into a queue. */
void kc__worker_wake(kc_worker_t *w);
void kc__sched_wake_any(kc_sched_t *s);

/* Main, if it sleeps in a pump and takes what any worker may do, looks once more. */
void kc__sched_look_again(kc_sched_t *s);

/* When the first sleeper or, on the main thread, timed task is due; KC_FOREVER: none. */
kc_time_t kc__worker_next_due(kc_worker_t *w);

/* Gives a little of the memory back that a burst has left: stacks, blocks, its deque's. Its own
 * thread. False: there is nothing for now. */
bool kc__worker_cool(kc_worker_t *w, kc_cool_t when);

/* When that is to be done next, on kc__os_now's clock; INT64_MAX: there is nothing. */
int64_t kc__worker_cool_at(void);

/* What a worker's thread executes. */
void *kc__worker_main(void *arg);

/* Queues a task that has not started, from any thread. */
void kc__task_submit(kc_task_t *task);

/* The same on w's thread for one that any worker of w's scheduler may start. */
KC_INLINE void kc__worker_submit(kc_worker_t *w, kc_task_t *task)
{
    if (kc_unlikely(!w->works ||
                    kc__worker_cares(w, KC_CARE_ORACLE | KC_CARE_FORKED | KC_CARE_TOOLS) ||
                    w->sched->workers > 0 || kc_load_relaxed(&w->sched->outside) ||
                    kc__deque_push(&w->deque, task) != 0))
        kc__task_submit(task);
}

/* The scheduler that it belongs to. */
KC_INLINE kc_sched_t *kc__task_sched(kc_task_t *task)
{
    return kc_load_relaxed(&task->worker)->sched;
}

/* The thread where a coroutine of this affinity continues; NULL: any worker. The affinity exists.
 */
kc_worker_t *kc__sched_place(kc_sched_t *s, kc_affinity_t where);

/* The coroutine whose body calls, or the one around it that is the body of a job. NULL: none. */
KC_INLINE kcoro_t *kc__task_coroutine(kcoro_t *me)
{
    while (me && kc_unlikely(!(kc_load_relaxed(&me->block.flags) & KC_CORO_TASK)))
        me = me->resumer;
    return me;
}

/* A thread has put something into its own queues: if it is main, which does not pump, the host's
 * event loop is told. */
KC_INLINE void kc__worker_tell_host(kc_worker_t *w)
{
    if (kc_unlikely(w == w->sched->main && kc_load_relaxed(&w->sched->outside)))
        kc__worker_wake(w);
}

/* co, which waits, may run: on its own thread w, and from any thread. */
KC_INLINE void kc__worker_ready(kc_worker_t *w, kcoro_t *co)
{
    kc__queue_push(&w->ready, &co->block);
    kc__worker_tell_host(w);
}

void kc__worker_send(kc_worker_t *w, kc_block_t *block);

/*
 * The caller, whose job's coroutine is co, stops here; what is ready goes on. It returns when
 * somebody has made co ready and its turn has come.
 */
int kc__worker_leave(kc_thread_t *t, kcoro_t *co);
int kc__worker_leave_parked(kc_thread_t *t, kcoro_t *co); /* co is PARKED, or READY already */

/* The same, and co is ready at once, behind the others. */
int kc__worker_yield(kc_thread_t *t, kcoro_t *co);

/* The same, and it goes on on thread `to`: its task's worker says so already. */
void kc__worker_hop(kc_thread_t *t, kcoro_t *co);

/* The same, and `to`, which has not run yet, runs here and now; co is the next one. */
int kc__worker_run_now(kc_thread_t *t, kcoro_t *co, kcoro_t *to);

/* `to`, which waits on this thread, may run, and does so now if nothing else is due: then co, the
 * caller's, is ready behind all others. */
void kc__worker_hand_over(kc_thread_t *t, kcoro_t *co, kcoro_t *to);

/* 32 bits that are hard to guess; with a seed, the seed's next ones. */
uint64_t kc__worker_random(kc_worker_t *w);

/* The caller's body is over, and its stack is empty but for the frame that calls. A task that may
 * start there at once; NULL: the caller should leave. */
kc_task_t *kc__worker_next_body(kc_worker_t *w);

/* It cannot start here and now after all: it stays the next one to be started, and others may take
 * what is for any worker. */
void kc__worker_put_back(kc_worker_t *w, kc_task_t *task);

/* The caller's body is over: `to`, which may be the thread's own stack, or, if that is NULL, what
 * is ready goes on, and buries it. */
_Noreturn void kc__worker_end(kcoro_t *me, kc_task_t *task, kcoro_t *to);

/*
 * Runs fn(arg) on the thread's own stack, where there is no current job: for what the library calls
 * by itself. The caller goes on when it has returned. fn may not suspend. Elsewhere than in a body,
 * or a coroutine inside it, fn is called as it is.
 */
void kc__worker_call(void (*fn)(void *arg), void *arg);

/* True: the caller stands between two stacks, and may not switch. */
bool kc__worker_is_between(void);

/* A message to itself, which this thread reads on its own stack when the next one stops. */
void kc__worker_read_later(kc_worker_t *w, kc_block_t *block);

/* The first timer of this thread may be one that is due then. */
KC_INLINE void kc__worker_hear_of(kc_worker_t *w, kc_time_t due)
{
    if (due < w->look_due && !w->sched->virtual_time) {
        w->look_due = due;
        w->look_turn = w->look_ticks = 0;
    }
}

/* ---- lack.c -------------------------------------------------------------------------------- */

/* task, which w was to start, got no stack: it waits for one, or fails if none can come. first: it
 * is the first time. */
KC_COLD void kc__worker_no_stack(kc_worker_t *w, kc_task_t *task, bool first);

/* One that waits for a stack, and that any worker may start, is w's to start now. False: there is
 * none, or it is too early for another try. */
bool kc__worker_take_lacking(kc_worker_t *w);

/* w may try to start what got no stack, if enough time has passed; in any case. */
bool kc__worker_may_start(kc_worker_t *w);
void kc__worker_retry(kc_worker_t *w);

/* Something waits for a stack that w might start. */
bool kc__worker_awaits_stack(const kc_worker_t *w);

/* All of w's scheduler waits for ever: the next one that gets no stack fails, unless something has
 * run until then. */
void kc__worker_give_up(kc_worker_t *w);

/* When w, which has nothing to do until then, tries again; on the clock of both times. */
kc_time_t kc__worker_retry_before(kc_worker_t *w, kc_time_t until, kc_time_t now);

extern KC_HIDDEN kc_time_t kc__lack_patience; /* tests have less of it */

/* ---- spread.c ------------------------------------------------------------------------------ */

enum { KC_SPREAD_FEW = 3 }; /* with fewer coroutines a worker compares itself with nobody */

/* In kc_worker_t.moved of main while it does not take what any worker may do: it looks full. */
#define KC_SPREAD_AWAY ((int64_t)1 << 40)

/* w is about to start this task of its deque, NULL: none, which any worker may start. The one that
 * it should start; NULL: others should have all of them. */
KC_COLD kc_task_t *kc__spread(kc_worker_t *w, kc_task_t *task);

/* Takes in what others have offered w. True: something. */
bool kc__spread_take(kc_worker_t *w);

/* Takes what others were offered and did not take. True: something. */
bool kc__spread_take_back(kc_worker_t *w);

/* When there may be something of that kind; KC_FOREVER: never. */
kc_time_t kc__spread_due(const kc_worker_t *w);

/* Which of those that sleep (idle.h) should be woken for a task that any worker may start. */
uint64_t kc__spread_choose(const kc_sched_t *s, uint64_t asleep);

/* If w has a queue, and others sleep: those of the queue who may migrate are shared out. */
void kc__spread_share(kc_worker_t *w);

/* w, whose bit says that it sleeps, asks others for who may migrate. */
void kc__spread_ask(kc_worker_t *w);

/* ---- token.c ------------------------------------------------------------------------------- */

/* What tokens share: outlives the scheduler as long as a token does. */
typedef struct kc_hub kc_hub_t;

kc_hub_t *kc__hub_new(kc_sched_t *s);
void kc__hub_close(kc_hub_t *hub);

/* The scheduler ends: no run starts any more, and what the tasks own is disposed of. Main thread,
 * on its own stack. True: there was a task. */
bool kc__hub_shut(kc_hub_t *hub);

/* Starts what is due at `now`. Main thread. True: something was started. */
bool kc__hub_start_due(kc_hub_t *hub, kc_time_t now);
kc_time_t kc__hub_next_due(kc_hub_t *hub);

/* There are timed tasks. */
bool kc__hub_any(const kc_hub_t *hub);

/* A token that another thread has made comes in. Main thread. */
void kc__hub_take(kc_hub_t *hub, kc_block_t *block);

/* ---- sched.c ------------------------------------------------------------------------------- */

/* The time on s's clock, from any thread; and so much later. */
kc_time_t kc__sched_now(const kc_sched_t *s);
kc_time_t kc__sched_after(const kc_sched_t *s, kc_time_t ns);

/* The main thread, outside coroutines, waits until `at` or until *done is KC_DONE, and pumps
 * meanwhile. done may be NULL. False: the caller is somewhere else. */
bool kc__sched_pump_until(kc_sched_t *s, kc_time_t at, const KC_ATOMIC(uint32_t) * done);

/* The first timer may be another one: the descriptor's clock is set anew, if main does not pump. */
void kc__sched_rearm(kc_sched_t *s);

/* Makes main's file descriptor readable. */
void kc__sched_signal_fd(kc_sched_t *s);

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
