/* SPDX-License-Identifier: MIT */
/*
 * os.h - every call into the kernel and the allocator, in one place.
 *
 * This is the seam for faults: a test sets kc__os_fault, and each call that can fail for want of
 * memory asks it first. Everything returns 0, a pointer or a negative errno, never errno.
 */
#ifndef KC_BASE_OS_H
#define KC_BASE_OS_H

#include "base/atomic.h"
#include "base/base.h"

/* Asked before each call below that may fail; true makes the call fail as the kernel would.
 * NULL outside tests. what names the call ("map", "alloc"...). */
extern bool (*kc__os_fault)(const char *what);

/* Set under Valgrind, which warns of system calls that it does not know. */
extern bool kc__os_old_calls_only;

/* Zeroed memory; NULL: none left. Freed with kc__free. align is a power of two. */
void *kc__alloc(size_t size);
void *kc__alloc_aligned(size_t align, size_t size);
void kc__free(void *p);

/* Private anonymous memory, page aligned, zeroed on first touch, not reserved, no huge pages.
 * NULL: none left. */
void *kc__os_map(size_t size);
/* The same for data that stays: huge pages are welcome. Aligned to its size, a power of two. */
void *kc__os_map_data(size_t size);
void kc__os_unmap(void *p, size_t size);

/* Gives the pages back; the range stays mapped and reads as zero. */
void kc__os_trim(void *p, size_t size);

/* In a forked child these pages, of memory of ours, read as zero; false: no longer so. What the
 * kernel cannot do (before Linux 4.14) is left undone. */
void kc__os_wipe_on_fork(void *p, size_t size, bool wipe);

/* This process: another one in a forked child. */
int kc__os_process(void);

enum { KC_GUARD_MAX = 64 }; /* guards in one call */

/* How stack guards are made here, found out once by trying. */
typedef enum { KC_GUARD_UNKNOWN, KC_GUARD_MARKER, KC_GUARD_PROTECT } kc_guard_kind_t;
kc_guard_kind_t kc__os_guard_kind(void);
void kc__os_guard_force(kc_guard_kind_t kind); /* tests: use this kind from now on */

/*
 * Makes every access to the pages at p, p + stride, p + 2 stride... fault, `count` times size
 * bytes. Returns how many are guarded, from the first on; if that is fewer than count, *why is the
 * reason: -ENOMEM from KC_GUARD_PROTECT means that the limit on mappings is reached.
 */
size_t kc__os_guard(void *p, size_t size, size_t stride, size_t count, int *why);

extern KC_HIDDEN KC_ATOMIC(int) kc__os_debug_mode; /* A  -1: not looked up yet */
bool kc__os_find_debug(void);

/* True if the environment variable KCORO_DEBUG is set and not "0". Looked up once. */
KC_INLINE bool kc__os_debug(void)
{
    return kc_load_relaxed(&kc__os_debug_mode) == 0 ? false : kc__os_find_debug();
}

/* What an errno value means, in words: a string of the C library's, or in the buffer. */
const char *kc__os_error(int error, char *buffer, size_t size);

/* Copies what lies at any address, or does not: false if it cannot be read. */
bool kc__os_peek(const void *from, size_t size, void *to);

size_t kc__os_page_size(void);

/* What is missing when there is no stack. */
typedef enum {
    KC_NO_STACK_MEMORY,
    KC_NO_STACK_MAPPINGS,
    KC_NO_STACK_ADDRESSES,
    KC_LACKS
} kc_no_stack_t;

/* Why a mapping of so many bytes has been refused, as far as trying can tell. */
kc_no_stack_t kc__os_why_no_memory(size_t size);

/* No mapping can ever be larger: the addresses of a process, or its limit on them (RLIMIT_AS). */
size_t kc__os_address_space(void);

/* CLOCK_MONOTONIC, in nanoseconds. */
int64_t kc__os_now(void);

/* A clock that is cheap to read, whose unit is unknown: at most a nanosecond. So it may seem to be
 * fast: who finds that enough ticks have passed asks the other one. */
#if defined(__x86_64__)
KC_INLINE uint64_t kc__os_ticks(void)
{
    return __builtin_ia32_rdtsc();
}
#else
KC_INLINE uint64_t kc__os_ticks(void)
{
    return (uint64_t)kc__os_now();
}
#endif

/* Sleeps while *word == expected, until woken, for no reason, or until the time `until` on
 * kc__os_now's clock; INT64_MAX: no limit. */
void kc__os_wait(const void *word, uint32_t expected, int64_t until);
void kc__os_wake(const void *word); /* one */
void kc__os_wake_all(const void *word);

/*
 * In a loop that looks at a word until another thread has done what takes it a moment; *looks is 0
 * at first. Pauses; from a number of looks on it sleeps, a little longer each time and at most an
 * eighth of a millisecond: the other thread may be one that cannot run before this one does, by its
 * priority or for want of a processor.
 */
KC_COLD void kc__os_back_off(uint32_t *looks);

/* For the event loop of a host: a descriptor that is readable while the event is signalled, or when
 * the time of the timer has come. All three, or a negative errno. */
int kc__os_loop_open(int *event_fd, int *timer_fd);
void kc__os_loop_close(int fd, int event_fd, int timer_fd);

void kc__os_event_signal(int event_fd);
void kc__os_event_clear(int event_fd);

/* On kc__os_now's clock; INT64_MAX: never. */
void kc__os_timer_set(int timer_fd, int64_t at);

/* CPUs that this process may use, at least 1. */
int kc__os_cpus(void);

#endif
