/* SPDX-License-Identifier: MIT */
/*
 * 03_unpark_from_a_thread.c - a coroutine waits for a result that another thread computes.
 *
 * Prints:
 *   asking
 *   the thread says 42
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

struct question {
    kcoro_t *asker;
    int answer;
};

static void *think(void *arg)
{
    struct question *q = arg;

    q->answer = 42;
    kcoro_unpark(q->asker); /* from any thread; before or after the park */
    kcoro_release(q->asker);
    return NULL;
}

static void ask(void *arg)
{
    struct question *q = arg;
    pthread_t thread;

    printf("asking\n");
    q->asker = kcoro_retain(kcoro_current()); /* the thread's reference */
    if (pthread_create(&thread, NULL, think, q) != 0) {
        kcoro_release(q->asker);
        return;
    }
    kcoro_park(); /* what was written before the unpark is visible now */
    printf("the thread says %d\n", q->answer);
    pthread_join(thread, NULL);
}

int main(void)
{
    struct question q = { NULL, 0 };
    kcoro_t *co = kcoro_create(ask, &q, 0);

    while (co && kcoro_state(co) != KCORO_FINISHED)
        if (kcoro_resume(co) == -EAGAIN) /* parked: a real program has something else to do */
            sched_yield();
    kcoro_destroy(co);
    return 0;
}
