// SPDX-License-Identifier: Apache-2.0
// The programs of user.bpf.c beside those of calls.bpf.c: probes that the user named. A probe that this machine refuses
// becomes a note, and the others work. On the thread that uses the call_probes object, which must live longer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "call_probes.hpp"
#include "kernel_catalog.hpp"
#include "probe_spec.hpp"
#include "user_events.hpp"

namespace cutrace_ebpf {

/// A probe whose name is known to exist.
struct chosen_probe {
  probe_spec spec;
  kernel_function function;  ///< for tracepoint, fentry and kprobe
  /// Of an uprobe: the library or program. Null: whatever libcuda the program has.
  std::shared_ptr<opened_file> library;
  /// Of fentry in a module: a descriptor of its types. It needs CAP_SYS_ADMIN, so it is opened before that is dropped.
  std::shared_ptr<const int> types;
};

/// A descriptor of a module's types, closed with the last copy. Null: the kernel does not hand it out.
std::shared_ptr<const int> open_module_types(const std::string& module);

class user_probes {
 public:
  /// Loads the probes `wanted`, and attaches those of the kernel. A probe's number is its place in `wanted`, from 1 on.
  user_probes(const call_probes& calls, const kernel_catalog& kernel, std::vector<chosen_probe> wanted);
  ~user_probes();
  user_probes(const user_probes&) = delete;
  user_probes& operator=(const user_probes&) = delete;

  /// Uprobes on the libraries that they name, in every process or in one alone.
  void attach_libraries(std::uint32_t only_process);
  /// Uprobes that name no library, on `file`, which may be the driver's.
  void attach_driver(const opened_file& file, std::uint32_t only_process);
  /// Takes all probes off; a probe that was found nowhere becomes a note.
  void end();

  /// What this machine refuses, a line each.
  const std::vector<std::string>& notes() const noexcept { return notes_; }
  /// Notes since the last call.
  std::vector<std::string> new_notes();
  probe_view view() const;

 private:
  void detach();
  void load_uprobes();
  int load_in_kernel(std::uint32_t number);
  int open(bpf_object*& object, const std::vector<const char*>& programs, const cutrace_ebpf_user_probe& own) const;
  void attach(std::uint32_t number, const opened_file& file, std::uint32_t only_process);
  void refuse(std::uint32_t number, int error, const std::string& more = {});

  const call_probes& calls_;
  const kernel_catalog& kernel_;
  std::vector<chosen_probe> wanted_;
  std::vector<bool> placed_;  ///< the probe is attached somewhere, or was refused
  bpf_object* uprobes_ = nullptr;
  std::vector<bpf_object*> objects_;
  std::vector<bpf_link*> links_;
  uprobe_links places_;
  std::vector<std::string> notes_;
  std::size_t reported_ = 0;
};

}  // namespace cutrace_ebpf
