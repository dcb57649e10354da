/* SPDX-License-Identifier: MIT */
/*
 * tsan_target.h - what the programs of test/tools/tsan have in common: cases with a name, each a
 * job or a plain function, of which the one named by the first argument runs.
 */
#ifndef KC_TEST_TSAN_TARGET_H
#define KC_TEST_TSAN_TARGET_H

#include <kcoro/kcoro.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, ROUNDS = 40 };

#define MUST(call)                                                                                \
    do {                                                                                          \
        int rc_ = (call);                                                                         \
        if (rc_ != 0) {                                                                           \
            printf("%s: %d\n", #call, rc_);                                                       \
            exit(3);                                                                              \
        }                                                                                         \
    } while (0)

/* What jobs hand to each other: nothing in here is atomic. */
typedef struct {
    int value;
    char text[40];
} thing_t;

static thing_t shared;

static inline void change(thing_t *t)
{
    t->value++;
    snprintf(t->text, sizeof t->text, "number %d", t->value);
}

static inline kc_job_t *on_worker(int i, kc_fn_t fn, void *arg)
{
    kc_job_t *j;

    MUST(kc_launch_job(
        fn, arg, &(kc_launch_opts_t){ .affinity = KC_WORKER_AT(i % WORKERS), .name = "worker" },
        &j));
    return j;
}

static inline void join(kc_job_t *j)
{
    MUST(kc_job_join(j));
    kc_job_release(j);
}

typedef struct {
    const char *name;
    kc_fn_t job;
    int (*plain)(void);
} case_t;

/* Without a name: lists them, one on a line. */
static inline int run_case(const case_t *cases, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (!name) {
            printf("%s\n", cases[i].name);
        } else if (strcmp(name, cases[i].name) == 0) {
            int rc = cases[i].plain
                         ? cases[i].plain()
                         : kc_run(cases[i].job, &shared, &(kc_sched_opts_t){ .workers = WORKERS });
            change(&shared); /* all that ran has ended */
            return rc;
        }
    }
    return name ? 2 : 0;
}

#endif
