/* SPDX-License-Identifier: MIT */
/*
 * coro.c - coroutines: create, resume, yield, park, unpark; how they end is in coro_end.c.
 *
 * WHAT     A coroutine is a control block (coro.h), and from its creation to its end a stack.
 *          Whoever switches away sets the states of both sides first; whoever is switched to finds
 *          itself RUNNING. A thread's own stack takes part as the thread's root.
 *
 * SHAPE    from        to          by
 *          -           CREATED     kcoro_create
 *          CREATED     READY       coro_start (first resume or yield_to; fixes the owner)
 *          READY       RUNNING     switch_to, as from SUSPENDED and CALLING
 *          RUNNING     CALLING     kcoro_resume, coro_unwind: the caller, while the callee runs
 *          RUNNING     SUSPENDED   kcoro_yield, kcoro_yield_to
 *          RUNNING     PARKED      kcoro_park
 *          PARKED      READY       kcoro_unpark, any thread
 *          PARKED      CALLING     kc__coro_task_abandon: for whoever looks, until coro_end
 *          RUNNING     FINISHED    kc__coro_ended, on the next stack
 *          any but RUNNING, CALLING -> FINISHED   coro_end (kcoro_destroy, last release)
 *          Users see CALLING as SUSPENDED. What is CALLING waits in a chain of resumers that ends
 *          in the root, so resuming or destroying it is wrong in every case.
 *
 * ORDER    id      site               operation      pairs with  carries; what breaks if weaker
 *          coro.1  unpark, abandon:   cas_acq_rel    coro.2      with the gate: what the unparker
 *                  PARKED -> READY,                              wrote; the coroutine reads old
 *                  CALLING                                       data. A cas: one of both happens,
 *                                                                and destroy may have ended it
 *          coro.2  resume: state      load_acquire   coro.1      (its own stores need no order)
 *          coro.3  start: CREATED ->  cas_acq_rel    coro.3      exactly one thread becomes the
 *                  READY                                         owner
 *
 * RULES    R1 t->current is RUNNING.                        (KC_CHECK in switch_to)
 *          R2 a RUNNING coroutine that is not a root has a resumer that is CALLING. (the same)
 *          R3 the block's magic is right at every entry from outside. (kc__coro_live)
 *          R4 nothing of a thread is kept in a variable over a switch; only `me` is.
 *
 * PROGRESS unpark: lock-free. All else: the owner's thread.
 */
#include "coro/coro.h"

#include "base/os.h"
#include "base/tsan.h"
#include "coro/coro_end.h"
#include "coro/defer.h"
#include "coro/switch.h"

#include <errno.h>

/* ---- bad use ------------------------------------------------------------------------------- */

void kc__coro_not_live(const char *call, const kcoro_t *co)
{
    if (!co)
        kc__usage(call, "the coroutine is NULL " KC_RULE("C8"));
    if (kc__block_is_free(co))
        kc__usage(call, "the coroutine has been freed " KC_RULE("C8"));
    kc__usage(call, "the pointer is not a coroutine " KC_RULE("C8"));
}

/* ---- the switch ---------------------------------------------------------------------------- */

/* The bookkeeping of every switch: `to` is the one that runs. */
KC_INLINE void set_current(kc_thread_t *t, kcoro_t *me, kcoro_t *to)
{
    KC_CHECK(t->current == me);
    KC_CHECK(!to->stack || !to->resumer ||
             kc_load_relaxed(&to->resumer->state) == KC_CORO_CALLING);
    (void)me;
    kc_store_relaxed(&to->state, KCORO_RUNNING);
    t->current = to;
}

KC_INLINE void tools_leave(kc_thread_t *t, kcoro_t *me, kcoro_t *to, bool last)
{
    void *low = to->stack ? kc__stack_low(to->stack) : t->low;
    size_t size = to->stack ? kc__stack_size(to->stack) : t->size;

    kc__tools_leave(&me->tool, &to->tool, low, size, last);
}

static KC_NOINLINE int switch_with_tools(kc_thread_t *t, kcoro_t *me, kcoro_t *to)
{
    kc__tsan_acquire(to); /* of who has unparked it */
    tools_leave(t, me, to, false);
    int rc = kc__switch(&me->sp, to->sp);
    kc__tools_arrive(&me->tool);
    return rc;
}

/* me, whose new state is set, leaves for `to` and comes back some time. Returns 0, or what was said
 * to kc__coro_set_result meanwhile. */
KC_INLINE int switch_to(kc_thread_t *t, kcoro_t *me, kcoro_t *to)
{
    /* Loading the control words holds later loads back; so the other stack is fetched before. */
    __builtin_prefetch(to->sp);
    set_current(t, me, to);
    if (kc__tools)
        return switch_with_tools(t, me, to);
    return kc__switch(&me->sp, to->sp);
}

int kc__coro_switch(kc_thread_t *t, kcoro_t *me, kcoro_t *to)
{
    if (to != me)
        return switch_to(t, me, to);
    kc_store_relaxed(&me->state, KCORO_RUNNING);
    return 0;
}

void kc__coro_set_result(kcoro_t *co, int rc)
{
    kc__switch_set_result(co->sp, rc);
}

void kc__coro_switch_then(kc_thread_t *t, kcoro_t *me, kcoro_t *to, void (*then)(void *arg),
                          void *arg)
{
    set_current(t, me, to);
    if (kc__tools)
        tools_leave(t, me, to, false);
    kc__switch_then(&me->sp, to->sp, then, arg);
    if (kc__tools)
        kc__tools_arrive(&me->tool);
}

void kc__coro_switch_last(kc_thread_t *t, kcoro_t *me, kcoro_t *to, void (*then)(void *arg),
                          void *arg)
{
    if (!kc__tools)
        kc__coro_switch_last_fast(t, to, then, arg);
    set_current(t, me, to);
    t->left_from = NULL;
    tools_leave(t, me, to, true);
    kc__switch_last(to->sp, then, arg);
}

/* The first function on a coroutine's stack. */
static void coro_main(void *arg)
{
    kcoro_t *co = arg;

    if (kc__tools)
        kc__tools_arrive(&co->tool);
    kc__coro_live("start of a coroutine", co);
    if (kc_load_relaxed(&co->block.flags) & KC_CORO_TASK)
        kc__coro_hooks.run(co);
    co->fn(co->arg);
    kc__defer_run(co);
    kc__coro_leave_for_good(co, co->resumer);
}

/* The same of a scheduler's, when there is nothing else to be done there. */
static void task_main(void *arg)
{
    kc__coro_hooks.run(kc__coro_live("start of a coroutine", arg));
}

/* ---- create -------------------------------------------------------------------------------- */

/* owner: no thread yet, or KC_CLAIM_OPEN: then nobody ever is, see can_run_at_once. */
KC_INLINE void block_init(kcoro_t *co, uint32_t flags, uint32_t state, uint32_t owner)
{
    kc_store_relaxed(&co->block.flags, flags);
    co->block.link.next = NULL;
    co->resumer = NULL;
    kc_store_relaxed(&co->state, state);
    kc_store_relaxed(&co->owner, owner);
    kc_store_relaxed(&co->gate.word, KC_GATE_EMPTY);
    kc_store_relaxed(&co->refs, 1);
    co->tool.word = NULL;
    co->cleanups = NULL;
    co->name[0] = 0;
    kc_store_relaxed(&co->block.magic, KC_CORO_MAGIC);
}

void kc__coro_make_main(kc_thread_t *t, kc_block_t *block)
{
    kcoro_t *root = kc_container_of(block, kcoro_t, block);

    block_init(root, KC_CORO_ROOT, KCORO_RUNNING, 0);
    root->sp = NULL;
    root->stack = 0;
    root->fn = NULL;
    root->arg = NULL;
    root->id = 0;
    kc_store_relaxed(&root->owner, t->serial);
    kc__tools_thread(&root->tool);
    t->main_co = root;
    t->current = root;
}

static KC_COLD kcoro_t *create_failed(kc_thread_t *t, const char *why)
{
    t->create_error = why;
    return NULL;
}

static KC_COLD kcoro_t *no_stack(kc_thread_t *t, kc_block_t *block, int rc, size_t size)
{
    kc__block_put(&t->blocks, block);
    return create_failed(t, kc__stack_error(rc, size, &t->no_stack));
}

static KC_COLD size_t size_with_tools(kcoro_t *co, size_t size)
{
    kc__tsan_release(co);         /* another thread may start it */
    if (kc__tools & KC_TOOL_ASAN) /* its frames are that much larger */
        size = size < SIZE_MAX / 4 ? size * 4 : SIZE_MAX;
    return size;
}

/* A CREATED coroutine, without a number, that starts with these control words. NULL, and the reason
 * is noted. */
KC_INLINE kcoro_t *coro_new(kc_thread_t *t, uint32_t flags, kcoro_fn_t fn, void *arg,
                            size_t stack_size, uint64_t fp)
{
    kc_block_t *block = kc__block_get(&t->blocks);

    if (!block) {
        t->no_stack = KC_NO_STACK_MEMORY;
        return create_failed(t, "no memory for a control block");
    }
    kcoro_t *co = kc_container_of(block, kcoro_t, block);
    if (stack_size == 0)
        stack_size = KC_STACK_DEFAULT;
    if (kc__tools & (KC_TOOL_ASAN | KC_TOOL_TSAN))
        stack_size = size_with_tools(co, stack_size);
    int rc = kc__stack_get(&t->stacks, stack_size, &co->stack);
    if (rc < 0)
        return no_stack(t, block, rc, stack_size);

    block_init(co, flags, KCORO_CREATED, 0);
    co->sp = (void *)fp;
    co->fn = fn;
    co->arg = arg;
    return co;
}

kcoro_t *kcoro_create(kcoro_fn_t fn, void *arg, size_t stack_size)
{
    kc_thread_t *t = kc__thread_make();

    if (!t)
        return NULL;
    if (!fn)
        return create_failed(t, "the function is NULL");
    t->create_error = "";
    kcoro_t *co = coro_new(t, 0, fn, arg, stack_size, kc__switch_fp_control());
    if (co != NULL)
        co->id = kc__thread_new_id(t);
    return co;
}

const char *kcoro_create_error(void)
{
    kc_thread_t *t = kc__thread();

    return t->serial != 0 ? t->create_error : "no memory for the thread's state";
}

kcoro_t *kcoro_create_main(void)
{
    kc_thread_t *t = kc__thread_make();

    if (!t)
        return NULL;
    if (!t->has_main) {
        t->has_main = true;
        t->main_co->id = kc__thread_new_id(t);
    }
    t->create_error = "";
    return t->main_co;
}

/* ---- run ----------------------------------------------------------------------------------- */

/* Builds the first frame. */
KC_INLINE void coro_make_frame(kcoro_t *co)
{
    if (kc__tools)
        kc__tools_start(&co->tool, kc__stack_low(co->stack), kc__stack_size(co->stack));
    co->sp = kc__switch_make(kc__stack_top(co->stack), (uintptr_t)co->sp, coro_main, co);
}

/* CREATED -> READY. False: another thread was faster. */
static KC_NOINLINE bool coro_start(kc_thread_t *t, kcoro_t *co)
{
    uint32_t seen = KCORO_CREATED;

    if (!kc_cas_acq_rel(&co->state, &seen, KCORO_READY)) /* coro.3 */
        return false;
    kc_store_relaxed(&co->owner, t->serial);
    kc__tsan_acquire(co);
    coro_make_frame(co);
    return true;
}

/* The body of a job has the number of its job: a task begins with its block. */
static uint64_t number_of(const struct kc_task *task)
{
    return kc_load_relaxed(kc__block_number((const kc_block_t *)task));
}

/* When a tool has to be told, or the thread has not all that is needed at hand. */
static KC_NOINLINE kcoro_t *task_slow(kc_thread_t *t, struct kc_task *task, size_t stack_size,
                                      uint64_t fp)
{
    kcoro_t *co = coro_new(t, KC_CORO_TASK, NULL, task, stack_size, fp);

    kc__tsan_acquire(task);
    if (co != NULL) {
        co->id = number_of(task);
        kc_store_relaxed(&co->state, KCORO_READY);
        kc_store_relaxed(&co->claim, KC_CLAIM_OPEN);
        coro_make_frame(co);
    }
    return co;
}

kcoro_t *kc__coro_task(kc_thread_t *t, struct kc_task *task, size_t stack_size,
                       unsigned stack_class, uint64_t fp)
{
    kc_block_t *block;
    kc_stack_t stack;

    if (kc__tools || !kc__block_is_ready(&t->blocks) ||
        !kc__stack_take(&t->stacks, stack_class, &stack))
        return task_slow(t, task, stack_size, fp);
    block = kc__block_get(&t->blocks);
    kcoro_t *co = kc_container_of(block, kcoro_t, block);
    block_init(co, KC_CORO_TASK, KCORO_READY, KC_CLAIM_OPEN);
    co->stack = stack;
    co->fn = NULL;
    co->task = task;
    co->id = number_of(task);
    co->sp = kc__switch_make(kc__stack_top(stack), fp, task_main, co);
    return co;
}

bool kc__coro_may_hand_over(const kcoro_t *me, uint64_t fp)
{
    /* Who holds a reference may ask how much of the stack was used, so it must come to its end. */
    return kc_load_relaxed(&me->refs) == 1 && kc__switch_same_control(kc__switch_fp_control(), fp);
}

kcoro_t *kc__coro_successor(kc_thread_t *t, kcoro_t *me, struct kc_task *task)
{
    kc_block_t *block = kc__block_get(&t->blocks);
    if (!block)
        return NULL;
    kcoro_t *co = kc_container_of(block, kcoro_t, block);
    block_init(co, KC_CORO_TASK, KCORO_RUNNING, KC_CLAIM_OPEN);
    co->stack = me->stack;
    co->fn = NULL;
    co->task = task;
    co->id = number_of(task);
    return co;
}

/* 0 if t may switch to co now, which has started then, else why not. */
static int prepare_run(kc_thread_t *t, kcoro_t *co)
{
    uint32_t state = kc_load_acquire(&co->state); /* coro.2 */

    if (state == KCORO_FINISHED || (kc_load_relaxed(&co->block.flags) & KC_CORO_TASK))
        return -EINVAL;
    if (state == KCORO_CREATED)
        return coro_start(t, co) ? 0 : -EPERM;
    if (kc_load_relaxed(&co->owner) != t->serial)
        return -EPERM;
    if (state == KCORO_PARKED)
        return -EAGAIN;
    return state == KCORO_READY || state == KCORO_SUSPENDED ? 0 : -EINVAL;
}

/*
 * The common case: co is a coroutine, yielded or was unparked, and is ours. Whatever makes it false
 * is looked at more closely out of line, so that the common path saves no registers. A thread that
 * has no structure fails here too: its serial is 0, and no coroutine that is at rest has owner 0.
 */
KC_INLINE bool can_run_at_once(kc_thread_t *t, kcoro_t *co)
{
    if (!co)
        return false;
    uint32_t state = kc_load_acquire(&co->state); /* coro.2 */
    return (state == KCORO_SUSPENDED || state == KCORO_READY) &&
           kc_load_relaxed(&co->owner) == t->serial &&
           kc_load_relaxed(&co->block.magic) == KC_CORO_MAGIC;
}

KC_INLINE int resume(kc_thread_t *t, kcoro_t *co)
{
    kcoro_t *me = t->current;

    co->resumer = me;
    kc_store_relaxed(&me->state, KC_CORO_CALLING);
    return switch_to(t, me, co);
}

static KC_NOINLINE int resume_slow(kcoro_t *co)
{
    if (!co)
        return -EINVAL;
    kc__coro_live("kcoro_resume", co);
    kc_thread_t *t = kc__thread_make();
    if (!t)
        return -ENOMEM;
    int rc = prepare_run(t, co);
    return rc < 0 ? rc : resume(t, co);
}

int kcoro_resume(kcoro_t *co)
{
    kc_thread_t *t = kc__thread();

    return can_run_at_once(t, co) ? resume(t, co) : resume_slow(co);
}

static KC_COLD _Noreturn void cannot_leave(const char *call)
{
    kc_thread_t *t = kc__thread();

    if (t->current == t->main_co)
        kc__usage(call, t->has_main ? "the main coroutine has no resumer " KC_RULE("C2")
                                    : "called outside a coroutine " KC_RULE("C2"));
    kc__usage(call, "a cleanup run by kcoro_destroy may not suspend " KC_RULE("C6"));
}

void kcoro_yield(void)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *me = t->current;
    kcoro_t *to = me->resumer;

    if (!to) {
        if (!(kc_load_relaxed(&me->block.flags) & KC_CORO_TASK))
            cannot_leave("kcoro_yield");
        kc__coro_hooks.yield(me);
        return;
    }
    kc_store_relaxed(&me->state, KCORO_SUSPENDED);
    switch_to(t, me, to);
}

KC_INLINE int transfer(kc_thread_t *t, kcoro_t *me, kcoro_t *target)
{
    target->resumer = me->resumer;
    kc_store_relaxed(&me->state, KCORO_SUSPENDED);
    return switch_to(t, me, target);
}

static KC_NOINLINE int transfer_slow(kc_thread_t *t, kcoro_t *me, kcoro_t *target)
{
    if (!target)
        return -EINVAL;
    kc__coro_live("kcoro_yield_to", target);
    if (kc_load_relaxed(&target->block.flags) & KC_CORO_TASK)
        return -EINVAL;
    if (!me->resumer) {
        if (kc_load_relaxed(&me->block.flags) & KC_CORO_TASK)
            return -EPERM; /* it has no resumer to hand over */
        if (me != t->main_co)
            cannot_leave("kcoro_yield_to");
        return t->has_main ? kcoro_resume(target) : -EPERM;
    }
    int rc = prepare_run(t, target);
    return rc < 0 ? rc : transfer(t, me, target);
}

int kcoro_yield_to(kcoro_t *target)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *me = t->current;

    return can_run_at_once(t, target) && me->resumer != NULL ? transfer(t, me, target)
                                                             : transfer_slow(t, me, target);
}

void kcoro_park(void)
{
    kc_thread_t *t = kc__thread();
    kcoro_t *me = t->current;
    kcoro_t *to = me->resumer;

    if (!to) {
        if (!(kc_load_relaxed(&me->block.flags) & KC_CORO_TASK))
            cannot_leave("kcoro_park");
        if (!kc__coro_hooks.parks(me))
            return;
    }
    /* The state comes first: an unpark may follow the gate at once, and its READY must be the last
     * word. */
    kc_store_relaxed(&me->state, KCORO_PARKED);
    if (!kc__gate_park(&me->gate)) {
        kc_store_relaxed(&me->state, KCORO_RUNNING);
        kc__tsan_acquire(me);
        return;
    }
    if (to != NULL)
        switch_to(t, me, to);
    else
        kc__coro_hooks.parked(me);
}

/* It was parked, and the caller has opened its gate. */
static void make_ready(kcoro_t *co)
{
    uint32_t seen = KCORO_PARKED;

    if (kc_cas_acq_rel(&co->state, &seen, KCORO_READY) && /* coro.1 */
        (kc_load_relaxed(&co->block.flags) & KC_CORO_TASK))
        kc__coro_hooks.ready(co);
}

void kc__coro_end_park(kcoro_t *co)
{
    if (kc__gate_end(&co->gate))
        make_ready(co);
}

int kcoro_unpark(kcoro_t *co)
{
    if (!co)
        return -EINVAL;
    kc__coro_live("kcoro_unpark", co);
    if (kc_load_relaxed(&co->state) == KCORO_FINISHED)
        return -EINVAL;
    kc__tsan_release(co);
    if (kc__gate_unpark(&co->gate))
        make_ready(co);
    return 0;
}

bool kc__coro_task_abandon(kcoro_t *co)
{
    uint32_t seen = KCORO_PARKED;

    return kc_load_relaxed(&co->state) == KCORO_SUSPENDED ||
           kc_cas_acq_rel(&co->state, &seen, KC_CORO_CALLING); /* coro.1 */
}
