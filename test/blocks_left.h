/* SPDX-License-Identifier: MIT */
/*
 * blocks_left.h - how many control blocks are in use, for the books at the end of a run.
 */
#ifndef KC_TEST_BLOCKS_LEFT_H
#define KC_TEST_BLOCKS_LEFT_H

#include "coro/coro.h"

static void kc_test_count_block(kc_block_t *block, void *arg)
{
    bool root = kc_load_relaxed(&block->magic) == KC_CORO_MAGIC &&
                (kc_load_relaxed(&block->flags) & KC_CORO_ROOT);

    *(int *)arg += !root;
}

/* Blocks of this kind that have not been given back; the root coroutine of a thread is its own. */
static inline int kc_test_blocks_left(uint32_t magic)
{
    int blocks = 0;

    kc__block_each(magic, kc_test_count_block, &blocks);
    return blocks;
}

#endif
