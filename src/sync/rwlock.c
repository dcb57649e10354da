/* SPDX-License-Identifier: MIT */
/*
 * rwlock.c - many readers, or one writer.
 *
 * SHAPE    word   0                      free, and nobody in queue
 *                 readers * ONE_READER   so many read
 *                 owner | WRITER         one writes
 *
 *          unlock of the last --> the first in queue, and if that reads, all who read up to the
 *          next writer. So neither readers nor writers starve.
 *
 * RULES    R1 nobody new gets in while somebody waits in the queue.
 */
#include "job/body.h"
#include "job/held.h"
#include "sync/wait_queue.h"

#include <kcoro/sync.h>

#include <errno.h>

#define WRITER 4ull
#define ONE_READER 16ull

_Static_assert(sizeof(kc_wait_queue_t) == offsetof(kc_rwlock_t, name), "it begins with its queue");

static kc_wait_queue_t *queue_of(kc_rwlock_t *l, const char *call)
{
    if (kc_unlikely(!l))
        kc__usage(call, "the lock is NULL");
    return (kc_wait_queue_t *)l;
}

/* With the lock of the queue: lets in whoever may, from the first on. They are claimed, and linked
 * by next. own: the state, which becomes the new one. */
static kc_link_t *let_in(kc_wait_queue_t *l, uint64_t *own)
{
    kc_link_t *in = NULL, **end = &in;

    KC_CHECK(kc__wait_queue_is_locked(l));
    while (l->first && !(*own & WRITER)) {
        kc_wait_t *w = kc__wait_of(l->first);
        bool writes = w->kind == KC_WAIT_WRITE;
        if (writes && *own > 0)
            break;
        kc__wait_unlink(&l->first, &w->link);
        if (!kc__wait_claim_own(w, 0))
            continue;
        *own =
            writes ? kc_container_of(w, kc_owner_wait_t, wait)->owner | WRITER : *own + ONE_READER;
        end = kc__wait_append(end, w);
    }
    return in;
}

static void unlock_and_wake(kc_wait_queue_t *l, uint64_t own)
{
    kc_link_t *in = let_in(l, &own);

    KC_CHECK(own || !l->first); /* nobody waits for what is free */
    kc__wait_queue_unlock(l, own);
    kc__wait_wake_all(in);
}

/* The caller has it to write. */
static bool is_writer(uint64_t word, uint64_t self)
{
    return (word & WRITER) && (word & ~KC_OWNER_BITS) == self;
}

/* Takes it in one step, if it is free for this. */
static bool try(kc_wait_queue_t *l, kc_wait_kind_t kind, uint64_t self)
{
    bool write = kind == KC_WAIT_WRITE;
    uint64_t seen = kc__wait_queue_settled(l);

    while (write ? seen == 0 : !(seen & (KC_WAIT_QUEUE_WAITS | WRITER))) {
        if (kc__wait_queue_step(l, &seen, write ? self | WRITER : seen + ONE_READER))
            return true;
        seen = kc__wait_queue_settled(l);
    }
    return false;
}

static KC_NOINLINE KC_AFTER_SWITCH int wait_for(kc_wait_queue_t *l, kc_owner_wait_t *w,
                                                kc_time_t deadline)
{
    bool write = w->wait.kind == KC_WAIT_WRITE;
    uint64_t own = kc__wait_queue_lock(l);

    KC_CHECK(own || !l->first); /* nobody waits for what is free */
    if (is_writer(own, w->owner)) {
        kc__wait_queue_unlock(l, own);
        return -EDEADLK;
    }
    if (!l->first && (write ? own == 0 : !(own & WRITER))) {
        kc__wait_queue_unlock(l, write ? w->owner | WRITER : own + ONE_READER);
        return 0;
    }
    int rc = kc__wait_queue_wait(l, own, &w->wait, deadline);
    if (rc != 0)
        unlock_and_wake(l,
                        kc__wait_queue_leave(l, &w->wait)); /* those behind it may be free to go */
    return rc;
}

static int lock(kc_rwlock_t *l, kc_wait_kind_t kind, kc_time_t deadline)
{
    return kc__owner_lock((kc_wait_queue_t *)l, kind, deadline, try, wait_for);
}

static bool trylock(kc_wait_queue_t *l, kc_wait_kind_t kind)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);

    if (!try(l, kind, kc__owner_self(t, co)))
        return false;
    kc__owner_count(co, 1, kind, l);
    return true;
}

int kc_rwlock_rdlock(kc_rwlock_t *l)
{
    return lock(l, KC_WAIT_READ, KC_FOREVER);
}

int kc_rwlock_rdlock_until(kc_rwlock_t *l, kc_time_t deadline)
{
    return lock(l, KC_WAIT_READ, deadline);
}

int kc_rwlock_wrlock(kc_rwlock_t *l)
{
    return lock(l, KC_WAIT_WRITE, KC_FOREVER);
}

int kc_rwlock_wrlock_until(kc_rwlock_t *l, kc_time_t deadline)
{
    return lock(l, KC_WAIT_WRITE, deadline);
}

bool kc_rwlock_try_rdlock(kc_rwlock_t *l)
{
    return trylock(queue_of(l, "kc_rwlock_try_rdlock"), KC_WAIT_READ);
}

bool kc_rwlock_tryrdlock(kc_rwlock_t *l)
{
    return trylock(queue_of(l, "kc_rwlock_tryrdlock"), KC_WAIT_READ);
}

bool kc_rwlock_try_wrlock(kc_rwlock_t *l)
{
    return trylock(queue_of(l, "kc_rwlock_try_wrlock"), KC_WAIT_WRITE);
}

bool kc_rwlock_trywrlock(kc_rwlock_t *l)
{
    return trylock(queue_of(l, "kc_rwlock_trywrlock"), KC_WAIT_WRITE);
}

void kc_rwlock_rdunlock(kc_rwlock_t *lock)
{
    kc_wait_queue_t *l = queue_of(lock, "kc_rwlock_rdunlock");
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);
    uint64_t seen = kc__wait_queue_settled(l);

    if (kc_unlikely(co && kc__held_count(&kc__job_own(co)->task) == 0))
        kc__usage("kc_rwlock_rdunlock", "the caller does not have it to read " KC_RULE("Y3"));
    for (;;) {
        if ((seen & WRITER) || seen < ONE_READER)
            kc__usage("kc_rwlock_rdunlock", "nobody has it to read " KC_RULE("Y3"));
        if ((seen & KC_WAIT_QUEUE_WAITS) && seen < 2 * ONE_READER) {
            unlock_and_wake(l, kc__wait_queue_lock(l) - ONE_READER);
            break;
        }
        if (kc__wait_queue_step(l, &seen, seen - ONE_READER))
            break;
        seen = kc__wait_queue_settled(l);
    }
    kc__owner_count(co, -1, KC_WAIT_READ, l);
}

void kc_rwlock_wrunlock(kc_rwlock_t *lock)
{
    kc_wait_queue_t *l = queue_of(lock, "kc_rwlock_wrunlock");
    kc_thread_t *t = kc__thread();
    kcoro_t *co = kc__task_coroutine(t->current);
    uint64_t self = kc__owner_self(t, co), seen = self | WRITER;

    if (kc_unlikely(!is_writer(kc_load_relaxed(&l->word), self)))
        kc__usage("kc_rwlock_wrunlock", "the caller does not have it to write " KC_RULE("Y3"));
    if (kc_likely(kc__wait_queue_step(l, &seen, 0))) {
        kc__owner_count(co, -1, KC_WAIT_WRITE, l);
        return;
    }
    kc__owner_count(co, -1, KC_WAIT_WRITE, l);
    kc__wait_queue_lock(l);
    unlock_and_wake(l, 0);
}

uint64_t kc__rwlock_writer(const void *lock)
{
    uint64_t word = kc__wait_queue_look(lock);

    return word & WRITER ? word & ~KC_OWNER_BITS : 0;
}

uint64_t kc__rwlock_readers(const void *lock)
{
    uint64_t word = kc__wait_queue_look(lock);

    return word & WRITER ? 0 : word / ONE_READER;
}
