// SPDX-License-Identifier: Apache-2.0
// How the command ends: with the program's own status, or with one of these, as env, nice and timeout have them. And
// the one place where the command line is parsed and errors become a line.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

namespace cutrace_tool {

constexpr int exit_not_trusted = 3;    ///< --strict: the program succeeded, its trace is not whole
constexpr int exit_read_in_part = 4;   ///< a trace file was read, but not all of it could be
constexpr int exit_slower = 5;         ///< diff --fail-over: something became slower by more than that
constexpr int exit_own_failure = 125;  ///< the command itself could not do its work, the program was not started
constexpr int exit_not_executable = 126;
constexpr int exit_not_found = 127;
constexpr int exit_of_signal = 128;  ///< and the signal's number

/// What the user asked for cannot be done; the text says what to do.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline int parse_and_run(CLI::App& app, int argc, char** argv, int& exit_status) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    std::cerr << "cutrace: " << e.what() << "\n(cutrace --help and cutrace COMMAND --help say what can be given)\n";
    return exit_own_failure;
  } catch (const std::exception& e) {
    std::cerr << "cutrace: " << e.what() << '\n';
    return exit_own_failure;
  }
  return exit_status;
}

}  // namespace cutrace_tool
