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
    KC_JOB_SCOPE = 1 << 16,   /* its body is a piece of its parent's body                  */
    KC_JOB_GROUP = 1 << 17,   /* it has no body, and is open until it is closed            */
    KC_JOB_PROMISE = 1 << 18, /* it has no body, and somebody will say how it ended        */
    KC_JOB_ROOT = 1 << 19,    /* the parent of what is nobody's child                      */
    KC_JOB_UNHELD = 1 << 20,  /* a promise that jobs of its own scheduler keep             */
    KC_JOB_COUNTED = 1 << 21, /* it counts as running in a parent with max_running         */
    KC_JOB_GUEST = 1 << 22,   /* its parent is in another scheduler                        */
    KC_JOB_PENDING = 1 << 23, /* it waits for its turn in a parent with max_running        */
    KC_JOB_GRACED = 1 << 28,  /* it has a grace of its own, or one above it has            */
    KC_JOB_TELLS = 1 << 29,   /* the user may hear of its end: kc_task_more, payload.c     */
    KC_JOB_ONESHOT = 1 << 27, /* a promise whose resolver has a reference (oneshot.c)      */
    /* Of a body that has started; its thread sets them. See kc__job_returned. */
    KC_JOB_RETURNED = 1 << 24, /* it has returned, and there is more to do than to leave        */
    KC_JOB_CODED = 1 << 25,    /* ... and not 0: task.returned says what                        */
    KC_JOB_NO_RETURN = 1 << 26 /* it never will: it is unwound, or dispose runs instead         */
};

_Static_assert((0ull + KC_JOB_SCOPE + KC_JOB_GROUP + KC_JOB_PROMISE + KC_JOB_ROOT + KC_JOB_UNHELD +
                KC_JOB_COUNTED + KC_JOB_GUEST + KC_JOB_PENDING + KC_JOB_GRACED + KC_JOB_TELLS +
                KC_JOB_ONESHOT + KC_JOB_RETURNED + KC_JOB_CODED + KC_JOB_NO_RETURN) ==
                   (KC_JOB_SCOPE | KC_JOB_GROUP | KC_JOB_PROMISE | KC_JOB_ROOT | KC_JOB_UNHELD |
                    KC_JOB_COUNTED | KC_JOB_GUEST | KC_JOB_PENDING | KC_JOB_GRACED | KC_JOB_TELLS |
                    KC_JOB_ONESHOT | KC_JOB_RETURNED | KC_JOB_CODED | KC_JOB_NO_RETURN),
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
    void (*ended)(void *owner); /* I  called when it is terminal                       */
    void *owner;                /* I                                                   */
    size_t stack;               /* I  0: the scheduler's default                       */
    kc_time_t grace;            /* I  its own; 0: none                                 */
    struct kc_clock *timeout;   /* L  armed; NULL: none                                */
    struct kc_clock *grace_end; /* L  armed by the cancel; see grace.c                 */
    kc_local_t *locals;         /* L                                                   */
    struct kc_news *news;       /* L  its signal and slots, see job_signal.c                 */
    kc_time_t born;             /* I  if it is dated: when, on its scheduler's clock   */
    bool dated;                 /* I                                                   */
    uint32_t max_running;       /* I  0: no limit                                      */
    uint32_t running;           /* L  children that have started and not ended         */
    kc_queue_t pending;         /* L  children that must wait; task.before is the way back */
    kc_job_t *next_guest, *prev_guest; /* GUEST: see root.c                            */
    kc_job_t *culprit;                 /* L  whose failure is its own, with a reference        */
    char *message;                     /* L  what its body has to say about it; NULL: nothing  */
    char name[32];                     /* I                                                   */
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

KC_INLINE bool kc__job_stopped(const kc_job_t *j)
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

/* ---- job.c: the tree ----------------------------------------------------------------------- */

/* A job with so many references, not in the tree yet, by thread t. NULL: no memory. */
KC_INLINE kc_job_t *kc__job_make(kc_thread_t *t, kc_sched_t *s, uint32_t flags, kc_fn_t fn,
                                 void *arg, uint32_t refs)
{
    kc_block_t *block = kc__block_get(&t->jobs);

    if (kc_unlikely(!block))
        return NULL;
    kc_job_t *j = kc_container_of(block, kc_job_t, task.block);
    kc_store_relaxed(kc__block_number(block), kc__thread_new_id(t));
    kc_store_relaxed(&j->task.block.flags, flags);
    kc_store_relaxed(&j->task.word, 1);
    kc_store_relaxed(&j->task.worker, s->main);
    j->task.co = NULL;
    j->task.fn = fn;
    j->task.arg = arg;
    j->task.where = KC_WORKER;
    kc_store_relaxed(&j->task.kind, KC_WAIT_NONE);
    j->task.held = 0;
    j->task.depth = 0;
    j->reason = 0;
    j->code = 0;
    kc_store_relaxed(&j->refs, refs);
    j->shields = 0;
    j->parent = NULL;
    j->children = NULL;
    kc_store_relaxed(&j->ext, NULL);
    j->waiters = NULL;
    kc_store_relaxed(&j->task.block.magic, KC_TASK_MAGIC);
    return j;
}

/* The same on any thread. ext: it needs one. */
kc_job_t *kc__job_new(kc_sched_t *s, uint32_t flags, bool ext);

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
KC_COLD void kc__job_record(kc_sched_t *s, kc_job_t *j, int64_t at, kc_event_kind_t kind);

/* Makes j a child. -ECANCELED, -ESHUTDOWN: the parent takes none any more. */
int kc__job_attach(kc_job_t *parent, kc_job_t *j);

/* The same for a scope, which is born cancelled if its parent is. */
void kc__job_attach_scope(kc_job_t *parent, kc_job_t *j);

/* It is in the tree: for metrics and traces. at: when it was about to be, from kc__trace_time. */
KC_INLINE void kc__job_created(kc_sched_t *s, kc_job_t *j, int64_t at)
{
    kc__count(s, KC_COUNT_CREATED);
    if (kc_unlikely(kc_load_relaxed(&s->recorder) != NULL))
        kc__job_record(s, j, at, KC_EVENT_CREATE);
}

/* One more in the count, if it is not terminal. */
bool kc__job_hold(kc_job_t *j);

/* One less in the count; ends the job if it was the last. clear: bits of the word to clear. */
void kc__job_release(kc_job_t *j, uint64_t clear);

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

/* j has ended: what was done in it and below comes before what follows the end of its parent. */
KC_INLINE void kc__job_hand_on(const kc_job_t *j, const kc_job_t *parent)
{
    if (kc__tsan()) {
        kc__tsan_acquire(j);
        kc__tsan_release(parent);
    }
}

/* Gives up the last one in the count, and ends the job. False: it is not the last. */
bool kc__job_release_last(kc_job_t *j, uint64_t clear);

/* One less in the count, which is no root's. False: it was the last, and is a notice now, which the
 * caller must send. */
bool kc__job_release_not_last(kc_job_t *j);

/* Of a parent with an extension: may j start? */
bool kc__job_may_start_in(kc_job_t *parent, kc_job_ext_t *ext, kc_job_t *j);

/* A child that has not started may. False: it is kept until its parent lets it. */
KC_INLINE bool kc__job_may_start(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j->parent);

    return kc_likely(!ext) || kc__job_may_start_in(j->parent, ext, j);
}

/* Of a job whose body ends now: the coroutine on this thread that waits for nothing else, or the
 * thread's root. It must run next, and first of all kc__job_body_gone. NULL: there is no such. */
kcoro_t *kc__job_heir(kc_job_t *j);

/* Under the locks of both: j, whose body is at rest on this thread and will not go on, ends as
 * cancelled. word: its word, marked so. Nobody waits for it; it has no extension. Its parent, which
 * counts others too, counts it still, and its own reference is there: the caller sees to both. */
void kc__job_end_at_rest(kc_job_t *parent, kc_job_t *j, uint64_t word);

/* The body has left its stack for good. */
void kc__job_body_gone(kc_job_t *j);

/* The end of j, whose word this is, may call the user's code: it has failed, or it tells. */
KC_INLINE bool kc__job_is_heard(const kc_job_t *j, uint64_t word)
{
    return (word & KC_WORD_FAILED) || (kc__job_flags(j) & KC_JOB_TELLS);
}

/* j, whose body ends now, ends with it, and so does a job above that has failed or tells, or j has
 * or does: others may hear of that. */
KC_INLINE bool kc__job_tells(const kc_job_t *j)
{
    uint64_t word = kc__job_word(j);

    for (; kc_likely((word & KC_WORD_COUNT) == 1); word = kc__job_word(j)) {
        /* As kc__job_is_heard; and what a guest has left is another scheduler's to hear of. */
        if (kc_unlikely((word & KC_WORD_FAILED) ||
                        (kc__job_flags(j) & (KC_JOB_TELLS | KC_JOB_GUEST))))
            return true;
        j = j->parent;
    }
    return false;
}

/* An end that was put off until its thread is on its own stack. */
void kc__job_end_now(kc_job_t *j);

/* ---- cancel.c: how it ends ------------------------------------------------------------------ */

typedef enum {
    KC_BY_USER,
    KC_BY_PARENT,
    KC_BY_CHILD,    /* which has failed                           */
    KC_BY_BODY,     /* which has failed, or says it was cancelled */
    KC_BY_CLOCK,    /* its timeout                                */
    KC_BY_GRACE,    /* the time for shields is over, its own and all below */
    KC_BY_SHUTDOWN, /* the scheduler ends                        */
    KC_BY_REQUEST,  /* as KC_BY_USER, and counted: kc_job_cancel */
    KC_BY_OWN_GRACE /* as KC_BY_GRACE, by its own clock          */
} kc_cancel_by_t;

/* Asks j to end. True: this call moved it out of ACTIVE. */
bool kc__job_cancel(kc_job_t *j, int reason, kc_cancel_by_t by);

/* A child of j has failed, or, if that is NULL, its body: j ends FAILED, and its children are
 * cancelled. */
void kc__job_fail(kc_job_t *j, int code, kc_job_t *child);

/* The same, and its body goes on. True: j had not failed before, and was not cancelled. */
bool kc__job_fail_running(kc_job_t *j, int code);

/* What a cancel says to the children of j: a timeout is its owner's alone (J5). Under its lock. */
int kc__job_reason_below(const kc_job_t *j);

/* Under the lock of j: how a child is marked that has been told of all there is to be told now. */
KC_INLINE uint64_t kc__job_told_mark(kc_job_t *j)
{
    bool ends = kc_load_relaxed(&kc__job_sched(j)->shutting);
    bool late = kc__job_word(j) & KC_WORD_OVER_BELOW;

    return KC_WORD_WALKED | (ends ? KC_WORD_SHUT : 0) | (late ? KC_WORD_LATE : 0);
}

/* The same, and what the word of one is that is cancelled with it, at once and without a shield. */
KC_INLINE uint64_t kc__job_born_mark(kc_job_t *j)
{
    uint64_t told = kc__job_told_mark(j);
    uint64_t over = told & KC_WORD_LATE ? KC_WORD_GRACE_OVER | KC_WORD_OVER_BELOW : 0;

    return KC_WORD_CANCELLED | KC_WORD_STOP | KC_WORD_HALT | told | over;
}

/* Tells the children that do not know yet. */
void kc__job_walk(kc_job_t *top);

/* A message of kc__job_cancel has come to the thread of j's body. */
void kc__job_notice(kc_job_t *j);

/* One less in the count, from any thread. If it is the last, j ends on a thread of its scheduler:
 * those who hear of that may be the user's code. */
void kc__job_release_there(kc_job_t *j);

/* Shields for what runs at the end: whatever the state is. */
void kc__job_shield(kc_job_t *j);
void kc__job_unshield(kc_job_t *j);

/* The caller, j's body, waits until it alone is left in the count. */
void kc__job_drain_children(kc_job_t *j);

/* The same, but once: false: it is; true: it was, and may have got others since. */
bool kc__job_drain_once(kc_job_t *j);

KC_INLINE void kc__job_drain(kc_job_t *j)
{
    if ((kc__word_seen(&j->task) & KC_WORD_COUNT) != 1 || kc__tsan())
        kc__job_drain_children(j);
}

/* ---- failure.c: who has failed -------------------------------------------------------------- */

/* j has failed as its child has, which is about to end. */
void kc__failure_inherit(kc_job_t *j, kc_job_t *child);

/* A scope ends, which has failed; own: the job of its coroutine. */
void kc__failure_of_scope(kc_job_t *scope, kc_job_t *own);

/* Under the lock of j, or when it has ended: what is said about its failure, or would be. NULL:
 * nothing. */
const char *kc__failure_message(kc_job_t *j);

/* Somebody wants to hear of it when such a job fails: tells. */
KC_INLINE bool kc__failure_is_reported(kc_job_t *j)
{
    return kc__job_sched(j)->on_failure &&
           !(kc__job_flags(j) & (KC_JOB_SCOPE | KC_JOB_GROUP | KC_JOB_PROMISE));
}

void kc__failure_report(kc_job_t *j);

/* ---- body.c: the coroutine of a job -------------------------------------------------------- */

/* Calls a dispose: it may not wait, as a handler may not. */
void kc__dispose(void (*fn)(void *arg), void *arg);

/* The flags of the coroutine of j's body, which is to run there. */
uint32_t kc__body_flags(const kc_job_t *j, kc_affinity_t where);

/* As kc_job_returned. */
int kc__job_returned(const kc_job_t *j, int *rc);

/* UNDONE for the word of its parent, if j, which ends so and not as completed, leaves work undone
 * that was its parent's too; else 0. */
uint64_t kc__job_undone(const kc_job_t *j, uint64_t done);

/* j, which has ended or is about to, has completed; or it was asked to stop, but what it had to do
 * was done: its body returned 0, and so did the bodies of its children (A1). */
bool kc__job_did(const kc_job_t *j);

/* What a body's return value means for its job. */
void kc__job_settle(kc_job_t *j, int rc);

/* Drains j, then runs its deferred cleanups down to `end`. */
void kc__job_clean_up(kc_job_t *j, kcoro_t *co, kc_cleanup_t *end);

/* At a suspension point of a body that is cancelled: -ECANCELED, or it is unwound. */
int kc__job_cancelled_here(kcoro_t *co);

/* At the entry of a call that suspends, of the caller whose job's coroutine is co: 0, or as
 * kc__job_cancelled_here. co is NULL: a plain thread, which nobody cancels. */
KC_INLINE int kc__job_may_wait(kcoro_t *co)
{
    if (kc_unlikely(co && kc__job_stopped(kc__job_of(co->task))))
        return kc__job_cancelled_here(co);
    return 0;
}

/* ---- launch.c ------------------------------------------------------------------------------ */

/* What the options of launches and scopes have in common, into an extension made for it. */
struct kc_job_wishes {
    const char *name;
    size_t stack;
    kc_time_t timeout, grace;
    uint32_t max_running;
    void (*dispose)(void *arg);
    kc_signal_t *signal;
};

/* What these options ask for. */
KC_INLINE struct kc_job_wishes kc__wishes_of(const kc_launch_opts_t *o)
{
    return (struct kc_job_wishes){
        .name = o->name,
        .stack = o->stack,
        .timeout = o->timeout,
        .grace = o->grace,
        .dispose = o->dispose,
        .signal = o->signal,
    };
}

/* True: the job needs an extension. */
bool kc__wishes_any(const struct kc_job_wishes *wishes);

/* Before it is in the tree: prepares all that may fail. 0, -ENOMEM. */
int kc__wishes_prepare(kc_job_t *j, const struct kc_job_wishes *wishes);

/* In the tree: the clock runs, the outside signal reaches it. */
void kc__wishes_arm(kc_job_t *j, const struct kc_job_wishes *wishes);

/* The options of a kc_call_t, which may have these flags: 0, or why they cannot be (A5). */
int kc__launch_check_call(const kc_launch_opts_t *o, uint32_t flags);

/* Where a job of s with these options is to start: 0, or -EINVAL: there is no such place. */
int kc__launch_place(const kc_launch_opts_t *o, kc_sched_t *s, kc_affinity_t *where);

/* Queues j, which is in the tree, or with KC_JOB_NOW starts it here; or it waits for its turn. */
void kc__launch_start(kc_job_t *j);

/* A promise that other jobs of the current one keep: it does not count as held from outside. */
int kc__promise_of_ours(kc_deferred_t **out);

/* One that a resolver holds too: with one reference more. */
int kc__promise_for_resolver(const kc_launch_opts_t *opts, kc_job_t **out);

/* As kc_promise_complete, of any promise. */
int kc__promise_keep(kc_job_t *j, int rc, void *payload);

/* Something that only another thread may end keeps s from being stuck: one such is over. */
void kc__hold_ends(kc_sched_t *s);

/* A foreign thread is about to bring something to s: true, and then kc__hold_ends must follow. */
bool kc__hold_for_foreign(kc_sched_t *s);

/* A group is closed, or a promise kept or cancelled: what held it open is gone. */
void kc__group_ends(kc_job_t *j);

/* ---- scope.c ------------------------------------------------------------------------------- */

/* Ends a scope that is the current one. rc: what its function returned. In *undone, which may be
 * NULL: a child left its work undone, or failed. */
int kc__scope_close(kcoro_t *co, kc_scope_t *scope, int rc, bool *undone);

/* As kc_scope. In *did: fn returned 0, and so did its children, whatever the result is. */
int kc__scope_run(kc_fn_t fn, void *arg, const kc_scope_opts_t *opts, bool *did);

/* What marks a scope in a coroutine's list of cleanups. */
void kc__scope_mark(void *arg);

/* ---- grace.c: how long shields hold a cancel back ------------------------------------------- */

/* j, which nobody knows yet, has a grace of its own. 0 or -ENOMEM. */
int kc__grace_prepare(kc_job_t *j, kc_time_t grace);

/* Somebody has asked j to end, and has a reference on it: its time counts from now. by_parent: that
 * has a clock already. False: there is no memory for one, so the time must be over at once. */
bool kc__grace_begins(kc_job_t *j, bool by_parent);

/* The body of j goes on on another thread: so does the clock. */
void kc__grace_hop(kc_job_t *j, kc_job_ext_t *ext);

/* That of a scheduler: as kc_task_host (sched.h) says of open, shut and gone. */
int kc__grace_open(kc_sched_t *s);
void kc__grace_shut(kc_sched_t *s);
void kc__grace_gone(kc_sched_t *s);

/* ---- timeout.c: timeouts and grace ----------------------------------------------------------- */

typedef struct kc_clock kc_clock_t;

/* One that is not armed. NULL: no memory. */
kc_clock_t *kc__clock_new(kc_job_t *j, void (*ring)(kc_job_t *j));

/* Arms it: ring is called at `at`, on the thread of the job's body. Any thread. */
void kc__clock_arm(kc_clock_t *clock, kc_time_t at);

/* The body, which is of this thread, goes on on another one: so does the clock. */
void kc__clock_hop(kc_clock_t *clock);

/* The body starts on this thread: one that rings here, for one that rings elsewhere. NULL: it rings
 * here already, or there is no memory. */
kc_clock_t *kc__clock_copy_here(kc_clock_t *clock);

/* One more user, so that it may be armed while the job drops it. */
void kc__clock_ref(kc_clock_t *clock);
void kc__clock_unref(kc_clock_t *clock);

/* The job's reference to it is given up; it does not ring any more, or has. */
void kc__clock_drop(kc_clock_t *clock);

/* A message has come to the thread of a clock. */
void kc__clock_message(kc_block_t *block);

#define KC_CLOCK_MAGIC 0xc10cc070u

/* ---- job_signal.c: the job's signal --------------------------------------------------------------- */

/* Binds j, which nobody knows yet, to an outside signal. 0 or -ENOMEM. */
int kc__news_prepare(kc_job_t *j, kc_signal_t *signal);

/* From now on TERMINATE of that signal cancels j; if it came meanwhile or before, at once. */
void kc__news_bind(kc_job_t *j);

/* Under the lock of j: its cancel takes effect with the unlock, and so does TERMINATE for those who
 * look. True: there are those who listen, and kc__news_tell must follow. */
bool kc__news_terminate(kc_job_t *j);
void kc__news_tell(kc_job_t *j);

/* Takes off what binds j to others, if anything: its handlers have run for the last time when this
 * returns (unless one of them calls it). A second call does nothing. */
void kc__news_cut(kc_job_t *j);

/* j is terminal: its signal is nothing but a signal now. */
void kc__news_end(kc_job_t *j);

/* The last of j: frees what it has. */
void kc__news_free(kc_job_ext_t *ext);

/* ---- locals.c ------------------------------------------------------------------------------ */

/* A child's locals are those of `from`; NULL: of the caller's own job. 0 or -ENOMEM. */
int kc__locals_inherit(kc_job_t *child, kc_job_t *from);
void kc__locals_free(kc_job_ext_t *ext);

/* ---- root.c: what is nobody's child ---------------------------------------------------------- */

/* The root for what the caller brings to s. detached: for jobs that kc_run does not wait for. */
kc_job_t *kc__root_for(kc_sched_t *s, bool detached);

/* All roots of s: those that kc_run waits for come first, each thread's, main's last. */
int kc__roots_count(const kc_sched_t *s);
kc_job_t *kc__root_at(kc_sched_t *s, int i);

/* Calls visit for each job of s, parents first and of children the oldest first. Only where nothing
 * in s runs; it may cancel j, which is held meanwhile. */
void kc__roots_each(kc_sched_t *s, void (*visit)(kc_job_t *j, void *arg), void *arg);

/* j, whose parent is in another scheduler, is in the tree, and held, as is main's root for it; it
 * has ended. */
void kc__guest_comes(kc_job_t *j);
void kc__guest_goes(kc_job_t *j);

/* As kc_task_host (sched.h) says. */
int kc__roots_open(kc_sched_t *s);
void kc__roots_close(kc_sched_t *s);
void kc__roots_shut(kc_sched_t *s);
void kc__roots_over(kc_sched_t *s); /* the grace of all that is shut is over */
bool kc__roots_idle(kc_sched_t *s);
bool kc__roots_held_open(kc_sched_t *s, uint64_t *seen);
bool kc__roots_end_shields(kc_sched_t *s);
kc_task_t *kc__roots_make(kc_sched_t *s, kc_affinity_t where, kc_fn_t fn, void *arg,
                          const struct kc_task_more *more);
void kc__roots_go(kc_task_t *task);
void kc__roots_drop(kc_task_t *task);

/* ---- suspend.c: waits of the user's own ------------------------------------------------------ */

/* On its thread: the job of this wait in kc_suspend is cancelled. */
void kc__suspend_cancel(const kc_wait_t *w);

/* A message of that has come: the thread is on its own stack. */
void kc__suspend_message(kc_block_t *block);

#define KC_WAKER_MAGIC 0x3a4ec070u

/* ---- join.c ---------------------------------------------------------------------------------- */

/* j is the caller's job or one above it: it cannot end while the caller waits. Costs nothing for
 * a join downward. */
bool kc__join_is_above(const kc_job_t *j, const kc_job_t *current);

/* Queues w with those who wait for j. False: it has ended. */
bool kc__join_enqueue(kc_thread_t *t, kc_job_t *j, kc_wait_t *w);

/* That a job has failed, or is about to have, is why the caller was cancelled, as it looks: then it
 * gets what it has waited for. word: of that job. */
bool kc__join_has_failed(uint64_t word);

/* Waits for j, whatever comes. */
void kc__join_firmly(kc_job_t *j);

/* join_any.c: a job has ended that w, a stand-in, waited for. */
void kc__join_wakes(kc_wait_t *w);

/* ---- payload.c: values that somebody must dispose of ----------------------------------------- */

/* The value of j, which has OWNED set and has ended, is handed over. */
KC_COLD void *kc__payload_take(kc_job_t *j);

/* Another value comes in its place. */
KC_COLD void kc__payload_replace(kc_job_t *j, const void *by);

/* j, of which this is the extension, is about to end so; is gone. */
void kc__payload_end(kc_job_ext_t *ext, uint64_t done);
void kc__payload_free(kc_job_ext_t *ext);

/* ---- deadlock.c: nothing can go on -------------------------------------------------------------- */

bool kc__stuck_on_thread(kc_sched_t *s);
void kc__stuck_report(kc_sched_t *s);

#endif
