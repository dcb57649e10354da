/* SPDX-License-Identifier: MIT */
/*
 * model_test.c - the model checker checked: litmus tests whose outcomes are known, and each kind of
 * failure once.
 *
 * A litmus test writes what it read to r[0..3], 0 or 1 each; the set of outcomes over all
 * executions is compared with what the memory model allows. Its strong form carries ids in
 * comments, as the library's code does; its weak form is the same code with an id weakened.
 *
 * ORDER    id             site           operation      pairs with     carries
 *          model_test.1   sb             fence_seq_cst  model_test.1   one of both sees the other
 *          model_test.2   mp: flag       store_release  model_test.3   the data
 *          model_test.3   mp: flag       load_acquire   model_test.2   the same
 *          model_test.4   mp_fenced      fence_release  model_test.5   the data
 *          model_test.5   mp_fenced      fence_acquire  model_test.4   the same
 *          model_test.6   read_x_y       fence_seq_cst  model_test.6   one order of the two writes
 *          model_test.7   counts         add_acq_rel,   model_test.7   one step
 *                                        cas_acq_rel
 *          model_test.8   hands_over     store_release  model_test.9   the data
 *          model_test.9   takes_over     load_acquire   model_test.8   the same
 *          model_test.10  gives_up       add_acq_rel    model_test.10  all uses before the free
 *          model_test.11  sleeper        fence_seq_cst  model_test.12  it sees the work, or the
 *          model_test.12  waker          fence_seq_cst  model_test.11  other sees that it sleeps
 */
#include "base/atomic.h"
#include "base/base.h"
#include "harness.h"
#include "model.h"

#include <string.h>

static KC_ATOMIC(int) x, y;
static int data, r[4];
static uint32_t seen; /* bit r[0] + 2 r[1] + 4 r[2] + 8 r[3]: this outcome occurred */

static void reset(void)
{
    x = y = data = 0;
    memset(r, 0, sizeof r);
}

static void collect(void)
{
    seen |= 1u << (r[0] | r[1] << 1 | r[2] << 2 | r[3] << 3);
}

#define SAW(r0, r1, r2, r3) (seen >> ((r0) | (r1) << 1 | (r2) << 2 | (r3) << 3) & 1)
#define THREADS(...) ((const struct model_thread[]){ __VA_ARGS__ })
#define T(f)                                                                                      \
    {                                                                                             \
#f, f, 0                                                                                  \
    }
#define COUNT(...) (int)(sizeof THREADS(__VA_ARGS__) / sizeof(struct model_thread))

/* All outcomes of these threads, with the operations of an id weakened (NULL: none). */
#define LITMUS(id, to, ...) litmus(id, to, THREADS(__VA_ARGS__), COUNT(__VA_ARGS__))

static void litmus(const char *id, int to, const struct model_thread *threads, int count)
{
    struct model_options options = { .name = threads[0].name,
                                     .preemptions = MODEL_UNBOUNDED,
                                     .weaken = { id, to } };

    seen = 0;
    struct model_result result = model_explore(options, threads, count, reset, collect);
    CHECK(result.exhausted && !result.failed);
    CHECK_EQ(result.weakened, id != NULL);
}

/* ---- litmus tests -------------------------------------------------------------------------- */

static void sb_0(int arg)
{
    kc_store_relaxed(&x, 1);
    kc_fence_seq_cst(); /* model_test.1 */
    r[arg] = kc_load_relaxed(&y);
}

static void sb_1(int arg)
{
    kc_store_relaxed(&y, 1);
    kc_fence_seq_cst(); /* model_test.1 */
    r[arg + 1] = kc_load_relaxed(&x);
}

TEST(store_buffering_needs_sc_fences)
{
    LITMUS(NULL, 0, T(sb_0), T(sb_1));
    CHECK(!SAW(0, 0, 0, 0));
    CHECK(SAW(0, 1, 0, 0) && SAW(1, 0, 0, 0) && SAW(1, 1, 0, 0));
    LITMUS("model_test.1", MODEL_ACQ_REL, T(sb_0), T(sb_1));
    CHECK(SAW(0, 0, 0, 0));
    LITMUS("model_test.1", MODEL_RELAXED, T(sb_0), T(sb_1));
    CHECK(SAW(0, 0, 0, 0));
}

static void mp_writes(int arg)
{
    kc_store_relaxed(&x, 1 + arg);
    kc_store_release(&y, 1); /* model_test.2 */
}

static void mp_reads(int arg)
{
    r[arg] = kc_load_acquire(&y); /* model_test.3 */
    r[arg + 1] = kc_load_relaxed(&x);
}

TEST(message_passing_needs_release_and_acquire)
{
    LITMUS(NULL, 0, T(mp_writes), T(mp_reads));
    CHECK(!SAW(1, 0, 0, 0));
    CHECK(SAW(0, 0, 0, 0) && SAW(0, 1, 0, 0) && SAW(1, 1, 0, 0));
    LITMUS("model_test.2", MODEL_RELAXED, T(mp_writes), T(mp_reads));
    CHECK(SAW(1, 0, 0, 0));
    LITMUS("model_test.3", MODEL_RELAXED, T(mp_writes), T(mp_reads));
    CHECK(SAW(1, 0, 0, 0));
}

static void mp_fenced_writes(int arg)
{
    kc_store_relaxed(&x, 1 + arg);
    kc_fence_release(); /* model_test.4 */
    kc_store_relaxed(&y, 1);
}

static void mp_fenced_reads(int arg)
{
    r[arg] = kc_load_relaxed(&y);
    kc_fence_acquire(); /* model_test.5 */
    r[arg + 1] = kc_load_relaxed(&x);
}

TEST(fences_give_relaxed_accesses_their_order)
{
    LITMUS(NULL, 0, T(mp_fenced_writes), T(mp_fenced_reads));
    CHECK(!SAW(1, 0, 0, 0) && SAW(1, 1, 0, 0));
    LITMUS("model_test.4", MODEL_RELAXED, T(mp_fenced_writes), T(mp_fenced_reads));
    CHECK(SAW(1, 0, 0, 0));
    LITMUS("model_test.5", MODEL_RELAXED, T(mp_fenced_writes), T(mp_fenced_reads));
    CHECK(SAW(1, 0, 0, 0));
    LITMUS(NULL, 0, T(mp_fenced_writes), T(mp_reads)); /* a fence pairs with an acquire load */
    CHECK(!SAW(1, 0, 0, 0));
}

static void write_x(int arg)
{
    kc_store_release(&x, 1 + arg);
}

static void write_y(int arg)
{
    kc_store_release(&y, 1 + arg);
}

static void read_x_twice(int arg)
{
    r[arg] = kc_load_relaxed(&x);
    r[arg + 1] = kc_load_relaxed(&x);
}

TEST(one_location_is_coherent)
{
    LITMUS(NULL, 0, T(write_x), T(read_x_twice));
    CHECK(!SAW(1, 0, 0, 0));
    CHECK(SAW(0, 0, 0, 0) && SAW(0, 1, 0, 0) && SAW(1, 1, 0, 0));
}

static void read_x_y(int arg)
{
    r[arg] = kc_load_acquire(&x);
    kc_fence_seq_cst(); /* model_test.6 */
    r[arg + 1] = kc_load_acquire(&y);
}

static void read_y_x(int arg)
{
    r[arg + 2] = kc_load_acquire(&y);
    kc_fence_seq_cst(); /* model_test.6 */
    r[arg + 3] = kc_load_acquire(&x);
}

TEST(independent_writes_are_seen_in_two_orders_without_sc_fences)
{
    LITMUS(NULL, 0, T(write_x), T(write_y), T(read_x_y), T(read_y_x));
    CHECK(!SAW(1, 0, 1, 0));
    CHECK(SAW(1, 1, 1, 0) && SAW(1, 0, 1, 1));
    LITMUS("model_test.6", MODEL_RELAXED, T(write_x), T(write_y), T(read_x_y), T(read_y_x));
    CHECK(SAW(1, 0, 1, 0));
}

static void sequence_starts(int arg)
{
    kc_store_relaxed(&x, 1 + arg);
    kc_store_release(&y, 1);
}

static void sequence_goes_on(int arg)
{
    int one = 1;

    kc_cas_relaxed(&y, &one, 2 + arg);
}

static void sequence_is_cut(int arg)
{
    if (kc_load_relaxed(&y) == 1)
        kc_store_relaxed(&y, 2 + arg);
}

static void sequence_reads(int arg)
{
    r[arg] = kc_load_acquire(&y) == 2;
    r[arg + 1] = kc_load_relaxed(&x);
}

TEST(a_release_sequence_goes_through_an_rmw_and_not_through_a_store)
{
    LITMUS(NULL, 0, T(sequence_starts), T(sequence_goes_on), T(sequence_reads));
    CHECK(SAW(1, 1, 0, 0) && !SAW(1, 0, 0, 0));
    LITMUS(NULL, 0, T(sequence_starts), T(sequence_is_cut), T(sequence_reads));
    CHECK(SAW(1, 1, 0, 0) && SAW(1, 0, 0, 0));
}

static void adds(int arg)
{
    int old = kc_add_relaxed(&x, 1);

    r[arg + 1 - old] = 1; /* 0 and 1 are returned once each */
}

static void cas_fails_stale(int arg)
{
    int expected = 1;

    r[arg + 2] = kc_load_acquire(&y);
    r[arg] = kc_cas_acq_rel(&x, &expected, 2);
    r[arg + 1] = expected == 0;
}

TEST(rmws_read_the_newest_and_a_failed_cas_any)
{
    LITMUS(NULL, 0, T(adds), T(adds));
    CHECK_EQ(seen, 1u << 3);
    /* x = 1, then y = 1 without order: with y seen, the CAS succeeds, or fails on the old x. */
    LITMUS("model_test.2", MODEL_RELAXED, T(mp_writes), T(cas_fails_stale));
    CHECK(SAW(1, 0, 1, 0) && SAW(0, 1, 1, 0));
}

static void lb_0(int arg)
{
    r[arg] = kc_load_relaxed(&x);
    kc_store_relaxed(&y, 1);
}

static void lb_1(int arg)
{
    r[arg + 1] = kc_load_relaxed(&y);
    kc_store_relaxed(&x, 1);
}

static void counts_0(int arg)
{
    r[arg] = kc_add_acq_rel(&x, 1); /* model_test.7 */
}

static void counts_1(int arg)
{
    int before = 0;

    while (!kc_cas_acq_rel(&x, &before, before + 1)) /* model_test.7 */
        ;
    r[arg + 1] = before;
}

TEST(an_rmw_that_is_torn_is_a_load_and_a_store)
{
    LITMUS(NULL, 0, T(counts_0), T(counts_1));
    CHECK(SAW(0, 1, 0, 0) && SAW(1, 0, 0, 0) && !SAW(0, 0, 0, 0));
    LITMUS("model_test.7", MODEL_TORN, T(counts_0), T(counts_1));
    CHECK(SAW(0, 1, 0, 0) && SAW(1, 0, 0, 0) && SAW(0, 0, 0, 0));
}

TEST(load_buffering_is_not_modelled)
{
    /* C11 and ARM allow 1, 1. Should this ever be seen, strike it from the LIMITS in model.c. */
    LITMUS(NULL, 0, T(lb_0), T(lb_1));
    CHECK(SAW(0, 0, 0, 0) && SAW(1, 0, 0, 0) && SAW(0, 1, 0, 0) && !SAW(1, 1, 0, 0));
}

/* ---- failures ------------------------------------------------------------------------------ */

static void hands_over(int arg)
{
    model_write(&data, 42 + arg);
    kc_store_release(&x, 1); /* model_test.8 */
}

static void takes_over(int arg)
{
    model_wait_until(kc_load_acquire(&x) == 1); /* model_test.9 */
    model_assert(model_read(&data) == 42 + arg);
    model_write(&data, 0);
}

static void takes_over_to_write(int arg)
{
    model_wait_until(kc_load_acquire(&x) == 1);
    model_write(&data, arg);
}

#define PASSES(...)                                                                               \
    model_must_pass((struct model_options){ .name = "passes" }, THREADS(__VA_ARGS__),             \
                    COUNT(__VA_ARGS__), reset, NULL)
#define FAILS(why, id_, ...)                                                                      \
    model_must_fail((struct model_options){ .name = "fails", .weaken.id = id_ },                  \
                    THREADS(__VA_ARGS__), COUNT(__VA_ARGS__), reset, NULL, why)

TEST(a_data_race_is_found)
{
    PASSES(T(hands_over), T(takes_over));
    FAILS("data race: takes_over reads &data, written by hands_over", "model_test.8",
          T(hands_over), T(takes_over));
    FAILS("data race: takes_over reads", "model_test.9", T(hands_over), T(takes_over));
    FAILS("data race", NULL, T(hands_over), T(hands_over));
}

static void writes_after_release(int arg)
{
    kc_store_release(&x, 1);
    model_write(&data, 42 + arg);
}

static void reads_before(int arg)
{
    model_assert(model_read(&data) == 0);
    kc_store_relaxed(&x, 1 + arg);
}

TEST(a_race_with_what_a_release_does_not_cover_is_found)
{
    FAILS("takes_over reads &data, written by", NULL, T(writes_after_release), T(takes_over));
    FAILS("takes_over_to_write writes &data, read by", NULL, T(reads_before),
          T(takes_over_to_write));
}

/* r[0] is bookkeeping: the fence of the writer came first. */
static void fenced_write(int arg)
{
    model_write(&data, 1 + arg);
    kc_fence_seq_cst();
    r[0] = 1;
}

static void fenced_read(int arg)
{
    kc_fence_seq_cst();
    if (r[0])
        model_assert(model_read(&data) == 1 + arg);
}

TEST(sc_fences_alone_do_not_synchronise)
{
    FAILS("data race", NULL, T(fenced_write), T(fenced_read));
}

/* The second of two that gives x up frees it. */
static void uses_and_gives_up(int arg)
{
    kc_load_relaxed(&x);
    if (kc_add_acq_rel(&y, 1 + arg) == 1) /* model_test.10 */
        model_free(&x, sizeof x);
}

static void frees(int arg)
{
    (void)arg;
    model_free(&x, sizeof x);
}

static void reads_and_gives_up(int arg)
{
    model_assert(model_read(&data) == arg);
    if (kc_add_acq_rel(&y, 1) == 1) /* model_test.10 */
        model_free(&data, sizeof data);
}

TEST(a_use_that_does_not_happen_before_the_free_is_found)
{
    PASSES(T(uses_and_gives_up), T(uses_and_gives_up));
    FAILS("frees &x, used by uses_and_gives_up", "model_test.10", T(uses_and_gives_up),
          T(uses_and_gives_up));
    FAILS("uses_and_gives_up uses what was freed", NULL, T(frees), T(uses_and_gives_up));
    PASSES(T(reads_and_gives_up), T(reads_and_gives_up));
    FAILS("frees &data, used by", "model_test.10", T(reads_and_gives_up), T(reads_and_gives_up));
}

static int entered;

static void enters(int i)
{
    entered = i;
}

static void is_the_one_that_entered(int i)
{
    for (int k = 0; k < 3; k++) {
        kc_add_relaxed(&x, 1);
        model_assert(entered == i);
    }
}

TEST(a_model_knows_which_thread_runs)
{
    const struct model_thread threads[] = { { "0", is_the_one_that_entered, 0 },
                                            { "1", is_the_one_that_entered, 1 } };

    model_must_pass((struct model_options){ .name = "enters", .enters = enters }, threads, 2,
                    reset, NULL);
}

static void waits_in_vain(int arg)
{
    model_wait_until(kc_load_relaxed(&x) == 2 + arg);
}

static void spins_for_ever(int arg)
{
    while (kc_load_relaxed(&x) != 2 + arg) {
    }
}

static void asserts(int arg)
{
    KC_ASSERT(kc_load_relaxed(&x) == arg);
}

static void writes_behind_our_back(int arg)
{
    kc_store_relaxed(&x, arg);
    x = 1;
    kc_load_relaxed(&x);
}

TEST(other_failures_are_found)
{
    FAILS("deadlock: nobody wakes waits_in_vain", NULL, T(write_x), T(waits_in_vain));
    FAILS("livelock", NULL, T(write_x), T(spins_for_ever));
    FAILS("internal error: ", NULL, T(write_x), T(asserts));
    FAILS("a plain write to an atomic", NULL, T(writes_behind_our_back));
}

/* y: somebody sleeps; x: there is work. Each side writes one and looks at the other. */
static void sleeper(int arg)
{
    kc_store_relaxed(&y, 1 + arg);
    kc_fence_seq_cst(); /* model_test.11 */
    if (!kc_load_relaxed(&x))
        model_block(&y, 1);
}

static void waker(int arg)
{
    kc_store_relaxed(&x, 1 + arg);
    kc_fence_seq_cst(); /* model_test.12 */
    if (kc_load_relaxed(&y)) {
        kc_store_relaxed(&y, 0);
        model_wake(&y, 1);
    }
}

TEST(a_lost_wake_up_is_found)
{
    PASSES(T(sleeper), T(waker));
    FAILS("deadlock: nobody wakes sleeper", "model_test.11", T(sleeper), T(waker));
    FAILS("deadlock: nobody wakes sleeper", "model_test.12", T(sleeper), T(waker));
}

/* ---- the rest ------------------------------------------------------------------------------ */

TEST(a_failing_schedule_fails_again)
{
    struct model_options options = { .name = "replay",
                                     .weaken = { "model_test.1", 0 },
                                     .quiet = true };
    const struct model_thread threads[] = { T(waits_in_vain), T(sb_0), T(sb_1) };
    struct model_result first = model_explore(options, threads, 3, reset, NULL), again;

    CHECK(first.failed && first.weakened);
    options.replay = first.schedule;
    again = model_explore(options, threads, 3, reset, NULL);
    CHECK(again.failed && again.replayed);
    CHECK_STR(again.why, first.why);
    CHECK_STR(again.schedule, first.schedule);
}

static void unsettled(int arg)
{
    if (data++ == arg)
        kc_store_relaxed(&x, 1);
}

TEST_ABORTS(setup_must_restore_everything, "setup does not restore everything")
{
    model_explore((struct model_options){ .name = "unsettled" }, THREADS(T(unsettled), T(write_x)),
                  2, NULL, NULL);
}

static KC_ATOMIC(void *) pointer;
static KC_ATOMIC(uint64_t) wide;
static KC_ATOMIC(uint8_t) narrow;

static void uses_types(int arg)
{
    const KC_ATOMIC(uint64_t) *readable = &wide;
    void *expected = NULL;

    model_assert(kc_cas_acq_rel(&pointer, &expected, &wide));
    model_assert(kc_load_acquire(&pointer) == &wide && kc_xchg_acq_rel(&pointer, NULL) == &wide);
    model_assert(kc_add_relaxed(&wide, UINT64_MAX) == 0 &&
                 kc_load_relaxed(readable) == UINT64_MAX);
    model_assert(kc_sub_acq_rel(&narrow, 1) == 0 && kc_load_relaxed(&narrow) == 255);
    model_assert(kc_or_release(&narrow, 256) == 255 && kc_and_acq_rel(&narrow, 0) == 255);
    model_assert(kc_sub_acq_rel(&x, 1) == arg && kc_load_relaxed(&x) == -1);
}

static void reset_types(void)
{
    reset();
    wide = narrow = 0;
}

TEST(all_sizes_and_pointers_work)
{
    model_must_pass((struct model_options){ .name = "types" }, THREADS(T(uses_types)), 1,
                    reset_types, NULL);
}
