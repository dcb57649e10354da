/* SPDX-License-Identifier: MIT */
/*
 * trace.c - a trace: where events go while it is on, and how it starts and stops.
 *
 * WHAT     Threads record into their lanes (base/recorder.h). Whoever fills one writes it to a file
 *          without a name, the spill, as one chunk. Stop takes the recorder away, empties the
 *          lanes, and makes the real file of all chunks, in order of time (export.c).
 *
 * SHAPE    spill:  chunk 0 | chunk 1 | ...     chunk: header | up to 2 047 slots
 *          The header is written last: a chunk that did not fit is empty, and counted as dropped.
 *
 * ORDER    id       site             operation      pairs with  carries; what breaks if weaker
 *          trace.1  start: recorder  store_release  sched.4     the recorder
 *          Stop needs none: the lock of each lane (base/lock.h) says whether it is on.
 *
 * WHY NOT  JSON at once: it is five times as long, and what was there before the trace, and what
 *          arrows lead where, is known only later.
 */
#define _GNU_SOURCE
#include "top/trace.h"
#include "top/export.h"
#include "top/tree.h"

#include <kcoro/trace.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t trace_lock =
    PTHREAD_MUTEX_INITIALIZER; /* start and stop, of all schedulers */

/* ---- full lanes ----------------------------------------------------------------------------- */

static bool write_all(int fd, const void *data, size_t size, off_t at)
{
    const char *from = data;

    while (size > 0) {
        ssize_t n = pwrite(fd, from, size, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        from += n;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static uint64_t count_events(const kc_lane_t *lane)
{
    uint64_t n = 0;

    for (uint32_t i = 1; i < lane->count; i += 1 + lane->events[i].named)
        n++;
    return n;
}

/* Under the lane's lock. */
static void flush(kc_recorder_t *r, unsigned i)
{
    kc_trace_t *t = r->owner;
    kc_lane_t *lane = &r->lane[i];
    off_t at = (off_t)kc_add_relaxed(&t->chunks, 1) * KC_CHUNK_SIZE;
    int saved = errno;

    lane->events[0] = (kc_record_t){ .job = i, .other = lane->count };
    if (!write_all(t->spill, lane->events + 1, (lane->count - 1) * sizeof(kc_record_t),
                   at + (off_t)sizeof(kc_record_t)) ||
        !write_all(t->spill, lane->events, sizeof(kc_record_t), at)) {
        int none = 0;
        kc_cas_relaxed(&t->error, &none, errno ? errno : EIO);
        lane->dropped += count_events(lane);
    }
    lane->count = 1;
    errno = saved;
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Streams forget why a write failed; we do not. */
static ssize_t file_write(void *cookie, const char *data, size_t size)
{
    kc_trace_t *t = cookie;
    ssize_t n;

    do
        n = write(t->fd, data, size);
    while (n < 0 && errno == EINTR);
    int none = 0;
    if (n < 0)
        kc_cas_relaxed(&t->error, &none, errno);
    return n > 0 ? n : 0;
}

static int file_close(void *cookie)
{
    kc_trace_t *t = cookie;

    return close(t->fd);
}

/* Whether there is a trace, for those who look at nothing else in every turn. */
static void set_mode(kc_worker_t *w, bool on)
{
    if (on)
        kc_or_relaxed(&w->mode, KC_MODE_TRACE);
    else
        kc_and_relaxed(&w->mode, ~(uint32_t)KC_MODE_TRACE);
}

static void set_modes(kc_sched_t *s, bool on)
{
    set_mode(s->main, on);
    for (int i = 0; i < s->workers; i++)
        set_mode(s->worker[i], on);
}

/* ---- start ---------------------------------------------------------------------------------- */

static kc_recorder_t *recorder_of(kc_sched_t *s)
{
    unsigned lanes = (unsigned)s->workers + KC_LANES_MORE;

    if (s->old_recorder)
        return s->old_recorder;
    kc_trace_t *t = kc__alloc(sizeof *t);
    kc_recorder_t *r =
        t ? kc__alloc_aligned(KC_CACHE_LINE, sizeof *r + lanes * sizeof r->lane[0]) : NULL;
    if (!r) {
        kc__free(t);
        return NULL;
    }
    r->flush = flush;
    r->owner = t;
    r->lanes = lanes;
    s->old_recorder = r;
    return r;
}

/* A file without a name, in the folder of path, or where temporary ones go. */
static int open_spill(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    char name[] = "/tmp/kcoro-XXXXXX";

    if (!folder)
        return -ENOMEM;
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    free(folder);
    if (fd < 0 && (fd = mkostemp(name, O_CLOEXEC)) >= 0)
        unlink(name);
    return fd < 0 ? -errno : fd;
}

static int open_files(kc_trace_t *t, const char *path)
{
    t->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (t->fd < 0)
        return -errno;
    t->spill = open_spill(path);
    if (t->spill < 0) {
        close(t->fd);
        return t->spill;
    }
    t->out =
        fopencookie(t, "w", (cookie_io_functions_t){ .write = file_write, .close = file_close });
    if (t->out)
        return 0;
    close(t->fd);
    close(t->spill);
    return -ENOMEM;
}

/* Takes the lanes out of use. Their memory goes to buffer, what they hold to the spill. */
static void close_lanes(kc_recorder_t *r, kc_record_t **buffer, uint64_t *dropped)
{
    for (unsigned i = 0; i < r->lanes; i++) {
        kc_lane_t *lane = &r->lane[i];
        kc__spin_lock(&lane->lock);
        if (lane->events && lane->count > 1)
            flush(r, i);
        buffer[i] = lane->events;
        *dropped += lane->dropped;
        lane->events = NULL;
        kc__spin_unlock(&lane->lock);
    }
}

static int open_lanes(kc_recorder_t *r)
{
    kc_record_t *unused[KC_MAX_WORKERS + KC_LANES_MORE];
    uint64_t dropped = 0;
    unsigned i;

    for (i = 0; i < r->lanes; i++) {
        kc_lane_t *lane = &r->lane[i];
        kc_record_t *events = kc__alloc(KC_CHUNK_SIZE);
        if (!events)
            break;
        kc__spin_lock(&lane->lock);
        lane->events = events;
        lane->count = 1;
        lane->dropped = 0;
        kc__spin_unlock(&lane->lock);
    }
    if (i == r->lanes)
        return 0;
    close_lanes(r, unused, &dropped);
    for (i = 0; i < r->lanes; i++)
        kc__free(unused[i]);
    return -ENOMEM;
}

/* One that was there before, and whether it runs: its thread may not switch for long. */
static void present(kc_job_t *j, unsigned depth, bool leaf, void *arg)
{
    kc_sched_t *s = arg;

    (void)depth;
    (void)leaf;
    uint64_t word = kc__job_lock(j);
    const kc_worker_t *w = kc_load_relaxed(&j->task.worker);
    bool runs = (word & KC_WORD_BODY) && kc_load_relaxed(&w->running) == j->task.co &&
                kc_load_relaxed(&j->task.kind) == KC_WAIT_NONE;
    kc__job_unlock(j);
    if ((word & KC_WORD_COUNT) == 0)
        return; /* it has ended; else its end is recorded, as it comes after this lock */
    kc__job_record(s, j, 0, KC_EVENT_PRESENT);
    if (runs)
        KC_TRACE(s, .kind = KC_EVENT_RUNS, .job = kc__job_number(j),
                 .value = w->index == KC_MAIN ? s->workers : w->index);
}

static int start(kc_sched_t *s, const char *path)
{
    static const struct kc_tree_visitor visitor = { present, NULL };
    kc_recorder_t *r = recorder_of(s);

    if (!r)
        return -ENOMEM;
    kc_trace_t *t = r->owner;
    int rc = open_files(t, path);
    if (rc < 0)
        return rc;
    t->dropped = 0;
    t->began = kc__os_now();
    kc_store_relaxed(&t->chunks, 0);
    kc_store_relaxed(&t->error, 0);
    rc = open_lanes(r);
    if (rc < 0) {
        fclose(t->out);
        close(t->spill);
        return rc;
    }
    kc_store_release(&s->recorder, r); /* trace.1 */
    set_modes(s, true);
    (void)kc__tree_walk(s, &visitor, s);
    return 0;
}

int kc_trace_start(kc_sched_t *s, const char *path)
{
    if (!s || !path)
        return -EINVAL;
    kc__sched_check("kc_trace_start", s);
    kc__sched_check_process(s);
    pthread_mutex_lock(&trace_lock);
    int rc = kc_load_relaxed(&s->recorder) ? -EALREADY : start(s, path);
    pthread_mutex_unlock(&trace_lock);
    return rc;
}

/* ---- stop ----------------------------------------------------------------------------------- */

static int stop(kc_sched_t *s, kc_recorder_t *r)
{
    kc_record_t *buffer[KC_MAX_WORKERS + KC_LANES_MORE];
    kc_trace_t *t = r->owner;

    kc_store_relaxed(&s->recorder, NULL);
    set_modes(s, false);
    close_lanes(r, buffer, &t->dropped);
    t->ended = kc__os_now();
    int rc = kc__trace_export(s, t, r->lanes, buffer);
    for (unsigned i = 0; i < r->lanes; i++)
        kc__free(buffer[i]);
    close(t->spill);
    return kc_load_relaxed(&t->error) ? -kc_load_relaxed(&t->error) : rc;
}

int kc_trace_stop(kc_sched_t *s)
{
    if (!s)
        return -EINVAL;
    kc__sched_check("kc_trace_stop", s);
    kc__sched_check_process(s);
    pthread_mutex_lock(&trace_lock);
    kc_recorder_t *r = kc_load_relaxed(&s->recorder);
    int rc = r ? stop(s, r) : -EALREADY;
    pthread_mutex_unlock(&trace_lock);
    return rc;
}

void kc__trace_end(kc_sched_t *s)
{
    if (kc_load_relaxed(&s->recorder))
        (void)kc_trace_stop(s);
}
