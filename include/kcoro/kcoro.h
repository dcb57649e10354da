/* SPDX-License-Identifier: MIT */
/*
 * kcoro/kcoro.h - the whole library in one include.
 */
#ifndef KCORO_KCORO_H
#define KCORO_KCORO_H

#include <kcoro/broadcast.h>
#include <kcoro/call.h>
#include <kcoro/chan.h>
#include <kcoro/collect.h>
#include <kcoro/coro.h>
#include <kcoro/defer.h>
#include <kcoro/deferred.h>
#include <kcoro/gen.h>
#include <kcoro/job.h>
#include <kcoro/sched.h>
#include <kcoro/signal.h>
#include <kcoro/sync.h>
#include <kcoro/time.h>
#include <kcoro/timer.h>
#include <kcoro/trace.h>

#endif
