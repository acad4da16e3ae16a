// SPDX-License-Identifier: Apache-2.0
// Whether the kernel lets this user set probes of a kind, found out by doing it once: what is permitted depends on the
// kernel's configuration, on lockdown, on capabilities and on filters of containers, and no file holds all of that.
#pragma once

#include <string>

#include "kernel_catalog.hpp"
#include "probe_spec.hpp"

namespace cutrace_ebpf {

struct permission {
  bool given = false;
  std::string reason;  ///< why not
};

/// Loads a program that does nothing, and attaches it for a moment to something that hardly ever happens.
permission try_probe_kind(probe_kind kind, const kernel_catalog& kernel);

}  // namespace cutrace_ebpf
