/* SPDX-License-Identifier: MIT */
/*
 * switch_probe.h - the machines, for tests of the context switch: what C cannot say of registers.
 *
 * Functions without a body here are in switch_probe_<arch>.S; a test program links the one of its
 * architecture. Control words are read and written with the machine's own instructions: so
 * kc__switch_fp_control has a judge, and x86-64's two units can be set one at a time, which
 * fesetround would not do.
 *
 * Of each machine:
 *   PROBE_INTS, PROBE_FLOATS   how many registers are callee-saved, the stack pointer not counted
 *   probe_registers            those: the integer ones, then the floating-point ones, each in the
 *                              order of struct kc_frame
 *   FRAME_POINTER              the field of struct kc_frame for the frame pointer
 *   CALLERS_FRAME_POINTER      where its caller's is kept, in words from a function's own; on
 *                              RISC-V that holds for functions that call others
 *   RETURN_ADDRESS_SIZE        what a call leaves on the stack
 *   FP_CONTROL_BITS            the bits of the control words that may be changed one at a time
 *   TUNINGS                    how many kinds of processors the switch is tuned for
 */
#ifndef KC_TEST_UNIT_SWITCH_PROBE_H
#define KC_TEST_UNIT_SWITCH_PROBE_H

#include "coro/switch.h"

struct probe_register {
    const char *name;
    size_t offset; /* in struct kc_frame */
};
#define PROBE_REGISTER(name_)                                                                     \
    {                                                                                             \
#name_, offsetof(struct kc_frame, name_)                                                  \
    }

#if defined(__x86_64__)

enum { PROBE_INTS = 6, PROBE_FLOATS = 0, TUNINGS = 2 };
enum { CALLERS_FRAME_POINTER = 0, RETURN_ADDRESS_SIZE = 8 };
#define FRAME_POINTER rbp
#define FP_CONTROL_BITS ((uint64_t)0x0f3f << 32 | 0xffc0)

static const struct probe_register probe_registers[] = {
    PROBE_REGISTER(r15), PROBE_REGISTER(r14), PROBE_REGISTER(r13),
    PROBE_REGISTER(r12), PROBE_REGISTER(rbx), PROBE_REGISTER(rbp),
};

extern uint8_t kc__switch_load_mxcsr; /* switch.c */

/* Chooses one of the TUNINGS. */
static inline void probe_tune(int kind)
{
    kc__switch_load_mxcsr = (uint8_t)kind;
}

/* The control words, as they stand in a frame. */
static inline uint64_t probe_fp_read(void)
{
    uint32_t mxcsr;
    uint16_t x87;

    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87));
    return (uint64_t)x87 << 32 | mxcsr;
}

static inline void probe_fp_write(uint64_t control)
{
    uint32_t mxcsr = (uint32_t)control;
    uint16_t x87 = (uint16_t)(control >> 32);

    __asm__ volatile("fnclex\n\tldmxcsr %0\n\tfldcw %1" : : "m"(mxcsr), "m"(x87));
}

/* The control words with another direction of rounding. */
static inline uint64_t probe_fp_round(uint64_t control, bool up)
{
    control &= ~((uint64_t)0x0c00 << 32 | 0x6000);
    return control | (up ? (uint64_t)0x0800 << 32 | 0x4000 : (uint64_t)0x0400 << 32 | 0x2000);
}

#elif defined(__aarch64__)

enum { PROBE_INTS = 11, PROBE_FLOATS = 8, TUNINGS = 1 };
enum { CALLERS_FRAME_POINTER = 0, RETURN_ADDRESS_SIZE = 0 };
#define FRAME_POINTER fp
#define FP_CONTROL_BITS ((uint64_t)0x07c80000) /* FZ16, the rounding mode, FZ, DN, AHP */

static const struct probe_register probe_registers[] = {
    PROBE_REGISTER(x19), PROBE_REGISTER(x20), PROBE_REGISTER(x21), PROBE_REGISTER(x22),
    PROBE_REGISTER(x23), PROBE_REGISTER(x24), PROBE_REGISTER(x25), PROBE_REGISTER(x26),
    PROBE_REGISTER(x27), PROBE_REGISTER(x28), PROBE_REGISTER(fp),  PROBE_REGISTER(d8),
    PROBE_REGISTER(d9),  PROBE_REGISTER(d10), PROBE_REGISTER(d11), PROBE_REGISTER(d12),
    PROBE_REGISTER(d13), PROBE_REGISTER(d14), PROBE_REGISTER(d15),
};

static inline void probe_tune(int kind)
{
    (void)kind;
}

static inline uint64_t probe_fp_read(void)
{
    uint64_t fpcr;

    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
}

static inline void probe_fp_write(uint64_t control)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
}

static inline uint64_t probe_fp_round(uint64_t control, bool up)
{
    return (control & ~((uint64_t)3 << 22)) | (uint64_t)(up ? 1 : 2) << 22;
}

#else

enum { PROBE_INTS = 12, PROBE_FLOATS = 12, TUNINGS = 1 };
enum { CALLERS_FRAME_POINTER = -2, RETURN_ADDRESS_SIZE = 0 };
#define FRAME_POINTER s0
#define FP_CONTROL_BITS ((uint64_t)7)

static const struct probe_register probe_registers[] = {
    PROBE_REGISTER(s0),  PROBE_REGISTER(s1),  PROBE_REGISTER(s2),   PROBE_REGISTER(s3),
    PROBE_REGISTER(s4),  PROBE_REGISTER(s5),  PROBE_REGISTER(s6),   PROBE_REGISTER(s7),
    PROBE_REGISTER(s8),  PROBE_REGISTER(s9),  PROBE_REGISTER(s10),  PROBE_REGISTER(s11),
    PROBE_REGISTER(fs0), PROBE_REGISTER(fs1), PROBE_REGISTER(fs2),  PROBE_REGISTER(fs3),
    PROBE_REGISTER(fs4), PROBE_REGISTER(fs5), PROBE_REGISTER(fs6),  PROBE_REGISTER(fs7),
    PROBE_REGISTER(fs8), PROBE_REGISTER(fs9), PROBE_REGISTER(fs10), PROBE_REGISTER(fs11),
};

static inline void probe_tune(int kind)
{
    (void)kind;
}

static inline uint64_t probe_fp_read(void)
{
    uint64_t frm;

    __asm__ volatile("frrm %0" : "=r"(frm));
    return frm;
}

static inline void probe_fp_write(uint64_t control)
{
    __asm__ volatile("fsrm %0" : : "r"(control));
}

static inline uint64_t probe_fp_round(uint64_t control, bool up)
{
    (void)control;
    return up ? 3 : 2;
}

#endif

enum { PROBE_ALL = PROBE_INTS + PROBE_FLOATS };
_Static_assert(sizeof probe_registers / sizeof probe_registers[0] == PROBE_ALL, "as counted");

/*
 * Loads every callee-saved register from load, calls kc__switch(save_sp, to_sp) or, if then is not
 * NULL, kc__switch_then(save_sp, to_sp, then, arg), and stores what is in the registers after that
 * in found. Returns what the switch has returned. So it is both: the one that looks whether its
 * registers are kept, and the one that overwrites everybody else's.
 */
int switch_probe(void **save_sp, void *to_sp, void (*then)(void *arg), void *arg,
                 const uint64_t load[PROBE_ALL], uint64_t found[PROBE_ALL]);

/* The address after the last instruction of switch_probe. */
extern const char switch_probe_end[];

/* The argument of switch_probe_sp, which knows the offsets 0 and 8. */
struct probe_sp {
    uint64_t sp;
    void (*next)(void *arg);
};

/* Stores its stack pointer in ((struct probe_sp *)arg)->sp and continues as next(arg). */
void switch_probe_sp(void *arg);

/* Adds one to *(uint64_t *)arg and overwrites every integer register that a function may: with
 * ones and zeros in turn, as a stale zero may pass for control words and a stale one not for 0. */
void switch_probe_trash(void *arg);

#endif
