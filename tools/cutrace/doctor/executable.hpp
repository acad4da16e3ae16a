// SPDX-License-Identifier: Apache-2.0
// What kind of executable a file is, by its first bytes (System V ABI, chapters 4 and 5) and its mode.
#pragma once

#include <string>

namespace cutrace_tool::doctor {

struct executable {
  std::string path;
  std::string error;        ///< why the file is no executable; empty where it is one
  std::string interpreter;  ///< of a script: what its first line names, else /bin/sh; empty for others
  bool elf = false;
  bool bits_32 = false;
  bool other_machine = false;  ///< of another processor than this command
  bool loader = false;         ///< it names a dynamic loader; without one it is static
  std::string loader_path;     ///< which one; empty for programs of 32 bits
  bool elevates = false;       ///< the kernel gives it another user, group or capabilities: it starts "secure"

  bool is_static() const noexcept { return elf && !loader; }
  /// Not of this processor and glibc: the program's dynamic loader rejects cutrace's libraries, at best with a line on
  /// stderr; musl's loader ends the program.
  bool is_foreign() const noexcept {
    return elf &&
           (bits_32 || other_machine || (!loader_path.empty() && loader_path.find("/ld-linux") == std::string::npos));
  }
};

/// The executable that runs: for a script its interpreter, or NAME where the interpreter is `env NAME`. `by_way_of`
/// gets "PATH is a script for " for each script on the way.
executable what_runs(const std::string& name, std::string& by_way_of);

/// `name` as a shell would find it: with a slash a path, else along PATH.
executable look_at_program(const std::string& name);

}  // namespace cutrace_tool::doctor
