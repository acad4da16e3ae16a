// SPDX-License-Identifier: Apache-2.0
// cutrace completion: prints a script that completes command lines in a shell, made of the options that the app really
// has.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

/// Adds the command; what it ends with is written to `exit_status`, which must live as long as `app` is parsed.
void add_completion(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
