/* SPDX-License-Identifier: MIT */
/*
 * main.cc - the headers in C++: a lambda as a coroutine, and what a block's end gives back, or a
 * destroy.
 */
#include <kcoro/kcoro.h>

#include <cstdio>

static kc_mutex_t mutex = KC_MUTEX_INIT;
static kc_rwlock_t table = KC_RWLOCK_INIT;

static int waits(void *)
{
    return kc_sleep(KC_FOREVER);
}

static int root(void *)
{
    kc_job_t *job = nullptr;

    int rc = kc_launch_job(waits, nullptr, nullptr, &job);
    if (rc < 0)
        return rc;
    KC_JOB_DROP_AT_END(job);
    rc = kc_mutex_lock(&mutex);
    if (rc < 0)
        return rc;
    KC_UNLOCK_AT_END(&mutex);
    {
        rc = kc_rwlock_wrlock(&table);
        if (rc < 0)
            return rc;
        KC_WRUNLOCK_AT_END(&table);
    }
    rc = kc_rwlock_rdlock(&table);
    if (rc < 0)
        return rc;
    KC_RDUNLOCK_AT_END(&table);
    return 0;
}

int main()
{
    if (kc_run(root, nullptr, nullptr) != 0 || !kc_mutex_trylock(&mutex) ||
        !kc_rwlock_trywrlock(&table))
        return 1;
    int steps = 0;
    auto body = [](void *arg) {
        KC_CLEANUP([](void *p) { *static_cast<int *>(p) += 10; }, arg);
        ++*static_cast<int *>(arg);
        kcoro_yield();
        ++*static_cast<int *>(arg);
    };
    kcoro_t *co = kcoro_create(body, &steps, 0);

    if (!co || kcoro_resume(co) != 0)
        return 1;
    kcoro_destroy(co);
    std::printf("steps %d, library %s\n", steps, kc_version());
    return steps == 11 ? 0 : 1;
}
