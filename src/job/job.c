/* SPDX-License-Identifier: MIT */
/*
 * job.c - the block of a job, its handles, and its place in the tree.
 *
 * WHO      The lock is a bit of the word, held for a few instructions (a dump: some microseconds),
 *          never while code of the user's runs. A child's may be taken under its parent's, by who
 *          tells it of a cancel or opens a scope; never the other way round.
 *
 * ORDER    id     site             operation     pairs with      carries; what breaks if weaker
 *          job.3  attach: word     load_acquire  word.1, word.2  what is under the lock, if it is
 *                                                                taken next
 *          job.4  unref: refs      sub_acq_rel   job.4           all uses before the block is free
 *          job.5  ext              cas_acq_rel,  job.5           its contents
 *                                  load_acquire
 *          job.6  state, result    load_acquire  word.2          code and reason
 */
#include "job/job.h"

#include "job/cancel.h"
#include "job/children.h"
#include "job/job_signal.h"
#include "job/job_timer.h"
#include "job/locals.h"
#include "job/max_running.h"
#include "job/payload.h"

/* ---- memory --------------------------------------------------------------------------------- */

static void ext_free(kc_job_ext_t *ext)
{
    if (ext->timeout)
        kc__job_timer_drop(ext->timeout);
    if (ext->grace_end)
        kc__job_timer_drop(ext->grace_end);
    if (ext->culprit)
        kc__job_unref(ext->culprit); /* whose own is NULL */
    kc__free(ext->message);
    kc__payload_free(ext);
    kc__locals_free(ext);
    kc__job_signal_free(ext);
    kc__free(ext);
}

static KC_NOINLINE void free_slow(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);
    kc_thread_t *t = kc__thread_make();

    if (ext)
        ext_free(ext);
    if (!t)
        kc__die("no memory for the thread's state");
    kc__block_put(&t->jobs, &j->task.block);
}

void kc__job_free(kc_job_t *j)
{
    kc_thread_t *t = kc__thread();

    if (kc_unlikely(kc__job_ext_of(j) || t->serial == 0))
        free_slow(j);
    else
        kc__block_put(&t->jobs, &j->task.block);
}

kc_job_ext_t *kc__job_ext(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j), *none = NULL;

    if (ext)
        return ext;
    ext = kc__alloc(sizeof *ext);
    if (ext && !kc_cas_acq_rel(&j->ext, &none, ext)) { /* job.5 */
        kc__free(ext);
        ext = none; /* another thread was faster */
    }
    return ext;
}

void kc__job_ref(kc_job_t *j)
{
    kc_add_relaxed(&j->refs, 1);
}

/* The last handle of a pending promise is about to go: nobody can keep it any more (D3, D5). */
static KC_NOINLINE void unref_promise(kc_job_t *j)
{
    uint32_t seen = kc_load_relaxed(&j->refs), last = kc__job_flags(j) & KC_JOB_ONESHOT ? 3 : 2;

    do
        if (seen == last && !(kc__job_word(j) & KC_WORD_DONE))
            kc__job_cancel(j, -ECANCELED, KC_BY_USER);
    while (!kc_cas_acq_rel(&j->refs, &seen, seen - 1)); /* job.4 */
    if (seen == 1)
        kc__job_free(j);
}

static _Noreturn KC_COLD void unref_too_often(void)
{
    kc__usage("kc_job_release", "released more often than retained " KC_RULE("J18"));
}

void kc__job_unref(kc_job_t *j)
{
    if (kc_unlikely(kc__job_flags(j) & KC_JOB_PROMISE)) {
        unref_promise(j);
        return;
    }
    /* Who holds the only reference needs no locked operation to give it up. */
    if (kc_load_acquire(&j->refs) != 1) {              /* job.4 */
        uint32_t before = kc_sub_acq_rel(&j->refs, 1); /* job.4 */
        if (kc_likely(before > 1))
            return;
        if (before == 0)
            unref_too_often();
    }
    kc__job_free(j);
}

void kc__job_give_up(kc_job_t *j)
{
    if (kc_load_acquire(&j->refs) != 1) { /* job.4 */
        kc__job_unref(j);
        return;
    }
    if (kc_unlikely(!(kc__job_word(j) & KC_WORD_DONE)))
        unref_too_often(); /* until it is terminal one reference is the tree's */
    kc__job_free(j);
}

/* ---- the tree ------------------------------------------------------------------------------- */

/* Why one with such a word takes no more children; 0: it does. */
static int refusal(uint64_t word)
{
    if ((word & KC_WORD_COUNT) == 0)
        return -ESHUTDOWN;
    if (word & KC_WORD_HALT)
        return -ECANCELED;
    return word & KC_WORD_CLOSED ? -ESHUTDOWN : 0;
}

/* Under the lock of its parent, which is effectively cancelled: so is scope j from its birth. */
static void cancel_newborn(kc_job_t *parent, kc_job_t *j)
{
    j->reason = kc__job_reason_below(parent);
    kc__job_change(j, kc__job_born_mark(parent), 0);
}

static KC_NOINLINE int attach_slow(kc_job_t *parent, kc_job_t *j)
{
    bool scope =
        kc__job_flags(j) & KC_JOB_SCOPE; /* the body of the parent opens it: it is there */
    uint64_t seen = kc__word_seen(&parent->task);

    do {
        int rc = scope ? 0 : refusal(seen);
        if (rc != 0)
            return rc;
    } while (!kc__word_swap(&parent->task, &seen, seen | KC_WORD_LOCK));
    /* Not HALT alone: then only the children are cancelled, and the body continues (J24). */
    bool stopped = scope && (seen & KC_WORD_STOP);
    if (stopped)
        cancel_newborn(parent, j);
    kc__children_add(parent, j);
    if (stopped)
        parent->children = j->next; /* it was told, so it is the last */
    kc__job_unlock_to(parent, kc__word_count_up(seen, 1));
    return 0;
}

int kc__job_attach(kc_job_t *parent, kc_job_t *j)
{
    const uint64_t others = KC_WORD_CLOSED | KC_WORD_HALT | KC_WORD_STOP | KC_WORD_LOCK;
    uint64_t seen = kc_load_acquire(&parent->task.word), word = seen; /* job.3 */
    uint64_t more = (seen & KC_WORD_COUNT) - 1; /* it counts 1 at least, and has room */

    if (kc_unlikely((seen & others) || more >= KC_WORD_COUNT - 1) ||
        !kc__word_swap(&parent->task, &seen, word | KC_WORD_LOCK))
        return attach_slow(parent, j);
    kc__children_add(parent, j);
    kc__job_unlock_to(parent, kc__word_count_up(word, 1));
    return 0;
}

bool kc__job_admit_in(kc_job_t *parent, kc_job_ext_t *ext, kc_job_t *j)
{
    if (kc_likely(ext->max_running == 0))
        return true;
    bool halted = kc__job_lock(parent) & KC_WORD_HALT;
    int reason = kc__job_reason_below(parent);
    kc__tsan_release(j); /* another thread may submit it */
    bool waits = ext->running >= ext->max_running && !halted && !kc__job_is_stopped(j);
    kc_store_relaxed(&j->task.block.flags, kc__job_flags(j) | KC_JOB_COUNTED);
    if (waits)
        kc__pending_push(ext, j);
    else
        ext->running++;
    kc__job_unlock(parent);
    if (halted) /* the walk may not have come to it: it must not start all the same */
        kc__job_cancel(j, reason, KC_BY_PARENT);
    return !waits;
}

/* ---- what users may ask of a handle ---------------------------------------------------------- */

kc_job_t *kc_job_current(void)
{
    return kc__job_current();
}

void kc__job_not_live(const char *call, const void *handle)
{
    if (!handle)
        kc__usage(call, "the job is NULL " KC_RULE("J18"));
    if (kc__block_is_free(handle))
        kc__usage(call, "the job has been freed " KC_RULE("J18"));
    kc__usage(call, "the pointer is not a job " KC_RULE("J18"));
}

kc_job_t *kc_job_retain(kc_job_t *j)
{
    kc__job_ref(kc__job_live("kc_job_retain", j));
    return j;
}

void kc_job_release(kc_job_t *j)
{
    if (j)
        kc__job_give_up(kc__job_live("kc_job_release", j));
}

kc_job_state_t kc_job_state(const kc_job_t *j)
{
    uint64_t word = kc_load_acquire(&kc__job_live("kc_job_state", j)->task.word); /* job.6 */

    kc__tsan_acquire(j);
    if (word & KC_WORD_DONE)
        return word & KC_WORD_DONE_FAILED      ? KC_JOB_FAILED
               : word & KC_WORD_DONE_CANCELLED ? KC_JOB_CANCELLED
                                               : KC_JOB_COMPLETED;
    return word & KC_WORD_CANCELLED ? KC_JOB_CANCELLING : KC_JOB_ACTIVE;
}

int kc_job_result(const kc_job_t *j, int *code)
{
    if (!j)
        return -EINVAL;
    uint64_t word = kc_load_acquire(&kc__job_live("kc_job_result", j)->task.word); /* job.6 */
    if (!(word & KC_WORD_DONE))
        return -EAGAIN;
    int result = kc__job_result(j);
    if (code)
        *code = result;
    return 0;
}

const char *kc_job_name(const kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(kc__job_live("kc_job_name", j));

    return ext ? ext->name : "";
}

uint64_t kc_job_id(const kc_job_t *j)
{
    return kc__job_number(kc__job_live("kc_job_id", j));
}

void kc__job_record(kc_sched_t *s, kc_job_t *j, int64_t at, kc_event_kind_t kind)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);
    bool top = kc__job_flags(j->parent) & KC_JOB_ROOT;
    kc_record_t e = { .at = at,
                      .job = kc__job_number(j),
                      .other = top ? 0 : kc__job_number(j->parent),
                      .kind = (uint8_t)kind,
                      .value = (int32_t)kc__job_flags(j),
                      .state = kc__job_word(j) & KC_WORD_CANCELLED ? KC_JOB_CANCELLING
                                                                   : KC_JOB_ACTIVE };

    kc__sched_record(s, e, ext && ext->name[0] ? ext->name : NULL);
}
