/* SPDX-License-Identifier: MIT */
/*
 * sync.c - semaphore, latch, event, once and barrier: what has no owner.
 *
 * SHAPE    The word of each, above the two bits of its queue (wait_queue.h):
 *
 *          semaphore   permits * ONE; more than 0: nobody waits in the queue
 *          latch       how many are to come * ONE; 0: open, and nobody waits in the queue
 *          event       SET, or 0; SET: nobody waits in the queue
 *          once        0 --> owner | RUNS --> DONE
 *          barrier     who have come * ONE
 */
#include "job/body.h"
#include "job/shield.h"
#include "sync/wait_queue.h"

#include <kcoro/sync.h>

#include <errno.h>

#define ONE 4ull
#define SET 4ull
#define RUNS 4ull
#define DONE 8ull

_Static_assert(sizeof(kc_wait_queue_t) == sizeof(kc_sem_t) &&
                   sizeof(kc_wait_queue_t) == sizeof(kc_latch_t) &&
                   sizeof(kc_wait_queue_t) == sizeof(kc_event_t) &&
                   sizeof(kc_wait_queue_t) == sizeof(kc_once_t) &&
                   sizeof(kc_wait_queue_t) == offsetof(kc_barrier_t, members),
               "each begins with its queue");

static kc_wait_queue_t *queue_of(void *object, const char *call)
{
    if (kc_unlikely(!object))
        kc__usage(call, "the object is NULL");
    return object;
}

static int check_cancel(void)
{
    return kc__job_check_cancel(kc__task_coroutine(kc__thread()->current));
}

/* ---- semaphore ------------------------------------------------------------------------------ */

/* Takes a permit that nobody waits in the queue for. */
static bool sem_try(kc_wait_queue_t *l)
{
    uint64_t seen = kc__wait_queue_settled(l);

    while (seen >= ONE) {
        if (kc__wait_queue_step(l, &seen, seen - ONE))
            return true;
        seen = kc__wait_queue_settled(l);
    }
    return false;
}

static int sem_acquire(kc_sem_t *s, kc_time_t deadline)
{
    kc_wait_queue_t *l = (kc_wait_queue_t *)s;
    kc_wait_t w;

    if (kc_unlikely(!s))
        return -EINVAL;
    int rc = check_cancel();
    if (kc_unlikely(rc != 0) || kc_likely(sem_try(l)))
        return rc;
    kc__wait_begin_checked(&w, KC_WAIT_SEM, s);
    uint64_t own = kc__wait_queue_lock(l);
    KC_CHECK(own < ONE || !l->first); /* nobody waits for what is free */
    if (own >= ONE) {
        kc__wait_queue_unlock(l, own - ONE);
        return 0;
    }
    return kc__wait_queue_wait_or_leave(l, own, &w, deadline);
}

int kc_sem_acquire(kc_sem_t *s)
{
    return sem_acquire(s, KC_FOREVER);
}

int kc_sem_acquire_until(kc_sem_t *s, kc_time_t deadline)
{
    return sem_acquire(s, deadline);
}

bool kc_sem_try_acquire(kc_sem_t *s)
{
    return sem_try(queue_of(s, "kc_sem_try_acquire"));
}

bool kc_sem_tryacquire(kc_sem_t *s)
{
    return sem_try(queue_of(s, "kc_sem_tryacquire"));
}

void kc_sem_release(kc_sem_t *s, uint32_t n)
{
    kc_wait_queue_t *l = queue_of(s, "kc_sem_release");
    uint64_t more = n * ONE, seen = kc__wait_queue_settled(l);

    if (n == 0)
        return;
    while (!(seen & KC_WAIT_QUEUE_WAITS)) {
        if (kc_unlikely(seen > UINT64_MAX - more))
            kc__usage("kc_sem_release", "more permits than can be counted");
        if (kc__wait_queue_step(l, &seen, seen + more))
            return;
        seen = kc__wait_queue_settled(l);
    }
    uint64_t own = kc__wait_queue_lock(l) + more; /* nobody waits in the queue for what is free */
    kc_link_t *taken = kc__wait_queue_take_some(l, n);
    for (kc_link_t *w = taken; w; w = w->next)
        own -= ONE;
    KC_CHECK(own < ONE || !l->first); /* nobody waits for what is free */
    kc__wait_queue_unlock(l, own);
    kc__wait_wake_all(taken);
}

/* ---- latch ---------------------------------------------------------------------------------- */

/* Lets all in queue pass, and gives the lock back. */
static void open_for_all(kc_wait_queue_t *l, uint64_t own)
{
    kc_link_t *taken = kc__wait_queue_take_some(l, UINT64_MAX);

    kc__wait_queue_unlock(l, own);
    kc__wait_wake_all(taken);
}

static bool latch_is_open(uint64_t word)
{
    return word < ONE;
}

/* True: it is open now, and may be gone. */
static bool count_down(kc_wait_queue_t *l, const char *call)
{
    uint64_t seen = kc__wait_queue_settled(l);

    for (;;) {
        if (kc_unlikely(seen < ONE))
            kc__usage(call, "the latch is at zero already " KC_RULE("Y3"));
        if ((seen & KC_WAIT_QUEUE_WAITS) && seen < 2 * ONE) {
            uint64_t own = kc__wait_queue_lock(l);
            if (own == ONE) { /* only who waits may have come or gone */
                open_for_all(l, 0);
                return true;
            }
            kc__wait_queue_unlock(l, own);
        } else if (kc__wait_queue_step(l, &seen, seen - ONE)) {
            return latch_is_open(seen - ONE);
        }
        seen = kc__wait_queue_settled(l);
    }
}

/* Waits until the word says that all may pass: 0 of a latch, the flag of an event. */
static int wait_open(kc_wait_queue_t *l, bool (*is_open)(uint64_t word), kc_wait_kind_t kind,
                     kc_time_t deadline)
{
    kc_wait_t w;

    if (kc_unlikely(!l))
        return -EINVAL;
    int rc = check_cancel();
    if (rc != 0 || is_open(kc__wait_queue_look(l)))
        return rc;
    kc__wait_begin_checked(&w, kind, l);
    uint64_t own = kc__wait_queue_lock(l);
    KC_CHECK(!is_open(own) || !l->first);
    if (is_open(own)) {
        kc__wait_queue_unlock(l, own);
        return 0;
    }
    return kc__wait_queue_wait_or_leave(l, own, &w, deadline);
}

void kc_latch_count_down(kc_latch_t *l)
{
    (void)count_down(queue_of(l, "kc_latch_count_down"), "kc_latch_count_down");
}

int kc_latch_wait(kc_latch_t *l)
{
    return wait_open((kc_wait_queue_t *)l, latch_is_open, KC_WAIT_LATCH, KC_FOREVER);
}

int kc_latch_wait_until(kc_latch_t *l, kc_time_t deadline)
{
    return wait_open((kc_wait_queue_t *)l, latch_is_open, KC_WAIT_LATCH, deadline);
}

int kc_latch_arrive_and_wait(kc_latch_t *l)
{
    if (!l)
        return -EINVAL;
    if (count_down((kc_wait_queue_t *)l, "kc_latch_arrive_and_wait"))
        return check_cancel();
    return kc_latch_wait(l);
}

/* ---- event ---------------------------------------------------------------------------------- */

static bool event_is_set(uint64_t word)
{
    return word & SET;
}

void kc_event_set(kc_event_t *e)
{
    kc_wait_queue_t *l = queue_of(e, "kc_event_set");
    uint64_t seen = kc__wait_queue_settled(l);

    while (!(seen & (SET | KC_WAIT_QUEUE_WAITS))) {
        if (kc__wait_queue_step(l, &seen, SET))
            return;
        seen = kc__wait_queue_settled(l);
    }
    if (seen & SET)
        return;
    kc__wait_queue_lock(l);
    open_for_all(l, SET);
}

void kc_event_reset(kc_event_t *e)
{
    kc_wait_queue_t *l = queue_of(e, "kc_event_reset");
    uint64_t seen = kc__wait_queue_settled(l);

    while ((seen & SET) && !kc__wait_queue_step(l, &seen, seen & ~SET))
        seen = kc__wait_queue_settled(l);
}

bool kc_event_is_set(const kc_event_t *e)
{
    if (kc_unlikely(!e))
        kc__usage("kc_event_is_set", "the object is NULL");
    return event_is_set(kc__wait_queue_look((const kc_wait_queue_t *)e));
}

int kc_event_wait(kc_event_t *e)
{
    return wait_open((kc_wait_queue_t *)e, event_is_set, KC_WAIT_EVENT, KC_FOREVER);
}

int kc_event_wait_until(kc_event_t *e, kc_time_t deadline)
{
    return wait_open((kc_wait_queue_t *)e, event_is_set, KC_WAIT_EVENT, deadline);
}

/* ---- once ----------------------------------------------------------------------------------- */

/* The caller is the one who runs fn. */
static void run_once(kc_wait_queue_t *l, kcoro_t *co, void (*fn)(void *), void *arg)
{
    kc_job_t *j = co ? kc__job_of(co->task) : NULL;

    if (j)
        kc__job_shield(j);
    fn(arg);
    if (j)
        kc__job_unshield(j);
    kc__wait_queue_lock(l);
    open_for_all(l, DONE);
}

void kc_once(kc_once_t *o, void (*fn)(void *), void *arg)
{
    kc_wait_queue_t *l = queue_of(o, "kc_once");
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);
    kc_wait_t w;

    if (kc_likely(kc__wait_queue_look(l) & DONE))
        return;
    if (!fn)
        kc__usage("kc_once", "the function is NULL");
    uint64_t self = kc__owner_self(t, co), own = kc__wait_queue_lock(l);
    if (own == 0) {
        kc__wait_queue_unlock(l, self | RUNS);
        run_once(l, co, fn, arg);
    } else if (own & DONE) {
        kc__wait_queue_unlock(l, own);
    } else if ((own & ~KC_OWNER_BITS) == self) {
        kc__usage("kc_once", "called by its own function " KC_RULE("Y5"));
    } else {
        kc__wait_begin_uncancellable(&w, KC_WAIT_ONCE, o);
        (void)kc__wait_queue_wait(l, own, &w, KC_FOREVER);
    }
}

uint64_t kc__once_runner(const void *o)
{
    return kc__wait_queue_look(o) & ~KC_OWNER_BITS;
}

/* ---- barrier -------------------------------------------------------------------------------- */

typedef struct {
    kc_wait_t wait;
    bool met; /* L  the others count on it: it has come, whatever has ended its wait */
} meeting_t;

/* The last has come. All in queue go on; those whose wait has ended just now have come, too. */
static void meet(kc_wait_queue_t *l)
{
    kc_link_t *taken = NULL, **end = &taken;

    KC_CHECK(kc__wait_queue_is_locked(l));
    while (l->first) {
        kc_wait_t *w = kc__wait_of(l->first);
        kc__wait_unlink(&l->first, &w->link);
        kc_container_of(w, meeting_t, wait)->met = true;
        if (kc__wait_claim_own(w, 0))
            end = kc__wait_append(end, w);
    }
    kc__wait_queue_unlock(l, 0);
    kc__wait_wake_all(taken);
}

KC_AFTER_SWITCH int kc_barrier_wait(kc_barrier_t *b)
{
    kc_wait_queue_t *l = (kc_wait_queue_t *)b;
    meeting_t m;

    if (!b || b->members == 0)
        return -EINVAL;
    m.met = false;
    int rc = kc__wait_begin(&m.wait, KC_WAIT_BARRIER, b);
    if (rc != 0)
        return rc;
    uint64_t own = kc__wait_queue_lock(l) + ONE;
    if (own == b->members * ONE) {
        meet(l);
        return 1;
    }
    rc = kc__wait_queue_wait(l, own, &m.wait, KC_FOREVER);
    if (rc == 0)
        return 0;
    own = kc__wait_queue_leave(l, &m.wait);
    kc__wait_queue_unlock(l, m.met ? own : own - ONE);
    return m.met ? 0 : kc__wait_queue_gave_up(&m.wait, rc);
}
