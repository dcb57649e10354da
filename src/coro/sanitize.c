/* SPDX-License-Identifier: MIT */
/*
 * sanitize.c - finds the tools and registers stacks with them.
 */
#include "coro/sanitize.h"

#include "base/os.h"
#include "base/tsan.h"

extern void __asan_unpoison_memory_region(void const volatile *p, size_t size)
    __attribute__((weak));
extern void __lsan_register_root_region(const void *p, size_t size) __attribute__((weak));
extern void __lsan_unregister_root_region(const void *p, size_t size) __attribute__((weak));
extern void *__tsan_get_current_fiber(void) __attribute__((weak));
extern void *__tsan_create_fiber(unsigned flags) __attribute__((weak));
extern void __tsan_destroy_fiber(void *fiber) __attribute__((weak));
extern void __tsan_set_fiber_name(void *fiber, const char *name) __attribute__((weak));

uint32_t kc__tools;

/*
 * Valgrind's client requests: a sequence of instructions that does nothing on a processor and that
 * Valgrind recognises. The request and its arguments are six words; the result is 0 outside
 * Valgrind.
 */
enum {
    VALGRIND_RUNNING = 0x1001,
    VALGRIND_STACK_REGISTER = 0x1501,
    VALGRIND_STACK_DEREGISTER = 0x1502,
    VALGRIND_MAKE_UNDEFINED = 0x4d430001, /* memcheck's: may be written, is not initialised */
};

#if defined(__x86_64__)

static uintptr_t valgrind(uintptr_t request, uintptr_t a, uintptr_t b)
{
    volatile uintptr_t words[6] = { request, a, b, 0, 0, 0 };
    uintptr_t result = 0;

    __asm__ volatile("rolq $3, %%rdi\n\t"
                     "rolq $13, %%rdi\n\t"
                     "rolq $61, %%rdi\n\t"
                     "rolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(result)
                     : "a"(&words[0])
                     : "cc", "memory", "rdi");
    return result;
}

#elif defined(__aarch64__)

static uintptr_t valgrind(uintptr_t request, uintptr_t a, uintptr_t b)
{
    volatile uintptr_t words[6] = { request, a, b, 0, 0, 0 };
    register uintptr_t result __asm__("x3") = 0;
    register volatile uintptr_t *args __asm__("x4") = words;

    __asm__ volatile("ror x12, x12, #3\n\t"
                     "ror x12, x12, #13\n\t"
                     "ror x12, x12, #51\n\t"
                     "ror x12, x12, #61\n\t"
                     "orr x10, x10, x10"
                     : "+r"(result)
                     : "r"(args)
                     : "cc", "memory", "x12");
    return result;
}

#else

static uintptr_t valgrind(uintptr_t request, uintptr_t a, uintptr_t b)
{
    (void)request, (void)a, (void)b; /* Debian's Valgrind does not know this architecture. */
    return 0;
}

#endif

void kc__tools_find(void)
{
    uint32_t found = 0;

    if (__sanitizer_start_switch_fiber && __asan_unpoison_memory_region)
        found |= KC_TOOL_ASAN;
    if (__tsan_create_fiber && __tsan_switch_to_fiber)
        found |= KC_TOOL_TSAN;
    if (__lsan_register_root_region && __lsan_unregister_root_region)
        found |= KC_TOOL_LSAN;
    if (valgrind(VALGRIND_RUNNING, 0, 0))
        found |= KC_TOOL_VALGRIND;
    kc__os_old_calls_only = (found & KC_TOOL_VALGRIND) != 0;
    kc__tools = found;
}

void kc__tools_thread(kc_tool_t *tool)
{
    tool->word = kc__tools & KC_TOOL_TSAN ? __tsan_get_current_fiber() : NULL;
}

void kc__tools_start(kc_tool_t *tool, void *low, size_t size)
{
    tool->word = NULL;
    kc__tsan_acquire(low);
    if (kc__tools & KC_TOOL_TSAN)
        tool->word = __tsan_create_fiber(0);
    if (kc__tools & KC_TOOL_LSAN)
        __lsan_register_root_region(low, size);
    if (kc__tools & KC_TOOL_VALGRIND) {
        kc__tools_below(
            low, size); /* to memcheck all of it is still below the last user's stack pointer */
        tool->word =
            (void *)valgrind(VALGRIND_STACK_REGISTER, (uintptr_t)low, (uintptr_t)low + size - 1);
    }
}

void kc__tools_name(kc_tool_t *tool, const char *name)
{
    if ((kc__tools & KC_TOOL_TSAN) && tool->word && __tsan_set_fiber_name)
        __tsan_set_fiber_name(tool->word, name);
}

void kc__tools_below(void *low, size_t size)
{
    if (kc__tools & KC_TOOL_VALGRIND)
        valgrind(VALGRIND_MAKE_UNDEFINED, (uintptr_t)low, size);
}

void kc__tools_end(kc_tool_t *tool, void *low, size_t size)
{
    kc__tsan_release(low);
    if (kc__tools & KC_TOOL_TSAN)
        __tsan_destroy_fiber(tool->word);
    if (kc__tools & KC_TOOL_ASAN)
        __asan_unpoison_memory_region(low, size);
    if (kc__tools & KC_TOOL_LSAN)
        __lsan_unregister_root_region(low, size);
    if (kc__tools & KC_TOOL_VALGRIND)
        valgrind(VALGRIND_STACK_DEREGISTER, (uintptr_t)tool->word, 0);
    tool->word = NULL;
}
