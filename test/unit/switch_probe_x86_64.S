/* SPDX-License-Identifier: MIT */
/*
 * switch_probe_x86_64.S - see switch_probe.h. Patterns are in the order r15 r14 r13 r12 rbx rbp.
 */

        .text

/* int switch_probe(save_sp [rdi], to_sp [rsi], then [rdx], arg [rcx], load [r8], found [r9]) */
        .globl  switch_probe
        .type   switch_probe, @function
        .p2align 4
switch_probe:
        .cfi_startproc
        endbr64
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        pushq   %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbx, 0
        pushq   %r12
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r12, 0
        pushq   %r13
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r13, 0
        pushq   %r14
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r14, 0
        pushq   %r15
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r15, 0
        pushq   %r9
        .cfi_adjust_cfa_offset 8
        movq    0(%r8), %r15
        movq    8(%r8), %r14
        movq    16(%r8), %r13
        movq    24(%r8), %r12
        movq    32(%r8), %rbx
        movq    40(%r8), %rbp
        testq   %rdx, %rdx
        jne     1f
        call    kc__switch
        jmp     2f
1:      call    kc__switch_then
2:      popq    %r9
        .cfi_adjust_cfa_offset -8
        movq    %r15, 0(%r9)
        movq    %r14, 8(%r9)
        movq    %r13, 16(%r9)
        movq    %r12, 24(%r9)
        movq    %rbx, 32(%r9)
        movq    %rbp, 40(%r9)
        popq    %r15
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r15
        popq    %r14
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r14
        popq    %r13
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r13
        popq    %r12
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r12
        popq    %rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbx
        popq    %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbp
        ret
        .cfi_endproc
        .size   switch_probe, . - switch_probe
        .globl  switch_probe_end
switch_probe_end:

/* void switch_probe_sp(struct probe_sp *arg [rdi]) */
        .globl  switch_probe_sp
        .type   switch_probe_sp, @function
        .p2align 4
switch_probe_sp:
        .cfi_startproc
        endbr64
        movq    %rsp, 0(%rdi)
        movq    8(%rdi), %rax
        jmp     *%rax
        .cfi_endproc
        .size   switch_probe_sp, . - switch_probe_sp

/* void switch_probe_trash(uint64_t *arg [rdi]) */
        .globl  switch_probe_trash
        .type   switch_probe_trash, @function
        .p2align 4
switch_probe_trash:
        .cfi_startproc
        endbr64
        incq    (%rdi)
        movq    (%rdi), %rax
        andl    $1, %eax
        negq    %rax
        movq    %rax, %rcx
        movq    %rax, %rdx
        movq    %rax, %rsi
        movq    %rax, %rdi
        movq    %rax, %r8
        movq    %rax, %r9
        movq    %rax, %r10
        movq    %rax, %r11
        ret
        .cfi_endproc
        .size   switch_probe_trash, . - switch_probe_trash

        .section .note.GNU-stack, "", @progbits
