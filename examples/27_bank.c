/* SPDX-License-Identifier: MIT */
/*
 * 27_bank.c - two transfers lock two accounts in opposite order. The deadlock is found when the
 * second begins to wait: it gets -EDEADLK, releases its lock, and tries again. A report on
 * stderr says which job waited for what, with names and stacks.
 *
 * Prints:
 *   one of the two found a deadlock, and tried again
 *   alice has 70, bob has 130
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

static struct account {
    kc_mutex_t lock;
    int balance;
} alice = { KC_MUTEX_NAMED("alice's account"), 100 },
  bob = { KC_MUTEX_NAMED("bob's account"), 100 };

static kc_latch_t both_hold_one = KC_LATCH_INIT(2); /* provokes it */
static atomic_int deadlocks;

struct transfer {
    struct account *from, *to;
    int amount;
};

static int try_transfer(struct transfer *t, bool first)
{
    int rc = kc_mutex_lock(&t->from->lock);

    if (rc != 0)
        return rc;
    KC_UNLOCK_AT_END(&t->from->lock); /* on every way out of here */
    if ((first && (rc = kc_latch_arrive_and_wait(&both_hold_one)) != 0) ||
        (rc = kc_mutex_lock(&t->to->lock)) != 0)
        return rc;
    KC_UNLOCK_AT_END(&t->to->lock);
    t->from->balance -= t->amount;
    t->to->balance += t->amount;
    return 0;
}

static int transfer(void *arg)
{
    int rc = try_transfer(arg, true);

    for (; rc == -EDEADLK; rc = try_transfer(arg, false))
        deadlocks++;
    return rc;
}

static int root(void *arg)
{
    struct transfer there = { &alice, &bob, 50 }, back = { &bob, &alice, 20 };
    kc_call_t calls[] = {
        { .fn = transfer, .arg = &there, .opts = &(kc_launch_opts_t){ .name = "there" } },
        { .fn = transfer, .arg = &back, .opts = &(kc_launch_opts_t){ .name = "back" } },
    };

    (void)arg;
    int rc = kc_all_fail_fast(calls, 2);
    printf("%s of the two found a deadlock, and tried again\n", deadlocks == 1 ? "one" : "none");
    printf("alice has %d, bob has %d\n", alice.balance, bob.balance);
    return rc;
}

int main(void)
{
    kc_sched_opts_t opts = { .workers = 2, .flags = KC_SCHED_FIND_DEADLOCKS }; /* in real time */

    return kc_run(root, NULL, &opts);
}
