/* SPDX-License-Identifier: MIT */
/*
 * chan_edge_test.c - channels at their edges: bad arguments, no memory, the hook for what nobody
 * receives, memory after a burst, and bad use that aborts.
 */
#include "base/os.h"
#include "chan_kit.h"

#include <stdlib.h>

/* ---- bad arguments -------------------------------------------------------------------------- */

TEST(bad_arguments_of_channels_are_einval)
{
    kc_chan_opts_t opts = { 0 };
    kc_chan_t *c = NULL;
    int item = 0;

    CHECK_EQ(kc_chan_create(sizeof(int), 0, NULL), -EINVAL);
    CHECK_EQ(kc_chan_create_with(NULL, &c), -EINVAL);
    CHECK_EQ(kc_chan_create_with(&opts, NULL), -EINVAL);
    CHECK_PTR(c, NULL);
    CHECK_EQ(kc_chan_send(NULL, &item), -EINVAL);
    CHECK_EQ(kc_chan_send_until(NULL, &item, 0), -EINVAL);
    CHECK_EQ(kc_chan_try_send(NULL, &item), -EINVAL);
    CHECK_EQ(kc_chan_recv(NULL, &item), -EINVAL);
    CHECK_EQ(kc_chan_recv_until(NULL, &item, 0), -EINVAL);
    CHECK_EQ(kc_chan_try_recv(NULL, &item), -EINVAL);
    c = chan(sizeof(int), 1);
    CHECK_EQ(kc_chan_send(c, NULL), -EINVAL);
    CHECK_EQ(kc_chan_send_until(c, NULL, 0), -EINVAL);
    CHECK_EQ(kc_chan_try_send(c, NULL), -EINVAL);
    CHECK_EQ(kc_chan_len(c), 0);
    kc_chan_release(c);
    kc_chan_release(NULL);
}

TEST(sizes_that_no_memory_has_are_enomem)
{
    kc_chan_t *c = NULL;

    CHECK_EQ(kc_chan_create(SIZE_MAX, 2, &c), -ENOMEM);
    CHECK_EQ(kc_chan_create(2, SIZE_MAX - 2, &c), -ENOMEM);
    CHECK_EQ(kc_chan_create(SIZE_MAX / 2, 1, &c), -ENOMEM);
    CHECK_EQ(kc_chan_create(SIZE_MAX / 4, KC_CHAN_UNLIMITED, &c), -ENOMEM);
    CHECK_EQ(kc_chan_create(SIZE_MAX, KC_CHAN_LATEST, &c), -ENOMEM);
    CHECK_PTR(c, NULL);
    CHECK_EQ(kc_chan_create(0, SIZE_MAX - 2, &c), 0); /* needs none */
    CHECK_EQ(kc_chan_try_send(c, NULL), 0);
    CHECK_EQ(kc_chan_len(c), 1);
    kc_chan_release(c);
}

TEST(a_name_is_copied_and_cut)
{
    char name[64] = "a name that is longer than thirty-one bytes";
    kc_chan_opts_t opts = { .name = name };
    kc_chan_t *c = NULL;

    CHECK_EQ(kc_chan_create_with(&opts, &c), 0);
    memset(name, 0, sizeof name);
    CHECK_STR(kc__chan_name(c), "a name that is longer than thir");
    kc_chan_release(c);
}

/* ---- no memory ------------------------------------------------------------------------------ */

static long fail_at, calls;
static KC_ATOMIC(long) live_blocks;

static bool fail_kth(const char *what)
{
    return strcmp(what, "alloc") == 0 && ++calls == fail_at;
}

static bool fail_all(const char *what)
{
    return strcmp(what, "alloc") == 0;
}

static long live(void)
{
    return kc_load_relaxed(&live_blocks);
}

void *__real_kc__alloc(size_t size);
void __real_kc__free(void *p);
void *__wrap_kc__alloc(size_t size);
void __wrap_kc__free(void *p);

/* What is allocated and not freed. */
void *__wrap_kc__alloc(size_t size)
{
    void *p = __real_kc__alloc(size);

    kc_add_relaxed(&live_blocks, p != NULL);
    return p;
}

void __wrap_kc__free(void *p)
{
    kc_add_relaxed(&live_blocks, -(long)(p != NULL));
    __real_kc__free(p);
}

TEST(a_channel_that_cannot_be_made_leaves_nothing)
{
    size_t capacities[] = { 0, 3, KC_CHAN_UNLIMITED, KC_CHAN_LATEST };

    kc_chan_release(chan(sizeof(int), 0)); /* the thread has control blocks now */
    for (int k = 0; k < 4; k++) {
        int failed = 0, rc = -ENOMEM;
        kc__os_fault = fail_kth;
        for (fail_at = 1; rc != 0; fail_at++) {
            kc_chan_t *c = NULL;
            long before = live();
            calls = 0;
            rc = kc_chan_create_with(&(kc_chan_opts_t){ .item_size = sizeof(int),
                                                        .capacity = capacities[k],
                                                        .name = "named" },
                                     &c);
            CHECK(rc == 0 || rc == -ENOMEM);
            CHECK(rc == 0 || (c == NULL && live() == before));
            failed += rc != 0;
            kc_chan_release(c);
            CHECK_EQ(live(), before);
        }
        kc__os_fault = NULL;
        CHECK_EQ(failed, capacities[k] == 0 ? 1 : 2);
    }
}

/* Fills it until it needs memory. Returns how many are in it. */
static int fill_to_the_brim(kc_chan_t *c)
{
    int n = 0, rc;

    kc__os_fault = fail_all;
    while ((rc = kc_chan_try_send(c, &n)) == 0)
        n++;
    kc__os_fault = NULL;
    CHECK_EQ(rc, -ENOMEM);
    return n;
}

TEST(an_unlimited_send_without_memory_is_enomem_and_has_sent_nothing)
{
    kc_chan_t *c = chan(sizeof(int), KC_CHAN_UNLIMITED);
    int n = fill_to_the_brim(c), item = n;
    kc_case_t one = { .op = KC_SEND, .chan = c, .item = &item };

    CHECK_GT(n, 0);
    kc__os_fault = fail_all;
    CHECK_EQ(kc_chan_send(c, &item), -ENOMEM);
    CHECK_EQ(kc_chan_send_until(c, &item, 0), -ENOMEM);
    CHECK_EQ(kc_select(&one, 1, 0), -ENOMEM);
    CHECK_EQ(kc_select(&one, 1, KC_FOREVER), -ENOMEM);
    kc__os_fault = NULL;
    CHECK_EQ(kc_chan_len(c), n);
    CHECK_EQ(kc_select(&one, 1, KC_FOREVER), 0);
    for (int i = 0; i <= n; i++) {
        CHECK_EQ(kc_chan_recv(c, &item), 0);
        CHECK_EQ(item, i);
    }
    CHECK_EQ(kc_chan_try_recv(c, &item), -EAGAIN);
    kc_chan_release(c);
}

static void count_hook(void *item, void *arg)
{
    *(int *)arg += *(int *)item;
}

TEST(a_latest_send_without_memory_for_the_hook_is_enomem_and_replaces_nothing)
{
    int sum = 0, item = 1;
    kc_chan_opts_t opts = { sizeof(int), KC_CHAN_LATEST, count_hook, &sum, NULL };
    kc_chan_t *c = NULL;

    CHECK_EQ(kc_chan_create_with(&opts, &c), 0);
    CHECK_EQ(kc_chan_send(c, &item), 0);
    item = 10;
    kc__os_fault = fail_all;
    CHECK_EQ(kc_chan_send(c, &item), -ENOMEM);
    CHECK_EQ(kc_chan_try_send(c, &item), -ENOMEM);
    kc__os_fault = NULL;
    CHECK_EQ(sum, 0);
    CHECK_EQ(kc_chan_recv(c, &item), 0);
    CHECK_EQ(item, 1);
    kc_chan_release(c);
    CHECK_EQ(sum, 0);
}

TEST(the_memory_of_a_burst_goes_back)
{
    kc_chan_t *c = chan(sizeof(int), KC_CHAN_UNLIMITED);
    long before = live();
    int item = -1;

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100000; i++)
            CHECK_EQ(kc_chan_try_send(c, &i), 0);
        CHECK_GT(live(), before + 50);
        for (int i = 0; i < 100000; i++) {
            CHECK_EQ(kc_chan_try_recv(c, &item), 0);
            CHECK_EQ(item, i);
        }
        CHECK_LE(live(), before + 1); /* a spare one */
    }
    for (int i = 0; i < 100000; i++) { /* few at a time need no more */
        CHECK_EQ(kc_chan_try_send(c, &i), 0);
        CHECK_EQ(kc_chan_try_recv(c, &item), 0);
        CHECK_EQ(item, i);
    }
    CHECK_LE(live(), before + 1);
    for (int i = 0; i < 5000; i++)
        CHECK_EQ(kc_chan_try_send(c, &i), 0);
    kc_chan_release(c);
    CHECK_EQ(live(), before - 1); /* its first chunk; the channel is a control block */
}

/* ---- undelivered ---------------------------------------------------------------------------- */

struct dropped {
    int n, items[16];
    kc_chan_t *c;
    int rc;
};

static void notes(void *item, void *arg)
{
    struct dropped *d = arg;

    CHECK_LT(d->n, 16);
    d->items[d->n++] = *(int *)item;
}

static kc_chan_t *chan_with(size_t capacity, void (*hook)(void *, void *), struct dropped *d)
{
    kc_chan_opts_t opts = { sizeof(int), capacity, hook, d, NULL };
    kc_chan_t *c = NULL;

    CHECK_EQ(kc_chan_create_with(&opts, &c), 0);
    return c;
}

TEST(what_is_left_at_the_last_release_goes_to_the_hook_in_order)
{
    size_t capacities[] = { 5, KC_CHAN_UNLIMITED };

    for (int k = 0; k < 4; k++) {
        struct dropped d = { 0 };
        kc_chan_t *c = chan_with(capacities[k % 2], notes, &d);
        for (int i = 0; i < 5; i++)
            CHECK_EQ(kc_chan_try_send(c, &i), 0);
        CHECK_EQ(kc_chan_try_recv(c, NULL), 0); /* that was received */
        CHECK_EQ(kc_chan_try_recv(c, NULL), 0);
        if (k / 2)
            kc_chan_close(c);
        CHECK_PTR(kc_chan_retain(c), c);
        kc_chan_release(c);
        CHECK_EQ(d.n, 0);
        kc_chan_release(c);
        CHECK_EQ(d.n, 3);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(d.items[i], 2 + i);
    }
}

IN_A_JOB(what_is_delivered_or_not_sent_never_goes_to_the_hook)
{
    struct dropped d = { 0 };
    kc_chan_t *c = chan_with(0, notes, &d), *closed = chan_with(1, notes, &d);
    struct party r = { .c = c, .op = KC_RECV }, s = { .c = c, .op = KC_SEND };
    int item = 1;

    stands(&r, NULL);
    CHECK_EQ(kc_chan_send(c, &item), 0);
    CHECK_EQ(outcome(&r), 0);
    stands(&s, NULL);
    CHECK(kc_job_cancel(s.job, 0));
    CHECK_EQ(outcome(&s), -ECANCELED);
    s = (struct party){ .c = c, .op = KC_SEND };
    stands(&s, NULL);
    kc_chan_close(c);
    CHECK_EQ(outcome(&s), -EPIPE);
    kc_chan_close(closed);
    CHECK_EQ(kc_chan_send(closed, &item), -EPIPE);
    kc_chan_release(c);
    kc_chan_release(closed);
    CHECK_EQ(d.n, 0);
    return 0;
}

TEST(what_is_replaced_in_a_latest_channel_goes_to_the_hook)
{
    struct dropped d = { 0 };
    kc_chan_t *c = chan_with(KC_CHAN_LATEST, notes, &d);
    int item = -1;

    for (int i = 0; i < 4; i++)
        CHECK_EQ(i % 2 ? kc_chan_send(c, &i) : kc_chan_try_send(c, &i), 0);
    CHECK_EQ(d.n, 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(d.items[i], i);
    CHECK_EQ(kc_chan_recv(c, &item), 0);
    CHECK_EQ(item, 3);
    CHECK_EQ(kc_chan_send(c, &item), 0);
    kc_chan_release(c);
    CHECK_EQ(d.n, 4);
    CHECK_EQ(d.items[3], 3);
}

/* Looks at the channel, takes out the new item and puts another one in, once. */
static void uses_the_channel(void *item, void *arg)
{
    struct dropped *d = arg;
    int other = 50;

    notes(item, d);
    if (d->n > 1)
        return;
    CHECK_EQ(kc_chan_len(d->c), 1);
    CHECK_EQ(kc_chan_try_recv(d->c, &d->rc), 0);
    CHECK_EQ(kc_chan_try_send(d->c, &other), 0);
    other = 51;
    CHECK_EQ(kc_chan_send(d->c, &other), 0); /* replaces 50: the hook is called inside itself */
}

TEST(the_hook_of_a_latest_channel_may_use_the_channel)
{
    struct dropped d = { 0 };
    kc_chan_t *c = d.c = chan_with(KC_CHAN_LATEST, uses_the_channel, &d);
    int item = 1;

    CHECK_EQ(kc_chan_try_send(c, &item), 0);
    item = 2;
    CHECK_EQ(kc_chan_try_send(c, &item), 0);
    CHECK_EQ(d.rc, 2);
    CHECK_EQ(d.n, 2);
    CHECK_EQ(d.items[0], 1);
    CHECK_EQ(d.items[1], 50);
    CHECK_EQ(kc_chan_try_recv(c, &item), 0);
    CHECK_EQ(item, 51);
    kc_chan_release(c);
}

static void is_aligned(void *item, void *arg)
{
    CHECK_EQ((uintptr_t)item % _Alignof(max_align_t), 0);
    ++*(int *)arg;
}

TEST(the_hook_gets_an_item_that_is_aligned_for_any_type)
{
    size_t capacities[] = { 3, KC_CHAN_UNLIMITED, KC_CHAN_LATEST };

    for (int k = 0; k < 3; k++) {
        int n = 0;
        kc_chan_opts_t opts = { sizeof(max_align_t), capacities[k], is_aligned, &n, NULL };
        kc_chan_t *c = NULL;
        max_align_t item;
        memset(&item, 0, sizeof item);
        CHECK_EQ(kc_chan_create_with(&opts, &c), 0);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(kc_chan_try_send(c, &item), 0);
        kc_chan_release(c);
        CHECK_EQ(n, 3);
    }
}

/* ---- bad use -------------------------------------------------------------------------------- */

static int waits_there(void *arg)
{
    int item;

    return kc_chan_recv(arg, &item);
}

static int releases_under_it(void *arg UNUSED)
{
    kc_chan_t *c = chan(sizeof(int), 0);

    CHECK_EQ(kc_launch(waits_there, c), 0);
    UNTIL(in_line(c, KC_RECV) == 1);
    kc_chan_release(c);
    return 0;
}

TEST_ABORTS(releasing_a_channel_where_somebody_waits_aborts, "kc_chan_release")
{
    kc_sched_opts_t opts = { .workers = 1 };

    (void)!kc_run(releases_under_it, NULL, &opts);
}

/* What was freed, as far as the heap has not given it to somebody else. */
static kc_chan_t *stale(void)
{
    static kc_chan_t gone;

    return &gone;
}

TEST_ABORTS(sending_to_what_is_no_channel_aborts, "kc_chan_send")
{
    int item = 0;

    (void)!kc_chan_send(stale(), &item);
}

TEST_ABORTS(receiving_from_what_is_no_channel_aborts, "kc_chan_recv_until")
{
    (void)!kc_chan_recv_until(stale(), NULL, 0);
}

TEST_ABORTS(trying_to_receive_from_what_is_no_channel_aborts, "kc_chan_try_recv")
{
    (void)kc_chan_try_recv(stale(), NULL);
}

TEST_ABORTS(a_select_of_what_is_no_channel_aborts, "kc_select")
{
    kc_case_t one = { .op = KC_RECV, .chan = stale() };

    (void)!kc_select(&one, 1, 0);
}

TEST_ABORTS(releasing_what_is_no_channel_aborts, "kc_chan_release")
{
    kc_chan_release(stale());
}

TEST_ABORTS(retaining_null_aborts, "kc_chan_retain")
{
    kc_chan_retain(NULL);
}

TEST_ABORTS(closing_null_aborts, "kc_chan_close")
{
    kc_chan_close(NULL);
}

TEST_ABORTS(the_length_of_null_aborts, "kc_chan_len")
{
    (void)kc_chan_len(NULL);
}

TEST_ABORTS(a_second_last_release_aborts, "kc_chan_release")
{
    if (kc_test_under_asan() || kc_test_under_tsan() || kc_test_under_valgrind())
        SKIP("the tool says so first");
    kc_chan_t *c = chan(sizeof(int), 0);

    kc_chan_release(c);
    kc_chan_release(c);
}

static kc_chan_t *for_handlers;

static void in_a_handler(kc_slot_fn_t fn)
{
    kc_signal_t *signal = kc_signal_create(0);
    kc_slot_t slot;

    CHECK_EQ(kc_slot_bind(&slot, signal, KC_SIG_ALL), 0);
    CHECK(kc_slot_on(&slot, 1ull << 20, fn, NULL));
    kc_signal_emit(signal, 1ull << 20);
    kc_slot_unbind(&slot);
    kc_signal_release(signal);
}

static void receives_in_a_handler(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    (void)fired, (void)signal, (void)arg;
    (void)!kc_chan_recv(for_handlers, NULL);
}

static int waits_there_in_a_handler(void *arg UNUSED)
{
    for_handlers = chan(0, 0);
    in_a_handler(receives_in_a_handler);
    return 0;
}

TEST_ABORTS(waiting_for_an_item_in_a_handler_aborts, "kc_chan_recv")
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };

    (void)!kc_run(waits_there_in_a_handler, NULL, &opts);
}

static void tries_in_a_handler(kc_sigset_t fired, kc_signal_t *signal, void *arg)
{
    kc_case_t one = { .op = KC_RECV, .chan = for_handlers };

    (void)fired, (void)signal, (void)arg;
    CHECK_EQ(kc_chan_try_send(for_handlers, NULL), 0);
    CHECK_EQ(kc_select(&one, 1, 0), 0);
    CHECK_EQ(kc_chan_try_recv(for_handlers, NULL), -EAGAIN);
    for (int i = 0; i < 600; i++) /* does not let others run either */
        CHECK_EQ(i % 2 ? kc_chan_recv(for_handlers, NULL) : kc_chan_send(for_handlers, NULL), 0);
    kc_chan_close(for_handlers);
}

static int tries_there(void *arg UNUSED)
{
    for_handlers = chan(0, 1);
    in_a_handler(tries_in_a_handler);
    kc_chan_release(for_handlers);
    return 0;
}

TEST(what_need_not_wait_works_in_a_handler)
{
    kit_in_a_job(tries_there);
}
