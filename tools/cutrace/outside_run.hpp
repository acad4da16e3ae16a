// SPDX-License-Identifier: Apache-2.0
// A run whose program is watched from outside: the command relays records to processes that write traces.
#pragma once

#include <string>
#include <vector>

#include "cutrace/program_process.hpp"

namespace cutrace_tool {

class outside_run {
 public:
  virtual ~outside_run() = default;
  outside_run() = default;
  outside_run(const outside_run&) = delete;
  outside_run& operator=(const outside_run&) = delete;

  /// How the program starts.
  virtual start_gate gate() = 0;
  /// Why `gate` refused; empty: it did not.
  virtual const std::string& refusal() const = 0;
  /// Becomes readable when `relay` has much to do; -1: it is only called from time to time.
  virtual int wake_fd() const { return -1; }
  /// Carries the records that have come. To be called often: records that find no room until then are lost, and
  /// counted.
  virtual void relay() = 0;
  /// Carries the last records, closes the traces and waits for them. False: some records are in no trace, or may
  /// be in none; see notes.
  virtual bool finish() = 0;
  /// What the user should know, a line each.
  virtual std::vector<std::string> notes() const = 0;
};

}  // namespace cutrace_tool
