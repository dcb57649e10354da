/* SPDX-License-Identifier: MIT */
/*
 * version.c - the version of the library that runs.
 */
#include <kcoro/base.h>

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

const char *kc_version(void)
{
    return TEXT(KC_VERSION_MAJOR) "." TEXT(KC_VERSION_MINOR) "." TEXT(KC_VERSION_PATCH);
}
