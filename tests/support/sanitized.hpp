// SPDX-License-Identifier: Apache-2.0
// Whether this is a build with AddressSanitizer or ThreadSanitizer: their allocators keep freed memory aside, and do
// not survive a fork of a process with threads (a lock that another thread held stays locked in the child), so that a
// forked child must not allocate.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CUTRACE_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(CUTRACE_TEST_SANITIZED)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
#undef CUTRACE_TEST_SANITIZED
