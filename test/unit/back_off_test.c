/* SPDX-License-Identifier: MIT */
/*
 * back_off_test.c - who waits for a lock bit whose holder does not run lets the processor go.
 *
 * WHAT     The test holds a bit and does nothing, as a thread would that was preempted; another
 *          thread makes a call that needs it. That one must be seen asleep before it has used up
 *          the time of the processor that one who spins would; and it must go on when the bit is
 *          given back.
 *          It must look often enough, too: a holder that is preempted again and again, and takes
 *          the bit anew each time that it runs, runs for a few milliseconds at a time.
 */
#define _GNU_SOURCE
#include "base/lock.h"
#include "base/recorder.h"
#include "chan_kit.h"
#include "sync/wait_queue.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SIGHTINGS = 5,    /* so often it is seen asleep: no accident on the way into the call */
    MUCH = 200000000, /* ns of the processor: 100 times what all sleeps above would take */
    LOOKS = 10,       /* in a row, in LOOKS_TAKE ns: several while a thread runs that has a turn */
    LOOKS_TAKE = 5000000,
    WINDOWS = 1000, /* in which that is not seen, however busy the machine is: too rarely */
};

struct contender {
    void (*call)(void *object);
    void *object;
    count_t tid, done;
};

static void *contends(void *arg)
{
    struct contender *c = arg;

    set(&c->tid, (int)syscall(SYS_gettid));
    errno = 0;
    c->call(c->object);
    CHECK_EQ(errno, 0);
    set(&c->done, 1);
    return NULL;
}

static bool sleeps(int tid)
{
    char path[64], line[256], state = '?';

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    if (!fgets(line, sizeof line, f) || sscanf(strrchr(line, ')'), ") %c", &state) != 1)
        FAIL("no state in %s", path);
    fclose(f);
    return state == 'S';
}

/* How often it has gone to sleep. */
static long sleeps_of(int tid)
{
    char path[64], line[256];
    long n = -1;

    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    while (n < 0 && fgets(line, sizeof line, f))
        sscanf(line, "voluntary_ctxt_switches: %ld", &n);
    fclose(f);
    if (n < 0)
        FAIL("no number of switches in %s", path);
    return n;
}

static int64_t cpu_time(pthread_t thread)
{
    struct timespec t;
    clockid_t clock;

    CHECK_EQ(pthread_getcpuclockid(thread, &clock), 0);
    CHECK_EQ(clock_gettime(clock, &t), 0);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The caller has what call needs, until give_back. */
static void must_sleep(void (*call)(void *), void (*give_back)(void *), void *object)
{
    struct contender c = { .call = call, .object = object };
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, contends, &c), 0);
    UNTIL(get(&c.tid) != 0);
    for (int seen = 0; seen < SIGHTINGS;) {
        CHECK_EQ(get(&c.done), 0);
        if (cpu_time(thread) > MUCH)
            FAIL("it spins");
        if (sleeps(get(&c.tid)))
            seen++;
        else
            sched_yield();
    }
    give_back(object);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(get(&c.done), 1);
}

/* ---- channels: kc_spin_t -------------------------------------------------------------------- */

static void sends(void *object)
{
    CHECK_EQ(kc_chan_try_send(object, &(int){ 1 }), 0);
}

static void unlocks_channel(void *object)
{
    kc__spin_unlock(&((kc_chan_t *)object)->lock);
}

TEST(a_waiter_for_the_lock_of_a_channel_sleeps)
{
    kc_chan_t *c = chan(sizeof(int), 1);

    kc__spin_lock(&c->lock);
    must_sleep(sends, unlocks_channel, c);
    CHECK_EQ(kc_chan_len(c), 1);
    kc_chan_release(c);
}

/* A busy machine makes looks rarer, never more frequent: so it is enough to see it once. */
TEST(a_waiter_for_a_lock_looks_several_times_while_the_holder_runs)
{
    kc_chan_t *channel = chan(sizeof(int), 1);
    struct contender c = { .call = sends, .object = channel };
    int64_t began, took;
    pthread_t thread;
    int windows = 0;

    kc__spin_lock(&channel->lock);
    CHECK_EQ(pthread_create(&thread, NULL, contends, &c), 0);
    UNTIL(get(&c.tid) != 0);
    UNTIL(sleeps_of(get(&c.tid)) > LOOKS); /* its sleeps are as long as they will ever be */
    do {
        long first = sleeps_of(get(&c.tid));

        began = kc__os_now();
        UNTIL(sleeps_of(get(&c.tid)) > first + LOOKS);
        took = kc__os_now() - began;
        if (++windows == WINDOWS)
            FAIL("%d looks take %lld ns", LOOKS, (long long)took);
    } while (took > LOOKS_TAKE);
    kc__spin_unlock(&channel->lock);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(get(&c.done), 1);
    kc_chan_release(channel);
}

/* ---- locks: the bit of a line --------------------------------------------------------------- */

static void posts(void *object)
{
    kc_sem_release(object, 1);
}

static void unlocks_line(void *object)
{
    kc__wait_queue_unlock(object, 0);
}

TEST(a_waiter_for_the_bit_of_a_wait_queue_sleeps)
{
    kc_sem_t sem = KC_SEM_INIT(0);

    CHECK_EQ(kc__wait_queue_lock((kc_wait_queue_t *)&sem), 0);
    must_sleep(posts, unlocks_line, &sem);
    CHECK(kc_sem_tryacquire(&sem));
}

/* ---- jobs: the bit of the word -------------------------------------------------------------- */

static void cancels(void *object)
{
    CHECK(kc_job_cancel(object, 0));
}

static void unlocks_job(void *object)
{
    kc__job_unlock(object);
}

TEST(a_waiter_for_the_lock_of_a_job_sleeps)
{
    kc_sched_opts_t opts = { .workers = 1 };
    kc_job_t *group = NULL;
    kc_sched_t *s = NULL;

    CHECK_EQ(kc_sched_create(&opts, &s), 0);
    CHECK_EQ(kc_group_create(&(kc_launch_opts_t){ .sched = s }, &group), 0);
    kc__job_lock(group);
    must_sleep(cancels, unlocks_job, group);
    CHECK_EQ(kc_job_reason(group), -ECANCELED);
    CHECK_EQ(kc_job_join(group), -ECANCELED);
    kc_job_release(group);
    CHECK_EQ(kc_sched_destroy(s), 0);
}

/* ---- traces: the lock of a lane ------------------------------------------------------------- */

static void records(void *object)
{
    kc__trace_record(object, 0, (kc_record_t){ .at = 1 }, NULL);
}

static void unlocks_lane(void *object)
{
    kc__spin_unlock(&((kc_recorder_t *)object)->lane[0].lock);
}

TEST(a_waiter_for_a_lane_of_a_trace_sleeps)
{
    kc_recorder_t *r = kc__alloc_aligned(KC_CACHE_LINE, sizeof *r + sizeof r->lane[0]);

    CHECK(r != NULL);
    kc__spin_lock(&r->lane[0].lock);
    must_sleep(records, unlocks_lane, r);
    kc__free(r);
}
