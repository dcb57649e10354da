/* SPDX-License-Identifier: MIT */
/*
 * held.c - which locks a body holds.
 *
 * WHAT     A body counts its locks (task.held), which costs next to nothing; it keeps no list of
 *          them, as a lock has no room for a link. But where cycles are looked for (virtual time,
 *          KC_SCHED_FIND_DEADLOCKS) KC_HELD_NAMED is set in the count of each body that runs: then
 *          each lock is put into a table, and reports can name it. Without memory for that, locks
 *          are only counted.
 */
#include "job/held.h"

#include "base/lock.h"
#include "job/describe.h"

enum { BUCKETS = 512 };

typedef struct held {
    struct held *next;
    const kcoro_t *co;
    kc_wait_kind_t kind;
    const void *lock;
    const char *name; /* the lock may lie on a stack that is gone when it is printed */
} held_t;

static struct {
    kc_lock_t lock;
    held_t *bucket[BUCKETS]; /* L  newest first */
} table;

static held_t **bucket_of(const kcoro_t *co)
{
    return &table.bucket[(uintptr_t)co / KC_BLOCK_SIZE % BUCKETS];
}

static void note(const kcoro_t *co, kc_wait_kind_t kind, const void *lock)
{
    held_t *h = kc__alloc(sizeof *h), **head = bucket_of(co);

    if (!h)
        return;
    *h = (held_t){
        .co = co, .kind = kind, .lock = lock, .name = kc__wait_objects.name(kind, lock)
    };
    kc__lock(&table.lock);
    h->next = *head;
    *head = h;
    kc__unlock(&table.lock);
}

static void forget(const kcoro_t *co, const void *lock)
{
    kc__lock(&table.lock);
    held_t **link = bucket_of(co), *h;
    for (h = *link; h && (h->co != co || h->lock != lock); h = *link)
        link = &h->next;
    if (h)
        *link = h->next;
    kc__unlock(&table.lock);
    kc__free(h);
}

void kc__held_change(kcoro_t *co, kc_wait_kind_t kind, const void *lock, int more)
{
    uint16_t *held = &kc__job_own(co)->task.held;

    if (!(*held & KC_HELD_NAMED))
        return; /* too many: nobody counts any more */
    if ((*held & ~(unsigned)KC_HELD_NAMED) != KC_HELD_MANY)
        *held = (uint16_t)(*held + more);
    if (more > 0)
        note(co, kind, lock);
    else
        forget(co, lock);
}

bool kc__text_add_held(kc_text_t *t, const kcoro_t *co)
{
    bool any = false;

    kc__lock(&table.lock);
    for (const held_t *h = *bucket_of(co); h; h = h->next) {
        if (h->co != co)
            continue;
        kc__text_add(t, any ? ", " : "");
        kc__text_add_lock(t, h->kind, h->name, h->lock);
        any = true;
    }
    kc__unlock(&table.lock);
    return any;
}
