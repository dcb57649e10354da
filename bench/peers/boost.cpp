/* SPDX-License-Identifier: MIT */
/*
 * boost.cpp - Boost.Context and Boost.Fiber as contenders.
 *
 * Stacks have the size that ours have. Where a contender takes pooled stacks, a pool of Boost's
 * own (pooled_fixedsize_stack) or one kept by hand gives them out again warm and without a guard,
 * which is less than what ours do; protected_fixedsize_stack has a guard as ours have.
 */
#include "peers/boost.h"

#include "harness.h"

#include <boost/context/detail/fcontext.hpp>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <boost/fiber/all.hpp>

#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace
{

namespace context = boost::context;
using context::detail::fcontext_t;
using context::detail::jump_fcontext;
using context::detail::make_fcontext;
using context::detail::transfer_t;

/* ---- switch -------------------------------------------------------------------------------- */

void bounce(transfer_t from)
{
    for (;;)
        from = jump_fcontext(from.fctx, from.data);
}

void fcontext_run(void *arg, uint64_t n)
{
    fcontext_t *other = static_cast<fcontext_t *>(arg);

    for (uint64_t i = 0; i < n / 2; i++)
        *other = jump_fcontext(*other, nullptr).fctx;
}

context::fiber *bouncing_fiber()
{
    return new context::fiber(std::allocator_arg, context::fixedsize_stack(KB_STACK),
                              [](context::fiber &&from) {
                                  for (;;)
                                      from = std::move(from).resume();
                                  return std::move(from);
                              });
}

void fiber_run(void *arg, uint64_t n)
{
    context::fiber *other = static_cast<context::fiber *>(arg);

    for (uint64_t i = 0; i < n / 2; i++)
        *other = std::move(*other).resume();
}

/* Two fibers and nobody else: each yield is one way from one to the other. */
void fiber_yield_run(void *, uint64_t n)
{
    boost::fibers::fiber other([n] {
        for (uint64_t i = 0; i < n / 2; i++)
            boost::this_fiber::yield();
    });

    for (uint64_t i = 0; i < n / 2; i++)
        boost::this_fiber::yield();
    other.join();
}

/* ---- ring ---------------------------------------------------------------------------------- */

struct ring {
    std::vector<fcontext_t> contexts;
    size_t next;
};

void ring_walk(ring *r, uint64_t steps)
{
    size_t at = r->next, length = r->contexts.size();

    for (uint64_t i = 0; i < steps; i++) {
        r->contexts[at] = jump_fcontext(r->contexts[at], nullptr).fctx;
        at = at + 1 == length ? 0 : at + 1;
    }
    r->next = at;
}

void ring_run(void *arg, uint64_t n)
{
    kb_pause();
    ring_walk(static_cast<ring *>(arg), KB_RING_WARM_UP);
    kb_continue();
    ring_walk(static_cast<ring *>(arg), n / 2);
}

/* ---- create -------------------------------------------------------------------------------- */

uint64_t ran; /* so that bodies have something to do */

void run_once(transfer_t from)
{
    ran++;
    jump_fcontext(from.fctx, nullptr);
}

void fcontext_create_run(void *arg, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        jump_fcontext(make_fcontext(arg, KB_STACK, run_once), nullptr);
}

template <typename Stack> void fiber_create_run(void *arg, uint64_t n)
{
    Stack &stack = *static_cast<Stack *>(arg);

    for (uint64_t i = 0; i < n; i++) {
        context::fiber f(std::allocator_arg, stack, [](context::fiber &&from) {
            ran++;
            return std::move(from);
        });
        f = std::move(f).resume();
    }
}

template <typename Stack> void spawn_join_run(void *arg, uint64_t n)
{
    Stack &stack = *static_cast<Stack *>(arg);

    for (uint64_t i = 0; i < n; i++)
        boost::fibers::fiber(std::allocator_arg, stack, [] { ran++; }).join();
}

/* ---- hold ---------------------------------------------------------------------------------- */

static_assert(sizeof(context::fiber) == sizeof(void *), "fits a slot");
static_assert(sizeof(boost::fibers::fiber) == sizeof(void *), "fits a slot");

template <typename Stack> size_t context_hold(void **slots, size_t count)
{
    size_t i = 0;

    try {
        for (; i < count; i++) {
            auto *f = new (&slots[i])
                context::fiber(std::allocator_arg, Stack(KB_STACK),
                               [](context::fiber &&from) { return std::move(from).resume(); });
            *f = std::move(*f).resume();
        }
    } catch (const std::exception &) { /* no more stacks */
    }
    return i;
}

void context_drop(void **slots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        auto *f = reinterpret_cast<context::fiber *>(&slots[i]);
        *f = std::move(*f).resume();
        f->~fiber();
    }
}

boost::fibers::mutex gate_lock;
boost::fibers::condition_variable gate;
bool gate_open;

void wait_at_gate()
{
    std::unique_lock<boost::fibers::mutex> held(gate_lock);

    while (!gate_open)
        gate.wait(held);
}

template <typename Stack> size_t fibers_hold(void **slots, size_t count)
{
    size_t i = 0;

    try {
        for (; i < count; i++)
            new (&slots[i])
                boost::fibers::fiber(boost::fibers::launch::dispatch, std::allocator_arg,
                                     Stack(KB_STACK), wait_at_gate);
    } catch (const std::exception &) { /* no more stacks */
    }
    return i;
}

void fibers_drop(void **slots, size_t count)
{
    {
        std::unique_lock<boost::fibers::mutex> held(gate_lock);
        gate_open = true;
    }
    gate.notify_all();
    for (size_t i = 0; i < count; i++) {
        auto *f = reinterpret_cast<boost::fibers::fiber *>(&slots[i]);
        f->join();
        f->~fiber();
    }
}

const kb_holder holders[] = {
    { "boost.context fiber, guarded stack", context_hold<context::protected_fixedsize_stack>,
      context_drop },
    { "boost.fiber, guarded stack", fibers_hold<context::protected_fixedsize_stack>, fibers_drop },
    { "boost.fiber, stack without guard", fibers_hold<context::fixedsize_stack>, fibers_drop },
};

char *stacks_map(size_t count)
{
    size_t size = count * (KB_STACK + 4096);
    void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        throw std::bad_alloc();
    madvise(p, size, MADV_NOHUGEPAGE);
    return static_cast<char *>(p);
}

} // namespace

void kb_boost_switch(void)
{
    static fcontext_t other = make_fcontext(stacks_map(1) + KB_STACK, KB_STACK, bounce);

    kb_case(KB_FCONTEXT_SWITCH, fcontext_run, &other);
    kb_case("boost.context fiber", fiber_run, bouncing_fiber());
    kb_case("boost.fiber yield, 2 fibers", fiber_yield_run, nullptr);
}

void kb_boost_ring(size_t length, const char *name)
{
    ring *r = new ring();
    char *stacks = stacks_map(length);

    for (size_t i = 0; i < length; i++)
        r->contexts.push_back(
            make_fcontext(stacks + i * (KB_STACK + 4096) + KB_STACK, KB_STACK, bounce));
    kb_case(name, ring_run, r);
}

void kb_boost_create(void)
{
    static context::pooled_fixedsize_stack pooled(KB_STACK);
    static context::fixedsize_stack fixed(KB_STACK);
    static context::protected_fixedsize_stack guarded(KB_STACK);

    kb_case("boost.context fcontext, one stack reused", fcontext_create_run,
            stacks_map(1) + KB_STACK);
    kb_case("boost.context fiber, pooled stack", fiber_create_run<decltype(pooled)>, &pooled);
    kb_case("boost.context fiber, guarded stack", fiber_create_run<decltype(guarded)>, &guarded);
    kb_case("boost.fiber spawn + join, pooled stack", spawn_join_run<decltype(pooled)>, &pooled);
    kb_case("boost.fiber spawn + join, malloc'ed stack", spawn_join_run<decltype(fixed)>, &fixed);
}

size_t kb_boost_holders(const kb_holder **out)
{
    *out = holders;
    return sizeof holders / sizeof holders[0];
}
