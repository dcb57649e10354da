/* SPDX-License-Identifier: MIT */
/*
 * 22_libcurl.c - a foreign library made a wait: transfers of libcurl, which run on a thread of
 * their own, and which a timeout stops like anything else.
 *
 * Needs: libcurl
 * Prints:
 *   /hello: 0, hello
 *   /never: timed out, and libcurl has let go
 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <kcoro/kcoro.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- libcurl's side: one thread, which alone touches the transfers --------------------------- */

struct transfer {
    CURL *easy;
    kc_waker_t *waker;
    bool stop; /* under the lock */
    struct transfer *next;
};

static CURLM *multi;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct transfer *incoming, *active; /* incoming, quit: under the lock */
static bool quit;

static void finish(struct transfer *t, int rc)
{
    struct transfer **link = &active;

    while (*link != t)
        link = &(*link)->next;
    *link = t->next;
    curl_multi_remove_handle(multi, t->easy);
    kc_wake(t->waker, rc); /* the last use of t, which lies in the frame of the waiter */
}

/* Takes in what is new, and lets go of what is to stop. False: the end. */
static bool take_orders(void)
{
    pthread_mutex_lock(&lock);
    for (struct transfer *t; (t = incoming) != NULL; active = t) {
        incoming = t->next;
        t->next = active;
        curl_multi_add_handle(multi, t->easy);
    }
    for (struct transfer *t = active, *next; t; t = next) {
        next = t->next;
        if (t->stop)
            finish(t, -ECANCELED);
    }
    bool goes_on = !quit;
    pthread_mutex_unlock(&lock);
    return goes_on;
}

static void *curl_thread(void *arg)
{
    while (take_orders()) {
        int n;
        curl_multi_perform(multi, &n);
        for (CURLMsg *m; (m = curl_multi_info_read(multi, &n)) != NULL;) {
            struct transfer *t;
            int rc = m->data.result == CURLE_OK ? 0 : -EIO;
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
            finish(t, rc);
        }
        curl_multi_poll(multi, NULL, 0, 10000, NULL);
    }
    return arg;
}

/* ---- ours: a wait --------------------------------------------------------------------------- */

static void begin(kc_waker_t *w, void *arg)
{
    struct transfer *t = arg;

    t->waker = w;
    pthread_mutex_lock(&lock);
    t->next = incoming;
    incoming = t;
    pthread_mutex_unlock(&lock);
    curl_multi_wakeup(multi);
}

static void cancelled(kc_waker_t *w, void *arg)
{
    struct transfer *t = arg;

    (void)w; /* libcurl's thread wakes the job when it has let go */
    pthread_mutex_lock(&lock);
    t->stop = true;
    pthread_mutex_unlock(&lock);
    curl_multi_wakeup(multi);
}

struct page {
    char url[64], text[64];
    size_t size;
};

static size_t takes(char *data, size_t size, size_t n, void *arg)
{
    struct page *p = arg;

    if (size * n > sizeof p->text - 1 - p->size)
        return 0;
    memcpy(p->text + p->size, data, size * n);
    p->size += size * n;
    return size * n;
}

/* Suspends the coroutine until the page is there; cancellable. */
static int fetch(void *arg)
{
    struct page *p = arg;
    struct transfer t = { .easy = curl_easy_init() };

    if (!t.easy)
        return -ENOMEM;
    curl_easy_setopt(t.easy, CURLOPT_URL, p->url);
    curl_easy_setopt(t.easy, CURLOPT_PRIVATE, &t);
    curl_easy_setopt(t.easy, CURLOPT_WRITEFUNCTION, takes);
    curl_easy_setopt(t.easy, CURLOPT_WRITEDATA, p);
    curl_easy_setopt(t.easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(t.easy, CURLOPT_NOPROXY, "*");
    int rc = kc_suspend(begin, cancelled, &t);
    curl_easy_cleanup(t.easy);
    return rc;
}

/* ---- the program, and a server that answers /hello only ------------------------------------- */

static int listener, port;

static void *serve(void *arg)
{
    static const char answer[] = "HTTP/1.0 200 OK\r\n\r\nhello";
    int never[8], n = 0;

    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        char request[512] = "";
        bool asked = read(fd, request, sizeof request - 1) > 0;
        if (asked && strstr(request, "/never") && n < 8) {
            never[n++] = fd;
            continue;
        }
        if (asked)
            send(fd, answer, strlen(answer), MSG_NOSIGNAL);
        close(fd);
    }
    while (n > 0)
        close(never[--n]);
    return arg;
}

static int root(void *arg)
{
    struct page hello = { .text = "" }, never = { .text = "" };

    (void)arg;
    snprintf(hello.url, sizeof hello.url, "http://127.0.0.1:%d/hello", port);
    snprintf(never.url, sizeof never.url, "http://127.0.0.1:%d/never", port);
    int rc = fetch(&hello);
    printf("/hello: %d, %s\n", rc, hello.text);
    rc = kc_with_timeout(KC_MS(50), fetch, &never);
    printf("/never: %s\n", rc == -ETIMEDOUT ? "timed out, and libcurl has let go" : "?");
    return 0;
}

int main(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof at;
    pthread_t curl, server;

    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, size) != 0 || listen(listener, 8) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &size) != 0 ||
        curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || !(multi = curl_multi_init()))
        return 1;
    port = ntohs(at.sin_port);
    if (pthread_create(&server, NULL, serve, NULL) != 0 ||
        pthread_create(&curl, NULL, curl_thread, NULL) != 0)
        return 1;
    int rc = kc_run(root, NULL, NULL);
    pthread_mutex_lock(&lock);
    quit = true;
    pthread_mutex_unlock(&lock);
    curl_multi_wakeup(multi);
    shutdown(listener, SHUT_RDWR);
    pthread_join(curl, NULL);
    pthread_join(server, NULL);
    close(listener);
    curl_multi_cleanup(multi);
    curl_global_cleanup();
    return rc;
}
