/* SPDX-License-Identifier: MIT */
/*
 * os.c - the kernel and the allocator, behind os.h.
 *
 * WHAT     Guards of stacks come in two kinds. MADV_GUARD_INSTALL (Linux 6.13) marks pages in the
 *          page table: no extra mapping, so a million guards are no problem. Where it is missing,
 *          mprotect splits the mapping in two at each guard and stops at vm.max_map_count. Which
 *          one works is found by behaviour and not by return value: qemu's user emulation answers
 *          0 to advice it does not know, and locked memory refuses markers.
 *
 * ORDER    id  site            operation       pairs with   carries; what breaks if weaker
 *          -   guard_kind      relaxed         itself       one word, no other data
 *          -   debug mode      relaxed         itself       one word, no other data
 */
#define _GNU_SOURCE
#include "base/os.h"

#include "base/tsan.h"

#include "base/atomic.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Of <linux/futex.h>, which not every C library comes with. */
enum {
    FUTEX_WAIT_PRIVATE = 0 | 128,
    FUTEX_WAKE_PRIVATE = 1 | 128,
    FUTEX_WAIT_BITSET_PRIVATE = 9 | 128,
    FUTEX_ALL = -1 /* every bit: whoever wakes */
};

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#define MADV_KEEPONFORK 19
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef PIDFD_SELF
#define PIDFD_SELF (-10000)
#endif

bool (*kc__os_fault)(const char *what);
bool kc__os_old_calls_only;

static KC_ATOMIC(int) guard_kind = KC_GUARD_UNKNOWN;
KC_ATOMIC(int) kc__os_debug_mode = -1;

static bool fault(const char *what)
{
    return kc__os_fault != NULL && kc__os_fault(what);
}

void kc__die(const char *format, ...)
{
    char line[512] = "kcoro: ";
    size_t used = strlen(line);
    va_list args;

    va_start(args, format);
    vsnprintf(line + used, sizeof line - used - 1, format, args);
    va_end(args);
    used = strlen(line);
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) < 0) {
        /* Nothing is left to tell it to. */
    }
    abort();
}

void *kc__alloc(size_t size)
{
    if (fault("alloc"))
        return NULL;
    kc__tsan_hide(); /* R3 there */
    void *p = calloc(1, size);
    kc__tsan_show();
    return p;
}

void *kc__alloc_aligned(size_t align, size_t size)
{
    if (fault("alloc"))
        return NULL;

    kc__tsan_hide();
    void *p = aligned_alloc(align, kc__align_up(size, align));
    if (p)
        memset(p, 0, size);
    kc__tsan_show();
    return p;
}

void kc__free(void *p)
{
    kc__tsan_hide();
    free(p);
    kc__tsan_show();
}

static void *map(size_t size)
{
    if (fault("map"))
        return NULL;

    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* LeakSanitizer looks for pointers in the heap, not in mappings, unless told. */
extern void __lsan_register_root_region(const void *p, size_t size) __attribute__((weak));

void *kc__os_map_data(size_t size)
{
    char *p = map(2 * size);

    if (!p)
        return NULL;
    /* The higher place, if there are two: the next one is mapped below it, and lies next to it. */
    char *data = (char *)((uintptr_t)(p + size) & ~(uintptr_t)(size - 1));
    if (data > p)
        kc__os_unmap(p, (size_t)(data - p));
    if (data < p + size)
        kc__os_unmap(data + size, (size_t)(p + size - data));
    if (__lsan_register_root_region)
        __lsan_register_root_region(data, size);
    return data;
}

void *kc__os_map(size_t size)
{
    void *p = map(size);

    /* A huge page under a stack would make all of it resident. Kernels without huge pages refuse
     * the advice, and need none. */
    if (p)
        (void)madvise(p, size, MADV_NOHUGEPAGE);
    return p;
}

void kc__os_unmap(void *p, size_t size)
{
    /* At the limit on mappings a hole in a mapping is refused. The address space is lost then, the
     * memory is not. */
    if (munmap(p, size) != 0)
        kc__os_trim(p, size);
}

void kc__os_trim(void *p, size_t size)
{
    /* Locked pages refuse; they then stay resident, which is what locking asks for. */
    (void)madvise(p, size, MADV_DONTNEED);
}

void kc__os_wipe_on_fork(void *p, size_t size, bool wipe)
{
    int saved = errno;

    (void)madvise(p, size, wipe ? MADV_WIPEONFORK : MADV_KEEPONFORK);
    errno = saved;
}

int kc__os_process(void)
{
    return getpid();
}

/*
 * True if the kernel refuses to read from p, where a zero lies: the only answer that proves a
 * guard. A futex of another value is not waited for, so this tries to read and does nothing else;
 * it needs no descriptor, of which none may be left, and no call that is not needed anyway.
 */
static bool is_unreadable(const void *p)
{
    static const struct timespec at_once;

    return syscall(SYS_futex, p, FUTEX_WAIT_PRIVATE, 1, &at_once, NULL, 0) < 0 && errno == EFAULT;
}

static kc_guard_kind_t probe_guard(void)
{
    size_t page = kc__os_page_size();
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return KC_GUARD_PROTECT;
    bool marked =
        madvise(p, page, MADV_GUARD_INSTALL) == 0 && is_unreadable(p) && !is_unreadable(p + page);
    munmap(p, 2 * page);
    return marked ? KC_GUARD_MARKER : KC_GUARD_PROTECT;
}

kc_guard_kind_t kc__os_guard_kind(void)
{
    int kind = kc_load_relaxed(&guard_kind);

    if (kind == KC_GUARD_UNKNOWN) {
        int saved = errno;
        kind = probe_guard(); /* two threads may both probe: they find the same */
        kc_store_relaxed(&guard_kind, kind);
        errno = saved;
    }
    return (kc_guard_kind_t)kind;
}

void kc__os_guard_force(kc_guard_kind_t kind)
{
    kc_store_relaxed(&guard_kind, kind);
}

/* All of them in one system call (Linux 6.14), which takes half the time of as many. False: not so
 * here. */
static bool mark_many(void *p, size_t size, size_t stride, size_t count)
{
    struct iovec range[KC_GUARD_MAX];

    for (size_t i = 0; i < count; i++)
        range[i] = (struct iovec){ (char *)p + i * stride, size };
    return syscall(SYS_process_madvise, PIDFD_SELF, range, count, MADV_GUARD_INSTALL, 0) ==
           (long)(count * size);
}

size_t kc__os_guard(void *p, size_t size, size_t stride, size_t count, int *why)
{
    bool mark = kc__os_guard_kind() == KC_GUARD_MARKER;
    char *at = p;
    size_t done = 0;

    KC_ASSERT(count <= KC_GUARD_MAX);
    if (fault("guard")) {
        *why = -ENOMEM;
        return 0;
    }
    if (mark && count > 1 && !kc__os_old_calls_only && mark_many(at, size, stride, count))
        return count;
    for (; done < count; done++, at += stride) {
        if ((mark ? madvise(at, size, MADV_GUARD_INSTALL) : mprotect(at, size, PROT_NONE)) != 0) {
            *why = -errno;
            break;
        }
    }
    return done;
}

bool kc__os_find_debug(void)
{
    int mode = kc_load_relaxed(&kc__os_debug_mode);

    if (mode < 0) {
        const char *value = getenv("KCORO_DEBUG");
        mode = value && *value && strcmp(value, "0") != 0;
        kc_store_relaxed(&kc__os_debug_mode, mode);
    }
    return mode;
}

/* There are two functions of this name. */
#ifdef __GLIBC__

const char *kc__os_error(int error, char *buffer, size_t size)
{
    return strerror_r(error, buffer, size);
}

#else

const char *kc__os_error(int error, char *buffer, size_t size)
{
    return strerror_r(error, buffer, size) == 0 ? buffer : "unknown error";
}

#endif

/* By a pipe, where the call below is missing (emulators) or forbidden: the kernel looks at the
 * address, and says if there is nothing. Not by write, of which sanitizers have their own: whoever
 * owns what is read may be writing it. */
static bool peek_by_pipe(const void *from, size_t size, void *to)
{
    int fd[2];

    if (size > PIPE_BUF || pipe2(fd, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    bool ok = syscall(SYS_write, fd[1], from, size) == (long)size &&
              read(fd[0], to, size) == (ssize_t)size;
    close(fd[0]);
    close(fd[1]);
    return ok;
}

bool kc__os_peek(const void *from, size_t size, void *to)
{
    /* cppcheck-suppress ctuuninitvar ; this is what fills it in */
    struct iovec local = { to, size }, remote = { (void *)(uintptr_t)from, size };
    int saved = errno;

    ssize_t n = syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0);
    bool ok = n == (ssize_t)size;
    if (n < 0 && errno != EFAULT)
        ok = peek_by_pipe(from, size, to);
    errno = saved;
    return ok;
}

size_t kc__os_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* True: there is room for a mapping of its own. Shared ones are never merged with neighbours, so
 * each of them is one more. */
static bool can_map(size_t size, int kind)
{
    void *p = mmap(NULL, size, PROT_NONE, kind | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p != MAP_FAILED)
        munmap(p, size);
    return p != MAP_FAILED;
}

/* Bytes of address space that the process has mapped; SIZE_MAX: not known. */
static size_t mapped_bytes(void)
{
    char text[32] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return SIZE_MAX;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? strtoull(text, NULL, 10) * kc__os_page_size() : SIZE_MAX;
}

kc_no_stack_t kc__os_why_no_memory(size_t size)
{
    size_t page = kc__os_page_size();
    struct rlimit limit;
    int saved = errno;
    kc_no_stack_t why = KC_NO_STACK_MAPPINGS;

    if (!can_map(page, MAP_SHARED)) {
        bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
        if (limited && mapped_bytes() > limit.rlim_cur - page)
            why = KC_NO_STACK_ADDRESSES;
    } else
        why = can_map(size, MAP_PRIVATE) ? KC_NO_STACK_MEMORY : KC_NO_STACK_ADDRESSES;
    errno = saved;
    return why;
}

size_t kc__os_address_space(void)
{
    uintptr_t top = (uintptr_t)getauxval(AT_RANDOM); /* near the end of the first stack, the top */
    size_t all = SIZE_MAX / 2 + 1;
    struct rlimit limit;

    while (all / 2 > top && top > 0)
        all /= 2;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < all)
        all = (size_t)limit.rlim_cur;
    return all;
}

int64_t kc__os_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void kc__os_wait(const void *word, uint32_t expected, int64_t until)
{
    struct timespec t = { (time_t)(until / 1000000000), (long)(until % 1000000000) };
    int saved = errno; /* calls that are not said to wait come here too, for a lock */

    /* The bitset form takes an absolute time on the monotonic clock. */
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, until == INT64_MAX ? NULL : &t,
            NULL, FUTEX_ALL);
    errno = saved;
}

void kc__os_wake_all(const void *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void kc__os_wake(const void *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void kc__os_back_off(uint32_t *looks)
{
    /* ns. The last one lasts 128 us: a holder that shares its processor runs for some milliseconds
     * before it is preempted, perhaps with the lock once more, and is to be met without it. */
    enum { SPINS = 128, DOUBLINGS = 2, NAP = 32000 };
    static const uint32_t nobody_wakes;
    uint32_t look = (*looks)++;

    if (look < SPINS) {
        kc__relax();
        return;
    }
    look -= SPINS;
    kc__os_wait(&nobody_wakes, 0, kc__os_now() + (NAP << (look < DOUBLINGS ? look : DOUBLINGS)));
}

static int open_epoll(int event_fd, int timer_fd)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = { .events = EPOLLIN };

    if (fd < 0)
        return -errno;
    if (epoll_ctl(fd, EPOLL_CTL_ADD, event_fd, &e) == 0 &&
        epoll_ctl(fd, EPOLL_CTL_ADD, timer_fd, &e) == 0)
        return fd;
    int rc = -errno;
    close(fd);
    return rc;
}

int kc__os_loop_open(int *event_fd, int *timer_fd)
{
    *event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int fd = *event_fd < 0 || *timer_fd < 0 ? -errno : open_epoll(*event_fd, *timer_fd);
    if (fd < 0) {
        if (*event_fd >= 0)
            close(*event_fd);
        if (*timer_fd >= 0)
            close(*timer_fd);
    }
    return fd;
}

void kc__os_loop_close(int fd, int event_fd, int timer_fd)
{
    close(fd);
    close(event_fd);
    close(timer_fd);
}

void kc__os_event_signal(int event_fd)
{
    uint64_t one = 1;

    if (write(event_fd, &one, sizeof one) < 0) {
        /* Full: then it is readable already. */
    }
}

void kc__os_event_clear(int event_fd)
{
    uint64_t count;

    while (read(event_fd, &count, sizeof count) > 0)
        ;
}

void kc__os_timer_set(int timer_fd, int64_t at)
{
    enum { SECOND = 1000000000 };
    struct itimerspec set = { { 0, 0 }, { 0, 0 } };

    at = at < 1 ? 1 : at; /* 0 would disarm it */
    if (at != INT64_MAX)
        set.it_value = (struct timespec){ (time_t)(at / SECOND), (long)(at % SECOND) };
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &set, NULL);
}

int kc__os_cpus(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}
