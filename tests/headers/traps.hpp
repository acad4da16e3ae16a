// SPDX-License-Identifier: Apache-2.0
// Names that widespread headers define as macros. A header of ours that uses one of them does not compile behind this.
// clang-format off
#undef I
#undef B0
#undef small
#undef min
#undef max
#undef major
#undef minor
#undef unix
#undef linux
#undef Success
#undef None
#undef Status
#undef Bool
#define CUTRACE_TRAP(message) _Pragma(message)
#define I CUTRACE_TRAP("GCC error \"I: a macro of complex.h\"")
#define B0 CUTRACE_TRAP("GCC error \"B0: a macro of termios.h\"")
#define small CUTRACE_TRAP("GCC error \"small: a macro of rpcndr.h\"")
#define major(d) CUTRACE_TRAP("GCC error \"major: a macro of sys/sysmacros.h\"")
#define minor(d) CUTRACE_TRAP("GCC error \"minor: a macro of sys/sysmacros.h\"")
#define unix CUTRACE_TRAP("GCC error \"unix: a macro of GNU dialects\"")
#define linux CUTRACE_TRAP("GCC error \"linux: a macro of GNU dialects\"")
#define Success CUTRACE_TRAP("GCC error \"Success: a macro of X11\"")
#define None CUTRACE_TRAP("GCC error \"None: a macro of X11\"")
#define Status CUTRACE_TRAP("GCC error \"Status: a macro of X11\"")
#define Bool CUTRACE_TRAP("GCC error \"Bool: a macro of X11\"")
#if defined(CUTRACE_TRAP_MIN_MAX)
#define min(a, b) CUTRACE_TRAP("GCC error \"min: write (std::min)(a, b)\"")
#define max(a, b) CUTRACE_TRAP("GCC error \"max: write (std::max)(a, b)\"")
#endif
