/* SPDX-License-Identifier: MIT */
/*
 * task.h - what a scheduler runs, and what the layer above does for it.
 *
 * Legend: I immutable while in use, O the owning thread's, A atomic.
 */
#ifndef KC_SCHED_TASK_H
#define KC_SCHED_TASK_H

#include "base/block.h"
#include "base/mpsc.h"
#include "coro/coro.h"

#include <kcoro/sched.h>

#define KC_TASK_MAGIC 0x7a5cc070u

typedef struct kc_worker kc_worker_t;

/* In block.flags of a task: it has no body, and is never started. */
#define KC_TASK_BODILESS 0x80000000u

/* In kc_task_t.held, on a thread that has KC_MODE_CYCLES to think of. */
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

/* What the layer above does for the tasks of this one. It defines this table and the next: with
 * kc_observer_hooks (sched.h) the only ways up from here. */
struct kc_task_hooks {
    /* Gives a task a coroutine: 0. -ENOMEM: there is no stack; -EAGAIN: again. -ECANCELED: it has
     * been ended. -EBUSY: it is to end unstarted, which is done on the thread's own stack only. */
    int (*start)(kc_task_t *task);
    /* Ends a task that has not started, as failed. */
    void (*fail)(kc_task_t *task, int code);
    /* The coroutine of this thread that runs next when the task ends; NULL: ask the queues. */
    kcoro_t *(*successor)(kc_task_t *task);
    /* The coroutine of the task has left its stack for good. */
    void (*ended)(kc_task_t *task);
    /* A message of the layer above has come through an inbox. */
    void (*message)(kc_block_t *block);
    /* co, which MIGRATES and is ready on this thread, continues on another worker; NULL: on the one
     * that has woken it. False: it stays. */
    bool (*move)(kcoro_t *co, kc_worker_t *to);
    /* MODE_CYCLES: the caller waits, as by kc__worker_leave, unless that would be for ever. */
    int (*leave)(kc_thread_t *t, kcoro_t *co);
    /* co, at rest on this thread, waits for other jobs. */
    bool (*joins)(const kcoro_t *co);
    /* Makes a task that is nobody's child, for later. more: may be NULL. NULL: no memory. */
    kc_task_t *(*make)(kc_sched_t *s, kc_affinity_t where, kc_fn_t fn, void *arg,
                       const struct kc_task_more *more);
    void (*go)(kc_task_t *task);                       /* queues what make has made              */
    void (*drop)(kc_task_t *task);                     /* frees what go has not queued           */
    void (*dispose)(void (*fn)(void *arg), void *arg); /* calls fn, which may not wait           */
};
extern const KC_HIDDEN struct kc_task_hooks kc__task_hooks;

/* What the layer above does for a scheduler as a whole. */
struct kc_sched_hooks {
    int (*open)(kc_sched_t *s);   /* a scheduler begins: 0 or -ENOMEM            */
    void (*close)(kc_sched_t *s); /* it ends, and nothing is left in it          */
    void (*shut)(kc_sched_t *s);  /* all that is left in it is to end            */
    void (*gone)(kc_sched_t *s);  /* after shut: it has ended. On the main thread */
    bool (*idle)(kc_sched_t *s);  /* nothing is left in it                       */
    /* Something is left that another thread may end. seen: changes when one more such has come. */
    bool (*awaits_external)(kc_sched_t *s, uint64_t *seen);
    /* A thread outside has a lock, or is about to wake one. */
    bool (*awaits_thread)(kc_sched_t *s);
    void (*report)(kc_sched_t *s);      /* prints who waits for what                         */
    bool (*end_shields)(kc_sched_t *s); /* none holds a cancel back any more. False: none did */
};
extern const KC_HIDDEN struct kc_sched_hooks kc__sched_hooks;

/* The number of the job that it is. */
KC_INLINE uint64_t kc__task_number(const kc_task_t *task)
{
    return kc_load_relaxed(kc__block_number(&task->block));
}

/* The coroutine whose body calls, or the one around it that is the body of a job. NULL: none. */
KC_INLINE kcoro_t *kc__task_coroutine(kcoro_t *me)
{
    while (me && kc_unlikely(!(kc_load_relaxed(&me->block.flags) & KC_CORO_TASK)))
        me = me->resumer;
    return me;
}

#endif
