/* SPDX-License-Identifier: MIT */
/*
 * dump.c - the tree of jobs in words, from any thread, while the program runs or hangs.
 *
 * WHAT     The walk (tree.c) has a reference; what the line says is read under the job's lock.
 *          There, BODY says that the coroutine is there and stays (job.c R4). What other threads
 *          write without a lock is atomic: the worker's `running`, the task's `kind`.
 *
 *          A stack trace is read from a coroutine that another thread may continue at any moment.
 *          It counts only if that thread has switched to nothing meanwhile: its counter of
 *          switches is the same before and after, and it does not run this one. (Where processors
 *          let a thread's writes be seen out of order, a trace may be nonsense in spite of that;
 *          it is read so that it can do no harm, see backtrace.c.)
 *
 *          Leaves are collected for each parent, so that those that say the same become one.
 *
 * ORDER    id  site             operation      pairs with  carries; what breaks if weaker
 *          P1  look: worker     load_acquire   wait.c A4   the fields of the worker
 *          P2  trace: switches  fence_seq_cst  itself      the reads of the stack between the two
 *                                                          of the counter
 *
 * WHY NOT  The age of a job: its block has no room for a time, and a look at the clock costs a
 *          tenth of a launch. What a join waits for by name: that stands in the frame of the
 *          waiting one, which may be gone. Symbols of static functions: addr2line has them.
 */
#define _GNU_SOURCE
#include "coro/backtrace.h"
#include "top/tree.h"

#include <kcoro/trace.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* In libdl before glibc 2.34, which a static program may not link. */
#pragma weak dladdr

enum { TEXT = 224, CLASSES = 8, FRAMES = 16, TRIES = 3 };

/* One line: those that differ in the coroutine only are equal. */
struct line {
    char head[TEXT], tail[TEXT]; /* before and after the coroutine's number */
    uint64_t id;                 /* of the first; 0: none                   */
    uint64_t count;
    unsigned depth;
    size_t frames;
    uintptr_t pc[FRAMES];
};

struct dump {
    FILE *to;
    struct line line;          /* the one that is being made */
    struct line leaf[CLASSES]; /* of one parent              */
    unsigned leaves;
};

/* ---- what a line says ----------------------------------------------------------------------- */

static void say(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, TEXT - used, format, args);
    va_end(args);
}

static void say_place(char *text, const char *what, const kc_worker_t *w)
{
    if (w->index == KC_MAIN)
        say(text, ", %s on the main thread", what);
    else
        say(text, ", %s on worker %d", what, w->index);
}

/* Under its lock, and BODY is set. */
static void say_body(struct line *line, kc_job_t *j)
{
    kc_wait_kind_t kind = (kc_wait_kind_t)kc_load_relaxed(&j->task.kind);
    const kc_worker_t *w = kc_load_acquire(&j->task.worker); /* P1 */

    if (kind == KC_WAIT_SCOPE)
        say(line->tail, ", inside its scope");
    else if (kc_load_relaxed(&w->running) == j->task.co)
        say_place(line->tail, "runs", w);
    else if (kind == KC_WAIT_NONE)
        say_place(line->tail, "ready", w);
    else
        say(line->tail, ", waits for %s", kc__wait_name(kind));
}

/* Under its lock: what it does. Returns how much of the count is its own. */
static uint64_t say_doing(struct line *line, kc_job_t *j, uint64_t word)
{
    uint32_t flags = kc__job_flags(j);

    if (flags & (KC_JOB_GROUP | KC_JOB_PROMISE)) {
        say(line->tail, word & KC_WORD_CLOSED ? ", closed" : ", open");
        return !(word & KC_WORD_CLOSED);
    }
    if (word & KC_WORD_BODY)
        say_body(line, j);
    else
        say(line->tail, word & KC_WORD_STARTED ? ", has returned" : ", not started");
    return (word & KC_WORD_BODY) || !(word & KC_WORD_STARTED);
}

static void say_state(struct line *line, const kc_job_t *j, uint64_t word)
{
    int reason = j->reason ? j->reason : j->code;
    char text[64];

    say(line->tail, word & KC_WORD_CANCELLED ? ", CANCELLING" : ", ACTIVE");
    if ((word & KC_WORD_CANCELLED) && reason < 0)
        say(line->tail, " (%d, %s)", reason, strerror_r(-reason, text, sizeof text));
    else if (word & KC_WORD_CANCELLED)
        say(line->tail, " (%d)", reason);
    if (word & KC_WORD_SHIELDED)
        say(line->tail, ", shielded");
}

/* ---- stack traces --------------------------------------------------------------------------- */

/* Under the lock of j, whose BODY is set: its coroutine's, if that stays at rest meanwhile. */
static size_t trace(kc_job_t *j, uintptr_t *pc)
{
    const kc_worker_t *w = kc_load_acquire(&j->task.worker); /* P1 */
    const kcoro_t *co = j->task.co;

    for (int i = 0; i < TRIES; i++) {
        uint64_t before = kc_load_relaxed(&w->counter[KC_COUNT_SWITCHES]);
        kc_fence_seq_cst(); /* P2 */
        uint32_t state = kc_load_relaxed(&co->state);
        if (kc_load_relaxed(&w->running) == co ||
            (state != KCORO_SUSPENDED && state != KCORO_PARKED))
            return 0;
        size_t n = kc__coro_backtrace(co, pc, FRAMES);
        kc_fence_seq_cst(); /* P2 */
        if (kc_load_relaxed(&w->counter[KC_COUNT_SWITCHES]) == before &&
            kc_load_relaxed(&w->running) != co)
            return n;
    }
    return 0;
}

static void print_frame(FILE *to, unsigned depth, uintptr_t pc)
{
    Dl_info info = { 0 };
    void *at = (void *)(pc - 1); /* inside the call, not behind it */

    fprintf(to, "%*s  at 0x%llx", (int)depth * 2, "", (unsigned long long)pc);
    if (dladdr && dladdr(at, &info) && info.dli_fname) {
        if (info.dli_sname)
            fprintf(to, " %s", info.dli_sname);
        fprintf(to, " (%s+0x%llx)", info.dli_fname,
                (unsigned long long)(pc - (uintptr_t)info.dli_fbase));
    }
    fputc('\n', to);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* False: it has ended. */
static bool describe(struct line *line, kc_job_t *j, unsigned depth)
{
    uint32_t flags = kc__job_flags(j);
    const char *name = kc_job_name(j);

    line->head[0] = line->tail[0] = 0;
    line->id = 0;
    line->count = 1;
    line->frames = 0;
    line->depth = depth;
    say(line->head, "%s",
        flags & KC_JOB_SCOPE     ? "scope"
        : flags & KC_JOB_GROUP   ? "group"
        : flags & KC_JOB_PROMISE ? "promise"
                                 : "job");
    if (name[0])
        say(line->head, " \"%s\"", name);
    uint64_t word = kc__job_lock(j);
    say_state(line, j, word);
    uint64_t others = (word & KC_WORD_COUNT) - say_doing(line, j, word);
    if (word & KC_WORD_BODY) {
        kc_wait_kind_t kind = (kc_wait_kind_t)kc_load_relaxed(&j->task.kind);
        if (!(flags & KC_JOB_SCOPE))
            line->id = j->task.co->id;
        if (kind != KC_WAIT_NONE && kind != KC_WAIT_SCOPE)
            line->frames = trace(j, line->pc);
    }
    kc__job_unlock(j);
    if ((word & KC_WORD_COUNT) == 0)
        return false;
    if (others > 0)
        say(line->tail, ", %llu below", (unsigned long long)others);
    return true;
}

static void print(FILE *to, const struct line *line)
{
    fprintf(to, "%*s%s", (int)line->depth * 2, "", line->head);
    if (line->id)
        fprintf(to, ", coroutine %llu", (unsigned long long)line->id);
    fprintf(to, "%s\n", line->tail);
    for (size_t i = 0; i < line->frames; i++)
        print_frame(to, line->depth, line->pc[i]);
    if (line->count > 1)
        fprintf(to, "%*s  x %llu more like this\n", (int)line->depth * 2, "",
                (unsigned long long)line->count - 1);
}

static void visit(kc_job_t *j, unsigned depth, bool leaf, void *arg)
{
    struct dump *d = arg;
    struct line *line = &d->line;

    if (!describe(line, j, depth + 1))
        return;
    for (unsigned i = 0; leaf && i < d->leaves; i++)
        if (strcmp(d->leaf[i].head, line->head) == 0 && strcmp(d->leaf[i].tail, line->tail) == 0) {
            d->leaf[i].count++;
            return;
        }
    if (leaf && d->leaves < CLASSES)
        d->leaf[d->leaves++] = *line;
    else
        print(d->to, line);
}

static void print_leaves(void *arg)
{
    struct dump *d = arg;

    for (unsigned i = 0; i < d->leaves; i++)
        print(d->to, &d->leaf[i]);
    d->leaves = 0;
}

int kc_dump(kc_sched_t *s, FILE *to)
{
    static const struct kc_tree_visitor visitor = { visit, print_leaves };
    kc_metrics_t now;

    if (!s || !to)
        return -EINVAL;
    struct dump *d = kc__alloc(sizeof *d);
    if (!d)
        return -ENOMEM;
    d->to = to;
    kc_metrics(s, &now);
    fprintf(to, "kcoro: scheduler%s%s%s, %d workers, %llu jobs\n", s->name[0] ? " \"" : "",
            s->name, s->name[0] ? "\"" : "", s->workers, (unsigned long long)now.jobs_live);
    int rc = kc__tree_walk(s, &visitor, d);
    if (rc == -EAGAIN)
        fprintf(to, "  ... and so on: they change faster than they can be printed\n");
    kc__free(d);
    if (rc == -ENOMEM)
        return rc;
    return fflush(to) == 0 && !ferror(to) ? 0 : -EIO;
}
