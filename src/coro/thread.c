/* SPDX-License-Identifier: MIT */
/*
 * thread.c - what the library keeps for each thread that has used it.
 *
 * Made at a thread's first use of the library, given back by a thread-specific-data destructor
 * when the thread ends. Coroutines that a thread leaves behind suspended can never run again
 * (nobody else owns them); their memory stays. A scheduler that it leaves behind would go on
 * without its main thread, and nobody may destroy it: that is bad use.
 *
 * ORDER    id  site            operation     pairs with   carries; what breaks if weaker
 *          -   serials, ids    add_relaxed   itself       a unique number, no other data
 */
#define _GNU_SOURCE
#include "coro/thread.h"

#include "base/os.h"
#include "coro/coro.h"
#include "coro/overflow.h"
#include "coro/switch.h"

#include <pthread.h>

enum { ID_BATCH = 256 };

/* What a thread without a structure sees; see thread.h. Nobody writes to either. */
static kcoro_t nobody_main;
static kc_thread_t nobody = { .current = &nobody_main, .main_co = &nobody_main };

/* Used: on x86-64 only assembly refers to it. */
__thread kc_thread_t *kc__thread_self __attribute__((used)) = &nobody;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

static KC_ATOMIC(uint32_t) last_serial;
static KC_ATOMIC(uint64_t) last_id;

#ifndef __x86_64__

KC_NOINLINE kc_thread_t *kc__thread(void)
{
    __asm__ volatile("" ::: "memory"); /* the call must not be folded into an earlier one */
    return kc__thread_self;
}

#endif

KC_NOINLINE const void *kc__thread_mark(void)
{
    __asm__ volatile("" ::: "memory"); /* as above, for the address itself */
    return &kc__thread_self;
}

static void thread_free(kc_thread_t *t)
{
    if (t->main_co)
        kc__block_put(&t->blocks, &t->main_co->block);
    kc__stack_cache_drain(&t->stacks);
    kc__block_cache_drain(&t->blocks);
    kc__block_cache_drain(&t->jobs);
    kc__block_cache_drain(&t->objects);
    kc__overflow_thread_end(t);
    kc__free(t);
}

static void thread_end(void *arg)
{
    kc_thread_t *t = arg;

    if (t->current != t->main_co)
        kc__die("a thread ended inside %s " KC_RULE("C4"), kc__coro_label(t->current).text);
    if (t->worker && !t->ends) {
        t->ends = true; /* another destructor may destroy it yet: we come again after them */
        if (pthread_setspecific(key, t) == 0)
            return;
    }
    if (t->worker)
        kc__die("a thread ended that has made a scheduler: "
                "kc_sched_destroy was not called " KC_RULE("S10"));
    kc__thread_self = &nobody;
    thread_free(t);
}

static void library_init(void)
{
    kc__tools_find();
    kc__switch_tune();
    have_key = pthread_key_create(&key, thread_end) == 0;
    if (kc__os_debug())
        (void)kcoro_report_overflow();
}

static void find_own_stack(kc_thread_t *t)
{
    pthread_attr_t attr;

    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    pthread_attr_getstack(&attr, &t->low, &t->size);
    pthread_attr_destroy(&attr);
}

kc_thread_t *kc__thread_new(void)
{
    pthread_once(&once, library_init);
    if (!have_key)
        return NULL;
    kc_thread_t *t = kc__alloc(sizeof *t);
    if (!t)
        return NULL;
    t->jobs.kind = KC_BLOCK_JOB;
    t->objects.kind = KC_BLOCK_OBJECT;
    kc_block_t *block = kc__block_get(&t->blocks);
    if (!block || !kc__overflow_thread(t) || pthread_setspecific(key, t) != 0) {
        if (block)
            kc__block_put(&t->blocks, block);
        thread_free(t);
        return NULL;
    }
    t->serial = kc_add_relaxed(&last_serial, 1) + 1;
    t->create_error = "";
    if (kc__tools & KC_TOOL_ASAN)
        find_own_stack(t);
    kc__coro_make_main(t, block);
    kc__thread_self = t;
    return t;
}

void kc__thread_more_ids(kc_thread_t *t)
{
    t->next_id = kc_add_relaxed(&last_id, ID_BATCH) + 1;
    t->end_id = t->next_id + ID_BATCH;
}
