/* SPDX-License-Identifier: MIT */
/*
 * root_model.c - src/job/root.h under the model checker: nothing is left, and may be freed.
 *
 * WHAT     The words of jobs are the real code, as in job_model.c. A task of the second root brings
 *          another one to the first root, and leaves; that one ends too. Main looks until nothing
 *          is left, and frees the roots, as the end of a scheduler does. It must see all that the
 *          tasks have written, and nobody may use a root any more.
 *
 * SHAPE    pass     one thread runs both tasks
 *          two      another thread runs the second one
 *          foreign  the second is no child, but is held for a job of another scheduler
 *
 * ORDER    id            site   operation                  pairs with    carries
 *          root_model.1  wakes  sub_acq_rel, load_acquire  root_model.1  the fall of a count before
 *                                                                        it
 *
 *          root.1 to root.3, word.1 to word.3.
 */
#define MODEL_OF_ROOTS
#include "job_model_world.c" /* NOLINT(bugprone-suspicious-include): a part of this file */

enum { FIRST_ROOT, SECOND_ROOT, TASK, NEXT }; /* jobs */

static kc_job_t *root_at(kc_sched_t *of, int i)
{
    (void)of;
    return &s.job[i];
}

static bool looks_once;   /* wrong: counts that are read one after the other are believed */
static bool looks_behind; /* wrong: who wakes main asks the root who that is */

static KC_ATOMIC(uint32_t) wakes; /* counts down */

static bool is_idle(void)
{
    uint64_t arrived = 0;

    if (!looks_once)
        return kc__roots_are_empty(root_at, &sched, 2);
    return kc__root_look(&s.job[FIRST_ROOT], &arrived) &&
           kc__root_look(&s.job[SECOND_ROOT], &arrived);
}

/* What is left of idle.h here: who is woken after the last fall of a count sees that. */
void kc__worker_wake(kc_worker_t *w)
{
    (void)w;
    if (looks_behind)
        (void)model_read(&s.job[FIRST_ROOT].task.depth);
    kc_sub_acq_rel(&wakes, 1); /* root_model.1 */
}

static bool is_idle_when_woken(void)
{
    (void)kc_load_acquire(&wakes); /* root_model.1 */
    return is_idle();
}

/* ---- the threads ---------------------------------------------------------------------------- */

static void next_ends(int i)
{
    model_write(&s.data[i], 1);
    kc__job_count_down(&s.job[NEXT], KC_WORD_BODY);
}

static void task_leaves_another(int i)
{
    model_assert(kc__job_attach(&s.job[FIRST_ROOT], &s.job[NEXT]) == 0);
    s.attached = true;
    kc__job_count_down(&s.job[TASK], KC_WORD_BODY);
    if (i >= 0)
        next_ends(i);
}

static void task_holds_the_first(int i)
{
    kc__root_count_up(&s.job[FIRST_ROOT]);
    kc__job_count_down(&s.job[TASK], KC_WORD_BODY);
    model_write(&s.data[i], 1);
    kc__job_count_down(&s.job[FIRST_ROOT], 0);
}

static void next_runs(int i)
{
    model_wait_until(kc_load_acquire(&s.job[FIRST_ROOT].arrived) == 1); /* root.2 */
    kc__job_lock(&s.job[NEXT]); /* it comes through an inbox: nobody else has it any more */
    kc__job_unlock(&s.job[NEXT]);
    next_ends(i);
}

static void main_looks(int i)
{
    model_wait_until(is_idle_when_woken());
    model_assert(model_read(&s.data[i]) == 1);
    for (int k = 0; k < 2; k++)
        model_free(&s.job[k], sizeof s.job[k]);
}

/* ---- the models ----------------------------------------------------------------------------- */

static void reset_roots(void)
{
    reset();
    kc_store_relaxed(&wakes, 0);
    model_name(&wakes, "wakes");
    kc_job_t *second = job_new(KC_JOB_ROOT);
    for (int i = 0; i < 2; i++)
        kc_store_relaxed(&s.job[i].arrived, 0);
    model_name(&second->task.word, "second root");
    model_name(&s.job[FIRST_ROOT].arrived, "arrived");
    add(SECOND_ROOT, 1);
    kc_job_t *next = job_new(0);
    kc__job_change(next, KC_WORD_BODY | KC_WORD_STARTED, 0);
}

static void check_tasks(void)
{
    model_assert(s.freed[TASK] == 1);
    model_assert(s.freed[NEXT] == s.attached);
}

static const struct model pass = { "pass",
                                   reset_roots,
                                   check_tasks,
                                   2,
                                   { { "main", main_looks, 1 },
                                     { "task", task_leaves_another, 1 } } };
static const struct model two = {
    "two",
    reset_roots,
    check_tasks,
    3,
    { { "main", main_looks, 2 }, { "task", task_leaves_another, -1 }, { "next", next_runs, 2 } }
};
static const struct model foreign = { "foreign",
                                      reset_roots,
                                      check_tasks,
                                      2,
                                      { { "main", main_looks, 1 },
                                        { "task", task_holds_the_first, 1 } } };

const struct model_file model_file = { .enters = enters, .slow = true };

TEST(nothing_is_left_only_when_the_last_task_has_ended)
{
    passes(&pass, MODEL_UNBOUNDED);
}

TEST(nothing_is_left_only_when_the_last_task_has_ended_on_another_thread)
{
    passes(&two, 2);
}

TEST(what_a_root_is_held_for_is_waited_for)
{
    passes(&foreign, MODEL_UNBOUNDED);
}

TEST(control_counts_that_are_read_one_after_the_other_are_no_picture)
{
    looks_once = true;
    catches(&pass, "looks_once", "data race: main reads data, written by task");
}

TEST(control_a_root_is_gone_when_its_count_has_fallen)
{
    looks_behind = true;
    catches(&pass, "looks_behind", "data race: main frees");
}

TEST(control_root_1_relaxed_shows_an_arrival_without_its_lock)
{
    needs(&pass, "root.1", MODEL_RELAXED, "data race: main reads data, written by task");
}

TEST(control_root_2_relaxed_shows_an_arrival_without_its_lock)
{
    needs(&pass, "root.2", MODEL_RELAXED, "data race: main reads data, written by task");
}

TEST(control_root_3_relaxed_hides_what_has_come)
{
    needs(&pass, "root.3", MODEL_RELAXED, "data");
}
