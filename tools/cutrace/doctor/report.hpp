// SPDX-License-Identifier: Apache-2.0
// All findings and what follows from them for each method; as text for people and as JSON for scripts.
#pragma once

#include <string>
#include <vector>

#include "finding.hpp"
#include "methods.hpp"

namespace cutrace_tool::doctor {

/// What the findings say of one method. The worst one decides; what was not checked does not count as broken, but is
/// named.
struct verdict {
  const method* about;
  doctor::state state;  ///< of the machine; `unknown`: nothing speaks against it, but not all was checked
  std::vector<const finding*> because;  ///< the findings that decided `state`

  bool works() const noexcept { return about->offered && state != doctor::state::broken; }
};

struct report {
  findings found;
  std::vector<verdict> verdicts;
  method_set asked = default_method;  ///< the methods that the exit code is about
  int exit_status = 0;                ///< 0: each of them works here, maybe with limits; 1: one does not
};

verdict judge(const method& m, const findings& found);

/// `colour` for a terminal.
std::string as_text(const report& r, bool colour);
/// One object and a newline; its schema is in docs/doctor.md.
std::string as_json(const report& r);

}  // namespace cutrace_tool::doctor
