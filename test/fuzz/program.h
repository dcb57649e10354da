/* SPDX-License-Identifier: MIT */
/*
 * program.h - a random program: what it consists of, and the books that are kept while it runs.
 *
 * WHAT     A program is a tree of nodes, each with a list of operations, made from one seed before
 *          anything runs (generate.c). A node is a job (body, scope, group, promise, task), a piece
 *          of one (what stands between lock and unlock, a cleanup), or a plain thread. Who does
 *          what to whom is fixed; only the order, and so the outcomes, are the scheduler's.
 *          interpret_*.c run the operations and compare each result with what the rules allow.
 *
 * BOOKS    books.c knows who may be cancelled (somebody has asked for it, or it is above a failure
 *          or a deadline) and who must be (a cancel has returned, a deadline is over), who waits
 *          for what, what was sent, received, held, deferred, started and left.
 *
 * WHO      What is KC_ATOMIC may be written by any thread, with relaxed order only, so that the
 *          books hide no race of the library from ThreadSanitizer. Plain fields below "guarded" are
 *          written by whoever the library lets: it is the library that has to order them.
 *
 * END      Every wait without a deadline ends when the conductor (run.c) closes channels, sets
 *          events, and so on, which it does when nothing moves any more; before that nobody may be
 *          waiting who could go on. Locks are ranked, and nobody joins while holding one.
 */
#ifndef KC_FUZZ_PROGRAM_H
#define KC_FUZZ_PROGRAM_H

#include "base/atomic.h"

#include <kcoro/kcoro.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    NODES = 160,
    OPS = 1200,
    CHANNELS = 4,
    MUTEXES = 2,
    EVENTS = 2,
    SIGNALS = 2,
    PERMITS = 2,
    ITEMS = 4096,
    SUSPENDS = 2048,
    THREADS = 3,
    LATCH_COUNT = 6,
    DEFERS = 8, /* of one node */
    GROUPS = 16,
    FAILED_SELF = 555, /* the code of op_fail_self */
};

/* When the calls of a collect call are told to stop. */
enum { STOP_NEVER, STOP_ON_END, STOP_ON_SUCCESS, STOP_ON_FAILURE };

enum kind { BODY, SCOPE, GROUP, PROMISE, TASK, PIECE, THREAD };

/* name, how often: in a body, holding a lock, in a cleanup, in a plain thread */
#define FUZZ_OPS(X)                                                                               \
    X(yield, 8, 6, 6, 2)                                                                          \
    X(sleep, 6, 4, 4, 4)                                                                          \
    X(check, 2, 1, 1, 0)                                                                          \
    X(hop, 3, 1, 1, 0)                                                                            \
    X(launch, 16, 0, 0, 0)                                                                        \
    X(async, 5, 0, 0, 0)                                                                          \
    X(scope, 7, 0, 3, 0)                                                                          \
    X(crowd, 1, 0, 0, 0)                                                                          \
    X(timeout, 3, 0, 0, 0)                                                                        \
    X(collect, 5, 0, 0, 0)                                                                        \
    X(group, 4, 0, 0, 0)                                                                          \
    X(visit, 1, 0, 0, 3)                                                                          \
    X(promise, 4, 0, 0, 0)                                                                        \
    X(complete, 2, 1, 1, 4)                                                                       \
    X(lease, 2, 1, 0, 2)                                                                          \
    X(shield, 6, 2, 0, 0)                                                                         \
    X(cleanup, 3, 1, 0, 0)                                                                        \
    X(defer, 4, 1, 0, 0)                                                                          \
    X(undefer, 1, 0, 0, 0)                                                                        \
    X(cancel, 5, 2, 1, 6)                                                                         \
    X(cancel_self, 2, 1, 0, 0)                                                                    \
    X(join_any, 2, 0, 1, 4)                                                                       \
    X(look, 2, 1, 1, 3)                                                                           \
    X(emit, 2, 1, 1, 3)                                                                           \
    X(fire, 1, 0, 0, 1)                                                                           \
    X(listen, 3, 0, 0, 0)                                                                         \
    X(forbid, 2, 0, 0, 0)                                                                         \
    X(local, 2, 1, 1, 0)                                                                          \
    X(submit, 2, 1, 1, 4)                                                                         \
    X(timer, 3, 1, 1, 2)                                                                          \
    X(untimer, 2, 1, 1, 2)                                                                        \
    X(generator, 2, 1, 1, 0)                                                                      \
    X(park, 2, 1, 0, 0)                                                                           \
    X(unpark, 2, 1, 1, 3)                                                                         \
    X(suspend, 4, 2, 1, 0)                                                                        \
    X(send, 8, 4, 0, 3)                                                                           \
    X(recv, 8, 4, 0, 3)                                                                           \
    X(try_send, 2, 2, 2, 2)                                                                       \
    X(try_recv, 2, 2, 2, 2)                                                                       \
    X(select, 7, 3, 0, 2)                                                                         \
    X(close, 1, 0, 0, 0)                                                                          \
    X(mutex, 8, 4, 0, 3)                                                                          \
    X(cond_give, 5, 0, 0, 2)                                                                      \
    X(cond_take, 6, 0, 0, 2)                                                                      \
    X(rwlock, 6, 3, 0, 3)                                                                         \
    X(semaphore, 5, 3, 0, 3)                                                                      \
    X(event_wait, 2, 1, 0, 1)                                                                     \
    X(event_set, 2, 1, 1, 2)                                                                      \
    X(event_reset, 1, 1, 1, 1)                                                                    \
    X(latch_down, 2, 1, 1, 1)                                                                     \
    X(latch_wait, 2, 1, 0, 1)                                                                     \
    X(once, 2, 0, 0, 1)                                                                           \
    X(fail_self, 1, 1, 1, 0)

enum what {
#define FUZZ_NAME(name, ...) OP_##name,
    FUZZ_OPS(FUZZ_NAME)
#undef FUZZ_NAME
        OP_KINDS
};

struct op {
    uint8_t what;
    uint8_t which; /* channel, mutex, signal...   */
    uint8_t how;   /* variant                     */
    bool skip;     /* taken out by the shrinking  */
    int16_t node;  /* child, piece or target; -1  */
    int16_t count; /* so many nodes, from node on */
    uint32_t time; /* units                       */
};

struct node {
    /* from the generator */
    enum kind kind;
    int16_t index;
    int16_t up; /* the job that it is a child of; -1 */
    int16_t first, ops;
    uint32_t flags;
    kc_affinity_t where;
    uint32_t timeout, grace; /* units; 0: none */
    uint8_t max_running;
    int8_t signal; /* -1: none */
    int rc;        /* what it returns, if nothing comes between */
    bool obeys;    /* returns at the first -ECANCELED */
    bool alone;    /* a call of collect: its failure is a value */
    bool disposes, handle, named, interval, in_cleanup;
    bool deferring; /* O */

    /* the books */
    KC_ATOMIC(kc_job_t *) job; /* kept until the end */
    KC_ATOMIC(kc_token_t *) token;
    KC_ATOMIC(kcoro_t *) parked;          /* kept until the end            */
    KC_ATOMIC(uint32_t) parks;            /* 4 n + 1: in park n; + 2: and unparked */
    KC_ATOMIC(uint32_t) unparks, permits; /* asked for, and given     */
    uint32_t parked_times;                /* O */
    KC_ATOMIC(uint32_t) leases;           /* 1: taken, 2: given up */
    kc_lease_t lease;
    KC_ATOMIC(uint32_t) launched, started, left, disposed, live, running, firsts, tokens_cancelled;
    KC_ATOMIC(uint32_t) causes;    /* it may be cancelled from now on     */
    KC_ATOMIC(uint32_t) cancelled; /* it must be                          */
    KC_ATOMIC(uint32_t) shields_begun, shields_open;
    KC_ATOMIC(int64_t) cancelled_at;
    KC_ATOMIC(uint32_t) forbids, over, onces, completed, pool_running;
    KC_ATOMIC(int) joiners;
    KC_ATOMIC(const struct op *) listens;
    KC_ATOMIC(uint32_t) handling[3]; /* handlers that run now */
    KC_ATOMIC(int64_t) due;          /* of a delayed task */
    int16_t pool;                    /* the first one of its kc_all_window, + 1 */
    int16_t family;                  /* the first one of its collect call, + 1  */
    uint8_t family_size, family_rule;
    int16_t own, at; /* of a deferred piece */
    uint8_t pool_limit;
    KC_ATOMIC(int64_t) before, after; /* the launch, between these         */
    KC_ATOMIC(int32_t) waits_at;      /* 1 + the node of a cancellable wait */
    KC_ATOMIC(uint32_t) waits_op;
    int local;                      /* inherited or set; -1: not known   */
    int deferred[DEFERS], defers;   /* O */
    int cleanups_run;               /* O  deferred ones                  */
    int returned;                   /* guarded by its end                */
    bool failed_self, failed_first; /* guarded by its end: as above; before all else */
    uint64_t launched_by;           /* KC_JOB_NOW: the thread            */
};

struct item {
    KC_ATOMIC(uint32_t) flags;
    uint8_t channel;
    int16_t sender;
    uint64_t guarded; /* written by the sender, read by the receiver */
};
enum { ITEM_USED = 1, ITEM_SENT = 2, ITEM_GOT = 4, ITEM_BACK = 8 };

/* A wait in kc_suspend. It stays until the end: who would have woken may come late. */
struct suspended {
    KC_ATOMIC(kc_waker_t *) waker;
    KC_ATOMIC(uint32_t) woken; /* by whoever is the first */
    KC_ATOMIC(uint32_t) cancels;
    uint64_t guarded; /* written before kc_wake, read after kc_suspend */
    const struct op *op;
};

struct channel {
    kc_chan_t *chan;
    size_t capacity;
    KC_ATOMIC(uint32_t) closed;
    KC_ATOMIC(int) receivers, senders, selecting_receivers, selecting_senders; /* who wait */
    uint32_t seen[NODES][NODES]; /* by receiver and sender: the newest item */
};

struct mutex {
    kc_mutex_t lock;
    kc_cond_t cond;
    KC_ATOMIC(int) waiting, holders, cond_waiting;
    KC_ATOMIC(uint64_t) tickets, served;
    int tokens; /* guarded by the lock */
    KC_ATOMIC(int) tokens_seen;
    uint64_t guarded;
};

struct program {
    uint64_t seed;
    bool is_virtual, faults, abrupt, uses_run, calm;
    int workers; /* -1: none */
    uint32_t sched_flags;
    int nodes, ops, threads, groups;
    int16_t group[GROUPS]; /* and scopes, into which others launch */
    struct node node[NODES];
    struct op op[OPS];
    kc_sched_t *sched;
    kc_time_t unit;

    struct channel channel[CHANNELS];
    struct mutex mutex[MUTEXES];
    struct {
        kc_rwlock_t lock;
        KC_ATOMIC(int) readers, writers, readers_waiting, writers_waiting;
        uint64_t guarded;
    } rw;
    struct {
        kc_sem_t sem;
        KC_ATOMIC(int) held, waiting;
    } sem;
    struct {
        kc_event_t event;
        KC_ATOMIC(int) waiting;
    } event[EVENTS];
    struct {
        kc_latch_t latch;
        KC_ATOMIC(int) left, done, waiting;
    } latch;
    struct {
        kc_once_t once;
        KC_ATOMIC(uint32_t) ran;
        uint64_t guarded;
    } once;
    kc_signal_t *signal[SIGNALS];
    KC_ATOMIC(uint32_t) fired[SIGNALS]; /* 1: may have, 2: has */
    struct item item[ITEMS];
    KC_ATOMIC(uint32_t) items;
    struct suspended suspended[SUSPENDS];
    KC_ATOMIC(uint32_t) suspends;

    KC_ATOMIC(uint32_t) closing, shutdown, ended, finished, threads_left;
    uint64_t trace; /* virtual time: a hash over who did what when, with which result */
    kc_time_t start;
};

extern struct program prog;
extern const char *const op_name[OP_KINDS];

/* Where an operation stands. */
struct place {
    struct node *own;    /* the coroutine's or thread's node            */
    struct node *at;     /* the current job: own, or an open scope      */
    struct node *shield; /* the job under the outermost shield; NULL */
    bool cleanup;
    uint64_t thread; /* 0: it may be moved */
};

/* ---- generate.c ----------------------------------------------------------------------------- */

uint64_t fuzz_random(uint64_t *state);
void program_make(uint64_t seed, bool is_virtual, int workers, bool faults);
void program_print(FILE *to);

/* ---- books.c -------------------------------------------------------------------------------- */

_Noreturn void broken(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define BROKEN(...) broken(__FILE__, __LINE__, __VA_ARGS__)
#define MUST(cond) ((cond) ? (void)0 : BROKEN("not true: %s", #cond))

struct node *node_at(int index); /* NULL: -1 */
bool is_below(const struct node *n, const struct node *top);
void stands_at(const struct place *p, const struct op *op);
uint64_t thread_number(void);
void node_launching(struct node *n, const struct place *p);
void node_launched(struct node *n, kc_job_t *job);
void node_started(struct node *n);
void node_left(void *node);
void node_is_over(struct node *n);        /* somebody has joined it */
void mark_cause(struct node *n);          /* somebody cancels it  */
bool fails_alone(const struct node *n);   /* its failure is nobody else's */
void mark_failure(struct node *n);        /* and so those above */
void mark_family(struct node *n, int rc); /* it is about to end so */
void holds_open(struct node *n, int by);  /* something of n has to come to its end yet */
void shield_begins(const struct place *p);
void shield_ends(const struct place *p);
bool may_shut_down(void); /* the scheduler's end may have begun */
bool may_be_cancelled(const struct place *p);
/* 0: perhaps not. If it is the same before and after a call, the call was in a cancelled job. */
uint32_t must_be_cancelled(const struct place *p);
bool may_lack_memory(int rc);
int checked(const struct place *p, uint32_t must, int rc);
void trace(const struct place *p, uint64_t what, uint64_t rc);
const char *who_could_go_on(void); /* NULL: all who wait have a reason */
void check_ended(void);            /* the books balance */
uint32_t item_new(const struct place *p, int channel);
void item_sent(uint32_t item);
void item_received(const struct place *p, int channel, uint32_t item);

/* A wait of p's coroutine that a cancel ends. */
struct waiting {
    struct node *own;
    KC_ATOMIC(int) * count;
};
struct waiting wait_begins(const struct place *p, const struct op *op, KC_ATOMIC(int) * count);
void wait_ends(void *waiting);

/* The self-test: what each of these breaks must be found. */
#define FUZZ_SABOTAGE(X)                                                                          \
    X(NOTHING)                                                                                    \
    X(LOSE_ITEM)                                                                                  \
    X(DOUBLE_ITEM)                                                                                \
    X(SHARE_LOCK)                                                                                 \
    X(LOSE_CLEANUP)                                                                               \
    X(LOSE_WAKE_UP)                                                                               \
    X(MISS_CANCEL)                                                                                \
    X(FALSE_CANCEL)                                                                               \
    X(LATE_CHILD)                                                                                 \
    X(KEEP_JOB)                                                                                   \
    X(KEEP_MEMORY)                                                                                \
    X(OTHER_TRACE)                                                                                \
    X(HANG)
enum sabotage {
#define FUZZ_BREAK(name) BREAK_##name,
    FUZZ_SABOTAGE(FUZZ_BREAK)
#undef FUZZ_BREAK
        BREAK_KINDS
};
extern enum sabotage sabotage;

/* ---- interpret_*.c -------------------------------------------------------------------------- */

int run_piece(struct place *p, const struct node *n);
int run_body(void *node);
void lease_end(struct node *n);
void unpark(struct node *n);
kc_time_t units(uint32_t n);
kc_time_t until(uint32_t n);
#define FUZZ_RUN(name, ...) int op_##name(struct place *p, const struct op *op);
FUZZ_OPS(FUZZ_RUN)
#undef FUZZ_RUN

/* ---- run.c ---------------------------------------------------------------------------------- */

void program_run(void);                            /* does not return if a rule is broken */
extern KC_ATOMIC(uint64_t) programs_run, progress; /* operations */
extern double hang_limit;                          /* seconds */
void shuffle_memory(uint64_t seed);
void programs_begin(void); /* once in a process: the watchdog */
void programs_end(void);   /* nothing is found any more */
bool broken_or_over(void);

#endif
