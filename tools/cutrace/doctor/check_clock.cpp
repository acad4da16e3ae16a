// SPDX-License-Identifier: Apache-2.0
// Which clock a trace will have, as the runtime chooses it.
#include <cutrace/collect/clock_map.hpp>

#include "checks.hpp"

namespace cutrace_tool::doctor {

findings check_clock(const setup& s) {
  finding f{"clock", for_all, state::ok, "", ""};
  const std::string source = read_file(s, "/sys/devices/system/clocksource/clocksource0/current_clocksource").text;
  const std::string kernel_uses =
      source.empty() ? ", the kernel's own clock source is not reported" : ", the kernel uses " + source;
  if (cutrace::detail::counter_is_invariant()) {
    f.what = "the processor's counter is invariant, and cutrace takes its time from it" + kernel_uses;
    return {f};
  }
  const std::string flags = " " + field(read_file(s, "/proc/cpuinfo").text, "flags") + " ";
  f.state = state::limited;
  f.what = "the processor's counter is not to be trusted";
  if (flags.find(" constant_tsc ") == std::string::npos) f.what += " (no constant_tsc)";
  if (flags.find(" nonstop_tsc ") == std::string::npos) f.what += " (no nonstop_tsc)";
  f.what += ": cutrace takes CLOCK_MONOTONIC, which costs more a reading" + kernel_uses;
  f.remedy = "in a virtual machine, let its host pass the invariant TSC on; times are right either way";
  return {f};
}

}  // namespace cutrace_tool::doctor
