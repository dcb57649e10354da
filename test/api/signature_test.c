/* SPDX-License-Identifier: MIT */
/*
 * signature_test.c - every public function has exactly the type that programs are compiled against.
 *
 * The types are checked when this file is compiled: a function whose type has changed stops the
 * build here, with its name. The program shows that the shared library exports them all. Names of
 * options and values of constants are fixed in the same way: a change of one breaks programs.
 */
#include "harness.h"

#include <kcoro/kcoro.h>

#include <stdio.h>

/* A pointer to f has this type. The library must have f, or the program is not linked. */
#define HAS_TYPE(f, ...)                                                                          \
    _Static_assert(_Generic(&(f), __VA_ARGS__ : 1, default : 0), #f " has another type");         \
    static void (*const address_of_##f)(void) __attribute__((used)) = (void (*)(void))(f)

/* ---- coroutines ----------------------------------------------------------------------------- */

HAS_TYPE(kcoro_create, kcoro_t *(*)(void (*)(void *), void *, size_t));
HAS_TYPE(kcoro_create_main, kcoro_t *(*)(void));
HAS_TYPE(kcoro_resume, int (*)(kcoro_t *));
HAS_TYPE(kcoro_yield, void (*)(void));
HAS_TYPE(kcoro_yield_to, int (*)(kcoro_t *));
HAS_TYPE(kcoro_park, void (*)(void));
HAS_TYPE(kcoro_unpark, int (*)(kcoro_t *));
HAS_TYPE(kcoro_current, kcoro_t *(*)(void));
HAS_TYPE(kcoro_state, kcoro_state_t (*)(const kcoro_t *));
HAS_TYPE(kcoro_id, uint64_t (*)(const kcoro_t *));
HAS_TYPE(kcoro_set_name, void (*)(kcoro_t *, const char *));
HAS_TYPE(kcoro_name, const char *(*)(const kcoro_t *));
HAS_TYPE(kcoro_stack_used, size_t (*)(const kcoro_t *));
HAS_TYPE(kcoro_retain, kcoro_t *(*)(kcoro_t *));
HAS_TYPE(kcoro_release, void (*)(kcoro_t *));
HAS_TYPE(kcoro_destroy, void (*)(kcoro_t *));
HAS_TYPE(kcoro_create_error, const char *(*)(void));
HAS_TYPE(kcoro_report_overflow, int (*)(void));
HAS_TYPE(kc_version, const char *(*)(void));

/* ---- schedulers and timers ------------------------------------------------------------------ */

HAS_TYPE(kc_now, kc_time_t (*)(void));
HAS_TYPE(kc_sched_create, int (*)(const kc_sched_opts_t *, kc_sched_t **));
HAS_TYPE(kc_sched_destroy, int (*)(kc_sched_t *));
HAS_TYPE(kc_sched_submit, int (*)(kc_sched_t *, kc_affinity_t, kc_fn_t, void *));
HAS_TYPE(kc_sched_submit_with,
         int (*)(kc_sched_t *, kc_affinity_t, kc_fn_t, void *, const kc_task_opts_t *));
HAS_TYPE(kc_sched_submit_many, int (*)(kc_sched_t *, kc_affinity_t, const kc_call_t *, size_t));
HAS_TYPE(kc_sched_run_expired, kc_time_t (*)(kc_sched_t *, kc_time_t));
HAS_TYPE(kc_sched_poll, kc_time_t (*)(kc_sched_t *, kc_time_t));
HAS_TYPE(kc_sched_run, int (*)(kc_sched_t *));
HAS_TYPE(kc_sched_stop, void (*)(kc_sched_t *));
HAS_TYPE(kc_sched_fd, int (*)(kc_sched_t *));
HAS_TYPE(kc_sched_workers, int (*)(const kc_sched_t *));
HAS_TYPE(kc_sched_current, kc_sched_t *(*)(void));
HAS_TYPE(kc_sched_main_thread, pthread_t (*)(const kc_sched_t *));
HAS_TYPE(kc_worker_index, int (*)(void));
HAS_TYPE(kc_run, int (*)(kc_fn_t, void *, const kc_sched_opts_t *));
HAS_TYPE(kc_yield, int (*)(void));
HAS_TYPE(kc_hop, int (*)(kc_affinity_t));

HAS_TYPE(kc_schedule_delayed,
         int (*)(kc_sched_t *, kc_time_t, kc_affinity_t, kc_fn_t, void *, kc_token_t **));
HAS_TYPE(kc_schedule_interval,
         int (*)(kc_sched_t *, kc_time_t, kc_affinity_t, kc_fn_t, void *, kc_token_t **));
HAS_TYPE(kc_schedule_delayed_with, int (*)(kc_sched_t *, kc_time_t, kc_affinity_t, kc_fn_t, void *,
                                           const kc_task_opts_t *, kc_token_t **));
HAS_TYPE(kc_schedule_interval_with, int (*)(kc_sched_t *, kc_time_t, kc_affinity_t, kc_fn_t,
                                            void *, const kc_task_opts_t *, kc_token_t **));
HAS_TYPE(kc_token_cancel, bool (*)(kc_token_t *));
HAS_TYPE(kc_token_cancelled, bool (*)(const kc_token_t *));
HAS_TYPE(kc_token_release, void (*)(kc_token_t *));
HAS_TYPE(kc_token_detach, void (*)(kc_token_t *));
HAS_TYPE(kc_sleep, int (*)(kc_time_t));
HAS_TYPE(kc_sleep_until, int (*)(kc_time_t));

/* ---- signals and slots ---------------------------------------------------------------------- */

HAS_TYPE(kc_signal_create, kc_signal_t *(*)(size_t));
HAS_TYPE(kc_signal_data, void *(*)(kc_signal_t *));
HAS_TYPE(kc_signal_retain, kc_signal_t *(*)(kc_signal_t *));
HAS_TYPE(kc_signal_release, void (*)(kc_signal_t *));
HAS_TYPE(kc_signal_emit, kc_sigset_t (*)(kc_signal_t *, kc_sigset_t));
HAS_TYPE(kc_signal_state, kc_sigset_t (*)(const kc_signal_t *));
HAS_TYPE(kc_slot_bind, int (*)(kc_slot_t *, kc_signal_t *, kc_sigset_t));
HAS_TYPE(kc_slot_unbind, void (*)(kc_slot_t *));
HAS_TYPE(kc_slot_on, bool (*)(kc_slot_t *, kc_sigset_t, kc_slot_fn_t, void *));
HAS_TYPE(kc_slot_clear, bool (*)(kc_slot_t *, kc_sigset_t));
HAS_TYPE(kc_slot_triggered, bool (*)(const kc_slot_t *, kc_sigset_t));
HAS_TYPE(kc_slot_filter, kc_sigset_t (*)(const kc_slot_t *));
HAS_TYPE(kc_slot_filter_push, void (*)(kc_slot_t *, kc_slot_filter_t *, kc_sigset_t));
HAS_TYPE(kc_slot_filter_pop, void (*)(kc_slot_t *, kc_slot_filter_t *));
HAS_TYPE(kc_slot_signal, kc_signal_t *(*)(const kc_slot_t *));
HAS_TYPE(kc_slot_chain, int (*)(kc_slot_t *, kc_signal_t *));

/* ---- jobs ----------------------------------------------------------------------------------- */

HAS_TYPE(kc_launch, int (*)(kc_fn_t, void *));
HAS_TYPE(kc_launch_job, int (*)(kc_fn_t, void *, const kc_launch_opts_t *, kc_job_t **));
HAS_TYPE(kc_scope, int (*)(kc_fn_t, void *, const kc_scope_opts_t *));
HAS_TYPE(kc_scope_begin, int (*)(kc_scope_t *, const kc_scope_opts_t *));
HAS_TYPE(kc_scope_end, int (*)(kc_scope_t *));
HAS_TYPE(kc_scope_job, kc_job_t *(*)(kc_scope_t *));
HAS_TYPE(kc_job_current, kc_job_t *(*)(void));
HAS_TYPE(kc_job_retain, kc_job_t *(*)(kc_job_t *));
HAS_TYPE(kc_job_release, void (*)(kc_job_t *));
HAS_TYPE(kc_job_drop, void (*)(kc_job_t *));
HAS_TYPE(kc_job_state, kc_job_state_t (*)(const kc_job_t *));
HAS_TYPE(kc_job_result, int (*)(const kc_job_t *, int *));
HAS_TYPE(kc_job_reason, int (*)(const kc_job_t *));
HAS_TYPE(kc_job_returned, int (*)(const kc_job_t *, int *));
HAS_TYPE(kc_job_id, uint64_t (*)(const kc_job_t *));
HAS_TYPE(kc_job_culprit, int (*)(const kc_job_t *, uint64_t *, char *));
HAS_TYPE(kc_job_join, int (*)(kc_job_t *));
HAS_TYPE(kc_job_join_until, int (*)(kc_job_t *, kc_time_t));
HAS_TYPE(kc_join_any, int (*)(kc_job_t *const *, size_t, size_t *));
HAS_TYPE(kc_set_message, void (*)(const char *, ...));
HAS_TYPE(kc_job_message, int (*)(const kc_job_t *, char *, size_t));
HAS_TYPE(kc_job_cancel, bool (*)(kc_job_t *, int));
HAS_TYPE(kc_job_signal, kc_signal_t *(*)(kc_job_t *));
HAS_TYPE(kc_job_name, const char *(*)(const kc_job_t *));
HAS_TYPE(kc_cancelled, bool (*)(void));
HAS_TYPE(kc_check, int (*)(void));
HAS_TYPE(kc_cancel_reason, int (*)(void));
HAS_TYPE(kc_cancel_current, bool (*)(int));
HAS_TYPE(kc_fail_current, bool (*)(int));
HAS_TYPE(kc_shield_begin, int (*)(void));
HAS_TYPE(kc_shield_begin_nocancel, void (*)(void));
HAS_TYPE(kc_shield_end, void (*)(void));
HAS_TYPE(kc_current_slot, kc_slot_t *(*)(void));
HAS_TYPE(kc_forbid_signal, void (*)(void));
HAS_TYPE(kc_group_create, int (*)(const kc_launch_opts_t *, kc_job_t **));
HAS_TYPE(kc_group_close, int (*)(kc_job_t *));
HAS_TYPE(kc_lease_take, int (*)(kc_job_t *, kc_lease_t *));
HAS_TYPE(kc_lease_release, void (*)(kc_lease_t *));
HAS_TYPE(kc_defer, int (*)(void (*)(void *), void *));
HAS_TYPE(kc_undefer, bool (*)(void (*)(void *), void *));
HAS_TYPE(kc_cleanup_push, void (*)(kc_cleanup_t *, void (*)(void *), void *));
HAS_TYPE(kc_cleanup_pop, void (*)(kc_cleanup_t *));
HAS_TYPE(kc_suspend,
         int (*)(void (*)(kc_waker_t *, void *), void (*)(kc_waker_t *, void *), void *));
HAS_TYPE(kc_wake, void (*)(kc_waker_t *, int));
HAS_TYPE(kc_local_set, int (*)(const void *, void *));
HAS_TYPE(kc_local_get, void *(*)(const void *));

/* ---- deferred values, and several calls at once --------------------------------------------- */

HAS_TYPE(kc_async, int (*)(kc_fn_t, void *, kc_deferred_t **));
HAS_TYPE(kc_async_job, int (*)(kc_fn_t, void *, const kc_launch_opts_t *, kc_deferred_t **));
HAS_TYPE(kc_set_payload, void (*)(void *));
HAS_TYPE(kc_set_payload_with, void (*)(void *, void (*)(void *)));
HAS_TYPE(kc_await, int (*)(kc_deferred_t *, void **));
HAS_TYPE(kc_deferred_get, int (*)(kc_deferred_t *, void **));
HAS_TYPE(kc_deferred_state, kc_deferred_state_t (*)(const kc_deferred_t *));
HAS_TYPE(kc_deferred_job, kc_job_t *(*)(kc_deferred_t *));
HAS_TYPE(kc_deferred_retain, kc_deferred_t *(*)(kc_deferred_t *));
HAS_TYPE(kc_deferred_release, void (*)(kc_deferred_t *));
HAS_TYPE(kc_deferred_drop, void (*)(kc_deferred_t *));
HAS_TYPE(kc_promise, int (*)(const kc_launch_opts_t *, kc_deferred_t **));
HAS_TYPE(kc_promise_complete, int (*)(kc_deferred_t *, int, void *));
HAS_TYPE(kc_oneshot, int (*)(const kc_launch_opts_t *, kc_deferred_t **, kc_resolver_t **));
HAS_TYPE(kc_resolve, int (*)(kc_resolver_t *, int, void *));
HAS_TYPE(kc_resolver_drop, void (*)(kc_resolver_t *));

HAS_TYPE(kc_all, int (*)(kc_call_t *, size_t, kc_sigset_t));
HAS_TYPE(kc_any, int (*)(kc_call_t *, size_t, kc_sigset_t, size_t *));
HAS_TYPE(kc_race, int (*)(kc_call_t *, size_t, size_t *));
HAS_TYPE(kc_first_ok, int (*)(kc_call_t *, size_t, size_t *));
HAS_TYPE(kc_all_fail_fast, int (*)(kc_call_t *, size_t));
HAS_TYPE(kc_all_window, int (*)(kc_call_t *, size_t, uint32_t));
HAS_TYPE(kc_with_timeout, int (*)(kc_time_t, kc_fn_t, void *));
HAS_TYPE(kc_with_deadline, int (*)(kc_time_t, kc_fn_t, void *));

/* ---- locks and meeting points --------------------------------------------------------------- */

HAS_TYPE(kc_mutex_lock, int (*)(kc_mutex_t *));
HAS_TYPE(kc_mutex_lock_until, int (*)(kc_mutex_t *, kc_time_t));
HAS_TYPE(kc_mutex_lock_nocancel, void (*)(kc_mutex_t *));
HAS_TYPE(kc_mutex_try_lock, bool (*)(kc_mutex_t *));
HAS_TYPE(kc_mutex_trylock, bool (*)(kc_mutex_t *));
HAS_TYPE(kc_mutex_unlock, void (*)(kc_mutex_t *));
HAS_TYPE(kc_rwlock_rdlock, int (*)(kc_rwlock_t *));
HAS_TYPE(kc_rwlock_wrlock, int (*)(kc_rwlock_t *));
HAS_TYPE(kc_rwlock_rdlock_until, int (*)(kc_rwlock_t *, kc_time_t));
HAS_TYPE(kc_rwlock_wrlock_until, int (*)(kc_rwlock_t *, kc_time_t));
HAS_TYPE(kc_rwlock_try_rdlock, bool (*)(kc_rwlock_t *));
HAS_TYPE(kc_rwlock_try_wrlock, bool (*)(kc_rwlock_t *));
HAS_TYPE(kc_rwlock_tryrdlock, bool (*)(kc_rwlock_t *));
HAS_TYPE(kc_rwlock_trywrlock, bool (*)(kc_rwlock_t *));
HAS_TYPE(kc_rwlock_rdunlock, void (*)(kc_rwlock_t *));
HAS_TYPE(kc_rwlock_wrunlock, void (*)(kc_rwlock_t *));
HAS_TYPE(kc_cond_wait, int (*)(kc_cond_t *, kc_mutex_t *));
HAS_TYPE(kc_cond_wait_until, int (*)(kc_cond_t *, kc_mutex_t *, kc_time_t));
HAS_TYPE(kc_cond_signal, void (*)(kc_cond_t *));
HAS_TYPE(kc_cond_broadcast, void (*)(kc_cond_t *));
HAS_TYPE(kc_sem_acquire, int (*)(kc_sem_t *));
HAS_TYPE(kc_sem_acquire_until, int (*)(kc_sem_t *, kc_time_t));
HAS_TYPE(kc_sem_try_acquire, bool (*)(kc_sem_t *));
HAS_TYPE(kc_sem_tryacquire, bool (*)(kc_sem_t *));
HAS_TYPE(kc_sem_release, void (*)(kc_sem_t *, uint32_t));
HAS_TYPE(kc_latch_count_down, void (*)(kc_latch_t *));
HAS_TYPE(kc_latch_wait, int (*)(kc_latch_t *));
HAS_TYPE(kc_latch_wait_until, int (*)(kc_latch_t *, kc_time_t));
HAS_TYPE(kc_latch_arrive_and_wait, int (*)(kc_latch_t *));
HAS_TYPE(kc_event_set, void (*)(kc_event_t *));
HAS_TYPE(kc_event_reset, void (*)(kc_event_t *));
HAS_TYPE(kc_event_is_set, bool (*)(const kc_event_t *));
HAS_TYPE(kc_event_wait, int (*)(kc_event_t *));
HAS_TYPE(kc_event_wait_until, int (*)(kc_event_t *, kc_time_t));
HAS_TYPE(kc_once, void (*)(kc_once_t *, void (*)(void *), void *));
HAS_TYPE(kc_barrier_wait, int (*)(kc_barrier_t *));

/* ---- channels, broadcasts, generators ------------------------------------------------------- */

HAS_TYPE(kc_chan_create, int (*)(size_t, size_t, kc_chan_t **));
HAS_TYPE(kc_chan_create_with, int (*)(const kc_chan_opts_t *, kc_chan_t **));
HAS_TYPE(kc_chan_send, int (*)(kc_chan_t *, const void *));
HAS_TYPE(kc_chan_send_until, int (*)(kc_chan_t *, const void *, kc_time_t));
HAS_TYPE(kc_chan_try_send, int (*)(kc_chan_t *, const void *));
HAS_TYPE(kc_chan_recv, int (*)(kc_chan_t *, void *));
HAS_TYPE(kc_chan_recv_until, int (*)(kc_chan_t *, void *, kc_time_t));
HAS_TYPE(kc_chan_try_recv, int (*)(kc_chan_t *, void *));
HAS_TYPE(kc_chan_close, void (*)(kc_chan_t *));
HAS_TYPE(kc_chan_close_with, void (*)(kc_chan_t *, int));
HAS_TYPE(kc_chan_cause, int (*)(const kc_chan_t *));
HAS_TYPE(kc_chan_len, size_t (*)(const kc_chan_t *));
HAS_TYPE(kc_chan_retain, kc_chan_t *(*)(kc_chan_t *));
HAS_TYPE(kc_chan_release, void (*)(kc_chan_t *));
HAS_TYPE(kc_select, int (*)(kc_case_t *, size_t, kc_time_t));
HAS_TYPE(kc_select_biased, int (*)(kc_case_t *, size_t, kc_time_t));

HAS_TYPE(kc_broadcast_create, int (*)(size_t, size_t, kc_broadcast_t **));
HAS_TYPE(kc_broadcast_send, int (*)(kc_broadcast_t *, const void *));
HAS_TYPE(kc_broadcast_close, void (*)(kc_broadcast_t *));
HAS_TYPE(kc_broadcast_close_with, void (*)(kc_broadcast_t *, int));
HAS_TYPE(kc_broadcast_cause, int (*)(const kc_broadcast_t *));
HAS_TYPE(kc_broadcast_retain, kc_broadcast_t *(*)(kc_broadcast_t *));
HAS_TYPE(kc_broadcast_release, void (*)(kc_broadcast_t *));
HAS_TYPE(kc_subscribe, int (*)(kc_broadcast_t *, kc_subscription_t *));
HAS_TYPE(kc_unsubscribe, void (*)(kc_subscription_t *));
HAS_TYPE(kc_subscription_recv, int (*)(kc_subscription_t *, void *, uint64_t *));
HAS_TYPE(kc_subscription_recv_until, int (*)(kc_subscription_t *, void *, uint64_t *, kc_time_t));
HAS_TYPE(kc_subscription_try_recv, int (*)(kc_subscription_t *, void *, uint64_t *));

HAS_TYPE(kc_gen_start, int (*)(kc_gen_t *, int (*)(kc_gen_t *, void *), void *, size_t));
HAS_TYPE(kc_gen_next, bool (*)(kc_gen_t *, void **));
HAS_TYPE(kc_gen_yield, void (*)(kc_gen_t *, void *));
HAS_TYPE(kc_gen_end, int (*)(kc_gen_t *));

/* ---- seeing inside -------------------------------------------------------------------------- */

HAS_TYPE(kc_metrics, void (*)(kc_sched_t *, kc_metrics_t *));
HAS_TYPE(kc_trace_start, int (*)(kc_sched_t *, const char *));
HAS_TYPE(kc_trace_stop, int (*)(kc_sched_t *));
HAS_TYPE(kc_dump, int (*)(kc_sched_t *, FILE *));

/* ---- constants, and what stands in structs -------------------------------------------------- */

#define IS(constant, value) _Static_assert((constant) == (value), #constant " has another value")
#define HAS_MEMBER(type, member, ...)                                                             \
    _Static_assert(_Generic(((type *)0)->member, __VA_ARGS__ : 1, default : 0),                   \
                   #type " has no such " #member)

IS(KC_US(2), 2000);
IS(KC_MS(2), 2000000);
IS(KC_SEC(2), 2000000000);
IS(KC_FOREVER, INT64_MAX);
IS(KC_WORKER, 0);
IS(KC_MAIN, -1);
IS(KC_HERE, -2);
IS(KC_WORKER_AT(0), 1);
IS(KC_NO_WORKERS, -1);
IS(KC_SIG_NONE, 0);
IS(KC_SIG_TERMINATE, 1);
IS(KC_SIG_ALL, UINT64_MAX);
IS(KC_JOB_SUPERVISOR, 1);
IS(KC_JOB_DETACHED, 2);
IS(KC_JOB_NOW, 4);
IS(KC_JOB_UNWIND, 8);
IS(KC_JOB_MIGRATE, 16);
IS(KC_JOB_ALONE, 32);
IS(KC_CHAN_UNLIMITED, SIZE_MAX);
IS(KC_CHAN_LATEST, SIZE_MAX - 1);
IS(KC_RECV, 1);
IS(KC_SEND, 2);
_Static_assert(KCORO_CREATED < KCORO_READY && KCORO_READY < KCORO_RUNNING &&
                   KCORO_RUNNING < KCORO_SUSPENDED && KCORO_SUSPENDED < KCORO_PARKED &&
                   KCORO_PARKED < KCORO_FINISHED,
               "the states of a coroutine have another order");
_Static_assert(KC_JOB_ACTIVE < KC_JOB_CANCELLING && KC_JOB_CANCELLING < KC_JOB_CANCELLED &&
                   KC_JOB_CANCELLED < KC_JOB_COMPLETED && KC_JOB_COMPLETED < KC_JOB_FAILED,
               "the states of a job have another order");
_Static_assert(KC_DEFERRED_PENDING < KC_DEFERRED_COMPLETED &&
                   KC_DEFERRED_COMPLETED < KC_DEFERRED_FAILED &&
                   KC_DEFERRED_FAILED < KC_DEFERRED_CANCELLED,
               "the states of a deferred value have another order");
_Static_assert(KC_DEFERRED_CANCELED == KC_DEFERRED_CANCELLED,
               "the two spellings of one state have two values");

HAS_MEMBER(kc_sched_opts_t, workers, int);
HAS_MEMBER(kc_sched_opts_t, stack_size, size_t);
HAS_MEMBER(kc_sched_opts_t, flags, uint32_t);
HAS_MEMBER(kc_sched_opts_t, seed, uint64_t);
HAS_MEMBER(kc_sched_opts_t, name, const char *);
HAS_MEMBER(kc_sched_opts_t, grace, kc_time_t);
HAS_MEMBER(kc_sched_opts_t, on_failure, void (*)(kc_job_t *, int, void *));
HAS_MEMBER(kc_sched_opts_t, on_failure_arg, void *);
HAS_MEMBER(kc_task_opts_t, dispose, void (*)(void *));
HAS_MEMBER(kc_task_opts_t, name, const char *);
HAS_MEMBER(kc_launch_opts_t, parent, kc_job_t *);
HAS_MEMBER(kc_launch_opts_t, sched, kc_sched_t *);
HAS_MEMBER(kc_launch_opts_t, affinity, kc_affinity_t);
HAS_MEMBER(kc_launch_opts_t, flags, uint32_t);
HAS_MEMBER(kc_launch_opts_t, stack, size_t);
HAS_MEMBER(kc_launch_opts_t, timeout, kc_time_t);
HAS_MEMBER(kc_launch_opts_t, grace, kc_time_t);
HAS_MEMBER(kc_launch_opts_t, signal, kc_signal_t *);
HAS_MEMBER(kc_launch_opts_t, dispose, void (*)(void *));
HAS_MEMBER(kc_launch_opts_t, name, const char *);
HAS_MEMBER(kc_scope_opts_t, flags, uint32_t);
HAS_MEMBER(kc_scope_opts_t, timeout, kc_time_t);
HAS_MEMBER(kc_scope_opts_t, grace, kc_time_t);
HAS_MEMBER(kc_scope_opts_t, max_running, uint32_t);
HAS_MEMBER(kc_scope_opts_t, signal, kc_signal_t *);
HAS_MEMBER(kc_scope_opts_t, name, const char *);
HAS_MEMBER(kc_call_t, fn, kc_fn_t);
HAS_MEMBER(kc_call_t, arg, void *);
HAS_MEMBER(kc_call_t, rc, int);
HAS_MEMBER(kc_call_t, payload, void *);
HAS_MEMBER(kc_call_t, opts, const kc_launch_opts_t *);
HAS_MEMBER(kc_case_t, op, int);
HAS_MEMBER(kc_case_t, chan, kc_chan_t *);
HAS_MEMBER(kc_case_t, item, void *);
HAS_MEMBER(kc_case_t, rc, int);
HAS_MEMBER(kc_metrics_t, jobs_created, uint64_t);
HAS_MEMBER(kc_metrics_t, jobs_completed, uint64_t);
HAS_MEMBER(kc_metrics_t, jobs_failed, uint64_t);
HAS_MEMBER(kc_metrics_t, jobs_cancelled, uint64_t);
HAS_MEMBER(kc_metrics_t, jobs_live, uint64_t);
HAS_MEMBER(kc_metrics_t, cancellations_requested, uint64_t);
HAS_MEMBER(kc_metrics_t, waiters_registered, uint64_t);
HAS_MEMBER(kc_metrics_t, waiters_woken, uint64_t);
HAS_MEMBER(kc_metrics_t, switches, uint64_t);
HAS_MEMBER(kc_metrics_t, spawns, uint64_t);
HAS_MEMBER(kc_metrics_t, steals, uint64_t);
HAS_MEMBER(kc_metrics_t, parks, uint64_t);
HAS_MEMBER(kc_metrics_t, timers_fired, uint64_t);
HAS_MEMBER(kc_metrics_t, io_operations, uint64_t);
HAS_MEMBER(kc_metrics_t, stacks_in_use, uint64_t);
HAS_MEMBER(kc_metrics_t, stacks_pooled, uint64_t);

/* ---- initialisers --------------------------------------------------------------------------- */

/* For statics, members of structs and elements of arrays. */
static struct {
    kc_mutex_t mutex[2];
    kc_rwlock_t rwlock[2];
    kc_cond_t cond;
    kc_sem_t sem;
    kc_latch_t latch;
    kc_event_t event;
    kc_once_t once;
    kc_barrier_t barrier;
} all = {
    .mutex = { KC_MUTEX_INIT, KC_MUTEX_NAMED("mutex") },
    .rwlock = { KC_RWLOCK_INIT, KC_RWLOCK_NAMED("rwlock") },
    .cond = KC_COND_INIT,
    .sem = KC_SEM_INIT(1),
    .latch = KC_LATCH_INIT(0),
    .event = KC_EVENT_INIT,
    .once = KC_ONCE_INIT,
    .barrier = KC_BARRIER_INIT(1),
};

TEST(every_initialiser_works_for_members_and_elements)
{
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(kc_mutex_lock(&all.mutex[i]), 0);
        KC_UNLOCK_AT_END(&all.mutex[i]);
        CHECK_EQ(kc_rwlock_rdlock(&all.rwlock[i]), 0);
        KC_RDUNLOCK_AT_END(&all.rwlock[i]);
    }
    CHECK_EQ(kc_rwlock_wrlock(&all.rwlock[0]), 0);
    KC_WRUNLOCK_AT_END(&all.rwlock[0]);
    kc_cond_broadcast(&all.cond);
    CHECK_EQ(kc_sem_acquire(&all.sem), 0);
    CHECK(!kc_sem_tryacquire(&all.sem));
    CHECK_EQ(kc_latch_wait(&all.latch), 0);
    CHECK(!kc_event_is_set(&all.event));
    CHECK_EQ(kc_barrier_wait(&all.barrier), 1);
}

/* ---- two spellings of one function ----------------------------------------------------------- */

TEST(kc_mutex_try_lock_and_trylock_are_the_same)
{
    kc_mutex_t m = KC_MUTEX_INIT;

    CHECK(kc_mutex_try_lock(&m));
    CHECK(!kc_mutex_trylock(&m));
    kc_mutex_unlock(&m);
    CHECK(kc_mutex_trylock(&m));
    CHECK(!kc_mutex_try_lock(&m));
    kc_mutex_unlock(&m);
}

TEST(kc_rwlock_try_rdlock_and_tryrdlock_are_the_same)
{
    kc_rwlock_t l = KC_RWLOCK_INIT;

    CHECK(kc_rwlock_try_rdlock(&l));
    CHECK(kc_rwlock_tryrdlock(&l));
    CHECK(!kc_rwlock_try_wrlock(&l));
    kc_rwlock_rdunlock(&l);
    kc_rwlock_rdunlock(&l);
    CHECK(kc_rwlock_trywrlock(&l));
    CHECK(!kc_rwlock_try_rdlock(&l));
    CHECK(!kc_rwlock_tryrdlock(&l));
    kc_rwlock_wrunlock(&l);
}

TEST(kc_rwlock_try_wrlock_and_trywrlock_are_the_same)
{
    kc_rwlock_t l = KC_RWLOCK_INIT;

    CHECK(kc_rwlock_try_wrlock(&l));
    CHECK(!kc_rwlock_trywrlock(&l));
    kc_rwlock_wrunlock(&l);
    CHECK(kc_rwlock_trywrlock(&l));
    CHECK(!kc_rwlock_try_wrlock(&l));
    kc_rwlock_wrunlock(&l);
}

TEST(kc_sem_try_acquire_and_tryacquire_are_the_same)
{
    kc_sem_t s = KC_SEM_INIT(2);

    CHECK(kc_sem_try_acquire(&s));
    CHECK(kc_sem_tryacquire(&s));
    CHECK(!kc_sem_try_acquire(&s));
    CHECK(!kc_sem_tryacquire(&s));
}

/* ---- options --------------------------------------------------------------------------------- */

/* Options that are all zero are the defaults. */
static int ends(void *arg)
{
    (void)arg;
    return 0;
}

static int with_empty_options(void *arg)
{
    kc_job_t *job;

    (void)arg;
    CHECK_EQ(kc_launch_job(ends, NULL, &(kc_launch_opts_t){ .name = NULL }, &job), 0);
    CHECK_EQ(kc_job_join(job), 0);
    kc_job_release(job);
    return kc_scope(ends, NULL, &(kc_scope_opts_t){ .name = NULL });
}

TEST(options_that_are_all_zero_are_the_defaults)
{
    CHECK_EQ(kc_run(with_empty_options, NULL, &(kc_sched_opts_t){ .name = NULL }), 0);
}
