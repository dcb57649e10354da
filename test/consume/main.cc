/* SPDX-License-Identifier: MIT */
/*
 * main.cc - the headers in C++: a lambda as a coroutine, and a block's cleanup that a destroy runs.
 */
#include <kcoro/kcoro.h>

#include <cstdio>

int main()
{
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
