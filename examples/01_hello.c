/* SPDX-License-Identifier: MIT */
/*
 * 01_hello.c - two coroutines take turns on one thread.
 *
 * Prints:
 *   ping 1
 *   pong 1
 *   ping 2
 *   pong 2
 *   both have ended
 */
#include <kcoro/kcoro.h>

#include <stdio.h>

static void player(void *word)
{
    for (int i = 1; i <= 2; i++) {
        printf("%s %d\n", (const char *)word, i);
        kcoro_yield(); /* back to main, with everything on our stack kept */
    }
}

int main(void)
{
    kcoro_t *ping = kcoro_create(player, "ping", 0);
    kcoro_t *pong = kcoro_create(player, "pong", 0);

    if (!ping || !pong)
        return 1;
    while (kcoro_state(pong) != KCORO_FINISHED)
        if (kcoro_resume(ping) != 0 || kcoro_resume(pong) != 0)
            return 1;
    printf("both have ended\n");
    kcoro_destroy(ping);
    kcoro_destroy(pong);
    return 0;
}
