// SPDX-License-Identifier: Apache-2.0
// Functions that do nothing, one for each class of first instruction, among as many others as a driver exports; and one
// that calls what it is given, for what is done inside of a driver call.
__asm__(
    ".text\n"
    ".macro begin name\n"
    "  .p2align 4\n"
    "  .globl \\name\n"
    "  .type \\name, @function\n"
    "\\name:\n"
    ".endm\n"
    // The kernel replaces a nop of five bytes by a call (Linux 6.18), emulates push, and single-steps the others.
    "begin cuNop\n"
    "  .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
    "  xor %eax, %eax\n"
    "  ret\n"
    "  .size cuNop, .-cuNop\n"
    "begin cuPush\n"
    "  push %rbp\n"
    "  xor %eax, %eax\n"
    "  pop %rbp\n"
    "  ret\n"
    "  .size cuPush, .-cuPush\n"
    "begin cuEndbr\n"
    "  endbr64\n"
    "  xor %eax, %eax\n"
    "  ret\n"
    "  .size cuEndbr, .-cuEndbr\n"
    ".macro another\n"
    "  begin cuOther\\@\n"
    "  push %rbp\n"
    "  pop %rbp\n"
    "  ret\n"
    "  .size cuOther\\@, .-cuOther\\@\n"
    ".endm\n"
    ".rept 696\n"
    "  another\n"
    ".endr\n");

extern "C" void cuMake(int (*f)(), int times) {
  for (int i = 0; i < times; ++i) f();
}
