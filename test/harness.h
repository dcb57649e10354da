/* SPDX-License-Identifier: MIT */
/*
 * harness.h - tests, each in a process of its own.
 *
 *     TEST(park_returns_at_once_after_an_unpark)
 *     {
 *         CHECK_EQ(kcoro_unpark(co), 0);
 *     }
 *     TEST_ABORTS(yield_outside_aborts, "kcoro_yield")   // must die by SIGABRT and say so
 *     { kcoro_yield(); }
 *     TEST_DIES(overflow_dies_on_its_guard, SIGSEGV, "") { ... }
 *
 * A program holds any number of tests and no main. Run it with no argument for all of them, with
 * words to run those whose names contain one, with --list to see them. KC_TEST_SEED fixes the seed
 * of the random ones, KC_TEST_REPEAT runs everything so many times, KC_TEST_ROUNDS makes races
 * and random runs go on for so many times as long, KC_TEST_SCALE multiplies the time limit
 * (emulators, sanitizers). Each line tells how long its test took; the last line is "N passed, N
 * failed"; the exit code is 77 if all were skipped.
 */
#ifndef KC_TEST_HARNESS_H
#define KC_TEST_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kc_test {
    const char *name, *file;
    void (*run)(void);
    int dies_by;      /* 0: must exit normally; else the unix signal it must die by */
    const char *says; /* what stderr must contain then */
    int limit_ms;
    struct kc_test *next;
};

void kc_test_register(struct kc_test *test);

#define KC_TEST_(ident, signal_, says_, limit_)                                                   \
    static void ident(void);                                                                      \
    __attribute__((constructor)) static void register_##ident(void)                               \
    {                                                                                             \
        static struct kc_test test = { #ident, __FILE__, ident, signal_, says_, limit_, NULL };   \
        kc_test_register(&test);                                                                  \
    }                                                                                             \
    static void ident(void)

/* ms. A limit is there to end what hangs, and must not be reached on a machine that is busy. */
#define KC_TEST_LIMIT 60000

#define TEST(ident) KC_TEST_(ident, 0, "", KC_TEST_LIMIT)
#define TEST_SLOW(ident, limit_ms) KC_TEST_(ident, 0, "", limit_ms)
#define TEST_ABORTS(ident, says) KC_TEST_(ident, 6, says, KC_TEST_LIMIT)
#define TEST_DIES(ident, signal_, says) KC_TEST_(ident, signal_, says, KC_TEST_LIMIT)

_Noreturn void kc_test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void kc_test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The seed of this test: from KC_TEST_SEED or the clock; printed if the test fails. */
uint64_t kc_test_seed(void);
/* xorshift: the next number of a sequence that starts at a seed. */
uint64_t kc_test_random(uint64_t *state);

/* How often a race or a random step is repeated: a few times in a unit test, which takes less than
 * 50 ms, and KC_TEST_ROUNDS times as often in a stress test (kc_races in CMakeLists.txt). */
long kc_test_rounds(long few);
/* False: a tenth of the time limit is over, not counting KC_TEST_SCALE. Rounds in which threads
 * hand something to each other and back cost a time slice each where others want the processors
 * too; who repeats very many of them asks, so that such a machine does fewer. */
bool kc_test_has_time(void);

bool kc_test_under_asan(void);
bool kc_test_under_tsan(void);
bool kc_test_under_valgrind(void);
bool kc_test_under_emulation(void); /* qemu-user */

/* All that a child says until it ends, through the pipe, which is closed; cut to size. Without the
 * line that qemu-user adds when the child dies by a unix signal. */
void kc_test_read_said(int fd, char *text, size_t size);

#define SKIP(...) kc_test_skip(__VA_ARGS__)
#define FAIL(...) kc_test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(cond) ((cond) ? (void)0 : FAIL("not true: %s", #cond))

#define KC_TEST_COMPARE_(a, op, b)                                                                \
    do {                                                                                          \
        long long left_ = (long long)(a), right_ = (long long)(b);                                \
        if (!(left_ op right_))                                                                   \
            FAIL("%s %s %s: left is %lld, right is %lld", #a, #op, #b, left_, right_);            \
    } while (0)
#define CHECK_EQ(a, b) KC_TEST_COMPARE_(a, ==, b)
#define CHECK_NE(a, b) KC_TEST_COMPARE_(a, !=, b)
#define CHECK_LE(a, b) KC_TEST_COMPARE_(a, <=, b)
#define CHECK_LT(a, b) KC_TEST_COMPARE_(a, <, b)
#define CHECK_GE(a, b) KC_TEST_COMPARE_(a, >=, b)
#define CHECK_GT(a, b) KC_TEST_COMPARE_(a, >, b)
#define CHECK_PTR(a, b)                                                                           \
    do {                                                                                          \
        const void *left_ = (a), *right_ = (b);                                                   \
        if (left_ != right_)                                                                      \
            FAIL("%s == %s: left is %p, right is %p", #a, #b, left_, right_);                     \
    } while (0)
#define CHECK_STR(a, b)                                                                           \
    do {                                                                                          \
        const char *left_ = (a), *right_ = (b);                                                   \
        if (__builtin_strcmp(left_, right_) != 0)                                                 \
            FAIL("%s == %s: left is \"%s\", right is \"%s\"", #a, #b, left_, right_);             \
    } while (0)

#endif
