/* SPDX-License-Identifier: MIT */
/*
 * kcoro/job.h - what belongs to the body of a coroutine. So far: its deferred cleanups.
 */
#ifndef KCORO_JOB_H
#define KCORO_JOB_H

#include <kcoro/defer.h>

#endif
