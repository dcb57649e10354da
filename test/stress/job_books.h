/* SPDX-License-Identifier: MIT */
/*
 * job_books.h - the books of job_stress.c: a record for each job, and what must hold at the end.
 *
 * A record notes what its job's code saw: that its body started and left, that it was disposed of,
 * when the last of its code ran, and when somebody first knew that it was over. Times are ticks of
 * one counter, so they are in the order in which things happened.
 */
#ifndef KC_TEST_JOB_BOOKS_H
#define KC_TEST_JOB_BOOKS_H

#include "base/os.h"
#include "job/job.h"
#include "blocks_left.h"
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
    SERVERS = 2,
    MEDDLERS = 2,
    TREES = 16, /* of one batch, at the same time  */
    NODES = 80, /* records of one tree, about      */
    RECORDS = 4096,
    DEPTH = 8,
    CODES = 4,
    LOST_LIMIT_S = 20,
};

/* Codes of failures and reasons of cancels; the last code is that of a timeout, which it is not. */
static const int codes[CODES] = { 7, -EPIPE, 1000, -ETIMEDOUT };
static const int reasons[3] = { 0, -EINTR, -EBUSY };

enum kind { BODY, SCOPE, GROUP, PROMISE, LEASE, PARK, VISIT, DROP };

struct tree {
    KC_ATOMIC(int) budget;
    kc_signal_t *signal;
};

/* A job, or something that a server has to do. */
struct record {
    enum kind kind;
    int depth;
    struct tree *tree;
    struct record *parent; /* NULL: a root, or detached */
    struct record *duty;   /* the next one of the list   */
    KC_ATOMIC(kc_job_t *) handle;
    uint64_t random;
    uint32_t flags;
    bool forbids, launched, has_dispose, has_timeout, has_grace, unknown, promise_kept,
        main_rc_known;
    uint32_t failures; /* codes of children that have failed, at the end */
    int rc;            /* what its body returned */
    kc_lease_t lease;
    kcoro_t *co;
    KC_ATOMIC(uint32_t) started, disposed, left, firsts;
    KC_ATOMIC(uint64_t) last;  /* when the last of its own code ran                  */
    KC_ATOMIC(uint64_t) after; /* the first time that somebody knew that it was over */
};

static struct {
    kc_sched_t *sched;
    struct record *record;
    KC_ATOMIC(uint32_t) used;
    struct tree tree[TREES];
    kc_job_t *root[TREES];
    pthread_mutex_t lock;
    struct record *duties;  /* L */
    KC_ATOMIC(int) closing; /* no job is left: threads end     */
    bool calm;              /* plain threads cancel nobody      */
} batch = { .lock = PTHREAD_MUTEX_INITIALIZER };

static KC_ATOMIC(uint64_t) clock_ticks = 1;
static KC_ATOMIC(uint64_t) batches, jobs, cancels;

static unsigned pick(uint64_t *random, unsigned below)
{
    return (unsigned)((kc_test_random(random) >> 20) % below);
}

static bool chance(uint64_t *random, unsigned percent)
{
    return pick(random, 100) < percent;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t tick(void)
{
    return kc_add_relaxed(&clock_ticks, 1);
}

/* ---- records ------------------------------------------------------------------------------- */

/* NULL: there are enough. */
static struct record *record_new(struct tree *tree, struct record *parent, enum kind kind,
                                 uint64_t random)
{
    if (kc_add_relaxed(&tree->budget, -1) <= 0)
        return NULL;
    uint32_t i = kc_load_relaxed(&batch.used);
    do
        if (i >= RECORDS)
            return NULL;
    while (!kc_cas_acq_rel(&batch.used, &i, i + 1));
    struct record *r = &batch.record[i];
    r->kind = kind;
    r->tree = tree;
    r->parent = parent;
    r->has_grace = parent && parent->has_grace;
    r->depth = parent ? parent->depth + 1 : 0;
    r->random = random;
    return r;
}

/* Any job that has a handle; NULL: none was found. */
static struct record *any_record(uint64_t *random)
{
    uint32_t used = kc_load_acquire(&batch.used);

    for (int i = 0; used > 0 && i < 8; i++) {
        struct record *r = &batch.record[pick(random, used)];
        if (kc_load_acquire(&r->handle))
            return r;
    }
    return NULL;
}

static void publish(struct record *r, kc_job_t *handle)
{
    r->launched = true;
    kc_store_release(&r->handle, handle);
    kc_add_relaxed(&jobs, 1);
}

/* Somebody knows that it is over: nothing below it may have run after this. */
static void is_over(struct record *r)
{
    uint64_t now = tick(), seen = 0;

    (void)kc_cas_acq_rel(&r->after, &seen, now);
}

static void mark_last(struct record *r)
{
    uint64_t now = tick(), seen = kc_load_relaxed(&r->last);

    while (seen < now && !kc_cas_acq_rel(&r->last, &seen, now))
        ;
}

static void add_duty(struct record *r)
{
    pthread_mutex_lock(&batch.lock);
    r->duty = batch.duties;
    batch.duties = r;
    pthread_mutex_unlock(&batch.lock);
}

static void nap(uint64_t *random, unsigned most_us)
{
    struct timespec t = { 0, (long)pick(random, most_us) * 1000 };

    nanosleep(&t, NULL);
}

/* ---- the watchdog -------------------------------------------------------------------------- */

static void print_job(kc_block_t *block, void *arg)
{
    kc_job_t *j = kc_container_of(block, kc_job_t, task.block);
    uint64_t word = kc__job_word(j);

    (void)arg;
    if (word & KC_WORD_DONE)
        return; /* somebody has a handle */
    fprintf(stderr,
            "job %p \"%s\" parent %p word %012llx flags %x kind %d depth %u reason %d "
            "code %d refs %u shields %u worker %d\n",
            (void *)j, kc_job_name(j), (void *)j->parent, (unsigned long long)word,
            kc__job_flags(j), j->task.kind, j->task.depth, j->reason, j->code,
            kc_load_relaxed(&j->refs), j->shields, kc_load_relaxed(&j->task.worker)->index);
}

static KC_ATOMIC(int) finished;

/* One batch takes some milliseconds. */
static void *watchdog_main(void *arg)
{
    const char *scale = getenv("KC_TEST_SCALE");
    double limit = LOST_LIMIT_S * (scale ? strtod(scale, NULL) : 1), since = seconds();
    uint64_t seen = 0, random = 1;

    while (!kc_load_acquire(&finished)) {
        uint64_t now = kc_load_relaxed(&batches);
        nap(&random, 20000);
        since = now == seen ? since : seconds();
        seen = now;
        if (seconds() - since < limit)
            continue;
        fprintf(stderr, "batch %llu of seed %llu does not end; what is left of it:\n",
                (unsigned long long)now, (unsigned long long)kc_test_seed());
        kc__block_each(KC_TASK_MAGIC, print_job, NULL);
        fflush(NULL);
        abort();
    }
    return arg;
}

/* ---- the books ----------------------------------------------------------------------------- */

static uint32_t code_bit(int code)
{
    for (unsigned i = 0; i < CODES; i++)
        if (codes[i] == code)
            return 1u << i;
    return 0;
}

static bool reason_is_legal(const struct record *r, int reason)
{
    if (reason == -ETIMEDOUT)
        return r->has_timeout; /* a timeout is its owner's alone */
    return reason == -ECANCELED || reason == -EINTR || reason == -EBUSY || reason == -ESHUTDOWN ||
           code_bit(reason) != 0; /* of a failure above or below */
}

static void check_outcome(const struct record *r, kc_job_t *j)
{
    int code = 0, reason = kc_job_reason(j);
    bool supervisor = r->flags & KC_JOB_SUPERVISOR;
    bool ran = r->kind != BODY || kc_load_relaxed(&r->started);

    CHECK_EQ(kc_job_result(j, &code), 0);
    switch (kc_job_state(j)) {
    case KC_JOB_COMPLETED:
        CHECK_EQ(code, 0);
        CHECK_EQ(reason, 0);
        CHECK_EQ(kc_load_relaxed(&r->firsts), 0);
        CHECK(ran && (!r->main_rc_known || r->rc == 0));
        CHECK(supervisor || r->failures == 0);
        break;
    case KC_JOB_FAILED:
        CHECK(code_bit(code) != 0);
        CHECK(r->unknown || (r->main_rc_known && r->rc == code) ||
              (!supervisor && (r->failures & code_bit(code))));
        break;
    case KC_JOB_CANCELLED:
        CHECK_EQ(code, reason);
        if (!reason_is_legal(r, reason))
            FAIL("a job of kind %d was cancelled for %d", (int)r->kind, reason);
        CHECK(reason == -ETIMEDOUT || supervisor || r->failures == 0);
        break;
    default:
        FAIL("a job is in state %d at the end", (int)kc_job_state(j));
    }
}

static void check_record(const struct record *r)
{
    kc_job_t *j = kc_load_relaxed(&r->handle);
    uint32_t started = kc_load_relaxed(&r->started), disposed = kc_load_relaxed(&r->disposed);
    uint64_t last = kc_load_relaxed(&r->last);

    if (r->kind == BODY) {
        CHECK_EQ(started, kc_load_relaxed(&r->left));
        CHECK_LE(started + disposed, (uint32_t)r->launched);
        CHECK(!r->launched || !r->has_dispose || started + disposed == 1);
    }
    for (const struct record *up = r->parent; up && last; up = up->parent) {
        uint64_t after = kc_load_relaxed(&up->after);
        if (after && last >= after)
            FAIL("record %d ran at %llu, after one above it, %d, was over at %llu",
                 (int)(r - batch.record), (unsigned long long)last, (int)(up - batch.record),
                 (unsigned long long)after);
    }
    if (j)
        check_outcome(r, j);
}

static void check_batch(void)
{
    uint32_t used = kc_load_relaxed(&batch.used);

    for (uint32_t i = 0; i < used; i++) {
        struct record *r = &batch.record[i];
        kc_job_t *j = kc_load_relaxed(&r->handle);
        int code = 0;
        if (!j || !r->parent || r->kind == SCOPE || r->kind == PROMISE ||
            kc_job_state(j) != KC_JOB_FAILED)
            continue;
        CHECK_EQ(kc_job_result(j, &code), 0);
        r->parent->failures |= code_bit(code);
    }
    for (uint32_t i = 0; i < used; i++)
        check_record(&batch.record[i]);
    for (uint32_t i = 0; i < used; i++)
        kc_job_release(kc_load_relaxed(&batch.record[i].handle));
    CHECK(!batch.duties);
}

static void check_nothing_left(void)
{
    CHECK_EQ(kc_test_blocks_left(KC_TASK_MAGIC), 0);
    CHECK_EQ(kc_test_blocks_left(KC_CORO_MAGIC), 0);
    kc__stack_cache_drain(&kc__thread()->stacks);
    kc_stack_stats_t s = kc__stack_stats();
    CHECK_EQ(s.made, s.warm + s.cold);
}

#endif
