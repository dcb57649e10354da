/* SPDX-License-Identifier: MIT */
/*
 * switch_probe_aarch64.S - see switch_probe.h. Patterns are in the order x19-x28 x29 d8-d15.
 */

        .text

/* int switch_probe(save_sp [x0], to_sp [x1], then [x2], arg [x3], load [x4], found [x5]) */
        .globl  switch_probe
        .type   switch_probe, %function
        .p2align 4
switch_probe:
        .cfi_startproc
        hint    #34
        sub     sp, sp, #176
        .cfi_def_cfa_offset 176
        stp     x29, x30, [sp, #0]
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        stp     x19, x20, [sp, #16]
        .cfi_rel_offset x19, 16
        .cfi_rel_offset x20, 24
        stp     x21, x22, [sp, #32]
        .cfi_rel_offset x21, 32
        .cfi_rel_offset x22, 40
        stp     x23, x24, [sp, #48]
        .cfi_rel_offset x23, 48
        .cfi_rel_offset x24, 56
        stp     x25, x26, [sp, #64]
        .cfi_rel_offset x25, 64
        .cfi_rel_offset x26, 72
        stp     x27, x28, [sp, #80]
        .cfi_rel_offset x27, 80
        .cfi_rel_offset x28, 88
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
        str     x5, [sp, #160]
        ldp     x19, x20, [x4, #0]
        ldp     x21, x22, [x4, #16]
        ldp     x23, x24, [x4, #32]
        ldp     x25, x26, [x4, #48]
        ldp     x27, x28, [x4, #64]
        ldr     x29, [x4, #80]
        ldp     d8, d9, [x4, #88]
        ldp     d10, d11, [x4, #104]
        ldp     d12, d13, [x4, #120]
        ldp     d14, d15, [x4, #136]
        cbnz    x2, 1f
        bl      kc__switch
        b       2f
1:      bl      kc__switch_then
2:      ldr     x6, [sp, #160]
        stp     x19, x20, [x6, #0]
        stp     x21, x22, [x6, #16]
        stp     x23, x24, [x6, #32]
        stp     x25, x26, [x6, #48]
        stp     x27, x28, [x6, #64]
        str     x29, [x6, #80]
        stp     d8, d9, [x6, #88]
        stp     d10, d11, [x6, #104]
        stp     d12, d13, [x6, #120]
        stp     d14, d15, [x6, #136]
        ldp     x29, x30, [sp, #0]
        .cfi_restore x29
        .cfi_restore x30
        ldp     x19, x20, [sp, #16]
        .cfi_restore x19
        .cfi_restore x20
        ldp     x21, x22, [sp, #32]
        .cfi_restore x21
        .cfi_restore x22
        ldp     x23, x24, [sp, #48]
        .cfi_restore x23
        .cfi_restore x24
        ldp     x25, x26, [sp, #64]
        .cfi_restore x25
        .cfi_restore x26
        ldp     x27, x28, [sp, #80]
        .cfi_restore x27
        .cfi_restore x28
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
        .cfi_endproc
        .size   switch_probe, . - switch_probe
        .globl  switch_probe_end
switch_probe_end:

/* void switch_probe_sp(struct probe_sp *arg [x0]) */
        .globl  switch_probe_sp
        .type   switch_probe_sp, %function
        .p2align 4
switch_probe_sp:
        .cfi_startproc
        hint    #34
        mov     x16, sp
        str     x16, [x0, #0]
        ldr     x16, [x0, #8]
        br      x16
        .cfi_endproc
        .size   switch_probe_sp, . - switch_probe_sp

/* void switch_probe_trash(uint64_t *arg [x0]) */
        .globl  switch_probe_trash
        .type   switch_probe_trash, %function
        .p2align 4
switch_probe_trash:
        .cfi_startproc
        hint    #34
        ldr     x1, [x0]
        add     x1, x1, #1
        str     x1, [x0]
        and     x1, x1, #1
        neg     x0, x1
        mov     x1, x0
        mov     x2, x0
        mov     x3, x0
        mov     x4, x0
        mov     x5, x0
        mov     x6, x0
        mov     x7, x0
        mov     x8, x0
        mov     x9, x0
        mov     x10, x0
        mov     x11, x0
        mov     x12, x0
        mov     x13, x0
        mov     x14, x0
        mov     x15, x0
        mov     x16, x0
        mov     x17, x0
        ret
        .cfi_endproc
        .size   switch_probe_trash, . - switch_probe_trash

        .section .note.GNU-stack, "", %progbits
