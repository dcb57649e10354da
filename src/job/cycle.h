/* SPDX-License-Identifier: MIT */
/*
 * cycle.h - jobs that wait for each other in a cycle are found when its last wait begins (E4).
 */
#ifndef KC_JOB_CYCLE_H
#define KC_JOB_CYCLE_H

#include "job/job.h"

/* As kc_task_hooks.leave says: the caller, whose job's coroutine is co, waits. */
int kc__cycle_leave(kc_thread_t *t, kcoro_t *co);

/* As kc__job_drain_children, where cycles are looked for. */
void kc__cycle_drain(kc_job_t *j);

#endif
