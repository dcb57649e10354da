/* SPDX-License-Identifier: MIT */
/*
 * locals.c - values of a job that its children inherit.
 *
 * WHAT     A list that is shared by all jobs that have inherited it: so a launch copies one
 *          pointer. To set a key again makes a list without the old value: the entries before that
 *          are copied, those after it are shared. So a list has each key once, however often the
 *          key is set and inherited.
 *
 * ORDER    id        site  operation    pairs with  carries
 *          locals.1  refs  sub_acq_rel  locals.1    all uses before the free
 */
#include "job/locals.h"

#include "base/os.h"
#include "job/end.h"
#include "job/job.h"

#include <errno.h>

static void unref(kc_local_t *list)
{
    while (list && kc_sub_acq_rel(&list->refs, 1) == 1) { /* locals.1 */
        kc_local_t *next = list->next;
        kc__free(list);
        list = next;
    }
}

/* The list of j, with one reference for the caller. */
static kc_local_t *list_of(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);

    if (!ext)
        return NULL;
    kc__job_lock(j);
    kc_local_t *list = ext->locals;
    if (list)
        kc_add_relaxed(&list->refs, 1);
    kc__job_unlock(j);
    return list;
}

/* The list of another job: a scope has the values of the coroutine that has opened it. */
static kc_local_t *list_of_other(kc_job_t *j)
{
    kc_job_t *own = j;

    if (!kc__job_count_up(j))
        return NULL; /* it has ended: nothing can be launched into it */
    while (kc__job_flags(own) & KC_JOB_SCOPE)
        own = own->parent;
    kc_local_t *list = list_of(own);
    kc__job_count_down(j, 0);
    return list;
}

int kc__locals_inherit(kc_job_t *child, kc_job_t *from)
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);
    kc_local_t *list = from ? list_of_other(from) : co ? list_of(kc__job_own(co)) : NULL;

    if (!list)
        return 0;
    kc_job_ext_t *ext = kc__job_ext(child);
    if (!ext) {
        unref(list);
        return -ENOMEM;
    }
    ext->locals = list;
    return 0;
}

void kc__locals_free(kc_job_ext_t *ext)
{
    unref(ext->locals);
}

/* A value that nobody has inherited is changed where it is. */
static bool set_again(kc_job_t *own, kc_job_ext_t *ext, const void *key, void *value)
{
    kc__job_lock(own);
    kc_local_t *local = ext->locals;
    while (local && kc_load_acquire(&local->refs) == 1 && local->key != key) /* locals.1 */
        local = local->next;
    bool found = local && kc_load_acquire(&local->refs) == 1; /* locals.1 */
    if (found)
        local->value = value;
    kc__job_unlock(own);
    return found;
}

static kc_local_t *local_new(const void *key, void *value)
{
    kc_local_t *local = kc__alloc(sizeof *local);

    if (!local)
        return NULL;
    kc_store_relaxed(&local->refs, 1);
    local->key = key;
    local->value = value;
    return local;
}

/* first, which is new, comes before the others of a list that has its key at `old`. False: no
 * memory; first and what was made are freed. */
static bool put_before(kc_local_t *first, const kc_local_t *list, const kc_local_t *old)
{
    kc_local_t *last = first;

    for (; last && list != old; list = list->next) {
        last->next = local_new(list->key, list->value);
        last = last->next;
    }
    if (!last) {
        unref(first);
        return false;
    }
    last->next = old->next;
    if (last->next)
        kc_add_relaxed(&last->next->refs, 1);
    return true;
}

int kc_local_set(const void *key, void *value)
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);

    if (!key || !co)
        return key ? -EPERM : -EINVAL;
    kc_job_t *own = kc__job_own(co);
    kc_job_ext_t *ext = kc__job_ext(own);
    if (ext && set_again(own, ext, key, value))
        return 0;
    kc_local_t *local = ext ? local_new(key, value) : NULL;
    if (!local)
        return -ENOMEM;
    kc_local_t *list = ext->locals, *old = list; /* others look at it, nobody else changes it */
    while (old && old->key != key)
        old = old->next;
    if (old && !put_before(local, list, old))
        return -ENOMEM;
    if (!old)
        local->next = list;
    kc__job_lock(own);
    ext->locals = local;
    kc__job_unlock(own);
    if (old)
        unref(list);
    return 0;
}

void *kc_local_get(const void *key)
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);
    kc_job_ext_t *ext = co ? kc__job_ext_of(kc__job_own(co)) : NULL;

    for (kc_local_t *local = ext ? ext->locals : NULL; local; local = local->next)
        if (local->key == key)
            return local->value;
    return NULL;
}
