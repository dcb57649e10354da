/* SPDX-License-Identifier: MIT */
/*
 * kcoro/signal.h - signals and slots: 64 kinds of events, and handlers for them.
 *
 * A signal is a set of 64 bits that only grows. Emitting bits triggers them; a slot, which is
 * memory of yours bound to one signal, hears of those that pass its filter, by handlers or by
 * asking. The low 32 bits are triggered once in a signal's life, the high 32 at every emit.
 *
 *     static void stop(kc_sigset_t fired, kc_signal_t *signal, void *arg) { ... }
 *
 *     kc_slot_t slot;
 *     kc_slot_bind(&slot, signal, KC_SIG_ALL);
 *     if (kc_slot_on(&slot, KC_SIG_TERMINATE, stop, arg)) {
 *         ...                        // meanwhile, anywhere: kc_signal_emit(signal, ...)
 *     }
 *     kc_slot_unbind(&slot);         // stop is not running and never will be: arg may go
 *
 * kc_slot_on, kc_slot_clear, kc_slot_triggered, kc_slot_signal and kc_slot_chain take NULL for the
 * slot: kc_current_slot returns NULL in a job that forbids signals.
 *
 * Signals may be used by any number of threads at once. A slot belongs to one task, whose calls do
 * not overlap; an emit may overlap with each of them.
 *
 * Handlers run in the thread that emits, before the emit returns, with no lock of the library held.
 * Several threads may run the handler of a high bit at the same time. A handler must not wait. Its
 * arg must not own a reference on the handler's own signal, or neither would ever be freed: the
 * handler gets the signal as an argument. It may emit, on the same signal too, cancel, unpark,
 * launch and release, and it may clear or unbind its own slot, or another that is its thread's to
 * unbind. Two handlers in two threads that each clear or unbind the other's slot deadlock.
 *
 * A handler that runs because a coroutine emits or cancels runs in that coroutine. A handler that
 * the library runs by itself (a timeout is over, a job has failed, a shield has ended) belongs to
 * no job: it runs on the thread's own stack and there is no current job, so a launch in it needs
 * .parent or .sched. A job that a handler cancels is marked at once, and the handlers of that
 * cancel run when the first handler has returned: handlers that cancel do not nest.
 *
 * In src: signal/slot.c.
 */
#ifndef KCORO_SIGNAL_H
#define KCORO_SIGNAL_H

#include <kcoro/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

KC_BEGIN_DECLS

/* Bit 0 ends what listens. Bits 1 to 15 and 32 to 47 are the library's, 16 to 31 and 48 to 63
 * yours. */
typedef uint64_t kc_sigset_t;
#define KC_SIG_NONE 0ull
#define KC_SIG_TERMINATE 1ull
#define KC_SIG_ALL (~0ull)

typedef struct kc_signal kc_signal_t;

/* A handler. fired: all bits of this emit that pass the slot's filter, the handler's own among
 * them. signal: the slot's, borrowed. */
typedef void (*kc_slot_fn_t)(kc_sigset_t fired, kc_signal_t *signal, void *arg);

/*
 * Makes a signal with data_size bytes of your own in it, zeroed and aligned as malloc's are.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: the signal; NULL: no memory.
 * Owns: the caller has one reference; give it up with kc_signal_release. A handle that is used
 *       after the signal is gone is recognised: its use aborts with one line. That holds until a
 *       new signal gets the memory, which is not before the releasing thread has made 30 more
 *       objects or has ended; with KCORO_DEBUG=1 it holds for ever.
 */
KC_API kc_signal_t *kc_signal_create(size_t data_size);

/* Context: anywhere.  Returns: where your bytes are; they live as long as the signal. NULL: there
 * are none. */
KC_API void *kc_signal_data(kc_signal_t *s);

/* Context: anywhere.  Returns: s.  Owns: one reference more. */
KC_API kc_signal_t *kc_signal_retain(kc_signal_t *s);

/*
 * Gives up one reference; cancels nothing and emits nothing. A bound slot has a reference on its
 * signal, and a chain on its target: the signal is freed with the last. NULL does nothing.
 *
 * Context: anywhere, handlers included.  Suspends: no.
 */
KC_API void kc_signal_release(kc_signal_t *s);

/*
 * Triggers bits: those of the low 32 that never were before, and all of the high 32. Runs the
 * handlers of every slot, the newest slot first, and forwards to chained signals. Of several
 * threads that emit a low bit at the same time exactly one triggers it.
 *
 * Needs no memory, and no more stack for long chains than for short ones. To that end, where a
 * chain is more than eight signals deep, two emits at the same time may reach a target as one, in
 * either thread. On a job's signal KC_SIG_TERMINATE is kc_job_cancel(job, 0).
 *
 * Context: anywhere, handlers included.  Suspends: no.
 * Returns: the bits that this call triggered.
 */
KC_API kc_sigset_t kc_signal_emit(kc_signal_t *s, kc_sigset_t bits);

/* Context: anywhere.  Returns: all bits that were ever triggered, the high ones too. */
KC_API kc_sigset_t kc_signal_state(const kc_signal_t *s);

/* One handler of a slot. The fields are the library's. */
struct kc_slot_handler {
    struct kc_slot_handler *next;
    kc_sigset_t bit;
    kc_slot_fn_t fn;
    void *arg;
};

/* A filter that is in force until it is popped. The fields are the library's. */
typedef struct kc_slot_filter {
    struct kc_slot_filter *outer;
    kc_sigset_t before;
} kc_slot_filter_t;

/* A slot, in your memory; it must not move while it is bound. The fields are the library's. */
typedef struct kc_slot {
    kc_signal_t *signal;
    struct kc_slot *newer, *older;
    kc_sigset_t filter;
    kc_slot_filter_t *filters;
    struct kc_slot_handler *handlers;
    struct kc_slot_chain *chains;
    struct kc_slot_handler first;
    bool late;
} kc_slot_t;

/*
 * Binds a slot, which needs no initialiser, to a signal. Bits outside of filter do not exist for
 * it. Needs no memory. A slot that is bound must be unbound before it is bound again or goes.
 *
 * Context: anywhere.  Suspends: no.
 * Returns: 0, also if KC_SIG_TERMINATE has been triggered before; -EINVAL: slot or s is NULL.
 * Owns: the slot has a reference on s until it is unbound.
 */
KC_API int kc_slot_bind(kc_slot_t *slot, kc_signal_t *s, kc_sigset_t filter);

/*
 * Takes the slot, its handlers and its chains off the signal. When this call returns, none of the
 * handlers is running and none will run: if another thread runs one, the call waits for it. If one
 * of the handlers makes the call, the call returns while that handler still runs, and the slot's
 * memory may go at once. An unbound slot is left as it is.
 *
 * Context: the slot's task, and its handlers.
 * Suspends: no; but it may block the thread for the length of a handler.
 */
KC_API void kc_slot_unbind(kc_slot_t *slot);

/*
 * Sets fn as the handler of bit: it is called when bit is triggered. A handler that the bit had
 * before is replaced, and is not running any more, as after kc_slot_clear. A handler of a low bit
 * is removed when it runs.
 *
 * Every emit either calls the handler or makes this call return false. One handler of a slot needs
 * no memory; further ones may.
 *
 * Context: the slot's task, and its handlers; a bound slot, or NULL.  Suspends: no (see
 *          kc_slot_unbind).
 * Returns: true; false: bit is a low one that passes the filter and has been triggered, or there is
 *          no memory (kc_slot_triggered tells which), or slot is NULL; fn is not kept and not
 *          called.
 */
KC_API KC_WARN_UNUSED bool kc_slot_on(kc_slot_t *slot, kc_sigset_t bit, kc_slot_fn_t fn,
                                      void *arg);

/*
 * Removes the handler of bit, or of each bit if there are several. When this call returns, the
 * handler is not running and never will: if another thread runs it, the call waits for it. If the
 * handler itself makes the call, the call returns while the handler still runs.
 *
 * Context: the slot's task, and its handlers.  Suspends: no (see kc_slot_unbind).
 * Returns: true: there was a handler, which will not run for later emits; false: there was none, or
 *          it was of a low bit and has run, or slot is NULL.
 */
KC_API bool kc_slot_clear(kc_slot_t *slot, kc_sigset_t bit);

/*
 * Context: anywhere; a bound slot, or NULL.  Suspends: no.
 * Returns: true: one of bits was triggered and passes the filter as it is now, also if it was
 *          filtered when it came; false: none was, or slot is NULL.
 */
KC_API bool kc_slot_triggered(const kc_slot_t *slot, kc_sigset_t bits);

/*
 * Context: the slot's task; a bound slot.  Returns: the filter in force: the bits that pass all
 *          filters.
 */
KC_API kc_sigset_t kc_slot_filter(const kc_slot_t *slot);

/*
 * Narrows the filter to the bits that also are in `filter`, until the guard, which is memory of
 * yours, is popped: innermost first. A low bit that comes while it is filtered calls no handler,
 * then or later; kc_slot_triggered is true for it when the filter is gone. Popping a guard of a
 * slot that has been unbound since does nothing.
 *
 * Context: the slot's task, and its handlers; push: a bound slot.  Suspends: no.
 */
KC_API void kc_slot_filter_push(kc_slot_t *slot, kc_slot_filter_t *guard, kc_sigset_t filter);
KC_API void kc_slot_filter_pop(kc_slot_t *slot, kc_slot_filter_t *guard);

/* Context: the slot's task.  Returns: the signal, borrowed; NULL: its KC_SIG_TERMINATE had been
 * triggered before the slot was bound, or the slot is not bound, or NULL. */
KC_API kc_signal_t *kc_slot_signal(const kc_slot_t *slot);

/*
 * Forwards the bits that pass the slot's filter to the signal `to`, from now on and one way only;
 * low bits that have been triggered before are forwarded at once. A slot may have several chains;
 * they end when the slot is unbound.
 *
 * Context: the slot's task, and its handlers.  Suspends: no.
 * Returns: 0; -ELOOP: the slot's signal can be reached from `to`, found in time proportional to the
 *          signals and chains that can be reached from there; -ENOMEM; -EINVAL: slot or to is NULL,
 *          or the slot is not bound.
 * Owns: the chain has a reference on `to` until the slot is unbound.
 */
KC_API KC_WARN_UNUSED int kc_slot_chain(kc_slot_t *slot, kc_signal_t *to);

KC_END_DECLS

#endif
