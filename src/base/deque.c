/* SPDX-License-Identifier: MIT */
/*
 * deque.c - the memory of the work-stealing deque. All else about it is in deque.h.
 *
 * ORDER    id        site         operation      pairs with  carries; what breaks if weaker
 *          deque.10  cool: top    load_acquire   deque.9     as in push
 *          deque.3   grow, cool:  store_release  deque.8     the copies; the thief, which may see
 *                    array                                   the new array before the new bottom,
 *                                                            reads an empty slot
 */
#include "base/deque.h"

#include "base/os.h"

#include <errno.h>

static kc_deque_array_t *array_make(size_t capacity, kc_deque_array_t *older)
{
    kc_deque_array_t *array = kc__alloc(sizeof *array + capacity * sizeof array->slot[0]);

    if (array) {
        array->older = older;
        array->mask = (int64_t)capacity - 1;
    }
    return array;
}

int kc__deque_init(kc_deque_t *d, size_t capacity)
{
    KC_ASSERT(capacity > 0 && (capacity & (capacity - 1)) == 0);
    kc_deque_array_t *array = array_make(capacity, NULL);
    if (!array)
        return -ENOMEM;
    kc_store_relaxed(&d->top, 0);
    kc_store_relaxed(&d->bottom, 0);
    kc_store_relaxed(&d->array, array);
    d->old_top = 0;
    return 0;
}

void kc__deque_destroy(kc_deque_t *d)
{
    kc_deque_array_t *older, *array = kc_load_relaxed(&d->array);

    while (array && array->newer)
        array = array->newer;
    for (; array; array = older) {
        older = array->older;
        kc__free(array);
    }
    kc_store_relaxed(&d->array, NULL);
}

int kc__deque_grow(kc_deque_t *d, int64_t top, int64_t bottom)
{
    kc_deque_array_t *old = kc_load_relaxed(&d->array);

    if (!old->newer)
        old->newer = array_make(2 * ((size_t)old->mask + 1), old);
    kc_deque_array_t *array = old->newer;
    if (!array)
        return -ENOMEM;
    for (int64_t i = top; i < bottom; i++)
        kc_store_relaxed(&array->slot[i & array->mask],
                         kc_load_relaxed(&old->slot[i & old->mask]));
    kc_store_release(&d->array, array); /* deque.3 */
    return 0;
}

/* The whole pages among its slots. */
static void array_trim(kc_deque_array_t *array)
{
    uintptr_t page = kc__os_page_size(), first = (uintptr_t)&array->slot[0];
    uintptr_t low = kc__align_up(first, page);
    uintptr_t high = (uintptr_t)&array->slot[array->mask + 1] & ~(page - 1);

    if (low < high)
        kc__os_trim((void *)low, high - low);
}

bool kc__deque_cool(kc_deque_t *d, size_t capacity)
{
    kc_deque_array_t *array = kc_load_relaxed(&d->array), *kept = array;

    if ((size_t)array->mask < capacity ||
        kc_load_acquire(&d->top) != kc_load_relaxed(&d->bottom)) /* deque.10 */
        return false;
    while ((size_t)kept->mask >= capacity && kept->older)
        kept = kept->older;
    kc_store_release(&d->array, kept); /* deque.3 */
    for (array = kept->newer; array; array = array->newer)
        array_trim(array);
    return true;
}
