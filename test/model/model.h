/* SPDX-License-Identifier: MIT */
/*
 * model.h - a model checker for the library's lock-free code: every schedule, every stale read.
 *
 * WHAT     A model is a few threads of a few atomic operations each, written with the real source
 *          over base/atomic.h. model_explore runs it again and again, each time another way, until
 *          every way within the bound on preemptions has been seen, or one fails. An execution
 *          fails by model_assert, KC_ASSERT, a data race on model_read and model_write, a use of
 *          what model_free has freed, a deadlock or too many steps.
 *
 *     static void writer(int arg) { model_write(&data, 42); kc_store_release(&flag, 1); }
 *     static void reader(int arg)
 *     {
 *         model_wait_until(kc_load_acquire(&flag) == 1);
 *         model_assert(model_read(&data) == 42);
 *     }
 *     static const struct model_thread two[] = { { "w", writer, 0 }, { "r", reader, 0 } };
 *     TEST(message) { model_must_pass((struct model_options){ "message" }, two, 2, reset, NULL); }
 *
 * WHO      setup runs before each execution and must put everything back to its start; check runs
 *          after each. In both, and outside of model_explore, atomic operations act on memory
 *          directly. All runs on one system thread, so a model may keep ordinary variables for its
 *          own bookkeeping: nothing else runs between two atomic operations. Data under test goes
 *          through model_read and model_write. What a model changes is static, or local to its
 *          threads: elsewhere the checker does not see that two states differ, and cuts (prune.h).
 *
 * LIMITS   What the simulated memory leaves out stands in the head of model.c.
 */
#ifndef KC_TEST_MODEL_H
#define KC_TEST_MODEL_H

#include "base/base.h"

/* As bits, so that weakening is masking. */
enum {
    MODEL_RELAXED = 0,
    MODEL_ACQUIRE = 1,
    MODEL_RELEASE = 2,
    MODEL_ACQ_REL = 3,
    MODEL_SEQ_CST = 7,
    MODEL_TORN = 8 /* as a weakening: the order stays, a read-modify-write becomes two steps */
};
enum { MODEL_UNBOUNDED = -1 };

struct model_thread {
    const char *name;
    void (*run)(int arg);
    int arg;
};

struct model_options {
    const char *name;
    int preemptions;         /* at most so many per execution; 0: 3; or MODEL_UNBOUNDED */
    int max_steps;           /* more operations in one execution are a livelock; 0: 1000 */
    uint64_t max_executions; /* give up, not exhausted; 0: 20 million */
    /*
     * A negative control: operations whose source line carries this id of an ORDER table in a
     * comment are weakened to `to`. The sources must be readable where the compiler found them.
     */
    struct {
        const char *id;
        int to;
    } weaken;
    /* Run this one schedule, with a trace; so does MODEL_REPLAY=name:schedule, as a variable. */
    const char *replay;
    /* Thread i goes on: sets what the sources keep in thread-local variables. NULL: nothing. */
    void (*enters)(int i);
    bool all;   /* states that are known are walked again, as if the environment has MODEL_ALL */
    bool quiet; /* no trace of a failure, unless the environment has MODEL_TRACE */
};

struct model_result {
    uint64_t executions; /* those that were cut, too */
    bool exhausted;      /* everything within the bound was seen */
    bool failed, replayed;
    bool weakened;   /* the operation to weaken was met */
    int preemptions; /* the bound */
    double seconds;  /* of the processor */
    char name[64];   /* with the weakened id, as MODEL_REPLAY wants it */
    char why[256];
    char schedule[4096]; /* the choices of the failing execution, for replay */
};

struct model_result model_explore(struct model_options options, const struct model_thread *threads,
                                  int count, void (*setup)(void), void (*check)(void));

/* As a test: passes and is exhausted; or fails, and the reason contains why. Both print a line. */
void model_must_pass(struct model_options options, const struct model_thread *threads, int count,
                     void (*setup)(void), void (*check)(void));
void model_must_fail(struct model_options options, const struct model_thread *threads, int count,
                     void (*setup)(void), void (*check)(void), const char *why);

/* ---- inside a model ------------------------------------------------------------------------- */

/* Ends the execution as a failure: in a model, kc__die does that. */
#define model_fail(...) kc__die(__VA_ARGS__)
#define NEVER model_fail("%s is called", __func__) /* the body of what no model calls */
#define model_assert(cond)                                                                        \
    ((cond) ? (void)0 : model_fail("not true: %s, line %d", #cond, __LINE__))

/* What the trace calls the object at p; without it, the operand's text. Called in setup. */
void model_name(const void *p, const char *name);

/* Plain data: a pair of accesses that happens-before does not order, one a write, is a failure. */
#define model_read(p)                                                                             \
    MODEL_VALUE_(model__data(MODEL_SITE(#p, "read", 0), (p), sizeof *(p), false), *(p))
#define model_write(p, v)                                                                         \
    (model__data(MODEL_SITE(#p, "write", 0), (p), sizeof *(p), true), (void)(*(p) = (v)))

/* [p, p + size) is gone: a use of it, plain or atomic, that does not happen before is a failure. */
#define model_free(p, size) model__free(MODEL_SITE(#p, "free", 0), (p), (size))

/* Waits until cond holds; cond only reads. A loop of one's own calls model_spin instead of a pause:
 * the thread goes on when something it read since the last model_spin has changed. */
#define model_wait_until(cond)                                                                    \
    do {                                                                                          \
        for (model__spin(true); !(cond);)                                                         \
            model__spin(false);                                                                   \
    } while (0)
#define model_spin() model__spin(false)

/* A futex: block returns at once unless *p == expected, else when woken; wake wakes up to n, any.
 * Neither carries happens-before. */
#define model_block(p, expected)                                                                  \
    model__block(MODEL_SITE(#p, "block", 0), (p), sizeof *(p), (uint64_t)(expected))
#define model_wake(p, n) model__wake(MODEL_SITE(#p, "wake", 0), (p), (n))

/* ---- for the macros here and in model_atomic.h ---------------------------------------------- */

struct model_site {
    const char *file, *func, *operand, *name;
    int line;
    unsigned char order, order_now; /* as written; as weakened */
    unsigned generation;            /* order_now and torn hold for this exploration */
    bool torn;
    char note[40]; /* the comment on its line, once read */
};
#define MODEL_SITE(operand_, name_, order_)                                                       \
    __extension__({                                                                               \
        static __attribute__((                                                                    \
            section("model_sites"))) struct model_site site_ = { .file = __FILE__,                \
                                                                 .func = __func__,                \
                                                                 .line = __LINE__,                \
                                                                 .operand = operand_,             \
                                                                 .name = name_,                   \
                                                                 .order = order_ };               \
        &site_;                                                                                   \
    })
/* An expression whose value may go unused, as a function's may. */
#define MODEL_VALUE_(...) __extension__({ __VA_ARGS__; })
enum model_rmw { MODEL_ADD, MODEL_SUB, MODEL_AND, MODEL_OR, MODEL_XCHG };

uint64_t model__load(struct model_site *site, const void *p, size_t size);
void model__store(struct model_site *site, void *p, size_t size, uint64_t value);
uint64_t model__rmw(struct model_site *site, void *p, size_t size, enum model_rmw how, uint64_t v);
bool model__cas(struct model_site *site, void *p, size_t size, void *expected, uint64_t value);
void model__fence(struct model_site *site);
void model__data(struct model_site *site, const void *p, size_t size, bool write);
void model__free(struct model_site *site, const void *p, size_t size);
void model__spin(bool begin); /* begin: only forgets what was read before */
void model__block(struct model_site *site, const void *p, size_t size, uint64_t expected);
void model__wake(struct model_site *site, const void *p, int n);

#endif
