// SPDX-License-Identifier: Apache-2.0
// The capture methods that doctor judges. A version of cutrace that learns a method changes the method's line here.
// Method ebpf needs libraries at build time.
#pragma once

#include "../build_parts.hpp"
#include "finding.hpp"

namespace cutrace_tool::doctor {

struct method {
  const char* name;  ///< as `--method` takes it
  method_set bit;
  bool offered;  ///< by this build of cutrace
  const char* how;
};

inline constexpr method methods[] = {
    {"cupti", for_cupti, true, "GPU work and driver calls by NVIDIA's CUPTI"},
    {"preload", for_preload, true, "driver calls by a preloaded library"},
    {"ebpf", for_ebpf, built_with_ebpf, "driver calls by probes of the kernel"},
    {"ioctl", for_ioctl, true, "ioctls by ptrace"},
};

/// What `cutrace run` does when nothing else is asked for.
constexpr method_set default_method = for_cupti;

}  // namespace cutrace_tool::doctor
