/* SPDX-License-Identifier: MIT */
/*
 * back_off.c - kc__os_back_off in a model: the thread goes on when what it looked at has changed.
 */
#include "base/os.h"
#include "model.h"

void kc__os_back_off(uint32_t *looks)
{
    (void)looks; /* a count would make each look another state */
    model_spin();
}
