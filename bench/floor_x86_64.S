/* SPDX-License-Identifier: MIT */
/*
 * floor_x86_64.S - the least a switch of stacks can do on x86-64: the six callee-saved registers
 * and the stack pointer; and the same with the floating-point control words read and stored, which
 * is the least a switch can do that keeps them. Nothing is restored of those, nothing passed, there
 * is no unwind information: this is what the real switch is measured against, not something to use.
 */
        .text

        .macro  leave
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        .endm

        .macro  enter
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        popq    %rcx
        jmp     *%rcx
        .endm

/* void kb_floor_switch(void **save_sp [rdi], void *to_sp [rsi]) */
        .globl  kb_floor_switch
        .hidden kb_floor_switch
        .type   kb_floor_switch, @function
        .p2align 6
kb_floor_switch:
        leave
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        enter
        .size   kb_floor_switch, . - kb_floor_switch

/* void kb_floor_switch_fp(void **save_sp [rdi], void *to_sp [rsi]) */
        .globl  kb_floor_switch_fp
        .hidden kb_floor_switch_fp
        .type   kb_floor_switch_fp, @function
        .p2align 6
kb_floor_switch_fp:
        leave
        stmxcsr -8(%rsp)
        fnstcw  -4(%rsp)
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        enter
        .size   kb_floor_switch_fp, . - kb_floor_switch_fp

        .section .note.GNU-stack, "", @progbits
