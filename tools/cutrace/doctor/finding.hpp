// SPDX-License-Identifier: Apache-2.0
// What one check found: a fact about this machine, what it means for tracing, and what can be done about it.
#pragma once

#include <string>
#include <vector>

namespace cutrace_tool::doctor {

enum class state {
  ok,
  limited,  ///< tracing works, with less than it could show or at a higher cost
  broken,   ///< a method that needs it does not work
  unknown,  ///< not checked: `what` says because of what
};

/// "ok", "limited", "broken" or "unknown", as the JSON text spells it.
inline const char* name_of(state s) noexcept {
  static const char* const names[] = {"ok", "limited", "broken", "unknown"};
  return names[static_cast<int>(s)];
}

/// Capture methods, one bit each: those that a finding decides about. None: it is worth knowing, and decides nothing.
using method_set = unsigned;
constexpr method_set for_none = 0;
constexpr method_set for_cupti = 1, for_preload = 2, for_ebpf = 4, for_ioctl = 8;
constexpr method_set for_all = for_cupti | for_preload | for_ebpf | for_ioctl;

struct finding {
  const char* id;  ///< group and subject, as "cupti.library": never changes, scripts look for it
  method_set methods;
  doctor::state state;
  std::string what;    ///< one line
  std::string remedy;  ///< one line; empty where nothing is to be done
};
using findings = std::vector<finding>;

}  // namespace cutrace_tool::doctor
