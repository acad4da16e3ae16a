// SPDX-License-Identifier: Apache-2.0
// `cutrace merge`: traces of ranks and processes on one clock.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

void add_merge(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
