// SPDX-License-Identifier: Apache-2.0
// The kernel's lockdown, which forbids some of what probes do even to root (kernel_lockdown(7)).
#include "checks.hpp"

namespace cutrace_tool::doctor {

findings check_lockdown(const setup& s) {
  finding f{"lockdown", for_ebpf, state::ok, "", ""};
  const machine_file file = read_file(s, "/sys/kernel/security/lockdown");
  const std::size_t open = file.text.find('['), close = file.text.find(']');
  const std::string level =
      open < close && close != std::string::npos ? file.text.substr(open + 1, close - open - 1) : "";
  if (file.absent()) {
    f.what = "no lockdown is reported (no /sys/kernel/security/lockdown)";
    if (list(s, "/sys/kernel/security").empty()) {
      f.state = state::unknown;
      f.what = "lockdown: not checked, because securityfs is not mounted or empty (/sys/kernel/security)";
    }
  } else if (level.empty()) {
    f.state = state::unknown;
    f.what = "lockdown: not checked, because " + (file.read() ? file.path + " gives no level" : file.why());
  } else {
    f.what = "lockdown is \"" + level + "\"";
    if (level == "none") return {f};
    f.state = state::limited;
    f.what += level == "integrity" ? ": probes of kernel functions may be refused, those of programs are not"
                                   : ": reading kernel memory, kprobes and tracefs are refused even to root";
    f.remedy = "boot without lockdown= and, where it follows from it, without Secure Boot";
  }
  return {f};
}

}  // namespace cutrace_tool::doctor
