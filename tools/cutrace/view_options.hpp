// SPDX-License-Identifier: Apache-2.0
// Options of the commands that read traces and print text: --top, --width, --quiet, --memory-limit.
#pragma once

#include <CLI/CLI.hpp>

#include "cutrace/memory_limit.hpp"
#include "cutrace/terminal.hpp"

namespace cutrace_tool {

inline void add_quiet_option(CLI::App& command, bool& quiet) {
  command.add_flag("--quiet", quiet, "No progress; complaints remain");
}

struct view_options {
  unsigned width = 0, top = 0;  ///< 0: not said
  bool quiet = false;

  /// @param top_help how many rows there are without --top; nullptr: there is no such option
  void add_options(CLI::App& command, const char* top_help) {
    if (top_help != nullptr) command.add_option("--top", top, top_help)->check(CLI::Range(1u, 100000u))->type_name("N");
    command.add_option("--width", width, "Columns; the terminal's, 100 at most")
        ->check(CLI::Range(80u, 400u))
        ->type_name("N");
    add_quiet_option(command, quiet);
    add_memory_option(command);
  }
  cutrace::report_options of_text() const { return terminal_options(width, top); }
};

}  // namespace cutrace_tool
