/* SPDX-License-Identifier: MIT */
/*
 * failure.c - failures: the culprit, its message, and the report to on_failure.
 *
 * WHAT     A job that fails because a job below has failed keeps a reference on that job, the
 *          culprit, which is one job all the way up. Its number, its name and its message are read
 *          there: the culprit has ended, so they do not change any more. A job that fails by itself
 *          keeps no reference: it is the culprit. Without memory for the reference the failure goes
 *          up nevertheless, and the culprit is not known.
 *
 *          A message is text that a body has attached to its own job. A scope that fails by itself
 *          keeps a copy, as the body may set another message afterwards.
 */
#include "job/failure.h"

#include "base/os.h"
#include "job/cancel.h"
#include "job/job.h"
#include "signal/handler.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE = 128 }; /* bytes, with the 0 at the end */

/* ---- who ------------------------------------------------------------------------------------ */

/* Of one that has failed, or is about to: whose failure that is. NULL: it is not known. */
static kc_job_t *culprit_of(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);

    if (!(kc__job_word(j) & KC_WORD_BELOW))
        return j;
    return ext ? ext->culprit : NULL;
}

void kc__failure_inherit(kc_job_t *j, kc_job_t *child)
{
    kc_job_t *culprit = culprit_of(child);
    kc_job_ext_t *ext = culprit ? kc__job_ext(j) : NULL;

    if (ext)
        kc__job_ref(culprit);
    uint64_t word = kc__job_lock(j);
    if (ext)
        ext->culprit = culprit;
    kc__job_unlock_to(j, word | KC_WORD_BELOW);
}

/* It has ended so; or it does, and this is asked by who is told before all others. */
static bool has_failed(kc_job_t *j)
{
    return kc_job_state(j) == KC_JOB_FAILED || kc__handler_state()->failing == j;
}

int kc_job_culprit(const kc_job_t *job, uint64_t *id, char name[32])
{
    kc_job_t *j = job ? kc__job_live("kc_job_culprit", job) : NULL;

    if (!j)
        return -EINVAL;
    if (!has_failed(j))
        return -ENOENT;
    const kc_job_t *culprit = culprit_of(j);
    if (!culprit)
        return -ENOMEM;
    if (id)
        *id = kc__job_number(culprit);
    if (name)
        memcpy(name, kc_job_name(culprit), strlen(kc_job_name(culprit)) + 1); /* 32 at most */
    return 0;
}

/* ---- what it says --------------------------------------------------------------------------- */

static const char *text_of(const kc_job_t *j)
{
    const kc_job_ext_t *ext = j ? kc__job_ext_of(j) : NULL;

    return ext ? ext->message : NULL;
}

/* Without memory nothing is said. */
static void set_text(kc_job_t *j, const char *text)
{
    kc_job_ext_t *ext = kc__job_ext(j);
    char *room = !ext || ext->message ? NULL : kc__alloc(MESSAGE);

    if (!ext || (!room && !ext->message))
        return;
    kc__job_lock(j); /* others may print it */
    if (room)
        ext->message = room;
    memcpy(ext->message, text, strlen(text) + 1);
    kc__job_unlock(j);
}

const char *kc__failure_message(kc_job_t *j)
{
    const char *text = text_of(culprit_of(j));

    return text ? text : text_of(j);
}

void kc__failure_of_scope(kc_job_t *scope, kc_job_t *own)
{
    const char *text = text_of(own);

    if (text && culprit_of(scope) == scope)
        set_text(scope, text);
}

void kc_set_message(const char *fmt, ...)
{
    kcoro_t *co = kc__task_coroutine(kc__thread()->current);
    char text[MESSAGE];
    va_list args;

    if (!co)
        kc__usage("kc_set_message", "there is no current job " KC_RULE("J36"));
    if (!fmt)
        kc__usage("kc_set_message", "the format is NULL " KC_RULE("J36"));
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n >= 0)
        set_text(kc__job_own(co), text);
}

int kc_job_message(const kc_job_t *job, char *buf, size_t n)
{
    kc_job_t *j = job ? kc__job_live("kc_job_message", job) : NULL;

    if (!j || (!buf && n > 0))
        return -EINVAL;
    const char *text = has_failed(j) ? kc__failure_message(j) : NULL;
    return text ? snprintf(buf, n, "%s", text) : -ENOENT;
}

/* ---- who is told ---------------------------------------------------------------------------- */

void kc__failure_report(kc_job_t *j)
{
    const kc_sched_t *s = kc__job_sched(j);
    struct kc_handler_state *me = kc__handler_state();
    const kc_job_t *before = me->failing;

    me->failing = j;
    kc__handler_begin(me); /* it may not wait, as a handler may not */
    s->on_failure(j, j->code, s->on_failure_arg);
    kc__handler_end(me);
    me->failing = before;
}

bool kc_fail_current(int code)
{
    kc_job_t *j = kc__job_current();

    if (!j)
        kc__usage("kc_fail_current", "there is no current job " KC_RULE("J33"));
    if (code == 0 || code == -ECANCELED)
        kc__usage("kc_fail_current", "the code is no failure " KC_RULE("J33"));
    kc__sched_check_process(kc__job_sched(j));
    return kc__job_fail_running(j, code);
}
