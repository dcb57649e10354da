/* SPDX-License-Identifier: MIT */
/*
 * thread.h - what the library keeps for each thread that has used it.
 */
#ifndef KC_CORO_THREAD_H
#define KC_CORO_THREAD_H

#include "base/block.h"
#include "coro/sanitize.h"
#include "coro/stack.h"

#include <kcoro/coro.h>

typedef struct kc_thread {
    kcoro_t *current;         /* O  runs now; main_co while the thread is on its own stack       */
    kcoro_t *main_co;         /* I  stands for the thread's own stack                         */
    const void *left_from;    /* O  where the last to wait would have returned, see switch.h   */
    uint32_t serial;          /* I  from 1, never reused: who owns a coroutine                */
    bool has_main;            /* O  kcoro_create_main was called: main_co is visible             */
    bool ends;                /* O  its destructors run                                       */
    const char *create_error; /* O                                                            */
    kc_no_stack_t no_stack;   /* O  what was missing, when there was no coroutine to be had   */
    uint64_t next_id, end_id; /* O  numbers that this thread may give out                     */
    void *low;                /* I  the thread's own stack, known only if a tool asks for it  */
    size_t size;              /* I                                                            */
    void *signal_stack;       /* O  NULL: none of ours                                        */
    struct kc_worker *worker; /* O  the scheduler layer's; NULL: no scheduler's thread        */
    kc_block_cache_t blocks;  /* O  for coroutines                                            */
    kc_block_cache_t jobs;    /* O  for jobs: the scheduler layer's                           */
    kc_block_cache_t objects; /* O  for what else users have handles of                       */
    kc_stack_cache_t stacks;  /* O                                                            */
} kc_thread_t;

_Static_assert(offsetof(kc_thread_t, left_from) == 16, "as switch_x86_64.S");

enum { KC_THREAD_MARK_ALIGN = 16 };

/* Eight bytes of static thread-local storage: cheap to reach, and few enough for dlopen. */
extern __thread kc_thread_t *kc__thread_self __attribute__((
    tls_model("initial-exec"), visibility("hidden"), aligned(KC_THREAD_MARK_ALIGN)));

/*
 * This thread's structure. Never NULL: a thread that has none yet gets one that all such threads
 * share and nobody writes to, whose serial is 0 and whose current has no resumer.
 *
 * Never keep the result over a switch, and never read kc__thread_self itself: compilers keep the
 * address of a thread-local variable over calls, so after a coroutine has moved to another thread
 * they would find the old thread's. This one cannot be folded: it is a volatile instruction, or on
 * the other architectures a call that is not inlined.
 */
#if defined(__x86_64__)

KC_INLINE kc_thread_t *kc__thread(void)
{
    kc_thread_t *t;

    __asm__ volatile("movq kc__thread_self@gottpoff(%%rip), %0\n\t"
                     "movq %%fs:(%0), %0"
                     : "=r"(t)
                     :
                     : "memory");
    return t;
}

#else

kc_thread_t *kc__thread(void);

#endif

/* An address that no other thread and no coroutine has, aligned as above: tells threads apart that
 * have no structure. pthread_self is aligned to eight bytes only in some C libraries. */
const void *kc__thread_mark(void);

/* What kc__thread_make does on a thread that has no structure yet. */
kc_thread_t *kc__thread_new(void);

/* The same, and makes one if there is none. NULL: no memory. */
KC_INLINE kc_thread_t *kc__thread_make(void)
{
    kc_thread_t *t = kc__thread();

    return t->serial != 0 ? t : kc__thread_new();
}

/* Gives the thread more numbers. */
KC_COLD void kc__thread_more_ids(kc_thread_t *t);

/* A number that no other job or coroutine has, but for a job's own coroutine. */
KC_INLINE uint64_t kc__thread_new_id(kc_thread_t *t)
{
    if (t->next_id == t->end_id)
        kc__thread_more_ids(t);
    return t->next_id++;
}

#endif
