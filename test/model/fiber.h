/* SPDX-License-Identifier: MIT */
/*
 * fiber.h - stacks for the threads of a model: made with ucontext, switched with setjmp.
 *
 * Not the library's own switch, which a model may have to test some day, and not swapcontext, which
 * calls the kernel each time for the unix signal mask. Included by model.c alone.
 *
 * WHO      One system thread; the fiber it came with needs no making: any struct fiber, zeroed.
 */
#ifndef KC_TEST_MODEL_FIBER_H
#define KC_TEST_MODEL_FIBER_H

#ifdef _FORTIFY_SOURCE
#error "the longjmp of _FORTIFY_SOURCE refuses to go to another stack"
#endif
#include "base/base.h"

#include <setjmp.h>
#include <ucontext.h>

struct fiber {
    jmp_buf env;
    const void *stack;
    size_t stack_size;
    void *fake_stack; /* AddressSanitizer's */
    const char *low;  /* while another one runs: its frames lie above */
};

/* The fiber that is being made, for its first steps. */
static struct {
    struct fiber *self, *maker;
    void (*entry)(void);
    ucontext_t unstarted, back;
} fiber_new;

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN
#endif
#endif

#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

static inline void fiber_leave(void **fake_stack, const struct fiber *to)
{
    __sanitizer_start_switch_fiber(fake_stack, to->stack, to->stack_size);
}

static inline void fiber_arrive(struct fiber *self)
{
    __sanitizer_finish_switch_fiber(self->fake_stack, NULL, NULL);
}

/* A new fiber learns where its maker's stack is, and forgets what was on its own. */
static inline void fiber_arrive_first(struct fiber *self, struct fiber *maker)
{
    __sanitizer_finish_switch_fiber(NULL, &maker->stack, &maker->stack_size);
    self->fake_stack = NULL;
}

static inline void fiber_clean(struct fiber *f)
{
    __asan_unpoison_memory_region(f->stack, f->stack_size);
}
#else
static inline void fiber_leave(void **fake_stack, const struct fiber *to)
{
    (void)fake_stack, (void)to;
}

static inline void fiber_arrive(struct fiber *self)
{
    (void)self;
}

static inline void fiber_arrive_first(struct fiber *self, struct fiber *maker)
{
    (void)self, (void)maker;
}

static inline void fiber_clean(struct fiber *f)
{
    (void)f;
}
#endif

/* An address below all frames of the caller. */
static KC_NOINLINE const char *fiber_here(void)
{
    return __builtin_frame_address(0);
}

static KC_NOINLINE void fiber_switch(struct fiber *from, struct fiber *to)
{
    fiber_leave(&from->fake_stack, to);
    from->low = fiber_here();
    if (_setjmp(from->env) == 0)
        _longjmp(to->env, 1);
    fiber_arrive(from);
}

/* Goes to `to` and never comes back: the current fiber may be made anew. */
_Noreturn static inline void fiber_abandon(struct fiber *to)
{
    fiber_leave(NULL, to);
    _longjmp(to->env, 1);
}

/* Goes back to the maker at once, and leaves a place to jump to. */
static void fiber_start(void)
{
    fiber_arrive_first(fiber_new.self, fiber_new.maker);
    void (*entry)(void) = fiber_new.entry;
    fiber_switch(fiber_new.self, fiber_new.maker);
    entry();
}

/* f runs entry, which must not return, when it is switched to for the first time. */
static KC_NOINLINE void fiber_make(struct fiber *f, struct fiber *maker, void *stack, size_t size,
                                   void (*entry)(void))
{
    f->stack = stack;
    f->stack_size = size;
    fiber_clean(f);
    fiber_new.self = f;
    fiber_new.maker = maker;
    fiber_new.entry = entry;
    getcontext(&fiber_new.unstarted);
    fiber_new.unstarted.uc_stack.ss_sp = stack;
    fiber_new.unstarted.uc_stack.ss_size = size;
    makecontext(&fiber_new.unstarted, fiber_start, 0);
    fiber_leave(&maker->fake_stack, f);
    if (_setjmp(maker->env) == 0)
        setcontext(&fiber_new.unstarted);
    fiber_arrive(maker);
}

#endif
