/* SPDX-License-Identifier: MIT */
/*
 * main.c - a stranger's first program: the sum of what a coroutine hands out, one yield at a time.
 */
#include <kcoro/kcoro.h>

#include <stdio.h>
#include <string.h>

static int given;

static void give_three(void *arg)
{
    (void)arg;
    for (given = 1; given <= 3; given++)
        kcoro_yield();
}

int main(void)
{
    int sum = 0;
    char headers[32];
    kcoro_t *co = kcoro_create(give_three, NULL, 0);

    if (!co)
        return 1;
    while (kcoro_resume(co) == 0 && kcoro_state(co) != KCORO_FINISHED)
        sum += given;
    kcoro_destroy(co);
    snprintf(headers, sizeof headers, "%d.%d.%d", KC_VERSION_MAJOR, KC_VERSION_MINOR,
             KC_VERSION_PATCH);
    printf("sum %d, headers %s, library %s\n", sum, headers, kc_version());
    return sum == 6 && strcmp(headers, kc_version()) == 0 ? 0 : 1;
}
