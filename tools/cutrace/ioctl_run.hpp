// SPDX-License-Identifier: Apache-2.0
// A run by `--method ioctl`: the tracer's process beside the program, and for each traced process another one
// that writes its trace. The command only carries records from the tracer to the writing processes, and starts no
// thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cutrace/ioctl/device_numbers.hpp>
#include <cutrace/ioctl/record_ring.hpp>
#include <cutrace/ioctl/tracer_process.hpp>
#include <map>
#include <string>
#include <vector>

#include "cutrace/outside_run.hpp"

namespace cutrace_tool {

class ioctl_run final : public outside_run {
 public:
  /// `writers`: environment of the processes that write traces, CUTRACE_SINKS and CUTRACE_RUN among them.
  /// @throws usage_error where this machine cannot do it
  ioctl_run(std::map<std::string, std::string> writers, bool children);
  ~ioctl_run() override;

  start_gate gate() override;
  const std::string& refusal() const override { return refusal_; }
  void relay() override;
  bool finish() override;
  std::vector<std::string> notes() const override;

 private:
  struct writer {
    pid_t process = -1;
    int pipe = -1;
  };
  bool carry(const cutrace::ioctls::trace_record& r);  ///< to the process that writes it; false: not now
  void close_trace_of(std::uint32_t process);
  std::uint64_t hidden() const noexcept { return ring_.hidden().load(std::memory_order_relaxed); }
  writer& writer_of(const cutrace::ioctls::trace_record& r);
  writer start_writer(const cutrace::ioctls::trace_record& r) const;

  std::map<std::string, std::string> variables_;  ///< environment of the writing processes
  bool children_;
  std::uint64_t since_ns_;  ///< begin of the run, CLOCK_MONOTONIC
  cutrace::ioctls::device_numbers devices_;
  std::uint32_t branch_;  ///< of the kernel driver's release: 580
  cutrace::ioctls::record_ring ring_;
  cutrace::ioctls::tracer_process tracer_;
  std::map<std::uint32_t, writer> writers_;  ///< by the traced process
  std::vector<pid_t> ending_;                ///< writing processes whose pipe is closed
  std::string refusal_;
  bool tracer_gone_ = false;
  int tracer_status_ = 0;          ///< of waitpid, once it is gone
  std::uint64_t carried_ = 0;      ///< records
  std::uint64_t given_up_ = 0;     ///< ioctls that the writing process did not take in time
  std::uint64_t writer_gone_ = 0;  ///< ioctls whose writing process had ended, or was never there
};

}  // namespace cutrace_tool
