/* SPDX-License-Identifier: MIT */
/*
 * job.h - the job's control block, for the files of this folder and the layers above.
 *
 * Legend: I immutable while in use, O the thread of its body, A atomic, L the job's lock.
 *
 * ORDER    id     site    operation     pairs with  carries
 *          job.1  result  load_acquire  word.2      code and reason
 *          job.2  ext     load_acquire  job.5       its contents
 */
#ifndef KC_JOB_JOB_H
#define KC_JOB_JOB_H

#include "job/wait.h"
#include "job/word.h"
#include "sched/sched.h"

#include <kcoro/job.h>

#include <errno.h>

/* block.flags, beside the KC_JOB_* of kcoro/job.h: what kind of job it is. */
enum {
    KC_JOB_PUBLIC = KC_JOB_SUPERVISOR | KC_JOB_DETACHED | KC_JOB_NOW | KC_JOB_UNWIND |
                    KC_JOB_MIGRATE | KC_JOB_ALONE,
    KC_JOB_SCOPE = 1 << 16,    /* its body is a piece of its parent's body                  */
    KC_JOB_GROUP = 1 << 17,    /* it has no body, and is open until it is closed            */
    KC_JOB_PROMISE = 1 << 18,  /* it has no body, and somebody will say how it ended        */
    KC_JOB_ROOT = 1 << 19,     /* the parent of what is nobody's child                      */
    KC_JOB_INTERNAL = 1 << 20, /* a promise that jobs of its own scheduler keep             */
    KC_JOB_COUNTED = 1 << 21,  /* it counts as running in a parent with max_running         */
    KC_JOB_FOREIGN = 1 << 22,  /* its parent is in another scheduler                        */
    KC_JOB_PENDING = 1 << 23,  /* it waits for its turn in a parent with max_running        */
    KC_JOB_GRACED = 1 << 28,   /* it has a grace of its own, or one above it has            */
    KC_JOB_TELLS = 1 << 29,    /* the user may hear of its end: kc_task_more, payload.c     */
    KC_JOB_ANYWHERE = 1 << 30, /* it starts NOW, here, and may migrate then                  */
    KC_JOB_ONESHOT = 1 << 27,  /* a promise whose resolver has a reference (oneshot.c)      */
    /* Of a body that has started; its thread sets them. See kc__job_returned. */
    KC_JOB_RETURNED = 1 << 24, /* it has returned, and there is more to do than to leave        */
    KC_JOB_CODED = 1 << 25,    /* ... and not 0: task.returned says what                        */
    KC_JOB_NO_RETURN = 1 << 26 /* it never will: it is unwound, or dispose runs instead         */
};

_Static_assert((0ull + KC_JOB_SCOPE + KC_JOB_GROUP + KC_JOB_PROMISE + KC_JOB_ROOT +
                KC_JOB_INTERNAL + KC_JOB_COUNTED + KC_JOB_FOREIGN + KC_JOB_PENDING +
                KC_JOB_GRACED + KC_JOB_TELLS + KC_JOB_ANYWHERE + KC_JOB_ONESHOT + KC_JOB_RETURNED +
                KC_JOB_CODED + KC_JOB_NO_RETURN) ==
                   (KC_JOB_SCOPE | KC_JOB_GROUP | KC_JOB_PROMISE | KC_JOB_ROOT | KC_JOB_INTERNAL |
                    KC_JOB_COUNTED | KC_JOB_FOREIGN | KC_JOB_PENDING | KC_JOB_GRACED |
                    KC_JOB_TELLS | KC_JOB_ANYWHERE | KC_JOB_ONESHOT | KC_JOB_RETURNED |
                    KC_JOB_CODED | KC_JOB_NO_RETURN),
               "each flag has a bit of its own");

/* Of task.held: too many locks to be counted; and a bit: somebody wants to know which (held.c). */
#define KC_HELD_MANY 0x7fffu
#define KC_HELD_NAMED KC_TASK_HELD_NAMED

typedef struct kc_job_ext kc_job_ext_t;

struct kc_job {
    kc_task_t task;                /*    one cache line; word, worker, co, payload, wait     */
    int32_t reason;                /* L  why it was cancelled; 0: it was not                  */
    int32_t code;                  /* L  the first failure; 0: none                           */
    KC_ATOMIC(uint32_t) refs;      /* A  one while it is not terminal, and the handles        */
    uint32_t shields;              /* O  how many shields are open                            */
    kc_job_t *parent;              /* I  valid while this is not terminal                     */
    kc_job_t *children;            /* L  a ring; those that were not told of a cancel first   */
    kc_job_t *next, *prev;         /* L(parent)  in the ring                                  */
    KC_ATOMIC(kc_job_ext_t *) ext; /* A  what few jobs need; NULL: nothing of it        */
    union {
        kc_link_t *waiters;          /* L  those who join it, a ring                         */
        KC_ATOMIC(uint64_t) arrived; /* L  of a root: how many have ever come, see root.h     */
    };
};

_Static_assert(sizeof(struct kc_job) <= KC_BLOCK_SIZE, "a job is one block of 128 bytes (J22)");

/* One value of kc_local_set; shared by all that have inherited it. */
typedef struct kc_local {
    KC_ATOMIC(uint32_t) refs;
    const void *key;
    void *value;
    struct kc_local *next; /* owns a reference */
} kc_local_t;

/* What only some jobs have. */
struct kc_job_ext {
    void (*dispose)(void *arg); /* I                                                   */
    void (*ending)(void *owner, uint64_t done); /* I  under its lock, just before it is terminal */
    void (*ended)(void *owner);     /* I  called when it is terminal                       */
    void *owner;                    /* I                                                   */
    size_t stack;                   /* I  0: the scheduler's default                       */
    kc_time_t grace;                /* I  its own; 0: none                                 */
    struct kc_job_timer *timeout;   /* L  armed; NULL: none                                */
    struct kc_job_timer *grace_end; /* L  armed by the cancel; see grace.c                 */
    kc_local_t *locals;             /* L                                                   */
    struct kc_job_signal *signal;   /* L  its signal and slots, see job_signal.c                 */
    kc_time_t born;                 /* I  if it is dated: when, on its scheduler's clock   */
    bool dated;                     /* I                                                   */
    uint32_t max_running;           /* I  0: no limit                                      */
    uint32_t running;               /* L  children that have started and not ended         */
    kc_queue_t pending;             /* L  children that must wait; task.before is the way back */
    kc_job_t *next_foreign, *prev_foreign; /* FOREIGN: see root.c                            */
    kc_job_t *culprit;           /* L  whose failure is its own, with a reference        */
    char *message;               /* L  what its body has to say about it; NULL: nothing  */
    char name[32];               /* I                                                   */
    void *payload;               /* O  OWNED: the value, for who disposes of it (payload.c)   */
    void (*drop)(void *payload); /* O  ... by this; NULL: nobody need any more                */
    KC_ATOMIC(uint32_t) taken;   /* A  1: somebody has got it                                 */
};

KC_INLINE kc_job_t *kc__job_of(kc_task_t *task)
{
    return kc_container_of(task, kc_job_t, task);
}

KC_INLINE uint64_t kc__job_word(const kc_job_t *j)
{
    return kc_load_relaxed(&j->task.word);
}

KC_INLINE uint32_t kc__job_flags(const kc_job_t *j)
{
    return kc_load_relaxed(&j->task.block.flags);
}

/* The one number of a job, in all that users see: kc_job_id. */
KC_INLINE uint64_t kc__job_number(const kc_job_t *j)
{
    return kc__task_number(&j->task);
}

KC_INLINE bool kc__job_is_stopped(const kc_job_t *j)
{
    return kc__job_word(j) & KC_WORD_STOP;
}

KC_INLINE kc_sched_t *kc__job_sched(kc_job_t *j)
{
    return kc__task_sched(&j->task);
}

/* Its extension; NULL: it has none. */
KC_INLINE kc_job_ext_t *kc__job_ext_of(const kc_job_t *j)
{
    return kc_load_acquire(&j->ext); /* job.2 */
}

/* The job of the innermost open scope around the caller; NULL: none. */
KC_INLINE kc_job_t *kc__job_current(void)
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);

    return co ? kc__job_of(co->task) : NULL;
}

/* The job whose body co is. */
KC_INLINE kc_job_t *kc__job_own(kcoro_t *co)
{
    kc_job_t *j = kc__job_of(co->task);

    while (kc_unlikely(kc__job_flags(j) & KC_JOB_SCOPE))
        j = j->parent;
    return j;
}

/* A handle that the user gives is none: says so, and aborts. */
_Noreturn KC_COLD void kc__job_not_live(const char *call, const void *handle);

/* A handle that the user gives: aborts if it is none. */
KC_INLINE kc_job_t *kc__job_live(const char *call, const void *handle)
{
    const kc_job_t *j = handle;

    if (kc_unlikely(!j || kc_load_relaxed(&j->task.block.magic) != KC_TASK_MAGIC))
        kc__job_not_live(call, handle);
    return (kc_job_t *)(uintptr_t)j;
}

/* Frees one that never was in the tree. */
void kc__job_free(kc_job_t *j);

/* Its extension, made if there is none. NULL: no memory. */
kc_job_ext_t *kc__job_ext(kc_job_t *j);

/* Its lock, held for a few instructions. lock returns what the word was; unlock_to says what it is
 * then; change, by one who does not hold it, sets and clears bits and returns what it was. */
KC_INLINE uint64_t kc__job_lock(kc_job_t *j)
{
    return kc__word_lock(&j->task);
}

KC_INLINE void kc__job_unlock_to(kc_job_t *j, uint64_t word)
{
    kc__word_unlock(&j->task, word);
}

KC_INLINE void kc__job_unlock(kc_job_t *j)
{
    kc__job_unlock_to(j, kc__job_word(j) & ~KC_WORD_LOCK);
}

KC_INLINE uint64_t kc__job_change(kc_job_t *j, uint64_t set, uint64_t clear)
{
    return kc__word_change(&j->task, set, clear);
}

/* Writes into the trace that j was created, or is there. Its parent is there. */
void kc__job_record(kc_sched_t *s, kc_job_t *j, int64_t at, kc_event_kind_t kind);

/* Makes j a child of parent, in the same scheduler. -ECANCELED, -ESHUTDOWN: that takes no more. A
 * scope is taken always, by the body that opens it: it is born cancelled if its parent is. */
int kc__job_attach(kc_job_t *parent, kc_job_t *j);

void kc__job_ref(kc_job_t *j);
void kc__job_unref(kc_job_t *j);

/* The same for a handle of the user's: aborts if there was none. */
void kc__job_give_up(kc_job_t *j);

/* What join gives. It is terminal. */
KC_INLINE int kc__job_result(const kc_job_t *j)
{
    uint64_t word = kc_load_acquire(&j->task.word); /* job.1 */

    kc__tsan_acquire(j);
    if (kc_unlikely(word & KC_WORD_DONE_FAILED))
        return j->code;
    if (kc_unlikely(word & KC_WORD_DONE_CANCELLED))
        return j->reason ? j->reason : -ECANCELED;
    return 0;
}

/* Of a parent with an extension: as kc__job_admit. */
bool kc__job_admit_in(kc_job_t *parent, kc_job_ext_t *ext, kc_job_t *j);

/* True: child j may start now. False: it is kept until its parent lets it. */
KC_INLINE bool kc__job_admit(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j->parent);

    return kc_likely(!ext) || kc__job_admit_in(j->parent, ext, j);
}

#endif
