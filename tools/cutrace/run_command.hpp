// SPDX-License-Identifier: Apache-2.0
// cutrace run: traces a program that knows nothing of cutrace.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

/// Adds the command; what it ends with is written to `exit_status`, which must live as long as `app` is parsed.
void add_run(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
