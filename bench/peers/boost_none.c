/* SPDX-License-Identifier: MIT */
/*
 * boost_none.c - what boost.h promises, where there is no Boost: a line that says so.
 */
#include "peers/boost.h"

#include "harness.h"

static const char missing[] = "not installed";

void kb_boost_switch(void)
{
    kb_skip("boost.context", missing);
}

void kb_boost_ring(size_t length, const char *name)
{
    (void)length;
    kb_skip(name, missing);
}

void kb_boost_create(void)
{
    kb_skip("boost.context", missing);
    kb_skip("boost.fiber", missing);
}

void kb_boost_round(const char *name)
{
    kb_skip(name, missing);
}

void kb_boost_round_threads(const char *name)
{
    kb_skip(name, missing);
}

void kb_boost_stream(const char *name)
{
    kb_skip(name, missing);
}

void kb_boost_stream_threads(const char *name)
{
    kb_skip(name, missing);
}

void kb_boost_mutex(const char *name)
{
    kb_skip(name, missing);
}

void kb_boost_mutex_queue(const char *name)
{
    kb_skip(name, missing);
}

void kb_boost_mutex_threads(const char *name)
{
    kb_skip(name, missing);
}

size_t kb_boost_holders(const struct kb_holder **out)
{
    *out = NULL;
    return 0;
}
