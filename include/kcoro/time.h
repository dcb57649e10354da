/* SPDX-License-Identifier: MIT */
/*
 * kcoro/time.h - time: nanoseconds on a monotonic clock.
 */
#ifndef KCORO_TIME_H
#define KCORO_TIME_H

#include <kcoro/base.h>

#include <stdint.h>

KC_BEGIN_DECLS

typedef int64_t kc_time_t;

/* Lengths of time. */
#define KC_US(n) ((kc_time_t)(n)*1000)
#define KC_MS(n) ((kc_time_t)(n)*1000000)
#define KC_SEC(n) ((kc_time_t)(n)*1000000000)

/* No limit; sums of times saturate here. */
#define KC_FOREVER INT64_MAX

/*
 * The time now: the current scheduler's clock, real or virtual; on the thread that created a
 * scheduler that one's; elsewhere CLOCK_MONOTONIC.
 *
 * Context: anywhere.  Suspends: no.
 */
KC_API kc_time_t kc_now(void);

KC_END_DECLS

#endif
