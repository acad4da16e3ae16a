// SPDX-License-Identifier: Apache-2.0
// `cutrace doctor`: what will work on this machine, what will not, and what can be done about it.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

/// Adds the subcommand. When it was chosen, `exit_status` is 0 where the asked methods work, 1 where one does not; a
/// command line that cannot be parsed throws CLI::ParseError.
void add_doctor(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
