/* SPDX-License-Identifier: MIT */
/*
 * model_case.h - a model as a constant, and the three things a test says of one.
 *
 *     const struct model pass = { "pass", reset, check, 2, { { "a", f, 0 }, { "b", g, 0 } } };
 *     const struct model_file model_file = { .enters = enters };
 *
 *     TEST(a_waiter_gets_the_lock) { passes(&pass, 3); }
 *     TEST(control_gate_1_relaxed) { needs(&pass, "gate.1", MODEL_RELAXED, "data race"); }
 *     TEST(control_a_second_look) { looks_again = true; catches(&pass, "again", "deadlock"); }
 */
#ifndef KC_TEST_MODEL_CASE_H
#define KC_TEST_MODEL_CASE_H

#include "harness.h"
#include "model.h"

struct model {
    const char *name;
    void (*setup)(void), (*check)(void);
    int count;
    struct model_thread threads[3];
};

/* What holds for all models of a file: each that includes this defines its own. */
struct model_file {
    void (*enters)(int i); /* as in model_options */
    bool slow;             /* skipped where it would take minutes */
};
extern const struct model_file model_file;

static inline void model_skip_if_slow(void)
{
    if (model_file.slow && (kc_test_under_asan() || kc_test_under_emulation()))
        SKIP("it takes minutes here, and finds what the plain build finds");
}

static inline void passes(const struct model *model, int preemptions)
{
    struct model_options options = { .name = model->name,
                                     .preemptions = preemptions,
                                     .enters = model_file.enters };

    model_skip_if_slow();
    model_must_pass(options, model->threads, model->count, model->setup, model->check);
}

/* With the operations of this id weakened, the model must fail by why. */
static inline void needs(const struct model *model, const char *id, int to, const char *why)
{
    struct model_options options = { .name = model->name,
                                     .weaken = { id, to },
                                     .enters = model_file.enters };

    model_skip_if_slow();
    model_must_fail(options, model->threads, model->count, model->setup, model->check, why);
}

/* With a wrong way in place, which the test has switched on, it must too; name: of that way. */
static inline void catches(const struct model *model, const char *name, const char *why)
{
    struct model_options options = { .name = name, .enters = model_file.enters };

    model_skip_if_slow();
    model_must_fail(options, model->threads, model->count, model->setup, model->check, why);
}

#endif
