// SPDX-License-Identifier: Apache-2.0
// From findings to verdicts.
#include "report.hpp"

namespace cutrace_tool::doctor {

namespace {

/// The order in which states decide: broken, limited, unknown, ok.
int weight(state s) noexcept { return s == state::broken ? 3 : s == state::limited ? 2 : s == state::unknown ? 1 : 0; }

}  // namespace

verdict judge(const method& m, const findings& found) {
  verdict v{&m, state::ok, {}};
  for (const finding& f : found)
    if ((f.methods & m.bit) != 0 && weight(f.state) > weight(v.state)) v.state = f.state;
  for (const finding& f : found)
    if ((f.methods & m.bit) != 0 && f.state == v.state && f.state != state::ok) v.because.push_back(&f);
  return v;
}

}  // namespace cutrace_tool::doctor
