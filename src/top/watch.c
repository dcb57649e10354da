/* SPDX-License-Identifier: MIT */
/*
 * watch.c - a dump for each SIGQUIT, if a scheduler asked for it; and the table of this layer.
 *
 * WHAT     The handler posts a semaphore, which a unix signal handler may do; a thread waits for
 *          that and prints. Thread and handler are there while a scheduler wants them, and are
 *          shared by all that do. The handler that was there before is put back, unless somebody
 *          has replaced ours meanwhile.
 *
 * WHO      S service_lock: one watch or unwatch at a time. L list_lock: the list, which the thread
 *          keeps while it prints: so a scheduler does not go meanwhile. Order: S, L.
 */
#include "sched/sched.h"

#include "top/trace.h"

#include <kcoro/trace.h>

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>

static pthread_mutex_t service_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static kc_sched_t *watched;      /* L  linked by next_watched                */
static struct sigaction earlier; /* S                                       */
static pthread_t server;         /* S                                       */
static bool have_asked;          /* S                                       */
static sem_t asked;              /* A  never destroyed: a handler may be late */

static void on_quit(int number)
{
    int saved = errno;

    (void)number;
    sem_post(&asked);
    errno = saved;
}

static void *serve(void *arg)
{
    bool goes_on = true;

    while (goes_on) {
        while (sem_wait(&asked) != 0)
            ; /* a unix signal has come between */
        pthread_mutex_lock(&list_lock);
        for (kc_sched_t *s = watched; s; s = s->next_watched)
            (void)kc_dump(s, stderr);
        goes_on = watched != NULL;
        pthread_mutex_unlock(&list_lock);
    }
    return arg;
}

/* The thread takes no unix signals: they are the program's. */
static int start_serving(void)
{
    struct sigaction ours;
    sigset_t all, before;

    if (!have_asked && sem_init(&asked, 0, 0) != 0)
        return -errno;
    have_asked = true;
    while (sem_trywait(&asked) == 0)
        ; /* it was for somebody who is gone */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&server, NULL, serve, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return -rc;
    memset(&ours, 0, sizeof ours);
    ours.sa_handler = on_quit;
    ours.sa_flags = SA_RESTART;
    sigaction(SIGQUIT, &ours, &earlier);
    return 0;
}

/* The list is empty. */
static void stop_serving(void)
{
    struct sigaction now;

    sigaction(SIGQUIT, NULL, &now);
    if (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == on_quit)
        sigaction(SIGQUIT, &earlier, NULL);
    sem_post(&asked);
    pthread_join(server, NULL);
}

/* Takes s, which is in it, out of the list. True: that was the last. */
static bool take_out(kc_sched_t *s)
{
    pthread_mutex_lock(&list_lock);
    kc_sched_t **link = &watched;
    while (*link != s)
        link = &(*link)->next_watched;
    *link = s->next_watched;
    bool last = !watched;
    pthread_mutex_unlock(&list_lock);
    return last;
}

/* It is in the list first: the thread ends when that is empty, whenever a unix signal comes. */
static int watch(kc_sched_t *s)
{
    int rc = 0;

    pthread_mutex_lock(&service_lock);
    pthread_mutex_lock(&list_lock);
    bool first = !watched;
    s->next_watched = watched;
    watched = s;
    pthread_mutex_unlock(&list_lock);
    if (first && (rc = start_serving()) < 0)
        take_out(s);
    pthread_mutex_unlock(&service_lock);
    return rc;
}

static void unwatch(kc_sched_t *s)
{
    pthread_mutex_lock(&service_lock);
    if (take_out(s))
        stop_serving();
    pthread_mutex_unlock(&service_lock);
}

const struct kc_observer_hooks kc__observer_hooks = { watch, unwatch, kc__trace_end };
