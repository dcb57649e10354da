/* SPDX-License-Identifier: MIT */
/*
 * harness.h - benchmarks: several contenders answer one question in one run.
 *
 *     kb_init(argc, argv, "switch", "what leaving one stack for another costs");
 *     kb_question("one-way switch");
 *     kb_case("floor", floor_run, NULL);          // does n operations when called with n
 *     kb_case("kc__switch", switch_run, NULL);
 *     kb_base("floor");                           // ratios are given against this one
 *     kb_measure();
 *     return kb_done();
 *
 * The machines that run this are shared and noisy, so no absolute figure is worth much; what
 * counts is how contenders compare in one run. Therefore all contenders of a question take turns:
 * one short repetition each, round after round, and whoever starts a round starts the next one
 * last. A ratio is the median of the rounds' ratios, so that noise which lasts longer than a
 * round hits both sides. How many operations a repetition holds is found out first, which is also
 * the warm-up.
 *
 * Options: --quick (fewer and shorter repetitions), --json (one object on one line), --base NAME
 * (ratios against the contenders whose name contains NAME), and words: only contenders whose
 * "question: name" contains one of them, and the bases of their question.
 */
#ifndef KC_BENCH_HARNESS_H
#define KC_BENCH_HARNESS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Keeps the compiler from knowing anything about p and the memory it points to. */
#define kb_keep(p) __asm__ volatile("" : : "r"(p) : "memory")

/* Does n operations; n is even. */
typedef void (*kb_run_t)(void *arg, uint64_t n);

void kb_init(int argc, char **argv, const char *name, const char *what);
bool kb_quick(void);
int kb_done(void); /* what main returns */

/* ---- one question: kb_question, then cases, skips and bases in any order, then kb_measure -- */

void kb_question(const char *title);
void kb_case(const char *name, kb_run_t run, void *arg);
void kb_skip(const char *name, const char *why);
void kb_base(const char *name); /* two at most */
void kb_measure(void);

/* Inside a run: leave the time between the two out of the measurement. */
void kb_pause(void);
void kb_continue(void);
/* Inside a run, in place of both: somebody else has measured, and this is the result. */
void kb_took(int64_t ns);

/* ---- what is not a time per operation: kb_grid, then a row for each contender -------------- */

/* Heads are the columns' names with their units, as in "rss B". */
void kb_grid(const char *title, int columns, const char *const *heads);
bool kb_grid_wants(const char *name);                     /* false: filtered out */
void kb_grid_row(const char *name, const double *values); /* NAN: no value */
void kb_grid_skip(const char *name, const char *why);

/* ---- helpers ------------------------------------------------------------------------------- */

int64_t kb_now(void);        /* nanoseconds, monotonic */
int64_t kb_clock_cost(void); /* what a call of kb_now adds to the interval it measures */
double kb_median(double *values, int count); /* sorts them */

/* In a loop that waits for another thread, which may need this core to get on; *spins is 0 at
 * first. Inline, because it stands in what is measured. */
static inline void kb_relax(unsigned *spins)
{
    enum { SPINS = 1024 };

#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (++*spins % SPINS == 0)
        sched_yield();
}

/* For what must not go wrong in a run: says the error and aborts. */
__attribute__((noreturn)) void kb_error(int rc);

/*
 * Calls fn(arg, out) in a child process and fetches the count values that it has left in out.
 * False: the child died or took longer than limit_s.
 */
typedef void (*kb_child_t)(void *arg, double *out);
bool kb_in_child(kb_child_t fn, void *arg, int limit_s, int count, double *out);

/* A path beside this program's own file, in a static buffer. */
const char *kb_beside(const char *file);

#ifdef __cplusplus
}
#endif

#endif
