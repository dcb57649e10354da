/* SPDX-License-Identifier: MIT */
/*
 * body_start.c - a job gets its coroutine, or ends unstarted.
 *
 * WHAT     Most jobs need nothing but a coroutine. One that has more (an extension, flags), that is
 *          to stop, or that others look at just now starts slowly. One that is to stop ends where
 *          it is, unless it has a dispose, which runs instead of its function (J28). If there is no
 *          stack, the scheduler is told, and asks again later (no_stack.c).
 *
 * ORDER    id            site         operation     pairs with  carries
 *          body_start.1  start: word  load_acquire  word.2      that it is locked or to stop
 */
#include "job/body_start.h"

#include "base/os.h"
#include "coro/coro_end.h"
#include "job/body.h"
#include "job/cancel.h"
#include "job/end.h"
#include "job/job.h"
#include "job/job_timer.h"
#include "job/shield.h"
#include "sched/worker.h"

#include <errno.h>
#include <string.h>

/* Instead of the body of one that was cancelled before it could start, and has a dispose: in its
 * own job, not in that of whoever is just leaving, and on its own stack. */
static int run_dispose(void *arg)
{
    kc_job_t *j = kc__job_current();

    kc__job_shield(j); /* as cleanups are */
    kc__dispose(kc__job_ext_of(j)->dispose, arg);
    kc__job_unshield(j);
    return 0;
}

/* There is no stack for j. -ENOMEM; -EAGAIN: this was known. */
static KC_COLD int note_no_stack(kc_job_t *j)
{
    uint64_t no_stack = kc__word_no_stack(kc__thread()->no_stack);

    if (kc__job_change(j, no_stack, KC_WORD_NO_STACK) & KC_WORD_NO_STACK)
        return -EAGAIN;
    kc__stack_want(1);
    kc_add_relaxed(&kc__job_sched(j)->no_stack_count, 1);
    return -ENOMEM;
}

void kc__body_got_stack(kc_job_t *j)
{
    kc__job_change(j, 0, KC_WORD_NO_STACK);
    kc__stack_want(-1);
    kc_add_relaxed(&kc__job_sched(j)->no_stack_count, -1u);
}

/* Cancelled before it could start (J28), or failed for want of a stack. If it has a dispose, there
 * is no memory for a stack. The user may hear of its end, so the thread must be on its own stack.
 * Returns as kc_task_hooks.start. */
static int end_unstarted(const kc_thread_t *t, kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);

    if (t->current != t->main_co)
        return -EBUSY;
    if (kc__job_word(j) & KC_WORD_NO_STACK)
        kc__body_got_stack(j);
    kc__tsan_acquire(j);
    if (ext && ext->dispose)
        kc__dispose(ext->dispose, j->task.arg);
    /* From now on a message is no task to be started. */
    kc__body_add_flag(j, KC_TASK_BODILESS);
    kc__job_count_down(j, 0);
    return -ECANCELED;
}

/* As kc__body_begin, of one that is to stop, whose dispose runs then. */
static void begin_to_dispose(kc_job_t *j)
{
    j->task.fn = run_dispose;
    kc__body_add_flag(j, KC_JOB_NO_RETURN);
    if (kc__job_word(j) & KC_WORD_NO_STACK)
        kc__body_got_stack(j);
    kc__job_change(j, KC_WORD_BODY | KC_WORD_STARTED, 0);
}

uint32_t kc__body_flags(const kc_job_t *j, kc_affinity_t where)
{
    uint32_t flags = kc__job_flags(j);
    bool migrates = (flags & KC_JOB_MIGRATE) && where == KC_WORKER;

    return KC_CORO_TASK | (flags & KC_JOB_UNWIND ? KC_CORO_CHECKED : 0u) |
           (migrates ? KC_CORO_MIGRATES : 0u);
}

/* The time of j, which starts on this thread, is kept here from now on. */
static void take_timeout(kc_job_t *j, kc_job_ext_t *ext)
{
    kc_job_timer_t *copy = kc__job_timer_copy_here(ext->timeout), *old = ext->timeout;

    if (!copy)
        return;
    kc__job_lock(j);
    ext->timeout = copy;
    kc__job_unlock(j);
    kc__job_timer_drop(old);
}

/* One that has more than a body, is not started any more, or is being looked at by others. */
static int start_slow(kc_task_t *task)
{
    kc_job_t *j = kc__job_of(task);
    kc_thread_t *t = kc__thread();
    kc_sched_t *s = t->worker->sched;
    kc_job_ext_t *ext = kc__job_ext_of(j);

    size_t size = ext && ext->stack ? ext->stack : s->stack_size;
    bool has_dispose = ext && ext->dispose, stopped = kc__job_is_stopped(j);
    kcoro_t *co = NULL;
    if (!stopped || has_dispose)
        co = kc__coro_task(t, task, size, kc__stack_class(size), s->fp_control);
    if (!co)
        return stopped ? end_unstarted(t, j) : note_no_stack(j);
    task->co = co;
    if (stopped || !kc__body_begin(j)) {
        if (!has_dispose) {
            task->co = NULL;
            kc__coro_task_end(t, co);
            return end_unstarted(t, j);
        }
        begin_to_dispose(j);
    }
    kc__worker_count(t->worker, KC_COUNT_SPAWNS);
    if (ext && ext->timeout)
        take_timeout(j, ext);
    if (!kc__body_is_plain(j)) {
        bool anywhere = kc__job_flags(j) & KC_JOB_ANYWHERE;
        kc_store_relaxed(&co->block.flags, kc__body_flags(j, anywhere ? KC_WORKER : task->where));
        if (kc__job_flags(j) & KC_JOB_MIGRATE)
            kc_store_relaxed(&s->migrants, 1);
    }
    if (ext)
        memcpy(co->name, ext->name, sizeof co->name);
    if (kc__tools)
        kc__tools_name(&co->tool, co->name);
    return 0;
}

int kc__body_start(kc_task_t *task)
{
    kc_job_t *j = kc__job_of(task);
    kc_thread_t *t = kc__thread();
    uint64_t seen = kc_load_acquire(&task->word); /* body_start.1 */
    kc_sched_t *s = t->worker->sched;

    if (!kc__body_can_inherit(j) || (seen & (KC_WORD_STOP | KC_WORD_LOCK | KC_WORD_NO_STACK)))
        return start_slow(task);
    kcoro_t *co = kc__coro_task(t, task, s->stack_size, s->stack_class, s->fp_control);
    if (!co)
        return note_no_stack(j);
    task->co = co; /* before BODY can be seen */
    if (!kc__word_try(task, seen, seen | KC_WORD_BODY | KC_WORD_STARTED)) {
        task->co = NULL;
        kc__coro_task_end(t, co);
        return start_slow(task);
    }
    kc__worker_count(t->worker, KC_COUNT_SPAWNS);
    return 0;
}

void kc__body_fail(kc_task_t *task, int code)
{
    kc_job_t *j = kc__job_of(task);

    kc__job_fail(j, code, NULL);
    (void)end_unstarted(kc__thread(), j); /* its own stack: no_stack.c sees to that */
}
