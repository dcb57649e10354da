/* SPDX-License-Identifier: MIT */
/*
 * valgrind_target.c - all that coroutines do, on two threads, in one process, for Valgrind to
 * watch.
 */
#include <kcoro/kcoro.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int ok)
{
    if (!ok)
        abort();
}

static void body_deep(void *arg)
{
    char buffer[8000];

    memset(buffer, 1, sizeof buffer);
    kcoro_yield();
    *(int *)arg += buffer[sizeof buffer - 1];
    snprintf(buffer, sizeof buffer, "%f", 1.5);
    kcoro_park();
    *(int *)arg += buffer[0] == '1';
}

static void body_owner(void *arg)
{
    char *memory = malloc(64);

    (void)arg;
    must(memory != NULL);
    KC_CLEANUP(free, memory);
    must(kc_defer(free, malloc(32)) == 0);
    kcoro_yield();
}

static void destroy(void *co)
{
    kcoro_destroy(co);
}

static void body_nests(void *arg)
{
    kcoro_t *co = kcoro_create(body_deep, arg, 0);

    must(kcoro_resume(co) == 0 && kcoro_resume(co) == 0);
    must(kcoro_unpark(co) == 0 && kcoro_resume(co) == 0);
    kcoro_destroy(co);
    co = kcoro_create(body_owner, arg, 0);
    KC_CLEANUP(destroy, co);
    must(kcoro_yield_to(co) == 0);
}

static void *thread_main(void *arg)
{
    for (int i = 0; i < 20; i++) {
        kcoro_t *owner = kcoro_create(body_owner, arg, 0);
        kcoro_t *deep = kcoro_create(body_deep, arg, 0);
        kcoro_t *nests = kcoro_create(body_nests, arg, 0);
        must(kcoro_resume(owner) == 0 && kcoro_resume(deep) == 0 && kcoro_resume(nests) == 0);
        kcoro_destroy(owner); /* suspended: its cleanups run */
        kcoro_destroy(deep);  /* suspended, deep */
        kcoro_destroy(nests); /* suspended in a yield_to; its cleanup destroys the other */
    }
    return NULL;
}

int main(void)
{
    int sums[2] = { 0, 0 };
    pthread_t thread;

    must(pthread_create(&thread, NULL, thread_main, &sums[1]) == 0);
    thread_main(&sums[0]);
    pthread_join(thread, NULL);
    must(sums[0] == 40 && sums[1] == 40);
    return 0;
}
