/* SPDX-License-Identifier: MIT */
/*
 * 31_walk.c - a folder is walked only as far as somebody asks for more. A walk that broke off can
 * be told from one that has come to its end, and one that is left early closes what it has open.
 *
 * Prints:
 *   all: 3 names, then the end
 *   the first two: 2 names, then Operation canceled
 *   with a broken link: 4 names, then No such file or directory
 *   folders that are still open: 0
 */
#include <kcoro/kcoro.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_folders;

static void close_folder(void *dir)
{
    open_folders--;
    closedir(dir);
}

static int walk(kc_gen_t *g, void *path) /* has room for 300 more than opendir takes */
{
    char *end = (char *)path + strlen(path);
    DIR *dir = opendir(path);
    int rc = 0;

    if (!dir)
        return errno == ENOTDIR ? 0 : -errno;
    open_folders++;
    KC_CLEANUP(close_folder, dir); /* also if nobody asks for more */
    for (struct dirent *e; rc == 0 && (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.') {
            snprintf(end, 300, "/%s", e->d_name);
            kc_gen_yield(g, path);
            rc = walk(g, path);
        }
    return rc;
}

static void list(const char *what, int most)
{
    char path[4096 + 300] = ".";
    kc_gen_t g;
    int count = 0;

    if (kc_gen_start(&g, walk, path, 0) != 0)
        return;
    while (count < most && kc_gen_next(&g, NULL))
        count++;
    int rc = kc_gen_end(&g);
    printf("%s: %d names, then %s\n", what, count, rc == 0 ? "the end" : strerror(-rc));
}

int main(void)
{
    char top[] = "/tmp/31_walk.XXXXXX";

    if (!mkdtemp(top) || chdir(top) != 0 || mkdir("a", 0700) != 0 || mkdir("a/b", 0700) != 0 ||
        mkdir("a/b/c", 0700) != 0)
        return 1;
    list("all", 9);
    list("the first two", 2);
    if (symlink("nowhere", "a/b/c/link") != 0)
        return 1;
    list("with a broken link", 9);
    printf("folders that are still open: %d\n", open_folders);
    return remove("a/b/c/link") != 0 || remove("a/b/c") != 0 || remove("a/b") != 0 ||
           remove("a") != 0 || rmdir(top) != 0;
}
