// SPDX-License-Identifier: Apache-2.0
// `cutrace explain`: what a process that is traced now waits for.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

void add_explain(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
