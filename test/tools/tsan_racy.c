/* SPDX-License-Identifier: MIT */
/*
 * tsan_racy.c - what the library does not order: ThreadSanitizer must report it (test/tools/tsan).
 */
#include "tsan_target.h"

static kc_mutex_t mutex = KC_MUTEX_INIT;
static kc_chan_t *chan;

static int arrived, gone;

/* Two do this at a time, the second one when the first has: in time, but nothing orders that. At
 * the same moment ThreadSanitizer may miss it. */
static int changes_unordered(void *arg)
{
    int turn = __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);

    while (__atomic_load_n(&gone, __ATOMIC_RELAXED) < turn)
        ;
    change(arg);
    __atomic_fetch_add(&gone, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&gone, __ATOMIC_RELAXED) < 2)
        ;
    return 0;
}

static int two_workers(void *arg)
{
    kc_job_t *a = on_worker(0, changes_unordered, arg), *b = on_worker(1, changes_unordered, arg);

    join(a);
    join(b);
    return 0;
}

static int with_launcher(void *arg)
{
    kc_job_t *j = on_worker(0, changes_unordered, arg);

    changes_unordered(arg);
    join(j);
    return 0;
}

static int other_lock(void *arg)
{
    static kc_mutex_t other = KC_MUTEX_INIT;

    MUST(kc_mutex_lock(&other));
    changes_unordered(arg);
    kc_mutex_unlock(&other);
    return 0;
}

static int its_lock(void *arg)
{
    MUST(kc_mutex_lock(&mutex));
    changes_unordered(arg);
    kc_mutex_unlock(&mutex);
    return 0;
}

static int two_locks(void *arg)
{
    kc_job_t *a = on_worker(0, its_lock, arg), *b = on_worker(1, other_lock, arg);

    join(a);
    join(b);
    return 0;
}

static int sends_and_changes(void *arg)
{
    MUST(kc_chan_send(chan, &arg));
    changes_unordered(arg);
    return 0;
}

static int receives_and_changes(void *arg)
{
    MUST(kc_chan_recv(chan, &arg));
    changes_unordered(arg);
    return 0;
}

static int after_send(void *arg)
{
    MUST(kc_chan_create(sizeof arg, 1, &chan));
    kc_job_t *a = on_worker(0, sends_and_changes, arg),
             *b = on_worker(1, receives_and_changes, NULL);
    join(a);
    join(b);
    kc_chan_release(chan);
    return 0;
}

static void *thread_changes(void *arg)
{
    changes_unordered(arg);
    return NULL;
}

static int with_thread(void *arg)
{
    pthread_t thread;

    MUST(pthread_create(&thread, NULL, thread_changes, arg));
    join(on_worker(0, changes_unordered, arg));
    MUST(pthread_join(thread, NULL));
    return 0;
}

/* ---- which ----------------------------------------------------------------------------------- */

static const case_t all[] = {
    { "two_workers", two_workers, NULL }, { "with_launcher", with_launcher, NULL },
    { "two_locks", two_locks, NULL },     { "after_send", after_send, NULL },
    { "with_thread", with_thread, NULL },
};

int main(int argc, char **argv)
{
    return run_case(all, sizeof all / sizeof all[0], argc > 1 ? argv[1] : NULL);
}
