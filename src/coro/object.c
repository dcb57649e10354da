/* SPDX-License-Identifier: MIT */
/*
 * object.c - blocks for what users have handles of.
 */
#include "coro/object.h"

#include "coro/coro.h"

#include <stdio.h>
#include <string.h>

void kc__object_not_live(const char *call, const char *kind, const char *rule, const void *handle)
{
    char line[128];
    const char *what = !handle                     ? "the %s is NULL " KC_RULE("%s")
                       : kc__block_is_free(handle) ? "the %s has been freed " KC_RULE("%s")
                                                   : "the pointer is not a %s " KC_RULE("%s");

    snprintf(line, sizeof line, what, kind, rule);
    kc__usage(call, line);
}

kc_block_t *kc__object_get(uint32_t magic)
{
    kc_thread_t *t = kc__thread_make();
    kc_block_t *block = t ? kc__block_get(&t->objects) : NULL;

    if (!block)
        return NULL;
    memset(block + 1, 0, KC_BLOCK_SIZE - sizeof *block);
    kc_store_relaxed(&block->flags, 0);
    block->link.next = NULL;
    kc_store_relaxed(&block->magic, magic);
    return block;
}

void kc__object_put(kc_block_t *block)
{
    kc_thread_t *t = kc__thread_make();

    if (t)
        kc__block_put(&t->objects, block);
    else
        kc_store_relaxed(&block->magic, KC_BLOCK_FREE); /* nobody keeps it: it is lost */
}

kc_ticket_t *kc__ticket_get(uint32_t magic, void *owner, uint64_t *number)
{
    kc_block_t *block = kc__object_get(magic);

    if (!block)
        return NULL;
    kc_ticket_t *ticket = kc_container_of(block, kc_ticket_t, block);
    ticket->owner = owner;
    *number = kc__thread_new_id(kc__thread());
    kc_store_relaxed(kc__block_number(block), *number);
    return ticket;
}

bool kc__ticket_is(const kc_ticket_t *ticket, uint32_t magic, uint64_t number)
{
    return kc__object_is(ticket, magic) &&
           kc_load_relaxed(kc__block_number(&ticket->block)) == number;
}

bool kc__ticket_put(kc_ticket_t *ticket, uint32_t magic, uint64_t number)
{
    /* Of two copies that are given up at a time, one takes the number. */
    if (!kc__object_is(ticket, magic) ||
        !kc_cas_relaxed(kc__block_number(&ticket->block), &number, 0))
        return false;
    kc__object_put(&ticket->block);
    return true;
}
