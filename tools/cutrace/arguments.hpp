// SPDX-License-Identifier: Apache-2.0
// The command line up to "--", which is the command's, and what comes behind it, which is the program's: no option of
// the program is ever read as one of ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cutrace_tool::arguments {

/// The words behind the first "--", and whether there was one.
inline std::vector<std::string>& program() {
  static std::vector<std::string> words;
  return words;
}
inline bool& divided() {
  static bool found = false;
  return found;
}

/// Shortens `argc` to the command's own words. Called once, by main.
inline void split(int& argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--") continue;
    divided() = true;
    program().assign(argv + i + 1, argv + argc);
    argc = i;
  }
}

}  // namespace cutrace_tool::arguments
