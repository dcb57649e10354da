/* SPDX-License-Identifier: MIT */
/*
 * wait_queue_model_world.c - what wait_queue_model.c is made of: src/sync/wait_queue.h, mutex.c,
 * rwlock.c and sync.c, and what they call.
 *
 * WHAT     A part of wait_queue_model.c, which includes it. The sources are included too, so that a
 *          pause in one of their loops can be model_spin.
 *
 * ORDER    id                        site         operation      pairs with
 *          wait_queue_model_world.1  claim: word  cas_acq_rel    wait_queue_model_world.1 (wait.1)
 *          wait_queue_model_world.2  wake: word   store_release  wait_queue_model_world.3 (wait.2)
 *          wait_queue_model_world.3  wait: word   load_acquire   wait_queue_model_world.2 (wait.3)
 */
#include "job/job.h"
#include "harness.h"
#include "model_case.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#undef kc__relax
#define kc__relax() model_spin()
/* They are coroutines of plain threads: what does not change here is no step. */
#define kc__task_coroutine(me) ((void)(me), (kcoro_t *)NULL)

#include "sync/mutex.c" /* NOLINT(bugprone-suspicious-include): its loops pause by model_spin */
#define queue_of line_of_rwlock
#define lock lock_to
#include "sync/rwlock.c" /* NOLINT(bugprone-suspicious-include) */
#undef queue_of
#undef lock
#define queue_of line_of_object
#include "sync/sync.c" /* NOLINT(bugprone-suspicious-include) */

enum { THREADS = 3, WAITS = 8 };
enum { NOW = 1 }; /* as a deadline: at any moment */

static struct {
    kc_thread_t thread[THREADS];
    _Alignas(64) kcoro_t co[THREADS];
    kcoro_t root;

    kc_mutex_t mutex;
    kc_cond_t cond;
    kc_rwlock_t rwlock;
    kc_sem_t sem;
    kc_latch_t latch;
    kc_event_t event;
    kc_once_t once;
    kc_barrier_t barrier;
    int data; /* plain */
    struct state {
        KC_ATOMIC(uint32_t) word; /* as that of kc_wait_t */
        int rc;
    } wait[WAITS];
    kc_owner_wait_t first; /* those that stand in line from the start */
    kc_owner_wait_t writer, behind;

    /* Bookkeeping outside the model: changes together with the atomic operation just before. */
    int waits, users, calls, passed, gave_up;
    bool frees;
} s;

/* ---- what they call; see world.c, too ------------------------------------------------------- */

void kc__job_shield(kc_job_t *j)
{
    model_assert(!j);
}

void kc__job_unshield(kc_job_t *j)
{
    model_assert(!j);
}

/* A wait lies in a frame, where another one may have lain before: its state is kept elsewhere. */
static struct state *state_of(kc_wait_t *w)
{
    return &s.wait[w->timed_out];
}

void kc__wait_begin_uncancellable(kc_wait_t *w, kc_wait_kind_t kind, const void *object)
{
    w->timed_out = s.waits++;
    model_assert(s.waits <= WAITS);
    w->kind = kind;
    w->object = object;
    w->co = NULL;
    w->link.next = NULL;
}

void kc__wait_begin_checked(kc_wait_t *w, kc_wait_kind_t kind, const void *object)
{
    kc__wait_begin_uncancellable(w, kind, object);
}

int kc__wait_begin(kc_wait_t *w, kc_wait_kind_t kind, const void *object)
{
    kc__wait_begin_uncancellable(w, kind, object);
    return 0;
}

bool kc__wait_claim_own(kc_wait_t *w, int rc)
{
    struct state *state = state_of(w);
    uint32_t waits = 0;

    if (!kc_cas_acq_rel(&state->word, &waits, 1)) /* wait_queue_model_world.1 */
        return false;
    model_write(&state->rc, rc);
    return true;
}

void kc__wait_wake(kc_wait_t *w)
{
    kc_store_release(&state_of(w)->word, KC_DONE); /* wait_queue_model_world.2 */
}

int kc__wait_commit(kc_wait_t *w, kc_time_t deadline)
{
    struct state *state = state_of(w);

    if (deadline == NOW && kc__wait_claim_own(w, -ETIMEDOUT))
        return -ETIMEDOUT;
    model_wait_until(kc_load_acquire(&state->word) == KC_DONE); /* wait_queue_model_world.3 */
    return model_read(&state->rc);
}

/* No body here has so many locks, and nobody wants to know which. */
void kc__held_change(kcoro_t *co, kc_wait_kind_t kind, const void *lock, int more)
{
    (void)co, (void)kind, (void)lock, (void)more;
    model_assert(false);
}
