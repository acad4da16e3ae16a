// SPDX-License-Identifier: Apache-2.0
// `cutrace attach`: the calls of a process that runs already, for a while.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

void add_attach(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
