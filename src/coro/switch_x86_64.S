/* SPDX-License-Identifier: MIT */
/*
 * switch_x86_64.S - the context switch for x86-64, System V calling convention.
 *
 * The frame of a stack at rest (struct kc_frame in switch.h), from the saved stack pointer up:
 *
 *      0  MXCSR (4 bytes)      4  x87 control word (2)      6  the result (2)
 *      8  r15    16  r14    24  r13    32  r12    40  rbx    48  rbp
 *     56  return address
 *     64  the caller's stack pointer after the call
 *
 * What looks odd here is measured (docs/design/switch.md):
 *  - The switch ends with pop + jmp and not with ret. The processor predicts returns from a stack
 *    of its own, which knows nothing of our change of stacks; each ret would be mispredicted. The
 *    jmp is "notrack", because it goes to a return address, which has no landing pad. So the object
 *    is fit for indirect branch tracking, and says so in its property note; it is not fit for
 *    shadow stacks, and does not say so.
 *  - But if both sides have called from the same place, it ends with ret: then the prediction is
 *    right, and so are those of the frames around, which are the same up to the user's. A jmp would
 *    leave one entry too many, and each of them would be mispredicted.
 *  - MXCSR is loaded only if its control bits differ from the ones in force. The sticky exception
 *    flags (bits 0-5) differ all the time and are not callee-saved, and on Intel's processors a
 *    load that changes them costs many times a switch. On AMD's a load costs less than the
 *    comparison, which has to wait for the slow stmxcsr: there kc__switch_load_mxcsr is set and it
 *    is loaded always.
 *  - The x87 exception flags are cleared before its control word is loaded. They are sticky and not
 *    callee-saved; one that the other side has left, and that this side does not mask, would strike
 *    at the next innocent instruction.
 */

        .text

/* Leaves the frame on the current stack: 64 bytes with the return address. */
        .macro  save_frame
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
        leaq    -8(%rsp), %rsp
        .cfi_adjust_cfa_offset 8
        xorl    %eax, %eax
        stmxcsr (%rsp)
        fnstcw  4(%rsp)
        movw    %ax, 6(%rsp)
        .endm

/* The stack pointer is at a frame now: where it has what the unwinder wants. */
        .macro  at_frame
        .cfi_def_cfa_offset 64
        .cfi_rel_offset %r15, 8
        .cfi_rel_offset %r14, 16
        .cfi_rel_offset %r13, 24
        .cfi_rel_offset %r12, 32
        .cfi_rel_offset %rbx, 40
        .cfi_rel_offset %rbp, 48
        .endm

/* int kc__switch(void **save_sp [rdi], void *to_sp [rsi]) */
        .globl  kc__switch
        .hidden kc__switch
        .type   kc__switch, @function
        .p2align 6
kc__switch:
        .cfi_startproc
        endbr64
        save_frame
        movq    %rsp, (%rdi)
        movq    56(%rsp), %r8
        movzwl  4(%rsp), %edx
        cmpb    $0, kc__switch_load_mxcsr(%rip)
        je      2f

        /* Both stacks have the same frame, so the unwind information holds on the other one too. */
        movq    %rsi, %rsp
        .cfi_remember_state
.Lload: ldmxcsr (%rsp)
        cmpw    4(%rsp), %dx
        jne     3f
.Lrestore:
        movswl  6(%rsp), %eax
        cmpq    56(%rsp), %r8           /* nothing changes the flags until they are asked for */
        leaq    8(%rsp), %rsp
        .cfi_adjust_cfa_offset -8
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
        jne     4f
        ret
4:      popq    %rcx
        .cfi_adjust_cfa_offset -8
        .cfi_register %rip, %rcx
        notrack jmp *%rcx

        .cfi_restore_state
2:      movl    (%rsp), %ecx
        movq    %rsi, %rsp
.Lcompare:
        xorl    (%rsp), %ecx
        xorw    4(%rsp), %dx
        andl    $0xffc0, %ecx
        orl     %edx, %ecx
        je      .Lrestore
        ldmxcsr (%rsp)
3:      fnclex
        fldcw   4(%rsp)
        jmp     .Lrestore
        .cfi_endproc
        .size   kc__switch, . - kc__switch

/* int kc__switch_then(void **save_sp [rdi], void *to_sp [rsi], void (*then)(void *) [rdx],
                       void *arg [rcx]) */
        .globl  kc__switch_then
        .hidden kc__switch_then
        .type   kc__switch_then, @function
        .p2align 4
kc__switch_then:
        .cfi_startproc
        endbr64
        save_frame
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        /* A frame is 16-byte aligned, as the stack has to be before a call. The chain of frame
         * pointers goes along the new stack too. */
        movq    48(%rsp), %rbp
        movq    %rcx, %rdi
        call    *%rdx
.Lgo_on:
        xorl    %r8d, %r8d
        fnstcw  -8(%rsp)
        movzwl  -8(%rsp), %edx
        cmpb    $0, kc__switch_load_mxcsr(%rip)
        jne     .Lload
        stmxcsr -8(%rsp)
        movl    -8(%rsp), %ecx
        jmp     .Lcompare
        .cfi_endproc
        .size   kc__switch_then, . - kc__switch_then

/* _Noreturn void kc__switch_last(void *to_sp [rdi], void (*then)(void *) [rsi], void *arg [rdx]) */
        .globl  kc__switch_last
        .hidden kc__switch_last
        .type   kc__switch_last, @function
        .p2align 4
kc__switch_last:
        .cfi_startproc
        endbr64
        movq    %rdi, %rsp
        at_frame
        movq    48(%rsp), %rbp
        movq    %rdx, %rdi
        call    *%rsi
        jmp     .Lgo_on
        .cfi_endproc
        .size   kc__switch_last, . - kc__switch_last

/*
 * How a function returns that is KC_AFTER_SWITCH (switch.h), to an address on the stack. In the
 * processor's own stack of return addresses there is now the one to which the coroutine would have
 * returned that left last, kc_thread_t.left_from: if that is ours, the prediction of ret is right,
 * and so are those of the frames around. Else a jmp is predicted by its own history.
 *
 * The name is the compiler's. Weak: a program that is compiled with -mfunction-return has one too.
 */
        .weak   __x86_return_thunk
        .hidden __x86_return_thunk
        .type   __x86_return_thunk, @function
        .p2align 4
__x86_return_thunk:
        .cfi_startproc
        movq    kc__thread_self@gottpoff(%rip), %rcx
        movq    %fs:(%rcx), %rcx
        movq    16(%rcx), %rdx
        cmpq    (%rsp), %rdx
        jne     1f
        ret
1:      popq    %rcx
        .cfi_adjust_cfa_offset -8
        .cfi_register %rip, %rcx
        notrack jmp *%rcx
        .cfi_endproc
        .size   __x86_return_thunk, . - __x86_return_thunk

/* uint64_t kc__switch_fp_control(void) */
        .globl  kc__switch_fp_control
        .hidden kc__switch_fp_control
        .type   kc__switch_fp_control, @function
        .p2align 4
kc__switch_fp_control:
        .cfi_startproc
        endbr64
        stmxcsr -8(%rsp)
        fnstcw  -4(%rsp)
        movl    -8(%rsp), %eax
        movzwl  -4(%rsp), %edx
        shlq    $32, %rdx
        orq     %rdx, %rax
        ret
        .cfi_endproc
        .size   kc__switch_fp_control, . - kc__switch_fp_control

/*
 * Where a fresh stack begins. kc__switch_make has put entry into r13 and arg into r12. The return
 * address is undefined and rbp is zero: both kinds of unwinders stop here. It is entered behind
 * the landing pad: see KC_SWITCH_START_SKIP in switch.h.
 */
        .globl  kc__switch_start
        .hidden kc__switch_start
        .type   kc__switch_start, @function
        .p2align 4
kc__switch_start:
        .cfi_startproc
        .cfi_undefined %rip
        endbr64
        movq    %r12, %rdi
        xorl    %ebp, %ebp
        call    *%r13
        call    kc__switch_returned
        ud2
        .cfi_endproc
        .size   kc__switch_start, . - kc__switch_start

        .section .note.GNU-stack, "", @progbits

/* GNU_PROPERTY_X86_FEATURE_1_AND with GNU_PROPERTY_X86_FEATURE_1_IBT alone. */
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4                       /* size of the name    */
        .long   16                      /* size of the content */
        .long   5                       /* NT_GNU_PROPERTY_TYPE_0 */
        .asciz  "GNU"
        .long   0xc0000002
        .long   4
        .long   1
        .long   0
