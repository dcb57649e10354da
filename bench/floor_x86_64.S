/* SPDX-License-Identifier: MIT */
/*
 * floor_x86_64.S - the least a switch of stacks can do on x86-64: the six callee-saved registers
 * and the stack pointer. No floating-point control, nothing passed, no unwind information: this
 * is what the real switch is measured against, not something to use.
 */
        .text

/* void kb_floor_switch(void **save_sp [rdi], void *to_sp [rsi]) */
        .globl  kb_floor_switch
        .hidden kb_floor_switch
        .type   kb_floor_switch, @function
        .p2align 6
kb_floor_switch:
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        popq    %rcx
        jmp     *%rcx
        .size   kb_floor_switch, . - kb_floor_switch

        .section .note.GNU-stack, "", @progbits
