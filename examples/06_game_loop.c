/* SPDX-License-Identifier: MIT */
/*
 * 06_game_loop.c - a loop that owns its time pumps the scheduler once per frame.
 *
 * The scheduler's clock is virtual here, so that the program prints the same every time; a game
 * would take real time and pass kc_now().
 *
 * Prints:
 *   frame 0: the door opens
 *   frame 3: tick 1
 *   frame 6: tick 2
 *   frame 6: the door closes
 *   frame 9: tick 3
 */
#include <kcoro/kcoro.h>

#include <stdio.h>

static int frame, ticks;

static int door(void *arg)
{
    (void)arg;
    printf("frame %d: the door opens\n", frame);
    if (kc_sleep(KC_MS(100)) != 0)
        return 1;
    printf("frame %d: the door closes\n", frame);
    return 0;
}

static int tick(void *arg)
{
    (void)arg;
    if (ticks > 0) /* the first one comes at once */
        printf("frame %d: tick %d\n", frame, ticks);
    ticks++;
    return 0;
}

int main(void)
{
    kc_sched_opts_t opts = { .flags = KC_SCHED_VIRTUAL_TIME };
    kc_sched_t *s;
    kc_token_t *token;

    if (kc_sched_create(&opts, &s) != 0)
        return 1;
    kc_time_t start = kc_now();
    if (kc_sched_submit(s, KC_MAIN, door, NULL) != 0 ||
        kc_schedule_interval(s, KC_MS(50), KC_MAIN, tick, NULL, &token) != 0)
        return 1;
    for (frame = 0; frame < 10; frame++) {
        kc_sched_run_expired(s, start + KC_MS(17) * frame);
        /* …draw… */
    }
    kc_token_release(token);
    return kc_sched_destroy(s);
}
