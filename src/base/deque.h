/* SPDX-License-Identifier: MIT */
/*
 * deque.h - work-stealing deque: the owner pushes and pops at one end, others steal at the other.
 *
 * WHAT     Chase and Lev (2005) in the C11 form of Lê, Pop, Cohen and Zappa Nardelli (2013). The
 *          owner pays for others only where it must: push has no read-modify-write and no fence,
 *          pop has one fence, and a compare-and-swap when one item is left. What differs from the
 *          paper: the owner remembers an old top, so that push reads the real one, which others
 *          write, only when the array looks full; pop looks whether there is anything before it
 *          pays for the fence; and stores of bottom are releases in place of a fence before them.
 *
 * SHAPE                 top                     bottom
 *                        | steal -->      <-- pop | push -->
 *          slot[i & mask]  t, t + 1, ...,   b - 1
 *
 *          A full array is copied into one twice as large. The old one stays, unchanged, until
 *          destroy: a thief that has read its address may still read a slot of it, and finds there
 *          what the new one has in its place. All old arrays together are smaller than the last.
 *
 *          When the deque is empty the owner may go back to a smaller array, and give the pages of
 *          the larger ones back (cool): the swap of a thief that has read a top before fails,
 *          whatever it finds in a slot; a thief that reads a top later sees the items behind it,
 *          and so the array they are in. The larger arrays stay, too, for the next growth.
 *
 * WHO      I immutable, O owner, A atomic. push, pop, cool: the owner. steal, size_hint: anybody,
 *          any number at once. destroy: the owner, when nobody else can steal any more.
 *
 * ORDER    id       site            operation      pairs with  carries; what breaks if weaker
 *          deque.1  push: top       load_acquire   deque.9     the thief has read its slot, which
 *                                                              is about to be used again; it could
 *                                                              get the new item in place of its own
 *          deque.2  push: bottom    store_release  deque.7     slot and item; the thief reads old
 *                                                              ones
 *          (deque.3 grow: array, in deque.c)
 *          deque.4  pop: bottom     store_release  deque.7     as deque.2: this store too tells a
 *                                                              thief of items, those below
 *          deque.5  pop: between    fence_seq_cst  deque.6     either the owner sees the thief's
 *                   bottom and top                             top or the thief sees the owner's
 *                                                              bottom; both take one item
 *          deque.6  steal: between  fence_seq_cst  deque.5     as deque.5; an acquire for top, too
 *                   top and bottom
 *          deque.7  steal: bottom   load_acquire   deque.2,    slot and item; reads old ones
 *                                                  deque.4
 *          deque.8  steal: array    load_acquire   deque.3     the array may be newer than bottom
 *                                                              says; reads an empty slot
 *          deque.9  steal: top      cas_seq_cst    deque.1     (release) see deque.1. seq_cst by
 *                                                              the letter of C11 only: there the
 *                                                              fence of a second thief, which has
 *                                                              read this top, does not speak for
 *                                                              it. By C++20 it does, and by the
 *                                                              model, where release is enough
 *
 *          Relaxed, and enough: top in pop and its swap, and the bottom that pop puts back. deque.5
 *          has gone before them as a release, deque.6 follows the thief's read of top as an
 *          acquire.
 *
 * RULES    R1 top <= bottom, but for a pop in progress, where bottom may be one less.
 *          R2 bottom - top <= capacity.                          (all: deque_check in the test)
 *          R3 old_top <= top.
 *
 * PROGRESS push (when it does not grow) and pop: wait-free. steal: wait-free, but may fail; then
 *          another thread has taken an item.
 * WHY NOT  Stealing several with one swap of top: the owner takes all but the last without a swap,
 *          and would take one of them too. Unsigned indices: bottom goes below top.
 */
#ifndef KC_BASE_DEQUE_H
#define KC_BASE_DEQUE_H

#include "base/atomic.h"
#include "base/base.h"

/* One array; its slots are atomic because a thief reads one that the owner may be writing: what it
 * read is thrown away then, as its swap fails. */
typedef struct kc_deque_array {
    struct kc_deque_array *older; /* I  half as large, or NULL */
    struct kc_deque_array *newer; /* O  twice as large, or NULL: used before, and again by grow */
    int64_t mask;                 /* I  capacity - 1, capacity is a power of two */
    KC_ATOMIC(void *) slot[];     /* A */
} kc_deque_array_t;

/* Indices only grow, but for a pop; in 63 bits they do not wrap. */
typedef struct kc_deque {
    /* A  the next to steal */
    KC_ATOMIC(int64_t) top __attribute__((aligned(KC_CACHE_LINE)));
    /* A  behind the last; written by the owner */
    KC_ATOMIC(int64_t) bottom __attribute__((aligned(KC_CACHE_LINE)));
    KC_ATOMIC(kc_deque_array_t *) array; /* A  written by the owner */
    int64_t old_top;                     /* O  top as push saw it last */
} kc_deque_t;

typedef enum { KC_STEAL_EMPTY, KC_STEAL_LOST, KC_STEAL_GOT } kc_steal_t;

/* Room for capacity items, a power of two, before it grows. Returns: 0; -ENOMEM. */
int kc__deque_init(kc_deque_t *d, size_t capacity);
void kc__deque_destroy(kc_deque_t *d);

/* If it is empty and has room for more than `capacity`, pages go back. False: none do. */
bool kc__deque_cool(kc_deque_t *d, size_t capacity);

/* For push: makes room; top is the newest that the owner knows. Returns: 0; -ENOMEM. */
int kc__deque_grow(kc_deque_t *d, int64_t top, int64_t bottom);

/* The item, not NULL, becomes the newest. Returns: 0; -ENOMEM: nothing has changed. */
KC_INLINE int kc__deque_push(kc_deque_t *d, void *item)
{
    int64_t b = kc_load_relaxed(&d->bottom);
    kc_deque_array_t *array = kc_load_relaxed(&d->array);

    KC_CHECK(item);
    if (b - d->old_top > array->mask) {
        d->old_top = kc_load_acquire(&d->top); /* deque.1 */
        if (b - d->old_top > array->mask) {
            int rc = kc__deque_grow(d, d->old_top, b);
            if (rc)
                return rc;
            array = kc_load_relaxed(&d->array);
        }
    }
    kc_store_relaxed(&array->slot[b & array->mask], item);
    kc_store_release(&d->bottom, b + 1); /* deque.2 */
    return 0;
}

/* Items that were pushed long ago do not lie in the cache: the one that is popped in a moment is
 * fetched, two lines of it. */
KC_INLINE void kc__deque_prefetch(const kc_deque_array_t *array, int64_t bottom)
{
    const void *item = kc_load_relaxed(&array->slot[(bottom - 3) & array->mask]);

    __builtin_prefetch(item, 1);
    __builtin_prefetch(kc__next_line(item), 1);
}

/* The newest item; NULL: empty. */
KC_INLINE void *kc__deque_pop(kc_deque_t *d)
{
    int64_t b = kc_load_relaxed(&d->bottom) - 1, t = kc_load_relaxed(&d->top);

    if (t > b)
        return NULL;
    kc_deque_array_t *array = kc_load_relaxed(&d->array);
    kc__deque_prefetch(array, b);
    kc_store_release(&d->bottom, b); /* deque.4 */
    kc_fence_seq_cst();              /* deque.5 */
    t = kc_load_relaxed(&d->top);
    void *item = t <= b ? kc_load_relaxed(&array->slot[b & array->mask]) : NULL;
    if (t < b)
        return item;
    if (t == b && !kc_cas_relaxed(&d->top, &t, t + 1))
        item = NULL; /* the last one, and a thief was faster */
    kc_store_relaxed(&d->bottom, b + 1);
    return item;
}

/* The same where there are no thieves: no fence. */
KC_INLINE void *kc__deque_pop_alone(kc_deque_t *d)
{
    int64_t b = kc_load_relaxed(&d->bottom) - 1;

    if (kc_load_relaxed(&d->top) > b)
        return NULL;
    kc_deque_array_t *array = kc_load_relaxed(&d->array);
    kc__deque_prefetch(array, b);
    kc_store_relaxed(&d->bottom, b);
    return kc_load_relaxed(&array->slot[b & array->mask]);
}

/* The oldest item, in *out if GOT. LOST: somebody else took it meanwhile; there may be more. */
KC_INLINE kc_steal_t kc__deque_steal(kc_deque_t *d, void **out)
{
    int64_t t = kc_load_relaxed(&d->top);

    kc_fence_seq_cst();                   /* deque.6 */
    if (t >= kc_load_acquire(&d->bottom)) /* deque.7 */
        return KC_STEAL_EMPTY;
    kc_deque_array_t *array = kc_load_acquire(&d->array); /* deque.8 */
    void *item = kc_load_relaxed(&array->slot[t & array->mask]);
    if (!kc_cas_seq_cst(&d->top, &t, t + 1)) /* deque.9 */
        return KC_STEAL_LOST;
    *out = item;
    return KC_STEAL_GOT;
}

/* The owner's end: a push adds one, a pop takes one away. */
KC_INLINE int64_t kc__deque_bottom(const kc_deque_t *d)
{
    return kc_load_relaxed(&d->bottom);
}

/* How many there are, or were a moment ago. */
KC_INLINE size_t kc__deque_size_hint(const kc_deque_t *d)
{
    int64_t n = kc_load_relaxed(&d->bottom) - kc_load_relaxed(&d->top);

    return n > 0 ? (size_t)n : 0;
}

#endif
