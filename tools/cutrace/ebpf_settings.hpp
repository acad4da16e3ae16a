// SPDX-License-Identifier: Apache-2.0
// What CUTRACE_EBPF_... variables say of probes, for `cutrace run` and `cutrace attach`.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "call_probes.hpp"
#include "cutrace/ebpf_run.hpp"
#include "cutrace/exit_status.hpp"
#include "cutrace/nvidia_devices.hpp"
#include "kernel_events.hpp"
#include "kernel_probes.hpp"

namespace cutrace_tool {

/// A size in bytes, "64K" or "32M", as ring buffers can have it: a power of two from a page on. @throws usage_error
inline std::uint64_t ring_bytes_of(const char* text) {
  char* end = nullptr;
  std::uint64_t n = std::strtoull(text, &end, 10);
  if (*end == 'K' || *end == 'M') n <<= *end == 'K' ? 10 : 20;
  if (*end == 'K' || *end == 'M') ++end;
  if (*end != '\0' || *text == '-' || n < 4096 || n > (std::uint64_t{1} << 30) || (n & (n - 1)) != 0)
    throw usage_error(std::string("CUTRACE_EBPF_RING=\"") + text +
                      "\" cannot be used; accepted: a power of two from 4K to 1024M");
  return n;
}

/// @param joined true: also loads the BPF program that is given CUPTI's correlation ids of calls
/// @throws usage_error for a variable that cannot be used, no_probes where Linux refuses
inline std::unique_ptr<cutrace_ebpf::call_probes> load_probes(bool children, const std::string& method = "ebpf",
                                                              bool joined = false) {
  cutrace_ebpf::probe_options o;
  o.children = children;
  o.joined = joined;
  if (const char* ring = std::getenv("CUTRACE_EBPF_RING")) o.ring_bytes = ring_bytes_of(ring);
  if (const char* links = std::getenv("CUTRACE_EBPF_LINKS")) o.links = links;
  try {
    return std::make_unique<cutrace_ebpf::call_probes>(o);
  } catch (const cutrace_ebpf::refused& e) {
    throw no_probes("--method " + method + ": " + e.what());
  }
}

/// Probes of what Linux does for the threads that are traced, and what their records are read with: numbers of devices,
/// the driver's branch, names of probed functions.
struct loaded_kernel_probes {
  std::unique_ptr<cutrace_ebpf::kernel_probes> probes;
  cutrace_ebpf::kernel_view view;
};
/// Loads the kernel probes that CUTRACE_EBPF_KERNEL asks for, beside `calls`, which must outlive them.
/// @throws usage_error
inline loaded_kernel_probes load_kernel_probes(const cutrace_ebpf::call_probes& calls) {
  cutrace_ebpf::kernel_options o;
  if (const char* kinds = std::getenv("CUTRACE_EBPF_KERNEL")) o.kinds = kinds;
  if (const char* handlers = std::getenv("CUTRACE_EBPF_INTERRUPT")) o.interrupt = handlers;
  if (const char* functions = std::getenv("CUTRACE_EBPF_FUNCTIONS")) o.functions = functions;
  loaded_kernel_probes k;
  k.view.devices = find_nvidia_devices();
  k.view.branch = find_driver_branch();
  try {
    k.probes = std::make_unique<cutrace_ebpf::kernel_probes>(calls, k.view.devices, k.view.branch, o);
  } catch (const cutrace_ebpf::refused& e) {
    throw usage_error(std::string("CUTRACE_EBPF_KERNEL: ") + e.what());
  }
  k.view.functions = k.probes->functions();
  return k;
}

/// Whether probes may be kept to one process: from Linux 6.12 on. Links of older releases take the id of a thread for
/// that of its process (kernel commit 46ba0e49b642; in 6.10 and 6.11 partly mended).
bool probes_keep_to_a_process();

}  // namespace cutrace_tool
