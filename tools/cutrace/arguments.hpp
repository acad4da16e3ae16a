// SPDX-License-Identifier: Apache-2.0
// The command line of `cutrace run` and `doctor` up to "--", which is the command's, and what comes behind it, which is
// the program's: no option of the program is ever read as one of ours. Behind the "--" of other commands are names of
// files.
#pragma once

#include <algorithm>
#include <deque>
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

/// Takes the first "--" out. Words behind it are no options: one that begins with - becomes the same file as ./-name,
/// since CLI11 takes no further name behind "--" where it has one already.
inline void take_names(int& argc, char** argv) {
  static std::deque<std::string> names;
  char** const end = argv + argc;
  char** const mark = std::find_if(argv, end, [](const char* word) { return std::string_view(word) == "--"; });
  if (mark == end) return;
  std::copy(mark + 1, end, mark);
  --argc;
  for (char** word = mark; word != argv + argc; ++word)
    if ((*word)[0] == '-' && (*word)[1] != '\0') *word = names.emplace_back(std::string("./") + *word).data();
}

/// Leaves the own words of the command in `argv`. Called once, by main.
inline void split(int& argc, char** argv) {
  int command = 1;
  while (command < argc && argv[command][0] == '-') ++command;
  const std::string_view name = command < argc ? argv[command] : "run";
  if (name != "run" && name != "doctor") return take_names(argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--") continue;
    divided() = true;
    program().assign(argv + i + 1, argv + argc);
    argc = i;
  }
}

}  // namespace cutrace_tool::arguments
