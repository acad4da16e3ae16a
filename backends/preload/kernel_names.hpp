// SPDX-License-Identifier: Apache-2.0
// Names of kernels by their handles, learned from the calls by which a program gets them. The driver cannot be asked:
// only launches accept a kernel's handle (CUkernel) where a function's (CUfunction) is expected.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "hooks.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

class kernel_names {
 public:
  static constexpr std::size_t limit = 1u << 15;

  /// Name of the kernel with this handle; null where it is not known. Any thread; the text lives as long as the
  /// process.
  const char* find(std::uint64_t handle) const noexcept {
    for (std::size_t i = 0, at = place(handle); i < longest; ++i, at = (at + 1) % limit) {
      const std::uint64_t known = entries_[at].handle.load(std::memory_order_acquire);
      if (known == handle) return entries_[at].name.load(std::memory_order_acquire);
      if (known == 0) return nullptr;
    }
    return nullptr;
  }

  /// Names a handle, which may have meant another kernel before, of a module that is gone. Copies the text, once for
  /// each new name; copies stay. Any thread.
  void set(std::uint64_t handle, const char* name) noexcept {
    if (handle == 0 || name == nullptr) return;
    const char* before = find(handle);
    if (before != nullptr && std::strcmp(before, name) == 0) return;
    char* copy = ::strdup(name);
    if (copy == nullptr) return;
    if (!lock_.lock_soon()) return ::free(copy);
    bool kept = false;
    for (std::size_t i = 0, at = place(handle); i < longest; ++i, at = (at + 1) % limit) {
      entry& e = entries_[at];
      const std::uint64_t known = e.handle.load(std::memory_order_relaxed);
      if (known != handle && known != 0) continue;
      e.name.store(copy, std::memory_order_release);
      e.handle.store(handle, std::memory_order_release);
      kept = true;
      break;
    }
    lock_.unlock();
    if (!kept) ::free(copy);
  }

  void after_fork() noexcept { lock_.reset(); }

 private:
  static constexpr std::size_t longest = 64;  ///< entries that are looked at for one handle
  struct entry {
    std::atomic<std::uint64_t> handle;
    std::atomic<const char*> name;
  };
  static std::size_t place(std::uint64_t handle) noexcept {
    return static_cast<std::size_t>((handle >> 4) * 0x9e3779b97f4a7c15u >> 40) % limit;
  }
  entry entries_[limit] = {};
  spin_lock lock_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
