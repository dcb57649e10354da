/* SPDX-License-Identifier: MIT */
/*
 * demo.c - a short live show of what the library does, one scene after the other: make demo.
 *
 * Every number is measured while you look. A scene is a function that draws itself; more will
 * follow as the library grows.
 */
#define _GNU_SOURCE
#include <kcoro/kcoro.h>

#include <errno.h>
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

/* Resident memory with page tables. */
static long memory_kib(void)
{
    return status_kib("VmRSS:") + status_kib("VmPTE:");
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

/* ---- scene 1: generators --------------------------------------------------------------------- */

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

/* ---- scene 2: the switch --------------------------------------------------------------------- */

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

/* ---- scene 3: a million at once -------------------------------------------------------------- */

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
    long n = how_many(), sum = 0, before = memory_kib(), peak = 0;
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
        long now = memory_kib();
        peak = now > peak ? now : peak;
    }
    long after = memory_kib();
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

/* ---- scene 6: a tree of jobs ----------------------------------------------------------------- */

struct node {
    const char *name;
    int parent, depth;
    kc_time_t life, farewell; /* how long it works, and how long its cleanup takes */
    int rc;
    kc_job_t *job;
    int shown;      /* the state that was drawn last; -1: none */
    kc_time_t when; /* since when that is so */
};

/* Parents come before their children. */
static struct node nodes[] = {
    { .name = "shop (supervisor)", .parent = -1, .life = KC_MS(100) },
    { .name = "mail", .parent = 0, .depth = 1, .life = KC_MS(5000) },
    { .name = "inbox", .parent = 1, .depth = 2, .life = KC_MS(400), .rc = -EIO },
    { .name = "outbox", .parent = 1, .depth = 2, .life = KC_MS(5000), .farewell = KC_MS(300) },
    { .name = "spam filter", .parent = 1, .depth = 2, .life = KC_MS(5000) },
    { .name = "web", .parent = 0, .depth = 1, .life = KC_MS(100) },
    { .name = "client 1", .parent = 5, .depth = 2, .life = KC_MS(600) },
    { .name = "client 2", .parent = 5, .depth = 2, .life = KC_MS(900) },
};
enum { NODES = sizeof nodes / sizeof nodes[0] };

static void draw_node(const struct node *n)
{
    static const char *const words[] = {
        [KC_JOB_ACTIVE] = "works",        [KC_JOB_CANCELLING] = "is cancelled, cleans up",
        [KC_JOB_CANCELLED] = "cancelled", [KC_JOB_COMPLETED] = "done",
        [KC_JOB_FAILED] = "FAILED",
    };
    int indent = 3 * n->depth;

    printf("  %4d ms  %*s%s%-*s %-26s\n", (int)(n->when / KC_MS(10) * 10), indent, "",
           n->depth ? "+- " : "", n->depth ? 24 - indent : 27, n->name,
           n->shown < 0 ? "" : words[n->shown]);
}

/* On a terminal the tree is redrawn in place; elsewhere it is drawn once, then what has changed. */
static void draw_tree(bool first, kc_time_t start)
{
    bool in_place = isatty(STDOUT_FILENO);

    if (in_place && !first)
        printf("\033[%dA", NODES);
    for (int i = 0; i < NODES; i++) {
        struct node *n = &nodes[i];
        int state = n->job ? (int)kc_job_state(n->job) : -1;
        bool changed = first || state != n->shown;
        n->when = changed && !first ? kc_now() - start : n->when;
        n->shown = state;
        if (changed || in_place)
            draw_node(n);
    }
    fflush(stdout);
}

static void say_farewell(void *arg)
{
    (void)!kc_sleep(((struct node *)arg)->farewell); /* a cleanup may wait: it is shielded */
}

static int node_body(void *arg)
{
    struct node *me = arg;

    if (me->farewell > 0)
        check(kc_defer(say_farewell, me), "kc_defer");
    for (int i = 0; i < NODES; i++)
        if (nodes[i].parent == me - nodes)
            check(kc_launch_job(node_body, &nodes[i], NULL, &nodes[i].job), "kc_launch_job");
    int rc = kc_sleep(me->life);
    return rc == 0 ? me->rc : rc;
}

static int paint_tree(void *arg)
{
    kc_launch_opts_t opts = { .flags = KC_JOB_SUPERVISOR };
    kc_time_t start = kc_now();

    (void)arg;
    check(kc_launch_job(node_body, &nodes[0], &opts, &nodes[0].job), "kc_launch_job");
    check(kc_sleep(KC_MS(50)), "kc_sleep"); /* all have started */
    draw_tree(true, start);
    while (kc_job_result(nodes[0].job, NULL) == -EAGAIN) {
        check(kc_sleep(KC_MS(20)), "kc_sleep");
        draw_tree(false, start);
    }
    printf("  the supervisor's result: %d; inbox failed with %d, and took only mail with it\n",
           kc_job_join(nodes[0].job), kc_job_join(nodes[2].job));
    for (int i = 0; i < NODES; i++)
        kc_job_release(nodes[i].job);
    return 0;
}

static void show_tree(void)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };

    scene("a tree of jobs: a failure cancels its siblings, a supervisor survives it");
    check(kc_run(paint_tree, NULL, &opts), "kc_run");
}

/* ---- scene 7: a timeout and a shield --------------------------------------------------------- */

static kc_time_t told_since;

static void say_when(const char *what)
{
    printf("  %4d ms  %s\n", (int)((kc_now() - told_since) / KC_MS(1)), what);
    fflush(stdout);
}

static void close_journal(void *arg)
{
    (void)arg;
    (void)!kc_sleep(KC_MS(60));
    say_when("the journal is closed, which took 60 ms");
}

static int copy_blocks(void *arg)
{
    int *copied = arg, rc = kc_defer(close_journal, NULL);

    while (rc == 0 && *copied < 100) {
        char text[64];
        rc = kc_shield_begin(); /* a block is copied whole or not at all */
        if (rc != 0)
            break;
        check(kc_sleep(KC_MS(80)), "kc_sleep under a shield");
        snprintf(text, sizeof text, "block %d is copied", ++*copied);
        say_when(text);
        kc_shield_end();
        rc = kc_check();
    }
    return rc;
}

static int copy_in_time(void *arg)
{
    int copied = 0;

    (void)arg;
    told_since = kc_now();
    int rc = kc_with_timeout(KC_MS(300), copy_blocks, &copied);
    say_when(rc == -ETIMEDOUT ? "-ETIMEDOUT: the time was over at 300 ms, and no block is torn"
                              : "it was not timed out");
    return rc == -ETIMEDOUT ? 0 : 1;
}

static void show_timeout(void)
{
    scene("a timeout of 300 ms, blocks under shields, and a cleanup that waits");
    check(kc_run(copy_in_time, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }), "kc_run");
}

/* ---- scene 8: a prime sieve ------------------------------------------------------------------ */

enum { PRIMES = 1000 };

static struct sieve {
    kc_chan_t *in, *out;
    long prime;
} sieve[PRIMES];

static long passed_on;

static int count_up(void *out)
{
    int rc = 0;

    for (long n = 2; rc == 0; n++)
        rc = kc_chan_send(out, &n);
    return rc;
}

static int sift(void *arg)
{
    struct sieve *s = arg;
    long n;
    int rc;

    while ((rc = kc_chan_recv(s->in, &n)) == 0) {
        passed_on++;
        if (n % s->prime != 0 && (rc = kc_chan_send(s->out, &n)) != 0)
            break;
    }
    return rc; /* -ECANCELED: there are enough primes */
}

static int sift_primes(void *arg)
{
    kc_chan_t *last;
    kc_scope_t scope;

    (void)arg;
    check(kc_scope_begin(&scope, NULL), "kc_scope_begin");
    check(kc_chan_create(sizeof(long), 0, &last), "kc_chan_create");
    check(kc_launch(count_up, last), "kc_launch");
    for (int i = 0; i < PRIMES; i++) {
        struct sieve *s = &sieve[i];
        s->in = last;
        check(kc_chan_recv(last, &s->prime), "kc_chan_recv");
        check(kc_chan_create(sizeof(long), 0, &s->out), "kc_chan_create");
        check(kc_launch(sift, s), "kc_launch");
        last = s->out;
        if (i % 20 == 0)
            progress("primes", i, PRIMES);
    }
    kc_cancel_current(0);
    int rc = kc_scope_end(&scope); /* a thousand coroutines, wherever in the chain they wait */
    for (int i = 0; i < PRIMES; i++)
        kc_chan_release(sieve[i].in);
    kc_chan_release(last);
    return rc == -ECANCELED ? 0 : rc;
}

static void show_sieve(void)
{
    scene("a prime sieve: a chain of coroutines, and channels without buffers between them");
    double start = seconds();
    check(kc_run(sift_primes, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }), "kc_run");
    progress("primes", PRIMES, PRIMES);
    ended(start, passed_on);
    printf("  the last one is %ld; %ld times a number was handed over to find them\n",
           sieve[PRIMES - 1].prime, passed_on);
    if (sieve[PRIMES - 1].prime != 7919)
        exit(1);
}

/* ---- scene 9: a select that is cancelled ----------------------------------------------------- */

struct source {
    const char *name;
    kc_time_t every;
    kc_chan_t *out;
    int sent;
};

static int emit_numbers(void *arg)
{
    struct source *s = arg;
    int rc = 0;

    while (rc == 0 && (rc = kc_sleep(s->every)) == 0) {
        int n = s->sent + 1;
        rc = kc_chan_send(s->out, &n);
        s->sent += rc == 0; /* a send that is cancelled has sent nothing */
    }
    return rc;
}

static int merged;

static int merge(void *arg)
{
    struct source *s = arg;
    int n, which;
    kc_case_t cases[] = { { .op = KC_RECV, .chan = s[0].out, .item = &n },
                          { .op = KC_RECV, .chan = s[1].out, .item = &n } };

    for (int i = 0; i < 2; i++)
        check(kc_launch(emit_numbers, &s[i]), "kc_launch");
    while ((which = kc_select(cases, 2, KC_FOREVER)) >= 0) {
        char text[32];
        snprintf(text, sizeof text, "%s %d", s[which].name, n);
        say_when(text);
        merged++;
    }
    say_when(which == -ECANCELED ? "the select is cancelled" : "the select has failed");
    return which;
}

static int merge_in_time(void *arg)
{
    struct source s[] = { { .name = "tick", .every = KC_MS(150) },
                          { .name = "         tock", .every = KC_MS(230) } };
    int sent = 0;

    (void)arg;
    for (int i = 0; i < 2; i++)
        check(kc_chan_create(sizeof(int), 0, &s[i].out), "kc_chan_create");
    told_since = kc_now();
    int rc = kc_with_timeout(KC_MS(800), merge, s);
    for (int i = 0; i < 2; i++) {
        sent += s[i].sent;
        kc_chan_release(s[i].out);
    }
    say_when(rc == -ETIMEDOUT ? "-ETIMEDOUT: the time was over" : "it was not timed out");
    printf("  %d items were sent, %d received\n", sent, merged);
    return rc == -ETIMEDOUT && sent == merged ? 0 : 1;
}

static void show_select(void)
{
    scene("two sources, one select, and a timeout of 800 ms around all of it");
    check(kc_run(merge_in_time, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }), "kc_run");
}

/* ---- scene 10: a million jobs cancelled ------------------------------------------------------ */

static atomic_long sleepers, cancelled;
static long memory_at_start; /* blocks that other scenes have used before count here too */

static int sleep_for_ever(void *arg)
{
    (void)arg;
    atomic_fetch_add_explicit(&sleepers, 1, memory_order_relaxed);
    int rc = kc_sleep(KC_FOREVER);
    atomic_fetch_add_explicit(&cancelled, 1, memory_order_relaxed);
    return rc;
}

static int launch_and_cancel(void *arg)
{
    long n = *(long *)arg;
    kc_scope_t all;

    check(kc_scope_begin(&all, NULL), "kc_scope_begin");
    double start = seconds();
    for (long i = 1; i <= n; i++) {
        check(kc_launch(sleep_for_ever, NULL), "kc_launch");
        if (i % 50000 == 0)
            progress("launch", i, n + 1);
    }
    progress("launch", n, n);
    ended(start, n);
    start = seconds();
    while (atomic_load(&sleepers) < n) {
        check(kc_sleep(KC_MS(1)), "kc_sleep");
        progress("start, run to a sleep", atomic_load(&sleepers), n + 1);
    }
    progress("start, run to a sleep", n, n);
    ended(start, n);
    long full = memory_kib();
    start = seconds();
    kc_job_cancel(kc_scope_job(&all), 0);
    int rc = kc_scope_end(&all); /* when it returns, they have ended, all of them */
    progress("cancel, wait for all", atomic_load(&cancelled), n);
    ended(start, n);
    printf("  memory with page tables: %ld MiB for all, %.0f bytes each; the scope's result: %s\n",
           (full - memory_at_start) / 1024, (double)(full - memory_at_start) * 1024 / (double)n,
           strerror(-rc));
    return atomic_load(&cancelled) == n && rc == -ECANCELED ? 0 : 1;
}

static void show_cancel(void)
{
    long n = how_many();

    scene("a million jobs that sleep for ever, cancelled by one call");
    if (n < 1000000)
        printf("  (%ld here: that is what fits in half of the free memory)\n", n);
    if (n > 0)
        check(kc_run(launch_and_cancel, &n, NULL), "kc_run");
}

int main(void)
{
    memory_at_start = memory_kib();
    printf("kcoro %s\n", kc_version());
    show_generator();
    show_switches();
    show_million();
    show_tasks();
    show_virtual_time();
    show_tree();
    show_timeout();
    show_sieve();
    show_select();
    show_cancel();
    printf("\nThat was all. make test runs the tests, make bench compares with others.\n");
    return 0;
}
