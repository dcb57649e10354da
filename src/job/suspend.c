/* SPDX-License-Identifier: MIT */
/*
 * suspend.c - a wait of one's own: kc_suspend and kc_wake.
 *
 * WHAT     A wait like any other (wait.h), which only kc_wake ends: a cancel does not claim it, but
 *          has `cancelled` called. That is the user's code, so it runs on the thread's own
 *          stack (S16): the cancel, which may come under locks and from inside a handler, sends the
 *          waker as a message to its own thread, which reads it when it is back on its own stack. A
 *          cancel inside `cancelled` sends another message: such calls do not nest.
 *
 *          The body does not continue while `cancelled` runs, so that may use the frame of the
 *          body: it is the thread of the body that reads the message, and only that thread resumes
 *          a body or moves it elsewhere. But a body that was woken and moved may continue before
 *          its old thread reads the message. So the waker is a block of its own, on which
 *          kc_suspend and the message have references; the message then does nothing.
 *
 * SHAPE    state   0 --kc_wake: suspend.1--> WOKEN                          not called any more
 *                  0 --message: suspend.2--> CALLED --kc_wake: suspend.1--> CALLED | WOKEN
 *
 *          WOKEN comes before the claim of the wait, so only kc_wake claims it.
 *
 * WHO      told: the thread of the body. wait: the thread that sets WOKEN, until it has woken the
 *          body. The body counts itself as waiting for a foreign side (KC_COUNT_SUSPENDS) from
 *          before begin until it continues (S11).
 *
 * ORDER    id         site            operation    pairs with  carries; what breaks if weaker
 *          suspend.1  kc_wake: state  cas_acq_rel  suspend.1,  (the word alone: one step, or two
 *                                                  suspend.2   wake one wait, or it is forgotten
 *                                                              that `cancelled` was called)
 *          suspend.2  message: state  cas_acq_rel  suspend.1   (the word alone: one step, or
 *                                                              `cancelled` is called after kc_wake
 *                                                              has returned)
 *          suspend.3  unref: refs     sub_acq_rel  suspend.3   all uses before the block is free
 *
 * WHY NOT  kc_wake waits until a call of `cancelled` has returned: then that could never ask the
 *          foreign side to wait for its callback, nor take a lock that is held around kc_wake.
 *          The body is resumed to call `cancelled` on its own stack: then the wait has to begin
 *          anew, while kc_wake comes.
 */
#include "job/suspend.h"

#include "job/body.h"
#include "job/handle.h"
#include "job/job.h"
#include "sched/worker.h"
#include "signal/handler.h"

#include <errno.h>

enum { WOKEN = 1, CALLED = 2 };

struct waker {
    kc_handle_t handle;
    KC_ATOMIC(uint32_t) state;                   /* A                                          */
    KC_ATOMIC(uint32_t) refs;                    /* A  kc_suspend, and a message               */
    bool told;                                   /* O  there was a message                     */
    kc_wait_t *wait;                             /* I  in the frame of kc_suspend              */
    void (*cancelled)(kc_waker_t *w, void *arg); /* I  NULL: a cancel does not count           */
    void *arg;                                   /* I                                          */
};

_Static_assert(sizeof(struct waker) <= KC_BLOCK_SIZE, "a waker fits a block");

/* ---- the waker ------------------------------------------------------------------------------ */

static struct waker *waker_of(kc_handle_t *h)
{
    return kc_container_of(h, struct waker, handle);
}

static void unref(struct waker *k)
{
    if (kc_sub_acq_rel(&k->refs, 1) == 1) /* suspend.3 */
        kc__handle_free(&k->handle);
}

/* Calls of the user's code in which nothing may wait. */
static void call(struct waker *k, void (*fn)(kc_waker_t *w, void *arg))
{
    struct kc_handler_state *h = kc__handler_state();

    kc__handler_begin(h);
    fn(kc__handle_name(&k->handle), k->arg);
    kc__handler_end(h);
}

/* ---- who ends it ---------------------------------------------------------------------------- */

static _Noreturn KC_COLD void used_before(void)
{
    kc__usage("kc_wake", "the waker has been used, or the pointer is not a waker " KC_RULE("J34"));
}

static struct waker *live(const kc_waker_t *waker)
{
    if (!waker)
        kc__usage("kc_wake", "the waker is NULL " KC_RULE("J34"));
    kc_handle_t *h = kc__handle_find(waker, KC_WAKER_MAGIC);
    if (!h)
        used_before();
    return waker_of(h);
}

void kc_wake(kc_waker_t *waker, int rc)
{
    struct waker *k = live(waker);
    uint32_t seen = kc_load_relaxed(&k->state);

    do
        if (seen & WOKEN)
            used_before();
    while (!kc_cas_acq_rel(&k->state, &seen, seen | WOKEN)); /* suspend.1 */
    kc_wait_t *w = k->wait;
    bool claimed = kc__wait_claim(w, rc);
    KC_ASSERT(claimed);
    kc__wait_wake(w);
}

void kc__suspend_cancel(const kc_wait_t *w)
{
    struct waker *k = (struct waker *)(uintptr_t)w->object;

    if (!k->cancelled || k->told)
        return;
    k->told = true;
    kc_add_relaxed(&k->refs, 1);
    kc__worker_read_later(kc__worker(), &k->handle.block);
    kc__worker_tell_loop(kc__worker());
}

void kc__suspend_message(kc_block_t *block)
{
    struct waker *k = waker_of(kc_container_of(block, kc_handle_t, block));
    uint32_t none = 0;

    if (kc_cas_acq_rel(&k->state, &none, CALLED)) /* suspend.2 */
        call(k, k->cancelled);
    unref(k);
}

/* ---- who waits ------------------------------------------------------------------------------ */

KC_AFTER_SWITCH int kc_suspend(void (*begin)(kc_waker_t *w, void *arg),
                               void (*cancelled)(kc_waker_t *w, void *arg), void *arg)
{
    kc_thread_t *t = kc__thread_make();
    kc_wait_t w;

    if (!begin || !t)
        return begin ? -ENOMEM : -EINVAL;
    kc__wait_check(t->current, "kc_suspend");
    kcoro_t *co = kc__task_coroutine(t->current);
    int rc = kc__job_check_cancel(co);
    kc_handle_t *h = rc == 0 ? kc__handle_new(t, KC_WAKER_MAGIC) : NULL;
    if (!h)
        return rc ? rc : -ENOMEM;
    struct waker *k = waker_of(h);
    kc_store_relaxed(&k->state, 0);
    kc_store_relaxed(&k->refs, 1);
    k->told = false;
    k->wait = &w;
    k->cancelled = cancelled;
    k->arg = arg;
    kc__wait_begin_uncancellable(&w, KC_WAIT_SUSPEND, k);
    if (co)
        kc__worker_count(t->worker, KC_COUNT_SUSPENDS);
    call(k, begin);
    if (co && kc__job_is_stopped(kc__job_of(co->task)))
        kc__suspend_cancel(
            &w); /* it did not wait yet when begin, or what that did, cancelled it */
    rc = kc__wait_commit(&w, KC_FOREVER);
    bool called = kc_load_relaxed(&k->state) & CALLED;
    unref(k);
    if (co)
        kc__worker_count(kc__worker(), KC_COUNT_RESUMES);
    if (co && called)
        (void)kc__job_cancelled_here(co); /* then its body may have to be unwound (J17) */
    return rc;
}
