/* SPDX-License-Identifier: MIT */
/*
 * 15_prime_sieve.c - a chain of coroutines, each of which lets pass what its prime does not divide.
 * Its channels have no buffers: a sender and its receiver meet.
 *
 * Prints:
 *   2 3 5 7 11 13 17 19 23 29 31 37 41 43 47 53 59 61 67 71
 *   the chain was cancelled, and nothing of it is left
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <stdio.h>

enum { PRIMES = 20 };

struct link {
    kc_chan_t *in, *out;
    int prime;
};

static int count(void *out)
{
    int rc = 0;

    for (int n = 2; rc == 0; n++)
        rc = kc_chan_send(out, &n);
    return rc; /* -ECANCELED: nobody wants more */
}

static int filter(void *arg)
{
    struct link *link = arg;
    int n, rc;

    while ((rc = kc_chan_recv(link->in, &n)) == 0)
        if (n % link->prime != 0 && (rc = kc_chan_send(link->out, &n)) != 0)
            break;
    return rc;
}

static int root(void *arg)
{
    kc_chan_t *chan[PRIMES + 1] = { NULL };
    struct link links[PRIMES];
    kc_scope_t scope;

    (void)arg;
    int rc = kc_scope_begin(&scope, NULL);
    if (rc != 0)
        return rc;
    rc = kc_chan_create(sizeof(int), 0, &chan[0]);
    if (rc == 0)
        rc = kc_launch(count, chan[0]);
    for (int i = 0; i < PRIMES && rc == 0; i++) {
        int prime;
        if ((rc = kc_chan_recv(chan[i], &prime)) != 0 || /* the first that passes is prime */
            (rc = kc_chan_create(sizeof(int), 0, &chan[i + 1])) != 0)
            break;
        printf("%d%s", prime, i + 1 < PRIMES ? " " : "\n");
        links[i] = (struct link){ chan[i], chan[i + 1], prime };
        rc = kc_launch(filter, &links[i]);
    }
    kc_cancel_current(rc); /* the scope: 0 is -ECANCELED */
    rc = kc_scope_end(&scope);
    for (int i = 0; i <= PRIMES; i++)
        kc_chan_release(chan[i]); /* no coroutine is left that waits there */
    printf("the chain was %s, and nothing of it is left\n",
           rc == -ECANCELED ? "cancelled" : "broken");
    return rc == -ECANCELED ? 0 : rc;
}

int main(void)
{
    return kc_run(root, NULL, &(kc_sched_opts_t){ .workers = KC_NO_WORKERS });
}
