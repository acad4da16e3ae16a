// SPDX-License-Identifier: Apache-2.0
// The command `cutrace`: each subcommand is added by its own file.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cutrace/version.hpp>

#include "doctor_command.hpp"

int main(int argc, char** argv) {
  CLI::App app{"cutrace: one timeline of a program's stages, CUDA calls and GPU work", "cutrace"};
  app.set_version_flag("--version", CUTRACE_VERSION_STRING);
  app.require_subcommand(1);
  int exit_status = 0;
  cutrace_tool::add_doctor(app, exit_status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return exit_status;
}
