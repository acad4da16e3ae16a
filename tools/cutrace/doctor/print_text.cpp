// SPDX-License-Identifier: Apache-2.0
// A line a finding, its remedy below it, and a line a method at the end.
#include <algorithm>
#include <utility>

#include "cutrace/say.hpp"
#include "report.hpp"

namespace cutrace_tool::doctor {

namespace {

struct mark {
  const char* text;
  const char* colour;  ///< ECMA-48 SGR
};

mark mark_of(state s) noexcept {
  switch (s) {
    case state::ok:
      return {"ok", "\033[32m"};
    case state::limited:
      return {"--", "\033[33m"};
    case state::broken:
      return {"!!", "\033[31m"};
    case state::unknown:
      break;
  }
  return {"??", "\033[36m"};
}

std::string marked(state s, bool colour) {
  const mark m = mark_of(s);
  return colour ? std::string(m.colour) + m.text + "\033[0m" : m.text;
}

/// Names come from the machine: nothing of them may steer a terminal.
std::string printable(std::string s) {
  std::replace(s.begin(), s.end(), '\n', '?');
  return harmless(std::move(s));
}

std::string sentence_of(const verdict& v) {
  std::string ids;
  for (const finding* f : v.because) ids += (ids.empty() ? "" : ", ") + std::string(f->id);
  const bool offered = v.about->offered;
  const std::string none = std::string("this build of cutrace has no method ") + v.about->name + "; ";
  switch (v.state) {
    case state::ok:
      return offered ? "works" : none + "the machine would permit it";
    case state::limited:
      return (offered ? "works with limits: see " : none + "the machine would permit it with limits: see ") + ids;
    case state::broken:
      return (offered ? "does not work because of " : none + "the machine would not permit it because of ") + ids;
    case state::unknown:
      break;
  }
  return (offered ? "nothing speaks against it, but not all was checked: "
                  : none + "nothing speaks against it, but not all was checked: ") +
         ids;
}

}  // namespace

std::string as_text(const report& r, bool colour) {
  std::size_t width = 0;
  for (const finding& f : r.found) width = std::max(width, std::string(f.id).size());
  const auto padded = [&](const std::string& s) { return s + std::string(width - std::min(width, s.size()), ' '); };
  std::string out;
  for (const finding& f : r.found) {
    out += marked(f.state, colour) + "  " + padded(f.id) + "  " + printable(f.what) + "\n";
    if (!f.remedy.empty()) out += "    " + padded("") + "  > " + printable(f.remedy) + "\n";
  }
  if (!r.found.empty()) out += "\n";
  for (const verdict& v : r.verdicts) {
    const state shown = v.about->offered ? v.state : state::unknown;
    out += (v.about->offered ? marked(shown, colour) : std::string("  ")) + "  " + padded(v.about->name) + "  " +
           sentence_of(v) + "\n";
  }
  return out;
}

}  // namespace cutrace_tool::doctor
