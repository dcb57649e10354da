/* SPDX-License-Identifier: MIT */
/*
 * describe.c - jobs and what they wait for, in words.
 *
 * WHAT     A dump runs while the jobs that it prints run. A lock or a channel that a job waited for
 *          a moment ago may be freed by now, and so may its name: they are the user's memory. So
 *          the kernel is asked to read them (kc__os_peek), which fails where nothing is mapped.
 *          Control blocks stay readable.
 */
#include "job/describe.h"

#include "base/os.h"
#include "coro/backtrace.h"

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

void kc__text_add_name(kc_text_t *t, const char *from)
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
        kc__text_add_name(t, ext->name);
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

bool kc__wait_has_object(kc_wait_kind_t kind)
{
    return kind == KC_WAIT_JOIN || (kind >= KC_WAIT_MUTEX && kind != KC_WAIT_SELECT);
}

void kc__text_add_wait(kc_text_t *t, kc_wait_kind_t kind, const void *object)
{
    kc__text_add(t, "%s", kc__wait_name(kind));
    if (kind == KC_WAIT_JOIN) {
        kc__text_add(t, " of ");
        kc__text_add_job(t, object);
    } else if (kc__wait_has_object(kind)) {
        kc__wait_objects.add(t, kind, object);
    }
}

void kc__text_add_lock(kc_text_t *t, kc_wait_kind_t kind, const char *name, const void *lock)
{
    kc__text_add(t, "%s", kc__wait_name(kind));
    kc__text_add_name(t, name);
    kc__text_add(t, " at %p", lock);
}
