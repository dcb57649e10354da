/* SPDX-License-Identifier: MIT */
/*
 * tsan.h - tells ThreadSanitizer what our atomic operations order.
 *
 * WHAT     A program built with -fsanitize=thread may use a library that was not. ThreadSanitizer
 *          then sees what the program reads and writes, and the calls of malloc, memcpy and
 *          pthread_create that it stands in for, but not our atomic operations: without these calls
 *          everything that two jobs hand to each other would look like a race.
 *
 *          The entry points are weak references, looked at through a pointer that the linker sets:
 *          where there is no ThreadSanitizer each call below is one comparison with a constant and
 *          a branch. In a library that is built with it they are nothing: it sees for itself.
 *
 * SHAPE    What one thread writes and another reads goes through one of these:
 *
 *          a job            launch -> start; end -> its joiners, its parent and the pump of its
 *                           root; cancel -> the jobs it reaches        the address of the job
 *          an inbox         send -> take: wake-ups, hops, messages       of the inbox
 *          a plain thread   wake -> its wait                           of the wait
 *          a wait queue     step, unlock -> step, lock, look: locks and meeting points
 *          a lock           unlock -> lock: channels, signals           of the lock
 *          a bit, a token   emit, cancel -> a look at it                of the signal or token
 *          a coroutine      create -> start, unpark -> park             of the coroutine
 *          a stack          end -> start of the next coroutine there    of the stack
 *
 *          On one thread there is nothing to tell: every switch orders (coro/sanitize.h).
 *
 * RULES    R1 release comes before the atomic operation that others can see, acquire after the one
 *             that has seen it.
 *          R2 more order than there is hides races of the program; so it is told for what is handed
 *             on, and not for each word that is locked in passing.
 *          R3 what only the library touches is not shown: it may change hands without being told
 *             here (kc__tsan_hide).
 *
 * WHY NOT  In atomic.h, for each operation: two instructions for each, a dozen in a launch.
 */
#ifndef KC_BASE_TSAN_H
#define KC_BASE_TSAN_H

#include "base/base.h"

#if defined(__SANITIZE_THREAD__) || defined(KC_MODEL)
#define KC_TSAN_UNTOLD
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KC_TSAN_UNTOLD
#endif
#endif

#ifdef KC_TSAN_UNTOLD

KC_INLINE bool kc__tsan(void)
{
    return false;
}

KC_INLINE void kc__tsan_acquire(const void *at)
{
    (void)at;
}

KC_INLINE void kc__tsan_release(const void *at)
{
    (void)at;
}

KC_INLINE void kc__tsan_hide(void)
{
}

KC_INLINE void kc__tsan_show(void)
{
}

#else

/* NULL: there is no ThreadSanitizer. */
extern KC_HIDDEN void (*const kc__tsan_acquire_at)(void *at);

KC_COLD void kc__tsan_tell_acquire(const void *at);
KC_COLD void kc__tsan_tell_release(const void *at);
KC_COLD void kc__tsan_tell_hide(void);
KC_COLD void kc__tsan_tell_show(void);

/* The program is watched, and the library does not tell by itself. */
KC_INLINE bool kc__tsan(void)
{
    return kc__tsan_acquire_at != NULL;
}

/* All that was done before a release at this address comes before what follows. */
KC_INLINE void kc__tsan_acquire(const void *at)
{
    if (kc__tsan())
        kc__tsan_tell_acquire(at);
}

KC_INLINE void kc__tsan_release(const void *at)
{
    if (kc__tsan())
        kc__tsan_tell_release(at);
}

/* From here to kc__tsan_show the calls of malloc, free and memcpy that the caller makes are none of
 * ThreadSanitizer's business. Nothing suspends in between. */
KC_INLINE void kc__tsan_hide(void)
{
    if (kc__tsan())
        kc__tsan_tell_hide();
}

KC_INLINE void kc__tsan_show(void)
{
    if (kc__tsan())
        kc__tsan_tell_show();
}

#endif
#endif
