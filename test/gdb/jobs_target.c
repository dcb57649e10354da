/* SPDX-License-Identifier: MIT */
/*
 * jobs_target.c - a program with jobs that wait for all kinds of things, for test/gdb/jobs to look
 * at. It prints the numbers of some.
 */
#include <kcoro/kcoro.h>

#include <stdio.h>
#include <stdlib.h>

static kc_mutex_t accounts = KC_MUTEX_NAMED("accounts");
static kc_rwlock_t table = KC_RWLOCK_NAMED("table");
static kc_chan_t *orders;

void stop_here(void);
void __attribute__((noinline)) stop_here(void)
{
    __asm__ volatile("" ::: "memory");
}

static int locks(void *arg)
{
    (void)arg;
    int rc = kc_mutex_lock(&accounts);
    if (rc == 0)
        kc_mutex_unlock(&accounts);
    return rc;
}

static int reads(void *arg)
{
    (void)arg;
    int rc = kc_rwlock_rdlock(&table);
    if (rc == 0)
        kc_rwlock_rdunlock(&table);
    return rc;
}

static int receives(void *arg)
{
    int item;

    (void)arg;
    return kc_chan_recv(orders, &item);
}

static int joins(void *arg)
{
    int rc = kc_job_join(arg);

    kc_job_release(arg);
    return rc;
}

static void launch(kc_fn_t fn, void *arg, const char *name, kc_job_t **out)
{
    kc_job_t *j;

    if (kc_launch_job(fn, arg, &(kc_launch_opts_t){ .name = name }, &j) != 0)
        abort();
    printf("%s is %llu\n", name, (unsigned long long)kc_job_id(j));
    if (out)
        *out = j;
    else
        kc_job_release(j);
}

static int root(void *arg)
{
    kc_job_t *receiver;

    (void)arg;
    printf("root is %llu\n", (unsigned long long)kc_job_id(kc_job_current()));
    if (kc_mutex_lock(&accounts) != 0 || kc_rwlock_wrlock(&table) != 0)
        abort();
    launch(locks, NULL, "locker", NULL);
    launch(reads, NULL, "reader", NULL);
    launch(receives, NULL, "receiver", &receiver);
    launch(joins, receiver, "joiner", NULL);
    fflush(stdout);
    if (kc_sleep(KC_MS(1)) != 0)
        abort();
    stop_here();
    kc_mutex_unlock(&accounts);
    kc_rwlock_wrunlock(&table);
    kc_chan_close(orders);
    return 0;
}

int main(void)
{
    if (kc_chan_create_with(&(kc_chan_opts_t){ .item_size = sizeof(int), .name = "orders" },
                            &orders) != 0)
        return 1;
    (void)!kc_run(root, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
    kc_chan_release(orders);
    return 0;
}
