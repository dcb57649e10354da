/* SPDX-License-Identifier: MIT */
/*
 * harness.c - runs each test in a forked process with a time limit and reads what it says.
 *
 * The child's stderr goes through a pipe: its lines are shown when the test fails, and searched by
 * tests that must die. The child's verdict is its wait status: 0 passed, 77 skipped, the expected
 * unix signal passed, anything else failed.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_SKIP = 77, TEXT_MAX = 64 * 1024 };

struct outcome {
    int status;
    bool timed_out;
    size_t length;
    char text[TEXT_MAX];
};

static struct kc_test *first_test, **last_test = &first_test;
static uint64_t seed;
static long long rounds_end; /* of this test, by now_ms */

void kc_test_register(struct kc_test *test)
{
    *last_test = test;
    last_test = &test->next;
}

static long long now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static long env_number(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtol(text, NULL, 0) : otherwise;
}

uint64_t kc_test_seed(void)
{
    return seed;
}

uint64_t kc_test_random(uint64_t *state)
{
    uint64_t x = *state ? *state : 0x9e3779b97f4a7c15u;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}

void kc_test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s:%d: ", file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    fflush(NULL);
    _exit(1);
}

void kc_test_skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(NULL);
    _exit(EXIT_SKIP);
}

long kc_test_rounds(long few)
{
    return few * env_number("KC_TEST_ROUNDS", 1);
}

bool kc_test_has_time(void)
{
    return now_ms() < rounds_end;
}

/* The runtimes' own entry points tell whether they are linked in. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

bool kc_test_under_asan(void)
{
    return __asan_init != NULL;
}

bool kc_test_under_tsan(void)
{
    return __tsan_init != NULL;
}

static bool file_contains(const char *path, const char *word)
{
    char text[4096];
    bool found = false;
    FILE *f = fopen(path, "r");

    while (f && !found && fgets(text, sizeof text, f))
        found = strstr(text, word) != NULL;
    if (f)
        fclose(f);
    return found;
}

bool kc_test_under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");

    return preload && strstr(preload, "vgpreload") != NULL;
}

bool kc_test_under_emulation(void)
{
    return getenv("KC_TEST_EMULATED") != NULL || file_contains("/proc/self/cmdline", "qemu-");
}

/* The emulator speaks last, and that is no word of the child's. */
static void cut_emulators_line(char *text)
{
    static const char begin[] = "qemu: uncaught target signal ";
    char *line = strstr(text, begin);

    if (line && (line == text || line[-1] == '\n') && strchr(line, '\n') == strrchr(line, '\n'))
        *line = 0;
}

void kc_test_read_said(int fd, char *text, size_t size)
{
    size_t used = 0;
    ssize_t n;

    while (used < size - 1 && (n = read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = 0;
    close(fd);
    if (kc_test_under_emulation())
        cut_emulators_line(text);
}

static void run_child(const struct kc_test *test, int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    dup2(fd, STDERR_FILENO);
    close(fd);
    test->run();
    fflush(NULL);
    /* exit and not _exit: LeakSanitizer looks for leaks at exit. */
    exit(0);
}

static void drain(int fd, struct outcome *o)
{
    char text[4096];
    ssize_t n = read(fd, text, sizeof text);

    if (n <= 0)
        return;
    size_t room = TEXT_MAX - 1 - o->length;
    size_t keep = (size_t)n < room ? (size_t)n : room;
    memcpy(o->text + o->length, text, keep);
    o->length += keep;
    o->text[o->length] = 0;
}

static void wait_child(pid_t child, int fd, long long deadline, struct outcome *o)
{
    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        long long left = deadline - now_ms();

        if (left <= 0) {
            o->timed_out = true;
            kill(-child, SIGKILL);
            kill(child, SIGKILL);
            waitpid(child, &o->status, 0);
            return;
        }
        if (poll(&p, 1, left > 50 ? 50 : (int)left) > 0)
            drain(fd, o);
        if (waitpid(child, &o->status, WNOHANG) == child) {
            while (poll(&p, 1, 0) > 0 && (p.revents & POLLIN))
                drain(fd, o);
            return;
        }
    }
}

static bool run_forked(const struct kc_test *test, struct outcome *o)
{
    long long limit = test->limit_ms * env_number("KC_TEST_SCALE", 1), start = now_ms();
    int fds[2];

    memset(o, 0, sizeof *o);
    fflush(NULL);
    if (pipe(fds) != 0)
        return false;
    rounds_end = start + test->limit_ms / 10;
    pid_t child = fork();
    if (child == 0) {
        close(fds[0]);
        run_child(test, fds[1]);
    }
    close(fds[1]);
    if (child > 0)
        wait_child(child, fds[0], start + limit, o);
    close(fds[0]);
    return child > 0;
}

static const char *verdict(const struct kc_test *test, const struct outcome *o)
{
    if (o->timed_out)
        return "FAIL (time limit)";
    if (WIFEXITED(o->status) && WEXITSTATUS(o->status) == EXIT_SKIP)
        return "skip";
    if (test->dies_by == 0)
        return WIFEXITED(o->status) && WEXITSTATUS(o->status) == 0 ? "ok" : "FAIL";
    if (!WIFSIGNALED(o->status) || WTERMSIG(o->status) != test->dies_by) {
        /* Sanitizers turn a fault into their own report and an exit. */
        if (!(test->dies_by == SIGSEGV && strstr(o->text, "Sanitizer:")))
            return "FAIL (did not die as it must)";
    }
    return strstr(o->text, test->says) ? "ok" : "FAIL (did not say why)";
}

static bool wanted(const struct kc_test *test, int words, char **word)
{
    bool any = words == 0;

    for (int i = 0; i < words; i++)
        any = any || strstr(test->name, word[i]) != NULL;
    return any;
}

/* A word that names no test is a mistake: nobody would notice that nothing ran. */
static bool all_words_name_tests(int words, char **word)
{
    for (int i = 0; i < words; i++) {
        struct kc_test *t = first_test;
        while (t && !wanted(t, 1, &word[i]))
            t = t->next;
        if (!t) {
            printf("no test is named %s\n", word[i]);
            return false;
        }
    }
    return true;
}

static void show(const struct kc_test *test, const struct outcome *o, const char *said,
                 long long ms)
{
    printf("%-6s %s (%lld ms)", said, test->name, ms);
    if (strcmp(said, "skip") == 0)
        printf(": %s", o->text);
    printf("\n");
    if (strncmp(said, "FAIL", 4) == 0) {
        int head = o->length > 6000 ? 3000 : (int)o->length;
        printf("--- %s, seed %llu, status 0x%x\n%.*s", test->file, (unsigned long long)seed,
               (unsigned)o->status, head, o->text);
        if (o->length > 6000)
            printf("\n[...]\n%s", o->text + o->length - 3000);
        printf("\n---\n");
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct outcome o; /* not static: the model checker looks at all that is, time and again */
    int passed = 0, failed = 0, skipped = 0;
    long repeat = env_number("KC_TEST_REPEAT", 1);

    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (struct kc_test *t = first_test; t; t = t->next)
            printf("%s\n", t->name);
        return 0;
    }
    if (!all_words_name_tests(argc - 1, argv + 1))
        return 1;
    for (long round = 0; round < repeat; round++) {
        seed = (uint64_t)env_number("KC_TEST_SEED", (long)now_ms() + round);
        for (struct kc_test *t = first_test; t; t = t->next) {
            if (!wanted(t, argc - 1, argv + 1))
                continue;
            long long start = now_ms();
            const char *said = run_forked(t, &o) ? verdict(t, &o) : "FAIL (no process)";
            passed += strcmp(said, "ok") == 0;
            skipped += strcmp(said, "skip") == 0;
            failed += strncmp(said, "FAIL", 4) == 0;
            show(t, &o, said, now_ms() - start);
        }
    }
    printf("%d passed, %d failed", passed, failed);
    printf(skipped ? ", %d skipped\n" : "\n", skipped);
    return failed ? 1 : passed == 0 && skipped ? EXIT_SKIP : 0;
}
