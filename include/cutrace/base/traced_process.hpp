// SPDX-License-Identifier: Apache-2.0
// The process that this process's trace tells of: itself, unless it writes down what a tracer saw of another one.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cutrace/config.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// Filled before the first session, and not changed after that. The other process may be gone by then, so that nothing
/// of it can be asked for later. Times of another process come from the kernel, so the trace has its clock.
struct told_process {
  std::uint32_t id = 0;  ///< 0: this process itself
  std::string name, command_line;
  std::uint64_t since_ns = 0;  ///< CLOCK_MONOTONIC: when its trace begins, before the session of who writes it; 0: then

  bool other() const noexcept { return id != 0; }
  static told_process& own() {
    static told_process* p = new told_process();  // never destroyed: sinks close at exit
    return *p;
  }
};

inline std::uint32_t told_process_id() {
  const told_process& p = told_process::own();
  return p.other() ? p.id : static_cast<std::uint32_t>(::getpid());
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
