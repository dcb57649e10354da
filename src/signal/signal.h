/* SPDX-License-Identifier: MIT */
/*
 * signal.h - signals, for the layer that makes them obey: jobs, and all that waits.
 *
 * A signal never names a job. One that belongs to a job knows its owner as a pointer and a table of
 * three functions, and asks it before TERMINATE: the owner decides when its cancel takes effect,
 * and says so with kc__signal_preset, when it shows that itself, and kc__signal_tell afterwards.
 */
#ifndef KC_SIGNAL_SIGNAL_H
#define KC_SIGNAL_SIGNAL_H

#include "base/base.h"

#include <kcoro/signal.h>

struct kc_signal_owner {
    void (*pin)(void *owner);    /* keeps the owner; called under the signal's lock: brief, and
                                    without any call into this file                            */
    bool (*cancel)(void *owner); /* true: this request was the first. Holds no lock of ours, may
                                    come back to the same signal by kc__signal_tell            */
    void (*unpin)(void *owner);
    bool (*hold)(void *owner); /* it does not end before told(owner). False: it has ended */
    void (*told)(void *owner);
};

/* A signal that belongs to owner, without data. NULL: no memory. */
kc_signal_t *kc__signal_new_owned(const struct kc_signal_owner *ops, void *owner);

/* From now on s, which had no owner, has one. Returns the bits that were triggered before. */
kc_sigset_t kc__signal_own(kc_signal_t *s, const struct kc_signal_owner *ops, void *owner);

/* The owner is gone, or will not be asked any more: TERMINATE is a bit as others are. A call of
 * cancel may still be on its way, with the owner pinned. */
void kc__signal_disown(kc_signal_t *s);

/* Makes low bits triggered as if long ago: nobody is told, and the owner is not asked. Returns
 * those that were not before. Takes the signal's lock only: an owner may call it under its own. */
kc_sigset_t kc__signal_preset(kc_signal_t *s, kc_sigset_t bits);

/* Tells those who listened to s before about bits that kc__signal_preset has returned. The owner of
 * s is not asked. What is chained to s is. Within cancel, what is chained is told after cancel has
 * returned, so that owners chained to owners do not nest. Inside a handler nobody is told before
 * that has returned. */
void kc__signal_tell(kc_signal_t *s, kc_sigset_t bits);

#endif
