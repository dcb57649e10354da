/* SPDX-License-Identifier: MIT */
/*
 * cycle.c - jobs that wait for each other in a cycle are found when its last wait begins (E4).
 *
 * WHAT     In a scheduler with virtual time, or with KC_SCHED_FIND_DEADLOCKS, a body that is about
 *          to wait for something that has an owner enters itself into a table, under one lock for
 *          the process, and leaves it when its wait is over. Under the lock it follows the waits
 *          from what it waits for to the bodies that must act first, as far as these are in the
 *          table: if that leads back to itself, no body on the way can ever continue.
 *
 *          a wait for                needs
 *          a mutex, a kc_once        its owner
 *          a lock to read or write   its writer; readers are not known, only how many there are
 *          the end of a job          all bodies inside that job: its own and those of its children
 *          its own children          all bodies inside that job, but for itself
 *
 *          A wait needs all of these bodies, so one way back is enough. All other waits (for
 *          channels, conditions, sleeps, plain threads, in schedulers that do not look for cycles)
 *          need no body that is known: no way leads on from there.
 *
 *          A wait with a deadline of its own is not entered, nor is a wait that a timeout around it
 *          will cancel. Shields without a grace and kc_forbid_signal keep a timeout out, and it
 *          does not count for waits that no cancel ends. A body that is cancelled already is passed
 *          over, the caller too.
 *
 *          The wait that closes the cycle ends with -EDEADLK. The end of a scope or body cannot
 *          return it: the scope or body fails, which cancels the children. If that does not help,
 *          or it was cancelled before, there is a report, and the wait continues: shields may have
 *          a grace. A wait that can neither fail nor return (kc_mutex_lock_nocancel, a condition
 *          that locks again, kc_once) aborts.
 *
 * RULES    Why a cycle that is found is real, whatever other threads do meanwhile:
 *          R1 A body in the table does nothing before it leaves the table, for which it needs the
 *             lock. So while a body looks, all in the table have done nothing since they entered,
 *             and all that they did before is seen (lock.1 to lock.4).
 *          R2 Therefore a body that is found to be the owner of something, and is in the table, has
 *             not given it up: it could have done so only before it entered, and then another owner
 *             would be seen. It may have been made the owner since, by the end of its wait: the
 *             claim comes before the new owner is written (wait_queue.h), so the look at the claim,
 *             which comes after the look at the owner, finds that out, and the way ends there.
 *          R3 A body in the table has not ended, so no job around it has.
 *          R4 So on a way that comes back to the caller each body waits for something that only the
 *             next one can give, and none of them can do anything: only a cancel or a deadline
 *             could end such a wait, and there is none.
 *          R5 No cycle is overlooked: each body enters before it looks, one at a time. The last of
 *             a cycle sees all others.
 *          R6 There is one report: the wait that ends is claimed, and an end that fails is marked,
 *             before the lock is released. A body that looks later passes it over.
 *
 * ORDER    The lock (base/lock.h) orders all of it, but for R2: wait_queue.2 and wait_queue.4.
 *
 * WHY NOT  Looking without entering, at the waits themselves: they lie on stacks that may be gone.
 *          A list of the readers of a lock: each rdlock would have to write it.
 */
#include "job/cycle.h"

#include "base/lock.h"
#include "coro/backtrace.h"
#include "job/body.h"
#include "job/cancel.h"
#include "job/describe.h"
#include "job/end.h"
#include "sched/worker.h"

#include <errno.h>

enum { BUCKETS = 512, FRAMES = 16 };

/* One who waits, in its frame. All of it is written before it is entered, or under the lock. */
typedef struct entry {
    struct entry *next, **link; /* in its bucket; link is NULL: in none                          */
    kcoro_t *co;                /* the body                                                      */
    kc_job_t *job;              /* the innermost scope around it, or its own job                 */
    kc_wait_kind_t kind;
    const void *object;
    kc_job_t *top;     /* a cancel of this job, or of one below it around co, ends the wait; NULL:
                            none does */
    bool over;         /* it does not count any more: see R6                                   */
    const kcoro_t *on; /* whose stack it is on, and the frame there whose callers are shown */
    const void *frame;
    uint64_t search;    /* the last one that has come here                                       */
    struct entry *from; /* ... from there                                                       */
    struct entry *todo; /* ... and will go on here, after this one                              */
} entry_t;

static struct {
    kc_lock_t lock;
    entry_t *bucket[BUCKETS]; /* L */
    uint64_t searches;        /* L */
} table;

typedef struct {
    entry_t *start, *todo;
    entry_t *last; /* from here it came back to start; NULL: it has not yet */
} search_t;

/* ---- the table ------------------------------------------------------------------------------ */

static entry_t **bucket_of(const kcoro_t *co)
{
    return &table.bucket[(uintptr_t)co / KC_BLOCK_SIZE % BUCKETS];
}

static entry_t *entry_of(const kcoro_t *co)
{
    entry_t *e = *bucket_of(co);

    while (e && e->co != co)
        e = e->next;
    return e;
}

static void insert(entry_t *e)
{
    entry_t **head = bucket_of(e->co);

    e->next = *head;
    e->link = head;
    if (e->next)
        e->next->link = &e->next;
    *head = e;
}

static void come_out(entry_t *e)
{
    if (!e->link)
        return;
    kc__lock(&table.lock);
    *e->link = e->next;
    if (e->next)
        e->next->link = e->link;
    kc__unlock(&table.lock);
}

/* ---- what ends a wait ----------------------------------------------------------------------- */

static bool has_timeout(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);

    if (!ext)
        return false;
    kc__job_lock(j);
    bool has = ext->timeout != NULL;
    kc__job_unlock(j);
    return has;
}

/* Its own, one above it, or its scheduler's. */
static bool has_grace(kc_job_t *j)
{
    return (kc__job_flags(j) & KC_JOB_GRACED) || kc__job_sched(j)->grace != 0;
}

/* A cancel ends the wait of e, and a deadline will cancel it. Finds out how far up one that does
 * may come from. Only shields of its own body count: others' may end at any time. */
static bool find_deadline(entry_t *e)
{
    bool own = true;

    for (kc_job_t *j = e->job; !(kc__job_flags(j) & KC_JOB_ROOT); j = j->parent) {
        uint64_t word = kc__job_word(j);
        bool shielded = own && (word & KC_WORD_SHIELDED) && !(word & KC_WORD_GRACE_OVER);
        if ((word & KC_WORD_FORBID) || (shielded && !has_grace(j)))
            return false;
        if ((shielded && (word & KC_WORD_CANCELLED)) || has_timeout(j))
            return true;
        e->top = j;
        own = own && (kc__job_flags(j) & KC_JOB_SCOPE);
    }
    return false;
}

/* Somebody has cancelled it: the message may be on its way. */
static bool is_cancelled(const entry_t *e)
{
    for (const kc_job_t *j = e->job; e->top; j = j->parent) {
        if (kc__job_is_stopped(j))
            return true;
        if (j == e->top)
            break;
    }
    return false;
}

/* It waits, and will until what it waits for has come. */
static bool is_waiting(const entry_t *e)
{
    if (e->over)
        return false;
    if (e->kind == KC_WAIT_CHILDREN)
        return true; /* as long as there are any */
    uint32_t claim = kc_load_relaxed(&e->co->claim);
    return claim == KC_CLAIM_UNCANCELLABLE || (claim == KC_CLAIM_OPEN && !is_cancelled(e));
}

/* ---- the search ----------------------------------------------------------------------------- */

static void come_to(search_t *s, entry_t *e, entry_t *from)
{
    if (!e || s->last)
        return;
    if (e == s->start)
        s->last = from;
    if (e->search == table.searches || !is_waiting(e))
        return;
    e->search = table.searches;
    e->from = from;
    e->todo = s->todo;
    s->todo = e;
}

/* The body of e has not ended, so all above it are there. */
static bool is_inside(const entry_t *e, const kc_job_t *j)
{
    const kc_job_t *at = e->job;

    while (at->task.depth > j->task.depth)
        at = at->parent;
    return at == j;
}

/* All bodies inside j, but for that of `from` itself. */
static void come_to_all_inside(search_t *s, const kc_job_t *j, entry_t *from)
{
    if (from != s->start && is_inside(s->start, j))
        come_to(s, s->start, from);
    for (int i = 0; i < BUCKETS && !s->last; i++)
        for (entry_t *e = table.bucket[i]; e; e = e->next)
            if (e->co != from->co && is_inside(e, j))
                come_to(s, e, from);
}

/* Its own body, if it has nothing else: what most jobs that are joined are. */
static kcoro_t *only_body(kc_job_t *j)
{
    uint64_t word = kc__job_lock(j);
    kcoro_t *co = (word & KC_WORD_BODY) && !j->children ? j->task.co : NULL;

    kc__job_unlock(j);
    return co;
}

static void go_on_from(search_t *s, entry_t *e)
{
    kc_job_t *j = (kc_job_t *)(uintptr_t)e->object;

    if (e->kind == KC_WAIT_CHILDREN) {
        come_to_all_inside(s, j, e);
    } else if (e->kind == KC_WAIT_JOIN) {
        kcoro_t *co = only_body(j);
        if (co)
            come_to(s, entry_of(co), e);
        else if (!(kc__job_word(j) & KC_WORD_DONE))
            come_to_all_inside(s, j, e);
    } else {
        kcoro_t *owner = (kcoro_t *)(uintptr_t)kc__wait_objects.owner(e->kind, e->object);
        if (owner != e->co) /* else it was handed over just now (R2) */
            come_to(s, entry_of(owner), e);
    }
}

/* True: it comes back to start; the way is linked by from, beginning at s->last. */
static bool search(search_t *s, entry_t *start)
{
    table.searches++;
    *s = (search_t){ .start = start };
    if (!is_waiting(start)) /* a cancel has come since it looked for one: it will not wait */
        return false;
    start->search = table.searches;
    go_on_from(s, start);
    while (s->todo && !s->last) {
        entry_t *e = s->todo;
        s->todo = e->todo;
        go_on_from(s, e);
    }
    return s->last != NULL;
}

/* ---- the report ----------------------------------------------------------------------------- */

static void print_entry(const entry_t *e, const entry_t *next)
{
    kc_text_t line = { "" };
    uintptr_t pc[FRAMES];

    kc__text_add_owner(&line, (uintptr_t)e->co);
    kc__text_add(&line, " waits for ");
    kc__text_add_wait(&line, e->kind, e->object);
    if (e->kind == KC_WAIT_CHILDREN || (e->kind == KC_WAIT_JOIN && next->job != e->object)) {
        kc__text_add(&line, ", among them ");
        kc__text_add_owner(&line, (uintptr_t)next->co);
    }
    fprintf(stderr, "kcoro: deadlock: %s\n", line.text);
    size_t n = kc__coro_backtrace_from(e->on, e->frame, pc, FRAMES);
    for (size_t i = 0; i < n; i++) {
        fputs("  ", stderr);
        kc__coro_print_frame(stderr, pc[i]);
    }
}

/* The whole cycle, from start on. */
static void report(search_t *s, const char *what_then)
{
    entry_t *to = s->start, *at = s->last;
    size_t count = 1;

    for (; at != s->start; count++) { /* the way back becomes the way there */
        entry_t *from = at->from;
        at->todo = to;
        to = at;
        at = from;
    }
    at->todo = to;
    flockfile(stderr);
    fprintf(stderr, "kcoro: deadlock: %zu job%s in a cycle%s " KC_RULE("E4") "\n", count,
            count == 1 ? " waits" : "s wait", what_then);
    at = s->start;
    do
        print_entry(at, at->todo);
    while ((at = at->todo) != s->start);
    fflush(stderr);
    funlockfile(stderr);
}

/* ---- who waits ------------------------------------------------------------------------------ */

/* e is in the table; w is its wait. True: it is over, with -EDEADLK. */
static bool look(entry_t *e, kc_wait_t *w)
{
    bool uncancellable = kc_load_relaxed(&e->co->claim) == KC_CLAIM_UNCANCELLABLE, found;
    search_t s;

    kc__lock(&table.lock);
    insert(e);
    found = search(&s, e);
    if (found && !uncancellable)
        found = kc__wait_claim(w, -EDEADLK);
    if (found)
        report(&s,
               uncancellable ? ", and this wait cannot end" : "; this wait ends with -EDEADLK");
    kc__unlock(&table.lock);
    if (found && uncancellable && e->kind != KC_WAIT_JOIN)
        kc__usage(e->kind == KC_WAIT_ONCE ? "kc_once" : "kc_mutex_lock_nocancel",
                  "a deadlock, which this call cannot return " KC_RULE("E4"));
    return found && !uncancellable;
}

static bool has_owner(kc_wait_kind_t kind)
{
    return kind == KC_WAIT_MUTEX || kind == KC_WAIT_READ || kind == KC_WAIT_WRITE ||
           kind == KC_WAIT_ONCE || kind == KC_WAIT_JOIN;
}

int kc__cycle_leave(kc_thread_t *t, kcoro_t *co)
{
    kc_task_t *task = co->task;
    kc_wait_t *w = task->wait;
    bool timed = kc__timer_is_pending(&w->timed.timer);
    entry_t e = { .co = co,
                  .job = kc__job_of(task),
                  .kind = w->kind,
                  .object = w->object,
                  .on = t->current,
                  .frame = __builtin_frame_address(0) };

    if (!has_owner(w->kind) || timed ||
        (kc_load_relaxed(&co->claim) == KC_CLAIM_OPEN && find_deadline(&e)))
        return kc__worker_leave_parked(t, co);
    if (look(&e, w)) {
        come_out(&e);
        kc_store_relaxed(&t->current->state, KCORO_RUNNING);
        return 0;
    }
    int rc = kc__worker_leave_parked(t, co);
    come_out(&e);
    return rc;
}

/* The body of e is about to wait for its children. True: it must fail, which lets them end. */
static bool look_at_end(entry_t *e, bool *reported)
{
    bool may_fail = !kc__job_is_stopped(e->job);
    search_t s;

    kc__lock(&table.lock);
    insert(e);
    bool found = !*reported && search(&s, e);
    e->over = found && may_fail;
    if (found)
        report(&s, may_fail ? "; this end fails with -EDEADLK" : ", and this wait cannot end");
    kc__unlock(&table.lock);
    *reported = *reported || found;
    return found && may_fail;
}

void kc__cycle_drain(kc_job_t *j)
{
    bool reported = false;

    for (bool more = true; more;) {
        entry_t e = { .co = j->task.co,
                      .job = j,
                      .kind = KC_WAIT_CHILDREN,
                      .object = j,
                      .on = kc__thread()->current,
                      .frame = __builtin_frame_address(0) };
        bool fails = look_at_end(&e, &reported);
        if (fails)
            kc__job_settle(j, -EDEADLK);
        else
            more = kc__job_drain_once(j);
        come_out(&e);
    }
}
