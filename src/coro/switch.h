/* SPDX-License-Identifier: MIT */
/*
 * switch.h - the context switch: what a stack at rest looks like and how one is left for another.
 *
 * A stack at rest is known by one word, its stack pointer, which points to a struct kc_frame: the
 * registers that the platform's calling convention wants kept over a call, and the floating-point
 * control words. Everything else the C compiler has saved already, because the switch is a call.
 *
 *      higher addresses
 *     +---------------------------+
 *     | frames of the coroutine   |
 *     +---------------------------+  <- where the caller of kc__switch continues
 *     | struct kc_frame           |
 *     +---------------------------+  <- the saved stack pointer
 *      lower addresses: free, and after that the guard
 *
 * switch_<arch>.S is the only other place that knows the layout; the assertions below tie both.
 */
#ifndef KC_CORO_SWITCH_H
#define KC_CORO_SWITCH_H

#include "base/base.h"

_Static_assert(sizeof(void *) == 8, "the assembly stores pointers of 8 bytes");

#if defined(__x86_64__)

/* fp_control: MXCSR in the low 32 bits, the x87 control word in the next 16. */
struct kc_frame {
    union {
        uint64_t fp_control;
        struct {
            uint32_t mxcsr;
            uint16_t x87;
            int16_t result;
        };
    };
    uint64_t r15, r14, r13, r12, rbx, rbp;
    uint64_t pc;
};
_Static_assert(sizeof(struct kc_frame) == 64, "as switch_x86_64.S");
#define KC_FP_CONTROL_BITS 0x0000ffff0000ffc0u
#define KC_FRAME_ARG r12 /* where kc__switch_start finds what it is to call */
#define KC_FRAME_ENTRY r13

#elif defined(__aarch64__)

struct kc_frame {
    uint64_t x19, x20, x21, x22, x23, x24, x25, x26, x27, x28;
    uint64_t fp, pc; /* x29, x30 */
    uint64_t d8, d9, d10, d11, d12, d13, d14, d15;
    uint64_t fp_control; /* FPCR */
    int64_t result;
};
_Static_assert(sizeof(struct kc_frame) == 176, "as switch_aarch64.S");
#define KC_FP_CONTROL_BITS UINT64_MAX
#define KC_FRAME_ARG x19
#define KC_FRAME_ENTRY x20

#elif defined(__riscv) && __riscv_xlen == 64

struct kc_frame {
    uint64_t pc; /* ra */
    uint64_t s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11;
    uint64_t fs0, fs1, fs2, fs3, fs4, fs5, fs6, fs7, fs8, fs9, fs10, fs11;
    union {
        uint64_t fp_control; /* frm, in the low 32 bits */
        struct {
            uint32_t frm;
            int32_t result;
        };
    };
};
_Static_assert(sizeof(struct kc_frame) == 208, "as switch_riscv64.S");
#define KC_FP_CONTROL_BITS UINT64_MAX
#define KC_FRAME_ARG s1
#define KC_FRAME_ENTRY s2

#else
#error "kcoro has no context switch for this architecture"
#endif

/*
 * Leaves the current stack at rest, stores its stack pointer in *save_sp, and continues the stack
 * at rest at to_sp. Returns when somebody switches back, with what stands in the frame as the
 * result: 0, or what kc__switch_set_result has put there. So a function that has nothing more to do
 * can end with `return kc__switch(...)`, which compiles to a jump and spares a mispredicted return.
 */
int kc__switch(void **save_sp, void *to_sp);

/*
 * The same, but calls then(arg) in between: on the other stack, before that goes on, and when the
 * one we leave is at rest. This is how a context gives itself away (publishes that it has ended,
 * or puts itself into a queue): nobody can use its stack before it is off it.
 */
int kc__switch_then(void **save_sp, void *to_sp, void (*then)(void *arg), void *arg);

/* The same, and nobody will come back to the stack that is left: nothing of it is kept. */
_Noreturn void kc__switch_last(void *to_sp, void (*then)(void *arg), void *arg);

/*
 * Of a function that returns after a switch, an int or nothing: the return address that the
 * processor predicts is another coroutine's, which costs as much as the switch. Where the compiler
 * can, it returns by a piece of switch_x86_64.S that knows better.
 */
#if defined(__x86_64__) && defined(__has_attribute) && !defined(KC_MODEL) &&                      \
    !defined(__code_model_large__)
#if __has_attribute(function_return)
#define KC_AFTER_SWITCH __attribute__((function_return("thunk-extern")))
#endif
#endif
#ifndef KC_AFTER_SWITCH
#define KC_AFTER_SWITCH
#endif

/* The switch that has left this stack, which is at rest, will return rc: 16 bits, with a sign. */
KC_INLINE void kc__switch_set_result(void *sp, int rc)
{
    ((struct kc_frame *)sp)->result = (int16_t)rc;
}

/* The floating-point control words of the caller, as they stand in a frame. */
uint64_t kc__switch_fp_control(void);

/* Two of those say the same: the sticky flags that are among them do not count. */
KC_INLINE bool kc__switch_same_control(uint64_t a, uint64_t b)
{
    return ((a ^ b) & KC_FP_CONTROL_BITS) == 0;
}

/* Finds out what the processor does better; called once, before the first switch. */
void kc__switch_tune(void);

/*
 * A fresh stack does not begin at the first byte of kc__switch_start but behind its landing pad,
 * which is 4 bytes on all architectures and not needed on this way in. Unwinders look up the byte
 * before a return address: so that of a stack that has not begun yet is inside the function too.
 */
enum { KC_SWITCH_START_SKIP = 4 };

/* Where a fresh stack begins: calls entry(arg); a backtrace ends here. entry must not return; if it
 * does, kc__switch_returned says so and aborts. */
KC_HIDDEN void kc__switch_start(void);
_Noreturn void kc__switch_returned(void);

/*
 * Puts a frame below top (any address inside the stack) that starts entry(arg) when it is switched
 * to. Returns the stack pointer to switch to.
 */
#ifdef KC_MODEL /* test/model has its own, which keeps books */
void *kc__switch_make(void *top, uint64_t fp_control, void (*entry)(void *arg), void *arg);
#else
KC_INLINE void *kc__switch_make(void *top, uint64_t fp_control, void (*entry)(void *arg),
                                void *arg)
{
    /* kc__switch_start runs with the stack pointer just above the frame: 16-byte aligned, as before
     * a call on all three architectures. */
    struct kc_frame *f = (struct kc_frame *)((uintptr_t)top & ~(uintptr_t)15) - 1;

    *f = (struct kc_frame){ 0 };
    f->fp_control = fp_control;
    f->pc = (uintptr_t)kc__switch_start + KC_SWITCH_START_SKIP;
    f->KC_FRAME_ARG = (uintptr_t)arg;
    f->KC_FRAME_ENTRY = (uintptr_t)entry;
    return f;
}
#endif

#endif
