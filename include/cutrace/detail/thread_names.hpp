// SPDX-License-Identifier: Apache-2.0
// Names of threads as the kernel has them, read by the collector so that the threads pay nothing.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cutrace/detail/string_table.hpp>
#include <cutrace/detail/thread_registry.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// True when the thread's name is new or has changed. Looks at most once a second.
inline bool thread_name_changed(traced_thread& t, std::uint64_t now_ns, string_table& strings, text& name) {
  const bool first = t.named_at_ns == 0;
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
