/* SPDX-License-Identifier: MIT */
/*
 * deadlock.c - the report of a scheduler in which no job can continue: what each job waits for.
 *
 * WHAT     Called on the only thread of a scheduler when all its coroutines wait (S11): so all its
 *          data may be read. Jobs that wait for each other in a cycle have been found before
 *          (cycle.c).
 */
#include "job/deadlock.h"

#include "base/os.h"
#include "coro/backtrace.h"
#include "job/describe.h"
#include "job/failure.h"
#include "job/held.h"
#include "job/root.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 16 };

typedef struct {
    kc_job_t *job;
} body_t;

/* The jobs that have a body, by address of its coroutine. */
typedef struct {
    kc_sched_t *sched;
    size_t count, room;
    body_t *body;
} bodies_t;

/* The wait of a body that waits; NULL: it does not, or there is none. */
static const kc_wait_t *wait_of(const kc_job_t *j)
{
    const kc_task_t *at = j->task.co->task;

    return kc_load_relaxed(&at->kind) == KC_WAIT_NONE ? NULL : at->wait;
}

/* ---- threads outside ------------------------------------------------------------------------ */

static int by_coroutine(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const body_t *)a)->job->task.co;
    uintptr_t y = (uintptr_t)((const body_t *)b)->job->task.co;

    return x < y ? -1 : x > y;
}

static bool has_own_body(const kc_job_t *j)
{
    return (kc__job_word(j) & KC_WORD_BODY) && !(kc__job_flags(j) & KC_JOB_SCOPE);
}

static void collect(kc_job_t *j, void *arg)
{
    bodies_t *b = arg;

    if (b->count < b->room && kc__job_sched(j) == b->sched && has_own_body(j))
        b->body[b->count++] = (body_t){ j };
}

static void count(kc_job_t *j, void *arg)
{
    bodies_t *b = arg;

    b->room += kc__job_sched(j) == b->sched && has_own_body(j);
}

/* The owner of a lock is a body of this scheduler. */
static bool is_one_of(const bodies_t *b, uint64_t owner)
{
    kc_job_t like = { .task.co = (kcoro_t *)(uintptr_t)owner };
    body_t key = { &like };

    return bsearch(&key, b->body, b->count, sizeof key, by_coroutine) != NULL;
}

/* A thread outside has ended this wait, and is about to send the coroutine here. */
static bool is_being_woken(const kc_wait_t *w)
{
    return w->kind == KC_WAIT_PARK ? kc_load_relaxed(&w->co->gate.word) != KC_GATE_PARKED
                                   : kc_load_relaxed(&w->co->claim) < KC_CLAIM_UNCANCELLABLE;
}

/* j is about to be woken, or waits for a lock that neither a body of its scheduler has nor this
 * thread, which runs that. */
static bool is_awaiting_thread(const bodies_t *b, const kc_job_t *j)
{
    const kc_wait_t *w = wait_of(j);
    uint64_t owner = w ? kc__wait_objects.owner(w->kind, w->object) : 0;

    if (w && is_being_woken(w))
        return true;
    return owner != 0 && owner != (uintptr_t)kc__thread_mark() && !is_one_of(b, owner);
}

bool kc__deadlock_awaits_thread(kc_sched_t *s)
{
    bodies_t b = { .sched = s };
    bool found = false;

    kc__roots_each(s, count, &b);
    b.body = kc__alloc(b.room * sizeof *b.body);
    if (b.body) {
        kc__roots_each(s, collect, &b);
        qsort(b.body, b.count, sizeof *b.body, by_coroutine);
        for (size_t i = 0; i < b.count && !found; i++)
            found = is_awaiting_thread(&b, b.body[i].job);
    }
    kc__free(b.body);
    return found;
}

/* ---- the report ----------------------------------------------------------------------------- */

typedef struct {
    kc_sched_t *sched;
    size_t frames; /* of the last stack that was printed */
    uintptr_t pc[FRAMES];
} report_t;

/* Many wait at one place: their stack is printed once. */
static void print_stack(report_t *r, const kcoro_t *co)
{
    bool calls = kc_load_relaxed(&co->state) == KC_CORO_CALLING;
    uintptr_t pc[FRAMES];

    size_t n = kc__coro_backtrace(calls ? co->inner : co, pc, FRAMES);
    if (n == r->frames && memcmp(pc, r->pc, n * sizeof *pc) == 0)
        return;
    r->frames = n;
    memcpy(r->pc, pc, n * sizeof *pc);
    for (size_t i = 0; i < n; i++) {
        fputs("  ", stderr);
        kc__coro_print_frame(stderr, pc[i]);
    }
}

static void print(kc_job_t *j, void *arg)
{
    report_t *r = arg;
    kc_text_t line = { "" }, held = { "" };

    if (kc__job_sched(j) != r->sched || !has_own_body(j))
        return;
    const kc_wait_t *w = wait_of(j);
    kc__text_add_job(&line, j);
    kc__text_add(&line, " waits for ");
    if (w)
        kc__text_add_wait(&line, w->kind, w->object);
    else
        kc__text_add(&line, "its turn");
    const char *message = kc__failure_message(j);
    if (message)
        kc__text_add(&line, ", says \"%s\"", message);
    if (kc__text_add_held(&held, j->task.co))
        kc__text_add(&line, "; holds %s", held.text);
    fprintf(stderr, "kcoro: deadlock: %s\n", line.text);
    print_stack(r, j->task.co);
}

void kc__deadlock_report(kc_sched_t *s)
{
    report_t r = { .sched = s };

    flockfile(stderr);
    fprintf(stderr, "kcoro: deadlock: all jobs%s%s%s wait for ever " KC_RULE("S11") "\n",
            s->name[0] ? " of scheduler \"" : "", s->name, s->name[0] ? "\"" : "");
    kc__roots_each(s, print, &r);
    funlockfile(stderr);
}
