/* SPDX-License-Identifier: MIT */
/*
 * 14_promise_thread.c - a promise is a child that somebody else completes: here a plain thread of
 * another library, which knows nothing of coroutines.
 *
 * Prints:
 *   the coroutine waits, and its thread serves others
 *   the thread has found 9592 primes below 100000
 *   cancelled: a late answer is refused
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

struct search {
    kc_deferred_t *promise; /* the thread's own reference */
    pthread_t thread;
    int below, count;
};

static void *count_primes(void *arg)
{
    struct search *s = arg;

    for (int n = 2; n < s->below; n++) {
        int divisor = 2;
        while (divisor * divisor <= n && n % divisor != 0)
            divisor++;
        s->count += divisor * divisor > n;
    }
    kc_promise_complete(s->promise, 0, s); /* from any thread; nothing of ours runs in here */
    kc_deferred_release(s->promise);
    return NULL;
}

static int starts_the_thread(void *arg)
{
    struct search *s = arg;

    printf("the coroutine waits, and its thread serves others\n");
    return -pthread_create(&s->thread, NULL, count_primes, s);
}

static int root(void *arg)
{
    struct search search = { .below = 100000 };
    kc_deferred_t *answer;
    void *value;

    (void)arg;
    if (kc_promise(NULL, &answer) != 0)
        return 1;
    search.promise = kc_deferred_retain(answer);
    if (kc_launch(starts_the_thread, &search) != 0)
        return 1;
    int rc = kc_await(answer, &value);
    if (rc != 0)
        return rc; /* the thread could not be started: that failure has cancelled the promise */
    pthread_join(search.thread, NULL);
    printf("the thread has found %d primes below %d\n", ((struct search *)value)->count,
           search.below);
    kc_deferred_release(answer);

    if (kc_promise(NULL, &answer) != 0)
        return 1;
    kc_job_cancel(kc_deferred_job(answer), 0); /* nobody wants it any more */
    if (kc_promise_complete(answer, 0, NULL) == -ECANCELED)
        printf("cancelled: a late answer is refused\n");
    kc_deferred_release(answer);
    return 0;
}

int main(void)
{
    return kc_run(root, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS });
}
