// SPDX-License-Identifier: Apache-2.0
// How long request_watch waits, and how much it keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// Times are trace time, in ns. With these numbers everything that is kept stays below 48 MiB.
struct request_watch_limits {
  std::int64_t settle_ns = 250000000;
  std::int64_t quiet_ns = 1000000000;
  std::int64_t missing_ns = 2000000000;    ///< after which a launch without GPU work is waited for no longer
  std::int64_t give_up_ns = 600000000000;  ///< after which a stage is given up that neither ends nor does anything
  std::size_t requests = 4096;             ///< open at a time
  std::size_t stages = 2048;               ///< instances that have not settled
  std::size_t calls = 65536;               ///< of the host, whose end is remembered
  std::size_t launches = 131072;           ///< whose time in the queue is not known yet
  std::size_t busy_stretches = 32768;      ///< of the GPU
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
