/* SPDX-License-Identifier: MIT */
/*
 * assumed.h - what the examples in the public headers take for granted: see test/docs/headers.
 */
#include <stdint.h>
#include <stdio.h>

struct page {
    char text[80];
};
extern struct page pages[2];
extern int fetch(void *page), from_cache(void *key), from_disk(void *key);
extern void close_file(void *file);
extern void *key, *arg;
extern const char *path;
extern int rc, number, item;
extern uint64_t missed;
extern struct kc_broadcast *prices;
extern struct kc_sched *s;
extern struct kc_signal *signal;
#ifdef KCORO_SYNC_H
extern kc_mutex_t lock;
#endif
