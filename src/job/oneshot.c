/* SPDX-License-Identifier: MIT */
/*
 * oneshot.c - a promise in two halves: a deferred value for the side that awaits, and a resolver
 * for the side that owes the answer (D5).
 *
 * WHAT     A promise on which its resolver has one more reference (KC_JOB_ONESHOT): as long as the
 *          promise is pending the resolver is there, so the last handle is the last reference but
 *          one (job.c). The resolver is a handle that is used once (handle.h).
 */
#include "job/handle.h"
#include "job/job.h"
#include "job/launch.h"

#include <errno.h>

#define KC_RESOLVER_MAGIC 0x9e50c070u

struct resolver {
    kc_handle_t handle;
    kc_job_t *job; /* I  a reference */
};

int kc_oneshot(const kc_launch_opts_t *opts, kc_deferred_t **out, kc_resolver_t **resolver)
{
    kc_thread_t *t = kc__thread_make();
    kc_job_t *j;

    if (!out || !resolver)
        return -EINVAL;
    kc_handle_t *h = t ? kc__handle_new(t, KC_RESOLVER_MAGIC) : NULL;
    if (!h)
        return -ENOMEM;
    int rc = kc__promise_for_resolver(opts, &j);
    if (rc != 0) {
        kc__handle_free(h);
        return rc;
    }
    kc_container_of(h, struct resolver, handle)->job = j;
    *out = (kc_deferred_t *)j;
    *resolver = kc__handle_name(h);
    return 0;
}

/* Gives the resolver up, and keeps the promise so. */
static int answer(const char *call, kc_resolver_t *r, int rc, void *payload)
{
    kc_handle_t *h = kc__handle_find(r, KC_RESOLVER_MAGIC);

    if (!h)
        kc__usage(call,
                  "the resolver has been used, or the pointer is not a resolver " KC_RULE("D5"));
    kc_job_t *j = kc_container_of(h, struct resolver, handle)->job;
    kc__handle_free(h);
    rc = kc__promise_keep(j, rc, payload);
    kc__job_unref(j);
    return rc;
}

int kc_resolve(kc_resolver_t *r, int rc, void *payload)
{
    return r ? answer("kc_resolve", r, rc, payload) : -EINVAL;
}

void kc_resolver_drop(kc_resolver_t *r)
{
    if (r)
        (void)answer("kc_resolver_drop", r, -EPIPE, NULL);
}
