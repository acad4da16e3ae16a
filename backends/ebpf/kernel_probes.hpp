// SPDX-License-Identifier: Apache-2.0
// The programs of kernel.bpf.c beside those of calls.bpf.c: what the kernel does for traced threads. Each kind is
// loaded by itself; a kind that this machine refuses becomes a note, and the others work. One thread, that of the call
// probes, which must live longer.
#pragma once

#include <cstdint>
#include <cutrace/ioctl/device_numbers.hpp>
#include <string>
#include <vector>

#include "call_probes.hpp"

namespace cutrace_ebpf {

struct kernel_options {
  std::string kinds;                 ///< of `kernel_kinds`, by commas; empty: all
  std::string interrupt = "nvidia";  ///< what the names of interrupt handlers begin with
  std::string functions;             ///< of modules, by commas, in place of NVIDIA's; for tests
  bool older_kernel = false;         ///< load the programs for older kernels, by helpers; for tests
};

/// What a kind is called in options and notes.
inline constexpr const char* kernel_kinds[] = {"ioctl", "sched", "irq", "xid", "uvm", "module"};

class kernel_probes {
 public:
  /// `branch`: of the driver, 0: not known. @throws refused for a word in `options` that means nothing
  kernel_probes(const call_probes& calls, const cutrace::ioctls::device_numbers& devices, std::uint32_t branch,
                const kernel_options& options);
  ~kernel_probes();
  kernel_probes(const kernel_probes&) = delete;
  kernel_probes& operator=(const kernel_probes&) = delete;

  /// What this machine refuses or lacks, a line each.
  const std::vector<std::string>& notes() const noexcept { return notes_; }
  /// Kinds that work, by commas.
  const std::string& working() const noexcept { return working_; }
  /// Functions of modules that are probed, by the number in their records.
  const std::vector<std::string>& functions() const noexcept { return functions_; }
  /// Losses so far that belong to no single process.
  cutrace_ebpf_totals totals() const;
  /// Times that the kernel passed over a program.
  std::uint64_t passed_over() const;
  /// Takes all probes off; their counts can still be read.
  void detach();

 private:
  struct part {
    bpf_object* object;
    std::vector<bpf_link*> links;
    std::vector<int> programs;
    int totals;
  };
  int load(const std::vector<const char*>& programs, const char* target, std::uint32_t function);
  void fill_nodes(const cutrace::ioctls::device_numbers& devices);
  void fill_blocks(bpf_object* object, std::uint32_t branch) const;
  void load_functions(const std::string& wanted);

  const call_probes& calls_;
  cutrace_ebpf_kernel settings_ = {};
  std::uint32_t branch_;
  std::vector<part> parts_;
  std::vector<std::string> notes_, functions_;
  std::string working_;
};

}  // namespace cutrace_ebpf
