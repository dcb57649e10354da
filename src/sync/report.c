/* SPDX-License-Identifier: MIT */
/*
 * report.c - what reports say of locks and channels: names, addresses, owners.
 *
 * Locks are the user's memory, and may be gone by now: see job/describe.c.
 */
#include "base/os.h"
#include "job/describe.h"
#include "sync/chan.h"
#include "sync/wait_queue.h"

#include <kcoro/sync.h>

/* As most objects of kcoro/sync.h begin. */
struct lock {
    uint64_t word;
    void *queue;
    const char *name;
};

static uint64_t owner_of(kc_wait_kind_t kind, const void *object)
{
    switch (kind) {
    case KC_WAIT_MUTEX:
        return kc__mutex_owner(object);
    case KC_WAIT_READ:
    case KC_WAIT_WRITE:
        return kc__rwlock_writer(object);
    case KC_WAIT_ONCE:
        return kc__once_runner(object);
    default:
        return 0;
    }
}

static const char *name_of(kc_wait_kind_t kind, const void *lock)
{
    return kind == KC_WAIT_MUTEX ? ((const kc_mutex_t *)lock)->name
                                 : ((const kc_rwlock_t *)lock)->name;
}

static void add_lock(kc_text_t *t, kc_wait_kind_t kind, const void *object)
{
    size_t size = kind == KC_WAIT_ONCE ? offsetof(struct lock, name) : sizeof(struct lock);
    struct lock lock = { 0 };

    (void)kc__os_peek(object, size, &lock);
    kc__text_add_name(t, lock.name);
    kc__text_add(t, " at %p", object);
    uint64_t owner = owner_of(kind, &lock), readers = 0;
    if (owner) {
        kc__text_add(t, kind == KC_WAIT_ONCE ? ", run by " : ", owned by ");
        kc__text_add_owner(t, owner);
    } else if (kind == KC_WAIT_WRITE && (readers = kc__rwlock_readers(&lock)) > 0) {
        kc__text_add(t, ", held by %llu reader%s", (unsigned long long)readers,
                     readers == 1 ? "" : "s");
    }
}

/* What it has beyond its block may be freed meanwhile. */
static void add_chan_name(kc_text_t *t, const kc_chan_t *c)
{
    const kc_chan_more_t *more = NULL;

    if (kc__os_peek(&c->more, sizeof(void *), &more) && more)
        kc__text_add_name(t, more->name);
}

static void add_object(kc_text_t *t, kc_wait_kind_t kind, const void *object)
{
    switch (kind) {
    case KC_WAIT_MUTEX:
    case KC_WAIT_READ:
    case KC_WAIT_WRITE:
    case KC_WAIT_ONCE:
        add_lock(t, kind, object);
        break;
    case KC_WAIT_SEND:
    case KC_WAIT_RECV:
        add_chan_name(t, object);
        kc__text_add(t, " at %p", object);
        break;
    case KC_WAIT_COND:
    case KC_WAIT_SEM:
    case KC_WAIT_LATCH:
    case KC_WAIT_EVENT:
    case KC_WAIT_BARRIER:
    case KC_WAIT_BROADCAST:
        kc__text_add(t, " at %p", object);
        break;
    default:
        break;
    }
}

const struct kc_wait_objects kc__wait_objects = { owner_of, name_of, add_object };
