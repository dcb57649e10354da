/* SPDX-License-Identifier: MIT */
/*
 * held.h - which locks a body holds: for reports, where somebody wants to know.
 */
#ifndef KC_JOB_HELD_H
#define KC_JOB_HELD_H

#include "job/describe.h"

/* How many; KC_HELD_MANY: too many to be counted. */
KC_INLINE uint16_t kc__held_count(const kc_task_t *task)
{
    return task->held & ~(unsigned)KC_HELD_NAMED;
}

/* The body co has one lock more, or less: what kc__owner_count leaves to others. */
KC_COLD void kc__held_change(kcoro_t *co, kc_wait_kind_t kind, const void *lock, int more);

/* Appends them, newest first: a mutex "accounts" at 0x5555, ... False: they are not known. */
bool kc__text_add_held(kc_text_t *t, const kcoro_t *co);

#endif
