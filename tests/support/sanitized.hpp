// SPDX-License-Identifier: Apache-2.0
// Whether this is a build with AddressSanitizer or ThreadSanitizer: their allocators keep freed memory aside, and do
// not survive a fork of a process with threads (a lock that another thread held stays locked in the child), so that a
// forked child must not allocate. CUTRACE_TEST_TSAN says whether it is ThreadSanitizer.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUTRACE_TEST_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define CUTRACE_TEST_TSAN 1
#endif
#endif
#if !defined(CUTRACE_TEST_TSAN) && defined(__SANITIZE_THREAD__)
#define CUTRACE_TEST_TSAN 1
#elif !defined(CUTRACE_TEST_TSAN)
#define CUTRACE_TEST_TSAN 0
#endif
#if CUTRACE_TEST_TSAN || defined(CUTRACE_TEST_ASAN) || defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
