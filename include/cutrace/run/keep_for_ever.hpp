// SPDX-License-Identifier: Apache-2.0
// Keeps an object, or a library, in memory for the rest of the process. Its owner may be gone while one of the
// program's threads still runs a function of it.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cutrace/config.hpp>
#include <memory>
#include <new>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// Keeps `what` until the process ends: nobody knows when it would be safe to destroy. A leak checker finds it in the
/// list, unless there was no memory for its node there.
template <class T>
void keep_for_ever(std::unique_ptr<T> what) {
  struct kept {
    T* what;
    kept* next;
  };
  static std::atomic<kept*> all{nullptr};
  kept* k = new (std::nothrow) kept{what.release(), all.load(std::memory_order_relaxed)};
  while (k != nullptr && !all.compare_exchange_weak(k->next, k, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

/// Keeps the library in which `address` lies loaded until the process ends, whoever closes it. Waits for the loader.
inline void keep_library(const void* address) noexcept {
  Dl_info where{};
  if (::dladdr(address, &where) != 0 && where.dli_fname != nullptr)
    ::dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
