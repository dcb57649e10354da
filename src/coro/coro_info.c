/* SPDX-License-Identifier: MIT */
/*
 * coro_info.c - what may be asked of a coroutine: its state, number, name, how much of its stack.
 *
 * PROGRESS kcoro_state: lock-free, from any thread. A name, and how much of a stack was used while
 *          it is there: the owner's thread.
 */
#include "coro/coro.h"

#include <string.h>

kcoro_t *kcoro_current(void)
{
    kc_thread_t *t = kc__thread();

    return t->current != t->main_co || t->has_main ? t->current : NULL;
}

kcoro_state_t kcoro_state(const kcoro_t *co)
{
    uint32_t state = kc_load_relaxed(&kc__coro_live("kcoro_state", co)->state);

    return state == KC_CORO_CALLING ? KCORO_SUSPENDED : (kcoro_state_t)state;
}

uint64_t kcoro_id(const kcoro_t *co)
{
    return kc__coro_live("kcoro_id", co)->id;
}

void kcoro_set_name(kcoro_t *co, const char *name)
{
    kc__coro_live("kcoro_set_name", co);

    size_t length = name ? strnlen(name, sizeof co->name - 1) : 0;
    kc__tsan_hide();
    if (length > 0)
        memcpy(co->name, name, length);
    kc__tsan_show();
    co->name[length] = 0;
    if (kc__tools)
        kc__tools_name(&co->tool, co->name);
}

const char *kcoro_name(const kcoro_t *co)
{
    return kc__coro_live("kcoro_name", co)->name;
}

size_t kcoro_stack_used(const kcoro_t *co)
{
    uint32_t state = kc_load_relaxed(&kc__coro_live("kcoro_stack_used", co)->state);

    if ((kc_load_relaxed(&co->block.flags) & KC_CORO_ROOT) || state == KCORO_CREATED)
        return 0;
    return co->stack ? kc__stack_used(co->stack) : (uintptr_t)co->sp;
}
