// SPDX-License-Identifier: Apache-2.0
// What this process may do, by /proc/self/status.
#pragma once

#include <cstdint>
#include <string>

#include "setup.hpp"

namespace cutrace_tool::doctor {

struct capabilities {
  std::string unread;  ///< why the capabilities are not known; empty: they are known
  std::uint64_t effective = 0;

  // Numbers from linux/capability.h, whose older versions lack the last two.
  bool sys_ptrace() const noexcept { return has(19); }
  bool sys_admin() const noexcept { return has(21); }
  bool perfmon() const noexcept { return has(38) || sys_admin(); }
  bool bpf() const noexcept { return has(39) || sys_admin(); }

  static capabilities read(const setup& s) {
    capabilities c;
    const machine_file status = read_file(s, "/proc/self/status");
    const std::string bits = field(status.text, "CapEff");
    if (!status.read())
      c.unread = status.why();
    else if (bits.empty())
      c.unread = "/proc/self/status has no line CapEff";
    else
      c.effective = std::strtoull(bits.c_str(), nullptr, 16);
    return c;
  }

 private:
  bool has(int bit) const noexcept { return (effective >> bit & 1u) != 0; }
};

}  // namespace cutrace_tool::doctor
