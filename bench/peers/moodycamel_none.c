/* SPDX-License-Identifier: MIT */
/*
 * moodycamel_none.c - what moodycamel.h promises, where there is no moodycamel::ConcurrentQueue.
 */
#include "peers/moodycamel.h"

size_t kb_moodycamel_queues(const struct kb_queue **out)
{
    *out = NULL;
    return 0;
}
