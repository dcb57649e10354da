/* SPDX-License-Identifier: MIT */
/*
 * switch_test.c - the context switch alone: registers, control words, the first frame, unwinding.
 *
 * WHAT     Two sides, main and a coroutine, switch back and forth with nothing above the switch, in
 *          each of the ways that there are: kc__switch and kc__switch_then, as tuned for each kind
 *          of processor. What is of one machine only is in switch_probe.h.
 *          That the unwind information holds at every instruction is for test/gdb/switch_cfi.py.
 *
 * SHAPE    a stack of this file: the frame is put below its top, and words above the top look like
 *          return addresses, so that an unwinder that does not stop at the base runs into them
 *
 *          +-------------------+ stack + STACK_SIZE
 *          | decoys            |
 *          +-------------------+ stack_top
 *          | struct kc_frame   |
 *          +-------------------+
 */
#define _GNU_SOURCE
#include "coro/switch.h"
#include "harness.h"
#include "switch_probe.h"

#include <string.h>
#include <unwind.h>

enum { STACK_SIZE = 64 * 1024, DECOYS_SIZE = 512, ROUNDS = 64 };

/* ---- the two sides ------------------------------------------------------------------------- */

static _Alignas(16) char stack[STACK_SIZE];
static char *const stack_top = stack + STACK_SIZE - DECOYS_SIZE;
static void *main_sp, *coroutine_sp;

/* A way to switch: by kc__switch or by kc__switch_then, and for which kind of processor. */
enum { WAYS = 2 * TUNINGS };
static bool by_then;
static uint64_t thens; /* how often then has been called */

static void way_choose(int way)
{
    by_then = way % 2;
    probe_tune(way / 2);
}

/* ThreadSanitizer keeps a call stack of its own, which a switch that it is not told of tears
 * apart. */
static void skip_under_tsan(void)
{
    if (kc_test_under_tsan())
        SKIP("ThreadSanitizer must be told of each switch");
}

static void skip_without_fp_control(void)
{
    skip_under_tsan();
    if (kc_test_under_valgrind())
        SKIP("Valgrind does not simulate the floating-point control words");
}

static void decoy(void)
{
    FAIL("returned past the base of a stack");
}

/* A coroutine that is never finished leaves AddressSanitizer's marks behind on its stack. */
extern void __asan_unpoison_memory_region(const volatile void *p, size_t size)
    __attribute__((weak));

static void stack_clear(void)
{
    if (__asan_unpoison_memory_region)
        __asan_unpoison_memory_region(stack, sizeof stack);
}

static void coroutine_make(void (*entry)(void *), void *arg, uint64_t fp_control)
{
    uintptr_t *decoys = (uintptr_t *)stack_top;

    stack_clear();
    for (size_t i = 0; i < DECOYS_SIZE / sizeof *decoys; i++)
        decoys[i] = (uintptr_t)decoy + 4;
    coroutine_sp = kc__switch_make(stack_top, fp_control, entry, arg);
}

static void change(void **save_sp, void *to_sp)
{
    int rc = by_then ? kc__switch_then(save_sp, to_sp, switch_probe_trash, &thens)
                     : kc__switch(save_sp, to_sp);
    CHECK_EQ(rc, 0);
}

static int visits; /* how often main has been left for the coroutine and come back to */

static void to_coroutine(void)
{
    int before = visits;

    change(&main_sp, coroutine_sp);
    CHECK_EQ(visits, before + 1);
}

static void to_main(void)
{
    visits++;
    change(&coroutine_sp, main_sp);
}

/* ---- the order of things ------------------------------------------------------------------- */

static int step; /* what happens when: each piece checks that it is its turn, and counts on */

static void stepping(void *arg)
{
    CHECK_PTR(arg, &step);
    CHECK_EQ(step++, 1);
    CHECK_EQ(kc__switch(&coroutine_sp, main_sp), 0);
    CHECK_EQ(step++, 3);
    CHECK_EQ(kc__switch(&coroutine_sp, main_sp), 0);
}

TEST(entry_gets_its_argument_and_switches_return_zero)
{
    skip_under_tsan();
    coroutine_make(stepping, &step, kc__switch_fp_control());
    CHECK_EQ(step++, 0);
    CHECK_EQ(kc__switch(&main_sp, coroutine_sp), 0);
    CHECK_EQ(step++, 2);
    CHECK_EQ(kc__switch(&main_sp, coroutine_sp), 0);
    CHECK_EQ(step++, 4);
}

struct turn {
    int at;
    bool on_coroutine;
    void **left; /* where the stack pointer of the stack that was left must be by now */
    void *left_before;
};

static void taking_turn(void *arg)
{
    const struct turn *turn = arg;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    CHECK_EQ(step++, turn->at);
    CHECK_EQ(here > (uintptr_t)stack && here < (uintptr_t)stack_top, turn->on_coroutine);
    CHECK(*turn->left != turn->left_before);
}

static void taking_turns(void *arg)
{
    struct turn turn = { 3, false, &coroutine_sp, coroutine_sp };

    (void)arg;
    CHECK_EQ(step++, 2);
    CHECK_EQ(kc__switch_then(&coroutine_sp, main_sp, taking_turn, &turn), 0);
    CHECK_EQ(step++, 6);
    turn = (struct turn){ 7, false, &main_sp, NULL };
    probe_fp_write(probe_fp_round(probe_fp_read(), true));
    kc__switch_last(main_sp, taking_turn, &turn);
}

TEST(then_runs_on_the_other_stack_before_that_continues)
{
    struct turn turn = { 1, true, &main_sp, NULL };
    uint64_t control = kc__switch_fp_control();

    skip_without_fp_control();
    coroutine_make(taking_turns, NULL, kc__switch_fp_control());
    CHECK_EQ(step++, 0);
    CHECK_EQ(kc__switch_then(&main_sp, coroutine_sp, taking_turn, &turn), 0);
    CHECK_EQ(step++, 4);
    void *left = coroutine_sp;
    turn = (struct turn){ 5, true, &main_sp, NULL };
    main_sp = NULL;
    CHECK_EQ(kc__switch_then(&main_sp, coroutine_sp, taking_turn, &turn), 0);
    CHECK_EQ(step++, 8);
    CHECK_PTR(coroutine_sp, left); /* the last switch keeps nothing */
    CHECK(kc__switch_same_control(kc__switch_fp_control(), control));
}

static void leaving_results(void *arg)
{
    static const int results[] = { -125, -1, 0, 32767, -32768 };

    (void)arg;
    for (int i = 0; i < 5; i++)
        CHECK_EQ(kc__switch(&coroutine_sp, main_sp), results[i]);
    kc__switch(&coroutine_sp, main_sp);
}

TEST(a_switch_returns_what_was_put_into_the_frame_at_rest)
{
    static const int results[] = { -125, -1, 0, 32767, -32768 };

    skip_under_tsan();
    coroutine_make(leaving_results, NULL, kc__switch_fp_control());
    CHECK_EQ(kc__switch(&main_sp, coroutine_sp), 0);
    for (int i = 0; i < 5; i++) {
        if (results[i] != 0)
            kc__switch_set_result(coroutine_sp, results[i]);
        CHECK_EQ(kc__switch(&main_sp, coroutine_sp), 0);
    }
}

/* ---- registers ----------------------------------------------------------------------------- */

static uint64_t random_state;
static int checked_from, checked_to; /* which registers the test at hand is about */

static void pattern_make(uint64_t pattern[PROBE_ALL])
{
    for (int i = 0; i < PROBE_ALL; i++)
        pattern[i] = kc_test_random(&random_state);
}

static void pattern_check(const char *side, const uint64_t *loaded, const uint64_t *found)
{
    for (int i = checked_from; i < checked_to; i++) {
        if (loaded[i] != found[i])
            FAIL("%s of %s: %#llx before the switch, %#llx after it", probe_registers[i].name,
                 side, (unsigned long long)loaded[i], (unsigned long long)found[i]);
    }
}

static void probe(const char *side, void **save_sp, void *to_sp)
{
    uint64_t loaded[PROBE_ALL], found[PROBE_ALL];

    pattern_make(loaded);
    int rc =
        switch_probe(save_sp, to_sp, by_then ? switch_probe_trash : NULL, &thens, loaded, found);
    CHECK_EQ(rc, 0);
    pattern_check(side, loaded, found);
}

static void probing(void *arg)
{
    (void)arg;
    for (;;) {
        visits++;
        probe("the coroutine", &coroutine_sp, main_sp);
    }
}

static void registers_keep(int from, int to)
{
    checked_from = from;
    checked_to = to;
    random_state = kc_test_seed();
    coroutine_make(probing, NULL, kc__switch_fp_control());
    for (int i = 0; i < ROUNDS; i++) {
        way_choose(i % WAYS);
        probe("main", &main_sp, coroutine_sp);
    }
    CHECK_EQ(visits, ROUNDS);
    CHECK_EQ(thens, ROUNDS); /* half of the switches, of which a round has two */
}

TEST(every_callee_saved_integer_register_is_kept_on_both_sides)
{
    skip_under_tsan();
    registers_keep(0, PROBE_INTS);
}

TEST(every_callee_saved_floating_point_register_is_kept_on_both_sides)
{
    skip_under_tsan();
    if (PROBE_FLOATS == 0)
        SKIP("this calling convention has none");
    registers_keep(PROBE_INTS, PROBE_ALL);
}

static uint64_t left_pattern[PROBE_ALL];

static void leaving(void *arg)
{
    uint64_t found[PROBE_ALL];

    (void)arg;
    visits++;
    switch_probe(&coroutine_sp, main_sp, by_then ? switch_probe_trash : NULL, &thens, left_pattern,
                 found);
}

static void frame_check(const struct kc_frame *frame)
{
    for (int i = 0; i < PROBE_ALL; i++) {
        uint64_t at_rest;

        memcpy(&at_rest, (const char *)frame + probe_registers[i].offset, sizeof at_rest);
        if (at_rest != left_pattern[i])
            FAIL("%s is %#llx, not %#llx", probe_registers[i].name, (unsigned long long)at_rest,
                 (unsigned long long)left_pattern[i]);
    }
    CHECK_GT(frame->pc, (uintptr_t)switch_probe);
    CHECK_LT(frame->pc, (uintptr_t)switch_probe_end);
    CHECK_EQ(frame->fp_control & FP_CONTROL_BITS, probe_fp_read() & FP_CONTROL_BITS);
}

TEST(a_stack_at_rest_has_each_register_where_the_header_says)
{
    skip_under_tsan();
    random_state = kc_test_seed();
    for (int way = 0; way < WAYS; way++) {
        way_choose(way);
        pattern_make(left_pattern);
        coroutine_make(leaving, NULL, kc__switch_fp_control());
        to_coroutine();
        frame_check(coroutine_sp);
    }
}

/* ---- control words ------------------------------------------------------------------------- */

enum { VARIANTS_MAX = 65 };
static uint64_t variant[VARIANTS_MAX]; /* the control words at the start, and those one bit away */
static int variants;

/* What the machine does not keep as it was written, it does not have. */
static void variants_find(void)
{
    uint64_t usual = probe_fp_read();

    variant[variants++] = usual;
    for (int bit = 0; bit < 64; bit++) {
        uint64_t other = usual ^ ((uint64_t)1 << bit);

        if (!(FP_CONTROL_BITS >> bit & 1))
            continue;
        probe_fp_write(other);
        if (probe_fp_read() == other)
            variant[variants++] = other;
    }
    probe_fp_write(usual);
    CHECK_GE(variants, 4);
}

#define CHECK_FP(expected) CHECK_EQ(probe_fp_read() & FP_CONTROL_BITS, (expected)&FP_CONTROL_BITS)

TEST(fp_control_reads_the_control_words)
{
    if (kc_test_under_valgrind())
        SKIP("Valgrind does not simulate the floating-point control words");
    variants_find();
    for (int i = 0; i < variants; i++) {
        probe_fp_write(variant[i]);
        CHECK_EQ(kc__switch_fp_control(), probe_fp_read());
        CHECK_EQ(kc__switch_fp_control(), variant[i]);
    }
}

/* arg points to a pointer: to the control words that it is to set, or NULL. */
static void controlling(void *arg)
{
    uint64_t **wish = arg, mine = probe_fp_read();

    for (;;) {
        if (*wish) {
            mine = **wish;
            probe_fp_write(mine);
        }
        to_main();
        CHECK_FP(mine);
    }
}

TEST(control_words_that_differ_in_any_one_bit_are_kept_on_both_sides)
{
    uint64_t *wish;

    skip_without_fp_control();
    variants_find();
    coroutine_make(controlling, &wish, probe_fp_read());
    for (int i = 0; i < WAYS * variants * variants; i++) {
        uint64_t *mine = &variant[i / WAYS % variants];

        way_choose(i % WAYS);
        wish = &variant[i / WAYS / variants];
        probe_fp_write(*mine);
        to_coroutine();
        CHECK_FP(*mine);
        wish = NULL;
        to_coroutine();
        CHECK_FP(*mine);
    }
}

static void reporting(void *arg)
{
    *(uint64_t *)arg = probe_fp_read();
    to_main();
}

TEST(a_fresh_stack_starts_with_the_control_words_it_was_made_with)
{
    uint64_t found;

    skip_without_fp_control();
    variants_find();
    for (int i = 0; i < WAYS * variants * variants; i++) {
        uint64_t mine = variant[i / WAYS % variants], its = variant[i / WAYS / variants];

        way_choose(i % WAYS);
        coroutine_make(reporting, &found, its);
        probe_fp_write(mine);
        to_coroutine();
        CHECK_FP(mine);
        CHECK_EQ(found & FP_CONTROL_BITS, its & FP_CONTROL_BITS);
    }
}

static double third(void)
{
    volatile double one = 1, three = 3;
    volatile double quotient = one / three;

    return quotient;
}

static long double third_long(void)
{
    volatile long double one = 1, three = 3;
    volatile long double quotient = one / three;

    return quotient;
}

struct thirds {
    double usual;
    long double usual_long;
};

static void rounding_up(void *arg)
{
    const struct thirds *down = arg;

    probe_fp_write(probe_fp_round(probe_fp_read(), true));
    for (;;) {
        CHECK(third() > down->usual);
        CHECK(third_long() > down->usual_long);
        to_main();
    }
}

TEST(arithmetic_rounds_as_its_own_side_has_set)
{
    skip_without_fp_control();
    probe_fp_write(probe_fp_round(probe_fp_read(), false));

    struct thirds down = { third(), third_long() };
    coroutine_make(rounding_up, &down, probe_fp_read());
    for (int i = 0; i < ROUNDS; i++) {
        way_choose(i % WAYS);
        to_coroutine();
        CHECK(third() == down.usual);
        CHECK(third_long() == down.usual_long);
    }
}

/* Divides by zero and overflows inexactly: the sticky flags of both are set from then on. */
static void flags_raise(void)
{
    volatile double zero = 0, large = 1e308, one = 1;
    volatile double result = one / zero;

    result = large * large;
    (void)result;
}

static void flagging(void *arg)
{
    uint64_t mine = *(const uint64_t *)arg;

    probe_fp_write(mine);
    for (;;) {
        flags_raise();
        CHECK_FP(mine);
        to_main();
        CHECK_FP(mine);
    }
}

TEST(sticky_exception_flags_disturb_no_control_words)
{
    skip_without_fp_control();

    uint64_t usual = probe_fp_read(), sides[] = { usual, probe_fp_round(usual, true) };
    for (int i = 0; i < 4 * WAYS; i++) {
        way_choose(i / 4);
        coroutine_make(flagging, &sides[i % 2], usual);
        probe_fp_write(sides[i / 2 % 2]);
        to_coroutine();
        CHECK_FP(sides[i / 2 % 2]);
        flags_raise();
        to_coroutine();
        CHECK_FP(sides[i / 2 % 2]);
    }
}

/* ---- many stacks --------------------------------------------------------------------------- */

enum { MANY = 7, MANY_SWITCHES = 5000 };
static _Alignas(16) char many_stacks[MANY][STACK_SIZE];
static void *many_sp[MANY + 1]; /* the last one is main's */
static int many_left;

/* Sets everything that is kept, switches to anybody else, and looks at it after the way back. */
static void many_hop(int self)
{
    uint64_t control = variant[kc_test_random(&random_state) % (unsigned)variants];
    int next = (int)(kc_test_random(&random_state) % MANY);

    if (next == self || many_left-- <= 0)
        next = MANY;
    way_choose((int)(kc_test_random(&random_state) % WAYS));
    probe_fp_write(control);
    probe("one of many", &many_sp[self], many_sp[next]);
    CHECK_FP(control);
}

static void many_entry(void *arg)
{
    for (;;)
        many_hop((int)(intptr_t)arg);
}

TEST(many_stacks_in_any_order_keep_their_own)
{
    skip_without_fp_control();
    variants_find();
    random_state = kc_test_seed();
    checked_to = PROBE_ALL;
    many_left = MANY_SWITCHES;
    for (int i = 0; i < MANY; i++)
        many_sp[i] = kc__switch_make(many_stacks[i] + STACK_SIZE, variant[i % variants],
                                     many_entry, (void *)(intptr_t)i);
    while (many_left > 0)
        many_hop(MANY);
}

/* ---- the first frame ----------------------------------------------------------------------- */

typedef float quad __attribute__((vector_size(16)));

static void aligned(void *arg)
{
    volatile quad q = { 1, 2, 3, 4 }; /* on x86-64 a movaps, which faults if the stack is askew */
    uintptr_t address = (uintptr_t)&q;

    (void)arg;
    __asm__("" : "+r"(address)); /* the compiler believes that it knows the answer */
    CHECK_EQ(address % 16, 0);
    to_main();
}

TEST(entry_finds_an_aligned_stack_whatever_the_top)
{
    skip_under_tsan();
    for (int i = 0; i < 64; i++) {
        struct probe_sp entry = { 0, aligned };
        char *top = stack_top - i;

        stack_clear();
        coroutine_sp = kc__switch_make(top, kc__switch_fp_control(), switch_probe_sp, &entry);
        CHECK_LE((uintptr_t)coroutine_sp + sizeof(struct kc_frame), (uintptr_t)top);
        to_coroutine();
        CHECK_EQ((entry.sp + RETURN_ADDRESS_SIZE) % 16, 0);
        CHECK_LE(entry.sp, (uintptr_t)top);
        CHECK_GT(entry.sp, (uintptr_t)top - 32);
    }
}

static void nothing(void *arg)
{
    (void)arg;
}

TEST(then_finds_an_aligned_stack)
{
    skip_under_tsan();
    coroutine_make(aligned, NULL, kc__switch_fp_control());

    struct probe_sp fresh = { 0, nothing };
    kc__switch_then(&main_sp, coroutine_sp, switch_probe_sp, &fresh);
    CHECK_EQ((fresh.sp + RETURN_ADDRESS_SIZE) % 16, 0);
    CHECK_LT(fresh.sp, (uintptr_t)stack_top);
    CHECK_GT(fresh.sp, (uintptr_t)stack);
}

TEST(making_a_frame_writes_nothing_outside_it)
{
    memset(stack, 0x5a, sizeof stack);

    char *frame = kc__switch_make(stack_top, 0, aligned, NULL);
    for (char *p = stack; p < stack + STACK_SIZE; p++) {
        if (p < frame || p >= frame + sizeof(struct kc_frame))
            CHECK_EQ(*p, 0x5a);
    }
}

static void returning(void *arg)
{
    (void)arg;
}

TEST_ABORTS(an_entry_that_returns_aborts, "returned past its trampoline")
{
    skip_under_tsan();
    coroutine_make(returning, NULL, kc__switch_fp_control());
    to_coroutine();
}

static void returning_later(void *arg)
{
    (void)arg;
    to_main();
}

TEST_ABORTS(an_entry_that_returns_after_a_switch_aborts, "returned past its trampoline")
{
    skip_under_tsan();
    coroutine_make(returning_later, NULL, kc__switch_fp_control());
    to_coroutine();
    to_coroutine();
}

/* ---- unwinding ----------------------------------------------------------------------------- */

enum { NESTED = 4, TRACE_MAX = 64 };

struct trace {
    int depth;
    uintptr_t function[TRACE_MAX]; /* the innermost first */
    uintptr_t pc;                  /* of the outermost */
};

static _Unwind_Reason_Code trace_step(struct _Unwind_Context *context, void *arg)
{
    struct trace *t = arg;

    /* libgcc comes once more for the caller of the outermost function, which has no address. */
    if (_Unwind_GetIP(context) == 0)
        return _URC_NO_REASON;
    if (t->depth == TRACE_MAX)
        return _URC_NORMAL_STOP;
    t->function[t->depth++] = _Unwind_GetRegionStart(context);
    t->pc = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

static void trace_take(void *arg)
{
    struct trace *t = arg;

    t->depth = 0;
    int end = _Unwind_Backtrace(trace_step, t);
    CHECK_EQ(end, _URC_END_OF_STACK);
}

/* Calls through volatile pointers are not inlined, and their callee is not cloned; the count after
 * them keeps them from becoming jumps. So each call has a frame, and nested one address. */
static void nested(void (*leaf)(void *), void *arg, int more);
static void (*volatile nested_call)(void (*)(void *), void *, int) = nested;
static volatile int nested_returned;

static void nested(void (*leaf)(void *), void *arg, int more)
{
    if (more > 1)
        nested_call(leaf, arg, more - 1);
    else
        leaf(arg);
    nested_returned++;
}

static void trace_check(const struct trace *t, uintptr_t entry)
{
    int i = 0;

    CHECK_EQ(t->depth, NESTED + 3);
    CHECK_EQ(t->function[i++], (uintptr_t)trace_take);
    while (i <= NESTED)
        CHECK_EQ(t->function[i++], (uintptr_t)nested);
    CHECK_EQ(t->function[i++], entry);
    CHECK_EQ(t->function[i++], (uintptr_t)kc__switch_start);
}

static void tracing(void *arg)
{
    for (;;) {
        nested_call(trace_take, arg, NESTED);
        to_main();
    }
}

/* Not every architecture's compiler makes unwind tables for C unless it is asked to. */
static void skip_without_unwind_tables(void)
{
    struct trace here = { 0 };

    nested_call(trace_take, &here, 1);
    if (here.depth < 2 || here.function[1] != (uintptr_t)nested)
        SKIP("no unwinder, or built without -fasynchronous-unwind-tables");
}

TEST(a_backtrace_ends_at_the_start_of_the_stack)
{
    struct trace t;

    skip_under_tsan();
    skip_without_unwind_tables();
    coroutine_make(tracing, &t, kc__switch_fp_control());
    for (int i = 0; i < 3; i++) {
        to_coroutine();
        trace_check(&t, (uintptr_t)tracing);
    }
}

/* A stack that has not begun has one frame; the first one that unwinds it is the one of then. */
TEST(a_backtrace_in_then_goes_along_the_other_stack)
{
    struct trace inside, t;

    skip_under_tsan();
    skip_without_unwind_tables();
    coroutine_make(tracing, &inside, kc__switch_fp_control());
    kc__switch_then(&main_sp, coroutine_sp, trace_take, &t);
    CHECK_EQ(t.depth, 3);
    CHECK_EQ(t.function[0], (uintptr_t)trace_take);
    CHECK_EQ(t.function[1], (uintptr_t)kc__switch_then);
    CHECK_GE(t.pc, (uintptr_t)kc__switch_start);
    CHECK_LT(t.pc, (uintptr_t)kc__switch_start + 16);

    kc__switch_then(&main_sp, coroutine_sp, trace_take, &t);
    CHECK_GE(t.depth, 4);
    CHECK_LE(t.depth, 6); /* to_main and change may be inlined */
    CHECK_EQ(t.function[0], (uintptr_t)trace_take);
    CHECK_EQ(t.function[1], (uintptr_t)kc__switch_then);
    CHECK_EQ(t.function[t.depth - 2], (uintptr_t)tracing);
    CHECK_EQ(t.function[t.depth - 1], (uintptr_t)kc__switch_start);
}

static void chain_walk(void *arg)
{
    uintptr_t low = (uintptr_t)stack, high = (uintptr_t)stack_top;
    uintptr_t fp = (uintptr_t)__builtin_frame_address(0);
    int length = 0;

    /* A function that calls nothing may keep less in its frame. This one calls FAIL. */
    for (; fp != 0; fp = ((const uintptr_t *)fp)[CALLERS_FRAME_POINTER]) {
        if (fp < low || fp > high)
            FAIL("after %d frames: %#llx is not on the stack", length, (unsigned long long)fp);
        low = fp + 1;
        length++;
    }
    *(int *)arg = length;
}

static void chaining(void *arg)
{
    for (;;) {
        nested_call(chain_walk, arg, NESTED);
        to_main();
    }
}

TEST(the_chain_of_frame_pointers_ends_in_zero)
{
    int length = 0;

    skip_under_tsan();
    coroutine_make(chaining, &length, kc__switch_fp_control());
    /* The base of the chain is to be the doing of kc__switch_start, not a gift of memset. */
    ((struct kc_frame *)coroutine_sp)->FRAME_POINTER = (uintptr_t)decoy;
    for (int i = 0; i < 3; i++) {
        to_coroutine();
        CHECK_EQ(length, NESTED + 2);
    }
}

TEST(the_chain_of_frame_pointers_in_then_goes_along_the_other_stack)
{
    int inside, length = 0;

    skip_under_tsan();
    coroutine_make(chaining, &inside, kc__switch_fp_control());
    kc__switch_then(&main_sp, coroutine_sp, chain_walk, &length);
    CHECK_EQ(length, 1);
    kc__switch_then(&main_sp, coroutine_sp, chain_walk, &length);
    CHECK_GE(length, 2);
    CHECK_LE(length, 4); /* to_main and change may be inlined */
}
