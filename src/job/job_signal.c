/* SPDX-License-Identifier: MIT */
/*
 * job_signal.c - the signal of a job: user bits go down the tree, TERMINATE is a cancel.
 *
 * WHAT     Few jobs use their signal, so it is made when it is asked for: with it those of all jobs
 *          above, each chained to the one below it. The chains carry all bits but TERMINATE,
 *          which the tree itself carries (cancel.c). When a cancel takes effect its bit is set here
 *          under the lock of the job, so that a thread that sees the cancel sees the bit; then the
 *          listeners are told.
 *
 * SHAPE    signal of a job   signal   the job's own; its owner is the job
 *                          from     a slot on the parent's signal, chained to the job's own
 *                          slot     a slot on the job's own: kc_current_slot
 *                          outside  a slot on the signal of .signal, chained to `obeys`, a signal
 *                                   that is nothing but its owner, the job: what comes is a cancel.
 *                                   A chain and no handler, as jobs that obey jobs do not nest then
 *                          bits     another slot there, for all but TERMINATE, chained to the job's
 *                                   own signal
 */
#include "job/job_signal.h"

#include "base/os.h"
#include "job/cancel.h"
#include "job/end.h"
#include "job/external.h"
#include "job/job.h"
#include "job/launch.h"
#include "signal/handler.h"
#include "signal/signal.h"

#include <errno.h>

/* WHOLE: all above are bound too, up to one that is cut off, or the root. */
enum { CHAIN_NONE, CHAIN_BUSY, CHAIN_BOUND, CHAIN_WHOLE, CHAIN_CUT };

struct kc_job_signal {
    kc_signal_t *signal; /* L  NULL: nobody has asked                       */
    kc_signal_t *obeys;  /* I  NULL: there is no .signal                    */
    uint8_t chain;       /* L  whether from is bound: CHAIN_*               */
    bool has_slot;       /* L  slot is bound                                */
    bool has_outside;    /* L  outside and bits are bound                    */
    kc_slot_t from, slot, outside, bits;
};

/* ---- the owner of a signal ------------------------------------------------------------------ */

static void pin(void *owner)
{
    kc__job_ref(owner);
}

static bool cancel(void *owner)
{
    return kc_job_cancel(owner, 0);
}

static void unpin(void *owner)
{
    kc__job_unref(owner);
}

static bool cancel_by_signal(void *owner)
{
    return kc__job_cancel(owner, -ECANCELED, KC_BY_USER);
}

static bool hold_open(void *owner)
{
    return kc__job_count_up(owner);
}

static void was_told(void *owner)
{
    kc__job_count_down_there(owner);
}

static const struct kc_signal_owner job_owner = { pin, cancel, unpin, hold_open, was_told };
static const struct kc_signal_owner outside_owner = { pin, cancel_by_signal, unpin, hold_open,
                                                      was_told };

/* ---- making them ---------------------------------------------------------------------------- */

/* What j has; NULL: nothing yet. */
static struct kc_job_signal *find(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);

    if (!ext)
        return NULL;
    kc__job_lock(j);
    struct kc_job_signal *js = ext->signal;
    kc__job_unlock(j);
    return js;
}

static kc_signal_t *signal_of(kc_job_t *j, struct kc_job_signal *js)
{
    kc__job_lock(j);
    kc_signal_t *signal = js ? js->signal : NULL;
    kc__job_unlock(j);
    return signal;
}

static struct kc_job_signal *find_or_make(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext(j);
    struct kc_job_signal *js = ext ? find(j) : NULL;

    if (!ext || js)
        return js;
    js = kc__alloc(sizeof *js);
    if (!js)
        return NULL;
    kc__job_lock(j);
    struct kc_job_signal *other = ext->signal;
    if (!other)
        ext->signal = js;
    kc__job_unlock(j);
    if (other)
        kc__free(js);
    return other ? other : js;
}

/* The signal of j alone. */
static kc_signal_t *own_signal(kc_job_t *j)
{
    struct kc_job_signal *js = find_or_make(j);

    if (!js)
        return NULL;
    kc_signal_t *made = signal_of(j, js) ? NULL : kc__signal_new_owned(&job_owner, j);
    uint64_t word = kc__job_lock(j);
    if (!js->signal && made) {
        js->signal = made;
        made = NULL;
        if (word & KC_WORD_STOP) /* it took effect before anybody could listen */
            kc__signal_preset(js->signal, KC_SIG_TERMINATE);
        if (word & KC_WORD_DONE)
            kc__signal_disown(js->signal);
    }
    kc_signal_t *signal = js->signal;
    kc__job_unlock(j);
    kc_signal_release(made); /* another thread was faster */
    return signal;
}

int kc__job_signal_prepare(kc_job_t *j, kc_signal_t *signal)
{
    kc_signal_t *own = own_signal(j);
    struct kc_job_signal *js = own ? find_or_make(j) : NULL;

    if (!js || !(js->obeys = kc_signal_create(0)))
        return -ENOMEM;
    kc_slot_bind(&js->outside, signal, KC_SIG_TERMINATE);
    kc_slot_bind(&js->bits, signal, KC_SIG_ALL & ~KC_SIG_TERMINATE);
    js->has_outside = true;
    int rc = kc_slot_chain(&js->outside, js->obeys);
    return rc == 0 ? kc_slot_chain(&js->bits, own) : rc;
}

/* Locks j; if it waits, when nobody is about to chain it. */
static uint8_t lock_chain(kc_job_t *j, struct kc_job_signal *js, bool waits)
{
    uint32_t looks = 0;

    kc__job_lock(j);
    while (waits && js->chain == CHAIN_BUSY) {
        kc__job_unlock(j);
        kc__os_back_off(&looks);
        kc__job_lock(j);
    }
    return js->chain;
}

/* Chains the signal of the parent to that of j. 0; -ENOMEM; -EBUSY: another thread is about to. */
static int chain(kc_job_t *parent, kc_job_t *j)
{
    struct kc_job_signal *js = find_or_make(j);
    kc_signal_t *from = own_signal(parent), *to = js ? signal_of(j, js) : NULL;

    if (!from || !to)
        return -ENOMEM;
    /* In a handler it does not wait: who is about to may be this thread, which tells what has been
     * before. */
    uint8_t was = lock_chain(j, js, !kc__signal_is_in_handler());
    if (was == CHAIN_NONE)
        js->chain = CHAIN_BUSY;
    kc__job_unlock(j);
    if (was != CHAIN_NONE)
        return was == CHAIN_BUSY ? -EBUSY : 0;
    kc_slot_bind(&js->from, from, KC_SIG_ALL & ~KC_SIG_TERMINATE);
    bool ok = kc_slot_chain(&js->from, to) == 0;
    if (!ok)
        kc_slot_unbind(&js->from);
    kc__job_lock(j);
    js->chain = ok ? CHAIN_BOUND : CHAIN_NONE;
    kc__job_unlock(j);
    return ok ? 0 : -ENOMEM;
}

/* There is nothing to be done for j and the signals above. */
static bool is_whole(kc_job_t *j)
{
    struct kc_job_signal *js = find(j);

    if (!j->parent || (kc__job_flags(j->parent) & KC_JOB_ROOT) ||
        (kc__job_word(j) & KC_WORD_FORBID))
        return true;
    kc__job_lock(j);
    bool whole = js && js->chain >= CHAIN_WHOLE;
    kc__job_unlock(j);
    return whole;
}

/* j hears of all above, and so do those between. */
static void mark_whole(kc_job_t *j)
{
    struct kc_job_signal *js = find(j);

    kc__job_lock(j);
    if (js->chain == CHAIN_BOUND)
        js->chain = CHAIN_WHOLE;
    kc__job_unlock(j);
}

/* Chains all above j, which is held: so they are there. 0 or -ENOMEM. */
static int chain_all(kc_job_t *j)
{
    int rc = 0;
    bool all = true;

    for (kc_job_t *at = j; !is_whole(at) && rc != -ENOMEM; at = at->parent) {
        rc = chain(at->parent, at);
        all = all && rc == 0;
    }
    for (kc_job_t *at = j; all && !is_whole(at); at = at->parent)
        mark_whole(at);
    return rc == -ENOMEM ? rc : 0;
}

kc_signal_t *kc_job_signal(kc_job_t *j)
{
    kc_signal_t *signal = own_signal(kc__job_live("kc_job_signal", j));
    kc_sched_t *s = kc__job_sched(j);
    bool foreign = kc__external_begin_foreign(s);
    bool held = signal && kc__job_count_up(j);

    if (held && chain_all(j) != 0)
        signal = NULL;
    if (held)
        kc__job_count_down(j, 0);
    if (foreign)
        kc__external_end(s);
    return signal;
}

kc_slot_t *kc_current_slot(void)
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);
    kc_job_t *own = co ? kc__job_own(co) : NULL;

    if (!own || (kc__job_word(own) & KC_WORD_FORBID))
        return NULL;
    kc_signal_t *signal = kc_job_signal(own);
    struct kc_job_signal *js = signal ? find_or_make(own) : NULL;
    if (!js)
        return NULL;
    if (!js->has_slot) { /* only its own coroutine comes here */
        kc_slot_bind(&js->slot, signal, KC_SIG_ALL);
        js->has_slot = true;
    }
    return &js->slot;
}

/* ---- what comes from outside ---------------------------------------------------------------- */

void kc__job_signal_bind(kc_job_t *j)
{
    struct kc_job_signal *js = find_or_make(j);
    kc_sigset_t before = KC_SIG_NONE;

    kc__job_lock(j);
    if (js->has_outside) /* else it has ended: a promise may, at any time */
        before = kc__signal_own(js->obeys, &outside_owner, j);
    kc__job_unlock(j);
    if (before & KC_SIG_TERMINATE)
        kc__job_cancel(j, -ECANCELED, KC_BY_USER);
}

bool kc__job_signal_terminate(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);
    kc_signal_t *signal = ext && ext->signal ? ext->signal->signal : NULL;

    return signal && kc__signal_preset(signal, KC_SIG_TERMINATE);
}

void kc__job_signal_tell(kc_job_t *j)
{
    kc__signal_tell(signal_of(j, find(j)), KC_SIG_TERMINATE);
}

void kc__job_signal_cut(kc_job_t *j)
{
    struct kc_job_signal *js = find(j);

    if (!js)
        return;
    uint8_t was = lock_chain(j, js, true);
    bool chained = was == CHAIN_BOUND || was == CHAIN_WHOLE;
    bool outside = js->has_outside, slot = js->has_slot;
    js->has_outside = js->has_slot = false;
    js->chain = CHAIN_CUT; /* nobody binds it again */
    kc__job_unlock(j);
    if (chained)
        kc_slot_unbind(&js->from);
    if (outside) {
        kc_slot_unbind(&js->bits);
        kc_slot_unbind(&js->outside);
        kc__signal_disown(js->obeys);
    }
    if (slot)
        kc_slot_unbind(&js->slot);
}

void kc__job_signal_end(kc_job_t *j)
{
    kc_signal_t *signal = signal_of(j, find(j));

    if (signal)
        kc__signal_disown(signal);
}

void kc__job_signal_free(kc_job_ext_t *ext)
{
    struct kc_job_signal *js = ext->signal;

    if (!js)
        return;
    if (js->has_outside) { /* it never was in the tree */
        kc_slot_unbind(&js->bits);
        kc_slot_unbind(&js->outside);
    }
    kc_signal_release(js->obeys);
    kc_signal_release(js->signal);
    kc__free(js);
}

void kc_forbid_signal(void)
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);
    kc_job_t *own = co ? kc__job_own(co) : NULL;

    if (!own)
        kc__usage("kc_forbid_signal", "there is no current job " KC_RULE("J24"));
    uint64_t word = kc__job_lock(own);
    bool may = !(word & (KC_WORD_CANCELLED | KC_WORD_FORBID));
    kc__job_unlock_to(own, word | (may ? KC_WORD_FORBID : 0));
    if (may)
        kc__job_signal_cut(own);
}
