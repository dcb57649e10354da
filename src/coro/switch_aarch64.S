/* SPDX-License-Identifier: MIT */
/*
 * switch_aarch64.S - the context switch for AArch64, the base procedure call standard (AAPCS64).
 *
 * The frame of a stack at rest (struct kc_frame in switch.h), from the saved stack pointer up:
 *
 *      0  x19     8  x20    16  x21    24  x22    32  x23
 *     40  x24    48  x25    56  x26    64  x27    72  x28
 *     80  x29, the frame pointer       88  x30, the return address
 *     96  d8    104  d9    112  d10   120  d11
 *    128  d12   136  d13   144  d14   152  d15
 *    160  FPCR                        168  the result
 *    176  the caller's stack pointer
 *
 * Of v8-v15 the lower halves, d8-d15, are callee-saved and no more. The flags that pile up in FPSR
 * are not callee-saved. x18 belongs to the platform. A coroutine must not suspend with SME's ZA
 * live: its lazy saving is a matter between the frames of one stack, and not looked after here.
 *
 * Three things that need a reason:
 *  - The switch ends with ret, although the processor predicts returns from a stack of its own,
 *    which knows nothing of our change of stacks. A br would be predicted by its own history, but
 *    under branch target identification (BTI) it may only go to a landing pad, and a return address
 *    has none; ret is exempt. There is no counterpart to the notrack of x86-64.
 *  - The landing pads are written "hint #34", which is bti c: every assembler knows it, for every
 *    architecture level, and processors without BTI run it as a nop. The property note claims BTI
 *    alone: return addresses are not signed (PAC), the guarded control stack is not switched (GCS).
 *  - FPCR is written only if it differs: reading it is cheap, writing it may drain the pipeline.
 */

        .text

/* Leaves the frame on the current stack, and FPCR in x9. */
        .macro  save_frame
        sub     sp, sp, #176
        .cfi_def_cfa_offset 176
        stp     x19, x20, [sp, #0]
        .cfi_rel_offset x19, 0
        .cfi_rel_offset x20, 8
        stp     x21, x22, [sp, #16]
        .cfi_rel_offset x21, 16
        .cfi_rel_offset x22, 24
        stp     x23, x24, [sp, #32]
        .cfi_rel_offset x23, 32
        .cfi_rel_offset x24, 40
        stp     x25, x26, [sp, #48]
        .cfi_rel_offset x25, 48
        .cfi_rel_offset x26, 56
        stp     x27, x28, [sp, #64]
        .cfi_rel_offset x27, 64
        .cfi_rel_offset x28, 72
        stp     x29, x30, [sp, #80]
        .cfi_rel_offset x29, 80
        .cfi_rel_offset x30, 88
        stp     d8, d9, [sp, #96]
        .cfi_rel_offset d8, 96
        .cfi_rel_offset d9, 104
        stp     d10, d11, [sp, #112]
        .cfi_rel_offset d10, 112
        .cfi_rel_offset d11, 120
        stp     d12, d13, [sp, #128]
        .cfi_rel_offset d12, 128
        .cfi_rel_offset d13, 136
        stp     d14, d15, [sp, #144]
        .cfi_rel_offset d14, 144
        .cfi_rel_offset d15, 152
        mrs     x9, fpcr
        stp     x9, xzr, [sp, #160]
        .endm

/* The stack pointer is at a frame now: where it has what the unwinder wants. */
        .macro  at_frame
        .cfi_def_cfa_offset 176
        .irp    n, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
        .cfi_rel_offset x\n, (\n - 19) * 8
        .endr
        .irp    n, 8, 9, 10, 11, 12, 13, 14, 15
        .cfi_rel_offset d\n, 96 + (\n - 8) * 8
        .endr
        .endm

/* int kc__switch(void **save_sp [x0], void *to_sp [x1]) */
        .globl  kc__switch
        .hidden kc__switch
        .type   kc__switch, %function
        .p2align 6
kc__switch:
        .cfi_startproc
        hint    #34
        save_frame
        mov     x10, sp
        str     x10, [x0]

        /* Both stacks have the same frame, so the unwind information holds on the other one too. */
        mov     sp, x1
.Lcontinue:
        ldp     x10, x0, [sp, #160]
        cmp     x9, x10
        b.ne    2f
1:      .cfi_remember_state
        ldp     x19, x20, [sp, #0]
        .cfi_restore x19
        .cfi_restore x20
        ldp     x21, x22, [sp, #16]
        .cfi_restore x21
        .cfi_restore x22
        ldp     x23, x24, [sp, #32]
        .cfi_restore x23
        .cfi_restore x24
        ldp     x25, x26, [sp, #48]
        .cfi_restore x25
        .cfi_restore x26
        ldp     x27, x28, [sp, #64]
        .cfi_restore x27
        .cfi_restore x28
        ldp     x29, x30, [sp, #80]
        .cfi_restore x29
        .cfi_restore x30
        ldp     d8, d9, [sp, #96]
        .cfi_restore d8
        .cfi_restore d9
        ldp     d10, d11, [sp, #112]
        .cfi_restore d10
        .cfi_restore d11
        ldp     d12, d13, [sp, #128]
        .cfi_restore d12
        .cfi_restore d13
        ldp     d14, d15, [sp, #144]
        .cfi_restore d14
        .cfi_restore d15
        add     sp, sp, #176
        .cfi_def_cfa_offset 0
        ret

        /* Back at the full frame. */
        .cfi_restore_state
2:      msr     fpcr, x10
        b       1b
        .cfi_endproc
        .size   kc__switch, . - kc__switch

/* int kc__switch_then(void **save_sp [x0], void *to_sp [x1], void (*then)(void *) [x2],
 *                     void *arg [x3]) */
        .globl  kc__switch_then
        .hidden kc__switch_then
        .type   kc__switch_then, %function
        .p2align 4
kc__switch_then:
        .cfi_startproc
        hint    #34
        save_frame
        mov     x10, sp
        str     x10, [x0]
        mov     sp, x1
        /* The chain of frame pointers must not lead from this stack to the one that then may give
         * away. x29 is still described as saved in the frame, which is true of both. */
        ldr     x29, [sp, #80]
        mov     x0, x3
        blr     x2
.Lgo_on:
        mrs     x9, fpcr
        b       .Lcontinue
        .cfi_endproc
        .size   kc__switch_then, . - kc__switch_then

/* _Noreturn void kc__switch_last(void *to_sp [x0], void (*then)(void *) [x1], void *arg [x2]) */
        .globl  kc__switch_last
        .hidden kc__switch_last
        .type   kc__switch_last, %function
        .p2align 4
kc__switch_last:
        .cfi_startproc
        hint    #34
        mov     sp, x0
        at_frame
        ldr     x29, [sp, #80]
        mov     x0, x2
        blr     x1
        b       .Lgo_on
        .cfi_endproc
        .size   kc__switch_last, . - kc__switch_last

/* uint64_t kc__switch_fp_control(void) */
        .globl  kc__switch_fp_control
        .hidden kc__switch_fp_control
        .type   kc__switch_fp_control, %function
        .p2align 4
kc__switch_fp_control:
        .cfi_startproc
        hint    #34
        mrs     x0, fpcr
        ret
        .cfi_endproc
        .size   kc__switch_fp_control, . - kc__switch_fp_control

/*
 * Where a fresh stack begins. kc__switch_make has put entry into x20 and arg into x19. The return
 * address is undefined and x29 is zero: both kinds of unwinders stop here. It is entered behind the
 * landing pad: see KC_SWITCH_START_SKIP in switch.h. The brk is never reached; it keeps the return
 * address of the last call inside this function.
 */
        .globl  kc__switch_start
        .hidden kc__switch_start
        .type   kc__switch_start, %function
        .p2align 4
kc__switch_start:
        .cfi_startproc
        .cfi_undefined x30
        hint    #34
        mov     x0, x19
        mov     x29, #0
        blr     x20
        bl      kc__switch_returned
        brk     #0
        .cfi_endproc
        .size   kc__switch_start, . - kc__switch_start

        .section .note.GNU-stack, "", %progbits

/* GNU_PROPERTY_AARCH64_FEATURE_1_AND with GNU_PROPERTY_AARCH64_FEATURE_1_BTI alone. */
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4                       /* size of the name    */
        .long   16                      /* size of the content */
        .long   5                       /* NT_GNU_PROPERTY_TYPE_0 */
        .asciz  "GNU"
        .long   0xc0000000
        .long   4
        .long   1
        .long   0
