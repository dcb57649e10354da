/* SPDX-License-Identifier: MIT */
/*
 * stack.h - stacks with guards, from slabs, recycled warm.
 */
#ifndef KC_CORO_STACK_H
#define KC_CORO_STACK_H

#include "base/base.h"
#include "base/block.h"
#include "base/os.h"

/* A stack: the address of its slab with the number of its slot in the low 6 bits. 0: none. */
typedef uintptr_t kc_stack_t;

enum {
    KC_STACK_DEFAULT = 64 * 1024,
    KC_STACK_SHIFT = 14,   /* the smallest class is 16 KiB                                      */
    KC_STACK_CLASSES = 10, /* up to 8 MiB; anything larger is mapped and unmapped by itself     */
    KC_STACK_LARGEST = 1 << (KC_STACK_SHIFT + KC_STACK_CLASSES - 1), /* of those in a class     */
    KC_STACK_CACHE = 64, /* warm stacks of a class that a thread keeps                          */
    KC_STACK_SMALL = 2,  /* 64 KiB: the largest class of which a thread keeps so many           */
    KC_STACK_STEPS = 32, /* places where the first frame may be, see kc__stack_top              */
    KC_SLAB_SLOTS = 64,
};

typedef struct {
    uint32_t count;
    kc_stack_t stack[KC_STACK_CACHE];
} kc_stack_pile_t;

/* Warm stacks of one thread; the top of each pile was used last. All zero is empty. */
typedef struct {
    kc_stack_pile_t pile[KC_STACK_CLASSES];
    bool lazy; /* its thread calls kc__stack_cool when it has the time */
} kc_stack_cache_t;

/* What all stacks of a slab have in common; the rest of a slab is known to stack.c alone. */
typedef struct {
    char *base;         /* I  of slot 0's guard                                       */
    size_t size;        /* I  usable bytes of each stack                              */
    size_t stride;      /* I  from one stack to the next: size and a guard            */
    uint32_t first;     /* I  slots made before it: for the stagger                   */
    uint8_t size_class; /* I  KC_STACK_CLASSES: alone in its slab, not pooled         */
} kc_slab_t;

KC_INLINE kc_slab_t *kc__stack_slab(kc_stack_t stack)
{
    return (kc_slab_t *)(stack & ~(uintptr_t)(KC_SLAB_SLOTS - 1));
}

KC_INLINE unsigned kc__stack_slot(kc_stack_t stack)
{
    return (unsigned)(stack & (KC_SLAB_SLOTS - 1));
}

/* As kc__stack_get, when the thread has none of that size. */
KC_COLD int kc__stack_get_other(kc_stack_cache_t *cache, size_t size, kc_stack_t *out);

/* The smallest class that holds size bytes; KC_STACK_CLASSES or more: none does. */
KC_INLINE unsigned kc__stack_class(size_t size)
{
    size_t last = size - (size > 0);

    return 63 - (unsigned)__builtin_clzll(last >> (KC_STACK_SHIFT - 1) | 1);
}

bool kc__stack_can_fit_alone(size_t size);

/* False: the address space has no room for so large a stack, whatever is given back. */
KC_INLINE bool kc__stack_can_fit(size_t size)
{
    return size <= KC_STACK_LARGEST || kc__stack_can_fit_alone(size);
}

#ifdef KC_MODEL /* test/model has its own, which keep books */
bool kc__stack_take(kc_stack_cache_t *cache, unsigned sc, kc_stack_t *out);
int kc__stack_get(kc_stack_cache_t *cache, size_t size, kc_stack_t *out);
#else

/* One of class sc, of those that the thread has. False: it has none. */
KC_INLINE bool kc__stack_take(kc_stack_cache_t *cache, unsigned sc, kc_stack_t *out)
{
    if (sc >= KC_STACK_CLASSES)
        return false;
    kc_stack_pile_t *pile = &cache->pile[sc];
    uint32_t count = pile->count;
    if (count == 0)
        return false;
    pile->count = count - 1;
    *out = pile->stack[count - 1];
    return true;
}

/* size bytes or more. 0; -ENOMEM: no memory; -ENOSPC: the limit on mappings forbids another guard.
 * */
KC_INLINE int kc__stack_get(kc_stack_cache_t *cache, size_t size, kc_stack_t *out)
{
    return kc__stack_take(cache, kc__stack_class(size), out)
               ? 0
               : kc__stack_get_other(cache, size, out);
}

#endif

/* In words, why kc__stack_get has returned rc; *no_stack: what was missing. */
KC_COLD const char *kc__stack_error(int rc, size_t size, kc_no_stack_t *no_stack);

/* Nobody may run on it any more. Any thread's cache will do. */
void kc__stack_put(kc_stack_cache_t *cache, kc_stack_t stack);

#ifdef KC_MODEL
bool kc__stack_keep(kc_stack_cache_t *cache, kc_stack_t stack);
#else

/* The same, if it can be kept at once. False: nothing was done. */
KC_INLINE bool kc__stack_keep(kc_stack_cache_t *cache, kc_stack_t stack)
{
    unsigned sc = kc__stack_slab(stack)->size_class;

    if (sc > KC_STACK_SMALL || kc_load_relaxed(&kc__os_debug_mode) != 0)
        return false;
    kc_stack_pile_t *pile = &cache->pile[sc];
    uint32_t count = pile->count;
    if (count >= KC_STACK_CACHE - 1)
        return false;
    pile->count = count + 1;
    pile->stack[count] = stack;
    return true;
}

#endif

/* Gives all of a thread's warm stacks to the others. */
void kc__stack_cache_drain(kc_stack_cache_t *cache);

/* Gives the pages of a few warm stacks back, if there are more than should stay and it is time.
 * False: none for now. */
bool kc__stack_cool(kc_cool_t when);

/* So many jobs more, or fewer, wait for a stack: while there are any, the threads of schedulers
 * keep none for themselves (kc__stack_cool). */
void kc__stack_want(int more);

/* When the next ones may be given back, on kc__os_now's clock; INT64_MAX: there are none. */
int64_t kc__stack_cool_at(void);

/* The usable range; the guard lies right below low. */
char *kc__stack_low(kc_stack_t stack);
size_t kc__stack_size(kc_stack_t stack);

#ifdef KC_MODEL
char *kc__stack_top(kc_stack_t stack);
#else

/* Where the first frame goes: the high end, displaced by a few cache lines that differ from stack
 * to stack, so that the hot frames of many coroutines do not all fall into the same cache sets. */
KC_INLINE char *kc__stack_top(kc_stack_t stack)
{
    const kc_slab_t *slab = kc__stack_slab(stack);
    unsigned slot = kc__stack_slot(stack);
    size_t step = (slab->first + slot) % KC_STACK_STEPS;

    return slab->base + (slot + 1) * slab->stride - step * KC_CACHE_LINE;
}

#endif

/* Bytes from the top down to the deepest word that is not zero. */
size_t kc__stack_used(kc_stack_t stack);

/* For metrics and tests: what all pools of all threads hold. */
typedef struct {
    size_t made; /* with a guard, in use or free                       */
    size_t warm; /* free in the shared pool, pages still there        */
    size_t cold; /* free in the shared pool, pages given back         */
} kc_stack_stats_t;
kc_stack_stats_t kc__stack_stats(void);

#endif
