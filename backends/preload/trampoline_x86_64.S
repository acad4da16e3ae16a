// SPDX-License-Identifier: Apache-2.0
// All that is of x86-64 (System V ABI). For C++, which reads it through frame.hpp: how a call's frame is laid out and where
// arguments are. For the assembler: a thunk for each function, one trampoline for all of
// them, and dlsym and dlvsym, which must reach the real ones with their caller's return address. Another architecture is
// another such file, trampoline_<name>.S. No code is made at run time.

// Offsets in bytes from the lowest address; the saved rbp, the return address and the caller's stack words lie above.
#define CUTRACE_HOOK_LIMIT 4096
#define CUTRACE_THUNK_BYTES 16

#define FRAME_XMM 0
#define FRAME_WORDS 128
#define FRAME_RAX 176
#define FRAME_R10 184
#define FRAME_HOOK 192
#define FRAME_STACK_WORDS 196
#define FRAME_TARGET 200
#define FRAME_RESULT 208
#define FRAME_RESULT_XMM 224
#define FRAME_BYTES 272
#define FRAME_CALLERS_STACK (FRAME_BYTES + 16)

#if !defined(__ASSEMBLER__)

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

struct hook;

struct alignas(16) call_frame {
  std::uint64_t vector[8][2];  ///< xmm0 to xmm7
  std::uint64_t word[6];       ///< rdi, rsi, rdx, rcx, r8, r9
  std::uint64_t rax;
  std::uint64_t r10;
  std::uint32_t hook_index;
  std::uint32_t stack_words;  ///< how many to copy, even; set by enter
  std::uintptr_t target;      ///< the real function; set by enter
  std::uint64_t result[2];    ///< rax, rdx; for leave
  std::uint64_t result_vector[2][2];
  const preload::hook* of;  ///< enter's words for leave
  std::uint64_t recorded;
};
static_assert(offsetof(call_frame, vector) == FRAME_XMM && offsetof(call_frame, word) == FRAME_WORDS &&
                  offsetof(call_frame, rax) == FRAME_RAX && offsetof(call_frame, r10) == FRAME_R10 &&
                  offsetof(call_frame, hook_index) == FRAME_HOOK &&
                  offsetof(call_frame, stack_words) == FRAME_STACK_WORDS &&
                  offsetof(call_frame, target) == FRAME_TARGET && offsetof(call_frame, result) == FRAME_RESULT &&
                  offsetof(call_frame, result_vector) == FRAME_RESULT_XMM && sizeof(call_frame) == FRAME_BYTES,
              "the assembler's offsets");

/// Where an argument lies, in bytes from the frame.
struct frame_places {
  static constexpr std::uint16_t register_of(unsigned n) noexcept {
    return static_cast<std::uint16_t>(FRAME_WORDS + 8 * n);
  }
  static constexpr std::uint16_t vector_of(unsigned n) noexcept {
    return static_cast<std::uint16_t>(FRAME_XMM + 16 * n);
  }
  static constexpr std::uint16_t stack_of(unsigned n) noexcept {
    return static_cast<std::uint16_t>(FRAME_CALLERS_STACK + 8 * n);
  }
  static constexpr unsigned registers = 6;

  /// Where the next argument of so many bytes is, in their order (System V ABI): integers and pointers in registers first,
  /// numbers in vector registers, large structures on the stack.
  std::uint16_t next(unsigned bytes, bool floating) noexcept {
    if (floating && vectors < 8) return vector_of(vectors++);
    if (!floating && bytes <= 8 && words < registers) return register_of(words++);
    const std::uint16_t at = stack_of(stacked);
    stacked += (bytes + 7) / 8;
    return at;
  }
  unsigned words = 0, vectors = 0, stacked = 0;  ///< taken so far; the last of words of the caller's stack
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE

#else

// The trampoline saves what may carry arguments, asks cutrace_preload_enter where to go, copies the caller's stack words,
// calls the real function, and shows its result to cutrace_preload_leave. It has a plain frame by rbp, so that debuggers,
// C++ exceptions and longjmp pass; no return address is replaced, which shadow stacks (CET) would refuse.


        .text

// Thunk i is at cutrace_preload_thunks + i * CUTRACE_THUNK_BYTES.
        .globl  cutrace_preload_thunks
        .hidden cutrace_preload_thunks
        .type   cutrace_preload_thunks, @function
        .p2align 6
cutrace_preload_thunks:
        .cfi_startproc
        .set    i, 0
        .rept   CUTRACE_HOOK_LIMIT
        .p2align 4
        endbr64
        movl    $i, %r11d
        jmp     cutrace_preload_call
        .set    i, i + 1
        .endr
        .cfi_endproc
        .size   cutrace_preload_thunks, . - cutrace_preload_thunks

        .type   cutrace_preload_call, @function
        .p2align 6
cutrace_preload_call:
        .cfi_startproc
        .cfi_personality 0x1b, cutrace_preload_unwind
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        subq    $FRAME_BYTES, %rsp
        movq    %rdi, FRAME_WORDS + 0x00(%rsp)
        movq    %rsi, FRAME_WORDS + 0x08(%rsp)
        movq    %rdx, FRAME_WORDS + 0x10(%rsp)
        movq    %rcx, FRAME_WORDS + 0x18(%rsp)
        movq    %r8,  FRAME_WORDS + 0x20(%rsp)
        movq    %r9,  FRAME_WORDS + 0x28(%rsp)
        movq    %rax, FRAME_RAX(%rsp)              // variadic functions: number of vector registers
        movq    %r10, FRAME_R10(%rsp)              // static chain
        movl    %r11d, FRAME_HOOK(%rsp)
        leaq    cutrace_preload_floating(%rip), %rax
        cmpb    $0, (%rax,%r11)
        jne     3f
0:
        movq    %rsp, %rdi
        call    cutrace_preload_enter

        movl    FRAME_STACK_WORDS(%rsp), %ecx      // even, so that the stack stays aligned
        testl   %ecx, %ecx
        jz      2f
        leaq    (,%rcx,8), %rax
        subq    %rax, %rsp
1:      movups  (%rbp,%rcx,8), %xmm0                 // two words; vector registers get their arguments back below
        movups  %xmm0, -16(%rsp,%rcx,8)
        subl    $2, %ecx
        jnz     1b
2:      movl    FRAME_HOOK - FRAME_BYTES(%rbp), %eax
        leaq    cutrace_preload_floating(%rip), %r11
        cmpb    $0, (%r11,%rax)
        jne     4f
5:
        movq    FRAME_WORDS + 0x00 - FRAME_BYTES(%rbp), %rdi
        movq    FRAME_WORDS + 0x08 - FRAME_BYTES(%rbp), %rsi
        movq    FRAME_WORDS + 0x10 - FRAME_BYTES(%rbp), %rdx
        movq    FRAME_WORDS + 0x18 - FRAME_BYTES(%rbp), %rcx
        movq    FRAME_WORDS + 0x20 - FRAME_BYTES(%rbp), %r8
        movq    FRAME_WORDS + 0x28 - FRAME_BYTES(%rbp), %r9
        movq    FRAME_RAX - FRAME_BYTES(%rbp), %rax
        movq    FRAME_R10 - FRAME_BYTES(%rbp), %r10
        call    *FRAME_TARGET - FRAME_BYTES(%rbp)

        leaq    -FRAME_BYTES(%rbp), %rsp
        movq    %rax, FRAME_RESULT + 0x00(%rsp)
        movq    %rdx, FRAME_RESULT + 0x08(%rsp)
        movaps  %xmm0, FRAME_RESULT_XMM + 0x00(%rsp)
        movaps  %xmm1, FRAME_RESULT_XMM + 0x10(%rsp)
        movq    %rsp, %rdi
        call    cutrace_preload_leave
        movq    FRAME_RESULT + 0x00(%rsp), %rax
        movq    FRAME_RESULT + 0x08(%rsp), %rdx
        movaps  FRAME_RESULT_XMM + 0x00(%rsp), %xmm0
        movaps  FRAME_RESULT_XMM + 0x10(%rsp), %xmm1
        leave
        .cfi_def_cfa %rsp, 8
        ret

// Functions that take numbers, or of which nothing is known.
        .cfi_def_cfa %rbp, 16
3:
        movaps  %xmm0, FRAME_XMM + 0x00(%rsp)
        movaps  %xmm1, FRAME_XMM + 0x10(%rsp)
        movaps  %xmm2, FRAME_XMM + 0x20(%rsp)
        movaps  %xmm3, FRAME_XMM + 0x30(%rsp)
        movaps  %xmm4, FRAME_XMM + 0x40(%rsp)
        movaps  %xmm5, FRAME_XMM + 0x50(%rsp)
        movaps  %xmm6, FRAME_XMM + 0x60(%rsp)
        movaps  %xmm7, FRAME_XMM + 0x70(%rsp)
        jmp     0b
4:
        movaps  FRAME_XMM + 0x00 - FRAME_BYTES(%rbp), %xmm0
        movaps  FRAME_XMM + 0x10 - FRAME_BYTES(%rbp), %xmm1
        movaps  FRAME_XMM + 0x20 - FRAME_BYTES(%rbp), %xmm2
        movaps  FRAME_XMM + 0x30 - FRAME_BYTES(%rbp), %xmm3
        movaps  FRAME_XMM + 0x40 - FRAME_BYTES(%rbp), %xmm4
        movaps  FRAME_XMM + 0x50 - FRAME_BYTES(%rbp), %xmm5
        movaps  FRAME_XMM + 0x60 - FRAME_BYTES(%rbp), %xmm6
        movaps  FRAME_XMM + 0x70 - FRAME_BYTES(%rbp), %xmm7
        jmp     5b
        .cfi_endproc
        .size   cutrace_preload_call, . - cutrace_preload_call

// Asks `found` (same arguments, then the return address) for what to answer; where it has no answer the real function is
// jumped to as if it had been called directly: it looks at its return address for RTLD_NEXT and RTLD_DEFAULT.
        .macro  door name, found, real, caller
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        movq    24(%rsp), \caller
        call    \found
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rax, %rax
        jz      1f
        ret
1:      jmp     *\real(%rip)
        .cfi_endproc
        .size   \name, . - \name
        .endm

        door    dlsym, cutrace_preload_find, cutrace_preload_real_dlsym, %rdx
        door    dlvsym, cutrace_preload_find_version, cutrace_preload_real_dlvsym, %rcx

        .section .note.GNU-stack, "", @progbits

// Made for indirect branch tracking and shadow stacks.
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 3, 0
#endif
