// SPDX-License-Identifier: Apache-2.0
// A run by `--method ioctl`: the tracer's process beside the program, and a process for each traced one that writes its
// trace. The command only carries records from one to the others, and no thread of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cutrace/ioctl/device_numbers.hpp>
#include <cutrace/ioctl/record_ring.hpp>
#include <cutrace/ioctl/tracer_process.hpp>
#include <map>
#include <string>
#include <vector>

#include "cutrace/program_process.hpp"

namespace cutrace_tool {

class ioctl_run {
 public:
  /// `writers`: the variables of who writes a trace, CUTRACE_SINKS and CUTRACE_RUN among them. @throws usage_error
  /// where this machine cannot do it
  ioctl_run(std::map<std::string, std::string> writers, bool children);
  ~ioctl_run();
  ioctl_run(const ioctl_run&) = delete;
  ioctl_run& operator=(const ioctl_run&) = delete;

  /// How the program starts.
  start_gate gate();
  /// Why `gate` refused; empty: it did not.
  const std::string& refusal() const { return refusal_; }

  /// Carries what is there. Often: what finds no room before it is lost, and counted.
  void relay();
  /// The last of it; then the traces are closed, and waited for.
  void finish();
  /// What the user should know, a line each.
  std::vector<std::string> notes() const;

 private:
  struct writer {
    pid_t process = -1;
    int pipe = -1;
  };
  bool carry();
  writer& writer_of(const cutrace::ioctls::trace_record& r);
  writer start_writer(const cutrace::ioctls::trace_record& r);
  [[noreturn]] void write_trace(int pipe, const cutrace::ioctls::trace_record& r) const;

  std::map<std::string, std::string> variables_;
  bool children_;
  std::uint64_t since_ns_;
  cutrace::ioctls::device_numbers devices_;
  std::uint32_t branch_;
  cutrace::ioctls::record_ring ring_;
  cutrace::ioctls::tracer_process tracer_;
  std::map<std::uint32_t, writer> writers_;
  std::string refusal_;
  bool tracer_gone_ = false;
};

}  // namespace cutrace_tool
