/* SPDX-License-Identifier: MIT */
/*
 * million_test.c - a million coroutines at once, with the kernel's default limits (C7).
 */
#include "harness.h"

#include <kcoro/kcoro.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

/* A status line of this process, in bytes. */
static double status_bytes(const char *name)
{
    char line[256];
    double value = 0;
    FILE *f = fopen("/proc/self/status", "r");

    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtod(line + strlen(name) + 1, NULL) * 1024;
    if (f)
        fclose(f);
    return value;
}

static double resident(void)
{
    return status_bytes("VmRSS:") + status_bytes("VmPTE:");
}

static void body(void *arg)
{
    long *sum = arg;

    ++*sum;
    kcoro_park();
    ++*sum;
}

TEST_SLOW(a_million_coroutines_at_once, 300000)
{
    enum { N = 1000000 };
    struct sysinfo info;
    long sum = 0;

    if (kc_test_under_asan() || kc_test_under_tsan() || kc_test_under_emulation())
        SKIP("not with a tool's own memory on top");
    CHECK_EQ(sysinfo(&info), 0);
    if ((double)info.freeram * info.mem_unit < 6e9)
        SKIP("needs 6 GB of free memory");

    kcoro_t **co = malloc(N * sizeof *co);
    CHECK(co != NULL);
    memset(co, 0, N * sizeof *co);
    double before = resident();
    for (int i = 0; i < N; i++) {
        co[i] = kcoro_create(body, &sum, 0);
        if (!co[i])
            SKIP("only %d: %s", i, kcoro_create_error()); /* a kernel without guard markers */
        CHECK_EQ(kcoro_resume(co[i]), 0);
    }
    double each = (resident() - before) / N;
    printf("%.0f bytes each, page tables included\n", each);
    CHECK_LE(each, 4.4 * 1024);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(kcoro_unpark(co[i]), 0);
        CHECK_EQ(kcoro_resume(co[i]), 0);
        CHECK_EQ(kcoro_state(co[i]), KCORO_FINISHED);
    }
    CHECK_EQ(sum, 2L * N);
    for (int i = 0; i < N; i++)
        kcoro_destroy(co[i]);
    CHECK_LE(resident() - before, 0.05 * each * N); /* all but the control blocks is given back */
    free(co);
}
