/* SPDX-License-Identifier: MIT */
/*
 * unused.c - results that must be looked at: what suspends and can fail, and what would leave
 * something undone without a word. run compiles this file, and the compiler has to warn at each
 * line that is marked so, and at no other.
 */
#include <kcoro/kcoro.h>

void ignores_results(void);

void ignores_results(void)
{
    kcoro_resume(0);                        /* warns */
    kcoro_yield_to(0);                      /* warns */
    kc_sched_run(0);                        /* warns */
    kc_run(0, 0, 0);                        /* warns */
    kc_hop(0);                              /* warns */
    kc_sleep(0);                            /* warns */
    kc_sleep_until(0);                      /* warns */
    kc_slot_on(0, 0, 0, 0);                 /* warns */
    kc_slot_chain(0, 0);                    /* warns */
    kc_launch(0, 0);                        /* warns */
    kc_launch_job(0, 0, 0, 0);              /* warns */
    kc_scope(0, 0, 0);                      /* warns */
    kc_scope_begin(0, 0);                   /* warns */
    kc_scope_end(0);                        /* warns */
    kc_job_join(0);                         /* warns */
    kc_job_join_until(0, 0);                /* warns */
    kc_join_any(0, 0, 0);                   /* warns */
    kc_check();                             /* warns */
    kc_shield_begin();                      /* warns */
    kc_group_create(0, 0);                  /* warns */
    kc_lease_take(0, 0);                    /* warns */
    kc_defer(0, 0);                         /* warns */
    kc_suspend(0, 0, 0);                    /* warns */
    kc_local_set(0, 0);                     /* warns */
    kc_async(0, 0, 0);                      /* warns */
    kc_async_job(0, 0, 0, 0);               /* warns */
    kc_await(0, 0);                         /* warns */
    kc_promise(0, 0);                       /* warns */
    kc_oneshot(0, 0, 0);                    /* warns */
    kc_all(0, 0, 0);                        /* warns */
    kc_any(0, 0, 0, 0);                     /* warns */
    kc_race(0, 0, 0);                       /* warns */
    kc_first_ok(0, 0, 0);                   /* warns */
    kc_all_fail_fast(0, 0);                 /* warns */
    kc_all_window(0, 0, 0);                 /* warns */
    kc_with_timeout(0, 0, 0);               /* warns */
    kc_with_deadline(0, 0, 0);              /* warns */
    kc_mutex_lock(0);                       /* warns */
    kc_mutex_lock_until(0, 0);              /* warns */
    kc_rwlock_rdlock(0);                    /* warns */
    kc_rwlock_wrlock(0);                    /* warns */
    kc_rwlock_rdlock_until(0, 0);           /* warns */
    kc_rwlock_wrlock_until(0, 0);           /* warns */
    kc_cond_wait(0, 0);                     /* warns */
    kc_cond_wait_until(0, 0, 0);            /* warns */
    kc_sem_acquire(0);                      /* warns */
    kc_sem_acquire_until(0, 0);             /* warns */
    kc_latch_wait(0);                       /* warns */
    kc_latch_wait_until(0, 0);              /* warns */
    kc_latch_arrive_and_wait(0);            /* warns */
    kc_event_wait(0);                       /* warns */
    kc_event_wait_until(0, 0);              /* warns */
    kc_barrier_wait(0);                     /* warns */
    kc_chan_send(0, 0);                     /* warns */
    kc_chan_send_until(0, 0, 0);            /* warns */
    kc_chan_recv(0, 0);                     /* warns */
    kc_chan_recv_until(0, 0, 0);            /* warns */
    kc_select(0, 0, 0);                     /* warns */
    kc_select_biased(0, 0, 0);              /* warns */
    kc_subscription_recv(0, 0, 0);          /* warns */
    kc_subscription_recv_until(0, 0, 0, 0); /* warns */

    kc_yield(); /* lets others run, and a later call says what it said */
    kc_chan_try_send(0, 0);
    kc_chan_try_recv(0, 0);
    kc_promise_complete(0, 0, 0);
    kc_resolve(0, 0, 0);
    kc_deferred_get(0, 0);
    kc_job_cancel(0, 0);
    kc_fail_current(0);
    kc_group_close(0);
    kc_gen_end(0);
    kc_sched_destroy(0);
    kc_sched_submit(0, 0, 0, 0);
    kc_slot_clear(0, 0);
    kc_token_cancel(0);
}
