/* SPDX-License-Identifier: MIT */
/*
 * chan_model_world.c - what chan_model.c and select_model.c are made of: src/sync/chan.c, buffer.c
 * and select.c with the spin lock of lock.h, and what they call.
 *
 * WHAT     A part of those files, which include it. The sources are included too, so that a pause
 *          in one of their loops can be model_spin, and the copy of an item is one of plain data:
 *          an item that does not happen before its reader is a data race. So are the heads of the
 *          queues. The threads are plain ones. A wait for a time ends at once, unless somebody was
 *          faster: every moment at which it could end is one of the schedules.
 *
 * ORDER    id                  site         operation      pairs with          carries
 *          chan_model_world.1  claim: word  cas_acq_rel    chan_model_world.1  as wait.1
 *          chan_model_world.2  wake: word   store_release  chan_model_world.3  as wait.2
 *          chan_model_world.3  wait: word   load_acquire   chan_model_world.2  as wait.3
 */
#include "base/base.h"
#include "harness.h"
#include "model_case.h"
#include "sched/sched.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- what the sources see instead ----------------------------------------------------------- */

#define memcpy(to, from, size) copy_item((to), (from), (size))

static void copy_item(void *to, const void *from, size_t size);

/* The count of a buffer is read without the lock for kc_chan_len only: here it is plain data. */
#pragma push_macro("kc_load_relaxed")
#pragma push_macro("kc_store_relaxed")
#undef kc_load_relaxed
#undef kc_store_relaxed
#define kc_load_relaxed(p) model_read(p)
#define kc_store_relaxed(p, v) model_write(p, v)
#include "sync/buffer.h"
#pragma pop_macro("kc_load_relaxed")
#pragma pop_macro("kc_store_relaxed")

#include "sync/buffer.c" /* NOLINT(bugprone-suspicious-include): the model copies its items */
#include "sync/chan.c"   /* NOLINT(bugprone-suspicious-include) */

/* In select.c alone: whoever claims there claims itself, and the lock is that of the next try. */
static bool claim_self(kc_wait_t *w, int rc);
static void lock_next_try(kc_lock_t *l);
static void unlock_next_try(kc_lock_t *l);
#define kc__wait_claim(w, rc) claim_self(w, rc)
#define kc__lock(l) lock_next_try(l)
#define kc__unlock(l) unlock_next_try(l)
#include "sync/select.c" /* NOLINT(bugprone-suspicious-include) */
#undef kc__wait_claim
#undef kc__lock
#undef kc__unlock
#undef memcpy

enum { THREADS = 3, CHANS = 2, BLOCKS = 8, BLOCK_BYTES = 4096, ITEMS = 6, WAITS = 8 };

static struct {
    kc_thread_t thread[THREADS];
    _Alignas(64) char block[BLOCKS][BLOCK_BYTES]; /* what kc__alloc gives */
    kc_chan_t *c[CHANS];
    uint64_t item[THREADS], got[THREADS]; /* plain: what a thread sends, and where it receives */

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    int blocks, freed[BLOCKS];
    int rc[THREADS];    /* what the call of each thread returned; 1 before that */
    int index[THREADS]; /* of a select: which case happened; -1: none */
    int seen[ITEMS + 1];
    int claimed, woken;
    int tries[THREADS]; /* waits that each thread has begun */
    struct {
        const kc_wait_t *wait;
        uint32_t word; /* as it was last written */
    } last[WAITS];
} s;

/* wrong: a select does not claim itself before it does what it sees; several try again at once */
static bool keeps_unclaimed, all_at_once;

static void copy_item(void *to, const void *from, size_t size)
{
    model_assert(size == sizeof(uint64_t));
    uint64_t value = model_read((const uint64_t *)from);
    model_write((uint64_t *)to, value);
}

/* ---- what they call: memory and the scheduler; see world.c, too ----------------------------- */

void *kc__alloc(size_t size)
{
    model_assert(s.blocks < BLOCKS && size <= BLOCK_BYTES);
    return s.block[s.blocks++];
}

void kc__free(void *p)
{
    if (!p)
        return;
    int i = (int)(((char *)p - s.block[0]) / BLOCK_BYTES);
    s.freed[i]++;
    model_assert(s.freed[i] == 1);
    model_free(s.block[i], BLOCK_BYTES);
}

void kc__os_wait(const void *word, uint32_t expected, int64_t until)
{
    (void)until;
    model_block((const uint32_t *)word, expected);
}

void kc__os_wake(const void *word)
{
    model_wake((const uint32_t *)word, 1);
}

static void lock_next_try(kc_lock_t *l)
{
    if (!all_at_once)
        kc__lock(l);
}

static void unlock_next_try(kc_lock_t *l)
{
    if (!all_at_once)
        kc__unlock(l);
}

kc_time_t kc_now(void)
{
    return 0;
}

uint64_t kc__worker_random(kc_worker_t *w)
{
    (void)w;
    return 0; /* plain threads have no worker, and these selects are biased */
}

/* ---- waits: those of plain threads ---------------------------------------------------------- */

/* What was written last where this wait is. */
static uint32_t *last_word(kc_wait_t *w)
{
    int i = 0;

    while (i < WAITS - 1 && s.last[i].wait && s.last[i].wait != w)
        i++;
    model_assert(!s.last[i].wait || s.last[i].wait == w);
    s.last[i].wait = w;
    return &s.last[i].word;
}

/* A wait lies in a frame, where another one may have been, and then something else: the checker
 * takes the two waits for one object, and must not see what came between. */
void kc__wait_begin_checked(kc_wait_t *w, kc_wait_kind_t kind, const void *object)
{
    s.tries[kc__thread() - s.thread]++;
    w->word = *last_word(w);
    kc_store_relaxed(&w->word, 0);
    *last_word(w) = 0;
    w->kind = kind;
    w->object = object;
    w->timed_out = -ETIMEDOUT;
    w->link.next = NULL;
}

bool kc__wait_claim(kc_wait_t *w, int rc)
{
    uint32_t waits = 0;

    if (!kc_cas_acq_rel(&w->word, &waits, 1)) /* chan_model_world.1 */
        return false;
    s.claimed++;
    *last_word(w) = 1;
    model_write(&w->rc, rc);
    return true;
}

bool kc__wait_claim_own(kc_wait_t *w, int rc)
{
    return kc__wait_claim(w, rc);
}

static bool claim_self(kc_wait_t *w, int rc)
{
    if (!keeps_unclaimed)
        return kc__wait_claim(w, rc);
    return kc__wait_is_open(w);
}

void kc__wait_wake(kc_wait_t *w)
{
    s.woken++;
    kc_store_release(&w->word, KC_DONE); /* chan_model_world.2 */
    *last_word(w) = KC_DONE;
}

void kc__wait_hand_over(kc_thread_t *t, kcoro_t *co, kc_wait_t *w)
{
    (void)t, (void)co;
    kc__wait_wake(w);
}

int kc__wait_let_others(kc_thread_t *t, kcoro_t *co)
{
    (void)t, (void)co;
    model_fail("a plain thread has no credit");
}

int kc__wait_commit(kc_wait_t *w, kc_time_t deadline)
{
    if (deadline == KC_FOREVER || !kc__wait_claim(w, w->timed_out))
        model_wait_until(kc_load_acquire(&w->word) == KC_DONE); /* chan_model_world.3 */
    return model_read(&w->rc);
}

/* ---- parts of models ------------------------------------------------------------------------ */

static kcoro_t outside; /* what stands for the stack of a plain thread */

static void enters(int i)
{
    s.thread[i].current = s.thread[i].main_co = &outside;
    kc__thread_self = &s.thread[i];
}

enum { SOON = 1 }; /* a deadline: over at once */

/* Something came out of a channel: one that was sent, and once. */
static void books(uint64_t item)
{
    model_assert(item >= 1 && item <= ITEMS);
    s.seen[item]++;
    model_assert(s.seen[item] == 1);
}

static void reset(size_t capacity, void (*undelivered)(void *, void *))
{
    kc_chan_opts_t opts = { sizeof(uint64_t), capacity, undelivered, NULL, NULL };

    memset(&s, 0, sizeof s);
    kc_store_relaxed(&next_try.word, 0);
    model_name(&next_try.word, "next try");
    for (int i = 0; i < THREADS; i++) {
        s.thread[i].serial = (uint32_t)i + 1;
        s.item[i] = (uint64_t)i + 1; /* thread i sends i + 1; more are sent by setups */
        s.rc[i] = 1;
        s.index[i] = -1;
        model_name(&s.item[i], "item");
        model_name(&s.got[i], "got");
    }
    enters(0);
    for (int i = 0; i < CHANS; i++) {
        int rc = kc_chan_create_with(&opts, &s.c[i]);
        model_assert(rc == 0);
        model_name(&s.c[i]->lock.word, i ? "lock of b" : "lock of a");
        model_name(&s.c[i]->senders, i ? "senders of b" : "senders of a");
        model_name(&s.c[i]->receivers, i ? "receivers of b" : "receivers of a");
    }
}

static void reset_meeting(void)
{
    reset(0, NULL);
}

/* Nobody stands anywhere, and what was claimed by another was woken. */
static void nobody_stands(void)
{
    for (int i = 0; i < CHANS; i++)
        model_assert(!s.c[i]->senders && !s.c[i]->receivers && s.c[i]->lock.word == 0);
    model_assert(s.woken <= s.claimed);
}

const struct model_file model_file = { .enters = enters, .slow = true };
