// SPDX-License-Identifier: Apache-2.0
// How linking makes sure that a program and the compiled library (the archive behind the CMake target cutrace::cutrace)
// fit: by names of symbols alone. Without the archive nothing here has any effect.
#pragma once

#include <cstddef>  // the macros of the C++ library
#include <cutrace/config.hpp>

// The C++ library and its layout of strings and containers, which cross between program and archive.
#if defined(_LIBCPP_VERSION)
#define CUTRACE_CXX_LIBRARY CUTRACE_CONCAT(libcxx_abi_, _LIBCPP_ABI_VERSION)
#elif defined(_GLIBCXX_DEBUG)
#define CUTRACE_CXX_LIBRARY libstdcxx_debug_mode
#elif defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
#define CUTRACE_CXX_LIBRARY libstdcxx
#elif defined(__GLIBCXX__)
#define CUTRACE_CXX_LIBRARY libstdcxx_old_abi
#else
#define CUTRACE_CXX_LIBRARY unknown_cxx_library
#endif

// A sanitizer cannot see what code does that it has not instrumented, and reports errors where there are none.
#if defined(__has_feature)
#define CUTRACE_HAS_FEATURE(x) __has_feature(x)
#else
#define CUTRACE_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || CUTRACE_HAS_FEATURE(address_sanitizer)
#define CUTRACE_SANITIZER address_sanitizer
#elif defined(__SANITIZE_HWADDRESS__) || CUTRACE_HAS_FEATURE(hwaddress_sanitizer)
#define CUTRACE_SANITIZER hwaddress_sanitizer
#elif defined(__SANITIZE_THREAD__) || CUTRACE_HAS_FEATURE(thread_sanitizer)
#define CUTRACE_SANITIZER thread_sanitizer
#elif CUTRACE_HAS_FEATURE(memory_sanitizer)
#define CUTRACE_SANITIZER memory_sanitizer
#else
#define CUTRACE_SANITIZER no_sanitizer
#endif

#define CUTRACE_COMPILED_NAME_3(version, library, sanitizer, abi) \
  cutrace_##version##_abi##abi##_compiled_for_##library##_and_##sanitizer##__otherwise_link_cutrace_header_only
#define CUTRACE_COMPILED_NAME_2(version, library, sanitizer, abi) \
  CUTRACE_COMPILED_NAME_3(version, library, sanitizer, abi)
/// The symbol that the archive defines, and that files which link the archive refer to. A linker that misses it prints
/// its name, which says what the file was compiled for.
#define CUTRACE_COMPILED_NAME \
  CUTRACE_COMPILED_NAME_2(CUTRACE_NAMESPACE, CUTRACE_CXX_LIBRARY, CUTRACE_SANITIZER, CUTRACE_ABI_VERSION)

#define CUTRACE_ANCHOR_NAME_3(part, version) cutrace_##part##_##version
#define CUTRACE_ANCHOR_NAME_2(part, version) CUTRACE_ANCHOR_NAME_3(part, version)
/// Defines the symbol by which link options (-u) name a part of the library (runtime, cupti, sim), so that a linker
/// takes it from an archive although no other file refers to it. Weak: a second copy in the same object does no harm.
#define CUTRACE_ANCHOR(part)                                                                                 \
  extern "C" {                                                                                               \
  __attribute__((weak, used, visibility("hidden"))) char CUTRACE_ANCHOR_NAME_2(part, CUTRACE_NAMESPACE) = 1; \
  }

// CMake targets that bring an archive define CUTRACE_COMPILED, CUTRACE_COMPILED_CUPTI and CUTRACE_COMPILED_SIM. Each
// file of a program then refers to the archive's symbols, so that they are linked even where the file is in a static
// library, which link options do not reach. The references are ELF notes, which linkers keep whatever else they
// discard, and which cost nothing at run time: 24 bytes that the linker resolves. They declare the symbols hidden,
// since a shared library could otherwise be linked without them. Files compiled as CUDA (.cu) have no such references.
#if CUTRACE_ENABLED && !defined(__CUDACC__) && !defined(__CUDA__)
#define CUTRACE_COMPILED_TEXT_2(x) #x
#define CUTRACE_COMPILED_TEXT(x) CUTRACE_COMPILED_TEXT_2(x)
// clang-format off
#define CUTRACE_REFER_TO(symbol)                           \
  __asm__(                                                 \
      ".pushsection .note.cutrace,\"a\",%note\n"            \
      ".balign 4\n"                                        \
      ".long 8\n"                                          \
      ".long 4\n"                                          \
      ".long 0\n"                                          \
      ".asciz \"cutrace\"\n"                               \
      ".hidden " CUTRACE_COMPILED_TEXT(symbol) "\n"        \
      ".long " CUTRACE_COMPILED_TEXT(symbol) " - .\n"      \
      ".popsection\n")
// clang-format on
#if defined(CUTRACE_COMPILED)
CUTRACE_REFER_TO(CUTRACE_COMPILED_NAME);
#endif
#if defined(CUTRACE_COMPILED_CUPTI)
CUTRACE_REFER_TO(CUTRACE_ANCHOR_NAME_2(cupti, CUTRACE_NAMESPACE));
#endif
#if defined(CUTRACE_COMPILED_SIM)
CUTRACE_REFER_TO(CUTRACE_ANCHOR_NAME_2(sim, CUTRACE_NAMESPACE));
#endif
#undef CUTRACE_REFER_TO
#endif
