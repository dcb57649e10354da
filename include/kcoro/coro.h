/* SPDX-License-Identifier: MIT */
/*
 * kcoro/coro.h - stackful coroutines: create, resume, yield, park, unpark.
 *
 * Usable alone: no scheduler, no threads, nothing started behind your back.
 *
 *     CREATED --resume--> READY --> RUNNING --yield, yield_to, resume of another--> SUSPENDED
 *                           ^         |  |                                              |
 *                           |      park  fn returns                   resume --> RUNNING+
 *                        unpark       |  |
 *                           +-- PARKED   FINISHED
 *
 * Each function's contract has fixed lines: what it does; Context (where it may be called from);
 * Suspends; Returns; Owns. Errors are negative errno values; errno itself is never used. Bad use
 * that has no error to return prints one line that names the call and the rule, and aborts.
 *
 * A coroutine runs on the thread that first resumed it, for good. errno, thread-local variables and
 * thread-bound libraries are therefore as safe in it as in a plain function.
 *
 * In src: coro/coro_end.c, coro/coro_info.c, coro/overflow.c.
 */
#ifndef KCORO_CORO_H
#define KCORO_CORO_H

#include <kcoro/base.h>

#include <stddef.h>
#include <stdint.h>

KC_BEGIN_DECLS

typedef struct kcoro kcoro_t;
typedef void (*kcoro_fn_t)(void *arg);

typedef enum {
    KCORO_CREATED,   /* made, never resumed                                           */
    KCORO_READY,     /* may run: about to be started, or unparked                     */
    KCORO_RUNNING,   /* the one that its thread executes now                          */
    KCORO_SUSPENDED, /* yielded, or waits for a coroutine that it has resumed         */
    KCORO_PARKED,    /* waits for an unpark                                           */
    KCORO_FINISHED   /* its function has returned, or it was destroyed before it did  */
} kcoro_state_t;

/*
 * Makes a coroutine that will run fn(arg) on a stack of its own.
 *
 * stack_size is rounded up to a size class; 0 means 64 KiB. Up to 2 KiB of it hold the library's
 * entry frame and a displacement that keeps stacks apart in the cache. Under AddressSanitizer every
 * stack is four times as large. No page of the stack is touched before the first resume. The
 * coroutine starts with the floating-point control words (rounding mode and the like) that its
 * creator has now.
 *
 * Context: anywhere, any thread.  Suspends: no.
 * Returns: the coroutine, CREATED; NULL: fn is NULL, or there is no memory or address space
 *          (kcoro_create_error tells which).
 * Owns: the caller has one reference; give it up with kcoro_destroy.
 */
KC_API kcoro_t *kcoro_create(kcoro_fn_t fn, void *arg, size_t stack_size);

/*
 * Says why the last kcoro_create or kcoro_create_main on this thread returned NULL, in words: for
 * example that the kernel's limit on mappings, vm.max_map_count, stands in the way of one more
 * guard.
 *
 * Context: anywhere.  Suspends: no.  Returns: a static string, never NULL; "" after a success.
 */
KC_API const char *kcoro_create_error(void);

/*
 * Gives this thread's own stack a coroutine object, so that kcoro_current is never NULL here.
 * Idempotent per thread.
 *
 * Context: any thread, inside and outside coroutines.  Suspends: no.
 * Returns: the thread's main coroutine; NULL: no memory.
 * Owns: borrowed; it lives as long as its thread and is never destroyed by the caller.
 */
KC_API kcoro_t *kcoro_create_main(void);

/*
 * Runs co until it yields, parks or ends, then returns. The first resume fixes the thread that co
 * belongs to. Coroutines may resume coroutines; the caller is SUSPENDED meanwhile.
 *
 * Context: plain threads and coroutines; the thread that owns co.
 * Suspends: the caller waits for co; other threads keep running.
 * Returns: 0; -EINVAL: co is NULL, FINISHED, RUNNING, a direct or indirect resumer of the caller,
 *          or inside its own cleanups; -EAGAIN: co is PARKED; -EPERM: co belongs to another thread;
 *          -ENOMEM: no memory for this thread's state (only the first call on a thread). On an
 *          error nothing has changed.
 */
KC_API KC_WARN_UNUSED int kcoro_resume(kcoro_t *co);

/*
 * Switches back to the resumer of the caller; returns when the caller is resumed again.
 *
 * Context: a coroutine; elsewhere, in the main coroutine and in a cleanup that kcoro_destroy runs
 *          it is bad use.
 * Suspends: yes.
 */
KC_API void kcoro_yield(void);

/*
 * Switches straight to target, without a stop in the caller's resumer. target takes over that
 * resumer; the caller is SUSPENDED and has none until somebody resumes it. In the main coroutine,
 * which has no resumer to hand over, this is kcoro_resume.
 *
 * Context: a coroutine; the thread that owns target.  Suspends: yes.
 * Returns: 0 when the caller runs again; the errors of kcoro_resume at once; -EPERM also outside
 *          any coroutine.
 */
KC_API KC_WARN_UNUSED int kcoro_yield_to(kcoro_t *target);

/*
 * Waits for an unpark: consumes the permit that an earlier kcoro_unpark left and returns at once,
 * or switches back to the resumer, PARKED, until one comes and the owner resumes the coroutine.
 * Everything written before that unpark is visible when this returns.
 *
 * Context: as kcoro_yield.  Suspends: yes, unless a permit was there.
 */
KC_API void kcoro_park(void);

/*
 * Wakes co: a PARKED one becomes READY for its owner's next resume; any other gets one permit that
 * makes its next park return at once. Permits do not add up.
 *
 * Context: anywhere, any thread that holds a reference.  Suspends: no; lock-free.
 * Returns: 0; -EINVAL: co is NULL or FINISHED.
 */
KC_API int kcoro_unpark(kcoro_t *co);

/*
 * Context: anywhere.  Suspends: no.
 * Returns: the coroutine that calls; on a thread's own stack the main coroutine, or NULL if
 *          kcoro_create_main was never called there. Borrowed.
 */
KC_API kcoro_t *kcoro_current(void);

/*
 * Context: anywhere, any thread that holds a reference.  Suspends: no.
 * Returns: the state; for another thread's coroutine an observation that may be old already.
 */
KC_API kcoro_state_t kcoro_state(const kcoro_t *co);

/*
 * Context: anywhere.  Suspends: no.
 * Returns: co's number: unique in the process, never reused, from 1, increasing in the order of
 *          creation on each thread.
 */
KC_API uint64_t kcoro_id(const kcoro_t *co);

/*
 * Names co for people: reports, debuggers, dumps. The name is copied, 31 bytes at most; NULL and ""
 * take it away.
 *
 * Context: the thread that owns co, or its creator before the first resume.  Suspends: no.
 */
KC_API void kcoro_set_name(kcoro_t *co, const char *name);

/* Context: as kcoro_set_name.  Returns: the name, "" if there is none; borrowed from co. */
KC_API const char *kcoro_name(const kcoro_t *co);

/*
 * Finds how deep the stack has been used, by looking for the deepest word that is not zero. Stacks
 * are recycled: what earlier coroutines left on this one counts too, so the mark is an upper bound;
 * with KCORO_DEBUG=1 every stack is handed out clean and the mark is co's own. It stays readable
 * after the end of co. 0: not started, or the main coroutine.
 *
 * Context: the thread that owns co.  Suspends: no; costs time in proportion to the stack.
 */
KC_API size_t kcoro_stack_used(const kcoro_t *co);

/*
 * Takes one more reference; kcoro_release gives one up. References keep the control block (state,
 * id, name), not the stack. The last release is a destroy. Release of NULL does nothing.
 *
 * Context: anywhere, any thread that holds a reference.  Suspends: no, but see kcoro_destroy.
 */
KC_API kcoro_t *kcoro_retain(kcoro_t *co);
KC_API void kcoro_release(kcoro_t *co);

/*
 * Ends co and gives up the creator's reference. A suspended, parked or ready coroutine is not
 * resumed: its deferred cleanups (kc_defer, KC_CLEANUP) run now, newest first, on its own stack and
 * on the calling thread, where they may not suspend; then the stack is freed. NULL does nothing.
 *
 * Context: the thread that owns co; any thread if co is CREATED or FINISHED. To destroy a RUNNING
 *          coroutine, a direct or indirect resumer of the caller, or the main coroutine is bad use.
 * Suspends: no.
 */
KC_API void kcoro_destroy(kcoro_t *co);

/*
 * From now on a coroutine that runs off the end of its stack says so: one line on stderr with its
 * number, name and stack size, then the process dies by the signal it would have died by. Installs
 * a SIGSEGV handler and, on every thread that runs coroutines from now on, an alternate signal
 * stack. The environment variable KCORO_DEBUG=1 does the same at the first coroutine.
 *
 * Context: anywhere.  Suspends: no.  Returns: 0; -ENOMEM: no memory for the signal stack.
 */
KC_API int kcoro_report_overflow(void);

KC_END_DECLS

#endif
