/* SPDX-License-Identifier: MIT */
/*
 * usage.c - the line that a program dies with when it breaks a rule: the call, the rule, the job.
 */
#include "coro/usage.h"

#include "coro/coro.h"

#include <stdio.h>

kc_label_t kc__coro_label(const kcoro_t *co)
{
    bool is_body = kc_load_relaxed(&co->block.flags) & KC_CORO_TASK, has_name = co->name[0];
    kc_label_t label;

    snprintf(label.text, sizeof label.text, "%s %llu%s%s%s", is_body ? "job" : "coroutine",
             (unsigned long long)co->id, has_name ? " \"" : "", co->name, has_name ? "\"" : "");
    return label;
}

void kc__usage(const char *call, const char *what)
{
    const kcoro_t *co = kc__thread()->current, *body = co;

    KC_ASSERT(co); /* a thread without a structure has one, too */
    while (body && !(kc_load_relaxed(&body->block.flags) & KC_CORO_TASK))
        body = body->resumer;
    if (!body && !co->stack)
        kc__die("%s: %s, outside coroutines", call, what);
    if (!body || body == co)
        kc__die("%s: %s, in %s", call, what, kc__coro_label(co).text);
    kc__die("%s: %s, in %s of %s", call, what, kc__coro_label(co).text, kc__coro_label(body).text);
}
