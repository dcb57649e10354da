/* SPDX-License-Identifier: MIT */
/*
 * 18_publish_subscribe.c - every subscriber sees every price; one that is too slow is told how many
 * it missed, and holds up no other.
 *
 * Prints:
 *   slow: price 1, missed 0
 *   slow: price 2, missed 0
 *   slow: price 5, missed 2
 *   fast has seen 10 prices and missed 0
 *   slow: price 8, missed 2
 *   slow: price 9, missed 0
 *   slow: price 10, missed 0
 *   slow has seen 6 prices and missed 4
 */
#include <kcoro/kcoro.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

struct subscriber {
    const char *name;
    kc_time_t pace; /* what it takes to digest a price */
    kc_subscription_t prices;
};

static int subscriber(void *arg)
{
    struct subscriber *me = arg;
    uint64_t missed, seen = 0, lost = 0;
    int price, rc;

    while ((rc = kc_subscription_recv(&me->prices, &price, &missed)) == 0) {
        seen++;
        lost += missed;
        if (me->pace > 0)
            printf("%s: price %d, missed %" PRIu64 "\n", me->name, price, missed);
        if ((rc = kc_sleep(me->pace)) != 0)
            break;
    }
    kc_unsubscribe(&me->prices);
    printf("%s has seen %" PRIu64 " prices and missed %" PRIu64 "\n", me->name, seen, lost);
    return rc == -EPIPE ? 0 : rc; /* closed, and all is received */
}

static int publish(void *arg)
{
    struct subscriber all[] = { { .name = "fast" }, { .name = "slow", .pace = KC_MS(34) } };
    kc_broadcast_t *prices;
    kc_scope_t scope;

    (void)arg;
    int rc = kc_broadcast_create(sizeof(int), 3, &prices); /* keeps the newest three */
    if (rc != 0 || (rc = kc_scope_begin(&scope, NULL)) != 0)
        return rc;
    for (int i = 0; i < 2 && rc == 0; i++)
        if ((rc = kc_subscribe(prices, &all[i].prices)) == 0) /* from here on it misses nothing */
            rc = kc_launch(subscriber, &all[i]);
    for (int price = 1; price <= 10 && rc == 0; price++)
        if ((rc = kc_sleep(KC_MS(10))) == 0)
            rc = kc_broadcast_send(prices, &price); /* never waits */
    kc_broadcast_close(prices);
    kc_broadcast_release(prices); /* each subscription has a reference of its own */
    int end = kc_scope_end(&scope);
    return rc != 0 ? rc : end;
}

int main(void)
{
    return kc_run(publish, NULL, &(kc_sched_opts_t){ .flags = KC_SCHED_VIRTUAL_TIME });
}
