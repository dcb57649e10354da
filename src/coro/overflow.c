/* SPDX-License-Identifier: MIT */
/*
 * overflow.c - says which coroutine ran off its stack, if somebody asked for it.
 *
 * A fault on a coroutine's guard arrives on a signal stack, because the coroutine's own has no
 * room left. The handler prints one line and steps aside: an earlier handler of the program is
 * called, and without one the default action is put back and the instruction faults again, so that
 * the process dies as it would have died, core file included. Everything in the handler is
 * async-signal-safe.
 *
 * ORDER    id          site             operation      pairs with  carries; what breaks if weaker
 *          overflow.1  install          store_release  overflow.2  the earlier action; the handler
 *                                                                  of a thread that saw `on` would
 *                                                                  chain to garbage
 *          overflow.2  overflow_thread  load_acquire   overflow.1
 */
#define _GNU_SOURCE
#include "coro/overflow.h"

#include "base/os.h"
#include "coro/coro.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { SIGNAL_STACK_SIZE = 64 * 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static KC_ATOMIC(int) on;
static struct sigaction earlier; /* L(lock), then I */

static char *put_text(char *to, const char *end, const char *text)
{
    while (*text && to < end)
        *to++ = *text++;
    return to;
}

static char *put_number(char *to, const char *end, uint64_t n)
{
    char digits[24];
    char *d = digits + sizeof digits;

    *--d = 0;
    do {
        *--d = (char)('0' + n % 10);
    } while ((n /= 10) != 0);
    return put_text(to, end, d);
}

static void report(const kcoro_t *co)
{
    char line[256] = "";
    const char *const end = &line[sizeof line - 1];
    bool body = kc_load_relaxed(&co->block.flags) & KC_CORO_TASK;
    char *p = put_text(line, end, "kcoro: stack overflow in ");

    p = put_text(p, end, body ? "job " : "coroutine "); /* which have one number */
    p = put_number(p, end, co->id);
    p = put_text(p, end, co->name[0] ? " \"" : "");
    p = put_text(p, end, co->name);
    p = put_text(p, end, co->name[0] ? "\": its stack of " : ": its stack of ");
    p = put_number(p, end, kc__stack_size(co->stack));
    p = put_text(p, end, " bytes is used up " KC_RULE("C7"));
    *p++ = '\n';
    if (write(STDERR_FILENO, line, (size_t)(p - line)) < 0) {
        /* Nothing is left to tell it to. */
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    const kcoro_t *co = kc__thread()->current;

    if (co->stack && info->si_code > 0) {
        const char *low = kc__stack_low(co->stack);
        const char *at = info->si_addr;
        if (at < low && at >= low - kc__os_page_size())
            report(co);
    }
    errno = saved;
    if (earlier.sa_flags & SA_SIGINFO) {
        earlier.sa_sigaction(number, info, context);
    } else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
        earlier.sa_handler(number);
    } else {
        signal(number, SIG_DFL);
        if (info->si_code <= 0)
            raise(number); /* sent, not caused: it would not come again by itself */
    }
}

bool kc__overflow_thread(kc_thread_t *t)
{
    stack_t now;

    if (!kc_load_acquire(&on) || t->signal_stack) /* overflow.2 */
        return true;
    if (sigaltstack(NULL, &now) == 0 && !(now.ss_flags & SS_DISABLE))
        return true; /* the program has one; it serves us too */
    t->signal_stack = kc__os_map(SIGNAL_STACK_SIZE);
    if (!t->signal_stack)
        return false;
    stack_t ours = { .ss_sp = t->signal_stack, .ss_size = SIGNAL_STACK_SIZE };
    sigaltstack(&ours, NULL);
    return true;
}

void kc__overflow_thread_end(kc_thread_t *t)
{
    stack_t none = { .ss_flags = SS_DISABLE };
    stack_t now;

    if (!t->signal_stack)
        return;
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == t->signal_stack)
        sigaltstack(&none, NULL);
    kc__os_unmap(t->signal_stack, SIGNAL_STACK_SIZE);
    t->signal_stack = NULL;
}

int kcoro_report_overflow(void)
{
    struct sigaction ours;

    pthread_mutex_lock(&lock);
    if (!kc_load_relaxed(&on)) {
        memset(&ours, 0, sizeof ours);
        ours.sa_sigaction = on_fault;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(SIGSEGV, NULL, &earlier);
        kc_store_release(&on, 1); /* overflow.1 */
        sigaction(SIGSEGV, &ours, NULL);
    }
    pthread_mutex_unlock(&lock);

    kc_thread_t *t = kc__thread();
    return t->serial == 0 || kc__overflow_thread(t) ? 0 : -ENOMEM;
}
