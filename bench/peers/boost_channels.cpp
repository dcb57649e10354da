/* SPDX-License-Identifier: MIT */
/*
 * boost_channels.cpp - the channels and the mutex of Boost.Fiber as contenders.
 *
 * A thread's own stack is a fiber too, so the measuring thread is one of the two sides; the other
 * one is a fiber on the same thread, or a second thread. A buffered_channel of 128 holds 127 items.
 */
#include "peers/boost.h"

#include "harness.h"

#include <boost/context/fixedsize_stack.hpp>
#include <boost/fiber/all.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace
{

using boost::fibers::channel_op_status;
using boost::fibers::fiber;
using unbuffered = boost::fibers::unbuffered_channel<uint64_t>;
using buffered = boost::fibers::buffered_channel<uint64_t>;

constexpr uint64_t BUFFER = 128, CROWD = 4, SPINS = 1 << 20;

void must(bool ok)
{
    if (!ok)
        abort();
}

/* Runs other on a fiber of this thread or on another thread, and here on this one. */
void both(bool threads, const std::function<void()> &here, const std::function<void()> &other)
{
    if (threads) {
        std::thread thread(other);
        here();
        thread.join();
    } else {
        fiber side(std::allocator_arg, boost::context::fixedsize_stack(KB_STACK), other);
        here();
        side.join();
    }
}

/* ---- channels ------------------------------------------------------------------------------ */

template <bool threads> void round_run(void *, uint64_t n)
{
    unbuffered there, back;

    both(
        threads,
        [&] {
            for (uint64_t i = 0; i < n; i++) {
                must(there.push(i) == channel_op_status::success);
                must(back.value_pop() == i);
            }
        },
        [&] {
            for (uint64_t i = 0; i < n; i++)
                must(back.push(there.value_pop()) == channel_op_status::success);
        });
}

template <bool threads> void stream_run(void *, uint64_t n)
{
    buffered items(BUFFER);

    both(
        threads,
        [&] {
            for (uint64_t i = 0; i < n; i++)
                must(items.value_pop() == i);
        },
        [&] {
            for (uint64_t i = 0; i < n; i++)
                must(items.push(i) == channel_op_status::success);
        });
}

/* ---- mutex --------------------------------------------------------------------------------- */

void mutex_run(void *, uint64_t n)
{
    boost::fibers::mutex m;

    for (uint64_t i = 0; i < n; i++) {
        m.lock();
        kb_keep(&n);
        m.unlock();
    }
}

void mutex_queue_run(void *, uint64_t n)
{
    boost::fibers::mutex m;
    uint64_t turns = 0, each = (n + CROWD - 1) / CROWD;
    std::vector<fiber> crowd;
    int64_t start = kb_now();

    for (uint64_t k = 0; k < CROWD; k++)
        crowd.emplace_back(std::allocator_arg, boost::context::fixedsize_stack(KB_STACK), [&] {
            for (uint64_t i = 0; i < each; i++) {
                std::lock_guard<boost::fibers::mutex> held(m);
                turns++;
                boost::this_fiber::yield();
            }
        });
    for (fiber &f : crowd)
        f.join();
    int64_t took = kb_now() - start;
    must(turns == each * CROWD);
    kb_took(static_cast<int64_t>(static_cast<double>(took) * static_cast<double>(n) /
                                 static_cast<double>(turns)));
}

/* Until both together have had it n times. */
void mutex_threads_run(void *, uint64_t n)
{
    boost::fibers::mutex m;
    std::atomic<int> there{ 0 };
    uint64_t turns = 0;
    int64_t start = INT64_MAX;
    auto fight = [&] {
        there++;
        for (uint64_t spins = 1; there < 2; spins++)
            if (spins % SPINS == 0)
                std::this_thread::yield();
        int64_t began = kb_now();
        for (bool left = true; left;) {
            std::lock_guard<boost::fibers::mutex> held(m);
            left = turns < n;
            turns += left;
            start = std::min(start, began);
        }
    };

    both(true, fight, fight);
    kb_took(kb_now() - start);
}

} // namespace

void kb_boost_round(const char *name)
{
    kb_case(name, round_run<false>, nullptr);
}

void kb_boost_round_threads(const char *name)
{
    kb_case(name, round_run<true>, nullptr);
}

void kb_boost_stream(const char *name)
{
    kb_case(name, stream_run<false>, nullptr);
}

void kb_boost_stream_threads(const char *name)
{
    kb_case(name, stream_run<true>, nullptr);
}

void kb_boost_mutex(const char *name)
{
    kb_case(name, mutex_run, nullptr);
}

void kb_boost_mutex_queue(const char *name)
{
    kb_case(name, mutex_queue_run, nullptr);
}

void kb_boost_mutex_threads(const char *name)
{
    kb_case(name, mutex_threads_run, nullptr);
}
