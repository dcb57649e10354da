/* SPDX-License-Identifier: MIT */
/*
 * fuzz.c - runs random programs against the rules: fuzz [OPTION]...
 *
 *     --seconds N        for so long (default 5)
 *     --programs N       so many
 *     --seed S           the first program's seed; the next ones' are S + 1, S + 2...
 *     --workers W        a number of workers; "real": 0 to 8; "virtual": virtual time and a seed;
 *                        "any" (the default): real and virtual in turn
 *     --alloc-failures   allocations and mappings fail at random
 *     --print            shows the program of the seed, and runs nothing
 *     --shrink           takes out of the program of the seed what it does not need to fail
 *     --self-test        breaks one thing after the other on purpose: each must be found
 *     --hashes           virtual time: each program twice, and prints a hash over all traces
 *
 * Program n is made from its seed alone, so that a failure is found again by its seed; with real
 * threads perhaps not at the first try: --programs 1 --repeat 1000. Programs run in a process of
 * their own: when it dies, the seed and the command that repeats it are printed. KC_TEST_SEED is
 * the default of --seed. See program.h for what a program is.
 */
#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ANY = -1, VIRTUAL = -2, REAL = -3, SHRINK_SECONDS = 60 };

static struct {
    double seconds;
    long programs, repeat;
    uint64_t seed;
    int workers;
    bool faults, print, shrink, hashes, self_test;
} options = { .seconds = 5, .programs = -1, .repeat = 1, .workers = ANY };

/* What the parent has to know of a child that died. */
static struct shared {
    uint64_t seed, hash;
    int workers;
    long done;
} * shared;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void make(uint64_t seed, int workers)
{
    program_make(seed, workers == VIRTUAL, workers, options.faults);
}

/* Every second one under virtual time. */
static int workers_of(uint64_t seed)
{
    if (options.workers == REAL || (options.workers == ANY && seed % 2 == 0))
        return ANY;
    return options.workers == ANY ? VIRTUAL : options.workers;
}

static void run_one(uint64_t seed)
{
    int workers = workers_of(seed);

    shared->seed = seed;
    for (long i = 0; i < options.repeat; i++) {
        make(seed, workers);
        shared->workers = workers == VIRTUAL ? VIRTUAL : prog.workers < 0 ? 0 : prog.workers;
        program_run();
    }
    shared->done++;
}

/* ---- the child ------------------------------------------------------------------------------ */

static void child_main(void)
{
    double end = now() + options.seconds;

    programs_begin();
    for (long i = 0; options.programs < 0 ? now() < end : i < options.programs; i++)
        run_one(options.seed + (uint64_t)i);
}

/* The same trace whatever lived in the process before. */
static void child_hashes(void)
{
    enum { TRACES = 100000 };
    static uint64_t trace[TRACES];
    uint64_t all = 0;
    long n = options.programs < 0 ? 1000 : options.programs;

    programs_begin();
    for (int round = 0; round < 2; round++) {
        uint64_t hash = 0;
        for (long i = 0; i < n; i++) {
            shared->seed = options.seed + (uint64_t)i;
            shared->workers = VIRTUAL;
            if (round == 1)
                shuffle_memory(shared->seed);
            make(shared->seed, VIRTUAL);
            program_run();
            if (round == 0 && i < TRACES)
                trace[i] = prog.trace;
            else if (i < TRACES && trace[i] != prog.trace)
                BROKEN("the trace is another one the second time");
            hash = (hash ^ prog.trace) * 0x100000001b3u;
            if (round == 0 && i % 100 == 0) { /* something else in between */
                make(shared->seed, 2);
                program_run();
            }
            shared->done++;
        }
        MUST(round == 0 || hash == all);
        all = hash;
    }
    shared->hash = all;
}

/* Runs it in a process of its own. Returns its wait status. */
static int in_child(void (*run)(void))
{
    int status = 0;

    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run();
        programs_end();
        fflush(NULL);
        exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        perror("fuzz");
        exit(2);
    }
    return status;
}

/* ---- shrinking ------------------------------------------------------------------------------ */

static bool skipped[OPS];

static void child_shrunk(void)
{
    FILE *null = freopen("/dev/null", "w", stderr);

    (void)null;
    hang_limit = 1;
    programs_begin();
    for (long i = 0; i < options.repeat; i++) {
        make(shared->seed, shared->workers);
        for (int k = 0; k < prog.ops; k++)
            prog.op[k].skip = skipped[k];
        program_run();
    }
}

/* Halves first, then quarters, down to single operations. */
static void shrink(void)
{
    make(shared->seed, shared->workers);
    int ops = prog.ops;
    double end = now() + SHRINK_SECONDS;

    for (int size = ops; size >= 1; size /= 2) {
        for (int first = 0; first < ops && now() < end; first += size) {
            bool before[OPS];
            memcpy(before, skipped, sizeof skipped);
            for (int k = first; k < first + size && k < ops; k++)
                skipped[k] = true;
            if (in_child(child_shrunk) == 0)
                memcpy(skipped, before, sizeof skipped);
        }
    }
    make(shared->seed, shared->workers);
    for (int k = 0; k < ops; k++)
        prog.op[k].skip = skipped[k];
    printf("what is left and still fails:\n");
    program_print(stdout);
}

/* ---- the self-test -------------------------------------------------------------------------- */

static const char *const sabotage_name[BREAK_KINDS] = {
#define FUZZ_TEXT(name) #name,
    FUZZ_SABOTAGE(FUZZ_TEXT)
#undef FUZZ_TEXT
};

static void child_sabotaged(void)
{
    FILE *null = freopen("/dev/null", "w", stderr);

    (void)null;
    hang_limit = 5; /* a sanitizer on a busy machine is slow, but not that slow */
    options.programs = 200;
    options.workers = VIRTUAL;
    if (sabotage == BREAK_OTHER_TRACE)
        child_hashes();
    else
        child_main();
}

/* Nothing broken: nothing found. */
static int self_test(void)
{
    int failed = 0;

    for (sabotage = BREAK_NOTHING; sabotage < BREAK_KINDS; sabotage++) {
        int status = in_child(child_sabotaged);
        bool found = WIFEXITED(status) && WEXITSTATUS(status) == 3;
        bool ok = sabotage == BREAK_NOTHING ? status == 0 : found;
        printf("%s   %s after %ld programs\n", ok ? "ok  " : "FAIL", sabotage_name[sabotage],
               shared->done);
        failed += !ok;
        shared->done = 0;
    }
    printf("%d passed, %d failed\n", BREAK_KINDS - failed, failed);
    return failed != 0;
}

/* ---- the parent ----------------------------------------------------------------------------- */

static void usage(void)
{
    fprintf(stderr, "usage: fuzz [--seconds N] [--programs N] [--repeat N] [--seed S] "
                    "[--workers N|real|virtual|any] [--alloc-failures] [--print] [--shrink] "
                    "[--hashes] [--self-test]\n");
    exit(2);
}

static void parse(int argc, char **argv)
{
    const char *seed = getenv("KC_TEST_SEED"), *scale = getenv("KC_TEST_SCALE");

    options.seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 1000003u;
    hang_limit *= scale ? strtod(scale, NULL) : 1;
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool *flag = strcmp(name, "--alloc-failures") == 0 ? &options.faults
                     : strcmp(name, "--print") == 0        ? &options.print
                     : strcmp(name, "--shrink") == 0       ? &options.shrink
                     : strcmp(name, "--hashes") == 0       ? &options.hashes
                     : strcmp(name, "--self-test") == 0    ? &options.self_test
                                                           : NULL;
        if (flag) {
            *flag = true;
            continue;
        }
        if (!value)
            usage();
        i++;
        if (strcmp(name, "--seconds") == 0)
            options.seconds = strtod(value, NULL);
        else if (strcmp(name, "--programs") == 0)
            options.programs = strtol(value, NULL, 0);
        else if (strcmp(name, "--repeat") == 0)
            options.repeat = strtol(value, NULL, 0);
        else if (strcmp(name, "--seed") == 0)
            options.seed = strtoull(value, NULL, 0);
        else if (strcmp(name, "--workers") == 0)
            options.workers = strcmp(value, "virtual") == 0 ? VIRTUAL
                              : strcmp(value, "real") == 0  ? REAL
                              : strcmp(value, "any") == 0   ? ANY
                                                            : (int)strtol(value, NULL, 0);
        else
            usage();
    }
}

static int report(int status)
{
    char workers[16] = "virtual";

    if (status == 0) {
        printf("%ld programs from seed %llu\n", shared->done, (unsigned long long)options.seed);
        if (options.hashes)
            printf("hash of the traces: %016llx\n", (unsigned long long)shared->hash);
        printf("1 passed, 0 failed\n");
        return 0;
    }
    if (shared->workers != VIRTUAL)
        snprintf(workers, sizeof workers, "%d", shared->workers);
    printf("failed after %ld programs, %s %d; again with: fuzz --workers %s --seed %llu "
           "--programs 1 --repeat 1000%s\n",
           shared->done, WIFSIGNALED(status) ? "by signal" : "exit code",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), workers,
           (unsigned long long)shared->seed, options.faults ? " --alloc-failures" : "");
    if (options.shrink)
        shrink();
    printf("0 passed, 1 failed\n");
    return 1;
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    if (options.print) {
        make(options.seed, workers_of(options.seed));
        program_print(stdout);
        return 0;
    }
    if (options.self_test)
        return self_test();
    return report(in_child(options.hashes ? child_hashes : child_main));
}
