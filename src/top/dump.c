/* SPDX-License-Identifier: MIT */
/*
 * dump.c - the tree of jobs in words, from any thread, while the program runs or hangs.
 *
 * WHAT     The walk (tree.c) has a reference; what the line says is read under the job's lock.
 *          There, BODY says that the coroutine is there and stays (word.h). What other threads
 *          write without a lock is atomic: the worker's `running`, the task's `kind`.
 *
 *          A stack trace is read from a coroutine that another thread may continue at any moment.
 *          It counts only if that thread has switched to nothing meanwhile: its counter of
 *          switches is the same before and after, and it does not run this one. (Where processors
 *          let a thread's writes be seen out of order, a trace may be nonsense in spite of that;
 *          it is read so that it can do no harm, see backtrace.c.)
 *
 *          What a body waits for is said by describe.c. The wait stands on its stack, so it is
 *          looked at before and after that: if it is the same, the line is true.
 *
 *          Leaves are collected for each parent, so that those that say the same become one.
 *
 * ORDER    id      site          operation      pairs with  carries; what breaks if weaker
 *          dump.1  look: worker  load_acquire   wait.4      the fields of the worker
 *          dump.2  rest: turns   fence_seq_cst  itself      the reads of the stack between the two
 *                                                           of the counter
 *
 * WHY NOT  The age of every job: its block has no room for a time, and a look at the clock costs a
 *          tenth of a launch. So those have one that have an extension from the beginning, as all
 *          with a name do. Symbols of static functions: addr2line has them.
 */
#define _GNU_SOURCE
#include "coro/backtrace.h"
#include "job/describe.h"
#include "job/failure.h"
#include "job/held.h"
#include "top/tree.h"

#include <kcoro/trace.h>

#include <errno.h>
#include <string.h>

enum { CLASSES = 8, FRAMES = 16, TRIES = 3, INDENTED = 32 };

/* One line: those that differ in the number and the age only are equal. */
struct line {
    const char *kind; /* of job                             */
    uint64_t id;      /* the number of the first            */
    char name[32];
    kc_text_t tail; /* what comes after its age           */
    kc_time_t age;  /* of the first; below 0: not known   */
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

/* ---- coroutines at rest ---------------------------------------------------------------------- */

struct rest {
    const kc_worker_t *worker;
    const kcoro_t *co;
    uint64_t turns;
};

/* Under the lock of j, whose BODY is set: its coroutine does not run. */
static bool note_rest(struct rest *rest, kc_job_t *j)
{
    rest->worker = kc_load_acquire(&j->task.worker); /* dump.1 */
    rest->co = j->task.co;
    rest->turns = kc_load_relaxed(&rest->worker->turns);
    kc_fence_seq_cst(); /* dump.2 */
    uint32_t state = kc_load_relaxed(&rest->co->state);
    return kc_load_relaxed(&rest->worker->running) != rest->co &&
           (state == KCORO_SUSPENDED || state == KCORO_PARKED);
}

/* It has not run since. */
static bool has_rested(const struct rest *rest)
{
    kc_fence_seq_cst(); /* dump.2 */
    return kc_load_relaxed(&rest->worker->turns) == rest->turns &&
           kc_load_relaxed(&rest->worker->running) != rest->co;
}

/* What the wait of j is for, if j, which is locked and has BODY, waits so. The wait lies on a stack
 * that may be in use by now; two looks that agree are the same wait, or another one of its kind for
 * the same object. */
static bool peek_object(kc_job_t *j, kc_wait_kind_t kind, const void **object)
{
    const void *wait; /* on the stack of j's body, or of a coroutine inside it */
    kc_wait_t copy;

    if (!kc__coro_peek(NULL, &j->task.wait, sizeof wait, &wait) ||
        !kc__os_peek(wait, sizeof copy, &copy) || copy.kind != kind)
        return false;
    *object = copy.object;
    return kc_load_relaxed(&j->task.kind) == kind;
}

/* ---- what a line says ----------------------------------------------------------------------- */

static void say_place(kc_text_t *text, const char *what, const kc_worker_t *w)
{
    if (w->index == KC_MAIN)
        kc__text_add(text, ", %s on the main thread", what);
    else
        kc__text_add(text, ", %s on worker %d", what, w->index);
}

/* Under its lock, and BODY is set: it waits so. */
static void say_wait(struct line *line, kc_job_t *j, kc_wait_kind_t kind)
{
    for (int i = 0; i < TRIES && kc__wait_has_object(kind); i++) {
        const void *object, *again;
        kc_text_t text = { "" };
        if (!peek_object(j, kind, &object))
            break;
        kc__text_add_wait(&text, kind, object);
        if (peek_object(j, kind, &again) && again == object) {
            kc__text_add(&line->tail, ", waits for %s", text.text);
            return;
        }
    }
    kc__text_add(&line->tail, ", waits for %s", kc__wait_name(kind));
}

/* Under its lock, and BODY is set. */
static void say_body(struct line *line, kc_job_t *j)
{
    kc_wait_kind_t kind = (kc_wait_kind_t)kc_load_relaxed(&j->task.kind);
    const kc_worker_t *w = kc_load_acquire(&j->task.worker); /* dump.1 */

    if (kind == KC_WAIT_SCOPE)
        kc__text_add(&line->tail, ", inside its scope");
    else if (kc_load_relaxed(&w->running) == j->task.co)
        say_place(&line->tail, "runs", w);
    else if (kind == KC_WAIT_NONE)
        say_place(&line->tail, "ready", w);
    else if (kind == KC_WAIT_SUSPEND)
        kc__text_add(&line->tail, ", waits in kc_suspend");
    else
        say_wait(line, j, kind);
    kc_text_t held = { "" };
    if (!(kc__job_flags(j) & KC_JOB_SCOPE) && kc__text_add_held(&held, j->task.co))
        kc__text_add(&line->tail, ", holds %s", held.text);
}

/* Under its lock: j was to start, and there was no stack. */
static void say_no_stack(struct line *line, kc_job_t *j, uint64_t word)
{
    static const char *const of_what[KC_LACKS] = {
        [KC_NO_STACK_MEMORY] = "memory",
        [KC_NO_STACK_MAPPINGS] = "mappings (vm.max_map_count)",
        [KC_NO_STACK_ADDRESSES] = "address space (RLIMIT_AS)",
    };
    const kc_job_ext_t *ext = kc__job_ext_of(j);
    size_t size = ext && ext->stack ? ext->stack : kc__job_sched(j)->stack_size;
    bool mib = size >= (1 << 20);

    size = (size + (mib ? 1 << 20 : 1 << 10) - 1) >> (mib ? 20 : 10);
    kc__text_add(&line->tail, ", waits for a stack: %zu %s, out of %s", size, mib ? "MiB" : "KiB",
                 of_what[kc__word_no_stack_of(word)]);
}

/* Under its lock: what it does. Returns how much of the count is its own. */
static uint64_t say_doing(struct line *line, kc_job_t *j, uint64_t word)
{
    uint32_t flags = kc__job_flags(j);

    if (flags & (KC_JOB_GROUP | KC_JOB_PROMISE)) {
        kc__text_add(&line->tail, word & KC_WORD_CLOSED ? ", closed" : ", open");
        return !(word & KC_WORD_CLOSED);
    }
    if (word & KC_WORD_BODY)
        say_body(line, j);
    else if (word & KC_WORD_NO_STACK)
        say_no_stack(line, j, word);
    else
        kc__text_add(&line->tail, word & KC_WORD_STARTED ? ", has returned" : ", not started");
    return (word & KC_WORD_BODY) || !(word & KC_WORD_STARTED);
}

static void say_state(struct line *line, const kc_job_t *j, uint64_t word)
{
    int reason = j->reason ? j->reason : j->code;
    char text[64];

    kc__text_add(&line->tail, word & KC_WORD_CANCELLED ? ", CANCELLING" : ", ACTIVE");
    if ((word & KC_WORD_CANCELLED) && reason < 0)
        kc__text_add(&line->tail, " (%d, %s)", reason, kc__os_error(-reason, text, sizeof text));
    else if (word & KC_WORD_CANCELLED)
        kc__text_add(&line->tail, " (%d)", reason);
    if (word & KC_WORD_SHIELDED)
        kc__text_add(&line->tail, ", shielded");
}

/* Under its lock: on one line, whatever stands in it. */
static void say_message(struct line *line, kc_job_t *j)
{
    const char *message = kc__failure_message(j);

    if (!message)
        return;
    kc__text_add(&line->tail, ", says \"");
    char *text = line->tail.text + strlen(line->tail.text);
    kc__text_add(&line->tail, "%s\"", message);
    for (; *text; text++)
        if ((unsigned char)*text < ' ')
            *text = ' ';
}

/* ---- stack traces --------------------------------------------------------------------------- */

/* Under the lock of j, whose BODY is set: its coroutine's, if that stays at rest meanwhile. */
static size_t trace(kc_job_t *j, uintptr_t *pc)
{
    struct rest rest;

    for (int i = 0; i < TRIES && note_rest(&rest, j); i++) {
        size_t n = kc__coro_backtrace(rest.co, pc, FRAMES);
        if (has_rested(&rest))
            return n;
    }
    return 0;
}

/* What is very deep is not moved further to the right, but says how deep it is: else a chain of
 * jobs would be printed in the square of its length. */
static void indent(FILE *to, unsigned depth)
{
    if (depth <= INDENTED)
        fprintf(to, "%*s", (int)depth * 2, "");
    else
        fprintf(to, "%*s[%u] ", INDENTED * 2, "", depth);
}

static void print_frame(FILE *to, unsigned depth, uintptr_t pc)
{
    indent(to, depth);
    fputs("  ", to);
    kc__coro_print_frame(to, pc);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Below 0: nobody knows. */
static kc_time_t age_of(kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);

    return ext && ext->dated ? kc__sched_now(kc__job_sched(j)) - ext->born : -1;
}

/* False: it has ended. */
static bool describe(struct line *line, kc_job_t *j, unsigned depth)
{
    line->kind = kc__job_kind(j);
    line->id = kc__job_number(j);
    memcpy(line->name, kc_job_name(j), strlen(kc_job_name(j)) + 1);
    line->tail.text[0] = 0;
    line->count = 1;
    line->frames = 0;
    line->depth = depth;
    line->age = age_of(j);
    uint64_t word = kc__job_lock(j);
    say_state(line, j, word);
    say_message(line, j);
    uint64_t others = (word & KC_WORD_COUNT) - say_doing(line, j, word);
    if (word & KC_WORD_BODY) {
        kc_wait_kind_t kind = (kc_wait_kind_t)kc_load_relaxed(&j->task.kind);
        if (kind != KC_WAIT_NONE && kind != KC_WAIT_SCOPE)
            line->frames = trace(j, line->pc);
    }
    kc__job_unlock(j);
    if ((word & KC_WORD_COUNT) == 0)
        return false;
    if (others > 0)
        kc__text_add(&line->tail, ", %llu below", (unsigned long long)others);
    return true;
}

static void print(FILE *to, const struct line *line)
{
    indent(to, line->depth);
    fprintf(to, "%s %llu", line->kind, (unsigned long long)line->id);
    if (line->name[0])
        fprintf(to, " \"%s\"", line->name);
    if (line->age >= 0)
        fprintf(to, ", age %lld.%03lld s", (long long)(line->age / KC_SEC(1)),
                (long long)(line->age % KC_SEC(1) / KC_MS(1)));
    fprintf(to, "%s\n", line->tail.text);
    for (size_t i = 0; i < line->frames; i++)
        print_frame(to, line->depth, line->pc[i]);
    if (line->count > 1) {
        indent(to, line->depth);
        fprintf(to, "  x %llu more like this\n", (unsigned long long)line->count - 1);
    }
}

static bool is_like(const struct line *a, const struct line *b)
{
    return a->kind == b->kind && strcmp(a->name, b->name) == 0 &&
           strcmp(a->tail.text, b->tail.text) == 0;
}

static void visit(kc_job_t *j, unsigned depth, bool leaf, void *arg)
{
    struct dump *d = arg;
    struct line *line = &d->line;

    if (!describe(line, j, depth + 1))
        return;
    for (unsigned i = 0; leaf && i < d->leaves; i++)
        if (is_like(&d->leaf[i], line)) {
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
    kc__sched_check("kc_dump", s);
    kc__sched_check_process(s);
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
