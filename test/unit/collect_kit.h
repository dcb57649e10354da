/* SPDX-License-Identifier: MIT */
/*
 * collect_kit.h - bodies that the tests of collect.h share.
 */
#ifndef KC_TEST_COLLECT_KIT_H
#define KC_TEST_COLLECT_KIT_H

#include "job_kit.h"

#define LOW (1ull << 16)
#define HIGH (1ull << 48)

/* What the bodies below share; each test sets it back. */
static count_t in, out, gate, heard;
static KC_ATOMIC(kc_job_t *) leader;

static UNUSED void start_afresh(void)
{
    kc_job_release(kc_load_acquire(&leader));
    kc_store_release(&leader, NULL);
    set(&in, 0);
    set(&out, 0);
    set(&gate, 0);
    set(&heard, 0);
}

/* ---- bodies ----------------------------------------------------------------------------- */

/* Gives its argument as the payload. */
static UNUSED int gives(void *arg)
{
    kc_set_payload(arg);
    return 0;
}

static UNUSED int fails_with_a_payload(void *arg)
{
    kc_set_payload(&in);
    return (int)(intptr_t)arg;
}

/* Ends when `in` are as many as its argument says. */
static UNUSED int ends_after(void *arg)
{
    UNTIL(get(&in) >= (int)(intptr_t)arg);
    return 0;
}

static UNUSED int fails_after(void *arg)
{
    (void)ends_after(arg);
    return -EIO;
}

/* Is the first to end, with this code. */
static UNUSED int leads(void *arg)
{
    kc_store_release(&leader, kc_job_retain(kc_job_current()));
    return (int)(intptr_t)arg;
}

/* Ends after the leader has, with this code; or because that has cancelled it. */
static UNUSED int follows(void *arg)
{
    kc_job_t *first;

    UNTIL((first = kc_load_acquire(&leader)) != NULL);
    (void)!kc_job_join(first);
    add(&out);
    return kc_cancelled() ? -ECANCELED : (int)(intptr_t)arg;
}

/* Waits until it is cancelled, and then until the gate opens: time for those who do not wait. */
static UNUSED int lingers(void *arg)
{
    add(&in);
    CHECK_EQ(kc_sleep(KC_FOREVER), -ECANCELED);
    UNTIL(get(&gate));
    add(&out);
    return arg ? (int)(intptr_t)arg : -ECANCELED;
}

/* Waits for the gate, whatever happens. */
static UNUSED int waits_for_the_gate(void *arg)
{
    add(&in);
    UNTIL(get(&gate));
    add(&out);
    return (int)(intptr_t)arg;
}

#endif
