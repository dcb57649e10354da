/* SPDX-License-Identifier: MIT */
/*
 * thread.c - the thread that a model's sources take for their own, and the numbers it gives out.
 *
 * WHAT     Linked to the models whose sources ask for it. All threads of a model run on one of the
 *          system, so the model says in its enters which one it is. Where it makes no difference,
 *          nobody says so, and all are one.
 */
#include "coro/thread.h"
#include "sched/sched.h"

#include <stdlib.h>

static kc_thread_t any;
__thread kc_thread_t *kc__thread_self __attribute__((used)) = &any;

#ifndef __x86_64__
kc_thread_t *kc__thread(void)
{
    return kc__thread_self;
}
#endif

const void *kc__thread_mark(void)
{
    return &kc__thread_self;
}

kc_thread_t *kc__thread_new(void)
{
    return kc__thread_self;
}

void kc__thread_more_ids(kc_thread_t *t)
{
    t->end_id = UINT64_MAX;
}

KC_ATOMIC(uint64_t) * kc__block_number(const kc_block_t *block)
{
    static KC_ATOMIC(uint64_t) number;

    (void)block;
    return &number;
}

/* No model uses a scheduler that is destroyed. */
void kc__sched_not_live(const char *call)
{
    (void)call;
    abort();
}

/* No model forks. */
void kc__sched_forked(void)
{
    abort();
}
