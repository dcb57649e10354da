/* SPDX-License-Identifier: MIT */
/*
 * base.h - assertions, attributes and the small arithmetic that every layer uses.
 *
 * Three kinds of check, by whose fault a failure is:
 *   kc__usage  the caller's: one line that names the call and the rule (KC_RULE), then abort. It is
 *              in coro/usage.c.
 *   KC_ASSERT  ours, O(1): always on.
 *   KC_CHECK   ours, O(n): debug builds only. Not in models, which find faults in their own way,
 *              and try the same interleavings in all builds.
 */
#ifndef KC_BASE_BASE_H
#define KC_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define kc_likely(x) __builtin_expect(!!(x), 1)
#define kc_unlikely(x) __builtin_expect(!!(x), 0)
#define kc_container_of(ptr, type, member) ((type *)(((char *)(ptr)) - offsetof(type, member)))

#define KC_CACHE_LINE 64
#define KC_NOINLINE __attribute__((noinline))
#define KC_COLD __attribute__((noinline, cold))
#define KC_INLINE static inline __attribute__((always_inline))
#define KC_HIDDEN                                                                                 \
    __attribute__((visibility("hidden"))) /* of data: it is reached without a table */

/* How a line for people cites a rule. */
#define KC_RULE(id) "(rule " id ", docs/rules.md)"

/* Prints "kcoro: " and the formatted line to stderr in one write, then aborts. */
_Noreturn KC_COLD void kc__die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define KC_ASSERT(cond)                                                                           \
    (kc_likely(cond) ? (void)0                                                                    \
                     : kc__die("internal error: %s, at %s:%d", #cond, __FILE__, __LINE__))

#if defined(NDEBUG) || defined(KC_MODEL)
#define KC_CHECK(cond) ((void)0)
#else
#define KC_CHECK(cond) KC_ASSERT(cond)
#endif

/* Tells the processor that a loop waits for another thread for a moment. */
#if defined(__x86_64__)
#define kc__relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define kc__relax() __asm__ volatile("yield" ::: "memory")
#else
#define kc__relax() __asm__ volatile("" ::: "memory")
#endif

/* The cache line behind the one where p points, for a prefetch. p may be NULL, or point to what is
 * gone: so this is a number, and no pointer that one adds to. */
KC_INLINE const void *kc__next_line(const void *p)
{
    return (const void *)((uintptr_t)p + KC_CACHE_LINE);
}

KC_INLINE size_t kc__align_up(size_t n, size_t to)
{
    return (n + to - 1) & ~(to - 1);
}

#endif
