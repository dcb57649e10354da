/* SPDX-License-Identifier: MIT */
/*
 * describe.c - jobs and what they wait for, in words.
 *
 * WHAT     A dump runs beside what it looks at. A lock or a channel that somebody waited for a
 *          moment ago may be freed by now, and so may its name: they are the user's memory. So the
 *          kernel is asked to read them (kc__os_peek), which tells if there is nothing. Control
 *          blocks stay readable.
 */
#include "flow/describe.h"

#include "base/os.h"
#include "coro/backtrace.h"
#include "flow/chan.h"
#include "flow/line.h"

#include <kcoro/sync.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 32 };

void kc__text_add(kc_text_t *t, const char *format, ...)
{
    size_t used = strlen(t->text);
    va_list args;

    va_start(args, format);
    vsnprintf(t->text + used, sizeof t->text - used, format, args);
    va_end(args);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Appends a name in quotes, if there is one: of at most NAME - 1 bytes, at any address. */
static void add_name_at(kc_text_t *t, const char *from)
{
    size_t page = kc__os_page_size(), here = page - (uintptr_t)from % page;
    char name[NAME] = "";

    here = here < NAME - 1 ? here : NAME - 1;
    if (!from || !kc__os_peek(from, here, name))
        return;
    if (strnlen(name, here) == here && here < NAME - 1)
        (void)kc__os_peek(from + here, NAME - 1 - here,
                          name + here); /* it goes on behind a page */
    for (char *at = name; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = '?';
    if (name[0])
        kc__text_add(t, " \"%s\"", name);
}

/* What it has beyond its block may be freed meanwhile. */
static void add_chan_name(kc_text_t *t, const kc_chan_t *c)
{
    const kc_chan_more_t *more = NULL;

    if (kc__os_peek(&c->more, sizeof(void *), &more) && more)
        add_name_at(t, more->name);
}

const char *kc__job_kind(const kc_job_t *j)
{
    uint32_t flags = kc__job_flags(j);

    return flags & KC_JOB_SCOPE     ? "scope"
           : flags & KC_JOB_GROUP   ? "group"
           : flags & KC_JOB_PROMISE ? "promise"
                                    : "job";
}

void kc__text_add_job(kc_text_t *t, const kc_job_t *j)
{
    if (!kc__block_is(j) || kc_load_relaxed(&j->task.block.magic) != KC_TASK_MAGIC) {
        kc__text_add(t, "a job that has ended");
        return;
    }
    const kc_job_ext_t *ext = kc__job_ext_of(j);
    kc__text_add(t, "%s %llu", kc__job_kind(j), (unsigned long long)kc__job_number(j));
    if (ext)
        add_name_at(t, ext->name);
}

void kc__text_add_owner(kc_text_t *t, uint64_t owner)
{
    union {
        kcoro_t co;
        char room[KC_BLOCK_SIZE];
    } copy;
    const void *at = (const void *)(uintptr_t)owner;

    if (!kc__block_is(at) || !kc__coro_peek(NULL, at, KC_BLOCK_SIZE, &copy) ||
        kc_load_relaxed(&copy.co.block.magic) != KC_CORO_MAGIC) {
        kc__text_add(t, "a plain thread");
        return;
    }
    bool body = kc_load_relaxed(&copy.co.block.flags) & KC_CORO_TASK;
    kc__text_add(t, "%s %llu", body ? "job" : "coroutine", (unsigned long long)copy.co.id);
    if (copy.co.name[0])
        kc__text_add(t, " \"%.31s\"", copy.co.name);
}

/* ---- what is waited for --------------------------------------------------------------------- */

/* As most objects of kcoro/sync.h begin. */
struct lock {
    uint64_t word;
    void *line;
    const char *name;
};

uint64_t kc__wait_owner(kc_wait_kind_t kind, const void *object)
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

void kc__text_add_lock(kc_text_t *t, kc_wait_kind_t kind, const char *name, const void *lock)
{
    kc__text_add(t, "%s", kc__wait_name(kind));
    add_name_at(t, name);
    kc__text_add(t, " at %p", lock);
}

static void add_lock_and_owner(kc_text_t *t, kc_wait_kind_t kind, const void *object)
{
    size_t size = kind == KC_WAIT_ONCE ? offsetof(struct lock, name) : sizeof(struct lock);
    struct lock lock = { 0 };

    (void)kc__os_peek(object, size, &lock);
    kc__text_add_lock(t, kind, lock.name, object);
    uint64_t owner = kc__wait_owner(kind, &lock), readers = 0;
    if (owner) {
        kc__text_add(t, kind == KC_WAIT_ONCE ? ", run by " : ", owned by ");
        kc__text_add_owner(t, owner);
    } else if (kind == KC_WAIT_WRITE && (readers = kc__rwlock_readers(&lock)) > 0) {
        kc__text_add(t, ", held by %llu reader%s", (unsigned long long)readers,
                     readers == 1 ? "" : "s");
    }
}

bool kc__wait_has_object(kc_wait_kind_t kind)
{
    return kind == KC_WAIT_JOIN || (kind >= KC_WAIT_MUTEX && kind != KC_WAIT_SELECT);
}

void kc__text_add_wait(kc_text_t *t, kc_wait_kind_t kind, const void *object)
{
    if (kind == KC_WAIT_MUTEX || kind == KC_WAIT_READ || kind == KC_WAIT_WRITE ||
        kind == KC_WAIT_ONCE) {
        add_lock_and_owner(t, kind, object);
        return;
    }
    kc__text_add(t, "%s", kc__wait_name(kind));
    switch (kind) {
    case KC_WAIT_SEND:
    case KC_WAIT_RECV:
        add_chan_name(t, object);
        kc__text_add(t, " at %p", object);
        break;
    case KC_WAIT_JOIN:
        kc__text_add(t, " of ");
        kc__text_add_job(t, object);
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
