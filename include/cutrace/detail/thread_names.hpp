// SPDX-License-Identifier: Apache-2.0
// Names of threads: those that the program gave them for its tools, else as the kernel has them, read by the collector
// so that the threads pay nothing.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cutrace/detail/string_table.hpp>
#include <cutrace/detail/thread_registry.hpp>
#include <mutex>
#include <string>
#include <unordered_map>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// Names that were given (table::name_thread), by the kernel's number of the thread. Any thread.
class given_thread_names {
 public:
  void set(std::uint32_t thread_id, const char* name) {
    std::lock_guard<std::mutex> hold(mutex_);
    if (names_.size() >= limit && names_.count(thread_id) == 0) return;
    names_[thread_id].assign(name, strnlen(name, longest));
    changes_.fetch_add(1, std::memory_order_release);
  }
  /// The number may be given to another thread.
  void forget(std::uint32_t thread_id) {
    if (changes() == 0) return;
    std::lock_guard<std::mutex> hold(mutex_);
    names_.erase(thread_id);
  }
  /// Empty where none was given.
  std::string of(std::uint32_t thread_id) const {
    if (changes() == 0) return {};
    std::lock_guard<std::mutex> hold(mutex_);
    const auto found = names_.find(thread_id);
    return found != names_.end() ? found->second : std::string();
  }
  /// Whether a name was given since the last call with this variable.
  bool changed_since(std::uint32_t& seen) const noexcept {
    const std::uint32_t before = seen;
    seen = changes();
    return seen != before;
  }

 private:
  /// How often a name was given.
  std::uint32_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }

  static constexpr std::size_t limit = 4096, longest = 256;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::string> names_;
  std::atomic<std::uint32_t> changes_{0};
};

/// True when the thread's name is new or has changed. Asks the kernel at most once a second.
inline bool thread_name_changed(traced_thread& t, const given_thread_names& names, std::uint64_t now_ns,
                                string_table& strings, text& name) {
  const bool first = t.named_at_ns == 0;
  const std::string given = names.of(t.thread_id);
  if (!given.empty()) {
    if (first) t.named_at_ns = now_ns;
    name = strings.intern(given.data(), given.size());
    const bool new_name = name.data != t.name;
    t.name = name.data;
    return new_name;
  }
  if (!first && now_ns - t.named_at_ns < 1000000000u) return false;
  t.named_at_ns = now_ns;
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/self/task/%u/comm", t.thread_id);
  char buffer[64] = {};
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, buffer, sizeof(buffer) - 1) : -1;
  if (fd >= 0) close(fd);
  if (n > 0 && buffer[n - 1] == '\n') --n;
  if (n <= 0) {
    if (!first) return false;
    n = std::snprintf(buffer, sizeof(buffer), "thread %u", t.thread_id);
  }
  name = strings.intern(buffer, static_cast<std::size_t>(n));
  const bool changed = first || name.data != t.name;
  t.name = name.data;
  return changed;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
