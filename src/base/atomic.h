/* SPDX-License-Identifier: MIT */
/*
 * atomic.h - the atomic operations we use, with the memory order in the name.
 *
 * Nothing else in the library touches an _Atomic object: this is the seam at which test/model puts
 * its own memory. Objects are declared KC_ATOMIC(type). Every use of an order stronger than relaxed
 * carries the id of its line in the file's ORDER table in a comment on the same line, as in
 *
 *     kc_store_release(&co->state, FINISHED);  // coro_end.1  (written as a block comment)
 *
 * which tools/tidy checks.
 */
#ifndef KC_BASE_ATOMIC_H
#define KC_BASE_ATOMIC_H

#ifdef KC_MODEL
#include "model_atomic.h" /* test/model: the same names over simulated memory */
#else

#include <stdatomic.h>

#define KC_ATOMIC(type) _Atomic(type)

#define kc_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define kc_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define kc_store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define kc_store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)

#define kc_add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define kc_or_relaxed(p, v) atomic_fetch_or_explicit((p), (v), memory_order_relaxed)
#define kc_and_relaxed(p, v) atomic_fetch_and_explicit((p), (v), memory_order_relaxed)
#define kc_sub_acq_rel(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel)
#define kc_xchg_acquire(p, v) atomic_exchange_explicit((p), (v), memory_order_acquire)

/* Strong compare and swap; on failure *expected is what was found, read with acquire where the
 * order has an acquire part, else relaxed. */
#define kc_cas_relaxed(p, expected, v)                                                            \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_relaxed,           \
                                            memory_order_relaxed)
#define kc_cas_release(p, expected, v)                                                            \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_release,           \
                                            memory_order_relaxed)
#define kc_cas_acq_rel(p, expected, v)                                                            \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acq_rel,           \
                                            memory_order_acquire)
#define kc_cas_seq_cst(p, expected, v)                                                            \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_seq_cst,           \
                                            memory_order_acquire)

/* ThreadSanitizer knows no fences: there it is a read-modify-write of one word that all fences
 * share. That orders more than a fence does, and may hide a race but reports none that is not
 * there. */
#if defined(__SANITIZE_THREAD__)
#define KC_FENCE_IS_RMW
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KC_FENCE_IS_RMW
#endif
#endif

#ifdef KC_FENCE_IS_RMW
__attribute__((weak, visibility("hidden"))) _Atomic(int) kc__fence_word;
#define kc_fence_seq_cst()                                                                        \
    ((void)atomic_fetch_add_explicit(&kc__fence_word, 0, memory_order_seq_cst))
#else
#define kc_fence_seq_cst() atomic_thread_fence(memory_order_seq_cst)
#endif

#endif
#endif
