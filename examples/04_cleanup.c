/* SPDX-License-Identifier: MIT */
/*
 * 04_cleanup.c - what a coroutine holds is freed on every path, also when it is destroyed halfway.
 *
 * Prints:
 *   normal end: read, closed, freed
 *   destroyed: closed, freed
 */
#include <kcoro/kcoro.h>

#include <stdio.h>
#include <stdlib.h>

static const char *separator;

static void say(const char *word)
{
    printf("%s%s", separator, word);
    separator = ", ";
}

static void close_it(void *arg)
{
    (void)arg;
    say("closed");
}

static void free_it(void *memory)
{
    free(memory);
    say("freed");
}

static void reader(void *arg)
{
    char *buffer = malloc(100);
    int connection = 7;

    (void)arg;
    if (!buffer || kc_defer(free_it, buffer) != 0) /* at the end of the body */
        return;
    KC_CLEANUP(close_it, &connection); /* at the end of this block */
    kcoro_yield();
    say("read");
}

int main(void)
{
    kcoro_t *a = kcoro_create(reader, NULL, 0), *b = kcoro_create(reader, NULL, 0);

    if (!a || !b || kcoro_resume(a) != 0 || kcoro_resume(b) != 0)
        return 1;
    separator = "normal end: ";
    if (kcoro_resume(a) != 0)
        return 1;
    separator = "\ndestroyed: ";
    kcoro_destroy(b); /* suspended in the middle: its cleanups run now, on its own stack */
    printf("\n");
    kcoro_destroy(a);
    return 0;
}
