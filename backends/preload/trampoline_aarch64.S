// SPDX-License-Identifier: Apache-2.0
// All that is of 64-bit ARM (AAPCS64, as Linux has it); see trampoline_x86_64.S for what such a file holds and why.

// Offsets in bytes from the lowest address; the saved x29 and x30 and the caller's stack words lie above.
#define CUTRACE_HOOK_LIMIT 4096
#define CUTRACE_THUNK_BYTES 16

#define FRAME_VECTOR 0
#define FRAME_WORDS 128
#define FRAME_X8 192
#define FRAME_HOOK 200
#define FRAME_STACK_WORDS 204
#define FRAME_TARGET 208
#define FRAME_OF 216
#define FRAME_RESULT 224
#define FRAME_RESULT_VECTOR 240
#define FRAME_BYTES 320
#define FRAME_CALLERS_STACK (FRAME_BYTES + 16)

#if !defined(__ASSEMBLER__)

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

struct hook;

struct alignas(16) call_frame {
  std::uint64_t vector[8][2];  ///< q0 to q7
  std::uint64_t word[8];       ///< x0 to x7
  std::uint64_t x8;            ///< where a large result goes
  std::uint32_t hook_index;
  std::uint32_t stack_words;  ///< how many to copy, even; set by enter
  std::uintptr_t target;      ///< the real function; set by enter
  const preload::hook* of;    ///< enter's word for leave, as is `recorded`
  std::uint64_t result[2];    ///< x0, x1; for leave
  std::uint64_t result_vector[4][2];
  std::uint64_t recorded;
};
static_assert(offsetof(call_frame, vector) == FRAME_VECTOR && offsetof(call_frame, word) == FRAME_WORDS &&
                  offsetof(call_frame, x8) == FRAME_X8 && offsetof(call_frame, hook_index) == FRAME_HOOK &&
                  offsetof(call_frame, stack_words) == FRAME_STACK_WORDS &&
                  offsetof(call_frame, target) == FRAME_TARGET && offsetof(call_frame, of) == FRAME_OF &&
                  offsetof(call_frame, result) == FRAME_RESULT &&
                  offsetof(call_frame, result_vector) == FRAME_RESULT_VECTOR && sizeof(call_frame) == FRAME_BYTES,
              "the assembler's offsets");

/// Where an argument lies, in bytes from the frame.
struct frame_places {
  static constexpr std::uint16_t register_of(unsigned n) noexcept {
    return static_cast<std::uint16_t>(FRAME_WORDS + 8 * n);
  }
  static constexpr std::uint16_t vector_of(unsigned n) noexcept {
    return static_cast<std::uint16_t>(FRAME_VECTOR + 16 * n);
  }
  static constexpr std::uint16_t stack_of(unsigned n) noexcept {
    return static_cast<std::uint16_t>(FRAME_CALLERS_STACK + 8 * n);
  }
  static constexpr unsigned registers = 8;

  /// Where the next argument of so many bytes is, in their order: integers and pointers in registers first, numbers in
  /// vector registers. Of a structure of more than 16 bytes it is the address (AAPCS64, 6.8.2, rule B.4); a smaller one
  /// lies in registers as a whole or on the stack as a whole (C.12, C.13), and then nothing else gets a register.
  std::uint16_t next(unsigned bytes, bool floating) noexcept {
    if (floating && vectors < 8) return vector_of(vectors++);
    const unsigned needs = bytes <= 8 || bytes > 16 ? 1 : 2;
    if (!floating && words + needs <= registers) {
      const std::uint16_t at = register_of(words);
      words += needs;
      return at;
    }
    if (!floating) words = registers;
    const std::uint16_t at = stack_of(stacked);
    stacked += needs;
    return at;
  }
  unsigned words = 0, vectors = 0, stacked = 0;  ///< taken so far; the last of words of the caller's stack
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE

#else

// The trampoline does what that of x86-64 does, with a plain frame by x29.

        .text

// Thunk i is at cutrace_preload_thunks + i * CUTRACE_THUNK_BYTES.
        .globl  cutrace_preload_thunks
        .hidden cutrace_preload_thunks
        .type   cutrace_preload_thunks, %function
        .p2align 6
cutrace_preload_thunks:
        .cfi_startproc
        .set    i, 0
        .rept   CUTRACE_HOOK_LIMIT
        .p2align 4
        hint    34                              // bti c
        mov     w16, i
        b       cutrace_preload_call
        .set    i, i + 1
        .endr
        .cfi_endproc
        .size   cutrace_preload_thunks, . - cutrace_preload_thunks

        .type   cutrace_preload_call, %function
        .p2align 6
cutrace_preload_call:
        .cfi_startproc
        .cfi_personality 0x1b, cutrace_preload_unwind
        stp     x29, x30, [sp, -16]!
        .cfi_def_cfa_offset 16
        .cfi_offset 29, -16
        .cfi_offset 30, -8
        mov     x29, sp
        .cfi_def_cfa_register 29
        sub     sp, sp, FRAME_BYTES
        stp     x0, x1, [sp, FRAME_WORDS + 0x00]
        stp     x2, x3, [sp, FRAME_WORDS + 0x10]
        stp     x4, x5, [sp, FRAME_WORDS + 0x20]
        stp     x6, x7, [sp, FRAME_WORDS + 0x30]
        str     x8, [sp, FRAME_X8]
        str     w16, [sp, FRAME_HOOK]
        adrp    x17, cutrace_preload_floating
        add     x17, x17, :lo12:cutrace_preload_floating
        ldrb    w17, [x17, x16]
        cbnz    w17, 3f
0:
        mov     x0, sp
        bl      cutrace_preload_enter

        ldr     w9, [sp, FRAME_STACK_WORDS]     // even, so that the stack stays aligned
        cbz     w9, 2f
        sub     sp, sp, x9, uxtx 3
        add     x10, x29, 16
        mov     x11, sp
1:      ldp     x12, x13, [x10], 16
        stp     x12, x13, [x11], 16
        subs    w9, w9, 2
        b.ne    1b
2:      sub     x15, x29, FRAME_BYTES
        ldr     w16, [x15, FRAME_HOOK]
        adrp    x17, cutrace_preload_floating
        add     x17, x17, :lo12:cutrace_preload_floating
        ldrb    w17, [x17, x16]
        cbnz    w17, 4f
5:
        ldp     x0, x1, [x15, FRAME_WORDS + 0x00]
        ldp     x2, x3, [x15, FRAME_WORDS + 0x10]
        ldp     x4, x5, [x15, FRAME_WORDS + 0x20]
        ldp     x6, x7, [x15, FRAME_WORDS + 0x30]
        ldr     x8, [x15, FRAME_X8]
        ldr     x16, [x15, FRAME_TARGET]
        blr     x16

        sub     sp, x29, FRAME_BYTES
        stp     x0, x1, [sp, FRAME_RESULT]
        stp     q0, q1, [sp, FRAME_RESULT_VECTOR + 0x00]
        stp     q2, q3, [sp, FRAME_RESULT_VECTOR + 0x20]
        mov     x0, sp
        bl      cutrace_preload_leave
        ldp     x0, x1, [sp, FRAME_RESULT]
        ldp     q0, q1, [sp, FRAME_RESULT_VECTOR + 0x00]
        ldp     q2, q3, [sp, FRAME_RESULT_VECTOR + 0x20]
        mov     sp, x29
        .cfi_remember_state
        .cfi_def_cfa_register 31
        ldp     x29, x30, [sp], 16
        .cfi_def_cfa_offset 0
        .cfi_restore 29
        .cfi_restore 30
        ret
        .cfi_restore_state

// Functions that take numbers, or of which nothing is known.
3:
        stp     q0, q1, [sp, FRAME_VECTOR + 0x00]
        stp     q2, q3, [sp, FRAME_VECTOR + 0x20]
        stp     q4, q5, [sp, FRAME_VECTOR + 0x40]
        stp     q6, q7, [sp, FRAME_VECTOR + 0x60]
        b       0b
4:
        ldp     q0, q1, [x15, FRAME_VECTOR + 0x00]
        ldp     q2, q3, [x15, FRAME_VECTOR + 0x20]
        ldp     q4, q5, [x15, FRAME_VECTOR + 0x40]
        ldp     q6, q7, [x15, FRAME_VECTOR + 0x60]
        b       5b
        .cfi_endproc
        .size   cutrace_preload_call, . - cutrace_preload_call

        .macro  door name, found, real, caller
        .globl  \name
        .type   \name, %function
        .p2align 4
\name:
        .cfi_startproc
        hint    34                              // bti c
        stp     x29, x30, [sp, -48]!
        .cfi_def_cfa_offset 48
        .cfi_offset 29, -48
        .cfi_offset 30, -40
        mov     x29, sp
        stp     x0, x1, [sp, 16]
        str     x2, [sp, 32]
        mov     \caller, x30
        bl      \found
        cbz     x0, 1f
        .cfi_remember_state
        ldp     x29, x30, [sp], 48
        .cfi_def_cfa_offset 0
        .cfi_restore 29
        .cfi_restore 30
        ret
        .cfi_restore_state
1:      ldp     x0, x1, [sp, 16]
        ldr     x2, [sp, 32]
        ldp     x29, x30, [sp], 48
        .cfi_def_cfa_offset 0
        .cfi_restore 29
        .cfi_restore 30
        adrp    x16, \real
        ldr     x16, [x16, :lo12:\real]
        br      x16
        .cfi_endproc
        .size   \name, . - \name
        .endm

        door    dlsym, cutrace_preload_find, cutrace_preload_real_dlsym, x2
        door    dlvsym, cutrace_preload_find_version, cutrace_preload_real_dlvsym, x3

        .section .note.GNU-stack, "", %progbits

// Made for branch target identification.
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000000, 4, 1, 0
#endif
