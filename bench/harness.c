/* SPDX-License-Identifier: MIT */
/*
 * harness.c - calibrates, measures in turns, and prints, as text or as JSON.
 *
 * Everything is bounded: a question stops after QUESTION_LIMIT_NS with the rounds it has, a child
 * process has its own limit, and the whole program is ended by a unix signal after
 * PROGRAM_LIMIT_S.
 */
#include "harness.h"

#include "bench_commit.h" /* made by the build: KB_COMMIT */

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

enum { CASES_MAX = 24, ROUNDS_MAX = 101, BASES_MAX = 2, FILTERS_MAX = 8, PROGRAM_LIMIT_S = 280 };
enum { ROUNDS_FULL = 101, ROUNDS_QUICK = 21, ROUNDS_FEWEST = 11 };
#define REPETITION_FULL_NS 5e6
#define REPETITION_QUICK_NS 1.5e6
#define QUESTION_LIMIT_NS 20000000000

struct contender {
    const char *name;
    kb_run_t run; /* NULL: skipped */
    void *arg;
    const char *why;           /* it is skipped */
    uint64_t n;                /* operations in one repetition */
    double sample[ROUNDS_MAX]; /* ns per operation */
};

static struct {
    const char *name, *title;
    bool quick, json, first_result;
    const char *filter[FILTERS_MAX], *base_option;
    int filters;
    int64_t clock_cost;
    struct contender cases[CASES_MAX];
    int count, rounds;
    int base[BASES_MAX], bases; /* indices of contenders */
    const char *base_name[BASES_MAX];
    int columns;
    const char *const *heads;
    bool head_due; /* the grid's first line is still to be printed */
} kb;

/* The measurement in progress. */
static struct {
    int64_t since, total;
} watch;

/* ---- time ---------------------------------------------------------------------------------- */

int64_t kb_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t kb_clock_cost(void)
{
    return kb.clock_cost;
}

void kb_pause(void)
{
    watch.total += kb_now() - watch.since - kb.clock_cost;
}

void kb_continue(void)
{
    watch.since = kb_now();
}

void kb_took(int64_t ns)
{
    watch.total = ns;
    watch.since = INT64_MAX;
}

static int64_t run_timed(struct contender *c, uint64_t n)
{
    watch.total = 0;
    kb_continue();
    c->run(c->arg, n);
    if (watch.since != INT64_MAX)
        kb_pause();
    return watch.total > 0 ? watch.total : 1;
}

static int64_t clock_cost_find(void)
{
    enum { CALLS = 20000 };
    int64_t start = kb_now();

    for (int i = 0; i < CALLS; i++)
        kb_now();
    return (kb_now() - start) / CALLS;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The smallest value that is not below the given share of all values. */
static double rank(double *values, int count, double share)
{
    int at = (int)ceil(share * count) - 1;

    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return values[at < 0 ? 0 : at];
}

double kb_median(double *values, int count)
{
    return count > 0 ? rank(values, count, 0.5) : NAN;
}

/* ---- output -------------------------------------------------------------------------------- */

static void json_string(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            putchar('\\');
        if ((unsigned char)*s >= ' ')
            putchar(*s);
    }
    putchar('"');
}

static void json_member(const char *key, const char *value)
{
    json_string(key);
    putchar(':');
    json_string(value);
}

static void json_number(const char *key, double value)
{
    putchar(',');
    json_string(key);
    if (isnan(value))
        printf(":null");
    else
        printf(":%.6g", value);
}

static void json_result_begin(const char *name)
{
    printf(kb.first_result ? "{" : ",{");
    kb.first_result = false;
    json_member("question", kb.title);
    putchar(',');
    json_member("name", name);
}

static void progress(const char *format, ...)
{
    va_list args;

    if (!isatty(STDERR_FILENO))
        return;
    va_start(args, format);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
}

static const char *cpu_model(void)
{
    static char model[128] = "unknown";
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "r");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "model name : %127[^\n]", model) == 1)
            break;
    if (f)
        fclose(f);
    return model;
}

static void head_print(const char *what)
{
    struct utsname u;
    const char *kernel = uname(&u) == 0 ? u.release : "unknown";
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (kb.json) {
        putchar('{');
        json_member("bench", kb.name), putchar(',');
        json_member("cpu", cpu_model()), putchar(',');
        json_member("kernel", kernel), putchar(',');
        json_member("compiler", COMPILER), putchar(',');
        json_member("commit", KB_COMMIT);
        json_number("cpus", (double)cpus);
        json_number("rounds", kb.rounds);
        printf(",\"results\":[");
        return;
    }
    printf("bench %s: %s\n", kb.name, what);
    printf("  cpu       %s, %ld online\n  kernel    %s\n", cpu_model(), cpus, kernel);
    printf("  compiler  %s\n  commit    %s\n", COMPILER, KB_COMMIT);
}

static double ratio(const struct contender *c, const struct contender *base, int rounds)
{
    double r[ROUNDS_MAX];

    for (int i = 0; i < rounds; i++)
        r[i] = c->sample[i] / base->sample[i];
    return kb_median(r, rounds);
}

static void result_print(struct contender *c, int rounds)
{
    double ratios[BASES_MAX], sorted[ROUNDS_MAX], median, p99;

    for (int b = 0; b < kb.bases; b++)
        ratios[b] = ratio(c, &kb.cases[kb.base[b]], rounds);
    memcpy(sorted, c->sample, sizeof sorted);
    median = kb_median(sorted, rounds);
    p99 = rank(sorted, rounds, 0.99);
    if (kb.json) {
        json_result_begin(c->name);
        json_number("median_ns", median);
        json_number("p99_ns", p99);
        json_number("min_ns", sorted[0]);
        for (int b = 0; b < kb.bases; b++) {
            printf(",\"ratio_%d\":{", b + 1);
            json_member("base", kb.cases[kb.base[b]].name);
            json_number("ratio", ratios[b]);
            putchar('}');
        }
        putchar('}');
        return;
    }
    printf("  %-46s %10.2f %10.2f", c->name, median, p99);
    for (int b = 0; b < kb.bases; b++)
        printf(" %12.2f", ratios[b]);
    putchar('\n');
}

static void skip_print(const char *name, const char *why)
{
    if (!kb.json) {
        printf("  %s: %s, skipped\n", name, why);
        return;
    }
    json_result_begin(name);
    putchar(',');
    json_member("skipped", why);
    putchar('}');
}

static void question_print(int rounds)
{
    if (!kb.json) {
        printf("\n%-48s %10s %10s", kb.title, "median ns", "p99 ns");
        for (int b = 0; b < kb.bases; b++)
            printf("      x base %c", 'A' + b);
        putchar('\n');
    }
    for (int i = 0; i < kb.count; i++)
        if (kb.cases[i].run)
            result_print(&kb.cases[i], rounds);
        else
            skip_print(kb.cases[i].name, kb.cases[i].why);
    for (int b = 0; b < kb.bases && !kb.json; b++)
        printf("  base %c: %s\n", 'A' + b, kb.cases[kb.base[b]].name);
    if (!kb.json)
        printf("  %d rounds of repetitions of about %.1f ms, in turns\n", rounds,
               (kb.quick ? REPETITION_QUICK_NS : REPETITION_FULL_NS) / 1e6);
    fflush(stdout);
}

/* ---- questions ----------------------------------------------------------------------------- */

static bool wanted(const char *name)
{
    char full[256];

    snprintf(full, sizeof full, "%s: %s", kb.title, name);
    for (int i = 0; i < kb.filters; i++)
        if (strstr(full, kb.filter[i]))
            return true;
    return kb.filters == 0;
}

void kb_question(const char *title)
{
    kb.title = title;
    kb.count = kb.bases = 0;
    memset(kb.base_name, 0, sizeof kb.base_name);
}

static void contender_add(const char *name, kb_run_t run, void *arg, const char *why)
{
    if (kb.count == CASES_MAX) {
        fprintf(stderr, "%s: too many contenders\n", kb.title);
        exit(2);
    }
    kb.cases[kb.count++] = (struct contender){ .name = name, .run = run, .arg = arg, .why = why };
}

void kb_case(const char *name, kb_run_t run, void *arg)
{
    contender_add(name, run, arg, NULL);
}

void kb_skip(const char *name, const char *why)
{
    contender_add(name, NULL, NULL, why);
}

void kb_base(const char *name)
{
    if (kb.bases < BASES_MAX)
        kb.base_name[kb.bases++] = name;
}

/* True if ratios are to be given against this contender; in *column where. */
static bool is_base(const char *name, int *column)
{
    for (int b = 0; b < kb.bases; b++) {
        *column = b;
        if (kb.base_option ? strstr(name, kb.base_option) && kb.base[b] < 0
                           : strcmp(name, kb.base_name[b]) == 0)
            return true;
    }
    return false;
}

/* Leaves the contenders that were asked for and the bases; false: nobody was asked for. */
static bool contenders_choose(void)
{
    int left = 0, column, bases = 0;
    bool any = false;

    kb.bases = kb.base_option ? BASES_MAX : kb.bases;
    for (int b = 0; b < kb.bases; b++)
        kb.base[b] = -1;
    for (int i = 0; i < kb.count; i++) {
        struct contender *c = &kb.cases[i];
        bool base = is_base(c->name, &column);

        any |= wanted(c->name);
        if (!base && !wanted(c->name))
            continue;
        if (base && c->run)
            kb.base[column] = left;
        kb.cases[left++] = *c;
    }
    kb.count = left;
    for (int b = 0; b < kb.bases; b++)
        if (kb.base[b] >= 0)
            kb.base[bases++] = kb.base[b];
    kb.bases = bases;
    return any;
}

/* What n operations take at the best of three: one that was interrupted says nothing. */
static double best_of_three(struct contender *c, uint64_t n)
{
    double best = (double)run_timed(c, n);

    for (int i = 0; i < 2; i++) {
        double took = (double)run_timed(c, n);

        best = took < best ? took : best;
    }
    return best;
}

/* Finds how many operations a repetition of c must hold. */
static void calibrate(struct contender *c)
{
    double target = kb.quick ? REPETITION_QUICK_NS : REPETITION_FULL_NS;
    double took;

    c->n = 2;
    while ((took = best_of_three(c, c->n)) < target / 3 && c->n < (uint64_t)1 << 40)
        c->n *= took < target / 100 ? 8 : 2;
    c->n = (uint64_t)((double)c->n * target / took);
    c->n = c->n < 2 ? 2 : c->n & ~(uint64_t)1;
}

static void round_run(int round, bool keep)
{
    for (int i = 0; i < kb.count; i++) {
        struct contender *c = &kb.cases[(i + round) % kb.count];

        if (!c->run)
            continue;
        double ns = (double)run_timed(c, c->n) / (double)c->n;
        if (keep)
            c->sample[round] = ns;
    }
}

void kb_measure(void)
{
    int64_t start = kb_now();
    int rounds = 0;

    if (!contenders_choose())
        return;
    for (int i = 0; i < kb.count; i++) {
        progress("%s: warming up %s", kb.title, kb.cases[i].name);
        if (kb.cases[i].run)
            calibrate(&kb.cases[i]);
    }
    round_run(0, false);
    while (rounds < kb.rounds) {
        if (rounds >= ROUNDS_FEWEST && kb_now() - start > QUESTION_LIMIT_NS)
            break;
        progress("%s: round %d of %d", kb.title, rounds + 1, kb.rounds);
        round_run(rounds++, true);
    }
    progress("");
    question_print(rounds);
}

/* ---- grids --------------------------------------------------------------------------------- */

void kb_grid(const char *title, int columns, const char *const *heads)
{
    kb.title = title;
    kb.columns = columns;
    kb.heads = heads;
    kb.head_due = !kb.json;
}

bool kb_grid_wants(const char *name)
{
    bool yes = wanted(name);

    if (yes)
        progress("%s: %s", kb.title, name);
    return yes;
}

static void grid_head_print(void)
{
    printf("\n%-44s", kb.title);
    for (int i = 0; i < kb.columns; i++)
        printf(" %13s", kb.heads[i]);
    putchar('\n');
    kb.head_due = false;
}

void kb_grid_skip(const char *name, const char *why)
{
    progress("");
    if (!wanted(name))
        return;
    if (kb.head_due)
        grid_head_print();
    skip_print(name, why);
    fflush(stdout);
}

void kb_grid_row(const char *name, const double *values)
{
    progress("");
    if (kb.head_due)
        grid_head_print();
    if (kb.json) {
        json_result_begin(name);
        for (int i = 0; i < kb.columns; i++)
            json_number(kb.heads[i], values[i]);
        putchar('}');
        return;
    }
    printf("  %-42s", name);
    for (int i = 0; i < kb.columns; i++)
        if (isnan(values[i]))
            printf(" %13s", "-");
        else
            printf(" %13.*f", fabs(values[i]) < 100 ? 2 : 0, values[i]);
    putchar('\n');
    fflush(stdout);
}

/* ---- children ------------------------------------------------------------------------------ */

static bool read_all(int fd, void *to, size_t size)
{
    char *at = to;

    while (size > 0) {
        ssize_t got = read(fd, at, size);

        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

bool kb_in_child(kb_child_t fn, void *arg, int limit_s, int count, double *out)
{
    size_t size = (size_t)count * sizeof *out;
    int fds[2], status = 0;
    bool ok;
    pid_t pid;

    if (pipe(fds) != 0)
        return false;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGALRM, SIG_DFL);
        alarm((unsigned)limit_s);
        fn(arg, out);
        _exit(write(fds[1], out, size) == (ssize_t)size ? 0 : 1);
    }
    close(fds[1]);
    ok = pid > 0 && read_all(fds[0], out, size);
    close(fds[0]);
    if (pid > 0 && waitpid(pid, &status, 0) != pid)
        ok = false;
    return ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

const char *kb_beside(const char *file)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);

    path[length < 0 ? 0 : length] = 0;
    char *slash = strrchr(path, '/');
    char *at = slash ? slash + 1 : path;
    snprintf(at, sizeof path - (size_t)(at - path), "%s", file);
    return path;
}

void kb_error(int rc)
{
    fprintf(stderr, "\nbench_%s: error %d\n", kb.name, rc);
    abort();
}

/* ---- begin and end ------------------------------------------------------------------------- */

static void limit_reached(int unix_signal)
{
    static const char line[] = "\nbench: the time limit of one program is reached\n";

    (void)unix_signal;
    _exit(write(STDERR_FILENO, line, sizeof line - 1) < 0 ? 3 : 2);
}

static void usage(void)
{
    fprintf(stderr, "usage: bench_%s [--quick] [--json] [--base NAME] [WORD...]\n", kb.name);
    exit(2);
}

void kb_init(int argc, char **argv, const char *name, const char *what)
{
    kb.name = name;
    kb.first_result = true;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            kb.quick = true;
        else if (strcmp(argv[i], "--json") == 0)
            kb.json = true;
        else if (strcmp(argv[i], "--base") == 0 && i + 1 < argc)
            kb.base_option = argv[++i];
        else if (argv[i][0] == '-' || kb.filters == FILTERS_MAX)
            usage();
        else
            kb.filter[kb.filters++] = argv[i];
    }
    kb.rounds = kb.quick ? ROUNDS_QUICK : ROUNDS_FULL;
    signal(SIGALRM, limit_reached);
    signal(SIGPIPE, SIG_IGN);
    alarm(PROGRAM_LIMIT_S);
    kb.clock_cost = clock_cost_find();
    head_print(what);
    fflush(stdout);
}

bool kb_quick(void)
{
    return kb.quick;
}

int kb_done(void)
{
    puts(kb.json ? "]}" : "");
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
