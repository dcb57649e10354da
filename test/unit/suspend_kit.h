/* SPDX-License-Identifier: MIT */
/*
 * suspend_kit.h - a wait in kc_suspend whose waker is kept, and that keeps books.
 */
#ifndef KC_TEST_SUSPEND_KIT_H
#define KC_TEST_SUSPEND_KIT_H

#include "job_kit.h"

/* A wait whose waker is kept, for whoever ends it. */
struct own {
    count_t begun, cancels;
    KC_ATOMIC(kc_waker_t *) waker; /* set by begin */
    int cancel_rc;                 /* what `cancelled` wakes it with, if it does */
    bool cancel_wakes;
    pthread_t thread;     /* where begin ran */
    kc_job_t *job;        /* ... and in which job */
    kc_job_t *cancel_job; /* the current job in `cancelled` */
    int rc;               /* what kc_suspend returned */
    count_t over;
};

static UNUSED void begins(kc_waker_t *w, void *arg)
{
    struct own *o = arg;

    o->thread = pthread_self();
    o->job = kc_job_current();
    kc_store_release(&o->waker, w);
    add(&o->begun);
}

static UNUSED void is_cancelled(kc_waker_t *w, void *arg)
{
    struct own *o = arg;

    CHECK(kc_load_acquire(&o->waker) == w);
    CHECK(pthread_equal(pthread_self(), o->thread));
    o->cancel_job = kc_job_current();
    add(&o->cancels);
    if (o->cancel_wakes)
        kc_wake(w, o->cancel_rc);
}

static UNUSED int suspends(void *arg)
{
    struct own *o = arg;

    o->rc = kc_suspend(begins, is_cancelled, o);
    if (get(&o->begun))
        CHECK(pthread_equal(pthread_self(), o->thread));
    else
        CHECK_EQ(o->rc, -ECANCELED); /* by a timeout, between its start and the call */
    add(&o->over);
    return 0;
}

static UNUSED int suspends_firmly(void *arg)
{
    struct own *o = arg;

    o->rc = kc_suspend(begins, NULL, o);
    add(&o->over);
    return 0;
}

static UNUSED kc_waker_t *waker_of(struct own *o)
{
    UNTIL(get(&o->begun));
    return kc_load_acquire(&o->waker);
}

/* It waits: not only begin has run. */
static UNUSED void until_suspended(kc_job_t *j)
{
    UNTIL(kc_load_relaxed(&j->task.kind) == KC_WAIT_SUSPEND);
}

static UNUSED void wakes_at_once(kc_waker_t *w, void *arg)
{
    begins(w, arg);
    kc_wake(w, 5);
}

static UNUSED void cancels_itself(kc_waker_t *w, void *arg)
{
    begins(w, arg);
    kc_cancel_current(0);
}

#endif
