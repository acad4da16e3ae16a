// SPDX-License-Identifier: Apache-2.0
// What this translation unit gets: markers, or nothing (CUTRACE_ENABLED).
#pragma once

#include <cutrace/version.hpp>

#if __cplusplus < 201703L && !defined(_MSC_VER)
#error "cutrace needs C++17: compile with -std=c++17 or newer, or leave the include out"
#endif

// Markers exist on Linux with GCC or clang (nvcc uses one of them for host code). On other platforms, in HIP builds and
// with CUTRACE_DISABLE the same source compiles to nothing. The device side of a .cu file has no markers either: the
// marker macros look at __CUDA_ARCH__ (stage_macros.hpp, mark.hpp).
#if defined(CUTRACE_DISABLE) || !defined(__linux__) || defined(__HIP__) || defined(__HIPCC__) || defined(_MSC_VER) || \
    !(defined(__x86_64__) || defined(__aarch64__))
#define CUTRACE_ENABLED 0
#else
#define CUTRACE_ENABLED 1
#endif

// Number of the binary contract between objects (executable, shared libraries) of one process: the C table, the 64-byte
// record, the thread state. Objects with equal numbers share one runtime whatever their library versions; objects with
// other numbers do not see it.
#ifndef CUTRACE_ABI_VERSION
#define CUTRACE_ABI_VERSION 1
#endif

#define CUTRACE_CONCAT_2(a, b) a##b
#define CUTRACE_CONCAT(a, b) CUTRACE_CONCAT_2(a, b)

// One inline namespace per version, and one for what is disabled, so that two versions of the library in one process,
// or enabled and disabled translation units of one program, never share a symbol with two meanings.
#define CUTRACE_NAMESPACE_OF_2(a, b, c) v##a##_##b##_##c
#define CUTRACE_NAMESPACE_OF_1(a, b, c) CUTRACE_NAMESPACE_OF_2(a, b, c)
#if CUTRACE_ENABLED
#define CUTRACE_NAMESPACE CUTRACE_NAMESPACE_OF_1(CUTRACE_VERSION_MAJOR, CUTRACE_VERSION_MINOR, CUTRACE_VERSION_PATCH)
#else
#define CUTRACE_NAMESPACE off
#endif
#define CUTRACE_BEGIN_NAMESPACE \
  namespace cutrace {           \
  inline namespace CUTRACE_NAMESPACE {
#define CUTRACE_END_NAMESPACE \
  }                           \
  }

#if defined(__GNUC__)
#define CUTRACE_LIKELY(x) __builtin_expect(!!(x), 1)
#define CUTRACE_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define CUTRACE_NOINLINE __attribute__((noinline, cold))
// Not inlined, for the sake of compile time. `cold` would be wrong here: it makes the calling code cold, too.
#define CUTRACE_ONE_COPY __attribute__((noinline))
#define CUTRACE_INLINE inline __attribute__((always_inline))
// Compiled in each source file that includes it, even where nothing there calls it; the linker keeps one copy.
#define CUTRACE_WEAK __attribute__((weak))
// Code of the library belongs to the object that compiled it: two objects of one process may hold different versions.
#define CUTRACE_LOCAL __attribute__((visibility("hidden")))
// For reads that are ordered by a lock which ThreadSanitizer does not see.
#define CUTRACE_NO_SANITIZE_THREAD __attribute__((no_sanitize("thread")))
#else
#define CUTRACE_LIKELY(x) (x)
#define CUTRACE_UNLIKELY(x) (x)
#define CUTRACE_NOINLINE
#define CUTRACE_ONE_COPY
#define CUTRACE_INLINE inline
#define CUTRACE_WEAK inline
#define CUTRACE_LOCAL
#define CUTRACE_NO_SANITIZE_THREAD
#endif
