/* SPDX-License-Identifier: MIT */
/*
 * coro_end.c - how coroutines end: cleanups, the stack, references, the control block.
 *
 * WHAT     Who owns a stack: the coroutine, from kcoro_create to coro_end. coro_end runs on another
 *          stack, always; a coroutine that has finished keeps its stack until it is destroyed, so
 *          that the high-water mark can be read. The last reference gives up the control block.
 *
 * ORDER    id          site             operation      pairs with  carries; what breaks if weaker
 *          coro_end.1  ended, end:      store_release  coro_end.2  the last writes on its stack;
 *                      FINISHED                                    another thread would recycle a
 *                                                                  stack in use
 *          coro_end.2  destroy: state   load_acquire   coro_end.1
 *          coro_end.3  drop: refs       sub_acq_rel    coro_end.3  all other holders' uses; the
 *                                                                  block would be recycled under
 *                                                                  them
 *
 * PROGRESS retain, release without end: lock-free. All else: the owner's thread.
 */
#include "coro/coro_end.h"

#include "base/os.h"
#include "base/tsan.h"
#include "coro/defer.h"
#include "coro/switch.h"

/* Leaf functions may use so much below the stack pointer without moving it. */
enum { RED_ZONE = 128 };

__attribute__((no_sanitize("address"))) void kc__coro_ended(void *arg)
{
    kcoro_t *co = arg;

    kc__tsan_release(co);
    kc_store_release(&co->state, KCORO_FINISHED); /* coro_end.1 */
}

struct unwind {
    kcoro_t *co, *back;
};

/* On the stack of a suspended coroutine, above its last frame. */
static void unwind_main(void *arg)
{
    struct unwind *u = arg;
    kcoro_t *co = u->co;

    if (kc__tools)
        kc__tools_arrive(&co->tool);
    kc__defer_run(co);
    kc__coro_leave_for_good(co, u->back);
}

static void coro_unwind(kc_thread_t *t, kcoro_t *co)
{
    kcoro_t *me = t->current;
    struct unwind u = { co, me };
    const struct kc_frame *frame = co->sp;
    char *low = kc__stack_low(co->stack);

    if (kc__tools)
        kc__tools_below(low, (size_t)((char *)co->sp - low));
    co->sp = kc__switch_make((char *)co->sp - RED_ZONE, frame->fp_control, unwind_main, &u);
    co->resumer = NULL; /* so that a cleanup that suspends is found */
    kc_store_relaxed(&me->state, KC_CORO_CALLING);
    (void)kc__coro_switch(t, me, co);
}

/* Aborts if co may not be ended here and now. Returns its state. */
static uint32_t check_end(const char *call, kc_thread_t *t, kcoro_t *co)
{
    uint32_t state = kc_load_acquire(&co->state); /* coro_end.2 */

    kc__tsan_acquire(co);
    if (kc_load_relaxed(&co->block.flags) & KC_CORO_ROOT)
        kc__usage(call, "a main coroutine lives as long as its thread " KC_RULE("C2"));
    if (state == KCORO_CREATED || state == KCORO_FINISHED)
        return state;
    if (kc_load_relaxed(&co->block.flags) & KC_CORO_TASK)
        kc__usage(call, "the coroutine belongs to a scheduler " KC_RULE("C10"));
    if (kc_load_relaxed(&co->owner) != t->serial)
        kc__usage(call, "a started coroutine belongs to another thread " KC_RULE("C6"));
    if (state == KCORO_RUNNING)
        kc__usage(call, "a coroutine cannot destroy itself " KC_RULE("C2"));
    if (state == KC_CORO_CALLING)
        kc__usage(call, "the coroutine is a resumer of the caller " KC_RULE("C6"));
    return state;
}

/* Cleanups, then the stack. The control block stays. state is what check_end returned. */
static void coro_end(kc_thread_t *t, kcoro_t *co, uint32_t state)
{
    /* AddressSanitizer's fake frames of a stack are freed by leaving it for good: so there is an
     * occasion even without cleanups. */
    if (state != KCORO_CREATED && state != KCORO_FINISHED &&
        (co->cleanups || (kc__tools & KC_TOOL_ASAN)))
        coro_unwind(t, co);

    kc_stack_t stack = co->stack;
    if (kc__tools && state != KCORO_CREATED)
        kc__tools_end(&co->tool, kc__stack_low(stack), kc__stack_size(stack));
    bool keeps_mark = kc_load_relaxed(&co->refs) > 1 && state != KCORO_CREATED;
    co->sp = (void *)(keeps_mark ? kc__stack_used(stack) : (size_t)0);
    co->stack = 0;
    kc_store_release(&co->state, KCORO_FINISHED); /* coro_end.1 */
    kc__stack_put(&t->stacks, stack);
}

/* Any thread that frees a coroutine keeps its memory for itself, so it needs a place to keep it. */
static kc_thread_t *thread_to_free_on(const char *call)
{
    kc_thread_t *t = kc__thread_make();

    if (!t)
        kc__die("%s: no memory for the thread's state", call);
    return t;
}

kcoro_t *kcoro_retain(kcoro_t *co)
{
    uint32_t before = kc_add_relaxed(&kc__coro_live("kcoro_retain", co)->refs, 1);

    if (before == 0 || before == UINT32_MAX)
        kc__usage("kcoro_retain", "the count of references is out of range " KC_RULE("C6"));
    return co;
}

/* Gives a reference up. The last one ends the coroutine, if it has not ended yet, and its block. */
static void drop(const char *call, kc_thread_t *t, kcoro_t *co)
{
    /* Who holds the only reference needs no locked operation to give it up. */
    if (kc_load_acquire(&co->refs) != 1) {              /* coro_end.3 */
        uint32_t before = kc_sub_acq_rel(&co->refs, 1); /* coro_end.3 */
        if (before == 0)
            kc__usage(call, "released more often than retained " KC_RULE("C6"));
        if (before > 1)
            return;
        kc_store_relaxed(&co->refs,
                         1); /* nobody else has it: its cleanups may retain and release */
    }
    if (co->stack || (kc_load_relaxed(&co->block.flags) & KC_CORO_ROOT)) {
        coro_end(t, co, check_end(call, t, co));
        drop(call, t, co);
        return;
    }
    kc__block_put(&t->blocks, &co->block);
}

static KC_NOINLINE void task_end_slow(kc_thread_t *t, kcoro_t *co)
{
    coro_end(t, co, KCORO_FINISHED);
    drop("end of a task", t, co);
}

void kc__coro_task_end(kc_thread_t *t, kcoro_t *co)
{
    if (kc__tools || kc_load_acquire(&co->refs) != 1 || /* coro_end.3 */
        !kc__stack_keep(&t->stacks, co->stack))
        task_end_slow(t, co);
    else
        kc__block_put(&t->blocks, &co->block); /* nobody has it, so nobody looks at its end */
}

void kc__coro_hand_over(kc_thread_t *t, kcoro_t *me)
{
    me->sp = NULL;
    me->stack = 0;
    kc_store_release(&me->state, KCORO_FINISHED); /* coro_end.1 */
    drop("end of a task", t, me);
}

void kcoro_release(kcoro_t *co)
{
    if (co)
        drop("kcoro_release", thread_to_free_on("kcoro_release"),
             kc__coro_live("kcoro_release", co));
}

void kcoro_destroy(kcoro_t *co)
{
    if (!co)
        return;
    kc__coro_live("kcoro_destroy", co);

    kc_thread_t *t = thread_to_free_on("kcoro_destroy");
    if (kc_load_relaxed(&co->block.flags) & KC_CORO_DESTROYED)
        kc__usage("kcoro_destroy", "destroyed twice " KC_RULE("C6"));
    uint32_t state = check_end("kcoro_destroy", t, co);
    kc_store_relaxed(&co->block.flags, kc_load_relaxed(&co->block.flags) | KC_CORO_DESTROYED);
    if (co->stack)
        coro_end(t, co, state);
    drop("kcoro_destroy", t, co);
}
