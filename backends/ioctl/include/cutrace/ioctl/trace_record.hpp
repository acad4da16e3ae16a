// SPDX-License-Identifier: Apache-2.0
// What the tracer keeps of one ioctl: bytes as they were found, nothing decoded yet, so that the program waits for no
// more than the reading. It goes through record_ring to the command, then through a pipe to the process that writes
// the trace. The eBPF method has another record, which becomes one of these only to be decoded.
#pragma once

#include <cstdint>
#include <cstring>
#include <cutrace/clock.hpp>
#include <cutrace/event.hpp>
#include <type_traits>

CUTRACE_BEGIN_NAMESPACE
namespace ioctls {

struct trace_record {
  static constexpr std::uint32_t block_bytes = 64;  ///< of each parameter block that are kept

  enum class what : std::uint32_t {
    ioctl = 1,
    unfinished,  ///< an ioctl whose thread ended in it; `end_ns`: when the tracer saw that
    lost,        ///< `result` records of this process found no room
    ended,       ///< of this process, which has ended, no record follows
  };
  what kind;
  std::uint32_t process, thread;
  std::uint32_t request;
  std::uint64_t begin_ns, end_ns;  ///< CLOCK_MONOTONIC
  std::int64_t result;             ///< as the kernel returns it: -errno where it failed
  std::uint32_t status;  ///< NV_STATUS in the parameter block, read apart from the bytes below; if `status_read`
  ioctl_device device;
  std::uint8_t status_read;
  /// Of the parameter block before and after the ioctl, and of the inner block, to which the first one points.
  std::uint8_t entry_bytes, exit_bytes, inner_entry_bytes, inner_exit_bytes;
  char node[24];
  char thread_name[16];  ///< of the kernel, as it was at the call
  std::uint8_t entry[block_bytes], exit[block_bytes], inner_entry[block_bytes], inner_exit[block_bytes];
};
static_assert(std::is_trivially_copyable<trace_record>::value && sizeof(trace_record) % 8 == 0, "copied as bytes");

/// Of a process, now; all else is 0.
inline trace_record process_record(trace_record::what kind, std::uint32_t process) noexcept {
  trace_record r;
  std::memset(static_cast<void*>(&r), 0, sizeof(r));
  r.kind = kind;
  r.process = process;
  r.begin_ns = r.end_ns = clock::monotonic_ns();
  return r;
}
/// Counts `n` records of a process that are lost.
inline trace_record lost_record(std::uint32_t process, std::uint64_t n) noexcept {
  trace_record r = process_record(trace_record::what::lost, process);
  r.result = static_cast<std::int64_t>(n);
  return r;
}

}  // namespace ioctls
CUTRACE_END_NAMESPACE
