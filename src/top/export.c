/* SPDX-License-Identifier: MIT */
/*
 * export.c - the file of a trace: all lanes merged by time, as JSON for Chrome and Perfetto.
 *
 * WHAT     Each lane is in order of time, so the next event is the earliest of all lanes' next. A
 *          table has the jobs that live at that time, by number. The memory is one chunk for each
 *          lane, a word for each chunk, and the table.
 *
 * SHAPE    a job       "b" ... "e", cat "job", id: its number; a track of its own
 *          a thread    "B" ... "E", cat "run": which job it runs; a scope's time is its job's
 *          an event    "i", cat "event", name: JOB_CREATE...
 *          an arrow    "B", "s", "E" at the wake or cancel, "f" where the job runs next, after its
 *                      "B"; cat "flow"
 *          The end closes what is open.
 *
 * RULES    R1 a job's "b" comes before all that names it, its "e" after: an event about a job that
 *             is not in the table names no job ("job": 0). That may be when events were dropped, or
 *             when two threads that share a lane have recorded in another order.
 *          R2 What was there before the trace began is in the table from the start, but hidden:
 *             the walk that has found it took its time, and may have met some that were created
 *             meanwhile. It gets its "b" when an event names it or one below it, or at the end.
 *          R3 Readers match the two ends of an arrow by id, category and name, and tie each to the
 *             innermost slice of its thread that is open at that time. A wake may come from where
 *             no job runs: so each arrow begins in a slice of its own, of no length, named as the
 *             arrow. Both ends are written when the second is known: no arrow leads nowhere, as of
 *             a job that was cancelled and never ran again. So lines are not in order of time;
 *             readers sort them, and keep those of one time in the order of the file.
 */
#include "top/export.h"

#include "base/os.h"
#include "job/job.h"
#include "top/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* ---- jobs that live ------------------------------------------------------------------------- */

typedef struct {
    const char *name; /* NULL: there is none */
    unsigned lane;    /* where it begins, and when */
    int64_t at;
} arrow_t;

typedef struct {
    uint64_t id;    /* its number; 0: this place is free        */
    uint64_t above; /* its parent's; 0: nobody's child          */
    uint64_t below; /* while it is shown: who asked for it      */
    arrow_t arrow;  /* leads to where it runs next              */
    int64_t since;  /* the time of its "b"                      */
    uint32_t flags;
    uint8_t state;
    bool hidden; /* it was there before, and has no "b" yet */
    char name[KC_NAME_SIZE];
} entry_t;

typedef struct {
    kc_sched_t *sched;
    kc_trace_t *trace;
    FILE *out;
    entry_t *table; /* open addressing, a power of two */
    size_t size, used;
    uint64_t last_arrow;
    struct {
        uint32_t chunk, at, count; /* the chunk that is being read; the next slot; slots there */
        kc_record_t *events;
        bool open;    /* a "B" is open                                                           */
        uint64_t ran; /* the job that ran when the trace began, until a RUN is seen; 0: none */
        int64_t ran_at; /* it was seen to run at that time                                     */
    } lane[KC_MAX_WORKERS + KC_LANES_MORE];
    unsigned lanes;
    uint8_t *owner; /* of each chunk: its lane */
    uint32_t *slots;
} export_t;

static size_t place(const export_t *x, uint64_t id)
{
    return (size_t)(id * 0x9e3779b97f4a7c15u >> 20) & (x->size - 1);
}

static entry_t *lookup(export_t *x, uint64_t id)
{
    for (size_t i = place(x, id); id && x->size; i = (i + 1) & (x->size - 1)) {
        if (x->table[i].id == id)
            return &x->table[i];
        if (x->table[i].id == 0)
            break;
    }
    return NULL;
}

static void put(export_t *x, const entry_t *e)
{
    size_t i = place(x, e->id);

    while (x->table[i].id)
        i = (i + 1) & (x->size - 1);
    x->table[i] = *e;
}

static bool make_room(export_t *x)
{
    entry_t *old = x->table;
    size_t before = x->size;

    if (x->used * 2 < x->size)
        return true;
    x->table = kc__alloc((before ? before * 2 : 256) * sizeof *old);
    if (!x->table) {
        x->table = old;
        return x->used + 1 < x->size;
    }
    x->size = before ? before * 2 : 256;
    for (size_t i = 0; i < before; i++)
        if (old[i].id)
            put(x, &old[i]);
    kc__free(old);
    return true;
}

/* Those behind it that would no longer be found move up. */
static void take_out(export_t *x, entry_t *e)
{
    size_t hole = (size_t)(e - x->table), mask = x->size - 1;

    x->used--;
    for (size_t i = (hole + 1) & mask; x->table[i].id; i = (i + 1) & mask) {
        size_t home = place(x, x->table[i].id);
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        x->table[hole] = x->table[i];
        hole = i;
    }
    x->table[hole].id = 0;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* What all events have; the caller adds the rest and closes it. */
static void begin(export_t *x, const char *ph, unsigned lane, int64_t at)
{
    int64_t ns = at > x->trace->began ? at - x->trace->began : 0;

    fprintf(x->out, ",\n{\"ph\":\"%s\",\"pid\":1,\"tid\":%u,\"ts\":%" PRId64 ".%03d", ph, lane + 1,
            ns / 1000, (int)(ns % 1000));
}

static void put_name(export_t *x, const entry_t *e)
{
    fputs(",\"name\":\"", x->out);
    if (e && e->name[0])
        kc__json_put_text(x->out, e->name);
    else if (e)
        fprintf(x->out, "%s %" PRIu64,
                e->flags & KC_JOB_SCOPE     ? "scope"
                : e->flags & KC_JOB_GROUP   ? "group"
                : e->flags & KC_JOB_PROMISE ? "promise"
                                            : "job",
                e->id);
    else
        fputs("job ?", x->out);
    fputc('"', x->out);
}

static const char *state_name(unsigned state)
{
    static const char *const names[] = { "ACTIVE", "CANCELLING", "CANCELLED", "COMPLETED",
                                         "FAILED" };

    return names[state];
}

/* An "i": the caller adds further arguments and closes both. */
static void begin_instant(export_t *x, const kc_record_t *e, unsigned lane, const char *name,
                          uint64_t job)
{
    begin(x, "i", lane, e->at);
    fprintf(x->out, ",\"s\":\"t\",\"cat\":\"event\",\"name\":\"%s\",\"args\":{\"job\":%" PRIu64,
            name, job);
}

static void end_job(export_t *x, const entry_t *j, unsigned lane, int64_t at)
{
    begin(x, "e", lane, at);
    fprintf(x->out, ",\"cat\":\"job\",\"id\":%" PRIu64, j->id);
    put_name(x, j);
    fprintf(x->out, ",\"args\":{\"state\":\"%s\"", state_name(j->state));
}

/* Its number, and its "b". */
static void begin_job(export_t *x, entry_t *j, const entry_t *parent, unsigned lane, int64_t at)
{
    j->hidden = false;
    j->since = at;
    begin(x, "b", lane, at);
    fprintf(x->out, ",\"cat\":\"job\",\"id\":%" PRIu64, j->id);
    put_name(x, j);
    fprintf(x->out, ",\"args\":{\"parent\":%" PRIu64 ",\"state\":\"%s\"}}",
            parent ? parent->id : 0, state_name(j->state));
}

/* R2: j gets its "b", and before it those above it that have none. If the one above it was created
 * while the walk was on its way, so was j. */
static void show(export_t *x, entry_t *j)
{
    entry_t *up;

    for (j->below = 0; (up = lookup(x, j->above)) != NULL && up->hidden; j = up)
        up->below = j->id;
    for (; j; j = lookup(x, j->below)) {
        up = lookup(x, j->above);
        begin_job(x, j, up, x->lanes - 1, up ? up->since : x->trace->began);
    }
}

static entry_t *find(export_t *x, uint64_t id)
{
    entry_t *j = lookup(x, id);

    if (j && j->hidden)
        show(x, j);
    return j;
}

/* ---- one event ------------------------------------------------------------------------------ */

/* A job enters the table. NULL: no memory. */
static entry_t *add(export_t *x, const kc_record_t *e, const char *name, bool hidden)
{
    entry_t j = { .id = e->job, .above = e->other, .flags = (uint32_t)e->value, .hidden = hidden };

    j.state = e->state;
    if (!make_room(x)) {
        x->trace->dropped++;
        return NULL;
    }
    if (name)
        memcpy(j.name, name, sizeof j.name - 1);
    put(x, &j);
    x->used++;
    return lookup(x, e->job);
}

static void create(export_t *x, const kc_record_t *e, unsigned lane, const char *name)
{
    entry_t *hidden = lookup(x, e->job);

    if (hidden) /* the walk has met it too */
        take_out(x, hidden);
    entry_t *j = add(x, e, name, false);
    if (!j)
        return;
    const entry_t *parent = find(x, e->other);
    begin_job(x, j, parent, lane, e->at);
    begin_instant(x, e, lane, "JOB_CREATE", j->id);
    fprintf(x->out, "}}");
    if (parent) {
        begin_instant(x, e, lane, "JOB_CHILD_ATTACH", j->id);
        fprintf(x->out, ",\"parent\":%" PRIu64 "}}", parent->id);
    }
}

static void finalize(export_t *x, const kc_record_t *e, unsigned lane)
{
    entry_t *j = find(x, e->job);
    int reason = (int)(uint32_t)e->other;

    begin_instant(x, e, lane, "JOB_STATE", j ? j->id : 0);
    fprintf(x->out, ",\"state\":\"%s\"}}", state_name(e->state));
    begin_instant(x, e, lane, "JOB_FINALIZE", j ? j->id : 0);
    fprintf(x->out, ",\"state\":\"%s\",\"code\":%d,\"reason\":%d}}", state_name(e->state),
            e->value, reason);
    if (!j)
        return;
    j->state = e->state;
    end_job(x, j, lane, e->at);
    fprintf(x->out, ",\"code\":%d,\"reason\":%d}}", e->value, reason);
    take_out(x, j);
}

static void state(export_t *x, const kc_record_t *e, unsigned lane)
{
    static const char *const by[] = { "library", "parent", "child",    "body",
                                      "timeout", "grace",  "shutdown", "user" };
    entry_t *j = find(x, e->job);

    begin_instant(x, e, lane, "JOB_STATE", j ? j->id : 0);
    fprintf(x->out, ",\"state\":\"%s\",\"by\":\"%s\",\"reason\":%d}}", state_name(e->state),
            by[e->by], e->value);
    if (j)
        j->state = e->state;
}

/* An arrow from here to where j runs next. */
static void shoot(const kc_record_t *e, unsigned lane, entry_t *j, const char *name)
{
    if (j)
        j->arrow = (arrow_t){ .name = name, .lane = lane, .at = e->at };
}

static void put_arrow_end(export_t *x, const char *ph, unsigned lane, int64_t at, const char *name)
{
    begin(x, ph, lane, at);
    fprintf(x->out, ",\"cat\":\"flow\",\"name\":\"%s\",\"id\":%" PRIu64, name, x->last_arrow);
}

/* R3: the arrow ends in the slice that was begun just now. */
static void hit(export_t *x, const arrow_t *arrow, unsigned lane, int64_t at)
{
    if (!arrow->name)
        return;
    x->last_arrow++;
    begin(x, "B", arrow->lane, arrow->at);
    fprintf(x->out, ",\"cat\":\"flow\",\"name\":\"%s\"}", arrow->name);
    put_arrow_end(x, "s", arrow->lane, arrow->at, arrow->name);
    fputc('}', x->out);
    begin(x, "E", arrow->lane, arrow->at);
    fputc('}', x->out);
    put_arrow_end(x, "f", lane, at, arrow->name);
    fputs(",\"bp\":\"e\"}", x->out);
}

static void wait_or_cancel(export_t *x, const kc_record_t *e, unsigned lane)
{
    entry_t *j = find(x, e->job), *other = find(x, e->other);
    bool cancel = e->kind == KC_EVENT_CANCEL_REQ;

    begin_instant(x, e, lane,
                  cancel                          ? "JOB_CANCEL_REQ"
                  : e->kind == KC_EVENT_WAIT_WAKE ? "JOB_WAIT_WAKE"
                                                  : "JOB_WAIT_REGISTER",
                  j ? j->id : 0);
    fprintf(x->out, ",\"%s\":%" PRIu64, cancel ? "from" : "waiter", other ? other->id : 0);
    if (cancel)
        fprintf(x->out, ",\"reason\":%d", e->value);
    fputs("}}", x->out);
    if (cancel)
        shoot(e, lane, j, "cancel");
    else if (e->kind == KC_EVENT_WAIT_WAKE)
        shoot(e, lane, other, "wake");
}

static void stop_running(export_t *x, unsigned lane, int64_t at)
{
    if (!x->lane[lane].open)
        return;
    begin(x, "E", lane, at);
    fputc('}', x->out);
    x->lane[lane].open = false;
}

/* The thread of this lane runs the body of job; 0: none. */
static void run(export_t *x, uint64_t job, unsigned lane, int64_t at)
{
    entry_t *j = find(x, job);

    stop_running(x, lane, at);
    if (!job)
        return;
    if (!j && add(x, &(kc_record_t){ .job = job }, NULL, true))
        j = find(x, job); /* it was there before, and has run before the walk came to it */
    arrow_t none = { 0 }, arrow = j ? j->arrow : none;
    if (j)
        j->arrow = none;
    for (entry_t *up; j && (j->flags & KC_JOB_SCOPE) && (up = find(x, j->above)); j = up) {
        arrow = up->arrow.name ? up->arrow : arrow;
        up->arrow = none;
    }
    begin(x, "B", lane, at);
    fputs(",\"cat\":\"run\"", x->out);
    put_name(x, j);
    fprintf(x->out, ",\"args\":{\"job\":%" PRIu64 "}}", j ? j->id : 0);
    x->lane[lane].open = true;
    hit(x, &arrow, lane, at);
}

/* This lane's first RUN, of `next`, or the end: what was found running had run from the start, or
 * since it was created. */
static void ran_before(export_t *x, unsigned lane, uint64_t next, int64_t at)
{
    uint64_t job = x->lane[lane].ran;

    x->lane[lane].ran = 0;
    if (!job || job == next || at <= x->lane[lane].ran_at)
        return;
    const entry_t *j = find(x, job);
    if (j)
        run(x, job, lane, j->since);
}

/* Of the lane with what was there before. */
static void event_before(export_t *x, const kc_record_t *e, const char *name)
{
    if (e->kind == KC_EVENT_RUNS) {
        x->lane[e->value].ran = e->job;
        x->lane[e->value].ran_at = e->at;
    } else if (!lookup(x, e->job)) {
        add(x, e, name, true);
    }
}

static void one_event(export_t *x, const kc_record_t *e, unsigned lane, const char *name)
{
    switch ((kc_event_kind_t)e->kind) {
    case KC_EVENT_RUN:
        ran_before(x, lane, e->job, e->at);
        run(x, e->job, lane, e->at);
        break;
    case KC_EVENT_CREATE:
        create(x, e, lane, name);
        break;
    case KC_EVENT_STATE:
        state(x, e, lane);
        break;
    case KC_EVENT_FINALIZE:
        finalize(x, e, lane);
        break;
    case KC_EVENT_CANCEL_REQ:
    case KC_EVENT_WAIT_REGISTER:
    case KC_EVENT_WAIT_WAKE:
        wait_or_cancel(x, e, lane);
        break;
    case KC_EVENT_NAME:
    case KC_EVENT_RUNS:
    case KC_EVENT_PRESENT:
        break;
    }
}

/* ---- merging -------------------------------------------------------------------------------- */

static bool read_all(int fd, void *data, size_t size, off_t at)
{
    char *to = data;

    while (size > 0) {
        ssize_t n = pread(fd, to, size, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* Whose each chunk is. */
static int read_headers(export_t *x)
{
    uint32_t n = kc_load_relaxed(&x->trace->chunks);

    x->owner = kc__alloc(n + 1);
    x->slots = kc__alloc((n + 1) * sizeof *x->slots);
    if (!x->owner || !x->slots)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        kc_record_t head = { 0 };
        if (read_all(x->trace->spill, &head, sizeof head, (off_t)i * KC_CHUNK_SIZE)) {
            x->owner[i] = (uint8_t)head.job;
            x->slots[i] = (uint32_t)head.other; /* 0: it was not written */
        }
    }
    return 0;
}

/* The next event of a lane; NULL: it has no more. */
static const kc_record_t *peek(export_t *x, unsigned i)
{
    uint32_t n = kc_load_relaxed(&x->trace->chunks);

    while (x->lane[i].at >= x->lane[i].count) {
        uint32_t k = x->lane[i].chunk;
        while (k < n && (x->slots[k] == 0 || x->owner[k] != i))
            k++;
        x->lane[i].chunk = k < n ? k + 1 : n; /* what was passed is not looked at again */
        if (k >= n)
            return NULL;
        x->lane[i].at = 1;
        x->lane[i].count = x->slots[k];
        if (!read_all(x->trace->spill, x->lane[i].events, x->slots[k] * sizeof(kc_record_t),
                      (off_t)k * KC_CHUNK_SIZE))
            x->lane[i].count = 0;
    }
    return &x->lane[i].events[x->lane[i].at];
}

/* The name of an event, and the lane goes on. */
static const char *pass(export_t *x, unsigned lane, const kc_record_t *e)
{
    x->lane[lane].at += 1 + e->named;
    return e->named ? (const char *)(e + 1) : NULL;
}

static void merge(export_t *x)
{
    unsigned before = x->lanes - KC_LANES_MORE + KC_LANE_BEFORE;

    for (const kc_record_t *e; (e = peek(x, before)) != NULL;)
        event_before(x, e, pass(x, before, e));
    for (;;) {
        const kc_record_t *first = NULL;
        unsigned lane = 0;
        for (unsigned i = 0; i < before; i++) {
            const kc_record_t *e = peek(x, i);
            if (e && (!first || e->at < first->at)) {
                first = e;
                lane = i;
            }
        }
        if (!first)
            return;
        one_event(x, first, lane, pass(x, lane, first));
    }
}

/* ---- the file ------------------------------------------------------------------------------- */

static void put_metadata(export_t *x)
{
    static const char *const more[] = { "main", "other threads", "before the trace" };

    fputs(
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
        "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"ts\":0,\"name\":\"process_name\",\"args\":{\"name\":"
        "\"kcoro ",
        x->out);
    kc__json_put_text(x->out, x->sched->name);
    fputs("\"}}", x->out);
    for (unsigned i = 0; i < x->lanes; i++) {
        begin(x, "M", i, 0);
        fputs(",\"name\":\"thread_name\",\"args\":{\"name\":\"", x->out);
        if (i < (unsigned)x->sched->workers)
            fprintf(x->out, "worker %u", i);
        else
            fputs(more[i - (unsigned)x->sched->workers], x->out);
        fputs("\"}}", x->out);
    }
}

static void put_end(export_t *x)
{
    int64_t at = x->trace->ended;

    for (unsigned i = 0; i < x->lanes; i++) {
        ran_before(x, i, 0, at);
        stop_running(x, i, at);
    }
    for (size_t i = 0; i < x->size; i++)
        if (x->table[i].id)
            (void)find(x, x->table[i].id);
    for (size_t i = 0; i < x->size; i++)
        if (x->table[i].id) {
            end_job(x, &x->table[i], x->lanes - 1, at);
            fputs("}}", x->out);
        }
    fprintf(x->out,
            "\n],\"otherData\":{\"clock\":\"CLOCK_MONOTONIC\",\"began_ns\":%" PRId64
            ",\"dropped\":%" PRIu64 "}}\n",
            x->trace->began, x->trace->dropped);
}

int kc__trace_export(kc_sched_t *s, kc_trace_t *t, unsigned lanes, kc_record_t **buffer)
{
    export_t *x = kc__alloc(sizeof *x);
    int rc = x ? 0 : -ENOMEM;

    if (x) {
        *x = (export_t){ .sched = s, .trace = t, .out = t->out, .lanes = lanes };
        for (unsigned i = 0; i < lanes; i++)
            x->lane[i].events = buffer[i];
        rc = read_headers(x);
        put_metadata(x);
        if (rc == 0)
            merge(x);
        put_end(x);
        kc__free(x->table);
        kc__free(x->owner);
        kc__free(x->slots);
        kc__free(x);
    }
    bool bad = ferror(t->out);
    if (fclose(t->out) != 0)
        return -errno;
    return bad ? -EIO : rc;
}
