/* SPDX-License-Identifier: MIT */
/*
 * world.c - what the sources call in every model that has waits: bad use, the rings.
 *
 * WHAT     Linked to the models of jobs, lines and channels. The head of a ring is plain data, so
 *          two who are inside at a time are a data race: even who only adds at the end writes it.
 */
#include "coro/object.h"
#include "job/body.h"
#include "model.h"

#include <errno.h>

void kc__usage(const char *call, const char *what)
{
    kc__die("%s: %s", call, what);
}

void kc__object_not_live(const char *call, const char *kind, const char *rule, const void *handle)
{
    (void)rule, (void)handle;
    kc__die("%s: not a %s", call, kind);
}

int kc__job_cancelled_here(kcoro_t *co)
{
    (void)co;
    return -ECANCELED;
}

void kc__wait_link(kc_link_t **ring, kc_link_t *l)
{
    kc_link_t *first = model_read(ring);

    l->next = first ? first : l;
    l->prev = first ? first->prev : l;
    l->prev->next = l->next->prev = l;
    model_write(ring, first ? first : l);
}

void kc__wait_unlink(kc_link_t **ring, kc_link_t *l)
{
    kc_link_t *first = model_read(ring);

    if (!l->next)
        return;
    l->prev->next = l->next;
    l->next->prev = l->prev;
    model_write(ring, l->next == l ? NULL : first == l ? l->next : first);
    l->next = NULL;
}
