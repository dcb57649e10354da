/* SPDX-License-Identifier: MIT */
/*
 * select_meet_test.c - selects on several threads, each of which wants what another offers, and
 * begins at the other end (H3).
 *
 * WHAT     Two that go for each other at the same moment have claimed themselves in vain, and try
 *          again. That is rare. So there is an adversary, which makes it happen in every call, and
 *          in every try that it can: it lets none take a step before the other has come as far, or
 *          sleeps. A step is a look, or what is done when it has claimed itself. The linker puts
 *          the adversary into kc__chan_is_ready, kc__chan_try, kc__os_wait, and kc__alloc, which is
 *          called before the first try if there are more than a few cases (--wrap).
 *
 *          Another one comes between two looks of a try, if it can, or between the first looks of a
 *          select and its places in line.
 */
#include "base/os.h"
#include "chan_kit.h"

enum { MEMBERS = 3, MANY = 9 /* cases, so that they need memory */ };

/* Each sends on a channel of its own, or receives from that of the next one. */
struct ring {
    kc_chan_t *c[MEMBERS];
    int n, rounds;
    bool biased;
    count_t sent, received, sum, in, done, out;
};

static void prepare(struct ring *r, int n, int rounds, bool biased)
{
    *r = (struct ring){ .n = n, .rounds = rounds, .biased = biased };
    for (int i = 0; i < n; i++)
        r->c[i] = chan(sizeof(int), 0);
}

/* One round. False: the channels are closed. */
static bool meets(struct ring *r, int i, size_t cases, int item)
{
    int got = 0;
    kc_case_t of[MANY] = { { KC_SEND, r->c[i], &item, 99 },
                           { KC_RECV, r->c[(i + 1) % r->n], &got, 99 } };

    for (size_t k = 2; k < cases; k++)
        of[k] = (kc_case_t){ KC_RECV, NULL, NULL, 99 };
    int which =
        r->biased ? kc_select_biased(of, cases, KC_FOREVER) : kc_select(of, cases, KC_FOREVER);
    CHECK(which == 0 || which == 1);
    if (of[which].rc == -EPIPE)
        return false;
    CHECK_EQ(of[which].rc, 0);
    add(which == 0 ? &r->sent : &r->received);
    kc_add_relaxed(&r->sum, which == 0 ? item : -got);
    return true;
}

/* The last one has nobody to meet, and hears that it is over. */
static void is_through(struct ring *r)
{
    if (add(&r->done) == r->n - 2)
        for (int k = 0; k < r->n; k++)
            kc_chan_close(r->c[k]);
    add(&r->out);
}

static int is_a_member(void *arg)
{
    struct ring *r = arg;
    int i = add(&r->in), done = 0;

    UNTIL(get(&r->in) == r->n);
    while (done < r->rounds && meets(r, i, 2, 1 + done))
        done++;
    is_through(r);
    return 0;
}

/* All but one have had all their rounds, and what was sent was received. */
static void check_ring(struct ring *r)
{
    int sent = get(&r->sent);

    CHECK_EQ(get(&r->out), r->n);
    CHECK_EQ(sent, get(&r->received));
    CHECK_EQ(get(&r->sum), 0);
    CHECK_GE(2 * sent, (r->n - 1) * r->rounds);
    CHECK(r->n > 2 || sent == r->rounds);
    for (int i = 0; i < r->n; i++) {
        CHECK(!r->c[i]->senders && !r->c[i]->receivers);
        kc_chan_release(r->c[i]);
    }
}

IN_A_JOB(selects_in_a_ring_that_begin_at_different_ends_meet_in_pairs)
{
    for (int k = 0; k < 4; k++) {
        struct ring r;
        prepare(&r, 2 + k / 2, 500, k % 2);
        for (int i = 0; i < r.n; i++)
            CHECK_EQ(kc_launch(is_a_member, &r), 0);
        UNTIL(get(&r.out) == r.n);
        check_ring(&r);
    }
    return 0;
}

TEST(selects_of_plain_threads_in_a_ring_that_begin_at_different_ends_meet_in_pairs)
{
    for (int k = 0; k < 4; k++) {
        struct ring r;
        pthread_t thread[MEMBERS];
        prepare(&r, 2 + k / 2, 2000, k % 2);
        for (int i = 0; i < r.n; i++)
            thread[i] = thread_runs(is_a_member, &r);
        for (int i = 0; i < r.n; i++)
            pthread_join(thread[i], NULL);
        check_ring(&r);
    }
}

/* ---- the adversary -------------------------------------------------------------------------- */

enum { IN_VAIN = 3, MOST = 30 }; /* steps of a try in vain; of a call: then it gives up */

static struct {
    count_t begun[2];  /* of each thread: its calls              */
    count_t steps[2];  /* in this call                           */
    count_t asleep[2]; /* waits for the other one, or for a lock */
} seen;

static _Thread_local int me = -1;   /* the number of this thread, if the adversary knows it */
static _Thread_local bool lines_up; /* it has tried each case, and stands in line now */

void *__real_kc__alloc(size_t size);
void *__wrap_kc__alloc(size_t size);
bool __real_kc__chan_is_ready(const kc_chan_t *c, int op, const kc_wait_t *self);
bool __wrap_kc__chan_is_ready(const kc_chan_t *c, int op, const kc_wait_t *self);
int __real_kc__chan_try(kc_chan_t *c, int op, void *item, kc_chan_after_t *after);
int __wrap_kc__chan_try(kc_chan_t *c, int op, void *item, kc_chan_after_t *after);
void __real_kc__os_wait(const void *word, uint32_t expected, int64_t until);
void __wrap_kc__os_wait(const void *word, uint32_t expected, int64_t until);

static _Thread_local void (*between)(
    const kc_chan_t *looked_at);                 /* before a look; NULL: nothing */
static _Thread_local void (*before_lines)(void); /* before it stands in line; NULL: nothing */

/* Not before the other has come as far. Both have the lock of a channel, and not of the same. */
static void step(void)
{
    if (!lines_up)
        return;
    int steps = add(&seen.steps[me]) + 1;
    while (steps <= MOST && get(&seen.steps[1 - me]) < steps && !get(&seen.asleep[1 - me]))
        sched_yield();
}

/* In a call, before its first try: who stands in line already would be found by the other. */
void *__wrap_kc__alloc(size_t size)
{
    if (me >= 0) {
        set(&seen.steps[me], 0);
        int calls = add(&seen.begun[me]) + 1;
        while (get(&seen.begun[1 - me]) < calls)
            sched_yield();
        lines_up = true;
    }
    if (before_lines)
        before_lines();
    return __real_kc__alloc(size);
}

bool __wrap_kc__chan_is_ready(const kc_chan_t *c, int op, const kc_wait_t *self)
{
    if (between)
        between(c);
    bool ready = __real_kc__chan_is_ready(c, op, self);

    step();
    return ready;
}

int __wrap_kc__chan_try(kc_chan_t *c, int op, void *item, kc_chan_after_t *after)
{
    if (between)
        between(c);
    step();
    return __real_kc__chan_try(c, op, item, after);
}

void __wrap_kc__os_wait(const void *word, uint32_t expected, int64_t until)
{
    if (me >= 0)
        set(&seen.asleep[me], 1);
    __real_kc__os_wait(word, expected, until);
    if (me >= 0)
        set(&seen.asleep[me], 0);
}

/* The first try is in vain, the second one is not. */
static int meets_the_adversary(void *arg)
{
    struct ring *r = arg;

    me = add(&r->in);
    for (int done = 0; done < r->rounds; done++) {
        lines_up = false;
        CHECK(meets(r, me, MANY, 1 + done));
        CHECK_GT(get(&seen.steps[me]), IN_VAIN);
        CHECK_LT(get(&seen.steps[me]), 2 * IN_VAIN);
    }
    me = -1;
    lines_up = false;
    is_through(r);
    return 0;
}

static void two_meet_the_adversary(kc_fn_t fn)
{
    struct ring r;
    pthread_t thread;

    prepare(&r, 2, 300, true);
    thread = thread_runs(fn, &r);
    (void)fn(&r);
    pthread_join(thread, NULL);
    check_ring(&r);
}

TEST(two_selects_that_go_for_each_other_at_every_step_meet_in_the_second_try)
{
    two_meet_the_adversary(meets_the_adversary);
}

/* In a job on this thread. */
static int meets_the_adversary_as_a_job(void *arg)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS };

    return kc_run(meets_the_adversary, arg, &opts);
}

TEST(two_selects_of_jobs_that_go_for_each_other_at_every_step_meet_in_the_second_try)
{
    two_meet_the_adversary(meets_the_adversary_as_a_job);
}

/* ---- between two looks (H3) ----------------------------------------------------------------- */

static struct {
    kc_chan_t *empty, *full; /* the cases, in this order */
    bool came;
} between_looks;

/* Whoever comes between the looks at the two sends on the first and receives from the second, in
 * this order: so one of them is ready at each moment. The caller has the lock of the second one. */
static void moves_the_item(const kc_chan_t *looked_at)
{
    kc_chan_t *empty = between_looks.empty, *full = between_looks.full;
    kc_chan_after_t after = { NULL, NULL };
    int item = 1;

    if (looked_at != full || !kc__spin_trylock_untold(&empty->lock))
        return; /* nobody can come between */
    CHECK_EQ(__real_kc__chan_try(empty, KC_SEND, &item, &after), 0);
    kc__spin_unlock_untold(&empty->lock);
    CHECK_EQ(__real_kc__chan_try(full, KC_RECV, &item, &after), 0);
    between_looks.came = true;
}

TEST(a_try_does_not_say_none_if_one_was_ready_at_each_moment)
{
    int item = 1, got = 0;

    for (int k = 0; k < 4; k++) { /* whatever their addresses; biased, or not */
        kc_chan_t *one = chan(sizeof(int), 1), *other = chan(sizeof(int), 1);
        between_looks.empty = k % 2 ? one : other;
        between_looks.full = k % 2 ? other : one;
        between_looks.came = false;
        kc_case_t cases[2] = { { KC_RECV, between_looks.empty, &got, 99 },
                               { KC_RECV, between_looks.full, &got, 99 } };
        CHECK_EQ(kc_chan_try_send(between_looks.full, &item), 0);
        between = moves_the_item;
        int which = k / 2 ? kc_select(cases, 2, 0) : kc_select_biased(cases, 2, 0);
        between = NULL;
        CHECK_GE(which, 0);
        CHECK_EQ(cases[which].rc, 0);
        CHECK(between_looks.came == (which == 0));
        kc_chan_release(one);
        kc_chan_release(other);
    }
}

static kc_chan_t *two[2];

static void closes_two(void)
{
    for (int i = 0; i < 2; i++)
        kc_chan_close(two[i]);
}

/* All are idle at the first look. */
static int chooses_among_two_that_come(void *arg UNUSED)
{
    kc_chan_t *idle = chan(0, 0);
    kc_case_t cases[MANY];
    int often[MANY] = { 0 };

    for (int k = 0; k < 1000; k++) {
        for (int i = 0; i < MANY; i++)
            cases[i] = (kc_case_t){ .op = KC_RECV, .chan = idle };
        for (int i = 0; i < 2; i++)
            cases[MANY - 2 + i].chan = two[i] = chan(0, 0);
        before_lines = closes_two;
        int which = kc_select(cases, MANY, KC_FOREVER);
        before_lines = NULL;
        CHECK_GE(which, 0);
        often[which]++;
        for (int i = 0; i < 2; i++)
            kc_chan_release(two[i]);
    }
    CHECK_GE(often[MANY - 2], 300); /* 12 times the standard deviation away */
    CHECK_GE(often[MANY - 1], 300);
    kc_chan_release(idle);
    return 0;
}

TEST(cases_that_become_ready_before_a_select_waits_are_chosen_evenly)
{
    kc_sched_opts_t opts = { .workers = KC_NO_WORKERS, .seed = 1 };

    CHECK_EQ(chooses_among_two_that_come(NULL), 0);
    CHECK_EQ(kc_run(chooses_among_two_that_come, NULL, &opts), 0);
}
