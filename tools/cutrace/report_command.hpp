// SPDX-License-Identifier: Apache-2.0
// `cutrace report`: where the time of a trace file went, why the GPU was idle and what to do about it.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

void add_report(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
