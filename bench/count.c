/* SPDX-License-Identifier: MIT */
/*
 * count.c - how many instructions does a public operation take, and how many jumps are among them?
 *
 * One process does the operation, another one follows it step by step (ptrace) and counts: on any
 * machine, loaded or not, the same numbers. A jump is what does not continue behind itself: taken
 * branches, calls, returns. What they do not show is how long an instruction takes: see
 * docs/design/tricks.md.
 *
 * Usage: count [OPERATION]...
 * Linux on a processor that steps one instruction at a time: not under an emulator.
 */
#include <kcoro/kcoro.h>

#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 64, WARM = 256 };

/* Where the registers of a process have the next instruction, and how long one may be. */
#if defined(__x86_64__)
enum { PLACE = 16, LONGEST = 15 };
#elif defined(__aarch64__)
enum { PLACE = 32, LONGEST = 4 };
#else
enum { PLACE = 0, LONGEST = 4 };
#endif

/* What is between two of these is counted. */
static void mark(void)
{
    raise(SIGSTOP);
}

static void must(int rc)
{
    if (rc < 0) {
        fprintf(stderr, "count: %s\n", strerror(-rc));
        exit(1);
    }
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* ---- operations: each does it n times ------------------------------------------------------- */

static void do_nothing(int n)
{
    (void)n;
}

static void yield_twice(void *arg)
{
    (void)arg;
    for (;;)
        kcoro_yield();
}

static kcoro_t *other;

static void do_resume(int n)
{
    for (int i = 0; i < n; i++)
        must(kcoro_resume(other));
}

static int times;

static int yielder(void *arg)
{
    (void)arg;
    for (int i = 0; i < times; i++)
        must(kc_yield());
    return 0;
}

static void do_yield(int n)
{
    for (int i = 0; i < n; i++)
        must(kc_yield());
}

static void do_launch(int n)
{
    kc_scope_t s;

    must(kc_scope_begin(&s, NULL));
    for (int i = 0; i < n; i++)
        must(kc_launch(nothing, NULL));
    must(kc_scope_end(&s));
}

static void do_scope(int n)
{
    for (int i = 0; i < n; i++) {
        kc_scope_t s;
        must(kc_scope_begin(&s, NULL));
        must(kc_scope_end(&s));
    }
}

static void do_await(int n)
{
    for (int i = 0; i < n; i++) {
        kc_deferred_t *d;
        must(kc_async(nothing, NULL, &d));
        must(kc_await(d, NULL));
        kc_deferred_release(d);
    }
}

static kc_chan_t *to, *from, *buffered;

static int echo(void *arg)
{
    (void)arg;
    for (uint64_t v; kc_chan_recv(to, &v) == 0;)
        must(kc_chan_send(from, &v));
    return 0;
}

static void do_round_trip(int n)
{
    uint64_t v = 0;

    for (int i = 0; i < n; i++) {
        must(kc_chan_send(to, &v));
        must(kc_chan_recv(from, &v));
    }
}

static void do_buffer(int n)
{
    uint64_t v = 0;

    for (int i = 0; i < n; i++) {
        must(kc_chan_send(buffered, &v));
        must(kc_chan_recv(buffered, &v));
    }
}

static void do_lock(int n)
{
    static kc_mutex_t m = KC_MUTEX_INIT;

    for (int i = 0; i < n; i++) {
        must(kc_mutex_lock(&m));
        kc_mutex_unlock(&m);
    }
}

static int sleeper(void *arg)
{
    (void)arg;
    return kc_sleep(KC_FOREVER);
}

static void do_cancel(int n)
{
    kc_scope_t s;

    must(kc_scope_begin(&s, NULL));
    for (int i = 0; i < n; i++)
        must(kc_launch(sleeper, NULL));
    must(kc_yield());
    kc_job_cancel(kc_scope_job(&s), 0);
    (void)!kc_scope_end(&s);
}

static void do_timeout(int n)
{
    for (int i = 0; i < n; i++) {
        kc_job_t *j;
        must(kc_launch_job(nothing, NULL, &(kc_launch_opts_t){ .timeout = KC_SEC(10) }, &j));
        must(kc_job_join(j));
        kc_job_release(j);
    }
}

static void do_look(int n)
{
    for (int i = 0; i < n; i++)
        must(kc_check());
}

/* ---- one at a time -------------------------------------------------------------------------- */

static const struct operation {
    const char *name, *what;
    void (*run)(int n);
} operations[] = {
    { "nothing", "", do_nothing }, /* what two marks take: the first one, see main */
    { "resume", "kcoro_resume and kcoro_yield", do_resume },
    { "yield", "kc_yield, and that of another job", do_yield },
    { "launch", "kc_launch, its start and its end", do_launch },
    { "scope", "kc_scope_begin and kc_scope_end", do_scope },
    { "await", "kc_async, kc_await, kc_deferred_release", do_await },
    { "trip", "two sends and receives that meet", do_round_trip },
    { "buffer", "a send and a receive through a buffer", do_buffer },
    { "lock", "kc_mutex_lock and kc_mutex_unlock", do_lock },
    { "cancel", "a child that sleeps: launch, cancel, end", do_cancel },
    { "timeout", "a child with a timeout: launch, join, release", do_timeout },
    { "look", "kc_check", do_look },
};

static int body(void *arg)
{
    const struct operation *o = arg;

    other = kcoro_create(yield_twice, NULL, 0);
    must(kc_chan_create(sizeof(uint64_t), 0, &to));
    must(kc_chan_create(sizeof(uint64_t), 0, &from));
    must(kc_chan_create(sizeof(uint64_t), 8, &buffered));
    times = o->run == do_yield ? 2 * WARM + TIMES : 0;
    must(kc_launch(yielder, NULL));
    must(kc_launch(echo, NULL));
    must(kc_yield());
    o->run(WARM);
    mark();
    o->run(TIMES);
    mark();
    _exit(0);
}

struct steps {
    long all, jumps;
};

/* The next instruction of a process that is stopped. */
static uint64_t place_of(pid_t process)
{
    uint64_t registers[64] = { 0 };
    struct iovec v = { registers, sizeof registers };

    ptrace(PTRACE_GETREGSET, process, (void *)NT_PRSTATUS, &v);
    return registers[PLACE];
}

/* Steps from the first mark of an operation to the second. */
static struct steps follow(const struct operation *o)
{
    pid_t child = fork();
    struct steps steps = { 0, 0 };
    uint64_t at = 0, before;
    int status, marks = 0;

    if (child == 0) {
        personality(ADDR_NO_RANDOMIZE);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        must(kc_run(body, (void *)(uintptr_t)o, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS }));
        _exit(1);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        marks += WSTOPSIG(status) == SIGSTOP;
        if (marks == 1) {
            before = at;
            at = place_of(child);
            steps.all++;
            steps.jumps += at <= before || at - before > LONGEST;
        }
        ptrace(marks == 1 ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, NULL);
    }
    return steps;
}

static bool is_asked_for(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc == 1;
}

int main(int argc, char **argv)
{
    struct steps none = follow(&operations[0]);

    printf("%-8s %8s %8s\n", "", "all", "jumps");

    for (size_t i = 1; i < sizeof operations / sizeof *operations; i++)
        if (is_asked_for(operations[i].name, argc, argv)) {
            struct steps steps = follow(&operations[i]);
            printf("%-8s %8.1f %8.1f   %s\n", operations[i].name,
                   (double)(steps.all - none.all) / TIMES,
                   (double)(steps.jumps - none.jumps) / TIMES, operations[i].what);
        }
    return 0;
}
