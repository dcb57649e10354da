/* SPDX-License-Identifier: MIT */
/*
 * demo.c - a short live show of what the library does, one scene after the other: make demo.
 *
 * Every number is measured while you look. A scene is a function that draws itself; more will
 * follow as the library grows.
 */
#define _GNU_SOURCE
#include <kcoro/kcoro.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A line of /proc/self/status, in KiB. */
static long status_kib(const char *name)
{
    char line[256];
    long value = 0;
    FILE *f = fopen("/proc/self/status", "r");

    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtol(line + strlen(name) + 1, NULL, 10);
    if (f)
        fclose(f);
    return value;
}

static void scene(const char *title)
{
    printf("\n== %s\n", title);
    fflush(stdout);
}

/* A bar that is redrawn in place on a terminal and printed once, full, elsewhere. */
static void progress(const char *what, long done, long all)
{
    bool full = done >= all;

    if (!full && !isatty(STDOUT_FILENO))
        return;
    printf("\r  %-28s [", what);
    for (int i = 0; i < 30; i++)
        putchar(i < 30 * done / all ? '#' : '.');
    printf("] %9ld%s", done, full ? "" : "\r");
    fflush(stdout);
}

static void ended(double start, long count)
{
    double took = seconds() - start;

    printf("  %6.2f s, %5.0f ns each\n", took, took * 1e9 / (double)count);
}

static void check(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "\ndemo: %s: %s\n", what, strerror(-rc));
    exit(1);
}

/* ---- scene 1: generators ------------------------------------------------------------------- */

struct number {
    long value;
};

static void fibonacci(void *arg)
{
    struct number *n = arg;

    for (long a = 0, b = 1;; b += a, a = b - a) {
        n->value = a;
        kcoro_yield();
    }
}

static void show_generator(void)
{
    struct number n;
    kcoro_t *co = kcoro_create(fibonacci, &n, 0);

    scene("a coroutine that never ends, used as long as it pleases");
    printf("  ");
    for (int i = 0; co && i < 20; i++) {
        check(kcoro_resume(co), "kcoro_resume");
        printf("%ld ", n.value);
    }
    printf("\n  its stack was used %zu bytes deep; destroyed in the middle of its loop\n",
           co ? kcoro_stack_used(co) : 0);
    kcoro_destroy(co);
}

/* ---- scene 2: the switch ------------------------------------------------------------------- */

static void yield_for_ever(void *arg)
{
    (void)arg;
    for (;;)
        kcoro_yield();
}

static void show_switches(void)
{
    enum { ROUNDS = 10000000, STEP = 500000 };
    kcoro_t *co = kcoro_create(yield_for_ever, NULL, 0);

    scene("resume and yield, back and forth");
    double start = seconds();
    for (long i = 0; co && i < ROUNDS; i += STEP) {
        for (long k = 0; k < STEP; k++)
            check(kcoro_resume(co), "kcoro_resume");
        progress("switches", 2 * (i + STEP), 2L * ROUNDS);
    }
    ended(start, 2L * ROUNDS);
    kcoro_destroy(co);
}

/* ---- scene 3: a million at once ------------------------------------------------------------ */

static void wait_twice(void *arg)
{
    long *sum = arg;

    ++*sum;
    kcoro_yield();
    ++*sum;
    kcoro_park();
    ++*sum;
}

/* As many as fit in half of the free memory, a million at most. */
static long how_many(void)
{
    struct sysinfo info;
    long fit = 1000000;

    if (sysinfo(&info) == 0) {
        long bytes = (long)((double)info.freeram * info.mem_unit / 2);
        if (bytes / 4500 < fit)
            fit = bytes / 4500 / 1000 * 1000;
    }
    return fit;
}

typedef void (*each_fn)(kcoro_t **co, long *sum);

static void each_create(kcoro_t **co, long *sum)
{
    *co = kcoro_create(wait_twice, sum, 0);
    if (!*co) {
        fprintf(stderr, "\ndemo: kcoro_create: %s\n", kcoro_create_error());
        exit(1);
    }
}

static void each_resume(kcoro_t **co, long *sum)
{
    (void)sum;
    check(kcoro_resume(*co), "kcoro_resume");
}

static void each_unpark(kcoro_t **co, long *sum)
{
    (void)sum;
    check(kcoro_unpark(*co), "kcoro_unpark");
}

static void each_destroy(kcoro_t **co, long *sum)
{
    (void)sum;
    kcoro_destroy(*co);
}

static void show_million(void)
{
    static const struct {
        const char *what;
        each_fn each;
    } acts[] = {
        { "create", each_create },
        { "start, run to a yield", each_resume },
        { "resume, run to a park", each_resume },
        { "unpark", each_unpark },
        { "resume, run to the end", each_resume },
        { "destroy", each_destroy },
    };
    long n = how_many(), sum = 0, before = status_kib("VmRSS:") + status_kib("VmPTE:"), peak = 0;
    kcoro_t **co = calloc((size_t)n, sizeof *co);

    if (!co || n == 0) {
        printf("  not enough memory for this scene\n");
        free(co);
        return;
    }
    scene("a million coroutines at once, each with a guarded stack of 64 KiB");
    if (n < 1000000)
        printf("  (%ld here: that is what fits in half of the free memory)\n", n);
    for (size_t a = 0; a < sizeof acts / sizeof acts[0]; a++) {
        double start = seconds();
        for (long i = 0; i < n; i++) {
            acts[a].each(&co[i], &sum);
            if (i % 50000 == 0)
                progress(acts[a].what, i, n);
        }
        progress(acts[a].what, n, n);
        ended(start, n);
        long now = status_kib("VmRSS:") + status_kib("VmPTE:");
        peak = now > peak ? now : peak;
    }
    long after = status_kib("VmRSS:") + status_kib("VmPTE:");
    printf("  %ld steps were made, %ld expected\n", sum, 3 * n);
    printf("  memory with page tables: %ld MiB for all, %.0f bytes each; %ld MiB after the last "
           "destroy\n",
           (peak - before) / 1024, (double)(peak - before) * 1024 / (double)n,
           (after - before) / 1024);
    free(co);
    if (sum != 3 * n)
        exit(1);
}

/* ---- scene 4: tasks over workers ------------------------------------------------------------- */

enum { TASKS = 2000000 };

static atomic_long tasks_run[KC_MAX_WORKERS + 1];

static int small_task(void *arg)
{
    int where = kc_worker_index();

    (void)arg;
    atomic_fetch_add_explicit(&tasks_run[where == KC_MAIN ? KC_MAX_WORKERS : where], 1,
                              memory_order_relaxed);
    return 0;
}

static int spread_tasks(void *arg)
{
    kc_sched_t *s = kc_sched_current();

    (void)arg;
    for (long i = 1; i <= TASKS; i++) {
        check(kc_sched_submit(s, KC_WORKER, small_task, NULL), "kc_sched_submit");
        if (i % 1000 == 0)
            kc_yield();
        if (i % 50000 == 0)
            progress("tasks submitted", i, TASKS);
    }
    return 0;
}

static void show_tasks(void)
{
    scene("two million tasks over the main thread and its workers");
    double start = seconds();
    check(kc_run(spread_tasks, NULL, NULL), "kc_run");
    ended(start, TASKS);
    long sum = 0;
    for (int i = 0; i <= KC_MAX_WORKERS; i++) {
        long n = atomic_load(&tasks_run[i]);
        sum += n;
        if (n > 0 && i < KC_MAX_WORKERS)
            printf("  worker %d ran %ld\n", i, n);
        else if (n > 0)
            printf("  the main thread ran %ld\n", n);
    }
    if (sum != TASKS)
        exit(1);
}

/* ---- scene 5: virtual time ------------------------------------------------------------------- */

static long alarms;

static int alarm_clock(void *arg)
{
    kc_time_t every = *(kc_time_t *)arg;

    for (kc_time_t at = kc_now() + every, end = kc_now() + KC_SEC(24 * 3600); at <= end;
         at += every) {
        check(kc_sleep_until(at), "kc_sleep_until");
        alarms++;
    }
    return 0;
}

static int set_alarms(void *arg)
{
    static kc_time_t every[100];

    (void)arg;
    for (int i = 0; i < 100; i++) {
        every[i] = KC_SEC(60 + 7 * i);
        check(kc_sched_submit(kc_sched_current(), KC_MAIN, alarm_clock, &every[i]),
              "kc_sched_submit");
    }
    return 0;
}

static void show_virtual_time(void)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME };

    scene("a day of a hundred alarm clocks, in virtual time");
    double start = seconds();
    check(kc_run(set_alarms, NULL, &opts), "kc_run");
    printf("  %ld alarms rang in 24 hours, which took %.0f ms\n", alarms,
           (seconds() - start) * 1e3);
}

int main(void)
{
    printf("kcoro %s\n", kc_version());
    show_generator();
    show_switches();
    show_million();
    show_tasks();
    show_virtual_time();
    printf("\nThat was all. make test runs the tests, make bench compares with others.\n");
    return 0;
}
