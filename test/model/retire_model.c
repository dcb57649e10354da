/* SPDX-License-Identifier: MIT */
/*
 * retire_model.c - src/coro/coro.c and coro_end.c under the model checker: a coroutine ends on one
 * thread, and another recycles its stack and its control block.
 *
 * WHAT     Creating, starting, ending, destroying and releasing are the real code, linked as it is.
 *          A switch is a call: the coroutine's function runs on the stack of who resumes it, and
 *          the last switch away jumps back. Its own stack is two plain words, of which the body
 *          writes one and the switch the other, where it leaves its frame; the stack pointer that
 *          the switch saves in the block is plain data too. Who puts a stack or a block back writes
 *          all of it, as the next owner would. So a use that does not happen before is a data race.
 *
 * SHAPE    end      one thread runs it to its end; another sees that, destroys it and makes the
 *                   next coroutine of the same memory
 *          start    two threads start one that is new: one of them becomes its owner
 *          share    one thread runs it to its end and releases it, another releases it as well
 *          task     a scheduler's: its stack is put back and its end published on the next stack
 *                   (reap in leave.c), while another thread unparks and releases it
 *
 * ORDER    coro.1 to coro.3, coro_end.1 to coro_end.3. Here all is relaxed or plain.
 *
 * CONTROLS Each of coro_end.1 to coro_end.3 is weakened, coro.3 and coro_end.3 are taken apart into
 *          a look and a store, and the end is published from the coroutine's own stack; the models
 *          must fail then. MODEL_TRACE=1 shows how.
 */
#undef _FORTIFY_SOURCE /* its longjmp knows no stacks but the thread's */
#include "coro/coro_end.h"
#include "coro/defer.h"
#include "coro/switch.h"
#include "harness.h"
#include "model_case.h"

#include <errno.h>
#include <setjmp.h>
#include <string.h>

enum { THREADS = 2, BLOCKS = 1 + THREADS };
enum { BODY, FRAME, WORDS }; /* of the stack: what the body writes, what the switch leaves */

static struct {
    kc_thread_t thread[THREADS];
    kcoro_t block[BLOCKS]; /* the coroutine's, and the roots */
    kcoro_t *co;
    int stack[WORDS]; /* plain */
    void (*entry)(void *arg);
    void *entry_arg;
    jmp_buf resumer[THREADS]; /* where the last switch away goes */

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    int who; /* the thread that runs */
    bool stack_used, block_used;
    int bodies, stacks_put, blocks_put;
} s;

static bool ends_on_its_own_stack; /* wrong: published before the stack is at rest */

/* ---- what coro.c calls: memory; see thread.c, too ------------------------------------------ */

kc_block_t *kc__block_get(kc_block_cache_t *cache)
{
    (void)cache;
    model_assert(!s.block_used);
    s.block_used = true;
    return &s.block[0].block;
}

void kc__block_put(kc_block_cache_t *cache, kc_block_t *block)
{
    (void)cache;
    model_assert(s.block_used && block == &s.block[0].block);
    model_write(&s.block[0].sp, NULL);
    s.block_used = false;
    s.blocks_put++;
}

bool kc__block_is_free(const void *at)
{
    return !at;
}

bool kc__block_is_ready(const kc_block_cache_t *cache)
{
    (void)cache;
    return true;
}

bool kc__stack_take(kc_stack_cache_t *cache, unsigned sc, kc_stack_t *out)
{
    (void)sc;
    return kc__stack_get(cache, 0, out) == 0;
}

int kc__stack_get(kc_stack_cache_t *cache, size_t size, kc_stack_t *out)
{
    (void)cache, (void)size;
    model_assert(!s.stack_used);
    s.stack_used = true;
    *out = (kc_stack_t)s.stack;
    return 0;
}

/* coro_end has just written to the block. */
const char *kc__stack_error(int rc, size_t size, kc_no_stack_t *lack)
{
    (void)rc, (void)size, (void)lack;
    return "";
}

void kc__stack_put(kc_stack_cache_t *cache, kc_stack_t stack)
{
    (void)cache;
    model_assert(s.stack_used && stack == (kc_stack_t)s.stack);
    model_write(&s.block[0].sp, s.block[0].sp);
    for (int i = 0; i < WORDS; i++)
        model_write(&s.stack[i], 0);
    s.stack_used = false;
    s.stacks_put++;
}

bool kc__stack_keep(kc_stack_cache_t *cache, kc_stack_t stack)
{
    kc__stack_put(cache, stack);
    return true;
}

size_t kc__stack_used(kc_stack_t stack)
{
    (void)stack;
    return (size_t)model_read(&s.stack[FRAME]);
}

char *kc__stack_low(kc_stack_t stack)
{
    return (char *)stack;
}

char *kc__stack_top(kc_stack_t stack)
{
    return (char *)stack;
}

size_t kc__stack_size(kc_stack_t stack)
{
    (void)stack;
    return sizeof s.stack;
}

/* ---- what coro.c calls: switches ----------------------------------------------------------- */

uint32_t kc__tools; /* none: the calls below do not come */

void kc__tools_thread(kc_tool_t *tool)
{
    (void)tool;
}

void kc__tools_start(kc_tool_t *tool, void *low, size_t size)
{
    (void)tool, (void)low, (void)size;
}

void kc__tools_end(kc_tool_t *tool, void *low, size_t size)
{
    (void)tool, (void)low, (void)size;
}

void kc__tools_name(kc_tool_t *tool, const char *name)
{
    (void)tool, (void)name;
}

void kc__tools_below(void *low, size_t size)
{
    (void)low, (void)size;
}

void kc__defer_run(kcoro_t *co)
{
    model_assert(!co->cleanups);
}

uint64_t kc__switch_fp_control(void)
{
    return 0;
}

/* The first frame, on what was another's stack. */
void *kc__switch_make(void *top, uint64_t fp_control, void (*entry)(void *arg), void *arg)
{
    (void)fp_control;
    model_write(&s.stack[FRAME], 1);
    s.entry = entry;
    s.entry_arg = arg;
    return top;
}

/* Only to a coroutine that starts: these do not suspend. */
int kc__switch(void **save_sp, void *to_sp)
{
    (void)save_sp;
    model_assert(to_sp == (void *)s.stack);
    if (_setjmp(s.resumer[s.who]) == 0)
        s.entry(s.entry_arg);
    return 0;
}

/* None goes to another thread. */
int kc__switch_then(void **save_sp, void *to_sp, void (*then)(void *arg), void *arg)
{
    (void)save_sp, (void)to_sp, (void)then;
    model_assert(!arg);
    return 0;
}

void kc__switch_last(void *to_sp, void (*then)(void *arg), void *arg)
{
    (void)to_sp;
    if (ends_on_its_own_stack)
        then(arg);
    model_write(&s.stack[FRAME], 2);
    if (!ends_on_its_own_stack)
        then(arg);
    _longjmp(s.resumer[s.who], 1);
}

/* ---- what coro.c calls: the scheduler ------------------------------------------------------ */

static void body(void *arg)
{
    (void)arg;
    s.bodies++;
    model_write(&s.stack[BODY], 1);
}

static void host_waits(kcoro_t *me)
{
    model_assert(!me); /* the task does not suspend */
}

static bool hook_park(kcoro_t *me)
{
    model_assert(!me);
    return false;
}

static void hook_ready(kcoro_t *co)
{
    model_assert(!co); /* nor can it be woken */
}

static void reap(void *arg)
{
    kc__coro_task_end(kc__thread(), arg);
}

static void hook_run(kcoro_t *me)
{
    kc_thread_t *t = kc__thread();

    body(NULL);
    kc__coro_switch_last(t, me, t->main_co, reap, me);
}

const struct kc_coro_hooks kc__coro_hooks = { .run = hook_run,
                                              .yield = host_waits,
                                              .parks = hook_park,
                                              .parked = host_waits,
                                              .ready = hook_ready };

/* ---- the threads of the models ------------------------------------------------------------- */

static void enters(int i)
{
    s.who = i;
    kc__thread_self = &s.thread[i];
}

static void runs(int arg)
{
    (void)arg;
    int rc = kcoro_resume(s.co);
    model_assert(rc == 0);
}

static void runs_if_first(int arg)
{
    (void)arg;
    int rc = kcoro_resume(s.co);
    model_assert(rc == 0 || rc == -EPERM || rc == -EINVAL);
}

static void runs_and_releases(int arg)
{
    runs(arg);
    kcoro_release(s.co);
}

static void recycles(int arg)
{
    (void)arg;
    model_wait_until(kcoro_state(s.co) == KCORO_FINISHED);
    kcoro_destroy(s.co);
    kcoro_t *next = kcoro_create(body, NULL, 0);
    model_assert(next == s.co);
    int rc = kcoro_resume(next);
    model_assert(rc == 0);
}

static void releases(int arg)
{
    (void)arg;
    kcoro_release(s.co);
}

static void unparks_and_releases(int arg)
{
    (void)arg;
    int rc = kcoro_unpark(s.co);
    model_assert(rc == 0 || rc == -EINVAL);
    kcoro_release(s.co);
}

static void runs_task(int arg)
{
    (void)arg;
    kc_thread_t *t = kc__thread();
    kc_store_relaxed(&t->main_co->state, KC_CORO_CALLING);
    kc__coro_switch(t, t->main_co, s.co);
}

/* ---- the models ---------------------------------------------------------------------------- */

static void reset(void)
{
    memset(&s, 0, sizeof s);
    for (int i = 0; i < THREADS; i++) {
        enters(i);
        s.thread[i].serial = (uint32_t)i + 1;
        kc__coro_make_main(&s.thread[i], &s.block[1 + i].block);
    }
    model_name(&s.block[0].sp, "saved sp");
    model_name(&s.block[0].state, "state");
    model_name(&s.block[0].refs, "refs");
    model_name(&s.stack[BODY], "stack");
    model_name(&s.stack[FRAME], "frame");
}

static void reset_one(void)
{
    reset();
    s.co = kcoro_create(body, NULL, 0);
}

static void reset_two(void)
{
    reset_one();
    kcoro_retain(s.co);
}

/* Made by its worker, which is the first thread; another has a reference. */
static void reset_task(void)
{
    reset();
    enters(0);
    s.co = kc__coro_task(kc__thread(), NULL, 0, 0, 0);
    kcoro_retain(s.co);
}

static void check_end(void)
{
    model_assert(s.bodies == 2 && s.stacks_put == 1 && s.blocks_put == 1);
}

static void check_start(void)
{
    model_assert(s.bodies == 1 && s.stacks_put == 0 && s.blocks_put == 0);
    model_assert(kcoro_state(s.co) == KCORO_FINISHED);
}

static void check_gone(void)
{
    model_assert(s.bodies == 1 && s.stacks_put == 1 && s.blocks_put == 1);
}

static const struct model end = {
    "end", reset_one, check_end, THREADS, { { "owner", runs, 0 }, { "other", recycles, 0 } }
};
static const struct model start = { "start",
                                    reset_one,
                                    check_start,
                                    THREADS,
                                    { { "one", runs_if_first, 0 },
                                      { "other", runs_if_first, 0 } } };
static const struct model share = { "share",
                                    reset_two,
                                    check_gone,
                                    THREADS,
                                    { { "owner", runs_and_releases, 0 },
                                      { "other", releases, 0 } } };
static const struct model task = { "task",
                                   reset_task,
                                   check_gone,
                                   THREADS,
                                   { { "worker", runs_task, 0 },
                                     { "other", unparks_and_releases, 0 } } };

const struct model_file model_file = { .enters = enters };

TEST(the_thread_that_sees_the_end_may_recycle_stack_and_block)
{
    passes(&end, 6);
}

TEST(one_of_two_threads_starts_the_coroutine)
{
    passes(&start, MODEL_UNBOUNDED);
}

TEST(the_last_of_two_releases_gives_the_block_back)
{
    passes(&share, MODEL_UNBOUNDED);
}

TEST(the_end_of_a_task_leaves_its_block_to_the_holder_of_a_reference)
{
    passes(&task, MODEL_UNBOUNDED);
}

TEST(control_coro_end_1_relaxed_hides_the_last_writes)
{
    needs(&end, "coro_end.1", MODEL_RELAXED, "data race: other writes");
}

TEST(control_coro_end_2_relaxed_misses_the_last_writes)
{
    needs(&end, "coro_end.2", MODEL_RELAXED, "data race: other writes");
}

TEST(control_coro_3_torn_starts_it_twice)
{
    needs(&start, "coro.3", MODEL_TORN, "data race: other writes frame, written by one");
}

TEST(control_coro_end_3_relaxed_recycles_the_block_under_another)
{
    needs(&share, "coro_end.3", MODEL_RELAXED,
          "belongs to another thread"); /* it misses the end */
    needs(&task, "coro_end.3", MODEL_RELAXED, "data race");
}

TEST(control_coro_end_3_torn_gives_the_block_back_never)
{
    needs(&share, "coro_end.3", MODEL_TORN, "not true: s.bodies == 1");
    needs(&task, "coro_end.3", MODEL_TORN, "not true: s.bodies == 1");
}

TEST(control_published_from_its_own_stack)
{
    ends_on_its_own_stack = true;
    catches(&end, "own_stack", "data race");
}
