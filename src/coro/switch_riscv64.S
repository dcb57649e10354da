/* SPDX-License-Identifier: MIT */
/*
 * switch_riscv64.S - the context switch for 64-bit RISC-V, the standard calling convention (lp64d).
 *
 * The frame of a stack at rest (struct kc_frame in switch.h), from the saved stack pointer up:
 *
 *      0  ra, the return address         8  s0, the frame pointer
 *     16  s1     24  s2     32  s3     40  s4     48  s5
 *     56  s6     64  s7     72  s8     80  s9     88  s10    96  s11
 *    104  fs0   112  fs1   120  fs2   128  fs3   136  fs4   144  fs5
 *    152  fs6   160  fs7   168  fs8   176  fs9   184  fs10  192  fs11
 *    200  frm, the rounding mode (4 bytes)      204  the result (4)
 *    208  the caller's stack pointer, a multiple of 16
 *
 * The other half of fcsr, the accrued exception flags, is not callee-saved; neither is anything of
 * the vector extension. gp and tp belong to the process and to the thread.
 *
 * Two things that need a reason:
 *  - The switch ends with a jump through t2 and not with ret. The processor predicts returns from a
 *    stack of its own, which knows nothing of our change of stacks; it pops on a jump through ra or
 *    t0, the link registers, and each one would be mispredicted. Of the other registers t2 is the
 *    one for jumps that need no landing pad (software guarded ones, in the words of Zicfilp), and a
 *    return address has none. No property note: neither landing pads nor shadow stacks are claimed.
 *  - frm is written only if it differs: the write may drain the pipeline.
 */

/* Each processor that Linux distributions run on has double precision. Variants with less to save,
 * or with the Q extension more, would be code that no test of ours can run, so there are none. */
#if !defined(__riscv_flen) || __riscv_flen != 64
#error "kcoro's context switch for RISC-V needs the F and D extensions, and does not know Q"
#endif

        .text

/* Leaves the frame on the current stack, and frm in t0. */
        .macro  save_frame
        addi    sp, sp, -208
        .cfi_def_cfa_offset 208
        sd      ra, 0(sp)
        .cfi_rel_offset ra, 0
        sd      s0, 8(sp)
        .cfi_rel_offset s0, 8
        sd      s1, 16(sp)
        .cfi_rel_offset s1, 16
        sd      s2, 24(sp)
        .cfi_rel_offset s2, 24
        sd      s3, 32(sp)
        .cfi_rel_offset s3, 32
        sd      s4, 40(sp)
        .cfi_rel_offset s4, 40
        sd      s5, 48(sp)
        .cfi_rel_offset s5, 48
        sd      s6, 56(sp)
        .cfi_rel_offset s6, 56
        sd      s7, 64(sp)
        .cfi_rel_offset s7, 64
        sd      s8, 72(sp)
        .cfi_rel_offset s8, 72
        sd      s9, 80(sp)
        .cfi_rel_offset s9, 80
        sd      s10, 88(sp)
        .cfi_rel_offset s10, 88
        sd      s11, 96(sp)
        .cfi_rel_offset s11, 96
        fsd     fs0, 104(sp)
        .cfi_rel_offset fs0, 104
        fsd     fs1, 112(sp)
        .cfi_rel_offset fs1, 112
        fsd     fs2, 120(sp)
        .cfi_rel_offset fs2, 120
        fsd     fs3, 128(sp)
        .cfi_rel_offset fs3, 128
        fsd     fs4, 136(sp)
        .cfi_rel_offset fs4, 136
        fsd     fs5, 144(sp)
        .cfi_rel_offset fs5, 144
        fsd     fs6, 152(sp)
        .cfi_rel_offset fs6, 152
        fsd     fs7, 160(sp)
        .cfi_rel_offset fs7, 160
        fsd     fs8, 168(sp)
        .cfi_rel_offset fs8, 168
        fsd     fs9, 176(sp)
        .cfi_rel_offset fs9, 176
        fsd     fs10, 184(sp)
        .cfi_rel_offset fs10, 184
        fsd     fs11, 192(sp)
        .cfi_rel_offset fs11, 192
        frrm    t0
        sw      t0, 200(sp)
        sw      zero, 204(sp)
        .endm

/* The stack pointer is at a frame now: where it has what the unwinder wants. */
        .macro  at_frame
        .cfi_def_cfa_offset 208
        .cfi_rel_offset ra, 0
        .irp    n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
        .cfi_rel_offset s\n, 8 + \n * 8
        .cfi_rel_offset fs\n, 104 + \n * 8
        .endr
        .endm

/* int kc__switch(void **save_sp [a0], void *to_sp [a1]) */
        .globl  kc__switch
        .hidden kc__switch
        .type   kc__switch, @function
        .p2align 6
kc__switch:
        .cfi_startproc
        save_frame
        sd      sp, 0(a0)

        /* Both stacks have the same frame, so the unwind information holds on the other one too. */
        mv      sp, a1
.Lcontinue:
        lw      t1, 200(sp)
        lw      a0, 204(sp)
        bne     t0, t1, 2f
1:      .cfi_remember_state
        ld      t2, 0(sp)
        .cfi_register ra, t2
        ld      s0, 8(sp)
        .cfi_restore s0
        ld      s1, 16(sp)
        .cfi_restore s1
        ld      s2, 24(sp)
        .cfi_restore s2
        ld      s3, 32(sp)
        .cfi_restore s3
        ld      s4, 40(sp)
        .cfi_restore s4
        ld      s5, 48(sp)
        .cfi_restore s5
        ld      s6, 56(sp)
        .cfi_restore s6
        ld      s7, 64(sp)
        .cfi_restore s7
        ld      s8, 72(sp)
        .cfi_restore s8
        ld      s9, 80(sp)
        .cfi_restore s9
        ld      s10, 88(sp)
        .cfi_restore s10
        ld      s11, 96(sp)
        .cfi_restore s11
        fld     fs0, 104(sp)
        .cfi_restore fs0
        fld     fs1, 112(sp)
        .cfi_restore fs1
        fld     fs2, 120(sp)
        .cfi_restore fs2
        fld     fs3, 128(sp)
        .cfi_restore fs3
        fld     fs4, 136(sp)
        .cfi_restore fs4
        fld     fs5, 144(sp)
        .cfi_restore fs5
        fld     fs6, 152(sp)
        .cfi_restore fs6
        fld     fs7, 160(sp)
        .cfi_restore fs7
        fld     fs8, 168(sp)
        .cfi_restore fs8
        fld     fs9, 176(sp)
        .cfi_restore fs9
        fld     fs10, 184(sp)
        .cfi_restore fs10
        fld     fs11, 192(sp)
        .cfi_restore fs11
        addi    sp, sp, 208
        .cfi_def_cfa_offset 0
        jr      t2

        /* Back at the full frame. */
        .cfi_restore_state
2:      fsrm    t1
        j       1b
        .cfi_endproc
        .size   kc__switch, . - kc__switch

/* int kc__switch_then(void **save_sp [a0], void *to_sp [a1], void (*then)(void *) [a2],
 *                     void *arg [a3]) */
        .globl  kc__switch_then
        .hidden kc__switch_then
        .type   kc__switch_then, @function
        .p2align 4
kc__switch_then:
        .cfi_startproc
        save_frame
        sd      sp, 0(a0)
        mv      sp, a1
        /* The chain of frame pointers must not lead from this stack to the one that then may give
         * away. s0 is still described as saved in the frame, which is true of both. */
        ld      s0, 8(sp)
        mv      a0, a3
        jalr    a2
.Lgo_on:
        frrm    t0
        j       .Lcontinue
        .cfi_endproc
        .size   kc__switch_then, . - kc__switch_then

/* _Noreturn void kc__switch_last(void *to_sp [a0], void (*then)(void *) [a1], void *arg [a2]) */
        .globl  kc__switch_last
        .hidden kc__switch_last
        .type   kc__switch_last, @function
        .p2align 4
kc__switch_last:
        .cfi_startproc
        mv      sp, a0
        at_frame
        ld      s0, 8(sp)
        mv      a0, a2
        jalr    a1
        j       .Lgo_on
        .cfi_endproc
        .size   kc__switch_last, . - kc__switch_last

/* uint64_t kc__switch_fp_control(void) */
        .globl  kc__switch_fp_control
        .hidden kc__switch_fp_control
        .type   kc__switch_fp_control, @function
        .p2align 4
kc__switch_fp_control:
        .cfi_startproc
        frrm    a0
        ret
        .cfi_endproc
        .size   kc__switch_fp_control, . - kc__switch_fp_control

/*
 * Where a fresh stack begins. kc__switch_make has put entry into s2 and arg into s1. The return
 * address is undefined and s0 is zero: both kinds of unwinders stop here. It is entered behind the
 * nop, which is as long as the landing pads of the others: see KC_SWITCH_START_SKIP in switch.h.
 * The ebreak is never reached; it keeps the return address of the last call inside this function.
 */
        .globl  kc__switch_start
        .hidden kc__switch_start
        .type   kc__switch_start, @function
        .p2align 4
kc__switch_start:
        .cfi_startproc
        .cfi_undefined ra
        .option push
        .option norvc
        nop
        .option pop
        mv      a0, s1
        li      s0, 0
        jalr    s2
        call    kc__switch_returned
        ebreak
        .cfi_endproc
        .size   kc__switch_start, . - kc__switch_start

        .section .note.GNU-stack, "", @progbits
