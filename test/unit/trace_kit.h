/* SPDX-License-Identifier: MIT */
/*
 * trace_kit.h - a strict reader of traces, by the rules by which Perfetto reads them.
 *
 * Events are taken in order of time, those of one time in the order of the file. "B" and "E" are
 * matched on each thread like brackets. An arrow is "s" and "f" with the same id, category and
 * name; each is tied to the innermost slice of its thread that is open then, and lost if there is
 * none. "b" and "e" of one id, category and name are a track of their own.
 */
#ifndef KC_TEST_TRACE_KIT_H
#define KC_TEST_TRACE_KIT_H

#include "harness.h"

#include <kcoro/kcoro.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a strict reader of JSON ---------------------------------------------------------------- */

/* Not strspn, of which AddressSanitizer's takes the length of the whole text each time. */
static const char *spaces(const char *p)
{
    while (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')
        p++;
    return p;
}

static const char *digits(const char *p)
{
    while (isdigit((unsigned char)*p))
        p++;
    return p;
}

static const char *string(const char *p)
{
    CHECK_EQ(*p++, '"');
    while (*p != '"') {
        CHECK_GE((unsigned char)*p, 0x20);
        if (*p == '\\' && p[1] == 'u') {
            for (int i = 2; i < 6; i++)
                CHECK(isxdigit((unsigned char)p[i]));
            p += 6;
        } else if (*p == '\\') {
            CHECK(p[1] && strchr("\"\\/bfnrt", p[1]));
            p += 2;
        } else {
            p++;
        }
    }
    return p + 1;
}

static const char *number(const char *p)
{
    p += *p == '-';
    CHECK(isdigit((unsigned char)*p));
    p = *p == '0' ? p + 1 : digits(p);
    if (*p == '.') {
        CHECK(isdigit((unsigned char)p[1]));
        p = digits(p + 1);
    }
    return p;
}

static const char *value(const char *p)
{
    p = spaces(p);
    if (*p == '"')
        return string(p);
    if (*p != '{' && *p != '[')
        return number(p);
    char open = *p, close = open == '{' ? '}' : ']';
    p = spaces(p + 1);
    while (*p != close) {
        if (open == '{') {
            p = spaces(string(p));
            CHECK_EQ(*p++, ':');
        }
        p = spaces(value(p));
        if (*p == close)
            break;
        CHECK_EQ(*p++, ',');
        p = spaces(p);
        CHECK_NE(*p, close);
    }
    return p + 1;
}

/* ---- what a trace must be ------------------------------------------------------------------- */

enum { IDS = 1 << 18, MAX_DEPTH = 8, MAX_THREADS = KC_MAX_WORKERS + 4 };

/* What was seen of each id, of which a trace has some and which may be large. */
struct open {
    long long id; /* 0: none */
    char *line;   /* it has begun there, and not ended; NULL: it has */
};

struct seen {
    uint64_t jobs, finalized, runs, arrows, dropped;
    char *text;
    struct open *job;   /* by number of a job: its "b", without "e"                     */
    struct open *arrow; /* by id: its "s", without "f"                                  */
    char *stack[MAX_THREADS][MAX_DEPTH]; /* slices that are open                              */
    int depth[MAX_THREADS];
};

static char **line_of(struct open *open, long long id)
{
    size_t at = (size_t)id % IDS, tries = 0;

    CHECK_GT(id, 0);
    for (; open[at].id != 0 && open[at].id != id; at = (at + 1) % IDS)
        CHECK_LT(tries++, IDS);
    open[at].id = id;
    return &open[at].line;
}

static long long field(const char *line, const char *name)
{
    const char *at = strstr(line, name);

    CHECK(at);
    return strtoll(at + strlen(name), NULL, 10);
}

static bool has(const char *line, const char *what)
{
    return strstr(line, what) != NULL;
}

/* Both have the same string in this field. */
static bool same(const char *one, const char *other, const char *name)
{
    const char *a = strstr(one, name), *b = strstr(other, name);

    CHECK(a && b);
    a += strlen(name);
    b += strlen(name);
    size_t n = (size_t)(string(a) - a);
    return n == (size_t)(string(b) - b) && memcmp(a, b, n) == 0;
}

static bool same_kind(const char *one, const char *other)
{
    return same(one, other, "\"cat\":") && same(one, other, "\"name\":");
}

static double time_of(const char *line)
{
    return strtod(strstr(line, "\"ts\":") + 5, NULL);
}

static void check_arrow(struct seen *seen, char *line, char ph)
{
    long long id = field(line, "\"id\":"), tid = field(line, "\"tid\":");

    char **from = line_of(seen->arrow, id);
    CHECK_GT(seen->depth[tid], 0); /* it is tied to a slice */
    CHECK_EQ(*from == NULL, ph == 's');
    if (ph == 's') {
        *from = line;
        return;
    }
    CHECK(has(line, "\"bp\":\"e\"")); /* to the slice around it, not to the next one */
    CHECK(same_kind(*from, line));
    CHECK_LE(time_of(*from), time_of(line));
    *from = NULL;
    seen->arrows++;
}

static void check_job(struct seen *seen, char *line, char ph)
{
    long long id = field(line, "\"id\":");

    char **from = line_of(seen->job, id);
    CHECK_EQ(*from == NULL, ph == 'b');
    if (ph == 'b') {
        long long parent = field(line, "\"parent\":");
        CHECK(parent == 0 || *line_of(seen->job, parent)); /* it is there before and after */
        *from = line;
        seen->jobs++;
        return;
    }
    CHECK(same_kind(*from, line));
    *from = NULL;
}

static void check_slice(struct seen *seen, char *line, char ph)
{
    long long tid = field(line, "\"tid\":");
    int *depth = &seen->depth[tid];

    if (ph == 'E') {
        CHECK_GT((*depth)--, 0);
        return;
    }
    CHECK_LT(*depth, MAX_DEPTH);
    if (has(line, "\"cat\":\"run\"")) {
        CHECK_EQ(*depth, 0); /* a thread runs one job at a time */
        CHECK(*line_of(seen->job, field(line, "\"job\":")));
        seen->runs++;
    }
    seen->stack[tid][(*depth)++] = line;
}

static void check_line(struct seen *seen, char *line)
{
    char ph = strstr(line, "\"ph\":\"")[6];
    long long tid = field(line, "\"tid\":");

    CHECK_EQ(field(line, "\"pid\":"), 1);
    CHECK(tid >= 0 && tid < MAX_THREADS);
    if (ph == 'b' || ph == 'e') {
        check_job(seen, line, ph);
    } else if (ph == 'B' || ph == 'E') {
        check_slice(seen, line, ph);
    } else if (ph == 's' || ph == 'f') {
        check_arrow(seen, line, ph);
    } else if (ph == 'i') {
        long long job = field(line, "\"job\":");
        CHECK(job == 0 || *line_of(seen->job, job));
        seen->finalized += has(line, "JOB_FINALIZE");
    } else {
        CHECK_EQ(ph, 'M');
    }
}

struct timed {
    char *line;
    double at;
};

static int by_time(const void *one, const void *other)
{
    const struct timed *a = one, *b = other;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->line < b->line ? -1 : 1; /* as they stand in the file */
}

static void check_lines(struct seen *seen, char *text)
{
    size_t n = 0, room = 1;
    struct timed *lines;

    /* A sanitizer measures what strchr and strtok are given, which is the whole rest each time. */
    char *end = text + strlen(text), *next;
    for (const char *at = text; at < end; at++)
        room += *at == '\n';
    lines = malloc(room * sizeof *lines);
    CHECK(lines);
    for (char *line = text; line < end; line = next) {
        next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next : end;
        *next++ = 0;
        if (strncmp(line, "{\"ph\"", 5) == 0)
            lines[n++] = (struct timed){ line, time_of(line) };
    }
    qsort(lines, n, sizeof *lines, by_time);
    for (size_t i = 0; i < n; i++)
        check_line(seen, lines[i].line);
    free(lines);
}

/* Reads the file and checks it. The caller frees the text. */
static struct seen check_trace(const char *path)
{
    struct seen seen = { .job = calloc(IDS, sizeof(struct open)),
                         .arrow = calloc(IDS, sizeof(struct open)) };
    FILE *f = fopen(path, "r");
    size_t size = 0;

    CHECK(f && seen.job && seen.arrow);
    CHECK_GT(getdelim(&seen.text, &size, 0, f), 0);
    fclose(f);
    CHECK_EQ(*spaces(value(seen.text)), 0);
    char *copy = strdup(seen.text);
    check_lines(&seen, copy);
    for (int i = 0; i < IDS; i++)
        CHECK(!seen.job[i].line && !seen.arrow[i].line); /* what begins ends */
    for (int i = 0; i < MAX_THREADS; i++)
        CHECK_EQ(seen.depth[i], 0);
    seen.dropped = (uint64_t)field(seen.text, "\"dropped\":");
    free(copy);
    free(seen.job);
    free(seen.arrow);
    return seen;
}

#endif
