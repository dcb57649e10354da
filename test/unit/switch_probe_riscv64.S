/* SPDX-License-Identifier: MIT */
/*
 * switch_probe_riscv64.S - see switch_probe.h. Patterns are in the order s0-s11 fs0-fs11.
 */

        .text

/* int switch_probe(save_sp [a0], to_sp [a1], then [a2], arg [a3], load [a4], found [a5]) */
        .globl  switch_probe
        .type   switch_probe, @function
        .p2align 4
switch_probe:
        .cfi_startproc
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
        sd      a5, 200(sp)
        ld      s0, 0(a4)
        ld      s1, 8(a4)
        ld      s2, 16(a4)
        ld      s3, 24(a4)
        ld      s4, 32(a4)
        ld      s5, 40(a4)
        ld      s6, 48(a4)
        ld      s7, 56(a4)
        ld      s8, 64(a4)
        ld      s9, 72(a4)
        ld      s10, 80(a4)
        ld      s11, 88(a4)
        fld     fs0, 96(a4)
        fld     fs1, 104(a4)
        fld     fs2, 112(a4)
        fld     fs3, 120(a4)
        fld     fs4, 128(a4)
        fld     fs5, 136(a4)
        fld     fs6, 144(a4)
        fld     fs7, 152(a4)
        fld     fs8, 160(a4)
        fld     fs9, 168(a4)
        fld     fs10, 176(a4)
        fld     fs11, 184(a4)
        bnez    a2, 1f
        call    kc__switch
        j       2f
1:      call    kc__switch_then
2:      ld      a6, 200(sp)
        sd      s0, 0(a6)
        sd      s1, 8(a6)
        sd      s2, 16(a6)
        sd      s3, 24(a6)
        sd      s4, 32(a6)
        sd      s5, 40(a6)
        sd      s6, 48(a6)
        sd      s7, 56(a6)
        sd      s8, 64(a6)
        sd      s9, 72(a6)
        sd      s10, 80(a6)
        sd      s11, 88(a6)
        fsd     fs0, 96(a6)
        fsd     fs1, 104(a6)
        fsd     fs2, 112(a6)
        fsd     fs3, 120(a6)
        fsd     fs4, 128(a6)
        fsd     fs5, 136(a6)
        fsd     fs6, 144(a6)
        fsd     fs7, 152(a6)
        fsd     fs8, 160(a6)
        fsd     fs9, 168(a6)
        fsd     fs10, 176(a6)
        fsd     fs11, 184(a6)
        ld      ra, 0(sp)
        .cfi_restore ra
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
        ret
        .cfi_endproc
        .size   switch_probe, . - switch_probe
        .globl  switch_probe_end
switch_probe_end:

/* void switch_probe_sp(struct probe_sp *arg [a0]) */
        .globl  switch_probe_sp
        .type   switch_probe_sp, @function
        .p2align 4
switch_probe_sp:
        .cfi_startproc
        sd      sp, 0(a0)
        ld      t1, 8(a0)
        jr      t1
        .cfi_endproc
        .size   switch_probe_sp, . - switch_probe_sp

/* void switch_probe_trash(uint64_t *arg [a0]) */
        .globl  switch_probe_trash
        .type   switch_probe_trash, @function
        .p2align 4
switch_probe_trash:
        .cfi_startproc
        ld      a1, 0(a0)
        addi    a1, a1, 1
        sd      a1, 0(a0)
        andi    a1, a1, 1
        neg     a0, a1
        mv      a1, a0
        mv      a2, a0
        mv      a3, a0
        mv      a4, a0
        mv      a5, a0
        mv      a6, a0
        mv      a7, a0
        mv      t0, a0
        mv      t1, a0
        mv      t2, a0
        mv      t3, a0
        mv      t4, a0
        mv      t5, a0
        mv      t6, a0
        ret
        .cfi_endproc
        .size   switch_probe_trash, . - switch_probe_trash

        .section .note.GNU-stack, "", @progbits
