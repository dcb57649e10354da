/* SPDX-License-Identifier: MIT */
/*
 * tsan.c - finds ThreadSanitizer, and calls it.
 */
#include "base/tsan.h"

#ifndef KC_TSAN_UNTOLD

extern void __tsan_acquire(void *at) __attribute__((weak));
extern void __tsan_release(void *at) __attribute__((weak));
extern void AnnotateIgnoreReadsBegin(const char *file, int line) __attribute__((weak));
extern void AnnotateIgnoreReadsEnd(const char *file, int line) __attribute__((weak));
extern void AnnotateIgnoreWritesBegin(const char *file, int line) __attribute__((weak));
extern void AnnotateIgnoreWritesEnd(const char *file, int line) __attribute__((weak));

void (*const kc__tsan_acquire_at)(void *at) = __tsan_acquire;

void kc__tsan_tell_acquire(const void *at)
{
    __tsan_acquire((void *)(uintptr_t)at);
}

void kc__tsan_tell_release(const void *at)
{
    __tsan_release((void *)(uintptr_t)at);
}

void kc__tsan_tell_hide(void)
{
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

void kc__tsan_tell_show(void)
{
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

#endif
