/* SPDX-License-Identifier: MIT */
/*
 * hold.c - holds many suspended coroutines in a child process and looks at it from inside.
 *
 * The slots are touched before the first look, so that their pages count for nobody. Resident
 * memory and page tables are what the kernel says in /proc/self/status.
 */
#include "hold.h"

#include "harness.h"

#include <kcoro/coro.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { GUARD = 4096, STRIDE = KB_STACK + GUARD, CHILD_LIMIT_S = 60 };

/* A value of /proc/self/status or /proc/meminfo, in bytes; 0: it has no such line. */
static double proc_bytes(const char *file, const char *key)
{
    char line[256];
    double bytes = 0;
    size_t length = strlen(key);
    FILE *f = fopen(file, "r");

    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, length) == 0 && line[length] == ':')
            bytes = strtod(line + length + 1, NULL) * 1024;
    if (f)
        fclose(f);
    return bytes;
}

static double faults_now(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_minflt;
}

/* ---- ours ---------------------------------------------------------------------------------- */

static void suspended_body(void *arg)
{
    (void)arg;
    kcoro_yield();
}

static size_t kcoro_hold(void **slots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kcoro_t *co = kcoro_create(suspended_body, NULL, KB_STACK);

        if (!co)
            return i;
        slots[i] = co;
        if (kcoro_resume(co) != 0)
            return i;
    }
    return count;
}

static void kcoro_drop(void **slots, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kcoro_destroy(slots[i]);
}

const struct kb_holder kb_hold_kcoro = { "kcoro", kcoro_hold, kcoro_drop };

/* ---- the floor ----------------------------------------------------------------------------- */

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

static size_t floor_hold(void **slots, size_t count)
{
    size_t size = count * STRIDE;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    if (p == MAP_FAILED)
        return 0;
    madvise(p, size, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < count; i++) {
        char *guard = p + i * STRIDE;

        if (madvise(guard, GUARD, MADV_GUARD_INSTALL) != 0 &&
            mprotect(guard, GUARD, PROT_NONE) != 0)
            return i;
        slots[i] = guard;
        *(volatile char *)(guard + STRIDE - 64) = 1;
    }
    return count;
}

static void floor_drop(void **slots, size_t count)
{
    if (count > 0)
        munmap(slots[0], count * STRIDE);
}

const struct kb_holder kb_hold_floor = { "floor: guard and first touch, no more", floor_hold,
                                         floor_drop };

/* ---- in the child -------------------------------------------------------------------------- */

struct request {
    const struct kb_holder *holder;
    size_t count;
};

static void hold_measure(void *arg, double *out)
{
    const struct request *r = arg;
    struct kb_held *held = (struct kb_held *)(void *)out;
    void **slots = malloc(r->count * sizeof *slots);

    if (!slots)
        abort();
    memset(slots, 1, r->count * sizeof *slots);
    double rss = proc_bytes("/proc/self/status", "VmRSS");
    double page_tables = proc_bytes("/proc/self/status", "VmPTE");
    double faults = faults_now();
    int64_t start = kb_now();
    size_t got = r->holder->hold(slots, r->count);

    held->hold_ns = (double)(kb_now() - start);
    held->faults = faults_now() - faults;
    held->rss = proc_bytes("/proc/self/status", "VmRSS") - rss;
    held->page_tables = proc_bytes("/proc/self/status", "VmPTE") - page_tables;
    start = kb_now();
    r->holder->drop(slots, got);
    held->drop_ns = (double)(kb_now() - start);
    held->rss_after = proc_bytes("/proc/self/status", "VmRSS") - rss;
    held->count = (double)got;
}

bool kb_hold(const struct kb_holder *holder, size_t count, struct kb_held *out)
{
    struct request r = { holder, count };

    return kb_in_child(hold_measure, &r, CHILD_LIMIT_S, sizeof *out / sizeof(double),
                       (double *)out);
}

static void touch_measure(void *arg, double *out)
{
    size_t count = *(size_t *)arg, size = count * STRIDE;
    volatile char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    *out = NAN;
    if (p == MAP_FAILED)
        return;
    madvise((void *)p, size, MADV_NOHUGEPAGE);
    int64_t start = kb_now();

    for (size_t i = 0; i < count; i++)
        p[i * STRIDE] = 1;
    *out = (double)(kb_now() - start) / (double)count;
}

double kb_hold_fault_ns(size_t count)
{
    double ns = NAN;

    return kb_in_child(touch_measure, &count, CHILD_LIMIT_S, 1, &ns) ? ns : NAN;
}

bool kb_hold_fits(size_t count, size_t bytes_each)
{
    double available = proc_bytes("/proc/meminfo", "MemAvailable");

    return available == 0 || (double)count * (double)bytes_each < 0.7 * available;
}
