/* SPDX-License-Identifier: MIT */
/*
 * 08_signal.c - three searchers on three threads; the first that finds it tells the others to stop.
 *
 * Prints:
 *   found by one searcher
 *   3 searchers heard that the search is over
 *   progress was reported
 */
#include <kcoro/kcoro.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { SEARCHERS = 3, HAYSTACK = 300000, NEEDLE = 123456 };
#define FOUND KC_SIG_TERMINATE
#define PROGRESS (1ull << 48) /* a high bit: triggered at every emit */

static atomic_int finders, stopped, reports;

static void on_progress(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    (void)signal;
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void on_found(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired;
    (void)signal;
    atomic_store((atomic_bool *)arg, true); /* runs in the finder's thread */
}

static void *search(void *arg)
{
    kc_signal_t *over = arg;
    static atomic_int next;
    atomic_bool stop = false;
    kc_slot_t slot;

    kc_slot_bind(&slot, over, KC_SIG_ALL);
    if (kc_slot_on(&slot, FOUND, on_found, &stop)) { /* false: found already */
        while (!stop) {
            int i = atomic_fetch_add(&next, 1) % HAYSTACK;
            if (i == NEEDLE && kc_signal_emit(over, FOUND) == FOUND)
                atomic_fetch_add(&finders, 1);
            if (i % 10000 == 0)
                kc_signal_emit(over, PROGRESS);
        }
    }
    stopped += kc_slot_triggered(&slot, FOUND);
    kc_slot_unbind(&slot); /* waits for on_found if it runs now: stop may go */
    return NULL;
}

int main(void)
{
    kc_signal_t *over = kc_signal_create(0);
    pthread_t thread[SEARCHERS];
    kc_slot_t slot;

    kc_slot_bind(&slot, over, PROGRESS);
    if (!kc_slot_on(&slot, PROGRESS, on_progress, &reports))
        return 1; /* no memory: the first handler of a slot needs none */
    for (int i = 0; i < SEARCHERS; i++)
        pthread_create(&thread[i], NULL, search, over);
    for (int i = 0; i < SEARCHERS; i++)
        pthread_join(thread[i], NULL);
    kc_slot_unbind(&slot);
    kc_signal_release(over);
    printf("found by %s\n", finders == 1 ? "one searcher" : "nobody, or by several");
    printf("%d searchers heard that the search is over\n", (int)stopped);
    printf("progress was %s\n", reports > 0 ? "reported" : "not reported");
    return 0;
}
