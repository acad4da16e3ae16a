// SPDX-License-Identifier: Apache-2.0
// Permission for the GPU's performance counters. Activity records, which are all that cutrace takes, do not need it;
// the finding says so, since the driver's message ERR_NVGPUCTRPERM makes many think otherwise.
#include "capabilities.hpp"
#include "checks.hpp"

namespace cutrace_tool::doctor {

findings check_counters(const setup& s) {
  finding f{"permission.counters", for_none, state::ok, "", ""};
  const machine_file params = read_file(s, "/proc/driver/nvidia/params");
  if (!params.read()) {
    f.state = state::unknown;
    f.what = "counters: not checked, because " + params.why();
    return {f};
  }
  const std::string restricted = field(params.text, "RmProfilingAdminOnly");
  if (restricted.empty()) {
    f.state = state::unknown;
    f.what = "counters: not checked, because /proc/driver/nvidia/params has no line RmProfilingAdminOnly";
    return {f};
  }
  const capabilities may = capabilities::read(s);
  if (restricted == "0") {
    f.what = "performance counters are open to every user; activity records, which cutrace takes, need no permission";
  } else if (may.unread.empty() && (may.sys_admin())) {
    f.what =
        "performance counters are for administrators, and this user is one (CAP_SYS_ADMIN); activity records, which "
        "cutrace takes, need no permission";
  } else {
    f.what = "performance counters are for administrators alone (NVreg_RestrictProfilingToAdminUsers=1)" +
             (may.unread.empty() ? std::string() : ", and " + may.unread) +
             "; activity records, which cutrace takes, need no such permission";
  }
  return {f};
}

}  // namespace cutrace_tool::doctor
