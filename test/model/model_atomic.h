/* SPDX-License-Identifier: MIT */
/*
 * model_atomic.h - the names of base/atomic.h over the simulated memory of model.h.
 *
 * WHAT     With -DKC_MODEL, base/atomic.h is this file, and the library's source compiles as it is.
 *          An atomic object is then a plain one: the checker knows it by its address and keeps its
 *          history elsewhere, so layouts, initialisers and pointers to atomics stay the same. The
 *          object itself always holds the newest value.
 *
 * SHAPE    Each operation in the source has a static struct model_site: where it stands and its
 *          memory order. That record is what a negative control weakens, see model_options.weaken.
 *
 * WHY NOT  A struct type per atomic: two expansions of KC_ATOMIC(uint32_t) would be two types, and
 *          no pointer to an atomic could be passed to a function.
 */
#ifndef KC_TEST_MODEL_ATOMIC_H
#define KC_TEST_MODEL_ATOMIC_H

#include "model.h"

#define KC_ATOMIC(type) __typeof__(type)

/* The type of what p points to, without its qualifiers, and a value of it as 64 bits. */
#define MODEL_TYPE_(p) __typeof__(((void)0, *(p)))
#define MODEL_BITS_(p, v) ((uint64_t)(uintptr_t)(MODEL_TYPE_(p))(v))

#define MODEL_LOAD_(p, name, order)                                                               \
    MODEL_VALUE_(                                                                                 \
        (MODEL_TYPE_(p))(uintptr_t)model__load(MODEL_SITE(#p, name, order), (p), sizeof *(p)))
#define MODEL_STORE_(p, v, name, order)                                                           \
    model__store(MODEL_SITE(#p, name, order), (p), sizeof *(p), MODEL_BITS_(p, v))
#define MODEL_RMW_(p, v, how, name, order)                                                        \
    MODEL_VALUE_((MODEL_TYPE_(p))(uintptr_t)model__rmw(MODEL_SITE(#p, name, order), (p),          \
                                                       sizeof *(p), how, MODEL_BITS_(p, v)))
#define MODEL_CAS_(p, e, v, name, order)                                                          \
    model__cas(MODEL_SITE(#p, name, order), (p), sizeof *(p), (e), MODEL_BITS_(p, v))

#define kc_load_relaxed(p) MODEL_LOAD_(p, "load_relaxed", MODEL_RELAXED)
#define kc_load_acquire(p) MODEL_LOAD_(p, "load_acquire", MODEL_ACQUIRE)
#define kc_load_seq_cst(p) MODEL_LOAD_(p, "load_seq_cst", MODEL_ACQUIRE)
#define kc_store_relaxed(p, v) MODEL_STORE_(p, v, "store_relaxed", MODEL_RELAXED)
#define kc_store_release(p, v) MODEL_STORE_(p, v, "store_release", MODEL_RELEASE)
#define kc_store_seq_cst(p, v) MODEL_STORE_(p, v, "store_seq_cst", MODEL_RELEASE)

#define kc_add_relaxed(p, v) MODEL_RMW_(p, v, MODEL_ADD, "add_relaxed", MODEL_RELAXED)
#define kc_add_acquire(p, v) MODEL_RMW_(p, v, MODEL_ADD, "add_acquire", MODEL_ACQUIRE)
#define kc_add_release(p, v) MODEL_RMW_(p, v, MODEL_ADD, "add_release", MODEL_RELEASE)
#define kc_add_acq_rel(p, v) MODEL_RMW_(p, v, MODEL_ADD, "add_acq_rel", MODEL_ACQ_REL)
#define kc_sub_relaxed(p, v) MODEL_RMW_(p, v, MODEL_SUB, "sub_relaxed", MODEL_RELAXED)
#define kc_sub_release(p, v) MODEL_RMW_(p, v, MODEL_SUB, "sub_release", MODEL_RELEASE)
#define kc_sub_acq_rel(p, v) MODEL_RMW_(p, v, MODEL_SUB, "sub_acq_rel", MODEL_ACQ_REL)
#define kc_or_relaxed(p, v) MODEL_RMW_(p, v, MODEL_OR, "or_relaxed", MODEL_RELAXED)
#define kc_or_release(p, v) MODEL_RMW_(p, v, MODEL_OR, "or_release", MODEL_RELEASE)
#define kc_or_acq_rel(p, v) MODEL_RMW_(p, v, MODEL_OR, "or_acq_rel", MODEL_ACQ_REL)
#define kc_and_relaxed(p, v) MODEL_RMW_(p, v, MODEL_AND, "and_relaxed", MODEL_RELAXED)
#define kc_and_release(p, v) MODEL_RMW_(p, v, MODEL_AND, "and_release", MODEL_RELEASE)
#define kc_and_acq_rel(p, v) MODEL_RMW_(p, v, MODEL_AND, "and_acq_rel", MODEL_ACQ_REL)
#define kc_xchg_relaxed(p, v) MODEL_RMW_(p, v, MODEL_XCHG, "xchg_relaxed", MODEL_RELAXED)
#define kc_xchg_acquire(p, v) MODEL_RMW_(p, v, MODEL_XCHG, "xchg_acquire", MODEL_ACQUIRE)
#define kc_xchg_release(p, v) MODEL_RMW_(p, v, MODEL_XCHG, "xchg_release", MODEL_RELEASE)
#define kc_xchg_acq_rel(p, v) MODEL_RMW_(p, v, MODEL_XCHG, "xchg_acq_rel", MODEL_ACQ_REL)

/* Strong compare and swap. A failed one is a load: acquire where the order has an acquire part. */
#define kc_cas_relaxed(p, e, v) MODEL_CAS_(p, e, v, "cas_relaxed", MODEL_RELAXED)
#define kc_cas_acquire(p, e, v) MODEL_CAS_(p, e, v, "cas_acquire", MODEL_ACQUIRE)
#define kc_cas_release(p, e, v) MODEL_CAS_(p, e, v, "cas_release", MODEL_RELEASE)
#define kc_cas_acq_rel(p, e, v) MODEL_CAS_(p, e, v, "cas_acq_rel", MODEL_ACQ_REL)
#define kc_cas_seq_cst(p, e, v) MODEL_CAS_(p, e, v, "cas_seq_cst", MODEL_ACQ_REL)

#define kc_fence_acquire() model__fence(MODEL_SITE("", "fence_acquire", MODEL_ACQUIRE))
#define kc_fence_release() model__fence(MODEL_SITE("", "fence_release", MODEL_RELEASE))
#define kc_fence_acq_rel() model__fence(MODEL_SITE("", "fence_acq_rel", MODEL_ACQ_REL))
#define kc_fence_seq_cst() model__fence(MODEL_SITE("", "fence_seq_cst", MODEL_SEQ_CST))

#endif
