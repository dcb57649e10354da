/* SPDX-License-Identifier: MIT */
/*
 * word_test.c - the checker of a job's word: it accepts what happens, and nothing that must not.
 */
#include "job_kit.h"

enum { ONE = 1 };

TEST(the_states_that_a_job_goes_through_are_legal)
{
    static const uint64_t life[] = {
        ONE,
        ONE | KC_WORD_BODY | KC_WORD_STARTED,
        3 | KC_WORD_BODY | KC_WORD_STARTED | KC_WORD_DRAIN,
        2 | KC_WORD_BODY | KC_WORD_STARTED | KC_WORD_CANCELLED | KC_WORD_STOP | KC_WORD_MESSAGED,
        ONE | KC_WORD_BODY | KC_WORD_STARTED | KC_WORD_SHIELDED,
        KC_WORD_STARTED | KC_WORD_DONE,
        KC_WORD_STARTED | KC_WORD_FAILED | KC_WORD_DONE | KC_WORD_DONE_FAILED,
        KC_WORD_CANCELLED | KC_WORD_STOP | KC_WORD_DONE | KC_WORD_DONE_CANCELLED,
    };

    for (size_t i = 0; i < sizeof life / sizeof life[0]; i++)
        CHECK(kc__word_is_legal(life[i]));
}

TEST(bits_that_cannot_be_together_are_found)
{
    static const uint64_t wrong[] = {
        ONE | KC_WORD_DONE,                                          /* R1 */
        KC_WORD_DONE_FAILED,                                         /* R1 */
        KC_WORD_DONE | KC_WORD_DONE_FAILED | KC_WORD_DONE_CANCELLED, /* R1 */
        KC_WORD_BODY | KC_WORD_STARTED,                              /* R2 */
        KC_WORD_MESSAGED,                                            /* R2 */
        KC_WORD_DONE | KC_WORD_STARTED | KC_WORD_BODY,               /* R2 */
        ONE | KC_WORD_BODY,                                          /* R3 */
        ONE | KC_WORD_DRAIN,                                         /* R3 */
        ONE | KC_WORD_STOP,                                          /* R4 */
        ONE | KC_WORD_BELOW,                                         /* R5 */
        ONE | KC_WORD_CHILD_FAILED,                                  /* R6 */
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!kc__word_is_legal(wrong[i]));
}
