// SPDX-License-Identifier: Apache-2.0
// For programs whose forked children end by exit: LeakSanitizer does not look at them. Its check takes the locks of the
// allocator, which a thread of the parent may have held at the fork; the releases up to LLVM 16 then wait for ever
// (seen with 14: 78 of 300 children of gpu_many on a busy machine).
#pragma once

#include <unistd.h>

namespace test_support {
inline const pid_t first_process = ::getpid();
}

/// Asked by LeakSanitizer before its check (sanitizer/lsan_interface.h).
extern "C" int __lsan_is_turned_off();  // NOLINT(bugprone-reserved-identifier)
extern "C" int __lsan_is_turned_off() { return ::getpid() != test_support::first_process; }
