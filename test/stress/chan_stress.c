/* SPDX-License-Identifier: MIT */
/*
 * chan_stress.c - the books of channels: none lost, none doubled, in order.
 *
 * Eight producers and eight consumers share three channels of one kind. Most are jobs on four
 * workers, whose bodies are cancelled again and again, some of them unwound, and begun anew on
 * another worker; some are plain threads, and some jobs of a scheduler of their own. They send and
 * receive in every way there is: waiting, for a time, by a try, by selects over all channels. Two
 * of the channels are closed at any moment; who could not send there sends the same item elsewhere.
 *
 * An item is a number that nobody else sends. A producer goes on to its next one when a call has
 * said that the last was sent. At the end each was received once, or, where the channel keeps the
 * latest only, received or replaced once; and each consumer has seen those of one producer in one
 * channel in the order in which they were sent.
 *
 *     KC_STRESS_ITEMS=10000000 KC_TEST_SEED=1 build/release/test/chan_stress
 *     KC_STRESS_SECONDS=600 build/tsan/test/chan_stress        the time for each kind of channel
 */
#include "base/atomic.h"
#include "harness.h"

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WORKERS = 4,
    CHANNELS = 3,
    PRODUCERS = 8,
    CONSUMERS = 8,
    PARTIES = PRODUCERS + CONSUMERS,
    JOBS = 6,     /* of each side; then a plain thread; then one with a scheduler of its own */
    ROUND = 4096, /* items of one producer in a round */
    LOST_LIMIT_S = 30
};

typedef unsigned long long print_t;

struct party {
    int id; /* producers first */
    uint64_t random;
    uint64_t next;                       /* of a producer: the next item */
    uint64_t after[CHANNELS][PRODUCERS]; /* of a consumer: what comes next at least */
    bool closed[CHANNELS], done;
    pthread_mutex_t lock;
    kc_job_t *stint; /* under the lock: whom to cancel; NULL: nobody */
};

static struct {
    kc_sched_t *sched;
    kc_chan_t *chan[CHANNELS];
    kc_chan_t *quiet; /* nobody ever sends there */
    struct party party[PARTIES];
    uint64_t quota; /* items of each producer */
    KC_ATOMIC(uint32_t) seen[PRODUCERS][ROUND];
    KC_ATOMIC(int) producing, over;
} round_;

static KC_ATOMIC(uint64_t) moved, replaced, cancels;

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static unsigned pick(struct party *p, unsigned n)
{
    return (unsigned)(kc_test_random(&p->random) % n);
}

/* ---- the books ------------------------------------------------------------------------------ */

static uint64_t item_of(int producer, uint64_t number)
{
    return (uint64_t)producer << 40 | number;
}

static void enter(uint64_t item)
{
    uint64_t producer = item >> 40, number = item & 0xffffffff;

    if (producer >= PRODUCERS || number >= round_.quota)
        FAIL("item %llx was never sent", (print_t)item);
    if (kc_add_relaxed(&round_.seen[producer][number], 1) != 0)
        FAIL("item %llu of producer %llu came twice", (print_t)number, (print_t)producer);
}

static void received(struct party *p, int channel, uint64_t item)
{
    uint64_t number = item & 0xffffffff, *after = &p->after[channel][(item >> 40) % PRODUCERS];

    enter(item);
    if (number < *after)
        FAIL("item %llu of producer %llu came after a later one", (print_t)number,
             (print_t)(item >> 40));
    *after = number + 1;
    kc_add_relaxed(&moved, 1);
}

/* Replaced, or left at the last release. */
static void undelivered(void *item, void *arg)
{
    (void)arg;
    enter(*(uint64_t *)item);
    kc_add_relaxed(&replaced, 1);
}

/* ---- what producers and consumers do -------------------------------------------------------- */

static int choose(struct party *p, int op, uint64_t *item, int *channel)
{
    kc_case_t cases[CHANNELS + 1];
    static const kc_time_t timeouts[] = { 0, KC_US(5), KC_US(50), KC_FOREVER };

    for (int i = 0; i < CHANNELS; i++)
        cases[i] = (kc_case_t){ op, p->closed[i] ? NULL : round_.chan[i], item, 0 };
    cases[CHANNELS] = (kc_case_t){ .op = KC_RECV, .chan = round_.quiet };
    size_t n = pick(p, 2) ? CHANNELS : CHANNELS + 1;
    kc_time_t timeout = timeouts[pick(p, 4)];
    int rc = pick(p, 4) ? kc_select(cases, n, timeout) : kc_select_biased(cases, n, timeout);
    if (rc < 0)
        return rc;
    CHECK_LT(rc, CHANNELS);
    *channel = rc;
    return cases[rc].rc;
}

/* What such a call may say. True: it has happened. */
static bool happened(struct party *p, int rc, int channel)
{
    switch (rc) {
    case 0:
        return true;
    case -EPIPE:
        p->closed[channel] = true;
        return false;
    case -EAGAIN:
    case -ETIMEDOUT:
    case -ECANCELED:
        return false;
    default:
        FAIL("a call returned %d", rc);
    }
}

static int produce(struct party *p)
{
    uint64_t item = item_of(p->id, p->next);
    int channel = (int)pick(p, CHANNELS), rc;

    if (p->closed[channel])
        channel = 0; /* is open as long as there are producers */
    kc_chan_t *c = round_.chan[channel];
    switch (pick(p, 8)) {
    case 0:
        rc = kc_chan_try_send(c, &item);
        break;
    case 1:
        rc = kc_chan_send_until(c, &item, kc_now() + KC_US(pick(p, 20)));
        break;
    case 2:
    case 3:
        rc = choose(p, KC_SEND, &item, &channel);
        break;
    default:
        rc = kc_chan_send(c, &item);
    }
    if (happened(p, rc, channel) && ++p->next == round_.quota) {
        p->done = true;
        if (kc_sub_acq_rel(&round_.producing, 1) == 1)
            for (int i = 0; i < CHANNELS; i++)
                kc_chan_close(round_.chan[i]);
    }
    return rc;
}

/* The first consumers each serve one channel as long as it is open: nobody sends there in vain. */
static int consume(struct party *p)
{
    uint64_t item = UINT64_MAX;
    int home = p->id - PRODUCERS, channel = (int)pick(p, CHANNELS), rc;
    unsigned how = pick(p, 4);

    if (home < CHANNELS && !p->closed[home]) {
        channel = home;
        how = how < 2 ? how : 3;
    } else if (p->closed[channel] || how == 3) {
        how = 2;
    }
    kc_chan_t *c = round_.chan[channel];
    switch (how) {
    case 0:
        rc = kc_chan_try_recv(c, &item);
        break;
    case 1:
        rc = kc_chan_recv_until(c, &item, kc_now() + KC_US(pick(p, 20)));
        break;
    case 2:
        rc = choose(p, KC_RECV, &item, &channel);
        break;
    default:
        rc = kc_chan_recv(c, &item);
    }
    if (happened(p, rc, channel))
        received(p, channel, item);
    p->done = p->closed[0] && p->closed[1] && p->closed[2];
    return rc;
}

/* Until all is done, or it is cancelled. */
static int works(void *arg)
{
    struct party *p = arg;
    int rc = 0;

    while (!p->done && rc != -ECANCELED) {
        rc = p->id < PRODUCERS ? produce(p) : consume(p);
        if (rc == -EAGAIN && kcoro_current())
            rc = kc_yield();
    }
    return rc == -ECANCELED ? rc : 0;
}

static void *thread_works(void *arg)
{
    CHECK_EQ(works(arg), 0);
    return NULL;
}

static void *scheduler_works(void *arg)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };

    CHECK_EQ(kc_run(works, arg, &opts), 0);
    return NULL;
}

/* Begins the work anew whenever it was cancelled. */
static int manages(void *arg)
{
    struct party *p = arg;

    while (!p->done) {
        kc_launch_opts_t opts = { .flags = pick(p, 2) ? KC_JOB_UNWIND : 0,
                                  .affinity = (kc_affinity_t)pick(p, WORKERS + 1) };
        kc_job_t *j = NULL;
        CHECK_EQ(kc_launch_job(works, p, &opts, &j), 0);
        pthread_mutex_lock(&p->lock);
        p->stint = j;
        pthread_mutex_unlock(&p->lock);
        int rc = kc_job_join(j);
        CHECK(rc == 0 || rc == -ECANCELED);
        pthread_mutex_lock(&p->lock);
        p->stint = NULL;
        pthread_mutex_unlock(&p->lock);
        kc_job_release(j);
    }
    return 0;
}

/* ---- who meddles ---------------------------------------------------------------------------- */

static void cancel_one(struct party *p)
{
    pthread_mutex_lock(&p->lock);
    kc_job_t *j = p->stint ? kc_job_retain(p->stint) : NULL;
    pthread_mutex_unlock(&p->lock);
    if (j && kc_job_cancel(j, 0))
        kc_add_relaxed(&cancels, 1);
    kc_job_release(j);
}

static void is_deadlocked(void)
{
    fprintf(stderr, "a round of seed %llu does not end\n", (print_t)kc_test_seed());
    for (int i = 0; i < PARTIES; i++)
        fprintf(stderr, "party %d: next %llu, done %d\n", i, (print_t)round_.party[i].next,
                round_.party[i].done);
    (void)kc_dump(round_.sched, stderr);
    fflush(NULL);
    abort();
}

static void *meddles(void *arg)
{
    const char *scale = getenv("KC_TEST_SCALE");
    double limit = LOST_LIMIT_S * (scale ? strtod(scale, NULL) : 1), since = seconds();
    struct party me = { .random = (uint64_t)(uintptr_t)arg };
    uint64_t total = round_.quota * PRODUCERS, begin = kc_load_relaxed(&moved), last = begin;
    uint64_t when[CHANNELS] = { UINT64_MAX, kc_test_random(&me.random) % (2 * total),
                                kc_test_random(&me.random) % total };

    while (!kc_load_acquire(&round_.over)) {
        struct timespec nap = { 0, (long)pick(&me, 100) * 1000 };
        uint64_t so_far = kc_load_relaxed(&moved);
        nanosleep(&nap, NULL);
        cancel_one(&round_.party[pick(&me, PARTIES)]);
        for (int i = 1; i < CHANNELS; i++)
            if (so_far - begin >= when[i])
                kc_chan_close(round_.chan[i]);
        since = so_far != last ? seconds() : since;
        last = so_far;
        if (seconds() - since > limit)
            is_deadlocked();
    }
    return NULL;
}

/* ---- a round -------------------------------------------------------------------------------- */

static void prepare(uint64_t seed, size_t capacity, uint64_t quota)
{
    kc_chan_opts_t opts = { sizeof(uint64_t), capacity, undelivered, NULL, NULL };

    for (int i = 0; i < CHANNELS; i++)
        CHECK_EQ(kc_chan_create_with(&opts, &round_.chan[i]), 0);
    CHECK_EQ(kc_chan_create(0, 0, &round_.quiet), 0);
    round_.quota = quota;
    memset((void *)round_.seen, 0, sizeof round_.seen);
    kc_store_relaxed(&round_.producing, PRODUCERS);
    kc_store_relaxed(&round_.over, 0);
    for (int i = 0; i < PARTIES; i++) {
        struct party *p = &round_.party[i];
        *p = (struct party){ .id = i, .random = (seed + 1) * 0x9e3779b97f4a7c15u + (uint64_t)i };
        pthread_mutex_init(&p->lock, NULL);
        (void)kc_test_random(&p->random);
    }
}

static void balance(void)
{
    for (int i = 0; i < CHANNELS; i++) {
        CHECK_EQ(kc_chan_len(round_.chan[i]), 0); /* the consumers have got all */
        kc_chan_release(round_.chan[i]);
    }
    kc_chan_release(round_.quiet);
    for (int i = 0; i < PRODUCERS; i++)
        for (uint64_t k = 0; k < round_.quota; k++)
            if (kc_load_relaxed(&round_.seen[i][k]) != 1)
                FAIL("item %llu of producer %d is lost", (print_t)k, i);
}

static void run_round(uint64_t seed, size_t capacity, uint64_t quota)
{
    pthread_t thread[PARTIES], meddler;
    kc_job_t *job[PARTIES] = { NULL };

    prepare(seed, capacity, quota);
    for (int i = 0; i < PARTIES; i++) {
        int place = i % PRODUCERS;
        kc_launch_opts_t opts = { .sched = round_.sched };
        if (place < JOBS)
            CHECK_EQ(kc_launch_job(manages, &round_.party[i], &opts, &job[i]), 0);
        else
            CHECK_EQ(pthread_create(&thread[i], NULL,
                                    place == JOBS ? thread_works : scheduler_works,
                                    &round_.party[i]),
                     0);
    }
    CHECK_EQ(pthread_create(&meddler, NULL, meddles, (void *)(uintptr_t)(seed * 2 + 1)), 0);
    for (int i = 0; i < PARTIES; i++) {
        if (job[i])
            CHECK_EQ(kc_job_join(job[i]), 0);
        else
            pthread_join(thread[i], NULL);
        kc_job_release(job[i]);
    }
    kc_store_release(&round_.over, 1);
    pthread_join(meddler, NULL);
    balance();
}

static void run(size_t capacity)
{
    const char *items = getenv("KC_STRESS_ITEMS"), *text = getenv("KC_STRESS_SECONDS");
    uint64_t most = items ? strtoull(items, NULL, 10) : UINT64_MAX / 2, n = 0;
    double begin = seconds(), end = begin + (text ? strtod(text, NULL) : items ? 3000 : 1);
    kc_sched_opts_t opts = { .workers = WORKERS };

    CHECK_EQ(kc_sched_create(&opts, &round_.sched), 0);
    for (uint64_t i = 0, quota; n < most && seconds() < end; i++, n += PRODUCERS * quota) {
        uint64_t left = (most - n + PRODUCERS - 1) / PRODUCERS;
        quota = i % 8 == 0 ? 50 : ROUND; /* some short ones: begin and end are where it is hard */
        quota = quota < left ? quota : left;
        run_round(kc_test_seed() + i, capacity, quota);
    }
    CHECK_EQ(kc_sched_destroy(round_.sched), 0);
    CHECK_EQ(kc_load_relaxed(&moved) + kc_load_relaxed(&replaced), n);
    printf("%llu items, %llu replaced, %llu cancels, %.1f s, seed %llu\n", (print_t)n,
           (print_t)kc_load_relaxed(&replaced), (print_t)kc_load_relaxed(&cancels),
           seconds() - begin, (print_t)kc_test_seed());
}

TEST_SLOW(without_a_buffer_nothing_is_lost_or_doubled, 3600000)
{
    run(0);
    CHECK_EQ(kc_load_relaxed(&replaced), 0);
}

TEST_SLOW(in_a_buffer_nothing_is_lost_or_doubled, 3600000)
{
    run(5);
    CHECK_EQ(kc_load_relaxed(&replaced), 0);
}

TEST_SLOW(in_an_unlimited_channel_nothing_is_lost_or_doubled, 3600000)
{
    run(KC_CHAN_UNLIMITED);
    CHECK_EQ(kc_load_relaxed(&replaced), 0);
}

TEST_SLOW(of_a_latest_channel_each_item_is_received_or_replaced, 3600000)
{
    run(KC_CHAN_LATEST);
}
