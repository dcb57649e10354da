/* SPDX-License-Identifier: MIT */
/*
 * report_kit.h - what the library says on stderr while something runs.
 *
 *     begin_report();
 *     int rc = kc_run(fn, NULL, &opts);
 *     end_report();
 *     CHECK_EQ(lines_with("waits for a mutex"), 2);
 */
#ifndef KC_TEST_REPORT_KIT_H
#define KC_TEST_REPORT_KIT_H

#include "harness.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char report[16384];
static FILE *report_file;
static int report_before;

static void begin_report(void)
{
    report_file = tmpfile();
    report_before = dup(STDERR_FILENO);
    CHECK(report_file != NULL);
    CHECK_GE(report_before, 0);
    CHECK_GE(dup2(fileno(report_file), STDERR_FILENO), 0);
}

static void end_report(void)
{
    CHECK_GE(dup2(report_before, STDERR_FILENO), 0);
    rewind(report_file);
    size_t got = fread(report, 1, sizeof report - 1, report_file);
    report[got] = '\0';
    fclose(report_file);
    close(report_before);
}

/* How often the report says that. */
static int lines_with(const char *what)
{
    int n = 0;

    for (const char *at = report; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

#define REPORT_SAYS(what) (strstr(report, (what)) ? (void)0 : FAIL("\"%s\" in:\n%s", what, report))

#endif
