// SPDX-License-Identifier: Apache-2.0
// Times that nobody can compute when work is issued: of what waits for a value in memory, for a host function that has
// not returned or for a kernel that never ends, and of all that stands behind such work. And the loss of a context.
#pragma once

#include <atomic>
#include <cstdint>
#include <cutrace/event.hpp>
#include <memory>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

constexpr std::uint64_t never_ns = ~std::uint64_t{0};

/// When a work runs, once that is known. Written once, under the machine's lock; the end last. Read by any thread.
struct moment {
  std::atomic<std::uint64_t> start_ns{never_ns};
  std::atomic<std::uint64_t> end_ns{never_ns};
  bool known() const { return end_ns.load(std::memory_order_acquire) != never_ns; }
};
using moment_ptr = std::shared_ptr<moment>;

/// What becomes of a context whose kernel faults: nothing that ends later than `at_ns` ever ends. Read by any thread.
struct loss {
  std::atomic<std::uint64_t> at_ns{never_ns};      ///< the begin of the kernel that faults
  std::atomic<std::uint64_t> report_ns{never_ns};  ///< from then on calls return the code
  std::atomic<std::int32_t> code{0};               ///< written before the times
  bool reported(std::uint64_t now_ns) const { return now_ns >= report_ns.load(std::memory_order_acquire); }
  bool reached(std::uint64_t end_ns) const { return end_ns <= at_ns.load(std::memory_order_acquire); }
};

/// Kernels of this name go wrong, once.
struct kernel_fault {
  std::string name;
  std::int32_t code = 0;  ///< what calls return once it has faulted; 0: the kernel never ends
  std::uint64_t at = 1;   ///< which of its executions, nodes of graphs included, in the order of their launches
};

}  // namespace sim
CUTRACE_END_NAMESPACE
